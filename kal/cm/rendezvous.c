/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: the rendezvous of two ends that are on one host (option local). No other file
 * calls a Unix socket for a connection.
 *
 * TCP and MPA start as between any two hosts, and nothing of the rendezvous is on the wire. Before
 * its Request the initiator listens on an abstract Unix name that is made of the four-tuple.
 * Abstract names belong to the network namespace, as loopback does. The acceptor connects to it
 * before its hand-over. The provider's memory passes by descriptor, and the hand-overs carry it.
 *
 *   initiator                     state       acceptor                          state
 *   TCP connected: listen         LISTENING
 *   Request                                   kal_accept, QP is there: connect,
 *                                             local_make, OFFER, timer          OFFERED
 *   accept; listener closed       CONNECTED
 *   OFFER: local_take; TAKEN      TAKING      TAKEN: COMMIT                     AGREED
 *                                             hand-over; the Reply leaves
 *   Reply; COMMIT is there        AGREED
 *   hand-over
 *
 * Both or neither. COMMIT leaves before the Reply, and a Unix socket delivers at once: when the
 * Reply is here, COMMIT was sent if and only if it can be read. Whatever else happens (refusal,
 * end, time-out, malformed octets, a limit) leads to the state TCP, and the connection stays there.
 * A reason is kept in connection->local_why, a static text.
 *
 * Ownership. `fd` belongs to the rendezvous from LISTENING to AGREED, `local` from the provider's
 * call to AGREED; the hand-over takes both. cm_rendezvous_end releases them at every early end: of
 * the stream (cm_close_stream), hence before a further attempt, and of the object. The watch exists
 * in LISTENING, CONNECTED and OFFERED, in the connection's lane; the timer in OFFERED. So nothing
 * is to be moved when an initiator changes to its QP's lane, which it does behind the Reply.
 *
 * Trust. Both compare the peer's user with their own: the acceptor the user of the process that
 * listens, the initiator that of the process that has connected. A process of another user that
 * takes the name, or connects first, only keeps the connection on TCP. A four-tuple can be used
 * again only when the first connection has ended, which the acceptor sees on its TCP socket: it
 * looks behind the rendezvous, before its hand-over.
 */
#include "cm.h"
#include "rendezvous_wire.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define OWN_USER_ONLY "the peer runs as another user"
#define NO_MEMORY     "memory is short"
#define CONVERTED     "it is a converted socket"

static struct cm_rendezvous *of(struct kal_connection *c)
{
    return &c->startup->rendezvous;
}

static const char *text_of_errno(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "the peer offers no local wire (option local there, its release, or its network "
               "namespace)";
    case EAGAIN: return "another process has connected to the peer's socket";
    case EADDRINUSE: return "another socket has the name for it";
    case EMFILE: return "descriptors are short (ulimit -n)";
    case ENFILE: return "descriptors are short (fs.file-max)";
    case ETOOMANYREFS: return "too many descriptors are on their way (ulimit -n)";
    case ENOMEM:
    case ENOBUFS: return NO_MEMORY;
    case EPERM:
    case EACCES: return "a rule of this host forbids its Unix socket";
    default: return "its Unix socket failed";
    }
}

static const char *text_of_reason(enum rendezvous_reason reason)
{
    static const char *const texts[RENDEZVOUS_REASONS] = {
        [RENDEZVOUS_MALFORMED] = "what the acceptor said is malformed",
        [RENDEZVOUS_OTHER_VERSION] = "the two ends are of different releases",
        [RENDEZVOUS_OTHER_FEATURES] = "the two ends are of different releases",
        [RENDEZVOUS_OTHER_BUILD] = "the two ends are of different releases",
        [RENDEZVOUS_OTHER_PROVIDER] = "the two ends have different providers",
        [RENDEZVOUS_NO_DESCRIPTOR] = "the initiator got no descriptor of the memory (ulimit -n)",
        [RENDEZVOUS_NO_MEMORY] = "the initiator could not take the memory",
    };

    return texts[reason];
}

/* ---- release ---- */

static bool has_socket(const struct cm_rendezvous *r)
{
    return r->state != CM_RENDEZVOUS_NONE && r->state != CM_RENDEZVOUS_TCP;
}

