/* SPDX-License-Identifier: BSD-3-Clause */
/* librnicpi: QPs and packets over connections of set A, by the operation tables that a provider
 * initializes with its macros. First over a carrier in memory, without descriptors: what travels,
 * waits, is lost or damaged. Then over sockets, which a lane of the test watches. */
#include "fake_host.h"
#include "tc.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "sdk/rnicpi_set_a_rc.h"
#include "rnicpi_util.h"

#define PORT     7
#define OWN_PORT 5000
#define PAYLOAD  RI_RC_PAYLOAD
#define ALL      (80 * PAYLOAD) /* more packets than a QP sends in one turn */

static const struct ri_rnic_attr attributes = {
    .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_DMA | RI_FEATURE_CQ_PEEK |
                RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW,
    .max_mr_length = ALL,
    .max_message = ALL,
    .max_send = ALL,
    .max_pd = 1,
    .max_cq = 1,
    .max_qp = 2,
    .max_mr = 2,
    .max_cqe = 16,
    .max_send_wr = 4,
    .max_recv_wr = 4,
    .max_send_sge = 1,
    .max_recv_sge = 1,
    .max_read_sge = 1,
    .max_write_sge = 1,
    .max_ird = 2,
    .max_ord = 2,
    .connect_private_data = 8,
    .accept_private_data = 8,
    .reject_private_data = 8,
};

static struct fake_host fake;
static struct ri_rnic *rnic;
static struct ri_lane *lane;
static struct ri_pd *pd;
static struct ri_cq *cq;
static struct ri_mr *mr[2];
static struct ri_mr_keys keys[2];
static struct ri_qp *active, *passive;
static struct ri_listener *listener;
static struct sockaddr_storage bound;
static struct fake_record records[2];
static uint8_t from[ALL], to[ALL];

/* What the host has heard of connections: by their contexts. */
static char active_id, passive_id;
static struct ri_connection *client, *server;
static struct sockaddr_storage asked_from;
static int established, disconnected, failed;

static void connection_event(const struct ri_host *host, void *context,
                             const struct ri_connection_event *event)
{
    (void)host, (void)context;
    established += event->type == RI_CONNECTION_ESTABLISHED;
    disconnected += event->type == RI_CONNECTION_DISCONNECTED;
    failed += event->type == RI_CONNECTION_FAILED;
}

static void connection_request(const struct ri_host *host, void *context,
                               struct ri_connection *connection,
                               const struct ri_connect_request *asked, void **connection_context)
{
    (void)host;
    ck_assert_ptr_eq(context, &listener);
    ck_assert_ptr_null(server);
    server = connection;
    asked_from = asked->peer;
    *connection_context = &passive_id;
}

/* ---- the carrier in memory ---- */

struct packet {
    struct packet *next;
    size_t length;
    uint8_t octets[RI_PACKET_MAX + 1];
};

struct end {
    struct ri_mem_connection mem;
    struct end *other;
    struct packet *first;
    int count; /* packets that have come and were not taken */
    bool left, closing, awaits;
};

static struct ri_mem_listener *listening;
static int room;         /* packets that an end has room for */
static int lost;         /* what the next `send`s answer, instead of sending; 1: they send */
static int awaited;      /* calls of await_room */
static int most_at_once; /* packets that one call of ri_packet_run has brought */
static void (*damage)(struct packet *packet);

static enum ri_status port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                              uint16_t *port)
{
    if (service_id || datagram)
        return RI_ERR_NOT_SUPPORTED;
    *port = ri_address_port(address);
    return RI_OK;
}

static bool has_room(const struct ri_mem_connection *c)
{
    const struct end *other = ((const struct end *)c)->other;

    return !other || other->count < room;
}

static void await_room(struct ri_mem_connection *c)
{
    ((struct end *)c)->awaits = true;
    awaited++;
}

