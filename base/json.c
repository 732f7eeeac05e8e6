/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes one JSON document into memory. */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4096u

void json_start(struct json *json, size_t most)
{
    *json = (struct json){ .most = most };
}

static bool make_room(struct json *json, size_t length)
{
    size_t room = json->room ? json->room : FIRST_ROOM;
    char *grown;

    if (json->failed || length > json->most || json->length > json->most - length) {
        json->failed = true;
        return false;
    }
    if (json->length + length <= json->room)
        return true;
    while (room < json->length + length)
        room *= 2;
    grown = realloc(json->text, room);
    if (!grown) {
        json->failed = true;
        return false;
    }
    json->text = grown;
    json->room = room;
    return true;
}

static void put(struct json *json, const char *octets, size_t length)
{
    if (!make_room(json, length))
        return;
    memcpy(json->text + json->length, octets, length);
    json->length += length;
}

static void put_name(struct json *json, const char *name)
{
    if (json->comma)
        put(json, ",", 1);
    json->comma = true;
    if (!name)
        return;
    put(json, "\"", 1);
    put(json, name, strlen(name));
    put(json, "\":", 2);
}

void json_begin(struct json *json, const char *name, char bracket)
{
    put_name(json, name);
    put(json, &bracket, 1);
    json->comma = false;
}

void json_end(struct json *json, char bracket)
{
    put(json, &bracket, 1);
    json->comma = true;
}

/* Octets of the character of UTF-8 that begins here; 0: it is none. */
static size_t character(const unsigned char *at)
{
    size_t length = *at < 0x80   ? 1
                    : *at < 0xc2 ? 0
                    : *at < 0xe0 ? 2
                    : *at < 0xf0 ? 3
                    : *at < 0xf5 ? 4
                                 : 0;

    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Too long forms, surrogates, beyond U+10FFFF. */
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
        (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

static void put_character(struct json *json, const unsigned char *at, size_t length)
{
    char escape[8];

    if (!length) {
        put(json, "\\ufffd", 6);
    } else if (*at < ' ' || *at == '"' || *at == '\\' || *at == 0x7f) {
        snprintf(escape, sizeof(escape), "\\u%04x", *at);
        put(json, escape, 6);
    } else {
        put(json, (const char *)at, length);
    }
}

void json_text(struct json *json, const char *name, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    put_name(json, name);
    if (!text) {
        put(json, "null", 4);
        return;
    }
    put(json, "\"", 1);
    while (*at) {
        size_t length = character(at);

        put_character(json, at, length);
        at += length ? length : 1;
    }
    put(json, "\"", 1);
}

void json_number(struct json *json, const char *name, uint64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64,
                          number < INT64_MAX ? number : (uint64_t)INT64_MAX);

    put_name(json, name);
    put(json, digits, (size_t)length);
}

void json_bool(struct json *json, const char *name, bool value)
{
    put_name(json, name);
    put(json, value ? "true" : "false", value ? 4 : 5);
}

char *json_finish(struct json *json, size_t *length)
{
    char *text;

    put(json, "\n", 1);
    if (json->failed) {
        free(json->text);
        json->text = NULL;
        return NULL;
    }
    text = json->text;
    *length = json->length;
    json->text = NULL;
    return text;
}
