/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes and Reads with more elements than the device takes: the requests that reach it, and that
 * each request of the consumer ends once, with its own status. */
#include "work.h"

#include "tc.h"

#include <endian.h>

#define MANY   SPLIT_ELEMENTS
#define DEPTH  4u
#define WRITES FAKE_ELEMENTS       /* elements of a Write of the device */
#define READS  (FAKE_ELEMENTS / 2) /* of a Read */

static struct ri_sge sges[MANY + 1];

static struct ri_qp_attr attributes(void)
{
    return (struct ri_qp_attr){
        .size = sizeof(struct ri_qp_attr),
        .type = RI_QP_RC,
        .context = &set.qp_record,
        .send_cq = set.cq,
        .recv_cq = set.cq,
        .lane = set.host.lane,
        .max_send_wr = DEPTH,
        .max_recv_wr = 1,
        .max_send_sge = 2,
        .max_recv_sge = 1,
        .max_read_sge = MANY,
        .max_write_sge = MANY,
        .ird = 4,
        .ord = 4,
    };
}

/* The set's QP is one for requests of many elements, each of other memory. */
static void setup(void)
{
    struct ri_qp_attr attr;

    work_setup();
    attr = attributes();
    ck_assert_int_eq(set.host.privileged.qp_destroy(set.qp), RI_OK);
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &set.qp), RI_OK);
    ck_assert_uint_eq(attr.max_write_sge, MANY);
    ck_assert_uint_eq(attr.max_read_sge, MANY);
    fake_connect_qp(set.qp);
    for (uint32_t i = 0; i <= MANY; i++)
        sges[i] =
            (struct ri_sge){ .addr = 0x10000 + 0x100 * i, .length = 10 + i, .lkey = 0x500 + i };
}

static struct ri_send_wr request(uint64_t cookie, uint16_t opcode, uint32_t elements)
{
    return (struct ri_send_wr){
        .cookie = cookie,
        .sg_list = sges,
        .num_sge = elements,
        .opcode = opcode,
        .flags = RI_WR_SIGNALED | RI_WR_NOTIFY,
        .immediate = 0x01020304,
        .rdma = { .remote_addr = 0x7000, .rkey = 0x66 },
    };
}

static void post_many(uint64_t cookie, uint16_t opcode)
{
    struct ri_send_wr wr = request(cookie, opcode, MANY);

    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
}

static const struct {
    uint16_t opcode;
    enum ibv_wr_opcode first, last;
    uint32_t limit;
    uint8_t completion;
} kinds[] = {
    { RI_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, WRITES, RI_WC_RDMA_WRITE },
    { RI_WR_RDMA_WRITE_IMMEDIATE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, WRITES,
      RI_WC_RDMA_WRITE },
    { RI_WR_RDMA_READ, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, READS, RI_WC_RDMA_READ },
};
#define KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

/* The n-th request of the device has the elements from *element on, for the peer's memory at *at;
 * advances both. */
static void check_part(unsigned int n, uint32_t *element, uint64_t *at)
{
    const struct fake_qp *qp = fake_qp(set.qp);

    ck_assert_uint_eq(qp->sent[n].wr.rdma.remote_addr, *at);
    ck_assert_uint_eq(qp->sent[n].wr.rdma.rkey, 0x66);
    for (int i = 0; i < qp->sent[n].num_sge; i++, ++*element) {
        ck_assert_uint_eq(qp->elements[n][i].addr, sges[*element].addr);
        ck_assert_uint_eq(qp->elements[n][i].length, sges[*element].length);
        ck_assert_uint_eq(qp->elements[n][i].lkey, sges[*element].lkey);
        *at += sges[*element].length;
    }
}

/* In order, with the fence on the first and all other flags on the last. One completion reports all
 * octets. */
