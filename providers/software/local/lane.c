/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which QPs a pass looks at, and who wakes whom. See local.h.
 *
 * The hot QPs are listed under lane->lock. A pass works on its own copy, and copies again when
 * `version` has changed. A QP that leaves the list may be in the copy of the pass under way: it is
 * not freed before that has ended, and without memory it is passed over.
 */
#include "local.h"

#include "wire_local.h"

#include <stdlib.h>

#define FEW         4u
#define IDLE_FEW    4096u /* passes that find nothing before a QP is cool, if few are hot */
#define IDLE_MANY   64u
#define LOOK_BUDGET 64u
#define REST        (200 * CLOCK_NS_PER_MS)

/* --- hot and cool --- */

enum ri_status local_lane_open(struct lane *lane)
{
    lane->parts[WIRE_LOCAL] = calloc(1, sizeof(struct local_lane));
    return lane->parts[WIRE_LOCAL] ? RI_OK : RI_ERR_NO_RESOURCES;
}

void local_lane_close(struct lane *lane)
{
    contract(!local_lane(lane)->count); /* there is no QP any more */
    free(local_lane(lane)->hot);
    free(local_lane(lane)->served);
    free(lane->parts[WIRE_LOCAL]);
    lane->parts[WIRE_LOCAL] = NULL;
}

/* Both arrays, of which the pass uses one: this is the pass's run. Under the lock. */
static bool make_room(struct local_lane *own)
{
    uint32_t room = own->room ? 2 * own->room : 16;
    struct local_qp **hot, **served;

    if (own->count < own->room)
        return true;
    hot = realloc(own->hot, room * sizeof(struct local_qp *));
    own->hot = hot ? hot : own->hot;
    served = realloc(own->served, room * sizeof(struct local_qp *));
    own->served = served ? served : own->served;
    if (hot && served)
        own->room = room;
    return hot && served;
}

void local_heat(struct local_qp *qp)
{
    struct lane *lane = qp->core->lane;
    struct local_lane *own = local_lane(lane);
    bool listed;

    spinlock_lock(&lane->lock);
    if (!qp->hot && !qp->hidden && make_room(own)) {
        own->hot[own->count++] = qp;
        qp->hot = true;
        qp->idle = 0;
        atomic_fetch_add_explicit(&own->version, 1, memory_order_relaxed);
    }
    listed = qp->hot || qp->hidden;
    spinlock_unlock(&lane->lock);
    if (!listed) /* no memory: the next pass looks once */
        tx_defer_to_lane(qp->core);
}

/* Under the lock. */
static void unlist(struct local_lane *own, struct local_qp *qp)
{
    uint32_t at = 0;

    if (!qp->hot)
        return;
    while (own->hot[at] != qp)
        at++;
    own->hot[at] = own->hot[--own->count];
    qp->hot = false;
    atomic_fetch_add_explicit(&own->version, 1, memory_order_relaxed);
}

void local_cool(struct local_qp *qp)
{
    struct lane *lane = qp->core->lane;

    spinlock_lock(&lane->lock);
    unlist(local_lane(lane), qp);
    qp->hidden = true;
    spinlock_unlock(&lane->lock);
}

/* --- the rest of rings that are in use: see idle.c --- */

void local_set_rest(struct local_qp *qp)
{
    const struct ri_host *host = qp->core->rnic->host;

    local_assert_rx(qp);
    qp->rest_timer.deadline = clock_after(clock_now(), REST);
    host->timer_set(host, qp->core->lane->base.context, &qp->rest_timer);
}

void local_begin_rest(struct local_qp *qp)
{
    local_assert_rx(qp);
    qp->resting = true;
    qp->moved = 0;
    qp->awaited = 0;
    local_set_rest(qp);
}

/* --- falling asleep --- */

/* Has a message that was half published, or a later one, room by now? Or does the peer want the
 * octets of one that was published by reference? */
static inline bool has_room(const struct local_qp *qp)
{
    return (wq_pending(&qp->core->sq) || atomic_load_explicit(&qp->refers, memory_order_relaxed)) &&
           atomic_load_explicit(&qp->peer->consumed, memory_order_acquire) != qp->consumed_seen;
}

static bool has_start(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->awaits_start, memory_order_relaxed) &&
           atomic_load(&qp->peer->started);
}

/* Would a look find something? Under rx. */
static bool has_work(const struct local_qp *qp)
{
    local_assert_rx(qp);
    switch (qp_state(qp->core)) {
    case RI_QPS_RTS:
        return local_has_request(qp) || local_has_answer(qp) || has_room(qp) || has_start(qp) ||
               local_has_end(qp);
    case RI_QPS_CLOSING: return local_has_end(qp);
    default: return false;
    }
}

