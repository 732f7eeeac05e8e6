/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of statuses, lines for the host's log, the clock, what is mapped. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rnicpi_util.h"

#include <inttypes.h>
#include <stdio.h>
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

/* The mappings are in the order of their addresses. */
enum ri_status ri_check_memory(const void *addr, uint64_t length, bool writable)
{
    uint64_t begin, end, at = (uintptr_t)addr, last = at + length;
    FILE *maps = last < at ? NULL : fopen("/proc/self/maps", "re");
    enum ri_status status = RI_OK;
    char line[512], rights[8];

    if (!maps)
        return last < at ? RI_ERR_ADDRESS : RI_ERR_NO_RESOURCES;
    while (at < last && status == RI_OK && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &begin, &end, rights) != 3 || end <= at)
            continue;
        if (begin > at)
            break;
        if (rights[0] != 'r' || (writable && rights[1] != 'w'))
            status = RI_ERR_ACCESS;
        at = end;
    }
    fclose(maps);
    return status == RI_OK && at < last ? RI_ERR_ADDRESS : status;
}
