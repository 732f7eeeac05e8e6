/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The thread that serves the state of the process, from its first open interface to its last. It
 * also has the host's rules read again when root may have changed them, with option monitor or not.
 *
 * It sleeps in poll without a deadline while no client is there. To end it, its listener is shut
 * down; where the program has closed that descriptor (daemons close all), poll still has the
 * socket, so a connection to its name wakes it.
 *
 * `users` and the thread are under `lock`, descriptors and clients under `descriptors`, which is a
 * leaf. The thread takes `descriptors` for an accept or a close, and no lock while it sleeps.
 */
#include "state.h"

#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#define CLIENTS  8u
#define STACK    (256u << 10) /* octets; programs that lock all memory pay for it */
#define PAUSE_NS CLOCK_NS_PER_S

struct kal_state {
    struct kal *kal;
    pthread_mutex_t lock, descriptors;
    unsigned users;
    bool shows;  /* option monitor */
    bool serves; /* the thread runs */
    bool lost;   /* the thread sleeps on a socket that nobody can reach: its memory is left to it */
    pthread_t thread;
    atomic_bool stop;
    pid_t process; /* that made the socket; 0: none */
    uid_t user;
    uint64_t opened; /* clock_wall() */
    uint64_t pause;  /* no client is accepted before; used by the thread */
    /* Without a name (`shows` is false, or there is no place) it only wakes the thread. */
    int listener;
    ino_t inode;                 /* of the listener */
    char name[MONITOR_NAME_MAX]; /* empty: none */
    unsigned folder;             /* index */
    struct kal_state_client clients[CLIENTS];
};

/* The socket to remove if the program ends without closing its interfaces. */
static struct kal_state *_Atomic served;

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Is the descriptor still the socket that it was? Async-signal-safe. By the bare system call:
 * ThreadSanitizer would take the look at a descriptor that another thread may just have opened for
 * a race. */
static bool is_ours(int fd, ino_t inode)
{
    struct statx about;

    return fd >= 0 && !syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &about) &&
           S_ISSOCK(about.stx_mode) && about.stx_ino == inode;
}

static void close_ours(int *fd, ino_t inode)
{
    if (is_ours(*fd, inode))
        close(*fd);
    *fd = -1;
}

static void remove_socket(const struct kal_state *state)
{
    char path[MONITOR_PATH_ROOM];
    int folder = *state->name ? monitor_folder(state->folder, false, path) : -1;

    if (folder < 0)
        return;
    unlinkat(folder, state->name, 0);
    close(folder);
}

__attribute__((destructor)) static void at_exit(void)
{
    const struct kal_state *state = atomic_exchange(&served, NULL);

    if (state && state->process == getpid())
        remove_socket(state);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool may_ask(const struct kal_state *state, int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
           (peer.uid == 0 || peer.uid == state->user);
}

static void accept_client(struct kal_state *state, struct kal_state_client *client, uint64_t now)
{
    struct stat about;

    pthread_mutex_lock(&state->descriptors);
    client->fd = accept4(state->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client->fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            state->pause = clock_after(now, PAUSE_NS); /* no descriptor is left */
    } else if (fstat(client->fd, &about) || !may_ask(state, client->fd)) {
        close(client->fd);
        client->fd = -1;
    } else {
        client->inode = about.st_ino;
        client->deadline = clock_after(now, KAL_STATE_CLIENT_NS);
        client->got = client->length = client->sent = 0;
    }
    pthread_mutex_unlock(&state->descriptors);
}

static void end_client(struct kal_state *state, struct kal_state_client *client)
{
    free(client->answer);
    client->answer = NULL;
    pthread_mutex_lock(&state->descriptors);
    close_ours(&client->fd, client->inode);
    pthread_mutex_unlock(&state->descriptors);
}

static struct kal_state_client *free_client(struct kal_state *state)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (state->clients[i].fd < 0)
            return &state->clients[i];
    return NULL;
}