/* True: the peer wakes this side from now on. Under rx. */
static bool tell_asleep(struct local_qp *qp, enum local_sleep how)
{
    bool asleep;

    if (local_owes_progress(qp) && qp_state(qp->core) == RI_QPS_RTS)
        local_tell_progress(qp);
    atomic_store(&qp->own->asleep, how);
    atomic_thread_fence(memory_order_seq_cst);
    asleep = !has_work(qp);
    if (!asleep)
        atomic_store(&qp->own->asleep, LOCAL_AWAKE);
    return asleep;
}

static bool fall_asleep(struct local_qp *qp, enum local_sleep how)
{
    bool asleep;

    if (!spinlock_try(&qp->rx))
        return false;
    asleep = !qp->memory || tell_asleep(qp, how);
    spinlock_unlock(&qp->rx);
    return asleep;
}

void local_stay_awake(struct local_qp *qp)
{
    struct lane *lane = qp->core->lane;
    bool hot;

    lane_assert_run(lane);
    spinlock_lock(&lane->lock);
    hot = qp->hot;
    spinlock_unlock(&lane->lock);
    if (!hot && !fall_asleep(qp, LOCAL_COOL))
        local_heat(qp);
}

bool local_cool_down(struct local_qp *qp)
{
    struct lane *lane = qp->core->lane;

    local_assert_rx(qp);
    lane_assert_run(lane);
    if (!tell_asleep(qp, LOCAL_COOL))
        return false;
    spinlock_lock(&lane->lock);
    unlist(local_lane(lane), qp);
    spinlock_unlock(&lane->lock);
    return true;
}

bool local_is_idle(const struct lane *lane)
{
    struct local_lane *own = local_lane(lane);

    spinlock_assert_held(&lane->lock);
    atomic_store_explicit(&own->all_asleep, true, memory_order_relaxed);
    for (uint32_t i = 0; i < own->count; i++)
        if (!fall_asleep(own->hot[i], LOCAL_ASLEEP))
            return false;
    return true;
}

/* --- a pass --- */

static void copy_hot(struct lane *lane)
{
    struct local_lane *own = local_lane(lane);

    spinlock_lock(&lane->lock);
    for (uint32_t i = 0; i < own->count; i++)
        own->served[i] = own->hot[i];
    own->served_count = own->count;
    own->served_version = atomic_load_explicit(&own->version, memory_order_relaxed);
    spinlock_unlock(&lane->lock);
}

/* This lane looks again. */
static void wake_all(struct local_lane *own)
{
    atomic_store_explicit(&own->all_asleep, false, memory_order_relaxed);
    for (uint32_t i = 0; i < own->served_count; i++) {
        struct local_qp *qp = own->served[i];

        if (!spinlock_try(&qp->rx))
            continue; /* the peer wakes it once more */
        if (qp->memory)
            atomic_store_explicit(&qp->own->asleep, LOCAL_AWAKE, memory_order_relaxed);
        spinlock_unlock(&qp->rx);
    }
}

static void note_idle(struct lane *lane, struct local_qp *qp)
{
    if (++qp->idle < (local_lane(lane)->served_count <= FEW ? IDLE_FEW : IDLE_MANY))
        return;
    qp->idle = 0;
    if (!fall_asleep(qp, LOCAL_COOL))
        return;
    spinlock_lock(&lane->lock);
    unlist(local_lane(lane), qp);
    spinlock_unlock(&lane->lock);
}

uint32_t local_serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    struct local_lane *own = local_lane(lane);
    uint32_t work_done = 0;

    lane_assert_run(lane);
    if (unlikely(atomic_load_explicit(&own->version, memory_order_relaxed) != own->served_version))
        copy_hot(lane);
    if (unlikely(atomic_load_explicit(&own->all_asleep, memory_order_relaxed)))
        wake_all(own);
    for (uint32_t i = 0; i < own->served_count && work_done < budget; i++) {
        struct local_qp *qp = own->served[i];
        uint32_t done = local_look(qp, budget < LOOK_BUDGET ? budget : LOOK_BUDGET,
                                   first &&
                                       (first == qp->core->recv_cq || first == qp->core->send_cq));

        work_done += done;
        if (done)
            qp->idle = 0;
        else
            note_idle(lane, qp);
    }
    return work_done;
}

/* --- one QP --- */

/* Before the consumer can see a message of the peer. Under rx, which is released meanwhile. */
static void tell_start(struct local_qp *qp)
{
    if (!atomic_load(&qp->peer->started) || !atomic_exchange(&qp->awaits_start, false))
        return;
    qp_record_established(qp->core);
    spinlock_unlock(&qp->rx);
    qp_report_established(qp->core);
    spinlock_lock(&qp->rx);
}

/* The peer has taken something out of the ring since the last look. */
static bool has_made_room(struct local_qp *qp)
{
    uint64_t consumed = atomic_load_explicit(&qp->peer->consumed, memory_order_acquire);
    bool more = consumed != qp->consumed_seen;

    qp->consumed_seen = consumed;
    return more;
}

