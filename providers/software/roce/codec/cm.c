/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of communication management. Offsets are those behind the MAD
 * header.
 */
#include "cm.h"

#include <string.h>

#include "base/be.h"
#include "octets.h"

#define REQ_PRIMARY   52u
#define REQ_ALTERNATE 96u
#define REJ_ARI       12u
#define SIDR_REP_INFO 24u

/* Where private data begin; they go to the end of the MAD. 0: a message that is
 * not known. */
static uint32_t private_offset(uint16_t attribute_id)
{
    switch (attribute_id) {
    case CM_REQ: return 140;
    case CM_MRA: return 10;
    case CM_REJ: return 84;
    case CM_REP: return 36;
    case CM_RTU: return 8;
    case CM_DREQ: return 12;
    case CM_DREP: return 8;
    case CM_SIDR_REQ: return 16;
    case CM_SIDR_REP: return 96;
    default: return 0;
    }
}

uint32_t cm_private_max(uint16_t attribute_id)
{
    uint32_t offset = private_offset(attribute_id);

    return offset ? MAD_BODY_LEN - offset : 0;
}

/* `width` bits of an octet, of which `below` are less significant. */
static uint8_t bits(uint8_t octet, unsigned below, unsigned width)
{
    return (uint8_t)(octet >> below & ((1u << width) - 1u));
}

static uint8_t at(uint8_t value, unsigned below, unsigned width)
{
    return (uint8_t)((value & ((1u << width) - 1u)) << below);
}

static void get_path(const uint8_t *p, struct cm_path *path)
{
    path->local_lid = be_get16(p);
    path->remote_lid = be_get16(p + 2);
    memcpy(path->local_gid, p + 4, GID_LEN);
    memcpy(path->remote_gid, p + 20, GID_LEN);
    path->flow_label = be_get32(p + 36) >> 12;
    path->packet_rate = bits(p[39], 0, 6);
    path->traffic_class = p[40];
    path->hop_limit = p[41];
    path->sl = bits(p[42], 4, 4);
    path->subnet_local = bits(p[42], 3, 1);
    path->local_ack_timeout = bits(p[43], 3, 5);
}

static void put_path(uint8_t *p, const struct cm_path *path)
{
    be_put16(p, path->local_lid);
    be_put16(p + 2, path->remote_lid);
    memcpy(p + 4, path->local_gid, GID_LEN);
    memcpy(p + 20, path->remote_gid, GID_LEN);
    be_put32(p + 36, path->flow_label << 12 | (path->packet_rate & 0x3Fu));
    p[40] = path->traffic_class;
    p[41] = path->hop_limit;
    p[42] = at(path->sl, 4, 4) | at(path->subnet_local, 3, 1);
    p[43] = at(path->local_ack_timeout, 3, 5);
}

static void get_req(const uint8_t *p, struct cm_req *m)
{
    m->local_comm_id = be_get32(p);
    m->vendor_id = get24(p + 5);
    m->service_id = be_get64(p + 8);
    m->local_ca_guid = be_get64(p + 16);
    m->local_q_key = be_get32(p + 28);
    m->local_qpn = get24(p + 32);
    m->responder_resources = p[35];
    m->local_eecn = get24(p + 36);
    m->initiator_depth = p[39];
    m->remote_eecn = get24(p + 40);
    m->remote_cm_response_timeout = bits(p[43], 3, 5);
    m->transport_service_type = bits(p[43], 1, 2);
    m->end_to_end_flow_control = bits(p[43], 0, 1);
    m->starting_psn = get24(p + 44);
    m->local_cm_response_timeout = bits(p[47], 3, 5);
    m->retry_count = bits(p[47], 0, 3);
    m->p_key = be_get16(p + 48);
    m->path_mtu = bits(p[50], 4, 4);
    m->rdc_exists = bits(p[50], 3, 1);
    m->rnr_retry_count = bits(p[50], 0, 3);
    m->max_cm_retries = bits(p[51], 4, 4);
    m->srq = bits(p[51], 3, 1);
    m->extended_transport_type = bits(p[51], 0, 3);
    get_path(p + REQ_PRIMARY, &m->primary);
    get_path(p + REQ_ALTERNATE, &m->alternate);
}

