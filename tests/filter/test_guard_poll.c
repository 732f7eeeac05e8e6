/* SPDX-License-Identifier: BSD-3-Clause
 * Polls through the filter `guard`, over a provider that does what the test says: also the provider
 * that keeps the rules, while other threads post, poll and destroy. */
#include "fake_host.h"

#include "tc.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* ---- the provider below ---- */

static struct {
    struct ri_rnic rnic;
    struct ri_pd pd;
    struct ri_cq cq;
    struct ri_qp qps[2];
    unsigned int made, polls;
    uint32_t (*poll)(uint32_t count, struct ri_wc *wc);
    void (*posted)(void); /* inside the next post; NULL: nothing */
} below;

static enum ri_status below_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    (void)open;
    *rnic = &below.rnic;
    return RI_OK;
}

static enum ri_status below_close(struct ri_rnic *rnic, bool force)
{
    (void)rnic;
    (void)force;
    return RI_OK;
}

static enum ri_status below_pd(struct ri_rnic *rnic, void *context, struct ri_pd **pd)
{
    (void)rnic;
    (void)context;
    *pd = &below.pd;
    return RI_OK;
}

static enum ri_status below_pd_destroy(struct ri_pd *pd)
{
    (void)pd;
    return RI_OK;
}

static enum ri_status below_cq(struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq);
static enum ri_status below_cq_destroy(struct ri_cq *cq)
{
    (void)cq;
    return RI_OK;
}

static enum ri_status below_qp(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp);
static enum ri_status below_qp_destroy(struct ri_qp *qp)
{
    (void)qp;
    return RI_OK;
}

static enum ri_status below_post(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    void (*posted)(void) = below.posted;

    (void)qp;
    (void)wr;
    (void)bad;
    below.posted = NULL;
    if (posted)
        posted();
    return RI_OK;
}

static uint32_t below_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    (void)cq;
    ck_assert_uint_lt(++below.polls, 10000); /* a poll that does not end */
    return below.poll(count, wc);
}

static const struct ri_privileged_ops below_control = {
    .size = sizeof(below_control),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .open = below_open,
    .close = below_close,
    .pd_create = below_pd,
    .pd_destroy = below_pd_destroy,
    .cq_create = below_cq,
    .cq_destroy = below_cq_destroy,
    .qp_create = below_qp,
    .qp_destroy = below_qp_destroy,
};

static const struct ri_user_ops below_data = {
    .size = sizeof(below_data),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = below_post,
    .poll = below_poll,
};

static enum ri_status below_cq(struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    (void)rnic;
    below.cq = (struct ri_cq){ .ops = &below_data, .context = attr->context };
    *cq = &below.cq;
    return RI_OK;
}

static enum ri_status below_qp(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
{
    (void)pd;
    ck_assert_uint_lt(below.made, COUNT(below.qps));
    *qp = &below.qps[below.made++];
    **qp = (struct ri_qp){ .ops = &below_data, .context = attr->context };
    return RI_OK;
}

/* ---- over it ---- */

static unsigned int logged;
static char line[300];

static void note(const struct ri_host *host, enum ri_log_level level, const char *format,
                 va_list args)
{
    (void)host;
    (void)level;
    vsnprintf(line, sizeof(line), format, args);
    logged++;
}

static struct fake_host fake;
static const struct ri_lower lower = {
    .size = sizeof(lower), .privileged = &below_control, .user = &below_data, .provider = "liar"
};
static const struct ri_privileged_ops *control;
static struct ri_rnic *rnic;
static struct ri_pd *pd;
static struct ri_cq *cq;
static int context;

static void setup(void)
{
    const struct ri_open open = { .size = sizeof(open),
                                  .host = &fake.host,
                                  .privileged = rnicpi_provider_v1.privileged,
                                  .user = rnicpi_provider_v1.user,
                                  .lower = &lower };
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 64 };

    fake_host_init(&fake, NULL, false);
    fake.host.log = note;
    memset(&below, 0, sizeof(below));
    below.rnic.ops = &below_control;
    control = rnicpi_provider_v1.privileged;
    ck_assert_int_eq(control->open(&open, &rnic), RI_OK);
    ck_assert_int_eq(control->pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(control->cq_create(rnic, &attr, &cq), RI_OK);
}

static void teardown(void)
{
    ck_assert_int_eq(control->cq_destroy(cq), RI_OK);
    ck_assert_int_eq(control->pd_destroy(pd), RI_OK);
    ck_assert_int_eq(control->close(rnic, false), RI_OK);
    fake_host_free(&fake);
}

static struct ri_qp *make(void)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr), .context = &context, .send_cq = cq, .recv_cq = cq
    };
    struct ri_qp *qp;

    ck_assert_int_eq(control->qp_create(pd, &attr, &qp), RI_OK);
    return qp;
}

