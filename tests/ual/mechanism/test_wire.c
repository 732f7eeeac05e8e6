/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that need a real kal and a real connection: softrdma over loopback. */
#include "tc_status.h"

#include "ual_mechanism.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define OCTETS 64

/* One of two ends of a connection, each with a device of its own. */
static struct end {
    struct ual_device *device;
    struct ual_pd *pd;
    struct ual_mr *mr;
    struct ual_channel *channel;
    struct ual_cq *cq;
    struct ual_qp *qp;
    struct ual_conn *conn;
    char memory[OCTETS];
    atomic_uint requests, established, refused, ended;
    struct ual_conn *_Atomic request;
} ends[2];

static enum ual_hearing on_request(void *context, struct ual_conn *request,
                                   const struct ri_connect_request *asked);

static void on_event(void *context, const struct ri_connection_event *event)
{
    struct end *end = context;

    if (event->type == RI_CONNECTION_ESTABLISHED)
        atomic_fetch_add(&end->established, 1);
    else if (event->type == RI_CONNECTION_REJECTED || event->type == RI_CONNECTION_FAILED)
        atomic_fetch_add(&end->refused, 1);
}

static const struct ual_conn_upcalls upcalls = { .request = on_request, .event = on_event };

static enum ual_hearing on_request(void *context, struct ual_conn *request,
                                   const struct ri_connect_request *asked)
{
    struct end *end = context;

    (void)asked;
    ual_conn_migrate(request, &upcalls, end);
    atomic_store(&end->request, request);
    atomic_fetch_add(&end->requests, 1);
    return UAL_REQUEST_TAKEN;
}

static void on_qp_event(struct ual_qp *qp, const struct ri_event *event)
{
    struct end *end = qp->context;

    if (event->type == RI_EVENT_ESTABLISHED)
        atomic_fetch_add(&end->established, 1);
    else if (event->type < RI_EVENT_QP_FATAL)
        atomic_fetch_add(&end->ended, 1);
}

static struct ual_qp_attr qp_attr(const struct end *end)
{
    return (struct ual_qp_attr){
        .type = RI_QP_RC,
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .max_send_wr = 4,
        .max_recv_wr = 4,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .ird = 1,
        .ord = 1,
    };
}

static void open_end(struct end *end)
{
    struct ual_cq_attr cq_attr = { .depth = 16, .context = end };
    struct ual_qp_attr attr;

    ok(ual_device_open("softrdma", NULL, end, &end->device));
    ok(ual_pd_create(end->device, &end->pd));
    ok(ual_mr_create(end->pd, end->memory, OCTETS, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE, 0,
                     0, &end->mr));
    ok(ual_channel_create(end->device, UAL_CHANNEL_FD, &end->channel));
    cq_attr.channel = end->channel;
    ok(ual_cq_create(end->device, &cq_attr, &end->cq));
    attr = qp_attr(end);
    ok(ual_qp_create(end->pd, &attr, on_qp_event, end, &end->qp));
    ok(ual_conn_create(end->device, &upcalls, end, &end->conn));
}

static void close_end(struct end *end)
{
    if (atomic_load(&end->request))
        ual_conn_free(atomic_load(&end->request));
    ual_conn_free(end->conn);
    ok(ual_qp_free(end->qp));
    ok(ual_cq_free(end->cq));
    ok(ual_channel_free(end->channel));
    ok(ual_mr_free(end->mr));
    ok(ual_pd_free(end->pd));
    ck_assert(ual_device_claim(end->device));
    ual_device_drain(end->device);
    ok(ual_device_close(end->device));
}

static void setup(void)
{
    open_end(&ends[0]);
    open_end(&ends[1]);
}

static void teardown(void)
{
    close_end(&ends[0]);
    close_end(&ends[1]);
}

/* --- one message --- */

static void post_receive(struct end *end)
{
    struct ri_sge sge = { (uintptr_t)end->memory, OCTETS, end->mr->lkey };
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    ok(ual_qp_post_recv(end->qp, &wr, &bad));
}

static void post_send(struct end *end, const char *text)
{
    struct ri_sge sge = { (uintptr_t)end->memory, OCTETS, end->mr->lkey };
    struct ri_send_wr wr = { .opcode = RI_WR_SEND,
                             .flags = RI_WR_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1 },
                      *bad;

    snprintf(end->memory, OCTETS, "%s", text);
    ok(ual_qp_post_send(end->qp, &wr, &bad));
}

static struct ri_wc next_completion(struct end *end)
{
    struct ual_channel_event event;
    struct ri_wc wc;

    ual_cq_arm(end->cq, RI_ARM_NEXT);
    while (!ual_cq_poll(end->cq, 1, &wc)) {
        ok(ual_channel_get(end->channel, tc_timeout_ms(20000) * 1000ull, &event));
        ck_assert_ptr_eq(event.cq, end->cq);
        ual_cq_arm(end->cq, RI_ARM_NEXT);
    }
    return wc;
}

/* The receive of the second is posted. */
static void expect_message(void)
{
    post_send(&ends[0], "over the wire");
    ck_assert_int_eq(next_completion(&ends[0]).status, RI_WC_SUCCESS);
    ck_assert_int_eq(next_completion(&ends[1]).status, RI_WC_SUCCESS);
    ck_assert_str_eq(ends[1].memory, "over the wire");
}

/* --- a bound address --- */

static struct sockaddr_in loopback(uint16_t port_be)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = port_be,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct ri_connect_param connect_to(const struct sockaddr_in *to)
{
    return (struct ri_connect_param){ .size = sizeof(struct ri_connect_param),
                                      .destination = (const struct sockaddr *)to,
                                      .deadline = RI_NO_DEADLINE,
                                      .ird = 1,
                                      .ord = 1,
                                      .negotiate_depths = true };
}

