/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: the channel over RDMA, and the choice between it and plain TCP.
 */
#include "itcp_chan.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

/* Cookies: the kind of a completed Send. Receives have their slot. */
#define COOKIE_MESSAGE (1ull << 32) /* plus the send slot */
#define COOKIE_PUT     (2ull << 32) /* plus the send slot: the DATA behind a Write */

static char *receive_memory(const struct chan *chan, unsigned slot)
{
    return (char *)chan->messages.memory + (size_t)slot * COPY_MESSAGE;
}

static size_t send_offset(const struct chan *chan, unsigned slot)
{
    return (size_t)(chan->receives + slot) * COPY_MESSAGE;
}

static bool post_receive(struct chan *chan, unsigned slot)
{
    it_lmr_triplet_t part = region_part(&chan->messages, (size_t)slot * COPY_MESSAGE, COPY_MESSAGE);
    it_status_t status = it_post_recv((it_handle_t)chan->conn->ep, &part, 1, slot,
                                      IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

    if (status != IT_SUCCESS)
        adapter_error(status, "cannot post a receive");
    return status == IT_SUCCESS;
}

bool chan_rdma_prepare(struct conn *conn, void *arg)
{
    struct chan *chan = arg;

    (void)conn;
    for (unsigned i = 0; i < chan->receives; i++)
        if (!post_receive(chan, i))
            return false;
    return true;
}

bool chan_rdma_create(struct chan *chan, struct conn *conn, bool server)
{
    memset(chan, 0, sizeof(*chan));
    chan->conn = conn;
    chan->socket = -1;
    chan->server = server;
    chan->peer = conn->peer;
    chan->receives = CHAN_MESSAGES;
    chan->sends = CHAN_MESSAGES;
    chan->free_sends = calloc(chan->sends, sizeof(*chan->free_sends));
    chan->arrived = calloc(chan->receives, sizeof(*chan->arrived));
    chan->arrived_length = calloc(chan->receives, sizeof(*chan->arrived_length));
    if (!chan->free_sends || !chan->arrived || !chan->arrived_length) {
        tool_error("out of memory");
        return false;
    }
    while (chan->free_count < chan->sends) {
        chan->free_sends[chan->free_count] = chan->free_count;
        chan->free_count++;
    }
    if (!region_create(conn, (size_t)(chan->receives + chan->sends) * COPY_MESSAGE, IT_PRIV_LOCAL,
                       &chan->messages))
        return false;
    if (!server)
        return true;
    chan->chunk = COPY_CHUNK;
    chan->slots = COPY_SLOTS;
    if (!region_create(conn, chan->chunk * chan->slots, IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE,
                       &chan->ring_region))
        return false;
    chan->ring = chan->ring_region.memory;
    return true;
}

bool chan_rdma_join(struct chan *chan, const struct copy_welcome *welcome)
{
    chan->chunk = welcome->chunk;
    /* The messages of one side must always find a Receive on the other. */
    chan->slots = welcome->slots < COPY_SLOTS ? welcome->slots : COPY_SLOTS;
    chan->remote_address = welcome->address;
    chan->remote_context = welcome->context;
    if (welcome->slots > COPY_SLOTS) {
        tool_error("%s offers %u slots, this itcp uses %u at most", chan->peer, welcome->slots,
                   COPY_SLOTS);
        return false;
    }
    if (!region_create(chan->conn, chan->chunk * chan->slots, IT_PRIV_LOCAL_READ,
                       &chan->ring_region))
        return false;
    chan->ring = chan->ring_region.memory;
    return true;
}

void chan_destroy(struct chan *chan)
{
    if (!chan->conn)
        chan_tcp_destroy(chan);
    region_destroy(&chan->messages);
    region_destroy(&chan->ring_region);
    free(chan->free_sends);
    free(chan->arrived);
    free(chan->arrived_length);
    memset(chan, 0, sizeof(*chan));
    chan->socket = -1;
}

/* Takes one completion: releases Sends, queues Receives as arrivals. */
static enum conn_result step(struct chan *chan, uint64_t timeout_us)
{
    enum conn_result result;
    uint64_t cookie;
    unsigned place;
    it_event_t event;

    result = conn_next(chan->conn, false, timeout_us, &event);
    if (result != CONN_OK)
        return result;
    cookie = event.dto_cmpl.cookie;
    if (event.event_number == IT_DTO_RC_RECV_CMPL_EVENT) {
        place = (chan->arrived_first + chan->arrived_count++) % chan->receives;
        chan->arrived[place] = (unsigned)cookie;
        chan->arrived_length[place] = event.dto_cmpl.transferred_length;
    } else if (event.event_number == IT_DTO_SEND_CMPL_EVENT) {
        chan->free_sends[chan->free_count++] = (unsigned)cookie;
        if (cookie >> 32 == COOKIE_PUT >> 32)
            chan->puts_done++;
    }
    return CONN_OK;
}

/* Encodes into a free send slot, waiting for one if need be, and posts. */
static enum conn_result send_from_slot(struct chan *chan, const struct copy_message *message,
                                       uint64_t kind)
{
    enum conn_result result;
    it_lmr_triplet_t part;
    it_status_t status;
    unsigned slot;

    while (!chan->free_count) {
        result = step(chan, COPY_PATIENCE_US);
        if (result == CONN_TIMEOUT)
            tool_error("%s takes no more messages; is it hanging?", chan->peer);
        if (result != CONN_OK)
            return result == CONN_TIMEOUT ? CONN_FAILED : result;
    }
    slot = chan->free_sends[--chan->free_count];
    part = region_part(&chan->messages, send_offset(chan, slot), 0);
    part.length = copy_encode(message, part.addr.abs);
    status = it_post_send(chan->conn->ep, &part, 1, kind | slot,
                          IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);
    if (status == IT_SUCCESS)
        return CONN_OK;
    chan->free_sends[chan->free_count++] = slot;
    /* The connection has ended since the last check. */
    if (status == IT_ERR_INVALID_EP_STATE)
        return CONN_ENDED;
    adapter_error(status, "cannot send to %s", chan->peer);
    return CONN_FAILED;
}

enum conn_result chan_send(struct chan *chan, const struct copy_message *message)
{
    return chan->conn ? send_from_slot(chan, message, COOKIE_MESSAGE)
                      : chan_tcp_send(chan, message, NULL, 0);
}

enum conn_result chan_put(struct chan *chan, uint32_t slot, uint32_t length)
{
    struct copy_message data;
    it_lmr_triplet_t part;
    it_status_t status;
    size_t place = slot * chan->chunk;

    memset(&data, 0, offsetof(struct copy_message, text) + 1);
    data.type = COPY_DATA;
    data.slot = slot;
    data.length = length;
    chan->puts++;
    if (!chan->conn) {
        chan->puts_done++;
        return chan_tcp_send(chan, &data, chan->ring + place, length);
    }
    part = region_part(&chan->ring_region, place, length);
    status = it_post_rdma_write(chan->conn->ep, &part, 1, 0, IT_COALESCE_WR_FLAG,
                                chan->remote_address + place, chan->remote_context);
    if (status == IT_ERR_INVALID_EP_STATE)
        return CONN_ENDED;
    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot write to %s", chan->peer);
        return CONN_FAILED;
    }
    return send_from_slot(chan, &data, COOKIE_PUT);
}

