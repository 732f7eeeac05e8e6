/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the options of options_table.h. The host has checked the values: a status other than RI_OK
 * is an error of this file.
 */
#include "device.h"

#include "providers/software/host/option_reader.h"

static void read_net(struct option_reader *reader, struct net_options *options)
{
    options->udp_port = (uint16_t)option_number(reader, "udp_port");
    options->receive_octets = (uint32_t)option_number(reader, "receive_buffer");
    options->slots = (uint16_t)(NET_SLOTS_MIN << option_word(reader, "slots"));
    options->gso = (enum net_switch)option_word(reader, "gso");
    options->gro = (enum net_switch)option_word(reader, "gro");
    options->kald = option_text(reader, "kald");
}

enum ri_status roce_read_options(struct roce_rnic *device)
{
    struct option_reader reader = { .host = device->core.host, .status = RI_OK };
    struct core_options *core = &device->core.options;

    read_net(&reader, &device->options.net);
    device->options.netdevs = option_text(&reader, "netdev");
    device->options.connect_timeout = option_number(&reader, "connect_timeout") * CLOCK_NS_PER_MS;
    device->options.close_timeout = option_number(&reader, "close_timeout") * CLOCK_NS_PER_MS;
    device->options.mtu = bth_mtu_octets(option_word(&reader, "mtu"));
    device->options.local = (enum roce_local)option_word(&reader, "local");
    device->meet.local.access = (enum local_way)option_word(&reader, "local_access");
    device->meet.local.close_timeout_ns = device->options.close_timeout;
    core->remote_invalidate = option_truth(&reader, "remote_invalidate");
    core->guard = core->by_kernel = option_truth(&reader, "guard");
    core->lanes = 1;
    device->core.attr.lanes = 1;
    device->core.attr.max_qp = (uint32_t)option_number(&reader, "max_qp");
    return reader.status;
}
