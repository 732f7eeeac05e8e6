/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rooms of the connection manager (cm*.c) share. States, locks and life times: block in
 * cm.c. */
#ifndef ITAL_KAL_CM_H
#define ITAL_KAL_CM_H

#include "kal/kal_private.h"
#include "kal/capture/capture.h"
#include "mpa_startup.h"

#include "base/address.h"

#include <stdarg.h>

enum cm_state {
    CM_IDLE,        /* created by ual, nothing started */
    CM_CONNECTING,  /* active: TCP connect under way */
    CM_REQUESTED,   /* active: the Request leaves, the Reply is awaited */
    CM_LAST_WORDS,  /* conversion, responder: the last streaming message leaves */
    CM_STARTING,    /* passive: the Request comes in; kal's own object, save in a conversion */
    CM_SHOWING,     /* passive: the Request is complete, its upcall is due; kal's own */
    CM_HELD,        /* passive: complete, but ual has no room for it; kal's own */
    CM_PENDING,     /* passive: shown, undecided; ual's */
    CM_MOVING,      /* kal_migrate at work */
    CM_ACCEPTING,   /* accepted, the hand-over is due in the lane */
    CM_CONVERTING,  /* conversion without frames: the hand-over is due in the lane */
    CM_REJECTING,   /* the rejecting Reply left, the socket is due for the linger */
    CM_ESTABLISHED, /* the stream is the QP's */
    CM_ENDED,       /* failed, rejected, withdrawn */
    CM_FOREIGN,     /* a connection of the provider's own set A */
};

/* Options of the interface that the manager reads, once, at kal_cm_open. Times in nanoseconds. */
struct cm_options {
    uint8_t mpa_revision; /* 1 or 2: highest spoken */
    bool mpa_fallback;    /* revision 1 on a new connection after a closed enhanced Request */
    bool crc;
    bool markers;       /* asked for in what the peer sends */
    uint8_t rtr;        /* MPA_STARTUP_RTR_ bits offered by the active side; 0: client-server */
    uint32_t backlog;   /* per listener, at least so many undecided requests */
    uint32_t half_open; /* per listener, at most so many start-ups without a complete Request */
    enum cm_v6only { CM_V6ONLY_AUTO, CM_V6ONLY_YES, CM_V6ONLY_NO } v6only;
    uint64_t connect_timeout, request_timeout, close_timeout;
    uint32_t tcp_user_timeout; /* ms; 0: the system's */
    bool keepalive;
    int keepalive_idle, keepalive_interval, keepalive_count; /* s, s, probes */
};

/* Lines of one kind about what peers do: one a second at most, the others are counted. */
struct cm_meter {
    uint64_t next; /* CLOCK_MONOTONIC ns; no line before */
    uint64_t held; /* lines kept back since the last one */
};

/* A thread inside an object, on its stack. */
struct cm_run {
    pthread_t thread;
    struct cm_run *next;
};

/* A thread that waits, on its stack: connections are many, those that are waited for are few. */
struct cm_wait {
    pthread_cond_t told;
    struct cm_wait *next;
};

/* Life of a connection, listener or linger: lock, references, and who is inside. */
struct cm_guard {
    pthread_mutex_t lock;
    struct cm_wait *waits; /* who waits until somebody goes out */
    struct cm_run *runs;
    unsigned refs;
    bool dead; /* destroyed: nobody enters any more */
};

/*
 * A TCP connection at start-up: plain data and one descriptor. With a complete Request in `octets`
 * it is all that there is to an undecided request, so that it can move to another listener.
 */
struct cm_stream {
    int fd;                          /* -1 none */
    uint32_t length;                 /* of octets */
    struct kal_capture_end *capture; /* NULL: not captured */
    union address local, peer;
    uint8_t *octets; /* MPA_STARTUP_FRAME_MAX; with the connection's start-up */
};

