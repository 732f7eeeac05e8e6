/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up: the Request as the peer reads it, and the Reply that it sends. */
#include "judges.h"

#include "tools/common/tool.h"

#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static struct start start_with(unsigned int flags, unsigned int rev, unsigned int first,
                               unsigned int second)
{
    return (struct start){ .flags = flags, .rev = rev, .first = first, .second = second };
}

/* Revision 1 and no enhanced word. */
static struct start plain(unsigned int flags)
{
    return (struct start){ .flags = flags, .rev = 1, .plain = true };
}

/* A Request as octets, damaged at one place, is answered by the end of the stream alone. */
static void refused_with(struct trial *trial, const struct start *start, size_t at, uint8_t value,
                         const char *what)
{
    uint8_t frame[STARTUP_MAX + 4];
    size_t size = make_request(frame, start);

    frame[at] = value;
    dial(trial);
    say(trial, frame, size);
    hear_refusal(trial, target.patience_ms, what);
}

/* The trial is judged only where the peer accepts the usual Request at all: a listener that wants
 * other private data says nothing about the frame. */
static void ordinary_first(struct trial *trial)
{
    begin(trial, &usual);
}

static void accepted(struct trial *trial, const struct start *start, struct startup *reply,
                     const char *what)
{
    ask(trial, start);
    hear_reply(trial, reply);
    REQUIRE(trial, !(reply->flags & F_R), "%s: the Reply rejects", what);
}

/* ---- what is refused ---- */

/* Three connections at once: nothing, half a Request, a Request without its private data. */
void request_timeout(struct trial *trial)
{
    static const size_t parts[] = { 0, 10, STARTUP_LEN + 2 };
    uint8_t frame[STARTUP_MAX + 4];
    size_t size = make_request(frame, &usual);
    int fds[3];

    for (int i = 0; i < 3; i++) {
        fds[i] = dial_socket(target.patience_ms);
        if (fds[i] < 0)
            unreachable(trial);
        else if (parts[i] && parts[i] < size && send(fds[i], frame, parts[i], MSG_NOSIGNAL) < 0)
            skip(trial, "the peer closes at once");
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] < 0)
            continue;
        link_start(trial, fds[i]);
        hear_refusal(trial, target.timer_ms, i ? "an unfinished Request" : "silence");
    }
}

void request_ends(struct trial *trial)
{
    uint8_t frame[STARTUP_MAX + 4];

    make_request(frame, &usual);
    dial(trial);
    say(trial, frame, 11);
    finish(trial);
    hear_refusal(trial, target.patience_ms, "FIN inside the Request");
    serves(trial);
}

void request_key(struct trial *trial)
{
    refused_with(trial, &usual, 9, 'p', "the key of a Reply");
    refused_with(trial, &usual, 0, 'm', "a key that is wrong in its first octet");
    refused_with(trial, &usual, 15, 'E', "a key that is wrong in its last octet");
}

void request_revision(struct trial *trial)
{
    ordinary_first(trial);
    refused_with(trial, &usual, 17, 3, "revision 3");
    refused_with(trial, &usual, 17, 255, "revision 255");
}

void request_too_long(struct trial *trial)
{
    uint8_t frame[STARTUP_LEN + 600] = { 0 };
    const uint8_t data[513] = { 0, 8, 0, 8 };

    startup_make(frame, false, F_C | F_S, 2, data, 513);
    dial(trial);
    say(trial, frame, STARTUP_LEN + 513);
    hear_refusal(trial, target.patience_ms, "PD_Length 513");
    put16(frame + 18, 0xffff);
    dial(trial);
    say(trial, frame, STARTUP_LEN);
    hear_refusal(trial, target.patience_ms, "PD_Length 65535");
}

void request_no_word(struct trial *trial)
{
    uint8_t frame[STARTUP_MAX];

    for (size_t length = 0; length < 4; length += 2) {
        dial(trial);
        say(trial, frame, startup_make(frame, false, F_C | F_S, 2, "\0\010", length));
        hear_refusal(trial, target.patience_ms, "S=1 without the enhanced word");
    }
}

