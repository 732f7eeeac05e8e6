/* SPDX-License-Identifier: BSD-3-Clause */
#include "by_kald.h"

#include "base/clock.h"
#include "formats/kald_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A kald that does not answer for so long is none. */
#define ANSWER_NS CLOCK_NS_PER_S

struct by_kald {
    int fd, mads; /* -1: none */
    bool ended, told;
    uint32_t next_id;
    uint32_t slot, slots, last;
    uint32_t left; /* QPNs that may be used before kald is told */
};

const char net_kald[] = KALD_SOCKET;

/* ---- questions ------------------------------------------------------------------------------- */

static bool await_readable(int fd, uint64_t deadline)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    int left;

    while ((left = clock_poll_ms(clock_now(), deadline)) > 0)
        if (poll(&entry, 1, left) > 0)
            return true;
    return false;
}

/* *answer is kald's to this question; *fd (NULL: none is wanted) is what came with it, or -1.
 * False: the connection is lost. */
static bool ask(struct by_kald *by_kald, struct kald_message *question, struct kald_message *answer,
                int *fd)
{
    uint64_t deadline = clock_after(clock_now(), ANSWER_NS);

    question->id = ++by_kald->next_id;
    if (fd)
        *fd = -1;
    by_kald->ended = by_kald->ended || !kald_send(by_kald->fd, question, -1);
    if (by_kald->ended || !await_readable(by_kald->fd, deadline) ||
        kald_receive(by_kald->fd, true, answer, fd) != KALD_GOT) {
        by_kald->ended = true;
        return false;
    }
    if (answer->type == question->type && answer->answer && answer->id == question->id)
        return true;
    if (fd && *fd >= 0)
        close(*fd);
    by_kald->ended = true;
    return false;
}

static enum ri_status lost(struct net_why *why)
{
    net_say(why, "kald has ended, or does not answer: what it gave is void");
    return RI_ERR_DEVICE;
}

/* ---- a slot ---------------------------------------------------------------------------------- */

static bool greet(struct by_kald *by_kald)
{
    struct kald_message question = { .type = KALD_HELLO, .flags = KALD_ROCE }, answer;

    return ask(by_kald, &question, &answer, NULL);
}

/* RI_ERR_NOT_SUPPORTED: it serves others. */
static enum ri_status take_slot(struct by_kald *by_kald, struct net_why *why)
{
    struct kald_message question = { .type = KALD_SLOT }, answer;

    if (!greet(by_kald) || !ask(by_kald, &question, &answer, &by_kald->mads))
        return RI_ERR_NOT_SUPPORTED;
    if (answer.status == KALD_LIMIT) {
        net_say(why,
                "kald has no slot left for user %u: RoCE over UDP is opened too often by it, or by "
                "all",
                geteuid());
        return RI_ERR_LIMIT;
    }
    if (answer.status != KALD_OK || by_kald->mads < 0)
        return RI_ERR_NOT_SUPPORTED;
    by_kald->slot = answer.slot;
    by_kald->slots = answer.slots;
    by_kald->last = answer.qpn;
    by_kald->left = KALD_NUMBERS_AHEAD;
    return RI_OK;
}

enum ri_status by_kald_open(const char *path, struct by_kald **by_kald, struct net_why *why)
{
    int fd = *path ? kald_connect(path, NULL) : -1;
    enum ri_status status = RI_ERR_NO_RESOURCES;
    struct by_kald *made;

