/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider for the tests of kal: objects without any transport. ITAL_TEST_VP holds words that
 * switch its behaviour, see has(). The files in broken/ include it with macros that make its
 * descriptor invalid.
 */
#include "rnicpi.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifndef VP_NAME
#define VP_NAME "test"
#endif
#ifndef VP_DEVICE
#define VP_DEVICE VP_NAME
#endif
#ifndef VP_MINOR
#define VP_MINOR RI_ABI_MINOR
#endif
#ifndef VP_OPS_SIZE
#define VP_OPS_SIZE sizeof(struct ri_privileged_ops)
#endif

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    _Atomic uint64_t alive; /* objects */
    unsigned closes;
    struct ri_lane *lane;
};

/* Every object: the head that rnicpi.h prescribes, and its RNIC. */
struct object {
    const void *ops;
    void *context;
    struct rnic *rnic;
};

/* Words: nodevice, unusable, two, enumfail, openfail, queryfail, nosets, nolanes, dma, shared,
 * ports2, netdev, netdevs, anynetdev, pdfail, cqfail, qpfail, srqfail, mrfail, mwfail, ahfail, busy
 * (destroys refuse), closeagain (once). */
static bool has(const char *word)
{
    const char *words = getenv("ITAL_TEST_VP");
    size_t length = strlen(word);

    for (; words && *words; words += strcspn(words, ","), words += *words == ',')
        if (!strncmp(words, word, length) && (!words[length] || words[length] == ','))
            return true;
    return false;
}

static enum ri_status make(struct rnic *rnic, const void *ops, void *context, const char *fail,
                           void **out)
{
    struct object *object;

    if (has(fail))
        return RI_ERR_LIMIT;
    object = calloc(1, sizeof(*object));
    if (!object)
        return RI_ERR_NO_RESOURCES;
    object->ops = ops;
    object->context = context;
    object->rnic = rnic;
    rnic->alive++;
    *out = object;
    return RI_OK;
}

static enum ri_status gone(void *any)
{
    struct object *object = any;

    if (has("busy"))
        return RI_ERR_BUSY;
    object->rnic->alive--;
    free(object);
    return RI_OK;
}

static struct rnic *rnic_of(void *any)
{
    return ((struct object *)any)->rnic;
}

static enum ri_status test_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    struct ri_device device = { .size = sizeof(device),
                                .name = VP_DEVICE,
                                .transport = RI_TRANSPORT_IWARP,
                                .usable = !has("unusable") };

    (void)host;
#ifdef VP_BEFORE_DEVICES
    VP_BEFORE_DEVICES;
#endif
    if (has("enumfail"))
        return RI_ERR_DEVICE;
    if (has("enumshort"))
        return RI_ERR_NO_RESOURCES;
    if (has("nodevice"))
        return RI_OK;
    if (!device.usable) {
        device.reason = "its cable is out";
        device.advice = "plug it in";
    }
    found(arg, &device);
    if (has("two")) {
        device.name = VP_DEVICE "-second";
        found(arg, &device);
    }
    return RI_OK;
}

static enum ri_status test_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic;

    if (has("openfail"))
        return RI_ERR_PERMISSION;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base.ops = open->privileged;
    rnic->base.context = open->context;
    rnic->host = open->host;
    rnic->user = open->user;
    *out = &rnic->base;
    return RI_OK;
}

static enum ri_status test_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = (struct rnic *)base;

    if (rnic->alive)
        return RI_ERR_BUSY;
    if (!force && has("closeagain") && !rnic->closes++)
        return RI_ERR_AGAIN;
    free(rnic->lane);
    free(rnic);
    return RI_OK;
}

static enum ri_status test_query(struct ri_rnic *rnic, struct ri_rnic_attr *attr)
{
    (void)rnic;
    if (has("queryfail"))
        return RI_ERR_DEVICE;
    *attr = (struct ri_rnic_attr){
        .size = sizeof(*attr),
        .transport = RI_TRANSPORT_IWARP,
        .features = (has("nosets") ? 0 : RI_FEATURE_CONNECTION_SET_B) |
                    (has("dma") ? RI_FEATURE_DMA : 0) |
                    (has("devicepins") ? RI_FEATURE_DMA | RI_FEATURE_DMA_PINS : 0) |
                    (has("shared") ? RI_FEATURE_SHARED_MR : 0),
        .max_mr_length = 1 << 20,
        .max_pd = 10,
        .max_cq = 10,
        .max_qp = 10,
        .max_mr = 10,
        .max_cqe = has("nodepth") ? 0 : 100,
        .max_send_wr = 10,
        .max_send_sge = 2,
        .ports = has("portsmany") ? UINT32_MAX
                 : has("ports2")  ? 2
                                  : 1,
        .lanes = has("nolanes") ? 0 : 1,
    };
    return RI_OK;
}