/* The Request and an FPDU leave together: the peer sees it before it has answered. */
void request_early_data(struct trial *trial)
{
    struct framing framing = { .crc = true, .marker_only = -1 };
    uint8_t frame[STARTUP_MAX + 256], ulpdu[TAGGED_LEN];
    size_t size = make_request(frame, &usual);

    ordinary_first(trial);
    size += fpdu_make(&framing, frame + size, ulpdu, put_write(ulpdu, true, 1, 0, NULL, 0));
    dial(trial);
    say(trial, frame, size);
    hear_refusal(trial, target.patience_ms, "an FPDU behind the Request");
}

/* ---- what is not tested ---- */

void request_reserved(struct trial *trial)
{
    struct start start = start_with(F_C | F_S | 0x0f, 2, 8, 8);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &start, &reply, "reserved bits set, revision 2");
    start = plain(F_C | 0x0f);
    accepted(trial, &start, &reply, "reserved bits set, revision 1");
}

void request_r(struct trial *trial)
{
    struct start start = start_with(F_C | F_S | F_R, 2, 8, 8);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &start, &reply, "R=1 in the Request");
    start = plain(F_C | F_R);
    accepted(trial, &start, &reply, "R=1 in a Request of revision 1");
}

void request_s_of_rev1(struct trial *trial)
{
    struct start start = plain(F_C | F_S);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &start, &reply, "bit 0x10 in a Request of revision 1");
    REQUIRE(trial, reply.rev == 1 && !(reply.flags & F_S),
            "the Reply to revision 1 has revision %u, flags %02x", reply.rev, reply.flags);
}

/* ---- what the Reply answers ---- */

/* 30 Reads of zero length are answered by more than 512 octets, so by two markers at least. */
void request_markers(struct trial *trial)
{
    struct start start = start_with(F_C | F_S | F_M, 2, 8, 8);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &start, &reply, "M=1");
    enter(trial, &reply);
    for (int i = 0; i < 30; i++)
        expect_alive(trial);
}

void request_crc(struct trial *trial)
{
    struct start start = start_with(F_S, 2, 8, 8);
    struct startup reply;

    begin(trial, &usual);
    expect_alive(trial); /* C=1 here: its CRC is right */
    accepted(trial, &start, &reply, "C=0");
    enter(trial, &reply);
    expect_alive(trial);
    if (!trial->over)
        note(trial, "a Request with C=0 is answered with C=%d", !!(reply.flags & F_C));
}

void request_a0(struct trial *trial)
{
    struct start start = start_with(F_C | F_S, 2, W_B | 8, W_C | W_D | 8);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &start, &reply, "A=0 with B, C and D");
    REQUIRE(trial, reply.enhanced && !((reply.first | reply.second) & (W_A | W_B)),
            "the Reply has the enhanced word %04x %04x; A, B, C and D are 0 there", reply.first,
            reply.second);
}

/* A Request that offers these messages; the enhanced word of its Reply. */
static void offer(struct trial *trial, unsigned int first, unsigned int second,
                  struct startup *reply)
{
    struct start start = start_with(F_C | F_S, 2, W_A | first | 8, second | 8);

    accepted(trial, &start, reply, "A=1");
    REQUIRE(trial, reply->enhanced && reply->first & W_A, "the Reply to A=1 has A=0");
    REQUIRE(trial, reply->first & W_B || reply->second & (W_C | W_D),
            "the Reply has A=1 and none of B, C, D");
}

void request_a1(struct trial *trial)
{
    struct startup reply;

    ordinary_first(trial);
    offer(trial, 0, W_C | W_D, &reply);
    REQUIRE(trial, reply.second & (W_C | W_D) || !(reply.first & W_B),
            "C and D are offered, the Reply names B alone");
    offer(trial, W_B, W_C | W_D, &reply);
}

void request_no_rtr(struct trial *trial)
{
    struct startup reply;

    ordinary_first(trial);
    offer(trial, 0, 0, &reply);
}

