/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stash of a CQ whose provider can only fire at the next completion: order, criteria, room,
 * purges and resizing against a model; upcalls inside the provider's calls; threads.
 */
#include "tc.h"

#include "ual/mechanism/cq_stash.h"

#include "base/spinlock.h"

#include <pthread.h>
#include <sched.h>

/* --- the provider's CQ --- */

#define BELOW 512u

static struct below {
    struct ri_cq base;
    struct spinlock lock;
    struct ri_wc entries[BELOW];
    uint32_t count;
    bool armed;
} below;

static struct ual_cq_stash *stash;
static struct ri_cq *cq; /* the stash's */
static atomic_uint fires;

/* Happens inside the provider's next poll or arm: a completion, and its upcall. */
static const struct ri_wc *inside_poll, *inside_arm;

static void fired(void *context)
{
    ck_assert_ptr_eq(context, &fires);
    atomic_fetch_add(&fires, 1);
}

static unsigned int reported_more;

static void count_more(void *context, uint32_t told, uint32_t asked)
{
    ck_assert_ptr_eq(context, &fires);
    ck_assert_uint_gt(told, asked);
    reported_more++;
}

static const struct ual_cq_stash_upper upper = { .fired = fired, .reported_more = count_more };

static void complete(const struct ri_wc *wc)
{
    bool fire;

    spinlock_lock(&below.lock);
    ck_assert_uint_lt(below.count, BELOW);
    below.entries[below.count++] = *wc;
    fire = below.armed;
    below.armed = false;
    spinlock_unlock(&below.lock);
    if (fire)
        ual_cq_stash_fired(stash);
}

static void complete_inside(const struct ri_wc **what)
{
    const struct ri_wc *wc = *what;

    *what = NULL;
    if (wc)
        complete(wc);
}

static uint32_t poll_below(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    ck_assert_ptr_eq(base, &below.base);
    spinlock_lock(&below.lock);
    if (count > below.count)
        count = below.count;
    if (count)
        memcpy(wc, below.entries, count * sizeof(*wc));
    below.count -= count;
    memmove(below.entries, below.entries + count, below.count * sizeof(*wc));
    spinlock_unlock(&below.lock);
    complete_inside(&inside_poll);
    return count;
}

static enum ri_status arm_below(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    (void)count;
    ck_assert_ptr_eq(base, &below.base);
    ck_assert_int_eq(kind, RI_ARM_NEXT);
    spinlock_lock(&below.lock);
    below.armed = true;
    spinlock_unlock(&below.lock);
    complete_inside(&inside_arm);
    return RI_OK;
}

static const struct ri_user_ops below_ops = {
    .size = sizeof(below_ops),
    .abi_major = RI_ABI_MAJOR,
    .poll = poll_below,
    .arm = arm_below,
};

static void open_stash(uint32_t depth, bool tells_solicited)
{
    below = (struct below){ .base.ops = &below_ops };
    stash = ual_cq_stash_open(&below.base, depth, tells_solicited, &upper, &fires);
    ck_assert_ptr_nonnull(stash);
    cq = ual_cq_stash_cq(stash);
    atomic_store(&fires, 0);
}

static void arm(enum ri_arm kind, uint32_t count)
{
    ck_assert_int_eq(cq->ops->arm(cq, kind, count), RI_OK);
}

static struct ri_wc plain(uint64_t cookie)
{
    return (struct ri_wc){ .cookie = cookie, .opcode = RI_WC_SEND };
}

static struct ri_wc notifying(uint64_t cookie)
{
    return (struct ri_wc){ .cookie = cookie, .opcode = RI_WC_SEND, .flags = RI_WC_NOTIFY };
}

