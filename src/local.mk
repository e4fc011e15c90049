# libgmv holds the floors base to ops and knows nothing of HTTP or JSON; gmvd adds codec and http.
include src/base/local.mk
include src/model/local.mk
include src/device/local.mk
include src/registry/local.mk
include src/ops/local.mk
include src/codec/local.mk
include src/http/local.mk
include src/gmvd/local.mk

lib_LTLIBRARIES += libgmv.la
libgmv_la_SOURCES =
libgmv_la_LIBADD = libgmv-ops.la libgmv-registry.la libgmv-device.la libgmv-model.la libgmv-base.la
libgmv_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^gmv_[a-z]'

# Each floor installs its own headers: automake would keep the leading include/ of "nobase" ones.
gmvdir = $(includedir)/gmv
gmv_HEADERS = include/gmv/gmv.h

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = libgmv.pc
