/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error value that a caller puts on its stack and passes last. Success leaves it alone; failure
 * always fills it. Who first knows writes the message; who passes it on may add where.
 *
 * Messages are lower case without a full stop, hold the value and the limit, and say what to do.
 * They never hold a broken byte: what came from outside goes in only when it is plain ASCII.
 */
#ifndef GMV_BASE_ERROR_H
#define GMV_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include <gmv/base/attr.h>
#include <gmv/base/id.h>
#include <gmv/base/status.h>

GMV_BEGIN_DECLS

#define GMV_ERROR_MESSAGE_MAX   320
#define GMV_ERROR_POINTER_MAX   256
#define GMV_ERROR_PARAMETER_MAX 64
#define GMV_ERROR_IDS_MAX       100

typedef struct gmv_error {
    gmv_status status;
    bool has_pointer;                        /* `pointer` names a member of the request body */
    char message[GMV_ERROR_MESSAGE_MAX];     /* for people */
    char pointer[GMV_ERROR_POINTER_MAX];     /* RFC 6901, "" is the whole body */
    char parameter[GMV_ERROR_PARAMETER_MAX]; /* query, path or header parameter, "" if none */
    bool has_subject;                        /* the three below are set (handle_deleted, ...) */
    gmv_id subject;                          /* the handle that the error is about */
    bool subject_alive;                      /* its object still lives */
    const char *subject_reason;              /* static text or NULL */
    bool has_operation;                      /* of a batch, at fault: */
    size_t operation;                        /* which one */
    size_t dependents_count;                 /* held_by_dependents: how many, exactly */
    gmv_id dependents[GMV_ERROR_IDS_MAX];    /* and the first of them */
    const char *file;                        /* where in the source it was raised, for the log */
    int line;
} gmv_error;

/* Makes `err` an empty error (GMV_OK). Needed before use; cheap: the arrays are not cleared. */
void gmv_error_init(gmv_error *err);

/*
 * Fills `err` (NULL: nothing) and returns `status`. `pointer` is a JSON pointer or NULL for none.
 * Use the macro gmv_fail, which adds the place.
 */
gmv_status gmv_error_set(gmv_error *err, const char *file, int line, gmv_status status,
                         const char *pointer, const char *format, ...) GMV_PRINTF(6, 7);

#define gmv_fail(err, status, pointer, ...) \
    gmv_error_set((err), __FILE__, __LINE__, (status), (pointer), __VA_ARGS__)

/* As gmv_fail, for a query, path or header parameter. */
gmv_status gmv_error_set_parameter(gmv_error *err, const char *file, int line, gmv_status status,
                                   const char *parameter, const char *format, ...) GMV_PRINTF(6, 7);

#define gmv_fail_parameter(err, status, parameter, ...) \
    gmv_error_set_parameter((err), __FILE__, __LINE__, (status), (parameter), __VA_ARGS__)

/* Puts `prefix` ("/operations/3") in front of the pointer, if there is one. NULL err: nothing. */
void gmv_error_prefix_pointer(gmv_error *err, const char *prefix);

/* The status for host memory that ran out, with the usual message. */
#define gmv_fail_no_memory(err) \
    gmv_fail((err), GMV_ERR_OVERLOADED, NULL, "the daemon is out of memory; try again later")

/* Returns the status of `expression` from the enclosing function unless it is GMV_OK. */
#define GMV_TRY(expression)                          \
    do {                                             \
        gmv_status gmv_try_status_ = (expression);   \
        if (GMV_UNLIKELY(gmv_try_status_ != GMV_OK)) \
            return gmv_try_status_;                  \
    } while (0)

GMV_END_DECLS

#endif
