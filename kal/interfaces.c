/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps interface names of the configuration, and devices without one, to providers. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal_private.h"

#include "base/nearest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* One build of the list. */
struct build {
    struct kal *kal;
    struct kal_interface *list;
    bool no_memory;
};

/* What enumerate is asked about: every device (default interfaces), or the device of one
 * section. */
struct inquiry {
    struct build *build;
    struct kal_provider *provider;
    struct kal_interface *interface; /* NULL: every device becomes an interface */
    bool seen;
    bool only_why;      /* devices are not looked at */
    char *none, *to_do; /* why the provider has no device, and what to do; may be NULL */
};

static void assign(struct build *build, char **where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void assign(struct build *build, char **where, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (!text)
        build->no_memory = true;
    free(*where);
    *where = text;
}

static void interface_free(struct kal_interface *interface)
{
    free(interface->name);
    free(interface->provider_name);
    free(interface->device);
    free(interface->reason);
    free(interface->advice);
    kal_values_destroy(interface->options);
    free(interface);
}

void kal_interfaces_free(struct kal_interface *list)
{
    struct kal_interface *interface, *next;

    LL_FOREACH_SAFE (list, interface, next)
        interface_free(interface);
}

static struct kal_interface *find(struct kal_interface *list, const char *name)
{
    for (; list && strcmp(list->name, name); list = list->next)
        ;
    return list;
}

static struct kal_interface *add(struct build *build, const char *name)
{
    struct kal_interface *interface = calloc(1, sizeof *interface);

    if (interface)
        interface->name = strdup(name);
    if (!interface || !interface->name) {
        free(interface);
        build->no_memory = true;
        return NULL;
    }
    LL_APPEND(build->list, interface);
    return interface;
}

/* ---- options of a section ---- */

static const char *source_of(const struct build *build)
{
    return build->kal->config->source ? build->kal->config->source : "configuration";
}

static void set_option(struct build *build, struct kal_interface *interface,
                       struct kal_setting *setting)
{
    const struct ri_provider *descriptor = interface->provider->descriptor;
    struct nearest near = { .word = NULL };
    char normal[KAL_VALUE_MAX];
    const char *allowed;

    for (size_t i = 0; i < kal_interface_option_count; i++) {
        nearest_try(&near, setting->name, kal_interface_options[i].name);
        if (!strcmp(setting->name, kal_interface_options[i].name))
            return;
    }
    for (uint32_t i = 0; i < descriptor->option_count; i++) {
        const struct ri_option *option = &descriptor->options[i];

        nearest_try(&near, setting->name, option->name);
        if (strcmp(setting->name, option->name))
            continue;
        if (kal_option_normal(option, setting->value, normal, &allowed)) {
            if (!kal_values_set(interface->options, option->name, normal))
                build->no_memory = true;
            return;
        }
        interface->configured_wrong = true;
        assign(build, &interface->reason, "%s:%u: %s = \"%s\": allowed is %s", source_of(build),
               setting->line, setting->name, setting->value, allowed);
        assign(build, &interface->advice, "correct the value");
        return;
    }
    if (setting->warned) /* once per line: the list is built often */
        return;
    setting->warned = true;
    if (near.word)
        kal_log(RI_LOG_WARNING,
                "%s:%u: unknown option \"%s\" of provider %s is ignored; did you mean \"%s\"?",
                source_of(build), setting->line, setting->name, descriptor->name, near.word);
    else
        kal_log(RI_LOG_WARNING, "%s:%u: unknown option \"%s\" of provider %s is ignored",
                source_of(build), setting->line, setting->name, descriptor->name);
}

/* ---- devices ---- */

static void take_device(struct build *build, struct kal_interface *interface,
                        const struct ri_device *device)
{
    interface->transport = device->transport;
    if (interface->configured_wrong)
        return; /* its reason stands */
    interface->usable = device->usable;
    if (device->usable) {
        free(interface->reason);
        free(interface->advice);
        interface->reason = interface->advice = NULL;
        return;
    }
    assign(build, &interface->reason, "%s",
           device->reason ? device->reason : "the provider does not say why");
    assign(build, &interface->advice, "%s", device->advice ? device->advice : "");
}

static void add_default(struct inquiry *inquiry, const struct ri_device *device)
{
    struct build *build = inquiry->build;
    struct kal_interface *interface, *same = find(build->list, device->name);
    char *name = NULL;

    if (same && same->provider == inquiry->provider)
        return; /* a section of that name describes it */
    assign(build, &name, same ? "%2$s/%1$s" : "%1$s", device->name, inquiry->provider->name);
    interface = name && !find(build->list, name) ? add(build, name) : NULL;
    free(name);
    if (!interface)
        return;
    interface->provider = inquiry->provider;
    assign(build, &interface->provider_name, "%s", inquiry->provider->name);
    assign(build, &interface->device, "%s", device->name);
    interface->options = kal_values_create(inquiry->provider->descriptor->options,
                                           inquiry->provider->descriptor->option_count);
    if (!interface->options)
        build->no_memory = true;
    take_device(build, interface, device);
}

/* A report without a name: there is no device. */
static void take_absence(struct inquiry *inquiry, const struct ri_device *device)
{
    if (device->reason)
        assign(inquiry->build, &inquiry->none, "%s", device->reason);
    if (device->advice)
        assign(inquiry->build, &inquiry->to_do, "%s", device->advice);
}

/* The full name, or, of a name PROVIDER:DEVICE, its second part. */
static bool is_called(const struct kal_provider *provider, const char *full, const char *name)
{
    size_t length = strlen(provider->name);

    return !strcmp(full, name) || (!strncmp(full, provider->name, length) && full[length] == ':' &&
                                   !strcmp(full + length + 1, name));
}

static void on_device(void *arg, const struct ri_device *device)
{
    struct inquiry *inquiry = arg;
    struct kal_interface *interface = inquiry->interface;

    if (!device || device->size < offsetof(struct ri_device, advice))
        return;
    if (!device->name || !*device->name) {
        take_absence(inquiry, device);
        return;
    }
    if (inquiry->only_why)
        return;
    if (!interface) {
        add_default(inquiry, device);
        return;
    }
    if (interface->device ? !is_called(inquiry->provider, device->name, interface->device)
                          : inquiry->seen && (interface->usable || !device->usable))
        return; /* not ours; without a device the first usable one, else the first, tells */
    inquiry->seen = true;
    take_device(inquiry->build, interface, device);
}

static enum ri_status ask(struct inquiry *inquiry)
{
    struct kal_rnic probe = { .kal = inquiry->build->kal,
                              .upper = inquiry->build->kal->upper,
                              .provider = inquiry->provider };
    enum ri_status status;

    probe.options = kal_values_create(inquiry->provider->descriptor->options,
                                      inquiry->provider->descriptor->option_count);
    if (!probe.options) {
        inquiry->build->no_memory = true;
        return RI_ERR_NO_RESOURCES;
    }
    kal_rnic_host_init(&probe);
    status = inquiry->provider->ops.enumerate(&probe.host, on_device, inquiry);
    kal_values_destroy(probe.options);
    return status;
}

static void unusable(struct build *build, struct kal_interface *interface,
                     const struct inquiry *inquiry, enum ri_status status)
{
    if (interface->configured_wrong)
        return;
    interface->usable = false;
    if (status == RI_OK && inquiry->none) {
        assign(build, &interface->reason, "%s", inquiry->none);
        assign(build, &interface->advice, "%s", inquiry->to_do ? inquiry->to_do : "");
        return;
    }
    if (status != RI_OK)
        assign(build, &interface->reason, "provider %s cannot list its devices (%s)",
               interface->provider_name, ri_status_name(status));
    else if (interface->device)
        assign(build, &interface->reason, "provider %s has no device \"%s\"",
               interface->provider_name, interface->device);
    else
        assign(build, &interface->reason, "provider %s has no device", interface->provider_name);
    assign(build, &interface->advice, "%s",
           interface->device ? "correct device, or leave it out for the provider's default"
                             : "see what the provider needs");
}

static void forget_absence(struct inquiry *inquiry)
{
    free(inquiry->none);
    free(inquiry->to_do);
    inquiry->none = inquiry->to_do = NULL;
}

enum kal_status kal_provider_absence(struct kal *kal, struct kal_provider *provider, char **reason,
                                     char **advice)
{
    struct build build = { .kal = kal };
    struct inquiry inquiry = { .build = &build, .provider = provider, .only_why = true };

    kal_registry_lock(&kal->registry);
    ask(&inquiry);
    kal_registry_unlock(&kal->registry);
    if (build.no_memory) {
        forget_absence(&inquiry);
        return KAL_ERR_NO_RESOURCES;
    }
    *reason = inquiry.none;
    *advice = inquiry.to_do;
    return KAL_OK;
}

/* ---- sections ---- */

static struct kal_provider *find_provider(struct kal *kal, const char *name, struct nearest *near)
{
    struct kal_provider *provider;

    LL_FOREACH (kal->registry.providers, provider) {
        if (!provider->usable)
            continue;
        if (!strcmp(provider->name, name))
            return provider;
        nearest_try(near, name, provider->name);
    }
    return NULL;
}

/* A rejected file whose name says that it would have been this provider. */
static const struct kal_provider *find_rejected(struct kal *kal, const char *name)
{
    const struct kal_provider *provider;
    const char *base;

    LL_FOREACH (kal->registry.providers, provider) {
        base = strrchr(provider->path, '/');
        base = base ? base + 1 : provider->path;
        if (!provider->usable && !strncmp(base, "vp_", 3) &&
            !strncmp(base + 3, name, strlen(name)) && !strcmp(base + 3 + strlen(name), ".so"))
            return provider;
    }
    return NULL;
}

static void no_provider(struct build *build, struct kal_interface *interface,
                        const struct kal_interface_section *section, const char *near)
{
    const struct kal_provider *rejected = find_rejected(build->kal, interface->provider_name);

    if (rejected) {
        assign(build, &interface->reason, "provider file %s is not used: %s", rejected->path,
               rejected->reason);
        assign(build, &interface->advice, "%s", rejected->advice);
    } else if (near) {
        assign(build, &interface->reason, "there is no provider \"%s\"; did you mean \"%s\"?",
               interface->provider_name, near);
        assign(build, &interface->advice, "correct provider of [interface %s] (%s:%u)",
               section->name, source_of(build), section->line);
    } else {
        assign(build, &interface->reason, "there is no provider \"%s\"", interface->provider_name);
        assign(build, &interface->advice, "install vp_%s.so; searched were %s",
               interface->provider_name, build->kal->registry.folders);
    }
}

static void add_section(struct build *build, const struct kal_interface_section *section)
{
    const struct kal_setting *provider = kal_setting_find(section->settings, "provider");
    const struct kal_setting *device = kal_setting_find(section->settings, "device");
    struct kal_interface *interface = add(build, section->name);
    struct nearest near = { .word = NULL };
    struct kal_setting *setting;
    struct inquiry inquiry;
    enum ri_status status;

    if (!interface)
        return;
    if (!provider || !*provider->value) {
        interface->configured_wrong = true;
        assign(build, &interface->reason, "%s:%u: [interface %s] names no provider",
               source_of(build), section->line, section->name);
        assign(build, &interface->advice, "add a line: provider = NAME");
        return;
    }
    assign(build, &interface->provider_name, "%s", provider->value);
    if (device && *device->value)
        assign(build, &interface->device, "%s", device->value);
    if (build->no_memory)
        return;
    interface->provider = find_provider(build->kal, provider->value, &near);
    if (!interface->provider) {
        no_provider(build, interface, section, near.word);
        return;
    }
    interface->options = kal_values_create(interface->provider->descriptor->options,
                                           interface->provider->descriptor->option_count);
    if (!interface->options) {
        build->no_memory = true;
        return;
    }
    LL_FOREACH (section->settings, setting)
        set_option(build, interface, setting);
    inquiry =
        (struct inquiry){ .build = build, .provider = interface->provider, .interface = interface };
    status = ask(&inquiry);
    if (status != RI_OK || !inquiry.seen)
        unusable(build, interface, &inquiry, status);
    forget_absence(&inquiry);
}

/* ---- the list ---- */

static void build_all(struct build *build)
{
    const struct kal_interface_section *sections = build->kal->config->interfaces, *section;
    struct kal_provider *provider;

    LL_FOREACH (sections, section)
        add_section(build, section);
    if (sections && strcmp(kal_values_get(build->kal->config->ital, "default_interfaces"), "yes"))
        return;
    LL_FOREACH (build->kal->registry.providers, provider) {
        struct inquiry inquiry = { .build = build, .provider = provider };

        if (provider->usable && ask(&inquiry) != RI_OK && !build->no_memory)
            kal_log(RI_LOG_WARNING, "provider %s cannot list its devices", provider->name);
        forget_absence(&inquiry);
    }
}

enum kal_status kal_interfaces_build(struct kal *kal, struct kal_interface **list)
{
    struct build build = { .kal = kal };
    enum kal_status status = kal_registry_search(kal);

    if (status != KAL_OK)
        return status;
    kal_registry_lock(&kal->registry);
    build_all(&build);
    kal_registry_unlock(&kal->registry);
    if (build.no_memory) {
        kal_interfaces_free(build.list);
        return KAL_ERR_NO_RESOURCES;
    }
    *list = build.list;
    return KAL_OK;
}

enum kal_status kal_interface_list(struct kal *kal, kal_interface_fn fn, void *arg)
{
    struct kal_interface *list = NULL, *interface;
    enum kal_status status = kal_interfaces_build(kal, &list);

    if (status != KAL_OK)
        return status;
    LL_FOREACH (list, interface) {
        struct kal_interface_info info = {
            .name = interface->name,
            .provider = interface->provider_name,
            .device = interface->device,
            .transport = interface->transport,
            .usable = interface->usable,
            .reason = interface->reason,
            .advice = interface->advice,
        };

        fn(&info, arg);
    }
    kal_interfaces_free(list);
    return KAL_OK;
}