static struct sockaddr_in bind_somewhere(struct end *end)
{
    struct sockaddr_in any = loopback(0), got;
    struct sockaddr_storage bound;

    ok(ual_conn_bind(end->conn, (struct sockaddr *)&any, &bound));
    memcpy(&got, &bound, sizeof(got));
    ck_assert_uint_ne(got.sin_port, 0);
    ck_assert_uint_eq(got.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    return got;
}

static void expect_port_taken(const struct sockaddr_in *address)
{
    struct ual_conn *other;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (const struct sockaddr *)address, sizeof(*address)), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    close(fd);
    ok(ual_conn_create(ends[0].device, NULL, NULL, &other));
    fails(ual_conn_bind(other, (const struct sockaddr *)address, NULL), RI_ERR_ADDRESS_IN_USE);
    ual_conn_free(other);
}

/* At a bound port peers wait until listen; then they are accepted. */
START_TEST(a_bound_address_is_held_and_peers_wait)
{
    struct sockaddr_in to = bind_somewhere(&ends[1]);
    struct ri_listen_param param = { .size = sizeof(param), .backlog = 4 };
    struct ri_connect_param connect = connect_to(&to);
    struct sockaddr_storage bound;

    expect_port_taken(&to);
    ok(ual_conn_connect(ends[0].conn, ends[0].qp, &connect));
    ck_assert_uint_eq(atomic_load(&ends[1].requests), 0);
    ck_assert_uint_eq(atomic_load(&ends[0].refused), 0);
    ok(ual_conn_listen(ends[1].conn, &param, &bound));
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, to.sin_port);
    post_receive(&ends[1]);
    ck_assert(tc_until(atomic_load(&ends[1].requests) == 1, 20000));
    connect = connect_to(NULL);
    ok(ual_conn_accept(atomic_load(&ends[1].request), ends[1].qp, &connect));
    ck_assert(tc_until(atomic_load(&ends[0].established) == 1, 20000));
    expect_message();
}
END_TEST

/* A connect from it uses that address. */
START_TEST(a_bound_address_is_that_of_the_connect)
{
    struct sockaddr_in own = bind_somewhere(&ends[0]), to = loopback(0);
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (struct sockaddr *)&to,
                                     .backlog = 4 };
    struct ri_connection_event info = { .size = sizeof(info) };
    struct sockaddr_storage bound;
    struct ri_connect_param connect;

    ok(ual_conn_listen(ends[1].conn, &param, &bound));
    memcpy(&to, &bound, sizeof(to));
    connect = connect_to(&to);
    ok(ual_conn_connect(ends[0].conn, ends[0].qp, &connect));
    ck_assert(tc_until(atomic_load(&ends[1].requests) == 1, 20000));
    connect = connect_to(NULL);
    ok(ual_conn_accept(atomic_load(&ends[1].request), ends[1].qp, &connect));
    ck_assert(tc_until(atomic_load(&ends[0].established) == 1, 20000));
    ok(ual_conn_query(ends[0].conn, &info));
    ck_assert_uint_eq(((struct sockaddr_in *)&info.local)->sin_port, own.sin_port);
}
END_TEST

/* --- a socket of the caller's --- */

/* With MPA start-up frames and without; the caller closes his descriptors at once. */
START_TEST(adopted_sockets_carry_messages)
{
    int fds[2];

    ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
    post_receive(&ends[1]);
    for (int i = 1; i >= 0; i--) {
        struct ual_adopt_param param = {
            .fd = fds[i],
            .initiator = i == 0,
            .startup_frames = _i,
            .ird = 1,
            .ord = 1,
            .deadline = RI_NO_DEADLINE,
        };

        ok(ual_conn_adopt(ends[i].conn, ends[i].qp, &param));
    }
    ck_assert_int_eq(close(fds[0]), 0);
    ck_assert_int_eq(close(fds[1]), 0);
    ck_assert(tc_until(atomic_load(&ends[0].established) == 1, 20000));
    expect_message();
    ok(ual_conn_disconnect(ends[0].conn, ends[0].qp, NULL, 0));
    ck_assert(tc_until(atomic_load(&ends[0].ended) && atomic_load(&ends[1].ended), 20000));
}
END_TEST

/* --- renewal --- */

START_TEST(of_a_renewed_qp_nothing_old_is_polled)
{
    struct end *end = &ends[0];
    struct ual_qp_attr attr = qp_attr(end);
    ual_handle handle = end->qp->object.handle;
    struct ri_wc wc;

    post_receive(end);
    post_receive(end);
    ok(ual_qp_set_state(end->qp, RI_QPS_ERROR));
    ck_assert_uint_eq(ual_cq_peek(end->cq), 2); /* flushed, and not taken */
    ok(ual_qp_renew(end->qp, &attr));
    ck_assert_uint_eq(ual_cq_poll(end->cq, 1, &wc), 0);
    ck_assert_uint_eq(end->qp->object.handle, handle);
    post_receive(end);
    ok(ual_qp_rewind(end->qp));
    ck_assert_uint_eq(ual_cq_poll(end->cq, 1, &wc), 1);
    ck_assert_uint_eq((ual_handle)wc.context, handle);
    ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mechanism on the wire");
    TCase *tc = tc_case(suite, "loopback", setup, teardown);

    tc_add_tests(tc, a_bound_address_is_held_and_peers_wait, a_bound_address_is_that_of_the_connect,
                 of_a_renewed_qp_nothing_old_is_polled);
    tcase_add_loop_test(tc, adopted_sockets_carry_messages, 0, 2);
    return tc_main(suite);
}
