/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads tests/data/vectors.json. A malformed file is a damaged source tree and ends the program. */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vec_field(const struct vec_fields *fields, const char *name, uint64_t *value)
{
    for (size_t i = 0; i < fields->n; i++) {
        if (!strcmp(fields->v[i].name, name)) {
            *value = fields->v[i].value;
            return true;
        }
    }
    return false;
}

uint64_t vec_need(const struct vec_fields *fields, const char *name)
{
    uint64_t value = 0;

    if (!vec_field(fields, name, &value)) {
        fprintf(stderr, "vectors: field %s is missing\n", name);
        abort();
    }
    return value;
}

#ifdef HAVE_JANSSON

#include <jansson.h>

static struct vectors all;

static void need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "vectors.json: %s is missing or malformed\n", what);
        abort();
    }
}

static void *zalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    need(p != NULL, "memory");
    return p;
}

static int nibble(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;

    return at ? (int)(at - digits) : -1;
}

static struct vec_bytes bytes_of(const json_t *hex)
{
    struct vec_bytes b = { NULL, 0 };
    const char *s = json_string_value(hex);

    if (!s)
        return b;
    need(strlen(s) % 2 == 0, "hexadecimal text");
    b.len = strlen(s) / 2;
    b.p = zalloc(b.len, 1);
    for (size_t i = 0; i < b.len; i++) {
        int hi = nibble(s[2 * i]), lo = nibble(s[2 * i + 1]);

        need(hi >= 0 && lo >= 0, "hexadecimal text");
        b.p[i] = (uint8_t)(hi << 4 | lo);
    }
    return b;
}

static struct vec_bytes get_bytes(const json_t *o, const char *key)
{
    return bytes_of(json_object_get(o, key));
}

static const char *get_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    need(s != NULL, key);
    s = strdup(s);
    need(s != NULL, "memory");
    return s;
}

static bool text_is(const json_t *o, const char *key, const char *want)
{
    const char *s = json_string_value(json_object_get(o, key));

    need(s != NULL, key);
    return !strcmp(s, want);
}

/* Numbers, and numbers in text form ("0x1100", or quoted by read_quoted()). */
static bool number_of(const json_t *v, uint64_t *value)
{
    char *end;

    if (json_is_integer(v)) {
        *value = (uint64_t)json_integer_value(v);
        return true;
    }
    if (!json_is_string(v))
        return false;
    *value = strtoull(json_string_value(v), &end, 0);
    return end != json_string_value(v) && !*end;
}

static uint64_t get_number(const json_t *o, const char *key)
{
    uint64_t value = 0;

    need(number_of(json_object_get(o, key), &value), key);
    return value;
}

static struct vec_fields get_fields(const json_t *o)
{
    struct vec_fields f = { zalloc(json_object_size(o), sizeof(*f.v)), 0 };
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        if (!number_of(v, &f.v[f.n].value))
            continue;
        f.v[f.n].name = strdup(key);
        need(f.v[f.n++].name != NULL, "memory");
    }
    return f;
}

static void load_crcs(const json_t *crc)
{
    const char *groups[] = { "basic", "worked" };
    const json_t *figures = json_object_get(crc, "rfc5044"), *o;
    size_t i;

    all.crcs = zalloc(json_array_size(json_object_get(crc, "basic")) +
                          json_array_size(json_object_get(crc, "worked")),
                      sizeof(*all.crcs));
    for (size_t g = 0; g < 2; g++) {
        json_array_foreach(json_object_get(crc, groups[g]), i, o)
        {
            struct vec_crc *c = &all.crcs[all.n_crcs++];

            c->name = get_text(o, "name");
            c->crc = (uint32_t)get_number(o, "crc_value");
            c->data = get_bytes(o, g ? "covered" : "data");
            c->wire = get_bytes(o, g ? "crc_field" : "wire");
            c->fpdu = get_bytes(o, "fpdu");
            need(c->wire.len == 4, "CRC field");
        }
    }
    all.residue = (uint32_t)get_number(crc, "residue");
    all.rfc_figures = zalloc(json_array_size(figures), sizeof(*all.rfc_figures));
    json_array_foreach(figures, i, o)
    {
        struct vec_frame *f = &all.rfc_figures[all.n_rfc_figures++];

        f->exchange = get_text(o, "name");
        f->kind = VEC_FPDU;
        f->crc = f->markers = true;
        f->bytes = get_bytes(o, "fpdu");
        f->stream_pos = (uint32_t)get_number(o, "stream_pos");
    }
}

