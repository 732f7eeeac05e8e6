/* SPDX-License-Identifier: BSD-3-Clause */
/* kal.h of the fake kal: instance, RNIC, and the objects, which it counts. */
#include "fake_kal_private.h"

#include "tc.h"

static struct kal the_kal;

/* --- kal.h: instance --- */

enum ri_status kal_get(const struct kal_upper *above, struct kal **kal)
{
    pthread_mutex_lock(&fk_lock);
    fk_upper = above;
    fk.kals++;
    pthread_mutex_unlock(&fk_lock);
    *kal = &the_kal;
    return RI_OK;
}

void kal_put(struct kal *kal)
{
    (void)kal;
    fk_gone(&fk.kals);
}

void kal_fork_prepare(void)
{
}

void kal_fork_parent(void)
{
}

void kal_fork_child(void)
{
}

void kal_vlog(enum ri_log_level level, const char *prefix, const char *format, va_list args)
{
    (void)prefix;
    pthread_mutex_lock(&fk_lock);
    vsnprintf(fk.last_line, sizeof(fk.last_line), format, args);
    fk.logged[level]++;
    fprintf(stderr, "log: %s\n", fk.last_line);
    pthread_mutex_unlock(&fk_lock);
}

void kal_log(enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kal_vlog(level, NULL, format, args);
    va_end(args);
}

void kal_option_list(struct kal *kal, kal_option_fn fn, void *arg)
{
    struct kal_option option = { "ital", NULL, { "spin", "time", "20", "us", "how long" } };

    (void)kal;
    fn(&option, arg);
}

void kal_config_write(struct kal *kal, kal_line_fn fn, void *arg)
{
    (void)kal;
    fn("[ital]", arg);
}

const char *kal_config_source(struct kal *kal)
{
    (void)kal;
    return NULL;
}

const char *kal_config_value(struct kal *kal, const char *name)
{
    (void)kal;
    return !strcmp(name, "spin") ? "0" : !strcmp(name, "progress_cpus") ? "" : NULL;
}

uint32_t kal_config_word(struct kal *kal, const char *name)
{
    (void)kal;
    if (strcmp(name, "progress"))
        fk_violation("an option that the fake kal does not have");
    return 0;
}

uint64_t kal_config_ns(struct kal *kal, const char *name)
{
    (void)kal;
    if (strcmp(name, "spin")) /* no ck_assert here: it allocates */
        fk_violation("an option that the fake kal does not have");
    return 0;
}

enum ri_status kal_provider_list(struct kal *kal, kal_provider_fn fn, void *arg)
{
    struct kal_provider_info info = {
        .name = "fake", .path = "(preopened)", .usable = true, .abi_major = 1
    };

    (void)kal;
    fn(&info, arg);
    return RI_OK;
}

enum ri_status kal_interface_list(struct kal *kal, kal_interface_fn fn, void *arg)
{
    struct kal_interface_info info = { .name = "fake0",
                                       .provider = "fake",
                                       .device = "f",
                                       .transport = RI_TRANSPORT_IWARP,
                                       .usable = true };

    (void)kal;
    fn(&info, arg);
    return RI_OK;
}

/* --- kal.h: RNIC --- */

enum ri_status kal_rnic_open(struct kal *kal, const char *interface, void *context,
                             struct kal_rnic **rnic)
{
    enum ri_status status;
    unsigned int free = 0;

    (void)kal;
    if (strcmp(interface, "fake0"))
        return ITAL_ERR_NO_INTERFACE;
    status = fk_make(&fk.rnics, FK_RNIC_OPEN);
    if (status)
        return status;
    while (free < FK_RNICS - 1 && fk_rnics[free].open)
        free++;
    if (fk_rnics[free].open)
        fk_violation("more RNICs than the fake kal has");
    fk_rnic = &fk_rnics[free];
    *fk_rnic = (struct kal_rnic){ .open = true, .context = context };
    *rnic = fk_rnic;
    return RI_OK;
}

enum ri_status kal_rnic_close(struct kal_rnic *rnic, bool force)
{
    fk.closes++;
    fk.forced += force;
    if (fk.rnics == 1 && (fk.pds || fk.cqs || fk.qps || fk.regions || fk.connections ||
                          fk.listeners || fk.mws || fk.srqs || fk.ahs))
        return RI_ERR_BUSY;
    if (!force && fk.close_again) {
        fk.close_again--;
        return RI_ERR_AGAIN;
    }
    rnic->open = false;
    rnic->lane = NULL;
    for (unsigned int i = 0; fk_rnic == rnic && i < FK_RNICS; i++)
        if (fk_rnics[i].open)
            fk_rnic = &fk_rnics[i];
    fk_gone(&fk.rnics);
    return RI_OK;
}

