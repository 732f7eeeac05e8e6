/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No event of a member of an aggregate is lost. Producers with random delays, through lanes and
 * outside them; consumers of the aggregate that wait with random time-outs or poll for a while; a
 * thread that takes members out and puts them back, from one aggregate to another and alone.
 */
#include "lane_fake.h"

#define CYCLES    20000
#define MEMBERS   6u
#define CONSUMERS 2

static struct ual_evd *aggregates[2], *members[MEMBERS];
static struct lf_pipe *feeds[MEMBERS]; /* NULL: completions by post */
static bool notifications;
static atomic_ulong sent, taken;
static atomic_bool done;

static void spend(struct tc_rng *rng)
{
    uint64_t kind = tc_below(rng, 100);

    if (kind < 60)
        for (uint64_t i = tc_below(rng, 500); i; i--)
            __asm__ volatile("");
    else if (kind < 95)
        sched_yield();
    else
        lf_pass((unsigned int)tc_below(rng, kind < 99 ? 100 : 1500));
}

/* Counts an event; drains a member that a notification names. */
static void take(const struct ual_event *event)
{
    struct ual_event next;
    struct ual_evd *ready;

    if (event->stream != UAL_STREAM_NOTIFICATION) {
        atomic_fetch_add(&taken, 1);
        return;
    }
    ready = ual_lookup(event->ready, UAL_EVD);
    while (ual_evd_dequeue(ready, &next) == RI_OK)
        atomic_fetch_add(&taken, 1);
}

static void *consume(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    struct ual_evd *evd = aggregates[number / CONSUMERS];
    struct tc_rng rng = tc_rng(100 + number);
    enum ri_status status = RI_OK;
    struct ual_event event;

    while (!atomic_load(&done) && status != ITAL_ERR_ABORTED) {
        bool poll = tc_below(&rng, 4) == 0;

        status = poll ? ual_evd_dequeue(evd, &event)
                      : ual_evd_wait(evd, tc_below(&rng, 3) ? FOR_EVER : tc_below(&rng, 2000),
                                     &event, NULL);
        if (status == RI_OK)
            take(&event);
    }
    return NULL;
}

static void *move_members(void *arg)
{
    struct tc_rng rng = tc_rng(7);

    (void)arg;
    while (!atomic_load(&done)) {
        struct ual_evd *member = members[tc_below(&rng, MEMBERS)];

        spend(&rng);
        if (tc_below(&rng, 2)) {
            ok(ual_evd_set_aggregate(member, NULL));
            spend(&rng);
        }
        ok(ual_evd_set_aggregate(member, aggregates[tc_below(&rng, 2)]));
    }
    return NULL;
}

static void produce(void)
{
    struct tc_rng rng = tc_rng(1);

    for (unsigned long i = 0; i < tc_count(CYCLES); i++) {
        uint32_t member = (uint32_t)tc_below(&rng, MEMBERS);
        unsigned long ahead = tc_below(&rng, 4) ? 0 : 8;

        ck_assert_msg(tc_until(atomic_load(&taken) + ahead >= atomic_load(&sent), 20000),
                      "event %lu was not taken; seed 0x%llx", atomic_load(&taken),
                      (unsigned long long)tc_seed());
        spend(&rng);
        atomic_fetch_add(&sent, 1);
        if (feeds[member])
            lf_send(feeds[member], i);
        else
            lf_complete(members[member], i);
    }
    ck_assert_msg(tc_until(atomic_load(&taken) == atomic_load(&sent), 20000),
                  "%lu of %lu events were taken", atomic_load(&taken), atomic_load(&sent));
}

static struct ual_evd *make(enum ual_stream stream, uint32_t flags)
{
    struct ual_evd_attr attr = { .stream = stream, .size = 4096, .flags = flags };
    struct ual_evd *made = NULL;

    ok(ual_evd_create(lf_device, &attr, &made));
    return made;
}

static void stress(uint32_t lanes, bool moving)
{
    pthread_t consumers[2 * CONSUMERS], mover;

    lf_open_lanes(lanes, 0);
    for (int i = 0; i < 2; i++)
        aggregates[i] = make(UAL_STREAM_NOTIFICATION, notifications ? UAL_EVD_NOTIFICATIONS : 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i] = make(UAL_STREAM_DTO, 0);
        ok(ual_evd_set_aggregate(members[i], aggregates[i % 2]));
        feeds[i] = i % 3 ? lf_pipe_on(members[i], i % lanes) : NULL;
    }
    for (uintptr_t i = 0; i < 2 * CONSUMERS; i++)
        ck_assert_int_eq(pthread_create(&consumers[i], NULL, consume, (void *)i), 0);
    if (moving)
        ck_assert_int_eq(pthread_create(&mover, NULL, move_members, NULL), 0);
    produce();
    atomic_store(&done, true);
    for (int i = 0; i < 2; i++)
        ual_evd_abort(aggregates[i]);
    for (int i = 0; i < 2 * CONSUMERS; i++)
        pthread_join(consumers[i], NULL);
    if (moving)
        pthread_join(mover, NULL);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (feeds[i])
            lf_pipe_close(feeds[i]);
    lf_close();
}

START_TEST(events)
{
    stress(1 + (uint32_t)_i, false);
}
END_TEST

START_TEST(notified)
{
    notifications = true;
    stress(1 + (uint32_t)_i, false);
}
END_TEST

/* Events only: a notification of a member that has moved on names one that the consumer need not
 * drain. */
START_TEST(members_come_and_go)
{
    stress(1 + (uint32_t)_i, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("no event of a member is lost");
    TCase *tc = tc_case(suite, "stress", NULL, NULL);

    tcase_set_timeout(tc, 300);
    tc_add_loops(tc, 0, 2, events, notified, members_come_and_go);
    return tc_main(suite);
}
