/* SPDX-License-Identifier: BSD-3-Clause */
#include "meet_message.h"

#include "base/be.h"

#include <stdio.h>
#include <string.h>

#define MAGIC_LEN  8u
#define AT_VERSION 8u
#define AT_KIND    10u
#define AT_REASON  12u
#define AT_PAIR    16u
#define AT_ASKED   32u
#define AT_QPNS    48u
#define AT_ZEROS   56u
#define QPN_MOST   0xFFFFFFu

static const char magic[MAGIC_LEN + 1] = "italRmet";

size_t meet_put_name(uint8_t out[static MEET_NAME_MAX], uint32_t user, uint16_t udp_port,
                     uint32_t slot)
{
    int len;

    out[0] = 0;
    len = snprintf((char *)out + 1, MEET_NAME_MAX - 1, "ital-roce-meet-%u-%.48s-%u-%u-%u",
                   MEET_VERSION, PACKAGE_VERSION, user, udp_port, slot);
    return 1u + (size_t)len;
}

void meet_put(uint8_t out[static MEET_LEN], const struct meet_message *message)
{
    memset(out, 0, MEET_LEN);
    memcpy(out, magic, MAGIC_LEN);
    be_put16(out + AT_VERSION, MEET_VERSION);
    be_put16(out + AT_KIND, (uint16_t)message->kind);
    be_put32(out + AT_REASON, (uint32_t)message->reason);
    if (message->kind != MEET_ASK)
        return;
    memcpy(out + AT_PAIR, message->pair.asking_gid, GID_LEN);
    memcpy(out + AT_ASKED, message->pair.asked_gid, GID_LEN);
    be_put32(out + AT_QPNS, message->pair.asking_qpn);
    be_put32(out + AT_QPNS + 4, message->pair.asked_qpn);
}

static bool are_zeros(const uint8_t *octets, size_t len)
{
    uint8_t any = 0;

    for (size_t i = 0; i < len; i++)
        any |= octets[i];
    return !any;
}

static bool get_pair(const uint8_t *octets, struct meet_pair *pair)
{
    memcpy(pair->asking_gid, octets + AT_PAIR, GID_LEN);
    memcpy(pair->asked_gid, octets + AT_ASKED, GID_LEN);
    pair->asking_qpn = be_get32(octets + AT_QPNS);
    pair->asked_qpn = be_get32(octets + AT_QPNS + 4);
    return pair->asking_qpn <= QPN_MOST && pair->asked_qpn <= QPN_MOST &&
           are_zeros(octets + AT_ZEROS, MEET_LEN - AT_ZEROS);
}

bool meet_get(const void *octets, size_t len, struct meet_message *message)
{
    const uint8_t *p = octets;
    struct meet_message got = { .kind = MEET_ASK };
    uint32_t kind, reason;

    if (len != MEET_LEN || memcmp(p, magic, MAGIC_LEN) || be_get16(p + AT_VERSION) != MEET_VERSION)
        return false;
    kind = be_get16(p + AT_KIND);
    reason = be_get32(p + AT_REASON);
    if (kind < MEET_ASK || kind > MEET_NO || reason >= MEET_REASONS ||
        (kind == MEET_NO) != (reason != MEET_NO_REASON))
        return false;
    got.kind = (enum meet_kind)kind;
    got.reason = (enum meet_reason)reason;
    if (kind == MEET_ASK ? !get_pair(p, &got.pair) : !are_zeros(p + AT_PAIR, MEET_LEN - AT_PAIR))
        return false;
    *message = got;
    return true;
}
