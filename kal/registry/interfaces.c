/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps interface names of the configuration, and devices without one, to providers. */
#include "registry.h"

#include "rnicpi_util.h"
#include "answer.h"

#include "base/nearest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#ifndef ITAL_PROVIDER_ORDER
#define ITAL_PROVIDER_ORDER ""
#endif

#define ALIAS_PREFIX "vp_"

/* The answers of all providers. One round asks helpers at most once for all searches of a call. */
struct round {
    struct kal *kal;
    struct kal_answer *all;
    bool asked;
};

/* One build of a list. */
struct build {
    struct kal *kal;
    struct kal_answer *here; /* answers asked in this process; owned by the build */
    /* answers of the round, after them; providers in neither are not asked */
    const struct kal_answer *all;
    struct kal_interface *list;
    bool no_memory;
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

static struct kal_interface *add(struct build *build, const char *name)
{
    struct kal_interface *interface = calloc(1, sizeof(*interface));

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

static void refuse_value(struct build *build, struct kal_interface *interface,
                         const struct kal_setting *setting, const char *allowed)
{
    interface->configured_wrong = true;
    assign(build, &interface->reason, "%s:%u: %s = \"%s\": allowed is %s", setting->file,
           setting->line, setting->name, setting->value, allowed);
    assign(build, &interface->advice, "correct the value");
}

static void set_option(struct build *build, struct kal_interface *interface,
                       const struct kal_answer *answer, struct kal_setting *setting)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
    struct nearest near = { .word = NULL };
    struct ri_option option;

    for (size_t i = 0; i < kal_section_option_count; i++) {
        nearest_try(&near, setting->name, kal_section_options[i].name);
        if (!strcmp(setting->name, kal_section_options[i].name))
            return;
    }
    for (size_t i = 0; kal_interface_option(answer->options, answer->option_count, i, &option);
         i++) {
        nearest_try(&near, setting->name, option.name);
        if (strcmp(setting->name, option.name))
            continue;
        if (!kal_option_normal(&option, setting->value, normal, allowed))
            refuse_value(build, interface, setting, allowed);
        else if (!kal_values_set(interface->options, option.name, normal))
            build->no_memory = true;
        return;
    }
    if (setting->warned) /* once per line: the list is built often */
        return;
    setting->warned = true;
    if (near.word)
        kal_log(RI_LOG_WARNING,
                "%s:%u: unknown option \"%s\" of provider %s is ignored; did you mean \"%s\"?",
                setting->file, setting->line, setting->name, answer->name, near.word);
    else
        kal_log(RI_LOG_WARNING, "%s:%u: unknown option \"%s\" of provider %s is ignored",
                setting->file, setting->line, setting->name, answer->name);
}

/* Sets provider, device and fallback, which do not depend on the provider's answer. */
static void set_section_options(struct build *build, struct kal_interface *interface,
                                const struct kal_interface_section *section)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];

    for (size_t i = 0; i < kal_section_option_count; i++) {
        const struct ri_option *option = &kal_section_options[i];
        const struct kal_setting *setting = kal_setting_find(section->settings, option->name);
        char **where = !strcmp(option->name, "provider") ? &interface->provider_name
                       : !strcmp(option->name, "device") ? &interface->device
                                                         : &interface->fallback;

        if (!setting)
            continue;
        if (!kal_option_normal(option, setting->value, normal, allowed))
            refuse_value(build, interface, setting, allowed);
        else if (*normal)
            assign(build, where, "%s", normal);
    }
}

/* ---- devices ---- */

static void take_reason(struct build *build, struct kal_interface *interface,
                        const struct kal_device *device)
{
    assign(build, &interface->reason, "%s",
           device->reason ? device->reason : "the provider does not say why");
    assign(build, &interface->advice, "%s", device->advice ? device->advice : "");
}

static void take_device(struct build *build, struct kal_interface *interface,
                        const struct kal_device *device)
{
    interface->transport = device->transport;
    interface->asked_for_by_kind = device->flags & RI_DEVICE_ON_REQUEST;
    if (interface->configured_wrong)
        return; /* its first reason remains */
    interface->usable = device->usable;
    if (!device->usable)
        take_reason(build, interface, device);
}