/* What poll waits for: the listener, the clients, changes of the host's rules. */
enum { LISTENER, FIRST_CLIENT, RULES = FIRST_CLIENT + CLIENTS, ENTRIES };

/* Fills that in. Returns the deadline. */
static uint64_t gather(struct kal_state *state, struct pollfd entries[ENTRIES], uint64_t now)
{
    uint64_t deadline = CLOCK_NEVER;

    entries[LISTENER] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (state->pause > now)
        deadline = state->pause;
    else if (free_client(state))
        entries[LISTENER].fd = state->listener;
    entries[RULES] = (struct pollfd){ .fd = kal_host_rules_watch(state->kal->host),
                                      .events = POLLIN };
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct kal_state_client *client = &state->clients[i];

        entries[FIRST_CLIENT + i] = (struct pollfd){ .fd = client->fd,
                                                     .events = kal_state_client_events(client) };
        if (client->fd >= 0 && client->deadline < deadline)
            deadline = client->deadline;
    }
    return deadline;
}

static void serve_clients(struct kal_state *state, const struct pollfd *entries, uint64_t now)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct kal_state_client *client = &state->clients[i];

        if (client->fd < 0)
            continue;
        if (entries[FIRST_CLIENT + i].revents &&
            !kal_state_client_go(client, state->kal, state->opened))
            end_client(state, client);
        else if (now >= client->deadline)
            end_client(state, client);
    }
}

