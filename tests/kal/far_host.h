/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host on the far end of a socket, which replaces kal/host/local.c: the second implementation of
 * kal/host/host.h. A thread is the daemon; it keeps the accounts of all kinds, and answers by
 * messages only. The client's end sends requests, and a thread of its own reads the answers. Every
 * operation that waits for an answer fails the test if the calling thread is in a lane.
 */
#ifndef ITAL_TESTS_KAL_FAR_HOST_H
#define ITAL_TESTS_KAL_FAR_HOST_H

#include "kal/host/host.h"

#include <pthread.h>

#define FAR_BATCH 4u

extern const struct kal_host_ops far_host;

/* The daemon's side: set before the first kal_get, then read and changed under the lock. */
struct far_daemon {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* The daemon answers nothing while this is true; pending requests are answered afterwards. */
    bool silent;
    uint64_t limit[KAL_ACCOUNT_KINDS], leased[KAL_ACCOUNT_KINDS];
    unsigned questions[KAL_ACCOUNT_KINDS];
    /* An identifier that another process shares, 0 none, and the regions of this one. */
    uint32_t taken_id;
    uint64_t taken_length;
    unsigned shared;
    /* Pushes that the client has received. */
    unsigned seen;
};
extern struct far_daemon far;

/* The calling thread is in a lane: a call that waits fails the test. */
extern _Thread_local bool far_in_lane;

void far_reset(void);
void far_silence(bool silent);
/* Returns when the client has received it. */
void far_push_policy(const char *rule);
void far_recall(enum kal_account_kind kind, uint64_t amount);
/* Waits until that number of a kind is leased. */
void far_await_leased(enum kal_account_kind kind, uint64_t leased);
/* Reports the link state to the process's monitors. */
void far_set_link(const char *netdev, bool running);

#endif
