/* SPDX-License-Identifier: BSD-3-Clause
 * Fault scripts: what is read, what is refused in which words, what is selected. */
#include "providers/filter/fault_script.h"

#include "tc.h"

static bool read_text(const char *text, size_t length, struct fault_script *script, char why[400])
{
    FILE *file = fmemopen((void *)(uintptr_t)text, length, "r");
    bool good;

    ck_assert_ptr_nonnull(file);
    why[0] = '\0';
    good = fault_script_read(file, script, why, 400);
    fclose(file);
    return good;
}

static struct fault_script script_of(const char *text)
{
    struct fault_script script;
    char why[400];
    bool good = read_text(text, strlen(text), &script, why);

    ck_assert_msg(good, "%s", why);
    return script;
}

START_TEST(each_kind_of_rule_is_read)
{
    struct fault_script script = script_of("# a comment\n\nseed 18446744073709551615\n"
                                           "fail post_send queue_full at 3 # the third\n"
                                           "error read remote_access every 5 from 2 times 7 qp 9\n"
                                           "delay receive 20us chance 100%\n"
                                           "drop after 64k\r\n"
                                           "\tdrop  at 2");
    const struct fault_rule *rules = script.rules;

    ck_assert_uint_eq(script.count, 5);
    ck_assert(script.seeded && script.seed == UINT64_MAX && script.delays);
    ck_assert(rules[0].action == FAULT_FAIL && rules[0].verb == PASS_POST_SEND &&
              rules[0].status == RI_ERR_QUEUE_FULL && rules[0].at == 3 && rules[0].line == 4);
    ck_assert(rules[1].action == FAULT_ERROR && rules[1].requests == FAULT_READ &&
              rules[1].wc_status == RI_WC_REMOTE_ACCESS && rules[1].every == 5 &&
              rules[1].from == 2 && rules[1].times == 7 && rules[1].qp == 9);
    ck_assert(rules[2].action == FAULT_DELAY && rules[2].requests == FAULT_RECEIVE &&
              rules[2].delay_ns == 20000 && rules[2].chance == FAULT_ALWAYS);
    ck_assert(rules[3].action == FAULT_DROP && rules[3].octets == 65536);
    ck_assert(rules[4].action == FAULT_DROP && rules[4].at == 2 && rules[4].line == 8);
    fault_script_free(&script);
}
END_TEST

static const struct {
    const char *text, *why; /* the beginning of the reason */
} wrong[] = {
    { "fail\n", "1: the verb is missing: allowed is pd_create, " },
    { "\nfail nonsense busy\n", "2: the verb \"nonsense\": allowed is pd_create, " },
    { "fail post_send\n", "1: the status is missing: allowed is not_supported, " },
    { "fail qp_destroy busy\n", "1: the verb \"qp_destroy\": allowed is " },
    { "fail post_send lost\n", "1: the status \"lost\": allowed is not_supported, " },
    { "error\n", "1: the request is missing: allowed is send, write, " },
    { "error sends rnr\n",
      "1: the request \"sends\": allowed is send, write, read, atomic, posted" },
    { "error send success\n", "1: the status \"success\": allowed is local_length, " },
    { "delay send\n", "1: time \"\": allowed is a number with us, ms or s" },
    { "delay send 10\n", "1: time \"10\"" },
    { "delay send 0ms\n", "1: time \"0ms\"" },
    { "delay send 4000s\n", "1: time \"4000s\"" },
    { "drop after 10x\n", "1: octets \"10x\": allowed is a number from 1" },
    { "drop after 18446744073709551615k\n", "1: octets " },
    { "drop at 0\n", "1: at \"0\": allowed is a number from 1" },
    { "drop at\n", "1: at \"\": allowed" },
    { "drop at -1\n", "1: at \"-1\": allowed" },
    { "drop at 99999999999999999999\n", "1: at " },
    { "drop chance 0\n", "1: chance \"0\": allowed is a number above 0" },
    { "drop chance 101%\n", "1: chance \"101%\"" },
    { "drop chance nan\n", "1: chance \"nan\"" },
    { "drop at 3 chance 1%\n", "1: at selects one" },
    { "drop after 3 at 1\n", "1: after counts octets" },
    { "drop twice\n", "1: \"twice\": allowed is at, from, every, times, chance, qp, after" },
    { "fail arm busy qp 1\n", "1: \"qp\": allowed is at, from, every, times, chance" },
    { "error send rnr after 1\n", "1: \"after\": allowed is at, from, every, times, chance, qp" },
    { "seed\n", "1: seed \"\": allowed is a number" },
    { "seed x\n", "1: seed \"x\"" },
    { "seed 1 2\n", "1: \"2\" stands behind the seed" },
    { "explode\n", "1: \"explode\": allowed is seed, fail, error, delay, drop, reorder" },
    { "reorder posted 1ms\n", "1: \"1ms\": allowed is at, from, every, times, chance, qp" },
    { "drop\nfail\n", "2: " },
    { "# nothing\n", "1: no rule" },
};

