/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event dispatcher. An EVD of the DTO stream is a provider CQ; the others are bounded lists. All share the notifier.
 * The order of dequeuing is the order of arrival. A waiter that leaves with an event, or although it was woken, makes
 * another one look again, because the CQ fires once for all of them.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "notifier.h"

#include "base/clock.h"
#include "base/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define LIST_SIZE_MAX   (1u << 20)
#define SPINS_UNASKED   4u /* before a look at the affinity mask, which is a system call */
#define RESERVED_PER_EP 2u /* its last messages: ESTABLISHED, then DISCONNECTED or BROKEN */
#define TAKES_UNTOLD    8u /* with a descriptor, until the CQ is armed: more mean polling */

struct node {
    struct node *prev, *next;
    struct ual_event event; /* only as much of it as the stream has */
};

struct ual_evd {
    struct ual_object object;
    enum ual_stream stream;
    uint32_t size;
    atomic_uint bound;
    atomic_bool overflowed; /* once */
    struct spin_habit spin_habit;
    struct notifier notifier;
    struct ri_cq *cq;           /* DTO */
    struct spinlock queue_lock; /* others */
    struct node *queue;
    atomic_uint queued;
    struct ual_evd *prev, *next; /* of the IA */
};

static size_t event_bytes(enum ual_stream stream)
{
    switch (stream) {
    case UAL_STREAM_REQUEST:
        return offsetof(struct ual_event, request) + sizeof(struct ual_request_event);
    case UAL_STREAM_CONNECTION:
        return offsetof(struct ual_event, connection) + sizeof(struct ual_connection_event);
    case UAL_STREAM_AFFILIATED:
    case UAL_STREAM_UNAFFILIATED:
        return offsetof(struct ual_event, async) + sizeof(struct ual_async_event);
    default: return offsetof(struct ual_event, software) + sizeof(void *);
    }
}

/* --- looking --- */

static bool take_listed(struct ual_evd *evd, struct ual_event *event)
{
    struct node *node;

    if (!atomic_load_explicit(&evd->queued, memory_order_acquire))
        return false;
    spinlock_lock(&evd->queue_lock);
    node = evd->queue;
    if (node) {
        DL_DELETE(evd->queue, node);
        atomic_fetch_sub_explicit(&evd->queued, 1, memory_order_relaxed);
    }
    spinlock_unlock(&evd->queue_lock);
    if (!node)
        return false;
    memcpy(event, &node->event, event_bytes(evd->stream));
    free(node);
    return true;
}

/* Take the oldest event without running anything. */
static inline bool take(struct ual_evd *evd, struct ual_event *event)
{
    if (__builtin_expect(!evd->cq, 0))
        return take_listed(evd, event);
    if (!evd->cq->ops->poll(evd->cq, 1, &event->wc))
        return false;
    event->stream = UAL_STREAM_DTO;
    event->evd = evd->object.handle;
    return true;
}

static void arm(struct ual_evd *evd)
{
    if (evd->cq)
        evd->cq->ops->arm(evd->cq, RI_ARM_NEXT, 0);
}

/* Nothing there: make the descriptor speak again, then look once more. Of what came meanwhile more may be left than
 * the one event, with the descriptor down. */
static bool take_after_lowering(struct ual_evd *evd, struct ual_event *event)
{
    notifier_lower(&evd->notifier);
    arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    if (!take(evd, event))
        return false;
    notifier_raise_fd(&evd->notifier);
    return true;
}

static size_t count_left(struct ual_evd *evd)
{
    uint32_t total = 0, notify;

    if (!evd->cq)
        return atomic_load_explicit(&evd->queued, memory_order_relaxed);
    return evd->cq->ops->cq_peek(evd->cq, &total, &notify) == RI_OK ? total : 0;
}

/* What the own run brought did not raise the descriptor: it has to where something is left, or what comes next must. Also
 * where the CQ did not fire: who uses a descriptor does not poll, and what he posts is not held back for his next look. */
static void arm_again(struct ual_evd *evd)
{
    arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    if (count_left(evd))
        notifier_raise_fd(&evd->notifier);
}

/* A run whose events the caller takes at once, so that no system call tells of them. */
static bool poll_and_take(struct ual_evd *evd, struct ual_event *event, bool look)
{
    struct ual_lane *lane = evd->notifier.lane;
    bool mine = notifier_begin_taking(&evd->notifier);

    if (notifier_listens(&evd->notifier))
        ual_lane_poll_in_turn(lane, evd->cq, look);
    else
        ual_lane_poll(lane, evd->cq);
    if (mine)
        notifier_end_taking(&evd->notifier);
    if (!take(evd, event))
        return false; /* the caller arms */
    arm_again(evd);
    return true;
}

