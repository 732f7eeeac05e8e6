/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network path that carries nothing any more: both ends detect it in time. The test has two
 * network namespaces of its own and a veth between them. It cuts the path by giving each end a
 * wrong hardware address for the other, so that neither end gets an error. The long form uses the
 * options' defaults.
 */
#include "bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define NEAR "10.77.0.1"
#define FAR  "10.77.0.2"

#define RTO_MAX_MS 44 /* TCP_RTO_MAX_MS of newer headers */

static struct region from, to;
static int near_space, far_space; /* descriptors of the namespaces */
static pid_t holder;              /* keeps the far one open */

static const char *const scaled[] = {
    "ack_timeout", "1500", "keepalive_idle", "1", "keepalive_interval", "1", "keepalive_count",
    "2",           NULL
};
static const char *const defaults[] = { "ack_timeout", "30000", NULL };

struct bounds {
    const char *const *options;
    unsigned int sender_ms, receiver_ms; /* by the formula of ital.conf(5) */
};

static struct bounds bounds(void)
{
    return tc_long() ? (struct bounds){ defaults, 35000, 40000 }
                     : (struct bounds){ scaled, 1750, 3000 };
}

/* ---- the path ---- */

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        tc_skip("%s cannot be written: no user name space here", path);
    close(fd);
}

/* Without privilege, in a user namespace of the test's own. */
static void own_space(void)
{
    char map[32];

    snprintf(map, sizeof(map), "0 %u 1", (unsigned int)geteuid());
    if (!geteuid()) {
        if (unshare(CLONE_NEWNET))
            tc_skip("a network name space cannot be made here");
        return;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        tc_skip("a network name space cannot be made here");
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", map);
}

static int space_of(pid_t pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void hold_far_space(void)
{
    int ready[2];
    char octet = 0;

    ck_assert_int_eq(pipe(ready), 0);
    holder = fork();
    if (!holder) {
        octet = unshare(CLONE_NEWNET) != 0;
        if (write(ready[1], &octet, 1) == 1)
            pause();
        _exit(1);
    }
    ck_assert_int_eq(read(ready[0], &octet, 1), 1);
    close(ready[0]);
    close(ready[1]);
    if (octet)
        tc_skip("a second network name space cannot be made here");
    far_space = space_of(holder);
}

static bool command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool command(const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    return system(line) == 0;
}

static void go_to(int space)
{
    ck_assert_int_eq(setns(space, CLONE_NEWNET), 0);
}

static void make_path(void)
{
    own_space();
    near_space = space_of(getpid());
    hold_far_space();
    if (!command("ip link add near type veth peer name far") ||
        !command("ip link set far netns %d", (int)holder))
        tc_skip("a veth cannot be made here, or there is no ip(8)");
    ck_assert(command("ip addr add " NEAR "/24 dev near && ip link set near up"));
    go_to(far_space);
    ck_assert(command("ip addr add " FAR "/24 dev far && ip link set far up"));
    go_to(near_space);
}

static void cut_path(void)
{
    ck_assert(command("ip neigh replace " FAR " lladdr 02:00:00:00:00:99 dev near nud permanent"));
    go_to(far_space);
    ck_assert(command("ip neigh replace " NEAR " lladdr 02:00:00:00:00:99 dev far nud permanent"));
    go_to(near_space);
}

/* fds[0] is near, fds[1] far. */
static void connect_ends(int fds[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(4000) };
    int listener;

    inet_pton(AF_INET, FAR, &at.sin_addr);
    go_to(far_space);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    go_to(near_space);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fds[0], (struct sockaddr *)&at, sizeof(at)), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fds[1], 0);
    close(listener);
}

static void teardown(void)
{
    if (holder > 0) {
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
    }
}

/* ---- detection ---- */