static void put_req(uint8_t *p, const struct cm_req *m)
{
    be_put32(p, m->local_comm_id);
    put24(p + 5, m->vendor_id);
    be_put64(p + 8, m->service_id);
    be_put64(p + 16, m->local_ca_guid);
    be_put32(p + 28, m->local_q_key);
    put24(p + 32, m->local_qpn);
    p[35] = m->responder_resources;
    put24(p + 36, m->local_eecn);
    p[39] = m->initiator_depth;
    put24(p + 40, m->remote_eecn);
    p[43] = at(m->remote_cm_response_timeout, 3, 5) | at(m->transport_service_type, 1, 2) |
            at(m->end_to_end_flow_control, 0, 1);
    put24(p + 44, m->starting_psn);
    p[47] = at(m->local_cm_response_timeout, 3, 5) | at(m->retry_count, 0, 3);
    be_put16(p + 48, m->p_key);
    p[50] = at(m->path_mtu, 4, 4) | at(m->rdc_exists, 3, 1) | at(m->rnr_retry_count, 0, 3);
    p[51] = at(m->max_cm_retries, 4, 4) | at(m->srq, 3, 1) | at(m->extended_transport_type, 0, 3);
    put_path(p + REQ_PRIMARY, &m->primary);
    put_path(p + REQ_ALTERNATE, &m->alternate);
}

static void get_mra(const uint8_t *p, struct cm_mra *m)
{
    m->local_comm_id = be_get32(p);
    m->remote_comm_id = be_get32(p + 4);
    m->message_mraed = bits(p[8], 6, 2);
    m->service_timeout = bits(p[9], 3, 5);
}

static void put_mra(uint8_t *p, const struct cm_mra *m)
{
    be_put32(p, m->local_comm_id);
    be_put32(p + 4, m->remote_comm_id);
    p[8] = at(m->message_mraed, 6, 2);
    p[9] = at(m->service_timeout, 3, 5);
}

static enum mad_result get_rej(const uint8_t *p, struct cm_rej *m)
{
    if (bits(p[9], 1, 7) > CM_INFORMATION_LEN)
        return MAD_ERR_INFORMATION;
    m->local_comm_id = be_get32(p);
    m->remote_comm_id = be_get32(p + 4);
    m->message_rejected = bits(p[8], 6, 2);
    m->reject_info_length = bits(p[9], 1, 7);
    m->reason = be_get16(p + 10);
    m->ari = p + REJ_ARI;
    return MAD_OK;
}

static void put_rej(uint8_t *p, const struct cm_rej *m)
{
    be_put32(p, m->local_comm_id);
    be_put32(p + 4, m->remote_comm_id);
    p[8] = at(m->message_rejected, 6, 2);
    p[9] = at(m->reject_info_length, 1, 7);
    be_put16(p + 10, m->reason);
    if (m->reject_info_length)
        memcpy(p + REJ_ARI, m->ari, m->reject_info_length);
}

static void get_rep(const uint8_t *p, struct cm_rep *m)
{
    m->local_comm_id = be_get32(p);
    m->remote_comm_id = be_get32(p + 4);
    m->local_q_key = be_get32(p + 8);
    m->local_qpn = get24(p + 12);
    m->vendor_id = (uint32_t)p[15] << 16 | (uint32_t)p[19] << 8 | p[23];
    m->local_eecn = get24(p + 16);
    m->starting_psn = get24(p + 20);
    m->responder_resources = p[24];
    m->initiator_depth = p[25];
    m->target_ack_delay = bits(p[26], 3, 5);
    m->failover_accepted = bits(p[26], 1, 2);
    m->end_to_end_flow_control = bits(p[26], 0, 1);
    m->rnr_retry_count = bits(p[27], 5, 3);
    m->srq = bits(p[27], 4, 1);
    m->local_ca_guid = be_get64(p + 28);
}

