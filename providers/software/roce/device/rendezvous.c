/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous of two QPs of this host, which go on by the wire local then: both or neither.
 *
 * Each RNIC that takes part listens at a Unix name of its slot, which the low bits of a QPN tell.
 * An end that comes to RTR with a peer of this host holds its requests, connects to the peer's
 * listener, and asks. Both ends ask; the question of the end with the lower GID and QPN is the one
 * that is answered, that of the other one says only that it has come, and brings a refusal.
 *
 *   lower end                       higher end
 *   RTR: ASK ---------------------> in INIT: kept; in RTR: local_make
 *   local_take      <-------------- OFFER, with the memory; its own question ends
 *   TAKEN ------------------------> COMMIT is sent: it goes on by the wire local
 *   goes on by it   <-------------- COMMIT
 *
 * The decision of an end:
 *
 *   NONE --- RTR ---> OPEN --- COMMIT is sent, or has come --------------------------> LOCAL
 *                       |----- the peer's listener is not there, NO has come,
 *                       |      a limit; the stream of the question or of the
 *                       |      offer ends --------------------------------------------> UDP
 *   UDP, LOCAL --- leaves RTS ---> LOCAL --- reset ---> NONE
 *
 * BOTH OR NEITHER. An end whose decision is UDP or LOCAL answers each question by NO, and nobody
 * comes to LOCAL without an answer. The higher end comes to LOCAL when it has TAKEN, behind which
 * the lower one comes to UDP only by the end of the stream; COMMIT is read before that end. An end
 * that decides UDP ends its streams, which the peer sees: as the end of a question that was not
 * answered yet it means nothing, for the peer's own question gets NO.
 *
 * TIME. While it is OPEN nothing is sent, and packets are dropped. A peer that is not in RTR could
 * not take packets either: so requests wait as long as for its acknowledgements (local_wire.c), and
 * a question waits in the peer's process as long as its QP lives and is not reset.
 *
 * TRUST. Both sides are processes of one user: the kernel tells who listens, and who has connected.
 * Another user who takes a name keeps others of this host on UDP.
 *
 * LOCKS. meet.lock guards all of it. tx is entered with it held, so nobody inside tx takes it. The
 * host's unwatch waits for callbacks, which take it: what has ended is buried behind it.
 */
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

#define NOT_PASSED           "the memory could not be passed (ulimit -n)"
#define PEER_HAS_LEFT        "the peer's queue pair or its process has left"
#define SHORT_OF_DESCRIPTORS "three quarters of the descriptors are in use (ulimit -n)"

enum talk_state {
    TALK_NEW,     /* somebody has connected */
    TALK_PENDING, /* it has asked, and is not answered */
    TALK_OFFERED,
    TALK_ASKED, /* this side has */
    TALK_TAKING,
};

/* A connection with another process, or with this one. */
struct roce_talk {
    struct roce_talk *prev, *next; /* of meet.talks, or of meet.ended */
    struct roce_rnic *device;
    struct roce_qp *qp; /* NULL: of none yet, or it has ended */
    struct ri_watch *watch;
    struct ri_local *memory; /* TALK_OFFERED, TALK_TAKING */
    struct meet_pair pair;   /* TALK_PENDING, TALK_OFFERED */
    int fd;
    enum talk_state state;
    bool ended;
};

/* --- streams --- */

static bool is_outgoing(const struct roce_talk *talk)
{
    return talk->state == TALK_ASKED || talk->state == TALK_TAKING;
}

static void leave_qp(struct roce_talk *talk)
{
    if (talk->qp && talk->qp->talk_out == talk)
        talk->qp->talk_out = NULL;
    if (talk->qp && talk->qp->talk_in == talk)
        talk->qp->talk_in = NULL;
    talk->qp = NULL;
}

/* Under lock; bury() follows. NULL: there is none. */
static void end_talk(struct roce_talk *talk)
{
    struct roce_meet *meet;

    if (!talk || talk->ended)
        return;
    meet = &talk->device->meet;
    leave_qp(talk);
    talk->ended = true;
    DL_DELETE(meet->talks, talk);
    DL_APPEND(meet->ended, talk);
}

