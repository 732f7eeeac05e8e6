/* SPDX-License-Identifier: BSD-3-Clause */
/* Notification: which completions wake a waiter and signal the descriptor, thresholds, what
 * it_evd_modify changes, overflow. Without a connection: test_evd. */
#include "dto.h"
#include "opened.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define RECEIVES 32u
#define SIZE     64u
#define SHORT    ((uint64_t)50 * 1000)        /* microseconds that are enough on a quiet machine */
#define LONG     ((uint64_t)10 * 1000 * 1000) /* ... and on most others */

static struct buffer here, there;
static it_evd_handle_t evd; /* of the Receives at b */
static int fd;

/* b's Receives go to an EVD with a descriptor. */
static void connect_with(const char *name, unsigned int flags, size_t size, size_t threshold)
{
    it_ep_attributes_t attributes;

    pair_open(&pair, name);
    ok(it_ep_free(pair.b.ep));
    ok(it_evd_create(pair.b.ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)(flags | IT_EVD_CREATE_FD),
                     size, threshold, NULL, &evd, &fd));
    attributes = node_attributes(&pair.b);
    ok(it_ep_rc_create(pair.b.pz, pair.b.requests, evd, pair.b.connections, IT_EP_NO_FLAG,
                       &attributes, &pair.b.ep));
    there = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL);
    here = buffer_make(&pair.a, SIZE, IT_PRIV_LOCAL);
    pair_connect(&pair, pair_family(&pair));
}

static void receive_flagged(it_dto_cookie_t cookie, it_dto_flags_t flags)
{
    it_lmr_triplet_t whole = segment(&there, 0, SIZE);

    ok(it_post_recv((it_handle_t)pair.b.ep, &whole, 1, cookie, flags));
}

/* a's completion says that the message left; the peek says when the one at b is there. */
static void send_flagged(it_dto_flags_t flags)
{
    send_octets(&pair.a, &here, SIZE, 1, (it_dto_flags_t)(BOTH | flags));
    expect_done(pair.a.requests, SEND, 1, IT_DTO_SUCCESS);
}

static bool readable(void)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) > 0;
}

static void take(it_dto_cookie_t cookie)
{
    it_event_t event;

    ok(it_evd_dequeue(evd, &event));
    ck_assert_uint_eq(event.dto_cmpl.cookie, cookie);
}

static void take_later(it_dto_cookie_t cookie)
{
    ck_assert_uint_eq(dequeued(evd).dto_cmpl.cookie, cookie);
}

/* --- notification events --- */

/* The verbs of Linux do not distinguish a solicited Receive from another one, so there all Receives
 * notify. */

struct sleeper {
    pthread_t thread;
    _Atomic pid_t tid;
    it_status_t status;
    it_event_t event;
    size_t more;
    uint64_t timeout;
    atomic_bool over;
};

static void *sleep_once(void *arg)
{
    struct sleeper *sleeper = arg;

    atomic_store(&sleeper->tid, gettid());
    sleeper->status = it_evd_wait(evd, sleeper->timeout, &sleeper->event, &sleeper->more);
    atomic_store(&sleeper->over, true);
    return NULL;
}

static bool sleeps(struct sleeper *sleeper)
{
    return atomic_load(&sleeper->tid) && tc_asleep(atomic_load(&sleeper->tid));
}

/* One that has a time-out may be over already. */
static void fall_asleep(struct sleeper *sleeper)
{
    pthread_create(&sleeper->thread, NULL, sleep_once, sleeper);
    ck_assert(tc_until(sleeps(sleeper) || atomic_load(&sleeper->over), PATIENCE));
}

static const struct {
    it_dto_flags_t receive, send;
} notifying[] = { { BOTH, QUIETLY }, { IT_COMPLETION_FLAG, IT_SOLICITED_WAIT_FLAG } };

/* Ten Receives that do not notify, then one that does: the wait returns the oldest with the others
 * queued. */
