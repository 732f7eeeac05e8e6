/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test bed of the loop tests: an RNIC with up to two QPs, each with a PD and CQs of its own,
 * and a raw peer that composes and parses FPDUs at the other end of a TCP connection. All helpers
 * fail the test on an error.
 */
#ifndef ITAL_TESTS_TESTBED_H
#define ITAL_TESTS_TESTBED_H

#include "tc.h"

#include "fake_host.h"

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/rdmap.h"

#include "rnicpi_util.h"

#define TESTBED_ALL \
    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)
#define TESTBED_TIMEOUT 20000 /* ms; ends a test that fails */

#define OK(call)                                                                      \
    do {                                                                              \
        enum ri_status ok_status_ = (call);                                           \
        ck_assert_msg(ok_status_ == RI_OK, #call ": %s", ri_status_name(ok_status_)); \
    } while (0)

struct testbed;
struct iwarp_qp;

struct side {
    struct testbed *bed;
    struct ri_pd *pd;
    bool borrowed; /* the PD belongs to another side, which closes later */
    struct ri_cq *send_cq, *recv_cq;
    struct ri_qp *qp;
    struct fake_record events, send_events, recv_events;
};

struct testbed {
    struct fake_host fake;
    struct side side[2];
    uint32_t placed;              /* number of QPs: they are assigned to the lanes in turn */
    pthread_t lane;               /* of testbed_lane_start */
    pthread_t others[FAKE_LANES]; /* likewise */
    atomic_bool lane_stops;
    /* region_new() takes memory that peers can map; of itself if ITAL_TEST_LOCAL_ACCESS is
     * mapped. */
    bool shares;
};

struct region {
    struct ri_mr *mr;
    struct ri_mr_keys keys;
    uint8_t *octets;
    uint64_t length;
    bool is_shared;
};

/* Sizes of a QP. Zero fields have defaults: 64 requests, 8 elements, 256 entries, IRD and ORD 8,
 * everything enabled but atomics. */
struct shape {
    uint32_t depth, sge, read_sge, cqe, ird, ord;
    bool no_write, no_read, atomics;
    uint32_t flags;     /* more of enum ri_qp_flags */
    struct ri_pd *pd;   /* another side's, instead of one of its own */
    struct ri_srq *srq; /* instead of a receive queue */
    uint32_t rq_limit, rq_hard_limit;
};

void testbed_open(struct testbed *bed, const char *const *options);
void testbed_close(struct testbed *bed); /* in order; both sides are closed first */
/* Starts a thread that runs the lane and sleeps whenever the lane allows it: a lost wake-up hangs
 * the test. With several lanes, further threads run the others without a pause. */
void testbed_lane_start(struct testbed *bed);
void testbed_lane_stop(struct testbed *bed);
/* Runs `count` passes by hand; each reads what has come. By SETTLED ones all that is in flight on
 * loopback has been processed. */
#define SETTLED 20
void testbed_passes(struct testbed *bed, int count);
void side_open(struct testbed *bed, struct side *side, const struct shape *shape);
void side_close(struct side *side);
struct iwarp_qp *qp_of(const struct side *side);

/* Hands the connection over. handover may be NULL (MPA 2, CRC, IRD and ORD 8); its fd and role are
 * filled in. */
void side_start(struct side *side, int fd, bool initiator, const struct ri_llp_handover *handover);
/* Two sides that are open are connected, by shared memory with option local (ITAL_TEST_LOCAL). */
void sides_connect(struct side *initiator, struct side *responder,
                   const struct ri_llp_handover *handover);
/* A connected TCP pair; with maxseg 0 TCP_MAXSEG is not set. */
void testbed_tcp(int fds[2], int maxseg);
/* Both sides opened and connected, side 0 as initiator. */
void testbed_connect(struct testbed *bed, const struct shape *shape,
                     const struct ri_llp_handover *handover);

/* Lives until region_free, or until the side is closed. */
struct region region_new(struct side *side, uint64_t length, uint32_t access);
void region_free(struct side *side, struct region *region);
/* Each octet differs from its neighbours and from those some way off. The contents are the same for
 * each region. */
void region_fill(struct region *region);
/* For testbed.c: frees all of a side; a region that a test deregisters by itself is known. */
void regions_free(struct side *side);
void regions_watch(struct testbed *bed);
struct ri_sge region_sge(const struct region *region, uint64_t offset, uint32_t length);

enum ri_status side_post(struct side *side, enum ri_wr_opcode opcode, uint64_t cookie,
                         uint16_t flags, const struct ri_sge *sges, uint32_t count, uint64_t remote,
                         uint32_t rkey);
void side_send(struct side *side, uint64_t cookie, struct ri_sge sge);
void side_write(struct side *side, uint64_t cookie, struct ri_sge sge, uint64_t remote,
                uint32_t rkey);
void side_read(struct side *side, uint64_t cookie, struct ri_sge sge, uint64_t remote,
               uint32_t rkey);
enum ri_status side_post_receive(struct side *side, uint64_t cookie, const struct ri_sge *sges,
                                 uint32_t count);
void side_receive(struct side *side, uint64_t cookie, struct ri_sge sge);
void side_modify(struct side *side, enum ri_qp_state state);
struct ri_qp_info side_query(struct side *side);

/* Waits for the next completion. */
struct ri_wc side_next(struct side *side, struct ri_cq *cq);
void side_expect(struct side *side, struct ri_cq *cq, uint64_t cookie, enum ri_wc_status status,
                 uint32_t octets);
bool side_idle(struct side *side, struct ri_cq *cq); /* no completion, after a few passes */
/* Waits for an event of this type and code, which must be the only one so far. */
void side_expect_event(struct side *side, enum ri_event_type type, uint16_t code);

/* ---- the raw peer ---- */

struct raw {
    struct testbed *bed;
    int fd;
    bool crc, ended, reset;
    uint8_t *octets; /* received: `taken` by raw_next(), and `used` behind them not yet */
    size_t taken, used, room;
    uint32_t last_fpdu; /* octets of the FPDU that raw_next took last, CRC included */
};

/* The side gets one end, with the given role, and the raw peer the other. */
void raw_open(struct raw *raw, struct testbed *bed, struct side *side, bool side_initiates,
              const struct ri_llp_handover *handover);
void raw_open_segments(struct raw *raw, struct testbed *bed, struct side *side, bool side_initiates,
                       const struct ri_llp_handover *handover, int maxseg);
/* Opens the side first. It is a responder that has received the peer's first FPDU and may send. */
void raw_open_speaking(struct raw *raw, struct testbed *bed, struct side *side,
                       const struct shape *shape, const struct ri_llp_handover *handover);
void raw_close(struct raw *raw);
void raw_send(struct raw *raw, const void *ulpdu, uint32_t length);
/* Sends octets that need not be an FPDU. */
void raw_octets(struct raw *raw, const void *octets, size_t length);
/* Sends an untagged or tagged segment. */
void raw_untagged(struct raw *raw, uint8_t opcode, bool last, uint32_t qn, uint32_t msn,
                  uint32_t mo, const void *payload, uint32_t length);
void raw_tagged(struct raw *raw, uint8_t opcode, bool last, uint32_t stag, uint64_t to,
                const void *payload, uint32_t length);
void raw_read(struct raw *raw, uint32_t msn, const struct rdmap_read_req *request);
/* Waits for the next ULPDU, checks its CRC and returns its length; 0 at the end of the stream. */
uint32_t raw_next(struct raw *raw, uint8_t *ulpdu, uint32_t room);
/* The next FPDU is a Terminate of this value. */
void raw_expect_terminate(struct raw *raw, uint16_t value);
bool raw_silent(struct raw *raw);   /* nothing comes, after a few passes */
void raw_wait_end(struct raw *raw); /* reads and drops everything up to FIN or RST */

#endif
