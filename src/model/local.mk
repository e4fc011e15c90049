noinst_LTLIBRARIES += libgmv-model.la
libgmv_model_la_SOURCES =
