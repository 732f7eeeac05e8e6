/* SPDX-License-Identifier: BSD-3-Clause
 *
 * it_api.h - the consumer interface: IT-API 2.1 (Interconnect Transport API, The Open Group).
 *
 * Contents
 *   1  Bindings and old names                 6  Events
 *   2  Status, scalar types, handles          7  Endpoints, address handles, objects' attributes
 *   3  Addresses, qualifiers, Paths           8  Calls
 *   4  Interface attributes                   9  C++: operators for mask types
 *   5  Memory and data transfer types
 *
 * Terms: Consumer - the program that calls. IA - an opened Interface. Spigot - a port of it, with
 * addresses of its own. PZ - protection zone. LMR, RMR - local and remote memory region. EP -
 * Endpoint, one end of a connection (RC) or a datagram socket (UD). DTO - data transfer operation.
 * EVD - event dispatcher: simple (SEVD), fed by one stream of events, or aggregate (AEVD), fed by
 * SEVDs. S-RQ - receive queue shared by EPs. IRD, ORD - RDMA Reads that an EP can answer, can issue
 * at once.
 *
 * Rules for all calls
 *   Return    IT_SUCCESS, or the reason why nothing was started; no event follows a call that
 *             failed. An error that is found later arrives as an event. errno is neither used nor
 *             kept.
 *   Outputs   are written on IT_SUCCESS only, unless the call says otherwise.
 *   Errors    each call lists its own. Besides those, every call that takes a handle may return
 *             IT_ERR_IA_CATASTROPHE: the handle was made before a fork() and this process is the
 *             child, which has to open adapters of its own; or the adapter is dead. The objects of
 *             a dead adapter can be freed, its queued events can be dequeued, and the context
 *             calls work; every wait ends.
 *             Every call that takes a pointer to data may return IT_ERR_FAULT: the pointer is NULL
 *             where data is needed.
 *             IT_ERR_OP_NOT_SUPPORTED comes from calls that the IA or its transport does not have.
 *   Handles   opaque, valid in this process only. NULL, a freed handle or one of the wrong kind
 *             returns the call's IT_ERR_INVALID_<kind>. Freeing is refused with IT_ERR_<kind>_BUSY
 *             where
 *             other objects depend on the object, where the standard has such a code.
 *   Threads   any call from any thread at any time, also on the same object. Order between threads
 *             is the Consumer's responsibility: do not free a single object that another thread is
 *             using. it_ia_free is allowed at any time. No call is allowed in a signal handler.
 *   Blocking  "does not block" = never waits for the peer, a device or another thread's call; short
 *             internal locks are possible. Calls without that remark may block.
 *   Pointers  the library uses arguments during the call only and copies what it needs. The memory
 *             that segments of a DTO describe is the library's until the DTO's completion is
 *             dequeued.
 *   Time      microseconds; IT_TIMEOUT_INFINITE waits for ever.
 *   Order     Addresses and connection qualifiers are in network order. RDMA addresses, RMR
 *             Contexts, cookies, lengths and the operands of atomics are host-order integers.
 *             Private data and payload are bytes.
 *   Masks     a query writes the members whose bit is given; ..._PARAM_ALL selects all. A modify
 *             reads those members and refuses ..._PARAM_ALL. No bit, or an unknown one:
 *             IT_ERR_INVALID_MASK.
 *
 * docs/status.md lists the calls that this release implements; the others return
 * IT_ERR_OP_NOT_SUPPORTED. <itx_api.h> has what goes beyond the standard; ITAPI_WIDE_COOKIE
 * includes it.
 */
#ifndef _IT_API_H
#define _IT_API_H

#include "it_api_os_specific.h"
#ifdef ITAPI_WIDE_COOKIE
#include "itx_wide_cookie.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * 1. Bindings and old names
 *
 * The standard changed the arguments of three calls between versions. A program chooses a version
 * by defining ITAPI_ENABLE_V20_BINDINGS or ITAPI_ENABLE_V21_BINDINGS before it includes this
 * header; with neither it gets version 1.0, with both version 2.0. The choice affects source names
 * only: the library has every form, so objects compiled with different bindings may be linked
 * together. It is independent of the version that it_ia_create asks for.
 *
 *   written         1.0              2.0              2.1
 *   it_lmr_create   it_lmr_create10  it_lmr_create20  it_lmr_create21
 *   it_rmr_create   it_rmr_create10  it_rmr_create20  it_rmr_create20
 *   it_rmr_bind     it_rmr_bind10    it_rmr_link      it_rmr_link
 */
#ifndef ITAPI_ENABLE_V10_BINDINGS
#define ITAPI_ENABLE_V10_BINDINGS
#endif
#if defined(ITAPI_ENABLE_V20_BINDINGS) || defined(ITAPI_ENABLE_V21_BINDINGS)
#undef ITAPI_ENABLE_V10_BINDINGS
#endif

#if defined(ITAPI_ENABLE_V10_BINDINGS)
#define it_lmr_create it_lmr_create10
#define it_rmr_create it_rmr_create10
#define it_rmr_bind   it_rmr_bind10
#elif defined(ITAPI_ENABLE_V20_BINDINGS)
#define it_lmr_create it_lmr_create20
#define it_rmr_create it_rmr_create20
#define it_rmr_bind   it_rmr_link
#else
#define it_lmr_create it_lmr_create21
#define it_rmr_create it_rmr_create20
#define it_rmr_bind   it_rmr_link
#endif

/* Names of version 1.0 that later versions changed; they work with every binding. */
#define rdma_read_inflight_incoming rdma_read_ird
#define rdma_read_inflight_outgoing rdma_read_ord
#define ird_support                 ird_ord_ia_support
#define ord_support                 ird_ord_ia_support
#define it_make_rdma_addr           it_make_rdma_addr_absolute
#define it_lmr_sync_rdma_read       it_lmr_flush_to_mem
#define it_lmr_sync_rdma_write      it_lmr_refresh_from_mem
#define it_rmr_unbind               it_rmr_unlink

/* Direction words of the standard's synopses; they expand to nothing. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif

/* ------------------------------------------------------------------------------------------------
 * 2. Status, scalar types, handles
 */

/* Status of a call. itx_status_text() in <itx_api.h> returns a sentence for each. */
typedef enum {
    IT_SUCCESS = 0,
    IT_ERR_ABORT = 1,                  /* the object was freed during the wait, or OS failure */
    IT_ERR_ACCESS = 2,                 /* the memory does not grant a needed privilege */
    IT_ERR_ADDRESS = 3,                /* memory range not mapped in this process */
    IT_ERR_AEVD_NOT_ALLOWED = 4,       /* an AEVD cannot be given here */
    IT_ERR_ASYNC_AFF_EVD_EXISTS = 5,   /* the IA has an SEVD for affiliated events already */
    IT_ERR_ASYNC_UNAFF_EVD_EXISTS = 6, /* ... for unaffiliated events already */
    IT_ERR_CALLBACK_EXISTS = 7,        /* the EVD has a callback */
    IT_ERR_CANNOT_RESET = 8,           /* EP not in a state that can be reset */
    IT_ERR_CONN_QUAL_BUSY = 9,         /* connection qualifier in use */
    IT_ERR_EP_BUSY = 10,               /* outstanding work forbids the change */
    IT_ERR_EP_TIMEWAIT = 11,           /* the EP's last connection is in TIME_WAIT */
    IT_ERR_EVD_BUSY = 12,              /* EVD in use */
    IT_ERR_EVD_WAIT = 13,              /* a thread waits on the EVD */
    IT_ERR_EVD_QUEUE_FULL = 14,        /* no room on the SEVD for a software event */
    IT_ERR_FAULT = 15,                 /* NULL where data is needed */
    IT_ERR_HARD_HI_WATERMARK = 16,     /* hard high watermark not available */
    IT_ERR_IA_CATASTROPHE = 17,        /* the IA is dead */
    IT_ERR_INTERRUPT = 18,             /* a signal handler ran and ended the wait */
    IT_ERR_INVALID_ADDR_MODE = 19,     /* addressing mode unknown or not supported */
    IT_ERR_INVALID_ADDRESS = 20,       /* address unusable: alignment, I/O address */
    IT_ERR_INVALID_AEVD = 21,          /* not an AEVD */
    IT_ERR_INVALID_AH = 22,            /* not an address handle */
    IT_ERR_INVALID_ATIMEOUT = 23,      /* IB: local_ack_timeout */
    IT_ERR_INVALID_ATOMIC_OP = 24,     /* unknown atomic operation */
    IT_ERR_INVALID_CM_RETRY = 25,      /* IB: max_cm_retries */
    IT_ERR_INVALID_CN_EST_FLAGS = 26,  /* flags of it_ep_connect */
    IT_ERR_INVALID_CN_EST_ID = 27,  /* establishment id unknown, used, or withdrawn by the peer */
    IT_ERR_INVALID_CONN_EVD = 28,   /* connect EVD: not an EVD, or of another IA */
    IT_ERR_INVALID_CONN_QUAL = 29,  /* connection qualifier: type or value */
    IT_ERR_INVALID_CONVERSION = 30, /* address or socket cannot be converted */
    IT_ERR_INVALID_DTO_FLAGS = 31,  /* DTO flags do not suit the call */
    IT_ERR_INVALID_EP = 32,         /* not an EP */
    IT_ERR_INVALID_EP_ATTR = 33,    /* EP attribute */
    IT_ERR_INVALID_EP_KEY = 34,     /* UD key */
    IT_ERR_INVALID_EP_STATE = 35,   /* not possible in the EP's state */
    IT_ERR_INVALID_EP_TYPE = 36,    /* not possible for the EP's service type */
    IT_ERR_INVALID_EVD = 37,        /* not an EVD */
    IT_ERR_INVALID_EVD_STATE = 38,  /* EVD disabled, overflowed, or owned by an AEVD */
    IT_ERR_INVALID_EVD_TYPE = 39,   /* wrong event stream */
    IT_ERR_INVALID_FLAGS = 40,      /* flags argument */
    IT_ERR_INVALID_HANDLE = 41,     /* no handle of any kind */
    IT_ERR_INVALID_IA = 42,         /* not an IA */
    IT_ERR_INVALID_IOBL = 43,       /* I/O buffer list */
    IT_ERR_INVALID_LENGTH = 44,     /* length */
    IT_ERR_INVALID_LISTEN = 45,     /* not a Listen point */
    IT_ERR_INVALID_LMR = 46,        /* not an LMR, or of another PZ */
    IT_ERR_INVALID_LTIMEOUT = 47,   /* IB: local_cm_timeout */
    IT_ERR_INVALID_MAJOR_VERSION = 48,  /* API major version not supported */
    IT_ERR_INVALID_MASK = 49,           /* empty mask, unknown bit, or read-only member */
    IT_ERR_INVALID_MINOR_VERSION = 50,  /* API minor version not supported */
    IT_ERR_INVALID_NAME = 51,           /* no Interface of that name */
    IT_ERR_INVALID_NETADDR = 52,        /* network address */
    IT_ERR_INVALID_NUM_SEGMENTS = 53,   /* too many segments */
    IT_ERR_INVALID_PDATA_LENGTH = 54,   /* private data too long for the message */
    IT_ERR_INVALID_PRIVS = 55,          /* privileges unknown or contradictory */
    IT_ERR_INVALID_PZ = 56,             /* not a PZ, or objects of different PZs */
    IT_ERR_INVALID_QUEUE_SIZE = 57,     /* SEVD queue size */
    IT_ERR_INVALID_RECV_DTO = 58,       /* number of receive DTOs */
    IT_ERR_INVALID_RECV_EVD = 59,       /* receive EVD */
    IT_ERR_INVALID_RECV_EVD_STATE = 60, /* receive EVD disabled or overflowed */
    IT_ERR_INVALID_REQ_EVD = 61,        /* request EVD */
    IT_ERR_INVALID_REQ_EVD_STATE = 62,  /* request EVD disabled or overflowed */
    IT_ERR_INVALID_RETRY = 63,          /* IB: retry_count */
    IT_ERR_INVALID_RMR = 64,            /* not an RMR */
    IT_ERR_INVALID_RNR_RETRY = 65,      /* IB: rnr_retry_count */
    IT_ERR_INVALID_RMR_TYPE = 66,       /* RMR type unknown or not supported */
    IT_ERR_INVALID_RTIMEOUT = 67,       /* IB: remote_cm_timeout */
    IT_ERR_INVALID_SOFT_EVD = 68,       /* not an SEVD for software events */
    IT_ERR_INVALID_SOURCE_PATH = 69,    /* local part of the Path does not belong to the IA */
    IT_ERR_INVALID_SPIGOT = 70,         /* no such Spigot */
    IT_ERR_INVALID_SRQ = 71,            /* not an S-RQ */
    IT_ERR_INVALID_SRQ_SIZE = 72,       /* S-RQ size */
    IT_ERR_INVALID_THRESHOLD = 73,      /* SEVD threshold above the queue size */
    IT_ERR_INVALID_UD_STATUS = 74,      /* status of a UD service reply */
    IT_ERR_INVALID_UD_SVC = 75,         /* not a UD service request handle */
    IT_ERR_INVALID_UD_SVC_REQ_ID = 76,  /* UD service request unknown or answered */
    IT_ERR_INVALID_WATERMARK = 77,      /* watermark value */
    IT_ERR_LMR_BUSY = 78,               /* RMRs are linked, or the LMR is in the wrong link state */
    IT_ERR_MISMATCH_FD = 79,            /* IT_EVD_CREATE_FD and the descriptor argument disagree */
    IT_ERR_NO_CONTEXT = 80,             /* the object has no Consumer context */
    IT_ERR_NO_PERMISSION = 81,          /* the operating system or the policy refuses */
    IT_ERR_OP_NOT_SUPPORTED = 82,       /* the IA, its transport or this release lacks it */
    IT_ERR_PAYLOAD_SIZE = 83,           /* max_dto_payload_size beyond the IA */
    IT_ERR_PDATA_NOT_SUPPORTED = 84,    /* private data not available here */
    IT_ERR_PRIV_OPS_UNAVAILABLE = 85,   /* privileged operations not enabled for the EP */
    IT_ERR_PZ_BUSY = 86,                /* PZ in use */
    IT_ERR_QUEUE_EMPTY = 87,            /* no event queued */
    IT_ERR_RANGE = 88,                  /* outside the LMR */
    IT_ERR_RESOURCES = 89,              /* out of memory, descriptors, quota or adapter resources */
    IT_ERR_RESOURCE_IRD = 90,           /* more incoming RDMA Reads than available */
    IT_ERR_RESOURCE_LMR_LENGTH = 91,    /* region too long */
    IT_ERR_RESOURCE_ORD = 92,           /* more outgoing RDMA Reads than available */
    IT_ERR_RESOURCE_QUEUE_SIZE = 93,    /* SEVD larger than available */
    IT_ERR_RESOURCE_RECV_DTO = 94,      /* more receive DTOs than available */
    IT_ERR_RESOURCE_REQ_DTO = 95,       /* more request DTOs than available */
    IT_ERR_RESOURCE_RRSEG = 96,         /* more RDMA Read segments than available */
    IT_ERR_RESOURCE_RSEG = 97,          /* more receive segments than available */
    IT_ERR_RESOURCE_RWSEG = 98,         /* more RDMA Write segments than available */
    IT_ERR_RESOURCE_SSEG = 99,          /* more send segments than available */
    IT_ERR_SOFT_HI_WATERMARK = 100,     /* soft high watermark not available */
    IT_ERR_SRQ_BUSY = 101,              /* S-RQ in use */
    IT_ERR_SRQ_LOW_WATERMARK = 102,     /* low watermark above the S-RQ's size */
    IT_ERR_SRQ_NOT_SUPPORTED = 103,     /* the IA has no S-RQs */
    IT_ERR_TIMEOUT_EXPIRED = 104,       /* nothing happened in time */
    IT_ERR_TOO_MANY_POSTS = 105,        /* work queue full */
    IT_ERR_WAITER_LIMIT = 106           /* too many threads wait on the EVD */
} it_status_t;