START_TEST(quiet_receives_end_no_wait)
{
    for (size_t kind = 0; kind < 2; kind++) {
        struct sleeper sleeper = { .timeout = IT_TIMEOUT_INFINITE };

        connect_with(IFACE, 0, RECEIVES, IT_THRESHOLD_DISABLE);
        for (it_dto_cookie_t i = 0; i < 10; i++)
            receive_flagged(i, IT_COMPLETION_FLAG);
        receive_flagged(10, notifying[kind].receive);
        fall_asleep(&sleeper);
        for (int i = 0; i < 10; i++)
            send_flagged(QUIETLY);
        send_flagged(notifying[kind].send);
        pthread_join(sleeper.thread, NULL);
        ok(sleeper.status);
        ck_assert_uint_eq(sleeper.event.dto_cmpl.cookie, 0);
        ck_assert_uint_eq(sleeper.more, 10);
        for (it_dto_cookie_t i = 1; i <= 10; i++)
            take(i);
        pair_close(&pair);
    }
}
END_TEST

/* The same without a sleeping thread: the consumer polls the descriptor. */
START_TEST(quiet_receives_do_not_raise_the_descriptor)
{
    unsigned int in_vain = 0;

    connect_with(IFACE, 0, RECEIVES, IT_THRESHOLD_DISABLE);
    for (it_dto_cookie_t round = 0; round < 20; round++) {
        receive_flagged(2 * round, IT_COMPLETION_FLAG);
        receive_flagged(2 * round + 1, BOTH);
        send_flagged(QUIETLY);
        send_flagged(QUIETLY);
        ck_assert_int_eq(tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)), POLLIN);
        take_later(2 * round); /* the traffic itself may have caused the wake-up */
        take_later(2 * round + 1);
        expect_lowered(evd, fd);
    }
    /* After one wake-up by the traffic they stop. A raise for the last round may come now. */
    for (it_dto_cookie_t i = 100; i < 110; i++) {
        receive_flagged(i, IT_COMPLETION_FLAG);
        send_flagged(QUIETLY);
        in_vain += tc_wait_fd(fd, POLLIN, tc_deadline(QUIET / 5)) != 0;
        take_later(i);
        expect_lowered(evd, fd);
    }
    ck_assert_uint_le(in_vain, 2);
}
END_TEST

/* A wait whose time is over before the completion is there is tried again with a longer one. */
START_TEST(a_wait_takes_quiet_ones_at_its_end)
{
    struct sleeper sleeper = { .timeout = SHORT };
    it_dto_cookie_t tries = 0;

    connect_with(IFACE, 0, RECEIVES, IT_THRESHOLD_DISABLE);
    for (;; tries++) {
        receive_flagged(tries, IT_COMPLETION_FLAG);
        fall_asleep(&sleeper);
        send_flagged(QUIETLY);
        pthread_join(sleeper.thread, NULL);
        if (sleeper.status == IT_SUCCESS || sleeper.timeout >= LONG)
            break;
        is(IT_ERR_TIMEOUT_EXPIRED, sleeper.status);
        take_later(tries);
        sleeper = (struct sleeper){ .timeout = 2 * sleeper.timeout };
    }
    ok(sleeper.status);
    ck_assert_uint_eq(sleeper.event.dto_cmpl.cookie, tries);
}
END_TEST

START_TEST(a_wait_takes_quiet_ones_at_its_begin)
{
    it_event_t event;

    connect_with(IFACE, 0, RECEIVES, IT_THRESHOLD_DISABLE);
    receive_flagged(1, IT_COMPLETION_FLAG);
    send_flagged(QUIETLY);
    ck_assert_msg(tc_until(it_evd_wait(evd, 0, &event, NULL) == IT_SUCCESS, PATIENCE),
                  "no event came");
    ck_assert_uint_eq(event.dto_cmpl.cookie, 1);
}
END_TEST

/* Errors always notify, even where a success would not. */
START_TEST(flushed_receives_notify)
{
    it_event_t event;

    connect_with(IFACE, 0, RECEIVES, IT_THRESHOLD_DISABLE);
    receive_flagged(1, IT_COMPLETION_FLAG);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    ok(it_evd_wait(evd, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event, NULL));
    ck_assert_int_eq(event.dto_cmpl.dto_status, IT_DTO_ERR_FLUSHED);
}
END_TEST

/* --- thresholds --- */

#define THRESHOLD 4u

