/* SPDX-License-Identifier: BSD-3-Clause
 * Aggregate EVDs: events and notifications of all streams, waits, descriptors, errors. */
#include "opened.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static it_evd_handle_t make(it_ia_handle_t ia, it_event_type_t stream, unsigned int flags,
                            it_evd_handle_t aevd)
{
    it_evd_handle_t evd = NULL;
    int fd;

    ok(it_evd_create(ia, stream, (it_evd_flags_t)flags, 64, 1, aevd, &evd, &fd));
    return evd;
}

static it_evd_handle_t make_aevd(it_ia_handle_t ia, unsigned int flags)
{
    return make(ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, flags, NULL);
}

/* Adds all SEVDs of a node without an endpoint to the AEVD. */
static void gather(struct node *end, it_evd_handle_t aevd)
{
    const struct {
        it_evd_handle_t *evd;
        it_event_type_t stream;
    } all[] = {
        { &end->requests, IT_DTO_EVENT_STREAM },         { &end->receives, IT_DTO_EVENT_STREAM },
        { &end->connections, IT_CM_MSG_EVENT_STREAM },   { &end->asked, IT_CM_REQ_EVENT_STREAM },
        { &end->affiliated, IT_ASYNC_AFF_EVENT_STREAM },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ok(it_evd_free(*all[i].evd));
        *all[i].evd = make(end->ia, all[i].stream, 0, aevd);
    }
}

static it_event_t next_of(it_evd_handle_t aevd)
{
    it_event_t event;
    size_t count = 99;

    ok(itx_aevd_wait(aevd, tc_timeout_ms(PATIENCE) * 1000ull, 1, &event, &count));
    ck_assert_uint_eq(count, 1);
    return event;
}

/* --- events --- */

/* Both sides of a connection and their messages; b has an AEVD only. */
START_TEST(events_of_all_streams)
{
    struct buffer a, b;
    it_evd_handle_t aevd, software;
    it_lmr_triplet_t one, other;
    it_net_addr_t address;
    it_path_t path;
    it_event_t event;

    node_open(&pair.a, IFACE);
    node_open(&pair.b, IFACE);
    aevd = make_aevd(pair.b.ia, 0);
    gather(&pair.b, aevd);
    software = make(pair.b.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    node_endpoint(&pair.a);
    node_endpoint(&pair.b);
    node_listen(&pair.b);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    pair.asked.conn_req.conn_qual = towards(&pair.b.qualifier);
    ok(it_ep_connect(pair.a.ep, &path, NULL, &pair.asked.conn_req.conn_qual,
                     IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    event = next_of(aevd);
    ck_assert_int_eq(event.event_number, IT_CM_REQ_CONN_REQUEST_EVENT);
    ck_assert_ptr_eq(event.conn_req.evd, pair.b.asked);
    b = buffer_make(&pair.b, 4096, EVERYTHING);
    a = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    other = segment(&b, 0, 64);
    one = segment(&a, 0, 64);
    ok(it_post_recv((it_handle_t)pair.b.ep, &other, 1, 5, BOTH));
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    event = next_of(aevd);
    ck_assert_int_eq(event.event_number, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.b.ep);
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ok(it_post_send(pair.a.ep, &one, 1, 6, (it_dto_flags_t)(BOTH | IT_SOLICITED_WAIT_FLAG)));
    event = next_of(aevd);
    ck_assert_int_eq(event.event_number, IT_DTO_RC_RECV_CMPL_EVENT);
    ck_assert_ptr_eq(event.dto_cmpl.evd, pair.b.receives);
    ck_assert_uint_eq(event.dto_cmpl.cookie, 5);
    ok(it_post_rdma_write(pair.b.ep, &other, 1, 7, BOTH, 0,
                          0)); /* no such RMR: it fails, and ends the connection */
    do {
        event = next_of(aevd);
    } while (event.event_number == IT_DTO_RDMA_WRITE_CMPL_EVENT);
    ck_assert(event.event_number == IT_CM_MSG_CONN_BROKEN_EVENT ||
              event.event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT ||
              event.event_number >> 12 == 4);
    ok(it_evd_post_se(software, &pair));
    do {
        event = next_of(aevd);
    } while (event.event_number != IT_SOFTWARE_EVENT);
    ck_assert_ptr_eq(event.sw.data, &pair);
}
END_TEST

START_TEST(several_events_by_one_call)
{
    it_evd_handle_t aevd, evds[3];
    it_event_t events[8];
    size_t count = 99, more;
    char data[6];
    int got;

    node_open(&node, fx_interface(_i / 2));
    aevd = make_aevd(node.ia, _i % 2 ? IT_EVD_DEQUEUE_NOTIFICATIONS : 0);
    for (int i = 0; i < 3; i++)
        evds[i] = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    ok(itx_aevd_wait(aevd, 0, 8, events, &count));
    ck_assert_uint_eq(count, 0);
    for (int i = 0; i < 6; i++)
        ok(it_evd_post_se(evds[i % 3], &data[i]));
    ok(itx_aevd_wait(aevd, 0, 0, NULL, &count));
    ck_assert_uint_eq(count, 0);
    ok(itx_aevd_wait(aevd, IT_TIMEOUT_INFINITE, 4, events, &count));
    ck_assert_uint_eq(count, 4);
    ok(itx_aevd_wait(aevd, IT_TIMEOUT_INFINITE, 8, events + 4, &count));
    ck_assert_uint_eq(count, 2);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(events[i].event_number, IT_SOFTWARE_EVENT);
        ck_assert_ptr_eq(events[i].sw.evd, evds[i % 3]);
        ck_assert_ptr_eq(events[i].sw.data, &data[i]);
    }
    ok(it_evd_post_se(evds[0], NULL));
    ok(it_evd_post_se(evds[1], NULL));
    ok(it_evd_wait(aevd, 0, events, &more));
    ck_assert_uint_eq(more, 1);
    ok(it_evd_dequeue_n(aevd, 8, events, &got));
    ck_assert_int_eq(got, 1);
}
END_TEST

START_TEST(notifications_name_the_sevd)
{
    it_evd_handle_t aevd, one, two;
    it_event_t event;

    node_open(&node, IFACE);
    aevd = make_aevd(node.ia, IT_EVD_DEQUEUE_NOTIFICATIONS);
    one = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    two = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    ok(it_evd_post_se(two, NULL));
    ok(it_evd_post_se(two, NULL));
    ok(it_evd_post_se(one, NULL));
    ok(it_evd_wait(aevd, IT_TIMEOUT_INFINITE, &event, NULL));
    ck_assert_int_eq(event.event_number, IT_AEVD_NOTIFICATION_EVENT);
    ck_assert_ptr_eq(event.aevd_notify.aevd, aevd);
    ck_assert_ptr_eq(event.aevd_notify.sevd, two);
    ok(it_evd_dequeue(aevd, &event));
    ck_assert_ptr_eq(event.aevd_notify.sevd, one);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(aevd, &event));
    is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(aevd, 1000, &event, NULL));
    ok(it_evd_dequeue(two, &event));
    ok(it_evd_dequeue(two, &event));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(two, &event));
}
END_TEST

