/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs of the providers over rdma-core, on a device that the test controls. */
#include "work.h"

#include "tc.h"

#include <endian.h>

/* ---- requests that reach the device, and their completions ---- */

static const struct {
    uint16_t opcode;
    enum ibv_wr_opcode verbs;
    uint8_t completion;
    bool tagged;
} messages[] = {
    { RI_WR_SEND, IBV_WR_SEND, RI_WC_SEND, false },
    { RI_WR_SEND_IMMEDIATE, IBV_WR_SEND_WITH_IMM, RI_WC_SEND, false },
    { RI_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, RI_WC_RDMA_WRITE, true },
    { RI_WR_RDMA_WRITE_IMMEDIATE, IBV_WR_RDMA_WRITE_WITH_IMM, RI_WC_RDMA_WRITE, true },
    { RI_WR_RDMA_READ, IBV_WR_RDMA_READ, RI_WC_RDMA_READ, true },
};

START_TEST(messages_are_translated)
{
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = {
        .cookie = 0x123456789abc,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = messages[_i].opcode,
        .flags = RI_WR_SIGNALED | RI_WR_SOLICITED | RI_WR_READ_FENCE | RI_WR_NOTIFY,
        .immediate = 0x01020304,
        .rdma = { .remote_addr = 0x7000, .rkey = 0x66 },
    };
    const struct ibv_send_wr *sent = fake_qp(set.qp)->sent;
    struct ri_wc wc;

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 1);
    ck_assert_int_eq(sent->opcode, messages[_i].verbs);
    ck_assert_uint_eq(sent->send_flags, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE);
    ck_assert_uint_eq(fake_qp(set.qp)->sge[0].addr, (uintptr_t)data);
    ck_assert_uint_eq(fake_qp(set.qp)->sge[0].length, 100);
    ck_assert_uint_eq(fake_qp(set.qp)->sge[0].lkey, 0x55);
    ck_assert_uint_eq(be32toh(sent->imm_data), 0x01020304);
    if (messages[_i].tagged) {
        ck_assert_uint_eq(sent->wr.rdma.remote_addr, 0x7000);
        ck_assert_uint_eq(sent->wr.rdma.rkey, 0x66);
    }
    nothing();
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    wc = next();
    ck_assert_ptr_eq(wc.context, &set.qp_record);
    ck_assert_uint_eq(wc.cookie, wr.cookie);
    ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, messages[_i].completion);
    ck_assert_uint_eq(wc.byte_len, 100);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    nothing();
}
END_TEST

/* The short path, for plain requests only, and the long one give the same result. */
START_TEST(short_way)
{
    static const uint16_t opcodes[] = { RI_WR_SEND, RI_WR_SEND_INVALIDATE, RI_WR_RDMA_WRITE,
                                        RI_WR_RDMA_READ };
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = { .cookie = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcodes[_i],
                             .flags = RI_WR_SIGNALED,
                             .invalidate_stag = 0x99,
                             .rdma = { .remote_addr = 0x7000, .rkey = 0x66 } };
    struct ri_send_wr two = wr;
    const struct ibv_send_wr *sent = fake_qp(set.qp)->sent;

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    wr.next = &two; /* a list takes the long path */
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 3);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(sent[0].opcode, sent[i].opcode);
        ck_assert_uint_eq(sent[0].send_flags, sent[i].send_flags);
        ck_assert_int_eq(sent[0].num_sge, sent[i].num_sge);
        if (opcodes[_i] == RI_WR_SEND_INVALIDATE) {
            ck_assert_uint_eq(sent[i].invalidate_rkey, sent[0].invalidate_rkey);
            ck_assert_uint_eq(sent[i].wr.rdma.rkey, 0x99);
        }
        if (opcodes[_i] >= RI_WR_RDMA_WRITE)
            ck_assert_mem_eq(&sent[0].wr.rdma, &sent[i].wr.rdma,
                             sizeof(sent[0].wr.rdma.remote_addr));
    }
    if (opcodes[_i] == RI_WR_SEND_INVALIDATE) {
        ck_assert_uint_eq(sent[0].invalidate_rkey, 0x99);
        ck_assert_uint_eq(sent[0].wr.rdma.rkey, 0x99); /* where rdma-core's siw looks for it */
    }
}
END_TEST