/* The peer has said nothing of an end, and nobody else has. Else local_has_end() judges. */
static inline bool has_no_end(const struct local_qp *qp)
{
    return !atomic_load_explicit(&qp->peer->ended, memory_order_relaxed) &&
           !atomic_load_explicit(&qp->witnessed, memory_order_relaxed) &&
           !atomic_load_explicit(&qp->close_over, memory_order_relaxed);
}

/* In RTS, and a look would find nothing to do. A message that waits is looked at. Under rx. */
static inline bool is_quiet(const struct local_qp *qp)
{
    return !local_has_record(qp) && !local_has_answer(qp) && !has_room(qp) && has_no_end(qp) &&
           !qp->waiting && !local_owes_progress(qp) && !own_has_unquiet(&qp->requests) &&
           !atomic_load_explicit(&qp->awaits_start, memory_order_relaxed);
}

/* What a look has done. */
struct looked {
    uint32_t done;       /* messages taken, or completions */
    bool sent, received; /* requests of the queue are finished */
    bool go_on;          /* tx may have something to do */
};

/* In RTS: what the peer says of the own requests, then its own. */
static inline uint32_t take_all(struct local_qp *qp, uint32_t budget, bool answers_soon,
                                bool *go_on)
{
    struct qp *core = qp->core;
    uint32_t done = 0;

    if (unlikely(atomic_load_explicit(&qp->awaits_start, memory_order_relaxed)))
        tell_start(qp);
    if (unlikely(local_owes_progress(qp)))
        local_tell_progress(qp);
    if (unlikely(own_has_unquiet(&qp->requests)))
        *go_on = own_make_quiet(core, &qp->requests);
    if (local_has_answer(qp))
        done = local_take_answers(qp);
    *go_on |= has_made_room(qp);
    if (likely(qp_state(core) == RI_QPS_RTS))
        done += local_execute(qp, budget, answers_soon);
    return done;
}

/* Under rx. */
static inline void look(struct local_qp *qp, uint32_t budget, bool answers_soon,
                        struct looked *looked)
{
    struct qp *core = qp->core;
    const uint32_t executed = qp->executed,
                   received = atomic_load_explicit(&core->rq.next, memory_order_relaxed);
    const bool gone = atomic_load_explicit(&qp->gone, memory_order_relaxed);

    *looked = (struct looked){ 0 };
    if (!qp->memory || (qp_state(core) == RI_QPS_RTS && is_quiet(qp)))
        return;
    if (qp_state(core) == RI_QPS_RTS)
        looked->done = take_all(qp, budget, answers_soon, &looked->go_on);
    if (qp->executed != executed) {
        looked->done += !looked->done; /* told by a message that waits itself */
        looked->go_on = true;
    }
    if (looked->done && unlikely(!qp->resting) && qp_state(core) == RI_QPS_RTS)
        local_begin_rest(qp);
    if (unlikely(!has_no_end(qp))) {
        if (qp_state(core) == RI_QPS_RTS && local_has_end(qp))
            local_note_end(qp);
        looked->go_on |= qp_state(core) == RI_QPS_CLOSING && local_has_end(qp);
    }
    looked->go_on |= gone != atomic_load_explicit(&qp->gone, memory_order_relaxed);
    looked->sent = qp->executed != executed;
    looked->received = atomic_load_explicit(&core->rq.next, memory_order_relaxed) != received;
}

/* Who finishes a request retires it. */
static inline void retire(struct qp *core, const struct looked *looked)
{
    if (looked->sent && wq_may_retire(&core->sq) && !qp_retire_answered(core))
        qp_retire(core, &core->sq);
    if (looked->received && wq_may_retire(&core->rq) && (core->srq || !qp_retire_received(core)))
        qp_retire(core, &core->rq);
}

/* Something that tx does by InfiniBand's rules. */
static bool has_rules_due(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->gone, memory_order_relaxed) ||
           atomic_load_explicit(&qp->suspended, memory_order_relaxed);
}

static void report_first(struct local_qp *qp)
{
    if (atomic_load(&qp->done) && atomic_exchange(&qp->unheard, false))
        qp->rules->heard(qp->core);
}

uint32_t local_look(struct local_qp *qp, uint32_t budget, bool answers_soon)
{
    struct qp *core = qp->core;
    struct looked looked;

    if (!spinlock_try(&qp->rx))
        return 0;
    look(qp, budget, answers_soon, &looked);
    spinlock_unlock(&qp->rx);
    if (looked.done) {
        retire(core, &looked);
        if (unlikely(atomic_load_explicit(&qp->unheard, memory_order_relaxed)))
            report_first(qp);
    }
    if (looked.go_on) {
        atomic_thread_fence(memory_order_seq_cst); /* as in publish.c */
        if (wq_pending(&core->sq) || qp_state(core) != RI_QPS_RTS ||
            atomic_load_explicit(&qp->refers, memory_order_relaxed) || has_rules_due(qp))
            tx_run(core);
    }
    qp_deliver(core);
    return looked.done;
}
