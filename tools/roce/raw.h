/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw peer of RoCEv2: packets out and in as they are, with a queue pair number and communication
 * IDs of its own, and nothing behind them. For tools that ask and judge.
 *
 * Answers come to UDP port 4791 of the own address, whatever the port that was sent from. The peer
 * therefore takes a slot among the processes of its user (net.h): it works beside them, and they
 * beside it.
 */
#ifndef ITAL_TOOLS_ROCE_RAW_H
#define ITAL_TOOLS_ROCE_RAW_H

#include "answer.h"

#include "providers/software/roce/codec/mad.h"

#define RAW_PACKET_MAX 4400u
#define RAW_WHY        400u
#define RAW_NAME       80u

/* From here to the peer. */
struct raw_way {
    uint8_t own[GID_LEN], peer[GID_LEN];
    uint32_t scope; /* interface of link-local addresses */
    bool local;     /* the peer's address is this host's */
    uint32_t mtu;   /* of IP, as the kernel knows it; 0 unknown */
};

/* Finds the peer and the address that packets to it leave from. False: *why. */
bool raw_resolve(const char *host, struct raw_way *way, char why[static RAW_WHY]);
/* "10.7.0.2", "fe80::1"; returns `name`. */
const char *raw_name(const uint8_t gid[static GID_LEN], char name[static RAW_NAME]);

struct raw;

/* False: *why: who has UDP port 4791, mostly. */
bool raw_open(const struct raw_way *way, struct raw **raw, char why[static RAW_WHY]);
void raw_close(struct raw *raw); /* may be NULL */

const struct raw_way *raw_way_of(const struct raw *raw);
/* A number that comes here; another one each time. */
uint32_t raw_qpn(struct raw *raw);
uint32_t raw_comm_id(struct raw *raw);
/* A random number. */
uint64_t raw_random(void);

/*
 * Headers, payload, pad and room for the ICRC: `out` then has the octets that are returned, and may
 * be spoilt. 0: no such opcode, or too long. The pad count and the P_Key are those of *bth.
 */
size_t raw_make(uint8_t out[static RAW_PACKET_MAX], const struct bth_packet *bth,
                const void *payload, uint32_t payload_len);

enum raw_fault {
    RAW_RIGHT = 0,
    RAW_WRONG_ICRC = 1,
    RAW_OTHER_PORT = 2, /* sent from a UDP port that is not 4791 */
};
/* Puts the ICRC and sends. False: the kernel refuses; errno. */
bool raw_send(struct raw *raw, uint8_t *octets, size_t len, enum raw_fault fault);

/* A MAD from QP 1 to QP 1. */
bool raw_send_mad(struct raw *raw, const uint8_t mad[static MAD_LEN]);
/* The packet of a MAD of any length, to be spoilt; as raw_make(). */
size_t raw_make_mad(struct raw *raw, uint8_t out[static RAW_PACKET_MAX], const void *mad,
                    uint32_t len);
/* A message with zeros for what is not set. False: cm_put() or the kernel refuses. */
bool raw_send_message(struct raw *raw, const struct cm_message *message);

/* What a REQ of Linux over RoCE has, between these addresses, for a service of rdma_cm. The private
 * data are the header of rdma_cm, in *header. */
struct raw_header {
    uint8_t octets[36];
};
void raw_usual_req(struct raw *raw, uint64_t service_id, struct cm_message *message,
                   struct raw_header *header);
void raw_usual_sidr_req(struct raw *raw, uint64_t service_id, struct cm_message *message,
                        struct raw_header *header);

/* A datagram that has come. */
struct raw_heard {
    uint8_t octets[RAW_PACKET_MAX];
    size_t len;
    struct answer_way way;
    uint8_t traffic_class, hop_limit;
    uint64_t at; /* tool_now() */
    struct answer answer;
};

/* The next datagram, of anyone. False: the deadline (tool_now()) has passed, or the tool is to
 * end. */
bool raw_hear(struct raw *raw, uint64_t deadline, struct raw_heard *heard);

#endif