static void open_sides(void)
{
    int fds[2];

    make_path();
    testbed_open(&bed, bounds().options);
    connect_ends(fds);
    for (int i = 0; i < 2; i++) {
        side_open(&bed, &bed.side[i], NULL);
        side_start(&bed.side[i], fds[i], i == 0, NULL);
    }
    from = region_new(a, 1 << 20, TESTBED_ALL);
    to = region_new(b, 1 << 20, TESTBED_ALL);
    side_write(a, 1, region_sge(&from, 0, 64), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    testbed_passes(&bed, 5);
}

static void close_sides(void)
{
    bed_close();
}

/* Runs the lane until the side's connection is lost: in time, and not before the earliest time. */
static void expect_lost(const struct side *side, uint64_t cut, unsigned int least_ms,
                        unsigned int most_ms)
{
    uint64_t took;

    ck_assert(fake_host_until(&bed.fake, atomic_load(&side->events.count), 2 * most_ms));
    took = (tc_now_ns() - cut) / 1000000;
    ck_assert_int_eq(side->events.type[0], RI_EVENT_LLP_LOST);
    ck_assert_msg(took >= least_ms && took <= tc_timeout_ms(most_ms + 2000),
                  "learned after %llu ms, not within %u to %u", (unsigned long long)took, least_ms,
                  most_ms);
}

/* One side sends without acknowledgement, the other only receives. The events are checked in the
 * order of their latest times, so that both times are measured. */
START_TEST(both_learn_in_time)
{
    struct bounds bound = bounds();
    uint64_t cut;

    open_sides();
    cut_path();
    cut = tc_now_ns();
    side_write(a, 2, region_sge(&from, 0, 64), (uintptr_t)to.octets, to.keys.rkey);
    expect_lost(a, cut, bound.sender_ms * 6 / 7, bound.sender_ms);
    ck_assert_uint_eq(atomic_load(&b->events.count), 0);
    expect_lost(b, cut, bound.receiver_ms / 2, bound.receiver_ms);
    close_sides();
}
END_TEST

/* Neither side sends: keep-alive ends both. */
START_TEST(idle_ends_learn_in_time)
{
    struct bounds bound = bounds();
    uint64_t cut;

    open_sides();
    cut_path();
    cut = tc_now_ns();
    expect_lost(a, cut, bound.receiver_ms / 2, bound.receiver_ms);
    expect_lost(b, cut, bound.receiver_ms / 2, bound.receiver_ms);
    close_sides();
}
END_TEST

/* TCP probes a peer that does not read. When the path is cut meanwhile the probes have no
 * answer. */
START_TEST(behind_a_closed_window_too)
{
    struct bounds bound = bounds();
    struct tcp_info info = { .tcpi_unacked = 1 };
    socklen_t length = sizeof(info);
    int fds[2], most, small = 65536;
    uint64_t cut;

    make_path();
    testbed_open(&bed, bound.options);
    connect_ends(fds);
    length = sizeof(most);
    if (getsockopt(fds[0], IPPROTO_TCP, RTO_MAX_MS, &most, &length))
        tc_skip("this kernel probes a closed window ever more rarely (no TCP_RTO_MAX_MS)");
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    side_open(&bed, a, NULL);
    side_start(a, fds[0], true, NULL);
    from = region_new(a, 1 << 20, TESTBED_ALL);
    for (uint64_t i = 0; i < 48; i++)
        side_write(a, i, region_sge(&from, 0, 1 << 20), 0, 1);
    ck_assert(fake_host_until(
        &bed.fake,
        (length = sizeof(info), !getsockopt(fds[0], IPPROTO_TCP, TCP_INFO, &info, &length)) &&
            info.tcpi_backoff >= 3,
        TESTBED_TIMEOUT));
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    cut_path();
    cut = tc_now_ns();
    expect_lost(a, cut, bound.sender_ms / 2, bound.sender_ms + 3000);
    side_close(a);
    close(fds[1]);
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("path");
    TCase *tc = tc_case(suite, "lost", NULL, teardown);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(tc_long() ? 150000 : 60000));
    tc_add_tests(tc, both_learn_in_time, idle_ends_learn_in_time, behind_a_closed_window_too);
    return tc_main(suite);
}