START_TEST(atomics_are_translated)
{
    struct ri_sge sge = segment(8);
    struct ri_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = RI_WR_ATOMIC_FETCH_ADD,
        .flags = RI_WR_SIGNALED,
        .atomic = { .remote_addr = 0x7000, .swap_or_add = 5, .compare = 6, .rkey = 0x66 }
    };
    const struct ibv_send_wr *sent = fake_qp(set.qp)->sent;

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    wr.opcode = RI_WR_ATOMIC_COMPARE_SWAP;
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_int_eq(sent[0].opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
    ck_assert_uint_eq(sent[0].wr.atomic.compare_add, 5);
    ck_assert_int_eq(sent[1].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
    ck_assert_uint_eq(sent[1].wr.atomic.compare_add, 6);
    ck_assert_uint_eq(sent[1].wr.atomic.swap, 5);
    ck_assert_uint_eq(sent[1].wr.atomic.remote_addr, 0x7000);
    ck_assert_uint_eq(sent[1].wr.atomic.rkey, 0x66);
    wr.num_sge = 2;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* The device may have more; what is stated is the limit. */
START_TEST(inline_beyond_what_is_stated)
{
    struct ri_rnic_attr limits = { .size = sizeof(limits) };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .send_cq = set.cq,
                               .recv_cq = set.cq,
                               .max_send_wr = 2 };
    struct ri_qp *qp;

    ck_assert_int_eq(set.host.privileged.query(set.host.rnic, &limits), RI_OK);
    attr.max_inline = limits.max_inline + 1;
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &qp), RI_ERR_LIMIT);
    attr.max_inline--;
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &qp), RI_OK);
    ck_assert_uint_ge(attr.max_inline, limits.max_inline);
    ck_assert_int_eq(set.host.privileged.qp_destroy(qp), RI_OK);
}
END_TEST

/* Short Sends and Writes are inline without a flag. Reads cannot be, and siw refuses it for a Send
 * with Invalidate. */
START_TEST(inline_where_it_pays)
{
    static const struct {
        uint16_t opcode;
        uint32_t octets;
        bool inlined;
    } cases[] = { { RI_WR_SEND, 64, true },       { RI_WR_SEND, 65, false },
                  { RI_WR_SEND, 0, false },       { RI_WR_RDMA_WRITE, 1, true },
                  { RI_WR_RDMA_READ, 64, false }, { RI_WR_SEND_INVALIDATE, 64, false } };
    struct ri_sge sge = segment(cases[_i].octets);
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = cases[_i].opcode };

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_int_eq(!!(fake_qp(set.qp)->sent[0].send_flags & IBV_SEND_INLINE), cases[_i].inlined);
    sge.length = 65;
    wr.flags = RI_WR_INLINE;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_LIMIT);
}
END_TEST

/* Their lkeys are not checked. */
START_TEST(empty_elements_are_left_out)
{
    struct ri_sge sges[2] = { { .lkey = 1 }, segment(9) };
    struct ri_send_wr wr = { .sg_list = sges, .num_sge = 2, .flags = RI_WR_SIGNALED };

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    wr.num_sge = 1;
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_int_eq(fake_qp(set.qp)->sent[0].num_sge, 1);
    ck_assert_uint_eq(fake_qp(set.qp)->sge[0].length, 9);
    ck_assert_int_eq(fake_qp(set.qp)->sent[1].num_sge, 0);
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    fake_sent(set.qp, set.cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().byte_len, 9);
    ck_assert_uint_eq(next().byte_len, 0);
}
END_TEST

START_TEST(refused_requests)
{
    struct ri_sge sges[3] = { segment(1), segment(1), segment(1) };
    struct ri_send_wr wr = { .sg_list = sges, .num_sge = 3 };

    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    wr.num_sge = 2;
    wr.opcode = RI_WR_RDMA_READ; /* one element */
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    wr.opcode = RI_WR_FAST_REGISTER;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    wr.opcode = RI_WR_RDMA_READ_INVALIDATE;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_NOT_SUPPORTED);
    wr.opcode = 200;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 0);
}
END_TEST

