/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "a, b, c": the names that would have been right, for the detail of a refusal. Cut with "..."
 * where they would fill the message.
 */
#ifndef GMV_CODEC_NAME_LIST_H
#define GMV_CODEC_NAME_LIST_H

#include <stddef.h>

#define GMV_NAME_LIST_MAX 224

typedef struct gmv_name_list {
    size_t length;
    char text[GMV_NAME_LIST_MAX];
} gmv_name_list;

/* "none" as long as nothing is added. */
void gmv_name_list_init(gmv_name_list *list);

void gmv_name_list_add(gmv_name_list *list, const char *name, size_t length);

/* All of an array that ends with NULL. */
void gmv_name_list_fill(gmv_name_list *list, const char *const *names);

#endif
