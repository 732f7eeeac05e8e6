/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic over one connection, checked against a model.
 *
 * Two sides, each with posters (threads that post requests) and consumers (threads that take
 * completions). A poster owns its cookies and its part of the peer's window, so its
 * expectations do not depend on the order in which threads run:
 * - each request completes once and in order; only suppressed successes have no completion; after
 *   the first one that fails, other than a Read, none succeeds;
 * - Sends arrive once, in order and whole, and after the Writes posted before them;
 * - a Read returns what the poster's own Writes left there;
 * - no octet outside the window changes, and those inside it have only values that were written.
 *
 * A side may take its Receives from a shared receive queue. Receives that no message took
 * stay there when the connection ends, and the next connection uses them.
 */
#ifndef ITAL_TESTS_PROPERTY_TRAFFIC_H
#define ITAL_TESTS_PROPERTY_TRAFFIC_H

#include "workers.h"

#include "tests/itapi/fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define POSTERS   2u   /* of each side */
#define SLOTS     8u   /* of a poster, in the peer's window */
#define SLOT      600u /* octets */
#define STAMP     16u  /* octets after a poster's slots: the number of its last Write */
#define AREA      (SLOTS * SLOT + STAMP)
#define WINDOW    (POSTERS * AREA)
#define GUARD     3000u /* octets around the window that the peer must not write */
#define RING      256u  /* requests of a poster that may be outstanding */
#define MESSAGE   256u  /* octets: the longest Send */
#define RECEIVES  64u
#define TILES     256u /* sources of Writes: tile v holds SLOT times v */
#define NO_COOKIE UINT64_MAX

/* The header of a Send. */
struct message {
    uint32_t poster;
    uint32_t length; /* with the header */
    uint64_t number; /* of the poster's Sends */
    uint64_t stamp;  /* stamp of the last Write before it to its area */
};

enum request_kind { WRITE_SLOT, WRITE_STAMP, READ_SLOT, SEND_MESSAGE, LINK_WINDOW, KINDS };

/* A posted request. The poster writes it before it posts; the consumer sets `ended`. */
struct request {
    enum request_kind kind;
    bool told;              /* has a completion on success, too */
    _Atomic uint32_t ended; /* 1 + status; 0 outstanding, SILENT: success without a completion */
    unsigned slot;
    uint32_t offset, length;
    uint64_t writes; /* earlier Writes to that slot */
    unsigned char shadow;
};
#define SILENT UINT32_MAX

struct side;
struct poster {
    struct side *side;
    unsigned index;
    struct tc_rng rng;
    struct worker *worker; /* NULL: it does not run */
    struct request ring[RING];
    _Atomic uint64_t posted, completed; /* requests; the ring holds those between */
    bool failed;                        /* of the consumer: a request other than a Read failed */
    uint64_t looked_at;                 /* Reads before this one were compared */
    /* The peer's area: the possible values of each octet of a slot; exactly one when nothing is
     * outstanding. */
    unsigned char content[SLOTS][SLOT];
    bool possible[SLOTS][256];
    uint64_t writes[SLOTS];
    uint64_t stamp, sends;
    /* Local memory: sinks of Reads, sources of stamps and messages, by index in the ring. */
    struct buffer local;
    it_rmr_handle_t rmr;
    bool linked;
    /* Messages of this poster that the other side received. */
    _Atomic uint64_t received;
};

enum way { BY_WAIT, BY_POLLING, BY_NUMBER, BY_DESCRIPTOR, BY_AEVD, BY_NOTIFICATION, BY_CALLBACK };
#define CONSUMER_WAYS 7u

struct consumer {
    struct side *side;
    it_evd_handle_t evd;
    it_evd_handle_t aevd; /* that the EVD is a member of; NULL none */
    it_ep_handle_t ep;    /* the side's; another thread may free it */
    int fd;               /* -1 none */
    enum way way;
    pthread_mutex_t lock; /* serialises the callback and the consumer's thread */
    struct worker *worker;
};

struct side {
    struct traffic *traffic;
    struct side *peer;
    struct node node;
    struct buffer window; /* registered: WINDOW octets */
    unsigned char *mapping;
    size_t mapping_length;
    struct buffer tiles, receives;
    struct poster posters[POSTERS];
    struct consumer consumers[2];
    unsigned consumer_count;
    it_srq_handle_t srq; /* NULL: the endpoint has its own Receives */
    _Atomic uint64_t receives_posted, receives_done;
    _Atomic int64_t credits; /* Receives here that the peer may use */
    /* Of the consumer: a request other than a Read failed, a Receive failed: no later one
     * succeeds. */
    bool failed_send, failed_receive;
    _Atomic bool stop; /* its posters stop posting */
    _Atomic bool gone; /* the endpoint or its adapter is freed: nothing counts any more */
};

/* How a connection ends. */
enum ending {
    END_IN_ORDER,   /* all requests done, then a disconnect */
    END_DISCONNECT, /* in the middle */
    END_FREE_EP,    /* one side's, in the middle */
    END_FREE_IA,    /* the same */
    END_BEYOND,     /* a Write beyond the window */
    END_WRONG_STAG, /* a Read with an invalid context */
    END_NO_RECEIVE, /* a Send without a Receive */
    END_LONG_SEND,  /* a Send longer than the Receive */
    ENDINGS
};

struct traffic {
    const char *interface;
    uint64_t seed;
    struct tc_rng rng;
    struct side sides[2]; /* 0 connects */
    enum ending ending;
    unsigned culprit;   /* the side that ends it; its poster 0 if a request does */
    uint64_t requests;  /* of a poster, at most */
    _Atomic bool stop;  /* posters stop posting */
    _Atomic bool leave; /* consumers */
    _Atomic uint64_t calls, events, misused;
};

/* One history: nodes, connections with traffic, their ends. A deviation from the model fails the
 * test. */
void traffic_history(const char *interface, uint64_t seed, struct traffic *traffic);

/* traffic_post.c */
void *poster_run(void *poster);
void poster_begin(struct poster *poster, struct side *side, unsigned index);
void poster_end(struct poster *poster);
bool poster_is_settled(struct poster *poster);
void poster_compare_reads(struct poster *poster);
void poster_compare_area(struct poster *poster, bool whole);

/* traffic_consume.c */
void *consumer_run(void *consumer);
void side_post_receive(struct side *side);
/* Takes what is queued on the EVD of the Receives, while no consumer runs. */
void side_take_receives(struct side *side);

/* misuse.c: one illegal call; its status must be the standard's. Any thread. */
void misuse(struct traffic *traffic, struct tc_rng *rng);

#endif
