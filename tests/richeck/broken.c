/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider that passes everything to another one (BROKEN_OVER: its file) and breaks one rule, as
 * BROKEN says. Each fault is one that vendors make. faults.list says which check of richeck has to
 * fail; without BROKEN none does.
 */
#include "rnicpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct ri_provider *lower;
static struct ri_privileged_ops privileged;
static struct ri_user_ops user;
static const char *fault = "";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* One that is open. A program may open several. */
struct opened {
    struct ri_host host; /* for the lower provider, whose upcalls bring it back */
    const struct ri_host *upper;
    struct ri_rnic *rnic;
    struct opened *next;
};

static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *all_opened; /* the newest first */

static const struct ri_host *upper_of(const struct ri_host *host)
{
    return ((const struct opened *)host)->upper;
}

static bool breaks(const char *name)
{
    return !strcmp(fault, name);
}

/* The time limits that it exceeds are stretched by the same. */
static void nap(long ms)
{
    const char *text = getenv("TEST_TIMEOUT_SCALE");
    double scale = text && atof(text) > 1 ? atof(text) : 1;

    const long whole = (long)((double)ms * scale);
    const struct timespec time = { whole / 1000, whole % 1000 * 1000000 };

    nanosleep(&time, NULL);
}

/* ---- RNIC ---- */

static enum ri_status broken_enumerate(const struct ri_host *h, ri_found_fn found, void *arg)
{
    const struct ri_device mute = { .size = sizeof(mute), .name = "x", .usable = false };

    if (breaks("enumerate-slow"))
        nap(2500);
    if (breaks("enumerate-no-reason"))
        found(arg, &mute);
    return lower->privileged->enumerate(h, found, arg);
}

static void down_cq_event(const struct ri_host *h, void *context)
{
    const struct ri_host *upper = upper_of(h);

    if (breaks("cq-event-locked"))
        pthread_mutex_lock(&lock);
    if (breaks("cq-event-no-context"))
        context = NULL;
    upper->cq_event(upper, context);
    if (breaks("cq-event-twice"))
        upper->cq_event(upper, context);
    if (breaks("cq-event-locked"))
        pthread_mutex_unlock(&lock);
}

struct call {
    const struct ri_host *upper;
    void *context;
    const struct ri_event *event;
};

static void *qp_event_thread(void *arg)
{
    const struct call *call = arg;

    call->upper->qp_event(call->upper, call->context, call->event);
    return NULL;
}

/* A cause that is told behind the end. */
static struct ri_event late;
static void *late_qp;

static void down_qp_event(const struct ri_host *h, void *context, const struct ri_event *event)
{
    const struct ri_host *upper = upper_of(h);
    struct ri_event other = *event;
    struct call call = { upper, context, event };
    pthread_t thread;

    if (breaks("end-none") || breaks("ud-no-event"))
        return;
    if (breaks("qp-event-thread")) {
        pthread_create(&thread, NULL, qp_event_thread, &call);
        pthread_join(thread, NULL);
        return;
    }
    if (breaks("cause-after-end")) {
        late = other;
        late.detail = NULL;
        late_qp = context;
        return;
    }
    if (breaks("qp-event-locked"))
        pthread_mutex_lock(&lock);
    other.explained &= !breaks("event-not-explained");
    upper->qp_event(upper, context, &other);
    if (breaks("end-twice"))
        upper->qp_event(upper, context, event);
    if (breaks("qp-event-locked"))
        pthread_mutex_unlock(&lock);
}

static void down_srq_event(const struct ri_host *h, void *context, const struct ri_event *event)
{
    const struct ri_host *upper = upper_of(h);

    upper->srq_event(upper, context, event);
    if (breaks("srq-limit-twice"))
        upper->srq_event(upper, context, event);
}

static void down_connection_event(const struct ri_host *h, void *context,
                                  const struct ri_connection_event *event)
{
    const struct ri_host *upper = upper_of(h);
    struct ri_connection_event other = *event;

    if (breaks("connection-loses-data"))
        other.private_data_length = 0;
    if (breaks("reject-is-failure") && event->type == RI_CONNECTION_REJECTED)
        other.type = RI_CONNECTION_FAILED;
    if (breaks("connection-any-depth"))
        other.ord = 64;
    upper->connection_event(upper, context, &other);
    if (breaks("connection-event-twice"))
        upper->connection_event(upper, context, &other);
    if (late_qp && event->type == RI_CONNECTION_DISCONNECTED) {
        upper->qp_event(upper, late_qp, &late);
        late_qp = NULL;
    }
}

