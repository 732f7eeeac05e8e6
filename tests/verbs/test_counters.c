/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion counters: each request is counted once, signaled or not, polled or not, and the
 * program polls what it would poll without a counter.
 */
#include "verbs_pair.h"

#include "verbs/ibverbs/later.h"

#define LENGTH 100u
#define MANY   (PAIR_DEPTH / 2)

static void set_up(void)
{
    pair_open(false, false);
}

static void set_up_extended(void)
{
    pair_open(false, true);
}

static struct ibv_comp_cntr *create(int type)
{
    struct vb_comp_cntr_init_attr attr = { .type = type };
    struct ibv_comp_cntr *counter = ibv_create_comp_cntr(pair.context,
                                                         (struct ibv_comp_cntr_init_attr *)&attr);

    ck_assert_ptr_nonnull(counter);
    return counter;
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *counter, uint32_t ops)
{
    struct vb_attach_attr attr = { .op_mask = ops };

    return ibv_qp_attach_comp_cntr(qp, counter, (struct ibv_qp_attach_comp_cntr_attr *)&attr);
}

static struct ibv_comp_cntr *count(struct ibv_qp *qp, uint32_t ops)
{
    struct ibv_comp_cntr *counter = create(VB_COMP_CNTR_WRS);

    ck_assert_int_eq(attach(qp, counter, ops), 0);
    return counter;
}

static uint64_t done(struct ibv_comp_cntr *counter)
{
    uint64_t value = 0;

    ck_assert_int_eq(ibv_read_comp_cntr(counter, &value), 0);
    return value;
}

static uint64_t failed(struct ibv_comp_cntr *counter)
{
    uint64_t value = 0;

    ck_assert_int_eq(ibv_read_err_comp_cntr(counter, &value), 0);
    return value;
}

/* The end of a test: a counter can be destroyed when its queue pairs are. */
static void end_with(struct ibv_comp_cntr *const *counters)
{
    pair_destroy();
    for (; *counters; counters++)
        ck_assert_int_eq(ibv_destroy_comp_cntr(*counters), 0);
    ck_assert_int_eq(ibv_close_device(pair.context), 0);
}
#define end(...) end_with((struct ibv_comp_cntr *const[]){ __VA_ARGS__, NULL })

/* What a Read brings, and what a Write places, have places of their own: later requests of both
 * sides are sent while they come. */
static void post(struct pair_side *side, enum ibv_wr_opcode opcode, uint64_t wr_id, bool signaled)
{
    struct pair_side *peer = side == a ? b : a;
    uint32_t offset = opcode == IBV_WR_RDMA_READ ? LENGTH : 0;
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(side, opcode, &sge, offset, LENGTH), *bad;

    wr.wr_id = wr_id;
    wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    wr.wr.rdma.remote_addr = (uintptr_t)peer->memory +
                             (opcode == IBV_WR_RDMA_WRITE ? 2 * LENGTH : 0);
    wr.wr.rdma.rkey = peer->mr->rkey;
    ck_assert_int_eq(ibv_post_send(side->qp, &wr, &bad), 0);
}

static void poll_nothing(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
}

static void poll_this(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = pair_completion(cq);

    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.wr_id, wr_id);
}

/* --- what is counted --- */

