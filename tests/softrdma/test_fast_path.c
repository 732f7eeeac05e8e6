/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of receive (rx_fast.c) behaves like the general path. The same frames go over two
 * connections: once unchanged, and once with reserved bits set, which receivers ignore (C-059,
 * C-061) and which select the general path. What the consumer sees (completions, memory, counters,
 * the end and its Terminate) must be the same.
 */
#include "one_qp.h"

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/wire_iwarp.h"

#define DEPTH   12u
#define RECEIVE 4096u /* octets of a receive with one element */
#define TARGET  16384u
#define GOES_ON (-1)
#define RESERVED   \
    {              \
        0x20, 0x10 \
    } /* of the DDP and of the RDMAP control octet */

enum { STRAIGHT, GENERAL, WAYS };

/* What a consumer can see of a connection. */
struct seen {
    uint32_t completions;
    struct ri_wc wc[DEPTH];
    uint8_t received[DEPTH][RECEIVE];
    uint8_t target[TARGET];
    uint16_t terminate;
    uint64_t counters[16];
    uint32_t sent_completions; /* Reads */
    struct ri_wc sent[DEPTH];
    struct answer { /* FPDUs that the side sent */
        enum rdmap_opcode opcode;
        bool last;
        uint32_t octets;
        uint8_t payload[512]; /* of Read Responses */
    } answers[DEPTH];
};

/* One connection, and what is sent over it. */
struct scene {
    int way;
    struct shape shape;
    struct region memory, target, read_only;
    uint8_t wire[300000];
    size_t length;
    uint32_t msn;
    uint32_t answers; /* FPDUs that come back, without a Terminate */
};

static struct scene scene;
static struct seen seen[WAYS];

/* ---- frames ---- */

static uint8_t *frame_begin(uint8_t ddp, uint8_t rdmap)
{
    static const uint8_t reserved[2] = RESERVED;
    uint8_t *ulpdu = scene.wire + scene.length + MPA_HDR_LEN;

    ulpdu[0] = (uint8_t)(ddp | (scene.way == GENERAL ? reserved[0] : 0));
    ulpdu[1] = (uint8_t)(rdmap | (scene.way == GENERAL ? reserved[1] : 0));
    return ulpdu;
}

static void frame_end(uint32_t ulpdu_len)
{
    uint8_t *at = scene.wire + scene.length;
    uint32_t length = MPA_HDR_LEN + ulpdu_len;

    mpa_put_len(at, ulpdu_len);
    length += mpa_put_trailer(at + length, ulpdu_len, crc32c(0, at, length), true);
    scene.length += length;
    ck_assert_uint_lt(scene.length, sizeof(scene.wire));
}

