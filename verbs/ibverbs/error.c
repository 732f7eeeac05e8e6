/* SPDX-License-Identifier: BSD-3-Clause
 * The error number for each status. */
#include "ibverbs_private.h"

int vb_errno(enum ri_status status)
{
    static const int numbers[ITAL_STATUS_COUNT] = {
        [RI_OK] = 0,
        [RI_ERR_NOT_SUPPORTED] = EOPNOTSUPP,
        [RI_ERR_INVALID_ARGUMENT] = EINVAL,
        [RI_ERR_INVALID_STATE] = EINVAL,
        [RI_ERR_NO_RESOURCES] = ENOMEM,
        [RI_ERR_LIMIT] = EINVAL,
        [RI_ERR_QUEUE_FULL] = ENOMEM,
        [RI_ERR_BUSY] = EBUSY,
        [RI_ERR_AGAIN] = EBUSY,
        [RI_ERR_ADDRESS] = EFAULT,
        [RI_ERR_ACCESS] = EACCES,
        [RI_ERR_PERMISSION] = EACCES,
        [RI_ERR_ADDRESS_IN_USE] = EADDRINUSE,
        [RI_ERR_UNREACHABLE] = ENETUNREACH,
        [RI_ERR_TIMED_OUT] = ETIMEDOUT,
        [RI_ERR_DEVICE] = EIO,
        [ITAL_ERR_QUOTA] = ENOMEM,
        [ITAL_ERR_NO_INTERFACE] = ENODEV,
        [ITAL_ERR_CONFIGURATION] = EINVAL,
        [ITAL_ERR_INVALID_HANDLE] = EINVAL,
        [ITAL_ERR_EMPTY] = EAGAIN,
        [ITAL_ERR_INTERRUPTED] = EINTR,
        [ITAL_ERR_ABORTED] = ECANCELED,
        [ITAL_ERR_WAITER_LIMIT] = ENOMEM,
        [ITAL_ERR_EXISTS] = EEXIST,
    };

    return ital_status_exists(status) ? numbers[status] : EIO;
}

int vb_errno_minus(enum ri_status status)
{
    if (status == RI_OK)
        return 0;
    errno = vb_errno(status);
    return -1;
}