static void destroy(struct ri_qp *qp)
{
    ck_assert_int_eq(control->qp_destroy(qp), RI_OK);
}

static void post(struct ri_qp *qp, uint64_t cookie, uint16_t flags)
{
    struct ri_send_wr wr = { .cookie = cookie, .opcode = RI_WR_SEND, .flags = flags }, *bad;

    ck_assert_int_eq(ri_qp_ops(qp)->post_send(qp, &wr, &bad), RI_OK);
}

/* What the next polls bring, one completion each. */
static struct {
    struct ri_wc wc[8];
    unsigned int count, next;
} due;

static uint32_t poll_due(uint32_t count, struct ri_wc *wc)
{
    if (!count || due.next == due.count)
        return 0;
    *wc = due.wc[due.next++];
    return 1;
}

static void completes(uint64_t cookie, uint16_t status)
{
    below.poll = poll_due;
    if (due.next == due.count)
        due.next = due.count = 0;
    ck_assert_uint_lt(due.count, COUNT(due.wc));
    due.wc[due.count++] = (struct ri_wc){
        .context = &context, .cookie = cookie, .status = status, .opcode = RI_WC_SEND
    };
}

/* The completions that come up are these, in order; 0: no further one. */
static void expect(const uint64_t *cookies)
{
    struct ri_wc wc;

    for (; *cookies; cookies++) {
        ck_assert_uint_eq(cq->ops->poll(cq, 1, &wc), 1);
        ck_assert_uint_eq(wc.cookie, *cookies);
    }
    ck_assert_uint_eq(cq->ops->poll(cq, 1, &wc), 0);
}
#define EXPECT(...) expect((const uint64_t[]){ __VA_ARGS__, 0 })

/* ---- a provider that lies ---- */

/* First one that is true, then completions of nobody for ever. */
static uint32_t flood(uint32_t count, struct ri_wc *wc)
{
    for (uint32_t i = 0; i < count; i++)
        wc[i] = (struct ri_wc){ .context = &below, .cookie = i };
    if (below.polls == 1)
        wc[0] = (struct ri_wc){ .context = &context, .cookie = 1, .opcode = RI_WC_SEND };
    return count;
}

START_TEST(lies_without_end_do_not_hold_a_poll)
{
    struct ri_qp *qp = make();
    struct ri_wc wc[64];

    post(qp, 1, RI_WR_SIGNALED);
    below.poll = flood;
    ck_assert_uint_eq(cq->ops->poll(cq, COUNT(wc), wc), 1);
    ck_assert_uint_eq(wc[0].cookie, 1);
    ck_assert_uint_eq(logged, 1);
    ck_assert_ptr_nonnull(strstr(line, "provider liar gives a completion of a queue pair"));
    destroy(qp);
}
END_TEST

START_TEST(a_second_completion_is_dropped)
{
    struct ri_qp *qp = make();

    post(qp, 1, RI_WR_SIGNALED);
    post(qp, 2, RI_WR_SIGNALED);
    completes(1, RI_WC_SUCCESS);
    completes(1, RI_WC_SUCCESS);
    completes(2, RI_WC_SUCCESS);
    EXPECT(1, 2);
    ck_assert_uint_eq(logged, 1);
    destroy(qp);
}
END_TEST

