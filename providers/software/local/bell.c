/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which Unix socket wakes a connection, and who is told that the peer's process is gone.
 *
 * ONE SOCKET FOR TWO PROCESSES. Each connection brings a socket of its own. The first one founds:
 * its socket stays for all that follow, which close theirs. The end that accepts proposes in its
 * page, by a random number, and the other end answers there, both before the hand-over. Only what
 * both say is done. Else (the founder is not handed over yet, or has ended) the connection keeps
 * its own socket, for itself. A shared one is closed with the last connection that uses it; its end
 * tells that the peer has closed all of them. With several lanes nothing is shared: a lane would be
 * woken for others.
 *
 * WHO WAS WOKEN. An own socket carries octets that mean nothing. A shared one carries numbers (4
 * octets), which each end has put into its page as `call`. What does not fit is not sent: `asleep`
 * was cleared before. So after as many numbers as may be all that fit, whoever is awake is meant.
 *
 * DEATH. Others may have the peer's end of the socket (a child), so the pidfd of its process is
 * watched, too.
 */
#include "bell.h"

#include "local.h"
#include "process.h"
#include "wire_local.h"

#include "base/entropy.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FOUNDS 1ull /* of a number in a page: this connection brings the socket */
#define FIRST  16u  /* places of a shared socket */
#define FULL   64u  /* numbers: so many fit into any socket that is shared */

/* A connection's; free ones are linked. */
struct place {
    struct local_qp *qp;
    uint32_t next_free;
};

struct local_bell {
    const struct ri_host *host;
    struct local_bells *bells; /* of the process, which is known while there are users; or NULL */
    void (*woken)(struct local_qp *qp);
    unsigned long long number; /* 0: it is of one connection */
    int fd, process;           /* process: a pidfd; -1: it is not known, or this one */
    struct ri_watch *watch, *process_watch;
    uint32_t users; /* connections, from make or take on: under the lock of local_rnic */
    atomic_bool over;
    struct spinlock lock;
    /* Under it. */
    struct place *places;
    uint32_t count, first_free;
};

/* --- what the ends agree on; under the lock of local_rnic --- */

static void say(struct ri_local *local, unsigned long long number)
{
    local->bell_number = number;
    atomic_store(&local_page(local, local->side)->bell, number);
}

static void found(struct ri_local *local, unsigned long long number)
{
    local->bells->founder = local;
    say(local, number | FOUNDS);
}

static void use(struct ri_local *local, struct local_bell *bell)
{
    bell->users++;
    local->bell = bell;
    say(local, bell->number);
}

static struct local_bell *shared(const struct ri_local *local)
{
    struct local_bell *bell = local->bells->bell;

    return bell && !atomic_load(&bell->over) ? bell : NULL;
}

void local_bell_propose(struct ri_local *local, int socket)
{
    unsigned long long number = 0;
    struct local_bell *bell;

    if (!local->bells)
        return;
    bell = shared(local);
    if (bell)
        use(local, bell);
    else if (!local->bells->founder && local_has_room(socket, FULL) &&
             entropy_draw(&number, sizeof(number)) && number > FOUNDS)
        found(local, number);
}

void local_bell_answer(struct ri_local *local, int socket)
{
    unsigned long long proposed = atomic_load(&local_page(local, 0)->bell);
    struct local_bell *bell;

    if (!local->bells || proposed <= FOUNDS)
        return;
    bell = shared(local);
    if (proposed & FOUNDS && local_has_room(socket, FULL))
        found(local, proposed);
    else if (bell && bell->number == proposed)
        use(local, bell);
}

static struct local_bell *release(struct local_bell *bell)
{
    if (!bell || --bell->users)
        return NULL;
    if (bell->bells && bell->bells->bell == bell)
        bell->bells->bell = NULL;
    return bell;
}

static void forget_founder(const struct ri_local *local)
{
    if (local->bells && local->bells->founder == local)
        local->bells->founder = NULL;
}

