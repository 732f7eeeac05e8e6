/* SPDX-License-Identifier: BSD-3-Clause */
/* Control verbs of softrdma without a connection: options, attributes, port, PDs, regions,
 * limits. */
#include "host_options.h"
#include "providers/software/provider.h"
#include "providers/software/host/port.h"
#include "providers/software/iwarp/wire_iwarp.h"
#include "testbed.h"

#include "base/compiler.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mman.h>

static struct fake_host fake;

static void setup(void)
{
    ck_assert_int_eq(fake_host_open(&fake, NULL), RI_OK);
}

static void teardown(void)
{
    fake_host_close(&fake, false);
    fake_host_free(&fake);
}

/* ---- opening ---- */

static void on_found(void *arg, const struct ri_device *device)
{
    ck_assert_str_eq(device->name, "softrdma");
    ck_assert_int_eq(device->transport, RI_TRANSPORT_IWARP);
    ck_assert(device->usable);
    ++*(int *)arg;
}

START_TEST(devices)
{
    struct ri_open open = {
        .size = sizeof(open), .host = &fake.host, .privileged = &fake.privileged, .user = &fake.user
    };
    struct ri_rnic *rnic = NULL;
    int found = 0;

    ck_assert_int_eq(fake.privileged.enumerate(&fake.host, on_found, &found), RI_OK);
    ck_assert_int_eq(found, 1);
    open.device = "other";
    ck_assert_int_eq(fake.privileged.open(&open, &rnic), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(rnic);
    open.device = "softrdma";
    ck_assert_int_eq(fake.privileged.open(&open, &rnic), RI_OK);
    ck_assert_int_eq(fake.privileged.close(rnic, false), RI_OK);
}
END_TEST

static const struct {
    const char *name, *value;
    bool good;
} option_cases[] = {
    { "polled_connections", "0", true },
    { "polled_connections", "16", true },
    { "polled_connections", "17", false },
    { "polled_connections", "-1", false },
    { "polled_connections", "", false },
    { "polled_connections", "4x", false },
    { "lanes", "1", true },
    { "lanes", "4", true }, /* FAKE_LANES */
    { "lanes", "0", false },
    { "lanes", "65", false },
    { "lanes", "two", false },
    { "fpdu", "max", true },
    { "fpdu", "MAX", true },
    { "fpdu", "mtu", false },
    { "close_timeout", "1", true },
    { "close_timeout", "0", false },
    { "close_timeout", "99999999999999999999", false },
    { "ack_timeout", "0", true },
    { "ack_timeout", "86400001", false },
    { "tcp_user_timeout", "0", true },
    { "keepalive", "no", true },
    { "keepalive", "off", true },
    { "keepalive", "1", true },
    { "keepalive", "maybe", false },
    { "keepalive_idle", "32768", false },
    { "keepalive_count", "127", true },
    { "keepalive_count", "128", false },
    { "netdev", "lo", true },
    { "netdev", "lo, eth0", true },
    { "tcp_congestion", "a-name-of-17-octe", false },
    { "netdev", "a-name-of-17-octe", false },
    { "tcp_congestion", "reno", true },
    { "max_ird", "0", true },
    { "max_ird", "16384", false },
    { "max_qp", "0", false },
};

START_TEST(option_values)
{
    const char *const options[] = { option_cases[_i].name, option_cases[_i].value, NULL };
    enum ri_status status = fake_host_open(&fake, options);

    ck_assert_msg(status == (option_cases[_i].good ? RI_OK : RI_ERR_INVALID_ARGUMENT),
                  "%s = \"%s\": %s", options[0], options[1], ri_status_name(status));
    /* logged once, and the text names the option */
    ck_assert_uint_eq(fake.logged[RI_LOG_ERROR], option_cases[_i].good ? 0 : 1);
    if (status == RI_OK)
        fake_host_close(&fake, false);
    fake_host_free(&fake);
}
END_TEST

/* Every provider option has what `itinfo --config` prints, and names are unique. Of the options
 * that every interface has, the provider knows four. */
START_TEST(option_table)
{
    unsigned int defaults = 0;

    for (uint32_t i = 0; i < rnicpi_provider_v1.option_count; i++) {
        const struct ri_option *option = &rnicpi_provider_v1.options[i];

        ck_assert(option->name && option->value);
        if (option->type)
            ck_assert(option->unit && option->text && option->text[0]);
        else
            defaults++;
        for (uint32_t j = 0; j < i; j++)
            ck_assert_str_ne(option->name, rnicpi_provider_v1.options[j].name);
    }
    ck_assert_uint_eq(defaults, 4);
}
END_TEST

/* Options with a default in the provider's own table, and those with a default in kal's. */
START_TEST(option_defaults)
{
    const struct softrdma *device;
    const struct iwarp_options *options;
    uint64_t connect_ms = 0;

    ck_assert_int_eq(ri_option_number(&fake.host, "connect_timeout", &connect_ms), RI_OK);
    ck_assert_uint_eq(connect_ms, 10000);
    device = container_of(fake.rnic, struct softrdma, core.base);
    options = &device->iwarp.options;
    ck_assert_uint_eq(options->tcp_user_timeout_ms, 0);
    ck_assert_uint_eq(options->keepalive_idle_s, 10);
    ck_assert_uint_eq(options->keepalive_interval_s, 5);
    ck_assert_uint_eq(options->keepalive_count, 6);
    ck_assert_uint_eq(options->close_timeout_ns, 10 * CLOCK_NS_PER_S);
    ck_assert_uint_eq(options->rtr_timeout_ns, 5 * CLOCK_NS_PER_S);
    ck_assert_uint_eq(options->reassembly_limit, 64u << 20);
    ck_assert(!options->fpdu_max);
    ck_assert(device->core.options.remote_invalidate && !device->core.options.guard);
}
END_TEST

/* The ends of ranges that size arrays. */
START_TEST(option_ranges_fit_arrays)
{
    char polled[32], lanes[32];

    snprintf(polled, sizeof(polled), "int: 0..%u", POLLED_MAX);
    snprintf(lanes, sizeof(lanes), "int: 1..%u", LANES_MOST);
    ck_assert_str_eq(host_options_type(fake.options, "polled_connections"), polled);
    ck_assert_str_eq(host_options_type(fake.options, "lanes"), lanes);
}
END_TEST

/* ---- attributes ---- */

START_TEST(attributes)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    struct {
        struct ri_rnic_attr attr;
        uint64_t fence;
    } longer = { .attr.size = sizeof(longer), .fence = 7 };
    uint32_t shorter[4] = { 12, 0, 0, 0xabababab };

    ck_assert_int_eq(fake.privileged.query(fake.rnic, &attr), RI_OK);
    ck_assert_uint_eq(attr.size, sizeof(attr));
    ck_assert_int_eq(attr.transport, RI_TRANSPORT_IWARP);
    ck_assert(attr.features & RI_FEATURE_CONNECTION_SET_B);
    ck_assert(!(attr.features & (RI_FEATURE_DMA | RI_FEATURE_UD | RI_FEATURE_CONNECTION_SET_A)));
    ck_assert_uint_eq(attr.max_fast_register_pages, 512);
    ck_assert_uint_eq(attr.max_srq_sge, 64);
    ck_assert_uint_gt(attr.max_mw, 1000000);
    ck_assert_uint_eq(attr.max_ird, 128);
    ck_assert_uint_eq(attr.max_ord, 128);
    ck_assert_uint_eq(attr.max_qp, 65536);
    ck_assert_uint_eq(attr.max_read_sge, attr.max_write_sge);
    ck_assert_uint_eq(attr.connect_private_data, 508);
    ck_assert_uint_eq(attr.lanes, 1);
    ck_assert_pstr_eq(
        ri_missing_operation(rnicpi_provider_v1.privileged, rnicpi_provider_v1.user, attr.features),
        NULL);
    ck_assert_int_eq(fake.privileged.query(fake.rnic, &longer.attr), RI_OK);
    ck_assert(longer.fence == 7);
    ck_assert_int_eq(fake.privileged.query(fake.rnic, (struct ri_rnic_attr *)(void *)shorter),
                     RI_OK);
    ck_assert_uint_eq(shorter[3], 0xabababab);
}
END_TEST

