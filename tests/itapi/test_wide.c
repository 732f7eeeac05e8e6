/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cookies of 24 bytes, by ITAPI_WIDE_COOKIE: each call that takes one, each that delivers it, and
 * the reuse of their places, however a request ends. The fixture's functions that return events see
 * narrow cookies, so this file has its own.
 */
#define ITAPI_WIDE_COOKIE
#include "opened.h"

#include <pthread.h>
#include <stdatomic.h>

#define READ    IT_DTO_RDMA_READ_CMPL_EVENT
#define WRITE   IT_DTO_RDMA_WRITE_CMPL_EVENT
#define SEND    IT_DTO_SEND_CMPL_EVENT
#define RECV    IT_DTO_RC_RECV_CMPL_EVENT
#define QUIETLY ((it_dto_flags_t)0)

/* The call that narrow programs get under this name. */
it_status_t narrow_post_recv(it_handle_t handle, const it_lmr_triplet_t *segments, size_t count,
                             uint64_t cookie, it_dto_flags_t flags) __asm__("it_post_recv");

static it_dto_cookie_t wide(uint64_t number)
{
    it_dto_cookie_t cookie = { number, ~number, number * UINT64_C(0x9e3779b97f4a7c15) + 1 };

    return cookie;
}

static void same_cookie(const it_dto_cookie_t *cookie, uint64_t number)
{
    it_dto_cookie_t wanted = wide(number);

    ck_assert_msg(memcmp(cookie, &wanted, sizeof(wanted)) == 0,
                  "cookie %llx %llx %llx instead of that of %llu",
                  (unsigned long long)cookie->mFirst, (unsigned long long)cookie->mSecond,
                  (unsigned long long)cookie->mExtend, (unsigned long long)number);
}

static it_dto_cmpl_event_t wait_done(it_evd_handle_t evd)
{
    it_event_t event;

    ok(it_evd_wait(evd, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event, NULL));
    ck_assert_ptr_eq(event.any.evd, evd);
    return event.dto_cmpl;
}

static it_dto_cmpl_event_t done(it_evd_handle_t evd, it_event_type_t type, uint64_t number,
                                it_dto_status_t status)
{
    it_dto_cmpl_event_t got = wait_done(evd);

    ck_assert_int_eq(got.event_number, type);
    ck_assert_int_eq(got.dto_status, status);
    same_cookie(&got.cookie, number);
    return got;
}

/* Memory of pair.a and pair.b. */
static struct buffer from, to;
static it_lmr_triplet_t source, sink;

static void open_pair(const char *name)
{
    pair_connected(&pair, name);
    from = buffer_make(&pair.a, 4096, EVERYTHING);
    to = buffer_make(&pair.b, 4096, EVERYTHING);
    source = segment(&from, 0, 8);
    sink = segment(&to, 0, 8);
}

static it_status_t write_at(uint64_t number, it_dto_flags_t flags)
{
    return it_post_rdma_write(pair.a.ep, &source, 1, wide(number), flags, address_in(&to, 0),
                              to.context);
}

START_TEST(every_operation_returns_it)
{
    it_dto_cmpl_event_t got;

    open_pair(IFACE);
    ok(it_post_recv(pair.b.ep, &sink, 1, wide(1), BOTH));
    ok(it_post_send(pair.a.ep, &source, 1, wide(2), BOTH));
    got = done(pair.a.requests, SEND, 2, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(got.ep, pair.a.ep);
    got = done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(got.ep, pair.b.ep);
    ck_assert_uint_eq(got.transferred_length, 8);
    ck_assert_ptr_null(got.unlinked_mr_handle);
    ok(write_at(3, BOTH));
    done(pair.a.requests, WRITE, 3, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &source, 1, wide(4), BOTH, address_in(&to, 0), to.context));
    done(pair.a.requests, READ, 4, IT_DTO_SUCCESS);
}
END_TEST

static void with_atomics(const struct node *own, it_ep_attributes_t *attributes)
{
    (void)own;
    attributes->srv.rc.atomics_enable = IT_TRUE;
}