/* write(2) of a driver fails although its queue has the request: the request completes once, and
 * its slot stays in use until then. */
START_TEST(queued_though_the_kernel_was_not_told)
{
    struct ri_sge sges[2] = { segment(100), segment(1) };
    struct ri_send_wr wr = { .cookie = 1, .sg_list = sges, .num_sge = 2, .flags = RI_WR_SIGNALED };
    struct ri_recv_wr recv = { .sg_list = sges, .num_sge = 1 }, *bad;

    fake_fail_posts(-1);
    send_to(set.qp, 0, RI_WR_SIGNALED); /* the short way */
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_int_ne(set.host.user.post_recv(set.qp, &recv, &bad),
                     RI_OK); /* without notifying the kernel */
    fake_fail_posts(-EINVAL);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    fake_fail_posts(0);
    send_to(set.qp, 2, RI_WR_SIGNALED);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 3);
    for (uint32_t i = 0; i < 3; i++) {
        fake_sent(set.qp, set.cq, i, IBV_WC_WR_FLUSH_ERR);
        ck_assert_uint_eq(next().cookie, i);
    }
    nothing();
}
END_TEST

/* A signalled completion releases the unsignalled ones before it. A request that the device refuses
 * uses no slot. */
START_TEST(slots)
{
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1 };

    for (uint64_t i = 0; i < 7; i++)
        send_to(set.qp, i, 0);
    fake_fail_posts(ENOMEM);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    fake_fail_posts(EINVAL);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    fake_fail_posts(0);
    send_to(set.qp, 7, RI_WR_SIGNALED);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    fake_sent(set.qp, set.cq, 7, IBV_WC_SUCCESS);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL); /* until it was polled */
    ck_assert_uint_eq(next().cookie, 7);
    for (uint64_t i = 8; i < 16; i++)
        send_to(set.qp, i, 0);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    for (uint64_t i = 0; i < 8; i++)
        ck_assert_int_eq(receive(set.qp, i, 0), RI_OK);
    ck_assert_int_eq(receive(set.qp, 8, 0), RI_ERR_QUEUE_FULL);
}
END_TEST

START_TEST(receives)
{
    struct ibv_wc raw = { .status = IBV_WC_SUCCESS };
    struct ri_wc wc;

    for (uint64_t i = 0; i < 4; i++)
        ck_assert_int_eq(receive(set.qp, 40 + i, i == 1 ? RI_WR_NOTIFY : 0), RI_OK);
    fake_received(set.qp, set.cq, 0, IBV_WC_SUCCESS, 17);
    wc = next();
    ck_assert_uint_eq(wc.cookie, 40);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV);
    ck_assert_uint_eq(wc.byte_len, 17);
    ck_assert_uint_eq(wc.flags, 0);
    ck_assert_ptr_eq(wc.context, &set.qp_record);
    raw.wr_id = fake_qp(set.qp)->received[1];
    raw.opcode = IBV_WC_RECV;
    raw.wc_flags = IBV_WC_WITH_IMM;
    raw.imm_data = htobe32(0xa1b2c3d4);
    fake_complete(set.cq, &raw);
    wc = next();
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_IMMEDIATE | RI_WC_NOTIFY);
    ck_assert_uint_eq(wc.immediate, 0xa1b2c3d4);
    raw.wr_id = fake_qp(set.qp)->received[2];
    raw.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    fake_complete(set.cq, &raw);
    wc = next();
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV_IMMEDIATE);
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_IMMEDIATE);
    raw.wr_id = fake_qp(set.qp)->received[3];
    raw.opcode = IBV_WC_RECV;
    raw.wc_flags = IBV_WC_WITH_INV;
    raw.invalidated_rkey = 0x9900;
    fake_complete(set.cq, &raw);
    wc = next();
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_INVALIDATE);
    ck_assert_uint_eq(wc.invalidated_stag, 0x9900);
}
END_TEST

