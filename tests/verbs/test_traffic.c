/* SPDX-License-Identifier: BSD-3-Clause
 * libibverbs: posts and completions between two connected QPs. */
#include "verbs_pair.h"

#include <endian.h>
#include <fcntl.h>

static void open_as(bool shared, bool extended)
{
    pair_open(shared, extended);
    pair_connect();
}

static void set_up(void)
{
    open_as(false, false);
}

static void set_up_shared(void)
{
    open_as(true, false);
}

static void set_up_extended(void)
{
    open_as(false, true);
}

static void check_received(const struct ibv_wc *wc, uint64_t wr_id, uint32_t length)
{
    ck_assert_int_eq(wc->status, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc->opcode, IBV_WC_RECV);
    ck_assert_uint_eq(wc->wr_id, wr_id);
    ck_assert_uint_eq(wc->byte_len, length);
    ck_assert_uint_eq(wc->qp_num, b->qp->qp_num);
}

/* --- messages --- */

static void send_fills_receive(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, 1000);
    struct ibv_wc wc;

    memset(a->memory, 0x11, 1000);
    pair_post_receive(b, 41, 100, 2000);
    pair_do(a, &wr);
    wc = pair_completion(b->cq);
    check_received(&wc, 41, 1000);
    ck_assert_mem_eq(b->memory + 100, a->memory, 1000);
    ck_assert_uint_eq(b->memory[1100], 0);
}

START_TEST(a_send_fills_the_receive)
{
    send_fills_receive();
}
END_TEST

/* More requests than one group of the conversion; only the last is signaled. */
START_TEST(a_long_list_arrives_in_order)
{
    enum { COUNT = 40 };
    struct ibv_send_wr wr[COUNT], *bad;
    struct ibv_sge sge[COUNT];
    struct ibv_wc wc;

    for (uint32_t i = 0; i < COUNT; i++) {
        pair_post_receive(b, i, i * 64, 64);
        wr[i] = pair_request(a, IBV_WR_SEND, &sge[i], i * 64, i + 1);
        wr[i].wr_id = i;
        wr[i].send_flags = i == COUNT - 1 ? IBV_SEND_SIGNALED : 0;
        wr[i].next = i == COUNT - 1 ? NULL : &wr[i + 1];
    }
    ck_assert_int_eq(ibv_post_send(a->qp, wr, &bad), 0);
    wc = pair_completion(a->cq);
    ck_assert_uint_eq(wc.wr_id, COUNT - 1);
    ck_assert_uint_eq(wc.qp_num, a->qp->qp_num);
    for (uint32_t i = 0; i < COUNT; i++) {
        wc = pair_completion(b->cq);
        check_received(&wc, i, i + 1);
    }
    ck_assert_int_eq(ibv_poll_cq(a->cq, 1, &wc), 0);
}
END_TEST

static void post_many_receives(struct pair_side *side, int count)
{
    struct ibv_recv_wr wr[PAIR_DEPTH], *bad;

    memset(wr, 0, sizeof(wr));
    for (int i = 0; i < count; i++) {
        wr[i].wr_id = (uint64_t)i;
        wr[i].next = i == count - 1 ? NULL : &wr[i + 1];
    }
    ck_assert_int_eq(ibv_post_recv(side->qp, wr, &bad), 0);
}

START_TEST(receives_are_flushed_in_order)
{
    enum { COUNT = 40 };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

    post_many_receives(a, COUNT);
    ck_assert_int_eq(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE), 0);
    for (int i = 0; i < COUNT; i++) {
        struct ibv_wc wc = pair_completion(a->cq);

        ck_assert_uint_eq(wc.wr_id, (uint64_t)i);
        ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
}
END_TEST

START_TEST(a_full_queue_names_the_request_that_it_refused)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_recv_wr *wr, *bad = NULL;
    uint32_t room;

    ck_assert_int_eq(ibv_query_qp(a->qp, &attr, IBV_QP_CAP, &init), 0);
    room = attr.cap.max_recv_wr;
    wr = calloc(room + 4, sizeof(*wr));
    for (uint32_t i = 0; i < room + 4; i++)
        wr[i].next = i == room + 3 ? NULL : &wr[i + 1];
    ck_assert_int_eq(ibv_post_recv(a->qp, wr, &bad), ENOMEM);
    ck_assert_ptr_eq(bad, &wr[room]);
    free(wr);
}
END_TEST

