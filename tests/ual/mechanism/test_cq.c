/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: how they are made, armed, resized, reported and freed. */
#include "device_fixture.h"

#include <pthread.h>

static int context;

/* --- creation --- */

static enum ri_status create(const struct ual_cq_attr *attr)
{
    struct ual_cq *cq = NULL;
    enum ri_status status = ual_cq_create(device, attr, &cq);

    ck_assert((status == RI_OK) == (cq != NULL));
    if (cq)
        ok(ual_cq_free(cq));
    return status;
}

START_TEST(depth_is_within_the_limits)
{
    struct ual_cq_attr attr = { .depth = fk.attr.max_cqe };

    ok(create(&attr));
    attr.depth++;
    fails(create(&attr), RI_ERR_LIMIT);
    attr.depth = 0;
    fails(create(&attr), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fk.cqs, 0);
}
END_TEST

START_TEST(depth_is_what_the_provider_gave)
{
    struct ual_cq *cq;

    fk.more_cqes = 3;
    cq = make_cq(NULL, &context);
    ck_assert_uint_eq(cq->depth, 19);
    ck_assert_ptr_eq(cq->context, &context);
    ck_assert_ptr_eq(cq->device, device);
    ok(ual_cq_free(cq));
}
END_TEST

START_TEST(the_lane_is_passed_on)
{
    struct ual_cq_attr attr = { .depth = 4 };

    ck_assert_uint_eq(ual_device_lane_count(device), 1);
    ok(create(&attr));
    ck_assert_ptr_null(fk.cq_lane);
    attr.lane_plus_one = 1;
    ok(create(&attr));
    ck_assert_ptr_nonnull(fk.lane);
    ck_assert_ptr_eq(fk.cq_lane, fk.lane);
    attr.lane_plus_one = 2;
    fails(create(&attr), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fk.cqs, 0);
}
END_TEST

START_TEST(a_channel_of_another_device_is_refused)
{
    struct ual_cq_attr attr = { .depth = 4 };
    struct ual_device *second;

    ok(ual_device_open("fake0", NULL, NULL, &second));
    attr.channel = make_channel(second);
    fails(create(&attr), RI_ERR_INVALID_ARGUMENT);
    ok(ual_channel_free(attr.channel)); /* the refused one does not hold it */
    attr.channel = make_channel(NULL);
    ok(create(&attr));
    ok(ual_channel_free(attr.channel));
    close_one(second);
}
END_TEST

START_TEST(a_refused_cq_leaves_nothing)
{
    struct ual_cq_attr attr = { .depth = 4, .channel = make_channel(device) };

    fk_fail(FK_CQ_CREATE, ITAL_ERR_QUOTA);
    fails(create(&attr), ITAL_ERR_QUOTA);
    fk_fail(FK_CQ_CREATE, RI_ERR_LIMIT);
    fails(create(&attr), RI_ERR_LIMIT);
    ok(ual_channel_free(attr.channel));
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    attr.channel = NULL;
    fails(create(&attr), RI_ERR_DEVICE);
}
END_TEST

/* --- contents --- */

static void complete(struct ual_cq *cq, uint64_t cookie)
{
    fk_cq_complete(cq->cq, &(struct ri_wc){ .cookie = cookie });
}

START_TEST(polled_oldest_first)
{
    struct ual_cq *cq = make_cq(NULL, NULL);
    struct ri_wc wc[4];

    for (uint64_t i = 0; i < 5; i++)
        complete(cq, i);
    ck_assert_uint_eq(ual_cq_peek(cq), 5);
    ck_assert_uint_eq(ual_cq_poll(cq, 4, wc), 4);
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_uint_eq(wc[i].cookie, i);
    ck_assert_uint_eq(ual_cq_peek(cq), 1);
    ck_assert_uint_eq(ual_cq_poll(cq, 4, wc), 1);
    ck_assert_uint_eq(wc[0].cookie, 4);
    ck_assert_uint_eq(ual_cq_poll(cq, 4, wc), 0);
    ok(ual_cq_free(cq));
}
END_TEST