/* What a connection needs until it is established, and an established one has not. */
struct cm_startup {
    struct kal_connection *connection;
    struct ri_timer deadline, kick; /* kick: run the state in the lane soon */
    uint64_t began;                 /* CLOCK_MONOTONIC ns, when it was accepted */
    uint64_t held_until;            /* the same, from the first time it was held; 0: never */
    uint8_t in[MPA_STARTUP_FRAME_MAX], out[MPA_STARTUP_FRAME_MAX];
    size_t out_length, out_sent;
    uint8_t *last_words; /* conversion: what is left of the streaming message; malloc */
    size_t last_length, last_sent;

    /* Active only: for a second attempt. */
    union address source, destination;
    uint64_t connect_by;
    int connect_error; /* connect(2) knew at once; told by the run */
    bool retried;
};

struct kal_connection {
    struct cm_guard guard;
    enum cm_state state;
    unsigned migrations;
    struct kal_rnic *rnic;
    void *lane;    /* lane_context */
    void *context; /* ual's */
    struct cm_stream stream;
    struct ri_watch *watch; /* of stream.fd in the lane */
    uint32_t watched;       /* for these events */
    bool counted;           /* KAL_ACCOUNT_CONNECTION taken */
    bool conversion;
    bool initiator;
    bool handed; /* the stream is the provider's, or is being offered to it */

    /* What we say, and what came out of it. */
    struct mpa_startup_local local;
    struct mpa_startup_agreed agreed;
    struct cm_startup *startup; /* NULL from ESTABLISHED on */

    /* Passive only: a reference is held from accept(2) to the decision. */
    struct kal_listener *listener;
    bool kept;  /* in listener->kept or ->waiting: kal's own; under the listener's lock, as are: */
    bool taken; /* kept, and somebody is ending it */
    bool fresh; /* kept since accept(2), not moved here: gives way when there are too many */
    bool held;  /* kept, and waits for room */
    struct kal_connection *kept_prev, *kept_next;

    struct ri_connection *ri; /* CM_FOREIGN */
    uint32_t port;            /* with ri, passive: where it came in */
    bool datagram;            /* with ri, passive: a service request */

    /* Under cm->lock. */
    bool orphan;  /* set A, refused inside the provider's upcall: to be destroyed by the next run */
    bool qp_busy; /* the hand-over is inside the provider */
    struct kal_connection *prev, *next; /* cm->connections */
    struct ri_qp *qp;                   /* attached for the time of the start-up */
    struct kal_connection *attached_prev, *attached_next;
};

struct kal_listener {
    struct cm_guard guard;
    struct kal_rnic *rnic;
    void *lane;
    void *context;
    int fd;
    struct ri_watch *watch;
    struct ri_timer resume;   /* when to accept again; set with guard.lock held */
    struct ri_timer room;     /* ual has room for what waits */
    char name[80];            /* bound address, for logs */
    uint32_t backlog;         /* undecided requests, those held included */
    uint32_t half_open_max;   /* start-ups whose Request is incomplete */
    uint32_t half_open, held; /* connections in `kept`, in `waiting`; guard.lock */
    uint32_t undecided;       /* shown; guard.lock, as are: */
    uint64_t taken_at;        /* CLOCK_MONOTONIC ns, when ual last kept one that it was shown */
    bool paused;              /* accepts no more until `resume` */
    /* Start-ups, in the order of their arrival, and requests that moved here */
    struct kal_connection *kept;
    /* Held: the first is shown next. A list of their own, as both are searched from the front */
    struct kal_connection *waiting;
    struct cm_meter bad, full, descriptors; /* in runs of the lane only */
    struct cm_meter late;
    struct ri_listener *ri;           /* set A */
    struct kal_listener *prev, *next; /* cm->listeners, under cm->lock */
};

struct cm_linger;

struct kal_cm {
    struct cm_options options;
    pthread_mutex_t lock;   /* leaf of the manager: lists, spare descriptor, attached QPs */
    pthread_cond_t changed; /* a hand-over has left the provider, a linger has ended */
    struct kal_connection *connections, *attached;
    struct kal_listener *listeners;
    struct cm_linger *lingers;
    unsigned linger_count;
    _Atomic int spare_fd; /* given up for a moment to accept and close when descriptors ran out */
};

