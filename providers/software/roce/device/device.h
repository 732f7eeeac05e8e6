/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device softroce: RoCEv2 in the process, QPs connected by numbers and QPs for datagrams. What
 * its files share.
 *
 * It joins roce/rc and roce/datagram (packets of a QP) to roce/net (sockets) as the wire of an RNIC
 * of the core. One lane receives what is for the RNIC's slot, on each address in use.
 *
 * Locks: `lock` guards addresses and GIDs, and is held by control verbs alone; net's lock and the
 * lane's are taken inside it. Nothing on the data path takes it. A place of `table` is written
 * inside tx of its QP; a pass that finds a QP there may use it until the pass ends. The same holds
 * for the list of ports; a group leaves it under the lane's lock, which all hold that look through
 * it neither in a pass nor under `lock`.
 */
#ifndef ITAL_SOFTROCE_DEVICE_H
#define ITAL_SOFTROCE_DEVICE_H

#include "providers/software/local/wire_local.h"
#include "providers/software/roce/cm/manager.h"
#include "providers/software/roce/datagram/datagram.h"
#include "providers/software/roce/net/gids.h"
#include "providers/software/roce/net/gsi.h"
#include "providers/software/roce/net/meet.h"
#include "providers/software/roce/net/net.h"
#include "providers/software/roce/rc/rc.h"

#define DEVICE "softroce"

/* Elements of a request that is sent: a packet may have all of them. */
#define SEND_SGE_MAX 30u
/* Groups that have QPs, and QPs of one. */
#define ROCE_GROUPS    256u
#define ROCE_GROUP_QPS 64u
/* Threads that send on one address at the same time, before others wait. */
#define SENDERS 8u

/* Option local. */
enum roce_local { ROCE_LOCAL_NO, ROCE_LOCAL_AUTO, ROCE_LOCAL_ONLY };

struct roce_options {
    struct net_options net;
    enum roce_local local;
    const char *netdevs;
    uint32_t mtu;                            /* octets of payload; 0: as the interfaces allow */
    uint64_t connect_timeout, close_timeout; /* ns */
};

struct roce_qp;
struct roce_rnic;

/* Packets that leave together. */
struct roce_sender {
    struct spinlock lock;
    struct net_tx *tx;
};

/* An address in use, until the RNIC is closed; or a group, while QPs are attached to it. */
struct roce_port {
    _Atomic(struct roce_port *) next; /* behind it are older ones */
    struct roce_rnic *rnic;
    struct net_port *net;
    struct ri_watch *watch, *gsi_watch;
    uint8_t gid[GID_LEN];
    uint16_t udp_port;
    struct roce_sender senders[SENDERS];
    /* The socket was reported readable, or writable again. Any thread sets them; a pass clears. */
    atomic_bool readable, writable;
    uint32_t silent;    /* passes that found nothing; of the pass */
    bool full;          /* there was more than one call reads; of the pass */
    uint64_t overflows; /* of the socket's buffer, when it was looked at last; of the pass */
    /* Of a group: QPNs, ROCE_GROUP_QPS places, 0: free. NULL: it is an address. */
    _Atomic uint32_t *attached;
    uint32_t attached_count; /* under lock */
    struct roce_port *gone;  /* of roce_rnic.gone */
};

/* Written by the pass. */
struct roce_counters {
    atomic_ullong unknown_qpn, strangers, malformed, unsent;
};

struct roce_connection;
struct roce_leave;

/* What groups and the connection verbs, which stand on all else, do for what is below them. */
struct roce_above {
    enum ri_status (*watch)(struct roce_rnic *device);
    enum ri_status (*watch_port)(struct roce_port *port);
    void (*unwatch)(struct roce_rnic *device);
    /* The table of GIDs has changed. In the lane, no lock held. */
    void (*addresses_changed)(struct roce_rnic *device);
    /* A packet to QP 1. In a pass. */
    void (*take)(struct roce_port *port, const struct net_packet *packet,
                 const struct bth_packet *parsed);
    /* What was in the sockets before a peer's DREQ was taken. In a run of the lane. */
    void (*take_leaves)(struct roce_rnic *device);
    /* Tells what there is to tell. In a run of the lane, no lock held. */
    void (*deliver)(struct roce_rnic *device);
    /* A first packet of the peer has come. In a pass. */
    void (*heard)(struct roce_qp *qp);
    /* The QP has left RTS. Inside tx. */
    void (*qp_stopped)(struct roce_qp *qp);
    /* It is being destroyed. */
    void (*qp_gone)(struct roce_qp *qp);
};

