/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of tools by their table: each kind of value, ranges, widths, and what is refused. */
#include <fcntl.h>
#include <getopt.h>

#include "tc.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"

struct values {
    bool flag;
    const char *text;
    uint8_t narrow;
    uint16_t port;
    unsigned int size;
    uint64_t long_size, time_us;
    int word;
    uint32_t given;
    unsigned int taken, taken_without;
};
enum { GIVEN_FLAG = 1, GIVEN_SIZE = 2, GIVEN_WORD = 4 };

static int take(void *into, const char *text)
{
    struct values *values = into;

    if (text && !strcmp(text, "bad"))
        return tool_usage("'%s' is bad", text);
    values->taken++;
    values->taken_without += !text;
    return -1;
}

#define TO(member) TOOL_TO(struct values, member)

static const struct tool_option rows[] = {
    TOOL_HEADLINE("Values:"),
    TOOL_SWITCH('f', "flag", TO(flag), GIVEN_FLAG, "a flag"),
    TOOL_ARGUMENT('t', "text", "TEXT", TO(text), "@file", 0, "a text"),
    TOOL_VALUE(TOOL_NUMBER, 'n', "narrow", "N", TO(narrow), 3, 255, NULL, 0, "eight bits"),
    TOOL_VALUE(TOOL_NUMBER, 'p', "port", "PORT", TO(port), 0, 65535, "port", 0, "sixteen"),
    TOOL_VALUE(TOOL_SIZE, 's', "size", "SIZE", TO(size), 1, UINT32_MAX, NULL, GIVEN_SIZE,
               "thirty-two"),
    TOOL_VALUE(TOOL_SIZE, 0, "long-size", "SIZE", TO(long_size), 0, UINT64_MAX, NULL, 0,
               "sixty-four"),
    TOOL_VALUE(TOOL_SECONDS, 0, "time", "SECONDS", TO(time_us), 1000, 5000000, "time", 0, "a time"),
    TOOL_ONE_OF('w', "word", "WORD", TO(word), "one two three", 10, "word", GIVEN_WORD, "a word"),
    TOOL_BY('c', "call", "TEXT", take, NULL, 0, "by a function"),
    TOOL_MAYBE('m', "maybe", "TEXT", take, 0, "with or without"),
    TOOL_UNUSED('u', "unused"),
};

static struct tool_table table = { .usage = "Usage: t\n",
                                   .notes = "Notes.\n",
                                   .options = rows,
                                   .count = sizeof(rows) / sizeof(rows[0]),
                                   .given = offsetof(struct values, given),
                                   .operands = "@host" };

static struct values values;
static char *said;

/* The words of the line, NULL behind them; what is printed is in `said`. */
static int read_words(char *const words[])
{
    char *argv[16] = { "t" };
    int argc = 1, result, stderr_before = dup(2), stdout_before = dup(1);
    FILE *caught = tmpfile();

    for (; words[argc - 1]; argc++)
        argv[argc] = words[argc - 1];
    ck_assert_ptr_nonnull(caught);
    fflush(stdout);
    ck_assert(dup2(fileno(caught), 1) == 1 && dup2(fileno(caught), 2) == 2);
    values = (struct values){ .word = -1 };
    optind = 0; /* getopt_long begins anew */
    result = tool_read_options(&table, argc, argv, &values);
    fflush(stdout);
    ck_assert(dup2(stdout_before, 1) == 1 && dup2(stderr_before, 2) == 2);
    close(stdout_before);
    close(stderr_before);
    free(said);
    said = calloc(1, 8192);
    ck_assert_ptr_nonnull(said);
    rewind(caught);
    ck_assert_uint_lt(fread(said, 1, 8191, caught), 8191);
    fclose(caught);
    return result;
}
#define READ(...) read_words((char *const[]){ __VA_ARGS__, NULL })