static void expect_polled(uint64_t cookie)
{
    struct ri_wc wc;

    ck_assert_uint_eq(cq->ops->poll(cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
}

/* --- the model: one queue, and how it is armed --- */

#define CALLS    4000u
#define SOURCES  3u
#define DEEPEST  40u
#define OF_BELOW 400u /* completions, at most */

static struct {
    struct tc_rng rng;
    bool tells_solicited;
    struct ri_wc queue[BELOW];
    uint32_t count, depth;
    bool armed;
    enum ri_arm kind;
    uint32_t wanted;
    unsigned int fires;
    uint64_t cookies;
} model;

static bool is_solicited(const struct ri_wc *wc)
{
    return wc->status != RI_WC_SUCCESS || (wc->flags & RI_WC_SOLICITED) ||
           (!model.tells_solicited && wc->opcode >= RI_WC_RECV);
}

static bool is_marked(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_NOTIFY) || is_solicited(wc);
}

/* In the stash: completions beyond its last place are not seen. */
static uint32_t seen(void)
{
    return model.count < model.depth ? model.count : model.depth;
}

static void fire_if(bool fires_now)
{
    model.fires += fires_now;
    model.armed = model.armed && !fires_now;
}

static void do_complete(void)
{
    struct ri_wc wc = {
        .cookie = model.cookies++,
        .opcode = tc_below(&model.rng, 2) ? RI_WC_RECV : RI_WC_SEND,
        .status = tc_below(&model.rng, 8) ? RI_WC_SUCCESS : RI_WC_FLUSHED,
        .flags = (tc_below(&model.rng, 4) ? 0 : RI_WC_NOTIFY) |
                 (tc_below(&model.rng, 6) ? 0 : RI_WC_SOLICITED),
        .context = (void *)(uintptr_t)(1 + tc_below(&model.rng, SOURCES)),
    };

    if (model.count == OF_BELOW)
        return;
    model.queue[model.count++] = wc;
    if (model.armed)
        fire_if(model.kind == RI_ARM_NEXT ||
                (model.kind == RI_ARM_SOLICITED && is_solicited(&wc)) ||
                (model.kind == RI_ARM_NOTIFY_MARKED && is_marked(&wc)) ||
                (model.kind == RI_ARM_NTH && seen() >= model.wanted) || seen() == model.depth);
    complete(&wc);
}

static void do_arm(void)
{
    model.armed = true;
    model.kind = (enum ri_arm)tc_below(&model.rng, RI_ARM_NTH + 1);
    model.wanted = 1 + (uint32_t)tc_below(&model.rng, model.depth);
    fire_if((model.kind == RI_ARM_NTH && seen() >= model.wanted) || seen() == model.depth);
    arm(model.kind, model.wanted);
}

static void do_poll(void)
{
    struct ri_wc got[DEEPEST];
    uint32_t most = (uint32_t)tc_below(&model.rng, DEEPEST), count, expected;

    expected = most < model.count ? most : model.count;
    count = cq->ops->poll(cq, most, got);
    ck_assert_uint_eq(count, expected);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(got[i].cookie, model.queue[i].cookie);
    model.count -= count;
    memmove(model.queue, model.queue + count, model.count * sizeof(model.queue[0]));
}

static void do_peek(void)
{
    uint32_t total, notify, marked = 0;

    ck_assert_int_eq(cq->ops->cq_peek(cq, &total, &notify), RI_OK);
    ck_assert_uint_eq(total, seen());
    for (uint32_t i = 0; i < seen(); i++)
        marked += is_marked(&model.queue[i]);
    ck_assert_uint_eq(notify, seen() == model.depth ? model.depth : marked);
}

static uint32_t keep_others(struct ri_wc *queue, uint32_t count, const void *context)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++)
        if (queue[i].context != context)
            queue[left++] = queue[i];
    return left;
}

/* A QP is destroyed: the provider purges its CQ first. */
static void do_purge(void)
{
    const void *context = (void *)(uintptr_t)(1 + tc_below(&model.rng, SOURCES));

    if (tc_below(&model.rng, 4))
        return;
    below.count = keep_others(below.entries, below.count, context);
    ual_cq_stash_forget(stash, context);
    model.count = keep_others(model.queue, model.count, context);
}

static void do_resize(void)
{
    uint32_t depth = 1 + (uint32_t)tc_below(&model.rng, DEEPEST);
    bool fits = depth >= seen();

    if (tc_below(&model.rng, 8))
        return;
    ck_assert_int_eq(ual_cq_stash_resize(stash, depth), fits ? RI_OK : RI_ERR_BUSY);
    if (depth > model.depth) {
        model.depth = depth;
    } else if (fits && model.armed && model.kind == RI_ARM_NTH) { /* more can never come */
        model.wanted = depth < model.wanted ? depth : model.wanted;
        fire_if(seen() >= model.wanted);
    }
}

