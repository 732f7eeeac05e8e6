/* SPDX-License-Identifier: BSD-3-Clause
 * Local memory regions, and segments of work requests in the provider's terms. */
#include "itapi_private.h"

#include "base/checked.h"

#include <string.h>

/* Privileges are passed down as they are. */
static_assert((int)IT_PRIV_LOCAL_READ == (int)RI_ACCESS_LOCAL_READ, "local read");
static_assert((int)IT_PRIV_LOCAL_WRITE == (int)RI_ACCESS_LOCAL_WRITE, "local write");
static_assert((int)IT_PRIV_REMOTE_READ == (int)RI_ACCESS_REMOTE_READ, "remote read");
static_assert((int)IT_PRIV_REMOTE_WRITE == (int)RI_ACCESS_REMOTE_WRITE, "remote write");
static_assert((int)IT_PRIV_ATOMIC == (int)RI_ACCESS_REMOTE_ATOMIC, "atomic");

#define FLAGS_KNOWN \
    (IT_LMR_FLAG_NONE | IT_LMR_FLAG_SHARED | IT_LMR_FLAG_NONCOHERENT | IT_LMR_FLAG_NON_SHAREABLE)
#define PRIVS_SHIFT 16 /* above LMR_FLAGS_MASK */

uint32_t itapi_lmr_remembered(unsigned int flags, unsigned int privs)
{
    return (flags ? flags : (unsigned int)IT_LMR_FLAG_NONE) | privs << PRIVS_SHIFT;
}

it_status_t itapi_check_privs(unsigned int privs)
{
    if (privs & ~(unsigned int)IT_PRIV_ALL)
        return IT_ERR_INVALID_PRIVS;
    if ((privs & (IT_PRIV_REMOTE_WRITE | IT_PRIV_ATOMIC)) && !(privs & IT_PRIV_LOCAL_WRITE))
        return IT_ERR_INVALID_PRIVS;
    return IT_SUCCESS;
}

it_status_t itapi_check_lmr_flags(unsigned int flags)
{
    return flags & ~(unsigned int)FLAGS_KNOWN ? IT_ERR_INVALID_FLAGS : IT_SUCCESS;
}

it_status_t itapi_check_addr_mode(const struct ri_rnic_attr *attr, it_addr_mode_t mode)
{
    if (mode == IT_ADDR_MODE_RELATIVE && (attr->features & RI_FEATURE_ZERO_BASED))
        return IT_SUCCESS;
    return mode == IT_ADDR_MODE_ABSOLUTE ? IT_SUCCESS : IT_ERR_INVALID_ADDR_MODE;
}

/* Local read is implied, and so is that RMRs may be linked. IT_PRIV_ALL is written by programs that
 * never use atomics: an adapter without them takes it as everything that it has. */
uint32_t itapi_access_of(const struct ual_device *ia, unsigned int privs, uint32_t keep)
{
    uint32_t access = privs | RI_ACCESS_LOCAL_READ | keep;

    if (has_feature(ia, FEATURES_RMR))
        access |= RI_ACCESS_BIND;
    if (!(ual_device_attr(ia)->features & RI_FEATURE_ATOMICS))
        access &= ~(uint32_t)RI_ACCESS_REMOTE_ATOMIC;
    return access;
}

static it_rmr_context_t context_of(const struct ual_mr *mr)
{
    return mr->access & PRIVS_REMOTE ? mr->rkey : 0;
}

static it_status_t check_create(const struct ri_rnic_attr *attr, void *addr, it_length_t length,
                                it_addr_mode_t mode, unsigned int privs, unsigned int flags)
{
    it_status_t status = itapi_check_privs(privs);

    if (status == IT_SUCCESS)
        status = itapi_check_lmr_flags(flags);
    if (status == IT_SUCCESS)
        status = itapi_check_addr_mode(attr, mode);
    if (status != IT_SUCCESS)
        return status;
    if (length == 0 || checked_wraps((uintptr_t)addr, length))
        return IT_ERR_INVALID_LENGTH;
    if (length > attr->max_mr_length)
        return IT_ERR_RESOURCE_LMR_LENGTH;
    return IT_SUCCESS;
}

