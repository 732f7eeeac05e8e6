/* SPDX-License-Identifier: BSD-3-Clause */
/* The stated maxima that are counts: so many objects, and so many requests, and not one more. */
#include "bed.h"

#include <string.h>

#define TRIED 70000u /* objects of a kind; a maximum beyond it is not judged */

static char place; /* the context of objects */
static uint8_t octets[4096];

/* ---- objects ---- */

static struct ri_cq *queue; /* of all QPs here */

static enum ri_status make_pd(void)
{
    struct ri_pd *pd;

    return bed.control.pd_create(bed.rnic, &place, &pd);
}

static enum ri_status make_one_cq(void)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 1, .context = &place };
    struct ri_cq *cq;

    return bed.control.cq_create(bed.rnic, &attr, &cq);
}

static enum ri_status make_qp(void)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = &place,
                               .send_cq = queue,
                               .recv_cq = queue,
                               .lane = bed.lanes[0],
                               .max_send_wr = 1,
                               .max_recv_wr = 1,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .max_read_sge = 1,
                               .max_write_sge = 1 };
    struct ri_qp *qp;

    return bed.control.qp_create(bed.pd, &attr, &qp);
}

static enum ri_status make_mr(void)
{
    const struct ri_mr_attr attr = { .size = sizeof(attr),
                                     .access = RI_ACCESS_LOCAL_READ,
                                     .context = &place,
                                     .addr = octets,
                                     .length = sizeof(octets) };
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    return register_region(bed.pd, &attr, &keys, &mr);
}

static enum ri_status make_mw(void)
{
    struct ri_mw *mw;
    uint32_t stag;

    return bed.control.mw_allocate(bed.pd, bed.attr.features & RI_FEATURE_MW_NARROW, &place, &stag,
                                   &mw);
}

static enum ri_status make_srq(void)
{
    struct ri_srq_attr attr = {
        .size = sizeof(attr), .max_wr = 1, .max_sge = 1, .context = &place
    };
    struct ri_srq *srq;

    return bed.control.srq_create(bed.pd, &attr, &srq);
}

static struct ri_ah_attr way; /* to port 0 itself */

static enum ri_status make_ah(void)
{
    struct ri_ah *ah;

    return bed.control.ah_create(bed.pd, &way, &ah);
}

/* `there`: how many the bed has made. */
static void fill_up(const char *name, uint32_t most, uint32_t there, enum ri_status (*make)(void))
{
    enum ri_status status = RI_OK;
    uint32_t count = there;

    if (!most)
        check_skip("%s is 0", name);
    if (most > TRIED)
        check_skip("%s is %u; up to %u are tried", name, most, TRIED);
    while (count <= most && (status = make()) == RI_OK)
        count++;
    EXPECT(count >= most, "%s is %u, but the one behind %u is refused: %s", name, most, count,
           ri_status_name(status));
    EXPECT(count == most, "%s is %u, but %u can be made", name, most, count);
    EXPECT(status == RI_ERR_LIMIT || status == RI_ERR_NO_RESOURCES,
           "one more than %s, %u, is refused with %s", name, most, ri_status_name(status));
}

static void counts_pds(void)
{
    bed_open();
    fill_up("max_pd", bed.attr.max_pd, 1, make_pd);
}

static void counts_cqs(void)
{
    bed_open();
    fill_up("max_cq", bed.attr.max_cq, 0, make_one_cq);
}

static void counts_qps(void)
{
    static struct cq_seen seen;

    bed_open();
    queue = make_cq(16, &seen);
    fill_up("max_qp", bed.attr.max_qp, 0, make_qp);
}

static void counts_mrs(void)
{
    bed_open();
    fill_up("max_mr", bed.attr.max_mr, 0, make_mr);
}

static void counts_mws(void)
{
    bed_open();
    fill_up("max_mw", bed.attr.max_mw, 0, make_mw);
}

static void counts_srqs(void)
{
    bed_open();
    fill_up("max_srq", bed.attr.max_srq, 0, make_srq);
}

static void counts_ahs(void)
{
    struct ri_port_attr port = { .size = sizeof(port) };

    bed_open();
    bed_need(RI_FEATURE_UD, "RI_FEATURE_UD");
    EXPECT_STATUS(bed.control.query_port(bed.rnic, &port), RI_OK);
    way = (struct ri_ah_attr){ .size = sizeof(way), .hop_limit = 1, .context = &place };
    way.global = port.link_ethernet;
    way.destination_lid = port.lid;
    memcpy(way.destination_gid, port.gid, sizeof(port.gid));
    fill_up("max_ah", bed.attr.max_ah, 0, make_ah);
}

/* ---- requests ---- */

/* A receive queue of the largest size takes so many, and flushes each of them. */
static void fills_longest_queue(void)
{
    const struct node_want want = { .depth = UINT32_MAX / 4 };
    struct ri_wc wc[64];
    uint64_t posted = 0, flushed = 0;
    enum ri_status status;
    struct node node;
    uint32_t got = 0;

    bed_open();
    if (bed.attr.max_cqe < bed.attr.max_recv_wr)
        check_skip("a CQ has less room than the longest queue");
    node_create(&node, &want);
    while (posted < bed.attr.max_recv_wr && (status = try_recv(&node, posted, 0, 8, 0)) == RI_OK)
        posted++;
    EXPECT(posted == bed.attr.max_recv_wr, "max_recv_wr is %u, but the queue takes %llu",
           bed.attr.max_recv_wr, (unsigned long long)posted);
    EXPECT_STATUS(node_modify(&node, RI_QPS_ERROR), RI_OK);
    while (flushed < posted) {
        EXPECT(UNTIL((got = bed.data.poll(node.recv_cq, 64, wc)) > 0, 5000),
               "{end-flush} %llu of %llu requests are flushed", (unsigned long long)flushed,
               (unsigned long long)posted);
        for (uint32_t i = 0; i < got; i++, flushed++)
            EXPECT(wc[i].cookie == flushed && wc[i].status == RI_WC_FLUSHED,
                   "{end-flush} completion %llu has cookie %llu and status %s",
                   (unsigned long long)flushed, (unsigned long long)wc[i].cookie,
                   wc_status_name(wc[i].status));
    }
    expect_none(node.recv_cq, "each request is flushed once");
}

const struct check limit_checks[] = {
    { "pd-count", "limits", "there are max_pd PDs, and no more", counts_pds, 30, NULL },
    { "cq-count", "limits", "there are max_cq CQs, and no more", counts_cqs, 30, NULL },
    { "qp-count", "limits", "there are max_qp QPs, and no more", counts_qps, 60, NULL },
    { "mr-count", "limits", "there are max_mr regions, and no more", counts_mrs, 30, NULL },
    { "mw-count", "limits", "there are max_mw windows, and no more", counts_mws, 30, NULL },
    { "srq-count", "limits", "there are max_srq SRQs, and no more", counts_srqs, 60, NULL },
    { "ah-count", "limits", "there are max_ah address handles, and no more", counts_ahs, 30, NULL },
    { "queue-longest", "limits", "a queue of max_recv_wr takes so many, and flushes each",
      fills_longest_queue, 30, NULL },
    { .name = NULL },
};
