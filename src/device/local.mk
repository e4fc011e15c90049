noinst_LTLIBRARIES += libgmv-device.la
libgmv_device_la_SOURCES = \
	src/device/backend.h \
	src/device/device.c \
	src/device/crc32c.c \
	src/device/elements.h \
	src/device/host/avx2_set.c \
	src/device/host/client_memory.h \
	src/device/host/host.h \
	src/device/host/host_device.c \
	src/device/host/host_export.c \
	src/device/host/host_guard.c \
	src/device/host/host_hash.c \
	src/device/host/host_import.c \
	src/device/host/host_indices.c \
	src/device/host/host_kernels.c \
	src/device/host/host_loops.c \
	src/device/host/host_loops.h \
	src/device/host/host_memory.c \
	src/device/host/host_reductions.c \
	src/device/host/host_split.c \
	src/device/host/host_system.c \
	src/device/host/kernel_set.h \
	src/device/host/portable_set.c \
	src/device/reductions.c \
	src/device/tiles.h
libgmv_device_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
libgmv_device_la_LIBADD = libgmv-cuda.la $(XXHASH_LIBS)

# The CUDA backend, apart because only it sees the toolkit's headers.
noinst_LTLIBRARIES += libgmv-cuda.la
if GMV_HAVE_CUDA
libgmv_cuda_la_SOURCES = \
	src/device/cuda/cuda_copy.c \
	src/device/cuda/cuda_device.c \
	src/device/cuda/cuda_driver.c \
	src/device/cuda/cuda_driver.h \
	src/device/cuda/cuda_error.c \
	src/device/cuda/cuda_handle.c \
	src/device/cuda/cuda_indices.c \
	src/device/cuda/cuda_kernels.c \
	src/device/cuda/cuda_cache.c \
	src/device/cuda/cuda_memory.c \
	src/device/cuda/cuda_priv.h \
	src/device/cuda/cuda_reductions.c \
	src/device/cuda/cuda_share.c \
	src/device/cuda/cuda_split.c \
	src/device/cuda/cuda_stream.c \
	src/device/cuda/cuda_timer.c \
	src/device/cuda/cuda_timer.h \
	src/device/cuda/kernels/arguments.h
nodist_libgmv_cuda_la_SOURCES = src/device/cuda/cuda_fatbin.c
libgmv_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
CLEANFILES += src/device/cuda/cuda_fatbin.c src/device/cuda/all.fatbin src/device/cuda/all.fatbin.d

gmv_nvcc = $(gmv_nvcc_@AM_V@)
gmv_nvcc_ = $(gmv_nvcc_@AM_DEFAULT_V@)
gmv_nvcc_0 = @echo "  NVCC    " $@;
gmv_nvcc_1 =

src/device/cuda/all.fatbin: $(top_srcdir)/src/device/cuda/kernels/all.cu
	$(gmv_nvcc)$(MKDIR_P) src/device/cuda && \
	"$(NVCC)" -fatbin -Xfatbin -compress-all -O3 -std=c++17 $(CUDA_GENCODE) -I$(top_srcdir)/src -I$(top_srcdir)/include -MD -MF $@.d -MT $@ \
		-o $@-t $(top_srcdir)/src/device/cuda/kernels/all.cu && mv -f $@-t $@

src/device/cuda/cuda_fatbin.c: src/device/cuda/all.fatbin $(top_srcdir)/build-aux/embed.sh $(top_srcdir)/src/device/local.mk
	$(AM_V_GEN)$(SHELL) $(top_srcdir)/build-aux/embed.sh gmv__cuda_fatbin src/device/cuda/all.fatbin \
		>$@-t && mv -f $@-t $@

-include src/device/cuda/all.fatbin.d
else
libgmv_cuda_la_SOURCES = src/device/cuda/cuda_none.c
libgmv_cuda_la_CPPFLAGS = $(AM_CPPFLAGS)
endif
EXTRA_DIST += \
	src/device/cuda/kernels/all.cu \
	src/device/cuda/kernels/bits.cuh \
	src/device/cuda/kernels/compare.cuh \
	src/device/cuda/kernels/gather.cuh \
	src/device/cuda/kernels/hash.cuh \
	src/device/cuda/kernels/histogram.cuh \
	src/device/cuda/kernels/indices.cuh \
	src/device/cuda/kernels/language.cuh \
	src/device/cuda/kernels/masks.cuh \
	src/device/cuda/kernels/pieces.cuh \
	src/device/cuda/kernels/reduce.cuh \
	src/device/cuda/kernels/split.cuh \
	src/device/cuda/kernels/statistics.cuh \
	src/device/cuda/kernels/transpose.cuh \
	src/device/cuda/kernels/sums.cuh \
	src/device/cuda/kernels/valid.cuh

gmvdevicedir = $(includedir)/gmv/device
gmvdevice_HEADERS = include/gmv/device/device.h include/gmv/device/kernels.h \
	include/gmv/device/partials.h include/gmv/device/reductions.h include/gmv/device/split.h
