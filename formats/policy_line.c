/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a host's policy: reading a line. */
#include "formats/policy.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/nearest.h"

struct line {
    const char *at, *end;
    /* The current word; empty: there is none */
    char word[POLICY_WORD];
    bool too_long;
    const struct policy_names *names;
    char *why;
    size_t why_size;
};

struct keyword {
    const char *name;
    unsigned value;
};

static const struct keyword verdicts[] = { { "allow", POLICY_ALLOW },
                                           { "deny", POLICY_DENY },
                                           { "limit", POLICY_LIMIT } };
static const struct keyword directions[] = { { "connect", POLICY_CONNECT },
                                             { "listen", POLICY_LISTEN },
                                             { "convert", POLICY_CONVERT },
                                             { "request", POLICY_REQUEST },
                                             { "any", POLICY_ANY } };
static const struct keyword kinds[] = { { "endpoints", POLICY_ENDPOINTS },
                                        { "regions", POLICY_REGIONS },
                                        { "pinned", POLICY_PINNED } };
enum { ADDRESS, PORT, USER, GROUP, INTERFACE };
static const struct keyword parts[] = { { "to", ADDRESS },  { "from", ADDRESS },
                                        { "on", ADDRESS },  { "at", ADDRESS },
                                        { "port", PORT },   { "user", USER },
                                        { "group", GROUP }, { "interface", INTERFACE } };

const char *policy_kind_name(enum policy_kind kind)
{
    return kinds[kind].name;
}

static bool wrong(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct line *line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(line->why, line->why_size, format, args);
    va_end(args);
    return false;
}

static bool is_blank(char octet)
{
    return octet == ' ' || octet == '\t' || octet == '\r';
}

/* A word that begins with # or ; ends the line, as its end does. */
static void next_word(struct line *line)
{
    size_t length = 0;

    while (line->at < line->end && is_blank(*line->at))
        line->at++;
    if (line->at < line->end && (*line->at == '#' || *line->at == ';'))
        line->at = line->end;
    while (line->at < line->end && !is_blank(*line->at)) {
        /* What no terminal should see stands for itself in no word */
        char octet = *line->at > ' ' && *line->at <= '~' ? *line->at : '?';

        if (length + 1 < sizeof(line->word))
            line->word[length++] = octet;
        else
            line->too_long = true;
        line->at++;
    }
    line->word[length] = '\0';
}

static const struct keyword *find(const struct keyword *words, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(words[i].name, word))
            return &words[i];
    return NULL;
}

/* " (did you mean …?)", or "". */
static const char *meant(const struct keyword *words, size_t count, const char *word, char text[64])
{
    struct nearest near = { .word = NULL };

    for (size_t i = 0; *word && i < count; i++)
        nearest_try(&near, word, words[i].name);
    text[0] = '\0';
    if (near.word)
        snprintf(text, 64, " (did you mean %s?)", near.word);
    return text;
}

/* Decimal digits alone, without strtoull's signs and blanks. */
static bool number_of(const char *text, uint64_t limit, uint64_t *out)
{
    uint64_t number = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        unsigned digit = (unsigned)(*text - '0');

        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (number > limit)
        return false;
    *out = number;
    return true;
}

static bool read_prefix(struct line *line, struct policy_rule *rule)
{
    char *slash = strchr(line->word, '/');
    uint64_t bits;

    if (!*line->word)
        return wrong(line, "an address is missing behind to, from, on or at: write ADDRESS, "
                           "ADDRESS/BITS or any");
    if (!strcmp(line->word, "any"))
        return true;
    if (slash)
        *slash++ = '\0';
    rule->family = strchr(line->word, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(rule->family, line->word, rule->address) != 1)
        return wrong(line,
                     "\"%s\" is no IPv4 or IPv6 address; write it in digits, with /BITS for a "
                     "prefix",
                     line->word);
    bits = rule->family == AF_INET ? 32 : 128;
    if (slash && !number_of(slash, bits, &bits))
        return wrong(line, "\"/%s\": a prefix has 0 to %d bits", slash,
                     rule->family == AF_INET ? 32 : 128);
    rule->bits = (unsigned)bits;
    return true;
}

static bool read_ports(struct line *line, struct policy_rule *rule)
{
    char *dash = strchr(line->word, '-');
    uint64_t first, last;

    if (!*line->word)
        return wrong(line, "a number is missing behind port: write N or N-M");
    if (dash)
        *dash++ = '\0';
    if (!number_of(line->word, 65535, &first) ||
        !number_of(dash ? dash : line->word, 65535, &last) || first > last)
        return wrong(line, "a port is a number from 0 to 65535 or a range N-M");
    rule->any_port = false;
    rule->port_first = (uint16_t)first;
    rule->port_last = (uint16_t)last;
    return true;
}

