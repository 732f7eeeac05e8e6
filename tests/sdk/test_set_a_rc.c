/* SPDX-License-Identifier: BSD-3-Clause */
/* librnicpi: QPs and packets over connections of set A, by the operation tables that a provider
 * initializes with its macros. First over a carrier in memory, without descriptors: what travels,
 * waits, is lost or damaged. Then over sockets, which a lane of the test watches. */
#include "packet_bed.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rnicpi_util.h"

/* ---- tests over the carrier in memory ---- */

START_TEST(messages_and_pieces_share_a_channel)
{
    bed_open_connected();
    ck_assert_uint_eq(ri_address_port((struct sockaddr *)&bed.bound), PORT);
    ck_assert_uint_eq(ri_address_port((struct sockaddr *)&bed.asked_from), OWN_PORT);
    bed_post_receive(bed.passive, 1, 3 * PAYLOAD);
    bed_post(bed.active, RI_WR_SEND, 2, 2 * PAYLOAD + 5);
    bed_settle();
    bed_expect(2, RI_WC_SUCCESS, 2 * PAYLOAD + 5);
    bed_expect(1, RI_WC_SUCCESS, 2 * PAYLOAD + 5);
    ck_assert_mem_eq(bed.to, bed.from, 2 * PAYLOAD + 5);
    bed_post(bed.passive, RI_WR_RDMA_WRITE, 3, 9);
    bed_settle();
    bed_expect(3, RI_WC_SUCCESS, 9);
    ck_assert_int_eq(bed_privileged.disconnect(bed.client, NULL, 0), RI_OK);
    bed_settle();
    ck_assert_int_eq(bed.disconnected, 2);
    bed_close(bed_settle);
}
END_TEST

/* A segment that has no room waits for it, and nothing of it is lost or sent twice. */
START_TEST(full_carrier_waits)
{
    bed_open_connected();
    bed.room = 3;
    bed_post(bed.active, RI_WR_RDMA_WRITE, 1, 10 * PAYLOAD);
    ck_assert_int_eq(((struct end *)bed.server)->count, 3);
    ck_assert_int_eq(bed.awaited, 1);
    bed_settle();
    bed_expect(1, RI_WC_SUCCESS, 10 * PAYLOAD);
    ck_assert_mem_eq(bed.to, bed.from, 10 * PAYLOAD);
    bed_close(bed_settle);
}
END_TEST

/* A QP with much to send lets others have their turn, and asks to be called again. */
START_TEST(turns_end)
{
    bed_open_connected();
    bed_post(bed.active, RI_WR_RDMA_WRITE, 1, ALL);
    ck_assert_int_eq(((struct end *)bed.server)->count, 64);
    ck_assert_int_eq(bed.awaited, 1);
    ck_assert(((struct end *)bed.client)->awaits);
    ck_assert(ri_packet_run((struct ri_mem_connection *)bed.server)); /* as many as a turn has */
    ck_assert(!ri_packet_run((struct ri_mem_connection *)bed.server));
    bed_settle();
    ck_assert_int_le(bed.most_at_once, 64);
    bed_expect(1, RI_WC_SUCCESS, ALL);
    ck_assert_mem_eq(bed.to, bed.from, ALL);
    bed_close(bed_settle);
}
END_TEST

/* -1 ends the connection here at once. */
START_TEST(lost_packet_ends_the_connection)
{
    bed_open_connected();
    bed.lost = -1;
    bed_post(bed.active, RI_WR_RDMA_WRITE, 1, 3 * PAYLOAD);
    bed.lost = 1;
    bed_settle();
    bed_expect_event(0, RI_EVENT_LLP_LOST);
    ck_assert_int_eq(bed.disconnected, 2);
    bed_expect(1, RI_WC_FLUSHED, 0);
    bed_close(bed_settle);
}
END_TEST

