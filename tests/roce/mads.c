/* SPDX-License-Identifier: BSD-3-Clause */
#include "mads.h"

#include "tc.h"

static const struct field req_fields[] = {
    { "local_comm_id", 0, 0, 32 },
    { "vendor_id", 5, 0, 24 },
    { "service_id", 8, 0, 64 },
    { "local_ca_guid", 16, 0, 64 },
    { "local_qkey", 28, 0, 32 },
    { "local_qpn", 32, 0, 24 },
    { "responder_resources", 35, 0, 8 },
    { "local_eecn", 36, 0, 24 },
    { "initiator_depth", 39, 0, 8 },
    { "remote_eecn", 40, 0, 24 },
    { "remote_cm_response_timeout", 43, 0, 5 },
    { "transport_type", 43, 5, 2 },
    { "flow_control", 43, 7, 1 },
    { "starting_psn", 44, 0, 24 },
    { "local_cm_response_timeout", 47, 0, 5 },
    { "retry_count", 47, 5, 3 },
    { "p_key", 48, 0, 16 },
    { "path_mtu", 50, 0, 4 },
    { "rdc_exists", 50, 4, 1 },
    { "rnr_retry_count", 50, 5, 3 },
    { "max_cm_retries", 51, 0, 4 },
    { "srq", 51, 4, 1 },
    { "extended_transport", 51, 5, 3 },
    { "local_lid", 52, 0, 16 },
    { "remote_lid", 54, 0, 16 },
    { "local_gid", 56, 0, 128 },
    { "remote_gid", 72, 0, 128 },
    { "flow_label", 88, 0, 20 },
    { "packet_rate", 91, 2, 6 },
    { "traffic_class", 92, 0, 8 },
    { "hop_limit", 93, 0, 8 },
    { "sl", 94, 0, 4 },
    { "subnet_local", 94, 4, 1 },
    { "local_ack_timeout", 95, 0, 5 },
    { "alt_local_lid", 96, 0, 16 },
    { "alt_remote_lid", 98, 0, 16 },
    { "alt_local_gid", 100, 0, 128 },
    { "alt_remote_gid", 116, 0, 128 },
    { "alt_flow_label", 132, 0, 20 },
    { "alt_packet_rate", 135, 2, 6 },
    { "alt_traffic_class", 136, 0, 8 },
    { "alt_hop_limit", 137, 0, 8 },
    { "alt_sl", 138, 0, 4 },
    { "alt_subnet_local", 138, 4, 1 },
    { "alt_local_ack_timeout", 139, 0, 5 },
    { NULL, 140, 0, 0 },
};

static const struct field mra_fields[] = {
    { "local_comm_id", 0, 0, 32 },
    { "remote_comm_id", 4, 0, 32 },
    { "message_mraed", 8, 0, 2 },
    { "service_timeout", 9, 0, 5 },
    { NULL, 10, 0, 0 },
};

static const struct field rej_fields[] = {
    { "local_comm_id", 0, 0, 32 },
    { "remote_comm_id", 4, 0, 32 },
    { "message_rejected", 8, 0, 2 },
    { "reject_info_length", 9, 0, 7 },
    { "reason", 10, 0, 16 },
    { "ari", 12, 0, 576 },
    { NULL, 84, 0, 0 },
};

static const struct field rep_fields[] = {
    { "local_comm_id", 0, 0, 32 },     { "remote_comm_id", 4, 0, 32 },
    { "local_qkey", 8, 0, 32 },        { "local_qpn", 12, 0, 24 },
    { "vendor_id_h", 15, 0, 8 },       { "local_eecn", 16, 0, 24 },
    { "vendor_id_m", 19, 0, 8 },       { "starting_psn", 20, 0, 24 },
    { "vendor_id_l", 23, 0, 8 },       { "responder_resources", 24, 0, 8 },
    { "initiator_depth", 25, 0, 8 },   { "target_ack_delay", 26, 0, 5 },
    { "failover_accepted", 26, 5, 2 }, { "flow_control", 26, 7, 1 },
    { "rnr_retry_count", 27, 0, 3 },   { "srq", 27, 3, 1 },
    { "local_ca_guid", 28, 0, 64 },    { NULL, 36, 0, 0 },
};

static const struct field ids_fields[] = {
    { "local_comm_id", 0, 0, 32 },
    { "remote_comm_id", 4, 0, 32 },
    { NULL, 8, 0, 0 },
};

static const struct field dreq_fields[] = {
    { "local_comm_id", 0, 0, 32 },
    { "remote_comm_id", 4, 0, 32 },
    { "remote_qpn", 8, 0, 24 },
    { NULL, 12, 0, 0 },
};

static const struct field sidr_req_fields[] = {
    { "request_id", 0, 0, 32 },
    { "p_key", 4, 0, 16 },
    { "service_id", 8, 0, 64 },
    { NULL, 16, 0, 0 },
};

static const struct field sidr_rep_fields[] = {
    { "request_id", 0, 0, 32 },  { "status", 4, 0, 8 },  { "additional_info_length", 5, 0, 8 },
    { "vendor_id_h", 6, 0, 16 }, { "qpn", 8, 0, 24 },    { "vendor_id_l", 11, 0, 8 },
    { "service_id", 12, 0, 64 }, { "q_key", 20, 0, 32 }, { "additional_info", 24, 0, 576 },
    { NULL, 96, 0, 0 },
};

const struct layout layouts[LAYOUTS] = {
    { 0x10, "REQ", req_fields, 92 },
    { 0x11, "MRA", mra_fields, 222 },
    { 0x12, "REJ", rej_fields, 148 },
    { 0x13, "REP", rep_fields, 196 },
    { 0x14, "RTU", ids_fields, 224 },
    { 0x15, "DREQ", dreq_fields, 220 },
    { 0x16, "DREP", ids_fields, 224 },
    { 0x17, "SIDR_REQ", sidr_req_fields, 216 },
    { 0x18, "SIDR_REP", sidr_rep_fields, 136 },
};

const struct layout *layout_of(uint16_t attribute)
{
    return attribute >= 0x10 && attribute < 0x10 + LAYOUTS ? &layouts[attribute - 0x10] : NULL;
}

const struct field *end_of(const struct layout *layout)
{
    const struct field *f = layout->fields;

    while (f->name)
        f++;
    return f;
}

const struct field *field_of(const struct layout *layout, unsigned bit)
{
    const struct field *f;

    for (f = layout->fields; f->name; f++) {
        unsigned begin = 8 * f->octet + f->bit;

        if (bit >= begin && bit < begin + f->bits)
            return f;
    }
    return bit >= 8 * f->octet ? f : NULL;
}

const uint8_t *mad_of(const struct packet_vector *v, struct bth_packet *packet)
{
    uint64_t modifier;

    if (!packet_field(v, "mad.attribute_modifier", &modifier))
        return NULL;
    ck_assert_int_eq(bth_parse(v->packet, v->len, packet), BTH_OK);
    ck_assert_uint_eq(packet->payload_len, MAD_LEN);
    ck_assert_uint_eq(packet->q_key, MAD_Q_KEY);
    ck_assert_uint_eq(packet->src_qpn, BTH_QPN_GSI);
    ck_assert_uint_eq(packet->dest_qpn, BTH_QPN_GSI);
    return packet->payload;
}
