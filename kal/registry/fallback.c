/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interfaces that are taken where another cannot be used: one that stands in under the other's name
 * (option fallback of a section), and those that stand behind the default one (fallback of [ital]).
 * An interface that has a stand-in itself is none for others: there are no chains, and so no
 * circles.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "registry.h"

#include "base/names.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- under the name of another ---- */

bool kal_fallback_take(struct kal_interface *interface, const struct kal_interface *other)
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

bool kal_fallback_next(const char **names, char name[KAL_VALUE_MAX])
{
    size_t length;
    const char *one = names_next(names, &length);

    if (!one)
        return false;
    memcpy(name, one, length);
    name[length] = '\0';
    return true;
}

bool kal_fallback_wanted(const struct kal_interface *interface)
{
    return !interface->usable && !interface->configured_wrong && interface->fallback;
}

bool kal_fallback_apply(struct kal_interface *list)
{
    struct kal_interface *interface, *other;
    char name[KAL_VALUE_MAX];

    LL_FOREACH (list, interface) {
        const char *names = interface->fallback;

        while (kal_fallback_wanted(interface) && kal_fallback_next(&names, name)) {
            other = kal_interface_find(list, name);
            if (other && other->usable && !other->has_stand_in &&
                !kal_fallback_take(interface, other))
                return false;
        }
    }
    return true;
}

/* ---- the default one, and those behind it ---- */

static void say_not_taken(const struct kal_interface *interface, const char *name, const char *what,
                          const char *origin)
{
    if (interface)
        kal_log(RI_LOG_WARNING, "the %s interface \"%s\" (%s) is not usable: %s%s%s", what, name,
                origin, interface->reason, *interface->advice ? "; " : "", interface->advice);
    else
        kal_log(RI_LOG_WARNING, "the %s interface \"%s\" (%s) does not exist", what, name, origin);
}

/* Move it behind those that were chosen before. Is it usable? */
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
    config->default_warned |= !found; /* the list is built often */
    while (kal_fallback_next(&names, next))
        found |= put(list, &chosen, next, "fallback", "fallback in section [ital]", log && !found);
    LL_CONCAT(chosen, *list);
    *list = chosen;
}
