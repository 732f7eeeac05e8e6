/* SPDX-License-Identifier: BSD-3-Clause */
/* The one parser of option values. */
#include "kal_config.h"

#include "base/checked.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The text after the colon of "int: 1..65535". None: every value is allowed. */
struct range {
    bool given, open; /* open: "0..", without an end */
    uint64_t min, max;
};

static struct range range_of(const char *type)
{
    const char *text = strchr(type, ':');
    struct range range = { .max = UINT64_MAX, .open = true };
    char *end;

    if (!text)
        return range;
    range.given = true;
    range.min = strtoull(text + 1, &end, 10);
    if (!strncmp(end, "..", 2) && isdigit((unsigned char)end[2])) {
        range.open = false;
        range.max = strtoull(end + 2, NULL, 10);
    }
    return range;
}

static bool in_range(const struct range *range, uint64_t number)
{
    return number >= range->min && number <= range->max;
}

static bool is_of(const char *type, const char *word)
{
    size_t length = strlen(word);

    return !strncmp(type, word, length) && (!type[length] || type[length] == ':');
}

static bool normal_bool(const char *value, char *normal)
{
    static const char *const words[2][4] = { { "no", "off", "false", "0" },
                                             { "yes", "on", "true", "1" } };

    for (int truth = 0; truth < 2; truth++) {
        for (int i = 0; i < 4; i++) {
            if (!strcasecmp(value, words[truth][i])) {
                strcpy(normal, words[truth][0]);
                return true;
            }
        }
    }
    return false;
}

/* Reads the number at the start; *rest is the text after it and its blanks. */
static bool leading_number(const char *value, uint64_t *number, const char **rest)
{
    char *end;

    if (!isdigit((unsigned char)*value))
        return false;
    errno = 0;
    *number = strtoull(value, &end, 10);
    while (*end == ' ' || *end == '\t')
        end++;
    *rest = end;
    return !errno;
}

static bool normal_int(const struct range *range, const char *value, char *normal)
{
    const char *rest;
    uint64_t number;

    if (!leading_number(value, &number, &rest) || *rest || !in_range(range, number))
        return false;
    snprintf(normal, KAL_VALUE_MAX, "%llu", (unsigned long long)number);
    return true;
}

static bool normal_size(const struct range *range, const char *value, char *normal)
{
    static const char letters[] = "kmgt";
    const char *rest, *letter;
    uint64_t number;

    if (!leading_number(value, &number, &rest))
        return false;
    if (*rest) {
        letter = strchr(letters, tolower((unsigned char)*rest));
        if (!letter || (rest[1] && strcasecmp(rest + 1, "ib")) ||
            !checked_mul(number, UINT64_C(1) << (10 * (letter - letters + 1)), &number))
            return false;
    }
    if (!in_range(range, number))
        return false;
    snprintf(normal, KAL_VALUE_MAX, "%llu", (unsigned long long)number);
    return true;
}

/* Nanoseconds of a unit of time. 0: unknown. */
static uint64_t unit_ns(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        { "ns", 1 },
        { "us", 1000 },
        { "\xc2\xb5s", 1000 },
        { "ms", 1000000 },
        { "s", 1000000000 },
        { "min", UINT64_C(60000000000) },
        { "h", UINT64_C(3600000000000) },
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (!strcmp(unit, units[i].name))
            return units[i].ns;
    return 0;
}

static bool normal_time(const struct ri_option *option, const struct range *range,
                        const char *value, char *normal)
{
    uint64_t number, own = unit_ns(option->unit ? option->unit : ""), given;
    const char *rest;

    if (!leading_number(value, &number, &rest))
        return false;
    if (*rest) {
        given = unit_ns(rest);
        if (!own || !given || !checked_mul(number, given, &number) || number % own)
            return false;
        number /= own;
    }
    if (!in_range(range, number))
        return false;
    snprintf(normal, KAL_VALUE_MAX, "%llu", (unsigned long long)number);
    return true;
}

static bool normal_enum(const char *words, const char *value, char *normal)
{
    size_t length;

    for (const char *word = words + strspn(words, " "); *word;
         word += length + (word[length] == '|')) {
        length = strcspn(word, "|");
        if (length && strlen(value) == length && !strncasecmp(word, value, length)) {
            memcpy(normal, word, length);
            normal[length] = '\0';
            return true;
        }
    }
    return false;
}

