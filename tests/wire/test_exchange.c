/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchanges (V-nnn of tests/data/vectors.json) replayed against a QP, in either role, whole and
 * split at every octet of its input: the QP reads the first part before the second is sent.
 * Messages, completions and memory are the same in every case. As a responder the QP sends exactly
 * the octets of the exchange.
 */
#include "tests/softrdma/testbed.h"

#include "script.h"

#include "tests/common/vectors_tc.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define RECEIVES     8
#define RECEIVE_ROOM 1536u
#define OUTPUT_MAX   4096u

#define MEMORY_ACCESS (TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC)

/* Memory of an exchange: its STag there, and the TO of its first octet. */
struct memory {
    uint32_t stag;
    uint64_t base;
    uint64_t value; /* first 8 octets, in host order; 0: those of the Read Responses */
};

#define WORD 0x1122334455667788 /* the initial value of the atomics' target */

static const struct exchange {
    const char *id;
    bool initiator;        /* the QP's role */
    unsigned int received; /* messages */
    struct memory memory;
    uint64_t left; /* used instead of memory.value */
    int event;
} exchanges[] = {
    { "V-01", false, 1, { 0 }, 0, 0 },
    { "V-02", false, 1, { 0 }, 0, 0 },
    { "V-04", false, 1, { 0 }, 0, 0 },
    { "V-05", false, 0, { 0x00bb0022, 0x9000, 0 }, 0, 0 },
    { "V-07", false, 1, { 0 }, 0, 0 },
    { "V-10", false, 0, { 0 }, 0, RI_EVENT_TERMINATE_RECEIVED },
    { "V-11", false, 1, { 0 }, 0, 0 },
    { "V-13", false, 5, { 0 }, 0, 0 },
    { "V-14", false, 1, { 0 }, 0, 0 },
    { "V-16", false, 1, { 0x0000a5c3, 0x100000ff0, 0 }, 0, 0 },
    { "V-17", false, 0, { 0x0badf00d, 0x500000010, 0 }, 0, 0 },
    { "V-19", false, 0, { 0 }, 0, 0 },
    { "V-20", false, 0, { 0 }, 0, RI_EVENT_WRITE_ACCESS },
    { "V-23", false, 1, { 0 }, 0, RI_EVENT_INTEGRITY },
    { "V-25", false, 0, { 0xabcd01, 0x8000, WORD }, 0xaabbccddeeff0099, 0 },
    { "V-26", false, 0, { 0xabcd01, 0x8000, WORD }, WORD, RI_EVENT_REMOTE_OPERATION },
    { "V-28", false, 1, { 0 }, 0, 0 },
    { "V-29", false, 7, { 0 }, 0, 0 },
    { "V-31", false, 3, { 0 }, 0, 0 },
    { "V-01", true, 1, { 0 }, 0, 0 },
    { "V-05", true, 1, { 0x00aa0011, 0x7000, 0 }, 0, 0 },
    { "V-17", true, 0, { 0x00c0ffee, 0x2000, 0 }, 0, 0 },
    { "V-29", true, 1, { 0 }, 0, 0 },
    { "V-32", true, 0, { 0 }, 0, RI_EVENT_TERMINATE_RECEIVED },
    { "V-34", true, 1, { 0 }, 0, 0 },
    { "V-35", true, 1, { 0 }, 0, 0 },
};
#define COUNT (int)(sizeof(exchanges) / sizeof(exchanges[0]))

/* The result of one replay. */
struct outcome {
    struct {
        uint64_t cookie;
        uint32_t status, octets;
    } done[32];
    unsigned int done_count, events;
    int event[4];
    uint16_t code[4];
    uint8_t received[RECEIVES * RECEIVE_ROOM], memory[4096], output[OUTPUT_MAX];
    size_t output_length;
};

struct run {
    const struct exchange *exchange;
    const struct vec_frame *frames;
    size_t frame_count;
    struct testbed *bed;
    struct side side;
    struct region receives, memory, sends;
    int fd, theirs;
    size_t cut, said; /* octets of input: before the split, sent so far */
    uint64_t cookie;
    struct outcome *outcome;
};

static void find(struct run *run, const struct exchange *exchange)
{
    const struct vectors *all = tc_vectors();
    size_t first = 0, end;

    while (first < all->n_frames && strcmp(all->frames[first].exchange, exchange->id))
        first++;
    for (end = first; end < all->n_frames && !strcmp(all->frames[end].exchange, exchange->id);)
        end++;
    ck_assert_uint_gt(end, first);
    run->exchange = exchange;
    run->frames = all->frames + first;
    run->frame_count = end - first;
}

