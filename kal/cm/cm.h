/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of the connection manager, and what its files offer to those above them; listed
 * from the bottom up. States, locks and life times: block in connection.c. */
#ifndef ITAL_KAL_CM_H
#define ITAL_KAL_CM_H

#include "kal/host/host.h"
#include "guard.h"
#include "manager.h"
#include "mpa_startup.h"
#include "stream.h"

enum cm_state {
    /* Created by ual, nothing started. */
    CM_IDLE,
    /* Active: TCP connect under way; the Request leaves, or the Reply is awaited. */
    CM_CONNECTING,
    CM_REQUESTED,
    /* Conversion, responder: the last streaming message leaves. */
    CM_LAST_WORDS,
    /* Passive, and kal's own: the Request comes in (also in a conversion); it is complete and its
     * upcall is due; it waits until ual has room. */
    CM_STARTING,
    CM_SHOWING,
    CM_QUEUED,
    /* Passive: shown and undecided; ual's. */
    CM_PENDING,
    /* kal_migrate or kal_place is at work. */
    CM_MOVING,
    /* The hand-over is due in the lane: after kal_accept; of a conversion without frames. */
    CM_ACCEPTING,
    CM_CONVERTING,
    /* The rejecting Reply has left, the stream is due for the linger. */
    CM_REJECTING,
    /* The stream is the QP's. */
    CM_ESTABLISHED,
    /* Failed, rejected, withdrawn. */
    CM_ENDED,
    /* A connection of the provider's own set A. */
    CM_FOREIGN,
};

/* Options of the interface that the manager reads, once, at kal_cm_open. Times in nanoseconds. */
struct cm_options {
    /* 1 or 2: the highest that is spoken */
    uint8_t mpa_revision;
    /* Revision 1 on a new connection after a closed enhanced Request */
    bool mpa_fallback;
    bool crc;
    /* Asked for in what the peer sends */
    bool markers;
    /* MPA_STARTUP_RTR_ bits that the active side offers; 0: client-server */
    uint8_t rtr;
    /* Per listener: at least so many undecided requests */
    uint32_t backlog;
    /* Per listener: at most so many start-ups without a complete Request */
    uint32_t half_open;
    enum cm_v6only { CM_V6ONLY_AUTO, CM_V6ONLY_YES, CM_V6ONLY_NO } v6only;
    uint64_t connect_timeout, request_timeout, close_timeout;
    struct cm_stream_options stream;
};

/* Lines of one kind about what peers do: one a second at most, the others are counted. */
struct cm_meter {
    /* CLOCK_MONOTONIC ns; no line before */
    uint64_t next;
    /* Lines that were suppressed since the last one */
    uint64_t suppressed;
};

/* What a connection needs until it is established, and an established one has not. */
struct cm_startup {
    struct kal_connection *connection;
    /* `soon`: run the state in the lane; see cm_schedule */
    struct ri_timer deadline, soon;
    /* CLOCK_MONOTONIC ns: when it was accepted; until when it may be queued, 0: it never was */
    uint64_t began, queued_until;
    uint8_t in[MPA_STARTUP_FRAME_MAX], out[MPA_STARTUP_FRAME_MAX];
    size_t out_length, out_sent;
    /* Conversion: the last streaming message; malloc */
    uint8_t *last_words;
    size_t last_length, last_sent;
    /* Conversion without frames: what the consumer has read of the peer's FPDUs; malloc */
    uint8_t *surplus;
    size_t surplus_length;

    /* Active only: for a second attempt. */
    union address source, destination;
    uint64_t connect_by;
    /* The stream knew at once; the run reports it */
    int connect_error;
    bool retried;

    /* Lane of a QP that was attached later; NULL: no such */
    void *qp_lane;
};

/* What a run does depends on the role: active.c, passive.c, convert.c, set_a.c. All: Lane,
 * locked. */
