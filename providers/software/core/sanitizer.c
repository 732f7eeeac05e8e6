/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the program's sanitizer is told: see sanitizer.h. The names of the functions by which
 * ThreadSanitizer is told of an access begin its report, so they say what happened.
 */
#include "sanitizer.h"

#include "base/sanitizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum direction { IN, OUT, DIRECTIONS };

struct qp_watch {
    /* IN: under rx; OUT: inside tx. */
    void *fibers[DIRECTIONS];
    /* Of these only the addresses matter. */
    char sends, receives;
};

#ifdef SANITIZER_IS_OURS
bool sanitizer_present(void)
{
    return false;
}
struct qp_watch *sanitizer_open(const struct rnic *rnic, uint32_t qpn)
{
    (void)rnic, (void)qpn;
    return NULL;
}
void sanitizer_close(struct qp_watch *watch)
{
    free(watch);
}
void sanitizer_before(const struct qp *qp, uint32_t stag, const uint8_t *at, uint32_t octets,
                      enum memory_use use)
{
    (void)qp, (void)stag, (void)at, (void)octets, (void)use;
}
void sanitizer_behind(const struct qp *qp, const uint8_t *at, uint32_t octets, enum memory_use use)
{
    (void)qp, (void)at, (void)octets, (void)use;
}
void sanitizer_place(const struct qp *qp, uint8_t *to, const void *from, uint32_t octets,
                     enum memory_use use)
{
    (void)qp, (void)use;
    memcpy(to, from, octets);
}
void sanitizer_check_payload(const struct qp *qp, const struct ri_send_wr *wr)
{
    (void)qp, (void)wr;
}
void sanitizer_posted_send(const struct qp *qp)
{
    (void)qp;
}
void sanitizer_posted_receive(const struct qp *qp)
{
    (void)qp;
}
void sanitizer_posted_shared(const struct srq *srq)
{
    (void)srq;
}
void sanitizer_taken(const struct cq *cq, uint32_t count)
{
    (void)cq, (void)count;
}
void sanitizer_seen(struct rnic *rnic)
{
    (void)rnic;
}
void sanitizer_left(struct rnic *rnic)
{
    (void)rnic;
}
#else

#define NO_SYNC               1u /* __tsan_switch_to_fiber_no_sync */

static atomic_uint fibers_made;

bool sanitizer_present(void)
{
    return __asan_region_is_poisoned || __tsan_create_fiber || __msan_unpoison;
}

static bool sees_races(void)
{
    return __tsan_create_fiber != NULL;
}

/* --- fibers --- */

static bool reserve_fibers(const struct rnic *rnic)
{
    static atomic_bool said;

    if (atomic_fetch_add(&fibers_made, DIRECTIONS) + DIRECTIONS <= FIBERS_MOST)
        return true;
    atomic_fetch_sub(&fibers_made, DIRECTIONS);
    if (!atomic_exchange(&said, true))
        ri_log(
            rnic->host, RI_LOG_WARNING,
            "ThreadSanitizer is told of the accesses of %u queue pairs at the same time, and not "
            "of those of further ones",
            FIBERS_MOST / DIRECTIONS);
    return false;
}

static void *make_fiber(uint32_t qpn, enum direction direction)
{
    void *fiber = __tsan_create_fiber(0);
    char name[48];

    snprintf(name, sizeof(name), "ital: QP %u %s its peer", qpn,
             direction == IN ? "receives from" : "sends to");
    __tsan_set_fiber_name(fiber, name);
    return fiber;
}

/* Not at the first access: what the thread that makes a fiber did before is known to it. */
struct qp_watch *sanitizer_open(const struct rnic *rnic, uint32_t qpn)
{
    struct qp_watch *watch = NULL;

