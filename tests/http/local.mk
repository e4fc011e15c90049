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

check_PROGRAMS += tests/http/test_router
TESTS += tests/http/test_router
tests_http_test_router_SOURCES = tests/http/test_router.c
tests_http_test_router_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_router_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_router_LDADD = $(HTTP_TEST_LIBS) $(GMV_TEST_LIBS)

check_PROGRAMS += tests/http/test_idempotency
TESTS += tests/http/test_idempotency
tests_http_test_idempotency_SOURCES = tests/http/test_idempotency.c
tests_http_test_idempotency_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_idempotency_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_idempotency_LDADD = $(HTTP_TEST_LIBS) $(GMV_TEST_LIBS)

check_PROGRAMS += tests/http/test_head
TESTS += tests/http/test_head
tests_http_test_head_SOURCES = tests/http/test_head.c
tests_http_test_head_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_head_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_head_LDADD = $(HTTP_TEST_LIBS) $(GMV_TEST_LIBS)

check_PROGRAMS += tests/http/test_metrics
TESTS += tests/http/test_metrics
tests_http_test_metrics_SOURCES = tests/http/test_metrics.c
tests_http_test_metrics_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_metrics_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_metrics_LDADD = $(HTTP_TEST_LIBS) $(GMV_TEST_LIBS)

check_PROGRAMS += tests/http/test_options
TESTS += tests/http/test_options
tests_http_test_options_SOURCES = tests/http/test_options.c src/gmvd/options.c src/gmvd/options.h
tests_http_test_options_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_options_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_options_LDADD = libgmv-base.la $(GMV_TEST_LIBS)

# Runs the daemon itself.
check_PROGRAMS += tests/http/test_daemon
TESTS += tests/http/test_daemon
tests_http_test_daemon_SOURCES = tests/http/test_daemon.c $(HTTP_SUPPORT)
tests_http_test_daemon_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_daemon_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_daemon_LDADD = $(HTTP_TEST_LIBS)

check_PROGRAMS += tests/http/test_handlers
TESTS += tests/http/test_handlers
tests_http_test_handlers_SOURCES = tests/http/test_handlers.c $(OPS_FIXTURE)
tests_http_test_handlers_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_handlers_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_handlers_LDADD = $(HTTP_TEST_LIBS) $(GMV_TEST_LIBS)

check_PROGRAMS += tests/http/test_event_streams
TESTS += tests/http/test_event_streams
tests_http_test_event_streams_SOURCES = tests/http/test_event_streams.c $(HTTP_SUPPORT)
tests_http_test_event_streams_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_event_streams_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_event_streams_LDADD = $(HTTP_TEST_LIBS)

check_PROGRAMS += tests/http/test_events
TESTS += tests/http/test_events
tests_http_test_events_SOURCES = tests/http/test_events.c
tests_http_test_events_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_events_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_events_LDADD = $(HTTP_TEST_LIBS) $(GMV_TEST_LIBS)

check_PROGRAMS += tests/http/test_download
TESTS += tests/http/test_download
tests_http_test_download_SOURCES = tests/http/test_download.c $(HTTP_SUPPORT)
tests_http_test_download_CFLAGS = $(GMV_TEST_CFLAGS)
tests_http_test_download_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_http_test_download_LDADD = $(HTTP_TEST_LIBS)
