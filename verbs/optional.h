/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Refused calls that programs can do without. rdma-core's own libraries answer EOPNOTSUPP to these
 * where a device is of another kind, so a program asks, and goes another way: the direct calls of
 * adapters, memory of other devices (DMA-BUF), hints for PCIe (DMA handles), enhanced connection
 * establishment (ECE).
 */
#ifndef ITAL_VERBS_OPTIONAL_H
#define ITAL_VERBS_OPTIONAL_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool vb_is_optional(const char *call)
{
    static const char *const families[] = { "mlx5dv_", "_mlx5dv_", "__mlx5dv_", "mlx4dv_",
                                            "hnsdv_",  "manadv_",  "efadv_",    "ionic_dv_" };
    static const char *const calls[] = { "ibv_reg_dmabuf_mr",  "ibv_query_ece",
                                         "ibv_alloc_dmah",     "ibv_dealloc_dmah",
                                         "ibv_set_ece",        "rdma_get_remote_ece",
                                         "rdma_set_local_ece", "rdma_reject_ece" };

    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
        if (!strncmp(call, families[i], strlen(families[i])))
            return true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        if (!strcmp(call, calls[i]))
            return true;
    return false;
}

#endif
