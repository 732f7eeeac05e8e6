/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: references between objects, handles and completions, attributes, events; rewind and
 * renewal, after which the earlier life is not reported.
 */
#include "device_fixture.h"

#include "tests/ual/fake_kal_private.h"

#include "yields.h"

#include <pthread.h>

static struct ual_cq *cq;
static struct ual_qp *qp;
static int context;

static void setup_cq(void)
{
    setup();
    cq = make_cq(NULL, NULL);
}

static void teardown_cq(void)
{
    ok(ual_cq_free(cq));
    teardown();
}

static void setup_qp(void)
{
    setup_cq();
    qp = make_qp(cq, NULL, &context);
}

static void teardown_qp(void)
{
    ok(ual_qp_free(qp));
    teardown_cq();
}

/* --- life --- */

START_TEST(holds_what_it_uses)
{
    struct ual_cq *recv = make_cq(NULL, NULL);
    struct ual_qp_attr attr = qp_attr(cq);
    struct ual_qp *second;

    attr.recv_cq = recv;
    ok(ual_srq_create(pd, 4, 1, &attr.srq));
    ok(ual_qp_create(pd, &attr, NULL, NULL, &qp));
    ok(ual_qp_create(pd, &attr, NULL, NULL, &second));
    for (unsigned int i = 0; i < 2; i++) {
        fails(ual_pd_free(pd), RI_ERR_BUSY);
        fails(ual_cq_free(cq), RI_ERR_BUSY);
        fails(ual_cq_free(recv), RI_ERR_BUSY);
        fails(ual_srq_free(attr.srq), RI_ERR_BUSY);
        fails(ual_device_close(device), RI_ERR_BUSY);
        ok(ual_qp_free(i ? second : qp));
    }
    ok(ual_srq_free(attr.srq));
    ok(ual_cq_free(recv));
    ok(ual_pd_free(pd));
}
END_TEST

START_TEST(given_what_the_provider_has)
{
    struct ual_qp_attr attr = qp_attr(cq);

    ok(ual_qp_create(pd, &attr, NULL, &context, &qp));
    ck_assert_uint_eq(attr.max_send_wr, 9); /* one more than asked for */
    ck_assert_uint_eq(attr.max_recv_wr, 8);
    ck_assert_uint_eq(fk.qp->attr.max_send_sge, 2);
    ck_assert_uint_eq(fk.qp->attr.ird, 3);
    ck_assert_uint_eq(fk.qp->attr.ord, 4);
    ck_assert_ptr_eq(qp->send_cq, cq);
    ck_assert_ptr_eq(qp->recv_cq, cq);
    ck_assert_ptr_eq(qp->pd, pd);
    ck_assert_ptr_eq(qp->context, &context);
    ok(ual_qp_free(qp));
}
END_TEST

static void refuse(const struct ual_qp_attr *attr, enum ri_status status)
{
    struct ual_qp_attr asked = *attr;
    struct ual_qp *none = NULL;

    fails(ual_qp_create(pd, &asked, NULL, NULL, &none), status);
    ck_assert_ptr_null(none);
    ck_assert_uint_eq(fk.qps, 0);
    ck_assert_mem_eq(&asked, attr, sizeof(asked));
}

