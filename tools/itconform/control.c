/* SPDX-License-Identifier: BSD-3-Clause */
/* itconform-peer: the commands of itconform; see peer.h. */
#include "peer.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LINE    4096
#define WORDS   8
#define SHOWN   512u  /* octets of a memory or completion answer */
#define SEND_WR 1000u /* wr_id from there on: requests */
#define IDLE_MS 1000

struct control {
    struct peer *peer;
    int fd;
    char line[LINE];
    size_t used;
    char *words[WORDS];
    int count;
    bool gone;
};

/* ---- answers ---- */

__attribute__((format(printf, 2, 3))) static void answer(struct control *control,
                                                         const char *format, ...)
{
    char text[LINE];
    va_list list;
    int length;

    va_start(list, format);
    length = vsnprintf(text, sizeof(text) - 1, format, list);
    va_end(list);
    if (length > LINE - 2)
        length = LINE - 2;
    text[length++] = '\n';
    if (send(control->fd, text, (size_t)length, MSG_NOSIGNAL) != length)
        control->gone = true;
}

static const char *hex(const uint8_t *octets, size_t length, char text[static 2 * SHOWN + 1])
{
    if (length > SHOWN)
        length = SHOWN;
    for (size_t i = 0; i < length; i++)
        sprintf(text + 2 * i, "%02x", octets[i]);
    if (!length)
        strcpy(text, "-");
    return text;
}

/* ---- words of a command ---- */

static unsigned int number(const struct control *control, int at)
{
    return at < control->count ? (unsigned int)strtoul(control->words[at], NULL, 10) : 0;
}

static uint64_t address(const struct control *control, int at)
{
    return at < control->count ? strtoull(control->words[at], NULL, 16) : 0;
}

/* Hex octets of a word into out; how many. */
static size_t octets(const struct control *control, int at, uint8_t out[static DATA_MAX])
{
    const char *text = at < control->count ? control->words[at] : "-";
    size_t length = 0;
    unsigned int octet;

    while (length < DATA_MAX && sscanf(text + 2 * length, "%2x", &octet) == 1)
        out[length++] = (uint8_t)octet;
    return length;
}

/* ---- waiting ---- */

/* Something happens, or `ms` pass. */
static void wait_for(struct peer *peer, int fd, int ms)
{
    struct connection *connection = peer_connection(peer);
    struct pollfd fds[3] = {
        { .fd = peer->channel->fd, .events = POLLIN },
        { .fd = fd, .events = POLLIN },
        { .fd = connection ? connection->channel->fd : -1, .events = POLLIN },
    };

    poll(fds, 3, ms);
}

static void command_event(struct control *control)
{
    uint64_t end = tool_now() + (uint64_t)number(control, 1) * 1000000u;
    struct peer *peer = control->peer;
    char text[2 * SHOWN + 1];
    struct happened event;

    for (;;) {
        uint64_t now = tool_now();

        peer_run(peer);
        if (peer->event_count || now >= end || atomic_load(&tool_stop))
            break;
        wait_for(peer, -1, (int)((end - now + 999999) / 1000000));
    }
    if (!peer->event_count) {
        answer(control, "ok none");
        return;
    }
    event = peer->events[0];
    memmove(peer->events, peer->events + 1, --peer->event_count * sizeof(peer->events[0]));
    answer(control, "ok %s %u %u %s", event.name, event.ird, event.ord,
           hex(event.data, event.length, text));
}

/* One completion of the newest connection. The CQ is armed before it is looked at again. */
static bool take_completion(struct connection *connection, struct ibv_wc *wc)
{
    struct ibv_cq *cq;
    void *context;

    if (ibv_poll_cq(connection->cq, 1, wc) > 0)
        return true;
    while (!ibv_get_cq_event(connection->channel, &cq, &context))
        ibv_ack_cq_events(cq, 1);
    ibv_req_notify_cq(connection->cq, 0);
    return ibv_poll_cq(connection->cq, 1, wc) > 0;
}

