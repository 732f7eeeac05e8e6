/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults: a device that fails, is removed, or whose objects are destroyed during an operation;
 * peers that do not answer. Tests the events, that outstanding work is flushed, and that all
 * objects can be freed.
 */
#include "fake.h"

#include "base/clock.h"
#include "tc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

#define SENDS    3u
#define RECEIVES 2u

static struct fake_set set;
static struct ri_connection *connection;
static struct fake_id *id;

static const struct ri_privileged_ops *ops(void)
{
    return &set.host.privileged;
}

static void setup(void)
{
    fake_open(&set, false);
    ck_assert_int_eq(ops()->connection_create(set.host.rnic, &set, &connection), RI_OK);
    id = fake_id(connection);
}

static void teardown(void)
{
    fake_fail_destroys(0);
    if (connection)
        ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    fake_close(&set);
}

static void tell(enum rdma_cm_event_type type, int status)
{
    fake_cm(id, type, status, NULL);
    fake_run(&set);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
}

static void begin_connecting(uint64_t deadline)
{
    static const struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = 0x1234 };
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (const struct sockaddr *)&there,
                                      .deadline = deadline };

    ck_assert_int_eq(ops()->connect(connection, set.qp, &param), RI_OK);
    fake_cm_device(id, "fake0");
}

static void establish(void)
{
    begin_connecting(RI_NO_DEADLINE);
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    ck_assert_uint_eq(fake_events.count, 1);
    ck_assert_int_eq(fake_events.event[0].type, RI_CONNECTION_ESTABLISHED);
}

static void post_work(void)
{
    struct ri_send_wr send = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED }, *bad_send;
    struct ri_recv_wr receive = { .cookie = 1 }, *bad_receive;

    for (unsigned int i = 0; i < SENDS; i++)
        ck_assert_int_eq(set.host.user.post_send(set.qp, &send, &bad_send), RI_OK);
    for (unsigned int i = 0; i < RECEIVES; i++)
        ck_assert_int_eq(set.host.user.post_recv(set.qp, &receive, &bad_receive), RI_OK);
}

static unsigned int flushed(void)
{
    struct ri_wc wc;
    unsigned int count = 0;

    while (set.host.user.poll(set.cq, 1, &wc)) {
        ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
        count++;
    }
    return count;
}

/* ---- the device ---- */

static unsigned int flushed_before_told;

static void count_when_told(const struct ri_host *host, void *rnic_context,
                            const struct ri_event *event)
{
    (void)host, (void)rnic_context;
    ck_assert(event->type == RI_EVENT_RNIC_FATAL || event->type == RI_EVENT_DEVICE_GONE);
    fake_rnic_events++;
    flushed_before_told = flushed();
}

enum way { FATAL, CHANNELS, REMOVAL, WAYS };

static void lose(enum way way)
{
    if (way == FATAL)
        fake_async(IBV_EVENT_DEVICE_FATAL, NULL);
    else if (way == CHANNELS)
        fake_lose_device();
    else
        fake_cm(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    for (int i = 0; i < 3; i++) /* an ended QP stays ended */
        fake_run(&set);
}

/* However the device is lost, the connection ends and its work is flushed, without any timer,
 * before the host gets the last event; a thread that sleeps on the CQ is woken. */
START_TEST(device_lost_with_work_outstanding)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    establish();
    set.host.host.rnic_event = count_when_told;
    post_work();
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NEXT, 0), RI_OK);
    lose((enum way)_i);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_uint_eq(flushed_before_told, SENDS + RECEIVES);
    ck_assert_uint_eq(flushed(), 0);
    if (_i == REMOVAL) {
        ck_assert_uint_eq(fake_events.count, 2);
        ck_assert_int_eq(fake_events.event[1].type, RI_CONNECTION_FAILED);
        ck_assert_uint_eq(atomic_load(&set.qp_record.count), 0);
    } else {
        ck_assert_uint_eq(atomic_load(&set.qp_record.count), 1);
        ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LLP_LOST);
    }
    ck_assert_uint_eq(atomic_load(&set.cq_record.count), 1);
    ck_assert_int_eq(ops()->qp_query(set.qp, &info), RI_OK);
    ck_assert_int_eq(info.state, RI_QPS_ERROR);
    post_work(); /* later work is flushed, too */
    ck_assert_uint_eq(flushed(), SENDS + RECEIVES);
}
END_TEST

