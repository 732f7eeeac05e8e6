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

enum ri_status vp_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr, struct ri_ah **out)
{
    enum ri_status status = check_way(attr);
    struct pd *pd = (struct pd *)base;
    struct ah *ah;

    if (status != RI_OK)
        return status;
    ah = calloc(1, sizeof(*ah));
    if (!ah || !count_object(pd->rnic, AHS, 1)) {
        free(ah);
        return RI_ERR_NO_RESOURCES;
    }
    ah->base = (struct ri_ah){ base->ops, attr->context };
    ah->pd = pd;
    ah->here = is_here(attr);
    pthread_mutex_lock(&pd->rnic->lock);
    pd->users++;
    pthread_mutex_unlock(&pd->rnic->lock);
    *out = &ah->base;
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

enum ri_status vp_ah_destroy(struct ri_ah *base)
{
    struct ah *ah = (struct ah *)base;

    pthread_mutex_lock(&ah->pd->rnic->lock);
    ah->pd->users--;
    pthread_mutex_unlock(&ah->pd->rnic->lock);
    count_object(ah->pd->rnic, AHS, -1);
    free(ah);
    return RI_OK;
}

/* ---- sending ---- */

/* False: the destination has no room now. */
static bool send_one(struct qp *qp, const struct request *request)
{
    struct head head = { .qkey = request->rkey,
                         .from = qp->number,
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
    return !request->ah->here ||
           sendmsg(qp->mailbox->watched.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
           errno != EAGAIN;
}

#define PATIENCE UINT64_C(1000000000) /* ns: the other side may be short of time */
#define RETRY    UINT64_C(50000)      /* ns */

/* True: the datagram waits. */
static bool waits(struct mailbox *mailbox)
{
    uint64_t now = now_ns();

    if (!mailbox->patience)
        mailbox->patience = now + PATIENCE;
    if (now >= mailbox->patience)
        return false; /* lost */
    mailbox->rnic->host->wake(mailbox->rnic->host, mailbox->rnic->lane.context);
    return true;
}

uint32_t send_datagrams(struct qp *qp)
{
    uint32_t done = 0;

    while (qp->send.done != ri_ring_tail(&qp->send.ring)) {
        const struct request *request = request_at(&qp->send, qp->send.done);

        if (!elements_are_good(qp, request, RI_ACCESS_LOCAL_READ)) {
            finish(&qp->send, RI_WC_LOCAL_PROTECTION);
            qp_end(qp, RI_EVENT_LOCAL_ERROR, 0, true);
            return done;
        }
        if (!send_one(qp, request) && waits(qp->mailbox))
            return done;
        qp->mailbox->patience = 0;
        finish(&qp->send, RI_WC_SUCCESS);
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
        if (!mailbox->patience || !mailbox->qp || mailbox->qp->state != RI_QPS_RTS)
            continue;
        if (send_datagrams(mailbox->qp))
            tell_later(rnic, &mailbox->qp->teller); /* the completions */
        if (mailbox->patience)
            next = now_ns() + RETRY;
    }
    return next;
}

/* ---- receiving ---- */

static void take_datagram(struct qp *qp, const struct head *head, uint8_t *octets, uint32_t length)
{
    struct request *into = request_at(&qp->receive, qp->receive.done);

    if (qp->state != RI_QPS_RTS || head->qkey != qp->qkey ||
        qp->receive.done == ri_ring_tail(&qp->receive.ring) || into->length < length)
        return;
    if (!elements_are_good(qp, into, RI_ACCESS_LOCAL_WRITE)) {
        finish(&qp->receive, RI_WC_LOCAL_PROTECTION);
        qp_end(qp, RI_EVENT_LOCAL_ERROR, 0, true);
        return;
    }
    copy(qp, into, 0, length, octets, RI_ACCESS_LOCAL_WRITE);
    into->moved = length;
    into->remote_qpn = head->from;
    into->solicited = head->solicited;
    finish(&qp->receive, RI_WC_SUCCESS);
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
    pthread_mutex_lock(&rnic->lock);
    if (!mailbox->qp) {
        pthread_mutex_unlock(&rnic->lock);
        return;
    }
    for (int i = 0; i < 64; i++) {
        got = recvmsg(mailbox->watched.fd, &message, MSG_DONTWAIT);
        if (got < 0)
            break;
        if (got >= (ssize_t)sizeof(head) && !(message.msg_flags & MSG_TRUNC))
            take_datagram(mailbox->qp, &head, octets, GRH + (uint32_t)got - (uint32_t)sizeof(head));
    }
    report(mailbox->qp);
}

/* ---- mailboxes ---- */

static void gone(struct ri_watched *watched)
{
    struct mailbox *mailbox = (struct mailbox *)watched;

    close(watched->fd);
    pthread_mutex_lock(&mailbox->rnic->lock);
    TAILQ_REMOVE(&mailbox->rnic->mailboxes, mailbox, link);
    pthread_mutex_unlock(&mailbox->rnic->lock);
    free(mailbox);
}

/* The number is the host's; the first one may be taken. */
static enum ri_status bind_any(struct qp *qp, int fd)
{
    struct sockaddr_un name;

    for (int i = 0; i < 100; i++) {
        socklen_t length = mailbox_name(&name, qp->number);

        if (!bind(fd, (struct sockaddr *)&name, length))
            return RI_OK;
        qp->number = ((qp->number + 1) & 0xffffff) | 2;
    }
    return RI_ERR_NO_RESOURCES;
}

enum ri_status mailbox_open(struct qp *qp)
{
    struct mailbox *mailbox = calloc(1, sizeof(*mailbox));
    struct rnic *rnic = qp->rnic;
    enum ri_status status = RI_ERR_NO_RESOURCES;

    if (!mailbox)
        return RI_ERR_NO_RESOURCES;
    mailbox->rnic = rnic;
    mailbox->qp = qp;
    mailbox->watched.gone = gone;
    mailbox->watched.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    pthread_mutex_lock(&rnic->lock);
    if (mailbox->watched.fd >= 0)
        status = bind_any(qp, mailbox->watched.fd);
    if (status == RI_OK)
        status = ri_watched_add(&rnic->leaving, &mailbox->watched, EPOLLIN, ready, mailbox);
    if (status == RI_OK) {
        TAILQ_INSERT_TAIL(&rnic->mailboxes, mailbox, link);
        qp->mailbox = mailbox;
    }
    pthread_mutex_unlock(&rnic->lock);
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
    ri_unwatch_later(&qp->rnic->leaving, &qp->mailbox->watched);
}
