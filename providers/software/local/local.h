/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire local: both ends of the connection are processes of one host, and exchange requests
 * through memory that they share (segment.h). The way `ring`: a request is published with its
 * octets, and the peer executes it. The ways `mapped`, `vm` and `self`: this end executes its own
 * Writes and Reads in the peer's memory, where nothing stands against it (direct.c), and copies the
 * octets of the peer's long Sends from there (reference.c).
 *
 * WHO DOES WHAT. Inside tx a QP publishes what is posted (publish.c). In a pass of its lane, under
 * rx, it executes what the peer has published (execute.c), and completes its own requests by what
 * the peer says of them (answers.c): how many are executed, and the octets that its Reads and
 * atomics have fetched. A request completes when it is executed, with the outcome.
 *
 * WHO LOOKS. A QP that had something to do lately is `hot`: each pass looks at its memory (lane.c).
 * For the others, and for all before the lane sleeps, `asleep` is set in the shared page: the peer
 * that publishes something then wakes it by the Unix socket, which the host watches (bell.c). Who
 * publishes and who falls asleep each store, fence, then look, so one of them sees the other.
 *
 * THE END. `ended` in the shared page says how; what was published before it is executed, unless it
 * is a reset. Then both sockets are left. A peer that is gone without a word (its process has
 * ended) is seen by the end of its TCP socket, of the Unix socket, or of its process: in order, if
 * it had executed all, as over TCP. With option local_close_tcp at both ends there is no TCP socket
 * behind the hand-over.
 *
 * LOCKS, beside the core's: rx of the QP. Memory of this side is used in passes, under rx, and
 * inside tx. leave() waits for tx; passes are waited for by the core.
 */
#ifndef ITAL_SOFTWARE_LOCAL_H
#define ITAL_SOFTWARE_LOCAL_H

#include "providers/software/core/core.h"

#include "mapped.h"
#include "ring.h"
#include "segment.h"

/* What people see (seen.c), over all connections of the QP. One writer each, under rx
 * (`directly`: inside tx; `wakes_received`: in a run of the lane), but of `wakes_sent`. */
struct local_counters {
    /* Own requests that the peer has executed; requests of the peer that this side has executed;
     * own requests that this side has executed in the peer's memory. */
    atomic_ullong by_peer, by_peer_octets, for_peer, for_peer_octets, directly, directly_octets;
    atomic_ullong mapped; /* of `directly` */
    atomic_ullong wakes_sent, wakes_received;
};

struct local_rules;

struct local_qp {
    struct qp *core;
    /* NULL: iWARP's rules; else InfiniBand's, by these (infiniband.c). */
    const struct local_rules *rules;
    /* Under it: members below that say so. In a pass; or the QP is not connected. */
    struct spinlock rx;
    /* From hand-over to reset. Written inside tx, under rx and `keeping`. NULL: not connected by
     * this wire. */
    struct ri_local *memory;
    /* Held for the moment in which the memory is given a user; or under rx. */
    struct spinlock keeping;
    struct local_page *own, *peer;

    /* --- output: inside tx --- */
    struct ring_put put;
    bool uses; /* local_page.used */
    /* Octets of the message at sq.next that are published. */
    uint64_t published;
    bool begun;
    /* Sends before sq.next are published by reference (publish.c): so many that were not executed
     * when tx looked last; the peer wants the octets of the only one. */
    atomic_bool refers; /* read in passes */
    uint32_t referred;
    bool gives_octets;
    /* Reads and atomics: published; completed (under rx). */
    atomic_uint fetching, fetched;
    struct own_requests requests;
    struct stag_hint payload_hint;
    /* The TCP socket that made the connection, whose end is its end. -1: closed. */
    int tcp;
    bool keeps_tcp;
    struct ri_watch *tcp_watch;
    /* What wakes the peer; its socket. NULL: the connection has ended here. */
    struct local_bell *bell;
    int bell_fd;
    bool calls;    /* by numbers: others share it */
    uint32_t call; /* the own one */
    struct ri_timer close_timer;
    /* Requests published. Read under rx. */
    atomic_uint given;
    /* Own accesses to the peer's memory (direct.c). A way was sought; NULL, and why: none leads
     * there. */
    bool sought;
    struct local_reach reach;
    /* Static text: the way of the last request that was executed here. NULL: ring. Any thread reads
     * it. */
    _Atomic(const char *) way;
    /* The same in short: the last own Write or Read took a system call. Any thread reads it. */
    atomic_bool by_kernel;
    uint32_t claims;
    uint64_t looked_at; /* time, in ns */
    /* Of the request at sq.next: octets that are placed; it is left to the peer. */
    uint64_t placed_directly;
    bool refused_directly;