START_TEST(parts_of_a_request)
{
    const struct fake_qp *qp = fake_qp(set.qp);
    struct ri_send_wr wr = request(7, kinds[_i].opcode, MANY);
    uint32_t parts = MANY / kinds[_i].limit, element = 0;
    uint64_t at = 0x7000;
    struct ri_wc wc;

    wr.flags |= RI_WR_SOLICITED | RI_WR_READ_FENCE;
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_uint_eq(qp->sends, parts);
    for (uint32_t i = 0; i < parts; i++) {
        bool last = i + 1 == parts;

        check_part(i, &element, &at);
        ck_assert_int_eq(qp->sent[i].opcode, last ? kinds[_i].last : kinds[_i].first);
        ck_assert_uint_eq(qp->sent[i].send_flags,
                          (i ? 0 : IBV_SEND_FENCE) |
                              (last ? IBV_SEND_SIGNALED | IBV_SEND_SOLICITED : 0));
    }
    ck_assert_uint_eq(element, MANY);
    ck_assert_uint_eq(be32toh(qp->sent[parts - 1].imm_data), 0x01020304);
    fake_sent(set.qp, set.cq, parts - 1, IBV_WC_SUCCESS);
    wc = next();
    ck_assert_uint_eq(wc.cookie, 7);
    ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, kinds[_i].completion);
    ck_assert_uint_eq(wc.byte_len, at - 0x7000);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    nothing();
}
END_TEST

/* One more than fit, and of a request without octets one part. */
START_TEST(only_elements_with_octets_count)
{
    const struct fake_qp *qp = fake_qp(set.qp);
    uint32_t limit = kinds[_i].limit;

    for (uint32_t i = 0; i < MANY; i++)
        sges[i].length = i % 5 == 4 && i / 5 <= limit ? i : 0;
    post_many(1, kinds[_i].opcode);
    ck_assert_uint_eq(qp->sends, 2);
    ck_assert_int_eq(qp->sent[0].num_sge, (int)limit);
    ck_assert_int_eq(qp->sent[1].num_sge, 1);
    ck_assert_uint_eq(qp->elements[1][0].length, limit * 5 + 4);
    for (uint32_t i = 0; i < MANY; i++)
        sges[i].length = 0;
    post_many(2, kinds[_i].opcode);
    ck_assert_uint_eq(qp->sends, 3);
    ck_assert_int_eq(qp->sent[2].num_sge, 0);
    ck_assert_uint_eq(qp->sent[2].send_flags, IBV_SEND_SIGNALED);
}
END_TEST

START_TEST(what_is_still_refused)
{
    struct ri_send_wr wr = request(1, RI_WR_RDMA_WRITE, MANY + 1);
    struct ri_qp_attr attr = attributes();
    struct ri_qp *qp;

    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    wr.opcode = RI_WR_RDMA_READ;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    wr = request(1, RI_WR_SEND, 3);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_INVALID_ARGUMENT);
    wr = request(1, RI_WR_RDMA_WRITE, WRITES + 1);
    wr.flags |= RI_WR_INLINE;
    sges[0].length = 100;
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_LIMIT);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 0);
    attr.max_send_sge = FAKE_ELEMENTS + 1; /* each message takes one Receive */
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &qp), RI_ERR_LIMIT);
    attr = attributes();
    attr.max_recv_sge = FAKE_ELEMENTS + 1;
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &qp), RI_ERR_LIMIT);
    attr = attributes();
    attr.max_write_sge = MANY + 1;
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &qp), RI_ERR_LIMIT);
}
END_TEST

/* The requested number of requests fits, even if each is split; the device refuses none. */
START_TEST(places)
{
    struct ri_send_wr wr = request(DEPTH, kinds[_i].opcode, MANY);
    uint32_t parts = MANY / kinds[_i].limit;
    struct ri_qp_info info = { .size = sizeof(info) };
    uint32_t rounds;

    ck_assert_int_eq(set.host.privileged.qp_query(set.qp, &info), RI_OK);
    ck_assert_uint_eq(info.max_send_wr, DEPTH * MANY / READS);
    rounds = info.max_send_wr / parts;
    for (uint32_t i = 0; i < rounds; i++)
        post_many(i, kinds[_i].opcode);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL);
    ck_assert_uint_eq(fake_qp(set.qp)->sends, info.max_send_wr);
    fake_sent(set.qp, set.cq, parts - 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().cookie, 0);
    send_to(set.qp, 99, 0);
    ck_assert_int_eq(post(set.qp, &wr), RI_ERR_QUEUE_FULL); /* a place is missing */
}
END_TEST

/* The CQ has a place for each request that the consumer asked for: the device's has one for each
 * part, for as long as there is the QP. A CQ of the greatest depth stays. */
