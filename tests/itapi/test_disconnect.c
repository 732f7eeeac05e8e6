/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of connections: by one side, by both, by the peer's death; all that was sent before
 * arrives. */
#include "opened.h"
#include "process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* --- the end --- */

START_TEST(disconnect_by_one)
{
    it_event_t event;

    pair_connected(&pair, IFACE);
    ok(it_ep_disconnect(pair.a.ep, (const unsigned char *)"bye", 4));
    event = expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.a.ep);
    event = expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, pair.b.ep);
    expect_nothing(pair.a.connections);
    expect_nothing(pair.b.connections);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.a.affiliated, &event));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.b.affiliated, &event));
}
END_TEST

START_TEST(disconnect_by_both)
{
    pair_connected(&pair, IFACE);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    if (it_ep_disconnect(pair.b.ep, NULL, 0) != IT_SUCCESS) /* may be reported already */
        ck_assert_int_eq(node_state(pair.b.ep), IT_EP_STATE_NONOPERATIONAL);
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect_nothing(pair.a.connections);
    expect_nothing(pair.b.connections);
}
END_TEST

START_TEST(disconnect_while_pending)
{
    it_event_t event;

    pair_open(&pair, IFACE);
    event = pair_ask(&pair, pair_family(&pair), NULL, 0);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_NONOPERATIONAL);
    ok(it_ep_reset(pair.a.ep));
    it_reject(event.conn_req.cn_est_id, NULL, 0); /* withdrawn or not, it cannot be used */
    pair_connect(&pair, pair_family(&pair));
}
END_TEST

START_TEST(reset_and_reconnect)
{
    pair_open(&pair, IFACE);
    for (unsigned long round = 0; round < tc_count(20); round++) {
        struct pair *ender = &pair;

        pair_connect(&pair, pair_family(&pair));
        ok(it_ep_disconnect(round % 2 ? ender->a.ep : ender->b.ep, NULL, 0));
        expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        ok(it_ep_reset(pair.a.ep));
        ok(it_ep_reset(pair.b.ep));
    }
}
END_TEST

#define PLENTY (256u << 10)

/* The second half of the source to the first half of the target. */
static void write_to(struct node *from, const struct buffer *source, const struct buffer *target)
{
    it_lmr_triplet_t all = segment(source, PLENTY, PLENTY);

    ok(it_post_rdma_write(from->ep, &all, 1, 7, BOTH, address_in(target, 0), target->context));
}

/* The peer is sending meanwhile: it gets all that was sent before, and both get the same end. */
START_TEST(disconnect_while_the_peer_sends)
{
    struct buffer of_a, of_b;

    pair_open(&pair, IFACE);
    of_a = buffer_make(&pair.a, 2 * PLENTY, EVERYTHING);
    of_b = buffer_make(&pair.b, 2 * PLENTY, EVERYTHING);
    for (unsigned long round = 0; round < tc_count(20); round++) {
        pair_connect(&pair, pair_family(&pair));
        memset(of_a.data + PLENTY, (int)round + 1, PLENTY);
        memset(of_b.data, 0, PLENTY);
        write_to(&pair.a, &of_a, &of_b);
        expect_done(pair.a.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, 7, IT_DTO_SUCCESS);
        for (int i = 0; i < 4; i++)
            write_to(&pair.b, &of_b, &of_a);
        ok(it_ep_disconnect(pair.a.ep, NULL, 0));
        expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        ck_assert_mem_eq(of_b.data, of_a.data + PLENTY, PLENTY);
        for (int i = 0; i < 4; i++)
            next(pair.b.requests); /* done or flushed */
        ok(it_ep_reset(pair.a.ep));
        ok(it_ep_reset(pair.b.ep));
    }
    buffer_free(&of_a);
    buffer_free(&of_b);
}
END_TEST

/* Freeing an adapter ends its connections in order. */
START_TEST(adapter_freed)
{
    pair_connected(&pair, IFACE);
    node_close(&pair.a);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
}
END_TEST

