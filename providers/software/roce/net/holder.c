/* SPDX-License-Identifier: BSD-3-Clause */
#include "holder.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t zeros[GID_LEN];

/* ---- a line ---------------------------------------------------------------------------------- */

struct text {
    const char *at, *end;
    bool wrong;
};

static bool skip_blanks(struct text *text)
{
    while (text->at < text->end && *text->at == ' ')
        text->at++;
    return text->at < text->end;
}

/* A word, which is not looked at. */
static void skip_word(struct text *text)
{
    text->wrong |= !skip_blanks(text);
    while (text->at < text->end && *text->at != ' ')
        text->at++;
}

static unsigned digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10u : 16u;
}

static uint32_t get_hex(struct text *text, unsigned digits)
{
    uint32_t value = 0;

    for (; digits; digits--) {
        unsigned digit = text->at < text->end ? digit_of(*text->at) : 16u;

        if (digit > 15) {
            text->wrong = true;
            return 0;
        }
        value = value << 4 | digit;
        text->at++;
    }
    return value;
}

static void expect(struct text *text, char c)
{
    if (text->at < text->end && *text->at == c)
        text->at++;
    else
        text->wrong = true;
}

static uint32_t get_decimal(struct text *text)
{
    const char *first;
    uint64_t value = 0;

    skip_blanks(text);
    first = text->at;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9' && value <= UINT32_MAX)
        value = value * 10u + (unsigned)(*text->at++ - '0');
    text->wrong |= text->at == first || value > UINT32_MAX;
    return (uint32_t)value;
}

/* Words of an address are printed as numbers of this machine. */
static void get_address(struct text *text, bool ipv6, uint8_t gid[static GID_LEN])
{
    uint32_t word;

    for (unsigned i = 0; i < (ipv6 ? 4u : 1u); i++) {
        word = get_hex(text, 8);
        memcpy(gid + 4 * i, &word, sizeof(word));
    }
    if (!ipv6) {
        uint8_t ipv4[4];

        memcpy(ipv4, gid, sizeof(ipv4));
        gid_put_ipv4(gid, ipv4);
    }
}

/* Number, local address, remote address, state, queues, timer, retransmissions, user. */
bool holder_get(const char *line, size_t len, bool ipv6, struct holder *holder)
{
    struct text text = { line, line + len, false };
    struct holder found = { .user = 0 };

    skip_word(&text);
    skip_blanks(&text);
    get_address(&text, ipv6, found.gid);
    expect(&text, ':');
    found.udp_port = (uint16_t)get_hex(&text, 4);
    for (int i = 0; i < 5; i++)
        skip_word(&text);
    found.user = get_decimal(&text);
    if (text.wrong)
        return false;
    *holder = found;
    return true;
}

bool holder_is_wildcard(const struct holder *holder)
{
    return !memcmp(holder->gid, zeros, GID_LEN) ||
           (gid_is_ipv4(holder->gid) && !memcmp(holder->gid + GID_IPV4, zeros, 4));
}

/* A wildcard of IPv6 has the addresses of IPv4, too, unless it was made otherwise, which is not
 * listed. */
static bool has(const struct holder *holder, const uint8_t gid[static GID_LEN])
{
    if (!memcmp(holder->gid, gid, GID_LEN))
        return true;
    return holder_is_wildcard(holder) && (gid_is_ipv4(gid) || !gid_is_ipv4(holder->gid));
}

enum holder_found holder_of(const struct holder *list, uint32_t count, uint32_t user,
                            const uint8_t gid[static GID_LEN], struct holder *holder)
{
    enum holder_found found = HOLDER_NOBODY;

    for (uint32_t i = 0; i < count && found != HOLDER_OWN; i++) {
        if (!has(&list[i], gid))
            continue;
        if (list[i].user == user) {
            found = HOLDER_OWN;
        } else if (found == HOLDER_NOBODY) {
            found = HOLDER_OTHER;
            *holder = list[i];
        }
    }
    return found;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* An address has a socket for each slot. */
static uint32_t add(struct holder *list, uint32_t count, const struct holder *holder)
{
    for (uint32_t i = count; i > 0; i--)
        if (list[i - 1].user == holder->user && !memcmp(list[i - 1].gid, holder->gid, GID_LEN))
            return count;
    if (count < HOLDERS_MAX)
        list[count++] = *holder;
    return count;
}

static uint32_t read_list(const char *path, bool ipv6, uint16_t udp_port, struct holder *list,
                          uint32_t count)
{
    FILE *file = fopen(path, "re");
    struct holder one;
    char *line = NULL;
    size_t room = 0;
    ssize_t len;

    while (file && (len = getline(&line, &room, file)) > 0)
        if (holder_get(line, (size_t)len, ipv6, &one) && one.udp_port == udp_port)
            count = add(list, count, &one);
    free(line);
    if (file)
        fclose(file);
    return count;
}

uint32_t holder_list(uint16_t udp_port, struct holder list[static HOLDERS_MAX])
{
    uint32_t count = read_list("/proc/net/udp", false, udp_port, list, 0);

    return read_list("/proc/net/udp6", true, udp_port, list, count);
}