START_TEST(places_of_completions)
{
    const uint32_t parts = DEPTH * MANY / READS - DEPTH;
    struct ri_cq_attr small = { .size = sizeof(small), .context = &set.cq_record, .depth = DEPTH };
    struct ri_cq_attr most = { .size = sizeof(most), .context = &set.cq_record, .depth = 1000 };
    struct ri_qp_attr attr = attributes();
    struct ri_cq *cq, *full;
    struct ri_qp *one, *two;
    uint32_t depth = 16;

    ck_assert_int_eq(set.host.privileged.cq_create(set.host.rnic, &small, &cq), RI_OK);
    ck_assert_int_eq(set.host.privileged.cq_create(set.host.rnic, &most, &full), RI_OK);
    ck_assert_int_eq(fake_cq(cq)->ibv.cqe, DEPTH);
    attr.send_cq = cq;
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &one), RI_OK);
    ck_assert_int_ge(fake_cq(cq)->ibv.cqe, (int)(DEPTH + parts));
    ck_assert_int_eq(set.host.privileged.cq_resize(cq, &depth), RI_OK);
    ck_assert_int_ge(fake_cq(cq)->ibv.cqe, (int)(16 + parts));
    ck_assert_uint_ge(depth, 16);
    ck_assert_uint_lt(depth, 16 + parts);
    attr = attributes();
    attr.send_cq = full;
    ck_assert_int_eq(set.host.privileged.qp_create(set.pd, &attr, &two), RI_OK);
    ck_assert_int_eq(fake_cq(full)->ibv.cqe, 1000);
    ck_assert_int_eq(set.host.privileged.qp_destroy(one), RI_OK);
    ck_assert_int_eq(set.host.privileged.qp_destroy(two), RI_OK);
    depth = 16;
    ck_assert_int_eq(set.host.privileged.cq_resize(cq, &depth), RI_OK);
    ck_assert_int_eq(fake_cq(cq)->ibv.cqe, 16);
    ck_assert_int_eq(set.host.privileged.cq_destroy(cq), RI_OK);
    ck_assert_int_eq(set.host.privileged.cq_destroy(full), RI_OK);
}
END_TEST

/* ---- failures ---- */

static unsigned int failing_part(int kind, int which)
{
    unsigned int parts = MANY / kinds[kind].limit;

    return which == 0 ? 0 : which == 1 ? parts / 2 : parts - 1;
}

/* The first part fails, one in the middle, or the last: the request ends once, with that status,
 * and those behind it are flushed. */
START_TEST(a_part_fails)
{
    int kind = _i / 3;
    unsigned int parts = MANY / kinds[kind].limit, bad = failing_part(kind, _i % 3);
    struct ri_wc wc;

    post_many(1, kinds[kind].opcode);
    post_many(2, kinds[kind].opcode);
    send_to(set.qp, 3, 0);
    for (unsigned int i = bad; i < 2 * parts + 1; i++)
        fake_sent(set.qp, set.cq, i, i == bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
    wc = next();
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_int_eq(wc.status, RI_WC_REMOTE_ACCESS);
    ck_assert_uint_eq(wc.opcode, kinds[kind].completion);
    ck_assert_uint_eq(wc.byte_len, 0);
    flushed(2, kinds[kind].completion);
    flushed(3, RI_WC_SEND);
    nothing();
    ck_assert_uint_eq(told(&set.qp_record), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LOCAL_ERROR);
}
END_TEST

static void to_state(enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };

    ck_assert_int_eq(set.host.privileged.qp_modify(set.qp, &modify), RI_OK);
}

/* The device reports only the first part. Requests posted after the end are not split, and their
 * slots are free once polled. */
