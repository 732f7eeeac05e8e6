/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lower layer of a stream: TCP, and layers in between.
 */
#ifndef ITAL_SOFTRDMA_LLP_H
#define ITAL_SOFTRDMA_LLP_H

#include "providers/software/iwarp/objects/iwarp.h"

#include <sys/types.h>

struct iovec;
struct sockaddr;
struct iwarp_qp;
struct stream;

/* What TCP awaits from the peer. */
struct llp_wait {
    bool octets;             /* some are not acknowledged yet, or wait for the window */
    bool asked;              /* octets or probes left after the last acknowledgement came */
    uint32_t probes;         /* of keep-alive or of a closed window, unanswered */
    uint32_t repeats;        /* of octets, since the connection began */
    uint64_t unacknowledged; /* octets, one less on some connections; after a RST, too */
    uint64_t heard_ago_ns;   /* age of the last acknowledgement, in ticks of TCP's clock */
};

/* The lower layer. Results: octets moved, 0 end of stream (receive), or -errno (EAGAIN: not
 * now). */
struct llp_ops {
    ssize_t (*send)(struct stream *stream, const struct iovec *iov, int count);
    ssize_t (*receive)(struct stream *stream, void *buffer, size_t length);
    uint32_t (*emss)(struct stream *stream);
    void (*finish)(struct stream *stream);            /* no more output: FIN */
    void (*close)(struct stream *stream, bool reset); /* reset: RST */
    /* All zero if the system does not report it. NULL: there is no peer to wait for. */
    void (*waits)(struct stream *stream, struct llp_wait *wait);
    /* receive(), but what does not fit goes to `behind`. NULL: receive() does. */
    ssize_t (*receive_two)(struct stream *stream, void *buffer, size_t length, void *behind,
                           size_t more);
};
extern const struct llp_ops llp_tcp;
/* A stream that was handed over with its table. */
extern const struct llp_ops llp_handed;
/* Has the table all that llp_handed calls? */
bool llp_may_carry(const struct ri_stream_ops *ops);
/* Put capture between the stream and its lower layer, if it is on. */
void llp_capture_insert(struct stream *stream, uint64_t token);
#define LLP_ACK_LOOKS 6u /* in ack_timeout */
/* End the stream when its peer acknowledges nothing for ack_timeout. Goes on top of the present
 * layers, before anything is sent. */
void llp_acks_insert(struct stream *stream);
/* stream.acks has expired. True: the peer has acknowledged nothing for too long. Under rx. */
bool llp_acks_check(struct stream *stream, struct iwarp_qp *qp);
/* True: both ends are on this host, because the two addresses are the same or of the loopback.
 * Addresses of other families than IPv4 and IPv6: false. */
bool llp_same_host(const struct sockaddr *local, const struct sockaddr *peer);
/* Set the options of a connected TCP socket. */
void llp_tcp_prepare(int fd, const struct iwarp_options *options);

#endif