static int send_packet(struct ri_mem_connection *c, const void *octets, size_t length)
{
    struct end *other = ((struct end *)c)->other;
    struct packet *packet, **at;

    if (lost != 1)
        return lost;
    if (!other)
        return 0;
    packet = calloc(1, sizeof(*packet));
    ck_assert_ptr_nonnull(packet);
    packet->length = length;
    memcpy(packet->octets, octets, length);
    if (damage)
        damage(packet);
    for (at = &other->first; *at; at = &(*at)->next)
        ;
    *at = packet;
    other->count++;
    return 1;
}

static ssize_t receive(struct ri_mem_connection *c, void *octets, size_t most)
{
    struct end *end = (struct end *)c;
    struct packet *packet = end->first;
    size_t length;

    if (!packet)
        return end->left ? 0 : -1;
    end->first = packet->next;
    end->count--;
    length = packet->length < most ? packet->length : most;
    memcpy(octets, packet->octets, length);
    free(packet);
    return (ssize_t)length;
}

static enum ri_status start(struct ri_mem_connection *c, uint16_t port,
                            struct ri_cm_message *request, enum ri_connection_reason *reason)
{
    struct ri_mem_connection *there = port == PORT && listening
                                          ? ri_set_a_incoming(listening->set, listening)
                                          : NULL;

    if (!there) {
        *reason = RI_REASON_REFUSED;
        return RI_OK;
    }
    ri_set_a_from(c, request, OWN_PORT);
    ((struct end *)c)->other = (struct end *)there;
    ((struct end *)there)->other = (struct end *)c;
    ri_set_a_opened(c);
    ri_set_a_opened(there);
    ck_assert_int_eq(send_packet(c, request, sizeof(*request)), 1);
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
    struct end *end = (struct end *)c;

    for (struct packet *next; end->first; end->first = next) {
        next = end->first->next;
        free(end->first);
    }
}

static enum ri_status listen_at(struct ri_mem_listener *which, uint16_t *port)
{
    if (*port && *port != PORT)
        return RI_ERR_ADDRESS_IN_USE;
    *port = PORT;
    listening = which;
    return RI_OK;
}

static void unlisten(struct ri_mem_listener *which)
{
    ck_assert_ptr_eq(which, listening);
    listening = NULL;
    free(which);
}

static const struct sockaddr source = { .sa_family = AF_INET };
static const struct ri_packet_carrier in_memory = {
    .set_a = { .connection_size = sizeof(struct end),
               .listener_size = sizeof(struct ri_mem_listener),
               .qp_size = sizeof(struct ri_rc),
               .now = ri_now,
               .source = &source,
               .port_of = port_of,
               .start = start,
               .close = close_channel,
               .release = release,
               .listen = listen_at,
               .unlisten = unlisten,
               .send = ri_packet_message,
               .put = ri_packet_put,
               .flush = ri_packet_flush },
    .has_room = has_room,
    .await_room = await_room,
    .send = send_packet,
    .receive = receive,
};

/* ---- the provider ---- */

static const struct ri_packet_carrier *carrier;

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    return ri_packet_open(open, sizeof(struct ri_packet_rnic), &attributes, carrier, out);
}

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    (void)host;
    found(arg, &(struct ri_device){ .size = sizeof(struct ri_device), .name = "test" });
    return RI_OK;
}

static enum ri_status vp_query_port(struct ri_rnic *which, struct ri_port_attr *attr)
{
    (void)which;
    ri_port_add_address(attr, &source, 8);
    return RI_OK;
}

static const struct ri_privileged_ops privileged = {
    RI_MEM_PRIVILEGED_OPS,          RI_SET_A_OPS,
    .enumerate = vp_enumerate,      .open = vp_open,
    .close = ri_mem_close,          .query_port = vp_query_port,
    .qp_create = ri_rc_qp_create,   .qp_modify = ri_rc_qp_modify,
    .qp_destroy = ri_rc_qp_destroy,
};

