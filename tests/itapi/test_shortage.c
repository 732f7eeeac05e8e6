/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out of memory while endpoints connect, accept and end. The program's own allocator replaces
 * libc's and fails on request. Whatever fails, each call returns the truth, and each endpoint whose
 * connecting or accepting began gets an event of its end: the active one in waits without a limit,
 * the passive one by polling. The memory that an endpoint reserves for that event is available
 * again after the event was dequeued.
 */
#include "opened.h"
#include "shortage.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

static struct buffer outbox;

enum side { A, B };
static struct progress {
    atomic_bool began, established, ended;
} progress[2];
static bool ending;      /* the test disconnected, or broke the protocol */
static atomic_bool gone; /* no more events for the active side */

static bool ends(it_event_type_t event)
{
    return event == IT_CM_MSG_CONN_DISCONNECT_EVENT || event == IT_CM_MSG_CONN_BROKEN_EVENT ||
           event == IT_CM_MSG_CONN_PEER_REJECT_EVENT ||
           event == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT;
}

static void note(enum side side, it_event_type_t event)
{
    if (event == IT_CM_MSG_CONN_ESTABLISHED_EVENT)
        atomic_store(&progress[side].established, true);
    if (ends(event))
        atomic_store(&progress[side].ended, true);
}

/* The active side, once its connect has begun. */
static void *hear(void *arg)
{
    it_event_t event;

    (void)arg;
    while (!atomic_load(&progress[A].began) && !atomic_load(&gone))
        sched_yield();
    while (!atomic_load(&progress[A].ended) && !atomic_load(&gone))
        if (it_evd_wait(pair.a.connections, IT_TIMEOUT_INFINITE, &event, NULL) == IT_SUCCESS)
            note(A, event.event_number);
    return NULL;
}

static void look(void)
{
    it_event_t event;

    if (it_evd_dequeue(pair.b.connections, &event) == IT_SUCCESS)
        note(B, event.event_number);
}

/* Accepts an incoming request; if that fails, rejects it, which may have to wait for memory. */
static void decide(void)
{
    it_event_t event;

    if (it_evd_dequeue(pair.b.asked, &event) != IT_SUCCESS)
        return;
    progress[B].began = it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0) == IT_SUCCESS;
    if (!progress[B].began && it_reject(event.conn_req.cn_est_id, NULL, 0) == IT_ERR_RESOURCES) {
        shortage_disarm();
        it_reject(event.conn_req.cn_est_id, NULL, 0); /* or the peer has gone */
    }
}

static bool over(enum side side)
{
    return !progress[side].began || progress[side].ended;
}

/* Ends connections in order or by a protocol error. Both sides are established, or one has lost the
 * other. */
static void end_them(bool broken)
{
    struct progress *a = &progress[A], *b = &progress[B];
    it_lmr_triplet_t local = segment(&outbox, 0, 64);
    bool settled = (a->established || over(A)) && (b->established || over(B));

    if (!settled || ending || (over(A) && over(B)))
        return;
    ending = true;
    if (broken && a->established && !a->ended &&
        it_post_send(pair.a.ep, &local, 1, 1, BOTH) == IT_SUCCESS)
        return; /* no receive is there */
    if (!over(A))
        it_ep_disconnect(pair.a.ep, NULL, 0);
    if (!over(B))
        it_ep_disconnect(pair.b.ep, NULL, 0);
}

static it_status_t start_connect(const it_path_t *path, const it_conn_qual_t *qualifier)
{
    return it_ep_connect(pair.a.ep, path, NULL, qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0);
}