/* --- waits --- */

struct waiter {
    pthread_t thread;
    it_evd_handle_t aevd;
    it_status_t status;
    size_t count;
    atomic_bool begun, done;
};

static void *wait_thread(void *arg)
{
    struct waiter *waiter = arg;
    it_event_t events[4];

    atomic_store(&waiter->begun, true);
    waiter->status = itx_aevd_wait(waiter->aevd, IT_TIMEOUT_INFINITE, 4, events, &waiter->count);
    atomic_store(&waiter->done, true);
    return NULL;
}

static void start(struct waiter *waiter, it_evd_handle_t aevd)
{
    *waiter = (struct waiter){ .aevd = aevd };
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_thread, waiter), 0);
    ck_assert(tc_until(atomic_load(&waiter->begun), PATIENCE));
}

START_TEST(woken_and_timed_out)
{
    struct waiter waiter;
    it_evd_handle_t aevd, evd;
    it_event_t event;
    size_t count = 99;

    node_open(&node, fx_interface(_i / 2));
    aevd = make_aevd(node.ia, _i % 2 ? IT_EVD_DEQUEUE_NOTIFICATIONS : 0);
    evd = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    ok(itx_aevd_wait(aevd, 5000, 1, &event, &count));
    ck_assert_uint_eq(count, 0);
    for (int i = 0; i < 50; i++) {
        start(&waiter, aevd);
        ok(it_evd_post_se(evd, NULL));
        pthread_join(waiter.thread, NULL);
        ck_assert_int_eq(waiter.status, IT_SUCCESS);
        ck_assert_uint_eq(waiter.count, 1);
    }
}
END_TEST