/* In a child: connects to `port`, then stays until it is killed. */
static void __attribute__((noreturn)) victim(const char *name, int from_parent, int to_parent)
{
    it_conn_qual_t qualifier;
    it_net_addr_t address;
    it_path_t path;

    if (read(from_parent, &qualifier, sizeof(qualifier)) != sizeof(qualifier))
        _exit(1);
    node_open(&node, name);
    node_endpoint(&node);
    address = node_address(&node, IT_IPV4);
    path = path_to(&node, &address);
    ok(it_ep_connect(node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    if (write(to_parent, "c", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

START_TEST(peer_is_killed)
{
    it_event_t event;
    int down[2], up[2];
    char octet;
    pid_t child;

    ck_assert_int_eq(pipe(down), 0);
    ck_assert_int_eq(pipe(up), 0);
    child = fork();
    if (child == 0)
        victim(IFACE, down[0], up[1]);
    node_open(&node, IFACE);
    node_endpoint(&node);
    node_listen(&node);
    node_address(&node, IT_IPV4);
    ck_assert_int_eq(write(down[1], &node.qualifier, sizeof(node.qualifier)),
                     sizeof(node.qualifier));
    event = expect(node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(node.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_int_eq(tc_wait_fd(up[0], POLLIN, tc_deadline(PATIENCE)), POLLIN);
    ck_assert_int_eq(read(up[0], &octet, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    event = next(node.connections);
    ck_assert(event.event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT ||
              event.event_number == IT_CM_MSG_CONN_BROKEN_EVENT);
    ck_assert_ptr_eq(event.conn.ep, node.ep);
    ck_assert_int_eq(node_state(node.ep), IT_EP_STATE_NONOPERATIONAL);
    expect_nothing(node.connections);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(node.affiliated, &event));
}
END_TEST

/* --- what was sent before the end --- */

#define PARTING        32u /* messages that a process sends just before it leaves */
#define PARTING_OCTETS 65536u

/* Connects, sends, waits for all Sends to complete, closes the adapter with everything on it, and
 * exits. */
static void part(const char *name, int fd)
{
    it_conn_qual_t qualifier;
    it_net_addr_t address;
    struct buffer buffer;
    it_lmr_triplet_t one;
    it_path_t path;

    node_open(&node, name);
    node_endpoint(&node);
    buffer = buffer_make(&node, PARTING_OCTETS, IT_PRIV_LOCAL);
    one = segment(&buffer, 0, PARTING_OCTETS);
    if (!hear(fd, &qualifier, sizeof(qualifier)))
        _exit(1);
    address = node_address(&node, IT_IPV4);
    path = path_to(&node, &address);
    ok(it_ep_connect(node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    for (unsigned int i = 0; i < PARTING; i++)
        ok(it_post_send(node.ep, &one, 1, i, BOTH));
    for (unsigned int i = 0; i < PARTING; i++)
        expect_done(node.requests, IT_DTO_SEND_CMPL_EVENT, i, IT_DTO_SUCCESS);
    ok(it_ia_free(node.ia));
}

/* The receiver dequeues only after the sender's process has ended. */
START_TEST(completed_sends_arrive_after_exit)
{
    struct peer peer = peer_start(IFACE, part);
    it_lmr_triplet_t one;
    struct buffer buffer;
    it_event_t event;

    node_open(&node, IFACE);
    node_endpoint(&node);
    node_listen(&node);
    buffer = buffer_make(&node, PARTING_OCTETS, IT_PRIV_LOCAL);
    one = segment(&buffer, 0, PARTING_OCTETS);
    for (unsigned int i = 0; i < PARTING; i++)
        ok(it_post_recv(node.ep, &one, 1, i, BOTH));
    peer_tell(&peer, &node.qualifier, sizeof(node.qualifier));
    event = expect(node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(node.ep, event.conn_req.cn_est_id, NULL, 0));
    peer_end(&peer);
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    for (unsigned int i = 0; i < PARTING; i++)
        ck_assert_uint_eq(expect_done(node.receives, IT_DTO_RC_RECV_CMPL_EVENT, i, IT_DTO_SUCCESS)
                              .transferred_length,
                          PARTING_OCTETS);
    expect(node.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    buffer_free(&buffer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_disconnect");
    TCase *down = tc_case(suite, "down", NULL, fx_close);

    add_each(down, disconnect_by_one, disconnect_by_both, disconnect_while_pending,
             reset_and_reconnect);
    add_where(down, FX_SOFTRDMA, disconnect_while_the_peer_sends);
    add_each(down, adapter_freed, peer_is_killed, completed_sends_arrive_after_exit);
    return tc_main(suite);
}