START_TEST(each_kind_of_request_is_counted_by_its_counter)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE),
                         *others = count(a->qp, VB_ATTACH_SEND | VB_ATTACH_RDMA_READ),
                         *received = count(b->qp, VB_ATTACH_RECV);

    for (uint32_t i = 0; i < 4; i++)
        pair_post_receive(b, 50 + i, 0, LENGTH);
    pair_connect();
    for (uint32_t i = 0; i < 3; i++)
        post(a, IBV_WR_RDMA_WRITE, i, true);
    post(a, IBV_WR_RDMA_READ, 3, true);
    for (uint32_t i = 0; i < 4; i++)
        post(a, IBV_WR_SEND, 4 + i, true);
    ck_assert(tc_until(done(writes) == 3 && done(others) == 5 && done(received) == 4, PAIR_MS));
    for (uint32_t i = 0; i < 3; i++)
        poll_this(a->cq, i, IBV_WC_RDMA_WRITE);
    poll_this(a->cq, 3, IBV_WC_RDMA_READ);
    for (uint32_t i = 0; i < 4; i++)
        poll_this(a->cq, 4 + i, IBV_WC_SEND);
    for (uint32_t i = 0; i < 4; i++)
        poll_this(b->cq, 50 + i, IBV_WC_RECV);
    ck_assert_uint_eq(done(writes), 3);
    ck_assert_uint_eq(done(others), 5);
    ck_assert_uint_eq(done(received), 4);
    ck_assert_uint_eq(failed(writes) + failed(others) + failed(received), 0);
    end(writes, others, received);
}
END_TEST

/* Of the unsignaled requests nothing is polled, whether a read of the counter or the poll itself
 * takes their completions. */
START_TEST(requests_that_are_not_signaled_are_counted_and_not_polled)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);

    pair_connect();
    for (uint32_t i = 0; i < MANY; i++)
        post(a, IBV_WR_RDMA_WRITE, i, i == 7 || i == MANY - 1);
    ck_assert(tc_until(done(writes) == MANY, PAIR_MS));
    poll_this(a->cq, 7, IBV_WC_RDMA_WRITE);
    poll_this(a->cq, MANY - 1, IBV_WC_RDMA_WRITE);
    poll_nothing(a->cq);
    for (uint32_t i = 0; i < MANY; i++)
        post(a, IBV_WR_RDMA_WRITE, i, i == MANY - 1);
    poll_this(a->cq, MANY - 1, IBV_WC_RDMA_WRITE);
    poll_nothing(a->cq);
    ck_assert_uint_eq(done(writes), 2 * MANY);
    end(writes);
}
END_TEST

START_TEST(a_counter_of_receives_does_not_change_the_sends)
{
    struct ibv_comp_cntr *received = count(a->qp, VB_ATTACH_RECV);

    pair_connect();
    post(a, IBV_WR_RDMA_WRITE, 1, false);
    post(a, IBV_WR_RDMA_WRITE, 2, true);
    poll_this(a->cq, 2, IBV_WC_RDMA_WRITE);
    poll_nothing(a->cq);
    ck_assert_uint_eq(done(received), 0);
    end(received);
}
END_TEST

START_TEST(octets_are_counted)
{
    struct ibv_comp_cntr *counter = create(VB_COMP_CNTR_BYTES),
                         *received = create(VB_COMP_CNTR_BYTES);

    ck_assert_int_eq(attach(a->qp, counter, VB_ATTACH_RDMA_WRITE | VB_ATTACH_SEND), 0);
    ck_assert_int_eq(attach(b->qp, received, VB_ATTACH_RECV), 0);
    pair_post_receive(b, 1, 0, 4 * LENGTH);
    pair_connect();
    post(a, IBV_WR_RDMA_WRITE, 1, false);
    post(a, IBV_WR_SEND, 2, false);
    ck_assert(tc_until(done(counter) == 2 * LENGTH && done(received) == LENGTH, PAIR_MS));
    end(counter, received);
}
END_TEST

START_TEST(errors_have_a_count_of_their_own)
{
    struct ibv_comp_cntr *received = count(a->qp, VB_ATTACH_RECV);
    struct ibv_qp_attr state = { .qp_state = IBV_QPS_ERR };

    for (uint32_t i = 0; i < 3; i++)
        pair_post_receive(a, i, 0, LENGTH);
    ck_assert_int_eq(ibv_modify_qp(a->qp, &state, IBV_QP_STATE), 0);
    ck_assert(tc_until(failed(received) == 3, PAIR_MS));
    ck_assert_uint_eq(done(received), 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct ibv_wc wc = pair_completion(a->cq);

        ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
        ck_assert_uint_eq(wc.wr_id, i);
    }
    poll_nothing(a->cq);
    end(received);
}
END_TEST