/* bad_wr is the first invalid one of a list; those before it are sent. */
START_TEST(a_wrong_request_ends_its_list)
{
    struct ibv_send_wr wr[3], *bad = NULL;
    struct ibv_sge sge[3];
    struct ibv_wc wc;

    pair_post_receive(b, 1, 0, 64);
    for (int i = 0; i < 3; i++) {
        wr[i] = pair_request(a, IBV_WR_SEND, &sge[i], 0, 8);
        wr[i].next = i < 2 ? &wr[i + 1] : NULL;
    }
    wr[1].opcode = IBV_WR_TSO;
    ck_assert_int_eq(ibv_post_send(a->qp, wr, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr[1]);
    wc = pair_completion(b->cq);
    check_received(&wc, 1, 8);
    wr[0].next = NULL;
    wr[0].num_sge = 1000;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr[0], &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr[0]);
}
END_TEST

/* Inline data needs no registered memory, and the program may reuse the memory at once. */
START_TEST(inline_data_is_taken_by_the_post)
{
    enum { ROUNDS = 5 * PAIR_DEPTH };
    struct ibv_wc wc;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t words[2] = { i, ~i };
        struct ibv_sge sge[2] = { { .addr = (uintptr_t)&words[0], .length = 4 },
                                  { .addr = (uintptr_t)&words[1], .length = 4 } };
        struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
                                  .sg_list = sge,
                                  .num_sge = 2,
                                  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED },
                           *bad;

        pair_post_receive(b, i, 0, 8);
        ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
        memset(words, 0xee, sizeof(words));
        wc = pair_completion(b->cq);
        check_received(&wc, i, 8);
        ck_assert_uint_eq(*(uint32_t *)(void *)b->memory, i);
        ck_assert_uint_eq(*(uint32_t *)(void *)(b->memory + 4), ~i);
        wc = pair_completion(a->cq);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    }
}
END_TEST

START_TEST(inline_data_beyond_the_room_is_refused)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, 256), *bad = NULL;
    struct ibv_wc wc;

    wr.send_flags |= IBV_SEND_INLINE;
    pair_post_receive(b, 0, 0, 256);
    pair_do(a, &wr);
    wc = pair_completion(b->cq);
    check_received(&wc, 0, 256);
    sge.length = 257;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr);
}
END_TEST

/* --- memory of the peer --- */

static struct ibv_send_wr remote(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint32_t offset,
                                 uint32_t length)
{
    struct ibv_send_wr wr = pair_request(a, opcode, sge, 0, length);

    wr.wr.rdma.remote_addr = (uintptr_t)b->memory + offset;
    wr.wr.rdma.rkey = b->mr->rkey;
    return wr;
}

/* An octet that the peer writes without a completion here. */
static uint8_t placed(uint32_t offset)
{
    return __atomic_load_n(&b->memory[offset], __ATOMIC_ACQUIRE);
}

START_TEST(a_write_places_and_a_read_fetches)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge, 5000, 30000);

    memset(a->memory, 0x42, 30000);
    pair_do(a, &wr);
    memset(a->memory, 0, 30000);
    wr = remote(IBV_WR_RDMA_READ, &sge, 5000, 30000);
    pair_do(a, &wr);
    ck_assert_uint_eq(a->memory[0], 0x42);
    ck_assert_mem_eq(a->memory, b->memory + 5000, 30000);
}
END_TEST

/* Completions are taken in groups, too: all are there when a later Read has been answered. */
START_TEST(many_completions_are_taken_by_one_poll)
{
    enum { COUNT = 40 };
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, 1), *bad;
    struct ibv_wc wc[COUNT + 1];

    post_many_receives(b, COUNT);
    wr.num_sge = 0;
    wr.send_flags = 0;
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    wr = remote(IBV_WR_RDMA_READ, &sge, 0, 64);
    pair_do(a, &wr);
    ck_assert_int_eq(ibv_poll_cq(b->cq, COUNT + 1, wc), COUNT);
    for (int i = 0; i < COUNT; i++)
        check_received(&wc[i], (uint64_t)i, 0);
}
END_TEST

