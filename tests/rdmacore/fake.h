/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake rdma-core: a table for `rdmacore` whose devices are controlled by the test. Posted
 * requests wait until the test completes them; events come when the test adds them. Beside it a
 * host (tests/common/fake_host.h) that records upcalls about connections.
 */
#ifndef ITAL_TESTS_RDMACORE_FAKE_H
#define ITAL_TESTS_RDMACORE_FAKE_H

#include "providers/rdmacore/connection.h"
#include "providers/rdmacore/verbs.h"

#include "fake_filters.h"
#include "fake_host.h"

#define FAKE_POSTS    256
#define FAKE_ELEMENTS 4 /* of one request at most; half as many for a Read */

/* ---- devices and modules as the kernel shows them ---- */

/* Starts without devices and kernel modules, in new empty folders. */
void fake_begin(void);
void fake_modules(void); /* ib_uverbs and rdma_ucm are loaded */
/* Adds a device to the kernel; listed: rdma-core lists it too. */
void fake_device(const char *name, bool iwarp, bool listed);
void fake_remove_node(const char *node);
void fake_memlock(uint64_t octets);
/* Of a device that was added; the text is the file's, as the kernel writes it. */
void fake_on_pci(const char *name, const char *address, const char *numa_node);
void fake_two_ports(void);  /* devices have a second port, with packets half as long */
void fake_infiniband(void); /* devices have links of InfiniBand, not Ethernet */
/* Adds an entry to the port's GID table; text is an IPv6 address. The first entry always exists. */
void fake_gid(unsigned int index, const char *text, enum ibv_gid_type type);

/* ---- one device and its objects ---- */

struct fake_cq {
    struct ibv_cq ibv;
    struct ibv_wc ring[FAKE_POSTS];
    atomic_uint head, tail;
    atomic_int armed; /* -1 not, 0 any, 1 solicited */
    atomic_uint events, acknowledged;
    atomic_bool leaving; /* its destruction has begun: not to be used any more */
};

struct fake_qp {
    struct ibv_qp ibv;
    enum ibv_qp_state state;
    struct ibv_qp_attr last; /* of modify */
    int last_mask;
    struct ibv_qp_attr has; /* by all modifies; its state is `state` */
    unsigned int modified[IBV_QPS_ERR + 1];
    struct ibv_send_wr sent[FAKE_POSTS];
    struct ibv_sge sge[FAKE_POSTS];                     /* the first one */
    struct ibv_sge elements[FAKE_POSTS][FAKE_ELEMENTS]; /* all */
    unsigned int sends;
    uint64_t received[FAKE_POSTS]; /* wr_id */
    unsigned int receives;
    unsigned int binds;
    struct ibv_mw_bind bind; /* the last one */
    struct fake_bind {
        struct ibv_mw_bind bind;
        uint32_t before; /* the device's current key, as set by the test */
    } bound[FAKE_POSTS];
};

struct fake_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
};

struct fake_srq {
    struct ibv_srq ibv;
    uint64_t received[FAKE_POSTS];
    unsigned int receives;
    uint32_t limit, max_wr;
};

enum fake_call {
    FAKE_NONE,
    FAKE_CONNECT,
    FAKE_ESTABLISH,
    FAKE_ACCEPT,
    FAKE_REJECT,
    FAKE_DISCONNECT,
    FAKE_NOTIFY,
    FAKE_CALLS
};

struct fake_id {
    struct rdma_cm_id id;
    bool listening, destroyed, sourced; /* by resolve_addr, with a source */
    atomic_uint taken;                  /* events of it that are not acknowledged */
    struct rdma_conn_param param;       /* of the last call with such a parameter */
    uint8_t private_data[256];
    uint8_t private_length;
    atomic_uint calls[FAKE_CALLS];
    uint8_t options[4]; /* by enum RDMA_OPTION_ID_ */
    int patience;       /* of the last resolution, milliseconds */
    struct fake_id *next;
};