static void load_mulpdus(const json_t *list)
{
    const json_t *o;
    size_t i;

    all.mulpdus = zalloc(json_array_size(list), sizeof(*all.mulpdus));
    json_array_foreach(list, i, o)
    {
        struct vec_mulpdu *m = &all.mulpdus[all.n_mulpdus++];

        m->emss = (uint32_t)get_number(o, "emss");
        m->no_markers = (uint32_t)get_number(o, "no_markers");
        m->markers = (uint32_t)get_number(o, "markers");
        m->tagged_payload = (uint32_t)get_number(o, "tagged_payload");
        m->untagged_payload = (uint32_t)get_number(o, "untagged_payload");
    }
}

static void load_frame(const json_t *o, const char *exchange, struct vec_frame *f)
{
    const json_t *decoded = json_object_get(o, "decoded");

    f->exchange = exchange;
    f->dir = text_is(o, "dir", "I") ? 'I' : 'R';
    f->conn = get_number(o, "conn");
    f->bytes = get_bytes(o, "hex");
    f->fields = get_fields(decoded);
    if (text_is(o, "kind", "mpa_req") || text_is(o, "kind", "mpa_rep")) {
        const char *ulp = "ulp_private_data";

        f->kind = text_is(o, "kind", "mpa_req") ? VEC_REQUEST : VEC_REPLY;
        f->payload = get_bytes(decoded, json_object_get(decoded, ulp) ? ulp : "private_data");
    } else if (text_is(o, "kind", "fpdu")) {
        f->kind = VEC_FPDU;
        f->stream_pos = (uint32_t)get_number(o, "stream_pos");
        f->crc = get_number(o, "crc");
        f->markers = get_number(o, "markers");
        f->ulpdu = get_bytes(o, "ulpdu");
        f->payload = get_bytes(decoded, "payload");
    } else {
        f->kind = VEC_EVENT;
    }
}

static void load_exchanges(const json_t *list)
{
    const json_t *e, *o;
    size_t i, k, n = 0;

    json_array_foreach(list, i, e) n += json_array_size(json_object_get(e, "frames"));
    all.frames = zalloc(n, sizeof(*all.frames));
    json_array_foreach(list, i, e)
    {
        const char *id = get_text(e, "id");

        json_array_foreach(json_object_get(e, "frames"), k, o)
            load_frame(o, id, &all.frames[all.n_frames++]);
    }
}

static void load_patches(const json_t *list, struct vec_segments *s)
{
    const json_t *o;
    size_t i;

    s->patches = zalloc(json_array_size(list), sizeof(*s->patches));
    json_array_foreach(list, i, o)
    {
        struct vec_patch *p = &s->patches[s->n_patches++];
        const char *field = json_string_value(json_object_get(o, "field"));
        const char *flip = field ? strchr(field, '^') : NULL;

        p->region = get_text(o, "region");
        p->segment = (uint32_t)get_number(o, "seg");
        p->offset = (uint32_t)get_number(o, "off");
        p->octets = (uint32_t)get_number(o, "len");
        p->add = (int32_t)json_integer_value(json_object_get(o, "add"));
        p->flip = flip ? (uint32_t)strtoul(flip + 1, NULL, 16) : 0;
        need(field && p->octets == (strncmp(field, "stag", 4) ? 8 : 4), "patch");
    }
}

