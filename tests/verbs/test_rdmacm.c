/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm: the life cycle of ids, the contents of their events, and refusals. test_rdmacm_qp.c
 * has queue pairs of the program.
 */
#include "log_lines.h"
#include "rdmacm_ids.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

START_TEST(a_connection_lives_and_both_ends_hear_of_it)
{
    struct rdma_conn_param answer = {
        .private_data = "yes", .private_data_len = 3, .responder_resources = 2, .initiator_depth = 1
    };
    struct rdma_cm_event *event = ask("who is there");
    struct rdma_cm_id *server = event->id;
    char sent[16] = "over the wire", got[16] = "";
    struct ibv_mr *mr;
    struct ibv_wc wc;

    ck_assert_ptr_eq(event->listen_id, listener);
    ck_assert_ptr_eq(server->context, &listener);
    ck_assert_int_eq(event->param.conn.private_data_len, 12);
    ck_assert_mem_eq(event->param.conn.private_data, "who is there", 12);
    /* one side's initiator depth is the other side's responder resources */
    ck_assert_int_eq(event->param.conn.responder_resources, 5);
    ck_assert_int_eq(event->param.conn.initiator_depth, 3);
    rdma_ack_cm_event(event);

    make_qp(server);
    mr = rdma_reg_msgs(server, got, sizeof(got));
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(rdma_post_recv(server, NULL, got, sizeof(got), mr), 0);
    ck_assert_int_eq(rdma_accept(server, &answer), 0);
    event = take(channels[1], RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_int_eq(event->status, 0);
    ck_assert_mem_eq(event->param.conn.private_data, "yes", 3);
    ck_assert_int_eq(event->param.conn.initiator_depth, 2);
    rdma_ack_cm_event(event);
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_uint_eq(rdma_get_dst_port(client), rdma_get_src_port(server));
    ck_assert_uint_eq(rdma_get_src_port(client), rdma_get_dst_port(server));
    ck_assert_uint_ne(rdma_get_src_port(client), 0);

    ck_assert_int_eq(rdma_post_send(client, NULL, sent, sizeof(sent), NULL, IBV_SEND_INLINE), 0);
    ck_assert_int_eq(rdma_get_recv_comp(server, &wc), 1);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_str_eq(got, sent);

    ck_assert_int_eq(rdma_disconnect(client), 0);
    expect(channels[0], RDMA_CM_EVENT_DISCONNECTED);
    ck_assert_int_eq(rdma_disconnect(server), 0);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    ck_assert_int_eq(rdma_disconnect(client), 0);
    expect_nothing(channels[0]);
    expect_nothing(channels[1]);
    rdma_dereg_mr(mr);
    forget(server);
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(a_rejection_carries_data_and_its_reason)
{
    struct rdma_cm_event *event = ask(NULL);

    ck_assert_int_eq(rdma_reject(event->id, "no", 2), 0);
    ck_assert_int_eq(rdma_accept(event->id, NULL), -1);
    ck_assert_int_eq(errno, EINVAL);
    rdma_destroy_id(event->id);
    rdma_ack_cm_event(event);
    event = take(channels[1], RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, -ECONNREFUSED);
    ck_assert_int_eq(event->param.conn.private_data_len, 2);
    ck_assert_mem_eq(event->param.conn.private_data, "no", 2);
    rdma_ack_cm_event(event);
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(a_request_that_nobody_took_goes_with_its_listener)
{
    struct rdma_cm_event *event;

    resolve(client);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    ck_assert_int_eq(tc_wait_fd(channels[0]->fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    ck_assert_int_eq(rdma_destroy_id(listener), 0);
    listener = NULL;
    ck_assert_int_eq(tc_wait_fd(channels[1]->fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    event = take(channels[1], RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, -ECONNREFUSED);
    rdma_ack_cm_event(event);
    expect_nothing(channels[0]);
    rdma_destroy_qp(client);
}
END_TEST

/* The peer is rejected and does not ask again. _i: the id has a QP, which goes first. */
START_TEST(a_request_whose_id_is_destroyed_is_rejected)
{
    struct rdma_cm_event *event = ask(NULL);
    struct rdma_cm_id *server = event->id;

    rdma_ack_cm_event(event);
    if (_i) {
        make_qp(server);
        forget(server);
    } else {
        ck_assert_int_eq(rdma_destroy_id(server), 0);
    }
    event = take(channels[1], RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, -ECONNREFUSED);
    rdma_ack_cm_event(event);
    expect_nothing(channels[0]);
    rdma_destroy_qp(client);
}
END_TEST

/* A process that listens, gets a request and exits without a word. */
static __attribute__((noreturn)) void exit_with_a_request(int out)
{
    struct sockaddr_in any = loopback(0);
    struct rdma_event_channel *channel = new_channel();
    struct rdma_cm_id *id = new_id(channel, NULL);
    __be16 port;

    ck_assert_int_eq(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
    ck_assert_int_eq(rdma_listen(id, 8), 0);
    port = rdma_get_src_port(id);
    ck_assert_int_eq(write(out, &port, sizeof(port)), sizeof(port));
    take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    exit(0);
}

START_TEST(an_exit_rejects_the_requests_of_the_process)
{
    struct rdma_conn_param param = { 0 };
    struct sockaddr_in to = loopback(0);
    struct rdma_event_channel *channel;
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    int ends[2];
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    tc_await_quiet_for_fork();
    child = fork(); /* before this process has a device */
    if (!child)
        exit_with_a_request(ends[1]);
    ck_assert_int_eq(read(ends[0], &to.sin_port, sizeof(to.sin_port)), sizeof(to.sin_port));
    log_capture();
    channel = new_channel();
    id = new_id(channel, NULL);
    ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(id);
    ck_assert_int_eq(rdma_connect(id, &param), 0);
    event = take(channel, RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, -ECONNREFUSED);
    rdma_ack_cm_event(event);
    /* by the peer's answer, not because the port was closed afterwards */
    ck_assert_ptr_null(strstr(log_so_far(), "nobody listens"));
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    forget(id);
    rdma_destroy_event_channel(channel);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(events_move_with_their_id)
{
    struct rdma_event_channel *other = new_channel();
    struct rdma_cm_event *event;

    resolve(client);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    ck_assert_int_eq(tc_wait_fd(channels[0]->fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    ck_assert_int_eq(rdma_migrate_id(listener, other), 0);
    ck_assert_ptr_eq(listener->channel, other);
    expect_nothing(channels[0]);
    event = take(other, RDMA_CM_EVENT_CONNECT_REQUEST);
    rdma_destroy_id(event->id);
    rdma_ack_cm_event(event);
    ck_assert_int_eq(rdma_migrate_id(listener, channels[0]), 0);
    rdma_destroy_event_channel(other);
    rdma_destroy_qp(client);
}
END_TEST

static _Atomic pid_t destroyer;
static atomic_bool ended;

static void *destroy(void *id)
{
    atomic_store(&destroyer, (pid_t)syscall(SYS_gettid));
    rdma_destroy_id(id);
    atomic_store(&ended, true);
    return NULL;
}

START_TEST(an_id_is_destroyed_when_its_events_are_acknowledged)
{
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));
    struct rdma_cm_event *event;
    pthread_t thread;

    ck_assert_int_eq(rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, 1000), 0);
    event = take(channels[1], RDMA_CM_EVENT_ADDR_RESOLVED);
    atomic_store(&ended, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy, client), 0);
    ck_assert(tc_until(atomic_load(&destroyer) && tc_asleep(destroyer), WAIT_MS));
    ck_assert(!atomic_load(&ended));
    ck_assert_ptr_eq(event->id, client);
    rdma_ack_cm_event(event);
    pthread_join(thread, NULL);
    client = NULL;
}
END_TEST

/* Over an adapter the number of the channel's descriptor is free again, too. */
START_TEST(an_id_outlives_its_channel)
{
    struct rdma_event_channel *channel = new_channel();
    struct rdma_cm_id *id = new_id(channel, NULL);
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));
    int number = channel->fd, other[2];
    struct pollfd written;

    ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
    ck_assert_int_eq(tc_wait_fd(number, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    ck_assert_int_eq(pipe(other), 0);
    rdma_destroy_event_channel(channel);
    tc_spoil_freed();
    ck_assert_int_eq(dup2(other[1], number), number);
    ck_assert_int_eq(rdma_resolve_route(id, 1000), 0); /* its event has no channel */
    ck_assert_int_eq(rdma_destroy_id(id), 0);
    written = (struct pollfd){ .fd = other[0], .events = POLLIN };
    ck_assert_int_eq(poll(&written, 1, 0), 0);
    close(number);
    close(other[0]);
    close(other[1]);
}
END_TEST

START_TEST(who_destroys_the_qp_of_a_connection_ends_it)
{
    struct rdma_cm_id *server = join();

    rdma_destroy_qp(server);
    expect(channels[0], RDMA_CM_EVENT_DISCONNECTED);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    ck_assert_int_eq(rdma_destroy_id(server), 0);
    rdma_destroy_qp(client);
}
END_TEST

/* uDAPL creates the QP before it knows the request, with an id that it destroys. */
START_TEST(a_qp_is_given_to_the_id_of_a_request)
{
    struct rdma_cm_id *first = new_id(channels[1], NULL), *server;
    struct rdma_cm_event *event = ask(NULL);
    struct ibv_comp_channel *channel[2];
    struct sockaddr_in any = loopback(0);
    struct ibv_cq *cqs[2];

    ck_assert_int_eq(rdma_bind_addr(first, (struct sockaddr *)&any), 0);
    resolve(first);
    cqs[0] = first->send_cq;
    cqs[1] = first->recv_cq;
    channel[0] = first->send_cq_channel;
    channel[1] = first->recv_cq_channel;
    server = event->id;
    rdma_ack_cm_event(event);
    server->qp = first->qp;
    first->qp = NULL;
    ck_assert_int_eq(rdma_destroy_id(first), 0);
    ck_assert_int_eq(rdma_accept(server, NULL), 0);
    expect(channels[1], RDMA_CM_EVENT_ESTABLISHED);
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    rdma_destroy_qp(server);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    expect(channels[0], RDMA_CM_EVENT_DISCONNECTED);
    ck_assert_int_eq(rdma_destroy_id(server), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ibv_destroy_cq(cqs[i]), 0);
        ck_assert_int_eq(ibv_destroy_comp_channel(channel[i]), 0);
    }
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(who_destroys_the_id_of_a_connection_ends_it)
{
    struct rdma_cm_id *server = join();
    struct ibv_qp *qp = server->qp;
    struct ibv_cq *cqs[2] = { server->send_cq, server->recv_cq };
    struct ibv_comp_channel *channel[2] = { server->send_cq_channel, server->recv_cq_channel };

    ck_assert_int_eq(rdma_destroy_id(server), 0);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ibv_destroy_cq(cqs[i]), 0);
        ck_assert_int_eq(ibv_destroy_comp_channel(channel[i]), 0);
    }
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(a_call_out_of_turn_is_refused)
{
    struct sockaddr_in to = loopback(htons(1));
    struct rdma_cm_id *id;

    fails(rdma_connect(client, NULL), EINVAL);
    fails(rdma_accept(client, NULL), EINVAL);
    fails(rdma_reject(client, NULL, 0), EINVAL);
    fails(rdma_disconnect(client), EINVAL);
    fails(rdma_resolve_route(client, 1), EINVAL);
    fails(rdma_establish(client), EINVAL);
    fails(rdma_get_request(client, &id), EINVAL);
    fails(rdma_get_request(listener, &id), EINVAL); /* it is not a synchronous id */
    fails(rdma_listen(listener, 1), EINVAL);
    fails(rdma_resolve_addr(listener, NULL, (struct sockaddr *)&to, 1), EINVAL);
    fails(rdma_bind_addr(listener, (struct sockaddr *)&to), EINVAL);
    resolve(client);
    fails(rdma_resolve_route(client, 1), EINVAL);
    fails(rdma_listen(client, 1), EINVAL);
    expect_nothing(channels[0]);
    expect_nothing(channels[1]);
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(an_address_is_held_from_the_bind_on)
{
    struct sockaddr_in same = loopback(rdma_get_src_port(listener)), other = loopback(0);

    fails(rdma_bind_addr(client, (struct sockaddr *)&same), EADDRINUSE);
    other.sin_addr.s_addr = htonl(0xc0000263); /* 192.0.2.99: unassigned */
    fails(rdma_bind_addr(client, (struct sockaddr *)&other), EADDRNOTAVAIL);
    other.sin_family = AF_UNIX;
    fails(rdma_bind_addr(client, (struct sockaddr *)&other), EAFNOSUPPORT);
    other = loopback(0);
    ck_assert_int_eq(rdma_bind_addr(client, (struct sockaddr *)&other), 0);
    ck_assert_uint_ne(rdma_get_src_port(client), 0);
    ck_assert_ptr_nonnull(client->verbs);
}
END_TEST

/* A port on which nobody listens, nor can while the socket is open: a program that runs beside this
 * one might get a port that is free. */
static int silent_socket(__be16 *port)
{
    struct sockaddr_in at = loopback(0);
    socklen_t length = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    *port = at.sin_port;
    return fd;
}

START_TEST(nobody_listens)
{
    struct rdma_cm_event *event;
    __be16 port;
    int fd = silent_socket(&port);

    resolve_to(client, port);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    event = take(channels[1], RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, -ECONNREFUSED);
    rdma_ack_cm_event(event);
    rdma_destroy_qp(client);
    close(fd);
}
END_TEST

/* Two programs that meet by another connection begin at the same time: the client may be first. */
START_TEST(a_client_may_be_earlier_than_its_server)
{
    struct sockaddr_in at = loopback(rdma_get_src_port(listener));
    struct rdma_cm_id *server;

    resolve(client);
    ck_assert_int_eq(rdma_destroy_id(listener), 0);
    ck_assert_int_eq(rdma_connect(client, NULL), 0); /* TCP refuses within this call */
    listener = new_id(channels[0], &listener);
    ck_assert_int_eq(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
    ck_assert_int_eq(rdma_listen(listener, 8), 0);
    server = take_request();
    forget(server);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(a_client_may_ask_between_bind_and_listen)
{
    struct sockaddr_in at = loopback(0);
    struct rdma_cm_id *server;

    ck_assert_int_eq(rdma_destroy_id(listener), 0);
    listener = new_id(channels[0], &listener);
    ck_assert_int_eq(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
    resolve(client);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    ck_assert_int_eq(rdma_listen(listener, 8), 0);
    server = take_request();
    forget(server);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(client);
}
END_TEST

/* The attempt is being repeated when the id, or its QP, goes. */
START_TEST(an_attempt_that_is_repeated_ends_with_its_id)
{
    resolve(client);
    ck_assert_int_eq(rdma_destroy_id(listener), 0);
    listener = NULL;
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    if (_i)
        rdma_destroy_qp(client);
    else
        rdma_destroy_ep(client);
    expect_nothing(channels[1]);
    if (!_i)
        client = NULL;
}
END_TEST

START_TEST(depths_beyond_the_device_are_refused)
{
    struct ibv_device_attr attr;
    struct rdma_conn_param param = { 0 };

    resolve(client);
    ck_assert_int_eq(ibv_query_device(client->verbs, &attr), 0);
    param.responder_resources = (uint8_t)(attr.max_qp_rd_atom + 1);
    fails(rdma_connect(client, &param), EINVAL);
    param.responder_resources = RDMA_MAX_RESP_RES;
    param.initiator_depth = RDMA_MAX_INIT_DEPTH;
    ck_assert_int_eq(rdma_connect(client, &param), 0); /* another attempt is allowed */
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(what_is_not_carried_is_refused)
{
    struct rdma_cm_id *id;
    uint8_t tos = 4;

    fails(rdma_create_id(channels[0], &id, NULL, RDMA_PS_UDP), EOPNOTSUPP);
    fails(rdma_join_multicast(client, NULL, NULL), EOPNOTSUPP);
    ck_assert_int_eq(rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
    fails(rdma_set_option(client, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &tos, 1), ENOSYS);
}
END_TEST

START_TEST(names_become_addresses)
{
    struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;
    struct sockaddr_in from = loopback(0);

    ck_assert_int_eq(rdma_getaddrinfo("127.0.0.1", "7471", NULL, &res), 0);
    ck_assert_ptr_null(res->ai_src_addr);
    ck_assert_int_eq(res->ai_family, AF_INET);
    ck_assert_int_eq(res->ai_qp_type, IBV_QPT_RC);
    ck_assert_uint_eq(((struct sockaddr_in *)(void *)res->ai_dst_addr)->sin_port, htons(7471));
    rdma_freeaddrinfo(res);
    ck_assert_int_eq(rdma_getaddrinfo(NULL, "7471", &hints, &res), 0);
    ck_assert_ptr_null(res->ai_dst_addr);
    ck_assert_ptr_nonnull(res->ai_src_addr);
    rdma_freeaddrinfo(res);
    hints = (struct rdma_addrinfo){ .ai_src_addr = (struct sockaddr *)&from,
                                    .ai_src_len = sizeof(from) };
    ck_assert_int_eq(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
    ck_assert_int_eq(res->ai_src_len, sizeof(from));
    rdma_freeaddrinfo(res);
    fails(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
    hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST };
    ck_assert_int_eq(rdma_getaddrinfo("no number", "1", &hints, &res), EAI_NONAME);
}
END_TEST

START_TEST(the_devices_are_listed)
{
    int count;
    struct ibv_context **list = rdma_get_devices(&count);

    ck_assert_ptr_nonnull(list);
    ck_assert_int_ge(count, 1);
    ck_assert_ptr_null(list[count]);
    rdma_free_devices(list);
}
END_TEST

/* --- waits for events --- */

struct waiting {
    struct rdma_event_channel *channel;
    pthread_t thread;
    _Atomic pid_t id;
    atomic_bool done;
    int result, error;
};

static void *wait_for_event(void *arg)
{
    struct waiting *waiting = arg;
    struct rdma_cm_event *event;

    atomic_store(&waiting->id, (pid_t)syscall(SYS_gettid));
    waiting->result = rdma_get_cm_event(waiting->channel, &event);
    waiting->error = errno;
    atomic_store(&waiting->done, true);
    return NULL;
}

static void make_channel(struct waiting *waiting)
{
    *waiting = (struct waiting){ .channel = rdma_create_event_channel() };
    ck_assert_ptr_nonnull(waiting->channel);
}

static void begin_wait(struct waiting *waiting)
{
    ck_assert_int_eq(pthread_create(&waiting->thread, NULL, wait_for_event, waiting), 0);
    ck_assert(tc_until(atomic_load(&waiting->done) ||
                           (atomic_load(&waiting->id) && tc_asleep(waiting->id)),
                       WAIT_MS));
    ck_assert(!atomic_load(&waiting->done));
}

static void start_waiting(struct waiting *waiting)
{
    make_channel(waiting);
    begin_wait(waiting);
}

static void cancel(struct waiting *waiting)
{
    void *result = NULL;

    ck_assert_int_eq(pthread_cancel(waiting->thread), 0);
    ck_assert_int_eq(pthread_join(waiting->thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}

START_TEST(a_wait_for_an_event_is_a_cancellation_point)
{
    struct waiting waiting;

    start_waiting(&waiting);
    cancel(&waiting);
    rdma_destroy_event_channel(waiting.channel);
}
END_TEST

START_TEST(a_wait_for_an_event_outlasts_its_channel)
{
    struct waiting waiting;

    start_waiting(&waiting);
    rdma_destroy_event_channel(waiting.channel);
    ck_assert(tc_until(tc_asleep(waiting.id), WAIT_MS));
    ck_assert(!atomic_load(&waiting.done));
    cancel(&waiting);
}
END_TEST

/* rping of rdma-core 44.0 and 56.1 does that: nothing ends the thread that takes its events. */
START_TEST(a_late_wait_for_an_event_outlasts_its_channel)
{
    struct waiting waiting;

    make_channel(&waiting);
    rdma_destroy_event_channel(waiting.channel);
    tc_spoil_freed();
    begin_wait(&waiting);
    cancel(&waiting);
}
END_TEST

static void on_signal(int number)
{
    (void)number;
}

START_TEST(a_signal_ends_a_wait_for_an_event)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct waiting waiting;

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    start_waiting(&waiting);
    /* repeated, in case the first signal comes between two sleeps */
    ck_assert(tc_until((atomic_load(&waiting.done) || !pthread_kill(waiting.thread, SIGUSR1)) &&
                           atomic_load(&waiting.done),
                       WAIT_MS));
    ck_assert_int_eq(pthread_join(waiting.thread, NULL), 0);
    ck_assert_int_eq(waiting.result, -1);
    ck_assert_int_eq(waiting.error, EINTR);
    rdma_destroy_event_channel(waiting.channel);
}
END_TEST

/* ---- as InfiniBand ---- */

static void set_up_as_roce(void)
{
    setenv("ITAL_VERBS_AS", "roce", 1); /* before the devices are listed */
    set_up();
}

static void tear_down_as_roce(void)
{
    tear_down();
    unsetenv("ITAL_VERBS_AS");
}

/* InfiniBand's messages have room for 56, 196 and 148 octets of the program's. */
START_TEST(private_data_ends_where_infinibands_does)
{
    static const char octets[255];
    struct rdma_conn_param param = { .private_data = octets, .private_data_len = 57 };
    struct rdma_cm_event *event;

    resolve(client);
    fails(rdma_connect(client, &param), EINVAL);
    param.private_data_len = 56;
    ck_assert_int_eq(rdma_connect(client, &param), 0);
    event = take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_int_eq(event->param.conn.private_data_len, 56);
    make_qp(event->id);
    param.private_data_len = 197;
    fails(rdma_accept(event->id, &param), EINVAL);
    fails(rdma_reject(event->id, octets, 149), EINVAL);
    ck_assert_int_eq(rdma_reject(event->id, octets, 148), 0);
    rdma_destroy_qp(event->id);
    rdma_destroy_id(event->id);
    rdma_ack_cm_event(event);
    event = take(channels[1], RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->param.conn.private_data_len, 148);
    rdma_ack_cm_event(event);
    rdma_destroy_qp(client);
}
END_TEST

/* The reason is InfiniBand's; the QP is in ERR, and its receives are flushed. */
START_TEST(a_rejected_qp_is_in_error)
{
    struct ibv_recv_wr wr = { .wr_id = 7 }, *bad;
    struct rdma_cm_event *event;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_wc wc;
    __be16 port;
    int fd = silent_socket(&port);

    resolve_to(client, _i ? port : rdma_get_src_port(listener));
    ck_assert_int_eq(ibv_post_recv(client->qp, &wr, &bad), 0);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    if (!_i) {
        event = take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
        ck_assert_int_eq(rdma_reject(event->id, NULL, 0), 0);
        rdma_destroy_id(event->id);
        rdma_ack_cm_event(event);
    }
    event = take(channels[1], RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(event->status, _i ? 8 : 28);
    rdma_ack_cm_event(event);
    ck_assert_int_eq(ibv_query_qp(client->qp, &attr, IBV_QP_STATE, &init), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
    ck_assert(tc_until(ibv_poll_cq(client->recv_cq, 1, &wc) == 1, WAIT_MS));
    ck_assert_uint_eq(wc.wr_id, 7);
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    rdma_destroy_qp(client);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librdmacm");
    TCase *tc = tc_case(suite, "ids", set_up, tear_down);
    TCase *roce = tc_case(suite, "as RoCE", set_up_as_roce, tear_down_as_roce);

    tc_add_tests(
        tc, a_connection_lives_and_both_ends_hear_of_it, a_rejection_carries_data_and_its_reason,
        a_request_that_nobody_took_goes_with_its_listener, events_move_with_their_id,
        an_id_is_destroyed_when_its_events_are_acknowledged, an_id_outlives_its_channel,
        who_destroys_the_qp_of_a_connection_ends_it, a_qp_is_given_to_the_id_of_a_request,
        who_destroys_the_id_of_a_connection_ends_it, a_call_out_of_turn_is_refused,
        an_address_is_held_from_the_bind_on, nobody_listens,
        a_client_may_be_earlier_than_its_server, a_client_may_ask_between_bind_and_listen,
        depths_beyond_the_device_are_refused, what_is_not_carried_is_refused,
        a_wait_for_an_event_is_a_cancellation_point, a_wait_for_an_event_outlasts_its_channel,
        a_late_wait_for_an_event_outlasts_its_channel, a_signal_ends_a_wait_for_an_event,
        names_become_addresses, the_devices_are_listed);
    tcase_add_loop_test(tc, an_attempt_that_is_repeated_ends_with_its_id, 0, 2);
    tcase_add_test(roce, private_data_ends_where_infinibands_does);
    tcase_add_loop_test(roce, a_rejected_qp_is_in_error, 0, 2);
    tcase_add_loop_test(tc, a_request_whose_id_is_destroyed_is_rejected, 0, 2);
    tc = tc_case(suite, "processes", NULL, NULL);
    tcase_add_test(tc, an_exit_rejects_the_requests_of_the_process);
    return tc_main(suite);
}