static void fill(uint8_t *octets, uint32_t length, uint32_t seed)
{
    for (uint32_t i = 0; i < length; i++)
        octets[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void put_untagged(enum rdmap_opcode opcode, bool last, uint32_t qn, uint32_t msn,
                         uint32_t mo, uint32_t length)
{
    uint8_t *ulpdu = frame_begin((uint8_t)(DDP_VERSION | (last ? DDP_CTRL_L : 0)),
                                 rdmap_ctrl(opcode));

    be_put32(ulpdu + 2, 0);
    be_put32(ulpdu + 6, qn);
    be_put32(ulpdu + 10, msn);
    be_put32(ulpdu + 14, mo);
    fill(ulpdu + DDP_UNTAGGED_LEN, length, msn + mo);
    frame_end(DDP_UNTAGGED_LEN + length);
}

static void put_send(uint32_t length)
{
    put_untagged(RDMAP_SEND, true, DDP_QN_SEND, scene.msn++, 0, length);
}

static void put_write(uint32_t stag, uint64_t to, uint32_t length, bool last)
{
    uint8_t *ulpdu = frame_begin((uint8_t)(DDP_CTRL_T | DDP_VERSION | (last ? DDP_CTRL_L : 0)),
                                 rdmap_ctrl(RDMAP_WRITE));

    be_put32(ulpdu + 2, stag);
    be_put64(ulpdu + 6, to);
    fill(ulpdu + DDP_TAGGED_LEN, length, (uint32_t)(to - (uintptr_t)scene.target.octets) + length);
    frame_end(DDP_TAGGED_LEN + length);
}

static void put_write_here(uint32_t offset, uint32_t length, bool last)
{
    put_write(scene.target.keys.rkey, (uintptr_t)scene.target.octets + offset, length, last);
}

static void put_request(uint32_t msn, uint32_t offset, uint32_t length, uint32_t stag)
{
    const struct rdmap_read_req request = { .sink_stag = 0x5151,
                                            .sink_to = 0x61616161,
                                            .size = length,
                                            .src_stag = stag,
                                            .src_to = (uintptr_t)scene.target.octets + offset };
    uint8_t *ulpdu = frame_begin(DDP_VERSION | DDP_CTRL_L, rdmap_ctrl(RDMAP_READ_REQ));

    be_put32(ulpdu + 2, 0);
    be_put32(ulpdu + 6, DDP_QN_READ);
    be_put32(ulpdu + 10, msn);
    be_put32(ulpdu + 14, 0);
    rdmap_put_read_req(ulpdu + DDP_UNTAGGED_LEN, &request);
    frame_end(DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
}

/* Into the first octets of the receives' memory. */
static void put_response(uint32_t stag, uint32_t offset, uint32_t length, bool last)
{
    uint8_t *ulpdu = frame_begin((uint8_t)(DDP_CTRL_T | DDP_VERSION | (last ? DDP_CTRL_L : 0)),
                                 rdmap_ctrl(RDMAP_READ_RESP));

    be_put32(ulpdu + 2, stag);
    be_put64(ulpdu + 6, (uintptr_t)scene.memory.octets + offset);
    fill(ulpdu + DDP_TAGGED_LEN, length, offset + length);
    frame_end(DDP_TAGGED_LEN + length);
}

/* ---- a scene on both paths ---- */

static void take_answers(struct answer *answers)
{
    for (uint32_t i = 0; i < scene.answers; i++) {
        ck_assert(next_frame());
        answers[i].opcode = frame.segment.opcode;
        answers[i].last = frame.segment.hdr.last;
        answers[i].octets = frame.segment.payload_len;
        if (frame.segment.opcode == RDMAP_READ_RESP)
            memcpy(answers[i].payload, frame.segment.payload, frame.segment.payload_len);
    }
}

static void post_receives(uint32_t first)
{
    for (uint32_t i = first; i < DEPTH; i++)
        side_receive(a, i, region_sge(&scene.memory, (uint64_t)i * RECEIVE, RECEIVE));
}

static void look(struct seen *what)
{
    struct ri_qp_info info = side_query(a);
    const char *names[16];
    size_t count = 16;

    what->sent_completions = bed.fake.user.poll(a->send_cq, DEPTH, what->sent);
    for (uint32_t i = 0; i < what->sent_completions; i++)
        what->sent[i].context = NULL;
    what->completions = bed.fake.user.poll(a->recv_cq, DEPTH, what->wc);
    for (uint32_t i = 0; i < what->completions; i++)
        what->wc[i].context = NULL;
    memcpy(what->received, scene.memory.octets, sizeof(what->received));
    memcpy(what->target, scene.target.octets, sizeof(what->target));
    what->terminate = info.terminate_sent;
    ck_assert_int_eq(bed.fake.privileged.qp_counters(a->qp, names, what->counters, &count), RI_OK);
    ck_assert_str_eq(names[2], "messages received");
    what->counters[0] = what->counters[1] = 0; /* the counters of sent octets */
}

/* `frames` puts the frames. `terminate`: the value that ends the connection, or GOES_ON. `cut`:
 * octets in one write. */
static void run(void (*frames)(void), int terminate, size_t cut)
{
    for (scene.way = STRAIGHT; scene.way < WAYS; scene.way++) {
        scene.length = 0;
        scene.msn = 1;
        scene.answers = 0;
        memset(&seen[scene.way], 0, sizeof(seen[0]));
        open_raw(&scene.shape, &plain);
        scene.memory = region_new(a, DEPTH * RECEIVE, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE);
        scene.target = region_new(a, TARGET, TESTBED_ALL);
        scene.read_only = region_new(a, 4096, RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ);
        frames();
        for (size_t at = 0; at < scene.length; at += cut) {
            raw_octets(&raw, scene.wire + at, scene.length - at < cut ? scene.length - at : cut);
            if (cut < scene.length && terminate == GOES_ON && !scene.answers)
                ck_assert(raw_silent(&raw));
        }
        take_answers(seen[scene.way].answers);
        if (terminate != GOES_ON) {
            ck_assert(next_frame());
            ck_assert_int_eq(frame.segment.opcode, RDMAP_TERMINATE);
            ck_assert_uint_eq(be_get16(frame.segment.payload), (uint16_t)terminate);
            raw_wait_end(&raw);
        } else {
            ck_assert(raw_silent(&raw));
        }
        look(&seen[scene.way]);
        raw_close(&raw);
        side_close(a);
    }
    ck_assert_uint_eq(seen[STRAIGHT].completions, seen[GENERAL].completions);
    ck_assert_mem_eq(&seen[STRAIGHT], &seen[GENERAL], sizeof(seen[0]));
}

static void expect(uint32_t completions, uint64_t messages)
{
    ck_assert_uint_eq(seen[STRAIGHT].completions, completions);
    ck_assert_uint_eq(seen[STRAIGHT].counters[2], messages);
}

/* ---- accepted frames ---- */

static void sends(void)
{
    post_receives(0);
    put_send(64);
    put_send(1);
    put_send(4096);
    put_send(0);
    put_untagged(RDMAP_SEND_SE, true, DDP_QN_SEND, scene.msn++, 0, 127);
    put_send(131);
    put_untagged(RDMAP_SEND, false, DDP_QN_SEND, scene.msn, 0, 100);
    put_untagged(RDMAP_SEND, true, DDP_QN_SEND, scene.msn++, 100, 28);
    put_send(40);
}

START_TEST(C070_sends)
{
    static const size_t cuts[] = { 1, 3, 100, SIZE_MAX };

    run(sends, GOES_ON, cuts[_i]);
    expect(8, 8);
    ck_assert_uint_eq(seen[STRAIGHT].wc[4].flags, RI_WC_SOLICITED);
    ck_assert_uint_eq(seen[STRAIGHT].wc[2].byte_len, 4096);
    ck_assert_uint_eq(seen[STRAIGHT].wc[6].byte_len, 128);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(seen[STRAIGHT].wc[i].cookie, i);
}
END_TEST

static void solicited(void)
{
    post_receives(0);
    put_untagged(RDMAP_SEND_SE, true, DDP_QN_SEND, scene.msn++, 0, 64);
}

START_TEST(solicited_alone)
{
    run(solicited, GOES_ON, SIZE_MAX);
    expect(1, 1);
    ck_assert_uint_eq(seen[STRAIGHT].wc[0].flags, RI_WC_SOLICITED);
}
END_TEST

static void writes(void)
{
    post_receives(0);
    for (uint32_t i = 0; i < 40; i++)
        put_write_here(i * 100 + i % 8, i * 2 + 1, i % 3 == 0);
    put_write_here(0, TARGET, true);
    put_write_here(8, 8, true);
    put_write_here(16, 0, true);
    put_send(8);
    put_write_here(TARGET - 1, 1, true);
    put_write_here(TARGET - 33, 33, true);
}

START_TEST(C081_writes)
{
    static const size_t cuts[] = { 7, 1000, SIZE_MAX };

    run(writes, GOES_ON, cuts[_i]);
    expect(1, 14 + 2 + 1 + 2);
}
END_TEST

static void scattered(void)
{
    struct ri_sge sges[3] = { region_sge(&scene.memory, 0, 10), region_sge(&scene.memory, 500, 0),
                              region_sge(&scene.memory, 100, 60) };

    ck_assert_int_eq(side_post_receive(a, 0, sges, 3), RI_OK);
    ck_assert_int_eq(side_post_receive(a, 1, sges + 1, 2), RI_OK);
    ck_assert_int_eq(side_post_receive(a, 2, NULL, 0), RI_OK);
    post_receives(3);
    put_send(64);
    put_send(60);
    put_send(0);
    put_send(10);
}

START_TEST(elements)
{
    run(scattered, GOES_ON, SIZE_MAX);
    expect(4, 4);
}
END_TEST

static void requests(void)
{
    static const uint32_t lengths[] = { 64, 300, 1, 0, 257, 8 };

    fill(scene.target.octets, TARGET, 7);
    for (uint32_t i = 0; i < 6; i++)
        put_request(i + 1, i * 50, lengths[i], scene.target.keys.rkey);
    scene.answers = 6;
}

START_TEST(requests_answered)
{
    static const size_t cuts[] = { 10, SIZE_MAX };

    run(requests, GOES_ON, cuts[_i]);
    for (uint32_t i = 0; i < 6; i++)
        ck_assert_int_eq(seen[STRAIGHT].answers[i].opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(seen[STRAIGHT].answers[1].octets, 300);
    ck_assert_mem_eq(seen[STRAIGHT].answers[1].payload, seen[STRAIGHT].target + 50, 300);
}
END_TEST

static uint32_t sink(void)
{
    return scene.memory.keys.lkey;
}

/* Two Reads of side a: of 300 octets, and of 64 behind them. */
static void post_reads(void)
{
    side_read(a, 1, region_sge(&scene.memory, 0, 300), 0x1000, 0x77);
    side_read(a, 2, region_sge(&scene.memory, 300, 64), 0x2000, 0x77);
    scene.answers = 2; /* the requests */
}

static void responses(void)
{
    post_reads();
    put_response(sink(), 0, 200, false);
    put_response(sink(), 200, 100, true);
    put_response(sink(), 300, 64, true);
}

START_TEST(responses_placed)
{
    static const size_t cuts[] = { 5, SIZE_MAX };

    run(responses, GOES_ON, cuts[_i]);
    ck_assert_uint_eq(seen[STRAIGHT].sent_completions, 2);
    ck_assert_uint_eq(seen[STRAIGHT].sent[0].byte_len, 300);
    ck_assert_uint_eq(seen[STRAIGHT].sent[1].status, RI_WC_SUCCESS);
}
END_TEST

/* ---- frames that end the connection ---- */

static void send_again(void)
{
    post_receives(0);
    put_send(20);
    scene.msn--;
    put_send(20);
}

static void send_gap(void)
{
    post_receives(0);
    put_send(20);
    scene.msn++;
    put_send(20);
}

static void send_unwanted(void)
{
    post_receives(DEPTH - 1);
    put_send(20);
    put_send(20);
}

static void send_too_long(void)
{
    post_receives(0);
    put_send(20);
    put_send(RECEIVE + 1);
}

static void send_offset(void)
{
    post_receives(0);
    put_untagged(RDMAP_SEND, true, DDP_QN_SEND, 1, 4, 20);
}

static void send_inside(void)
{
    post_receives(0);
    put_untagged(RDMAP_SEND, false, DDP_QN_SEND, 1, 0, 20);
    put_untagged(RDMAP_SEND, true, DDP_QN_SEND, 1, 0, 20);
}

static void send_changes(void)
{
    post_receives(0);
    put_untagged(RDMAP_SEND, false, DDP_QN_SEND, 1, 0, 20);
    put_untagged(RDMAP_SEND_SE, true, DDP_QN_SEND, 1, 20, 20);
}

static void send_queue(void)
{
    post_receives(0);
    put_untagged(RDMAP_SEND, true, DDP_QN_READ, 1, 0, 20);
}

static void send_read_only(void)
{
    struct ri_sge sge = { (uintptr_t)scene.read_only.octets, 64, scene.read_only.keys.lkey };

    side_receive(a, 0, sge);
    put_send(20);
}

static void send_crc(void)
{
    post_receives(0);
    put_send(20);
    put_send(20);
    scene.wire[scene.length - 1] ^= 1;
}

static void write_plain(void)
{
    put_write_here(0, 64, true);
}

static void write_unknown(void)
{
    post_receives(0);
    put_write_here(0, 64, true);
    put_write(scene.target.keys.rkey ^ 1, (uintptr_t)scene.target.octets, 64, true);
}

static void write_read_only(void)
{
    put_write(scene.read_only.keys.rkey, (uintptr_t)scene.read_only.octets, 64, true);
}

static void write_beyond(void)
{
    put_write_here(TARGET - 63, 64, true);
}

static void write_before(void)
{
    put_write(scene.target.keys.rkey, (uintptr_t)scene.target.octets - 1, 64, true);
}

static void write_wraps(void)
{
    put_write(scene.target.keys.rkey, UINT64_MAX - 10, 64, true);
}

static void write_crc(void)
{
    put_write_here(0, 64, true);
    put_write_here(64, 64, true);
    scene.wire[scene.length - 30] ^= 0x80;
}

static void request_gap(void)
{
    put_request(2, 0, 64, scene.target.keys.rkey);
}

static void request_beyond(void)
{
    put_request(1, TARGET - 63, 64, scene.target.keys.rkey);
}

static void request_unknown(void)
{
    put_request(1, 0, 64, scene.target.keys.rkey ^ 1);
}

/* One request more than IRD. */
static void request_too_many(void)
{
    for (uint32_t i = 1; i <= 9; i++)
        put_request(i, 0, 64, scene.target.keys.rkey);
}

static void request_crc(void)
{
    put_request(1, 0, 64, scene.target.keys.rkey);
    scene.wire[scene.length - 1] ^= 1;
}

static void response_unasked(void)
{
    put_response(sink(), 0, 64, true);
}

static void response_elsewhere(void)
{
    post_reads();
    put_response(sink() ^ 0x100, 0, 300, true);
}

static void response_too_long(void)
{
    post_reads();
    put_response(sink(), 0, 200, false);
    put_response(sink(), 200, 101, true);
}

static void response_runs_on(void)
{
    post_reads();
    put_response(sink(), 0, 200, false);
    put_response(sink(), 200, 101, false);
}

static void response_too_short(void)
{
    post_reads();
    put_response(sink(), 0, 200, true);
}

static void response_skips(void)
{
    post_reads();
    put_response(sink(), 0, 200, false);
    put_response(sink(), 201, 100, true);
}

static void response_goes_on(void)
{
    post_reads();
    put_response(sink(), 0, 300, false);
    put_response(sink(), 300, 64, false);
}

static void response_crc(void)
{
    post_reads();
    put_response(sink(), 0, 300, true);
    scene.wire[scene.length - 20] ^= 4;
}

static const struct {
    void (*frames)(void);
    uint16_t terminate;
    bool no_write, no_read;
} ends[] = {
    { send_again, TERMINATE_U_MSN, false, false },
    { send_gap, TERMINATE_U_MSN, false, false },
    { send_unwanted, TERMINATE_U_NOBUF, false, false },
    { send_too_long, TERMINATE_U_LONG, false, false },
    { send_offset, TERMINATE_U_MO, false, false },
    { send_inside, TERMINATE_U_MO, false, false },
    { send_changes, TERMINATE_OPCODE, false, false },
    { send_queue, 0x1201, false, false },
    { send_read_only, TERMINATE_LOCAL, false, false },
    { send_crc, 0x2002, false, false },
    { write_unknown, TERMINATE_T_STAG, false, false },
    { write_read_only, TERMINATE_T_STREAM, false, false },
    { write_beyond, TERMINATE_T_BOUNDS, false, false },
    { write_before, TERMINATE_T_BOUNDS, false, false },
    { write_wraps, TERMINATE_T_WRAP, false, false },
    { write_crc, 0x2002, false, false },
    { writes, TERMINATE_T_STREAM, true, false },
    { write_plain, TERMINATE_T_STREAM, true, false },
    { request_gap, TERMINATE_U_MSN, false, false },
    { request_beyond, TERMINATE_R_BOUNDS, false, false },
    { request_unknown, TERMINATE_R_STAG, false, false },
    { request_too_many, TERMINATE_U_MSN, false, false },
    { request_crc, 0x2002, false, false },
    { request_gap, TERMINATE_U_MSN, false, true },
    { request_beyond, TERMINATE_U_QN, false, true },
    { response_unasked, TERMINATE_OPCODE, false, false },
    { response_elsewhere, TERMINATE_T_STAG, false, false },
    { response_too_long, TERMINATE_T_BOUNDS, false, false },
    { response_runs_on, TERMINATE_T_BOUNDS, false, false },
    { response_too_short, TERMINATE_STREAM, false, false },
    { response_skips, TERMINATE_T_BOUNDS, false, false },
    { response_goes_on, TERMINATE_T_BOUNDS, false, false },
    { response_crc, 0x2002, false, false },
};

START_TEST(C050_C070_C071_C072_C076_C077_C082_C088_C090_refused)
{
    scene.shape.no_write = ends[_i].no_write;
    scene.shape.no_read = ends[_i].no_read;
    run(ends[_i].frames, ends[_i].terminate, SIZE_MAX);
    scene.shape.no_write = scene.shape.no_read = false;
}
END_TEST

static Suite *straight_suite(void)
{
    Suite *suite = suite_create("straight and general way of receive");
    TCase *tc = new_case(suite, "taken", bed_open, bed_close);

    tcase_add_loop_test(tc, C070_sends, 0, 4);
    tcase_add_loop_test(tc, C081_writes, 0, 3);
    tc_add_tests(tc, solicited_alone, elements);
    tc_add_loops(tc, 0, 2, requests_answered, responses_placed);
    tc = new_case(suite, "refused", bed_open, bed_close);
    tcase_add_loop_test(tc, C050_C070_C071_C072_C076_C077_C082_C088_C090_refused, 0,
                        ARRAY_SIZE(ends));
    return suite;
}

int main(void)
{
    return tc_main(straight_suite());
}
