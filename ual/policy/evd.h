/* SPDX-License-Identifier: BSD-3-Clause
 * EVDs, as endpoints, listen points and the IA use them. */
#ifndef ITAL_UAL_EVD_H
#define ITAL_UAL_EVD_H

#include "ia.h"

/* A queued event: in memory the event follows the node. An endpoint's own node, for the end of its
 * connection, has none: see ual_evd_push_message. It begins as zeros. */
struct node {
    struct node *prev, *next;
    struct node *same_prev, *same_next; /* of its chain in the index */
    ual_handle source;
    uint16_t end;    /* of an endpoint's own node in a queue: enum ual_connection_message; else 0 */
    uint16_t reason; /* of that end */
};

/* ual_evd_free answers busy between bind and unbind. lane: the user's, by index. */
void ual_evd_bind(struct ual_evd *evd, uint32_t lane);
void ual_evd_unbind(struct ual_evd *evd, uint32_t lane);
const struct feed *ual_evd_feed(const struct ual_evd *evd);
struct ual_cq *ual_evd_cq(const struct ual_evd *evd); /* UAL_STREAM_DTO */
/* Queue a copy of an event of the EVD's stream. RI_ERR_QUEUE_FULL, NO_RESOURCES (no memory): the
 * event is lost (connection EVDs keep two places in reserve for each bound EP, so their events are
 * not). Wakes a waiter, raises the descriptor. Any thread. */
enum ri_status ual_evd_push(struct ual_evd *evd, const struct ual_event *event);
/* The same for an asynchronous stream: where there is no memory it uses a spare of the EVD. */
enum ri_status ual_evd_push_reserved(struct ual_evd *evd, const struct ual_event *event);
/* ual_evd_push in two steps. ual_evd_node allocates (NULL: no memory); event may be NULL, then the
 * node is memory for ual_evd_push_message. ual_evd_push_node fails only where there is no room, and
 * frees the node then. ual_evd_drop_node frees one that is not pushed; NULL: nothing. */
struct node *ual_evd_node(const struct ual_evd *evd, const struct ual_event *event);
bool ual_evd_push_node(struct ual_evd *evd, struct node *node);
void ual_evd_drop_node(struct node *node);
/* Queue a message of an endpoint. It uses *kept, memory taken in advance, which is NULL afterwards;
 * else it allocates. Without memory it queues `own` for the end of a connection, without addresses
 * and private data. RI_ERR_NO_RESOURCES: the message is no end, or `own` is still queued. One
 * thread at a time for an endpoint. */
enum ri_status ual_evd_push_message(struct ual_evd *evd, const struct ual_event *event,
                                    struct node **kept, struct node *own);
bool ual_evd_own_is_queued(struct ual_evd *evd, const struct node *own);
/* For observers (notifier.h): from now on the EVD raises when its criterion is reached, one
 * Notification Event or the threshold. True: it is reached already, and no raise may follow. Any
 * thread; no lock held that an observer's raised() takes. */
bool ual_evd_notify_again(struct ual_evd *evd);
/* Calls room(evd), with no lock held, in the thread that takes the first event after a push that
 * found no room. Not of the DTO stream. */
void ual_evd_report_room(struct ual_evd *evd, void (*room)(struct ual_evd *evd));
/* Drop queued connection messages of an EP, or request events of a listen point. */
void ual_evd_purge(struct ual_evd *evd, ual_handle source);
/* Make every waiter return ITAL_ERR_ABORTED, and wait until none is left. */
void ual_evd_abort(struct ual_evd *evd);
/* For an IA that is being freed. Ends waits and callbacks, except one that the caller is in, then
 * frees all EVDs. Errors of ual_evd_free. */
enum ri_status ual_evd_free_all(struct ual_ia *ia);
/* The device has failed: wakes all waiters and raises all descriptors, so that consumers learn of
 * it. */
void ual_evd_all_dead(struct ual_ia *ia);

/* evd_wait.c, request.c: locks that all IAs share, held still over a fork. */
void ual_evd_fork_lock(void);
void ual_evd_fork_unlock(bool child);
void ual_request_fork_lock(void);
void ual_request_fork_unlock(void);

#endif