/* The sum of what was asked and what is answered. */
void request_depths(struct trial *trial)
{
    static const unsigned int asked[][2] = { { 1, 1 }, { 8, 4 }, { 2, 16 }, { 0, 0 } };
    struct startup reply;

    ordinary_first(trial);
    for (size_t i = 0; i < 4; i++) {
        struct start start = start_with(F_C | F_S, 2, asked[i][0], asked[i][1]);

        accepted(trial, &start, &reply, "depths");
        REQUIRE(trial, reply.enhanced, "the Reply has no enhanced word");
        REQUIRE(trial, (reply.second & W_DEPTH) <= asked[i][0],
                "IRD %u is asked, the Reply has ORD %u", asked[i][0], reply.second & W_DEPTH);
        if (!trial->over && (reply.first & W_DEPTH) < asked[i][1])
            note(trial, "ORD %u is asked, the Reply has IRD %u", asked[i][1],
                 reply.first & W_DEPTH);
    }
}

void request_own_depths(struct trial *trial)
{
    struct start start = start_with(F_C | F_S, 2, 8, W_DEPTH);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &start, &reply, "ORD 3FFF");
    REQUIRE(trial, (reply.first & W_DEPTH) == W_DEPTH,
            "the answer to ORD 3FFF is IRD %04x, not 3FFF", reply.first & W_DEPTH);
    start = start_with(F_C | F_S, 2, W_DEPTH, 8);
    accepted(trial, &start, &reply, "IRD 3FFF");
    REQUIRE(trial, (reply.second & W_DEPTH) == W_DEPTH,
            "the answer to IRD 3FFF is ORD %04x, not 3FFF", reply.second & W_DEPTH);
}

/* ---- the Reply's form ---- */

void reply_waits(struct trial *trial)
{
    dial(trial);
    hear_nothing(trial);
}

void reply_key(struct trial *trial)
{
    struct startup reply;

    ask(trial, &usual);
    hear_reply(trial, &reply);
}

void reply_reserved(struct trial *trial)
{
    static const unsigned int set[] = { 0, 0x0f };
    struct startup reply;

    ordinary_first(trial);
    for (int i = 0; i < 2; i++) {
        struct start start = start_with(F_C | F_S | set[i], 2, 8, 8);

        ask(trial, &start);
        hear_reply(trial, &reply);
        REQUIRE(trial, !(reply.flags & 0x0f), "the Reply to flags %02x has flags %02x", start.flags,
                reply.flags);
        start = plain(F_C | set[i]);
        ask(trial, &start);
        hear_reply(trial, &reply);
        REQUIRE(trial, !(reply.flags & 0x1f), "the Reply to flags %02x, revision 1, has flags %02x",
                start.flags, reply.flags);
    }
}

void reply_matches(struct trial *trial)
{
    struct start start = plain(F_C);
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &usual, &reply, "revision 2");
    REQUIRE(trial, reply.enhanced && reply.rev == 2,
            "the Reply to an enhanced Request has revision %u, flags %02x", reply.rev, reply.flags);
    accepted(trial, &start, &reply, "revision 1");
    REQUIRE(trial, reply.rev == 1 && !(reply.flags & F_S),
            "the Reply to revision 1 has revision %u, flags %02x", reply.rev, reply.flags);
}

/* All octets that PD_Length announces are there, and nothing behind them. */
void reply_length(struct trial *trial)
{
    struct startup reply;

    accepted(trial, &usual, &reply, "the usual Request");
    hear_nothing(trial);
}

void reply_one_segment(struct trial *trial)
{
    struct startup reply;

    accepted(trial, &usual, &reply, "the usual Request");
    REQUIRE(trial, trial->link.data_segments <= 1, "the Reply came in %u segments of TCP",
            trial->link.data_segments);
}

void reply_mirrors_a(struct trial *trial)
{
    struct startup reply;

    ordinary_first(trial);
    accepted(trial, &usual, &reply, "A=0");
    REQUIRE(trial, !(reply.first & W_A), "the Reply to A=0 has A=1");
    offer(trial, W_B, W_C | W_D, &reply);
}

