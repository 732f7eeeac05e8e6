/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: the client's side of copying: walks the sources and moves each file through the ring.
 */
#include "itcp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/tool.h"

#define DEPTH 64

struct copier {
    const struct copy_options *options;
    struct chan *chan;
    struct copy_totals *totals;
    uint64_t offered;  /* bytes of the files before this one, for the progress bar */
    uint64_t shown;    /* the position of the progress bar */
    uint64_t credited; /* slots that the server has released */
    uint32_t slot;     /* next one to fill */
    struct copy_message message;
};

/* The result for a file. Only CHANNEL_DEAD ends the run. */
enum fate { FATE_DONE, FATE_FAILED, CHANNEL_DEAD };

static enum fate dead(struct copier *copier, enum conn_result result)
{
    struct chan *chan = copier->chan;

    if (result == CONN_ENDED)
        tool_error("connection to %s lost: %s", chan->peer, chan_why(chan));
    else if (result == CONN_TIMEOUT)
        tool_error("%s does not answer; check that its itcp is still running", chan->peer);
    else if (result == CONN_STOPPED)
        tool_error("interrupted");
    return CHANNEL_DEAD;
}

static enum fate complain(struct copier *copier, const char *name, const char *what)
{
    char shown[512];

    tool_error("'%s': %s", tool_printable(name, shown, sizeof(shown)), what);
    copier->totals->failed++;
    return FATE_FAILED;
}

/* ---- answers of the server ------------------------------------------------------------------- */

/*
 * Takes one message of the server, within timeout_us. Counts CREDITs. FATE_DONE with type 0: none
 * came, or a CREDIT. An ERROR is printed and ends the run.
 */
static enum fate listen_to_server(struct copier *copier, uint64_t timeout_us)
{
    struct copy_message *message = &copier->message;
    struct chan *chan = copier->chan;
    enum conn_result result = chan_receive(chan, message, timeout_us);
    char shown[1024];

    if (result == CONN_TIMEOUT) {
        message->type = 0;
        return FATE_DONE;
    }
    if (result != CONN_OK)
        return dead(copier, result);
    if (message->type == COPY_CREDIT) {
        copier->credited += message->slot;
        message->type = 0;
        if (copier->credited <= chan->puts)
            return FATE_DONE;
        tool_error("%s released more slots than it got; use the same itcp on both sides",
                   chan->peer);
        return CHANNEL_DEAD;
    }
    if (message->type == COPY_ERROR) {
        tool_error("%s: %s", chan->peer, tool_printable(message->text, shown, sizeof(shown)));
        return CHANNEL_DEAD;
    }
    return FATE_DONE;
}

/* Waits for an answer other than CREDIT. */
static enum fate await_answer(struct copier *copier)
{
    uint64_t limit = tool_now() + COPY_PATIENCE_US * 1000ull, now;
    enum fate fate;

    do {
        now = tool_now();
        if (now >= limit)
            return dead(copier, CONN_TIMEOUT);
        fate = listen_to_server(copier, (limit - now) / 1000 + 1);
    } while (fate == FATE_DONE && !copier->message.type);
    return fate;
}

/* The answer to FILE, DIR and DIR_END. FATE_FAILED: refused, printed. */
static enum fate await_go(struct copier *copier, const char *name)
{
    enum fate fate = await_answer(copier);
    char shown[512], why[1024];

    if (fate != FATE_DONE || copier->message.type == COPY_GO)
        return fate;
    if (copier->message.type != COPY_REFUSED) {
        tool_error("%s gave an answer out of turn; use the same itcp on both sides",
                   copier->chan->peer);
        return CHANNEL_DEAD;
    }
    tool_error("'%s' refused: %s", tool_printable(name, shown, sizeof(shown)),
               tool_printable(copier->message.text, why, sizeof(why)));
    copier->totals->refused++;
    return FATE_FAILED;
}

static enum fate tell(struct copier *copier, enum copy_type type, const char *text,
                      const struct stat *about)
{
    struct copy_message *message = &copier->message;
    enum conn_result result;

    memset(message, 0, sizeof(*message));
    message->type = (uint8_t)type;
    snprintf(message->text, sizeof(message->text), "%s", text);
    if (about) {
        message->mode = about->st_mode & 07777;
        message->size = type == COPY_FILE ? (uint64_t)about->st_size : 0;
        message->mtime = about->st_mtim.tv_sec;
        message->mtime_ns = (uint32_t)about->st_mtim.tv_nsec;
        message->flags = copier->options->overwrite ? COPY_FLAG_OVERWRITE : 0;
    }
    result = chan_send(copier->chan, message);
    return result == CONN_OK ? FATE_DONE : dead(copier, result);
}

