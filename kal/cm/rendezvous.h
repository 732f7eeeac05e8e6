/* SPDX-License-Identifier: BSD-3-Clause */
/* The rendezvous of two ends that are on one host: states and ownership are in rendezvous.c. */
#ifndef ITAL_KAL_CM_RENDEZVOUS_H
#define ITAL_KAL_CM_RENDEZVOUS_H

#include "rnicpi.h"

#include <stdbool.h>

struct kal_connection;

/* Option local. */
enum cm_local { CM_LOCAL_NO, CM_LOCAL_AUTO, CM_LOCAL_ONLY };

enum cm_rendezvous_state {
    /* Not begun. */
    CM_RENDEZVOUS_NONE,
    /* Initiator: it listens; it awaits OFFER; it has sent TAKEN, and COMMIT may come. */
    CM_RENDEZVOUS_LISTENING,
    CM_RENDEZVOUS_CONNECTED,
    CM_RENDEZVOUS_TAKING,
    /* Acceptor: OFFER is sent, the answer is awaited. */
    CM_RENDEZVOUS_OFFERED,
    /* COMMIT was sent or received. */
    CM_RENDEZVOUS_AGREED,
    /* The connection stays on TCP, for connection->local_why. */
    CM_RENDEZVOUS_TCP,
};

/* A member of the connection's start-up. */
struct cm_rendezvous {
    enum cm_rendezvous_state state;
    /* The outcome was logged, which it is of a peer that is on this host */
    bool logged;
    /* Owned from LISTENING to AGREED */
    int fd;
    /* Of fd; NULL: it is not watched */
    struct ri_watch *watch;
    /* Acceptor: the bound of its wait for the answer */
    struct ri_timer limit;
    /* Handler of `watch`, which connection.c sets, as it does limit.expired */
    ri_ready_fn ready;
    /* Owned from TAKING or OFFERED to AGREED; NULL: none */
    struct ri_local *local;
};

enum cm_rendezvous_result {
    /* Not decided yet. */
    CM_RENDEZVOUS_WAITS,
    CM_RENDEZVOUS_DECIDED,
    /* The connection would stay on TCP, and option local is only: the caller fails it. */
    CM_RENDEZVOUS_REFUSED,
};

/* All but the last two: Lane, locked. */

/* Initiator: TCP is connected and the Request is not sent. WAITS: the peer may come. */
enum cm_rendezvous_result cm_rendezvous_listen(struct kal_connection *connection);
/* Initiator: the accepting Reply has come. Never WAITS; may be repeated. */
enum cm_rendezvous_result cm_rendezvous_conclude(struct kal_connection *connection);
/* Acceptor: the hand-over is due. WAITS: the connection runs again when it is decided. */
enum cm_rendezvous_result cm_rendezvous_meet(struct kal_connection *connection);
/* The socket is ready; the limit is over. True: the acceptor's wait has ended. */
bool cm_rendezvous_run(struct kal_connection *connection);
bool cm_rendezvous_expired(struct kal_connection *connection);
/* Moves what was agreed to the hand-over; on any other outcome the hand-over is one of TCP. */
void cm_rendezvous_give(struct kal_connection *connection, struct ri_llp_handover *handover);

/* Why requests travel over TCP although the peer is on this host, a static text. NULL: they do not,
 * or it is not known to be. Any thread, locked. */
const char *cm_rendezvous_why(const struct kal_connection *connection);

/* Releases everything, back to NONE. Lane, locked; or the connection is dead. */
void cm_rendezvous_end(struct kal_connection *connection);
/* Releases what a provider did not take. */
void cm_rendezvous_release(struct kal_connection *connection,
                           const struct ri_llp_handover *handover);

#endif
