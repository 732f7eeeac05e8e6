/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bed.h - what most checks begin with: a host with one thread, an open RNIC, nodes (a QP with its
 * CQs and memory), connected pairs. One of each per process. Whatever fails here fails the check.
 */
#ifndef ITAL_TOOLS_RICHECK_BED_H
#define ITAL_TOOLS_RICHECK_BED_H

#include <stdatomic.h>
#include <sys/socket.h>

#include "fake_lane.h"
#include "richeck.h"

#define LANES  16u
#define EVENTS 16u

/* ---- the host and its RNIC ---- */

struct bed {
    const struct ri_provider *provider;
    struct ri_host host;
    struct host_options *options;
    struct fake_lane lane;            /* descriptors and timers of all lanes */
    struct ri_privileged_ops control; /* calls.h */
    struct ri_user_ops data;
    /* The completed tables, as the provider gets them. */
    struct ri_privileged_ops lent_control;
    struct ri_user_ops lent_data;
    struct ri_rnic *rnic;
    struct ri_rnic_attr attr;
    struct ri_lane *lanes[LANES];
    uint32_t lane_count;
    struct ri_pd *pd;
    bool set_a;
    bool by_numbers;        /* there are no connection verbs: pairs are connected by numbers */
    struct node *accepting; /* set A: takes the next connection_request, if there is no hook */
    atomic_int pins;        /* ri_host.pin less unpin */
    /* Upcalls in a thread that is not the host's. */
    atomic_uint foreign_upcalls;
};
extern struct bed bed;

/* The provider's descriptor, checked; and the host's own tables. No RNIC. */
void bed_load(void);
/* And an open RNIC with its lanes and a PD. */
void bed_open(void);
/* One open and close more, for checks of that; `device` as in ri_open. */
enum ri_status bed_open_device(const char *device, struct ri_rnic **rnic);
void bed_lanes(void);
/* How pairs are connected, by bed.attr. */
void bed_choose_connection(void);
/* Skips the check unless the provider has all of these features. */
void bed_need(uint64_t features, const char *what);
/* Marks this thread as one of the host's. */
void bed_own_thread(void);

/* One run: descriptors and timers, waiting for them up to wait_ms, then a pass over each lane.
 * True: the lanes are armed and nothing was done, so that the next run may wait. */
bool bed_run(int wait_ms);

/* Runs the lanes, and sleeps as a host does, until the condition holds or ms have passed; its last
 * value. */
#define UNTIL(condition, ms)                                             \
    ({                                                                   \
        uint64_t until_end_ = bed_deadline(ms);                          \
        bool until_held_, until_idle_ = false;                           \
        while (!(until_held_ = (condition)) && !bed_expired(until_end_)) \
            until_idle_ = bed_run(until_idle_ ? 20 : 0);                 \
        until_held_;                                                     \
    })
uint64_t bed_deadline(unsigned int ms); /* stretched by TEST_TIMEOUT_SCALE */
bool bed_expired(uint64_t deadline);

/* ---- nodes ---- */

struct node;

/* Upcalls about one CQ; the CQ's context. */
struct cq_seen {
    atomic_uint fired, errors;
    void (*hook)(struct cq_seen *seen); /* may be NULL */
    struct node *node;
};

struct node_want {
    uint32_t depth;    /* of both queues; 0: 32 */
    uint32_t cq_depth; /* 0: room for both */
    uint32_t sges;     /* 0: 1 */
    uint32_t ird, ord; /* 0: 4 or the RNIC's; NO_DEPTH: none */
    uint32_t inline_octets;
    struct ri_srq *srq;
    uint32_t flags; /* of the QP, besides READ_, WRITE_ and ATOMIC_ENABLE */
};
#define NO_DEPTH UINT32_MAX

#define MEMORY (1u << 20) /* octets of a node */

