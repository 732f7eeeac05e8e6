/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire iwarp: its parts of an RNIC, a lane and a QP, one structure for each lock. The engines
 * are tx/ and rx/.
 */
#ifndef ITAL_SOFTWARE_IWARP_H
#define ITAL_SOFTWARE_IWARP_H

#include "providers/software/core/core.h"
#include "providers/software/core/post.h"

#define POLLED_MAX      16u
#define RX_RING_OCTETS  (640u * 1024u)  /* a read behind an incomplete FPDU */
#define TX_BATCH_OCTETS (1024u * 1024u) /* aimed at in one system call that is not one segment */
/* beyond that, so that the end of a message needs no call of its own */
#define TX_BATCH_TAIL    (128u * 1024u)
#define TX_IOV           1024u           /* UIO_MAXIOV */
#define TX_ARENA_OCTETS  (64u * 1024u)   /* headers, trailers, small payload of one batch */
#define TX_BOUNCE_OCTETS (1024u * 1024u) /* Read Response payload of one batch */
#define TX_COPY_OCTETS   POST_SHORT      /* payload up to here is copied next to its header */
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
#define READS_MANY       128u
#define SMALL_READ       (READS_AHEAD / READS_MANY)
#define TX_RETRY_NS      20000u  /* a full socket is retried after that time ... */
#define TX_RETRY_MOST_NS 160000u /* ... up to that, while it takes nothing */
/* Long batches, or their time, that one thread writes; the others are left to the lane. */
#define TX_ROUNDS     4u
#define TX_WRITE_COST (64u * 1024u)   /* octets whose write costs as much as the call, at least */
#define MULPDU_OCTETS (1024u * 1024u) /* output between two reads of the EMSS ... */
/* ... while it grows with the peer's window, in the first MULPDU_OCTETS */
#define EARLY_OCTETS (64u * 1024u)
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