/* `memory` appears at `addr`: the same but for I/O buffer lists. */
static it_status_t create(it_pz_handle_t pz_handle, void *memory, void *addr, it_length_t length,
                          it_addr_mode_t mode, it_mem_priv_t privs, it_lmr_flag_t flags,
                          uint32_t shared_id, it_lmr_handle_t *lmr_handle,
                          it_rmr_context_t *rmr_context)
{
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    uint32_t named = mode == IT_ADDR_MODE_RELATIVE ? RI_ACCESS_ZERO_BASED
                     : memory != addr              ? RI_ACCESS_IO_ADDR
                                                   : 0;
    struct ual_mr *mr;
    enum ri_status created;
    it_status_t status;

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    status = check_create(ual_device_attr(pz->device), addr, length, mode, privs, flags);
    if (status != IT_SUCCESS)
        return status;
    if (!addr || !lmr_handle)
        return IT_ERR_FAULT;
    created = ual_mr_create_at(
        (struct ual_pd *)pz, memory, addr, length, itapi_access_of(pz->device, privs, named),
        itapi_lmr_remembered(flags, privs), flags & IT_LMR_FLAG_SHARED ? shared_id : 0, &mr);
    if (created != RI_OK)
        return itapi_status(created);
    *lmr_handle = (it_lmr_handle_t)mr->object.handle;
    if (rmr_context)
        *rmr_context = context_of(mr);
    return IT_SUCCESS;
}

it_status_t it_lmr_create10(it_pz_handle_t pz_handle, void *addr, it_length_t length,
                            it_mem_priv_t privs, it_lmr_flag_t flags, uint32_t shared_id,
                            it_lmr_handle_t *lmr_handle, it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(lmr_handle);
    SANITIZER_OUTPUT(rmr_context);
    CANCEL_OFF();

    return create(pz_handle, addr, addr, length, IT_ADDR_MODE_ABSOLUTE, privs, flags, shared_id,
                  lmr_handle, rmr_context);
}

it_status_t it_lmr_create20(it_pz_handle_t pz_handle, void *addr, it_length_t length,
                            it_addr_mode_t addr_mode, it_mem_priv_t privs, it_lmr_flag_t flags,
                            uint32_t shared_id, it_lmr_handle_t *lmr_handle,
                            it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(lmr_handle);
    SANITIZER_OUTPUT(rmr_context);
    CANCEL_OFF();

    return create(pz_handle, addr, addr, length, addr_mode, privs, flags, shared_id, lmr_handle,
                  rmr_context);
}

static it_status_t create_of_list(it_pz_handle_t pz_handle, void *addr, const it_iobl_t *iobl,
                                  it_length_t length, it_addr_mode_t addr_mode, it_mem_priv_t privs,
                                  it_lmr_flag_t flags, uint32_t shared_id,
                                  it_lmr_handle_t *lmr_handle, it_rmr_context_t *rmr_context)
{
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    it_status_t status;
    void *memory;

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    if (!itapi_takes_iobl(ual_device_attr(pz->device))) /* none is in iobl_types_supported */
        return IT_ERR_INVALID_IOBL;
    if (length == 0)
        return IT_ERR_INVALID_LENGTH;
    status = itapi_run_of_list(iobl, length, &memory);
    if (status != IT_SUCCESS)
        return status;
    return create(pz_handle, memory, addr ? addr : memory, length, addr_mode, privs, flags,
                  shared_id, lmr_handle, rmr_context);
}

