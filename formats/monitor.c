/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The folder in which processes serve their state. Everything in it is reached through its
 * descriptor, after its owner was checked: no name of another user's is ever followed.
 */
#include "monitor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/unix_socket.h"

#define SUFFIX  ".sock"
#define BACKLOG 64

/* ---- the folder ------------------------------------------------------------------------------ */

/* Opens a folder that only its owner, this user, can change; `private`: or read. */
static int open_own(int base, const char *name, bool private)
{
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;

    if (fd < 0)
        return -1;
    if (fstat(fd, &about) || about.st_uid != geteuid() ||
        about.st_mode & (private ? S_IRWXG | S_IRWXO : S_IWGRP | S_IWOTH)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

static int make_own(int base, const char *name, bool private, bool make)
{
    if (make && !mkdirat(base, name, private ? 0700 : 0755)) {
        if (fchmodat(base, name, private ? 0700 : 0755, 0)) /* whatever the umask */
            return -1;
    } else if (make && errno != EEXIST) {
        return -1;
    }
    return open_own(base, name, private);
}

static int in_folder(int base, const char *name, bool private, bool make)
{
    int fd, error;

    if (base < 0)
        return -1;
    fd = make_own(base, name, private, make);
    error = errno;
    close(base);
    errno = error;
    return fd;
}

int monitor_folder_of(const char *path, uid_t *owner)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;

    if (fd < 0)
        return -1;
    if (fstat(fd, &about) || about.st_mode & (S_IRWXG | S_IRWXO)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    *owner = about.st_uid;
    return fd;
}

int monitor_folder_in(const char *base, const char *name, bool make)
{
    return in_folder(open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC), name, true, make);
}

int monitor_folder(unsigned index, bool make, char path[MONITOR_PATH_ROOM])
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    char name[32];

    if (geteuid() == 0 && !index) {
        snprintf(path, MONITOR_PATH_ROOM, "/run/ital/monitor");
        return in_folder(
            in_folder(open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "ital", false, make),
            "monitor", true, make);
    }
    if (geteuid() == 0 || index > 1) {
        errno = ENOTSUP;
        return -1;
    }
    if (index) {
        snprintf(name, sizeof(name), "ital-%u", (unsigned)geteuid());
        snprintf(path, MONITOR_PATH_ROOM, "/tmp/%s", name);
        return monitor_folder_in("/tmp", name, make);
    }
    if (!runtime || *runtime != '/' ||
        snprintf(path, MONITOR_PATH_ROOM, "%s/ital", runtime) >= (int)MONITOR_PATH_ROOM) {
        errno = ENOTSUP;
        return -1;
    }
    return in_folder(open_own(AT_FDCWD, runtime, false), "ital", true, make);
}

/* ---- names ----------------------------------------------------------------------------------- */

void monitor_name(pid_t process, char name[MONITOR_NAME_MAX])
{
    snprintf(name, MONITOR_NAME_MAX, "%d" SUFFIX, (int)process);
}

pid_t monitor_process(const char *name)
{
    char made[MONITOR_NAME_MAX];
    long process = strtol(name, NULL, 10);

    if (process <= 0 || process > INT32_MAX)
        return 0;
    monitor_name((pid_t)process, made);
    return strcmp(name, made) ? 0 : (pid_t)process;
}

/* The address of a name in the folder, whatever the length of the folder's path. */
static struct sockaddr_un address_of(int folder, const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder, name);
    return address;
}

/* ---- sockets --------------------------------------------------------------------------------- */

int monitor_connect(int folder, const char *name)
{
    struct sockaddr_un address = address_of(folder, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd >= 0)
        unix_refuse_descriptors(fd);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

void monitor_remove_stale(int folder, const char *name)
{
    struct stat before, now;
    int fd;

    if (fstatat(folder, name, &before, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(before.st_mode))
        return;
    fd = monitor_connect(folder, name);
    if (fd >= 0)
        close(fd);
    else if (errno == ECONNREFUSED && !fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) &&
             now.st_ino == before.st_ino) /* nobody has begun to serve there meanwhile */
        unlinkat(folder, name, 0);
}

/* A name under which a process made its socket and ended before it could rename it. */
static void remove_begun(int folder, const char *name)
{
    long process = strtol(name + 1, NULL, 10);

    if (process > 0 && process <= INT32_MAX && kill((pid_t)process, 0) && errno == ESRCH)
        unlinkat(folder, name, 0);
}

/* Nobody here has the number. So the many processes of a user do not wake each other when they
 * begin; in another namespace it may be somebody's, whom a connection finds. */
static bool is_gone(const char *name)
{
    pid_t process = monitor_process(name);

    return process && kill(process, 0) && errno == ESRCH;
}

void monitor_sweep(int folder, const char *except)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!list) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(list))) {
        if (entry->d_name[0] == '.')
            remove_begun(folder, entry->d_name);
        else if (is_gone(entry->d_name) && (!except || strcmp(entry->d_name, except)))
            monitor_remove_stale(folder, entry->d_name);
    }
    closedir(list);
}

/* The socket gets its name when it listens, so that a name without a listener is a stale one. */
int monitor_listen(int folder, const char *name)
{
    char begun[MONITOR_NAME_MAX + 1];
    struct sockaddr_un address;
    int fd, error;

    monitor_remove_stale(folder, name);
    snprintf(begun, sizeof(begun), ".%s", name);
    unlinkat(folder, begun, 0);
    address = address_of(folder, begun);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
        goto close_socket;
    if (fchmodat(folder, begun, 0600, 0) || listen(fd, BACKLOG) ||
        renameat2(folder, begun, folder, name, RENAME_NOREPLACE))
        goto remove_begun;
    return fd;

remove_begun:
    error = errno;
    unlinkat(folder, begun, 0);
    errno = error == EEXIST ? EADDRINUSE : error;
close_socket:
    error = errno;
    close(fd);
    errno = error;
    return -1;
}