static void put_rep(uint8_t *p, const struct cm_rep *m)
{
    be_put32(p, m->local_comm_id);
    be_put32(p + 4, m->remote_comm_id);
    be_put32(p + 8, m->local_q_key);
    put24(p + 12, m->local_qpn);
    p[15] = (uint8_t)(m->vendor_id >> 16);
    put24(p + 16, m->local_eecn);
    p[19] = (uint8_t)(m->vendor_id >> 8);
    put24(p + 20, m->starting_psn);
    p[23] = (uint8_t)m->vendor_id;
    p[24] = m->responder_resources;
    p[25] = m->initiator_depth;
    p[26] = at(m->target_ack_delay, 3, 5) | at(m->failover_accepted, 1, 2) |
            at(m->end_to_end_flow_control, 0, 1);
    p[27] = at(m->rnr_retry_count, 5, 3) | at(m->srq, 4, 1);
    be_put64(p + 28, m->local_ca_guid);
}

static void get_ids(const uint8_t *p, struct cm_ids *m)
{
    m->local_comm_id = be_get32(p);
    m->remote_comm_id = be_get32(p + 4);
}

static void put_ids(uint8_t *p, const struct cm_ids *m)
{
    be_put32(p, m->local_comm_id);
    be_put32(p + 4, m->remote_comm_id);
}

static void get_dreq(const uint8_t *p, struct cm_dreq *m)
{
    m->local_comm_id = be_get32(p);
    m->remote_comm_id = be_get32(p + 4);
    m->remote_qpn = get24(p + 8);
}

static void put_dreq(uint8_t *p, const struct cm_dreq *m)
{
    be_put32(p, m->local_comm_id);
    be_put32(p + 4, m->remote_comm_id);
    put24(p + 8, m->remote_qpn);
}

static void get_sidr_req(const uint8_t *p, struct cm_sidr_req *m)
{
    m->request_id = be_get32(p);
    m->p_key = be_get16(p + 4);
    m->service_id = be_get64(p + 8);
}

static void put_sidr_req(uint8_t *p, const struct cm_sidr_req *m)
{
    be_put32(p, m->request_id);
    be_put16(p + 4, m->p_key);
    be_put64(p + 8, m->service_id);
}

static enum mad_result get_sidr_rep(const uint8_t *p, struct cm_sidr_rep *m)
{
    if (p[5] > CM_INFORMATION_LEN)
        return MAD_ERR_INFORMATION;
    m->request_id = be_get32(p);
    m->status = p[4];
    m->additional_info_length = p[5];
    m->vendor_id = (uint32_t)be_get16(p + 6) << 8 | p[11];
    m->qpn = get24(p + 8);
    m->service_id = be_get64(p + 12);
    m->q_key = be_get32(p + 20);
    m->additional_info = p + SIDR_REP_INFO;
    return MAD_OK;
}

static void put_sidr_rep(uint8_t *p, const struct cm_sidr_rep *m)
{
    be_put32(p, m->request_id);
    p[4] = m->status;
    p[5] = m->additional_info_length;
    be_put16(p + 6, (uint16_t)(m->vendor_id >> 8));
    put24(p + 8, m->qpn);
    p[11] = (uint8_t)m->vendor_id;
    be_put64(p + 12, m->service_id);
    be_put32(p + 20, m->q_key);
    if (m->additional_info_length)
        memcpy(p + SIDR_REP_INFO, m->additional_info, m->additional_info_length);
}

