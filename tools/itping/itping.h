/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: the protocol of client and server.
 *
 * The client connects with a hello in its private data; the server answers with its own. Then, per
 * operation, one "message" is
 *   send   a Send of `size` bytes, and one of the same size back
 *   write  an RDMA Write of `size` bytes and a Send of 16 bytes that announces it; the same back
 *   read   an RDMA Read of `size` bytes; the server's program takes no part
 * All bytes have a pattern made from seed, message number and direction, and both sides compare
 * them. A control message is 64 bytes longer than a Send of data, so the two cannot be confused:
 *   bye    client: no more messages        report   server: how many it verified, first damage
 * With the TCP flag the client then connects to a plain TCP port and does the same there.
 */
#ifndef ITAL_TOOLS_ITPING_H
#define ITAL_TOOLS_ITPING_H

#include "tools/common/conn.h"
#include "tools/common/histogram.h"
#include "tools/common/plain_tcp.h"

#define PING_MAGIC    0x49545047u /* "ITPG" */
#define PING_VERSION  1u
#define PING_SIZE_MAX (16u << 20) /* bytes of one message */
#define PING_NOTE     16u /* bytes of the Send that announces a Write; of a TCP request for read */
#define PING_CONTROL  64u /* bytes that a control message is longer than data */
#define PING_RECEIVES 4u  /* Receives posted on each side */
#define PING_REQUESTS 64u /* work requests an endpoint takes */
#define PING_SIGNAL   16u /* every n-th request reports its completion */
#define PING_SPREAD   4096u /* read: messages start at different places of that many bytes */

enum ping_op { PING_SEND = 1, PING_WRITE, PING_READ };

enum ping_flag { PING_FLAG_BUSY = 1, PING_FLAG_TCP = 2 };

struct ping_hello {
    enum ping_op op;
    unsigned flags; /* enum ping_flag */
    uint32_t size;
    uint64_t seed;
    uint64_t address, context; /* write: where the server writes to */
};

struct ping_welcome {
    uint64_t address, context; /* write: where the client writes to; read: where it reads */
    struct plain_offer tcp;
};

enum ping_refusal {
    PING_REFUSED_VERSION = 1,
    PING_REFUSED_FULL,
    PING_REFUSED_PARAMETER,
    PING_REFUSED_MEMORY, /* more than --max-memory leaves */
    PING_REFUSED_SHARE   /* too many from that address */
};

#define PING_PRIVATE 64 /* bytes at most of each of these in private data */
size_t ping_put_hello(uint8_t *data, const struct ping_hello *hello);
/* 0 or a refusal; values out of range are refused. */
int ping_get_hello(const uint8_t *data, size_t size, struct ping_hello *hello);
size_t ping_put_welcome(uint8_t *data, const struct ping_welcome *welcome);
bool ping_get_welcome(const uint8_t *data, size_t size, struct ping_welcome *welcome);
size_t ping_put_refusal(uint8_t *data, enum ping_refusal refusal);
/* 0: not written by itping. */
int ping_get_refusal(const uint8_t *data, size_t size);

/* The first damage that a side found, and how much it verified. */
struct ping_tally {
    uint64_t verified, damaged;
    uint64_t message, offset; /* of the first damage */
    uint8_t expected, found;
};

enum ping_direction { PING_THERE = 0, PING_BACK, PING_TCP_THERE, PING_TCP_BACK, PING_FIXED };

/* The pattern of a message; for PING_FIXED of the read region, from `offset` on. */
void pattern_fill(void *data, size_t length, uint64_t seed, uint64_t message,
                  enum ping_direction direction, uint64_t offset);
/* Compares, counts, remembers the first damage; true if it is whole. */
bool pattern_check(const void *data, size_t length, uint64_t seed, uint64_t message,
                   enum ping_direction direction, uint64_t offset, struct ping_tally *tally);

/* Memory of one side: Receives, two buffers for Sends, and for write and read what their data
 * needs. */
