/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection management on QP 1, and the course of a connection. */
#include "judges.h"

#include <string.h>

#include "base/be.h"
#include "providers/software/roce/codec/cma.h"

/* ---- the MAD ---- */

static void silent_with(struct roce_trial *trial, size_t at, uint8_t octet)
{
    struct cm_message message;
    uint32_t id = roce_question(trial, &message);
    uint8_t mad[MAD_LEN] = { 0 };

    cm_put(mad, &message);
    mad[at] = octet;
    roce_make_mad(trial, mad, sizeof(mad));
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, id);
}

void mad_class(struct roce_trial *trial)
{
    silent_with(trial, 1, 3);
    silent_with(trial, 1, 4);
}

void mad_short(struct roce_trial *trial)
{
    struct cm_message message;
    uint32_t id = roce_question(trial, &message);
    uint8_t mad[MAD_LEN] = { 0 };

    cm_put(mad, &message);
    roce_make_mad(trial, mad, MAD_LEN - 4);
    roce_send(trial, RAW_RIGHT);
    roce_expect_silence(trial, id);
}

void mad_base_version(struct roce_trial *trial)
{
    silent_with(trial, 0, 2);
}

void mad_class_version(struct roce_trial *trial)
{
    silent_with(trial, 2, 9);
}

void mad_method(struct roce_trial *trial)
{
    silent_with(trial, 3, 0x01);
}

void mad_attribute(struct roce_trial *trial)
{
    silent_with(trial, 17, 0x7F);
}

void mad_transaction(struct roce_trial *trial)
{
    const struct cm_message *answer;
    struct cm_message message;
    uint32_t id = roce_question(trial, &message);

    roce_send_message(trial, &message);
    answer = roce_expect_message(trial, id, CM_REJ);
    JUDGE(trial, answer && answer->transaction_id == message.transaction_id,
          "another transaction ID than the REQ's");
}

/* ---- without a connection ---- */

void rej_nobody(struct roce_trial *trial)
{
    const struct cm_message *answer = &trial->heard.answer.message;
    struct cm_message message;
    uint32_t id = roce_question(trial, &message);

    roce_send_message(trial, &message);
    roce_expect_rej(trial, id, CM_REJ_INVALID_SERVICE_ID, 0);
    JUDGE(trial, answer->rej.message_rejected == CM_ANSWERED_REQ, "message rejected %u; 0 is due",
          answer->rej.message_rejected);
    JUDGE(trial, !answer->rej.local_comm_id, "a local ID, %08x; 0 is due, as there is none",
          answer->rej.local_comm_id);
}

void dreq_unknown(struct roce_trial *trial)
{
    struct cm_message message = { .attribute_id = CM_DREQ, .transaction_id = raw_random() };
    const struct cm_message *answer;

    message.dreq = (struct cm_dreq){ .local_comm_id = raw_comm_id(roce_raw()),
                                     .remote_comm_id = 0x5AA50F01,
                                     .remote_qpn = 77 };
    roce_send_message(trial, &message);
    answer = roce_expect_message(trial, message.dreq.local_comm_id, CM_DREP);
    JUDGE(trial, answer && answer->drep.local_comm_id == message.dreq.remote_comm_id,
          "the IDs of the DREP are not those of the DREQ, crossed");
}

static void silent_ids(struct roce_trial *trial, uint16_t attribute)
{
    struct cm_message message = { .attribute_id = attribute, .transaction_id = raw_random() };
    uint32_t id = raw_comm_id(roce_raw());

    if (attribute == CM_REP)
        message.rep =
            (struct cm_rep){ .local_comm_id = id, .remote_comm_id = 0x5AA50F02, .local_qpn = 99 };
    else
        message.rtu = (struct cm_ids){ id, 0x5AA50F03 };
    roce_send_message(trial, &message);
    roce_expect_silence(trial, id);
}

void ids_unknown(struct roce_trial *trial)
{
    silent_ids(trial, CM_RTU);
    silent_ids(trial, CM_DREP);
}

void rep_unknown(struct roce_trial *trial)
{
    silent_ids(trial, CM_REP);
}

