/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages between kald(8) and its clients, as octets: one datagram of a Unix socket each, with
 * at most one descriptor. Pure. Numbers are big-endian; octets of no meaning are 0.
 *
 *   header, 16 octets: magic 4, version 1, type 1, flags 1 (1: an answer), status 1, id 4, length 4
 *   HELLO    ask: role 4, 0 4, total 8 and used 8 of each kind   answer: generation 8, limit 8 of
 *            each kind
 *   TAKE     ask: kind 4, flags 4, total 8, least 8, used 8      answer: kind 4, 0 4, total 8,
 *            limit 8
 *   GIVE     both: kind 4, 0 4, total 8, used 8
 *   STATS    ask: cursor 8       answer: cursor 8, count 4, clients 4, generation 8, and of each
 *            client id 8, process 4, user 4, generation 8, total, used and limit 8 of each kind
 *   POLICY   ask: generation 8, length 8, a descriptor           answer: generation 8, 0 8
 *   LISTEN   ask: flags 4, family 2 (4, 6), port 2, scope 4, 0 4, address 16
 *            answer: error 4, 0 4, a descriptor if status is OK
 *   SLOT     ask: 0 8             answer: slot 4, slots 4, QPN 4, 0 4, a descriptor if status is OK
 *   ADDRESS  ask: GID 16, scope 4, 0 4             answer: error 4, 0 4, a descriptor likewise
 *   NUMBERS  ask: QPN 4, 0 4      no answer
 *   SERVICE  ask: deed 4, place 4, service 8, GID 16, scope 4, families 2, space 2
 *            answer: place 4, 0 4, service 8
 *
 * Counts are absolute: the total of a kind that the client holds, used or not. So a message that
 * comes twice changes nothing. Both ends take the total of the client's last message: a GIVE makes
 * every TAKE before it void, whose answer is then ignored.
 */
#ifndef ITAL_FORMATS_KALD_MESSAGE_H
#define ITAL_FORMATS_KALD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/policy.h"

#define KALD_SOCKET      "/run/ital/kald.sock"
#define KALD_VERSION     1
#define KALD_MESSAGE_MAX 4096u
#define KALD_HEADER      16u
/* Octets of a policy; kald pushes no longer one, and a client believes none. */
#define KALD_POLICY_MAX (16u << 20)
#define KALD_NO_LIMIT   UINT64_MAX

enum kald_type {
    /* The client's first, once: what it holds already */
    KALD_HELLO = 1,
    /* Of the client: more is wanted; the answer has what it holds now */
    KALD_TAKE,
    /* Of kald: give back what is free, down to that total. Of the client: it holds this now */
    KALD_GIVE,
    KALD_STATS,
    /* Of kald: a new policy */
    KALD_POLICY,
    KALD_LISTEN,
    /* RoCE over UDP, of clients that have greeted with KALD_ROCE: a slot, and a socket on which
     * MADs come; the slot's socket of an address; QPNs are used up to this one; services */
    KALD_SLOT,
    KALD_ADDRESS,
    KALD_NUMBERS,
    KALD_SERVICE,
    KALD_TYPES
};

enum kald_status {
    KALD_OK,
    /* The limit of the user is reached */
    KALD_LIMIT,
    /* No rule of the policy allows it */
    KALD_DENIED,
    /* The system refused: `error` has its number */
    KALD_FAILED,
    KALD_STATUSES
};

/* Roles, of which a client has one at most, and then holds nothing and gets no policy. An observer
 * only reads STATS; the other one only uses RoCE over UDP. */
enum { KALD_OBSERVER = 1, KALD_ROCE = 2 };
/* Slots of an address, and QPNs that a client may use before it sends NUMBERS, counted in steps of
 * the slots. */
#define KALD_SLOTS         128u
#define KALD_NUMBERS_AHEAD 256u
/* Services of all clients. */
#define KALD_SERVICES 1024u
/* Deeds of SERVICE: take it; take a free port of the space; hear its requests; give it back. */
enum kald_deed { KALD_BIND, KALD_BIND_ANY, KALD_HEAR, KALD_UNBIND, KALD_DEEDS };
/* Families: all addresses of IPv4, of IPv6, where the GID is 0; others may have it too. */
enum { KALD_IPV4 = 1, KALD_IPV6 = 2, KALD_REUSE = 16 };
/* Flags of TAKE: raise RLIMIT_MEMLOCK, too; ask no other client to give back. */
enum { KALD_RAISE = 1, KALD_ALONE = 2 };
/* Flags of LISTEN: an IPv6 socket takes no IPv4 peers; SO_REUSEPORT. */
enum { KALD_V6ONLY = 1, KALD_SHARE_PORT = 2 };

struct kald_count {
    uint64_t total, used;
};

struct kald_entry {
    uint64_t id;
    uint32_t process, user;
    uint64_t generation; /* of the policy that it has */
    struct kald_count counts[POLICY_KINDS];
    uint64_t limits[POLICY_KINDS];
};
#define KALD_ENTRIES 42u /* in one answer */

struct kald_message {
    enum kald_type type;
    bool answer;
    enum kald_status status; /* of an answer */
    uint32_t id;
    /* HELLO, TAKE, LISTEN; 0 elsewhere */
    uint32_t flags;
    /* HELLO, its answer, answer of STATS, POLICY */
    uint64_t generation;
    struct kald_count counts[POLICY_KINDS]; /* HELLO */
    uint64_t limits[POLICY_KINDS];          /* answer of HELLO */
    /* TAKE, GIVE */
    enum policy_kind kind;
    uint64_t total, least, used, limit;
    /* STATS: entries with a higher id are wanted; in the answer: where to go on, 0: that was all */
    uint64_t cursor;
    uint32_t count, clients;
    struct kald_entry entries[KALD_ENTRIES];
    uint64_t length; /* POLICY: octets of the text */
    /* LISTEN */
    uint16_t family, port; /* 4 or 6 */
    uint32_t scope, error; /* ADDRESS, SERVICE, too, as `address` (a GID) */
    uint8_t address[16];
    /* SLOT, NUMBERS */
    uint32_t slot, slots, qpn;
    /* SERVICE */
    enum kald_deed deed;
    uint32_t place;
    uint64_t service;
    uint16_t families, space;
};

/* Writes the message; the result is its length. The members must be in range. */
size_t kald_encode(const struct kald_message *message, uint8_t octets[KALD_MESSAGE_MAX]);
/* Reads one datagram. from_kald: the client reads. False: it is no message of the other side, and
 * *message is undefined. */
bool kald_decode(const uint8_t *octets, size_t length, bool from_kald,
                 struct kald_message *message);

/* ---- the text of a policy: files one after the other, each with its name ---- */

/* Octets that a file needs; 0: it does not fit. Writes them unless room is NULL. */
size_t kald_policy_file(uint8_t *room, size_t left, const char *name, const char *text,
                        size_t length);
/* The next file at *at, which moves behind it. False: there are no more, or *wrong. The name ends
 * with a NUL; name and text point into the octets. */
bool kald_policy_next(const uint8_t *octets, size_t length, size_t *at, const char **name,
                      const char **text, size_t *text_length, bool *wrong);

#endif