static bool ours(const struct run *run, const struct vec_frame *frame)
{
    return (frame->dir == 'I') == run->exchange->initiator;
}

static uint64_t field(const struct vec_frame *frame, const char *name, uint64_t otherwise)
{
    uint64_t value;

    return vec_field(&frame->fields, name, &value) ? value : otherwise;
}

/* ---- octets with the STags and addresses of this run ---- */

static void put(uint8_t *at, uint64_t value, size_t octets)
{
    for (size_t i = 0; i < octets; i++)
        at[i] = (uint8_t)(value >> 8 * (octets - 1 - i));
}

/* Replaces the STag at this offset of the ULPDU, and the TO behind it. */
static bool patch(const struct run *run, uint8_t *ulpdu, size_t at)
{
    const struct memory *memory = &run->exchange->memory;
    uint8_t stag[4];
    uint64_t to = 0;

    put(stag, memory->stag, 4);
    if (!memory->stag || memcmp(ulpdu + at, stag, 4))
        return false;
    for (size_t i = 0; i < 8; i++)
        to = to << 8 | ulpdu[at + 4 + i];
    put(ulpdu + at, run->memory.keys.rkey, 4);
    put(ulpdu + at + 4, (uintptr_t)run->memory.octets + (to - memory->base), 8);
    return true;
}

static struct octets input(const struct run *run, const struct vec_frame *frame)
{
    struct octets ulpdu = octets(frame->ulpdu.p, frame->ulpdu.len);
    uint64_t opcode = field(frame, "opcode", 99);
    bool changed = false;

    if (opcode == 0 || opcode == 2)
        changed = patch(run, ulpdu.at, 2);
    else if (opcode == 1)
        changed = patch(run, ulpdu.at, 34);
    else if (opcode == 10)
        changed = patch(run, ulpdu.at, 26);
    if (opcode == 3 && field(frame, "MSN", 0) == 6 && frame->payload.len == 33) {
        ulpdu.at[13] = 3; /* V-31: the capture lacks some */
        changed = true;
    }
    return changed ? fpdu(ulpdu.at, ulpdu.length) : octets(frame->bytes.p, frame->bytes.len);
}

/* ---- one replay ---- */

static struct ri_llp_handover handover_of(const struct run *run)
{
    const struct vec_frame *request = &run->frames[0], *reply = &run->frames[1];
    const struct vec_frame *mine = run->exchange->initiator ? request : reply;
    const struct vec_frame *peers = run->exchange->initiator ? reply : request;
    bool p2p = field(reply, "A", 0);

    return (struct ri_llp_handover){
        .mpa_revision = (uint8_t)field(reply, "Rev", 1),
        .crc = field(request, "C", 0) || field(reply, "C", 0),
        .markers_transmit = field(peers, "M", 0),
        .markers_receive = field(mine, "M", 0),
        .rtr_await = p2p,
        .rtr_send = p2p && field(reply, "D", 0) ? RI_RTR_READ : RI_RTR_NONE,
        .ird = 8,
        .ord = 8,
    };
}

static bool unread(const struct run *run)
{
    int octets = 0;

    return !ioctl(run->theirs, FIONREAD, &octets) && octets;
}

static void say_part(struct run *run, const uint8_t *at, size_t length)
{
    if (length && send(run->fd, at, length, MSG_NOSIGNAL) < 0)
        return; /* it has ended already */
    ck_assert(fake_host_until(&run->bed->fake, !unread(run), TESTBED_TIMEOUT));
    testbed_passes(run->bed, 6);
}

/* One call for octets of several frames; the split may be inside them. */
static void say_chunk(struct run *run, const uint8_t *at, size_t length)
{
    size_t first = length;

    if (run->cut > run->said && run->cut < run->said + length)
        first = run->cut - run->said;
    say_part(run, at, first);
    if (first < length)
        say_part(run, at + first, length - first);
    run->said += length;
}

static void hear_more(struct run *run)
{
    struct outcome *o = run->outcome;
    ssize_t n = recv(run->fd, o->output + o->output_length, OUTPUT_MAX - o->output_length,
                     MSG_DONTWAIT);

    o->output_length += n > 0 ? (size_t)n : 0;
}

/* A frame that the QP's consumer causes. The zero-length Reads and Writes of the exchanges start
 * connections. */
static void act(struct run *run, const struct vec_frame *frame)
{
    uint64_t opcode = field(frame, "opcode", 99), size = field(frame, "RDMARDSZ", 0);

    if (opcode == 3) {
        memcpy(run->sends.octets, frame->payload.p, frame->payload.len);
        side_send(&run->side, ++run->cookie + 100,
                  region_sge(&run->sends, 0, (uint32_t)frame->payload.len));
    } else if (opcode == 1 && size && run->exchange->initiator) {
        side_read(&run->side, ++run->cookie + 100, region_sge(&run->memory, 0, (uint32_t)size),
                  0x1000, 77);
    }
}

