/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notifier: how the arrival of events on an EVD becomes known: a waiting thread, a descriptor, an
 * observer.
 *
 * WHAT RAISES. Not every event: an EVD raises when it has as many Notification Events as its
 * threshold says (evd_is_reached). Of completions only those notify that are marked, solicited or
 * in error; all other events do.
 *
 * THE DESCRIPTOR is an epoll set that holds an eventfd. A dequeue that finds nothing lowers it and
 * arms the CQ. From then on it is readable when the notifier is raised. It stays readable until the
 * next such dequeue, or until a dequeue that ran the lane itself took the last event.
 *
 * LISTENING. By itself, traffic reaches the descriptor through the background thread, which runs
 * the lane and raises the eventfd: two wake-ups. Where that happens the set listens: it also holds
 * the epoll set of the first lane that feeds the EVD. The traffic then wakes the consumer, and its
 * dequeue runs the lane. The descriptor may now be readable although no Notification Event follows
 * (other completions, traffic for another EVD, or for memory only). After such a wake-up the set
 * stops listening. It starts again after twice as many events as before came through the background
 * thread. Only a few sets of a lane listen at a time (lane.c). Listening only adds speed: the
 * background thread keeps its deadline (lane.c) in any case.
 *
 * THE OBSERVER is an aggregate EVD or a callback; most EVDs have none. It is called at each raise,
 * so possibly several times for events that it has not taken yet. An EVD that is a CQ raises once.
 * It raises again after ual_evd_notify_again (evd.h), which says whether the criterion has been
 * reached meanwhile. So an observer takes until nothing is left, calls it, and takes again if it
 * says so. An EVD that raised before the observer was attached does not raise for it: attach, call
 * ual_evd_notify_again, and act as if raised if it says so.
 */
#ifndef ITAL_UAL_NOTIFIER_H
#define ITAL_UAL_NOTIFIER_H

#include "ual/progress/lanes.h"
#include "ual/progress/waiters.h"

#include "base/spinlock.h"

/* Embed it. */
struct notifier_observer {
    /* Under notifier.observer_lock, in any thread, often inside an upcall: it must not block, call
     * this notifier or free anything. It may take leaf locks, wake threads, write an eventfd and
     * raise another EVD's notifier (an aggregate's, which has a notifier and observer of its own).
     */
    void (*raised)(struct notifier_observer *observer);
};

struct notifier {
    const struct feed *feed;
    struct ual_lane *heard; /* the lane whose set it holds while it listens; under listen_lock */
    struct waiters waiters;
    int fd;       /* the consumer's set, -1 none */
    int event_fd; /* in it */
    atomic_bool fd_raised;
    atomic_ulong taker;          /* the thread that takes what its own run brings, 0 none */
    struct spinlock listen_lock; /* dequeues try it; for what follows */
    atomic_bool listening;
    atomic_uint raises;  /* how often it was raised; for threads that poll */
    atomic_bool muted;   /* it does not raise */
    atomic_bool taken;   /* a Notification Event, since a dequeue found nothing; approximate */
    atomic_uint handed;  /* times that another thread's run raised the eventfd since it stopped */
    unsigned int needed; /* so many of them start listening */
    unsigned int useful; /* wake-ups that brought an event since it listens */
    struct spinlock observer_lock;
    _Atomic(struct notifier_observer *) observer; /* written under observer_lock; NULL mostly */
};

enum ri_status notifier_open(struct notifier *notifier, const struct feed *feed, bool with_fd);
void notifier_close(struct notifier *notifier);
/* ITAL_ERR_EXISTS: there is one already. */
enum ri_status notifier_observe(struct notifier *notifier, struct notifier_observer *observer);
/* The observer is not called any more, nor in a call, when this returns. Not from raised(). */
void notifier_unobserve(struct notifier *notifier);
static inline bool notifier_is_observed(struct notifier *notifier)
{
    return atomic_load_explicit(&notifier->observer, memory_order_relaxed) != NULL;
}
/* The criterion is reached: raises the descriptor, wakes one waiter that was not woken yet, calls
 * the observer. Any thread. */
void notifier_raise(struct notifier *notifier);
/* Nothing will come any more: raises the descriptor, wakes all waiters, calls the observer. Any
 * thread. */
void notifier_raise_for_all(struct notifier *notifier);
/* Between begin and end the calling thread's own run does not raise the descriptor: the thread
 * takes the events itself and raises for those that are left. False: another thread does so. */
bool notifier_begin_taking(struct notifier *notifier);
void notifier_end_taking(struct notifier *notifier);
/* took: the consumer got a Notification Event. found_nothing: it found none. in_vain: the set
 * listens, and the consumer got none since it found nothing: other traffic woke it, and a run that
 * polls epoll is due. */
static inline void notifier_took(struct notifier *notifier)
{
    atomic_store_explicit(&notifier->taken, true, memory_order_relaxed);
}
void notifier_found_nothing(struct notifier *notifier);
static inline bool notifier_listens(const struct notifier *notifier)
{
    return atomic_load_explicit(&notifier->listening, memory_order_relaxed);
}
static inline bool notifier_in_vain(const struct notifier *notifier)
{
    return notifier_listens(notifier) &&
           !atomic_load_explicit(&notifier->taken, memory_order_relaxed);
}
/* Raises the descriptor only: events are left although it was lowered. */
void notifier_raise_fd(struct notifier *notifier);
/* muted: from now on only notifier_raise_for_all raises, and the descriptor is lowered. Not muted:
 * it raises again; the caller checks for events that are queued already. */
void notifier_mute(struct notifier *notifier, bool muted);
static inline bool notifier_is_muted(const struct notifier *notifier)
{
    return atomic_load_explicit(&notifier->muted, memory_order_relaxed);
}
/* The consumer found nothing: lowers the descriptor. The caller checks once more afterwards. */
void notifier_lower(struct notifier *notifier);

#endif
