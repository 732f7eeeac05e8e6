/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of requests of the wire local, alone: two ends in one memory, a model beside them. */
#include "tc.h"

#include "base/compiler.h"
#include "providers/software/local/ring.h"

#include <pthread.h>

#define HEADER ((uint32_t)sizeof(struct ring_header))
#define LEAST  (4u * RING_RECORD)

static _Alignas(RING_LINE) uint8_t memory[2 * LEAST];
static struct ring_put put;
static struct ring_take take;

static void open_at(uint32_t octets, uint64_t at)
{
    memset(memory, 0, octets);
    ring_put_open(&put, memory, octets);
    ring_take_open(&take, memory, octets);
    put.at = take.at = at;
    put.free_until = at + octets;
}

static void setup(void)
{
    open_at(LEAST, 0);
}

static uint32_t record_of(uint32_t piece)
{
    return (HEADER + piece + RING_LINE - 1) / RING_LINE * RING_LINE;
}

/* An octet of record `number`. */
static uint8_t octet(uint32_t number, uint32_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static struct ring_header header_of(uint32_t number, uint32_t piece)
{
    return (struct ring_header){
        .stamp = ~0u, /* the ring's own affair */
        .kind = number % 3 ? RING_MORE : RING_REQUEST,
        .opcode = (uint8_t)number,
        .flags = (uint16_t)(number >> 3),
        .piece = piece,
        .length = piece + number,
        .operand = (uint64_t)number << 33 | 5,
        .compare = ~(uint64_t)number,
        .remote_addr = number * UINT64_C(0x100000001),
        .rkey = number ^ 0xA5A5A5A5,
        .fetching = number % 7,
    };
}

/* False: no room. */
static bool put_record(uint32_t number, uint32_t piece)
{
    struct ring_header header = header_of(number, piece);
    uint8_t *place = ring_reserve(&put, piece);

    if (!place)
        return false;
    for (uint32_t i = 0; i < piece; i++)
        place[i] = octet(number, i);
    ring_publish(&put, &header);
    return true;
}

/* Is it this one, as it was put? */
static bool is_record(const struct ring_header *found, const uint8_t *octets, uint32_t number,
                      uint32_t piece)
{
    struct ring_header expected = header_of(number, piece);

    expected.stamp = found->stamp;
    if (memcmp(found, &expected, sizeof(expected)))
        return false;
    for (uint32_t i = 0; i < piece; i++)
        if (octets[i] != octet(number, i))
            return false;
    return true;
}

/* The next record is this one. */
static bool takes_record(uint32_t number, uint32_t piece)
{
    struct ring_header found;
    const uint8_t *octets;

    if (!ring_has(&take) || ring_look(&take, &found, &octets) != RING_RECORD_FOUND ||
        !is_record(&found, octets, number, piece))
        return false;
    ring_pass(&take, &found);
    return true;
}

static bool has_none(void)
{
    struct ring_header found;
    const uint8_t *octets;

    return ring_look(&take, &found, &octets) == RING_NONE;
}

/* --- one record --- */

START_TEST(a_record_of_each_size_comes_out_as_it_went_in)
{
    ck_assert(has_none());
    for (uint32_t piece = 0; piece <= RING_PIECE; piece++) {
        ck_assert_msg(put_record(piece, piece), "%u octets", piece);
        ck_assert_msg(takes_record(piece, piece), "%u octets", piece);
        ck_assert(has_none());
        ck_assert_uint_eq(take.at, put.at);
        ring_note_taken(&put, take.at);
    }
}
END_TEST

/* At each line of the ring, with sizes around what is left to its end. */
START_TEST(a_record_that_does_not_fit_the_end_is_put_at_the_beginning)
{
    for (uint32_t line = 0; line < LEAST / RING_LINE; line++) {
        uint32_t at = line * RING_LINE, left = LEAST - at;

        for (int more = -1; more <= 1; more++) {
            int64_t piece = (int64_t)left - HEADER + more;

            piece = piece < 0 ? 0 : piece > RING_PIECE ? RING_PIECE : piece;
            open_at(LEAST, (uint64_t)LEAST * 5 + at);
            ck_assert(put_record(line, (uint32_t)piece));
            ck_assert_msg(takes_record(line, (uint32_t)piece), "at %u, %u octets", at,
                          (uint32_t)piece);
            ck_assert_uint_eq(take.at, put.at);
            ck_assert_uint_eq(put.at, (uint64_t)LEAST * 5 + at + record_of((uint32_t)piece) +
                                          (record_of((uint32_t)piece) > left ? left : 0));
            ck_assert(has_none());
        }
    }
}
END_TEST

/* --- full --- */

/* Of the lines that are free, one is that of the next stamp. */
START_TEST(what_is_not_taken_is_never_overwritten)
{
    for (uint32_t lines = 1; lines <= RING_RECORD / RING_LINE; lines++) {
        uint32_t piece = lines * RING_LINE - HEADER, count = 0, taken = 0;

        open_at(LEAST, (uint64_t)lines * RING_LINE);
        while (put_record(count, piece))
            count++;
        ck_assert_uint_le(put.at + RING_LINE, lines * RING_LINE + LEAST);
        ck_assert_uint_ge(count, (LEAST - RING_RECORD) / (lines * RING_LINE) - 1);
        while (taken < count)
            ck_assert_msg(takes_record(taken++, piece), "%u lines, record %u", lines, taken - 1);
        ck_assert(has_none());
        ck_assert(!ring_reserve(&put, RING_PIECE)); /* nobody has told */
        ring_note_taken(&put, take.at);
        ck_assert(put_record(count, piece));
        ck_assert(takes_record(count, piece));
    }
}
END_TEST

START_TEST(what_the_taker_says_is_believed_as_far_as_it_can_be_true)
{
    uint64_t free_until;

    while (put_record(1, 1000))
        ;
    free_until = put.free_until;
    ring_note_taken(&put, put.at + 1);
    ring_note_taken(&put, UINT64_MAX);
    ring_note_taken(&put, UINT64_MAX - LEAST + 1);
    ck_assert_uint_eq(put.free_until, free_until);
    ring_note_taken(&put, 64);
    ck_assert_uint_eq(put.free_until, free_until + 64);
    ring_note_taken(&put, 0); /* backwards */
    ck_assert_uint_eq(put.free_until, free_until + 64);
}
END_TEST

/* --- stamps --- */

static void store_stamp(uint64_t at, uint32_t stamp)
{
    memcpy(memory + at % LEAST, &stamp, sizeof(stamp));
}

/* The stamp of a place is another one in each round, and is never 0. */
START_TEST(a_stamp_of_an_earlier_round_is_none)
{
    const uint64_t rounds[] = { 1, 2, 3, (UINT64_C(1) << 31) / (LEAST / RING_LINE) - 1 };

    for (size_t i = 0; i < ARRAY_SIZE(rounds); i++) {
        for (uint32_t line = 0; line < LEAST / RING_LINE; line++) {
            uint64_t at = (uint64_t)line * RING_LINE;
            uint32_t stamp;

            open_at(LEAST, at);
            ck_assert(put_record(0, 0));
            memcpy(&stamp, memory + at, sizeof(stamp));
            ck_assert(stamp);
            open_at(LEAST, at + rounds[i] * LEAST);
            store_stamp(at, stamp);
            ck_assert(!ring_has(&take));
            ck_assert(has_none());
        }
    }
}
END_TEST

/* All octets of each round look like the stamps of the next one. */
START_TEST(octets_that_look_like_stamps_are_none)
{
    open_at(LEAST, 0);
    for (uint32_t number = 0; number < 400; number++) {
        uint32_t piece = (number * 977) % (RING_PIECE + 1) & ~3u, stamp;
        struct ring_header header = header_of(number, piece), found;
        uint8_t *place = ring_reserve(&put, piece);
        const uint8_t *octets;

        ck_assert_ptr_nonnull(place);
        for (uint32_t i = 0; i + 4 <= piece; i += 4) {
            uint64_t line = put.at - put.at % LEAST + (uint64_t)(place + i - memory);

            stamp = (uint32_t)((line + LEAST) / RING_LINE) | 1u << 31;
            memcpy(place + i, &stamp, sizeof(stamp));
        }
        ring_publish(&put, &header);
        ck_assert_int_eq(ring_look(&take, &found, &octets), RING_RECORD_FOUND);
        ck_assert_uint_eq(found.piece, piece);
        ck_assert_uint_eq(found.opcode, header.opcode);
        ring_pass(&take, &found);
        ck_assert(!ring_has(&take));
        ck_assert(has_none());
        ring_note_taken(&put, take.at);
    }
}
END_TEST

/* --- what a hostile end writes --- */

static enum ring_found look_at(const struct ring_header *header, uint64_t at)
{
    struct ring_header found = *header;
    const uint8_t *octets;
    enum ring_found result;

    open_at(LEAST, at);
    found.stamp = (uint32_t)(at / RING_LINE) | 1u << 31;
    memcpy(memory + at % LEAST, &found, sizeof(found));
    result = ring_look(&take, &found, &octets);
    if (result == RING_RECORD_FOUND) {
        ck_assert(octets >= memory);
        ck_assert_uint_le(found.piece, (uint32_t)(memory + LEAST - octets));
        ring_pass(&take, &found);
        ck_assert_uint_le(take.at, at + LEAST - at % LEAST);
    }
    return result;
}

START_TEST(a_record_beyond_the_ring_is_broken)
{
    static const uint32_t pieces[] = {
        0, 1, 16, 17, RING_PIECE, RING_PIECE + 1, LEAST, 0x7fffffff, 0xffffff90, UINT32_MAX
    };

    for (uint32_t at = 0; at < LEAST; at += RING_LINE) {
        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
            struct ring_header header = { .kind = RING_REQUEST, .piece = pieces[i] };
            bool fits = pieces[i] <= RING_PIECE && record_of(pieces[i]) <= LEAST - at;

            ck_assert_int_eq(look_at(&header, at), fits ? RING_RECORD_FOUND : RING_BROKEN);
        }
    }
}
END_TEST

