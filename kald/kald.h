/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kald(8): what the processes of one host share. One thread, one epoll; nothing waits but epoll.
 * A client is a socket: what it holds ends with it. Files, from the bottom up: say.c, closing.c,
 * rules.c, process.c, send.c, accounts.c, ports.c, those of roce.h, status.c, clients.c, main.c;
 * confine.c stands aside.
 */
#ifndef ITAL_KALD_KALD_H
#define ITAL_KALD_KALD_H

#include <sys/types.h>
#include <uthash.h>

#include "formats/kald_message.h"
#include "formats/policy.h"

/* What epoll's events point to. */
struct kald_source {
    void (*ready)(struct kald_source *source, uint32_t events);
    int fd; /* -1: none */
};

/* A user with clients, or of whom `memlock` is to be remembered. */
struct kald_user {
    uint32_t id;
    unsigned clients;
    bool crowded; /* it was said that the user has the most clients */
    /* The least RLIMIT_MEMLOCK that a process of the user had before kald raised it; UINT64_MAX:
     * none was raised. Children inherit one that was. */
    uint64_t memlock;
    uint64_t total[POLICY_KINDS];
    UT_hash_handle hh;
};

/* A TAKE that waits until others have given back. */
struct kald_take {
    bool waits;
    uint32_t id, flags;
    uint64_t total, least, deadline;
};

/* A message that the client's socket had no room for. */
struct kald_out {
    struct kald_out *next;
    int fd; /* its own; -1: none */
    size_t length;
    uint8_t octets[];
};

struct kald_client {
    struct kald_source socket, process;
    struct kald *kald;
    struct kald_user *user;
    uint64_t id;
    struct ucred who;
    gid_t *groups;
    size_t group_count;
    uint64_t started; /* of the process, in ticks of the system; 0: unknown */
    uint64_t network; /* cookie of its network namespace; 0: unknown */
    bool greeted, observes, roce, ended;
    uint32_t slot; /* of RoCE over UDP; KALD_SLOTS: none */
    struct kald_count counts[POLICY_KINDS];
    uint64_t limits[POLICY_KINDS];
    struct kald_take takes[POLICY_KINDS];
    /* The id of the GIVE that was asked of it; 0: none is open */
    uint32_t recalls[POLICY_KINDS];
    uint64_t generation; /* of the policy that it has applied */
    /* RLIMIT_MEMLOCK was raised by kald; what it was before */
    bool raised;
    uint64_t memlock;
    struct kald_out *out;
    unsigned out_count;
    struct kald_client *prev, *next;
};

/* Places for clients of root beside those of all: whoever takes these keeps root out of nothing. */
#define KALD_ROOT_CLIENTS 16u

struct kald_roce;

/* Sockets that wait for a child which closes them. */
#define KALD_HELD_MOST 16u

struct kald {
    int epoll, spare; /* spare: a descriptor to take a client with that cannot be served; -1 */
    struct kald_source listener, signals, watch;
    const char *path, *folder;
    uint32_t owner; /* of policy files */
    unsigned user_clients, all_clients;
    struct kald_user *users;
    struct kald_client *clients; /* by id, ascending */
    unsigned client_count, ended_count, waiting;
    uint64_t next_id;
    uint32_t next_recall;
    uint64_t network;
    /* The newest policy */
    struct policy policy;
    int policy_fd; /* its text, sealed */
    uint8_t *policy_text;
    uint64_t policy_length, generation;
    bool stop;
    struct kald_roce *roce;
    /* closing.c */
    bool refuses; /* the kernel keeps descriptors away */
    unsigned children, held_count;
    int held[KALD_HELD_MOST];
};

/* ---- say.c ---- */

/* Lines to standard error: priority 3 is an error, 6 information; 4 is about a client, of which
 * there are only so many in a second. */
