/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Provider rnic: iWARP device. All of it is rdmacore's.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rdmacore.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

static const struct kind kind = {
    .provider = "rnic",
    .transport = RI_TRANSPORT_IWARP,
    .what = "iWARP device",
    .others = "ib",
    .how = "modprobe siw; rdma link add siw0 type siw netdev eth0",
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

RI_PROVIDER(vp_rnic) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "rnic",
    .description =
        "iWARP adapters (RDMA over TCP in hardware, or the kernel's siw), over rdma-core",
    .version = PACKAGE_VERSION,
    .privileged = &privileged,
    .user = &rdmacore_user,
    .options = rdmacore_options,
    .option_count = RDMACORE_OPTIONS,
};
