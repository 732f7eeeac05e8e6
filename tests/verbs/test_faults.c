/* SPDX-License-Identifier: BSD-3-Clause
 * The filter `fault` under libibverbs: a program meets each fault of a script, and the same ones
 * again by the same seed. */
#include "verbs_pair.h"

/* Devices that are opened from now on are opened over this script. The variable is read once, the
 * file at each opening. */
static void use_script(const char *text)
{
    static char path[200];
    char filter[220];
    FILE *file;

    if (!*path)
        snprintf(path, sizeof(path), "%s/script", tc_tempdir());
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    snprintf(filter, sizeof(filter), "fault:%s", path);
    ck_assert_int_eq(setenv("ITAL_FILTER", filter, 1), 0);
}

static void open_over(const char *script, bool shared)
{
    use_script(script);
    pair_open(shared, false);
    pair_connect();
}

static int send_one(uint64_t wr_id, uint32_t length)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, length), *bad;

    wr.wr_id = wr_id;
    return ibv_post_send(a->qp, &wr, &bad);
}

/* A signaled one-sided request of 8 octets. */
static int post_onesided(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, opcode, &sge, 0, 8), *bad;

    wr.wr_id = wr_id;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)b->memory;
        wr.wr.atomic.rkey = b->mr->rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
        wr.wr.rdma.rkey = b->mr->rkey;
    }
    return ibv_post_send(a->qp, &wr, &bad);
}

static void expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
    struct ibv_wc wc = pair_completion(cq);

    ck_assert_uint_eq(wc.wr_id, wr_id);
    ck_assert_msg(wc.status == status, "request %llu: %s, not %s", (unsigned long long)wr_id,
                  ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

/* ---- completion errors ---- */

static const struct {
    const char *name;
    enum ibv_wc_status status;
} statuses[] = {
    { "local_length", IBV_WC_LOC_LEN_ERR },
    { "local_qp", IBV_WC_LOC_QP_OP_ERR },
    { "local_protection", IBV_WC_LOC_PROT_ERR },
    { "bind", IBV_WC_MW_BIND_ERR },
    { "bad_response", IBV_WC_BAD_RESP_ERR },
    { "remote_access", IBV_WC_REM_ACCESS_ERR },
    { "remote_operation", IBV_WC_REM_OP_ERR },
    { "remote_invalid_request", IBV_WC_REM_INV_REQ_ERR },
    { "transport", IBV_WC_RETRY_EXC_ERR },
    { "rnr", IBV_WC_RNR_RETRY_EXC_ERR },
    { "general", IBV_WC_GENERAL_ERR },
};

/* The requests before it succeed; those behind it are flushed, and so are receives. */
START_TEST(a_send_completes_with_each_status)
{
    char script[100];

    snprintf(script, sizeof(script), "error send %s at 3 qp 1\n", statuses[_i].name);
    open_over(script, false);
    for (uint64_t i = 1; i <= 5; i++)
        pair_post_receive(b, i, 0, 100);
    for (uint64_t i = 1; i <= 5; i++)
        ck_assert_int_eq(send_one(i, 100), 0);
    expect(a->cq, 1, IBV_WC_SUCCESS);
    expect(a->cq, 2, IBV_WC_SUCCESS);
    expect(a->cq, 3, statuses[_i].status);
    expect(a->cq, 4, IBV_WC_WR_FLUSH_ERR);
    expect(a->cq, 5, IBV_WC_WR_FLUSH_ERR);
    expect(b->cq, 1, IBV_WC_SUCCESS);
    expect(b->cq, 2, IBV_WC_SUCCESS);
    pair_close();
}
END_TEST

static const struct {
    const char *name;
    enum ibv_wr_opcode opcode;
} onesided[] = {
    { "write", IBV_WR_RDMA_WRITE },
    { "read", IBV_WR_RDMA_READ },
    { "atomic", IBV_WR_ATOMIC_FETCH_AND_ADD },
    { "posted", IBV_WR_RDMA_WRITE },
};

START_TEST(each_kind_of_request_can_fail)
{
    char script[100];

    snprintf(script, sizeof(script), "error %s remote_access at 2\n", onesided[_i].name);
    open_over(script, false);
    ck_assert_int_eq(post_onesided(onesided[_i].opcode, 1), 0);
    expect(a->cq, 1, IBV_WC_SUCCESS);
    for (uint64_t i = 2; i <= 3; i++)
        ck_assert_int_eq(post_onesided(onesided[_i].opcode, i), 0);
    expect(a->cq, 2, IBV_WC_REM_ACCESS_ERR);
    expect(a->cq, 3, IBV_WC_WR_FLUSH_ERR);
    pair_close();
}
END_TEST

static void receive_fails(const char *script, bool shared)
{
    open_over(script, shared);
    for (uint64_t i = 1; i <= 3; i++)
        pair_post_receive(b, i, 0, 100);
    ck_assert_int_eq(send_one(1, 100), 0);
    expect(b->cq, 1, IBV_WC_SUCCESS);
    ck_assert_int_eq(send_one(2, 100), 0);
    expect(b->cq, 2, IBV_WC_LOC_LEN_ERR);
    if (!shared)
        expect(b->cq, 3, IBV_WC_WR_FLUSH_ERR);
    ck_assert(tc_until(atomic_load(&a->ended) != 0, PAIR_MS));
    pair_close();
}

START_TEST(a_receive_completes_in_error)
{
    receive_fails("error receive local_length at 2 qp 2\n", false);
}
END_TEST

START_TEST(a_receive_of_a_shared_queue_completes_in_error)
{
    receive_fails("error receive local_length at 2\n", true);
}
END_TEST

/* An unsignaled request that fails makes a completion, as always. */
START_TEST(an_unsignaled_request_fails_aloud)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr, *bad;

    open_over("error write remote_access at 2\n", false);
    wr = pair_request(a, IBV_WR_RDMA_WRITE, &sge, 0, 8);
    wr.send_flags = 0;
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = b->mr->rkey;
    for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++)
        ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    expect(a->cq, 2, IBV_WC_REM_ACCESS_ERR);
    pair_close();
}
END_TEST