/* ---- one file -------------------------------------------------------------------------------- */

struct source {
    int file;
    const char *name; /* on the server */
    struct stat stat;
    struct hasher *hasher; /* NULL: fits into one slot */
    uint8_t sum[COPY_SUM];
    uint64_t begun;
};

static uint64_t slots_in_use(const struct copier *copier)
{
    uint64_t back = copier->chan->puts_done < copier->credited ? copier->chan->puts_done
                                                               : copier->credited;

    return copier->chan->puts - back;
}

/* Reads exactly length bytes; false: error (errno), or the file got shorter (ENODATA). */
static bool read_part(int file, char *data, size_t length, uint64_t offset)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = pread(file, data + done, length - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ENODATA;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Sends the end of this file to the server. */
static enum fate give_up(struct copier *copier, const struct source *source, const char *what)
{
    if (tell(copier, COPY_ABORT, what, NULL) == CHANNEL_DEAD)
        return CHANNEL_DEAD;
    return complain(copier, source->name, what);
}

static const char *read_error(void)
{
    return errno == ENODATA ? "it became shorter while it was copied" : strerror(errno);
}

/* Sends the bytes of the file as slots become free; returns when the server has written them
 * all. */
static enum fate push(struct copier *copier, struct source *source)
{
    uint64_t size = (uint64_t)source->stat.st_size, offset = 0;
    struct chan *chan = copier->chan;
    enum conn_result result;
    enum fate fate = FATE_DONE;
    uint32_t length;
    bool room;

    while (fate == FATE_DONE && (offset < size || slots_in_use(copier))) {
        room = offset < size && slots_in_use(copier) < chan->slots;
        if (room) {
            char *slot = chan->ring + copier->slot * chan->chunk;

            length = (uint32_t)(size - offset < chan->chunk ? size - offset : chan->chunk);
            if (!read_part(source->file, slot, length, offset))
                return give_up(copier, source, read_error());
            if (!source->hasher)
                hash_bytes(slot, length, source->sum);
            result = chan_put(chan, copier->slot, length);
            if (result != CONN_OK)
                return dead(copier, result);
            copier->slot = (uint32_t)((copier->slot + 1) % chan->slots);
            offset += length;
            if (source->hasher) {
                hasher_allow(source->hasher, offset);
                hasher_keep_up(source->hasher, offset);
            }
        }
        copier->shown = copier->offered + offset;
        progress_show(copier->shown, source->name);
        fate = listen_to_server(copier, room ? 0 : COPY_PATIENCE_US);
        if (fate == FATE_DONE && copier->message.type == COPY_REFUSED)
            fate = complain(copier, source->name, copier->message.text);
    }
    return fate;
}

static void print_sum(const struct copier *copier, const struct source *source)
{
    char sum[2 * COPY_SUM + 1], shown[512];

    if (copier->options->verbose && copier->chan->conn)
        printf("%s  %s\n", sum_text(source->sum, sum),
               tool_printable(source->name, shown, sizeof(shown)));
}

/* Compares the sums of both sides. If they are equal the file has its name on the server. */
static enum fate conclude(struct copier *copier, struct source *source)
{
    struct copy_totals *totals = copier->totals;
    struct copy_message *message = &copier->message;
    struct hasher *hasher = source->hasher;
    enum conn_result result;
    enum fate fate;

    source->hasher = NULL;
    if (hasher && !hasher_finish(hasher, source->sum))
        return give_up(copier, source, read_error());
    if (!source->stat.st_size && !hash_bytes("", 0, source->sum))
        return give_up(copier, source, "cannot compute SHA-256");
    memset(message, 0, sizeof(*message));
    message->type = COPY_SUM_IS;
    memcpy(message->sum, source->sum, COPY_SUM);
    result = chan_send(copier->chan, message);
    if (result != CONN_OK)
        return dead(copier, result);
    fate = await_answer(copier);
    if (fate != FATE_DONE)
        return fate;
    if (message->type == COPY_REFUSED)
        return complain(copier, source->name, message->text);
    memcpy(totals->here, source->sum, COPY_SUM);
    memcpy(totals->there, message->sum, COPY_SUM);
    if (message->type != COPY_DONE || memcmp(message->sum, source->sum, COPY_SUM))
        return complain(
            copier, source->name,
            "its SHA-256 differs on the server, which removed it; it was changed while it was "
            "copied, or damaged on the way: copy it again");
    totals->files++;
    totals->bytes += (uint64_t)source->stat.st_size;
    print_sum(copier, source);
    return FATE_DONE;
}

static enum fate copy_open_file(struct copier *copier, struct source *source)
{
    enum fate fate;

    source->begun = tool_now();
    fate = tell(copier, COPY_FILE, source->name, &source->stat);
    if (fate == FATE_DONE)
        fate = await_go(copier, source->name);
    if (fate != FATE_DONE)
        return fate;
    if ((uint64_t)source->stat.st_size > copier->chan->chunk) {
        source->hasher = hasher_start(source->file, (uint64_t)source->stat.st_size);
        if (!source->hasher)
            return give_up(copier, source, "out of memory");
    }
    fate = push(copier, source);
    copier->totals->transfer_ns += tool_now() - source->begun;
    if (fate == FATE_DONE)
        fate = conclude(copier, source);
    hasher_abort(source->hasher);
    return fate;
}

/* follow: the last component may be a symbolic link (names of the command line). */
static enum fate copy_file(struct copier *copier, int directory, const char *path, const char *name,
                           bool follow)
{
    /* Without O_NONBLOCK a FIFO would hang here. */
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW);
    struct source source = { .name = name };
    enum fate fate;

    source.file = openat(directory, path, flags);
    if (source.file < 0)
        return complain(copier, name, strerror(errno));
    if (fstat(source.file, &source.stat))
        fate = complain(copier, name, strerror(errno));
    else if (!S_ISREG(source.stat.st_mode))
        fate = complain(copier, name, "is no regular file any more");
    else
        fate = copy_open_file(copier, &source);
    copier->offered += (uint64_t)source.stat.st_size;
    if (fate != CHANNEL_DEAD)
        copier->shown = copier->offered;
    close(source.file);
    return fate;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Calls `visit` for each entry of a directory but . and .., in the order of names; < 0: errno. */
static int each_entry(int directory, int (*visit)(void *arg, int directory, const char *name),
                      void *arg)
{
    struct dirent **entries;
    int count = scandirat(directory, ".", &entries, NULL, alphasort), result = 0;

    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;

        if (!result && strcmp(name, ".") && strcmp(name, ".."))
            result = visit(arg, directory, name);
        free(entries[i]);
    }
    if (count < 0)
        return -1;
    free(entries);
    return result;
}

