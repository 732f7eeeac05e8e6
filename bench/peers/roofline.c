/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Roofline: what iWARP's framing costs over TCP when nothing else is done. FPDUs of about 64 KiB
 * leave in batches of 256 KiB. There are no queues, no checks and no completions.
 *
 * --provider says how octets arrive:
 *   staged         into a buffer of 256 KiB; summed there, then copied to their place
 *   direct         the kernel copies the payload to its place; it is summed there, after that. ital
 *                  must not do this: it sums before an octet of a message is visible.
 *   staged-no-crc, direct-no-crc     the same without sums
 *   staged-copied  staged; and the payload of a Read Response is copied at its source and summed
 *                  there, as its source may change until it has left
 *   staged-1m, staged-1m-no-crc      batches and buffer are of 1 MiB, as long as ital's writes
 *
 * A message of a ping-pong leaves as two FPDUs, each in a write of its own, so that both ends work
 * at once.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#endif

#define FPDU_MOST    65400u /* octets, all parts */
#define BATCH        (256u << 10)
#define LONG_BATCH   (1u << 20)
#define BATCH_FPDUS  64u /* most of one write */
#define HEAD         16u /* MPA length and a tagged DDP header */
#define TAIL         4u  /* CRC */
#define PAYLOAD_MOST (FPDU_MOST - HEAD - TAIL)
#define REQUEST_MARK 0xFFFFu /* in the header of a Read Request, which is a header alone */
#define SPLIT_FROM   (16u << 10)
#define FETCH        4096u /* octets that are fetched while as many are summed */

struct roof {
    struct peer *peer;
    int fd, flags;
    bool crc, direct, copied;
    size_t size;
    char *out, *in; /* of one message, as every message uses the same memory */
    char *copy;     /* of the payloads of one batch */

    /* One batch. */
    size_t most; /* octets */
    struct iovec iov[3 * BATCH_FPDUS];
    char heads[BATCH_FPDUS][HEAD], tails[BATCH_FPDUS][TAIL];
    unsigned fpdus;
    size_t octets;
    size_t sent_of_message;

    /* Staged: the buffer, filled from `begin` to `end`. Direct: the header of the FPDU that
     * comes. */
    char *stage;
    size_t begin, end;
    char head[TAIL + HEAD]; /* the CRC of the FPDU before, and the next header */
    size_t head_has, payload_has;
    size_t got_of_message;
    uint64_t messages, requests; /* that came */
    bool ended;
};

static uint32_t sum(const void *data, size_t length, uint32_t before)
{
#ifdef HAVE_ISAL
    return crc32_iscsi((unsigned char *)data, (int)length, before);
#else
    (void)data, (void)length;
    return before;
#endif
}

/* The same of memory that is in no cache: while a block is summed, the next one is fetched. */
static uint32_t sum_far(const char *data, size_t length, uint32_t before)
{
    for (; length > FETCH; length -= FETCH, data += FETCH) {
        for (size_t at = 0; at < FETCH && FETCH + at < length; at += 64)
            __builtin_prefetch(data + FETCH + at);
        before = sum(data, FETCH, before);
    }
    return sum(data, length, before);
}

/* Copies it and sums the copy, block by block; the next block is fetched meanwhile. */
static uint32_t sum_copy(char *to, const char *data, size_t length, uint32_t before)
{
    for (size_t at = 0, now; at < length; at += now) {
        now = length - at < FETCH ? length - at : FETCH;
        for (size_t ahead = at + now; ahead < at + 2 * now && ahead < length; ahead += 64)
            __builtin_prefetch(data + ahead);
        memcpy(to + at, data + at, now);
        before = sum(to + at, now, before);
    }
    return before;
}

/* ---- out ---- */

