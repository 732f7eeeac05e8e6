/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, open and close, attributes, ports, lanes. */
#include "bed.h"

#include "base/clock.h"

#include <dirent.h>
#include <string.h>
#include <sys/mman.h>

#define CYCLES       20
#define ENUMERATE_MS 2000

/* ---- enumerate ---- */

static unsigned int devices, usable, wrong;

static void found(void *arg, const struct ri_device *device)
{
    (void)arg;
    EXPECT(device->size > offsetof(struct ri_device, usable), "a device has size %u", device->size);
    devices += device->name != NULL;
    usable += device->usable;
    wrong += device->usable ? !device->name : !device->reason;
}

static void enumerates(void)
{
    bed_load();
    EXPECT_STATUS(bed.control.enumerate(&bed.host, found, NULL), RI_OK);
    EXPECT(devices || wrong || usable == 0, "found is called without a name for a usable device");
    EXPECT(!wrong, "a device that cannot be used has no reason, or a usable one has no name");
    check_note("%u devices, %u usable", devices, usable);
}

static void enumerates_soon(void)
{
    uint64_t begin, limit;

    bed_load();
    begin = clock_now();
    limit = bed_deadline(ENUMERATE_MS);
    EXPECT_STATUS(bed.control.enumerate(&bed.host, found, NULL), RI_OK);
    EXPECT(!bed_expired(limit), "enumerate takes %llu ms: each listing waits for it",
           (unsigned long long)(clock_now() - begin) / 1000000);
}

/* ---- open, close ---- */

/* {lane-ops} The provider may give a lane a table of its own. */
static bool is_complete(const struct ri_user_ops *ops)
{
    return ops == &bed.lent_data || (ops->progress && ops->lane_arm && ops->poll && ops->arm &&
                                     ops->post_send && ops->post_recv);
}

static void opens(void)
{
    bed_open();
    EXPECT(bed.rnic->context == &bed, "ri_rnic.context is not that of struct ri_open");
    EXPECT(bed.rnic->ops == &bed.lent_control, "ri_rnic.ops is not the table of struct ri_open");
    EXPECT(bed.lanes[0]->context == &bed.lane, "ri_lane.context is not that of lane_open");
    EXPECT(is_complete(bed.lanes[0]->ops),
           "ri_lane.ops is neither the table of struct ri_open nor a complete one");
}

static void refuses_unknown_device(void)
{
    struct ri_rnic *rnic = (struct ri_rnic *)&bed;

    bed_load();
    EXPECT_STATUS(bed_open_device("no such device", &rnic), RI_ERR_INVALID_ARGUMENT);
    EXPECT(rnic == (struct ri_rnic *)&bed, "open writes *rnic although it fails");
}

static unsigned int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static void close_rnic(bool force)
{
    enum ri_status status = RI_OK;

    UNTIL((status = bed.control.close(bed.rnic, force)) != RI_ERR_AGAIN, 5000);
    EXPECT(status == RI_OK, "close answers %s", ri_status_name(status));
    bed.lane_count = 0;
}

/* The first cycle may make what stays for the process. */
static void leaves_nothing(void)
{
    unsigned int before = 0;
    struct node a, b;

    bed_load();
    for (int i = 0; i < CYCLES; i++) {
        if (i == 2)
            before = open_files();
        EXPECT_STATUS(bed_open_device(subject.device, &bed.rnic), RI_OK);
        bed.attr.size = sizeof(bed.attr);
        EXPECT_STATUS(bed.control.query(bed.rnic, &bed.attr), RI_OK);
        bed_choose_connection();
        bed_lanes();
        EXPECT_STATUS(bed.control.pd_create(bed.rnic, NULL, &bed.pd), RI_OK);
        pair(&a, &b, NULL);
        node_destroy(&a);
        node_destroy(&b);
        EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_OK);
        close_rnic(i % 2);
    }
    EXPECT(open_files() == before, "%d cycles leave %d descriptors open", CYCLES - 2,
           (int)(open_files() - before));
    EXPECT(!fake_lane_watches(&bed.lane), "%u descriptors are still watched after close",
           fake_lane_watches(&bed.lane));
    EXPECT(!fake_lane_timers(&bed.lane), "%u timers are still set after close",
           fake_lane_timers(&bed.lane));
    EXPECT(!bed.pins, "%d pins are left after close", bed.pins);
}

static void close_is_busy(void)
{
    bed_open();
    EXPECT_STATUS(bed.control.close(bed.rnic, false), RI_ERR_BUSY);
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_OK);
    close_rnic(false);
}

/* Objects that belong to no PD. */
static void begin_without_pd(void)
{
    bed_open();
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_OK);
}

static void close_refuses(const char *what)
{
    enum ri_status status = bed.control.close(bed.rnic, false);

    EXPECT(status == RI_ERR_BUSY, "close answers %s while a %s is there", ri_status_name(status),
           what);
}