struct local_bell *local_bell_forgo(struct ri_local *local)
{
    struct local_bell *bell = local->bell;

    forget_founder(local);
    local->bell = NULL;
    return release(bell);
}

/* --- readiness: in a run of the lane --- */

/* Under bell->lock. */
static void wake(const struct local_bell *bell, struct local_qp *qp, uint32_t octets)
{
    if (!qp)
        return;
    count_up(&qp->counters.wakes_received, octets);
    bell->woken(qp);
}

static void wake_those_awake(struct local_bell *bell, bool over)
{
    for (uint32_t i = 0; i < bell->count; i++) {
        struct local_qp *qp = bell->places[i].qp;

        if (qp && over)
            atomic_fetch_or(&qp->witnessed, WITNESSED_FIN);
        if (qp && (over || !atomic_load(&qp->own->asleep)))
            wake(bell, qp, 0);
    }
}

static bool hear(struct local_bell *bell)
{
    uint32_t numbers[64], heard = 0;
    bool open, more;
    size_t octets;

    do {
        open = local_hear(bell->fd, numbers, sizeof(numbers), &octets);
        more = open && octets == sizeof(numbers);
        heard += (uint32_t)(octets / sizeof(*numbers));
        spinlock_lock(&bell->lock);
        if (!bell->number && octets)
            wake(bell, bell->places[0].qp, (uint32_t)octets);
        for (size_t i = 0; bell->number && i < octets / sizeof(*numbers); i++)
            if (numbers[i] < bell->count)
                wake(bell, bell->places[numbers[i]].qp, 1);
        if (bell->number && heard >= FULL && !more)
            wake_those_awake(bell, false);
        spinlock_unlock(&bell->lock);
    } while (more);
    return open;
}

static void end_all(struct local_bell *bell)
{
    atomic_store(&bell->over, true);
    spinlock_lock(&bell->lock);
    wake_those_awake(bell, true);
    spinlock_unlock(&bell->lock);
}

static void on_bell(void *arg, uint32_t events)
{
    struct local_bell *bell = arg;

    (void)events;
    if (!hear(bell))
        end_all(bell);
}

static void on_death(void *arg, uint32_t events)
{
    (void)events;
    end_all(arg);
}

/* --- places; one thread at a time adds some, under the lock of local_rnic --- */

static bool make_room(struct local_bell *bell)
{
    uint32_t count = !bell->number ? 1 : bell->count ? 2 * bell->count : FIRST;
    struct place *places, *old = bell->places;

    if (bell->first_free < bell->count)
        return true;
    places = calloc(count, sizeof(*places));
    if (!places)
        return false;
    spinlock_lock(&bell->lock);
    for (uint32_t i = 0; i < count; i++)
        places[i] = i < bell->count ? old[i] : (struct place){ .next_free = i + 1 };
    bell->first_free = bell->count;
    bell->places = places;
    bell->count = count;
    spinlock_unlock(&bell->lock);
    free(old);
    return true;
}

static bool enter(struct local_bell *bell, struct local_qp *qp)
{
    if (!make_room(bell))
        return false;
    qp->bell = bell;
    qp->bell_fd = bell->fd;
    qp->calls = bell->number;
    spinlock_lock(&bell->lock);
    qp->call = bell->first_free;
    bell->first_free = bell->places[qp->call].next_free;
    bell->places[qp->call].qp = qp;
    spinlock_unlock(&bell->lock);
    atomic_store(&qp->own->call, qp->call);
    if (atomic_load(&bell->over))
        atomic_fetch_or(&qp->witnessed, WITNESSED_FIN);
    return true;
}

static void leave(struct local_bell *bell, struct local_qp *qp)
{
    spinlock_lock(&bell->lock);
    bell->places[qp->call] = (struct place){ .next_free = bell->first_free };
    bell->first_free = qp->call;
    spinlock_unlock(&bell->lock);
    qp->bell = NULL;
    qp->bell_fd = -1;
}

/* --- hand-over and end --- */