static void load_negatives(const json_t *list)
{
    const json_t *o;
    size_t i;

    all.negatives = zalloc(json_array_size(list), sizeof(*all.negatives));
    json_array_foreach(list, i, o)
    {
        struct vec_segments *s = &all.negatives[all.n_negatives++];
        const json_t *ulpdus = json_object_get(o, "ulpdus");

        s->id = get_text(o, "id");
        s->check = get_text(o, "check");
        s->key = get_text(o, "key");
        s->setup = get_text(o, "setup");
        s->crc = get_number(o, "crc");
        s->markers = get_number(o, "markers");
        s->accept = text_is(o, "outcome", "accept");
        s->terminate = s->accept ? 0 : (uint16_t)get_number(o, "terminate");
        s->n = json_array_size(ulpdus);
        s->fpdus = zalloc(s->n, sizeof(*s->fpdus));
        s->ulpdus = zalloc(s->n, sizeof(*s->ulpdus));
        s->fields = zalloc(s->n, sizeof(*s->fields));
        need(json_array_size(json_object_get(o, "fpdus")) == s->n, "fpdus");
        for (size_t k = 0; k < s->n; k++) {
            s->fpdus[k] = bytes_of(json_array_get(json_object_get(o, "fpdus"), k));
            s->ulpdus[k] = bytes_of(json_array_get(ulpdus, k));
            s->fields[k] = get_fields(json_array_get(json_object_get(o, "decoded"), k));
        }
        s->terminate_ulpdu = get_bytes(o, "expected_terminate_ulpdu");
        load_patches(json_object_get(o, "patch"), s);
    }
}

static void load_startups(const json_t *list)
{
    const json_t *o;
    size_t i;

    all.startups = zalloc(json_array_size(list), sizeof(*all.startups));
    json_array_foreach(list, i, o)
    {
        struct vec_startup *s = &all.startups[all.n_startups++];

        s->id = get_text(o, "id");
        s->check = get_text(o, "check");
        s->key = get_text(o, "key");
        s->expect = get_text(o, "expect");
        s->passive = text_is(o, "receiver", "passive");
        s->bytes = get_bytes(o, "hex");
    }
}

/*
 * The file's text with integers of more than 18 digits in quotes: jansson's integers are signed,
 * and the vectors have offsets up to 2^64-1.
 */
static char *read_quoted(const char *path)
{
    FILE *f = fopen(path, "re");
    size_t n = 0, cap = 1 << 20, run = 0;
    char *text = f ? zalloc(cap, 1) : NULL;
    bool in_string = false;

    if (!f)
        return NULL;
    for (int c; (c = getc(f)) != EOF;) {
        need(n + 4 < cap, "an end within a mebibyte");
        in_string ^= c == '"'; /* the file has no escaped quotes */
        if (!in_string && c >= '0' && c <= '9') {
            run++;
        } else {
            if (run > 18) {
                memmove(text + n - run + 1, text + n - run, run);
                text[n - run] = '"';
                text[n + 1] = '"';
                n += 2;
            }
            run = 0;
        }
        text[n++] = (char)c;
    }
    fclose(f);
    return text;
}

const struct vectors *vectors_load(const char *path, const char **why)
{
    static char reason[512];
    json_error_t error;
    json_t *root;
    char *text;

    if (all.n_frames)
        return &all;
    text = read_quoted(path);
    if (!text) {
        snprintf(reason, sizeof(reason), "%s cannot be read", path);
        *why = reason;
        return NULL;
    }
    root = json_loads(text, 0, &error);
    free(text);
    need(root != NULL, error.text);
    load_crcs(json_object_get(root, "crc"));
    load_mulpdus(json_object_get(root, "mulpdu"));
    load_exchanges(json_object_get(root, "exchanges"));
    load_negatives(json_object_get(root, "negative"));
    load_startups(json_object_get(root, "startup"));
    json_decref(root);
    return &all;
}

bool vectors_readable(void)
{
    return true;
}

#else

bool vectors_readable(void)
{
    return false;
}

const struct vectors *vectors_load(const char *path, const char **why)
{
    (void)path;
    *why = "built without jansson";
    return NULL;
}

#endif
