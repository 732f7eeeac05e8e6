/* SPDX-License-Identifier: BSD-3-Clause */
/* One client: its request, and its answer. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "document.h"

short kal_state_client_events(const struct kal_state_client *client)
{
    return client->answer ? POLLOUT : POLLIN;
}

static void answer(struct kal_state_client *client, struct kal *kal, uint64_t opened, size_t line)
{
    struct kal_state_request request;
    const char *why;

    if (!kal_state_read_request(client->request, line, &request, &why)) {
        client->answer = kal_state_refusal(why, &client->length);
        return;
    }
    client->answer = kal_state_document(kal, &request, opened, &client->length);
    if (!client->answer)
        client->answer = kal_state_refusal("there is no memory for the answer, or it is too long",
                                           &client->length);
}

/* False: it ended, or there is no memory. */
static bool read_request(struct kal_state_client *client, struct kal *kal, uint64_t opened)
{
    ssize_t got = recv(client->fd, client->request + client->got,
                       sizeof client->request - client->got, MSG_DONTWAIT);
    const char *newline;

    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (!got)
        return false;
    client->got += (size_t)got;
    newline = memchr(client->request, '\n', client->got);
    if (newline)
        answer(client, kal, opened, (size_t)(newline - client->request));
    else if (client->got == sizeof client->request)
        client->answer = kal_state_refusal("the request is too long", &client->length);
    else
        return true;
    return client->answer != NULL;
}

bool kal_state_client_go(struct kal_state_client *client, struct kal *kal, uint64_t opened)
{
    ssize_t sent;

    if (!client->answer && !read_request(client, kal, opened))
        return false;
    if (!client->answer)
        return true;
    sent = send(client->fd, client->answer + client->sent, client->length - client->sent,
                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    client->sent += (size_t)sent;
    return client->sent < client->length;
}
