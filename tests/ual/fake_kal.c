/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fake_kal.h: its state, ordered failures, queued events and their delivery. One lock guards
 * everything; upcalls are made without it.
 */
#include "fake_kal_private.h"

#include "tc.h"

#include <utlist.h>

enum kind { CONNECTION_EVENT, QP_EVENT, SRQ_EVENT, CQ_EVENT, RNIC_EVENT, REQUEST };

struct queued_event {
    enum kind kind;
    struct kal_rnic *rnic;
    struct kal_connection *connection;
    struct fk_qp *qp;
    struct fk_srq *srq;
    struct fk_cq *cq;
    struct kal_listener *listener;
    struct ri_connection_event connection_event;
    struct ri_event event;
    struct ri_connect_request request;
    struct queued_event *prev, *next;
};

struct fk fk;
pthread_mutex_t fk_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fk_changed = PTHREAD_COND_INITIALIZER;
const struct kal_upper *fk_upper;
struct kal_rnic fk_rnics[FK_RNICS];
struct kal_rnic *fk_rnic;

static enum ri_status failures[FK_CALLS];
static struct queued_event *queue, *waiting;
static unsigned int delivering; /* lanes that deliver now */
static bool held;

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

void fk_fail(enum fk_call call, enum ri_status status)
{
    pthread_mutex_lock(&fk_lock);
    failures[call] = status;
    pthread_mutex_unlock(&fk_lock);
}

/* Under lock. */
enum ri_status fk_planned(enum fk_call call)
{
    enum ri_status status = failures[call];

    failures[call] = RI_OK;
    return status;
}

void fk_violation(const char *what)
{
    fprintf(stderr, "fake kal: %s\n", what);
    fk.violations++;
}

enum ri_status fk_make(unsigned int *count, enum fk_call call)
{
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = fk_planned(call);
    if (!status)
        ++*count;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

void fk_gone(unsigned int *count)
{
    pthread_mutex_lock(&fk_lock);
    --*count;
    pthread_mutex_unlock(&fk_lock);
}

void *fk_new(size_t size, unsigned int *count)
{
    void *made = calloc(1, size);

    if (!made)
        fk_gone(count);
    return made;
}

/* --- queued events --- */

static void wake_lanes(void)
{
    for (unsigned int i = 0; i < FK_RNICS; i++)
        if (fk_rnics[i].lane)
            fk_upper->wake(fk_rnics[i].lane);
}

static void post_event(const struct queued_event *queued_event)
{
    struct queued_event *copy = malloc(sizeof(*copy));

    *copy = *queued_event;
    pthread_mutex_lock(&fk_lock);
    DL_APPEND(queue, copy);
    pthread_mutex_unlock(&fk_lock);
    fk_upper->wake(queued_event->rnic->lane);
}

void fk_connection_event(struct kal_connection *connection, const struct ri_connection_event *event)
{
    post_event(&(struct queued_event){ .kind = CONNECTION_EVENT,
                                       .rnic = connection->rnic,
                                       .connection = connection,
                                       .connection_event = *event });
}

void fk_qp_post(struct fk_qp *qp, const struct ri_event *event)
{
    post_event(
        &(struct queued_event){ .kind = QP_EVENT, .rnic = qp->rnic, .qp = qp, .event = *event });
}

void fk_qp_event(struct fk_qp *qp, enum ri_event_type type, uint16_t terminate_code)
{
    fk_qp_post(qp, &(struct ri_event){ .size = sizeof(struct ri_event),
                                       .type = type,
                                       .terminate_code = terminate_code });
}

void fk_srq_event(struct fk_srq *srq, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };

    post_event(
        &(struct queued_event){ .kind = SRQ_EVENT, .rnic = srq->rnic, .srq = srq, .event = event });
}

void fk_cq_event(struct ri_cq *ri, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };
    struct fk_cq *cq = (struct fk_cq *)ri;

    post_event(
        &(struct queued_event){ .kind = CQ_EVENT, .rnic = cq->rnic, .cq = cq, .event = event });
}

void fk_rnic_event(enum ri_event_type type, uint32_t port)
{
    struct ri_event event = { .size = sizeof(event), .type = type, .port = port };

    post_event(&(struct queued_event){ .kind = RNIC_EVENT, .rnic = fk_rnic, .event = event });
}

