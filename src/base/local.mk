noinst_LTLIBRARIES += libgmv-base.la
libgmv_base_la_SOURCES =
