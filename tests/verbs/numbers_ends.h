/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two QPs of one process that know each other's number and GID: fixtures and steps of the tests of
 * connections by numbers. The QP with the larger number initiates.
 */
#ifndef TESTS_VERBS_NUMBERS_ENDS_H
#define TESTS_VERBS_NUMBERS_ENDS_H

#include "tc.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define DEPTH    8u
#define OCTETS   64u
#define DEADLINE 30000u /* ms, of one wait */

extern struct ibv_context *device_context;
extern struct ibv_pd *protection_domain;
extern union ibv_gid gid;
extern uint16_t dlid; /* of try_rtr */

struct end {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char memory[2 * DEPTH * OCTETS]; /* receives, then sends */
};

extern struct end two[2];
extern struct end *small, *large; /* by number */

/* Context, pd and gid of the first device; skips the test without one. */
void open_context(void);
void close_context(void);
/* One end of device_context. */
void open_end(struct end *end);
void close_end(struct end *end);
/* States of one QP. `peer`: the number that it names as its peer. */
void to_init(struct end *end);
/* Returns what ibv_modify_qp says. `global`: by GID, else by `dlid`. */
int try_rtr(struct end *end, uint32_t peer, bool global);
void to_rtr(struct end *end, uint32_t peer);
void to_rts(struct end *end);
void to_state(struct end *end, enum ibv_qp_state state);
/* From RESET to RTS. */
void connect_to(struct end *end, uint32_t peer);
/* Receives have cookie 100 + index, Sends have index and carry octets of value index + 1. */
void post_recv(struct end *end, unsigned int index);
int try_send(struct end *end, unsigned int index, unsigned int flags);
void post_send(struct end *end, unsigned int index);
/* Each waits at most DEADLINE. expect: cookie and status of the next one. */
struct ibv_wc next_completion(struct end *end);
void expect(struct end *end, uint64_t cookie, enum ibv_wc_status status);
/* Receive `index` took the Send `number`. */
void expect_message(struct end *end, unsigned int index, unsigned int number);
/* Fixtures. */
void open_ends(void);
void close_ends(void);
/* 0: the smaller number is this end. */
struct end *this_end(int i);
struct end *other_end(int i);
void connect_both(void);
/* One message, looked at on both sides. */
void exchange(struct end *from, struct end *to);
/* Until the QP is in ERR. */
void await_end(struct end *end);

#endif