typedef enum { IT_FALSE = 0, IT_TRUE = 1 } it_boolean_t;

/*
 * Names a region to a peer, which needs it besides the address. A host-order integer: the STag
 * (iWARP) or R_Key (InfiniBand), extended to 64 bits. Send it to the peer with it_hton64().
 */
typedef uint64_t it_rmr_context_t;

typedef uint64_t it_length_t; /* bytes */
typedef uint64_t
    it_rdma_addr_t; /* address in the peer's terms: made by it_make_rdma_addr_*() there */

typedef uint64_t it_ud_svc_req_identifier_t; /* pending UD service request; good for one reply */
typedef uint64_t
    it_cn_est_identifier_t; /* pending connection; good for one accept, reject, handoff */

typedef uint32_t it_ud_ep_id_t;  /* IB: queue pair number */
typedef uint32_t it_ud_ep_key_t; /* IB: Q_Key */

/* A handle of any kind. Calls that take it detect the kind. */
typedef void *it_handle_t;

#define IT_NULL_HANDLE ((it_handle_t)NULL)

typedef enum {
    IT_HANDLE_TYPE_ADDR = 0,
    IT_HANDLE_TYPE_EP = 1,
    IT_HANDLE_TYPE_EVD = 2,
    IT_HANDLE_TYPE_IA = 3,
    IT_HANDLE_TYPE_LISTEN = 4,
    IT_HANDLE_TYPE_LMR = 5,
    IT_HANDLE_TYPE_PZ = 6,
    IT_HANDLE_TYPE_RMR = 7,
    IT_HANDLE_TYPE_UD_SVC_REQ = 8,
    IT_HANDLE_TYPE_SRQ = 9
} it_handle_type_enum_t;

/* The structures named here exist nowhere: a handle is an index, never dereferenced. */
typedef struct it_addr_handle_s *it_addr_handle_t;
typedef struct it_ep_handle_s *it_ep_handle_t;
typedef struct it_evd_handle_s *it_evd_handle_t;
typedef struct it_ia_handle_s *it_ia_handle_t;
typedef struct it_listen_handle_s *it_listen_handle_t;
typedef struct it_lmr_handle_s *it_lmr_handle_t;
typedef struct it_pz_handle_s *it_pz_handle_t;
typedef struct it_rmr_handle_s *it_rmr_handle_t;
typedef struct it_ud_svc_req_handle_s *it_ud_svc_req_handle_t;
typedef struct it_srq_handle_s *it_srq_handle_t;

/* A value of the Consumer's that every object can carry; the library does not interpret it. */
typedef union {
    void *ptr;
    uint64_t index;
} it_context_t;

/* ------------------------------------------------------------------------------------------------
 * 3. Addresses, connection qualifiers, Paths
 */

/* Kinds of connection qualifier, which identifies a service at an address. A mask where an
 * Interface lists the kinds that it accepts. */
typedef enum {
    IT_IANA_PORT = 0x1,         /* TCP port of the passive side */
    IT_IB_SERVICEID = 0x2,      /* InfiniBand service ID */
    IT_VIA_DISCRIMINATOR = 0x4, /* VIA discriminator */
    IT_IANA_LR_PORT = 0x8       /* TCP ports of both sides */
} it_conn_qual_type_t;

#define IT_MAX_VIA_DISC_LEN 64 /* bytes */

typedef struct {
    uint16_t len; /* bytes used, 0 to IT_MAX_VIA_DISC_LEN */
    unsigned char discriminator[IT_MAX_VIA_DISC_LEN];
} it_via_discriminator_t;

typedef uint64_t it_ib_serviceid_t; /* network order */

/*
 * Two TCP ports, network order. In it_ep_connect `remote` is the server's port and `local` the own
 * one, 0: any. In it_listen_create `local` is the own port and `remote` is ignored.
 */
typedef struct {
    uint16_t local;
    uint16_t remote;
} it_iana_lr_port_t;

typedef struct {
    it_conn_qual_type_t type; /* selects the member of conn_qual */
    union {
        uint16_t port; /* IT_IANA_PORT; network order */
        it_ib_serviceid_t serviceid;
        it_via_discriminator_t discriminator;
        it_iana_lr_port_t lr_port;
    } conn_qual;
} it_conn_qual_t;

typedef enum {
    IT_IPV4 = 0x1,
    IT_IPV6 = 0x2,
    IT_IB_GID = 0x3,
    IT_VIA_HOSTADDR = 0x4
} it_net_addr_type_t;

#define IT_MAX_VIA_ADDR_LEN 64 /* bytes */

typedef struct {
    uint16_t len; /* bytes used, 0 to IT_MAX_VIA_ADDR_LEN */
    unsigned char hostaddr[IT_MAX_VIA_ADDR_LEN];
} it_via_net_addr_t;

typedef struct in6_addr it_ib_gid_t;

typedef struct {
    it_net_addr_type_t addr_type; /* selects the member of addr */
    union {
        struct in_addr ipv4;
        struct in6_addr ipv6;
        it_ib_gid_t gid;
        it_via_net_addr_t via;
    } addr; /* network order */
} it_net_addr_t;

/*
 * The way from a Spigot to a peer, one structure per transport. The InfiniBand one holds the values
 * of a path record; flow_label, traffic_class and hop_limit count only when subnet_local is 0. Over
 * InfiniBand and RoCE a Path may also have the iWARP form, with IP addresses, as it_get_pathinfo
 * gives it for an IP address: then ip_vers is IT_IP_VERS_IPV4 or IT_IP_VERS_IPV6.
 */
typedef struct {
    uint16_t partition_key;
    uint8_t path_mtu : 4;
    uint8_t packet_lifetime : 6;
    uint16_t local_port_lid;
    uint16_t remote_port_lid;
    it_ib_gid_t local_port_gid;
    it_ib_gid_t remote_port_gid;
    uint8_t packet_rate : 6;
    uint8_t sl : 4;
    uint8_t subnet_local : 1;
    uint32_t flow_label : 20;
    uint8_t traffic_class;
    uint8_t hop_limit;
} it_ib_net_endpoint_t;

typedef it_via_net_addr_t it_via_net_endpoint_t;

typedef enum { IT_IP_VERS_IPV4 = 0x1, IT_IP_VERS_IPV6 = 0x2 } it_ip_vers_t;

typedef union {
    struct in_addr ipv4;
    struct in6_addr ipv6;
} it_in_addr_t;

typedef struct {
    it_ip_vers_t ip_vers; /* of both addresses */
    it_in_addr_t laddr; /* own address, network order; the wildcard address = any of the Spigot's */
    it_in_addr_t raddr; /* the peer's */
} it_iwarp_net_endpoint_t;

/* Named, because C++ allows no type to be defined inside an anonymous union. Use it_path_t. */
union itx_path_endpoint {
    it_ib_net_endpoint_t ib;
    it_via_net_endpoint_t via;
    it_iwarp_net_endpoint_t iwarp;
};

/*
 * A Path: made by it_get_pathinfo or by the Consumer. `remote` is the standard's name of the
 * transport part, `u` that of a widespread variant of this header; they are the same bytes.
 */
typedef struct {
    size_t spigot_id;
    uint64_t timeout; /* for the whole set-up of a connection, active side only; microseconds */
    union {
        union itx_path_endpoint u;
        union itx_path_endpoint remote;
    };
} it_path_t;

/* ------------------------------------------------------------------------------------------------
 * 4. Interface attributes
 */

typedef enum {
    IT_IB_TRANSPORT = 1,
    IT_VIA_IP_TRANSPORT = 2,
    IT_VIA_FC_TRANSPORT = 3,
    IT_IWARP_TCP_TRANSPORT = 4,
    IT_VENDOR_TRANSPORT = 1000
} it_transport_type_t;

/* Reliable connected and unreliable datagram service. */
typedef enum { IT_RC_SERVICE = 0x1, IT_UD_SERVICE = 0x2 } it_transport_service_type_t;

/* One line of it_interface_list. */
typedef struct {
    uint32_t major_version; /* newest API version that the Interface supports */
    uint32_t minor_version;
    it_transport_type_t transport_type;
    char name[IT_INTERFACE_NAME_SIZE]; /* for it_ia_create; NUL-terminated */
} it_interface_t;

typedef struct {
    size_t spigot_id;       /* for other calls; ids need not be consecutive */
    size_t max_rc_send_len; /* bytes in one Send of an RC EP */
    size_t max_rc_rdma_len; /* bytes in one RDMA Read or Write */
    size_t max_ud_send_len; /* bytes in one datagram */
    it_boolean_t spigot_online;
    it_conn_qual_type_t active_side_conn_qual;  /* mask: kinds for connecting and UD requests */
    it_conn_qual_type_t passive_side_conn_qual; /* mask: kinds for listening */
    size_t num_net_addr;
    it_net_addr_t *net_addr; /* num_net_addr addresses, owned by the it_ia_info_t */
} it_spigot_info_t;

typedef struct {
    uint32_t vendor : 24;
    uint16_t device;
    uint32_t revision;
} it_vendor_ib_t;

typedef struct {
    char name[64];
    unsigned long hardware;
    unsigned long provider;
} it_vendor_via_t;

typedef struct {
    it_boolean_t valid_vid; /* IT_FALSE: vid has no meaning */
    unsigned char vid[64];
} it_vendor_iwarp_tcp_t;

/* Forms of an I/O buffer list; a mask where an Interface lists those that it accepts. */
typedef enum {
    IT_IOBL_PAGE_LIST = 0x1,   /* equal elements of a page */
    IT_IOBL_BLOCK_LIST = 0x2,  /* equal elements of any size and alignment */
    IT_IOBL_VE_PAGE_LIST = 0x4 /* elements with a length each */
} it_iobl_type_t;

/* Kinds of RMR; a mask where an Interface lists those that it has. */
typedef enum {
    IT_RMR_TYPE_DEFAULT = 0x0, /* the Interface chooses */
    IT_RMR_TYPE_NARROW = 0x1,  /* accessible over the EP on which it was linked only */
    IT_RMR_TYPE_WIDE = 0x2     /* accessible over every EP of its PZ */
} it_rmr_type_t;

/* A snapshot made by it_ia_query; it_ia_info_free frees it with all that it points to. */
typedef struct {
    char *ia_name;              /* as given to it_ia_create */
    uint32_t api_major_version; /* newest API version of the IA, whatever was asked for */
    uint32_t api_minor_version;
    uint32_t sw_major_version; /* of the provider's software */
    uint32_t sw_minor_version;
    union {
        it_vendor_ib_t ib;
        it_vendor_via_t via;
        it_vendor_iwarp_tcp_t iwarp;
    } vendor;                    /* by transport_type; undefined for IT_VENDOR_TRANSPORT */
    uint32_t dto_alignment_hint; /* bytes; buffers so aligned perform best */
    it_transport_type_t transport_type;
    it_transport_service_type_t supported_service_types; /* mask */
    it_boolean_t ep_work_queues_resizable;    /* max_request_dtos, max_recv_dtos modifiable */
    it_boolean_t three_way_handshake_support; /* IT_CONNECT_FLAG_THREE_WAY possible */
    it_boolean_t private_data_support;
    it_boolean_t max_message_size_support; /* connection requests carry max_message_size */
    it_boolean_t ird_ord_ia_support;       /* IRD and ORD exist; events carry them */
    it_boolean_t ird_ord_suppressible;     /* ..._SUPPRESS_IRD_ORD possible */
    it_boolean_t spigot_online_support;    /* IT_ASYNC_UNAFF_SPIGOT_ONLINE is raised */
    it_boolean_t spigot_offline_support;   /* IT_ASYNC_UNAFF_SPIGOT_OFFLINE is raised */
    size_t connect_private_data_len;       /* bytes; each at most IT_MAX_PRIV_DATA */
    size_t accept_private_data_len;
    size_t reject_private_data_len;
    size_t disconnect_private_data_len;
    size_t ud_req_private_data_len;
    size_t ud_rep_private_data_len;
    size_t num_spigots;
    it_spigot_info_t *spigot_info;        /* num_spigots entries */
    it_evd_handle_t affiliated_err_evd;   /* SEVD of the affiliated stream, or null */
    it_evd_handle_t unaffiliated_err_evd; /* SEVD of the unaffiliated stream, or null */
    it_boolean_t srq_support;
    it_boolean_t hard_hi_watermark_support;
    it_boolean_t soft_hi_watermark_support;
    it_boolean_t srq_resizable;
    it_boolean_t extended_iwarp_qp_states;  /* state changes beyond those of the RDMAC verbs */
    it_boolean_t socket_conversion_support; /* it_socket_convert */
    it_boolean_t rdma_read_ord_increasable; /* ORD of a connected EP may be raised */
    it_boolean_t rdma_read_ird_modifiable;  /* IRD of a connected EP may be changed */
    it_rmr_type_t rmr_types_supported;      /* mask */
    it_boolean_t addr_mode_relative_support;
    it_boolean_t rdma_read_requires_remote_write; /* an RDMA Read's sink needs remote write */
    it_boolean_t ep_rdma_enables_modifiable;      /* rdma_*_enable of a connected EP */
    it_boolean_t rdma_read_local_extensions; /* it_post_rdma_read_to_rmr, IT_UNLINK_LOCAL_SINK */
    it_boolean_t dto_evd_overflow_detection;
    it_boolean_t atomic_support;                  /* it_post_atomic */
    it_boolean_t lmr_link_support;                /* it_lmr_create_unlinked, _link, _unlink */
    it_boolean_t direct_lmr_handle_support;       /* an LMR that takes I/O addresses */
    it_lmr_handle_t direct_lmr_handle;            /* that LMR, or null */
    it_boolean_t post_send_unlink_remote_support; /* it_post_send_and_unlink */
    it_boolean_t narrow_rmr_unlink_support;       /* it_rmr_unlink of narrow RMRs */
    it_boolean_t wide_rmr_unlink_support;         /* ... of wide RMRs */
    it_boolean_t unlink_fence_support;            /* IT_UNLINK_FENCE_FLAG */
    it_iobl_type_t iobl_types_supported;          /* mask */
} it_ia_info_t;