/* The program hears of a request that fails, though it did not signal it. */
START_TEST(an_unsignaled_request_that_fails_is_counted_and_polled)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);
    struct ibv_sge sge;
    struct ibv_send_wr wr, *bad;
    struct ibv_wc wc;

    pair_connect();
    wr = pair_request(a, IBV_WR_RDMA_WRITE, &sge, 0, LENGTH);
    wr.wr_id = 77;
    wr.send_flags = 0;
    sge.lkey = UINT32_MAX;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    ck_assert(tc_until(failed(writes) == 1, PAIR_MS));
    wc = pair_completion(a->cq);
    ck_assert_uint_eq(wc.wr_id, 77);
    ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    ck_assert_uint_eq(done(writes), 0);
    end(writes);
}
END_TEST

START_TEST(queue_pairs_share_a_counter)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);

    ck_assert_int_eq(attach(b->qp, writes, VB_ATTACH_RDMA_WRITE), 0);
    pair_connect();
    for (uint32_t i = 0; i < 5; i++) {
        post(a, IBV_WR_RDMA_WRITE, i, false);
        post(b, IBV_WR_RDMA_WRITE, i, false);
    }
    ck_assert(tc_until(done(writes) == 10, PAIR_MS));
    end(writes);
}
END_TEST

/* Both queue pairs on one CQ: the completions of the one without a counter are not changed. */
START_TEST(a_queue_pair_without_a_counter_shares_the_cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = b->cq, .recv_cq = a->cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
    };
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);
    struct ibv_qp *other = ibv_create_qp(pair.pd, &init);
    struct ibv_qp_attr state = { .qp_state = IBV_QPS_ERR };
    struct ibv_recv_wr wr = { .wr_id = 5 }, *bad;

    ck_assert_ptr_nonnull(other);
    pair_connect();
    ck_assert_int_eq(ibv_modify_qp(other, &state, IBV_QP_STATE), 0);
    ck_assert_int_eq(ibv_post_recv(other, &wr, &bad), 0);
    post(a, IBV_WR_RDMA_WRITE, 1, false);
    ck_assert(tc_until(done(writes) == 1, PAIR_MS));
    ck_assert_uint_eq(failed(writes), 0);
    ck_assert_uint_eq(pair_completion(a->cq).wr_id, 5);
    /* What was taken for the counter is not polled after the queue pair is destroyed. */
    ck_assert_int_eq(ibv_post_recv(other, &wr, &bad), 0);
    post(a, IBV_WR_RDMA_WRITE, 2, true);
    ck_assert(tc_until(done(writes) == 2, PAIR_MS));
    ck_assert_int_eq(ibv_destroy_qp(other), 0);
    poll_this(a->cq, 2, IBV_WC_RDMA_WRITE);
    poll_nothing(a->cq);
    end(writes);
}
END_TEST

/* --- values --- */

START_TEST(values_are_set_and_incremented)
{
    struct ibv_comp_cntr *counter = create(VB_COMP_CNTR_WRS);

    ck_assert_uint_eq(done(counter) + failed(counter), 0);
    ck_assert_int_eq(ibv_set_comp_cntr(counter, 40), 0);
    ck_assert_int_eq(ibv_inc_comp_cntr(counter, 2), 0);
    ck_assert_int_eq(ibv_set_err_comp_cntr(counter, 6), 0);
    ck_assert_int_eq(ibv_inc_err_comp_cntr(counter, 1), 0);
    ck_assert_uint_eq(done(counter), 42);
    ck_assert_uint_eq(failed(counter), 7);
    ck_assert_int_eq(ibv_set_comp_cntr(counter, UINT64_MAX), 0);
    ck_assert_int_eq(ibv_inc_comp_cntr(counter, 2), 0);
    ck_assert_uint_eq(done(counter), 1);
    end(counter);
}
END_TEST