/* A region with another address for segments and for the peer. */
START_TEST(a_region_is_addressed_by_its_iova)
{
    const uint64_t iova = UINT64_C(0x7000000000);
    struct ibv_mr *mr = ibv_reg_mr_iova(pair.pd, b->memory, 4096, iova,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge, 0, 100);

    if (!mr && errno == EOPNOTSUPP)
        tc_skip("the provider has no regions of that kind");
    ck_assert_ptr_nonnull(mr);
    memset(a->memory, 0x23, 100);
    wr.wr.rdma.remote_addr = iova + 50;
    wr.wr.rdma.rkey = mr->rkey;
    pair_do(a, &wr);
    ck_assert(tc_until(placed(149) == 0x23, PAIR_MS));
    ck_assert_uint_eq(b->memory[49], 0);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

/* An iova of 0 is an address, too. */
START_TEST(a_region_is_addressed_from_0)
{
    struct ibv_mr *mr = ibv_reg_mr_iova(pair.pd, b->memory, 4096, 0,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge, 0, 100);

    ck_assert_ptr_nonnull(mr);
    memset(a->memory, 0x24, 100);
    wr.wr.rdma.remote_addr = 50;
    wr.wr.rdma.rkey = mr->rkey;
    pair_do(a, &wr);
    ck_assert(tc_until(placed(149) == 0x24, PAIR_MS));
    ck_assert_uint_eq(b->memory[49], 0);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

START_TEST(atomics_return_what_was_there)
{
    uint64_t *word = (uint64_t *)(void *)b->memory, *old = (uint64_t *)(void *)a->memory;
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0, 8);

    *word = 40;
    wr.wr.atomic.remote_addr = (uintptr_t)word;
    wr.wr.atomic.rkey = b->mr->rkey;
    wr.wr.atomic.compare_add = 2;
    pair_do(a, &wr);
    ck_assert_uint_eq(*old, 40);
    ck_assert_uint_eq(*word, 42);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 42;
    wr.wr.atomic.swap = 7;
    pair_do(a, &wr);
    ck_assert_uint_eq(*old, 42);
    ck_assert_uint_eq(*word, 7);
}
END_TEST

/* A program that posts its whole buffer gets the old value in its beginning. */
static void long_element_is_taken(bool call_by_call)
{
    uint64_t *word = (uint64_t *)(void *)b->memory, *old = (uint64_t *)(void *)a->memory;
    struct ibv_qp_ex *qp = a->qp_ex;
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0, 4096);
    struct ibv_wc wc;

    *word = 3;
    old[1] = 0x1111;
    if (call_by_call) {
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_start(qp);
        ibv_wr_atomic_fetch_add(qp, b->mr->rkey, (uintptr_t)word, 4);
        ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 4096);
        ck_assert_int_eq(ibv_wr_complete(qp), 0);
        wc = pair_completion(a->cq);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, 8);
    } else {
        wr.wr.atomic.remote_addr = (uintptr_t)word;
        wr.wr.atomic.rkey = b->mr->rkey;
        wr.wr.atomic.compare_add = 4;
        pair_do(a, &wr);
    }
    ck_assert_uint_eq(old[0], 3);
    ck_assert_uint_eq(old[1], 0x1111);
    ck_assert_uint_eq(*word, 7);
}

START_TEST(an_atomic_uses_eight_octets_of_a_longer_element)
{
    long_element_is_taken(false);
}
END_TEST

START_TEST(an_atomic_call_uses_eight_octets_of_a_longer_element)
{
    long_element_is_taken(true);
}
END_TEST

START_TEST(an_atomic_on_an_unaligned_word_is_an_invalid_request)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 0, 8), *bad;

    wr.wr.atomic.remote_addr = (uintptr_t)b->memory + 4;
    wr.wr.atomic.rkey = b->mr->rkey;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    ck_assert_int_eq(pair_completion(a->cq).status, IBV_WC_REM_INV_REQ_ERR);
}
END_TEST

START_TEST(a_write_with_immediate_takes_a_receive)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 0, 64);
    struct ibv_wc wc;

    wr.imm_data = htobe32(0x01020304);
    memset(a->memory, 0x77, 64);
    pair_post_receive(b, 5, 4096, 64);
    pair_do(a, &wr);
    wc = pair_completion(b->cq);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert(wc.wc_flags & IBV_WC_WITH_IMM);
    ck_assert_uint_eq(be32toh(wc.imm_data), 0x01020304);
    ck_assert_uint_eq(b->memory[63], 0x77);
}
END_TEST

