/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptor of an EVD in poll(2), epoll level- and edge-triggered, nested epoll sets, and
 * io_uring: SEVDs of software events and of completions, AEVDs of either kind whose members have
 * descriptors of their own. Level-triggered: it is readable while an event is queued, so a program
 * may take one event for each wake-up. Edge-triggered: a program takes all events, and the next one
 * wakes it.
 */
#include "dto.h"
#include "watching.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define SIZE 64u

enum source { SOFTWARE, COMPLETIONS, MEMBERS, NOTIFICATIONS, SOURCES };
#define CASES (WAYS * SOURCES)

static struct pair pair;
static struct buffer here, there;
static enum source source;
static it_evd_handle_t watched;            /* the EVD of the descriptor */
static it_evd_handle_t software, receives; /* EVDs that get events; one or both */
static struct watching watching;
static bool edge;

static it_evd_handle_t make(unsigned int stream, unsigned int flags, it_evd_handle_t aevd, int *fd)
{
    it_evd_handle_t evd;

    ok(it_evd_create(pair.b.ia, (it_event_type_t)stream, (it_evd_flags_t)(flags | IT_EVD_CREATE_FD),
                     64, 0, aevd, &evd, fd));
    return evd;
}

static void connect_receives(void)
{
    it_ep_attributes_t attributes;

    ok(it_ep_free(pair.b.ep));
    attributes = node_attributes(&pair.b);
    ok(it_ep_rc_create(pair.b.pz, pair.b.requests, receives, pair.b.connections, IT_EP_NO_FLAG,
                       &attributes, &pair.b.ep));
    there = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL);
    here = buffer_make(&pair.a, SIZE, IT_PRIV_LOCAL);
    pair_connect(&pair, pair_family(&pair));
}

/* _i: interface, source, way to wait. */
static void open_case(int index)
{
    it_evd_handle_t aevd = NULL;
    int fd, other;

    source = (enum source)(index / WAYS % SOURCES);
    pair_open(&pair, fx_interface(index / (int)CASES));
    software = receives = NULL;
    if (source >= MEMBERS)
        aevd = make(IT_AEVD_NOTIFICATION_EVENT_STREAM,
                    source == NOTIFICATIONS ? IT_EVD_DEQUEUE_NOTIFICATIONS : 0, NULL, &fd);
    if (source != COMPLETIONS)
        software = make(IT_SOFTWARE_EVENT_STREAM, 0, aevd, aevd ? &other : &fd);
    if (source != SOFTWARE)
        receives = make(IT_DTO_EVENT_STREAM, 0, aevd, aevd ? &other : &fd);
    watched = aevd ? aevd : software ? software : receives;
    if (receives)
        connect_receives();
    watching_open(&watching, (enum way)(index % WAYS), fd);
    edge = way_is_edge(watching.way);
}

static void close_case(void)
{
    watching_close(&watching);
    pair_close(&pair);
}

/* --- events, each with its number --- */

static void send_one(uint64_t number)
{
    it_lmr_triplet_t whole = segment(&there, 0, SIZE);

    ok(it_post_recv((it_handle_t)pair.b.ep, &whole, 1, number, BOTH));
    send_octets(&pair.a, &here, SIZE, number, BOTH);
    expect_done(pair.a.requests, SEND, number, IT_DTO_SUCCESS);
}

static void produce(uint64_t number)
{
    if (software && (!receives || number % 2))
        ok(it_evd_post_se(software, (void *)(uintptr_t)number));
    else
        send_one(number);
}

/* How many events of each member were taken; they arrive in order. */
static _Atomic uint64_t taken;
static uint64_t next_of[2];

static void check(const it_event_t *event)
{
    bool soft = event->event_number == IT_SOFTWARE_EVENT;
    uint64_t number = soft ? (uintptr_t)event->sw.data : event->dto_cmpl.cookie;

    ck_assert_uint_eq(number, next_of[soft]);
    next_of[soft] += software && receives ? 2 : 1;
    atomic_fetch_add(&taken, 1);
}