/* One connection with one failing allocation or several. Returns how many it made. */
static unsigned int one_life(unsigned int which, bool again, bool broken)
{
    it_net_addr_t address = node_address(&pair.b, pair_family(&pair));
    it_path_t path = path_to(&pair.a, &address);
    it_conn_qual_t qualifier = towards(&pair.b.qualifier);
    uint64_t deadline = tc_deadline(PATIENCE);
    pthread_t thread;
    it_event_t event;

    node_endpoint(&pair.a);
    node_endpoint(&pair.b);
    memset(progress, 0, sizeof(progress));
    ending = false;
    atomic_store(&gone, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, hear, NULL), 0);
    shortage_arm(which, again);
    progress[A].began = start_connect(&path, &qualifier) == IT_SUCCESS;
    while (!(over(A) && over(B)) && !tc_expired(deadline)) {
        decide();
        look();
        end_them(broken);
        sched_yield();
    }
    shortage_disarm();
    ck_assert_msg(over(A) && over(B),
                  "allocation %u%s fails, %s: no end at %s; established: %d and %d", which,
                  again ? " and its multiples" : "", broken ? "broken" : "disconnected",
                  over(A) ? "the passive side" : "the active side", progress[A].established,
                  progress[B].established);
    atomic_store(&gone, true);
    pthread_join(thread, NULL);
    ok(it_ep_free(pair.a.ep));
    ok(it_ep_free(pair.b.ep));
    while (it_evd_dequeue(pair.a.requests, &event) == IT_SUCCESS)
        ;
    while (it_evd_dequeue(pair.b.asked, &event) == IT_SUCCESS)
        it_reject(event.conn_req.cn_est_id, NULL, 0);
    return shortage_made();
}

#define NEVER UINT_MAX

static void lives(bool again)
{
    unsigned int most;

    shortage_needed();
    most = one_life(NEVER, false, true);
    ck_assert_uint_gt(most, 0);
    for (unsigned int which = 1; which <= most + most / 4; which++) {
        for (int broken = 0; broken < 2; broken++)
            one_life(which, again, broken);
    }
}

static void open_pair(const char *name)
{
    node_open(&pair.a, name);
    node_open(&pair.b, name);
    node_listen(&pair.b);
    outbox = buffer_make(&pair.a, 4096, EVERYTHING);
}

START_TEST(no_end_is_lost_when_an_allocation_fails)
{
    open_pair(IFACE);
    lives(false);
}
END_TEST

START_TEST(no_end_is_lost_when_every_kth_allocation_fails)
{
    open_pair(IFACE);
    lives(true);
}
END_TEST

/* --- socket conversion --- */

/* If one side began and is not established, its end also ends the other side. */
static void end_converted(const int fds[2])
{
    struct progress *a = &progress[A], *b = &progress[B];

    if (ending || !((a->established || over(A)) && (b->established || over(B))))
        return;
    ending = true;
    if (!over(A))
        it_ep_disconnect(pair.a.ep, NULL, 0);
    if (!over(B))
        it_ep_disconnect(pair.b.ep, NULL, 0);
    for (int i = 0; i < 2; i++)
        shutdown(fds[i], SHUT_RDWR); /* of a side that never began */
}

/* A side whose conversion could not begin leaves the socket to the consumer, who closes it. */
static void start_conversion(it_sc_flags_t flags, const int fds[2])
{
    progress[B].began = it_socket_convert(fds[1], pair.b.ep, flags, (const unsigned char *)"go",
                                          2) == IT_SUCCESS;
    if (!progress[B].began)
        shutdown(fds[1], SHUT_RDWR);
}

