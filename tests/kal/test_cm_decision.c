/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, passive side: requests that are accepted, rejected, moved to another
 * listener, or left undecided. Test names carry the C- and S-numbers. */
#include "cm_passive.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- accept ---- */

START_TEST(c049_markers_are_asked_for_by_option)
{
    struct fake_qp *qp = fake_qp_new();

    with((const char *[]){ "markers", "yes", NULL });
    ck_assert_int_eq(accept_it(request(F_C | F_S | (_i ? F_M : 0), 2, 4, 4, ""), qp, NULL, 4, 4),
                     RI_OK);
    expect_reply(F_M | F_C | F_S, 2, 4, 4, "");
    ck_assert(qp->last.markers_receive);
    ck_assert_int_eq(qp->last.markers_transmit, _i);
}
END_TEST

static void accept_inside(struct fake_request *r)
{
    ck_assert_int_eq(accept_it(r, (struct fake_qp *)r->listener, "ok", 4, 4), RI_OK);
}

START_TEST(accept_inside_the_upcall)
{
    struct fake_qp *qp = fake_qp_new();

    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", 0, 0, qp, &at);
    fake.on_request = accept_inside;
    request(F_C | F_S, 2, 4, 4, "x");
    expect_reply(F_C | F_S, 2, 4, 4, "ok");
    fake_until(fake.pool[0].events == 1, 10000); /* and its context was set by then */
    ck_assert_int_eq(fake.pool[0].last.type, RI_CONNECTION_ESTABLISHED);
}
END_TEST

START_TEST(accept_arguments)
{
    static char data[600];
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    memset(data, 'x', 509);
    ck_assert_int_eq(accept_it(r, qp, data, 4, 4), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_reject(r->context->connection, data, 509), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 1), RI_ERR_INVALID_ARGUMENT);
    data[508] = '\0'; /* it is still undecided */
    ck_assert_int_eq(accept_it(r, qp, data, 4, 4), RI_OK);
    ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_migrate(r->context->connection, listener), RI_ERR_INVALID_STATE);
    expect_reply(F_C | F_S, 2, 0x8004, 0x4004, data);
}
END_TEST

START_TEST(c020_queue_pair_does_not_take_it)
{
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    qp->answer = RI_ERR_INVALID_STATE;
    ck_assert_int_eq(accept_it(r, qp, "welcome", 4, 4), RI_OK);
    expect_reply(F_R | F_C | F_S, 2, 4, 4, "");
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(r->context->events, 1);
    ck_assert_int_eq(r->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(r->context->last.reason, RI_REASON_RESOURCES);
}
END_TEST

START_TEST(peer_leaves_between_accept_and_run)
{
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), RI_OK);
    int fd = r->context->connection->stream.fd;
    hang_up();
    ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(5000)), 0);
    fake_until(r->context->events, 10000);
    ck_assert_int_eq(r->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

/* Another lane continues the start-up: its run hands over, and it notices the peer's end. */
START_TEST(placed_on_the_lane_of_the_qp)
{
    struct fake_request *r = usual();
    struct kal_connection *c = r->context->connection;
    unsigned before = fake_lane_watches(fake.lane);
    struct fake_qp *qp = fake_qp_new();
    uint64_t end = tc_deadline(10000);

    kal_place(c, &fake.rnic, fake.lane2);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), before - 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane2), 1);
    kal_place(c, &fake.rnic, fake.lane2); /* its octets have arrived */
    ck_assert_uint_eq(fake_lane_watches(fake.lane2), 1);
    if (_i == 0) {
        ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), RI_OK);
        kal_place(c, &fake.rnic, fake.lane); /* too late: no effect */
        for (; !qp->hand_overs; fake_lane_run(fake.lane2))
            ck_assert(!tc_expired(end));
    } else {
        hang_up();
        for (; listener->undecided; fake_lane_run(fake.lane2))
            ck_assert(!tc_expired(end));
        ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), RI_ERR_INVALID_STATE);
    }
}
END_TEST