START_TEST(a_wrong_key_ends_the_connection)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_READ, &sge, 0, 64), *bad;
    struct ibv_async_event event;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc;

    wr.wr.rdma.rkey ^= 0xff;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    wc = pair_completion(a->cq);
    ck_assert_int_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
    event = pair_async_event(pair.context);
    ck_assert_int_eq(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    ck_assert_ptr_eq(event.element.qp, b->qp);
    ibv_ack_async_event(&event);
    ck_assert(tc_until(atomic_load(&b->ended), PAIR_MS));
    ck_assert_int_eq(ibv_query_qp(b->qp, &attr, IBV_QP_STATE, &init), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
}
END_TEST

static int change_rights(int access)
{
    return ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access);
}

static void write_value(uint8_t value)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge, 0, 100);

    memset(a->memory, value, 100);
    pair_do(a, &wr);
    ck_assert(tc_until(placed(99) == value, PAIR_MS));
}

/* As with an adapter, the peer goes on with the rkey that it was told. */
START_TEST(other_rights_keep_the_keys)
{
    const uint32_t lkey = b->mr->lkey, rkey = b->mr->rkey;
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_READ, &sge, 0, 64), *bad;

    write_value(0x51);
    ck_assert_int_eq(change_rights(IBV_ACCESS_LOCAL_WRITE), 0);
    ck_assert(b->mr->lkey == lkey && b->mr->rkey == rkey);
    ck_assert_int_eq(change_rights(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), 0);
    ck_assert(b->mr->lkey == lkey && b->mr->rkey == rkey);
    write_value(0x52);
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    ck_assert_int_eq(pair_completion(a->cq).status, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

/* --- windows --- */

static struct ibv_mw_bind_info bind_info(uint32_t offset, uint32_t length)
{
    return (struct ibv_mw_bind_info){ .mr = b->mr,
                                      .addr = (uintptr_t)b->memory + offset,
                                      .length = length,
                                      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
}

static void write_through(uint32_t rkey, uint8_t value)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &sge, 1000, 100);

    memset(a->memory, value, 100);
    wr.wr.rdma.rkey = rkey;
    pair_do(a, &wr);
    ck_assert(tc_until(placed(1099) == value, PAIR_MS));
}

START_TEST(a_window_of_type_1_is_bound_by_call)
{
    struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = { .wr_id = 3,
                                .send_flags = IBV_SEND_SIGNALED,
                                .bind_info = bind_info(1000, 100) };
    uint32_t rkey;
    struct ibv_wc wc;

    ck_assert_ptr_nonnull(mw);
    rkey = mw->rkey;
    ck_assert_int_eq(ibv_bind_mw(b->qp, mw, &bind), 0);
    ck_assert_uint_ne(mw->rkey, rkey);
    wc = pair_completion(b->cq);
    ck_assert_int_eq(wc.opcode, IBV_WC_BIND_MW);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.wr_id, 3);
    write_through(mw->rkey, 0x31);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
}
END_TEST

/* The program chooses its key, and a request invalidates it. */
START_TEST(a_window_of_type_2_is_bound_by_request)
{
    struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
    struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
    struct ibv_mw_bind bind = { .bind_info = bind_info(1000, 100) };

    ck_assert_ptr_nonnull(mw);
    ck_assert_int_eq(ibv_bind_mw(b->qp, mw, &bind), EINVAL);
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 77) & 0xff);
    wr.bind_mw.bind_info = bind.bind_info;
    pair_do(b, &wr);
    write_through(wr.bind_mw.rkey, 0x32);
    wr = (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV,
                               .invalidate_rkey = wr.bind_mw.rkey,
                               .send_flags = IBV_SEND_SIGNALED };
    pair_do(b, &wr);
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ~mw->rkey;
    wr.bind_mw.bind_info = bind.bind_info;
    ck_assert_int_eq(ibv_post_send(b->qp, &wr, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
}
END_TEST

START_TEST(a_send_invalidates_a_window)
{
    struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
    struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    struct ibv_sge sge;
    struct ibv_wc wc;

    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = bind_info(0, 64);
    pair_do(b, &wr);
    pair_post_receive(b, 9, 4096, 64);
    wr = pair_request(a, IBV_WR_SEND_WITH_INV, &sge, 0, 16);
    wr.invalidate_rkey = rkey;
    pair_do(a, &wr);
    wc = pair_completion(b->cq);
    check_received(&wc, 9, 16);
    ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_INV);
    ck_assert_uint_eq(wc.invalidated_rkey, rkey);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
}
END_TEST

/* --- life cycles --- */

