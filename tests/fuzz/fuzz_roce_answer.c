/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tools hear from a RoCEv2 host: a datagram with addresses and a source port in front, and
 * control messages of the error queue. Settings: what it is, addresses (8 octets), port.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "providers/software/roce/codec/icrc.h"
#include "tools/roce/answer.h"
#include "tools/roce/reach.h"

#define IS_QUEUE 1u
#define IS_IPV6  2u

static void read_way(struct reader *reader, bool ipv6, struct answer_way *way)
{
    uint8_t addresses[8];

    for (size_t i = 0; i < sizeof(addresses); i++)
        addresses[i] = read8(reader);
    gid_put_ipv4(way->source, addresses);
    gid_put_ipv4(way->destination, addresses + 4);
    if (ipv6)
        way->source[0] = way->destination[0] = 0xFD;
    way->source_port = read16(reader);
}

static bool is_right(const struct answer_way *way, uint32_t word, const struct reader *in)
{
    struct icrc_path path;

    icrc_path_init(&path, way->source, way->destination, way->source_port);
    return icrc_of_packet(&path, word, in->p, in->left) == icrc_get(in->p + in->left - 4);
}

/* What an answer says about the way makes its ICRC right. */
static void check_icrc(const struct answer_way *way, const struct reader *in,
                       const struct answer *answer)
{
    struct answer_way other = *way;

    switch (answer->icrc) {
    case ANSWER_WHOLE: FUZZ_CHECK(is_right(way, ICRC_DF, in)); break;
    case ANSWER_IDENTIFIED:
        FUZZ_CHECK(
            is_right(way, (uint32_t)answer->identification << 16 | (answer->df ? ICRC_DF : 0), in));
        break;
    case ANSWER_OTHER_PORT:
        other.source_port = answer->sent_from;
        FUZZ_CHECK(is_right(&other, ICRC_DF, in));
        break;
    default:
        if (!answer->has_addresses)
            break;
        memcpy(other.source + GID_IPV4, answer->source_if, 4);
        FUZZ_CHECK(is_right(&other, ICRC_DF, in));
        other = *way;
        memcpy(other.destination + GID_IPV4, answer->destination_if, 4);
        FUZZ_CHECK(is_right(&other, ICRC_DF, in));
        break;
    }
}

static void read_queue(const struct answer_way *way, const struct reader *in)
{
    struct reach_answer answer = { .what = REACH_SILENT };
    struct raw_way to = { .mtu = 0 };

    memcpy(to.peer, way->source, GID_LEN);
    if (!reach_read(in->p, in->left, &to, &answer))
        return;
    FUZZ_CHECK(answer.what != REACH_SILENT && answer.error >= 0 && answer.error <= 4095);
    FUZZ_CHECK(answer.what != REACH_CLOSED || !memcmp(answer.from, to.peer, GID_LEN));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader in = { data, size };
    uint8_t how = read8(&in);
    char text[ANSWER_TEXT];
    struct answer_way way;
    struct answer answer;

    read_way(&in, how & IS_IPV6, &way);
    if (how & IS_QUEUE) {
        read_queue(&way, &in);
        return 0;
    }
    answer_read(&way, in.p, in.left, &answer);
    FUZZ_CHECK(*answer_text(&answer, text) && strlen(text) < ANSWER_TEXT);
    FUZZ_CHECK(!answer.is_message || answer.parsed == BTH_OK);
    if (in.left >= BTH_PACKET_MIN && in.left <= BTH_PACKET_MAX && in.left % 4 == 0)
        check_icrc(&way, &in, &answer);
    else
        FUZZ_CHECK(answer.icrc == ANSWER_DAMAGED && answer.parsed != BTH_OK);
    return 0;
}