/* NAME, NAME:... or NAME/...: the text after NAME, or NULL. */
static const char *after_provider(const char *text, const char *name)
{
    size_t length = strlen(name);

    if (!*name || strncmp(text, name, length) || !strchr(":/", text[length]))
        return NULL;
    return text + length; /* at the NUL or the sign */
}

/* A device whose name begins with another provider's does not replace that provider. */
static bool is_of_another(const struct build *build, const struct kal_answer *answer,
                          const char *device)
{
    const struct kal_provider *other;

    LL_FOREACH (build->kal->registry.providers, other)
        if (other->usable && other != answer->provider && strcmp(other->stem, answer->name) &&
            after_provider(device, other->stem))
            return true;
    return false;
}

static void add_default(struct build *build, const struct kal_answer *answer,
                        const struct kal_device *device)
{
    struct kal_interface *interface, *same = kal_interface_find(build->list, device->name);
    bool long_name = same || is_of_another(build, answer, device->name);
    char *name = NULL;

    if (same && same->provider == answer->provider)
        return; /* a section of that name describes it */
    assign(build, &name, long_name ? "%2$s/%1$s" : "%1$s", device->name, answer->name);
    interface = name && !kal_interface_find(build->list, name) ? add(build, name) : NULL;
    free(name);
    if (!interface)
        return;
    interface->on_request = device->flags & RI_DEVICE_ON_REQUEST;
    interface->provider = answer->provider;
    assign(build, &interface->provider_name, "%s", answer->name);
    assign(build, &interface->device, "%s", device->name);
    interface->options = kal_values_of_interface(answer->options, answer->option_count);
    if (!interface->options)
        build->no_memory = true;
    take_device(build, interface, device);
    if (device->usable && device->reason)
        take_reason(build, interface, device);
}

/* True: `name` is the full name, or the second part of PROVIDER:DEVICE. */
static bool is_called(const struct kal_answer *answer, const char *full, const char *name)
{
    const char *rest = after_provider(full, answer->name);

    return !strcmp(full, name) || (rest && *rest == ':' && !strcmp(rest + 1, name));
}

/* The device of a section: the named one, else the first usable one, else the first. NULL: none. */
static const struct kal_device *device_of(const struct kal_answer *answer, const char *name)
{
    const struct kal_device *device, *first = NULL;

    LL_FOREACH (answer->devices, device) {
        if (name ? is_called(answer, device->name, name) : device->usable)
            return device;
        first = first ? first : device;
    }
    return name ? NULL : first;
}

static void unusable(struct build *build, struct kal_interface *interface,
                     const struct kal_answer *answer)
{
    if (interface->configured_wrong)
        return;
    interface->usable = false;
    if (answer->status == RI_OK && answer->none) {
        assign(build, &interface->reason, "%s", answer->none);
        assign(build, &interface->advice, "%s", answer->to_do ? answer->to_do : "");
        return;
    }
    if (answer->status != RI_OK)
        assign(build, &interface->reason, "provider %s cannot list its devices (%s)",
               interface->provider_name, ri_status_name(answer->status));
    else if (interface->device)
        assign(build, &interface->reason, "provider %s has no device \"%s\"",
               interface->provider_name, interface->device);
    else
        assign(build, &interface->reason, "provider %s has no device", interface->provider_name);
    assign(build, &interface->advice, "%s",
           interface->device ? "correct device, or leave it out for the provider's default"
                             : "see what the provider needs");
}

/* Takes the device that the section names, else the provider's default. */
static void take_its_device(struct build *build, struct kal_interface *interface,
                            const struct kal_answer *answer)
{
    const struct kal_device *its = answer->status == RI_OK ? device_of(answer, interface->device)
                                                           : NULL;

    if (its)
        take_device(build, interface, its);
    else
        unusable(build, interface, answer);
}

/* ---- sections ---- */

static bool is_it(const struct kal_answer *answer, const char *name)
{
    return answer->usable && !strcmp(answer->name, name);
}

/* True: a refused file that is this provider, or would be by its file name. */
static bool is_refused(const struct kal_answer *answer, const char *name)
{
    return !answer->usable &&
           (!strcmp(answer->provider->stem, name) || (answer->name && !strcmp(answer->name, name)));
}

