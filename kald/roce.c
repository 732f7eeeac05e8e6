/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: slots and addresses of RoCE over UDP, and who has them. */
#include "roce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/entropy.h"

#define QPN_MASK 0xFFFFFFu
/* Octets of MADs that wait for a client, as the kernel counts. */
#define MADS_ROOM (128 << 10)

/* ---- begin ---- */

bool kald_roce_begin(struct kald *kald, unsigned addresses)
{
    struct kald_roce *roce = calloc(1, sizeof(*roce));
    uint32_t random[KALD_SLOTS];

    if (!roce || !entropy_draw(random, sizeof(random))) {
        free(roce);
        return false;
    }
    roce->address_most = addresses < ROCE_ADDRESSES ? addresses : ROCE_ADDRESSES;
    for (uint32_t i = 0; i < KALD_SLOTS; i++)
        roce->slots[i] = (struct roce_slot){ .user = ROCE_NO_USER,
                                             .qpn = (random[i] & QPN_MASK & ~(KALD_SLOTS - 1u)) | i,
                                             .mads = -1 };
    kald->roce = roce;
    return true;
}

/* ---- slots ---- */

/* One that the user has had, or one that nobody has had: KALD_SLOTS, if there is none for it. */
static uint32_t choose_slot(const struct kald_roce *roce, uint32_t user)
{
    uint32_t unused = 0, own = 0, fresh = KALD_SLOTS;

    for (uint32_t i = 0; i < KALD_SLOTS; i++) {
        const struct roce_slot *slot = &roce->slots[i];

        if (slot->user == user && !slot->client)
            return i;
        own += slot->user == user;
        if (slot->user == ROCE_NO_USER) {
            unused++;
            fresh = fresh == KALD_SLOTS ? i : fresh;
        }
    }
    return !user || own < ROCE_SLOTS_SURE || unused > ROCE_SLOTS_KEPT ? fresh : KALD_SLOTS;
}

static uint32_t ahead_of(uint32_t qpn)
{
    return (qpn + KALD_NUMBERS_AHEAD * KALD_SLOTS) & QPN_MASK;
}

/* Returns 0 or an errno value; *fd: the client's end. */
static int make_mads(struct roce_slot *slot, int *fd)
{
    int ends[2], room = MADS_ROOM;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        return errno;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    shutdown(ends[0], SHUT_RD);
    slot->mads = ends[0];
    *fd = ends[1];
    return 0;
}

/* Addresses belong to a network namespace: as ports, ports.c. */
static bool is_of_this_network(const struct kald_client *client)
{
    return client->network && client->network == client->kald->network;
}

static void take_slot(struct kald_client *client, struct kald_message *answer, int *fd)
{
    struct kald_roce *roce = client->kald->roce;
    uint32_t chosen = choose_slot(roce, client->who.uid);
    struct roce_slot *slot = &roce->slots[chosen % KALD_SLOTS];

    if (!is_of_this_network(client)) {
        answer->status = KALD_DENIED;
        return;
    }
    if (chosen == KALD_SLOTS || make_mads(slot, fd)) {
        answer->status = KALD_LIMIT;
        return;
    }
    slot->client = client;
    slot->user = client->who.uid;
    client->slot = chosen;
    answer->slot = chosen;
    answer->slots = KALD_SLOTS;
    answer->qpn = slot->qpn;
    slot->qpn = ahead_of(slot->qpn);
}

/* ---- addresses ---- */

static struct roce_address *find_address(const struct kald_roce *roce, const uint8_t *gid,
                                         uint32_t scope)
{
    struct roce_address *address;

    DL_FOREACH (roce->addresses, address)
        if (!memcmp(address->gid, gid, GID_LEN) && address->scope == scope)
            return address;
    return NULL;
}

/* A user who is not root opens half of what can be open. */
static bool may_make(const struct kald_roce *roce, uint32_t user)
{
    const struct roce_address *address;
    unsigned own = 0;

    DL_FOREACH (roce->addresses, address)
        own += address->maker == user;
    return roce->address_count < roce->address_most &&
           (!user || own < (roce->address_most + 1u) / 2u);
}

static void say_address(const struct roce_address *address, const char *what)
{
    char text[INET6_ADDRSTRLEN];
    bool ipv4 = gid_is_ipv4(address->gid);

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? address->gid + GID_IPV4 : address->gid, text,
              sizeof(text));
    kald_say(6, "RoCE over UDP at %s: %s", text, what);
}

static bool watch(struct kald *kald, struct roce_address *address)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &address->gsi };

    return !epoll_ctl(kald->epoll, EPOLL_CTL_ADD, address->gsi.fd, &event);
}

/* Returns 0 or an errno value. */
static int make_address(struct kald *kald, const uint8_t *gid, uint32_t scope, uint32_t user,
                        struct roce_address **address)
{
    struct roce_address *made;
    int error;

    if (!may_make(kald->roce, user))
        return EMFILE;
    made = calloc(1, sizeof(*made));
    if (!made)
        return ENOMEM;
    made->kald = kald;
    made->gsi.ready = kald_roce_read;
    memcpy(made->gid, gid, GID_LEN);
    made->scope = scope;
    made->maker = user;
    error = kald_roce_bind(made);
    if (!error && !watch(kald, made)) {
        error = errno;
        kald_roce_unbind(made);
    }
    if (error) {
        free(made);
        return error;
    }
    DL_APPEND(kald->roce->addresses, made);
    kald->roce->address_count++;
    say_address(made, "open");
    *address = made;
    return 0;
}

