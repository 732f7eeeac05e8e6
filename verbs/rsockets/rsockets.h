/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rsockets.h - an rsocket and its parts.
 *
 * An rsocket is an id of rdma_cm with an event channel, and, from connect or accept on, a queue
 * pair and its buffers. Its number is the descriptor of an epoll set with both channels in it, so
 * the number is never that of another open file, and poll(2) can wait on it.
 *
 * Locks: `reading` and `writing` admit one reader and one writer at a time, who copy without
 * `lock`. `lock` guards everything else and is taken after them. No lock is held in a sleep.
 *
 * No thread works in the background: what arrives is taken by the calls of the program
 * (rs_progress).
 */
#ifndef ITAL_VERBS_RSOCKETS_H
#define ITAL_VERBS_RSOCKETS_H

#include "wire.h"

#include "verbs/verbs_objects.h"

#include "base/clock.h"

#include <rdma/rdma_cma.h>
#pragma GCC visibility push(default)
#include <rdma/rsocket.h>
#pragma GCC visibility pop

#include <sys/socket.h>
#include <sys/uio.h>

/* Messages that data must leave free at the peer and in the send queue: FIN, CLOSE and END are sent
 * once each and never wait, and so is the Read of a close; a CREDIT may use the fifth. */
#define RS_RESERVED_ONCE   4u
#define RS_RESERVED_CREDIT 5u
/* Places behind the ring: an octet that nobody changes, which the peer reads; where the own Read
 * goes to; the number of octets there. */
#define RS_ASKED_OCTET  0u
#define RS_ANSWER_OCTET 1u
#define RS_BEHIND_RING  8u

enum rs_state {
    RS_NEW,
    RS_BOUND,
    RS_LISTENING,
    RS_CONNECTING,
    RS_ACCEPTING, /* accepted, not established yet */
    RS_CONNECTED,
    RS_ENDED
};

/* What rsetsockopt sets. Accepted rsockets inherit it. */
struct rs_options {
    bool nonblocking, keepalive, reuse, nodelay, v6only, oob_inline;
    uint16_t maps;
    uint32_t send_size, ring_size; /* octets */
    uint32_t send_messages, receive_messages;
    uint32_t small_most; /* octets that travel inside a message */
    struct linger linger;
};

/* A thread that waits for a change of the rsocket. Lives on the thread's stack. */
struct rs_sleeper {
    int fd; /* written to wake it; -1: it sleeps in a lane */
    struct rs_sleeper *prev, *next;
};

/* A connect request that raccept has not taken yet. */
struct rs_request {
    struct rdma_cm_id *id;
    struct rs_hello hello;
    struct rs_request *next;
};

/* Memory of this end that the peer may write to. */
struct rs_local_map {
    struct ibv_mr *mr;
    struct rs_map map;
    bool told;
};

/* The connection's buffers and counts. Counts are modulo 2^32. */
struct rs_stream {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    uint8_t *memory; /* ring, receive slots, send slots, send buffer */
    struct ibv_mr *ring_mr, *local_mr;
    uint8_t *ring, *receive_slots, *send_slots, *send_buffer;
    bool armed;

    /* in: the own ring */
    uint32_t read_at, write_at, filled;
    uint32_t taken_octets, credited_octets;
    uint32_t taken_messages, credited_messages;

    /* out: the peer's ring, and the own send buffer */
    struct rs_hello peer;
    uint32_t peer_at;
    uint32_t sent_octets, peer_took_octets;
    uint32_t sent_messages, peer_took_messages;
    uint32_t buffer_at, buffered;
    uint32_t posted, completed; /* requests with a slot */
    uint32_t *releases;         /* by slot: octets of the send buffer */
    struct rs_map *maps;        /* the peer's memory, by index */

    bool fin_wanted, close_wanted, end_wanted, credit_wanted;
    bool fin_sent, close_sent, end_sent;
    bool fin_received, close_received, end_received;
    bool read_sent, read_done; /* of a close: the peer's RNIC has all that was sent before */
};

struct rs_socket {
    pthread_mutex_t reading, writing, lock;
    int fd;
    int family;
    enum rs_state state;
    int error; /* to be reported once */
    bool closing, read_shut, ask_cm;
    uint32_t quiet; /* calls of rs_progress in a row without a change */
    struct rs_options options;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct rs_stream stream;
    struct rs_sleeper *sleepers;
    bool lane_sleeper; /* one of them at most sleeps in a lane */
    bool woken;        /* wake_item is queued in the stream's channel, or was and has woken it */
    struct ual_channel_item wake_item;
    struct rs_request *requests, **requests_end;
    int backlog, waiting; /* waiting: length of `requests` */
    unsigned process;     /* rs_process when it was made */
    bool fed;             /* a listener without a socket of its own: fed.c */
    uint32_t in_vain;     /* of it: streams that came to no request */
    struct rs_local_map *local_maps;
    uint16_t local_map_count;
};

/* Sets errno and returns -1. */
static inline int rs_fail(int error)
{
    errno = error;
    return -1;
}

/* ---- table.c: from descriptors to rsockets ---- */
int rs_table_add(struct rs_socket *socket); /* 0 or an error number */
/* The rsocket, until rs_leave; NULL: none, errno is EBADF, or, if it is of this process's parent,
 * EOPNOTSUPP, EINVAL (a listener) or ECONNRESET. */
