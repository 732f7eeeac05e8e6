/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: the channel over plain TCP, for --tcp.
 */
#include "itcp_chan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/tool.h"

bool chan_tcp_create(struct chan *chan, int socket, bool server, size_t chunk, size_t slots,
                     const char *peer)
{
    memset(chan, 0, sizeof(*chan));
    chan->socket = socket;
    chan->server = server;
    chan->chunk = chunk;
    chan->slots = slots;
    chan->peer = peer;
    chan->ring = malloc(chunk * slots);
    chan->buffer = malloc(COPY_MESSAGE);
    if (!chan->ring || !chan->buffer)
        tool_error("out of memory");
    return chan->ring && chan->buffer;
}

void chan_tcp_destroy(struct chan *chan)
{
    if (chan->socket >= 0)
        close(chan->socket);
    free(chan->ring);
    free(chan->buffer);
}

static enum conn_result failure(const struct chan *chan, int result)
{
    if (result == 0 || errno == ECONNRESET || errno == EPIPE)
        return CONN_ENDED;
    if (errno == ECANCELED)
        return CONN_STOPPED;
    tool_error("TCP connection with %s failed: %s", chan->peer, strerror(errno));
    return CONN_FAILED;
}

enum conn_result chan_tcp_send(struct chan *chan, const struct copy_message *message,
                               const void *payload, size_t length)
{
    size_t size = copy_encode(message, chan->buffer);
    int result = plain_write(chan->socket, chan->buffer, size, false, COPY_PATIENCE_US);

    if (result == 1 && length)
        result = plain_write(chan->socket, payload, length, false, COPY_PATIENCE_US);
    return result == 1 ? CONN_OK : failure(chan, result);
}

/* Stores the payload of a DATA in its slot before it reports the message. */
static enum conn_result take_payload(struct chan *chan, const struct copy_message *message)
{
    int result;

    if (!chan->server || message->slot >= chan->slots || message->length > chan->chunk) {
        tool_error("%s announced data for slot %u of %u bytes: refused", chan->peer, message->slot,
                   message->length);
        return CONN_FAILED;
    }
    result = plain_read(chan->socket, chan->ring + message->slot * chan->chunk, message->length,
                        false, COPY_PATIENCE_US);
    return result == 1 ? CONN_OK : failure(chan, result);
}

enum conn_result chan_tcp_receive(struct chan *chan, struct copy_message *message,
                                  uint64_t timeout_us)
{
    int result = plain_wait(chan->socket, timeout_us);
    size_t rest = 0;

    if (result <= 0)
        return result ? CONN_STOPPED : CONN_TIMEOUT;
    result = plain_read(chan->socket, chan->buffer, COPY_HEAD, false, COPY_PATIENCE_US);
    if (result != 1)
        return failure(chan, result);
    if (!copy_head(chan->buffer, &rest))
        goto garbage;
    if (rest)
        result = plain_read(chan->socket, chan->buffer + COPY_HEAD, rest, false, COPY_PATIENCE_US);
    if (result != 1)
        return failure(chan, result);
    if (!copy_decode(chan->buffer, COPY_HEAD + rest, message))
        goto garbage;
    return message->type == COPY_DATA ? take_payload(chan, message) : CONN_OK;
garbage:
    tool_error("%s sent no itcp message over TCP; use the same itcp on both sides", chan->peer);
    return CONN_FAILED;
}