START_TEST(atomics_return_it)
{
    pair_connected_as(&pair, IFACE, with_atomics);
    from = buffer_make(&pair.a, 4096, EVERYTHING);
    to = buffer_make(&pair.b, 4096, IT_PRIV_ALL);
    source = segment(&from, 0, 8);
    ok(it_post_atomic(pair.a.ep, IT_FETCH_AND_ADD, 1, 0, &source, wide(1), BOTH, address_in(&to, 0),
                      to.context));
    done(pair.a.requests, IT_DTO_FETCH_ADD_CMPL_EVENT, 1, IT_DTO_SUCCESS);
    ok(it_post_atomic(pair.a.ep, IT_COMPARE_AND_SWAP, 1, 0, &source, wide(2), BOTH,
                      address_in(&to, 0), to.context));
    done(pair.a.requests, IT_DTO_CMP_SWAP_CMPL_EVENT, 2, IT_DTO_SUCCESS);
}
END_TEST

START_TEST(refused_requests_keep_no_place)
{
    struct buffer buffer;
    it_lmr_triplet_t one;

    node_open(&node, IFACE);
    node_endpoint(&node);
    buffer = buffer_make(&node, 64, EVERYTHING);
    one = segment(&buffer, 0, 8);
    for (int i = 0; i < 1000; i++)
        is(IT_ERR_INVALID_EP_STATE,
           it_post_send(node.ep, &one, 1, wide(1), i % 2 ? BOTH : QUIETLY));
}
END_TEST

START_TEST(windows_return_it)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;

    open_pair(IFACE);
    ok(it_rmr_create(pair.b.pz, IT_RMR_TYPE_DEFAULT, &rmr));
    ok(it_rmr_link(rmr, to.lmr, to.data, 4096, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_WRITE,
                   pair.b.ep, wide(1), BOTH, &context));
    done(pair.b.requests, IT_RMR_LINK_CMPL_EVENT, 1, IT_DTO_SUCCESS);
    if (pair.b.info->narrow_rmr_unlink_support || pair.b.info->wide_rmr_unlink_support) {
        ok(it_rmr_unlink(rmr, pair.b.ep, wide(2), BOTH));
        done(pair.b.requests, IT_RMR_LINK_CMPL_EVENT, 2, IT_DTO_SUCCESS);
    }
    ok(it_rmr_bind10(rmr, to.lmr, to.data, 4096, IT_PRIV_REMOTE_WRITE, pair.b.ep, wide(3), BOTH,
                     &context));
    done(pair.b.requests, IT_RMR_LINK_CMPL_EVENT, 3, IT_DTO_SUCCESS);
}
END_TEST

static void privileged(const struct node *own, it_ep_attributes_t *attributes)
{
    (void)own;
    attributes->priv_ops_enable = IT_TRUE;
}

START_TEST(links_return_it)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;

    pair_connected_as(&pair, IFACE, privileged);
    to = buffer_make(&pair.b, 4096, EVERYTHING);
    ok(it_lmr_create_unlinked(pair.b.pz, 4, IT_LMR_FLAG_NONE, 0, &lmr));
    ok(it_lmr_link(lmr, to.data, NULL, 100, IT_ADDR_MODE_ABSOLUTE, EVERYTHING, pair.b.ep, wide(1),
                   BOTH, &context));
    done(pair.b.requests, IT_LMR_LINK_CMPL_EVENT, 1, IT_DTO_SUCCESS);
    ok(it_lmr_unlink(lmr, pair.b.ep, wide(2), BOTH));
    done(pair.b.requests, IT_LMR_LINK_CMPL_EVENT, 2, IT_DTO_SUCCESS);
}
END_TEST

