/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: the latency tests.
 *
 *   send, write with a Send: one message there, one back; what has to be done for the next message
 *       (its Receive) is done while the peer is at work.
 *   write: the last byte of the target counts 1 to 254; whoever sees the next number answers with
 *       it. 255 is the last message of a run. Endpoints take turns, on both sides the same.
 *   read: the completion of one RDMA Read after the other; the server's program takes no part. With
 *       --target nap it polls for a while, says so, stops calling, and the Read comes then.
 */
#include "itperf.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "tools/common/tool.h"

#define LAST_MARK  255u
#define PURE_LOOKS (1u << 24) /* looks at memory, many milliseconds, before the library is asked */
#define LOOKS      (1u << 16)
#define POLLING_NS 1000000u /* --target nap: polls for so long, */
#define NAP_MS     5        /* then sleeps */

static void take_time(struct perf_worker *worker, uint64_t time)
{
    histogram_add(&worker->times, time);
    if (worker->samples && worker->samples_count < worker->samples_room)
        worker->samples[worker->samples_count++] = time < UINT32_MAX ? (uint32_t)time : UINT32_MAX;
}

/* --idle: makes no call for that time. false: stopped. */
static bool idle(const struct perf_worker *worker)
{
    uint64_t left = worker->session->idle_us;
    struct timespec pause;

    if (!left)
        return true;
    pause.tv_sec = (time_t)(left / 1000000);
    pause.tv_nsec = (long)(left % 1000000) * 1000;
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) == EINTR)
        if (atomic_load(&tool_stop))
            return false;
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint8_t *mark_of(const struct perf_worker *worker, uint32_t index)
{
    return (uint8_t *)worker->group->target.memory + index * worker->group->place +
           worker->run.size - 1;
}

static void set_mark(const struct perf_worker *worker, uint8_t mark)
{
    ((uint8_t *)worker->group->source.memory)[worker->run.size - 1] = mark;
}

/* Waits until the byte is mark or LAST_MARK; *seen: which. */
static bool await_mark(struct perf_worker *worker, uint32_t index, uint8_t mark, uint8_t *seen)
{
    const uint8_t *at = mark_of(worker, index);
    bool pure = worker->session->plan.pure_memory;
    uint64_t limit = 0;

    for (unsigned looks = 1;; looks++) {
        *seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (*seen == mark || *seen == LAST_MARK)
            return true;
        if (!pure && !perf_poll(worker))
            return false;
        if (looks % (pure ? PURE_LOOKS : LOOKS))
            continue;
        if (!perf_alive(worker, &limit) || (pure && !perf_poll(worker)))
            return false;
    }
}

/*
 * Makes room for one more request. A worker that never polls takes the completions here. In the
 * sleeping modes it sleeps: a peer that does not read makes it wait for long.
 */
static bool make_room(struct perf_worker *worker, const struct perf_ep *ep)
{
    while (ep->outstanding >= worker->session->plan.tx_depth)
        if (!perf_step(worker))
            return false;
    return true;
}

static bool write_mark(struct perf_worker *worker, uint32_t index, uint8_t mark)
{
    struct perf_ep *ep = &worker->group->eps[index];

    set_mark(worker, mark);
    return make_room(worker, ep) && perf_post_data(worker, ep, false);
}

/* The n-th message of an Endpoint. */
static uint8_t number_of(uint64_t turn)
{
    return (uint8_t)(turn % (LAST_MARK - 1) + 1);
}

static bool pong_marks(struct perf_worker *worker)
{
    uint32_t active = worker->group->active;
    uint8_t seen;

    for (uint64_t i = 0;; i++) {
        uint32_t index = (uint32_t)(i % active);

        if (!await_mark(worker, index, number_of(i / active), &seen) ||
            !write_mark(worker, index, seen))
            return false;
        if (seen == LAST_MARK)
            return true;
    }
}

/* ---- a target that stops polling ------------------------------------------------------------- */

static bool await_note(struct perf_worker *worker)
{
    while (!worker->noted)
        if (!perf_step(worker))
            return false;
    return true;
}