START_TEST(any_calls_against_the_model)
{
    static void (*const calls[])(void) = { do_complete, do_complete, do_complete,
                                           do_complete, do_arm,      do_poll,
                                           do_peek,     do_purge,    do_resize };
    uint64_t seed = tc_seed();

    for (unsigned long history = 0; history < tc_count(100); history++) {
        memset(&model, 0, sizeof(model));
        model.rng = tc_rng(seed + history);
        model.tells_solicited = tc_below(&model.rng, 2);
        model.depth = 1 + (uint32_t)tc_below(&model.rng, 8);
        open_stash(model.depth, model.tells_solicited);
        for (unsigned int i = 0; i < CALLS; i++) {
            calls[tc_below(&model.rng, sizeof(calls) / sizeof(calls[0]))]();
            ck_assert_msg(
                atomic_load(&fires) == model.fires, "seed %llu, call %u: fired %u times, not %u",
                (unsigned long long)(seed + history), i, atomic_load(&fires), model.fires);
        }
        ual_cq_stash_close(stash);
    }
    fprintf(stderr, "# from seed %llu\n", (unsigned long long)seed);
}
END_TEST

/* --- upcalls inside the provider's calls --- */

START_TEST(an_upcall_out_of_arm_is_not_lost)
{
    struct ri_wc wc = notifying(1);

    open_stash(4, true);
    inside_arm = &wc;
    arm(RI_ARM_NOTIFY_MARKED, 0);
    ck_assert_uint_eq(atomic_load(&fires), 1);
    expect_polled(1);
    ual_cq_stash_close(stash);
}
END_TEST

START_TEST(an_upcall_out_of_poll_is_not_lost)
{
    struct ri_wc wc = notifying(2), got;

    open_stash(4, true);
    arm(RI_ARM_NOTIFY_MARKED, 0);
    inside_poll = &wc;
    ck_assert_uint_eq(cq->ops->poll(cq, 1, &got), 0);
    ck_assert_uint_eq(atomic_load(&fires), 1);
    expect_polled(2);
    ual_cq_stash_close(stash);
}
END_TEST

/* A completion that does not notify leaves the provider's CQ armed for one that does. */
START_TEST(what_does_not_notify_is_looked_at_and_kept)
{
    struct ri_wc wc = notifying(4);

    open_stash(8, true);
    arm(RI_ARM_NOTIFY_MARKED, 0);
    for (uint64_t i = 0; i < 4; i++)
        complete(&(struct ri_wc){ .cookie = i, .opcode = RI_WC_SEND });
    ck_assert_uint_eq(atomic_load(&fires), 0);
    complete(&wc);
    ck_assert_uint_eq(atomic_load(&fires), 1);
    for (uint64_t i = 0; i <= 4; i++)
        expect_polled(i);
    ual_cq_stash_close(stash);
}
END_TEST

