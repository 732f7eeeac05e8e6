/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The port of a software device, as the host's network interfaces make it. May block.
 */
#ifndef ITAL_SOFTWARE_HOST_PORT_H
#define ITAL_SOFTWARE_HOST_PORT_H

#include "rnicpi.h"

#include <linux/ethtool.h>

/* ri_privileged_ops.query_port, of the interfaces in `netdevs` (base/names.h; "": all). */
enum ri_status host_query_port(const struct ri_host *host, const char *netdevs,
                               struct ri_port_attr *attr);
/* The speed of a link as its driver says it, in bits per second. 0: the driver does not know it. */
uint64_t host_link_speed(const struct ethtool_cmd *command);
/* The EUI-64 of an interface that has a MAC address; unchanged if they cannot be listed, zeros if
 * none has one. */
void host_find_guid(const char *netdevs, uint8_t guid[8]);

#endif
