/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guest_peer: the other end of itping and itpeer inside the virtual machine, over libibverbs and librdmacm.
 *
 *     guest_peer serve PORT                                        one client, whatever it asks for
 *     guest_peer connect HOST PORT OP SIZE COUNT FLAGS             OP: send write read invalidate stream
 *
 * Speaks the protocol of tools/itping.h and tests/interop/peer.h, written down here a second time so that a mistake
 * on one side is not made on the other too. Every byte that arrives is compared. Ends with one line,
 * "result ...", and status 0 if everything was as it should be. No line follows when it has to die abruptly.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAGIC     0x49545047u
#define VERSION   1
#define SIZE_MOST (16u << 20)
#define NOTE      16u
#define CONTROL   64u
#define RECEIVES  4u
#define REQUESTS  64u
#define SPREAD    4096u
#define WAIT_MS   20000

enum op { SEND = 1, WRITE, READ, INVALIDATE = 0x101, STREAM };
/* Of hello.flags, for the operations of peer.h. */
enum {
    BY_CLIENT = 0x10,
    BY_SERVER = 0x20,
    PROBE_BY_CLIENT = 0x40,
    PROBE_BY_SERVER = 0x80,
    ABRUPT = 0x100
};
enum direction { THERE, BACK, FIXED = 4 };
#define BYE           1
#define REPORT        2
#define STREAM_DEPTH  16u /* Writes outstanding at once */
#define STREAM_BEFORE 32u /* Writes done before the end begins */

struct hello {
    uint32_t magic;
    uint16_t version, flags, op, zero;
    uint32_t size;
    uint64_t seed, address, context;
} __attribute__((packed));

struct welcome {
    uint32_t magic;
    uint16_t version, zero;
    uint64_t address, context;
    uint16_t tcp_port;
    uint64_t tcp_token;
} __attribute__((packed));

struct control {
    uint32_t magic, type;
    uint64_t verified, damaged, message, offset;
    uint8_t expected, found, zero[22];
} __attribute__((packed));
_Static_assert(sizeof(struct control) == CONTROL, "a control message");

struct region {
    void *memory;
    size_t size;
    struct ibv_mr *mr;
};

static struct {
    bool server;
    enum op op;
    unsigned flags;
    uint32_t size;
    uint64_t seed, count;
    uint64_t address; /* of the peer's memory */
    uint32_t key;
    size_t data_length, control_length;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct region messages, source, target;
    uint64_t posted, completed, flushed, verified, damaged, bad_message, bad_offset;
    uint8_t expected, found;
    enum rdma_cm_event_type end; /* 0 (ADDR_RESOLVED): not yet */
} peer;

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("result failed: ");
    vprintf(format, args);
    printf(" (verified %llu damaged %llu posted %llu completed %llu flushed %llu end %s)\n",
           (unsigned long long)peer.verified, (unsigned long long)peer.damaged,
           (unsigned long long)peer.posted, (unsigned long long)peer.completed,
           (unsigned long long)peer.flushed, peer.end ? rdma_event_str(peer.end) : "none");
    fflush(stdout);
    exit(1);
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- pattern --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t base_of(uint64_t message, enum direction direction)
{
    return peer.seed + message * 0xd1342543de82ef95u + direction * 0xaef17502108ef2d9u;
}

static uint8_t pattern_byte(uint64_t base, uint64_t position)
{
    return (uint8_t)(mix(base + position / 8 * 0x9e3779b97f4a7c15u) >> position % 8 * 8);
}

static void fill(uint8_t *data, size_t length, uint64_t message, enum direction direction)
{
    uint64_t base = base_of(message, direction), word;
    size_t done = 0;

    for (; done + 8 <= length; done += 8) {
        word = htole64(mix(base + done / 8 * 0x9e3779b97f4a7c15u));
        memcpy(data + done, &word, 8);
    }
    for (; done < length; done++)
        data[done] = pattern_byte(base, done);
}