/* ---- cm_common.c: guard ---- */
void cm_guard_init(struct cm_guard *guard); /* one reference: the owner's */
bool cm_enter(struct cm_guard *guard,
              struct cm_run *run); /* true: inside, lock held, one reference more */
bool cm_leave(struct cm_guard *guard,
              struct cm_run *run);      /* lock held, released; true: free the object */
bool cm_inside(struct cm_guard *guard); /* this thread is */
void cm_hold(struct cm_guard *guard);
bool cm_drop(struct cm_guard *guard);        /* true: free the object */
void cm_kill(struct cm_guard *guard);        /* dead; others are out; the lock is not held */
void cm_wait_others(struct cm_guard *guard); /* lock held; waits for runs of other threads */
/* Wait for cm_tell, which leaving is too; may return early. Both with the lock held. */
void cm_wait_told(struct cm_guard *guard);
void cm_tell(struct cm_guard *guard);
void cm_guard_end(struct cm_guard *guard); /* before free */

/* ---- cm.c: connection ----
 * "Lane": inside a run of the connection's lane. "Locked": guard.lock is held. */
struct kal_connection *cm_connection_new(struct kal_rnic *rnic, void *lane, void *context);
void cm_connection_free(struct kal_connection *connection); /* after the last reference */
void cm_startup_end(struct kal_connection *connection);     /* established; locked */
void cm_connection_end(struct kal_connection *connection);  /* kal_connection_destroy, now */
bool cm_count(struct kal_connection *connection); /* take the account, once; false: quota */
void cm_uncount(struct kal_connection *connection);
void cm_attach(struct kal_connection *connection, struct ri_qp *qp);
void cm_detach(struct kal_connection *connection);
enum kal_status cm_watch(struct kal_connection *connection, uint32_t events); /* Locked */
void cm_unwatch(struct kal_connection *connection);                     /* Lane; may be locked */
void cm_deadline(struct kal_connection *connection, uint64_t deadline); /* Locked */
void cm_kick(struct kal_connection *connection);                        /* Locked */
void cm_close_stream(struct kal_connection *connection);                /* Lane, locked */

/* Emit; the lock is released for the upcall. False: destroyed meanwhile. Lane, locked. */
bool cm_emit(struct kal_connection *connection, struct ri_connection_event *event);
/* Close, log one line (format NULL: none), FAILED. Lane, locked. */
void cm_fail(struct kal_connection *connection, enum ri_connection_reason reason,
             const char *format, ...) __attribute__((format(printf, 3, 4)));
void cm_fail_errno(struct kal_connection *connection, const char *doing, int error);
/* Hand the stream over by connection->agreed; the caller fills what is left. Lane, locked. */
enum kal_status cm_hand_over(struct kal_connection *connection, struct ri_llp_handover *handover);
/* ESTABLISHED, where kal is the one to say so. Lane, locked. */
void cm_established(struct kal_connection *connection, const void *private_data, uint16_t length);

/* ---- cm_common.c: small things ---- */
uint64_t cm_by(uint64_t deadline, uint64_t own);    /* RI_NO_DEADLINE or 0: now + own */
void cm_addresses(struct cm_stream *stream);        /* both ends; IPv4 in IPv6 as IPv4 */
void cm_capture(struct kal_connection *connection); /* from here on; the addresses are known */
void cm_capture_end(struct cm_stream *stream);
void cm_socket_options(struct kal_rnic *rnic, int fd);
uint16_t cm_depth(uint32_t asked, uint32_t limit);
bool cm_meter(struct cm_meter *meter, char *more, size_t size); /* may log; "(n more ...)" or "" */
bool cm_is_set_a(const struct kal_rnic *rnic);
/* Read what there is into the stream. > 0 octets, 0 end, -1 with errno (EAGAIN: nothing). */
ssize_t cm_read(struct cm_stream *stream);
/* Write the rest of a buffer: 1 done, 0 later, -1 errno. */
int cm_write(struct cm_stream *stream, const uint8_t *octets, size_t length, size_t *sent);
int cm_send_end(struct cm_stream *stream);        /* FIN; as shutdown(2) */
void cm_reset_on_close(struct cm_stream *stream); /* RST instead of FIN */

