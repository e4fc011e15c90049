/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the source tree that the daemon holds and serves; made by build-aux/embed.sh. */
#ifndef GMV_HTTP_EMBEDDED_H
#define GMV_HTTP_EMBEDDED_H

#include <stddef.h>

extern const unsigned char gmv__docs_html[], gmv__openapi_json[], gmv__openapi_yaml[];
extern const size_t gmv__docs_html_nbytes, gmv__openapi_json_nbytes, gmv__openapi_yaml_nbytes;

#endif
