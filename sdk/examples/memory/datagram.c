/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable datagrams: each UD QP has a UNIX datagram socket, whose name is the QP's number. A
 * datagram that finds no such QP, no room, no receive or another Q_Key is lost.
 */
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct head {
    uint32_t qkey, from, solicited;
};

static socklen_t mailbox_name(struct sockaddr_un *name, uint32_t number)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
           (socklen_t)sprintf(name->sun_path + 1, "ital-memory/qp/%u", number);
}

/* ---- address handles ---- */

static enum ri_status check_way(const struct ri_ah_attr *attr)
{
    static const uint8_t any[16];

    if (!attr->global || attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    return memcmp(attr->source_gid, any, sizeof(any)) &&
                   memcmp(attr->source_gid, own_gid, sizeof(any))
               ? RI_ERR_UNREACHABLE
               : RI_OK;
}

static bool is_here(const struct ri_ah_attr *attr)
{
    return !memcmp(attr->destination_gid, own_gid, sizeof(own_gid));
}

enum ri_status vp_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **out)
{
    enum ri_status status = check_way(attr);
    struct ah *ah;

    if (status != RI_OK)
        return status;
    ah = calloc(1, sizeof(*ah));
    if (!ah || ri_mem_ah_open(&ah->mem, pd, attr->context) != RI_OK) {
        free(ah);
        return RI_ERR_NO_RESOURCES;
    }
    ah->here = is_here(attr);
    *out = &ah->mem.base;
    return RI_OK;
}

enum ri_status vp_ah_modify(struct ri_ah *base, const struct ri_ah_attr *attr)
{
    struct ah *ah = (struct ah *)base;
    enum ri_status status = check_way(attr);

    if (status == RI_OK)
        ah->here = is_here(attr);
    return status;
}

/* ---- sending ---- */

