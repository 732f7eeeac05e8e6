/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * itconform-peer: something ordinary that listens, accepts and posts receives, by libibverbs and
 * librdmacm; and posts what itconform asks for over a TCP connection (control).
 *
 * A command is a line of words, its answer a line that begins with "ok" or "error":
 *   config RECEIVES LENGTH IRD ORD REJECT DATA   for the connections to come; DATA: hex, or -
 *   forget                        ends all connections, drops all events, fills the regions
 *   regions                       NAME:STAG:ADDRESS:LENGTH ...
 *   memory NAME OFFSET LENGTH     octets of a region, hex
 *   event MS                      the next event: NAME IRD ORD DATA, or none
 *   completion MS                 the next one: recv|send STATUS LENGTH FLAGS STAG OCTETS, or none
 *   send LENGTH KIND STAG         KIND: plain, se, inv, seinv
 *   write LENGTH STAG ADDRESS     from region A
 *   read LENGTH STAG ADDRESS      into region A
 *   connect HOST PORT IRD ORD DATA
 *   disconnect
 * Numbers are decimal, STags and addresses hexadecimal. One thread does it all.
 */
#ifndef ITAL_TOOLS_ITCONFORM_PEER_H
#define ITAL_TOOLS_ITCONFORM_PEER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGIONS      6
#define REGION_BYTES 4096u
#define REGION_FILL  0xa5
#define LARGE_BYTES  (256u * 1024) /* of region B, for the longest FPDU */
#define EVENTS       64
#define DATA_MAX     512u
#define RECEIVES_MAX 64u

struct region {
    char
        name; /* W: remote write, R: remote read, A: both, L: neither, O: in another PD, B: large */
    uint8_t *octets;
    uint32_t bytes;
    struct ibv_mr *mr;
};

struct happened {
    const char *name;
    unsigned int ird, ord;
    uint8_t data[DATA_MAX];
    size_t length;
};

struct connection {
    struct connection *next;
    struct rdma_cm_id *id;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_mr *buffer_mr;
    uint8_t *buffer; /* receives, and one buffer to send from behind them */
    unsigned int receives;
    uint32_t length;
    bool ended;
};

struct peer {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    struct ibv_context *verbs;
    struct ibv_pd *pd, *other_pd;
    struct region regions[REGIONS];
    struct connection *connections; /* the newest first */
    struct happened events[EVENTS];
    unsigned int event_count;
    /* of connections to come */
    unsigned int receives, ird, ord;
    uint32_t length;
    bool reject;
    uint8_t data[DATA_MAX];
    size_t data_length;
};

/* ---- peer.c ---- */

/* Listens at *port (0: any), which is set. False: the reason is printed. */
bool peer_listen(struct peer *peer, const char *address, uint16_t *port);
/* Takes what has happened; does not block. */
void peer_run(struct peer *peer);
/* The newest connection, or NULL. */
struct connection *peer_connection(struct peer *peer);
void peer_forget(struct peer *peer);
struct region *peer_region(struct peer *peer, char name);
/* NULL, or what went wrong. */
const char *peer_connect(struct peer *peer, const char *host, const char *port);

/* ---- control.c ---- */

/* Serves one client until it leaves; runs the peer meanwhile. */
void control_serve(struct peer *peer, int fd);

#endif
