/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of the connection manager, and the functions that its files offer, from the bottom
 * up. States, locks and lifetimes: block in connection.c. */
#ifndef ITAL_KAL_CM_H
#define ITAL_KAL_CM_H

#include "kal/host/host.h"
#include "lifetime.h"
#include "kind.h"
#include "manager.h"
#include "mpa_startup.h"
#include "passed.h"
#include "rendezvous.h"
#include "stream.h"

enum cm_state {
    /* Created by ual, not started. */
    CM_IDLE,
    /* Active: TCP connects; the Request is sent, or the Reply is awaited. */
    CM_CONNECTING,
    CM_REQUESTED,
    /* Active: the peer has reset the stream before it answered; the next attempt is due soon. */
    CM_AGAIN,
    /* Conversion, responder: the last streaming message is sent. */
    CM_LAST_WORDS,
    /* Passive, owned by kal: STARTING, the Request is received (also in a conversion); SHOWING, it
     * is complete and its upcall is due; QUEUED, it waits until ual has room. */
    CM_STARTING,
    CM_SHOWING,
    CM_QUEUED,
    /* Passive, owned by ual: reported and undecided. */
    CM_PENDING,
    /* kal_migrate or kal_place is at work. */
    CM_MOVING,
    /* The hand-over is due in the lane: ACCEPTING after kal_accept, CONVERTING without frames. */
    CM_ACCEPTING,
    CM_CONVERTING,
    /* The rejecting Reply is sent, and the stream is due for the linger. */
    CM_REJECTING,
    /* The QP owns the stream. */
    CM_ESTABLISHED,
    /* Failed, rejected, withdrawn. */
    CM_ENDED,
    /* A connection of the provider's own set A. */
    CM_FOREIGN,
};

/* Options of the interface, read once by kal_cm_open. Times in nanoseconds. */
struct cm_options {
    /* 1 or 2: the highest revision */
    uint8_t mpa_revision;
    /* After a closed enhanced Request, retry with revision 1 on a new connection */
    bool mpa_fallback;
    bool crc;
    /* Request markers in what the peer sends */
    bool markers;
    /* MPA_STARTUP_RTR_ bits that the active side offers; 0: client-server */
    uint8_t rtr;
    /* Per listener: the bound of undecided requests; start-ups under way may exceed it */
    uint32_t backlog;
    /* Per listener: the limit of start-ups without a complete Request */
    uint32_t half_open;
    enum cm_v6only { CM_V6ONLY_AUTO, CM_V6ONLY_YES, CM_V6ONLY_NO } v6only;
    uint64_t connect_timeout, request_timeout, close_timeout;
    enum cm_local local;
    /* How long an acceptor waits for the answer of an initiator on its host */
    uint64_t local_wait;
    struct cm_stream_options stream;
};

/* State that a connection needs only until it is established. */
struct cm_startup {
    struct kal_connection *connection;
    /* `soon`: run the state in the lane; see cm_schedule */
    struct ri_timer deadline, soon;
    /* CLOCK_MONOTONIC ns: time of accept(2); end of its time in the queue, 0: never queued */
    uint64_t began, queued_until;
    uint8_t in[MPA_STARTUP_FRAME_MAX], out[MPA_STARTUP_FRAME_MAX];
    size_t out_length, out_sent;
    /* Conversion: the last streaming message; malloc */
    uint8_t *last_words;
    size_t last_length, last_sent;
    /* Conversion without frames: octets of FPDUs that the consumer has read; malloc */
    uint8_t *surplus;
    size_t surplus_length;

    /* Active only: for a second attempt. */
    union address source, destination;
    uint64_t connect_by;
    /* Error that connect returned at once; the run reports it */
    int connect_error;
    bool retried;
    /* Attempts that the peer has reset before it answered */
    uint8_t resets;
    /* three-way, and ACCEPTED was not reported yet */
    bool tells_accept;

    /* Lane of a QP that was attached later; NULL: none */
    void *qp_lane;

    struct cm_rendezvous rendezvous;
};

/* What a run does in each role: active.c, passive.c, convert.c, set_a.c. All: Lane, locked. */
struct cm_role {
    /* For readiness or cm_schedule; depends on the state. */
    void (*run)(struct kal_connection *connection);
    /* The deadline has come. */
    void (*expired)(struct kal_connection *connection);
    /* It connects its stream itself, and may connect a further one. */
    bool dials;
    /* For roles that wait for the peer's Request. It is complete; or it will not be, `why` is a
     * static sentence; or it is, and memory is short. */
    void (*requested)(struct kal_connection *connection);
    void (*give_up)(struct kal_connection *connection, enum ri_connection_reason reason,
                    const char *why);
    void (*no_memory)(struct kal_connection *connection);
};

