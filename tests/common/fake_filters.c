/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters under a test's host: see fake_filters.h. */
#include "fake_filters.h"

#include "rnicpi_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 8

/* What is below each filter, the provider first. A process opens all its providers through the
 * same ones. */
static struct layer {
    struct ri_privileged_ops privileged;
    struct ri_user_ops user;
    struct ri_lower lower;
} layers[MOST];
static unsigned count;

static void put_in_front(struct ri_open *open, struct ri_privileged_ops *privileged,
                         struct ri_user_ops *user, const char *file, const char *argument)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct ri_provider *filter = handle ? dlsym(handle, RI_PROVIDER_SYMBOL) : NULL;
    struct layer *layer = &layers[count];

    if (!filter || count == MOST) {
        fprintf(stderr, "ITAL_TEST_FILTERS: %s: %s\n", file, filter ? "too many" : dlerror());
        abort();
    }
    layer->privileged = *open->privileged;
    layer->user = *open->user;
    layer->lower = (struct ri_lower){ .size = sizeof(layer->lower),
                                      .privileged = &layer->privileged,
                                      .user = &layer->user,
                                      .device = open->device,
                                      .lower = open->lower };
    count++;
    ri_complete_privileged_ops(privileged, filter->privileged);
    ri_complete_user_ops(user, filter->user);
    open->privileged = privileged;
    open->user = user;
    open->device = argument;
    open->lower = &layer->lower;
}

void fake_filters_take(struct ri_open *open, struct ri_privileged_ops *privileged,
                       struct ri_user_ops *user)
{
    static char *list; /* names and arguments lie in it */
    const char *wanted = getenv("ITAL_TEST_FILTERS");

    count = 0;
    if (!wanted || !*wanted)
        return;
    free(list);
    list = strdup(wanted);
    while (list && *list) {
        char *blank = strrchr(list, ' '), *file = blank ? blank + 1 : list;
        char *equals = strchr(file, '=');

        if (equals)
            *equals = '\0';
        put_in_front(open, privileged, user, file, equals ? equals + 1 : NULL);
        if (!blank)
            break;
        *blank = '\0';
    }
}

/* The head of a filter's object: providers/filter/pass.h. */
struct wrapper {
    const void *ops;
    void *context;
    void *below;
};

void *fake_below(const void *object)
{
    for (unsigned i = 0; i < count; i++)
        object = ((const struct wrapper *)object)->below;
    return (void *)(uintptr_t)object;
}