static const struct ri_user_ops user = {
    RI_MEM_USER_OPS,
    .progress = ri_set_a_progress,
    .lane_arm = ri_mem_lane_arm,
};

static struct ri_mem_rnic *mem(void)
{
    return (struct ri_mem_rnic *)rnic;
}

/* One end that has something to do, under the lock; NULL: none. */
static struct end *next_end(void)
{
    struct ri_mem_connection *c;

    TAILQ_FOREACH(c, &mem()->set_a->connections, link)
    {
        struct end *end = (struct end *)c;

        if (end->closing || end->count || end->left || (end->awaits && has_room(c)))
            return end;
    }
    return NULL;
}

/* One pass of the lane over the carrier in memory. False: there was nothing to do. */
static bool work(void)
{
    uint64_t next;
    struct end *end, *other;
    int before;

    pthread_mutex_lock(&mem()->lock);
    end = next_end();
    pthread_mutex_unlock(&mem()->lock);
    if (end && end->closing) {
        ri_set_a_closed(&end->mem);
    } else if (end) {
        end->awaits = false;
        other = end->other;
        before = other ? other->count : 0;
        ri_packet_run(&end->mem);
        if (end->other && other->count - before > most_at_once)
            most_at_once = other->count - before;
    }
    return (user.progress(lane, NULL, 0, &next) || end) || !user.lane_arm(lane);
}

static void settle(void)
{
    while (work())
        ;
}

/* ---- before and after ---- */

static struct ri_qp *create_qp(struct fake_record *record)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = record,
                               .send_cq = cq,
                               .recv_cq = cq,
                               .max_send_wr = 4,
                               .max_recv_wr = 4,
                               .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };
    struct ri_qp *qp;

    ck_assert_int_eq(privileged.qp_create(pd, &attr, &qp), RI_OK);
    return qp;
}

static void open_all(const struct ri_packet_carrier *which, bool epoll)
{
    const struct ri_open open = {
        .size = sizeof(open), .host = &fake.host, .privileged = &privileged, .user = &user
    };
    struct ri_cq_attr depth = { .size = sizeof(depth), .depth = 16 };
    struct ri_mr_attr region = { .size = sizeof(region),
                                 .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                           RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE,
                                 .length = ALL };

    fake_host_init(&fake, NULL, epoll);
    fake.host.connection_event = connection_event;
    fake.host.connection_request = connection_request;
    carrier = which;
    ck_assert_ptr_null(ri_missing_operation(&privileged, &user, attributes.features));
    ck_assert_int_eq(privileged.open(&open, &rnic), RI_OK);
    ck_assert_int_eq(privileged.lane_open(rnic, 0, &fake.events, &lane), RI_OK);
    ck_assert_int_eq(privileged.pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(privileged.cq_create(rnic, &depth, &cq), RI_OK);
    for (int i = 0; i < 2; i++) {
        region.addr = i ? to : from;
        ck_assert_int_eq(privileged.mr_register(pd, &region, &keys[i], &mr[i]), RI_OK);
    }
    for (size_t i = 0; i < ALL; i++)
        from[i] = (uint8_t)(i * 7 + i / 251);
    memset(to, 0, ALL);
    memset(records, 0, sizeof(records));
    active = create_qp(&records[0]);
    passive = create_qp(&records[1]);
    client = server = NULL;
    established = disconnected = failed = awaited = most_at_once = 0;
    room = 200;
    lost = 1;
    damage = NULL;
}

static enum ri_status listen_on(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (struct sockaddr *)&address,
                                           .backlog = 2 };

    return privileged.listen(rnic, &param, &listener, &bound, &listener);
}

static void connect_client(void)
{
    const struct ri_connect_param param = { .size = sizeof(param),
                                            .destination = (struct sockaddr *)&bound,
                                            .deadline = RI_NO_DEADLINE,
                                            .ird = 2,
                                            .ord = 2 };

    ck_assert_int_eq(privileged.connection_create(rnic, &active_id, &client), RI_OK);
    ck_assert_int_eq(privileged.connect(client, active, &param), RI_OK);
}