/* Both sides: that of the Send, and that of the Receive, which reports what was unlinked. */
START_TEST(sends_that_unlink_return_it)
{
    it_rmr_context_t context;
    it_dto_cmpl_event_t got;
    it_rmr_handle_t rmr;

    open_pair(IFACE);
    ok(it_rmr_create(pair.b.pz, IT_RMR_TYPE_NARROW, &rmr));
    ok(it_rmr_link(rmr, to.lmr, to.data, 4096, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_WRITE,
                   pair.b.ep, wide(1), BOTH, &context));
    done(pair.b.requests, IT_RMR_LINK_CMPL_EVENT, 1, IT_DTO_SUCCESS);
    ok(it_post_recv(pair.b.ep, &sink, 1, wide(2), BOTH));
    ok(it_post_send_and_unlink(pair.a.ep, &source, 1, wide(3), BOTH, context));
    done(pair.a.requests, SEND, 3, IT_DTO_SUCCESS);
    got = done(pair.b.receives, RECV, 2, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(got.unlinked_mr_handle, (it_handle_t)rmr);
}
END_TEST

START_TEST(reads_into_windows_return_it)
{
    it_rmr_triplet_t window = { .length = 8 };
    it_rmr_context_t context;

    open_pair(IFACE);
    ok(it_rmr_create(pair.a.pz, IT_RMR_TYPE_NARROW, &window.rmr));
    ok(it_rmr_link(window.rmr, from.lmr, from.data, 4096, IT_ADDR_MODE_ABSOLUTE,
                   IT_PRIV_REMOTE_WRITE, pair.a.ep, wide(1), BOTH, &context));
    done(pair.a.requests, IT_RMR_LINK_CMPL_EVENT, 1, IT_DTO_SUCCESS);
    window.addr.abs = from.data;
    ok(it_post_rdma_read_to_rmr(pair.a.ep, &window, 1, wide(2), BOTH, address_in(&to, 0),
                                to.context));
    done(pair.a.requests, READ, 2, IT_DTO_SUCCESS);
}
END_TEST

/* Several at once, of both queues, by the wait call of the other implementation. */
START_TEST(waits_of_an_aggregate_return_it)
{
    it_evd_param_t members = { 0 };
    it_evd_handle_t aevd;
    it_lmr_triplet_t message, place; /* not where the Writes read and write meanwhile */
    unsigned seen = 0;

    open_pair(IFACE);
    message = segment(&to, 1024, 8);
    place = segment(&from, 1024, 8);
    ok(it_evd_create(pair.a.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, (it_evd_flags_t)0, 64, 1, NULL,
                     &aevd, NULL));
    members.aevd = aevd;
    ok(it_evd_modify(pair.a.requests, IT_EVD_PARAM_AEVD_HANDLE, &members));
    ok(it_evd_modify(pair.a.receives, IT_EVD_PARAM_AEVD_HANDLE, &members));
    ok(it_post_recv(pair.a.ep, &place, 1, wide(0), BOTH));
    ok(it_post_send(pair.b.ep, &message, 1, wide(9), BOTH));
    for (uint64_t i = 1; i < 4; i++)
        ok(write_at(i, BOTH));
    while (seen != 15) {
        it_event_t events[4];
        size_t count;

        ok(itx_aevd_wait(aevd, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, 4, events, &count));
        ck_assert_uint_ge(count, 1);
        for (size_t i = 0; i < count; i++) {
            uint64_t number = events[i].dto_cmpl.cookie.mFirst;

            ck_assert_uint_lt(number, 4);
            ck_assert_int_eq(events[i].event_number, number ? WRITE : RECV);
            same_cookie(&events[i].dto_cmpl.cookie, number);
            ck_assert(!(seen & 1u << number));
            seen |= 1u << number;
        }
    }
    done(pair.b.requests, SEND, 9, IT_DTO_SUCCESS);
}
END_TEST

/* Requests without completions: their places are reused. */
START_TEST(quiet_requests_give_their_places_back)
{
    open_pair(IFACE);
    for (uint64_t i = 1; i <= 20000; i++) {
        bool told = i % 16 == 0;

        ok(write_at(i, told ? BOTH : QUIETLY));
        if (told)
            done(pair.a.requests, WRITE, i, IT_DTO_SUCCESS);
    }
}
END_TEST

/* Suppressed requests that are posted after the connection has ended are flushed with their own
 * cookies. */
START_TEST(flushed_ones_have_their_own)
{
    it_event_t event;
    uint64_t last = 0;
    bool quiet_failed = false;

    open_pair(IFACE);
    for (uint64_t i = 1; i <= 10; i++)
        ok(it_post_recv(pair.a.ep, &source, 1, wide(100 + i), BOTH));
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    ok(it_evd_wait(pair.a.connections, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event, NULL));
    ck_assert_int_eq(event.event_number, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    for (uint64_t i = 1; i <= 10; i++)
        ok(write_at(i, i % 2 ? QUIETLY : BOTH));
    for (uint64_t i = 1; i <= 10; i++)
        done(pair.a.receives, RECV, 100 + i, IT_DTO_ERR_FLUSHED);
    while (last < 10) {
        it_dto_cmpl_event_t got = wait_done(pair.a.requests);

        ck_assert_int_eq(got.event_number, WRITE);
        ck_assert_uint_gt(got.cookie.mFirst, last);
        last = got.cookie.mFirst;
        same_cookie(&got.cookie, last);
        quiet_failed |= last % 2;
    }
    ck_assert(quiet_failed);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.a.requests, &event));
}
END_TEST