START_TEST(lanes)
{
    static const char *const options[] = { "lanes", "3", NULL };
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    struct fake_host several;
    struct ri_lane *lane;

    ck_assert_int_eq(fake_host_open(&several, options), RI_OK); /* opens the lanes */
    ck_assert_int_eq(several.privileged.query(several.rnic, &attr), RI_OK);
    ck_assert_uint_eq(attr.lanes, 3);
    ck_assert_uint_eq(several.lane_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(several.lanes[i]->context, &several.events);
        ck_assert_ptr_ne(several.lanes[i], several.lanes[(i + 1) % 3]);
    }
    ck_assert_int_eq(several.privileged.lane_open(several.rnic, 3, &several, &lane),
                     RI_ERR_INVALID_ARGUMENT);
    fake_host_close(&several, false);
    fake_host_free(&several);
}
END_TEST

static bool has_loopback(const struct ri_port_attr *attr, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sockaddr_in *address =
            (const struct sockaddr_in *)&attr->addresses[i].sockaddr;

        if (address->sin_family == AF_INET && address->sin_addr.s_addr == htonl(INADDR_LOOPBACK))
            return attr->addresses[i].prefix_length == 8 && address->sin_port == 0;
    }
    return false;
}

START_TEST(port)
{
    static struct ri_address addresses[256];
    struct ri_port_attr attr = { .size = sizeof(attr),
                                 .addresses = addresses,
                                 .address_capacity = 256 };
    uint32_t count;

    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &attr), RI_OK);
    ck_assert(attr.online);
    ck_assert_str_eq(attr.name, "any");
    ck_assert_uint_gt(attr.mtu, 0);
    count = attr.address_count;
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_le(count, 256);
    ck_assert(has_loopback(&attr, count));
    attr.address_capacity = 0; /* reports the number, writes nothing */
    attr.addresses = NULL;
    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &attr), RI_OK);
    ck_assert_uint_eq(attr.address_count, count);
    attr.port = 1;
    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &attr), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* An EUI-64 of that MAC address (RFC 4291 appendix A). */
