/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm: ids with queue pairs of the program, which moves them through their states itself;
 * posts before a connection is established. */
#include "rdmacm_ids.h"

struct own_qp {
    bool apart; /* of a context of its own; set before */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char text[16];
};

static void open_own(struct own_qp *own, struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
    struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 4,
                                              .max_recv_wr = 4,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = 16 },
                                     .qp_type = IBV_QPT_RC,
                                     .sq_sig_all = 1 };
    int mask;

    own->context = own->apart ? ibv_open_device(id->verbs->device) : id->verbs;
    own->pd = own->apart ? ibv_alloc_pd(own->context) : id->pd;
    own->cq = ibv_create_cq(own->context, 8, NULL, NULL, 0);
    init.send_cq = init.recv_cq = own->cq;
    own->qp = ibv_create_qp(own->pd, &init);
    own->mr = ibv_reg_mr(own->pd, own->text, sizeof(own->text), IBV_ACCESS_LOCAL_WRITE);
    ck_assert(own->cq && own->qp && own->mr);
    ck_assert_int_eq(rdma_init_qp_attr(id, &attr, &mask), 0);
    ck_assert_int_eq(ibv_modify_qp(own->qp, &attr, mask), 0);
}

static void close_own(struct own_qp *own)
{
    ck_assert_int_eq(ibv_destroy_qp(own->qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(own->cq), 0);
    ck_assert_int_eq(ibv_dereg_mr(own->mr), 0);
    if (!own->apart)
        return;
    ck_assert_int_eq(ibv_dealloc_pd(own->pd), 0);
    ck_assert_int_eq(ibv_close_device(own->context), 0);
}

static void move_own(struct own_qp *own, struct rdma_cm_id *id, enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = { .qp_state = to };
    int mask;

    ck_assert_int_eq(rdma_init_qp_attr(id, &attr, &mask), 0);
    ck_assert_int_eq(ibv_modify_qp(own->qp, &attr, mask), 0);
    ck_assert_int_eq(own->qp->state, to);
}

static void post_receive(struct own_qp *own)
{
    struct ibv_sge sge = { (uintptr_t)own->text, sizeof(own->text), own->mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    ck_assert_int_eq(ibv_post_recv(own->qp, &wr, &bad), 0);
}

static void post_send(struct own_qp *own, const char *text)
{
    struct ibv_sge sge = { (uintptr_t)text, (uint32_t)strlen(text) + 1, 0 };
    struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
                              .send_flags = IBV_SEND_INLINE,
                              .sg_list = &sge,
                              .num_sge = 1 },
                       *bad;

    ck_assert_int_eq(ibv_post_send(own->qp, &wr, &bad), 0);
}

static void expect_done(struct own_qp *own, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc;

    ck_assert(tc_until(ibv_poll_cq(own->cq, 1, &wc) == 1, WAIT_MS));
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc.opcode, opcode);
}

