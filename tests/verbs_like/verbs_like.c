/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A verbs-like front end in small, on ual_mechanism.h alone: RC ping-pong between two devices, with
 * connections by address, as rdma_cm makes them, and by numbers that the two exchange by
 * themselves, as ibv_modify_qp asks for. Completions by polling, or by a channel whose descriptor
 * is polled. The QP is used for a second connection after a renewal. Prints TAP.
 */
#include "ual_mechanism.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS  500u
#define OCTETS  4096u
#define DEPTH   8u
#define WAIT_US 30000000u /* for whatever must come */
#define MAGIC   0x76657262u

/* Ends the program with what went wrong: a test that cannot go on has failed. */
#define must(call)                                                                           \
    do {                                                                                     \
        enum ri_status must_ = (call);                                                       \
        if (must_ != RI_OK) {                                                                \
            printf("Bail out! line %d: " #call ": %s\n", __LINE__, ital_status_name(must_)); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)
#define check(condition)                                             \
    do {                                                             \
        if (!(condition)) {                                          \
            printf("Bail out! line %d: " #condition "\n", __LINE__); \
            exit(1);                                                 \
        }                                                            \
    } while (0)

/* --- connection events, as an event channel of rdma_cm has them --- */

struct cm_event {
    struct ual_channel_item item;
    enum ri_connection_event_type type; /* 0: a request */
    enum ri_status resolved;
    struct ual_conn *request;
    uint32_t words[3]; /* private data */
};

/* One end: what an application of verbs holds. */
struct end {
    const char *mode;
    bool by_numbers, by_channel, attach_late, active;
    int out_of_band; /* socket to the other end */
    struct ual_device *device;
    struct ual_pd *pd;
    struct ual_mr *mr;
    struct ual_channel *completions, *events;
    struct ual_cq *cq;
    struct ual_qp *qp;
    struct ual_conn *listener, *conn;
    struct sockaddr_in own;
    uint32_t qpn; /* of this front end: listening port << 8 | index */
    uint8_t *memory;
    uint32_t sent, received, length; /* completions; of the last receive */
    uint64_t ns;                     /* for ROUNDS */
};

static void push(struct end *end, enum ri_connection_event_type type, enum ri_status resolved,
                 struct ual_conn *request, const void *data, size_t length)
{
    struct cm_event *event = calloc(1, sizeof(*event));

    check(event);
    event->type = type;
    event->resolved = resolved;
    event->request = request;
    if (data && length)
        memcpy(event->words, data, length < sizeof(event->words) ? length : sizeof(event->words));
    ual_channel_post(end->events, &event->item);
}

static enum ual_hearing on_request(void *context, struct ual_conn *request,
                                   const struct ri_connect_request *asked)
{
    push(context, 0, RI_OK, request, asked->private_data, asked->private_data_length);
    return UAL_REQUEST_TAKEN;
}

static void on_event(void *context, const struct ri_connection_event *event)
{
    push(context, event->type, RI_OK, NULL, event->private_data, event->private_data_length);
}

static void on_resolved(void *context, enum ri_status status, const struct sockaddr_storage *source)
{
    push(context, RI_CONNECTION_RESOLVED, source ? status : RI_ERR_UNREACHABLE, NULL, NULL, 0);
}

static const struct ual_conn_upcalls upcalls = {
    .request = on_request,
    .event = on_event,
    .resolved = on_resolved,
};

/* The responder hears from its QP that the peer's first message has come. */
static void on_qp_event(struct ual_qp *qp, const struct ri_event *event)
{
    struct end *end = qp->context;

    if (event->type == RI_EVENT_ESTABLISHED)
        push(end, RI_CONNECTION_ESTABLISHED, RI_OK, NULL, NULL, 0);
    else if (event->type < RI_EVENT_QP_FATAL)
        push(end, RI_CONNECTION_DISCONNECTED, RI_OK, NULL, NULL, 0);
}

static struct cm_event next_event(struct end *end)
{
    struct ual_channel_event got;
    struct cm_event *event, copy;

    must(ual_channel_get(end->events, WAIT_US, &got));
    check(got.kind == UAL_ITEM_POSTED);
    event = (struct cm_event *)(void *)((char *)got.item - offsetof(struct cm_event, item));
    copy = *event;
    free(event);
    return copy;
}

static void expect(struct end *end, enum ri_connection_event_type type)
{
    struct cm_event event = next_event(end);

    if (event.type != type)
        printf("# %s: event %d came, not %d\n", end->mode, (int)event.type, (int)type);
    check(event.type == type && event.resolved == RI_OK);
}

/* --- objects --- */

static struct ual_qp_attr qp_attr(const struct end *end)
{
    return (struct ual_qp_attr){
        .type = RI_QP_RC,
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .max_send_wr = DEPTH,
        .max_recv_wr = DEPTH,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .ird = 1,
        .ord = 1,
    };
}

static void open_end(struct end *end)
{
    struct ual_cq_attr cq_attr = { .depth = 2 * DEPTH, .context = end };
    struct ual_qp_attr attr;

    must(ual_device_open("softrdma", NULL, end, &end->device));
    must(ual_pd_create(end->device, &end->pd));
    end->memory = malloc((size_t)2 * OCTETS);
    check(end->memory);
    must(ual_mr_create(end->pd, end->memory, (uint64_t)2 * OCTETS,
                       RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE, 0, 0, &end->mr));
    must(ual_channel_create(end->device, UAL_CHANNEL_FD, &end->completions));
    must(ual_channel_create(NULL, 0, &end->events));
    must(ual_async_to(end->device, end->completions));
    cq_attr.channel = end->completions;
    must(ual_cq_create(end->device, &cq_attr, &end->cq));
    attr = qp_attr(end);
    must(ual_qp_create(end->pd, &attr, on_qp_event, end, &end->qp));
}

static void drop(struct ual_channel_item *item)
{
    free((char *)item - offsetof(struct cm_event, item));
}

static void close_end(struct end *end)
{
    must(ual_qp_free(end->qp));
    must(ual_cq_free(end->cq));
    must(ual_async_to(end->device, NULL));
    must(ual_channel_free(end->completions));
    ual_channel_purge(end->events, NULL, drop);
    must(ual_channel_free(end->events));
    must(ual_mr_free(end->mr));
    must(ual_pd_free(end->pd));
    check(ual_device_claim(end->device));
    ual_device_drain(end->device);
    must(ual_device_close(end->device));
    free(end->memory);
}

/* --- connections --- */

static void tell(struct end *end, const void *what, size_t size)
{
    check(write(end->out_of_band, what, size) == (ssize_t)size);
}

static void hear(struct end *end, void *what, size_t size)
{
    check(recv(end->out_of_band, what, size, MSG_WAITALL) == (ssize_t)size);
}

/* A listener on a free port: bound first, so that the port is known before anybody is let in. */
static void listen_somewhere(struct end *end)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct ri_listen_param param = { .size = sizeof(param), .backlog = 4 };
    struct sockaddr_storage bound;

    must(ual_conn_create(end->device, &upcalls, end, &end->listener));
    must(ual_conn_bind(end->listener, (struct sockaddr *)&any, &bound));
    memcpy(&end->own, &bound, sizeof(end->own));
    check(end->own.sin_port);
    must(ual_conn_listen(end->listener, &param, NULL));
}

static void ask(struct end *end, const struct sockaddr_in *to, const uint32_t words[3])
{
    struct ri_connect_param param = {
        .size = sizeof(param),
        .destination = (const struct sockaddr *)to,
        .deadline = RI_NO_DEADLINE,
        .private_data = words,
        .private_data_length = 3 * sizeof(words[0]),
        .ird = 1,
        .ord = 1,
        .negotiate_depths = true,
    };

    must(ual_conn_create(end->device, &upcalls, end, &end->conn));
    must(ual_conn_resolve(end->conn, param.destination));
    expect(end, RI_CONNECTION_RESOLVED);
    must(ual_conn_connect(end->conn, end->attach_late ? NULL : end->qp, &param));
    if (end->attach_late)
        must(ual_conn_attach(end->conn, end->qp));
    expect(end, RI_CONNECTION_ESTABLISHED);
}

static void answer(struct end *end, uint32_t wanted)
{
    struct ri_connect_param param = {
        .size = sizeof(param), .ird = 1, .ord = 1, .negotiate_depths = true
    };
    struct cm_event asked = next_event(end);

    check(asked.request && asked.words[0] == MAGIC && (!wanted || asked.words[1] == wanted));
    end->conn = asked.request;
    ual_conn_migrate(end->conn, &upcalls, end);
    must(ual_conn_accept(end->conn, end->attach_late ? NULL : end->qp, &param));
    if (end->attach_late)
        must(ual_conn_attach(end->conn, end->qp));
    expect(end, RI_CONNECTION_ESTABLISHED);
}

static void connect_by_address(struct end *end)
{
    const uint32_t words[3] = { MAGIC };
    struct sockaddr_in to;

    if (end->active) {
        hear(end, &to, sizeof(to));
        ask(end, &to, words);
    } else {
        listen_somewhere(end);
        tell(end, &end->own, sizeof(end->own));
        answer(end, 0);
    }
}

/* The larger number begins: both know both, so nothing is negotiated. */
static void connect_by_numbers(struct end *end)
{
    struct {
        struct sockaddr_in gid;
        uint32_t qpn;
    } own = { 0 }, other;
    uint32_t words[3] = { MAGIC };

    listen_somewhere(end);
    end->qpn = (uint32_t)ntohs(end->own.sin_port) << 8 | 2;
    own.gid = end->own;
    own.qpn = end->qpn;
    tell(end, &own, sizeof(own));
    hear(end, &other, sizeof(other));
    check(other.qpn != own.qpn);
    if (own.qpn < other.qpn) {
        answer(end, own.qpn);
        return;
    }
    words[1] = other.qpn;
    words[2] = own.qpn;
    other.gid.sin_port = htons((uint16_t)(other.qpn >> 8));
    ask(end, &other.gid, words);
}

/* --- ping-pong --- */

static void post_receive(struct end *end)
{
    struct ri_sge sge = { (uintptr_t)end->memory + OCTETS, OCTETS, end->mr->lkey };
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    must(ual_qp_post_recv(end->qp, &wr, &bad));
}

static void post_send(struct end *end, uint32_t length)
{
    struct ri_sge sge = { (uintptr_t)end->memory, length, end->mr->lkey };
    struct ri_send_wr wr = { .opcode = RI_WR_SEND,
                             .flags = RI_WR_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1 },
                      *bad;

    must(ual_qp_post_send(end->qp, &wr, &bad));
}

/* As ibv_get_cq_event behind poll(2). */
static void wait_in_channel(struct end *end)
{
    struct pollfd ready = { .fd = ual_channel_fd(end->completions), .events = POLLIN };
    struct ual_channel_event event;

    check(poll(&ready, 1, WAIT_US / 1000) == 1);
    must(ual_channel_get(end->completions, WAIT_US, &event));
    check(event.kind == UAL_ITEM_CQ && event.cq == end->cq && event.context == end);
}

static struct ri_wc next_completion(struct end *end)
{
    struct ri_wc wc;

    while (!ual_cq_poll(end->cq, 1, &wc)) {
        if (!end->by_channel) {
            ual_cq_run(end->cq);
            continue;
        }
        ual_cq_arm(end->cq, RI_ARM_NEXT);
        if (ual_cq_poll(end->cq, 1, &wc)) /* the event that follows is drained by the next wait */
            break;
        wait_in_channel(end);
    }
    check(wc.status == RI_WC_SUCCESS && ual_lookup((ual_handle)wc.context, UAL_QP) == end->qp);
    return wc;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Completions come in the order of each queue, but a Send's may come behind the answer to it. */
static void await(struct end *end, const uint32_t *done, uint32_t count)
{
    while (*done < count) {
        struct ri_wc wc = next_completion(end);

        end->sent += wc.opcode == RI_WC_SEND;
        if (wc.opcode != RI_WC_SEND) {
            end->received++;
            end->length = wc.byte_len;
        }
    }
}

/* Each round the active end sends and gets back as many octets, each one larger. */
static void ping_pong(struct end *end)
{
    uint64_t began = now_ns();

    end->sent = end->received = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t length = 1 + round * 7 % OCTETS;
        uint8_t own = (uint8_t)(round + !end->active), other = (uint8_t)(round + end->active);

        if (end->active) {
            memset(end->memory, own, length);
            post_receive(end);
            post_send(end, length);
        }
        await(end, &end->received, round + 1);
        check(end->length == length);
        check(end->memory[OCTETS] == other && end->memory[OCTETS + length - 1] == other);
        if (end->active) {
            await(end, &end->sent, round + 1);
            continue;
        }
        await(end, &end->sent, round); /* the memory is lent until then */
        memset(end->memory, own, length);
        if (round + 1 < ROUNDS)
            post_receive(end);
        post_send(end, length);
    }
    await(end, &end->sent, ROUNDS);
    end->ns = now_ns() - began;
}

static void end_connection(struct end *end)
{
    if (end->active)
        must(ual_conn_disconnect(end->conn, end->qp, NULL, 0));
    expect(end, RI_CONNECTION_DISCONNECTED);
    ual_conn_free(end->conn);
    if (end->listener)
        ual_conn_free(end->listener);
    end->conn = end->listener = NULL;
}

static void *run(void *arg)
{
    struct end *end = arg;

    open_end(end);
    for (int life = 0; life < 2; life++) {
        struct ual_qp_attr attr = qp_attr(end);

        if (life)
            must(ual_qp_renew(end->qp, &attr));
        if (!end->active)
            post_receive(end);
        if (end->by_numbers)
            connect_by_numbers(end);
        else
            connect_by_address(end);
        ping_pong(end);
        end_connection(end);
    }
    close_end(end);
    return NULL;
}

int main(void)
{
    static const struct {
        const char *name;
        bool by_numbers, by_channel, attach_late;
    } modes[] = {
        { "by address, polling", false, false, false },
        { "by address, channel", false, true, false },
        { "by address, the QP comes later", false, false, true },
        { "by numbers, polling", true, false, false },
        { "by numbers, channel", true, true, false },
    };
    const unsigned int count = sizeof(modes) / sizeof(modes[0]);

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%u\n", count);
    for (unsigned int i = 0; i < count; i++) {
        struct end ends[2] = { 0 };
        pthread_t thread;
        int pair[2];

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        for (int j = 0; j < 2; j++)
            ends[j] = (struct end){
                .mode = modes[i].name,
                .by_numbers = modes[i].by_numbers,
                .by_channel = modes[i].by_channel,
                .attach_late = modes[i].attach_late,
                .active = j == 0,
                .out_of_band = pair[j],
            };
        check(pthread_create(&thread, NULL, run, &ends[1]) == 0);
        run(&ends[0]);
        pthread_join(thread, NULL);
        close(pair[0]);
        close(pair[1]);
        printf("ok %u - %s: 2 lives, %u round trips each, 1 to %u octets\n", i + 1, modes[i].name,
               ROUNDS, OCTETS);
        printf("#   %.1f us each\n", (double)ends[0].ns / ROUNDS / 1000);
    }
    return 0;
}
