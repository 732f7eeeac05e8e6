/* SPDX-License-Identifier: BSD-3-Clause
 * Address handles. The Path is kept as it was given, for the query. */
#include "itapi_private.h"

#include <string.h>

static it_status_t ah_status(enum ri_status status)
{
    return status == RI_ERR_INVALID_ARGUMENT ? IT_ERR_INVALID_SOURCE_PATH : itapi_status(status);
}

it_status_t it_address_handle_create(it_pz_handle_t pz_handle, const it_path_t *destination_path,
                                     it_ah_flags_t ah_flags, it_addr_handle_t *addr_handle)
{
    CALL();
    SANITIZER_OUTPUT(addr_handle);
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    struct ri_ah_attr way;
    struct ual_ah *ah;
    enum ri_status created;
    it_status_t status;
    CANCEL_OFF();

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    if (!has_feature(pz->device, RI_FEATURE_UD))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (ah_flags & ~(unsigned int)IT_AH_PATH_COMPLETE)
        return IT_ERR_INVALID_FLAGS;
    if (!destination_path || !addr_handle)
        return IT_ERR_FAULT;
    status = itapi_path_status(
        itapi_way_of(pz->device, destination_path, ah_flags & IT_AH_PATH_COMPLETE, &way));
    if (status != IT_SUCCESS)
        return status;
    created = ual_ah_create((struct ual_pd *)pz, &way, sizeof(it_path_t), &ah);
    if (created != RI_OK)
        return ah_status(created);
    memcpy(ah->own, destination_path, sizeof(*destination_path));
    *addr_handle = (it_addr_handle_t)ual_handle_of(ah);
    return IT_SUCCESS;
}

it_status_t it_address_handle_free(it_addr_handle_t addr_handle)
{
    CALL();
    struct ual_ah *ah = LOOKUP(struct ual_ah, AH, addr_handle);
    CANCEL_OFF();

    if (!ah)
        return itapi_bad_handle(IT_ERR_INVALID_AH);
    return itapi_status(ual_ah_free(ah));
}

#define MODIFIABLE (IT_ADDR_PARAM_PZ | IT_ADDR_PARAM_PATH)

it_status_t it_address_handle_modify(it_addr_handle_t addr_handle, it_addr_param_mask_t mask,
                                     const it_addr_param_t *params)
{
    CALL();
    struct ual_ah *ah = LOOKUP(struct ual_ah, AH, addr_handle);
    struct ual_pd *pz = NULL;
    struct ri_ah_attr way;
    it_status_t status = IT_SUCCESS;
    CANCEL_OFF();

    if (!ah)
        return itapi_bad_handle(IT_ERR_INVALID_AH);
    if (!mask_ok((unsigned int)mask, MODIFIABLE))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask & IT_ADDR_PARAM_PZ) {
        pz = LOOKUP(struct ual_pd, PD, params->pz);
        if (!pz || ((struct ual_object *)pz)->device != ah->object.device)
            return itapi_bad_handle(IT_ERR_INVALID_PZ);
    }
    if (mask & IT_ADDR_PARAM_PATH)
        status = itapi_path_status(itapi_way_of(ah->object.device, &params->path, false, &way));
    if (status == IT_SUCCESS)
        status = ah_status(ual_ah_modify(ah, pz, mask & IT_ADDR_PARAM_PATH ? &way : NULL));
    if (status == IT_SUCCESS && (mask & IT_ADDR_PARAM_PATH))
        memcpy(ah->own, &params->path, sizeof(params->path));
    return status;
}

#define PARAMS_KNOWN (IT_ADDR_PARAM_ALL | IT_ADDR_PARAM_IA | IT_ADDR_PARAM_PZ | IT_ADDR_PARAM_PATH)

it_status_t it_address_handle_query(it_addr_handle_t addr_handle, it_addr_param_mask_t mask,
                                    it_addr_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_ah *ah = LOOKUP(struct ual_ah, AH, addr_handle);

    if (!ah)
        return itapi_bad_handle(IT_ERR_INVALID_AH);
    if (!mask_ok((unsigned int)mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask_has(mask, IT_ADDR_PARAM_IA))
        params->ia = (it_ia_handle_t)ual_handle_of(ah->object.device);
    if (mask_has(mask, IT_ADDR_PARAM_PZ))
        params->pz = (it_pz_handle_t)ual_handle_of(ah->pd);
    if (mask_has(mask, IT_ADDR_PARAM_PATH))
        memcpy(&params->path, ah->own, sizeof(params->path));
    return IT_SUCCESS;
}
