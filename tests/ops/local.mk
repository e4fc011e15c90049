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

check_PROGRAMS += tests/ops/test_view
TESTS += tests/ops/test_view
tests_ops_test_view_SOURCES = tests/ops/test_view.c $(OPS_FIXTURE)
tests_ops_test_view_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_view_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_view_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_view_cai
TESTS += tests/ops/test_view_cai
tests_ops_test_view_cai_SOURCES = tests/ops/test_view_cai.c $(OPS_FIXTURE)
tests_ops_test_view_cai_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_view_cai_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_view_cai_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_contents
TESTS += tests/ops/test_contents
tests_ops_test_contents_SOURCES = tests/ops/test_contents.c $(OPS_FIXTURE)
tests_ops_test_contents_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_contents_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_contents_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_map
TESTS += tests/ops/test_map
tests_ops_test_map_SOURCES = tests/ops/test_map.c $(OPS_FIXTURE)
tests_ops_test_map_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_map_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_map_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_mask
TESTS += tests/ops/test_mask
tests_ops_test_mask_SOURCES = tests/ops/test_mask.c $(OPS_FIXTURE)
tests_ops_test_mask_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_mask_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_mask_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_mask_ranges
TESTS += tests/ops/test_mask_ranges
tests_ops_test_mask_ranges_SOURCES = tests/ops/test_mask_ranges.c $(OPS_FIXTURE)
tests_ops_test_mask_ranges_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_mask_ranges_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_mask_ranges_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_mask_vectors
TESTS += tests/ops/test_mask_vectors
tests_ops_test_mask_vectors_SOURCES = tests/ops/test_mask_vectors.c $(OPS_FIXTURE)
tests_ops_test_mask_vectors_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_mask_vectors_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_mask_vectors_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_engine_chaos
TESTS += tests/ops/test_engine_chaos
tests_ops_test_engine_chaos_SOURCES = tests/ops/test_engine_chaos.c $(OPS_FIXTURE)
tests_ops_test_engine_chaos_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_engine_chaos_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_engine_chaos_LDADD = $(OPS_TEST_LIBS)

# A plain program, so that it runs under ThreadSanitizer.
check_PROGRAMS += tests/ops/test_engine_race
TESTS += tests/ops/test_engine_race
tests_ops_test_engine_race_SOURCES = tests/ops/test_engine_race.c
tests_ops_test_engine_race_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_engine_race_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_engine_race_LDADD = $(OPS_TEST_LIBS)

# Columns, tables and packed tables.
check_PROGRAMS += tests/ops/test_column
TESTS += tests/ops/test_column
tests_ops_test_column_SOURCES = tests/ops/test_column.c tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_column_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_column_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_column_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_column_nested
TESTS += tests/ops/test_column_nested
tests_ops_test_column_nested_SOURCES = tests/ops/test_column_nested.c tests/ops/nested_support.h \
	tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_column_nested_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_column_nested_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_column_nested_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_table
TESTS += tests/ops/test_table
tests_ops_test_table_SOURCES = tests/ops/test_table.c tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_table_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_table_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_table_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_pack
TESTS += tests/ops/test_pack
tests_ops_test_pack_SOURCES = tests/ops/test_pack.c tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_pack_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_pack_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_pack_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_pack_nested
TESTS += tests/ops/test_pack_nested
tests_ops_test_pack_nested_SOURCES = tests/ops/test_pack_nested.c tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_pack_nested_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_pack_nested_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_pack_nested_LDADD = $(OPS_TEST_LIBS)

# The same on the real CUDA kernels compiled as C, where there is no device.
if GMV_HAVE_CUDA
check_PROGRAMS += tests/ops/test_pack_emulated
TESTS += tests/ops/test_pack_emulated
tests_ops_test_pack_emulated_SOURCES = \
	tests/ops/test_pack.c tests/ops/test_pack_nested.c tests/ops/packed_support.h $(OPS_FIXTURE) \
	tests/device/cuda_emulator.c tests/device/cuda_emulator.h tests/device/emulated_driver.c
tests_ops_test_pack_emulated_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_pack_emulated_CPPFLAGS = $(GMV_TEST_CPPFLAGS) $(CUDA_CPPFLAGS) -DFIXTURE_BACKEND='"cuda"'
tests_ops_test_pack_emulated_LDADD = $(OPS_TEST_LIBS)
endif

check_PROGRAMS += tests/ops/test_packed
TESTS += tests/ops/test_packed
tests_ops_test_packed_SOURCES = tests/ops/test_packed.c tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_packed_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_packed_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_packed_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_unpack
TESTS += tests/ops/test_unpack
tests_ops_test_unpack_SOURCES = tests/ops/test_unpack.c tests/ops/unpack_support.h tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_unpack_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_unpack_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_unpack_LDADD = $(OPS_TEST_LIBS)

check_PROGRAMS += tests/ops/test_chunked_pack
TESTS += tests/ops/test_chunked_pack
tests_ops_test_chunked_pack_SOURCES = tests/ops/test_chunked_pack.c tests/ops/nested_support.h \
	tests/ops/unpack_support.h tests/ops/packed_support.h $(OPS_FIXTURE)
tests_ops_test_chunked_pack_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_chunked_pack_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_chunked_pack_LDADD = $(OPS_TEST_LIBS)

# Looking inside arrays.
check_PROGRAMS += tests/ops/test_inspect
TESTS += tests/ops/test_inspect
tests_ops_test_inspect_SOURCES = tests/ops/test_inspect.c $(OPS_FIXTURE)
tests_ops_test_inspect_CFLAGS = $(GMV_TEST_CFLAGS)
tests_ops_test_inspect_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_ops_test_inspect_LDADD = $(OPS_TEST_LIBS)