static void *serve(void *arg)
{
    struct pollfd entries[ENTRIES];
    struct kal_state *state = arg;
    uint64_t now, deadline;

    sanitizer_ignore_begin();
    for (;;) {
        now = clock_now();
        deadline = gather(state, entries, now);
        if (poll(entries, ENTRIES, clock_poll_ms(now, deadline)) < 0 && errno != EINTR)
            break;
        if (atomic_load(&state->stop))
            break;
        if (entries[LISTENER].revents && !is_ours(state->listener, state->inode))
            break; /* the program closed it */
        if (entries[RULES].revents)
            kal_host_rules_changed(state->kal->host);
        now = clock_now();
        serve_clients(state, entries, now);
        if (entries[LISTENER].revents)
            accept_client(state, free_client(state), now);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        end_client(state, &state->clients[i]);
    sanitizer_ignore_end();
    return NULL;
}

/* ---- begin and end; under the lock ----------------------------------------------------------- */

static int open_socket(struct kal_state *state, char path[MONITOR_PATH_ROOM])
{
    int folder = -1, fd, error;

    strcpy(path, "a folder of the user's own");
    for (state->folder = 0; folder < 0 && state->folder < MONITOR_FOLDERS; state->folder++) {
        folder = monitor_folder(state->folder, true, path);
        if (folder >= 0)
            break;
    }
    if (folder < 0)
        return -1;
    monitor_name(getpid(), state->name);
    monitor_sweep(folder, state->name);
    fd = monitor_listen(folder, state->name);
    error = errno;
    close(folder);
    errno = error;
    return fd;
}

/* Of a thread that serves nobody: it is woken by its shutdown. */
static int open_nameless(struct kal_state *state)
{
    *state->name = '\0';
    if (kal_host_rules_watch(state->kal->host) < 0)
        return -1;
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void begin(struct kal_state *state)
{
    char path[MONITOR_PATH_ROOM];
    struct stat about;
    int error, fd;

    pthread_mutex_lock(&state->descriptors);
    fd = state->shows ? open_socket(state, path) : -1;
    error = errno;
    if (state->shows && fd < 0)
        kal_log(RI_LOG_INFO, "itstat does not see this process: no socket in %s: %s", path,
                strerrordesc_np(error));
    if (fd < 0)
        fd = open_nameless(state);
    state->listener = fd;
    if (fd >= 0)
        state->inode = fstat(fd, &about) ? 0 : about.st_ino;
    pthread_mutex_unlock(&state->descriptors);
    if (fd < 0)
        return;
    state->process = getpid();
    state->user = geteuid();
    state->opened = clock_wall();
    state->pause = 0;
    atomic_store(&state->stop, false);
    error = thread_start(&state->thread, "ital-monitor", STACK, serve, state);
    if (error) {
        kal_log(RI_LOG_INFO,
                "itstat does not see this process, and changes of the host's policy are not "
                "noticed: no thread: %s",
                strerrordesc_np(error));
        remove_socket(state);
        pthread_mutex_lock(&state->descriptors);
        close_ours(&state->listener, state->inode);
        pthread_mutex_unlock(&state->descriptors);
        return;
    }
    state->serves = true;
    atomic_store(&served, state);
}

/* Wakes the thread, which the set flag then ends. False: nothing can wake it. */
static bool wake(struct kal_state *state)
{
    char path[MONITOR_PATH_ROOM];
    int folder, fd;
    bool woken;

    if (is_ours(state->listener, state->inode))
        return !shutdown(state->listener, SHUT_RDWR);
    if (!*state->name)
        return false;
    folder = monitor_folder(state->folder, false, path);
    fd = folder < 0 ? -1 : monitor_connect(folder, state->name);
    woken = fd >= 0 || errno == ECONNREFUSED; /* refused: it has noticed that, and has ended */
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    return woken;
}

static void end(struct kal_state *state)
{
    if (!state->serves)
        return;
    atomic_store(&served, NULL);
    atomic_store(&state->stop, true);
    if (!wake(state)) {
        pthread_detach(state->thread);
        state->lost = true;
        return;
    }
    pthread_join(state->thread, NULL);
    state->serves = false;
    remove_socket(state);
    pthread_mutex_lock(&state->descriptors);
    close_ours(&state->listener, state->inode);
    pthread_mutex_unlock(&state->descriptors);
}

void kal_state_open(struct kal_state *state)
{
    if (!state)
        return;
    pthread_mutex_lock(&state->lock);
    if (state->users++ == 0 && !state->lost)
        begin(state);
    pthread_mutex_unlock(&state->lock);
}

void kal_state_close(struct kal_state *state)
{
    if (!state)
        return;
    pthread_mutex_lock(&state->lock);
    if (--state->users == 0 && !state->lost)
        end(state);
    pthread_mutex_unlock(&state->lock);
}

struct kal_state *kal_state_create(struct kal *kal)
{
    bool shows = kal_values_bool(kal->config->ital, "monitor");
    struct kal_state *state;

    if (!shows && kal_host_rules_watch(kal->host) < 0)
        return NULL;
    state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    state->kal = kal;
    state->shows = shows;
    state->listener = -1;
    for (unsigned i = 0; i < CLIENTS; i++)
        state->clients[i].fd = -1;
    pthread_mutex_init(&state->lock, NULL);
    pthread_mutex_init(&state->descriptors, NULL);
    return state;
}

void kal_state_destroy(struct kal_state *state)
{
    if (!state || state->lost)
        return;
    pthread_mutex_destroy(&state->lock);
    pthread_mutex_destroy(&state->descriptors);
    free(state);
}

/* ---- fork ------------------------------------------------------------------------------------ */

void kal_state_fork_prepare(struct kal_state *state)
{
    if (state)
        pthread_mutex_lock(&state->descriptors);
}

void kal_state_fork_parent(struct kal_state *state)
{
    if (state)
        pthread_mutex_unlock(&state->descriptors);
}

/* A listener that the child kept would seem to be a process that does not answer. */
void kal_state_fork_child(struct kal_state *state)
{
    if (!state)
        return;
    atomic_store(&served, NULL);
    close_ours(&state->listener, state->inode);
    for (unsigned i = 0; i < CLIENTS; i++)
        close_ours(&state->clients[i].fd, state->clients[i].inode);
    pthread_mutex_unlock(&state->descriptors);
}