static void show_completion(struct control *control, const struct connection *connection,
                            const struct ibv_wc *wc)
{
    bool received = wc->wr_id < SEND_WR;
    const uint8_t *at = connection->buffer + (wc->wr_id - 1) * connection->length;
    size_t length = wc->byte_len < connection->length ? wc->byte_len : connection->length;
    char text[2 * SHOWN + 1];

    answer(control, "ok %s %d %u %x %x %s", received ? "recv" : "send", (int)wc->status,
           wc->byte_len, wc->wc_flags, wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0,
           received && wc->status == IBV_WC_SUCCESS ? hex(at, length, text) : "-");
}

static void command_completion(struct control *control)
{
    uint64_t end = tool_now() + (uint64_t)number(control, 1) * 1000000u;
    struct peer *peer = control->peer;
    struct ibv_wc wc;

    for (;;) {
        struct connection *connection;
        uint64_t now = tool_now();

        peer_run(peer);
        connection = peer_connection(peer);
        if (connection && take_completion(connection, &wc)) {
            show_completion(control, connection, &wc);
            return;
        }
        if (now >= end || atomic_load(&tool_stop))
            break;
        wait_for(peer, -1, (int)((end - now + 999999) / 1000000));
    }
    answer(control, "ok none");
}

/* ---- the other commands ---- */

static void command_config(struct control *control)
{
    struct peer *peer = control->peer;
    unsigned int receives = number(control, 1), length = number(control, 2);

    if (receives > RECEIVES_MAX || length > LARGE_BYTES || number(control, 3) > 255 ||
        number(control, 4) > 255) {
        answer(control, "error a number is too large");
        return;
    }
    peer->receives = receives;
    peer->length = length;
    peer->ird = number(control, 3);
    peer->ord = number(control, 4);
    peer->reject = number(control, 5);
    peer->data_length = octets(control, 6, peer->data);
    answer(control, "ok");
}

static void command_regions(struct control *control)
{
    char text[LINE] = "ok";
    size_t used = 2;

    for (int i = 0; i < REGIONS; i++) {
        const struct region *region = &control->peer->regions[i];

        if (region->mr)
            used += (size_t)snprintf(text + used, sizeof(text) - used, " %c:%x:%" PRIx64 ":%u",
                                     region->name, region->mr->rkey,
                                     (uint64_t)(uintptr_t)region->octets, region->bytes);
    }
    answer(control, "%s", text);
}

static void command_memory(struct control *control)
{
    const struct region *region = control->count > 1
                                      ? peer_region(control->peer, control->words[1][0])
                                      : NULL;
    unsigned int offset = number(control, 2), length = number(control, 3);
    char text[2 * SHOWN + 1];

    if (!region || length > SHOWN || offset > region->bytes || length > region->bytes - offset)
        answer(control, "error no such memory");
    else
        answer(control, "ok %s", hex(region->octets + offset, length, text));
}

static void post(struct control *control, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    struct connection *connection = peer_connection(control->peer);
    struct ibv_send_wr *bad;
    int error;

    if (!connection) {
        answer(control, "error no connection");
        return;
    }
    wr->wr_id = SEND_WR;
    wr->sg_list = sge;
    wr->num_sge = sge->length ? 1 : 0;
    wr->send_flags |= IBV_SEND_SIGNALED;
    error = ibv_post_send(connection->id->qp, wr, &bad);
    if (error)
        answer(control, "error post: %s", strerror(error));
    else
        answer(control, "ok");
}