/* Accepted without a QP: nothing is sent before one is attached, and then in its lane. */
START_TEST(queue_pair_attached_after_the_accept)
{
    struct ri_connect_param param = {
        .size = sizeof(param), .ird = 4, .ord = 4, .negotiate_depths = true
    };
    struct fake_request *r = usual();
    struct kal_connection *c = r->context->connection;
    struct fake_qp *qp = fake_qp_new();
    void *lane = _i ? fake.lane2 : fake.lane;
    uint64_t end = tc_deadline(10000);

    ck_assert_int_eq(kal_attach(c, &qp->base, lane), RI_ERR_INVALID_STATE); /* still undecided */
    ck_assert_int_eq(kal_accept(c, NULL, &param), RI_OK);
    for (; !c->parked; fake_lane_run(fake.lane))
        ck_assert(!tc_expired(end));
    ck_assert(peer_quiet(peer));
    ck_assert_uint_eq(r->context->events, 0);
    ck_assert_int_eq(kal_attach(c, &qp->base, lane), RI_OK);
    ck_assert_int_eq(kal_attach(c, &qp->base, lane), RI_ERR_INVALID_STATE);
    for (; !qp->hand_overs; fake_lane_run(lane)) {
        fake_lane_run(fake.lane);
        ck_assert(!tc_expired(end));
    }
    ck_assert_ptr_eq(c->lane, lane);
    expect_reply(F_C | F_S, 2, 0x8004, 0x4004, "");
}
END_TEST

START_TEST(abandoned_before_a_queue_pair_came)
{
    struct ri_connect_param param = {
        .size = sizeof(param), .ird = 4, .ord = 4, .negotiate_depths = true
    };
    struct fake_request *r = usual();

    ck_assert_int_eq(kal_accept(r->context->connection, NULL, &param), RI_OK);
    fake_until(r->context->connection->parked, 10000);
    fake_destroy(r->context);
    ck_assert_int_ne(peer_end(peer), 0);
    ck_assert_uint_eq(kal_rnic_holds(&fake.rnic, KAL_ACCOUNT_CONNECTION), 0);
}
END_TEST

START_TEST(no_queue_pair_in_time)
{
    struct ri_connect_param param = {
        .size = sizeof(param), .ird = 4, .ord = 4, .negotiate_depths = true
    };
    struct fake_request *r = usual();

    ck_assert_int_eq(kal_accept(r->context->connection, NULL, &param), RI_OK);
    fake_until(r->context->connection->parked, 10000);
    pthread_mutex_lock(&r->context->connection->lifetime.lock);
    cm_deadline(r->context->connection, 1); /* long ago */
    pthread_mutex_unlock(&r->context->connection->lifetime.lock);
    fake_until(r->context->events, 10000);
    ck_assert_uint_eq(fake_log_count("no queue pair was attached in time"), 1);
    ck_assert_int_eq(r->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(r->context->last.reason, RI_REASON_TIMEOUT);
    ck_assert_uint_eq(kal_rnic_holds(&fake.rnic, KAL_ACCOUNT_CONNECTION), 0);
}
END_TEST

static atomic_uint passes;
static atomic_bool looked_enough;

static void *look_on(void *arg)
{
    (void)arg;
    while (!atomic_load_explicit(&looked_enough, memory_order_relaxed)) {
        fake_lane_run(fake.lane);
        atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed);
    }
    return NULL;
}

/* The descriptor becomes ready when the watch is being removed: the old lane runs the handler once
 * or twice. No synchronisation here may order the earlier writes for it. */
static void leave_and_be_seen(struct ri_watch *watch)
{
    unsigned before;

    watch->lane->before_unwatch = NULL;
    hang_up();
    before = atomic_load_explicit(&passes, memory_order_relaxed);
    ck_assert(
        tc_until(atomic_load_explicit(&passes, memory_order_relaxed) - before >= 1000, 10000));
}

