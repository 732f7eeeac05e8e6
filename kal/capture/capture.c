/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture: one file per path and process, shared by the interfaces that name it; capture_file.c
 * writes it.
 *
 * A RECORD is one TCP connection. With loopback both ends may be captured in this file. Then each
 * end writes only what it transmits, because the peer's end has written what it receives. Sequence
 * numbers count the octets of each direction, so all segments fit together. The transmitter holds
 * the record from before the system call until the segment is recorded (RI_CAPTURE_HOLD), so no
 * response precedes its request.
 *
 * Lock order: record->lock, then files_lock or those of capture_file.c.
 */
#include "capture.h"
#include "capture_file.h"
#include "kal/rnic/rnic.h"

#include "base/clock.h"
#include "formats/pcapng.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

/* files_lock guards all members, but not the packets in the file. */
struct kal_capture {
    struct capture_file *file;
    unsigned users; /* number of interfaces and records */
    struct record *records;
    struct kal_capture *prev, *next;
};

struct kal_capture_end {
    struct record *record;
    bool attached, used; /* under files_lock */
};

struct record {
    struct kal_capture *capture;
    pthread_mutex_t lock;
    struct kal_capture_end ends[2]; /* initiator, responder of TCP */
    struct sockaddr_storage address[2];
    uint32_t seq[2]; /* next octet of each direction; under lock, as is: */
    bool fin[2], reset;
    uint16_t ident;
    atomic_bool both; /* both ends are captured in this file */
    struct record *prev, *next;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kal_capture *files;

/* ---- packets ---- */

/* A position in a list of iovecs. */
struct cursor {
    const struct iovec *iov;
    size_t offset;
};

static void gather(uint8_t *to, struct cursor *from, size_t length)
{
    while (length) {
        size_t left = from->iov->iov_len - from->offset, part = left < length ? left : length;

        memcpy(to, (const uint8_t *)from->iov->iov_base + from->offset, part);
        to += part;
        length -= part;
        from->offset += part;
        if (from->offset == from->iov->iov_len) {
            from->iov++;
            from->offset = 0;
        }
    }
}

/* Writes one segment from `side`, captured by `seer`. Record locked. */
static void put_segment(struct record *record, int side, int seer, uint8_t flags,
                        struct cursor *payload, size_t length)
{
    const struct tcpip_segment segment = { .from = &record->address[side],
                                           .to = &record->address[!side],
                                           .seq = record->seq[side],
                                           .ack = record->seq[!side],
                                           .ident = record->ident++,
                                           .flags = flags };
    size_t headers = tcpip_headers_size(&segment);
    uint32_t packet = (uint32_t)(headers + length);
    struct capture_file *file = record->capture->file;
    struct capture_buffer *buffer;
    uint8_t *at = capture_file_reserve(file, pcapng_packet_size(packet), &buffer);