START_TEST(aborted_by_the_end_of_the_adapter)
{
    for (int round = 0; round < 10; round++) {
        struct waiter waiters[3];
        it_evd_handle_t aevd;

        node_open(&node, IFACE);
        aevd = make_aevd(node.ia, round % 2 ? IT_EVD_DEQUEUE_NOTIFICATIONS : 0);
        gather(&node, aevd);
        for (int i = 0; i < 3; i++)
            start(&waiters[i], aevd);
        node_close(&node);
        for (int i = 0; i < 3; i++) {
            pthread_join(waiters[i].thread, NULL);
            /* a thread that had not begun to wait finds the handle freed */
            ck_assert(waiters[i].status == IT_ERR_ABORT ||
                      waiters[i].status == IT_ERR_INVALID_AEVD);
        }
    }
}
END_TEST

static void caught(int number)
{
    (void)number;
}

START_TEST(interrupted)
{
    struct sigaction action = { .sa_handler = caught };
    struct waiter waiter;
    it_evd_handle_t aevd;

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    node_open(&node, IFACE);
    aevd = make_aevd(node.ia, 0);
    start(&waiter, aevd);
    ck_assert(
        tc_until((pthread_kill(waiter.thread, SIGUSR1), atomic_load(&waiter.done)), PATIENCE));
    pthread_join(waiter.thread, NULL);
    ck_assert_int_eq(waiter.status, IT_ERR_INTERRUPT);
}
END_TEST

START_TEST(descriptor)
{
    it_evd_handle_t aevd, evd;
    it_event_t event;
    int fd = -1;

    node_open(&node, IFACE);
    ok(it_evd_create(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, IT_EVD_CREATE_FD, 0, 99, NULL,
                     &aevd, &fd));
    evd = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    for (int i = 0; i < 3; i++) {
        is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(aevd, &event));
        ck_assert_int_eq(tc_wait_fd(fd, POLLIN, 0), 0);
        ok(it_evd_post_se(evd, NULL));
        ck_assert_int_gt(tc_wait_fd(fd, POLLIN, 0), 0);
        ok(it_evd_dequeue(aevd, &event));
    }
}
END_TEST

/* --- errors --- */

START_TEST(errors)
{
    struct node stranger;
    it_evd_handle_t aevd, evd, other;
    it_evd_param_t params;
    it_event_t event;
    size_t count;

    node_open(&node, IFACE);
    node_open(&stranger, IFACE);
    aevd = make_aevd(node.ia, 0);
    evd = make(node.ia, IT_SOFTWARE_EVENT_STREAM, IT_EVD_CREATE_FD, aevd);
    ok(it_evd_query(evd, IT_EVD_PARAM_AEVD_HANDLE, &params));
    ck_assert_ptr_eq(params.aevd, aevd);
    ok(it_evd_query(aevd, IT_EVD_PARAM_ALL, &params));
    ck_assert_int_eq(params.event_number, IT_AEVD_NOTIFICATION_EVENT_STREAM);
    ck_assert_ptr_null(params.aevd);
    ck_assert_int_eq(params.evd_bound, IT_TRUE);
    is(IT_ERR_INVALID_AEVD, it_evd_create(stranger.ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0,
                                          8, 0, aevd, &other, NULL));
    is(IT_ERR_AEVD_NOT_ALLOWED, it_evd_create(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM,
                                              (it_evd_flags_t)0, 8, 0, aevd, &other, NULL));
    is(IT_ERR_INVALID_FLAGS, it_evd_create(node.ia, IT_SOFTWARE_EVENT_STREAM,
                                           IT_EVD_DEQUEUE_NOTIFICATIONS, 8, 0, NULL, &other, NULL));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_wait(evd, 0, &event, NULL));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
    is(IT_ERR_INVALID_SOFT_EVD, it_evd_post_se(aevd, NULL));
    is(IT_ERR_INVALID_AEVD, itx_aevd_wait(evd, 0, 1, &event, &count));
    is(IT_ERR_FAULT, itx_aevd_wait(aevd, 0, 1, NULL, &count));
    is(IT_ERR_FAULT, itx_aevd_wait(aevd, 0, 1, &event, NULL));
    is(IT_ERR_EVD_BUSY, it_evd_free(aevd));
    ok(it_evd_free(evd));
    ok(it_evd_free(aevd));
    is(IT_ERR_INVALID_AEVD, itx_aevd_wait(aevd, 0, 1, &event, &count));
    node_close(&stranger);
}
END_TEST

/* --- members by it_evd_modify --- */

static it_status_t modify(it_evd_handle_t evd, unsigned int mask, it_evd_param_t params)
{
    return it_evd_modify(evd, (it_evd_param_mask_t)mask, &params);
}

