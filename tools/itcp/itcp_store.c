/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: files of the server. Names come from a peer that may be hostile. Every name is resolved
 * component by component from the served directory, without following symbolic links, so nothing
 * outside is reached.
 */
#include "itcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/common/tool.h"

#define PART       ".part"
#define NAME_BYTES 255u
#define PART_STEM  (NAME_BYTES - 17u - 5u) /* bytes of the name that a partial file's has */
#define PART_TRIES 8u
#define DEPTH      64u

static bool fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the sentence to why; always false. */
static bool fail(char *why, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, COPY_PATH, format, arguments);
    va_end(arguments);
    return false;
}

static bool component_good(const char *name, size_t length)
{
    return length > 0 && length <= NAME_BYTES && !(length == 1 && name[0] == '.') &&
           !(length == 2 && name[0] == '.' && name[1] == '.');
}

/* Relative, every component a plain name, not too deep. */
static bool name_good(const char *name)
{
    unsigned depth = 0;

    for (;;) {
        size_t length = strcspn(name, "/");

        if (!component_good(name, length) || ++depth > DEPTH)
            return false;
        if (!name[length])
            return true;
        name += length + 1;
    }
}

/* Descriptor of the directory that holds the last component of name, which is copied to last. */
static int open_parent(const struct store *store, const char *name, char last[NAME_BYTES + 1],
                       char *why)
{
    int directory;

    if (!name_good(name)) {
        fail(why, "unsafe name: only relative names without '.' and '..' are taken");
        return -1;
    }
    directory = openat(store->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; directory >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        char component[NAME_BYTES + 1];
        int next;

        memcpy(component, name, (size_t)(slash - name));
        component[slash - name] = '\0';
        next = openat(directory, component, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(directory);
        directory = next;
    }
    if (directory < 0)
        fail(why, "cannot enter its directory on the server: %s", strerror(errno));
    else
        memcpy(last, name, strlen(name) + 1);
    return directory;
}

/*
 * Creates the partial file. Its name is unique and cannot be predicted, so no other file is opened
 * or removed. The suffix marks it as partial.
 */
static int create_partial(struct store_file *out)
{
    int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file = -1;
    uint64_t random;

    for (unsigned tries = 0; tries < PART_TRIES; tries++) {
        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
            return -1;
        snprintf(out->part, sizeof(out->part), "%.*s.%016llx" PART, (int)PART_STEM, out->name,
                 (unsigned long long)random);
        file = openat(out->directory, out->part, flags, 0600);
        if (file >= 0 || errno != EEXIST)
            break;
    }
    return file;
}

static bool room_for(const struct store_file *out, uint64_t size, char *why)
{
    struct statvfs room;
    char need[TOOL_HUMAN], have[TOOL_HUMAN];

    if (fstatvfs(out->directory, &room) || !room.f_frsize || !room.f_blocks)
        return true; /* not known: a failed write reports it */
    if (size / room.f_frsize < room.f_bavail)
        return true;
    return fail(why, "no room on the server's disk: %s needed, %s free",
                tool_human((double)size, need),
                tool_human((double)room.f_bavail * (double)room.f_frsize, have));
}

static bool check_target(const struct store *store, const struct store_file *out, char *why)
{
    struct stat there;

    if (fstatat(out->directory, out->name, &there, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? true
                               : fail(why, "cannot look at it on the server: %s", strerror(errno));
    if (S_ISDIR(there.st_mode))
        return fail(why, "a directory of that name is there");
    if (out->overwrite)
        return true;
    if (!store->may_overwrite)
        return fail(why, "it exists on the server, which was not started with --overwrite");
    return fail(why, "it exists on the server; give --overwrite to replace it");
}

bool store_open(const struct store *store, const struct copy_message *message, bool discard,
                struct store_file *out, char *why)
{
    bool wish = message->flags & COPY_FLAG_OVERWRITE;

    memset(out, 0, sizeof(*out));
    out->file = -1;
    out->discard = discard;
    out->umask = store->umask;
    out->overwrite = wish && store->may_overwrite;
    out->directory = open_parent(store, message->text, out->name, why);
    if (out->directory < 0)
        return false;
    if (!discard && !check_target(store, out, why))
        goto close_directory;
    if (!room_for(out, message->size, why))
        goto close_directory;
    out->file = create_partial(out);
    if (out->file >= 0)
        return true;
    fail(why, "cannot create it on the server: %s", strerror(errno));
close_directory:
    close(out->directory);
    return false;
}

bool store_write(struct store_file *file, const void *data, size_t length, uint64_t offset,
                 char *why)
{
    for (size_t done = 0; done < length;) {
        ssize_t put = pwrite(file->file, (const char *)data + done, length - done,
                             (off_t)(offset + done));

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail(why, "cannot write on the server's disk: %s%s",
                        strerror(put < 0 ? errno : ENOSPC),
                        errno == ENOSPC || errno == EDQUOT ? "; make room there" : "");
        done += (size_t)put;
    }
    return true;
}

/* True: the partial file's name still refers to this program's file. */
static bool still_ours(const struct store_file *file)
{
    struct stat open_one, named_one;

    return fstat(file->file, &open_one) == 0 &&
           fstatat(file->directory, file->part, &named_one, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_dev == named_one.st_dev && open_one.st_ino == named_one.st_ino;
}

void store_abandon(struct store_file *file)
{
    if (file->file < 0)
        return;
    if (still_ours(file))
        unlinkat(file->directory, file->part, 0);
    close(file->file);
    close(file->directory);
    file->file = -1;
}

/* Renames the partial file to its final name; without overwrite never over an existing file. */
static int give_name(const struct store_file *file)
{
    struct stat there;

    if (file->overwrite)
        return renameat(file->directory, file->part, file->directory, file->name);
    if (renameat2(file->directory, file->part, file->directory, file->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* The file system cannot do it in one step. */
    if (fstatat(file->directory, file->name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(file->directory, file->part, file->directory, file->name);
}

static void times_of(const struct copy_message *message, struct timespec times[2])
{
    times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
    times[1] = (struct timespec){ .tv_sec = (time_t)message->mtime,
                                  .tv_nsec = (long)message->mtime_ns };
}

bool store_commit(struct store_file *file, const struct copy_message *message, char *why)
{
    struct timespec times[2];
    bool good = true;

    if (file->discard) {
        store_abandon(file);
        return true;
    }
    times_of(message, times);
    if (!still_ours(file))
        good = fail(why, "its partial file was removed on the server meanwhile");
    else if (fchmod(file->file, message->mode & 0777 & ~file->umask) || futimens(file->file, times))
        good = fail(why, "cannot set mode and time on the server: %s", strerror(errno));
    else if (give_name(file))
        good = errno == EEXIST ? fail(why, "somebody else created it on the server meanwhile")
                               : fail(why, "cannot rename the finished file on the server: %s",
                                      strerror(errno));
    if (!good) {
        store_abandon(file);
        return false;
    }
    if (close(file->file))
        good = fail(why, "cannot finish writing on the server's disk: %s", strerror(errno));
    close(file->directory);
    file->file = -1;
    return good;
}

/* Enters the directory that exists now. */
static bool enter(struct store_tree *tree, int directory, const char *last, bool made, char *why)
{
    int entered = openat(directory, last, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;
    bool good = entered >= 0 && fstat(entered, &about) == 0;

    if (good) {
        tree->level[tree->depth].device = about.st_dev;
        tree->level[tree->depth].inode = about.st_ino;
        tree->level[tree->depth++].made = made;
    } else {
        fail(why, "cannot enter it as a directory on the server: %s", strerror(errno));
    }
    if (entered >= 0)
        close(entered);
    return good;
}

bool store_make_directory(const struct store *store, struct store_tree *tree,
                          const struct copy_message *message, char *why)
{
    char last[NAME_BYTES + 1];
    int directory = open_parent(store, message->text, last, why);
    bool good, made;

    if (directory < 0)
        return false;
    /* Only the owner has access until the content is complete; then it gets its real mode. */
    made = tree->depth < STORE_DEPTH && mkdirat(directory, last, 0700) == 0;
    if (tree->depth == STORE_DEPTH)
        good = fail(why, "too many directories inside each other");
    else if (!made && errno != EEXIST)
        good = fail(why, "cannot create the directory on the server: %s", strerror(errno));
    else
        good = enter(tree, directory, last, made, why);
    close(directory);
    return good;
}

/* Mode and time, of one that this session made. */
static bool finish(const struct store *store, int made, const struct copy_message *message,
                   char *why)
{
    struct timespec times[2];

    times_of(message, times);
    if (futimens(made, times) == 0 && fchmod(made, message->mode & 0777 & ~store->umask) == 0)
        return true;
    return fail(why, "cannot set mode and time of the directory: %s", strerror(errno));
}

bool store_finish_directory(const struct store *store, struct store_tree *tree,
                            const struct copy_message *message, char *why)
{
    char last[NAME_BYTES + 1];
    int directory = open_parent(store, message->text, last, why), own = -1;
    struct stat about;
    bool good;

    if (directory < 0)
        return false;
    if (fstatat(directory, last, &about, AT_SYMLINK_NOFOLLOW) || !tree->depth ||
        tree->level[tree->depth - 1].device != about.st_dev ||
        tree->level[tree->depth - 1].inode != about.st_ino) {
        good = fail(why, "this is not the directory that was entered last");
    } else if (!tree->level[--tree->depth].made) {
        good = true;
    } else {
        own = openat(directory, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (own < 0 || fstat(own, &about) || tree->level[tree->depth].inode != about.st_ino)
            good = fail(why, "the directory was replaced on the server meanwhile");
        else
            good = finish(store, own, message, why);
    }
    if (own >= 0)
        close(own);
    close(directory);
    return good;
}
