/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: both sides at once, lanes run by threads,
 * destruction from other threads, set A. */
#include "cm_fake.h"

#include "base/clock.h"

#include <poll.h>

static void setup(void)
{
    fake_setup();
}

static void teardown(void)
{
    fake_teardown();
}

static struct ri_connect_param connect_param(const struct sockaddr_storage *at)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .destination = (const struct sockaddr *)at,
        .deadline = RI_NO_DEADLINE,
        .private_data = "hello",
        .private_data_length = 5,
        .ird = 4,
        .ord = 8,
        .negotiate_depths = true,
    };
}

static unsigned locked(const unsigned *value)
{
    unsigned copy;

    pthread_mutex_lock(&fake.lock);
    copy = *value;
    pthread_mutex_unlock(&fake.lock);
    return copy;
}

/* ---- both sides ---- */

static void both_sides(const char *address)
{
    struct sockaddr_storage at;
    struct kal_listener *listener = fake_listen(address, 0, 0, NULL, &at);
    struct fake_connection *active = fake_connection_new(), *passive;
    struct fake_qp *a = fake_qp_new(), *p = fake_qp_new();
    struct ri_connect_param param = connect_param(&at);
    struct ri_connection_event info = { .size = sizeof(info) };

    ck_assert_int_eq(kal_connect(active->connection, &a->base, &param), RI_OK);
    fake_until(fake.request_count == 1, 10000);
    passive = fake.requests[0].context;
    ck_assert_uint_eq(fake.requests[0].request.ird, 4);
    ck_assert_uint_eq(fake.requests[0].request.ord, 8);
    param.private_data = "welcome";
    param.private_data_length = 7;
    param.ird = 6;
    param.ord = 16;
    ck_assert_int_eq(kal_accept(passive->connection, &p->base, &param), RI_OK);
    fake_until(active->events == 1, 10000);
    ck_assert_int_eq(active->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_mem_eq(active->private_data, "welcome", 7);
    ck_assert_uint_eq(a->last.ird, 4);
    ck_assert_uint_eq(a->last.ord, 6);
    ck_assert_uint_eq(p->last.ird, 6);
    ck_assert_uint_eq(p->last.ord, 4);
    ck_assert(p->last.rtr_await);
    ck_assert_uint_eq(a->last.rtr_send, RI_RTR_READ);
    ck_assert_int_eq(kal_connection_info(passive->connection, &info), RI_OK);
    ck_assert_mem_eq(&info.peer, &active->last.local, sizeof(info.peer));
    ck_assert_mem_eq(&info.local, &active->last.peer, sizeof(info.local));
    fake_destroy(passive);
    kal_listen_destroy(listener);
}

START_TEST(ipv4)
{
    both_sides("127.0.0.1");
}
END_TEST

START_TEST(ipv6)
{
    both_sides("::1");
}
END_TEST

/* ---- threads ---- */

static void serve(struct fake_request *r)
{
    struct ri_connect_param param = { .size = sizeof(param), .ird = 4, .ord = 4 };
    struct fake_connection *c = r->context;

    if (((struct sockaddr_in *)&r->request.peer)->sin_port & 1)
        kal_reject(c->connection, "no", 2);
    else
        kal_accept(c->connection, (struct ri_qp *)r->listener, &param);
}

/* Connects, and destroys at a random moment, while threads run the lanes. */
START_TEST(destroy_while_lanes_run)
{
    struct sockaddr_storage at;
    struct fake_qp *served = fake_qp_new(), *qp = fake_qp_new();
    struct kal_listener *listener;
    struct tc_rng rng = tc_rng(7);
    struct fake_connection context;

    served->answer = RI_ERR_NO_RESOURCES; /* one QP for all */
    qp->answer = RI_ERR_NO_RESOURCES;
    fake.on_request = serve;
    listener = fake_listen("127.0.0.1", 0, 0, served, &at);
    fake_lane_run_thread(fake.lane);
    fake_lane_run_thread(fake.lane2);
    for (unsigned long i = 0; i < tc_count(400); i++) {
        struct ri_connect_param param = connect_param(&at);
        struct kal_connection *c;
        unsigned requests = locked(&fake.request_count);

        memset(&context, 0, sizeof(context));
        ck_assert_int_eq(kal_connection_create(&fake.rnic, fake.lane2, &context, &c), RI_OK);
        ck_assert_int_eq(kal_connect(c, &qp->base, &param), RI_OK);
        switch (tc_below(&rng, 4)) {
        case 0: break;
        case 1: tc_until(locked(&fake.request_count) != requests, 100); break;
        case 2: ck_assert(tc_until(locked(&context.events), 10000)); break;
        case 3: kal_cm_qp_destroy(&fake.rnic, &qp->base); break;
        }
        kal_connection_destroy(c);
        ck_assert_uint_le(context.events, 1); /* unlocked: no upcall runs any more */
        if (locked(&fake.request_count) > FAKE_REQUESTS - 8) {
            /* Make room: the listener is destroyed first, so that no upcall fills the pool
             * meanwhile. */
            kal_listen_destroy(listener);
            for (unsigned k = 0; k < fake.request_count; k++)
                kal_connection_destroy(fake.pool[k].connection);
            fake.request_count = 0;
            listener = fake_listen("127.0.0.1", 0, 0, served, &at);
        }
    }
    kal_listen_destroy(listener);
    for (unsigned k = 0; k < fake.request_count; k++)
        kal_connection_destroy(fake.pool[k].connection);
}
END_TEST

static pthread_barrier_t inside, outside;

static void stay(struct fake_request *r)
{
    (void)r;
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&outside);
}