/* Receives that a reset ends have their completions, and the next ones have room; a full queue is
 * reported. */
START_TEST(reset_receives_give_their_places_back)
{
    struct buffer buffer;
    it_lmr_triplet_t one;
    size_t depth;

    node_open(&node, IFACE);
    node_endpoint(&node);
    depth = node_query(node.ep).attr.max_recv_dtos;
    buffer = buffer_make(&node, 64, EVERYTHING);
    one = segment(&buffer, 0, 8);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < depth; i++)
            ok(it_post_recv(node.ep, &one, 1, wide(i), BOTH));
        is(IT_ERR_TOO_MANY_POSTS, it_post_recv(node.ep, &one, 1, wide(depth), BOTH));
        ok(it_ep_reset(node.ep));
        for (size_t i = 0; i < depth; i++)
            done(node.receives, RECV, i, IT_DTO_ERR_FLUSHED);
    }
}
END_TEST

/* Takes completions up to that of the last request. The earlier ones succeeded without a
 * completion, or the end came before the adapter learned of their success. */
static void flushed_up_to(it_evd_handle_t evd, uint64_t last)
{
    it_dto_cmpl_event_t got;

    do {
        got = wait_done(evd);
        ck_assert_int_eq(got.dto_status, IT_DTO_ERR_FLUSHED);
        same_cookie(&got.cookie, got.cookie.mFirst);
    } while (got.cookie.mFirst != last);
}

/* Connection after connection, none of whose reported requests succeeds: the places of suppressed
 * requests of earlier ones are reused. */
START_TEST(places_outlast_connections)
{
    it_event_t event;

    open_pair(IFACE);
    for (int round = 0; round < 8; round++) {
        ok(it_post_recv(pair.b.ep, &sink, 1, wide(2), BOTH));
        for (uint64_t i = 1; i <= 60; i++)
            ok(write_at(i, QUIETLY));
        ok(it_post_send(pair.a.ep, &source, 1, wide(3), QUIETLY));
        done(pair.b.receives, RECV, 2, IT_DTO_SUCCESS);
        ok(it_ep_disconnect(pair.a.ep, NULL, 0));
        for (int i = 0; i < 2; i++) {
            struct node *one = i ? &pair.b : &pair.a;

            ok(it_evd_wait(one->connections, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event,
                           NULL));
            ck_assert_int_eq(event.event_number, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        }
        ok(write_at(100, BOTH));
        flushed_up_to(pair.a.requests, 100);
        ok(it_ep_reset(pair.a.ep));
        ok(it_ep_reset(pair.b.ep));
        pair_connect(&pair, pair_family(&pair));
    }
}
END_TEST

/* A freed endpoint delivers no completion: its cookies may point to what the program freed. */
START_TEST(freed_endpoints_say_nothing)
{
    it_event_t event;
    int count = -1;

    open_pair(IFACE);
    for (uint64_t i = 1; i <= 5; i++)
        ok(it_post_recv(pair.b.ep, &sink, 1, wide(i), BOTH));
    ok(it_post_send(pair.a.ep, &source, 1, wide(9), BOTH));
    done(pair.a.requests, SEND, 9, IT_DTO_SUCCESS);
    done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS);
    ok(it_ep_disconnect(pair.b.ep, NULL, 0));
    done(pair.b.receives, RECV, 2, IT_DTO_ERR_FLUSHED);
    ok(it_ep_free(pair.b.ep));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.b.receives, &event));
    ok(it_evd_dequeue_n(pair.b.receives, 1, &event, &count));
    ck_assert_int_eq(count, 0);
    is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(pair.b.receives, 1000, &event, NULL));
}
END_TEST

