/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rate limit of a cause. A cause has BURST lines in FIRST_NS. Further lines are counted, and
 * one line reports the count when that time is over. A cause that continues has twice the time, and
 * one line if it went beyond BURST, until a time passes in which nothing is counted.
 *
 * Of equal errors or warnings of a cause the first is a line and the others are counted, also where
 * BURST is not reached: a connection that is tried again every few milliseconds is one cause. Lines
 * of level info follow what happens, and each counts there.
 */
#include "log_private.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CAUSES     64 /* beyond this the least recently used one is forgotten */
#define BURST      20
#define FIRST_NS   (5 * CLOCK_NS_PER_S)
#define LONGEST_NS (60 * CLOCK_NS_PER_S)
#define TEXT_MAX   240 /* of the line that represents the suppressed ones */

struct cause {
    /* NULL: free. Only an address, never read: the provider's text may be unloaded. */
    const char *key;
    uint32_t prefix; /* hash of the prefix */
    enum ri_log_level level;
    unsigned burst, passed, suppressed;
    bool flooded;         /* more than `burst` different lines */
    uint32_t said[BURST]; /* hashes of the newest lines that passed */
    unsigned said_count;
    uint64_t ends, length;
    char text[TEXT_MAX]; /* the latest line, without its newline */
};

static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cause causes[CAUSES];

static uint32_t hash(const char *text, size_t length)
{
    uint32_t sum = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (unsigned char)text[i]) * 16777619u;
    return sum;
}

static bool was_said(const struct cause *cause, uint32_t line)
{
    unsigned kept = cause->said_count < BURST ? cause->said_count : BURST;

    for (unsigned i = 0; i < kept; i++)
        if (cause->said[i] == line)
            return true;
    return false;
}

/* Is the line to be written? Counts it. */
static bool admit(struct cause *cause, uint32_t line)
{
    if (cause->level <= RI_LOG_WARNING && was_said(cause, line)) {
        cause->suppressed++;
        return false;
    }
    if (cause->passed == cause->burst) {
        cause->suppressed++;
        cause->flooded = true;
        return false;
    }
    cause->passed++;
    cause->said[cause->said_count++ % BURST] = line;
    return true;
}

static void say_suppressed(const struct cause *cause, uint64_t length)
{
    char line[LOG_LINE_MAX];
    int used = snprintf(line, sizeof(line), "%s (%u more like this in the last %llu s)\n",
                        cause->text, cause->suppressed,
                        (unsigned long long)(length / CLOCK_NS_PER_S + (length < CLOCK_NS_PER_S)));

    if (used > 0)
        log_ring_push(cause->level, line, (size_t)used);
}

/* The time of a cause is over: reports the suppressed lines, and begins the next time. */
static void turn(struct cause *cause, uint64_t now)
{
    bool goes_on = cause->suppressed && now - cause->ends < cause->length;

    if (cause->suppressed)
        say_suppressed(cause, now - (cause->ends - cause->length));
    cause->burst = goes_on && cause->flooded ? 1 : BURST;
    cause->flooded = false;
    if (!goes_on)
        cause->said_count = 0;
    cause->length = !goes_on                         ? FIRST_NS
                    : cause->length * 2 > LONGEST_NS ? LONGEST_NS
                                                     : cause->length * 2;
    cause->ends = now + cause->length;
    cause->passed = cause->suppressed = 0;
}

/* The entry of the cause. A new cause takes a free entry, else the one whose time ended first;
 * entries without suppressed lines first. */
static struct cause *find(const char *key, uint32_t prefix, enum ri_log_level level, uint64_t now)
{
    struct cause *cause, *best = &causes[0];

    for (cause = causes; cause < causes + CAUSES; cause++) {
        if (cause->key == key && cause->prefix == prefix && cause->level == level)
            return cause;
        if (!best->key)
            continue;
        if (!cause->key || !!cause->suppressed < !!best->suppressed ||
            (!!cause->suppressed == !!best->suppressed && cause->ends < best->ends))
            best = cause;
    }
    if (best->key && best->suppressed)
        say_suppressed(best, now - (best->ends - best->length));
    *best = (struct cause){ .key = key, .prefix = prefix, .level = level };
    return best;
}

bool log_rate_admit(const char *key, const char *prefix, enum ri_log_level level, const char *line,
                    size_t length, uint64_t now, bool *first)
{
    struct cause *cause;
    bool pass;

    pthread_mutex_lock(&rate_lock);
    cause = find(key, hash(prefix, prefix ? strlen(prefix) : 0), level, now);
    if (now >= cause->ends)
        turn(cause, now);
    pass = admit(cause, hash(line, length));
    *first = !pass && cause->suppressed == 1;
    if (length > TEXT_MAX)
        length = TEXT_MAX;
    memcpy(cause->text, line, length - 1);
    cause->text[length - 1] = '\0';
    pthread_mutex_unlock(&rate_lock);
    return pass;
}

uint64_t log_rate_turn(uint64_t now)
{
    uint64_t next = CLOCK_NEVER;

    pthread_mutex_lock(&rate_lock);
    for (struct cause *cause = causes; cause < causes + CAUSES; cause++) {
        if (!cause->suppressed)
            continue;
        if (now >= cause->ends)
            turn(cause, now);
        else if (cause->ends < next)
            next = cause->ends;
    }
    pthread_mutex_unlock(&rate_lock);
    return next;
}

void log_rate_say(bool forget)
{
    uint64_t now = clock_now();

    pthread_mutex_lock(&rate_lock);
    for (struct cause *cause = causes; cause < causes + CAUSES; cause++) {
        if (cause->suppressed)
            say_suppressed(cause, now - (cause->ends - cause->length));
        cause->suppressed = 0;
        if (forget)
            cause->key = NULL;
    }
    pthread_mutex_unlock(&rate_lock);
}

void log_rate_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    rate_lock = fresh;
    memset(causes, 0, sizeof(causes));
}
