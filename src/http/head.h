/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request: the header fields that the server itself reads, and the checks that keep a
 * message's framing beyond doubt. libmicrohttpd 0.9.75 takes the first of two lengths, a length
 * beside an encoding, and waits for ever on an encoding that it does not know: such heads are
 * refused here. Pure; values are @borrowed from whoever added them.
 */
#ifndef GMV_HTTP_HEAD_H
#define GMV_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/error.h>

typedef enum gmv_field {
    GMV_FIELD_HOST,
    GMV_FIELD_CONTENT_LENGTH,
    GMV_FIELD_TRANSFER_ENCODING,
    GMV_FIELD_CONTENT_TYPE,
    GMV_FIELD_CONTENT_ENCODING,
    GMV_FIELD_CONTENT_RANGE,
    GMV_FIELD_EXPECT,
    GMV_FIELD_RANGE,
    GMV_FIELD_IF_RANGE,
    GMV_FIELD_IF_MATCH,
    GMV_FIELD_IF_NONE_MATCH,
    GMV_FIELD_REQUEST_ID,
    GMV_FIELD_TRACEPARENT,
    GMV_FIELD_SESSION,
    GMV_FIELD_IDEMPOTENCY_KEY,
    GMV_FIELD_LAST_EVENT_ID,
    GMV_FIELD_COUNT
} gmv_field;

typedef struct gmv_field_value {
    const char *text; /* the first one; NULL when the field is not there */
    size_t length;    /* bytes, without blanks at either end */
    unsigned count;   /* how often the field was sent */
    bool is_padded;   /* the first one has blanks around it */
} gmv_field_value;

typedef enum gmv_media {
    GMV_MEDIA_ABSENT,
    GMV_MEDIA_JSON,
    GMV_MEDIA_OCTETS,
    GMV_MEDIA_FORM, /* what browsers and curl send unless told otherwise */
    GMV_MEDIA_OTHER
} gmv_media;

typedef struct gmv_head {
    bool is_http_1_1;   /* 1.1 or later */
    bool has_bad_name;  /* a field name is no token */
    bool is_torn;       /* a head that is followed has bytes in no string */
    const char *behind; /* of a head that is followed: the end of what is known, else NULL */
    gmv_field_value fields[GMV_FIELD_COUNT];
    bool is_framing_safe; /* set by the check: where the body ends is beyond doubt */
    int64_t body_nbytes;  /* set by the check: -1 when chunked */
} gmv_head;

void gmv_head_init(gmv_head *head, bool is_http_1_1);
void gmv_head_add(gmv_head *head, const char *name, size_t name_length, const char *value,
                  size_t value_length);

/*
 * Holds the strings that are added from now on, and at last the end, against the bytes that they
 * were cut from: they must lie in their order, with nothing but line ends between them. `behind`
 * is the end of the request line. libmicrohttpd before 1.0 ends a string at a NUL, takes a line
 * that begins with a NUL or a colon for the empty one, and appends a folded line to the name above
 * it; what it loses so would pass for a body, or for another request.
 */
void gmv_head_follow(gmv_head *head, const char *behind);
void gmv_head_end(gmv_head *head, const char *end);

/*
 * @retval GMV_ERR_REQUEST_MALFORMED  the answer is 400, and the connection must be closed
 */
GMV_NODISCARD gmv_status gmv_head_check_framing(gmv_head *head, gmv_error *err);

/*
 * On 1.1 exactly one Host, on 1.0 at most one. With `loopback_only` it must name this machine's
 * loopback (localhost, 127.x.x.x, [::1], with or without a port), so that no web page can reach the
 * daemon through a name that it has pointed here.
 */
GMV_NODISCARD gmv_status gmv_head_check_host(const gmv_head *head, bool loopback_only,
                                             gmv_error *err);

/* Whether "name" or "name:port" stands for the loopback. */
bool gmv_authority_is_loopback(const char *text, size_t length);

gmv_media gmv_head_media(const gmv_head *head);

/* Whether the body is what it stands for, and not compressed. */
bool gmv_head_is_plain(const gmv_head *head);

/* Whether the client waits for 100 Continue before it sends the body. */
bool gmv_head_expects_continue(const gmv_head *head);

/*
 * Whether an entity-tag list ("*" or a comma-separated list) holds `etag` (with its quotes; without
 * the last one also any that goes on with a dash; "" is in none). A weak comparison takes W/"x" for
 * "x"; a strong one does not.
 */
bool gmv_etag_listed(const gmv_field_value *list, const char *etag, bool weak);

/* Whether the text may stand as a request id: 1 to 128 of A-Za-z0-9._- */
bool gmv_request_id_is_plain(const char *text, size_t length);

#endif
