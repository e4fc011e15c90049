# Tests of model.
check_PROGRAMS += tests/model/test_bitmask
TESTS += tests/model/test_bitmask
tests_model_test_bitmask_SOURCES = tests/model/test_bitmask.c tests/support/vectors.h
tests_model_test_bitmask_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_bitmask_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_bitmask_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_cai
TESTS += tests/model/test_cai
tests_model_test_cai_SOURCES = tests/model/test_cai.c tests/support/vectors.h
tests_model_test_cai_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_cai_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_cai_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_cudf_type
TESTS += tests/model/test_cudf_type
tests_model_test_cudf_type_SOURCES = tests/model/test_cudf_type.c tests/support/vectors.h
tests_model_test_cudf_type_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_cudf_type_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_cudf_type_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_dlpack
TESTS += tests/model/test_dlpack
tests_model_test_dlpack_SOURCES = tests/model/test_dlpack.c
tests_model_test_dlpack_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_dlpack_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_dlpack_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_dtype
TESTS += tests/model/test_dtype
tests_model_test_dtype_SOURCES = tests/model/test_dtype.c tests/support/vectors.h
tests_model_test_dtype_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_dtype_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_dtype_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_dtype_float
TESTS += tests/model/test_dtype_float
tests_model_test_dtype_float_SOURCES = tests/model/test_dtype_float.c
tests_model_test_dtype_float_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_dtype_float_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_dtype_float_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS) -lm

check_PROGRAMS += tests/model/test_layout
TESTS += tests/model/test_layout
tests_model_test_layout_SOURCES = tests/model/test_layout.c tests/support/vectors.h
tests_model_test_layout_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_layout_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_layout_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_packed_metadata
TESTS += tests/model/test_packed_metadata
tests_model_test_packed_metadata_SOURCES = tests/model/test_packed_metadata.c tests/support/vectors.h
tests_model_test_packed_metadata_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_packed_metadata_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_packed_metadata_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

check_PROGRAMS += tests/model/test_slice
TESTS += tests/model/test_slice
tests_model_test_slice_SOURCES = tests/model/test_slice.c tests/support/vectors.h
tests_model_test_slice_CFLAGS = $(GMV_TEST_CFLAGS)
tests_model_test_slice_CPPFLAGS = $(GMV_TEST_CPPFLAGS)
tests_model_test_slice_LDADD = libgmv-model.la libgmv-base.la $(GMV_TEST_LIBS)

EXTRA_DIST += tests/vectors
