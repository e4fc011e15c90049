bin_PROGRAMS += gmvd
gmvd_SOURCES = src/gmvd/main.c
gmvd_LDADD = libgmvd-http.la libgmvd-codec.la libgmv.la
