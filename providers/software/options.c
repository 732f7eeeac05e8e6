/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the options of options_table.h. The host has checked the values: a status other than RI_OK
 * is an error of this file.
 */
#include "provider.h"

#include "base/names.h"
#include "providers/software/host/option_reader.h"

#include <net/if.h>
#include <stdio.h>

static uint64_t ms(struct option_reader *reader, const char *name)
{
    return option_number(reader, name) * CLOCK_NS_PER_MS;
}

static void read_tcp(struct option_reader *reader, struct iwarp_options *options)
{
    options->ack_timeout_ns = ms(reader, "ack_timeout");
    options->tcp_user_timeout_ms = (uint32_t)option_number(reader, "tcp_user_timeout");
    options->keepalive_idle_s = (uint32_t)option_number(reader, "keepalive_idle");
    options->keepalive_interval_s = (uint32_t)option_number(reader, "keepalive_interval");
    options->keepalive_count = (uint32_t)option_number(reader, "keepalive_count");
    if (!option_truth(reader, "keepalive"))
        options->keepalive_idle_s = 0;
    options->congestion = option_text(reader, "tcp_congestion");
    options->netdevs = option_text(reader, "netdev");
}

/* The interfaces may come up later. */
static void warn_of_absent(const struct softrdma *device)
{
    const char *at = device->iwarp.options.netdevs, *one;
    char name[IFNAMSIZ];
    size_t length;

    while ((one = names_next(&at, &length))) {
        snprintf(name, sizeof(name), "%.*s", (int)length, one);
        if (!if_nametoindex(name))
            ri_log(device->core.host, RI_LOG_WARNING,
                   "there is no network interface %s now (option netdev)", name);
    }
}

static void read_core(struct option_reader *reader, struct core_options *options)
{
    options->remote_invalidate = option_truth(reader, "remote_invalidate");
    options->by_kernel = option_truth(reader, "guard");
    options->sanitizers = sanitizer_present() ? (uint8_t)option_word(reader, "sanitizers") : 0;
    options->guard = options->by_kernel || options->sanitizers != SANITIZER_OFF;
    options->lanes = (uint32_t)option_number(reader, "lanes");
}

static void read_iwarp(struct option_reader *reader, struct iwarp_options *options)
{
    options->fpdu_max = option_word(reader, "fpdu") == 1;
    options->polled = (uint32_t)option_number(reader, "polled_connections");
    options->close_timeout_ns = ms(reader, "close_timeout");
    options->rtr_timeout_ns = ms(reader, "request_timeout");
    options->rtr_repeat_ns = ms(reader, "rtr_repeat");
    options->first_message_wait_ns = ms(reader, "first_message_wait");
    options->stall_timeout_ns = ms(reader, "stall_timeout");
    options->reassembly_limit = option_number(reader, "reassembly_limit");
    read_tcp(reader, options);
}

/* What goes by the kernel, or is captured, goes over TCP. */
static void read_local(struct option_reader *reader, struct softrdma *device)
{
    device->has_local = option_word(reader, "local") != 0 && !device->core.options.by_kernel;
    device->local.access = (enum local_way)option_word(reader, "local_access");
    device->local.closes_tcp = option_truth(reader, "local_close_tcp");
    device->local.close_timeout_ns = device->iwarp.options.close_timeout_ns;
}

enum ri_status softrdma_read_options(struct softrdma *device)
{
    struct option_reader reader = { .host = device->core.host };
    struct ri_rnic_attr *attr = &device->core.attr;

    read_core(&reader, &device->core.options);
    read_iwarp(&reader, &device->iwarp.options);
    read_local(&reader, device);
    attr->lanes = device->core.options.lanes;
    attr->max_ird = (uint32_t)option_number(&reader, "max_ird");
    attr->max_ord = (uint32_t)option_number(&reader, "max_ord");
    attr->max_qp = (uint32_t)option_number(&reader, "max_qp");
    if (reader.status != RI_OK)
        return reader.status;
    warn_of_absent(device);
    return RI_OK;
}