/* ------------------------------------------------------------------------------------------------
 * 5. Memory and data transfer types
 */

/* Privileges of a region. Remote write and atomic access need local write too. */
typedef enum {
    IT_PRIV_NONE = 0x0,
    IT_PRIV_LOCAL_READ = 0x1,
    IT_PRIV_LOCAL_WRITE = 0x2,
    IT_PRIV_LOCAL = 0x3,
    IT_PRIV_DEFAULT = 0x3, /* old name of IT_PRIV_LOCAL */
    IT_PRIV_REMOTE_READ = 0x4,
    IT_PRIV_REMOTE_WRITE = 0x8,
    IT_PRIV_REMOTE = 0xc,
    IT_PRIV_ATOMIC = 0x10,
    IT_PRIV_ALL = 0x1f
} it_mem_priv_t;

/* "None" is a bit of its own; 0 means the same. */
typedef enum {
    IT_LMR_FLAG_NONE = 0x1,
    IT_LMR_FLAG_SHARED = 0x2,       /* may share resources with LMRs of the same shared_id */
    IT_LMR_FLAG_NONCOHERENT = 0x4,  /* the Consumer flushes and refreshes by call */
    IT_LMR_FLAG_NON_SHAREABLE = 0x8 /* promise: nobody will share it */
} it_lmr_flag_t;

/* How addresses inside a region are written: as virtual addresses, or as offsets from its start. */
typedef enum { IT_ADDR_MODE_ABSOLUTE = 0, IT_ADDR_MODE_RELATIVE = 1 } it_addr_mode_t;

typedef struct it_io_addr_s *it_io_addr_t; /* I/O (bus) address; never dereferenced */

typedef struct {
    it_io_addr_t io_addr;
    it_length_t elt_len; /* bytes */
} it_iobl_ve_elt_t;

/* Memory described by I/O addresses; for privileged Consumers. */
typedef struct {
    it_iobl_type_t iobl_type; /* exactly one; selects the member of list */
    union {
        struct {
            it_io_addr_t *list_elt;
            it_length_t elt_len; /* bytes, of every element */
        } ce_list;               /* IT_IOBL_PAGE_LIST, IT_IOBL_BLOCK_LIST */
        struct {
            it_iobl_ve_elt_t *list_elt;
        } ve_list; /* IT_IOBL_VE_PAGE_LIST */
    } list;
    size_t num_elts;
    it_length_t fbo; /* where the memory begins in the first element, bytes */
} it_iobl_t;

/* A segment of a local buffer. */
typedef struct {
    it_lmr_handle_t lmr;
    union {
        void *abs;       /* LMR with absolute addressing */
        it_length_t rel; /* LMR with relative addressing: offset from its start */
        it_io_addr_t io; /* the direct LMR handle */
    } addr;
    it_length_t length; /* bytes; a segment of 0 bytes contributes nothing */
} it_lmr_triplet_t;

/* The same through an RMR: sinks of it_post_rdma_read_to_rmr. */
typedef struct {
    it_rmr_handle_t rmr;
    union {
        void *abs;
        it_length_t rel;
    } addr;
    it_length_t length;
} it_rmr_triplet_t;

/*
 * The Consumer's mark on a work request; comes back unchanged in its completion. With
 * ITAPI_WIDE_COOKIE defined before the header is included: a structure of 24 bytes instead, for
 * programs that were written for one (itx_wide_cookie.h).
 */
#ifdef ITAPI_WIDE_COOKIE
typedef it_Bit192_t it_dto_cookie_t;
#else
typedef uint64_t it_dto_cookie_t;
#endif

/*
 * Flags of a work request; 0 is allowed. Where a flag does not fit the call:
 * IT_ERR_INVALID_DTO_FLAGS.
 * Errors and flushes are always reported, whatever the flags.
 */
typedef enum {
    IT_COMPLETION_FLAG = 0x01,     /* report success too; implied for Receives */
    IT_NOTIFY_FLAG = 0x02,         /* the completion is a Notification Event: it wakes a waiter */
    IT_SOLICITED_WAIT_FLAG = 0x04, /* Sends: the completion of the peer's Receive wakes */
    IT_BARRIER_FENCE_FLAG = 0x08,  /* requests: start after earlier RDMA Reads, atomics ended */
    IT_UNLINK_FENCE_FLAG = 0x10,   /* unlinks: start after all earlier requests ended */
    IT_UNLINK_LOCAL_SINK = 0x20,   /* RDMA Reads: unlink the sink at the end; one segment */
    IT_COALESCE_WR_FLAG = 0x40 /* may be held back until a request without this flag is posted */
} it_dto_flags_t;

/* Outcome of a work request. Anything but success stops the EP. */
typedef enum {
    IT_DTO_SUCCESS = 0,
    IT_DTO_ERR_LOCAL_LENGTH = 1,        /* Receive too short for the message, or request too long */
    IT_DTO_ERR_LOCAL_EP = 2,            /* the EP itself failed */
    IT_DTO_ERR_LOCAL_PROTECTION = 3,    /* a local segment is not accessible as needed */
    IT_DTO_ERR_FLUSHED = 4,             /* the EP became non-operational first */
    IT_RMR_OPERATION_FAILED = 5,        /* link or unlink of an RMR refused */
    IT_DTO_ERR_BAD_RESPONSE = 6,        /* the peer's answer is malformed */
    IT_DTO_ERR_REMOTE_ACCESS = 7,       /* the peer's memory is not accessible as needed */
    IT_DTO_ERR_REMOTE_RESPONDER = 8,    /* the peer could not carry it out */
    IT_DTO_ERR_TRANSPORT = 9,           /* the transport failed: the peer cannot be reached */
    IT_DTO_ERR_RECEIVER_NOT_READY = 10, /* IB: the peer had no Receive for too long */
    IT_DTO_ERR_PARTIAL_PACKET = 11,     /* VIA only */
    IT_DTO_ERR_LOCAL_MM_OPERATION = 12  /* link or unlink of an LMR refused; of a Receive: what the
                                           peer's Send was to unlink may not be */
} it_dto_status_t;

typedef enum { IT_COMPARE_AND_SWAP = 0, IT_FETCH_AND_ADD = 1 } it_atomic_op_t;

/* Address of a UD EP, from UD service replies and UD Receives. */
typedef struct {
    it_ud_ep_id_t ud_ep_id;
    it_ud_ep_key_t ud_ep_key;
} it_remote_ep_info_t;

typedef enum { IT_DG_TYPE_IB_UD = 0 } it_dg_type_t;

typedef struct {
    it_addr_handle_t addr;
    it_remote_ep_info_t ep_info;
} it_ib_ud_addr_t;

/* The destination of it_post_sendto. */
typedef struct {
    it_dg_type_t type; /* selects the member of addr */
    union {
        it_ib_ud_addr_t ud;
    } addr;
} it_dg_remote_ep_addr_t;

/* ------------------------------------------------------------------------------------------------
 * 6. Events
 *
 * An event number is a stream plus a number within it. SEVDs are created for a stream.
 */
#define IT_EVENT_STREAM_MASK 0xff000

#define IT_TIMEOUT_INFINITE ((uint64_t)(-1L))

typedef enum {
    /* Completions of work requests: it_dto_cmpl_event_t, UD Receives it_all_dto_cmpl_event_t. */
    IT_DTO_EVENT_STREAM = 0x00000,
    IT_DTO_SEND_CMPL_EVENT = 0x00001, /* all kinds of Send */
    IT_DTO_RC_RECV_CMPL_EVENT = 0x00002,
    IT_DTO_UD_RECV_CMPL_EVENT = 0x00003,
    IT_DTO_RDMA_WRITE_CMPL_EVENT = 0x00004,
    IT_DTO_RDMA_READ_CMPL_EVENT = 0x00005,
    IT_RMR_BIND_CMPL_EVENT = 0x00006, /* old name of the next */
    IT_RMR_LINK_CMPL_EVENT = 0x00006, /* link and unlink */
    IT_DTO_FETCH_ADD_CMPL_EVENT = 0x00007,
    IT_DTO_CMP_SWAP_CMPL_EVENT = 0x00008,
    IT_LMR_LINK_CMPL_EVENT = 0x00009, /* link and unlink */

    /* Requests at Listen points: it_conn_request_event_t, it_ud_svc_request_event_t. */
    IT_CM_REQ_EVENT_STREAM = 0x01000,
    IT_CM_REQ_CONN_REQUEST_EVENT = 0x01001,
    IT_CM_REQ_UD_SERVICE_REQUEST_EVENT = 0x01002,

    /* The course of connections: it_connection_event_t; UD replies it_ud_svc_reply_event_t. */
    IT_CM_MSG_EVENT_STREAM = 0x02000,
    IT_CM_MSG_CONN_ACCEPT_ARRIVAL_EVENT = 0x02001, /* three-way: peer accepted, confirm or reject */
    IT_CM_MSG_CONN_ESTABLISHED_EVENT = 0x02002,
    IT_CM_MSG_CONN_DISCONNECT_EVENT = 0x02003,     /* ended in order, by either side */
    IT_CM_MSG_CONN_PEER_REJECT_EVENT = 0x02004,    /* refused by the peer's Consumer */
    IT_CM_MSG_CONN_NONPEER_REJECT_EVENT = 0x02005, /* failed below: see reject_reason_code */
    IT_CM_MSG_CONN_BROKEN_EVENT = 0x02006,         /* ended by an error */
    IT_CM_MSG_UD_SERVICE_REPLY_EVENT = 0x02007,

    /*
     * Errors of an object that no completion explains: it_affiliated_event_t. The cause is the EP,
     * for ..._AFF_SRQ_* the S-RQ, for ..._AFF_SEVD_* of 0x04200 and above the SEVD.
     */
    IT_ASYNC_AFF_EVENT_STREAM = 0x04000,
    IT_ASYNC_AFF_SEVD_ENQUEUE_FAILURE = 0x04001,       /* the EP's SEVD overflowed */
    IT_ASYNC_AFF_EP_SEVD_FULL_ERROR = 0x04001,         /* the same, a later name */
    IT_ASYNC_AFF_EP_FAILURE = 0x04002,                 /* EP failed, no better reason known */
    IT_ASYNC_AFF_EP_BAD_TRANSPORT_OPCODE = 0x04003,    /* peer sent an unknown operation */
    IT_ASYNC_AFF_EP_REQ_DROPPED = 0x04005,             /* message arrived, no Receive was posted */
    IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION = 0x04006,  /* peer's RDMA Write not permitted */
    IT_ASYNC_AFF_EP_RDMAW_CORRUPT_DATA = 0x04007,      /* peer's RDMA Write damaged */
    IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION = 0x04008,  /* peer's RDMA Read not permitted */
    IT_ASYNC_AFF_EP_LOCAL_ACCESS_VIOLATION = 0x04020,  /* older name of the next */
    IT_ASYNC_AFF_EP_L_ACCESS_VIOLATION = 0x04020,      /* L: found here. Access to own memory */
    IT_ASYNC_AFF_EP_L_RECV_ACCESS_VIOLATION = 0x04021, /* ... when filling a Receive */
    IT_ASYNC_AFF_EP_L_IRRQ_ACCESS_VIOLATION = 0x04022, /* ... when answering an RDMA Read */
    IT_ASYNC_AFF_EP_L_TRANSPORT_ERROR = 0x04023,       /* malformed message (DDP, RDMAP) */
    IT_ASYNC_AFF_EP_L_LLP_ERROR = 0x04024,             /* malformed stream (TCP, MPA, CRC) */
    IT_ASYNC_AFF_EP_R_ERROR = 0x04040,                 /* R: reported by the peer. Any other */
    IT_ASYNC_AFF_EP_R_ACCESS_VIOLATION = 0x04041,      /* access to the peer's memory */
    IT_ASYNC_AFF_EP_R_RECV_ACCESS_VIOLATION = 0x04042, /* ... when filling its Receive */
    IT_ASYNC_AFF_EP_R_RECV_LENGTH_ERROR = 0x04043,     /* its Receive was too short */
    IT_ASYNC_AFF_EP_SOFT_HI_WATERMARK = 0x04060,       /* EP holds many buffers of its S-RQ */
    IT_ASYNC_AFF_EP_SRQ_ERROR = 0x04061,               /* the EP's S-RQ failed */
    IT_ASYNC_AFF_SRQ_LOW_WATERMARK = 0x04100, /* S-RQ running empty; disarmed until modified */
    IT_ASYNC_AFF_SRQ_CATASTROPHIC = 0x04101,  /* addition: S-RQ failed */
    IT_ASYNC_AFF_SEVD_FULL_ERROR = 0x04200,   /* addition: SEVD overflowed */
    IT_ASYNC_AFF_SEVD_OP_ERROR = 0x04201,     /* addition: SEVD failed */

    /* Changes of the adapter: it_unaffiliated_event_t. */
    IT_ASYNC_UNAFF_EVENT_STREAM = 0x08000,
    IT_ASYNC_UNAFF_SPIGOT_ONLINE = 0x08002,
    IT_ASYNC_UNAFF_SPIGOT_OFFLINE = 0x08003,
    IT_ASYNC_UNAFF_SEVD_ENQUEUE_FAILURE = 0x08004, /* an SEVD that belongs to no EP overflowed */

    /* it_evd_post_se: it_software_event_t. */
    IT_SOFTWARE_EVENT_STREAM = 0x10000,
    IT_SOFTWARE_EVENT = 0x10001,

    /* Creates an AEVD; "this SEVD has something": it_aevd_notification_event_t. */
    IT_AEVD_NOTIFICATION_EVENT_STREAM = 0x20000,
    IT_AEVD_NOTIFICATION_EVENT = 0x20001
} it_event_type_t;