/* Equal wr_ids are told apart by their order. */
START_TEST(the_request_is_found_among_equal_ones)
{
    open_over("error write remote_access at 3\n", false);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, 7), 0);
    expect(a->cq, 7, IBV_WC_SUCCESS);
    expect(a->cq, 7, IBV_WC_SUCCESS);
    expect(a->cq, 7, IBV_WC_REM_ACCESS_ERR);
    expect(a->cq, 7, IBV_WC_WR_FLUSH_ERR);
    pair_close();
}
END_TEST

START_TEST(what_is_flushed_remains_so)
{
    open_over("error write remote_access at 2\nerror write general at 3\n", false);
    for (uint64_t i = 1; i <= 3; i++)
        ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, i), 0);
    expect(a->cq, 1, IBV_WC_SUCCESS);
    expect(a->cq, 2, IBV_WC_REM_ACCESS_ERR);
    expect(a->cq, 3, IBV_WC_WR_FLUSH_ERR);
    pair_close();
}
END_TEST

/* The rule was for the request that the provider did not take. */
START_TEST(a_refused_request_leaves_nothing_to_the_next)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr, *bad;

    open_over("delay send 3600s at 1 qp 1\n", false);
    wr = pair_request(a, IBV_WR_SEND, &sge, 0, 8);
    wr.wr_id = 7;
    wr.num_sge = 1000;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), EINVAL);
    pair_post_receive(b, 1, 0, 100);
    ck_assert_int_eq(send_one(7, 8), 0);
    expect(a->cq, 7, IBV_WC_SUCCESS);
    pair_close();
}
END_TEST

/* ---- delays ---- */

#define DELAY_NS UINT64_C(60000000)

START_TEST(a_completion_comes_late_and_in_order)
{
    uint64_t start, first;

    open_over("delay write 60ms at 2 qp 1\n", false);
    start = tc_now_ns();
    for (uint64_t i = 1; i <= 3; i++)
        ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, i), 0);
    expect(a->cq, 1, IBV_WC_SUCCESS);
    first = tc_now_ns();
    expect(a->cq, 2, IBV_WC_SUCCESS);
    ck_assert_uint_ge(tc_now_ns() - first + (first - start), DELAY_NS);
    expect(a->cq, 3, IBV_WC_SUCCESS);
    pair_close();
}
END_TEST

