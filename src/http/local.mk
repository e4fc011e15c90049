noinst_LTLIBRARIES += libgmvd-http.la
libgmvd_http_la_SOURCES =
libgmvd_http_la_CFLAGS = $(AM_CFLAGS) $(MICROHTTPD_CFLAGS) $(JANSSON_CFLAGS)
libgmvd_http_la_LIBADD = $(MICROHTTPD_LIBS) $(JANSSON_LIBS)