/* Completions in the provider's CQ. */
static uint32_t there(struct ibv_cq *ibv)
{
    struct ri_cq *cq = vb_cq_of(ibv)->ual->cq;
    uint32_t total = 0, marked;

    ual_cq_run(vb_cq_of(ibv)->ual);
    ck_assert_int_eq(cq->ops->cq_peek(cq, &total, &marked), RI_OK);
    return total;
}

/* A request that has completed before does not add to the value that is set. */
START_TEST(a_value_is_set_behind_what_has_completed)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);

    pair_connect();
    post(a, IBV_WR_RDMA_WRITE, 1, false);
    ck_assert(tc_until(there(a->cq) == 1, PAIR_MS));
    ck_assert_int_eq(ibv_set_comp_cntr(writes, 100), 0);
    ck_assert_uint_eq(done(writes), 100);
    post(a, IBV_WR_RDMA_WRITE, 2, false);
    ck_assert(tc_until(done(writes) == 101, PAIR_MS));
    end(writes);
}
END_TEST

/* --- queue pairs and CQs --- */

/* A CQ of few entries, which the program's own completions would fit: the others take no place of
 * theirs. */
START_TEST(uncounted_room_of_the_cq_is_the_programs)
{
    struct ibv_comp_cntr *writes;
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { PAIR_DEPTH, 4, 4, 4, 0 } };
    struct ibv_cq *usual = a->cq;

    ck_assert_int_eq(ibv_destroy_qp(a->qp), 0);
    a->cq = ibv_create_cq(pair.context, 1, NULL, NULL, 0);
    ck_assert_ptr_nonnull(a->cq);
    init.send_cq = init.recv_cq = a->cq;
    a->qp = ibv_create_qp(pair.pd, &init);
    ck_assert_ptr_nonnull(a->qp);
    writes = count(a->qp, VB_ATTACH_RDMA_WRITE);
    ck_assert_int_ge(vb_cq_of(a->cq)->ual->depth, PAIR_DEPTH + 1);
    ck_assert_int_lt(a->cq->cqe, PAIR_DEPTH);
    pair_connect();
    for (uint32_t i = 0; i < PAIR_DEPTH; i++)
        post(a, IBV_WR_RDMA_WRITE, i, i == PAIR_DEPTH - 1);
    /* nobody polls meanwhile: the peer sees that all have arrived */
    post(b, IBV_WR_RDMA_READ, 1, true);
    poll_this(b->cq, 1, IBV_WC_RDMA_READ);
    poll_this(a->cq, PAIR_DEPTH - 1, IBV_WC_RDMA_WRITE);
    ck_assert_uint_eq(done(writes), PAIR_DEPTH);
    ck_assert_int_eq(atomic_load(&a->ended), 0);
    ck_assert_int_eq(ibv_destroy_cq(usual), 0);
    end(writes);
}
END_TEST

START_TEST(a_counted_cq_is_resized_with_what_is_in_it)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);

    pair_connect();
    for (uint32_t i = 0; i < 8; i++)
        post(a, IBV_WR_RDMA_WRITE, i, true);
    ck_assert(tc_until(done(writes) == 8, PAIR_MS));
    ck_assert_int_eq(ibv_resize_cq(a->cq, 8 * PAIR_DEPTH), 0);
    ck_assert_int_eq(a->cq->cqe, 8 * PAIR_DEPTH);
    for (uint32_t i = 0; i < 8; i++)
        poll_this(a->cq, i, IBV_WC_RDMA_WRITE);
    end(writes);
}
END_TEST

