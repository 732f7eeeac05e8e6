/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A test bed for the fuzz targets of softrdma: the real provider, up to two QPs, a host and a lower
 * layer in memory. One thread, no socket, no real time. An oracle checks these invariants:
 *   - memory changes only where a right, a posted receive or a posted Read allows it; everything
 *     else is a canary;
 *   - every accepted request completes exactly once, in order per queue, at most one of them with
 *     an error of its own;
 *   - a connection reports its end once; everything that a QP sends passes the checker (checker.h);
 *   - memory in use is bounded, and all of it is freed when the test bed closes.
 */
#ifndef ITAL_TESTS_FUZZ_TESTBED_H
#define ITAL_TESTS_FUZZ_TESTBED_H

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/checker.h"

#include "rnicpi_host.h"
#include "providers/software/iwarp/wire_iwarp.h"

#define TESTBED_QPS   2u
#define TESTBED_WIRES 6u /* connections of one test bed */
#define TESTBED_INPUT (192u * 1024u)
#define TESTBED_LATE  (64u * 1024u)
#define TESTBED_WORK  64u /* requests of one queue that the oracle follows */

enum testbed_region {
    REGION_LOCAL,      /* no remote right */
    REGION_WRITE,      /* remote write */
    REGION_READ,       /* remote read */
    REGION_BOTH,       /* remote read, write, atomic */
    REGION_ZERO,       /* the same, zero-based */
    REGION_OTHER,      /* the same, of another PD */
    REGION_FREED,      /* deregistered: its STag was valid once */
    REGION_BIND,       /* windows may be bound; no remote right of its own */
    REGION_LOCAL_READ, /* not even local write */
    TESTBED_REGIONS
};
#define TESTBED_WINDOWS 3u /* 0 narrow, 1 narrow, 2 wide */

struct region {
    struct ri_mr *mr;
    struct ri_mr_keys keys;
    uint8_t *memory;
    uint32_t length, access;
    uint64_t base; /* first TO */
    bool other;    /* in the other PD */
};

struct window {
    struct ri_mw *mw;
    uint32_t stag; /* as last bound, or as allocated */
    bool writable; /* was bound with a write right at some time: all of REGION_BIND may change */
};

/* Memory that a segment in flight may change, as the oracle understands it. */
struct permit {
    const struct fuzz_wire *wire;
    const uint8_t *memory, *from; /* from: the contents afterwards, if no one else writes there */
    uint32_t length;
};
#define TESTBED_PERMITS 64u

/* A Read Request in flight, or one that waits for its response. */
struct wanted {
    uint32_t sink_stag, size;
    uint64_t sink_to;
    bool allowed;
};
#define TESTBED_WANTED 256u

/* One connection, as its lower layer sees it. */
struct fuzz_wire {
    struct testbed *bed;
    bool used, closed, finished;
    uint8_t input[TESTBED_INPUT];
    size_t input_length, input_taken;
    bool fin, reset; /* from the peer, behind the input */
    uint64_t credit; /* octets that the socket takes */
    int send_error;  /* errno of the next send; 0 none */
    uint32_t emss;
    bool crc, markers; /* of what the peer sends */
    size_t late;       /* octets at the end of the next delivery that come with the one after it */
    size_t late_length;
    uint8_t late_octets[TESTBED_LATE];
    bool source_changed; /* of a request that the QP was sending: its sum may be wrong */
    uint64_t position;   /* of the peer's stream, for its markers */
    struct checker checker;
    /* The peer's protocol state. */
    uint32_t send_msn, request_msn, response_msn, send_offset;
    uint64_t tagged_to;
    bool send_open;
    unsigned int ended, established; /* number of events */
    /* The oracle knows every FPDU of the peer until the peer sends raw octets. */
    bool raw;
    struct wanted wanted[TESTBED_WANTED];
    uint32_t wanted_in, wanted_out;
};

struct work {
    uint64_t cookie;
    uint32_t length;
    uint16_t opcode;
    bool signaled;
    uint32_t num_sge;
    struct ri_sge sges[4];
};

struct work_queue {
    struct work work[TESTBED_WORK];
    uint32_t in, out;
    bool failed; /* one request has failed by itself on this connection */
};

struct live_qp {
    struct ri_qp *qp;
    struct fuzz_wire *wire; /* its connection, even after the end */
    struct work_queue sends, receives;
    bool started;
};

