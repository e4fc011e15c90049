/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of handlers share. A handler decodes the body into a struct of members, looks up
 * the path's handle, then the body's, calls one op and encodes. Answers that cannot be written for
 * want of memory take back what was made, so that a failed request changes nothing.
 *
 * Leases need nothing from a handler that makes something: gmv_handle_body takes `ttl_seconds`
 * wherever the table of fields has a LABEL, and every name that the operation makes gets it. A
 * route with bytes in the body lists "label,ttl_seconds" among its query parameters and calls
 * gmv_creation_from_query in each step that makes something.
 */
#ifndef GMV_HTTP_HANDLE_PRIV_H
#define GMV_HTTP_HANDLE_PRIV_H

#include "codec/decode.h"
#include "codec/encode.h"
#include "http/handler.h"

/* Members of many requests: what the new handle is called, and where a result lies. */
typedef struct gmv_result_members {
    gmv_text label;
    bool exportable;
} gmv_result_members;

#define GMV_RESULT_FIELDS(struct_type, member)            \
    GMV_FIELD("label", LABEL, struct_type, member.label), \
        GMV_FIELD("exportable", BOOL, struct_type, member.exportable)

gmv_creation gmv_creation_of(const gmv_result_members *members);
gmv_creation gmv_creation_labelled(const gmv_text *label);

/* The query parameters `label` and `ttl_seconds`; the latter goes to the operation. */
GMV_NODISCARD gmv_status gmv_creation_from_query(gmv_request *request, gmv_creation *out_creation,
                                                 gmv_error *err);

/* Does the work of a request whose body has been decoded into `members`. */
typedef gmv_status (*gmv_body_run)(gmv_request *request, gmv_reply *reply, void *members,
                                   gmv_document *document, gmv_error *err);

/* Decodes the body into `members`, runs, and frees what decoding made. */
GMV_NODISCARD gmv_status gmv_handle_body(gmv_request *request, gmv_reply *reply,
                                         const gmv_field *fields, void *members, gmv_body_run run,
                                         gmv_error *err);

/* A handle of the body; *out_node is NULL when none was given. */
GMV_NODISCARD gmv_status gmv_find_reference(gmv_request *request, const gmv_reference *reference,
                                            gmv_kind kind, const char *pointer, gmv_node **out_node,
                                            gmv_error *err);

/* Columns of the body; *out_columns is freed with gmv_free, NULL when there are none. */
GMV_NODISCARD gmv_status gmv_find_columns(gmv_request *request, const gmv_references *references,
                                          const char *pointer, gmv_column ***out_columns,
                                          gmv_error *err);

/*
 * The bytes of an interprocess event, which only the CUDA backend can wait for. Pointer "/event".
 * @retval GMV_ERR_BACKEND_UNSUPPORTED, GMV_ERR_HANDLE_INVALID
 */
GMV_NODISCARD gmv_status gmv_read_event(const gmv_request *request, const gmv_text *text,
                                        uint8_t out_event[GMV_IPC_HANDLE_NBYTES], gmv_error *err);

gmv_registry *gmv_request_registry(const gmv_request *request);

/* A new view as the answer. */
GMV_NODISCARD gmv_status gmv_reply_made_view(gmv_request *request, gmv_reply *reply, gmv_view *view,
                                             gmv_error *err);

/* A view's or a node's place under /v1 as Location, and 201. */
void gmv_reply_made(gmv_reply *reply, const gmv_node *node);

/*
 * Strong ETag of a handle's description, to be asked for again: only its lease can change it. To be
 * called before the text is written: a lease renewed in between then makes an ETag that is out of
 * date, not a text.
 */
void gmv_reply_described(gmv_reply *reply, const gmv_node *node);

/* Ends an answer; without memory for it the text is dropped. */
GMV_NODISCARD gmv_status gmv_reply_finish(gmv_reply *reply, gmv_error *err);

/* The same after something was made, whose name is then taken back. */
GMV_NODISCARD gmv_status gmv_reply_finish_made(gmv_request *request, gmv_reply *reply,
                                               const gmv_node *node, gmv_error *err);
void gmv_request_unmake(gmv_request *request, const gmv_node *node);

/* Room for an answer before something is changed that cannot be taken back. */
GMV_NODISCARD gmv_status gmv_reply_reserve(gmv_reply *reply, size_t nbytes, gmv_error *err);

/* The parameter consistency: live or snapshot. To be read before the handle of the path is found.
 */
GMV_NODISCARD gmv_status gmv_query_consistency(const gmv_query *query, bool *out_snapshot,
                                               gmv_error *err);

/*
 * reply->bytes as the answer, with the caching that they may have; with `?consistency=snapshot` as
 * they are at one time. On failure they have been given back.
 */
GMV_NODISCARD gmv_status gmv_reply_bytes(gmv_request *request, gmv_reply *reply,
                                         const gmv_node *node, gmv_error *err);

/* ETag of sealed contents, no-store of others. */
void gmv_reply_contents(gmv_reply *reply, const gmv_node *node, bool sealed);

/* The parameter metadata_version: GMV_PACKED_VERSION or GMV_PACKED_HEADERLESS. */
GMV_NODISCARD gmv_status gmv_query_metadata_version(const gmv_query *query, int32_t *out_version,
                                                    gmv_error *err);

/* Packed metadata in that version as the answer. */
GMV_NODISCARD gmv_status gmv_reply_metadata(gmv_reply *reply, const gmv_packed_metadata *metadata,
                                            int32_t version, gmv_error *err);

/* The members `offset` and `limit` of a query for values, and how many of `size` they leave. */
GMV_NODISCARD gmv_status gmv_query_window(const gmv_query *query, int64_t size, int64_t *out_first,
                                          int64_t *out_count, gmv_error *err);

#endif
