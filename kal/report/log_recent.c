/* SPDX-License-Identifier: BSD-3-Clause */
/* The newest errors and warnings, for itstat. */
#include "report.h"
#include "log_private.h"

#include "base/clock.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t recent_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    uint64_t errors, warnings;
    struct kal_log_line line[KAL_LOG_RECENT]; /* number n is in n % KAL_LOG_RECENT */
} recent;

void log_recent_add(enum ri_log_level level, const char *line, size_t length)
{
    struct kal_log_line *place;

    length--; /* the newline */
    if (length > KAL_LOG_RECENT_MAX - 1)
        length = KAL_LOG_RECENT_MAX - 1;
    pthread_mutex_lock(&recent_lock);
    place = &recent.line[(recent.errors + recent.warnings) % KAL_LOG_RECENT];
    place->wall = clock_wall();
    memcpy(place->text, line, length);
    place->text[length] = '\0';
    if (level == RI_LOG_ERROR)
        recent.errors++;
    else
        recent.warnings++;
    pthread_mutex_unlock(&recent_lock);
}

size_t kal_log_recent(struct kal_log_line *lines, size_t room, uint64_t *errors, uint64_t *warnings)
{
    uint64_t all;
    size_t count;

    pthread_mutex_lock(&recent_lock);
    all = recent.errors + recent.warnings;
    count = all < KAL_LOG_RECENT ? (size_t)all : KAL_LOG_RECENT;
    if (count > room)
        count = room;
    for (size_t i = 0; i < count; i++)
        lines[i] = recent.line[(all - count + i) % KAL_LOG_RECENT];
    *errors = recent.errors;
    *warnings = recent.warnings;
    pthread_mutex_unlock(&recent_lock);
    return count;
}

void log_recent_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    recent_lock = fresh; /* another thread of the parent may have held it */
    recent.errors = recent.warnings = 0;
}