    record->seq[side] += (uint32_t)length + (flags & (TCPIP_SYN | TCPIP_FIN) ? 1 : 0);
    if (!at)
        return;
    at += pcapng_packet_head(at, clock_wall(), packet);
    if (length)
        gather(at + headers, payload, length);
    tcpip_headers(at, &segment, length);
    pcapng_packet_tail(at + packet, packet, side == seer);
    capture_file_filled(file, buffer);
}

static void put_octets(struct record *record, int side, int seer, const struct iovec *iov,
                       int count)
{
    struct cursor cursor = { iov, 0 };
    size_t left = 0;

    for (int i = 0; i < count; i++)
        left += iov[i].iov_len;
    while (left) {
        size_t part = left < TCPIP_PAYLOAD_MAX ? left : TCPIP_PAYLOAD_MAX;

        while (cursor.iov->iov_len == cursor.offset) /* skip empty elements */
            cursor = (struct cursor){ cursor.iov + 1, 0 };
        left -= part;
        put_segment(record, side, seer, left ? TCPIP_ACK : TCPIP_ACK | TCPIP_PSH, &cursor, part);
    }
}

static void put_handshake(struct record *record, int seer)
{
    put_segment(record, 0, seer, TCPIP_SYN, NULL, 0);
    put_segment(record, 1, seer, TCPIP_SYN | TCPIP_ACK, NULL, 0);
    put_segment(record, 0, seer, TCPIP_ACK, NULL, 0);
}

static void put_end(struct record *record, int side, int seer, bool reset)
{
    if (record->reset || (record->fin[side] && !reset))
        return;
    record->reset = reset;
    record->fin[side] = true;
    put_segment(record, side, seer, TCPIP_ACK | (reset ? TCPIP_RST : TCPIP_FIN), NULL, 0);
}

/* ---- files ---- */

/* Replaces %p by the process id and %% by a percent sign. NULL: no memory. */
static char *expand(const char *text)
{
    char *path = NULL, pid[24];
    size_t room = 0;
    FILE *out = open_memstream(&path, &room);

    if (!out)
        return NULL;
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    for (; *text; text++) {
        if (*text == '%' && text[1] == 'p')
            fputs(pid, out);
        else
            fputc(*text, out);
        if (*text == '%' && (text[1] == 'p' || text[1] == '%'))
            text++;
    }
    if (fclose(out)) {
        free(path);
        return NULL;
    }
    return path;
}

static const char *advice(int error)
{
    switch (error) {
    case ELOOP: return "it is a symbolic link: name the file itself";
    case EEXIST: return "it is there and no regular file: choose another name";
    case EPERM:
    case EACCES: return "choose a folder of your own";
    case ENOENT: return "make the folder, or choose another";
    default: return "choose another name, or unset pcap";
    }
}

/* A packet that the provider has made or seen whole. */
static void capture_packet(const struct kal_rnic *rnic, enum ri_direction direction,
                           const struct iovec *iov, int count)
{
    struct capture_file *file = rnic->capture->file;
    struct capture_buffer *buffer;
    struct cursor cursor = { iov, 0 };
    size_t length = 0;
    uint8_t *at;

    for (int i = 0; i < count; i++)
        length += iov[i].iov_len;
    at = capture_file_reserve(file, pcapng_packet_size((uint32_t)length), &buffer);
    if (!at)
        return;
    at += pcapng_packet_head(at, clock_wall(), (uint32_t)length);
    gather(at, &cursor, length);
    pcapng_packet_tail(at + length, (uint32_t)length, direction == RI_TRANSMIT);
    capture_file_filled(file, buffer);
}

static void host_capture(const struct ri_host *host, uint64_t token, enum ri_direction direction,
                         const struct iovec *iov, int count)
{
    if (!token) {
        capture_packet(kal_rnic_of_host(host), direction, iov, count);
        return;
    }
    kal_capture((struct kal_capture_end *)(uintptr_t)token, direction, iov, count);
}

/* Takes ownership of the path. Returns 0 or errno. */
static int capture_new(char *path, const char *interface, struct kal_capture **out)
{
    struct kal_capture *capture = calloc(1, sizeof(*capture));
    int error = ENOMEM;

    if (!capture) {
        free(path);
        return error;
    }
    error = capture_file_new(path, interface, &capture->file);
    if (error) {
        free(capture);
        return error;
    }
    *out = capture;
    return 0;
}

enum ri_status kal_capture_open(struct kal_rnic *rnic)
{
    const char *text = kal_rnic_option(rnic, "pcap");
    struct kal_capture *capture = NULL;
    int error = ENOMEM;
    char *path;

    if (!*text)
        return RI_OK;
    path = expand(text);
    pthread_mutex_lock(&files_lock);
    if (path) {
        DL_FOREACH (files, capture)
            if (!strcmp(capture_file_path(capture->file), path))
                break;
        if (capture)
            free(path);
        error = capture ? 0 : capture_new(path, rnic->interface, &capture);
    }
    if (!error) {
        if (!capture->users++)
            DL_APPEND(files, capture);
        rnic->capture = capture;
        rnic->host.capture = host_capture;
    }
    pthread_mutex_unlock(&files_lock);
    if (!error)
        return RI_OK;
    kal_rnic_log(rnic, RI_LOG_ERROR, "the capture file %s (option pcap) cannot be made: %s; %s",
                 text, strerror(error), advice(error));
    return error == ENOMEM ? RI_ERR_NO_RESOURCES : ITAL_ERR_CONFIGURATION;
}

/* The last user ends the file; a thread that may not block leaves that to the writer. Called with
 * files_lock held; releases it. */
static void drop_user(struct kal_capture *capture, bool may_wait)
{
    bool last = --capture->users == 0;

    if (last)
        DL_DELETE(files, capture);
    pthread_mutex_unlock(&files_lock);
    if (!last)
        return;
    capture_file_end(capture->file, may_wait);
    free(capture);
}

void kal_capture_close(struct kal_rnic *rnic)
{
    struct kal_capture *capture = rnic->capture;

    rnic->capture = NULL;
    if (!capture)
        return;
    pthread_mutex_lock(&files_lock);
    drop_user(capture, true);
}

void kal_capture_fork_prepare(void)
{
    pthread_mutex_lock(&files_lock);
}

void kal_capture_fork_parent(void)
{
    pthread_mutex_unlock(&files_lock);
}

void kal_capture_fork_child(void)
{
    for (const struct kal_capture *capture = files; capture; capture = capture->next)
        capture_file_fork_child(capture->file);
    files = NULL;
    pthread_mutex_unlock(&files_lock);
}

/* ---- connections ---- */

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)a,
                             *b4 = (const struct sockaddr_in *)b;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a,
                              *b6 = (const struct sockaddr_in6 *)b;

    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a6->sin6_port == b6->sin6_port &&
           !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