static uint32_t tell_more(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    (void)cq;
    memset(wc, 0, count * sizeof(*wc));
    return count + 1000;
}

START_TEST(more_than_asked_for_is_not_believed)
{
    struct ual_cq *cq = make_cq(NULL, NULL);
    struct ri_cq *below = cq->cq;
    const struct ri_user_ops *honest = below->ops;
    struct ri_user_ops lying = *honest;
    struct ri_wc wc[3];

    lying.poll = tell_more;
    below->ops = &lying;
    ck_assert_uint_eq(ual_cq_poll(cq, 1, wc), 1);
    ck_assert_uint_eq(ual_cq_poll(cq, 3, wc), 3);
    ck_assert_uint_eq(fk.logged[RI_LOG_ERROR], 1); /* once */
    ck_assert_msg(strstr(fk.last_line, ual_device_provider(device)), "%s", fk.last_line);
    below->ops = honest;
    ck_assert_uint_eq(ual_cq_poll(cq, 3, wc), 0);
    ok(ual_cq_free(cq));
}
END_TEST

START_TEST(resized)
{
    struct ual_cq *cq = make_cq(NULL, NULL);

    fails(ual_cq_resize(cq, 8), RI_ERR_NOT_SUPPORTED);
    fk.attr.features |= RI_FEATURE_CQ_RESIZE;
    fk.more_cqes = 1;
    ok(ual_cq_resize(cq, 8));
    ck_assert_uint_eq(cq->depth, 9);
    fails(ual_cq_resize(cq, 0), RI_ERR_INVALID_ARGUMENT);
    fails(ual_cq_resize(cq, fk.attr.max_cqe + 1), RI_ERR_LIMIT);
    for (uint64_t i = 0; i < 3; i++)
        complete(cq, i);
    fails(ual_cq_resize(cq, 2), RI_ERR_BUSY);
    fk_fail(FK_CQ_RESIZE, RI_ERR_NO_RESOURCES);
    fails(ual_cq_resize(cq, 20), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(cq->depth, 9);
    ck_assert_uint_eq(ual_cq_peek(cq), 3);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    fails(ual_cq_resize(cq, 8), RI_ERR_DEVICE);
    ok(ual_cq_free(cq));
}
END_TEST

/* --- where it is reported --- */

static atomic_uint fires;
static void *fired_context;
static pthread_t told_in;

static void on_fired(void *about)
{
    fired_context = about;
    atomic_fetch_add(&fires, 1);
}

START_TEST(arm_kinds_pass_through)
{
    static const enum ri_arm kinds[] = { RI_ARM_NEXT, RI_ARM_SOLICITED, RI_ARM_NOTIFY_MARKED,
                                         RI_ARM_NTH };
    struct ual_cq_attr attr = { .depth = 16, .fired = on_fired, .context = &context };
    struct ual_cq *cq;

    ok(ual_cq_create(device, &attr, &cq));
    for (unsigned int i = 0; i < 4; i++) {
        ual_cq_arm(cq, kinds[i]);
        ck_assert_int_eq(fk.armed_kind, kinds[i]);
    }
    ual_cq_arm(cq, RI_ARM_SOLICITED);
    complete(cq, 1);
    ck_assert_uint_eq(atomic_load(&fires), 0);
    fk_cq_complete(cq->cq, &(struct ri_wc){ .flags = RI_WC_SOLICITED });
    ck_assert_uint_eq(atomic_load(&fires), 1);
    fk_cq_complete(cq->cq, &(struct ri_wc){ .flags = RI_WC_SOLICITED });
    ck_assert_uint_eq(atomic_load(&fires), 1); /* once for each arm */
    ual_cq_arm(cq, RI_ARM_SOLICITED);
    fk_cq_complete(cq->cq, &(struct ri_wc){ .status = RI_WC_FLUSHED });
    ck_assert_uint_eq(atomic_load(&fires), 2);
    ck_assert_ptr_eq(fired_context, &context);
    ok(ual_cq_free(cq));
}
END_TEST

/* The provider fires at the next completion only, so ual counts. A CQ that becomes smaller than the
 * count it is armed for fires when it is full. */
START_TEST(a_smaller_cq_fires_when_it_is_full)
{
    struct ual_cq_attr attr = {
        .depth = 16, .fired = on_fired, .context = &context, .criteria = true
    };
    struct ual_cq *cq;

    ok(ual_cq_create(device, &attr, &cq));
    ual_cq_arm_nth(cq, 8);
    complete(cq, 1);
    complete(cq, 2);
    ok(ual_cq_resize(cq, 3));
    ck_assert_uint_eq(atomic_load(&fires), 0);
    ok(ual_cq_resize(cq, 2));
    ck_assert_uint_eq(atomic_load(&fires), 1);
    ok(ual_cq_free(cq));
}
END_TEST

START_TEST(fired_to_a_channel)
{
    struct ual_channel *channel = make_channel(device);
    struct ual_cq *cq = make_cq(channel, &context);
    struct ri_wc wc;

    complete(cq, 1);
    expect_nothing(channel); /* not armed */
    ual_cq_arm(cq, RI_ARM_NEXT);
    expect_nothing(channel); /* completions already queued are not reported */
    complete(cq, 2);
    expect_cq(channel, cq);
    expect_nothing(channel);
    ck_assert_uint_eq(ual_cq_poll(cq, 1, &wc), 1);
    ok(ual_cq_free(cq));
    ok(ual_channel_free(channel));
}
END_TEST

START_TEST(fired_to_nobody)
{
    struct ual_cq *cq = make_cq(NULL, NULL);

    fire(cq);
    ck_assert_uint_eq(ual_cq_peek(cq), 1);
    ok(ual_cq_free(cq));
}
END_TEST

static enum ri_event_type error_type;

static void on_error(void *about, const struct ri_event *event)
{
    fired_context = about;
    error_type = event->type;
}

START_TEST(errors_to_the_function)
{
    struct ual_cq_attr attr = { .depth = 16, .error = on_error, .context = &context };
    struct ual_channel *channel = make_channel(device);
    struct ual_cq *cq;

    ok(ual_async_to(device, channel));
    ok(ual_cq_create(device, &attr, &cq));
    fk_cq_event(cq->cq, RI_EVENT_CQ_OVERFLOW);
    fk_drain();
    ck_assert_int_eq(error_type, RI_EVENT_CQ_OVERFLOW);
    ck_assert_ptr_eq(fired_context, &context);
    ck_assert_uint_eq(atomic_load(&told.count), 0);
    expect_nothing(channel);
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(channel));
    ok(ual_cq_free(cq));
}
END_TEST

