/* SPDX-License-Identifier: BSD-3-Clause
 * Channels: their queue and their descriptor, which is readable exactly while something is queued.
 * Threads that wait: test_channel_wait. */
#include "device_fixture.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct ual_channel *channel;
static struct ual_device *channel_device; /* NULL: none */
static struct ual_channel_item items[4];
static int contexts[4];

static void setup_any(bool of_device)
{
    setup();
    channel_device = of_device ? device : NULL;
    channel = make_channel(channel_device);
    for (int i = 0; i < 4; i++)
        items[i].context = &contexts[i];
}

static void setup_of_device(void)
{
    setup_any(true);
}

static void setup_of_none(void)
{
    setup_any(false);
}

static void teardown_channel(void)
{
    ok(ual_channel_free(channel));
    teardown();
}

/* --- the descriptor --- */

START_TEST(readable_exactly_while_something_is_queued)
{
    expect_nothing(channel);
    ual_channel_post(channel, &items[0]);
    ck_assert(readable(channel));
    ual_channel_post(channel, &items[1]);
    ck_assert(readable(channel));
    expect_posted(channel, &items[0]);
    ck_assert(readable(channel));
    expect_posted(channel, &items[1]);
    expect_nothing(channel);
    ual_channel_post(channel, &items[2]);
    ual_channel_post(channel, &items[3]);
    ck_assert_uint_eq(ual_channel_purge(channel, &contexts[2], NULL), 1);
    ck_assert(readable(channel));
    ck_assert_uint_eq(ual_channel_purge(channel, &contexts[3], NULL), 1);
    expect_nothing(channel);
}
END_TEST

START_TEST(oldest_first_whatever_the_source)
{
    struct ual_cq *cq = make_cq(channel, &contexts[0]);
    struct ual_channel_event event;

    ok(ual_async_to(device, channel));
    ual_channel_post(channel, &items[1]);
    fire(cq);
    fk_rnic_event(RI_EVENT_PORT_DOWN, 1);
    fk_drain();
    ual_channel_post(channel, &items[0]);
    expect_posted(channel, &items[1]);
    expect_cq(channel, cq);
    event = next_event(channel, UAL_ITEM_ASYNC);
    ck_assert_int_eq(event.async.event.type, RI_EVENT_PORT_DOWN);
    ck_assert_uint_eq(event.async.event.port, 1);
    ck_assert_ptr_null(event.async.object);
    ck_assert_ptr_null(event.async.cq);
    ck_assert_ptr_eq(event.context, &told);
    ck_assert(readable(channel));
    expect_posted(channel, &items[0]);
    expect_nothing(channel);
    ok(ual_async_to(device, NULL));
    ok(ual_cq_free(cq));
}
END_TEST

START_TEST(a_cq_that_fired_n_times_gives_n_events)
{
    struct ual_cq *cq = make_cq(channel, NULL);

    for (int i = 0; i < 3; i++)
        fire(cq);
    fk_cq_complete(cq->cq, &(struct ri_wc){ .cookie = 1 }); /* not armed */
    for (int i = 0; i < 3; i++) {
        ck_assert(readable(channel));
        expect_cq(channel, cq);
    }
    expect_nothing(channel);
    ok(ual_cq_free(cq));
}
END_TEST

/* A source that fires all the time does not delay the others. */
START_TEST(a_cq_that_fired_twice_goes_behind_the_others)
{
    struct ual_cq *cq = make_cq(channel, NULL);

    fire(cq);
    fire(cq);
    ual_channel_post(channel, &items[0]);
    expect_cq(channel, cq);
    expect_posted(channel, &items[0]);
    ck_assert(readable(channel));
    expect_cq(channel, cq);
    expect_nothing(channel);
    ok(ual_cq_free(cq));
}
END_TEST

/* A model of the queue: sources 0 and 1 are CQs, the others posted items. */
static struct {
    unsigned int source[8], times[8], count;
} model;

static unsigned int model_find(unsigned int source)
{
    unsigned int place = 0;

    while (place < model.count && model.source[place] != source)
        place++;
    return place;
}

static void model_add(unsigned int source)
{
    unsigned int place = model_find(source);

    if (place == model.count) {
        model.source[model.count] = source;
        model.times[model.count++] = 0;
    }
    model.times[place]++;
}

static unsigned int model_remove(unsigned int place)
{
    unsigned int times = model.times[place];

    model.count--;
    for (; place < model.count; place++) {
        model.source[place] = model.source[place + 1];
        model.times[place] = model.times[place + 1];
    }
    return times;
}

static void get_and_compare(struct ual_cq *const *cqs)
{
    unsigned int source = model.source[0], left;

    if (!model.count) {
        expect_nothing(channel);
        return;
    }
    left = model_remove(0) - 1;
    if (source < 2)
        expect_cq(channel, cqs[source]);
    else
        expect_posted(channel, &items[source]);
    for (; left; left--)
        model_add(source);
}

