/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Provider ib: InfiniBand or RoCE devices. rdmacore has all of its code.
 */
#include "vp.h"

static const struct kind kind = {
    .provider = "ib",
    .transport = RI_TRANSPORT_INFINIBAND,
    .what = "InfiniBand or RoCE device",
    .others = "rnic",
    .how = "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
};

RDMACORE_PROVIDER(vp_ib, kind, "ib",
                  "InfiniBand and RoCE adapters, or the kernel's rdma_rxe, over rdma-core");