static enum ri_status test_query_port(struct ri_rnic *rnic, struct ri_port_attr *attr)
{
    struct sockaddr_storage lo = { .ss_family = AF_INET };

    (void)rnic;
    attr->online = true;
    strcpy(attr->name, has("netdevs")     ? "none0 lo"
                       : has("anynetdev") ? "any"
                       : has("netdev")    ? "lo"
                                          : "no such netdev");
    attr->address_count = 1;
    memcpy((char *)&lo + 4, attr->port ? "\xc0\x00\x02\x01" : "\x7f\x00\x00\x01", 4);
    if (attr->address_capacity)
        attr->addresses[0].sockaddr = lo;
    return RI_OK;
}

static enum ri_status test_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                     struct ri_lane **lane)
{
    struct rnic *rnic = (struct rnic *)base;

    (void)index;
    rnic->lane = calloc(1, sizeof(*rnic->lane));
    if (!rnic->lane)
        return RI_ERR_NO_RESOURCES;
    rnic->lane->ops = rnic->user;
    rnic->lane->context = context;
    *lane = rnic->lane;
    return RI_OK;
}

static enum ri_status test_pd_create(struct ri_rnic *rnic, void *context, struct ri_pd **pd)
{
    return make((struct rnic *)rnic, rnic->ops, context, "pdfail", (void **)pd);
}

static enum ri_status test_pd_destroy(struct ri_pd *pd)
{
    return gone(pd);
}

static enum ri_status test_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                     struct ri_cq **cq)
{
    struct rnic *rnic = (struct rnic *)base;

    return make(rnic, rnic->user, attr->context, "cqfail", (void **)cq);
}

/* Not a resize: makes the CQ's upcalls. */
static enum ri_status test_cq_resize(struct ri_cq *cq, uint32_t *depth)
{
    const struct ri_host *host = rnic_of(cq)->host;
    struct ri_event event = { .size = sizeof(event), .type = RI_EVENT_CQ_OVERFLOW };

    (void)depth;
    host->cq_event(host, cq->context);
    host->cq_error(host, cq->context, &event);
    return RI_OK;
}

static enum ri_status test_cq_destroy(struct ri_cq *cq)
{
    return gone(cq);
}

static enum ri_status test_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
{
    return make(rnic_of(pd), rnic_of(pd)->user, attr->context, "qpfail", (void **)qp);
}

/* Makes the QP's and the RNIC's upcalls. */
static enum ri_status test_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify)
{
    struct rnic *rnic = rnic_of(qp);
    struct ri_event event = { .size = sizeof(event), .type = RI_EVENT_QP_FATAL };

    (void)modify;
    rnic->host->qp_event(rnic->host, qp->context, &event);
    event.type = RI_EVENT_RNIC_FATAL;
    rnic->host->rnic_event(rnic->host, rnic->base.context, &event);
    return RI_OK;
}

static enum ri_status test_qp_destroy(struct ri_qp *qp)
{
    return gone(qp);
}

static enum ri_status test_srq_create(struct ri_pd *pd, struct ri_srq_attr *attr,
                                      struct ri_srq **srq)
{
    return make(rnic_of(pd), rnic_of(pd)->user, attr->context, "srqfail", (void **)srq);
}

static enum ri_status test_srq_modify(struct ri_srq *srq, uint32_t mask,
                                      const struct ri_srq_attr *attr)
{
    const struct ri_host *host = rnic_of(srq)->host;
    struct ri_event event = { .size = sizeof(event), .type = RI_EVENT_SRQ_LIMIT_REACHED };

    (void)mask;
    (void)attr;
    host->srq_event(host, srq->context, &event);
    return RI_OK;
}

static enum ri_status test_srq_destroy(struct ri_srq *srq)
{
    return gone(srq);
}

