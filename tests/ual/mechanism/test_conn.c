/* SPDX-License-Identifier: BSD-3-Clause
 * Connections: what passes through to kal and comes back, what a listener makes of requests,
 * addresses, resolution, and who is told when that changes. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "device_fixture.h"

#include <pthread.h>

/* --- who is told --- */

struct hearer {
    atomic_uint events, requests, resolutions;
    enum ri_connection_event_type type;
    uint16_t private_data_length;
    struct ual_conn *request;
    enum ual_hearing hearing;
    enum ual_status resolved;
    struct sockaddr_storage source;
    bool has_source;
    pthread_t thread;
};

static struct hearer one, two;

static enum ual_hearing hear_request(void *context, struct ual_conn *request,
                                     const struct ri_connect_request *asked);

static void hear_event(void *context, const struct ri_connection_event *event)
{
    struct hearer *hearer = context;

    hearer->type = event->type;
    hearer->private_data_length = event->private_data_length;
    hearer->thread = pthread_self();
    atomic_fetch_add(&hearer->events, 1);
}

static void hear_resolved(void *context, enum ual_status status,
                          const struct sockaddr_storage *source)
{
    struct hearer *hearer = context;

    hearer->resolved = status;
    hearer->has_source = source != NULL;
    if (source)
        hearer->source = *source;
    hearer->thread = pthread_self();
    atomic_fetch_add(&hearer->resolutions, 1);
}

static const struct ual_conn_upcalls upcalls = { hear_request, hear_event, hear_resolved };

static enum ual_hearing hear_request(void *context, struct ual_conn *request,
                                     const struct ri_connect_request *asked)
{
    struct hearer *hearer = context;

    hearer->private_data_length = asked->private_data_length;
    if (hearer->hearing == UAL_REQUEST_TAKEN) {
        hearer->request = request;
        ual_conn_migrate(request, &upcalls, hearer);
    }
    atomic_fetch_add(&hearer->requests, 1);
    return hearer->hearing;
}

static unsigned int events(struct hearer *hearer)
{
    fk_settle();
    return atomic_load(&hearer->events);
}

/* --- what stands before each test --- */

static struct ual_cq *cq;
static struct ual_qp *qp;
static struct ual_conn *conn;

static void setup_conn(void)
{
    setup();
    cq = make_cq(NULL, NULL);
    qp = make_qp(cq, NULL, NULL);
    ok(ual_conn_create(device, &upcalls, &one, &conn));
}

static void teardown_conn(void)
{
    if (conn)
        ual_conn_free(conn);
    ck_assert_uint_eq(fk.connections + fk.listeners, 0);
    ok(ual_qp_free(qp));
    ok(ual_cq_free(cq));
    teardown();
}

static struct sockaddr_in destination;

static struct ri_connect_param to(uint16_t port)
{
    destination = address(port);
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .destination = (struct sockaddr *)&destination,
        .deadline = RI_NO_DEADLINE,
        .private_data = "hello",
        .private_data_length = 5,
        .ird = 2,
        .ord = 1,
    };
}

static void tell(enum ri_connection_event_type type, uint16_t private_data_length)
{
    struct ri_connection_event event = {
        .size = sizeof(event),
        .type = type,
        .private_data = "answer",
        .private_data_length = private_data_length,
    };

    fk_connection_event(fk.connection, &event);
    fk_settle();
}

/* --- the active side --- */

START_TEST(connect_passes_through)
{
    struct ri_connect_param param = to(4791);

    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    ck_assert_uint_eq(fk.connection->param.ird, 2);
    ck_assert_uint_eq(fk.connection->param.private_data_length, 5);
    ck_assert_ptr_eq(fk.connection->param.destination, &destination);
    ck_assert_ptr_null(fk.connection->param.source);
    fails(ual_conn_connect(conn, qp, &param), UAL_ERR_INVALID_STATE);
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_ESTABLISHED);
    tell(RI_CONNECTION_DISCONNECTED, 3);
    ck_assert_uint_eq(events(&one), 2);
    ck_assert_uint_eq(one.private_data_length, 3);
    ck_assert(!pthread_equal(one.thread, pthread_self())); /* in the lane */
}
END_TEST

