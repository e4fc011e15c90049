/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names for messages. Room for the dots is kept free until they are written. */
#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "codec/name_list.h"

#define SEPARATOR ", "
#define DOTS      "..."

static void list_put(gmv_name_list *list, const char *text, size_t length)
{
    memcpy(list->text + list->length, text, length);
    list->length += length;
    list->text[list->length] = '\0';
}

void gmv_name_list_init(gmv_name_list *list)
{
    list->length = 0;
    memcpy(list->text, "none", sizeof "none");
}

void gmv_name_list_add(gmv_name_list *list, const char *name, size_t length)
{
    const size_t reserve = sizeof SEPARATOR - 1 + sizeof DOTS;
    bool is_cut = list->length >= sizeof DOTS - 1 &&
                  memcmp(list->text + list->length - (sizeof DOTS - 1), DOTS, sizeof DOTS - 1) == 0;
    if (is_cut)
        return;
    bool fits = list->length + sizeof SEPARATOR - 1 + length + reserve <= sizeof list->text;
    if (list->length > 0)
        list_put(list, SEPARATOR, sizeof SEPARATOR - 1);
    list_put(list, fits ? name : DOTS, fits ? length : sizeof DOTS - 1);
}

void gmv_name_list_fill(gmv_name_list *list, const char *const *names)
{
    gmv_name_list_init(list);
    for (; *names != NULL; names++)
        gmv_name_list_add(list, *names, strlen(*names));
}
