/* SPDX-License-Identifier: BSD-3-Clause */
/* A trial's connection: from REQ to DREP, packets to the peer's QP, its answers. */
#include "roce.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "tools/common/tool.h"

#define FAREWELL_MS 300u

static struct {
    struct raw *raw;
    uint64_t service; /* 0: none is named */
} peer;

struct raw *roce_raw(void)
{
    return peer.raw;
}

uint64_t roce_service(void)
{
    return peer.service;
}

uint32_t roce_patience_ms(void)
{
    return target.patience_ms;
}

/* ---- the peer ---- */

/* HOST, HOST:PORT, [ADDRESS], [ADDRESS]:PORT; an address of IPv6 may stand bare. */
static bool split(const char *name, char host[static 256], uint64_t *port)
{
    const char *colon = strrchr(name, ':');
    bool bracket = name[0] == '[', bare = !bracket && colon && strchr(name, ':') != colon;
    size_t length = strlen(name);

    *port = 0;
    if (colon && !bare && (!bracket || colon[-1] == ']')) {
        if (!tool_parse_number(colon + 1, 1, 65535, port))
            return false;
        length = (size_t)(colon - name);
    }
    if (bracket && (length < 3 || name[length - 1] != ']'))
        return false;
    if (!length || length > 255)
        return false;
    memcpy(host, name + bracket, length);
    host[length - 2 * bracket] = '\0';
    return true;
}

bool roce_open(const char *name)
{
    char host[256], why[RAW_WHY];
    struct raw_way way;
    uint64_t port;

    if (!split(name, host, &port)) {
        tool_error("'%s' is not HOST or HOST:PORT", name);
        return false;
    }
    if (!raw_resolve(host, &way, why) || !raw_open(&way, &peer.raw, why)) {
        tool_error("%s: %s", name, why);
        return false;
    }
    peer.service = port ? NOBODYS_SERVICE | port : 0;
    target.name = name;
    return true;
}

void roce_close(void)
{
    raw_close(peer.raw);
    peer.raw = NULL;
}

/* ---- REQ to DREP ---- */

void roce_make_req(struct roce_trial *trial)
{
    size_t room = CM_REQ_PRIVATE - sizeof(trial->header);
    size_t given = target.private_length < room ? target.private_length : room;

    raw_usual_req(peer.raw, peer.service, &trial->req, &trial->header);
    memcpy(trial->private_data, trial->header.octets, sizeof(trial->header));
    if (given)
        memcpy(trial->private_data + sizeof(trial->header), target.private_data, given);
    trial->req.private_data = trial->private_data;
    trial->req.private_len = (uint32_t)(sizeof(trial->header) + given);
    trial->psn = 0;
    trial->msn = 1;
}

void roce_ask(struct roce_trial *trial)
{
    const struct cm_message *answer = &trial->heard.answer.message;
    char text[ANSWER_TEXT];

    roce_send_message(trial, &trial->req);
    if (trial->base.over)
        return;
    do {
        if (!roce_hear_message(trial, trial->req.req.local_comm_id, roce_patience_ms())) {
            skip(&trial->base, "the REQ is not answered");
            return;
        }
    } while (answer->attribute_id == CM_MRA);
    if (answer->attribute_id != CM_REP) {
        skip(&trial->base, "the service refuses: %s", answer_text(&trial->heard.answer, text));
        return;
    }
    trial->rep = *answer;
    trial->rep.private_data = NULL;
    trial->rep.private_len = 0;
    trial->connected = true;
    trial->psn = answer->rep.starting_psn;
}

void roce_send_rtu(struct roce_trial *trial)
{
    struct cm_message rtu = { .attribute_id = CM_RTU, .transaction_id = trial->req.transaction_id };

    rtu.rtu = (struct cm_ids){ trial->req.req.local_comm_id, trial->rep.rep.local_comm_id };
    roce_send_message(trial, &rtu);
}

void roce_connect(struct roce_trial *trial)
{
    roce_make_req(trial);
    roce_ask(trial);
    roce_send_rtu(trial);
}

static void disconnect(struct roce_trial *trial)
{
    const struct cm_message *answer = &trial->heard.answer.message;
    struct cm_message dreq = { .attribute_id = CM_DREQ,
                               .transaction_id = trial->req.transaction_id };

    dreq.dreq = (struct cm_dreq){ trial->req.req.local_comm_id, trial->rep.rep.local_comm_id,
                                  trial->rep.rep.local_qpn };
    trial->base.over = false;
    raw_send_message(peer.raw, &dreq);
    while (roce_hear_message(trial, trial->req.req.local_comm_id, FAREWELL_MS) &&
           answer->attribute_id != CM_DREP)
        ;
}