static void down_connection_request(const struct ri_host *h, void *listener_context,
                                    struct ri_connection *connection,
                                    const struct ri_connect_request *request, void **context)
{
    const struct ri_host *upper = upper_of(h);
    struct ri_connect_request other = *request;
    struct ri_connection_numbers own;

    if (breaks("request-own-psn") && request->numbers) { /* each sends from the PSN it has chosen */
        own = *request->numbers;
        own.send_psn = own.receive_psn;
        other.numbers = &own;
    }
    upper->connection_request(upper, listener_context, connection, &other, context);
}

static enum ri_status down_watch(const struct ri_host *h, void *lane_context, int fd,
                                 uint32_t events, ri_ready_fn ready, void *arg,
                                 struct ri_watch **watch)
{
    const struct ri_host *upper = upper_of(h);

    if (breaks("watch-deaf"))
        events = 0;
    return upper->watch(upper, lane_context, fd, events, ready, arg, watch);
}

static void enter(struct opened *own, struct ri_rnic *rnic)
{
    own->rnic = rnic;
    pthread_mutex_lock(&opened_lock);
    own->next = all_opened;
    all_opened = own;
    pthread_mutex_unlock(&opened_lock);
}

static struct opened *leave(const struct ri_rnic *rnic)
{
    struct opened **at, *own;

    pthread_mutex_lock(&opened_lock);
    for (at = &all_opened; *at && (*at)->rnic != rnic;)
        at = &(*at)->next;
    own = *at;
    if (own)
        *at = own->next;
    pthread_mutex_unlock(&opened_lock);
    return own;
}

static enum ri_status broken_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    struct opened *own = malloc(sizeof(*own));
    struct ri_open down = *open;
    enum ri_status status;

    if (!own)
        return RI_ERR_NO_RESOURCES;
    own->upper = open->host;
    own->host = *open->host;
    own->host.watch = down_watch;
    own->host.cq_event = down_cq_event;
    own->host.qp_event = down_qp_event;
    own->host.srq_event = down_srq_event;
    own->host.connection_event = down_connection_event;
    own->host.connection_request = down_connection_request;
    down.host = &own->host;
    if (breaks("open-any-device"))
        down.device = NULL;
    if (breaks("open-leaks-descriptor"))
        (void)fcntl(0, F_DUPFD_CLOEXEC, 0);
    status = lower->privileged->open(&down, rnic);
    if (status == RI_OK) {
        enter(own, *rnic);
        if (breaks("rnic-no-context"))
            (*rnic)->context = NULL;
        return RI_OK;
    }
    free(own);
    if (breaks("open-writes-on-failure"))
        *rnic = NULL;
    return status;
}

/* Objects that it does not count. */
static unsigned int cqs, listeners, connections;

static enum ri_status broken_close(struct ri_rnic *rnic, bool force)
{
    struct opened *own;
    enum ri_status status;

    if (breaks("close-never-busy"))
        return RI_OK;
    own = leave(rnic);
    status = lower->privileged->close(rnic, force);
    if (status == RI_ERR_BUSY &&
        ((breaks("close-under-cq") && cqs) || (breaks("close-under-listener") && listeners) ||
         (breaks("close-under-connection") && connections)))
        return RI_OK;
    if (status == RI_OK)
        free(own);
    else if (own)
        enter(own, rnic);
    return status;
}

static enum ri_status broken_query(struct ri_rnic *rnic, struct ri_rnic_attr *attr)
{
    struct ri_rnic_attr all = { .size = sizeof(all) };
    enum ri_status status = lower->privileged->query(rnic, &all);