static it_status_t set_aevd(it_evd_handle_t evd, it_evd_handle_t aevd)
{
    return modify(evd, IT_EVD_PARAM_AEVD_HANDLE, (it_evd_param_t){ .aevd = aevd });
}

static it_evd_handle_t aevd_of(it_evd_handle_t evd)
{
    it_evd_param_t params;

    ok(it_evd_query(evd, IT_EVD_PARAM_AEVD_HANDLE, &params));
    return params.aevd;
}

START_TEST(members_come_and_go)
{
    it_evd_handle_t first, second, evd;
    it_event_t event;

    node_open(&node, fx_interface(_i / 2));
    first = make_aevd(node.ia, _i % 2 ? IT_EVD_DEQUEUE_NOTIFICATIONS : 0);
    second = make_aevd(node.ia, 0);
    evd = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, NULL);
    ok(it_evd_post_se(evd, NULL));
    ok(set_aevd(evd, first));
    ck_assert_ptr_eq(aevd_of(evd), first);
    ok(it_evd_dequeue(first, &event)); /* the event queued before */
    ck_assert_int_eq(event.event_number, _i % 2 ? IT_AEVD_NOTIFICATION_EVENT : IT_SOFTWARE_EVENT);
    ok(it_evd_post_se(evd, &node));
    ok(set_aevd(evd, second)); /* with an event queued */
    ck_assert_ptr_eq(aevd_of(evd), second);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(first, &event));
    ok(it_evd_free(first));
    ok(it_evd_dequeue(second, &event));
    ck_assert_ptr_eq(event.sw.evd, evd);
    is(IT_ERR_EVD_BUSY, it_evd_free(second));
    ok(set_aevd(evd, NULL));
    ck_assert_ptr_null(aevd_of(evd));
    ok(it_evd_free(second));
    while (it_evd_dequeue(evd, &event) == IT_SUCCESS)
        ;
    is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(evd, 0, &event, NULL)); /* it may be waited on again */
}
END_TEST

static void *wait_on_sevd(void *arg)
{
    struct waiter *waiter = arg;
    it_event_t event;

    atomic_store(&waiter->begun, true);
    waiter->status = it_evd_wait(waiter->aevd, IT_TIMEOUT_INFINITE, &event, NULL);
    return NULL;
}

static void do_nothing(it_evd_handle_t evd, void *arg)
{
    (void)evd, (void)arg;
}

START_TEST(members_that_are_refused)
{
    struct node stranger;
    struct waiter waiter = { .thread = 0 };
    it_evd_handle_t aevd, evd, other;
    it_status_t status;
    it_event_t event;

    node_open(&node, IFACE);
    node_open(&stranger, IFACE);
    aevd = make_aevd(node.ia, 0);
    other = make_aevd(node.ia, 0);
    evd = waiter.aevd = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, NULL);
    is(IT_ERR_INVALID_AEVD, set_aevd(evd, evd));
    is(IT_ERR_INVALID_AEVD, set_aevd(evd, node.requests));
    is(IT_ERR_INVALID_AEVD, set_aevd(stranger.requests, aevd));
    is(IT_ERR_INVALID_AEVD, set_aevd(evd, (it_evd_handle_t)node.pz));
    is(IT_ERR_AEVD_NOT_ALLOWED, set_aevd(other, aevd));
    is(IT_ERR_AEVD_NOT_ALLOWED, set_aevd(aevd, aevd));
    is(IT_ERR_AEVD_NOT_ALLOWED, set_aevd(aevd, NULL));
    is(IT_ERR_INVALID_EVD_TYPE,
       modify(aevd, IT_EVD_PARAM_QUEUE_SIZE, (it_evd_param_t){ .sevd_queue_size = 8 }));
    is(IT_ERR_INVALID_EVD_TYPE,
       modify(aevd, IT_EVD_PARAM_THRESHOLD, (it_evd_param_t){ .sevd_threshold = 0 }));
    is(IT_ERR_INVALID_EVD_TYPE,
       modify(aevd, IT_EVD_PARAM_OVERFLOWED, (it_evd_param_t){ .evd_overflowed = IT_FALSE }));
    ok(it_evd_callback_attach(evd, do_nothing, NULL));
    is(IT_ERR_INVALID_EVD_STATE, set_aevd(evd, aevd));
    ok(it_evd_callback_detach(evd));
    ck_assert_ptr_null(aevd_of(evd));
    /* Of two changes the second is refused: the first is undone. */
    ok(set_aevd(evd, aevd));
    is(IT_ERR_RESOURCE_QUEUE_SIZE,
       modify(evd, IT_EVD_PARAM_AEVD_HANDLE | IT_EVD_PARAM_QUEUE_SIZE,
              (it_evd_param_t){ .aevd = other, .sevd_queue_size = UINT32_MAX }));
    ck_assert_ptr_eq(aevd_of(evd), aevd);
    ok(it_evd_post_se(evd, NULL));
    ok(it_evd_dequeue(aevd, &event));
    ok(set_aevd(evd, NULL));
    /* While a thread waits the change is refused. */
    ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_on_sevd, &waiter), 0);
    while ((status = set_aevd(evd, aevd)) != IT_ERR_EVD_BUSY) { /* did not wait yet */
        ok(status);
        ok(set_aevd(evd, NULL));
        if (tc_until(atomic_load(&waiter.begun), PATIENCE) &&
            pthread_tryjoin_np(waiter.thread, NULL) == 0) { /* came before the wait */
            is(IT_ERR_INVALID_EVD_STATE, waiter.status);
            ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_on_sevd, &waiter), 0);
        }
    }
    is(IT_ERR_EVD_BUSY, set_aevd(evd, aevd));
    ok(it_evd_post_se(evd, NULL));
    pthread_join(waiter.thread, NULL);
    ck_assert_int_eq(waiter.status, IT_SUCCESS);
    ok(set_aevd(evd, aevd));
    node_close(&stranger);
}
END_TEST