START_TEST(a_refused_qp_leaves_nothing)
{
    struct ual_qp_attr attr = qp_attr(cq);
    struct ual_device *second;
    struct ual_pd *other;

    attr.send_cq = NULL;
    refuse(&attr, RI_ERR_INVALID_ARGUMENT);
    attr = qp_attr(NULL);
    attr.send_cq = cq;
    refuse(&attr, RI_ERR_INVALID_ARGUMENT);
    ok(ual_device_open("fake0", NULL, NULL, &second));
    attr.recv_cq = make_cq_of(second, NULL, NULL);
    refuse(&attr, RI_ERR_INVALID_ARGUMENT);
    ok(ual_cq_free(attr.recv_cq));
    close_one(second);
    attr = qp_attr(cq);
    ok(ual_pd_create(device, &other));
    ok(ual_srq_create(other, 4, 1, &attr.srq));
    refuse(&attr, RI_ERR_INVALID_ARGUMENT);
    attr = qp_attr(cq);
    fk_fail(FK_QP_CREATE, RI_ERR_LIMIT);
    refuse(&attr, RI_ERR_LIMIT);
    fk_fail(FK_QP_CREATE, ITAL_ERR_QUOTA);
    refuse(&attr, ITAL_ERR_QUOTA);
    ok(ual_pd_free(pd)); /* no references remain */
    ok(ual_pd_create(device, &pd));
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    refuse(&attr, RI_ERR_DEVICE);
}
END_TEST

START_TEST(one_that_cannot_be_destroyed_remains)
{
    ual_handle handle;

    qp = make_qp(cq, NULL, NULL);
    handle = qp->object.handle;
    fk_fail(FK_QP_DESTROY, RI_ERR_BUSY);
    fails(ual_qp_free(qp), RI_ERR_BUSY);
    ck_assert_ptr_eq(ual_lookup(handle, UAL_QP), qp);
    fails(ual_cq_free(cq), RI_ERR_BUSY);
    post_receive(qp, 1);
    ok(ual_qp_free(qp));
}
END_TEST

START_TEST(part_of_something_larger)
{
    struct {
        struct ual_qp qp;
        int more;
    } larger = { .more = 17 };
    struct ual_qp_attr attr = qp_attr(cq);

    attr.object_type = UAL_TYPE_FRONT + 1;
    ok(ual_qp_open(&larger.qp, pd, &attr, NULL, NULL));
    ck_assert_ptr_eq(ual_lookup(larger.qp.object.handle, UAL_TYPE_FRONT + 1), &larger);
    ck_assert_ptr_null(ual_lookup(larger.qp.object.handle, UAL_QP));
    ok(ual_qp_close(&larger.qp));
    ck_assert_int_eq(larger.more, 17);
    ck_assert_uint_eq(fk.qps, 0);
}
END_TEST

/* --- completions --- */

START_TEST(completions_carry_its_handle)
{
    ual_handle handle = qp->object.handle;
    struct ri_wc wc;

    ck_assert_ptr_eq(ual_lookup(handle, UAL_QP), qp);
    fk_complete(fk.qp, &(struct ri_wc){ .cookie = 5 });
    fk_complete(fk.qp, &(struct ri_wc){ .cookie = 6 });
    ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 1);
    ck_assert_uint_eq((ual_handle)wc.context, handle);
    ok(ual_qp_free(qp));
    ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 0); /* its completions are gone */
    ck_assert_ptr_null(ual_lookup((ual_handle)wc.context, UAL_QP));
    ck_assert_uint_eq(told.forgotten, handle);
    qp = make_qp(cq, NULL, NULL); /* perhaps at the same address, under another handle */
    ck_assert_uint_ne(qp->object.handle, handle);
    ck_assert_ptr_null(ual_lookup(handle, UAL_QP));
}
END_TEST

START_TEST(posts_are_refused_in_words)
{
    struct ri_send_wr send = { .opcode = RI_WR_BIND_WINDOW }, *bad_send = NULL;
    struct ri_recv_wr last = { .cookie = 2 }, first = { .cookie = 1, .next = &last }, *bad = NULL;

    fails(ual_qp_post_send(qp, &send, &bad_send), RI_ERR_INVALID_STATE);
    ck_assert_ptr_eq(bad_send, &send);
    for (uint64_t i = 0; i < 7; i++)
        post_receive(qp, i);
    fails(ual_qp_post_recv(qp, &first, &bad), RI_ERR_QUEUE_FULL);
    ck_assert_ptr_eq(bad, &last);
}
END_TEST

