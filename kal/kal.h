/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kal.h - the kernel access layer: what exists once per host, and the control half of every verb.
 *
 * Only ual calls it. kal finds and loads providers, maps interface names of the configuration to
 * them, counts objects against quotas, pins memory, asks the policy, and manages connections. It
 * supplies the connection verbs of rnicpi.h set A for every RNIC: by the provider's own set A, or
 * on top of TCP and the provider's LLP hand-over (set B).
 *
 * kal runs in the process. For what the processes of one host share (accounts, pins, policy,
 * sharing, monitor) it calls kal/host/host.h, which a daemon can implement: only plain data and at
 * most one descriptor cross that interface, and a call made from a lane never waits for the answer.
 *
 * Conventions: as in rnicpi.h (outputs on success only; arguments lent for the call; structures
 * that grow begin with `size`); a status is of rnicpi_status.h: what the provider answered, or
 * kal's own. Any thread may make all calls. "Lane" marks calls that never block and may be made
 * inside a run of a lane or from an upcall; the others may block and may not be made there. Data
 * verbs do not pass through kal: ual calls ri_object->ops of the objects that kal returns.
 */
#ifndef ITAL_KAL_H
#define ITAL_KAL_H

#include "rnicpi.h"
#include "rnicpi_status.h"

/* ------------------------------------------------------------------------------------------------
 * Supplied by ual: lanes and upcalls. One static table per process.
 */
struct kal_connection;
struct kal_listener;

/* What itstat sees of a QP. */
#define KAL_SEEN_COUNTERS 40u
struct kal_qp_seen {
    const void *qp; /* struct ri_qp, only to be compared: it may be gone */
    bool known;     /* false: the provider did not answer, and info is zero */
    bool shared;    /* it takes its receives from a shared queue */
    uint32_t lane;
    struct ri_qp_info info;
    size_t counters;
    const char *names[KAL_SEEN_COUNTERS]; /* static */
    uint64_t values[KAL_SEEN_COUNTERS];
};

/* Who would notice the next packet of a lane. */
enum kal_lane_runner {
    KAL_LANE_POLLED, /* threads of the program that poll, or come and go */
    KAL_LANE_WAITER, /* a thread of the program that waits */
    KAL_LANE_THREAD, /* ital's background thread */
    KAL_LANE_NOBODY  /* the program has closed its descriptors */
};

struct kal_lane_seen {
    enum kal_lane_runner runner;
    uint32_t qps, descriptors;
    /* Waiting threads, with that of KAL_LANE_WAITER */
    uint32_t waiters;
    /* By the program's threads; modulo 2^32 */
    uint32_t polls;
};

struct kal_upper {
    /* Lanes, as in struct ri_host; lane_context is the pointer given to kal_lane_open. */
    enum ri_status (*watch)(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                            void *arg, struct ri_watch **watch);
    enum ri_status (*rewatch)(struct ri_watch *watch, uint32_t events);
    void (*unwatch)(struct ri_watch *watch);
    void (*timer_set)(void *lane_context, struct ri_timer *timer);
    void (*timer_cancel)(void *lane_context, struct ri_timer *timer);
    void (*wake)(void *lane_context);
    /* True: the calling thread is in a run of a lane, or is a lane's own thread. NULL: none ever
     * is. Any thread; takes leaf locks only. */
    bool (*inside)(void);
    /*
     * For itstat; NULL: nothing is known. The next of the RNIC's QPs, at most
     * `room`, from the beginning again if `first`; fewer than room: they were the last. One thread
     * at a time. lanes_seen: all lanes. The RNIC is open or being opened or closed. They take leaf
     * locks, and call kal_qp_query and kal_qp_counters.
     */
    size_t (*qps_seen)(void *rnic_context, bool first, struct kal_qp_seen *seen, size_t room);
    size_t (*lanes_seen)(void *rnic_context, struct kal_lane_seen *seen, size_t room);
    /* Upcalls, with the thread rules of struct ri_host. Contexts are those given at creation. */
    void (*cq_event)(void *cq_context);
    void (*cq_error)(void *cq_context, const struct ri_event *event);
    /* False: there is no such QP, and the event is dropped. */
    bool (*qp_event)(void *qp_context, const struct ri_event *event);
    void (*srq_event)(void *srq_context, const struct ri_event *event);
    void (*rnic_event)(void *rnic_context, const struct ri_event *event);
    /* A peer's request. The receiver owns the connection from now on: it accepts, rejects, migrates
     * or destroys it, or returns it by kal_defer. *connection_context becomes the context of its
     * events. */
    void (*connection_request)(void *listener_context, struct kal_connection *connection,
                               const struct ri_connect_request *request, void **connection_context);
    /* Also of a fed listener, see kal_listen_feed. */
    void (*connection_event)(void *connection_context, const struct ri_connection_event *event);
};

