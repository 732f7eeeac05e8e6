/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Asks processes for their state: all at once, with one deadline, so that none can hang it.
 */
#include "itstat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "formats/monitor.h"

#include "tools/common/tool.h"

#define DEADLINE_NS UINT64_C(2000000000)
#define STEP        65536u
/* Other users' processes may be many, and say much: of a folder, and of all together */
#define SERVERS_MOST 16384u
#define OCTETS_MOST  ((size_t)512 << 20)

/* ---- who is there ---------------------------------------------------------------------------- */

static bool is_wanted(const pid_t *wanted, pid_t process)
{
    if (!wanted)
        return true;
    for (; *wanted; wanted++)
        if (*wanted == process)
            return true;
    return false;
}

/* The number of the process that serves there, as the kernel says it (in another namespace, that of
 * here), whatever its name in the folder: each process of the user may make one. False: it is not
 * that user's. */
static bool ask_kernel(struct answer *answer)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(answer->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) || peer.uid != answer->user)
        return false;
    answer->sure = peer.pid > 0;
    if (answer->sure)
        answer->process = peer.pid;
    return true;
}

static bool add(struct answers *answers, const struct answer *answer)
{
    struct answer *grown = realloc(answers->answer, (answers->count + 1) * sizeof *grown);

    if (!grown) {
        tool_error("out of memory");
        return false;
    }
    answers->answer = grown;
    grown[answers->count++] = *answer;
    return true;
}

static struct answer *find(const struct answers *answers, pid_t process)
{
    for (size_t i = 0; i < answers->count; i++)
        if (answers->answer[i].process == process)
            return &answers->answer[i];
    return NULL;
}

/* One that serves under two names is one process; whom the kernel names stands for it, not another
 * user's file of that name. False: no memory. */
static bool keep(struct answers *answers, struct answer *answer)
{
    struct answer *other = find(answers, answer->process), before;

    if (!other) {
        if (!add(answers, answer))
            return false;
        answer->fd = -1;
    } else if (answer->sure && !other->sure) {
        before = *other;
        *other = *answer;
        *answer = before;
    }
    return true;
}

/* A process whose queue of clients is full, or for which no descriptor is left, is one that does
 * not answer. */
static bool connect_one(struct answers *answers, const pid_t *wanted, int folder, uid_t user,
                        const char *name)
{
    struct answer answer = { .process = monitor_process(name),
                             .user = user,
                             .fd = monitor_connect(folder, name) };
    bool good = true;

    if (answer.fd < 0 && errno == ECONNREFUSED)
        monitor_remove_stale(folder, name);
    if (answer.fd < 0 && errno != EAGAIN && errno != EMFILE && errno != ENFILE)
        return true;
    if ((answer.fd < 0 || ask_kernel(&answer)) && is_wanted(wanted, answer.process))
        good = keep(answers, &answer);
    if (answer.fd >= 0)
        close(answer.fd);
    return good;
}

/* Takes over the folder's descriptor. */
static bool look_into(struct answers *answers, const pid_t *wanted, int folder, uid_t user)
{
    DIR *list = fdopendir(folder);
    const struct dirent *entry;
    unsigned left = SERVERS_MOST;
    bool good = true;

    if (!list) {
        close(folder);
        return true;
    }
    while (good && left && (entry = readdir(list))) {
        if (!monitor_process(entry->d_name))
            continue;
        good = connect_one(answers, wanted, folder, user, entry->d_name);
        left--;
    }
    closedir(list);
    return good;
}

/* One place of each kind for each user: nobody can make root look into as many as they like. */
static bool is_place_of(const char *path, uid_t owner)
{
    char runtime[64], temporary[64];

    snprintf(runtime, sizeof runtime, "/run/user/%u/ital", (unsigned)owner);
    snprintf(temporary, sizeof temporary, "/tmp/ital-%u", (unsigned)owner);
    return !strcmp(path, runtime) || !strcmp(path, temporary);
}

static bool look_at_others(struct answers *answers, const pid_t *wanted)
{
    glob_t found = { 0 };
    bool good = true;
    uid_t owner;

    glob("/run/user/*/ital", GLOB_NOSORT, NULL, &found);
    glob("/tmp/ital-*", GLOB_NOSORT | GLOB_APPEND, NULL, &found);
    for (size_t i = 0; good && i < found.gl_pathc; i++) {
        int folder = monitor_folder_of(found.gl_pathv[i], &owner);

        if (folder >= 0 && is_place_of(found.gl_pathv[i], owner))
            good = look_into(answers, wanted, folder, owner);
        else if (folder >= 0)
            close(folder);
    }
    globfree(&found);
    return good;
}

