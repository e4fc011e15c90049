/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request bodies to structs, by tables of fields. All types are looked at before any value; unknown
 * members are refused; null on an optional member is the same as absent and leaves what the caller
 * has put into the struct. Pointers of errors name the member (RFC 6901).
 *
 * What has a label may have a lease: a table with a field of type LABEL takes the member
 * `ttl_seconds` too, without a field for it. It goes to gmv_document.ttl_seconds, from where
 * gmv_handle_body hands it to the operation, which gives it to every name that it makes.
 */
#ifndef GMV_CODEC_DECODE_H
#define GMV_CODEC_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/error.h>
#include <gmv/model/bitmask.h>
#include <gmv/model/cai.h>

/* ---- what fields decode to ---- */

typedef struct gmv_optional_int64 {
    bool given;
    int64_t value;
} gmv_optional_int64;

/* Bytes of the document, NUL-terminated; `text` NULL: absent. */
typedef struct gmv_text {
    const char *text;
    size_t length;
} gmv_text;

/* A machine-learning type by its name. Before the type string in its table. */
typedef struct gmv_optional_dtype {
    bool given;
    gmv_dtype dtype;
} gmv_optional_dtype;

/* A handle in a body. A string that is no id at all stays until look-up, where it is unknown. */
typedef struct gmv_reference {
    bool given;
    bool valid;
    gmv_id id;
} gmv_reference;

typedef struct gmv_references {
    bool given;
    gmv_reference *items;
    size_t count;
} gmv_references;

typedef struct gmv_int64s {
    bool given;
    int64_t *items;
    size_t count;
} gmv_int64s;

typedef struct gmv_ranges {
    bool given;
    gmv_bit_range *items;
    size_t count;
} gmv_ranges;

typedef struct gmv_blob {
    bool given;
    unsigned char *bytes;
    size_t nbytes;
} gmv_blob;

typedef struct gmv_cai_payload {
    gmv_cai cai;
    bool has_mask;
    gmv_cai mask;
} gmv_cai_payload; /* its text is gmv_document.payload */

/* ---- tables of fields ---- */

typedef enum gmv_field_type {
    GMV_FIELD_BOOL,           /* bool */
    GMV_FIELD_INT64,          /* int64_t */
    GMV_FIELD_OPTIONAL_INT64, /* gmv_optional_int64 */
    GMV_FIELD_CLAMPED_INT64,  /* gmv_optional_int64, integers of any length, saturated */
    GMV_FIELD_NUMBER,         /* double, of an integer or a real */
    GMV_FIELD_TEXT,           /* gmv_text */
    GMV_FIELD_LABEL,          /* gmv_text of at most GMV_LABEL_CHARACTERS_MAX characters */
    GMV_FIELD_NAME,           /* int: the index in `names` */
    GMV_FIELD_DTYPE_NAME,     /* gmv_optional_dtype */
    GMV_FIELD_TYPESTR,        /* gmv_dtype, of the type named at `dtype_offset` if there is one */
    GMV_FIELD_CUDF_NAME,      /* int32_t: a cuDF type id by its name */
    GMV_FIELD_REFERENCE,      /* gmv_reference */
    GMV_FIELD_REFERENCES,     /* gmv_references */
    GMV_FIELD_INT64S,         /* gmv_int64s */
    GMV_FIELD_RANGES,         /* gmv_ranges: [[begin, end], ...] */
    GMV_FIELD_BASE64,         /* gmv_blob */
    GMV_FIELD_OBJECT,         /* a struct of its own, by `fields`; a bool at `given_offset` */
    GMV_FIELD_CAI             /* gmv_cai_payload */
} gmv_field_type;

typedef struct gmv_field {
    const char *name;
    gmv_field_type type;
    bool required;
    size_t offset;                  /* in the struct */
    const char *const *names;       /* NAME: NULL-terminated */
    const struct gmv_field *fields; /* OBJECT: ends with a field without name */
    size_t given_offset;            /* OBJECT: in the outer struct */
    bool with_event;                /* CAI: streams of other processes pass */
    size_t dtype_offset; /* CAI, TYPESTR: in the struct; 0: no name. An earlier field than this */
} gmv_field;

#define GMV_FIELD(name, type, struct_type, member)                     \
    {                                                                  \
        (name), GMV_FIELD_##type, false, offsetof(struct_type, member) \
    }
#define GMV_FIELD_REQUIRED(name, type, struct_type, member)           \
    {                                                                 \
        (name), GMV_FIELD_##type, true, offsetof(struct_type, member) \
    }
#define GMV_FIELD_END \
    {                 \
        NULL          \
    }

/* ---- decoding ---- */

/* A parsed body and the arrays that were made from it. */
typedef struct gmv_document {
    void *root;   /* codec's own */
    void *blocks; /* owned */
    char *
        payload; /* of a CAI field: compact JSON text, owned until someone takes it and sets NULL */
    uint32_t ttl_seconds; /* 1 to GMV_LEASE_SECONDS_MAX; 0: none was given */
} gmv_document;

/*
 * Parses a body and fills `out_struct`, whose defaults the caller has set. `fields` ends with
 * GMV_FIELD_END. An empty body is {} if no member is required, else malformed. Texts and arrays
 * live until gmv_document_fini, to be called after success only.
 *
 * @retval GMV_ERR_JSON_MALFORMED, GMV_ERR_TYPE, GMV_ERR_VALUE, GMV_ERR_DTYPE_UNSUPPORTED,
 * GMV_ERR_OVERLOADED
 */
GMV_NODISCARD gmv_status gmv_decode_body(const char *body, size_t nbytes, const gmv_field *fields,
                                         void *out_struct, gmv_document *out_document,
                                         gmv_error *err);
void gmv_document_fini(gmv_document *document);

#endif