START_TEST(errors_without_a_function_are_asynchronous_events)
{
    struct ual_channel *channel = make_channel(device);
    struct ual_cq *cq = make_cq(NULL, &context);
    struct ual_channel_event event;

    ok(ual_async_to(device, channel));
    fk_cq_event(cq->cq, RI_EVENT_CQ_ERROR);
    event = next_event(channel, UAL_ITEM_ASYNC);
    ck_assert_int_eq(event.async.event.type, RI_EVENT_CQ_ERROR);
    ck_assert_ptr_eq(event.async.cq, cq);
    fk_drain();
    ck_assert_uint_eq(atomic_load(&told.count), 1);
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(channel));
    ok(ual_cq_free(cq));
}
END_TEST

/* --- run --- */

static void on_async(void *of, const struct ri_event *event, const struct ual_object *about)
{
    (void)of, (void)event, (void)about;
    told_in = pthread_self();
}

/* The background thread may be faster, so it tries several times. */
static bool run_by_hand(struct ual_cq *cq)
{
    uint32_t done;

    fk_rnic_event(RI_EVENT_PORT_UP, 1);
    done = ual_cq_run(cq);
    fk_drain();
    return done && pthread_equal(told_in, pthread_self());
}

START_TEST(run_serves_the_lanes_that_feed_it)
{
    static const struct ual_device_upcalls upcalls = { .async = on_async };
    struct ual_device *second;
    struct ual_cq *cq;

    ok(ual_device_open("fake0", &upcalls, NULL, &second));
    cq = make_cq_of(second, NULL, NULL);
    ck_assert(tc_until(run_by_hand(cq), 20000));
    ok(ual_cq_free(cq));
    close_one(second);
}
END_TEST