/* ---- one that keeps the rules, and threads ---- */

static struct ri_qp *going;

static uint32_t poll_while_it_goes(uint32_t count, struct ri_wc *wc)
{
    ck_assert_uint_ge(count, 1);
    if (!going)
        return 0;
    *wc = (struct ri_wc){ .context = &context, .cookie = 1, .opcode = RI_WC_SEND };
    destroy(going); /* another thread's call; this poll has begun before */
    going = NULL;
    return 1;
}

START_TEST(a_queue_pair_goes_while_its_completion_is_polled)
{
    going = make();
    post(going, 1, RI_WR_SIGNALED);
    below.poll = poll_while_it_goes;
    expect((const uint64_t[]){ 0 });
    ck_assert_uint_eq(logged, 0);
}
END_TEST

/* The host makes the new one first, with the same context; it may also go first. */
START_TEST(a_queue_pair_is_made_anew)
{
    struct ri_qp *old = make(), *fresh;

    post(old, 1, RI_WR_SIGNALED);
    post(old, 2, RI_WR_SIGNALED);
    post(old, 3, RI_WR_SIGNALED);
    fresh = make();
    completes(1, RI_WC_SUCCESS);
    EXPECT(1);
    destroy(_i ? fresh : old);
    if (_i) {
        completes(2, RI_WC_SUCCESS);
        EXPECT(2);
    } else {
        post(fresh, 4, RI_WR_SIGNALED);
        completes(4, RI_WC_SUCCESS);
        EXPECT(4);
    }
    ck_assert_uint_eq(logged, 0);
    completes(_i ? 4 : 3, RI_WC_SUCCESS);
    expect((const uint64_t[]){ 0 });
    ck_assert_uint_eq(logged, 1);
    destroy(_i ? old : fresh);
}
END_TEST

/* The completion of the second one is polled by another thread, and comes up first. */
START_TEST(failures_in_any_order)
{
    struct ri_qp *qp = make();

    post(qp, 1, 0);
    post(qp, 2, RI_WR_SIGNALED);
    completes(2, RI_WC_FLUSHED);
    completes(1, RI_WC_FLUSHED);
    EXPECT(2, 1);
    ck_assert_uint_eq(logged, 0);
    destroy(qp);
}
END_TEST

static struct ri_qp *shared;

static void post_the_second(void)
{
    post(shared, 2, RI_WR_SIGNALED);
}

/* Inside the post of the first one: below, it is the second one that goes first. */
START_TEST(posts_at_the_same_time)
{
    shared = make();
    below.posted = post_the_second;
    post(shared, 1, 0);
    completes(2, RI_WC_SUCCESS);
    completes(1, RI_WC_FLUSHED);
    EXPECT(2, 1);
    ck_assert_uint_eq(logged, 0);
    destroy(shared);
}
END_TEST

START_TEST(unsignalled_requests_with_the_cookie_of_others)
{
    struct ri_qp *qp = make();

    post(qp, 7, 0);
    post(qp, 7, RI_WR_SIGNALED);
    completes(7, RI_WC_SUCCESS);
    completes(7, RI_WC_SUCCESS);
    EXPECT(7);
    ck_assert_uint_eq(logged, 1);
    destroy(qp);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("filter: guard, polls");
    TCase *tc = tc_case(suite, "threads", setup, teardown);

    tc_add_tests(tc_case(suite, "lies", setup, teardown), lies_without_end_do_not_hold_a_poll,
                 a_second_completion_is_dropped);
    tc_add_tests(tc, a_queue_pair_goes_while_its_completion_is_polled, failures_in_any_order,
                 posts_at_the_same_time, unsignalled_requests_with_the_cookie_of_others);
    tcase_add_loop_test(tc, a_queue_pair_is_made_anew, 0, 2);
    return tc_main(suite);
}
