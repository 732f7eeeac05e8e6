/* SPDX-License-Identifier: BSD-3-Clause */
/* PDs, CQs, QPs, regions, windows, SRQs: what is created, limits, what is in use. */
#include "bed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KEYS 512u

static char place; /* the context of objects */

/* ---- PD ---- */

static void pd_head(void)
{
    struct ri_pd *pd;

    bed_open();
    EXPECT_STATUS(bed.control.pd_create(bed.rnic, &place, &pd), RI_OK);
    EXPECT(pd->context == &place && pd->ops == &bed.lent_control,
           "ri_pd begins with something else");
    EXPECT_STATUS(bed.control.pd_destroy(pd), RI_OK);
}

static void pd_busy(void)
{
    struct node node;

    bed_open();
    node_create(&node, NULL);
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_ERR_BUSY);
    EXPECT_STATUS(bed.control.qp_destroy(node.qp), RI_OK);
    node.qp = NULL;
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_ERR_BUSY); /* the region */
    node_destroy(&node);
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_OK);
}

/* ---- CQ ---- */

static void cq_head(void)
{
    struct cq_seen seen = { .fired = 0 };
    struct ri_cq *cq;

    bed_open();
    cq = make_cq(7, &seen);
    EXPECT(cq->context == &seen && cq->ops == &bed.lent_data, "ri_cq begins with something else");
    EXPECT_STATUS(bed.control.cq_destroy(cq), RI_OK);
}

static void cq_limit(void)
{
    struct ri_cq *cq = (struct ri_cq *)&place;
    struct ri_cq_attr attr = { .size = sizeof(attr) };

    bed_open();
    if (bed.attr.max_cqe == UINT32_MAX)
        check_skip("max_cqe has no beyond");
    attr.depth = bed.attr.max_cqe + 1;
    EXPECT_STATUS(bed.control.cq_create(bed.rnic, &attr, &cq), RI_ERR_LIMIT);
    EXPECT(cq == (struct ri_cq *)&place, "cq_create writes *cq although it fails");
    attr.depth = bed.attr.max_cqe;
    EXPECT_STATUS(bed.control.cq_create(bed.rnic, &attr, &cq), RI_OK);
}

static void cq_busy(void)
{
    struct node node;

    bed_open();
    node_create(&node, NULL);
    EXPECT_STATUS(bed.control.cq_destroy(node.send_cq), RI_ERR_BUSY);
    EXPECT_STATUS(bed.control.cq_destroy(node.recv_cq), RI_ERR_BUSY);
    node_destroy(&node);
}

static void cq_resizes(void)
{
    uint32_t depth = 64;
    struct node node;

    bed_open();
    bed_need(RI_FEATURE_CQ_RESIZE, "RI_FEATURE_CQ_RESIZE");
    node_create(&node, NULL);
    EXPECT_STATUS(bed.control.cq_resize(node.recv_cq, &depth), RI_OK);
    EXPECT(depth >= 64, "cq_resize to 64 gives %u", depth);
    for (uint32_t i = 0; i < 8; i++)
        do_recv(&node, i, 0, 8);
    EXPECT_STATUS(node_modify(&node, RI_QPS_ERROR), RI_OK); /* eight flushed */
    depth = 2;
    EXPECT_STATUS(bed.control.cq_resize(node.recv_cq, &depth), RI_ERR_BUSY);
    for (uint32_t i = 0; i < 8; i++)
        expect_wc(node.recv_cq, &node, i, RI_WC_RECV, RI_WC_FLUSHED);
}

/* ---- QP ---- */

static void qp_head(void)
{
    struct node node;

    bed_open();
    node_create(&node, NULL);
    EXPECT(node.qp->context == &node && node.qp->ops == &bed.lent_data,
           "ri_qp begins with something else");
    node_destroy(&node);
}

static void qp_gives(void)
{
    const struct node_want want = { .depth = 5, .sges = 2 };
    struct ri_qp_info info = { .size = sizeof(info) };
    struct node node;

    bed_open();
    node_create(&node, &want);
    EXPECT(node.attr.max_send_wr >= 5 && node.attr.max_recv_wr >= 5,
           "qp_create gives %u and %u requests, asked were 5", node.attr.max_send_wr,
           node.attr.max_recv_wr);
    EXPECT_STATUS(bed.control.qp_query(node.qp, &info), RI_OK);
    EXPECT(info.size == sizeof(info), "qp_query changes the caller's size");
    EXPECT(info.max_send_wr >= 5 && info.max_recv_wr >= 5 && info.max_send_sge && info.max_recv_sge,
           "qp_query has max_send_wr %u, max_recv_wr %u, max_send_sge %u, max_recv_sge %u",
           info.max_send_wr, info.max_recv_wr, info.max_send_sge, info.max_recv_sge);
    EXPECT(info.state == RI_QPS_IDLE, "a new QP is in state %d", (int)info.state);
}

