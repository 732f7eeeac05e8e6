/* SPDX-License-Identifier: BSD-3-Clause
 * I/O buffer lists, and the I/O addresses in them: where the CPU moves the octets these are
 * addresses of the process. */
#include "itapi_private.h"

#include "base/checked.h"

#include <unistd.h>

/* --- lists --- */

it_status_t itapi_check_iobl(const it_iobl_t *iobl, uint64_t length)
{
    uint64_t each = iobl->list.ce_list.elt_len, octets;

    if (iobl->iobl_type != IT_IOBL_PAGE_LIST && iobl->iobl_type != IT_IOBL_BLOCK_LIST)
        return IT_ERR_INVALID_IOBL;
    if (!iobl->num_elts || !iobl->list.ce_list.list_elt || !each || each > UINT32_MAX ||
        iobl->fbo >= each || __builtin_mul_overflow(iobl->num_elts, each, &octets))
        return IT_ERR_INVALID_IOBL;
    if (iobl->iobl_type == IT_IOBL_PAGE_LIST && each % (uint64_t)sysconf(_SC_PAGESIZE))
        return IT_ERR_INVALID_IOBL;
    return length > octets - iobl->fbo ? IT_ERR_INVALID_LENGTH : IT_SUCCESS;
}

it_status_t itapi_run_of_list(const it_iobl_t *iobl, uint64_t length, void **memory)
{
    it_status_t status = itapi_check_iobl(iobl, length);
    const it_io_addr_t *elements = iobl->list.ce_list.list_elt;

    for (size_t i = 1; status == IT_SUCCESS && i < iobl->num_elts; i++)
        if ((uintptr_t)elements[i] - (uintptr_t)elements[i - 1] != iobl->list.ce_list.elt_len)
            status = IT_ERR_INVALID_IOBL;
    if (status == IT_SUCCESS)
        *memory = (void *)((uintptr_t)elements[0] + iobl->fbo);
    return status;
}

/* --- I/O addresses --- */

/* The adapter reaches memory by this process's own addresses. */
static it_status_t check_mapping(it_ia_handle_t ia_handle, uint64_t start, size_t length)
{
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!itapi_takes_iobl(ual_device_attr(ia)))
        return itapi_bad_handle(IT_ERR_OP_NOT_SUPPORTED);
    if (!start)
        return IT_ERR_INVALID_ADDRESS;
    return !length || checked_wraps(start, length) ? IT_ERR_INVALID_LENGTH : IT_SUCCESS;
}

it_status_t it_mem_map(it_ia_handle_t ia_handle, void *vaddr, uint64_t aspace_id, size_t len,
                       it_io_addr_t *io_addr, size_t *mapped_len)
{
    CALL();
    SANITIZER_OUTPUT(io_addr);
    SANITIZER_OUTPUT(mapped_len);
    it_status_t status = check_mapping(ia_handle, (uintptr_t)vaddr, len);

    if (status != IT_SUCCESS)
        return status;
    if (aspace_id != 0)
        return IT_ERR_NO_PERMISSION;
    if (!io_addr || !mapped_len)
        return IT_ERR_FAULT;
    *io_addr = (it_io_addr_t)(uintptr_t)vaddr;
    *mapped_len = len;
    return IT_SUCCESS;
}

it_status_t it_mem_unmap(it_ia_handle_t ia_handle, it_io_addr_t io_addr, size_t mapped_len)
{
    CALL();
    return check_mapping(ia_handle, (uintptr_t)io_addr, mapped_len);
}
