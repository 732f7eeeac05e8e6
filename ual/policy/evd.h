/* SPDX-License-Identifier: BSD-3-Clause
 * EVDs, as endpoints, listen points and the IA use them. */
#ifndef ITAL_UAL_EVD_H
#define ITAL_UAL_EVD_H

#include "ia.h"

/* What is queued; the event stands behind it. An endpoint's own, for its end, has none: see
 * ual_evd_push_message. That one begins as zeros. */
struct node {
    struct node *prev, *next;
    struct node *same_prev, *same_next; /* of its chain in the index */
    ual_handle source;
    uint16_t end;    /* queued, and an endpoint's own: enum ual_connection_message; else 0 */
    uint16_t reason; /* of that */
};

/* Users (bind/unbind) make ual_evd_free answer busy. */
void ual_evd_bind(struct ual_evd *evd, uint32_t lane); /* lane: the user's, by index */
void ual_evd_unbind(struct ual_evd *evd, uint32_t lane);
const struct feed *ual_evd_feed(const struct ual_evd *evd);
struct ual_cq *ual_evd_cq(const struct ual_evd *evd); /* UAL_STREAM_DTO */
/* Queue a copy of an event of the EVD's stream. UAL_ERR_FULL, NO_RESOURCES (no memory): the event
 * is lost (connection EVDs keep two places in reserve for each bound EP, so their events are not).
 * Wakes a waiter, descriptor. Any thread. */
enum ual_status ual_evd_push(struct ual_evd *evd, const struct ual_event *event);
/* The same of an asynchronous stream: where there is no memory a spare of the EVD is used. */
enum ual_status ual_evd_push_reserved(struct ual_evd *evd, const struct ual_event *event);
/* The same in two steps: what can fail for want of memory (NULL), and what can fail only for want
 * of room (the node is freed). event may be NULL: memory for ual_evd_push_message, or to be freed
 * by ual_evd_drop_node (NULL: nothing). */
struct node *ual_evd_node(const struct ual_evd *evd, const struct ual_event *event);
bool ual_evd_push_node(struct ual_evd *evd, struct node *node);
void ual_evd_drop_node(struct node *node);
/* A message of an endpoint. Memory that was taken in advance is used up, if there is some (*kept,
 * then NULL). Else it is allocated. Where there is none the end of a connection is told by `own`,
 * without addresses and private data. UAL_ERR_NO_RESOURCES: no end, or `own` is still queued.
 * One thread at a time for an endpoint. */
enum ual_status ual_evd_push_message(struct ual_evd *evd, const struct ual_event *event,
                                     struct node **kept, struct node *own);
bool ual_evd_own_is_queued(struct ual_evd *evd, const struct node *own);
/* For observers (notifier.h): the EVD raises at the next Notification Event, or at the next one
 * that fills its threshold. True: the criterion is reached already, and the raise for it may be
 * over. Any thread; no lock held that an observer's raised() takes. */
bool ual_evd_notify_again(struct ual_evd *evd);
/* room(evd) runs, with no lock, in the thread that takes the first event after a push that found
 * none. Not of the DTO stream. */
void ual_evd_tell_of_room(struct ual_evd *evd, void (*room)(struct ual_evd *evd));
/* Drop queued connection messages of an EP, or request events of a listen point. */
void ual_evd_purge(struct ual_evd *evd, ual_handle source);
/* Make every waiter return UAL_ERR_ABORTED, and wait until none is left. */
void ual_evd_abort(struct ual_evd *evd);
/* Of an IA that is being freed: waits end, no callback runs any more (but for one that the caller
 * is in), then all EVDs are freed. Errors of ual_evd_free. */
enum ual_status ual_evd_free_all(struct ual_ia *ia);
/* The IA has just died: whoever waits or sleeps in a descriptor looks once more, and hears of
 * it. */
void ual_evd_all_dead(struct ual_ia *ia);

/* evd_wait.c, request.c: locks that all IAs share, held still over a fork. */
void ual_evd_fork_lock(void);
void ual_evd_fork_unlock(bool child);
void ual_request_fork_lock(void);
void ual_request_fork_unlock(void);

#endif