/* One directory on the way down. */
struct level {
    struct copier *copier; /* NULL: measuring */
    uint64_t *bytes;
    const char *name; /* on the server */
    unsigned depth;
};

static enum fate copy_directory(struct copier *copier, int parent, const char *path,
                                const char *name, unsigned depth, bool follow);

static int visit_copy(void *arg, int directory, const char *entry)
{
    struct level *level = arg;
    struct copier *copier = level->copier;
    char name[COPY_PATH], shown[512];
    enum fate fate = FATE_DONE;
    struct stat about;

    if (snprintf(name, sizeof(name), "%s/%s", level->name, entry) >= (int)sizeof(name))
        fate = complain(copier, entry, "its name with all directories is too long");
    else if (fstatat(directory, entry, &about, AT_SYMLINK_NOFOLLOW))
        fate = complain(copier, name, strerror(errno));
    else if (S_ISDIR(about.st_mode))
        fate = copy_directory(copier, directory, entry, name, level->depth + 1, false);
    else if (S_ISREG(about.st_mode))
        fate = copy_file(copier, directory, entry, name, false);
    else {
        tool_error("'%s' left out: %s", tool_printable(name, shown, sizeof(shown)),
                   S_ISLNK(about.st_mode) ? "a symbolic link" : "no regular file");
        copier->totals->skipped++;
    }
    return fate == CHANNEL_DEAD;
}

