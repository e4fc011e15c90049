bin_PROGRAMS += gmvd
gmvd_SOURCES = \
	src/gmvd/healthcheck.c \
	src/gmvd/healthcheck.h \
	src/gmvd/main.c \
	src/gmvd/options.c \
	src/gmvd/options.h
gmvd_LDADD = libgmvd-http.la libgmvd-codec.la libgmv.la
