/* SPDX-License-Identifier: BSD-3-Clause */
/* librnicpi: connection verbs of set A over channels in memory. What each side hears, once, in
 * order; depths, private data, deadlines; messages no state wants; the life of connections. */
#include "fake_host.h"
#include "tc.h"

#include <netinet/in.h>

#include "sdk/rnicpi_set_a.h"

static const struct ri_rnic_attr attributes = {
    .features = RI_FEATURE_DMA,
    .max_mr_length = 1,
    .max_message = 1,
    .max_send = 1,
    .max_pd = 1,
    .max_cq = 1,
    .max_qp = 2,
    .max_mr = 1,
    .max_cqe = 8,
    .max_send_wr = 1,
    .max_recv_wr = 1,
    .max_send_sge = 1,
    .max_recv_sge = 1,
    .max_read_sge = 1,
    .max_write_sge = 1,
    .max_ird = 8,
    .max_ord = 8,
    .connect_private_data = 10,
    .accept_private_data = 8,
    .reject_private_data = 6,
    .service_request_private_data = 4,
    .service_reply_private_data = 2,
};

#define PORT 7

/* One end of a channel: what the other has sent, and whether it has closed. */
struct end {
    struct ri_mem_connection mem;
    struct end *other;
    struct ri_cm_message queue[4];
    int count;
    bool left, closing;
};

static struct fake_host fake;
static struct ri_mem_rnic rnic;
static struct ri_set_a set;
static struct ri_mem_listener listener;
static struct ri_pd *pd;
static struct ri_cq *cq;
static struct ri_mem_qp qps[2];
static uint64_t now;
static int freed;
static bool listening;

/* What the host has heard: of connections by their context, and of requests. */
static struct ri_connection_event heard[8];
static void *heard_context[8];
static char heard_data[8][16];
static int heard_count;
static struct ri_connection *requested;
static struct ri_connect_request request;
static char request_data[16];
static bool keep_request;
static void (*in_request)(struct ri_mem_connection *c); /* called in the upcall; NULL: nothing */
static int active_id, passive_id;

static void connection_event(const struct ri_host *host, void *context,
                             const struct ri_connection_event *event)
{
    (void)host;
    ck_assert_int_lt(heard_count, 8);
    heard[heard_count] = *event;
    heard_context[heard_count] = context;
    if (event->private_data_length)
        memcpy(heard_data[heard_count], event->private_data, event->private_data_length);
    heard_count++;
    pthread_mutex_lock(&rnic.lock); /* no lock is held */
    pthread_mutex_unlock(&rnic.lock);
}

static void connection_request(const struct ri_host *host, void *context,
                               struct ri_connection *connection,
                               const struct ri_connect_request *asked, void **connection_context)
{
    (void)host;
    ck_assert_ptr_eq(context, &listener);
    ck_assert_ptr_null(requested);
    requested = connection;
    request = *asked;
    if (asked->private_data_length)
        memcpy(request_data, asked->private_data, asked->private_data_length);
    if (in_request)
        in_request((struct ri_mem_connection *)connection);
    if (keep_request)
        *connection_context = &passive_id;
}

/* ---- the carrier ---- */

static uint64_t tell_now(void)
{
    return now;
}

static enum ri_status port_of(const struct sockaddr *destination, uint64_t service_id,
                              bool datagram, uint16_t *port)
{
    (void)service_id, (void)datagram;
    *port = ntohs(((const struct sockaddr_in *)(const void *)destination)->sin_port);
    return *port ? RI_OK : RI_ERR_UNREACHABLE;
}

static bool send_message(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    struct end *other = ((struct end *)c)->other;

    if (!other || other->left || other->count == 4)
        return false;
    other->queue[other->count++] = *message;
    return true;
}

static enum ri_status start(struct ri_mem_connection *c, uint16_t port,
                            struct ri_cm_message *message, enum ri_connection_reason *reason)
{
    struct ri_mem_connection *there;

    if (port != PORT) {
        *reason = RI_REASON_REFUSED;
        return RI_OK;
    }
    there = ri_set_a_incoming(&set, &listener);
    ck_assert_ptr_nonnull(there);
    ((struct end *)c)->other = (struct end *)there;
    ((struct end *)there)->other = (struct end *)c;
    ri_set_a_opened(c);
    ri_set_a_opened(there);
    ck_assert(send_message(c, message));
    return RI_OK;
}