/* ------------------------------------------------------------------------------------------------
 * Instance, configuration, registry
 */
struct kal;

/*
 * The process's kal. The first call reads the configuration: ITAL_CONF, else
 * sysconfdir/ital/ital.conf, and the folder that belongs to it; without them built-in defaults.
 * Later calls add one count; `upper` must be the same every time. A malformed file gives
 * ITAL_ERR_CONFIGURATION with one log line. kal_put drops one count; providers stay loaded.
 */
enum ri_status kal_get(const struct kal_upper *upper, struct kal **kal);
void kal_put(struct kal *kal);

/* Handlers for pthread_atfork. prepare locks what a new instance of the child shares with this one;
 * parent unlocks it. child unlocks it too, and forgets everything without affecting the parent's
 * peers: ual closes the descriptors in the lanes' epoll sets, kal closes its others. Afterwards
 * kal_get makes a new instance. child is async-signal-safe. A fork is allowed inside a provider's
 * enumerate, and while other threads are in any call; it waits for threads that are inside a
 * provider's enumerate or loading a provider. */
void kal_fork_prepare(void);
void kal_fork_parent(void);
void kal_fork_child(void);

/* Options: those of the [ital] section and, for each provider found, of its interface sections.
 * Static strings. */
struct kal_option {
    const char *section;  /* "ital", "quota", "policy", or "interface" */
    const char *provider; /* NULL: kal's; else the provider whose interfaces have the option */
    struct ri_option option;
};
typedef void (*kal_option_fn)(const struct kal_option *option, void *arg);
void kal_option_list(struct kal *kal, kal_option_fn fn, void *arg);

/* A complete valid configuration file, line by line, with every option, its default, unit and
 * meaning. */
typedef void (*kal_line_fn)(const char *line, void *arg);
void kal_config_write(struct kal *kal, kal_line_fn fn, void *arg);
/* Paths of the files read, each separated by ", "; NULL: defaults. Lives as long as kal. */
const char *kal_config_source(struct kal *kal);
/* Value of an option of section [ital], configured or default. NULL: unknown. Lane. */
const char *kal_config_value(struct kal *kal, const char *name);
/* A time option of section [ital], which must exist, in nanoseconds. Lane. */
uint64_t kal_config_ns(struct kal *kal, const char *name);
/* An enum option of section [ital], which must exist: the place of its word, from 0. Lane. */
uint32_t kal_config_word(struct kal *kal, const char *name);

/*
 * Logs through kal's sink (ITAL_LOG: level and destination). Lane; not on the data path. Never
 * waits for a reader. Lines of one cause, which is the address of `format`, are limited to 20 in 5
 * s, then "n more like this". For a lane a thread of kal writes the line; otherwise it is written
 * on return, if the descriptor takes it.
 */
