/* SPDX-License-Identifier: BSD-3-Clause
 * Writes one JSON document into memory, without its reader's library. Names are written as they
 * are; octets of texts that are no UTF-8 become U+FFFD. */
#ifndef ITAL_BASE_JSON_H
#define ITAL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text; /* allocated */
    size_t length, room, most;
    bool comma, failed;
};

/* The document may have at most `most` octets. */
void json_start(struct json *json, size_t most);
/* bracket: '{' or '['; the matching one at the end. name: NULL in a list, and of the document. */
void json_begin(struct json *json, const char *name, char bracket);
void json_end(struct json *json, char bracket);
/* text NULL: null. */
void json_text(struct json *json, const char *name, const char *text);
/* The greatest number is INT64_MAX: readers have no more. */
void json_number(struct json *json, const char *name, uint64_t number);
void json_bool(struct json *json, const char *name, bool value);
/* The document with a newline behind it, of *length octets; the caller frees it. NULL: it had no
 * room, or there was no memory. */
char *json_finish(struct json *json, size_t *length);

#endif