START_TEST(a_reset_forgets_and_the_qp_connects_again)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    uint32_t numbers[2] = { a->qp->qp_num, b->qp->qp_num };
    struct ibv_wc wc;

    pair_post_receive(a, 1, 0, 64);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ibv_modify_qp(pair.side[i].qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_eq(ibv_poll_cq(a->cq, 1, &wc), 0);
    pair_connect();
    ck_assert_uint_eq(a->qp->qp_num, numbers[0]);
    ck_assert_uint_eq(b->qp->qp_num, numbers[1]);
    ck_assert_int_eq(ibv_poll_cq(a->cq, 1, &wc), 0);
    send_fills_receive();
}
END_TEST

START_TEST(a_shared_queue_serves_its_qps)
{
    struct ibv_srq_attr limit = { .srq_limit = 2 };
    struct ibv_async_event event;
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, 10);
    struct ibv_wc wc;

    for (uint32_t i = 0; i < 3; i++)
        pair_post_receive(b, i, i * 64, 64);
    ck_assert_int_eq(ibv_modify_srq(b->srq, &limit, IBV_SRQ_LIMIT), 0);
    for (uint32_t i = 0; i < 2; i++) {
        pair_do(a, &wr);
        wc = pair_completion(b->cq);
        check_received(&wc, i, 10);
    }
    event = pair_async_event(pair.context);
    ck_assert_int_eq(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    ck_assert_ptr_eq(event.element.srq, b->srq);
    ibv_ack_async_event(&event);
    ck_assert_int_eq(ibv_destroy_srq(b->srq), EBUSY);
}
END_TEST

START_TEST(two_kinds_of_events_of_one_qp_are_told)
{
    const enum ibv_event_type types[] = { IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_LAST_WQE_REACHED };
    struct ibv_sge sge;
    struct ibv_send_wr wr = remote(IBV_WR_RDMA_READ, &sge, 0, 64), *bad;
    struct ibv_async_event event;

    wr.wr.rdma.rkey ^= 0xff;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    ck_assert(tc_until(atomic_load(&b->ended), PAIR_MS));
    ck_assert_int_eq(fcntl(pair.context->async_fd, F_SETFL, O_NONBLOCK), 0);
    for (int i = 0; i < 2;) {
        ck_assert(tc_until(ibv_get_async_event(pair.context, &event) == 0, PAIR_MS));
        if (event.element.qp == b->qp)
            ck_assert_int_eq(event.event_type, types[i++]);
        ibv_ack_async_event(&event);
    }
}
END_TEST

/* --- member by member --- */

START_TEST(an_extended_cq_is_read_member_by_member)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(pair.context, &attr);
    struct ibv_qp_init_attr init = { .send_cq = ibv_cq_ex_to_cq(cq),
                                     .recv_cq = ibv_cq_ex_to_cq(cq),
                                     .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 4, .max_recv_wr = 4 } };
    struct ibv_qp *qp = ibv_create_qp(pair.pd, &init);
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
    struct ibv_poll_cq_attr none = { 0 }, unknown = { .comp_mask = 1 };
    struct ibv_recv_wr wr[2] = { { .wr_id = 1, .next = &wr[1] }, { .wr_id = 2 } }, *bad;

    ck_assert_int_eq(ibv_start_poll(cq, &none), ENOENT);
    ck_assert_int_eq(ibv_start_poll(cq, &unknown), EINVAL);
    ck_assert_int_eq(ibv_post_recv(qp, wr, &bad), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
    ck_assert(tc_until(ibv_start_poll(cq, &none) == 0, PAIR_MS));
    ck_assert_uint_eq(cq->wr_id, 1);
    ck_assert_int_eq(cq->status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    ck_assert_uint_eq(ibv_wc_read_qp_num(cq), qp->qp_num);
    ck_assert_uint_eq(ibv_wc_read_byte_len(cq), 0);
    ck_assert_uint_eq(ibv_wc_read_wc_flags(cq), 0);
    ck_assert(tc_until(ibv_next_poll(cq) == 0, PAIR_MS));
    ck_assert_uint_eq(cq->wr_id, 2);
    ck_assert_int_eq(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}
END_TEST

/* --- ibv_wr_* --- */

START_TEST(requests_are_built_call_by_call)
{
    struct ibv_qp_ex *qp = a->qp_ex;
    uint8_t data[24];
    struct ibv_data_buf buffers[2] = { { data, 16 }, { data + 16, 8 } };
    struct ibv_wc wc;

    memset(a->memory, 0x51, 100);
    memset(data, 0x52, sizeof(data));
    pair_post_receive(b, 1, 0, 200);
    pair_post_receive(b, 2, 200, 200);
    ibv_wr_start(qp);
    qp->wr_id = 10;
    qp->wr_flags = 0;
    ibv_wr_rdma_write(qp, b->mr->rkey, (uintptr_t)b->memory + 1000);
    ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 100);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, 2, buffers);
    qp->wr_id = 11;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, data, 5);
    ck_assert_int_eq(ibv_wr_complete(qp), 0);
    memset(data, 0, sizeof(data));
    wc = pair_completion(a->cq);
    ck_assert_uint_eq(wc.wr_id, 11);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    wc = pair_completion(b->cq);
    check_received(&wc, 1, 24);
    wc = pair_completion(b->cq);
    check_received(&wc, 2, 5);
    ck_assert_uint_eq(b->memory[1099], 0x51);
    ck_assert_uint_eq(b->memory[23], 0x52);
    ck_assert_uint_eq(b->memory[204], 0x52);
}
END_TEST