/*
 * Size of the private data array of events. The limits that count are in it_ia_info_t. No event
 * tells how long the private data is: what the peer did not send is zero.
 */
#define IT_MAX_PRIV_DATA 256

/* Why a connection attempt failed below the peer's Consumer. */
typedef enum {
    IT_CN_REJ_OTHER = 0,         /* none of the others; on iWARP also: nobody listens there */
    IT_CN_REJ_TIMEOUT = 1,       /* no answer within the Path's timeout */
    IT_CN_REJ_BAD_PATH = 2,      /* no route, or the Path is wrong */
    IT_CN_REJ_STALE_CONN = 3,    /* the peer regards the EP as still connected */
    IT_CN_REJ_BAD_ORD = 4,       /* IRD and ORD do not fit */
    IT_CN_REJ_RESOURCES = 5,     /* the peer is out of resources */
    IT_CN_REJ_BAD_CONN_PARMS = 6 /* another parameter was refused */
} it_conn_reject_code_t;

/* Answer to a UD service request; the values of the InfiniBand SIDR reply. */
typedef enum {
    IT_UD_SVC_EP_INFO_VALID = 0,
    IT_UD_SVC_ID_NOT_SUPPORTED = 1,
    IT_UD_SVC_REQ_REJECTED = 2,
    IT_UD_NO_EP_AVAILABLE = 3,
    IT_UD_REQ_REDIRECTED = 4
} it_ud_svc_req_status_t;

typedef enum {
    IT_UD_IB_GRH_PRESENT = 0x1 /* the first 40 bytes of the buffer hold a GRH */
} it_dto_ud_flags_t;

/* Every event structure begins with these two members. */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd; /* the SEVD it was queued on */
} it_any_event_t;

typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t aevd;
    it_evd_handle_t sevd; /* dequeue from this one */
} it_aevd_notification_event_t;

typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    union {
        it_evd_handle_t sevd;
        it_ep_handle_t ep;
        it_srq_handle_t srq;
    } cause; /* which: see it_event_type_t */
} it_affiliated_event_t;

/*
 * A step in the life of a connection. Valid besides event_number, evd and ep:
 *   ACCEPT_ARRIVAL  cn_est_id; IRD, ORD(*); the peer's accept data
 *   ESTABLISHED     cn_est_id (passive side); dst_path; IRD, ORD(*); on the active side of a
 *                   two-way set-up the peer's accept data
 *   DISCONNECT      the peer's disconnect data, where the transport carries it (iWARP does not)
 *   PEER_REJECT     the peer's reject data
 *   NONPEER_REJECT  reject_reason_code
 *   BROKEN          nothing
 * (*) as agreed, if ird_ord_ia_support and not suppressed
 */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    unsigned char private_data[IT_MAX_PRIV_DATA];
    it_boolean_t private_data_present;
    it_cn_est_identifier_t cn_est_id;
    it_ep_handle_t ep;
    uint32_t rdma_read_ird;
    uint32_t rdma_read_ord;
    it_path_t dst_path;
    it_conn_reject_code_t reject_reason_code;
} it_connection_event_t;

typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    unsigned char private_data[IT_MAX_PRIV_DATA];
    it_boolean_t private_data_present;
    it_ud_svc_req_handle_t ud_svc;
    it_ud_svc_req_status_t status;
    it_remote_ep_info_t ep_info; /* with IT_UD_SVC_EP_INFO_VALID */
    it_path_t dst_path;          /* with IT_UD_SVC_EP_INFO_VALID and IT_UD_REQ_REDIRECTED */
} it_ud_svc_reply_event_t;

/*
 * Somebody wants to connect: answer with it_ep_accept, it_reject or it_handoff. IRD and ORD are the
 * requester's own, as it sent them; valid if ird_ord_ia_support and not suppressed.
 */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    unsigned char private_data[IT_MAX_PRIV_DATA];
    it_boolean_t private_data_present;
    it_cn_est_identifier_t cn_est_id;
    it_conn_qual_t conn_qual;  /* the one listened on */
    it_net_addr_t source_addr; /* the requester's */
    size_t spigot_id;
    uint32_t max_message_size; /* if max_message_size_support */
    uint32_t rdma_read_ird;
    uint32_t rdma_read_ord;
} it_conn_request_event_t;

/* A peer asks for a UD EP: answer with it_ud_service_reply. */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    unsigned char private_data[IT_MAX_PRIV_DATA];
    it_boolean_t private_data_present;
    it_ud_svc_req_identifier_t ud_svc_req_id;
    it_conn_qual_t conn_qual;
    it_net_addr_t source_addr;
    size_t spigot_id;
} it_ud_svc_request_event_t;

/* End of a work request. With an error status only ep and cookie are valid. */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    it_ep_handle_t ep; /* with an S-RQ: the EP that took the buffer */
    it_dto_cookie_t cookie;
    it_dto_status_t dto_status;
    uint32_t transferred_length;    /* bytes received, sent, read or written; 0 for link, unlink */
    it_handle_t unlinked_mr_handle; /* LMR or RMR that the operation unlinked, or null */
} it_dto_cmpl_event_t;

/* The same with the members of a UD Receive. transferred_length counts the 40 GRH bytes. */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    it_ep_handle_t ep;
    it_dto_cookie_t cookie;
    it_dto_status_t dto_status;
    uint32_t transferred_length;
    it_handle_t unlinked_mr_handle;
    it_dto_ud_flags_t flags;
    it_ud_ep_id_t ud_ep_id; /* the sender's */
    it_path_t src_path;     /* to the sender */
} it_all_dto_cmpl_event_t;

typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    void *data; /* as given to it_evd_post_se */
} it_software_event_t;

typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    it_ia_handle_t ia;
    size_t spigot_id;
} it_unaffiliated_event_t;

/* Addition: the common beginning of the four events of connection management. */
typedef struct {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    unsigned char private_data[IT_MAX_PRIV_DATA];
    it_boolean_t private_data_present;
} it_event_cm_any_t;

typedef union {
    it_event_type_t event_number;
    it_any_event_t any;
    it_event_cm_any_t cm_any;
    it_dto_cmpl_event_t dto_cmpl;
    it_all_dto_cmpl_event_t all_dto_cmpl;
    it_conn_request_event_t conn_req;
    it_ud_svc_request_event_t ud_svc_request;
    it_connection_event_t conn;
    it_ud_svc_reply_event_t ud_svc_reply;
    it_affiliated_event_t aff_async;
    it_unaffiliated_event_t unaff_async;
    it_software_event_t sw;
    it_aevd_notification_event_t aevd_notify;
} it_event_t;

/* Value of sevd_threshold: every Notification Event notifies. */
#define IT_THRESHOLD_DISABLE 0

typedef enum {
    IT_EVD_DEQUEUE_NOTIFICATIONS = 0x01, /* AEVD: yields notifications, not its SEVDs' events */
    IT_EVD_CREATE_FD = 0x02,             /* make a descriptor for poll(2) */
    IT_EVD_OVERFLOW_DEFAULT = 0x04,      /* on overflow: the default of the stream */
    IT_EVD_OVERFLOW_NOTIFY = 0x08,       /* on overflow: raise an asynchronous event */
    IT_EVD_OVERFLOW_AUTO_RESET = 0x10 /* dequeuing clears the overflow; else it_evd_modify does */
} it_evd_flags_t;

typedef enum {
    IT_EVD_PARAM_ALL = 0x001,
    IT_EVD_PARAM_IA = 0x002,
    IT_EVD_PARAM_EVENT_NUMBER = 0x004,
    IT_EVD_PARAM_FLAG = 0x008,
    IT_EVD_PARAM_QUEUE_SIZE = 0x010,
    IT_EVD_PARAM_THRESHOLD = 0x020,
    IT_EVD_PARAM_AEVD_HANDLE = 0x040,
    IT_EVD_PARAM_FD = 0x080,
    IT_EVD_PARAM_BOUND = 0x100,
    IT_EVD_PARAM_ENABLED = 0x200,
    IT_EVD_PARAM_OVERFLOWED = 0x400,
    IT_EVD_PARAM_CALLBACK = 0x800
} it_evd_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
    it_event_type_t event_number; /* the stream */
    it_evd_flags_t evd_flag;      /* modifiable: IT_EVD_OVERFLOW_... */
    size_t sevd_queue_size;       /* events; modifiable */
    size_t sevd_threshold;        /* modifiable */
    it_evd_handle_t aevd;         /* or null; modifiable */
    int fd;                       /* or -1 */
    it_boolean_t evd_bound;       /* something feeds it */
    it_boolean_t evd_enabled;     /* notifies; modifiable */
    it_boolean_t evd_overflowed;  /* modifiable to IT_FALSE only */
    it_boolean_t evd_callback;    /* a callback is attached */
} it_evd_param_t;

/* See it_evd_callback_attach. */
typedef void (*it_evd_callback_rtn_t)(it_evd_handle_t, void *);

/* ------------------------------------------------------------------------------------------------
 * 7. Endpoints and the attributes of the other objects
 */

/* Bits of it_ep_query, and, where an attribute can be changed, of it_ep_modify. */
typedef enum {
    IT_EP_PARAM_ALL = 0x00000001,
    IT_EP_PARAM_IA = 0x00000002,
    IT_EP_PARAM_SPIGOT = 0x00000004,
    IT_EP_PARAM_STATE = 0x00000008,
    IT_EP_PARAM_SERV_TYPE = 0x00000010,
    IT_EP_PARAM_PATH = 0x00000020,
    IT_EP_PARAM_PZ = 0x00000040,
    IT_EP_PARAM_REQ_SEVD = 0x00000080,
    IT_EP_PARAM_RECV_SEVD = 0x00000100,
    IT_EP_PARAM_CONN_SEVD = 0x00000200,
    IT_EP_PARAM_RDMA_RD_ENABLE = 0x00000400,
    IT_EP_PARAM_RDMA_WR_ENABLE = 0x00000800,
    IT_EP_PARAM_MAX_RDMA_READ_SEG = 0x00001000,
    IT_EP_PARAM_MAX_RDMA_WRITE_SEG = 0x00002000,
    IT_EP_PARAM_MAX_IRD = 0x00004000,
    IT_EP_PARAM_MAX_ORD = 0x00008000,
    IT_EP_PARAM_EP_ID = 0x00010000,
    IT_EP_PARAM_EP_KEY = 0x00020000,
    IT_EP_PARAM_MAX_PAYLOAD = 0x00040000,
    IT_EP_PARAM_MAX_REQ_DTO = 0x00080000,
    IT_EP_PARAM_MAX_RECV_DTO = 0x00100000,
    IT_EP_PARAM_MAX_SEND_SEG = 0x00200000,
    IT_EP_PARAM_MAX_RECV_SEG = 0x00400000,
    IT_EP_PARAM_SRQ = 0x00800000,
    IT_EP_PARAM_SOFT_HI_WATERMARK = 0x01000000,
    IT_EP_PARAM_HARD_HI_WATERMARK = 0x02000000,
    IT_EP_PARAM_ATOMICS_ENABLE = 0x04000000,
    IT_EP_PARAM_PRIV_OPS_ENABLE = 0x08000000
} it_ep_param_mask_t;

/* The *_enable members permit operations that the peer starts. */
typedef struct {
    it_boolean_t rdma_read_enable;
    it_boolean_t rdma_write_enable;
    size_t max_rdma_read_segments;
    size_t max_rdma_write_segments;
    uint32_t rdma_read_ird;   /* RDMA Reads and atomics that can be answered at once */
    uint32_t rdma_read_ord;   /* ... that can be outstanding; others wait in the queue */
    it_srq_handle_t srq;      /* this member and the next two: read with IT_EP_SRQ only */
    size_t soft_hi_watermark; /* S-RQ buffers held before an event is raised; 0: never */
    size_t hard_hi_watermark; /* ... before the connection is broken; 0: never, too */
    it_boolean_t atomics_enable;
} it_rc_only_attributes_t;

/* Value of hard_hi_watermark: never. */
#define IT_HARD_HI_WATERMARK_DISABLE ((size_t)-1)

typedef struct {
    it_remote_ep_info_t ep_info; /* own: the id is given by the IA, the key by the Consumer */
} it_ud_only_attributes_t;

typedef union {
    it_rc_only_attributes_t rc;
    it_ud_only_attributes_t ud;
} it_service_attributes_t;

/* What an EP shall have at least; the IA may give more. Of RDMA Reads it gives what the adapter has
 * where that is less: depths, segments. it_ep_query tells. */
