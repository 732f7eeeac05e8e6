/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: memory of one side, and the posts both sides make.
 */
#include "itping.h"

#include <string.h>

#include "tools/common/tool.h"

#define PING_SENDS 3u /* two for data, one for control */
#define CONNECTION_BYTES \
    (256u << 10) /* of an Endpoint, its queues and a thread's stack, rounded up */

void ping_needs(const struct ping_hello *hello, bool server, const struct adapter *adapter,
                struct conn_needs *needs)
{
    memset(needs, 0, sizeof(*needs));
    needs->requests = PING_REQUESTS;
    needs->receives = PING_RECEIVES;
    needs->send_length = (hello->op == PING_SEND ? hello->size : PING_NOTE) + PING_CONTROL;
    needs->reads = hello->op == PING_READ ? 1 : 0;
    needs->remote_read = hello->op == PING_READ && server;
    needs->remote_write = hello->op == PING_WRITE ||
                          (hello->op == PING_READ && !server &&
                           adapter->info->rdma_read_requires_remote_write);
}

uint64_t ping_server_memory(const struct ping_hello *hello)
{
    uint64_t data = hello->op == PING_SEND ? hello->size : PING_NOTE;
    uint64_t bytes = (PING_RECEIVES + PING_SENDS) * (data + PING_CONTROL) + CONNECTION_BYTES;

    if (hello->op == PING_WRITE)
        bytes += 4 * (uint64_t)hello->size;
    if (hello->op == PING_READ)
        bytes += (uint64_t)hello->size + PING_SPREAD;
    if (hello->flags & PING_FLAG_TCP)
        bytes += 2 * (uint64_t)hello->size;
    return bytes;
}

void ping_buffers_populate(const struct ping_buffers *buffers)
{
    region_populate(&buffers->messages);
    region_populate(&buffers->source);
    region_populate(&buffers->target);
}

bool ping_buffers_create(struct conn *conn, const struct ping_hello *hello, bool server,
                         struct ping_buffers *buffers)
{
    bool good;

    memset(buffers, 0, sizeof(*buffers));
    buffers->data_length = hello->op == PING_SEND ? hello->size : PING_NOTE;
    buffers->control_length = buffers->data_length + PING_CONTROL;
    good = region_reserve(conn, (PING_RECEIVES + PING_SENDS) * buffers->control_length,
                          IT_PRIV_LOCAL, &buffers->messages);
    if (good && hello->op == PING_WRITE)
        good = region_reserve(conn, 2 * (size_t)hello->size, IT_PRIV_LOCAL, &buffers->source) &&
               region_reserve(conn, 2 * (size_t)hello->size, IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE,
                              &buffers->target);
    if (good && hello->op == PING_READ && server)
        good = region_reserve(conn, (size_t)hello->size + PING_SPREAD,
                              IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ, &buffers->source);
    if (good && hello->op == PING_READ && !server)
        good = region_reserve(conn, hello->size, region_sink_privs(conn->adapter),
                              &buffers->target);
    if (good && !server)
        ping_buffers_populate(buffers);
    if (!good)
        ping_buffers_destroy(buffers);
    else if (hello->op == PING_READ && server)
        pattern_fill(buffers->source.memory, buffers->source.size, hello->seed, 0, PING_FIXED, 0);
    return good;
}

void ping_buffers_destroy(struct ping_buffers *buffers)
{
    region_destroy(&buffers->messages);
    region_destroy(&buffers->source);
    region_destroy(&buffers->target);
}

char *ping_receive_memory(const struct ping_buffers *buffers, unsigned slot)
{
    return (char *)buffers->messages.memory + slot * buffers->control_length;
}

char *ping_send_memory(const struct ping_buffers *buffers, unsigned slot)
{
    return (char *)buffers->messages.memory + (PING_RECEIVES + slot) * buffers->control_length;
}

bool ping_post_receive(struct conn *conn, const struct ping_buffers *buffers, unsigned slot)
{
    it_lmr_triplet_t part = region_part(&buffers->messages, slot * buffers->control_length,
                                        buffers->control_length);
    it_status_t status = it_post_recv((it_handle_t)conn->ep, &part, 1, slot,
                                      IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

    if (status != IT_SUCCESS)
        adapter_error(status, "cannot post a receive");
    return status == IT_SUCCESS;
}

bool ping_post_receives(struct conn *conn, void *buffers)
{
    for (unsigned i = 0; i < PING_RECEIVES; i++)
        if (!ping_post_receive(conn, buffers, i))
            return false;
    return true;
}

char *ping_out(const struct ping_hello *hello, const struct ping_buffers *buffers, uint64_t message)
{
    if (hello->op == PING_SEND)
        return ping_send_memory(buffers, message % 2);
    return (char *)buffers->source.memory + (message % 2) * hello->size;
}

char *ping_in(const struct ping_hello *hello, const struct ping_buffers *buffers, uint64_t message,
              unsigned slot)
{
    if (hello->op == PING_SEND)
        return ping_receive_memory(buffers, slot);
    return (char *)buffers->target.memory + (message % 2) * hello->size;
}

/*
 * Few completions are requested: the peer's answer proves that the earlier message was sent.
 * Completions only free places of the queue.
 */
static it_dto_flags_t signal_flags(uint64_t *sent)
{
    return ++*sent % PING_SIGNAL ? (it_dto_flags_t)0 : IT_COMPLETION_FLAG;
}

it_status_t ping_post_data(struct conn *conn, const struct ping_hello *hello,
                           const struct ping_buffers *buffers, uint64_t message, uint64_t address,
                           uint64_t context, uint64_t *sent)
{
    char *note = ping_send_memory(buffers, message % 2);
    it_lmr_triplet_t part = region_part(&buffers->messages,
                                        (size_t)(note - (char *)buffers->messages.memory),
                                        buffers->data_length);
    it_status_t status = IT_SUCCESS;

    if (hello->op == PING_WRITE) {
        uint64_t place = (message % 2) * hello->size;
        it_lmr_triplet_t payload = region_part(&buffers->source, place, hello->size);

        status = it_post_rdma_write(conn->ep, &payload, 1, 0,
                                    (it_dto_flags_t)(signal_flags(sent) | IT_COALESCE_WR_FLAG),
                                    address + place, context);
    }
    if (status == IT_SUCCESS)
        status = it_post_send(conn->ep, &part, 1, 0, signal_flags(sent));
    return status;
}

it_status_t ping_post_control(struct conn *conn, const struct ping_buffers *buffers,
                              enum ping_control_type type, const struct ping_tally *tally)
{
    char *memory = ping_send_memory(buffers, 2);
    size_t offset = (size_t)(memory - (char *)buffers->messages.memory);
    it_lmr_triplet_t part = region_part(&buffers->messages, offset, buffers->control_length);

    ping_put_control(memory, type, tally);
    return it_post_send(conn->ep, &part, 1, 0, IT_COMPLETION_FLAG);
}