static const struct {
    const char *name;
    size_t limit, asked;
} beyond[] = {
#define LIMITED(member)                                                                     \
    {                                                                                       \
#member, offsetof(struct ri_rnic_attr, member), offsetof(struct ri_qp_attr, member) \
    }
    LIMITED(max_send_wr),  LIMITED(max_recv_wr),   LIMITED(max_send_sge), LIMITED(max_recv_sge),
    LIMITED(max_read_sge), LIMITED(max_write_sge), LIMITED(max_inline),
};

static void qp_limits(void)
{
    struct node node;

    bed_open();
    node_create(&node, NULL);
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        struct ri_qp *qp = (struct ri_qp *)&place;
        struct ri_qp_attr attr = node.attr;
        enum ri_status status;
        uint32_t value;

        memcpy(&value, (const char *)&bed.attr + beyond[i].limit, sizeof(value));
        if (value == UINT32_MAX)
            continue;
        value++;
        memcpy((char *)&attr + beyond[i].asked, &value, sizeof(value));
        status = bed.control.qp_create(bed.pd, &attr, &qp);
        EXPECT(status == RI_ERR_LIMIT, "qp_create with %s %u, one beyond the limit, answers %s",
               beyond[i].name, value, ri_status_name(status));
        EXPECT(qp == (struct ri_qp *)&place, "qp_create writes *qp although it fails");
    }
}

static void qp_at_limits(void)
{
    struct ri_qp_attr attr;
    enum ri_status status;
    struct node node;
    struct ri_qp *qp;

    bed_open();
    node_create(&node, NULL);
    attr = node.attr;
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++)
        memcpy((char *)&attr + beyond[i].asked, (const char *)&bed.attr + beyond[i].limit,
               sizeof(uint32_t));
    attr.ird = bed.attr.max_ird;
    attr.ord = bed.attr.max_ord;
    status = bed.control.qp_create(bed.pd, &attr, &qp);
    EXPECT(status == RI_OK, "qp_create with every stated maximum answers %s",
           ri_status_name(status));
}

static void qp_depth_limits(void)
{
    struct ri_qp *qp = (struct ri_qp *)&place;
    struct ri_qp_attr attr;
    struct node node;

    bed_open();
    node_create(&node, NULL);
    attr = node.attr;
    attr.ird = bed.attr.max_ird + 1;
    EXPECT_STATUS(bed.control.qp_create(bed.pd, &attr, &qp), RI_ERR_LIMIT);
    attr = node.attr;
    attr.ord = bed.attr.max_ord + 1;
    EXPECT_STATUS(bed.control.qp_create(bed.pd, &attr, &qp), RI_ERR_LIMIT);
}

/* ---- regions ---- */

static enum ri_status register_as(void *addr, uint64_t length, uint32_t access,
                                  struct ri_mr_keys *keys, struct ri_mr **mr)
{
    const struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = access, .context = &place, .addr = addr, .length = length
    };

    *mr = (struct ri_mr *)&place;
    return register_region(bed.pd, &attr, keys, mr);
}

static uint8_t octets[8192];

static void mr_head(void)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    bed_open();
    EXPECT_STATUS(register_as(octets, 100, RI_ACCESS_LOCAL_READ, &keys, &mr), RI_OK);
    EXPECT(mr->context == &place && mr->ops == &bed.lent_control,
           "ri_mr begins with something else");
    EXPECT(keys.lkey, "lkey is 0");
    EXPECT(!keys.rkey, "rkey is not 0 although no remote right was asked for");
    EXPECT_STATUS(bed.control.mr_deregister(mr), RI_OK);
    EXPECT_STATUS(register_as(octets, 100, all_access(), &keys, &mr), RI_OK);
    EXPECT(keys.rkey, "rkey is 0 although remote rights were asked for");
}