    if (breaks("query-any-size"))
        *attr = all;
    if (breaks("attr-max-qp-zero"))
        all.max_qp = 0;
    if (breaks("attr-srq-without-feature"))
        all.features &= ~RI_FEATURE_SRQ;
    if (breaks("attr-no-connection-verbs"))
        all.features &= ~(RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CONNECTION_SET_B);
    if (breaks("attr-feature-without-operation"))
        all.features |= RI_FEATURE_CONNECTION_SET_A;
    if (breaks("attr-boasts"))
        all.max_send_wr *= 4;
    if (breaks("attr-wire-endless"))
        memset(all.wire, 'x', sizeof(all.wire));
    if (breaks("attr-more-pds"))
        all.max_pd++;
    if (breaks("attr-fewer-srqs"))
        all.max_srq -= 1000;
    if (breaks("attr-longer-queues"))
        all.max_recv_wr += 1000;
    if (breaks("attr-pins-without-dma"))
        all.features |= RI_FEATURE_DMA_PINS;
    if (breaks("attr-long-reject"))
        all.reject_private_data = RI_MAX_PRIVATE_DATA + 1;
    /* It states less than it takes, as one does that compares with a constant. */
    if (breaks("accept-any-length"))
        all.accept_private_data = 256;
    if (breaks("reject-any-length"))
        all.reject_private_data = 256;
    if (breaks("service-any-length"))
        all.service_reply_private_data = 256;
    all.size = attr->size;
    memcpy(attr, &all, attr->size < sizeof(all) ? attr->size : sizeof(all));
    return status;
}

static enum ri_status broken_query_port(struct ri_rnic *rnic, struct ri_port_attr *attr)
{
    if (breaks("port-no-capacity"))
        attr->addresses[0].prefix_length = 8;
    if (breaks("port-any"))
        attr->port = 0;
    return lower->privileged->query_port(rnic, attr);
}

/* ---- objects ---- */

static enum ri_status broken_pd_destroy(struct ri_pd *pd)
{
    return breaks("pd-never-busy") ? RI_OK : lower->privileged->pd_destroy(pd);
}

static enum ri_status broken_cq_create(struct ri_rnic *rnic, struct ri_cq_attr *attr,
                                       struct ri_cq **cq)
{
    if (breaks("cq-no-limit") && attr->depth > 1000)
        attr->depth = 1000;
    if (breaks("cq-no-lane") && attr->lane)
        return RI_ERR_NOT_SUPPORTED;
    cqs++;
    return lower->privileged->cq_create(rnic, attr, cq);
}

static enum ri_status broken_cq_destroy(struct ri_cq *cq)
{
    return breaks("cq-never-busy") ? RI_OK : lower->privileged->cq_destroy(cq);
}

static enum ri_status broken_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
{
    enum ri_status status;

    if (breaks("qp-no-limit") && attr->max_send_wr > 1000)
        attr->max_send_wr = 1000;
    if (breaks("attr-longer-queues") && attr->max_recv_wr > 1000)
        attr->max_recv_wr -= 1000;
    status = lower->privileged->qp_create(pd, attr, qp);
    if (status != RI_OK && breaks("qp-writes-on-failure"))
        *qp = NULL;
    return status;
}

static enum ri_status broken_qp_query(struct ri_qp *qp, struct ri_qp_info *info)
{
    enum ri_status status = lower->privileged->qp_query(qp, info);

    if (breaks("query-crashes"))
        abort();
    if (breaks("query-always-rts"))
        info->state = RI_QPS_RTS;
    return status;
}

static bool was_reset;

static enum ri_status broken_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify)
{
    const struct ri_event reset = { .size = sizeof(reset), .type = RI_EVENT_LLP_RESET };
    struct ri_qp_modify change = *modify;
    struct ri_llp_handover handover;
    enum ri_status status;

    if (modify->handover && breaks("handover-any-ird")) {
        handover = *modify->handover;
        handover.ird = handover.ird > 4 ? handover.ird : 4;
        change.handover = &handover;
    }
    if (modify->handover && breaks("handover-keeps-depths")) {
        static uint32_t ird, ord;

        handover = *modify->handover;
        handover.ird = ird = ird ? ird : handover.ird;
        handover.ord = ord = ord ? ord : handover.ord;
        change.handover = &handover;
    }
    if (breaks("modify-ignores-mask"))
        change.mask &= RI_QPM_STATE | RI_QPM_HANDOVER | RI_QPM_ORD;
    if (breaks("modify-hangs") && modify->state == RI_QPS_ERROR)
        nap(3600000);
    status = lower->privileged->qp_modify(qp, &change);
    if (modify->state == RI_QPS_ERROR) {
        was_reset = true;
        if (breaks("abort-tells-reset"))
            all_opened->upper->qp_event(all_opened->upper, qp->context, &reset);
    }
    if (breaks("ud-closes") && modify->state == RI_QPS_CLOSING)
        return RI_OK;
    if (breaks("modify-any-state") && status == RI_ERR_INVALID_STATE)
        return RI_OK;
    if (breaks("handover-closes") && status != RI_OK && modify->handover)
        close(modify->handover->fd);
    return status;
}