/* An unconnected QP reports nothing; its receives are flushed nevertheless. */
START_TEST(device_lost_under_an_idle_qp)
{
    struct ri_recv_wr receive = { .cookie = 1 }, *bad;

    ck_assert_int_eq(set.host.user.post_recv(set.qp, &receive, &bad), RI_OK);
    lose((enum way)_i);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 0);
    ck_assert_uint_eq(flushed(), 1);
}
END_TEST

/* Every QP, not only the one whose connection got the event. */
START_TEST(device_lost_under_many)
{
    struct fake_record others[3] = { 0 };
    struct ri_qp *qps[3];

    establish();
    for (int i = 0; i < 3; i++) {
        qps[i] = fake_make_qp(&set, NULL, &others[i]);
        fake_connect_qp(qps[i]);
    }
    lose((enum way)_i);
    ck_assert_uint_eq(fake_rnic_events, 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(atomic_load(&others[i].count), 1);
        ck_assert_int_eq(others[i].type[0], RI_EVENT_LLP_LOST);
        ck_assert_int_eq(ops()->qp_destroy(qps[i]), RI_OK);
    }
}
END_TEST

/* Objects can be freed before and after the removal's events are read. */
START_TEST(device_lost_before_its_events_are_read)
{
    static char memory[64];
    struct ri_mr_attr region = { .size = sizeof(region), .addr = memory, .length = 64 };
    struct ri_srq_attr queue = { .size = sizeof(queue), .max_wr = 4, .max_sge = 1 };
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    struct ri_srq *srq;
    struct ri_mw *mw;
    uint32_t stag;

    establish();
    post_work();
    ck_assert_int_eq(ops()->mr_register(set.pd, &region, &keys, &mr), RI_OK);
    ck_assert_int_eq(ops()->srq_create(set.pd, &queue, &srq), RI_OK);
    ck_assert_int_eq(ops()->mw_allocate(set.pd, true, NULL, &stag, &mw), RI_OK);
    fake_fail_destroys(_i ? ENODEV : EIO);
    ck_assert_int_eq(ops()->qp_destroy(set.qp), RI_OK);
    set.qp = NULL;
    ck_assert_int_eq(ops()->mw_free(mw), RI_OK);
    ck_assert_int_eq(ops()->mr_deregister(mr), RI_OK);
    ck_assert_int_eq(ops()->srq_destroy(srq), RI_OK);
    ck_assert_uint_eq(flushed(), 0); /* nothing of a destroyed QP */
    tell(RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    ck_assert_uint_eq(fake_rnic_events, 1);
}
END_TEST

/* An object that the device refuses to destroy still exists, with its events. */
START_TEST(refused_destruction)
{
    establish();
    fake_fail_destroys(EBUSY);
    ck_assert_int_eq(ops()->qp_destroy(set.qp), RI_ERR_BUSY);
    fake_fail_destroys(0);
    fake_async(IBV_EVENT_QP_FATAL, &fake_qp(set.qp)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_QP_FATAL);
    lose(FATAL);
    ck_assert_uint_eq(fake_rnic_events, 1);
}
END_TEST

static void listen_on(struct ri_listener **listener)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (const struct sockaddr *)&in,
                                     .backlog = 4 };
    struct sockaddr_storage bound;

    ck_assert_int_eq(ops()->listen(set.host.rnic, &param, &set, &bound, listener), RI_OK);
}

/* With neither a connection nor a listener the removal is still noticed. */
START_TEST(removal_told_to_nobody_else)
{
    struct fake_id *at = fake_ids();

    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    connection = NULL;
    while (at && (at->destroyed || at->id.context))
        at = at->next;
    ck_assert_ptr_nonnull(at);
    fake_cm(at, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_DEVICE_GONE);
}
END_TEST