void kal_log(enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, with "prefix: " in front unless it is NULL. */
void kal_vlog(enum ri_log_level level, const char *prefix, const char *format, va_list args);

/* Every provider file that was found, in search order, and every interface, the default one first;
 * unusable ones have the reason and what to do. Providers are asked in processes of their own
 * (program ital-ask), so a failing provider does no harm. The call takes at most option
 * ask_timeout. Strings are lent for the call of fn. */
struct kal_provider_info {
    const char *name; /* NULL: it could not be read */
    const char *path; /* file, or "(preopened)" */
    bool usable;
    const char *reason, *advice; /* a usable provider may have them too: why it has no device */
    const char *version, *description;
    uint16_t abi_major, abi_minor;
};
typedef void (*kal_provider_fn)(const struct kal_provider_info *info, void *arg);
enum ri_status kal_provider_list(struct kal *kal, kal_provider_fn fn, void *arg);

struct kal_interface_info {
    const char *name;
    const char *provider;
    const char *device;
    enum ri_transport transport;
    bool usable;
    bool on_request;        /* RI_DEVICE_ON_REQUEST, and the configuration does not name it */
    bool asked_for_by_kind; /* RI_DEVICE_ON_REQUEST, whether or not it does */
    const char *reason, *advice;
};
typedef void (*kal_interface_fn)(const struct kal_interface_info *info, void *arg);
enum ri_status kal_interface_list(struct kal *kal, kal_interface_fn fn, void *arg);

/* ------------------------------------------------------------------------------------------------
 * RNIC
 */
struct kal_rnic;

/* Opens an interface by its name. Each open is independent. Only its provider is loaded into this
 * process. */
enum ri_status kal_rnic_open(struct kal *kal, const char *interface, void *context,
                             struct kal_rnic **rnic);
/* Closes the RNIC. RI_ERR_BUSY: objects remain, which includes undecided requests and listeners.
 * Lane contexts must live until it has succeeded: kal and the provider remove their descriptors and
 * timers from them. RI_ERR_AGAIN: connections are still closing in order; run the lanes and call
 * again (kal_rnic_option_ns(rnic, "close_timeout") is the bound), or force. */
enum ri_status kal_rnic_close(struct kal_rnic *rnic, bool force);
/* Constant after lane 0 is open. Lane. */
const struct ri_rnic_attr *kal_rnic_attr(const struct kal_rnic *rnic);
const char *kal_rnic_provider(const struct kal_rnic *rnic);
/* As ri_host.option. Lane. */
const char *kal_rnic_option(const struct kal_rnic *rnic, const char *name);
/* A time option that every interface has (kal/config/interface_options.c), in nanoseconds. Lane. */
uint64_t kal_rnic_option_ns(const struct kal_rnic *rnic, const char *name);
/* As ri_privileged_ops.query_port. */
enum ri_status kal_rnic_port(struct kal_rnic *rnic, struct ri_port_attr *attr);
/* As ri_privileged_ops.query_gids. */
enum ri_status kal_rnic_gids(struct kal_rnic *rnic, uint32_t port, struct ri_gid *gids,
                             uint32_t *count);
/* As ri_privileged_ops.rnic_counters; kal's own counters follow the provider's. Any thread. */
enum ri_status kal_rnic_counters(struct kal_rnic *rnic, const char **names, uint64_t *values,
                                 size_t *count);
enum ri_status kal_lane_open(struct kal_rnic *rnic, uint32_t index, void *context,
                             struct ri_lane **lane);

/* The source address of a connection from this RNIC's port to `destination`. RI_ERR_UNREACHABLE:
 * none. */
enum ri_status kal_route(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *destination,
                         struct sockaddr_storage *source);

/* ------------------------------------------------------------------------------------------------
 * Objects: the operation of the same name in rnicpi.h, with accounts and pinning. The object is the
 * provider's, and only the call here may destroy it. `rnic` is the one on which it was made.
 * kal_qp_modify and kal_qp_query are of kind Lane. So is kal_qp_destroy, except in an upcall about
 * the same QP. kal_region_modify changes access and PD; address and length stay.
 */
enum ri_status kal_pd_create(struct kal_rnic *rnic, void *context, struct ri_pd **pd);
enum ri_status kal_pd_destroy(struct kal_rnic *rnic, struct ri_pd *pd);
enum ri_status kal_cq_create(struct kal_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq);
enum ri_status kal_cq_resize(struct kal_rnic *rnic, struct ri_cq *cq, uint32_t *depth);
enum ri_status kal_cq_destroy(struct kal_rnic *rnic, struct ri_cq *cq);
enum ri_status kal_qp_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_qp_attr *attr,
                             struct ri_qp **qp);
enum ri_status kal_qp_modify(struct kal_rnic *rnic, struct ri_qp *qp,
                             const struct ri_qp_modify *modify);
enum ri_status kal_qp_query(struct kal_rnic *rnic, struct ri_qp *qp, struct ri_qp_info *info);
enum ri_status kal_qp_counters(struct kal_rnic *rnic, struct ri_qp *qp, const char **names,
                               uint64_t *values, size_t *count);
enum ri_status kal_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp);
enum ri_status kal_srq_create(struct kal_rnic *rnic, struct ri_pd *pd, struct ri_srq_attr *attr,
                              struct ri_srq **srq);
enum ri_status kal_srq_modify(struct kal_rnic *rnic, struct ri_srq *srq, uint32_t mask,
                              const struct ri_srq_attr *attr);
enum ri_status kal_srq_query(struct kal_rnic *rnic, struct ri_srq *srq, struct ri_srq_attr *attr);
enum ri_status kal_srq_destroy(struct kal_rnic *rnic, struct ri_srq *srq);

/* A region has a record of kal (pinned range, shared identifier). `mr` is for work requests. */
struct kal_region {
    struct ri_mr *mr;
    struct ri_mr_keys keys;
};
enum ri_status kal_region_create(struct kal_rnic *rnic, struct ri_pd *pd,
                                 const struct ri_mr_attr *attr, struct kal_region **region);
enum ri_status kal_region_modify(struct kal_rnic *rnic, struct kal_region *region, struct ri_pd *pd,
                                 const struct ri_mr_attr *attr);
