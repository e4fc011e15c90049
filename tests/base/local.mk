# Tests of base.
check_PROGRAMS += tests/base/test_alloc
TESTS += tests/base/test_alloc
tests_base_test_alloc_SOURCES = tests/base/test_alloc.c
tests_base_test_alloc_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_alloc_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_alloc_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_clock
TESTS += tests/base/test_clock
tests_base_test_clock_SOURCES = tests/base/test_clock.c
tests_base_test_clock_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_clock_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_clock_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_error
TESTS += tests/base/test_error
tests_base_test_error_SOURCES = tests/base/test_error.c
tests_base_test_error_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_error_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_error_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_id
TESTS += tests/base/test_id
tests_base_test_id_SOURCES = tests/base/test_id.c
tests_base_test_id_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_id_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_id_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_log
TESTS += tests/base/test_log
tests_base_test_log_SOURCES = tests/base/test_log.c
tests_base_test_log_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_log_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_log_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_num
TESTS += tests/base/test_num
tests_base_test_num_SOURCES = tests/base/test_num.c
tests_base_test_num_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_num_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_num_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_status
TESTS += tests/base/test_status
tests_base_test_status_SOURCES = tests/base/test_status.c
tests_base_test_status_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_status_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_status_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/base/test_strbuf
TESTS += tests/base/test_strbuf
tests_base_test_strbuf_SOURCES = tests/base/test_strbuf.c
tests_base_test_strbuf_CFLAGS = $(GMV_TEST_CFLAGS)
tests_base_test_strbuf_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_base_test_strbuf_LDADD = libgmv-base.la $(GMV_TEST_LIBS)