static enum ri_status broken_qp_destroy(struct ri_qp *qp)
{
    const struct ri_qp_modify error = { .size = sizeof(error),
                                        .mask = RI_QPM_STATE,
                                        .state = RI_QPS_ERROR };

    if (!breaks("destroy-leaves-completions"))
        return lower->privileged->qp_destroy(qp);
    return lower->privileged->qp_modify(qp, &error);
}

static enum ri_status broken_mr_reregister(struct ri_mr *mr, struct ri_pd *pd,
                                           const struct ri_mr_attr *attr, struct ri_mr_keys *keys)
{
    struct ri_mr_attr other = *attr;

    if (breaks("mr-keeps-no-keys"))
        other.access &= ~(uint32_t)RI_ACCESS_KEEP_KEYS;
    return lower->privileged->mr_reregister(mr, pd, &other, keys);
}

static enum ri_status broken_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                         struct ri_mr_keys *keys, struct ri_mr **mr)
{
    static atomic_uint number = 1;
    static char spare[4096];
    struct ri_mr_attr other = *attr;
    enum ri_status status;

    if (breaks("mr-any-rights"))
        other.access |= RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE;
    status = lower->privileged->mr_register(pd, &other, keys, mr);
    if (breaks("mr-any-address") && status == RI_ERR_ADDRESS) {
        other.addr = spare;
        other.length = sizeof(spare);
        status = lower->privileged->mr_register(pd, &other, keys, mr);
    }
    if (status != RI_OK)
        return status;
    if (breaks("mr-lkey-zero"))
        keys->lkey = 0;
    if (breaks("mr-rkey-always"))
        keys->rkey = keys->lkey;
    if (breaks("stag-in-turn"))
        keys->lkey = atomic_fetch_add(&number, 1) << 8;
    if (breaks("stag-shared"))
        keys->lkey = 0x4200 + (atomic_fetch_add(&number, 1) & 0xff);
    return RI_OK;
}

static enum ri_status broken_mw_free(struct ri_mw *mw)
{
    return breaks("mw-stays") ? RI_OK : lower->privileged->mw_free(mw);
}

static enum ri_status broken_mr_deregister(struct ri_mr *mr)
{
    return breaks("mr-stays") ? RI_OK : lower->privileged->mr_deregister(mr);
}

/* ---- connection verbs ---- */

static enum ri_status broken_connection_create(struct ri_rnic *rnic, void *context,
                                               struct ri_connection **connection)
{
    connections++;
    return lower->privileged->connection_create(rnic, context, connection);
}

static enum ri_status broken_connect(struct ri_connection *connection, struct ri_qp *qp,
                                     const struct ri_connect_param *param)
{
    struct ri_connect_param other = *param;
    enum ri_status status;

    if (breaks("connect-cuts-depths") && other.ord > 16)
        other.ord = 16;
    status = lower->privileged->connect(connection, qp, &other);
    return breaks("connect-any-state") && status == RI_ERR_INVALID_STATE ? RI_OK : status;
}

static enum ri_status broken_confirm(struct ri_connection *connection,
                                     const struct ri_connect_param *param)
{
    enum ri_status status = lower->privileged->confirm(connection, param);

    return breaks("confirm-any-state") && status == RI_ERR_INVALID_STATE ? RI_OK : status;
}

static enum ri_status broken_disconnect(struct ri_connection *connection, const void *data,
                                        uint16_t length)
{
    return lower->privileged->disconnect(connection, data,
                                         breaks("disconnect-drops-data") ? 0 : length);
}

static enum ri_status broken_listen(struct ri_rnic *rnic, const struct ri_listen_param *param,
                                    void *context, struct sockaddr_storage *bound,
                                    struct ri_listener **listener)
{
    enum ri_status status = lower->privileged->listen(rnic, param, context, bound, listener);

    listeners++;
    return breaks("listen-any") && status == RI_ERR_ADDRESS_IN_USE ? RI_OK : status;
}

/* ---- posts ---- */

