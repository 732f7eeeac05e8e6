/* SPDX-License-Identifier: BSD-3-Clause
 * Two queue pairs of one context that are connected over loopback, and their memory. */
#ifndef ITAL_TESTS_VERBS_PAIR_H
#define ITAL_TESTS_VERBS_PAIR_H

#include "verbs/verbs_objects.h"

#include "tc.h"

#define PAIR_OCTETS 65536u /* of each side */
#define PAIR_DEPTH  64u
#define PAIR_MS     20000u /* time limit for what must come */

struct pair_side {
    struct ibv_cq *cq; /* of both queues */
    struct ibv_qp *qp;
    struct ibv_qp_ex *qp_ex; /* with `extended` */
    struct ibv_srq *srq;     /* with `shared` */
    struct ibv_mr *mr;       /* all rights, over `memory` */
    uint8_t *memory;
    struct ual_conn *conn;
    atomic_bool established;
    atomic_int ended; /* enum ri_event_type of the QP, 0 none yet */
};

struct pair {
    bool shared, extended;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct pair_side side[2];
};

extern struct pair pair; /* the one of a program; its QPs are 1 and 2 */
static struct pair_side *const a = &pair.side[0], *const b = &pair.side[1];

/* A call that must return no object, and errno. */
#define refused(call, number)              \
    do {                                   \
        errno = 0;                         \
        ck_assert_ptr_null(call);          \
        ck_assert_int_eq(errno, (number)); \
    } while (0)

struct ibv_context *pair_open_context(void);
/* The next asynchronous event of a context, which must come. The caller acknowledges it. */
struct ibv_async_event pair_async_event(struct ibv_context *context);
/* shared: one shared receive queue for each side; extended: queue pairs for ibv_wr_. */
void pair_open(bool shared, bool extended);
void pair_connect(void);
/* A fixture with pair_close: opens the plain one, and connects it. */
void pair_set_up(void);
/* Two new queue pairs in the place of the old ones, connected. Everything else stays. */
void pair_renew(void);
/* All but the context. */
void pair_destroy(void);
void pair_close(void);

/* Polls until a completion is there. */
struct ibv_wc pair_completion(struct ibv_cq *cq);
void pair_post_receive(struct pair_side *side, uint64_t wr_id, uint32_t offset, uint32_t length);
/* A signaled request for `length` octets from `offset`; the test adds the other members. */
struct ibv_send_wr pair_request(struct pair_side *side, enum ibv_wr_opcode opcode,
                                struct ibv_sge *sge, uint32_t offset, uint32_t length);
/* Posts it and takes its completion, which must be a success. */
void pair_do(struct pair_side *side, struct ibv_send_wr *wr);

#endif
