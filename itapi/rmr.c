/* SPDX-License-Identifier: BSD-3-Clause
 * Remote memory regions: windows onto LMRs, opened and closed by work requests of an EP. */
#include "work.h"

#include "base/checked.h"

/* --- life --- */

static it_status_t create(it_pz_handle_t pz_handle, unsigned int type, it_rmr_handle_t *rmr_handle)
{
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    enum ri_status created;
    struct ual_mw *mw;
    bool narrow;

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    if (type != IT_RMR_TYPE_DEFAULT && type != IT_RMR_TYPE_NARROW && type != IT_RMR_TYPE_WIDE)
        return IT_ERR_INVALID_RMR_TYPE;
    if (!has_feature(pz->device, FEATURES_RMR))
        return IT_ERR_OP_NOT_SUPPORTED;
    narrow = type == IT_RMR_TYPE_NARROW ||
             (type == IT_RMR_TYPE_DEFAULT && has_feature(pz->device, RI_FEATURE_MW_NARROW));
    if (!has_feature(pz->device, narrow ? RI_FEATURE_MW_NARROW : RI_FEATURE_MW_WIDE))
        return IT_ERR_INVALID_RMR_TYPE;
    if (!rmr_handle)
        return IT_ERR_FAULT;
    created = ual_mw_create((struct ual_pd *)pz, narrow, &mw);
    if (created == RI_OK)
        *rmr_handle = (it_rmr_handle_t)ual_handle_of(mw);
    return itapi_status(created);
}

it_status_t it_rmr_create10(it_pz_handle_t pz_handle, it_rmr_handle_t *rmr_handle)
{
    CALL();
    SANITIZER_OUTPUT(rmr_handle);
    CANCEL_OFF();

    return create(pz_handle, IT_RMR_TYPE_DEFAULT, rmr_handle);
}

it_status_t it_rmr_create20(it_pz_handle_t pz_handle, it_rmr_type_t rmr_type,
                            it_rmr_handle_t *rmr_handle)
{
    CALL();
    SANITIZER_OUTPUT(rmr_handle);
    CANCEL_OFF();

    return create(pz_handle, (unsigned int)rmr_type, rmr_handle);
}

it_status_t it_rmr_free(it_rmr_handle_t rmr_handle)
{
    CALL();
    struct ual_mw *mw = LOOKUP(struct ual_mw, MW, rmr_handle);
    CANCEL_OFF();

    if (!mw)
        return itapi_bad_handle(IT_ERR_INVALID_RMR);
    return itapi_status(ual_mw_free(mw));
}

/* --- query --- */

#define PARAMS_KNOWN 0x7ffu /* IT_RMR_PARAM_ALL .. IT_RMR_PARAM_ADDR_MODE, without gaps */

static void query_link(const struct ual_mw_state *state, unsigned int mask, it_rmr_param_t *params)
{
    bool relative = state->access & RI_ACCESS_ZERO_BASED;

    if (mask_has(mask, IT_RMR_PARAM_LMR))
        params->lmr = state->linked ? (it_lmr_handle_t)state->mr : NULL;
    if (mask_has(mask, IT_RMR_PARAM_ADDR))
        params->addr = state->linked ? state->addr : NULL;
    if (mask_has(mask, IT_RMR_PARAM_LENGTH))
        params->length = state->linked ? state->length : 0;
    if (mask_has(mask, IT_RMR_PARAM_MEM_PRIV))
        params->privs = state->linked ? (it_mem_priv_t)state->note : IT_PRIV_NONE;
    if (mask_has(mask, IT_RMR_PARAM_RMR_CONTEXT))
        params->rmr_context = state->linked ? state->stag : 0;
    if (mask_has(mask, IT_RMR_PARAM_ADDR_MODE))
        params->addr_mode = state->linked && relative ? IT_ADDR_MODE_RELATIVE
                                                      : IT_ADDR_MODE_ABSOLUTE;
}

