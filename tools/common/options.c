/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of a tool by its table.
 */
#include "tools/common/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bad_option.h"
#include "base/nearest.h"
#include "tools/common/tool.h"

#define LINE     100u            /* columns of a terminal that --help may take */
#define COLUMN   30u             /* where the texts of --help begin, at most */
#define NAME     64u             /* octets of the longest left side of a row */
#define FIRST_ID BAD_OPTION_LONG /* values of getopt_long; letters are below */
#define COMPLETE "complete-options"

static const struct tool_option standard[] = {
    { .letter = 'h', .name = "help", .text = "this text", .kind = TOOL_FLAG },
    { .letter = 'V', .name = "version", .text = "the version", .kind = TOOL_FLAG },
};
#define STANDARD (sizeof(standard) / sizeof(standard[0]))

/* The rows of the tool, then those of every tool. */
static const struct tool_option *row(const struct tool_table *table, size_t index)
{
    return index < table->count ? &table->options[index] : &standard[index - table->count];
}

static size_t rows(const struct tool_table *table)
{
    return table->count + STANDARD;
}

/* ---- help ------------------------------------------------------------------------------------ */

/* "  -s, --size SIZE"; returns its length. */
static size_t left_side(const struct tool_option *option, char text[NAME])
{
    size_t used = (size_t)snprintf(text, NAME, option->letter ? "  -%c" : "    ", option->letter);

    if (option->name)
        used += (size_t)snprintf(text + used, NAME - used, "%s--%s", option->letter ? ", " : "  ",
                                 option->name);
    if (option->argument)
        used += (size_t)snprintf(text + used, NAME - used, option->optional ? "[=%s]" : " %s",
                                 option->argument);
    return used;
}

static size_t column_of(const struct tool_table *table)
{
    size_t column = 0;

    for (size_t i = 0; i < rows(table); i++) {
        char left[NAME];
        size_t length = left_side(row(table, i), left);

        if (row(table, i)->text && length + 2 <= COLUMN && length + 2 > column)
            column = length + 2;
    }
    return column;
}