START_TEST(a_kind_that_is_none_is_broken)
{
    for (unsigned int kind = 0; kind <= UINT8_MAX; kind++) {
        struct ring_header header = { .kind = (uint8_t)kind };
        const bool is_record = kind == RING_REQUEST || kind == RING_MORE || kind == RING_REFERENCE;
        enum ring_found expected = is_record           ? RING_RECORD_FOUND
                                   : kind == RING_SKIP ? RING_NONE
                                                       : RING_BROKEN;

        ck_assert_int_eq(look_at(&header, 3 * RING_LINE), expected);
    }
}
END_TEST

/* A look ends, whatever stands there. */
START_TEST(a_ring_of_nothing_is_broken)
{
    struct ring_header header = { .kind = RING_SKIP };
    const uint8_t *octets;

    open_at(LEAST, 5 * RING_LINE);
    header.stamp = 5 | 1u << 31;
    memcpy(memory + (size_t)5 * RING_LINE, &header, sizeof(header));
    header.stamp = LEAST / RING_LINE | 1u << 31;
    memcpy(memory, &header, sizeof(header));
    ck_assert_int_eq(ring_look(&take, &header, &octets), RING_BROKEN);
}
END_TEST

/* --- records that are held --- */

/* From each line of the ring, so that its end lies before, between and behind them. */
START_TEST(records_that_are_held_come_all_at_once)
{
    static const uint32_t pieces[] = { 64, 0, 200, 16, 17 };

    for (uint32_t line = 0; line < LEAST / RING_LINE; line++) {
        open_at(LEAST, LEAST * 3 + line * RING_LINE);
        ring_hold(&put);
        for (uint32_t i = 0; i < ARRAY_SIZE(pieces); i++) {
            ck_assert(put_record(i, pieces[i]));
            ck_assert_msg(has_none(), "line %u, record %u", line, i);
        }
        ring_release(&put);
        for (uint32_t i = 0; i < ARRAY_SIZE(pieces); i++)
            ck_assert_msg(takes_record(i, pieces[i]), "line %u, record %u", line, i);
        ck_assert(has_none());
        ck_assert(put_record(9, 64)); /* held no more */
        ck_assert(takes_record(9, 64));
    }
}
END_TEST