static enum fate copy_directory(struct copier *copier, int parent, const char *path,
                                const char *name, unsigned depth, bool follow)
{
    struct level level = { .copier = copier, .name = name, .depth = depth };
    int directory, result;
    struct stat about;
    enum fate fate;

    if (depth > DEPTH)
        return complain(copier, name, "too many directories inside each other");
    directory = openat(parent, path,
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
    if (directory < 0 || fstat(directory, &about)) {
        fate = complain(copier, name, strerror(errno));
        goto out;
    }
    fate = tell(copier, COPY_DIR, name, &about);
    if (fate == FATE_DONE)
        fate = await_go(copier, name);
    if (fate != FATE_DONE)
        goto out;
    result = each_entry(directory, visit_copy, &level);
    if (result < 0)
        complain(copier, name, strerror(errno));
    fate = result > 0 ? CHANNEL_DEAD : tell(copier, COPY_DIR_END, name, &about);
    if (fate == FATE_DONE)
        fate = await_go(copier, name);
out:
    if (directory >= 0)
        close(directory);
    return fate;
}

/* Name on the server: the last component; of '.' and '..' the directory's real one. */
static bool base_name(const char *path, char name[NAME_MAX + 1])
{
    char real[PATH_MAX];
    const char *last;
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    last = memrchr(path, '/', length);
    last = last ? last + 1 : path;
    length -= (size_t)(last - path);
    if ((length == 1 && *last == '.') || (length == 2 && last[0] == '.' && last[1] == '.')) {
        if (!realpath(path, real))
            return false;
        last = strrchr(real, '/') + 1;
        length = strlen(last);
    }
    if (!length || length > NAME_MAX)
        return false;
    memcpy(name, last, length);
    name[length] = '\0';
    return true;
}

static enum fate copy_source(struct copier *copier, const char *path)
{
    char name[NAME_MAX + 1];
    struct stat about;

    if (stat(path, &about))
        return complain(copier, path, strerror(errno));
    if (!base_name(path, name))
        return complain(copier, path, "has no name that could be used on the server");
    if (S_ISREG(about.st_mode))
        return copy_file(copier, AT_FDCWD, path, name, true);
    if (!S_ISDIR(about.st_mode))
        return complain(copier, path, "neither a regular file nor a directory");
    if (!copier->options->recursive)
        return complain(copier, path, "is a directory; give -r to copy it");
    return copy_directory(copier, AT_FDCWD, path, name, 1, true);
}

static enum fate say_bye(struct copier *copier, bool compare)
{
    struct copy_message *message = &copier->message;
    enum conn_result result;

    memset(message, 0, sizeof(*message));
    message->type = COPY_BYE;
    message->flags = compare ? COPY_FLAG_TCP : 0;
    result = chan_send(copier->chan, message);
    return result == CONN_OK ? await_answer(copier) : dead(copier, result);
}

bool copy_sources(const struct copy_options *options, struct chan *chan, uint64_t total_bytes,
                  bool compare, struct copy_totals *totals)
{
    struct copier *copier = calloc(1, sizeof(*copier));
    uint64_t begun = tool_now();
    enum fate fate = FATE_DONE;

    if (!copier) {
        tool_error("out of memory");
        return false;
    }
    *copier = (struct copier){ .options = options, .chan = chan, .totals = totals };
    chan->wake_on_put = true;
    progress_start(options->quiet ? PROGRESS_NEVER : options->progress, total_bytes);
    for (char *const *path = options->sources; *path && fate != CHANNEL_DEAD; path++)
        fate = copy_source(copier, *path);
    progress_end(copier->shown);
    totals->total_ns = tool_now() - begun;
    if (fate != CHANNEL_DEAD)
        fate = say_bye(copier, compare && totals->files);
    free(copier);
    return fate != CHANNEL_DEAD;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int visit_measure(void *arg, int directory, const char *entry)
{
    struct level *level = arg, below = { .bytes = level->bytes, .depth = level->depth + 1 };
    struct stat about;
    int inner;

    if (fstatat(directory, entry, &about, AT_SYMLINK_NOFOLLOW))
        return 0; /* the copy reports it */
    if (S_ISREG(about.st_mode))
        *level->bytes += (uint64_t)about.st_size;
    if (!S_ISDIR(about.st_mode) || level->depth >= DEPTH)
        return 0;
    inner = openat(directory, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (inner >= 0) {
        each_entry(inner, visit_measure, &below);
        close(inner);
    }
    return 0;
}

uint64_t copy_measure(const struct copy_options *options)
{
    uint64_t bytes = 0;
    struct level level = { .bytes = &bytes, .depth = 1 };

    for (char *const *path = options->sources; *path; path++) {
        struct stat about;
        int directory;

        if (stat(*path, &about))
            continue;
        if (S_ISREG(about.st_mode))
            bytes += (uint64_t)about.st_size;
        if (!S_ISDIR(about.st_mode) || !options->recursive)
            continue;
        directory = open(*path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory >= 0) {
            each_entry(directory, visit_measure, &level);
            close(directory);
        }
    }
    return bytes;
}