/* See notifier.h for what the descriptor promises. */
static enum ual_status dequeue_with_fd(struct ual_evd *evd, struct ual_event *event)
{
    struct notifier *notifier = &evd->notifier;

    if (poll_and_take(evd, event, false) ||
        (notifier_in_vain(notifier) && poll_and_take(evd, event, true)) ||
        take_after_lowering(evd, event)) {
        notifier_took(notifier);
        return UAL_OK;
    }
    notifier_found_nothing(notifier);
    return UAL_ERR_EMPTY;
}

/* A consumer that streams finds completions without polling, for long: it is as little in need of the background thread. */
static inline void note_take(struct ual_evd *evd)
{
    atomic_uint *takes = evd->notifier.takes;

    atomic_store_explicit(takes, atomic_load_explicit(takes, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* It was there. Who always finds what he comes for never arms, and would be taken for one who polls. */
static void take_with_fd(struct ual_evd *evd)
{
    if (notifier_took(&evd->notifier) % TAKES_UNTOLD == 0)
        arm(evd);
}

enum ual_status ual_evd_dequeue(struct ual_evd *evd, struct ual_event *event)
{
    if (take(evd, event)) {
        if (__builtin_expect(evd->notifier.fd >= 0, 0))
            take_with_fd(evd);
        else
            note_take(evd);
        return UAL_OK;
    }
    if (evd->notifier.fd >= 0)
        return dequeue_with_fd(evd, event);
    ual_lane_poll(evd->notifier.lane, evd->cq);
    return take(evd, event) ? UAL_OK : UAL_ERR_EMPTY;
}

/* --- waiting --- */

static bool passed(uint64_t deadline)
{
    return deadline != CLOCK_NEVER && clock_now() >= deadline;
}

/* Poll for a while before sleeping: a wake-up costs more than a short spin. What is done for others makes it longer: they go
 * on, and nobody else serves them. */
static bool spin(struct ual_evd *evd, uint64_t deadline, struct ual_event *event)
{
    struct ual_lane *lane = evd->notifier.lane;
    uint64_t spin_ns = ual_lane_spin_ns(lane), now, until;
    unsigned int rounds = 0;
    bool alone = false, useful = false;

    if (!spin_ns || !spin_habit_try(&evd->spin_habit))
        return false;
    arm(evd); /* tells the provider that this consumer waits: what he posts next is not held back for his next look */
    now = clock_now();
    until = clock_after(now, spin_habit_time(&evd->spin_habit, spin_ns));
    do {
        uint32_t pieces = ual_lane_poll(lane, evd->cq);

        if (take(evd, event)) {
            spin_habit_note(&evd->spin_habit, true);
            return true;
        }
        if (++rounds == SPINS_UNASKED)
            alone = cpus_in_mask() < 2;
        if (alone)
            sched_yield(); /* the peer may need this very core */
        now = clock_now();
        if (pieces)
            until = clock_after(now, spin_ns);
        useful |= pieces != 0;
    } while (now < until && now < deadline && !atomic_load(&evd->notifier.aborting));
    spin_habit_note(&evd->spin_habit, useful);
    return false;
}

/* Each round looks at the clock and at aborting: a lane that is busy for others never lets this thread sleep. */
static enum ual_status sleep_for_event(struct ual_evd *evd, struct ual_waiter *waiter,
                                       uint64_t deadline, struct ual_event *event)
{
    struct ual_lane *lane = evd->notifier.lane;

    for (;;) {
        bool armed;
        int rc = 0;

        ual_lane_wait_reset(waiter);
        arm(evd);
        armed = ual_lane_wait_arm(lane, waiter, evd->cq);
        if (take(evd, event))
            return UAL_OK;
        if (atomic_load(&evd->notifier.aborting)) /* after the reset: abort wakes once */
            return UAL_ERR_ABORTED;
        if (armed) {
            rc = ual_lane_wait_sleep(lane, waiter, evd->cq, deadline);
            if (take(evd, event))
                return UAL_OK;
            if (waiter->served && spin(evd, deadline, event)) /* others' work: more may follow */
                return UAL_OK;
        }
        if (rc == EINTR)
            return UAL_ERR_INTERRUPTED;
        if (passed(deadline))
            return UAL_ERR_TIMED_OUT;
    }
}

static enum ual_status sleep_until(struct ual_evd *evd, uint64_t deadline, struct ual_event *event)
{
    struct ual_waiter waiter;
    enum ual_status status;

    ual_lane_wait_begin(evd->notifier.lane, &waiter);
    notifier_add(&evd->notifier, &waiter);
    status = sleep_for_event(evd, &waiter, deadline, event);
    notifier_remove(&evd->notifier, &waiter, status == UAL_OK);
    ual_lane_wait_end(evd->notifier.lane, &waiter);
    return status;
}

/* Look, and if there is nothing become one of those inside, whom freeing waits for. *inside: the wait goes on. */
static enum ual_status begin_wait(struct ual_evd *evd, uint64_t timeout_us, struct ual_event *event,
                                  size_t *more, bool *inside)
{
    enum ual_status status = UAL_ERR_EMPTY;

    *inside = false;
    if (take(evd, event))
        status = UAL_OK;
    else if (timeout_us == 0)
        status = ual_evd_dequeue(evd, event);
    if (status == UAL_OK) {
        if (more)
            *more = count_left(evd);
        return UAL_OK;
    }
    if (timeout_us == 0)
        return UAL_ERR_TIMED_OUT;
    status = notifier_enter(&evd->notifier);
    *inside = status == UAL_OK;
    return status;
}

static enum ual_status go_on_waiting(struct ual_evd *evd, uint64_t timeout_us,
                                     struct ual_event *event, size_t *more)
{
    enum ual_status status = UAL_OK;
    uint64_t deadline = CLOCK_NEVER;

    if (timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        deadline = clock_after(clock_now(), timeout_us * CLOCK_NS_PER_US);
    if (!spin(evd, deadline, event))
        status = sleep_until(evd, deadline, event);
    if (status == UAL_OK && more)
        *more = count_left(evd);
    notifier_leave(&evd->notifier); /* from here on the EVD may be gone */
    return status;
}

enum ual_status ual_evd_wait(struct ual_evd *evd, uint64_t timeout_us, struct ual_event *event,
                             size_t *more)
{
    bool inside;
    enum ual_status status = begin_wait(evd, timeout_us, event, more, &inside);

    return inside ? go_on_waiting(evd, timeout_us, event, more) : status;
}

/*
 * Waits that begin: between finding the EVD by its handle and being counted inside it nothing else keeps the EVD alive. They
 * count themselves in the current one of two counters; who frees an EVD hides its handle, then twice makes the
 * other counter the current one and lets the old one run down. A wait that read the handle before is seen by one of
 * the two; new ones count elsewhere, so this ends.
 */
static atomic_uint beginning[2];
static atomic_uint current;
static pthread_mutex_t flip_lock = PTHREAD_MUTEX_INITIALIZER;

static void let_begun_waits_settle(void)
{
    pthread_mutex_lock(&flip_lock);
    for (int i = 0; i < 2; i++) {
        unsigned int old = atomic_fetch_add(&current, 1) & 1;

        while (atomic_load(&beginning[old]))
            sched_yield(); /* one look at the lane at most */
    }
    pthread_mutex_unlock(&flip_lock);
}

enum ual_status ual_evd_wait_on(ual_handle handle, uint64_t timeout_us, struct ual_event *event,
                                size_t *more)
{
    atomic_uint *counter = &beginning[atomic_load(&current) & 1];
    enum ual_status status;
    struct ual_evd *evd;
    bool inside = false;

    atomic_fetch_add(counter, 1);
    evd = ual_lookup(handle, UAL_EVD);
    status = evd ? begin_wait(evd, timeout_us, event, more, &inside) : ual_lookup_failed();
    atomic_fetch_sub(counter, 1);
    return inside ? go_on_waiting(evd, timeout_us, event, more) : status;
}

/* --- arrival --- */

static uint32_t capacity(const struct ual_evd *evd)
{
    if (evd->stream != UAL_STREAM_CONNECTION)
        return evd->size;
    return evd->size + RESERVED_PER_EP * atomic_load_explicit(&evd->bound, memory_order_relaxed);
}

bool ual_evd_push(struct ual_evd *evd, const struct ual_event *event)
{
    size_t bytes = event_bytes(evd->stream);
    struct node *node = malloc(offsetof(struct node, event) + bytes);
    bool fits;

    if (!node)
        return false;
    memcpy(&node->event, event, bytes);
    node->event.stream = evd->stream;
    node->event.evd = evd->object.handle;
    spinlock_lock(&evd->queue_lock);
    fits = atomic_load_explicit(&evd->queued, memory_order_relaxed) < capacity(evd);
    if (fits) {
        DL_APPEND(evd->queue, node);
        atomic_fetch_add_explicit(&evd->queued, 1, memory_order_release);
    }
    spinlock_unlock(&evd->queue_lock);
    if (!fits) {
        if (evd->stream != UAL_STREAM_SOFTWARE)
            atomic_store_explicit(&evd->overflowed, true, memory_order_relaxed);
        free(node);
        return false;
    }
    atomic_thread_fence(memory_order_seq_cst);
    notifier_raise(&evd->notifier);
    return true;
}

enum ual_status ual_evd_post(struct ual_evd *evd, void *data)
{
    struct ual_event event;

    if (evd->stream != UAL_STREAM_SOFTWARE)
        return UAL_ERR_INVALID_ARGUMENT;
    event.software = data;
    return ual_evd_push(evd, &event) ? UAL_OK : UAL_ERR_FULL;
}

static ual_handle source_of(const struct ual_evd *evd, const struct ual_event *event)
{
    return evd->stream == UAL_STREAM_CONNECTION ? event->connection.ep
           : evd->stream == UAL_STREAM_REQUEST  ? event->request.listen
                                                : event->async.cause;
}

void ual_evd_purge(struct ual_evd *evd, ual_handle source)
{
    struct node *node, *next, *purged = NULL;

    spinlock_lock(&evd->queue_lock);
    DL_FOREACH_SAFE (evd->queue, node, next) {
        if (source_of(evd, &node->event) != source)
            continue;
        DL_DELETE(evd->queue, node);
        atomic_fetch_sub_explicit(&evd->queued, 1, memory_order_relaxed);
        DL_APPEND(purged, node);
    }
    spinlock_unlock(&evd->queue_lock);
    DL_FOREACH_SAFE (purged, node, next)
        free(node);
}

void ual_evd_cq_fired(void *cq_context)
{
    struct ual_evd *evd = cq_context;

    notifier_raise(&evd->notifier);
}

void ual_evd_cq_error(void *cq_context, const struct ri_event *event)
{
    struct ual_evd *evd = cq_context;
    struct ual_ia *ia = evd->object.ia;
    struct ual_event report = { .async = { .type = event->type, .cause = evd->object.handle } };

    atomic_store_explicit(&evd->overflowed, true, memory_order_relaxed);
    kal_log(RI_LOG_ERROR,
            "a DTO EVD of %u events overflowed; make it as large as all work that its "
            "endpoints may have outstanding",
            evd->size);
    pthread_mutex_lock(&ia->lock);
    if (ia->affiliated)
        ual_evd_push(ia->affiliated, &report);
    pthread_mutex_unlock(&ia->lock);
}

/* --- life --- */

void ual_evd_bind(struct ual_evd *evd)
{
    atomic_fetch_add(&evd->bound, 1);
}

void ual_evd_unbind(struct ual_evd *evd)
{
    atomic_fetch_sub(&evd->bound, 1);
}

bool ual_evd_bound(const struct ual_evd *evd)
{
    return evd->stream == UAL_STREAM_AFFILIATED || evd->stream == UAL_STREAM_UNAFFILIATED ||
           atomic_load_explicit(&evd->bound, memory_order_relaxed);
}

bool ual_evd_overflowed(const struct ual_evd *evd)
{
    return atomic_load_explicit(&evd->overflowed, memory_order_relaxed);
}

struct ri_cq *ual_evd_cq(struct ual_evd *evd)
{
    return evd->cq;
}

int ual_evd_fd(const struct ual_evd *evd)
{
    return evd->notifier.fd;
}

enum ual_stream ual_evd_stream(const struct ual_evd *evd)
{
    return evd->stream;
}

uint32_t ual_evd_size(const struct ual_evd *evd)
{
    return evd->size;
}

void ual_evd_abort(struct ual_evd *evd)
{
    notifier_abort(&evd->notifier);
}

static enum ual_status open_cq(struct ual_evd *evd)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = evd->size, .context = evd };
    enum ual_status status = ual_status_of_kal(
        kal_cq_create(evd->object.ia->rnic, &attr, &evd->cq));

    if (status == UAL_OK)
        evd->size = attr.depth;
    return status;
}

/* The IA has at most one EVD of each asynchronous stream. Under ia->lock. */
static struct ual_evd **async_place(struct ual_ia *ia, enum ual_stream stream)
{
    return stream == UAL_STREAM_AFFILIATED     ? &ia->affiliated
           : stream == UAL_STREAM_UNAFFILIATED ? &ia->unaffiliated
                                               : NULL;
}

static enum ual_status enlist(struct ual_evd *evd)
{
    struct ual_ia *ia = evd->object.ia;
    struct ual_evd **place = async_place(ia, evd->stream);
    enum ual_status status = UAL_OK;

    pthread_mutex_lock(&ia->lock);
    if (place && *place)
        status = UAL_ERR_EXISTS;
    else if (place)
        *place = evd;
    if (status == UAL_OK)
        DL_APPEND(ia->evds, evd);
    pthread_mutex_unlock(&ia->lock);
    return status;
}

static void delist(struct ual_evd *evd)
{
    struct ual_ia *ia = evd->object.ia;
    struct ual_evd **place = async_place(ia, evd->stream);

    pthread_mutex_lock(&ia->lock);
    if (place)
        *place = NULL;
    DL_DELETE(ia->evds, evd);
    pthread_mutex_unlock(&ia->lock);
}

static enum ual_status check_attr(struct ual_ia *ia, const struct ual_evd_attr *attr)
{
    if (attr->stream == UAL_STREAM_NOTIFICATION || attr->aggregate || attr->threshold > 1 ||
        (attr->flags & ~UAL_EVD_FD))
        return UAL_ERR_NOT_SUPPORTED;
    if (attr->size == 0)
        return UAL_ERR_INVALID_ARGUMENT;
    if (attr->stream == UAL_STREAM_DTO ? attr->size > ual_ia_attr(ia)->max_cqe
                                       : attr->size > LIST_SIZE_MAX)
        return UAL_ERR_LIMIT;
    return UAL_OK;
}

enum ual_status ual_evd_create(struct ual_ia *ia, const struct ual_evd_attr *attr,
                               struct ual_evd **out)
{
    enum ual_status status = check_attr(ia, attr);
    struct ual_evd *evd;

    if (status != UAL_OK)
        return status;
    evd = calloc(1, sizeof(*evd));
    if (!evd)
        return UAL_ERR_NO_RESOURCES;
    evd->stream = attr->stream;
    evd->size = attr->size;
    status = notifier_open(&evd->notifier, ia->lane, attr->flags & UAL_EVD_FD);
    if (status != UAL_OK)
        goto free_evd;
    evd->object.ia = ia;
    if (attr->stream == UAL_STREAM_DTO)
        status = open_cq(evd);
    if (status != UAL_OK)
        goto close_notifier;
    status = ual_handle_take(&evd->object, UAL_EVD, ia);
    if (status != UAL_OK)
        goto destroy_cq;
    status = enlist(evd);
    if (status != UAL_OK)
        goto drop_handle;
    if (evd->notifier.fd >= 0)
        arm(evd);
    *out = evd;
    return UAL_OK;
drop_handle:
    ual_handle_drop(&evd->object);
destroy_cq:
    if (evd->cq)
        kal_cq_destroy(ia->rnic, evd->cq);
close_notifier:
    notifier_close(&evd->notifier);
free_evd:
    free(evd);
    return status;
}

/* Who found the EVD before its handle was hidden leaves with UAL_ERR_ABORTED. */
enum ual_status ual_evd_free(struct ual_evd *evd)
{
    struct ual_ia *ia = evd->object.ia;
    enum ual_status status = UAL_OK;
    struct node *node, *next;

    if (atomic_load(&evd->bound) || notifier_waited_on(&evd->notifier))
        return UAL_ERR_BUSY;
    ual_handle_hide(&evd->object);
    let_begun_waits_settle();
    notifier_abort(&evd->notifier);
    if (evd->cq)
        status = ual_status_of_kal(kal_cq_destroy(ia->rnic, evd->cq));
    if (status != UAL_OK) {
        notifier_reopen(&evd->notifier);
        ual_handle_show(&evd->object);
        return status;
    }
    ual_handle_drop(&evd->object);
    delist(evd);
    notifier_close(&evd->notifier);
    DL_FOREACH_SAFE (evd->queue, node, next)
        free(node);
    free(evd);
    return UAL_OK;
}