START_TEST(a_threshold_of_completions)
{
    struct sleeper sleeper = { .timeout = IT_TIMEOUT_INFINITE };
    it_evd_param_t params;
    it_event_t event;

    connect_with(IFACE, 0, RECEIVES, THRESHOLD);
    ok(it_evd_query(evd, IT_EVD_PARAM_ALL, &params));
    ck_assert_uint_eq(params.sevd_threshold, THRESHOLD);
    for (it_dto_cookie_t i = 0; i < 2 * THRESHOLD; i++)
        receive_flagged(i, i % 2 ? BOTH : IT_COMPLETION_FLAG);
    fall_asleep(&sleeper);
    for (unsigned int i = 0; i < 2 * THRESHOLD - 1; i++)
        send_flagged(QUIETLY);
    ck_assert_int_eq(tc_wait_fd(fd, POLLIN, tc_deadline(QUIET)), 0);
    send_flagged(QUIETLY);
    pthread_join(sleeper.thread, NULL);
    ok(sleeper.status);
    ck_assert_uint_eq(sleeper.more, 2 * THRESHOLD - 1);
    for (it_dto_cookie_t i = 1; i < 2 * THRESHOLD; i++)
        take(i);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
}
END_TEST

/* --- it_evd_modify --- */

static it_status_t modify(it_evd_handle_t which, unsigned int mask, it_evd_param_t params)
{
    return it_evd_modify(which, (it_evd_param_mask_t)mask, &params);
}

static it_evd_param_t queried(it_evd_handle_t which)
{
    it_evd_param_t params;

    ok(it_evd_query(which, IT_EVD_PARAM_ALL, &params));
    return params;
}

static it_evd_handle_t made(const struct node *own, unsigned int stream, unsigned int flags,
                            size_t size)
{
    it_evd_handle_t handle;

    ok(it_evd_create(own->ia, (it_event_type_t)stream, (it_evd_flags_t)flags, size, 0, NULL,
                     &handle, &fd));
    return handle;
}

START_TEST(modify_errors)
{
    static const unsigned int fixed[] = { IT_EVD_PARAM_ALL,
                                          IT_EVD_PARAM_IA,
                                          IT_EVD_PARAM_EVENT_NUMBER,
                                          IT_EVD_PARAM_FD,
                                          IT_EVD_PARAM_BOUND,
                                          IT_EVD_PARAM_CALLBACK,
                                          0x1000,
                                          0 };
    it_evd_param_t params = { .evd_overflowed = IT_TRUE };
    it_evd_handle_t soft, before;

    node_open(&node, IFACE);
    soft = made(&node, IT_SOFTWARE_EVENT_STREAM, 0, 4);
    before = soft;
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        is(IT_ERR_INVALID_MASK, modify(soft, fixed[i], params));
    is(IT_ERR_INVALID_EVD, modify(NULL, IT_EVD_PARAM_ENABLED, params));
    is(IT_ERR_FAULT, it_evd_modify(soft, IT_EVD_PARAM_ENABLED, NULL));
    is(IT_ERR_INVALID_QUEUE_SIZE, modify(soft, IT_EVD_PARAM_QUEUE_SIZE, params));
    is(IT_ERR_INVALID_EVD_STATE, modify(soft, IT_EVD_PARAM_OVERFLOWED, params));
    params.sevd_queue_size = (size_t)1 << 32;
    is(IT_ERR_RESOURCE_QUEUE_SIZE, modify(soft, IT_EVD_PARAM_QUEUE_SIZE, params));
    params.sevd_queue_size = UINT32_MAX;
    is(IT_ERR_RESOURCE_QUEUE_SIZE, modify(soft, IT_EVD_PARAM_QUEUE_SIZE, params));
    is(IT_ERR_RESOURCE_QUEUE_SIZE, modify(node.requests, IT_EVD_PARAM_QUEUE_SIZE, params));
    params.sevd_threshold = 5;
    is(IT_ERR_INVALID_THRESHOLD, modify(soft, IT_EVD_PARAM_THRESHOLD, params));
    params.sevd_queue_size = 2; /* above the size that follows */
    params.sevd_threshold = 3;
    is(IT_ERR_INVALID_THRESHOLD,
       modify(soft, IT_EVD_PARAM_THRESHOLD | IT_EVD_PARAM_QUEUE_SIZE, params));
    params.evd_flag = IT_EVD_CREATE_FD;
    is(IT_ERR_MISMATCH_FD, modify(soft, IT_EVD_PARAM_FLAG, params));
    params.evd_flag = IT_EVD_DEQUEUE_NOTIFICATIONS;
    is(IT_ERR_INVALID_FLAGS, modify(soft, IT_EVD_PARAM_FLAG, params));
    params.evd_flag = (it_evd_flags_t)(IT_EVD_OVERFLOW_DEFAULT | IT_EVD_OVERFLOW_NOTIFY);
    is(IT_ERR_INVALID_FLAGS, modify(soft, IT_EVD_PARAM_FLAG, params));
    ck_assert_uint_eq(queried(before).sevd_queue_size, 4);
    ck_assert_uint_eq(queried(before).sevd_threshold, 0);
    ck_assert_int_eq(queried(before).evd_flag, 0);
}
END_TEST

