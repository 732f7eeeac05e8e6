/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Loops shared by the peers with a library. A peer provides the posts and the polling; the patterns
 * (ping-pong, stream with a window, passive target) are the same for all.
 */
#ifndef ITAL_BENCH_TRANSPORT_H
#define ITAL_BENCH_TRANSPORT_H

#include "peer.h"

/* Posts return false if the queue is full: poll, and try again. A completion increments sent (for
 * sends, writes and reads) or received. */
struct transport {
    struct peer *peer;
    bool (*send)(struct transport *transport);    /* out, a message */
    bool (*receive)(struct transport *transport); /* into in */
    bool (*write)(struct transport *transport);   /* out to the other end's in */
    bool (*read)(struct transport *transport);    /* the other end's out into in */
    bool (*send_count)(
        struct transport *transport); /* count_out to the other end's count_in; complete
                                                   * once it and all before it are there */
    void (*poll)(struct transport *transport);
    bool (*wait)(struct transport *transport); /* sleeps until there is something to poll; false:
                                                * TRANSPORT_WAIT_MS passed */
    uint64_t sent, received;

    /* One region of memory, registered as a whole, with the same layout at both ends. */
    char *region;
    size_t region_octets;
    char *in, *out;
    volatile uint64_t *count_in;
    uint64_t *count_out;
};

#define TRANSPORT_WAIT_MS 10

/* Allocates the region. Call it first. */
void transport_init(struct transport *transport, struct peer *peer);

/* Runs the whole plan, peer_finish() included. */
void transport_run(struct transport *transport);

#endif