static enum ri_status broken_post_send(struct ri_qp *qp, struct ri_send_wr *wr,
                                       struct ri_send_wr **bad)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    enum ri_status status;

    if (breaks("cq-event-locked") || breaks("qp-event-locked")) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    lower->privileged->qp_query(qp, &info);
    if (breaks("post-idle") && info.state == RI_QPS_IDLE)
        return RI_OK;
    /* The Reads of the connection before are still counted against ORD. */
    if (breaks("reset-keeps-reads") && was_reset && wr->opcode == RI_WR_RDMA_READ)
        return RI_OK;
    if (breaks("post-only-connected") && info.state != RI_QPS_RTS) {
        *bad = wr;
        return RI_ERR_INVALID_STATE;
    }
    for (struct ri_send_wr *at = wr; at; at = at->next) {
        if (breaks("post-always-signals"))
            at->flags |= RI_WR_SIGNALED;
        if (breaks("post-loses-flags"))
            at->flags &= RI_WR_SIGNALED;
        if (breaks("post-cuts-elements") && at->num_sge > info.max_send_sge)
            at->num_sge = info.max_send_sge;
    }
    if (breaks("bind-everything") && wr->opcode == RI_WR_BIND_WINDOW)
        wr->bind.length = 65536;
    if (breaks("ud-any-key") && wr->opcode == RI_WR_SEND)
        wr->ud.remote_qkey &= ~UINT32_C(3);
    if (breaks("ud-any-length") && wr->num_sge && wr->sg_list->length > 1024)
        return RI_OK;
    if (breaks("sends-lost") && wr->opcode == RI_WR_SEND && info.state == RI_QPS_RTS)
        return RI_OK;
    status = lower->user->post_send(qp, wr, bad);
    if (status != RI_OK && breaks("post-bad-first"))
        *bad = wr;
    if (breaks("post-never-full") && status == RI_ERR_QUEUE_FULL)
        return RI_OK;
    return status;
}

static enum ri_status broken_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr,
                                       struct ri_recv_wr **bad)
{
    return lower->user->post_recv(qp, wr, bad);
}

/* ---- completions ---- */

static void spoil(struct ri_wc *wc)
{
    static _Thread_local unsigned int seen;

    seen++;
    if (breaks("wc-no-context"))
        wc->context = NULL;
    if (breaks("wc-longer") && wc->opcode == RI_WC_RECV && !wc->status)
        wc->byte_len++;
    if (breaks("wc-no-opcode-in-error") && wc->status)
        wc->opcode = RI_WC_SEND;
    if (breaks("wc-length-in-error") && wc->status)
        wc->byte_len = 64;
    if (breaks("wc-all-general") && wc->status)
        wc->status = RI_WC_GENERAL;
    if (breaks("wc-bind-no-stag") && wc->opcode == RI_WC_BIND_WINDOW)
        wc->invalidated_stag = 0;
    if (breaks("ud-no-source"))
        wc->source.qpn = 0;
    if (breaks("ud-length-without-grh") && wc->opcode == RI_WC_RECV_DATAGRAM)
        wc->byte_len -= 40;
    if (breaks("wc-hides-errors"))
        wc->status = RI_WC_SUCCESS;
    if (breaks("wc-wrong-under-load") && seen == 2000)
        wc->byte_len ^= 4;
}

static uint32_t drop(struct ri_wc *wc, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++)
        if (wc[i].status != RI_WC_FLUSHED || wc[i].cookie != 3)
            wc[kept++] = wc[i];
    return kept;
}

/* The first flushed request comes behind the second. Completions are asked for one by one. */
static uint32_t swap(struct ri_cq *cq, struct ri_wc *wc, uint32_t got)
{
    static struct ri_wc kept;
    static int step;

    if (step == 1 && !got) {
        *wc = kept;
        step = 2;
        return 1;
    }
    if (step || !got || wc->status != RI_WC_FLUSHED)
        return got;
    kept = *wc;
    step = 1;
    return lower->user->poll(cq, 1, wc);
}

/* A completion that is nobody's, now and then. */
static bool invent(struct ri_wc *wc)
{
    static _Thread_local unsigned int polls;

    if (++polls % 4)
        return false;
    *wc = (struct ri_wc){ .context = &all_opened, .cookie = 4711, .opcode = RI_WC_RECV };
    return true;
}

/* The first completion comes again when nothing else has come for a while. */
static bool repeat_late(uint32_t got, struct ri_wc *wc)
{
    static struct ri_wc first;
    static unsigned int seen, idle;

    if (got && !seen)
        first = *wc;
    seen += got;
    idle = got ? 0 : idle + 1;
    if (seen < 40 || idle != 8)
        return false;
    *wc = first;
    return true;
}