struct kal_connection {
    struct cm_lifetime lifetime;
    /* That of its first RNIC; it does not change */
    const struct cm_kind *kind;
    enum cm_state state;
    unsigned migrations;
    /* NULL: not started */
    const struct cm_role *role;
    struct kal_rnic *rnic;
    /* lane_context */
    void *lane;
    /* The context given by ual */
    void *context;
    struct cm_stream stream;
    /* Watch of stream.fd in the lane, for these events */
    struct ri_watch *watch;
    uint32_t watched;
    /* Counted in KAL_ACCOUNT_CONNECTION */
    bool counted;
    bool conversion;
    bool initiator;
    /* The provider owns the stream, or the hand-over is under way */
    bool handed;
    /* Under lifetime.lock. awaits_qp: connect or accept had no QP; parked: only that is missing */
    bool awaits_qp, parked;

    /* What this side announces, and the agreed result. */
    struct mpa_startup_local local;
    struct mpa_startup_agreed agreed;
    /* Why requests travel over TCP, a static text; NULL: both ends are on one host and agreed on
     * shared memory. */
    const char *local_why;
    /* NULL from ESTABLISHED on */
    struct cm_startup *startup;

    /* Passive only: a reference to the listener from accept(2) to the decision. Under the
     * listener's lock: */
    struct kal_listener *listener;
    /* In listener->starting or ->queue: owned by kal */
    bool listed;
    /* Listed, and one thread has claimed the right to end it */
    bool claimed;
    /* Listed since accept(2), not migrated here: may be ended when there are too many */
    bool fresh;
    /* In listener->queue */
    bool queued;
    /* Of either side, in runs of the lane: the rendezvous has found the peer on this host. Here,
     * where it takes no room */
    bool same_host;
    struct kal_connection *listed_prev, *listed_next;

    /* Under cm->lock. The provider is executing the hand-over */
    bool qp_busy;
    /* cm->connections */
    struct kal_connection *prev, *next;
    /* Attached during the start-up */
    struct ri_qp *qp;
    struct kal_connection *attached_prev, *attached_next;
    /* The QP that got the stream, only to be compared, and the how manieth hand-over that was */
    const void *carrier;
    uint64_t handover;
};

#define CM_NAME_ROOM 80

struct kal_listener {
    struct cm_lifetime lifetime;
    struct kal_rnic *rnic;
    void *lane;
    void *context;
    int fd;
    /* fd is a duplicate of it, and others may listen on the socket; NULL: fd is the listener's
     * alone */
    struct cm_passed *passed;
    /* No fd: the consumer gives it streams */
    bool fed;
    /* Host order; 0: it takes no IPv4 peers by an address of IPv4 */
    uint16_t ipv4_port;
    struct ri_watch *watch;
    /* Resumes accepting; set with lifetime.lock held */
    struct ri_timer resume;
    /* Expires when ual has room for queued requests */
    struct ri_timer room;
    /* Bound address, for logs; under lifetime.lock until kal_listen has returned */
    char name[CM_NAME_ROOM];
    /* Limits: undecided and queued requests; start-ups with an incomplete Request */
    uint32_t backlog, half_open_max;

    /* Under lifetime.lock. Numbers of connections in `starting`, in `queue`, and reported */
    uint32_t half_open, queued, undecided;
    /* CLOCK_MONOTONIC ns when ual last kept a reported request */
    uint64_t taken_at;
    /* Accepting is paused until `resume` */
    bool paused;
    /* The socket was ended by others: paused for good, and not watched */
    bool ended;
    /* No further connection is accepted: the listener is about to be destroyed */
    bool stopped;
    /* Start-ups in order of arrival, and requests that migrated here */
    struct kal_connection *starting;
    /* Complete requests: the first is reported next */
    struct kal_connection *queue;

    /* Peers turned away, and attempts to accept in vain: no MPA, no room, no descriptor, no room in
     * the program's queue, no memory. Each has a line in the log, whose rate the log limits. */
    atomic_ullong strangers, crowded, no_descriptor, late, no_memory;
    /* What a client that speaks no MPA should be, a static string: kal_listen_advise. NULL: an
     * iWARP client */
    _Atomic(const char *) advice;
    /* cm->listeners, under cm->lock */
    struct kal_listener *prev, *next;
};

struct cm_linger;

struct kal_cm {
    struct cm_options options;
    /* Of its connections and listeners */
    const struct cm_kind *kind;
    /* For new connections and listeners; tests replace it */
    const struct cm_stream_ops *stream_ops;
    /* Leaf: guards lists, spare descriptor, attached QPs */
    pthread_mutex_t lock;
    /* A hand-over has returned from the provider, or a linger has ended */
    pthread_cond_t changed;
    struct kal_connection *connections, *attached;
    uint64_t handovers;
    struct kal_listener *listeners;
    struct cm_linger *lingers;
    unsigned linger_count;
    /* Closed for a moment, when there are no descriptors, to accept and close a connection */
    _Atomic int spare_fd;
};

