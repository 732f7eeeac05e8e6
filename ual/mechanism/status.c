/* SPDX-License-Identifier: BSD-3-Clause
 * Status: names, and the tables that translate the statuses of the floors below, once, at this edge. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual/ual_private.h"

static const char *const names[UAL_STATUS_COUNT] = {
    [UAL_OK] = "UAL_OK",
    [UAL_ERR_INVALID_HANDLE] = "UAL_ERR_INVALID_HANDLE",
    [UAL_ERR_DEAD] = "UAL_ERR_DEAD",
    [UAL_ERR_INVALID_ARGUMENT] = "UAL_ERR_INVALID_ARGUMENT",
    [UAL_ERR_INVALID_STATE] = "UAL_ERR_INVALID_STATE",
    [UAL_ERR_NOT_SUPPORTED] = "UAL_ERR_NOT_SUPPORTED",
    [UAL_ERR_NO_RESOURCES] = "UAL_ERR_NO_RESOURCES",
    [UAL_ERR_LIMIT] = "UAL_ERR_LIMIT",
    [UAL_ERR_BUSY] = "UAL_ERR_BUSY",
    [UAL_ERR_EMPTY] = "UAL_ERR_EMPTY",
    [UAL_ERR_FULL] = "UAL_ERR_FULL",
    [UAL_ERR_TIMED_OUT] = "UAL_ERR_TIMED_OUT",
    [UAL_ERR_INTERRUPTED] = "UAL_ERR_INTERRUPTED",
    [UAL_ERR_ABORTED] = "UAL_ERR_ABORTED",
    [UAL_ERR_WAITER_LIMIT] = "UAL_ERR_WAITER_LIMIT",
    [UAL_ERR_NO_INTERFACE] = "UAL_ERR_NO_INTERFACE",
    [UAL_ERR_CONFIGURATION] = "UAL_ERR_CONFIGURATION",
    [UAL_ERR_PERMISSION] = "UAL_ERR_PERMISSION",
    [UAL_ERR_ADDRESS] = "UAL_ERR_ADDRESS",
    [UAL_ERR_ACCESS] = "UAL_ERR_ACCESS",
    [UAL_ERR_ADDRESS_IN_USE] = "UAL_ERR_ADDRESS_IN_USE",
    [UAL_ERR_UNREACHABLE] = "UAL_ERR_UNREACHABLE",
    [UAL_ERR_EXISTS] = "UAL_ERR_EXISTS",
};

static const enum ual_status of_kal[KAL_STATUS_COUNT] = {
    [KAL_OK] = UAL_OK,
    [KAL_ERR_NOT_SUPPORTED] = UAL_ERR_NOT_SUPPORTED,
    [KAL_ERR_INVALID_ARGUMENT] = UAL_ERR_INVALID_ARGUMENT,
    [KAL_ERR_INVALID_STATE] = UAL_ERR_INVALID_STATE,
    [KAL_ERR_NO_RESOURCES] = UAL_ERR_NO_RESOURCES,
    [KAL_ERR_QUOTA] = UAL_ERR_NO_RESOURCES,
    [KAL_ERR_LIMIT] = UAL_ERR_LIMIT,
    [KAL_ERR_BUSY] = UAL_ERR_BUSY,
    [KAL_ERR_AGAIN] = UAL_ERR_BUSY,
    [KAL_ERR_ADDRESS] = UAL_ERR_ADDRESS,
    [KAL_ERR_ACCESS] = UAL_ERR_ACCESS,
    [KAL_ERR_PERMISSION] = UAL_ERR_PERMISSION,
    [KAL_ERR_ADDRESS_IN_USE] = UAL_ERR_ADDRESS_IN_USE,
    [KAL_ERR_UNREACHABLE] = UAL_ERR_UNREACHABLE,
    [KAL_ERR_TIMED_OUT] = UAL_ERR_TIMED_OUT,
    [KAL_ERR_NO_INTERFACE] = UAL_ERR_NO_INTERFACE,
    [KAL_ERR_CONFIGURATION] = UAL_ERR_CONFIGURATION,
    [KAL_ERR_DEVICE] = UAL_ERR_DEAD,
};

static const enum ual_status of_ri[RI_STATUS_COUNT] = {
    [RI_OK] = UAL_OK,
    [RI_ERR_NOT_SUPPORTED] = UAL_ERR_NOT_SUPPORTED,
    [RI_ERR_INVALID_ARGUMENT] = UAL_ERR_INVALID_ARGUMENT,
    [RI_ERR_INVALID_STATE] = UAL_ERR_INVALID_STATE,
    [RI_ERR_NO_RESOURCES] = UAL_ERR_NO_RESOURCES,
    [RI_ERR_LIMIT] = UAL_ERR_LIMIT,
    [RI_ERR_QUEUE_FULL] = UAL_ERR_FULL,
    [RI_ERR_BUSY] = UAL_ERR_BUSY,
    [RI_ERR_AGAIN] = UAL_ERR_BUSY,
    [RI_ERR_ADDRESS] = UAL_ERR_ADDRESS,
    [RI_ERR_ACCESS] = UAL_ERR_ACCESS,
    [RI_ERR_PERMISSION] = UAL_ERR_PERMISSION,
    [RI_ERR_ADDRESS_IN_USE] = UAL_ERR_ADDRESS_IN_USE,
    [RI_ERR_UNREACHABLE] = UAL_ERR_UNREACHABLE,
    [RI_ERR_TIMED_OUT] = UAL_ERR_TIMED_OUT,
    [RI_ERR_DEVICE] = UAL_ERR_DEAD,
};

const char *ual_status_name(enum ual_status status)
{
    return (unsigned int)status < UAL_STATUS_COUNT ? names[status] : "UAL_ERR_?";
}

/* A status of a newer floor below than this one: something failed for want of something. */
enum ual_status ual_status_of_kal(enum kal_status status)
{
    return (unsigned int)status < KAL_STATUS_COUNT ? of_kal[status] : UAL_ERR_NO_RESOURCES;
}

enum ual_status ual_status_of_ri(enum ri_status status)
{
    return (unsigned int)status < RI_STATUS_COUNT ? of_ri[status] : UAL_ERR_NO_RESOURCES;
}

enum ual_status ual_post_failed(enum ri_status status)
{
    return ual_status_of_ri(status);
}