START_TEST(each_kind_is_stored_in_its_width)
{
    ck_assert_int_eq(READ("-f", "-n", "255", "--port=65535", "-s4k", "--long-size", "5G", "--time",
                          "0.25", "-w", "three", "--text", "a b", "operand"),
                     -1);
    ck_assert(values.flag);
    ck_assert_uint_eq(values.narrow, 255);
    ck_assert_uint_eq(values.port, 65535);
    ck_assert_uint_eq(values.size, 4096);
    ck_assert_uint_eq(values.long_size, UINT64_C(5) << 30);
    ck_assert_uint_eq(values.time_us, 250000);
    ck_assert_int_eq(values.word, 12);
    ck_assert_str_eq(values.text, "a b");
    ck_assert_uint_eq(values.given, GIVEN_FLAG | GIVEN_SIZE | GIVEN_WORD);
    ck_assert_int_eq(optind, 14);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(what_is_not_given_stays)
{
    ck_assert_int_eq(READ("-u", "--unused"), -1);
    ck_assert(!values.flag && !values.text && !values.given);
    ck_assert_int_eq(values.word, -1);
}
END_TEST

START_TEST(functions_take_arguments_or_none)
{
    ck_assert_int_eq(READ("-c", "x", "--call=y", "-m", "--maybe", "--maybe=z"), -1);
    ck_assert_uint_eq(values.taken, 5);
    ck_assert_uint_eq(values.taken_without, 2);
    ck_assert_int_eq(READ("-c", "bad"), TOOL_USAGE);
    ck_assert_str_eq(said, "ital: 'bad' is bad\nTry 'ital --help'.\n");
}
END_TEST

static const struct {
    char *words[3];
    const char *says;
} wrong[] = {
    { { "-n", "2" }, "'2' is no value of --narrow: 3 to 255" },
    { { "-n", "256" }, "'256' is no value of --narrow: 3 to 255" },
    { { "-n", "4k" }, "'4k' is no value of --narrow" },
    { { "-p", "x" }, "'x' is no port\n" },
    { { "-s", "0" }, "'0' is no value of --size" },
    { { "--time", "0.0009" }, "'0.0009' is no time" },
    { { "--time", "5.1" }, "'5.1' is no time" },
    { { "-w", "tw" }, "'tw' is no word; did you mean two?\n" },
    { { "-w", "four" }, "'four' is no word\n" },
    { { "-w", "two " }, "'two ' is no word" },
    { { "-w", "" }, "'' is no word" },
    { { "-t" }, "option '-t' needs a value" },
    { { "--text" }, "option '--text' needs a value" },
    { { "--flag=1" }, "option '--flag=1' takes no value" },
    { { "--flga=1" }, "unknown or ambiguous option '--flga=1'; did you mean --flag?" },
    { { "--flga" }, "unknown or ambiguous option '--flga'; did you mean --flag?" },
    { { "--nothing-like-it" }, "unknown or ambiguous option '--nothing-like-it'\n" },
    { { "-x" }, "unknown option '-x'" },
};

START_TEST(what_is_wrong_is_said)
{
    ck_assert_int_eq(read_words(wrong[_i].words), TOOL_USAGE);
    ck_assert_msg(strstr(said, wrong[_i].says), "\"%s\" is not in \"%s\"", wrong[_i].says, said);
    ck_assert(!values.narrow && !values.port && !values.size && !values.time_us && !values.given);
    ck_assert_int_eq(values.word, -1);
}
END_TEST

START_TEST(the_nearest_word_is_said)
{
    char text[TOOL_NEAR];

    ck_assert_str_eq(tool_near("calls endpoint policy", "endpiont", text),
                     "; did you mean endpoint?");
    ck_assert_str_eq(tool_near("calls endpoint policy", "polcy", text), "; did you mean policy?");
    ck_assert_str_eq(tool_near("calls call", "cals", text), "; did you mean calls?");
    ck_assert_str_eq(tool_near("calls endpoint policy", "itping", text), "");
    ck_assert_str_eq(tool_near("calls @host", "host", text), "");
    ck_assert_str_eq(tool_near("", "calls", text), "");
}
END_TEST

START_TEST(help_has_each_row_within_the_line)
{
    ck_assert_int_eq(READ("--help"), TOOL_OK);
    ck_assert(strstr(said, "Usage: t\n\nValues:\n  -f, --flag ") == said);
    ck_assert_ptr_nonnull(strstr(said, "\n      --long-size SIZE  sixty-four\n"));
    ck_assert_ptr_nonnull(strstr(said, "\n  -m, --maybe[=TEXT]    with or without\n"));
    ck_assert_ptr_nonnull(strstr(said, "\n  -V, --version         the version\n\nNotes.\n"));
    ck_assert_ptr_null(strstr(said, "unused"));
}
END_TEST

START_TEST(completion_has_the_words_of_each)
{
    ck_assert_int_eq(READ("--complete-options"), TOOL_OK);
    ck_assert_ptr_nonnull(strstr(said, "-f\t-\n--flag\t-\n-t\t@file\n--text\t@file\n"));
    ck_assert_ptr_nonnull(strstr(said, "--word\tone two three\n"));
    ck_assert_ptr_nonnull(strstr(said, "--size\t?\n"));
    ck_assert_ptr_nonnull(strstr(said, "--maybe\t-\n"));
    ck_assert_ptr_nonnull(strstr(said, "operands\t@host\n"));
}
END_TEST

START_TEST(options_may_end_at_the_first_operand)
{
    table.ends_at_operand = true;
    ck_assert_int_eq(READ("operand", "-f"), -1);
    ck_assert(!values.flag);
    ck_assert_int_eq(optind, 1);
    table.ends_at_operand = false;
    ck_assert_int_eq(READ("operand", "-f"), -1);
    ck_assert(values.flag);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tc = tc_case(suite, "table", NULL, NULL);

    tc_add_tests(tc, each_kind_is_stored_in_its_width, what_is_not_given_stays,
                 functions_take_arguments_or_none, the_nearest_word_is_said,
                 help_has_each_row_within_the_line, completion_has_the_words_of_each,
                 options_may_end_at_the_first_operand);
    tc_add_rows(tc, what_is_wrong_is_said, wrong);
    return tc_main(suite);
}
