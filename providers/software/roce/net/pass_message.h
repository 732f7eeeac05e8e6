/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process passes on of QP 1, and what of a MAD says where it goes. Pure functions over
 * octets.
 *
 * A message has a head and records, in the order of the network:
 *
 *   head     0: "italRmad"; 8: version; 9: records; 10: 0
 *   record   0: source GID; 16: destination GID; 32: scope; 36: source QPN; 40: source port;
 *            42: traffic class; 43: hop limit; 44: 1: unclaimed; 45: 0; 48: MAD
 */
#ifndef ITAL_SOFTROCE_PASS_MESSAGE_H
#define ITAL_SOFTROCE_PASS_MESSAGE_H

#include <stddef.h>

#include "gsi_mad.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/mad.h"

#define PASS_VERSION    1u
#define PASS_HEAD_LEN   16u
#define PASS_RECORD_LEN (48u + MAD_LEN)
#define PASS_RECORDS    32u
#define PASS_MAX        (PASS_HEAD_LEN + PASS_RECORDS * PASS_RECORD_LEN)

/* Octets of a message of so many records, 1 to PASS_RECORDS. */
#define PASS_LEN(records) (PASS_HEAD_LEN + (records)*PASS_RECORD_LEN)

void pass_put_head(uint8_t out[static PASS_HEAD_LEN], uint32_t records);
void pass_put(uint8_t out[static PASS_RECORD_LEN], const struct gsi_mad *mad);
/* Records of a message of any octets; 0: not understood. */
uint32_t pass_records(const void *message, size_t len);
/* False: it has no MAD of communication management. *mad is set if true. */
bool pass_get(const uint8_t in[static PASS_RECORD_LEN], struct gsi_mad *mad);

/* Is it a MAD of communication management to QP 1 (M-001, M-003)? Then octets, attribute and source
 * QPN of *mad are set. */
bool gsi_get(const struct bth_packet *packet, struct gsi_mad *mad);

/* Of a MAD that no slot is picked for. */
enum gsi_kind {
    GSI_OTHER,   /* nobody's */
    GSI_REQUEST, /* REQ, SIDR_REQ: it has a service ID */
    GSI_GIVE_UP, /* REJ of a REQ by its sender (M-030) */
    GSI_LEAVE,   /* DREQ: its receiver may have ended */
};
enum gsi_kind gsi_kind_of(const struct gsi_mad *mad);
/* The service ID of a GSI_REQUEST. */
uint64_t gsi_service_id(const struct gsi_mad *mad);
/* The receiver's communication ID of a GSI_LEAVE. */
uint32_t gsi_remote_id(const struct gsi_mad *mad);
/* Equal for the REQs and the REJ that one sender sends with one communication ID, and for the
 * SIDR_REQs with one request ID; for others mostly not. */
uint64_t gsi_route(const struct gsi_mad *mad);

#endif
