# Tests of ops.
OPS_TEST_LIBS = libgmv-ops.la libgmv-registry.la libgmv-device.la libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)
OPS_FIXTURE = tests/ops/fixture.h tests/ops/fixture.c

check_PROGRAMS += tests/ops/test_engine
TESTS += tests/ops/test_engine
tests_ops_test_engine_SOURCES = tests/ops/test_engine.c $(OPS_FIXTURE)
tests_ops_test_engine_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_engine_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_engine_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_buffer
TESTS += tests/ops/test_buffer
tests_ops_test_buffer_SOURCES = tests/ops/test_buffer.c $(OPS_FIXTURE)
tests_ops_test_buffer_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_buffer_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_buffer_LDADD = $(OPS_TEST_LIBS)
