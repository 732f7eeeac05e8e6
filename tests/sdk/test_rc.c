/* SPDX-License-Identifier: BSD-3-Clause */
/* librnicpi: queues and connections in software. Two QPs of one RNIC in memory, whose segments go
 * from one to the other by way of a buffer. */
#include "fake_host.h"
#include "tc.h"

#include <pthread.h>

#include "sdk/rnicpi_rc.h"

#define REMOTE \
    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)

/* ---- two QPs of one RNIC ---- */

static const struct ri_rnic_attr attributes = {
    .features = RI_FEATURE_DMA, /* the host looks at memory */
    .max_mr_length = 1u << 20,
    .max_message = 1u << 20,
    .max_send = 1u << 20,
    .max_pd = 1,
    .max_cq = 2,
    .max_qp = 2,
    .max_mr = 4,
    .max_cqe = 64,
    .max_send_wr = 8,
    .max_recv_wr = 8,
    .max_send_sge = 2,
    .max_recv_sge = 2,
    .max_read_sge = 1,
    .max_write_sge = 2,
    .max_ird = 4,
    .max_ord = 4,
};

#define SEGMENTS 6 /* room of a wire */

/* What one side has sent and the other has not taken. */
struct wire {
    struct ri_segment segment[SEGMENTS];
    uint8_t octets[SEGMENTS][RI_RC_PAYLOAD];
    unsigned int count;
};

struct side {
    struct ri_rc rc;
    struct wire out;
    struct fake_record record;
};

static struct fake_host fake;
static struct ri_mem_rnic rnic;
static struct ri_pd *pd;
static struct ri_cq *cq;
static struct side a, b;
static struct ri_mr *mr;
static struct ri_mr_keys keys;
static uint8_t memory[1u << 18];

static uint8_t *put(struct ri_rc *rc, const struct ri_segment *segment)
{
    struct wire *out = &((struct side *)rc)->out;

    if (out->count == SEGMENTS)
        return NULL;
    out->segment[out->count] = *segment;
    return out->octets[out->count++];
}

static void end(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained)
{
    ri_mem_qp_end(&rc->qp, type, code, explained);
}

static void serve(struct ri_mem_qp *qp)
{
    while (qp->state == RI_QPS_RTS && ri_rc_send((struct ri_rc *)qp))
        ;
}

/* Moves segments until both are quiet, and tells what there is to tell. */
static void settle(void)
{
    bool moved;

    pthread_mutex_lock(&rnic.lock);
    do {
        moved = false;
        for (int i = 0; i < 2; i++) {
            struct side *from = i ? &b : &a, *to = i ? &a : &b;
            unsigned int count = from->out.count;

            for (unsigned int k = 0; k < count; k++)
                if (to->rc.qp.state == RI_QPS_RTS)
                    ri_rc_take(&to->rc, &from->out.segment[k], from->out.octets[k]);
            from->out.count = 0;
            serve(&from->rc.qp);
            serve(&to->rc.qp);
            moved |= count || to->out.count || from->out.count;
        }
    } while (moved);
    ri_upcall_defer(&rnic.upcalls, &a.rc.qp.deferred);
    ri_upcall_defer(&rnic.upcalls, &b.rc.qp.deferred);
    ri_upcalls_run(&rnic.upcalls);
    pthread_mutex_unlock(&rnic.lock);
}

static void open_side(struct side *side, uint32_t ird, uint32_t ord)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = &side->record,
                               .send_cq = cq,
                               .recv_cq = cq,
                               .max_send_wr = 8,
                               .max_recv_wr = 8,
                               .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };

    memset(side, 0, sizeof(*side));
    side->rc.put = put;
    side->rc.end = end;
    ck_assert_int_eq(ri_mem_qp_open(&side->rc.qp, (struct ri_mem_pd *)pd, &attr), RI_OK);
    ck_assert_uint_eq(attr.max_send_sge, attributes.max_send_sge);
    side->rc.qp.ird = ird;
    side->rc.qp.ord = ord;
    side->rc.qp.state = RI_QPS_RTS;
}

