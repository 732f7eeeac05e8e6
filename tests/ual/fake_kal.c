/* SPDX-License-Identifier: BSD-3-Clause
 * See fake_kal.h. One lock guards everything; upcalls are made without it. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fake_kal.h"

#include "tc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct fk fk;

struct kal {
    int nothing;
};

struct kal_rnic {
    void *context;
};

struct fk_cq {
    struct ri_cq ri;
    struct ri_wc wc[256];
    uint32_t first, count;
    bool armed;
};

enum kind { CONNECTION_EVENT, QP_EVENT, SRQ_EVENT, RNIC_EVENT, REQUEST };

struct news {
    enum kind kind;
    struct kal_connection *connection;
    struct fk_qp *qp;
    struct fk_srq *srq;
    struct kal_listener *listener;
    struct ri_connection_event connection_event;
    struct ri_event event;
    struct ri_connect_request request;
    struct news *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const struct kal_upper *upper;
static enum kal_status failures[FK_CALLS];
static struct news *queue;
static bool delivering, held;
static void *lane_context;
static struct fk_cq *last_cq;
static struct kal the_kal;
static struct kal_rnic the_rnic;
static struct ri_lane the_lane;

void fk_reset(void)
{
    memset(&fk, 0, sizeof(fk));
    fk.attr = (struct ri_rnic_attr){
        .size = sizeof(fk.attr),
        .transport = RI_TRANSPORT_IWARP,
        .features = RI_FEATURE_THREE_WAY | RI_FEATURE_SRQ | RI_FEATURE_SRQ_RESIZE |
                    RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE | RI_FEATURE_FAST_REGISTER |
                    RI_FEATURE_LOCAL_INVALIDATE | RI_FEATURE_READ_INVALIDATE,
        .max_mr_length = 1u << 30,
        .max_message = 1u << 30,
        .max_send = 1u << 20,
        .max_cqe = 256,
        .max_srq_wr = 100,
        .max_srq_sge = 4,
        .max_fast_register_pages = 16,
        .ports = 1,
        .lanes = 1,
        .connect_private_data = 508,
        .accept_private_data = 508,
        .reject_private_data = 508,
    };
}

void fk_fail(enum fk_call call, enum kal_status status)
{
    pthread_mutex_lock(&lock);
    failures[call] = status;
    pthread_mutex_unlock(&lock);
}

/* Under lock. */
static enum kal_status planned(enum fk_call call)
{
    enum kal_status status = failures[call];

    failures[call] = KAL_OK;
    return status;
}

static void violation(const char *what)
{
    fprintf(stderr, "fake kal: %s\n", what);
    fk.violations++;
}

static enum kal_status make(unsigned int *count, enum fk_call call)
{
    enum kal_status status;

    pthread_mutex_lock(&lock);
    status = planned(call);
    if (!status)
        ++*count;
    pthread_mutex_unlock(&lock);
    return status;
}

static void gone(unsigned int *count)
{
    pthread_mutex_lock(&lock);
    --*count;
    pthread_mutex_unlock(&lock);
}

/* --- news --- */

static void post_news(const struct news *news)
{
    struct news *copy = malloc(sizeof(*copy));

    *copy = *news;
    pthread_mutex_lock(&lock);
    DL_APPEND(queue, copy);
    pthread_mutex_unlock(&lock);
    upper->wake(lane_context);
}

void fk_connection_event(struct kal_connection *connection, const struct ri_connection_event *event)
{
    post_news(&(struct news){
        .kind = CONNECTION_EVENT, .connection = connection, .connection_event = *event });
}

void fk_qp_event(struct fk_qp *qp, enum ri_event_type type, uint16_t terminate_code)
{
    struct ri_event event = { .size = sizeof(event),
                              .type = type,
                              .terminate_code = terminate_code };

    post_news(&(struct news){ .kind = QP_EVENT, .qp = qp, .event = event });
}

void fk_srq_event(struct fk_srq *srq, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };

    post_news(&(struct news){ .kind = SRQ_EVENT, .srq = srq, .event = event });
}

void fk_rnic_event(enum ri_event_type type, uint32_t port)
{
    struct ri_event event = { .size = sizeof(event), .type = type, .port = port };

    post_news(&(struct news){ .kind = RNIC_EVENT, .event = event });
}