void sidr_nobody(struct roce_trial *trial)
{
    const struct cm_message *answer;
    struct cm_message message;
    uint32_t id = roce_sidr_question(trial, &message);

    roce_send_message(trial, &message);
    answer = roce_expect_message(trial, id, CM_SIDR_REP);
    JUDGE(trial, answer && answer->sidr_rep.status == CM_SIDR_UNSUPPORTED, "status %u; 1 is due",
          answer ? answer->sidr_rep.status : 0);
}

void sidr_repeats(struct roce_trial *trial)
{
    const struct cm_message *answer;
    struct cm_message message;
    uint32_t id = roce_sidr_question(trial, &message);

    for (int i = 0; i < 2; i++) {
        roce_send_message(trial, &message);
        answer = roce_expect_message(trial, id, CM_SIDR_REP);
        JUDGE(trial, answer && answer->sidr_rep.service_id == message.sidr_req.service_id,
              "another service ID than the question's");
    }
}

/* ---- REQ ---- */

void req_accepted(struct roce_trial *trial)
{
    const struct cm_rep *rep = &trial->rep.rep;

    roce_make_req(trial);
    roce_ask(trial);
    JUDGE(trial, rep->local_comm_id, "the REP's local ID is 0");
    JUDGE(trial, rep->local_qpn > BTH_QPN_GSI && rep->local_qpn != BTH_QPN_MULTICAST,
          "the REP's QPN is %06x", rep->local_qpn);
}

void req_depths(struct roce_trial *trial)
{
    const struct cm_rep *rep = &trial->rep.rep;

    roce_make_req(trial);
    trial->req.req.responder_resources = 3;
    trial->req.req.initiator_depth = 2;
    roce_ask(trial);
    if (!trial->base.over)
        note(&trial->base, "responder resources %u, initiator depth %u", rep->responder_resources,
             rep->initiator_depth);
    JUDGE(trial, rep->responder_resources <= 2, "it serves %u Reads at once; 2 are asked for",
          rep->responder_resources);
    JUDGE(trial, rep->initiator_depth <= 3, "it will have %u Reads outstanding; 3 are served",
          rep->initiator_depth);
}

/* The REQ that was made is refused. */
static void refused(struct roce_trial *trial, uint16_t reason, uint16_t tolerated)
{
    roce_send_message(trial, &trial->req);
    roce_expect_rej(trial, trial->req.req.local_comm_id, reason, tolerated);
}

void req_transport(struct roce_trial *trial)
{
    roce_make_req(trial);
    trial->req.req.transport_service_type = CM_TRANSPORT_UC;
    refused(trial, CM_REJ_CONSUMER_DEFINED, CM_REJ_INVALID_TRANSPORT_TYPE);
}

void req_gid(struct roce_trial *trial)
{
    roce_make_req(trial);
    trial->req.req.primary.remote_gid[GID_LEN - 1] ^= 0x55;
    refused(trial, CM_REJ_INVALID_GID, 0);
}

void req_header_version(struct roce_trial *trial)
{
    roce_make_req(trial);
    trial->private_data[0] = 1;
    refused(trial, CM_REJ_CONSUMER_DEFINED, CM_REJ_UNSUPPORTED);
}

void req_ip_version(struct roce_trial *trial)
{
    roce_make_req(trial);
    trial->private_data[1] = 0x50;
    refused(trial, CM_REJ_CONSUMER_DEFINED, CM_REJ_UNSUPPORTED);
}

void req_lids(struct roce_trial *trial)
{
    roce_make_req(trial);
    trial->req.req.primary.local_lid = trial->req.req.primary.remote_lid = 0;
    roce_ask(trial);
}

void req_mtu(struct roce_trial *trial)
{
    const struct cm_message *answer = &trial->heard.answer.message;

    roce_make_req(trial);
    trial->req.req.path_mtu = 5;
    roce_send_message(trial, &trial->req);
    if (trial->base.over)
        return;
    JUDGE(trial, roce_hear_message(trial, trial->req.req.local_comm_id, roce_patience_ms()),
          "no answer; REP or REJ 26 is due");
    if (trial->base.over)
        return;
    if (answer->attribute_id == CM_REP) {
        trial->rep = *answer;
        trial->connected = true;
        note(&trial->base, "it takes path MTU 4096");
        return;
    }
    if (answer->attribute_id == CM_REJ && answer->rej.reason == CM_REJ_INVALID_SERVICE_ID)
        skip(&trial->base, "nobody listens at the service: REJ 8");
    JUDGE(trial, answer->attribute_id == CM_REJ && answer->rej.reason == CM_REJ_INVALID_MTU,
          "neither REP nor REJ 26");
}

