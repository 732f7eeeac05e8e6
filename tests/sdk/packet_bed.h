/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two QPs of an RNIC that librnicpi's packets carry, with all that they need. The carrier in memory
 * has no descriptors: the bed itself runs its ends. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_PACKET_BED_H
#define ITAL_TESTS_PACKET_BED_H

#include "fake_host.h"
#include "tc.h"

#include "sdk/rnicpi_set_a_rc.h"

#define PORT     7
#define OWN_PORT 5000
#define PAYLOAD  RI_RC_PAYLOAD
#define ALL      (80 * PAYLOAD) /* more packets than a QP sends in one turn */

/* The carrier in memory: a packet under way, and an end that it goes to. */
struct packet {
    struct packet *next;
    size_t length;
    uint8_t octets[RI_PACKET_MAX + 1];
};

struct end {
    struct ri_mem_connection mem;
    struct end *other;
    struct packet *first;
    int count; /* packets that have come and were not taken */
    bool left, closing, awaits;
};

struct packet_bed {
    struct fake_host fake;
    struct ri_rnic *rnic;
    struct ri_lane *lane;
    struct ri_pd *pd;
    struct ri_cq *cq;
    struct ri_mr *mr[2];
    struct ri_mr_keys keys[2];
    struct ri_qp *active, *passive;
    struct ri_listener *listener;
    struct sockaddr_storage bound;
    struct fake_record records[2];
    uint8_t from[ALL], to[ALL];

    /* What the host has heard of connections. */
    struct ri_connection *client, *server;
    struct sockaddr_storage asked_from;
    int established, disconnected, failed;

    int room;         /* packets that an end has room for */
    int lost;         /* what the next sends answer, instead of sending; 1: they send */
    int awaited;      /* calls of await_room */
    int most_at_once; /* packets that one call of ri_packet_run has brought */
    void (*damage)(struct packet *packet);
};

extern struct packet_bed bed;
extern const struct ri_privileged_ops bed_privileged;
extern const struct ri_user_ops bed_user;
extern const struct ri_packet_carrier bed_in_memory;

/* For carriers of a test's own. */
extern const struct sockaddr bed_source;
enum ri_status bed_port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                           uint16_t *port);

struct ri_mem_rnic *bed_rnic(void);
void bed_open(const struct ri_packet_carrier *which, bool epoll);
enum ri_status bed_listen(uint16_t port);
void bed_connect(void);
void bed_accept(void);
void bed_open_connected(void); /* by the carrier in memory */
void bed_destroy_qps(void);
/* Everything is freed, and the RNIC closes when it is. `run`: what ends with the objects. */
void bed_close(void (*run)(void));

/* The carrier in memory: until there is nothing to do; the end of a process. */
void bed_settle(void);
void bed_close_channel(struct ri_mem_connection *c);

void bed_post(struct ri_qp *qp, uint16_t opcode, uint64_t cookie, uint32_t length);
void bed_post_receive(struct ri_qp *qp, uint64_t cookie, uint32_t length);
void bed_expect(uint64_t cookie, enum ri_wc_status status, uint32_t octets);
void bed_expect_event(int which, enum ri_event_type type);

#endif
