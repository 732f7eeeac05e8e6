/* SPDX-License-Identifier: BSD-3-Clause
 * The error number for each status. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ibverbs_private.h"

int vb_errno(enum ual_status status)
{
    static const int numbers[UAL_STATUS_COUNT] = {
        [UAL_OK] = 0,
        [UAL_ERR_INVALID_HANDLE] = EINVAL,
        [UAL_ERR_DEAD] = EIO,
        [UAL_ERR_INVALID_ARGUMENT] = EINVAL,
        [UAL_ERR_INVALID_STATE] = EINVAL,
        [UAL_ERR_NOT_SUPPORTED] = EOPNOTSUPP,
        [UAL_ERR_NO_RESOURCES] = ENOMEM,
        [UAL_ERR_LIMIT] = EINVAL,
        [UAL_ERR_BUSY] = EBUSY,
        [UAL_ERR_EMPTY] = EAGAIN,
        [UAL_ERR_FULL] = ENOMEM,
        [UAL_ERR_TIMED_OUT] = ETIMEDOUT,
        [UAL_ERR_INTERRUPTED] = EINTR,
        [UAL_ERR_ABORTED] = ECANCELED,
        [UAL_ERR_WAITER_LIMIT] = ENOMEM,
        [UAL_ERR_NO_INTERFACE] = ENODEV,
        [UAL_ERR_CONFIGURATION] = EINVAL,
        [UAL_ERR_PERMISSION] = EACCES,
        [UAL_ERR_ADDRESS] = EFAULT,
        [UAL_ERR_ACCESS] = EACCES,
        [UAL_ERR_ADDRESS_IN_USE] = EADDRINUSE,
        [UAL_ERR_UNREACHABLE] = ENETUNREACH,
        [UAL_ERR_EXISTS] = EEXIST,
    };

    return numbers[status];
}

int vb_errno_minus(enum ual_status status)
{
    if (status == UAL_OK)
        return 0;
    errno = vb_errno(status);
    return -1;
}