enum ri_status kal_region_destroy(struct kal_rnic *rnic, struct kal_region *region);

enum ri_status kal_mw_create(struct kal_rnic *rnic, struct ri_pd *pd, bool narrow, void *context,
                             uint32_t *stag, struct ri_mw **mw);
enum ri_status kal_mw_destroy(struct kal_rnic *rnic, struct ri_mw *mw);

enum ri_status kal_ah_create(struct kal_rnic *rnic, struct ri_pd *pd, const struct ri_ah_attr *attr,
                             struct ri_ah **ah);
enum ri_status kal_ah_modify(struct kal_rnic *rnic, struct ri_ah *ah,
                             const struct ri_ah_attr *attr);
enum ri_status kal_ah_destroy(struct kal_rnic *rnic, struct ri_ah *ah);

/* As ri_privileged_ops.multicast_attach and multicast_detach. */
enum ri_status kal_multicast_attach(struct kal_rnic *rnic, struct ri_qp *qp, const uint8_t gid[16],
                                    uint16_t lid);
enum ri_status kal_multicast_detach(struct kal_rnic *rnic, struct ri_qp *qp, const uint8_t gid[16],
                                    uint16_t lid);

/* ------------------------------------------------------------------------------------------------
 * Connections. Set A for every RNIC. All calls are of kind Lane: they start work in the lane and
 * return; the result is a connection_event. An error return means that nothing was started and no
 * event follows.
 *
 * After RI_CONNECTION_ESTABLISHED the QP owns the connection. If kal manages connections, its end
 * is reported by qp_event (one of the ended group of enum ri_event_type); if the provider does, by
 * connection_event DISCONNECTED. The reader treats the first of them as the end. ESTABLISHED of a
 * responder in the peer-to-peer model comes with the peer's first message.
 */

/* lane_context: the lane that runs the start-up, and on which the QP is placed. */
enum ri_status kal_connection_create(struct kal_rnic *rnic, void *lane_context, void *context,
                                     struct kal_connection **connection);
/* Any state. An attempt or an undecided request is abandoned (the peer's TCP connection closes).
 * Waits for an upcall about it that runs in another thread; no event follows. An established
 * connection is not affected. */
void kal_connection_destroy(struct kal_connection *connection);

/* Active side. The policy is asked first. The deadline bounds TCP connect and MPA start-up
 * together. qp NULL: after the peer's Reply the stream waits for kal_attach; three-way
 * RI_CONNECTION_ACCEPTED reports the Reply. If the provider manages connections: as "external-qp"
 * of rnicpi.h says, RI_ERR_NOT_SUPPORTED without RI_FEATURE_EXTERNAL_QP. */
enum ri_status kal_connect(struct kal_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param);
/* Before kal_accept: moves the remaining start-up of an undecided request to the QP's RNIC, of the
 * same instance, and lane. No effect if it is there already, is not undecided, or the provider
 * manages connections. Waits for a handler of it that runs; not from an upcall. After an error
 * (another RNIC only: ITAL_ERR_QUOTA, RI_ERR_INVALID_ARGUMENT: set A) it has not moved. */
enum ri_status kal_place(struct kal_connection *connection, struct kal_rnic *rnic,
                         void *lane_context);
/* Attaches the QP, and its lane, to a connect or accept without one. RI_ERR_INVALID_STATE: it has
 * one, or has ended. */
enum ri_status kal_attach(struct kal_connection *connection, struct ri_qp *qp, void *lane_context);
/* Passive side; kal_confirm is the active side's third leg, or as "passive-confirm" of rnicpi.h
 * says. qp NULL: as for kal_connect. */
enum ri_status kal_accept(struct kal_connection *connection, struct ri_qp *qp,
                          const struct ri_connect_param *param);
enum ri_status kal_confirm(struct kal_connection *connection, const struct ri_connect_param *param);
/* No event follows, and the connection still has to be destroyed. The rejection reaches the peer in
 * any case. */
enum ri_status kal_reject(struct kal_connection *connection, const void *private_data,
                          uint16_t private_data_length);
/* Datagram service, for providers with RI_FEATURE_UD: service_request and service_reply of
 * rnicpi.h. The policy is asked as for a connect. The requester's connection gets SERVICE_REPLY or
 * FAILED, once. The other side's connection, which came by connection_request with `datagram`, gets
 * no event and still has to be destroyed; the reply is sent nevertheless. */
enum ri_status kal_service_request(struct kal_connection *connection,
                                   const struct ri_connect_param *param);
enum ri_status kal_service_reply(struct kal_connection *connection,
                                 const struct ri_service_reply *reply);