static void accept_server(void)
{
    const struct ri_connect_param param = {
        .size = sizeof(param), .deadline = RI_NO_DEADLINE, .ird = 2, .ord = 2
    };

    ck_assert_ptr_nonnull(server);
    ck_assert_int_eq(privileged.accept(server, passive, &param), RI_OK);
}

/* Two QPs of the carrier in memory that are connected. */
static void open_connected(void)
{
    open_all(&in_memory, false);
    ck_assert_int_eq(listen_on(0), RI_OK);
    connect_client();
    settle();
    accept_server();
    settle();
    ck_assert_int_eq(established, 2);
    awaited = most_at_once = 0;
}

static void destroy_qps(void)
{
    if (active)
        ck_assert_int_eq(privileged.qp_destroy(active), RI_OK);
    if (passive)
        ck_assert_int_eq(privileged.qp_destroy(passive), RI_OK);
    active = passive = NULL;
}

/* Everything is freed, and the RNIC closes when it is. */
static void close_all(void (*run)(void))
{
    destroy_qps();
    if (client)
        ck_assert_int_eq(privileged.connection_destroy(client), RI_OK);
    if (server)
        ck_assert_int_eq(privileged.connection_destroy(server), RI_OK);
    run();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(privileged.mr_deregister(mr[i]), RI_OK);
    ck_assert_int_eq(privileged.cq_destroy(cq), RI_OK);
    ck_assert_int_eq(privileged.pd_destroy(pd), RI_OK);
    if (listener) {
        ck_assert_int_eq(privileged.close(rnic, false), RI_ERR_BUSY);
        ck_assert_int_eq(privileged.listen_destroy(listener), RI_OK);
        listener = NULL;
    }
    run();
    ck_assert(TAILQ_EMPTY(&mem()->set_a->connections));
    ck_assert_int_eq(privileged.close(rnic, false), RI_OK);
    ck_assert_uint_eq(fake_lane_watches(&fake.events), 0);
    fake_host_free(&fake);
}

/* ---- requests ---- */

static void post(struct ri_qp *qp, uint16_t opcode, uint64_t cookie, uint32_t length)
{
    struct ri_sge sge = { (uintptr_t)from, length, keys[0].lkey };
    struct ri_send_wr *bad, wr = { .cookie = cookie,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .flags = RI_WR_SIGNALED,
                                   .rdma = { (uintptr_t)to, keys[1].rkey, 0 } };

    ck_assert_int_eq(user.post_send(qp, &wr, &bad), RI_OK);
}

static void post_receive(struct ri_qp *qp, uint64_t cookie, uint32_t length)
{
    struct ri_sge sge = { (uintptr_t)to, length, keys[1].lkey };
    struct ri_recv_wr *bad, wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 };

    ck_assert_int_eq(user.post_recv(qp, &wr, &bad), RI_OK);
}