/* What a counter took is dropped at RESET, and the QP is counted in its next life. */
START_TEST(a_reset_queue_pair_is_counted_on)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);
    struct ibv_qp_attr state = { .qp_state = IBV_QPS_RESET };

    pair_connect();
    post(a, IBV_WR_RDMA_WRITE, 1, true);
    post(a, IBV_WR_RDMA_WRITE, 2, true);
    ck_assert(tc_until(done(writes) == 2, PAIR_MS));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ibv_modify_qp(pair.side[i].qp, &state, IBV_QP_STATE), 0);
    poll_nothing(a->cq);
    ck_assert_uint_eq(done(writes), 2);
    pair_connect();
    post(a, IBV_WR_RDMA_WRITE, 3, false);
    ck_assert(tc_until(done(writes) == 3, PAIR_MS));
    poll_nothing(a->cq);
    end(writes);
}
END_TEST

/* An event of a CQ comes for what the program signals, also if the counter is read first. */
START_TEST(an_armed_cq_tells_a_counted_completion)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);
    struct ibv_cq *cq;
    void *context;

    pair_connect();
    ck_assert_int_eq(ibv_req_notify_cq(a->cq, 0), 0);
    post(a, IBV_WR_RDMA_WRITE, 9, true);
    ck_assert(tc_until(done(writes) == 1, PAIR_MS));
    ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
    ck_assert_ptr_eq(cq, a->cq);
    ibv_ack_cq_events(cq, 1);
    poll_this(a->cq, 9, IBV_WC_RDMA_WRITE);
    end(writes);
}
END_TEST

START_TEST(requests_of_ibv_wr_are_counted)
{
    struct ibv_comp_cntr *writes = count(a->qp, VB_ATTACH_RDMA_WRITE);

    pair_connect();
    ibv_wr_start(a->qp_ex);
    for (uint32_t i = 0; i < 4; i++) {
        a->qp_ex->wr_id = i;
        a->qp_ex->wr_flags = i == 2 ? IBV_SEND_SIGNALED : 0;
        ibv_wr_rdma_write(a->qp_ex, b->mr->rkey, (uintptr_t)b->memory);
        ibv_wr_set_sge(a->qp_ex, a->mr->lkey, (uintptr_t)a->memory, LENGTH);
    }
    ck_assert_int_eq(ibv_wr_complete(a->qp_ex), 0);
    ck_assert(tc_until(done(writes) == 4, PAIR_MS));
    poll_this(a->cq, 2, IBV_WC_RDMA_WRITE);
    poll_nothing(a->cq);
    end(writes);
}
END_TEST

/* --- one thread polls, another one reads --- */

#define ROUNDS 2000u

static struct ibv_comp_cntr *shared_counter;

static void *read_to_the_end(void *arg)
{
    uint64_t last = 0;

    (void)arg;
    while (last < ROUNDS) {
        uint64_t now = done(shared_counter);

        ck_assert_uint_ge(now, last);
        last = now;
    }
    return NULL;
}

START_TEST(a_thread_reads_while_another_polls)
{
    pthread_t reader;

    shared_counter = count(a->qp, VB_ATTACH_RDMA_WRITE);
    pair_connect();
    ck_assert_int_eq(pthread_create(&reader, NULL, read_to_the_end, NULL), 0);
    for (uint32_t i = 0; i < ROUNDS; i += MANY) {
        uint32_t last = (i + MANY < ROUNDS ? i + MANY : ROUNDS) - 1;

        for (uint32_t k = i; k <= last; k++)
            post(a, IBV_WR_RDMA_WRITE, k, k % 3 == 0 || k == last);
        for (uint32_t k = i; k <= last; k++)
            if (k % 3 == 0 || k == last)
                poll_this(a->cq, k, IBV_WC_RDMA_WRITE);
    }
    poll_nothing(a->cq);
    ck_assert_int_eq(pthread_join(reader, NULL), 0);
    ck_assert_uint_eq(done(shared_counter), ROUNDS);
    end(shared_counter);
}
END_TEST

/* --- what is refused --- */