void roce_judge(const struct roce_requirement *requirement, struct result *result)
{
    static struct roce_trial trial;
    uint64_t begun = tool_now();

    memset(&trial, 0, sizeof(trial));
    trial.base.requirement = &requirement->row;
    if (requirement->row.needs & NEEDS_SERVICE && !peer.service)
        skip(&trial.base, "no service is named: HOST:PORT, where a program of rdma_cm listens");
    if (requirement->row.needs & NEEDS_IPV4 && !gid_is_ipv4(raw_way_of(peer.raw)->peer))
        skip(&trial.base, "it is about IPv4");
    if (!trial.base.over)
        requirement->judge(&trial);
    *result = (struct result){ .requirement = &requirement->row,
                               .verdict = trial.base.verdict,
                               .sent = trial.base.sent,
                               .received = trial.base.received,
                               .microseconds = (tool_now() - begun) / 1000 };
    memcpy(result->why, trial.base.why, sizeof(result->why));
    if (trial.connected)
        disconnect(&trial);
}

/* ---- packets of the connection ---- */

void roce_make(struct roce_trial *trial, uint8_t operation, const struct bth_packet *bth,
               const void *payload, uint32_t len)
{
    static const struct bth_packet nothing;
    struct bth_packet packet = bth ? *bth : nothing;

    packet.opcode = operation;
    packet.mig_req = packet.ack_req = true;
    packet.p_key = BTH_P_KEY;
    packet.dest_qpn = trial->rep.rep.local_qpn;
    packet.psn = trial->psn;
    trial->out_len = raw_make(trial->out, &packet, payload, len);
}

void roce_set_psn(struct roce_trial *trial, uint32_t psn)
{
    be_put32(trial->out + 8, (be_get32(trial->out + 8) & ~BTH_MASK24) | (psn & BTH_MASK24));
}

void roce_write_nothing(struct roce_trial *trial)
{
    roce_make(trial, BTH_WRITE_ONLY, NULL, NULL, 0);
    roce_send(trial, RAW_RIGHT);
    trial->psn = bth_psn_add(trial->psn, 1);
}

/* What the peer's own program sends is passed over, and a message with this trial's ID. */
bool roce_hear(struct roce_trial *trial, uint32_t ms)
{
    uint64_t deadline = tool_now() + (uint64_t)ms * 1000000u;

    while (!trial->base.over && raw_hear(peer.raw, deadline, &trial->heard)) {
        const struct answer *answer = &trial->heard.answer;

        if (answer->icrc > ANSWER_IDENTIFIED || answer->parsed != BTH_OK || answer->is_message ||
            answer->bth.dest_qpn != trial->req.req.local_qpn || !bth_is_response(answer->bth.op))
            continue;
        record_keep(&trial->base.received, trial->heard.octets, trial->heard.len);
        return true;
    }
    return false;
}

static bool expect_answer(struct roce_trial *trial, const char *what)
{
    char text[ANSWER_TEXT];

    if (trial->base.over)
        return false;
    if (!roce_hear(trial, roce_patience_ms()))
        fail(&trial->base, "no answer; %s is due", what);
    else if (trial->heard.answer.bth.op->kind != BTH_KIND_ACKNOWLEDGE)
        fail(&trial->base, "%s; %s is due", answer_text(&trial->heard.answer, text), what);
    return !trial->base.over;
}

void roce_expect_ack(struct roce_trial *trial, uint32_t psn)
{
    const struct bth_packet *bth = &trial->heard.answer.bth;
    char text[ANSWER_TEXT];

    psn &= BTH_MASK24;
    if (!expect_answer(trial, "an acknowledge"))
        return;
    JUDGE(trial, aeth_is_ack(bth->syndrome), "%s; an acknowledge is due",
          answer_text(&trial->heard.answer, text));
    JUDGE(trial, bth->psn == psn, "acknowledge with PSN %06x; %06x is due", bth->psn, psn);
    JUDGE(trial, bth->msn == (trial->msn & BTH_MASK24), "acknowledge with MSN %u; %u is due",
          bth->msn, trial->msn & BTH_MASK24);
}

void roce_expect_nak(struct roce_trial *trial, uint8_t syndrome, uint8_t tolerated, uint32_t psn)
{
    const struct bth_packet *bth = &trial->heard.answer.bth;
    char text[ANSWER_TEXT];

    psn &= BTH_MASK24;
    if (!expect_answer(trial, "a NAK"))
        return;
    JUDGE(trial, bth->syndrome == syndrome || (tolerated && bth->syndrome == tolerated),
          "%s; NAK %02x is due", answer_text(&trial->heard.answer, text), syndrome);
    JUDGE(trial, bth->psn == psn, "NAK with PSN %06x; %06x is due", bth->psn, psn);
    JUDGE(trial, bth->msn == ((trial->msn - 1) & BTH_MASK24), "NAK with MSN %u; %u is due",
          bth->msn, (trial->msn - 1) & BTH_MASK24);
    if (!trial->base.over && bth->syndrome != syndrome)
        note(&trial->base, "NAK %02x, which is tolerated for %02x", bth->syndrome, syndrome);
}

void roce_expect_going_on(struct roce_trial *trial)
{
    struct record sent = trial->base.sent;
    uint32_t psn = trial->psn;

    roce_write_nothing(trial);
    roce_expect_ack(trial, psn);
    trial->msn++;
    if (!trial->base.over)
        trial->base.sent = sent;
}