START_TEST(modify_of_a_list)
{
    it_evd_param_t params = { .sevd_queue_size = 6, .sevd_threshold = 3 };
    it_evd_handle_t soft;
    it_event_t event;

    node_open(&node, IFACE);
    soft = made(&node, IT_SOFTWARE_EVENT_STREAM, IT_EVD_CREATE_FD, 2);
    ok(modify(soft, IT_EVD_PARAM_QUEUE_SIZE | IT_EVD_PARAM_THRESHOLD, params));
    ck_assert_uint_eq(queried(soft).sevd_queue_size, 6);
    ck_assert_uint_eq(queried(soft).sevd_threshold, 3);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(readable(), i >= 3);
        ok(it_evd_post_se(soft, NULL));
    }
    is(IT_ERR_EVD_QUEUE_FULL, it_evd_post_se(soft, NULL));
    params.sevd_queue_size = 5; /* more are queued */
    is(IT_ERR_INVALID_QUEUE_SIZE, modify(soft, IT_EVD_PARAM_QUEUE_SIZE, params));
    while (it_evd_dequeue(soft, &event) == IT_SUCCESS)
        ;
    ok(it_evd_post_se(soft, NULL));
    ck_assert(!readable());
    params.sevd_threshold = IT_THRESHOLD_DISABLE; /* one is enough now */
    ok(modify(soft, IT_EVD_PARAM_THRESHOLD, params));
    ck_assert(readable());
}
END_TEST

/* A disabled EVD queues events; those queued notify when it is enabled again. */
START_TEST(disabled_and_enabled)
{
    it_evd_param_t params = { .evd_enabled = IT_FALSE };
    it_event_t event;

    node_open(&node, IFACE);
    evd = made(&node, IT_SOFTWARE_EVENT_STREAM, IT_EVD_CREATE_FD, 4);
    ok(it_evd_post_se(evd, NULL));
    ck_assert(readable());
    ok(modify(evd, IT_EVD_PARAM_ENABLED, params));
    ck_assert_int_eq(queried(evd).evd_enabled, IT_FALSE);
    ck_assert(!readable());
    ok(it_evd_post_se(evd, NULL));
    ck_assert(!readable());
    ok(it_evd_wait(evd, 0, &event, NULL)); /* queued events are delivered */
    ok(it_evd_dequeue(evd, &event));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_wait(evd, 0, &event, NULL));
    ok(it_evd_post_se(evd, NULL));
    params.evd_enabled = IT_TRUE;
    ok(modify(evd, IT_EVD_PARAM_ENABLED, params));
    ck_assert(readable());
    ok(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
}
END_TEST

START_TEST(disabling_ends_waits)
{
    it_evd_param_t params = { .evd_enabled = IT_FALSE };
    struct sleeper sleeper = { .timeout = IT_TIMEOUT_INFINITE };

    node_open(&node, IFACE);
    evd = made(&node, IT_SOFTWARE_EVENT_STREAM, 0, 4);
    fall_asleep(&sleeper);
    ok(modify(evd, IT_EVD_PARAM_ENABLED, params));
    pthread_join(sleeper.thread, NULL);
    is(IT_ERR_INVALID_EVD_STATE, sleeper.status);
}
END_TEST

