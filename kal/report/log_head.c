/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The head of a line in a file, which several programs may share: time, program, process. The time
 * is UTC: localtime_r takes a lock that a fork may leave locked.
 */
#include "log_private.h"

#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define PROGRAM_MAX 32

/* 0: lines have no head. Kept, because a line must not cost a system call. */
static _Atomic pid_t head_process;

void log_head_set(bool wanted)
{
    atomic_store(&head_process, wanted ? getpid() : 0);
}

static bool is_leap(unsigned year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970-01-01. */
static void date_of(unsigned days, unsigned *year, unsigned *month, unsigned *day)
{
    static const uint8_t lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    unsigned at = 0, length;

    for (*year = 1970; days >= 365u + is_leap(*year); (*year)++)
        days -= 365u + is_leap(*year);
    while (days >= (length = lengths[at] + (at == 1 && is_leap(*year)))) {
        days -= length;
        at++;
    }
    *month = at + 1;
    *day = days + 1;
}

/* A program's name may have any octets. */
static void copy_name(char out[PROGRAM_MAX])
{
    const char *name = program_invocation_short_name;
    size_t length = 0;

    for (; name[length] && length < PROGRAM_MAX - 1; length++)
        out[length] = (unsigned char)name[length] <= ' ' || name[length] == 0x7f ? '_'
                                                                                 : name[length];
    out[length] = '\0';
}

size_t log_head(char *line, size_t size, uint64_t wall)
{
    unsigned seconds = (unsigned)(wall / CLOCK_NS_PER_S % 86400), year, month, day;
    pid_t process = atomic_load(&head_process);
    char program[PROGRAM_MAX];
    int length;

    if (!process)
        return 0;
    copy_name(program);
    date_of((unsigned)(wall / CLOCK_NS_PER_S / 86400), &year, &month, &day);
    length = snprintf(line, size, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ %s[%ld] ", year, month, day,
                      seconds / 3600, seconds / 60 % 60, seconds % 60,
                      (unsigned)(wall % CLOCK_NS_PER_S / CLOCK_NS_PER_MS), program, (long)process);
    return length < 0 || (size_t)length >= size ? 0 : (size_t)length;
}
