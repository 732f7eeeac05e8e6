/* SPDX-License-Identifier: BSD-3-Clause */
/* The octets of a rendezvous: see rendezvous_wire.h. */
#include "rendezvous_wire.h"

#include "base/be.h"

#include <assert.h>
#include <string.h>

#define NAME_HEAD   "ital/local/1/"
#define NAME_END    36u /* an address and a port in hexadecimal digits */
#define AT_VERSION  8u
#define AT_KIND     10u
#define AT_WORD     12u
#define AT_BUILD    16u
#define AT_PROVIDER (AT_BUILD + RENDEZVOUS_BUILD_ROOM)

static_assert(AT_PROVIDER + RENDEZVOUS_PROVIDER_ROOM == RENDEZVOUS_OFFER_LENGTH,
              "the offer ends with the provider's name");
static_assert(sizeof(NAME_HEAD) - 1 + 2 * NAME_END == RENDEZVOUS_NAME_LENGTH,
              "the name ends with the acceptor's port");

static const uint8_t magic[8] = { 'i', 't', 'a', 'l', '-', 'l', 'o', 'c' };

/* ---- the name ---- */

bool rendezvous_address(const union address *address, uint8_t octets[16])
{
    if (address->any.sa_family == AF_INET6) {
        memcpy(octets, &address->six.sin6_addr, 16);
        return true;
    }
    if (address->any.sa_family != AF_INET)
        return false;
    memset(octets, 0, 10);
    memset(octets + 10, 0xFF, 2);
    memcpy(octets + 12, &address->four.sin_addr, 4);
    return true;
}

static bool put_end(const union address *address, char out[NAME_END])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t octets[18];

    if (!rendezvous_address(address, octets))
        return false;
    /* sin_port and sin6_port are at the same place, in network order */
    memcpy(octets + 16, &address->four.sin_port, 2);
    for (size_t i = 0; i < sizeof(octets); i++) {
        out[2 * i] = digits[octets[i] >> 4];
        out[2 * i + 1] = digits[octets[i] & 15];
    }
    return true;
}

bool rendezvous_name(const union address *initiator, const union address *acceptor,
                     char name[RENDEZVOUS_NAME_LENGTH])
{
    char *end = name + sizeof(NAME_HEAD) - 1;

    memcpy(name, NAME_HEAD, sizeof(NAME_HEAD) - 1);
    return put_end(initiator, end) && put_end(acceptor, end + NAME_END);
}

/* ---- messages ---- */

static void put_head(uint8_t *octets, enum rendezvous_kind kind, uint32_t word)
{
    memcpy(octets, magic, sizeof(magic));
    be_put16(octets + AT_VERSION, RENDEZVOUS_VERSION);
    be_put16(octets + AT_KIND, (uint16_t)kind);
    be_put32(octets + AT_WORD, word);
}

void rendezvous_offer_encode(const struct rendezvous_offer *offer,
                             uint8_t octets[RENDEZVOUS_OFFER_LENGTH])
{
    put_head(octets, RENDEZVOUS_OFFER, offer->features);
    memcpy(octets + AT_BUILD, offer->build, RENDEZVOUS_BUILD_ROOM);
    memcpy(octets + AT_PROVIDER, offer->provider, RENDEZVOUS_PROVIDER_ROOM);
}

/* A text that ends within its room and has nothing behind its end. */
static bool get_text(char *text, const uint8_t *octets, size_t room)
{
    const uint8_t *end = memchr(octets, 0, room);

    if (!end)
        return false;
    for (const uint8_t *p = end; p < octets + room; p++)
        if (*p)
            return false;
    memcpy(text, octets, room);
    return true;
}

/* An offer of another version may have any length, so its head is read first. */
enum rendezvous_reason rendezvous_offer_parse(const uint8_t *octets, size_t length,
                                              struct rendezvous_offer *offer)
{
    struct rendezvous_offer parsed;

    if (length < RENDEZVOUS_ANSWER_LENGTH || memcmp(octets, magic, sizeof(magic)) ||
        be_get16(octets + AT_KIND) != RENDEZVOUS_OFFER)
        return RENDEZVOUS_MALFORMED;
    if (be_get16(octets + AT_VERSION) != RENDEZVOUS_VERSION)
        return RENDEZVOUS_OTHER_VERSION;
    if (length != RENDEZVOUS_OFFER_LENGTH ||
        !get_text(parsed.build, octets + AT_BUILD, RENDEZVOUS_BUILD_ROOM) ||
        !get_text(parsed.provider, octets + AT_PROVIDER, RENDEZVOUS_PROVIDER_ROOM))
        return RENDEZVOUS_MALFORMED;
    parsed.features = be_get32(octets + AT_WORD);
    *offer = parsed;
    return RENDEZVOUS_FITS;
}

enum rendezvous_reason rendezvous_offer_compare(const struct rendezvous_offer *ours,
                                                const struct rendezvous_offer *theirs)
{
    if (ours->features != theirs->features)
        return RENDEZVOUS_OTHER_FEATURES;
    if (strcmp(ours->build, theirs->build))
        return RENDEZVOUS_OTHER_BUILD;
    return strcmp(ours->provider, theirs->provider) ? RENDEZVOUS_OTHER_PROVIDER : RENDEZVOUS_FITS;
}

void rendezvous_answer_encode(enum rendezvous_kind kind, enum rendezvous_reason reason,
                              uint8_t octets[RENDEZVOUS_ANSWER_LENGTH])
{
    put_head(octets, kind, reason);
}

bool rendezvous_answer_parse(const uint8_t *octets, size_t length, enum rendezvous_kind *kind,
                             enum rendezvous_reason *reason)
{
    uint16_t which;
    uint32_t word;

    if (length != RENDEZVOUS_ANSWER_LENGTH || memcmp(octets, magic, sizeof(magic)) ||
        be_get16(octets + AT_VERSION) != RENDEZVOUS_VERSION)
        return false;
    which = be_get16(octets + AT_KIND);
    word = be_get32(octets + AT_WORD);
    if (which < RENDEZVOUS_TAKEN || which > RENDEZVOUS_COMMIT || word >= RENDEZVOUS_REASONS ||
        (which == RENDEZVOUS_NO) != (word != RENDEZVOUS_FITS))
        return false;
    *kind = (enum rendezvous_kind)which;
    *reason = (enum rendezvous_reason)word;
    return true;
}