    /* --- short requests that wait for others: under sq.posting (gather.c) --- */
    uint32_t gathered; /* since the QP was put on the lane's list */
    uint32_t left_at;  /* lane_polls() when one left at once */

    /* --- what the peer has said of them: under rx --- */
    uint32_t executed;      /* of `given` */
    uint32_t heard_of_page; /* the same, as its page has told */
    /* The same, as it has told by its page or by a request (RING_TELLS). Read inside tx, too. */
    atomic_uint heard;
    /* Index of the request that is completed next, which may be one that sends nothing. */
    uint32_t answered;
    uint64_t answer_at;     /* place in the peer's answers */
    uint64_t answer_placed; /* octets of the Read at `answered` that are placed */
    struct stag_hint sink_hint;

    /* --- its requests: under rx --- */
    struct ring_take take;
    bool looks; /* the peer uses its ring (local_page.used) */
    /* The message under way. */
    struct ring_header message;
    bool open;    /* it has begun */
    bool waiting; /* `record` was looked at, and stays in the ring */
    struct ring_header record;
    bool has_receive;  /* at rq.next, of this message */
    uint64_t placed;   /* octets of it that are placed, or fetched */
    uint64_t fetch_at; /* place in the own answers */
    /* Requests executed; how many of them the peer was told of last. Written under rx, `told` also
     * inside tx. */
    atomic_uint done, told;
    struct stag_hint remote_hint, receive_hint;
    bool no_references;          /* those that come are passed over */
    struct local_source *source; /* of RING_REFERENCE (reference.c). NULL: none has come */
    /* A message waits for a receive. Read without rx by hints. */
    atomic_bool waits;
    struct ri_timer patience;
    atomic_bool patience_over;
    bool end_waits; /* the peer's orderly end: behind what waits */
    /* InfiniBand's rules (infiniband.c). No request of the peer is executed any more. */
    bool deaf;
    /* Why the peer's request was refused. Written before the end, read inside tx behind it. */
    struct refused {
        bool is_set;
        uint32_t number;
        uint16_t code;
        uint16_t status; /* enum ri_wc_status */
    } refused;

    /* --- InfiniBand's rules (infiniband.c): inside tx --- */
    /* No request begins; all that were begun are executed, which was recorded. */
    atomic_bool suspended; /* read in passes, too */
    bool drained;
    /* The time for the peer that is gone runs. */
    bool leaves;

    /* --- any thread --- */
    /* The same: the peer is gone (written under rx); it has published nothing yet. */
    atomic_bool gone, unheard;
    /* What sockets and the peer's process have told. */
    atomic_uint witnessed;
    /* The peer's start is to be told as established. */
    atomic_bool awaits_start;
    /* The time for the peer's end has passed, or that for receives behind it. */
    atomic_bool close_over;

    /* --- memory of rings that rest (idle.c) --- */
    /* Set under rx, in RTS; one at a time, which `resting` tells: under rx. */
    struct ri_timer rest_timer;
    bool resting;
    atomic_bool rest_over;
    /* Octets by the last time that was over; times that the peer was not cool. In a visit. */
    uint64_t moved;
    uint32_t awaited;

    /* --- under lane->lock --- */
    bool hot;
    bool hidden; /* it does not become hot */

    /* --- of the pass --- */
    uint32_t idle;          /* passes that found nothing */
    uint64_t consumed_seen; /* of the own requests, by the peer */

    struct local_counters counters;
};

enum { WITNESSED_FIN = 1, WITNESSED_RESET = 2 };

/* Its part of a lane. */
struct local_lane {
    /* Under lane->lock. */
    struct local_qp **hot;
    uint32_t count, room;
    /* `hot` has changed. Written under the lock. */
    atomic_uint version;
    /* Of the pass: a copy, and the version that it is of; all of it is marked asleep. */
    struct local_qp **served;
    uint32_t served_count, served_version;
    atomic_bool all_asleep;
};