/* A descriptor of its own: a set of epoll has each once. */
static int watched_process(const struct ri_local *memory)
{
    const struct local_process *process = memory->peer;

    return process && process->pidfd >= 0 ? fcntl(process->pidfd, F_DUPFD_CLOEXEC, 0) : -1;
}

static bool watch(struct local_bell *bell, void *lane)
{
    const struct ri_host *host = bell->host;

    if (host->watch(host, lane, bell->fd, EPOLLIN, on_bell, bell, &bell->watch) != RI_OK)
        return false;
    if (bell->process < 0 || host->watch(host, lane, bell->process, EPOLLIN, on_death, bell,
                                         &bell->process_watch) == RI_OK)
        return true;
    host->unwatch(host, bell->watch);
    return false;
}

static void free_unwatched(struct local_bell *bell)
{
    if (bell->process >= 0)
        close(bell->process);
    free(bell->places);
    free(bell);
}

void local_bell_free(struct local_bell *bell)
{
    if (!bell)
        return;
    bell->host->unwatch(bell->host, bell->watch);
    if (bell->process >= 0)
        bell->host->unwatch(bell->host, bell->process_watch);
    local_close_socket(bell->fd);
    free_unwatched(bell);
}

/* With the QP in it. */
static struct local_bell *bell_new(struct local_qp *qp, int fd, unsigned long long number,
                                   void (*woken)(struct local_qp *qp))
{
    struct local_bell *bell = calloc(1, sizeof(*bell));

    if (!bell)
        return NULL;
    bell->host = qp->core->rnic->host;
    bell->bells = qp->memory->bells;
    bell->woken = woken;
    bell->number = number;
    bell->fd = fd;
    bell->process = watched_process(qp->memory);
    bell->users = 1;
    spinlock_init(&bell->lock);
    if (enter(bell, qp)) {
        if (watch(bell, qp->core->lane->base.context))
            return bell;
        leave(bell, qp);
    }
    free_unwatched(bell);
    return NULL;
}

/* Both have said the same. */
static bool is_agreed(const struct local_qp *qp)
{
    const unsigned long long number = qp->memory->bell_number;

    return number && atomic_load(&qp->peer->bell) == number;
}

/* Under the lock of local_rnic. */
static bool bring(struct local_qp *qp, int fd, bool founds, void (*woken)(struct local_qp *qp))
{
    struct ri_local *memory = qp->memory;
    struct local_bell *bell = bell_new(qp, fd, founds ? memory->bell_number & ~FOUNDS : 0, woken);

    if (bell && founds)
        memory->bells->bell = bell;
    forget_founder(memory);
    return bell;
}

enum ri_status local_bell_join(struct local_qp *qp, int fd, void (*woken)(struct local_qp *qp))
{
    struct ri_local *memory = qp->memory;
    struct local_rnic *rnic = memory->rnic;
    const bool agreed = is_agreed(qp);
    struct local_bell *unused = NULL;
    bool done, closes = false;

    tx_assert_inside(qp->core);
    pthread_mutex_lock(&rnic->lock);
    if (agreed && memory->bell) {
        done = closes = enter(memory->bell, qp);
        if (done)
            memory->bell = NULL; /* it is the QP's */
    } else {
        done = bring(qp, fd, agreed && memory->bells->founder == memory, woken);
        unused = local_bell_forgo(memory);
    }
    pthread_mutex_unlock(&rnic->lock);
    local_bell_free(unused);
    if (closes)
        close(fd);
    return done ? RI_OK : RI_ERR_NO_RESOURCES;
}

void local_bell_leave(struct local_qp *qp)
{
    struct local_rnic *rnic = qp->memory->rnic;
    struct local_bell *bell = qp->bell;

    tx_assert_inside(qp->core);
    pthread_mutex_lock(&rnic->lock);
    leave(bell, qp);
    bell = release(bell);
    pthread_mutex_unlock(&rnic->lock);
    local_bell_free(bell);
}
