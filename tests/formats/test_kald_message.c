/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of kald: what one end writes the other reads, and nothing else. */
#include "base/be.h"
#include "formats/kald_message.h"
#include "tc.h"

static struct kald_message message, again;
static uint8_t octets[KALD_MESSAGE_MAX];

/* One of each message: type, an answer, of kald. */
static const struct sample {
    enum kald_type type;
    bool answer, from_kald;
    size_t length;
} samples[] = {
    { KALD_HELLO, false, false, 72 },
    { KALD_HELLO, true, true, 48 },
    { KALD_TAKE, false, false, 48 },
    { KALD_TAKE, true, true, 40 },
    { KALD_GIVE, false, false, 40 },
    { KALD_GIVE, true, false, 40 },
    { KALD_GIVE, false, true, 40 },
    { KALD_STATS, false, false, 24 },
    { KALD_STATS, true, true, 40 + 42 * 96 },
    { KALD_POLICY, false, true, 32 },
    { KALD_POLICY, true, false, 32 },
    { KALD_LISTEN, false, false, 48 },
    { KALD_LISTEN, true, true, 24 },
    { KALD_SLOT, false, false, 24 },
    { KALD_SLOT, true, true, 32 },
    { KALD_ADDRESS, false, false, 40 },
    { KALD_ADDRESS, true, true, 24 },
    { KALD_NUMBERS, false, false, 24 },
    { KALD_SERVICE, false, false, 56 },
    { KALD_SERVICE, true, true, 32 },
};
enum { COUNT = sizeof(samples) / sizeof(*samples) };

static void fill_entry(struct kald_entry *entry, uint64_t n)
{
    *entry = (struct kald_entry){ n, (uint32_t)n + 1, (uint32_t)n + 2, n + 3, { { 0, 0 } }, { 0 } };
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        entry->counts[kind] = (struct kald_count){ n + 10, n + 9 };
        entry->limits[kind] = n + 30 + (uint64_t)kind;
    }
}

static size_t make(const struct sample *sample)
{
    memset(&message, 0, sizeof(message));
    message.type = sample->type;
    message.answer = sample->answer;
    message.id = 0x01020304;
    message.generation = 0x1122334455667788;
    message.kind = POLICY_PINNED;
    message.total = 40;
    message.least = 30;
    message.used = 20;
    message.limit = KALD_NO_LIMIT;
    message.length = 100;
    message.cursor = 5;
    message.clients = 77;
    message.count = KALD_ENTRIES;
    for (unsigned i = 0; i < KALD_ENTRIES; i++)
        fill_entry(&message.entries[i], i * 1000);
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        message.counts[kind] = (struct kald_count){ 9, 8 };
        message.limits[kind] = 100 + (uint64_t)kind;
    }
    message.family = 6;
    message.port = 443;
    message.scope = 3;
    memset(message.address, 0xfe, sizeof(message.address));
    message.slot = 5;
    message.slots = KALD_SLOTS;
    message.qpn = 0x123405;
    message.deed = KALD_HEAR;
    message.place = 7;
    message.service = 0x0000000001061c06;
    message.families = KALD_IPV4 | KALD_REUSE;
    message.space = 0x0106;
    return kald_encode(&message, octets);
}

static void same_numbers(void)
{
    ck_assert_int_eq(again.type, message.type);
    ck_assert_int_eq(again.answer, message.answer);
    ck_assert_int_eq(again.status, message.status);
    ck_assert_uint_eq(again.id, message.id);
}

START_TEST(what_one_end_writes_the_other_reads)
{
    const struct sample *sample = &samples[_i];
    uint8_t second[KALD_MESSAGE_MAX];
    size_t length = make(sample);

    ck_assert_uint_eq(length, sample->length);
    ck_assert(kald_decode(octets, length, sample->from_kald, &again));
    same_numbers();
    ck_assert_uint_eq(kald_encode(&again, second), length);
    ck_assert_mem_eq(second, octets, length);
}
END_TEST

/* But GIVE, which goes both ways. */
START_TEST(the_other_direction_is_refused)
{
    const struct sample *sample = &samples[_i];
    size_t length = make(sample);
    bool both = sample->type == KALD_GIVE && !sample->answer;

    ck_assert_int_eq(kald_decode(octets, length, !sample->from_kald, &again), both);
}
END_TEST