typedef struct {
    size_t max_dto_payload_size; /* bytes in one Send or Receive; RDMA is not bounded by it */
    size_t max_request_dtos;     /* all work requests but Receives */
    size_t max_recv_dtos;        /* ignored with an S-RQ, as is max_recv_segments */
    size_t max_send_segments;
    size_t max_recv_segments;
    it_service_attributes_t srv;  /* by service type */
    it_boolean_t priv_ops_enable; /* LMR link, unlink, direct LMR; privileged Consumers only */
} it_ep_attributes_t;

/* States of an RC EP. Which call is possible when stands at the calls. */
typedef enum {
    IT_EP_STATE_UNCONNECTED = 0,                /* new or reset; takes Receives */
    IT_EP_STATE_ACTIVE1_CONNECTION_PENDING = 1, /* connect called, no answer yet */
    IT_EP_STATE_ACTIVE2_CONNECTION_PENDING = 2, /* three-way: answer there, own confirmation due */
    IT_EP_STATE_PASSIVE_CONNECTION_PENDING = 3, /* accept called, not finished */
    IT_EP_STATE_CONNECTED = 4,
    IT_EP_STATE_NONOPERATIONAL = 5,             /* ended or failed; everything flushes */
    IT_EP_STATE_PASSIVE_WAIT_RDMA_TRANS_REQ = 6 /* socket conversion: peer's request due */
} it_ep_state_rc_t;

typedef enum { IT_EP_STATE_UD_NONOPERATIONAL = 0, IT_EP_STATE_UD_OPERATIONAL = 1 } it_ep_state_ud_t;

typedef union {
    it_ep_state_rc_t rc;
    it_ep_state_ud_t ud;
} it_ep_state_t;

typedef struct {
    it_ia_handle_t ia;
    size_t spigot_id; /* RC: while connected or pending */
    it_ep_state_t ep_state;
    it_transport_service_type_t service_type; /* exactly one */
    it_path_t dst_path;                       /* RC: while connected or pending */
    it_pz_handle_t pz;
    it_evd_handle_t request_sevd;
    it_evd_handle_t recv_sevd;
    it_evd_handle_t connect_sevd;
    it_ep_attributes_t attr; /* its members have mask bits of their own */
} it_ep_param_t;

typedef enum {
    IT_EP_NO_FLAG = 0x0,
    IT_EP_REUSEADDR = 0x1, /* reuse an address pair in TIME_WAIT */
    IT_EP_SRQ = 0x2        /* take Receives from attr.srv.rc.srq */
} it_ep_rc_creation_flags_t;

/* Exactly one of the first two, plus the third if wanted. */
typedef enum {
    IT_CONNECT_FLAG_TWO_WAY = 0x1,
    IT_CONNECT_FLAG_THREE_WAY = 0x2,
    IT_CONNECT_SUPPRESS_IRD_ORD = 0x4 /* do not send IRD and ORD; the Listen must not expect them */
} it_cn_est_flags_t;

/* Values of the InfiniBand connection manager's request, encoded as there. */
typedef struct {
    uint8_t remote_cm_timeout : 5;
    uint8_t local_cm_timeout : 5;
    uint8_t retry_count : 3;
    uint8_t rnr_retry_count : 3;
    uint8_t max_cm_retries : 4;
    uint8_t local_ack_timeout : 5;
} it_ib_conn_attributes_t;

typedef struct {
    void *unused;
} it_via_conn_attributes_t;

typedef struct {
    void *unused;
} it_iwarp_conn_attributes_t;

typedef union {
    it_ib_conn_attributes_t ib;
    it_via_conn_attributes_t via;
    it_iwarp_conn_attributes_t iwarp;
} it_conn_attributes_t;

typedef enum {
    IT_SC_DEFAULT = 0x0,   /* exchange the MPA request and reply frames */
    IT_SC_NO_REQ_REP = 0x1 /* no frames: both sides switch at a place they agreed on */
} it_sc_flags_t;

typedef enum {
    IT_LISTEN_NO_FLAG = 0x0,
    IT_LISTEN_CONN_QUAL_INPUT = 0x1, /* the Consumer gives the qualifier; else the IA picks one */
    IT_LISTEN_SUPPRESS_IRD_ORD = 0x2 /* do not expect IRD and ORD in requests */
} it_listen_flags_t;

typedef enum {
    IT_LISTEN_PARAM_ALL = 0x01,
    IT_LISTEN_PARAM_IA_HANDLE = 0x02,
    IT_LISTEN_PARAM_SPIGOT_ID = 0x04,
    IT_LISTEN_PARAM_CONNECT_EVD = 0x08,
    IT_LISTEN_PARAM_CONN_QUAL = 0x10
} it_listen_param_mask_t;

typedef struct {
    it_ia_handle_t ia_handle;
    size_t spigot_id;
    it_evd_handle_t connect_evd;
    it_conn_qual_t connect_qual;
} it_listen_param_t;

typedef enum {
    IT_AH_PATH_COMPLETE = 0x1 /* the Path has every member; look nothing up */
} it_ah_flags_t;

typedef enum {
    IT_ADDR_PARAM_ALL = 0x1,
    IT_ADDR_PARAM_IA = 0x2,
    IT_ADDR_PARAM_PZ = 0x4,
    IT_ADDR_PARAM_PATH = 0x8
} it_addr_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_path_t path;
} it_addr_param_t;

typedef enum { IT_PZ_PARAM_ALL = 0x1, IT_PZ_PARAM_IA = 0x2 } it_pz_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
} it_pz_param_t;

typedef enum {
    IT_LMR_PARAM_ALL = 0x0001,
    IT_LMR_PARAM_IA = 0x0002,
    IT_LMR_PARAM_PZ = 0x0004,
    IT_LMR_PARAM_ADDR = 0x0008,
    IT_LMR_PARAM_LENGTH = 0x0010,
    IT_LMR_PARAM_MEM_PRIV = 0x0020,
    IT_LMR_PARAM_FLAG = 0x0040,
    IT_LMR_PARAM_SHARED_ID = 0x0080,
    IT_LMR_PARAM_RMR_CONTEXT = 0x0100,
    IT_LMR_PARAM_ACTUAL_ADDR = 0x0200,
    IT_LMR_PARAM_ACTUAL_LENGTH = 0x0400,
    IT_LMR_PARAM_ADDR_MODE = 0x0800,
    IT_LMR_PARAM_LINKED = 0x1000,
    IT_LMR_PARAM_IOBL_NUM_ELTS = 0x2000,
    IT_LMR_PARAM_IOBL_TYPE = 0x4000
} it_lmr_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    void *addr;
    it_length_t length;
    it_mem_priv_t privs;
    it_lmr_flag_t flags;
    uint32_t shared_id;
    it_rmr_context_t rmr_context; /* undefined without remote privileges */
    void *actual_addr;            /* the range really registered, page rounding included */
    it_length_t actual_length;
    it_addr_mode_t addr_mode;
    it_boolean_t linked; /* IT_FALSE: made by it_lmr_create_unlinked, no memory attached */
    size_t iobl_num_elts;
    it_iobl_type_t iobl_type;
} it_lmr_param_t;

typedef enum {
    IT_RMR_PARAM_ALL = 0x001,
    IT_RMR_PARAM_IA = 0x002,
    IT_RMR_PARAM_PZ = 0x004,
    IT_RMR_PARAM_LINKED = 0x008,
    IT_RMR_PARAM_BOUND = 0x008, /* name in version 1.0 */
    IT_RMR_PARAM_LMR = 0x010,
    IT_RMR_PARAM_ADDR = 0x020,
    IT_RMR_PARAM_LENGTH = 0x040,
    IT_RMR_PARAM_MEM_PRIV = 0x080,
    IT_RMR_PARAM_RMR_CONTEXT = 0x100,
    IT_RMR_PARAM_TYPE = 0x200,
    IT_RMR_PARAM_ADDR_MODE = 0x400
} it_rmr_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
#ifdef ITAPI_ENABLE_V10_BINDINGS
    it_boolean_t bound;
#else
    it_boolean_t linked;
#endif
    it_lmr_handle_t lmr; /* this and the next four: while linked */
    void *addr;
    it_length_t length;
    it_mem_priv_t privs;
    it_rmr_context_t rmr_context;
    it_rmr_type_t type;
    it_addr_mode_t addr_mode;
} it_rmr_param_t;

typedef enum {
    IT_SRQ_PARAM_ALL = 0x01,
    IT_SRQ_PARAM_IA = 0x02,
    IT_SRQ_PARAM_PZ = 0x04,
    IT_SRQ_PARAM_MAX_RECV_DTO = 0x08,
    IT_SRQ_PARAM_MAX_RECV_SEG = 0x10,
    IT_SRQ_PARAM_LOW_WATERMARK = 0x20
} it_srq_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    size_t max_recv_dtos; /* modifiable if srq_resizable */
    size_t max_recv_segs;
    size_t low_watermark; /* fewer posted Receives raise an event, once; 0: never; modifiable */
} it_srq_param_t;

typedef enum {
    IT_UD_PARAM_ALL = 0x01,
    IT_UD_PARAM_IA_HANDLE = 0x02,
    IT_UD_PARAM_REQ_ID = 0x04,
    IT_UD_PARAM_REPLY_EVD = 0x08,
    IT_UD_PARAM_CONN_QUAL = 0x10,
    IT_UD_PARAM_DEST_PATH = 0x20,
    IT_UD_PARAM_PRIV_DATA = 0x40,
    IT_UD_PARAM_PRIV_DATA_LENGTH = 0x80
} it_ud_svc_req_param_mask_t;

typedef struct {
    it_ia_handle_t ia;
    uint32_t request_id;
    it_evd_handle_t reply_evd;
    it_conn_qual_t conn_qual;
    it_path_t destination_path;
    unsigned char private_data[IT_MAX_PRIV_DATA];
    size_t private_data_length; /* bytes */
} it_ud_svc_req_param_t;

/* ------------------------------------------------------------------------------------------------
 * 8. Calls
 *
 * "Errors" leaves out what the rules at the top say for all: IT_ERR_IA_CATASTROPHE, IT_ERR_FAULT,
 * IT_ERR_OP_NOT_SUPPORTED. Handle errors (IT_ERR_INVALID_<kind> of each handle argument) are named
 * only where the code is not the obvious one.
 */

/* -- 8.1 Interfaces, handles, contexts -------------------------------------------------------- */

/*
 * Lists what it_ia_create can open. In: *num_interfaces is the room in `interfaces`. Out: entries
 * written there, and in *total_interfaces how many exist. With room 0 and interfaces NULL it counts
 * only. Loads providers at the first call, so it may block. Either count pointer may be NULL.
 */
ITAPI_PUBLIC void it_interface_list(it_interface_t *interfaces, size_t *num_interfaces,
                                    size_t *total_interfaces);

/*
 * Opens the Interface `name` with the given API version: 1.0, 2.0 or 2.1. Opening twice gives two
 * independent IAs. May block.
 * Errors: INVALID_NAME, INVALID_MAJOR_VERSION, INVALID_MINOR_VERSION, NO_PERMISSION, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_ia_create(const char *name, uint32_t major_version,
                                      uint32_t minor_version, it_ia_handle_t *ia_handle);

/*
 * Closes the IA and frees everything made on it; all these handles become invalid, and waiting
 * threads return IT_ERR_ABORT. Other threads may be inside calls on them. Calls that have begun end
 * as if they had come before, except that they create nothing (IT_ERR_ABORT); calls that begin
 * later find invalid handles. it_ia_free waits for the calls that have begun, also those on other
 * IAs. Open connections are ended in order first, so that completed Sends arrive; this may block
 * for a bounded time (option close_timeout). Possible in any condition of the IA; in a callback
 * only as its last call.
 */
ITAPI_PUBLIC it_status_t it_ia_free(it_ia_handle_t ia_handle);

/* A snapshot of the IA's attributes; it_ia_info_free frees it. Errors: RESOURCES. */
ITAPI_PUBLIC it_status_t it_ia_query(it_ia_handle_t ia_handle, it_ia_info_t **ia_info);

/* Frees a snapshot and all it points to; NULL is allowed. */
ITAPI_PUBLIC void it_ia_info_free(it_ia_info_t *ia_info);

/* Returns the kind of a handle. Does not block. Errors: INVALID_HANDLE. */
ITAPI_PUBLIC it_status_t it_get_handle_type(it_handle_t handle,
                                            it_handle_type_enum_t *type_of_handle);

/*
 * Attaches a value to an object, replacing an earlier one; and reads it. New objects have none. Do
 * not block; work in any condition of the IA. Errors: INVALID_HANDLE; get also NO_CONTEXT (none
 * set).
 */
ITAPI_PUBLIC it_status_t it_set_consumer_context(it_handle_t handle, it_context_t context);
ITAPI_PUBLIC it_status_t it_get_consumer_context(it_handle_t handle, it_context_t *context);

/* -- 8.2 Protection zones --------------------------------------------------------------------- */

/*
 * A PZ connects EPs with the memory that they may access: an EP accesses regions of its own PZ
 * only, for its own requests and for those of its peer. Errors: create RESOURCES; free PZ_BUSY (an
 * LMR, RMR, EP, S-RQ or address handle exists in it); query INVALID_MASK.
 */
ITAPI_PUBLIC it_status_t it_pz_create(it_ia_handle_t ia_handle, it_pz_handle_t *pz_handle);
ITAPI_PUBLIC it_status_t it_pz_free(it_pz_handle_t pz_handle);
ITAPI_PUBLIC it_status_t it_pz_query(it_pz_handle_t pz_handle, it_pz_param_mask_t mask,
                                     it_pz_param_t *params);

/* -- 8.3 Memory ------------------------------------------------------------------------------- */

/*
 * Registers [addr, addr + length) as an LMR; the memory must stay mapped until the LMR is freed.
 * With remote privileges *rmr_context receives the context for the peer; the pointer may be NULL.
 * shared_id is used with IT_LMR_FLAG_SHARED only. Version 1.0: absolute addressing. Version 2.0
 * adds the addressing mode. Version 2.1 adds iobl: NULL, or (privileged Consumers) the memory as an
 * I/O buffer list, with addr the virtual address for it or IT_NO_ADDR. May block. Errors:
 * INVALID_PRIVS, INVALID_FLAGS, INVALID_LENGTH (0, or past the end of the address space), ADDRESS
 * (not mapped), ACCESS (mapping forbids a privilege), INVALID_ADDR_MODE, INVALID_IOBL,
 * NO_PERMISSION, PRIV_OPS_UNAVAILABLE, RESOURCE_LMR_LENGTH, RESOURCES (also the limit on pinned
 * memory).
 */
