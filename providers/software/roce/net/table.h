/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that all processes of a user share: slots, services, routes of requests. Any of them
 * may write anything there at any time, so what is read is checked, and masked, each time.
 *
 * The file has one fixed size for each layout. A process of another release, which maps a table of
 * another size, magic or version, says so and does not use it. Record locks of the file: octet n
 * is the life of who has slot n; octet TABLE_SLOTS is held while services change.
 */
#ifndef ITAL_SOFTROCE_TABLE_H
#define ITAL_SOFTROCE_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#define TABLE_MAGIC    "ital roce slots"
#define TABLE_VERSION  3u
#define TABLE_SLOTS    128u
#define TABLE_SERVICES 1024u
#define TABLE_ROUTES   1024u

/* A cache line each. */
struct table_slot {
    _Atomic uint32_t last;       /* QPN; 0: none yet */
    _Atomic uint32_t pid;        /* of the process that has claimed it last and not given it back */
    _Atomic uint32_t generation; /* claims so far */
    _Atomic uint32_t queued;     /* MADs in the mailbox, about */
    _Atomic uint64_t mailbox[2]; /* its name (mailbox.h); zeros: none */
    uint32_t reserved[8];
};

/* A cache line each. */
struct table_service {
    /* TABLE_OWNED | generation of the slot << 8 | slot; 0: free. Written last */
    _Atomic uint64_t owner;
    _Atomic uint64_t id;
    _Atomic uint64_t gid[2];
    _Atomic uint32_t scope;
    _Atomic uint32_t flags;
    uint64_t reserved[3];
};
#define TABLE_OWNED (UINT64_C(1) << 63)

struct table {
    char magic[16];
    uint32_t count, udp_port, version;
    uint32_t reserved[9];
    struct table_slot slot[TABLE_SLOTS];
    struct table_service service[TABLE_SERVICES];
    _Atomic uint64_t route[TABLE_ROUTES]; /* services.c */
};

_Static_assert(sizeof(struct table_slot) == 64 && sizeof(struct table_service) == 64,
               "cache lines");
_Static_assert(sizeof(struct table) == 64 + 64 * (TABLE_SLOTS + TABLE_SERVICES) + 8 * TABLE_ROUTES,
               "one layout of all compilers");

#endif