START_TEST(nothing_held_is_nothing_to_release)
{
    ring_hold(&put);
    ring_release(&put);
    ck_assert(has_none());
    ck_assert(put_record(1, 64));
    ring_release(&put);
    ck_assert(takes_record(1, 64));
    ck_assert(has_none());
}
END_TEST

/* --- bare requests --- */

START_TEST(a_bare_request_keeps_what_is_read_of_it)
{
    const struct ring_header header = { .kind = RING_REQUEST,
                                        .opcode = 7,
                                        .flags = RING_SOLICITED | RING_TELLS,
                                        .piece = 64,
                                        .length = 64,
                                        .executed = 0x12345678 };
    struct ring_header found;
    const uint8_t *octets;
    uint8_t *place;

    memset(memory, 0xA5, LEAST);
    atomic_store(ring_word(memory, LEAST, 0), 0);
    place = ring_reserve(&put, 64);
    ck_assert_ptr_nonnull(place);
    memset(place, 0x3C, 64);
    ring_publish_bare(&put, &header);
    ck_assert_int_eq(ring_look(&take, &found, &octets), RING_RECORD_FOUND);
    ck_assert_int_eq(found.kind, header.kind);
    ck_assert_int_eq(found.opcode, header.opcode);
    ck_assert_int_eq(found.flags, header.flags);
    ck_assert_uint_eq(found.piece, header.piece);
    ck_assert_uint_eq(found.length, header.length);
    ck_assert_uint_eq(found.executed, header.executed);
    ck_assert_int_eq(memcmp(octets, place, 64), 0);
    ring_pass(&take, &found);
    ck_assert(has_none());
}
END_TEST

/* --- schedules --- */

