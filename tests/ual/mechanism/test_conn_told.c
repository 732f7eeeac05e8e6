/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: addresses, resolution, and which context gets the upcalls when it changes. */
#include "conn_fixture.h"

#include "yields.h"

static struct hearer two;

/* --- addresses --- */

static void bind_to(uint16_t port)
{
    struct sockaddr_in any = address(port);
    struct sockaddr_storage bound;

    ok(ual_conn_bind(conn, (struct sockaddr *)&any, &bound));
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(port ? port : 4711));
    ck_assert_uint_eq(fk.listeners, 1);
}

/* A bound address reports no requests before it listens. The first one waits for that. */
START_TEST(bound_then_listening)
{
    struct ri_listen_param param = { .size = sizeof(param), .backlog = 7 };
    struct sockaddr_in any = address(9);
    struct sockaddr_storage bound;

    bind_to(0);
    ask(false);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&one.requests), 0);
    ck_assert_uint_eq(fk.waiting, 1);
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), RI_ERR_INVALID_STATE);
    ok(ual_conn_listen(conn, &param, &bound));
    ck_assert_uint_eq(fk.listeners, 1);
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(4711));
    fk_drain();
    ck_assert_uint_eq(atomic_exchange(&one.requests, 0), 1);
    ck_assert_uint_eq(fk.waiting, 0);
    ual_conn_free(one.request);
    ual_conn_free(asked(false));
    fails(ual_conn_listen(conn, &param, NULL), RI_ERR_INVALID_STATE);
}
END_TEST

START_TEST(bound_then_connecting)
{
    struct ri_connect_param param = to(1);
    struct sockaddr_in own = address(5);

    bind_to(0);
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_uint_eq(fk.listeners, 0);
    ck_assert_ptr_nonnull(fk.connection->param.source);
    ck_assert_uint_eq(((const struct sockaddr_in *)fk.connection->param.source)->sin_port,
                      htons(4711));
    ual_conn_free(conn);
    ok(ual_conn_create(device, &upcalls, &one, &conn));
    bind_to(0);
    param.source = (struct sockaddr *)&own; /* the caller's address has precedence */
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_ptr_eq(fk.connection->param.source, &own);
}
END_TEST

START_TEST(bind_and_listen_refused)
{
    static const struct ual_conn_upcalls deaf = { .event = hear_event };
    struct ri_listen_param param = { .size = sizeof(param) };
    struct sockaddr_in any = address(0);
    struct ual_conn *other;

    fails(ual_conn_bind(conn, NULL, NULL), RI_ERR_INVALID_ARGUMENT);
    fails(ual_conn_listen(conn, &param, NULL), RI_ERR_INVALID_ARGUMENT);
    fk_fail(FK_LISTEN, RI_ERR_ADDRESS_IN_USE);
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), RI_ERR_ADDRESS_IN_USE);
    param.address = (struct sockaddr *)&any;
    fk_fail(FK_LISTEN, RI_ERR_PERMISSION);
    fails(ual_conn_listen(conn, &param, NULL), RI_ERR_PERMISSION);
    ok(ual_conn_create(device, &deaf, NULL, &other));
    fails(ual_conn_listen(other, &param, NULL), RI_ERR_INVALID_ARGUMENT);
    ual_conn_free(other);
    ck_assert_uint_eq(fk.listeners, 0);
    ok(ual_conn_listen(conn, &param, NULL)); /* the refused calls had no effect on it */
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), RI_ERR_INVALID_STATE);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), RI_ERR_DEVICE);
}
END_TEST

/* --- resolution --- */

START_TEST(resolved_in_the_lane)
{
    struct sockaddr_in there = address(1);

    ok(ual_conn_resolve(conn, (struct sockaddr *)&there));
    ck_assert(tc_until(atomic_load(&one.resolutions) == 1, 10000));
    ok(one.resolved);
    ck_assert(one.has_source);
    ck_assert_int_eq(one.source.ss_family, AF_INET);
    ck_assert(!pthread_equal(one.thread, pthread_self()));
    fk_fail(FK_ROUTE, RI_ERR_UNREACHABLE);
    ok(ual_conn_resolve(conn, (struct sockaddr *)&there)); /* again, and there is none */
    ck_assert(tc_until(atomic_load(&one.resolutions) == 2, 10000));
    fails(one.resolved, RI_ERR_UNREACHABLE);
    ck_assert(!one.has_source);
    fails(ual_conn_resolve(conn, NULL), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

static atomic_bool inside, leave;

static void stay_inside(void *context, const struct ri_connection_event *event)
{
    (void)context, (void)event;
    atomic_store(&inside, true);
    while (!atomic_load(&leave))
        sched_yield();
    atomic_store(&inside, false);
}

static const struct ual_conn_upcalls staying = { .event = stay_inside };

/* Another connection, whose upcall keeps the lane busy meanwhile. */
static struct ual_conn *occupy_lane(void)
{
    struct ri_connect_param param = to(1);
    struct ual_conn *other;

    ok(ual_conn_create(device, &staying, NULL, &other));
    ok(ual_conn_connect(other, qp, &param));
    fk_connection_event(fk.connection,
                        &(struct ri_connection_event){ .type = RI_CONNECTION_FAILED });
    ck_assert(tc_until(atomic_load(&inside), 10000));
    return other;
}

START_TEST(one_resolution_at_a_time)
{
    struct sockaddr_in there = address(1);
    struct ual_conn *other = occupy_lane();

    ok(ual_conn_resolve(conn, (struct sockaddr *)&there));
    fails(ual_conn_resolve(conn, (struct sockaddr *)&there), RI_ERR_INVALID_STATE);
    atomic_store(&leave, true);
    ck_assert(tc_until(atomic_load(&one.resolutions) == 1, 10000));
    ual_conn_free(other);
}
END_TEST

START_TEST(freed_before_it_is_resolved)
{
    struct sockaddr_in there = address(1);
    struct ual_conn *other = occupy_lane();

    ok(ual_conn_resolve(conn, (struct sockaddr *)&there));
    ual_conn_free(conn);
    conn = NULL;
    atomic_store(&leave, true);
    ual_conn_free(other);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&one.resolutions), 0);
}
END_TEST

