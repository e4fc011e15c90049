noinst_LTLIBRARIES += libgmvd-http.la
libgmvd_http_la_SOURCES = \
	src/http/download.c \
	src/http/embedded.h \
	src/http/event_streams.c \
	src/http/events.c \
	src/http/events.h \
	src/http/exchange.c \
	src/http/exchange_head.c \
	src/http/exchange_jobs.c \
	src/http/exchange_priv.h \
	src/http/handle_batch.c \
	src/http/handle_buffers.c \
	src/http/handle_columns.c \
	src/http/handle_common.c \
	src/http/handle_dlpack.c \
	src/http/handle_events.c \
	src/http/handle_handles.c \
	src/http/handle_inspect.c \
	src/http/handle_kernels.c \
	src/http/handle_look.c \
	src/http/handle_packed.c \
	src/http/handle_priv.h \
	src/http/handle_server.c \
	src/http/handle_sessions.c \
	src/http/handle_tables.c \
	src/http/handle_views.c \
	src/http/handler.h \
	src/http/head.c \
	src/http/head.h \
	src/http/idempotency.c \
	src/http/idempotency.h \
	src/http/metrics.c \
	src/http/metrics.h \
	src/http/receivers.c \
	src/http/respond.c \
	src/http/router.c \
	src/http/router.h \
	src/http/routes.c \
	src/http/routes.def \
	src/http/senders.c \
	src/http/server.c \
	src/http/server.h \
	src/http/server_priv.h \
	src/http/service.c \
	src/http/service.h \
	src/http/workers.c \
	src/http/workers.h
nodist_libgmvd_http_la_SOURCES = \
	src/http/embedded_docs_html.c \
	src/http/embedded_openapi_json.c \
	src/http/embedded_openapi_yaml.c
libgmvd_http_la_CFLAGS = $(AM_CFLAGS) $(MICROHTTPD_CFLAGS) $(JANSSON_CFLAGS)
libgmvd_http_la_LIBADD = $(MICROHTTPD_LIBS) $(JANSSON_LIBS)

# Files that the daemon serves as they are.
EXTRA_DIST += openapi/baseline.json openapi/docs.html openapi/gmvd.json openapi/gmvd.yaml
CLEANFILES += $(nodist_libgmvd_http_la_SOURCES)
BUILT_SOURCES += $(nodist_libgmvd_http_la_SOURCES)

gmv_embed = $(AM_V_GEN)$(MKDIR_P) src/http && \
	$(SHELL) $(top_srcdir)/build-aux/embed.sh

src/http/embedded_docs_html.c: $(top_srcdir)/openapi/docs.html $(top_srcdir)/build-aux/embed.sh
	$(gmv_embed) gmv__docs_html $(top_srcdir)/openapi/docs.html >$@-t && mv -f $@-t $@

src/http/embedded_openapi_json.c: $(top_srcdir)/openapi/gmvd.json $(top_srcdir)/build-aux/embed.sh
	$(gmv_embed) gmv__openapi_json $(top_srcdir)/openapi/gmvd.json >$@-t && mv -f $@-t $@

src/http/embedded_openapi_yaml.c: $(top_srcdir)/openapi/gmvd.yaml $(top_srcdir)/build-aux/embed.sh
	$(gmv_embed) gmv__openapi_yaml $(top_srcdir)/openapi/gmvd.yaml >$@-t && mv -f $@-t $@