static bool look_around(struct answers *answers, const pid_t *wanted)
{
    char path[MONITOR_PATH_ROOM];

    for (unsigned i = 0; i < MONITOR_FOLDERS; i++) {
        int folder = monitor_folder(i, false, path);

        if (folder >= 0 && !look_into(answers, wanted, folder, geteuid()))
            return false;
    }
    return geteuid() != 0 || look_at_others(answers, wanted);
}

/* ---- request and answer ---------------------------------------------------------------------- */

static void finish(struct answer *answer, bool whole)
{
    answer->whole = whole;
    close(answer->fd);
    answer->fd = -1;
}

static void send_request(struct answer *answer, const char *request, size_t length)
{
    ssize_t sent = send(answer->fd, request + answer->sent, length - answer->sent, MSG_NOSIGNAL);

    if (sent > 0)
        answer->sent += (size_t)sent;
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        finish(answer, false);
}

/* *left: octets that there is room for. */
static void receive(struct answer *answer, size_t *left)
{
    ssize_t got;

    if (answer->room - answer->length < STEP) {
        size_t room = answer->room * 2 + STEP;
        bool much = room > 2 * (size_t)MONITOR_ANSWER_MAX || room - answer->room > *left;
        char *grown = much ? NULL : realloc(answer->text, room);

        if (!grown) {
            finish(answer, false);
            return;
        }
        *left -= room - answer->room;
        answer->text = grown;
        answer->room = room;
    }
    got = recv(answer->fd, answer->text + answer->length, answer->room - answer->length, 0);
    if (got > 0)
        answer->length += (size_t)got;
    else if (!got)
        finish(answer, answer->length && answer->text[answer->length - 1] == '\n');
    else if (errno != EAGAIN && errno != EINTR)
        finish(answer, false);
}

/* The open ones in their order: poll takes no more entries than there may be descriptors. */
static size_t gather(const struct answers *answers, size_t request, struct pollfd *entries)
{
    size_t open = 0;

    for (size_t i = 0; i < answers->count; i++) {
        const struct answer *answer = &answers->answer[i];

        if (answer->fd >= 0)
            entries[open++] = (struct pollfd){ .fd = answer->fd,
                                               .events = answer->sent < request ? POLLOUT
                                                                                : POLLIN };
    }
    return open;
}

static bool talk(struct answers *answers, const char *request)
{
    struct pollfd *entries = calloc(answers->count + 1, sizeof *entries);
    uint64_t now = tool_now(), deadline = now + DEADLINE_NS;
    size_t length = strlen(request), open = answers->count, left = OCTETS_MOST;

    if (!entries) {
        tool_error("out of memory");
        return false;
    }
    for (; open && now < deadline && !tool_stop; now = tool_now()) {
        open = gather(answers, length, entries);
        if (!open || poll(entries, open, (int)((deadline - now) / 1000000) + 1) <= 0)
            continue;
        for (size_t i = 0, at = 0; at < open; i++) {
            struct answer *answer = &answers->answer[i];

            if (answer->fd < 0 || !entries[at++].revents)
                continue;
            if (answer->sent < length)
                send_request(answer, request, length);
            else
                receive(answer, &left);
        }
    }
    free(entries);
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int by_process(const void *a, const void *b)
{
    const struct answer *one = a, *other = b;

    return (one->process > other->process) - (one->process < other->process);
}

static void allow_descriptors(void)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool ask_processes(const char *get, const pid_t *wanted, struct answers *answers)
{
    char request[MONITOR_REQUEST_MAX];

    *answers = (struct answers){ NULL, 0 };
    allow_descriptors();
    snprintf(request, sizeof request, "{\"version\":%d,\"get\":\"%s\"}\n", MONITOR_VERSION, get);
    if (!look_around(answers, wanted) || !talk(answers, request)) {
        answers_free(answers);
        return false;
    }
    if (answers->count)
        qsort(answers->answer, answers->count, sizeof *answers->answer, by_process);
    return true;
}

void answers_free(struct answers *answers)
{
    for (size_t i = 0; i < answers->count; i++) {
        if (answers->answer[i].fd >= 0)
            close(answers->answer[i].fd);
        free(answers->answer[i].text);
    }
    free(answers->answer);
    *answers = (struct answers){ NULL, 0 };
}
