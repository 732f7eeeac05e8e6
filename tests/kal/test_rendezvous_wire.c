/* SPDX-License-Identifier: BSD-3-Clause */
/* The octets of a rendezvous, as pure functions: names, offers, answers. */
#include "kal/cm/rendezvous_wire.h"
#include "tc.h"

#include <arpa/inet.h>

static union address end_of(const char *text, uint16_t port)
{
    union address address;

    memset(&address, 0, sizeof(address));
    if (inet_pton(AF_INET, text, &address.four.sin_addr) == 1) {
        address.four.sin_family = AF_INET;
        address.four.sin_port = htons(port);
    } else {
        ck_assert_int_eq(inet_pton(AF_INET6, text, &address.six.sin6_addr), 1);
        address.six.sin6_family = AF_INET6;
        address.six.sin6_port = htons(port);
    }
    return address;
}

static const struct {
    const char *initiator, *acceptor, *name;
} names[] = {
    { "127.0.0.1", "10.1.2.3",
      "ital/local/1/00000000000000000000ffff7f000001000100000000000000000000ffff0a010203fffe" },
    { "::ffff:127.0.0.1", "::ffff:10.1.2.3",
      "ital/local/1/00000000000000000000ffff7f000001000100000000000000000000ffff0a010203fffe" },
    { "::1", "2001:db8::abcd",
      "ital/local/1/00000000000000000000000000000001000120010db800000000000000000000abcdfffe" },
};

START_TEST(names_are_the_four_tuple)
{
    union address from = end_of(names[_i].initiator, 1), to = end_of(names[_i].acceptor, 65534);
    char name[RENDEZVOUS_NAME_LENGTH], turned[RENDEZVOUS_NAME_LENGTH];

    ck_assert_uint_eq(strlen(names[_i].name), sizeof(name));
    ck_assert(rendezvous_name(&from, &to, name));
    ck_assert_mem_eq(name, names[_i].name, sizeof(name));
    ck_assert(rendezvous_name(&to, &from, turned));
    ck_assert_mem_ne(name, turned, sizeof(name));
    from.any.sa_family = AF_UNSPEC;
    ck_assert(!rendezvous_name(&from, &to, name));
    ck_assert(!rendezvous_name(&to, &from, name));
}
END_TEST

static const struct rendezvous_offer sample = { .features = 0x01020304,
                                                .build = "1.2",
                                                .provider = "softrdma" };

START_TEST(offers_come_back)
{
    struct rendezvous_offer full = { .features = UINT32_MAX }, back;
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH];

    rendezvous_offer_encode(&sample, octets);
    ck_assert_mem_eq(octets,
                     "ital-loc\0\1\0\1\1\2\3\4"
                     "1.2",
                     20);
    ck_assert_int_eq(rendezvous_offer_parse(octets, sizeof(octets), &back), RENDEZVOUS_FITS);
    ck_assert_mem_eq(&back, &sample, sizeof(back));
    memset(full.build, 'b', sizeof(full.build) - 1);
    memset(full.provider, 'p', sizeof(full.provider) - 1);
    rendezvous_offer_encode(&full, octets);
    ck_assert_int_eq(rendezvous_offer_parse(octets, sizeof(octets), &back), RENDEZVOUS_FITS);
    ck_assert_mem_eq(&back, &full, sizeof(back));
    ck_assert_int_eq(rendezvous_offer_compare(&full, &back), RENDEZVOUS_FITS);
}
END_TEST

static const struct {
    size_t at; /* this octet becomes `value` */
    uint8_t value;
    size_t length;
    enum rendezvous_reason reason;
} bad_offers[] = {
    { 0, 'i', 0, RENDEZVOUS_MALFORMED },
    { 0, 'i', 15, RENDEZVOUS_MALFORMED },
    { 0, 'i', 16, RENDEZVOUS_MALFORMED },
    { 0, 'i', 111, RENDEZVOUS_MALFORMED },
    { 0, 'i', 113, RENDEZVOUS_MALFORMED },
    { 0, 'I', 112, RENDEZVOUS_MALFORMED },
    { 7, 'C', 112, RENDEZVOUS_MALFORMED },
    { 8, 1, 112, RENDEZVOUS_OTHER_VERSION },
    { 9, 0, 112, RENDEZVOUS_OTHER_VERSION },
    { 9, 2, 16, RENDEZVOUS_OTHER_VERSION }, /* of any length */
    { 9, 2, 113, RENDEZVOUS_OTHER_VERSION },
    { 10, 1, 112, RENDEZVOUS_MALFORMED },
    { 11, RENDEZVOUS_TAKEN, 112, RENDEZVOUS_MALFORMED },
    { 11, RENDEZVOUS_NO, 112, RENDEZVOUS_MALFORMED },
    { 11, RENDEZVOUS_COMMIT, 112, RENDEZVOUS_MALFORMED },
    { 11, 0, 112, RENDEZVOUS_MALFORMED },
    { 20, 'x', 112, RENDEZVOUS_MALFORMED }, /* behind the end of the build */
    { 79, 'x', 112, RENDEZVOUS_MALFORMED },
    { 111, 'x', 112, RENDEZVOUS_MALFORMED }, /* behind the end of the provider */
};

