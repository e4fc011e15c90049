# A stand-in for the NVIDIA driver, where the CUDA backend is built, and what is tested on it. A
# program to Automake, since libtool makes no shared objects here; run with
# LD_LIBRARY_PATH=tests/fake_cuda. Never installed.
EXTRA_DIST += \
	tests/fake_cuda/fake_calls.h \
	tests/fake_cuda/fake_cuda.h \
	tests/fake_cuda/fake_priv.h \
	tests/fake_cuda/fake_reductions.h \
	tests/fake_cuda/fake_support.h

if GMV_HAVE_CUDA
check_PROGRAMS += tests/fake_cuda/libcuda.so.1
tests_fake_cuda_libcuda_so_1_SOURCES = \
	tests/fake_cuda/fake_driver.c \
	tests/fake_cuda/fake_ipc.c \
	tests/fake_cuda/fake_kernels.c \
	tests/fake_cuda/fake_memory.c \
	tests/fake_cuda/fake_reductions.c \
	tests/fake_cuda/fake_stream.c
# Without sanitizers: programs that are not built here, such as Python, load it, too.
tests_fake_cuda_libcuda_so_1_CFLAGS = -std=gnu17 -pthread $(GMV_WARN_CFLAGS) -fPIC
tests_fake_cuda_libcuda_so_1_CPPFLAGS = $(GMV_TEST_CPPFLAGS) $(CUDA_CPPFLAGS) -D_GNU_SOURCE $(XXHASH_CFLAGS)
tests_fake_cuda_libcuda_so_1_LDADD = $(XXHASH_LIBS)
tests_fake_cuda_libcuda_so_1_LINK = $(CC) $(tests_fake_cuda_libcuda_so_1_CFLAGS) $(CFLAGS) $(LDFLAGS) \
	-shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o $@

check_PROGRAMS += tests/fake_cuda/test_fake_cuda
TESTS += tests/fake_cuda/test_fake_cuda
tests_fake_cuda_test_fake_cuda_SOURCES = tests/fake_cuda/test_fake_cuda.c
tests_fake_cuda_test_fake_cuda_CFLAGS = $(GMV_TEST_CFLAGS)
tests_fake_cuda_test_fake_cuda_CPPFLAGS = $(GMV_TEST_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_fake_cuda_test_fake_cuda_LDADD = $(GMV_TEST_LIBS)

check_PROGRAMS += tests/fake_cuda/test_cuda_chaos
TESTS += tests/fake_cuda/test_cuda_chaos
tests_fake_cuda_test_cuda_chaos_SOURCES = tests/fake_cuda/test_cuda_chaos.c
tests_fake_cuda_test_cuda_chaos_CPPFLAGS = $(GMV_TEST_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_fake_cuda_test_cuda_chaos_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la

check_PROGRAMS += tests/fake_cuda/test_cuda_lost
TESTS += tests/fake_cuda/test_cuda_lost
tests_fake_cuda_test_cuda_lost_SOURCES = tests/fake_cuda/test_cuda_lost.c
tests_fake_cuda_test_cuda_lost_CFLAGS = $(GMV_TEST_CFLAGS)
tests_fake_cuda_test_cuda_lost_CPPFLAGS = $(GMV_TEST_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_fake_cuda_test_cuda_lost_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

TESTS += tests/fake_cuda/run.sh

# The whole API on the CUDA backend, where there is no GPU.
check-integration-fake-cuda: gmvd tests/fake_cuda/libcuda.so.1
	GMV_SRCDIR='$(abs_top_srcdir)' GMV_BUILDDIR='$(abs_top_builddir)' GMVD_BACKEND=cuda \
	LD_LIBRARY_PATH='$(abs_top_builddir)/tests/fake_cuda' \
	$(PYTHON) -m pytest -q -p no:cacheprovider $(abs_top_srcdir)/tests/integration
endif
EXTRA_DIST += tests/fake_cuda/run.sh

.PHONY: check-integration-fake-cuda
