# Unit tests print TAP (Criterion through CRITERION_OUTPUTS, plain programs by hand); scripts print TAP too.
TEST_EXTENSIONS = .sh
LOG_DRIVER = $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
SH_LOG_DRIVER = $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
# A program that hangs is ended after these seconds, and so told; none comes near, however busy the machine is.
LOG_COMPILER = timeout
AM_LOG_FLAGS = 1800
AM_TESTS_ENVIRONMENT = \
	CRITERION_OUTPUTS=tap:-; export CRITERION_OUTPUTS; \
	GMV_SRCDIR='$(abs_top_srcdir)'; export GMV_SRCDIR; \
	GMV_BUILDDIR='$(abs_top_builddir)'; export GMV_BUILDDIR; \
	ASAN_OPTIONS="allocator_may_return_null=1:$$ASAN_OPTIONS"; export ASAN_OPTIONS; \
	TSAN_OPTIONS="allocator_may_return_null=1:$$TSAN_OPTIONS"; export TSAN_OPTIONS; \
	LSAN_OPTIONS="suppressions=$(abs_top_srcdir)/tests/support/lsan.supp:print_suppressions=0"; export LSAN_OPTIONS; \
	CC='$(CC)'; export CC; NM='$(NM)'; export NM; PYTHON='$(PYTHON)'; export PYTHON;

GMV_TEST_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(JANSSON_CFLAGS) -Wno-missing-prototypes -Wno-null-dereference
GMV_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
GMV_TEST_LIBS = $(CRITERION_LIBS) $(JANSSON_LIBS)

EXTRA_DIST += tests/support/lsan.supp

include tests/base/local.mk
include tests/model/local.mk
include tests/device/local.mk
include tests/fake_cuda/local.mk
include tests/registry/local.mk
include tests/ops/local.mk
include tests/codec/local.mk
include tests/http/local.mk
include tests/lint/local.mk
include tests/fuzz/local.mk
include tests/integration/local.mk
include tests/install/local.mk
include tests/gpu/local.mk

# Plain programs whose threads race: what a build with ThreadSanitizer runs (Criterion does not start there).
RACE_TESTS = tests/device/race_import tests/device/race_split tests/registry/race_registry tests/registry/race_lives \
	tests/ops/test_engine_race tests/http/test_server tests/http/test_download tests/http/test_event_streams

.PHONY: check-races
check-races: $(RACE_TESTS)
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(RACE_TESTS)'
