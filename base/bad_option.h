/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with the option at which getopt_long(3) stopped, in words. */
#ifndef ITAL_BASE_BAD_OPTION_H
#define ITAL_BASE_BAD_OPTION_H

struct option;

/* Octets of the text, with its NUL. */
#define BAD_OPTION_TEXT 512
/* The least value (`val`) of a long option that has no letter. */
#define BAD_OPTION_LONG 256

/*
 * Writes it, without a line's end, with the nearest long option for one that is unknown. result:
 * '?' or ':' of getopt_long(3), which was called with the other arguments, and whose optind and
 * optopt are read: one thread at a time. shorts has ':' in front (behind '+', if that is there), so
 * that getopt_long itself prints nothing. Each `val` of longs is a letter of shorts, or at least
 * BAD_OPTION_LONG. Control characters of argv stay in the text.
 */
void bad_option(char text[BAD_OPTION_TEXT], int result, const char *shorts,
                const struct option *longs, char *const argv[]);

/* The long option that is nearest to the word, with or without its dashes and "=VALUE". NULL: none
 * is near. The name is that of longs. */
const char *bad_option_near(const struct option *longs, const char *word);

#endif