START_TEST(many_at_once)
{
    struct ri_wc wc[12];

    for (uint64_t i = 0; i < 8; i++)
        send_to(set.qp, i, RI_WR_SIGNALED);
    for (unsigned int i = 0; i < 8; i++)
        fake_sent(set.qp, set.cq, i, IBV_WC_SUCCESS);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 3, wc), 3);
    ck_assert_uint_eq(wc[2].cookie, 2);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 12, wc), 5);
    ck_assert_uint_eq(wc[0].cookie, 3);
    ck_assert_uint_eq(wc[4].cookie, 7);
}
END_TEST

/* ---- errors and flushing ---- */

START_TEST(error_ends_the_connection_once)
{
    struct ri_wc wc;

    send_to(set.qp, 1, RI_WR_SIGNALED | RI_WR_NOTIFY);
    send_to(set.qp, 2, 0);
    ck_assert_int_eq(receive(set.qp, 3, 0), RI_OK);
    fake_sent(set.qp, set.cq, 0, IBV_WC_REM_ACCESS_ERR);
    wc = next();
    ck_assert_int_eq(wc.status, RI_WC_REMOTE_ACCESS);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.opcode, RI_WC_SEND);
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    ck_assert_uint_eq(wc.vendor_error, 77);
    ck_assert_uint_eq(told(&set.qp_record), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LOCAL_ERROR);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_ERR);
    fake_sent(set.qp, set.cq, 1, IBV_WC_WR_FLUSH_ERR);
    fake_received(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR, 999);
    flushed(2, RI_WC_SEND);
    flushed(3, RI_WC_RECV);
    ck_assert_uint_eq(told(&set.qp_record), 1);
}
END_TEST

static void to_error(void)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_ERROR };

    ck_assert_int_eq(set.host.privileged.qp_modify(set.qp, &modify), RI_OK);
}

/* Requests posted after the end never reach the device, and complete behind the device's. */
START_TEST(posts_after_the_end)
{
    send_to(set.qp, 1, 0);
    to_error();
    send_to(set.qp, 2, 0);
    ck_assert_int_eq(receive(set.qp, 3, 0), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 1);
    ck_assert_uint_eq(fake_qp(set.qp)->receives, 0);
    flushed(3, RI_WC_RECV); /* nothing is before it in its queue */
    nothing();
    fake_sent(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    flushed(1, RI_WC_SEND);
    flushed(2, RI_WC_SEND);
    nothing();
    send_to(set.qp, 4, 0);
    flushed(4, RI_WC_SEND);
}
END_TEST

/* The slot of a flushed request too is free when its completion was polled, and not before. */
START_TEST(flushed_requests_keep_their_places)
{
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1 };

    send_to(set.qp, 0, 0);
    to_error();
    for (uint64_t i = 1; i < 8; i++)
        send_to(set.qp, i, 0);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    fake_sent(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    flushed(0, RI_WC_SEND);
    send_to(set.qp, 8, 0); /* the device's place */
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    flushed(1, RI_WC_SEND);
    send_to(set.qp, 9, 0);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    fake_host_expire_timers(&set.host); /* the sweep finds nothing left */
    for (uint64_t i = 2; i < 10; i++)
        flushed(i, RI_WC_SEND);
    nothing();
    for (uint64_t i = 0; i < 8; i++)
        ck_assert_int_eq(receive(set.qp, i, 0), RI_OK);
    ck_assert_int_eq(receive(set.qp, 8, 0), RI_ERR_QUEUE_FULL);
    for (uint64_t i = 0; i < 8; i++)
        flushed(i, RI_WC_RECV);
    nothing();
}
END_TEST

/* Requests that a device forgets are flushed. If the device completes them after all, that is
 * ignored. */
START_TEST(sweep)
{
    send_to(set.qp, 1, 0);
    ck_assert_int_eq(receive(set.qp, 2, 0), RI_OK);
    set.host.user.arm(set.cq, RI_ARM_NEXT, 0);
    to_error();
    fake_run(&set);
    nothing();
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.cq_record), 1);
    flushed(1, RI_WC_SEND);
    flushed(2, RI_WC_RECV);
    fake_sent(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    nothing();
}
END_TEST

