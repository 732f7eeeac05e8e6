/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identification of a RoCEv2 packet over IPv4 from its ICRC. Settings: addresses (8 octets),
 * source port, the word that was sent, the one assumed, the window, what damages the ICRC; then the
 * packet from the BTH, whose last four octets are made here.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "providers/software/roce/codec/icrc.h"

#define PACKET_MAX 4200u

struct input {
    struct icrc_path path;
    uint32_t sent, assumed, damage;
    struct icrc_window window;
    uint8_t packet[PACKET_MAX];
    size_t len;
};

static uint32_t read32(struct reader *reader)
{
    uint32_t high = read16(reader);

    return high << 16 | read16(reader);
}

static void read_input(struct reader *reader, struct input *in)
{
    uint8_t addresses[8], source[GID_LEN], destination[GID_LEN];

    for (size_t i = 0; i < sizeof(addresses); i++)
        addresses[i] = read8(reader);
    gid_put_ipv4(source, addresses);
    gid_put_ipv4(destination, addresses + 4);
    icrc_path_init(&in->path, source, destination, read16(reader));
    in->sent = read32(reader);
    in->assumed = read32(reader);
    in->window.first = read16(reader);
    in->window.count = read16(reader) + (read8(reader) & 1u);
    in->damage = read32(reader);
    in->len = reader->left < PACKET_MAX ? reader->left : PACKET_MAX;
    memcpy(in->packet, reader->p, in->len);
}

static bool in_window(const struct input *in, uint32_t word)
{
    return (uint16_t)((word >> 16) - in->window.first) < in->window.count;
}

static bool may_occur(uint32_t word)
{
    return !(word & 0xFFFFu & ~ICRC_DF);
}

static bool is_right(const struct input *in, uint32_t word)
{
    return icrc_of_packet(&in->path, word, in->packet, in->len) ==
           icrc_get(in->packet + in->len - BTH_ICRC_LEN);
}

static void solve(const struct input *in)
{
    uint32_t computed = icrc_of_packet(&in->path, in->assumed, in->packet, in->len), found = 0;
    enum icrc_match match = icrc_find_fragment_word(in->packet, in->len, computed, in->assumed,
                                                    in->window, &found);

    if (match == ICRC_WRONG) {
        FUZZ_CHECK(!may_occur(in->sent) || in->damage);
        for (uint32_t flags = 0; flags <= ICRC_DF; flags += ICRC_DF)
            FUZZ_CHECK(!is_right(in, in->sent >> 16 << 16 | flags));
        return;
    }
    FUZZ_CHECK(may_occur(found) && is_right(in, found));
    FUZZ_CHECK((match == ICRC_INSIDE) == in_window(in, found));
    FUZZ_CHECK((found == in->sent) == !in->damage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = { data, size };
    struct input in;
    uint32_t found;

    read_input(&reader, &in);
    if (in.len < BTH_PACKET_MIN || in.len % 4) {
        FUZZ_CHECK(icrc_find_fragment_word(in.packet, in.len, 0, 0, in.window, &found) ==
                   ICRC_WRONG);
        return 0;
    }
    icrc_put(in.packet + in.len - BTH_ICRC_LEN,
             icrc_of_packet(&in.path, in.sent, in.packet, in.len) ^ in.damage);
    solve(&in);
    return 0;
}
