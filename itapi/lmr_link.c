/* SPDX-License-Identifier: BSD-3-Clause
 * LMRs that get their memory and lose it by work requests of a privileged EP. */
#include "work.h"

#include "base/checked.h"

#include <unistd.h>

#define PAGES_MAX 512u /* of one LMR: their list is made on the stack */

it_status_t it_lmr_create_unlinked(it_pz_handle_t pz_handle, size_t iobl_num_elts,
                                   it_lmr_flag_t flags, uint32_t shared_id,
                                   it_lmr_handle_t *lmr_handle)
{
    CALL();
    SANITIZER_OUTPUT(lmr_handle);
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    enum ri_status created;
    struct ual_mr *mr;
    it_status_t status;
    CANCEL_OFF();

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    if ((ual_device_attr(pz->device)->features & FEATURES_LINK) != FEATURES_LINK)
        return itapi_bad_handle(IT_ERR_OP_NOT_SUPPORTED);
    status = itapi_check_lmr_flags((unsigned int)flags);
    if (status != IT_SUCCESS)
        return status;
    if (iobl_num_elts == 0)
        return IT_ERR_INVALID_LENGTH;
    if (iobl_num_elts > PAGES_MAX)
        return IT_ERR_RESOURCES;
    if (!lmr_handle)
        return IT_ERR_FAULT;
    created = ual_mr_create_unlinked((struct ual_pd *)pz, (uint32_t)iobl_num_elts,
                                     itapi_lmr_remembered((unsigned int)flags, IT_PRIV_NONE),
                                     flags & IT_LMR_FLAG_SHARED ? shared_id : 0, &mr);
    if (created == RI_OK)
        *lmr_handle = (it_lmr_handle_t)mr->object.handle;
    return itapi_status(created);
}

/* --- what is attached --- */

/* [addr, addr + length) by pages of the process. Pages of the list: as many as there is room for at
 * most. */
static it_status_t pages_of_range(const void *addr, uint64_t length, uint32_t room, uint64_t *pages,
                                  struct ual_mr_link *link)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)addr;
    uint64_t first = start - start % size;
    uint64_t count;

    if (checked_wraps(start, length))
        return IT_ERR_INVALID_LENGTH;
    count = (start + (length - 1) - first) / size + 1;
    if (count > room)
        return IT_ERR_RANGE;
    for (uint64_t i = 0; i < count; i++)
        pages[i] = first + i * size;
    link->num_pages = (uint32_t)count;
    link->page_size = (uint32_t)size;
    link->first_offset = start - first;
    return IT_SUCCESS;
}

static it_status_t pages_of_list(const it_iobl_t *iobl, uint64_t length, uint32_t room,
                                 uint64_t *pages, struct ual_mr_link *link)
{
    it_status_t status = iobl->num_elts > room ? IT_ERR_RANGE : itapi_check_iobl(iobl, length);

    if (status != IT_SUCCESS)
        return status;
    for (size_t i = 0; i < iobl->num_elts; i++)
        pages[i] = (uintptr_t)iobl->list.ce_list.list_elt[i];
    link->num_pages = (uint32_t)iobl->num_elts;
    link->page_size = (uint32_t)iobl->list.ce_list.elt_len;
    link->first_offset = iobl->fbo;
    if (!link->addr) /* default: the address of the memory */
        link->addr = (void *)(uintptr_t)(pages[0] + iobl->fbo);
    return IT_SUCCESS;
}

static it_status_t check_post(const struct ual_mr *mr, const struct ual_ep *ep,
                              unsigned int dto_flags, unsigned int known)
{
    if (mr->pd != ep->qp.pd)
        return IT_ERR_INVALID_PZ;
    if (!(ep->attr.flags & RI_QP_PRIVILEGED))
        return IT_ERR_PRIV_OPS_UNAVAILABLE;
    return dto_flags & ~known ? IT_ERR_INVALID_DTO_FLAGS : IT_SUCCESS;
}

static it_status_t link_status(enum ri_status status)
{
    switch (status) {
    case RI_ERR_BUSY: return IT_ERR_LMR_BUSY;
    case RI_ERR_LIMIT: return IT_ERR_RANGE;
    case RI_ERR_ADDRESS: return IT_ERR_INVALID_ADDRESS;
    default: return itapi_status(status);
    }
}

it_status_t it_lmr_link(it_lmr_handle_t lmr_handle, const void *addr, const it_iobl_t *iobl,
                        it_length_t length, it_addr_mode_t addr_mode, it_mem_priv_t privs,
                        it_ep_handle_t ep_handle, it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                        it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(rmr_context);
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr_handle);
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    uint32_t mode = addr_mode == IT_ADDR_MODE_RELATIVE ? RI_ACCESS_ZERO_BASED : 0;
    struct ual_mr_link link = { .addr = (void *)addr, .length = length };
    uint64_t pages[PAGES_MAX];
    enum ri_status posted;
    it_status_t status;

    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (!has_feature(ep->qp.object.device, RI_FEATURE_FAST_REGISTER))
        return itapi_bad_handle(IT_ERR_OP_NOT_SUPPORTED);
    status = check_post(mr, ep, (unsigned int)dto_flags, FLAGS_LINK);
    if (status == IT_SUCCESS)
        status = itapi_check_privs((unsigned int)privs);
    if (status == IT_SUCCESS)
        status = itapi_check_addr_mode(ual_device_attr(ep->qp.object.device), addr_mode);
    if (status != IT_SUCCESS)
        return status;
    if (length == 0)
        return IT_ERR_INVALID_LENGTH;
    if (!addr && !iobl)
        return IT_ERR_INVALID_ADDRESS;
    status = iobl ? pages_of_list(iobl, length, mr->pages, pages, &link)
                  : pages_of_range(addr, length, mr->pages, pages, &link);
    if (status != IT_SUCCESS)
        return status;
    if (!rmr_context)
        return IT_ERR_FAULT;
    link.access = itapi_access_of(ep->qp.object.device, (unsigned int)privs, mode);
    link.pages = pages;
    posted = ual_mr_linked(mr) ? RI_ERR_BUSY : RI_ERR_INVALID_STATE;
    if (ual_ep_takes_sends(ep))
        posted = ual_mr_link(mr, &ep->qp, &link, cookie,
                             itapi_request_flags((unsigned int)dto_flags));
    if (posted == RI_ERR_NOT_SUPPORTED && iobl) /* everything else was checked above */
        return IT_ERR_INVALID_IOBL;
    if (posted != RI_OK)
        return link_status(posted);
    mr->flags = itapi_lmr_remembered(mr->flags & LMR_FLAGS_MASK, (unsigned int)privs);
    *rmr_context = mr->rkey;
    return IT_SUCCESS;
}

it_status_t it_lmr_unlink(it_lmr_handle_t lmr_handle, it_ep_handle_t ep_handle,
                          it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    CALL();
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr_handle);
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    it_status_t status;

    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (!has_feature(ep->qp.object.device, RI_FEATURE_LOCAL_INVALIDATE))
        return itapi_bad_handle(IT_ERR_OP_NOT_SUPPORTED);
    status = check_post(mr, ep, (unsigned int)dto_flags, FLAGS_UNLINK);
    if (status != IT_SUCCESS)
        return status;
    if (!ual_ep_takes_sends(ep))
        return link_status(RI_ERR_INVALID_STATE);
    return link_status(
        ual_mr_unlink(mr, &ep->qp, cookie, itapi_request_flags((unsigned int)dto_flags)));
}