struct node {
    struct ri_cq *send_cq, *recv_cq;
    struct cq_seen send_seen, recv_seen;
    struct ri_qp *qp; /* its context is the node */
    struct ri_qp_attr attr;
    uint8_t *memory;
    struct ri_mr *mr; /* all of the memory, all rights that the RNIC has */
    struct ri_mr_keys keys;
    /* Upcalls about the QP: all events, those of the ended group, ESTABLISHED. */
    atomic_uint events, ended, established;
    enum ri_event_type type[EVENTS];
    bool explained[EVENTS];
    /* Set A: events that tell the cause of an end, and those of them that came behind it. */
    atomic_uint causes, late;
    atomic_uint srq_limits;
    void (*hook)(struct node *node, const struct ri_event *event); /* may be NULL */
    /* Set A. */
    struct ri_connection *connection;
    atomic_uint connected, disconnected, failed;
    struct {
        enum ri_connection_event_type type;
        uint16_t length; /* of private data */
        uint8_t data[RI_MAX_PRIVATE_DATA];
        uint16_t ird, ord;
        bool depths_valid;
        struct ri_connection_numbers numbers; /* size 0: none */
    } told;                                   /* by the last connection_event */
};

/* want: may be NULL. */
void node_create(struct node *node, const struct node_want *want);
/* As node_create, with the status of qp_create instead of a failed check. */
enum ri_status node_try(struct node *node, const struct node_want *want);
void node_destroy(struct node *node);
/* Set A: destroys the connection of the node, if it has one. */
void node_leave(struct node *node);
/* A CQ, a region with `access` over all of the memory. */
struct ri_cq *make_cq(uint32_t depth, struct cq_seen *seen);
uint32_t all_access(void);
/* The provider leaves it to the host to pin: RI_FEATURE_DMA without RI_FEATURE_DMA_PINS. */
bool host_pins(void);
/* As a host registers: pinned before, if host_pins(). */
enum ri_status register_region(struct ri_pd *pd, const struct ri_mr_attr *attr,
                               struct ri_mr_keys *keys, struct ri_mr **mr);

/* Connects two nodes; the first one is active. */
void pair_connect(struct node *active, struct node *passive);
void pair(struct node *active, struct node *passive, const struct node_want *want);
/* numbers.c: two nodes of port 0 by numbers, both IDLE or INIT; one of the steps: what `state`
 * needs, with the PSN of each. */
struct numbers_step {
    struct ri_qp_modify modify;
    struct ri_ah_attr path;
};
void numbers_connect(struct node *a, struct node *b);
void numbers_to(struct node *node, struct node *peer, enum ri_qp_state state);
void numbers_step(struct node *node, struct node *peer, enum ri_qp_state state,
                  struct numbers_step *step);
uint32_t numbers_psn(const struct node *node);
/* A connected TCP socket pair, non-blocking. */
void tcp_pair(int fds[2]);
/* Hands a socket over. */
enum ri_status hand_over(struct node *node, int fd, bool initiator);
/* How often the end of the node's connection was told, by its connection verbs' rule. Set A: polls;
 * take() has what came. */
unsigned int node_ends(struct node *node);
enum ri_qp_state node_state(struct node *node);
enum ri_status node_modify(struct node *node, enum ri_qp_state state);
/* Ends the connection in order, from this side. */
void node_disconnect(struct node *node);

/* Set A: the first address of port 0; skips the check if there is none. */
void bed_port_address(struct sockaddr_storage *address);
/* Takes a connection_request; its answer is the connection's context. NULL: pair_connect does. */
extern void *(*bed_request_hook)(struct ri_connection *connection,
                                 const struct ri_connect_request *request);

/* ---- requests and completions ---- */

struct send_want {
    uint16_t opcode, flags;
    uint64_t cookie;
    uint32_t offset, length; /* in the node's memory */
    uint64_t remote_addr;    /* address at the peer */
    uint32_t rkey;
    uint32_t lkey; /* 0: the node's */
};

enum ri_status try_send(struct node *node, const struct send_want *want);
void do_send(struct node *node, const struct send_want *want);
enum ri_status try_recv(struct node *node, uint64_t cookie, uint32_t offset, uint32_t length,
                        uint32_t flags);
void do_recv(struct node *node, uint64_t cookie, uint32_t offset, uint32_t length);

/* The next completion of a CQ, within five seconds. If none comes, and the QP of the node (may be
 * NULL) is in ERROR, {end-flush} is broken. */
struct ri_wc take(struct ri_cq *cq, struct node *node, const char *what);
/* The same, of that QP, with that cookie, opcode and status. */
struct ri_wc expect_wc(struct ri_cq *cq, struct node *node, uint64_t cookie, uint8_t opcode,
                       uint16_t status);
/* No completion is there. */
void expect_none(struct ri_cq *cq, const char *why);
const char *wc_status_name(uint16_t status);

uint64_t pick(void); /* random, from the seed */

#endif