const struct ri_rnic_attr *kal_rnic_attr(const struct kal_rnic *rnic)
{
    (void)rnic;
    return &fk.attr;
}

const char *kal_rnic_provider(const struct kal_rnic *rnic)
{
    (void)rnic;
    return "fake";
}

const char *kal_rnic_option(const struct kal_rnic *rnic, const char *name)
{
    (void)rnic, (void)name;
    return NULL;
}

uint64_t kal_rnic_option_ns(const struct kal_rnic *rnic, const char *name)
{
    (void)rnic;
    ck_assert_str_eq(name, "close_timeout");
    return fk.close_timeout_ns;
}

enum ri_status kal_rnic_port(struct kal_rnic *rnic, struct ri_port_attr *attr)
{
    (void)rnic;
    attr->online = true;
    return RI_OK;
}

enum ri_status kal_rnic_gids(struct kal_rnic *rnic, uint32_t port, struct ri_gid *gids,
                             uint32_t *count)
{
    (void)rnic, (void)port, (void)gids;
    *count = 0;
    return RI_OK;
}

enum ri_status kal_rnic_counters(struct kal_rnic *rnic, const char **names, uint64_t *values,
                                 size_t *count)
{
    (void)rnic;
    if (*count) {
        names[0] = "runs";
        values[0] = 7;
    }
    *count = 1;
    return RI_OK;
}

enum ri_status kal_lane_open(struct kal_rnic *rnic, uint32_t index, void *context,
                             struct ri_lane **lane)
{
    enum ri_status status;

    (void)index;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_LANE_OPEN);
    pthread_mutex_unlock(&fk_lock);
    if (status)
        return status;
    rnic->lane = context;
    rnic->ri = (struct ri_lane){ .ops = &fk_user_ops, .context = context };
    *lane = fk.lane = &rnic->ri;
    return RI_OK;
}

enum ri_status kal_route(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *destination,
                         struct sockaddr_storage *source)
{
    enum ri_status status;

    (void)rnic;
    (void)port;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_ROUTE);
    pthread_mutex_unlock(&fk_lock);
    if (status)
        return status;
    memset(source, 0, sizeof(*source));
    source->ss_family = destination->sa_family;
    return RI_OK;
}

/* --- kal.h: objects --- */

enum ri_status kal_pd_create(struct kal_rnic *rnic, void *context, struct ri_pd **pd)
{
    enum ri_status status = fk_make(&fk.pds, FK_PD_CREATE);
    struct ri_pd *made;

    (void)rnic;
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.pds);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->context = context;
    *pd = made;
    return RI_OK;
}

enum ri_status kal_pd_destroy(struct kal_rnic *rnic, struct ri_pd *pd)
{
    (void)rnic;
    fk_gone(&fk.pds);
    free(pd);
    return RI_OK;
}

enum ri_status kal_cq_create(struct kal_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    enum ri_status status = fk_make(&fk.cqs, FK_CQ_CREATE);
    struct fk_cq *made;

    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.cqs);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->ri = (struct ri_cq){ .ops = &fk_user_ops, .context = attr->context };
    made->rnic = rnic;
    fk.cq_lane = attr->lane;
    made->depth = attr->depth += fk.more_cqes;
    fk_last_cq = made;
    *cq = &made->ri;
    return RI_OK;
}

enum ri_status kal_cq_resize(struct kal_rnic *rnic, struct ri_cq *ri, uint32_t *depth)
{
    struct fk_cq *cq = (struct fk_cq *)ri;
    enum ri_status status = RI_ERR_NOT_SUPPORTED;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    if (fk.attr.features & RI_FEATURE_CQ_RESIZE)
        status = cq->count > *depth ? RI_ERR_BUSY : fk_planned(FK_CQ_RESIZE);
    if (!status)
        cq->depth = *depth += fk.more_cqes;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_cq_destroy(struct kal_rnic *rnic, struct ri_cq *ri)
{
    struct fk_cq *cq = (struct fk_cq *)ri;
    enum ri_status status;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_CQ_DESTROY);
    if (!status) {
        fk_forget(cq, &cq->upcall);
        fk.cqs--;
    }
    pthread_mutex_unlock(&fk_lock);
    if (!status)
        free(cq);
    return status;
}

enum ri_status kal_qp_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_qp_attr *attr,
                             struct ri_qp **qp)
{
    enum ri_status status = fk_make(&fk.qps, FK_QP_CREATE);
    struct fk_qp *made;

    (void)pd;
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.qps);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    attr->max_send_wr += 1; /* more than requested */
    made->ri = (struct ri_qp){ .ops = &fk_user_ops, .context = attr->context };
    made->rnic = rnic;
    made->attr = *attr;
    made->state = RI_QPS_IDLE;
    fk.qp = made;
    *qp = &made->ri;
    return RI_OK;
}