struct cm_role {
    /* By the state: readiness, or cm_schedule. */
    void (*run)(struct kal_connection *connection);
    /* The deadline has come. */
    void (*expired)(struct kal_connection *connection);
    /* Of those that await it: the peer's Request is there. */
    void (*requested)(struct kal_connection *connection);
};

struct kal_connection {
    struct cm_guard guard;
    enum cm_state state;
    /* NULL: nothing has begun */
    const struct cm_role *role;
    unsigned migrations;
    struct kal_rnic *rnic;
    /* lane_context */
    void *lane;
    /* ual's */
    void *context;
    struct cm_stream stream;
    /* Of stream.fd in the lane, for these events */
    struct ri_watch *watch;
    uint32_t watched;
    /* KAL_ACCOUNT_CONNECTION is taken */
    bool counted;
    bool conversion;
    bool initiator;
    /* The stream is the provider's, or is being offered to it */
    bool handed;
    /* Under guard.lock: connect or accept were given no QP; all that is missing is the QP */
    bool awaits_qp, parked;

    /* What we say, and what came out of it. */
    struct mpa_startup_local local;
    struct mpa_startup_agreed agreed;
    /* NULL from ESTABLISHED on */
    struct cm_startup *startup;

    /* Passive only: a reference to the listener from accept(2) to the decision. Under the
     * listener's lock: */
    struct kal_listener *listener;
    /* In listener->starting or ->queue: kal's own */
    bool listed;
    /* Listed, and one thread is ending it */
    bool claimed;
    /* Listed since accept(2), not moved here: gives way when there are too many */
    bool fresh;
    /* In listener->queue */
    bool queued;
    struct kal_connection *listed_prev, *listed_next;

    /* CM_FOREIGN. Passive: the port where it came in; is it a service request? */
    struct ri_connection *ri;
    uint32_t port;
    bool datagram;

    /* Under cm->lock. Set A, refused inside the provider's upcall: the next run destroys it */
    bool orphan;
    /* The hand-over is inside the provider */
    bool qp_busy;
    /* cm->connections */
    struct kal_connection *prev, *next;
    /* Attached for the time of the start-up */
    struct ri_qp *qp;
    struct kal_connection *attached_prev, *attached_next;
};

struct kal_listener {
    struct cm_guard guard;
    struct kal_rnic *rnic;
    void *lane;
    void *context;
    int fd;
    struct ri_watch *watch;
    /* When to accept again; set with guard.lock held */
    struct ri_timer resume;
    /* ual has room for queued requests */
    struct ri_timer room;
    /* Bound address, for logs */
    char name[80];
    /* Limits: undecided requests with those queued; start-ups whose Request is incomplete */
    uint32_t backlog, half_open_max;

    /* Under guard.lock. Connections in `starting`, in `queue`, and shown */
    uint32_t half_open, queued, undecided;
    /* CLOCK_MONOTONIC ns, when ual last kept one that it was shown */
    uint64_t taken_at;
    /* Accepts no more until `resume` */
    bool paused;
    /* Start-ups, in the order of their arrival, and requests that moved here */
    struct kal_connection *starting;
    /* Complete requests: the first is shown next */
    struct kal_connection *queue;

    /* In runs of the lane only. */
    struct cm_meter bad, full, descriptors, late;
    /* Set A */
    struct ri_listener *ri;
    /* cm->listeners, under cm->lock */
    struct kal_listener *prev, *next;
};

struct cm_linger;

struct kal_cm {
    struct cm_options options;
    /* Of new connections and listeners; tests put another one here */
    const struct cm_stream_ops *stream_ops;
    /* Leaf of the manager: lists, spare descriptor, attached QPs */
    pthread_mutex_t lock;
    /* A hand-over has left the provider, or a linger has ended */
    pthread_cond_t changed;
    struct kal_connection *connections, *attached;
    struct kal_listener *listeners;
    struct cm_linger *lingers;
    unsigned linger_count;
    /* Given up for a moment to accept and close where descriptors ran out */
    _Atomic int spare_fd;
};