static void close_channel(struct ri_mem_connection *c)
{
    struct end *end = (struct end *)c;

    ck_assert(!end->closing);
    end->closing = true;
    if (end->other) {
        end->other->left = true;
        end->other->other = NULL;
        end->other = NULL;
    }
}

static void release(struct ri_mem_connection *c)
{
    (void)c;
    freed++;
}

static const struct sockaddr source = { .sa_family = AF_INET };
static const struct ri_carrier carrier = {
    .connection_size = sizeof(struct end),
    .now = tell_now,
    .source = &source,
    .port_of = port_of,
    .start = start,
    .send = send_message,
    .close = close_channel,
    .release = release,
};

/* One piece of work of the lane. False: there is none. */
static bool work(void)
{
    struct ri_mem_connection *c;

    TAILQ_FOREACH(c, &set.connections, link)
    {
        struct end *end = (struct end *)c;

        if (end->closing) {
            pthread_mutex_unlock(&rnic.lock);
            ri_set_a_closed(c);
            pthread_mutex_lock(&rnic.lock);
            return true;
        }
        if (end->count) {
            const struct ri_cm_message first = end->queue[0];

            memmove(end->queue, end->queue + 1, (size_t)--end->count * sizeof(first));
            ri_set_a_message(c, &first);
            return true;
        }
        if (end->left) {
            ri_set_a_left(c);
            return true;
        }
    }
    return ri_upcalls_run(&rnic.upcalls);
}

static void settle(void)
{
    pthread_mutex_lock(&rnic.lock);
    ri_set_a_expire(&set);
    while (work())
        ;
    pthread_mutex_unlock(&rnic.lock);
}

/* ---- before and after ---- */

static void serve(struct ri_mem_qp *qp)
{
    (void)qp;
}

static void open_all(void)
{
    static const struct ri_user_ops user = { .size = sizeof(user) };
    static const struct ri_privileged_ops privileged = { .size = sizeof(privileged) };
    const struct ri_open open = {
        .size = sizeof(open), .host = &fake.host, .privileged = &privileged, .user = &user
    };
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 8 };
    struct ri_lane *lane;

    fake_host_init(&fake, NULL, false);
    fake.host.connection_event = connection_event;
    fake.host.connection_request = connection_request;
    memset(&rnic, 0, sizeof(rnic));
    ck_assert_int_eq(ri_mem_rnic_open(&rnic, &open, &attributes, serve), RI_OK);
    ri_set_a_open(&set, &rnic, &carrier);
    ck_assert_int_eq(ri_mem_lane_open(&rnic.base, 0, &fake.events, &lane), RI_OK);
    ck_assert_int_eq(ri_mem_pd_create(&rnic.base, NULL, &pd), RI_OK);
    ck_assert_int_eq(ri_mem_cq_create(&rnic.base, &attr, &cq), RI_OK);
    memset(qps, 0, sizeof(qps));
    for (int i = 0; i < 2; i++) {
        struct ri_qp_attr qp = {
            .size = sizeof(qp), .type = RI_QP_RC, .send_cq = cq, .recv_cq = cq
        };

        ck_assert_int_eq(ri_mem_qp_open(&qps[i], (struct ri_mem_pd *)pd, &qp), RI_OK);
    }
    listener = (struct ri_mem_listener){ .base.context = &listener, .backlog = 1 };
    pthread_mutex_lock(&rnic.lock);
    ri_set_a_listens(&set, &listener);
    pthread_mutex_unlock(&rnic.lock);
    listening = true;
    heard_count = freed = 0;
    requested = NULL;
    in_request = NULL;
    keep_request = true;
    now = 1000;
}

static void stop_listening(void)
{
    pthread_mutex_lock(&rnic.lock);
    ri_set_a_forget(&set, &listener);
    pthread_mutex_unlock(&rnic.lock);
    listening = false;
}

