/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the connection manager for the folders above, besides the calls in kal.h's
 * section "Connections". It uses the accounts KAL_ACCOUNT_CONNECTION and KAL_ACCOUNT_LISTENER
 * (kal_rnic_take_now, kal_rnic_give), which kal_rnic_close checks.
 */
#ifndef ITAL_KAL_CM_MANAGER_H
#define ITAL_KAL_CM_MANAGER_H

#include "kal/rnic/rnic.h"

#include "base/address.h"

/* At open, after attr is known; sets rnic->cm. */
enum ri_status kal_cm_open(struct kal_rnic *rnic);
/* At close, when ual has no objects left and before the provider is closed. RI_ERR_AGAIN: work of
 * the manager is still under way and `force` is not set. May be repeated. */
enum ri_status kal_cm_close(struct kal_rnic *rnic, bool force);
/* Frees rnic->cm, after the provider was closed (or when a later step of open failed). NULL cm: no
 * effect. */
void kal_cm_free(struct kal_rnic *rnic);
/* In a forked child: closes descriptors that are in no lane's epoll set. Async-signal-safe, frees
 * nothing. */
void kal_cm_fork_child(struct kal_rnic *rnic);
/* What one listener has at this moment, and what it has refused since it began. */
struct kal_listener_seen {
    /* False: another thread is creating or changing it, and the rest is zero */
    bool known, paused;
    /* Its socket was ended by others: paused for good */
    bool ended;
    char address[80];
    /* Start-ups without a complete Request; requests that the program has not decided; requests for
     * which it has no room; and the bounds */
    uint32_t half_open, half_open_max, undecided, queued, backlog;
    /* Start-ups that were no iWARP clients or too slow; dropped because half_open or backlog was
     * reached; requests that the program did not take in time; times without a descriptor */
    uint64_t strangers, crowded, late, no_descriptor;
};

struct kal_connection_seen {
    const char *state; /* a static text for people; "changing": the rest is zero */
    bool initiator, converted, awaits_qp;
    union address local, peer; /* family 0: unknown */
    uint64_t age_ns;           /* since accept(2), while it is set up; 0: unknown */
    /* The QP that got the stream; if several connections have the same, the last hand-over is its,
     * and the others are of earlier QPs. NULL: none, or of the provider */
    const void *carrier;
    uint64_t handover;
    /* From the hand-over on, static texts. wire: what carries the requests, "tcp" or "local"
     * (memory that both ends share); NULL: another stream, or the provider's. local_why: why it is
     * not local although the peer is on this host; NULL: it is, or the peer is not known to be. */
    const char *wire, *local_why;
};

/* Copies at most `room` of them, and return how many there are. The RNIC may not be closed
 * meanwhile. Any thread; do not wait for a lane. */
size_t kal_cm_listeners(struct kal_rnic *rnic, struct kal_listener_seen *seen, size_t room);
size_t kal_cm_connections(struct kal_rnic *rnic, struct kal_connection_seen *seen, size_t room);

/* Every qp_event comes here first. True: it became a connection_event; false: ual gets it. */
bool kal_cm_qp_event(struct kal_rnic *rnic, void *qp_context, const struct ri_event *event);
/* Called by kal_qp_destroy before the provider destroys the QP: detaches it from its connection. */
void kal_cm_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp);
/* The set A upcalls of ri_host, for providers with RI_FEATURE_CONNECTION_SET_A. */
void kal_cm_host_request(const struct ri_host *host, void *listener_context,
                         struct ri_connection *connection, const struct ri_connect_request *request,
                         void **connection_context);
void kal_cm_host_event(const struct ri_host *host, void *connection_context,
                       const struct ri_connection_event *event);

#endif