struct iwarp_options {
    bool fpdu_max;
    uint32_t polled;
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

struct iovec;
struct stream;
struct tx_memory;

/* --- coalesced posts --- */

/* tx/tx_coalesce.c. Under sq.posting. */
struct iwarp_coalesce {
    union {
        struct {
            /* Posted requests wait to leave together. */
            bool active;
            /* The last post carried RI_WR_COALESCE. */
            bool asked;
            /* Much had accumulated when they left last. */
            bool streams;
            /* The stash is full: a request that is answered may let it grow (rx/rx_stash.c), so
             * none takes the path of the single post. Written under rx, too. */
            bool watched;
        };
        /* 0: none of these. */
        uint32_t any;
    };
    /* lane->coalesce.polls when a post left at once. */
    uint32_t sent_at;
    /* Waiting requests: octets of short ones with headers; list entries and octets of the
     * others. */
    uint32_t small, entries;
    uint64_t large;
    /* Octets since it began. */
    uint64_t streak;
    /* Large posts that left alone in a row, how many may, and batches that filled since: see
     * wakes_for_little(). */
    uint32_t alone, alone_most, filled;
};

/* --- transmit --- */

/* FPDUs on their way to the socket in one write. Inside tx. */
struct tx_batch {
    /* Borrowed (tx/tx_memory.c). NULL: so are iov, arena and bounce. */
    struct tx_memory *memory;
    /* TX_IOV of them; `count` are filled, `first` is the next to send. */
    struct iovec *iov;
    uint32_t count, first;
    /* Not yet sent. */
    size_t octets;
    uint8_t *arena;
    uint32_t arena_used;
    /* See batch_bound(). */
    uint32_t count_most, arena_most;
    /* Nothing is added beyond so many octets; the same while a message is under way. */
    uint32_t full, full_begun;
    /* The batch is whole TCP segments of so many octets, of FPDUs of that size. 0: it is not. */
    uint32_t segment, fpdu_size;
    /* Payload of Read Responses. NULL: not needed yet. */
    uint8_t *bounce;
    uint32_t bounce_used;
    /* Option guard: payload of the next FPDU, in the bounce buffer. */
    uint8_t *fetched;
    /* Octets of this batch that are in none of the buffers above; freed with it. */
    uint8_t *own;
};

/* Written inside tx, except for the atomic members. */
struct iwarp_tx {
    struct tx_batch batch;
    /* Elements of sends; memory that answers read and write. */
    struct stag_hint local_hint, answer_hint;
    /* Stream position of the first FPDU: markers count from there. */
    uint64_t full_operation;
    uint32_t mulpdu;
    /* FPDUs that fill a TCP segment: their octets, how many. 0: writes do not follow segments. */
    uint32_t fpdu_size, fpdus;
    /* Shorter payload of one element is built by tx_short.c. */
    uint32_t short_below;
    /* The same for tx_single.c; 0 while the start-up is not over, and when output has ended. */
    uint32_t single_below;
    uint32_t send_msn, read_msn, atomic_msn;
    /* RI_QPM_ACKNOWLEDGED: requests built since the last one that the peer answers. */
    uint32_t unasked;
    /* The interval between attempts to send, while the socket is full. */
    uint32_t retry_ns;
    /* Octets built, octets accepted by the socket; the position at which the EMSS is read again. */
    uint64_t position, accepted, learn_at;
    /* The socket was full: the time of the next attempt. */
    atomic_ullong retry_at;
    /* The request at sq.next, if it is begun: octets built, and the position of the next ones. */
    uint64_t message_offset;
    bool message_begun;
    /* Its Write is built, its Immediate Data is not. */
    bool immediate_due;
    /* Of the Read at ird_out some octets are built, but not all. */
    bool response_begun;
    /* The batch names the source of a Read Response, of which the octets are fetched when the
     * socket takes them. Set before ird_out passes the Read; rx reads it. */
    atomic_bool names_source;
    /* tx_fetch.c: sources are copied, none is named; some were kept in memory of their own in this
     * connection; octets of those that are; input waits until more is fetched. */
    bool fetching, keeps;
    uint32_t kept;
    bool input_waits;
    /* Unanswered Reads may have more than READS_AHEAD octets: what follows is checked
     * (tx_is_far_ahead). */
    bool long_reads;
    /* In the next batch: the responses had their turn. */
    bool requests_first;
    /* It is alone (is_single); messages received before the last one that was. */
    bool single;
    uint64_t heard;
    /* Its last two writes are halves, and the first is begun. */
    bool split;
    /* The batch's limits are those of one message: they must be set again. */
    bool resize_batch;
    /* Memory of the message under way was deregistered. */
    bool source_gone;
    uint32_t cursor_sge, cursor_offset;
    /* enum ri_rtr */
    uint8_t rtr_to_send;
    /* The batch keeps its memory when it is empty. Written under the lane's lock. */
    atomic_bool keeps_memory;
    /* errno of a refused send. The end is reported after the octets that can still be read. */
    atomic_int error;
    struct own_requests own;
};

/* --- requests that are answered --- */

/* A request of this side that the peer has to answer: a Read, or an atomic (8 octets). */
struct outstanding_read {
    /* Index of its request. With ack: of the first request behind it. */
    uint32_t index;
    /* No request waits for it: it is the ready-to-receive message, or asks for an acknowledgement
     * of the requests before it (ack). */
    bool own, ack;
    /* Its Request Identifier is its MSN. */
    bool atomic;
    /* All octets have come, the last segment without L (C-100). */
    bool full;
    bool invalidates;
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size, received;
    /* MSN of its request. */
    uint32_t msn;
};

/* A request of the peer that waits for its answer. Atomics: size 0, executed when the answer is
 * built. */
struct inbound_read {
    /* Atomics: the Request Identifier. */
    uint32_t sink_stag;
    uint32_t source_stag;
    uint64_t sink_to, source_to;
    uint32_t size, sent;
    uint32_t msn;
    /* The request's first octets as received, ignored bits included: a Terminate returns them. */
    uint8_t header[6];
    bool atomic;
    /* The atomic is executed: `data` is the value that it found. One octet with the operation: an
     * endpoint has a ring of these. */
    bool executed : 1;
    /* enum rdmap_atomic_op */
    uint8_t atomic_op : 7;
    /* See kept. */
    uint32_t kept_from;
    uint64_t data, mask, compare, compare_mask;
    /* Its octets from kept_from on, copied early (tx_fetch.c). NULL: they are in the source. Inside
     * tx. */
    uint8_t *kept;
};

/* Two rings between tx and rx, without a lock. ORD: tx writes `in`, rx `out`. IRD: the other way
 * round. With RI_QPM_ACKNOWLEDGED each has a place more than the consumers have agreed on. */
struct iwarp_reads {
    struct outstanding_read *ord_ring;
    atomic_uint ord_in, ord_out;
    struct inbound_read *ird_ring;
    atomic_uint ird_in, ird_out;
    /* Sizes of the rings, powers of two. */
    uint32_t ord_size, ird_size;
    /* RI_QPM_ACKNOWLEDGED: requests of the sq before this index have their outcome; the MSN of the
     * next one that takes a receive of the peer. Under rx. */
    uint32_t acked, acked_msn;
    /* A request for an acknowledgement is unanswered. tx sets it, rx clears it. */
    atomic_bool ack_asked;
};

/* --- receive --- */

/* Under stream->rx. */
struct iwarp_rx {
    /* STags that the peer names; elements of receives. */
    struct stag_hint remote_hint, local_hint;
    /* Elements of the receive under way. */
    const struct ri_sge *message_sges;
    /* Markers: position of the first octet that is not parsed, counted from Full Operation. */
    uint32_t position;
    uint32_t expect_send_msn, expect_read_msn, expect_atomic_msn;
    /* A Send is being received into the request at rq.next: values of its first segment, and
     * octets so far. */
    union {
        struct {
            bool message_open;
            /* The source of a Read, or the target of an atomic, may not have been fetched yet:
             * Sends and Writes wait for it (rx/rx_behind.c). */
            bool unfetched;
        };
        uint16_t any; /* 0: neither */
    };
    uint8_t message_opcode;
    uint32_t message_stag;
    uint32_t message_received;
    /* Octets of the RDMA Write under way, and of the last one, until Immediate Data tells its
     * length. */
    uint64_t write_octets, write_length;
    /* The peer's ready-to-receive message is to come. */
    bool rtr_await;
    /* FPDUs may go the fast path (rx/rx_fast.c). */
    bool fast;
    /* Sends wait in the stash: those that arrive go behind them. Written under rx. */
    atomic_bool behind_stash;
};

/* --- its parts --- */

/* What the start-up agreed on. Set before the QP is RTS. */
struct iwarp_framing {
    bool crc;
    /* The peer asked for markers. */
    bool markers_transmit;
    /* We asked for markers. */
    bool markers_receive;
};

/* A QP, with the core's part. */
struct iwarp_qp {
    struct qp core;