static void expect_flushed(struct own_qp *own)
{
    struct ibv_wc wc;

    ck_assert(tc_until(ibv_poll_cq(own->cq, 1, &wc) == 1, WAIT_MS));
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void resolve_plain(struct rdma_cm_id *id)
{
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));

    ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
    expect(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
    expect(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* Client and server connect QPs that they created by ibv_create_qp, up to the peer's response.
 * Returns the server's id. */
static struct rdma_cm_id *respond(struct own_qp *here, struct own_qp *there)
{
    struct rdma_conn_param param = { .private_data = "ask", .private_data_len = 3 };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
    struct rdma_cm_event *event;
    struct rdma_cm_id *server;
    int mask;

    resolve_plain(client);
    open_own(here, client);
    fails(rdma_init_qp_attr(client, &attr, &mask), EINVAL); /* no peer yet */
    fails(rdma_establish(client), EINVAL);
    param.qp_num = here->qp->qp_num;
    ck_assert_int_eq(rdma_connect(client, &param), 0);
    event = take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
    server = event->id;
    rdma_ack_cm_event(event);
    open_own(there, server);
    post_receive(there);
    move_own(there, server, IBV_QPS_RTR);
    move_own(there, server, IBV_QPS_RTS);
    param = (struct rdma_conn_param){ .qp_num = there->qp->qp_num,
                                      .private_data = "answer",
                                      .private_data_len = 6 };
    ck_assert_int_eq(rdma_accept(server, &param), 0);
    event = take(channels[1], RDMA_CM_EVENT_CONNECT_RESPONSE);
    ck_assert_ptr_eq(event->id, client);
    ck_assert_int_eq(event->status, 0);
    ck_assert_int_eq(event->param.conn.private_data_len, 6);
    ck_assert_mem_eq(event->param.conn.private_data, "answer", 6);
    rdma_ack_cm_event(event);
    return server;
}

/* _i, bit 0: the program moves its QP to RTS before rdma_establish, or does not move it at all (one
 * that connects other QPs with what it has exchanged here). Bit 1: both QPs are of contexts that
 * the program has opened itself. */
START_TEST(a_qp_of_the_program_is_connected)
{
    struct own_qp here = { .apart = _i & 2 }, there = { .apart = _i & 2 };
    struct rdma_cm_id *server = respond(&here, &there);

    expect_nothing(channels[0]);
    if (_i & 1) {
        move_own(&here, client, IBV_QPS_RTR);
        move_own(&here, client, IBV_QPS_RTS);
    }
    ck_assert_int_eq(rdma_establish(client), 0);
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    post_receive(&here);
    post_send(&here, "there");
    expect_done(&here, IBV_WC_SEND);
    expect_done(&there, IBV_WC_RECV);
    ck_assert_str_eq(there.text, "there");
    post_send(&there, "and back");
    expect_done(&there, IBV_WC_SEND);
    expect_done(&here, IBV_WC_RECV);
    ck_assert_str_eq(here.text, "and back");
    post_receive(&there);
    ck_assert_int_eq(rdma_disconnect(client), 0);
    expect(channels[0], RDMA_CM_EVENT_DISCONNECTED);
    expect_flushed(&there); /* without a request of this side, too */
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    expect_nothing(channels[1]); /* ESTABLISHED is for who does not get CONNECT_RESPONSE */
    close_own(&here);
    close_own(&there);
    ck_assert_int_eq(rdma_destroy_id(server), 0);
}
END_TEST

/* An adapter's QP numbers are the device's, whichever context made the QP. After an id whose
 * attempt failed the context may be closed. */
START_TEST(a_qp_of_another_context_is_found_and_may_go_before_its_id)
{
    struct sockaddr_in bound = loopback(0);
    struct own_qp own = { .apart = true };
    struct rdma_conn_param param = { 0 };

    ck_assert_int_eq(rdma_bind_addr(client, (struct sockaddr *)&bound), 0);
    bound = *(struct sockaddr_in *)(void *)&client->route.addr.src_addr;
    resolve_plain(client);
    param.qp_num = 0xfffffe;
    fails(rdma_connect(client, &param), EINVAL);
    open_own(&own, client);
    param.qp_num = own.qp->qp_num;
    ck_assert_int_eq(rdma_connect(client, &param), 0);
    expect(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_ptr_ne(own.context, client->verbs);
    ck_assert_uint_eq(rdma_get_src_port(client), bound.sin_port);
    close_own(&own);
}
END_TEST

/* The structure ends with padding, where that of rdma_create_qp_ex has comp_mask. */
START_TEST(what_lies_behind_the_attributes_of_a_qp_is_not_read)
{
    struct ibv_qp_init_attr attr;

    resolve(client);
    rdma_destroy_qp(client);
    memset(&attr, 0xff, sizeof(attr));
    attr.qp_context = NULL;
    attr.send_cq = attr.recv_cq = NULL;
    attr.srq = NULL;
    memset(&attr.cap, 0, sizeof(attr.cap));
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = 1;
    ck_assert_int_eq(rdma_create_qp(client, NULL, &attr), 0);
    rdma_destroy_qp(client);
}
END_TEST

START_TEST(a_response_is_turned_down)
{
    struct own_qp here = { 0 }, there = { 0 };
    struct rdma_cm_id *server = respond(&here, &there);

    ck_assert_int_eq(rdma_disconnect(client), 0);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    fails(rdma_establish(client), EINVAL);
    expect(channels[0], RDMA_CM_EVENT_CONNECT_ERROR);
    close_own(&here);
    close_own(&there);
    ck_assert_int_eq(rdma_destroy_id(server), 0);
}
END_TEST

static void send_text(struct rdma_cm_id *id, const char *text)
{
    char octets[8];

    strcpy(octets, text);
    ck_assert_int_eq(rdma_post_send(id, NULL, octets, sizeof(octets), NULL, IBV_SEND_INLINE), 0);
}

static int post_immediate(struct rdma_cm_id *id)
{
    char octets[8] = "";
    struct ibv_sge sge = { (uintptr_t)octets, sizeof(octets), 0 };
    struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
                              .send_flags = IBV_SEND_INLINE,
                              .sg_list = &sge,
                              .num_sge = 1 },
                       *bad;

    return ibv_post_send(id->qp, &wr, &bad);
}

static enum ibv_qp_state state_of(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    ck_assert_int_eq(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

START_TEST(what_is_posted_after_accept_follows_in_order)
{
    struct rdma_cm_event *event = ask(NULL);
    struct rdma_cm_id *server = event->id;
    char got[4][8] = { "" };
    struct ibv_mr *mr;
    struct ibv_wc wc;

    rdma_ack_cm_event(event);
    mr = rdma_reg_msgs(client, got, sizeof(got));
    ck_assert_ptr_nonnull(mr);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(rdma_post_recv(client, got[i], got[i], sizeof(got[i]), mr), 0);
    make_qp(server);
    ck_assert_int_eq(rdma_accept(server, NULL), 0);
    ck_assert_int_eq(state_of(server), IBV_QPS_RTS);
    for (int i = 0; i < 4; i++)
        send_text(server, (const char *[]){ "one", "two", "three", "four" }[i]);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(rdma_get_recv_comp(client, &wc), 1);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_ptr_eq((void *)(uintptr_t)wc.wr_id, got[i]);
    }
    ck_assert_str_eq(got[0], "one");
    ck_assert_str_eq(got[3], "four");
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    rdma_dereg_mr(mr);
    forget(server);
    rdma_destroy_qp(client);
}
END_TEST

/* Of MPA's revision 2 and the peer-to-peer model: an accepted connection is established by the
 * peer's first message. Returns the socket. */
static int ask_by_hand(void)
{
    static const char request[] = "MPA ID Req Frame\x10\x02\x00\x04\xc0\x01\x00\x01";
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    ck_assert_int_eq(write(fd, request, sizeof(request) - 1), (ssize_t)sizeof(request) - 1);
    return fd;
}

/* _i: the peer goes, or the program destroys the id. */
START_TEST(what_is_posted_after_accept_waits_for_the_first_message_of_the_peer)
{
    int fd = ask_by_hand();
    struct rdma_cm_event *event = take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    struct rdma_cm_id saved;
    struct ibv_wc wc;

    rdma_ack_cm_event(event);
    make_qp(server);
    saved = *server;
    ck_assert_int_eq(rdma_accept(server, NULL), 0);
    ck_assert_int_eq(state_of(server), IBV_QPS_RTS);
    /* over a connection of iWARP it cannot be, so it is not taken before there is one either */
    ck_assert_int_eq(post_immediate(server), EOPNOTSUPP);
    send_text(server, "held");
    ck_assert_int_eq(ibv_poll_cq(saved.send_cq, 1, &wc), 0);
    if (_i) {
        ck_assert_int_eq(rdma_destroy_id(server), 0);
    } else {
        close(fd);
        event = take(channels[0], RDMA_CM_EVENT_CONNECT_ERROR);
        ck_assert_int_lt(event->status, 0);
        rdma_ack_cm_event(event);
        ck_assert_int_eq(state_of(server), IBV_QPS_ERR);
    }
    ck_assert(tc_until(ibv_poll_cq(saved.send_cq, 1, &wc) == 1, WAIT_MS));
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    if (!_i) {
        forget(server);
        return;
    }
    close(fd);
    ck_assert_int_eq(ibv_destroy_qp(saved.qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(saved.send_cq), 0);
    ck_assert_int_eq(ibv_destroy_cq(saved.recv_cq), 0);
    ck_assert_int_eq(ibv_destroy_comp_channel(saved.send_cq_channel), 0);
    ck_assert_int_eq(ibv_destroy_comp_channel(saved.recv_cq_channel), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librdmacm, QPs");
    TCase *tc = tc_case(suite, "ids", set_up, tear_down);

    tc_add_tests(tc, a_response_is_turned_down, what_lies_behind_the_attributes_of_a_qp_is_not_read,
                 a_qp_of_another_context_is_found_and_may_go_before_its_id,
                 what_is_posted_after_accept_follows_in_order);
    tcase_add_loop_test(tc, what_is_posted_after_accept_waits_for_the_first_message_of_the_peer, 0,
                        2);
    tcase_add_loop_test(tc, a_qp_of_the_program_is_connected, 0, 4);
    return tc_main(suite);
}
