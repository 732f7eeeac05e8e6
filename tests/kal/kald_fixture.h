/* SPDX-License-Identifier: BSD-3-Clause */
/* A kald of the build tree in a folder of the test, and peers of it that are written by hand. */
#ifndef ITAL_TESTS_KALD_FIXTURE_H
#define ITAL_TESTS_KALD_FIXTURE_H

#include "formats/kald_socket.h"
#include "tc.h"

#define SELF ((uid_t)-1)
/* Users of no name. */
enum { USER = 61001, OTHER = 61002, NOBODY = 61003 };

/* A test case whose tests each have a folder for kald, and whose kald ends with the test. */
TCase *kald_case(Suite *suite, const char *name);
/* Skips a test that acts as other users. */
void kald_needs_root(void);
/* For a test that takes a port below 1024 that it found free: tests of other programs that do so
 * wait until this one has ended. */
void kald_privileged_ports(void);

/* Its folder, which every user may enter, with an empty policy. Once in a test. */
void kald_folder(void);
const char *kald_path(void); /* of its socket */
/* One file of the policy; text NULL: it is removed. */
void kald_policy(const char *name, const char *text);
/* Starts it and waits until it serves. clients: option --clients; NULL: its default. */
void kald_start(const char *clients);
/* Its user is that one; the folder of the socket and its policy become that user's. */
void kald_start_as(uid_t user);
/* What the next kald's kernel does not offer, as an older one. */
enum kald_lacks {
    KALD_LACKS_NOTHING,
    KALD_LACKS_PEERPIDFD,
    KALD_LACKS_PIDFDS,
    KALD_LACKS_NETWORKS,
    KALD_LACKS_REFUSAL
};
void kald_lacks(enum kald_lacks what);
pid_t kald_pid(void);
/* Ends it by SIGTERM, or by SIGKILL, and waits for its end. */
void kald_stop(void);
void kald_kill(void);
/* Descriptors that it has open. */
int kald_fds(void);
/* Lines that it has printed and that contain the text. */
unsigned kald_lines(const char *text);

/* A connected socket of that user; the test's own: SELF. */
int kald_peer(uid_t user);
/* The same, and it has greeted, and has read the policy. */
int kald_greeted(uid_t user, uint64_t endpoints);
void kald_ask(int fd, const struct kald_message *message);
/* Waits for a message; fails the test where none comes. fd may be NULL. */
void kald_expect(int fd, enum kald_type type, bool answer, struct kald_message *message,
                 int *passed);
/* Waits until kald has ended this client. What it was sent before is discarded. */
void kald_expect_end(int fd);
/* TAKE or GIVE of endpoints. The answer's total. */
uint64_t kald_take_up(int fd, uint64_t total, uint64_t least, uint32_t flags,
                      enum kald_status *status);
void kald_release(int fd, uint64_t total);
/* What kald counts for all clients of the test's user, or of all for root. */
uint64_t kald_total(enum policy_kind kind, unsigned *clients);

/* The soft RLIMIT_MEMLOCK of a process; 0: of this one. */
uint64_t kald_soft_limit(pid_t whose);
/* Lowers it to KALD_LOW_LIMIT, for children, too. The soft limit only: not every kald may raise a
 * hard one. Skips the test where that is low itself. */
#define KALD_LOW_LIMIT ((uint64_t)1 << 16)
void kald_lower_limit(void);
/* TAKE of pinned octets, without those of others. */
enum kald_status kald_take_pinned(int fd, uint64_t total, uint32_t flags);

#endif