static void expect(uint64_t cookie, enum ri_wc_status status, uint32_t octets)
{
    struct ri_wc wc;

    ck_assert_uint_eq(user.poll(cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.status, status);
    ck_assert_uint_eq(wc.byte_len, octets);
}

static void expect_event(int which, enum ri_event_type type)
{
    ck_assert_uint_eq(atomic_load(&records[which].count), 1);
    ck_assert_int_eq(records[which].type[0], type);
}

/* ---- tests over the carrier in memory ---- */

START_TEST(messages_and_pieces_share_a_channel)
{
    open_connected();
    ck_assert_uint_eq(ri_address_port((struct sockaddr *)&bound), PORT);
    ck_assert_uint_eq(ri_address_port((struct sockaddr *)&asked_from), OWN_PORT);
    post_receive(passive, 1, 3 * PAYLOAD);
    post(active, RI_WR_SEND, 2, 2 * PAYLOAD + 5);
    settle();
    expect(2, RI_WC_SUCCESS, 2 * PAYLOAD + 5);
    expect(1, RI_WC_SUCCESS, 2 * PAYLOAD + 5);
    ck_assert_mem_eq(to, from, 2 * PAYLOAD + 5);
    post(passive, RI_WR_RDMA_WRITE, 3, 9);
    settle();
    expect(3, RI_WC_SUCCESS, 9);
    ck_assert_int_eq(privileged.disconnect(client, NULL, 0), RI_OK);
    settle();
    ck_assert_int_eq(disconnected, 2);
    close_all(settle);
}
END_TEST

/* A segment that has no room waits for it, and nothing of it is lost or sent twice. */
START_TEST(full_carrier_waits)
{
    open_connected();
    room = 3;
    post(active, RI_WR_RDMA_WRITE, 1, 10 * PAYLOAD);
    ck_assert_int_eq(((struct end *)server)->count, 3);
    ck_assert_int_eq(awaited, 1);
    settle();
    expect(1, RI_WC_SUCCESS, 10 * PAYLOAD);
    ck_assert_mem_eq(to, from, 10 * PAYLOAD);
    close_all(settle);
}
END_TEST

/* A QP with much to send lets others have their turn, and asks to be called again. */
START_TEST(turns_end)
{
    open_connected();
    post(active, RI_WR_RDMA_WRITE, 1, ALL);
    ck_assert_int_eq(((struct end *)server)->count, 64);
    ck_assert_int_eq(awaited, 1);
    ck_assert(((struct end *)client)->awaits);
    ck_assert(ri_packet_run((struct ri_mem_connection *)server)); /* as many as a turn has */
    ck_assert(!ri_packet_run((struct ri_mem_connection *)server));
    settle();
    ck_assert_int_le(most_at_once, 64);
    expect(1, RI_WC_SUCCESS, ALL);
    ck_assert_mem_eq(to, from, ALL);
    close_all(settle);
}
END_TEST

/* -1 ends the connection here at once. */
START_TEST(lost_packet_ends_the_connection)
{
    open_connected();
    lost = -1;
    post(active, RI_WR_RDMA_WRITE, 1, 3 * PAYLOAD);
    lost = 1;
    settle();
    expect_event(0, RI_EVENT_LLP_LOST);
    ck_assert_int_eq(disconnected, 2);
    expect(1, RI_WC_FLUSHED, 0);
    close_all(settle);
}
END_TEST

/* 0: the peer has gone, but what it sent before is taken first. */
START_TEST(what_came_before_the_end_is_taken)
{
    open_connected();
    post_receive(active, 1, 64);
    post(passive, RI_WR_SEND, 2, 50);
    close_channel((struct ri_mem_connection *)server); /* as if its process had died */
    lost = 0;
    post(active, RI_WR_RDMA_WRITE, 3, 8);
    lost = 1;
    ck_assert_int_eq(((struct ri_mem_qp *)active)->state, RI_QPS_RTS);
    settle();
    ck_assert_int_eq(((struct ri_mem_qp *)active)->state, RI_QPS_ERROR);
    ck_assert_int_ge(disconnected, 1);
    expect(2, RI_WC_SUCCESS, 50);
    expect(3, RI_WC_SUCCESS, 8);
    expect(1, RI_WC_SUCCESS, 50);
    close_all(settle);
}
END_TEST

static void cut_octet(struct packet *packet)
{
    packet->length--;
}

static void add_octet(struct packet *packet)
{
    packet->length++;
}

static void cut_head(struct packet *packet)
{
    packet->length = sizeof(struct ri_segment) / 2;
}

static void state_more(struct packet *packet)
{
    memset(packet->octets, 0xff, sizeof(uint32_t));
}

static const uint8_t zeros[100];
static void (*const damages[])(struct packet *) = { cut_octet, add_octet, cut_head, state_more };

/* A segment that states another length ends the connection of its sender, who is told why. */
START_TEST(piece_of_another_length_is_refused)
{
    open_connected();
    damage = damages[_i];
    post(active, RI_WR_RDMA_WRITE, 1, 100);
    damage = NULL;
    settle();
    expect_event(1, RI_EVENT_INTEGRITY);
    expect_event(0, RI_EVENT_TERMINATE_RECEIVED);
    ck_assert_int_eq(disconnected, 2);
    ck_assert_mem_eq(to, zeros, sizeof(zeros));
    close_all(settle);
}
END_TEST

/* So does a message, of whose end both sides hear. */
START_TEST(message_of_another_length_is_refused)
{
    open_all(&in_memory, false);
    ck_assert_int_eq(listen_on(PORT), RI_OK);
    damage = damages[_i];
    connect_client();
    damage = NULL;
    settle();
    ck_assert_ptr_null(server);
    ck_assert_int_eq(failed, 1);
    close_all(settle);
}
END_TEST

static struct tc_rng rng;

/* Of any content, most of them of a length that fits. */
static void scramble(struct packet *packet)
{
    struct ri_segment *segment = (struct ri_segment *)packet->octets;

    if (tc_below(&rng, 4))
        return;
    if (tc_below(&rng, 2))
        packet->length = (size_t)tc_below(&rng, sizeof(packet->octets) + 1);
    tc_fill(&rng, packet->octets, sizeof(*segment) + 64);
    segment->type = (uint8_t)tc_below(&rng, 8);
    if (tc_below(&rng, 4) && packet->length >= sizeof(*segment))
        segment->length = (uint32_t)(packet->length - sizeof(*segment));
}

/* A peer sends what it likes, in any state: each side hears of one end, and all is freed. */
START_TEST(packets_of_any_content)
{
    unsigned int rounds = (unsigned int)tc_count(40), both = 0;

    rng = tc_rng(2);
    for (unsigned int i = 0; i < rounds; i++) {
        open_all(&in_memory, false);
        damage = tc_below(&rng, 2) ? scramble : NULL;
        ck_assert_int_eq(listen_on(PORT), RI_OK);
        connect_client();
        settle();
        if (server)
            accept_server();
        settle();
        damage = scramble;
        for (uint64_t k = 0; k < 3 && established == 2; k++) {
            post_receive(passive, k, 3 * PAYLOAD);
            post(active, k == 1 ? RI_WR_RDMA_READ : k ? RI_WR_RDMA_WRITE : RI_WR_SEND, k, PAYLOAD);
            settle();
        }
        both += established == 2;
        destroy_qps();
        settle();
        ck_assert_int_le(disconnected + failed, 2);
        close_all(settle);
    }
    ck_assert_uint_gt(both, 0);
}
END_TEST

/* ---- QPs ---- */

START_TEST(states_of_a_qp)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_QKEY,
                                   .state = RI_QPS_ERROR };

    open_connected();
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_ERR_NOT_SUPPORTED);
    modify.mask = RI_QPM_STATE;
    modify.state = RI_QPS_RTS;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_ERR_NOT_SUPPORTED);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_ERR_INVALID_STATE);
    post_receive(active, 1, 10);
    modify.state = RI_QPS_ERROR;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_OK);
    expect(1, RI_WC_FLUSHED, 0);
    ck_assert_int_eq(disconnected, 0); /* never inside the call */
    settle();
    ck_assert_int_eq(disconnected, 2);
    ck_assert_uint_eq(atomic_load(&records[0].count), 0);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_OK);
    ck_assert_int_eq(((struct ri_mem_qp *)active)->state, RI_QPS_IDLE);
    close_all(settle);
}
END_TEST

