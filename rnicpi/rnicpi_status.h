/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_status.h - the one status of the floors above a provider: enum ri_status, with further
 * values that no provider answers. Not installed.
 *
 * kal, ual and the front ends pass a status on as it is. itapi and verbs convert it, by one table
 * each, to it_status_t and to an error number. Above kal, RI_ERR_DEVICE is also the answer in a
 * forked copy of the process, which has no device, and RI_ERR_QUEUE_FULL that of an event queue.
 */
#ifndef RNICPI_STATUS_H
#define RNICPI_STATUS_H

#include "rnicpi.h"

/* Above the statuses of every minor version of rnicpi.h. */
#define ITAL_STATUS_FIRST 64

/* An account limit of the configuration */
#define ITAL_ERR_QUOTA ((enum ri_status)64)
/* No interface has that name, or it is not usable: the log line has the reason */
#define ITAL_ERR_NO_INTERFACE ((enum ri_status)65)
/* The configuration file cannot be used; the log line has file and line */
#define ITAL_ERR_CONFIGURATION ((enum ri_status)66)
/* A handle that is NULL, stale or of another type */
#define ITAL_ERR_INVALID_HANDLE ((enum ri_status)67)
/* No event queued */
#define ITAL_ERR_EMPTY ((enum ri_status)68)
/* A signal was handled */
#define ITAL_ERR_INTERRUPTED ((enum ri_status)69)
/* What was waited for went away */
#define ITAL_ERR_ABORTED ((enum ri_status)70)
/* As many threads wait as may */
#define ITAL_ERR_WAITER_LIMIT ((enum ri_status)71)
/* There may be one only, and there is */
#define ITAL_ERR_EXISTS ((enum ri_status)72)

/* The size of a table by status. Between RI_STATUS_COUNT and ITAL_STATUS_FIRST is none. */
#define ITAL_STATUS_COUNT 73

static_assert(RI_STATUS_COUNT <= ITAL_STATUS_FIRST, "a provider's statuses meet the further ones");

static inline bool ital_status_exists(enum ri_status status)
{
    return (unsigned int)status < RI_STATUS_COUNT ||
           ((unsigned int)status >= ITAL_STATUS_FIRST && (unsigned int)status < ITAL_STATUS_COUNT);
}

/* A provider's answer, where it enters. RI_ERR_DEVICE for a number that is no status of rnicpi.h:
 * of a newer minor version, of those above, or of none. */
static inline enum ri_status ital_status_of_provider(enum ri_status answer)
{
    return (unsigned int)answer < RI_STATUS_COUNT ? answer : RI_ERR_DEVICE;
}

/* The name of each status, "RI_ERR_BUSY", for log lines; static. Any value, any thread. */
__attribute__((visibility("default"))) const char *ital_status_name(enum ri_status status);

#endif
