/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QP 1 of a net: MADs in and out, and the services of all processes of a user. For a connection
 * manager.
 *
 *     gsi_open(net, received, context, &gsi, &why);
 *     watch gsi_fd(gsi) for reading: gsi_serve(gsi);
 *     watch net_port_fd(port, NET_GSI) for net_port_events(), for each port: in a pass
 *     gsi_read(gsi, port, rx);
 *     a packet of net_next() with destination QPN 1: gsi_take(gsi, port, &packet, &parsed);
 *     gsi_bind(gsi, &service, &binding, &why); gsi_listen(gsi, binding, &why);
 *     gsi_send(gsi, port, &path, mad);
 *
 * Which MADs come. One that has a communication ID (or request ID) of this net's slot where the
 * receiver's stands (steer.h) comes by the data socket. REQ, SIDR_REQ, and REJ without a remote ID
 * come to the socket NET_GSI, which all processes of the user hold. Whoever reads one there looks
 * up its service among those of all processes (gsi_bind), and passes it on to the process that has
 * it, or takes it. One that nobody has is taken, with `unclaimed`. The same REQ comes to the same
 * process each time, and so does its REJ. A DREQ comes to NET_GSI, too, and goes on to the process
 * that has the slot of its remote ID; if that has ended, whoever reads it takes it (M-035). A MAD
 * that cannot be passed on is lost, as on any way: senders repeat (M-030).
 *
 * A listener at all addresses has to open a port for each: nothing comes to an address that no
 * process has open. A MAD may be of an address that this process has not opened, if others have.
 *
 * Threads. gsi_open(), gsi_close(), gsi_bind() to gsi_unbind(): any thread; they take the lock of
 * the process and may block up to a second, if another process is stopped while it registers a
 * service. gsi_comm_id(), gsi_send(), gsi_pass_dreq(), gsi_fd(), gsi_count(): any thread, without a
 * lock. gsi_serve(), gsi_read(), gsi_take(), gsi_flush(): the net's receiving thread, one at a
 * time. They call `received`, within, without any lock of net; it may call all of gsi.h but
 * gsi_close() and these four, and net_port_open().
 *
 * Fork. In the child only gsi_close() may be called; it leaves the parent's services alone.
 */
#ifndef ITAL_SOFTROCE_GSI_H
#define ITAL_SOFTROCE_GSI_H

#include "gsi_mad.h"
#include "net.h"

#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/cma.h"
#include "providers/software/roce/codec/mad.h"

struct gsi;

/* ---- in -------------------------------------------------------------------------------------- */

typedef void gsi_received(void *context, const struct gsi_mad *mad);

/* One for each net. The ports of the net may come and go. RI_ERR_NO_RESOURCES, RI_ERR_PERMISSION
 * (no Unix socket): *why. */
enum ri_status gsi_open(struct net *net, gsi_received *received, void *context, struct gsi **gsi,
                        struct net_why *why);
/* Its services are free then. Before net_close(). */
void gsi_close(struct gsi *gsi);

/* Readable: another process passes MADs on. Level-triggered: gsi_serve() takes some. */
int gsi_fd(const struct gsi *gsi);
void gsi_serve(struct gsi *gsi);
/* Reads the port's NET_GSI, one system call; what `rx` had is lost, as in net_receive(). Returns
 * datagrams; as many as `rx` takes: there may be more. */
uint32_t gsi_read(struct gsi *gsi, struct net_port *port, struct net_rx *rx);
/* Are there MADs that gsi_read() has for other processes, whose mailboxes were full? Then
 * gsi_flush() is to be called about each millisecond, until it is false. */
bool gsi_holds(const struct gsi *gsi);
/* They are tried again; for a mailbox that stays full for fifty of these they are dropped. True:
 * some wait still. */
bool gsi_flush(struct gsi *gsi);
/* A packet to QP 1 from NET_DATA; of bth_parse(). Dropped and counted unless it is a MAD. */
void gsi_take(struct gsi *gsi, const struct net_port *port, const struct net_packet *packet,
              const struct bth_packet *parsed);

