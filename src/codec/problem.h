/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec: bytes and JSON to structs and back. Knows nothing of sockets. jansson appears on this
 * floor only, and only for reading; what is written is written by json_writer.h.
 *
 * problem.h: an error as an RFC 9457 problem document.
 */
#ifndef GMV_CODEC_PROBLEM_H
#define GMV_CODEC_PROBLEM_H

#include <gmv/base/error.h>
#include <gmv/base/strbuf.h>

/* The one HTTP status of a code (a switch without default: a forgotten status is a warning). */
int gmv_problem_http_status(gmv_status status);

/*
 * Appends {"type", "title", "status", "code", "detail", "pointer" or "parameter", "request_id", and
 * id, alive, reason, dependents where they apply}. `title` is the HTTP reason phrase. The detail of
 * GMV_ERR_INTERNAL is not told. The text is valid UTF-8 whatever the error holds.
 */
void gmv_problem_write(gmv_strbuf *out, const gmv_error *err, const char *request_id);

#endif
