/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sleep and wake protocol: two threads play ping-pong, each with random pauses before it sends
 * and before it waits. A wait ends by the event, a time-out, a signal, polling that stops without a
 * call, or sleep on the descriptor. Further threads poll other EVDs of the same adapters for a
 * while and stop, wait there with short time-outs, and send signals. A lost wake-up shows as a wait
 * that lasts until the watchdog's deadline although the peer has sent.
 */
#include "opened.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define WATCHDOG 10000u /* ms; a correct wait takes microseconds */

static atomic_bool stop, failed;
static char failure[256];

static void give_up(const char *who, const char *what, it_status_t status)
{
    if (!atomic_exchange(&failed, true))
        snprintf(failure, sizeof(failure), "%s: %s: %s", who, what, itx_status_name(status));
}

/* Pauses without a call of the library: mostly none, often short, seldom longer than the background
 * thread's interval. */
static void pause_a_while(struct tc_rng *rng)
{
    static const unsigned int longest[] = { 0, 0, 1, 5, 20, 100, 100, 2000 }; /* microseconds */
    unsigned int limit = longest[tc_below(rng, 8)];
    uint64_t until;

    if (limit == 2000 && tc_below(rng, 20))
        limit = 50;
    if (!limit)
        return;
    until = tc_now_ns() + tc_below(rng, 1000 * limit);
    while (tc_now_ns() < until)
        sched_yield();
}

/* --- one wait, left in one of many ways --- */

struct player {
    const char *name;
    struct node *node;
    struct buffer buffer;
    int fd; /* of node->receives, or -1 */
    struct tc_rng rng;
    pthread_t thread;
    unsigned long rounds;
    bool serves;
    unsigned long timed_out, interrupted, polled, slept;
};

static it_status_t wait_once(struct player *player, it_evd_handle_t evd, it_event_t *event)
{
    it_status_t status = IT_ERR_QUEUE_EMPTY;
    struct pollfd fd = { .fd = player->fd, .events = POLLIN };

    switch (tc_below(&player->rng, 5)) {
    case 0: return it_evd_wait(evd, IT_TIMEOUT_INFINITE - 1, event, NULL);
    case 1: return it_evd_wait(evd, tc_below(&player->rng, 60), event, NULL);
    case 2: /* poll, then stop without a call */
        for (uint64_t i = tc_below(&player->rng, 200); i && status == IT_ERR_QUEUE_EMPTY; i--)
            status = it_evd_dequeue(evd, event);
        player->polled += status != IT_SUCCESS;
        return status;
    case 3:
        if (player->fd < 0 || evd != player->node->receives)
            return it_evd_wait(evd, IT_TIMEOUT_INFINITE, event, NULL);
        status = it_evd_dequeue(evd, event);
        if (status == IT_ERR_QUEUE_EMPTY) {
            player->slept++;
            if (poll(&fd, 1, (int)tc_timeout_ms(WATCHDOG)) == 0)
                give_up(player->name, "the descriptor said nothing", status);
        }
        return status;
    default: return it_evd_wait(evd, (uint64_t)tc_timeout_ms(WATCHDOG) * 1000, event, NULL);
    }
}

/* Takes the next event of the EVD. watch() guards infinite waits from outside. */
static bool take(struct player *player, it_evd_handle_t evd, it_event_t *event)
{
    uint64_t deadline = tc_deadline(WATCHDOG);

    while (!atomic_load(&failed)) {
        it_status_t status = wait_once(player, evd, event);

        if (status == IT_SUCCESS)
            return true;
        player->timed_out += status == IT_ERR_TIMEOUT_EXPIRED;
        player->interrupted += status == IT_ERR_INTERRUPT;
        if (status != IT_ERR_TIMEOUT_EXPIRED && status != IT_ERR_INTERRUPT &&
            status != IT_ERR_QUEUE_EMPTY) {
            give_up(player->name, "wait", status);
            return false;
        }
        if (tc_expired(deadline)) {
            give_up(player->name, "nothing came", status);
            return false;
        }
        pause_a_while(&player->rng);
    }
    return false;
}

static atomic_ulong progress;
static pthread_mutex_t over_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over_signal;
static int over; /* players that have finished */

static bool hit(struct player *player, uint64_t round)
{
    it_lmr_triplet_t one = segment(&player->buffer, 0, 16);
    it_status_t status = it_post_send(player->node->ep, &one, 1, round, BOTH);

    if (status != IT_SUCCESS)
        give_up(player->name, "send", status);
    return status == IT_SUCCESS;
}

static bool catch (struct player *player, uint64_t round)
{
    it_lmr_triplet_t one = segment(&player->buffer, 1024, 64);
    it_event_t event;
    it_status_t status;

    if (!take(player, player->node->receives, &event))
        return false;
    if (event.dto_cmpl.cookie != round || event.dto_cmpl.dto_status != IT_DTO_SUCCESS) {
        give_up(player->name, "a completion is not the one that was due", IT_SUCCESS);
        return false;
    }
    status = it_post_recv(player->node->ep, &one, 1, round + 2, BOTH);
    if (status != IT_SUCCESS)
        give_up(player->name, "receive", status);
    return status == IT_SUCCESS;
}

