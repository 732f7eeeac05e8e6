/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of interfaces. */
#include "registry.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct kal_interface *kal_interface_find(struct kal_interface *list, const char *name)
{
    for (; list && strcmp(list->name, name); list = list->next)
        ;
    return list;
}

void kal_interface_free(struct kal_interface *interface)
{
    free(interface->name);
    free(interface->provider_name);
    free(interface->device);
    free(interface->reason);
    free(interface->advice);
    free(interface->fallback);
    kal_values_destroy(interface->options);
    free(interface);
}

void kal_interfaces_free(struct kal_interface *list)
{
    struct kal_interface *interface, *next;

    LL_FOREACH_SAFE (list, interface, next)
        kal_interface_free(interface);
}