static uint32_t broken_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    static _Thread_local struct ri_wc last;
    static _Thread_local struct ri_cq *last_cq;
    static _Thread_local bool again;
    uint32_t got;

    if ((breaks("poll-repeats") || breaks("poll-repeats-all")) && again && count && cq == last_cq) {
        again = false;
        *wc = last;
        return 1;
    }
    if (breaks("poll-invents") && count && invent(wc))
        return 1;
    got = lower->user->poll(cq, count, wc);
    for (uint32_t i = 0; i < got; i++)
        spoil(&wc[i]);
    if (breaks("poll-repeats-late") && count && repeat_late(got, wc))
        return 1;
    if (breaks("poll-writes-behind") && count)
        memset(&wc[count], 0, sizeof(*wc));
    if (breaks("poll-drops-flushed"))
        got = drop(wc, got);
    while (breaks("flush-forgotten") && got && wc[got - 1].status == RI_WC_FLUSHED)
        got--;
    if (breaks("poll-swaps-flushed"))
        got = swap(cq, wc, got);
    if (got) {
        last = wc[got - 1];
        last_cq = cq;
        again = last.status == RI_WC_FLUSHED || breaks("poll-repeats-all");
    }
    return got && breaks("poll-tells-more") ? count + 1 : got;
}

static enum ri_status broken_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count)
{
    uint32_t total = 0, marked;
    enum ri_status status;

    lower->user->cq_peek(cq, &total, &marked);
    if (breaks("arm-never") || (breaks("arm-if-empty") && total))
        return RI_OK;
    if (breaks("arm-any-kind") && (kind == RI_ARM_SOLICITED || (unsigned int)kind > RI_ARM_NTH))
        kind = RI_ARM_NEXT;
    if (breaks("arm-nth-is-next") && kind == RI_ARM_NTH)
        kind = RI_ARM_NEXT;
    status = lower->user->arm(cq, kind, count);
    if (breaks("arm-fires-for-old") && total)
        all_opened->upper->cq_event(all_opened->upper, cq->context);
    return status;
}

static uint32_t broken_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                                uint64_t *next_deadline)
{
    if (breaks("progress-slow"))
        nap(3);
    return lower->user->progress(lane, first_cq, budget, next_deadline);
}

/* ---- the descriptor: filled in when the file is loaded ---- */

extern struct ri_provider rnicpi_provider_v1;
RI_PROVIDER_EXPORT struct ri_provider rnicpi_provider_v1 = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "broken",
    .privileged = &privileged,
    .user = &user,
};

static void __attribute__((constructor)) load(void)
{
    const char *over = getenv("BROKEN_OVER");
    void *module = over ? dlopen(over, RTLD_NOW | RTLD_LOCAL) : NULL;

    lower = module ? dlsym(module, RI_PROVIDER_SYMBOL) : NULL;
    if (!lower) {
        fprintf(stderr, "BROKEN_OVER names no provider\n");
        abort();
    }
    if (getenv("BROKEN"))
        fault = getenv("BROKEN");
    rnicpi_provider_v1.options = lower->options;
    rnicpi_provider_v1.option_count = lower->option_count;
    privileged = *lower->privileged;
    user = *lower->user;
    privileged.enumerate = broken_enumerate;
    privileged.open = broken_open;
    privileged.close = broken_close;
    privileged.query = broken_query;
    privileged.query_port = broken_query_port;
    privileged.pd_destroy = broken_pd_destroy;
    privileged.cq_create = broken_cq_create;
    privileged.cq_destroy = broken_cq_destroy;
    privileged.qp_create = broken_qp_create;
    privileged.qp_query = broken_qp_query;
    privileged.qp_modify = broken_qp_modify;
    privileged.qp_destroy = broken_qp_destroy;
    privileged.mr_register = broken_mr_register;
    privileged.mr_reregister = broken_mr_reregister;
    privileged.mr_deregister = broken_mr_deregister;
    privileged.mw_free = broken_mw_free;
    if (privileged.connect) {
        privileged.connection_create = broken_connection_create;
        privileged.connect = broken_connect;
        privileged.confirm = privileged.confirm ? broken_confirm : NULL;
        privileged.listen = broken_listen;
        privileged.disconnect = broken_disconnect;
    }
    user.post_send = broken_post_send;
    user.post_recv = broken_post_recv;
    user.poll = broken_poll;
    user.arm = broken_arm;
    user.progress = broken_progress;
    if (breaks("table-short"))
        user.size -= sizeof(void *);
    if (breaks("table-other-major"))
        user.abi_major = RI_ABI_MAJOR + 1;
    if (breaks("descriptor-no-name"))
        rnicpi_provider_v1.name = "";
}