static struct roce_talk *take_ended(struct roce_meet *meet)
{
    struct roce_talk *talk;

    pthread_mutex_lock(&meet->lock);
    talk = meet->ended;
    if (talk)
        DL_DELETE(meet->ended, talk);
    pthread_mutex_unlock(&meet->lock);
    return talk;
}

/* Not under lock. */
static void bury(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;
    struct roce_talk *talk;

    while ((talk = take_ended(&device->meet))) {
        if (talk->watch)
            host->unwatch(host, talk->watch);
        if (talk->fd >= 0)
            close(talk->fd);
        if (talk->memory)
            local_drop(&device->core.base, talk->memory);
        free(talk);
    }
}

static void ready(void *arg, uint32_t events);

/* Takes the descriptor. NULL: no memory. Under lock, so ready() finds it whole. */
static struct roce_talk *new_talk(struct roce_rnic *device, int fd, enum talk_state state)
{
    const struct ri_host *host = device->core.host;
    struct roce_talk *talk = calloc(1, sizeof(*talk));

    if (talk) {
        talk->device = device;
        talk->fd = fd;
        talk->state = state;
    }
    if (!talk || host->watch(host, device->core.lanes[0]->base.context, fd, EPOLLIN, ready, talk,
                             &talk->watch) != RI_OK) {
        close(fd);
        free(talk);
        return NULL;
    }
    DL_APPEND(device->meet.talks, talk);
    return talk;
}

static bool say(const struct roce_talk *talk, enum meet_kind kind, enum meet_reason reason)
{
    const struct meet_message message = { .kind = kind, .reason = reason };

    return net_meet_send(talk->fd, &message, -1);
}

static void refuse(struct roce_talk *talk, enum meet_reason reason)
{
    say(talk, MEET_NO, reason);
    end_talk(talk);
}

/* --- decisions: under lock --- */

static void tell(const struct roce_qp *qp, const char *why)
{
    const struct ri_host *host = qp->core.rnic->host;

    if (why)
        ri_log(host, RI_LOG_INFO, "QP %u stays on UDP with QP %u of this host: %s", qp->core.qpn,
               qp->rc.attr.dest_qpn, why);
    else
        ri_log(host, RI_LOG_INFO, "QP %u: wire local with QP %u", qp->core.qpn,
               qp->rc.attr.dest_qpn);
}

static void decide_udp(struct roce_qp *qp, const char *why)
{
    qp->decision = DECISION_UDP;
    atomic_store(&qp->local_why, why);
    end_talk(qp->talk_out);
    if (qp->talk_in)
        refuse(qp->talk_in, MEET_STAYS);
    tell(qp, why);
    roce_go_udp(qp, why);
}

/* By the stream of the talk, whose own callback this is. */
static void agree(struct roce_talk *talk)
{
    const struct ri_host *host = talk->device->core.host;
    struct roce_qp *qp = talk->qp;
    struct ri_local *memory = talk->memory;
    int fd = talk->fd;

    host->unwatch(host, talk->watch);
    talk->watch = NULL;
    talk->memory = NULL;
    talk->fd = -1;
    end_talk(talk);
    qp->decision = DECISION_LOCAL;
    end_talk(qp->talk_out);
    end_talk(qp->talk_in);
    tell(qp, NULL);
    roce_go_local(qp, memory, fd);
}

/* --- the end that answers --- */

static void offer(struct roce_talk *talk)
{
    static const struct meet_message message = { .kind = MEET_OFFER };
    struct roce_qp *qp = talk->qp;
    const char *why = "memory is short";
    int passed;
    bool sent;

    if (!net_meet_leaves_room(talk->fd)) {
        decide_udp(qp, SHORT_OF_DESCRIPTORS);
        return;
    }
    if (local_make(&talk->device->core.base, talk->fd, &talk->memory, &passed, &why) != RI_OK) {
        decide_udp(qp, why);
        return;
    }
    talk->state = TALK_OFFERED;
    sent = net_meet_send(talk->fd, &message, passed);
    if (!sent)
        why = errno == EPIPE || errno == ECONNRESET ? PEER_HAS_LEFT : NOT_PASSED;
    close(passed);
    if (sent)
        end_talk(qp->talk_out);
    else
        decide_udp(qp, why);
}