static const struct kal_answer *find_answer(const struct build *build, const char *name,
                                            bool (*fits)(const struct kal_answer *, const char *))
{
    const struct kal_answer *answer;

    LL_FOREACH (build->here, answer)
        if (fits(answer, name))
            return answer;
    LL_FOREACH (build->all, answer)
        if (fits(answer, name))
            return answer;
    return NULL;
}

static void no_provider(struct build *build, struct kal_interface *interface,
                        const struct kal_interface_section *section)
{
    const struct kal_answer *refused = find_answer(build, interface->provider_name, is_refused);
    const struct kal_provider *provider;
    struct nearest near = { .word = NULL };

    LL_FOREACH (build->kal->registry.providers, provider)
        if (provider->usable)
            nearest_try(&near, interface->provider_name,
                        *provider->stem ? provider->stem : provider->name);
    if (refused) {
        assign(build, &interface->reason, "provider file %s is not used: %s",
               refused->provider->path, refused->reason);
        assign(build, &interface->advice, "%s", refused->advice);
    } else if (near.word) {
        assign(build, &interface->reason, "there is no provider \"%s\"; did you mean \"%s\"?",
               interface->provider_name, near.word);
        assign(build, &interface->advice, "correct provider of [interface %s] (%s:%u)",
               section->name, section->file, section->line);
    } else {
        assign(build, &interface->reason, "there is no provider \"%s\"", interface->provider_name);
        assign(build, &interface->advice, "install vp_%s.so; searched were %s",
               interface->provider_name, build->kal->registry.folders);
    }
}

static void add_section(struct build *build, const struct kal_interface_section *section)
{
    struct kal_interface *interface = add(build, section->name);
    const struct kal_answer *answer;
    struct kal_setting *setting;

    if (!interface)
        return;
    set_section_options(build, interface, section);
    if (interface->configured_wrong || build->no_memory)
        return;
    if (!interface->provider_name) {
        interface->configured_wrong = true;
        assign(build, &interface->reason, "%s:%u: [interface %s] names no provider", section->file,
               section->line, section->name);
        assign(build, &interface->advice, "add a line: provider = NAME");
        return;
    }
    answer = find_answer(build, interface->provider_name, is_it);
    if (!answer) {
        no_provider(build, interface, section);
        return;
    }
    interface->provider = answer->provider;
    interface->options = kal_values_of_interface(answer->options, answer->option_count);
    if (!interface->options) {
        build->no_memory = true;
        return;
    }
    LL_FOREACH (section->settings, setting)
        set_option(build, interface, answer, setting);
    take_its_device(build, interface, answer);
}

/* ---- the list ---- */

/* The provider's own interfaces first, in the order given to the build; then by name. */
static int rank(const struct kal_answer *answer)
{
    const char *word = ITAL_PROVIDER_ORDER;
    size_t length;
    int place = 0;

    for (; *word; word += length, word += strspn(word, " "), place++) {
        length = strcspn(word, " ");
        if (strlen(answer->name) == length && !strncmp(word, answer->name, length))
            break;
    }
    return place;
}

static int by_rank(struct kal_answer *a, struct kal_answer *b)
{
    int one, other;

    if (!a->usable || !b->usable)
        return b->usable - a->usable;
    one = rank(a);
    other = rank(b);
    return one != other ? one - other : strcmp(a->name, b->name);
}

static void add_defaults(struct build *build, const struct kal_answer *answers)
{
    const struct kal_interface_section *sections = build->kal->config->interfaces;
    const struct kal_answer *answer;
    const struct kal_device *device;

    if (sections && !kal_values_bool(build->kal->config->ital, "default_interfaces"))
        return;
    LL_FOREACH (answers, answer) {
        if (!answer->usable)
            continue;
        if (answer->status != RI_OK)
            kal_log(RI_LOG_WARNING, "provider %s cannot list its devices", answer->name);
        LL_FOREACH (answer->devices, device)
            add_default(build, answer, device);
    }
}

