/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that this release does not build (docs/status.md). Each looks at its handles, so that a
 * wrong one is told as what it is, and does nothing else. Objects that only such calls could make
 * do not exist: every handle of theirs is a wrong one. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "itapi_private.h"

/* One handle argument: its kind and what to say when it is not of that kind. */
struct argument {
    const void *handle;
    enum ual_type type;
    it_status_t invalid;
};

static it_status_t refuse(const struct argument *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!ual_lookup((ual_handle)arguments[i].handle, arguments[i].type))
            return itapi_bad_handle(arguments[i].invalid);
    }
    return itapi_bad_handle(IT_ERR_OP_NOT_SUPPORTED); /* a forked child: IT_ERR_IA_CATASTROPHE */
}

#define REFUSE(...)                                                         \
    do {                                                                    \
        const struct argument arguments[] = { __VA_ARGS__ };                \
                                                                            \
        return refuse(arguments, sizeof(arguments) / sizeof(arguments[0])); \
    } while (0)

#define ARGUMENT(handle, type, invalid) ((struct argument){ handle, type, invalid })
#define IA(handle)                      ARGUMENT(handle, UAL_DEVICE, IT_ERR_INVALID_IA)

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* --- memory --- */

it_status_t it_mem_map(it_ia_handle_t ia_handle, void *vaddr, uint64_t aspace_id, size_t len,
                       it_io_addr_t *io_addr, size_t *mapped_len)
{
    REFUSE(IA(ia_handle));
}

it_status_t it_mem_unmap(it_ia_handle_t ia_handle, it_io_addr_t io_addr, size_t mapped_len)
{
    REFUSE(IA(ia_handle));
}