START_TEST(the_limits_are_told)
{
    struct vb_comp_cntr_caps caps[2];
    struct ibv_comp_cntr_caps *told = (struct ibv_comp_cntr_caps *)caps;

    memset(caps, 0x5a, sizeof(caps));
    ck_assert_int_eq(_ibv_query_comp_cntr_caps(pair.context, told, sizeof(caps[0])), 0);
    ck_assert(caps[0].max_value == UINT64_MAX);
    ck_assert_uint_eq(caps[0].max_counters, 65536);
    ck_assert_uint_eq(caps[0].supported_qp_attach_ops,
                      VB_ATTACH_SEND | VB_ATTACH_RECV | VB_ATTACH_RDMA_READ | VB_ATTACH_RDMA_WRITE);
    ck_assert_uint_eq(caps[1].max_counters, 0x5a5a5a5a);
    /* a program of a later release */
    ck_assert_int_eq(_ibv_query_comp_cntr_caps(pair.context, told, sizeof(caps)), 0);
    ck_assert_uint_eq(caps[1].max_counters, 0);
    ck_assert_int_eq(_ibv_query_comp_cntr_caps(pair.context, told, 8), EINVAL);
    pair_close();
}
END_TEST

START_TEST(there_are_as_many_counters_as_told)
{
    static struct ibv_comp_cntr *counters[65536];
    struct vb_comp_cntr_init_attr attr = { 0 };
    struct ibv_comp_cntr_init_attr *asked = (struct ibv_comp_cntr_init_attr *)&attr;

    for (uint32_t i = 0; i < 65536; i++) {
        counters[i] = ibv_create_comp_cntr(pair.context, asked);
        ck_assert_ptr_nonnull(counters[i]);
    }
    errno = 0;
    ck_assert_ptr_null(ibv_create_comp_cntr(pair.context, asked));
    ck_assert_int_eq(errno, ENOMEM);
    for (uint32_t i = 0; i < 65536; i++)
        ck_assert_int_eq(ibv_destroy_comp_cntr(counters[i]), 0);
    pair_close();
}
END_TEST

START_TEST(what_a_counter_cannot_be_is_refused)
{
    struct vb_comp_cntr_init_attr attrs[] = { { .comp_mask = 1 }, { .flags = 1 }, { .type = 2 } };

    for (uint32_t i = 0; i < 3; i++) {
        errno = 0;
        ck_assert_ptr_null(
            ibv_create_comp_cntr(pair.context, (struct ibv_comp_cntr_init_attr *)&attrs[i]));
        ck_assert_int_eq(errno, EOPNOTSUPP);
    }
    pair_close();
}
END_TEST

START_TEST(what_cannot_be_attached_is_refused)
{
    struct ibv_comp_cntr *first = create(VB_COMP_CNTR_WRS), *second = create(VB_COMP_CNTR_WRS);
    struct ibv_context *other = pair_open_context();
    struct vb_comp_cntr_init_attr none = { 0 };
    struct vb_attach_attr unknown = { .comp_mask = 1, .op_mask = VB_ATTACH_SEND };
    struct ibv_comp_cntr *foreign = ibv_create_comp_cntr(other,
                                                         (struct ibv_comp_cntr_init_attr *)&none);

    ck_assert_ptr_nonnull(foreign);
    ck_assert_int_eq(attach(a->qp, foreign, VB_ATTACH_SEND), EINVAL);
    ck_assert_int_eq(attach(a->qp, first, 0), EINVAL);
    ck_assert_int_eq(attach(a->qp, first, VB_ATTACH_REMOTE_RDMA_WRITE), EOPNOTSUPP);
    ck_assert_int_eq(attach(a->qp, first, VB_ATTACH_SEND | VB_ATTACH_REMOTE_RDMA_READ), EOPNOTSUPP);
    ck_assert_int_eq(attach(a->qp, first, 1u << 20), EOPNOTSUPP);
    ck_assert_int_eq(
        ibv_qp_attach_comp_cntr(a->qp, first, (struct ibv_qp_attach_comp_cntr_attr *)&unknown),
        EOPNOTSUPP);
    ck_assert_int_eq(ibv_destroy_comp_cntr(foreign), 0);
    ck_assert_int_eq(ibv_close_device(other), 0);

    ck_assert_int_eq(attach(a->qp, first, VB_ATTACH_SEND | VB_ATTACH_RECV), 0);
    ck_assert_int_eq(attach(a->qp, second, VB_ATTACH_RECV | VB_ATTACH_RDMA_READ), EBUSY);
    ck_assert_int_eq(attach(a->qp, first, VB_ATTACH_SEND), EBUSY);
    ck_assert_int_eq(attach(a->qp, second, VB_ATTACH_RDMA_READ), 0);
    pair_connect();
    ck_assert_int_eq(attach(a->qp, first, VB_ATTACH_RDMA_WRITE), EINVAL);
    ck_assert_int_eq(ibv_destroy_comp_cntr(first), EBUSY);
    ck_assert_int_eq(ibv_destroy_comp_cntr(second), EBUSY);
    end(first, second);
}
END_TEST