/* Connection verbs: connection.h. */
struct roce_cm {
    pthread_mutex_t lock;
    struct cm_manager manager;
    struct gsi *gsi;
    struct net_rx *rx;
    struct ri_watch *watch;
    struct ri_timer timer;
    struct roce_connection *reporting; /* of which there is something to tell */
    atomic_bool has_reports;
    pthread_cond_t reported;
    uint32_t listeners, connections; /* of the host */
    /* DREQs, which wait for the packets before them; of the runs of the lane. */
    struct roce_leave *leaves;
    atomic_uint leaving; /* so many */
    uint32_t leave_passes;
    struct ri_timer flush; /* of gsi_flush() */
    bool flushes;          /* it is set */
};

struct roce_talk;

/* Option local: rendezvous.c, local_wire.c. */
struct roce_meet {
    pthread_mutex_t lock;
    bool on; /* QPs take part: it listens. Set when the lane is opened */
    struct wire wire;
    struct local_rnic local;
    struct ri_watch *watch;
    /* Under lock. `ended`: to be buried. All QPs, by what is above the slot's bits of their
     * numbers; NULL: the RNIC has no wire local. */
    struct roce_talk *talks, *ended;
    struct roce_qp **qps;
};

struct roce_rnic {
    struct rnic core;
    struct roce_options options;
    struct net *net;
    pthread_mutex_t lock;
    struct net_gids gids;
    int gids_fd; /* -1: changes are not told */
    struct ri_watch *gids_watch, *share_watch;
    _Atomic(struct roce_port *) ports;
    uint32_t groups;          /* of these; under lock */
    struct net_counters left; /* what groups had counted that are left; under the lane's lock */
    struct roce_port *gone;   /* groups whose memory a pass may still use; under lock */
    bool datagrams;           /* a QP for them has begun: all addresses are open. Under lock */
    bool missing;             /* ... but some that could not be opened yet */
    atomic_ullong ahs;
    /* QPs from RTR on, by what is above the slot's bits of their numbers. */
    _Atomic(struct roce_qp *) *table;
    uint32_t shift;
    struct roce_counters counters;
    struct roce_cm cm;
    struct roce_meet meet;
    const struct roce_above *above;
    /* Summed when they are asked for. */
    struct {
        atomic_ullong regions, connections, received, wrong_icrc, outside, overflow;
    } summed;
};

/* In this order: states of InfiniBand that the core does not tell apart. */
enum roce_phase {
    PHASE_IDLE,
    PHASE_INIT, /* to the core: IDLE */
    PHASE_RTR,  /* from here on to the core: RTS */
    PHASE_RTS,
    PHASE_SQD,
};

/* Which wire a QP goes on by: rendezvous.c. */
enum roce_decision { DECISION_NONE, DECISION_OPEN, DECISION_UDP, DECISION_LOCAL };

/*
 * The peer of a connection, by the UDP source port of the first packet that it has said something
 * new with. Own ends send from the UDP port of RoCE itself, which nobody but their user can bind
 * there; others from C000 on (P-050). What comes of an own end's address from another port is of
 * another user of its host.
 */
enum roce_peer {
    PEER_UNKNOWN,
    PEER_OWN,
    PEER_OTHER, /* may change its port */
};

struct roce_qp {
    union { /* by core.type */
        struct qp core;
        struct rc_qp rc;
        struct ud_qp ud;
    };
    atomic_uint phase; /* enum roce_phase; control verbs write it */
    /* Of a QP that is connected by numbers. */
    uint32_t known; /* enum ri_qp_modify_mask */
    struct ri_ah_attr ah;
    struct roce_port *port;
    struct net_path path;
    struct ri_timer timers[RC_SIDES];
    /* Why it stays on UDP with a peer of this host: static text. NULL: it does not, or the peer is
     * of another host. Any thread reads it. */
    _Atomic(const char *) local_why;
    /* Under meet.lock: the own question, and the peer's. */
    enum roce_decision decision;
    struct roce_talk *talk_out, *talk_in;
    /* Requests that are held (rc_qp.held) have waited long enough. `held_timed`: inside tx. */
    struct ri_timer held_timer;
    atomic_bool held_over;
    bool held_timed;
    /* Whose it is: under cm.lock. It is accepted, and the peer was not heard (M-039). */
    struct roce_connection *connection;
    atomic_bool unheard;
    uint32_t groups; /* that it is attached to; under roce_rnic.lock */
    bool opened;     /* a connection has taken it out of IDLE; of control verbs */
    /* The socket had no room for a packet of this QP. */
    atomic_bool waits;
    bool established_reported; /* RI_EVENT_COMMUNICATION_ESTABLISHED; of the pass */
    bool touched;              /* by the run of the pass: rc_flush() follows */
    uint8_t peer;              /* enum roce_peer; of the pass */
    bool crowded;              /* its peer is to send less: a CNP follows; of the pass */
    uint64_t next_cnp;         /* not before; of the pass */
    atomic_bool warned;
    /* Inside tx. The question whether anybody is at the peer's UDP port (net_reach_open), if it was
     * asked; the silence of this connection was told. */
    bool asked;
    int reach;
    bool silence_told;
};