static void purge_and_compare(unsigned int source)
{
    unsigned int place = model_find(source), times = 0;

    if (place < model.count)
        times = model_remove(place);
    ck_assert_uint_eq(ual_channel_purge(channel, &contexts[source], NULL), times);
}

START_TEST(follows_its_model)
{
    struct ual_cq *cqs[2] = { make_cq(channel, &contexts[0]), make_cq(channel, &contexts[1]) };
    struct tc_rng rng = tc_rng((uint64_t)_i);
    struct ri_wc wc[16];

    for (unsigned long i = tc_count(5000); i; i--) {
        unsigned int source = (unsigned int)tc_below(&rng, 4);
        uint64_t what = tc_below(&rng, 10);

        if (what < 5)
            get_and_compare(cqs);
        else if (what == 5)
            purge_and_compare(source);
        else if (source < 2)
            fire(cqs[source]);
        else if (model_find(source) == model.count)
            ual_channel_post(channel, &items[source]);
        else
            continue;
        if (what > 5)
            model_add(source);
        for (int k = 0; k < 2; k++)
            ual_cq_poll(cqs[k], 16, wc);
        ck_assert(readable(channel) == (model.count > 0));
    }
    ok(ual_cq_free(cqs[0]));
    ok(ual_cq_free(cqs[1]));
}
END_TEST

/* O_NONBLOCK belongs to the user's file description: whatever he sets, the calls neither block nor
 * change it. */
START_TEST(the_users_nonblock_changes_nothing)
{
    int fd = ual_channel_fd(channel);

    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    for (int round = 0; round < 4; round++) {
        int flags = fcntl(fd, F_GETFL) ^ O_NONBLOCK;

        ck_assert_int_eq(fcntl(fd, F_SETFL, flags), 0);
        for (int i = 0; i < 2; i++) {
            ual_channel_post(channel, &items[0]);
            ck_assert(readable(channel));
            expect_posted(channel, &items[0]);
            expect_nothing(channel);
        }
        ual_channel_post(channel, &items[0]);
        ck_assert_int_eq(fcntl(fd, F_SETFL, flags ^ O_NONBLOCK), 0);
        expect_posted(channel, &items[0]);
        expect_nothing(channel);
        ck_assert_int_eq(fcntl(fd, F_SETFL, flags), 0);
        ck_assert_int_eq(fcntl(fd, F_GETFL), flags);
    }
}
END_TEST

/* A user who reads the descriptor against the rule affects only himself: no call waits for what he
 * read. */
START_TEST(a_descriptor_that_was_read_holds_nobody)
{
    uint64_t count;

    ual_channel_post(channel, &items[0]);
    ck_assert_int_eq(read(ual_channel_fd(channel), &count, sizeof(count)), sizeof(count));
    expect_posted(channel, &items[0]);
    ual_channel_post(channel, &items[1]);
    ck_assert(readable(channel));
    expect_posted(channel, &items[1]);
    expect_nothing(channel);
}
END_TEST

/* As filters of containers do, and Linux before 5.8 with an eventfd. */
static void forbid_preadv2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        tc_skip("no seccomp here");
}

START_TEST(readable_exactly_while_something_is_queued_without_preadv2)
{
    forbid_preadv2();
    for (int round = 0; round < 2; round++) {
        ual_channel_post(channel, &items[0]);
        ck_assert(readable(channel));
        expect_posted(channel, &items[0]);
        ck_assert(!readable(channel));
        expect_nothing(channel);
    }
}
END_TEST

/* --- purge --- */

static unsigned int dropped;
static struct ual_channel_item *last_dropped;

static void drop(struct ual_channel_item *item)
{
    dropped++;
    last_dropped = item;
}

START_TEST(purge_gives_items_back_and_counts)
{
    struct ual_cq *cq = make_cq(channel, &contexts[0]);

    items[1].context = &contexts[0];
    fire(cq);
    fire(cq);
    ual_channel_post(channel, &items[0]);
    ual_channel_post(channel, &items[2]);
    ual_channel_post(channel, &items[1]);
    ck_assert_uint_eq(ual_channel_purge(channel, &contexts[3], drop), 0);
    ck_assert_uint_eq(ual_channel_purge(channel, &contexts[0], drop), 4);
    ck_assert_uint_eq(dropped, 2); /* the CQ has no item to return */
    ck_assert_ptr_eq(last_dropped, &items[1]);
    ck_assert(readable(channel));
    expect_posted(channel, &items[2]);
    expect_nothing(channel);
    ual_channel_post(channel, &items[0]); /* it was returned */
    expect_posted(channel, &items[0]);
    fire(cq);
    expect_cq(channel, cq);
    ok(ual_cq_free(cq));
}
END_TEST