static void open_both(uint32_t ird, uint32_t ord)
{
    static const struct ri_user_ops user = { .size = sizeof(user) };
    static const struct ri_privileged_ops privileged = { .size = sizeof(privileged) };
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 64 };
    const struct ri_mr_attr region = {
        .size = sizeof(region), .access = REMOTE, .addr = memory, .length = sizeof(memory)
    };
    struct ri_lane *lane;

    fake_host_init(&fake, NULL, false);
    const struct ri_open open = {
        .size = sizeof(open), .host = &fake.host, .privileged = &privileged, .user = &user
    };

    memset(&rnic, 0, sizeof(rnic));
    ck_assert_int_eq(ri_mem_rnic_open(&rnic, &open, &attributes, serve), RI_OK);
    ck_assert_int_eq(ri_mem_lane_open(&rnic.base, 1, NULL, &lane), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(ri_mem_lane_open(&rnic.base, 0, &fake.events, &lane), RI_OK);
    ck_assert_int_eq(ri_mem_pd_create(&rnic.base, NULL, &pd), RI_OK);
    ck_assert_int_eq(ri_mem_cq_create(&rnic.base, &attr, &cq), RI_OK);
    ck_assert_int_eq(ri_mem_mr_register(pd, &region, &keys, &mr), RI_OK);
    open_side(&a, ird, ord);
    open_side(&b, ird, ord);
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (uint8_t)(i * 7 + i / 251);
}

static void close_both(void)
{
    ck_assert_int_eq(ri_mem_rnic_close(&rnic), RI_ERR_BUSY);
    ck_assert_int_eq(ri_mem_cq_destroy(cq), RI_ERR_BUSY);
    ck_assert_int_eq(ri_mem_pd_destroy(pd), RI_ERR_BUSY);
    ri_mem_qp_close(&a.rc.qp);
    ri_mem_qp_close(&b.rc.qp);
    ck_assert_int_eq(ri_mem_pd_destroy(pd), RI_ERR_BUSY);
    ck_assert_int_eq(ri_mem_mr_deregister(mr), RI_OK);
    ck_assert_int_eq(ri_mem_pd_destroy(pd), RI_OK);
    ck_assert_int_eq(ri_mem_cq_destroy(cq), RI_OK);
    ck_assert_int_eq(ri_mem_rnic_close(&rnic), RI_OK);
}

static struct ri_sge sge_of(uint32_t offset, uint32_t length)
{
    return (struct ri_sge){ (uintptr_t)memory + offset, length, keys.lkey };
}

static enum ri_status post(struct side *side, uint16_t opcode, uint64_t cookie, uint32_t from,
                           uint32_t to, uint32_t length, uint16_t flags)
{
    struct ri_sge sge = sge_of(from, length);
    struct ri_send_wr *bad, wr = { .cookie = cookie,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .flags = flags,
                                   .rdma = { (uintptr_t)memory + to, keys.rkey, 0 } };

    return ri_mem_post_send(&side->rc.qp.base, &wr, &bad);
}

static enum ri_status post_receive(struct side *side, uint64_t cookie, uint32_t to, uint32_t length)
{
    struct ri_sge sges[2] = { sge_of(to, length / 2),
                              sge_of(to + length / 2, length - length / 2) };
    struct ri_recv_wr *bad, wr = { .cookie = cookie, .sg_list = sges, .num_sge = 2 };

    return ri_mem_post_recv(&side->rc.qp.base, &wr, &bad);
}

