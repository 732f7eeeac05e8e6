/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire vectors of tests/data/vectors.json as plain structures. Loaded data lives until the
 * program ends. Needs jansson at build time; without it vectors_load() returns NULL and says so.
 */
#ifndef ITAL_TESTS_VECTORS_H
#define ITAL_TESTS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vec_bytes {
    uint8_t *p; /* malloc'ed at its exact size, so that an over-read shows under ASan */
    size_t len;
};

struct vec_field {
    const char *name;
    uint64_t value;
};

/* Decoded numbers of a frame or segment, by the names of the file ("QN", "IRD", ...). */
struct vec_fields {
    struct vec_field *v;
    size_t n;
};

struct vec_crc {
    const char *name;
    struct vec_bytes data;
    struct vec_bytes wire; /* the CRC field: 4 octets */
    struct vec_bytes fpdu; /* data and field; empty if the vector has none */
    uint32_t crc;
};

struct vec_mulpdu {
    uint32_t emss, no_markers, markers, tagged_payload, untagged_payload;
};

enum vec_kind {
    VEC_REQUEST,
    VEC_REPLY,
    VEC_FPDU,
    VEC_EVENT, /* no octets: a FIN and the like */
};

struct vec_frame {
    const char *exchange; /* "V-05" */
    char dir;             /* I from the initiator, R from the responder */
    uint64_t conn;
    enum vec_kind kind;
    struct vec_bytes bytes;
    uint32_t stream_pos; /* VEC_FPDU */
    bool crc, markers;
    struct vec_bytes ulpdu;
    struct vec_bytes payload; /* VEC_FPDU: DDP payload; start-up: the ULP's private data */
    struct vec_fields fields;
};

/* Where a ULPDU has a value that is known at run time only: `octets` 4 an STag (XOR `flip`), 8 a
 * region's base (plus `add`). */
struct vec_patch {
    const char *region; /* "W", "OPD", ... */
    uint32_t segment, offset, octets, flip;
    int32_t add;
};

/* Negative (and some positive) stimuli for a receiver in Full Operation. */
struct vec_segments {
    const char *id, *check, *key, *setup; /* "N-027", "C-063", "rdmap-t", "" */
    bool crc, markers;
    bool accept;
    uint16_t terminate; /* expected value if not accept */
    size_t n;           /* segments; the last one is the stimulus */
    struct vec_bytes *fpdus, *ulpdus;
    struct vec_fields *fields;
    struct vec_bytes terminate_ulpdu; /* expected answer; empty if none */
    struct vec_patch *patches;
    size_t n_patches;
};

struct vec_startup {
    const char *id, *check, *key, *expect;
    bool passive;
    struct vec_bytes bytes;
};

struct vectors {
    struct vec_crc *crcs;
    size_t n_crcs;
    struct vec_frame *rfc_figures; /* kind VEC_FPDU with markers; bytes and stream_pos only */
    size_t n_rfc_figures;
    uint32_t residue;
    struct vec_mulpdu *mulpdus;
    size_t n_mulpdus;
    struct vec_frame *frames; /* all exchanges, in order */
    size_t n_frames;
    struct vec_segments *negatives;
    size_t n_negatives;
    struct vec_startup *startups;
    size_t n_startups;
};

/* NULL with a reason in *why if the file cannot be used. Loads once per process. */
const struct vectors *vectors_load(const char *path, const char **why);
bool vectors_readable(void); /* true if built with jansson: then an unusable file is an error */

/* False if the vector does not have the field. */
bool vec_field(const struct vec_fields *fields, const char *name, uint64_t *value);

/* The same; ends the program if the field is absent: the file does not match the test. */
uint64_t vec_need(const struct vec_fields *fields, const char *name);

#endif
