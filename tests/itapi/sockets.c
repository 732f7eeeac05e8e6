/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets that are to become RDMA connections; see sockets.h. */
#include "sockets.h"

#include <poll.h>
#include <sys/socket.h>

void sockets_new(struct sockets *s, int family)
{
    int pair[2];

    if (s->sa >= 0)
        close(s->sa);
    if (s->sb >= 0)
        close(s->sb);
    s->sa = s->sb = -1;
    if (tc_tcp_pair(family, pair))
        tc_skip("there is no such address here: %s", strerror(errno));
    s->sa = pair[0];
    s->sb = pair[1];
}

void sockets_open(struct sockets *s, const char *name)
{
    s->sa = s->sb = -1;
    node_open(&s->a, name);
    node_open(&s->b, name);
    node_endpoint(&s->a);
    node_endpoint(&s->b);
    sockets_new(s, AF_INET);
}

void sockets_close(struct sockets *s)
{
    node_close(&s->a);
    node_close(&s->b);
    close(s->sa);
    close(s->sb);
}

void say(int fd, const void *octets, size_t length)
{
    uint64_t deadline = tc_deadline(PATIENCE);

    for (size_t sent = 0; sent < length;) {
        ssize_t n = send(fd, (const char *)octets + sent, length - sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            ck_assert_int_gt(tc_wait_fd(fd, POLLOUT, deadline), 0);
        else
            ck_assert_msg(n > 0, "send: %s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
}

void read_all(int fd, void *octets, size_t length)
{
    uint64_t deadline = tc_deadline(PATIENCE);

    for (size_t got = 0; got < length;) {
        ssize_t n;

        ck_assert_msg(tc_wait_fd(fd, POLLIN, deadline) > 0, "%zu of %zu octets came", got, length);
        n = recv(fd, (char *)octets + got, length - got, 0);
        ck_assert_msg(n > 0, "the stream ended at octet %zu of %zu: %s", got, length,
                      n ? strerror(errno) : "in order");
        got += (size_t)n;
    }
}

void speak_no_mpa(int fd)
{
    static const char words[] = "GET / HTTP/1.0\r\n\r\nsome more";
    char octet;

    say(fd, words, sizeof(words));
    ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)), 0);
    ck_assert_int_le(recv(fd, &octet, 1, 0), 0);
}

void sockets_talk(const struct sockets *s)
{
    char line[8];

    say(s->sa, "UPGRADE\n", 8);
    read_all(s->sb, line, 8);
    ck_assert_mem_eq(line, "UPGRADE\n", 8);
}

void sockets_convert(struct sockets *s, it_sc_flags_t flags, const void *message, size_t length)
{
    static unsigned char got[1 << 20];

    ok(it_socket_convert(s->sb, s->b.ep, flags, message, length));
    read_all(s->sa, got, length);
    ck_assert_mem_eq(got, message, length);
    ok(it_socket_convert(s->sa, s->a.ep, flags, NULL, 0));
}

void sockets_established(struct sockets *s)
{
    const struct node *nodes[] = { &s->a, &s->b };

    for (int i = 0; i < 2; i++) {
        it_event_t event = expect(nodes[i]->connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);

        ck_assert_ptr_eq(event.conn.ep, nodes[i]->ep);
        ck_assert(!event.conn.private_data_present);
        ck_assert_int_eq(node_state(nodes[i]->ep), IT_EP_STATE_CONNECTED);
    }
}

/* A Send of the whole of one buffer into the other. */
static void send_one(const struct node *from, const struct node *to, struct buffer *out,
                     struct buffer *in)
{
    size_t end = in->length - 64;
    it_lmr_triplet_t inbox = segment(in, end, 64), outbox = segment(out, 0, 64);

    memset(in->data + end, 0, 64);
    ok(it_post_recv((it_handle_t)to->ep, &inbox, 1, 7, BOTH));
    ok(it_post_send(from->ep, &outbox, 1, 8, BOTH));
    expect_done(from->requests, IT_DTO_SEND_CMPL_EVENT, 8, IT_DTO_SUCCESS);
    expect_done(to->receives, IT_DTO_RC_RECV_CMPL_EVENT, 7, IT_DTO_SUCCESS);
    ck_assert_mem_eq(in->data + end, out->data, 64);
}

void sockets_exchange(struct sockets *s)
{
    struct buffer a = buffer_make(&s->a, 1 << 20, EVERYTHING);
    struct buffer b = buffer_make(&s->b, 1 << 20, EVERYTHING);
    it_lmr_triplet_t all = segment(&a, 0, a.length - 64), begin = segment(&b, 0, 64);
    struct tc_rng rng = tc_rng(1);

    tc_fill(&rng, a.data, a.length);
    ok(it_post_rdma_write(s->a.ep, &all, 1, 9, BOTH, address_in(&b, 0), b.context));
    expect_done(s->a.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, 9, IT_DTO_SUCCESS);
    send_one(&s->a, &s->b, &a, &b); /* its completion shows that the Write is placed */
    send_one(&s->b, &s->a, &b, &a);
    ok(it_post_rdma_read(s->b.ep, &begin, 1, 10, BOTH, address_in(&a, 128), a.context));
    expect_done(s->b.requests, IT_DTO_RDMA_READ_CMPL_EVENT, 10, IT_DTO_SUCCESS);
    ck_assert_mem_eq(b.data, a.data + 128, 64);
    ck_assert_mem_eq(b.data + 64, a.data + 64, b.length - 128);
    buffer_free(&a);
    buffer_free(&b);
}