    if (!sees_races() || !reserve_fibers(rnic))
        return NULL;
    watch = calloc(1, sizeof(*watch));
    if (!watch) {
        atomic_fetch_sub(&fibers_made, DIRECTIONS);
        return NULL;
    }
    watch->fibers[IN] = make_fiber(qpn, IN);
    watch->fibers[OUT] = make_fiber(qpn, OUT);
    return watch;
}

void sanitizer_close(struct qp_watch *watch)
{
    if (!watch)
        return;
    __tsan_destroy_fiber(watch->fibers[IN]);
    __tsan_destroy_fiber(watch->fibers[OUT]);
    atomic_fetch_sub(&fibers_made, DIRECTIONS);
    free(watch);
}

static enum direction direction_of(enum memory_use use)
{
    return use == USE_PAYLOAD || use == USE_REMOTE_READ ? OUT : IN;
}

/* The fiber that makes an access; NULL: it is not to be seen. A peer's atomic is executed when it
 * is answered, inside tx, so it is not an access of either fiber. */
static void *fiber_of(const struct qp *qp, enum memory_use use)
{
    const bool remote = use == USE_REMOTE_WRITE || use == USE_REMOTE_READ;

    if (!qp->watch || (remote && qp->rnic->options.sanitizers != SANITIZER_ALL))
        return NULL;
    return qp->watch->fibers[direction_of(use)];
}

/* What was released before the request that the access belongs to was posted. */
static void *origin(const struct qp *qp, enum memory_use use)
{
    switch (use) {
    case USE_RECEIVE: return qp->srq ? (void *)qp->srq : &qp->watch->receives;
    case USE_SINK:
    case USE_PAYLOAD: return &qp->watch->sends;
    default: return &qp->rnic->options;
    }
}

/* The slot of that request; NULL: there is none. */
static struct wqe *slot(const struct qp *qp, enum memory_use use)
{
    switch (use) {
    case USE_RECEIVE:
        return wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.next, memory_order_relaxed));
    case USE_SINK: return wq_slot(&qp->sq, qp_wire(qp)->answered_request(qp));
    case USE_PAYLOAD:
        return wq_slot(&qp->sq, atomic_load_explicit(&qp->sq.next, memory_order_relaxed));
    default: return NULL;
    }
}

/* The thread goes on as the fiber. Returns what leave_fiber() needs. */
static void *enter_fiber(const struct qp *qp, void *fiber, enum memory_use use)
{
    void *thread = __tsan_get_current_fiber();

    __tsan_switch_to_fiber(fiber, NO_SYNC);
    __tsan_acquire(origin(qp, use));
    return thread;
}

static void leave_fiber(const struct qp *qp, void *thread, enum memory_use use)
{
    struct wqe *wqe = slot(qp, use);

    if (wqe)
        __tsan_release(wqe);
    __tsan_release(qp->rnic);
    __tsan_switch_to_fiber(thread, NO_SYNC);
}

/* --- accesses, as ThreadSanitizer is told of them --- */

/* A runtime without the functions for ranges (Clang's) sees those of libc. It reads all octets of
 * two equal ranges. By pointers, because the compiler knows what the functions do. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static int (*volatile compare)(const void *, const void *, size_t) = memcmp;

static inline __attribute__((always_inline)) void report_write(uint8_t *to, const void *from,
                                                               uint32_t octets)
{
    if (__tsan_write_range)
        __tsan_write_range(to, octets);
    else
        copy(to, from, octets);
}

static inline __attribute__((always_inline)) void report_read(const uint8_t *at, uint32_t octets)
{
    if (__tsan_read_range)
        __tsan_read_range((void *)(uintptr_t)at, octets);
    else
        compare(at, at, octets);
}

/* The functions below are in the report by their names. This prevents that the compiler ends one by
 * a jump, or takes one for another because they do the same. */
#define STAYS_A_FUNCTION(use) __asm__ volatile("" : : "i"(use) : "memory")