/* The lane runs as soon as the identifier is bound: the removal may be reported before the
 * identifier has been stored. */
START_TEST(removal_told_before_the_guard_is_known)
{
    struct rnic *rnic = rnic_of(fake_below(set.host.rnic));
    struct rdma_cm_id *guard = rnic->guard;

    rnic->guard = NULL;
    fake_cm(container_of(guard, struct fake_id, id), RDMA_CM_EVENT_ADDR_CHANGE, 0, NULL);
    fake_cm(container_of(guard, struct fake_id, id), RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    fake_run(&set);
    rnic->guard = guard;
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_uint_eq(fake_events.count, 0);
}
END_TEST

START_TEST(removal_told_to_a_listener)
{
    struct ri_listener *listener;

    listen_on(&listener);
    fake_cm(fake_ids(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_DEVICE_GONE);
    ck_assert_uint_eq(fake_events.count, 0);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

/* The host has no memory for it: no object is left. */
START_TEST(request_that_nobody_keeps)
{
    static const struct rdma_conn_param asked = { .responder_resources = 1, .initiator_depth = 1 };
    struct ri_listener *listener;
    struct fake_id *dropped;
    int before;

    listen_on(&listener);
    before = fake_objects();
    fake_no_memory = true;
    dropped = fake_cm_request(fake_ids(), &asked);
    fake_run(&set);
    fake_no_memory = false;
    ck_assert_uint_eq(dropped->calls[FAKE_REJECT], 1);
    ck_assert(dropped->destroyed);
    ck_assert_int_eq(fake_objects(), before);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

/* A request that the consumer has not decided yet. */
START_TEST(removal_told_to_a_request)
{
    static const struct rdma_conn_param asked = { .responder_resources = 1, .initiator_depth = 1 };
    struct ri_connect_param param = { .size = sizeof(param) };
    struct ri_listener *listener;

    listen_on(&listener);
    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    id = fake_cm_request(fake_ids(), &asked);
    fake_run(&set);
    connection = fake_asked;
    tell(RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    ck_assert_uint_eq(fake_events.count, 1);
    ck_assert_int_eq(fake_events.event[0].type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(ops()->accept(connection, set.qp, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ops()->listen_destroy(listener), RI_OK);
}
END_TEST

/* rdma_cm has moved the attempt to another device, and that one is removed. */
START_TEST(removal_of_another_device)
{
    begin_connecting(RI_NO_DEADLINE);
    fake_cm_device(id, "other0");
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    ck_assert_uint_eq(fake_events.count, 1);
    tell(RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    ck_assert_uint_eq(fake_rnic_events, 0);
    ck_assert_uint_eq(fake_events.count, 1);
}
END_TEST

/* ---- events that are ignored ---- */

START_TEST(no_event_of_ours)
{
    static const enum ibv_event_type types[] = { IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
                                                 IBV_EVENT_PATH_MIG_ERR,
                                                 IBV_EVENT_QP_LAST_WQE_REACHED,
                                                 IBV_EVENT_COMM_EST };
    static const enum ibv_event_type ports[] = { IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
                                                 IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER };

    establish();
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        fake_async(types[i], &fake_qp(set.qp)->ibv);
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
        fake_async(ports[i], NULL);
    tell(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    tell(RDMA_CM_EVENT_ADDR_CHANGE, 0);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 0);
    ck_assert_uint_eq(fake_rnic_events, 0);
    ck_assert_uint_eq(fake_events.count, 1);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_RTS);
}
END_TEST

/* The time wait of an ended connection expires while its QP serves the next one. */
START_TEST(late_events_of_an_ended_connection)
{
    establish();
    tell(RDMA_CM_EVENT_DISCONNECTED, 0);
    ck_assert_uint_eq(fake_events.count, 2);
    tell(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    ck_assert_uint_eq(fake_events.count, 3);
    ck_assert_int_eq(fake_events.event[2].type, RI_CONNECTION_TIME_WAIT_EXIT);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0);
    tell(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    tell(RDMA_CM_EVENT_REJECTED, 4);
    ck_assert_uint_eq(fake_events.count, 3);
}
END_TEST

/* The device reports a QP error that the completion of a request explains, in either order. */
START_TEST(fatal_event_explained_by_a_request)
{
    struct ri_wc wc;

    establish();
    post_work();
    fake_sent(set.qp, set.cq, 0, IBV_WC_LOC_QP_OP_ERR);
    fake_async(IBV_EVENT_QP_FATAL, &fake_qp(set.qp)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LOCAL_ERROR);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 1);
    ck_assert_int_eq(wc.status, RI_WC_LOCAL_QP);
}
END_TEST

/* ---- peers that do not answer ---- */

static bool told_before_given_up;

static void look_when_told(const struct ri_host *host, void *connection_context,
                           const struct ri_connection_event *event)
{
    (void)host, (void)connection_context;
    told_before_given_up = !id->destroyed;
    fake_events.event[fake_events.count++] = *event;
}

/* rdma_cm's time-outs are later than the attempt's deadline, so that one of the two always
 * reports. */
START_TEST(patience_exceeds_the_deadline)
{
    begin_connecting(clock_after(clock_now(), 5000 * CLOCK_NS_PER_MS));
    ck_assert_int_gt(id->patience, 5500);
    ck_assert_int_lt(id->patience, 6500);
    id->patience = 0;
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    ck_assert_int_gt(id->patience,
                     5000); /* less than half a second has passed, or this machine is asleep */
    set.host.host.connection_event = look_when_told;
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_uint_eq(fake_events.count, 1);
    ck_assert_int_eq(fake_events.event[0].reason, RI_REASON_TIMEOUT);
    ck_assert(told_before_given_up); /* destroying may take a driver some time */
    ck_assert(id->destroyed);
}
END_TEST

/* A disconnect also ends if the peer never answers it; remaining work is flushed. */
START_TEST(disconnect_without_an_answer)
{
    establish();
    post_work();
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_OK);
    ck_assert_uint_eq(fake_events.count, 1);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_uint_eq(fake_events.count, 2);
    ck_assert_int_eq(fake_events.event[1].type, RI_CONNECTION_DISCONNECTED);
    ck_assert(id->destroyed);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_ERR);
    fake_host_expire_timers(&set.host); /* the fake device never flushes */
    fake_run(&set);
    ck_assert_uint_eq(flushed(), SENDS + RECEIVES);
    ck_assert_uint_eq(fake_events.count, 2);
}
END_TEST

/* The answer comes in time: the deadline has no effect. */
START_TEST(disconnect_answered)
{
    establish();
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_OK);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0);
    ck_assert_uint_eq(fake_events.count, 2);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_uint_eq(fake_events.count, 2);
    ck_assert(!id->destroyed);
}
END_TEST

/* ---- destroyed during an operation ---- */

static struct {
    pthread_t thread;
    atomic_bool begun;
    bool started;
    int objects;
} destroyer;

static void *destroy(void *arg)
{
    atomic_store(&destroyer.begun, true);
    ck_assert_int_eq(ops()->qp_destroy(arg), RI_OK);
    return NULL;
}

static void *destroy_connection(void *arg)
{
    atomic_store(&destroyer.begun, true);
    ck_assert_int_eq(ops()->connection_destroy(arg), RI_OK);
    return NULL;
}

/* The other thread has to wait for the end of this upcall. */
static void start_destroyer(void *(*what)(void *), void *object)
{
    uint64_t until = tc_deadline(50);

    if (destroyer.started)
        return;
    destroyer.started = true;
    destroyer.objects = fake_objects();
    ck_assert_int_eq(pthread_create(&destroyer.thread, NULL, what, object), 0);
    while (!atomic_load(&destroyer.begun) || !tc_expired(until))
        sched_yield();
    ck_assert_msg(fake_objects() == destroyer.objects, "what is in use was destroyed");
}

/* Called while a failed request is polled. */
static void destroy_meanwhile(struct ibv_qp *ibv)
{
    (void)ibv;
    start_destroyer(destroy, set.qp);
}

START_TEST(destroyed_while_its_failure_is_handled)
{
    struct ri_send_wr wr = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED }, *bad;
    struct ri_wc wc;

    establish();
    ck_assert_int_eq(set.host.user.post_send(set.qp, &wr, &bad), RI_OK);
    fake_sent(set.qp, set.cq, 0, IBV_WC_RETRY_EXC_ERR);
    fake_on_modify = destroy_meanwhile;
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 1);
    ck_assert(destroyer.started);
    ck_assert_int_eq(pthread_join(destroyer.thread, NULL), 0);
    fake_on_modify = NULL;
    set.qp = NULL;
    fake_host_expire_timers(&set.host); /* no timer is left behind */
    fake_run(&set);
}
END_TEST

/* While an event that affects its QP is handled: destroys the connection, then the QP. */
static void destroy_connection_meanwhile(struct ibv_qp *ibv)
{
    (void)ibv;
    start_destroyer(destroy_connection, connection);
}

/* The peer's acceptance, and the end of an open one. */
START_TEST(destroyed_while_its_event_is_handled)
{
    if (_i == 0) {
        begin_connecting(RI_NO_DEADLINE);
        tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    } else {
        establish();
    }
    fake_on_modify = destroy_connection_meanwhile;
    tell(_i == 0 ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_DISCONNECTED, 0);
    ck_assert(destroyer.started);
    ck_assert_int_eq(pthread_join(destroyer.thread, NULL), 0);
    fake_on_modify = NULL;
    connection = NULL;
    ck_assert(id->destroyed);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
}
END_TEST

/* The QP is destroyed before the connection, which uses it. An event that uses the QP delays
 * this. */
START_TEST(qp_destroyed_while_an_event_is_handled)
{
    begin_connecting(RI_NO_DEADLINE);
    tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    fake_on_modify = destroy_meanwhile;
    tell(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    ck_assert(destroyer.started);
    ck_assert_int_eq(pthread_join(destroyer.thread, NULL), 0);
    fake_on_modify = NULL;
    set.qp = NULL;
    tell(RDMA_CM_EVENT_DISCONNECTED, 0);
    ck_assert_uint_eq(fake_events.count, 2);
}
END_TEST

/* The same for an event of the device about the QP. */
START_TEST(qp_destroyed_while_the_device_reports_it)
{
    static const enum ibv_event_type types[] = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                                                 IBV_EVENT_QP_ACCESS_ERR };

    establish();
    fake_on_modify = destroy_meanwhile;
    fake_async(types[_i], &fake_qp(set.qp)->ibv);
    fake_run(&set);
    ck_assert(destroyer.started);
    ck_assert_int_eq(pthread_join(destroyer.thread, NULL), 0);
    fake_on_modify = NULL;
    set.qp = NULL;
    fake_host_expire_timers(&set.host);
    fake_run(&set);
}
END_TEST

/* An event of the CQ waits in the channel; no QP uses it any more. */
static void let_event_wait(void)
{
    struct ri_send_wr wr = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED }, *bad;

    establish();
    ck_assert_int_eq(set.host.user.post_send(set.qp, &wr, &bad), RI_OK);
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NEXT, 0), RI_OK);
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    ck_assert_int_eq(ops()->qp_destroy(set.qp), RI_OK);
    set.qp = NULL;
}