static bool is_of_peer(const struct roce_qp *qp, const struct meet_pair *pair)
{
    return pair->asking_qpn == qp->rc.attr.dest_qpn &&
           !memcmp(pair->asking_gid, qp->ah.destination_gid, GID_LEN) &&
           !memcmp(pair->asked_gid, qp->ah.source_gid, GID_LEN);
}

static bool is_higher(const struct roce_qp *qp)
{
    int order = memcmp(qp->ah.source_gid, qp->ah.destination_gid, GID_LEN);

    return order ? order > 0 : qp->core.qpn > qp->rc.attr.dest_qpn;
}

/* The question that waits for the QP, if there is one. */
static void consider(struct roce_qp *qp)
{
    struct roce_talk *talk = qp->talk_in;

    if (!talk || talk->state != TALK_PENDING)
        return;
    switch (qp->decision) {
    case DECISION_NONE: break;
    case DECISION_UDP: refuse(talk, MEET_STAYS); break;
    case DECISION_LOCAL: refuse(talk, MEET_OVER); break;
    case DECISION_OPEN:
        if (!is_of_peer(qp, &talk->pair))
            refuse(talk, MEET_STRANGER);
        else if (is_higher(qp))
            offer(talk);
        break;
    }
}

static struct roce_qp *find_qp(const struct roce_rnic *device, uint32_t qpn)
{
    struct roce_qp *qp = NULL;

    if ((qpn & (net_slots(device->net) - 1)) == net_slot(device->net))
        qp = device->meet.qps[qpn >> device->shift];
    return qp && qp->core.type == RI_QP_RC ? qp : NULL;
}

/* A newer question takes the place of one that is not answered: the peer's QP was reset. */
static void hear_question(struct roce_talk *talk, const struct meet_pair *pair)
{
    struct roce_qp *qp = find_qp(talk->device, pair->asked_qpn);

    if (!qp) {
        refuse(talk, MEET_UNKNOWN);
        return;
    }
    if (qp->talk_in && qp->talk_in->state != TALK_PENDING)
        decide_udp(qp, "the peer has asked anew");
    end_talk(qp->talk_in);
    talk->state = TALK_PENDING;
    talk->pair = *pair;
    talk->qp = qp;
    qp->talk_in = talk;
    consider(qp);
}

static void hear_of_offer(struct roce_talk *talk, const struct meet_message *message)
{
    if (message->kind == MEET_TAKEN && say(talk, MEET_COMMIT, MEET_NO_REASON))
        agree(talk);
    else
        decide_udp(talk->qp, "the peer did not take the memory");
}

/* --- the end that asks --- */

static const char *text_of_reason(enum meet_reason reason)
{
    static const char *const texts[MEET_REASONS] = {
        [MEET_NO_REASON] = "what the peer said is malformed",
        [MEET_UNKNOWN] = "the process that has the peer's slot has no such queue pair",
        [MEET_STRANGER] = "the peer's queue pair is connected with another one",
        [MEET_OVER] = "the peer's queue pair was not reset since its last connection",
        [MEET_STAYS] = "the peer stays on UDP (its log tells why)",
        [MEET_MEMORY] = "the peer could not take the memory",
    };

    return texts[reason];
}

static const char *text_of_errno(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "the peer offers no local wire (option local there, its release, or another user)";
    case EMFILE: return SHORT_OF_DESCRIPTORS;
    case ENFILE: return "descriptors are short (fs.file-max)";
    case EPERM:
    case EACCES: return "another user has the name of the peer's socket";
    default: return "the peer's Unix socket failed";
    }
}

static void take_offer(struct roce_talk *talk, int passed)
{
    struct roce_qp *qp = talk->qp;
    const char *why = NOT_PASSED;

    if (passed < 0 ||
        local_take(&talk->device->core.base, talk->fd, passed, &talk->memory, &why) != RI_OK) {
        say(talk, MEET_NO, MEET_MEMORY);
        decide_udp(qp, why);
        return;
    }
    talk->state = TALK_TAKING;
    if (!say(talk, MEET_TAKEN, MEET_NO_REASON))
        decide_udp(qp, "the peer has ended its question");
}