#define QUEUED 4096u

struct model {
    uint32_t pieces[QUEUED];
    uint32_t in, out;
};

static uint32_t some_piece(struct tc_rng *rng)
{
    switch (tc_below(rng, 4)) {
    case 0: return 0;
    case 1: return (uint32_t)tc_below(rng, 80);
    case 2: return RING_PIECE - (uint32_t)tc_below(rng, 80);
    default: return (uint32_t)tc_below(rng, RING_PIECE + 1);
    }
}

/* Loop tests differ in the size and in how often each end has its turn. */
START_TEST(any_schedule_keeps_order_and_contents)
{
    struct tc_rng rng = tc_rng(100 + (uint64_t)_i);
    const uint32_t octets = _i & 1 ? 2 * LEAST : LEAST, puts = 1 + (uint32_t)_i % 5;
    struct model model = { .in = 0 };

    open_at(octets, (uint64_t)tc_below(&rng, 1u << 20) * RING_LINE);
    for (int step = 0; step < 20000; step++) {
        uint32_t piece = some_piece(&rng);

        if (tc_below(&rng, 6) < puts) {
            if (put_record(model.in, piece))
                model.pieces[model.in++ % QUEUED] = piece;
        } else if (model.out != model.in) {
            ck_assert_msg(takes_record(model.out, model.pieces[model.out % QUEUED]),
                          "record %u of %u", model.out, model.in);
            model.out++;
        } else {
            ck_assert(has_none());
        }
        if (!tc_below(&rng, 3))
            ring_note_taken(&put, take.at);
    }
    for (; model.out != model.in; model.out++)
        ck_assert(takes_record(model.out, model.pieces[model.out % QUEUED]));
    ck_assert(has_none());
}
END_TEST

/* --- two threads --- */

#define CROSSINGS 40000u

static atomic_ullong told;

static void *put_all(void *arg)
{
    struct tc_rng rng = *(struct tc_rng *)arg;
    const uint32_t crossings = (uint32_t)tc_count(CROSSINGS);

    for (uint32_t number = 0; number < crossings; number++) {
        uint32_t piece = (uint32_t)tc_below(&rng, tc_below(&rng, 64) ? 200 : RING_PIECE + 1);

        while (!put_record(number, piece)) {
            ring_note_taken(&put, atomic_load_explicit(&told, memory_order_acquire));
            sched_yield();
        }
    }
    return NULL;
}

/* What is seen is whole: a record may be put while this end looks. */
static bool comes(uint32_t number, uint32_t piece)
{
    struct ring_header found;
    const uint8_t *octets;

    if (!tc_until(ring_look(&take, &found, &octets) != RING_NONE, 20000) ||
        !is_record(&found, octets, number, piece))
        return false;
    ring_pass(&take, &found);
    return true;
}

START_TEST(two_threads_hand_over_each_record_once)
{
    struct tc_rng rng = tc_rng(7), same = rng;
    const uint32_t crossings = (uint32_t)tc_count(CROSSINGS);
    pthread_t thread;

    atomic_store(&told, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, put_all, &rng), 0);
    for (uint32_t number = 0; number < crossings; number++) {
        uint32_t piece = (uint32_t)tc_below(&same, tc_below(&same, 64) ? 200 : RING_PIECE + 1);

        if (!comes(number, piece)) /* an assertion each would be most of the time */
            ck_abort_msg("record %u", number);
        atomic_store_explicit(&told, take.at, memory_order_release);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(has_none());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_ring");
    TCase *records = tc_case(suite, "records", setup, NULL);
    TCase *hostile = tc_case(suite, "hostile", setup, NULL);
    TCase *schedules = tc_case(suite, "schedules", setup, NULL);

    tc_add_tests(records, a_record_of_each_size_comes_out_as_it_went_in,
                 a_record_that_does_not_fit_the_end_is_put_at_the_beginning,
                 what_is_not_taken_is_never_overwritten,
                 what_the_taker_says_is_believed_as_far_as_it_can_be_true,
                 a_stamp_of_an_earlier_round_is_none, octets_that_look_like_stamps_are_none,
                 records_that_are_held_come_all_at_once, nothing_held_is_nothing_to_release,
                 a_bare_request_keeps_what_is_read_of_it);
    tc_add_tests(hostile, a_record_beyond_the_ring_is_broken, a_kind_that_is_none_is_broken,
                 a_ring_of_nothing_is_broken);
    tcase_set_timeout(schedules, 0.001 * tc_timeout_ms(90000));
    tcase_add_loop_test(schedules, any_schedule_keeps_order_and_contents, 0, 20);
    tc_add_tests(schedules, two_threads_hand_over_each_record_once);
    return tc_main(suite);
}