/* A CQ is resized while completions arrive and are polled; none is lost or doubled. */
static atomic_bool over;

static void *keep_resizing(void *arg)
{
    struct tc_rng rng = tc_rng(3);

    (void)arg;
    while (!atomic_load(&over)) {
        it_evd_param_t params = { .sevd_queue_size = RECEIVES + tc_below(&rng, 100) };

        ok(modify(evd, IT_EVD_PARAM_QUEUE_SIZE, params));
        ck_assert_uint_ge(queried(evd).sevd_queue_size, params.sevd_queue_size);
        sched_yield();
    }
    return NULL;
}

START_TEST(resized_under_traffic)
{
    unsigned long count = tc_count(3000);
    pthread_t resizer;

    connect_with(IFACE, 0, RECEIVES, IT_THRESHOLD_DISABLE);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        receive_flagged(i, BOTH);
    pthread_create(&resizer, NULL, keep_resizing, NULL);
    for (it_dto_cookie_t i = 0; i < count; i++) {
        send_octets(&pair.a, &here, SIZE, i, BOTH);
        expect_done(evd, RECV, i, IT_DTO_SUCCESS);
        receive_flagged(i + 8, BOTH);
        expect_done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
    }
    atomic_store(&over, true);
    pthread_join(resizer, NULL);
}
END_TEST

/* --- overflow --- */

START_TEST(overflow_flags)
{
    static const struct {
        unsigned int stream, flags;
        it_status_t status;
    } rows[] = {
        { IT_DTO_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT | IT_EVD_OVERFLOW_NOTIFY,
          IT_ERR_INVALID_FLAGS },
        { IT_CM_MSG_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT | IT_EVD_OVERFLOW_AUTO_RESET,
          IT_ERR_INVALID_FLAGS },
        { IT_ASYNC_UNAFF_EVENT_STREAM, IT_EVD_OVERFLOW_NOTIFY, IT_ERR_INVALID_FLAGS },
        { IT_ASYNC_UNAFF_EVENT_STREAM, IT_EVD_OVERFLOW_AUTO_RESET, IT_SUCCESS },
        { IT_AEVD_NOTIFICATION_EVENT_STREAM, IT_EVD_OVERFLOW_NOTIFY, IT_ERR_INVALID_FLAGS },
        { IT_DTO_EVENT_STREAM, IT_EVD_OVERFLOW_NOTIFY | IT_EVD_OVERFLOW_AUTO_RESET, IT_SUCCESS },
        { IT_CM_MSG_EVENT_STREAM, IT_EVD_OVERFLOW_NOTIFY, IT_SUCCESS },
        { IT_DTO_EVENT_STREAM, 0, IT_SUCCESS },
    };
    it_evd_handle_t handle;

    node_open(&node, IFACE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        it_status_t status = it_evd_create(node.ia, (it_event_type_t)rows[i].stream,
                                           (it_evd_flags_t)rows[i].flags, 4, 0, NULL, &handle,
                                           NULL);

        ck_assert_msg(status == rows[i].status, "row %zu: %s, not %s", i, itx_status_name(status),
                      itx_status_name(rows[i].status));
        if (status == IT_SUCCESS)
            ck_assert_int_eq(queried(handle).evd_flag, (it_evd_flags_t)rows[i].flags);
        if (status == IT_SUCCESS)
            ok(it_evd_free(handle));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_notify");
    TCase *events = tc_case(suite, "notification events", NULL, fx_close);
    TCase *changes = tc_case(suite, "modify", NULL, fx_close);

    tcase_set_timeout(events, 60);
    tcase_set_timeout(changes, 60);
    add_where(events, FX_SOFTRDMA, quiet_receives_end_no_wait,
              quiet_receives_do_not_raise_the_descriptor, a_wait_takes_quiet_ones_at_its_end,
              a_wait_takes_quiet_ones_at_its_begin);
    add_each(events, flushed_receives_notify);
    add_where(events, FX_SOFTRDMA, a_threshold_of_completions);
    add_each(changes, modify_errors, modify_of_a_list, disabled_and_enabled, disabling_ends_waits);
    add_where(changes, FX_SOFTRDMA, resized_under_traffic);
    add_each(changes, overflow_flags);
    return tc_main(suite);
}