/* For ThreadSanitizer: handlers of the old lane run during the move, and find that it moves. */
START_TEST(placed_while_its_lane_looks_on)
{
    for (int i = 0; i < 10; i++) {
        struct fake_request *r = usual();
        uint64_t end = tc_deadline(10000);
        pthread_t thread;

        atomic_store(&looked_enough, false);
        fake.lane->before_unwatch = leave_and_be_seen;
        ck_assert_int_eq(pthread_create(&thread, NULL, look_on, NULL), 0);
        kal_place(r->context->connection, &fake.rnic, fake.lane2);
        atomic_store_explicit(&looked_enough, true, memory_order_relaxed);
        pthread_join(thread, NULL);
        ck_assert_ptr_null(fake.lane->before_unwatch);
        ck_assert_uint_eq(listener->undecided, 1); /* the old lane did not handle it */
        for (; listener->undecided; fake_lane_run(fake.lane2))
            ck_assert(!tc_expired(end));
    }
}
END_TEST

START_TEST(request_withdrawn)
{
    struct fake_request *r = usual();

    if (_i)
        abort_on_close(peer);
    hang_up();
    fake_until(listener->undecided == 0, 10000);
    ck_assert_uint_eq(r->context->events, 0);
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 4, 4), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_migrate(r->context->connection, listener), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1);
    ck_assert_uint_eq(fake_log_count("withdrawn"), 1);
}
END_TEST

START_TEST(request_abandoned)
{
    struct fake_request *r = usual();

    fake_destroy(r->context);
    ck_assert_int_eq(peer_end(peer), 'R');
    ck_assert_uint_eq(listener->undecided, 0);
}
END_TEST

START_TEST(abandoned_right_after_accept)
{
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), RI_OK);
    fake_destroy(r->context);
    ck_assert_int_eq(peer_end(peer), 'R');
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

static void destroy_inside(struct fake_request *r)
{
    fake_destroy(r->context);
}

START_TEST(destroy_inside_the_upcall)
{
    fake.on_request = destroy_inside;
    usual();
    ck_assert_int_eq(peer_end(peer), 'R');
}
END_TEST

/* ---- reject ---- */

START_TEST(c020_s017_s018_reject_with_private_data)
{
    static const struct {
        uint8_t flags, rev, reply;
        const char *data;
    } rows[] = {
        { F_C | F_S, 2, F_R | F_C | F_S, "no room" },
        { F_C, 1, F_R | F_C, "no room" },
        { F_C | F_S, 2, F_R | F_C | F_S, "" },
        { F_C, 1, F_R | F_C, "" },
    };
    struct fake_request *r = request(rows[_i].flags, rows[_i].rev, 4, 8, "x");

    ck_assert_int_eq(
        kal_reject(r->context->connection, rows[_i].data, (uint16_t)strlen(rows[_i].data)), RI_OK);
    if (_i & 1) /* destroyed at once, or by the teardown */
        fake_destroy(r->context);
    /* S-017: no depth of 0 */
    expect_reply(rows[_i].reply, rows[_i].rev, rows[_i].rev == 2, rows[_i].rev == 2, rows[_i].data);
    ck_assert_int_eq(peer_end(peer), 'F');
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.rnic.cm->linger_count, 1);
    hang_up();
    fake_until(fake.rnic.cm->linger_count == 0, 10000);
    ck_assert_uint_eq(listener->undecided, 0);
    ck_assert_uint_eq(fake.pool[0].events, 0);
}
END_TEST

static void reject_inside(struct fake_request *r)
{
    ck_assert_int_eq(kal_reject(r->context->connection, "no", 2), RI_OK);
    fake_destroy(r->context);
}

START_TEST(reject_inside_the_upcall)
{
    fake.on_request = reject_inside;
    usual();
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "no");
    ck_assert_int_eq(peer_end(peer), 'F');
}
END_TEST

