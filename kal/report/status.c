/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of statuses, and the conversion from the provider's status to kal's. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal.h"

#define NAME(status) [status] = #status

const char *kal_status_name(enum kal_status status)
{
    static const char *const names[KAL_STATUS_COUNT] = {
        NAME(KAL_OK),
        NAME(KAL_ERR_NOT_SUPPORTED),
        NAME(KAL_ERR_INVALID_ARGUMENT),
        NAME(KAL_ERR_INVALID_STATE),
        NAME(KAL_ERR_NO_RESOURCES),
        NAME(KAL_ERR_QUOTA),
        NAME(KAL_ERR_LIMIT),
        NAME(KAL_ERR_BUSY),
        NAME(KAL_ERR_AGAIN),
        NAME(KAL_ERR_ADDRESS),
        NAME(KAL_ERR_ACCESS),
        NAME(KAL_ERR_PERMISSION),
        NAME(KAL_ERR_ADDRESS_IN_USE),
        NAME(KAL_ERR_UNREACHABLE),
        NAME(KAL_ERR_TIMED_OUT),
        NAME(KAL_ERR_NO_INTERFACE),
        NAME(KAL_ERR_CONFIGURATION),
        NAME(KAL_ERR_DEVICE),
    };

    if ((unsigned)status >= KAL_STATUS_COUNT)
        return "(no kal_status)";
    return names[status];
}

enum kal_status kal_status_of_ri(enum ri_status status)
{
    static const enum kal_status table[RI_STATUS_COUNT] = {
        [RI_OK] = KAL_OK,
        [RI_ERR_NOT_SUPPORTED] = KAL_ERR_NOT_SUPPORTED,
        [RI_ERR_INVALID_ARGUMENT] = KAL_ERR_INVALID_ARGUMENT,
        [RI_ERR_INVALID_STATE] = KAL_ERR_INVALID_STATE,
        [RI_ERR_NO_RESOURCES] = KAL_ERR_NO_RESOURCES,
        [RI_ERR_LIMIT] = KAL_ERR_LIMIT,
        [RI_ERR_QUEUE_FULL] = KAL_ERR_NO_RESOURCES, /* no control operation returns it */
        [RI_ERR_BUSY] = KAL_ERR_BUSY,
        [RI_ERR_AGAIN] = KAL_ERR_AGAIN,
        [RI_ERR_ADDRESS] = KAL_ERR_ADDRESS,
        [RI_ERR_ACCESS] = KAL_ERR_ACCESS,
        [RI_ERR_PERMISSION] = KAL_ERR_PERMISSION,
        [RI_ERR_ADDRESS_IN_USE] = KAL_ERR_ADDRESS_IN_USE,
        [RI_ERR_UNREACHABLE] = KAL_ERR_UNREACHABLE,
        [RI_ERR_TIMED_OUT] = KAL_ERR_TIMED_OUT,
        [RI_ERR_DEVICE] = KAL_ERR_DEVICE,
    };

    if ((unsigned)status >= RI_STATUS_COUNT)
        return KAL_ERR_DEVICE; /* a status of a newer minor version */
    return table[status];
}