/* An address handle. */
struct roce_ah {
    struct ud_ah ud;
    struct roce_port *port;
    struct net_path path;
};

#define TOUCHED_MAX 64u
/* Datagrams that one system call takes. */
#define ROCE_DATAGRAMS 32u

struct roce_lane {
    struct lane core;
    struct net_rx *rx;
    /* Responses of Reads, whose source may change while they are sent. */
    uint8_t *copies;
    struct roce_qp *touched[TOUCHED_MAX];
    uint32_t touched_count;
};

static inline struct roce_rnic *roce_rnic(const struct rnic *rnic)
{
    return container_of(rnic, struct roce_rnic, core);
}

static inline struct roce_rnic *roce_of(struct ri_rnic *base)
{
    return container_of(base, struct roce_rnic, core.base);
}

static inline struct roce_lane *roce_lane(struct lane *lane)
{
    return container_of(lane, struct roce_lane, core);
}

static inline struct roce_qp *roce_qp(struct rc_qp *rc)
{
    return container_of(rc, struct roce_qp, rc);
}

static inline struct roce_qp *roce_qp_of(struct ri_qp *base)
{
    return container_of(base, struct roce_qp, core.base);
}

static inline bool roce_is_local(const struct roce_qp *qp)
{
    return qp_wire(&qp->core)->slot == WIRE_LOCAL;
}

static inline bool roce_is_datagram(const struct roce_qp *qp)
{
    return qp->core.type == RI_QP_UD;
}

static inline enum roce_phase roce_phase(const struct roce_qp *qp)
{
    return (enum roce_phase)atomic_load_explicit(&qp->phase, memory_order_acquire);
}

/* --- options.c --- */

/* RI_ERR_INVALID_ARGUMENT: a name or a kind is not in the table. */
enum ri_status roce_read_options(struct roce_rnic *device);

/* --- enumerate.c --- */

/* As struct ri_privileged_ops says. */
enum ri_status roce_enumerate(const struct ri_host *host, ri_found_fn found, void *arg);

/* --- ports.c: addresses --- */

/* The GID table as it is now. Under lock, or nobody else knows the RNIC. */
enum ri_status roce_read_gids(struct roce_rnic *device, bool *changed);
enum ri_status roce_query_gids(struct ri_rnic *base, uint32_t port, struct ri_gid *gids,
                               uint32_t *count);
enum ri_status roce_query_port(struct ri_rnic *base, struct ri_port_attr *attr);
/* Octets of payload that every address of the port carries; their code in messages. */
uint32_t roce_mtu(struct roce_rnic *device);
uint8_t roce_mtu_code(struct roce_rnic *device);
/* Opens the path's address and makes the path; *ah: with the source that is used.
 * RI_ERR_UNREACHABLE: as {numbers-attributes} says, or the address cannot be used, which the log
 * explains. */
enum ri_status roce_find_path(struct roce_rnic *device, const struct ri_ah_attr *wanted,
                              struct roce_port **port, struct net_path *path,
                              struct ri_ah_attr *ah);
/* Opens one address of the table; *scope: its interface if it is link-local, else 0.
 * RI_ERR_UNREACHABLE: it is not there, or cannot be used. */
enum ri_status roce_open_address(struct roce_rnic *device, const uint8_t gid[static GID_LEN],
                                 uint32_t *scope);
/* A QP for datagrams begins: what is sent to any address of the table reaches it.
 * RI_ERR_UNREACHABLE: none can be opened. */
enum ri_status roce_open_all(struct roce_rnic *device);
/* An address that is open, and stays so. NULL. Any thread. */
struct roce_port *roce_port_at(struct roce_rnic *device, const uint8_t gid[static GID_LEN]);
/* The host watches its socket for the lane. */
enum ri_status roce_watch_port(struct roce_port *port);
/* What the host's thread watches for the lane, which has been opened. */
enum ri_status roce_watch(struct roce_rnic *device);
/* No upcall comes any more; then the addresses are closed. */
void roce_close_ports(struct roce_rnic *device);