/* False: the destination has no room now. */
static bool send_one(struct qp *qp, const struct ri_request *request)
{
    struct head head = { .qkey = request->rkey,
                         .from = qp->rc.qp.number,
                         .solicited = request->flags & RI_WR_SOLICITED };
    struct iovec parts[1 + MAX_SGE] = { { &head, sizeof(head) } };
    struct sockaddr_un name;
    struct msghdr message = { .msg_name = &name,
                              .msg_namelen = mailbox_name(&name, request->remote_qpn),
                              .msg_iov = parts,
                              .msg_iovlen = 1 + request->num_sge };

    for (uint32_t i = 0; i < request->num_sge; i++)
        parts[1 + i] = (struct iovec){ (void *)(uintptr_t)request->sges[i].addr,
                                       request->sges[i].length };
    return !((const struct ah *)request->ah)->here ||
           sendmsg(qp->mailbox->watched.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
           errno != EAGAIN;
}

#define PATIENCE UINT64_C(1000000000) /* ns: the other side may be short of time */
#define RETRY    UINT64_C(50000)      /* ns */

/* True: the datagram waits. */
static bool waits(struct mailbox *mailbox)
{
    uint64_t now = ri_now();

    if (!mailbox->patience)
        mailbox->patience = now + PATIENCE;
    if (now >= mailbox->patience)
        return false; /* lost */
    mailbox->rnic->mem.host->wake(mailbox->rnic->mem.host, mailbox->rnic->mem.lane.context);
    return true;
}

uint32_t send_datagrams(struct qp *qp)
{
    struct ri_queue *queue = &qp->rc.qp.send;
    const struct ri_request *request;
    uint32_t done = 0;

    while (qp->rc.qp.state == RI_QPS_RTS && (request = ri_queue_oldest(queue))) {
        if (!ri_mem_elements_are_good(&qp->rc.qp, request, RI_ACCESS_LOCAL_READ)) {
            ri_queue_finish(queue, RI_WC_LOCAL_PROTECTION);
            ri_mem_qp_end(&qp->rc.qp, RI_EVENT_LOCAL_ERROR, 0, true);
            return done;
        }
        if (!send_one(qp, request) && waits(qp->mailbox))
            return done;
        qp->mailbox->patience = 0;
        ri_queue_finish(queue, RI_WC_SUCCESS);
        done++;
    }
    return done;
}

uint64_t mailboxes_serve(struct rnic *rnic)
{
    uint64_t next = RI_NO_DEADLINE;
    struct mailbox *mailbox;

    TAILQ_FOREACH(mailbox, &rnic->mailboxes, link)
    {
        if (!mailbox->patience || !mailbox->qp || mailbox->qp->rc.qp.state != RI_QPS_RTS)
            continue;
        if (send_datagrams(mailbox->qp)) /* the completions */
            ri_upcall_defer(&rnic->mem.upcalls, &mailbox->qp->rc.qp.deferred);
        if (mailbox->patience)
            next = ri_now() + RETRY;
    }
    return next;
}

/* ---- receiving ---- */

static void take_datagram(struct qp *qp, const struct head *head, uint8_t *octets, uint32_t length)
{
    struct ri_queue *queue = &qp->rc.qp.receive;
    struct ri_request *into = ri_queue_oldest(queue);

    if (qp->rc.qp.state != RI_QPS_RTS || head->qkey != qp->rc.qp.qkey || !into ||
        into->length < length)
        return;
    if (!ri_mem_elements_are_good(&qp->rc.qp, into, RI_ACCESS_LOCAL_WRITE)) {
        ri_queue_finish(queue, RI_WC_LOCAL_PROTECTION);
        ri_mem_qp_end(&qp->rc.qp, RI_EVENT_LOCAL_ERROR, 0, true);
        return;
    }
    ri_mem_copy(&qp->rc.qp, into, 0, length, octets, RI_ACCESS_LOCAL_WRITE);
    into->moved = length;
    into->remote_qpn = head->from;
    into->solicited = head->solicited;
    ri_queue_finish(queue, RI_WC_SUCCESS);
}

/* What the library does not know of a datagram's completion. */
static void fill(const struct ri_queue *queue, const struct ri_request *request, struct ri_wc *wc)
{
    (void)queue;
    wc->opcode = RI_WC_RECV_DATAGRAM;
    if (wc->status)
        return;
    wc->flags |= RI_WC_GRH;
    wc->source.qpn = request->remote_qpn;
    memcpy(wc->source_gid, own_gid, sizeof(wc->source_gid));
}

/* The GRH is put together here: sender and receiver have the same GID. */
static void ready(void *arg, uint32_t events)
{
    uint8_t octets[GRH + MAX_UD] = { 0 };
    struct mailbox *mailbox = arg;
    struct head head;
    struct iovec parts[2] = { { &head, sizeof(head) }, { octets + GRH, MAX_UD } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    struct rnic *rnic = mailbox->rnic;
    ssize_t got;

    (void)events;
    memcpy(octets + 8, own_gid, sizeof(own_gid));
    memcpy(octets + 24, own_gid, sizeof(own_gid));
    pthread_mutex_lock(&rnic->mem.lock);
    if (!mailbox->qp) {
        pthread_mutex_unlock(&rnic->mem.lock);
        return;
    }
    for (int i = 0; i < 64; i++) {
        got = recvmsg(mailbox->watched.fd, &message, MSG_DONTWAIT);
        if (got < 0)
            break;
        if (got >= (ssize_t)sizeof(head) && !(message.msg_flags & MSG_TRUNC))
            take_datagram(mailbox->qp, &head, octets, GRH + (uint32_t)got - (uint32_t)sizeof(head));
    }
    ri_mem_report(&mailbox->qp->rc.qp);
}

/* ---- mailboxes ---- */

static void gone(struct ri_watched *watched)
{
    struct mailbox *mailbox = (struct mailbox *)watched;

    close(watched->fd);
    pthread_mutex_lock(&mailbox->rnic->mem.lock);
    TAILQ_REMOVE(&mailbox->rnic->mailboxes, mailbox, link);
    pthread_mutex_unlock(&mailbox->rnic->mem.lock);
    free(mailbox);
}

/* The number is the host's; the first one may be taken. */
static enum ri_status bind_any(struct qp *qp, int fd)
{
    struct sockaddr_un name;

    for (int i = 0; i < 100; i++) {
        socklen_t length = mailbox_name(&name, qp->rc.qp.number);

        if (!bind(fd, (struct sockaddr *)&name, length))
            return RI_OK;
        ri_mem_qp_renumber(&qp->rc.qp);
    }
    return RI_ERR_NO_RESOURCES;
}

enum ri_status mailbox_open(struct qp *qp)
{
    struct mailbox *mailbox = calloc(1, sizeof(*mailbox));
    struct rnic *rnic = (struct rnic *)qp->rc.qp.rnic;
    enum ri_status status = RI_ERR_NO_RESOURCES;

    if (!mailbox)
        return RI_ERR_NO_RESOURCES;
    mailbox->rnic = rnic;
    mailbox->qp = qp;
    mailbox->watched.gone = gone;
    mailbox->watched.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    pthread_mutex_lock(&rnic->mem.lock);
    if (mailbox->watched.fd >= 0)
        status = bind_any(qp, mailbox->watched.fd);
    if (status == RI_OK)
        status = ri_watched_add(&rnic->mem.leaving, &mailbox->watched, EPOLLIN, ready, mailbox);
    if (status == RI_OK) {
        TAILQ_INSERT_TAIL(&rnic->mailboxes, mailbox, link);
        qp->mailbox = mailbox;
        qp->rc.qp.receive.fill = fill;
    }
    pthread_mutex_unlock(&rnic->mem.lock);
    if (status != RI_OK) {
        if (mailbox->watched.fd >= 0)
            close(mailbox->watched.fd);
        free(mailbox);
    }
    return status;
}

void mailbox_close(struct qp *qp)
{
    if (!qp->mailbox)
        return;
    qp->mailbox->qp = NULL;
    ri_unwatch_later(&qp->rc.qp.rnic->leaving, &qp->mailbox->watched);
}