/* A reset flushes first, with the status of those that the device has completed. */
START_TEST(reset)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_IDLE };
    struct ri_qp_info info = { .size = sizeof(info) };
    struct ri_send_wr wr = { .opcode = RI_WR_SEND };

    ck_assert_int_eq(set.host.privileged.qp_modify(set.qp, &modify), RI_ERR_INVALID_STATE);
    send_to(set.qp, 1, RI_WR_SIGNALED);
    send_to(set.qp, 2, RI_WR_SIGNALED);
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    to_error();
    ck_assert_int_eq(set.host.privileged.qp_modify(set.qp, &modify), RI_OK);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_INIT);
    ck_assert_int_eq(next().status, RI_WC_SUCCESS);
    flushed(2, RI_WC_SEND);
    nothing();
    ck_assert_int_eq(set.host.privileged.qp_query(set.qp, &info), RI_OK);
    ck_assert_int_eq(info.state, RI_QPS_IDLE);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_STATE);
    fake_connect_qp(set.qp);
    send_to(set.qp, 3, RI_WR_SIGNALED);
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS); /* of a new QP of the device */
    ck_assert_uint_eq(next().cookie, 3);
}
END_TEST

/* What the contract has for devices of another kind is refused, so that no caller takes them for
 * supported. */
START_TEST(what_has_room_only_is_refused)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = 7 };
    struct ri_rnic_attr attr = { .size = sizeof(attr) };

    ck_assert_int_eq(set.host.privileged.query(set.host.rnic, &attr), RI_OK);
    ck_assert(
        !(attr.features & (RI_FEATURE_RNR | RI_FEATURE_FUSED_IMMEDIATE | RI_FEATURE_ACKNOWLEDGE)));
    ck_assert_int_eq(set.host.privileged.qp_modify(set.qp, &modify), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* No completion of a destroyed QP is polled; the others stay, in order. */
START_TEST(destroyed_qp_is_silent)
{
    struct fake_record record = { .count = 0 };
    struct ri_qp *other = fake_make_qp(&set, NULL, &record);

    fake_connect_qp(other);
    for (uint64_t i = 0; i < 4; i++) {
        send_to(set.qp, i, RI_WR_SIGNALED);
        send_to(other, 10 + i, RI_WR_SIGNALED);
    }
    for (unsigned int i = 0; i < 4; i++) {
        fake_sent(set.qp, set.cq, i, IBV_WC_SUCCESS);
        fake_sent(other, set.cq, i, IBV_WC_SUCCESS);
    }
    ck_assert_int_eq(set.host.privileged.qp_destroy(set.qp), RI_OK);
    set.qp = NULL;
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_uint_eq(next().cookie, 10 + i);
    nothing();
    ck_assert_int_eq(set.host.privileged.cq_destroy(set.cq), RI_ERR_BUSY);
    ck_assert_int_eq(set.host.privileged.qp_destroy(other), RI_OK);
}
END_TEST

/* ---- wake-ups ---- */

START_TEST(arm_and_fire)
{
    send_to(set.qp, 1, RI_WR_SIGNALED);
    send_to(set.qp, 2, RI_WR_SIGNALED);
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NEXT, 0), RI_OK);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.cq_record), 0); /* what is there already does not fire */
    fake_sent(set.qp, set.cq, 1, IBV_WC_SUCCESS);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.cq_record), 1);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_SOLICITED, 0), RI_OK);
    ck_assert_int_eq(fake_cq(set.cq)->armed, 1);
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NTH, 3), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(set.host.user.arm(set.cq, (enum ri_arm)9, 0), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* A failed request is noticed although no thread polls or has armed; earlier completions stay in
 * the CQ. */
START_TEST(error_without_a_poll)
{
    cq_watch_errors(container_of(fake_below(set.cq), struct cq, base)); /* as a connection does */
    send_to(set.qp, 1, RI_WR_SIGNALED);
    send_to(set.qp, 2, RI_WR_SIGNALED);
    fake_sent(set.qp, set.cq, 0, IBV_WC_SUCCESS);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.qp_record), 0);
    fake_sent(set.qp, set.cq, 1, IBV_WC_REM_OP_ERR);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.qp_record), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LOCAL_ERROR);
    ck_assert_uint_eq(told(&set.cq_record), 0);
    ck_assert_int_eq(next().status, RI_WC_SUCCESS);
    ck_assert_int_eq(next().status, RI_WC_REMOTE_OPERATION);
    nothing();
    ck_assert_uint_eq(told(&set.qp_record), 1);
    ck_assert_int_eq(fake_cq(set.cq)->armed, 1); /* the watch goes on */
}
END_TEST