/* Everything has been freed: each connection once. A listener is an object of the RNIC. */
static void close_all(int connections)
{
    settle();
    ck_assert_int_eq(freed, connections);
    ck_assert(TAILQ_EMPTY(&set.connections));
    ri_mem_qp_close(&qps[0]);
    ri_mem_qp_close(&qps[1]);
    ck_assert_int_eq(ri_mem_cq_destroy(cq), RI_OK);
    ck_assert_int_eq(ri_mem_pd_destroy(pd), RI_OK);
    if (listening) {
        ck_assert_int_eq(ri_mem_rnic_close(&rnic), RI_ERR_BUSY);
        stop_listening();
    }
    ck_assert_int_eq(ri_mem_rnic_close(&rnic), RI_OK);
}

static struct ri_connection *create(void)
{
    struct ri_connection *c;

    ck_assert_int_eq(ri_mem_connection_create(&rnic.base, &active_id, &c), RI_OK);
    return c;
}

static struct ri_connect_param param_of(uint16_t port, const char *data)
{
    static struct sockaddr_in to;

    to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
    return (struct ri_connect_param){ .size = sizeof(struct ri_connect_param),
                                      .destination = (struct sockaddr *)&to,
                                      .deadline = RI_NO_DEADLINE,
                                      .private_data = data,
                                      .private_data_length = (uint16_t)strlen(data),
                                      .ird = 3,
                                      .ord = 5,
                                      .negotiate_depths = true };
}

static struct ri_connection *connect_to(uint16_t port)
{
    const struct ri_connect_param param = param_of(port, "hello");
    struct ri_connection *c = create();

    ck_assert_int_eq(ri_mem_connect(c, &qps[0].base, &param), RI_OK);
    ck_assert_int_eq(heard_count, 0); /* never inside the call */
    settle();
    return c;
}

/* All is open, and a request was accepted, of which neither side has heard yet. */
static struct ri_connection *accepted(void)
{
    struct ri_connect_param answer = param_of(PORT, "");
    struct ri_connection *c;

    open_all();
    c = connect_to(PORT);
    ck_assert_int_eq(ri_mem_accept(requested, &qps[1].base, &answer), RI_OK);
    return c;
}

static void expect(int at, const void *context, enum ri_connection_event_type type)
{
    ck_assert_int_gt(heard_count, at);
    ck_assert_ptr_eq(heard_context[at], context);
    ck_assert_int_eq(heard[at].type, type);
}

/* ---- tests ---- */

