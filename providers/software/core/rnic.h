/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For all folders: limits, options, the RNIC and its PDs, small helpers.
 */
#ifndef ITAL_SOFTRDMA_RNIC_H
#define ITAL_SOFTRDMA_RNIC_H

#include "rnicpi_util.h"
#include "providers/software/core/stag.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/spinlock.h"

#include <pthread.h>
#include <string.h>

/* Pages of one region that requests register. The post reads their list. */
#define MAX_FAST_REGISTER_PAGES 512u

#define MAX_SGE         64u
#define MAX_WR          65536u
#define MAX_CQE         (1u << 22)
#define POLLED_MAX      16u
#define LANES_MOST      64u
#define RX_RING_OCTETS  (640u * 1024u)  /* a read behind an incomplete FPDU */
#define TX_BATCH_OCTETS (1024u * 1024u) /* aimed at in one system call that is not one segment */
/* beyond that, so that the end of a message needs no call of its own */
#define TX_BATCH_TAIL    (128u * 1024u)
#define TX_IOV           1024u           /* UIO_MAXIOV */
#define TX_ARENA_OCTETS  (64u * 1024u)   /* headers, trailers, small payload of one batch */
#define TX_BOUNCE_OCTETS (1024u * 1024u) /* Read Response payload of one batch */
#define TX_COPY_OCTETS   256u            /* payload up to here is copied next to its header */
/* coalesced posts leave: octets of small ones, with headers */
#define TX_COALESCE_SMALL (48u * 1024u)
/* payload that is still in the first-level cache between CRC and copy */
#define SEGMENT_MOST (32u * 1024u)
/* FPDUs where writes follow TCP segments: about that long each ... */
#define FPDU_OCTETS (16u * 1024u)
#define FPDUS_LEAST 2u    /* ... if a segment has room for so many ... */
#define FPDU_LEAST  2048u /* ... and never with less room than that */
#define FPDU_ALIGN  64u   /* payload of those that are cut: sources stay aligned */
/* ... and in a stream so many segments a write */
#define WRITE_SEGMENTS 16u
/* with CRC a longer Read is answered in writes as long as possible */
#define LONG_RESPONSE (256u * 1024u)
/* Octets of unanswered Reads behind which a Send or a Write may follow. The responder keeps so many
 * until they fit into a batch, and then executes what follows (tx/tx_fetch.c). */
#define READS_AHEAD (2u * 1024u * 1024u)
/* So many Reads that are not longer than that are never more. */
#define READS_MANY 128u
#define SMALL_READ (READS_AHEAD / READS_MANY)
/* Polls that found something without arming: the consumer counts as polling then. */
#define TX_HITS          16u
#define TX_RETRY_NS      20000u  /* a full socket is retried after that time ... */
#define TX_RETRY_MOST_NS 160000u /* ... up to that, while it takes nothing */
/* Long batches, or their time, that one thread writes; the others are left to the lane. */
#define TX_ROUNDS     4u
#define TX_WRITE_COST (64u * 1024u)   /* octets whose write costs as much as the call, at least */
#define MULPDU_OCTETS (1024u * 1024u) /* output between two reads of the EMSS ... */
/* ... while it grows with the peer's window, in the first MULPDU_OCTETS */
#define EARLY_OCTETS  (64u * 1024u)
#define ATOMIC_OCTETS 8u
#define REMOTE_RIGHTS (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC)
/* Octets of one read, half of what a stream's peer writes at once: more would leave the cache
 * before they are checked and placed. */
#define READ_MOST  (512u * 1024u + 64u)
#define READ_LEAST (READ_MOST / 32) /* while tiny FPDUs come, a read takes no more */
/* reads end at the end of an FPDU if FPDUs are at least this long */
#define READ_FPDU_LEAST (8u * 1024u)
#define RX_FPDUS        512u /* FPDUs of one stream in one pass, about */
#define TX_SPARES       4u   /* memory of batches that the lane keeps */
#define TX_KEEPERS      8u   /* QPs that keep theirs between batches */
/* Other streams brought something so often: a stream that brought nothing is no longer polled. */
#define POLLED_UNTIL 256u
#define RTR_REPEATS  4u    /* of the ready-to-receive message, to a peer that stays silent */
#define PARTIAL_KEPT 4096u /* a larger reassembly buffer is freed when it is empty */

