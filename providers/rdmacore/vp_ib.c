/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Provider ib: InfiniBand or RoCE device. All of it is rdmacore's.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rdmacore.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

static const struct kind kind = {
    .provider = "ib",
    .transport = RI_TRANSPORT_INFINIBAND,
    .what = "InfiniBand or RoCE device",
    .others = "rnic",
    .how = "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
};

static enum ri_status enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    return rdmacore_enumerate(&kind, host, found, arg);
}

static enum ri_status open_device(const struct ri_open *open, struct ri_rnic **rnic)
{
    return rdmacore_open(&kind, open, rnic);
}

static const struct ri_privileged_ops privileged = {
    RDMACORE_PRIVILEGED,
    .enumerate = enumerate,
    .open = open_device,
};

RI_PROVIDER(vp_ib) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "ib",
    .description = "InfiniBand and RoCE adapters, or the kernel's rdma_rxe, over rdma-core",
    .version = PACKAGE_VERSION,
    .privileged = &privileged,
    .user = &rdmacore_user,
    .options = rdmacore_options,
    .option_count = RDMACORE_OPTIONS,
};