static void flush(struct roof *roof)
{
    struct msghdr message = { .msg_iov = roof->iov, .msg_iovlen = 3 * roof->fpdus };

    while (message.msg_iovlen) {
        ssize_t n = sendmsg(roof->fd, &message, roof->flags | MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0)
            peer_die_errno("sendmsg");
        while (message.msg_iovlen && (size_t)n >= message.msg_iov->iov_len) {
            n -= (ssize_t)message.msg_iov->iov_len;
            message.msg_iov++, message.msg_iovlen--;
        }
        if (n) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + n;
            message.msg_iov->iov_len -= (size_t)n;
        }
    }
    roof->fpdus = 0;
    roof->octets = 0;
}

static void add_fpdu(struct roof *roof, uint16_t mark, char *payload, size_t length)
{
    unsigned at = roof->fpdus++;
    uint16_t octets = htons(mark ? mark : (uint16_t)length);
    uint32_t crc = ~0u;

    memset(roof->heads[at], 0, HEAD);
    memcpy(roof->heads[at], &octets, sizeof(octets));
    if (roof->crc) {
        crc = sum(roof->heads[at], HEAD, crc);
        if (roof->copied) {
            crc = sum_copy(roof->copy + roof->octets, payload, length, crc);
            payload = roof->copy + roof->octets;
        } else {
            crc = sum_far(payload, length, crc);
        }
    }
    memcpy(roof->tails[at], &crc, TAIL);
    roof->iov[3 * at] = (struct iovec){ roof->heads[at], HEAD };
    roof->iov[3 * at + 1] = (struct iovec){ payload, length };
    roof->iov[3 * at + 2] = (struct iovec){ roof->tails[at], TAIL };
    roof->octets += HEAD + length + TAIL;
    if (roof->octets + FPDU_MOST > roof->most || roof->fpdus == BATCH_FPDUS)
        flush(roof);
}

static void send_message(struct roof *roof)
{
    for (size_t at = 0; at < roof->size;) {
        size_t left = roof->size - at, now = left < PAYLOAD_MOST ? left : PAYLOAD_MOST;

        add_fpdu(roof, 0, roof->out + at, now);
        at += now;
    }
}

static void send_apart(struct roof *roof)
{
    size_t parts = (roof->size + PAYLOAD_MOST - 1) / PAYLOAD_MOST;

    if (parts == 1 && roof->size >= SPLIT_FROM)
        parts = 2;
    for (size_t i = 0, at = 0; i < parts; i++) {
        size_t now = (roof->size - at) / (parts - i);

        add_fpdu(roof, 0, roof->out + at, now);
        if (roof->fpdus)
            flush(roof);
        at += now;
    }
}

/* ---- in ---- */

static void check_sum(struct roof *roof, const char *head, const char *payload, size_t length,
                      const char *tail)
{
    uint32_t crc = sum(payload, length, sum(head, HEAD, ~0u)), theirs;

    memcpy(&theirs, tail, TAIL);
    if (roof->crc && crc != theirs)
        peer_die("the sum of an FPDU is wrong");
}

static size_t payload_length(const char *head)
{
    uint16_t octets;

    memcpy(&octets, head, sizeof(octets));
    return ntohs(octets) == REQUEST_MARK ? 0 : ntohs(octets);
}

static void take_payload(struct roof *roof, size_t length)
{
    if (!length)
        roof->requests++;
    roof->got_of_message += length;
    if (roof->got_of_message > roof->size)
        peer_die("a message is longer than agreed");
    if (roof->got_of_message == roof->size) {
        roof->got_of_message = 0;
        roof->messages++;
    }
}

/* What recv() or recvmsg() said; true: something came. */
static bool came(struct roof *roof, ssize_t n)
{
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        peer_die_errno("recv");
    roof->ended = roof->ended || n == 0;
    return n > 0;
}

