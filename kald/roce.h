/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kald: RoCE over UDP for the processes of several users on one address.
 *
 * kald binds the sockets of an address, one for each slot and one for QP 1, and keeps them all. A
 * client gets a slot, and of each address that it opens the socket of that slot, no other. On each
 * socket a filter that its holder cannot take away lets through what is for the slot alone. Whoever
 * has got a socket may keep a copy for ever, so a slot stays its user's until no address is open.
 *
 * What comes for QP 1 without a communication ID is read here, and goes to the client that has
 * registered the service, on a socket of its own; what nobody has goes, without private data, to
 * one that can refuse it.
 *
 * Files, from the bottom up: roce_sockets.c, roce_services.c, roce_mads.c, roce.c.
 */
#ifndef ITAL_KALD_ROCE_H
#define ITAL_KALD_ROCE_H

#include "kald.h"

#include "providers/software/roce/net/gsi_mad.h"
#include "providers/software/roce/net/ids.h"

/* Sockets of one address. */
#define ROCE_SOCKETS (KALD_SLOTS + 1u)
/* Open addresses at most; of the files that kald may open each takes ROCE_SOCKETS. */
#define ROCE_ADDRESSES 16u
/* The last so many unused slots are for users that have fewer than so many. */
#define ROCE_SLOTS_KEPT 32u
#define ROCE_SLOTS_SURE 8u
/* Of one user who is not root. */
#define ROCE_USER_SERVICES (KALD_SERVICES / 2u)

#define ROCE_NO_USER UINT32_MAX

struct roce_slot {
    struct kald_client *client; /* NULL: nobody's now */
    uint32_t user;              /* ROCE_NO_USER: it was nobody's since an address is open */
    uint32_t qpn;               /* the last that was used */
    int mads;                   /* of the client's socket for MADs; -1 */
};

struct roce_address {
    struct kald_source gsi; /* the socket of QP 1 */
    struct kald *kald;
    uint8_t gid[GID_LEN];
    uint32_t scope;
    uint32_t maker; /* the user who was the first to open it */
    unsigned holders;
    bool held[KALD_SLOTS]; /* which slots have it */
    int fds[KALD_SLOTS];
    struct ids ids;
    struct roce_address *prev, *next;
};

/* Of the client that has the slot now, and that alone: they end with it. */
struct roce_service {
    bool used, hears;
    uint32_t slot;
    uint64_t id;
    uint8_t gid[GID_LEN]; /* zeros: all addresses of `families` */
    uint32_t scope;
    uint16_t families; /* KALD_IPV4 ... */
};

/* Where a request has gone, for its repetitions and its REJ. */
struct roce_route {
    uint64_t route, client; /* client 0: none */
};
#define ROCE_ROUTES 1024u

struct kald_roce {
    struct roce_slot slots[KALD_SLOTS];
    struct roce_address *addresses;
    unsigned address_count, address_most;
    struct roce_service services[KALD_SERVICES];
    struct roce_route routes[ROCE_ROUTES];
    uint32_t next; /* who refuses what nobody has */
};

/* ---- roce_sockets.c ---- */

/* Binds the sockets of an address, with the programs of steer.h. Returns 0 or an errno value. */
int kald_roce_bind(struct roce_address *address);
void kald_roce_unbind(struct roce_address *address);
/* Undoes what the one who had the slot may have done to the choice of the socket. */
void kald_roce_mend(const struct roce_address *address);
/* The socket is nobody's: what comes is dropped. */
void kald_roce_idle(int fd);

/* ---- roce_services.c ---- */

/* As ask says; *answer has status and place. */
void kald_roce_service(struct kald_roce *roce, const struct kald_client *client,
                       const struct kald_message *ask, struct kald_message *answer);
void kald_roce_services_end(struct kald_roce *roce, uint32_t slot);
/* The slot of who hears the service on this address. False: nobody. */
bool kald_roce_hears(const struct kald_roce *roce, uint64_t id, const uint8_t gid[static GID_LEN],
                     uint32_t scope, uint32_t *slot);

/* ---- roce_mads.c ---- */

void kald_roce_read(struct kald_source *source, uint32_t events);
/* Overwrites the private data of a MAD of 256 octets. */
void kald_roce_strip(uint8_t mad[static 256], uint16_t attribute);

#endif