/* Lasts long enough for the free to overlap. */
static void hear_resolved_late(void *context, enum ri_status status,
                               const struct sockaddr_storage *source)
{
    for (int i = 0; i < 5; i++)
        sched_yield();
    hear_resolved(context, status, source);
}

static const struct ual_conn_upcalls late = { .resolved = hear_resolved_late };

/* At any moment of it. The lane has finished with the freed one when it serves a later one. */
START_TEST(freed_while_it_is_resolved)
{
    unsigned long count = tc_count(3000);
    struct tc_rng rng = tc_rng(1);
    struct sockaddr_in there = address(1);
    struct ual_conn *later;

    ok(ual_conn_create(device, &upcalls, &two, &later));
    ual_conn_migrate(conn, &late, &one);
    for (unsigned long i = 1; i <= count; i++) {
        unsigned int before;

        ok(ual_conn_resolve(conn, (struct sockaddr *)&there));
        for (uint64_t wait = tc_below(&rng, 20000); wait; wait--)
            __asm__ volatile("");
        if (tc_below(&rng, 2))
            sched_yield();
        ual_conn_free(conn);
        before = atomic_load(&one.resolutions);
        ok(ual_conn_create(device, &late, &one, &conn));
        ok(ual_conn_resolve(later, (struct sockaddr *)&there));
        ck_assert(tc_until(atomic_load(&two.resolutions) == i, 10000));
        ck_assert_uint_eq(atomic_load(&one.resolutions), before);
    }
    ual_conn_free(later);
}
END_TEST

/* --- migration --- */

START_TEST(migrated_to_another)
{
    struct ri_connect_param param = to(1);

    ok(ual_conn_connect(conn, qp, &param));
    tell(RI_CONNECTION_ACCEPTED, 1);
    ual_conn_migrate(conn, &upcalls, &two);
    tell(RI_CONNECTION_FAILED, 2);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_uint_eq(events(&two), 1);
    ck_assert_uint_eq(two.private_data_length, 2);
    ual_conn_migrate(conn, NULL, NULL); /* no context */
    tell(RI_CONNECTION_FAILED, 2);
    ck_assert_uint_eq(events(&two), 1);
}
END_TEST

/* After migrate has returned, the old context gets no upcalls. */
#define CONTEXTS 8

static atomic_bool over[CONTEXTS];
static atomic_ulong told_events;
static atomic_bool done;

static void check_event(void *context, const struct ri_connection_event *event)
{
    atomic_bool *mine = context;

    (void)event;
    for (int i = 0; i < 3; i++) {
        if (atomic_load(mine))
            ck_abort_msg("an upcall to a context that was migrated away from");
        sched_yield();
    }
    if (atomic_load(mine))
        ck_abort_msg("migrate returned while an upcall ran");
    atomic_fetch_add(&told_events, 1);
}

static const struct ual_conn_upcalls checking = { .event = check_event };

static void *send_events(void *arg)
{
    struct kal_connection *connection = arg;

    while (!atomic_load(&done)) {
        fk_connection_event(connection,
                            &(struct ri_connection_event){ .type = RI_CONNECTION_ACCEPTED });
        fk_drain();
    }
    return NULL;
}

START_TEST(no_upcall_to_the_earlier_context_after_migrate)
{
    struct ri_connect_param param = to(1);
    unsigned long moves = tc_count(5000);
    pthread_t thread;

    ual_conn_migrate(conn, &checking, &over[0]);
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_int_eq(pthread_create(&thread, NULL, send_events, fk.connection), 0);
    for (unsigned long i = 0; i < moves; i++) {
        unsigned long before = atomic_load(&told_events);

        atomic_store(&over[(i + 1) % CONTEXTS], false);
        ual_conn_migrate(conn, &checking, &over[(i + 1) % CONTEXTS]);
        atomic_store(&over[i % CONTEXTS], true);
        if (i % 4 == 0) /* events do arrive */
            ck_assert(tc_until(atomic_load(&told_events) > before, 20000));
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
}
END_TEST

static void *free_it(void *arg)
{
    yields_count();
    ual_conn_free(arg);
    atomic_store(&done, true);
    return NULL;
}

START_TEST(free_waits_for_the_upcall_that_runs)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, free_it, occupy_lane()), 0);
    ck_assert(yields_wait(&done));
    atomic_store(&leave, true);
    pthread_join(thread, NULL);
    ck_assert(!atomic_load(&inside));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections, who is told");

    tc_add_tests(tc_case(suite, "addresses", setup_conn, teardown_conn), bound_then_listening,
                 bound_then_connecting, bind_and_listen_refused);
    tc_add_tests(tc_case(suite, "resolution", setup_conn, teardown_conn), resolved_in_the_lane,
                 one_resolution_at_a_time, freed_before_it_is_resolved, freed_while_it_is_resolved);
    tc_add_tests(tc_case(suite, "who is told", setup_conn, teardown_conn), migrated_to_another,
                 no_upcall_to_the_earlier_context_after_migrate,
                 free_waits_for_the_upcall_that_runs);
    return tc_main(suite);
}
