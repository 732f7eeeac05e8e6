/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of tests/data/roce/vectors.json, with the fields that an encoder in Python, which
 * shares no code with ital, has found in them. Loaded once, valid until the program ends. A test
 * that loads them is skipped in a build without jansson; a damaged file ends the program.
 */
#ifndef ITAL_TESTS_ROCE_PACKETS_H
#define ITAL_TESTS_ROCE_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/software/roce/codec/icrc.h"

struct packet_vector {
    const char *title; /* for messages */
    uint8_t *ip;       /* the IP header; of its exact size, as `packet` is */
    size_t ip_len;     /* 20 or 40 */
    uint8_t *packet;   /* from the BTH to the ICRC */
    size_t len;
    uint16_t source_port;
    uint32_t fragment_word; /* IPv4 */
    const void *fields;     /* for packet_field() */
};

/* A packet whose identification is to be found. */
struct id_vector {
    struct packet_vector packet;
    uint32_t icrc_with_id_0, d, n, t, id;
};

struct packet_vectors {
    struct packet_vector *packets;
    size_t n_packets;
    struct id_vector *ids;
    size_t n_ids;
};

const struct packet_vectors *packet_vectors(void);

/* By its path, "bth.psn", "mad.cm.local_qpn": a number; false if the packet does not have it. */
bool packet_field(const struct packet_vector *vector, const char *path, uint64_t *value);
/* The same; ends the test if there is none. */
uint64_t packet_need(const struct packet_vector *vector, const char *path);
/* Text, NULL if there is none. */
const char *packet_text(const struct packet_vector *vector, const char *path);
/* Hexadecimal text as octets at `out`, of which there are `len`; false if there is none. */
bool packet_octets(const struct packet_vector *vector, const char *path, uint8_t *out, size_t len);

/* The path of its IP header. */
void packet_path(const struct packet_vector *vector, struct icrc_path *path);

#endif
