/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of the transmit and the receive engine in a QP (qp.h), one structure for each lock. The
 * engines are tx/ and rx/.
 */
#ifndef ITAL_SOFTRDMA_QP_ENGINES_H
#define ITAL_SOFTRDMA_QP_ENGINES_H

#include "stag.h"

#include "rnicpi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct iovec;
struct stag_entry;
struct tx_memory;

/* --- coalesced posts --- */

/* tx/tx_coalesce.c. Under sq.posting. */
struct qp_coalesce {
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
    /* lane->looks when a post left at once. */
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

/* Written inside tx (tx/tx.c), except for the atomic members. */
struct qp_tx {
    /* Threads that are inside tx or want to be. 0: none. */
    atomic_uint requests;
    struct tx_batch batch;
    /* The batch keeps its memory when it is empty. Written under the lane's lock. */
    atomic_bool keeps_memory;
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
    /* All requests before it are in the socket, and tx no longer reads their slots. */
    atomic_uint sq_sent;
    /* RI_QPM_ACKNOWLEDGED: requests built since the last one that the peer answers. */
    uint32_t unasked;
    /* Octets built, octets accepted by the socket; the position at which the EMSS is read again. */
    uint64_t position, accepted, learn_at;
    /* The socket was full: the time of the next attempt, and the interval. */
    atomic_ullong retry_at;
    uint32_t retry_ns;
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
    /* The local request at sq.next has revoked its STag. */
    bool local_revoked;
    /* enum ri_rtr */
    uint8_t rtr_to_send;
    /* Output has ended, and tx no longer uses the consumer's memory. */
    atomic_bool stopped;
    /* Responder: set until one valid FPDU has come (RFC 5044 7.1.2). rx clears it. */
    atomic_bool holding;
    /* errno of a refused send. The end is reported after the octets that can still be read. */
    atomic_int error;
    /* The entry that the local request at sq.next waits for: the lane makes it quiet
     * (tx_local.c). */
    _Atomic(struct stag_entry *) unquiet;
    /* A thread has found work for tx. Any thread. */
    atomic_bool wanted;
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
struct qp_reads {
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
struct qp_rx {
    /* STags that the peer names; elements of receives. */
    struct stag_hint remote_hint, local_hint;
    /* Elements of the receive under way. */
    const struct ri_sge *message_sges;
    /* MAX_SGE of them with an SRQ: the elements of the request that was taken from it. */
    struct ri_sge *srq_sges;
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

#endif