static void mr_rights(void)
{
    static const uint32_t wrong[] = { RI_ACCESS_REMOTE_WRITE | RI_ACCESS_LOCAL_READ,
                                      RI_ACCESS_REMOTE_READ | RI_ACCESS_LOCAL_WRITE };
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    bed_open();
    for (int i = 0; i < 2; i++) {
        enum ri_status status = register_as(octets, 100, wrong[i], &keys, &mr);

        EXPECT(status == RI_ERR_INVALID_ARGUMENT,
               "mr_register with remote %s without the local right answers %s",
               i ? "read" : "write", ri_status_name(status));
        EXPECT(mr == (struct ri_mr *)&place, "mr_register writes *mr although it fails");
    }
}

static void open_without_pins(void)
{
    bed_open();
    if (host_pins())
        check_skip("the provider has RI_FEATURE_DMA: the host pins, and finds this before");
}

static void mr_memory(void)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    char *pages;

    open_without_pins();
    pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED && !munmap(pages + 4096, 4096), "no memory");
    EXPECT_STATUS(register_as(pages, 3 * 4096, RI_ACCESS_LOCAL_READ, &keys, &mr), RI_ERR_ADDRESS);
}

static void mr_protected(void)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    char *pages;

    open_without_pins();
    pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED && !mprotect(pages + 4096, 4096, PROT_READ), "no memory");
    EXPECT_STATUS(register_as(pages, 3 * 4096, RI_ACCESS_LOCAL_READ, &keys, &mr), RI_OK);
    EXPECT_STATUS(
        register_as(pages, 3 * 4096, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE, &keys, &mr),
        RI_ERR_ACCESS);
}

static void mr_limit(void)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    enum ri_status status;

    bed_open();
    if (bed.attr.max_mr_length > UINT64_MAX / 2)
        check_skip("max_mr_length is beyond every address space");
    status = bed.control.mr_register(bed.pd,
                                     &(struct ri_mr_attr){ .size = sizeof(struct ri_mr_attr),
                                                           .access = RI_ACCESS_LOCAL_READ,
                                                           .addr = octets,
                                                           .length = bed.attr.max_mr_length + 1 },
                                     &keys, &mr);
    EXPECT(status == RI_ERR_LIMIT || status == RI_ERR_ADDRESS,
           "mr_register beyond max_mr_length answers %s", ri_status_name(status));
}

static int compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void make_keys(uint32_t keys[KEYS])
{
    struct ri_mr *mr;

    bed_open();
    if (bed.attr.max_mr < KEYS)
        check_skip("max_mr is below %u", KEYS);
    for (unsigned int i = 0; i < KEYS; i++) {
        struct ri_mr_keys got;

        EXPECT_STATUS(register_as(octets, 8192, RI_ACCESS_LOCAL_READ, &got, &mr), RI_OK);
        keys[i] = got.lkey;
    }
}

static void keys_differ(void)
{
    uint32_t keys[KEYS];

    make_keys(keys);
    for (unsigned int i = 0; i < KEYS; i++)
        keys[i] &= ~UINT32_C(0xff);
    qsort(keys, KEYS, sizeof(keys[0]), compare);
    for (unsigned int i = 1; i < KEYS; i++)
        EXPECT(keys[i] != keys[i - 1], "two regions have lkeys of the same upper 24 bits, 0x%x",
               keys[i] >> 8);
}

/* Which key follows must not be known from those before: no step is frequent. */
static void keys_are_random(void)
{
    uint32_t keys[KEYS], steps[KEYS - 1];
    unsigned int run = 1, longest = 1;

    make_keys(keys);
    for (unsigned int i = 1; i < KEYS; i++)
        steps[i - 1] = keys[i] - keys[i - 1];
    qsort(steps, KEYS - 1, sizeof(steps[0]), compare);
    for (unsigned int i = 1; i < KEYS - 1; i++) {
        run = steps[i] == steps[i - 1] ? run + 1 : 1;
        longest = run > longest ? run : longest;
    }
    EXPECT(longest < KEYS / 8, "%u of %u lkeys differ from the one before by the same amount",
           longest, KEYS - 1);
}

