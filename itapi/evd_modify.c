/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatchers: what can be changed. */
#include "itapi_private.h"

#define FLAGS_OVERFLOW \
    (IT_EVD_OVERFLOW_DEFAULT | IT_EVD_OVERFLOW_NOTIFY | IT_EVD_OVERFLOW_AUTO_RESET)

/* Of any EVD; of an SEVD only. The others of it_evd_param_t are not modifiable. */
#define PARAMS_ANY (IT_EVD_PARAM_FLAG | IT_EVD_PARAM_ENABLED)
#define PARAMS_SEVD                                                               \
    (IT_EVD_PARAM_QUEUE_SIZE | IT_EVD_PARAM_THRESHOLD | IT_EVD_PARAM_OVERFLOWED | \
     IT_EVD_PARAM_AEVD_HANDLE)

/* The default excludes the others. An AEVD does not overflow. An overflow of the unaffiliated EVD
 * could not be reported. */
it_status_t itapi_evd_overflow_flags(enum ual_stream stream, unsigned int flags, uint32_t *ual)
{
    const unsigned int asked = flags & FLAGS_OVERFLOW;

    if ((asked & IT_EVD_OVERFLOW_DEFAULT) && asked != IT_EVD_OVERFLOW_DEFAULT)
        return IT_ERR_INVALID_FLAGS;
    if (stream == UAL_STREAM_NOTIFICATION && (asked & ~(unsigned int)IT_EVD_OVERFLOW_DEFAULT))
        return IT_ERR_INVALID_FLAGS;
    if (stream == UAL_STREAM_UNAFFILIATED && (asked & IT_EVD_OVERFLOW_NOTIFY))
        return IT_ERR_INVALID_FLAGS;
    if (ual)
        *ual = (asked & IT_EVD_OVERFLOW_NOTIFY ? UAL_EVD_OVERFLOW_NOTIFY : 0) |
               (asked & IT_EVD_OVERFLOW_AUTO_RESET ? UAL_EVD_OVERFLOW_RESETS : 0);
    return IT_SUCCESS;
}

/* The old and new flags may differ in the handling of overflows only. */
static it_status_t check_flags(struct ual_evd *evd, unsigned int flags, uint32_t *ual)
{
    const unsigned int changed = flags ^ ((struct ual_object *)evd)->note;

    if (changed & IT_EVD_CREATE_FD)
        return IT_ERR_MISMATCH_FD;
    if (changed & ~(unsigned int)FLAGS_OVERFLOW)
        return IT_ERR_INVALID_FLAGS;
    return itapi_evd_overflow_flags(ual_evd_stream(evd), flags, ual);
}

static it_status_t check_size(size_t size, uint32_t *ual)
{
    if (size == 0)
        return IT_ERR_INVALID_QUEUE_SIZE;
    if (size > UINT32_MAX)
        return IT_ERR_RESOURCE_QUEUE_SIZE;
    *ual = (uint32_t)size;
    return IT_SUCCESS;
}

/* With the size that there will be. */
static it_status_t check_threshold(const struct ual_evd *evd, const struct ual_evd_modify *modify,
                                   size_t threshold)
{
    uint32_t size = modify->mask & UAL_EVDM_SIZE ? modify->size : ual_evd_size(evd);

    return threshold > size ? IT_ERR_INVALID_THRESHOLD : IT_SUCCESS;
}

static it_status_t fill_sizes(struct ual_evd *evd, it_evd_param_mask_t mask,
                              const it_evd_param_t *params, struct ual_evd_modify *modify)
{
    size_t threshold = ual_evd_threshold(evd);
    it_status_t status = IT_SUCCESS;

    if (mask_has(mask, IT_EVD_PARAM_QUEUE_SIZE)) {
        modify->mask |= UAL_EVDM_SIZE;
        status = check_size(params->sevd_queue_size, &modify->size);
    }
    if (mask_has(mask, IT_EVD_PARAM_THRESHOLD)) {
        modify->mask |= UAL_EVDM_THRESHOLD;
        threshold = params->sevd_threshold;
    }
    if (status == IT_SUCCESS)
        status = check_threshold(evd, modify, threshold);
    modify->threshold = (uint32_t)threshold;
    return status;
}