START_TEST(reply_is_not_reset_away)
{
    /* The peer sends out of turn when it is rejected: the Reply must reach it all the same. */
    struct fake_request *r = usual();
    uint8_t junk[2000] = { 0 };

    ck_assert_int_eq(kal_reject(r->context->connection, "no", 2), RI_OK);
    peer_send(peer, junk, sizeof(junk));
    fake_until(fake.rnic.cm->linger_count == 1, 10000);
    for (int i = 0; i < 10; i++)
        fake_lane_run(fake.lane);
    peer_send(peer, junk, sizeof(junk));
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "no");
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(fake.rnic.cm->linger_count, 1); /* reads on until the peer closes too */
    hang_up();
    fake_until(fake.rnic.cm->linger_count == 0, 10000);
}
END_TEST

START_TEST(linger_is_bounded_in_time)
{
    struct fake_request *r;

    with((const char *[]){ "close_timeout", "30", NULL });
    r = usual();
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), RI_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "");
    fake_until(fake.rnic.cm->linger_count == 0, 10000); /* the peer never closed */
}
END_TEST

START_TEST(linger_is_bounded_in_octets)
{
    static uint8_t junk[64 * 1024];
    struct fake_request *r;
    size_t sent = 0;

    with((const char *[]){ "close_timeout", "86400000", NULL });
    r = usual();
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), RI_OK);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.rnic.cm->linger_count, 1);
    while (fake.rnic.cm->linger_count) {
        ssize_t n = send(peer, junk, sizeof(junk), MSG_NOSIGNAL | MSG_DONTWAIT);

        sent += n > 0 ? (size_t)n : 0;
        fake_lane_run(fake.lane);
        ck_assert_uint_lt(sent, 32u << 20); /* what the sockets buffer, and DRAIN_MAX */
    }
}
END_TEST

START_TEST(close_waits_for_lingers_unless_forced)
{
    struct fake_request *r = usual();

    ck_assert_int_eq(kal_cm_close(&fake.rnic, true), RI_ERR_BUSY); /* objects remain */
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), RI_OK);
    fake_destroy(r->context);
    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_int_eq(kal_cm_close(&fake.rnic, false), RI_ERR_AGAIN);
    ck_assert_int_eq(kal_cm_close(&fake.rnic, true), RI_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "");
}
END_TEST

/* ---- migration ---- */