/* What the provider answers is no handle's fault, whatever number it takes for it. */
START_TEST(post_gives_statuses_of_the_interface)
{
    static const int answers[] = { RI_STATUS_COUNT, ITAL_ERR_INVALID_HANDLE, 1000, -1 };
    struct ri_send_wr send = { .opcode = RI_WR_SEND }, *bad = NULL;

    fk.qp->state = RI_QPS_RTS;
    fk.next_post = RI_ERR_LIMIT;
    fails(ual_qp_post_send(qp, &send, &bad), RI_ERR_LIMIT);
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        fk.next_post = (enum ri_status)answers[i];
        fails(ual_qp_post_send(qp, &send, &bad), RI_ERR_DEVICE);
    }
}
END_TEST

/* --- state and attributes --- */

START_TEST(modify_query_and_counters)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_ORD, .ord = 9 };
    struct ri_qp_info info = { .qpn = 1 };
    const char *names[4];
    uint64_t values[4];
    size_t count = 4;

    ok(ual_qp_modify(qp, &modify));
    ck_assert_uint_eq(fk.modify.mask, RI_QPM_ORD);
    ck_assert_uint_eq(fk.modify.ord, 9);
    fk_fail(FK_QP_ATTRIBUTES, RI_ERR_NOT_SUPPORTED);
    fails(ual_qp_modify(qp, &modify), RI_ERR_NOT_SUPPORTED);
    ok(ual_qp_set_state(qp, RI_QPS_ERROR));
    ok(ual_qp_query(qp, &info));
    ck_assert_int_eq(info.state, RI_QPS_ERROR);
    ck_assert_uint_eq(info.qpn, 17);
    ok(ual_qp_counters(qp, names, values, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(names[0], "runs");
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    info.qpn = 1;
    count = 4;
    fails(ual_qp_query(qp, &info), RI_ERR_DEVICE);
    fails(ual_qp_counters(qp, names, values, &count), RI_ERR_DEVICE);
    ck_assert_uint_eq(info.qpn, 1);
    ck_assert_uint_eq(count, 4);
}
END_TEST

/* --- events --- */

static struct ual_qp *told_of;
static atomic_uint heard;
static atomic_bool inside, leave;
static enum ri_event_type heard_type;

static void on_event(struct ual_qp *about, const struct ri_event *event)
{
    told_of = about;
    heard_type = event->type;
    atomic_fetch_add(&heard, 1);
}

START_TEST(events_to_the_function)
{
    struct ual_channel *channel = make_channel(device);
    struct ual_qp *listening;

    ok(ual_async_to(device, channel));
    listening = make_qp(cq, on_event, NULL);
    fk_qp_event(fk.qp, RI_EVENT_TERMINATE_RECEIVED, 7);
    fk_drain();
    ck_assert_ptr_eq(told_of, listening);
    ck_assert_int_eq(heard_type, RI_EVENT_TERMINATE_RECEIVED);
    ck_assert_uint_eq(atomic_load(&told.count), 0);
    expect_nothing(channel);
    ok(ual_qp_free(listening));
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(channel));
}
END_TEST

/* Of a QP that was freed, of another kind of object, of nothing. */
START_TEST(events_of_no_qp_are_dropped)
{
    struct ri_event event = { .size = sizeof(event), .type = RI_EVENT_LLP_RESET };
    struct ual_qp *listening = make_qp(cq, on_event, NULL), *freed;
    void *wrong[] = { NULL, NULL, (void *)UINTPTR_MAX, &event, (void *)device->object.handle };
    void *context_of_it = fk.qp->ri.context;

    freed = make_qp(cq, on_event, NULL);
    wrong[0] = fk.qp->ri.context;
    ok(ual_qp_free(freed));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        ck_assert_msg(!fk_upper->qp_event(wrong[i], &event), "context %zu", i);
    ck_assert_uint_eq(atomic_load(&heard), 0);
    ck_assert(fk_upper->qp_event(context_of_it, &event));
    ck_assert_ptr_eq(told_of, listening);
    ok(ual_qp_free(listening));
}
END_TEST

