/* SPDX-License-Identifier: BSD-3-Clause */
/* The GID table: order, places that stay, events of the host. */
#include "tc.h"

#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net_helpers.h"
#include "providers/software/roce/net/gids.h"

static struct net_gids gids;
static struct net_address list[NET_GIDS_MAX + 8];
static uint32_t listed;

static void begin(void)
{
    memset(&gids, 0, sizeof(gids));
    listed = 0;
}

static void put(const struct net_address *address)
{
    list[listed++] = *address;
}

static struct net_address ipv4(uint32_t n)
{
    struct net_address address = { .mtu = 1500, .netdev = "eth0" };

    gid_put_ipv4(address.gid, (const uint8_t[]){ 10, 0, (uint8_t)(n >> 8), (uint8_t)n });
    return address;
}

static struct net_address ipv6(uint32_t n)
{
    struct net_address address = { .gid = { 0x20, 1, 0xD, 0xB8 }, .mtu = 1500, .netdev = "eth0" };

    address.gid[15] = (uint8_t)n;
    return address;
}

static struct net_address link_local(uint32_t n, uint32_t scope)
{
    struct net_address address = { .gid = { 0xFE, 0x80 }, .scope = scope, .netdev = "eth0" };

    address.gid[15] = (uint8_t)n;
    return address;
}

static struct net_address loopback(struct net_address address)
{
    address.loopback = true;
    return address;
}

/* The place of an address is n. */
static void is_at(const struct net_address *address, int n)
{
    ck_assert_int_eq(net_gids_find(&gids, address->gid, address->scope), n);
}

START_TEST(P010_P011_the_first_order)
{
    struct net_address first = link_local(1, 2), own6 = loopback(ipv6(0)), own4 = loopback(ipv4(0)),
                       a = ipv4(1), b = ipv4(2), c = ipv6(3), second = link_local(1, 3);

    begin();
    put(&first);
    put(&own6);
    put(&c);
    put(&own4);
    put(&b);
    put(&second);
    put(&a);
    put(&b); /* on a second interface */
    ck_assert(net_gids_update(&gids, list, listed));
    ck_assert_uint_eq(gids.count, 7);
    is_at(&b, 0);
    is_at(&a, 1);
    is_at(&own4, 2);
    is_at(&c, 3);
    is_at(&own6, 4);
    is_at(&first, 5);
    is_at(&second, 6);
    ck_assert_uint_eq(gids.entry[6].scope, 3);
    ck_assert_int_eq(net_gids_find(&gids, first.gid, 0), 5);
    ck_assert(!net_gids_update(&gids, list, listed));
}
END_TEST

START_TEST(a_gone_address_is_zero_in_its_place_and_comes_back_there)
{
    static const uint8_t zeros[GID_LEN];
    struct net_address a = ipv4(1), b = ipv4(2), c = ipv4(3), d = ipv6(4);

    begin();
    put(&a);
    put(&b);
    put(&c);
    ck_assert(net_gids_update(&gids, list, listed));
    listed = 0;
    put(&a);
    put(&c);
    put(&d);
    ck_assert(net_gids_update(&gids, list, listed));
    is_at(&a, 0);
    is_at(&b, -1);
    ck_assert_mem_eq(gids.entry[1].gid, zeros, GID_LEN);
    ck_assert_uint_eq(gids.entry[1].mtu, 0); /* the path MTU is not that of a gone interface */
    is_at(&c, 2);
    is_at(&d, 3); /* behind, though of another kind, and not in b's place */
    put(&b);
    ck_assert(net_gids_update(&gids, list, listed));
    is_at(&b, 1);
    ck_assert_uint_eq(gids.count, 4);
    ck_assert_int_eq(net_gids_find(&gids, zeros, 0), -1);
}
END_TEST

START_TEST(another_mtu_is_a_change)
{
    struct net_address a = ipv4(1);

    begin();
    put(&a);
    ck_assert(net_gids_update(&gids, list, listed));
    list[0].mtu = 9000;
    ck_assert(net_gids_update(&gids, list, listed));
    ck_assert_uint_eq(gids.entry[0].mtu, 9000);
    ck_assert(!net_gids_update(&gids, list, listed));
}
END_TEST

START_TEST(a_full_table_gives_places_of_gone_ones_last)
{
    begin();
    for (uint32_t i = 0; i < NET_GIDS_MAX + 4; i++) {
        struct net_address a = ipv4(i + 1);

        put(&a);
    }
    ck_assert(net_gids_update(&gids, list, listed));
    ck_assert_uint_eq(gids.count, NET_GIDS_MAX);
    is_at(&list[NET_GIDS_MAX], -1);
    list[7] = list[NET_GIDS_MAX]; /* one goes, another is there already */
    ck_assert(net_gids_update(&gids, list, NET_GIDS_MAX));
    is_at(&list[7], 7);
    is_at(&list[8], 8);
}
END_TEST