START_TEST(malformed_offers_are_refused_and_set_nothing)
{
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH + 1] = { 0 };
    struct rendezvous_offer before, offer;

    memset(&offer, 0xA5, sizeof(offer));
    before = offer;
    rendezvous_offer_encode(&sample, octets);
    octets[bad_offers[_i].at] = bad_offers[_i].value;
    ck_assert_int_eq(rendezvous_offer_parse(octets, bad_offers[_i].length, &offer),
                     bad_offers[_i].reason);
    ck_assert_mem_eq(&offer, &before, sizeof(offer));
}
END_TEST

START_TEST(texts_without_an_end_are_refused)
{
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH];
    struct rendezvous_offer offer;

    rendezvous_offer_encode(&sample, octets);
    memset(octets + (_i ? 80 : 16), 'x', _i ? 32 : 64);
    ck_assert_int_eq(rendezvous_offer_parse(octets, sizeof(octets), &offer), RENDEZVOUS_MALFORMED);
}
END_TEST

START_TEST(only_equal_ends_fit)
{
    struct rendezvous_offer other = sample;

    ck_assert_int_eq(rendezvous_offer_compare(&sample, &other), RENDEZVOUS_FITS);
    other.provider[8] = 'x';
    ck_assert_int_eq(rendezvous_offer_compare(&sample, &other), RENDEZVOUS_OTHER_PROVIDER);
    other.build[2] = '3';
    ck_assert_int_eq(rendezvous_offer_compare(&sample, &other), RENDEZVOUS_OTHER_BUILD);
    other.features++;
    ck_assert_int_eq(rendezvous_offer_compare(&sample, &other), RENDEZVOUS_OTHER_FEATURES);
}
END_TEST

START_TEST(answers_come_back)
{
    static const struct {
        enum rendezvous_kind kind;
        enum rendezvous_reason reason;
        bool valid;
    } rows[] = {
        { RENDEZVOUS_TAKEN, RENDEZVOUS_FITS, true },
        { RENDEZVOUS_COMMIT, RENDEZVOUS_FITS, true },
        { RENDEZVOUS_NO, RENDEZVOUS_MALFORMED, true },
        { RENDEZVOUS_NO, RENDEZVOUS_NO_MEMORY, true },
        { RENDEZVOUS_NO, RENDEZVOUS_FITS, false },
        { RENDEZVOUS_NO, RENDEZVOUS_REASONS, false },
        { RENDEZVOUS_TAKEN, RENDEZVOUS_NO_MEMORY, false },
        { RENDEZVOUS_COMMIT, RENDEZVOUS_MALFORMED, false },
        { RENDEZVOUS_OFFER, RENDEZVOUS_FITS, false },
        { (enum rendezvous_kind)(RENDEZVOUS_COMMIT + 1), RENDEZVOUS_FITS, false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint8_t octets[RENDEZVOUS_ANSWER_LENGTH + 1] = { 0 };
        enum rendezvous_reason reason;
        enum rendezvous_kind kind;

        rendezvous_answer_encode(rows[i].kind, rows[i].reason, octets);
        ck_assert_msg(rendezvous_answer_parse(octets, RENDEZVOUS_ANSWER_LENGTH, &kind, &reason) ==
                          rows[i].valid,
                      "row %zu", i);
        if (!rows[i].valid)
            continue;
        ck_assert_int_eq(kind, rows[i].kind);
        ck_assert_int_eq(reason, rows[i].reason);
        for (size_t length = 0; length <= sizeof(octets); length++)
            ck_assert(rendezvous_answer_parse(octets, length, &kind, &reason) ==
                      (length == RENDEZVOUS_ANSWER_LENGTH));
        for (size_t at = 0; at < 10; at++) { /* magic number and version */
            octets[at] ^= 4;
            ck_assert(!rendezvous_answer_parse(octets, RENDEZVOUS_ANSWER_LENGTH, &kind, &reason));
            octets[at] ^= 4;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_wire");
    TCase *t = tc_case(suite, "octets", NULL, NULL);

    tc_add_rows(t, names_are_the_four_tuple, names);
    tc_add_rows(t, malformed_offers_are_refused_and_set_nothing, bad_offers);
    tcase_add_loop_test(t, texts_without_an_end_are_refused, 0, 2);
    tc_add_tests(t, offers_come_back, only_equal_ends_fit, answers_come_back);
    return tc_main(suite);
}
