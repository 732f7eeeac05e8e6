/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the process asks kald for, and how much of it it holds. The thread of daemon_link.c brings
 * the answers.
 */
#include "daemon_private.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "formats/kald_socket.h"

static const struct {
    enum kal_account_kind account;
    uint64_t batch;
} kinds[POLICY_KINDS] = {
    [POLICY_ENDPOINTS] = { KAL_ACCOUNT_QP, 16 },
    [POLICY_REGIONS] = { KAL_ACCOUNT_MR, 64 },
    [POLICY_PINNED] = { KAL_ACCOUNT_PINNED, 16u << 20 },
};

/* ---- the socket; with the lock ---- */

bool kal_daemon_is_ours(const struct kal_daemon *d)
{
    struct stat about;

    return d->fd >= 0 && !fstat(d->fd, &about) && S_ISSOCK(about.st_mode) &&
           about.st_ino == d->inode;
}

bool kal_daemon_is_there(const struct kal_daemon *d)
{
    return d->connected && (d->greeted || !d->hangs);
}

void kal_daemon_lose(struct kal_daemon *d)
{
    if (d->greeted && !d->stop) {
        kal_log(RI_LOG_INFO,
                "kald at %s is gone; connections go on, limits are of this process alone", d->path);
        d->missed = true;
        d->missed_since = clock_now();
    }
    d->connected = d->greeted = false;
    for (int i = 0; i < SLOTS; i++)
        d->slots[i].open = false;
    if (kal_daemon_is_ours(d))
        shutdown(d->fd, SHUT_RDWR);
    pthread_cond_broadcast(&d->changed);
}

bool kal_daemon_send(struct kal_daemon *d, const struct kald_message *message)
{
    return kal_daemon_is_ours(d) && kald_send(d->fd, message, -1);
}

/* ---- leases; with the lock ---- */

uint64_t kal_daemon_used(const struct kal_daemon *d, int kind)
{
    uint64_t used = kal_host_holds(d->host, kinds[kind].account);

    return used < d->leased[kind] ? used : d->leased[kind];
}

/* What the quota of the process leaves. */
static uint64_t room_of(const struct kal_daemon *d, int kind)
{
    if (!d->quota[kind])
        return UINT64_MAX / 2 - d->leased[kind];
    return d->quota[kind] > d->leased[kind] ? d->quota[kind] - d->leased[kind] : 0;
}

void kal_daemon_grow(struct kal_daemon *d, int kind, uint64_t total)
{
    kal_host_grant(d->host, kinds[kind].account, total - d->leased[kind]);
    d->leased[kind] = total;
}

void kal_daemon_shrink(struct kal_daemon *d, int kind, uint64_t total)
{
    if (d->leased[kind] > total)
        d->leased[kind] -= kal_host_return(d->host, kinds[kind].account, d->leased[kind] - total);
}

uint64_t kal_daemon_batch(int kind)
{
    return kinds[kind].batch;
}

/* Without kald. False: the quota of the process leaves no more. */
static bool lease_alone(struct kal_daemon *d, int kind, uint64_t amount)
{
    uint64_t room = room_of(d, kind), wish = kinds[kind].batch;

    if (!room || amount > room)
        return false;
    if (wish < d->leased[kind] / 2)
        wish = d->leased[kind] / 2;
    if (wish < amount)
        wish = amount;
    kal_daemon_grow(d, kind, d->leased[kind] + (wish < room ? wish : room));
    d->is_stale = true;
    return true;
}

static bool send_take(struct kal_daemon *d, int kind, uint64_t amount, uint64_t most,
                      uint32_t flags)
{
    struct slot *slot = &d->slots[kind];
    struct kald_message message = { .type = KALD_TAKE,
                                    .id = ++d->next_id,
                                    .kind = (enum policy_kind)kind,
                                    .flags = flags,
                                    .total = d->leased[kind] + most,
                                    .least = d->leased[kind] + amount,
                                    .used = kal_daemon_used(d, kind) };

    *slot = (struct slot){ .open = true, .id = message.id, .fd = -1 };
    if (kal_daemon_send(d, &message))
        return true;
    slot->open = false;
    return false;
}

/* A batch, or what is missing if that is more. */
static uint64_t wish_of(const struct kal_daemon *d, int kind, uint64_t amount)
{
    uint64_t room = room_of(d, kind);
    uint64_t wish = kinds[kind].batch > amount ? kinds[kind].batch : amount;

    return wish < room ? wish : room;
}

/* ---- waiting for an answer; with the lock ---- */

