/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of the tests of the connection manager: an RNIC assembled by hand, a lane with an
 * epoll loop that the test itself runs (or a thread), queue pairs that record their hand-over, an
 * upper layer that records upcalls, and peers that are plain sockets.
 */
#ifndef ITAL_TESTS_KAL_CM_FAKE_H
#define ITAL_TESTS_KAL_CM_FAKE_H

#include "fake_upper.h"
#include "kal/cm/cm.h"
#include "kal/registry/registry.h"
#include "tc.h"

#include <netinet/in.h>

struct fake_qp {
    struct ri_qp base;
    enum ri_status answer;       /* result of the next hand-over */
    enum ri_status close_answer; /* result of the change to CLOSING */
    unsigned hand_overs;
    struct ri_llp_handover last; /* copied; buffers below; it owns `local` and local_fd */
    uint8_t bytes_read[MPA_STARTUP_FRAME_MAX], *last_message;
    int fd; /* owned by the QP after a hand-over; -1: none */
    bool closing, error;
    unsigned events_before; /* upcalls of the connection before the hand-over */
};

/* Context of connections and of requests. */
struct fake_connection {
    struct kal_connection *connection;
    unsigned events;
    struct ri_connection_event last;
    uint8_t private_data[RI_MAX_PRIVATE_DATA];
    bool destroy_in_upcall;
    struct kal_connection *destroy_other; /* destroyed in the next upcall */
};

struct fake_request {
    struct fake_connection *context;
    void *listener; /* listener context */
    struct ri_connect_request request;
    uint8_t private_data[RI_MAX_PRIVATE_DATA];
};

#define FAKE_REQUESTS 64

struct fake {
    struct kal kal;
    struct kal_config config;
    struct kal_provider provider;
    struct kal_rnic rnic;
    struct fake_lane lanes[2], *lane, *lane2;
    pthread_mutex_t lock; /* what upcalls write */
    struct fake_request requests[FAKE_REQUESTS];
    unsigned request_count;
    void (*on_request)(struct fake_request *request); /* inside the upcall */
    struct fake_connection pool[FAKE_REQUESTS];
    /* set A */
    struct ri_connection *a_last;
    unsigned a_calls[8];
    enum ri_status a_answer;
    const struct ri_connect_param *a_param;
    struct ri_service_reply a_reply; /* the last; pointers are stale */
    void *a_listener_context;
    void (*a_on_listen)(void); /* before the provider's listen returns */
    uint32_t a_backlog;
    unsigned a_destroyed;
    /* Memory of both ends: what the provider answers, and what it has counted. Made and taken are
     * in the end dropped or handed over. */
    enum ri_status make_answer, take_answer;
    unsigned made, taken, dropped, handed;
};
extern struct fake fake;

/* Checked fixture. Options are pairs "name", "value", NULL at the end; the others have their
 * defaults. */
void fake_setup(void);
void fake_teardown(void); /* fails when an object, descriptor or watch is left */
void fake_reopen(const char *const *options, uint64_t features); /* a new RNIC with these options */
/* A second RNIC of the same instance, with the options of the first. */
void fake_open_beside(struct kal_rnic *beside, uint64_t features);
void fake_close_beside(struct kal_rnic *beside);
const char *fake_log_text(void);
unsigned fake_log_count(const char *text);
/* Adds a rule; the string must live until the teardown. */
void fake_policy(const char *rule);
/* The host's policy: the text of its file 10.conf, in place of what was pushed before. */
void fake_governing(const char *text);
/* Limits what the process may lease; it leases no more until then. Once in a test. */
void fake_quota(enum kal_account_kind kind, uint64_t limit);

static inline void fake_lane_run(struct fake_lane *lane) /* one pass, does not wait */
{
    fake_lane_pass(lane, 0);
}
/* Runs both lanes until fd (or -1) has the events, something ran, or the deadline passes. */
void fake_pump(int fd, short events, uint64_t deadline);

/* Run the lanes until cond. Fails the test after ms. */
#define fake_until(cond, ms)                                                      \
    do {                                                                          \
        uint64_t fake_end_ = tc_deadline(ms);                                     \
        while (!(cond)) {                                                         \
            ck_assert_msg(!tc_expired(fake_end_), "in time: %s\nlog:\n%s", #cond, \
                          fake_log_text());                                       \
            fake_pump(-1, 0, fake_end_);                                          \
        }                                                                         \
    } while (0)

/* Both hand-overs carry the memory of one call of local_make. */
bool fake_same_memory(const struct fake_qp *one, const struct fake_qp *other);

/* Queue pairs and connections, all freed by the teardown. */
struct fake_qp *fake_qp_new(void);
struct fake_connection *fake_connection_new(void);
struct kal_listener *fake_listen(const char *address, uint16_t port, uint32_t backlog,
                                 void *context, struct sockaddr_storage *bound);
void fake_destroy(struct fake_connection *connection);

/* Peers: plain TCP sockets, used without blocking; the lanes run meanwhile. -1: refused. */
int peer_connect(const struct sockaddr_storage *address);
int peer_listen(int family, struct sockaddr_storage *bound);
int peer_accept(int fd);
void peer_send(int fd, const void *octets, size_t length);
void peer_read(int fd, void *octets, size_t length);
/* Waits for 'F' orderly end, 'R' reset, or 'D' data, and returns it. */
char peer_end(int fd);
bool peer_quiet(int fd); /* neither data nor an end now */

/* Frames, assembled here by hand. S is bit 0x10 of flags; words are the halves of the enhanced
 * word. */
#define F_M 0x80
#define F_C 0x40
#define F_R 0x20
#define F_S 0x10
size_t frame_request(uint8_t *out, uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                     const void *pd, size_t length);
size_t frame_reply(uint8_t *out, uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                   const void *pd, size_t length);

struct sockaddr_storage address_of(const char *text, uint16_t port); /* also "fe80::1%eth0" */
uint16_t port_of(const struct sockaddr_storage *address);

#endif