/* 0: the peer has gone, but what it sent before is taken first. */
START_TEST(what_came_before_the_end_is_taken)
{
    bed_open_connected();
    bed_post_receive(bed.active, 1, 64);
    bed_post(bed.passive, RI_WR_SEND, 2, 50);
    bed_close_channel((struct ri_mem_connection *)bed.server); /* as if its process had died */
    bed.lost = 0;
    bed_post(bed.active, RI_WR_RDMA_WRITE, 3, 8);
    bed.lost = 1;
    ck_assert_int_eq(((struct ri_mem_qp *)bed.active)->state, RI_QPS_RTS);
    bed_settle();
    ck_assert_int_eq(((struct ri_mem_qp *)bed.active)->state, RI_QPS_ERROR);
    ck_assert_int_ge(bed.disconnected, 1);
    bed_expect(2, RI_WC_SUCCESS, 50);
    bed_expect(3, RI_WC_SUCCESS, 8);
    bed_expect(1, RI_WC_SUCCESS, 50);
    bed_close(bed_settle);
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
    bed_open_connected();
    bed.damage = damages[_i];
    bed_post(bed.active, RI_WR_RDMA_WRITE, 1, 100);
    bed.damage = NULL;
    bed_settle();
    bed_expect_event(1, RI_EVENT_INTEGRITY);
    bed_expect_event(0, RI_EVENT_TERMINATE_RECEIVED);
    ck_assert_int_eq(bed.disconnected, 2);
    ck_assert_mem_eq(bed.to, zeros, sizeof(zeros));
    bed_close(bed_settle);
}
END_TEST

/* So does a message, of whose end both sides hear. */
START_TEST(message_of_another_length_is_refused)
{
    bed_open(&bed_in_memory, false);
    ck_assert_int_eq(bed_listen(PORT), RI_OK);
    bed.damage = damages[_i];
    bed_connect();
    bed.damage = NULL;
    bed_settle();
    ck_assert_ptr_null(bed.server);
    ck_assert_int_eq(bed.failed, 1);
    bed_close(bed_settle);
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
        bed_open(&bed_in_memory, false);
        bed.damage = tc_below(&rng, 2) ? scramble : NULL;
        ck_assert_int_eq(bed_listen(PORT), RI_OK);
        bed_connect();
        bed_settle();
        if (bed.server)
            bed_accept();
        bed_settle();
        bed.damage = scramble;
        for (uint64_t k = 0; k < 3 && bed.established == 2; k++) {
            bed_post_receive(bed.passive, k, 3 * PAYLOAD);
            bed_post(bed.active,
                     k == 1 ? RI_WR_RDMA_READ
                     : k    ? RI_WR_RDMA_WRITE
                            : RI_WR_SEND,
                     k, PAYLOAD);
            bed_settle();
        }
        both += bed.established == 2;
        bed_destroy_qps();
        bed_settle();
        ck_assert_int_le(bed.disconnected + bed.failed, 2);
        bed_close(bed_settle);
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

    bed_open_connected();
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_ERR_NOT_SUPPORTED);
    modify.mask = RI_QPM_STATE;
    modify.state = RI_QPS_RTS;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_ERR_NOT_SUPPORTED);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_ERR_INVALID_STATE);
    bed_post_receive(bed.active, 1, 10);
    modify.state = RI_QPS_ERROR;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_OK);
    bed_expect(1, RI_WC_FLUSHED, 0);
    ck_assert_int_eq(bed.disconnected, 0); /* never inside the call */
    bed_settle();
    ck_assert_int_eq(bed.disconnected, 2);
    ck_assert_uint_eq(atomic_load(&bed.records[0].count), 0);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_OK);
    ck_assert_int_eq(((struct ri_mem_qp *)bed.active)->state, RI_QPS_IDLE);
    bed_close(bed_settle);
}
END_TEST

/* A Read is under way until the QP begins a new life, which it does not from RTS. */
START_TEST(idle_forgets_reads)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_ERROR };

    bed_open_connected();
    bed_post(bed.active, RI_WR_RDMA_READ, 1, 8);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(((struct ri_rc *)bed.active)->reads, 1);
    modify.state = RI_QPS_ERROR;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_OK);
    modify.state = RI_QPS_IDLE;
    ck_assert_int_eq(bed_privileged.qp_modify(bed.active, &modify), RI_OK);
    ck_assert_uint_eq(((struct ri_rc *)bed.active)->reads, 0);
    bed_expect(1, RI_WC_FLUSHED, 0);
    bed_close(bed_settle);
}
END_TEST