static enum ri_status test_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                       struct ri_mr_keys *keys, struct ri_mr **mr)
{
    enum ri_status status = make(rnic_of(pd), pd->ops, attr->context, "mrfail", (void **)mr);

    if (status == RI_OK)
        *keys = (struct ri_mr_keys){ .lkey = 0x1200, .rkey = attr->shared ? 0x1207 : 0x1201 };
    return status;
}

static enum ri_status test_mr_reregister(struct ri_mr *mr, struct ri_pd *pd,
                                         const struct ri_mr_attr *attr, struct ri_mr_keys *keys)
{
    (void)mr;
    (void)pd;
    (void)attr;
    keys->lkey = 0x1300;
    return has("mrfail") ? RI_ERR_ACCESS : RI_OK;
}

static enum ri_status test_mr_deregister(struct ri_mr *mr)
{
    return gone(mr);
}

#ifndef VP_SHORT
static enum ri_status test_mw_allocate(struct ri_pd *pd, bool narrow, void *context, uint32_t *stag,
                                       struct ri_mw **mw)
{
    enum ri_status status = make(rnic_of(pd), pd->ops, context, "mwfail", (void **)mw);

    (void)narrow;
    if (status == RI_OK)
        *stag = 0x1400;
    return status;
}

static enum ri_status test_mw_free(struct ri_mw *mw)
{
    return gone(mw);
}

static enum ri_status test_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr,
                                     struct ri_ah **ah)
{
    return make(rnic_of(pd), pd->ops, attr->context, "ahfail", (void **)ah);
}

static enum ri_status test_ah_destroy(struct ri_ah *ah)
{
    return gone(ah);
}

static enum ri_status test_rnic_counters(struct ri_rnic *base, const char **names, uint64_t *values,
                                         size_t *count)
{
    if (*count) {
        names[0] = "alive";
        values[0] = ((struct rnic *)base)->alive;
    }
    *count = 1;
    return RI_OK;
}
#endif

/* A provider of a newer minor has a longer table; one of an older minor a shorter. */
static const struct {
    struct ri_privileged_ops ops;
    void *newer[3];
} privileged = { .ops = {
                     .size = VP_OPS_SIZE,
                     .abi_major = RI_ABI_MAJOR,
                     .abi_minor = VP_MINOR,
                     .enumerate = test_enumerate,
                     .open = test_open,
                     .close = test_close,
                     .query = test_query,
                     .query_port = test_query_port,
                     .lane_open = test_lane_open,
                     .pd_create = test_pd_create,
                     .pd_destroy = test_pd_destroy,
                     .cq_create = test_cq_create,
                     .cq_resize = test_cq_resize,
                     .cq_destroy = test_cq_destroy,
                     .qp_create = test_qp_create,
                     .qp_modify = test_qp_modify,
                     .qp_destroy = test_qp_destroy,
                     .srq_create = test_srq_create,
                     .srq_modify = test_srq_modify,
                     .srq_destroy = test_srq_destroy,
                     .mr_register = test_mr_register,
                     .mr_reregister = test_mr_reregister,
                     .mr_deregister = test_mr_deregister,
#ifndef VP_SHORT
                     .mw_allocate = test_mw_allocate,
                     .mw_free = test_mw_free,
                     .ah_create = test_ah_create,
                     .ah_destroy = test_ah_destroy,
                     .rnic_counters = test_rnic_counters,
#endif
                 } };

static const struct ri_user_ops user = {
    .size = sizeof(user),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = VP_MINOR,
};

#ifndef VP_NO_OPTIONS
static const struct ri_option options[] = {
    { "depth", "int", "7", "", "A number." },
    { "buffer", "size", "64k", "octets", "A size." },
    RI_OPTION_DEFAULT("close_timeout", "10s"),
    { "mode", "enum: fast|safe", "safe", "", "A choice." },
    { "file", "path", "/dev/null", "", "A file." },
};
#endif

RI_PROVIDER(vp_test) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = VP_MINOR,
    .name = VP_NAME,
    .description = "objects without a transport, for tests",
    .version = "1",
    .privileged = &privileged.ops,
    .user = &user,
#ifndef VP_NO_OPTIONS
    .options = options,
    .option_count = sizeof(options) / sizeof(*options),
#endif
};
