/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping --roce: asks questions of connection management that every receiver of RoCEv2 answers, a
 * REQ for a service that nobody has first, and where nobody answers, asks UDP why.
 */
#include "itping_roce.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

#define RESEND_NS UINT64_C(500000000)
/* rdma_cm's port space of TCP, port 0: nobody can listen there. */
#define NOBODYS_SERVICE UINT64_C(0x01060000)
#define REACH_MS        1000u
#define REACH_LOCAL_MS  50u

/* ---- questions ------------------------------------------------------------------------------- */

static uint32_t make_question(struct raw *raw, enum roce_question question,
                              struct cm_message *message, struct raw_header *header)
{
    switch (question) {
    case ROCE_REQ:
        raw_usual_req(raw, NOBODYS_SERVICE, message, header);
        return message->req.local_comm_id;
    case ROCE_SIDR_REQ:
        raw_usual_sidr_req(raw, NOBODYS_SERVICE, message, header);
        return message->sidr_req.request_id;
    default:
        *message = (struct cm_message){ .attribute_id = CM_DREQ, .transaction_id = raw_random() };
        message->dreq = (struct cm_dreq){ .local_comm_id = raw_comm_id(raw),
                                          .remote_comm_id = (uint32_t)raw_random() | 1,
                                          .remote_qpn = 2 };
        return message->dreq.local_comm_id;
    }
}

/* The ID of the question's sender that an answer names; 0: it is no answer. */
static uint32_t answered_id(const struct cm_message *message)
{
    switch (message->attribute_id) {
    case CM_REJ: return message->rej.remote_comm_id;
    case CM_REP: return message->rep.remote_comm_id;
    case CM_MRA: return message->mra.remote_comm_id;
    case CM_DREP: return message->drep.remote_comm_id;
    case CM_SIDR_REP: return message->sidr_rep.request_id;
    default: return 0;
    }
}

/* Nobody has the service; whoever accepts all the same is told that it was a question. */
static void decline(struct raw *raw, const struct cm_message *rep)
{
    struct cm_message message = { .attribute_id = CM_REJ, .transaction_id = rep->transaction_id };

    message.rej = (struct cm_rej){ .local_comm_id = rep->rep.remote_comm_id,
                                   .remote_comm_id = rep->rep.local_comm_id,
                                   .message_rejected = CM_ANSWERED_REP,
                                   .reason = CM_REJ_CONSUMER_DEFINED };
    raw_send_message(raw, &message);
}

/* One question, repeated until it is answered or the time is over. False: no answer. */
static bool ask(struct raw *raw, enum roce_question question, uint64_t patience_ns,
                struct roce_found *found, struct raw_heard *heard, uint64_t *taken)
{
    uint64_t begun = tool_now(), end = begun + patience_ns, sent;
    struct raw_header header;
    struct cm_message message;
    uint32_t id = make_question(raw, question, &message, &header);

    for (bool again = false; (sent = tool_now()) < end && !atomic_load(&tool_stop); again = true) {
        uint64_t deadline = sent + RESEND_NS < end ? sent + RESEND_NS : end;

        raw_send_message(raw, &message);
        found->resent += again;
        while (raw_hear(raw, deadline, heard)) {
            const struct cm_message *answer = &heard->answer.message;

            if (!heard->answer.is_message || answered_id(answer) != id)
                continue;
            if (answer->attribute_id == CM_REP)
                decline(raw, answer);
            *taken = heard->at - sent;
            return true;
        }
    }
    return false;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Two answers that agree on an address: something has put it in. */
static void compare_addresses(struct roce_found *found, const struct answer *answer)
{
    if (!answer->has_addresses)
        return;
    if (found->icrc == ANSWER_DAMAGED && !memcmp(found->source_if, answer->source_if, 4))
        found->address_translated = true;
    memcpy(found->source_if, answer->source_if, 4);
    memcpy(found->destination_if, answer->destination_if, 4);
}

static void take(struct roce_found *found, const struct raw_heard *heard, uint64_t ns)
{
    const struct answer *answer = &heard->answer;

    answer_text(answer, found->answer);
    if (answer->message.attribute_id == CM_REJ)
        found->reason = answer->message.rej.reason;
    compare_addresses(found, answer);
    if (answer->icrc > found->icrc)
        found->icrc = answer->icrc;
    found->identified += answer->icrc == ANSWER_IDENTIFIED;
    if (answer->icrc == ANSWER_OTHER_PORT)
        found->sent_from = answer->sent_from;
    memcpy(found->from, heard->way.source, GID_LEN);
    found->traffic_class = heard->traffic_class;
    found->hop_limit = heard->hop_limit;
    if (!found->answered || ns < found->least_ns)
        found->least_ns = ns;
    if (ns > found->most_ns)
        found->most_ns = ns;
    found->sum_ns += ns;
    found->answered++;
}

static void show(const struct roce_options *options, const struct roce_found *found, uint64_t ns)
{
    if (options->interval_us && !options->quiet && !options->json) {
        printf("%" PRIu64 ": %s, %.1f us\n", found->asked, found->answer, (double)ns / 1000);
        fflush(stdout);
    }
}

/* The first question that is answered is the one of all rounds. */
static void ask_all(struct raw *raw, const struct roce_options *options, struct roce_found *found)
{
    uint64_t patience = options->timeout_us * 1000, ns;
    static struct raw_heard heard;

    found->question = ROCE_REQ;
    while (!ask(raw, found->question, patience, found, &heard, &ns)) {
        found->asked++;
        if (++found->question == ROCE_QUESTIONS || atomic_load(&tool_stop)) {
            found->question = ROCE_QUESTIONS;
            return;
        }
        patience = options->timeout_us * 500;
    }
    found->asked = 1;
    take(found, &heard, ns);
    show(options, found, ns);
    while (found->asked < options->count && !atomic_load(&tool_stop)) {
        if (options->interval_us && !tool_pause(options->interval_us))
            break;
        found->asked++;
        if (ask(raw, found->question, options->timeout_us * 1000, found, &heard, &ns)) {
            take(found, &heard, ns);
            show(options, found, ns);
        }
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static void ask_udp(struct roce_found *found)
{
    uint32_t ms = found->way.local ? REACH_LOCAL_MS : REACH_MS;

    found->reach_known = true;
    reach_ask(&found->way, GID_UDP_PORT, 0, ms, &found->port);
    if (found->port.what == REACH_SILENT && !found->way.local)
        reach_ask(&found->way, 33434, 0, ms, &found->other);
}

static void find(const struct roce_options *options, struct roce_found *found)
{
    struct raw *raw = NULL;

    /* Before this process has the port itself. */
    if (found->way.local)
        ask_udp(found);
    if (raw_open(&found->way, &raw, found->why))
        ask_all(raw, options, found);
    raw_close(raw);
    if (found->question == ROCE_QUESTIONS && !found->way.local)
        ask_udp(found);
    if (!found->reach_known ||
        (found->port.what != REACH_NO_HOST && found->port.what != REACH_NOT_ASKED)) {
        found->mtu_asked = true;
        reach_mtu(&found->way, found->way.local ? REACH_LOCAL_MS : REACH_MS, &found->mtu);
    }
}

int ping_roce(const struct roce_options *options)
{
    struct roce_found found = { .question = ROCE_QUESTIONS };
    bool printed;

    if (!raw_resolve(options->host, &found.way, found.why)) {
        tool_error("%s", found.why);
        return TOOL_FAILED;
    }
    find(options, &found);
    printed = options->json ? roce_print_json(options, &found) : roce_print(options, &found);
    return printed && roce_reached(&found) ? TOOL_OK : TOOL_FAILED;
}