static bool take_from(it_evd_handle_t evd)
{
    it_event_t event;
    it_status_t status = it_evd_dequeue(evd, &event);

    if (status == IT_ERR_QUEUE_EMPTY)
        return false;
    ok(status);
    if (event.event_number == IT_AEVD_NOTIFICATION_EVENT)
        while (take_from(event.aevd_notify.sevd))
            ;
    else
        check(&event);
    return true;
}

static void take_all(void)
{
    while (take_from(watched))
        ;
}

/* Takes what one wake-up allows. */
static void take(void)
{
    if (edge)
        take_all();
    else
        take_from(watched);
}

static void begin(void)
{
    atomic_store(&taken, 0);
    next_of[0] = 0; /* completions: the even ones beside software events */
    next_of[1] = software && receives ? 1 : 0;
}

/* --- one at a time --- */

static void wait_for(uint64_t count)
{
    uint64_t deadline = tc_deadline(PATIENCE);

    while (atomic_load(&taken) < count) {
        ck_assert_msg(watching_wait(&watching, deadline), "event %llu is not told of",
                      (unsigned long long)count);
        take();
    }
}

START_TEST(each_event_is_told_of)
{
    open_case(_i);
    begin();
    for (uint64_t i = 0; i < tc_count(100); i++) {
        produce(i);
        wait_for(i + 1);
        take_all();
    }
    close_case();
}
END_TEST

/* Events queued before the first wait are reported as long as they are queued. */
START_TEST(what_is_queued_is_told_of)
{
    open_case(_i);
    begin();
    watching_close(&watching);
    for (uint64_t i = 0; i < 4; i++)
        produce(i);
    ck_assert_int_gt(tc_wait_fd(watching.fd, POLLIN, tc_deadline(PATIENCE)), 0);
    watching_open(&watching, watching.way, watching.fd);
    for (int look = 0; look < 3 && !edge; look++) /* nothing was taken */
        ck_assert(watching_wait(&watching, tc_deadline(PATIENCE)));
    wait_for(4);
    take_all();
    /* A spurious wake-up may happen, as with any descriptor, but it does not persist. */
    while (watching_wait(&watching, 0))
        take_all();
    ck_assert_uint_eq(atomic_load(&taken), 4);
    close_case();
}
END_TEST

/* --- while others produce --- */

#define BATCHES 200u

static void *produce_batches(void *arg)
{
    struct tc_rng rng = tc_rng(7);
    uint64_t made = 0;

    (void)arg;
    for (unsigned long batch = 0; batch < tc_count(BATCHES); batch++) {
        for (uint64_t count = 1 + tc_below(&rng, 4); count; count--)
            produce(made++);
        while (atomic_load(&taken) < made)
            sched_yield();
    }
    return (void *)(uintptr_t)made;
}

/* The consumer takes a batch to the last event, then the next one comes: its first event has to
 * wake, however soon it follows the dequeue that found the queue empty. */
START_TEST(no_event_is_missed)
{
    atomic_bool over = false;
    pthread_t producer;
    void *made;
    uint64_t all, deadline;

    open_case(_i);
    begin();
    ck_assert_int_eq(pthread_create(&producer, NULL, produce_batches, NULL), 0);
    deadline = tc_deadline(PATIENCE);
    while (!over) {
        uint64_t before = atomic_load(&taken);

        if (watching_wait(&watching, tc_deadline(50)))
            take();
        if (atomic_load(&taken) != before)
            deadline = tc_deadline(PATIENCE);
        else if (pthread_tryjoin_np(producer, &made) == 0)
            over = true;
        else
            ck_assert_msg(!tc_expired(deadline), "nothing is told of after event %llu",
                          (unsigned long long)before);
    }
    all = (uintptr_t)made;
    ck_assert_uint_eq(atomic_load(&taken), all);
    close_case();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors");
    TCase *tc = tc_case(suite, "every way to wait", NULL, NULL);

    tcase_set_timeout(tc, 60);
    for (int i = 0; i < (int)fx_interfaces(); i++) {
        if (!(fx_features(i) & FX_SOFTRDMA))
            continue;
        tc_add_loops(tc, i * CASES, (i + 1) * CASES, each_event_is_told_of,
                     what_is_queued_is_told_of, no_event_is_missed);
    }
    return tc_main(suite);
}