/* An address can be bound anew only if nobody has its earlier sockets any more: so all slots are
 * for everybody. */
static void forget_users(struct kald_roce *roce)
{
    for (uint32_t i = 0; i < KALD_SLOTS; i++)
        if (!roce->slots[i].client)
            roce->slots[i].user = ROCE_NO_USER;
}

static void leave_address(struct kald *kald, struct roce_address *address, uint32_t slot)
{
    if (!address->held[slot])
        return;
    address->held[slot] = false;
    kald_roce_idle(address->fds[slot]);
    kald_roce_mend(address);
    if (--address->holders)
        return;
    epoll_ctl(kald->epoll, EPOLL_CTL_DEL, address->gsi.fd, NULL);
    kald_roce_unbind(address);
    DL_DELETE(kald->roce->addresses, address);
    kald->roce->address_count--;
    say_address(address, "closed");
    free(address);
    if (!kald->roce->addresses)
        forget_users(kald->roce);
}

static struct sockaddr_storage listens_at(const struct kald_message *ask)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(GID_UDP_PORT) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(GID_UDP_PORT) };
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };

    if (gid_is_ipv4(ask->address)) {
        memcpy(&four.sin_addr, ask->address + GID_IPV4, sizeof(four.sin_addr));
        memcpy(&address, &four, sizeof(four));
    } else {
        memcpy(&six.sin6_addr, ask->address, sizeof(six.sin6_addr));
        memcpy(&address, &six, sizeof(six));
    }
    return address;
}

static bool is_one_hosts(const uint8_t *gid)
{
    static const uint8_t zeros[GID_LEN];
    bool none = gid_is_ipv4(gid) ? !memcmp(gid + GID_IPV4, zeros, 4) : !memcmp(gid, zeros, GID_LEN);

    return !none && !gid_is_multicast(gid);
}

static void fail(struct kald_message *answer, int error)
{
    answer->status = KALD_FAILED;
    answer->error = (uint32_t)error;
}

/* *fd is kald's own. */
static void take_address(struct kald_client *client, const struct kald_message *ask,
                         struct kald_message *answer, int *fd)
{
    const struct sockaddr_storage local = listens_at(ask);
    struct kald *kald = client->kald;
    struct roce_address *address;
    int error = 0;

    if (!is_one_hosts(ask->address)) {
        fail(answer, EADDRNOTAVAIL);
        return;
    }
    if (!kald_rules_listen(client, (const struct sockaddr *)&local)) {
        answer->status = KALD_DENIED;
        return;
    }
    address = find_address(kald->roce, ask->address, ask->scope);
    if (!address)
        error = make_address(kald, ask->address, ask->scope, client->who.uid, &address);
    if (error) {
        fail(answer, error);
        return;
    }
    address->holders += !address->held[client->slot];
    address->held[client->slot] = true;
    kald_roce_mend(address);
    *fd = address->fds[client->slot];
}

/* ---- messages ---- */

static void on_slot(struct kald_client *client, const struct kald_message *ask)
{
    struct kald_message answer = { .type = KALD_SLOT, .answer = true, .id = ask->id };
    int fd = -1;

    take_slot(client, &answer, &fd);
    kald_send_to(client, &answer, fd);
    if (fd >= 0)
        close(fd);
}

static void on_address(struct kald_client *client, const struct kald_message *ask)
{
    struct kald_message answer = { .type = KALD_ADDRESS, .answer = true, .id = ask->id };
    int fd = -1;

    take_address(client, ask, &answer, &fd);
    kald_send_to(client, &answer, fd);
}

static void on_service(struct kald_client *client, const struct kald_message *ask)
{
    struct kald_message answer = { .type = KALD_SERVICE, .answer = true, .id = ask->id };

    kald_roce_service(client->kald->roce, client, ask, &answer);
    kald_send_to(client, &answer, -1);
}

bool kald_roce_message(struct kald_client *client, const struct kald_message *ask)
{
    const bool has = client->slot < KALD_SLOTS;

    if (has == (ask->type == KALD_SLOT))
        return false;
    switch (ask->type) {
    case KALD_SLOT: on_slot(client, ask); return true;
    case KALD_ADDRESS: on_address(client, ask); return true;
    case KALD_SERVICE: on_service(client, ask); return true;
    case KALD_NUMBERS:
        if (ask->qpn % KALD_SLOTS != client->slot)
            return false;
        client->kald->roce->slots[client->slot].qpn = ask->qpn;
        return true;
    default: return false;
    }
}

void kald_roce_end(struct kald_client *client)
{
    struct kald_roce *roce = client->kald->roce;
    struct roce_address *address, *next;
    struct roce_slot *slot;

    if (client->slot >= KALD_SLOTS)
        return;
    slot = &roce->slots[client->slot];
    kald_roce_services_end(roce, client->slot);
    slot->client = NULL;
    close(slot->mads);
    slot->mads = -1;
    DL_FOREACH_SAFE (roce->addresses, address, next)
        leave_address(client->kald, address, client->slot);
    if (!roce->addresses)
        forget_users(roce);
}
