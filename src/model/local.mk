noinst_LTLIBRARIES += libgmv-model.la
libgmv_model_la_SOURCES = \
	src/model/bitmask.c \
	src/model/cai.c \
	src/model/cudf_type.c \
	src/model/dlpack.c \
	src/model/dtype.c \
	src/model/dtype_float.c \
	src/model/layout.c \
	src/model/packed_metadata.c \
	src/model/slice.c

gmvmodeldir = $(includedir)/gmv/model
gmvmodel_HEADERS = \
	include/gmv/model/bitmask.h \
	include/gmv/model/cai.h \
	include/gmv/model/cudf_type.h \
	include/gmv/model/dlpack.h \
	include/gmv/model/dtype.h \
	include/gmv/model/dtype_float.h \
	include/gmv/model/layout.h \
	include/gmv/model/packed_metadata.h \
	include/gmv/model/slice.h