static bool is_made_of(const uint8_t guid[8], const uint8_t mac[6])
{
    const uint8_t made[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };

    return !memcmp(guid, made, sizeof(made));
}

/* A bridge without a port, and some drivers of virtual machines, say that they do not know. */
START_TEST(speed_of_a_link)
{
    struct ethtool_cmd command = { .speed = 10000 };

    ck_assert_uint_eq(host_link_speed(&command), UINT64_C(10000000000));
    command = (struct ethtool_cmd){ .speed = 200000 & 0xffff, .speed_hi = 200000 >> 16 };
    ck_assert_uint_eq(host_link_speed(&command), UINT64_C(200000000000));
    command = (struct ethtool_cmd){ .speed = 0xffff, .speed_hi = 0xffff };
    ck_assert_uint_eq(host_link_speed(&command), 0);
}
END_TEST

START_TEST(guids_are_those_of_an_interface)
{
    static const uint8_t none[8];
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    struct ri_port_attr at_port = { .size = sizeof(at_port) };
    struct ifaddrs *list;
    bool made = false, any = false;

    ck_assert_int_eq(fake.privileged.query(fake.rnic, &attr), RI_OK);
    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &at_port), RI_OK);
    ck_assert_mem_eq(attr.node_guid, at_port.port_guid, sizeof(attr.node_guid));
    ck_assert_int_eq(getifaddrs(&list), 0);
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        const struct sockaddr_ll *link = (const struct sockaddr_ll *)(const void *)at->ifa_addr;

        if (!link || link->sll_family != AF_PACKET || link->sll_halen != 6 ||
            !(at->ifa_flags & IFF_UP) || !memcmp(link->sll_addr, none, 6))
            continue;
        any = true;
        made |= is_made_of(attr.node_guid, link->sll_addr);
    }
    freeifaddrs(list);
    ck_assert(any ? made : !memcmp(attr.node_guid, none, sizeof(none)));
}
END_TEST

static const struct {
    const char *netdev, *name;
    bool has_loopback;
    unsigned int absent;
} netdevs[] = {
    { "lo", "lo", true, 0 },
    { "no-such-dev", "no-such-dev", false, 1 },
    { "no-such-dev, lo", "no-such-dev lo", true, 1 },
    { "l no-such-dev lo0", "l no-such-dev lo0", false, 3 },
    { "no-such-dev-0 no-such-dev-1 no-such-dev-2 no-such-dev-3 lo no-such-dev", "several", true,
      5 },
};

