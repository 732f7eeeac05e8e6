/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What daemon_link.c (the connection to kald, its thread) and daemon_lease.c (leases and questions)
 * share.
 *
 * Each kind has at most one TAKE open. A GIVE makes it void (formats/kald_message.h), so that both
 * ends know the same total.
 *
 * `lock` is a leaf but for the log's. A lane only tries it. All functions here want it.
 */
#ifndef ITAL_KAL_HOST_DAEMON_PRIVATE_H
#define ITAL_KAL_HOST_DAEMON_PRIVATE_H

#include "daemon.h"

#include <sys/types.h>

#include "base/clock.h"

/* A kald that does not answer for so long counts as gone. */
#define ANSWER_NS (1 * CLOCK_NS_PER_S)
/* kald has no more: until a thread asks again that does not need it. */
#define QUIET_NS (100 * CLOCK_NS_PER_MS)

/* One question that is open: one of each kind, and a LISTEN. */
enum { LISTEN_SLOT = POLICY_KINDS, SLOTS };

struct slot {
    bool open, is_void;
    uint32_t id;
    enum kald_status status;
    int error, fd;
};

struct kal_daemon {
    struct kal_host *host;
    char *path;
    uint64_t quota[POLICY_KINDS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool stop;
    /* HELLO was sent, and was answered */
    bool connected, greeted;
    /* kald has let ANSWER_NS pass, and has answered no HELLO since: nobody waits for it */
    bool hangs;
    /* The lease is no longer what HELLO said, which is not answered yet */
    bool is_stale;
    /* kald has answered HELLO on this connection, stale or not */
    bool answered;
    /* It is root's: only its policy is the host's */
    bool is_roots;
    /* The loss of kald was logged */
    bool missed;
    /* clock_now(); and: it was so for long, which the log says as a warning */
    uint64_t missed_since;
    bool long_missed;
    int fd; /* closed by the thread only */
    ino_t inode;
    uint32_t next_id;
    struct slot slots[SLOTS];
    /* The total that both ends know */
    uint64_t leased[POLICY_KINDS];
    uint64_t quiet[POLICY_KINDS];
    /* Used by the thread, or before it starts */
    bool has_policy; /* one has come, whether it can be used or not */
    uint64_t greet_by;
    uint8_t *text; /* of the last policy that was used */
    size_t text_length;
};

/* The socket is there; the program has not closed its descriptor (daemons close all). */
bool kal_daemon_is_ours(const struct kal_daemon *d);
/* It is worth to wait for kald. */
bool kal_daemon_is_there(const struct kal_daemon *d);
/* kald is gone, or is not to be believed. The thread notices by the end of the socket. */
void kal_daemon_lose(struct kal_daemon *d);
bool kal_daemon_send(struct kal_daemon *d, const struct kald_message *message);
/* Until something has changed, or the deadline. */
void kal_daemon_wait(struct kal_daemon *d, uint64_t deadline);

/* What the process uses of its lease. */
uint64_t kal_daemon_used(const struct kal_daemon *d, int kind);
/* The lease is at least that from here on. */
void kal_daemon_grow(struct kal_daemon *d, int kind, uint64_t total);
/* What is free beyond that is no longer leased. */
void kal_daemon_shrink(struct kal_daemon *d, int kind, uint64_t total);
/* What kald is asked for at once. */
uint64_t kal_daemon_batch(int kind);

#endif