static __attribute__((noinline)) void ital_fills_posted_receive(uint8_t *to, const void *from,
                                                                uint32_t octets)
{
    report_write(to, from, octets);
    STAYS_A_FUNCTION(USE_RECEIVE);
}

static __attribute__((noinline)) void ital_fills_sink_of_read(uint8_t *to, const void *from,
                                                              uint32_t octets)
{
    report_write(to, from, octets);
    STAYS_A_FUNCTION(USE_SINK);
}

static __attribute__((noinline)) void ital_peer_writes(uint8_t *to, const void *from,
                                                       uint32_t octets)
{
    report_write(to, from, octets);
    STAYS_A_FUNCTION(USE_REMOTE_WRITE);
}

static __attribute__((noinline)) void ital_sends_lent_payload(const uint8_t *at, uint32_t octets)
{
    report_read(at, octets);
    STAYS_A_FUNCTION(USE_PAYLOAD);
}

static __attribute__((noinline)) void ital_peer_reads(const uint8_t *at, uint32_t octets)
{
    report_read(at, octets);
    STAYS_A_FUNCTION(USE_REMOTE_READ);
}

static void report_access_of_write(uint8_t *to, const void *from, uint32_t octets,
                                   enum memory_use use)
{
    switch (use) {
    case USE_RECEIVE: ital_fills_posted_receive(to, from, octets); break;
    case USE_SINK: ital_fills_sink_of_read(to, from, octets); break;
    default: ital_peer_writes(to, from, octets); break;
    }
}

/* --- ASan --- */

static const char *const uses[] = {
    [USE_RECEIVE] = "a posted receive",
    [USE_SINK] = "the sink of an RDMA Read or an atomic",
    [USE_REMOTE_WRITE] = "an RDMA Write or an atomic of the peer",
    [USE_PAYLOAD] = "the payload of a request",
    [USE_REMOTE_READ] = "an RDMA Read of the peer",
};

static bool is_write(enum memory_use use)
{
    return direction_of(use) == IN;
}

/* The line comes right before the report, by the way that the report takes: the process may end
 * with it. The registration is named because the address alone says little: the block may have been
 * freed and allocated again since. */
static void introduce(const struct qp *qp, uint32_t stag, const uint8_t *at, uint32_t octets,
                      enum memory_use use, const char *what)
{
    const struct stag_entry *entry = stag_find(&qp->rnic->stags, stag);
    char text[320];

    snprintf(text, sizeof(text),
             "ital: QP %u: %s, %u octets at %p, %s; registered as STag 0x%08x, %llu octets at %p",
             qp->qpn, uses[use], octets, (const void *)at, what, stag,
             entry ? (unsigned long long)entry->length : 0ULL,
             entry ? (void *)entry->memory : NULL);
    if (__sanitizer_report_error_summary)
        __sanitizer_report_error_summary(text);
}

static __attribute__((noinline)) void check_addressable(const struct qp *qp, uint32_t stag,
                                                        const uint8_t *at, uint32_t octets,
                                                        enum memory_use use)
{
    void *bad = __asan_region_is_poisoned((void *)(uintptr_t)at, octets);

    if (!bad)
        return;
    introduce(qp, stag, at, octets, use, "is in memory that the program may not access");
    __asan_report_error(__builtin_return_address(0), __builtin_frame_address(0),
                        __builtin_frame_address(0), bad, is_write(use),
                        octets - (size_t)((uint8_t *)bad - at));
}

/* --- one access --- */

void sanitizer_before(const struct qp *qp, uint32_t stag, const uint8_t *at, uint32_t octets,
                      enum memory_use use)
{
    if (qp->rnic->options.sanitizers != SANITIZER_OFF && octets && __asan_region_is_poisoned)
        check_addressable(qp, stag, at, octets, use);
}

void sanitizer_place(const struct qp *qp, uint8_t *to, const void *from, uint32_t octets,
                     enum memory_use use)
{
    void *fiber = octets ? fiber_of(qp, use) : NULL, *thread;