/* --- held.c --- */

/* The carrier's `held`. */
void roce_held(struct rc_qp *rc);
/* The time of the requests that are held begins again. Inside tx. */
void roce_wait_anew(struct roce_qp *qp);
/* The rule of the wire local (struct local_rules). */
uint64_t roce_patience(const struct qp *core, bool dead);

/* --- rendezvous.c --- */

/* The RNIC's part of it, before lanes are made; after nothing runs any more. */
enum ri_status roce_meet_open(struct roce_rnic *device);
void roce_meet_close(struct roce_rnic *device);
/* The lane has been opened; no upcall comes any more. */
enum ri_status roce_meet_watch(struct roce_rnic *device);
void roce_meet_unwatch(struct roce_rnic *device);
/* Peers find the QP, which has been made; it is destroyed. */
void roce_meet_show(struct roce_qp *qp, bool shown);
/* May the QP, whose path is known, leave UDP for the wire local? *why: what stands against it with
 * a peer of this host, a static text; NULL: nothing does, or the peer is of another host. */
bool roce_may_meet(struct roce_qp *qp, uint32_t peer, const char **why);
/* It has come to RTR: it goes by UDP, or its requests are held until it is decided. No lock held;
 * likewise the next one. */
void roce_meet(struct roce_qp *qp);
/* It leaves the connection; or is reset. */
void roce_part(struct roce_qp *qp, bool reset);

/* --- multicast.c --- */

/* {multicast} */
enum ri_status roce_multicast_attach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid);
enum ri_status roce_multicast_detach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid);
/* On interfaces that have appeared. */
void roce_join_groups(struct roce_rnic *device);
/* The memory of those that are left. Not in a pass, without lock. */
void roce_free_groups(struct roce_rnic *device);

/* --- qp1.c: messages of connections --- */

enum ri_status roce_cm_open(struct roce_rnic *device);
void roce_cm_close(struct roce_rnic *device);
/* Does the host have a listener or a connection? */
bool roce_cm_is_used(struct roce_rnic *device);

/* --- carrier.c --- */

extern const struct rc_carrier roce_carrier;
/* A CNP to the QP's peer (P-031). In a pass. */
void roce_send_cnp(struct roce_qp *qp);
/* Datagrams: their address handles are struct roce_ah. */
extern const struct ud_carrier roce_ud_carrier;
/* The socket has room again: those that wait go on. In a pass. */
void roce_resume(struct lane *lane, struct roce_port *port);
/* Packets for the QP are given to it, or not any more. Inside tx. */
void roce_show(struct roce_qp *qp);
/* Its timers. */
void roce_timers_init(struct roce_qp *qp);

/* --- silence.c --- */

/* The carrier's `silent`: tells once what to look at, and asks whether anybody is there. */
const char *roce_silent(struct rc_qp *rc);
/* A request for a connection, or for a service, has no answer. Any thread; also under cm.lock. */
void roce_report_no_answer(struct roce_rnic *device, const struct cm_conn *conn);
/* A new connection begins, or the QP ends: nothing was asked. Inside tx, or nobody else has it. */
void roce_forget_silence(struct roce_qp *qp);
/* The kernel does not send: told once a connection. */
void roce_warn_unsent(struct roce_qp *qp, int error);

/* --- receive.c --- */

uint32_t roce_serve(struct lane *lane, struct cq *first, uint32_t budget);
bool roce_lane_is_idle(const struct lane *lane);

/* --- wire.c --- */

/* Of QPs that are connected by numbers, and what all QPs of the device have. */
extern const struct wire roce_wire;
/* Of QPs for datagrams that are in RTS. */
extern const struct wire roce_ud_wire;

/* --- qp.c, modify.c --- */

enum ri_status roce_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status roce_qp_query(struct ri_qp *base, struct ri_qp_info *info);
enum ri_status roce_qp_destroy(struct ri_qp *base);
/* As InfiniBand has it, of what the core and the phase say. */
enum ri_qp_state roce_qp_state(const struct roce_qp *qp);
enum ri_status roce_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);

/* --- datagrams.c --- */

enum ri_status roce_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr,
                              struct ri_ah **out);
enum ri_status roce_ah_modify(struct ri_ah *base, const struct ri_ah_attr *attr);
enum ri_status roce_ah_destroy(struct ri_ah *base);
/* {qp-ud} */
enum ri_status roce_ud_modify(struct roce_qp *qp, const struct ri_qp_modify *modify);

#endif