START_TEST(both_hear_of_connection_and_end_once)
{
    struct ri_connect_param answer = param_of(PORT, "welcome");
    struct ri_connection *c;

    open_all();
    c = connect_to(PORT);
    ck_assert_ptr_nonnull(requested);
    ck_assert_str_eq(request_data, "hello");
    ck_assert_uint_eq(request.ird, 3);
    ck_assert_uint_eq(request.ord, 5);
    answer.ird = 2;
    answer.ord = 8;
    ck_assert_int_eq(ri_mem_accept(requested, &qps[0].base, &answer), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(ri_mem_accept(requested, &qps[1].base, &answer), RI_OK);
    ck_assert_int_eq(ri_mem_accept(requested, &qps[1].base, &answer), RI_ERR_INVALID_STATE);
    settle();
    ck_assert_int_eq(heard_count, 2);
    expect(0, &active_id, RI_CONNECTION_ESTABLISHED);
    ck_assert_str_eq(heard_data[0], "welcome");
    expect(1, &passive_id, RI_CONNECTION_ESTABLISHED);
    /* Neither side has more outstanding than the other takes. */
    ck_assert_uint_eq(qps[0].ord, 2);
    ck_assert_uint_eq(qps[1].ird, 2);
    ck_assert_uint_eq(qps[0].ird, 3);
    ck_assert_uint_eq(qps[1].ord, 3);
    ck_assert_int_eq(qps[0].state, RI_QPS_RTS);
    ck_assert_int_eq(qps[1].state, RI_QPS_RTS);

    ck_assert_int_eq(ri_mem_disconnect(c, NULL, 0), RI_OK);
    ck_assert_int_eq(ri_mem_disconnect(c, NULL, 0), RI_ERR_INVALID_STATE);
    settle();
    ck_assert_int_eq(heard_count, 4);
    ck_assert_int_eq(heard[2].type, RI_CONNECTION_DISCONNECTED);
    ck_assert_int_eq(heard[3].type, RI_CONNECTION_DISCONNECTED);
    ck_assert_ptr_ne(heard_context[2], heard_context[3]);
    ck_assert_int_eq(qps[0].state, RI_QPS_ERROR);
    ck_assert_int_eq(qps[1].state, RI_QPS_ERROR);
    ck_assert_int_eq(freed, 0); /* the user still has them */
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    close_all(2);
}
END_TEST

START_TEST(reject_carries_data_and_tells_nothing_here)
{
    struct ri_connection *c;

    open_all();
    c = connect_to(PORT);
    ck_assert_int_eq(ri_mem_reject(requested, "no", 3), RI_OK);
    ck_assert_int_eq(ri_mem_reject(requested, "no", 3), RI_ERR_INVALID_STATE);
    settle();
    ck_assert_int_eq(heard_count, 1);
    expect(0, &active_id, RI_CONNECTION_REJECTED);
    ck_assert_str_eq(heard_data[0], "no");
    ck_assert_uint_eq(listener.undecided, 0);
    ck_assert_int_eq(qps[0].state, RI_QPS_IDLE);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    close_all(2);
}
END_TEST

START_TEST(nobody_is_there)
{
    struct ri_connect_param param = param_of(PORT + 1, "");
    struct ri_connection *c, *other;

    open_all();
    c = connect_to(PORT + 1);
    ck_assert_int_eq(heard_count, 1);
    expect(0, &active_id, RI_CONNECTION_FAILED);
    ck_assert_int_eq(heard[0].reason, RI_REASON_REFUSED);
    ck_assert_int_eq(ri_mem_connect(c, &qps[0].base, &param), RI_ERR_INVALID_STATE);
    other = create();
    param = param_of(0, "");
    ck_assert_int_eq(ri_mem_connect(other, &qps[0].base, &param), RI_ERR_UNREACHABLE);
    param = param_of(PORT, "");
    param.ord = 9;
    ck_assert_int_eq(ri_mem_connect(other, &qps[0].base, &param), RI_ERR_LIMIT);
    ck_assert_int_eq(ri_mem_resolve(other, &param), RI_OK);
    settle();
    ck_assert_int_eq(heard_count, 2);
    expect(1, &active_id, RI_CONNECTION_RESOLVED);
    ck_assert_int_eq(ri_mem_connection_destroy(other), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    close_all(2);
}
END_TEST

/* One more than the backlog is refused; a time that is over ends what waits. */
START_TEST(backlog_and_deadlines)
{
    struct ri_connect_param param = param_of(PORT, "");
    struct ri_connection *c, *second;

    open_all();
    c = connect_to(PORT);
    second = create();
    param.deadline = 2000;
    ck_assert_int_eq(ri_mem_connect(second, &qps[1].base, &param), RI_OK);
    settle();
    ck_assert_int_eq(heard_count, 1);
    ck_assert_int_eq(heard[0].type, RI_CONNECTION_FAILED);
    now = UINT64_C(1) << 40;
    settle();
    ck_assert_int_eq(heard_count, 3); /* the first one waits for too long, and leaves */
    expect(1, &active_id, RI_CONNECTION_FAILED);
    ck_assert_int_eq(heard[1].reason, RI_REASON_TIMEOUT);
    expect(2, &passive_id, RI_CONNECTION_FAILED);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(second), RI_OK);
    settle();
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    close_all(4);
}
END_TEST

/* Neither a request whose listener has gone, nor one that the host has no room for, is left. */
START_TEST(requests_that_nobody_keeps)
{
    struct ri_connect_param param = param_of(PORT, "");
    struct ri_connection *c;

    open_all();
    c = create();
    ck_assert_int_eq(ri_mem_connect(c, &qps[0].base, &param), RI_OK);
    stop_listening();
    settle();
    ck_assert_ptr_null(requested);
    ck_assert_int_eq(heard[0].type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    settle();
    ck_assert_int_eq(freed, 2);
    heard_count = 0;
    keep_request = false;
    c = connect_to(PORT);
    ck_assert_int_eq(heard_count, 1);
    ck_assert_int_eq(heard[0].type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    close_all(4);
}
END_TEST

/* Each verb takes what the attributes state for it, and no octet more. */
START_TEST(private_data_is_limited_by_the_attributes)
{
    static const char octets[] = "0123456789a";
    struct ri_connect_param param = param_of(PORT, octets);
    struct ri_connection *c;

    open_all();
    c = create();
    ck_assert_int_eq(ri_mem_connect(c, &qps[0].base, &param), RI_ERR_LIMIT);
    param.private_data_length = 10;
    ck_assert_int_eq(ri_mem_connect(c, &qps[0].base, &param), RI_OK);
    settle();
    ck_assert_uint_eq(request.private_data_length, 10);
    ck_assert_int_eq(ri_mem_reject(requested, octets, 7), RI_ERR_LIMIT);
    param.private_data_length = 9;
    ck_assert_int_eq(ri_mem_accept(requested, &qps[1].base, &param), RI_ERR_LIMIT);
    param.private_data_length = 8;
    ck_assert_int_eq(ri_mem_accept(requested, &qps[1].base, &param), RI_OK);
    settle();
    expect(0, &active_id, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(heard[0].private_data_length, 8);
    ck_assert_int_eq(ri_mem_disconnect(c, octets, 1), RI_ERR_LIMIT);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    close_all(2);
}
END_TEST

/* The same for datagram services. */
START_TEST(service_data_is_limited_by_the_attributes)
{
    struct ri_connect_param param = param_of(PORT, "01234");
    struct ri_service_reply reply = { .size = sizeof(reply),
                                      .status = RI_SERVICE_NO_QP,
                                      .private_data = "012",
                                      .private_data_length = 3 };
    struct ri_connection *c;

    open_all();
    listener.datagram = true;
    c = create();
    ck_assert_int_eq(ri_mem_service_request(c, &param), RI_ERR_LIMIT);
    param.private_data_length = 4;
    ck_assert_int_eq(ri_mem_service_request(c, &param), RI_OK);
    settle();
    ck_assert_uint_eq(request.private_data_length, 4);
    ck_assert_int_eq(ri_mem_service_reply(requested, &reply), RI_ERR_LIMIT);
    reply.private_data_length = 2;
    ck_assert_int_eq(ri_mem_service_reply(requested, &reply), RI_OK);
    settle();
    expect(0, &active_id, RI_CONNECTION_SERVICE_REPLY);
    ck_assert_uint_eq(heard[0].private_data_length, 2);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    close_all(2);
}
END_TEST

/* Who answers a datagram service does not hear whether somebody still waits: no event, no error. */
START_TEST(answer_to_who_has_gone_is_lost)
{
    const struct ri_connect_param param = param_of(PORT, "who");
    const struct ri_service_reply reply = { .size = sizeof(reply), .status = RI_SERVICE_NO_QP };
    struct ri_connection *c;

    open_all();
    listener.datagram = true;
    c = create();
    ck_assert_int_eq(ri_mem_service_request(c, &param), RI_OK);
    settle();
    ck_assert_ptr_nonnull(requested);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    settle(); /* its end has come */
    ck_assert_int_eq(heard_count, 0);
    ck_assert_int_eq(ri_mem_service_reply(requested, &reply), RI_OK);
    ck_assert_int_eq(ri_mem_service_reply(requested, &reply), RI_ERR_INVALID_STATE);
    settle();
    ck_assert_int_eq(heard_count, 0);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    close_all(2);
}
END_TEST

/* A peer of another build may state more: what is beyond this side's attributes ends it. */
START_TEST(peers_data_is_limited_by_the_attributes)
{
    for (uint32_t length = 8; length <= 9; length++) {
        struct ri_cm_message message = { .type = RI_CM_ACCEPT, .length = length };
        struct ri_connection *c;

        open_all();
        c = connect_to(PORT);
        pthread_mutex_lock(&rnic.lock);
        ri_set_a_message((struct ri_mem_connection *)c, &message);
        pthread_mutex_unlock(&rnic.lock);
        settle();
        ck_assert_int_gt(heard_count, 0);
        ck_assert_int_eq(heard[0].type,
                         length == 8 ? RI_CONNECTION_ESTABLISHED : RI_CONNECTION_FAILED);
        ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
        settle();
        ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
        close_all(2);
    }
}
END_TEST

/* As another thread of the provider's may do meanwhile. */
static void leave(struct ri_mem_connection *c)
{
    pthread_mutex_lock(&rnic.lock);
    ri_set_a_left(c);
    pthread_mutex_unlock(&rnic.lock);
    ri_set_a_closed(c);
}

/* Requests that the host has no memory for are undecided no more, also if the peer leaves while one
 * is told; and nothing else is told of them. */
START_TEST(requests_without_memory_leave_room_for_others)
{
    struct ri_connection *c;

    open_all();
    keep_request = false;
    for (int i = 0; i < 2; i++) {
        in_request = i ? leave : NULL;
        requested = NULL;
        heard_count = 0;
        c = connect_to(PORT);
        ck_assert_ptr_nonnull(requested);
        ck_assert_int_eq(heard_count, 1);
        expect(0, &active_id, RI_CONNECTION_FAILED);
        ck_assert_uint_eq(listener.undecided, 0);
        ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
        settle();
        ck_assert_int_eq(freed, 2 * (i + 1));
    }
    close_all(4);
}
END_TEST

/* The user destroys what is under way: nothing is told any more, the other side hears of it. */
START_TEST(destroyed_connections_are_silent)
{
    struct ri_connection *c = accepted();

    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    ck_assert_ptr_null(qps[0].connection);
    settle();
    ck_assert_int_eq(heard_count, 1);
    expect(0, &passive_id, RI_CONNECTION_FAILED);
    ck_assert_int_eq(qps[1].state, RI_QPS_ERROR);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    close_all(2);
}
END_TEST

/* The QP goes first, and the connection hears of the end. */
START_TEST(qp_parts_from_its_connection)
{
    struct ri_connection *c = accepted();

    settle();
    pthread_mutex_lock(&rnic.lock);
    ri_set_a_part(&qps[0]);
    ck_assert_ptr_null(qps[0].connection);
    pthread_mutex_unlock(&rnic.lock);
    settle();
    ck_assert_int_eq(heard_count, 4);
    ck_assert_int_eq(heard[2].type, RI_CONNECTION_DISCONNECTED);
    ck_assert_int_eq(heard[3].type, RI_CONNECTION_DISCONNECTED);
    ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
    ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
    close_all(2);
}
END_TEST

/* Of any content, in any state: each side is told of one end at most. */
START_TEST(messages_of_any_content)
{
    unsigned int rounds = (unsigned int)tc_count(2000);
    struct tc_rng rng = tc_rng(1);

    for (unsigned int i = 0; i < rounds; i++) {
        struct ri_connect_param answer = param_of(PORT, "");
        struct ri_cm_message message;
        struct ri_connection *c;
        int ends[2] = { 0, 0 };

        open_all();
        c = connect_to(PORT);
        if (tc_below(&rng, 2))
            ck_assert_int_eq(ri_mem_accept(requested, &qps[1].base, &answer), RI_OK);
        if (tc_below(&rng, 2))
            settle();
        for (int k = 0; k < 3; k++) {
            tc_fill(&rng, &message, sizeof(message));
            message.type = (uint32_t)tc_below(&rng, 7);
            if (tc_below(&rng, 4))
                message.length = (uint32_t)tc_below(&rng, 16);
            pthread_mutex_lock(&rnic.lock);
            if (!((struct end *)c)->closing)
                ri_set_a_message((struct ri_mem_connection *)c, &message);
            pthread_mutex_unlock(&rnic.lock);
        }
        settle();
        ck_assert_uint_le(qps[0].ird, 8);
        ck_assert_uint_le(qps[0].ord, 8);
        ck_assert_int_eq(ri_mem_connection_destroy(c), RI_OK);
        settle();
        ck_assert_int_eq(ri_mem_connection_destroy(requested), RI_OK);
        for (int k = 0; k < heard_count; k++)
            ends[heard_context[k] == &active_id] += heard[k].type != RI_CONNECTION_ESTABLISHED;
        ck_assert_int_le(ends[0], 1);
        ck_assert_int_le(ends[1], 1);
        close_all(2);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librnicpi: set A");
    TCase *tc = tc_case(suite, "connections", NULL, NULL);

    tc_add_tests(tc, both_hear_of_connection_and_end_once,
                 reject_carries_data_and_tells_nothing_here, nobody_is_there, backlog_and_deadlines,
                 requests_that_nobody_keeps, private_data_is_limited_by_the_attributes,
                 service_data_is_limited_by_the_attributes, answer_to_who_has_gone_is_lost,
                 peers_data_is_limited_by_the_attributes,
                 requests_without_memory_leave_room_for_others, destroyed_connections_are_silent,
                 qp_parts_from_its_connection, messages_of_any_content);
    return tc_main(suite);
}