ITAPI_PUBLIC it_status_t it_lmr_create10(it_pz_handle_t pz_handle, void *addr, it_length_t length,
                                         it_mem_priv_t privs, it_lmr_flag_t flags,
                                         uint32_t shared_id, it_lmr_handle_t *lmr_handle,
                                         it_rmr_context_t *rmr_context);
ITAPI_PUBLIC it_status_t it_lmr_create20(it_pz_handle_t pz_handle, void *addr, it_length_t length,
                                         it_addr_mode_t addr_mode, it_mem_priv_t privs,
                                         it_lmr_flag_t flags, uint32_t shared_id,
                                         it_lmr_handle_t *lmr_handle,
                                         it_rmr_context_t *rmr_context);
ITAPI_PUBLIC it_status_t it_lmr_create21(it_pz_handle_t pz_handle, void *addr, it_iobl_t *iobl,
                                         it_length_t length, it_addr_mode_t addr_mode,
                                         it_mem_priv_t privs, it_lmr_flag_t flags,
                                         uint32_t shared_id, it_lmr_handle_t *lmr_handle,
                                         it_rmr_context_t *rmr_context);

/*
 * An LMR without memory, with room for a list of iobl_num_elts elements; it_lmr_link attaches
 * memory. Privileged. Errors: INVALID_FLAGS, INVALID_LENGTH (no elements), NO_PERMISSION,
 * PRIV_OPS_UNAVAILABLE, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_lmr_create_unlinked(it_pz_handle_t pz_handle, size_t iobl_num_elts,
                                                it_lmr_flag_t flags, uint32_t shared_id,
                                                it_lmr_handle_t *lmr_handle);

/*
 * Ends a registration. Its RMR Contexts become invalid at once, and a peer that uses one loses the
 * connection. Does not wait for traffic; work requests that still use the LMR end in error. Errors:
 * LMR_BUSY (an RMR is linked to it).
 */
ITAPI_PUBLIC it_status_t it_lmr_free(it_lmr_handle_t lmr_handle);

/* Errors: INVALID_MASK. */
ITAPI_PUBLIC it_status_t it_lmr_query(it_lmr_handle_t lmr_handle, it_lmr_param_mask_t mask,
                                      it_lmr_param_t *params);

/*
 * Changes PZ (IT_LMR_PARAM_PZ) or privileges (IT_LMR_PARAM_MEM_PRIV). The handle stays, the RMR
 * Context changes: see it_lmr_query. No work request may be using the LMR. May block.
 * Errors: INVALID_MASK, INVALID_PZ, INVALID_PRIVS, ACCESS, LMR_BUSY (an RMR is linked), RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_lmr_modify(it_lmr_handle_t lmr_handle, it_lmr_param_mask_t mask,
                                       const it_lmr_param_t *params);

/*
 * For LMRs with IT_LMR_FLAG_NONCOHERENT. flush: after the CPU wrote, before the adapter or the peer
 * reads. refresh: after the adapter or the peer wrote, before the CPU reads. On coherent machines
 * they check their arguments and do nothing else. Do not block.
 * Errors: INVALID_LMR, RANGE, INVALID_LENGTH, INVALID_NUM_SEGMENTS.
 */
ITAPI_PUBLIC it_status_t it_lmr_flush_to_mem(const it_lmr_triplet_t *local_segments,
                                             size_t num_segments);
ITAPI_PUBLIC it_status_t it_lmr_refresh_from_mem(const it_lmr_triplet_t *local_segments,
                                                 size_t num_segments);

/*
 * Work requests that attach memory to an unlinked LMR and detach it again (fast registration).
 * Privileged: the EP needs priv_ops_enable. link: exactly one of addr and iobl describes the
 * memory; the new context is returned at once, later requests of the same EP may use it. Each link
 * makes a new context. Completion: IT_LMR_LINK_CMPL_EVENT, failing with
 * IT_DTO_ERR_LOCAL_MM_OPERATION. Do not block.
 * Errors: INVALID_EP_STATE, INVALID_EP_TYPE, INVALID_PZ (LMR and EP differ), INVALID_DTO_FLAGS,
 * TOO_MANY_POSTS, PRIV_OPS_UNAVAILABLE, NO_PERMISSION, LMR_BUSY (already linked, RMRs linked); link
 * also INVALID_PRIVS, INVALID_ADDR_MODE, INVALID_LENGTH, INVALID_IOBL, INVALID_ADDRESS, RANGE (more
 * elements than there is room for).
 */
ITAPI_PUBLIC it_status_t it_lmr_link(it_lmr_handle_t lmr_handle, const void *addr,
                                     const it_iobl_t *iobl, it_length_t length,
                                     it_addr_mode_t addr_mode, it_mem_priv_t privs,
                                     it_ep_handle_t ep_handle, it_dto_cookie_t cookie,
                                     it_dto_flags_t dto_flags, it_rmr_context_t *rmr_context);
ITAPI_PUBLIC it_status_t it_lmr_unlink(it_lmr_handle_t lmr_handle, it_ep_handle_t ep_handle,
                                       it_dto_cookie_t cookie, it_dto_flags_t dto_flags);

/*
 * Privileged: the I/O address of [vaddr, vaddr + len) in the address space aspace_id. *mapped_len
 * may be less than len; map the remainder by further calls. it_mem_unmap undoes each mapping with
 * the values that it returned. May block. Errors: INVALID_ADDRESS, ADDRESS, INVALID_LENGTH,
 * NO_PERMISSION, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_mem_map(it_ia_handle_t ia_handle, void *vaddr, uint64_t aspace_id,
                                    size_t len, it_io_addr_t *io_addr, size_t *mapped_len);
ITAPI_PUBLIC it_status_t it_mem_unmap(it_ia_handle_t ia_handle, it_io_addr_t io_addr,
                                      size_t mapped_len);

/*
 * An RMR: a window onto part of an LMR, opened and closed by work requests. Version 1.0 makes the
 * default type. Freeing closes it in any state; its contexts become invalid.
 * Errors: create INVALID_RMR_TYPE, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_rmr_create10(it_pz_handle_t pz_handle, it_rmr_handle_t *rmr_handle);
ITAPI_PUBLIC it_status_t it_rmr_create20(it_pz_handle_t pz_handle, it_rmr_type_t rmr_type,
                                         it_rmr_handle_t *rmr_handle);
ITAPI_PUBLIC it_status_t it_rmr_free(it_rmr_handle_t rmr_handle);

/* Errors: INVALID_MASK. */
ITAPI_PUBLIC it_status_t it_rmr_query(it_rmr_handle_t rmr_handle, it_rmr_param_mask_t mask,
                                      it_rmr_param_t *params);

/*
 * Work request that opens the RMR onto [addr, addr + length) of the LMR (1.0 calls it bind, with
 * absolute addressing). Of privs only the remote ones and atomic count; the LMR needs local write
 * for remote write, but no remote privilege of its own. RMR, LMR and EP share a PZ. The new context
 * is returned at once and may travel in a Send posted later on the same EP. A linked wide RMR is
 * relinked, a linked narrow one must be unlinked first. Completion: IT_RMR_LINK_CMPL_EVENT, failing
 * with IT_RMR_OPERATION_FAILED; a link that fails leaves the RMR as it was. Does not block.
 * The LMR is one with absolute addressing (INVALID_ADDR_MODE); addr_mode is that of the RMR.
 * Errors: INVALID_EP_STATE, INVALID_EP_TYPE, INVALID_PZ, INVALID_PRIVS, ACCESS, RANGE,
 * INVALID_LENGTH (0), INVALID_ADDR_MODE, INVALID_DTO_FLAGS, TOO_MANY_POSTS.
 */
ITAPI_PUBLIC it_status_t it_rmr_link(it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle,
                                     void *addr, it_length_t length, it_addr_mode_t addr_mode,
                                     it_mem_priv_t privs, it_ep_handle_t ep_handle,
                                     it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                                     it_rmr_context_t *rmr_context);
ITAPI_PUBLIC it_status_t it_rmr_bind10(it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle,
                                       void *addr, it_length_t length, it_mem_priv_t privs,
                                       it_ep_handle_t ep_handle, it_dto_cookie_t cookie,
                                       it_dto_flags_t dto_flags, it_rmr_context_t *rmr_context);

/*
 * Work request that closes the RMR; a narrow one on the EP on which it was linked (INVALID_EP).
 * Completion as it_rmr_link. Does not block.
 * Errors: INVALID_EP_STATE, INVALID_EP_TYPE, INVALID_PZ, INVALID_DTO_FLAGS, TOO_MANY_POSTS.
 */
ITAPI_PUBLIC it_status_t it_rmr_unlink(it_rmr_handle_t rmr_handle, it_ep_handle_t ep_handle,
                                       it_dto_cookie_t cookie, it_dto_flags_t dto_flags);

/* The rdma_addr that a peer uses for a pointer into, or an offset in, a region of this process.
 * Cannot fail. */
ITAPI_PUBLIC it_rdma_addr_t it_make_rdma_addr_absolute(void *addr);
ITAPI_PUBLIC it_rdma_addr_t it_make_rdma_addr_relative(it_length_t offset);

/* -- 8.4 Event dispatchers -------------------------------------------------------------------- *
 *
 * Notification wakes a waiting thread, makes the descriptor readable, calls the callback, makes the
 * SEVD ready in its AEVD. Notification Events are all events but completions, and completions that
 * failed, that carried IT_NOTIFY_FLAG, or that are Receives of a solicited Send. A threshold of n
 * notifies at the n-th Notification Event queued. After a notification, dequeue until
 * IT_ERR_QUEUE_EMPTY before waiting for the descriptor or the callback again. Events of one source
 * come in order; between sources there is none.
 */

/*
 * Creates an SEVD for a stream, or an AEVD (event_number IT_AEVD_NOTIFICATION_EVENT_STREAM).
 * sevd_queue_size: events that it holds at least; for completions, the sum over all EPs that use
 * it. sevd_threshold: IT_THRESHOLD_DISABLE or 1 to sevd_queue_size. Both are ignored for an AEVD.
 * aevd_handle: the AEVD of this SEVD, or null. fd: with IT_EVD_CREATE_FD receives a descriptor for
 * poll(2), which is the EVD's: never read, write or close it. Else it may be NULL. Each IA has at
 * most one SEVD per asynchronous stream. Errors: INVALID_EVD_TYPE, INVALID_FLAGS,
 * INVALID_QUEUE_SIZE (0), RESOURCE_QUEUE_SIZE, INVALID_THRESHOLD, INVALID_AEVD, AEVD_NOT_ALLOWED
 * (for an AEVD), ASYNC_AFF_EVD_EXISTS, ASYNC_UNAFF_EVD_EXISTS, MISMATCH_FD (flag without fd),
 * RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_evd_create(it_ia_handle_t ia_handle, it_event_type_t event_number,
                                       it_evd_flags_t evd_flag, size_t sevd_queue_size,
                                       size_t sevd_threshold, it_evd_handle_t aevd_handle,
                                       it_evd_handle_t *evd_handle, int *fd);

/* Frees the EVD with its queued events. Errors: EVD_BUSY (something feeds it, or a thread
 * waits). */
ITAPI_PUBLIC it_status_t it_evd_free(it_evd_handle_t evd_handle);

/* Errors: INVALID_MASK. */
ITAPI_PUBLIC it_status_t it_evd_query(it_evd_handle_t evd_handle, it_evd_param_mask_t mask,
                                      it_evd_param_t *params);

/*
 * Changes the modifiable members of it_evd_param_t, all of them or none. A disabled EVD queues
 * events and does not notify. Errors: INVALID_MASK, INVALID_EVD_TYPE (not for this kind),
 * INVALID_EVD_STATE, INVALID_FLAGS (more than the handling of overflows differs), MISMATCH_FD (a
 * descriptor comes or goes), INVALID_QUEUE_SIZE (below what is queued), RESOURCE_QUEUE_SIZE,
 * INVALID_THRESHOLD, INVALID_AEVD, AEVD_NOT_ALLOWED, EVD_BUSY, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_evd_modify(it_evd_handle_t evd_handle, it_evd_param_mask_t mask,
                                       const it_evd_param_t *params);

/*
 * Takes the oldest event; of an AEVD, see IT_EVD_DEQUEUE_NOTIFICATIONS. Writes only the members
 * that the event has. Independent of thresholds and notification. Does not block.
 * Overflow does not keep events back. Errors: QUEUE_EMPTY.
 */
ITAPI_PUBLIC it_status_t it_evd_dequeue(it_evd_handle_t evd_handle, it_event_t *event);

/*
 * Takes the oldest event, waiting for a notification at most `timeout` microseconds if none is
 * queued; 0: does not wait. *nmore: events left, of an AEVD SEVDs with events, a snapshot; may be
 * NULL. Several threads may wait, an event wakes one. Not on an SEVD that has an AEVD, nor on an
 * EVD with a callback, nor in a callback.
 * Errors: TIMEOUT_EXPIRED, INTERRUPT (a signal handler ran), INVALID_EVD_STATE, CALLBACK_EXISTS,
 * WAITER_LIMIT, ABORT (the EVD or IA was freed).
 */
ITAPI_PUBLIC it_status_t it_evd_wait(it_evd_handle_t evd_handle, uint64_t timeout,
                                     it_event_t *event, size_t *nmore);