static void expect(const struct side *side, uint64_t cookie, enum ri_wc_status status,
                   uint32_t byte_len)
{
    struct ri_wc wc;

    ck_assert_uint_eq(ri_mem_cq_poll(cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_ptr_eq(wc.context, &side->record);
    ck_assert_uint_eq(wc.status, status);
    ck_assert_uint_eq(wc.byte_len, byte_len);
}

static void expect_nothing(void)
{
    struct ri_wc wc;

    ck_assert_uint_eq(ri_mem_cq_poll(cq, 1, &wc), 0);
}

static void expect_event(struct side *side, enum ri_event_type type, bool explained)
{
    ck_assert_uint_eq(atomic_load(&side->record.count), 1);
    ck_assert_int_eq(side->record.type[0], type);
    ck_assert_int_eq(side->record.explained[0], explained);
    ck_assert_int_eq(side->rc.qp.state, RI_QPS_ERROR);
}

START_TEST(messages_are_whole_and_in_order)
{
    const uint32_t length = 3 * RI_RC_PAYLOAD + 5;

    open_both(1, 1);
    ck_assert_int_eq(post_receive(&b, 10, 1u << 17, 1u << 16), RI_OK);
    ck_assert_int_eq(post(&a, RI_WR_RDMA_READ, 1, 200000, 0, 20000, RI_WR_SIGNALED), RI_OK);
    ck_assert_int_eq(post(&a, RI_WR_SEND, 2, 1, 0, length, RI_WR_SIGNALED), RI_OK);
    ck_assert_int_eq(post(&a, RI_WR_RDMA_WRITE, 3, 0, 230000, 9, 0), RI_OK);
    ck_assert_int_eq(post(&a, RI_WR_RDMA_WRITE, 4, 9, 230009, 9, RI_WR_SIGNALED), RI_OK);
    settle();
    expect(&a, 1, RI_WC_SUCCESS, 20000);
    expect(&a, 2, RI_WC_SUCCESS, length);
    expect(&a, 4, RI_WC_SUCCESS, 9);
    expect(&b, 10, RI_WC_SUCCESS, length);
    expect_nothing();
    ck_assert_mem_eq(memory + (1u << 17), memory + 1, length);
    ck_assert_mem_eq(memory + 200000, memory, 20000);
    ck_assert_mem_eq(memory + 230000, memory, 18);
    ck_assert_uint_eq(ri_ring_count(&a.rc.qp.send.ring), 0);
    close_both();
}
END_TEST

/* ORD 1: one Read at a time; ORD 0: none. IRD: the peer that sends more is told. */
START_TEST(depths_are_enforced)
{
    open_both(4, 1);
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(post(&a, RI_WR_RDMA_READ, i, 200000, 0, 8, RI_WR_SIGNALED), RI_OK);
    ck_assert_uint_eq(a.out.count, 1);
    ck_assert_uint_eq(a.rc.reads, 1);
    settle();
    for (uint64_t i = 0; i < 3; i++)
        expect(&a, i, RI_WC_SUCCESS, 8);
    close_both();

    open_both(4, 0);
    ck_assert_int_eq(post(&a, RI_WR_RDMA_READ, 1, 200000, 0, 8, 0), RI_OK);
    settle();
    expect(&a, 1, RI_WC_LOCAL_QP, 0);
    expect_event(&a, RI_EVENT_LOCAL_ERROR, true);
    close_both();

    open_both(1, 2);
    for (uint64_t i = 0; i < 2; i++)
        ck_assert_int_eq(post(&a, RI_WR_RDMA_READ, i, 200000, 0, 8, RI_WR_SIGNALED), RI_OK);
    settle();
    expect_event(&b, RI_EVENT_REMOTE_OPERATION, false);
    expect_event(&a, RI_EVENT_TERMINATE_RECEIVED, false);
    expect(&a, 0, RI_WC_FLUSHED, 0);
    expect(&a, 1, RI_WC_FLUSHED, 0);
    close_both();
}
END_TEST

/* What one side does wrong, what the sender's completion says, and both events. */
static const struct {
    const char *what;
    uint16_t opcode;
    bool bad_key, no_receive, short_receive;
    enum ri_wc_status status;
    enum ri_event_type here, there;
} errors[] = {
    { "no receive", RI_WR_SEND, false, true, false, RI_WC_SUCCESS, RI_EVENT_TERMINATE_RECEIVED,
      RI_EVENT_NO_RECEIVE },
    { "short receive", RI_WR_SEND, false, false, true, RI_WC_SUCCESS, RI_EVENT_TERMINATE_RECEIVED,
      RI_EVENT_RECV_LENGTH },
    { "rkey of a Write", RI_WR_RDMA_WRITE, true, false, false, RI_WC_SUCCESS,
      RI_EVENT_TERMINATE_RECEIVED, RI_EVENT_WRITE_ACCESS },
    { "rkey of a Read", RI_WR_RDMA_READ, true, false, false, RI_WC_REMOTE_ACCESS,
      RI_EVENT_TERMINATE_RECEIVED, RI_EVENT_READ_ACCESS },
};

START_TEST(an_error_ends_both_once_and_flushes_in_order)
{
    struct ri_wc wc;
    int found;

    open_both(1, 1);
    if (!errors[_i].no_receive)
        ck_assert_int_eq(post_receive(&b, 10, 1000, errors[_i].short_receive ? 4 : 100), RI_OK);
    ck_assert_int_eq(post_receive(&a, 20, 2000, 100), RI_OK);
    ck_assert_int_eq(post_receive(&a, 21, 2000, 100), RI_OK);
    if (errors[_i].bad_key)
        keys.rkey ^= 1;
    ck_assert_int_eq(post(&a, errors[_i].opcode, 1, 0, 5000, 8, RI_WR_SIGNALED), RI_OK);
    settle();
    expect_event(&a, errors[_i].here, errors[_i].status != RI_WC_SUCCESS);
    expect_event(&b, errors[_i].there, errors[_i].short_receive);
    for (found = 0; ri_mem_cq_poll(cq, 1, &wc); found++)
        if (wc.cookie == 1)
            ck_assert_uint_eq(wc.status, errors[_i].status);
        else if (wc.cookie == 10)
            ck_assert_uint_eq(wc.status,
                              errors[_i].short_receive ? RI_WC_LOCAL_LENGTH : RI_WC_FLUSHED);
        else
            ck_assert_uint_eq(wc.status, RI_WC_FLUSHED);
    /* The request, both receives of a, and b's. */
    ck_assert_int_eq(found, errors[_i].no_receive ? 3 : 4);
    /* Posts to ERROR are flushed at once; from IDLE on slots are free again. */
    for (uint64_t i = 0; i < 8; i++)
        ck_assert_int_eq(post(&a, RI_WR_SEND, i, 0, 0, 8, 0), RI_OK);
    ck_assert_int_eq(post(&a, RI_WR_SEND, 8, 0, 0, 8, 0), RI_ERR_QUEUE_FULL);
    for (uint64_t i = 0; i < 8; i++)
        expect(&a, i, RI_WC_FLUSHED, 0);
    expect_nothing();
    pthread_mutex_lock(&rnic.lock);
    ck_assert_int_eq(ri_mem_qp_idle(&a.rc.qp), RI_OK);
    ri_rc_reset(&a.rc);
    pthread_mutex_unlock(&rnic.lock);
    ck_assert_int_eq(post(&a, RI_WR_SEND, 9, 0, 0, 8, 0), RI_ERR_INVALID_STATE);
    close_both();
}
END_TEST

/* An answer has as many octets as were asked for: row 0 has fewer, row 1 more, row 2 as many. */
START_TEST(answers_of_another_length)
{
    static const uint8_t octets[200];
    struct ri_segment segment = { .type = RI_SEGMENT_ANSWER, .flags = RI_SEGMENT_LAST };

    open_both(2, 2);
    ck_assert_int_eq(post(&a, RI_WR_RDMA_READ, 1, 2000, 0, 100, RI_WR_SIGNALED), RI_OK);
    pthread_mutex_lock(&rnic.lock);
    a.out.count = 0; /* the peer never hears of it */
    segment.length = (uint32_t[]){ 99, 101, 100 }[_i];
    ri_rc_take(&a.rc, &segment, octets);
    pthread_mutex_unlock(&rnic.lock);
    settle();
    if (_i == 2) {
        expect(&a, 1, RI_WC_SUCCESS, 100);
    } else {
        expect(&a, 1, RI_WC_FLUSHED, 0);
        expect_event(&a, RI_EVENT_RESPONSE_ERROR, false);
    }
    expect_nothing();
    close_both();
}
END_TEST

/* Nothing in a head of the peer's is trusted. */
START_TEST(heads_of_any_content)
{
    static uint8_t octets[RI_RC_PAYLOAD];
    unsigned int rounds = (unsigned int)tc_count(500);
    struct tc_rng rng = tc_rng(1);

    for (unsigned int i = 0; i < rounds; i++) {
        open_both(2, 2);
        ck_assert_int_eq(post_receive(&b, 10, 1000, 100), RI_OK);
        ck_assert_int_eq(post(&b, RI_WR_RDMA_READ, 1, 2000, 0, 100, 0), RI_OK);
        pthread_mutex_lock(&rnic.lock);
        for (int k = 0; k < 8 && b.rc.qp.state == RI_QPS_RTS; k++) {
            struct ri_segment segment;

            tc_fill(&rng, &segment, sizeof(segment));
            segment.type = (uint8_t)tc_below(&rng, 8);
            segment.length = (uint32_t)tc_below(&rng, 200);
            if (tc_below(&rng, 8) == 0)
                segment.length += RI_RC_PAYLOAD + 1;
            if (tc_below(&rng, 2))
                segment.key = keys.rkey;
            if (tc_below(&rng, 2))
                segment.wanted &= 0xffff;
            segment.address = (uintptr_t)memory - 1000 + tc_below(&rng, sizeof(memory) + 2000);
            ri_rc_take(&b.rc, &segment, octets);
            b.out.count = 0;
            serve(&b.rc.qp);
        }
        a.out.count = b.out.count = 0;
        ri_mem_qp_end(&b.rc.qp, 0, 0, false);
        ri_upcalls_run(&rnic.upcalls);
        pthread_mutex_unlock(&rnic.lock);
        ck_assert_uint_le(atomic_load(&b.record.count), 1);
        close_both();
    }
}
END_TEST

/* As an interrupt's thread does: what it has completed is the lane's to report. */
static void *flush_elsewhere(void *arg)
{
    struct ri_mem_qp *qp = arg;

    pthread_mutex_lock(&rnic.lock);
    ri_queue_flush(&qp->receive);
    ri_mem_report_later(qp);
    pthread_mutex_unlock(&rnic.lock);
    return NULL;
}

START_TEST(what_is_reported_later_comes_with_the_next_run)
{
    pthread_t thread;
    struct ri_wc wc;

    open_both(1, 1);
    ck_assert_int_eq(post_receive(&a, 10, 0, 100), RI_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, flush_elsewhere, &a.rc.qp), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(ri_mem_cq_poll(cq, 1, &wc), 0);
    pthread_mutex_lock(&rnic.lock);
    ck_assert(ri_upcalls_pending(&rnic.upcalls));
    ri_upcalls_run(&rnic.upcalls);
    pthread_mutex_unlock(&rnic.lock);
    ck_assert_uint_eq(ri_mem_cq_poll(cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, 10);
    ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
    ck_assert_uint_eq(atomic_load(&a.record.count), 0);
    close_both();
}
END_TEST

START_TEST(limits_are_kept)
{
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_UD };
    struct side third = { .out.count = 0 };
    struct ri_sge sges[3] = { { 0, 0, 0 } };
    struct ri_recv_wr *bad, receive = { .sg_list = sges, .num_sge = 3 };
    struct ri_pd *other;

    open_both(1, 1);
    attr.send_cq = attr.recv_cq = cq;
    ck_assert_int_eq(ri_mem_qp_open(&third.rc.qp, (struct ri_mem_pd *)pd, &attr),
                     RI_ERR_NOT_SUPPORTED);
    attr.type = RI_QP_RC;
    attr.max_send_wr = 9;
    ck_assert_int_eq(ri_mem_qp_open(&third.rc.qp, (struct ri_mem_pd *)pd, &attr), RI_ERR_LIMIT);
    attr.max_send_wr = 1;
    ck_assert_int_eq(ri_mem_qp_open(&third.rc.qp, (struct ri_mem_pd *)pd, &attr),
                     RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(ri_mem_pd_create(&rnic.base, NULL, &other), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(ri_mem_post_recv(&a.rc.qp.base, &receive, &bad), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_eq(bad, &receive);
    ck_assert_int_eq(post(&a, RI_WR_SEND, 1, 0, 0, 8, RI_WR_INLINE), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(post(&a, RI_WR_SEND_INVALIDATE, 1, 0, 0, 8, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(post(&a, RI_WR_SEND, 1, 0, 0, (1u << 20) + 1, 0), RI_ERR_LIMIT);
    close_both();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librnicpi: connections in software");
    TCase *tc = tc_case(suite, "connections", NULL, NULL);

    tc_add_tests(tc, messages_are_whole_and_in_order, depths_are_enforced);
    tc_add_rows(tc, an_error_ends_both_once_and_flushes_in_order, errors);
    tcase_add_loop_test(tc, answers_of_another_length, 0, 3);
    tc_add_tests(tc, heads_of_any_content, what_is_reported_later_comes_with_the_next_run,
                 limits_are_kept);
    return tc_main(suite);
}
