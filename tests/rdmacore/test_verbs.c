/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs of the providers over rdma-core, against a device that does what the test says. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fake.h"

#include "tc.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static struct fake_set set;
static char data[256];

static void setup(void)
{
    fake_open(&set, true);
}

static void teardown(void)
{
    fake_close(&set);
}

static struct ri_sge segment(uint32_t octets)
{
    return (struct ri_sge){ .addr = (uintptr_t)data, .length = octets, .lkey = 0x55 };
}

static enum ri_status post(struct ri_qp *qp, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;
    enum ri_status status = set.host.user.post_send(qp, wr, &bad);

    ck_assert(status == RI_OK || bad == wr);
    return status;
}

static void send_to(struct ri_qp *qp, uint64_t cookie, uint16_t flags)
{
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1, .flags = flags };

    ck_assert_int_eq(post(qp, &wr), RI_OK);
}

static enum ri_status receive(struct ri_qp *qp, uint64_t cookie, uint32_t flags)
{
    struct ri_sge sge = segment(200);
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1, .flags = flags };
    struct ri_recv_wr *bad;

    return set.host.user.post_recv(qp, &wr, &bad);
}

static struct ri_wc next(void)
{
    struct ri_wc wc;

    memset(&wc, 0xee, sizeof(wc));
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 1);
    return wc;
}

static void nothing(void)
{
    struct ri_wc wc;

    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 0);
}

static void flushed(uint64_t cookie, uint8_t opcode)
{
    struct ri_wc wc = next();

    ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.byte_len, 0);
}

/* ---- what reaches the device, and what its completion says ---- */

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

/* The short way, which takes plain requests only, and the long one say the same. */
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
    wr.next = &two; /* a list goes the long way */
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 3);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(sent[0].opcode, sent[i].opcode);
        ck_assert_uint_eq(sent[0].send_flags, sent[i].send_flags);
        ck_assert_int_eq(sent[0].num_sge, sent[i].num_sge);
        if (opcodes[_i] == RI_WR_SEND_INVALIDATE)
            ck_assert_uint_eq(sent[i].invalidate_rkey, sent[0].invalidate_rkey);
        if (opcodes[_i] >= RI_WR_RDMA_WRITE)
            ck_assert_mem_eq(&sent[0].wr.rdma, &sent[i].wr.rdma,
                             sizeof(sent[0].wr.rdma.remote_addr));
    }
    ck_assert(opcodes[_i] != RI_WR_SEND_INVALIDATE || sent[0].invalidate_rkey == 0x99);
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

/* Short Sends and Writes travel in the request, by themselves; Reads cannot. */
START_TEST(inline_where_it_pays)
{
    static const struct {
        uint16_t opcode;
        uint32_t octets;
        bool inlined;
    } cases[] = { { RI_WR_SEND, 64, true },       { RI_WR_SEND, 65, false },
                  { RI_WR_SEND, 0, false },       { RI_WR_RDMA_WRITE, 1, true },
                  { RI_WR_RDMA_READ, 64, false }, { RI_WR_SEND_INVALIDATE, 64, true } };
    struct ri_sge sge = segment(cases[_i].octets);
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = cases[_i].opcode };

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_int_eq(!!(fake_qp(set.qp)->sent[0].send_flags & IBV_SEND_INLINE), cases[_i].inlined);
    sge.length = 65;
    wr.flags = RI_WR_INLINE;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_LIMIT);
}
END_TEST

/* Their lkeys are not to be looked at. */
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

/* A signalled completion frees the unsignalled ones before it; what the device refuses takes no slot. */
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

static unsigned int told(const struct fake_record *record)
{
    return atomic_load(&record->count);
}

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

/* What is posted after the end never reaches the device, and completes behind what it has. */
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

/* A device that forgets its requests is helped; should it remember them after all, nobody hears of it. */
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

/* The way back flushes first, what the device has told of as what it was. */
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

/* Of a QP that was destroyed nothing is polled; the others' completions stay, in order. */
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

