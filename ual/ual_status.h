/* SPDX-License-Identifier: BSD-3-Clause
 * The one status type of ual, for all its layers. */
#ifndef ITAL_UAL_STATUS_H
#define ITAL_UAL_STATUS_H

#define UAL_PUBLIC __attribute__((visibility("default")))

enum ual_status {
    UAL_OK = 0,
    UAL_ERR_INVALID_HANDLE, /* NULL, stale or of another type */
    UAL_ERR_DEAD,           /* the device failed, or this process is a forked copy */
    UAL_ERR_INVALID_ARGUMENT,
    UAL_ERR_INVALID_STATE,
    UAL_ERR_NOT_SUPPORTED,
    UAL_ERR_NO_RESOURCES,
    UAL_ERR_LIMIT,
    UAL_ERR_BUSY,
    UAL_ERR_EMPTY, /* no event queued */
    UAL_ERR_FULL,  /* a work queue or event queue is full */
    UAL_ERR_TIMED_OUT,
    UAL_ERR_INTERRUPTED, /* a signal was handled */
    UAL_ERR_ABORTED,     /* what was waited for went away */
    UAL_ERR_WAITER_LIMIT,
    UAL_ERR_NO_INTERFACE,
    UAL_ERR_CONFIGURATION,
    UAL_ERR_PERMISSION,
    UAL_ERR_ADDRESS, /* memory not mapped */
    UAL_ERR_ACCESS,
    UAL_ERR_ADDRESS_IN_USE,
    UAL_ERR_UNREACHABLE,
    UAL_ERR_EXISTS, /* there may be one only, and there is */
    UAL_STATUS_COUNT
};
UAL_PUBLIC const char *ual_status_name(enum ual_status status);

#endif
