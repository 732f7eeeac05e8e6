/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters: providers that an RNIC's provider is opened through (struct ri_lower). */
#include "registry.h"

#include "answer.h"

#include "base/nearest.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* What is below each filter, from the provider up. Entry i is below filter i, of `count`. */
struct kal_filters {
    char *list; /* of the option; names and arguments lie in it */
    size_t count;
    struct ri_lower below[];
};

static enum ri_status no_filter(const struct kal_rnic *rnic, const char *name)
{
    const struct kal_registry *registry = &rnic->kal->registry;
    const struct kal_provider *filter;
    struct nearest near = { .word = NULL };

    LL_FOREACH (registry->filters, filter)
        nearest_try(&near, name, filter->stem);
    if (near.word)
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "option filter: there is no filter \"%s\"; did you mean \"%s\"?", name,
                     near.word);
    else
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "option filter: there is no filter \"%s\"; install vf_%s.so; searched were %s",
                     name, name, registry->folders);
    return ITAL_ERR_CONFIGURATION;
}

/* The registry's lock is held. */
static enum ri_status load(const struct kal_rnic *rnic, struct kal_provider *filter)
{
    struct kal_answer *answer;
    enum ri_status status;

    if (!filter->usable) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "filter %s cannot be used: %s: %s; %s", filter->stem,
                     filter->path, filter->reason, filter->advice);
        return ITAL_ERR_CONFIGURATION;
    }
    answer = calloc(1, sizeof(*answer));
    if (!answer)
        return RI_ERR_NO_RESOURCES;
    status = kal_provider_load(filter, answer);
    if (status == RI_OK && !filter->descriptor) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "filter %s cannot be used: %s: %s; %s", filter->stem,
                     filter->path, answer->reason, answer->advice);
        status = ITAL_ERR_CONFIGURATION;
    } else if (status == RI_OK && !(filter->descriptor->flags & RI_PROVIDER_FILTER)) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "%s is no filter: provider %s opens devices itself",
                     filter->path, filter->name);
        status = ITAL_ERR_CONFIGURATION;
    }
    kal_answer_free(answer);
    return status;
}

static enum ri_status find(const struct kal_rnic *rnic, const char *name,
                           struct kal_provider **found)
{
    struct kal_registry *registry = &rnic->kal->registry;
    struct kal_provider *filter;
    enum ri_status status;

    LL_FOREACH (registry->filters, filter)
        if (!strcmp(filter->stem, name))
            break;
    if (!filter)
        return no_filter(rnic, name);
    kal_registry_lock(registry);
    status = load(rnic, filter);
    kal_registry_unlock(registry);
    if (status == RI_OK)
        *found = filter;
    return status;
}

/* Splits the last element off the list, "NAME" or "NAME:ARGUMENT". */
static char *last_of(char *list, char **argument)
{
    char *blank = strrchr(list, ' '), *name = blank ? blank + 1 : list, *colon;

    if (blank)
        *blank = '\0';
    colon = strchr(name, ':');
    *argument = colon ? colon + 1 : NULL;
    if (colon)
        *colon = '\0';
    return name;
}

static enum ri_status put_in_front(struct kal_rnic *rnic, struct ri_open *open, const char *name,
                                   const char *argument)
{
    struct kal_filters *filters = rnic->filters;
    struct ri_lower *below = &filters->below[filters->count];
    struct kal_provider *filter = NULL;
    enum ri_status status = find(rnic, name, &filter);

    if (status != RI_OK)
        return status;
    *below = (struct ri_lower){ .size = sizeof(*below),
                                .privileged = open->privileged,
                                .user = open->user,
                                .device = open->device,
                                .lower = open->lower,
                                .provider = rnic->provider->name };
    filters->count++;
    open->privileged = &filter->ops;
    open->user = &filter->user_ops;
    open->device = argument;
    open->lower = below;
    rnic->ops = filter->ops;
    rnic->user_ops = filter->user_ops;
    return RI_OK;
}

static size_t words_in(const char *list)
{
    size_t count = 1;

    while ((list = strchr(list, ' '))) {
        list++;
        count++;
    }
    return count;
}

static const struct ri_option *own_option(void)
{
    size_t i = 0;

    while (strcmp(kal_interface_options[i].name, "filter"))
        i++;
    return &kal_interface_options[i];
}

/* That of the environment counts for each interface. */
static enum ri_status wanted(const struct kal_rnic *rnic, char normal[KAL_VALUE_MAX])
{
    const char *environment = rnic->kal->config->env_filter;
    char allowed[KAL_ALLOWED_MAX];

    if (!environment) {
        strcpy(normal, kal_values_get(rnic->options, "filter"));
        return RI_OK;
    }
    if (kal_option_normal(own_option(), environment, normal, allowed))
        return RI_OK;
    kal_rnic_log(rnic, RI_LOG_ERROR, "ITAL_FILTER is \"%s\": allowed is %s", environment, allowed);
    return ITAL_ERR_CONFIGURATION;
}

enum ri_status kal_filters_take(struct kal_rnic *rnic, struct ri_open *open)
{
    char normal[KAL_VALUE_MAX], *name, *argument;
    enum ri_status status = wanted(rnic, normal);
    struct kal_filters *filters;

    if (status != RI_OK || !*normal)
        return status;
    filters = calloc(1, sizeof(*filters) + words_in(normal) * sizeof(filters->below[0]));
    if (!filters)
        return RI_ERR_NO_RESOURCES;
    rnic->filters = filters;
    filters->list = strdup(normal);
    if (!filters->list)
        return RI_ERR_NO_RESOURCES;
    do {
        name = last_of(filters->list, &argument);
        status = put_in_front(rnic, open, name, argument);
    } while (status == RI_OK && name != filters->list);
    return status;
}

void kal_filters_free(struct kal_rnic *rnic)
{
    if (rnic->filters)
        free(rnic->filters->list);
    free(rnic->filters);
}