/* As a responder: the QP sends this frame next, octet for octet. */
static void expect_frame(struct run *run, const struct vec_frame *frame, size_t *heard)
{
    struct outcome *o = run->outcome;

    ck_assert_msg(fake_host_until(&run->bed->fake,
                                  (hear_more(run), o->output_length >= *heard + frame->bytes.len),
                                  TESTBED_TIMEOUT),
                  "%s, cut %zu: an answer is missing", run->exchange->id, run->cut);
    ck_assert_msg(!memcmp(o->output + *heard, frame->bytes.p, frame->bytes.len),
                  "%s, cut %zu: other octets at %zu: %02x%02x%02x%02x…", run->exchange->id,
                  run->cut, *heard, o->output[*heard + 18], o->output[*heard + 19],
                  o->output[*heard + 20], o->output[*heard + 21]);
    *heard += frame->bytes.len;
}

static void play(struct run *run)
{
    uint8_t chunk[4096];
    size_t length = 0, heard = 0;

    for (size_t i = 2; i < run->frame_count; i++) {
        const struct vec_frame *frame = &run->frames[i];
        struct octets one;

        if (frame->kind != VEC_FPDU) {
            if (!ours(run, frame)) {
                say_chunk(run, chunk, length);
                length = 0;
                shutdown(run->fd, SHUT_WR);
                testbed_passes(run->bed, 6);
            }
            continue;
        }
        if (!ours(run, frame)) {
            one = input(run, frame);
            memcpy(chunk + length, one.at, one.length);
            length += one.length;
            continue;
        }
        say_chunk(run, chunk, length);
        length = 0;
        act(run, frame);
        testbed_passes(run->bed, 6);
        if (!run->exchange->initiator)
            expect_frame(run, frame, &heard);
    }
    say_chunk(run, chunk, length);
}

static void note(struct run *run, struct ri_cq *cq)
{
    struct outcome *o = run->outcome;
    struct ri_wc wc;

    while (run->bed->fake.user.poll(cq, 1, &wc) == 1) {
        ck_assert_uint_lt(o->done_count, 32);
        o->done[o->done_count].cookie = wc.cookie;
        o->done[o->done_count].status = (uint32_t)wc.status;
        o->done[o->done_count++].octets = wc.status == RI_WC_SUCCESS ? wc.byte_len : 0;
    }
}

/* V-17 is written for a MULPDU of 128, the smallest there is. */
static int exchange_maxseg(const struct exchange *exchange)
{
    return strcmp(exchange->id, "V-17") ? 0 : 128;
}

static void set_up(struct run *run)
{
    static const struct shape shape = { .atomics = true };
    int fds[2];

    side_open(run->bed, &run->side, &shape);
    run->receives = region_new(&run->side, RECEIVES * RECEIVE_ROOM, TESTBED_ALL);
    run->sends = region_new(&run->side, 4096, TESTBED_ALL);
    run->memory = region_new(&run->side, 4096, MEMORY_ACCESS);
    for (uint32_t i = 0; i < RECEIVES; i++)
        side_receive(&run->side, i, region_sge(&run->receives, i * RECEIVE_ROOM, RECEIVE_ROOM));
    if (run->exchange->memory.value)
        memcpy(run->memory.octets, &run->exchange->memory.value, 8);
    else if (!run->exchange->initiator)
        for (size_t i = 2, used = 0; i < run->frame_count; i++)
            if (field(&run->frames[i], "opcode", 99) == 2) {
                memcpy(run->memory.octets + used, run->frames[i].payload.p,
                       run->frames[i].payload.len);
                used += run->frames[i].payload.len;
            }
    testbed_tcp(fds, exchange_maxseg(run->exchange));
    run->theirs = fds[0];
    run->fd = fds[1];
    fake_host_listen(&run->bed->fake, run->fd);
}

static void replay(struct testbed *bed, const struct exchange *exchange, size_t cut,
                   struct outcome *outcome, size_t *octets_said)
{
    struct run run = { .bed = bed, .cut = cut, .outcome = outcome };
    struct ri_llp_handover handover;