/* ---- errors.c ---- */
struct cm_error {
    int error;
    enum ri_status status;
    enum ri_connection_reason reason;
    /* What the user can do. listening: where it is another thing for a listener; else NULL */
    const char *advice, *listening;
};
/* error 0 in what is returned: the number is not known. */
struct cm_error cm_error_of(int error);

/* ---- options.c ---- */
void cm_read_options(const struct kal_rnic *rnic, struct cm_options *options);

/* ---- connection.c ----
 * "Lane": inside a run of the connection's lane. "Locked": lifetime.lock is held. */
struct kal_connection *cm_connection_new(struct kal_rnic *rnic, void *lane, void *context);
/* Called after the last reference is dropped. */
void cm_connection_free(struct kal_connection *connection);
/* Ends the start-up of an established connection. Locked. */
void cm_startup_end(struct kal_connection *connection);
/* Takes the account, once. False: quota. */
bool cm_count(struct kal_connection *connection);
void cm_uncount(struct kal_connection *connection);
void cm_attach(struct kal_connection *connection, struct ri_qp *qp);
void cm_detach(struct kal_connection *connection);
/* Locked. */
enum ri_status cm_watch(struct kal_connection *connection, uint32_t events);
void cm_deadline(struct kal_connection *connection, uint64_t deadline);
/* Or the lock of its listener, in whose lane no run of the connection can be active. */
void cm_schedule(struct kal_connection *connection);
/* Runs the state, as readiness does. Lane, not locked. */
void cm_run_now(struct kal_connection *connection);
/* Lane; may be locked. */
void cm_unwatch(struct kal_connection *connection);
void cm_cancel_timers(struct kal_connection *connection);
/* Lane, locked. */
void cm_close_stream(struct kal_connection *connection);
/* Reports the event; releases the lock for the upcall. False: destroyed meanwhile. Lane, locked. */
bool cm_emit(struct kal_connection *connection, struct ri_connection_event *event);
/* A stream whose peer has asked and got no answer is reset when it is closed. Locked, or the
 * connection is dead. */
void cm_reset_unanswered(struct kal_connection *connection);
/* Closes, logs one line (format NULL: none), reports FAILED. Lane, locked. */
void cm_fail(struct kal_connection *connection, enum ri_connection_reason reason,
             const char *format, ...) __attribute__((format(printf, 3, 4)));
void cm_fail_errno(struct kal_connection *connection, const char *doing, int error);
/* The deadline; if it is RI_NO_DEADLINE or 0, now + own. */
uint64_t cm_by(uint64_t deadline, uint64_t own);
uint16_t cm_depth(uint32_t asked, uint32_t limit);
/* Begins the capture; the addresses must be known. */
void cm_capture(struct kal_connection *connection);

/* ---- linger.c ---- */
/* Takes over an unwatched descriptor and its capture. Reads and drops until the peer's end, within
 * bounds, then closes. */
void cm_linger(struct kal_rnic *rnic, void *lane, struct cm_stream *stream);
/* The same for a connection that is not watched and has sent its FIN. */
void cm_to_linger(struct kal_connection *connection);
void cm_linger_end_all(struct kal_rnic *rnic);

/* ---- requests.c. The listener's lock is held, unless stated otherwise ---- */
/* Called after the last reference is dropped. */
void cm_listener_free(struct kal_listener *listener);
/* Copies the name, for a log line. Set A reports requests before the address is known: then it is
 * "(new)". The lock is not held. */
const char *cm_listener_name(struct kal_listener *listener, char name[CM_NAME_ROOM]);
/* Logs that a peer of the listener is reset for lack of memory. The lock is not held. */
void cm_log_memory(struct kal_listener *listener);
/* An entry has left its lists: the listener may accept again, or report a queued request. Any
 * thread. */
void cm_listener_room(struct kal_listener *listener);
/* Takes the right to end a listed connection. False: another thread has it. The lock is not
 * held. */
bool cm_claim(struct kal_connection *connection);
/* The lock is not held. */
void cm_remove(struct kal_listener *listener, struct kal_connection *connection);
void cm_unlist(struct kal_listener *listener, struct kal_connection *connection);
/* The same of one that is reported now: it becomes an undecided one. */
void cm_unlist_shown(struct kal_listener *listener, struct kal_connection *connection);
/* Drops the connection's reference to the listener. The lock is not held. */
void cm_listener_leave(struct kal_connection *connection, bool undecided);
enum cm_place { CM_PLACE_SHOW, CM_PLACE_QUEUE, CM_PLACE_NONE, CM_PLACE_TAKEN };
/* Where a complete request goes. */
enum cm_place cm_place_for(const struct kal_listener *listener,
                           const struct kal_connection *connection);