static void hear_answer(struct roce_talk *talk, const struct meet_message *message, int passed)
{
    if (message->kind == MEET_OFFER && talk->state == TALK_ASKED)
        take_offer(talk, passed);
    else if (message->kind == MEET_COMMIT && talk->state == TALK_TAKING)
        agree(talk);
    else
        decide_udp(talk->qp, text_of_reason(message->reason));
}

static void ask(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);
    struct meet_message question = {
        .kind = MEET_ASK, .pair = { .asking_qpn = qp->core.qpn, .asked_qpn = qp->rc.attr.dest_qpn }
    };
    int fd = net_meet_connect(device->net, qp->rc.attr.dest_qpn & (net_slots(device->net) - 1));
    struct roce_talk *talk;

    if (fd < 0) {
        decide_udp(qp, text_of_errno(errno));
        return;
    }
    memcpy(question.pair.asking_gid, qp->ah.source_gid, GID_LEN);
    memcpy(question.pair.asked_gid, qp->ah.destination_gid, GID_LEN);
    talk = new_talk(device, fd, TALK_ASKED);
    if (talk) {
        talk->qp = qp;
        qp->talk_out = talk;
    }
    if (!talk || !net_meet_send(fd, &question, -1))
        decide_udp(qp, "the peer's Unix socket failed");
}

/* --- what streams bring --- */

static void hear_end(struct roce_talk *talk)
{
    struct roce_qp *qp = talk->qp;
    bool decides = qp && talk->state != TALK_PENDING;

    end_talk(talk);
    if (decides)
        decide_udp(qp, PEER_HAS_LEFT);
}

static void hear(struct roce_talk *talk)
{
    struct meet_message message;
    int passed = -1;

    switch (net_meet_receive(talk->fd, &message, &passed)) {
    case NET_MEET_NOTHING: return;
    case NET_MEET_ENDED: hear_end(talk); return;
    case NET_MEET_MESSAGE: break;
    }
    if (is_outgoing(talk))
        hear_answer(talk, &message, passed);
    else if (talk->state == TALK_OFFERED)
        hear_of_offer(talk, &message);
    else if (talk->state == TALK_NEW && message.kind == MEET_ASK)
        hear_question(talk, &message.pair);
    else
        hear_end(talk);
    if (passed >= 0)
        close(passed);
}

static void ready(void *arg, uint32_t events)
{
    struct roce_talk *talk = arg;
    struct roce_rnic *device = talk->device;

    (void)events;
    pthread_mutex_lock(&device->meet.lock);
    if (!talk->ended)
        hear(talk);
    pthread_mutex_unlock(&device->meet.lock);
    bury(device);
}

static void somebody_connects(void *arg, uint32_t events)
{
    struct roce_rnic *device = arg;
    int fd;

    (void)events;
    while ((fd = net_meet_accept(device->net)) >= 0) {
        pthread_mutex_lock(&device->meet.lock);
        new_talk(device, fd, TALK_NEW);
        pthread_mutex_unlock(&device->meet.lock);
    }
}

/* --- QPs --- */

static bool is_of_this_host(struct roce_rnic *device, const uint8_t gid[static GID_LEN])
{
    bool is;

    pthread_mutex_lock(&device->lock);
    is = net_gids_find(&device->gids, gid, 0) >= 0;
    pthread_mutex_unlock(&device->lock);
    return is;
}

/* What keeps all connections of the RNIC on UDP: what is captured, or goes by the kernel. NULL:
 * nothing does. */
static const char *why_never(const struct roce_rnic *device)
{
    if (device->options.local == ROCE_LOCAL_NO)
        return "option local is no";
    if (device->core.options.by_kernel)
        return "each access is watched (option guard)";
    return device->core.host->capture ? "connections are captured (option pcap)" : NULL;
}