/*
 * Queues a software event that carries the pointer `event`, which is not followed. Does not block.
 * Errors: INVALID_SOFT_EVD (not an SEVD of IT_SOFTWARE_EVENT_STREAM), EVD_QUEUE_FULL, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_evd_post_se(it_evd_handle_t evd_handle, const void *event);

/*
 * callback(evd, arg) runs after notifications, and soon if events are queued already, in a thread
 * of the IA, one at a time; not if the EVD is empty again by then. It must not block or wait,
 * because the IA's other callbacks wait meanwhile. It may dequeue, post work and software events,
 * use contexts, detach itself, free its EVD, and as its last call free the IA. When detach returns
 * it does not run any more, unless it called detach itself. it_evd_free and it_ia_free detach.
 * Errors: attach CALLBACK_EXISTS, EVD_WAIT, INVALID_EVD_STATE (SEVD with an AEVD), RESOURCES;
 * detach INVALID_EVD_STATE (none attached).
 */
ITAPI_PUBLIC it_status_t it_evd_callback_attach(it_evd_handle_t evd_handle,
                                                it_evd_callback_rtn_t callback, void *arg);
ITAPI_PUBLIC it_status_t it_evd_callback_detach(it_evd_handle_t evd_handle);

/* -- 8.5 Endpoints and connections ------------------------------------------------------------ */

/*
 * A reliable connected EP. request_sevd_handle and recv_sevd_handle: SEVDs of IT_DTO_EVENT_STREAM,
 * may be the same; connect_sevd_handle: SEVD of IT_CM_MSG_EVENT_STREAM. Starts UNCONNECTED. May
 * block.
 * Errors: INVALID_REQ_EVD, INVALID_RECV_EVD, INVALID_CONN_EVD, INVALID_EVD_TYPE,
 * INVALID_REQ_EVD_STATE, INVALID_RECV_EVD_STATE, INVALID_FLAGS, INVALID_EP_ATTR, PAYLOAD_SIZE, the
 * RESOURCE_* code of the attribute that asks for too much, INVALID_SRQ, SRQ_NOT_SUPPORTED,
 * SOFT_HI_WATERMARK, HARD_HI_WATERMARK, INVALID_WATERMARK, PRIV_OPS_UNAVAILABLE, NO_PERMISSION,
 * RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_ep_rc_create(
    it_pz_handle_t pz_handle, it_evd_handle_t request_sevd_handle, it_evd_handle_t recv_sevd_handle,
    it_evd_handle_t connect_sevd_handle, it_ep_rc_creation_flags_t flags,
    const it_ep_attributes_t *ep_attr, it_ep_handle_t *ep_handle);

/*
 * An unreliable datagram EP on a Spigot. Starts operational. srv.ud.ep_info.key is what datagrams
 * for the EP must carry; 0: the IA chooses one, which it_ep_query returns. May block.
 * Errors: as it_ep_rc_create where they apply; INVALID_SPIGOT, INVALID_EP_KEY, OP_NOT_SUPPORTED
 * (no IT_UD_SERVICE).
 */
ITAPI_PUBLIC it_status_t it_ep_ud_create(it_pz_handle_t pz_handle,
                                         it_evd_handle_t request_sevd_handle,
                                         it_evd_handle_t recv_sevd_handle,
                                         const it_ep_attributes_t *ep_attr, size_t spigot_id,
                                         it_ep_handle_t *ep_handle);

/*
 * Frees an EP in any state. A connection is ended in order behind the Consumer's back; no further
 * event of the EP is queued, completions already queued may still come out. Does not wait for the
 * peer.
 */
ITAPI_PUBLIC it_status_t it_ep_free(it_ep_handle_t ep_handle);

/* Errors: INVALID_MASK. */
ITAPI_PUBLIC it_status_t it_ep_query(it_ep_handle_t ep_handle, it_ep_param_mask_t mask,
                                     it_ep_param_t *params);

/*
 * Changes attributes of an UNCONNECTED EP. While connected: queue sizes if
 * ep_work_queues_resizable, *_enable if ep_rdma_enables_modifiable, ORD downwards (upwards if
 * rdma_read_ord_increasable, up to what was agreed with the peer: RESOURCE_ORD), IRD if
 * rdma_read_ird_modifiable, watermarks. Of a UD EP: the key in every state; payload, fewer segments
 * and, if ep_work_queues_resizable, queue sizes while it is operational. May block.
 * Errors: INVALID_MASK (also handles, state and other fixed members), INVALID_EP_STATE,
 * INVALID_EP_TYPE, EP_BUSY (work outstanding beyond the new value); else as it_ep_rc_create.
 */
ITAPI_PUBLIC it_status_t it_ep_modify(it_ep_handle_t ep_handle, it_ep_param_mask_t mask,
                                      const it_ep_attributes_t *ep_attr);

/*
 * Makes a NONOPERATIONAL EP usable again: RC UNCONNECTED, UD operational. Outstanding work is
 * flushed first. An UNCONNECTED EP stays so and loses its Receives. Errors: CANNOT_RESET
 * (connected, pending, operational), EP_TIMEWAIT, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_ep_reset(it_ep_handle_t ep_handle);

/*
 * Begins to connect an UNCONNECTED RC EP along `path` to the service `connect_qual`; returns before
 * the outcome is known. conn_attr NULL: defaults; only InfiniBand's connection manager uses them.
 * The private data (NULL with length 0: none) reaches the peer's Consumer with its connection
 * request. Outcome on the connect SEVD:
 * ESTABLISHED; ACCEPT_ARRIVAL in a three-way set-up; PEER_REJECT or NONPEER_REJECT, which leave the
 * EP NONOPERATIONAL. An error from the call leaves it UNCONNECTED. Post the Receives for the first
 * messages before.
 * Errors: INVALID_EP_TYPE, INVALID_EP_STATE, INVALID_CONN_QUAL, CONN_QUAL_BUSY (fixed local port),
 * INVALID_CN_EST_FLAGS, INVALID_SPIGOT, INVALID_SOURCE_PATH, INVALID_NETADDR, INVALID_PDATA_LENGTH,
 * PDATA_NOT_SUPPORTED, NO_PERMISSION, EP_TIMEWAIT, RESOURCES; InfiniBand: INVALID_ATIMEOUT,
 * INVALID_LTIMEOUT, INVALID_RTIMEOUT, INVALID_CM_RETRY, INVALID_RETRY, INVALID_RNR_RETRY.
 */
ITAPI_PUBLIC it_status_t it_ep_connect(it_ep_handle_t ep_handle, const it_path_t *path,
                                       const it_conn_attributes_t *conn_attr,
                                       const it_conn_qual_t *connect_qual,
                                       it_cn_est_flags_t cn_est_flags,
                                       const unsigned char *private_data,
                                       size_t private_data_length);

/*
 * Passive side: accepts the request cn_est_id on an UNCONNECTED RC EP of the same IA. Active side
 * of a three-way set-up: confirms on the EP of the ACCEPT_ARRIVAL event. Uses up the id. ORD is
 * lowered to the peer's IRD. Outcome on the connect SEVD: ESTABLISHED or NONPEER_REJECT. On iWARP
 * the passive side's requests wait until the active side's first message has arrived.
 * Returns before the outcome is known.
 * Errors: INVALID_EP_TYPE, INVALID_EP_STATE, INVALID_CN_EST_ID, INVALID_PDATA_LENGTH,
 * PDATA_NOT_SUPPORTED, RESOURCE_IRD, RESOURCE_ORD, EP_TIMEWAIT, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_ep_accept(it_ep_handle_t ep_handle, it_cn_est_identifier_t cn_est_id,
                                      const unsigned char *private_data,
                                      size_t private_data_length);

/*
 * Refuses a connection request, or the peer's acceptance in a three-way set-up; the peer gets
 * PEER_REJECT with the private data. Uses up the id. Does not wait for the peer.
 * Errors: INVALID_CN_EST_ID, INVALID_PDATA_LENGTH, PDATA_NOT_SUPPORTED, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_reject(it_cn_est_identifier_t cn_est_id,
                                   const unsigned char *private_data, size_t private_data_length);

/*
 * Passes a connection request on to the Listen point with that qualifier on that Spigot of the same
 * IA (of several: the one that was made first), whose SEVD gets it as a new request with a new id.
 * Uses up the id. A request whose peer has given up does not arrive. Does not wait for the peer.
 * Errors: INVALID_CN_EST_ID, INVALID_CONN_QUAL (no such Listen point), INVALID_SPIGOT, RESOURCES
 * (as many requests wait there as option backlog allows; the id stays valid).
 */
ITAPI_PUBLIC it_status_t it_handoff(const it_conn_qual_t *conn_qual, size_t spigot_id,
                                    it_cn_est_identifier_t cn_est_id);

/*
 * Ends a connection, or aborts an attempt. The EP becomes NONOPERATIONAL and flushes unfinished
 * work; to be sure that the last message was processed, let the peer confirm it first. Both sides
 * get exactly one of DISCONNECT and BROKEN. Private data is accepted and discarded where the
 * transport carries none (iWARP). Returns at once. Errors: INVALID_EP_TYPE, INVALID_EP_STATE,
 * INVALID_PDATA_LENGTH, PDATA_NOT_SUPPORTED.
 */
ITAPI_PUBLIC it_status_t it_ep_disconnect(it_ep_handle_t ep_handle,
                                          const unsigned char *private_data,
                                          size_t private_data_length);

/*
 * Listens on a Spigot; requests go to connect_evd, an SEVD of IT_CM_REQ_EVENT_STREAM. With
 * IT_LISTEN_CONN_QUAL_INPUT *conn_qual is the qualifier. Without it *conn_qual gives the type only;
 * the IA chooses a free value and returns it there. Requests beyond the SEVD's size wait, in order,
 * until events are dequeued. When the waiting and undecided requests together reach option backlog,
 * or the SEVD's size if that is larger, no further connection is accepted: peers wait in the
 * system's queue (net.core.somaxconn) and in their own time-outs. A waiting request is dropped when
 * the program has taken none for request_timeout; its peer gets NONPEER_REJECT.
 * Errors: INVALID_SPIGOT, INVALID_CONN_EVD, INVALID_EVD_TYPE, INVALID_FLAGS, INVALID_CONN_QUAL,
 * CONN_QUAL_BUSY, NO_PERMISSION (privileged port, policy), RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_listen_create(it_ia_handle_t ia_handle, size_t spigot_id,
                                          it_evd_handle_t connect_evd, it_listen_flags_t flags,
                                          it_conn_qual_t *conn_qual,
                                          it_listen_handle_t *listen_handle);

/* Stops listening. Requests already reported can still be answered. */
ITAPI_PUBLIC it_status_t it_listen_free(it_listen_handle_t listen_handle);

/* Errors: INVALID_MASK. */
ITAPI_PUBLIC it_status_t it_listen_query(it_listen_handle_t listen_handle,
                                         it_listen_param_mask_t mask, it_listen_param_t *params);

/*
 * Turns a connected TCP socket into the connection of an UNCONNECTED RC EP (iWARP). The library
 * works on a duplicate. The Consumer closes sd, at once if it likes, and does not use it until
 * then. The side that gives a message (len > 0, at most 1 MiB) responds: the library sends the
 * message, the last one in streaming mode, and waits for the peer's request. The side that has read
 * that message calls with NULL and 0, and initiates. Before, each receiver must have read all
 * streaming data. With IT_SC_NO_REQ_REP no frames are exchanged. Does not block; outcome on the
 * connect SEVD: ESTABLISHED, or NONPEER_REJECT (PEER_REJECT where the peer's reply refuses) and the
 * TCP connection closed. Errors: OP_NOT_SUPPORTED (socket_conversion_support is false),
 * INVALID_EP_TYPE, INVALID_EP_STATE, INVALID_FLAGS, INVALID_LENGTH, INVALID_CONVERSION (sd is no
 * TCP connection with both directions open, or carries TLS by the kernel; the log says which),
 * INVALID_SOURCE_PATH (its address is not the IA's, by option netdev), NO_PERMISSION (policy),
 * RESOURCES. Nothing was sent then.
 */
ITAPI_PUBLIC it_status_t it_socket_convert(int sd, it_ep_handle_t ep_handle, it_sc_flags_t flags,
                                           const unsigned char *msg, size_t len);

/* -- 8.6 Shared receive queues ---------------------------------------------------------------- */

/*
 * Receives for several EPs of one PZ, used in the order of posting. Note the order of the
 * arguments. modify: IT_SRQ_PARAM_MAX_RECV_DTO, IT_SRQ_PARAM_LOW_WATERMARK (arms it). Freeing drops
 * posted Receives without completion.
 * Errors: create SRQ_NOT_SUPPORTED, INVALID_SRQ_SIZE (0), RESOURCE_RECV_DTO, RESOURCE_RSEG,
 * RESOURCES; free SRQ_BUSY (an EP uses it); query INVALID_MASK; modify INVALID_MASK,
 * INVALID_SRQ_SIZE (below what is posted), RESOURCE_RECV_DTO, SRQ_LOW_WATERMARK (above the size),
 * RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_srq_create(it_pz_handle_t pz_handle, size_t max_recv_segments,
                                       size_t max_recv_dtos, it_srq_handle_t *srq_handle);
ITAPI_PUBLIC it_status_t it_srq_free(it_srq_handle_t srq_handle);
ITAPI_PUBLIC it_status_t it_srq_modify(it_srq_handle_t srq_handle, it_srq_param_mask_t mask,
                                       const it_srq_param_t *params);
ITAPI_PUBLIC it_status_t it_srq_query(it_srq_handle_t srq_handle, it_srq_param_mask_t mask,
                                      it_srq_param_t *params);

/* -- 8.7 Data transfer ------------------------------------------------------------------------ *
 *
 * None of these calls blocks. Each queues one work request, which starts when those before it on
 * the same queue have started. Its segments (0 of them with NULL: a message of length 0) are copied
 * during the call; the memory behind them is the library's until the completion.
 *
 * Requests need a CONNECTED EP, Receives any state; on a NONOPERATIONAL EP all complete at once as
 * flushed. Completions come in the order of posting, Receives in that of arrival. A place in a
 * queue is free again when its completion, or a later one of the same queue, has been dequeued. A
 * completed Send or Write means that the buffer may be reused, not that the peer has seen it. A
 * completed Receive means that the peer's Writes posted before that Send are in place. After an
 * RDMA Read, later requests may overtake it unless they are fenced.
 *
 * Errors of all: INVALID_EP_STATE, INVALID_EP_TYPE, INVALID_NUM_SEGMENTS, INVALID_LENGTH,
 * INVALID_LMR, RANGE, ACCESS, INVALID_DTO_FLAGS, TOO_MANY_POSTS (try again after dequeuing),
 * INVALID_RMR (an rmr_context above UINT32_MAX, which no Context is). Errors found later are the
 * completion's status.
 */

