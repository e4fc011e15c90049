# Benchmarks: built by hand (make bench), never part of check.

EXTRA_PROGRAMS += bench/bench_kernels
bench_bench_kernels_SOURCES = bench/bench_kernels.c
bench_bench_kernels_LDADD = libgmv-device.la libgmv-base.la
