/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Option tcp_congestion: what a connection's socket gets, and when both ends are on one host.
 */
#include "providers/software/iwarp/llp/llp.h"
#include "tests/common/tc.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* A socket connected to the loopback; *other: the end that accepted. */
static int connected(const char *to, int *other)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(inet_pton(AF_INET, to, &address.sin_addr), 1);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, length), 0);
    *other = accept(listener, NULL, NULL);
    ck_assert_int_ge(*other, 0);
    close(listener);
    return fd;
}

static const char *congestion_of(int fd, char name[16])
{
    socklen_t length = 15;

    memset(name, 0, 16);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    return name;
}

static const char *prepared(const char *to, const char *option, char before[16], char after[16])
{
    const struct iwarp_options options = { .congestion = option };
    int other, fd = connected(to, &other);

    congestion_of(fd, before);
    llp_tcp_prepare(fd, &options);
    congestion_of(fd, after);
    close(fd);
    close(other);
    return after;
}

START_TEST(test_auto_on_one_host_is_reno)
{
    char before[16], after[16];

    ck_assert_str_eq(prepared("127.0.0.1", "auto", before, after), "reno");
    ck_assert_str_eq(prepared("127.0.0.2", "auto", before, after), "reno");
}
END_TEST

START_TEST(test_a_name_is_used_and_none_changes_nothing)
{
    char before[16], after[16];

    ck_assert_str_eq(prepared("127.0.0.1", "reno", before, after), "reno");
    prepared("127.0.0.1", "", before, after);
    ck_assert_str_eq(before, after);
    prepared("127.0.0.1", "no-such-control", before, after);
    ck_assert_str_eq(before, after);
}
END_TEST

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage made = { .ss_family = AF_UNIX };

    if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&made)->sin_addr) == 1)
        made.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&made)->sin6_addr) == 1)
        made.ss_family = AF_INET6;
    return made;
}

static const struct {
    const char *local, *peer;
    bool same;
} pairs[] = {
    { "127.0.0.1", "127.0.0.1", true },
    { "127.0.0.1", "127.9.0.1", true },
    { "192.0.2.1", "192.0.2.1", true },
    { "192.0.2.1", "192.0.2.2", false },
    { "192.0.2.1", "127.0.0.1", false },
    { "::1", "::1", true },
    { "fd00::1", "fd00::1", true },
    { "fd00::1", "fd00::2", false },
    { "::ffff:192.0.2.1", "192.0.2.1", true },
    { "::ffff:127.0.0.1", "::ffff:127.0.0.2", true },
    { "::ffff:192.0.2.1", "::ffff:192.0.2.2", false },
    { "a path", "a path", false },
    { "127.0.0.1", "a path", false },
};

START_TEST(test_same_host)
{
    struct sockaddr_storage local = address(pairs[_i].local), peer = address(pairs[_i].peer);

    ck_assert_int_eq(llp_same_host((struct sockaddr *)&local, (struct sockaddr *)&peer),
                     pairs[_i].same);
}
END_TEST

static void give_address(int fd, const char *alias, const char *address)
{
    struct ifreq request = { .ifr_addr.sa_family = AF_INET };

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", alias);
    inet_pton(AF_INET, address, &((struct sockaddr_in *)&request.ifr_addr)->sin_addr);
    ck_assert_int_eq(ioctl(fd, SIOCSIFADDR, &request), 0);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
}

/* From 192.0.2.1 to 198.51.100.2, in a network namespace of its own, which ends with the test's
 * process. */
static int connected_apart(int *listening)
{
    struct sockaddr_in from = { .sin_family = AF_INET }, to = from;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof(to);

    give_address(fd, "lo", "127.0.0.1");
    give_address(fd, "lo:1", "192.0.2.1");
    give_address(fd, "lo:2", "198.51.100.2");
    inet_pton(AF_INET, "192.0.2.1", &from.sin_addr);
    inet_pton(AF_INET, "198.51.100.2", &to.sin_addr);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&to, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&to, &length), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, length), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, length), 0);
    *listening = listener;
    return fd;
}

static bool is_apart(void)
{
    if (!unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return true;
    tc_skip("no network namespace can be made");
    return false;
}

static const struct iwarp_options automatic = { .congestion = "auto" };

START_TEST(test_two_own_addresses_are_one_host)
{
    int fd, listening;
    char name[16];

    if (!is_apart())
        return;
    fd = connected_apart(&listening);
    llp_tcp_prepare(fd, &automatic);
    ck_assert_str_eq(congestion_of(fd, name), "reno");
    close(fd);
    close(listening);
}
END_TEST

/* The peer's address is taken away, so it is of another host as far as one can tell; also where
 * ip_nonlocal_bind lets a program bind to such an address. */
START_TEST(test_auto_changes_nothing_for_another_host)
{
    char before[16], after[16];
    int fd, listening;

    if (!is_apart())
        return;
    fd = connected_apart(&listening);
    if (!strcmp(congestion_of(fd, before), "reno")) {
        tc_skip("reno is the system's default");
        return;
    }
    give_address(fd, "lo:2", "203.0.113.3");
    if (_i) {
        FILE *file = fopen("/proc/sys/net/ipv4/ip_nonlocal_bind", "w");

        if (!file || fputs("1", file) < 0 || fclose(file)) {
            tc_skip("ip_nonlocal_bind cannot be set");
            return;
        }
    }
    llp_tcp_prepare(fd, &automatic);
    ck_assert_str_eq(congestion_of(fd, after), before);
    close(fd);
    close(listening);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("congestion");
    TCase *tc = tc_case(suite, "congestion", NULL, NULL);

    tc_add_tests(tc, test_auto_on_one_host_is_reno, test_a_name_is_used_and_none_changes_nothing);
    tc_add_rows(tc, test_same_host, pairs);
    tcase_add_test(tc, test_two_own_addresses_are_one_host);
    tcase_add_loop_test(tc, test_auto_changes_nothing_for_another_host, 0, 2);
    return tc_main(suite);
}
