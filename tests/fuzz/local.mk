# Fuzz targets. A target is one C file, tests/fuzz/fuzz_NAME.c, that defines
# LLVMFuzzerTestOneInput (tests/fuzz/fuzz.h), and a folder of small inputs, tests/fuzz/corpus/NAME.
#
# Ordinary builds link it with driver.c, which runs the corpus and mutations of it in "make check".
# Configured with CC=clang --enable-fuzz --enable-sanitize=address,undefined it is a libFuzzer
# program instead: "make fuzz FUZZ_SECONDS=600" runs all, and keeps what it finds in fuzz-NAME/
# (FUZZ_FOLDER-NAME/).
#
# To add one, write its name to fuzz_targets and say what it is made of (highest floor first):
#
#     fuzz_targets += tests/fuzz/fuzz_NAME
#     tests_fuzz_fuzz_NAME_SOURCES = tests/fuzz/fuzz_NAME.c tests/fuzz/fuzz.h
#     tests_fuzz_fuzz_NAME_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
#     tests_fuzz_fuzz_NAME_LDFLAGS = $(FUZZ_LINK)
#     tests_fuzz_fuzz_NAME_LDADD = $(FUZZ_LIBS) libgmv-model.la libgmv-base.la
#
# The corpora are made by tests/fuzz/make_corpora.py and make_codec_corpora.py from the vectors.
fuzz_targets =

if GMV_FUZZ
FUZZ_LINK = $(AM_LDFLAGS) -fsanitize=fuzzer
FUZZ_LIBS =
FUZZ_BY = libfuzzer
else
FUZZ_LINK = $(AM_LDFLAGS)
FUZZ_LIBS = libgmv-fuzz.la
FUZZ_BY = driver
check_LTLIBRARIES += libgmv-fuzz.la
libgmv_fuzz_la_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz.h
libgmv_fuzz_la_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
endif

fuzz_targets += tests/fuzz/fuzz_layout
tests_fuzz_fuzz_layout_SOURCES = tests/fuzz/fuzz_layout.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_layout_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_layout_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_layout_LDADD = $(FUZZ_LIBS) libgmv-model.la libgmv-base.la

fuzz_targets += tests/fuzz/fuzz_packed_metadata
tests_fuzz_fuzz_packed_metadata_SOURCES = tests/fuzz/fuzz_packed_metadata.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_packed_metadata_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_packed_metadata_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_packed_metadata_LDADD = $(FUZZ_LIBS) libgmv-model.la libgmv-base.la

fuzz_targets += tests/fuzz/fuzz_slice
tests_fuzz_fuzz_slice_SOURCES = tests/fuzz/fuzz_slice.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_slice_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_slice_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_slice_LDADD = $(FUZZ_LIBS) libgmv-model.la libgmv-base.la

fuzz_targets += tests/fuzz/fuzz_typestr
tests_fuzz_fuzz_typestr_SOURCES = tests/fuzz/fuzz_typestr.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_typestr_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_typestr_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_typestr_LDADD = $(FUZZ_LIBS) libgmv-model.la libgmv-base.la

# The codec writes the objects of ops, so its targets hold every floor below.
FUZZ_CODEC_LIBS = libgmvd-codec.la libgmv-ops.la libgmv-registry.la libgmv-device.la libgmv-model.la libgmv-base.la \
	$(JANSSON_LIBS)

fuzz_targets += tests/fuzz/fuzz_body
tests_fuzz_fuzz_body_SOURCES = tests/fuzz/fuzz_body.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_body_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_body_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_body_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

fuzz_targets += tests/fuzz/fuzz_columns
tests_fuzz_fuzz_columns_SOURCES = tests/fuzz/fuzz_columns.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_columns_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_columns_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_columns_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

# Unpacking whole: every floor up to ops, over a small device of the host backend.
fuzz_targets += tests/fuzz/fuzz_unpack
tests_fuzz_fuzz_unpack_SOURCES = tests/fuzz/fuzz_unpack.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_unpack_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_unpack_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_unpack_LDADD = $(FUZZ_LIBS) libgmv-ops.la libgmv-registry.la libgmv-device.la libgmv-model.la libgmv-base.la

fuzz_targets += tests/fuzz/fuzz_json
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz_json.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_json_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_json_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_json_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

fuzz_targets += tests/fuzz/fuzz_batch
tests_fuzz_fuzz_batch_SOURCES = tests/fuzz/fuzz_batch.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_batch_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_batch_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_batch_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

fuzz_targets += tests/fuzz/fuzz_path
tests_fuzz_fuzz_path_SOURCES = tests/fuzz/fuzz_path.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_path_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_path_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_path_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

fuzz_targets += tests/fuzz/fuzz_query
tests_fuzz_fuzz_query_SOURCES = tests/fuzz/fuzz_query.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_query_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_query_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_query_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

fuzz_targets += tests/fuzz/fuzz_range
tests_fuzz_fuzz_range_SOURCES = tests/fuzz/fuzz_range.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_range_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_range_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_range_LDADD = $(FUZZ_LIBS) $(FUZZ_CODEC_LIBS)

fuzz_targets += tests/fuzz/fuzz_head
tests_fuzz_fuzz_head_SOURCES = tests/fuzz/fuzz_head.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_head_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_fuzz_fuzz_head_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_head_LDADD = $(FUZZ_LIBS) $(HTTP_TEST_LIBS)

check_PROGRAMS += $(fuzz_targets)
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/make_codec_corpora.py tests/fuzz/make_corpora.py

if !GMV_FUZZ
TESTS += $(fuzz_targets)
endif

# A seed of 0 is a new one at every run. FUZZ_RUNS=N ends each target after so many inputs instead of
# after a time: with a seed, the same ones on a machine of any speed. Two whose inputs are much work
# get a twentieth.
FUZZ_SECONDS = 60
FUZZ_RUNS =
FUZZ_SEED = 0
FUZZ_FOLDER = fuzz
.PHONY: fuzz
fuzz: $(fuzz_targets)
	@test '$(FUZZ_BY)' = libfuzzer || \
	  { echo 'configure with CC=clang --enable-fuzz --enable-sanitize=address,undefined' >&2; exit 1; }
	@for target in $(fuzz_targets); do \
	  name=$${target##*/fuzz_}; \
	  runs=$(FUZZ_RUNS); \
	  case $$name in columns | unpack) runs=$${runs:+$$((runs / 20))} ;; esac; \
	  limit=$${runs:+-runs=$$runs}; \
	  limit=$${limit:--max_total_time=$(FUZZ_SECONDS)}; \
	  mkdir -p "$(FUZZ_FOLDER)-$$name" || exit 1; \
	  echo "$$name, $$limit"; \
	  ./$$target $$limit -seed=$(FUZZ_SEED) -max_len=4096 -timeout=60 -print_final_stats=1 \
	    -artifact_prefix="$(FUZZ_FOLDER)-$$name/" "$(FUZZ_FOLDER)-$$name" "$(srcdir)/tests/fuzz/corpus/$$name" || exit 1; \
	done