/* A Read is under way until the QP begins a new life, which it does not from RTS. */
START_TEST(idle_forgets_reads)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_ERROR };

    open_connected();
    post(active, RI_WR_RDMA_READ, 1, 8);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(((struct ri_rc *)active)->reads, 1);
    modify.state = RI_QPS_ERROR;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_OK);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(privileged.qp_modify(active, &modify), RI_OK);
    ck_assert_uint_eq(((struct ri_rc *)active)->reads, 0);
    expect(1, RI_WC_FLUSHED, 0);
    close_all(settle);
}
END_TEST

/* Its connection ends with it, on both sides, and the peer has what was sent before. */
START_TEST(destroy_ends_the_connection)
{
    open_connected();
    post(active, RI_WR_RDMA_WRITE, 1, 9);
    expect(1, RI_WC_SUCCESS, 9);
    ck_assert_int_eq(privileged.qp_destroy(active), RI_OK);
    active = NULL;
    settle();
    ck_assert_int_eq(disconnected, 2);
    ck_assert_mem_eq(to, from, 9);
    close_all(settle);
}
END_TEST

/* What cannot be made leaves nothing behind: the RNIC closes, and a sanitizer finds no leak. */
START_TEST(what_is_refused_leaves_nothing)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr), .type = RI_QP_RC, .send_cq = cq, .recv_cq = cq
    };
    struct ri_qp *qp;

    open_all(&in_memory, false);
    attr.send_cq = attr.recv_cq = cq;
    ck_assert_int_eq(privileged.qp_create(pd, &attr, &qp), RI_ERR_NO_RESOURCES); /* the third */
    ck_assert_int_eq(listen_on(PORT + 1), RI_ERR_ADDRESS_IN_USE);
    ck_assert_ptr_null(listener);
    ck_assert_int_eq(listen_on(PORT), RI_OK);
    connect_client(); /* a request that the host has not heard of yet */
    ck_assert_int_eq(privileged.listen_destroy(listener), RI_OK);
    listener = NULL;
    settle();
    ck_assert_ptr_null(server);
    ck_assert_int_eq(failed, 1);
    close_all(settle);
}
END_TEST