static void mr_changes(void)
{
    const struct ri_mr_attr attr = { .size = sizeof(attr),
                                     .access = RI_ACCESS_LOCAL_READ,
                                     .context = &place,
                                     .addr = octets,
                                     .length = 100 };
    struct ri_mr_keys keys, other;
    enum ri_status status;
    struct ri_mr *mr;

    bed_open();
    EXPECT_STATUS(register_as(octets, 100, all_access(), &keys, &mr), RI_OK);
    status = bed.control.mr_reregister(mr, NULL, &attr, &other);
    if (status == RI_ERR_NOT_SUPPORTED)
        check_skip("the provider has no mr_reregister");
    EXPECT(status == RI_OK, "mr_reregister answers %s", ri_status_name(status));
    EXPECT(keys.lkey != other.lkey, "mr_reregister leaves the lkey as it was");
    EXPECT(!other.rkey, "rkey is not 0 although no remote right was asked for");
}

static void mr_keeps_keys(void)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_KEEP_KEYS,
                               .context = &place,
                               .addr = octets,
                               .length = 100 };
    struct ri_mr_keys keys, other = { 0, 1 };
    struct ri_mr *mr;

    bed_open();
    bed_need(RI_FEATURE_KEEP_KEYS, "RI_FEATURE_KEEP_KEYS");
    EXPECT_STATUS(register_as(octets, 100, all_access(), &keys, &mr), RI_OK);
    EXPECT(keys.lkey == keys.rkey, "lkey and rkey are two STags");
    EXPECT_STATUS(bed.control.mr_reregister(mr, NULL, &attr, &other), RI_OK);
    EXPECT(keys.lkey == other.lkey, "the lkey is another one");
    EXPECT(!other.rkey, "rkey is not 0 although no remote right was asked for");
    attr.access = all_access() | RI_ACCESS_KEEP_KEYS;
    EXPECT_STATUS(bed.control.mr_reregister(mr, NULL, &attr, &other), RI_OK);
    EXPECT(keys.lkey == other.lkey && keys.rkey == other.rkey, "the keys are others");
    EXPECT_STATUS(bed.control.mr_reregister(mr, bed.pd, &attr, &other), RI_ERR_INVALID_ARGUMENT);
}

/* ---- windows, SRQs ---- */

static void mw_lives(void)
{
    struct ri_mw *mw;
    uint32_t stag = 0;
    bool narrow;

    bed_open();
    narrow = bed.attr.features & RI_FEATURE_MW_NARROW;
    if (!narrow)
        bed_need(RI_FEATURE_MW_WIDE, "windows");
    EXPECT_STATUS(bed.control.mw_allocate(bed.pd, narrow, &place, &stag, &mw), RI_OK);
    EXPECT(mw->context == &place && mw->ops == &bed.lent_control,
           "ri_mw begins with something else");
    EXPECT(stag >> 8, "the window's STag is 0x%x", stag);
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_ERR_BUSY);
    EXPECT_STATUS(bed.control.mw_free(mw), RI_OK);
}

static struct ri_srq *make_srq(struct ri_srq_attr *attr)
{
    struct ri_srq *srq = NULL;

    bed_open();
    bed_need(RI_FEATURE_SRQ, "RI_FEATURE_SRQ");
    *attr = (struct ri_srq_attr){
        .size = sizeof(*attr), .max_wr = 16, .max_sge = 1, .context = &place
    };
    EXPECT_STATUS(bed.control.srq_create(bed.pd, attr, &srq), RI_OK);
    return srq;
}

static void srq_lives(void)
{
    struct ri_srq_attr attr, got = { .size = sizeof(got) };
    struct ri_srq *srq = make_srq(&attr);

    EXPECT(srq->context == &place && srq->ops == &bed.lent_data,
           "ri_srq begins with something else");
    EXPECT(attr.max_wr >= 16 && attr.max_sge >= 1, "srq_create gives %u requests of %u elements",
           attr.max_wr, attr.max_sge);
    EXPECT_STATUS(bed.control.srq_query(srq, &got), RI_OK);
    EXPECT(got.max_wr == attr.max_wr, "srq_query has max_wr %u, given were %u", got.max_wr,
           attr.max_wr);
    EXPECT_STATUS(bed.control.pd_destroy(bed.pd), RI_ERR_BUSY);
    EXPECT_STATUS(bed.control.srq_destroy(srq), RI_OK);
}