/* ---- cm_active.c ---- */
void cm_active_run(struct kal_connection *connection); /* CONNECTING, REQUESTED. Lane, locked */
enum kal_status cm_active_request(struct kal_connection *connection, const void *private_data,
                                  size_t length); /* encode by connection->local */

/* ---- cm_passive.c ---- */
void cm_passive_run(struct kal_connection *connection); /* STARTING to REJECTING. Lane, locked */
void cm_passive_expired(struct kal_connection *connection);
/* The right to end a kept one; false: is another's */
bool cm_keep_take(struct kal_connection *connection);
void cm_keep_remove(struct kal_listener *listener, struct kal_connection *connection);
void cm_passive_gone(struct kal_connection *connection); /* set A: its peer has. Lane, locked */
void cm_listener_leave(struct kal_connection *connection,
                       bool undecided);               /* gives the reference back */
void cm_to_linger(struct kal_connection *connection); /* unwatched stream; FIN has been sent */
enum kal_status cm_passive_reply(struct kal_connection *connection,
                                 const struct ri_connect_param *param); /* encode, agree. Locked */

/* ---- cm_convert.c ---- */
void cm_convert_run(struct kal_connection *connection); /* LAST_WORDS, CONVERTING. Lane, locked */
/* The peer's Request is there: accept it */
void cm_convert_request(struct kal_connection *connection);

/* ---- cm_listener.c ---- */
void cm_listener_free(struct kal_listener *listener); /* after the last reference */
/* Something that it holds has gone: it may accept again, or show what waits. Its lock is held. Any
 * thread. */
void cm_listener_room(struct kal_listener *listener);

/* ---- cm_hold.c. All but cm_room_made and cm_wait_on with the listener's lock held ---- */
enum cm_place { CM_PLACE_SHOW, CM_PLACE_WAIT, CM_PLACE_NONE, CM_PLACE_TAKEN };
enum cm_place cm_place_for(const struct kal_listener *listener,
                           const struct kal_connection *connection); /* that is complete */
/* Behind, or in front of, those that wait. The connection's lock is held too. */
void cm_wait(struct kal_listener *listener, struct kal_connection *connection, bool first);
void cm_unkeep(struct kal_listener *listener, struct kal_connection *connection);
/* The time of one that waits is over. True: others were taken meanwhile, it goes on. The
 * connection's lock is held, not the listener's. */
bool cm_wait_on(struct kal_connection *connection);
void cm_show_next(struct kal_listener *listener); /* of those that wait, in the lane */
void cm_room_made(struct ri_timer *timer);        /* ri_timer.expired of kal_listener.room */

/* ---- cm_linger.c ---- */
/* Takes descriptor and capture, watched by nobody: reads and drops until the peer's end, bounded,
 * then closes. */
void cm_linger(struct kal_rnic *rnic, void *lane, struct cm_stream *stream);
void cm_linger_end_all(struct kal_rnic *rnic);

/* ---- cm_set_a.c: the same calls, by the provider's own connection manager ---- */
enum kal_status cm_a_create(struct kal_connection *connection);
void cm_a_destroy(struct kal_connection *connection);
/* Refuse what kal does not show. */
void cm_a_refuse(struct kal_rnic *rnic, struct ri_connection *ri, bool datagram);
void cm_a_orphan(struct kal_connection *connection); /* locked */
bool cm_a_adopt(struct kal_connection *connection);  /* the right to destroy an orphan */
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
/* kal_service_request and kal_service_reply are there too. */

#endif
