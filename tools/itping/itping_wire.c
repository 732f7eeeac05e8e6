/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: private data, control messages, the pattern.
 */
#include "itping.h"

#include <endian.h>

#include "tools/common/wire.h"

/* ---- private data ---------------------------------------------------------------------------- */

static void put_head(struct wire *wire, unsigned word)
{
    wire_put(wire, PING_MAGIC, 4);
    wire_put(wire, PING_VERSION, 2);
    wire_put(wire, word, 2);
}

size_t ping_put_hello(uint8_t *data, const struct ping_hello *hello)
{
    struct wire wire = wire_over(data, PING_PRIVATE);

    put_head(&wire, hello->flags);
    wire_put(&wire, hello->op, 2);
    wire_put(&wire, 0, 2);
    wire_put(&wire, hello->size, 4);
    wire_put(&wire, hello->seed, 8);
    wire_put(&wire, hello->address, 8);
    wire_put(&wire, hello->context, 8);
    return PING_PRIVATE - wire.left;
}

int ping_get_hello(const uint8_t *data, size_t size, struct ping_hello *hello)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    uint64_t magic = wire_get(&wire, 4), version = wire_get(&wire, 2), op;

    hello->flags = (unsigned)wire_get(&wire, 2);
    op = wire_get(&wire, 2);
    wire_get(&wire, 2);
    hello->size = (uint32_t)wire_get(&wire, 4);
    hello->seed = wire_get(&wire, 8);
    hello->address = wire_get(&wire, 8);
    hello->context = wire_get(&wire, 8);
    if (wire.bad || magic != PING_MAGIC || version != PING_VERSION)
        return PING_REFUSED_VERSION;
    if (op < PING_SEND || op > PING_READ || hello->size < 1 || hello->size > PING_SIZE_MAX)
        return PING_REFUSED_PARAMETER;
    hello->op = (enum ping_op)op;
    return 0;
}

size_t ping_put_welcome(uint8_t *data, const struct ping_welcome *welcome)
{
    struct wire wire = wire_over(data, PING_PRIVATE);

    put_head(&wire, 0);
    wire_put(&wire, welcome->address, 8);
    wire_put(&wire, welcome->context, 8);
    wire_put(&wire, welcome->tcp.port, 2);
    wire_put(&wire, welcome->tcp.token, 8);
    return PING_PRIVATE - wire.left;
}

bool ping_get_welcome(const uint8_t *data, size_t size, struct ping_welcome *welcome)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    bool good = wire_get(&wire, 4) == PING_MAGIC;

    good = wire_get(&wire, 2) == PING_VERSION && good;
    wire_get(&wire, 2);
    welcome->address = wire_get(&wire, 8);
    welcome->context = wire_get(&wire, 8);
    welcome->tcp.port = (uint16_t)wire_get(&wire, 2);
    welcome->tcp.token = wire_get(&wire, 8);
    return good && !wire.bad;
}

size_t ping_put_refusal(uint8_t *data, enum ping_refusal refusal)
{
    struct wire wire = wire_over(data, PING_PRIVATE);

    put_head(&wire, refusal);
    return PING_PRIVATE - wire.left;
}

int ping_get_refusal(const uint8_t *data, size_t size)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    uint64_t magic = wire_get(&wire, 4);

    wire_get(&wire, 2);
    return magic == PING_MAGIC ? (int)wire_get(&wire, 2) : 0;
}

/* ---- control messages ------------------------------------------------------------------------ */

void ping_put_control(void *data, enum ping_control_type type, const struct ping_tally *tally)
{
    struct wire wire = wire_over(data, PING_CONTROL);

    memset(data, 0, PING_CONTROL);
    wire_put(&wire, PING_MAGIC, 4);
    wire_put(&wire, type, 4);
    wire_put(&wire, tally->verified, 8);
    wire_put(&wire, tally->damaged, 8);
    wire_put(&wire, tally->message, 8);
    wire_put(&wire, tally->offset, 8);
    wire_put(&wire, tally->expected, 1);
    wire_put(&wire, tally->found, 1);
}

int ping_get_control(const void *data, struct ping_tally *tally)
{
    struct wire wire = wire_over((void *)data, PING_CONTROL);
    uint64_t magic = wire_get(&wire, 4), type = wire_get(&wire, 4);

    tally->verified = wire_get(&wire, 8);
    tally->damaged = wire_get(&wire, 8);
    tally->message = wire_get(&wire, 8);
    tally->offset = wire_get(&wire, 8);
    tally->expected = (uint8_t)wire_get(&wire, 1);
    tally->found = (uint8_t)wire_get(&wire, 1);
    return magic == PING_MAGIC && (type == PING_BYE || type == PING_REPORT) ? (int)type : 0;
}

/* ---- pattern --------------------------------------------------------------------------------- */

/* One 8-byte word of the pattern: the mixing step of splitmix64 over a counter. */
static inline uint64_t word_of(uint64_t base, uint64_t index)
{
    uint64_t x = base + index * 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return htole64(x ^ (x >> 31));
}

static uint64_t base_of(uint64_t seed, uint64_t message, enum ping_direction direction)
{
    return seed + message * 0xd1342543de82ef95u + (uint64_t)direction * 0xaef17502108ef2d9u;
}

/* Calls for each part of at most 8 bytes: whole words, except the first and the last. */
static size_t piece(uint64_t base, uint64_t position, size_t left, uint8_t bytes[8])
{
    uint64_t word = word_of(base, position / 8);
    size_t skip = position % 8, count = 8 - skip;

    memcpy(bytes, (const uint8_t *)&word + skip, 8 - skip);
    return count < left ? count : left;
}

void pattern_fill(void *data, size_t length, uint64_t seed, uint64_t message,
                  enum ping_direction direction, uint64_t offset)
{
    uint64_t base = base_of(seed, message, direction);
    uint8_t *at = data, bytes[8];

    for (size_t done = 0; done < length;) {
        size_t count = piece(base, offset + done, length - done, bytes);

        memcpy(at + done, bytes, count);
        done += count;
    }
}

bool pattern_check(const void *data, size_t length, uint64_t seed, uint64_t message,
                   enum ping_direction direction, uint64_t offset, struct ping_tally *tally)
{
    uint64_t base = base_of(seed, message, direction);
    const uint8_t *at = data;
    uint8_t bytes[8];

    for (size_t done = 0, count; done < length; done += count) {
        count = piece(base, offset + done, length - done, bytes);
        if (!memcmp(at + done, bytes, count))
            continue;
        for (size_t i = 0; i < count && !tally->damaged; i++) {
            if (at[done + i] == bytes[i])
                continue;
            tally->message = message;
            tally->offset = done + i;
            tally->expected = bytes[i];
            tally->found = at[done + i];
            break;
        }
        tally->damaged++;
        return false;
    }
    tally->verified++;
    return true;
}
