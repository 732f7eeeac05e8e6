/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who serves a connection, for its whole life and that of its listener: kal, over a stream of its
 * own (set_b.c), or the provider's connection manager (set_a.c). An RNIC has one kind, chosen when
 * it is opened. What the kinds do differently stands in this table; the other files call it and do
 * not ask which kind it is.
 */
#ifndef ITAL_KAL_CM_KIND_H
#define ITAL_KAL_CM_KIND_H

#include "kal/rnic/rnic.h"

struct cm_kind {
    /* Of its objects, which begin with a struct kal_connection or a struct kal_listener */
    size_t connection_size, listener_size;
    /* A socket of the program may become its connection: kal_convert, kal_listen_fed. */
    bool takes_sockets;
    /* Its listeners pause at their bounds. If not, a request beyond the backlog is refused. */
    bool pauses;
    /* May a connection go to this address, or a listener be on it? Asked before the policy. */
    enum ri_status (*check)(const struct sockaddr *address, bool datagram);

    /* The calls of kal.h, after the checks that are the same for both. Not locked. */
    enum ri_status (*create)(struct kal_connection *connection);
    enum ri_status (*connect)(struct kal_connection *connection, struct ri_qp *qp,
                              const struct ri_connect_param *param);
    enum ri_status (*attach)(struct kal_connection *connection, struct ri_qp *qp,
                             void *lane_context);
    enum ri_status (*accept)(struct kal_connection *connection, struct ri_qp *qp,
                             const struct ri_connect_param *param);
    enum ri_status (*confirm)(struct kal_connection *connection,
                              const struct ri_connect_param *param);
    enum ri_status (*reject)(struct kal_connection *connection, const void *private_data,
                             uint16_t private_data_length);
    enum ri_status (*disconnect)(struct kal_connection *connection, struct ri_qp *qp,
                                 const void *private_data, uint16_t private_data_length);
    enum ri_status (*service_request)(struct kal_connection *connection,
                                      const struct ri_connect_param *param);
    enum ri_status (*service_reply)(struct kal_connection *connection,
                                    const struct ri_service_reply *reply);

    /* A complete request that is not decided. Lane, locked. */
    /* Sets the private data and what depends on the kind. */
    void (*describe)(struct kal_connection *connection, struct ri_connect_request *request);
    /* NULL: the peer waits for its answer. Otherwise a static sentence: why it does not. */
    const char *(*withdrawn)(const struct kal_connection *connection);
    /* Ends a start-up or request that was not reported, after cm_claim. The caller holds its
     * listener, and its run the connection. The lock may be released meanwhile. */
    void (*refuse)(struct kal_connection *connection);

    /* The parts of kal_migrate. MOVING, locked: to the manager and the accounts of this RNIC, which
     * may be its own. */
    enum ri_status (*migrate)(struct kal_connection *connection, struct kal_rnic *rnic);
    /* Undecided again, in its lane: from now on `withdrawn` changes cause a run. Locked. */
    void (*await)(struct kal_connection *connection);
    /* kal_place, of one instance. Not locked. */
    enum ri_status (*place)(struct kal_connection *connection, struct kal_rnic *rnic,
                            void *lane_context);

    /* kal_connection_destroy: ends the connection by cm_connection_end, now or, where it may not,
     * in the next run. Not locked. */
    void (*destroy)(struct kal_connection *connection);
    /* Its part of cm_connection_end: the stream and its QP, or the provider's object. Its lifetime
     * is dead, no other thread is inside, the timers are off; not locked. */
    void (*end)(struct kal_connection *connection);

    /* Begins to listen for a new listener; sets its name. Not locked; requests may be reported
     * before it returns. */
    enum ri_status (*listen)(struct kal_listener *listener, const struct ri_listen_param *param,
                             struct sockaddr_storage *bound);
    /* Ends that, also after a `listen` that failed or was not called. The listener is dead, and no
     * other thread is inside. */
    void (*unlisten)(struct kal_listener *listener);
};

extern const struct cm_kind cm_set_a, cm_set_b;

#endif