/* ---- sockets ---- */

static socklen_t name_of(struct sockaddr_un *name, uint16_t port)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
           (socklen_t)sprintf(name->sun_path + 1, "ital-test/%d/%u", (int)getpid(), port);
}

static int fd_of(const struct ri_mem_connection *c)
{
    return ((const struct ri_channel *)c)->watched.fd;
}

/* The test's own limit, so that the socket's need not be known. */
static bool socket_has_room(const struct ri_mem_connection *c)
{
    (void)c;
    return room > 0;
}

static int socket_send(struct ri_mem_connection *c, const void *packet, size_t length)
{
    room--;
    return send(fd_of(c), packet, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length ? 1 : 0;
}

static ssize_t socket_receive(struct ri_mem_connection *c, void *packet, size_t most)
{
    return recv(fd_of(c), packet, most, MSG_DONTWAIT);
}

static enum ri_status socket_start(struct ri_mem_connection *c, uint16_t port,
                                   struct ri_cm_message *request, enum ri_connection_reason *reason)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name;
    socklen_t length = name_of(&name, port);

    if (connect(fd, (struct sockaddr *)&name, length)) {
        *reason = RI_REASON_REFUSED;
        close(fd);
        return RI_OK;
    }
    ck_assert_int_eq(send(fd, request, sizeof(*request), 0), sizeof(*request));
    return ri_channel_open((struct ri_channel *)c, fd, EPOLLIN, ri_packet_ready);
}

static enum ri_status socket_listen(struct ri_mem_listener *which, uint16_t *port)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name;
    socklen_t length = name_of(&name, *port);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, length), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return ri_channel_listen(which, fd, EPOLLIN, ri_packet_ready);
}

