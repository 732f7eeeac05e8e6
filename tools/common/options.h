/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of a tool as one table: the command line is read by it, and --help and bash
 * completion are made of it. -h, --help, -V and --version are in no table: every tool has them.
 */
#ifndef ITAL_TOOLS_OPTIONS_H
#define ITAL_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option is, and what becomes of it. */
enum tool_kind {
    /* A headline of --help: a row of `text` alone. */
    TOOL_HEAD,
    /* A bool becomes true. */
    TOOL_FLAG,
    /* Taken, without effect. */
    TOOL_IGNORED,
    /* A const char *: the argument as it is; it stays argv's. */
    TOOL_TEXT,
    /* An unsigned integer of any width, from `least` to `most`: digits; of TOOL_SIZE with k, M or G
     * behind. */
    TOOL_NUMBER,
    TOOL_SIZE,
    /* Seconds, which may have a fraction, in a uint64_t as microseconds. `least` and `most` are
     * microseconds. */
    TOOL_SECONDS,
    /* One of `words`, which are separated by blanks, in an int: its place, plus `least`. */
    TOOL_WORD,
    /* `take` does it. */
    TOOL_CALL
};

struct tool_option {
    /* 0: it has no letter. */
    char letter;
    /* The long name. */
    const char *name;
    /* The name of the argument in --help. NULL: it takes none. */
    const char *argument;
    /* For --help, which breaks the lines. NULL: --help does not show it. */
    const char *text;
    enum tool_kind kind;
    /* The argument may be left out; `take` gets NULL then. */
    bool optional;
    /* Where the value goes in the structure of the tool: TOOL_TO(). */
    uint16_t at, bytes;
    uint64_t least, most;
    /* Of a wrong argument: "'12q' is no " and this. NULL: one is made of the range. */
    const char *what;
    /* What completion offers as argument: words, or @file, @directory, @host, @interface, or @list
     * (the first words that the tool prints with --list). NULL: nothing. Of TOOL_WORD what it
     * takes. */
    const char *words;
    /* Bits that are set in the table's mask. */
    uint32_t given;
    /* -1: go on; else an exit code. Other kinds have it called behind their own work, if there is
     * one. `into`: the structure of the tool. */
    int (*take)(void *into, const char *argument);
};

/* Where the value of an option goes: that member of that structure. */
#define TOOL_TO(structure, member) \
    .at = offsetof(structure, member), .bytes = sizeof(((structure *)0)->member)

/* The rows of a table, one kind each; `to` is a TOOL_TO(), the rest as in struct tool_option. */
#define TOOL_HEADLINE(headline)               \
    {                                         \
        .kind = TOOL_HEAD, .text = (headline) \
    }
#define TOOL_SWITCH(character, longer, to, bits, says)                                  \
    {                                                                                   \
        .letter = (character), .name = (longer), .text = (says), .kind = TOOL_FLAG, to, \
        .given = (bits)                                                                 \
    }
#define TOOL_ARGUMENT(character, longer, value, to, offers, bits, says)               \
    {                                                                                 \
        .letter = (character), .name = (longer), .argument = (value), .text = (says), \
        .kind = TOOL_TEXT, to, .words = (offers), .given = (bits)                     \
    }
#define TOOL_VALUE(is, character, longer, value, to, from, up_to, wrong, bits, says)         \
    {                                                                                        \
        .letter = (character), .name = (longer), .argument = (value), .text = (says),        \
        .kind = (is), to, .least = (from), .most = (up_to), .what = (wrong), .given = (bits) \
    }
#define TOOL_ONE_OF(character, longer, value, to, offers, first, wrong, bits, says)   \
    {                                                                                 \
        .letter = (character), .name = (longer), .argument = (value), .text = (says), \
        .kind = TOOL_WORD, to, .words = (offers), .least = (first), .what = (wrong),  \
        .given = (bits)                                                               \
    }
#define TOOL_BY(character, longer, value, function, offers, bits, says)               \
    {                                                                                 \
        .letter = (character), .name = (longer), .argument = (value), .text = (says), \
        .kind = TOOL_CALL, .take = (function), .words = (offers), .given = (bits)     \
    }
#define TOOL_MAYBE(character, longer, value, function, bits, says)                    \
    {                                                                                 \
        .letter = (character), .name = (longer), .argument = (value), .text = (says), \
        .kind = TOOL_CALL, .optional = true, .take = (function), .given = (bits)      \
    }
#define TOOL_UNUSED(character, longer)                                \
    {                                                                 \
        .letter = (character), .name = (longer), .kind = TOOL_IGNORED \
    }

struct tool_table {
    /* Of --help: what stands before the options, and behind them. Whole lines. */
    const char *usage, *notes;
    const struct tool_option *options;
    size_t count;
    /* Offset of the uint32_t that collects `given` in the structure of the tool. Unused where no
     * row has bits. */
    ptrdiff_t given;
    /* What completion offers as operands: as tool_option.words. server: if -l was given; NULL: the
     * same. commands: words in front that have a table of their own; NULL: none. */
    const char *operands, *server, *commands;
    /* Options end at the first operand, whose tool is another. */
    bool ends_at_operand;
};

/*
 * Reads the options of the command line into the structure `into`; `optind` is then the place of
 * the first operand, which all stand at the end of argv. -1: go on; else the exit code: of a wrong
 * option, which is said, of help and version, which are printed.
 */
int tool_read_options(const struct tool_table *table, int argc, char **argv, void *into);
/* Octets of the text of tool_near, with its NUL. */
#define TOOL_NEAR 96
/* "; did you mean calls?": the nearest of the words, which are as tool_table.operands. "": none is
 * near. Returns the text. */
const char *tool_near(const char *words, const char *word, char text[TOOL_NEAR]);
/* The text of --help, on stdout. */
void tool_help(const struct tool_table *table);

#endif /* ITAL_TOOLS_OPTIONS_H */
