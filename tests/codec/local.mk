# Tests of codec.
CODEC_TEST_LIBS = libgmvd-codec.la libgmv-ops.la libgmv-registry.la libgmv-device.la libgmv-model.la libgmv-base.la \
	$(GMV_TEST_LIBS)

check_PROGRAMS += tests/codec/test_base64
TESTS += tests/codec/test_base64
tests_codec_test_base64_SOURCES = tests/codec/test_base64.c
tests_codec_test_base64_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_base64_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_base64_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_contents
TESTS += tests/codec/test_contents
tests_codec_test_contents_SOURCES = tests/codec/test_contents.c
tests_codec_test_contents_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_contents_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_contents_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_batch_json
TESTS += tests/codec/test_batch_json
tests_codec_test_batch_json_SOURCES = tests/codec/test_batch_json.c
tests_codec_test_batch_json_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_batch_json_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_batch_json_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_siphash
TESTS += tests/codec/test_siphash
tests_codec_test_siphash_SOURCES = tests/codec/test_siphash.c
tests_codec_test_siphash_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_siphash_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_siphash_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_cursor
TESTS += tests/codec/test_cursor
tests_codec_test_cursor_SOURCES = tests/codec/test_cursor.c
tests_codec_test_cursor_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_cursor_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_cursor_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_json
TESTS += tests/codec/test_json
tests_codec_test_json_SOURCES = tests/codec/test_json.c
tests_codec_test_json_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_json_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_json_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_json_float
TESTS += tests/codec/test_json_float
tests_codec_test_json_float_SOURCES = tests/codec/test_json_float.c
tests_codec_test_json_float_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_json_float_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_json_float_LDADD = $(CODEC_TEST_LIBS) -lm

check_PROGRAMS += tests/codec/test_json_writer
TESTS += tests/codec/test_json_writer
tests_codec_test_json_writer_SOURCES = tests/codec/test_json_writer.c
tests_codec_test_json_writer_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_json_writer_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_json_writer_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_problem
TESTS += tests/codec/test_problem
tests_codec_test_problem_SOURCES = tests/codec/test_problem.c
tests_codec_test_problem_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_problem_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_problem_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_query
TESTS += tests/codec/test_query
tests_codec_test_query_SOURCES = tests/codec/test_query.c
tests_codec_test_query_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_query_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_query_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_range
TESTS += tests/codec/test_range
tests_codec_test_range_SOURCES = tests/codec/test_range.c
tests_codec_test_range_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_range_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_range_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_cai_json
TESTS += tests/codec/test_cai_json
tests_codec_test_cai_json_SOURCES = tests/codec/test_cai_json.c $(OPS_FIXTURE) tests/support/vectors.h
tests_codec_test_cai_json_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_cai_json_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_cai_json_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_decode
TESTS += tests/codec/test_decode
tests_codec_test_decode_SOURCES = tests/codec/test_decode.c tests/support/vectors.h
tests_codec_test_decode_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_decode_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_decode_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_encode_inspect
TESTS += tests/codec/test_encode_inspect
tests_codec_test_encode_inspect_SOURCES = tests/codec/test_encode_inspect.c
tests_codec_test_encode_inspect_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_encode_inspect_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_encode_inspect_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_values
TESTS += tests/codec/test_values
tests_codec_test_values_SOURCES = tests/codec/test_values.c
tests_codec_test_values_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_values_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_values_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_column_values
TESTS += tests/codec/test_column_values
tests_codec_test_column_values_SOURCES = tests/codec/test_column_values.c tests/ops/nested_support.h \
	tests/ops/packed_support.h $(OPS_FIXTURE)
tests_codec_test_column_values_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_column_values_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_column_values_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_encode
TESTS += tests/codec/test_encode
tests_codec_test_encode_SOURCES = tests/codec/test_encode.c $(OPS_FIXTURE)
tests_codec_test_encode_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_encode_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_encode_LDADD = $(CODEC_TEST_LIBS)

check_PROGRAMS += tests/codec/test_ipc_handle
TESTS += tests/codec/test_ipc_handle
tests_codec_test_ipc_handle_SOURCES = tests/codec/test_ipc_handle.c
tests_codec_test_ipc_handle_CFLAGS = $(GMV_TEST_CFLAGS)
tests_codec_test_ipc_handle_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_codec_test_ipc_handle_LDADD = $(CODEC_TEST_LIBS)
