/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guest_peer: the other end of itping and itpeer inside the virtual machine, over libibverbs and
 * librdmacm.
 *
 *     guest_peer serve PORT                                        one client, whatever it asks for
 *     guest_peer connect HOST PORT OP SIZE COUNT FLAGS             OP: send write read invalidate
 *     stream
 *
 * Speaks the protocol of tools/itping/itping.h and tests/interop/peer.h, written down here a second
 * time so that a mistake on one side is not made on the other too. Every byte that arrives is
 * compared. Ends with one line, "result ...", and status 0 if everything was as it should be. No
 * line follows when it has to die abruptly.
 */
#include "guest.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct peer peer;

void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
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

int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
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
    if (hello.magic != htobe32(MAGIC) || hello.version != htobe16(PROTOCOL))
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
    welcome.version = htobe16(PROTOCOL);
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
    hello.version = htobe16(PROTOCOL);
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
    /* siw's own sendmsg raises it in whoever posts to a connection that was reset */
    signal(SIGPIPE, SIG_IGN);
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
