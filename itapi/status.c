/* SPDX-License-Identifier: BSD-3-Clause
 * The one table between ual's statuses and IT-API's. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "itapi_private.h"

static const it_status_t translation[UAL_STATUS_COUNT] = {
    [UAL_OK] = IT_SUCCESS,
    [UAL_ERR_INVALID_HANDLE] = IT_ERR_INVALID_HANDLE,
    [UAL_ERR_DEAD] = IT_ERR_IA_CATASTROPHE,
    [UAL_ERR_INVALID_ARGUMENT] = IT_ERR_ABORT,
    [UAL_ERR_INVALID_STATE] = IT_ERR_INVALID_EP_STATE,
    [UAL_ERR_NOT_SUPPORTED] = IT_ERR_OP_NOT_SUPPORTED,
    [UAL_ERR_NO_RESOURCES] = IT_ERR_RESOURCES,
    [UAL_ERR_LIMIT] = IT_ERR_RESOURCES,
    [UAL_ERR_BUSY] = IT_ERR_EP_BUSY,
    [UAL_ERR_EMPTY] = IT_ERR_QUEUE_EMPTY,
    [UAL_ERR_FULL] = IT_ERR_TOO_MANY_POSTS,
    [UAL_ERR_TIMED_OUT] = IT_ERR_TIMEOUT_EXPIRED,
    [UAL_ERR_INTERRUPTED] = IT_ERR_INTERRUPT,
    [UAL_ERR_ABORTED] = IT_ERR_ABORT,
    [UAL_ERR_WAITER_LIMIT] = IT_ERR_WAITER_LIMIT,
    [UAL_ERR_NO_INTERFACE] = IT_ERR_INVALID_NAME,
    [UAL_ERR_CONFIGURATION] = IT_ERR_INVALID_NAME,
    [UAL_ERR_PERMISSION] = IT_ERR_NO_PERMISSION,
    [UAL_ERR_ADDRESS] = IT_ERR_ADDRESS,
    [UAL_ERR_ACCESS] = IT_ERR_ACCESS,
    [UAL_ERR_ADDRESS_IN_USE] = IT_ERR_CONN_QUAL_BUSY,
    [UAL_ERR_UNREACHABLE] = IT_ERR_INVALID_SOURCE_PATH,
    [UAL_ERR_EXISTS] = IT_ERR_CALLBACK_EXISTS,
};

it_status_t itapi_status(enum ual_status status)
{
    return (unsigned int)status < UAL_STATUS_COUNT ? translation[status] : IT_ERR_ABORT;
}

it_status_t __attribute__((cold, noinline)) itapi_bad_ep(const void *handle)
{
    return ual_lookup((ual_handle)handle, UAL_UD_EP) ? IT_ERR_INVALID_EP_TYPE
                                                     : itapi_bad_handle(IT_ERR_INVALID_EP);
}

it_status_t itapi_bad_handle(it_status_t invalid)
{
    return ual_lookup_failed() == UAL_ERR_DEAD ? IT_ERR_IA_CATASTROPHE : invalid;
}
