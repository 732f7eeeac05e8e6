/* SPDX-License-Identifier: BSD-3-Clause */
/* Which devices the providers over rdma-core find, and what they report without a device. */
#include "fake.h"

#include "tc.h"

#include <inttypes.h>
#include <sys/stat.h>

static const struct kind rnic_kind = { .provider = "rnic",
                                       .transport = RI_TRANSPORT_IWARP,
                                       .what = "iWARP device",
                                       .others = "ib",
                                       .how = "make one" };
static const struct kind ib_kind = { .provider = "ib",
                                     .transport = RI_TRANSPORT_INFINIBAND,
                                     .what = "InfiniBand or RoCE device",
                                     .others = "rnic",
                                     .how = "make one" };

struct found {
    unsigned int devices, reports;
    char name[64], reason[400], advice[400];
    bool usable;
};

static void on_found(void *arg, const struct ri_device *device)
{
    struct found *found = arg;

    found->reports++;
    found->devices += device->name != NULL;
    snprintf(found->name, sizeof(found->name), "%s", device->name ? device->name : "");
    snprintf(found->reason, sizeof(found->reason), "%s", device->reason);
    snprintf(found->advice, sizeof(found->advice), "%s", device->advice);
    found->usable = device->usable;
}

static struct found look(const struct kind *kind)
{
    struct found found;

    memset(&found, 0, sizeof(found));
    ck_assert_int_eq(rdmacore_enumerate(kind, NULL, on_found, &found), RI_OK);
    return found;
}

/* No device and one report, with this reason and this advice. */
static void none(const struct kind *kind, const char *reason, const char *advice)
{
    struct found found = look(kind);

    ck_assert_uint_eq(found.devices, 0);
    ck_assert_uint_eq(found.reports, 1);
    ck_assert_msg(strstr(found.reason, reason) != NULL, "%s", found.reason);
    ck_assert_msg(strstr(found.advice, advice) != NULL, "%s", found.advice);
}

START_TEST(no_memory_for_the_list)
{
    static const int shortages[] = { ENOMEM, EMFILE, ENFILE };
    struct fake_set set;

    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    for (int i = 0; i < 3; i++) {
        struct found found = { .devices = 0 };

        fake_fail_call(1, shortages[i]);
        ck_assert_int_eq(rdmacore_enumerate(&ib_kind, NULL, on_found, &found), RI_ERR_NO_RESOURCES);
        ck_assert_uint_eq(found.reports, 0);
        fake_fail_call(1, shortages[i]);
        ck_assert_int_eq(fake_host_open(&set.host, NULL), RI_ERR_NO_RESOURCES);
        fake_host_free(&set.host);
    }
    ck_assert_uint_eq(look(&ib_kind).devices, 1);
}
END_TEST

/* One device, not usable. */
static void hindered(const char *reason, const char *advice)
{
    struct found found = look(&ib_kind);

    ck_assert_uint_eq(found.devices, 1);
    ck_assert_str_eq(found.name, "ib:fake0");
    ck_assert(!found.usable);
    ck_assert_msg(strstr(found.reason, reason) != NULL, "%s", found.reason);
    ck_assert_msg(strstr(found.advice, advice) != NULL, "%s", found.advice);
}

START_TEST(module_missing)
{
    fake_begin();
    none(&rnic_kind, "ib_uverbs is not loaded", "modprobe ib_uverbs");
    none(&ib_kind, "ib_uverbs is not loaded", "modprobe ib_uverbs");
}
END_TEST

START_TEST(driver_missing)
{
    fake_begin();
    fake_modules();
    none(&rnic_kind, "no driver has made one", "load the adapter's driver");
    none(&ib_kind, "no driver has made one", "load the adapter's driver");
}
END_TEST

START_TEST(user_space_driver_missing)
{
    fake_begin();
    fake_modules();
    fake_device("odd0", false, false);
    none(&ib_kind, "the kernel has odd0, but rdma-core has no driver", "ibverbs-providers");
}
END_TEST

START_TEST(other_transport)
{
    struct found found;

    fake_begin();
    fake_modules();
    fake_device("fake0", true, true);
    none(&ib_kind, "fake0 is no InfiniBand or RoCE device", "use provider rnic");
    found = look(&rnic_kind);
    ck_assert_str_eq(found.name, "rnic:fake0");
    ck_assert(found.usable);
}
END_TEST

START_TEST(usable)
{
    struct found found;

    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    found = look(&ib_kind);
    ck_assert_uint_eq(found.reports, 1);
    ck_assert_str_eq(found.name, "ib:fake0");
    ck_assert(found.usable);
    none(&rnic_kind, "fake0 is no iWARP device", "use provider ib");
}
END_TEST

START_TEST(node_missing)
{
    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    fake_remove_node("uverbs0");
    hindered("there is no device node", "modprobe ib_uverbs");
}
END_TEST