    memset(outcome, 0, sizeof(*outcome));
    find(&run, exchange);
    set_up(&run);
    handover = handover_of(&run);
    side_start(&run.side, run.theirs, exchange->initiator, &handover);
    testbed_passes(run.bed, 6);
    play(&run);
    hear_more(&run);
    note(&run, run.side.recv_cq);
    note(&run, run.side.send_cq);
    outcome->events = atomic_load(&run.side.events.count);
    ck_assert_uint_le(outcome->events, 4);
    for (unsigned int i = 0; i < outcome->events; i++) {
        outcome->event[i] = run.side.events.type[i];
        outcome->code[i] = run.side.events.code[i];
    }
    memcpy(outcome->received, run.receives.octets, sizeof(outcome->received));
    memcpy(outcome->memory, run.memory.octets, sizeof(outcome->memory));
    if (exchange->initiator) /* it contains the STags of this run */
        memset(outcome->output, 0, sizeof(outcome->output));
    *octets_said = run.said;

    close(run.fd);
    side_modify(&run.side, RI_QPS_ERROR);
    testbed_passes(run.bed, 6);
    side_close(&run.side);
}

/* ---- the outcome that the exchange implies ---- */

/* The zero-length Send that starts a connection is not delivered (C-043). */
static bool hidden(const struct run *run, const struct vec_frame *frame)
{
    return !strcmp(run->exchange->id, "V-07") && field(frame, "MSN", 0) == 1;
}

/* Payloads are in their places. A message ends with L=1; each has a receive of its own. */
static void judge_memory(const struct run *run, const struct outcome *o)
{
    unsigned int slot = 0;

    for (size_t i = 2; i < run->frame_count; i++) {
        const struct vec_frame *frame = &run->frames[i];
        uint64_t opcode = field(frame, "opcode", 99);
        const uint8_t *at = NULL;

        if (frame->kind != VEC_FPDU || ours(run, frame))
            continue;
        if (opcode == 3 && slot < run->exchange->received)
            at = o->received + slot * RECEIVE_ROOM + field(frame, "MO", 0);
        else if ((opcode == 0 || opcode == 2) && run->exchange->memory.stag)
            at = o->memory + (field(frame, "TO", 0) - run->exchange->memory.base);
        if (at)
            ck_assert_msg(!memcmp(at, frame->payload.p, frame->payload.len),
                          "%s: frame %zu is not in memory", frame->exchange, i);
        if (opcode == 3 && field(frame, "L", 0) && !hidden(run, frame))
            slot++;
    }
}

static void judge(const struct exchange *exchange, const struct outcome *o)
{
    struct run run = { 0 };
    unsigned int received = 0;
    uint64_t value;

    find(&run, exchange);
    judge_memory(&run, o);
    for (unsigned int i = 0; i < o->done_count; i++) {
        if (o->done[i].cookie >= RECEIVES || o->done[i].status != RI_WC_SUCCESS)
            continue;
        ck_assert_uint_eq(o->done[i].cookie, received); /* in order, once */
        received++;
    }
    ck_assert_uint_eq(received, exchange->received);
    if (exchange->event) {
        ck_assert_uint_eq(o->events, 1);
        ck_assert_int_eq(o->event[0], exchange->event);
    }
    for (unsigned int i = 0; i < o->events && !exchange->event;
         i++) /* one event for the begin, one for the end */
        ck_assert_msg(o->event[i] == RI_EVENT_ESTABLISHED || o->event[i] == RI_EVENT_LLP_CLOSED,
                      "%s: event %d, code %04x", exchange->id, o->event[i], o->code[i]);
    memcpy(&value, o->memory, 8);
    if (exchange->memory.value)
        ck_assert_uint_eq(value, exchange->left);
}

static void same(const struct exchange *exchange, size_t cut, const struct outcome *want,
                 const struct outcome *got)
{
    ck_assert_msg(!memcmp(want, got, sizeof(*want)),
                  "%s cut at %zu: %u completions, %u events, %zu octets said; whole: %u, %u, %zu",
                  exchange->id, cut, got->done_count, got->events, got->output_length,
                  want->done_count, want->events, want->output_length);
}

START_TEST(C047_any_split_of_an_exchange)
{
    static struct outcome whole, cut_one;
    const struct exchange *exchange = &exchanges[_i];
    struct testbed bed;
    size_t total, ignored, stride = tc_count(10) < 10 ? 7 : 1;

    testbed_open(&bed, NULL);
    replay(&bed, exchange, 0, &whole, &total);
    judge(exchange, &whole);
    ck_assert_uint_gt(total, 0);
    for (size_t cut = 1; cut < total; cut += stride) {
        replay(&bed, exchange, cut, &cut_one, &ignored);
        same(exchange, cut, &whole, &cut_one);
    }
    testbed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchanges");
    TCase *splits = tc_case(suite, "any split gives the same", NULL, NULL);

    tcase_set_timeout(splits, 60);
    tcase_add_loop_test(splits, C047_any_split_of_an_exchange, 0, COUNT);
    return tc_main(suite);
}
