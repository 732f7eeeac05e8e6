/* SPDX-License-Identifier: BSD-3-Clause */
/* A trial's verdict and its TCP connection: octets to the peer and from it, the start-up. */
#include "link.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAREWELL_MS 500 /* how long the end of a connection is waited for that is of no interest */

struct target target;
const struct start usual = { .flags = F_C | F_S, .rev = 2, .first = 8, .second = 8 };

/* ---- verdicts ---- */

static void decide(struct trial *trial, enum verdict verdict, const char *format, va_list list)
{
    if (trial->over)
        return;
    trial->over = true;
    trial->verdict = verdict;
    vsnprintf(trial->why, sizeof(trial->why), format, list);
}

void fail(struct trial *trial, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    decide(trial, FAILED, format, list);
    va_end(list);
}

void skip(struct trial *trial, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    decide(trial, NOT_JUDGED, format, list);
    va_end(list);
}

void note(struct trial *trial, const char *format, ...)
{
    size_t used = strlen(trial->why);
    char text[sizeof(trial->why)];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (trial->over || strstr(trial->why, text))
        return;
    snprintf(trial->why + used, sizeof(trial->why) - used, "%s%s", used ? "; " : "", text);
}

void record_keep(struct record *record, const void *octets, size_t length)
{
    size_t room = record->total < KEPT ? KEPT - record->total : 0;

    if (room)
        memcpy(record->at + record->total, octets, length < room ? length : room);
    record->total += length;
}

/* ---- the socket ---- */

uint64_t deadline_in(unsigned int ms)
{
    return tool_now() + (uint64_t)ms * 1000000u;
}

/* Waits for an event of the socket. False: the deadline has passed, or the user ends the tool. */
static bool await(int fd, short events, uint64_t deadline)
{
    for (;;) {
        struct pollfd poll_fd = { .fd = fd, .events = events };
        uint64_t now = tool_now(), ms = now < deadline ? (deadline - now + 999999) / 1000000 : 0;
        int ready = poll(&poll_fd, 1, (int)ms);

        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR || atomic_load(&tool_stop))
            return false;
    }
}

bool link_read(struct trial *trial, uint64_t deadline)
{
    struct link *link = &trial->link;
    ssize_t got;

    if (link->ended || link->fd < 0 || !await(link->fd, POLLIN, deadline))
        return false;
    if (link->used + FPDU_ROOM > link->room) {
        uint8_t *grown = realloc(link->octets, link->room + 2 * FPDU_ROOM);

        if (!grown) {
            skip(trial, "out of memory");
            return false;
        }
        link->octets = grown;
        link->room += 2 * FPDU_ROOM;
    }
    got = recv(link->fd, link->octets + link->used, link->room - link->used, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0) {
        link->ended = true;
        link->reset |= got < 0;
        capture_end(link->capture, false, link->reset);
        return true;
    }
    record_keep(&trial->received, link->octets + link->used, (size_t)got);
    capture_octets(link->capture, false, link->octets + link->used, (size_t)got);
    link->used += (size_t)got;
    return true;
}

static void settle(void)
{
    struct timespec pause = { .tv_sec = target.settle_ms / 1000,
                              .tv_nsec = target.settle_ms % 1000 * 1000000l };

    if (target.settle_ms)
        nanosleep(&pause, NULL);
}

void link_take(struct link *link, size_t length)
{
    link->used -= length;
    memmove(link->octets, link->octets + length, link->used);
}

/* The first FPDU that a peer awaits where A=1 was agreed, a Read of zero length, and its answer: an
 * end before it is a fault, which has crashed kernels. */
