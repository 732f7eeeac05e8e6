/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: how connections end, what is refused, forks, and peers that do not keep to the
 * protocol.
 */
#include "log_lines.h"
#include "rsockets_pair.h"
#include "verbs/rsockets/wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- ends ---- */

START_TEST(half_of_a_connection_ends)
{
    give(client, "last", 4);
    ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
    fails(rsend(client, "x", 1, 0), EPIPE);
    expect(server, "last", 4);
    expect_end(server);
    give(server, "answer", 6);
    expect(client, "answer", 6);
    ck_assert_int_eq(rshutdown(server, SHUT_WR), 0);
    expect_end(client);
    ck_assert_int_ne(await(client, POLLIN) & POLLHUP, 0);
}
END_TEST

static void *close_client(void *arg)
{
    ck_assert_int_eq(rclose(client), 0);
    return arg;
}

START_TEST(no_hang_up_is_reported_before_all_is_read)
{
    pthread_t closer;

    give(client, "left", 4);
    pthread_create(&closer, NULL, close_client, NULL);
    while (!(await(server, POLLIN | POLLRDHUP) & POLLRDHUP))
        ;
    ck_assert_int_eq(await(server, POLLIN), POLLIN);
    pthread_join(closer, NULL);
    ck_assert_int_eq(await(server, POLLIN), POLLIN);
    expect(server, "left", 4);
    ck_assert_int_eq(await(server, POLLIN), POLLIN | POLLHUP);
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

/* The server reads while the client closes, and gets all. */
START_TEST(what_was_sent_before_a_close_arrives)
{
    struct flow flow = { .fd = client, .length = 300000, .salt = 3 };
    struct flow flow_read = { .fd = server, .length = 300000, .salt = 3 };
    pthread_t reader;

    pthread_create(&reader, NULL, read_flow, &flow_read);
    write_flow(&flow);
    ck_assert_int_eq(rclose(client), 0);
    pthread_join(reader, NULL);
    expect_end(server);
    fails(rsend(server, "x", 1, 0), EPIPE);
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

/* The server's program makes no call meanwhile, and has all octets afterwards. */
START_TEST(a_close_does_not_wait_for_calls_of_the_peer)
{
    static uint8_t octets[200000], got[sizeof(octets)];
    struct linger hour = { .l_onoff = 1, .l_linger = 3600 };
    struct tc_rng rng = tc_rng(21);

    tc_fill(&rng, octets, sizeof(octets));
    ck_assert_int_eq(rsetsockopt(client, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
    give(client, octets, sizeof(octets));
    ck_assert_int_eq(rclose(client), 0);
    ck_assert_int_eq(rrecv(server, got, sizeof(got), MSG_WAITALL), sizeof(got));
    ck_assert_mem_eq(got, octets, sizeof(got));
    expect_end(server);
    fails(rsend(server, "x", 1, 0), EPIPE);
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

START_TEST(a_close_without_linger_resets)
{
    struct linger linger = { .l_onoff = 1 };
    char octet;

    ck_assert_int_eq(rsetsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    ck_assert_int_eq(rclose(client), 0);
    fails(rrecv(server, &octet, 1, 0), ECONNRESET);
    expect_end(server); /* an error is reported once */
    ck_assert_int_eq(rclose(server), 0);
    join();
}
END_TEST

static _Atomic pid_t reading;

static void *read_in_vain(void *error)
{
    char octet;

    reading = (pid_t)syscall(SYS_gettid);
    *(int *)error = rrecv(server, &octet, 1, 0) < 0 ? errno : 0;
    return NULL;
}

START_TEST(a_close_wakes_a_reader)
{
    struct linger linger = { .l_onoff = 1 };
    pthread_t reader;
    int error = -1;

    ck_assert_int_eq(rsetsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    pthread_create(&reader, NULL, read_in_vain, &error);
    ck_assert(tc_until(tc_asleep(reading), WAIT_MS));
    ck_assert_int_eq(rclose(server), 0);
    pthread_join(reader, NULL);
    ck_assert_int_eq(error, EBADF);
    ck_assert_int_eq(rclose(client), 0);
    join();
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_is_not_there_is_refused)
{
    char octet;
    int fd;

    fails(rsocket(AF_INET, SOCK_DGRAM, 0), EOPNOTSUPP);
    fails(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    fails(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    fails(rrecv(0, &octet, 1, 0), EBADF);
    fails(rclose(1 << 30), EBADF);
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    fails(rrecv(fd, &octet, 1, 0), ENOTCONN);
    fails(raccept(fd, NULL, NULL), EINVAL);
    place.sin_port = htons(1);
    fails(rconnect(fd, (struct sockaddr *)&place, sizeof(place)), ECONNREFUSED);
    ck_assert_int_eq(rclose(fd), 0);
    fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(rconnect(fd, (struct sockaddr *)&place, sizeof(place)), -1);
    if (errno == EINPROGRESS) { /* or the refusal was faster */
        ck_assert_int_ne(await(fd, POLLOUT) & POLLERR, 0);
        ck_assert_int_eq(error_of(fd), ECONNREFUSED);
    }
    ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* It may have rsockets of its own. */
START_TEST(the_child_of_a_fork_has_none_of_its_parents)
{
    int status;
    pid_t child;

    tc_await_quiet_for_fork();
    child = fork();
    if (!child) {
        struct pollfd one = { .fd = client, .events = POLLIN | POLLOUT };
        bool good = rsend(client, "x", 1, 0) < 0 && errno == ECONNRESET &&
                    rrecv(client, &one, 1, 0) < 0 && errno == ECONNRESET;
        int made;

        good = good && rpoll(&one, 1, -1) == 1 && (one.revents & POLLERR) &&
               (one.revents & POLLHUP) && (one.revents & POLLIN);
        one.fd = listener; /* nothing comes of it here */
        good = good && rpoll(&one, 1, 0) == 0 && raccept(listener, NULL, NULL) < 0 &&
               errno == EINVAL;
        made = rsocket(AF_INET, SOCK_STREAM, 0);
        good = good && made >= 0 && rclose(made) == 0 && rclose(client) == 0 &&
               rsend(client, "x", 1, 0) < 0 && errno == EBADF;
        _exit(!good);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    give(client, "parent", 6);
    expect(server, "parent", 6);
}
END_TEST

/* Calls it for each event descriptor. */
static bool each_event(bool (*one)(int fd))
{
    char path[40], what[40];
    bool good = true;

    for (int fd = 0; fd < 256; fd++) {
        ssize_t length;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        length = readlink(path, what, sizeof(what) - 1);
        what[length > 0 ? length : 0] = '\0';
        if (!strcmp(what, "anon_inode:[eventfd]"))
            good = one(fd) && good;
    }
    return good;
}

static bool write_event(int fd)
{
    return eventfd_write(fd, 1) == 0;
}

static bool event_is_left(int fd)
{
    eventfd_t value;

    return eventfd_read(fd, &value) == 0;
}

/* The descriptor that wakes a thread is the parent's, too. */
START_TEST(a_poll_in_the_child_takes_no_wake_up_of_the_parent)
{
    struct pollfd one = { .fd = server, .events = POLLIN };
    int ends[2], status;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(rpoll(&one, 1, 0), 0);
    tc_await_quiet_for_fork();
    child = fork();
    if (!child) {
        one.fd = ends[0];
        if (!each_event(write_event) || rpoll(&one, 1, 0) != 0)
            _exit(2);
        _exit(!each_event(event_is_left));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- want of descriptors ---- */

static _Thread_local bool watches_fail;

/* Found before that of libc. An rsocket's watches have no data. */
__attribute__((visibility("default"))) int epoll_ctl(int set, int operation, int fd,
                                                     struct epoll_event *event)
{
    if (watches_fail && operation == EPOLL_CTL_ADD && !event->data.ptr) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

START_TEST(an_accept_that_fails_rejects_its_request)
{
    int other = begin_connect();

    await(listener, POLLIN);
    watches_fail = true;
    fails(raccept(listener, NULL, NULL), ENOSPC);
    watches_fail = false;
    ck_assert_int_ne(await(other, POLLOUT) & POLLERR, 0);
    ck_assert_int_eq(error_of(other), ECONNREFUSED);
    ck_assert_int_eq(rclose(other), 0);
}
END_TEST

/* The listener takes requests in calls on it alone. */
static bool is_over(int fd)
{
    struct pollfd fds[] = { { .fd = listener }, { .fd = fd, .events = POLLOUT } };

    return rpoll(fds, 2, 0) > 0 && fds[1].revents;
}

START_TEST(a_backlog_that_is_full_is_explained)
{
    int waits, refused;

    log_capture();
    listener = new_listener(1);
    waits = begin_connect();
    await(listener, POLLIN);
    refused = begin_connect();
    ck_assert(tc_until(is_over(refused), WAIT_MS));
    ck_assert_int_eq(error_of(refused), ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(log_await("a connect request is rejected: 1 wait already, "),
                                 "as many as the backlog of rlisten; accept faster, or give more"));
    ck_assert_int_eq(rclose(refused), 0);
    ck_assert_int_eq(rclose(waits), 0);
    ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* ---- peers that are none ---- */

static struct rdma_cm_id *new_stranger(void)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC
    };
    struct rdma_cm_id *id;

    ck_assert_int_eq(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&place, 1000), 0);
    ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
    ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
    return id;
}

static struct rdma_cm_id *stranger(const void *hello, size_t length)
{
    struct rdma_conn_param param = { .private_data = hello, .private_data_len = (uint8_t)length };
    struct rdma_cm_id *id = new_stranger();

    if (rdma_connect(id, &param) == 0)
        return id;
    ck_assert_int_eq(errno, ECONNREFUSED);
    rdma_destroy_ep(id);
    return NULL;
}

/* The listener takes a request only in a call of its program. */
static void *serve_listener(void *stop)
{
    struct pollfd fds[] = { { .fd = listener, .events = POLLIN },
                            { .fd = *(int *)stop, .events = POLLIN } };

    while (rpoll(fds, 2, -1) >= 0 && !fds[0].revents && !fds[1].revents)
        ;
    return NULL;
}

START_TEST(a_stranger_is_rejected)
{
    const struct rs_hello huge = { .messages = 64,
                                   .ring_size = RS_RING_MOST + 1,
                                   .ring_address = 4096 };
    uint8_t wrong[RS_HELLO_OCTETS] = "not a hello";
    pthread_t thread;
    int stop[2];

    ck_assert_int_eq(pipe(stop), 0);
    pthread_create(&thread, NULL, serve_listener, &stop[0]);
    ck_assert_ptr_null(stranger(wrong, sizeof(wrong)));
    ck_assert_ptr_null(stranger(NULL, 0));
    rs_hello_encode(&huge, wrong);
    ck_assert_ptr_null(stranger(wrong, sizeof(wrong)));
    ck_assert_int_eq(write(stop[1], "x", 1), 1);
    pthread_join(thread, NULL);
    ck_assert_int_eq(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
    fails(raccept(listener, NULL, NULL), EAGAIN);
    close(stop[0]);
    close(stop[1]);
}
END_TEST

static void *accept_one(void *fd)
{
    *(int *)fd = raccept(listener, NULL, NULL);
    return NULL;
}

/* Sends a message to an rsocket, so many times; returns the error that its reader gets. */
static int error_of_messages(const struct rs_message *message, uint32_t cut, unsigned times)
{
    const struct rs_hello hello = { .messages = 64, .ring_size = 65536, .ring_address = 4096 };
    uint8_t octets[RS_HELLO_OCTETS], sent[RS_SLOT_OCTETS];
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    pthread_t thread;
    int fd, error;
    char octet;

    rs_hello_encode(&hello, octets);
    pthread_create(&thread, NULL, accept_one, &fd);
    id = stranger(octets, sizeof(octets));
    pthread_join(thread, NULL);
    ck_assert(id && fd >= 0);
    mr = rdma_reg_msgs(id, sent, sizeof(sent));
    ck_assert_ptr_nonnull(mr);
    for (unsigned i = 0; i < times; i++)
        ck_assert_int_eq(
            rdma_post_send(id, NULL, sent, rs_message_encode(message, sent) - cut, mr, 0), 0);
    if (times == 1)
        error = rrecv(fd, &octet, 1, 0) < 0 ? errno : 0;
    else
        tc_until((error = error_of(fd)) != 0, WAIT_MS);
    ck_assert_int_eq(rclose(fd), 0);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return error;
}

static int error_of_message(const struct rs_message *message, uint32_t cut)
{
    return error_of_messages(message, cut, 1);
}

START_TEST(a_peer_that_breaks_the_protocol_is_cut_off)
{
    const struct rs_message good = { .kind = RS_SMALL,
                                     .length = 1,
                                     .octets = (const uint8_t *)"g" };
    const struct rs_message too_long = { .kind = RS_DATA, .length = UINT32_MAX };
    const struct rs_message took_more = { .kind = RS_CREDIT, .taken_octets = 1 };
    const struct rs_message took_messages = { .kind = RS_CREDIT, .taken_messages = 1 };
    const struct rs_message most_of_ring = { .kind = RS_DATA, .length = 200 * 1024 };
    const struct rs_message early_end = { .kind = RS_END };
    const struct rs_message map = { .kind = RS_MAP, .index = 7, .map = { .length = 1 } };
    const struct rs_message first_map = { .kind = RS_MAP, .map = { .length = 1 } };

    ck_assert_int_eq(error_of_message(&good, 0), 0);
    log_capture();
    ck_assert_int_eq(error_of_message(&too_long, 0), EPROTO);
    log_await(" sent a message that breaks the protocol: the connection ends");
    ck_assert_int_eq(error_of_message(&took_more, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&early_end, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&took_messages, 0), EPROTO);
    ck_assert_int_eq(error_of_messages(&most_of_ring, 0, 2), EPROTO);
    ck_assert_int_eq(error_of_message(&map, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&first_map, 0), EPROTO);
    ck_assert_int_eq(error_of_message(&good, 1), EPROTO);
}
END_TEST

static int (*real_post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static _Atomic(uint64_t) read_from; /* the last Read */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
    if (request->opcode == IBV_WR_RDMA_READ)
        read_from = request->wr.rdma.remote_addr;
    return real_post_send(qp, request, bad);
}

/* The end that closes does not read the ring: its owner's messages may still change it. */
START_TEST(a_close_reads_behind_the_ring)
{
    static uint8_t memory[65536 + 1];
    struct rdma_cm_id *id = new_stranger();
    struct ibv_mr *mr = ibv_reg_mr(id->pd, &memory[65536], 1, IBV_ACCESS_REMOTE_READ);
    const struct rs_hello hello = {
        .messages = 64, .ring_size = 65536, .ring_stag = mr->rkey, .ring_address = (uintptr_t)memory
    };
    uint8_t octets[RS_HELLO_OCTETS], received[4][RS_SLOT_OCTETS];
    struct ibv_mr *receives = rdma_reg_msgs(id, received, sizeof(received));
    struct rdma_conn_param param = { .private_data = octets, .private_data_len = sizeof(octets) };
    pthread_t thread;
    int fd;

    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(rdma_post_recv(id, NULL, received[i], RS_SLOT_OCTETS, receives), 0);
    rs_hello_encode(&hello, octets);
    pthread_create(&thread, NULL, accept_one, &fd);
    ck_assert_int_eq(rdma_connect(id, &param), 0);
    pthread_join(thread, NULL);
    ck_assert_int_ge(fd, 0);
    real_post_send = id->verbs->ops.post_send; /* the device is open once */
    id->verbs->ops.post_send = post_send;
    ck_assert_int_eq(rclose(fd), 0);
    id->verbs->ops.post_send = real_post_send;
    ck_assert_uint_eq(read_from, hello.ring_address + hello.ring_size);
    ibv_dereg_mr(mr);
    rdma_dereg_mr(receives);
    rdma_destroy_ep(id);
}
END_TEST

/* ---- a peer that vanishes ---- */

static void connect_and_stay(int port_from)
{
    place = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (read(port_from, &place.sin_port, 2) == 2) {
        int fd = rsocket(AF_INET, SOCK_STREAM, 0);

        if (!rconnect(fd, (struct sockaddr *)&place, sizeof(place)) && rsend(fd, "here", 4, 0) == 4)
            pause();
    }
    _exit(1);
}

START_TEST(a_peer_that_is_killed_is_noticed)
{
    int port[2];
    pid_t peer;
    char octet;

    ck_assert_int_eq(pipe(port), 0);
    peer = fork(); /* before this process has an rsocket */
    if (!peer)
        connect_and_stay(port[0]);
    listener = new_listener(1);
    ck_assert_int_eq(write(port[1], &place.sin_port, 2), 2);
    server = raccept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    expect(server, "here", 4);
    ck_assert_int_eq(kill(peer, SIGKILL), 0);
    fails(rrecv(server, &octet, 1, 0), ECONNRESET);
    ck_assert_int_eq(waitpid(peer, NULL, 0), peer);
    ck_assert_int_eq(rclose(server), 0);
    ck_assert_int_eq(rclose(listener), 0);
    close(port[0]);
    close(port[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rsockets_ends");
    TCase *pair = tc_case(suite, "pair", set_up, tear_down);
    TCase *alone = tc_case(suite, "processes", NULL, NULL);

    tc_add_tests(pair, half_of_a_connection_ends, no_hang_up_is_reported_before_all_is_read,
                 what_was_sent_before_a_close_arrives, a_close_does_not_wait_for_calls_of_the_peer,
                 a_close_without_linger_resets, a_close_wakes_a_reader,
                 what_is_not_there_is_refused, the_child_of_a_fork_has_none_of_its_parents,
                 a_poll_in_the_child_takes_no_wake_up_of_the_parent,
                 an_accept_that_fails_rejects_its_request, a_stranger_is_rejected,
                 a_peer_that_breaks_the_protocol_is_cut_off, a_close_reads_behind_the_ring);
    tc_add_tests(alone, a_peer_that_is_killed_is_noticed, a_backlog_that_is_full_is_explained);
    return tc_main(suite);
}