START_TEST(port_of_some_interfaces)
{
    const char *const options[] = { "netdev", netdevs[_i].netdev, NULL };
    static struct ri_address addresses[16];
    static const uint8_t no_guid[8];
    struct ri_port_attr attr = { .size = sizeof(attr),
                                 .addresses = addresses,
                                 .address_capacity = 16 };

    memset(attr.port_guid, 'x', sizeof(attr.port_guid));
    ck_assert_int_eq(fake_host_open(&fake, options), RI_OK);
    ck_assert_uint_eq(fake.logged[RI_LOG_WARNING], netdevs[_i].absent);
    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &attr), RI_OK);
    ck_assert_str_eq(attr.name, netdevs[_i].name);
    ck_assert(attr.online == netdevs[_i].has_loopback);
    ck_assert(has_loopback(&attr, attr.address_count) == netdevs[_i].has_loopback);
    if (!netdevs[_i].has_loopback)
        ck_assert_uint_eq(attr.address_count, 0);
    ck_assert_uint_eq(attr.link_speed, 0); /* the loopback has neither */
    ck_assert_mem_eq(attr.port_guid, no_guid, sizeof(no_guid));
    fake_host_close(&fake, false);
    fake_host_free(&fake);
}
END_TEST

/* getifaddrs(3) names it by its label. */
START_TEST(a_labelled_address_is_of_its_interface)
{
    const char *const options[] = { "netdev", "lo", NULL };
    static struct ri_address addresses[16];
    struct ri_port_attr attr = { .size = sizeof(attr),
                                 .addresses = addresses,
                                 .address_capacity = 16 };
    uint32_t before;

    if (!tc_netns())
        tc_skip("a network name space cannot be made here");
    ck_assert_int_eq(fake_host_open(&fake, options), RI_OK);
    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &attr), RI_OK);
    before = attr.address_count;
    ck_assert(tc_label(true));
    ck_assert_int_eq(fake.privileged.query_port(fake.rnic, &attr), RI_OK);
    ck_assert_uint_eq(attr.address_count, before + 1);
    fake_host_close(&fake, false);
    fake_host_free(&fake);
}
END_TEST

static uint64_t counter(const char *name)
{
    const char *names[32];
    uint64_t values[32];
    size_t count = 32;

    ck_assert_int_eq(fake.privileged.rnic_counters(fake.rnic, names, values, &count), RI_OK);
    ck_assert_uint_le(count, 32);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return values[i];
    ck_abort_msg("no counter %s", name);
}

/* ---- PDs and regions ---- */

START_TEST(protection_domains)
{
    struct ri_pd *pds[3];
    size_t none = 0;

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, &pds[i], &pds[i]), RI_OK);
    ck_assert_uint_eq(counter("protection zones"), 3);
    ck_assert_int_eq(fake.privileged.close(fake.rnic, true), RI_ERR_BUSY);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(fake.privileged.pd_destroy(pds[i]), RI_OK);
    ck_assert_uint_eq(counter("protection zones"), 0);
    /* number of existing regions */
    ck_assert_int_eq(fake.privileged.rnic_counters(fake.rnic, NULL, NULL, &none), RI_OK);
    ck_assert_uint_gt(none, 0);
}
END_TEST

#define LR RI_ACCESS_LOCAL_READ
#define LW RI_ACCESS_LOCAL_WRITE
#define RR RI_ACCESS_REMOTE_READ
#define RW RI_ACCESS_REMOTE_WRITE

static const struct {
    uint32_t access;
    enum ri_status status;
    bool rkey;
} access_cases[] = {
    { 0, RI_OK, false },
    { LR, RI_OK, false },
    { LW, RI_OK, false },
    { LR | LW | RR | RW, RI_OK, true },
    { LR | RR, RI_OK, true },
    { LW | RW, RI_OK, true },
    { RW, RI_ERR_INVALID_ARGUMENT, false },
    { LR | RW, RI_ERR_INVALID_ARGUMENT, false },
    { RR, RI_ERR_INVALID_ARGUMENT, false },
    { LW | RR, RI_ERR_INVALID_ARGUMENT, false },
    { LR | RI_ACCESS_REMOTE_ATOMIC, RI_ERR_INVALID_ARGUMENT, false },
    { LR | RI_ACCESS_ZERO_BASED, RI_OK, false },
    { LR | LW | RI_ACCESS_BIND, RI_OK, false },
    { LR | RI_ACCESS_IO_ADDR, RI_OK, false },
    { LR | RI_ACCESS_IO_ADDR | RI_ACCESS_ZERO_BASED, RI_ERR_INVALID_ARGUMENT, false },
    { 1u << 20, RI_ERR_INVALID_ARGUMENT, false },
};

