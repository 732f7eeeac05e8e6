/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: private data and control messages: pure functions over octets of a given length. The
 * peer's numbers are checked here, once; their product in itperf_limits.c.
 */
#include "itperf.h"

#include <string.h>

#include "tools/common/wire.h"

const char *const perf_op_names[] = { "any", "send", "write", "read" };
const char *const perf_kind_names[] = { "any", "lat", "bw" };
const char *const perf_mode_names[] = { "any", "busy", "event", "fd", "nap" };

/* ---- private data ---------------------------------------------------------------------------- */

size_t perf_put_hello(uint8_t *data, const struct perf_hello *hello)
{
    struct wire wire = wire_over(data, PERF_PRIVATE);

    wire_put(&wire, PERF_MAGIC, 4);
    wire_put(&wire, PERF_VERSION, 2);
    wire_put(&wire, hello->kind, 1);
    wire_put(&wire, hello->refusal, 1);
    wire_put(&wire, hello->token, 8);
    wire_put(&wire, hello->index, 4);
    wire_put(&wire, hello->address, 8);
    wire_put(&wire, hello->context, 8);
    return PERF_PRIVATE - wire.left;
}

bool perf_get_hello(const uint8_t *data, size_t size, struct perf_hello *hello)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    bool good = wire_get(&wire, 4) == PERF_MAGIC;

    memset(hello, 0, sizeof(*hello));
    hello->version = (unsigned)wire_get(&wire, 2);
    hello->kind = (enum perf_hello_kind)wire_get(&wire, 1);
    hello->refusal = (enum perf_refusal)wire_get(&wire, 1);
    if (!good || wire.bad)
        return false;
    hello->token = wire_get(&wire, 8);
    hello->index = (uint32_t)wire_get(&wire, 4);
    hello->address = wire_get(&wire, 8);
    hello->context = wire_get(&wire, 8);
    return hello->version != PERF_VERSION || !wire.bad;
}

/* ---- control messages ------------------------------------------------------------------------ */

static void put_plan(struct wire *wire, const struct perf_plan *plan)
{
    wire_put(wire, plan->op, 1);
    wire_put(wire, plan->kind, 1);
    wire_put(wire, plan->mode, 1);
    wire_put(wire, plan->target, 1);
    wire_put(wire, plan->size_least, 4);
    wire_put(wire, plan->size_max, 4);
    wire_put(wire, plan->sizes, 4);
    wire_put(wire, plan->iterations, 8);
    wire_put(wire, plan->duration_us, 8);
    wire_put(wire, plan->threads, 4);
    wire_put(wire, plan->endpoints, 4);
    wire_put(wire, plan->active, 4);
    wire_put(wire, plan->tx_depth, 4);
    wire_put(wire, plan->rx_depth, 4);
    wire_put(wire, plan->list, 4);
    wire_put(wire, plan->cq_mod, 4);
    wire_put(wire, plan->reads, 4);
    wire_put(wire, plan->bidirectional, 1);
    wire_put(wire, plan->write_send, 1);
    wire_put(wire, plan->pure_memory, 1);
    wire_put(wire, plan->pair, 1);
    wire_put(wire, plan->clock, 8);
}

/* A number of the peer within these bounds; otherwise wire->bad is set. */
static uint64_t get_within(struct wire *wire, size_t bytes, uint64_t least, uint64_t most)
{
    uint64_t value = wire_get(wire, bytes);

    if (value < least || value > most)
        wire->bad = true;
    return value;
}

static void get_plan(struct wire *wire, struct perf_plan *plan)
{
    plan->op = (enum perf_op)get_within(wire, 1, PERF_SEND, PERF_READ);
    plan->kind = (enum perf_kind)get_within(wire, 1, PERF_LAT, PERF_BW);
    plan->mode = (enum perf_mode)get_within(wire, 1, PERF_BUSY, PERF_FD);
    plan->target = (enum perf_mode)get_within(wire, 1, PERF_MODE_NONE, PERF_NAP);
    plan->size_least = (uint32_t)get_within(wire, 4, 1, PERF_SIZE_MAX);
    plan->size_max = (uint32_t)get_within(wire, 4, plan->size_least, PERF_SIZE_MAX);
    plan->sizes = (uint32_t)get_within(wire, 4, 1, PERF_SIZES);
    plan->iterations = wire_get(wire, 8);
    plan->duration_us = wire_get(wire, 8);
    plan->threads = (uint32_t)get_within(wire, 4, 1, PERF_THREADS_MAX);
    plan->endpoints = (uint32_t)get_within(wire, 4, plan->threads, PERF_ENDPOINTS_MAX);
    plan->active = (uint32_t)get_within(wire, 4, plan->threads, plan->endpoints);
    plan->tx_depth = (uint32_t)get_within(wire, 4, 1, PERF_DEPTH_MAX);
    plan->rx_depth = (uint32_t)get_within(wire, 4, 1, PERF_DEPTH_MAX);
    plan->list = (uint32_t)get_within(wire, 4, 1, plan->tx_depth);
    plan->cq_mod = (uint32_t)get_within(wire, 4, 1, plan->tx_depth);
    plan->reads = (uint32_t)get_within(wire, 4, 0, PERF_DEPTH_MAX);
    plan->bidirectional = get_within(wire, 1, 0, 1);
    plan->write_send = get_within(wire, 1, 0, 1);
    plan->pure_memory = get_within(wire, 1, 0, 1);
    plan->pair = get_within(wire, 1, 0, 1);
    plan->clock = wire_get(wire, 8);
    if ((plan->kind == PERF_LAT && plan->bidirectional) ||
        (plan->write_send && (plan->op != PERF_WRITE || plan->kind != PERF_LAT)) ||
        (plan->write_send && plan->tx_depth < 2) ||
        (plan->target == PERF_NAP && (plan->op != PERF_READ || plan->kind != PERF_LAT)))
        wire->bad = true;
    if (plan->pair && (plan->op != PERF_SEND || plan->kind != PERF_LAT || plan->tx_depth < 2 ||
                       plan->target != PERF_BUSY || plan->size_least < PERF_PAIR_LEAST))
        wire->bad = true;
}