static inline struct local_qp *local_qp(const struct qp *qp)
{
    return atomic_load_explicit(&qp->local_part, memory_order_relaxed);
}
static inline struct local_lane *local_lane(const struct lane *lane)
{
    return lane->parts[WIRE_LOCAL];
}
static inline void local_assert_rx(const struct local_qp *qp)
{
    spinlock_assert_held(&qp->rx);
}

extern const struct wire local_wire;

/* --- socket.c --- */

/* The process that was connected lives, and the same program is in it. */
bool local_sees_peer(const struct local_qp *qp);
/* Something was stored for the peer: if it does not look, it is woken. */
void local_wake_peer(struct local_qp *qp);
/* The next octets of those that woke this side. False: the peer has closed the socket. */
bool local_hear(int fd, void *room, size_t size, size_t *octets);
/* The last message of the start-up leaves, by TCP. False: it did not. */
bool local_say_last(struct local_qp *qp, const void *octets, size_t length);
/* The FIN. Inside tx, like the next one. */
void local_finish_tcp(struct local_qp *qp);
/* Also if it is closed. */
void local_close_tcp(struct local_qp *qp);
void local_close_socket(int fd);
/* So many short messages fit into the Unix socket, whatever the peer does. */
bool local_has_room(int fd, uint32_t messages);

/* --- lane.c --- */

enum ri_status local_lane_open(struct lane *lane);
void local_lane_close(struct lane *lane);
uint32_t local_serve(struct lane *lane, struct cq *first, uint32_t budget);
bool local_is_idle(const struct lane *lane);
/* Something may have come for the QP: passes look at it. In a run of the lane. */
void local_heat(struct local_qp *qp);
/* Behind a single look: if there is more, passes look at it. In a run of the lane. */
void local_stay_awake(struct local_qp *qp);
/* No pass that begins finds it. */
void local_cool(struct local_qp *qp);
/* As if passes had found nothing for long. False: one would find something. Under rx, in a run. */
bool local_cool_down(struct local_qp *qp);
/* One look at the QP: messages taken, or completions. In a pass; no lock held. `answers_soon`: see
 * local_execute(). */
uint32_t local_look(struct local_qp *qp, uint32_t budget, bool answers_soon);

/* The rings are in use: their memory goes back when they have rested; once more. In RTS, under
 * rx. */
void local_begin_rest(struct local_qp *qp);
void local_set_rest(struct local_qp *qp);

/* --- publish.c --- */

/* The request at `index` is a short Send, and nothing is before it: it is published. False: nothing
 * has changed, and local_publish() finds out why. Inside tx. */
bool local_publish_single(struct qp *base, const struct wqe *wqe, uint32_t index);
/* wire.send. Inside tx. */
void local_publish(struct qp *base);
/* Long Sends that the peer has copied and executed leave their slots. Inside tx. */
void local_end_executed_references(struct local_qp *qp);
/* The message that has begun alone. False: it goes on later, or the QP has ended. Inside tx. */
bool local_publish_begun(struct local_qp *qp);
/* The request fails by an error of this side: the connection ends. Returns false. */
bool local_fail(struct local_qp *qp, struct wqe *wqe, enum ri_wc_status status);

/* --- gather.c --- */

/* wire.post_send. */
enum ri_status local_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad);
/* Requests that waited do so no more: tx runs next. No lock held. */
void local_leave_together(struct local_qp *qp);

/* --- direct.c: inside tx, but the last one --- */

enum local_direct {
    LOCAL_DIRECT_DONE,
    LOCAL_DIRECT_PIECE, /* of a long one: once more */
    LOCAL_DIRECT_NOT,   /* it is to be published */
};
/* May the request at sq.next be executed here? A hint: local_execute_directly() finds out. */
bool local_may_execute(struct local_qp *qp, const struct wqe *wqe);
/* It is not marked as finished. */
enum local_direct local_execute_directly(struct local_qp *qp, struct wqe *wqe);
/* Short Writes from sq.next on, by one system call: as local_execute_directly(). Returns how many
 * are executed; 0: fewer than two can be. */
uint32_t local_execute_together(struct local_qp *qp);
void local_forget_target(struct local_qp *qp);
/* What the peer may do by itself in this end's memory, by the QP's attributes; nothing more. The
 * second one: any thread that keeps the memory. */