START_TEST(bad_arguments)
{
    open_stash(4, true);
    ck_assert_int_eq(cq->ops->arm(cq, RI_ARM_NTH, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(cq->ops->arm(cq, (enum ri_arm)4, 1), RI_ERR_INVALID_ARGUMENT);
    ck_assert(!below.armed);
    ck_assert(!ual_cq_stash_needed(&(struct ri_rnic_attr){ .features = ~UINT64_C(0) }));
    ck_assert(ual_cq_stash_needed(&(struct ri_rnic_attr){ .features = RI_FEATURE_CQ_ARM_NTH }));
    ual_cq_stash_close(stash);
}
END_TEST

/* --- threads --- */

#define BATCH 5u /* four that do not notify, one that does */

static atomic_bool done;
static _Atomic uint64_t taken;

static void *produce(void *arg)
{
    uint64_t batches = *(uint64_t *)arg;

    for (uint64_t i = 0; i < batches * BATCH; i++) {
        struct ri_wc wc = i % BATCH == BATCH - 1 ? notifying(i) : plain(i);

        complete(&wc);
        /* All of a batch is taken before the next one, so each batch needs its own wake-up. */
        while (i % BATCH == BATCH - 1 && atomic_load(&taken) <= i)
            sched_yield();
    }
    return NULL;
}

static void *look_and_resize(void *arg)
{
    struct tc_rng rng = tc_rng(5);
    uint32_t total, notify;

    (void)arg;
    while (!atomic_load(&done)) {
        ck_assert_int_eq(cq->ops->cq_peek(cq, &total, &notify), RI_OK);
        ck_assert_uint_le(total, BATCH);
        ck_assert_uint_le(notify, 1);
        ck_assert_int_eq(ual_cq_stash_resize(stash, 8 + (uint32_t)tc_below(&rng, 200)), RI_OK);
        sched_yield();
    }
    return NULL;
}

/* The consumer arms, polls and waits for the upcall; nothing else wakes it. */
START_TEST(no_wake_up_is_lost)
{
    uint64_t batches = tc_count(20000), next = 0;
    pthread_t producer, resizer;
    struct ri_wc got[BATCH];

    open_stash(8, true);
    ck_assert_int_eq(pthread_create(&producer, NULL, produce, &batches), 0);
    ck_assert_int_eq(pthread_create(&resizer, NULL, look_and_resize, NULL), 0);
    while (next < batches * BATCH) {
        unsigned int before = atomic_load(&fires);
        uint32_t total, notify, count;

        arm(RI_ARM_NOTIFY_MARKED, 0);
        ck_assert_int_eq(cq->ops->cq_peek(cq, &total, &notify), RI_OK);
        if (!notify && !tc_until(atomic_load(&fires) != before, 20000))
            ck_abort_msg("completion %llu of %llu: nothing fires", (unsigned long long)next,
                         (unsigned long long)(batches * BATCH));
        while ((count = cq->ops->poll(cq, BATCH, got)))
            for (uint32_t i = 0; i < count; i++)
                ck_assert_uint_eq(got[i].cookie, next++);
        atomic_store(&taken, next);
    }
    pthread_join(producer, NULL);
    atomic_store(&done, true);
    pthread_join(resizer, NULL);
    ual_cq_stash_close(stash);
}
END_TEST

/* --- a provider that lies --- */

static uint32_t answer_more(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    ck_assert_ptr_eq(base, &below.base);
    if (count)
        memset(wc, 0, count * sizeof(*wc));
    return count + 100;
}

START_TEST(more_than_asked_for_is_not_believed)
{
    const struct ri_user_ops lying = {
        .size = sizeof(lying), .abi_major = RI_ABI_MAJOR, .poll = answer_more, .arm = arm_below
    };
    uint32_t total, notify;
    struct ri_wc wc[20];

    open_stash(8, true);
    below.base.ops = &lying;
    ck_assert_int_eq(cq->ops->cq_peek(cq, &total, &notify), RI_OK);
    ck_assert_uint_eq(total, 8);
    ck_assert_uint_eq(reported_more, 1);
    ck_assert_uint_eq(cq->ops->poll(cq, 10, wc), 10); /* the ring, and two from below */
    ck_assert_uint_eq(reported_more, 2);
    ck_assert_uint_eq(cq->ops->poll(cq, 0, NULL), 0);
    below.base.ops = &below_ops;
    ck_assert_uint_eq(cq->ops->poll(cq, 20, wc), 0);
    ual_cq_stash_close(stash);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the stash of a CQ");
    TCase *one = tc_case(suite, "one thread", NULL, NULL);
    TCase *threads = tc_case(suite, "threads", NULL, NULL);

    tc_add_tests(one, any_calls_against_the_model, an_upcall_out_of_arm_is_not_lost,
                 an_upcall_out_of_poll_is_not_lost, what_does_not_notify_is_looked_at_and_kept,
                 bad_arguments, more_than_asked_for_is_not_believed);
    tcase_add_test(threads, no_wake_up_is_lost);
    tcase_set_timeout(one, 60);
    tcase_set_timeout(threads, 60);
    return tc_main(suite);
}