static enum mad_result get_body(const uint8_t *p, struct cm_message *message)
{
    switch (message->attribute_id) {
    case CM_REQ: get_req(p, &message->req); break;
    case CM_MRA: get_mra(p, &message->mra); break;
    case CM_REJ: return get_rej(p, &message->rej);
    case CM_REP: get_rep(p, &message->rep); break;
    case CM_RTU: get_ids(p, &message->rtu); break;
    case CM_DREQ: get_dreq(p, &message->dreq); break;
    case CM_DREP: get_ids(p, &message->drep); break;
    case CM_SIDR_REQ: get_sidr_req(p, &message->sidr_req); break;
    case CM_SIDR_REP: return get_sidr_rep(p, &message->sidr_rep);
    case CM_LAP:
    case CM_APR: return MAD_ERR_PATH;
    default: return MAD_ERR_ATTRIBUTE;
    }
    return MAD_OK;
}

enum mad_result cm_parse(const void *mad, size_t len, struct cm_message *message)
{
    struct cm_message parsed;
    struct mad_header header;
    const uint8_t *body;
    enum mad_result result = mad_check(mad, len, &header);

    if (result != MAD_OK)
        return result;
    memset(&parsed, 0, sizeof(parsed));
    parsed.attribute_id = header.attribute_id;
    parsed.transaction_id = header.transaction_id;
    parsed.attribute_modifier = header.attribute_modifier;
    body = (const uint8_t *)mad + MAD_HEADER_LEN;
    result = get_body(body, &parsed);
    if (result != MAD_OK)
        return result;
    parsed.private_data = body + private_offset(header.attribute_id);
    parsed.private_len = cm_private_max(header.attribute_id);
    *message = parsed;
    return MAD_OK;
}

static enum mad_result check_lengths(const struct cm_message *message)
{
    uint16_t attribute = message->attribute_id;

    if (attribute == CM_LAP || attribute == CM_APR)
        return MAD_ERR_PATH;
    if (!private_offset(attribute))
        return MAD_ERR_ATTRIBUTE;
    if (attribute == CM_REJ && message->rej.reject_info_length > CM_INFORMATION_LEN)
        return MAD_ERR_INFORMATION;
    if (attribute == CM_SIDR_REP && message->sidr_rep.additional_info_length > CM_INFORMATION_LEN)
        return MAD_ERR_INFORMATION;
    return message->private_len > cm_private_max(attribute) ? MAD_ERR_PRIVATE_DATA : MAD_OK;
}

static void put_body(uint8_t *p, const struct cm_message *message)
{
    switch (message->attribute_id) {
    case CM_REQ: put_req(p, &message->req); break;
    case CM_MRA: put_mra(p, &message->mra); break;
    case CM_REJ: put_rej(p, &message->rej); break;
    case CM_REP: put_rep(p, &message->rep); break;
    case CM_RTU: put_ids(p, &message->rtu); break;
    case CM_DREQ: put_dreq(p, &message->dreq); break;
    case CM_DREP: put_ids(p, &message->drep); break;
    case CM_SIDR_REQ: put_sidr_req(p, &message->sidr_req); break;
    default: put_sidr_rep(p, &message->sidr_rep); break;
    }
}

enum mad_result cm_put(uint8_t out[static MAD_LEN], const struct cm_message *message)
{
    const struct mad_header header = {
        .base_version = MAD_BASE_VERSION,
        .mgmt_class = MAD_CLASS_CM,
        .class_version = MAD_CLASS_CM_VERSION,
        .method = MAD_METHOD_SEND,
        .transaction_id = message->transaction_id,
        .attribute_id = message->attribute_id,
        .attribute_modifier = message->attribute_modifier,
    };
    enum mad_result result = check_lengths(message);
    uint8_t *body = out + MAD_HEADER_LEN;

    if (result != MAD_OK)
        return result;
    memset(out, 0, MAD_LEN);
    mad_put_header(out, &header);
    put_body(body, message);
    if (message->private_len)
        memcpy(body + private_offset(message->attribute_id), message->private_data,
               message->private_len);
    return MAD_OK;
}
