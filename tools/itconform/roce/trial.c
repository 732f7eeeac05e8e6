/* SPDX-License-Identifier: BSD-3-Clause */
/* A trial over QP 1: messages out and in, silence. */
#include "roce.h"

#include <string.h>

#include "providers/software/roce/codec/mad.h"
#include "tools/common/tool.h"

/* An answer may be on its way when the one behind it has come. */
#define LATE_MS 30u

static uint64_t in_ms(uint32_t ms)
{
    return tool_now() + (uint64_t)ms * 1000000u;
}

/* ---- out ---- */

void roce_send(struct roce_trial *trial, enum raw_fault fault)
{
    if (trial->base.over)
        return;
    if (!raw_send(roce_raw(), trial->out, trial->out_len, fault)) {
        skip(&trial->base, "this host's kernel does not send the packet");
        return;
    }
    trial->base.sent.total = trial->base.received.total = 0;
    record_keep(&trial->base.sent, trial->out, trial->out_len);
}

void roce_make_mad(struct roce_trial *trial, const void *mad, uint32_t len)
{
    trial->out_len = raw_make_mad(roce_raw(), trial->out, mad, len);
}

void roce_make_message(struct roce_trial *trial, const struct cm_message *message)
{
    uint8_t mad[MAD_LEN] = { 0 };

    if (cm_put(mad, message) != MAD_OK)
        skip(&trial->base, "the message cannot be made");
    roce_make_mad(trial, mad, sizeof(mad));
}

void roce_send_message(struct roce_trial *trial, const struct cm_message *message)
{
    roce_make_message(trial, message);
    roce_send(trial, RAW_RIGHT);
}

/* ---- in ---- */

/* The receiver's ID in a message; 0: it has none. */
static uint32_t named_id(const struct cm_message *message)
{
    switch (message->attribute_id) {
    case CM_MRA: return message->mra.remote_comm_id;
    case CM_REJ: return message->rej.remote_comm_id;
    case CM_REP: return message->rep.remote_comm_id;
    case CM_RTU: return message->rtu.remote_comm_id;
    case CM_DREQ: return message->dreq.remote_comm_id;
    case CM_DREP: return message->drep.remote_comm_id;
    case CM_SIDR_REP: return message->sidr_rep.request_id;
    default: return 0;
    }
}

static bool is_from_peer(const struct raw_heard *heard)
{
    return !memcmp(heard->way.source, raw_way_of(roce_raw())->peer, GID_LEN);
}

/* The next packet of the peer whose ICRC is right. */
static bool hear_any(struct roce_trial *trial, uint64_t deadline)
{
    while (raw_hear(roce_raw(), deadline, &trial->heard))
        if (is_from_peer(&trial->heard) && trial->heard.answer.icrc <= ANSWER_IDENTIFIED &&
            trial->heard.answer.parsed == BTH_OK)
            return true;
    return false;
}

static void keep(struct roce_trial *trial)
{
    record_keep(&trial->base.received, trial->heard.octets, trial->heard.len);
}

bool roce_hear_message(struct roce_trial *trial, uint32_t id, uint32_t ms)
{
    uint64_t deadline = in_ms(ms);

    while (!trial->base.over && hear_any(trial, deadline))
        if (trial->heard.answer.is_message && named_id(&trial->heard.answer.message) == id) {
            keep(trial);
            return true;
        }
    return false;
}

const struct cm_message *roce_expect_message(struct roce_trial *trial, uint32_t id,
                                             uint16_t attribute)
{
    char text[ANSWER_TEXT];

    if (trial->base.over)
        return NULL;
    if (!roce_hear_message(trial, id, roce_patience_ms()))
        fail(&trial->base, "no answer; %s is due", answer_attribute(attribute));
    else if (trial->heard.answer.message.attribute_id != attribute)
        fail(&trial->base, "%s; %s is due", answer_text(&trial->heard.answer, text),
             answer_attribute(attribute));
    return trial->base.over ? NULL : &trial->heard.answer.message;
}

void roce_expect_rej(struct roce_trial *trial, uint32_t id, uint16_t reason, uint16_t tolerated)
{
    const struct cm_message *message = roce_expect_message(trial, id, CM_REJ);

    if (!message || message->rej.reason == reason)
        return;
    if (message->rej.reason == CM_REJ_INVALID_SERVICE_ID) {
        skip(&trial->base, "nobody listens at the service: REJ 8");
        return;
    }
    JUDGE(trial, tolerated && message->rej.reason == tolerated, "REJ %u; %u is due",
          message->rej.reason, reason);
    note(&trial->base, "REJ %u, which is tolerated for %u", message->rej.reason, reason);
}

/* ---- questions ---- */

uint32_t roce_question(struct roce_trial *trial, struct cm_message *message)
{
    raw_usual_req(roce_raw(), NOBODYS_SERVICE, message, &trial->header);
    return message->req.local_comm_id;
}

uint32_t roce_sidr_question(struct roce_trial *trial, struct cm_message *message)
{
    raw_usual_sidr_req(roce_raw(), NOBODYS_SERVICE, message, &trial->header);
    return message->sidr_req.request_id;
}

/* Is it for the trial's QP, or does it name the ID? */
static bool is_answer(const struct roce_trial *trial, uint32_t id)
{
    const struct answer *answer = &trial->heard.answer;

    if (answer->is_message)
        return id && named_id(&answer->message) == id;
    return trial->connected && answer->bth.dest_qpn == trial->req.req.local_qpn &&
           bth_is_response(answer->bth.op);
}

void roce_expect_silence(struct roce_trial *trial, uint32_t id)
{
    struct record sent = trial->base.sent;
    struct raw_header header;
    struct cm_message message;
    uint64_t deadline = in_ms(roce_patience_ms());
    char text[ANSWER_TEXT];
    bool answered = false;
    uint32_t own;

    raw_usual_req(roce_raw(), NOBODYS_SERVICE, &message, &header);
    own = message.req.local_comm_id;
    roce_send_message(trial, &message);
    trial->base.sent = sent;
    while (!trial->base.over && hear_any(trial, deadline)) {
        if (is_answer(trial, id)) {
            keep(trial);
            fail(&trial->base, "%s; silence is due", answer_text(&trial->heard.answer, text));
        } else if (!answered && trial->heard.answer.is_message &&
                   named_id(&trial->heard.answer.message) == own) {
            answered = true;
            deadline = in_ms(LATE_MS);
        }
    }
    JUDGE(trial, answered, "nothing is answered any more, a REQ on QP 1 neither");
}

void roce_expect_alive(struct roce_trial *trial)
{
    roce_expect_silence(trial, 0);
}