/* --- the end --- */

START_TEST(busy_while_qps_use_it)
{
    struct ual_cq *send = make_cq(NULL, NULL), *recv = make_cq(NULL, NULL);
    struct ual_qp_attr attr = qp_attr(send);
    struct ual_qp *qps[2];

    attr.recv_cq = recv;
    ok(ual_qp_create(pd, &attr, NULL, NULL, &qps[0]));
    ok(ual_qp_create(pd, &attr, NULL, NULL, &qps[1]));
    for (unsigned int i = 0; i < 2; i++) {
        fails(ual_cq_free(send), RI_ERR_BUSY);
        fails(ual_cq_free(recv), RI_ERR_BUSY);
        ok(ual_qp_free(qps[i]));
    }
    fails(ual_device_close(device), RI_ERR_BUSY);
    ok(ual_cq_free(send));
    ok(ual_cq_free(recv));
}
END_TEST

START_TEST(its_events_leave_the_channels_with_it)
{
    struct ual_channel *channel = make_channel(device), *errors = make_channel(device);
    struct ual_cq *cq = make_cq(channel, NULL), *other = make_cq(channel, NULL);

    ok(ual_async_to(device, errors));
    fire(cq);
    fire(cq);
    fk_cq_event(cq->cq, RI_EVENT_CQ_OVERFLOW);
    fk_drain();
    fire(other); /* of the same context */
    ok(ual_cq_free(cq));
    expect_cq(channel, other);
    expect_nothing(channel);
    expect_nothing(errors);
    ok(ual_async_to(device, NULL));
    ok(ual_cq_free(other));
    ok(ual_channel_free(channel));
    ok(ual_channel_free(errors));
}
END_TEST

START_TEST(a_cq_that_cannot_be_destroyed_works_on)
{
    struct ual_channel *channel = make_channel(device);
    struct ual_cq *cq = make_cq(channel, NULL);

    fire(cq);
    fk_fail(FK_CQ_DESTROY, RI_ERR_BUSY);
    fails(ual_cq_free(cq), RI_ERR_BUSY);
    fails(ual_channel_free(channel), RI_ERR_BUSY);
    expect_cq(channel, cq);
    fire(cq);
    expect_cq(channel, cq);
    ok(ual_cq_free(cq));
    ok(ual_channel_free(channel));
}
END_TEST

static void setup_next_only(void)
{
    fk_reset();
    fk.attr.features &= ~(RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_PEEK);
    fk.attr.features |= RI_FEATURE_CQ_RESIZE;
    atomic_store(&fires, 0);
    open_device();
}

int main(void)
{
    Suite *suite = suite_create("completion queues");

    tc_add_tests(tc_case(suite, "creation", setup, teardown), depth_is_within_the_limits,
                 depth_is_what_the_provider_gave, the_lane_is_passed_on,
                 a_channel_of_another_device_is_refused, a_refused_cq_leaves_nothing);
    tc_add_tests(tc_case(suite, "contents", setup, teardown), polled_oldest_first,
                 more_than_asked_for_is_not_believed, resized);
    tc_add_tests(tc_case(suite, "news", setup, teardown), arm_kinds_pass_through,
                 fired_to_a_channel, fired_to_nobody, errors_to_the_function,
                 errors_without_a_function_are_asynchronous_events,
                 run_serves_the_lanes_that_feed_it);
    tc_add_tests(tc_case(suite, "counted above the provider", setup_next_only, teardown),
                 a_smaller_cq_fires_when_it_is_full);
    tc_add_tests(tc_case(suite, "end", setup, teardown), busy_while_qps_use_it,
                 its_events_leave_the_channels_with_it, a_cq_that_cannot_be_destroyed_works_on);
    return tc_main(suite);
}