static void *destroy_cq(void *arg)
{
    atomic_store(&destroyer.begun, true);
    ck_assert_int_eq(ops()->cq_destroy(arg), RI_OK);
    return NULL;
}

/* As kal's upper side does: it polls, and arms again. */
static void destroy_cq_meanwhile(const struct ri_host *host, void *cq_context)
{
    struct ri_wc wc;

    (void)host, (void)cq_context;
    start_destroyer(destroy_cq, set.cq);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 0);
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NEXT, 0), RI_OK);
}

/* The device's CQ is not destroyed while the lane, or an upcall of it, may use it. */
START_TEST(cq_destroyed_while_its_event_is_handled)
{
    struct ri_cq_attr again = { .size = sizeof(again), .depth = 32, .context = &set.cq_record };

    let_event_wait();
    set.host.host.cq_event = destroy_cq_meanwhile;
    fake_run(&set);
    ck_assert(destroyer.started);
    ck_assert_int_eq(pthread_join(destroyer.thread, NULL), 0);
    ck_assert_int_eq(ops()->cq_create(set.host.rnic, &again, &set.cq), RI_OK);
}
END_TEST

static void run_lane(void)
{
    fake_run(&set);
}

/* Once its destruction has begun, an event of it is only acknowledged; if the device refuses the
 * destruction, it is handled then. */
