/* SPDX-License-Identifier: BSD-3-Clause */
/* Explains refusals to pin: the limit, the wish, and the command that raises the limit. */
#include "pin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum ri_status kal_pin_refuse(struct kal_pin_refusal *refusal, enum ri_status status,
                              const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(refusal->why, sizeof(refusal->why), format, args);
    va_end(args);
    refusal->status = status;
    return status;
}

bool kal_pin_status_number(const char *name, uint64_t *number)
{
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    size_t length = strlen(name), used = 0;
    char text[8192], *line;
    ssize_t got;

    if (fd < 0)
        return false;
    while (used < sizeof(text) - 1 && (got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    for (line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, length) && line[length] == ':') {
            *number = strtoull(line + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

bool kal_pin_limit_allows(uint64_t octets)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           octets <= limit.rlim_cur;
}

void kal_pin_explain_limit(struct kal_pin_refusal *refusal, const char *whose, uint64_t wanted,
                           uint64_t total)
{
    struct rlimit limit = { 0, 0 };
    unsigned long long kib = total / 1024 + (total % 1024 != 0);

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES,
                       "%llu more octets are wanted, and memory is short: the limit of locked "
                       "memory is not the cause, %s may lock all; free memory, or raise the limit "
                       "of the control group (memory.max)",
                       (unsigned long long)wanted, whose);
    else if (total <= limit.rlim_cur)
        kal_pin_refuse(
            refusal, RI_ERR_NO_RESOURCES,
            "%llu more octets are wanted, and the limit of locked memory of %llu octets for %s is "
            "used up by others, or memory is short; wait for them, or raise it (ulimit -l, "
            "LimitMEMLOCK=, /etc/security/limits.conf)",
            (unsigned long long)wanted, (unsigned long long)limit.rlim_cur, whose);
    else if (total <= limit.rlim_max)
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES,
                       "%llu more octets are wanted, %llu in all, and the limit of locked memory "
                       "is %llu octets for %s; before the program starts: ulimit -l %llu",
                       (unsigned long long)wanted, (unsigned long long)total,
                       (unsigned long long)limit.rlim_cur, whose, kib);
    else
        kal_pin_refuse(
            refusal, RI_ERR_NO_RESOURCES,
            "%llu more octets are wanted, %llu in all, and the limit of locked memory is %llu "
            "octets for %s; as root: prlimit --pid %d --memlock=%llu; for good: \"* - memlock "
            "%llu\" in /etc/security/limits.conf, or LimitMEMLOCK=%lluK in the unit",
            (unsigned long long)wanted, (unsigned long long)total,
            (unsigned long long)limit.rlim_cur, whose, getpid(), kib * 1024, kib, kib);
}

void kal_pin_explain_ring(struct kal_pin_refusal *refusal, int error, long disabled, long group,
                          bool filtered)
{
    if (error == EMFILE || error == ENFILE)
        kal_pin_refuse(refusal, RI_ERR_NO_RESOURCES,
                       "there is no descriptor for a ring of io_uring; raise the limit on open "
                       "files (ulimit -n)");
    else if (error == EOPNOTSUPP)
        kal_pin_refuse(refusal, RI_ERR_PERMISSION,
                       "the kernel is too old: sparse tables of io_uring came with 5.19");
    else if (error == EPERM && disabled == 2)
        kal_pin_refuse(refusal, RI_ERR_PERMISSION,
                       "io_uring is switched off (kernel.io_uring_disabled = 2); as root: sysctl "
                       "kernel.io_uring_disabled=0");
    else if (error == EPERM && disabled == 1)
        kal_pin_refuse(refusal, RI_ERR_PERMISSION,
                       "io_uring is for root and one group only (kernel.io_uring_disabled = 1, "
                       "kernel.io_uring_group = %ld); as root: add the user to that group, or "
                       "sysctl kernel.io_uring_disabled=0",
                       group);
    else if (filtered)
        kal_pin_refuse(refusal, RI_ERR_PERMISSION,
                       "a seccomp filter forbids io_uring (%s), as that of most containers; allow "
                       "io_uring_setup and io_uring_register in its profile",
                       strerror(error));
    else if (error == ENOSYS)
        kal_pin_refuse(refusal, RI_ERR_PERMISSION, "the kernel is built without io_uring");
    else
        kal_pin_refuse(refusal, RI_ERR_PERMISSION, "the system refuses io_uring: %s",
                       strerror(error));
}