static enum ri_status to_idle(struct fk_qp *qp)
{
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_QP_IDLE);
    if (!status && qp->state != RI_QPS_IDLE && qp->state != RI_QPS_ERROR)
        status = RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&fk_lock);
    if (status)
        return status;
    fk_to_error(qp);
    pthread_mutex_lock(&fk_lock);
    qp->state = RI_QPS_IDLE;
    pthread_mutex_unlock(&fk_lock);
    return RI_OK;
}

/* Without a connection: UD QPs. */
static enum ri_status to_rts(struct fk_qp *qp)
{
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_QP_RTS);
    if (!status && (qp->state != RI_QPS_IDLE || qp->attr.type != RI_QP_UD))
        status = RI_ERR_INVALID_STATE;
    if (!status)
        qp->state = RI_QPS_RTS;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_qp_modify(struct kal_rnic *rnic, struct ri_qp *ri,
                             const struct ri_qp_modify *modify)
{
    struct fk_qp *qp = (struct fk_qp *)ri;

    (void)rnic;
    if (!(modify->mask & RI_QPM_STATE)) {
        enum ri_status status;

        pthread_mutex_lock(&fk_lock);
        status = fk_planned(FK_QP_ATTRIBUTES);
        if (!status)
            fk.modify = *modify;
        pthread_mutex_unlock(&fk_lock);
        return status;
    }
    if (modify->mask != RI_QPM_STATE)
        return RI_ERR_INVALID_ARGUMENT;
    if (modify->state == RI_QPS_IDLE)
        return to_idle(qp);
    if (modify->state == RI_QPS_RTS)
        return to_rts(qp);
    if (modify->state != RI_QPS_ERROR)
        return RI_ERR_INVALID_STATE;
    pthread_mutex_lock(&fk_lock);
    fk.aborts += qp->state == RI_QPS_RTS || qp->state == RI_QPS_CLOSING;
    pthread_mutex_unlock(&fk_lock);
    fk_to_error(qp);
    return RI_OK;
}

enum ri_status kal_qp_query(struct kal_rnic *rnic, struct ri_qp *qp, struct ri_qp_info *info)
{
    (void)rnic;
    info->state = ((struct fk_qp *)qp)->state;
    info->qpn = 17;
    info->ord = 3;
    return RI_OK;
}

enum ri_status kal_qp_counters(struct kal_rnic *rnic, struct ri_qp *qp, const char **names,
                               uint64_t *values, size_t *count)
{
    (void)qp;
    return kal_rnic_counters(rnic, names, values, count);
}

enum ri_status kal_qp_destroy(struct kal_rnic *rnic, struct ri_qp *ri)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    enum ri_status status;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_QP_DESTROY);
    if (!status) {
        fk_forget(qp, &qp->upcall);
        fk_forget_completions(qp);
        fk.qps--;
    }
    pthread_mutex_unlock(&fk_lock);
    if (!status)
        free(qp);
    return status;
}

enum ri_status kal_region_create(struct kal_rnic *rnic, struct ri_pd *pd,
                                 const struct ri_mr_attr *attr, struct kal_region **region)
{
    enum ri_status status = fk_make(&fk.regions, FK_REGION_CREATE);
    struct kal_region *made;

    (void)rnic;
    (void)pd;
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.regions);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->mr = fk_new(sizeof(struct ri_mr), &fk.regions);
    if (!made->mr) {
        free(made);
        return RI_ERR_NO_RESOURCES;
    }
    made->keys = (struct ri_mr_keys){ 100 + attr->access, 200 + attr->access };
    if (fk.next_stag)
        made->keys = (struct ri_mr_keys){ fk.next_stag, fk.next_stag };
    made->mr->ops = (void *)(uintptr_t)(made->keys.lkey >> 8); /* for completion_of */
    *region = made;
    fk.next_stag = 0;
    fk.region = *attr;
    return RI_OK;
}

enum ri_status kal_mw_create(struct kal_rnic *rnic, struct ri_pd *pd, bool narrow, void *context,
                             uint32_t *stag, struct ri_mw **mw)
{
    enum ri_status status = fk_make(&fk.mws, FK_MW_CREATE);
    struct ri_mw *made;

    (void)rnic;
    (void)pd;
    (void)narrow;
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.mws);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    *stag = fk.next_stag ? fk.next_stag : 0x777700;
    fk.next_stag = 0;
    *mw = made;
    **mw = (struct ri_mw){ .ops = (void *)(uintptr_t)(*stag >> 8), .context = context };
    return RI_OK;
}

