/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Provider rnic: iWARP devices. rdmacore has all of its code.
 */
#include "vp.h"

static const struct kind kind = {
    .provider = "rnic",
    .transport = RI_TRANSPORT_IWARP,
    .what = "iWARP device",
    .others = "ib",
    .how = "modprobe siw; rdma link add siw0 type siw netdev eth0",
};

RDMACORE_PROVIDER(
    vp_rnic, kind, "rnic",
    "iWARP adapters (RDMA over TCP in hardware, or the kernel's siw), over rdma-core");