/* ---- options.c ---- */
void cm_read_options(const struct kal_rnic *rnic, struct cm_options *options);

/* ---- meter.c ---- */
/* May this line be logged? more: "(n more ...)" or "". */
bool cm_meter(struct cm_meter *meter, char *more, size_t size);

/* ---- connection.c ----
 * "Lane": inside a run of the connection's lane. "Locked": guard.lock is held. */
struct kal_connection *cm_connection_new(struct kal_rnic *rnic, void *lane, void *context);
/* After the last reference. */
void cm_connection_free(struct kal_connection *connection);
/* Established. Locked. */
void cm_startup_end(struct kal_connection *connection);
/* Take the account, once; false: quota. */
bool cm_count(struct kal_connection *connection);
void cm_uncount(struct kal_connection *connection);
void cm_attach(struct kal_connection *connection, struct ri_qp *qp);
void cm_detach(struct kal_connection *connection);
/* Locked. */
enum kal_status cm_watch(struct kal_connection *connection, uint32_t events);
void cm_deadline(struct kal_connection *connection, uint64_t deadline);
void cm_schedule(struct kal_connection *connection);
/* Lane; may be locked. */
void cm_unwatch(struct kal_connection *connection);
void cm_cancel_timers(struct kal_connection *connection);
/* Lane, locked. */
void cm_close_stream(struct kal_connection *connection);
/* Emit; the lock is released for the upcall. False: destroyed meanwhile. Lane, locked. */
bool cm_emit(struct kal_connection *connection, struct ri_connection_event *event);
/* Close, log one line (format NULL: none), FAILED. Lane, locked. */
void cm_fail(struct kal_connection *connection, enum ri_connection_reason reason,
             const char *format, ...) __attribute__((format(printf, 3, 4)));
void cm_fail_errno(struct kal_connection *connection, const char *doing, int error);
bool cm_is_set_a(const struct kal_rnic *rnic);
/* RI_NO_DEADLINE or 0: now + own. */
uint64_t cm_by(uint64_t deadline, uint64_t own);
uint16_t cm_depth(uint32_t asked, uint32_t limit);
/* From here on; the addresses are known. */
void cm_capture(struct kal_connection *connection);

/* ---- linger.c ---- */
/* Takes over descriptor and capture, with no watcher: reads and drops until the peer's end,
 * bounded, then closes. */
void cm_linger(struct kal_rnic *rnic, void *lane, struct cm_stream *stream);
/* The same, of a connection whose stream is not watched and whose FIN has been sent. */
void cm_to_linger(struct kal_connection *connection);
void cm_linger_end_all(struct kal_rnic *rnic);

/* ---- requests.c. With the listener's lock held, where nothing else is said ---- */
/* After the last reference. */
void cm_listener_free(struct kal_listener *listener);
/* An entry of its lists is gone: it may accept again, or report a queued request. Any thread. */
void cm_listener_room(struct kal_listener *listener);
/* The right to end a listed one; false: is another's. The lock is not held. */
bool cm_claim(struct kal_connection *connection);
/* The lock is not held. */
void cm_remove(struct kal_listener *listener, struct kal_connection *connection);
void cm_unlist(struct kal_listener *listener, struct kal_connection *connection);
/* Gives the connection's reference back. The lock is not held. */
void cm_listener_leave(struct kal_connection *connection, bool undecided);
enum cm_place { CM_PLACE_SHOW, CM_PLACE_QUEUE, CM_PLACE_NONE, CM_PLACE_TAKEN };
/* Of a complete request. */
enum cm_place cm_place_for(const struct kal_listener *listener,
                           const struct kal_connection *connection);
/* Behind, or in front of, those that are queued. The connection's lock is held too. */
void cm_enqueue(struct kal_listener *listener, struct kal_connection *connection, bool first);
/* The time of one that is queued is over. True: others were taken meanwhile, it stays. The
 * connection's lock is held, not the listener's. */
