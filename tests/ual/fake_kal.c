/* SPDX-License-Identifier: BSD-3-Clause
 * See fake_kal.h: its state, failures to order, news and their delivery. One lock guards
 * everything; upcalls are made without it. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fake_kal_private.h"

#include "tc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum kind { CONNECTION_EVENT, QP_EVENT, SRQ_EVENT, CQ_EVENT, RNIC_EVENT, REQUEST };

struct news {
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
    struct news *prev, *next;
};

struct fk fk;
pthread_mutex_t fk_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fk_changed = PTHREAD_COND_INITIALIZER;
const struct kal_upper *fk_upper;
struct kal_rnic fk_rnics[FK_RNICS];
struct kal_rnic *fk_rnic;

static enum kal_status failures[FK_CALLS];
static struct news *queue, *waiting;
static unsigned int delivering; /* lanes that are at it */
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

void fk_fail(enum fk_call call, enum kal_status status)
{
    pthread_mutex_lock(&fk_lock);
    failures[call] = status;
    pthread_mutex_unlock(&fk_lock);
}

/* Under lock. */
enum kal_status fk_planned(enum fk_call call)
{
    enum kal_status status = failures[call];

    failures[call] = KAL_OK;
    return status;
}

void fk_violation(const char *what)
{
    fprintf(stderr, "fake kal: %s\n", what);
    fk.violations++;
}

enum kal_status fk_make(unsigned int *count, enum fk_call call)
{
    enum kal_status status;

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

/* --- news --- */

static void wake_lanes(void)
{
    for (unsigned int i = 0; i < FK_RNICS; i++)
        if (fk_rnics[i].lane)
            fk_upper->wake(fk_rnics[i].lane);
}

static void post_news(const struct news *news)
{
    struct news *copy = malloc(sizeof(*copy));

    *copy = *news;
    pthread_mutex_lock(&fk_lock);
    DL_APPEND(queue, copy);
    pthread_mutex_unlock(&fk_lock);
    fk_upper->wake(news->rnic->lane);
}

void fk_connection_event(struct kal_connection *connection, const struct ri_connection_event *event)
{
    post_news(&(struct news){ .kind = CONNECTION_EVENT,
                              .rnic = connection->rnic,
                              .connection = connection,
                              .connection_event = *event });
}

void fk_qp_news(struct fk_qp *qp, const struct ri_event *event)
{
    post_news(&(struct news){ .kind = QP_EVENT, .rnic = qp->rnic, .qp = qp, .event = *event });
}

void fk_qp_event(struct fk_qp *qp, enum ri_event_type type, uint16_t terminate_code)
{
    fk_qp_news(qp, &(struct ri_event){ .size = sizeof(struct ri_event),
                                       .type = type,
                                       .terminate_code = terminate_code });
}

void fk_srq_event(struct fk_srq *srq, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };

    post_news(&(struct news){ .kind = SRQ_EVENT, .rnic = srq->rnic, .srq = srq, .event = event });
}

void fk_cq_event(struct ri_cq *ri, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };
    struct fk_cq *cq = (struct fk_cq *)ri;

    post_news(&(struct news){ .kind = CQ_EVENT, .rnic = cq->rnic, .cq = cq, .event = event });
}

void fk_rnic_event(enum ri_event_type type, uint32_t port)
{
    struct ri_event event = { .size = sizeof(event), .type = type, .port = port };

    post_news(&(struct news){ .kind = RNIC_EVENT, .rnic = fk_rnic, .event = event });
}

void fk_rnic_event_here(enum ri_event_type type)
{
    fk_upper->rnic_event(fk_rnic->context,
                         &(struct ri_event){ .size = sizeof(struct ri_event), .type = type });
}

