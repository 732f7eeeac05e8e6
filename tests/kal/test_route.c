/* SPDX-License-Identifier: BSD-3-Clause */
/* The source address of a destination. */
#include "kal_fixture.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

static struct kal_rnic *rnic;

static void open_all(const char *conf, const char *words)
{
    fixture_module("vp_test", NULL);
    fixture_conf(conf);
    setenv("ITAL_TEST_VP", words, 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_OK);
}

static void close_all(void)
{
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    fixture_put();
}

static struct sockaddr_in v4(const char *text)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(4711) };

    ck_assert_int_eq(inet_pton(AF_INET, text, &in.sin_addr), 1);
    return in;
}

static enum ri_status route(uint32_t port, const void *to, struct sockaddr_storage *from)
{
    memset(from, 0xee, sizeof(*from));
    return kal_route(rnic, port, to, from);
}

#define PLAIN "[interface a]\nprovider = test\n"

START_TEST(test_loopback_v4)
{
    struct sockaddr_in to = v4("127.0.0.1"), *in;
    struct sockaddr_storage from;

    open_all(PLAIN, "");
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
    in = (struct sockaddr_in *)&from;
    ck_assert_uint_eq(from.ss_family, AF_INET);
    ck_assert_uint_eq(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_uint_eq(in->sin_port, 0);
    to.sin_port = 0;
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
}
END_TEST

static void need_v6(void)
{
    int fds[2];

    if (tc_tcp_pair(AF_INET6, fds))
        tc_skip("there is no IPv6 loopback here");
    close(fds[0]);
    close(fds[1]);
}

START_TEST(test_loopback_v6)
{
    struct sockaddr_in6 to = { .sin6_family = AF_INET6,
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                               .sin6_port = htons(4711) };
    struct sockaddr_storage from;

    need_v6();
    open_all(PLAIN, "");
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
    ck_assert_uint_eq(from.ss_family, AF_INET6);
    ck_assert(IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&from)->sin6_addr));
    ck_assert_uint_eq(((struct sockaddr_in6 *)&from)->sin6_port, 0);
}
END_TEST

/* A link-local destination needs its scope, and so does its source. */
START_TEST(test_scope_is_kept)
{
    struct ifaddrs *list, *entry;
    struct sockaddr_storage from;
    struct sockaddr_in6 to;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (entry = list; entry; entry = entry->ifa_next)
        if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET6 &&
            (entry->ifa_flags & IFF_UP) &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr))
            break;
    if (entry)
        memcpy(&to, entry->ifa_addr, sizeof(to));
    freeifaddrs(list);
    if (!entry)
        tc_skip("no interface here has a link-local address");
    open_all(PLAIN, "");
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&from)->sin6_scope_id, to.sin6_scope_id);
    ck_assert_uint_ne(to.sin6_scope_id, 0);
}
END_TEST

START_TEST(test_nonsense)
{
    struct sockaddr_in to = v4("127.0.0.1");
    struct sockaddr_storage from, untouched;

    memset(&untouched, 0xee, sizeof(untouched));
    open_all(PLAIN, "");
    ck_assert_int_eq(route(1, &to, &from), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(route(0, NULL, &from), RI_ERR_INVALID_ARGUMENT);
    to.sin_family = AF_UNIX;
    ck_assert_int_eq(route(0, &to, &from), RI_ERR_INVALID_ARGUMENT);
    to = v4("255.255.255.255"); /* broadcast needs a permission that is not requested */
    ck_assert_int_eq(route(0, &to, &from), RI_ERR_UNREACHABLE);
    ck_assert_mem_eq(&from, &untouched, sizeof(from));
}
END_TEST

START_TEST(test_netdev)
{
    struct sockaddr_in to = v4("127.0.0.1");
    struct sockaddr_storage from;

    open_all(PLAIN "netdev = lo\n", "");
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
    close_all();
    open_all(PLAIN "netdev = none0, lo\n", "");
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
    close_all();
    open_all(PLAIN "netdev = none0 l lo0\n", "");
    ck_assert_int_eq(route(0, &to, &from), RI_ERR_UNREACHABLE);
}
END_TEST

START_TEST(test_address_of_another_port)
{
    struct sockaddr_in to = v4("127.0.0.1");
    struct sockaddr_storage from;

    open_all(PLAIN, "ports2");
    ck_assert_int_eq(route(0, &to, &from), RI_OK);
    ck_assert_int_eq(route(1, &to, &from), RI_ERR_UNREACHABLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("route");
    TCase *tc = tc_case(suite, "route", fixture_setup, close_all);

    tc_add_tests(tc, test_loopback_v4, test_loopback_v6, test_scope_is_kept, test_nonsense,
                 test_netdev, test_address_of_another_port);
    return tc_main(suite);
}