static enum ri_status finish(struct build *build, enum ri_status status,
                             struct kal_interface **list)
{
    kal_answers_free(build->here);
    if (status == RI_OK && build->no_memory)
        status = RI_ERR_NO_RESOURCES;
    if (status == RI_OK)
        *list = build->list;
    else
        kal_interfaces_free(build->list);
    return status;
}

static enum ri_status ask_everybody(struct round *round)
{
    enum ri_status status = round->asked ? RI_OK : kal_ask_all(round->kal, &round->all);

    if (status == RI_OK && !round->asked) {
        round->asked = true;
        LL_SORT(round->all, by_rank);
    }
    return status;
}

/* Builds the list of all interfaces, the default one first. */
static enum ri_status build_all(struct round *round, struct kal_interface **list)
{
    struct kal *kal = round->kal;
    struct build build = { .kal = kal };
    enum ri_status status = ask_everybody(round);
    const struct kal_interface_section *section;

    if (status != RI_OK)
        return status;
    build.all = round->all;
    /* The lock guards the marks of lines that were warned about. */
    kal_registry_lock(&kal->registry);
    LL_FOREACH (kal->config->interfaces, section)
        add_section(&build, section);
    add_defaults(&build, build.all);
    if (!build.no_memory)
        status = kal_fallback_apply(build.list);
    if (!build.no_memory && status == RI_OK)
        kal_fallback_order(kal->config, &build.list);
    kal_registry_unlock(&kal->registry);
    return finish(&build, status, list);
}

enum ri_status kal_interfaces_build(struct kal *kal, struct kal_interface **list)
{
    struct round round = { .kal = kal };
    enum ri_status status = build_all(&round, list);

    kal_answers_free(round.all);
    return status;
}

/* ---- one of them ---- */

/* Loads the provider of that name. If no file has the name, helpers find the one that is called
 * so. */
static enum ri_status ask_for(struct round *round, struct build *build, const char *name)
{
    enum ri_status status = kal_ask_named(build->kal, name, &build->here);
    const struct kal_answer *known;

    if (status != RI_OK || build->here)
        return status;
    status = ask_everybody(round);
    build->all = round->all;
    known = status == RI_OK ? find_answer(build, name, is_it) : NULL;
    return known ? kal_ask_here(build->kal, known->provider, &build->here) : status;
}

static enum ri_status choose_section(struct round *round, struct build *build,
                                     const struct kal_interface_section *section)
{
    const struct kal_setting *provider = kal_setting_find(section->settings, "provider");
    enum ri_status status = RI_OK;

    if (provider && *provider->value)
        status = ask_for(round, build, provider->value);
    if (status == RI_OK) {
        kal_registry_lock(&build->kal->registry);
        add_section(build, section);
        kal_registry_unlock(&build->kal->registry);
    }
    return status;
}

/* Finds the provider by the beginning of a device's interface name: "NAME", "NAME:DEVICE",
 * "NAME/DEVICE". */
static enum ri_status choose_by_prefix(struct build *build, const char *name)
{
    size_t length = strcspn(name, ":/");
    enum ri_status status;
    char *provider = strndup(name, length);

    status = provider ? kal_ask_named(build->kal, provider, &build->here) : RI_ERR_NO_RESOURCES;
    free(provider);
    if (status != RI_OK)
        return status;
    kal_registry_lock(&build->kal->registry);
    add_defaults(build, build->here);
    kal_registry_unlock(&build->kal->registry);
    if (!kal_interface_find(build->list, name) &&
        name[length] == '/') { /* identified by its short name, which is unique */
        struct kal_interface *interface = kal_interface_find(build->list, name + length + 1);

        if (interface)
            assign(build, &interface->name, "%s", name);
    }
    return RI_OK;
}

/* "vp_NAME", the name of a provider's file: its default device, for programs that use the file
 * name. Not listed, because it is a second name of a listed interface. */
static enum ri_status choose_alias(struct round *round, struct build *build, const char *name)
{
    const char *provider = name + strlen(ALIAS_PREFIX);
    const struct kal_config *config = build->kal->config;
    const struct kal_answer *answer;
    struct kal_interface *interface;
    enum ri_status status;

