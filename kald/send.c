/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: what a client is sent, at once or when it reads again; and the end of one that does not. */
#include "kald.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

#include "formats/kald_socket.h"

/* Messages that wait for a client to read. */
#define OUT_MOST 8u

void kald_end(struct kald_client *client, const char *why)
{
    if (!client->ended && why)
        kald_say(4, "process %d of user %u: %s; it is not served any more", client->who.pid,
                 client->who.uid, why);
    if (!client->ended)
        client->kald->ended_count++;
    client->ended = true;
}

static void listen_to(struct kald_client *client)
{
    struct epoll_event event = { .events = client->out ? EPOLLOUT : EPOLLIN,
                                 .data.ptr = &client->socket };

    epoll_ctl(client->kald->epoll, EPOLL_CTL_MOD, client->socket.fd, &event);
}

static bool queue(struct kald_client *client, const uint8_t *octets, size_t length, int fd)
{
    struct kald_out *out = client->out_count < OUT_MOST ? malloc(sizeof(*out) + length) : NULL;

    if (!out)
        return false;
    out->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && out->fd < 0) {
        free(out);
        return false;
    }
    out->length = length;
    memcpy(out->octets, octets, length);
    LL_APPEND(client->out, out);
    if (client->out_count++ == 0)
        listen_to(client);
    return true;
}

void kald_send_to(struct kald_client *client, const struct kald_message *message, int fd)
{
    uint8_t octets[KALD_MESSAGE_MAX];
    size_t length;

    if (client->ended)
        return;
    length = kald_encode(message, octets);
    if (!client->out) {
        if (kald_send_octets(client->socket.fd, octets, length, fd))
            return;
        if (errno != EAGAIN && errno != ENOBUFS) {
            kald_end(client, NULL);
            return;
        }
    }
    if (!queue(client, octets, length, fd))
        kald_end(client, "it does not read what it is sent");
}

static void discard_first(struct kald_client *client)
{
    struct kald_out *out = client->out;

    LL_DELETE(client->out, out);
    client->out_count--;
    if (out->fd >= 0)
        close(out->fd);
    free(out);
}

void kald_discard_queued(struct kald_client *client)
{
    while (client->out)
        discard_first(client);
}

void kald_send_queued(struct kald_client *client)
{
    struct kald_out *out;

    while ((out = client->out)) {
        if (!kald_send_octets(client->socket.fd, out->octets, out->length, out->fd)) {
            if (errno != EAGAIN && errno != ENOBUFS)
                kald_end(client, NULL);
            return;
        }
        discard_first(client);
    }
    listen_to(client);
}
