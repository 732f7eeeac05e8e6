/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection requests that go to another listen point, over a fake kal: which one is found, what
 * consumes the request, withdrawal, freeing and other decisions during the move.
 */
#include "ia_fixture.h"

static struct ual_evd *other_evd;
static struct ual_listen *other;

#define OTHER 4800

static struct ual_listen *listen_at(struct ual_evd *evd, uint32_t spigot, uint16_t port)
{
    struct sockaddr_in where = address(port);
    struct ual_listen *made = NULL;

    ok(ual_listen_create(ia, spigot, evd, (struct sockaddr *)&where, true, NULL, &made));
    return made;
}

/* Requests arrive at the fixture's listen point, whose listener is the second last. */
static struct kal_listener *first;

static void open_two(void)
{
    fk_reset();
    fk.attr.ports = 2;
    open_adapter();
    ep = make_ep();
    first = fk.listener;
    other_evd = make_evd(UAL_STREAM_REQUEST, 2);
    other = listen_at(other_evd, 1, OTHER);
    fk.listener = first;
}

static enum ri_status hand_off(ual_handle request)
{
    return ual_handoff(request, 1, htons(OTHER), 0);
}

static struct ual_request_event asked_there(void)
{
    struct ual_event event = next_event(other_evd);

    ck_assert_int_eq(event.stream, UAL_STREAM_REQUEST);
    ck_assert_uint_eq(event.request.listen, ual_handle_of(other));
    return event.request;
}

START_TEST(comes_as_a_new_request)
{
    struct ual_request_event before = ask(), after;

    ok(hand_off(before.request));
    after = asked_there();
    ck_assert_uint_ne(after.request, before.request);
    ck_assert_uint_eq(after.private_data_length, 6);
    ck_assert_mem_eq(after.private_data, "please", 6);
    ck_assert_uint_eq(after.ird, 11);
    ck_assert_uint_eq(after.ord, 12);
    ck_assert_ptr_null(ual_request_ia(before.request));
    fails(hand_off(before.request), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(ep, before.request), ITAL_ERR_INVALID_HANDLE);
    fails(ual_reject(before.request, NULL, 0), ITAL_ERR_INVALID_HANDLE);
    ck_assert_uint_eq(fk.connections, 1);
    ok(accept_it(ep, after.request));
    fk_establish(fk.connection);
    ck_assert_uint_eq(expect(connect_evd, UAL_ESTABLISHED).request, after.request);
}
END_TEST

START_TEST(there_and_back)
{
    ual_handle request = ask().request;
    struct sockaddr_storage bound;

    ual_listen_query(listen_point, &bound, NULL, NULL);
    for (int i = 0; i < 100; i++) {
        ok(hand_off(request));
        request = asked_there().request;
        ok(ual_handoff(request, 0, ((struct sockaddr_in *)&bound)->sin_port, 0));
        request = next_event(request_evd).request.request;
    }
    ck_assert_uint_eq(fk.migrations, 200);
    ck_assert_uint_eq(fk.connections, 1);
    ok(ual_handoff(request, 0, ((struct sockaddr_in *)&bound)->sin_port, 0)); /* to itself */
    ok(ual_reject(next_event(request_evd).request.request, NULL, 0));
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(nobody_listens_there)
{
    ual_handle request = ask().request;

    fails(ual_handoff(request, 1, htons(OTHER + 1), 0), RI_ERR_UNREACHABLE);
    fails(ual_handoff(request, 0, htons(OTHER), 0), RI_ERR_UNREACHABLE); /* another Spigot */
    fails(ual_handoff(request, 1, htons(OTHER), 7), RI_ERR_UNREACHABLE);
    ok(ual_listen_free(other));
    fails(hand_off(request), RI_ERR_UNREACHABLE);
    ok(accept_it(ep, request)); /* the request was not consumed */
}
END_TEST

START_TEST(by_service)
{
    struct ual_listen *service;
    ual_handle request = ask().request;

    ok(ual_listen_create_service(ia, 1, other_evd, 0x1234, true, &service));
    fails(ual_handoff(request, 1, 0, 0x1235), RI_ERR_UNREACHABLE);
    ok(ual_handoff(request, 1, 0, 0x1234));
    ck_assert_uint_eq(next_event(other_evd).request.listen, ual_handle_of(service));
}
END_TEST

START_TEST(refused_below)
{
    static const enum ri_status table[] = { RI_ERR_NO_RESOURCES, ITAL_ERR_QUOTA,
                                            RI_ERR_INVALID_ARGUMENT };
    ual_handle request = ask().request;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        fk_fail(FK_MIGRATE, table[i]);
        fails(hand_off(request), table[i]);
    }
    expect_nothing(other_evd);
    ok(accept_it(ep, request));
}
END_TEST