    if (config->interfaces && !kal_values_bool(config->ital, "default_interfaces"))
        return RI_OK;
    status = ask_for(round, build, provider);
    answer = status == RI_OK ? find_answer(build, provider, is_it) : NULL;
    interface = answer ? add(build, name) : NULL;
    if (!interface)
        return status;
    interface->provider = answer->provider;
    assign(build, &interface->provider_name, "%s", answer->name);
    interface->options = kal_values_of_interface(answer->options, answer->option_count);
    if (!interface->options)
        build->no_memory = true;
    take_its_device(build, interface, answer);
    return RI_OK;
}

/* The provider is known only by the name of its device: asks all, then loads that one. */
static enum ri_status choose_from_all(struct round *round, const char *name,
                                      struct kal_interface **list)
{
    enum ri_status status = build_all(round, list);
    struct kal_interface *interface = status == RI_OK ? kal_interface_find(*list, name) : NULL;
    struct kal_answer *answer = NULL;

    if (!interface || !interface->usable)
        return status;
    status = kal_ask_here(round->kal, interface->provider, &answer);
    if (status == RI_OK && !answer->usable) {
        struct build build = { .kal = round->kal };

        interface->usable = false;
        assign(&build, &interface->reason, "%s", answer->reason);
        assign(&build, &interface->advice, "%s", answer->advice);
        status = build.no_memory ? RI_ERR_NO_RESOURCES : RI_OK;
    }
    if (answer)
        kal_answer_free(answer);
    if (status != RI_OK)
        kal_interfaces_free(*list);
    return status;
}

static enum ri_status choose(struct round *round, const char *name, struct kal_interface **list)
{
    struct build build = { .kal = round->kal };
    const struct kal_interface_section *section;
    enum ri_status status;

    LL_FOREACH (round->kal->config->interfaces, section)
        if (!strcmp(section->name, name))
            break;
    if (section)
        status = choose_section(round, &build, section);
    else if (!strncmp(name, ALIAS_PREFIX, strlen(ALIAS_PREFIX)))
        status = choose_alias(round, &build, name);
    else
        status = choose_by_prefix(&build, name);
    if (status != RI_OK || section || kal_interface_find(build.list, name) || build.no_memory)
        return finish(&build, status, list);
    kal_answers_free(build.here);
    kal_interfaces_free(build.list);
    return choose_from_all(round, name, list);
}

/* Argument of a kal_fallback_find_fn. */
struct search {
    struct round *round;
    struct kal_interface *found; /* in the last list */
};

static enum ri_status find_another(void *arg, const char *name, struct kal_interface **other)
{
    struct search *search = arg;
    enum ri_status status;

    kal_interfaces_free(search->found);
    search->found = NULL;
    status = choose(search->round, name, &search->found);
    *other = status == RI_OK ? kal_interface_find(search->found, name) : NULL;
    return status;
}

enum ri_status kal_interface_choose(struct kal *kal, const char *name, struct kal_interface **list)
{
    struct round round = { .kal = kal };
    struct search search = { .round = &round };
    enum ri_status status = choose(&round, name, list);
    struct kal_interface *interface = status == RI_OK ? kal_interface_find(*list, name) : NULL;

    if (interface)
        status = kal_fallback_stand_in(interface, find_another, &search, true);
    if (interface && status != RI_OK)
        kal_interfaces_free(*list);
    kal_interfaces_free(search.found);
    kal_answers_free(round.all);
    return status;
}

enum ri_status kal_interface_list(struct kal *kal, kal_interface_fn fn, void *arg)
{
    struct kal_interface *list = NULL, *interface;
    enum ri_status status = kal_interfaces_build(kal, &list);

    if (status != RI_OK)
        return status;
    LL_FOREACH (list, interface) {
        struct kal_interface_info info = {
            .name = interface->name,
            .provider = interface->provider_name,
            .device = interface->device,
            .transport = interface->transport,
            .on_request = interface->on_request,
            .asked_for_by_kind = interface->asked_for_by_kind,
            .usable = interface->usable,
            .reason = interface->reason,
            .advice = interface->advice,
        };

        fn(&info, arg);
    }
    kal_interfaces_free(list);
    return RI_OK;
}
