/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A bounded ring of lines that wait for the sink, and the thread that writes them.
 *
 * A thread that logs puts its line into the ring. Outside of a lane it then writes the ring to the
 * sink itself, as far as the sink takes it without waiting: so a consumer's own call has written
 * its line when it returns. In a lane, or if the sink is full, the caller wakes the writer thread,
 * which is created for the first such line. One thread at a time drains; another one returns,
 * because the drainer checks the ring again before it ends. Threads that log without end hold it no
 * longer than for a ring's worth: then the writer thread goes on. And it ends where another thread
 * waits to change the sink, which then writes the rest.
 *
 * The thread sleeps on a word, so it needs no descriptor. While the sink is full it tries again
 * after 1 ms, doubling to RETRY_NS.
 */
#include "log_private.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define RING      65536u /* octets; a power of two */
#define RETRY_NS  (64 * CLOCK_NS_PER_MS)
#define FINISH_NS (200 * CLOCK_NS_PER_MS) /* for a slow reader, at the end of the process */

struct head {
    uint16_t length;
    uint8_t level;
};

enum thread_state { THREAD_NONE, THREAD_STARTS, THREAD_RUNS, THREAD_STOPS };

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;

/* ring_lock guards all but the marked members. */
static struct {
    uint64_t begin, end; /* positions in the octet stream; the ring holds the octets between */
    size_t taken;        /* octets of the first line that the sink has taken */
    unsigned long long dropped;
    bool draining;    /* the thread that set it owns `sink` */
    unsigned changes; /* threads that wait to change the sink */
    bool finished;    /* no thread may be started any more */
    enum thread_state state;
    /* Used by the thread; set before it starts */
    log_turn_fn turn;
    pthread_t thread;
    struct log_sink sink; /* used by the drainer */
    atomic_uint word;     /* futex: changes when the thread has work */
    atomic_bool stop;
    char data[RING];
} ring = { .sink = { .kind = SINK_STDERR, .fd = -1 } };

/* ---- the ring; under ring_lock ---- */

static void copy_in(const void *data, size_t length)
{
    size_t at = ring.end % RING, first = RING - at < length ? RING - at : length;

    memcpy(ring.data + at, data, first);
    memcpy(ring.data, (const char *)data + first, length - first);
    ring.end += length;
}

static void copy_out(uint64_t from, void *data, size_t length)
{
    size_t at = from % RING, first = RING - at < length ? RING - at : length;

    memcpy(data, ring.data + at, first);
    memcpy((char *)data + first, ring.data, length - first);
}

static bool put(enum ri_log_level level, const char *line, size_t length)
{
    struct head head = { .length = (uint16_t)length, .level = (uint8_t)level };

    if (RING - (ring.end - ring.begin) < sizeof(head) + length)
        return false;
    copy_in(&head, sizeof(head));
    copy_in(line, length);
    return true;
}

/* Adds one line that reports missing lines. */
static bool put_gap(void)
{
    char line[240];
    size_t head = log_head(line, sizeof(line), clock_wall());
    int length = snprintf(line + head, sizeof(line) - head,
                          "ital: warning: %llu lines of the log are missing here: its reader is "
                          "too slow\n",
                          ring.dropped);

    if (!put(RI_LOG_WARNING, line, head + (size_t)length))
        return false;
    ring.dropped = 0;
    return true;
}

/* Copies the first line, with its head. False: there is none. */
static bool first_line(struct head *head, char *line)
{
    if (ring.begin == ring.end && (!ring.dropped || !put_gap()))
        return false;
    copy_out(ring.begin, head, sizeof(*head));
    copy_out(ring.begin + sizeof(*head), line, head->length);
    return true;
}

/* The sink took so many octets of the first line. -1: it never will. */
static void advance(const struct head *head, ssize_t octets)
{
    ring.taken += octets < 0 ? head->length : (size_t)octets;
    if (ring.taken < head->length)
        return;
    ring.begin += sizeof(*head) + head->length;
    ring.taken = 0;
}

/* Behind a head the end of a long line is cut, and keeps its newline. */
static size_t with_head(char whole[LOG_LINE_MAX], const char *line, size_t length)
{
    size_t head = log_head(whole, LOG_LINE_MAX, clock_wall());

    if (length > LOG_LINE_MAX - head)
        length = LOG_LINE_MAX - head;
    memcpy(whole + head, line, length);
    whole[head + length - 1] = '\n';
    return head + length;
}

void log_ring_push(enum ri_log_level level, const char *line, size_t length)
{
    char whole[LOG_LINE_MAX];
    size_t octets = with_head(whole, line, length);

    pthread_mutex_lock(&ring_lock);
    if ((ring.dropped && !put_gap()) || !put(level, whole, octets))
        ring.dropped++;
    pthread_mutex_unlock(&ring_lock);
}

/* ---- draining ---- */

/* For the drainer, as far as `until`. ring_lock is held, and released around each write. False: the
 * sink takes no more now. */