START_TEST(an_abort_and_an_error_post_nothing)
{
    struct ibv_qp_ex *qp = a->qp_ex;
    static uint8_t large[1000];
    struct ibv_wc wc;

    pair_post_receive(b, 1, 0, 200);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, large, sizeof(large));
    ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, large, 5);
    ibv_wr_set_inline_data(qp, large, 5); /* a request has one setter of data */
    ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    for (uint32_t i = 0; i < 10000; i++)
        ibv_wr_send(qp);
    ck_assert_int_eq(ibv_wr_complete(qp), ENOMEM);
    qp->wr_id = 4;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 30);
    ck_assert_int_eq(ibv_wr_complete(qp), 0);
    wc = pair_completion(a->cq);
    ck_assert_uint_eq(wc.wr_id, 4);
    wc = pair_completion(b->cq);
    check_received(&wc, 1, 30);
}
END_TEST

START_TEST(a_window_is_bound_and_invalidated_call_by_call)
{
    struct ibv_qp_ex *qp = b->qp_ex;
    struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info info = bind_info(1000, 100);
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    struct ibv_wc wc;

    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, mw, rkey, &info);
    ck_assert_int_eq(ibv_wr_complete(qp), 0);
    wc = pair_completion(b->cq);
    ck_assert_int_eq(wc.opcode, IBV_WC_BIND_MW);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    write_through(rkey, 0x61);
    ibv_wr_start(qp);
    ibv_wr_local_inv(qp, rkey);
    ck_assert_int_eq(ibv_wr_complete(qp), 0);
    wc = pair_completion(b->cq);
    ck_assert_int_eq(wc.opcode, IBV_WC_LOCAL_INV);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libibverbs: traffic");
    TCase *plain = tc_case(suite, "plain", set_up, pair_close);
    TCase *shared = tc_case(suite, "shared", set_up_shared, pair_close);
    TCase *extended = tc_case(suite, "extended", set_up_extended, pair_close);

    tc_add_tests(plain, a_send_fills_the_receive, a_long_list_arrives_in_order,
                 receives_are_flushed_in_order, many_completions_are_taken_by_one_poll,
                 a_full_queue_names_the_request_that_it_refused, a_wrong_request_ends_its_list,
                 inline_data_is_taken_by_the_post, inline_data_beyond_the_room_is_refused,
                 a_write_places_and_a_read_fetches, a_region_is_addressed_by_its_iova,
                 a_region_is_addressed_from_0, atomics_return_what_was_there,
                 an_atomic_uses_eight_octets_of_a_longer_element,
                 an_atomic_on_an_unaligned_word_is_an_invalid_request,
                 a_write_with_immediate_takes_a_receive, a_wrong_key_ends_the_connection,
                 other_rights_keep_the_keys, a_window_of_type_1_is_bound_by_call,
                 a_window_of_type_2_is_bound_by_request, a_send_invalidates_a_window,
                 a_reset_forgets_and_the_qp_connects_again,
                 an_extended_cq_is_read_member_by_member);
    tc_add_tests(shared, a_shared_queue_serves_its_qps, two_kinds_of_events_of_one_qp_are_told);
    tc_add_tests(extended, requests_are_built_call_by_call,
                 an_atomic_call_uses_eight_octets_of_a_longer_element,
                 an_abort_and_an_error_post_nothing,
                 a_window_is_bound_and_invalidated_call_by_call);
    return tc_main(suite);
}
