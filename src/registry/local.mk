noinst_LTLIBRARIES += libgmv-registry.la
libgmv_registry_la_SOURCES = \
	src/registry/address_index.c \
	src/registry/delete.c \
	src/registry/dependents.c \
	src/registry/lease.c \
	src/registry/lookup.c \
	src/registry/node.c \
	src/registry/order.c \
	src/registry/order.h \
	src/registry/registry.c \
	src/registry/registry_priv.h \
	src/registry/session.c \
	src/registry/shard.c \
	src/registry/shard.h \
	src/registry/tombstones.c \
	src/registry/tombstones.h \
	src/registry/wheel.c \
	src/registry/wheel.h
gmvregistrydir = $(includedir)/gmv/registry
gmvregistry_HEADERS = \
	include/gmv/registry/address_index.h \
	include/gmv/registry/registry.h