START_TEST(events_without_a_function_are_asynchronous)
{
    struct ual_channel *channel = make_channel(device);
    struct ual_channel_event event;

    ok(ual_async_to(device, channel));
    fk_qp_event(fk.qp, RI_EVENT_LLP_RESET, 7);
    event = next_event(channel, UAL_ITEM_ASYNC);
    ck_assert_int_eq(event.async.event.type, RI_EVENT_LLP_RESET);
    ck_assert_uint_eq(event.async.event.terminate_code, 7);
    ck_assert_ptr_eq(event.async.object, &qp->object);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&told.count), 1);
    ck_assert_ptr_eq(told.about, &qp->object);
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(channel));
}
END_TEST

/* --- rewind --- */

static void expect_flushed(uint64_t first, uint64_t count)
{
    struct ri_wc wc;

    for (uint64_t i = 0; i < count; i++) {
        ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 1);
        ck_assert_uint_eq(wc.cookie, first + i);
        ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
    }
    ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 0);
}

static void expect_state(enum ri_qp_state state)
{
    struct ri_qp_info info;

    ok(ual_qp_query(qp, &info));
    ck_assert_int_eq(info.state, state);
}

/* From IDLE, and from ERROR with what it flushed, and from RTS. */
START_TEST(rewind_flushes_from_any_state)
{
    static const enum ri_qp_state states[] = { RI_QPS_IDLE, RI_QPS_ERROR, RI_QPS_RTS };

    post_receive(qp, 10);
    post_receive(qp, 11);
    if (states[_i] == RI_QPS_ERROR)
        ok(ual_qp_set_state(qp, RI_QPS_ERROR));
    if (states[_i] == RI_QPS_RTS)
        fk.qp->state = RI_QPS_RTS;
    ok(ual_qp_rewind(qp));
    expect_state(RI_QPS_IDLE);
    expect_flushed(10, 2);
    ck_assert_uint_eq(fk.aborts, states[_i] == RI_QPS_RTS);
    post_receive(qp, 12); /* a life of its own */
    ok(ual_qp_rewind(qp));
    expect_flushed(12, 1);
}
END_TEST

START_TEST(rewind_that_fails)
{
    fk_fail(FK_QP_IDLE, RI_ERR_BUSY);
    post_receive(qp, 1);
    fails(ual_qp_rewind(qp), RI_ERR_BUSY);
    expect_flushed(0, 0);
}
END_TEST

/* An upcall that takes a while. */
static void stay_inside(struct ual_qp *about, const struct ri_event *event)
{
    (void)about, (void)event;
    atomic_store(&inside, true);
    while (!atomic_load(&leave))
        sched_yield();
    atomic_store(&inside, false);
}

static atomic_bool rewound;

static void *rewind_it(void *arg)
{
    yields_count();
    ok(ual_qp_rewind(arg));
    ck_assert(!atomic_load(&inside));
    atomic_store(&rewound, true);
    return NULL;
}

START_TEST(rewind_waits_for_the_upcall_that_runs)
{
    struct ual_qp *listening = make_qp(cq, stay_inside, NULL);
    pthread_t thread;

    fk_qp_event(fk.qp, RI_EVENT_LLP_LOST, 0);
    ck_assert(tc_until(atomic_load(&inside), 10000));
    ck_assert_int_eq(pthread_create(&thread, NULL, rewind_it, listening), 0);
    ck_assert(yields_wait(&rewound));
    atomic_store(&leave, true);
    pthread_join(thread, NULL);
    ok(ual_qp_free(listening));
}
END_TEST

/* --- renewal --- */

static struct ri_qp *provider_qp(void)
{
    return qp->qp;
}

