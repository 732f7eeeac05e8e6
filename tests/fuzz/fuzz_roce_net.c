/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What roce/net reads beyond packets, as pure functions. The first octet chooses: the socket that a
 * datagram goes to, against the program for the kernel run here; a question and an answer between
 * processes; what two say to connect queue pairs by memory; what one passes on to another of QP 1;
 * packets to QP 1; control messages; identifications; a line of the kernel's list of sockets.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/be.h"
#include "providers/software/roce/net/control.h"
#include "providers/software/roce/net/holder.h"
#include "providers/software/roce/net/ids.h"
#include "providers/software/roce/net/meet_message.h"
#include "providers/software/roce/net/pass_message.h"
#include "providers/software/roce/net/share_message.h"
#include "providers/software/roce/net/steer.h"

struct machine {
    const uint8_t *packet;
    size_t len;
    uint32_t a;
    bool ended; /* A load beyond the packet: the program returns 0 */
};

static void load(struct machine *machine, const struct sock_filter *at)
{
    uint32_t octets = BPF_SIZE(at->code) == BPF_W ? 4 : 2;

    FUZZ_CHECK(BPF_MODE(at->code) == BPF_ABS);
    machine->ended = at->k > machine->len || machine->len - at->k < octets;
    if (machine->ended)
        machine->a = 0;
    else
        machine->a = octets == 4 ? be_get32(machine->packet + at->k)
                                 : be_get16(machine->packet + at->k);
}

static uint32_t jump(const struct machine *machine, const struct sock_filter *at)
{
    switch (BPF_OP(at->code)) {
    case BPF_JA: return at->k;
    case BPF_JEQ: return machine->a == at->k ? at->jt : at->jf;
    case BPF_JGT: return machine->a > at->k ? at->jt : at->jf;
    case BPF_JGE: return machine->a >= at->k ? at->jt : at->jf;
    default: FUZZ_CHECK(!"an instruction that is not known"); return 0;
    }
}

static uint32_t run(const struct sock_filter *program, uint32_t n, const uint8_t *packet,
                    size_t len)
{
    struct machine machine = { packet, len, 0, false };

    for (uint32_t pc = 0; pc < n; pc++) {
        const struct sock_filter *at = &program[pc];

        switch (BPF_CLASS(at->code)) {
        case BPF_LD: load(&machine, at); break;
        case BPF_ALU: machine.a &= at->k; break;
        case BPF_JMP: pc += jump(&machine, at); break;
        default: return BPF_RVAL(at->code) == BPF_A ? machine.a : at->k;
        }
        if (machine.ended)
            return 0;
    }
    FUZZ_CHECK(!"the program has no end");
    return 0;
}

/* Each slot's filter takes what the choice gives the slot, and nothing else; it has the UDP header
 * in front. What lacks an octet of the choice goes to nobody. */
static void filters(uint32_t slots, uint32_t slot, const uint8_t *packet, size_t len)
{
    static uint8_t whole[8 + (1u << 16)];
    struct sock_filter program[STEER_PROGRAM_MAX];
    uint32_t n = steer_filter(program, slots, slot), taken;

    if (len > sizeof(whole) - 8)
        return;
    memcpy(whole + 8, packet, len);
    FUZZ_CHECK(n <= STEER_PROGRAM_MAX);
    taken = run(program, n, whole, len + 8);
    FUZZ_CHECK(!taken || taken == UINT32_MAX);
    if (taken || len >= 52)
        FUZZ_CHECK(!taken == (steer_pick(packet, len, slots) != slot));
}

static void steers(uint32_t slots, const uint8_t *packet, size_t len)
{
    struct sock_filter program[STEER_PROGRAM_MAX];
    uint32_t n = steer_program(program, slots), index = steer_pick(packet, len, slots);

    FUZZ_CHECK(n <= STEER_PROGRAM_MAX && index <= slots);
    FUZZ_CHECK(run(program, n, packet, len) == index);
    for (uint32_t slot = 0; slot < slots; slot++)
        filters(slots, slot, packet, len);
}

static void asks(const uint8_t *octets, size_t len)
{
    uint8_t again[SHARE_QUESTION_LEN];
    struct share_question question;

    if (!share_get_question(octets, len, &question))
        return;
    FUZZ_CHECK(len == SHARE_QUESTION_LEN);
    share_put_question(again, &question, octets + len - SHARE_RANDOM_LEN);
    FUZZ_CHECK(!memcmp(again, octets, len));
}

static void answers(const uint8_t *octets, size_t len)
{
    uint8_t again[SHARE_ANSWER_LEN];
    struct share_answer answer;

    if (!share_get_answer(octets, len, &answer))
        return;
    FUZZ_CHECK(answer.count <= SHARE_FDS_MAX && answer.has == (answer.count > 0));
    share_put_answer(again, &answer);
    FUZZ_CHECK(len == sizeof(again) && !memcmp(again, octets, len));
}

static void meets(const uint8_t *octets, size_t len)
{
    uint8_t again[MEET_LEN];
    struct meet_message message;

    if (!meet_get(octets, len, &message))
        return;
    FUZZ_CHECK(len == MEET_LEN && message.reason < MEET_REASONS);
    FUZZ_CHECK((message.kind == MEET_NO) == (message.reason != MEET_NO_REASON));
    meet_put(again, &message);
    FUZZ_CHECK(!memcmp(again, octets, len)); /* there is one form of each */
}

