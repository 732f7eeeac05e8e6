/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two QPs of one process that connect by numbers: see numbers_ends.h.
 */
#include "numbers_ends.h"

struct ibv_context *device_context;
struct ibv_pd *protection_domain;
union ibv_gid gid;
uint16_t dlid;

void open_context(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    ck_assert_ptr_nonnull(list);
    if (!list[0])
        tc_skip("no device");
    device_context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ck_assert_ptr_nonnull(device_context);
    protection_domain = ibv_alloc_pd(device_context);
    ck_assert_ptr_nonnull(protection_domain);
    ck_assert_int_eq(ibv_query_gid(device_context, 1, 0, &gid), 0);
}

void close_context(void)
{
    ck_assert_int_eq(ibv_dealloc_pd(protection_domain), 0);
    ck_assert_int_eq(ibv_close_device(device_context), 0);
}

/* --- one end --- */

void open_end(struct end *end)
{
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
                                     .sq_sig_all = 1,
                                     .cap = { .max_send_wr = DEPTH,
                                              .max_recv_wr = DEPTH,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = OCTETS } };

    memset(end, 0, sizeof(*end));
    end->cq = ibv_create_cq(device_context, 4 * DEPTH, NULL, NULL, 0);
    ck_assert_ptr_nonnull(end->cq);
    init.send_cq = init.recv_cq = end->cq;
    end->qp = ibv_create_qp(protection_domain, &init);
    ck_assert_msg(end->qp != NULL, "ibv_create_qp: %s", strerror(errno));
    end->mr = ibv_reg_mr(protection_domain, end->memory, sizeof(end->memory),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ck_assert_ptr_nonnull(end->mr);
}

void close_end(struct end *end)
{
    if (end->qp)
        ck_assert_int_eq(ibv_destroy_qp(end->qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(end->cq), 0);
    ck_assert_int_eq(ibv_dereg_mr(end->mr), 0);
}

void to_init(struct end *end)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_READ |
                                                   IBV_ACCESS_REMOTE_WRITE };

    ck_assert_int_eq(
        ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
}

int try_rtr(struct end *end, uint32_t peer, bool global)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer,
        .rq_psn = 1,
        .max_dest_rd_atomic = 1,
        .ah_attr = { .is_global = global, .dlid = dlid, .port_num = 1, .grh = { .dgid = gid } },
    };

    return ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void to_rtr(struct end *end, uint32_t peer)
{
    ck_assert_int_eq(try_rtr(end, peer, true), 0);
}

void to_rts(struct end *end)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .sq_psn = 1,
                                .max_rd_atomic = 1 };

    ck_assert_int_eq(ibv_modify_qp(end->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

void to_state(struct end *end, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = { .qp_state = state };

    ck_assert_int_eq(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE), 0);
}

void connect_to(struct end *end, uint32_t peer)
{
    to_init(end);
    to_rtr(end, peer);
    to_rts(end);
}

void post_recv(struct end *end, unsigned int index)
{
    struct ibv_sge sge = { (uintptr_t)end->memory + index * OCTETS, OCTETS, end->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = 100 + index, .sg_list = &sge, .num_sge = 1 }, *bad;

    ck_assert_int_eq(ibv_post_recv(end->qp, &wr, &bad), 0);
}

int try_send(struct end *end, unsigned int index, unsigned int flags)
{
    unsigned char *octets = end->memory + (DEPTH + index % DEPTH) * OCTETS;
    struct ibv_sge sge = { (uintptr_t)octets, OCTETS, end->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = index,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_SEND,
                              .send_flags = flags },
                       *bad = NULL;
    int error;

    memset(octets, (int)index + 1, OCTETS);
    error = ibv_post_send(end->qp, &wr, &bad);
    ck_assert(!error || bad == &wr);
    return error;
}

void post_send(struct end *end, unsigned int index)
{
    ck_assert_int_eq(try_send(end, index, 0), 0);
}

struct ibv_wc next_completion(struct end *end)
{
    uint64_t deadline = tc_deadline(DEADLINE);
    struct ibv_wc wc;
    int got;

    while (!(got = ibv_poll_cq(end->cq, 1, &wc)))
        ck_assert_msg(!tc_expired(deadline), "no completion");
    ck_assert_int_eq(got, 1);
    ck_assert_uint_eq(wc.qp_num, end->qp->qp_num);
    return wc;
}

void expect(struct end *end, uint64_t cookie, enum ibv_wc_status status)
{
    struct ibv_wc wc = next_completion(end);

    ck_assert_uint_eq(wc.wr_id, cookie);
    ck_assert_msg(wc.status == status, "request %llu: %s instead of %s", (unsigned long long)cookie,
                  ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

void expect_message(struct end *end, unsigned int index, unsigned int number)
{
    expect(end, 100 + index, IBV_WC_SUCCESS);
    for (unsigned int i = 0; i < OCTETS; i++)
        ck_assert_uint_eq(end->memory[index * OCTETS + i], number + 1);
}

/* --- two ends: the one with the larger number initiates --- */

struct end two[2];
struct end *small, *large;

void open_ends(void)
{
    open_context();
    open_end(&two[0]);
    open_end(&two[1]);
    small = two[0].qp->qp_num < two[1].qp->qp_num ? &two[0] : &two[1];
    large = small == &two[0] ? &two[1] : &two[0];
}

void close_ends(void)
{
    close_end(small);
    close_end(large);
    close_context();
}

struct end *this_end(int i)
{
    return i ? large : small;
}

struct end *other_end(int i)
{
    return i ? small : large;
}

void connect_both(void)
{
    connect_to(small, large->qp->qp_num);
    connect_to(large, small->qp->qp_num);
}

void exchange(struct end *from, struct end *to)
{
    post_recv(to, 0);
    post_send(from, 0);
    expect_message(to, 0, 0);
    expect(from, 0, IBV_WC_SUCCESS);
}

void await_end(struct end *end)
{
    uint64_t deadline = tc_deadline(DEADLINE);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    do {
        ck_assert_msg(!tc_expired(deadline), "the connection goes on");
        ck_assert_int_eq(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
    } while (attr.qp_state != IBV_QPS_ERR);
}
