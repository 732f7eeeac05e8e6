/* SPDX-License-Identifier: BSD-3-Clause
 * The one table between ital's statuses and IT-API's. */
#include "itapi_private.h"

static const it_status_t translation[ITAL_STATUS_COUNT] = {
    [RI_OK] = IT_SUCCESS,
    [RI_ERR_NOT_SUPPORTED] = IT_ERR_OP_NOT_SUPPORTED,
    [RI_ERR_INVALID_ARGUMENT] = IT_ERR_ABORT,
    [RI_ERR_INVALID_STATE] = IT_ERR_INVALID_EP_STATE,
    [RI_ERR_NO_RESOURCES] = IT_ERR_RESOURCES,
    [RI_ERR_LIMIT] = IT_ERR_RESOURCES,
    [RI_ERR_QUEUE_FULL] = IT_ERR_TOO_MANY_POSTS,
    [RI_ERR_BUSY] = IT_ERR_EP_BUSY,
    [RI_ERR_AGAIN] = IT_ERR_EP_BUSY,
    [RI_ERR_ADDRESS] = IT_ERR_ADDRESS,
    [RI_ERR_ACCESS] = IT_ERR_ACCESS,
    [RI_ERR_PERMISSION] = IT_ERR_NO_PERMISSION,
    [RI_ERR_ADDRESS_IN_USE] = IT_ERR_CONN_QUAL_BUSY,
    [RI_ERR_UNREACHABLE] = IT_ERR_INVALID_SOURCE_PATH,
    [RI_ERR_TIMED_OUT] = IT_ERR_TIMEOUT_EXPIRED,
    [RI_ERR_DEVICE] = IT_ERR_IA_CATASTROPHE,
    [ITAL_ERR_QUOTA] = IT_ERR_RESOURCES,
    [ITAL_ERR_NO_INTERFACE] = IT_ERR_INVALID_NAME,
    [ITAL_ERR_CONFIGURATION] = IT_ERR_INVALID_NAME,
    [ITAL_ERR_INVALID_HANDLE] = IT_ERR_INVALID_HANDLE,
    [ITAL_ERR_EMPTY] = IT_ERR_QUEUE_EMPTY,
    [ITAL_ERR_INTERRUPTED] = IT_ERR_INTERRUPT,
    [ITAL_ERR_ABORTED] = IT_ERR_ABORT,
    [ITAL_ERR_WAITER_LIMIT] = IT_ERR_WAITER_LIMIT,
    [ITAL_ERR_EXISTS] = IT_ERR_CALLBACK_EXISTS,
};

it_status_t itapi_status(enum ri_status status)
{
    return ital_status_exists(status) ? translation[status] : IT_ERR_ABORT;
}

it_status_t __attribute__((cold, noinline)) itapi_bad_ep(const void *handle)
{
    return ual_lookup((ual_handle)handle, UAL_UD_EP) ? IT_ERR_INVALID_EP_TYPE
                                                     : itapi_bad_handle(IT_ERR_INVALID_EP);
}

it_status_t itapi_bad_handle(it_status_t invalid)
{
    return ual_lookup_failed() == RI_ERR_DEVICE ? IT_ERR_IA_CATASTROPHE : invalid;
}
