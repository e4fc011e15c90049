noinst_LTLIBRARIES += libgmv-ops.la
libgmv_ops_la_SOURCES =

# Engine, operations, buffers, views and null masks.
gmvopsdir = $(includedir)/gmv/ops
gmvops_HEADERS = include/gmv/ops/engine.h include/gmv/ops/operation.h \
	include/gmv/ops/buffer.h include/gmv/ops/view.h include/gmv/ops/mask.h
libgmv_ops_la_SOURCES += src/ops/draft_priv.h src/ops/mask_priv.h \
	src/ops/engine.c src/ops/operation.c \
	src/ops/buffer.c src/ops/buffer_bytes.c src/ops/buffer_upload.c \
	src/ops/view.c src/ops/view_create.c src/ops/view_dlpack.c src/ops/view_read.c src/ops/result.c \
	src/ops/mask_count.c src/ops/mask_input.c src/ops/mask_make.c

# Looking inside.
gmvops_HEADERS += include/gmv/ops/map.h include/gmv/ops/mask_check.h
libgmv_ops_la_SOURCES += src/ops/buffer_map.c src/ops/column_mask_check.c

# Columns and tables.
gmvops_HEADERS += include/gmv/ops/column.h include/gmv/ops/table.h
libgmv_ops_la_SOURCES += src/ops/column_priv.h src/ops/table.c \
	src/ops/column.c src/ops/column_check.c src/ops/column_from_view.c src/ops/column_offsets.c \
	src/ops/column_rows.c

# Packed tables.
gmvops_HEADERS += include/gmv/ops/packed.h include/gmv/ops/chunked_pack.h
libgmv_ops_la_SOURCES += src/ops/packed_priv.h \
	src/ops/packed.c src/ops/pack_plan.c src/ops/pack_layout.c src/ops/pack.c \
	src/ops/unpack_priv.h src/ops/unpack_read.c src/ops/unpack.c \
	src/ops/chunked_pack_priv.h src/ops/chunked_pack_sizes.c src/ops/chunked_pack.c

# Looking inside arrays.
gmvops_HEADERS += include/gmv/ops/inspect.h
libgmv_ops_la_SOURCES += src/ops/inspect_priv.h src/ops/inspect_subject.c src/ops/inspect_statistics.c \
	src/ops/inspect_histogram.c src/ops/inspect_checksum.c src/ops/inspect_compare.c \
	src/ops/inspect_validity.c
libgmv_ops_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