    /* From hand-over to reset or destroy, also when the stream is CLOSED. Written inside tx. */
    struct stream *stream;
    struct iwarp_coalesce coalesce;
    struct iwarp_framing framing;
    /* It keeps no memory of a batch any more. Under lane->lock. */
    bool keeps_none;
    struct iwarp_tx tx;
    struct iwarp_reads reads;
    struct iwarp_rx rx;
};

static inline struct iwarp_qp *iwarp_qp(struct qp *qp)
{
    return container_of(qp, struct iwarp_qp, core);
}

/* The peer may send octets that no request of the consumer waits for: its first message, or the
 * answer to a ready-to-receive message or to the request for an acknowledgement. */
static inline bool iwarp_may_hear(struct iwarp_qp *qp)
{
    uint32_t out = atomic_load(&qp->reads.ord_out);

    return atomic_load(&qp->core.tx.holding) || atomic_load(&qp->reads.ack_asked) ||
           (out != atomic_load(&qp->reads.ord_in) &&
            qp->reads.ord_ring[out & (qp->reads.ord_size - 1)].own);
}

/* Of the thread that runs the pass. */
struct iwarp_pass {
    /* Its copy of the streams that are served without asking epoll, and the version of that
     * copy. */
    struct stream *served[POLLED_MAX];
    uint32_t served_count, served_version, served_first, served_streams;
    /* Times that one of several polled streams brought something. */
    uint32_t heard;
    /* The receive buffer. */
    uint8_t *ring;
};

/* A lane, with the core's part. Under its lock, unless it says otherwise. */
struct iwarp_lane {
    struct lane core;
    /* All streams, those to be served. */
    struct stream *streams, *ready;
    uint32_t stream_count, closing_count;
    /* Those that were active last. */
    struct stream *polled[POLLED_MAX];
    uint32_t polled_count, polled_clock;
    /* The stream that was ready last. */
    struct stream *latest;
    /* Freed in a later pass, when no thread can hold them. */
    struct stream *freed_streams;
    /* QPs that keep the memory of a batch (tx/tx_memory.c). */
    struct iwarp_qp *keepers[TX_KEEPERS];
    uint32_t keeper_clock;
    struct iwarp_pass pass;
    /* Unused memory of batches. Any thread. */
    _Atomic(struct tx_memory *) spares[TX_SPARES];
};

static inline struct iwarp_lane *iwarp_lane(const struct lane *lane)
{
    return container_of(lane, struct iwarp_lane, core);
}

/* Of an RNIC. Any thread. */
struct iwarp_rnic {
    struct iwarp_options options;
    /* Octets in all reassembly buffers. */
    atomic_ullong partial_octets;
    /* Memory of all stashes (rx/rx_stash.c). */
    atomic_ullong stash_octets;
    /* The log has said that requests wait for a peer's first message. */
    atomic_bool holding_reported;
    /* Connections that ended because answers were behind too many Sends without a receive. */
    atomic_ullong stuck_ends;
};

static inline struct iwarp_rnic *iwarp_rnic(const struct rnic *rnic)
{
    return rnic->parts[WIRE_NETWORK];
}

#endif