struct ping_buffers {
    size_t data_length; /* of a Send */
    size_t control_length;
    struct region messages; /* Receives, then two Send buffers, then one for control */
    struct region source;   /* write: two; read, server: the fixed pattern */
    struct region target;   /* write: two that the peer writes; read, client: the sink */
};
/* Bytes of the server's memory for a client, computed from the hello. */
uint64_t ping_server_memory(const struct ping_hello *hello);
/* A server's buffers take no memory until ping_buffers_populate, except those that the client
 * reads. */
bool ping_buffers_create(struct conn *conn, const struct ping_hello *hello, bool server,
                         struct ping_buffers *buffers);
void ping_buffers_populate(const struct ping_buffers *buffers);
void ping_buffers_destroy(struct ping_buffers *buffers);
void ping_needs(const struct ping_hello *hello, bool server, const struct adapter *adapter,
                struct conn_needs *needs);
char *ping_receive_memory(const struct ping_buffers *buffers, unsigned slot);
char *ping_send_memory(const struct ping_buffers *buffers, unsigned slot);
bool ping_post_receive(struct conn *conn, const struct ping_buffers *buffers, unsigned slot);
bool ping_post_receives(struct conn *conn, void *buffers);
/*
 * Sends message number `message`, whose payload has been laid into slot message % 2: the Send, or
 * the Write to address/context with its note. sent: count of requests of this side, for
 * PING_SIGNAL.
 */
it_status_t ping_post_data(struct conn *conn, const struct ping_hello *hello,
                           const struct ping_buffers *buffers, uint64_t message, uint64_t address,
                           uint64_t context, uint64_t *sent);
/* Where the payload of message goes before ping_post_data, and where that of the peer arrives. */
char *ping_out(const struct ping_hello *hello, const struct ping_buffers *buffers,
               uint64_t message);
char *ping_in(const struct ping_hello *hello, const struct ping_buffers *buffers, uint64_t message,
              unsigned slot);

enum ping_control_type { PING_BYE = 1, PING_REPORT };
/* PING_CONTROL octets. */
void ping_put_control(void *data, enum ping_control_type type, const struct ping_tally *tally);
it_status_t ping_post_control(struct conn *conn, const struct ping_buffers *buffers,
                              enum ping_control_type type, const struct ping_tally *tally);
/* 0: not one. */
int ping_get_control(const void *data, struct ping_tally *tally);

/* ---- client ---------------------------------------------------------------------------------- */

struct ping_options {
    char host[ADDRESS_HOST];
    uint16_t port;
    const char *interface;
    enum ping_op op;
    uint32_t size;
    uint64_t count;       /* 0: no limit */
    uint64_t duration_us; /* 0: no limit */
    uint64_t interval_us, timeout_us;
    bool quiet, json, busy, tcp;
    int64_t damage; /* byte of the third message to spoil, -1: none */
};

struct ping_result {
    struct histogram times; /* nanoseconds, round trips */
    uint64_t sent, errors;
    double seconds;
    struct ping_tally here, there;
    bool there_known;
};

int ping_client(const struct ping_options *options);
bool ping_tcp_client(const struct ping_options *options, const struct ping_hello *hello,
                     const struct plain_offer *offer, struct ping_result *result);
/* Prints both (tcp may be NULL), as text or JSON. */
bool ping_print(const struct ping_options *options, const struct adapter *adapter, const char *wire,
                const char *peer, const struct ping_result *rdma, const struct ping_result *tcp);

/* ---- server ---------------------------------------------------------------------------------- */

struct ping_service_options {
    const char *interface;
    uint16_t port;
    bool once, busy, quiet;
    uint64_t max_memory; /* bytes of all clients together */
};
int ping_server(const struct ping_service_options *options);
void ping_tcp_server(int listener, const struct ping_hello *hello, uint64_t token);

#endif /* ITAL_TOOLS_ITPING_H */
