/* SPDX-License-Identifier: BSD-3-Clause */
#include "ids.h"

#include <string.h>

static uint32_t place_of(const uint8_t gid[static GID_LEN])
{
    uint64_t halves[2];

    memcpy(halves, gid, sizeof(halves));
    halves[0] ^= halves[1] * UINT64_C(0x9E3779B97F4A7C15);
    halves[0] *= UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(halves[0] >> 32) % IDS_PEERS;
}

struct ids_peer *ids_find(struct ids *ids, const uint8_t source[static GID_LEN],
                          uint16_t source_port, const uint8_t destination[static GID_LEN])
{
    struct ids_peer *peer = &ids->peer[place_of(source)];

    if (memcmp(peer->gid, source, GID_LEN)) {
        memset(peer, 0, sizeof(*peer));
        memcpy(peer->gid, source, GID_LEN);
    } else if (peer->source_port == source_port && peer->path.len) {
        return peer;
    }
    peer->source_port = source_port;
    icrc_path_init(&peer->path, source, destination, source_port);
    return peer;
}

static bool is_ahead(uint16_t id, uint16_t of)
{
    return (uint16_t)(id - of - 1u) < IDS_AHEAD;
}

static bool is_behind(uint16_t id, uint16_t of)
{
    return (uint16_t)(of - id) < IDS_BEHIND;
}

/* Far from the last. True: the third that counts up. */
static bool resynchronises(struct ids_peer *peer, uint16_t id)
{
    bool goes_on = peer->far_count && is_ahead(id, peer->far);

    peer->far = id;
    peer->far_count = goes_on ? (uint8_t)(peer->far_count + 1u) : 1u;
    return peer->far_count >= IDS_RESYNCHRONISE;
}

/* Equal to the one before: it does not count. */
static void guess_from(struct ids_peer *peer, uint16_t id)
{
    peer->guess = id == peer->seen ? id : (uint16_t)(id + 1u);
    peer->seen = id;
}

bool ids_accept(struct ids_peer *peer, uint16_t id)
{
    bool near = !peer->counts || is_ahead(id, peer->last);

    if (id >= IDS_OWN || peer->counts) {
        if (!near && id >= IDS_OWN && !is_behind(id, peer->last)) {
            if (!resynchronises(peer, id))
                return false;
            near = true;
        }
        if (near) {
            peer->last = id;
            peer->counts = true;
        }
    }
    peer->far_count = 0;
    guess_from(peer, id);
    return true;
}

static enum ids_verdict solve(struct ids_peer *peer, const void *packet, uint32_t len, uint32_t crc,
                              uint32_t assumed)
{
    const struct icrc_window any = { 0, 65536 };
    uint32_t word;

    if (icrc_find_fragment_word(packet, len, crc, assumed, any, &word) == ICRC_WRONG)
        return IDS_WRONG;
    if (!ids_accept(peer, (uint16_t)(word >> 16)))
        return IDS_OUTSIDE;
    return word >> 16 < IDS_OWN ? IDS_RIGHT : IDS_SOLVED;
}

enum ids_verdict ids_check(struct ids_peer *peer, const void *packet, uint32_t len)
{
    uint32_t assumed = ICRC_FRAGMENT_WORD(peer->guess);
    uint32_t crc = icrc_of_packet(&peer->path, assumed, packet, len);
    uint32_t field = icrc_get((const uint8_t *)packet + len - BTH_ICRC_LEN);

    if (!icrc_path_is_ipv4(&peer->path))
        return crc == field ? IDS_RIGHT : IDS_WRONG;
    if (crc != field)
        return solve(peer, packet, len, crc, assumed);
    ids_accept(peer, peer->guess);
    return IDS_RIGHT;
}