static struct ual_cq *firing;

/* The CQ fires, and an item of another context is posted, while items are returned. */
static void drop_while_it_fires(struct ual_channel_item *item)
{
    drop(item);
    if (dropped != 1)
        return;
    fire(firing);
    ual_channel_post(channel, &items[3]);
}

START_TEST(a_cq_may_fire_while_its_context_is_purged)
{
    firing = make_cq(channel, &contexts[0]);
    items[1].context = &contexts[0];
    ual_channel_post(channel, &items[0]);
    fire(firing);
    ual_channel_post(channel, &items[1]);
    ck_assert_uint_eq(ual_channel_purge(channel, &contexts[0], drop_while_it_fires), 3);
    ck_assert_uint_eq(dropped, 2);
    ck_assert_ptr_eq(last_dropped, &items[1]);
    expect_cq(channel, firing);
    expect_posted(channel, &items[3]);
    expect_nothing(channel);
    ok(ual_cq_free(firing));
}
END_TEST

/* All sources here have the device's context. */
START_TEST(async_to_nowhere_purges_asynchronous_events_only)
{
    struct ual_cq *cq = make_cq(channel, &told);

    items[0].context = &told;
    ok(ual_async_to(device, channel));
    fk_rnic_event(RI_EVENT_PORT_DOWN, 1);
    fk_drain();
    fire(cq);
    ual_channel_post(channel, &items[0]);
    ok(ual_async_to(device, NULL));
    fk_rnic_event(RI_EVENT_PORT_UP, 1); /* to the upcall only */
    fk_drain();
    ck_assert_uint_eq(atomic_load(&told.count), 2);
    expect_cq(channel, cq);
    expect_posted(channel, &items[0]);
    expect_nothing(channel);
    ok(ual_async_to(device, NULL)); /* no effect */
    ok(ual_cq_free(cq));
}
END_TEST

START_TEST(what_is_queued_is_dropped_at_free)
{
    struct ual_channel *other = make_channel(device);

    ual_channel_post(other, &items[0]);
    ual_channel_post(other, &items[1]);
    ok(ual_channel_free(other));
    ual_channel_post(channel, &items[0]); /* available for another event */
    expect_posted(channel, &items[0]);
}
END_TEST

/* --- several devices --- */

START_TEST(two_devices_in_one_channel)
{
    struct ual_channel *shared = make_channel(NULL);
    struct ual_device *second;
    struct ual_cq *cqs[2];

    ok(ual_device_open("fake0", NULL, &told, &second));
    cqs[0] = make_cq_of(device, shared, &contexts[0]);
    cqs[1] = make_cq_of(second, shared, &contexts[1]);
    fire(cqs[1]);
    fire(cqs[0]);
    fire(cqs[1]);
    expect_cq(shared, cqs[1]);
    expect_cq(shared, cqs[0]);
    expect_cq(shared, cqs[1]);
    expect_nothing(shared);
    fire(cqs[0]);
    fire(cqs[1]);
    ok(ual_cq_free(cqs[0]));
    expect_cq(shared, cqs[1]);
    expect_nothing(shared);
    fails(ual_channel_free(shared), RI_ERR_BUSY);
    ok(ual_cq_free(cqs[1]));
    ok(ual_channel_free(shared));
    close_one(second);
}
END_TEST

/* Devices that were opened with the same context, for example NULL. */
START_TEST(one_device_leaves_the_others_asynchronous_events)
{
    struct ual_channel *shared = make_channel(NULL);
    struct ual_channel_event event;
    struct ual_device *second;

    ok(ual_device_open("fake0", NULL, &told, &second));
    ok(ual_async_to(device, shared));
    ok(ual_async_to(second, shared));
    fk_rnic_event(RI_EVENT_PORT_DOWN, 7); /* of the second */
    fk_drain();
    ok(ual_async_to(device, NULL));
    event = next_event(shared, UAL_ITEM_ASYNC);
    ck_assert_uint_eq(event.async.event.port, 7);
    ok(ual_async_to(second, NULL));
    ok(ual_channel_free(shared));
    close_one(second);
}
END_TEST

/* --- life --- */

START_TEST(busy_while_a_cq_uses_it)
{
    struct ual_cq *cqs[2] = { make_cq(channel, NULL), make_cq(channel, NULL) };

    fails(ual_channel_free(channel), RI_ERR_BUSY);
    ok(ual_cq_free(cqs[0]));
    fails(ual_channel_free(channel), RI_ERR_BUSY);
    fire(cqs[1]); /* it can still be used */
    expect_cq(channel, cqs[1]);
    ok(ual_cq_free(cqs[1]));
}
END_TEST