static void stop_waiting(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    struct ri_watch *watch = r->watch;

    r->watch = NULL;
    if (watch)
        c->rnic->upper->unwatch(watch);
    if (r->state == CM_RENDEZVOUS_OFFERED)
        c->rnic->upper->timer_cancel(c->lane, &r->limit);
}

void cm_rendezvous_end(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    struct cm_rendezvous *r;

    if (!c->lifetime.dead)
        cm_assert_run(&c->lifetime);
    if (!c->startup)
        return;
    r = of(c);
    stop_waiting(c);
    if (has_socket(r))
        close(r->fd);
    if (r->local)
        c->rnic->ops.local_drop(c->rnic->ri, r->local);
    r->local = NULL;
    r->state = CM_RENDEZVOUS_NONE;
}

static void stay_on_tcp(struct kal_connection *c, const char *why)
{
    cm_rendezvous_end(c);
    of(c)->state = CM_RENDEZVOUS_TCP;
    c->local_why = why;
}

static void agree(struct kal_connection *c)
{
    stop_waiting(c);
    of(c)->state = CM_RENDEZVOUS_AGREED;
    c->local_why = NULL;
}

/* ---- may it? ---- */

static bool is_loopback(const union address *address)
{
    return address->any.sa_family == AF_INET && ntohl(address->four.sin_addr.s_addr) >> 24 == 127;
}

/* The system binds a socket only to addresses of this host. */
static bool can_bind(const union address *address)
{
    union address at = *address;
    int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool bound;

    if (fd < 0)
        return false;
    at.four.sin_port = 0; /* at the same place as sin6_port */
    bound = !bind(fd, &at.any, kal_address_length(&at.any));
    close(fd);
    return bound;
}

/* Without a call of the system. Most connections of one host have the same address at both ends. */
static bool is_surely_here(const union address *local, const union address *peer)
{
    uint8_t here[16], there[16];

    if (!rendezvous_address(local, here) || !rendezvous_address(peer, there))
        return false;
    return !memcmp(here, there, sizeof(here)) || (is_loopback(local) && is_loopback(peer));
}

static bool is_of_this_host(const union address *local, const union address *peer)
{
    uint8_t octets[16];

    return rendezvous_address(local, octets) && rendezvous_address(peer, octets) &&
           (is_surely_here(local, peer) || can_bind(peer));
}

/* NULL: it may be local. Otherwise why not. */
static const char *unfit(struct kal_connection *c)
{
    if (c->conversion)
        return CONVERTED;
    if (c->rnic->cm->options.local == CM_LOCAL_NO)
        return "option local is no";
    if (!(c->rnic->attr.features & RI_FEATURE_LOCAL))
        return "the provider has no local wire, or a filter hides it";
    if (c->stream.ops->carried)
        return "its stream is not TCP";
    if (!is_of_this_host(&c->stream.local, &c->stream.peer))
        return "the peer is on another host";
    c->same_host = true;
    return c->rnic->capture || c->stream.capture ? "it is captured (option pcap)" : NULL;
}

/* Conversions have no rendezvous. */
const char *cm_rendezvous_why(const struct kal_connection *connection)
{
    const struct kal_connection *c = connection;

    if (!c->local_why || (!c->same_host && !is_surely_here(&c->stream.local, &c->stream.peer)))
        return NULL;
    return c->conversion ? CONVERTED : c->local_why;
}

static bool may_stay_on_tcp(const struct kal_connection *c)
{
    return c->rnic->cm->options.local != CM_LOCAL_ONLY || c->conversion;
}

/* Logs the outcome once. That a peer is on another host is expected. */
static enum cm_rendezvous_result decided(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    const char *side = c->initiator ? "to" : "from";
    char address[120];

    if (r->state == CM_RENDEZVOUS_TCP && !may_stay_on_tcp(c))
        return CM_RENDEZVOUS_REFUSED;
    if (c->same_host && !r->logged) {
        kal_address_text(&c->stream.peer.any, address, sizeof(address));
        if (r->state == CM_RENDEZVOUS_AGREED)
            kal_rnic_log(c->rnic, RI_LOG_INFO, "connection %s %s: wire local", side, address);
        else
            kal_rnic_log(c->rnic, RI_LOG_INFO, "connection %s %s stays on TCP: %s", side, address,
                         c->local_why);
    }
    r->logged = true;
    return CM_RENDEZVOUS_DECIDED;
}

/* ---- the socket ---- */