/* A request that failed is noticed although nobody polls or has armed; what was done stays to be polled. */
START_TEST(error_without_a_poll)
{
    cq_watch_errors(container_of(set.cq, struct cq, base)); /* as a connection does */
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

/* What is flushed without the device fires too. */
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

START_TEST(srq_in_any_order)
{
    struct ri_srq_attr attr = {
        .size = sizeof(attr), .max_wr = 4, .max_sge = 1, .context = &set.srq_record
    };
    struct fake_record record = { .count = 0 };
    struct ri_sge sge = segment(50);
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ibv_wc raw = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = 9 };
    struct ri_srq *srq;
    struct ri_qp *qp;
    struct ri_wc wc;

    ck_assert_int_eq(set.host.privileged.srq_create(set.pd, &attr, &srq), RI_OK);
    qp = fake_make_qp(&set, srq, &record);
    fake_connect_qp(qp);
    for (wr.cookie = 0; wr.cookie < 4; wr.cookie++)
        ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    ck_assert_int_eq(receive(qp, 1, 0), RI_ERR_INVALID_STATE);
    raw.wr_id = fake_srq(srq)->received[2];
    raw.qp_num = fake_qp(qp)->ibv.qp_num;
    fake_complete(set.cq, &raw);
    wc = next();
    ck_assert_ptr_eq(wc.context, &record);
    ck_assert_uint_eq(wc.cookie, 2);
    ck_assert_uint_eq(wc.byte_len, 9);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK); /* its slot is free */
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    /* A completion of a QP that is gone gives its slot back and is not told. */
    raw.wr_id = fake_srq(srq)->received[0];
    fake_complete(set.cq, &raw);
    ck_assert_int_eq(set.host.privileged.srq_destroy(srq), RI_ERR_BUSY);
    ck_assert_int_eq(set.host.privileged.qp_destroy(qp), RI_OK);
    nothing();
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    /* The limit's event. */
    attr.low_watermark = 3;
    ck_assert_int_eq(set.host.privileged.srq_modify(srq, 2, &attr), RI_OK);
    ck_assert_uint_eq(fake_srq(srq)->limit, 3);
    ck_assert_int_eq(set.host.privileged.srq_modify(srq, 1, &attr), RI_ERR_NOT_SUPPORTED);
    attr.low_watermark = 0;
    ck_assert_int_eq(set.host.privileged.srq_query(srq, &attr), RI_OK);
    ck_assert_uint_eq(attr.low_watermark, 3);
    fake_async(IBV_EVENT_SRQ_LIMIT_REACHED, &fake_srq(srq)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.srq_record), 1);
    ck_assert_int_eq(set.srq_record.type[0], RI_EVENT_SRQ_LOW_WATERMARK);
    ck_assert_int_eq(set.host.privileged.srq_query(srq, &attr), RI_OK);
    ck_assert_uint_eq(attr.low_watermark, 0); /* once */
    ck_assert_int_eq(set.host.privileged.srq_destroy(srq), RI_OK);
}
END_TEST

/* ---- memory ---- */

START_TEST(regions)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE,
                               .addr = data,
                               .length = sizeof(data) };
    struct ri_mr_keys keys, again;
    struct ri_mr *mr;

    ck_assert_int_eq(set.host.privileged.mr_register(set.pd, &attr, &keys, &mr), RI_OK);
    ck_assert_uint_eq(keys.rkey, 0);
    ck_assert_uint_ne(keys.lkey, 0);
    ck_assert_int_eq(set.host.privileged.pd_destroy(set.pd), RI_ERR_BUSY);
    attr.access |= RI_ACCESS_REMOTE_READ;
    ck_assert_int_eq(set.host.privileged.mr_reregister(mr, NULL, &attr, &again), RI_OK);
    ck_assert_uint_ne(again.lkey, keys.lkey);
    ck_assert_uint_ne(again.rkey, 0);
    attr.access = RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_WRITE;
    ck_assert_int_eq(set.host.privileged.mr_reregister(mr, NULL, &attr, &again),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(set.host.privileged.mr_deregister(mr), RI_OK);
    ck_assert_int_eq(rdmacore_access(RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                         RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE |
                                         RI_ACCESS_REMOTE_ATOMIC | RI_ACCESS_BIND,
                                     true),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
}
END_TEST

/* Bound, unbound, bound again with the keys that the consumer counts: loop 0 narrow, 1 wide. */
START_TEST(windows)
{
    bool narrow = _i == 0;
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                         RI_ACCESS_BIND,
                               .addr = data,
                               .length = sizeof(data) };
    struct ri_send_wr wr = { .opcode = RI_WR_BIND_WINDOW, .flags = RI_WR_SIGNALED };
    struct fake_qp *qp = fake_qp(set.qp);
    struct ri_mr_keys keys;
    uint32_t stag, bound;
    struct ri_mr *mr;
    struct ri_mw *mw;
    struct ri_wc wc;

    ck_assert_int_eq(set.host.privileged.mr_register(set.pd, &attr, &keys, &mr), RI_OK);
    ck_assert_int_eq(set.host.privileged.mw_allocate(set.pd, narrow, NULL, &stag, &mw), RI_OK);
    for (uint32_t round = 1; round < 4; round++) {
        uint32_t key = stag +
                       (narrow ? round : 2 * round - 1); /* unbinding a wide one takes a key */

        bound = (stag & ~0xffu) | (key & 0xff);
        wr.opcode = RI_WR_BIND_WINDOW;
        wr.bind.mw = mw;
        wr.bind.mr = mr;
        wr.bind.addr = (uintptr_t)data + 8;
        wr.bind.length = 16;
        wr.bind.access = RI_ACCESS_REMOTE_READ;
        wr.bind.new_key = key;
        ck_assert_int_eq(post(set.qp, &wr), RI_OK);
        ck_assert_uint_eq(container_of(mw, struct mw, base)->ibv->rkey, bound);
        if (narrow) {
            const struct ibv_send_wr *sent = &qp->sent[qp->sends - 1];

            ck_assert_int_eq(sent->opcode, IBV_WR_BIND_MW);
            ck_assert_uint_eq(sent->bind_mw.rkey, bound);
            ck_assert_uint_eq(sent->bind_mw.bind_info.length, 16);
            ck_assert_uint_eq(sent->bind_mw.bind_info.mw_access_flags, IBV_ACCESS_REMOTE_READ);
            fake_sent(set.qp, set.cq, qp->sends - 1, IBV_WC_SUCCESS);
        } else {
            struct ibv_wc raw = { .wr_id = qp->bind.wr_id };

            ck_assert_uint_eq(qp->bind.bind_info.length, 16);
            fake_complete(set.cq, &raw);
        }
        wc = next();
        ck_assert_uint_eq(wc.opcode, RI_WC_BIND_WINDOW);
        ck_assert_uint_eq(wc.invalidated_stag, bound);
        wr.opcode = RI_WR_LOCAL_INVALIDATE;
        wr.invalidate_stag = bound;
        ck_assert_int_eq(post(set.qp, &wr), RI_OK);
        if (narrow) {
            ck_assert_int_eq(qp->sent[qp->sends - 1].opcode, IBV_WR_LOCAL_INV);
            ck_assert_uint_eq(qp->sent[qp->sends - 1].invalidate_rkey, bound);
            fake_sent(set.qp, set.cq, qp->sends - 1, IBV_WC_SUCCESS);
        } else {
            struct ibv_wc raw = { .wr_id = qp->bind.wr_id };

            ck_assert_uint_eq(qp->bind.bind_info.length, 0);
            ck_assert_uint_ne(container_of(mw, struct mw, base)->ibv->rkey, bound);
            fake_complete(set.cq, &raw);
        }
        wc = next();
        ck_assert_uint_eq(wc.opcode, RI_WC_LOCAL_INVALIDATE);
        ck_assert_uint_eq(wc.invalidated_stag, bound);
    }
    if (narrow) { /* bound to nothing: the device hears of no STag of ours */
        ck_assert_int_eq(post(set.qp, &wr), RI_OK);
        ck_assert_uint_ne(qp->sent[qp->sends - 1].invalidate_rkey, bound);
        fake_sent(set.qp, set.cq, qp->sends - 1, IBV_WC_MW_BIND_ERR);
        wc = next();
        ck_assert_int_eq(wc.status, RI_WC_BIND);
        ck_assert_uint_eq(wc.invalidated_stag, bound);
    }
    ck_assert_int_eq(set.host.privileged.mw_free(mw), RI_OK);
    ck_assert_int_eq(set.host.privileged.mr_deregister(mr), RI_OK);
}
END_TEST

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
    fake_async(IBV_EVENT_GID_CHANGE, NULL);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 2);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_PORT_UP);
    fake_async(IBV_EVENT_DEVICE_FATAL, NULL);
    fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 3);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_RNIC_FATAL);
}
END_TEST