static void *destroy_connection(void *arg)
{
    kal_connection_destroy(fake.pool[0].connection);
    *(_Atomic bool *)arg = true;
    return NULL;
}

static void *destroy_listener(void *arg)
{
    kal_listen_destroy((struct kal_listener *)fake.a_listener_context);
    *(_Atomic bool *)arg = true;
    return NULL;
}

/* A destroy call waits for an upcall in another thread. */
START_TEST(destroy_waits_for_the_upcall)
{
    uint8_t octets[600];
    struct sockaddr_storage at;
    struct kal_listener *listener = fake_listen("127.0.0.1", 0, 0, NULL, &at);
    _Atomic bool done = false;
    pthread_t thread;
    int peer = peer_connect(&at);
    struct cm_lifetime *lifetime = NULL;
    bool dead = false;

    pthread_barrier_init(&inside, NULL, 2);
    pthread_barrier_init(&outside, NULL, 2);
    fake.on_request = stay;
    fake_lane_run_thread(fake.lane);
    peer_send(peer, octets, frame_request(octets, F_C, 1, 0, 0, NULL, 0));
    pthread_barrier_wait(&inside);
    lifetime = _i ? &listener->lifetime : &fake.pool[0].connection->lifetime;
    fake.a_listener_context = listener;
    pthread_create(&thread, NULL, _i ? destroy_listener : destroy_connection, &done);
    while (!dead) { /* until the destroy waits */
        pthread_mutex_lock(&lifetime->lock);
        dead = lifetime->dead;
        pthread_mutex_unlock(&lifetime->lock);
    }
    ck_assert(!done);
    pthread_barrier_wait(&outside);
    pthread_join(thread, NULL);
    ck_assert(done);
    if (_i)
        kal_connection_destroy(fake.pool[0].connection);
    else
        kal_listen_destroy(listener);
    close(peer);
    pthread_barrier_destroy(&inside);
    pthread_barrier_destroy(&outside);
}
END_TEST

static struct kal_listener *targets[2];
static _Atomic unsigned hops;

static void hop(struct fake_request *r)
{
    if (++hops < 200)
        ck_assert_int_eq(kal_migrate(r->context->connection, targets[hops % 2]), RI_OK);
}