/* An AEVD can be disabled like any EVD. */
START_TEST(disabled)
{
    it_evd_handle_t aevd, evd;
    it_event_t event;
    int fd = -1;

    node_open(&node, IFACE);
    ok(it_evd_create(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, IT_EVD_CREATE_FD, 0, 0, NULL,
                     &aevd, &fd));
    evd = make(node.ia, IT_SOFTWARE_EVENT_STREAM, 0, aevd);
    ok(modify(aevd, IT_EVD_PARAM_ENABLED, (it_evd_param_t){ .evd_enabled = IT_FALSE }));
    ok(it_evd_post_se(evd, NULL));
    ck_assert_int_eq(tc_wait_fd(fd, POLLIN, 0), 0);
    ok(it_evd_dequeue(aevd, &event));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_wait(aevd, IT_TIMEOUT_INFINITE, &event, NULL));
    ok(it_evd_post_se(evd, NULL));
    ok(modify(aevd, IT_EVD_PARAM_ENABLED, (it_evd_param_t){ .evd_enabled = IT_TRUE }));
    ck_assert_int_gt(tc_wait_fd(fd, POLLIN, 0), 0);
    ok(it_evd_wait(aevd, IT_TIMEOUT_INFINITE, &event, NULL));
}
END_TEST

/* An endpoint accepts no AEVD where it needs an SEVD. */
START_TEST(an_aevd_is_no_sevd)
{
    it_ep_attributes_t attributes;
    it_evd_handle_t aevd;
    it_ep_handle_t ep;
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_listen_handle_t listen;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    aevd = make_aevd(node.ia, 0);
    is(IT_ERR_INVALID_EVD_TYPE, it_ep_rc_create(node.pz, aevd, node.receives, node.connections,
                                                IT_EP_NO_FLAG, &attributes, &ep));
    is(IT_ERR_INVALID_EVD_TYPE, it_ep_rc_create(node.pz, node.requests, node.receives, aevd,
                                                IT_EP_NO_FLAG, &attributes, &ep));
    is(IT_ERR_INVALID_EVD_TYPE, it_listen_create(node.ia, node.info->spigot_info[0].spigot_id, aevd,
                                                 IT_LISTEN_NO_FLAG, &qualifier, &listen));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("aggregate EVDs");
    TCase *events = tc_case(suite, "events", NULL, fx_close);
    TCase *waits = tc_case(suite, "waits", NULL, fx_close);
    TCase *members = tc_case(suite, "members", NULL, fx_close);
    TCase *wrong = tc_case(suite, "errors", NULL, fx_close);
    int twice = 2 * (int)fx_interfaces();

    add_each(events, events_of_all_streams);
    tcase_add_loop_test(events, several_events_by_one_call, 0, twice);
    add_each(events, notifications_name_the_sevd);
    tcase_add_loop_test(waits, woken_and_timed_out, 0, twice);
    add_each(waits, aborted_by_the_end_of_the_adapter, interrupted, descriptor);
    add_each(wrong, errors, an_aevd_is_no_sevd);
    tcase_add_loop_test(members, members_come_and_go, 0, twice);
    add_each(members, members_that_are_refused, disabled);
    return tc_main(suite);
}
