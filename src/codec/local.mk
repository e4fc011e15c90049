noinst_LTLIBRARIES += libgmvd-codec.la
libgmvd_codec_la_SOURCES = \
	src/codec/base64.c \
	src/codec/base64.h \
	src/codec/batch_json.c \
	src/codec/batch_json.h \
	src/codec/cai_json.c \
	src/codec/cursor.c \
	src/codec/cursor.h \
	src/codec/decode.c \
	src/codec/decode.h \
	src/codec/decode_hint.c \
	src/codec/decode_hint.h \
	src/codec/decode_priv.h \
	src/codec/dlpack_json.c \
	src/codec/dlpack_json.h \
	src/codec/encode.c \
	src/codec/encode.h \
	src/codec/encode_inspect.c \
	src/codec/encode_inspect.h \
	src/codec/hexdump.c \
	src/codec/hexdump.h \
	src/codec/ipc_handle.c \
	src/codec/ipc_handle.h \
	src/codec/json.c \
	src/codec/json.h \
	src/codec/json_float.c \
	src/codec/json_writer.c \
	src/codec/json_writer.h \
	src/codec/multipart.c \
	src/codec/multipart.h \
	src/codec/name_list.c \
	src/codec/name_list.h \
	src/codec/npy.c \
	src/codec/npy.h \
	src/codec/problem.c \
	src/codec/problem.h \
	src/codec/query.c \
	src/codec/query.h \
	src/codec/range.c \
	src/codec/range.h \
	src/codec/siphash.c \
	src/codec/siphash.h \
	src/codec/utf8.c \
	src/codec/utf8.h \
	src/codec/column_values.c \
	src/codec/column_values.h \
	src/codec/values.c \
	src/codec/values.h
libgmvd_codec_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libgmvd_codec_la_LIBADD = $(JANSSON_LIBS)
