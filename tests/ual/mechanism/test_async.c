/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events: to the device's upcall and to its channel, about live objects only, and
 * without memory.
 */
#include "device_fixture.h"

#include <pthread.h>

static struct ual_channel *channel;

static void setup_async(void)
{
    setup();
    channel = make_channel(NULL);
    ok(ual_async_to(device, channel));
}

static void teardown_async(void)
{
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(channel));
    teardown();
}

static struct ual_channel_event next_async(enum ri_event_type type)
{
    struct ual_channel_event event = next_event(channel, UAL_ITEM_ASYNC);

    ck_assert_int_eq(event.async.event.type, type);
    ck_assert_ptr_null(event.async.event.detail);
    ck_assert_ptr_eq(event.context, &told);
    return event;
}

static void expect_told(enum ri_event_type type, const struct ual_object *about)
{
    fk_drain();
    ck_assert_uint_eq(atomic_exchange(&told.count, 0), 1);
    ck_assert_int_eq(told.type, type);
    ck_assert_ptr_eq(told.about, about);
}

/* --- live objects --- */

START_TEST(about_a_qp_an_srq_a_cq_and_the_device)
{
    struct ual_cq *cq = make_cq(NULL, NULL);
    struct ual_qp *qp = make_qp(cq, NULL, NULL);
    struct ual_srq *srq;

    ok(ual_srq_create(pd, 4, 1, &srq));
    fk_qp_event(fk.qp, RI_EVENT_LLP_LOST, 0);
    expect_told(RI_EVENT_LLP_LOST, &qp->object);
    ck_assert_ptr_eq(next_async(RI_EVENT_LLP_LOST).async.object, &qp->object);
    fk_srq_event(fk.srq, RI_EVENT_SRQ_LIMIT_REACHED);
    expect_told(RI_EVENT_SRQ_LIMIT_REACHED, &srq->object);
    ck_assert_ptr_eq(next_async(RI_EVENT_SRQ_LIMIT_REACHED).async.object, &srq->object);
    fk_cq_event(cq->cq, RI_EVENT_CQ_OVERFLOW);
    expect_told(RI_EVENT_CQ_OVERFLOW, NULL);
    ck_assert_ptr_eq(next_async(RI_EVENT_CQ_OVERFLOW).async.cq, cq);
    fk_rnic_event(RI_EVENT_PORT_UP, 2);
    expect_told(RI_EVENT_PORT_UP, NULL);
    ck_assert_ptr_null(next_async(RI_EVENT_PORT_UP).async.cq);
    fk_rnic_event(RI_EVENT_GID_CHANGE, 1);
    expect_told(RI_EVENT_GID_CHANGE, NULL);
    ck_assert_uint_eq(next_async(RI_EVENT_GID_CHANGE).async.event.port, 1);
    ok(ual_qp_free(qp));
    ok(ual_srq_free(srq));
    ok(ual_cq_free(cq));
}
END_TEST

/* An event about a freed object would be a dangling pointer. The others stay. */
START_TEST(nothing_is_told_of_what_is_gone)
{
    struct ual_cq *cq = make_cq(NULL, NULL), *other = make_cq(NULL, NULL);
    struct ual_qp *qp = make_qp(other, NULL, NULL);
    ual_handle qp_handle = qp->object.handle, srq_handle;
    struct ual_srq *srq;

    ok(ual_srq_create(pd, 4, 1, &srq));
    srq_handle = srq->object.handle;
    fk_cq_event(cq->cq, RI_EVENT_CQ_ERROR);
    fk_qp_event(fk.qp, RI_EVENT_LLP_LOST, 0);
    fk_srq_event(fk.srq, RI_EVENT_SRQ_FATAL);
    fk_cq_event(other->cq, RI_EVENT_CQ_ERROR);
    fk_drain();
    ok(ual_qp_free(qp));
    ck_assert_uint_eq(told.forgotten, qp_handle);
    ok(ual_srq_free(srq));
    ck_assert_uint_eq(told.forgotten, srq_handle);
    ok(ual_cq_free(cq));
    ck_assert_uint_eq(told.forgotten, srq_handle); /* a CQ has no handle */
    ck_assert_ptr_eq(next_async(RI_EVENT_CQ_ERROR).async.cq, other);
    expect_nothing(channel);
    ok(ual_cq_free(other));
}
END_TEST

/* --- without memory --- */

static atomic_bool no_memory;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return atomic_load(&no_memory) ? NULL : __real_calloc(count, size);
}

#define SPARES 16u

static void tell_ports(uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        fk_rnic_event(RI_EVENT_PORT_DOWN, first + i);
    fk_drain();
}

static void expect_ports(uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(next_async(RI_EVENT_PORT_DOWN).async.event.port, first + i);
    expect_nothing(channel);
}

START_TEST(told_without_memory)
{
    atomic_store(&no_memory, true);
    tell_ports(0, SPARES);
    ck_assert_uint_eq(fk.logged[RI_LOG_ERROR], 0);
    expect_ports(0, SPARES);
    tell_ports(100, SPARES); /* the spares are returned */
    atomic_store(&no_memory, false);
    tell_ports(100 + SPARES, 20);
    expect_ports(100, SPARES + 20);
}
END_TEST

/* An event that does not fit the channel is logged, and passed to the upcall. */
START_TEST(too_many_without_memory)
{
    atomic_store(&no_memory, true);
    tell_ports(0, SPARES + 1);
    ck_assert_uint_eq(fk.logged[RI_LOG_ERROR], 1);
    ck_assert_uint_eq(atomic_load(&told.count), SPARES + 1);
    ck_assert_uint_eq(next_async(RI_EVENT_PORT_DOWN).async.event.port, 0);
    tell_ports(SPARES + 1, 1); /* one was returned */
    atomic_store(&no_memory, false);
    for (uint32_t i = 1; i < SPARES; i++)
        ck_assert_uint_eq(next_async(RI_EVENT_PORT_DOWN).async.event.port, i);
    expect_ports(SPARES + 1, 1);
}
END_TEST

START_TEST(spares_are_queued_when_nobody_wants_them_any_more)
{
    atomic_store(&no_memory, true);
    tell_ports(0, SPARES);
    atomic_store(&no_memory, false);
    ok(ual_async_to(device, NULL));
    expect_nothing(channel);
    ok(ual_async_to(device, channel));
}
END_TEST

/* A thread that has taken a spare returns it to a device that another thread closes meanwhile. */
static atomic_bool done;

static void *take_all(void *arg)
{
    struct ual_channel_event event;

    (void)arg;
    while (!atomic_load(&done))
        ual_channel_get(channel, 100, &event);
    return NULL;
}

START_TEST(closed_while_a_spare_is_taken)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, take_all, NULL), 0);
    for (unsigned long i = tc_count(200); i; i--) {
        struct ual_device *second;

        ok(ual_device_open("fake0", NULL, &told, &second));
        ok(ual_async_to(second, channel));
        atomic_store(&no_memory, true);
        tell_ports(0, 4);
        atomic_store(&no_memory, false);
        close_one(second);
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asynchronous events");

    tc_add_tests(tc_case(suite, "about", setup_async, teardown_async),
                 about_a_qp_an_srq_a_cq_and_the_device, nothing_is_told_of_what_is_gone);
    tc_add_tests(tc_case(suite, "without memory", setup_async, teardown_async), told_without_memory,
                 too_many_without_memory, spares_are_queued_when_nobody_wants_them_any_more,
                 closed_while_a_spare_is_taken);
    return tc_main(suite);
}
