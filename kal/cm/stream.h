/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's stream of octets during start-up. struct cm_stream_ops is all that the connection
 * manager knows of the transport below: TCP is stream_tcp.c, the only file of kal with the calls of
 * the socket API on a peer's connection. Another stream (TLS, a simulated network) is one more such
 * table.
 */
#ifndef ITAL_KAL_CM_STREAM_H
#define ITAL_KAL_CM_STREAM_H

#include "kal/capture/capture.h"
#include "kal/rnic/rnic.h"

#include "base/address.h"

#include <sys/types.h>

/* Options of a new stream, in the transport's own way. */
struct cm_stream_options {
    /* For log lines */
    const struct kal_rnic *rnic;
    /* Milliseconds without an acknowledgement until the stream ends; 0: the system's */
    uint32_t user_timeout;
    bool keepalive;
    /* Seconds, seconds, probes */
    int keepalive_idle, keepalive_interval, keepalive_count;
};

/*
 * A stream is a descriptor that a lane can watch (EPOLLIN, EPOLLOUT, EPOLLRDHUP as of a socket) and
 * that the provider takes over. No operation waits. Those that return int: 0, or an error number of
 * errno(3). Those that return ssize_t: as recv(2) and send(2), with errno. Any thread; one at a
 * time for a stream.
 */
struct cm_stream_ops {
    /* Connect to destination, from source unless its family is AF_UNSPEC. *refused: 0, or why it
     * has failed already; `connected` does not report it then. */
    int (*connect)(const union address *source, const union address *destination,
                   const struct cm_stream_options *options, int *fd, int *refused);
    /* EAGAIN: not yet. */
    int (*connected)(int fd);
    /* v6only: an IPv6 wildcard takes no IPv4 peers. *bound has the port in use. Accepted streams
     * have the options, too. */
    int (*listen)(const struct sockaddr *address, bool v6only,
                  const struct cm_stream_options *options, int *fd, struct sockaddr_storage *bound);
    /* EAGAIN: no peer waits. *peer: as far as it is known. */
    int (*accept)(int listener, int *fd, union address *peer);
    /* May this descriptor of the consumer's be adopted? NULL: yes, otherwise a static sentence. */
    const char *(*unfit)(int fd);
    /* A second descriptor for it; the first stays the consumer's. */
    int (*adopt)(int fd, const struct cm_stream_options *options, int *own);
    /* Both ends; an IPv4 peer of an IPv6 listener as IPv4. An unknown one stays as it is. */
    void (*addresses)(int fd, union address *local, union address *peer);

    ssize_t (*receive)(int fd, void *octets, size_t room);
    /* Of one octet, which stays to be received. */
    ssize_t (*peek)(int fd);
    ssize_t (*send)(int fd, const void *octets, size_t length);
    /* Would receive, or accept of a listener, give something now? */
    bool (*readable)(int fd);
    /* Has the peer's transport acknowledged everything that was sent? */
    bool (*delivered)(int fd);

    /* End our direction, behind the octets sent. */
    int (*finish)(int fd);
    /* From now on closing aborts instead of ending in order. */
    void (*abort_on_close)(int fd);
    /* Both directions end, also for copies of the descriptor; a listener leaves its address. */
    void (*shut)(int fd);
    void (*close)(int fd);
};

extern const struct cm_stream_ops cm_stream_tcp;

/*
 * A stream at start-up: plain data and one descriptor. With a complete Request in `octets` it is
 * all that there is to an undecided request, so that it can move to another listener.
 */
struct cm_stream {
    const struct cm_stream_ops *ops;
    /* -1: none */
    int fd;
    /* Of octets */
    uint32_t length;
    /* NULL: not captured */
    struct kal_capture_end *capture;
    union address local, peer;
    /* MPA_STARTUP_FRAME_MAX; with the connection's start-up */
    uint8_t *octets;
};

/* Read what there is into the stream. > 0 octets, 0 end, -1 with errno (EAGAIN: nothing). */
ssize_t cm_read(struct cm_stream *stream);
/* Write the remaining octets of a buffer: 1 done, 0 later, -1 errno. */
int cm_write(struct cm_stream *stream, const uint8_t *octets, size_t length, size_t *sent);
/* Has the peer said or ended anything since? > 0 octets are there, 0 neither, -1 it has ended. */
int cm_heard(const struct cm_stream *stream);
/* The end of our direction; 0 or -1. */
int cm_send_end(struct cm_stream *stream);
void cm_reset_on_close(struct cm_stream *stream);
void cm_capture_end(struct cm_stream *stream);
/* A conversion's descriptor has a copy in the consumer's hands, whose stream ends, too. None:
 * nothing. */
void cm_stream_close(struct cm_stream *stream, bool copies);
void cm_addresses(struct cm_stream *stream);

#endif