/* A CQ without room for the requests that are not signaled: nothing is attached. */
START_TEST(a_cq_that_cannot_grow_refuses_the_counter)
{
    struct ibv_comp_cntr *writes = create(VB_COMP_CNTR_WRS);
    struct ibv_device_attr device;
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
    struct ibv_cq *full;
    struct ibv_qp *qp;

    ck_assert_int_eq(ibv_query_device(pair.context, &device), 0);
    full = ibv_create_cq(pair.context, device.max_cqe, NULL, NULL, 0);
    ck_assert_ptr_nonnull(full);
    init.send_cq = full;
    init.recv_cq = a->cq;
    qp = ibv_create_qp(pair.pd, &init);
    ck_assert_ptr_nonnull(qp);
    ck_assert_int_eq(attach(qp, writes, VB_ATTACH_RDMA_WRITE | VB_ATTACH_RECV), ENOMEM);
    ck_assert_int_eq(attach(qp, writes, VB_ATTACH_RECV), 0);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    init.sq_sig_all = 1;
    qp = ibv_create_qp(pair.pd, &init);
    ck_assert_ptr_nonnull(qp);
    ck_assert_int_eq(attach(qp, writes, VB_ATTACH_RDMA_WRITE), 0);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(full), 0);
    end(writes);
}
END_TEST

static Suite *suite_counters(void)
{
    Suite *suite = suite_create("verbs: completion counters");
    TCase *tc = tc_case(suite, "counters", set_up, NULL);
    TCase *extended = tc_case(suite, "ibv_wr", set_up_extended, NULL);

    tc_add_tests(
        tc, each_kind_of_request_is_counted_by_its_counter,
        requests_that_are_not_signaled_are_counted_and_not_polled,
        a_counter_of_receives_does_not_change_the_sends, octets_are_counted,
        errors_have_a_count_of_their_own, an_unsignaled_request_that_fails_is_counted_and_polled,
        queue_pairs_share_a_counter, a_queue_pair_without_a_counter_shares_the_cq,
        values_are_set_and_incremented, a_value_is_set_behind_what_has_completed,
        uncounted_room_of_the_cq_is_the_programs, a_counted_cq_is_resized_with_what_is_in_it,
        a_reset_queue_pair_is_counted_on, an_armed_cq_tells_a_counted_completion,
        a_thread_reads_while_another_polls, the_limits_are_told, there_are_as_many_counters_as_told,
        what_a_counter_cannot_be_is_refused, what_cannot_be_attached_is_refused,
        a_cq_that_cannot_grow_refuses_the_counter);
    tcase_add_test(extended, requests_of_ibv_wr_are_counted);
    return suite;
}

int main(void)
{
    return tc_main(suite_counters());
}