static const struct ri_packet_carrier over_sockets = {
    .set_a = { .connection_size = sizeof(struct ri_channel),
               .listener_size = sizeof(struct ri_channel_listener),
               .qp_size = sizeof(struct ri_rc),
               .now = ri_now,
               .source = &source,
               .port_of = port_of,
               .start = socket_start,
               .close = ri_channel_close,
               .listen = socket_listen,
               .unlisten = ri_channel_unlisten,
               .send = ri_packet_message,
               .put = ri_packet_put,
               .flush = ri_packet_flush },
    .has_room = socket_has_room,
    .await_room = ri_channel_await_room,
    .send = socket_send,
    .receive = socket_receive,
};

/* A pass of the lane: what its sockets have, then what there is to tell. */
static void pass(void)
{
    uint64_t next;

    fake_lane_pass(&fake.events, 0);
    user.progress(lane, NULL, 0, &next);
}

#define until(cond)                                        \
    do {                                                   \
        uint64_t end_ = tc_deadline(20000);                \
        while (!(cond)) {                                  \
            ck_assert_msg(!tc_expired(end_), "%s", #cond); \
            pass();                                        \
        }                                                  \
    } while (0)

/* What ends with the test's own objects is unwatched and closed in the lane's next passes. */
static void drain(void)
{
    until(TAILQ_EMPTY(&mem()->set_a->connections));
    until(user.lane_arm(lane));
}

START_TEST(sockets_carry_packets)
{
    struct ri_channel *channel;

    open_all(&over_sockets, true);
    ck_assert_int_eq(listen_on(PORT), RI_OK);
    connect_client();
    until(server);
    accept_server();
    until(established == 2);
    room = 2;
    post(active, RI_WR_RDMA_WRITE, 1, 5 * PAYLOAD);
    channel = (struct ri_channel *)client;
    ck_assert(channel->awaits_room);
    ck_assert_uint_eq(fake_lane_watch_of(&fake.events, channel->watched.fd)->events,
                      EPOLLIN | EPOLLOUT);
    room = 100;
    until(!memcmp(to, from, 5 * PAYLOAD));
    ck_assert(!channel->awaits_room);
    ck_assert_uint_eq(fake_lane_watch_of(&fake.events, channel->watched.fd)->events, EPOLLIN);
    expect(1, RI_WC_SUCCESS, 5 * PAYLOAD);
    ck_assert_int_eq(privileged.disconnect(client, NULL, 0), RI_OK);
    until(disconnected == 2);
    close_all(drain);
}
END_TEST

/* Nobody is let in behind listen_destroy, and the port is free, though the lane has not run. */
START_TEST(listener_on_a_socket_ends)
{
    open_all(&over_sockets, true);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(listen_on(PORT), RI_OK);
        ck_assert_int_eq(privileged.listen_destroy(listener), RI_OK);
        ck_assert_uint_eq(fake_lane_watches(&fake.events), 0);
    }
    listener = NULL;
    connect_client();
    ck_assert(TAILQ_EMPTY(&mem()->set_a->connections)); /* refused at once */
    until(failed == 1);
    drain();
    ck_assert_uint_eq(fake_lane_watches(&fake.events), 0);
    ck_assert_int_eq(listen_on(PORT), RI_OK);
    close_all(drain);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librnicpi: QPs and packets of set A");
    TCase *tc = tc_case(suite, "packets", NULL, NULL);

    tc_add_tests(tc, messages_and_pieces_share_a_channel, full_carrier_waits, turns_end,
                 lost_packet_ends_the_connection, what_came_before_the_end_is_taken);
    tcase_add_loop_test(tc, piece_of_another_length_is_refused, 0, 4);
    tcase_add_loop_test(tc, message_of_another_length_is_refused, 0, 3);
    tc_add_tests(tc, packets_of_any_content, states_of_a_qp, idle_forgets_reads,
                 destroy_ends_the_connection, what_is_refused_leaves_nothing);
    tc = tc_case(suite, "sockets", NULL, NULL);
    tc_add_tests(tc, sockets_carry_packets, listener_on_a_socket_ends);
    return tc_main(suite);
}