static it_status_t fill_state(struct ual_evd *evd, it_evd_param_mask_t mask,
                              const it_evd_param_t *params, struct ual_evd_modify *modify)
{
    if (mask_has(mask, IT_EVD_PARAM_ENABLED)) {
        modify->mask |= UAL_EVDM_ENABLED;
        modify->enabled = params->evd_enabled != IT_FALSE;
    }
    if (mask_has(mask, IT_EVD_PARAM_OVERFLOWED)) {
        if (params->evd_overflowed != IT_FALSE)
            return IT_ERR_INVALID_EVD_STATE;
        modify->mask |= UAL_EVDM_RESET;
    }
    if (!mask_has(mask, IT_EVD_PARAM_FLAG))
        return IT_SUCCESS;
    modify->mask |= UAL_EVDM_OVERFLOW;
    return check_flags(evd, (unsigned int)params->evd_flag, &modify->overflow_flags);
}

static it_status_t check_mask(const struct ual_evd *evd, it_evd_param_mask_t mask)
{
    if (mask & IT_EVD_PARAM_ALL || !mask_ok(mask, PARAMS_ANY | PARAMS_SEVD))
        return IT_ERR_INVALID_MASK;
    if (ual_evd_stream(evd) != UAL_STREAM_NOTIFICATION)
        return IT_SUCCESS;
    if (mask_has(mask, IT_EVD_PARAM_AEVD_HANDLE))
        return IT_ERR_AEVD_NOT_ALLOWED;
    return mask & PARAMS_SEVD ? IT_ERR_INVALID_EVD_TYPE : IT_SUCCESS;
}

/* A provider that cannot resize its CQs has that much and no more. */
static it_status_t modify_status(enum ri_status status)
{
    switch (status) {
    case RI_ERR_BUSY: return IT_ERR_INVALID_QUEUE_SIZE;
    case RI_ERR_LIMIT:
    case RI_ERR_NOT_SUPPORTED: return IT_ERR_RESOURCE_QUEUE_SIZE;
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_THRESHOLD;
    default: return itapi_status(status);
    }
}

static it_status_t set_aggregate(struct ual_evd *evd, it_evd_handle_t handle)
{
    struct ual_evd *aggregate = LOOKUP(struct ual_evd, EVD, handle);

    if (handle && !aggregate)
        return IT_ERR_INVALID_AEVD;
    switch (ual_evd_set_aggregate(evd, aggregate)) {
    case RI_OK: return IT_SUCCESS;
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_AEVD;
    case RI_ERR_INVALID_STATE: return IT_ERR_INVALID_EVD_STATE;
    case RI_ERR_BUSY: return IT_ERR_EVD_BUSY;
    default: return IT_ERR_RESOURCES;
    }
}

/* An aggregate is joined first: going back to the one before, or to none, does not fail. It is left
 * last: that does not fail, but going back to it would need memory. */
static it_status_t change(struct ual_evd *evd, bool aggregate, const it_evd_param_t *params,
                          const struct ual_evd_modify *modify)
{
    bool joins = aggregate && params->aevd, leaves = aggregate && !params->aevd;
    struct ual_evd *before = ual_evd_aggregate(evd);
    it_status_t status = joins ? set_aggregate(evd, params->aevd) : IT_SUCCESS;
    enum ri_status modified;

    if (status != IT_SUCCESS)
        return status;
    modified = modify->mask ? ual_evd_modify(evd, modify) : RI_OK;
    if (modified != RI_OK && joins)
        ual_evd_set_aggregate(evd, before);
    if (modified == RI_OK && leaves)
        ual_evd_set_aggregate(evd, NULL);
    return modified == RI_OK ? IT_SUCCESS : modify_status(modified);
}

it_status_t it_evd_modify(it_evd_handle_t evd_handle, it_evd_param_mask_t mask,
                          const it_evd_param_t *params)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    struct ual_evd_modify modify = { .mask = 0 };
    it_status_t status;
    CANCEL_OFF();

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    status = check_mask(evd, mask);
    if (status != IT_SUCCESS)
        return status;
    if (!params)
        return IT_ERR_FAULT;
    status = fill_sizes(evd, mask, params, &modify);
    if (status == IT_SUCCESS)
        status = fill_state(evd, mask, params, &modify);
    if (status != IT_SUCCESS)
        return status;
    status = change(evd, mask_has(mask, IT_EVD_PARAM_AEVD_HANDLE), params, &modify);
    if (status != IT_SUCCESS)
        return status;
    if (mask_has(mask, IT_EVD_PARAM_FLAG))
        ((struct ual_object *)evd)->note = (uint32_t)params->evd_flag;
    return IT_SUCCESS;
}