static bool drain(uint64_t until)
{
    char line[LOG_LINE_MAX];
    struct head head;
    ssize_t octets;

    while (ring.begin < until && !ring.changes && first_line(&head, line)) {
        size_t taken = ring.taken;

        pthread_mutex_unlock(&ring_lock);
        octets = log_sink_write(&ring.sink, (enum ri_log_level)head.level, line + taken,
                                head.length - taken);
        pthread_mutex_lock(&ring_lock);
        if (!octets)
            return false;
        advance(&head, octets);
    }
    return true;
}

bool log_ring_drain(void)
{
    bool empty = true;

    pthread_mutex_lock(&ring_lock);
    if (!ring.draining && !ring.changes) {
        ring.draining = true;
        empty = drain(ring.end + RING);
        empty = ring.changes || (empty && ring.begin == ring.end);
        ring.draining = false;
    }
    pthread_mutex_unlock(&ring_lock);
    return empty;
}

/* Waits to become the drainer, for a line at most: the sink never blocks. */
static void become_drainer(void)
{
    pthread_mutex_lock(&ring_lock);
    ring.changes++;
    while (ring.draining) {
        pthread_mutex_unlock(&ring_lock);
        sched_yield();
        pthread_mutex_lock(&ring_lock);
    }
    ring.changes--;
    ring.draining = true;
}

bool log_ring_set_sink(const struct log_sink *sink)
{
    struct log_sink old;
    bool empty;

    become_drainer();
    drain(ring.end + 1); /* and the line about missing ones */
    old = ring.sink;
    ring.sink = *sink;
    ring.taken = 0;
    ring.draining = false;
    empty = ring.begin == ring.end;
    pthread_mutex_unlock(&ring_lock);
    log_sink_close(&old);
    return empty || log_ring_drain();
}

/* ---- the thread ---- */

static void *writer(void *arg)
{
    uint64_t now, due, pause = CLOCK_NS_PER_MS;
    unsigned word;
    bool empty;

    (void)arg;
    sanitizer_ignore_begin();
    while (!atomic_load(&ring.stop)) {
        word = atomic_load(&ring.word);
        now = clock_now();
        due = ring.turn(now);
        empty = log_ring_drain();
        if (empty)
            pause = CLOCK_NS_PER_MS;
        else if (due > now + pause)
            due = now + pause;
        if (!atomic_load(&ring.stop) && futex_wait(&ring.word, word, due) == ETIMEDOUT && !empty)
            pause = pause * 2 > RETRY_NS ? RETRY_NS : pause * 2;
    }
    sanitizer_ignore_end();
    return NULL;
}

void log_ring_wake(log_turn_fn turn)
{
    pthread_t thread = 0;
    bool missing, made;

    pthread_mutex_lock(&ring_lock);
    missing = ring.state == THREAD_NONE && !ring.finished;
    if (missing) {
        ring.state = THREAD_STARTS;
        ring.turn = turn;
    }
    pthread_mutex_unlock(&ring_lock);
    atomic_fetch_add(&ring.word, 1);
    if (!missing) {
        futex_wake(&ring.word, 1);
        return;
    }
    /* Without a thread the lines wait for the next log call or the end of the process. */
    made = !thread_start(&thread, "ital-log", 0, writer, NULL);
    pthread_mutex_lock(&ring_lock);
    ring.thread = thread;
    ring.state = made ? THREAD_RUNS : THREAD_NONE;
    pthread_mutex_unlock(&ring_lock);
}

void log_ring_stop(void)
{
    pthread_mutex_lock(&ring_lock);
    while (ring.state == THREAD_STARTS || ring.state == THREAD_STOPS) {
        pthread_mutex_unlock(&ring_lock);
        sched_yield();
        pthread_mutex_lock(&ring_lock);
    }
    if (ring.state == THREAD_RUNS) {
        ring.state = THREAD_STOPS;
        pthread_mutex_unlock(&ring_lock);
        atomic_store(&ring.stop, true);
        atomic_fetch_add(&ring.word, 1);
        futex_wake(&ring.word, 1);
        pthread_join(ring.thread, NULL);
        atomic_store(&ring.stop, false);
        pthread_mutex_lock(&ring_lock);
        ring.state = THREAD_NONE;
    }
    pthread_mutex_unlock(&ring_lock);
    log_ring_drain();
}

void log_ring_finish(void)
{
    const struct timespec moment = { .tv_nsec = 2 * (long)CLOCK_NS_PER_MS };
    uint64_t deadline = clock_now() + FINISH_NS;

    pthread_mutex_lock(&ring_lock);
    ring.finished = true;
    pthread_mutex_unlock(&ring_lock);
    log_ring_stop();
    while (!log_ring_drain() && clock_now() < deadline)
        nanosleep(&moment, NULL);
}

void log_ring_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    ring_lock = fresh; /* another thread of the parent may have held it */
    ring.begin = ring.end = 0;
    ring.taken = 0;
    ring.dropped = 0;
    ring.draining = false;
    ring.changes = 0;
    ring.state = THREAD_NONE;
    atomic_store(&ring.stop, false);
    log_sink_close(&ring.sink);
    ring.sink.kind = SINK_STDERR;
}
