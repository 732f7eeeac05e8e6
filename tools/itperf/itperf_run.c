/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: a run of one size: its workers prepared, started, waited for behind a bar, and summed up.
 * The thread that waits serves the control connection meanwhile.
 */
#include "itperf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/progress.h"
#include "tools/common/tool.h"

#define CHUNK_MESSAGES 256u /* a chunk: that many messages, of 8 KiB and more 8 MiB */
#define CHUNK_BYTES    (8u << 20)
#define SLICE_NS       200000000
#define WATCH_EVERY    4u /* of them, between two checks of the other side */
#define DRAW_AFTER     3u /* of them, before the first bar */

static void *work(void *arg)
{
    struct perf_worker *worker = arg;

    worker->start = tool_now();
    if (worker->run.duration_us)
        worker->stop_at = worker->start + worker->run.duration_us * 1000;
    if (worker->session->plan.kind == PERF_BW)
        worker->good = perf_stream(worker);
    else if (worker->client)
        worker->good = perf_lat_client(worker);
    else
        worker->good = perf_lat_server(worker);
    worker->end = tool_now();
    if (!worker->good)
        atomic_store(&worker->session->failed, true);
    return NULL;
}

static void prepare_eps(struct perf_session *session, struct perf_worker *worker)
{
    for (uint32_t i = 0; i < worker->group->count; i++) {
        struct perf_ep *ep = &worker->group->eps[i];

        ep->left = !worker->sender           ? 0
                   : worker->run.duration_us ? UINT64_MAX
                                             : worker->run.iterations;
        ep->outstanding = ep->since_signal = ep->owed = ep->crediting = 0;
        ep->credits = session->plan.rx_depth;
        ep->fin_posted = false;
        ep->arrived = 0;
    }
}

/* Room for the single times, shared out over the threads. Each page is touched: to get one while
 * the test runs takes longer than a short message. */
static bool prepare_samples(struct perf_session *session, struct perf_worker *worker)
{
    size_t of_a_page = (size_t)sysconf(_SC_PAGESIZE) / sizeof(*worker->samples);
    uint64_t wanted = worker->run.duration_us ? PERF_SAMPLES_MAX
                                              : worker->run.iterations * worker->group->active;
    uint64_t room = PERF_SAMPLES_MAX / session->plan.threads;

    free(worker->samples);
    worker->samples_room = wanted < room ? wanted : room;
    worker->samples_count = 0;
    worker->samples = calloc(worker->samples_room, sizeof(*worker->samples));
    if (!worker->samples)
        tool_error("out of memory: %zu single times; leave -H and -U out", worker->samples_room);
    for (size_t i = 0; worker->samples && i < worker->samples_room; i += of_a_page)
        __atomic_store_n(&worker->samples[i], 0, __ATOMIC_RELAXED);
    return worker->samples != NULL;
}

/* As bench/peers do: several times what is completed at once, and no time
 * that a processor could not lose. */
static uint64_t piece_of(uint64_t chunk, uint32_t size)
{
    uint64_t most = size < CHUNK_BYTES ? CHUNK_BYTES / size : 1;

    return chunk < most ? chunk : most;
}

/* At least twice what can be outstanding, or bursts of completions would be taken for speed. */
static uint64_t chunk_of(const struct perf_session *session, const struct perf_group *group,
                         uint32_t size)
{
    uint64_t chunk = size < 8192 ? CHUNK_MESSAGES : CHUNK_BYTES / size;
    uint64_t window = 2ull * session->plan.tx_depth * group->active;

    return chunk > window ? chunk : window;
}

bool perf_run_prepare(struct perf_session *session, const struct perf_run *run)
{
    if (session->plan.op == PERF_WRITE && session->plan.kind == PERF_LAT)
        perf_groups_clear(session, run->size);
    for (uint32_t i = 0; i < session->plan.threads; i++) {
        struct perf_worker *worker = &session->workers[i];
        uint32_t *samples = worker->samples;

        memset(worker, 0, sizeof(*worker));
        worker->session = session;
        worker->group = &session->groups[i];
        worker->run = *run;
        worker->client = session->client;
        worker->sender = session->client || session->plan.bidirectional;
        worker->mode = session->client ? session->plan.mode : session->plan.target;
        worker->chunk = chunk_of(session, worker->group, run->size);
        worker->piece = piece_of(worker->chunk, run->size);
        worker->samples = samples;
        prepare_eps(session, worker);
        if (session->samples && !prepare_samples(session, worker))
            return false;
    }
    return true;
}

struct usage {
    uint64_t wall, user, system;
};

static struct usage usage_now(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (struct usage){
        .wall = tool_now(),
        .user = (uint64_t)used.ru_utime.tv_sec * 1000000000u +
                (uint64_t)used.ru_utime.tv_usec * 1000u,
        .system = (uint64_t)used.ru_stime.tv_sec * 1000000000u +
                  (uint64_t)used.ru_stime.tv_usec * 1000u,
    };
}