/* Any lists: what is listed and has a place keeps it. */
START_TEST(indexes_never_shift)
{
    struct tc_rng rng = tc_rng(4);
    int place[64];

    begin();
    memset(place, 0xFF, sizeof(place));
    for (unsigned round = 0; round < 200; round++) {
        bool there[64] = { false };

        listed = 0;
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t n = (uint32_t)tc_below(&rng, 64);
            struct net_address a = n < 24 ? ipv4(n + 1) : n < 48 ? ipv6(n) : link_local(n, n);

            put(&a);
            there[n] = true;
        }
        net_gids_update(&gids, list, listed);
        for (uint32_t n = 0; n < 64; n++) {
            struct net_address a = n < 24 ? ipv4(n + 1) : n < 48 ? ipv6(n) : link_local(n, n);
            int at = net_gids_find(&gids, a.gid, a.scope);

            ck_assert_int_eq(at >= 0, there[n]);
            if (at >= 0 && place[n] >= 0)
                ck_assert_int_eq(at, place[n]);
            if (at >= 0)
                place[n] = at;
        }
    }
}
END_TEST

/* ---- the host -------------------------------------------------------------------------------- */

static bool await_change(int fd)
{
    bool changed = false;

    ck_assert_int_eq(tc_wait_fd(fd, POLLIN, tc_deadline(5000)) & POLLIN, POLLIN);
    net_gids_drain(fd);
    ck_assert_int_eq(net_gids_read(&gids, "", &changed), RI_OK);
    return changed;
}

/* Several messages may belong to one change. */
static void await_place(int fd, const uint8_t gid[static GID_LEN], bool there)
{
    while ((net_gids_find(&gids, gid, 0) >= 0) != there)
        await_change(fd);
}

START_TEST(the_host_s_addresses_come_and_go)
{
    uint8_t own[GID_LEN], more[GID_LEN];
    const uint8_t ipv6_own[GID_LEN] = { [15] = 1 };
    bool changed;
    int fd, at;

    net_namespace();
    begin();
    fd = net_gids_watch();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(net_gids_read(&gids, "", &changed), RI_OK);
    gid_put_ipv4(own, (const uint8_t[]){ 127, 0, 0, 1 });
    gid_put_ipv4(more, (const uint8_t[]){ 192, 0, 2, 9 });
    ck_assert_int_eq(net_gids_find(&gids, own, 0), 0);
    ck_assert_str_eq(gids.entry[0].netdev, "lo");
    ck_assert_uint_gt(gids.entry[0].mtu, 0);
    ck_assert_int_ne(net_gids_find(&gids, more, 0), 0);
    ck_assert(tc_label(true));
    await_place(fd, more, true);
    at = net_gids_find(&gids, more, 0);
    ck_assert_int_gt(at, 0);
    ck_assert(tc_label(false));
    await_place(fd, more, false);
    ck_assert(tc_label(true));
    await_place(fd, more, true);
    ck_assert_int_eq(net_gids_find(&gids, more, 0), at);
    ck_assert_int_eq(net_gids_find(&gids, own, 0), 0);
    if (net_gids_find(&gids, ipv6_own, 0) >= 0)
        ck_assert_int_lt(net_gids_find(&gids, ipv6_own, 0), at);
    net_gids_drain(fd);
    ck_assert_int_eq(tc_wait_fd(fd, POLLIN, tc_now_ns()), 0);
    close(fd);
}
END_TEST

START_TEST(only_of_the_interfaces_that_are_named)
{
    bool changed;

    net_namespace();
    begin();
    ck_assert_int_eq(net_gids_read(&gids, "eth7 eth8", &changed), RI_OK);
    ck_assert(!changed);
    ck_assert_uint_eq(gids.count, 0);
    ck_assert_int_eq(net_gids_read(&gids, "eth7 lo", &changed), RI_OK);
    ck_assert(changed);
    ck_assert_uint_gt(gids.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gids");
    TCase *table = tc_case(suite, "table", NULL, NULL);
    TCase *host = tc_case(suite, "host", NULL, NULL);

    tc_add_tests(table, P010_P011_the_first_order,
                 a_gone_address_is_zero_in_its_place_and_comes_back_there, another_mtu_is_a_change,
                 a_full_table_gives_places_of_gone_ones_last, indexes_never_shift);
    tc_add_tests(host, the_host_s_addresses_come_and_go, only_of_the_interfaces_that_are_named);
    return tc_main(suite);
}
