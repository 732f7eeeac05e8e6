/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of one half share: QP a over the simulated link, with no QP at the other end. The
 * test composes what the peer says, and reads what a sends. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_ROCE_ONE_END_H
#define ITAL_TESTS_ROCE_ONE_END_H

#include "tc.h"

#include "sim.h"

#define MTU      256u
#define OWN_PSN  0xFFFFFEu /* the first that a sends: it wraps early */
#define PEER_PSN 0xFFFFFDu /* the first that a expects */
#define PSN(n)   bth_psn_add(OWN_PSN, (n))
#define PEER(n)  bth_psn_add(PEER_PSN, (n))

#define ALL_RIGHTS                                                          \
    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ | \
     RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC)
#define REGION 65536u

extern struct sim sim;
extern struct sim_region region;
extern struct rc_attr attr; /* as the fixture will connect with */

/* Fixtures: the QP is open and not connected; connected; closed. */
void one_open(void);
void one_open_connected(void);
void one_connect(void);
void one_close(void);
TCase *one_case(Suite *suite, const char *name); /* connected */

/* Posts; cookies are 1, 2, .. in order. */
void post_send(uint32_t length);
void post_write(uint32_t length);
void post_read(uint32_t length); /* into the beginning of the region */
void post_flags(enum ri_wr_opcode opcode, uint32_t length, uint16_t flags);
void post_atomic(void);
void post_receive(uint64_t cookie, uint32_t offset, uint32_t length);

/* What was sent since the last call of any of these: the next packet. */
struct sim_sent next_sent(void);
void expect_packet(uint8_t opcode, uint32_t psn);
void expect_silence(void);
void skip_sent(void); /* what was sent is of no interest */
uint32_t count_sent(void);

/* Answers of the peer, as requester of a hears them. */
void answer_ack(uint32_t psn);
void answer(uint32_t psn, uint8_t syndrome);
void answer_read(uint8_t opcode, uint32_t psn, const void *octets, uint32_t length);
void answer_atomic(uint32_t psn, uint64_t original);

/* Requests of the peer. Payload is `length` octets that count up from `first`. */
struct bth_packet request(uint8_t opcode, uint32_t psn, uint32_t length);
void ask(struct bth_packet packet);
/* The same with AckReq. */
void ask_ack(struct bth_packet packet);
struct bth_packet write_request(uint8_t opcode, uint32_t psn, uint32_t length, uint32_t offset,
                                uint32_t dma_length);
struct bth_packet read_request(uint32_t psn, uint32_t offset, uint32_t dma_length);
struct bth_packet atomic_request(uint32_t psn, uint32_t offset, uint64_t add);
/* The next packet of a is an acknowledgement. */
void expect_answer(uint32_t psn, uint8_t syndrome, uint32_t msn);
extern uint8_t pattern[4096];

struct ri_wc next_wc(struct ri_cq *cq);
void expect_wc(struct ri_cq *cq, uint64_t cookie, enum ri_wc_status status);
void expect_no_wc(struct ri_cq *cq);
#define SENDS    (sim.end[0].send_cq)
#define RECEIVES (sim.end[0].recv_cq)
enum ri_qp_state state(void);
/* Lets time pass. */
void pass_time(uint64_t ns);

#endif