void fk_request(struct kal_listener *listener, const struct ri_connect_request *request)
{
    post_news(&(struct news){ .kind = REQUEST, .listener = listener, .request = *request });
}

void fk_establish(struct kal_connection *connection)
{
    struct ri_connection_event event = connection->info;

    pthread_mutex_lock(&lock);
    if (connection->qp)
        connection->qp->state = RI_QPS_RTS;
    pthread_mutex_unlock(&lock);
    event.type = RI_CONNECTION_ESTABLISHED;
    fk_connection_event(connection, &event);
}

static void to_error(struct fk_qp *qp);

void fk_end(struct fk_qp *qp, enum ri_event_type type)
{
    to_error(qp);
    fk_qp_event(qp, type, 0);
}

void fk_withdraw(struct kal_connection *connection, bool with_event)
{
    pthread_mutex_lock(&lock);
    connection->withdrawn = true;
    pthread_mutex_unlock(&lock);
    if (with_event)
        fk_connection_event(connection,
                            &(struct ri_connection_event){ .type = RI_CONNECTION_FAILED });
}

void fk_settle(void)
{
    struct timespec until = tc_timespec(tc_deadline(10000));

    upper->wake(lane_context);
    pthread_mutex_lock(&lock);
    while (queue || delivering)
        if (pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &until))
            ck_abort_msg("news was not delivered");
    pthread_mutex_unlock(&lock);
}

void fk_hold(bool hold)
{
    pthread_mutex_lock(&lock);
    held = hold;
    pthread_mutex_unlock(&lock);
    if (!hold)
        upper->wake(lane_context);
}