static bool heard_go(int fd)
{
    char go[2];
    ssize_t n = recv(fd, go, sizeof(go), MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return false;
    return n != 2 || !memcmp(go, "go", 2);
}

static unsigned int one_conversion(unsigned int which, bool again, it_sc_flags_t flags)
{
    uint64_t deadline = tc_deadline(PATIENCE);
    bool asked = false;
    pthread_t thread;
    it_event_t event;
    int fds[2];

    ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
    node_endpoint(&pair.a);
    node_endpoint(&pair.b);
    memset(progress, 0, sizeof(progress));
    ending = false;
    atomic_store(&gone, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, hear, NULL), 0);
    shortage_arm(which, again);
    start_conversion(flags, fds);
    while ((!asked || !(over(A) && over(B))) && !tc_expired(deadline)) {
        if (!asked && heard_go(fds[0])) {
            asked = true;
            progress[A].began = it_socket_convert(fds[0], pair.a.ep, flags, NULL, 0) == IT_SUCCESS;
            if (!progress[A].began)
                shutdown(fds[0], SHUT_RDWR);
        }
        look();
        if (asked)
            end_converted(fds);
        sched_yield();
    }
    shortage_disarm();
    ck_assert_msg(asked && over(A) && over(B),
                  "allocation %u%s fails: no end at the %s; established: %d and %d", which,
                  again ? " and its multiples" : "", over(A) ? "responder" : "initiator",
                  progress[A].established, progress[B].established);
    atomic_store(&gone, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(close(fds[i]), 0);
    ok(it_ep_free(pair.a.ep));
    ok(it_ep_free(pair.b.ep));
    while (it_evd_dequeue(pair.a.requests, &event) == IT_SUCCESS)
        ;
    return shortage_made();
}

START_TEST(no_conversion_is_lost)
{
    static const it_sc_flags_t flags[] = { IT_SC_DEFAULT, IT_SC_NO_REQ_REP };
    struct tc_fds before;
    const char *differ;

    shortage_needed();
    before = tc_fds();
    open_pair(IFACE);
    for (int i = 0; i < 2; i++) {
        unsigned int most = one_conversion(NEVER, false, flags[i]);

        ck_assert_uint_gt(most, 0);
        for (unsigned int which = 1; which <= most + most / 4; which++) {
            one_conversion(which, false, flags[i]);
            one_conversion(which, true, flags[i]);
        }
    }
    pair_close(&pair);
    differ = tc_fds_differ(&before);
    ck_assert_msg(!differ, "descriptors: %s", differ);
}
END_TEST

static void is_disconnect(const it_event_t *event, const struct node *end)
{
    ck_assert_int_eq(event->event_number, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_uint_eq((uintptr_t)event->conn.ep, (uintptr_t)end->ep);
    ck_assert_uint_eq((uintptr_t)event->conn.evd, (uintptr_t)end->connections);
    ck_assert(!event->conn.private_data_present);
}

static bool has_ended(const struct node *end)
{
    it_ep_param_t params = { 0 };

    return it_ep_query(end->ep, IT_EP_PARAM_STATE, &params) == IT_SUCCESS &&
           params.ep_state.rc == IT_EP_STATE_NONOPERATIONAL;
}

/* The active side disconnects, with no memory for either side's event. The passive side's
 * disconnect is refused, and returns when that side's event is queued. */
static void end_without_memory(it_event_t *event)
{
    it_status_t queued;
    bool heard, ended;

    shortage_arm(1, true);
    it_ep_disconnect(pair.a.ep, NULL, 0);
    heard = tc_until(it_evd_dequeue(pair.a.connections, event) == IT_SUCCESS, PATIENCE);
    ended = tc_until(has_ended(&pair.b), PATIENCE);
    queued = it_ep_disconnect(pair.b.ep, NULL, 0);
    shortage_disarm();
    ck_assert_msg(heard, "no end at the active side");
    ck_assert_msg(ended, "no end at the passive side");
    is(IT_ERR_INVALID_EP_STATE, queued);
}

/* While such an event is queued, the endpoint starts nothing whose end it could not report. */
START_TEST(an_end_that_was_told_without_memory_is_taken_before_the_next_connection)
{
    it_net_addr_t address;
    it_conn_qual_t qualifier;
    it_event_t event;
    it_path_t path;

    shortage_needed();
    pair_connected(&pair, IFACE);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    qualifier = towards(&pair.b.qualifier);
    expect_nothing(pair.b.connections);
    end_without_memory(&event);
    is_disconnect(&event, &pair.a);
    ok(it_ep_reset(pair.a.ep));
    ok(it_ep_reset(pair.b.ep));
    ok(start_connect(&path, &qualifier));
    pair.asked = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    is(IT_ERR_RESOURCES, it_ep_accept(pair.b.ep, pair.asked.conn_req.cn_est_id, NULL, 0));
    ok(it_evd_dequeue(pair.b.connections, &event));
    is_disconnect(&event, &pair.b);
    ok(it_ep_accept(pair.b.ep, pair.asked.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}
END_TEST

START_TEST(an_end_that_was_told_without_memory_goes_with_its_endpoint)
{
    it_event_t event;

    shortage_needed();
    pair_connected(&pair, IFACE);
    expect_nothing(pair.b.connections);
    end_without_memory(&event);
    ok(it_ep_free(pair.b.ep));
    expect_nothing(pair.b.connections);
    node_endpoint(&pair.b);
}
END_TEST

/* it_evd_modify takes an SEVD out of its AEVD, and another change fails. The undo would need
 * memory, and there is none. */
START_TEST(a_change_that_fails_leaves_the_aggregate_as_it_was)
{
    it_evd_param_t params = { .sevd_queue_size = 1 };
    it_evd_handle_t aevd, evd;
    it_status_t status;

    shortage_needed();
    node_open(&node, IFACE);
    ok(it_evd_create(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, (it_evd_flags_t)0, 0, 0, NULL,
                     &aevd, NULL));
    ok(it_evd_create(node.ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, 8, 0, aevd, &evd, NULL));
    ok(it_evd_post_se(evd, NULL));
    ok(it_evd_post_se(evd, NULL));
    shortage_arm(1, true);
    status = it_evd_modify(evd, IT_EVD_PARAM_AEVD_HANDLE | IT_EVD_PARAM_QUEUE_SIZE, &params);
    shortage_disarm();
    is(IT_ERR_INVALID_QUEUE_SIZE, status); /* more are queued */
    ok(it_evd_query(evd, IT_EVD_PARAM_AEVD_HANDLE, &params));
    ck_assert_ptr_eq(params.aevd, aevd);
}
END_TEST

static void fail_to_make_evds(it_ia_handle_t ia)
{
    it_evd_handle_t evd;

    for (unsigned int which = 40; which; which--) {
        it_status_t status;

        shortage_arm(which, true);
        status = it_evd_create(ia, IT_ASYNC_AFF_EVENT_STREAM, (it_evd_flags_t)0, 64, 0, NULL, &evd,
                               NULL);
        shortage_disarm();
        is(IT_ERR_RESOURCES, status);
    }
}

/* An EVD for asynchronous events allocates in advance. If memory runs out midway, all of it is
 * freed. The first round makes the allocations that the process keeps. */
START_TEST(an_evd_that_cannot_be_made_leaves_nothing)
{
    size_t heap;

    shortage_needed();
    node_open(&node, IFACE);
    ok(it_evd_free(node.affiliated));
    fail_to_make_evds(node.ia);
    heap = tc_heap();
    fail_to_make_evds(node.ia);
    ck_assert_uint_le(tc_heap(), heap + 8192); /* a leak is ten times that */
    ok(it_evd_create(node.ia, IT_ASYNC_AFF_EVENT_STREAM, (it_evd_flags_t)0, 64, 0, NULL,
                     &node.affiliated, NULL));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("shortage");
    TCase *tc = tc_case(suite, "memory", NULL, fx_close);

    tcase_set_timeout(tc, 120);
    add_each(tc, no_end_is_lost_when_an_allocation_fails,
             no_end_is_lost_when_every_kth_allocation_fails,
             an_end_that_was_told_without_memory_is_taken_before_the_next_connection,
             an_end_that_was_told_without_memory_goes_with_its_endpoint,
             a_change_that_fails_leaves_the_aggregate_as_it_was,
             an_evd_that_cannot_be_made_leaves_nothing);
    add_where(tc, FX_CONVERSION, no_conversion_is_lost);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}