static bool make_name(const union address *initiator, const union address *acceptor,
                      struct sockaddr_un *name, socklen_t *length)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + RENDEZVOUS_NAME_LENGTH);
    return rendezvous_name(initiator, acceptor, name->sun_path + 1);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static bool is_own_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid();
}

static enum ri_status watch(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);

    return c->rnic->upper->watch(c->lane, r->fd, EPOLLIN, r->ready, c, &r->watch);
}

/* Keeps the descriptor that came, if it is one and complete; closes all others. */
static int take_descriptor(struct msghdr *message)
{
    bool whole = !(message->msg_flags & MSG_CTRUNC);
    int kept = -1, fd;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= c->cmsg_len; at += sizeof(fd)) {
            memcpy(&fd, (const char *)c + at, sizeof(fd));
            if (kept >= 0) {
                close(fd);
                whole = false;
            } else {
                kept = fd;
            }
        }
    }
    if (whole || kept < 0)
        return kept;
    close(kept);
    return -1;
}

/* As recv(2). *fd: exactly one descriptor came with the octets; otherwise -1. */
static ssize_t receive(int socket, void *octets, size_t room, int *fd)
{
    union {
        struct cmsghdr align;
        char octets[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { octets, room };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t got;

    do {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    *fd = got < 0 ? -1 : take_descriptor(&message);
    return got;
}

/* Sends octets, with a descriptor unless it is -1. Returns 0 or errno. A message is short, and the
 * socket's buffer empty: one that does not fit is an error. */
static int send_with(int socket, const void *octets, size_t length, int fd)
{
    union {
        struct cmsghdr align;
        char octets[CMSG_SPACE(sizeof(int))];
    } control = { .octets = { 0 } };
    struct iovec iov = { (void *)(uintptr_t)octets, length };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t sent;

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fd)),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
    }
    do
        sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno;
    return (size_t)sent == length ? 0 : EPIPE;
}

static int send_answer(int socket, enum rendezvous_kind kind, enum rendezvous_reason reason)
{
    uint8_t octets[RENDEZVOUS_ANSWER_LENGTH];

    rendezvous_answer_encode(kind, reason, octets);
    return send_with(socket, octets, sizeof(octets), -1);
}

/* What both ends must have in common. */
static struct rendezvous_offer own_offer(const struct kal_connection *c)
{
    struct rendezvous_offer offer = { .features = RENDEZVOUS_FEATURES, .build = PACKAGE_VERSION };

    static_assert(sizeof(PACKAGE_VERSION) <= sizeof(offer.build), "the version fits");
    snprintf(offer.provider, sizeof(offer.provider), "%s", c->rnic->provider_name);
    return offer;
}

/* ---- initiator ---- */

static const char *listen_for_peer(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    struct sockaddr_un name;
    socklen_t length;

    contract(r->state == CM_RENDEZVOUS_NONE && !r->local);
    if (!make_name(&c->stream.local, &c->stream.peer, &name, &length))
        return text_of_errno(EINVAL);
    r->fd = new_socket();
    if (r->fd < 0)
        return text_of_errno(errno);
    r->state = CM_RENDEZVOUS_LISTENING;
    if (bind(r->fd, (const struct sockaddr *)&name, length) || listen(r->fd, 1))
        return text_of_errno(errno);
    return watch(c) ? NO_MEMORY : NULL;
}

enum cm_rendezvous_result cm_rendezvous_listen(struct kal_connection *connection)
{
    const char *why = unfit(connection);

    cm_assert_run(&connection->lifetime);
    contract(connection->state == CM_CONNECTING);
    if (!why)
        why = listen_for_peer(connection);
    if (!why)
        return CM_RENDEZVOUS_WAITS;
    stay_on_tcp(connection, why);
    return may_stay_on_tcp(connection) ? CM_RENDEZVOUS_DECIDED : CM_RENDEZVOUS_REFUSED;
}