START_TEST(access_rules)
{
    static uint8_t memory[100];
    struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = access_cases[_i].access, .addr = memory, .length = 100
    };
    struct ri_mr_keys keys = { 0 };
    struct ri_mr *mr = NULL;
    struct ri_pd *pd;
    enum ri_status status;

    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    status = fake.privileged.mr_register(pd, &attr, &keys, &mr);
    ck_assert_msg(status == access_cases[_i].status, "%x: %s", attr.access, ri_status_name(status));
    if (status == RI_OK) {
        ck_assert_uint_ne(keys.lkey, 0);
        ck_assert_uint_eq(keys.rkey, access_cases[_i].rkey ? keys.lkey : 0);
        ck_assert_uint_eq(counter("regions"), 1);
        ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_ERR_BUSY);
        ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
    }
    ck_assert_uint_eq(counter("regions"), 0);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
}
END_TEST

static enum ri_status try_range(struct ri_pd *pd, void *addr, uint64_t length, uint32_t access)
{
    struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = access, .addr = addr, .length = length
    };
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    enum ri_status status = fake.privileged.mr_register(pd, &attr, &keys, &mr);

    if (status == RI_OK)
        ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
    return status;
}

START_TEST(ranges)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ri_pd *pd;

    ck_assert(map != MAP_FAILED);
    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(try_range(pd, map, 4 * page, LR | LW), RI_OK);
    ck_assert_int_eq(try_range(pd, map + 3, 1, LR | LW), RI_OK);
    ck_assert_int_eq(try_range(pd, map, 0, LR), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(try_range(pd, NULL, 10, LR), RI_ERR_ADDRESS);
    ck_assert_int_eq(try_range(pd, map, UINT64_MAX, LR), RI_ERR_LIMIT);
    ck_assert_int_eq(try_range(pd, (void *)(UINTPTR_MAX - 5), 10, LR), RI_ERR_ADDRESS);
    ck_assert_int_eq(munmap(map + 3 * page, page), 0);
    ck_assert_int_eq(try_range(pd, map, 3 * page, LR), RI_OK);
    ck_assert_int_eq(try_range(pd, map, 3 * page + 1, LR), RI_ERR_ADDRESS);
    ck_assert_int_eq(mprotect(map, page, PROT_READ), 0);
    ck_assert_int_eq(try_range(pd, map, page, LR), RI_OK);
    ck_assert_int_eq(try_range(pd, map, page, LR | LW), RI_ERR_ACCESS);
    ck_assert_int_eq(munmap(map, 3 * page), 0);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
}
END_TEST

/* every page is checked, also when a region is registered anew. The check populates no
 * page. */
START_TEST(X009_every_page_counts)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *map = mmap(NULL, 5 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), in[5];
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LR, .addr = map };
    struct ri_mr_keys keys;
    struct ri_pd *pd;
    struct ri_mr *mr;

    ck_assert(map != MAP_FAILED);
    attr.length = 5 * page;
    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(fake.privileged.mr_register(pd, &attr, &keys, &mr), RI_OK);
    ck_assert_int_eq(mprotect(map, 2 * page, PROT_READ | PROT_WRITE), 0);
    ck_assert_int_eq(mprotect(map + 3 * page, 2 * page, PROT_READ | PROT_WRITE), 0);
    ck_assert_int_eq(try_range(pd, map, 5 * page, LR | LW), RI_ERR_ACCESS);
    attr.access = LR | LW;
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys), RI_ERR_ACCESS);
    ck_assert_int_eq(mprotect(map + 2 * page, page, PROT_NONE), 0);
    ck_assert_int_eq(try_range(pd, map, 5 * page, LR), RI_ERR_ACCESS);
    ck_assert_int_eq(try_range(pd, map + page, page + 1, LR | RR), RI_ERR_ACCESS);
    ck_assert_int_eq(mprotect(map + 2 * page, page, PROT_READ | PROT_WRITE), 0);
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys), RI_OK);
    ck_assert_int_eq(mincore(map, 5 * page, in), 0);
    for (int i = 0; i < 5; i++)
        ck_assert(!(in[i] & 1));
    ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
    munmap(map, 5 * page);
}
END_TEST

