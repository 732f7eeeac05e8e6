/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with the option at which getopt_long(3) stopped, in words. */
#include "base/bad_option.h"

#include <ctype.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

#define NAME 64  /* octets of a name that can be near another (base/nearest.h), with its NUL */
#define WORD 300 /* octets of a word that are repeated, at most */

const char *bad_option_near(const struct option *longs, const char *word)
{
    struct nearest nearest = { .word = NULL };
    char name[NAME];

    if (!strncmp(word, "--", 2))
        word += 2;
    if (strcspn(word, "=") >= sizeof(name))
        return NULL;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    for (; longs->name; longs++)
        nearest_try(&nearest, name, longs->name);
    return nearest.word;
}

/* ':', '+' and '-' of shorts are no letters of options. */
static bool is_known(const char *shorts, int letter)
{
    return !strchr(":+-", letter) && strchr(shorts, letter);
}

static void unknown_name(char text[BAD_OPTION_TEXT], const struct option *longs, const char *word)
{
    const char *near = bad_option_near(longs, word);

    snprintf(text, BAD_OPTION_TEXT, "unknown or ambiguous option '%.*s'%s%s%s", WORD, word,
             near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

void bad_option(char text[BAD_OPTION_TEXT], int result, const char *shorts,
                const struct option *longs, char *const argv[])
{
    /* The option; for a letter inside a group of letters, the word in front of the group. */
    const char *word = argv[optind - 1];
    bool letter = optopt > 0 && optopt < 128 && isprint(optopt);

    if (result == ':' && letter && strncmp(word, "--", 2) != 0)
        snprintf(text, BAD_OPTION_TEXT, "option '-%c' needs a value", optopt);
    else if (result == ':')
        snprintf(text, BAD_OPTION_TEXT, "option '%.*s' needs a value", WORD, word);
    else if (!optopt)
        unknown_name(text, longs, word);
    else if (optopt >= BAD_OPTION_LONG || (letter && is_known(shorts, optopt)))
        snprintf(text, BAD_OPTION_TEXT, "option '%.*s' takes no value", WORD, word);
    else if (letter)
        snprintf(text, BAD_OPTION_TEXT, "unknown option '-%c'", optopt);
    else
        snprintf(text, BAD_OPTION_TEXT, "unknown option '-\\%03o'",
                 (unsigned)(unsigned char)optopt);
}