/* A program that sleeps in the channel wakes when the completion is due, and finds it. */
START_TEST(a_sleeper_wakes_when_the_completion_is_due)
{
    uint64_t start;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    open_over("delay write 60ms from 1 qp 1\n", false);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(ibv_req_notify_cq(a->cq, 0), 0);
        start = tc_now_ns();
        ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, i), 0);
        ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
        ck_assert_ptr_eq(cq, a->cq);
        ck_assert_uint_ge(tc_now_ns() - start, DELAY_NS);
        ibv_ack_cq_events(cq, 1);
        ck_assert_int_eq(ibv_poll_cq(a->cq, 1, &wc), 1);
        ck_assert_uint_eq(wc.wr_id, i);
    }
    pair_close();
}
END_TEST

/* What is held belongs to a QP that goes. */
START_TEST(a_destroyed_qp_takes_its_held_completion_along)
{
    struct ibv_wc wc;

    open_over("delay write 3600s at 1 qp 1\n", false);
    ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, 1), 0);
    ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, 2), 0);
    ck_assert(!tc_until(ibv_poll_cq(a->cq, 1, &wc) != 0, 50));
    pair_close();
}
END_TEST

/* ---- lost connections ---- */

START_TEST(a_connection_is_lost_before_a_request)
{
    struct ibv_wc wc;

    open_over("drop at 4 qp 1\n", false);
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, i), 0);
        expect(a->cq, i, IBV_WC_SUCCESS);
    }
    ck_assert_int_eq(post_onesided(IBV_WR_RDMA_WRITE, 4), 0);
    wc = pair_completion(a->cq);
    ck_assert_uint_eq(wc.wr_id, 4);
    ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
    ck_assert(tc_until(atomic_load(&b->ended) != 0, PAIR_MS));
    pair_close();
}
END_TEST

/* Sends up to `most` times 100 octets; returns how often it succeeded. */
static unsigned send_until_lost(unsigned most)
{
    unsigned done = 0;
    struct ibv_wc wc;

    for (unsigned i = 1; i <= most; i++)
        pair_post_receive(b, i, 0, 100);
    do {
        ck_assert_int_eq(send_one(1, 100), 0);
        wc = pair_completion(a->cq);
    } while (wc.status == IBV_WC_SUCCESS && ++done < most);
    return done;
}

static void connect_again(void)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

    ck_assert_int_eq(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_eq(ibv_modify_qp(b->qp, &attr, IBV_QP_STATE), 0);
    pair_connect();
}

START_TEST(a_connection_is_lost_after_some_octets)
{
    open_over("drop after 1k qp 1\n", false);
    ck_assert_uint_eq(send_until_lost(20), 10);
    connect_again();
    ck_assert_uint_eq(send_until_lost(20), 10);
    pair_close();
}
END_TEST

START_TEST(octets_of_an_earlier_connection_do_not_count)
{
    open_over("drop after 1k qp 1\n", false);
    ck_assert_uint_eq(send_until_lost(5), 5);
    connect_again();
    ck_assert_uint_eq(send_until_lost(20), 10);
    pair_close();
}
END_TEST

/* ---- calls ---- */

START_TEST(calls_fail_as_the_script_says)
{
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    char memory[64];

    use_script("# every second region\nfail mr_register no_resources every 2 from 2 times 2\n"
               "fail pd_create permission at 2\n");
    context = pair_open_context();
    pd = ibv_alloc_pd(context);
    ck_assert_ptr_nonnull(pd);
    errno = 0;
    ck_assert_ptr_null(ibv_alloc_pd(context));
    ck_assert_int_eq(errno, EACCES);
    for (unsigned i = 1; i <= 8; i++) {
        errno = 0;
        mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
        ck_assert_msg((mr == NULL) == (i == 2 || i == 4), "region %u", i);
        if (mr)
            ck_assert_int_eq(ibv_dereg_mr(mr), 0);
        else
            ck_assert_int_eq(errno, ENOMEM);
    }
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    ck_assert_int_eq(ibv_close_device(context), 0);
}
END_TEST

