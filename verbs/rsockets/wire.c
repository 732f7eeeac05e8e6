/* SPDX-License-Identifier: BSD-3-Clause
 * The hello and the messages of rsockets: encode, decode. */
#include "wire.h"

#include "base/be.h"
#include "base/checked.h"

#include <string.h>

#define MAGIC      UINT32_C(0x69745253) /* "itRS" */
#define RS_VERSION 1u

enum hello_place {
    HELLO_MAGIC = 0,
    HELLO_VERSION = 4,
    HELLO_MAPS = 6,
    HELLO_MESSAGES = 8,
    HELLO_RING_SIZE = 12,
    HELLO_RING_STAG = 16,
    HELLO_RING_ADDRESS = 24,
};

enum message_place {
    AT_KIND = 0,
    AT_INDEX = 2,
    AT_LENGTH = 4,
    AT_TAKEN_MESSAGES = 8,
    AT_TAKEN_OCTETS = 12,
    AT_MAP_OFFSET = RS_HEADER_OCTETS,
    AT_MAP_ADDRESS = RS_HEADER_OCTETS + 8,
    AT_MAP_LENGTH = RS_HEADER_OCTETS + 16,
    AT_MAP_STAG = RS_HEADER_OCTETS + 24,
};

void rs_hello_encode(const struct rs_hello *hello, uint8_t octets[RS_HELLO_OCTETS])
{
    memset(octets, 0, RS_HELLO_OCTETS);
    be_put32(octets + HELLO_MAGIC, MAGIC);
    octets[HELLO_VERSION] = RS_VERSION;
    be_put16(octets + HELLO_MAPS, hello->maps);
    be_put32(octets + HELLO_MESSAGES, hello->messages);
    be_put32(octets + HELLO_RING_SIZE, hello->ring_size);
    be_put32(octets + HELLO_RING_STAG, hello->ring_stag);
    be_put64(octets + HELLO_RING_ADDRESS, hello->ring_address);
}

bool rs_hello_decode(const void *octets, size_t length, struct rs_hello *hello)
{
    const uint8_t *from = octets;
    struct rs_hello read;

    if (length < RS_HELLO_OCTETS || be_get32(from + HELLO_MAGIC) != MAGIC ||
        from[HELLO_VERSION] != RS_VERSION)
        return false;
    read = (struct rs_hello){
        .maps = be_get16(from + HELLO_MAPS),
        .messages = be_get32(from + HELLO_MESSAGES),
        .ring_size = be_get32(from + HELLO_RING_SIZE),
        .ring_stag = be_get32(from + HELLO_RING_STAG),
        .ring_address = be_get64(from + HELLO_RING_ADDRESS),
    };
    if (read.messages < RS_MESSAGES_LEAST || read.messages > RS_MESSAGES_MOST ||
        read.ring_size < RS_RING_LEAST || read.ring_size > RS_RING_MOST ||
        checked_wraps(read.ring_address, (uint64_t)read.ring_size + 1))
        return false;
    *hello = read;
    return true;
}

uint32_t rs_message_encode(const struct rs_message *message, uint8_t octets[RS_SLOT_OCTETS])
{
    octets[AT_KIND] = (uint8_t)message->kind;
    octets[AT_KIND + 1] = 0;
    be_put16(octets + AT_INDEX, message->index);
    be_put32(octets + AT_LENGTH, message->length);
    be_put32(octets + AT_TAKEN_MESSAGES, message->taken_messages);
    be_put32(octets + AT_TAKEN_OCTETS, message->taken_octets);
    switch (message->kind) {
    case RS_SMALL:
        memcpy(octets + RS_HEADER_OCTETS, message->octets, message->length);
        return RS_HEADER_OCTETS + message->length;
    case RS_MAP:
        be_put64(octets + AT_MAP_OFFSET, message->map.offset);
        be_put64(octets + AT_MAP_ADDRESS, message->map.address);
        be_put64(octets + AT_MAP_LENGTH, message->map.length);
        be_put32(octets + AT_MAP_STAG, message->map.stag);
        return RS_HEADER_OCTETS + RS_MAP_OCTETS;
    default: return RS_HEADER_OCTETS;
    }
}

static bool read_map(const uint8_t *octets, size_t length, struct rs_map *map)
{
    if (length < RS_HEADER_OCTETS + RS_MAP_OCTETS)
        return false;
    *map = (struct rs_map){
        .offset = be_get64(octets + AT_MAP_OFFSET),
        .address = be_get64(octets + AT_MAP_ADDRESS),
        .length = be_get64(octets + AT_MAP_LENGTH),
        .stag = be_get32(octets + AT_MAP_STAG),
    };
    return map->length && !checked_wraps(map->offset, map->length) &&
           !checked_wraps(map->address, map->length);
}

bool rs_message_decode(const uint8_t *octets, size_t length, struct rs_message *message)
{
    struct rs_message read;

    if (length < RS_HEADER_OCTETS || octets[AT_KIND] < RS_DATA || octets[AT_KIND] > RS_UNMAP)
        return false;
    read = (struct rs_message){
        .kind = (enum rs_kind)octets[AT_KIND],
        .index = be_get16(octets + AT_INDEX),
        .length = be_get32(octets + AT_LENGTH),
        .taken_messages = be_get32(octets + AT_TAKEN_MESSAGES),
        .taken_octets = be_get32(octets + AT_TAKEN_OCTETS),
    };
    if ((read.kind == RS_DATA || read.kind == RS_SMALL) && !read.length)
        return false;
    if (read.kind == RS_SMALL) {
        if (read.length > length - RS_HEADER_OCTETS)
            return false;
        read.octets = octets + RS_HEADER_OCTETS;
    }
    if (read.kind == RS_MAP && !read_map(octets, length, &read.map))
        return false;
    *message = read;
    return true;
}
