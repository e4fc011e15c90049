/* SPDX-License-Identifier: Apache-2.0 */
/* Codes and titles of the status table. Every status has both, unknown values included. */
#include <gmv/base/status.h>

typedef struct status_text {
    const char *code;
    const char *title;
} status_text;

#define STATUS_ROW(name, code, title) [GMV_ERR_##name] = {code, title},
static const status_text status_texts[GMV_STATUS_COUNT] = {[GMV_OK] = {"ok", "done"},
                                                           GMV_STATUS_MAP(STATUS_ROW)};
#undef STATUS_ROW

static const status_text *status_find(gmv_status status)
{
    unsigned index = (unsigned)status;
    return &status_texts[index < GMV_STATUS_COUNT ? index : GMV_ERR_INTERNAL];
}

const char *gmv_status_code(gmv_status status)
{
    return status_find(status)->code;
}

const char *gmv_status_title(gmv_status status)
{
    return status_find(status)->title;
}