START_TEST(migrate)
{
    struct sockaddr_storage other_at;
    struct kal_listener *other = fake_listen("127.0.0.1", 0, 1, &label2, &other_at);
    struct fake_request *r = usual(), *moved;
    struct fake_qp *qp = fake_qp_new();

    ck_assert_int_eq(kal_migrate(r->context->connection, other), RI_OK);
    r->context->connection = NULL;
    ck_assert_uint_eq(listener->undecided, 0);
    ck_assert_uint_eq(fake.request_count, 1); /* not during the call */
    fake_until(fake.request_count == 2, 10000);
    moved = &fake.requests[1];
    ck_assert_ptr_eq(moved->listener, &label2);
    ck_assert_mem_eq(moved->private_data, "hello", 5);
    ck_assert_uint_eq(moved->request.private_data_length, 5);
    ck_assert_uint_eq(moved->request.ird, 4);
    ck_assert_uint_eq(moved->request.ord, 8);
    ck_assert_mem_eq(&moved->request.local, &at, sizeof(struct sockaddr_in));
    ck_assert_mem_eq(&moved->request.peer, &r->request.peer, sizeof(r->request.peer));
    ck_assert_uint_eq(other->undecided, 1);

    /* The other listener has room for one only. */
    int first = peer;
    struct fake_request *second = usual();
    ck_assert_int_eq(kal_migrate(second->context->connection, other), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(kal_reject(second->context->connection, NULL, 0), RI_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "");
    hang_up();

    peer = first;
    ck_assert_int_eq(accept_it(moved, qp, "yes", 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "yes");
    ck_assert_uint_eq(other->undecided, 0);
    kal_listen_destroy(other);
}
END_TEST

/* The provider could not report a request that kal has read. */
START_TEST(does_not_migrate_to_the_provider)
{
    struct sockaddr_storage where = address_of("127.0.0.1", 7), bound;
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&where };
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();
    static struct kal_rnic beside;
    struct kal_listener *far;

    fake_open_beside(&beside, RI_FEATURE_CONNECTION_SET_A);
    ck_assert_int_eq(kal_listen(&beside, fake.lane2, &param, &label2, &bound, &far), RI_OK);
    ck_assert_int_eq(kal_migrate(r->context->connection, far), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(accept_it(r, qp, "yes", 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "yes");
    kal_listen_destroy(far);
    fake_close_beside(&beside);
}
END_TEST

static struct kal_listener *target;

static void migrate_inside(struct fake_request *r)
{
    if (r->listener != &label)
        return;
    ck_assert_int_eq(kal_migrate(r->context->connection, target), RI_OK);
    r->context->connection = NULL;
}

START_TEST(migrate_inside_the_upcall_to_another_lane)
{
    struct sockaddr_storage where = address_of("127.0.0.1", 0), bound;
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&where };
    struct kal_listener *other;

    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane2, &param, &label2, &bound, &other), RI_OK);
    target = other;
    fake.on_request = migrate_inside;
    usual();
    fake_until(fake.request_count == 2, 10000);
    ck_assert_ptr_eq(fake.requests[1].listener, &label2);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane2), 2);
    ck_assert_ptr_eq(fake.requests[1].context->connection->context, fake.requests[1].context);
    ck_assert_int_eq(kal_reject(fake.requests[1].context->connection, "no", 2), RI_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "no");
    kal_listen_destroy(other);
}
END_TEST

START_TEST(moved_request_goes_with_its_listener_or_its_peer)
{
    struct sockaddr_storage other_at;
    struct kal_listener *other = fake_listen("127.0.0.1", 0, 1, &label2, &other_at);
    struct fake_request *r = usual();
    int fd;

    ck_assert_int_eq(kal_migrate(r->context->connection, other), RI_OK);
    r->context->connection = NULL;
    if (_i == 0) {
        kal_listen_destroy(other);
        ck_assert_int_eq(peer_end(peer), 'R'); /* 'F' would pass for an answer */
    } else {
        fd = other->starting->stream.fd;
        hang_up();
        ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(5000)), 0);
        fake_until(other->half_open == 0, 10000);
        kal_listen_destroy(other);
    }
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.request_count, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection manager, decisions");
    TCase *t = tc_case(s, "passive", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_loop_test(t, c049_markers_are_asked_for_by_option, 0, 2);
    tc_add_tests(t, accept_inside_the_upcall, accept_arguments, c020_queue_pair_does_not_take_it,
                 peer_leaves_between_accept_and_run);
    tc_add_loops(t, 0, 2, request_withdrawn, placed_on_the_lane_of_the_qp);
    tcase_add_test(t, placed_while_its_lane_looks_on);
    tcase_add_loop_test(t, queue_pair_attached_after_the_accept, 0, 2);
    tc_add_tests(t, abandoned_before_a_queue_pair_came, no_queue_pair_in_time, request_abandoned,
                 abandoned_right_after_accept, destroy_inside_the_upcall);
    tcase_add_loop_test(t, c020_s017_s018_reject_with_private_data, 0, 4);
    tc_add_tests(t, reject_inside_the_upcall, reply_is_not_reset_away, linger_is_bounded_in_time,
                 linger_is_bounded_in_octets, close_waits_for_lingers_unless_forced, migrate,
                 does_not_migrate_to_the_provider, migrate_inside_the_upcall_to_another_lane);
    tcase_add_loop_test(t, moved_request_goes_with_its_listener_or_its_peer, 0, 2);
    return tc_main(s);
}