/* Requests flushed without the device fire too. */
START_TEST(soft_requests_fire)
{
    to_error();
    ck_assert_int_eq(set.host.user.arm(set.cq, RI_ARM_NEXT, 0), RI_OK);
    send_to(set.qp, 1, 0);
    ck_assert_uint_eq(told(&set.cq_record), 1);
    send_to(set.qp, 2, 0);
    ck_assert_uint_eq(told(&set.cq_record), 1); /* once */
    flushed(1, RI_WC_SEND);
    flushed(2, RI_WC_SEND);
}
END_TEST

/* ---- shared receive queues ---- */

/* ---- memory ---- */

/* ---- asynchronous events ---- */

START_TEST(events_of_a_qp)
{
    static const struct {
        enum ibv_event_type event;
        enum ri_event_type told;
    } cases[] = { { IBV_EVENT_QP_FATAL, RI_EVENT_QP_FATAL },
                  { IBV_EVENT_QP_REQ_ERR, RI_EVENT_REMOTE_OPERATION },
                  { IBV_EVENT_QP_ACCESS_ERR, RI_EVENT_WRITE_ACCESS } };

    fake_async(cases[_i].event, &fake_qp(set.qp)->ibv);
    fake_async(cases[_i].event, &fake_qp(set.qp)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.qp_record), 1); /* an end is told once */
    ck_assert_int_eq(set.qp_record.type[0], cases[_i].told);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_ERR);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
}
END_TEST

START_TEST(events_of_others)
{
    fake_async(IBV_EVENT_CQ_ERR, &fake_cq(set.cq)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(atomic_load(&set.cq_record.cq_errors), 1);
    fake_async(IBV_EVENT_PORT_ERR, (void *)1);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_PORT_DOWN);
    ck_assert_uint_eq(fake_rnic_event.port, 0);
    fake_async(IBV_EVENT_PORT_ACTIVE, (void *)1);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 2);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_PORT_UP);
    fake_async(IBV_EVENT_PKEY_CHANGE, (void *)1);
    fake_async(IBV_EVENT_GID_CHANGE, (void *)1);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 3);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_GID_CHANGE);
    ck_assert_uint_eq(fake_rnic_event.port, 0);
    fake_async(IBV_EVENT_DEVICE_FATAL, NULL);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 4);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_RNIC_FATAL);
}
END_TEST

/* A device is removed: reported once, and its descriptors, which stay readable, are released. */
START_TEST(device_removed)
{
    fake_lose_device();
    for (int i = 0; i < 3; i++)
        fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_DEVICE_GONE);
    ck_assert_ptr_null(
        container_of(fake_below(set.host.rnic), struct rnic, base)->lane.completions);
    ck_assert_ptr_null(container_of(fake_below(set.host.rnic), struct rnic, base)->lane.events);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_verbs");
    TCase *work = tc_case(suite, "work", work_setup, work_teardown),
          *ends = tc_case(suite, "ends", work_setup, work_teardown);
    TCase *events = tc_case(suite, "events", work_setup, work_teardown);

    tc_add_rows(work, messages_are_translated, messages);
    tcase_add_loop_test(work, short_way, 0, 4);
    tc_add_tests(work, atomics_are_translated, inline_beyond_what_is_stated);
    tcase_add_loop_test(work, inline_where_it_pays, 0, 6);
    tc_add_tests(work, empty_elements_are_left_out, refused_requests, slots,
                 queued_though_the_kernel_was_not_told, receives, many_at_once, arm_and_fire);
    tc_add_tests(ends, error_ends_the_connection_once, error_without_a_poll, posts_after_the_end,
                 flushed_requests_keep_their_places, soft_requests_fire, sweep, reset,
                 destroyed_qp_is_silent, what_has_room_only_is_refused);
    tcase_add_loop_test(events, events_of_a_qp, 0, 3);
    tc_add_tests(events, events_of_others, device_removed);
    return tc_main(suite);
}