START_TEST(migrate_between_running_lanes)
{
    struct sockaddr_storage where = address_of("127.0.0.1", 0), at;
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&where };
    uint8_t octets[600];
    int peer;

    targets[0] = fake_listen("127.0.0.1", 0, 0, NULL, &at);
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane2, &param, NULL, NULL, &targets[1]), RI_OK);
    hops = 0;
    fake.on_request = hop;
    fake_lane_run_thread(fake.lane);
    fake_lane_run_thread(fake.lane2);
    peer = peer_connect(&at);
    peer_send(peer, octets, frame_request(octets, F_C, 1, 0, 0, "x", 1));
    ck_assert(tc_until(hops == 200, 20000));
    /* The last upcall's object. */
    kal_connection_destroy(fake.pool[199 % FAKE_REQUESTS].connection);
    ck_assert_int_eq(peer_end(peer), 'R');
    kal_listen_destroy(targets[0]);
    kal_listen_destroy(targets[1]);
    close(peer);
}
END_TEST

START_TEST(fork_child_closes_the_spare)
{
    struct sockaddr_storage at;
    struct kal_listener *listener = fake_listen("127.0.0.1", 0, 0, NULL, &at);
    int before = tc_fd_count();

    ck_assert_int_ge(fake.rnic.cm->spare_fd, 0);
    kal_cm_fork_child(&fake.rnic);
    ck_assert_int_eq(tc_fd_count(), before - 1);
    kal_listen_destroy(listener);
}
END_TEST

/* ---- set A ---- */

#define SET_A RI_FEATURE_CONNECTION_SET_A

static struct ri_connect_request a_request(void)
{
    return (struct ri_connect_request){
        .size = sizeof(struct ri_connect_request),
        .local = address_of("10.0.0.1", 7),
        .peer = address_of("10.0.0.2", 8),
        .private_data = "hello",
        .private_data_length = 5,
        .ird = 4,
        .ord = 8,
        .depths_valid = true,
    };
}

/* Reports a request as the provider would. */
static struct ri_connection *bring(struct ri_connect_request request)
{
    struct ri_connection *ri = calloc(1, sizeof(*ri));
    void *context = NULL;

    kal_cm_host_request(&fake.rnic.host, fake.a_listener_context, ri, &request, &context);
    ri->context = context;
    return ri;
}

static struct ri_connection *a_bring(void)
{
    return bring(a_request());
}

/* A datagram service request. */
static struct ri_connection *a_bring_question(void)
{
    struct ri_connect_request request = a_request();

    request.datagram = true;
    request.port = 3;
    return bring(request);
}

START_TEST(set_a_active)
{
    struct sockaddr_storage at = address_of("10.0.0.2", 8);
    struct ri_connect_param param = connect_param(&at);
    struct ri_connection_event event = { .size = sizeof(event),
                                         .type = RI_CONNECTION_ESTABLISHED,
                                         .ird = 3,
                                         .ord = 2,
                                         .depths_valid = true,
                                         .peer = at };
    struct ri_connection_event info = { .size = sizeof(info) };
    struct kal_convert_param convert = { .size = sizeof(convert) };
    struct fake_qp *qp = fake_qp_new();
    struct fake_connection *c;

    fake_reopen(NULL, SET_A);
    c = fake_connection_new();
    param.three_way = true;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_OK);
    ck_assert_uint_eq(fake.a_calls[0], 1);
    ck_assert_ptr_eq(fake.a_param, &param);
    ck_assert_int_eq(kal_confirm(c->connection, &param), RI_OK);
    ck_assert_uint_eq(fake.a_calls[3], 1);
    ck_assert_int_eq(kal_connection_info(c->connection, &info), RI_ERR_INVALID_STATE);
    kal_cm_host_event(&fake.rnic.host, fake.a_last->context, &event);
    ck_assert_uint_eq(c->events, 1);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_int_eq(kal_connection_info(c->connection, &info), RI_OK);
    ck_assert_uint_eq(info.ird, 3);
    ck_assert_uint_eq(info.ord, 2);
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, "bye", 3), RI_OK);
    ck_assert_uint_eq(fake.a_calls[4], 1);
    ck_assert(!qp->closing);
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &convert), RI_ERR_NOT_SUPPORTED);
    fake.a_answer = RI_ERR_UNREACHABLE;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_UNREACHABLE);
    /* inside the provider's upcall: deferred to the next run, without an upcall */
    c->destroy_in_upcall = true;
    kal_cm_host_event(&fake.rnic.host, fake.a_last->context, &event);
    ck_assert_uint_eq(fake.a_destroyed, 0);
    kal_cm_host_event(&fake.rnic.host, fake.a_last->context, &event);
    ck_assert_uint_eq(c->events, 2);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.a_destroyed, 1);
    fake_policy("deny connect to 10.0.0.0/8");
    fake.a_answer = RI_OK;
    c = fake_connection_new();
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_PERMISSION);
}
END_TEST