bool cm_stay_queued(struct kal_connection *connection);
/* The first of the queue, in the lane. */
void cm_show_next(struct kal_listener *listener);
/* ri_timer.expired of kal_listener.room. The lock is not held. */
void cm_room_made(struct ri_timer *timer);

/* ---- destroy.c ---- */
/* kal_connection_destroy, now. */
void cm_connection_end(struct kal_connection *connection);
/* Set A: refuse what kal does not show. */
void cm_a_refuse(struct kal_rnic *rnic, struct ri_connection *ri, bool datagram);
/* Set A: the object goes with the next run. Locked. */
void cm_a_orphan(struct kal_connection *connection);
/* The right to destroy an orphan. */
bool cm_a_adopt(struct kal_connection *connection);

/* ---- handover.c. Lane, locked ---- */
/* Hand the stream over by connection->agreed; the caller has filled the other members. */
enum kal_status cm_hand_over(struct kal_connection *connection, struct ri_llp_handover *handover);
/* May the stream be handed over in this run? Else the run comes again, when a QP is attached or in
 * the lane of that QP. Lane, locked. */
bool cm_has_qp(struct kal_connection *connection);
/* ESTABLISHED, where kal is the one to say so. */
void cm_established(struct kal_connection *connection, const void *private_data, uint16_t length);

/* ---- active.c ---- */
enum kal_status cm_active_connect(struct kal_connection *connection, struct ri_qp *qp,
                                  const struct ri_connect_param *param);
/* Encode by connection->local. */
enum kal_status cm_active_request(struct kal_connection *connection, const void *private_data,
                                  size_t length);
/* As of its role. */
void cm_active_run(struct kal_connection *connection);
void cm_active_expired(struct kal_connection *connection);

/* ---- passive.c ---- */
extern const struct cm_role cm_passive_role;
void cm_passive_run(struct kal_connection *connection);
void cm_passive_expired(struct kal_connection *connection);
/* STARTING: is the Request complete, or wrong, by the octets read so far? */
void cm_passive_look(struct kal_connection *connection);
enum kal_status cm_passive_accept(struct kal_connection *connection, struct ri_qp *qp,
                                  const struct ri_connect_param *param);
enum kal_status cm_passive_reject(struct kal_connection *connection, const void *private_data,
                                  uint16_t private_data_length);
/* Set A: its peer has gone. Lane, locked. */
void cm_passive_gone(struct kal_connection *connection);
/* Encode, agree. Locked. */
enum kal_status cm_passive_reply(struct kal_connection *connection,
                                 const struct ri_connect_param *param);

/* ---- set_a.c: by the provider's own connection manager ---- */
enum kal_status cm_a_create(struct kal_connection *connection);
enum kal_status cm_a_connect(struct kal_connection *connection, struct ri_qp *qp,
                             const struct ri_connect_param *param);
enum kal_status cm_a_accept(struct kal_connection *connection, struct ri_qp *qp,
                            const struct ri_connect_param *param);
enum kal_status cm_a_confirm(struct kal_connection *connection,
                             const struct ri_connect_param *param);
enum kal_status cm_a_reject(struct kal_connection *connection, const void *private_data,
                            uint16_t private_data_length);
enum kal_status cm_a_disconnect(struct kal_connection *connection, const void *private_data,
                                uint16_t private_data_length);
enum kal_status cm_a_listen(struct kal_listener *listener, const struct ri_listen_param *param,
                            struct sockaddr_storage *bound);
void cm_a_listen_destroy(struct kal_listener *listener);

/* ---- accept.c ---- */
/* ri_ready_fn of a listener; ri_timer.expired of its `resume`. */
void cm_accept_ready(void *arg, uint32_t events);
void cm_accept_resumed(struct ri_timer *timer);
void cm_open_spare(struct kal_cm *cm);

#endif
