/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of roce/net share: a name space, addresses, and packets by hand over plain sockets. */
#ifndef ITAL_TESTS_ROCE_NET_HELPERS_H
#define ITAL_TESTS_ROCE_NET_HELPERS_H

#include "providers/software/roce/net/net.h"
#include "providers/software/roce/net/sockets.h"

/* A network name space of this process's own, with the loopback up; also of one that is not root.
 * Skips the test where there is none. */
void net_namespace(void);

/* 127.0.0.n, and ::1 for n 0. */
struct share_key net_test_key(uint32_t n);

/* A plain socket, bound to an address and UDP port 0 or more; connected to nobody. */
int plain_socket(const struct share_key *key, uint16_t udp_port);
void plain_send(int fd, const struct share_key *to, const void *octets, size_t len);

/* A Send Only to the QPN of RC with `payload` octets; the ICRC as over this way, with the fragment
 * word. Returns its octets. */
#define TEST_PACKET_MAX 4160u
uint32_t put_packet(uint8_t out[static TEST_PACKET_MAX], const struct share_key *from,
                    uint16_t source_port, const struct share_key *to, uint32_t fragment_word,
                    uint32_t qpn, uint32_t psn, uint32_t payload);
/* Its headers and payload alone, BTH_LEN octets and `payload`. */
void put_send(uint8_t header[static BTH_LEN], uint32_t qpn, uint32_t psn, uint32_t payload);

/* A MAD's packet to QP 1, without a right ICRC: attribute, local and remote ID. Returns octets. */
uint32_t put_mad(uint8_t out[static TEST_PACKET_MAX], uint16_t attribute, uint32_t local_id,
                 uint32_t remote_id);

#endif