static void receive_staged(struct roof *roof, int flags)
{
    ssize_t n = recv(roof->fd, roof->stage + roof->end, roof->most - roof->end, flags);

    if (!came(roof, n))
        return;
    roof->end += (size_t)n;
    while (roof->end - roof->begin >= HEAD + TAIL) {
        const char *head = roof->stage + roof->begin;
        size_t length = payload_length(head);

        if (roof->end - roof->begin < HEAD + length + TAIL)
            break;
        if (roof->crc)
            check_sum(roof, head, head + HEAD, length, head + HEAD + length);
        if (roof->got_of_message + length <= roof->size)
            memcpy(roof->in + roof->got_of_message, head + HEAD, length);
        take_payload(roof, length);
        roof->begin += HEAD + length + TAIL;
    }
    memmove(roof->stage, roof->stage + roof->begin, roof->end - roof->begin);
    roof->end -= roof->begin;
    roof->begin = 0;
}

/* The stream is a first header, and then payload, CRC and the next header again and again. A CRC
 * that has no header behind it is read with MSG_DONTWAIT, as the last message has none. */
static void receive_direct(struct roof *roof, int flags)
{
    size_t length = roof->begin ? payload_length(roof->head + TAIL) : 0;
    size_t payload_left = length - roof->payload_has;
    struct iovec iov[2] = { { roof->in + roof->got_of_message + roof->payload_has, payload_left },
                            { roof->stage + roof->head_has, TAIL + HEAD - roof->head_has } };
    struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
    ssize_t n;

    if (roof->got_of_message + length > roof->size)
        peer_die("a message is longer than agreed");
    n = recvmsg(roof->fd, &message, flags);
    if (!came(roof, n))
        return;
    if ((size_t)n < payload_left) {
        roof->payload_has += (size_t)n;
        return;
    }
    roof->payload_has = length;
    if (roof->begin && roof->head_has < TAIL &&
        roof->head_has + ((size_t)n - payload_left) >= TAIL) {
        if (roof->crc)
            check_sum(roof, roof->head + TAIL, roof->in + roof->got_of_message, length,
                      roof->stage);
        take_payload(roof, length);
        roof->payload_has = 0;
        memset(roof->head + TAIL, 0, HEAD);
    }
    roof->head_has += (size_t)n - payload_left;
    if (roof->head_has < TAIL + HEAD)
        return;
    memcpy(roof->head, roof->stage, TAIL + HEAD);
    roof->head_has = 0;
    roof->begin = 1;
}

static void receive(struct roof *roof, int flags)
{
    if (roof->direct)
        receive_direct(roof, flags);
    else
        receive_staged(roof, flags);
}

/* ---- the plans ---- */

static void latency(struct roof *roof)
{
    struct peer *peer = roof->peer;
    uint64_t count = 0;

    peer_start(peer);
    if (peer->server) {
        for (;; count++) {
            while (roof->messages == count && !roof->ended)
                receive(roof, roof->flags);
            if (roof->ended)
                break;
            send_apart(roof);
        }
    } else {
        do {
            send_apart(roof);
            while (roof->messages == count && !roof->ended)
                receive(roof, roof->flags);
            if (roof->ended)
                peer_die("the server is gone");
            count++;
        } while (peer_lap(peer));
        shutdown(roof->fd, SHUT_WR);
    }
    peer_finish(peer, 2 * count, 2 * count * roof->size);
}

static void stream_from(struct roof *roof)
{
    struct peer *peer = roof->peer;
    uint64_t count = 0;

    peer_start(peer);
    while (peer_more(peer, count)) {
        send_message(roof);
        peer_stream(peer, ++count);
    }
    if (roof->fpdus)
        flush(roof);
    shutdown(roof->fd, SHUT_WR);
    peer_finish(peer, count, count * roof->size);
}

static void stream_to(struct roof *roof)
{
    struct peer *peer = roof->peer;

    peer_start(peer);
    while (!roof->ended) {
        receive(roof, roof->flags);
        peer_stream(peer, roof->messages);
    }
    peer_finish(peer, roof->messages, roof->messages * roof->size);
}