START_TEST(every_other_length_is_refused)
{
    const struct sample *sample = &samples[_i];
    size_t length = make(sample);

    memset(octets + length, 0, sizeof(octets) - length);
    for (size_t other = 0; other <= sizeof(octets); other++)
        ck_assert_int_eq(kald_decode(octets, other, sample->from_kald, &again), other == length);
    /* With the length in the header right, too. */
    for (size_t other = 16; other <= sizeof(octets); other++) {
        be_put32(octets + 12, (uint32_t)other);
        ck_assert_int_eq(kald_decode(octets, other, sample->from_kald, &again), other == length);
    }
}
END_TEST

/* A change that is read as another message reads as just that; all others are refused. */
START_TEST(every_changed_octet_is_noticed_or_refused)
{
    const struct sample *sample = &samples[_i];
    uint8_t second[KALD_MESSAGE_MAX];
    size_t length = make(sample), refused = 0;

    for (size_t at = 0; at < length; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            octets[at] ^= (uint8_t)(1u << bit);
            if (kald_decode(octets, length, sample->from_kald, &again)) {
                ck_assert_uint_eq(kald_encode(&again, second), length);
                ck_assert_mem_eq(second, octets, length);
            } else {
                refused++;
            }
            octets[at] ^= (uint8_t)(1u << bit);
        }
    }
    /* Magic, version and length at least. */
    ck_assert_uint_ge(refused, 8 * 9);
}
END_TEST

/* One field of a message is out of its range. */
static void refuse32(enum kald_type type, bool answer, bool from_kald, size_t at, uint32_t value)
{
    const struct sample sample = { type, answer, from_kald, 0 };
    size_t length = make(&sample);

    ck_assert(kald_decode(octets, length, from_kald, &again));
    be_put32(octets + at, value);
    ck_assert_msg(!kald_decode(octets, length, from_kald, &again), "type %d, octet %zu", type, at);
}

static void refuse8(enum kald_type type, bool answer, bool from_kald, size_t at, uint8_t value)
{
    const struct sample sample = { type, answer, from_kald, 0 };
    size_t length = make(&sample);

    octets[at] = value;
    ck_assert_msg(!kald_decode(octets, length, from_kald, &again), "type %d, octet %zu", type, at);
}

START_TEST(every_field_out_of_range_is_refused)
{
    refuse32(KALD_STATS, false, false, 0, 0x4b414c45);
    refuse8(KALD_STATS, false, false, 4, KALD_VERSION + 1);
    refuse8(KALD_STATS, false, false, 5, 0);
    refuse8(KALD_STATS, false, false, 5, KALD_TYPES);
    refuse8(KALD_STATS, false, false, 6, 2);
    refuse8(KALD_STATS, false, false, 7, KALD_LIMIT); /* a question has no status */
    refuse8(KALD_TAKE, true, true, 7, KALD_STATUSES);
    refuse8(KALD_POLICY, true, false, 7, KALD_FAILED);
    refuse32(KALD_HELLO, false, false, 16, KALD_OBSERVER | KALD_ROCE); /* it is one of them */
    refuse32(KALD_HELLO, false, false, 16, 4);
    refuse32(KALD_HELLO, false, false, 20, 1);
    refuse32(KALD_HELLO, false, false, 36, 10); /* more is used than held */
    refuse32(KALD_TAKE, false, false, 16, POLICY_KINDS);
    refuse32(KALD_TAKE, false, false, 20, 4);
    refuse32(KALD_TAKE, false, false, 36, 41); /* least above total */
    refuse32(KALD_TAKE, false, false, 44, 31); /* used above least */
    refuse32(KALD_TAKE, true, true, 16, POLICY_KINDS);
    refuse32(KALD_TAKE, true, true, 20, 1);
    refuse32(KALD_GIVE, false, true, 16, POLICY_KINDS);
    refuse32(KALD_GIVE, false, false, 20, 1);
    refuse32(KALD_GIVE, true, false, 36, 41);
    refuse32(KALD_STATS, true, true, 24, KALD_ENTRIES + 1);
    refuse32(KALD_STATS, true, true, 24, KALD_ENTRIES - 1);
    refuse32(KALD_POLICY, false, true, 24, 1);
    refuse32(KALD_POLICY, true, false, 28, 1);
    refuse32(KALD_LISTEN, false, false, 16, 4);
    refuse32(KALD_LISTEN, false, false, 20, 5 << 16 | 443);
    refuse32(KALD_LISTEN, false, false, 28, 1);
    refuse32(KALD_LISTEN, false, false, 20, 4 << 16 | 443); /* IPv4 has no more than 4 octets */
    refuse32(KALD_LISTEN, true, true, 16, 13);              /* OK with an error */
    refuse8(KALD_LISTEN, true, true, 7, KALD_FAILED);       /* FAILED without one */
    refuse32(KALD_LISTEN, true, true, 20, 1);
}
END_TEST