    *by_kald = NULL;
    if (fd < 0)
        return RI_OK;
    made = calloc(1, sizeof(*made));
    if (!made) {
        close(fd);
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    made->fd = fd;
    made->mads = -1;
    status = take_slot(made, why);
    if (status == RI_OK)
        *by_kald = made;
    else
        by_kald_close(made);
    return status == RI_ERR_NOT_SUPPORTED ? RI_OK : status;
}

void by_kald_close(struct by_kald *by_kald)
{
    if (!by_kald)
        return;
    if (by_kald->mads >= 0)
        close(by_kald->mads);
    close(by_kald->fd);
    free(by_kald);
}

uint32_t by_kald_slot(const struct by_kald *by_kald)
{
    return by_kald->slot;
}

uint32_t by_kald_slots(const struct by_kald *by_kald)
{
    return by_kald->slots;
}

uint32_t by_kald_last(const struct by_kald *by_kald)
{
    return by_kald->last;
}

/* Before they are used up, so that a process that dies at once has been heard. */
void by_kald_used(struct by_kald *by_kald, uint32_t qpn)
{
    struct kald_message said = { .type = KALD_NUMBERS };

    by_kald->left--;
    if (by_kald->ended || by_kald->left > KALD_NUMBERS_AHEAD / 2u)
        return;
    said.qpn = (qpn + KALD_NUMBERS_AHEAD * by_kald->slots) & BTH_MASK24;
    by_kald->left = KALD_NUMBERS_AHEAD;
    by_kald->ended = !kald_send(by_kald->fd, &said, -1);
}

int by_kald_fd(const struct by_kald *by_kald)
{
    return by_kald->fd;
}

int by_kald_mads(const struct by_kald *by_kald)
{
    return by_kald->mads;
}

void by_kald_void(int fd)
{
    int spare = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (spare < 0)
        return;
    dup3(spare, fd, O_CLOEXEC);
    close(spare);
}

/* Between questions kald says nothing. */
bool by_kald_is_lost(struct by_kald *by_kald)
{
    uint8_t octet;

    if (by_kald->told)
        return false;
    by_kald->ended = by_kald->ended ||
                     recv(by_kald->fd, &octet, sizeof(octet), MSG_PEEK | MSG_DONTWAIT) >= 0 ||
                     (errno != EAGAIN && errno != EINTR);
    if (!by_kald->ended)
        return false;
    by_kald_void(by_kald->fd);
    by_kald_void(by_kald->mads);
    by_kald->told = true;
    return true;
}

bool by_kald_is_there(const char *path)
{
    bool is_roots;
    int fd = *path ? kald_connect(path, &is_roots) : -1;

    if (fd < 0)
        return false;
    close(fd);
    return is_roots;
}

/* ---- an address ------------------------------------------------------------------------------ */

static enum ri_status refused(uint32_t error, struct net_why *why)
{
    switch (error) {
    case EADDRINUSE: return RI_ERR_ADDRESS_IN_USE;
    case EADDRNOTAVAIL: net_say(why, "this host has no such address"); return RI_ERR_UNREACHABLE;
    case EMFILE:
        net_say(why, "kald has as many addresses open as it can, or as this user may");
        return RI_ERR_NO_RESOURCES;
    default:
        net_say(why, "kald cannot bind the address: %s", strerror((int)error));
        return RI_ERR_NO_RESOURCES;
    }
}

enum ri_status by_kald_address(struct by_kald *by_kald, const struct share_key *key, int *fd,
                               struct net_why *why)
{
    struct kald_message question = { .type = KALD_ADDRESS, .scope = key->scope }, answer;

    memcpy(question.address, key->gid, GID_LEN);
    if (!ask(by_kald, &question, &answer, fd))
        return lost(why);
    if (answer.status == KALD_FAILED)
        return refused(answer.error, why);
    if (answer.status == KALD_OK && *fd >= 0)
        return RI_OK;
    if (*fd >= 0)
        close(*fd);
    net_say(why,
            "the host's policy does not let user %u listen at UDP port %u of this address "
            "(ital-policy(5))",
            geteuid(), GID_UDP_PORT);
    return RI_ERR_PERMISSION;
}

/* ---- services -------------------------------------------------------------------------------- */

static enum ri_status serve(struct by_kald *by_kald, struct kald_message *question,
                            struct kald_message *answer, struct net_why *why)
{
    question->type = KALD_SERVICE;
    if (!ask(by_kald, question, answer, NULL))
        return lost(why);
    if (answer->status == KALD_OK)
        return RI_OK;
    if (answer->status == KALD_LIMIT) {
        net_say(why, "all services of kald, or those of this user, are taken");
        return RI_ERR_LIMIT;
    }
    net_say(why, "another listener of this host has the port");
    return RI_ERR_ADDRESS_IN_USE;
}

enum ri_status by_kald_bind(struct by_kald *by_kald, enum cma_port_space space,
                            struct gsi_service *service, uint32_t *binding, struct net_why *why)
{
    struct kald_message question = { .deed = space ? KALD_BIND_ANY : KALD_BIND,
                                     .service = service->id,
                                     .scope = service->scope,
                                     .families = service->families & (KALD_IPV4 | KALD_IPV6),
                                     .space = (uint16_t)space };
    struct kald_message answer;
    enum ri_status status;

    question.families |= service->reuse ? KALD_REUSE : 0;
    memcpy(question.address, service->gid, GID_LEN);
    status = serve(by_kald, &question, &answer, why);
    if (status != RI_OK)
        return status;
    service->id = answer.service;
    *binding = answer.place;
    return RI_OK;
}

enum ri_status by_kald_listen(struct by_kald *by_kald, uint32_t binding, struct net_why *why)
{
    struct kald_message question = { .deed = KALD_HEAR, .place = binding }, answer;

    return serve(by_kald, &question, &answer, why);
}

void by_kald_unbind(struct by_kald *by_kald, uint32_t binding)
{
    struct kald_message question = { .deed = KALD_UNBIND, .place = binding }, answer;
    struct net_why why;

    serve(by_kald, &question, &answer, &why);
}
