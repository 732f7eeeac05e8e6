/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads and writes big-endian fields within a length, for messages between the tools. A reader or
 * writer that ran out stays "bad", so one check at the end is enough.
 */
#ifndef ITAL_TOOLS_WIRE_H
#define ITAL_TOOLS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire {
    uint8_t *at;
    size_t left;
    bool bad;
};

static inline struct wire wire_over(void *memory, size_t size)
{
    return (struct wire){ .at = memory, .left = size };
}

/* The next count bytes, or NULL. */
static inline uint8_t *wire_take(struct wire *wire, size_t count)
{
    uint8_t *at = wire->at;

    if (wire->bad || count > wire->left) {
        wire->bad = true;
        return NULL;
    }
    wire->at += count;
    wire->left -= count;
    return at;
}

static inline void wire_put(struct wire *wire, uint64_t value, size_t bytes)
{
    uint8_t *at = wire_take(wire, bytes);

    for (size_t i = 0; at && i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static inline uint64_t wire_get(struct wire *wire, size_t bytes)
{
    const uint8_t *at = wire_take(wire, bytes);
    uint64_t value = 0;

    for (size_t i = 0; at && i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static inline void wire_put_bytes(struct wire *wire, const void *data, size_t length)
{
    uint8_t *at = wire_take(wire, length);

    if (at && length)
        memcpy(at, data, length);
}

static inline void wire_get_bytes(struct wire *wire, void *data, size_t length)
{
    const uint8_t *at = wire_take(wire, length);

    if (at && length)
        memcpy(data, at, length);
}

#endif /* ITAL_TOOLS_WIRE_H */
