/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: what a server grants to an unknown client. Every number of the plan is within
 * its own range (itperf_wire.c); here their product is bounded, before anything is allocated.
 */
#include "itperf.h"

#include <sched.h>
#include <stdio.h>

#include "tools/common/tool.h"

#define PAGE            4096u
#define ROUND(size, to) (((size) + (to)-1) / (to) * (to))
#define PLACE_BYTES     256u   /* of a request or Receive: queue and event dispatcher, rounded up */
#define ENDPOINT_BYTES  32768u /* of an Endpoint without its queues, rounded up */
/* Of a thread: what its stack touches, counts, event dispatchers. */
#define THREAD_BYTES  1048576u
#define THREADS_LEAST 2u /* default on a host of one processor, too */

/* UINT64_MAX: more than can be counted. */
static uint64_t times(uint64_t one, uint64_t other)
{
    uint64_t product;

    return __builtin_mul_overflow(one, other, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t one, uint64_t other)
{
    uint64_t sum;

    return __builtin_add_overflow(one, other, &sum) ? UINT64_MAX : sum;
}

struct perf_shape perf_shape(const struct perf_plan *plan, bool client)
{
    bool both = plan->bidirectional || plan->kind == PERF_LAT;
    struct perf_shape shape = { .source = ROUND((size_t)plan->size_max, PAGE) + PAGE,
                                .place = ROUND((size_t)plan->size_max, 64),
                                .inbox_place = 64,
                                .target = plan->op == PERF_WRITE && (!client || both),
                                .sink = plan->op == PERF_READ && (client || both) };

    if (plan->op == PERF_SEND)
        shape.inbox_place = shape.place; /* 64 at least, too */
    return shape;
}

uint64_t perf_server_memory(const struct perf_plan *plan)
{
    uint64_t places = plus(perf_requests(plan), perf_receives(plan)), each;
    struct perf_shape shape = perf_shape(plan, false);

    each = plus(plus(ENDPOINT_BYTES, times(PLACE_BYTES, places)), shape.inbox_place);
    if (shape.target)
        each = plus(each, shape.place);
    if (shape.sink)
        each = plus(each, shape.place);
    return plus(times(each, plan->endpoints),
                times(plus(THREAD_BYTES, shape.source), plan->threads));
}

uint32_t perf_threads_here(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);

    return count > (int)THREADS_LEAST ? (uint32_t)count : THREADS_LEAST;
}

/* True: the server's threads poll. A Write without a note raises no event, so memory is polled
 * whatever else the plan has. */
static bool polls(const struct perf_plan *plan)
{
    return plan->target == PERF_BUSY || plan->target == PERF_NAP || perf_polls_memory(plan);
}

bool perf_limits_grant(const struct perf_limits *limits, const struct perf_plan *plan, char *text,
                       size_t size)
{
    char wanted[TOOL_HUMAN], granted[TOOL_HUMAN];
    uint64_t bytes = perf_server_memory(plan);

    if (plan->threads > limits->threads) {
        snprintf(text, size,
                 "%u threads are more than the %u of --max-threads there: reduce --threads",
                 plan->threads, limits->threads);
        return false;
    }
    if (polls(plan) && plan->threads > limits->polling) {
        snprintf(text, size,
                 "%u polling threads are more than the %u of --max-polling there: add %s--target "
                 "event, or reduce --threads",
                 plan->threads, limits->polling,
                 perf_polls_memory(plan) ? "--write-send and " : "");
        return false;
    }
    if (bytes > limits->memory) {
        snprintf(text, size,
                 "that takes %s of memory, more than the %s of --max-memory there: reduce -s, -q, "
                 "-t, -r or --threads",
                 tool_human((double)bytes, wanted), tool_human((double)limits->memory, granted));
        return false;
    }
    return true;
}
