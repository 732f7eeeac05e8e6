/* SPDX-License-Identifier: BSD-3-Clause */
/* Network interfaces going down and up, in a network name space of the test's own. */
#include "kal_fixture.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static struct kal_rnic *rnic;
static int context;

static void set_loopback(bool up)
{
    struct ifreq request = { .ifr_name = "lo" };
    static int fd = -1; /* stays open when a test uses up the descriptors */

    if (fd < 0)
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    request.ifr_flags = up ? IFF_UP | IFF_RUNNING | IFF_LOOPBACK : IFF_LOOPBACK;
    ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
}

static void open_all(const char *words)
{
    struct ri_lane *lane;

    fixture_module("vp_test", NULL);
    setenv("ITAL_TEST_VP", words, 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", &context, &rnic), RI_OK);
    ck_assert_int_eq(kal_lane_open(rnic, 0, &fixture_lane, &lane), RI_OK);
}

static void close_all(void)
{
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    ck_assert_uint_eq(fixture_lane.watch_calls, fixture_lane.unwatch_calls);
    fixture_put();
}

/* spigot_online_support of it_ia_query. */
static bool says_so(void)
{
    return kal_rnic_attr(rnic)->features & RI_FEATURE_PORT_EVENTS;
}

/* Does what a run of the lane does when the descriptor is ready. */
static void run_until(unsigned events)
{
    uint64_t deadline = tc_deadline(5000);

    while (fake_upper_seen.rnic_count < events) {
        ck_assert_msg(tc_wait_fd(fixture_watched_fd(), POLLIN, deadline) > 0, "no message came");
        fixture_ready();
    }
}

/* _i 1: only one of the port's two network interfaces exists. */
START_TEST(test_down_and_up)
{
    if (unshare(CLONE_NEWNET))
        tc_skip("a network name space cannot be made here");
    set_loopback(true);
    open_all(_i ? "netdevs" : "netdev");
#ifndef HAVE_LIBMNL
    ck_assert_uint_eq(fixture_lane.watch_calls, 0);
    ck_assert(!says_so());
    close_all();
    tc_skip("built without libmnl");
#endif
    ck_assert_uint_eq(fixture_lane.watch_calls, 1);
    ck_assert(says_so());
    ck_assert_uint_eq(fixture_lane.watches->events, EPOLLIN);
    set_loopback(false);
    run_until(1);
    ck_assert_int_eq(fake_upper_seen.rnic_type, RI_EVENT_PORT_DOWN);
    ck_assert_ptr_eq(fake_upper_seen.rnic, &context);
    ck_assert_uint_eq(fake_upper_seen.rnic_port, 0);
    set_loopback(true);
    run_until(2);
    ck_assert_int_eq(fake_upper_seen.rnic_type, RI_EVENT_PORT_UP);
    fixture_ready(); /* no event: does not block */
    ck_assert_uint_eq(fake_upper_seen.rnic_count, 2);
    close_all();
}
END_TEST

/* A change while the process has no descriptor left is still noticed. */
START_TEST(test_no_change_is_lost_without_descriptors)
{
    struct rlimit limit, none;

    if (unshare(CLONE_NEWNET))
        tc_skip("a network name space cannot be made here");
    set_loopback(true);
    open_all("netdev");
#ifndef HAVE_LIBMNL
    close_all();
    tc_skip("built without libmnl");
#endif
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){ .rlim_cur = 1, .rlim_max = limit.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(dup(1), -1);
    set_loopback(false);
    run_until(1);
    ck_assert_int_eq(fake_upper_seen.rnic_type, RI_EVENT_PORT_DOWN);
    set_loopback(true);
    run_until(2);
    ck_assert_int_eq(fake_upper_seen.rnic_type, RI_EVENT_PORT_UP);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    close_all();
}
END_TEST

static void run_until_addresses(unsigned events)
{
    uint64_t deadline = tc_deadline(5000);

    while (fake_upper_seen.address_count < events) {
        ck_assert_msg(tc_wait_fd(fixture_watched_fd(), POLLIN, deadline) > 0, "no message came");
        fixture_ready();
    }
}

/* _i 1: the port has all network interfaces, and names none. */
START_TEST(test_an_address_comes_and_goes)
{
    unsigned before;

    if (!tc_netns())
        tc_skip("a network name space cannot be made here");
    open_all(_i ? "anynetdev" : "netdev");
#ifndef HAVE_LIBMNL
    close_all();
    tc_skip("built without libmnl");
#endif
    ck_assert(says_so() == !_i);
    before = fake_upper_seen.address_count;
    ck_assert(tc_label(true));
    run_until_addresses(before + 1);
    ck_assert_ptr_eq(fake_upper_seen.rnic, &context);
    ck_assert_uint_eq(fake_upper_seen.rnic_port, 0);
    ck_assert(tc_label(false));
    run_until_addresses(before + 2);
    ck_assert_uint_eq(fake_upper_seen.rnic_count, 0);
    close_all();
}
END_TEST

/* Netlink also tells of what leaves the addresses as they are. */
START_TEST(test_the_same_addresses_are_no_change)
{
    unsigned before;

    if (!tc_netns())
        tc_skip("a network name space cannot be made here");
    open_all("netdev");
#ifndef HAVE_LIBMNL
    close_all();
    tc_skip("built without libmnl");
#endif
    before = fake_upper_seen.address_count;
    ck_assert(tc_label(true));
    ck_assert(tc_label(false));
    fixture_ready(); /* both messages at once */
    ck_assert_uint_eq(fake_upper_seen.address_count, before);
    close_all();
}
END_TEST

START_TEST(test_port_without_netdev_is_not_watched)
{
    open_all("");
    ck_assert_uint_eq(fixture_lane.watch_calls, 0);
    ck_assert(!says_so());
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("monitor");
    TCase *tc = tc_case(suite, "monitor", fixture_setup, fixture_put);

    tcase_add_loop_test(tc, test_down_and_up, 0, 2);
    tcase_add_test(tc, test_no_change_is_lost_without_descriptors);
    tcase_add_loop_test(tc, test_an_address_comes_and_goes, 0, 2);
    tc_add_tests(tc, test_the_same_addresses_are_no_change,
                 test_port_without_netdev_is_not_watched);
    return tc_main(suite);
}