static void send_first(struct trial *trial, uint64_t deadline)
{
    struct link *link = &trial->link;
    uint8_t ulpdu[64], fpdu[128];
    size_t length;

    link->first_due = false;
    settle();
    length = fpdu_make(&link->out, fpdu, ulpdu, put_read(ulpdu, 1, 1, 0, 0, 0, 0));
    if (send(link->fd, fpdu, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
        return;
    capture_octets(link->capture, true, fpdu, length);
    link_read(trial, deadline);
}

/* FIN, then until the peer's: no RST, which some peers do not survive. */
static void hang_up(struct trial *trial)
{
    struct link *link = &trial->link;
    uint64_t deadline = deadline_in(FAREWELL_MS);
    struct record received = trial->received;

    if (link->fd < 0)
        return;
    if (!link->ended && link->first_due)
        send_first(trial, deadline);
    if (!link->ended) {
        capture_end(link->capture, true, false);
        shutdown(link->fd, SHUT_WR);
    }
    while (!link->ended && link_read(trial, deadline))
        link->used = 0;
    trial->received = received;
    close(link->fd);
    link->fd = -1;
    capture_link_free(link->capture);
    link->capture = NULL;
}

static int connect_to(const struct addrinfo *address, uint64_t deadline)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    int error = 0;
    socklen_t length = sizeof(error);

    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!connect(fd, address->ai_addr, address->ai_addrlen))
        return fd;
    if (errno == EINPROGRESS) {
        error = ETIMEDOUT;
        if (await(fd, POLLOUT, deadline))
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (!error)
            return fd;
        errno = error;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

int dial_socket(unsigned int ms)
{
    uint64_t deadline = deadline_in(ms);
    int fd = -1;

    for (const struct addrinfo *at = target.address; at && fd < 0; at = at->ai_next)
        fd = connect_to(at, deadline);
    return fd;
}

void unreachable(struct trial *trial)
{
    skip(trial, "no TCP connection: %s", strerror(errno));
    trial->unreachable = true;
}

void link_start(struct trial *trial, int fd)
{
    struct link *link = &trial->link;

    hang_up(trial);
    *link = (struct link){
        .fd = fd,
        .octets = link->octets,
        .room = link->room,
        .out.marker_only = -1,
        .read_msn = 1,
        .send_msn = 1,
    };
    link->capture = capture_link_new(fd);
    trial->sent.total = trial->received.total = 0;
}

void dial(struct trial *trial)
{
    int fd;

    if (trial->over)
        return;
    fd = dial_socket(target.patience_ms);
    if (fd < 0) {
        unreachable(trial);
        return;
    }
    link_start(trial, fd);
}

/* Sends all of it, or as much as a peer takes that closes; reads what comes meanwhile. */
void send_fpdu(struct trial *trial, const void *octets, size_t length)
{
    const uint8_t *at = octets;
    struct link *link = &trial->link;
    uint64_t deadline = deadline_in(target.patience_ms);

    if (trial->over)
        return;
    trial->sent.total = trial->received.total = 0;
    link->first_due = false;
    record_keep(&trial->sent, octets, length);
    while (length && !link->ended) {
        ssize_t some = send(link->fd, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (some > 0) {
            capture_octets(link->capture, true, at, (size_t)some);
            at += some;
            length -= (size_t)some;
        } else if (errno == EAGAIN) {
            struct pollfd both = { .fd = link->fd, .events = POLLIN | POLLOUT };

            poll(&both, 1, (int)target.patience_ms);
            if (both.revents & POLLIN)
                link_read(trial, 0);
            if (tool_now() > deadline) {
                fail(trial, "the peer does not read: %zu octets could not be sent", length);
                return;
            }
        } else if (errno != EINTR) {
            link->reset = errno == ECONNRESET; /* told once: what it answered is still to be read */
            return;
        }
    }
}

void say(struct trial *trial, const void *octets, size_t length)
{
    send_fpdu(trial, octets, length);
}

void finish(struct trial *trial)
{
    if (trial->over)
        return;
    trial->link.first_due = false;
    capture_end(trial->link.capture, true, false);
    shutdown(trial->link.fd, SHUT_WR);
}

void reset(struct trial *trial)
{
    const struct linger linger = { .l_onoff = 1 };
    struct link *link = &trial->link;

    if (trial->over || link->fd < 0)
        return;
    capture_end(link->capture, true, true);
    setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(link->fd);
    link->fd = -1;
    capture_link_free(link->capture);
    link->capture = NULL;
}

/* ---- start-up ---- */

size_t make_request(uint8_t out[static STARTUP_MAX], const struct start *start)
{
    uint8_t pd[STARTUP_MAX];
    size_t length = 0;

    if (!start->plain) {
        put16(pd, start->first);
        put16(pd + 2, start->second);
        length = 4;
    }
    if (target.private_length)
        memcpy(pd + length, target.private_data, target.private_length);
    return startup_make(out, false, start->flags, start->rev, pd, length + target.private_length);
}

void ask(struct trial *trial, const struct start *start)
{
    uint8_t frame[STARTUP_MAX + 4];

    dial(trial);
    trial->link.asked = start->flags;
    say(trial, frame, make_request(frame, start));
}

static uint32_t data_segments(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t length = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) ? 0 : info.tcpi_data_segs_in;
}

void hear_frame(struct trial *trial, bool is_reply, struct startup *frame)
{
    static uint8_t kept[STARTUP_MAX];
    const char *name = is_reply ? "Reply" : "Request";
    uint64_t deadline = deadline_in(target.patience_ms);
    struct link *link = &trial->link;
    enum startup_result result = STARTUP_PARTIAL;
    size_t size = 0;

    while (!trial->over) {
        if (link->used)
            result = startup_read(link->octets, link->used, is_reply, frame, &size);
        if (result == STARTUP_WHOLE)
            break;
        if (result == STARTUP_BAD_KEY)
            fail(trial, "what comes is no %s: the key is wrong", name);
        else if (result == STARTUP_BAD_LENGTH)
            fail(trial, "PD_Length of the %s is %u, more than 512", name, frame->pd_length);
        else if (link->ended)
            fail(trial, "%s instead of a %s, after %zu octets", link->reset ? "RST" : "FIN", name,
                 link->used);
        else if (!link_read(trial, deadline))
            fail(trial, "no %s within %u ms, %zu octets of it", name, target.patience_ms,
                 link->used);
    }
    if (trial->over)
        return;
    link->data_segments = data_segments(link->fd);
    memcpy(kept, link->octets, size);
    startup_read(kept, size, is_reply, frame, &size);
    link_take(link, size);
}

void hear_reply(struct trial *trial, struct startup *reply)
{
    struct link *link = &trial->link;

    hear_frame(trial, true, reply);
    if (trial->over)
        return;
    link->out.crc = link->in.crc = (link->asked | reply->flags) & F_C;
    link->out.markers = reply->flags & F_M;
    link->in.markers = link->asked & F_M;
    link->first_due = !(reply->flags & F_R) && reply->enhanced && reply->first & W_A;
}

void enter(struct trial *trial, const struct startup *reply)
{
    struct link *link = &trial->link;

    link->enhanced = reply->enhanced;
    link->peer_ird = reply->enhanced ? reply->first & W_DEPTH : 0;
    link->peer_ord = reply->enhanced ? reply->second & W_DEPTH : 0;
    settle();
}

void begin(struct trial *trial, const struct start *start)
{
    struct startup reply;

    if (trial->over)
        return;
    ask(trial, start);
    hear_reply(trial, &reply);
    if (trial->over)
        trial->verdict = NOT_JUDGED;
    else if (reply.flags & F_R)
        skip(trial, "the peer rejects the Request (R=1); for private data see --private-data");
    else
        enter(trial, &reply);
}

void hear_refusal(struct trial *trial, unsigned int ms, const char *what)
{
    uint64_t deadline = deadline_in(ms);
    struct link *link = &trial->link;

    while (!trial->over && !link->ended && !link->used)
        if (!link_read(trial, deadline))
            fail(trial, "%s: the peer does not close within %u ms", what, ms);
    REQUIRE(trial, !link->used, "%s: the peer answers instead of closing", what);
}

/* ---- life ---- */

void trial_run(struct trial *trial, const struct requirement *requirement)
{
    uint64_t start = tool_now();

    *trial = (struct trial){ .requirement = requirement, .link.fd = -1 };
    if (requirement->needs & NEEDS_VERBS && !target.helper)
        skip(trial, "needs itconform-peer beside the peer (--with-verbs)");
    else if (requirement->needs & DANGEROUS && !target.dangerous)
        skip(trial, "may crash a peer's kernel (--dangerous)");
    else
        requirement->judge(trial);
    hang_up(trial);
    free(trial->link.octets);
    trial->link.octets = NULL;
    trial->microseconds = (tool_now() - start) / 1000;
}
