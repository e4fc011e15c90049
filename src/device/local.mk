noinst_LTLIBRARIES += libgmv-device.la
libgmv_device_la_SOURCES = \
	src/device/backend.h \
	src/device/device.c \
	src/device/host/avx2_set.c \
	src/device/host/client_memory.h \
	src/device/host/host.h \
	src/device/host/host_device.c \
	src/device/host/host_export.c \
	src/device/host/host_guard.c \
	src/device/host/host_import.c \
	src/device/host/host_kernels.c \
	src/device/host/host_memory.c \
	src/device/host/host_system.c \
	src/device/host/kernel_set.h \
	src/device/host/portable_set.c

nobase_include_HEADERS += include/gmv/device/device.h include/gmv/device/kernels.h