    if (fiber) {
        thread = enter_fiber(qp, fiber, use);
        report_access_of_write(to, from, octets, use);
        leave_fiber(qp, thread, use);
    }
    memcpy(to, from, octets);
    sanitizer_defined(to, octets);
}

/* The access itself is made by the caller: a copy, or by the kernel. */
void sanitizer_behind(const struct qp *qp, const uint8_t *at, uint32_t octets, enum memory_use use)
{
    void *fiber = octets ? fiber_of(qp, use) : NULL, *thread;

    if (is_write(use))
        sanitizer_defined(at, octets);
    if (!fiber || is_write(use))
        return;
    thread = enter_fiber(qp, fiber, use);
    if (use == USE_PAYLOAD)
        ital_sends_lent_payload(at, octets);
    else
        ital_peer_reads(at, octets);
    leave_fiber(qp, thread, use);
}

/* --- the consumer's thread --- */

static void check_element(const struct qp *qp, const struct ri_sge *sge)
{
    uint8_t *memory;
    long undefined;

    if (!sge->length || stag_check(&qp->rnic->stags, sge->lkey, qp->pd, RI_ACCESS_LOCAL_READ,
                                   sge->addr, sge->length, &memory) != STAG_OK)
        return;
    if (__asan_region_is_poisoned)
        check_addressable(qp, sge->lkey, memory, sge->length, USE_PAYLOAD);
    if (!__msan_test_shadow)
        return;
    undefined = __msan_test_shadow(memory, sge->length);
    if (undefined < 0)
        return;
    introduce(qp, sge->lkey, memory + undefined, sge->length - (uint32_t)undefined, USE_PAYLOAD,
              "begins with an octet to which the program has assigned nothing");
    __msan_check_mem_is_initialized(memory, sge->length);
}

void sanitizer_check_payload(const struct qp *qp, const struct ri_send_wr *wr)
{
    const uint32_t carrying = 1u << RI_WR_SEND | 1u << RI_WR_SEND_INVALIDATE |
                              1u << RI_WR_SEND_IMMEDIATE | 1u << RI_WR_RDMA_WRITE |
                              1u << RI_WR_RDMA_WRITE_IMMEDIATE;

    if (!__asan_region_is_poisoned && !__msan_test_shadow)
        return;
    for (; wr; wr = wr->next)
        for (uint32_t i = 0; (carrying >> wr->opcode & 1) && i < wr->num_sge; i++)
            check_element(qp, &wr->sg_list[i]);
}

void sanitizer_posted_send(const struct qp *qp)
{
    if (qp->watch)
        __tsan_release(&qp->watch->sends);
}

void sanitizer_posted_receive(const struct qp *qp)
{
    if (qp->watch)
        __tsan_release(&qp->watch->receives);
}

void sanitizer_posted_shared(const struct srq *srq)
{
    if (sees_races())
        __tsan_release((void *)(uintptr_t)srq);
}

/* The completion covers the unsignalled requests before its own, too. */
void sanitizer_taken(const struct cq *cq, uint32_t count)
{
    const uint32_t tail = ri_ring_tail(&cq->ring);

    if (!sees_races())
        return;
    for (uint32_t head = ri_ring_head(&cq->ring); head != tail && count--; head++) {
        const struct cq_entry *entry = &cq->entries[head & cq->ring.mask];
        uint32_t index = atomic_load_explicit(&entry->wq->freed, memory_order_relaxed);

        for (; (int32_t)(entry->index - index) >= 0; index++)
            __tsan_acquire(wq_slot(entry->wq, index));
    }
}

void sanitizer_seen(struct rnic *rnic)
{
    if (sees_races())
        __tsan_release(&rnic->options);
}

void sanitizer_left(struct rnic *rnic)
{
    if (sees_races())
        __tsan_acquire(rnic);
}
#endif