static bool read_id(struct line *line, const char *what,
                    bool (*look_up)(const char *name, uint32_t *id), uint32_t *id)
{
    uint64_t number;

    if (!*line->word)
        return wrong(line, "a name or number is missing behind %s", what);
    if (number_of(line->word, UINT32_MAX - 1, &number)) {
        *id = (uint32_t)number;
        return true;
    }
    if (look_up(line->word, id))
        return true;
    return wrong(line, "there is no %s \"%s\"; write a name that this host knows, or a number",
                 what, line->word);
}

static bool read_part(struct line *line, struct policy_rule *rule)
{
    const struct keyword *part = find(parts, ARRAY_SIZE(parts), line->word);
    bool limits = rule->verdict == POLICY_LIMIT;
    char text[64];

    if (part && part->value == ADDRESS && !limits && rule->family == AF_UNSPEC) {
        next_word(line);
        return read_prefix(line, rule);
    }
    if (part && part->value == PORT && !limits && rule->any_port) {
        next_word(line);
        return read_ports(line, rule);
    }
    if (part && part->value == INTERFACE && !limits && !*rule->interface) {
        next_word(line);
        memcpy(rule->interface, line->word, sizeof(rule->interface));
        return *line->word ? true : wrong(line, "a name is missing behind interface");
    }
    if (part && part->value == USER && rule->any_user) {
        rule->any_user = false;
        next_word(line);
        return read_id(line, "user", line->names->user, &rule->user);
    }
    if (part && part->value == GROUP && rule->any_group) {
        rule->any_group = false;
        next_word(line);
        return read_id(line, "group", line->names->group, &rule->group);
    }
    return wrong(line, "\"%s\" is not expected there%s; known are %suser, group%s", line->word,
                 part ? "" : meant(parts, ARRAY_SIZE(parts), line->word, text),
                 limits ? "" : "to, from, on, port, ", limits ? "" : ", interface");
}

/* A number of octets may end with k, m, g or t. */
static bool read_amount(struct line *line, struct policy_rule *rule)
{
    static const char units[] = "kmgt";
    size_t length = strlen(line->word);
    const char *unit = length ? strchr(units, line->word[length - 1]) : NULL;
    unsigned shift = 0;

    if (unit && rule->kind == POLICY_PINNED) {
        shift = 10 * (unsigned)(unit - units + 1);
        line->word[length - 1] = '\0';
    }
    if (!number_of(line->word, UINT64_MAX >> shift, &rule->amount))
        return wrong(line, "a number is missing behind %s: write 0 or more%s",
                     policy_kind_name(rule->kind),
                     rule->kind == POLICY_PINNED ? " octets, with k, m, g or t behind it for units "
                                                   "of 1024"
                                                 : "");
    rule->amount <<= shift;
    return true;
}

static bool read_subject(struct line *line, struct policy_rule *rule)
{
    bool limits = rule->verdict == POLICY_LIMIT;
    const struct keyword *words = limits ? kinds : directions, *found;
    size_t count = limits ? ARRAY_SIZE(kinds) : ARRAY_SIZE(directions);
    char text[64];

    found = find(words, count, line->word);
    if (!found)
        return wrong(line, "%s is expected, not \"%s\"%s",
                     limits ? "endpoints, regions or pinned"
                            : "connect, listen, convert, request or any",
                     line->word, meant(words, count, line->word, text));
    if (!limits) {
        rule->directions = found->value;
        return true;
    }
    rule->kind = (enum policy_kind)found->value;
    next_word(line);
    return read_amount(line, rule);
}

static bool read_rule(struct line *line, struct policy_rule *rule)
{
    const struct keyword *verdict = find(verdicts, ARRAY_SIZE(verdicts), line->word);
    char text[64];

    if (!verdict)
        return wrong(line, "a rule begins with allow or deny, or with limit, not \"%s\"%s",
                     line->word, meant(verdicts, ARRAY_SIZE(verdicts), line->word, text));
    *rule = (struct policy_rule){ .verdict = (enum policy_verdict)verdict->value,
                                  .any_port = true,
                                  .any_user = true,
                                  .any_group = true };
    next_word(line);
    if (!read_subject(line, rule))
        return false;
    for (next_word(line); *line->word; next_word(line))
        if (!read_part(line, rule))
            return false;
    return line->too_long ? wrong(line, "a word has at most %d octets", POLICY_WORD - 1) : true;
}

bool policy_read_line(const char *text, size_t length, const struct policy_names *names,
                      struct policy_rule *rule, bool *empty, char *why, size_t why_size)
{
    struct line line = {
        .at = text, .end = text + length, .names = names, .why = why, .why_size = why_size
    };

    next_word(&line);
    *empty = !*line.word;
    return *empty || read_rule(&line, rule);
}
