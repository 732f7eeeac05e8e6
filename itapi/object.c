/* SPDX-License-Identifier: BSD-3-Clause
 * Calls on objects of any kind: kind of a handle, consumer context. Protection zones. */
#include "itapi_private.h"

static const struct {
    bool known;
    it_handle_type_enum_t type;
} kinds[UAL_TYPE_COUNT] = {
    [UAL_DEVICE] = { true, IT_HANDLE_TYPE_IA },
    [UAL_PD] = { true, IT_HANDLE_TYPE_PZ },
    [UAL_MR] = { true, IT_HANDLE_TYPE_LMR },
    [UAL_MW] = { true, IT_HANDLE_TYPE_RMR },
    [UAL_SRQ] = { true, IT_HANDLE_TYPE_SRQ },
    [UAL_EVD] = { true, IT_HANDLE_TYPE_EVD },
    [UAL_EP] = { true, IT_HANDLE_TYPE_EP },
    [UAL_UD_EP] = { true, IT_HANDLE_TYPE_EP },
    [UAL_LISTEN] = { true, IT_HANDLE_TYPE_LISTEN },
    [UAL_AH] = { true, IT_HANDLE_TYPE_ADDR },
    [UAL_UD_REQUEST] = { true, IT_HANDLE_TYPE_UD_SVC_REQ },
};

static struct ual_object *lookup(it_handle_t handle)
{
    struct ual_object *object = ual_lookup_any((ual_handle)handle);

    return object && kinds[object->type].known ? object : NULL;
}

it_status_t it_get_handle_type(it_handle_t handle, it_handle_type_enum_t *type_of_handle)
{
    CALL();
    SANITIZER_OUTPUT(type_of_handle);
    struct ual_object *object = lookup(handle);

    if (!object)
        return itapi_bad_handle(IT_ERR_INVALID_HANDLE);
    if (!type_of_handle)
        return IT_ERR_FAULT;
    *type_of_handle = kinds[object->type].type;
    return IT_SUCCESS;
}

it_status_t it_set_consumer_context(it_handle_t handle, it_context_t context)
{
    CALL();
    struct ual_object *object = lookup(handle);

    if (!object)
        return itapi_bad_handle(IT_ERR_INVALID_HANDLE);
    ual_context_set(object, context.index);
    return IT_SUCCESS;
}

it_status_t it_get_consumer_context(it_handle_t handle, it_context_t *context)
{
    CALL();
    SANITIZER_OUTPUT(context);
    struct ual_object *object = lookup(handle);
    uint64_t value;

    if (!object)
        return itapi_bad_handle(IT_ERR_INVALID_HANDLE);
    if (!context)
        return IT_ERR_FAULT;
    if (!ual_context_get(object, &value))
        return IT_ERR_NO_CONTEXT;
    context->index = value;
    return IT_SUCCESS;
}

it_status_t it_pz_create(it_ia_handle_t ia_handle, it_pz_handle_t *pz_handle)
{
    CALL();
    SANITIZER_OUTPUT(pz_handle);
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    struct ual_pd *pz;
    enum ri_status status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!pz_handle)
        return IT_ERR_FAULT;
    status = ual_pd_create(ia, &pz);
    if (status == RI_OK)
        *pz_handle = (it_pz_handle_t)ual_handle_of(pz);
    return itapi_status(status);
}

it_status_t it_pz_free(it_pz_handle_t pz_handle)
{
    CALL();
    struct ual_pd *pz = LOOKUP(struct ual_pd, PD, pz_handle);
    enum ri_status status;
    CANCEL_OFF();

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    status = ual_pd_free(pz);
    return status == RI_ERR_BUSY ? IT_ERR_PZ_BUSY : itapi_status(status);
}

it_status_t it_pz_query(it_pz_handle_t pz_handle, it_pz_param_mask_t mask, it_pz_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    if (!mask_ok(mask, IT_PZ_PARAM_ALL | IT_PZ_PARAM_IA))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    params->ia = (it_ia_handle_t)ual_handle_of(pz->device);
    return IT_SUCCESS;
}
