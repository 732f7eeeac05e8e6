/* SPDX-License-Identifier: BSD-3-Clause */
/* What needs memory and requests on the other side: receives, regions, Reads with data, the peer's
 * own messages. */
#include "helper.h"
#include "judges.h"

#include <string.h>

#define RECEIVE 256u /* octets of a receive of the peer's, where it does not matter */

static const uint8_t eight[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* The peer's next connections have so many receives of that length. */
static void prepare(struct trial *trial, unsigned int receives, unsigned int length)
{
    peer_say(trial, "forget");
    peer_say(trial, "config %u %u 8 8 0 -", receives, length);
}

static void connected(struct trial *trial, unsigned int receives, unsigned int length)
{
    prepare(trial, receives, length);
    begin(trial, &usual);
    expect_alive(trial);
}

/* The next completion is a receive of these octets. */
static void expect_received(struct trial *trial, const void *octets, uint32_t length)
{
    struct peer_completion completion = peer_completion(trial);

    REQUIRE(trial, completion.any, "nothing is delivered to the peer's program");
    REQUIRE(trial, completion.received && completion.status == 0,
            "the peer's program gets a %s with status %d", completion.received ? "receive" : "send",
            completion.status);
    REQUIRE(trial, completion.length == length, "%u octets are delivered, %u were sent",
            completion.length, length);
    REQUIRE(trial, !length || !memcmp(completion.octets, octets, length < 512 ? length : 512),
            "other octets are delivered than were sent");
}

/* Octets of a region from `offset` on. */
static void expect_memory(struct trial *trial, char name, unsigned int offset, const void *octets,
                          unsigned int length)
{
    const char *text = peer_say(trial, "memory %c %u %u", name, offset, length);
    uint8_t found[512];

    if (text)
        REQUIRE(trial,
                octets_of(text, found, sizeof(found)) == length && !memcmp(found, octets, length),
                "region %c has %.32s at %u", name, text, offset);
}

/* ---- start-up ---- */

/* IRD and ORD change sides on their way. */
void verbs_pass_up(struct trial *trial)
{
    static const uint8_t data[] = { 0, 5, 0, 3, 'h', 'e', 'l', 'l', 'o' };
    uint8_t frame[STARTUP_MAX], octets[512];
    struct startup reply;
    char name[40] = "", hex[1100] = "";
    const char *text;
    unsigned int ird = 0, ord = 0;

    prepare(trial, 4, RECEIVE);
    dial(trial);
    say(trial, frame, startup_make(frame, false, F_C | F_S, 2, data, sizeof(data)));
    hear_reply(trial, &reply);
    text = peer_say(trial, "event %u", target.patience_ms);
    REQUIRE(trial, text && sscanf(text, "%39s %u %u %1099s", name, &ird, &ord, hex) == 4,
            "the peer's program is told nothing");
    REQUIRE(trial, ird == 3 && ord == 5, "IRD 5, ORD 3 are asked; the program sees %u, %u", ord,
            ird);
    REQUIRE(trial, octets_of(hex, octets, sizeof(octets)) >= 5 && !memcmp(octets, "hello", 5),
            "the private data hello reaches the program as %.40s", hex);
    prepare(trial, 4, RECEIVE);
}

void verbs_reject(struct trial *trial)
{
    struct startup reply;

    peer_say(trial, "forget");
    peer_say(trial, "config 4 64 8 8 1 736f727279");
    ask(trial, &usual);
    hear_reply(trial, &reply);
    REQUIRE(trial, reply.flags & F_R, "the program rejects, the Reply has R=0");
    REQUIRE(trial, reply.enhanced, "the rejecting Reply to an enhanced Request is not enhanced");
    REQUIRE(trial, reply.pd_octets >= 5 && !memcmp(reply.pd, "sorry", 5),
            "the program's private data is not in the rejecting Reply");
    hear_end(trial, target.timer_ms);
    prepare(trial, 4, RECEIVE);
}

/* ---- Sends ---- */

void verbs_no_buffer(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 1, RECEIVE);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, eight, 8));
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 2, 0, eight, 8));
    expect_terminate(trial, 0x1202, 0x1203);
    prepare(trial, 4, RECEIVE);
}