enum ri_status kal_mw_destroy(struct kal_rnic *rnic, struct ri_mw *mw)
{
    enum ri_status status;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_MW_DESTROY);
    fk.mws -= !status;
    pthread_mutex_unlock(&fk_lock);
    if (!status)
        free(mw);
    return status;
}

enum ri_status kal_srq_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_srq_attr *attr,
                              struct ri_srq **srq)
{
    enum ri_status status = fk_make(&fk.srqs, FK_SRQ_CREATE);
    struct fk_srq *made;

    (void)pd;
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.srqs);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    attr->max_sge += 1; /* more than requested */
    made->ri = (struct ri_srq){ .ops = &fk_user_ops, .context = attr->context };
    made->rnic = rnic;
    made->attr = *attr;
    fk.srq = made;
    *srq = &made->ri;
    return RI_OK;
}

enum ri_status kal_srq_modify(struct kal_rnic *rnic, struct ri_srq *ri, uint32_t mask,
                              const struct ri_srq_attr *attr)
{
    struct fk_srq *srq = (struct fk_srq *)ri;
    enum ri_status status;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_SRQ_MODIFY);
    if (!status && (mask & 1))
        srq->attr.max_wr = attr->max_wr;
    if (!status && (mask & 2))
        srq->attr.limit = attr->limit;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_srq_query(struct kal_rnic *rnic, struct ri_srq *ri, struct ri_srq_attr *attr)
{
    (void)rnic;
    *attr = ((struct fk_srq *)ri)->attr;
    return RI_OK;
}

enum ri_status kal_srq_destroy(struct kal_rnic *rnic, struct ri_srq *ri)
{
    struct fk_srq *srq = (struct fk_srq *)ri;
    enum ri_status status;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_SRQ_DESTROY);
    if (!status) {
        fk_forget(srq, &srq->upcall);
        fk.srqs--;
    }
    pthread_mutex_unlock(&fk_lock);
    if (!status)
        free(srq);
    return status;
}

enum ri_status kal_region_modify(struct kal_rnic *rnic, struct kal_region *region, struct ri_pd *pd,
                                 const struct ri_mr_attr *attr)
{
    enum ri_status status;

    (void)rnic;
    (void)pd;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_REGION_MODIFY);
    pthread_mutex_unlock(&fk_lock);
    if (!status)
        region->keys = (struct ri_mr_keys){ 300 + attr->access, 400 + attr->access };
    return status;
}

enum ri_status kal_region_destroy(struct kal_rnic *rnic, struct kal_region *region)
{
    enum ri_status status;

    (void)rnic;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_REGION_DESTROY);
    fk.regions -= !status;
    pthread_mutex_unlock(&fk_lock);
    if (!status) {
        free(region->mr);
        free(region);
    }
    return status;
}

/* The context of an address handle is its PD. */
enum ri_status kal_ah_create(struct kal_rnic *rnic, struct ri_pd *pd, const struct ri_ah_attr *attr,
                             struct ri_ah **ah)
{
    enum ri_status status = fk_make(&fk.ahs, FK_AH_CREATE);
    struct ri_ah *made;

    (void)rnic;
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.ahs);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    *ah = made;
    **ah = (struct ri_ah){ .ops = (void *)pd, .context = attr->context };
    fk.ah = *attr;
    return RI_OK;
}

enum ri_status kal_ah_modify(struct kal_rnic *rnic, struct ri_ah *ah, const struct ri_ah_attr *attr)
{
    enum ri_status status;

    (void)rnic;
    (void)ah;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_AH_MODIFY);
    if (!status)
        fk.ah = *attr;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_ah_destroy(struct kal_rnic *rnic, struct ri_ah *ah)
{
    (void)rnic;
    fk_gone(&fk.ahs);
    free(ah);
    return RI_OK;
}

enum ri_status kal_multicast_attach(struct kal_rnic *rnic, struct ri_qp *qp, const uint8_t gid[16],
                                    uint16_t lid)
{
    (void)rnic, (void)qp, (void)lid;
    pthread_mutex_lock(&fk_lock);
    memcpy(fk.group, gid, sizeof(fk.group));
    pthread_mutex_unlock(&fk_lock);
    return RI_OK;
}

enum ri_status kal_multicast_detach(struct kal_rnic *rnic, struct ri_qp *qp, const uint8_t gid[16],
                                    uint16_t lid)
{
    enum ri_status status;

    (void)rnic, (void)qp, (void)lid;
    pthread_mutex_lock(&fk_lock);
    status = memcmp(fk.group, gid, sizeof(fk.group)) != 0 ? RI_ERR_INVALID_ARGUMENT : RI_OK;
    memset(fk.group, 0, sizeof(fk.group));
    pthread_mutex_unlock(&fk_lock);
    return status;
}
