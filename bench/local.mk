# Benchmarks: built by hand, each by its name (make bench/bench_kernels), never part of check.

EXTRA_PROGRAMS += bench/bench_kernels
bench_bench_kernels_SOURCES = bench/bench_kernels.c
bench_bench_kernels_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la

EXTRA_PROGRAMS += bench/bare_mhd bench/paced
bench_bare_mhd_SOURCES = bench/bare_mhd.c
bench_bare_mhd_CFLAGS = $(AM_CFLAGS) $(MICROHTTPD_CFLAGS)
bench_bare_mhd_LDADD = $(MICROHTTPD_LIBS)
bench_paced_SOURCES = bench/paced.c
EXTRA_DIST += bench/README.md bench/bench_http.py

EXTRA_PROGRAMS += bench/bench_registry
bench_bench_registry_SOURCES = bench/bench_registry.c
bench_bench_registry_LDADD = libgmv-registry.la libgmv-base.la

if GMV_HAVE_CUDA
EXTRA_PROGRAMS += bench/bench_cuda
bench_bench_cuda_SOURCES = bench/bench_cuda.c
bench_bench_cuda_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la
endif

EXTRA_PROGRAMS += bench/bench_split
bench_bench_split_SOURCES = bench/bench_split.c
bench_bench_split_LDADD = libgmv-ops.la libgmv-registry.la libgmv-device.la libgmv-model.la libgmv-base.la