/* The oldest arrival, copied out; its Receive is posted again at once. */
static enum conn_result take_arrival(struct chan *chan, struct copy_message *message)
{
    unsigned slot = chan->arrived[chan->arrived_first];
    uint32_t length = chan->arrived_length[chan->arrived_first];
    bool good = copy_decode((uint8_t *)receive_memory(chan, slot), length, message);

    chan->arrived_first = (chan->arrived_first + 1) % chan->receives;
    chan->arrived_count--;
    if (!good) {
        tool_error("%s sent a message of %u bytes that means nothing; is it itcp of version %u?",
                   chan->peer, length, COPY_VERSION);
        return CONN_FAILED;
    }
    return post_receive(chan, slot) ? CONN_OK : CONN_FAILED;
}

enum conn_result chan_receive(struct chan *chan, struct copy_message *message, uint64_t timeout_us)
{
    uint64_t done = chan->puts_done, limit, now;
    enum conn_result result;

    if (!chan->conn)
        return chan_tcp_receive(chan, message, timeout_us);
    limit = tool_now() + timeout_us * 1000;
    while (!chan->arrived_count) {
        now = tool_now();
        result = step(chan, limit > now ? (limit - now) / 1000 : 0);
        if (result != CONN_OK)
            return result;
        if (chan->wake_on_put && chan->puts_done > done && !chan->arrived_count)
            return CONN_TIMEOUT;
    }
    return take_arrival(chan, message);
}

const char *chan_why(struct chan *chan)
{
    return chan->conn ? conn_why(chan->conn) : "the TCP connection ended";
}