struct rs_socket *rs_enter(int fd);
void rs_leave(int fd);
/* The same with the rsocket's lock, for a whole call. rs_end_call returns 0, or -1 with errno set
 * if `error` is not 0. */
struct rs_socket *rs_begin_call(int fd);
int rs_end_call(int fd, struct rs_socket *socket, int error);
/* Is it the number of an rsocket? */
bool rs_is_rsocket(int fd);
/* Ends the number's meaning and waits until no call is inside. NULL: EBADF, or EOPNOTSUPP: it was
 * one of the parent's, and the descriptor is left. */
struct rs_socket *rs_table_remove(int fd);
/* The process that an rsocket is made in: one more in each child of a fork. */
unsigned rs_process(void);
bool rs_is_own(const struct rs_socket *socket);
/* The child's copy of an rsocket of its parent's, to be read; NULL: it is none. */
struct rs_socket *rs_of_parent(int fd);

/* ---- sleepers.c ---- */
int rs_sleeper_fd(void); /* the calling thread's; -1: errno */
void rs_sleeper_clear(void);
void rs_sleepers_forked(void); /* in the child of a fork */
void rs_wake(struct rs_socket *socket);

/* ---- stream.c ---- */
int rs_stream_create(struct rs_socket *socket); /* 0 or an error number */
void rs_stream_destroy(struct rs_socket *socket);
void rs_stream_hello(const struct rs_socket *socket, uint8_t octets[RS_HELLO_OCTETS]);
/* The peer's hello. Its messages may have come before. */
void rs_stream_meet(struct rs_socket *socket, const struct rs_hello *peer);
/* Takes completions. True: something changed. */
bool rs_stream_poll(struct rs_socket *socket);
/* Sends what is wanted and has room: FIN, CLOSE, END, CREDIT, mappings. */
void rs_stream_control(struct rs_socket *socket);
/* Octets that may be sent at once, from *at in the send buffer on. 0: no room. to_ring: as part of
 * the stream, for which the peer must have room, too. */
uint32_t rs_stream_room(const struct rs_socket *socket, bool to_ring, uint8_t **at);
/* Sends octets that were copied to that place. False: no message left, or the connection has
 * ended. */
bool rs_stream_write(struct rs_socket *socket, uint32_t length);
/* Octets that can be read, behind each other at *at; `skip`: behind that many. */
uint32_t rs_stream_filled(const struct rs_socket *socket, uint32_t skip, const uint8_t **at);
void rs_stream_read(struct rs_socket *socket, uint32_t length);
/* RDMA Write of octets that were copied to the place of rs_stream_room into the peer's mapping. */
bool rs_stream_write_map(struct rs_socket *socket, uint32_t length, uint64_t address,
                         uint32_t stag);
bool rs_stream_idle(const struct rs_socket *socket); /* all requests have completed */
/* Reads the octet behind the peer's ring, once. The answer comes from the peer's RNIC, without a
 * call of its program, behind all that was sent before. */
void rs_stream_read_peer(struct rs_socket *socket);
/* The connection is over, for that reason; 0: in order. The first reason counts. */
void rs_end(struct rs_socket *socket, int error);

/* ---- connection.c ---- */
/* With that id of a connect request, which the rsocket then owns; NULL: a new one. NULL: errno, and
 * the id is the caller's. */
struct rs_socket *rs_socket_new(int family, const struct rs_options *options,
                                struct rdma_cm_id *id);
/* Its number is no rsocket any more. An open connection is reset. */
void rs_socket_free(struct rs_socket *socket);
/* Begins to connect. 0 or an error number. */
int rs_connection_ask(struct rs_socket *socket, struct sockaddr *to);
/* Takes the events of the id. True: something changed. */
bool rs_connection_events(struct rs_socket *socket);
/* Accepts the oldest request. NULL: errno, EAGAIN if there is none. */
struct rs_socket *rs_connection_accept(struct rs_socket *listener);
/* Takes what has arrived and sends what is due. Under the lock. */
void rs_progress(struct rs_socket *socket);

/* ---- wait.c ---- */
/* A thread polls for so long before it sleeps: a peer that answers at once is often faster than a
 * sleep and a wake-up. */
#define RS_SPIN_NS (10 * CLOCK_NS_PER_US)
/* Under the lock: waits until `ready`. 0, EAGAIN (deadline), EINTR, EBADF (closed meanwhile), or
 * another error number. */
int rs_wait(struct rs_socket *socket, bool (*ready)(const struct rs_socket *), uint64_t deadline);
/* The halves of a sleep, under the lock. After the first, the caller looks whether it need not
 * sleep. readable: poll(2) reported the rsocket's descriptor. */
void rs_sleep_begin(struct rs_socket *socket, struct rs_sleeper *sleeper);
void rs_sleep_end(struct rs_socket *socket, struct rs_sleeper *sleeper, bool readable);
static inline uint64_t rs_deadline(const struct rs_socket *socket, int flags)
{
    return socket->options.nonblocking || (flags & MSG_DONTWAIT) ? 0 : CLOCK_NEVER;
}

/* ---- events.c: what poll reports ---- */
bool rs_can_read(const struct rs_socket *socket);
bool rs_can_write(const struct rs_socket *socket);
bool rs_can_write_map(const struct rs_socket *socket);
/* Why nothing can be sent; 0: it can. Under the lock; reports an error of the connection once. */
int rs_write_error(struct rs_socket *socket);
short rs_events(const struct rs_socket *socket);

#endif