/* What failed has begun nothing: the object is as new, and another attempt may follow. */
START_TEST(failed_calls_are_translated_and_leave_nothing)
{
    static const struct {
        enum kal_status below;
        enum ual_status here;
    } table[] = {
        { KAL_ERR_UNREACHABLE, UAL_ERR_UNREACHABLE },
        { KAL_ERR_PERMISSION, UAL_ERR_PERMISSION },
        { KAL_ERR_ADDRESS_IN_USE, UAL_ERR_ADDRESS_IN_USE },
        { KAL_ERR_QUOTA, UAL_ERR_NO_RESOURCES },
        { KAL_ERR_LIMIT, UAL_ERR_LIMIT },
        { KAL_ERR_NOT_SUPPORTED, UAL_ERR_NOT_SUPPORTED },
    };
    struct ual_adopt_param adopt = { .fd = 0 };
    struct ri_connect_param param = to(1);

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        fk_fail(FK_CONNECTION_CREATE, table[i].below);
        fails(ual_conn_connect(conn, qp, &param), table[i].here);
        fk_fail(FK_CONNECT, table[i].below);
        fails(ual_conn_connect(conn, qp, &param), table[i].here);
        fk_fail(FK_CONVERT, table[i].below);
        fails(ual_conn_adopt(conn, qp, &adopt), table[i].here);
        fk_fail(FK_SERVICE_REQUEST, table[i].below);
        fails(ual_conn_ask(conn, &param), table[i].here);
        ck_assert_uint_eq(fk.connections, 0);
    }
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert_uint_eq(events(&one), 0);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_settle();
    ual_conn_free(conn);
    fails(ual_conn_create(device, &upcalls, &one, &conn), UAL_ERR_DEAD);
    conn = NULL;
}
END_TEST

START_TEST(without_a_connection_there_is_nothing_to_do)
{
    struct ri_connection_event info = { .size = sizeof(info) };
    struct ri_service_reply reply = { .size = sizeof(reply) };
    struct ri_connect_param param = to(1);

    fails(ual_conn_accept(conn, qp, &param), UAL_ERR_INVALID_STATE);
    fails(ual_conn_attach(conn, qp), UAL_ERR_INVALID_STATE);
    fails(ual_conn_confirm(conn, &param), UAL_ERR_INVALID_STATE);
    fails(ual_conn_reject(conn, NULL, 0), UAL_ERR_INVALID_STATE);
    fails(ual_conn_disconnect(conn, qp, NULL, 0), UAL_ERR_INVALID_STATE);
    fails(ual_conn_query(conn, &info), UAL_ERR_INVALID_STATE);
    fails(ual_conn_answer(conn, &reply), UAL_ERR_INVALID_STATE);
    ual_conn_room(conn);
}
END_TEST

START_TEST(three_way)
{
    struct ri_connect_param param = to(1);

    param.three_way = true;
    ok(ual_conn_connect(conn, qp, &param));
    ck_assert(fk.connection->param.three_way);
    tell(RI_CONNECTION_ACCEPTED, 6);
    ck_assert_int_eq(one.type, RI_CONNECTION_ACCEPTED);
    ck_assert_uint_eq(one.private_data_length, 6);
    fk_fail(FK_CONFIRM, KAL_ERR_TIMED_OUT);
    fails(ual_conn_confirm(conn, &param), UAL_ERR_TIMED_OUT);
    ok(ual_conn_confirm(conn, &param));
    ck_assert_uint_eq(fk.confirms, 1);
    ok(ual_conn_reject(conn, NULL, 0)); /* that the fake kal has no word against */
    ck_assert_uint_eq(fk.rejects, 1);
}
END_TEST

START_TEST(attached_later)
{
    struct ri_connect_param param = to(1);

    ok(ual_conn_connect(conn, NULL, &param));
    ck_assert_ptr_null(fk.connection->qp);
    ok(ual_conn_attach(conn, qp));
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    fails(ual_conn_attach(conn, qp), UAL_ERR_INVALID_STATE);
}
END_TEST