/* Words up to the end of the line, then from `column` on in the next. `at`: where the cursor is. */
static void put_wrapped(const char *text, size_t at, size_t column)
{
    bool first = true;

    while (*text) {
        size_t length = strcspn(text, " ");

        if (!first && at + 1 + length > LINE) {
            printf("\n%*s", (int)column, "");
            at = column;
            first = true;
        }
        at += (size_t)printf("%s%.*s", first ? "" : " ", (int)length, text);
        first = false;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void put_row(const struct tool_option *option, size_t column)
{
    char left[NAME];
    size_t length;

    if (!option->text)
        return;
    if (option->kind == TOOL_HEAD) {
        puts(option->text);
        return;
    }
    length = left_side(option, left);
    fputs(left, stdout);
    if (length + 2 > column) {
        putchar('\n');
        length = 0;
    }
    printf("%*s", (int)(column - length), "");
    put_wrapped(option->text, column, column);
}

void tool_help(const struct tool_table *table)
{
    size_t column = column_of(table);

    fputs(table->usage, stdout);
    putchar('\n');
    for (size_t i = 0; i < rows(table); i++)
        put_row(row(table, i), column);
    putchar('\n');
    fputs(table->notes, stdout);
}

/* ---- completion ------------------------------------------------------------------------------ */

/* For tools/completion: "NAME<TAB>WORDS" a line. "-": no argument; "?": one that nobody can
 * offer. */
static void put_completion(const struct tool_table *table)
{
    for (size_t i = 0; i < rows(table); i++) {
        const struct tool_option *option = row(table, i);
        const char *words = !option->argument || option->optional ? "-"
                            : option->words                       ? option->words
                                                                  : "?";

        if (option->letter)
            printf("-%c\t%s\n", option->letter, words);
        if (option->name)
            printf("--%s\t%s\n", option->name, words);
    }
    printf("operands\t%s\n", table->operands ? table->operands : "?");
    if (table->server)
        printf("server\t%s\n", table->server);
    if (table->commands)
        printf("commands\t%s\n", table->commands);
}

/* ---- values ---------------------------------------------------------------------------------- */

const char *tool_near(const char *words, const char *word, char text[TOOL_NEAR])
{
    struct nearest nearest = { .word = NULL };

    *text = '\0';
    while (*words) {
        size_t length = strcspn(words, " ");
        char known[NAME];

        snprintf(known, sizeof(known), "%.*s", (int)length, words);
        if (*known != '@') /* @host and its like: for completion */
            nearest_try(&nearest, word, known);
        if (nearest.word == known) {
            snprintf(text, TOOL_NEAR, "; did you mean %s?", known);
            nearest.word = words;
        }
        words += length + (words[length] == ' ');
    }
    return text;
}

static int refuse(const struct tool_option *option, const char *text)
{
    char near[TOOL_NEAR];

    if (option->what)
        return tool_usage("'%s' is no %s%s", text, option->what,
                          tool_near(option->kind == TOOL_WORD ? option->words : "", text, near));
    return tool_usage("'%s' is no value of --%s: %llu to %llu", text, option->name,
                      (unsigned long long)option->least, (unsigned long long)option->most);
}

static void store(const struct tool_option *option, void *into, uint64_t value)
{
    void *at = (char *)into + option->at;

    switch (option->bytes) {
    case 1: *(uint8_t *)at = (uint8_t)value; break;
    case 2: *(uint16_t *)at = (uint16_t)value; break;
    case 4: *(uint32_t *)at = (uint32_t)value; break;
    default: *(uint64_t *)at = value; break;
    }
}

/* The place of the text among the words; false: it is none of them. */
static bool find_word(const char *words, const char *text, uint64_t *place)
{
    size_t wanted = strlen(text);

    for (*place = 0; *words; (*place)++) {
        size_t length = strcspn(words, " ");

        if (length == wanted && !memcmp(words, text, length))
            return true;
        words += length + (words[length] == ' ');
    }
    return false;
}

static bool read_value(const struct tool_option *option, const char *text, uint64_t *value)
{
    switch (option->kind) {
    case TOOL_NUMBER: return tool_parse_number(text, option->least, option->most, value);
    case TOOL_SIZE: return tool_parse_size(text, option->least, option->most, value);
    case TOOL_SECONDS:
        return tool_parse_seconds(text, (double)option->least / 1e6, (double)option->most / 1e6,
                                  value);
    case TOOL_WORD:
        if (!find_word(option->words, text, value))
            return false;
        *value += option->least;
        return true;
    default: *value = 1; return true;
    }
}

static int take_option(const struct tool_table *table, const struct tool_option *option,
                       const char *argument, void *into)
{
    uint64_t value;

    if (option->kind == TOOL_TEXT) {
        memcpy((char *)into + option->at, &argument, sizeof(argument));
    } else if (option->kind != TOOL_CALL && option->kind != TOOL_IGNORED) {
        if (!read_value(option, argument, &value))
            return refuse(option, argument);
        store(option, into, value);
    }
    if (option->given)
        *(uint32_t *)(void *)((char *)into + table->given) |= option->given;
    return option->take ? option->take(into, argument) : -1;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* What getopt_long wants. */
struct known {
    struct option *longs;
    char *shorts;
};

/* false: no memory. */
static bool know(const struct tool_table *table, struct known *known)
{
    size_t next = 0, used = 0;

    known->longs = calloc(rows(table) + 2, sizeof(*known->longs));
    known->shorts = calloc(2 * rows(table) + 3, 1);
    if (!known->longs || !known->shorts)
        return false;
    if (table->ends_at_operand)
        known->shorts[used++] = '+';
    known->shorts[used++] = ':';
    for (size_t i = 0; i < rows(table); i++) {
        const struct tool_option *option = row(table, i);
        int argument = !option->argument  ? no_argument
                       : option->optional ? optional_argument
                                          : required_argument;

        if (option->name)
            known->longs[next++] = (struct option){ option->name, argument, NULL,
                                                    FIRST_ID + (int)i };
        if (option->letter) {
            known->shorts[used++] = option->letter;
            /* A letter with an argument that may be left out takes none. */
            if (argument == required_argument)
                known->shorts[used++] = ':';
        }
    }
    known->longs[next] = (struct option){ COMPLETE, no_argument, NULL,
                                          FIRST_ID + (int)rows(table) };
    return true;
}

static const struct tool_option *by_letter(const struct tool_table *table, int letter)
{
    for (size_t i = 0; i < rows(table); i++)
        if (row(table, i)->letter == letter)
            return row(table, i);
    return NULL;
}

/* result: '?' or ':' of getopt_long. */
static int refuse_option(const struct known *known, int result, char *const argv[])
{
    char text[BAD_OPTION_TEXT];

    bad_option(text, result, known->shorts, known->longs, argv);
    return tool_usage("%s", text);
}

static int read_all(const struct tool_table *table, const struct known *known, int argc,
                    char **argv, void *into)
{
    int id, result = -1;

    while (result < 0 && (id = getopt_long(argc, argv, known->shorts, known->longs, NULL)) != -1) {
        const struct tool_option *option;

        if (id == '?' || id == ':')
            return refuse_option(known, id, argv);
        if (id == FIRST_ID + (int)rows(table)) {
            put_completion(table);
            return TOOL_OK;
        }
        option = id < FIRST_ID ? by_letter(table, id) : row(table, (size_t)(id - FIRST_ID));
        if (option == &standard[0]) {
            tool_help(table);
            return TOOL_OK;
        }
        if (option == &standard[1]) {
            tool_version();
            return TOOL_OK;
        }
        result = take_option(table, option, optarg, into);
    }
    return result;
}

int tool_read_options(const struct tool_table *table, int argc, char **argv, void *into)
{
    struct known known = { NULL, NULL };
    int result = TOOL_FAILED;

    if (know(table, &known))
        result = read_all(table, &known, argc, argv, into);
    else
        tool_error("out of memory");
    free(known.longs);
    free(known.shorts);
    return result;
}
