/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segment vectors of tests/data/vectors.json on a live QP. STags and addresses of the
 * environment replace the vector's in the input and in the expected answer. Whole, in single
 * octets, and split in two: the result is always the same.
 */
#include "peer.h"

#include "tests/common/vectors_tc.h"

#define VECTORS   72 /* tests that check loops over; the file must have as many */
#define BIG       (8u << 20)
#define OP_MASK   0x0f
#define ATOMIC    10
#define ANSWER    11
#define READ_STAG 0x66000001 /* of the Read that vectors of stage 8 assume, at 0x100 */
#define ATOMIC_ID 9          /* of the atomic that vectors of stage 12 assume */

struct play {
    const struct vec_segments *vector;
    uint8_t stream[2048];
    size_t octets;
    uint8_t last[1024]; /* the input, patched */
    uint32_t last_length;
    bool read, atomic; /* requests of the QP, outstanding */
    uint32_t stag, id; /* the vector's */
    uint64_t to;
};

static struct region invalid, big;
static uint32_t window;
static const struct vectors *vectors;

static void setup(void)
{
    vectors = tc_vectors();
    ck_assert_uint_eq(vectors->n_negatives, VECTORS);
    wire_setup();
    window = 0;
    invalid.mr = NULL;
    big = region_new(wire.side, BIG, TESTBED_ALL);
}

static void teardown(void)
{
    region_free(wire.side, &big);
    if (invalid.octets)
        region_free(wire.side, &invalid);
    wire_teardown();
}

/* ---- the environment ---- */

static void make_invalid(void)
{
    if (invalid.mr)
        region_free(wire.side, &invalid);
    invalid = region_new(wire.side, REGION_LEN, TESTBED_ALL);
    wire_invalidate(invalid.keys.rkey);
}

static uint64_t value_of(const char *region, bool stag)
{
    static const struct {
        const char *name;
        enum env env;
    } names[] = {
        { "W", ENV_W }, { "R", ENV_R }, { "A", ENV_A }, { "OPD", ENV_OPD }, { "LOC", ENV_LOC },
    };

    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i].name, region))
            return stag ? env_stag(names[i].env) : wire.base[names[i].env];
    if (!strcmp(region, "INV"))
        return stag ? invalid.keys.rkey : (uintptr_t)invalid.octets;
    ck_assert_str_eq(region, "OQP");
    return stag ? window : wire.base[ENV_A];
}

static bool names_region(const struct vec_segments *vector, const char *region)
{
    bool found = false;

    for (size_t i = 0; i < vector->n_patches; i++)
        found |= !strcmp(vector->patches[i].region, region);
    return found;
}

/* Requests of the QP that the peer's segments answer. */
static void ask(struct play *play)
{
    struct ri_sge sge = region_sge(&wire.env[ENV_LOC], 0x100, 16);
    struct ri_send_wr *bad, wr = { .cookie = 50,
                                   .opcode = RI_WR_ATOMIC_FETCH_ADD,
                                   .flags = RI_WR_SIGNALED,
                                   .sg_list = &sge,
                                   .num_sge = 1 };

    play->read = strstr(play->vector->setup, "one Read outstanding") != NULL;
    play->atomic = strstr(play->vector->setup, "Atomic outstanding") ||
                   strstr(play->vector->setup, "as before");
    if (play->read) {
        side_read(wire.side, 50, sge, 0, 1);
        wire_expect(true, OP_READ, READ_LEN);
        play->stag = get32(wire.seen.payload);
        play->to = get64(wire.seen.payload + 4);
    }
    if (play->atomic) {
        sge.length = 8;
        ck_assert_int_eq(wire.bed.fake.user.post_send(wire.side->qp, &wr, &bad), RI_OK);
        wire_expect(true, ATOMIC, 52);
        play->id = get32(wire.seen.payload + 4);
    }
}

/* ---- octets ---- */