/* ---- out ------------------------------------------------------------------------------------- */

/* A communication ID or request ID of this net; random, never 0. The caller knows which are in use.
 * 0: the kernel gives no random octets. */
uint32_t gsi_comm_id(const struct gsi *gsi);

/*
 * Sends a MAD of MAD_LEN octets from the port's address to QP 1 of the path's. It has left when the
 * call returns, or it is lost, as on the way. RI_ERR_UNREACHABLE: the kernel refuses: no route, a
 * firewall; errno.
 */
enum ri_status gsi_send(struct gsi *gsi, struct net_port *port, const struct net_path *path,
                        const uint8_t mad[static MAD_LEN]);

/*
 * Behind gsi_send() of a MAD to an address of this host. If it is a DREQ for another process of
 * this user, that gets a copy in its mailbox at once. The packet comes to NET_GSI: the process that
 * reads it there may end before it has passed it on, and it may be this one, which leaves. The
 * receiver takes both. Any thread, without a lock.
 */
void gsi_pass_dreq(struct gsi *gsi, const struct net_port *port,
                   const uint8_t destination[static GID_LEN], const uint8_t mad[static MAD_LEN]);

/* ---- services -------------------------------------------------------------------------------- */

#define GSI_SERVICES 1024u /* of all processes of a user */

enum gsi_family {
    GSI_IPV4 = 1,
    GSI_IPV6 = 2,
};

struct gsi_service {
    uint64_t id;
    uint8_t gid[GID_LEN]; /* zeros: all addresses of `families` */
    uint32_t scope;       /* of a link-local address */
    uint8_t families;     /* enum gsi_family; not looked at if gid is set */
    bool reuse;           /* RDMA_OPTION_ID_REUSEADDR */
};

/*
 * Takes a service: until gsi_unbind(), gsi_close() or the death of the process nobody else gets it,
 * at the same address or at one of all where either has all. Two with `reuse` may have it together
 * (then only one of them can listen, and only if it is alone). RI_ERR_ADDRESS_IN_USE: a process
 * that lives has it. RI_ERR_LIMIT: GSI_SERVICES are taken. RI_ERR_TIMED_OUT: another process is
 * stopped while it registers one. RI_ERR_NO_RESOURCES, RI_ERR_DEVICE (before a fork). *why is set
 * unless RI_OK.
 *
 * Not for the source port of who connects, unless the program has chosen it: a number drawn at
 * random is enough there, as nothing is sent to it.
 */
enum ri_status gsi_bind(struct gsi *gsi, const struct gsi_service *service, uint32_t *binding,
                        struct net_why *why);
/* The same at a free port of a port space, 32768 to 60999, drawn at random; service->id is set. */
enum ri_status gsi_bind_any(struct gsi *gsi, enum cma_port_space space, struct gsi_service *service,
                            uint32_t *binding, struct net_why *why);
/* From now on its REQs and SIDR_REQs come here. RI_ERR_ADDRESS_IN_USE: another has the same
 * service, by `reuse`. Others as of gsi_bind(). */
enum ri_status gsi_listen(struct gsi *gsi, uint32_t binding, struct net_why *why);
void gsi_unbind(struct gsi *gsi, uint32_t binding);

/* ---- counters -------------------------------------------------------------------------------- */

struct gsi_counters {
    uint64_t received;  /* given to `received` */
    uint64_t malformed; /* to QP 1, and no MAD of communication management from a Q_Key that is
                           right (M-001, M-003) */
    uint64_t passed_on, passed_in;
    uint64_t not_passed; /* lost: the other process's queue stayed full, or it has ended */
    uint64_t forged;     /* dropped from gsi_fd(): of another user, or not understood */
};
void gsi_count(const struct gsi *gsi, struct gsi_counters *counters);

#endif
