/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interfaces that replace unusable ones: under the name of the unusable one (option fallback of its
 * section), or after the default one (option fallback of [ital]). An interface that is itself
 * replaced does not replace others, so there are no chains and no loops.
 */
#include "registry.h"

#include "base/names.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- under the name of another interface ---- */

static bool take(struct kal_interface *interface, const struct kal_interface *other)
{
    struct kal_values *options = kal_values_copy(other->options);
    char *provider_name = strdup(other->provider_name);
    char *reason = kal_format("%s stands in for it: %s", other->name, interface->reason);
    char *device = other->device ? strdup(other->device) : NULL;

    if (!options || !provider_name || (other->device && !device) || !reason)
        goto no_memory;
    kal_values_destroy(interface->options);
    free(interface->provider_name);
    free(interface->device);
    free(interface->reason);
    interface->options = options;
    interface->provider_name = provider_name;
    interface->device = device;
    interface->reason = reason;
    interface->provider = other->provider;
    interface->transport = other->transport;
    interface->usable = interface->has_stand_in = true;
    return true;

no_memory:
    kal_values_destroy(options);
    free(provider_name);
    free(device);
    free(reason);
    return false;
}

static bool next_name(const char **names, char name[KAL_VALUE_MAX])
{
    size_t length;
    const char *one = names_next(names, &length);

    if (!one)
        return false;
    memcpy(name, one, length);
    name[length] = '\0';
    return true;
}

static bool is_wanted(const struct kal_interface *interface)
{
    return !interface->usable && !interface->configured_wrong && interface->fallback;
}

/* Logs why a candidate is not taken. */
static void say_passed_over(const struct kal_interface *interface, const char *name,
                            const struct kal_interface *other)
{
    if (!other)
        kal_log(RI_LOG_WARNING, "there is no interface \"%s\", which is in the fallback of %s",
                name, interface->name);
    else
        kal_log(RI_LOG_WARNING, "interface %s, in the fallback of %s, is not usable: %s%s%s", name,
                interface->name, other->reason, *other->advice ? "; " : "", other->advice);
}

enum ri_status kal_fallback_stand_in(struct kal_interface *interface, kal_fallback_find_fn find,
                                     void *arg, bool log)
{
    const char *names = interface->fallback;
    struct kal_interface *other;
    char name[KAL_VALUE_MAX];
    enum ri_status status;

    while (is_wanted(interface) && next_name(&names, name)) {
        if (!strcmp(name, interface->name))
            continue;
        status = find(arg, name, &other);
        if (status != RI_OK)
            return status;
        if (!other || !other->usable || other->has_stand_in) {
            if (log)
                say_passed_over(interface, name, other);
            continue;
        }
        if (log)
            kal_log(RI_LOG_WARNING, "interface %s is not usable: %s%s%s; %s stands in for it",
                    interface->name, interface->reason, *interface->advice ? "; " : "",
                    interface->advice, name);
        if (!take(interface, other))
            return RI_ERR_NO_RESOURCES;
    }
    return RI_OK;
}

static enum ri_status find_in_list(void *arg, const char *name, struct kal_interface **other)
{
    *other = kal_interface_find(arg, name);
    return RI_OK;
}

enum ri_status kal_fallback_apply(struct kal_interface *list)
{
    enum ri_status status = RI_OK;
    struct kal_interface *interface;

    for (interface = list; interface && status == RI_OK; interface = interface->next)
        status = kal_fallback_stand_in(interface, find_in_list, list, false);
    return status;
}

/* ---- the default interface and its fallbacks ---- */

static void say_not_taken(const struct kal_interface *interface, const char *name, const char *what,
                          const char *origin)
{
    if (interface)
        kal_log(RI_LOG_WARNING, "the %s interface \"%s\" (%s) is not usable: %s%s%s", what, name,
                origin, interface->reason, *interface->advice ? "; " : "", interface->advice);
    else
        kal_log(RI_LOG_WARNING, "the %s interface \"%s\" (%s) does not exist", what, name, origin);
}

/* Moves the interface behind those chosen before. True: it is usable. */
static bool put(struct kal_interface **list, struct kal_interface **chosen, const char *name,
                const char *what, const char *origin, bool log)
{
    struct kal_interface *interface = kal_interface_find(*chosen, name);

    if (interface) /* named twice */
        return interface->usable;
    interface = kal_interface_find(*list, name);
    if (interface) {
        LL_DELETE(*list, interface);
        LL_APPEND(*chosen, interface);
    }
    if (interface && interface->usable)
        return true;
    if (log)
        say_not_taken(interface, name, what, origin);
    return false;
}

void kal_fallback_order(struct kal_config *config, struct kal_interface **list)
{
    const char *name = config->env_interface ? config->env_interface
                                             : kal_values_get(config->ital, "default");
    const char *origin = config->env_interface ? "ITAL_INTERFACE" : "default in section [ital]";
    const char *names = kal_values_get(config->ital, "fallback");
    struct kal_interface *chosen = NULL;
    bool log = !config->default_warned, found;
    char next[KAL_VALUE_MAX];

    if (!*name)
        return;
    found = put(list, &chosen, name, "default", origin, log);
    config->default_warned |= !found; /* warn once: the list is built often */
    while (next_name(&names, next))
        found |= put(list, &chosen, next, "fallback", "fallback in section [ital]", log && !found);
    LL_CONCAT(chosen, *list);
    *list = chosen;
}
