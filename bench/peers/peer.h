/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every peer program of bench/compare shares: the command line, the out-of-band connection on
 * which client and server agree on a plan and compare results, the clock of the run, and the one
 * line of figures.
 *
 * A program fills struct peer_program and calls peer_main(), which parses the command line,
 * connects, and calls run() at both ends with the same plan. run() sets up, calls peer_start(),
 * moves its messages, and ends with peer_finish(). The program has one thread. Functions that can
 * fail print the reason and end the process with status 1.
 */
#ifndef ITAL_BENCH_PEER_H
#define ITAL_BENCH_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum peer_op { PEER_SEND, PEER_WRITE, PEER_READ };
enum peer_mode { PEER_LAT, PEER_BW, PEER_RATE };

#define PEER_OP(op) (1u << (op))

/* The client's plan. The server takes it from the client and ignores its own command line. */
struct peer_plan {
    uint32_t magic;
    uint32_t op, mode;
    uint32_t event;      /* completions are waited for, not polled for */
    uint64_t size;       /* octets of a message, 1 to PEER_MAX_SIZE */
    uint64_t window;     /* messages under way at most (bw, rate) */
    uint64_t batch;      /* octets per system call (raw_tcp); 0: one message each */
    uint64_t pause;      /* ns in which each end does nothing before a message (raw_tcp, lat) */
    uint64_t timer;      /* ns after which each end sets a timer anew (raw_tcp, lat); 0: none */
    uint64_t iters;      /* timed messages or round trips; 0: as many as fit into seconds */
    double seconds;      /* timed part */
    char congestion[16]; /* congestion control of every TCP socket; empty: the system's */
    char provider[32];   /* libfabric's provider, empty elsewhere */
};

#define PEER_MAX_SIZE   (64u << 20)
#define PEER_MAX_WINDOW 4096
#define PEER_NOT_SEEN   UINT64_MAX /* a count that this end cannot know */

struct peer {
    const struct peer_program *program;
    struct peer_plan plan;
    bool server;
    const char *host; /* NULL: any address (server), loopback (client) */
    int port, cpu;    /* cpu -1: not pinned */
    const char
        *samples_file; /* where the client writes each time of lat, microseconds; NULL: nowhere */
    int listener, oob;
    struct sockaddr_storage here, there; /* of the out-of-band connection */
    char library[64];                    /* set by run(): what is measured, with its version */

    /* State of the run; see peer_lap(), peer_stream(). */
    uint64_t origin, timed_from, last, deadline, cpu_origin;
    uint64_t chunk, marked, base;
    uint64_t limit; /* messages to post in all; the loop posts no more */
    bool warming, over;
    uint32_t *samples; /* ns: of one round trip, or of one chunk */
    size_t sample_count, sample_room;
};

struct peer_program {
    const char *name;
    unsigned ops; /* PEER_OP() of each supported operation */
    bool batches; /* takes --batch, --pause and --timer */
    const char *const
        *providers; /* values of --provider, the first is the default; NULL: no such option */
    void (*run)(struct peer *peer);
};

int peer_main(int argc, char **argv, const struct peer_program *program);

/* Ends the process with status 1 and a message; peer_die_errno() adds strerror(errno). */
_Noreturn void peer_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void peer_die_errno(const char *what);

static inline uint64_t peer_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Each end sends its octets and receives the other's. Also a barrier. */
void peer_exchange(struct peer *peer, const void *mine, size_t mine_length, void *theirs,
                   size_t theirs_length);

/* A further TCP connection beside the out-of-band one, with the plan's congestion control and
 * TCP_NODELAY; the caller closes it. */
int peer_data_socket(struct peer *peer);

/* Page-aligned memory, filled with `octet`. Never NULL, never freed. */
void *peer_memory(size_t octets, int octet);

/* Both ends call it when everything is set up: starts the clock. */
void peer_start(struct peer *peer);

/* Slow part of peer_stream(). */
void peer_mark(struct peer *peer, uint64_t done);

/* Client, lat: ends one round trip. False: that was the last one. */
bool peer_lap(struct peer *peer);

/* Both ends, bw and rate: `done` messages are complete since the start. At the client, peer->over
 * says that nothing more is to be posted; with --iters, peer->limit is the number of messages to
 * post in all. */
static inline void peer_stream(struct peer *peer, uint64_t done)
{
    if (done - peer->marked >= peer->chunk)
        peer_mark(peer, done);
}

/* Client: are there messages to post after the first `posted`? */
static inline bool peer_more(const struct peer *peer, uint64_t posted)
{
    return !peer->over && posted < peer->limit;
}

/* Server: has the client reported its number of messages (its peer_finish)? Then sets *messages.
 * Takes one system call, so call it only after many polls found nothing. */
bool peer_told_end(struct peer *peer, uint64_t *messages);

/* Both ends, last: compares the counts (PEER_NOT_SEEN: no comparison). The client prints the
 * figures. A server that used peer_told_end() calls it too. */
void peer_finish(struct peer *peer, uint64_t messages, uint64_t octets);

#endif