static void read_from(struct roof *roof)
{
    struct peer *peer = roof->peer;
    uint64_t asked = 0;

    peer_start(peer);
    while (roof->messages < asked || peer_more(peer, asked)) {
        while (asked - roof->messages < peer->plan.window && peer_more(peer, asked)) {
            add_fpdu(roof, REQUEST_MARK, roof->out, 0);
            asked++;
        }
        if (roof->fpdus)
            flush(roof);
        receive(roof, roof->flags);
        if (roof->ended)
            peer_die("the server is gone");
        peer_stream(peer, roof->messages);
    }
    shutdown(roof->fd, SHUT_WR);
    peer_finish(peer, asked, asked * roof->size);
}

/* It looks for requests after each message, and sleeps only when it owes nothing. */
static void answer_reads(struct roof *roof)
{
    struct peer *peer = roof->peer;
    uint64_t answered = 0;

    peer_start(peer);
    while (!roof->ended || answered < roof->requests) {
        if (!roof->ended)
            receive(roof, answered < roof->requests ? MSG_DONTWAIT : roof->flags);
        for (; answered < roof->requests; answered++)
            send_message(roof);
        if (roof->fpdus)
            flush(roof);
    }
    peer_finish(peer, PEER_NOT_SEEN, PEER_NOT_SEEN);
}

static void read_latency(struct roof *roof)
{
    struct peer *peer = roof->peer;
    uint64_t count = 0;

    peer_start(peer);
    do {
        add_fpdu(roof, REQUEST_MARK, roof->out, 0);
        flush(roof);
        while (roof->messages == count && !roof->ended)
            receive(roof, roof->flags);
        count++;
    } while (peer_lap(peer));
    shutdown(roof->fd, SHUT_WR);
    peer_finish(peer, count, count * roof->size);
}

static void check_octets(const struct roof *roof)
{
    for (size_t i = 0; roof->messages && i < roof->size; i++) {
        if (roof->in[i] != (roof->peer->server ? 'c' : 's'))
            peer_die("octet %zu of the last message is wrong", i);
    }
}

static void run(struct peer *peer)
{
    static struct roof roof;
    const char *how = peer->plan.provider;

    roof.peer = peer;
    roof.fd = peer_data_socket(peer);
    roof.flags = peer->plan.event ? 0 : MSG_DONTWAIT;
    roof.crc = strstr(how, "no-crc") == NULL;
    roof.direct = strncmp(how, "direct", 6) == 0;
    roof.size = peer->plan.size;
    roof.most = strstr(how, "1m") ? LONG_BATCH : BATCH;
    roof.out = peer_memory(roof.size, peer->server ? 's' : 'c');
    roof.in = peer_memory(roof.size + FPDU_MOST, 0);
    roof.stage = peer_memory(roof.most, 0);
    roof.copied = strstr(how, "copied") && peer->plan.op == PEER_READ && peer->server;
    roof.copy = peer_memory(roof.most, 0);
    if (roof.direct)
        roof.head_has = TAIL; /* nothing comes before the first header */
    snprintf(peer->library, sizeof(peer->library), "FPDUs over TCP, %s", how);
    if (peer->plan.mode == PEER_LAT && peer->plan.op == PEER_READ && !peer->server)
        read_latency(&roof);
    else if (peer->plan.mode == PEER_LAT && peer->plan.op != PEER_READ)
        latency(&roof);
    else if (peer->plan.op == PEER_READ && peer->server)
        answer_reads(&roof);
    else if (peer->plan.op == PEER_READ)
        read_from(&roof);
    else if (peer->server)
        stream_to(&roof);
    else
        stream_from(&roof);
    check_octets(&roof);
    close(roof.fd);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {
#ifdef HAVE_ISAL
        "staged",        "direct",        "staged-copied",    "staged-1m",
#endif
        "staged-no-crc", "direct-no-crc", "staged-1m-no-crc", NULL
    };
    static const struct peer_program program = {
        .name = "roofline",
        .ops = PEER_OP(PEER_SEND) | PEER_OP(PEER_WRITE) | PEER_OP(PEER_READ),
        .providers = ways,
        .run = run,
    };

    return peer_main(argc, argv, &program);
}
