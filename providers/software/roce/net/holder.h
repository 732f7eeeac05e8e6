/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has a UDP port of an address: by the kernel's list of UDP sockets, /proc/net/udp and udp6,
 * which everybody may read. Another user who has it is told of before anything is bound, and named
 * where it is in the way. The parsing is a pure function over octets.
 */
#ifndef ITAL_SOFTROCE_HOLDER_H
#define ITAL_SOFTROCE_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/software/roce/codec/gid.h"

struct holder {
    uint8_t gid[GID_LEN]; /* that of IPv4 mapped; an unspecified one: all addresses */
    uint16_t udp_port;
    uint32_t user;
};

/* One line of the list, `len` octets without its end, of any text. False: it describes no socket.
 * *holder is set if true. */
bool holder_get(const char *line, size_t len, bool ipv6, struct holder *holder);
/* Has it all addresses? */
bool holder_is_wildcard(const struct holder *holder);

enum holder_found {
    HOLDER_NOBODY, /* as far as the list says */
    HOLDER_OWN,    /* this user */
    HOLDER_OTHER,  /* another one alone. Of root at all addresses it may be the kernel's rdma_rxe */
};
/* Who in the list has the address. *holder is set on HOLDER_OTHER. */
enum holder_found holder_of(const struct holder *list, uint32_t count, uint32_t user,
                            const uint8_t gid[static GID_LEN], struct holder *holder);

#define HOLDERS_MAX 256u

/* Who has the UDP port, as the kernel lists it; users of an address once each, and no more than
 * fit. May block. Returns how many. */
uint32_t holder_list(uint16_t udp_port, struct holder list[static HOLDERS_MAX]);

#endif