/* Checks the offer and takes its memory. */
static enum rendezvous_reason take_offer(struct kal_connection *c, const uint8_t *octets,
                                         size_t length, int fd, const char **why)
{
    const struct rendezvous_offer ours = own_offer(c);
    struct rendezvous_offer theirs;
    enum rendezvous_reason reason = rendezvous_offer_parse(octets, length, &theirs);
    struct ri_local *local;
    const char *cause = NULL;

    if (!reason)
        reason = rendezvous_offer_compare(&ours, &theirs);
    if (!reason && fd < 0)
        reason = RENDEZVOUS_NO_DESCRIPTOR;
    *why = text_of_reason(reason);
    if (reason)
        return reason;
    if (c->rnic->ops.local_take(c->rnic->ri, of(c)->fd, fd, &local, &cause)) {
        *why = cause ? cause : text_of_reason(RENDEZVOUS_NO_MEMORY);
        return RENDEZVOUS_NO_MEMORY;
    }
    of(c)->local = local;
    return RENDEZVOUS_FITS;
}

static void hear_offer(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH + 1]; /* one more: nothing may follow */
    enum rendezvous_reason reason;
    const char *why;
    int fd, error;
    ssize_t got = receive(r->fd, octets, sizeof(octets), &fd);

    contract(r->state == CM_RENDEZVOUS_CONNECTED);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0) {
        stay_on_tcp(c, "the acceptor closed its Unix socket");
        return;
    }
    reason = take_offer(c, octets, (size_t)got, fd, &why);
    if (fd >= 0)
        close(fd);
    error = send_answer(r->fd, reason ? RENDEZVOUS_NO : RENDEZVOUS_TAKEN, reason);
    if (reason) {
        stay_on_tcp(c, why);
    } else if (error) {
        stay_on_tcp(c, text_of_errno(error));
    } else {
        stop_waiting(c); /* COMMIT is read when the Reply has come */
        r->state = CM_RENDEZVOUS_TAKING;
    }
}

/* The first one that connects is the only one. */
static void accept_peer(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    int made = accept4(r->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    contract(r->state == CM_RENDEZVOUS_LISTENING);
    if (made < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (made < 0) {
        stay_on_tcp(c, text_of_errno(errno));
        return;
    }
    stop_waiting(c);
    close(r->fd);
    r->fd = made;
    r->state = CM_RENDEZVOUS_CONNECTED;
    if (!is_own_user(made)) {
        stay_on_tcp(c, OWN_USER_ONLY);
        return;
    }
    hear_offer(c); /* the acceptor sends it as soon as it has connected */
    if (r->state == CM_RENDEZVOUS_CONNECTED && watch(c))
        stay_on_tcp(c, NO_MEMORY);
}

/* Reads COMMIT alone: octets behind it are for the provider. */
static const char *hear_commit(struct kal_connection *c)
{
    uint8_t octets[RENDEZVOUS_ANSWER_LENGTH];
    enum rendezvous_reason reason;
    enum rendezvous_kind kind;
    int fd;
    ssize_t got = receive(of(c)->fd, octets, sizeof(octets), &fd);

    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return "the acceptor did not wait for this end";
    if (!rendezvous_answer_parse(octets, (size_t)got, &kind, &reason) || kind != RENDEZVOUS_COMMIT)
        return text_of_reason(RENDEZVOUS_MALFORMED);
    return NULL;
}

enum cm_rendezvous_result cm_rendezvous_conclude(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    const struct cm_rendezvous *r = of(c);
    const char *why;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REQUESTED);
    if (r->state == CM_RENDEZVOUS_TAKING) {
        why = hear_commit(c);
        if (why)
            stay_on_tcp(c, why);
        else
            agree(c);
    } else if (r->state == CM_RENDEZVOUS_CONNECTED) {
        stay_on_tcp(c, "the acceptor did not wait for this end");
    } else if (r->state == CM_RENDEZVOUS_LISTENING) {
        stay_on_tcp(c, text_of_errno(ECONNREFUSED));
    }
    contract(r->state == CM_RENDEZVOUS_AGREED || r->state == CM_RENDEZVOUS_TCP);
    return decided(c);
}

/* ---- acceptor ---- */

/* Connects to the initiator's socket, if it is there, and checks who listens. */
static const char *find_initiator(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    struct sockaddr_un name;
    socklen_t length;

    contract(r->state == CM_RENDEZVOUS_NONE && !r->local);
    if (!make_name(&c->stream.peer, &c->stream.local, &name, &length))
        return text_of_errno(EINVAL);
    r->fd = new_socket();
    if (r->fd < 0)
        return text_of_errno(errno);
    r->state = CM_RENDEZVOUS_OFFERED;
    if (connect(r->fd, (const struct sockaddr *)&name, length))
        return text_of_errno(errno);
    return is_own_user(r->fd) ? NULL : OWN_USER_ONLY;
}

static const char *send_offer(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    const struct rendezvous_offer offer = own_offer(c);
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH];
    struct ri_local *local;
    const char *cause = NULL;
    int fd, error;

    if (c->rnic->ops.local_make(c->rnic->ri, r->fd, &local, &fd, &cause))
        return cause ? cause : NO_MEMORY;
    r->local = local;
    rendezvous_offer_encode(&offer, octets);
    error = send_with(r->fd, octets, sizeof(octets), fd);
    close(fd);
    if (error)
        return text_of_errno(error);
    if (watch(c))
        return NO_MEMORY;
    r->limit.deadline = clock_after(clock_now(), c->rnic->cm->options.local_wait);
    c->rnic->upper->timer_set(c->lane, &r->limit);
    return NULL;
}