void verbs_offset_beyond(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, RECEIVE + 1, eight, 8));
    expect_terminate(trial, 0x1204, 0x1205, 0x1202);
}

void verbs_offset(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, false, 1, 0, eight, 8));
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 12, eight, 8));
    expect_terminate(trial, 0x1204);
}

void verbs_too_long(struct trial *trial)
{
    static const uint8_t data[RECEIVE + 1];
    uint8_t ulpdu[UNTAGGED_LEN + RECEIVE + 1];

    connected(trial, 4, RECEIVE);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, data, RECEIVE + 1));
    expect_terminate(trial, 0x1205, 0x1202, 0x1204);
}

void verbs_zero_send(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, NULL, 0));
    expect_received(trial, NULL, 0);
    expect_alive(trial);
}

/* Two messages of two segments each; one of the segments is empty. */
void verbs_zero_segment(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, false, 1, 0, NULL, 0));
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, eight, 8));
    expect_received(trial, eight, 8);
    send_ulpdu(trial, ulpdu, put_send(ulpdu, false, 2, 0, eight, 8));
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 2, 8, NULL, 0));
    expect_received(trial, eight, 8);
}

void verbs_deliver(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    for (uint32_t i = 0; i < 3; i++) {
        send_ulpdu(trial, ulpdu, put_send(ulpdu, false, 1 + i, 0, eight + i, 3));
        send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1 + i, 3, eight + i + 3, 2));
    }
    for (uint32_t i = 0; i < 3; i++)
        expect_received(trial, eight + i, 5);
}

void verbs_invalidate(struct trial *trial)
{
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    send_ulpdu(
        trial, ulpdu,
        put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_SEND_INV, 0x7f3b5a77, 0, 1, 0, eight, 8));
    expect_terminate(trial, 0x0100, 0x0109, 0x0209, 0x0200);
}

/* ---- Writes ---- */

/* A Write of eight octets to a region of the peer's, `from` octets behind its start. */
static void write_to(struct trial *trial, char name, uint32_t stag_xor, uint64_t from)
{
    struct peer_region region;
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    region = peer_region_of(trial, name);
    send_ulpdu(trial, ulpdu,
               put_write(ulpdu, true, region.stag ^ stag_xor, region.address + from, eight, 8));
}

void verbs_write_key(struct trial *trial)
{
    write_to(trial, 'W', 0x55, 0);
    expect_terminate(trial, 0x1100);
}

void verbs_write_pd(struct trial *trial)
{
    write_to(trial, 'O', 0, 0);
    expect_terminate(trial, 0x1102, 0x1100, 0x0103);
}

void verbs_write_access(struct trial *trial)
{
    write_to(trial, 'R', 0, 0);
    expect_terminate(trial, 0x1102, 0x1100, 0x0102);
    write_to(trial, 'L', 0, 0);
    expect_terminate(trial, 0x1102, 0x1100, 0x0102);
}

void verbs_write_wrap(struct trial *trial)
{
    struct peer_region region;
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    region = peer_region_of(trial, 'W');
    send_ulpdu(trial, ulpdu, put_write(ulpdu, true, region.stag, UINT64_MAX - 3, eight, 8));
    expect_terminate(trial, 0x1103, 0x1101, 0x1000, 0x0104);
}

void verbs_write_base(struct trial *trial)
{
    write_to(trial, 'W', 0, (uint64_t)-1);
    expect_terminate(trial, 0x1101, 0x0101);
}

void verbs_write_end(struct trial *trial)
{
    write_to(trial, 'W', 0, 4096 - 7);
    expect_terminate(trial, 0x1101, 0x0101);
    write_to(trial, 'W', 0, 4096 - 8); /* and no sooner */
    expect_alive(trial);
    expect_memory(trial, 'W', 4096 - 8, eight, 8);
}