void fk_request(struct kal_listener *listener, const struct ri_connect_request *request)
{
    post_news(&(struct news){
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

void fk_settle(void)
{
    struct timespec until = tc_timespec(tc_deadline(10000));

    wake_lanes();
    pthread_mutex_lock(&fk_lock);
    while (queue || delivering)
        if (pthread_cond_clockwait(&fk_changed, &fk_lock, CLOCK_MONOTONIC, &until))
            ck_abort_msg("news was not delivered");
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

static void deliver_request(struct news *news)
{
    struct kal_connection *connection = calloc(1, sizeof(*connection));

    connection->undecided = true;
    connection->rnic = news->rnic;
    connection->lane = news->rnic->lane;
    connection->upcall = true;
    connection->thread = pthread_self();
    connection->info.local = news->request.local;
    connection->info.peer = news->request.peer;
    connection->asked = news->request;
    pthread_mutex_lock(&fk_lock);
    fk.connections++;
    fk.connection = connection;
    pthread_mutex_unlock(&fk_lock);
    fk_upper->connection_request(news->listener->context, connection, &news->request,
                                 &connection->context);
    pthread_mutex_lock(&fk_lock);
    connection->upcall = false;
    if (connection->deferred) { /* nobody else knows of it */
        struct news *copy = malloc(sizeof(*copy));

        *copy = *news;
        DL_APPEND(waiting, copy);
        fk.waiting++;
        fk.connections--;
        fk.connection = NULL;
    }
    if (connection->deferred || connection->dropped)
        free(connection);
    news->listener->upcall = false;
    pthread_cond_broadcast(&fk_changed);
    pthread_mutex_unlock(&fk_lock);
}

void kal_defer(struct kal_connection *connection)
{
    if (!connection->upcall || !pthread_equal(connection->thread, pthread_self()))
        fk_violation("a request is deferred outside its upcall");
    connection->deferred = true;
}

void kal_listen_room(struct kal_listener *listener)
{
    struct news *news, *next;

    pthread_mutex_lock(&fk_lock);
    DL_FOREACH_SAFE (waiting, news, next) {
        if (news->listener != listener)
            continue;
        DL_DELETE(waiting, news);
        DL_APPEND(queue, news);
        fk.waiting--;
    }
    pthread_mutex_unlock(&fk_lock);
    fk_upper->wake(listener->rnic->lane);
}

static void deliver(struct news *news)
{
    switch (news->kind) {
    case CONNECTION_EVENT:
        fk_upper->connection_event(news->connection->context, &news->connection_event);
        break;
    case QP_EVENT: fk_upper->qp_event(news->qp->ri.context, &news->event); break;
    case SRQ_EVENT: fk_upper->srq_event(news->srq->ri.context, &news->event); break;
    case CQ_EVENT: fk_upper->cq_error(news->cq->ri.context, &news->event); break;
    case RNIC_EVENT: fk_upper->rnic_event(news->rnic->context, &news->event); break;
    case REQUEST: deliver_request(news); return;
    }
    pthread_mutex_lock(&fk_lock);
    if (news->connection)
        news->connection->upcall = false;
    if (news->qp)
        news->qp->upcall = false;
    if (news->srq)
        news->srq->upcall = false;
    if (news->cq)
        news->cq->upcall = false;
    pthread_cond_broadcast(&fk_changed);
    pthread_mutex_unlock(&fk_lock);
}

/* Under lock. */
static struct news *first_news(const void *lane)
{
    struct news *news;

    DL_SEARCH_SCALAR(queue, news, rnic->lane, lane);
    return held ? NULL : news;
}

static struct news *next_news(const void *lane)
{
    struct news *news;

    pthread_mutex_lock(&fk_lock);
    news = first_news(lane);
    if (news) {
        DL_DELETE(queue, news);
        delivering++;
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
        if (news->cq)
            news->cq->upcall = true;
        if (news->listener)
            news->listener->upcall = true;
    }
    pthread_mutex_unlock(&fk_lock);
    return news;
}

uint32_t fk_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget, uint64_t *next)
{
    struct news *news;
    uint32_t done = 0;

    (void)first;
    (void)budget;
    *next = RI_NO_DEADLINE;
    while ((news = next_news(lane->context))) {
        deliver(news);
        free(news);
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

/* Under lock: what is queued about an object goes, an upcall in another thread is waited for. */
void fk_forget(const void *object, const bool *upcall)
{
    struct news *news, *next;

    DL_FOREACH_SAFE (queue, news, next) {
        if (news->connection != object && (void *)news->qp != object &&
            (void *)news->srq != object && (void *)news->cq != object &&
            (void *)news->listener != object)
            continue;
        DL_DELETE(queue, news);
        free(news);
    }
    while (*upcall)
        pthread_cond_wait(&fk_changed, &fk_lock);
    DL_FOREACH_SAFE (waiting, news, next) {
        if ((void *)news->listener != object)
            continue;
        DL_DELETE(waiting, news);
        free(news);
        fk.waiting--;
    }
    pthread_cond_broadcast(&fk_changed);
}
