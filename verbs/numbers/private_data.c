/* SPDX-License-Identifier: BSD-3-Clause
 * Private data of connections by numbers: encode, decode. */
#include "private_data.h"

#include "base/be.h"

#define MAGIC         UINT32_C(0x6974514e) /* "itQN" */
#define HELLO_VERSION 1u
#define NUMBER        UINT32_C(0xffffff) /* QPN and PSN have 24 bits */

enum place {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_FLAGS = 5,
    AT_REASON = 6,
    AT_OWN_QPN = 8,
    AT_WANTED_QPN = 12,
    AT_GID = 16,
    AT_PSN = 32,
};

void hello_encode(const struct hello *hello, uint8_t octets[HELLO_OCTETS])
{
    be_put32(octets + AT_MAGIC, MAGIC);
    octets[AT_VERSION] = HELLO_VERSION;
    octets[AT_FLAGS] = hello->flags;
    be_put16(octets + AT_REASON, hello->reason);
    be_put32(octets + AT_OWN_QPN, hello->own_qpn & NUMBER);
    be_put32(octets + AT_WANTED_QPN, hello->wanted_qpn & NUMBER);
    memcpy(octets + AT_GID, hello->own_gid, sizeof(hello->own_gid));
    be_put32(octets + AT_PSN, hello->expected_psn & NUMBER);
}

bool hello_decode(const void *octets, size_t length, struct hello *hello)
{
    const uint8_t *from = octets;

    if (length < HELLO_OCTETS || be_get32(from + AT_MAGIC) != MAGIC ||
        from[AT_VERSION] != HELLO_VERSION || be_get32(from + AT_OWN_QPN) > NUMBER ||
        be_get32(from + AT_WANTED_QPN) > NUMBER || be_get32(from + AT_PSN) > NUMBER)
        return false;
    *hello = (struct hello){
        .flags = from[AT_FLAGS],
        .reason = be_get16(from + AT_REASON),
        .own_qpn = be_get32(from + AT_OWN_QPN),
        .wanted_qpn = be_get32(from + AT_WANTED_QPN),
        .expected_psn = be_get32(from + AT_PSN),
    };
    memcpy(hello->own_gid, from + AT_GID, sizeof(hello->own_gid));
    return true;
}

const char *hello_reason_text(uint16_t reason)
{
    switch (reason) {
    case HELLO_OTHER_PEER: return "that QP has another peer";
    case HELLO_PERSONALITY:
        return "one side is RoCE, the other iWARP; start both with the same option --as of "
               "ital-run";
    case HELLO_CROWDED: return "too many peers wait for that QP";
    default: return "the peer rejects";
    }
}