/* Names separated by blanks or commas. The normal form has one blank between names. */
static bool normal_list(const struct range *range, const char *value, char *normal)
{
    static const char between[] = " \t,";
    char list[KAL_VALUE_MAX], *to = list;
    size_t length;

    for (value += strspn(value, between); *value;
         value += length + strspn(value + length, between)) {
        length = strcspn(value, between);
        if (!in_range(range, length))
            return false;
        if (to != list)
            *to++ = ' ';
        to = mempcpy(to, value, length);
    }
    *to = '\0';
    strcpy(normal, list);
    return true;
}

/* Describes the allowed values, with the range and its unit. */
static void say_allowed(char allowed[KAL_ALLOWED_MAX], const char *what, const struct range *range,
                        const char *unit)
{
    unsigned long long min = range->min, max = range->max;

    if (!unit)
        unit = "";
    if (!range->given)
        snprintf(allowed, KAL_ALLOWED_MAX, "%s", what);
    else if (range->open)
        snprintf(allowed, KAL_ALLOWED_MAX, "%s, at least %llu%s%s", what, min, *unit ? " " : "",
                 unit);
    else
        snprintf(allowed, KAL_ALLOWED_MAX, "%s, from %llu to %llu%s%s", what, min, max,
                 *unit ? " " : "", unit);
}

bool kal_option_normal(const struct ri_option *option, const char *value,
                       char normal[KAL_VALUE_MAX], char allowed[KAL_ALLOWED_MAX])
{
    const struct range none = { .given = false };
    struct range range;

    if (strlen(value) >= KAL_VALUE_MAX) {
        say_allowed(allowed, "at most 511 octets", &none, NULL);
        return false;
    }
    if (is_of(option->type, "bool")) {
        say_allowed(allowed, "yes or no", &none, NULL);
        return normal_bool(value, normal);
    }
    if (is_of(option->type, "enum")) {
        const char *words = option->type + strcspn(option->type, ":");

        words += strspn(words, ": ");
        say_allowed(allowed, words, &none, NULL);
        return normal_enum(words, value, normal);
    }
    range = range_of(option->type);
    if (is_of(option->type, "int")) {
        say_allowed(allowed, "a whole number", &range, option->unit);
        return normal_int(&range, value, normal);
    }
    if (is_of(option->type, "size")) {
        say_allowed(allowed, "a number of octets, or one followed by k, m, g or t", &range, NULL);
        return normal_size(&range, value, normal);
    }
    if (is_of(option->type, "time")) {
        say_allowed(allowed,
                    "a whole number of the option's unit, or one followed by us, ms, s, min or h",
                    &range, option->unit);
        return normal_time(option, &range, value, normal);
    }
    if (is_of(option->type, "list")) {
        say_allowed(allowed, "names separated by blanks or commas", &range, "octets each");
        return normal_list(&range, value, normal);
    }
    if (!is_of(option->type, "string") && !is_of(option->type, "path"))
        range = none; /* a type of a newer minor version */
    say_allowed(allowed, "text", &range, "octets");
    if (range.given && !in_range(&range, strlen(value)))
        return false;
    strcpy(normal, value);
    return true;
}

enum ri_option_kind kal_option_kind(const struct ri_option *option)
{
    if (is_of(option->type, "bool"))
        return RI_OPTION_BOOL;
    if (is_of(option->type, "enum"))
        return RI_OPTION_WORD;
    if (is_of(option->type, "int") || is_of(option->type, "size") || is_of(option->type, "time"))
        return RI_OPTION_NUMBER;
    return RI_OPTION_TEXT;
}

/* The index of the word in "enum: a|b|c", from 0. */
static uint32_t place_of(const char *type, const char *normal)
{
    const char *word = type + strcspn(type, ":");
    size_t length, wanted = strlen(normal);
    uint32_t place = 0;

    for (word += strspn(word, ": "); *word; word += length + (word[length] == '|'), place++) {
        length = strcspn(word, "|");
        if (length == wanted && !memcmp(word, normal, length))
            break;
    }
    return place;
}

union ri_option_value kal_option_typed(const struct ri_option *option, const char *normal)
{
    union ri_option_value value = { .number = 0 };

    switch (kal_option_kind(option)) {
    case RI_OPTION_BOOL: value.truth = !strcmp(normal, "yes"); break;
    case RI_OPTION_NUMBER: value.number = strtoull(normal, NULL, 10); break;
    case RI_OPTION_WORD: value.word = place_of(option->type, normal); break;
    case RI_OPTION_TEXT: value.text = normal; break;
    }
    return value;
}

uint64_t kal_option_unit_ns(const struct ri_option *option)
{
    return is_of(option->type, "time") && option->unit ? unit_ns(option->unit) : 0;
}