static void deliver_request(struct news *news)
{
    struct kal_connection *connection = calloc(1, sizeof(*connection));

    connection->undecided = true;
    connection->lane = lane_context;
    connection->upcall = true;
    connection->thread = pthread_self();
    connection->info.local = news->request.local;
    connection->info.peer = news->request.peer;
    pthread_mutex_lock(&lock);
    fk.connections++;
    fk.connection = connection;
    pthread_mutex_unlock(&lock);
    upper->connection_request(news->listener->context, connection, &news->request,
                              &connection->context);
    pthread_mutex_lock(&lock);
    connection->upcall = false;
    news->listener->upcall = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void deliver(struct news *news)
{
    switch (news->kind) {
    case CONNECTION_EVENT:
        upper->connection_event(news->connection->context, &news->connection_event);
        break;
    case QP_EVENT: upper->qp_event(news->qp->ri.context, &news->event); break;
    case SRQ_EVENT: upper->srq_event(news->srq->ri.context, &news->event); break;
    case RNIC_EVENT: upper->rnic_event(the_rnic.context, &news->event); break;
    case REQUEST: deliver_request(news); return;
    }
    pthread_mutex_lock(&lock);
    if (news->connection)
        news->connection->upcall = false;
    if (news->qp)
        news->qp->upcall = false;
    if (news->srq)
        news->srq->upcall = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct news *next_news(void)
{
    struct news *news;

    pthread_mutex_lock(&lock);
    news = held ? NULL : queue;
    if (news) {
        DL_DELETE(queue, news);
        delivering = true;
        if (news->connection) {
            news->connection->upcall = true;
            if (news->connection_event.type == RI_CONNECTION_FAILED)
                news->connection->withdrawn = true; /* has ended before anybody hears of it */
            news->connection->thread = pthread_self();
        }
        if (news->qp)
            news->qp->upcall = true;
        if (news->srq)
            news->srq->upcall = true;
        if (news->listener)
            news->listener->upcall = true;
    }
    pthread_mutex_unlock(&lock);
    return news;
}

static uint32_t progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget, uint64_t *next)
{
    struct news *news;
    uint32_t done = 0;

    (void)lane;
    (void)first;
    (void)budget;
    *next = RI_NO_DEADLINE;
    while ((news = next_news())) {
        deliver(news);
        free(news);
        done++;
        pthread_mutex_lock(&lock);
        delivering = false;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return done;
}

static bool lane_arm(struct ri_lane *lane)
{
    bool idle;

    (void)lane;
    pthread_mutex_lock(&lock);
    idle = held || !queue;
    pthread_mutex_unlock(&lock);
    return idle;
}

/* Under lock: what is queued about an object goes, an upcall in another thread is waited for. */
static void forget(const void *object, const bool *upcall)
{
    struct news *news, *next;

    DL_FOREACH_SAFE (queue, news, next) {
        if (news->connection != object && (void *)news->qp != object &&
            (void *)news->srq != object && (void *)news->listener != object)
            continue;
        DL_DELETE(queue, news);
        free(news);
    }
    while (*upcall)
        pthread_cond_wait(&changed, &lock);
    pthread_cond_broadcast(&changed);
}

/* --- data path --- */

/* Under lock; true: the CQ was armed, the caller fires it afterwards. */
static bool complete(struct fk_cq *cq, const struct ri_wc *wc)
{
    bool fire = cq->armed;

    ck_assert_uint_lt(cq->count, 256);
    cq->wc[(cq->first + cq->count++) % 256] = *wc;
    cq->armed = false;
    return fire;
}

static void to_error(struct fk_qp *qp)
{
    struct fk_cq *cq = (struct fk_cq *)qp->attr.recv_cq;
    bool fire = false;

    pthread_mutex_lock(&lock);
    qp->state = RI_QPS_ERROR;
    for (uint32_t i = 0; i < qp->receives; i++)
        fire |= complete(cq, &(struct ri_wc){ .context = qp->ri.context,
                                              .cookie = qp->cookies[i],
                                              .opcode = RI_WC_RECV,
                                              .status = RI_WC_FLUSHED });
    qp->receives = 0;
    pthread_mutex_unlock(&lock);
    if (fire)
        upper->cq_event(cq->ri.context);
}

void fk_complete(struct fk_qp *qp, const struct ri_wc *wc)
{
    struct fk_cq *cq = (struct fk_cq *)qp->attr.recv_cq;
    struct ri_wc filled = *wc;
    bool fire;

    filled.context = qp->ri.context;
    pthread_mutex_lock(&lock);
    fire = complete(cq, &filled);
    pthread_mutex_unlock(&lock);
    if (fire)
        upper->cq_event(cq->ri.context);
}

/* As rnicpi.h says of struct ri_wc. Under lock. */
static struct ri_wc completion_of(struct fk_qp *qp, const struct ri_send_wr *wr)
{
    static const uint8_t opcodes[] = {
        [RI_WR_RDMA_READ_INVALIDATE] = RI_WC_RDMA_READ,
        [RI_WR_BIND_WINDOW] = RI_WC_BIND_WINDOW,
        [RI_WR_LOCAL_INVALIDATE] = RI_WC_LOCAL_INVALIDATE,
        [RI_WR_FAST_REGISTER] = RI_WC_FAST_REGISTER,
    };
    enum ri_wc_status status = qp->state == RI_QPS_RTS ? fk.next_status : RI_WC_FLUSHED;
    struct ri_wc wc = { .context = qp->ri.context, .cookie = wr->cookie, .status = status };

    wc.opcode = opcodes[wr->opcode];
    if (wr->opcode == RI_WR_LOCAL_INVALIDATE)
        wc.invalidated_stag = wr->invalidate_stag;
    if (wr->opcode == RI_WR_BIND_WINDOW)
        wc.invalidated_stag = (uint32_t)(uintptr_t)wr->bind.mw->ops << 8 | wr->bind.new_key;
    if (wr->opcode == RI_WR_FAST_REGISTER)
        wc.invalidated_stag = (uint32_t)(uintptr_t)wr->fast_register.mr->ops << 8 |
                              wr->fast_register.new_key;
    if (wr->opcode == RI_WR_RDMA_READ_INVALIDATE) {
        wc.invalidated_stag = wr->sg_list[0].lkey;
        wc.flags = status ? 0 : RI_WC_WITH_INVALIDATE;
    }
    fk.next_status = RI_WC_SUCCESS;
    return wc;
}

/* A success that was not asked for is not told of. */
static bool execute(struct fk_qp *qp, const struct ri_send_wr *wr)
{
    struct ri_wc wc = completion_of(qp, wr);

    fk.wr = *wr;
    if (!wc.status && !(wr->flags & RI_WR_SIGNALED) && wr->opcode >= RI_WR_RDMA_READ_INVALIDATE)
        return false;
    return complete((struct fk_cq *)qp->attr.send_cq, &wc);
}

static enum ri_status post_send(struct ri_qp *ri, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    struct fk_cq *cq = (struct fk_cq *)qp->attr.send_cq;
    enum ri_status status = RI_OK;
    bool fire = false;

    pthread_mutex_lock(&lock);
    for (; wr && !status; wr = wr->next) {
        status = qp->state == RI_QPS_IDLE ? RI_ERR_INVALID_STATE : fk.next_post;
        fk.next_post = RI_OK;
        if (status)
            *bad = wr;
        else
            fire |= execute(qp, wr);
    }
    pthread_mutex_unlock(&lock);
    if (fire)
        upper->cq_event(cq->ri.context);
    return status;
}

static enum ri_status post_recv(struct ri_qp *ri, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    enum ri_status status = RI_OK;
    bool flush;

    pthread_mutex_lock(&lock);
    for (; wr && !status; wr = wr->next) {
        if (qp->receives == qp->attr.max_recv_wr || qp->receives == 64) {
            status = RI_ERR_QUEUE_FULL;
            *bad = wr;
        } else {
            qp->cookies[qp->receives++] = wr->cookie;
        }
    }
    flush = qp->state != RI_QPS_IDLE && qp->state != RI_QPS_RTS;
    pthread_mutex_unlock(&lock);
    if (flush)
        to_error(qp);
    return status;
}

static enum ri_status post_srq_recv(struct ri_srq *ri, struct ri_recv_wr *wr,
                                    struct ri_recv_wr **bad)
{
    struct fk_srq *srq = (struct fk_srq *)ri;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&lock);
    for (; wr && !status; wr = wr->next) {
        if (srq->receives == srq->attr.max_wr) {
            status = RI_ERR_QUEUE_FULL;
            *bad = wr;
        } else {
            srq->receives++;
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static uint32_t poll_cq(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct fk_cq *cq = (struct fk_cq *)ri;
    uint32_t taken = 0;

    pthread_mutex_lock(&lock);
    while (taken < count && cq->count) {
        wc[taken++] = cq->wc[cq->first];
        cq->first = (cq->first + 1) % 256;
        cq->count--;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static enum ri_status arm_cq(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    (void)kind;
    (void)count;
    pthread_mutex_lock(&lock);
    ((struct fk_cq *)ri)->armed = true;
    pthread_mutex_unlock(&lock);
    return RI_OK;
}

static enum ri_status peek_cq(struct ri_cq *ri, uint32_t *total, uint32_t *notify)
{
    pthread_mutex_lock(&lock);
    *total = ((struct fk_cq *)ri)->count;
    pthread_mutex_unlock(&lock);
    *notify = 0;
    return RI_OK;
}

unsigned int fk_connections(void)
{
    unsigned int alive;

    pthread_mutex_lock(&lock);
    alive = fk.connections;
    pthread_mutex_unlock(&lock);
    return alive;
}

bool fk_armed(void)
{
    bool armed;

    pthread_mutex_lock(&lock);
    armed = last_cq->armed;
    pthread_mutex_unlock(&lock);
    return armed;
}

static const struct ri_user_ops user_ops = {
    .size = sizeof(user_ops),
    .abi_major = RI_ABI_MAJOR,
    .post_send = post_send,
    .post_recv = post_recv,
    .post_srq_recv = post_srq_recv,
    .poll = poll_cq,
    .arm = arm_cq,
    .cq_peek = peek_cq,
    .progress = progress,
    .lane_arm = lane_arm,
};

/* --- kal.h: instance --- */

enum kal_status kal_get(const struct kal_upper *above, struct kal **kal)
{
    pthread_mutex_lock(&lock);
    upper = above;
    fk.kals++;
    pthread_mutex_unlock(&lock);
    *kal = &the_kal;
    return KAL_OK;
}

void kal_put(struct kal *kal)
{
    (void)kal;
    gone(&fk.kals);
}

void kal_fork_child(void)
{
}

void kal_log(enum ri_log_level level, const char *format, ...)
{
    va_list args;

    (void)level;
    va_start(args, format);
    fprintf(stderr, "log: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
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
    return strcmp(name, "spin") ? NULL : "0";
}

enum kal_status kal_provider_list(struct kal *kal, kal_provider_fn fn, void *arg)
{
    struct kal_provider_info info = {
        .name = "fake", .path = "(preopened)", .usable = true, .abi_major = 1
    };

    (void)kal;
    fn(&info, arg);
    return KAL_OK;
}

enum kal_status kal_interface_list(struct kal *kal, kal_interface_fn fn, void *arg)
{
    struct kal_interface_info info = { .name = "fake0",
                                       .provider = "fake",
                                       .device = "f",
                                       .transport = RI_TRANSPORT_IWARP,
                                       .usable = true };

    (void)kal;
    fn(&info, arg);
    return KAL_OK;
}

/* --- kal.h: RNIC --- */

enum kal_status kal_rnic_open(struct kal *kal, const char *interface, void *context,
                              struct kal_rnic **rnic)
{
    enum kal_status status;

    (void)kal;
    if (strcmp(interface, "fake0"))
        return KAL_ERR_NO_INTERFACE;
    status = make(&fk.rnics, FK_RNIC_OPEN);
    if (status)
        return status;
    the_rnic.context = context;
    *rnic = &the_rnic;
    return KAL_OK;
}

enum kal_status kal_rnic_close(struct kal_rnic *rnic, bool force)
{
    (void)rnic;
    fk.closes++;
    fk.forced += force;
    if (fk.pds || fk.cqs || fk.qps || fk.regions || fk.connections || fk.listeners || fk.mws ||
        fk.srqs)
        return KAL_ERR_BUSY;
    if (!force && fk.close_again) {
        fk.close_again--;
        return KAL_ERR_AGAIN;
    }
    gone(&fk.rnics);
    return KAL_OK;
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
    (void)rnic;
    return strcmp(name, "close_timeout") ? NULL : fk.close_timeout;
}

enum kal_status kal_rnic_port(struct kal_rnic *rnic, struct ri_port_attr *attr)
{
    (void)rnic;
    attr->online = true;
    return KAL_OK;
}

enum kal_status kal_rnic_counters(struct kal_rnic *rnic, const char **names, uint64_t *values,
                                  size_t *count)
{
    (void)rnic;
    if (*count) {
        names[0] = "runs";
        values[0] = 7;
    }
    *count = 1;
    return KAL_OK;
}

enum kal_status kal_lane_open(struct kal_rnic *rnic, uint32_t index, void *context,
                              struct ri_lane **lane)
{
    enum kal_status status;

    (void)rnic;
    (void)index;
    pthread_mutex_lock(&lock);
    status = planned(FK_LANE_OPEN);
    pthread_mutex_unlock(&lock);
    if (status)
        return status;
    lane_context = context;
    the_lane = (struct ri_lane){ .ops = &user_ops, .context = context };
    *lane = &the_lane;
    return KAL_OK;
}

enum kal_status kal_route(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *destination,
                          struct sockaddr_storage *source)
{
    (void)rnic;
    (void)port;
    memset(source, 0, sizeof(*source));
    source->ss_family = destination->sa_family;
    return KAL_OK;
}

/* --- kal.h: objects --- */

enum kal_status kal_pd_create(struct kal_rnic *rnic, void *context, struct ri_pd **pd)
{
    enum kal_status status = make(&fk.pds, FK_PD_CREATE);

    (void)rnic;
    if (status)
        return status;
    *pd = calloc(1, sizeof(**pd));
    (*pd)->context = context;
    return KAL_OK;
}

enum kal_status kal_pd_destroy(struct kal_rnic *rnic, struct ri_pd *pd)
{
    (void)rnic;
    gone(&fk.pds);
    free(pd);
    return KAL_OK;
}

enum kal_status kal_cq_create(struct kal_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    enum kal_status status = make(&fk.cqs, FK_CQ_CREATE);
    struct fk_cq *made;

    (void)rnic;
    if (status)
        return status;
    made = calloc(1, sizeof(*made));
    made->ri = (struct ri_cq){ .ops = &user_ops, .context = attr->context };
    last_cq = made;
    *cq = &made->ri;
    return KAL_OK;
}

enum kal_status kal_cq_resize(struct kal_rnic *rnic, struct ri_cq *cq, uint32_t *depth)
{
    (void)rnic;
    (void)cq;
    (void)depth;
    return KAL_ERR_NOT_SUPPORTED;
}

enum kal_status kal_cq_destroy(struct kal_rnic *rnic, struct ri_cq *cq)
{
    (void)rnic;
    gone(&fk.cqs);
    free(cq);
    return KAL_OK;
}

enum kal_status kal_qp_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_qp_attr *attr,
                              struct ri_qp **qp)
{
    enum kal_status status = make(&fk.qps, FK_QP_CREATE);
    struct fk_qp *made;

    (void)rnic;
    (void)pd;
    if (status)
        return status;
    attr->max_send_wr += 1; /* given more than asked for */
    made = calloc(1, sizeof(*made));
    made->ri = (struct ri_qp){ .ops = &user_ops, .context = attr->context };
    made->attr = *attr;
    made->state = RI_QPS_IDLE;
    fk.qp = made;
    *qp = &made->ri;
    return KAL_OK;
}

static enum kal_status to_idle(struct fk_qp *qp)
{
    enum kal_status status;

    pthread_mutex_lock(&lock);
    status = planned(FK_QP_IDLE);
    if (!status && qp->state != RI_QPS_IDLE && qp->state != RI_QPS_ERROR)
        status = KAL_ERR_INVALID_STATE;
    pthread_mutex_unlock(&lock);
    if (status)
        return status;
    to_error(qp);
    pthread_mutex_lock(&lock);
    qp->state = RI_QPS_IDLE;
    pthread_mutex_unlock(&lock);
    return KAL_OK;
}

enum kal_status kal_qp_modify(struct kal_rnic *rnic, struct ri_qp *ri,
                              const struct ri_qp_modify *modify)
{
    struct fk_qp *qp = (struct fk_qp *)ri;

    (void)rnic;
    if (!(modify->mask & RI_QPM_STATE)) {
        enum kal_status status;

        pthread_mutex_lock(&lock);
        status = planned(FK_QP_ATTRIBUTES);
        if (!status)
            fk.modify = *modify;
        pthread_mutex_unlock(&lock);
        return status;
    }
    if (modify->mask != RI_QPM_STATE)
        return KAL_ERR_INVALID_ARGUMENT;
    if (modify->state == RI_QPS_IDLE)
        return to_idle(qp);
    if (modify->state != RI_QPS_ERROR)
        return KAL_ERR_INVALID_STATE;
    pthread_mutex_lock(&lock);
    fk.aborts += qp->state == RI_QPS_RTS || qp->state == RI_QPS_CLOSING;
    pthread_mutex_unlock(&lock);
    to_error(qp);
    return KAL_OK;
}

enum kal_status kal_qp_query(struct kal_rnic *rnic, struct ri_qp *qp, struct ri_qp_info *info)
{
    (void)rnic;
    info->state = ((struct fk_qp *)qp)->state;
    info->qpn = 17;
    info->ord = 3;
    return KAL_OK;
}

enum kal_status kal_qp_counters(struct kal_rnic *rnic, struct ri_qp *qp, const char **names,
                                uint64_t *values, size_t *count)
{
    (void)qp;
    return kal_rnic_counters(rnic, names, values, count);
}

enum kal_status kal_qp_destroy(struct kal_rnic *rnic, struct ri_qp *ri)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    enum kal_status status;

    (void)rnic;
    pthread_mutex_lock(&lock);
    status = planned(FK_QP_DESTROY);
    if (!status) {
        forget(qp, &qp->upcall);
        fk.qps--;
    }
    pthread_mutex_unlock(&lock);
    if (!status)
        free(qp);
    return status;
}

enum kal_status kal_region_create(struct kal_rnic *rnic, struct ri_pd *pd,
                                  const struct ri_mr_attr *attr, struct kal_region **region)
{
    enum kal_status status = make(&fk.regions, FK_REGION_CREATE);

    (void)rnic;
    (void)pd;
    if (status)
        return status;
    *region = calloc(1, sizeof(**region));
    (*region)->keys = (struct ri_mr_keys){ 100 + attr->access, 200 + attr->access };
    if (fk.next_stag)
        (*region)->keys = (struct ri_mr_keys){ fk.next_stag, fk.next_stag };
    (*region)->mr = calloc(1, sizeof(struct ri_mr));
    (*region)->mr->ops = (void *)(uintptr_t)((*region)->keys.lkey >> 8); /* for completion_of */
    fk.next_stag = 0;
    fk.region = *attr;
    return KAL_OK;
}

enum kal_status kal_mw_create(struct kal_rnic *rnic, struct ri_pd *pd, bool narrow, void *context,
                              uint32_t *stag, struct ri_mw **mw)
{
    enum kal_status status = make(&fk.mws, FK_MW_CREATE);

    (void)rnic;
    (void)pd;
    (void)narrow;
    if (status)
        return status;
    *stag = fk.next_stag ? fk.next_stag : 0x777700;
    fk.next_stag = 0;
    *mw = calloc(1, sizeof(**mw));
    **mw = (struct ri_mw){ .ops = (void *)(uintptr_t)(*stag >> 8), .context = context };
    return KAL_OK;
}

enum kal_status kal_mw_destroy(struct kal_rnic *rnic, struct ri_mw *mw)
{
    enum kal_status status;

    (void)rnic;
    pthread_mutex_lock(&lock);
    status = planned(FK_MW_DESTROY);
    fk.mws -= !status;
    pthread_mutex_unlock(&lock);
    if (!status)
        free(mw);
    return status;
}

enum kal_status kal_srq_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_srq_attr *attr,
                               struct ri_srq **srq)
{
    enum kal_status status = make(&fk.srqs, FK_SRQ_CREATE);
    struct fk_srq *made;

    (void)rnic;
    (void)pd;
    if (status)
        return status;
    attr->max_sge += 1; /* given more than asked for */
    made = calloc(1, sizeof(*made));
    made->ri = (struct ri_srq){ .ops = &user_ops, .context = attr->context };
    made->attr = *attr;
    fk.srq = made;
    *srq = &made->ri;
    return KAL_OK;
}

enum kal_status kal_srq_modify(struct kal_rnic *rnic, struct ri_srq *ri, uint32_t mask,
                               const struct ri_srq_attr *attr)
{
    struct fk_srq *srq = (struct fk_srq *)ri;
    enum kal_status status;

    (void)rnic;
    pthread_mutex_lock(&lock);
    status = planned(FK_SRQ_MODIFY);
    if (!status && (mask & 1))
        srq->attr.max_wr = attr->max_wr;
    if (!status && (mask & 2))
        srq->attr.low_watermark = attr->low_watermark;
    pthread_mutex_unlock(&lock);
    return status;
}

enum kal_status kal_srq_query(struct kal_rnic *rnic, struct ri_srq *ri, struct ri_srq_attr *attr)
{
    (void)rnic;
    *attr = ((struct fk_srq *)ri)->attr;
    return KAL_OK;
}

enum kal_status kal_srq_destroy(struct kal_rnic *rnic, struct ri_srq *ri)
{
    struct fk_srq *srq = (struct fk_srq *)ri;
    enum kal_status status;

    (void)rnic;
    pthread_mutex_lock(&lock);
    status = planned(FK_SRQ_DESTROY);
    if (!status) {
        forget(srq, &srq->upcall);
        fk.srqs--;
    }
    pthread_mutex_unlock(&lock);
    if (!status)
        free(srq);
    return status;
}

enum kal_status kal_region_modify(struct kal_rnic *rnic, struct kal_region *region,
                                  struct ri_pd *pd, const struct ri_mr_attr *attr)
{
    enum kal_status status;

    (void)rnic;
    (void)pd;
    pthread_mutex_lock(&lock);
    status = planned(FK_REGION_MODIFY);
    pthread_mutex_unlock(&lock);
    if (!status)
        region->keys = (struct ri_mr_keys){ 300 + attr->access, 400 + attr->access };
    return status;
}

enum kal_status kal_region_destroy(struct kal_rnic *rnic, struct kal_region *region)
{
    enum kal_status status;

    (void)rnic;
    pthread_mutex_lock(&lock);
    status = planned(FK_REGION_DESTROY);
    fk.regions -= !status;
    pthread_mutex_unlock(&lock);
    if (!status) {
        free(region->mr);
        free(region);
    }
    return status;
}

/* --- kal.h: connections --- */

enum kal_status kal_connection_create(struct kal_rnic *rnic, void *lane, void *context,
                                      struct kal_connection **connection)
{
    enum kal_status status = make(&fk.connections, FK_CONNECTION_CREATE);

    (void)rnic;
    if (status)
        return status;
    *connection = calloc(1, sizeof(**connection));
    (*connection)->lane = lane;
    (*connection)->context = context;
    fk.connection = *connection;
    return KAL_OK;
}

void kal_connection_destroy(struct kal_connection *connection)
{
    pthread_mutex_lock(&lock);
    if (connection->upcall && pthread_equal(connection->thread, pthread_self()))
        violation("a connection is destroyed from inside an upcall about it");
    else
        forget(connection, &connection->upcall);
    fk.connections--;
    if (fk.connection == connection)
        fk.connection = NULL;
    pthread_mutex_unlock(&lock);
    free(connection);
}

/* Under lock. */
static enum kal_status use(struct kal_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param, enum fk_call call)
{
    enum kal_status status = planned(call);

    if (status)
        return status;
    if (((struct fk_qp *)qp)->state != RI_QPS_IDLE)
        violation("a connection is begun on a QP that is not idle");
    connection->qp = (struct fk_qp *)qp;
    connection->param = *param;
    connection->private_data_length = param->private_data_length;
    return KAL_OK;
}

enum kal_status kal_connect(struct kal_connection *connection, struct ri_qp *qp,
                            const struct ri_connect_param *param)
{
    enum kal_status status;

    pthread_mutex_lock(&lock);
    status = use(connection, qp, param, FK_CONNECT);
    pthread_mutex_unlock(&lock);
    return status;
}

enum kal_status kal_accept(struct kal_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param)
{
    enum kal_status status;

    if (fk.during_accept)
        fk.during_accept();
    pthread_mutex_lock(&lock);
    if (connection->withdrawn || !connection->undecided)
        status = KAL_ERR_INVALID_STATE;
    else
        status = use(connection, qp, param, FK_ACCEPT);
    connection->undecided &= status != KAL_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

enum kal_status kal_confirm(struct kal_connection *connection, const struct ri_connect_param *param)
{
    enum kal_status status;

    pthread_mutex_lock(&lock);
    status = planned(FK_CONFIRM);
    fk.confirms += !status;
    connection->param = *param;
    pthread_mutex_unlock(&lock);
    return status;
}

enum kal_status kal_reject(struct kal_connection *connection, const void *private_data,
                           uint16_t private_data_length)
{
    enum kal_status status;

    (void)private_data;
    (void)private_data_length;
    pthread_mutex_lock(&lock);
    status = connection->withdrawn ? KAL_ERR_INVALID_STATE : planned(FK_REJECT);
    fk.rejects += !status;
    pthread_mutex_unlock(&lock);
    return status;
}

enum kal_status kal_disconnect(struct kal_connection *connection, struct ri_qp *ri,
                               const void *private_data, uint16_t private_data_length)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    enum kal_status status;

    (void)private_data;
    pthread_mutex_lock(&lock);
    status = planned(FK_DISCONNECT);
    if (!status && qp->state == RI_QPS_IDLE)
        status = KAL_ERR_INVALID_STATE;
    if (!status) {
        fk.disconnects++;
        connection->private_data_length = private_data_length;
        if (qp->state == RI_QPS_RTS)
            qp->state = RI_QPS_CLOSING;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

enum kal_status kal_connection_info(struct kal_connection *connection,
                                    struct ri_connection_event *info)
{
    pthread_mutex_lock(&lock);
    *info = connection->info;
    info->type = RI_CONNECTION_ESTABLISHED;
    pthread_mutex_unlock(&lock);
    return KAL_OK;
}

enum kal_status kal_listen(struct kal_rnic *rnic, void *lane, const struct ri_listen_param *param,
                           void *context, struct sockaddr_storage *bound,
                           struct kal_listener **listener)
{
    enum kal_status status = make(&fk.listeners, FK_LISTEN);

    (void)rnic;
    (void)lane;
    if (status)
        return status;
    *listener = calloc(1, sizeof(**listener));
    (*listener)->context = context;
    fk.listen_param = *param;
    fk.listener = *listener;
    memset(bound, 0, sizeof(*bound));
    bound->ss_family = param->address->sa_family;
    return KAL_OK;
}

void kal_listen_destroy(struct kal_listener *listener)
{
    pthread_mutex_lock(&lock);
    forget(listener, &listener->upcall);
    fk.listeners--;
    pthread_mutex_unlock(&lock);
    free(listener);
}