/* The record that the other end has created. */
static struct record *mate(const struct kal_capture *capture, const struct sockaddr_storage *local,
                           const struct sockaddr_storage *peer, int side)
{
    struct record *record;

    DL_FOREACH (capture->records, record)
        if (!record->ends[side].used && record->ends[!side].attached &&
            same_address(&record->address[side], local) &&
            same_address(&record->address[!side], peer))
            break;
    return record;
}

static struct record *record_new(struct kal_capture *capture, const struct sockaddr_storage *local,
                                 const struct sockaddr_storage *peer, int side)
{
    static atomic_uint number;
    struct record *record = calloc(1, sizeof(*record));
    uint32_t start = atomic_fetch_add(&number, 1) * 0x01000193u;

    if (!record)
        return NULL;
    pthread_mutex_init(&record->lock, NULL);
    record->capture = capture;
    record->address[side] = *local;
    record->address[!side] = *peer;
    record->seq[0] = start;
    record->seq[1] = start ^ 0x80000000u;
    record->ends[0].record = record->ends[1].record = record;
    DL_APPEND(capture->records, record);
    capture->users++;
    put_handshake(record, side);
    return record;
}

struct kal_capture_end *kal_capture_begin(struct kal_rnic *rnic,
                                          const struct sockaddr_storage *local,
                                          const struct sockaddr_storage *peer, bool initiator)
{
    struct kal_capture *capture = rnic->capture;
    struct kal_capture_end *end = NULL;
    struct record *record;
    int side = initiator ? 0 : 1;

    if (!capture || (local->ss_family != AF_INET && local->ss_family != AF_INET6) ||
        local->ss_family != peer->ss_family)
        return NULL;
    pthread_mutex_lock(&files_lock);
    record = mate(capture, local, peer, side);
    if (record)
        atomic_store(&record->both, true);
    else
        record = record_new(capture, local, peer, side);
    if (record) {
        end = &record->ends[side];
        end->attached = end->used = true;
    }
    pthread_mutex_unlock(&files_lock);
    if (!end)
        kal_rnic_log(rnic, RI_LOG_ERROR, "a connection is not captured: free memory");
    return end;
}

/* The token is not used any more. */
static void close_end(struct kal_capture_end *end)
{
    struct record *record = end->record;
    struct kal_capture *capture = record->capture;

    pthread_mutex_lock(&record->lock);
    put_end(record, end == &record->ends[1], end == &record->ends[1], false);
    pthread_mutex_unlock(&record->lock);
    pthread_mutex_lock(&files_lock);
    end->attached = false;
    if (record->ends[0].attached || record->ends[1].attached) {
        pthread_mutex_unlock(&files_lock);
        return;
    }
    DL_DELETE(capture->records, record);
    drop_user(capture, false);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

/* Records what the peer sent. If the peer's end is captured too, it is recorded already. */
static void received(struct record *record, int side, const struct iovec *iov, int count)
{
    if (atomic_load(&record->both))
        return;
    pthread_mutex_lock(&record->lock);
    if (count > 0)
        put_octets(record, !side, side, iov, count);
    else
        put_end(record, !side, side, count == RI_CAPTURE_RST);
    pthread_mutex_unlock(&record->lock);
}

void kal_capture(struct kal_capture_end *end, enum ri_direction direction, const struct iovec *iov,
                 int count)
{
    struct record *record = end->record;
    int side = end == &record->ends[1];

    if (count == RI_CAPTURE_CLOSE)
        close_end(end);
    else if (count == RI_CAPTURE_HOLD)
        pthread_mutex_lock(&record->lock);
    else if (count == RI_CAPTURE_RELEASE)
        pthread_mutex_unlock(&record->lock);
    else if (direction == RI_RECEIVE)
        received(record, side, iov, count);
    else if (count > 0)
        put_octets(record, side, side, iov, count);
    else
        put_end(record, side, side, count == RI_CAPTURE_RST);
}