/* Objects compiled with and without the macro meet in one program: a narrow cookie is the first
 * word. */
START_TEST(narrow_ones_come_out_wide)
{
    it_dto_cmpl_event_t got;

    open_pair(IFACE);
    ok(narrow_post_recv(pair.b.ep, &sink, 1, UINT64_C(0xfedcba9876543210), BOTH));
    ok(it_post_recv(pair.b.ep, &sink, 1, wide(2), BOTH));
    ok(it_post_send(pair.a.ep, &source, 1, wide(3), BOTH));
    ok(it_post_send(pair.a.ep, &source, 1, wide(4), BOTH));
    got = wait_done(pair.b.receives);
    ck_assert_uint_eq(got.cookie.mFirst, UINT64_C(0xfedcba9876543210));
    ck_assert_uint_eq(got.cookie.mSecond, 0);
    ck_assert_uint_eq(got.cookie.mExtend, 0);
    done(pair.b.receives, RECV, 2, IT_DTO_SUCCESS);
}
END_TEST

START_TEST(shared_queues_return_it)
{
    it_ep_attributes_t attributes;
    it_srq_handle_t srq;
    it_event_t event;

    node_open(&pair.a, IFACE);
    node_open(&pair.b, IFACE);
    ok(it_srq_create(pair.b.pz, 1, 64, &srq));
    attributes = node_attributes(&pair.b);
    attributes.srv.rc.srq = srq;
    attributes.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    ok(it_ep_rc_create(pair.b.pz, pair.b.requests, pair.b.receives, pair.b.connections, IT_EP_SRQ,
                       &attributes, &pair.b.ep));
    node_endpoint(&pair.a);
    node_listen(&pair.b);
    pair_connect(&pair, pair_family(&pair));
    from = buffer_make(&pair.a, 64, EVERYTHING);
    to = buffer_make(&pair.b, 64, EVERYTHING);
    source = segment(&from, 0, 8);
    sink = segment(&to, 0, 8);
    for (uint64_t i = 0; i < 500; i++) {
        ok(it_post_recv(srq, &sink, 1, wide(i), BOTH));
        ok(it_post_send(pair.a.ep, &source, 1, wide(i), BOTH));
        done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
        done(pair.b.receives, RECV, i, IT_DTO_SUCCESS);
    }
    ok(it_ep_disconnect(pair.b.ep, NULL, 0));
    ok(it_evd_wait(pair.b.connections, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event, NULL));
    ok(it_ep_free(pair.b.ep));
    ok(it_srq_free(srq));
    is(IT_ERR_INVALID_HANDLE, it_post_recv(srq, &sink, 1, wide(1), BOTH));
}
END_TEST

/* --- threads --- */

#define POSTERS 2
#define EACH    3000

struct crowd {
    atomic_uint posted, seen;
    _Atomic unsigned char told[POSTERS * EACH];
};

struct poster {
    struct crowd *crowd;
    uint64_t first;
};

static void *post_many(void *arg)
{
    struct poster *poster = arg;

    for (uint64_t i = poster->first; i < poster->first + EACH;) {
        it_status_t status = write_at(i, i % 4 ? QUIETLY : BOTH);

        if (status == IT_SUCCESS)
            i++;
        else if (status == IT_ERR_TOO_MANY_POSTS)
            sched_yield();
        else
            ck_abort_msg("%s", itx_status_name(status));
    }
    return NULL;
}