START_TEST(set_a_passive)
{
    struct ri_connect_param param = { .size = sizeof(param) };
    struct sockaddr_storage bound;
    struct fake_qp *qp = fake_qp_new();
    struct kal_listener *first, *second;
    struct fake_connection *c;
    int one, two;

    fake_reopen(NULL, SET_A);
    second = fake_listen("10.0.0.1", 8, 0, &two, &bound);
    first = fake_listen("10.0.0.1", 7, 2, &one, &bound);
    ck_assert_uint_eq(fake.a_backlog, 2);
    a_bring();
    ck_assert_uint_eq(fake.request_count, 1);
    ck_assert_ptr_eq(fake.requests[0].listener, &one);
    ck_assert_mem_eq(fake.requests[0].private_data, "hello", 5);
    c = fake.requests[0].context;
    ck_assert_int_eq(kal_migrate(c->connection, second), RI_OK);
    fake_until(fake.request_count == 2, 10000);
    ck_assert_ptr_eq(fake.requests[1].listener, &two);
    ck_assert_mem_eq(fake.requests[1].private_data, "hello", 5);
    ck_assert_uint_eq(fake.requests[1].request.ord, 8);
    c = fake.requests[1].context;
    fake.a_answer = RI_ERR_INVALID_STATE;
    ck_assert_int_eq(kal_accept(c->connection, &qp->base, &param), RI_ERR_INVALID_STATE);
    fake.a_answer = RI_OK; /* it is still undecided */
    ck_assert_int_eq(kal_accept(c->connection, &qp->base, &param), RI_OK);
    ck_assert_uint_eq(fake.a_calls[1], 2);
    ck_assert_int_eq(kal_accept(c->connection, &qp->base, &param), RI_ERR_INVALID_STATE);
    fake_destroy(c);

    /* kal sets the limit. A request beyond it is rejected, and freed in the next run. */
    a_bring();
    a_bring();
    ck_assert_uint_eq(fake.request_count, 4);
    a_bring();
    ck_assert_uint_eq(fake.request_count, 4);
    ck_assert_msg(fake_log_count("2 requests are undecided, a further one is dropped; accept "
                                 "faster or raise backlog") == 1,
                  "%s", fake_log_text());
    ck_assert_uint_eq(fake.a_calls[2], 1);
    ck_assert_uint_eq(fake.a_destroyed, 1);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.a_destroyed, 2);
    ck_assert_int_eq(kal_reject(fake.requests[2].context->connection, NULL, 0), RI_OK);
    fake_destroy(fake.requests[2].context);
    fake_destroy(fake.requests[3].context);
    fake_policy("deny request");
    a_bring(); /* this one is freed when the RNIC closes */
    ck_assert_uint_eq(fake.request_count, 4);
    kal_listen_destroy(first);
    kal_listen_destroy(second);
}
END_TEST

static void bring_three(void)
{
    for (int i = 0; i < 3; i++)
        a_bring();
}

