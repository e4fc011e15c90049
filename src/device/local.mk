noinst_LTLIBRARIES += libgmv-device.la
libgmv_device_la_SOURCES =
