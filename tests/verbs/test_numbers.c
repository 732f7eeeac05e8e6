/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections by QP numbers, the parts without side effects: private data, table of states, the
 * option.
 */
#include "tc.h"

#include "base/compiler.h"
#include "verbs/numbers/link_fsm.h"
#include "verbs/numbers/port_range.h"
#include "verbs/numbers/private_data.h"

/* --- private data --- */

static const struct hello example = {
    .flags = HELLO_ROCE,
    .reason = HELLO_CROWDED,
    .own_qpn = 0x123456,
    .wanted_qpn = 0xabcdef,
    .own_gid = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
    .expected_psn = 0x00fedc,
};

static const uint8_t octets_of_example[HELLO_OCTETS] = {
    'i', 't', 'Q', 'N', 1, 1, 0, 3, 0,    0x12, 0x34, 0x56, 0, 0xab, 0xcd, 0xef, 0,    0,
    0,   0,   0,   0,   0, 0, 0, 0, 0xff, 0xff, 192,  0,    2, 1,    0,    0,    0xfe, 0xdc,
};

START_TEST(private_data_is_laid_out_as_documented)
{
    uint8_t octets[HELLO_OCTETS];

    hello_encode(&example, octets);
    ck_assert_mem_eq(octets, octets_of_example, sizeof(octets));
}
END_TEST

START_TEST(private_data_is_read_back)
{
    struct hello hello = { 0 };

    ck_assert(hello_decode(octets_of_example, HELLO_OCTETS, &hello));
    ck_assert_uint_eq(hello.flags, example.flags);
    ck_assert_uint_eq(hello.reason, example.reason);
    ck_assert_uint_eq(hello.own_qpn, example.own_qpn);
    ck_assert_uint_eq(hello.wanted_qpn, example.wanted_qpn);
    ck_assert_uint_eq(hello.expected_psn, example.expected_psn);
    ck_assert_mem_eq(hello.own_gid, example.own_gid, sizeof(hello.own_gid));
}
END_TEST

START_TEST(padding_behind_private_data_is_not_looked_at)
{
    uint8_t octets[92] = { 0 };
    struct hello hello;

    memcpy(octets, octets_of_example, HELLO_OCTETS);
    ck_assert(hello_decode(octets, sizeof(octets), &hello));
}
END_TEST

START_TEST(private_data_that_is_cut_anywhere_is_refused)
{
    struct hello hello;

    memcpy(&hello, &example, sizeof(hello));
    ck_assert(!hello_decode(NULL, 0, &hello));
    for (size_t length = 0; length < HELLO_OCTETS; length++)
        ck_assert(!hello_decode(octets_of_example, length, &hello));
    ck_assert_mem_eq(&hello, &example, sizeof(hello));
}
END_TEST

/* One of the places is the first octet of a 24-bit number. */
START_TEST(another_magic_version_or_a_number_of_more_than_24_bits_is_refused)
{
    static const uint8_t places[] = { 0, 1, 2, 3, 4, 8, 12, 32 };
    uint8_t octets[HELLO_OCTETS];
    struct hello hello;

    memcpy(octets, octets_of_example, sizeof(octets));
    octets[places[_i]] ^= 0x10;
    ck_assert(!hello_decode(octets, sizeof(octets), &hello));
}
END_TEST

/* --- states --- */

static enum link_state after(enum link_state state, enum link_stimulus stimulus,
                             enum link_action expected)
{
    struct link_step step = link_fsm(state, stimulus);

    ck_assert_int_eq(step.action, expected);
    return step.next;
}

START_TEST(the_smaller_side_waits_accepts_and_is_open)
{
    enum link_state state = after(LINK_IDLE, LINK_AWAIT, LINK_DO_SEARCH);

    state = after(state, LINK_REQUEST, LINK_DO_SEARCH);
    state = after(state, LINK_ACCEPTED, LINK_NOTHING);
    ck_assert_int_eq(state, LINK_ACCEPTING);
    state = after(state, LINK_ATTEMPT_FAILED, LINK_DO_SEARCH);
    ck_assert_int_eq(state, LINK_AWAITING);
    state = after(state, LINK_ACCEPTED, LINK_NOTHING);
    state = after(state, LINK_ESTABLISHED, LINK_DO_OPEN);
    state = after(state, LINK_CONNECTION_ENDED, LINK_DO_END);
    ck_assert_int_eq(state, LINK_ENDED);
}
END_TEST

