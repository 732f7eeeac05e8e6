/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that acknowledges nothing is lost after ack_timeout; a peer that only does not read is
 * not. TCP's state is simulated: this program's getsockopt(2) precedes libc's, and answers TCP_INFO
 * for the first side. */
#include "bed.h"

#include <dlfcn.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "providers/software/iwarp/wire_iwarp.h"

#define BOUND_MS 600u

static struct region from, to;

static bool invented;         /* TCP_INFO of side a is simulated */
static struct tcp_info story; /* the simulated answer, with its times at the start */
static bool repeating;        /* TCP retransmits between two checks */
static atomic_uint looks;     /* checks of side a */

typedef int (*getsockopt_fn)(int fd, int level, int name, void *value, socklen_t *length);

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict length)
{
    static getsockopt_fn real;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getsockopt");
    if (level == IPPROTO_TCP && name == TCP_INFO && a->qp && qp_of(a)->stream &&
        fd == qp_of(a)->stream->fd) {
        atomic_fetch_add(&looks, 1);
        if (invented) {
            story.tcpi_total_retrans += repeating;
            memcpy(value, &story, *length < sizeof(story) ? *length : sizeof(story));
            return 0;
        }
    }
    return real(fd, level, name, value, length);
}

static const char *const options[] = { "ack_timeout", "600", NULL };

static void open_with(const char *const *set)
{
    testbed_open(&bed, set);
    testbed_connect(&bed, NULL, NULL);
    from = region_new(a, 4096, TESTBED_ALL);
    to = region_new(b, 4096, TESTBED_ALL);
    testbed_passes(&bed, 5);
    fake_host_expire_timers(&bed.fake); /* that of the first message */
    testbed_passes(&bed, 1);
}

/* The octets of the start are acknowledged, and both sides are idle. */
static void setup(void)
{
    invented = repeating = false;
    open_with(options);
    ck_assert(fake_host_until(&bed.fake, bed.fake.events.timer_count == 0, TESTBED_TIMEOUT));
    atomic_store(&looks, 0);
}

static void teardown(void)
{
    bed_close();
}

