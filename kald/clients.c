/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kald: clients, their messages and their ends. A client gets one message read in each turn of
 * epoll, so one that floods takes its turn like all others; none is read from a client that does
 * not read its answers.
 */
#include "kald.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/compiler.h"
#include "formats/kald_socket.h"

/* Octets of a socket's queue. */
#define QUEUE (16 << 10)

static void client_ready(struct kald_source *source, uint32_t events);
static void process_ready(struct kald_source *source, uint32_t events);

bool kald_watch(struct kald *kald, struct kald_source *source, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = source };

    return !epoll_ctl(kald->epoll, EPOLL_CTL_ADD, source->fd, &event);
}

/* Closing is not enough: a child of closing.c may have a copy, and epoll tells of that. */
static void unwatch(struct kald *kald, const struct kald_source *source)
{
    epoll_ctl(kald->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}

/* ---- users ---- */

static struct kald_user *user_of(struct kald *kald, uint32_t id)
{
    struct kald_user *user;

    HASH_FIND(hh, kald->users, &id, sizeof(id), user);
    if (user)
        return user;
    user = calloc(1, sizeof(*user));
    if (!user)
        return NULL;
    user->id = id;
    user->memlock = UINT64_MAX;
    HASH_ADD(hh, kald->users, id, sizeof(user->id), user);
    return user;
}

static void leave_user(struct kald *kald, struct kald_user *user)
{
    user->crowded = false;
    if (--user->clients || user->memlock != UINT64_MAX)
        return;
    HASH_DEL(kald->users, user);
    free(user);
}

/* ---- begin and end ---- */

static void free_client(struct kald_client *client)
{
    kald_discard_queued(client);
    if (client->process.fd >= 0) {
        unwatch(client->kald, &client->process);
        close(client->process.fd);
    }
    unwatch(client->kald, &client->socket);
    kald_close(client->kald, client->socket.fd);
    free(client->groups);
    free(client);
}

static bool join_user(struct kald_client *client)
{
    struct kald_user *user = user_of(client->kald, client->who.uid);

    if (!user)
        return false;
    if (user->clients >= client->kald->user_clients) {
        if (!user->crowded)
            kald_say(4, "user %u has %u clients, which is the most; another one was refused",
                     user->id, client->kald->user_clients);
        user->crowded = true;
        return false;
    }
    user->clients++;
    client->user = user;
    return true;
}

static void limits_of(struct kald_client *client)
{
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        client->limits[kind] = kald_rules_limit(client, (enum policy_kind)kind);
}

static bool begin(struct kald_client *client)
{
    struct kald *kald = client->kald;
    int room = QUEUE;

    setsockopt(client->socket.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (!kald_process_open(client))
        return false;
    if (kald->client_count >= kald->all_clients + (client->who.uid ? 0 : KALD_ROOT_CLIENTS) ||
        !join_user(client))
        return false;
    if (!kald_watch(kald, &client->socket, EPOLLIN) ||
        (client->process.fd >= 0 && !kald_watch(kald, &client->process, EPOLLIN))) {
        leave_user(kald, client->user);
        return false;
    }
    limits_of(client);
    client->id = ++kald->next_id;
    DL_APPEND(kald->clients, client);
    kald->client_count++;
    return true;
}

/* Without a descriptor for it a client would stay in the queue, and epoll would tell of it for
 * ever: it is taken by the spare one, and ended. */
static void refuse_by_spare(struct kald *kald)
{
    int fd;

    kald_say(4, "no descriptor is left; a client was refused");
    if (kald->spare >= 0)
        close(kald->spare);
    fd = accept4(kald->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        kald_close(kald, fd);
    kald->spare = fcntl(kald->epoll, F_DUPFD_CLOEXEC, 0);
}

void kald_accept(struct kald_source *source, uint32_t events)
{
    struct kald *kald = container_of(source, struct kald, listener);
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct kald_client *client;

    (void)events;
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            refuse_by_spare(kald);
        return;
    }
    client = calloc(1, sizeof(*client));
    if (!client) {
        kald_close(kald, fd);
        return;
    }
    client->kald = kald;
    client->socket = (struct kald_source){ client_ready, fd };
    client->process = (struct kald_source){ process_ready, -1 };
    client->slot = KALD_SLOTS;
    if (!begin(client))
        free_client(client);
}

void kald_sweep(struct kald *kald)
{
    struct kald_client *client, *next;

    /* What one held may go to another client, which may end by the answer. */
    while (kald->ended_count) {
        DL_FOREACH_SAFE2 (kald->clients, client, next, next) {
            if (!client->ended)
                continue;
            kald_account_end(client);
            kald_roce_end(client);
            DL_DELETE(kald->clients, client);
            kald->client_count--;
            kald->ended_count--;
            leave_user(kald, client->user);
            free_client(client);
        }
        kald_account_retry(kald, NULL);
    }
}

/* ---- the policy ---- */

static void push_policy(struct kald_client *client)
{
    struct kald_message message = { .type = KALD_POLICY,
                                    .generation = client->kald->generation,
                                    .length = client->kald->policy_length };

    kald_send_to(client, &message, client->kald->policy_fd);
}

void kald_use_policy(struct kald *kald, bool push)
{
    struct kald_client *client;

    DL_FOREACH (kald->clients, client) {
        limits_of(client);
        if (push && client->greeted && !client->observes)
            push_policy(client);
    }
}

/* ---- messages of a client ---- */

static bool holds_any(const struct kald_message *ask)
{
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        if (ask->counts[kind].total)
            return true;
    return false;
}

static void greet(struct kald_client *client, const struct kald_message *ask)
{
    struct kald_message answer = {
        .type = KALD_HELLO, .answer = true, .id = ask->id, .generation = client->kald->generation
    };

    if (client->greeted || (ask->flags && holds_any(ask)) || !kald_account_hello(client, ask)) {
        kald_end(client, "it greets wrongly");
        return;
    }
    client->greeted = true;
    client->observes = ask->flags;
    client->roce = ask->flags & KALD_ROCE;
    memcpy(answer.limits, client->limits, sizeof(answer.limits));
    kald_send_to(client, &answer, -1);
    if (!client->observes)
        push_policy(client);
}

static void on_listen(struct kald_client *client, const struct kald_message *ask)
{
    struct kald_message answer = { .type = KALD_LISTEN, .answer = true, .id = ask->id };
    int fd;

    kald_port(client, ask, &answer, &fd);
    kald_send_to(client, &answer, fd);
    if (fd >= 0)
        close(fd);
}

static void on_stats(struct kald_client *client, const struct kald_message *ask)
{
    struct kald_message answer = { .type = KALD_STATS, .answer = true, .id = ask->id };

    kald_stats(client, ask, &answer);
    kald_send_to(client, &answer, -1);
}

static void on_message(struct kald_client *client, const struct kald_message *message)
{
    if (client->greeted == (message->type == KALD_HELLO) ||
        (client->roce && !kald_roce_message(client, message)) ||
        (client->observes && !client->roce && message->type != KALD_STATS)) {
        kald_end(client, "it sends what is not for it to send");
        return;
    }
    if (client->roce)
        return;
    switch ((int)message->type) {
    case KALD_HELLO: greet(client, message); break;
    case KALD_TAKE: kald_account_take(client, message); break;
    case KALD_GIVE:
        if (!kald_account_give(client, message))
            kald_end(client, "it gives back more than it has");
        kald_account_retry(client->kald, client->user);
        break;
    case KALD_STATS: on_stats(client, message); break;
    case KALD_POLICY: client->generation = message->generation; break;
    case KALD_LISTEN: on_listen(client, message); break;
    default: kald_end(client, "it sends what is not for it to send"); break;
    }
}

/* Nothing that a client sends has a descriptor. */
static void client_ready(struct kald_source *source, uint32_t events)
{
    struct kald_client *client = container_of(source, struct kald_client, socket);
    struct kald_message message;

    if (client->ended)
        return;
    if (client->out) {
        if (events & (EPOLLHUP | EPOLLERR))
            kald_end(client, NULL);
        else
            kald_send_queued(client);
        return;
    }
    if (kald_brings_descriptor(client->kald, source->fd)) {
        kald_end(client, "it sent a descriptor");
        return;
    }
    switch (kald_receive(source->fd, false, &message, NULL)) {
    case KALD_GOT: on_message(client, &message); break;
    case KALD_NOTHING: break;
    case KALD_ENDED: kald_end(client, NULL); break;
    case KALD_WRONG: kald_end(client, "it sent what is no message"); break;
    }
}

/* Children may have the socket still. */
static void process_ready(struct kald_source *source, uint32_t events)
{
    (void)events;
    kald_end(container_of(source, struct kald_client, process), NULL);
}