enum cm_rendezvous_result cm_rendezvous_meet(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    const struct cm_rendezvous *r = of(c);
    const char *why = NULL;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_ACCEPTING);
    if (r->state == CM_RENDEZVOUS_OFFERED)
        return CM_RENDEZVOUS_WAITS;
    if (r->state == CM_RENDEZVOUS_NONE) {
        why = unfit(c);
        if (!why)
            why = find_initiator(c);
        if (!why)
            why = send_offer(c);
        if (!why)
            return CM_RENDEZVOUS_WAITS;
        stay_on_tcp(c, why);
    }
    return decided(c);
}

static void hear_answer(struct kal_connection *c)
{
    struct cm_rendezvous *r = of(c);
    uint8_t octets[RENDEZVOUS_ANSWER_LENGTH + 1]; /* one more: nothing may follow */
    enum rendezvous_reason reason;
    enum rendezvous_kind kind;
    int fd, error;
    ssize_t got = receive(r->fd, octets, sizeof(octets), &fd);

    if (fd >= 0)
        close(fd);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0) {
        stay_on_tcp(c, "the initiator closed its Unix socket");
    } else if (!rendezvous_answer_parse(octets, (size_t)got, &kind, &reason) ||
               kind == RENDEZVOUS_COMMIT) {
        stay_on_tcp(c, "what the initiator said is malformed");
    } else if (kind == RENDEZVOUS_NO) {
        stay_on_tcp(c, text_of_reason(reason));
    } else {
        error = send_answer(r->fd, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
        if (error)
            stay_on_tcp(c, text_of_errno(error));
        else
            agree(c);
    }
}

/* ---- runs ---- */

bool cm_rendezvous_run(struct kal_connection *connection)
{
    struct cm_rendezvous *r = of(connection);

    cm_assert_run(&connection->lifetime);
    if (!r->watch) /* readiness that was noticed before it was unwatched */
        return false;
    if (r->state == CM_RENDEZVOUS_LISTENING) {
        accept_peer(connection);
        return false;
    }
    if (r->state == CM_RENDEZVOUS_CONNECTED) {
        hear_offer(connection);
        return false;
    }
    contract(r->state == CM_RENDEZVOUS_OFFERED && connection->state == CM_ACCEPTING);
    hear_answer(connection);
    return r->state != CM_RENDEZVOUS_OFFERED;
}

bool cm_rendezvous_expired(struct kal_connection *connection)
{
    cm_assert_run(&connection->lifetime);
    if (of(connection)->state != CM_RENDEZVOUS_OFFERED)
        return false;
    stay_on_tcp(connection, "the initiator did not answer in time");
    return true;
}

/* ---- hand-over ---- */

void cm_rendezvous_give(struct kal_connection *connection, struct ri_llp_handover *handover)
{
    struct cm_rendezvous *r = of(connection);

    cm_assert_run(&connection->lifetime);
    handover->local_fd = -1;
    if (r->state != CM_RENDEZVOUS_AGREED || handover->refuse_code) {
        cm_rendezvous_end(connection);
        return;
    }
    contract(!r->watch && r->local);
    handover->local = r->local;
    handover->local_fd = r->fd;
    r->local = NULL;
    r->state = CM_RENDEZVOUS_NONE;
}

void cm_rendezvous_release(struct kal_connection *connection,
                           const struct ri_llp_handover *handover)
{
    if (!handover->local)
        return;
    close(handover->local_fd);
    connection->rnic->ops.local_drop(connection->rnic->ri, handover->local);
}
