/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kald: what the clients of each user hold. A client takes more than it needs at once. So where a
 * limit refuses, the user's other clients are asked first to give back what they do not use.
 */
#include "kald.h"

#include <utlist.h>

#include "base/checked.h"
#include "base/clock.h"

/* Clients that are asked to give back have so much time; one that is stopped keeps what it has. */
#define RECALL_NS (250 * CLOCK_NS_PER_MS)
/* The part of a limit that one client may hold unused. */
#define HOARD 16u

/* The client's total; `total` fits. */
static void set_total(struct kald_client *client, enum policy_kind kind, uint64_t total)
{
    client->user->total[kind] = client->user->total[kind] - client->counts[kind].total + total;
    client->counts[kind].total = total;
    if (kind == POLICY_PINNED && client->raised)
        kald_process_memlock(client, total);
}

/* The most that the client may hold. */
static uint64_t room_of(const struct kald_client *client, enum policy_kind kind)
{
    uint64_t others = client->user->total[kind] - client->counts[kind].total;
    uint64_t limit = client->limits[kind], top = UINT64_MAX - others;

    if (limit == KALD_NO_LIMIT)
        return top;
    return limit > others ? limit - others : 0;
}

/* What a TAKE gives: between its least and its total, or what the client has. */
static uint64_t grant_of(const struct kald_client *client, enum policy_kind kind,
                         const struct kald_take *take)
{
    uint64_t has = client->counts[kind].total, room = room_of(client, kind);
    uint64_t grant = take->total, limit = client->limits[kind];

    if (limit != KALD_NO_LIMIT && grant - take->least > limit / HOARD)
        grant = take->least + limit / HOARD;
    if (grant > room)
        grant = room;
    return grant < take->least || grant < has ? has : grant;
}

static void answer(struct kald_client *client, enum policy_kind kind, uint32_t id,
                   enum kald_status status)
{
    struct kald_message message = { .type = KALD_TAKE,
                                    .answer = true,
                                    .status = status,
                                    .id = id,
                                    .kind = kind,
                                    .total = client->counts[kind].total,
                                    .limit = client->limits[kind] };

    kald_send_to(client, &message, -1);
}

/* Without a limit there is no quota to raise it within; a client may have reported more than it. */
static bool may_raise(struct kald_client *client, enum policy_kind kind)
{
    return kind == POLICY_PINNED && client->limits[kind] != KALD_NO_LIMIT &&
           client->counts[kind].total <= room_of(client, kind) &&
           kald_process_memlock(client, client->counts[kind].total);
}

/* True: it has what it needs. */
static bool try_take(struct kald_client *client, enum policy_kind kind,
                     const struct kald_take *take)
{
    uint64_t grant = grant_of(client, kind, take);

    if (grant > client->counts[kind].total)
        set_total(client, kind, grant);
    if (grant < take->least)
        return false;
    answer(client, kind, take->id,
           !(take->flags & KALD_RAISE) || may_raise(client, kind) ? KALD_OK : KALD_DENIED);
    return true;
}

/* True: at least one other client of the user was asked, or is being asked. */
static bool recall(struct kald_client *client, enum policy_kind kind)
{
    struct kald *kald = client->kald;
    struct kald_client *other;
    bool any = false;

    DL_FOREACH (kald->clients, other) {
        struct kald_message message = { .type = KALD_GIVE, .kind = kind };

        if (other->user != client->user || other == client || other->ended ||
            !other->counts[kind].total)
            continue;
        if (!other->recalls[kind]) {
            message.id = other->recalls[kind] = ++kald->next_recall ? kald->next_recall
                                                                    : ++kald->next_recall;
            kald_send_to(other, &message, -1);
        }
        any = true;
    }
    return any;
}

static void stop_waiting(struct kald_client *client, enum policy_kind kind)
{
    if (client->takes[kind].waits)
        client->kald->waiting--;
    client->takes[kind].waits = false;
}

bool kald_account_hello(struct kald_client *client, const struct kald_message *message)
{
    uint64_t sum;

    for (int kind = 0; kind < POLICY_KINDS; kind++)
        if (!checked_add(client->user->total[kind], message->counts[kind].total, &sum))
            return false;
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        set_total(client, (enum policy_kind)kind, message->counts[kind].total);
        client->counts[kind].used = message->counts[kind].used;
    }
    return true;
}

void kald_account_take(struct kald_client *client, const struct kald_message *message)
{
    enum policy_kind kind = message->kind;
    struct kald_take take = {
        false, message->id, message->flags, message->total, message->least, 0
    };

    stop_waiting(client, kind);
    client->counts[kind].used = message->used < client->counts[kind].total
                                    ? message->used
                                    : client->counts[kind].total;
    if (try_take(client, kind, &take))
        return;
    if ((take.flags & KALD_ALONE) || take.least > client->limits[kind] || !recall(client, kind)) {
        answer(client, kind, take.id, KALD_LIMIT);
        return;
    }
    take.waits = true;
    take.deadline = clock_after(clock_now(), RECALL_NS);
    client->takes[kind] = take;
    client->kald->waiting++;
}

/* A client holds no more by it: that is TAKE's. */
bool kald_account_give(struct kald_client *client, const struct kald_message *message)
{
    enum policy_kind kind = message->kind;

    stop_waiting(client, kind);
    if (message->answer && message->id == client->recalls[kind])
        client->recalls[kind] = 0;
    if (message->total > client->counts[kind].total)
        return false;
    set_total(client, kind, message->total);
    client->counts[kind].used = message->used;
    return true;
}

void kald_account_end(struct kald_client *client)
{
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        stop_waiting(client, (enum policy_kind)kind);
        client->raised = false;
        set_total(client, (enum policy_kind)kind, 0);
    }
}

static bool others_are_asked(const struct kald_client *client, enum policy_kind kind)
{
    const struct kald_client *other;

    DL_FOREACH (client->kald->clients, other)
        if (other->user == client->user && other != client && !other->ended && other->recalls[kind])
            return true;
    return false;
}

static void retry(struct kald_client *client, enum policy_kind kind, uint64_t now)
{
    struct kald_take take = client->takes[kind];

    if (!take.waits)
        return;
    if (try_take(client, kind, &take)) {
        stop_waiting(client, kind);
    } else if (now >= take.deadline || !others_are_asked(client, kind)) {
        stop_waiting(client, kind);
        answer(client, kind, take.id, KALD_LIMIT);
    }
}

void kald_account_retry(struct kald *kald, const struct kald_user *user)
{
    struct kald_client *client;
    uint64_t now = clock_now();

    if (!kald->waiting)
        return;
    DL_FOREACH (kald->clients, client)
        for (int kind = 0; kind < POLICY_KINDS; kind++)
            if (!client->ended && (!user || client->user == user))
                retry(client, (enum policy_kind)kind, now);
}

uint64_t kald_account_deadline(const struct kald *kald)
{
    uint64_t deadline = CLOCK_NEVER;
    const struct kald_client *client;

    if (!kald->waiting)
        return deadline;
    DL_FOREACH (kald->clients, client)
        for (int kind = 0; kind < POLICY_KINDS; kind++)
            if (client->takes[kind].waits && client->takes[kind].deadline < deadline)
                deadline = client->takes[kind].deadline;
    return deadline;
}