START_TEST(renewal_leaves_nothing_of_the_old_life)
{
    struct ual_channel *channel = make_channel(device);
    struct ual_qp_attr attr = qp_attr(cq);
    ual_handle handle = qp->object.handle;
    struct ri_qp *old = provider_qp();
    struct ri_wc wc;

    ok(ual_async_to(device, channel));
    fk_complete(fk.qp, &(struct ri_wc){ .cookie = 5 });
    post_receive(qp, 1);
    ok(ual_qp_set_state(qp, RI_QPS_ERROR)); /* flushed */
    fk_qp_event(fk.qp, RI_EVENT_LLP_LOST, 0);
    fk_drain();
    fk_hold(true);
    fk_qp_event(fk.qp, RI_EVENT_QP_FATAL, 0); /* under way */
    ck_assert_uint_eq(ual_cq_peek(cq), 2);
    ok(ual_qp_renew(qp, &attr));
    fk_hold(false);
    fk_drain();
    ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 0);
    expect_nothing(channel);
    ck_assert_uint_eq(atomic_load(&told.count), 1); /* before it */
    ck_assert_uint_eq(fk.qps, 1);
    ck_assert_ptr_ne(provider_qp(), old);
    ck_assert_uint_eq(qp->object.handle, handle);
    ck_assert_ptr_eq(ual_lookup(handle, UAL_QP), qp);
    ck_assert_uint_ne(told.forgotten, handle);
    ck_assert_uint_eq(attr.max_send_wr, 9);
    expect_state(RI_QPS_IDLE);
    fk_complete(fk.qp, &(struct ri_wc){ .cookie = 6 }); /* of the new one */
    ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 1);
    ck_assert_uint_eq((ual_handle)wc.context, handle);
    fk_qp_event(fk.qp, RI_EVENT_LLP_LOST, 0);
    ck_assert_ptr_eq(next_event(channel, UAL_ITEM_ASYNC).async.object, &qp->object);
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(channel));
}
END_TEST

/* By creation, and by destruction. */
START_TEST(a_failed_renewal_keeps_the_old_life)
{
    struct ual_qp_attr attr = qp_attr(cq);
    struct ri_qp *old = provider_qp();

    post_receive(qp, 1);
    fk_fail(_i ? FK_QP_DESTROY : FK_QP_CREATE, RI_ERR_LIMIT);
    fails(ual_qp_renew(qp, &attr), RI_ERR_LIMIT);
    ck_assert_ptr_eq(provider_qp(), old);
    ck_assert_uint_eq(fk.qps, 1);
    post_receive(qp, 2);
    ok(ual_qp_set_state(qp, RI_QPS_ERROR));
    expect_flushed(1, 2);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    fails(ual_qp_renew(qp, &attr), RI_ERR_DEVICE);
    ck_assert_uint_eq(fk.qps, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue pairs");
    TCase *tc;

    tc_add_tests(tc_case(suite, "life", setup_cq, teardown_cq), holds_what_it_uses,
                 given_what_the_provider_has, a_refused_qp_leaves_nothing,
                 one_that_cannot_be_destroyed_remains, part_of_something_larger);
    tc = tc_case(suite, "use", setup_qp, teardown_qp);
    tc_add_tests(tc, completions_carry_its_handle, posts_are_refused_in_words,
                 post_gives_statuses_of_the_interface, modify_query_and_counters,
                 events_to_the_function, events_of_no_qp_are_dropped,
                 events_without_a_function_are_asynchronous);
    tc = tc_case(suite, "lives", setup_qp, teardown_qp);
    tcase_add_loop_test(tc, rewind_flushes_from_any_state, 0, 3);
    tc_add_tests(tc, rewind_that_fails, rewind_waits_for_the_upcall_that_runs,
                 renewal_leaves_nothing_of_the_old_life);
    tcase_add_loop_test(tc, a_failed_renewal_keeps_the_old_life, 0, 2);
    return tc_main(suite);
}