/* Orderly close of an established connection; the end is reported as above. qp NULL: connected
 * without one, by a provider that manages connections. */
enum ri_status kal_disconnect(struct kal_connection *connection, struct ri_qp *qp,
                              const void *private_data, uint16_t private_data_length);

/*
 * The result of a set-up: type ESTABLISHED, depths, addresses; no private data. The caller sets
 * info->size. For a responder in the peer-to-peer model, whose ESTABLISHED comes as qp_event
 * RI_EVENT_ESTABLISHED without these values. RI_ERR_INVALID_STATE: the QP does not own the stream
 * yet. Lane.
 */
enum ri_status kal_connection_info(struct kal_connection *connection,
                                   struct ri_connection_event *info);

/* Listens. bound: the address with the port in use. Destroy: no further request_event after it
 * returned; undecided requests stay valid. */
enum ri_status kal_listen(struct kal_rnic *rnic, void *lane_context,
                          const struct ri_listen_param *param, void *context,
                          struct sockaddr_storage *bound, struct kal_listener **listener);
void kal_listen_destroy(struct kal_listener *listener);

/*
 * Returns a request for which there is no room now. kal reports no other one before it, and calls
 * connection_request for it again after kal_listen_room. Only inside that upcall, whose context is
 * then ignored. Waiting requests count as undecided (option backlog), which stops accepting. They
 * end when their peer disconnects, with the listener, or when none was accepted for
 * request_timeout.
 */
void kal_defer(struct kal_connection *connection);
/* There is room again: the waiting requests are reported one after the other in the listener's
 * lane. Any thread, one at a time for a listener; does not block. */
void kal_listen_room(struct kal_listener *listener);
/* What the log advises where a client sends no MPA Request, instead of "only iWARP clients may use
 * this port". advice: a string that stays; NULL: that sentence. Any thread. */
void kal_listen_advise(struct kal_listener *listener, const char *advice);

/*
 * A listener without a socket, for streams that the consumer accepts itself, from a socket that it
 * shares with other processes. address: where that socket listens, for rules and log lines.
 * RI_ERR_NOT_SUPPORTED: the provider manages connections. Otherwise as kal_listen.
 */
enum ri_status kal_listen_fed(struct kal_rnic *rnic, void *lane_context,
                              const struct sockaddr *address, uint32_t backlog, void *context,
                              struct kal_listener **listener);
/* Gives it a connected TCP socket, whose peer begins. The descriptor is duplicated. Its request is
 * reported as others are; if none comes of it, connection_event says RI_CONNECTION_FAILED, once, of
 * the listener's context. After an error nothing is reported: RI_ERR_INVALID_ARGUMENT: no TCP
 * connection with both directions open; RI_ERR_PERMISSION: a rule or a quota refuses, the log has
 * it; RI_ERR_NO_RESOURCES: also, as many as options backlog and half_open allow are undecided. Any
 * thread. */
enum ri_status kal_listen_feed(struct kal_listener *listener, int fd);

/* Moves an undecided request to another listener, whose upcall reports it with a new connection. On
 * success the old connection is freed. */
enum ri_status kal_migrate(struct kal_connection *connection, struct kal_listener *listener);

/*
 * Converts a connected TCP socket to the QP's connection. The descriptor is duplicated. Its file
 * status flags are unchanged; socket options that would delay octets are reset. Does not block. The
 * outcome is a connection event. A conversion that fails ends the TCP connection.
 * RI_ERR_NOT_SUPPORTED: the provider has a connection manager of its own. INVALID_ARGUMENT: no TCP
 * connection with both directions open, or one that the kernel transforms (TLS). LIMIT: the last
 * message is longer than 1 MiB, or more octets were read than an MPA frame has (without frames 64
 * KiB). PERMISSION: the policy. UNREACHABLE: its address is not of option netdev. QUOTA,
 * NO_RESOURCES. On an error nothing was sent.
 */
struct kal_convert_param {
    uint32_t size;
    int fd;
    bool initiator;
    bool startup_frames;      /* exchange MPA Request and Reply; else both sides switch at once */
    const void *last_message; /* responder: sent in streaming mode immediately before the switch */
    size_t last_message_length;
    /* Octets after the streaming mode that the consumer has read already; not for an initiator with
     * frames */
    const void *octets_read;
    size_t octets_read_length;
    uint16_t ird, ord;
    uint64_t deadline;
    uint64_t reserved[4];
};
enum ri_status kal_convert(struct kal_connection *connection, struct ri_qp *qp,
                           const struct kal_convert_param *param);

#endif /* ITAL_KAL_H */
