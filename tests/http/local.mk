# Tests of http.
HTTP_TEST_LIBS = libgmvd-http.la libgmvd-codec.la libgmv-ops.la libgmv-registry.la libgmv-device.la \
	libgmv-model.la libgmv-base.la
HTTP_SUPPORT = tests/http/support.h tests/http/support.c

# Plain programs, so that they run under ThreadSanitizer too.
check_PROGRAMS += tests/http/test_server
TESTS += tests/http/test_server
tests_http_test_server_SOURCES = tests/http/test_server.c $(HTTP_SUPPORT)
tests_http_test_server_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_server_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_server_LDADD = $(HTTP_TEST_LIBS)