START_TEST(disconnect_and_query)
{
    struct ri_connection_event info = { .size = sizeof(info) };
    struct ri_connect_param param = to(1);

    ok(ual_conn_connect(conn, qp, &param));
    fails(ual_conn_disconnect(conn, qp, "bye", 3), UAL_ERR_INVALID_STATE);
    fk.connection->info.ird = 12;
    fk_establish(fk.connection);
    fk_settle();
    ok(ual_conn_query(conn, &info));
    ck_assert_int_eq(info.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(info.ird, 12);
    fk_fail(FK_DISCONNECT, KAL_ERR_NOT_SUPPORTED);
    fails(ual_conn_disconnect(conn, qp, "bye", 3), UAL_ERR_NOT_SUPPORTED);
    ok(ual_conn_disconnect(conn, qp, "bye", 3));
    ck_assert_uint_eq(fk.disconnects, 1);
    ck_assert_uint_eq(fk.connection->private_data_length, 3);
}
END_TEST

/* Freeing does not touch what is established, and no event comes any more. */
START_TEST(freed_while_it_is_established)
{
    struct ri_connect_param param = to(1);
    struct ri_qp_info info;

    ok(ual_conn_connect(conn, qp, &param));
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
    fk_hold(true);
    fk_connection_event(fk.connection,
                        &(struct ri_connection_event){ .type = RI_CONNECTION_DISCONNECTED });
    ual_conn_free(conn);
    conn = NULL;
    fk_hold(false);
    ck_assert_uint_eq(events(&one), 1);
    ok(ual_qp_query(qp, &info));
    ck_assert_int_eq(info.state, RI_QPS_RTS);
}
END_TEST

START_TEST(asked_by_datagram)
{
    struct ri_connect_param param = to(1);

    ok(ual_conn_ask(conn, &param));
    ck_assert_uint_eq(fk.questions, 1);
    ck_assert_uint_eq(fk.connection->param.private_data_length, 5);
    tell(RI_CONNECTION_SERVICE_REPLY, 2);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_SERVICE_REPLY);
    fails(ual_conn_ask(conn, &param), UAL_ERR_INVALID_STATE); /* a question each */
}
END_TEST

START_TEST(adopt_passes_the_descriptor)
{
    struct ual_adopt_param param = {
        .fd = 42,
        .initiator = true,
        .startup_frames = true,
        .last_message = "go",
        .last_message_length = 2,
        .ird = 5,
        .ord = 6,
        .deadline = 77,
    };

    ok(ual_conn_adopt(conn, qp, &param));
    ck_assert_uint_eq(fk.converted.size, sizeof(fk.converted));
    ck_assert_int_eq(fk.converted.fd, 42);
    ck_assert(fk.converted.initiator);
    ck_assert(fk.converted.startup_frames);
    ck_assert_str_eq(fk.converted.last_message, "go");
    ck_assert_uint_eq(fk.converted.last_message_length, 2);
    ck_assert_uint_eq(fk.converted.ird, 5);
    ck_assert_uint_eq(fk.converted.ord, 6);
    ck_assert_uint_eq(fk.converted.deadline, 77);
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
}
END_TEST

/* --- the passive side --- */

static void listen_on(uint16_t port)
{
    struct sockaddr_in any = address(port);
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (struct sockaddr *)&any,
                                     .backlog = 7 };
    struct sockaddr_storage bound;

    ok(ual_conn_listen(conn, &param, &bound));
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(port ? port : 4711));
    ck_assert_uint_eq(fk.listen_param.backlog, 7);
}

static void ask(bool datagram)
{
    fk_request(fk.listener, &(struct ri_connect_request){ .size = sizeof(struct ri_connect_request),
                                                          .private_data = "please",
                                                          .private_data_length = 6,
                                                          .datagram = datagram });
}

static struct ual_conn *asked(bool datagram)
{
    ask(datagram);
    fk_settle();
    ck_assert_uint_eq(atomic_exchange(&one.requests, 0), 1);
    ck_assert_uint_eq(one.private_data_length, 6);
    return one.request;
}