void fk_rnic_event_here(enum ri_event_type type)
{
    fk_upper->rnic_event(fk_rnic->context,
                         &(struct ri_event){ .size = sizeof(struct ri_event), .type = type });
}

void fk_request(struct kal_listener *listener, const struct ri_connect_request *request)
{
    post_event(&(struct queued_event){
        .kind = REQUEST, .rnic = listener->rnic, .listener = listener, .request = *request });
}

void fk_establish(struct kal_connection *connection)
{
    struct ri_connection_event event = connection->info;

    pthread_mutex_lock(&fk_lock);
    if (connection->qp)
        connection->qp->state = RI_QPS_RTS;
    pthread_mutex_unlock(&fk_lock);
    event.type = RI_CONNECTION_ESTABLISHED;
    fk_connection_event(connection, &event);
}

void fk_end(struct fk_qp *qp, enum ri_event_type type)
{
    fk_to_error(qp);
    fk_qp_event(qp, type, 0);
}

void fk_withdraw(struct kal_connection *connection, bool with_event)
{
    pthread_mutex_lock(&fk_lock);
    connection->withdrawn = true;
    pthread_mutex_unlock(&fk_lock);
    if (with_event)
        fk_connection_event(connection,
                            &(struct ri_connection_event){ .type = RI_CONNECTION_FAILED });
}

void fk_drain(void)
{
    struct timespec until = tc_timespec(tc_deadline(10000));

    wake_lanes();
    pthread_mutex_lock(&fk_lock);
    while (queue || delivering)
        if (pthread_cond_clockwait(&fk_changed, &fk_lock, CLOCK_MONOTONIC, &until))
            ck_abort_msg("queued_event was not delivered");
    pthread_mutex_unlock(&fk_lock);
}

void fk_hold(bool hold)
{
    pthread_mutex_lock(&fk_lock);
    held = hold;
    pthread_mutex_unlock(&fk_lock);
    if (!hold)
        wake_lanes();
}

static void deliver_request(struct queued_event *queued_event)
{
    struct kal_connection *connection = calloc(1, sizeof(*connection));

    connection->undecided = true;
    connection->rnic = queued_event->rnic;
    connection->lane = queued_event->rnic->lane;
    connection->upcall = true;
    connection->thread = pthread_self();
    connection->info.local = queued_event->request.local;
    connection->info.peer = queued_event->request.peer;
    connection->asked = queued_event->request;
    pthread_mutex_lock(&fk_lock);
    fk.connections++;
    fk.connection = connection;
    pthread_mutex_unlock(&fk_lock);
    fk_upper->connection_request(queued_event->listener->context, connection,
                                 &queued_event->request, &connection->context);
    pthread_mutex_lock(&fk_lock);
    connection->upcall = false;
    if (connection->deferred) { /* no other reference exists */
        struct queued_event *copy = malloc(sizeof(*copy));

        *copy = *queued_event;
        DL_APPEND(waiting, copy);
        fk.waiting++;
        fk.connections--;
        fk.connection = NULL;
    }
    if (connection->deferred || connection->dropped)
        free(connection);
    queued_event->listener->upcall = false;
    pthread_cond_broadcast(&fk_changed);
    pthread_mutex_unlock(&fk_lock);
}

void kal_defer(struct kal_connection *connection)
{
    if (!connection->upcall || !pthread_equal(connection->thread, pthread_self()))
        fk_violation("a request is deferred outside its upcall");
    connection->deferred = true;
}

void kal_listen_advise(struct kal_listener *listener, const char *advice)
{
    (void)listener;
    (void)advice;
}

/* Verbs only; no test of ual feeds a listener. */
enum ri_status kal_listen_fed(struct kal_rnic *rnic, void *lane, const struct sockaddr *address,
                              uint32_t backlog, void *context, struct kal_listener **listener)
{
    (void)rnic;
    (void)lane;
    (void)address;
    (void)backlog;
    (void)context;
    (void)listener;
    return RI_ERR_NOT_SUPPORTED;
}

enum ri_status kal_listen_feed(struct kal_listener *listener, int fd)
{
    (void)listener;
    (void)fd;
    return RI_ERR_INVALID_ARGUMENT;
}