static const char *why_not(const struct roce_qp *qp, uint32_t peer)
{
    const struct roce_rnic *device = roce_rnic(qp->core.rnic);
    const char *never = why_never(device);

    if (qp->core.type != RI_QP_RC)
        return "it is not of type RC";
    if (never)
        return never;
    if (!device->meet.on)
        return "this process does not listen on its Unix socket (its log tells why)";
    return peer == qp->core.qpn ? "it is its own peer" : NULL;
}

bool roce_may_meet(struct roce_qp *qp, uint32_t peer, const char **why)
{
    const bool here = is_of_this_host(roce_rnic(qp->core.rnic), qp->ah.destination_gid);

    *why = here ? why_not(qp, peer) : NULL;
    return here && !*why;
}

void roce_meet(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);
    const char *why = atomic_load(&qp->local_why);

    if (why && qp->core.type == RI_QP_RC)
        tell(qp, why);
    if (!device->meet.on)
        return;
    pthread_mutex_lock(&device->meet.lock);
    qp->decision = qp->rc.held ? DECISION_OPEN : DECISION_UDP;
    consider(qp);
    if (qp->decision == DECISION_OPEN && (!qp->talk_in || qp->talk_in->state == TALK_PENDING))
        ask(qp);
    pthread_mutex_unlock(&device->meet.lock);
    bury(device);
}

void roce_part(struct roce_qp *qp, bool reset)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);

    if (!device->meet.on)
        return;
    pthread_mutex_lock(&device->meet.lock);
    end_talk(qp->talk_out);
    end_talk(qp->talk_in);
    qp->decision = reset ? DECISION_NONE : DECISION_LOCAL;
    pthread_mutex_unlock(&device->meet.lock);
    bury(device);
}

void roce_meet_show(struct roce_qp *qp, bool shown)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);

    if (!device->meet.on)
        return;
    pthread_mutex_lock(&device->meet.lock);
    device->meet.qps[qp->core.qpn >> device->shift] = shown ? qp : NULL;
    pthread_mutex_unlock(&device->meet.lock);
    if (!shown)
        roce_part(qp, false);
}

/* --- the RNIC --- */

enum ri_status roce_meet_open(struct roce_rnic *device)
{
    struct roce_meet *meet = &device->meet;

    pthread_mutex_init(&meet->lock, NULL);
    if (why_never(device))
        return RI_OK;
    meet->qps = calloc((BTH_MASK24 + 1u) >> device->shift, sizeof(struct roce_qp *));
    if (!meet->qps || !roce_local_open(device)) {
        free(meet->qps);
        pthread_mutex_destroy(&meet->lock);
        return RI_ERR_NO_RESOURCES;
    }
    device->core.attr.features |= RI_FEATURE_LOCAL;
    return RI_OK;
}

/* Without the listener peers take this one for one without the wire. */
enum ri_status roce_meet_watch(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;
    enum ri_status status;
    int fd;

    if (!device->meet.qps)
        return RI_OK;
    fd = net_meet_listen(device->net);
    if (fd < 0) {
        ri_log(host, RI_LOG_INFO, "connections within this host stay on UDP: its Unix socket: %s",
               strerror(errno));
        return RI_OK;
    }
    status = host->watch(host, device->core.lanes[0]->base.context, fd, EPOLLIN, somebody_connects,
                         device, &device->meet.watch);
    device->meet.on = status == RI_OK;
    return status;
}

void roce_meet_unwatch(struct roce_rnic *device)
{
    const struct ri_host *host = device->core.host;
    struct roce_talk *talk, *next;

    if (device->meet.watch)
        host->unwatch(host, device->meet.watch);
    device->meet.watch = NULL;
    net_meet_end(device->net);
    pthread_mutex_lock(&device->meet.lock);
    DL_FOREACH_SAFE (device->meet.talks, talk, next)
        end_talk(talk);
    pthread_mutex_unlock(&device->meet.lock);
    bury(device);
}

void roce_meet_close(struct roce_rnic *device)
{
    local_close_rnic(&device->core);
    free(device->meet.qps);
    pthread_mutex_destroy(&device->meet.lock);
}