static void close_sees_cq(void)
{
    static struct cq_seen seen;
    struct ri_cq *cq;

    begin_without_pd();
    cq = make_cq(4, &seen);
    close_refuses("CQ");
    EXPECT_STATUS(bed.control.cq_destroy(cq), RI_OK);
    close_rnic(false);
}

static void close_sees_listener(void)
{
    struct sockaddr_storage own, bound;
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (struct sockaddr *)&own,
                                           .backlog = 1 };
    struct ri_listener *listener;

    begin_without_pd();
    bed_need(RI_FEATURE_CONNECTION_SET_A, "RI_FEATURE_CONNECTION_SET_A");
    bed_port_address(&own);
    EXPECT_STATUS(bed.control.listen(bed.rnic, &param, &bed, &bound, &listener), RI_OK);
    close_refuses("listener");
    EXPECT_STATUS(bed.control.listen_destroy(listener), RI_OK);
    close_rnic(false);
}

static void close_sees_connection(void)
{
    struct ri_connection *connection;

    begin_without_pd();
    bed_need(RI_FEATURE_CONNECTION_SET_A, "RI_FEATURE_CONNECTION_SET_A");
    EXPECT_STATUS(bed.control.connection_create(bed.rnic, &bed, &connection), RI_OK);
    close_refuses("connection");
    EXPECT_STATUS(bed.control.connection_destroy(connection), RI_OK);
    close_rnic(false);
}

/* ---- attributes ---- */

static const struct {
    const char *name;
    size_t at;
} counts[] = {
#define COUNT(member)                                  \
    {                                                  \
#member, offsetof(struct ri_rnic_attr, member) \
    }
    COUNT(max_pd),       COUNT(max_cq),       COUNT(max_qp),        COUNT(max_mr),
    COUNT(max_cqe),      COUNT(max_send_wr),  COUNT(max_recv_wr),   COUNT(max_send_sge),
    COUNT(max_recv_sge), COUNT(max_read_sge), COUNT(max_write_sge), COUNT(ports),
    COUNT(lanes),        COUNT(max_ird),      COUNT(max_ord),
};

static void attributes_are_set(void)
{
    bed_open();
    EXPECT(bed.attr.transport == RI_TRANSPORT_IWARP ||
               bed.attr.transport == RI_TRANSPORT_INFINIBAND,
           "transport is %d", (int)bed.attr.transport);
    EXPECT(bed.attr.max_mr_length && bed.attr.max_message && bed.attr.max_send,
           "max_mr_length, max_message or max_send is 0");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t value;

        memcpy(&value, (const char *)&bed.attr + counts[i].at, sizeof(value));
        EXPECT(value, "%s is 0", counts[i].name);
    }
    EXPECT(memchr(bed.attr.firmware, '\0', sizeof(bed.attr.firmware)),
           "firmware is not NUL terminated");
}

static void has_connection_verbs(void)
{
    bed_open();
    EXPECT(bed.attr.features &
               (RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_QP_NUMBERS),
           "features has neither set of connection verbs, nor numbers");
}

static void has_its_operations(void)
{
    const char *missing;

    bed_open();
    missing = ri_missing_operation(bed.provider->privileged, bed.provider->user, bed.attr.features);
    EXPECT(!missing, "its features need %s, which it does not have", missing);
}

static void attributes_agree(void)
{
    bed_open();
    EXPECT(!(bed.attr.features & RI_FEATURE_SRQ) == !bed.attr.max_srq,
           "RI_FEATURE_SRQ and max_srq %u disagree", bed.attr.max_srq);
    EXPECT(!(bed.attr.features & (RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE)) == !bed.attr.max_mw,
           "the features of windows and max_mw %u disagree", bed.attr.max_mw);
    EXPECT(!(bed.attr.features & RI_FEATURE_UD) == !bed.attr.max_ah,
           "RI_FEATURE_UD and max_ah %u disagree", bed.attr.max_ah);
    EXPECT(!(bed.attr.features & RI_FEATURE_MULTICAST) == !bed.attr.max_multicast_groups &&
               !bed.attr.max_multicast_groups == !bed.attr.max_multicast_qps,
           "RI_FEATURE_MULTICAST, max_multicast_groups %u and max_multicast_qps %u disagree",
           bed.attr.max_multicast_groups, bed.attr.max_multicast_qps);
    EXPECT(!(bed.attr.features & RI_FEATURE_READ_MULTI_SGE) == (bed.attr.max_read_sge == 1),
           "RI_FEATURE_READ_MULTI_SGE and max_read_sge %u disagree", bed.attr.max_read_sge);
    EXPECT(bed.attr.connect_private_data <= RI_MAX_PRIVATE_DATA &&
               bed.attr.accept_private_data <= RI_MAX_PRIVATE_DATA &&
               bed.attr.reject_private_data <= RI_MAX_PRIVATE_DATA &&
               bed.attr.disconnect_private_data <= RI_MAX_PRIVATE_DATA &&
               bed.attr.service_request_private_data <= RI_MAX_PRIVATE_DATA &&
               bed.attr.service_reply_private_data <= RI_MAX_PRIVATE_DATA,
           "more private data than RI_MAX_PRIVATE_DATA");
    EXPECT(memchr(bed.attr.wire, '\0', sizeof(bed.attr.wire)) &&
               memchr(bed.attr.firmware, '\0', sizeof(bed.attr.firmware)) &&
               memchr(bed.attr.pci_address, '\0', sizeof(bed.attr.pci_address)),
           "wire, firmware or pci_address is not NUL terminated");
    EXPECT(!(bed.attr.features & RI_FEATURE_DMA_PINS) || bed.attr.features & RI_FEATURE_DMA,
           "{dma-pins} RI_FEATURE_DMA_PINS without RI_FEATURE_DMA");
}