START_TEST(taken_and_accepted)
{
    struct ri_connect_param param = to(1);
    struct ual_conn *request;

    listen_on(0);
    request = asked(false);
    fk_fail(FK_ACCEPT, KAL_ERR_LIMIT);
    fails(ual_conn_accept(request, qp, &param), UAL_ERR_LIMIT); /* still undecided */
    ok(ual_conn_accept(request, qp, &param));
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
    fk_establish(fk.connection);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_ESTABLISHED);
    fails(ual_conn_accept(request, qp, &param), UAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(taken_and_rejected)
{
    struct ual_conn *request;

    listen_on(5);
    request = asked(false);
    fk_fail(FK_REJECT, KAL_ERR_LIMIT);
    fails(ual_conn_reject(request, "no", 2), UAL_ERR_LIMIT);
    ok(ual_conn_reject(request, "no", 2));
    ck_assert_uint_eq(fk.rejects, 1);
    ck_assert_uint_eq(fk.connections, 1); /* it remains to be freed */
    ual_conn_free(request);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(taken_and_answered)
{
    struct ri_service_reply reply = { .size = sizeof(reply), .qkey = 3 };
    struct ual_conn *request;

    listen_on(5);
    request = asked(true);
    ok(ual_conn_answer(request, &reply));
    ck_assert_uint_eq(fk.replies, 1);
    ck_assert_uint_eq(fk.service_reply.qkey, 3);
    fails(ual_conn_answer(request, &reply), UAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
}
END_TEST

START_TEST(taken_and_withdrawn)
{
    struct ri_service_reply reply = { .size = sizeof(reply) };
    struct ri_connect_param param = to(1);
    struct ual_conn *request;

    listen_on(5);
    request = asked(false);
    fk_withdraw(fk.connection, true);
    ck_assert_uint_eq(events(&one), 1);
    ck_assert_int_eq(one.type, RI_CONNECTION_FAILED);
    fails(ual_conn_accept(request, qp, &param), UAL_ERR_INVALID_HANDLE);
    fails(ual_conn_reject(request, NULL, 0), UAL_ERR_INVALID_HANDLE);
    fails(ual_conn_answer(request, &reply), UAL_ERR_INVALID_HANDLE);
    ual_conn_free(request);
}
END_TEST

/* Undecided requests live on by themselves. */
START_TEST(taken_and_the_listener_freed)
{
    struct ri_connect_param param = to(1);
    struct ual_conn *request;

    listen_on(5);
    request = asked(false);
    ual_conn_free(conn);
    conn = NULL;
    ck_assert_uint_eq(fk.listeners, 0);
    ok(ual_conn_accept(request, qp, &param));
    ual_conn_free(request);
}
END_TEST

START_TEST(deferred_until_there_is_room)
{
    listen_on(5);
    one.hearing = UAL_REQUEST_DEFERRED;
    ask(false);
    fk_settle();
    ck_assert_uint_eq(atomic_load(&one.requests), 1);
    ck_assert_uint_eq(fk.waiting, 1);
    ck_assert_uint_eq(fk.connections, 0);
    ual_conn_room(conn);
    fk_settle();
    ck_assert_uint_eq(atomic_load(&one.requests), 2);
    ck_assert_uint_eq(fk.waiting, 1); /* still none */
    one.hearing = UAL_REQUEST_TAKEN;
    ual_conn_room(conn);
    fk_settle();
    ck_assert_uint_eq(atomic_load(&one.requests), 3);
    ck_assert_uint_eq(fk.waiting, 0);
    ual_conn_free(one.request);
    one.hearing = UAL_REQUEST_DEFERRED;
    ask(false);
    fk_settle();
    ck_assert_uint_eq(fk.waiting, 1);
    ual_conn_free(conn); /* with those that wait */
    conn = NULL;
    ck_assert_uint_eq(fk.waiting, 0);
}
END_TEST

START_TEST(dropped)
{
    listen_on(5);
    one.hearing = UAL_REQUEST_DROPPED;
    ask(false);
    ask(false);
    fk_settle();
    ck_assert_uint_eq(atomic_load(&one.requests), 2);
    ck_assert_uint_eq(fk.connections + fk.waiting, 0);
    ck_assert_ptr_null(one.request);
}
END_TEST

/* --- addresses --- */

static void bind_to(uint16_t port)
{
    struct sockaddr_in any = address(port);
    struct sockaddr_storage bound;

    ok(ual_conn_bind(conn, (struct sockaddr *)&any, &bound));
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(port ? port : 4711));
    ck_assert_uint_eq(fk.listeners, 1);
}

/* Nobody hears of who asks at an address that is held only. */
START_TEST(bound_then_listening)
{
    struct ri_listen_param param = { .size = sizeof(param), .backlog = 7 };
    struct sockaddr_in any = address(9);
    struct sockaddr_storage bound;

    bind_to(0);
    ask(false);
    fk_settle();
    ck_assert_uint_eq(atomic_load(&one.requests), 0);
    ck_assert_uint_eq(fk.connections, 0);
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), UAL_ERR_INVALID_STATE);
    ok(ual_conn_listen(conn, &param, &bound));
    ck_assert_uint_eq(fk.listeners, 1);
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(4711));
    ual_conn_free(asked(false));
    fails(ual_conn_listen(conn, &param, NULL), UAL_ERR_INVALID_STATE);
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
    param.source = (struct sockaddr *)&own; /* the caller knows better */
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

    fails(ual_conn_bind(conn, NULL, NULL), UAL_ERR_INVALID_ARGUMENT);
    fails(ual_conn_listen(conn, &param, NULL), UAL_ERR_INVALID_ARGUMENT);
    fk_fail(FK_LISTEN, KAL_ERR_ADDRESS_IN_USE);
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), UAL_ERR_ADDRESS_IN_USE);
    param.address = (struct sockaddr *)&any;
    fk_fail(FK_LISTEN, KAL_ERR_PERMISSION);
    fails(ual_conn_listen(conn, &param, NULL), UAL_ERR_PERMISSION);
    ok(ual_conn_create(device, &deaf, NULL, &other));
    fails(ual_conn_listen(other, &param, NULL), UAL_ERR_INVALID_ARGUMENT);
    ual_conn_free(other);
    ck_assert_uint_eq(fk.listeners, 0);
    ok(ual_conn_listen(conn, &param, NULL)); /* none of it was held against the object */
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), UAL_ERR_INVALID_STATE);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_settle();
    fails(ual_conn_bind(conn, (struct sockaddr *)&any, NULL), UAL_ERR_DEAD);
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
    fk_fail(FK_ROUTE, KAL_ERR_UNREACHABLE);
    ok(ual_conn_resolve(conn, (struct sockaddr *)&there)); /* again, and there is none */
    ck_assert(tc_until(atomic_load(&one.resolutions) == 2, 10000));
    fails(one.resolved, UAL_ERR_UNREACHABLE);
    ck_assert(!one.has_source);
    fails(ual_conn_resolve(conn, NULL), UAL_ERR_INVALID_ARGUMENT);
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