static uint64_t bytes_done(const struct perf_session *session, uint32_t started)
{
    uint64_t done = 0;

    for (uint32_t i = 0; i < started; i++)
        done += atomic_load_explicit(&session->workers[i].shown, memory_order_relaxed);
    return done * session->workers[0].run.size;
}

static void control_lost(struct perf_session *session)
{
    struct conn *conn = &session->channel->conn;

    if (!atomic_exchange(&session->failed, true) && !atomic_load(&tool_stop))
        tool_error("connection with %s lost: %s", conn->peer, conn_why(conn));
}

static void give_up(struct perf_session *session, const char *what)
{
    if (!atomic_exchange(&session->failed, true) && !atomic_load(&tool_stop))
        tool_error("%s: %s", session->channel->conn.peer, what);
}

/* Is the other side there? A server also: may the run last longer? The workers see `failed`. */
static void watch(struct perf_session *session)
{
    struct perf_channel *channel = session->channel;
    uint64_t now = tool_now();

    if (!channel || atomic_load(&session->failed))
        return;
    if (!perf_channel_poll(channel))
        control_lost(session);
    else if (session->silence_us && now > channel->heard &&
             now - channel->heard > session->silence_us * 1000)
        give_up(session, "no sign of life within --max-silence; given up");
    else if (session->end && now > session->end)
        give_up(session, "the run takes longer than --max-time; given up");
}

/* Waits for one worker, drawing the bar meanwhile. *slices: how many have passed. */
static void join_and_watch(struct perf_session *session, uint32_t index, uint32_t started,
                           unsigned *slices)
{
    struct timespec limit;

    for (;; ++*slices) {
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_nsec += SLICE_NS;
        if (limit.tv_nsec >= 1000000000) {
            limit.tv_nsec -= 1000000000;
            limit.tv_sec++;
        }
        if (pthread_timedjoin_np(session->workers[index].thread, NULL, &limit) == 0)
            return;
        if (*slices % WATCH_EVERY == WATCH_EVERY - 1)
            watch(session);
        /* Short runs have no bar. */
        if (session->progress && *slices >= DRAW_AFTER)
            progress_show(bytes_done(session, started), perf_op_names[session->plan.op]);
    }
}

static void join_all(struct perf_session *session, uint32_t started)
{
    const struct perf_run *run = &session->workers[0].run;
    unsigned slices = 0;

    if (session->progress)
        progress_start(PROGRESS_TERMINAL, run->iterations * session->plan.active * run->size);
    for (uint32_t i = 0; i < started; i++)
        join_and_watch(session, i, started, &slices);
    if (session->progress)
        progress_clear();
}

static void sum_up(struct perf_session *session, struct perf_tally *tally)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (uint32_t i = 0; i < session->plan.threads; i++) {
        const struct perf_worker *worker = &session->workers[i];
        uint64_t median = histogram_quantile(&worker->chunks, 0.5);
        uint64_t in_median = histogram_quantile(&worker->in_chunks, 0.5);

        tally->sent += worker->sent;
        tally->received += worker->received;
        if (median)
            tally->rate_median += (double)worker->chunk * 1e9 / (double)median;
        tally->rate_peak += worker->peak;
        if (in_median)
            tally->rate_in_median += (double)worker->chunk * 1e9 / (double)in_median;
        start = worker->start < start ? worker->start : start;
        end = worker->end > end ? worker->end : end;
    }
    if (end > start)
        tally->rate = (double)tally->sent * 1e9 / (double)(end - start);
    /* Fewer messages than a chunk: the whole run is the only one. */
    if (tally->rate_median <= 0)
        tally->rate_median = tally->rate;
    if (tally->rate_peak < tally->rate)
        tally->rate_peak = tally->rate;
}

bool perf_run_go(struct perf_session *session, struct perf_tally *tally)
{
    struct usage before = usage_now(), after;
    uint32_t started = 0;
    bool good = true;

    memset(tally, 0, sizeof(*tally));
    atomic_store(&session->failed, false);
    if (session->channel)
        perf_channel_run(session->channel);
    for (; started < session->plan.threads; started++) {
        struct perf_worker *worker = &session->workers[started];

        if (pthread_create(&worker->thread, NULL, work, worker)) {
            tool_error("cannot make thread %u of %u; reduce --threads", started + 1,
                       session->plan.threads);
            atomic_store(&session->failed, true);
            good = false;
            break;
        }
    }
    join_all(session, started);
    after = usage_now();
    for (uint32_t i = 0; i < started; i++)
        good = good && session->workers[i].good;
    if (good)
        sum_up(session, tally);
    tally->wall_ns = after.wall - before.wall;
    tally->user_ns = after.user - before.user;
    tally->system_ns = after.system - before.system;
    return good;
}

void perf_run_times(const struct perf_session *session, struct histogram *times)
{
    memset(times, 0, 3 * sizeof(*times));
    for (uint32_t i = 0; i < session->plan.threads; i++) {
        histogram_merge(&times[0], &session->workers[i].times);
        histogram_merge(&times[1], &session->workers[i].lone);
        histogram_merge(&times[2], &session->workers[i].gaps);
    }
}