/* The start of a connection. */
struct testbed_start {
    bool initiator, crc, markers_transmit, markers_receive, rtr_await;
    uint8_t rtr; /* enum ri_rtr */
    uint32_t ird, ord;
    const void *preamble; /* last streaming message */
    size_t preamble_length;
    const void *read; /* octets that came with the start-up frame */
    size_t read_length;
    uint16_t refuse;
};

struct testbed_shape {
    bool srq, two;
    uint32_t cqe, depth, sge;
    uint32_t flags; /* enum ri_qp_flags */
    uint32_t emss;
    bool shared_cq;
    bool as_infiniband; /* Sends wait for receives, immediate data is fused: both ends agreed */
    bool large;         /* regions have room for FPDUs that are placed as they come */
};

struct testbed {
    struct ri_rnic_attr attr;
    struct testbed_shape shape;
    struct ri_pd *pd, *other_pd;
    struct ri_cq *send_cq, *recv_cq;
    struct ri_srq *srq;
    struct work_queue shared; /* receives of the SRQ, in any order */
    struct live_qp qps[TESTBED_QPS];
    struct fuzz_wire *wires; /* TESTBED_WIRES */
    uint32_t wire_count;
    struct region regions[TESTBED_REGIONS];
    struct window windows[TESTBED_WINDOWS];
    /* The last fast registration's STag, whose memory is in no region; 0: none. */
    uint32_t fast_stag;
    uint64_t next_cookie;
    unsigned int cq_events, cq_errors, srq_events;
    size_t memory_before;
    struct permit permits[TESTBED_PERMITS];
    uint32_t permit_count;
    bool revoked;    /* a QP ended because the memory of one of its requests was invalidated */
    uint64_t digest; /* of completions and events, for comparisons */
};

/* One test bed at a time. */
struct testbed *testbed_open(const struct testbed_shape *shape);
/* Ends all connections, polls all completions, destroys all objects; fails if something is left. */
void testbed_close(struct testbed *bed);

/* RI_OK, or the provider's refusal. */
enum ri_status testbed_start(struct testbed *bed, uint32_t which,
                             const struct testbed_start *start);
/* Runs the lane until it has no more work. */
void testbed_run(struct testbed *bed);
/* Delivers octets of the peer, behind those that are late, in parts of `piece` (0: all at once),
 * and runs the lane after each. */
void testbed_deliver(struct testbed *bed, struct fuzz_wire *wire, const uint8_t *octets,
                     size_t length, size_t piece);
/* What is late comes. */
void testbed_deliver_late(struct testbed *bed, struct fuzz_wire *wire);
/* Is something late on any wire? The permits of what came last hold until it comes. */
bool testbed_is_late(const struct testbed *bed);
/* The oracle checks memory. testbed_run does this too. */
void testbed_look(struct testbed *bed);
/* A digest of the contents of all regions. */
uint64_t testbed_memory_digest(const struct testbed *bed);
/* Polls all completions, or up to `count`. */
void testbed_poll(struct testbed *bed, uint32_t count);
/* Makes the timers expire. */
void testbed_expire(struct testbed *bed);
void testbed_modify(struct testbed *bed, uint32_t which, enum ri_qp_state state);
void testbed_destroy_qp(struct testbed *bed, uint32_t which);
bool testbed_create_qp(struct testbed *bed, uint32_t which);
enum ri_qp_state testbed_state(struct testbed *bed, uint32_t which);

/* Posts a request. The oracle follows accepted ones; a refusal is no error. */
bool testbed_post(struct testbed *bed, uint32_t which, struct ri_send_wr *wr);
void testbed_post_receive(struct testbed *bed, uint32_t which, const struct ri_sge *sges,
                          uint32_t count, uint32_t flags);
/* An element in a region, beyond its end if requested. */
struct ri_sge testbed_sge(const struct testbed *bed, uint32_t region, uint32_t offset,
                          uint32_t length);
void testbed_register(struct testbed *bed, enum testbed_region which);
void testbed_deregister(struct testbed *bed, enum testbed_region which);

/* The STag of a region or window; variant 0 is valid, the others are wrong in some way. */
uint32_t testbed_stag(const struct testbed *bed, uint8_t which, uint8_t variant);
uint64_t testbed_base(const struct testbed *bed, uint8_t which, uint32_t *length);

/* May a peer access this range by an STag of the test bed? *memory: its place, or NULL if the
 * oracle does not know it (windows). */
bool testbed_allows(const struct testbed *bed, uint32_t stag, uint64_t to, uint64_t length,
                    uint32_t access, uint8_t **memory);
void testbed_permit(const struct fuzz_wire *wire, const uint8_t *memory, const uint8_t *from,
                    uint32_t length);

#endif