static bool check(const uint8_t *data, size_t length, uint64_t message, enum direction direction,
                  uint64_t offset)
{
    uint64_t base = base_of(message, direction), word;

    for (size_t done = 0; done < length;) {
        if ((offset + done) % 8 == 0 && done + 8 <= length) {
            word = htole64(mix(base + (offset + done) / 8 * 0x9e3779b97f4a7c15u));
            if (!memcmp(data + done, &word, 8)) {
                done += 8;
                continue;
            }
        }
        if (data[done] != pattern_byte(base, offset + done)) {
            if (!peer.damaged++) {
                peer.bad_message = message;
                peer.bad_offset = done;
                peer.expected = pattern_byte(base, offset + done);
                peer.found = data[done];
            }
            return false;
        }
        done++;
    }
    peer.verified++;
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The next event of the connection manager must be that one; NULL event: acknowledged here. */
static void expect_event(enum rdma_cm_event_type wanted, struct rdma_cm_event **event)
{
    struct pollfd fd = { .fd = peer.channel->fd, .events = POLLIN };
    struct rdma_cm_event *got;

    if (poll(&fd, 1, WAIT_MS) != 1)
        fail("no event where %s was due", rdma_event_str(wanted));
    if (rdma_get_cm_event(peer.channel, &got))
        fail("rdma_get_cm_event: %s", strerror(errno));
    if (got->event != wanted)
        fail("%s (status %d) where %s was due", rdma_event_str(got->event), got->status,
             rdma_event_str(wanted));
    if (event)
        *event = got;
    else
        rdma_ack_cm_event(got);
}

static void take_event(void)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(peer.channel, &event))
        return;
    if (event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_CONNECT_ERROR ||
        event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        peer.end = event->event;
    rdma_ack_cm_event(event);
}

static bool poll_one(struct ibv_wc *wc)
{
    int got = ibv_poll_cq(peer.cq, 1, wc);

    if (got < 0)
        fail("ibv_poll_cq");
    if (got) {
        peer.completed++;
        peer.flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
    }
    return got;
}

/* The next completion; false: there is none and the connection has ended, or time is up. */
static bool next_completion(struct ibv_wc *wc)
{
    struct pollfd fds[2] = { { .fd = peer.completions->fd, .events = POLLIN },
                             { .fd = peer.channel->fd, .events = POLLIN } };
    int64_t limit = now_ms() + WAIT_MS;
    struct ibv_cq *cq;
    void *context;

    for (;;) {
        if (poll_one(wc))
            return true;
        if (ibv_req_notify_cq(peer.cq, 0))
            fail("ibv_req_notify_cq");
        if (poll_one(wc))
            return true;
        if (peer.end || now_ms() >= limit || poll(fds, 2, WAIT_MS) <= 0)
            return false;
        if (fds[1].revents)
            take_event();
        if (fds[0].revents && !ibv_get_cq_event(peer.completions, &cq, &context))
            ibv_ack_cq_events(cq, 1);
    }
}

/* A receive, or the completion of another kind, that must be good. Other good ones are passed over. */
static struct ibv_wc expect_completion(enum ibv_wc_opcode wanted, const char *what)
{
    struct ibv_wc wc;

    do {
        if (!next_completion(&wc))
            fail("%s: nothing came", what);
        if (wc.status != IBV_WC_SUCCESS)
            fail("%s: %s", what, ibv_wc_status_str(wc.status));
    } while (wc.opcode != wanted);
    return wc;
}

static void expect_end(const char *what)
{
    struct pollfd fd = { .fd = peer.channel->fd, .events = POLLIN };

    while (!peer.end) {
        if (poll(&fd, 1, WAIT_MS) != 1)
            fail("%s: the connection does not end", what);
        take_event();
    }
    if (peer.end != RDMA_CM_EVENT_DISCONNECTED)
        fail("%s: the connection ended by %s", what, rdma_event_str(peer.end));
}

/* After the end: takes what still completes. How much is not judged: of requests posted while the connection ends siw
 * loses some, and completes others twice. */
static void drain(void)
{
    struct ibv_wc wc;

    while (peer.completed < peer.posted && next_completion(&wc))
        ;
    /* Siw flushes in its own time: what is missing is fetched by moving the queue pair to error. */
    if (peer.completed < peer.posted) {
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

        ibv_modify_qp(peer.id->qp, &attr, IBV_QP_STATE);
        while (poll_one(&wc))
            ;
    }
}

/* ---- memory and posts ------------------------------------------------------------------------ */

static void make_region(struct region *region, size_t size, int access)
{
    region->size = size;
    region->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region->memory == MAP_FAILED)
        fail("no memory");
    region->mr = ibv_reg_mr(peer.id->pd, region->memory, size, access);
    if (!region->mr)
        fail("ibv_reg_mr of %zu bytes: %s", size, strerror(errno));
}