static void srq_busy(void)
{
    struct ri_srq_attr attr;
    const struct node_want want = { .srq = make_srq(&attr) };
    struct node node;

    node_create(&node, &want);
    EXPECT_STATUS(bed.control.srq_destroy(want.srq), RI_ERR_BUSY);
    node_destroy(&node);
    EXPECT_STATUS(bed.control.srq_destroy(want.srq), RI_OK);
}

static void srq_limits(void)
{
    struct ri_srq_attr attr;
    struct ri_srq *srq = make_srq(&attr);

    if (bed.attr.max_srq_wr == UINT32_MAX || bed.attr.max_srq_sge == UINT32_MAX)
        check_skip("the limits have no beyond");
    attr = (struct ri_srq_attr){ .size = sizeof(attr),
                                 .max_wr = bed.attr.max_srq_wr + 1,
                                 .max_sge = 1 };
    EXPECT_STATUS(bed.control.srq_create(bed.pd, &attr, &srq), RI_ERR_LIMIT);
    attr.max_wr = 1;
    attr.max_sge = bed.attr.max_srq_sge + 1;
    EXPECT_STATUS(bed.control.srq_create(bed.pd, &attr, &srq), RI_ERR_LIMIT);
}

/* Each round of creation and destruction gives everything back: more rounds than the limits. */
static void objects_come_back(void)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    struct node node;

    bed_open();
    for (int i = 0; i < 300; i++) {
        node_create(&node, NULL);
        node_destroy(&node);
    }
    for (int i = 0; i < 3000; i++) {
        EXPECT_STATUS(register_as(octets, 100, RI_ACCESS_LOCAL_READ, &keys, &mr), RI_OK);
        EXPECT_STATUS(bed.control.mr_deregister(mr), RI_OK);
    }
}

const struct check object_checks[] = {
    { "pd-head", "object-head", "a PD begins with its table and context", pd_head, 0, NULL },
    { "pd-busy", "pd", "a PD in use is not destroyed", pd_busy, 0, NULL },
    { "cq-head", "object-head", "a CQ begins with its table and context", cq_head, 0, NULL },
    { "cq-limit", "cq", "a CQ has at most max_cqe entries, and has so many", cq_limit, 0, NULL },
    { "cq-busy", "cq", "a CQ in use is not destroyed", cq_busy, 0, NULL },
    { "cq-resize", "cq", "a CQ is resized, but not below its content", cq_resizes, 0, NULL },
    { "qp-head", "object-head", "a QP begins with its table and context", qp_head, 0, NULL },
    { "qp-given", "qp-create", "a QP gets what was asked for, and reports it", qp_gives, 0, NULL },
    { "qp-limit", "limits", "a QP beyond a stated maximum is refused", qp_limits, 0, NULL },
    { "qp-maximum", "limits", "a QP with all stated maxima is made", qp_at_limits, 0, NULL },
    { "qp-depths", "limits", "IRD and ORD beyond the limits are refused", qp_depth_limits, 0,
      NULL },
    { "mr-head", "stag", "a region begins with its table and context, and has its keys", mr_head, 0,
      NULL },
    { "mr-rights", "mr", "remote rights need the local ones", mr_rights, 0, NULL },
    { "mr-address", "mr", "memory that is not mapped is refused", mr_memory, 0, NULL },
    { "mr-access", "mr", "memory that cannot be written is refused for writing", mr_protected, 0,
      NULL },
    { "mr-limit", "limits", "a region beyond max_mr_length is refused", mr_limit, 0, NULL },
    { "mr-reregister", "mr-reregister", "another registration has other keys", mr_changes, 0,
      NULL },
    { "mr-keep-keys", "mr-keep-keys", "other rights, the same keys", mr_keeps_keys, 0, NULL },
    { "stag-unique", "stag-unique", "no two regions share the upper 24 bits", keys_differ, 0,
      NULL },
    { "stag-random", "stag-random", "keys do not follow from each other", keys_are_random, 0,
      NULL },
    { "mw", "mw", "a window is made and freed, and uses its PD", mw_lives, 0, NULL },
    { "srq", "srq", "an SRQ gets what was asked for, and uses its PD", srq_lives, 0, NULL },
    { "srq-busy", "srq", "an SRQ in use is not destroyed", srq_busy, 0, NULL },
    { "srq-limit", "limits", "an SRQ beyond a stated maximum is refused", srq_limits, 0, NULL },
    { "objects-return", "owner", "what is destroyed can be made again, without end",
      objects_come_back, 0, NULL },
    { .name = NULL },
};