it_status_t it_rmr_query(it_rmr_handle_t rmr_handle, it_rmr_param_mask_t mask,
                         it_rmr_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_mw *mw = LOOKUP(struct ual_mw, MW, rmr_handle);
    struct ual_mw_state state;

    if (!mw)
        return itapi_bad_handle(IT_ERR_INVALID_RMR);
    if (!mask_ok(mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    ual_mw_query(mw, &state);
    if (mask_has(mask, IT_RMR_PARAM_IA))
        params->ia = (it_ia_handle_t)ual_handle_of(((struct ual_object *)mw)->device);
    if (mask_has(mask, IT_RMR_PARAM_PZ))
        params->pz = (it_pz_handle_t)ual_handle_of(ual_mw_pd(mw));
    if (mask_has(mask, IT_RMR_PARAM_LINKED))
        params->linked = state.linked ? IT_TRUE : IT_FALSE;
    if (mask_has(mask, IT_RMR_PARAM_TYPE))
        params->type = state.narrow ? IT_RMR_TYPE_NARROW : IT_RMR_TYPE_WIDE;
    query_link(&state, mask, params);
    return IT_SUCCESS;
}

/* --- link and unlink [data] --- */

/* Checks the window that is wanted against the LMR. */
static it_status_t check_link(const struct ual_mr *mr, const void *addr, it_length_t length,
                              it_addr_mode_t mode, unsigned int privs)
{
    const struct ri_rnic_attr *attr = ual_device_attr(mr->object.device);
    it_status_t status = itapi_check_addr_mode(attr, mode);

    if (privs & ~(unsigned int)IT_PRIV_ALL || !(privs & PRIVS_REMOTE))
        return IT_ERR_INVALID_PRIVS;
    if (status != IT_SUCCESS)
        return status;
    if (mr->access & RI_ACCESS_ZERO_BASED) /* the verbs bind no window to such a region */
        return IT_ERR_INVALID_ADDR_MODE;
    if (length == 0)
        return IT_ERR_INVALID_LENGTH;
    if (!checked_inside((uintptr_t)addr, length, (uintptr_t)mr->addr, mr->length))
        return IT_ERR_RANGE;
    if ((privs & (IT_PRIV_REMOTE_WRITE | IT_PRIV_ATOMIC)) && !(mr->access & RI_ACCESS_LOCAL_WRITE))
        return IT_ERR_ACCESS;
    return IT_SUCCESS;
}

static it_status_t link_rmr(it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle, void *addr,
                            it_length_t length, it_addr_mode_t mode, unsigned int privs,
                            it_ep_handle_t ep_handle, it_dto_cookie_t cookie,
                            unsigned int dto_flags, it_rmr_context_t *rmr_context)
{
    struct ual_mw *mw = LOOKUP(struct ual_mw, MW, rmr_handle);
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr_handle);
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ual_mw_link link = {
        .mr = mr,
        .addr = addr,
        .length = length,
        .note = privs & PRIVS_REMOTE,
        .access = (privs & PRIVS_REMOTE) |
                  (mode == IT_ADDR_MODE_RELATIVE ? (uint32_t)RI_ACCESS_ZERO_BASED : 0u),
    };
    enum ri_status posted;
    it_status_t status;
    uint32_t stag;

    if (!mw)
        return itapi_bad_handle(IT_ERR_INVALID_RMR);
    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (mr->pd != ep->qp.pd || ual_mw_pd(mw) != ep->qp.pd)
        return IT_ERR_INVALID_PZ;
    if (dto_flags & ~(unsigned int)FLAGS_LINK)
        return IT_ERR_INVALID_DTO_FLAGS;
    status = check_link(mr, addr, length, mode, privs);
    if (status != IT_SUCCESS)
        return status;
    if (!rmr_context)
        return IT_ERR_FAULT;
    if (!has_feature(ep->qp.object.device, RI_FEATURE_ATOMICS)) /* as for LMRs */
        link.access &= ~(uint32_t)RI_ACCESS_REMOTE_ATOMIC;
    posted = RI_ERR_INVALID_STATE;
    if (ual_ep_takes_sends(ep))
        posted = ual_mw_link(mw, &ep->qp, &link, cookie, itapi_request_flags(dto_flags), &stag);
    if (posted != RI_OK)
        return itapi_status(posted);
    *rmr_context = stag;
    return IT_SUCCESS;
}

it_status_t it_rmr_link(it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle, void *addr,
                        it_length_t length, it_addr_mode_t addr_mode, it_mem_priv_t privs,
                        it_ep_handle_t ep_handle, it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                        it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(rmr_context);

    return link_rmr(rmr_handle, lmr_handle, addr, length, addr_mode, (unsigned int)privs, ep_handle,
                    cookie, (unsigned int)dto_flags, rmr_context);
}

it_status_t it_rmr_bind10(it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle, void *addr,
                          it_length_t length, it_mem_priv_t privs, it_ep_handle_t ep_handle,
                          it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                          it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(rmr_context);

    return link_rmr(rmr_handle, lmr_handle, addr, length, IT_ADDR_MODE_ABSOLUTE,
                    (unsigned int)privs, ep_handle, cookie, (unsigned int)dto_flags, rmr_context);
}

static bool linked_elsewhere(struct ual_mw *mw, const struct ual_ep *ep)
{
    struct ual_mw_state state;

    ual_mw_query(mw, &state);
    return state.narrow && state.linked && state.qp != ep->qp.object.handle;
}

it_status_t it_rmr_unlink(it_rmr_handle_t rmr_handle, it_ep_handle_t ep_handle,
                          it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    CALL();
    struct ual_mw *mw = LOOKUP(struct ual_mw, MW, rmr_handle);
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    enum ri_status posted;

    if (!mw)
        return itapi_bad_handle(IT_ERR_INVALID_RMR);
    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (ual_mw_pd(mw) != ep->qp.pd)
        return IT_ERR_INVALID_PZ;
    if (!has_feature(ep->qp.object.device, RI_FEATURE_LOCAL_INVALIDATE))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (dto_flags & ~(unsigned int)FLAGS_UNLINK)
        return IT_ERR_INVALID_DTO_FLAGS;
    posted = linked_elsewhere(mw, ep) ? RI_ERR_ACCESS : RI_ERR_INVALID_STATE;
    if (ual_ep_takes_sends(ep))
        posted = ual_mw_unlink(mw, &ep->qp, cookie, itapi_request_flags((unsigned int)dto_flags));
    return posted == RI_ERR_ACCESS ? IT_ERR_INVALID_EP : itapi_status(posted);
}