/* Its connection ends with it, on both sides, and the peer has what was sent before. */
START_TEST(destroy_ends_the_connection)
{
    bed_open_connected();
    bed_post(bed.active, RI_WR_RDMA_WRITE, 1, 9);
    bed_expect(1, RI_WC_SUCCESS, 9);
    ck_assert_int_eq(bed_privileged.qp_destroy(bed.active), RI_OK);
    bed.active = NULL;
    bed_settle();
    ck_assert_int_eq(bed.disconnected, 2);
    ck_assert_mem_eq(bed.to, bed.from, 9);
    bed_close(bed_settle);
}
END_TEST

/* What cannot be made leaves nothing behind: the RNIC closes, and a sanitizer finds no leak. */
START_TEST(what_is_refused_leaves_nothing)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr), .type = RI_QP_RC, .send_cq = bed.cq, .recv_cq = bed.cq
    };
    struct ri_qp *qp;

    bed_open(&bed_in_memory, false);
    attr.send_cq = attr.recv_cq = bed.cq;
    ck_assert_int_eq(bed_privileged.qp_create(bed.pd, &attr, &qp),
                     RI_ERR_NO_RESOURCES); /* the third */
    ck_assert_int_eq(bed_listen(PORT + 1), RI_ERR_ADDRESS_IN_USE);
    ck_assert_ptr_null(bed.listener);
    ck_assert_int_eq(bed_listen(PORT), RI_OK);
    bed_connect(); /* a request that the host has not heard of yet */
    ck_assert_int_eq(bed_privileged.listen_destroy(bed.listener), RI_OK);
    bed.listener = NULL;
    bed_settle();
    ck_assert_ptr_null(bed.server);
    ck_assert_int_eq(bed.failed, 1);
    bed_close(bed_settle);
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
    return bed.room > 0;
}

static int socket_send(struct ri_mem_connection *c, const void *packet, size_t length)
{
    bed.room--;
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
               .source = &bed_source,
               .port_of = bed_port_of,
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

    fake_lane_pass(&bed.fake.events, 0);
    bed_user.progress(bed.lane, NULL, 0, &next);
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
    until(TAILQ_EMPTY(&bed_rnic()->set_a->connections));
    until(bed_user.lane_arm(bed.lane));
}

START_TEST(sockets_carry_packets)
{
    struct ri_channel *channel;

    bed_open(&over_sockets, true);
    ck_assert_int_eq(bed_listen(PORT), RI_OK);
    bed_connect();
    until(bed.server);
    bed_accept();
    until(bed.established == 2);
    bed.room = 2;
    bed_post(bed.active, RI_WR_RDMA_WRITE, 1, 5 * PAYLOAD);
    channel = (struct ri_channel *)bed.client;
    ck_assert(channel->awaits_room);
    ck_assert_uint_eq(fake_lane_watch_of(&bed.fake.events, channel->watched.fd)->events,
                      EPOLLIN | EPOLLOUT);
    bed.room = 100;
    until(!memcmp(bed.to, bed.from, 5 * PAYLOAD));
    ck_assert(!channel->awaits_room);
    ck_assert_uint_eq(fake_lane_watch_of(&bed.fake.events, channel->watched.fd)->events, EPOLLIN);
    bed_expect(1, RI_WC_SUCCESS, 5 * PAYLOAD);
    ck_assert_int_eq(bed_privileged.disconnect(bed.client, NULL, 0), RI_OK);
    until(bed.disconnected == 2);
    bed_close(drain);
}
END_TEST

/* Nobody is let in behind listen_destroy, and the port is free, though the lane has not run. */
START_TEST(listener_on_a_socket_ends)
{
    bed_open(&over_sockets, true);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(bed_listen(PORT), RI_OK);
        ck_assert_int_eq(bed_privileged.listen_destroy(bed.listener), RI_OK);
        ck_assert_uint_eq(fake_lane_watches(&bed.fake.events), 0);
    }
    bed.listener = NULL;
    bed_connect();
    ck_assert(TAILQ_EMPTY(&bed_rnic()->set_a->connections)); /* refused at once */
    until(bed.failed == 1);
    drain();
    ck_assert_uint_eq(fake_lane_watches(&bed.fake.events), 0);
    ck_assert_int_eq(bed_listen(PORT), RI_OK);
    bed_close(drain);
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