static void one_message(void)
{
    side_write(a, 1, region_sge(&from, 0, 64), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
}

/* Runs the lane until it has made `count` more checks. */
static void look_on(unsigned int count)
{
    unsigned int end = atomic_load(&looks) + count;

    ck_assert(fake_host_until(&bed.fake, atomic_load(&looks) >= end, TESTBED_TIMEOUT));
}

static uint64_t ms_since(uint64_t start)
{
    return (tc_now_ns() - start) / 1000000;
}

/* ---- peers that are lost ---- */

/* Octets without acknowledgement, sent after the last acknowledgement; or unanswered probes of a
 * closed window. */
START_TEST(silence_is_told)
{
    static const struct tcp_info stories[] = {
        { .tcpi_unacked = 1, .tcpi_last_data_sent = 100, .tcpi_last_ack_recv = 3600000 },
        { .tcpi_notsent_bytes = 5, .tcpi_probes = 3, .tcpi_last_ack_recv = 3600000 },
    };
    const struct tcp_info nothing = { .tcpi_last_ack_recv = 3600000 };
    uint64_t start = tc_now_ns();

    invented = true;
    repeating = _i == 0;
    story = nothing;
    one_message();
    story = stories[_i];
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
    ck_assert_uint_ge(ms_since(start), BOUND_MS);
}
END_TEST

/* A side that begins to send while keep-alive probes are unanswered has waited since the first of
 * these probes. */
START_TEST(keepalive_probes_count)
{
    uint64_t start;

    invented = true;
    story = (struct tcp_info){ .tcpi_probes = 3, .tcpi_last_ack_recv = 3600000 };
    start = tc_now_ns();
    one_message();
    story.tcpi_unacked = 1;
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
    ck_assert_uint_ge(ms_since(start), BOUND_MS / 6);
    ck_assert_uint_eq(atomic_load(&looks), 2); /* at the send, and the first check after it */
}
END_TEST

/* ---- peers that are not lost ---- */

/* None of these loses the peer within four times the bound: its window is closed and it answers
 * each probe; it answers retransmissions because it lacks memory; an acknowledgement comes between
 * two checks; one probe or one retransmission was lost and the next is not due soon. */
START_TEST(a_live_peer_is_not_lost)
{
    static const struct tcp_info stories[] = {
        { .tcpi_notsent_bytes = 5000, .tcpi_last_ack_recv = 3600000 },
        { .tcpi_unacked = 3, .tcpi_last_data_sent = 50000, .tcpi_last_ack_recv = 49999 },
        { .tcpi_unacked = 3, .tcpi_last_data_sent = 1, .tcpi_last_ack_recv = 50 },
        { .tcpi_notsent_bytes = 5000, .tcpi_probes = 3, .tcpi_last_ack_recv = 50 },
        { .tcpi_notsent_bytes = 5000, .tcpi_probes = 1, .tcpi_last_ack_recv = 3600000 },
        { .tcpi_unacked = 3, .tcpi_last_data_sent = 50, .tcpi_last_ack_recv = 3600000 },
    };

    invented = true;
    repeating = _i < 4;
    story = stories[_i];
    one_message();
    look_on(24);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* Each wait starts anew: several waits of half the bound do not add up. */
START_TEST(waits_do_not_add_up)
{
    invented = repeating = true;
    for (int i = 0; i < 4; i++) {
        story = (struct tcp_info){ .tcpi_unacked = 1, .tcpi_last_ack_recv = 3600000 };
        story.tcpi_last_data_sent = 1;
        one_message();
        look_on(3);
        story.tcpi_last_ack_recv = 0;
        look_on(1);
    }
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* ---- idle connections ---- */

/* When everything is acknowledged no timer is left and no check is made. The next message starts
 * them again. */
START_TEST(an_idle_connection_has_no_timer)
{
    for (int i = 0; i < 3; i++) {
        one_message();
        ck_assert_uint_eq(bed.fake.events.timer_count, 1);
        ck_assert(fake_host_until(&bed.fake, bed.fake.events.timer_count == 0, TESTBED_TIMEOUT));
    }
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    invented = repeating = true;
    story = (struct tcp_info){ .tcpi_unacked = 1, .tcpi_last_ack_recv = 3600000 };
    one_message();
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
}
END_TEST

START_TEST(off_looks_at_nothing)
{
    static const char *const off[] = { "ack_timeout", "0", NULL };

    teardown();
    open_with(off);
    atomic_store(&looks, 0);
    one_message();
    ck_assert_uint_eq(bed.fake.events.timer_count, 0);
    ck_assert_uint_eq(atomic_load(&looks), 0);
}
END_TEST

/* A thread posts while the lane goes idle and wakes up. No message is lost, and at the end the lane
 * is idle. */
struct writer {
    pthread_t thread;
    atomic_bool done;
};

static void *write_now_and_then(void *arg)
{
    struct writer *writer = arg;
    struct tc_rng rng = tc_rng(1);
    struct ri_wc wc;

    for (unsigned long i = 0; i < tc_count(2000); i++) {
        side_write(a, i, region_sge(&from, 0, 64), (uintptr_t)to.octets, to.keys.rkey);
        while (bed.fake.user.poll(a->send_cq, 1, &wc) != 1)
            sched_yield();
        ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
        for (uint64_t end = tc_now_ns() + tc_below(&rng, 400000); tc_now_ns() < end;)
            sched_yield();
    }
    atomic_store(&writer->done, true);
    fake_host_wake(&bed.fake);
    return NULL;
}

START_TEST(rest_and_send_in_two_threads)
{
    struct writer writer = { .done = false };

    /* a check every 0.1 ms */
    iwarp_rnic(container_of(bed.fake.rnic, struct rnic, base))->options.ack_timeout_ns = 600000;
    ck_assert_int_eq(pthread_create(&writer.thread, NULL, write_now_and_then, &writer), 0);
    ck_assert(fake_host_until(&bed.fake, atomic_load(&writer.done), 60000));
    pthread_join(writer.thread, NULL);
    ck_assert(fake_host_until(&bed.fake, bed.fake.events.timer_count == 0, TESTBED_TIMEOUT));
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* ---- a process that is stopped ---- */

#define BLOCK  (1u << 20)
#define BLOCKS 48u

static const char *const defaults[] = { "ack_timeout", "30000", NULL };

/* Reads to the end of the stream and reports the number of octets. */
static void swallow(int fd, int tell)
{
    static char octets[65536];
    uint64_t sum = 0;
    ssize_t got;

    while ((got = recv(fd, octets, sizeof(octets), 0)) > 0)
        sum += (uint64_t)got;
    _exit(got == 0 && write(tell, &sum, sizeof(sum)) == sizeof(sum) ? 0 : 1);
}

/* The peer's process stops for four times the bound, with its window closed. No message is lost,
 * and all arrive. In the long form it stops for two minutes, with the options' defaults. */
START_TEST(a_stopped_receiver_loses_nothing)
{
    uint64_t stop_ms = tc_long() ? 120000 : 4 * BOUND_MS, sum = 0, end;
    int fds[2], tell[2], status, small = 262144;
    uint32_t done = 0;
    struct ri_wc wc;
    pid_t child;

    testbed_open(&bed, tc_long() ? defaults : options);
    side_open(&bed, a, NULL);
    from = region_new(a, BLOCK, TESTBED_ALL);
    testbed_tcp(fds, 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(pipe(tell), 0);
    child = fork();
    if (!child) {
        close(fds[0]);
        swallow(fds[1], tell[1]);
    }
    close(fds[1]);
    kill(child, SIGSTOP);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    side_start(a, fds[0], true, NULL);
    for (uint64_t i = 0; i < BLOCKS; i++)
        side_write(a, i, region_sge(&from, 0, BLOCK), 0, 1);
    end = tc_now_ns() + stop_ms * 1000000;
    while (tc_now_ns() < end) {
        done += bed.fake.user.poll(a->send_cq, 1, &wc);
        fake_host_sleep(&bed.fake, fake_host_run(&bed.fake, NULL), 20);
    }
    ck_assert_uint_lt(done, BLOCKS);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    kill(child, SIGCONT);
    for (; done < BLOCKS; done++)
        ck_assert_int_eq(side_next(a, a->send_cq).status, RI_WC_SUCCESS);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    side_modify(a, RI_QPS_CLOSING);
    ck_assert(
        fake_host_until(&bed.fake, waitpid(child, &status, WNOHANG) == child, TESTBED_TIMEOUT));
    ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
    ck_assert_int_eq(read(tell[0], &sum, sizeof(sum)), sizeof(sum));
    ck_assert_uint_gt(sum, (uint64_t)BLOCKS * BLOCK);
    side_close(a);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("acks");
    TCase *tc = tc_case(suite, "told", setup, teardown), *stopped;

    tcase_add_loop_test(tc, silence_is_told, 0, 2);
    tcase_add_test(tc, keepalive_probes_count);
    tcase_add_loop_test(tc, a_live_peer_is_not_lost, 0, 6);
    tc_add_tests(tc, waits_do_not_add_up, an_idle_connection_has_no_timer, off_looks_at_nothing,
                 rest_and_send_in_two_threads);
    stopped = tc_case(suite, "stopped", NULL, NULL);
    tcase_set_timeout(stopped, tc_timeout_ms(tc_long() ? 200000 : 30000) / 1000.0);
    tcase_add_test(stopped, a_stopped_receiver_loses_nothing);
    return tc_main(suite);
}