/* Polls; the library sees a polling consumer. */
static bool poll_for(struct perf_worker *worker, uint64_t nanoseconds)
{
    uint64_t end = tool_now() + nanoseconds, limit = 0;

    while (tool_now() < end)
        if (!perf_poll(worker))
            return false;
    return perf_alive(worker, &limit);
}

/*
 * Naps until the client has finished. The last call before the sleep sees that the note was sent;
 * the library does not know of the sleep. The client's note requests the next one.
 */
static bool nap(struct perf_worker *worker)
{
    uint64_t limit = 0;

    while (!worker->fins_seen) {
        if (!poll_for(worker, POLLING_NS))
            return false;
        worker->noted = false;
        if (!perf_post_control(worker, &worker->group->eps[0], PERF_NOTE))
            return false;
        while (worker->control_posted)
            if (!perf_poll(worker) || !perf_alive(worker, &limit))
                return false;
        poll(NULL, 0, NAP_MS);
        while (!worker->noted && !worker->fins_seen)
            if (!perf_step(worker))
                return false;
    }
    return true;
}

/* Client: the Read is done, or the last one. */
static bool ask_for_nap(struct perf_worker *worker, bool last)
{
    worker->noted = false;
    return last || perf_post_control(worker, &worker->group->eps[0], PERF_NOTE);
}

/* ---- one round trip -------------------------------------------------------------------------- */

static bool message_round(struct perf_worker *worker, struct perf_ep *ep)
{
    if (!make_room(worker, ep) || !perf_post_data(worker, ep, false) || !perf_refill(worker))
        return false;
    while (!worker->answered)
        if (!perf_step(worker))
            return false;
    return worker->answered == ep || perf_lost(worker, "the answer arrived on another endpoint");
}

static bool read_round(struct perf_worker *worker, struct perf_ep *ep)
{
    uint64_t before = worker->sent;

    if (!perf_post_data(worker, ep, false))
        return false;
    while (worker->sent == before)
        if (!perf_step(worker))
            return false;
    return true;
}

static bool round_trip(struct perf_worker *worker, uint64_t turn, bool last)
{
    const struct perf_plan *plan = &worker->session->plan;
    uint32_t active = worker->group->active, index = (uint32_t)(turn % active);
    uint8_t mark = last ? LAST_MARK : number_of(turn / active), seen;

    if (plan->op == PERF_READ)
        return read_round(worker, &worker->group->eps[index]);
    if (plan->op == PERF_SEND || plan->write_send)
        return message_round(worker, &worker->group->eps[index]);
    return write_mark(worker, index, mark) && await_mark(worker, index, mark, &seen);
}

bool perf_lat_client(struct perf_worker *worker)
{
    uint64_t rounds = worker->run.iterations * worker->group->active, start, time, end = 0;
    const struct perf_plan *plan = &worker->session->plan;
    uint32_t active = worker->group->active;
    bool last = false;

    for (uint64_t i = 0; !last; i++) {
        last = rounds ? i + 1 == rounds : end >= worker->stop_at;
        if ((plan->target == PERF_NAP && !await_note(worker)) || !idle(worker))
            return false;
        start = tool_now();
        if (plan->pair ? !perf_pair_round(worker, &worker->group->eps[i % active], &time)
                       : !round_trip(worker, i, last))
            return false;
        end = tool_now();
        take_time(worker, plan->pair ? time : end - start);
        if (plan->target == PERF_NAP && !ask_for_nap(worker, last))
            return false;
        if (i % 64 == 0)
            atomic_store_explicit(&worker->shown, i, memory_order_relaxed);
    }
    return perf_refill(worker) && perf_finish(worker);
}

bool perf_lat_server(struct perf_worker *worker)
{
    const struct perf_plan *plan = &worker->session->plan;

    if (perf_polls_memory(plan) && !pong_marks(worker))
        return false;
    if (plan->target == PERF_NAP && !nap(worker))
        return false;
    /* The client's FIN is the end; before it every message is answered. */
    while (!worker->fins_seen) {
        if (!perf_step(worker))
            return false;
        if (!worker->answered)
            continue;
        if (!make_room(worker, worker->answered))
            return false;
        if (plan->pair)
            perf_pair_answer(worker);
        if (!perf_post_data(worker, worker->answered, false) || !perf_refill(worker))
            return false;
    }
    return perf_finish(worker);
}
