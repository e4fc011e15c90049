noinst_LTLIBRARIES += libgmv-registry.la
libgmv_registry_la_SOURCES =