START_TEST(the_larger_side_tries_again_until_it_is_open)
{
    enum link_state state = after(LINK_IDLE, LINK_CONNECT, LINK_DO_CONNECT);

    state = after(state, LINK_ATTEMPT_FAILED, LINK_DO_PAUSE);
    ck_assert_int_eq(state, LINK_PAUSED);
    state = after(state, LINK_PAUSE_OVER, LINK_DO_CONNECT);
    ck_assert_int_eq(after(state, LINK_ESTABLISHED, LINK_DO_OPEN), LINK_OPEN);
}
END_TEST

START_TEST(time_runs_out_only_without_a_connection)
{
    static const enum link_state waits[] = { LINK_AWAITING, LINK_ACCEPTING, LINK_CONNECTING,
                                             LINK_PAUSED };
    static const enum link_state others[] = { LINK_IDLE, LINK_OPEN, LINK_FAILED };

    for (size_t i = 0; i < ARRAY_SIZE(waits); i++)
        ck_assert_int_eq(after(waits[i], LINK_OUT_OF_TIME, LINK_DO_FAIL), LINK_FAILED);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        ck_assert_int_eq(after(others[i], LINK_OUT_OF_TIME, LINK_NOTHING), others[i]);
    ck_assert_int_eq(after(LINK_ENDED, LINK_OUT_OF_TIME, LINK_DO_BURY), LINK_FAILED);
}
END_TEST

/* IDLE keeps requests until it knows its peer, ACCEPTING in case the accepted one fails. */
START_TEST(a_request_is_parked_searched_or_refused_in_every_state)
{
    static const enum link_action expected[LINK_STATES] = {
        [LINK_IDLE] = LINK_NOTHING,      [LINK_AWAITING] = LINK_DO_SEARCH,
        [LINK_ACCEPTING] = LINK_NOTHING, [LINK_CONNECTING] = LINK_DO_REFUSE,
        [LINK_PAUSED] = LINK_DO_REFUSE,  [LINK_OPEN] = LINK_DO_REFUSE,
        [LINK_ENDED] = LINK_DO_REFUSE,   [LINK_FAILED] = LINK_DO_REFUSE,
    };

    ck_assert_int_eq(after((enum link_state)_i, LINK_REQUEST, expected[_i]), _i);
}
END_TEST

START_TEST(what_ended_stays_so)
{
    for (int stimulus = 0; stimulus < LINK_STIMULI; stimulus++) {
        if (stimulus != LINK_OUT_OF_TIME)
            ck_assert_int_eq(link_fsm(LINK_ENDED, (enum link_stimulus)stimulus).next, LINK_ENDED);
        ck_assert_int_eq(link_fsm(LINK_FAILED, (enum link_stimulus)stimulus).next, LINK_FAILED);
    }
}
END_TEST

/* --- option port_range --- */

START_TEST(a_range_of_ports_is_read)
{
    uint16_t low = 0, high = 0;

    ck_assert(ports_parse_range("1024-65535", &low, &high));
    ck_assert_uint_eq(low, 1024);
    ck_assert_uint_eq(high, 65535);
    ck_assert(ports_parse_range("4000-4000", &low, &high));
    ck_assert_uint_eq(low, 4000);
    ck_assert_uint_eq(high, 4000);
}
END_TEST

static const char *const no_ranges[] = { "",          "1024",      "1024-",      "-2000",
                                         "1023-2000", "2000-1999", "2000-65536", "2000-3000x",
                                         "2000 -300", "0x800-900", "+2000-3000" };

START_TEST(what_is_no_range_changes_nothing)
{
    uint16_t low = 7, high = 8;

    ck_assert_msg(!ports_parse_range(no_ranges[_i], &low, &high), "'%s'", no_ranges[_i]);
    ck_assert_uint_eq(low, 7);
    ck_assert_uint_eq(high, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections by numbers, pure parts");
    TCase *tc = tc_case(suite, "private data", NULL, NULL);

    tc_add_tests(tc, private_data_is_laid_out_as_documented, private_data_is_read_back,
                 padding_behind_private_data_is_not_looked_at,
                 private_data_that_is_cut_anywhere_is_refused);
    tcase_add_loop_test(tc, another_magic_version_or_a_number_of_more_than_24_bits_is_refused, 0,
                        8);
    tc = tc_case(suite, "states", NULL, NULL);
    tc_add_tests(tc, the_smaller_side_waits_accepts_and_is_open,
                 the_larger_side_tries_again_until_it_is_open,
                 time_runs_out_only_without_a_connection, what_ended_stays_so);
    tcase_add_loop_test(tc, a_request_is_parked_searched_or_refused_in_every_state, 0, LINK_STATES);
    tc = tc_case(suite, "port_range", NULL, NULL);
    tcase_add_test(tc, a_range_of_ports_is_read);
    tc_add_rows(tc, what_is_no_range_changes_nothing, no_ranges);
    return tc_main(suite);
}
