/* SPDX-License-Identifier: BSD-3-Clause */
#include "answer.h"

#include <stdio.h>
#include <string.h>

#include "providers/software/roce/codec/icrc.h"
#include "providers/software/roce/codec/mad.h"

/* ---- the ICRC -------------------------------------------------------------------------------- */

static void put_change(uint8_t out[static 4], const uint8_t from[static 4], uint32_t change)
{
    for (unsigned int i = 0; i < 4; i++)
        out[i] = from[i] ^ (uint8_t)(change >> (24 - 8 * i));
}

/* Ports stand before the length and the checksum of UDP, addresses before the ports. */
static void explain(const struct answer_way *way, uint32_t difference, size_t len,
                    struct answer *answer)
{
    const uint32_t covered = (uint32_t)len - BTH_ICRC_LEN;
    const uint32_t ports = icrc_change_before(difference, covered + 4);

    answer->icrc = ANSWER_DAMAGED;
    if (!(ports & 0xFFFFu)) {
        answer->icrc = ANSWER_OTHER_PORT;
        answer->sent_from = way->source_port ^ (uint16_t)(ports >> 16);
        return;
    }
    if (!gid_is_ipv4(way->source))
        return;
    answer->has_addresses = true;
    put_change(answer->destination_if, way->destination + GID_IPV4,
               icrc_change_before(difference, covered + ICRC_UDP_LEN));
    put_change(answer->source_if, way->source + GID_IPV4,
               icrc_change_before(difference, covered + ICRC_UDP_LEN + 4));
}

static void check_icrc(const struct answer_way *way, const uint8_t *octets, size_t len,
                       struct answer *answer)
{
    const struct icrc_window all = { .first = 0, .count = 65536 };
    uint32_t computed, received = icrc_get(octets + len - BTH_ICRC_LEN), word;
    struct icrc_path path;

    icrc_path_init(&path, way->source, way->destination, way->source_port);
    computed = icrc_of_packet(&path, ICRC_DF, octets, len);
    answer->df = true;
    if (computed == received)
        answer->icrc = ANSWER_WHOLE;
    else if (!icrc_path_is_ipv4(&path) ||
             icrc_find_fragment_word(octets, len, computed, ICRC_DF, all, &word) == ICRC_WRONG)
        explain(way, computed ^ received, len, answer);
    else {
        answer->icrc = ANSWER_IDENTIFIED;
        answer->identification = (uint16_t)(word >> 16);
        answer->df = word & ICRC_DF;
    }
}

void answer_read(const struct answer_way *way, const void *octets, size_t len,
                 struct answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    answer->icrc = ANSWER_DAMAGED;
    answer->parsed = bth_parse(octets, len, &answer->bth);
    if (len >= BTH_PACKET_MIN && len <= BTH_PACKET_MAX && len % 4 == 0)
        check_icrc(way, octets, len, answer);
    answer->is_message = answer->parsed == BTH_OK && answer->bth.op->service == BTH_UD &&
                         answer->bth.dest_qpn == BTH_QPN_GSI &&
                         cm_parse(answer->bth.payload, answer->bth.payload_len, &answer->message) ==
                             MAD_OK;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *answer_attribute(uint16_t attribute_id)
{
    switch (attribute_id) {
    case CM_REQ: return "REQ";
    case CM_MRA: return "MRA";
    case CM_REJ: return "REJ";
    case CM_REP: return "REP";
    case CM_RTU: return "RTU";
    case CM_DREQ: return "DREQ";
    case CM_DREP: return "DREP";
    case CM_SIDR_REQ: return "SIDR_REQ";
    case CM_SIDR_REP: return "SIDR_REP";
    default: return "?";
    }
}

const char *answer_reason(uint16_t reason)
{
    switch (reason) {
    case CM_REJ_NO_QP: return "no QP";
    case CM_REJ_NO_RESOURCES: return "no resources";
    case CM_REJ_TIMEOUT: return "timeout";
    case CM_REJ_UNSUPPORTED: return "unsupported request";
    case CM_REJ_INVALID_SERVICE_ID: return "invalid service ID";
    case CM_REJ_INVALID_TRANSPORT_TYPE: return "invalid transport type";
    case CM_REJ_STALE_CONN: return "stale connection";
    case CM_REJ_INVALID_GID: return "invalid GID";
    case CM_REJ_INVALID_MTU: return "invalid MTU";
    case CM_REJ_CONSUMER_DEFINED: return "consumer defined";
    case CM_REJ_DUPLICATE_LOCAL_COMM_ID: return "duplicate local communication ID";
    default: return "another reason";
    }
}

static const char *nak_text(uint8_t syndrome)
{
    switch (syndrome) {
    case AETH_NAK_SEQUENCE: return "PSN sequence error";
    case AETH_NAK_INVALID_REQUEST: return "invalid request";
    case AETH_NAK_REMOTE_ACCESS: return "remote access error";
    case AETH_NAK_REMOTE_OPERATION: return "remote operational error";
    default: return "reserved";
    }
}

static const char *message_text(const struct cm_message *message, char text[static ANSWER_TEXT])
{
    const char *name = answer_attribute(message->attribute_id);

    if (message->attribute_id == CM_REJ)
        snprintf(text, ANSWER_TEXT, "REJ %u (%s)", message->rej.reason,
                 answer_reason(message->rej.reason));
    else if (message->attribute_id == CM_SIDR_REP)
        snprintf(text, ANSWER_TEXT, "SIDR_REP, status %u", message->sidr_rep.status);
    else
        snprintf(text, ANSWER_TEXT, "%s", name);
    return text;
}

const char *answer_text(const struct answer *answer, char text[static ANSWER_TEXT])
{
    const struct bth_packet *bth = &answer->bth;

    if (answer->parsed != BTH_OK)
        snprintf(text, ANSWER_TEXT, "not a packet: %s", bth_result_text(answer->parsed));
    else if (answer->is_message)
        return message_text(&answer->message, text);
    else if (bth->op->kind != BTH_KIND_ACKNOWLEDGE)
        snprintf(text, ANSWER_TEXT, "%s, PSN %06x", bth->op->name, bth->psn);
    else if (aeth_is_ack(bth->syndrome))
        snprintf(text, ANSWER_TEXT, "Acknowledge, PSN %06x, MSN %u", bth->psn, bth->msn);
    else if (aeth_is_rnr_nak(bth->syndrome))
        snprintf(text, ANSWER_TEXT, "RNR NAK %02x, PSN %06x, MSN %u", bth->syndrome, bth->psn,
                 bth->msn);
    else
        snprintf(text, ANSWER_TEXT, "NAK %02x (%s), PSN %06x, MSN %u", bth->syndrome,
                 nak_text(bth->syndrome), bth->psn, bth->msn);
    return text;
}
