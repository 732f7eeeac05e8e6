/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two RNICs of softroce in one process, each with a QP that is connected by numbers to the other's,
 * over the loopback of a name space of their own. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_ROCE_DEVICE_BED_H
#define ITAL_TESTS_ROCE_DEVICE_BED_H

#include "tc.h"

#include "fake_host.h"
#include "net_helpers.h"

#define BED_MEMORY  (1u << 20)
#define BED_TIMEOUT 20000 /* ms; ends a test that fails */

#define OK(call)                                                                      \
    do {                                                                              \
        enum ri_status ok_status_ = (call);                                           \
        ck_assert_msg(ok_status_ == RI_OK, #call ": %s", ri_status_name(ok_status_)); \
    } while (0)

struct end {
    struct fake_host fake;
    struct ri_pd *pd;
    struct ri_cq *send_cq, *recv_cq;
    struct ri_qp *qp;
    struct ri_mr *mr;
    struct ri_mr_keys keys;
    uint8_t *memory;
    struct fake_record events;
    uint32_t qpn;
    /* What it is connected with. */
    uint32_t psn, mtu;
    uint8_t timeout, retry_count, rnr_retry, rnr_timer;
    uint8_t gid[GID_LEN];
    bool closed; /* no lane of it runs any more */
};

extern struct end bed[2];
/* What bed_open() makes; at first RC. */
extern enum ri_qp_type bed_type;
/* ... and the MTU of the loopback interface before; 0: the kernel's. */
extern int bed_loopback_mtu;
#define BED_KEY 0x11223344u /* of both QPs for datagrams */

/* n: 127.0.0.n, or ::1 for 0, of both ends; options of softroce as fake_host_open has them. */
void bed_open(uint32_t n, const char *const *options);
void bed_close(void);
/* One of them, before. */
void bed_close_end(struct end *end);
/* One of them, again; or in the child of a fork, where nothing of before is used any more. */
void bed_open_end(struct end *end, uint32_t n, const char *const *options);
/* Brings an end to the state by what the transition needs. */
enum ri_status bed_to(struct end *end, enum ri_qp_state state);
/* Both to RTS, and it is decided by which wire they go on. */
void bed_connect(void);
/* The latter alone. */
void bed_await_wires(void);
/* By the wire local. */
void bed_connect_locally(void);
enum ri_qp_state bed_state(struct end *end);
/* Its wire, why that is not local, and the way. */
struct ri_qp_info bed_info(const struct end *end);

/* Runs both lanes until cond holds; it sleeps as a host does. */
bool bed_wait(bool (*holds)(const void *arg), const void *arg, int ms);

struct ri_sge bed_sge(const struct end *end, uint64_t offset, uint32_t length);
enum ri_status bed_post(struct end *end, struct ri_send_wr wr, struct ri_sge sge);
void bed_receive(struct end *end, uint64_t cookie, struct ri_sge sge);
/* The next completion, which has this cookie and status. */
struct ri_wc bed_take(struct end *end, struct ri_cq *cq, uint64_t cookie, enum ri_wc_status status);
/* Nothing is there, and nothing comes in a few passes. */
void bed_take_none(struct end *end, struct ri_cq *cq);
/* The event comes, if it has not. */
void bed_await_event(struct end *end, enum ri_event_type type);
unsigned int bed_events(const struct end *end, enum ri_event_type type);
/* A counter of the RNIC, and of the QP. */
uint64_t bed_counter(struct end *end, const char *name);
uint64_t bed_qp_counter(struct end *end, const char *name);

#endif