void kal_listen_room(struct kal_listener *listener)
{
    struct queued_event *queued_event, *next;

    pthread_mutex_lock(&fk_lock);
    DL_FOREACH_SAFE (waiting, queued_event, next) {
        if (queued_event->listener != listener)
            continue;
        DL_DELETE(waiting, queued_event);
        DL_APPEND(queue, queued_event);
        fk.waiting--;
    }
    pthread_mutex_unlock(&fk_lock);
    fk_upper->wake(listener->rnic->lane);
}

static void deliver(struct queued_event *queued_event)
{
    switch (queued_event->kind) {
    case CONNECTION_EVENT:
        fk_upper->connection_event(queued_event->connection->context,
                                   &queued_event->connection_event);
        break;
    case QP_EVENT: fk_upper->qp_event(queued_event->qp->ri.context, &queued_event->event); break;
    case SRQ_EVENT: fk_upper->srq_event(queued_event->srq->ri.context, &queued_event->event); break;
    case CQ_EVENT: fk_upper->cq_error(queued_event->cq->ri.context, &queued_event->event); break;
    case RNIC_EVENT: fk_upper->rnic_event(queued_event->rnic->context, &queued_event->event); break;
    case REQUEST: deliver_request(queued_event); return;
    }
    pthread_mutex_lock(&fk_lock);
    if (queued_event->connection)
        queued_event->connection->upcall = false;
    if (queued_event->qp)
        queued_event->qp->upcall = false;
    if (queued_event->srq)
        queued_event->srq->upcall = false;
    if (queued_event->cq)
        queued_event->cq->upcall = false;
    pthread_cond_broadcast(&fk_changed);
    pthread_mutex_unlock(&fk_lock);
}

/* Under lock. */
static struct queued_event *first_news(const void *lane)
{
    struct queued_event *queued_event;

    DL_SEARCH_SCALAR(queue, queued_event, rnic->lane, lane);
    return held ? NULL : queued_event;
}

static struct queued_event *next_news(const void *lane)
{
    struct queued_event *queued_event;

    pthread_mutex_lock(&fk_lock);
    queued_event = first_news(lane);
    if (queued_event) {
        DL_DELETE(queue, queued_event);
        delivering++;
        if (queued_event->connection) {
            queued_event->connection->upcall = true;
            if (queued_event->connection_event.type == RI_CONNECTION_FAILED)
                queued_event->connection->withdrawn =
                    true; /* the connection ended before it was reported */
            queued_event->connection->thread = pthread_self();
        }
        if (queued_event->qp)
            queued_event->qp->upcall = true;
        if (queued_event->srq)
            queued_event->srq->upcall = true;
        if (queued_event->cq)
            queued_event->cq->upcall = true;
        if (queued_event->listener)
            queued_event->listener->upcall = true;
    }
    pthread_mutex_unlock(&fk_lock);
    return queued_event;
}

uint32_t fk_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget, uint64_t *next)
{
    struct queued_event *queued_event;
    uint32_t done = 0;

    (void)first;
    (void)budget;
    *next = RI_NO_DEADLINE;
    while ((queued_event = next_news(lane->context))) {
        deliver(queued_event);
        free(queued_event);
        done++;
        pthread_mutex_lock(&fk_lock);
        delivering--;
        pthread_cond_broadcast(&fk_changed);
        pthread_mutex_unlock(&fk_lock);
    }
    return done;
}

bool fk_lane_arm(struct ri_lane *lane)
{
    bool idle;

    pthread_mutex_lock(&fk_lock);
    idle = !first_news(lane->context);
    pthread_mutex_unlock(&fk_lock);
    return idle;
}

/* Under lock: drops what is queued about an object, and waits for an upcall about it in another
 * thread. */
void fk_forget(const void *object, const bool *upcall)
{
    struct queued_event *queued_event, *next;

    DL_FOREACH_SAFE (queue, queued_event, next) {
        if (queued_event->connection != object && (void *)queued_event->qp != object &&
            (void *)queued_event->srq != object && (void *)queued_event->cq != object &&
            (void *)queued_event->listener != object)
            continue;
        DL_DELETE(queue, queued_event);
        free(queued_event);
    }
    while (*upcall)
        pthread_cond_wait(&fk_changed, &fk_lock);
    DL_FOREACH_SAFE (waiting, queued_event, next) {
        if ((void *)queued_event->listener != object)
            continue;
        DL_DELETE(waiting, queued_event);
        free(queued_event);
        fk.waiting--;
    }
    pthread_cond_broadcast(&fk_changed);
}