void kal_daemon_wait(struct kal_daemon *d, uint64_t deadline)
{
    struct timespec until = { .tv_sec = (time_t)(deadline / CLOCK_NS_PER_S),
                              .tv_nsec = (long)(deadline % CLOCK_NS_PER_S) };

    pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

/* Until the question `id` of the slot is no longer open; id 0: any. False: kald is gone. */
static bool await(struct kal_daemon *d, int index, uint32_t id)
{
    const struct slot *slot = &d->slots[index];
    uint64_t deadline = clock_after(clock_now(), ANSWER_NS);

    while (kal_daemon_is_there(d) && slot->open && (!id || slot->id == id)) {
        if (clock_now() >= deadline) {
            d->hangs = true;
            kal_daemon_lose(d);
            return false;
        }
        kal_daemon_wait(d, deadline);
    }
    return kal_daemon_is_there(d);
}

enum outcome { GRANTED, REFUSED, AGAIN, ALONE };

/* Sends a TAKE and waits for its answer. */
static enum outcome take(struct kal_daemon *d, int kind, uint64_t amount, uint32_t flags)
{
    uint64_t most = flags & KALD_RAISE ? 0 : wish_of(d, kind, amount);
    const struct slot *slot = &d->slots[kind];
    uint32_t id;

    if (!send_take(d, kind, amount, most, flags)) {
        kal_daemon_lose(d);
        return ALONE;
    }
    id = slot->id;
    if (!await(d, kind, id))
        return ALONE;
    if (slot->id != id || slot->is_void)
        return AGAIN;
    return slot->status == KALD_OK ? GRANTED : REFUSED;
}

static bool lease_waiting(struct kal_daemon *d, int kind, uint64_t amount)
{
    uint64_t before = d->leased[kind];
    enum outcome outcome = AGAIN;
    uint32_t flags = 0;

    while (outcome == AGAIN) {
        if (!await(d, kind, 0))
            return lease_alone(d, kind, amount);
        if (d->leased[kind] > before)
            return true; /* it was not known when the amount was */
        if (amount > room_of(d, kind))
            return false;
        outcome = take(d, kind, amount, flags);
        flags = KALD_ALONE; /* two that ask each other would never end */
    }
    return outcome == ALONE ? lease_alone(d, kind, amount) : outcome == GRANTED;
}

bool kal_daemon_lease(struct kal_daemon *d, enum policy_kind kind, uint64_t amount, bool wait)
{
    bool more = false;

    if (wait) {
        pthread_mutex_lock(&d->lock);
        more = lease_waiting(d, kind, amount);
        pthread_mutex_unlock(&d->lock);
        return more;
    }
    if (pthread_mutex_trylock(&d->lock))
        return false;
    if (!kal_daemon_is_there(d))
        more = lease_alone(d, kind, amount);
    else if (!d->slots[kind].open && clock_now() >= d->quiet[kind] && amount <= room_of(d, kind) &&
             room_of(d, kind))
        send_take(d, kind, 0, wish_of(d, kind, amount), 0);
    pthread_mutex_unlock(&d->lock);
    return more;
}

bool kal_daemon_governs(struct kal_daemon *d)
{
    bool governs;

    pthread_mutex_lock(&d->lock);
    governs = d->greeted && d->is_roots;
    pthread_mutex_unlock(&d->lock);
    return governs;
}

bool kal_daemon_raise_memlock(struct kal_daemon *d)
{
    enum outcome outcome = AGAIN;

    pthread_mutex_lock(&d->lock);
    while (outcome == AGAIN)
        outcome = await(d, POLICY_PINNED, 0) ? take(d, POLICY_PINNED, 0, KALD_RAISE) : ALONE;
    pthread_mutex_unlock(&d->lock);
    return outcome == GRANTED;
}

static bool listen_message(const struct sockaddr *address, struct kald_message *message)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;

    if (address->sa_family == AF_INET) {
        memcpy(&four, address, sizeof(four));
        message->family = 4;
        message->port = ntohs(four.sin_port);
        memcpy(message->address, &four.sin_addr, sizeof(four.sin_addr));
    } else if (address->sa_family == AF_INET6) {
        memcpy(&six, address, sizeof(six));
        message->family = 6;
        message->port = ntohs(six.sin6_port);
        message->scope = six.sin6_scope_id;
        memcpy(message->address, &six.sin6_addr, sizeof(six.sin6_addr));
    }
    return message->family != 0;
}

int kal_daemon_listen(struct kal_daemon *d, const struct sockaddr *address, bool v6only,
                      bool share_port, int *fd)
{
    struct kald_message message = { .type = KALD_LISTEN,
                                    .flags = (v6only ? KALD_V6ONLY : 0u) |
                                             (share_port ? KALD_SHARE_PORT : 0u) };
    struct slot *slot = &d->slots[LISTEN_SLOT];
    int error = EACCES;

    if (!listen_message(address, &message))
        return EACCES;
    pthread_mutex_lock(&d->lock);
    if (await(d, LISTEN_SLOT, 0)) {
        message.id = ++d->next_id;
        *slot = (struct slot){ .open = true, .id = message.id, .fd = -1 };
        if (!kal_daemon_send(d, &message))
            kal_daemon_lose(d);
        else if (await(d, LISTEN_SLOT, message.id) && slot->id == message.id)
            error = slot->error;
        if (!error)
            *fd = slot->fd;
        slot->fd = -1;
    }
    pthread_mutex_unlock(&d->lock);
    return error;
}
