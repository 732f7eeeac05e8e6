/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: the connection for the control messages, and keep-alives on it.
 *
 * During a run a side may receive nothing: the server's program does not notice RDMA Writes and
 * Reads. So the client sends ALIVE at intervals, and the server answers. The next one waits for
 * that answer, so at most one is under way and there is always a Receive for it.
 */
#include "itperf.h"

#include <string.h>

#include "tools/common/tool.h"

#define RECEIVES PERF_CHANNEL_RECEIVES
#define SENDS    4u          /* more than are under way: each waits for an answer */
#define ALIVE_NS 2000000000u /* between two signs of life */

bool perf_channel_create(const struct adapter *adapter, struct perf_channel *channel)
{
    struct conn_needs needs = { .requests = 8, .receives = RECEIVES, .send_length = PERF_MESSAGE };

    memset(channel, 0, sizeof(*channel));
    if (!conn_create(adapter, &needs, &channel->conn))
        return false;
    if (region_create(&channel->conn, (RECEIVES + SENDS) * PERF_MESSAGE, IT_PRIV_LOCAL,
                      &channel->memory))
        return true;
    perf_channel_destroy(channel);
    return false;
}

void perf_channel_destroy(struct perf_channel *channel)
{
    /* Endpoint first: its Receives use the region. */
    if (channel->conn.ep)
        it_ep_free(channel->conn.ep);
    channel->conn.ep = NULL;
    region_destroy(&channel->memory);
    conn_destroy(&channel->conn);
}

static bool post_receive(struct perf_channel *channel, size_t slot)
{
    it_lmr_triplet_t part = region_part(&channel->memory, slot * PERF_MESSAGE, PERF_MESSAGE);
    it_status_t status = it_post_recv((it_handle_t)channel->conn.ep, &part, 1, slot,
                                      IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

    if (status != IT_SUCCESS)
        adapter_error(status, "cannot post a receive for control messages");
    return status == IT_SUCCESS;
}

bool perf_channel_prepare(struct conn *conn, void *arg)
{
    (void)conn;
    for (size_t slot = 0; slot < RECEIVES; slot++)
        if (!post_receive(arg, slot))
            return false;
    return true;
}

bool perf_send(struct perf_channel *channel, const struct perf_message *message)
{
    size_t offset = (RECEIVES + channel->sent++ % SENDS) * PERF_MESSAGE;
    it_lmr_triplet_t part = region_part(&channel->memory, offset, PERF_MESSAGE);
    it_status_t status;

    perf_put_message((uint8_t *)channel->memory.memory + offset, message);
    status = it_post_send(channel->conn.ep, &part, 1, RECEIVES, IT_COMPLETION_FLAG);
    if (status == IT_SUCCESS)
        return true;
    if (status == IT_ERR_INVALID_EP_STATE)
        tool_error("connection with %s lost: %s", channel->conn.peer, conn_why(&channel->conn));
    else
        adapter_error(status, "cannot send to %s", channel->conn.peer);
    return false;
}

/* Takes a message out of its slot, whose Receive is posted again. */
static enum conn_result take(struct perf_channel *channel, const it_dto_cmpl_event_t *event,
                             struct perf_message *message)
{
    size_t slot = (size_t)event->cookie;

    if (!perf_get_message((uint8_t *)channel->memory.memory + slot * PERF_MESSAGE,
                          event->transferred_length, message)) {
        tool_error("%s sent an invalid message; is it itperf?", channel->conn.peer);
        return CONN_FAILED;
    }
    return post_receive(channel, slot) ? CONN_OK : CONN_FAILED;
}

/* A sign of life: the server answers it, to the client it is an answer. */
static bool heard_alive(struct perf_channel *channel, const struct perf_message *message)
{
    channel->heard = tool_now();
    if (channel->client) {
        channel->alive_due = channel->heard + ALIVE_NS;
        return true;
    }
    return perf_send(channel, message);
}

enum conn_result perf_receive(struct perf_channel *channel, uint64_t timeout_us,
                              struct perf_message *message)
{
    enum conn_result result;
    it_event_t event;

    do {
        if (channel->queued_count) {
            *message = channel->queued[0];
            memmove(channel->queued, channel->queued + 1,
                    --channel->queued_count * sizeof(*message));
            return CONN_OK;
        }
        message->type = PERF_ALIVE;
        result = conn_next(&channel->conn, false, timeout_us, &event);
        if (result == CONN_OK && event.event_number == IT_DTO_RC_RECV_CMPL_EVENT) {
            result = take(channel, &event.dto_cmpl, message);
            if (result == CONN_OK && message->type == PERF_ALIVE && !heard_alive(channel, message))
                result = CONN_FAILED;
        }
    } while (result == CONN_OK && message->type == PERF_ALIVE);
    return result;
}

bool perf_channel_poll(struct perf_channel *channel)
{
    struct perf_message message = { .type = PERF_ALIVE };
    it_event_t event;

    if (channel->client && tool_now() >= channel->alive_due) {
        channel->alive_due = UINT64_MAX; /* until this one has been answered */
        if (!perf_send(channel, &message))
            return false;
    }
    while (it_evd_dequeue(channel->conn.dto_evd, &event) == IT_SUCCESS) {
        if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS)
            return false; /* the next wait for a message reports it */
        if (event.event_number != IT_DTO_RC_RECV_CMPL_EVENT)
            continue;
        if (take(channel, &event.dto_cmpl, &message) != CONN_OK)
            return false;
        if (message.type == PERF_ALIVE ? !heard_alive(channel, &message)
                                       : channel->queued_count == RECEIVES)
            return false;
        if (message.type != PERF_ALIVE)
            channel->queued[channel->queued_count++] = message;
    }
    return true;
}

void perf_channel_run(struct perf_channel *channel)
{
    channel->heard = tool_now();
    channel->alive_due = channel->alive_due == UINT64_MAX ? UINT64_MAX : channel->heard + ALIVE_NS;
}