START_TEST(busy_while_asynchronous_events_go_there)
{
    struct ual_channel *other = make_channel(device);

    ok(ual_async_to(device, channel));
    fails(ual_async_to(device, other), ITAL_ERR_EXISTS);
    fails(ual_channel_free(channel), RI_ERR_BUSY);
    ok(ual_channel_free(other));
    ok(ual_async_to(device, NULL));
    other = make_channel(device);
    ok(ual_async_to(device, other));
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(other));
}
END_TEST

START_TEST(a_device_with_channels_does_not_close)
{
    struct ual_channel *own = make_channel(device);

    fails(ual_device_close(device), RI_ERR_BUSY);
    ok(ual_channel_free(own));
}
END_TEST

START_TEST(refused)
{
    struct rlimit before, none;
    struct ual_channel *none_made = NULL;

    fails(ual_channel_create(device, 2, &none_made), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    fails(ual_channel_create(channel_device, UAL_CHANNEL_FD, &none_made), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_ptr_null(none_made);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    fails(ual_channel_create(device, 0, &none_made), RI_ERR_DEVICE);
    fails(ual_async_to(device, channel), RI_ERR_DEVICE);
    ck_assert_ptr_null(none_made);
}
END_TEST

START_TEST(without_a_descriptor)
{
    struct ual_channel *bare;

    ok(ual_channel_create(channel_device, 0, &bare));
    ck_assert_int_eq(ual_channel_fd(bare), -1);
    ual_channel_post(bare, &items[0]);
    expect_posted(bare, &items[0]);
    expect_nothing(bare);
    ok(ual_channel_free(bare));
}
END_TEST

/* Earlier events are still reported. */
START_TEST(a_dead_device_is_told_when_nothing_is_queued)
{
    struct ual_channel *own = make_channel(device);
    struct ual_channel_event event;

    ok(ual_async_to(device, own));
    ual_channel_post(own, &items[0]);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    expect_posted(own, &items[0]);
    ck_assert_int_eq(next_event(own, UAL_ITEM_ASYNC).async.event.type, RI_EVENT_RNIC_FATAL);
    ck_assert(!readable(own));
    fails(ual_channel_get(own, 0, &event), RI_ERR_DEVICE);
    fails(ual_channel_get(own, UINT64_MAX, &event), RI_ERR_DEVICE);
    ok(ual_async_to(device, NULL));
    ok(ual_channel_free(own));
}
END_TEST

/* --- fork --- */

static void expect_closed_in_child(int fd)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(fcntl(fd, F_GETFD) == -1 && errno == EBADF ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
}

START_TEST(a_forked_child_has_no_descriptor)
{
    ual_channel_post(channel, &items[0]);
    expect_closed_in_child(ual_channel_fd(channel));
    ck_assert(readable(channel));
    expect_posted(channel, &items[0]);
    expect_nothing(channel);
}
END_TEST

START_TEST(nor_one_of_a_channel_from_before_the_first_device)
{
    struct ual_channel *first = make_channel(NULL);

    expect_closed_in_child(ual_channel_fd(first));
    ok(ual_channel_free(first));
}
END_TEST

static void add_both(TCase *tc)
{
    tc_add_tests(tc, readable_exactly_while_something_is_queued, oldest_first_whatever_the_source,
                 a_cq_that_fired_n_times_gives_n_events,
                 a_cq_that_fired_twice_goes_behind_the_others, the_users_nonblock_changes_nothing,
                 readable_exactly_while_something_is_queued_without_preadv2,
                 a_descriptor_that_was_read_holds_nobody, purge_gives_items_back_and_counts,
                 a_cq_may_fire_while_its_context_is_purged,
                 async_to_nowhere_purges_asynchronous_events_only,
                 what_is_queued_is_dropped_at_free, busy_while_a_cq_uses_it,
                 busy_while_asynchronous_events_go_there, refused, without_a_descriptor,
                 a_forked_child_has_no_descriptor);
    tcase_add_loop_test(tc, follows_its_model, 0, 4);
}

int main(void)
{
    Suite *suite = suite_create("channels");
    TCase *tc;

    add_both(tc_case(suite, "of a device", setup_of_device, teardown_channel));
    add_both(tc_case(suite, "of no device", setup_of_none, teardown_channel));
    tc = tc_case(suite, "several devices", setup_of_device, teardown_channel);
    tc_add_tests(tc, two_devices_in_one_channel, one_device_leaves_the_others_asynchronous_events,
                 a_device_with_channels_does_not_close,
                 a_dead_device_is_told_when_nothing_is_queued);
    tc = tc_case(suite, "before the first device", fk_reset, NULL);
    tc_add_tests(tc, nor_one_of_a_channel_from_before_the_first_device);
    return tc_main(suite);
}
