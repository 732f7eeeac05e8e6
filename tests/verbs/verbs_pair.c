/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_pair.h"

#include <poll.h>

#define ALL_RIGHTS                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

struct pair pair;

struct ibv_context *pair_open_context(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;

    ck_assert_ptr_nonnull(list);
    ck_assert_ptr_nonnull(list[0]);
    context = ibv_open_device(list[0]);
    ck_assert_ptr_nonnull(context);
    ibv_free_device_list(list);
    return context;
}

struct ibv_async_event pair_async_event(struct ibv_context *context)
{
    struct ibv_async_event event;

    ck_assert_msg(tc_wait_fd(context->async_fd, POLLIN, tc_deadline(PAIR_MS)) == POLLIN,
                  "no asynchronous event came");
    ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
    return event;
}

/* --- a connector of the test's own, over an existing TCP connection --- */

static void on_connection_event(void *context, const struct ri_connection_event *event)
{
    struct pair_side *side = context;

    if (event->type == RI_CONNECTION_ESTABLISHED)
        atomic_store(&side->established, true);
}

static const struct ual_conn_upcalls upcalls = { .event = on_connection_event };

static void on_qp_event(void *context, struct vb_qp *qp, const struct ri_event *event)
{
    struct pair_side *side = context;

    (void)qp;
    if (event->type == RI_EVENT_ESTABLISHED)
        atomic_store(&side->established, true);
    else
        atomic_store(&side->ended, (int)event->type);
}

static void on_release(void *context, struct vb_qp *qp)
{
    struct pair_side *side = context;

    (void)qp;
    if (side->conn)
        ual_conn_free(side->conn);
    side->conn = NULL;
}

static const struct vb_connector connector = { .event = on_qp_event, .release = on_release };

static void adopt(int i, int fd)
{
    struct pair_side *side = &pair.side[i];
    struct ual_device *device = vb_context_of(pair.context)->device;
    struct ual_adopt_param param = {
        .fd = fd,
        .initiator = i == 0,
        .startup_frames = true,
        .ird = 8,
        .ord = 8,
        .deadline = RI_NO_DEADLINE,
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = ALL_RIGHTS & ~IBV_ACCESS_MW_BIND };

    atomic_store(&side->established, false);
    ck_assert_int_eq(vb_qp_connector(vb_qp_of(side->qp), &connector, side), 0);
    ck_assert_int_eq(
        ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    ck_assert_int_eq(ual_conn_create(device, &upcalls, side, &side->conn), RI_OK);
    ck_assert_int_eq(ual_conn_adopt(side->conn, &vb_qp_of(side->qp)->ual, &param), RI_OK);
}

void pair_connect(void)
{
    int fds[2];

    ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
    for (int i = 0; i < 2; i++)
        adopt(i, fds[i]);
    for (int i = 0; i < 2; i++) {
        struct pair_side *side = &pair.side[i];

        close(fds[i]);
        ck_assert(tc_until(atomic_load(&side->established), PAIR_MS));
        vb_qp_enter(vb_qp_of(side->qp), IBV_QPS_RTS, VB_GATE_OPEN);
    }
}

/* --- objects --- */

static void open_qp(struct pair_side *side)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .srq = side->srq,
        .cap = { .max_send_wr = PAIR_DEPTH,
                 .max_recv_wr = PAIR_DEPTH,
                 .max_send_sge = 4,
                 .max_recv_sge = 4,
                 .max_inline_data = 256 },
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | (pair.extended ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
        .pd = pair.pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                          IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
    };

    side->qp = ibv_create_qp_ex(pair.context, &attr);
    ck_assert_ptr_nonnull(side->qp);
    side->qp_ex = ibv_qp_to_qp_ex(side->qp);
    ck_assert(pair.extended == (side->qp_ex != NULL));
}

static void open_side(struct pair_side *side)
{
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = PAIR_DEPTH, .max_sge = 4 } };

    side->cq = ibv_create_cq(pair.context, 4 * PAIR_DEPTH, side, pair.channel, 0);
    ck_assert_ptr_nonnull(side->cq);
    if (pair.shared) {
        side->srq = ibv_create_srq(pair.pd, &srq);
        ck_assert_ptr_nonnull(side->srq);
    }
    side->memory = calloc(1, PAIR_OCTETS);
    ck_assert_ptr_nonnull(side->memory);
    side->mr = ibv_reg_mr(pair.pd, side->memory, PAIR_OCTETS, ALL_RIGHTS);
    ck_assert_ptr_nonnull(side->mr);
    open_qp(side);
}

void pair_open(bool shared, bool extended)
{
    memset(&pair, 0, sizeof(pair));
    pair.shared = shared;
    pair.extended = extended;
    pair.context = pair_open_context();
    pair.pd = ibv_alloc_pd(pair.context);
    ck_assert_ptr_nonnull(pair.pd);
    pair.channel = ibv_create_comp_channel(pair.context);
    ck_assert_ptr_nonnull(pair.channel);
    for (int i = 0; i < 2; i++)
        open_side(&pair.side[i]);
}

void pair_set_up(void)
{
    pair_open(false, false);
    pair_connect();
}

void pair_renew(void)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ibv_destroy_qp(pair.side[i].qp), 0);
        atomic_store(&pair.side[i].ended, 0);
        open_qp(&pair.side[i]);
    }
    pair_connect();
}

void pair_destroy(void)
{
    for (int i = 0; i < 2; i++) {
        struct pair_side *side = &pair.side[i];

        ck_assert_int_eq(ibv_destroy_qp(side->qp), 0);
        if (side->srq)
            ck_assert_int_eq(ibv_destroy_srq(side->srq), 0);
        ck_assert_int_eq(ibv_destroy_cq(side->cq), 0);
        ck_assert_int_eq(ibv_dereg_mr(side->mr), 0);
        free(side->memory);
    }
    ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), 0);
    ck_assert_int_eq(ibv_dealloc_pd(pair.pd), 0);
}

void pair_close(void)
{
    pair_destroy();
    ck_assert_int_eq(ibv_close_device(pair.context), 0);
}

/* --- traffic --- */

struct ibv_wc pair_completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    ck_assert(tc_until(ibv_poll_cq(cq, 1, &wc) == 1, PAIR_MS));
    return wc;
}

void pair_post_receive(struct pair_side *side, uint64_t wr_id, uint32_t offset, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)side->memory + offset,
                           .length = length,
                           .lkey = side->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

    if (side->srq)
        ck_assert_int_eq(ibv_post_srq_recv(side->srq, &wr, &bad), 0);
    else
        ck_assert_int_eq(ibv_post_recv(side->qp, &wr, &bad), 0);
}

struct ibv_send_wr pair_request(struct pair_side *side, enum ibv_wr_opcode opcode,
                                struct ibv_sge *sge, uint32_t offset, uint32_t length)
{
    *sge = (struct ibv_sge){ .addr = (uintptr_t)side->memory + offset,
                             .length = length,
                             .lkey = side->mr->lkey };
    return (struct ibv_send_wr){
        .opcode = opcode, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED
    };
}

void pair_do(struct pair_side *side, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_post_send(side->qp, wr, &bad), 0);
    wc = pair_completion(side->cq);
    ck_assert_msg(wc.status == IBV_WC_SUCCESS, "opcode %d: %s", (int)wr->opcode,
                  ibv_wc_status_str(wc.status));
    ck_assert_uint_eq(wc.wr_id, wr->wr_id);
}