/* A device that is taken away: told once, and its descriptors, which stay readable, are let go. */
START_TEST(device_removed)
{
    fake_lose_device();
    for (int i = 0; i < 3; i++)
        fake_run(&set);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_RNIC_FATAL);
    ck_assert_ptr_null(container_of(set.host.rnic, struct rnic, base)->lane.completions);
    ck_assert_ptr_null(container_of(set.host.rnic, struct rnic, base)->lane.events);
}
END_TEST

#define add_cases(tc, test, array) \
    tcase_add_loop_test(tc, test, 0, (int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("rdmacore_verbs");
    TCase *work = tcase_create("work"), *ends = tcase_create("ends");
    TCase *memory = tcase_create("memory"), *events = tcase_create("events");

    tcase_add_checked_fixture(work, setup, teardown);
    add_cases(work, messages_are_translated, messages);
    tcase_add_loop_test(work, short_way, 0, 4);
    tcase_add_test(work, atomics_are_translated);
    tcase_add_loop_test(work, inline_where_it_pays, 0, 6);
    tcase_add_test(work, empty_elements_are_left_out);
    tcase_add_test(work, refused_requests);
    tcase_add_test(work, slots);
    tcase_add_test(work, receives);
    tcase_add_test(work, many_at_once);
    tcase_add_test(work, arm_and_fire);
    tcase_add_test(work, srq_in_any_order);
    suite_add_tcase(suite, work);
    tcase_add_checked_fixture(ends, setup, teardown);
    tcase_add_test(ends, error_ends_the_connection_once);
    tcase_add_test(ends, error_without_a_poll);
    tcase_add_test(ends, posts_after_the_end);
    tcase_add_test(ends, soft_requests_fire);
    tcase_add_test(ends, sweep);
    tcase_add_test(ends, reset);
    tcase_add_test(ends, destroyed_qp_is_silent);
    suite_add_tcase(suite, ends);
    tcase_add_checked_fixture(memory, setup, teardown);
    tcase_add_test(memory, regions);
    tcase_add_loop_test(memory, windows, 0, 2);
    suite_add_tcase(suite, memory);
    tcase_add_checked_fixture(events, setup, teardown);
    tcase_add_loop_test(events, events_of_a_qp, 0, 3);
    tcase_add_test(events, events_of_others);
    tcase_add_test(events, device_removed);
    suite_add_tcase(suite, events);
    return tc_main(suite);
}
