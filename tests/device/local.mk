# Tests of device.
EXTRA_DIST += tests/device/device_support.h

check_PROGRAMS += tests/device/test_memory
TESTS += tests/device/test_memory
tests_device_test_memory_SOURCES = tests/device/test_memory.c
tests_device_test_memory_CFLAGS = $(GMV_TEST_CFLAGS)
tests_device_test_memory_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_device_test_memory_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/device/test_kernels
TESTS += tests/device/test_kernels
tests_device_test_kernels_SOURCES = tests/device/test_kernels.c
tests_device_test_kernels_CFLAGS = $(GMV_TEST_CFLAGS)
tests_device_test_kernels_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_device_test_kernels_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS) -lm

check_PROGRAMS += tests/device/test_reductions
TESTS += tests/device/test_reductions
tests_device_test_reductions_SOURCES = tests/device/test_reductions.c
tests_device_test_reductions_CFLAGS = $(GMV_TEST_CFLAGS)
tests_device_test_reductions_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_device_test_reductions_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/device/test_sharing
TESTS += tests/device/test_sharing
tests_device_test_sharing_SOURCES = tests/device/test_sharing.c
tests_device_test_sharing_CFLAGS = $(GMV_TEST_CFLAGS)
tests_device_test_sharing_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_device_test_sharing_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/device/race_import
TESTS += tests/device/race_import
tests_device_race_import_SOURCES = tests/device/race_import.c
tests_device_race_import_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la

check_PROGRAMS += tests/device/race_split
TESTS += tests/device/race_split
tests_device_race_split_SOURCES = tests/device/race_split.c
tests_device_race_split_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la

check_PROGRAMS += tests/device/test_vectors
TESTS += tests/device/test_vectors
tests_device_test_vectors_SOURCES = tests/device/test_vectors.c
tests_device_test_vectors_CFLAGS = $(GMV_TEST_CFLAGS)
tests_device_test_vectors_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_device_test_vectors_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

# The same with the real CUDA kernels compiled as C, where there is no device.
if GMV_HAVE_CUDA
check_PROGRAMS += tests/device/test_emulated
TESTS += tests/device/test_emulated
tests_device_test_emulated_SOURCES = \
	tests/device/cuda_emulator.c \
	tests/device/cuda_emulator.h \
	tests/device/emulated_driver.c \
	tests/device/test_differential.c
tests_device_test_emulated_CPPFLAGS = $(GMV_TEST_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-DDIFFERENTIAL_ROUNDS=150 -DDIFFERENTIAL_KIB=9216
tests_device_test_emulated_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la
endif

check_PROGRAMS += tests/device/test_differential
TESTS += tests/device/test_differential
tests_device_test_differential_SOURCES = tests/device/test_differential.c
tests_device_test_differential_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la

check_PROGRAMS += tests/device/test_ipc
TESTS += tests/device/test_ipc
tests_device_test_ipc_SOURCES = tests/device/test_ipc.c
tests_device_test_ipc_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la

# What only a real GPU has: a context that a faulty kernel has ended.
check_PROGRAMS += tests/device/test_lost
TESTS += tests/device/test_lost
tests_device_test_lost_SOURCES = tests/device/test_lost.c tests/gpu/fault.h
tests_device_test_lost_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_device_test_lost_LDADD = libgmv-device.la libgmv-model.la libgmv-base.la