/* Another connection, in whose upcall the lane is: nothing else happens there meanwhile. */
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
    fails(ual_conn_resolve(conn, (struct sockaddr *)&there), UAL_ERR_INVALID_STATE);
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
    fk_settle();
    ck_assert_uint_eq(atomic_load(&one.resolutions), 0);
}
END_TEST

/* At any moment of it. */
START_TEST(freed_while_it_is_resolved)
{
    struct tc_rng rng = tc_rng(1);
    struct sockaddr_in there = address(1);

    for (unsigned long i = tc_count(3000); i; i--) {
        unsigned int before;

        ok(ual_conn_resolve(conn, (struct sockaddr *)&there));
        for (uint64_t wait = tc_below(&rng, 20000); wait; wait--)
            __asm__ volatile("");
        if (tc_below(&rng, 2))
            sched_yield();
        ual_conn_free(conn);
        before = atomic_load(&one.resolutions);
        ok(ual_conn_create(device, &upcalls, &one, &conn));
        ck_assert_uint_eq(atomic_load(&one.resolutions), before);
    }
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
    ual_conn_migrate(conn, NULL, NULL); /* nobody */
    tell(RI_CONNECTION_FAILED, 2);
    ck_assert_uint_eq(events(&two), 1);
}
END_TEST

/* Each context's time is over when migrate has returned. */
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
        fk_settle();
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
        if (i % 4 == 0) /* events do flow */
            ck_assert(tc_until(atomic_load(&told_events) > before, 20000));
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
}
END_TEST

static void *free_it(void *arg)
{
    ual_conn_free(arg);
    atomic_store(&done, true);
    return NULL;
}

START_TEST(free_waits_for_the_upcall_that_runs)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, free_it, occupy_lane()), 0);
    ck_assert(!tc_until(atomic_load(&done), 50)); /* it has nothing else to wait for */
    atomic_store(&leave, true);
    pthread_join(thread, NULL);
    ck_assert(!atomic_load(&inside));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");

    tc_add_tests(tc_case(suite, "active", setup_conn, teardown_conn), connect_passes_through,
                 failed_calls_are_translated_and_leave_nothing,
                 without_a_connection_there_is_nothing_to_do, three_way, attached_later,
                 disconnect_and_query, freed_while_it_is_established, asked_by_datagram,
                 adopt_passes_the_descriptor);
    tc_add_tests(tc_case(suite, "passive", setup_conn, teardown_conn), taken_and_accepted,
                 taken_and_rejected, taken_and_answered, taken_and_withdrawn,
                 taken_and_the_listener_freed, deferred_until_there_is_room, dropped);
    tc_add_tests(tc_case(suite, "addresses", setup_conn, teardown_conn), bound_then_listening,
                 bound_then_connecting, bind_and_listen_refused);
    tc_add_tests(tc_case(suite, "resolution", setup_conn, teardown_conn), resolved_in_the_lane,
                 one_resolution_at_a_time, freed_before_it_is_resolved, freed_while_it_is_resolved);
    tc_add_tests(tc_case(suite, "who is told", setup_conn, teardown_conn), migrated_to_another,
                 no_upcall_to_the_earlier_context_after_migrate,
                 free_waits_for_the_upcall_that_runs);
    return tc_main(suite);
}