START_TEST(withdrawn_before)
{
    ual_handle request = ask().request;

    fk_withdraw(fk.connection, _i);
    if (_i)
        fk_drain();
    fails(hand_off(request), ITAL_ERR_INVALID_HANDLE);
    ck_assert_ptr_null(ual_request_ia(request));
    ck_assert(tc_until((fk_drain(), fk_connections()) == 0, 10000));
    expect_nothing(other_evd);
}
END_TEST

static void withdraw_now(void)
{
    fk.during_migrate = NULL;
    fk_withdraw(fk.connection, true);
    fk_drain();
}

START_TEST(withdrawn_meanwhile)
{
    ual_handle request = ask().request;

    fk.during_migrate = withdraw_now;
    fails(hand_off(request), ITAL_ERR_INVALID_HANDLE);
    ck_assert(tc_until((fk_drain(), fk_connections()) == 0, 10000));
    expect_nothing(other_evd);
}
END_TEST

static ual_handle moving;

static void decide_now(void)
{
    fk.during_migrate = NULL;
    fails(hand_off(moving), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(ep, moving), ITAL_ERR_INVALID_HANDLE);
    fails(ual_reject(moving, NULL, 0), ITAL_ERR_INVALID_HANDLE);
}

START_TEST(nobody_else_decides_meanwhile)
{
    moving = ask().request;
    fk.during_migrate = decide_now;
    ok(hand_off(moving));
    ok(ual_reject(asked_there().request, NULL, 0));
}
END_TEST

static pthread_t freer;
static atomic_bool freed;

static void *freeing(void *arg)
{
    (void)arg;
    ok(ual_listen_free(other));
    atomic_store(&freed, true);
    return NULL;
}

/* The target is removed from the list, and its thread waits for the move. */
static void free_now(void)
{
    struct ual_listen *found;

    fk.during_migrate = NULL;
    pthread_create(&freer, NULL, freeing, NULL);
    while ((found = ual_listen_find(ual_ia_of(ia), 1, htons(OTHER), 0)))
        ual_listen_put(found);
    ck_assert(!atomic_load(&freed));
}

START_TEST(the_target_is_freed_meanwhile)
{
    ual_handle request = ask().request;

    atomic_store(&freed, false);
    fk_hold(true);
    fk.during_migrate = free_now;
    ok(hand_off(request));
    pthread_join(freer, NULL);
    ck_assert(atomic_load(&freed));
    fk_hold(false);
    fk_drain();
}
END_TEST

/* A request that finds no room at the target waits there. */
START_TEST(full_evd)
{
    ual_handle requests[4], there[4];

    for (int i = 0; i < 4; i++)
        requests[i] = ask().request;
    for (int i = 0; i < 4; i++)
        ok(hand_off(requests[i]));
    fk_drain();
    ck_assert_uint_eq(fk.waiting, 2);
    for (int i = 0; i < 4; i++)
        there[i] = asked_there().request;
    for (int i = 0; i < 4; i++)
        ok(ual_reject(there[i], NULL, 0));
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(an_arrival_is_no_request)
{
    ual_handle arrival;

    fk.listener = first;
    arrival = arrive();
    fails(hand_off(arrival), ITAL_ERR_INVALID_HANDLE);
    ok(accept_it(ep, arrival));
}
END_TEST

START_TEST(a_dead_adapter)
{
    ual_handle request = ask().request;

    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    fails(hand_off(request), RI_ERR_DEVICE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ual, hand-off");
    TCase *t = tc_case(suite, "handoff", open_two, close_ia);

    tc_add_tests(t, comes_as_a_new_request, there_and_back, nobody_listens_there, by_service,
                 refused_below, withdrawn_meanwhile, nobody_else_decides_meanwhile,
                 the_target_is_freed_meanwhile, full_evd, an_arrival_is_no_request, a_dead_adapter);
    tcase_add_loop_test(t, withdrawn_before, 0, 2);
    return tc_main(suite);
}