/* Two segments of a Write, a Send between them. */
void verbs_write_segments(struct trial *trial)
{
    struct peer_region region;
    uint8_t ulpdu[64];

    connected(trial, 4, RECEIVE);
    region = peer_region_of(trial, 'W');
    send_ulpdu(trial, ulpdu, put_write(ulpdu, false, region.stag, region.address + 16, eight, 4));
    send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, eight, 8));
    send_ulpdu(trial, ulpdu,
               put_write(ulpdu, true, region.stag, region.address + 20, eight + 4, 4));
    expect_received(trial, eight, 8);
    expect_alive(trial);
    expect_memory(trial, 'W', 16, eight, 8);
}

/* The Send's completion is the first, and the Write's octets are there by then. */
void verbs_write_placed(struct trial *trial)
{
    write_to(trial, 'W', 0, 100);
    if (!trial->over) {
        uint8_t ulpdu[64];

        send_ulpdu(trial, ulpdu, put_send(ulpdu, true, 1, 0, "done", 4));
    }
    expect_received(trial, "done", 4);
    expect_memory(trial, 'W', 100, eight, 8);
}

/* ---- Reads ---- */

static void read_of(struct trial *trial, char name, uint64_t from, uint32_t size)
{
    struct peer_region region;
    uint8_t ulpdu[96];

    connected(trial, 4, RECEIVE);
    region = peer_region_of(trial, name);
    send_ulpdu(trial, ulpdu,
               put_read(ulpdu, trial->link.read_msn++, 0x5100, 0x100, size, region.stag,
                        region.address + from));
}

void verbs_read_pd(struct trial *trial)
{
    read_of(trial, 'O', 0, 8);
    expect_terminate(trial, 0x0103, 0x0100, 0x0102);
}

void verbs_read_access(struct trial *trial)
{
    read_of(trial, 'W', 0, 8);
    expect_terminate(trial, 0x0102, 0x0100);
    read_of(trial, 'L', 0, 8);
    expect_terminate(trial, 0x0102, 0x0100);
}

void verbs_read_wrap(struct trial *trial)
{
    struct peer_region region;
    uint8_t ulpdu[96];

    connected(trial, 4, RECEIVE);
    region = peer_region_of(trial, 'R');
    send_ulpdu(trial, ulpdu, put_read(ulpdu, 2, 7, 8, 8, region.stag, UINT64_MAX - 3));
    expect_terminate(trial, 0x0104, 0x0101);
}

void verbs_read_bounds(struct trial *trial)
{
    read_of(trial, 'R', (uint64_t)-1, 8);
    expect_terminate(trial, 0x0101);
    read_of(trial, 'R', 4096 - 7, 8);
    expect_terminate(trial, 0x0101);
}

/* All of a region, in segments that follow each other; the sink's fields come back. */
void verbs_read_response(struct trial *trial)
{
    uint32_t got = 0;

    read_of(trial, 'R', 0, 4096);
    while (!trial->over && got < 4096 && hear_fpdu(trial)) {
        const struct segment *segment = &trial->segment;

        REQUIRE(trial, segment->op == OP_RESPONSE && segment->stag == 0x5100,
                "opcode %x, STag %08x in the answer to a Read", segment->op, segment->stag);
        REQUIRE(trial, segment->to == 0x100 + got, "TO %llx after %u octets of the answer",
                (unsigned long long)segment->to, got);
        for (uint32_t i = 0; !trial->over && i < segment->payload_length; i++)
            REQUIRE(trial, segment->payload[i] == 0xa5, "octet %u of the answer is %02x", got + i,
                    segment->payload[i]);
        got += segment->payload_length;
        REQUIRE(trial, segment->last == (got == 4096), "L=%d after %u of 4096 octets",
                segment->last, got);
    }
    REQUIRE(trial, got == 4096, "%u octets answer a Read of 4096", got);
}

/* ---- the peer's own messages ---- */

/* The program sends `size` octets; all segments are heard. */
static void hear_message(struct trial *trial, uint8_t op, uint32_t size, uint32_t number)
{
    uint32_t got = 0;
    bool last = false;

    while (!trial->over && !last && hear_fpdu(trial)) {
        const struct segment *segment = &trial->segment;

        REQUIRE(trial, segment->op == op, "opcode %x where %x is due", segment->op, op);
        if (segment->tagged) {
            REQUIRE(trial, segment->stag == 0x5100 && segment->to == 0x100 + got,
                    "STag %08x, TO %llx after %u octets of a Write", segment->stag,
                    (unsigned long long)segment->to, got);
        } else {
            REQUIRE(trial, segment->msn == number && segment->mo == got,
                    "MSN %u, MO %u after %u octets of message %u", segment->msn, segment->mo, got,
                    number);
            REQUIRE(trial, segment->stag == 0, "octets 2 to 5 of a Send are %08x", segment->stag);
        }
        got += segment->payload_length;
        last = segment->last;
    }
    REQUIRE(trial, got == size, "L=1 after %u of %u octets", got, size);
}