static void put_rate(struct wire *wire, double rate)
{
    uint64_t bits;

    memcpy(&bits, &rate, sizeof(bits));
    wire_put(wire, bits, 8);
}

static double get_rate(struct wire *wire)
{
    uint64_t bits = wire_get(wire, 8);
    double rate;

    memcpy(&rate, &bits, sizeof(rate));
    if (!(rate >= 0 && rate < 1e18)) {
        wire->bad = true;
        return 0;
    }
    return rate;
}

static void put_tally(struct wire *wire, const struct perf_tally *tally)
{
    wire_put(wire, tally->sent, 8);
    wire_put(wire, tally->received, 8);
    put_rate(wire, tally->rate);
    put_rate(wire, tally->rate_median);
    put_rate(wire, tally->rate_peak);
    put_rate(wire, tally->rate_in_median);
    wire_put(wire, tally->wall_ns, 8);
    wire_put(wire, tally->user_ns, 8);
    wire_put(wire, tally->system_ns, 8);
}

static void get_tally(struct wire *wire, struct perf_tally *tally)
{
    tally->sent = wire_get(wire, 8);
    tally->received = wire_get(wire, 8);
    tally->rate = get_rate(wire);
    tally->rate_median = get_rate(wire);
    tally->rate_peak = get_rate(wire);
    tally->rate_in_median = get_rate(wire);
    tally->wall_ns = wire_get(wire, 8);
    tally->user_ns = wire_get(wire, 8);
    tally->system_ns = wire_get(wire, 8);
}

void perf_put_message(uint8_t *data, const struct perf_message *message)
{
    struct wire wire = wire_over(data, PERF_MESSAGE);

    memset(data, 0, PERF_MESSAGE);
    wire_put(&wire, PERF_MAGIC, 4);
    wire_put(&wire, message->type, 4);
    switch (message->type) {
    case PERF_PARAMS: put_plan(&wire, &message->u.plan); break;
    case PERF_ACCEPT: wire_put(&wire, message->u.token, 8); break;
    case PERF_REFUSE: wire_put_bytes(&wire, message->u.text, PERF_TEXT); break;
    case PERF_RUN:
        wire_put(&wire, message->u.run.size, 4);
        wire_put(&wire, message->u.run.iterations, 8);
        wire_put(&wire, message->u.run.duration_us, 8);
        break;
    case PERF_RESULT:
        wire_put(&wire, message->u.result.good, 1);
        put_tally(&wire, &message->u.result.tally);
        break;
    default: break;
    }
}

bool perf_get_message(const uint8_t *data, size_t size, struct perf_message *message)
{
    struct wire wire = wire_over((uint8_t *)data, size);

    memset(message, 0, sizeof(*message));
    if (size != PERF_MESSAGE || wire_get(&wire, 4) != PERF_MAGIC)
        return false;
    message->type = (enum perf_message_type)get_within(&wire, 4, PERF_PARAMS, PERF_ALIVE);
    switch (message->type) {
    case PERF_PARAMS: get_plan(&wire, &message->u.plan); break;
    case PERF_ACCEPT: message->u.token = wire_get(&wire, 8); break;
    case PERF_REFUSE:
        wire_get_bytes(&wire, message->u.text, PERF_TEXT);
        message->u.text[PERF_TEXT - 1] = '\0';
        break;
    case PERF_RUN:
        message->u.run.size = (uint32_t)get_within(&wire, 4, 1, PERF_SIZE_MAX);
        message->u.run.iterations = wire_get(&wire, 8);
        message->u.run.duration_us = wire_get(&wire, 8);
        if (!message->u.run.iterations == !message->u.run.duration_us)
            wire.bad = true;
        break;
    case PERF_RESULT:
        message->u.result.good = get_within(&wire, 1, 0, 1);
        get_tally(&wire, &message->u.result.tally);
        break;
    default: break;
    }
    return !wire.bad;
}