void kald_say(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on each line has its priority in front, as systemd reads it: <3>. */
void kald_number_lines(void);

/* ---- closing.c: descriptors that clients send unasked ---- */

/* Of the listener, before it listens. False: errno. */
bool kald_closing_prepare(struct kald *kald);
/* The client's next message has a descriptor: it may not be received. */
bool kald_brings_descriptor(const struct kald *kald, int socket);
/* Closes the socket of a client, of which messages may be unread. Never waits for what they
 * bring. */
void kald_close(struct kald *kald, int socket);
/* After SIGCHLD. */
void kald_children_ended(struct kald *kald);

/* ---- rules.c: the policy ---- */

/* Reads the folder. False: it cannot be used, which was said; the earlier policy stays. */
bool kald_rules_read(struct kald *kald);
/* Watches the folder; drains it: true, if something may have changed. */
void kald_rules_watch(struct kald *kald);
bool kald_rules_changed(struct kald *kald);
/* The limit of the client's user; KALD_NO_LIMIT. */
uint64_t kald_rules_limit(const struct kald_client *client, enum policy_kind kind);
/* A rule that names the port, and a user or a group, allows it to this client. v6only: a socket of
 * IPv6 takes no IPv4 peers; otherwise the wildcard has to be allowed for both. */
bool kald_rules_port(const struct kald_client *client, const struct sockaddr *local, bool v6only);

/* No rule forbids this client to listen there. */
bool kald_rules_listen(const struct kald_client *client, const struct sockaddr *local);

/* ---- send.c: messages to a client, its end ---- */

/* Sends or queues it. A client whose queue is full ends. fd: duplicated where it has to wait. */
void kald_send_to(struct kald_client *client, const struct kald_message *message, int fd);
/* Its socket has room again. */
void kald_send_queued(struct kald_client *client);
void kald_discard_queued(struct kald_client *client);
/* It is not served any more, and kald_sweep frees it. why: is said; NULL: it ended by itself. */
void kald_end(struct kald_client *client, const char *why);

/* ---- clients.c: sockets, messages ---- */

void kald_accept(struct kald_source *source, uint32_t events);
/* Frees the clients that have ended, and answers those that waited for them. */
void kald_sweep(struct kald *kald);
/* The policy was read again. `push`: it has changed, which every client is told. */
void kald_use_policy(struct kald *kald, bool push);
bool kald_watch(struct kald *kald, struct kald_source *source, uint32_t events);

/* ---- accounts.c ---- */

/* Of the message; false: it is not to be believed. */
bool kald_account_hello(struct kald_client *client, const struct kald_message *message);
void kald_account_take(struct kald_client *client, const struct kald_message *message);
bool kald_account_give(struct kald_client *client, const struct kald_message *message);
void kald_account_end(struct kald_client *client);
/* Answers the TAKEs of that user that need wait no longer; NULL: of all. */
void kald_account_retry(struct kald *kald, const struct kald_user *user);
/* When kald_account_retry is due: CLOCK_NEVER. */
uint64_t kald_account_deadline(const struct kald *kald);

/* ---- ports.c ---- */

/* Answers LISTEN. *fd: the socket, which the caller closes; -1: none. */
void kald_port(const struct kald_client *client, const struct kald_message *ask,
               struct kald_message *answer, int *fd);

/* ---- roce.c: RoCE over UDP ---- */

/* With so many open addresses at most. False: no memory, or no random octets. */
bool kald_roce_begin(struct kald *kald, unsigned addresses);
/* Of a client that has greeted for it. False: it is not to be believed. */
bool kald_roce_message(struct kald_client *client, const struct kald_message *ask);
void kald_roce_end(struct kald_client *client);

/* ---- process.c: the process behind a client ---- */

/* Who it is, as the kernel knows it. False: it is gone. */
bool kald_process_open(struct kald_client *client);
/* RLIMIT_MEMLOCK becomes what the user's processes have without kald and `octets` more, or stays
 * as it was if that is more. False: refused, or it is gone. */
bool kald_process_memlock(struct kald_client *client, uint64_t octets);

/* ---- status.c ---- */

void kald_stats(const struct kald_client *client, const struct kald_message *ask,
                struct kald_message *answer);
/* Asks the kald at that path, and prints its accounts. The exit status. */
int kald_print_status(const char *path);

/* ---- confine.c ---- */

/* Keeps only the capabilities and system calls that are needed. False: it failed, as was said. */
bool kald_confine(void);

#endif