/* A page that cannot be written lies behind an older host's structure. */
static void *before_a_wall(size_t size)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    EXPECT(pages != MAP_FAILED && !mprotect(pages + 4096, 4096, PROT_NONE), "no memory");
    return pages + 4096 - size;
}

static void query_keeps_size(void)
{
    const uint32_t size = offsetof(struct ri_rnic_attr, max_ud_send);
    struct ri_rnic_attr *old;

    bed_open();
    old = before_a_wall(size);
    old->size = size;
    EXPECT_STATUS(bed.control.query(bed.rnic, old), RI_OK);
    EXPECT(old->size == size, "query changes the caller's size");
    EXPECT(old->max_send == bed.attr.max_send, "query leaves out what fits");
}

static void port_is_described(void)
{
    struct ri_address *none = before_a_wall(0);
    struct ri_port_attr attr = { .size = sizeof(attr), .addresses = none };

    bed_open();
    EXPECT_STATUS(bed.control.query_port(bed.rnic, &attr), RI_OK);
    EXPECT(attr.mtu, "mtu is 0");
    EXPECT(memchr(attr.name, '\0', sizeof(attr.name)), "name is not NUL terminated");
    attr.port = bed.attr.ports;
    EXPECT_STATUS(bed.control.query_port(bed.rnic, &attr), RI_ERR_INVALID_ARGUMENT);
}

static void lanes_end(void)
{
    struct ri_lane *lane = NULL;

    bed_open();
    EXPECT(bed.control.lane_open(bed.rnic, bed.attr.lanes, &bed.lane, &lane) != RI_OK && !lane,
           "lane_open takes an index beyond lanes");
}

static void counters_are_named(void)
{
    const char *names[512] = { NULL };
    uint64_t values[512];
    size_t count = 0, more;
    enum ri_status status;

    bed_open();
    status = bed.control.rnic_counters(bed.rnic, names, values, &count);
    if (status == RI_ERR_NOT_SUPPORTED)
        check_skip("the provider has no rnic_counters");
    EXPECT(status == RI_OK, "rnic_counters with no room answers %s", ri_status_name(status));
    more = 512;
    EXPECT_STATUS(bed.control.rnic_counters(bed.rnic, names, values, &more), RI_OK);
    EXPECT(more == count, "*count is %zu with room, and was %zu without", more, count);
    for (size_t i = 0; i < more && i < 512; i++)
        EXPECT(names[i], "counter %zu has no name", i);
}

const struct check open_checks[] = {
    { "enumerate", "enumerate", "each device has a name, or a reason", enumerates, 0, NULL },
    { "enumerate-time", "enumerate", "enumeration takes no more than two seconds", enumerates_soon,
      0, NULL },
    { "open", "object-head", "RNIC and lane begin with the tables and contexts that were given",
      opens, 0, NULL },
    { "open-unknown", "open", "a device that is not there is refused; nothing is written",
      refuses_unknown_device, 0, NULL },
    { "close-busy", "close", "close refuses while a PD is there", close_is_busy, 0, NULL },
    { "close-cq", "close", "close refuses while a CQ is there", close_sees_cq, 0, NULL },
    { "close-listener", "close", "close refuses while something listens", close_sees_listener, 0,
      NULL },
    { "close-connection", "close", "close refuses while a connection is there",
      close_sees_connection, 0, NULL },
    { "close-leaks", "close", "open, connect, close leaves no descriptor, watch, timer, pin",
      leaves_nothing, 30, NULL },
    { "attr-nonzero", "attr-nonzero", "what is not optional is not 0", attributes_are_set, 0,
      NULL },
    { "attr-connection", "smallest", "there is a set of connection verbs", has_connection_verbs, 0,
      NULL },
    { "attr-operations", "smallest", "each feature has its operations", has_its_operations, 0,
      NULL },
    { "attr-limits", "limits", "limits and features agree", attributes_agree, 0, NULL },
    { "query-size", "abi-size", "query writes no more than the caller's size", query_keeps_size, 0,
      NULL },
    { "query-port", "port", "a port is described without room for addresses; no other is there",
      port_is_described, 0, NULL },
    { "lane-index", "lane-open", "there is no lane beyond the last", lanes_end, 0, NULL },
    { "counters", "counters", "counters have names, and the same number each time",
      counters_are_named, 0, NULL },
    { .name = NULL },
};