START_TEST(every_field_of_RoCE_out_of_range_is_refused)
{
    refuse32(KALD_SLOT, false, false, 16, 1);
    refuse32(KALD_SLOT, false, false, 20, 1);
    refuse32(KALD_SLOT, true, true, 16, KALD_SLOTS);
    refuse32(KALD_SLOT, true, true, 20, KALD_SLOTS - 1);
    refuse32(KALD_SLOT, true, true, 24, 0x1000000);
    refuse32(KALD_SLOT, true, true, 28, 1);
    refuse32(KALD_ADDRESS, false, false, 36, 1);
    refuse32(KALD_ADDRESS, true, true, 16, 13);        /* OK with an error */
    refuse8(KALD_ADDRESS, true, true, 7, KALD_FAILED); /* FAILED without one */
    refuse32(KALD_ADDRESS, true, true, 20, 1);
    refuse32(KALD_NUMBERS, false, false, 16, 0x1000000);
    refuse32(KALD_NUMBERS, false, false, 20, 1);
    refuse32(KALD_SERVICE, false, false, 16, KALD_DEEDS);
    refuse8(KALD_SERVICE, false, false, 52, 0x80); /* a family that there is not */
    refuse32(KALD_SERVICE, true, true, 20, 1);
}
END_TEST

START_TEST(an_ipv4_address_is_read)
{
    static const struct sample sample = { KALD_LISTEN, false, false, 48 };
    size_t length;

    make(&sample);
    message.family = 4;
    message.scope = 0;
    memset(message.address + 4, 0, 12);
    length = kald_encode(&message, octets);
    ck_assert(kald_decode(octets, length, false, &again));
    ck_assert_mem_eq(again.address, message.address, 16);
    be_put32(octets + 24, 1); /* and has no scope */
    ck_assert(!kald_decode(octets, length, false, &again));
}
END_TEST

START_TEST(files_of_a_policy_are_read_in_order)
{
    uint8_t room[100];
    const char *name, *text;
    size_t length, at = 0, end;
    bool wrong;

    end = kald_policy_file(room, sizeof(room), "/a/1.conf", "deny any\n", 9);
    ck_assert_uint_eq(end, 8 + 10 + 9);
    ck_assert_uint_eq(kald_policy_file(NULL, sizeof(room) - end, "/a/2.conf", "", 0), 18);
    end += kald_policy_file(room + end, sizeof(room) - end, "/a/2.conf", "", 0);
    ck_assert_uint_eq(kald_policy_file(room, 26, "/a/1.conf", "deny any\n", 9), 0);
    ck_assert(kald_policy_next(room, end, &at, &name, &text, &length, &wrong));
    ck_assert_str_eq(name, "/a/1.conf");
    ck_assert_uint_eq(length, 9);
    ck_assert_mem_eq(text, "deny any\n", 9);
    ck_assert(kald_policy_next(room, end, &at, &name, &text, &length, &wrong));
    ck_assert_str_eq(name, "/a/2.conf");
    ck_assert_uint_eq(length, 0);
    ck_assert(!kald_policy_next(room, end, &at, &name, &text, &length, &wrong));
    ck_assert(!wrong);
    /* Cut anywhere but between two files. */
    for (size_t cut = 1; cut < end; cut++) {
        at = 0;
        while (kald_policy_next(room, cut, &at, &name, &text, &length, &wrong))
            ;
        ck_assert_int_eq(wrong, cut != 27);
    }
    room[8 + 4] = '\0'; /* a NUL inside the name */
    at = 0;
    ck_assert(!kald_policy_next(room, end, &at, &name, &text, &length, &wrong));
    ck_assert(wrong);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald_message");
    TCase *tc = tc_case(suite, "messages", NULL, NULL);

    tc_add_loops(tc, 0, COUNT, what_one_end_writes_the_other_reads, the_other_direction_is_refused,
                 every_other_length_is_refused, every_changed_octet_is_noticed_or_refused);
    tc_add_tests(tc, every_field_out_of_range_is_refused,
                 every_field_of_RoCE_out_of_range_is_refused, an_ipv4_address_is_read,
                 files_of_a_policy_are_read_in_order);
    return tc_main(suite);
}