/* A region ends at 2^64 at most, by its TO as well; if it is registered anew, by its new TO. */
START_TEST(io_addr_may_not_wrap)
{
    static uint8_t memory[100];
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = LR | RI_ACCESS_IO_ADDR,
                               .addr = memory,
                               .length = 100,
                               .io_addr = UINT64_MAX - 98 };
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    struct ri_pd *pd;

    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(fake.privileged.mr_register(pd, &attr, &keys, &mr), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(counter("regions"), 0);
    attr.io_addr--;
    ck_assert_int_eq(fake.privileged.mr_register(pd, &attr, &keys, &mr), RI_OK);
    attr.io_addr++;
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys),
                     RI_ERR_INVALID_ARGUMENT);
    attr.io_addr = 0;
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys), RI_OK);
    attr.access = LR;
    attr.io_addr = UINT64_MAX; /* ignored */
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys), RI_OK);
    ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
}
END_TEST

/* New rights, perhaps another PD, other keys. A refused change leaves the region unchanged. */
START_TEST(reregister)
{
    static uint8_t memory[100];
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LR, .addr = memory, .length = 100 };
    struct ri_mr_keys keys, before;
    struct ri_pd *one, *two;
    struct ri_mr *mr;

    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &one), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &two), RI_OK);
    ck_assert_int_eq(fake.privileged.mr_register(one, &attr, &keys, &mr), RI_OK);
    before = keys;
    attr.access = RR;
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_mem_eq(&keys, &before, sizeof(keys));
    attr.access = LR | RR;
    ck_assert_int_eq(fake.privileged.mr_reregister(mr, two, &attr, &keys), RI_OK);
    ck_assert_uint_ne(keys.lkey, before.lkey);
    ck_assert_uint_eq(keys.rkey, keys.lkey);
    ck_assert_int_eq(fake.privileged.pd_destroy(one), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_destroy(two), RI_ERR_BUSY);
    ck_assert_uint_eq(counter("regions"), 1);
    ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_destroy(two), RI_OK);
}
END_TEST

/* 999 re-registrations in a row have 999 different indices. */
START_TEST(X002_registered_again_is_another_index)
{
    static uint8_t memory[100];
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = LR, .addr = memory, .length = 100 };
    uint8_t *seen = calloc(1 << 24, 1);
    struct ri_mr_keys keys;
    struct ri_pd *pd;
    struct ri_mr *mr;

    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(fake.privileged.mr_register(pd, &attr, &keys, &mr), RI_OK);
    for (int i = 0; i < 999; i++) {
        seen[keys.lkey >> 8] = 1;
        if (i % 2) {
            ck_assert_int_eq(fake.privileged.mr_reregister(mr, NULL, &attr, &keys), RI_OK);
        } else {
            ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
            ck_assert_int_eq(fake.privileged.mr_register(pd, &attr, &keys, &mr), RI_OK);
        }
        ck_assert(!seen[keys.lkey >> 8]);
    }
    ck_assert_int_eq(fake.privileged.mr_deregister(mr), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
    free(seen);
}
END_TEST

/* ---- absent features ---- */

START_TEST(absent_operations)
{
    struct ri_pd *pd;

    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(fake.privileged.service_request(NULL, NULL), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(fake.privileged.lane_open(fake.rnic, 1, NULL, &fake.lane),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma provider");
    TCase *tc = tc_case(suite, "options", NULL, NULL);

    tcase_add_loop_test(tc, option_values, 0, ARRAY_SIZE(option_cases));
    tcase_add_test(tc, option_table);
    tcase_add_loop_test(tc, port_of_some_interfaces, 0, ARRAY_SIZE(netdevs));
    tcase_add_test(tc, a_labelled_address_is_of_its_interface);
    tc = tc_case(suite, "control", setup, teardown);
    tc_add_tests(tc, devices, option_defaults, option_ranges_fit_arrays, attributes, lanes, port,
                 speed_of_a_link, guids_are_those_of_an_interface, protection_domains);
    tcase_add_loop_test(tc, access_rules, 0, ARRAY_SIZE(access_cases));
    tc_add_tests(tc, ranges, X009_every_page_counts, io_addr_may_not_wrap, reregister,
                 X002_registered_again_is_another_index, absent_operations);
    return tc_main(suite);
}
