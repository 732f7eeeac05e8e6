/* SPDX-License-Identifier: BSD-3-Clause
 * Reports for people and tools: version, options, configuration, reasons, counters. */
#include "itapi_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *itx_version(void)
{
    return PACKAGE_VERSION;
}

/* --- options --- */

/* Copies that live as long as the process, since what ual tells is lent. Published once and not
 * changed; no lock, which a forked child could find taken for ever. */
struct copies {
    struct itx_option *options;
    size_t count;
    bool failed;
};

static _Atomic(struct copies *) published;

static const char *copy(struct copies *copies, const char *text)
{
    char *own = text && *text ? strdup(text) : NULL;

    if (text && *text && !own)
        copies->failed = true;
    return own ? own : "";
}

/* "interface" options of a provider stand in sections of interfaces that it serves. */
static const char *section_name(struct copies *copies, const struct ual_option *option)
{
    char *name;

    if (!option->provider)
        return copy(copies, option->section);
    if (asprintf(&name, "%s (provider %s)", option->section, option->provider) >= 0)
        return name;
    copies->failed = true;
    return "";
}

static void keep_option(const struct ual_option *option, void *arg)
{
    struct copies *copies = arg;
    struct itx_option *more = realloc(copies->options, (copies->count + 1) * sizeof(*more));

    if (!more) {
        copies->failed = true;
        return;
    }
    copies->options = more;
    more[copies->count++] = (struct itx_option){
        .section = section_name(copies, option),
        .name = copy(copies, option->name),
        .type = copy(copies, option->type),
        .def = copy(copies, option->value),
        .unit = copy(copies, option->unit),
        .text = copy(copies, option->text),
    };
}

static void free_text(const char *text)
{
    if (*text) /* "" is no copy */
        free((char *)text);
}

static void free_copies(struct copies *copies)
{
    for (size_t i = 0; i < copies->count; i++) {
        free_text(copies->options[i].section);
        free_text(copies->options[i].name);
        free_text(copies->options[i].type);
        free_text(copies->options[i].def);
        free_text(copies->options[i].unit);
        free_text(copies->options[i].text);
    }
    free(copies->options);
    free(copies);
}

/* Publish a set, unless another thread has done so meanwhile. */
static enum ri_status make_copies(struct copies **out)
{
    struct copies *made = calloc(1, sizeof(*made));
    enum ri_status status = made ? ual_option_list(keep_option, made) : RI_ERR_NO_RESOURCES;

    if (status == RI_OK && made->failed)
        status = RI_ERR_NO_RESOURCES;
    if (status == RI_OK && atomic_compare_exchange_strong(&published, out, made))
        *out = made;
    else if (made)
        free_copies(made);
    return status;
}

it_status_t itx_option_list(const struct itx_option **options, size_t *count)
{
    struct copies *copies = atomic_load(&published);
    enum ri_status status = RI_OK;
    CANCEL_OFF();

    if (!options || !count)
        return IT_ERR_FAULT;
    if (!copies)
        status = make_copies(&copies);
    if (status == RI_OK) {
        *options = copies->options;
        *count = copies->count;
        sanitizer_defined(options, sizeof(*options));
        sanitizer_defined(count, sizeof(*count));
        sanitizer_defined(copies->options, copies->count * sizeof(*copies->options));
    }
    return itapi_status(status);
}

/* --- configuration --- */

it_status_t itx_config_write(itx_line_fn fn, void *arg)
{
    CANCEL_OFF();

    ual_keep();
    if (!fn)
        return IT_ERR_FAULT;
    return itapi_status(ual_config_write(fn, arg));
}

/* A copy that is not freed, because the program may hold it. One is made only when another file was
 * read. */
static bool keep_source(const char *text, const char **path)
{
    static _Atomic(char *) kept;
    char *before = atomic_load(&kept), *own;

    if (before && !strcmp(before, text)) {
        *path = before;
        return true;
    }
    own = strdup(text);
    if (!own)
        return false;
    atomic_store(&kept, own);
    *path = own;
    return true;
}

