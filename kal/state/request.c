/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a client's request: the one place that interprets what a client sent. */
#include "request.h"

#include <stdint.h>
#include <string.h>

#include "formats/monitor.h"

#define DIGITS_MAX 18

struct cursor {
    const char *at, *end;
};

struct part {
    const char *text;
    size_t length;
};

struct member {
    struct part name, text; /* text.text NULL: it is a number */
    uint64_t number;
};

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\r'))
        cursor->at++;
}

static bool take(struct cursor *cursor, char octet)
{
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != octet)
        return false;
    cursor->at++;
    return true;
}

/* Without escapes, which no name or word needs. */
static bool take_text(struct cursor *cursor, struct part *part)
{
    const char *begin;

    if (!take(cursor, '"'))
        return false;
    begin = cursor->at;
    while (cursor->at < cursor->end && *cursor->at != '"' && *cursor->at != '\\' &&
           (unsigned char)*cursor->at >= ' ')
        cursor->at++;
    *part = (struct part){ begin, (size_t)(cursor->at - begin) };
    return take(cursor, '"');
}

static bool take_number(struct cursor *cursor, uint64_t *number)
{
    unsigned digits = 0;

    skip_blanks(cursor);
    *number = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (++digits > DIGITS_MAX)
            return false;
        *number = *number * 10 + (uint64_t)(*cursor->at++ - '0');
    }
    return digits > 0;
}

static bool take_member(struct cursor *cursor, struct member *member)
{
    *member = (struct member){ .number = 0 };
    if (!take_text(cursor, &member->name) || !take(cursor, ':'))
        return false;
    skip_blanks(cursor);
    if (cursor->at < cursor->end && *cursor->at == '"')
        return take_text(cursor, &member->text);
    return take_number(cursor, &member->number);
}

static bool is(const struct part *part, const char *word)
{
    return part->text && part->length == strlen(word) && !memcmp(part->text, word, part->length);
}

/* False: the value is none of those. */
static bool read_get(const struct part *text, enum kal_state_get *get)
{
    static const char *const words[] = { [KAL_STATE_PROCESS] = "process", [KAL_STATE_ALL] = "all" };

    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (is(text, words[i])) {
            *get = (enum kal_state_get)i;
            return true;
        }
    }
    return false;
}

bool kal_state_read_request(const char *line, size_t length, struct kal_state_request *request,
                            const char **why)
{
    struct cursor cursor = { line, line + length };
    bool versioned = false, asked = false, more;
    struct kal_state_request read = { .get = KAL_STATE_PROCESS };
    struct member member;

    *why = "a request is one JSON object of texts and numbers in one line";
    if (!take(&cursor, '{'))
        return false;
    do {
        if (!take_member(&cursor, &member))
            return false;
        if (is(&member.name, "version"))
            versioned = !member.text.text && member.number == MONITOR_VERSION;
        else if (is(&member.name, "get"))
            asked = read_get(&member.text, &read.get);
        more = take(&cursor, ',');
    } while (more);
    if (!take(&cursor, '}'))
        return false;
    skip_blanks(&cursor);
    if (cursor.at != cursor.end)
        return false;
    *why = "\"version\" is to be 1";
    if (!versioned)
        return false;
    *why = "\"get\" is to be \"process\" or \"all\"";
    if (!asked)
        return false;
    *request = read;
    return true;
}
