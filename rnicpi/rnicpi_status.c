/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the statuses above a provider. */
#include "rnicpi_status.h"
#include "rnicpi_util.h"

#define NAME(status) [status - ITAL_STATUS_FIRST] = #status

const char *ital_status_name(enum ri_status status)
{
    static const char *const names[ITAL_STATUS_COUNT - ITAL_STATUS_FIRST] = {
        NAME(ITAL_ERR_QUOTA),          NAME(ITAL_ERR_NO_INTERFACE), NAME(ITAL_ERR_CONFIGURATION),
        NAME(ITAL_ERR_INVALID_HANDLE), NAME(ITAL_ERR_EMPTY),        NAME(ITAL_ERR_INTERRUPTED),
        NAME(ITAL_ERR_ABORTED),        NAME(ITAL_ERR_WAITER_LIMIT), NAME(ITAL_ERR_EXISTS),
    };
    unsigned int index = (unsigned int)status - ITAL_STATUS_FIRST;

    return index < ITAL_STATUS_COUNT - ITAL_STATUS_FIRST ? names[index] : ri_status_name(status);
}
