noinst_LTLIBRARIES += libgmv-base.la
libgmv_base_la_SOURCES = \
	src/base/alloc.c \
	src/base/clock.c \
	src/base/error.c \
	src/base/id.c \
	src/base/log.c \
	src/base/num.c \
	src/base/status.c \
	src/base/strbuf.c

gmvbasedir = $(includedir)/gmv/base
gmvbase_HEADERS = \
	include/gmv/base/alloc.h \
	include/gmv/base/atomic.h \
	include/gmv/base/attr.h \
	include/gmv/base/clock.h \
	include/gmv/base/error.h \
	include/gmv/base/id.h \
	include/gmv/base/log.h \
	include/gmv/base/num.h \
	include/gmv/base/status.h \
	include/gmv/base/strbuf.h
