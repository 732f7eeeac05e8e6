/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: send lat --pair, when the second of two Sends arrives that were posted in a row.
 *
 * A round: a lone Send and its answer, then two Sends without a call in between and one answer. The
 * polling server takes the time when it has a message's event in hand, and puts the times of the
 * last two into its answer. A way begins before the call that posts the message and ends there:
 * both times are of CLOCK_MONOTONIC, one clock on one host, so the ways are measured and not halves
 * of anything. How late the second is: its way less the median way of the lone ones of the same
 * run.
 */
#include "itperf.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

/* The boot ID distinguishes hosts. It does not distinguish time namespaces; perf_pair_round
 * does. */
uint64_t perf_clock(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    unsigned count = 0;
    int octet;

    if (!file)
        return 0;
    for (; (octet = getc(file)) != EOF; count++)
        hash = (hash ^ (uint64_t)octet) * 0x100000001b3u;
    fclose(file);
    return count ? hash | 1 : 0;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* The client has the answer before this, or it would not have sent. So nothing reads this
 * memory. */
void perf_pair_answer(const struct perf_worker *worker)
{
    memcpy(worker->group->source.memory, worker->arrival, sizeof(worker->arrival));
}

/* ---- the client ------------------------------------------------------------------------------ */

/* Room for so many requests, in the way that the consumer waits: polling would be seen. */
static bool make_room(struct perf_worker *worker, const struct perf_ep *ep, uint32_t requests)
{
    while (ep->outstanding + requests > worker->session->plan.tx_depth)
        if (!perf_step(worker))
            return false;
    return true;
}

static bool await_answer(struct perf_worker *worker, const struct perf_ep *ep, uint64_t called,
                         uint64_t arrival[2])
{
    const struct perf_group *group = worker->group;
    size_t place = (size_t)(ep - group->eps) * group->inbox_place;

    while (!worker->answered)
        if (!perf_step(worker))
            return false;
    if (worker->answered != ep)
        return perf_lost(worker, "the answer arrived on another endpoint");
    memcpy(arrival, (const char *)group->inbox.memory + place, 2 * sizeof(*arrival));
    if (arrival[1] < called || arrival[1] > tool_now() || arrival[0] > arrival[1]) {
        if (!atomic_exchange(&worker->session->failed, true))
            tool_error("%s has another clock: --pair is for client and server on one host",
                       group->base.peer);
        return false;
    }
    return perf_refill(worker);
}

/* --away: the program has something else to do, and does not call. */
static void stay_away(const struct perf_worker *worker)
{
    uint64_t end = tool_now() + worker->session->away_us * 1000;

    while (worker->session->away_us && tool_now() < end && !atomic_load(&tool_stop))
        ;
}

bool perf_pair_round(struct perf_worker *worker, struct perf_ep *ep, uint64_t *time)
{
    uint64_t called, arrival[2];

    if (!make_room(worker, ep, 1))
        return false;
    called = tool_now();
    if (!perf_post_data(worker, ep, false))
        return false;
    stay_away(worker);
    if (!await_answer(worker, ep, called, arrival))
        return false;
    histogram_add(&worker->lone, arrival[1] - called);
    if (!make_room(worker, ep, 2) || !perf_post_data(worker, ep, false))
        return false;
    called = tool_now();
    if (!perf_post_data(worker, ep, false))
        return false;
    stay_away(worker);
    if (!await_answer(worker, ep, called, arrival))
        return false;
    histogram_add(&worker->gaps, arrival[1] - arrival[0]);
    *time = arrival[1] - called;
    return true;
}