static void *play(void *arg)
{
    struct player *player = arg;
    it_event_t event;

    for (unsigned long round = 0; round < player->rounds; round++) {
        if (player->serves && !hit(player, round))
            break;
        pause_a_while(&player->rng);
        if (!catch (player, round))
            break;
        pause_a_while(&player->rng);
        if (!player->serves && !hit(player, round))
            break;
        if (!take(player, player->node->requests, &event))
            break;
        atomic_fetch_add(&progress, 1);
    }
    pthread_mutex_lock(&over_lock);
    over++;
    pthread_cond_signal(&over_signal);
    pthread_mutex_unlock(&over_lock);
    return NULL;
}

/* --- disturbing threads --- */

/* Runs the lanes of both adapters for a while through other EVDs, by polling and by waiting, then
 * stops. */
static void *disturb(void *arg)
{
    struct pair *both = arg;
    struct tc_rng rng = tc_rng(99);

    while (!atomic_load(&stop)) {
        it_evd_handle_t evd = tc_below(&rng, 2) ? both->a.affiliated : both->b.affiliated;
        it_event_t event;

        for (uint64_t i = tc_below(&rng, 500); i; i--)
            it_evd_dequeue(evd, &event);
        pause_a_while(&rng);
        it_evd_wait(evd, tc_below(&rng, 300), &event, NULL);
        pause_a_while(&rng);
    }
    return NULL;
}

static void ignore(int number)
{
    (void)number;
}

/* Signals both players, which are joined after this thread has ended. */
static void *signal_players(void *arg)
{
    struct player *players = arg;
    struct tc_rng rng = tc_rng(98);

    while (!atomic_load(&stop)) {
        uint64_t until = tc_now_ns() + tc_below(&rng, 3000000);

        while (tc_now_ns() < until && !atomic_load(&stop))
            sched_yield();
        pthread_kill(players[tc_below(&rng, 2)].thread, SIGUSR1);
    }
    return NULL;
}

/* --- the game --- */

static void prepare(struct player *player, struct node *own, const char *name, unsigned long rounds)
{
    it_ep_attributes_t attributes = node_attributes(own);
    it_lmr_triplet_t one;

    memset(player, 0, sizeof(*player));
    player->name = name;
    player->node = own;
    player->rounds = rounds;
    player->rng = tc_rng((uint64_t)*name);
    ok(it_ep_free(own->ep));
    ok(it_evd_free(own->receives));
    ok(it_evd_create(own->ia, IT_DTO_EVENT_STREAM, IT_EVD_CREATE_FD, 64, 0, NULL, &own->receives,
                     &player->fd));
    own->ep = node_make_ep(own, &attributes);
    player->buffer = buffer_make(own, 4096, IT_PRIV_LOCAL);
    one = segment(&player->buffer, 1024, 64);
    ok(it_post_recv(own->ep, &one, 1, 0, BOTH));
    ok(it_post_recv(own->ep, &one, 1, 1, BOTH));
}

/* A player makes progress, or all have finished. Detects a wait without a time-out that is never
 * woken. */
static void watch(void)
{
    unsigned long seen;

    pthread_mutex_lock(&over_lock);
    while (over < 2) {
        struct timespec until = tc_timespec(tc_deadline(2 * WATCHDOG));

        seen = atomic_load(&progress);
        if (pthread_cond_timedwait(&over_signal, &over_lock, &until) == ETIMEDOUT)
            ck_assert_msg(atomic_load(&progress) != seen, "a wake-up was lost in round %lu",
                          seen / 2);
    }
    pthread_mutex_unlock(&over_lock);
}

START_TEST(no_wake_up_is_lost)
{
    struct player players[2];
    struct sigaction action = { .sa_handler = ignore };
    pthread_t disturber, signaller;
    pthread_condattr_t monotonic;
    /* each round is a wait on both sides, for a Receive and for a Send */
    unsigned long rounds = tc_count(20000);

#ifdef ITAL_SANITIZERS
    rounds /= 20;
#endif
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&over_signal, &monotonic);
    sigaction(SIGUSR1, &action, NULL);
    pair_open(&pair, IFACE);
    prepare(&players[0], &pair.a, "active", rounds);
    prepare(&players[1], &pair.b, "passive", rounds);
    players[0].serves = true;
    pair_connect(&pair, pair_family(&pair));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    pthread_create(&disturber, NULL, disturb, &pair);
    pthread_create(&signaller, NULL, signal_players, players);
    watch();
    atomic_store(&stop, true);
    pthread_join(disturber, NULL);
    pthread_join(signaller, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(players[i].thread, NULL);
    ck_assert_msg(!atomic_load(&failed), "%s", failure);
    ck_assert_uint_eq(atomic_load(&progress), 2 * rounds);
    for (int i = 0; i < 2; i++) { /* each way to end a wait occurred */
        ck_assert_uint_gt(players[i].timed_out, 0);
        ck_assert_uint_gt(players[i].polled, 0);
        ck_assert_uint_gt(players[i].slept, 0);
        fprintf(stderr,
                "# %s: %lu time-outs, %lu interrupts, %lu polls that stopped, %lu sleeps on the "
                "descriptor\n",
                players[i].name, players[i].timed_out, players[i].interrupted, players[i].polled,
                players[i].slept);
    }
    ck_assert_uint_gt(players[0].interrupted + players[1].interrupted, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_wake_stress");
    TCase *tc = tc_case(suite, "wake", NULL, fx_close);

    tcase_set_timeout(tc, 240);
    add_each(tc, no_wake_up_is_lost);
    return tc_main(suite);
}
