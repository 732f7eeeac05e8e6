/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What CRC32C costs, of memory of some sizes, cut into payloads of FPDUs:
 *
 *   sum     crc32c_far, as a Write's source is summed; "plain": without lanes
 *   copy    crc32c_copy, as a Response's source is copied and summed; "plain": without lanes
 *   memcpy  the copy alone
 *
 * All in turn, and the least of the rounds: a processor that is lost for a moment does not count.
 *
 *     bench/sums/sums [ROUNDS]      (default 60)
 */
#include "base/clock.h"
#include "base/crc32c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* base/crc32c_lanes.c once more, without lanes. */
static uint32_t plain_far(uint32_t crc, const void *p, size_t n, size_t ahead);
static uint32_t plain_copy(void *dst, const void *src, size_t n, uint32_t crc);
#define CRC32C_WITHOUT_LANES
#define crc32c_far  plain_far
#define crc32c_copy plain_copy
#include "base/crc32c_lanes.c"
#undef crc32c_far
#undef crc32c_copy

#define PAYLOAD     16364u
#define COPY_OCTETS (512u * 1024u) /* where Responses are copied to, again and again */
#define ROUNDS_MOST 100000ul

enum way { SUM_PLAIN, SUM, COPY_PLAIN, COPY, MEMCPY, WAYS };
static const char *const names[WAYS] = { "sum, plain", "sum", "copy, plain", "copy", "memcpy" };
static const size_t sizes[] = { 1u << 20, 8u << 20, 64u << 20 };

static uint8_t copy[COPY_OCTETS];
static volatile uint32_t seen; /* keeps the sums */

static uint32_t one(enum way way, uint8_t *to, const uint8_t *from, size_t behind)
{
    switch (way) {
    case SUM_PLAIN: return plain_far(0, from, PAYLOAD, behind);
    case SUM: return crc32c_far(0, from, PAYLOAD, behind);
    case COPY_PLAIN: return plain_copy(to, from, PAYLOAD, 0);
    case COPY: return crc32c_copy(to, from, PAYLOAD, 0);
    default: memcpy(to, from, PAYLOAD); return to[0];
    }
}

/* Returns ns. */
static uint64_t all(enum way way, const uint8_t *source, size_t octets)
{
    uint64_t began = clock_now();
    size_t to = 0;

    for (size_t at = 0; at + PAYLOAD <= octets; at += PAYLOAD) {
        seen = one(way, copy + to, source + at, octets - at - PAYLOAD);
        to += PAYLOAD;
        to = to + PAYLOAD <= sizeof(copy) ? to : 0;
    }
    return clock_now() - began;
}

static void measure(const uint8_t *source, size_t octets, unsigned long rounds)
{
    uint64_t least[WAYS], ns;

    memset(least, 0xFF, sizeof(least));
    for (unsigned long round = 0; round < rounds; round++)
        for (enum way way = 0; way < WAYS; way++) {
            ns = all(way, source, octets);
            least[way] = ns < least[way] ? ns : least[way];
        }
    for (enum way way = 0; way < WAYS; way++)
        printf("%3zu MiB  %-11s %8.1f us for 1 MiB  %5.2f of memcpy\n", octets >> 20, names[way],
               (double)least[way] / 1e3 / (double)(octets >> 20),
               (double)least[way] / (double)least[MEMCPY]);
}

static unsigned long number_of(const char *text)
{
    char *end;
    unsigned long number;

    errno = 0;
    number = strtoul(text, &end, 10);
    return errno || *end || end == text ? 0 : number;
}

int main(int argc, char **argv)
{
    const size_t most = sizes[sizeof(sizes) / sizeof(*sizes) - 1];
    unsigned long rounds = argc > 1 ? number_of(argv[1]) : 60;
    uint8_t *source;

    if (argc > 2 || !rounds || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: sums [ROUNDS], 1 to %lu\n", ROUNDS_MOST);
        return 2;
    }
    source = malloc(most);
    if (!source) {
        perror("sums");
        return 1;
    }
    for (size_t i = 0; i < most; i++)
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    if (plain_copy(copy, source, PAYLOAD, 0) != crc32c_far(0, source, PAYLOAD, 0)) {
        fprintf(stderr, "sums: the ways do not agree\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        measure(source, sizes[i], rounds);
    free(source);
    return 0;
}