static void patch(const struct play *play, uint32_t segment, uint8_t *ulpdu)
{
    const struct vec_segments *vector = play->vector;

    for (size_t i = 0; i < vector->n_patches; i++) {
        const struct vec_patch *at = &vector->patches[i];
        uint64_t value;

        if (at->segment != segment)
            continue;
        value = value_of(at->region, at->octets == 4);
        if (at->octets == 4)
            put32(ulpdu + at->offset, (uint32_t)value ^ at->flip);
        else
            put64(ulpdu + at->offset, value + (uint64_t)(int64_t)at->add);
    }
    if (play->read) {
        put32(ulpdu + 2, get32(ulpdu + 2) ^ READ_STAG ^ play->stag);
        put64(ulpdu + 6, get64(ulpdu + 6) - 0x100 + play->to);
    }
    if (play->atomic)
        put32(ulpdu + UNTAGGED_LEN, get32(ulpdu + UNTAGGED_LEN) - ATOMIC_ID + play->id);
}

/* The vector's FPDU around the patched ULPDU. PAD does not change; a wrong CRC stays wrong by the
 * same difference. */
static void add_fpdu(struct play *play, const struct vec_bytes *fpdu)
{
    uint8_t *at = play->stream + play->octets;
    size_t covered = fpdu->len - 4;
    const uint8_t *field = fpdu->p + covered;
    uint32_t wrong = (uint32_t)field[3] << 24 | (uint32_t)field[2] << 16 | (uint32_t)field[1] << 8 |
                     field[0];

    wrong ^= octets_crc(0, fpdu->p, covered);
    memcpy(at, fpdu->p, fpdu->len);
    if (!play->vector->markers)
        memcpy(at + 2, play->last, play->last_length);
    put32(at + covered, __builtin_bswap32(octets_crc(0, at, covered) ^ wrong));
    play->octets += fpdu->len;
}

/* Sets the connection up as the vector requires; its octets are in play->stream. */
static void begin(struct play *play, const struct vec_segments *vector)
{
    const struct connection usual = { .ird = 2, .ord = 2 };
    const struct connection markers = { .markers_in = true, .no_receives = true, .fresh = true };

    memset(play, 0, sizeof(*play));
    play->vector = vector;
    wire_open(vector->markers ? &markers : &usual);
    if (vector->markers)
        side_receive(wire.side, 1, region_sge(&wire.env[ENV_RECV], 0, 1000));
    if (names_region(vector, "INV"))
        make_invalid();
    if (names_region(vector, "OQP") && !window)
        window = wire_window(false, RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE);
    ask(play);
    if (!strcmp(vector->key, "rq-ird")) { /* no response can leave */
        side_write(wire.side, 51, region_sge(&big, 0, BIG), 0, 1);
        wire_pass(10);
    }
    for (uint32_t i = 0; i < vector->n; i++) {
        play->last_length = (uint32_t)vector->ulpdus[i].len;
        memcpy(play->last, vector->ulpdus[i].p, play->last_length);
        patch(play, i, play->last);
        add_fpdu(play, &vector->fpdus[i]);
    }
}

/* ---- results ---- */

/* The expected Terminate quotes the input, from behind its own length to the end. */
static void refused(const struct play *play)
{
    const struct vec_bytes *file = &play->vector->terminate_ulpdu;
    uint8_t expected[128];

    memcpy(expected, file->p, file->len);
    if (file->len > UNTAGGED_LEN + 6)
        memcpy(expected + UNTAGGED_LEN + 6, play->last, file->len - UNTAGGED_LEN - 6);
    do
        ck_assert_msg(wire_next(), "no Terminate");
    while (wire.seen.op != OP_TERMINATE);
    ck_assert_msg(get16(wire.seen.payload) == play->vector->terminate, "Terminate %04x, not %04x",
                  get16(wire.seen.payload), play->vector->terminate);
    ck_assert_uint_eq(wire.seen.length, file->len);
    ck_assert(!memcmp(wire.seen.ulpdu, expected, file->len));
    wire_fin();
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 1);
    ck_assert_uint_eq(wire.side->events.code[0], play->vector->terminate);
}

