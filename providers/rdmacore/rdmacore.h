/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The providers over rdma-core: an open device, its memory, and declarations for all files here.
 * Queues and queue pairs: qp.h; connections: connection.h; operations of the provider's table:
 * verbs.h.
 *
 * Lock order: connection.lock, rnic.lock (QP <-> connection), wq.lock (send before receive),
 * cq.lock, srq.lock. No upcall is made under a lock. connection.lock is held across calls of
 * librdmacm, which report by events.
 *
 * Waiting for upcalls: events of rdma-core are acknowledged after the upcall, and its destroy
 * functions wait for that. Upcalls from poll, and the report of the device's failure to all QPs,
 * are counted in `upcalls` of the object.
 *
 * If the device fails or is removed (rdmacore_failed), all QPs end and their work is flushed at
 * once, because the device will not do it. Then it is reported to the host. From then on destroy
 * calls of rdma-core may fail, which does not matter.
 */
#ifndef ITAL_RDMACORE_RDMACORE_H
#define ITAL_RDMACORE_RDMACORE_H

#include "calls.h"
#include "rnicpi_util.h"

#include "base/compiler.h"
#include "base/spinlock.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#define HASH_NONFATAL_OOM 1 /* a hash entry that could not be added has no hh.tbl */
#include <uthash.h>

struct qp;
struct connection_timers;

/* One of the providers over this library. */
struct kind {
    const char *provider; /* "rnic", "ib": the first part of device names */
    enum ri_transport transport;
    const char *what;   /* text: the devices that it supports */
    const char *others; /* and the provider of the other devices */
    const char *how;    /* how to make a device without hardware */
};

struct lane {
    struct ri_lane base;
    struct ri_watch *completions, *events, *connections;
};

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    const struct kind *kind;
    char device[IBV_SYSFS_NAME_MAX];
    struct ibv_context *verbs;
    struct ibv_comp_channel *channel;
    struct rdma_event_channel *cm;
    /* Receives the removal event of drivers that do not report it elsewhere. NULL: no address to
     * bind */
    struct rdma_cm_id *guard;
    struct ri_rnic_attr attr;
    bool iwarp, windows;
    bool ethernet; /* link layer of its ports: RoCE, not InfiniBand */
    bool drowsy;   /* siw: see connection_event.c */
    struct lane lane;
    /* Of every connection */
    const struct connection_timers *timers;
    uint32_t inline_octets;
    uint32_t write_elements, read_elements;  /* of the device; attr has more, see split.c */
    uint64_t connect_timeout, close_timeout; /* ns */
    atomic_uint pds, cqs, qps, mrs, mws, srqs, ahs, connections, listeners;
    atomic_bool failed; /* the device was removed or has failed */
    pthread_mutex_t lock;
    struct qp *all; /* QPs, utlist. Under lock */
    struct spinlock windows_lock;
    struct mw *table; /* windows by STag. Under windows_lock */
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
    struct ibv_pd *ibv;
    atomic_uint users;
};

struct mr {
    struct ri_mr base;
    struct pd *pd;
    struct ibv_mr *ibv;
    void *addr;
    uint64_t length;
};

struct ah {
    struct ri_ah base;
    struct pd *pd;
    struct ibv_ah *ibv;
};

/* ---- status.c ---- */
/* The error number of a call that returned rc: a positive or negative error number, or -1 with
 * errno. */
int rdmacore_errno(int rc);
enum ri_status rdmacore_status(int error);
enum ri_status rdmacore_post_status(int error); /* of a post */
enum ri_wc_status rdmacore_wc_status(enum ibv_wc_status status);
/* The reason for an event of the connection manager. Rejected: status is a reason of the IB CM, or
 * -errno. */
enum ri_connection_reason rdmacore_reject_reason(int status);
enum ri_connection_reason rdmacore_errno_reason(int error);
bool rdmacore_consumer_rejected(const struct rnic *rnic, int status);
/* A destroy call of rdma-core has returned this error (0: success). True: the object does not exist
 * any more; so it is, too, if its device was removed. */
bool rdmacore_destroyed(const struct rnic *rnic, int error);

/* ---- discover.c ---- */
enum ri_status rdmacore_enumerate(const struct kind *kind, const struct ri_host *host,
                                  ri_found_fn found, void *arg);
/* Finds the device called `name` ("siw0" or "rnic:siw0") in a list. NULL: not present, or not of
 * this kind. */
struct ibv_device *rdmacore_find(const struct kind *kind, struct ibv_device **list,
                                 const char *name);

/* ---- device.c ---- */
enum ri_status rdmacore_open(const struct kind *kind, const struct ri_open *open,
                             struct ri_rnic **out);
extern const struct ri_user_ops rdmacore_user;
void rdmacore_attributes(struct rnic *rnic, const struct ibv_device_attr_ex *device,
                         const struct ibv_port_attr *port);

/* ---- port.c ---- */
#define RDMACORE_GIDS 64u            /* entries of a port's GID table that are read */
uint32_t port_mtu(enum ibv_mtu mtu); /* octets */

/* ---- memory.c ---- */
int rdmacore_access(uint32_t access, bool windows); /* converts enum ri_access to that of verbs */

static inline struct rnic *rnic_of(struct ri_rnic *base)
{
    return container_of(base, struct rnic, base);
}

#endif
