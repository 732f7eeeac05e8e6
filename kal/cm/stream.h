/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's octet stream during start-up. The connection manager uses the transport only through
 * struct cm_stream_ops. stream_tcp.c implements it for TCP, and is the only file of kal that makes
 * socket calls on a peer's connection. Another transport (TLS, a simulated network) is one more
 * such table, in one file: the provider gets the stream with it (docs/transports.md).
 */
#ifndef ITAL_KAL_CM_STREAM_H
#define ITAL_KAL_CM_STREAM_H

#include "kal/capture/capture.h"
#include "kal/rnic/rnic.h"

#include "base/address.h"

#include <sys/types.h>

/* Options of a new stream. */
struct cm_stream_options {
    /* For log lines */
    const struct kal_rnic *rnic;
    /* Milliseconds without an acknowledgement until the stream ends; 0: the system's default */
    uint32_t user_timeout;
    /* Inherited listeners: seconds that a peer may stay silent before it appears nevertheless */
    int silence;
    bool keepalive;
    /* Listeners: other processes of this user may listen on the same address and port */
    bool share_port;
    /* Seconds, seconds, probes */
    int keepalive_idle, keepalive_interval, keepalive_count;
};

/*
 * A stream is a descriptor that a lane can watch (EPOLLIN, EPOLLOUT, EPOLLRDHUP as for a socket)
 * and that the provider takes over. No operation blocks. Those that return int: 0, or an errno
 * value. Those that return ssize_t: as recv(2) and send(2), with errno. Any thread; one at a time
 * for a stream.
 */
struct cm_stream_ops {
    /* Connects to destination, from source unless its family is AF_UNSPEC. *refused: 0, or the
     * error with which it has failed already; `connected` does not report it then. */
    int (*connect)(const union address *source, const union address *destination,
                   const struct cm_stream_options *options, int *fd, int *refused);
    /* EAGAIN: not yet. */
    int (*connected)(int fd);
    /* v6only: an IPv6 wildcard accepts no IPv4 peers. *bound has the port in use. Accepted streams
     * have the options, too. */
    int (*listen)(const struct sockaddr *address, bool v6only,
                  const struct cm_stream_options *options, int *fd, struct sockaddr_storage *bound);
    /* Checks whether this descriptor, which the process was started with, is a listening socket.
     * NULL: yes, *bound is its address. Otherwise a static sentence. */
    const char *(*unlike)(int fd, union address *bound);
    /* Duplicates that socket. Peers of the new listener appear with their first octets; those that
     * wait meanwhile, in the kernel, are not lost if this process stops listening. */
    int (*inherit)(int fd, const struct cm_stream_options *options, int *own);
    /* EAGAIN: no peer waits. *peer: as far as known. */
    int (*accept)(int listener, int *fd, union address *peer);
    /* Checks whether this descriptor of the consumer can be adopted. NULL: yes, otherwise a static
     * sentence. */
    const char *(*unfit)(int fd);
    /* Duplicates the descriptor; the first remains the consumer's. */
    int (*adopt)(int fd, const struct cm_stream_options *options, int *own);
    /* The addresses of both ends; an IPv4 peer of an IPv6 listener as IPv4. An unknown one is
     * unchanged. */
    void (*addresses)(int fd, union address *local, union address *peer);

    ssize_t (*receive)(int fd, void *octets, size_t room);
    /* Peeks at one octet, which stays to be received. */
    ssize_t (*peek)(int fd);
    ssize_t (*send)(int fd, const void *octets, size_t length);
    /* True: receive, or accept for a listener, would return something now. */
    bool (*readable)(int fd);
    /* True: the peer's transport has acknowledged everything sent. */
    bool (*delivered)(int fd);

    /* Ends our direction, after the octets sent. */
    int (*finish)(int fd);
    /* From now on close aborts the connection. */
    void (*abort_on_close)(int fd);
    /* Ends both directions, also for copies of the descriptor; a listener releases its address. */
    void (*shut)(int fd);
    void (*close)(int fd);

    /* What a provider calls when the stream is its own, and what it gives those calls: `carry` has
     * no effect, and the stream stays kal's if the provider refuses it. NULL, both: the descriptor
     * is a TCP socket, and a provider calls the system. */
    const struct ri_stream_ops *carried;
    void *(*carry)(int fd);
};

extern const struct cm_stream_ops cm_stream_tcp;

/*
 * A stream during start-up: plain data and one descriptor. With a complete Request in `octets` it
 * is all the state of an undecided request, so it can move to another listener.
 */
struct cm_stream {
    const struct cm_stream_ops *ops;
    /* -1: none */
    int fd;
    /* Number of octets */
    uint32_t length;
    /* NULL: not captured */
    struct kal_capture_end *capture;
    union address local, peer;
    /* MPA_STARTUP_FRAME_MAX octets; freed with the connection's start-up */
    uint8_t *octets;
};

/* Reads what has arrived into the stream. > 0 octets, 0 end, -1 with errno (EAGAIN: nothing). */
ssize_t cm_read(struct cm_stream *stream);
/* Writes the remaining octets of a buffer: 1 done, 0 later, -1 errno. */
int cm_write(struct cm_stream *stream, const uint8_t *octets, size_t length, size_t *sent);
/* > 0: octets have arrived, 0: none and not ended, -1: the peer has ended the stream. */
int cm_heard(const struct cm_stream *stream);
/* Ends our direction; returns 0 or -1. */
int cm_send_end(struct cm_stream *stream);
/* From now on close resets the stream. */
void cm_reset_on_close(struct cm_stream *stream);
void cm_capture_end(struct cm_stream *stream);
/* Closes the stream. copies: the consumer has a copy of a conversion's descriptor, and its stream
 * ends too. Without a descriptor: no effect. */
void cm_stream_close(struct cm_stream *stream, bool copies);
void cm_addresses(struct cm_stream *stream);

#endif