void reply_prefers_read(struct trial *trial)
{
    struct startup reply;

    ordinary_first(trial);
    offer(trial, W_B, W_C | W_D, &reply);
    REQUIRE(trial, reply.second & W_D && !(reply.second & W_C) && !(reply.first & W_B),
            "B, C and D are offered, the Reply names%s%s%s and not D alone",
            reply.first & W_B ? " B" : "", reply.second & W_C ? " C" : "",
            reply.second & W_D ? " D" : "");
}

void reply_depths(struct trial *trial)
{
    struct startup reply;

    accepted(trial, &usual, &reply, "the usual Request");
    REQUIRE(trial,
            reply.enhanced && (reply.first & W_DEPTH) >= 1 && (reply.first & W_DEPTH) <= 128 &&
                (reply.second & W_DEPTH) >= 1,
            "asked is IRD 8, ORD 8; the Reply has IRD %u, ORD %u", reply.first & W_DEPTH,
            reply.second & W_DEPTH);
}

void reply_no_markers(struct trial *trial)
{
    struct startup reply;

    accepted(trial, &usual, &reply, "the usual Request");
    REQUIRE(trial, !(reply.flags & F_M),
            "the peer asks for markers; is it a receiver that uses them?");
}

/* ---- the first FPDU ---- */

/* A=1: the connection's first FPDU is `ulpdu`, and is right. */
static void peer_to_peer(struct trial *trial, unsigned int first, unsigned int second,
                         struct startup *reply)
{
    ordinary_first(trial);
    offer(trial, first, second, reply);
    enter(trial, reply);
}

void begin_waits(struct trial *trial)
{
    begin(trial, &usual);
    hear_nothing(trial);
}

/* A Write that is not of zero length, nor what was agreed, would have to be in bounds; a Read of
 * zero length where a Write was agreed needs nothing of the peer. */
void begin_any(struct trial *trial)
{
    struct startup reply;

    peer_to_peer(trial, 0, W_C, &reply);
    expect_alive(trial);
    expect_alive(trial);
}

void begin_read(struct trial *trial)
{
    struct startup reply;

    peer_to_peer(trial, 0, W_D, &reply);
    expect_zero_read(trial, 0, 0, 0, 0); /* MSN 1 */
    expect_alive(trial);                 /* MSN 2 */
}

void begin_send(struct trial *trial)
{
    uint8_t ulpdu[UNTAGGED_LEN];
    struct startup reply;

    peer_to_peer(trial, W_B, 0, &reply);
    if (!trial->over && !(reply.first & W_B))
        skip(trial, "the peer does not take a Send as the first message (Reply without B)");
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, NULL, 0));
    expect_alive(trial);
}

void begin_timeout(struct trial *trial)
{
    struct startup reply;

    peer_to_peer(trial, 0, W_C | W_D, &reply);
    hear_end(trial, target.timer_ms);
}

void begin_terminate(struct trial *trial)
{
    const uint8_t control[4] = { 0x20, 0x07 };
    uint8_t ulpdu[64];
    struct startup reply;

    peer_to_peer(trial, 0, W_C | W_D, &reply);
    send_ulpdu(trial, ulpdu,
               put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_TERMINATE, 0, 2, 1, 0, control, 4));
    hear_end(trial, target.patience_ms);
    serves(trial);
}

void begin_fin(struct trial *trial)
{
    struct startup reply;

    peer_to_peer(trial, 0, W_C | W_D, &reply);
    finish(trial);
    hear_end(trial, target.patience_ms);
    serves(trial);
}

void begin_rst(struct trial *trial)
{
    struct startup reply;

    peer_to_peer(trial, 0, W_C | W_D, &reply);
    reset(trial);
    serves(trial);
}

/* The first FPDU, which is awaited, has a wrong CRC. */
void begin_wrong_crc(struct trial *trial)
{
    uint8_t ulpdu[TAGGED_LEN];
    struct startup reply;

    peer_to_peer(trial, 0, W_C | W_D, &reply);
    trial->link.out.crc_xor = 1;
    send_ulpdu(trial, ulpdu, put_write(ulpdu, true, 1, 0, NULL, 0));
    expect_terminate(trial, 0x2002, 0x0202);
    serves(trial);
}