/* A line about a listener whose address the provider has not told yet. */
START_TEST(set_a_requests_before_listen_returns)
{
    struct sockaddr_storage bound;
    struct kal_listener *l;
    int label;

    fake_reopen((const char *[]){ "backlog", "1", NULL }, SET_A);
    fake.a_on_listen = bring_three;
    l = fake_listen("10.0.0.1", 7, 2, &label, &bound);
    ck_assert_uint_eq(fake.request_count, 2);
    ck_assert_uint_eq(fake_log_count("listener (new): 2 requests are undecided"), 1);
    for (int i = 0; i < 2; i++)
        fake_destroy(fake.requests[i].context);
    kal_listen_destroy(l);
}
END_TEST

/* A provider without IPv6: no warning for the address of all, one for a certain address. */
START_TEST(set_a_listener_of_a_provider_without_ipv6)
{
    struct sockaddr_storage all = address_of("::", 7), one = address_of("fd00::1", 7);
    struct ri_listen_param param = { .size = sizeof(param), .backlog = 1 };
    struct kal_listener *l;

    fake_reopen(NULL, SET_A);
    fake.a_answer = RI_ERR_UNREACHABLE;
    param.address = (struct sockaddr *)&all;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &l), RI_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_log_count("ital: warning: "), 0);
    param.address = (struct sockaddr *)&one;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &l), RI_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_log_count("the provider cannot listen"), 2);
    ck_assert_uint_eq(fake_log_count("ital: warning: "), 1);
}
END_TEST

START_TEST(set_a_question)
{
    struct sockaddr_storage at = address_of("10.0.0.2", 8);
    struct ri_connect_param param = connect_param(&at);
    struct ri_connection_event event = { .size = sizeof(event),
                                         .type = RI_CONNECTION_SERVICE_REPLY };
    struct fake_connection *c;

    fake_reopen(NULL, SET_A);
    c = fake_connection_new();
    ck_assert_int_eq(kal_service_request(c->connection, &param), RI_OK);
    ck_assert_uint_eq(fake.a_calls[5], 1);
    ck_assert_ptr_eq(fake.a_param, &param);
    kal_cm_host_event(&fake.rnic.host, fake.a_last->context, &event);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_SERVICE_REPLY);
    fake.a_answer = RI_ERR_NOT_SUPPORTED;
    ck_assert_int_eq(kal_service_request(c->connection, &param), RI_ERR_NOT_SUPPORTED);
    fake.a_answer = ITAL_ERR_QUOTA; /* not the provider's to say */
    ck_assert_int_eq(kal_service_request(c->connection, &param), RI_ERR_DEVICE);
    fake_policy("deny connect to 10.0.0.0/8");
    fake.a_answer = RI_OK;
    ck_assert_int_eq(kal_service_request(c->connection, &param), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fake.a_calls[5], 3);
}
END_TEST

