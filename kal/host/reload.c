/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices changes of the host's policy.
 *
 * Programs close descriptors that are not theirs (daemons close all), and others get their numbers.
 * So before it is read the descriptor must be an inotify whose watches are all ours.
 */
#include "reload.h"

#include "kal/report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file counts when its writer has closed it; a link when it is made. */
#define IN_FOLDER                                                                       \
    (IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | \
     IN_DELETE_SELF | IN_MOVE_SELF)
#define ABOVE (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF)

/* ---- the descriptor -------------------------------------------------------------------------- */

static bool is_watched(const struct kal_reload *reload, const struct kal_watched *watched)
{
    for (unsigned i = 0; i < reload->count; i++)
        if (reload->watched[i].wd == watched->wd && reload->watched[i].inode == watched->inode &&
            reload->watched[i].mask == (watched->mask & IN_ALL_EVENTS))
            return true;
    return false;
}

static bool is_inotify(int fd)
{
    static const char kind[] = "anon_inode:inotify";
    char path[40], target[64];
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, target, sizeof(target));
    return length >= (ssize_t)sizeof(kind) - 1 && !memcmp(target, kind, sizeof(kind) - 1);
}

/* No watch of it is another's. Those whose folder is gone are in the list no more. */
static bool is_ours(const struct kal_reload *reload)
{
    char path[40], text[1024], *line;
    struct kal_watched watched;
    ssize_t length;
    int fd;

    if (!is_inotify(reload->fd))
        return false;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", reload->fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (length < 0 || length == (ssize_t)sizeof(text) - 1)
        return false;
    text[length] = '\0';
    for (line = text; (line = strstr(line, "inotify wd:")); line++)
        if (sscanf(line, "inotify wd:%x ino:%llx sdev:%*x mask:%x", (unsigned *)&watched.wd,
                   &watched.inode, &watched.mask) != 3 ||
            !is_watched(reload, &watched))
            return false;
    return true;
}

/* ---- what is watched ------------------------------------------------------------------------- */

/* By its descriptor: what is at `path` may be replaced at any time, and the inode that is noted is
 * to be the one that is watched. */
static bool watch_one(struct kal_reload *reload, const char *path, uint32_t mask)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), wd = -1;
    struct stat about;
    char itself[40];

    if (fd < 0)
        return false;
    snprintf(itself, sizeof(itself), "/proc/self/fd/%d", fd);
    if (!fstat(fd, &about))
        wd = inotify_add_watch(reload->fd, itself, mask);
    close(fd);
    if (wd < 0)
        return false;
    reload->watched[reload->count++] = (struct kal_watched){ wd, mask, about.st_ino };
    return true;
}

/* Watches the nearest folder above that is there. False: one between them came before the watch
 * did, so nothing will tell of it. */
static bool watch_above(struct kal_reload *reload, const char *folder)
{
    char path[PATH_MAX], below[PATH_MAX], *end;
    bool watched = false;

    if ((size_t)snprintf(path, sizeof(path), "%s", folder) >= sizeof(path))
        return true;
    do {
        memcpy(below, path, sizeof(below));
        end = strrchr(path, '/');
        if (end)
            *end = '\0';
        watched = end && watch_one(reload, end == path ? "/" : path, ABOVE);
    } while (end && !watched);
    return !watched || !strcmp(below, folder) || access(below, F_OK);
}

static void unwatch_all(struct kal_reload *reload)
{
    for (unsigned i = 0; i < reload->count; i++)
        inotify_rm_watch(reload->fd, reload->watched[i].wd);
    reload->count = 0;
}

/* The folder above first: from then on it tells of one that comes. */
static void watch_all(struct kal_reload *reload, const char *folder)
{
    /* Bounded, because what is there may be no folder that can be watched. */
    for (int tries = 0; tries < 4; tries++) {
        unwatch_all(reload);
        if (watch_above(reload, folder))
            break;
    }
    watch_one(reload, folder, IN_FOLDER);
}

void kal_reload_begin(struct kal_reload *reload, const char *folder)
{
    reload->count = 0;
    reload->fd = access(folder, F_OK) ? -1 : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (reload->fd >= 0)
        watch_all(reload, folder);
    else if (errno != ENOENT)
        kal_log(RI_LOG_WARNING,
                "changes of %s will not be noticed in this process: %s; raise "
                "fs.inotify.max_user_instances",
                folder, strerrordesc_np(errno));
}

/* A file that somebody has just begun to write: its end is noticed, too. */
static bool is_begun(const struct inotify_event *event, const char *folder)
{
    char path[PATH_MAX];
    struct stat about;

    return (event->mask & IN_CREATE) && event->len &&
           (size_t)snprintf(path, sizeof(path), "%s/%s", folder, event->name) < sizeof(path) &&
           !lstat(path, &about) && S_ISREG(about.st_mode) && about.st_nlink == 1;
}

bool kal_reload_noticed(struct kal_reload *reload, const char *folder)
{
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool noticed = false;
    ssize_t length;

    if (reload->fd < 0 || !is_ours(reload)) {
        reload->fd = -1;
        return false;
    }
    while ((length = read(reload->fd, buffer, sizeof(buffer))) > 0)
        for (const char *at = buffer; at < buffer + length;) {
            const struct inotify_event *event = (const void *)at;

            /* IN_IGNORED: this thread has removed the watch */
            noticed |= !(event->mask & IN_IGNORED) && !is_begun(event, folder);
            at += sizeof(*event) + event->len;
        }
    if (!noticed)
        return false;
    watch_all(reload, folder);
    return true;
}

void kal_reload_end(struct kal_reload *reload)
{
    if (reload->fd >= 0 && is_inotify(reload->fd))
        close(reload->fd);
    reload->fd = -1;
}
