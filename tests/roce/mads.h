/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message of communication management written a second time, and those of the vectors. */
#ifndef ITAL_TESTS_MADS_H
#define ITAL_TESTS_MADS_H

#include "packets.h"

#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/cm.h"

/* A field: its name in the vectors, offset behind the MAD header, first bit there (0 is the most
 * significant), bits. */
struct field {
    const char *name;
    unsigned octet, bit, bits;
};

/* Message, its fields, the last of which (without a name) says where private data begin. */
struct layout {
    uint16_t attribute;
    const char *name;
    const struct field *fields;
    unsigned private_octets;
};

#define LAYOUTS 9
extern const struct layout layouts[LAYOUTS];

/* The layout of an attribute ID; NULL: of no message. */
const struct layout *layout_of(uint16_t attribute);
/* The last entry: private data. */
const struct field *end_of(const struct layout *layout);
/* The field that a bit of the body belongs to; NULL: reserved. */
const struct field *field_of(const struct layout *layout, unsigned bit);

/* The MAD that a vector's packet carries, which the caller's `packet` points to; NULL: it carries
 * another thing. */
const uint8_t *mad_of(const struct packet_vector *v, struct bth_packet *packet);

#endif