/* The same calls where kal manages connections: there are no datagrams. */
START_TEST(set_b_question)
{
    struct sockaddr_storage at = address_of("10.0.0.2", 8);
    struct ri_connect_param param = connect_param(&at);
    struct ri_service_reply reply = { .size = sizeof(reply) };
    struct fake_connection *c = fake_connection_new();

    ck_assert_int_eq(kal_service_request(c->connection, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_service_reply(c->connection, &reply), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

START_TEST(set_a_answer)
{
    struct ri_service_reply reply = { .size = sizeof(reply), .qkey = 6 };
    struct sockaddr_storage bound;
    struct kal_listener *listener;
    struct kal_connection *shown;
    int mark;

    fake_reopen(NULL, SET_A);
    listener = fake_listen("10.0.0.1", 7, 2, &mark, &bound);
    a_bring_question();
    ck_assert_uint_eq(fake.request_count, 1);
    ck_assert(fake.requests[0].request.datagram);
    ck_assert_uint_eq(fake.requests[0].request.port, 3);
    ck_assert_mem_eq(fake.requests[0].private_data, "hello", 5);
    shown = fake.requests[0].context->connection;
    fake.a_answer = RI_ERR_NO_RESOURCES;
    ck_assert_int_eq(kal_service_reply(shown, &reply), RI_ERR_NO_RESOURCES);
    fake.a_answer = RI_OK; /* it is still undecided */
    ck_assert_int_eq(kal_service_reply(shown, &reply), RI_OK);
    ck_assert_uint_eq(fake.a_reply.qkey, 6);
    ck_assert_int_eq(kal_service_reply(shown, &reply), RI_ERR_INVALID_STATE);
    fake_destroy(fake.requests[0].context);

    /* A connection request cannot be answered so; one beyond the limit, or not permitted, is
     * refused in its own way. */
    a_bring();
    ck_assert_int_eq(kal_service_reply(fake.requests[1].context->connection, &reply),
                     RI_ERR_INVALID_ARGUMENT);
    a_bring_question();
    a_bring_question();
    ck_assert_uint_eq(fake.request_count, 3);
    ck_assert_uint_eq(fake.a_calls[6], 3);
    ck_assert_uint_eq(fake.a_reply.status, RI_SERVICE_REJECTED);
    fake_policy("deny request");
    a_bring_question();
    ck_assert_uint_eq(fake.a_calls[6], 4);
    ck_assert_uint_eq(fake.a_calls[2], 0);
    fake_destroy(fake.requests[1].context);
    fake_destroy(fake.requests[2].context);
    kal_listen_destroy(listener);
}
END_TEST

/* What needs a stream of kal's own is refused, and changes nothing. */
START_TEST(set_a_without_a_stream)
{
    struct kal_convert_param convert = { .size = sizeof(convert), .fd = -1 };
    struct ri_connect_param param = { .size = sizeof(param) };
    struct fake_qp *qp = fake_qp_new();
    struct kal_listener *listener, *fed;
    struct sockaddr_storage bound;
    struct fake_connection *c;
    int mark;

    fake_reopen(NULL, SET_A | RI_FEATURE_CONNECTION_SET_B);
    listener = fake_listen("10.0.0.1", 7, 2, &mark, &bound);
    ck_assert_int_eq(
        kal_listen_fed(&fake.rnic, fake.lane, (struct sockaddr *)&bound, 2, NULL, &fed),
        RI_ERR_NOT_SUPPORTED);
    a_bring();
    c = fake.requests[0].context;
    ck_assert_int_eq(kal_attach(c->connection, &qp->base, fake.lane), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_accept(c->connection, NULL, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_place(c->connection, &fake.rnic, fake.lane2), RI_OK); /* no effect */
    ck_assert_uint_eq(fake.a_calls[1], 0);
    ck_assert_int_eq(kal_accept(c->connection, &qp->base, &param), RI_OK);
    fake_destroy(c);
    c = fake_connection_new();
    ck_assert_int_eq(kal_connect(c->connection, NULL, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &convert), RI_ERR_NOT_SUPPORTED);
    kal_listen_destroy(listener);
}
END_TEST

/* A QP of the consumer's, by number; the numbers of a request are there again when it migrates. */
START_TEST(set_a_external_qp)
{
    struct ri_connection_numbers numbers = { .size = sizeof(numbers),
                                             .destination_qpn = 0x123456,
                                             .send_psn = 0xabcdef };
    struct ri_connect_request request = a_request();
    struct ri_connect_param param = { .size = sizeof(param), .qpn = 0x17 };
    struct sockaddr_storage at = address_of("10.0.0.2", 8), bound;
    struct kal_listener *first, *second;
    struct fake_connection *c;
    int one, two;

    fake_reopen(NULL, SET_A | RI_FEATURE_EXTERNAL_QP);
    first = fake_listen("10.0.0.1", 7, 2, &one, &bound);
    second = fake_listen("10.0.0.1", 8, 2, &two, &bound);
    request.numbers = &numbers;
    request.qp_type = RI_QP_UC;
    bring(request);
    numbers.destination_qpn = 0; /* it was lent */
    c = fake.requests[0].context;
    ck_assert_int_eq(kal_migrate(c->connection, first), RI_OK);
    fake_until(fake.request_count == 2, 10000);
    ck_assert_uint_eq(fake.requests[1].request.numbers->destination_qpn, 0x123456);
    ck_assert_uint_eq(fake.requests[1].request.numbers->send_psn, 0xabcdef);
    ck_assert_uint_eq(fake.requests[1].request.qp_type, RI_QP_UC);
    c = fake.requests[1].context;
    ck_assert_int_eq(kal_accept(c->connection, NULL, &param), RI_OK);
    ck_assert_uint_eq(fake.a_calls[1], 1);
    ck_assert_uint_eq(fake.a_param->qpn, 0x17);
    ck_assert_int_eq(kal_confirm(c->connection, &param), RI_OK);
    ck_assert_int_eq(kal_disconnect(c->connection, NULL, NULL, 0), RI_OK);
    fake_destroy(c);
    c = fake_connection_new();
    param = connect_param(&at);
    ck_assert_int_eq(kal_connect(c->connection, NULL, &param), RI_OK);
    ck_assert_uint_eq(fake.a_calls[0], 1);
    fake_destroy(c);
    kal_listen_destroy(first);
    kal_listen_destroy(second);
}
END_TEST

/* What only a provider's connection manager has; addresses are checked before the policy. */
START_TEST(set_b_has_two_ways_and_addresses)
{
    struct sockaddr_storage at = address_of("127.0.0.1", 7), none = { .ss_family = AF_UNSPEC };
    struct ri_listen_param datagrams = { .size = sizeof(datagrams),
                                         .address = (struct sockaddr *)&at,
                                         .datagram = true };
    struct ri_listen_param nowhere = { .size = sizeof(nowhere),
                                       .address = (struct sockaddr *)&none };
    struct ri_connect_param param = connect_param(&none);
    struct fake_connection *c = fake_connection_new();
    struct fake_qp *qp = fake_qp_new();
    struct kal_listener *l;

    fake_policy("deny any");
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_confirm(c->connection, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &datagrams, NULL, NULL, &l),
                     RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &nowhere, NULL, NULL, &l),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_listen_fed(&fake.rnic, fake.lane, (struct sockaddr *)&none, 2, NULL, &l),
                     RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* A request that the provider holds does not leave its RNIC, whatever the other one is; where it
 * was refused it is undecided as before. */
START_TEST(set_a_requests_stay_in_their_rnic)
{
    const uint64_t features = _i ? SET_A : RI_FEATURE_CONNECTION_SET_B;
    struct sockaddr_storage bound, where = address_of("127.0.0.1", 0);
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&where };
    struct ri_connect_param accept = { .size = sizeof(accept) };
    struct kal_listener *listener, *far;
    struct fake_qp *qp = fake_qp_new();
    static struct kal_rnic beside;
    struct kal_connection *c;
    int mark;

    fake_reopen(NULL, SET_A);
    fake_open_beside(&beside, features);
    listener = fake_listen("10.0.0.1", 7, 2, &mark, &bound);
    a_bring();
    ck_assert_int_eq(kal_listen(&beside, fake.lane2, &param, NULL, NULL, &far), RI_OK);
    c = fake.requests[0].context->connection;
    ck_assert_int_eq(kal_place(c, &beside, fake.lane2), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_migrate(c, far), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_accept(c, &qp->base, &accept), RI_OK);
    fake_destroy(fake.requests[0].context);
    kal_listen_destroy(far);
    kal_listen_destroy(listener);
    fake_close_beside(&beside);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("connection manager, life");
    TCase *t = tc_case(s, "life", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tc_add_tests(t, ipv4, ipv6, destroy_while_lanes_run);
    tcase_add_loop_test(t, destroy_waits_for_the_upcall, 0, 2);
    tc_add_tests(t, migrate_between_running_lanes, fork_child_closes_the_spare, set_a_active,
                 set_a_passive, set_a_requests_before_listen_returns,
                 set_a_listener_of_a_provider_without_ipv6, set_a_question, set_b_question,
                 set_a_answer, set_a_without_a_stream, set_a_external_qp,
                 set_b_has_two_ways_and_addresses);
    tcase_add_loop_test(t, set_a_requests_stay_in_their_rnic, 0, 2);
    return s;
}

int main(void)
{
    return tc_main(suite());
}