START_TEST(a_post_that_fails_names_its_request)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr, *bad = NULL;

    open_over("fail post_send queue_full at 1\n", false);
    wr = pair_request(a, IBV_WR_SEND, &sge, 0, 10);
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), ENOMEM);
    ck_assert_ptr_eq(bad, &wr);
    pair_post_receive(b, 1, 0, 100);
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    expect(a->cq, 0, IBV_WC_SUCCESS);
    pair_close();
}
END_TEST

/* ---- seeds ---- */

#define TRIES 200u

static void pattern(const char *script, char seen[TRIES + 1])
{
    struct ibv_context *context;
    struct ibv_pd *pd;

    use_script(script);
    context = pair_open_context();
    for (unsigned i = 0; i < TRIES; i++) {
        pd = ibv_alloc_pd(context);
        seen[i] = pd ? '.' : 'x';
        if (pd)
            ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    }
    seen[TRIES] = '\0';
    ck_assert_int_eq(ibv_close_device(context), 0);
}

START_TEST(a_seed_gives_the_same_faults_again)
{
    char first[TRIES + 1], again[TRIES + 1], other[TRIES + 1];

    pattern("seed 7\nfail pd_create no_resources chance 30%\n", first);
    pattern("seed 7\nfail pd_create no_resources chance 30%\n", again);
    ck_assert_str_eq(first, again);
    ck_assert_ptr_nonnull(strchr(first, 'x'));
    ck_assert_ptr_nonnull(strchr(first, '.'));
    pattern("seed 8\nfail pd_create no_resources chance 30%\n", other);
    ck_assert_str_ne(first, other);
}
END_TEST

/* ---- nothing else changes ---- */

START_TEST(a_script_that_never_hits_changes_nothing)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr;

    open_over("error posted general at 1000000\ndelay posted 1s at 1000000\ndrop at 1000000\n",
              false);
    for (uint32_t i = 0; i < 200; i++) {
        a->memory[0] = (uint8_t)i;
        pair_post_receive(b, i, 100, 1000);
        wr = pair_request(a, IBV_WR_SEND, &sge, 0, 1 + i);
        wr.wr_id = i;
        pair_do(a, &wr);
        expect(b->cq, i, IBV_WC_SUCCESS);
        ck_assert_uint_eq(b->memory[100], (uint8_t)i);
    }
    pair_close();
}
END_TEST

/* Scripts that are wrong: no device opens. The log lines are judged by faults.tap. */
START_TEST(a_wrong_script_opens_no_device)
{
    struct ibv_device **list;

    use_script("error send nonsense at 3\n");
    list = ibv_get_device_list(NULL);
    ck_assert_ptr_nonnull(list);
    ck_assert_ptr_nonnull(list[0]);
    errno = 0;
    ck_assert_ptr_null(ibv_open_device(list[0]));
    ck_assert_int_ne(errno, 0);
    ibv_free_device_list(list);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libibverbs: faults");
    TCase *all = tc_case(suite, "faults", NULL, NULL);

    tc_add_rows(all, a_send_completes_with_each_status, statuses);
    tc_add_rows(all, each_kind_of_request_can_fail, onesided);
    tc_add_tests(all, a_receive_completes_in_error, a_receive_of_a_shared_queue_completes_in_error,
                 an_unsignaled_request_fails_aloud, the_request_is_found_among_equal_ones,
                 what_is_flushed_remains_so, a_refused_request_leaves_nothing_to_the_next,
                 a_completion_comes_late_and_in_order, a_sleeper_wakes_when_the_completion_is_due,
                 a_destroyed_qp_takes_its_held_completion_along,
                 a_connection_is_lost_before_a_request, a_connection_is_lost_after_some_octets,
                 octets_of_an_earlier_connection_do_not_count, calls_fail_as_the_script_says,
                 a_post_that_fails_names_its_request, a_seed_gives_the_same_faults_again,
                 a_script_that_never_hits_changes_nothing, a_wrong_script_opens_no_device);
    return tc_main(suite);
}