/* A message to the peer, which uses one Receive there. If the Receive is too short, or none is
 * posted, an iWARP connection breaks. */
ITAPI_PUBLIC it_status_t it_post_send(it_ep_handle_t ep_handle,
                                      const it_lmr_triplet_t *local_segments, size_t num_segments,
                                      it_dto_cookie_t cookie, it_dto_flags_t dto_flags);

/*
 * The same, and unlinks the peer's narrow RMR or linked LMR of that context before the Receive
 * completes there; the connection breaks if it cannot be.
 */
ITAPI_PUBLIC it_status_t it_post_send_and_unlink(it_ep_handle_t ep_handle,
                                                 const it_lmr_triplet_t *local_segments,
                                                 size_t num_segments, it_dto_cookie_t cookie,
                                                 it_dto_flags_t dto_flags,
                                                 it_rmr_context_t rmr_context);

/* A datagram of max_ud_send_len bytes at most. Errors: also INVALID_AH (also for one of another PZ
 * or Spigot than the EP's). A datagram that the peer refuses or the network loses is not
 * reported. */
ITAPI_PUBLIC it_status_t it_post_sendto(it_ep_handle_t ep_handle,
                                        const it_lmr_triplet_t *local_segments, size_t num_segments,
                                        it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                                        const it_dg_remote_ep_addr_t *remote_ep_addr);

/*
 * A buffer for one message, on an RC EP without S-RQ or on an S-RQ. Errors: also INVALID_HANDLE
 * (handle is neither), INVALID_EP (the EP has an S-RQ).
 */
ITAPI_PUBLIC it_status_t it_post_recv(it_handle_t handle, const it_lmr_triplet_t *local_segments,
                                      size_t num_segments, it_dto_cookie_t cookie,
                                      it_dto_flags_t dto_flags);

/* A buffer for one datagram of a UD EP; its first 40 bytes are reserved for the GRH. Errors: also
 * INVALID_LENGTH (less than these, or more than these and the EP's payload). */
ITAPI_PUBLIC it_status_t it_post_recvfrom(it_ep_handle_t ep_handle,
                                          const it_lmr_triplet_t *local_segments,
                                          size_t num_segments, it_dto_cookie_t cookie,
                                          it_dto_flags_t dto_flags);

/* Writes into the peer's memory; the peer's Consumer is not notified. */
ITAPI_PUBLIC it_status_t it_post_rdma_write(it_ep_handle_t ep_handle,
                                            const it_lmr_triplet_t *local_segments,
                                            size_t num_segments, it_dto_cookie_t cookie,
                                            it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr,
                                            it_rmr_context_t rmr_context);

/*
 * Reads from the peer's memory. The sink needs local write; with rdma_read_requires_remote_write
 * remote write and an EP with rdma_write_enable as well. Errors: also RESOURCE_ORD (ORD is 0, or
 * the peer agreed to none: its IRD is 0; the connection stays).
 */
ITAPI_PUBLIC it_status_t it_post_rdma_read(it_ep_handle_t ep_handle,
                                           const it_lmr_triplet_t *local_segments,
                                           size_t num_segments, it_dto_cookie_t cookie,
                                           it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr,
                                           it_rmr_context_t rmr_context);

/*
 * The same into RMRs that are linked for remote write. Errors: also INVALID_RMR, ACCESS (not
 * linked, linked without remote write, or narrow and linked on another EP).
 */
ITAPI_PUBLIC it_status_t it_post_rdma_read_to_rmr(it_ep_handle_t ep_handle,
                                                  const it_rmr_triplet_t *local_segments,
                                                  size_t num_segments, it_dto_cookie_t cookie,
                                                  it_dto_flags_t dto_flags,
                                                  it_rdma_addr_t rdma_addr,
                                                  it_rmr_context_t rmr_context);

/*
 * Changes one aligned 8-byte word of the peer and returns its old value in `result`, one segment of
 * 8 bytes. IT_FETCH_AND_ADD adds swap_or_add; IT_COMPARE_AND_SWAP stores swap_or_add if the word
 * equals `compare`. Atomic towards other atomics through the same adapter, not towards its CPU.
 * Errors: also INVALID_ATOMIC_OP, INVALID_ADDRESS (result not aligned), RESOURCE_ORD.
 */
ITAPI_PUBLIC it_status_t it_post_atomic(it_ep_handle_t ep_handle, it_atomic_op_t op,
                                        uint64_t swap_or_add, uint64_t compare,
                                        const it_lmr_triplet_t *result, it_dto_cookie_t cookie,
                                        it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr,
                                        it_rmr_context_t rmr_context);

/* -- 8.8 Addresses and address handles -------------------------------------------------------- */

/*
 * Translates an address into another type; the same type is a copy. An IPv4 address becomes the
 * IPv6-mapped one (::ffff:a.b.c.d), and back. GIDs are treated as those of RoCE, which are IP
 * addresses. The network is not queried: an address that only the network could translate is an
 * error. Does not block. Errors: INVALID_NETADDR, INVALID_CONVERSION (no such translation).
 */
ITAPI_PUBLIC it_status_t it_convert_net_addr(const it_net_addr_t *source_addr,
                                             it_net_addr_type_t addr_type,
                                             it_net_addr_t *destination_addr);

/*
 * Finds Paths from a Spigot to an address. In: *num_paths is the room in `paths`. Out: *num_paths
 * is the number of Paths written, *total_paths the number of all; 0 is no error. May block. Errors:
 * INVALID_SPIGOT, INVALID_NETADDR, INTERRUPT, TIMEOUT_EXPIRED, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_get_pathinfo(it_ia_handle_t ia_handle, size_t spigot_id,
                                         const it_net_addr_t *net_addr, size_t *num_paths,
                                         size_t *total_paths, it_path_t *paths);

/*
 * The destination of datagrams. Without IT_AH_PATH_COMPLETE missing members of the Path are looked
 * up, so create may block. Do not modify or free the handle while a request that uses it is
 * outstanding. modify: IT_ADDR_PARAM_PATH, IT_ADDR_PARAM_PZ. query returns the Path as it was
 * given. Errors: create INVALID_FLAGS, INVALID_SOURCE_PATH, INVALID_NETADDR, INVALID_SPIGOT,
 * INTERRUPT, RESOURCES, OP_NOT_SUPPORTED; modify INVALID_MASK, INVALID_PZ, INVALID_SOURCE_PATH,
 * INVALID_NETADDR, INVALID_SPIGOT, RESOURCES; query INVALID_MASK. Bad handle: INVALID_AH.
 */
ITAPI_PUBLIC it_status_t it_address_handle_create(it_pz_handle_t pz_handle,
                                                  const it_path_t *destination_path,
                                                  it_ah_flags_t ah_flags,
                                                  it_addr_handle_t *addr_handle);
ITAPI_PUBLIC it_status_t it_address_handle_free(it_addr_handle_t addr_handle);
ITAPI_PUBLIC it_status_t it_address_handle_modify(it_addr_handle_t addr_handle,
                                                  it_addr_param_mask_t mask,
                                                  const it_addr_param_t *params);
ITAPI_PUBLIC it_status_t it_address_handle_query(it_addr_handle_t addr_handle,
                                                 it_addr_param_mask_t mask,
                                                 it_addr_param_t *params);

/* -- 8.9 Finding UD Endpoints ----------------------------------------------------------------- */

/*
 * A request to the service conn_qual at the end of the Path: "which UD EP serves me?". The reply is
 * IT_CM_MSG_UD_SERVICE_REPLY_EVENT on reply_evd, an SEVD of IT_CM_MSG_EVENT_STREAM. Path and
 * private data are copied. it_ud_service_request sends the request, and may be called again while
 * no reply has come; freeing the handle abandons a pending request. If no reply comes within the
 * Path's timeout there is no event. Errors: create INVALID_CONN_QUAL, INVALID_CONN_EVD,
 * INVALID_EVD_TYPE, INVALID_SOURCE_PATH, INVALID_NETADDR, INVALID_SPIGOT, INVALID_PDATA_LENGTH,
 * PDATA_NOT_SUPPORTED, RESOURCES, OP_NOT_SUPPORTED; request INVALID_CONN_QUAL (a service ID that
 * cannot be requested from here), NO_PERMISSION, RESOURCES; query INVALID_MASK. Bad handle:
 * INVALID_UD_SVC.
 */
ITAPI_PUBLIC it_status_t it_ud_service_request_handle_create(const it_conn_qual_t *conn_qual,
                                                             it_evd_handle_t reply_evd,
                                                             const it_path_t *destination_path,
                                                             const unsigned char *private_data,
                                                             size_t private_data_length,
                                                             it_ud_svc_req_handle_t *ud_svc_handle);
ITAPI_PUBLIC it_status_t it_ud_service_request(it_ud_svc_req_handle_t ud_svc_handle);
ITAPI_PUBLIC it_status_t it_ud_service_request_handle_query(
    it_ud_svc_req_handle_t ud_svc_handle, it_ud_svc_req_param_mask_t mask,
    it_ud_svc_req_param_t *ud_svc_handle_info);
ITAPI_PUBLIC it_status_t it_ud_service_request_handle_free(it_ud_svc_req_handle_t ud_svc_handle);

/*
 * Replies to IT_CM_REQ_UD_SERVICE_REQUEST_EVENT and consumes its id. ep_info is used only with
 * IT_UD_SVC_EP_INFO_VALID. Errors: INVALID_UD_SVC_REQ_ID, INVALID_UD_STATUS, INVALID_EP (ep_info is
 * of no EP here), INVALID_EP_KEY (the transport cannot carry it), INVALID_PDATA_LENGTH,
 * PDATA_NOT_SUPPORTED, RESOURCES.
 */
ITAPI_PUBLIC it_status_t it_ud_service_reply(it_ud_svc_req_identifier_t ud_svc_req_id,
                                             it_ud_svc_req_status_t status,
                                             it_remote_ep_info_t ep_info,
                                             const unsigned char *private_data,
                                             size_t private_data_length);

#ifdef __cplusplus
} /* extern "C" */

extern "C++" { /* also where the program includes this header inside its own extern "C" */

/* ------------------------------------------------------------------------------------------------
 * 9. C++: operators for mask types
 *
 * C++ does not turn the int of A | B back into the enumerated type. ALL is the OR of the type's
 * enumerators: ~ stays within it, because other values do not belong to the type.
 */
#if __cplusplus >= 201103L
#define ITAPI_CONSTEXPR constexpr
#else
#define ITAPI_CONSTEXPR
#endif

#define ITAPI_MASK_OPERATORS(T, ALL)                                                \
    inline ITAPI_CONSTEXPR T operator|(T a, T b)                                    \
    {                                                                               \
        return static_cast<T>(static_cast<unsigned>(a) | static_cast<unsigned>(b)); \
    }                                                                               \
    inline ITAPI_CONSTEXPR T operator&(T a, T b)                                    \
    {                                                                               \
        return static_cast<T>(static_cast<unsigned>(a) & static_cast<unsigned>(b)); \
    }                                                                               \
    inline ITAPI_CONSTEXPR T operator~(T a)                                         \
    {                                                                               \
        return static_cast<T>(~static_cast<unsigned>(a) & (ALL));                   \
    }                                                                               \
    inline T &operator|=(T &a, T b)                                                 \
    {                                                                               \
        return a = a | b;                                                           \
    }                                                                               \
    inline T &operator&=(T &a, T b)                                                 \
    {                                                                               \
        return a = a & b;                                                           \
    }

ITAPI_MASK_OPERATORS(it_conn_qual_type_t, 0xfu)
ITAPI_MASK_OPERATORS(it_transport_service_type_t, 0x3u)
ITAPI_MASK_OPERATORS(it_iobl_type_t, 0x7u)
ITAPI_MASK_OPERATORS(it_rmr_type_t, 0x3u)
ITAPI_MASK_OPERATORS(it_mem_priv_t, 0x1fu)
ITAPI_MASK_OPERATORS(it_lmr_flag_t, 0xfu)
ITAPI_MASK_OPERATORS(it_dto_flags_t, 0x7fu)
ITAPI_MASK_OPERATORS(it_dto_ud_flags_t, 0x1u)
ITAPI_MASK_OPERATORS(it_evd_flags_t, 0x1fu)
ITAPI_MASK_OPERATORS(it_evd_param_mask_t, 0xfffu)
ITAPI_MASK_OPERATORS(it_ep_param_mask_t, 0xfffffffu)
ITAPI_MASK_OPERATORS(it_ep_rc_creation_flags_t, 0x3u)
ITAPI_MASK_OPERATORS(it_cn_est_flags_t, 0x7u)
ITAPI_MASK_OPERATORS(it_sc_flags_t, 0x1u)
ITAPI_MASK_OPERATORS(it_listen_flags_t, 0x3u)
ITAPI_MASK_OPERATORS(it_listen_param_mask_t, 0x1fu)
ITAPI_MASK_OPERATORS(it_ah_flags_t, 0x1u)
ITAPI_MASK_OPERATORS(it_addr_param_mask_t, 0xfu)
ITAPI_MASK_OPERATORS(it_pz_param_mask_t, 0x3u)
ITAPI_MASK_OPERATORS(it_lmr_param_mask_t, 0x7fffu)
ITAPI_MASK_OPERATORS(it_rmr_param_mask_t, 0x7ffu)
ITAPI_MASK_OPERATORS(it_srq_param_mask_t, 0x3fu)
ITAPI_MASK_OPERATORS(it_ud_svc_req_param_mask_t, 0xffu)

#undef ITAPI_MASK_OPERATORS
#undef ITAPI_CONSTEXPR

} /* extern "C++" */
#endif /* __cplusplus */

/* Programs written for the implementation with wide cookies know this header alone, and its
 * additions by it. */
#ifdef ITAPI_WIDE_COOKIE
#include "itx_calls.h"
#endif

#endif /* _IT_API_H */