static void *receive_memory(uint64_t slot)
{
    return (char *)peer.messages.memory + slot * peer.control_length;
}

static void *send_memory(uint64_t slot)
{
    return receive_memory(RECEIVES + slot);
}

static void post_receive(uint64_t slot)
{
    struct ibv_sge sge = { .addr = (uintptr_t)receive_memory(slot),
                           .length = (uint32_t)peer.control_length,
                           .lkey = peer.messages.mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

    if (ibv_post_recv(peer.id->qp, &wr, &bad))
        fail("ibv_post_recv: %s", strerror(errno));
    peer.posted++;
}

/* 0 or the error number: a connection that has just ended takes no more. */
static int try_post(enum ibv_wr_opcode opcode, const struct region *region, const void *memory,
                    size_t length, uint64_t remote)
{
    int error;
    struct ibv_sge sge = { .addr = (uintptr_t)memory,
                           .length = (uint32_t)length,
                           .lkey = region->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = opcode,
                              .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    if (opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = peer.key;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey =
        peer.key; /* libsiw takes it from here for SEND_WITH_INV too, and sends 0 otherwise */
    error = ibv_post_send(peer.id->qp, &wr, &bad);
    peer.posted += !error;
    return error;
}

static void post(enum ibv_wr_opcode opcode, const struct region *region, const void *memory,
                 size_t length, uint64_t remote)
{
    int error = try_post(opcode, region, memory, length, remote);

    if (error)
        fail("ibv_post_send %d: %s", opcode, strerror(error));
}

static void post_control(unsigned type)
{
    struct control *control = send_memory(2);

    memset(control, 0, peer.control_length);
    control->magic = htobe32(MAGIC);
    control->type = htobe32(type);
    control->verified = htobe64(peer.verified);
    control->damaged = htobe64(peer.damaged);
    control->message = htobe64(peer.bad_message);
    control->offset = htobe64(peer.bad_offset);
    control->expected = peer.expected;
    control->found = peer.found;
    post(IBV_WR_SEND, &peer.messages, control, peer.control_length, 0);
}

/* Lays out message number n and sends it; write: the data, then a note. */
static void post_data(uint64_t number, enum direction direction)
{
    uint64_t place = number % 2 * peer.size;

    if (peer.op == WRITE) {
        fill((uint8_t *)peer.source.memory + place, peer.size, number, direction);
        post(IBV_WR_RDMA_WRITE, &peer.source, (uint8_t *)peer.source.memory + place, peer.size,
             peer.address + place);
    } else {
        fill(send_memory(number % 2), peer.size, number, direction);
    }
    post(IBV_WR_SEND, &peer.messages, send_memory(number % 2), peer.data_length, 0);
}

static const uint8_t *arrived(uint64_t number, uint64_t slot)
{
    return peer.op == SEND ? (uint8_t *)receive_memory(slot)
                           : (uint8_t *)peer.target.memory + number % 2 * peer.size;
}

static void create_queue_pair(void)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = REQUESTS,
                 .max_recv_wr = RECEIVES,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };

    if (!peer.id->pd)
        peer.id->pd = ibv_alloc_pd(peer.id->verbs);
    peer.completions = ibv_create_comp_channel(peer.id->verbs);
    peer.cq = ibv_create_cq(peer.id->verbs, REQUESTS + RECEIVES, NULL, peer.completions, 0);
    attr.send_cq = attr.recv_cq = peer.cq;
    if (!peer.id->pd || !peer.cq || rdma_create_qp(peer.id, peer.id->pd, &attr))
        fail("cannot make the queue pair: %s", strerror(errno));
}

static void create_memory(void)
{
    bool twice = peer.op == WRITE;

    peer.data_length = peer.op == SEND ? peer.size : NOTE;
    peer.control_length = peer.data_length + CONTROL;
    make_region(&peer.messages, (RECEIVES + 3) * peer.control_length, IBV_ACCESS_LOCAL_WRITE);
    if (peer.op == READ && peer.server) {
        make_region(&peer.source, peer.size + SPREAD,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        fill(peer.source.memory, peer.source.size, 0, FIXED);
    } else if (peer.op != SEND) {
        make_region(&peer.source, (size_t)peer.size << twice, IBV_ACCESS_LOCAL_WRITE);
        make_region(&peer.target, (size_t)peer.size << twice,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    }
    for (uint64_t slot = 0; slot < RECEIVES; slot++)
        post_receive(slot);
}

/* ---- itping ---------------------------------------------------------------------------------- */

static void serve_ping(void)
{
    for (uint64_t number = 0;;) {
        struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for a message");
        const struct control *control = receive_memory(wc.wr_id);

        if (wc.byte_len == peer.data_length && peer.op != READ) {
            check(arrived(number, wc.wr_id), peer.size, number, THERE, 0);
            post_data(number++, BACK);
            post_receive(wc.wr_id);
        } else if (wc.byte_len == peer.control_length && control->magic == htobe32(MAGIC) &&
                   control->type == htobe32(BYE)) {
            break;
        } else {
            fail("a message of %u bytes that means nothing", wc.byte_len);
        }
    }
    post_control(REPORT);
    expect_end("after the report");
}

static void ping(void)
{
    const struct control *control;
    struct ibv_wc wc;

    for (uint64_t number = 0; number < peer.count; number++) {
        if (peer.op == READ) {
            uint64_t skip = number * 64 % SPREAD;

            memset(peer.target.memory, 0, peer.size);
            post(IBV_WR_RDMA_READ, &peer.target, peer.target.memory, peer.size,
                 peer.address + skip);
            expect_completion(IBV_WC_RDMA_READ, "reading");
            check(peer.target.memory, peer.size, 0, FIXED, skip);
            continue;
        }
        post_data(number, THERE);
        wc = expect_completion(IBV_WC_RECV, "waiting for an answer");
        if (wc.byte_len != peer.data_length)
            fail("an answer of %u bytes, not %zu", wc.byte_len, peer.data_length);
        check(arrived(number, wc.wr_id), peer.size, number, BACK, 0);
        post_receive(wc.wr_id);
    }
    post_control(BYE);
    wc = expect_completion(IBV_WC_RECV, "waiting for the report");
    control = receive_memory(wc.wr_id);
    if (wc.byte_len != peer.control_length || control->type != htobe32(REPORT))
        fail("no report but %u bytes", wc.byte_len);
    if (control->damaged || (peer.op != READ && be64toh(control->verified) != peer.count))
        fail("the server saw %llu whole and %llu damaged messages",
             (unsigned long long)be64toh(control->verified),
             (unsigned long long)be64toh(control->damaged));
    rdma_disconnect(peer.id);
    expect_end("after hanging up");
}

/* ---- invalidate, stream: peer.h -------------------------------------------------------------- */

/* This side's turn: data into the peer's memory, and a Send that invalidates it or not. */
static void give(void)
{
    bool invalidate = peer.flags & (peer.server ? BY_SERVER : BY_CLIENT);

    fill(peer.source.memory, peer.size, 0, peer.server ? BACK : THERE);
    post(IBV_WR_RDMA_WRITE, &peer.source, peer.source.memory, peer.size, peer.address);
    post(invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND, &peer.messages, send_memory(0), NOTE, 0);
}

static void offer(void)
{
    uint64_t *words = send_memory(1);

    words[0] = htobe64((uintptr_t)peer.target.memory);
    words[1] = htobe64(peer.target.mr->rkey);
    post(IBV_WR_SEND, &peer.messages, words, NOTE, 0);
}

static void take_offer(void)
{
    struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for the offer");
    const uint64_t *words = receive_memory(wc.wr_id);

    if (wc.byte_len != NOTE)
        fail("an offer of %u bytes", wc.byte_len);
    peer.address = be64toh(words[0]);
    peer.key = (uint32_t)be64toh(words[1]);
}

static void take(void)
{
    struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for the peer's turn");

    if (wc.byte_len != NOTE)
        fail("a note of %u bytes", wc.byte_len);
    if (!check(peer.target.memory, peer.size, 0, peer.server ? THERE : BACK, 0))
        fail("the data before the note is damaged at byte %llu",
             (unsigned long long)peer.bad_offset);
}

static void invalidate(void)
{
    bool probe = peer.flags & (peer.server ? PROBE_BY_SERVER : PROBE_BY_CLIENT);
    bool probed = peer.flags & (peer.server ? PROBE_BY_CLIENT : PROBE_BY_SERVER);

    if (!peer.server)
        offer();
    take_offer();
    if (peer.server)
        offer();
    if (peer.server)
        take();
    give();
    if (!peer.server)
        take();
    if (probe) { /* must not pass: the peer ends the connection */
        struct ibv_wc wc;

        while (peer.completed < peer.posted - (RECEIVES - 2) && next_completion(&wc))
            ;
        memset(peer.source.memory, 0xee, peer.size);
        post(IBV_WR_RDMA_WRITE, &peer.source, peer.source.memory, peer.size, peer.address);
    } else if (!probed && !peer.server) {
        rdma_disconnect(peer.id);
    }
    expect_end("the end of invalidate");
    if (probed && !check(peer.target.memory, peer.size, 0, peer.server ? THERE : BACK, 0))
        fail("invalidated memory was written, byte %llu", (unsigned long long)peer.bad_offset);
    drain();
}

static void finish_stream(bool mine)
{
    if (mine && (peer.flags & ABRUPT)) {
        printf("result abrupt\n");
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    if (mine)
        rdma_disconnect(peer.id);
    expect_end("the end of the stream");
    drain();
}

/* Writes without pause until either side ends it. */
static void stream(void)
{
    bool mine = peer.flags & BY_CLIENT;
    uint64_t written = 0, done = 0;
    struct ibv_wc wc;

    fill(peer.source.memory, peer.size, 0, THERE);
    while (!(mine && done >= STREAM_BEFORE)) {
        if (written - done < STREAM_DEPTH) {
            if (try_post(IBV_WR_RDMA_WRITE, &peer.source, peer.source.memory, peer.size,
                         peer.address) ||
                (++written == STREAM_BEFORE &&
                 try_post(IBV_WR_SEND, &peer.messages, send_memory(0), NOTE, 0)))
                break; /* the peer has ended it, here and below */
            continue;
        }
        if (!next_completion(&wc) || wc.status != IBV_WC_SUCCESS || peer.end)
            break;
        done += wc.opcode == IBV_WC_RDMA_WRITE;
    }
    if (done < STREAM_BEFORE && mine)
        fail("the stream ended before its time");
    finish_stream(mine);
}

static void serve_stream(void)
{
    struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for the note in the stream");

    if (wc.byte_len != NOTE)
        fail("a note of %u bytes", wc.byte_len);
    finish_stream(peer.flags & BY_SERVER);
    check(peer.target.memory, peer.size, 0, THERE, 0);
}

/* ---- both sides ------------------------------------------------------------------------------ */

static void set_param(struct rdma_conn_param *param, const void *data, size_t length)
{
    memset(param, 0, sizeof(*param));
    param->private_data = data;
    param->private_data_len = (uint8_t)length;
    param->responder_resources = param->initiator_depth = 4;
}

static void accept_client(uint16_t port)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct rdma_conn_param param;
    struct rdma_cm_event *event;
    struct rdma_cm_id *listener;
    struct welcome welcome;
    struct hello hello;

    if (rdma_create_id(peer.channel, &listener, NULL, RDMA_PS_TCP) ||
        rdma_bind_addr(listener, (struct sockaddr *)&any) || rdma_listen(listener, 4))
        fail("cannot listen on port %u: %s", port, strerror(errno));
    expect_event(RDMA_CM_EVENT_CONNECT_REQUEST, &event);
    if (event->param.conn.private_data_len < sizeof(hello))
        fail("%u bytes of private data", event->param.conn.private_data_len);
    memcpy(&hello, event->param.conn.private_data, sizeof(hello));
    peer.id = event->id;
    rdma_ack_cm_event(event);
    if (hello.magic != htobe32(MAGIC) || hello.version != htobe16(VERSION))
        fail("no hello in the private data");
    peer.op = be16toh(hello.op);
    peer.flags = be16toh(hello.flags);
    peer.size = be32toh(hello.size);
    peer.seed = be64toh(hello.seed);
    peer.address = be64toh(hello.address);
    peer.key = (uint32_t)be64toh(hello.context);
    if (peer.size < 1 || peer.size > SIZE_MOST)
        fail("size %u", peer.size);
    create_queue_pair();
    create_memory();
    memset(&welcome, 0, sizeof(welcome));
    welcome.magic = htobe32(MAGIC);
    welcome.version = htobe16(VERSION);
    if (peer.op != SEND) {
        const struct region *told = peer.op == READ ? &peer.source : &peer.target;

        welcome.address = htobe64((uintptr_t)told->memory);
        welcome.context = htobe64(told->mr->rkey);
    }
    set_param(&param, &welcome, sizeof(welcome));
    if (rdma_accept(peer.id, &param))
        fail("rdma_accept: %s", strerror(errno));
    expect_event(RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static void connect_server(const char *host, uint16_t port)
{
    struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct rdma_conn_param param;
    struct rdma_cm_event *event;
    struct welcome welcome;
    struct hello hello;

    if (inet_pton(AF_INET, host, &server.sin_addr) != 1 ||
        rdma_create_id(peer.channel, &peer.id, NULL, RDMA_PS_TCP) ||
        rdma_resolve_addr(peer.id, NULL, (struct sockaddr *)&server, WAIT_MS))
        fail("cannot resolve %s: %s", host, strerror(errno));
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
    if (rdma_resolve_route(peer.id, WAIT_MS))
        fail("rdma_resolve_route: %s", strerror(errno));
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
    create_queue_pair();
    create_memory();
    memset(&hello, 0, sizeof(hello));
    hello.magic = htobe32(MAGIC);
    hello.version = htobe16(VERSION);
    hello.flags = htobe16((uint16_t)peer.flags);
    hello.op = htobe16((uint16_t)peer.op);
    hello.size = htobe32(peer.size);
    hello.seed = htobe64(peer.seed);
    if (peer.target.mr && peer.op != READ) {
        hello.address = htobe64((uintptr_t)peer.target.memory);
        hello.context = htobe64(peer.target.mr->rkey);
    }
    set_param(&param, &hello, sizeof(hello));
    if (rdma_connect(peer.id, &param))
        fail("rdma_connect: %s", strerror(errno));
    expect_event(RDMA_CM_EVENT_ESTABLISHED, &event);
    if (event->param.conn.private_data_len < sizeof(welcome))
        fail("the server's answer has %u bytes", event->param.conn.private_data_len);
    memcpy(&welcome, event->param.conn.private_data, sizeof(welcome));
    rdma_ack_cm_event(event);
    if (welcome.magic != htobe32(MAGIC))
        fail("the server's answer means nothing");
    peer.address = be64toh(welcome.address);
    peer.key = (uint32_t)be64toh(welcome.context);
}

static void parse_client(char **argv)
{
    static const struct {
        const char *name;
        enum op op;
    } ops[] = { { "send", SEND },
                { "write", WRITE },
                { "read", READ },
                { "invalidate", INVALIDATE },
                { "stream", STREAM } };

    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
        if (!strcmp(argv[4], ops[i].name))
            peer.op = ops[i].op;
    peer.size = (uint32_t)strtoul(argv[5], NULL, 0);
    peer.count = strtoull(argv[6], NULL, 0);
    peer.flags = (unsigned)strtoul(argv[7], NULL, 0);
    peer.seed = mix((uint64_t)now_ms() << 20 ^ (uint64_t)getpid());
}

int main(int argc, char **argv)
{
    if (!(argc == 3 && !strcmp(argv[1], "serve")) && !(argc == 8 && !strcmp(argv[1], "connect"))) {
        fprintf(stderr, "usage: guest_peer serve PORT | connect HOST PORT OP SIZE COUNT FLAGS\n");
        return 2;
    }
    signal(
        SIGPIPE,
        SIG_IGN); /* siw's own sendmsg raises it in whoever posts to a connection that was reset */
    peer.channel = rdma_create_event_channel();
    if (!peer.channel)
        fail("no event channel: is the driver loaded?");
    peer.server = argc == 3;
    if (peer.server) {
        accept_client((uint16_t)atoi(argv[2]));
    } else {
        parse_client(argv);
        connect_server(argv[2], (uint16_t)atoi(argv[3]));
    }
    switch (peer.op) {
    case SEND:
    case WRITE:
    case READ: peer.server ? serve_ping() : ping(); break;
    case INVALIDATE: invalidate(); break;
    case STREAM: peer.server ? serve_stream() : stream(); break;
    default: fail("operation %d", peer.op);
    }
    if (peer.damaged)
        fail("byte %llu of message %llu is 0x%02x, not 0x%02x", (unsigned long long)peer.bad_offset,
             (unsigned long long)peer.bad_message, peer.found, peer.expected);
    printf("result ok verified %llu\n", (unsigned long long)peer.verified);
    fflush(stdout);
    return 0;
}