/* Whatever it says again belongs to the first. */
void req_duplicate(struct roce_trial *trial)
{
    const struct cm_message *answer = &trial->heard.answer.message;
    uint8_t first[MAD_LEN];

    roce_make_req(trial);
    roce_ask(trial);
    if (trial->base.over)
        return;
    memcpy(first, trial->heard.answer.bth.payload, MAD_LEN);
    roce_send_message(trial, &trial->req);
    while (roce_hear_message(trial, trial->req.req.local_comm_id, 500)) {
        JUDGE(trial, answer->attribute_id == CM_REP, "%s for a REQ that was accepted",
              answer_attribute(answer->attribute_id));
        JUDGE(trial, !memcmp(first, trial->heard.answer.bth.payload, MAD_LEN),
              "another REP for the same REQ");
    }
    roce_send_rtu(trial);
    roce_expect_going_on(trial);
}

void req_stale(struct roce_trial *trial)
{
    uint32_t first = 0;

    roce_connect(trial);
    roce_expect_going_on(trial);
    if (trial->base.over)
        return;
    first = trial->req.req.local_comm_id;
    trial->req.req.local_comm_id = raw_comm_id(roce_raw());
    trial->req.transaction_id = raw_random();
    refused(trial, CM_REJ_STALE_CONN, 0);
    trial->req.req.local_comm_id = first;
}

void rep_repeated(struct roce_trial *trial)
{
    uint8_t first[MAD_LEN];

    roce_make_req(trial);
    roce_ask(trial);
    if (trial->base.over)
        return;
    memcpy(first, trial->heard.answer.bth.payload, MAD_LEN);
    JUDGE(trial, roce_hear_message(trial, trial->req.req.local_comm_id, target.timer_ms),
          "no RTU was sent, and the REP is not repeated within %u ms", target.timer_ms);
    JUDGE(trial, !memcmp(first, trial->heard.answer.bth.payload, MAD_LEN),
          "what is repeated is not the same MAD");
}

/* ---- the start and the end ---- */

void start_psn(struct roce_trial *trial)
{
    roce_connect(trial);
    roce_expect_going_on(trial);
}

void start_before_rtu(struct roce_trial *trial)
{
    roce_make_req(trial);
    roce_ask(trial);
    roce_expect_going_on(trial);
    roce_send_rtu(trial);
    roce_expect_going_on(trial);
}

static void send_dreq(struct roce_trial *trial)
{
    struct cm_message message = { .attribute_id = CM_DREQ,
                                  .transaction_id = trial->req.transaction_id };

    message.dreq = (struct cm_dreq){ trial->req.req.local_comm_id, trial->rep.rep.local_comm_id,
                                     trial->rep.rep.local_qpn };
    roce_send_message(trial, &message);
}

void end_dreq(struct roce_trial *trial)
{
    const struct cm_message *answer;

    roce_connect(trial);
    roce_expect_going_on(trial);
    for (int i = 0; i < 2; i++) {
        send_dreq(trial);
        answer = roce_expect_message(trial, trial->req.req.local_comm_id, CM_DREP);
        JUDGE(trial, answer && answer->drep.local_comm_id == trial->rep.rep.local_comm_id,
              "the DREP's local ID is another");
    }
    if (!trial->base.over)
        trial->connected = false;
}

void end_silent(struct roce_trial *trial)
{
    roce_connect(trial);
    roce_expect_going_on(trial);
    send_dreq(trial);
    roce_expect_message(trial, trial->req.req.local_comm_id, CM_DREP);
    /* Its program moves the QP when it has heard of it. */
    for (int i = 0; i < 20 && !trial->base.over; i++) {
        roce_make(trial, BTH_WRITE_ONLY, NULL, NULL, 0);
        roce_send(trial, RAW_RIGHT);
        trial->psn = bth_psn_add(trial->psn, 1);
        if (!roce_hear(trial, 300))
            return;
    }
    skip(&trial->base, "its program leaves the QP as it is when it is told of the end");
}
