noinst_LTLIBRARIES += libgmvd-codec.la
libgmvd_codec_la_SOURCES =
libgmvd_codec_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libgmvd_codec_la_LIBADD = $(JANSSON_LIBS)
