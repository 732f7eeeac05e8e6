/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture: one file per path and process, shared by the interfaces that name it.
 *
 * A RECORD is one TCP connection. Both its ends may be captured by this file (loopback); then each writes what it transmits, and
 * what it receives is there already. Sequence numbers count the octets of each direction, so that every segment
 * fits the others. Who transmits holds the record from before the system call to after the recording (RI_CAPTURE_HOLD): an
 * answer cannot stand before its question.
 *
 * Two BUFFERS: recorders reserve room in one (a moment under file->lock), fill it without any lock, and say so; the
 * writer thread takes the full one to the disk. No room, or the disk refuses: the packet is counted as missing. The file
 * always ends with a whole block.
 *
 * Locks: record->lock, then files_lock or file->lock (leaves).
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "capture.h"
#include "kal_private.h"

#include "base/clock.h"
#include "base/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#define BUFFER_OCTETS (16u << 20)
#define GATHER_NS     (10 * CLOCK_NS_PER_MS) /* between two writes, unless a buffer is half full */

struct buffer {
    uint8_t *octets;
    size_t used;
    uint64_t packets;
    unsigned filling; /* reserved, not yet filled */
};

struct kal_capture {
    char *path;
    int fd;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;          /* something to write, stop, or a reservation was filled */
    struct buffer buffers[2], *open; /* open: where recorders reserve */
    bool sleeping, stop;
    bool failed;    /* the disk refused: nothing more is written */
    bool abandoned; /* the writer frees the file: nobody waits for it */
    int why;        /* errno of that; 0: too slow */
    bool missed_told;
    uint64_t written, missing; /* packets */
    off_t length;              /* of whole blocks; the writer's */
    /* under files_lock */
    unsigned users; /* interfaces, records */
    struct record *records;
    struct kal_capture *prev, *next;
};

struct kal_capture_end {
    struct record *record;
    bool attached, used; /* under files_lock */
};

struct record {
    struct kal_capture *file;
    pthread_mutex_t lock;
    struct kal_capture_end ends[2]; /* initiator, responder of TCP */
    struct sockaddr_storage address[2];
    uint32_t seq[2]; /* next octet of each direction; under lock, as is: */
    bool fin[2], reset;
    uint16_t ident;
    atomic_bool both; /* ends are captured here */
    struct record *prev, *next;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kal_capture *files;

/* ---- packets into the open buffer ---- */

/* Room for a block, to be filled without the lock; NULL: none, and counted. */
static uint8_t *reserve(struct kal_capture *file, size_t size, struct buffer **buffer)
{
    uint8_t *at = NULL;

    pthread_mutex_lock(&file->lock);
    *buffer = file->open;
    if (!file->failed && size <= BUFFER_OCTETS - file->open->used) {
        at = file->open->octets + file->open->used;
        file->open->used += size;
        file->open->packets++;
        file->open->filling++;
    } else {
        file->missing++;
    }
    pthread_mutex_unlock(&file->lock);
    return at;
}

static void filled(struct kal_capture *file, struct buffer *buffer)
{
    pthread_mutex_lock(&file->lock);
    buffer->filling--;
    if (file->sleeping || buffer != file->open || buffer->used > BUFFER_OCTETS / 2)
        pthread_cond_signal(&file->changed);
    pthread_mutex_unlock(&file->lock);
}

static uint64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A place in a list of pieces. */
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

/* One segment from `side`, seen by `seer`. Record locked. */
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
    struct buffer *buffer;
    uint8_t *at = reserve(record->file, pcapng_packet_size(packet), &buffer);

    record->seq[side] += (uint32_t)length + (flags & (TCPIP_SYN | TCPIP_FIN) ? 1 : 0);
    if (!at)
        return;
    at += pcapng_packet_head(at, wall_ns(), packet);
    if (length)
        gather(at + headers, payload, length);
    tcpip_headers(at, &segment, length);
    pcapng_packet_tail(at + packet, packet, side == seer);
    filled(record->file, buffer);
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

        while (cursor.iov->iov_len == cursor.offset) /* empty pieces */
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

/* ---- the writer ---- */

/* Errors and what is missing are told once, by the thread that nobody waits for. */
static void tell_missing(struct kal_capture *file)
{
    int why;
    bool tell;

    pthread_mutex_lock(&file->lock);
    tell = file->missing && !file->missed_told;
    file->missed_told |= tell;
    why = file->why;
    pthread_mutex_unlock(&file->lock);
    if (tell && why)
        kal_log(RI_LOG_WARNING, "capture file %s: %s; it ends there, make room or unset pcap",
                file->path, strerror(why));
    else if (tell)
        kal_log(
            RI_LOG_WARNING,
            "capture file %s: the disk is too slow, packets are missing in it; use a faster one",
            file->path);
}

static void give_up(struct kal_capture *file, int why, uint64_t packets)
{
    if (ftruncate(file->fd, file->length))
        why = errno;
    pthread_mutex_lock(&file->lock);
    file->failed = true;
    file->why = why;
    file->missing += packets;
    pthread_mutex_unlock(&file->lock);
}

/* A whole number of blocks. What the disk did not take entirely is cut off again. */
static void write_out(struct kal_capture *file, const uint8_t *octets, size_t length,
                      uint64_t packets)
{
    size_t done = 0;
    ssize_t n;

    if (file->failed || !length) {
        pthread_mutex_lock(&file->lock);
        file->missing += packets;
        pthread_mutex_unlock(&file->lock);
        return;
    }
    while (done < length) {
        n = write(file->fd, octets + done, length - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            file->length += (off_t)pcapng_whole(octets, done);
            give_up(file, errno, packets);
            return;
        }
    }
    file->length += (off_t)length;
    file->written += packets;
}

/* The full buffer, closed for recorders and filled; the lock is held. */
static struct buffer *take_buffer(struct kal_capture *file)
{
    struct buffer *full = file->open;