void local_open_gate(struct local_qp *qp);
void local_close_gate(struct local_qp *qp);
/* Can the peer know what it may do? */
bool local_shows_memory(const struct local_qp *qp);
/* The shared memory stays mapped until local_drop(). NULL: there is none. Any thread. */
struct ri_local *local_keep(struct local_qp *qp);
/* What the peer does by itself in this end's memory, and began before the gate was closed or its
 * STag revoked, is done, or never will be. Any thread; one rx held at most. */
void local_await_peer(struct local_qp *qp);

/* --- idle.c --- */

/* The rest is over: if nothing has moved meanwhile, memory goes back. In a visit of the lane. True:
 * there is nothing to look for, and a look would take a page. */
bool local_end_rest(struct local_qp *qp);

/* --- reference.c --- */

/* Nothing is copied from the peer any more. Under rx; what it returns (NULL: nothing) is freed by
 * local_free_source(), without it. */
struct local_source *local_take_source(struct local_qp *qp);
void local_free_source(struct local_qp *qp, struct local_source *source);

/* --- execute.c: under rx, in a pass --- */

/* What the peer has published, up to so many messages. Returns how many were executed.
 * `answers_soon`: the consumer that takes these messages is about to look at them. The peer is told
 * that they are executed by what the consumer posts then, or by the next look. */
uint32_t local_execute(struct local_qp *qp, uint32_t budget, bool answers_soon);
static inline uint32_t local_heard(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->heard, memory_order_acquire);
}
/* What the peer was not told yet. */
void local_tell_progress(struct local_qp *qp);
static inline bool local_owes_progress(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->done, memory_order_relaxed) !=
           atomic_load_explicit(&qp->told, memory_order_relaxed);
}
/* A record of the peer is there. A look at a ring that was never used would take a page. */
static inline bool local_has_record(const struct local_qp *qp)
{
    return (likely(qp->looks) || atomic_load_explicit(&qp->peer->used, memory_order_acquire)) &&
           ring_has(&qp->take);
}
/* Would it find something to do? Without rx, a hint. */
bool local_has_request(const struct local_qp *qp);

/* --- answers.c: under rx, in a pass --- */

/* Completes own requests. Returns how many. */
uint32_t local_take_answers(struct local_qp *qp);
/* Own requests that are published, and not complete. */
static inline uint32_t local_unexecuted(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->given, memory_order_acquire) - qp->executed;
}
/* How many of them the peer's page says to be executed. */
static inline uint32_t local_page_tells(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->peer->executed, memory_order_acquire);
}
/* Would it find something new? A cheap look. */
static inline bool local_has_answer(const struct local_qp *qp)
{
    return local_unexecuted(qp) &&
           (local_page_tells(qp) != qp->heard_of_page ||
            atomic_load_explicit(&qp->peer->answered, memory_order_acquire) != qp->answer_at);
}
/* The own request that the peer was to execute next: the oldest that it has not. NULL: there is
 * none. */
struct wqe *local_oldest(struct local_qp *qp);
/* `answered` is at the oldest request that is not complete. */
void local_skip_done(struct local_qp *qp);

/* --- seen.c: any thread --- */

/* wire.way, wire.counter. */
const char *local_way(const struct qp *base);
bool local_counter(const struct qp *base, uint32_t number, const char **name, uint64_t *value);

/* --- retries.c: InfiniBand's rules --- */

/* How long the sender of the peer tries again, in ns. 0: it does not; CLOCK_NEVER: without end. */
uint64_t local_sender_patience(const struct local_qp *qp);
/* The retries of this side, for the peer. Inside tx. */
void local_tell_retries(const struct local_qp *qp);
/* Of a NAK that gives a request this status: the code of a refusal. */
uint16_t local_syndrome(enum ri_wc_status status);

/* --- end.c --- */

/* `close_timer` expires then. */
void local_set_close_timer(struct local_qp *qp, uint64_t ns);
/* wire.stop: the QP has left RTS. Inside tx. */
void local_stop(struct qp *base);
/* wire.rest, behind it. */
void local_rest(struct qp *base);
/* What the peer has said of the end is acted on. Under rx, in a pass. */
void local_note_end(struct local_qp *qp);
bool local_has_end(const struct local_qp *qp);
/* Sockets and memory are given back. Inside tx. */
void local_close(struct local_qp *qp);

#endif
