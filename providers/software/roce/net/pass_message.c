/* SPDX-License-Identifier: BSD-3-Clause */
#include "pass_message.h"

#include "base/be.h"
#include "providers/software/roce/codec/cm.h"

#include <string.h>

static const char magic[] = "italRmad";

#define LOCAL_ID   (MAD_HEADER_LEN + 0u)
#define REMOTE_ID  (MAD_HEADER_LEN + 4u)
#define SERVICE_ID (MAD_HEADER_LEN + 8u) /* of REQ and SIDR_REQ */

void pass_put_head(uint8_t out[static PASS_HEAD_LEN], uint32_t records)
{
    memset(out, 0, PASS_HEAD_LEN);
    memcpy(out, magic, 8);
    out[8] = PASS_VERSION;
    out[9] = (uint8_t)records;
}

void pass_put(uint8_t out[static PASS_RECORD_LEN], const struct gsi_mad *mad)
{
    memcpy(out, mad->source, GID_LEN);
    memcpy(out + 16, mad->destination, GID_LEN);
    be_put32(out + 32, mad->scope);
    be_put32(out + 36, mad->source_qpn);
    be_put16(out + 40, mad->source_port);
    out[42] = mad->traffic_class;
    out[43] = mad->hop_limit;
    memset(out + 44, 0, 4);
    out[44] = mad->unclaimed;
    memcpy(out + 48, mad->octets, MAD_LEN);
}

uint32_t pass_records(const void *message, size_t len)
{
    const uint8_t *p = message;

    if (len < PASS_HEAD_LEN || memcmp(p, magic, 8) || p[8] != PASS_VERSION || !p[9] ||
        p[9] > PASS_RECORDS || len != PASS_LEN(p[9]))
        return 0;
    return p[9];
}

bool pass_get(const uint8_t in[static PASS_RECORD_LEN], struct gsi_mad *mad)
{
    struct mad_header header;

    if (mad_check(in + 48, MAD_LEN, &header) != MAD_OK)
        return false;
    *mad = (struct gsi_mad){ .octets = in + 48,
                             .attribute_id = header.attribute_id,
                             .unclaimed = in[44] & 1u,
                             .passed = true,
                             .scope = be_get32(in + 32),
                             .source_qpn = be_get32(in + 36) & BTH_MASK24,
                             .source_port = be_get16(in + 40),
                             .traffic_class = in[42],
                             .hop_limit = in[43] };
    memcpy(mad->source, in, GID_LEN);
    memcpy(mad->destination, in + 16, GID_LEN);
    return true;
}

bool gsi_get(const struct bth_packet *packet, struct gsi_mad *mad)
{
    struct mad_header header;

    if (packet->opcode != (BTH_UD | BTH_SEND_ONLY) || packet->dest_qpn != BTH_QPN_GSI ||
        packet->q_key != MAD_Q_KEY ||
        mad_check(packet->payload, packet->payload_len, &header) != MAD_OK)
        return false;
    mad->octets = packet->payload;
    mad->attribute_id = header.attribute_id;
    mad->source_qpn = packet->src_qpn;
    return true;
}

enum gsi_kind gsi_kind_of(const struct gsi_mad *mad)
{
    switch (mad->attribute_id) {
    case CM_REQ:
    case CM_SIDR_REQ: return GSI_REQUEST;
    case CM_DREQ: return GSI_LEAVE;
    case CM_REJ: return be_get32(mad->octets + REMOTE_ID) ? GSI_OTHER : GSI_GIVE_UP;
    default: return GSI_OTHER;
    }
}

uint64_t gsi_service_id(const struct gsi_mad *mad)
{
    return be_get64(mad->octets + SERVICE_ID);
}

uint32_t gsi_remote_id(const struct gsi_mad *mad)
{
    return be_get32(mad->octets + REMOTE_ID);
}

/* Whoever sends others that are equal disturbs what its own address has sent. */
uint64_t gsi_route(const struct gsi_mad *mad)
{
    uint64_t sum = be_get32(mad->octets + LOCAL_ID), halves[2];

    if (mad->attribute_id == CM_SIDR_REQ)
        sum |= UINT64_C(1) << 32;
    memcpy(halves, mad->source, sizeof(halves));
    for (int i = 0; i < 2; i++) {
        sum = (sum ^ halves[i]) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 29;
    }
    return sum * UINT64_C(0xD6E8FEB86659FD93);
}
