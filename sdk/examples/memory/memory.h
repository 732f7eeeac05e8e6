/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.h - what the files of the provider `memory` share: objects, and who does what.
 *
 * Two QPs of one host, in one process or in two, exchange frames through rings in shared memory.
 * A UNIX socket beside them carries the connection's set-up and end, and wakes a lane that sleeps.
 *
 * Locks: that of the RNIC (rnicpi_mem.h) guards everything but the CQs. No upcall is made under it:
 * events of QPs and connections are told by the next run of the lane (rnicpi_upcalls.h).
 */
#ifndef VP_MEMORY_H
#define VP_MEMORY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, accept4: before any header of the system */
#endif

#include <rnicpi.h>
#include <rnicpi_channel.h>
#include <rnicpi_mem.h>
#include <rnicpi_rc.h>
#include <rnicpi_set_a.h>
#include <rnicpi_set_a_rc.h>
#include <rnicpi_util.h>

#define MAX_SGE     4u
#define MAX_DEPTH   RI_RC_DEPTH /* IRD and ORD */
#define MAX_OBJECTS (1u << 16)  /* PDs, CQs, QPs, AHs, of each */
#define MAX_MESSAGE (UINT32_C(1) << 30)
#define MAX_UD      4096u /* octets of a datagram */
#define GRH         40u
/* Q_Keys with that bit need privileges (InfiniBand 1 3.5.3), which nobody has here. */
#define CONTROLLED_QKEY 0x80000000u
#define ROOM            (1u << 17) /* octets of a ring */

struct rnic {
    struct ri_mem_rnic mem;
    struct ri_set_a set;
    TAILQ_HEAD(, mailbox) mailboxes;
    uint32_t pass;
};

struct ah {
    struct ri_mem_ah mem;
    bool here; /* its destination is this host */
};

struct qp {
    struct ri_rc rc;
    struct mailbox *mailbox; /* UD */
};

/* The socket of a UD QP. It outlives the QP until no thread reads it. */
struct mailbox {
    struct ri_watched watched;
    struct rnic *rnic;
    struct qp *qp; /* NULL: destroyed */
    TAILQ_ENTRY(mailbox) link;
    uint64_t patience; /* until when the oldest datagram waits for room; 0: none waits */
};

/* In shared memory. The peer may write anything here: see ring_in(). */
struct ring {
    _Alignas(64) atomic_uint head; /* octets read so far */
    _Alignas(64) atomic_uint tail; /* octets written so far */
    /* The lane of the reader sleeps, and wants a BELL when anything changes. */
    _Alignas(64) atomic_uint sleeps;
};

#define SHARED_OCTETS (4096u + 2 * ROOM)

struct half {
    struct ring *ring;
    uint8_t *octets;   /* mapped twice, one after the other: no frame is cut at the end */
    uint32_t position; /* this side's: tail of the one that it writes, head of the other */
};

struct connection {
    struct ri_channel channel; /* the socket */
    struct half in, out;
    struct ri_ah_attr path; /* told with a service's reply */
    uint32_t pass;
};

/* vp_memory.c */
extern const uint8_t own_gid[16];

/* qp.c: what is more than reliable connections */
enum ri_status vp_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status vp_qp_destroy(struct ri_qp *base);

/* traffic.c: all under the lock; ri_mem_report() follows. */
uint8_t *rc_put(struct ri_rc *rc, const struct ri_segment *segment);
/* Everything that can be done for a connected QP now. Returns the segments moved. */
uint32_t serve_qp(struct qp *qp);
void serve(struct ri_mem_qp *base);
/* Is there nothing that serve() could do now? */
bool is_quiet(struct connection *connection);

/* shared.c */
/* The two rings: made anew, or those that the peer has sent (*memory >= 0). */
bool shared_open(struct connection *connection, int *memory);
void shared_close(struct connection *connection);
/* Room for one segment more. */
bool ring_has_room(const struct half *out);
/* Octets that can be read; ROOM + 1 or more: the peer has broken the ring. */
uint32_t ring_in(const struct half *in);
/* What was written, or read, is the peer's to see. */
void ring_publish(struct connection *connection, struct half *half);

/* connect.c */
extern const struct ri_carrier carrier;
/* The `ready` of a connection's socket. */
void connection_ready(void *connection, uint32_t events);

/* socket.c: the socket beside the rings */
struct message {
    uint32_t bell; /* 1: nothing else is in it */
    struct ri_cm_message cm;
};
struct sockaddr_un;
/* The name of a socket with that port: the host has one for connections and one for datagrams per
 * port number, whatever the address. Returns its length. */
socklen_t socket_name(struct sockaddr_un *name, uint16_t port, bool datagram);
/* The port, host order. NOT_SUPPORTED: a service ID that is not of such a port. UNREACHABLE: an
 * address that is not this host's. */
enum ri_status port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                       uint16_t *port);
/* A socket with that port; 0: one that is free, which is written. */
enum ri_status socket_open(uint16_t *port, bool datagram, int *fd);
/* ri_carrier.listen. */
enum ri_status socket_listen(struct ri_mem_listener *listener, uint16_t *port);
/* `memory` -1: no descriptor goes with it. */
bool socket_send(int fd, const struct message *message, int memory);
/* 1: a message, and perhaps a descriptor; 0: the peer's end; -1: nothing now. */
int socket_receive(int fd, struct message *message, int *memory);
void bell(struct connection *connection);

/* datagram.c */
enum ri_status vp_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr, struct ri_ah **out);
enum ri_status vp_ah_modify(struct ri_ah *ah, const struct ri_ah_attr *attr);
enum ri_status mailbox_open(struct qp *qp);
void mailbox_close(struct qp *qp);
/* What is posted leaves. A datagram waits for a while if its destination has no room. Returns how
 * many have left. Under the lock. */
uint32_t send_datagrams(struct qp *qp);
/* Those that wait; returns when to look again. Under the lock. */
uint64_t mailboxes_serve(struct rnic *rnic);

#endif
