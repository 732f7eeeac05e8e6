/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of statuses, lines for the host's log, the clock. */
#include "rnicpi_util.h"

#include <time.h>

const char *ri_status_name(enum ri_status status)
{
    static const char *const names[RI_STATUS_COUNT] = {
        [RI_OK] = "RI_OK",
        [RI_ERR_NOT_SUPPORTED] = "RI_ERR_NOT_SUPPORTED",
        [RI_ERR_INVALID_ARGUMENT] = "RI_ERR_INVALID_ARGUMENT",
        [RI_ERR_INVALID_STATE] = "RI_ERR_INVALID_STATE",
        [RI_ERR_NO_RESOURCES] = "RI_ERR_NO_RESOURCES",
        [RI_ERR_LIMIT] = "RI_ERR_LIMIT",
        [RI_ERR_QUEUE_FULL] = "RI_ERR_QUEUE_FULL",
        [RI_ERR_BUSY] = "RI_ERR_BUSY",
        [RI_ERR_AGAIN] = "RI_ERR_AGAIN",
        [RI_ERR_ADDRESS] = "RI_ERR_ADDRESS",
        [RI_ERR_ACCESS] = "RI_ERR_ACCESS",
        [RI_ERR_PERMISSION] = "RI_ERR_PERMISSION",
        [RI_ERR_ADDRESS_IN_USE] = "RI_ERR_ADDRESS_IN_USE",
        [RI_ERR_UNREACHABLE] = "RI_ERR_UNREACHABLE",
        [RI_ERR_TIMED_OUT] = "RI_ERR_TIMED_OUT",
        [RI_ERR_DEVICE] = "RI_ERR_DEVICE",
    };

    return (unsigned int)status < RI_STATUS_COUNT ? names[status] : "RI_ERR_(unknown)";
}

void ri_log(const struct ri_host *host, enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    host->log(host, level, format, args);
    va_end(args);
}

uint64_t ri_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
