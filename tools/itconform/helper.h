/* SPDX-License-Identifier: BSD-3-Clause */
/* itconform's side of the control connection to itconform-peer (peer.h has the commands). */
#ifndef ITAL_TOOLS_ITCONFORM_HELPER_H
#define ITAL_TOOLS_ITCONFORM_HELPER_H

#include "itconform.h"

#define HELPER_LINE 4096

struct helper {
    int fd;
    char line[HELPER_LINE]; /* the last answer, then what follows it */
    size_t used, taken;
};

/* NULL: the reason is printed. One per process. */
struct helper *helper_open(const struct addrinfo *peer, uint16_t port);
void helper_close(struct helper *helper);
/* Says a command. What follows "ok" in the answer, "" if nothing does, valid until the next one;
 * NULL: the trial is over, not judged. */
const char *peer_say(struct trial *trial, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct peer_region {
    uint32_t stag, length;
    uint64_t address;
};
/* A region by its name. A connection has to exist. */
struct peer_region peer_region_of(struct trial *trial, char name);

struct peer_completion {
    bool any, received;
    int status;
    uint32_t length;
    uint8_t octets[512];
    size_t octet_count;
};
struct peer_completion peer_completion(struct trial *trial);

/* Octets of hexadecimal digits; "-" is none. Returns how many, at most `room`. */
size_t octets_of(const char *hex, uint8_t *out, size_t room);

#endif
