/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guest_peer: shared by its files. guest_peer.c sets the connection up, guest_verbs.c has events,
 * memory and posts, guest_protocol.c the messages and the pattern. Every error ends the program by
 * fail().
 */
#ifndef ITAL_INTEROP_GUEST_H
#define ITAL_INTEROP_GUEST_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAGIC     0x49545047u
#define PROTOCOL  1
#define SIZE_MOST (16u << 20)
#define NOTE      16u
#define CONTROL   64u
#define RECEIVES  4u
#define REQUESTS  64u
#define SPREAD    4096u
#define WAIT_MS   120000 /* nothing that passes needs it: on a busy host the machine is slow */

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

extern struct peer {
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

void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...);
int64_t now_ms(void);

/* ---- guest_protocol.c ---- */

uint64_t mix(uint64_t x);
void fill(uint8_t *data, size_t length, uint64_t message, enum direction direction);
void serve_ping(void);
void ping(void);
void invalidate(void);
void stream(void);
void serve_stream(void);

/* ---- guest_verbs.c ---- */

/* The next event of the connection manager must be this one. NULL event: acknowledged here. */
void expect_event(enum rdma_cm_event_type wanted, struct rdma_cm_event **event);
/* The next completion; false: there is none and the connection has ended, or time is up. */
bool next_completion(struct ibv_wc *wc);
/* Waits for a receive, or a completion of another kind, which must be good. Skips other good
 * ones. */
struct ibv_wc expect_completion(enum ibv_wc_opcode wanted, const char *what);
void expect_end(const char *what);
/* After the end: takes the remaining completions. */
void drain(void);

void *receive_memory(uint64_t slot);
void *send_memory(uint64_t slot);
void post_receive(uint64_t slot);
/* 0 or an error number: a connection that has just ended refuses posts. */
int try_post(enum ibv_wr_opcode opcode, const struct region *region, const void *memory,
             size_t length, uint64_t remote);
void post(enum ibv_wr_opcode opcode, const struct region *region, const void *memory, size_t length,
          uint64_t remote);
void create_queue_pair(void);
void create_memory(void);

#endif /* ITAL_INTEROP_GUEST_H */