it_status_t it_lmr_create21(it_pz_handle_t pz_handle, void *addr, it_iobl_t *iobl,
                            it_length_t length, it_addr_mode_t addr_mode, it_mem_priv_t privs,
                            it_lmr_flag_t flags, uint32_t shared_id, it_lmr_handle_t *lmr_handle,
                            it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(lmr_handle);
    SANITIZER_OUTPUT(rmr_context);
    CANCEL_OFF();

    if (iobl)
        return create_of_list(pz_handle, addr, iobl, length, addr_mode, privs, flags, shared_id,
                              lmr_handle, rmr_context);
    return create(pz_handle, addr, addr, length, addr_mode, privs, flags, shared_id, lmr_handle,
                  rmr_context);
}

it_status_t it_lmr_free(it_lmr_handle_t lmr_handle)
{
    CALL();
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr_handle);
    enum ri_status status;
    CANCEL_OFF();

    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    status = ual_mr_free(mr);
    return status == RI_ERR_BUSY ? IT_ERR_LMR_BUSY : itapi_status(status);
}

/* --- query and modify --- */

#define PARAMS_KNOWN                                                                            \
    (IT_LMR_PARAM_ALL | IT_LMR_PARAM_IA | IT_LMR_PARAM_PZ | IT_LMR_PARAM_ADDR |                 \
     IT_LMR_PARAM_LENGTH | IT_LMR_PARAM_MEM_PRIV | IT_LMR_PARAM_FLAG | IT_LMR_PARAM_SHARED_ID | \
     IT_LMR_PARAM_RMR_CONTEXT | IT_LMR_PARAM_ACTUAL_ADDR | IT_LMR_PARAM_ACTUAL_LENGTH |         \
     IT_LMR_PARAM_ADDR_MODE | IT_LMR_PARAM_LINKED | IT_LMR_PARAM_IOBL_NUM_ELTS |                \
     IT_LMR_PARAM_IOBL_TYPE)

static void query_memory(struct ual_mr *mr, unsigned int mask, it_lmr_param_t *params)
{
    if (mask_has(mask, IT_LMR_PARAM_ADDR))
        params->addr = mr->addr;
    if (mask_has(mask, IT_LMR_PARAM_LENGTH))
        params->length = mr->length;
    if (mask_has(mask, IT_LMR_PARAM_ACTUAL_ADDR))
        params->actual_addr = mr->addr;
    if (mask_has(mask, IT_LMR_PARAM_ACTUAL_LENGTH))
        params->actual_length = mr->length;
    if (mask_has(mask, IT_LMR_PARAM_ADDR_MODE))
        params->addr_mode = mr->access & RI_ACCESS_ZERO_BASED ? IT_ADDR_MODE_RELATIVE
                                                              : IT_ADDR_MODE_ABSOLUTE;
    if (mask_has(mask, IT_LMR_PARAM_LINKED))
        params->linked = ual_mr_linked(mr) ? IT_TRUE : IT_FALSE;
    if (mask_has(mask, IT_LMR_PARAM_IOBL_NUM_ELTS))
        params->iobl_num_elts = mr->pages;
    if (mask_has(mask, IT_LMR_PARAM_IOBL_TYPE))
        params->iobl_type = (it_iobl_type_t)0;
}

it_status_t it_lmr_query(it_lmr_handle_t lmr_handle, it_lmr_param_mask_t mask,
                         it_lmr_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr_handle);

    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (!mask_ok(mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask_has(mask, IT_LMR_PARAM_IA))
        params->ia = (it_ia_handle_t)ual_handle_of(mr->object.device);
    if (mask_has(mask, IT_LMR_PARAM_PZ))
        params->pz = (it_pz_handle_t)ual_handle_of(mr->pd);
    if (mask_has(mask, IT_LMR_PARAM_MEM_PRIV))
        params->privs = (it_mem_priv_t)(mr->flags >> PRIVS_SHIFT);
    if (mask_has(mask, IT_LMR_PARAM_FLAG))
        params->flags = (it_lmr_flag_t)(mr->flags & LMR_FLAGS_MASK);
    if (mask_has(mask, IT_LMR_PARAM_SHARED_ID))
        params->shared_id = mr->shared_id;
    if (mask_has(mask, IT_LMR_PARAM_RMR_CONTEXT))
        params->rmr_context = context_of(mr);
    query_memory(mr, mask, params);
    return IT_SUCCESS;
}