/* A MAD that is taken is one, and goes somewhere. */
static void is_a_mad(const struct gsi_mad *mad)
{
    struct mad_header header;

    FUZZ_CHECK(mad_check(mad->octets, MAD_LEN, &header) == MAD_OK);
    FUZZ_CHECK(header.attribute_id == mad->attribute_id && mad->source_qpn <= BTH_MASK24);
    if (gsi_kind_of(mad) == GSI_REQUEST)
        (void)gsi_service_id(mad);
    if (gsi_kind_of(mad) == GSI_LEAVE)
        (void)gsi_remote_id(mad);
    FUZZ_CHECK(gsi_route(mad) == gsi_route(mad));
}

static void passes_on(const uint8_t *octets, size_t len)
{
    uint32_t records = pass_records(octets, len);
    uint8_t again[PASS_RECORD_LEN];
    struct gsi_mad mad;

    FUZZ_CHECK(records <= PASS_RECORDS && (!records || len == PASS_LEN(records)));
    for (uint32_t i = 0; i < records; i++) {
        const uint8_t *record = octets + PASS_LEN(i);

        if (!pass_get(record, &mad))
            continue;
        is_a_mad(&mad);
        pass_put(again, &mad);
        FUZZ_CHECK(!memcmp(again, record, 36) && !memcmp(again + 37, record + 37, 7));
        FUZZ_CHECK(!memcmp(again + 48, record + 48, MAD_LEN));
    }
}

/* The ICRC's octets are there, of any value. What comes by the ID of a slot is no request. */
static void takes(const uint8_t *octets, size_t len)
{
    struct bth_packet packet;
    struct gsi_mad mad = { .octets = NULL };

    if (bth_parse(octets, len, &packet) != BTH_OK || !gsi_get(&packet, &mad))
        return;
    FUZZ_CHECK(len == BTH_LEN + BTH_DETH_LEN + MAD_LEN + BTH_ICRC_LEN);
    FUZZ_CHECK(mad.octets == octets + BTH_LEN + BTH_DETH_LEN);
    is_a_mad(&mad);
    if (steer_pick(octets, len, 128) < 128)
        FUZZ_CHECK(gsi_kind_of(&mad) == GSI_OTHER);
}

/* What a cut list says, the whole one says or contradicts by a later message, but never before. */
static void controls(const uint8_t *octets, size_t len)
{
    struct control control;
    struct control_error error = { 0 };

    control_read(octets, len, &control);
    FUZZ_CHECK(control.has_overflow || !control.overflow);
    if (control_read_error(octets, len, &error))
        FUZZ_CHECK(error.error >= 0 && error.error <= 4095);
}

/* Written a second time, without guesses. */
static void identifies(struct reader *reader)
{
    struct ids_peer peer = { .counts = false };
    bool counts = false;
    uint16_t last = 0;

    while (reader->left) {
        uint16_t id = read16(reader), ahead = (uint16_t)(id - last);
        bool near = !counts || (ahead > 0 && ahead <= IDS_AHEAD);
        bool own = id < IDS_OWN, behind = counts && (uint16_t)(last - id) < IDS_BEHIND;
        bool accepted = ids_accept(&peer, id);

        if (own || near || behind)
            FUZZ_CHECK(accepted);
        if ((near && (counts || !own)) || (accepted && !own && !behind)) {
            counts = true;
            last = id;
        }
        FUZZ_CHECK(peer.counts == counts && (!counts || peer.last == last));
        FUZZ_CHECK(peer.far_count < IDS_RESYNCHRONISE || accepted);
    }
}

/* Only that user of a socket at that address and port is found in it. */
static void lists(bool ipv6, const uint8_t *octets, size_t len)
{
    struct holder holder, found;

    if (!holder_get((const char *)octets, len, ipv6, &holder))
        return;
    FUZZ_CHECK(len > (ipv6 ? 37u : 13u) && (ipv6 || gid_is_ipv4(holder.gid)));
    FUZZ_CHECK(holder_of(&holder, 1, holder.user, holder.gid, &found) == HOLDER_OWN);
    FUZZ_CHECK(holder_of(&holder, 1, ~holder.user, holder.gid, &found) == HOLDER_OTHER);
    FUZZ_CHECK(found.user == holder.user && found.udp_port == holder.udp_port);
    if (!holder_is_wildcard(&found)) {
        uint8_t next[GID_LEN];

        memcpy(next, found.gid, GID_LEN);
        next[GID_LEN - 1] ^= 1;
        FUZZ_CHECK(holder_of(&found, 1, found.user, next, &holder) == HOLDER_NOBODY);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = { data, size };
    uint8_t choice = read8(&reader);

    switch (choice & 15u) {
    case 0: steers(8u << (choice >> 4) % 5u, reader.p, reader.left); break;
    case 1: asks(reader.p, reader.left); break;
    case 2: answers(reader.p, reader.left); break;
    case 3: controls(reader.p, reader.left); break;
    case 5: passes_on(reader.p, reader.left); break;
    case 6: meets(reader.p, reader.left); break;
    case 7: takes(reader.p, reader.left); break;
    case 8: lists(choice & 16u, reader.p, reader.left); break;
    default: identifies(&reader); break;
    }
    return 0;
}