/* Puts the request behind or before the queued ones. The connection's lock is held, too. */
void cm_enqueue(struct kal_listener *listener, struct kal_connection *connection, bool first);
/* The time of a queued request has expired. True: ual took others meanwhile, so it stays queued.
 * The connection's lock is held, not the listener's. */
bool cm_stay_queued(struct kal_connection *connection);
/* Reports the first queued request, in the lane. */
void cm_show_next(struct kal_listener *listener);
/* ri_timer.expired of kal_listener.room. The lock is not held. */
void cm_room_made(struct ri_timer *timer);
/* A start-up has ended without a request: reports to the feeder of the listener, if it is a fed
 * one. Lane; no lock is held. */
void cm_fed_in_vain(struct kal_listener *listener);

/* ---- destroy.c ---- */
/* The work of kal_connection_destroy. */
void cm_connection_end(struct kal_connection *connection);

/* ---- set_a.c ---- */
/* Ends connections that are to be ended in a run which has not come yet. */
void cm_end_orphans(struct kal_cm *cm);

/* ---- handover.c. Lane, locked ---- */
/* Hands the stream over, as agreed in connection->agreed. The caller fills the other members. */
enum ri_status cm_hand_over(struct kal_connection *connection, struct ri_llp_handover *handover);
/* cm_fail, of a connection that cm_hand_over refused with this status. */
void cm_fail_hand_over(struct kal_connection *connection, enum ri_status status);
/* cm_fail, of a connection that would stay on TCP with option local = only. */
void cm_fail_not_local(struct kal_connection *connection);
/* True: the stream may be handed over in this run. False: another run follows when a QP is
 * attached, or in the lane of that QP. Lane, locked. */
bool cm_has_qp(struct kal_connection *connection);
/* kal_attach. Not locked. */
enum ri_status cm_attach_later(struct kal_connection *connection, struct ri_qp *qp,
                               void *lane_context);
/* Reports ESTABLISHED, if kal is the one to report it. */
void cm_established(struct kal_connection *connection, const void *private_data, uint16_t length);

/* ---- active.c ---- */
enum ri_status cm_active_connect(struct kal_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param);
/* Encodes the Request from connection->local. */
enum ri_status cm_active_request(struct kal_connection *connection, const void *private_data,
                                 size_t length);
/* As cm_role.run. */
void cm_active_run(struct kal_connection *connection);
void cm_active_expired(struct kal_connection *connection);

/* ---- passive.c ---- */
extern const struct cm_role cm_passive_role;
void cm_passive_run(struct kal_connection *connection);
void cm_passive_expired(struct kal_connection *connection);
/* STARTING: checks whether the octets read so far are a complete or an invalid Request. */
void cm_passive_check(struct kal_connection *connection);
enum ri_status cm_passive_accept(struct kal_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param);
enum ri_status cm_passive_reject(struct kal_connection *connection, const void *private_data,
                                 uint16_t private_data_length);
/* As cm_kind.describe, cm_kind.withdrawn and cm_kind.refuse. */
void cm_passive_describe(struct kal_connection *connection, struct ri_connect_request *request);
const char *cm_passive_withdrawn(const struct kal_connection *connection);
void cm_passive_refuse(struct kal_connection *connection);
/* Set A: the peer has disconnected. Lane, locked. */
void cm_passive_gone(struct kal_connection *connection);
/* Encodes the Reply and sets what is agreed. Locked. */
enum ri_status cm_passive_reply(struct kal_connection *connection,
                                const struct ri_connect_param *param);

/* ---- accept.c ---- */
/* ri_ready_fn of a listener; ri_timer.expired of its `resume`. */
void cm_accept_ready(void *arg, uint32_t events);
void cm_accept_resumed(struct ri_timer *timer);
void cm_open_spare(struct kal_cm *cm);
/* Begins the start-up of a connection with a stream. False: it is to be closed: the caller
 * destroys it, which resets it unless the policy denies it. The lock is not held. */
bool cm_start_up(struct kal_listener *listener, struct kal_connection *connection);

/* ---- migrate.c: as cm_kind.migrate, cm_kind.await and cm_kind.place ---- */
enum ri_status cm_change_rnic(struct kal_connection *connection, struct kal_rnic *rnic);
void cm_watch_undecided(struct kal_connection *connection);
enum ri_status cm_place_start_up(struct kal_connection *connection, struct kal_rnic *rnic,
                                 void *lane_context);

/* ---- listener.c: as cm_kind.listen and cm_kind.unlisten ---- */
enum ri_status cm_listener_open(struct kal_listener *listener, const struct ri_listen_param *param,
                                struct sockaddr_storage *bound);
void cm_listener_close(struct kal_listener *listener);

#endif
