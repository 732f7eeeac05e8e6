/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What two processes share: one memfd, mapped by both, with slots for LOCAL_SLOTS connections.
 *
 *   header                        the layout
 *   LOCAL_WORDS: words            of each slot: who is there (segment.c)
 *   LOCAL_PAGES: pages            of each slot: the two of a connection
 *   LOCAL_HEAD: rings             of each slot:
 *     requests of end 0, of end 1   LOCAL_REQUESTS octets each (ring.h)
 *     answers of end 0, of end 1    LOCAL_ANSWERS octets each: what the Reads and atomics of the
 *                                   other end fetch, one behind the other
 *
 * End 0 has made it. An end writes its own page, requests and answers, and clears the peer's
 * `asleep`; it reads those of the peer, which may hold anything at any time. So what is read there
 * is copied before it is judged, and nothing that this end relies on stands there: its positions
 * have private copies.
 *
 * The memfd is sealed, so that nobody truncates it under the other. A forked child does not have
 * the mapping.
 */
#ifndef ITAL_SOFTWARE_LOCAL_SEGMENT_H
#define ITAL_SOFTWARE_LOCAL_SEGMENT_H

#include "bell.h"
#include "rnicpi.h"

#include <stdatomic.h>

#define LOCAL_SLOTS    16u
#define LOCAL_WORDS    64u
#define LOCAL_PAGES    1024u
#define LOCAL_HEAD     (64u << 10) /* whole pages of any machine */
#define LOCAL_REQUESTS (64u << 10) /* a power of two */
#define LOCAL_ANSWERS  (64u << 10) /* likewise */

/* How an end has ended the connection. */
enum local_end {
    LOCAL_OPEN,
    LOCAL_CLOSED,     /* in order, behind what it has published */
    LOCAL_TERMINATED, /* by an error: `code` */
    LOCAL_REFUSED,    /* the request `number` of the peer was refused: `code`, `status` */
    LOCAL_RESET,
};

/* Whether an end looks by itself. */
enum local_sleep {
    LOCAL_AWAKE,
    LOCAL_ASLEEP, /* its lane sleeps */
    LOCAL_COOL,   /* nor will it when the lane runs for others */
};

#define LOCAL_LINE 64u

/* What one end tells the other, in cache lines by what is written together. */
struct local_page {
    /* Once, or seldom. */
    _Alignas(LOCAL_LINE) atomic_uint started; /* it is in RTS */
    atomic_uint ended;                        /* enum local_end; behind the three members below */
    atomic_uint number, code, status;
    atomic_uint rnr_retry; /* of RI_QPM_RNR, which the peer's receiver counts */
    /* Before the hand-over: which socket wakes this connection (bell.c); the TCP socket is not
     * needed behind it (option local_close_tcp). Before `started`: by what number it is called. */
    atomic_ullong bell;
    atomic_uint leaves_tcp, call;
    /* Before its first request: it uses its ring. Until then nobody looks there, and the rings take
     * no memory. */
    atomic_uint used;
    /* enum local_sleep. Who clears it sends one octet by the socket. */
    _Alignas(LOCAL_LINE) atomic_uint asleep;
    /* What it has done with the peer's requests: octets that may be overwritten, requests that are
     * executed, octets of answers. */
    _Alignas(LOCAL_LINE) atomic_ullong consumed;
    atomic_ullong answered;
    atomic_uint executed;
    /* Not 0: it copies no octets from the peer's memory. Behind `executed`: the peer's Send of that
     * number, and those behind it, come by the ring. */
    atomic_uint no_references;
    /* Octets of the peer's answers that may be overwritten. */
    _Alignas(LOCAL_LINE) atomic_ullong taken;
    /* What the peer may do in the memory of this end (direct.c). Before `started`: where a token
     * stands there, and the number of the descriptor of the directory (-1: there is none). */
    _Alignas(LOCAL_LINE) atomic_ullong token_at, token;
    atomic_int directory;
    /* enum local_gate */
    atomic_uint gate;
    atomic_ullong pd, qp; /* struct directory_scope */
    /* Odd: this end accesses memory of the peer by itself: for its own requests, for those of the
     * peer. */
    _Alignas(LOCAL_LINE) atomic_uint claim, reference_claim;
};

/* What an end in RTS lets its peer do by itself. */
enum local_gate {
    LOCAL_GATE_WRITE = 1,
    LOCAL_GATE_READ = 2,
    LOCAL_GATE_ATOMIC = 4,
    LOCAL_GATE_SEND = 8, /* copy the octets of this end's Sends */
};

struct local_process;
struct local_segment;

struct ri_local {
    struct local_segment *segment;
    struct local_page *pages;
    uint8_t *rings;
    struct local_rnic *rnic;
    struct local_process *peer; /* NULL: it is not known */
    uint32_t slot;
    uint64_t life;     /* of the slot */
    unsigned int side; /* which end this is */
    uint16_t order;    /* the same number at both ends, for the functions below */
    atomic_uint users; /* the slot is left by the last one */
    /* Before the hand-over: what this end has said in its page, 0: nothing; the socket that it
     * means, NULL: its own. Under the lock of local_rnic (bell.c). bells: NULL: none is shared. */
    struct local_bells *bells;
    unsigned long long bell_number;
    struct local_bell *bell;
    /* The same, where this end may get into its memory. NULL: it may not, it is not known, or there
     * is no connection yet. */
    struct local_process *process;
};

/*
 * What one end has done before it stores something happens before what the other does when it has
 * found that. ThreadSanitizer does not see it where both ends are in one process (tests): each has
 * the memory at an address of its own. So it is told, before the store and behind the load.
 */
#if defined(__SANITIZE_THREAD__)
#define LOCAL_TELLS_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LOCAL_TELLS_ORDER 1
#endif
#endif
#ifdef LOCAL_TELLS_ORDER
void local_stores(const struct ri_local *local);
void local_has_found(const struct ri_local *local);
#else
#define local_stores(local)    ((void)(local))
#define local_has_found(local) ((void)(local))
#endif

static inline struct local_page *local_page(const struct ri_local *local, unsigned int side)
{
    return local->pages + side;
}
static inline uint8_t *local_requests(const struct ri_local *local, unsigned int side)
{
    return local->rings + side * (size_t)LOCAL_REQUESTS;
}
static inline uint8_t *local_answers(const struct ri_local *local, unsigned int side)
{
    return local->rings + 2 * (size_t)LOCAL_REQUESTS + side * (size_t)LOCAL_ANSWERS;
}

/* Nothing is in the ring `side` of requests, of answers: its memory goes back to the system until
 * it is used again. The end that produces there. */
void local_forget_requests(const struct ri_local *local, unsigned int side);
void local_forget_answers(const struct ri_local *local, unsigned int side);

/* ri_privileged_ops of the same names. */
enum ri_status local_make(struct ri_rnic *rnic, int socket, struct ri_local **local, int *fd,
                          const char **why);
enum ri_status local_take(struct ri_rnic *rnic, int socket, int fd, struct ri_local **local,
                          const char **why);
void local_drop(struct ri_rnic *rnic, struct ri_local *local);

#endif