    file->open = full == &file->buffers[0] ? &file->buffers[1] : &file->buffers[0];
    while (full->filling)
        pthread_cond_wait(&file->changed, &file->lock);
    return full;
}

/* Nothing there: sleep; little: give it some time to become more. The lock is held. */
static void wait_for_work(struct kal_capture *file)
{
    struct timespec until;
    uint64_t by;

    file->sleeping = true;
    while (!file->open->used && !file->stop)
        pthread_cond_wait(&file->changed, &file->lock);
    file->sleeping = false;
    by = clock_after(clock_now(), GATHER_NS);
    until = (struct timespec){ (time_t)(by / CLOCK_NS_PER_S), (long)(by % CLOCK_NS_PER_S) };
    while (!file->stop && file->open->used <= BUFFER_OCTETS / 2 &&
           pthread_cond_timedwait(&file->changed, &file->lock, &until) != ETIMEDOUT)
        ;
}

static void file_free(struct kal_capture *file)
{
    if (file->fd >= 0)
        close(file->fd);
    pthread_cond_destroy(&file->changed);
    pthread_mutex_destroy(&file->lock);
    free(file->buffers[0].octets);
    free(file->buffers[1].octets);
    free(file->path);
    free(file);
}

static void finish(struct kal_capture *file)
{
    uint8_t end[PCAPNG_END_LEN];
    uint64_t missing = file->missing;

    write_out(file, end, pcapng_end(end, wall_ns(), file->written, missing), 0);
    tell_missing(file);
    if (missing)
        kal_log(RI_LOG_WARNING, "capture file %s: %llu packets are missing, %llu are there",
                file->path, (unsigned long long)missing, (unsigned long long)file->written);
}

static void *writer(void *arg)
{
    struct kal_capture *file = arg;
    struct buffer *full;
    bool stop, abandoned;

    pthread_mutex_lock(&file->lock);
    do {
        wait_for_work(file);
        stop = file->stop;
        full = take_buffer(file);
        pthread_mutex_unlock(&file->lock);
        write_out(file, full->octets, full->used, full->packets);
        tell_missing(file);
        pthread_mutex_lock(&file->lock);
        full->used = 0;
        full->packets = 0;
    } while (!stop);
    abandoned = file->abandoned;
    pthread_mutex_unlock(&file->lock);
    finish(file);
    if (abandoned)
        file_free(file);
    return NULL;
}

/* ---- files ---- */

/* %p is the process, %% a percent sign. NULL: no memory. */
static char *expand(const char *text)
{
    char *path = NULL, pid[24];
    size_t room = 0;
    FILE *out = open_memstream(&path, &room);

    if (!out)
        return NULL;
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
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

/* A new file in place of a regular one of that name, or errno: what somebody else writes to, and what is no file, stays as it
 * is. */
static int create(const char *path, int *fd)
{
    struct stat there;

    if (!lstat(path, &there)) {
        if (!S_ISREG(there.st_mode))
            return S_ISLNK(there.st_mode) ? ELOOP : EEXIST;
        if (unlink(path))
            return errno;
    }
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *fd < 0 ? errno : 0;
}

static int start_writer(struct kal_capture *file)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;
    int error;

    pthread_mutex_init(&file->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&file->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&file->writer, NULL, writer, file);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Takes the path. 0 or errno. */
static int file_new(char *path, const char *interface, struct kal_capture **out)
{
    struct kal_capture *file = calloc(1, sizeof *file);
    int error = ENOMEM;

    if (!file) {
        free(path);
        return ENOMEM;
    }
    file->path = path;
    file->fd = -1;
    file->open = &file->buffers[0];
    file->buffers[0].octets = malloc(BUFFER_OCTETS);
    file->buffers[1].octets = malloc(BUFFER_OCTETS);
    if (file->buffers[0].octets && file->buffers[1].octets)
        error = create(path, &file->fd);
    if (!error) {
        file->open->used = pcapng_start(file->open->octets, "ital", interface);
        error = start_writer(file);
        if (!error) {
            *out = file;
            return 0;
        }
        unlink(path);
    }
    if (file->fd >= 0)
        close(file->fd);
    free(file->buffers[0].octets);
    free(file->buffers[1].octets);
    free(path);
    free(file);
    return error;
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

static void host_capture(const struct ri_host *host, uint64_t token, enum ri_direction direction,
                         const struct iovec *iov, int count)
{
    (void)host;
    kal_capture((struct kal_capture_end *)(uintptr_t)token, direction, iov, count);
}

enum kal_status kal_capture_open(struct kal_rnic *rnic)
{
    const char *text = kal_rnic_option(rnic, "pcap");
    struct kal_capture *file = NULL;
    int error = ENOMEM;
    char *path;

    if (!text || !*text)
        return KAL_OK;
    path = expand(text);
    pthread_mutex_lock(&files_lock);
    if (path) {
        DL_FOREACH (files, file)
            if (!strcmp(file->path, path))
                break;
        if (file)
            free(path);
        error = file ? 0 : file_new(path, rnic->interface, &file);
    }
    if (!error) {
        if (!file->users++)
            DL_APPEND(files, file);
        rnic->capture = file;
        rnic->host.capture = host_capture;
    }
    pthread_mutex_unlock(&files_lock);
    if (!error)
        return KAL_OK;
    kal_rnic_log(rnic, RI_LOG_ERROR, "the capture file %s (option pcap) cannot be made: %s; %s",
                 text, strerror(error), advice(error));
    return error == ENOMEM ? KAL_ERR_NO_RESOURCES : KAL_ERR_CONFIGURATION;
}

/* The last user ends the file; who may not block leaves that to the writer. files_lock is held, and released. */
static void drop_user(struct kal_capture *file, bool may_wait)
{
    pthread_t thread = file->writer;
    bool last = --file->users == 0;

    if (last)
        DL_DELETE(files, file);
    pthread_mutex_unlock(&files_lock);
    if (!last)
        return;
    if (!may_wait)
        pthread_detach(thread);
    pthread_mutex_lock(&file->lock);
    file->stop = true;
    file->abandoned = !may_wait;
    pthread_cond_signal(&file->changed);
    pthread_mutex_unlock(&file->lock);
    if (may_wait) {
        pthread_join(thread, NULL);
        file_free(file);
    }
}

void kal_capture_close(struct kal_rnic *rnic)
{
    struct kal_capture *file = rnic->capture;

    rnic->capture = NULL;
    if (!file)
        return;
    pthread_mutex_lock(&files_lock);
    drop_user(file, true);
}

void kal_capture_fork_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    for (const struct kal_capture *file = files; file; file = file->next)
        close(file->fd);
    files_lock = fresh;
    files = NULL;
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
           !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr);
}

/* The record that the other end has begun. */
static struct record *mate(const struct kal_capture *file, const struct sockaddr_storage *local,
                           const struct sockaddr_storage *peer, int side)
{
    struct record *record;

    DL_FOREACH (file->records, record)
        if (!record->ends[side].used && record->ends[!side].attached &&
            same_address(&record->address[side], local) &&
            same_address(&record->address[!side], peer))
            break;
    return record;
}

static struct record *record_new(struct kal_capture *file, const struct sockaddr_storage *local,
                                 const struct sockaddr_storage *peer, int side)
{
    static atomic_uint number;
    struct record *record = calloc(1, sizeof *record);
    uint32_t start = atomic_fetch_add(&number, 1) * 0x01000193u;

    if (!record)
        return NULL;
    pthread_mutex_init(&record->lock, NULL);
    record->file = file;
    record->address[side] = *local;
    record->address[!side] = *peer;
    record->seq[0] = start;
    record->seq[1] = start ^ 0x80000000u;
    record->ends[0].record = record->ends[1].record = record;
    DL_APPEND(file->records, record);
    file->users++;
    put_handshake(record, side);
    return record;
}

struct kal_capture_end *kal_capture_begin(struct kal_rnic *rnic,
                                          const struct sockaddr_storage *local,
                                          const struct sockaddr_storage *peer, bool initiator)
{
    struct kal_capture *file = rnic->capture;
    struct kal_capture_end *end = NULL;
    struct record *record;
    int side = initiator ? 0 : 1;

    if (!file || (local->ss_family != AF_INET && local->ss_family != AF_INET6) ||
        local->ss_family != peer->ss_family)
        return NULL;
    pthread_mutex_lock(&files_lock);
    record = mate(file, local, peer, side);
    if (record)
        atomic_store(&record->both, true);
    else
        record = record_new(file, local, peer, side);
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
    struct kal_capture *file = record->file;

    pthread_mutex_lock(&record->lock);
    put_end(record, end == &record->ends[1], end == &record->ends[1], false);
    pthread_mutex_unlock(&record->lock);
    pthread_mutex_lock(&files_lock);
    end->attached = false;
    if (record->ends[0].attached || record->ends[1].attached) {
        pthread_mutex_unlock(&files_lock);
        return;
    }
    DL_DELETE(file->records, record);
    drop_user(file, false);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

/* What the peer did; where the peer's end is captured too it is there already. */
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
