/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Destinations of log lines: stderr, a file, syslog.
 *
 * stderr belongs to the consumer, and its open file is shared with other processes, so this code
 * may not set O_NONBLOCK. A socket has MSG_DONTWAIT, a pipe RWF_NOWAIT (Linux 6.4). Other files are
 * opened again through /proc for the time of one line, with O_NONBLOCK. If /proc refuses (a process
 * that changed its user), the line is written after poll; then the write blocks if another process
 * fills the same pipe in between.
 */
#include "log_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <paths.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

const char *kal_log_syslog_path = _PATH_LOG;

/* ---- the descriptor: the program may close it (closefrom(3)) and reuse the number ---- */

static void own(struct log_sink *sink, int fd)
{
    struct stat about = { .st_ino = 0 };

    sink->fd = fd;
    if (fd >= 0)
        fstat(fd, &about);
    sink->device = about.st_dev;
    sink->inode = about.st_ino;
}

/* False: there is no descriptor, or the program closed it. */
static bool is_own(const struct log_sink *sink)
{
    struct stat about;

    return sink->fd >= 0 && !fstat(sink->fd, &about) && about.st_dev == sink->device &&
           about.st_ino == sink->inode;
}

/* ---- syslog: one datagram per line ---- syslog(3) blocks, and holds a lock that a fork leaves
 * locked. */

static int connect_syslog(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", kal_log_syslog_path);
    if (!connect(fd, (const struct sockaddr *)&to, sizeof(to)))
        return fd;
    close(fd);
    return -1;
}

/* Without a time: the daemon adds its own, and localtime_r is not safe during a fork. */
static ssize_t write_syslog(struct log_sink *sink, enum ri_log_level level, const char *line,
                            size_t length)
{
    static const int priorities[] = { [RI_LOG_ERROR] = LOG_ERR,
                                      [RI_LOG_WARNING] = LOG_WARNING,
                                      [RI_LOG_INFO] = LOG_INFO,
                                      [RI_LOG_DEBUG] = LOG_DEBUG };
    char text[LOG_LINE_MAX + 300];
    int used = snprintf(text, sizeof(text), "<%d>%.200s[%ld]: %.*s", LOG_USER | priorities[level],
                        program_invocation_short_name, (long)getpid(), (int)length - 1, line);

    for (int tries = 0; tries < 2; tries++) {
        if (!is_own(sink))
            own(sink, connect_syslog());
        if (sink->fd < 0)
            return -1;
        if (send(sink->fd, text, (size_t)used, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return (ssize_t)length;
        if (errno == EAGAIN || errno == ENOBUFS)
            return 0;
        log_sink_close(sink); /* the daemon has restarted */
    }
    return -1;
}

/* ---- stderr ---- */

/* Writes through an open file of our own, which does not block. -1 with errno. */
static ssize_t write_reopened(const char *line, size_t length)
{
    int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), error;
    struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
    ssize_t done;

    if (fd < 0 && errno == ENXIO) { /* a FIFO without a reader */
        errno = EPIPE;
        return -1;
    }
    if (fd < 0) {
        if (poll(&room, 1, 0) == 1)
            return write(STDERR_FILENO, line, length);
        errno = EAGAIN;
        return -1;
    }
    done = write(fd, line, length);
    error = errno;
    close(fd);
    errno = error;
    return done;
}

static ssize_t write_stderr(const char *line, size_t length)
{
    const struct iovec piece = { .iov_base = (void *)(uintptr_t)line, .iov_len = length };
    struct stat about;
    ssize_t done;

    if (fstat(STDERR_FILENO, &about))
        return -1;
    if (S_ISREG(about.st_mode))
        return write(STDERR_FILENO, line, length);
    if (S_ISSOCK(about.st_mode))
        return send(STDERR_FILENO, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (S_ISFIFO(about.st_mode)) {
        done = pwritev2(STDERR_FILENO, &piece, 1, -1, RWF_NOWAIT);
        if (done >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
            return done;
    }
    return write_reopened(line, length);
}

/* A write to a pipe without a reader raises SIGPIPE in the writing thread, which may be the
 * consumer's. */
static ssize_t write_quietly(int fd, const char *line, size_t length)
{
    const struct timespec now = { 0 };
    sigset_t pipe, before, pending;
    bool was_pending;
    ssize_t done;
    int error;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    done = fd == STDERR_FILENO ? write_stderr(line, length) : write(fd, line, length);
    error = errno;
    if (done < 0 && error == EPIPE && !was_pending)
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return done;
}

/* ---- all of them ---- */

/* With %p and %% replaced. False, with errno: too long. */
static bool expand(char out[PATH_MAX], const char *path)
{
    size_t used = 0;

    for (; *path && used < PATH_MAX; path++) {
        if (path[0] == '%' && path[1] == 'p')
            used += (size_t)snprintf(out + used, PATH_MAX - used, "%ld", (long)getpid());
        else
            out[used++] = *path;
        if (path[0] == '%' && (path[1] == 'p' || path[1] == '%'))
            path++;
    }
    if (used < PATH_MAX) {
        out[used] = '\0';
        return true;
    }
    errno = ENAMETOOLONG;
    return false;
}

/* O_CREAT only where it is missing: with it, sysctl fs.protected_regular refuses the file of
 * another user of the group in a sticky folder. */
static int open_file(const char *path)
{
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    char name[PATH_MAX];
    int fd;

    if (!expand(name, path))
        return -1;
    fd = open(name, flags);
    return fd < 0 && errno == ENOENT ? open(name, flags | O_CREAT, 0660) : fd;
}

bool log_sink_open(struct log_sink *sink, enum log_sink_kind kind, const char *path)
{
    sink->kind = kind;
    sink->fd = -1;
    if (kind == SINK_SYSLOG)
        own(sink, connect_syslog()); /* without a daemon each line tries again */
    if (kind != SINK_FILE)
        return true;
    own(sink, open_file(path));
    return sink->fd >= 0;
}

void log_sink_close(struct log_sink *sink)
{
    if (is_own(sink))
        close(sink->fd);
    sink->fd = -1;
}

ssize_t log_sink_write(struct log_sink *sink, enum ri_log_level level, const char *line,
                       size_t length)
{
    ssize_t done;

    if (sink->kind == SINK_SYSLOG)
        return write_syslog(sink, level, line, length);
    if (sink->kind == SINK_FILE && !is_own(sink))
        sink->kind = SINK_STDERR; /* to report that */
    do
        done = write_quietly(sink->kind == SINK_FILE ? sink->fd : STDERR_FILENO, line, length);
    while (done < 0 && errno == EINTR);
    return done < 0 && errno == EAGAIN ? 0 : done;
}