START_TEST(a_wrong_script_is_refused_with_line_and_what_is_allowed)
{
    struct fault_script script;
    char why[400];

    ck_assert(!read_text(wrong[_i].text, strlen(wrong[_i].text), &script, why));
    ck_assert_msg(!strncmp(why, wrong[_i].why, strlen(wrong[_i].why)), "%s", why);
}
END_TEST

/* Octets of any kind: read or refused, within bounds (sanitizers). */
START_TEST(any_octets_are_read_or_refused)
{
    static const char *const words[] = { "fail ",      "error ", "delay ",  "drop ",
                                         "post_send ", "send ",  "rnr ",    "at ",
                                         "1 ",         "10ms ",  "chance ", "1% ",
                                         "\n",         "#",      "seed ",   "after " };
    uint64_t state = 12345;
    char text[400], why[400];
    struct fault_script script;

    for (unsigned long round = 0; round < tc_count(3000); round++) {
        size_t length = 0;

        while (length < 300) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            if ((state >> 60) == 0)
                text[length++] = (char)(state >> 40);
            else
                length += (size_t)sprintf(text + length, "%s",
                                          words[(state >> 33) % (sizeof(words) / sizeof(*words))]);
        }
        if (read_text(text, length, &script, why))
            fault_script_free(&script);
        else
            ck_assert_uint_gt(strlen(why), 3);
    }
}
END_TEST

static void selected(const char *text, uint64_t stream, char seen[41])
{
    struct fault_script script = script_of(text);
    struct fault_count count = { 0 };

    for (int i = 0; i < 40; i++)
        seen[i] = fault_rule_hits(&script, &script.rules[0], &count, stream) ? 'x' : '.';
    seen[40] = '\0';
    fault_script_free(&script);
}

START_TEST(rules_select_by_number)
{
    char seen[41];

    selected("drop", 0, seen);
    ck_assert_str_eq(seen, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    selected("drop at 3", 0, seen);
    ck_assert_str_eq(seen, "..x.....................................");
    selected("drop from 30 every 4", 0, seen);
    ck_assert_str_eq(seen, ".............................x...x...x..");
    selected("drop every 10 times 2", 0, seen);
    ck_assert_str_eq(seen, "x.........x.............................");
}
END_TEST

START_TEST(chance_is_the_same_by_the_same_seed)
{
    char first[41], again[41];

    selected("seed 1\ndrop chance 50%", 1, first);
    selected("seed 1\ndrop chance .5", 1, again);
    ck_assert_str_eq(first, again);
    selected("seed 2\ndrop chance 50%", 1, again);
    ck_assert_str_ne(first, again);
    selected("seed 1\ndrop chance 50%", 2, again);
    ck_assert_str_ne(first, again); /* another QP */
}
END_TEST

/* 10 % of 100,000 is 10,000; 600 are more than six standard deviations. */
START_TEST(chance_is_as_large_as_it_says)
{
    struct fault_script script = script_of("seed 3\ndrop chance 10%");
    struct fault_count count = { 0 };

    for (unsigned i = 0; i < 100000; i++)
        fault_rule_hits(&script, &script.rules[0], &count, 0);
    ck_assert_uint_gt(count.done, 9400);
    ck_assert_uint_lt(count.done, 10600);
    fault_script_free(&script);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("filter: scripts");
    TCase *all = tc_case(suite, "scripts", NULL, NULL);

    tc_add_tests(all, each_kind_of_rule_is_read, any_octets_are_read_or_refused,
                 rules_select_by_number, chance_is_the_same_by_the_same_seed,
                 chance_is_as_large_as_it_says);
    tc_add_rows(all, a_wrong_script_is_refused_with_line_and_what_is_allowed, wrong);
    return tc_main(suite);
}