START_TEST(event_while_its_cq_is_destroyed)
{
    struct ri_cq_attr again = { .size = sizeof(again), .depth = 32, .context = &set.cq_record };

    let_event_wait();
    fake_on_destroy_cq = run_lane;
    fake_fail_destroy(_i ? EBUSY : 0);
    ck_assert_int_eq(ops()->cq_destroy(set.cq), _i ? RI_ERR_BUSY : RI_OK);
    fake_on_destroy_cq = NULL;
    ck_assert_uint_eq(atomic_load(&set.cq_record.count), _i ? 1 : 0);
    if (!_i)
        ck_assert_int_eq(ops()->cq_create(set.host.rnic, &again, &set.cq), RI_OK);
}
END_TEST

/* Where no event came meanwhile none is told; later ones are. */
START_TEST(refused_destruction_of_a_cq)
{
    struct fake_record record = { 0 };

    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NEXT, 0), RI_OK);
    ck_assert_int_eq(ops()->qp_destroy(set.qp), RI_OK);
    fake_fail_destroy(EBUSY);
    ck_assert_int_eq(ops()->cq_destroy(set.cq), RI_ERR_BUSY);
    fake_run(&set);
    ck_assert_uint_eq(atomic_load(&set.cq_record.count), 0);
    set.qp = fake_make_qp(&set, NULL, &record);
    establish();
    post_work();
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    fake_run(&set);
    ck_assert_uint_eq(atomic_load(&set.cq_record.count), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_faults");
    TCase *device = tc_case(suite, "device", setup, teardown),
          *peer = tc_case(suite, "peer", setup, teardown);

    tcase_add_loop_test(device, device_lost_with_work_outstanding, 0, WAYS);
    tcase_add_loop_test(device, device_lost_under_an_idle_qp, 0, REMOVAL);
    tcase_add_loop_test(device, device_lost_under_many, 0, WAYS);
    tcase_add_loop_test(device, device_lost_before_its_events_are_read, 0, 2);
    tc_add_tests(device, refused_destruction, removal_told_to_nobody_else,
                 removal_told_before_the_guard_is_known, removal_told_to_a_listener,
                 request_that_nobody_keeps, removal_told_to_a_request, removal_of_another_device,
                 no_event_of_ours, fatal_event_explained_by_a_request,
                 destroyed_while_its_failure_is_handled);
    tcase_add_loop_test(device, destroyed_while_its_event_is_handled, 0, 2);
    tcase_add_test(device, qp_destroyed_while_an_event_is_handled);
    tcase_add_loop_test(device, qp_destroyed_while_the_device_reports_it, 0, 3);
    tcase_add_test(device, cq_destroyed_while_its_event_is_handled);
    tcase_add_loop_test(device, event_while_its_cq_is_destroyed, 0, 2);
    tcase_add_test(device, refused_destruction_of_a_cq);
    tc_add_tests(peer, late_events_of_an_ended_connection, patience_exceeds_the_deadline,
                 disconnect_without_an_answer, disconnect_answered);
    return tc_main(suite);
}
