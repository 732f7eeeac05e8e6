/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that an itperf gets from its peer. The first octet selects the message type of the
 * following octets, and whether they are padded to the length of a message. An accepted plan must
 * be feasible, with a known amount of memory.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tools/itperf/itperf.h"

static void check_plan(const struct perf_plan *plan)
{
    struct perf_limits limits = { .memory = 1u << 30, .threads = 2, .polling = 1 };
    uint64_t bytes = perf_server_memory(plan);
    char text[PERF_TEXT];

    FUZZ_CHECK(plan->op >= PERF_SEND && plan->op <= PERF_READ);
    FUZZ_CHECK(plan->threads >= 1 && plan->threads <= plan->active);
    FUZZ_CHECK(plan->active <= plan->endpoints && plan->endpoints <= PERF_ENDPOINTS_MAX);
    FUZZ_CHECK(plan->size_least >= 1 && plan->size_least <= plan->size_max);
    FUZZ_CHECK(plan->list <= plan->tx_depth && plan->cq_mod <= plan->tx_depth);
    FUZZ_CHECK(bytes >= plan->endpoints + (uint64_t)plan->size_max * plan->threads);
    if (perf_limits_grant(&limits, plan, text, sizeof(text)))
        FUZZ_CHECK(bytes <= limits.memory && plan->threads <= 2);
    else
        FUZZ_CHECK(memchr(text, '\0', sizeof(text)) && strstr(text, "--max-"));
}

static void as_message(const uint8_t *data, size_t size)
{
    struct perf_message message;
    uint8_t again[PERF_MESSAGE];

    if (!perf_get_message(data, size, &message))
        return;
    FUZZ_CHECK(size == PERF_MESSAGE);
    FUZZ_CHECK(message.type >= PERF_PARAMS && message.type <= PERF_ALIVE);
    if (message.type == PERF_PARAMS)
        check_plan(&message.u.plan);
    if (message.type == PERF_REFUSE)
        FUZZ_CHECK(memchr(message.u.text, '\0', PERF_TEXT) != NULL);
    if (message.type == PERF_RUN)
        FUZZ_CHECK(!message.u.run.iterations != !message.u.run.duration_us);
    perf_put_message(again, &message);
    FUZZ_CHECK(perf_get_message(again, sizeof(again), &message));
}

static void as_hello(const uint8_t *data, size_t size)
{
    uint8_t again[PERF_PRIVATE];
    struct perf_hello hello;
    size_t length;

    if (!perf_get_hello(data, size, &hello) || hello.version != PERF_VERSION)
        return;
    length = perf_put_hello(again, &hello);
    FUZZ_CHECK(length <= size && !memcmp(again, data, length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t whole[PERF_MESSAGE] = { 0 };

    if (size < 1)
        return 0;
    switch (data[0] % 4) {
    case 0: as_hello(data + 1, size - 1); break;
    case 1: as_message(data + 1, size - 1); break;
    default:
        memcpy(whole, data + 1, size - 1 < sizeof(whole) ? size - 1 : sizeof(whole));
        as_message(whole, sizeof(whole));
        break;
    }
    return 0;
}