static void accepted(const struct play *play)
{
    const uint8_t op = play->last[1] & OP_MASK;
    uint32_t header = op == OP_WRITE ? TAGGED_LEN : UNTAGGED_LEN,
             length = play->last_length - header;
    const uint8_t *data = play->last + header;
    struct ri_wc wc;

    switch (op) {
    case OP_TERMINATE:
        side_expect_event(wire.side, RI_EVENT_TERMINATE_RECEIVED, get16(data));
        wire_fin();
        return;
    case OP_WRITE:
        ck_assert(wire_alive());
        ck_assert(!memcmp((const void *)(uintptr_t)get64(play->last + 6), data, length));
        return;
    case OP_READ:
        wire_expect(true, OP_RESPONSE, get32(data + 12));
        ck_assert_uint_eq(wire.seen.stag, get32(data));
        ck_assert_uint_eq(wire.seen.to, get64(data + 4));
        break;
    case ATOMIC: wire_expect(true, ANSWER, 12); break;
    default:
        wc = side_next(wire.side, wire.side->recv_cq);
        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, get32(play->last + 14) + length);
        ck_assert_int_eq(!!(wc.flags & RI_WC_WITH_INVALIDATE), op == OP_SEND_INV);
        ck_assert(env_is(ENV_RECV, get32(play->last + 14), data, length));
    }
    ck_assert(wire_alive());
}

static void outcome(const struct play *play)
{
    if (play->vector->accept)
        accepted(play);
    else
        refused(play);
}

/* The vector that the test generates: the longest possible FPDU. */
static bool made_here(const struct vec_segments *vector)
{
    static uint8_t ulpdu[ULPDU_MAX];

    if (vector->n)
        return false;
    ck_assert_str_eq(vector->key, "fpdu-len-any");
    wire_open(NULL);
    memset(ulpdu, 'x', sizeof(ulpdu));
    put_write(ulpdu, true, big.keys.rkey, (uintptr_t)big.octets, NULL, 0);
    peer_ulpdu(ulpdu, sizeof(ulpdu));
    ck_assert(wire_alive());
    ck_assert(big.octets[ULPDU_MAX - TAGGED_LEN - 1] == 'x' &&
              big.octets[ULPDU_MAX - TAGGED_LEN] == 0);
    return true;
}

START_TEST(segment_vector)
{
    const struct vec_segments *vector = &vectors->negatives[_i];
    struct play play;

    if (made_here(vector))
        return;
    begin(&play, vector);
    peer_octets(play.stream, play.octets);
    outcome(&play);
}
END_TEST

START_TEST(C047_segment_vector_in_single_octets)
{
    const struct vec_segments *vector = &vectors->negatives[_i];
    struct play play;

    if (made_here(vector))
        return;
    begin(&play, vector);
    peer_single(play.stream, play.octets);
    outcome(&play);
}
END_TEST

/* Short ones at every octet, others at some; in short the one that has the socket full at two. */
START_TEST(C047_segment_vector_cut_in_two)
{
    const struct vec_segments *vector = &vectors->negatives[_i];
    size_t cut = 1, step;
    struct play play;

    if (made_here(vector))
        return;
    do {
        begin(&play, vector);
        step = (play.octets <= 64 && tc_count(10) > 1) || tc_long() ? 1 : 11;
        if (tc_count(10) == 1 && !strcmp(vector->key, "rq-ird"))
            step = play.octets / 2;
        peer_octets(play.stream, cut);
        wire_pass(2);
        peer_octets(play.stream + cut, play.octets - cut);
        outcome(&play);
        cut += step;
    } while (cut < play.octets);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("wire: segment vectors");
    TCase *tc = tc_case(suite, "replay", setup, teardown);

    tcase_set_timeout(tc, 120);
    tc_add_loops(tc, 0, VECTORS, segment_vector, C047_segment_vector_in_single_octets,
                 C047_segment_vector_cut_in_two);
    return suite;
}

int main(void)
{
    const char *why;

    vectors_load(tc_data("vectors.json"), &why); /* once, for all the processes of the tests */
    return tc_main(suite());
}
