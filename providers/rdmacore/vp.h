/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The descriptor of a provider over rdmacore. Providers differ only in their `struct kind`.
 */
#ifndef ITAL_RDMACORE_VP_H
#define ITAL_RDMACORE_VP_H

#include "rdmacore.h"
#include "verbs.h"

/* Read by device.c. */
static const struct ri_option rdmacore_options[] = {
    { "inline", "size: 0..65536", "64", "octets",
      "Sends and Writes up to this length are copied into the request, where the device can." },
};

/* SYMBOL: that of the module; KIND: a static const struct kind; NAME: its name; TEXT: a
 * description. Use once in a file. */
#define RDMACORE_PROVIDER(SYMBOL, KIND, NAME, TEXT)                                           \
    static enum ri_status enumerate(const struct ri_host *host, ri_found_fn found, void *arg) \
    {                                                                                         \
        return rdmacore_enumerate(&(KIND), host, found, arg);                                 \
    }                                                                                         \
    static enum ri_status open_device(const struct ri_open *open, struct ri_rnic **rnic)      \
    {                                                                                         \
        return rdmacore_open(&(KIND), open, rnic);                                            \
    }                                                                                         \
    static const struct ri_privileged_ops privileged = {                                      \
        RDMACORE_PRIVILEGED,                                                                  \
        .enumerate = enumerate,                                                               \
        .open = open_device,                                                                  \
    };                                                                                        \
    RI_PROVIDER(SYMBOL) = {                                                                   \
        .size = sizeof(struct ri_provider),                                                   \
        .abi_major = RI_ABI_MAJOR,                                                            \
        .abi_minor = RI_ABI_MINOR,                                                            \
        .name = (NAME),                                                                       \
        .description = (TEXT),                                                                \
        .version = PACKAGE_VERSION,                                                           \
        .privileged = &privileged,                                                            \
        .user = &rdmacore_user,                                                               \
        .options = rdmacore_options,                                                          \
        .option_count = ARRAY_SIZE(rdmacore_options),                                         \
    }

#endif