static void command_send(struct control *control)
{
    struct connection *connection = peer_connection(control->peer);
    const char *kind = control->count > 2 ? control->words[2] : "plain";
    struct ibv_send_wr wr = { .opcode = strstr(kind, "inv") ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
                              .send_flags = strstr(kind, "se") ? IBV_SEND_SOLICITED : 0 };
    struct ibv_sge sge = { .length = number(control, 1) };

    if (strstr(kind, "inv"))
        wr.invalidate_rkey = (uint32_t)address(control, 3);
    if (connection && sge.length <= LARGE_BYTES) {
        sge.addr = (uintptr_t)(connection->buffer + connection->receives * connection->length);
        sge.lkey = connection->buffer_mr->lkey;
    } else {
        sge.length = 0;
    }
    post(control, &wr, &sge);
}

static void command_remote(struct control *control, enum ibv_wr_opcode opcode)
{
    const struct region *region = peer_region(control->peer, 'B');
    struct ibv_send_wr wr = { .opcode = opcode };
    struct ibv_sge sge = { .length = number(control, 1) };

    if (!region || sge.length > region->bytes) {
        answer(control, "error no memory of that length");
        return;
    }
    wr.wr.rdma.rkey = (uint32_t)address(control, 2);
    wr.wr.rdma.remote_addr = address(control, 3);
    sge.addr = (uintptr_t)region->octets;
    sge.lkey = region->mr->lkey;
    post(control, &wr, &sge);
}

static void command_connect(struct control *control)
{
    struct peer *peer = control->peer;
    const char *why;

    if (control->count < 3) {
        answer(control, "error connect HOST PORT");
        return;
    }
    peer->ird = number(control, 3);
    peer->ord = number(control, 4);
    peer->data_length = octets(control, 5, peer->data);
    why = peer_connect(peer, control->words[1], control->words[2]);
    if (why)
        answer(control, "error %s", why);
    else
        answer(control, "ok");
}

static void command_disconnect(struct control *control)
{
    struct connection *connection = peer_connection(control->peer);

    if (connection)
        rdma_disconnect(connection->id);
    answer(control, "ok");
}

static void command_forget(struct control *control)
{
    peer_run(control->peer);
    peer_forget(control->peer);
    answer(control, "ok");
}

static void command_write(struct control *control)
{
    command_remote(control, IBV_WR_RDMA_WRITE);
}

static void command_read(struct control *control)
{
    command_remote(control, IBV_WR_RDMA_READ);
}

static const struct {
    const char *name;
    void (*run)(struct control *control);
} commands[] = {
    { "config", command_config },
    { "forget", command_forget },
    { "regions", command_regions },
    { "memory", command_memory },
    { "event", command_event },
    { "completion", command_completion },
    { "send", command_send },
    { "write", command_write },
    { "read", command_read },
    { "connect", command_connect },
    { "disconnect", command_disconnect },
};

static void execute(struct control *control, char *line)
{
    control->count = 0;
    for (char *word = strtok(line, " \r"); word && control->count < WORDS;
         word = strtok(NULL, " \r"))
        control->words[control->count++] = word;
    for (size_t i = 0; control->count && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (!strcmp(commands[i].name, control->words[0])) {
            commands[i].run(control);
            return;
        }
    answer(control, "error no such command");
}

static void read_lines(struct control *control)
{
    ssize_t got = recv(control->fd, control->line + control->used, LINE - 1 - control->used,
                       MSG_DONTWAIT);
    char *end;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || control->used + (size_t)got == LINE - 1) {
        control->gone = true;
        return;
    }
    control->used += (size_t)got;
    control->line[control->used] = '\0';
    while (!control->gone && (end = memchr(control->line, '\n', control->used))) {
        size_t length = (size_t)(end - control->line) + 1;

        *end = '\0';
        execute(control, control->line);
        control->used -= length;
        memmove(control->line, control->line + length, control->used);
    }
}

void control_serve(struct peer *peer, int fd)
{
    struct control control = { .peer = peer, .fd = fd };

    while (!control.gone && !atomic_load(&tool_stop)) {
        wait_for(peer, fd, IDLE_MS);
        peer_run(peer);
        read_lines(&control);
    }
}
