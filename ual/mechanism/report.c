/* SPDX-License-Identifier: BSD-3-Clause
 * Reports about the installation, for tools: interfaces, providers, options, configuration. No IA
 * is needed. */
#include "mechanism_private.h"

#include <stdio.h>

/* A front end's function and argument, passed through kal's callback of the same kind. */
struct receiver {
    union {
        void (*interface)(const struct ual_interface *, void *);
        void (*provider)(const struct ual_provider *, void *);
        void (*option)(const struct ual_option *, void *);
    };
    void *arg;
};

static void pass_interface(const struct kal_interface_info *info, void *arg)
{
    const struct receiver *receiver = arg;
    struct ual_interface interface = {
        .name = info->name,
        .provider = info->provider,
        .device = info->device,
        .transport = info->transport,
        .usable = info->usable,
        .on_request = info->on_request,
        .asked_for_by_kind = info->asked_for_by_kind,
        .reason = info->reason,
        .advice = info->advice,
    };

    receiver->interface(&interface, receiver->arg);
}

enum ri_status ual_interface_list(void (*fn)(const struct ual_interface *, void *), void *arg)
{
    struct receiver receiver = { .interface = fn, .arg = arg };
    struct kal *kal;
    enum ri_status status = ual_instance_get(&kal);

    if (status != RI_OK)
        return status;
    status = kal_interface_list(kal, pass_interface, &receiver);
    ual_instance_put(kal);
    return status;
}

static void pass_provider(const struct kal_provider_info *info, void *arg)
{
    const struct receiver *receiver = arg;
    struct ual_provider provider = {
        .name = info->name,
        .path = info->path,
        .reason = info->reason,
        .advice = info->advice,
        .version = info->version,
        .description = info->description,
        .usable = info->usable,
        .abi_major = info->abi_major,
        .abi_minor = info->abi_minor,
    };

    receiver->provider(&provider, receiver->arg);
}

enum ri_status ual_provider_list(void (*fn)(const struct ual_provider *, void *), void *arg)
{
    struct receiver receiver = { .provider = fn, .arg = arg };
    struct kal *kal;
    enum ri_status status = ual_instance_get(&kal);

    if (status != RI_OK)
        return status;
    status = kal_provider_list(kal, pass_provider, &receiver);
    ual_instance_put(kal);
    return status;
}

static void pass_option(const struct kal_option *known, void *arg)
{
    const struct receiver *receiver = arg;
    struct ual_option option = {
        .section = known->section,
        .provider = known->provider,
        .name = known->option.name,
        .type = known->option.type,
        .value = known->option.value,
        .unit = known->option.unit,
        .text = known->option.text,
    };

    receiver->option(&option, receiver->arg);
}

enum ri_status ual_option_list(void (*fn)(const struct ual_option *, void *), void *arg)
{
    struct receiver receiver = { .option = fn, .arg = arg };
    struct kal *kal;
    enum ri_status status = ual_instance_get(&kal);

    if (status != RI_OK)
        return status;
    kal_option_list(kal, pass_option, &receiver);
    ual_instance_put(kal);
    return RI_OK;
}

enum ri_status ual_config_write(void (*fn)(const char *line, void *), void *arg)
{
    struct kal *kal;
    enum ri_status status = ual_instance_get(&kal);

    if (status != RI_OK)
        return status;
    kal_config_write(kal, fn, arg);
    ual_instance_put(kal);
    return RI_OK;
}

enum ri_status ual_config_source(char *path, size_t size)
{
    struct kal *kal;
    enum ri_status status = ual_instance_get(&kal);
    const char *source;

    if (status != RI_OK)
        return status;
    source = kal_config_source(kal);
    if (size)
        snprintf(path, size, "%s", source ? source : "");
    ual_instance_put(kal);
    return RI_OK;
}

void ual_log(enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kal_vlog(level, NULL, format, args);
    va_end(args);
}