it_status_t it_lmr_modify(it_lmr_handle_t lmr_handle, it_lmr_param_mask_t mask,
                          const it_lmr_param_t *params)
{
    CALL();
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr_handle);
    struct ual_object *pz = NULL;
    unsigned int privs;
    enum ri_status modified;
    it_status_t status;
    CANCEL_OFF();

    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (!mask_ok(mask, IT_LMR_PARAM_PZ | IT_LMR_PARAM_MEM_PRIV))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    privs = mask & IT_LMR_PARAM_MEM_PRIV ? (unsigned int)params->privs : mr->flags >> PRIVS_SHIFT;
    status = itapi_check_privs(privs);
    if (status != IT_SUCCESS)
        return status;
    if (mask & IT_LMR_PARAM_PZ) {
        pz = LOOKUP(struct ual_object, PD, params->pz);
        if (!pz || pz->device != mr->object.device)
            return itapi_bad_handle(IT_ERR_INVALID_PZ);
    }
    modified = ual_mr_modify(
        mr, (struct ual_pd *)pz,
        itapi_access_of(mr->object.device, privs,
                        mr->access & (RI_ACCESS_ZERO_BASED | RI_ACCESS_IO_ADDR)));
    if (modified == RI_OK)
        mr->flags = itapi_lmr_remembered(mr->flags & LMR_FLAGS_MASK, privs);
    return modified == RI_ERR_BUSY ? IT_ERR_LMR_BUSY : itapi_status(modified);
}

/* --- segments --- */

it_status_t itapi_segments_many(const it_lmr_triplet_t *segments, size_t count, size_t limit,
                                const struct ual_pd *pz, uint32_t access, struct ri_sge *sges,
                                uint64_t *total)
{
    uint64_t sum = 0;

    if (count > limit)
        return IT_ERR_INVALID_NUM_SEGMENTS;
    if (count && !segments)
        return IT_ERR_FAULT;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].length) {
            it_status_t status = itapi_segment(&segments[i], pz, access, &sges[i]);

            if (unlikely(status != IT_SUCCESS))
                return status;
            sum += segments[i].length;
            if (unlikely(sum > UINT32_MAX)) /* transferred_length has 32 bits */
                return IT_ERR_INVALID_LENGTH;
        } else {
            sges[i] = (struct ri_sge){ 0 };
        }
    }
    *total = sum;
    return IT_SUCCESS;
}

/* Flush and refresh: memory is coherent, so only the arguments are checked. Any number of
 * segments. */
static it_status_t synchronize(const it_lmr_triplet_t *segments, size_t count)
{
    if (count && !segments)
        return IT_ERR_FAULT;
    for (size_t i = 0; i < count; i++) {
        struct ri_sge sge;
        it_status_t status = segments[i].length ? itapi_segment(&segments[i], NULL, 0, &sge)
                                                : IT_SUCCESS;

        if (status != IT_SUCCESS)
            return status;
    }
    return IT_SUCCESS;
}

it_status_t it_lmr_flush_to_mem(const it_lmr_triplet_t *local_segments, size_t num_segments)
{
    CALL();
    return synchronize(local_segments, num_segments);
}

it_status_t it_lmr_refresh_from_mem(const it_lmr_triplet_t *local_segments, size_t num_segments)
{
    CALL();
    return synchronize(local_segments, num_segments);
}

/* --- addresses for the peer --- */

it_rdma_addr_t it_make_rdma_addr_absolute(void *addr)
{
    return (it_rdma_addr_t)(uintptr_t)addr;
}

it_rdma_addr_t it_make_rdma_addr_relative(it_length_t offset)
{
    return offset;
}