START_TEST(forgotten_parts_are_swept_up)
{
    post_many(1, kinds[_i].opcode);
    post_many(2, kinds[_i].opcode);
    to_state(RI_QPS_ERROR);
    fake_sent(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    flushed(1, kinds[_i].completion);
    nothing();
    post_many(3, kinds[_i].opcode);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    flushed(2, kinds[_i].completion);
    flushed(3, kinds[_i].completion);
    nothing();
    for (uint64_t round = 0; round < 3; round++) {
        struct ri_qp_info info = { .size = sizeof(info) };

        ck_assert_int_eq(set.host.privileged.qp_query(set.qp, &info), RI_OK);
        for (uint64_t i = 0; i < info.max_send_wr; i++)
            post_many(i, kinds[_i].opcode);
        for (uint64_t i = 0; i < info.max_send_wr; i++)
            flushed(i, kinds[_i].completion);
    }
    nothing();
}
END_TEST

/* The QP after the reset has no trace of it. */
START_TEST(after_a_reset)
{
    post_many(1, kinds[_i].opcode);
    to_state(RI_QPS_ERROR);
    fake_sent(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    to_state(RI_QPS_IDLE);
    flushed(1, kinds[_i].completion);
    nothing();
    fake_connect_qp(set.qp);
    post_many(2, kinds[_i].opcode);
    fake_sent(set.qp, set.cq, 0, IBV_WC_REM_ACCESS_ERR);
    ck_assert_uint_eq(next().cookie, 2);
    nothing();
}
END_TEST

static unsigned int refused_post, posts;

static void refuse(void)
{
    fake_fail_posts(posts++ == refused_post ? EIO : 0);
}

/* Refused at the first part: the post fails. At a later one: the connection ends, and the request
 * is flushed. */
START_TEST(the_device_refuses_a_part)
{
    int kind = _i / 3;
    unsigned int parts = MANY / kinds[kind].limit;
    struct ri_send_wr wr = request(1, kinds[kind].opcode, MANY);
    struct ri_qp_info info = { .size = sizeof(info) };

    refused_post = failing_part(kind, _i % 3);
    posts = 0;
    fake_on_post = refuse;
    if (!refused_post) {
        ck_assert_int_ne(post(set.qp, &wr), RI_OK);
        fake_on_post = NULL;
        fake_fail_posts(0);
        for (unsigned int i = 0; i < DEPTH; i++)
            post_many(i, kinds[kind].opcode);
        ck_assert_uint_eq(told(&set.qp_record), 0);
        return;
    }
    ck_assert_int_eq(post(set.qp, &wr), RI_OK);
    ck_assert_uint_eq(posts, refused_post + 1);
    fake_on_post = NULL;
    fake_fail_posts(0);
    ck_assert_uint_lt(fake_qp(set.qp)->sends, parts);
    post_many(2, kinds[kind].opcode);
    ck_assert_int_eq(set.host.privileged.qp_query(set.qp, &info), RI_OK);
    ck_assert_int_eq(info.state, RI_QPS_ERROR);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    flushed(1, kinds[kind].completion);
    flushed(2, kinds[kind].completion);
    nothing();
    ck_assert_uint_eq(told(&set.qp_record), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LOCAL_ERROR);
}
END_TEST

/* In one list: the device gets nothing that stands behind the request that it has not got whole. */
START_TEST(what_follows_a_refused_part_is_flushed)
{
    struct ri_send_wr wr[3] = { request(1, kinds[_i].opcode, MANY),
                                request(2, kinds[_i].opcode, MANY), request(3, RI_WR_SEND, 1) };

    wr[0].next = &wr[1];
    wr[1].next = &wr[2];
    refused_post = 1;
    posts = 0;
    fake_on_post = refuse;
    ck_assert_int_eq(post(set.qp, wr), RI_OK);
    fake_on_post = NULL;
    fake_fail_posts(0);
    ck_assert_uint_eq(posts, refused_post + 1);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_ERR);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    flushed(1, kinds[_i].completion);
    flushed(2, kinds[_i].completion);
    flushed(3, RI_WC_SEND);
    nothing();
    ck_assert_uint_eq(told(&set.qp_record), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("requests that are split");
    TCase *tc = tc_case(suite, "what reaches the device", setup, work_teardown);

    tc_add_loops(tc, 0, KINDS, parts_of_a_request, only_elements_with_octets_count);
    tcase_add_test(tc, what_is_still_refused);
    tcase_add_loop_test(tc, places, 0, KINDS);
    tcase_add_test(tc, places_of_completions);
    tc = tc_case(suite, "failures", setup, work_teardown);
    tcase_add_loop_test(tc, a_part_fails, 0, 3 * KINDS);
    tc_add_loops(tc, 0, KINDS, forgotten_parts_are_swept_up, after_a_reset);
    tcase_add_loop_test(tc, the_device_refuses_a_part, 0, 3 * KINDS);
    tcase_add_loop_test(tc, what_follows_a_refused_part_is_flushed, 0, KINDS);
    return tc_main(suite);
}