/* rdma-core does not list a device whose node is missing: the provider reports it. */
START_TEST(node_missing_and_not_listed)
{
    fake_begin();
    fake_modules();
    fake_device("fake0", false, false);
    fake_remove_node("uverbs0");
    none(&ib_kind, "there is no device node", "modprobe ib_uverbs");
}
END_TEST

START_TEST(connection_manager_missing)
{
    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    fake_remove_node("rdma_cm");
    hindered("rdma_cm", "modprobe rdma_ucm");
}
END_TEST

START_TEST(permission_missing)
{
    char path[300];

    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    if (geteuid() != 0)
        tc_skip("only root can become somebody else");
    /* The folders are readable, the node is not. */
    snprintf(path, sizeof(path), "%s/..", rdmacore->node_folder);
    ck_assert_int_eq(chmod(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/../..", rdmacore->node_folder);
    ck_assert_int_eq(chmod(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/uverbs0", rdmacore->node_folder);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(setuid(65534), 0);
    hindered("no permission to use", "udev rule");
}
END_TEST

START_TEST(memlock_too_low)
{
    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    fake_memlock(64 << 10);
    hindered("only 64 KiB of memory may be locked", "ulimit -l");
}
END_TEST

START_TEST(found_by_both_names)
{
    struct ibv_device **list;

    fake_begin();
    fake_modules();
    fake_device("fake0", true, true);
    fake_device("fake1", false, true);
    list = rdmacore->get_device_list(NULL);
    ck_assert_ptr_eq(rdmacore_find(&ib_kind, list, "fake1"), list[1]);
    ck_assert_ptr_eq(rdmacore_find(&ib_kind, list, "ib:fake1"), list[1]);
    ck_assert_ptr_eq(rdmacore_find(&ib_kind, list, NULL), list[1]);
    ck_assert_ptr_null(rdmacore_find(&ib_kind, list, "fake0"));
    ck_assert_ptr_null(rdmacore_find(&ib_kind, list, "rnic:fake0"));
    ck_assert_ptr_eq(rdmacore_find(&rnic_kind, list, "rnic:fake0"), list[0]);
    rdmacore->free_device_list(list);
}
END_TEST

static void numbers_are(const struct ri_rnic_attr *attr)
{
    const struct {
        const char *name;
        uint64_t is, expected;
    } numbers[] = {
        { "vendor_id", attr->vendor_id, 0x1234 },
        { "vendor_part", attr->vendor_part, 7 },
        { "hardware_version", attr->hardware_version, 3 },
        { "max_send_wr", attr->max_send_wr, 128 },
        { "max_send_sge", attr->max_send_sge, 4 },
        { "max_write_sge", attr->max_write_sge, SPLIT_ELEMENTS },
        { "max_read_sge", attr->max_read_sge, SPLIT_ELEMENTS },
        { "max_ird", attr->max_ird, 16 },
        { "max_ord", attr->max_ord, 255 }, /* an octet in rdma_cm */
        { "max_send", attr->max_send, 1u << 30 },
        { "connect_private_data", attr->connect_private_data, 56 },
        { "accept_private_data", attr->accept_private_data, 196 },
        { "reject_private_data", attr->reject_private_data, 148 },
        { "max_ah", attr->max_ah, 50 },
        { "max_multicast_groups", attr->max_multicast_groups, 20 },
        { "max_multicast_qps", attr->max_multicast_qps, 5 },
        { "max_ud_send", attr->max_ud_send, 1024 },
        { "service_request_private_data", attr->service_request_private_data, 180 },
        { "service_reply_private_data", attr->service_reply_private_data, 136 },
        { "service_qkey", attr->service_qkey, RDMA_UDP_QKEY },
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        ck_assert_msg(numbers[i].is == numbers[i].expected, "%s is %" PRIu64 ", not %" PRIu64,
                      numbers[i].name, numbers[i].is, numbers[i].expected);
}

START_TEST(attributes_of_the_device)
{
    const uint64_t expected = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_THREE_WAY | RI_FEATURE_SRQ |
                              RI_FEATURE_ATOMICS | RI_FEATURE_IMMEDIATE | RI_FEATURE_MW_NARROW |
                              RI_FEATURE_MW_WIDE | RI_FEATURE_SEND_INVALIDATE |
                              RI_FEATURE_LOCAL_INVALIDATE | RI_FEATURE_PORT_EVENTS |
                              RI_FEATURE_ACCESS_MODIFY | RI_FEATURE_READ_MULTI_SGE | RI_FEATURE_UD |
                              RI_FEATURE_CQ_RESIZE | RI_FEATURE_SRQ_RESIZE | RI_FEATURE_IO_ADDR |
                              RI_FEATURE_QP_NUMBERS | RI_FEATURE_UC | RI_FEATURE_SQD |
                              RI_FEATURE_EXTERNAL_QP | RI_FEATURE_MULTICAST;
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    struct ri_address addresses[16];
    struct ri_port_attr port = { .size = sizeof(port),
                                 .addresses = addresses,
                                 .address_capacity = 16 };
    struct fake_set set;
    bool loopback = false;

    fake_open(&set, false);
    ck_assert_int_eq(set.host.privileged.query(set.host.rnic, &attr), RI_OK);
    ck_assert_int_eq(attr.transport, RI_TRANSPORT_INFINIBAND);
    ck_assert_uint_eq(attr.features, expected);
    ck_assert_str_eq(attr.firmware, "1.2.3");
    numbers_are(&attr);
    ck_assert_str_eq(attr.pci_address, "");
    ck_assert_uint_eq(attr.numa_node_plus_one, 0);
    ck_assert_int_eq(set.host.privileged.query_port(set.host.rnic, &port), RI_OK);
    ck_assert(port.online && port.link_ethernet);
    ck_assert_uint_eq(port.mtu, 1024);
    ck_assert_uint_eq(port.gid[0], 0xfe);
    for (uint32_t i = 0; i < port.address_count && i < 16; i++)
        loopback |= addresses[i].sockaddr.ss_family == AF_INET && addresses[i].prefix_length == 8;
    ck_assert(loopback);
    port.port = 1;
    ck_assert_int_eq(set.host.privileged.query_port(set.host.rnic, &port), RI_ERR_INVALID_ARGUMENT);
    fake_close(&set);
}
END_TEST

/* By sysfs, whose folder `device` leads to the bus; a device on PCI does DMA, and its driver
 * pins. */
START_TEST(hardware_of_the_device)
{
    static const uint8_t guid[] = { 0x00, 0x02, 0xc9, 0x03, 0x00, 0xfe, 0xd6, 0x71 };
    static const struct {
        const char *numa_node;
        uint32_t plus_one;
    } nodes[] = { { "1\n", 2 }, { "0\n", 1 }, { "-1\n", 0 }, { "?\n", 0 } };
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    struct ri_port_attr port = { .size = sizeof(port) };
    struct fake_host host;

    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    fake_on_pci("fake0", "0000:3b:00.1", nodes[_i].numa_node);
    ck_assert_int_eq(fake_host_open(&host, NULL), RI_OK);
    ck_assert_int_eq(host.privileged.query(host.rnic, &attr), RI_OK);
    ck_assert_mem_eq(attr.node_guid, guid, sizeof(guid));
    ck_assert_str_eq(attr.pci_address, "0000:3b:00.1");
    ck_assert_uint_eq(attr.numa_node_plus_one, nodes[_i].plus_one);
    ck_assert(attr.features & RI_FEATURE_DMA);
    ck_assert(attr.features & RI_FEATURE_DMA_PINS);
    ck_assert_int_eq(host.privileged.query_port(host.rnic, &port), RI_OK);
    ck_assert_uint_eq(port.link_width, 4);
    ck_assert_uint_eq(port.link_speed, UINT64_C(4) * 25781 * 1000000);
    ck_assert_mem_eq(port.port_guid, port.gid + 8, 8);
    fake_host_close(&host, false);
    fake_host_free(&host);
}
END_TEST

/* siw accepts the address but does not use it: there the provider does not support such regions. */
START_TEST(io_addr_where_the_device_keeps_it)
{
    static struct rnic rnic = { .kind = &rnic_kind, .iwarp = true };
    const struct ibv_port_attr port = { .max_msg_sz = 1 };
    struct ibv_device_attr_ex device = { .orig_attr.vendor_id = 0x1234 };

    rdmacore_attributes(&rnic, &device, &port);
    ck_assert(rnic.attr.features & RI_FEATURE_IO_ADDR);
    device.orig_attr.vendor_id = 0x626d74;
    rdmacore_attributes(&rnic, &device, &port);
    ck_assert(!(rnic.attr.features & RI_FEATURE_IO_ADDR));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_discover");
    TCase *devices = tcase_create("devices"), *missing = tcase_create("missing");

    tc_add_tests(missing, module_missing, driver_missing, user_space_driver_missing,
                 other_transport, node_missing, node_missing_and_not_listed,
                 connection_manager_missing, permission_missing, memlock_too_low,
                 no_memory_for_the_list);
    suite_add_tcase(suite, missing);
    tc_add_tests(devices, usable, found_by_both_names, attributes_of_the_device);
    tcase_add_loop_test(devices, hardware_of_the_device, 0, 4);
    tcase_add_test(devices, io_addr_where_the_device_keeps_it);
    suite_add_tcase(suite, devices);
    return tc_main(suite);
}
