noinst_LTLIBRARIES += libgmv-ops.la
libgmv_ops_la_SOURCES =

# Columns, tables and packed tables.
nobase_include_HEADERS += include/gmv/ops/column.h include/gmv/ops/table.h include/gmv/ops/packed.h
libgmv_ops_la_SOURCES += src/ops/column_priv.h src/ops/packed_priv.h \
	src/ops/column.c src/ops/column_from_view.c src/ops/column_rows.c src/ops/table.c \
	src/ops/packed.c src/ops/pack_plan.c src/ops/pack.c src/ops/unpack.c