it_status_t itx_config_source(const char **path)
{
    char text[PATH_MAX];
    enum ri_status status;
    CANCEL_OFF();

    status = ual_keep();
    if (!path)
        return IT_ERR_FAULT;
    if (status == RI_OK)
        status = ual_config_source(text, sizeof(text));
    if (status != RI_OK)
        return itapi_status(status);
    if (!text[0]) {
        *path = NULL;
        return IT_SUCCESS;
    }
    return keep_source(text, path) ? IT_SUCCESS : IT_ERR_RESOURCES;
}

/* --- reasons --- */

static const char *text_of(const char *text)
{
    return text ? text : "";
}

struct provider_receiver {
    itx_report_fn fn;
    void *arg;
};

static void report_provider(const struct ual_provider *provider, void *arg)
{
    const struct provider_receiver *receiver = arg;
    struct itx_provider_report report = {
        .provider = provider->name,
        .path = text_of(provider->path),
        .usable = provider->usable,
        .reason = text_of(provider->reason ? provider->reason : provider->description),
        .advice = text_of(provider->advice),
        .abi_major = provider->abi_major,
        .abi_minor = provider->abi_minor,
    };

    receiver->fn(&report, receiver->arg);
}

it_status_t itx_provider_why(itx_report_fn fn, void *arg)
{
    struct provider_receiver receiver = { fn, arg };
    enum ri_status status;
    CANCEL_OFF();

    if (!fn)
        return IT_ERR_FAULT;
    status = ual_keep();
    if (status == RI_OK)
        status = ual_provider_list(report_provider, &receiver);
    return itapi_status(status);
}

struct interface_receiver {
    itx_interface_report_fn fn;
    void *arg;
};

static void report_interface(const struct ual_interface *interface, void *arg)
{
    const struct interface_receiver *receiver = arg;
    struct itx_interface_report report = {
        .interface = text_of(interface->name),
        .provider = interface->provider,
        .device = interface->device,
        .usable = interface->usable,
        .reason = text_of(interface->reason),
        .advice = text_of(interface->advice),
    };

    receiver->fn(&report, receiver->arg);
}

it_status_t itx_interface_why(itx_interface_report_fn fn, void *arg)
{
    struct interface_receiver receiver = { fn, arg };
    enum ri_status status;
    CANCEL_OFF();

    if (!fn)
        return IT_ERR_FAULT;
    status = ual_keep();
    if (status == RI_OK)
        status = ual_interface_list(report_interface, &receiver);
    return itapi_status(status);
}

/* --- counters --- */

#define COUNTERS_MAX 128u

it_status_t itx_counters(it_handle_t handle, struct itx_counter *counters, size_t *count)
{
    CALL();
    struct ual_object *object = ual_lookup_any((ual_handle)handle);
    const char *names[COUNTERS_MAX];
    uint64_t values[COUNTERS_MAX];
    size_t exist = COUNTERS_MAX;
    enum ri_status status;

    if (!object || (object->type != UAL_DEVICE && object->type != UAL_EP &&
                    object->type != UAL_UD_EP && object->type != UAL_EVD))
        return itapi_bad_handle(IT_ERR_INVALID_HANDLE);
    if (!count || (*count && !counters))
        return IT_ERR_FAULT;
    status = ual_counters(object, names, values, &exist);
    if (status == RI_ERR_NOT_SUPPORTED) /* nothing is counted for that kind or by that provider */
        exist = 0;
    else if (status != RI_OK)
        return itapi_status(status);
    for (size_t i = 0; i < exist && i < *count && i < COUNTERS_MAX; i++)
        counters[i] = (struct itx_counter){ names[i], values[i] };
    sanitizer_defined(counters, (exist < *count ? exist : *count) * sizeof(*counters));
    *count = exist < COUNTERS_MAX ? exist : COUNTERS_MAX;
    return IT_SUCCESS;
}
