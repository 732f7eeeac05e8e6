/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Options `progress` and `progress_cpus`: what they ask for, held against what the process may use.
 */
#include "processors.h"

#include "kal.h"

#include "base/cpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_OCTETS 128 /* for a log line; a longer list ends with "..." */

/* The numbers of a set as "0-3,6". */
static void write_list(const cpu_set_t *set, char list[LIST_OCTETS])
{
    int length = 0;

    list[0] = '\0';
    for (int first = 0, last; first < CPU_SETSIZE; first = last + 1) {
        last = first;
        if (!CPU_ISSET(first, set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        if (length > LIST_OCTETS - 16) {
            snprintf(list + length, (size_t)(LIST_OCTETS - length), ",...");
            return;
        }
        length += snprintf(list + length, (size_t)(LIST_OCTETS - length),
                           first == last ? "%s%d" : "%s%d-%d", length ? "," : "", first, last);
    }
}

/* The number at the start of the text; *end is behind it. -1: none of an allowed processor. */
static long allowed_number(const char *text, const cpu_set_t *allowed, char **end)
{
    long number;

    errno = 0;
    number = strtol(text, end, 10);
    if (*end == text || (**end && **end != ' ') || errno || number < 0 || number >= CPU_SETSIZE ||
        !CPU_ISSET((size_t)number, allowed))
        return -1;
    return number;
}

static enum ri_status read_numbers(const char *text, const cpu_set_t *allowed,
                                   struct ual_processors *processors)
{
    char list[LIST_OCTETS], *end;

    for (text += strspn(text, " "); *text; text = end + strspn(end, " ")) {
        long number = allowed_number(text, allowed, &end);

        if (number < 0 || processors->count == UAL_PROCESSORS_MOST) {
            write_list(allowed, list);
            kal_log(RI_LOG_ERROR,
                    "progress_cpus: \"%.*s\" is not the number of a processor that this process "
                    "may use, which are %s (taskset(1), cpuset)",
                    (int)strcspn(text, " "), text, list);
            return ITAL_ERR_CONFIGURATION;
        }
        processors->cpu[processors->count++] = (uint16_t)number;
    }
    return RI_OK;
}

/* Whether each lane can have a processor of its own beside one for the program. */
static bool are_enough(uint32_t lanes, unsigned int allowed, unsigned int quota)
{
    unsigned int there = allowed < quota ? allowed : quota;

    if (there > lanes)
        return true;
    kal_log(RI_LOG_WARNING,
            "progress = dedicated: shared is used instead, because it needs a processor for each "
            "lane (%u) and one for the program, and the %s allows %u",
            (unsigned int)lanes, allowed <= quota ? "affinity mask" : "CPU quota", there);
    return false;
}

enum ri_status ual_processors_choose(const struct ual_progress *progress, uint32_t lanes,
                                     const cpu_set_t *allowed, unsigned int quota,
                                     struct ual_processors *processors)
{
    struct ual_processors chosen = { .count = 0 };
    enum ri_status status = read_numbers(progress->cpus ? progress->cpus : "", allowed, &chosen);

    if (status != RI_OK)
        return status;
    chosen.dedicated = progress->dedicated &&
                       are_enough(lanes, (unsigned int)CPU_COUNT(allowed), quota);
    *processors = chosen;
    return RI_OK;
}