struct fake_cq *fake_cq(struct ri_cq *cq);
struct fake_qp *fake_qp(struct ri_qp *qp);
struct fake_srq *fake_srq(struct ri_srq *srq);
struct fake_ah *fake_ah(struct ri_ah *ah);
struct fake_id *fake_id(struct ri_connection *connection);
struct fake_id *fake_ids(void); /* all, newest first */

/* Adds a completion. If its CQ is armed for it, the channel gets an event. */
void fake_complete(struct ri_cq *cq, const struct ibv_wc *wc);
/* Completes the n-th request posted to the QP. */
void fake_sent(struct ri_qp *qp, struct ri_cq *cq, unsigned int n, enum ibv_wc_status status);
void fake_received(struct ri_qp *qp, struct ri_cq *cq, unsigned int n, enum ibv_wc_status status,
                   uint32_t octets);
void fake_async(enum ibv_event_type type,
                void *element); /* ibv_qp, ibv_cq, ibv_srq; ports: a number */
/* Adds an event of the connection manager; conn may be NULL. request: event->id is a new identifier
 * for that listener. */
void fake_cm(struct fake_id *id, enum rdma_cm_event_type type, int status,
             const struct rdma_conn_param *conn);
/* The same for events about datagrams. */
void fake_cm_datagram(struct fake_id *id, enum rdma_cm_event_type type, int status,
                      const struct rdma_ud_param *ud);
struct fake_id *fake_cm_request(struct fake_id *listener, const struct rdma_conn_param *conn);
void fake_cm_device(struct fake_id *id,
                    const char *device); /* what the connection manager resolves to */
unsigned int fake_unacknowledged(void);  /* events taken, but not acknowledged */
/* All events are taken and acknowledged. For tests whose lane is a thread: the objects of an event
 * may not be destroyed before. */
bool fake_is_idle(void);
void fake_fail_posts(
    int error); /* result of the next posts; 0: success; -1: fails, but Sends are queued */
/* The n-th call from now (1: the next) that creates or changes an object fails once; 0: none. */
void fake_fail_call(unsigned int n, int error);
bool fake_call_failed(void); /* that call was made */
void fake_lose_device(void); /* its channels return EIO from now on */
/* Result of destroying calls; 0: success. With EIO or ENODEV (the device is gone) the objects are
 * destroyed nevertheless. */
void fake_fail_destroys(int error);
void fake_fail_destroy(int error);  /* the next one only */
extern unsigned int fake_forgotten; /* how often librdmacm had to rescan the devices */
extern void (*fake_on_modify)(struct ibv_qp *qp); /* called before a QP is modified, unless NULL */
/* Called when the destruction of a CQ has begun, unless NULL. */
extern void (*fake_on_destroy_cq)(void);
extern void (*fake_on_post)(void); /* called by each post of Sends, unless NULL */
extern uint64_t fake_iova;         /* of the last region that was registered with one */
int fake_objects(void);            /* rdma-core's live objects, identifiers included */

/* ---- host ---- */

struct fake_connection {
    unsigned int count;
    struct ri_connection_event event[8];
    uint8_t private_data[256];
};
extern struct fake_connection fake_events; /* events of all connections */
extern struct ri_connection *fake_asked;   /* by the last request */
extern bool fake_no_memory;                /* the host has no memory for requests */
extern struct ri_connect_request fake_request;
/* Of the last request or event of a connection; size 0: none. */
extern struct ri_connection_numbers fake_numbers;
extern unsigned int fake_rnic_events;
extern struct ri_event fake_rnic_event; /* the last one */

struct fake_set {
    struct fake_host host;
    struct ri_pd *pd;
    struct ri_cq *cq;
    struct ri_qp *qp;
    struct fake_record cq_record, qp_record, srq_record;
};

/* A device, a PD, one CQ and one QP with 8 requests per queue; connected on request. */
void fake_open(struct fake_set *set, bool connected);
struct ri_qp *fake_make_qp(struct fake_set *set, struct ri_srq *srq, struct fake_record *record);
void fake_connect_qp(struct ri_qp *qp);
void fake_close(struct fake_set *set);
void fake_run(struct fake_set *set); /* runs the lane once, with all ready descriptors */

#endif