void verbs_own_sends(struct trial *trial)
{
    static const unsigned int sizes[] = { 0, 1, 5000, 64 };

    connected(trial, 4, RECEIVE);
    for (uint32_t i = 0; i < 4; i++) {
        peer_say(trial, "send %u plain", sizes[i]);
        hear_message(trial, OP_SEND, sizes[i], i + 1);
    }
}

void verbs_own_writes(struct trial *trial)
{
    static const unsigned int sizes[] = { 1, 5000 };

    connected(trial, 4, RECEIVE);
    for (uint32_t i = 0; i < 2; i++) {
        peer_say(trial, "write %u 5100 100", sizes[i]);
        hear_message(trial, OP_WRITE, sizes[i], 0);
    }
}

/* Before the first FPDU the program's Send waits. */
void verbs_held(struct trial *trial)
{
    prepare(trial, 4, RECEIVE);
    begin(trial, &usual);
    peer_say(trial, "send 8 plain");
    hear_nothing(trial);
    expect_alive(trial);
}

/* The program's Read: a right answer completes it; one that is too short ends the stream. */
static void peer_reads(struct trial *trial, uint32_t size)
{
    connected(trial, 4, RECEIVE);
    peer_say(trial, "read %u 1234 5678", size);
    while (hear_fpdu(trial) && trial->segment.op != OP_READ)
        ;
    REQUIRE(trial,
            trial->segment.op == OP_READ && trial->segment.payload_length == READ_LEN &&
                trial->segment.msn == 1 && trial->segment.mo == 0 && trial->segment.last,
            "the peer's Read Request has MSN %u, MO %u, L=%d, %u octets", trial->segment.msn,
            trial->segment.mo, trial->segment.last, trial->segment.payload_length);
}

static void answer_read(struct trial *trial, uint32_t stag_xor, uint64_t to_plus, uint32_t size)
{
    static const uint8_t data[64];
    const uint8_t *request = trial->segment.payload;
    uint8_t ulpdu[128];

    if (!trial->over)
        send_ulpdu(trial, ulpdu,
                   put_response(ulpdu, true, get32(request) ^ stag_xor,
                                get64(request + 4) + to_plus, data, size));
}

void verbs_own_read(struct trial *trial)
{
    struct peer_completion completion;

    peer_reads(trial, 16);
    REQUIRE(trial,
            get32(trial->segment.payload + 12) == 16 &&
                get32(trial->segment.payload + 16) == 0x1234,
            "the peer's Read Request asks for %u octets of STag %08x",
            get32(trial->segment.payload + 12), get32(trial->segment.payload + 16));
    answer_read(trial, 0, 0, 16);
    completion = peer_completion(trial);
    REQUIRE(trial, completion.any && !completion.received && completion.status == 0,
            "an answered Read does not complete (status %d)", completion.status);
}

void verbs_response_stag(struct trial *trial)
{
    peer_reads(trial, 16);
    answer_read(trial, 0x100, 0, 16);
    expect_terminate(trial, 0x1100, 0x1101);
}

void verbs_response_to(struct trial *trial)
{
    peer_reads(trial, 16);
    answer_read(trial, 0, 4, 16);
    expect_terminate(trial, 0x1101);
}

void verbs_response_over(struct trial *trial)
{
    peer_reads(trial, 16);
    answer_read(trial, 0, 0, 20);
    expect_terminate(trial, 0x1101);
}

void verbs_response_short(struct trial *trial)
{
    peer_reads(trial, 16);
    answer_read(trial, 0, 0, 12);
    expect_terminate(trial, 0x0207, 0x1101);
}
