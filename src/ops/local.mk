noinst_LTLIBRARIES += libgmv-ops.la
libgmv_ops_la_SOURCES =
