/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the options of options_table.h. The host has checked the values: a status other than RI_OK
 * is an error of this file.
 */
#include "device.h"

struct reader {
    const struct ri_host *host;
    enum ri_status status;
};

static void keep(struct reader *reader, enum ri_status status)
{
    if (status != RI_OK)
        reader->status = status;
}

static bool truth(struct reader *reader, const char *name)
{
    bool value = false;

    keep(reader, ri_option_bool(reader->host, name, &value));
    return value;
}

static uint64_t number(struct reader *reader, const char *name)
{
    uint64_t value = 0;

    keep(reader, ri_option_number(reader->host, name, &value));
    return value;
}

static uint32_t word(struct reader *reader, const char *name)
{
    uint32_t value = 0;

    keep(reader, ri_option_word(reader->host, name, &value));
    return value;
}

static const char *text(struct reader *reader, const char *name)
{
    const char *value = "";

    keep(reader, ri_option_text(reader->host, name, &value));
    return value;
}

static void read_net(struct reader *reader, struct net_options *options)
{
    options->udp_port = (uint16_t)number(reader, "udp_port");
    options->receive_octets = (uint32_t)number(reader, "receive_buffer");
    options->slots = (uint16_t)(NET_SLOTS_MIN << word(reader, "slots"));
    options->gso = (enum net_switch)word(reader, "gso");
    options->gro = (enum net_switch)word(reader, "gro");
}

enum ri_status roce_read_options(struct roce_rnic *device)
{
    struct reader reader = { .host = device->core.host, .status = RI_OK };
    struct core_options *core = &device->core.options;

    read_net(&reader, &device->options.net);
    device->options.netdevs = text(&reader, "netdev");
    device->options.mtu = bth_mtu_octets(word(&reader, "mtu"));
    core->remote_invalidate = truth(&reader, "remote_invalidate");
    core->guard = core->by_kernel = truth(&reader, "guard");
    core->lanes = 1;
    device->core.attr.lanes = 1;
    device->core.attr.max_qp = (uint32_t)number(&reader, "max_qp");
    return reader.status;
}
