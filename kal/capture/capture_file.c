/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture file with two BUFFERS. A recorder reserves room in one (briefly under file->lock),
 * fills it without a lock, and commits it. The writer thread writes the full buffer to the disk. If
 * there is no room, or a write fails, the packet is counted as missing. The file always ends with a
 * complete block. file->lock is a leaf.
 */
#include "capture_file.h"
#include "kal/report/report.h"

#include "base/clock.h"
#include "formats/pcapng.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_OCTETS (16u << 20)
#define GATHER_NS     (10 * CLOCK_NS_PER_MS) /* between two writes, unless a buffer is half full */

struct capture_buffer {
    uint8_t *octets;
    size_t used;
    uint64_t packets;
    unsigned filling; /* reservations not yet filled */
};

struct capture_file {
    char *path;
    int fd;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is something to write, or a reservation was filled, or stop */
    struct capture_buffer buffers[2], *open; /* open: the buffer in which recorders reserve */
    bool sleeping, stop;
    bool failed;    /* a write failed: nothing more is written */
    bool abandoned; /* no thread waits for the writer: it frees the file */
    int why;        /* errno of the failure; 0: the disk was too slow */
    bool missed_reported;
    uint64_t written, missing; /* numbers of packets */
    off_t length;              /* of complete blocks; used by the writer only */
};

/* ---- recorders ---- */

uint8_t *capture_file_reserve(struct capture_file *file, size_t size,
                              struct capture_buffer **buffer)
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

void capture_file_filled(struct capture_file *file, struct capture_buffer *buffer)
{
    pthread_mutex_lock(&file->lock);
    buffer->filling--;
    if (file->sleeping || buffer != file->open || buffer->used > BUFFER_OCTETS / 2)
        pthread_cond_signal(&file->changed);
    pthread_mutex_unlock(&file->lock);
}

/* ---- the writer ---- */

/* The writer reports errors and missing records once, because no thread waits for it. */
static void report_missing(struct capture_file *file)
{
    int why;
    bool tell;

    pthread_mutex_lock(&file->lock);
    tell = file->missing && !file->missed_reported;
    file->missed_reported |= tell;
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

static void give_up(struct capture_file *file, int why, uint64_t packets)
{
    if (ftruncate(file->fd, file->length))
        why = errno;
    pthread_mutex_lock(&file->lock);
    file->failed = true;
    file->why = why;
    file->missing += packets;
    pthread_mutex_unlock(&file->lock);
}

/* Writes complete blocks. Removes what the disk has taken only in part. */
static void write_out(struct capture_file *file, const uint8_t *octets, size_t length,
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

/* Takes the full buffer: closes it for recorders and waits until it is filled. Lock held. */
static struct capture_buffer *take_buffer(struct capture_file *file)
{
    struct capture_buffer *full = file->open;

    file->open = full == &file->buffers[0] ? &file->buffers[1] : &file->buffers[0];
    while (full->filling)
        pthread_cond_wait(&file->changed, &file->lock);
    return full;
}

/* Sleeps if the buffer is empty; waits a moment for more if it has little. Lock held. */
static void wait_for_work(struct capture_file *file)
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

static void file_free(struct capture_file *file)
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

static void finish(struct capture_file *file)
{
    uint8_t end[PCAPNG_END_LEN];
    uint64_t missing = file->missing;

    write_out(file, end, pcapng_end(end, clock_wall(), file->written, missing), 0);
    report_missing(file);
    if (missing)
        kal_log(RI_LOG_WARNING, "capture file %s: %llu packets are missing, %llu are there",
                file->path, (unsigned long long)missing, (unsigned long long)file->written);
}

static void *writer(void *arg)
{
    struct capture_file *file = arg;
    struct capture_buffer *full;
    bool stop, abandoned;

    pthread_mutex_lock(&file->lock);
    do {
        wait_for_work(file);
        stop = file->stop;
        full = take_buffer(file);
        pthread_mutex_unlock(&file->lock);
        write_out(file, full->octets, full->used, full->packets);
        report_missing(file);
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

/* ---- begin and end ---- */

/* Creates a file, or replaces a regular file of that name. Returns 0 or errno. A file that another
 * process writes, and a name that is no regular file, are not touched. */
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

static int start_writer(struct capture_file *file)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&file->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&file->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return thread_start(&file->writer, "ital-capture", 0, writer, file);
}

int capture_file_new(char *path, const char *interface, struct capture_file **out)
{
    struct capture_file *file = calloc(1, sizeof(*file));
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

const char *capture_file_path(const struct capture_file *file)
{
    return file->path;
}

void capture_file_end(struct capture_file *file, bool may_wait)
{
    pthread_t thread = file->writer;

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

void capture_file_fork_child(const struct capture_file *file)
{
    close(file->fd);
}
