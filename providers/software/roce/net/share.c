/* SPDX-License-Identifier: BSD-3-Clause */
#include "share.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/entropy.h"
#include "base/unix_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A stopped process whose queue strangers have filled: how long one connect may take. */
#define CONNECT_MS 200

static const struct share_key table_key;

struct offer {
    struct share_key key;
    const int *fds;
    uint32_t count;
    uint16_t slots;
};

struct share {
    int listener, spare;
    uint32_t index;
    uint16_t udp_port;
    bool undecided;
    bool outranked; /* has said "no table" to a lower index */
    uint32_t offers, waiting;
    struct offer *offer;
    int wait[SHARE_NAMES]; /* connections of undecided processes of higher indexes */
};

static void set_path(struct sockaddr_un *address, const uint8_t *path, size_t len, socklen_t *size)
{
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, len);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

static void set_name(struct sockaddr_un *address, uint16_t udp_port, uint32_t index,
                     socklen_t *size)
{
    uint8_t name[SHARE_NAME_MAX];

    set_path(address, name, share_put_name(name, geteuid(), udp_port, index), size);
}

static bool is_same_user(int fd, pid_t *pid)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid())
        return false;
    *pid = peer.pid;
    return true;
}

/* ---- a name ---------------------------------------------------------------------------------- */

static bool bind_name(struct share *share)
{
    for (share->index = 0; share->index < SHARE_NAMES; share->index++) {
        struct sockaddr_un address;
        socklen_t size;

        set_name(&address, share->udp_port, share->index, &size);
        if (!bind(share->listener, (struct sockaddr *)&address, size))
            return true;
        if (errno != EADDRINUSE)
            return false;
    }
    errno = EADDRINUSE;
    return false;
}

static enum ri_status no_name(int error, struct net_why *why)
{
    if (error == EADDRINUSE) {
        net_say(why,
                "all %u names at which processes of user %u find each other are taken (ss -xl | "
                "grep ital-roce shows by whom)",
                SHARE_NAMES, geteuid());
        return RI_ERR_PERMISSION;
    }
    net_say(why, "no Unix socket at which other processes of this user find this one: %s",
            strerror(error));
    return error == EPERM || error == EACCES ? RI_ERR_PERMISSION : RI_ERR_NO_RESOURCES;
}

static bool listen_at_name(struct share *share)
{
    share->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    share->spare = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (share->listener < 0 || share->spare < 0 || !bind_name(share))
        return false;
    unix_refuse_descriptors(share->listener);
    return !listen(share->listener, SOMAXCONN);
}

enum ri_status share_open(uint16_t udp_port, struct share **share, struct net_why *why)
{
    struct share *made = calloc(1, sizeof(*made));
    enum ri_status status;

    if (!made)
        return no_name(ENOMEM, why);
    made->udp_port = udp_port;
    made->undecided = true;
    if (listen_at_name(made)) {
        *share = made;
        return RI_OK;
    }
    status = no_name(errno, why);
    share_close(made);
    return status;
}

void share_close(struct share *share)
{
    for (uint32_t i = 0; i < share->waiting; i++)
        close(share->wait[i]);
    if (share->listener >= 0)
        close(share->listener);
    if (share->spare >= 0)
        close(share->spare);
    free(share->offer);
    free(share);
}

void share_forked(struct share *share)
{
    for (uint32_t i = 0; i < share->offers; i++)
        for (uint32_t k = 0; k < share->offer[i].count; k++)
            close(share->offer[i].fds[k]);
    share_close(share);
}

int share_fd(const struct share *share)
{
    return share->listener;
}

/* ---- to answer ------------------------------------------------------------------------------- */

static const struct offer *find_offer(const struct share *share, const struct share_key *key)
{
    for (uint32_t i = 0; i < share->offers; i++)
        if (share_key_equal(&share->offer[i].key, key))
            return &share->offer[i];
    return NULL;
}

/* The queue of a new connection has room. If the descriptors cannot be passed, the answer goes
 * without them, which the asker understands. */