static void *take_many(void *arg)
{
    struct crowd *crowd = arg;
    it_event_t event;

    while (atomic_load(&crowd->seen) < POSTERS * EACH / 4) {
        it_status_t status = it_evd_dequeue(pair.a.requests, &event);

        if (status == IT_ERR_QUEUE_EMPTY) {
            sched_yield();
            continue;
        }
        ck_assert_int_eq(status, IT_SUCCESS);
        ck_assert_int_eq(event.dto_cmpl.dto_status, IT_DTO_SUCCESS);
        ck_assert_uint_lt(event.dto_cmpl.cookie.mFirst, POSTERS * EACH);
        same_cookie(&event.dto_cmpl.cookie, event.dto_cmpl.cookie.mFirst);
        atomic_fetch_add(&crowd->told[event.dto_cmpl.cookie.mFirst], 1);
        atomic_fetch_add(&crowd->seen, 1);
    }
    return NULL;
}

START_TEST(from_several_threads_each_once)
{
    static struct crowd crowd;
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS], takers[2];

    open_pair(IFACE);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&takers[i], NULL, take_many, &crowd), 0);
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){ &crowd, (uint64_t)i * EACH };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(takers[i], NULL);
    for (int i = 0; i < POSTERS * EACH; i++)
        ck_assert_uint_eq(crowd.told[i], i % 4 == 0);
}
END_TEST

START_TEST(wrong_arguments)
{
    it_event_t event;
    int count;

    node_open(&node, IFACE);
    node_endpoint(&node);
    is(IT_ERR_INVALID_EP, it_post_send(NULL, NULL, 0, wide(1), BOTH));
    is(IT_ERR_INVALID_HANDLE, it_post_recv(NULL, NULL, 0, wide(1), BOTH));
    is(IT_ERR_INVALID_EP_STATE, it_post_send(node.ep, NULL, 0, wide(1), BOTH));
    is(IT_ERR_INVALID_EVD, it_evd_dequeue(NULL, &event));
    is(IT_ERR_FAULT, it_evd_dequeue(node.requests, NULL));
    is(IT_ERR_INVALID_EVD, it_evd_wait(NULL, 0, &event, NULL));
    is(IT_ERR_FAULT, it_evd_wait(node.requests, 0, NULL, NULL));
    is(IT_ERR_RANGE, it_evd_dequeue_n(node.requests, -1, &event, &count));
    is(IT_ERR_FAULT, it_evd_dequeue_n(node.requests, 1, NULL, &count));
    is(IT_ERR_INVALID_EVD, it_evd_dequeue_n(NULL, 1, &event, &count));
}
END_TEST

START_TEST(the_helper_assigns)
{
    it_dto_cookie_t given = wide(7), copy = wide(8);

    CookieAssign(&copy, &given);
    same_cookie(&copy, 7);
    ck_assert_uint_eq(sizeof(it_Bit128_t), 16);
    ck_assert_uint_eq(sizeof(it_dto_cookie_t), 24);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wide cookies");
    TCase *tc = tc_case(suite, "cookies", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_each(tc, every_operation_returns_it);
    add_where(tc, FX_ATOMICS, atomics_return_it);
    add_each(tc, refused_requests_keep_no_place);
    add_where(tc, FX_RMR, windows_return_it);
    add_where(tc, FX_LINK, links_return_it);
    add_where(tc, FX_RMR_NARROW | FX_SEND_UNLINK, sends_that_unlink_return_it);
    add_where(tc, FX_RMR_NARROW | FX_READ_UNLINK, reads_into_windows_return_it);
    add_each(tc, waits_of_an_aggregate_return_it, quiet_requests_give_their_places_back,
             flushed_ones_have_their_own, reset_receives_give_their_places_back,
             places_outlast_connections, freed_endpoints_say_nothing, narrow_ones_come_out_wide);
    add_where(tc, FX_SRQ, shared_queues_return_it);
    add_each(tc, from_several_threads_each_once, wrong_arguments);
    tcase_add_test(tc, the_helper_assigns);
    return tc_main(suite);
}