struct softrdma_options {
    bool fpdu_max;
    bool remote_invalidate; /* of regions */
    /* Accesses to the consumer's memory go by guard.c: the kernel makes them (option guard), or a
     * sanitizer is told (enum sanitizer_scope). */
    bool guard, by_kernel;
    uint8_t sanitizers;
    uint32_t polled, lanes;
    uint64_t close_timeout_ns;
    uint64_t rtr_timeout_ns, rtr_repeat_ns;
    uint64_t first_message_wait_ns; /* 0: without end */
    uint64_t stall_timeout_ns;      /* 0: none */
    uint64_t reassembly_limit;
    uint64_t ack_timeout_ns; /* 0: none */
    uint32_t tcp_user_timeout_ms;
    uint32_t keepalive_idle_s, keepalive_interval_s, keepalive_count;
    const char *congestion, *netdevs; /* the host's; netdevs: base/names.h */
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
    atomic_uint users;
    /* QPs that use its memory: its own QPs, and those of its SRQs. */
    atomic_uint streams;
    pthread_mutex_t windows_lock; /* the list; before the locks of entries */
    struct mw *windows;
};

struct memory_range {
    const uint8_t *memory;
    uint64_t length;
};

struct rnic;

/* Calls from objects up to the folders above; provider.c passes them in. */
struct rnic_ops {
    /* For a revoked STag. When it returns, no pass places by it any more, and no output of the
     * PD's QPs names the memory. An empty range: no output can name it. No lock held, not from
     * inside tx. */
    void (*leave_memory)(struct rnic *rnic, const struct pd *pd, struct memory_range range);
    /* The same for rights that an STag has lost, where local reads stay allowed: a message under
     * way that reads the memory goes on. */
    void (*leave_rights)(struct rnic *rnic, const struct pd *pd, struct memory_range range);
};

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct rnic_ops *ops;
    const struct ri_user_ops *user;
    struct ri_user_ops watched; /* of an RNIC whose accesses a sanitizer sees (watched.c) */
    struct ri_rnic_attr attr;
    struct softrdma_options options;
    struct stag_table stags;
    struct lane *lanes[LANES_MOST]; /* options.lanes of them */
    atomic_uint pds, cqs, qps, srqs, mws;
    atomic_uint next_qpn;
    /* Octets in all reassembly buffers. */
    atomic_ullong partial_octets;
    /* Memory of all stashes (rx/rx_stash.c). Any thread. */
    atomic_ullong stash_octets;
    /* The log has said that requests wait for a peer's first message. */
    atomic_bool holding_told;
    /* Errors of all peers. */
    atomic_ullong access_errors;
    /* Connections that ended because answers were behind too many Sends without a receive. */
    atomic_ullong stuck_ends;
};

/* Copy up to 64 octets, the common case, without a call. */
static inline void copy_short(uint8_t *to, const uint8_t *from, uint32_t octets)
{
    if (octets - 32 > 32) {
        memcpy(to, from, octets);
        return;
    }
    memcpy(to, from, 32);
    memcpy(to + octets - 32, from + octets - 32, 32);
}

/* Counters have one writer each, tx or rx: a plain addition that other threads may read. Written
 * as assembler because compilers take three instructions. */
static inline void count_up(atomic_ullong *counter, uint64_t by)
{
#if defined(ITAL_WITHOUT_COUNTERS) /* bench/instructions: what they cost */
    (void)counter, (void)by;
#elif defined(__x86_64__) && defined(__GNUC__)
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(by));
#else
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
#endif
}

/* The same if it is enough that the number changes: of two additions at once one may be lost. */
static inline void count_up_32(atomic_uint *counter)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __asm__("addl $1, %0" : "+m"(*counter));
#else
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
#endif
}

#endif