static void send_answer(int fd, const struct offer *offer)
{
    struct share_answer answer = { .has = offer != NULL };
    uint8_t octets[SHARE_ANSWER_LEN];
    struct iovec iov = { octets, sizeof(octets) };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(SHARE_FDS_MAX * sizeof(int))];
    } control;
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (offer) {
        answer.slots = offer->slots;
        answer.count = offer->count;
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(offer->count * sizeof(int));
        memset(&control, 0, message.msg_controllen);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(offer->count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), offer->fds, offer->count * sizeof(int));
    }
    share_put_answer(octets, &answer);
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && offer) {
        message.msg_control = NULL;
        message.msg_controllen = 0;
        (void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    close(fd);
}

static void answer_table(struct share *share, int fd, const struct share_question *question)
{
    if (share->undecided && question->index > share->index && share->waiting < SHARE_NAMES) {
        share->wait[share->waiting++] = fd;
        return;
    }
    if (share->undecided)
        share->outranked = true;
    send_answer(fd, find_offer(share, &table_key));
}

static void answer(struct share *share, int fd, const struct sockaddr_un *from, socklen_t size)
{
    const size_t before = offsetof(struct sockaddr_un, sun_path);
    struct share_question question;
    pid_t pid;

    if (size < before || !is_same_user(fd, &pid) ||
        !share_get_question(from->sun_path, size - before, &question) ||
        question.udp_port != share->udp_port)
        close(fd);
    else if (share_key_equal(&question.key, &table_key))
        answer_table(share, fd, &question);
    else
        send_answer(fd, find_offer(share, &question.key));
}

/* Out of descriptors: who asks is turned away, so that the listener does not stay readable. */
static bool turn_away(struct share *share)
{
    int fd;

    if (share->spare < 0)
        return false;
    close(share->spare);
    fd = accept4(share->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    share->spare = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0;
}

void share_serve(struct share *share)
{
    for (;;) {
        struct sockaddr_un from;
        socklen_t size = sizeof(from);
        int fd = accept4(share->listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);

        if (fd >= 0)
            answer(share, fd, &from, size);
        else if ((errno == EMFILE || errno == ENFILE) && turn_away(share))
            continue;
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

bool share_offer(struct share *share, const struct share_key *key, const int *fds, uint32_t count,
                 uint16_t slots)
{
    struct offer *grown;

    contract(count && count <= SHARE_FDS_MAX && !find_offer(share, key));
    grown = realloc(share->offer, (share->offers + 1u) * sizeof(*grown));
    if (!grown)
        return false;
    share->offer = grown;
    grown[share->offers++] = (struct offer){ *key, fds, count, slots };
    if (!share_key_equal(key, &table_key))
        return true;
    share->undecided = false;
    while (share->waiting)
        send_answer(share->wait[--share->waiting], find_offer(share, key));
    return true;
}

void share_withdraw(struct share *share, const struct share_key *key)
{
    for (uint32_t i = 0; i < share->offers; i++)
        if (share_key_equal(&share->offer[i].key, key)) {
            share->offer[i] = share->offer[--share->offers];
            return;
        }
}

/* ---- to ask ---------------------------------------------------------------------------------- */

struct asking {
    bool full; /* somebody's queue of connections is */
    uint32_t count;
    int fd[SHARE_NAMES];
    pid_t pid[SHARE_NAMES];
};

/* A socket whose name is the question. -1: errno. */
static int question_socket(const struct share *share, const struct share_key *key)
{
    const struct share_question question = { *key, share->index, share->udp_port };
    const struct timeval limit = { .tv_usec = CONNECT_MS * 1000 };
    uint8_t random[SHARE_RANDOM_LEN], path[SHARE_QUESTION_LEN];
    struct sockaddr_un address;
    socklen_t size;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (entropy_draw(random, sizeof(random))) {
        share_put_question(path, &question, random);
        set_path(&address, path, sizeof(path), &size);
        if (!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) &&
            !bind(fd, (struct sockaddr *)&address, size))
            return fd;
    }
    close(fd);
    return -1;
}

/* Connects to all names but the own one. False: descriptors or memory. */
static bool ask_all(const struct share *share, const struct share_key *key, struct asking *asking)
{
    int fd = -1;

    for (uint32_t i = 0; i < SHARE_NAMES; i++) {
        struct sockaddr_un address;
        socklen_t size;

        if (i == share->index)
            continue;
        if (fd < 0 && (fd = question_socket(share, key)) < 0)
            return false;
        set_name(&address, share->udp_port, i, &size);
        if (connect(fd, (struct sockaddr *)&address, size)) {
            asking->full = asking->full || errno == EAGAIN || errno == EINTR;
            continue;
        }
        if (is_same_user(fd, &asking->pid[asking->count]))
            asking->fd[asking->count++] = fd;
        else
            close(fd);
        fd = -1;
    }
    if (fd >= 0)
        close(fd);
    return true;
}

static void take_fds(struct share_fds *found, struct msghdr *message)
{
    found->count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        uint32_t n = (uint32_t)((at->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        contract(found->count + n <= SHARE_FDS_MAX);
        memcpy(found->fd + found->count, CMSG_DATA(at), n * sizeof(int));
        found->count += n;
    }
}

static void close_fds(struct share_fds *found)
{
    while (found->count)
        close(found->fd[--found->count]);
}

/* SHARE_SILENT: not yet. */
static enum share_found read_answer(int fd, struct share_fds *found)
{
    uint8_t octets[SHARE_ANSWER_LEN + 1];
    struct iovec iov = { octets, sizeof(octets) };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(SHARE_FDS_MAX * sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    struct share_answer said;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SHARE_SILENT;
    if (got <= 0)
        return SHARE_NONE; /* it has died, or is of another release */
    take_fds(found, &message);
    if (share_get_answer(octets, (size_t)got, &said) && said.count == found->count) {
        found->slots = said.slots;
        return said.has ? SHARE_FOUND : SHARE_NONE;
    }
    close_fds(found);
    return SHARE_SHORT;
}

static void forget(struct asking *asking, uint32_t i)
{
    close(asking->fd[i]);
    asking->count--;
    asking->fd[i] = asking->fd[asking->count];
    asking->pid[i] = asking->pid[asking->count];
}

static enum share_found read_answers(struct asking *asking, struct share_fds *found)
{
    for (uint32_t i = 0; i < asking->count;) {
        enum share_found one = read_answer(asking->fd[i], found);

        if (one == SHARE_FOUND || one == SHARE_SHORT)
            return one;
        if (one == SHARE_NONE)
            forget(asking, i);
        else
            i++;
    }
    return asking->count ? SHARE_SILENT : SHARE_NONE;
}

/* Until somebody has it, nobody does, or time is over. Serves meanwhile. */
static enum share_found await(struct share *share, struct asking *asking, struct share_fds *found)
{
    uint64_t end = clock_after(clock_now(), SHARE_WAIT_MS * CLOCK_NS_PER_MS);
    struct pollfd fds[SHARE_NAMES + 1];
    enum share_found result;

    while ((result = read_answers(asking, found)) == SHARE_SILENT) {
        int left = clock_poll_ms(clock_now(), end);

        fds[0] = (struct pollfd){ share->listener, POLLIN, 0 };
        for (uint32_t i = 0; i < asking->count; i++)
            fds[i + 1] = (struct pollfd){ asking->fd[i], POLLIN, 0 };
        if (!left || (poll(fds, asking->count + 1, left) < 0 && errno != EINTR))
            break;
        share_serve(share);
    }
    return result;
}

static enum share_found ask_once(struct share *share, const struct share_key *key,
                                 struct share_fds *found, struct net_why *why)
{
    struct asking asking = { 0 };
    enum share_found result = SHARE_SHORT;
    bool asked = ask_all(share, key, &asking);

    if (asked)
        result = await(share, &asking, found);
    if (result == SHARE_NONE && asking.full)
        result = SHARE_SILENT;
    if (result == SHARE_SILENT)
        net_say(why,
                "process %d of this user, which may have the sockets, does not answer: is it "
                "stopped?",
                asking.count ? (int)asking.pid[0] : 0);
    else if (result == SHARE_SHORT)
        net_say(why, "sockets could not be passed between processes: descriptors are short (ulimit "
                     "-n)");
    while (asking.count)
        forget(&asking, 0);
    return result;
}

enum share_found share_ask(struct share *share, const struct share_key *key,
                           struct share_fds *found, struct net_why *why)
{
    enum share_found result;

    do {
        share->outranked = false;
        result = ask_once(share, key, found, why);
    } while (result == SHARE_NONE && share->outranked);
    return result;
}
