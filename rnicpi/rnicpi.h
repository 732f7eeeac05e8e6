/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi.h - the interface between ital and a verbs provider (one shared object per transport).
 *
 * The verbs are those of the RDMA Consortium verbs specification 1.0, with InfiniBand's where they
 * exceed it (UD, atomics, immediate data). This header is all that a provider needs of ital. A
 * provider calls nothing but struct ri_host; librnicpi.a, which it links statically, has helpers
 * (rnicpi_cq.h, rnicpi_ring.h, rnicpi_watch.h, rnicpi_util.h).
 *
 * ABI rules
 *   - {abi-size} The descriptor, the operation tables, the host table and every structure that
 *     crosses begin with `size` (bytes, as the side that allocated it was compiled), except the
 *     work request, work completion and scatter element structures, which are frozen for the life
 *     of ABI major 1.
 *   - {abi-extend} A table is only ever extended at its end, each extension raising
 *     RI_ABI_MINOR. A reader treats what lies past `size` as absent. Absent operations (past the
 *     end, or NULL) are filled by the loader from a default table, which answers
 *     RI_ERR_NOT_SUPPORTED: nobody tests a slot for NULL.
 *   - {abi-version} A provider of an older minor loads; one of a newer minor of the same major
 *     loads; any other major is refused with both versions and the file named.
 *
 * Marks on operations: [caller | thread | blocking]
 *   caller   kal (control) or ual (data path)
 *   thread   any: any thread at any time, the provider locks; serial(x): the caller never makes two
 *            such calls on the same x at once; run: only inside a run of the lane (one at a time)
 *   blocking may block / no (never waits for the peer or another thread's I/O, may take short
 *   locks)
 *
 * {object-head} Objects: each provider object begins with one of the structures of section 4 ({ops,
 * context}). `ops` is the completed table that the loader passed at open (struct ri_open);
 * `context` is the caller's pointer, given at creation, and the only identity that completions,
 * events and upcalls carry. So a provider can be opened over another and pass things through;
 * nothing above may assume hardware.
 *
 * {outputs} Outputs are written on RI_OK only. Everything a call receives by pointer is lent for
 * the call. {owner} What an operation creates is the provider's memory: the caller holds the
 * pointer until the operation that destroys it has answered RI_OK, and looks at nothing but the two
 * members of section 4. The caller destroys what uses an object before the object.
 *
 * {strings} Strings may be NULL only where that is said: ri_device.name (there is no device),
 * .reason and .advice (none is known), ri_event.detail, ri_open.device (the provider's default),
 * the text members of ri_provider and ri_option but the names (NULL is the empty string). Names of
 * counters are static strings, never NULL.
 *
 * {smallest} The smallest provider has enumerate, open, close, query, query_port, lane_open; create
 * and destroy of PD, CQ and QP; qp_modify to ERROR and IDLE, qp_query; mr_register and
 * mr_deregister; post_send with SEND, RDMA_WRITE and RDMA_READ, post_recv, poll, arm with
 * RI_ARM_NEXT, progress, lane_arm; and one set of connection verbs: all of set A but confirm,
 * service_request and service_reply, or qp_modify to RTS (with a handover), CLOSING and TERMINATE;
 * or neither, and QPs are connected by numbers alone (RI_FEATURE_QP_NUMBERS, query_gids). Of the
 * feature bits it sets that of its connection verbs; all others may be clear.
 * {attr-nonzero} Nothing in ri_rnic_attr but what counts optional things may be 0. The host closes
 * a provider again whose attributes say less.
 *
 * Before each rule that can be checked stands its name in braces. richeck(1), which grades a
 * provider, cites it.
 */
#ifndef RNICPI_H
#define RNICPI_H

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RI_ABI_MAJOR 1u
#define RI_ABI_MINOR 0u

#define RI_NO_DEADLINE UINT64_MAX /* "none" for every deadline (CLOCK_MONOTONIC nanoseconds) */
#define RI_MAX_PRIVATE_DATA \
    512u /* octets; RFC 5044 7.1: the largest any set of connection verbs carries */

/* ------------------------------------------------------------------------------------------------
 * 1. Status
 */
enum ri_status {
    RI_OK = 0,
    RI_ERR_NOT_SUPPORTED,    /* the provider or its device has no such operation */
    RI_ERR_INVALID_ARGUMENT, /* a value that no state of the object could accept */
    /* The QP, window or connection is in a state that forbids it. */
    RI_ERR_INVALID_STATE,
    RI_ERR_NO_RESOURCES,   /* out of memory, descriptors or device objects */
    RI_ERR_LIMIT,          /* beyond a limit in struct ri_rnic_attr */
    RI_ERR_QUEUE_FULL,     /* work queue full; nothing of this and later requests was posted */
    RI_ERR_BUSY,           /* dependent objects or unfinished work exist */
    RI_ERR_AGAIN,          /* not now; the call may be repeated after the lane has run */
    RI_ERR_ADDRESS,        /* memory range not mapped in the process */
    RI_ERR_ACCESS,         /* access rights not available on that memory */
    RI_ERR_PERMISSION,     /* the operating system or a policy refuses */
    RI_ERR_ADDRESS_IN_USE, /* port or service identifier taken */
    RI_ERR_UNREACHABLE,    /* no route, or no such local address */
    RI_ERR_TIMED_OUT,
    RI_ERR_DEVICE, /* the RNIC has failed; only destroy and close still work */
    RI_STATUS_COUNT
};

/* ------------------------------------------------------------------------------------------------
 * 2. Attributes of an RNIC
 */
enum ri_transport {
    RI_TRANSPORT_IWARP = 1,
    RI_TRANSPORT_INFINIBAND = 2, /* also RoCE; see ri_port_attr.link_ethernet */
};

/* {features} Bits of ri_rnic_attr.features. A reader ignores bits that it does not know. */
#define RI_FEATURE_SRQ        (UINT64_C(1) << 0)
#define RI_FEATURE_SRQ_RESIZE (UINT64_C(1) << 1)
#define RI_FEATURE_QP_RESIZE  (UINT64_C(1) << 2)
#define RI_FEATURE_CQ_RESIZE  (UINT64_C(1) << 3)
#define RI_FEATURE_UD         (UINT64_C(1) << 4)
#define RI_FEATURE_ATOMICS    (UINT64_C(1) << 5)
#define RI_FEATURE_IMMEDIATE  (UINT64_C(1) << 6)
/* window bound to one QP (RDMAC window, IB type 2) */
#define RI_FEATURE_MW_NARROW (UINT64_C(1) << 7)
/* window usable over every QP of its PD (IB type 1) */
#define RI_FEATURE_MW_WIDE (UINT64_C(1) << 8)
/* regions addressed from 0 */
#define RI_FEATURE_ZERO_BASED       (UINT64_C(1) << 9)
#define RI_FEATURE_SEND_INVALIDATE  (UINT64_C(1) << 10)
#define RI_FEATURE_LOCAL_INVALIDATE (UINT64_C(1) << 11)
#define RI_FEATURE_FAST_REGISTER    (UINT64_C(1) << 12)
/* Read with invalidate of the local sink STag */
#define RI_FEATURE_READ_INVALIDATE (UINT64_C(1) << 13)
/* a Read's sink needs remote write (iWARP wire rule) */
#define RI_FEATURE_READ_SINK_REMOTE_WRITE (UINT64_C(1) << 14)
/* ORD may rise on a connected QP */
#define RI_FEATURE_ORD_RAISE  (UINT64_C(1) << 15)
#define RI_FEATURE_IRD_MODIFY (UINT64_C(1) << 16)
/* QP access enables may change after creation */
#define RI_FEATURE_ACCESS_MODIFY (UINT64_C(1) << 17)
/* RI_ARM_NOTIFY_MARKED */
#define RI_FEATURE_CQ_ARM_NOTIFY (UINT64_C(1) << 18)
/* RI_ARM_NTH */
#define RI_FEATURE_CQ_ARM_NTH (UINT64_C(1) << 19)
/* cq_peek */
#define RI_FEATURE_CQ_PEEK (UINT64_C(1) << 20)
/* Completions that do not fit wait in their QP. None is lost. */
#define RI_FEATURE_CQ_HOLDS_OVERFLOW (UINT64_C(1) << 21)
/* resolve/listen/connect/... exist */
#define RI_FEATURE_CONNECTION_SET_A (UINT64_C(1) << 22)
/* qp_modify accepts struct ri_llp_handover */
#define RI_FEATURE_CONNECTION_SET_B (UINT64_C(1) << 23)
/* connect may ask for a confirm by the active consumer */
#define RI_FEATURE_THREE_WAY (UINT64_C(1) << 24)
/* port up and down are reported by rnic_event */
#define RI_FEATURE_PORT_EVENTS (UINT64_C(1) << 25)
/* The device reaches memory by DMA, and the host pins regions for it, unless the configuration says
 * otherwise. Clear: the CPU copies. */
#define RI_FEATURE_DMA       (UINT64_C(1) << 26)
#define RI_FEATURE_SHARED_MR (UINT64_C(1) << 27)
/* RI_QP_PRIVILEGED: QPs that may use fast registration */
#define RI_FEATURE_PRIVILEGED_QP (UINT64_C(1) << 28)
/* a Read may scatter over max_read_sge > 1 elements */
#define RI_FEATURE_READ_MULTI_SGE (UINT64_C(1) << 29)
/* rq_limit, rq_hard_limit of a QP with an SRQ */
#define RI_FEATURE_QP_RQ_LIMITS (UINT64_C(1) << 30)
/* RI_ACCESS_IO_ADDR: regions addressed from a value that the caller chooses (verbs: iova) */
#define RI_FEATURE_IO_ADDR (UINT64_C(1) << 31)
/* RI_QPM_RNR: a Send that finds no receive may wait for one */
#define RI_FEATURE_RNR (UINT64_C(1) << 32)
/* RI_QPM_IMMEDIATE: over iWARP too, immediate data takes no receive of its own */
#define RI_FEATURE_FUSED_IMMEDIATE (UINT64_C(1) << 33)
/* It connects QPs by number (rule "numbers"), and has query_gids. Clear: there are no
 * states INIT and RTR, and what wants two QPs connected by numbers does it by connection verbs. */
#define RI_FEATURE_QP_NUMBERS (UINT64_C(1) << 34)
/* RI_QPM_ACKNOWLEDGED: over iWARP too, a Send or Write completes when the peer has taken it */
#define RI_FEATURE_ACKNOWLEDGE (UINT64_C(1) << 35)
/* {dma-pins} With RI_FEATURE_DMA: the device or its driver pins by itself (VFIO, a driver of the
 * kernel's RDMA), so the host pins only if the configuration says so. mr_register answers ADDRESS,
 * ACCESS and NO_RESOURCES itself, as one whose CPU copies does. */
#define RI_FEATURE_DMA_PINS (UINT64_C(1) << 36)
/* RI_ACCESS_KEEP_KEYS. lkey and rkey of a region are one STag. */
#define RI_FEATURE_KEEP_KEYS (UINT64_C(1) << 37)
/* Set B: a hand-over may carry a stream that is no TCP socket (struct ri_stream_ops) */
#define RI_FEATURE_STREAMS (UINT64_C(1) << 38)
/* local_make, local_take and local_drop exist. Set B: a hand-over may carry what they made. Set A:
 * the provider brings QPs of one host together by itself */
#define RI_FEATURE_LOCAL (UINT64_C(1) << 39)
/* RI_QP_UC. With RI_FEATURE_QP_NUMBERS */
#define RI_FEATURE_UC (UINT64_C(1) << 40)
/* RI_QPS_SQD. With RI_FEATURE_QP_NUMBERS */
#define RI_FEATURE_SQD (UINT64_C(1) << 41)
/* Set A, with RI_FEATURE_QP_NUMBERS: connections whose QP is the consumer's (rule "external-qp") */
#define RI_FEATURE_EXTERNAL_QP (UINT64_C(1) << 42)
/* UD QPs can be attached to multicast groups (rule "multicast"). With RI_FEATURE_UD */
#define RI_FEATURE_MULTICAST (UINT64_C(1) << 43)

/* {limits} Limits and features. A count of optional things is 0 where there are none. */
struct ri_rnic_attr {
    uint32_t size;
    enum ri_transport transport;
    uint64_t features;      /* OR of RI_FEATURE_* */
    uint64_t max_mr_length; /* octets */
    uint64_t max_message;   /* octets of one RDMA Write or Read */
    uint64_t max_send;      /* octets of one Send */
    uint32_t max_ud_send;   /* octets of one datagram */
    uint32_t max_pd, max_cq, max_qp, max_mr, max_mw, max_srq, max_ah;
    uint32_t max_cqe;                              /* entries of one CQ */
    uint32_t max_send_wr, max_recv_wr, max_srq_wr; /* per queue */
    uint32_t max_send_sge, max_recv_sge, max_read_sge, max_write_sge, max_srq_sge;
    uint32_t max_inline; /* octets copied at post time when RI_WR_INLINE is set */
    uint32_t max_ird, max_ord;
    uint32_t max_fast_register_pages;
    uint32_t ports;
    uint32_t lanes;
    uint32_t alignment_hint; /* octets */
    uint32_t connect_private_data, accept_private_data,
        reject_private_data; /* octets for the consumer */
    uint32_t disconnect_private_data, service_request_private_data, service_reply_private_data;
    uint32_t vendor_id, vendor_part, hardware_version;
    char firmware[64]; /* NUL terminated, may be empty */
    /* The only Q_Key that a service reply can carry, if the connection manager can carry no
     * other; 0: any. */
    uint32_t service_qkey;
    /* {hardware} Where the device is, for people and for placement: the number of its NUMA node
     * plus 1 (0: unknown), its address on PCI as "0000:3b:00.0" (NUL terminated; empty: it is not
     * on PCI), and its EUI-64 in network order (zeros: it has none). */
    uint32_t numa_node_plus_one;
    /* What travels, for people: "NAME frames/TCP". NUL terminated. Empty: what `transport` says,
     * so a provider that carries something else in the guise of a transport names it here. */
    char wire[32];
    char pci_address[16];
    uint8_t node_guid[8];
    /* RI_FEATURE_MULTICAST: groups that have QPs at one time, and QPs of one group. */
    uint32_t max_multicast_groups, max_multicast_qps;
    uint64_t reserved[3];
};

struct ri_address {
    struct sockaddr_storage sockaddr; /* IP address of the port; port number 0 */
    uint8_t prefix_length;
    uint8_t reserved[7];
};

/* {port} One port. `addresses` is an in/out array owned by the caller. */
struct ri_port_attr {
    uint32_t size;
    uint32_t port; /* 0 .. ri_rnic_attr.ports - 1 */
    bool online;
    bool link_ethernet;
    uint16_t lid;    /* InfiniBand */
    uint8_t gid[16]; /* InfiniBand, RoCE: GID 0 */
    uint32_t mtu;    /* octets */
    struct ri_address *addresses;
    uint32_t address_capacity; /* in: room in addresses */
    uint32_t address_count;    /* out: addresses that exist, may exceed the capacity */
    /* Network interfaces, separated by a blank, "any" for all, or device port. For people. The host
     * also watches these interfaces, and their addresses, if the provider raises no port events. */
    char name[64];
    uint8_t port_guid[8]; /* EUI-64 in network order; zeros: it has none */
    /* {link} Speed of the link as a whole, in bits per second, and how many lanes of the medium it
     * uses (1, 2, 4, 8, 12). 0: unknown. They are those of now, where the link is up. */
    uint64_t link_speed;
    uint32_t link_width;
    uint32_t reserved0;
    uint64_t reserved[4];
};

enum ri_gid_type {
    RI_GID_NONE = 0, /* the place is empty, `gid` is zeros */
    RI_GID_INFINIBAND,
    RI_GID_ROCE_V1, /* Ethertype 8915 */
    RI_GID_ROCE_V2, /* UDP port 4791 */
};

/* {gids} One place of a port's GID table (InfiniBand 4.1.1, RoCE A17). 32 octets, frozen:
 * query_gids fills an array of them. */
struct ri_gid {
    uint8_t gid[16];    /* network order; RoCE over IPv4: ::ffff:a.b.c.d */
    uint32_t type;      /* enum ri_gid_type */
    uint32_t interface; /* index of the network interface, and scope of fe80::; 0: unknown */
    uint64_t reserved;
};
static_assert(sizeof(struct ri_gid) == 32, "ri_gid is frozen");

/* ------------------------------------------------------------------------------------------------
 * 3. Work requests and completions (frozen for ABI major 1)
 */

/* {sge} Laid out like struct ibv_sge. lkey: ri_mr_keys.lkey; it is not checked if the length is
 * 0. */
struct ri_sge {
    uint64_t addr;
    uint32_t length; /* octets */
    uint32_t lkey;
};

enum ri_wr_opcode {
    RI_WR_SEND = 0,
    RI_WR_SEND_INVALIDATE, /* invalidate_stag names an STag of the peer */
    RI_WR_RDMA_WRITE,
    RI_WR_RDMA_WRITE_IMMEDIATE,
    RI_WR_RDMA_READ,
    RI_WR_RDMA_READ_INVALIDATE, /* the local sink STag is invalidated before the completion */
    RI_WR_ATOMIC_FETCH_ADD,
    RI_WR_ATOMIC_COMPARE_SWAP,
    RI_WR_SEND_IMMEDIATE,
    RI_WR_BIND_WINDOW,
    RI_WR_LOCAL_INVALIDATE,
    RI_WR_FAST_REGISTER,
};

/* {signaled} Without RI_WR_SIGNALED success makes no completion; failure always does. */
enum ri_wr_flags {
    RI_WR_SIGNALED = 1u << 0,    /* success makes a completion; failure always does */
    RI_WR_SOLICITED = 1u << 1,   /* Send: the peer's receive completion is a solicited event */
    RI_WR_READ_FENCE = 1u << 2,  /* start after all earlier Reads and atomics completed */
    RI_WR_LOCAL_FENCE = 1u << 3, /* start after all earlier requests completed */
    RI_WR_INLINE = 1u << 4,      /* data is copied during the post; lkeys are not looked at */
    RI_WR_NOTIFY = 1u << 5,      /* the completion carries RI_WC_NOTIFY */
    RI_WR_COALESCE = 1u << 6,    /* more follows soon: may be held back */
};

/*
 * {immediate} Immediate data over iWARP is a message of its own (RFC 7306 6): 8 octets, the upper
 * four zero, the lower four `immediate` big-endian. It takes one receive of the peer. That receive
 * completes as RI_WC_RECV_IMMEDIATE with byte_len 0, because no octet is placed into it. Octets
 * that the peer wrote before by RDMA Write are in place then. So RI_WR_RDMA_WRITE_IMMEDIATE is a
 * Write and an Immediate Data. RI_WR_SEND_IMMEDIATE is an Immediate Data alone: with octets it is
 * RI_ERR_NOT_SUPPORTED there, because it would take two receives.
 *
 * RI_FEATURE_FUSED_IMMEDIATE, if both ends have set it (RI_QPM_IMMEDIATE): as over InfiniBand.
 * RI_WR_SEND_IMMEDIATE may have octets. It is one message and takes one receive, which completes as
 * RI_WC_RECV. That of RI_WR_RDMA_WRITE_IMMEDIATE completes as RI_WC_RECV_IMMEDIATE with the octets
 * of the Write as byte_len.
 *
 * {atomic} Atomics take one element of at least 8 octets. Its first 8 get the value from before the
 * operation, in host order; the others are not touched. The peer checks the alignment of its word:
 * the request completes as RI_WC_REMOTE_INVALID_REQUEST then.
 */

/*
 * {datagram} Datagrams (RI_QP_UD): RI_WR_SEND only, with `ud`, and, with RI_FEATURE_IMMEDIATE,
 * RI_WR_SEND_IMMEDIATE, which a device may lack for datagrams (INVALID_ARGUMENT); of the flags
 * SIGNALED, SOLICITED, INLINE, NOTIFY, COALESCE. The ah belongs to the QP's PD and lives until the
 * request has completed. A remote_qkey whose upper bit is set stands for the Q_Key of the QP. A
 * receive has 40 octets more than the message, in front of it, over as many elements as they take:
 * the global route header, if there was one (RI_WC_GRH); over IPv4 the last 20 of them are its
 * header. One that is too short for its datagram completes as RI_WC_LOCAL_LENGTH.
 */

/* {post-list} Send queue work request. A list is linked by `next`. The provider reads it only
 * during the call. */
struct ri_send_wr {
    struct ri_send_wr *next;
    uint64_t cookie; /* returned in ri_wc.cookie, not looked at */
    const struct ri_sge *sg_list;
    uint32_t num_sge;
    uint16_t opcode;          /* enum ri_wr_opcode */
    uint16_t flags;           /* OR of enum ri_wr_flags */
    uint32_t immediate;       /* host order */
    uint32_t invalidate_stag; /* RI_WR_SEND_INVALIDATE, RI_WR_LOCAL_INVALIDATE */
    union {
        struct {
            uint64_t remote_addr; /* tagged offset at the peer */
            uint32_t rkey;
            uint32_t reserved;
        } rdma;
        struct {
            uint64_t remote_addr; /* 8-octet aligned */
            uint64_t swap_or_add;
            uint64_t compare;
            uint32_t rkey;
            uint32_t reserved;
        } atomic;
        struct {
            struct ri_ah *ah;
            uint32_t remote_qpn;
            uint32_t remote_qkey;
        } ud;
        struct {
            struct ri_mw *mw;
            struct ri_mr *mr;
            uint64_t addr; /* first octet inside the region */
            uint64_t length;
            uint32_t access;  /* enum ri_access, remote bits */
            uint32_t new_key; /* low 8 bits become the key of the STag */
            uint32_t zero_based;
            uint32_t reserved;
        } bind;
        struct {
            struct ri_mr *mr;
            const uint64_t *pages;
            uint64_t length;
            uint64_t first_offset;
            uint64_t io_addr; /* TO of the first octet */
            uint32_t num_pages;
            uint32_t page_size;
            uint32_t access;
            uint32_t new_key;
        } fast_register;
        uint64_t room[9];
    };
    uint64_t reserved[2];
};

/*
 * {fast-register} Fast registration (RI_FEATURE_FAST_REGISTER). A region that was made unlinked
 * (ri_mr_attr.pages) and is not VALID gets memory and rights by a request on a privileged QP of its
 * PD, in the turn of the request. Its STag is (lkey & ~0xff) | (new_key & 0xff) from then on, and
 * requests posted behind it on that QP may use it. `pages` are num_pages addresses, each of
 * page_size octets. The region is `length` octets, from octet first_offset of the first page on. If
 * RI_FEATURE_DMA is clear they are virtual addresses and page_size is any number; else they are I/O
 * addresses. Refused by the post: more pages than the region has room for (LIMIT), lengths that do
 * not fit (INVALID_ARGUMENT), a QP that is not privileged, or pages that are not contiguous where
 * the provider needs that (NOT_SUPPORTED). Refused in its turn: it completes with
 * RI_WC_MM_OPERATION, the connection ends, and the region stays as it was. A local invalidate, or
 * that of a peer, makes the region INVALID again. mr_reregister: NOT_SUPPORTED.
 */

/* Receive work request, for QPs and SRQs. flags: RI_WR_NOTIFY only. */
struct ri_recv_wr {
    struct ri_recv_wr *next;
    uint64_t cookie;
    const struct ri_sge *sg_list;
    uint32_t num_sge;
    uint32_t flags;
    uint64_t reserved;
};

enum ri_wc_opcode {
    RI_WC_SEND = 0,
    RI_WC_RDMA_WRITE,
    RI_WC_RDMA_READ,
    RI_WC_FETCH_ADD,
    RI_WC_COMPARE_SWAP,
    RI_WC_BIND_WINDOW,
    RI_WC_LOCAL_INVALIDATE,
    RI_WC_FAST_REGISTER,
    RI_WC_RECV = 64,
    RI_WC_RECV_IMMEDIATE, /* of an RDMA Write with immediate; iWARP: of any Immediate Data */
    RI_WC_RECV_DATAGRAM,  /* every receive of a UD QP, also a failed one */
};

/* {wc-status} RDMAC 8.1.x / ibv_wc_status by meaning. Exactly one non-flush error per queue and
 * connection. */
enum ri_wc_status {
    RI_WC_SUCCESS = 0,
    RI_WC_LOCAL_LENGTH,     /* receive too short, response of the wrong length */
    RI_WC_LOCAL_QP,         /* invalid request, internal QP error, Read with ORD 0 */
    RI_WC_LOCAL_PROTECTION, /* local STag, PD, rights, bounds */
    RI_WC_FLUSHED,
    RI_WC_BIND,         /* window bind or invalidate refused */
    RI_WC_BAD_RESPONSE, /* malformed Read or atomic response */
    RI_WC_REMOTE_ACCESS,
    RI_WC_REMOTE_OPERATION,
    RI_WC_REMOTE_INVALID_REQUEST,
    RI_WC_TRANSPORT,    /* connection lost while this request was the cause or victim */
    RI_WC_RNR,          /* receiver not ready retries exceeded */
    RI_WC_MM_OPERATION, /* fast register or invalidate of a region refused */
    RI_WC_GENERAL,
};

enum ri_wc_flags {
    RI_WC_WITH_IMMEDIATE = 1u << 0,
    RI_WC_WITH_INVALIDATE = 1u << 1, /* invalidated_stag is valid */
    RI_WC_SOLICITED = 1u << 2,       /* receive matched by a solicited Send */
    RI_WC_NOTIFY = 1u << 3,          /* the request carried RI_WR_NOTIFY */
    RI_WC_GRH = 1u << 4,             /* first 40 octets of the datagram buffer are valid */
};

/* {wc} Work completion, 64 octets. opcode, byte_len and RI_WC_NOTIFY are right for every opcode and
 * also for errors (byte_len 0 then). A provider whose hardware does not report them keeps a
 * shadow ring. {wc-once} A request that was accepted completes once at most: a program may reuse
 * its cookie, and what it stands for, when it has polled the completion. */
struct ri_wc {
    void *context;     /* of the QP */
    uint64_t cookie;   /* of the request */
    uint32_t byte_len; /* octets transferred; receive: received, datagrams with the 40 in front */
    uint16_t status;   /* enum ri_wc_status */
    uint8_t opcode;    /* enum ri_wc_opcode */
    uint8_t flags;     /* OR of enum ri_wc_flags */
    union {
        uint32_t immediate; /* host order; with RI_WC_WITH_IMMEDIATE */
        /* With RI_WC_WITH_INVALIDATE: the STag that the receive or the RDMA Read invalidated.
         * Bind, local invalidate, fast register: the STag of the request (bind, fast register:
         * with its new key), whatever the status. RDMA Read that failed: the STag that it would
         * have invalidated, 0 none. */
        uint32_t invalidated_stag;
    };
    uint32_t vendor_error; /* iWARP: Terminate value 0xLECC when one is behind the status */
    struct {
        uint32_t qpn;
        uint16_t lid;
        uint16_t pkey_index;
        uint8_t sl;
        uint8_t path_bits;
        uint8_t reserved[2];
    } source; /* RI_WC_RECV_DATAGRAM that succeeded; lid, sl, path_bits where ports have LIDs. Over
               * RoCEv2 sl tells the kind of the IP header, as adapters do (A17.4.5.1): 9 IPv6,
               * 10 IPv4 */
    uint32_t
        immediate_high; /* iWARP, with RI_WC_WITH_IMMEDIATE: the upper half of what the peer sent */
    uint8_t source_gid[16]; /* with RI_WC_GRH: the sender's GID; of RoCE over IPv4 ::ffff:a.b.c.d */
};

static_assert(sizeof(struct ri_sge) == 16, "ri_sge is laid out like ibv_sge");
static_assert(sizeof(struct ri_wc) == 64, "ri_wc is one cache line");

/* ------------------------------------------------------------------------------------------------
 * 4. Objects. Providers embed these as first member; nobody above looks further than shown here.
 */
struct ri_privileged_ops;
struct ri_user_ops;
struct ri_host;

/* Memory that the two ends of a connection share: a provider's own structure. */
struct ri_local;

struct ri_rnic {
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_pd {
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_mr {
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_mw {
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_ah {
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_connection { /* set A: connection identifier */
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_listener { /* set A: listening point */
    const struct ri_privileged_ops *ops;
    void *context;
};
struct ri_cq {
    const struct ri_user_ops *ops;
    void *context;
};
/* {ops} A provider may give a QP other operations when its connection begins or ends, while others
 * post to it: it stores the pointer atomically, and a reader takes it by ri_qp_ops(). */
struct ri_qp {
    const struct ri_user_ops *ops;
    void *context;
};
struct ri_srq {
    const struct ri_user_ops *ops;
    void *context;
};
/* {lane-ops} A lane may have a complete table of its own. */
struct ri_lane {
    const struct ri_user_ops *ops;
    void *context;
};

static inline const struct ri_user_ops *ri_qp_ops(const struct ri_qp *qp)
{
    return __atomic_load_n(&qp->ops, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------------------------------------
 * 5. Creation and modification arguments
 *
 * RNR (RI_FEATURE_RNR): with an rnr_retry other than 0, a Send or Immediate Data that finds no
 * receive does not end the connection. It waits at its receiver for a post to the QP or its SRQ,
 * and those behind it wait, too; all other messages are processed. A receiver that keeps much
 * stops reading. The values are InfiniBand's: rnr_retry intervals of rnr_timer, and at least half a
 * second, pass until the connection ends with RI_EVENT_NO_RECEIVE; with 7 it never does. The two
 * consumers have to agree, because plain iWARP ends the connection at once. A QP with
 * rq_hard_limit never waits.
 *
 * ACKNOWLEDGED (RI_FEATURE_ACKNOWLEDGE): a Send, a Write or Immediate Data completes when the peer
 * has taken it, and with the error that the peer has found in it, not when its octets were sent.
 * Requests that send nothing complete in their turn among them. Over iWARP this costs messages
 * beside those of the consumer, so both consumers have to agree: a peer that is not in this mode
 * may refuse them. It is set before the first request of a connection, and holds until it is set
 * to false.
 *
 * Inline data has its names already (max_inline, RI_WR_INLINE): max_inline 0 in ri_rnic_attr says
 * that there is none.
 */
enum ri_access {
    RI_ACCESS_LOCAL_READ = 1u << 0,
    RI_ACCESS_LOCAL_WRITE = 1u << 1,
    RI_ACCESS_REMOTE_READ = 1u << 2,
    RI_ACCESS_REMOTE_WRITE = 1u << 3,
    RI_ACCESS_REMOTE_ATOMIC = 1u << 4,
    RI_ACCESS_BIND = 1u << 5,       /* windows may be bound */
    RI_ACCESS_ZERO_BASED = 1u << 6, /* addressed from 0 instead of by virtual address */
    RI_ACCESS_IO_ADDR = 1u << 7,    /* addressed from ri_mr_attr.io_addr; not with ZERO_BASED */
    RI_ACCESS_KEEP_KEYS = 1u << 8,  /* mr_reregister only: there is its rule */
};

struct ri_mr_attr {
    uint32_t size;
    uint32_t access; /* OR of enum ri_access */
    void *context;
    void *addr;      /* NULL with pages != 0: an unlinked region (fast registration) */
    uint64_t length; /* octets, > 0 */
    uint32_t pages;  /* capacity in pages of an unlinked region */
    uint32_t shared_id;
    bool shared; /* RI_FEATURE_SHARED_MR: share translations with regions of the same shared_id */
    /* With RI_ACCESS_IO_ADDR: the address of the region's first octet, in ri_sge.addr, in binds
     * and for the peer (tagged offset). io_addr + length beyond 2^64: RI_ERR_INVALID_ARGUMENT.
     * Without the bit it is not used. */
    uint64_t io_addr;
    uint64_t reserved[3];
};

/*
 * {stag} STags. An lkey that a provider hands out is not 0: STag 0 belongs to privileged QPs. rkey
 * is 0 if no remote right was asked for; else it may equal the lkey, as it does on iWARP.
 * {stag-random} If a peer can guess STags, any peer of any QP of the PD can try them. So indices
 * and keys should be random, and freed indices should be reused late (RFC 5042 5.3, 7.3).
 * {stag-unique} The upper 24 bits of an STag name its region or window. The lower 8 are the key,
 * which consumers and re-registration change (RDMAC 7.2.1). So regions and windows that exist at
 * one time on an RNIC differ in the upper 24 bits of their lkeys, rkeys and window STags: the host
 * finds the object of a completion by these bits.
 */
struct ri_mr_keys {
    uint32_t lkey; /* STag for ri_sge */
    uint32_t rkey; /* STag for the peer; 0 when no remote access was asked */
};

struct ri_cq_attr {
    uint32_t size;
    uint32_t depth; /* entries; the provider may give more: see cq_create */
    void *context;
    /* {cq-lane} The lane whose runs report cq_event, so that a device raises that lane's interrupt
     * (verbs: completion vector). NULL: the provider chooses. A wish: any lane's QPs may complete
     * to the CQ, and a provider without an interrupt for each lane may report elsewhere. */
    struct ri_lane *lane;
    uint64_t reserved[3];
};

enum ri_qp_type {
    RI_QP_RC = 1,
    RI_QP_UD = 2,
    /* InfiniBand's unreliable connection (9.8.2): Sends and Writes, with or without immediate data,
     * and binds. RI_FEATURE_UC; connected by numbers alone, as "numbers" says. */
    RI_QP_UC = 3,
};

enum ri_qp_flags {
    RI_QP_READ_ENABLE = 1u << 0,  /* accept incoming RDMA Reads */
    RI_QP_WRITE_ENABLE = 1u << 1, /* accept incoming RDMA Writes */
    RI_QP_ATOMIC_ENABLE = 1u << 2,
    RI_QP_BIND_ENABLE = 1u << 3,
    RI_QP_PRIVILEGED = 1u << 4,
    RI_QP_INVALIDATE_ENABLE = 1u << 5, /* accept Send with Invalidate */
    /* Set B: posted receives outlive a connection that the peer, or its silence, has ended: they
     * complete flushed when something is sent, or the state is modified. As on InfiniBand, where
     * nobody hears of a peer that leaves. The first request that is unfinished then, or posted
     * later, completes with RI_WC_TRANSPORT, and they flushed. After the end qp_query tells the
     * flag only while they are kept. */
    RI_QP_KEEP_RECEIVES = 1u << 6,
};

struct ri_qp_attr {
    uint32_t size;
    enum ri_qp_type type;
    void *context;
    struct ri_cq *send_cq;
    struct ri_cq *recv_cq;
    struct ri_srq *srq;   /* NULL: an own receive queue */
    struct ri_lane *lane; /* the lane that carries the QP's connection */
    uint32_t max_send_wr, max_recv_wr;
    uint32_t max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    uint32_t max_inline;
    /*
     * {depths} Most RDMA Reads and atomics of the peer (IRD), and of this side (ORD), that may be
     * unanswered. The provider enforces both; the host counts none. ORD: further requests wait in
     * the send queue, and so do all behind them. With ORD 0 from the beginning of the connection a
     * Read completes with RI_WC_LOCAL_QP. IRD: a peer that sends more requests ends the connection
     * with RI_EVENT_REMOTE_OPERATION; with IRD 0, or without RI_QP_READ_ENABLE, with
     * RI_EVENT_READ_ACCESS. The values agreed at connection set-up (handover, ri_connect_param)
     * replace these. Set B: the host negotiates them, set A: the provider does. Devices behind set
     * A follow their own rules where they cannot be configured.
     */
    uint32_t ird, ord;
    uint32_t flags; /* OR of enum ri_qp_flags */
    /* {rq-limit} RDMAC QP RQ limit: receives of the SRQ that this QP has taken and whose
     * completions are not polled. More than rq_limit: RI_EVENT_QP_RQ_LIMIT_REACHED, once until
     * RI_QPM_RQ_LIMITS sets it again. A message beyond rq_hard_limit ends the connection with
     * RI_EVENT_NO_RECEIVE. 0: no limit. */
    uint32_t rq_limit, rq_hard_limit;
    uint32_t port; /* UD: 0 .. ri_rnic_attr.ports - 1 */
    uint32_t qkey; /* UD: what datagrams for this QP must carry */
    uint64_t reserved[4];
};

enum ri_srq_modify_mask {
    RI_SRQM_MAX_WR = 1u << 0,
    RI_SRQM_LIMIT = 1u << 1,
};

struct ri_srq_attr {
    uint32_t size;
    uint32_t max_wr;
    uint32_t max_sge;
    uint32_t limit; /* fewer requests than that raise RI_EVENT_SRQ_LIMIT_REACHED, once; 0: none */
    void *context;
    uint64_t reserved[2];
};

/*
 * {qp-states} RDMAC 6.2 states, and those of InfiniBand (10.3.1) that RDMAC lacks. CLOSING ends in
 * ERROR, not in IDLE as in RDMAC: so requests posted meanwhile complete flushed and do not wait for
 * the next connection. Only modify to IDLE leaves ERROR.
 */
enum ri_qp_state {
    RI_QPS_IDLE = 0,
    RI_QPS_RTS = 1,
    RI_QPS_TERMINATE = 2,
    RI_QPS_CLOSING = 3,
    RI_QPS_ERROR = 4,
    /* RI_FEATURE_QP_NUMBERS, as "numbers" says. INIT: has its port and rights; what comes in is
     * dropped. RTR: receives and answers. SQD (RI_FEATURE_SQD): requests that were begun end,
     * further ones wait. SQE (UC): a request has failed, those behind it complete flushed, receives
     * go on. */
    RI_QPS_INIT = 5,
    RI_QPS_RTR = 6,
    RI_QPS_SQD = 7,
    RI_QPS_SQE = 8,
};

/* The ready-to-receive message of RFC 6581 9.2. */
enum ri_rtr { RI_RTR_NONE = 0, RI_RTR_SEND = 1, RI_RTR_WRITE = 2, RI_RTR_READ = 4 };

/* The destination of datagrams, and the path of a QP that is connected by numbers. Values as in
 * InfiniBand's address vector. */
struct ri_ah_attr {
    uint32_t size;
    uint32_t port; /* 0 .. ri_rnic_attr.ports - 1 */
    void *context;
    uint8_t destination_gid[16]; /* with `global` */
    uint16_t destination_lid;    /* 0 where ports have none */
    uint8_t sl, hop_limit, traffic_class, path_bits;
    uint8_t global; /* with a global route header: always on RoCE */
    uint32_t flow_label;
    uint8_t source_gid[16]; /* with `global`: one of the port's; zeros: what fits the destination */
    uint8_t static_rate;    /* 0: the port's */
    uint8_t reserved0[7];
    uint64_t reserved[1];
};

/*
 * {stream} The stream that made a connection, as the host hands it over: a protocol over TCP (such
 * as TLS), or a stream of a test. A provider takes it if it has RI_FEATURE_STREAMS. Its lane
 * watches the descriptor (EPOLLIN, EPOLLOUT, EPOLLRDHUP as for a socket). No operation blocks; one
 * thread at a time sends, finishes or closes, one receives. Results: octets moved, 0 the peer has
 * ended the stream (receive), or -errno (-EAGAIN: not now). After EAGAIN the descriptor becomes
 * ready when the call may be repeated.
 */
struct ri_stream_ops {
    uint32_t size;
    ssize_t (*send)(void *stream, const struct iovec *iov, int count);
    ssize_t (*receive)(void *stream, void *octets, size_t room);
    /* Octets that go best into one send, at least 128. May change. */
    uint32_t (*segment)(void *stream);
    /* No more is sent: the peer reads the end of the stream behind what was. */
    void (*finish)(void *stream);
    /* Ends both directions and frees the stream; reset: what is unsent is dropped, and the peer
     * finds a reset. The last call. */
    void (*close)(void *stream, bool reset);
};

/*
 * {handover} Set B: a TCP connection whose MPA start-up is decided becomes the QP's lower layer.
 * Plain data plus one descriptor. The provider owns `fd` from the moment qp_modify returns RI_OK;
 * before, and on failure, the caller does. The socket may have other descriptors (the consumer's
 * own, those of forked children): shutdown or a reset ends the connection, to close `fd` does not.
 * Buffers are copied during the call.
 *
 * {last-message} `last_message` (the MPA Reply, or the last streaming message of a socket
 * conversion) leaves before any FPDU and only when the QP can receive. {refuse} With `refuse_code`
 * the connection is refused: a Terminate of that value is the only FPDU sent, the connection
 * closes, and the QP goes to RI_QPS_ERROR without `established`.
 *
 * {local-wire} With `local` both ends are on one host, and both providers have agreed to exchange
 * requests through the memory that they share. `last_message` still leaves over `fd`, and nothing
 * else does: the end of that connection is the end of this one, unless both providers have agreed
 * to close it. `local_fd` is a connected Unix stream socket between the two, non-blocking and
 * close-on-exec; what is said there is the providers' own, and they may close it. The provider owns
 * both from the moment qp_modify returns RI_OK. What MPA
 * negotiates about FPDUs (crc, markers, ready-to-receive message) has no meaning; with `rtr_await`
 * `established` is reported when the peer's QP has started.
 */
struct ri_llp_handover {
    uint32_t size;
    int fd;                /* connected, non-blocking, close-on-exec */
    bool initiator;        /* MPA role, RFC 5044 7.1 */
    uint8_t mpa_revision;  /* 1 or 2 */
    bool crc;              /* both directions */
    bool markers_transmit; /* the peer asked for markers */
    bool markers_receive;  /* we asked for markers */
    uint8_t rtr_send;      /* enum ri_rtr: the initiator sends this first */
    bool
        rtr_await; /* responder, peer-to-peer model: report `established` on the first valid FPDU */
    uint16_t refuse_code;   /* 0, or the Terminate value 0xLECC to refuse with */
    uint32_t ird, ord;      /* as negotiated */
    const void *bytes_read; /* octets of the stream read beyond the start-up frame */
    size_t bytes_read_length;
    const void *last_message;
    size_t last_message_length;
    uint64_t capture; /* token for ri_host.capture, 0 none */
    /* What carries the octets over `fd`. NULL: nothing, it is a TCP socket. */
    const struct ri_stream_ops *stream_ops;
    void *stream;
    struct ri_local *local; /* NULL: requests travel over `fd` */
    int local_fd;           /* with `local` */
    uint32_t reserved0;
};

enum ri_qp_modify_mask {
    RI_QPM_STATE = 1u << 0,
    RI_QPM_ORD = 1u << 1,
    RI_QPM_IRD = 1u << 2,
    RI_QPM_FLAGS = 1u << 3,
    RI_QPM_MAX_SEND_WR = 1u << 4,
    RI_QPM_MAX_RECV_WR = 1u << 5,
    RI_QPM_RQ_LIMITS = 1u << 6,
    RI_QPM_HANDOVER = 1u << 7, /* with RI_QPM_STATE = RI_QPS_RTS */
    RI_QPM_QKEY = 1u << 8,
    RI_QPM_RNR = 1u << 9,
    RI_QPM_IMMEDIATE = 1u << 10,
    RI_QPM_ACKNOWLEDGED = 1u << 11,
    /* RI_FEATURE_QP_NUMBERS; which of them when: rule numbers-needed */
    RI_QPM_PORT = 1u << 12,
    RI_QPM_PATH = 1u << 13,
    RI_QPM_PATH_MTU = 1u << 14,
    RI_QPM_DESTINATION_QPN = 1u << 15,
    RI_QPM_RECEIVE_PSN = 1u << 16,
    RI_QPM_SEND_PSN = 1u << 17,
    RI_QPM_TIMEOUT = 1u << 18,
    RI_QPM_RETRY_COUNT = 1u << 19,
    RI_QPM_RNR_RETRY = 1u << 20, /* rnr_retry */
    RI_QPM_RNR_TIMER = 1u << 21, /* rnr_timer */
};

struct ri_qp_modify {
    uint32_t size;
    uint32_t mask; /* OR of enum ri_qp_modify_mask */
    enum ri_qp_state state;
    uint32_t ird, ord, flags, max_send_wr, max_recv_wr;
    uint32_t rq_limit, rq_hard_limit;
    uint32_t qkey;
    const struct ri_llp_handover *handover;
    /* InfiniBand's RNR retry count (0: none, 7: without end): with RI_QPM_RNR that of the peer,
     * with RI_QPM_RNR_RETRY how often this side repeats a request. And the minimum RNR NAK timer
     * that this side asks of the peer (0..31, InfiniBand table 45: 1 is 10 us, 31 is 491.52 ms, 0
     * is 655.36 ms). */
    uint8_t rnr_retry, rnr_timer;
    bool fused_immediate; /* the peer has it, too */
    bool acknowledged;    /* likewise */
    /* {numbers-attributes} What connects a QP by numbers (InfiniBand 11.2.5.2). Beyond its range:
     * INVALID_ARGUMENT. `timeout`: local ACK timeout, 0..31: 4.096 us * 2^timeout, 0: none, the
     * request is never repeated. `retry_count`: 0..7, how often a request without an answer is
     * repeated before it completes as RI_WC_TRANSPORT. */
    uint8_t timeout, retry_count;
    uint8_t reserved0[2];
    uint32_t port;                  /* 0 .. ri_rnic_attr.ports - 1 */
    uint32_t path_mtu;              /* octets: 256, 512, 1024, 2048, 4096, at most the port's MTU */
    uint32_t destination_qpn;       /* 24 bits */
    uint32_t receive_psn, send_psn; /* 24 bits: the first that is expected, and that is sent */
    /* To the peer. `context` is not used; `port` is that of the QP. UNREACHABLE: source_gid is not
     * in the port's table, or no way there is known. Lent for the call. */
    const struct ri_ah_attr *path;
    uint64_t reserved[3];
};

struct ri_qp_info {
    uint32_t size;
    enum ri_qp_state state;
    uint32_t qpn;
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    uint32_t ird, ord, flags;
    bool holding;            /* posts accepted and held until the peer's first message */
    uint16_t terminate_sent; /* 0xLECC or 0 */
    uint16_t terminate_received;
    uint32_t terminate_length; /* octets valid in terminate[] */
    uint8_t terminate[56];     /* last Terminate payload, sent or received */
    /* Connected by a hand-over with `local`: how requests reach the peer's memory now, a static
     * text for people. NULL: it is not connected so, or there is nothing to tell. */
    const char *way;
    /* {numbers-query} Of a QP that was connected by numbers: which of the members that follow are
     * known, as bits of enum ri_qp_modify_mask. 0: none. Their values are those of ri_qp_modify;
     * the PSNs may have moved on. `path.context` is NULL, `path.source_gid` is the one in use. */
    uint32_t known;
    bool draining; /* SQD: requests that were begun have not ended yet */
    uint8_t timeout, retry_count, rnr_retry, rnr_timer;
    uint8_t reserved0[3];
    uint32_t port, path_mtu, destination_qpn, receive_psn, send_psn;
    struct ri_ah_attr path;
    /* Of a connected QP whose connection the host did not hand over, static texts for people: what
     * carries it; why that is not memory shared with a peer of this host (option local). NULL: it
     * is not connected, or there is nothing to tell. */
    const char *wire, *local_why;
    uint64_t reserved[1];
};

/* ------------------------------------------------------------------------------------------------
 * 6. Events of QPs, CQs, SRQs and RNICs (asynchronous; RDMAC 9.5)
 *
 * {end-once} The end of a connection is told once. Set B: by one event of the ended group, whoever
 * ended it; where modify ended it see qp_modify. Set A: by one RI_CONNECTION_DISCONNECTED, before
 * which one qp_event of the ended group, or RI_EVENT_QP_FATAL, comes where the provider knows of a
 * cause other than a disconnect. {end-flush} The QP is in ERROR, and what is outstanding flushes,
 * before the end is told or soon after; the upcall does not wait for the completions.
 */
enum ri_event_type {
    /* connection life, set B. Exactly one of the ended group per connection. */
    RI_EVENT_ESTABLISHED = 1,    /* rtr_await: first valid FPDU arrived */
    RI_EVENT_LLP_CLOSED,         /* ended: both directions closed in order */
    RI_EVENT_LLP_CLOSED_BUSY,    /* ended: the peer closed while work was outstanding */
    RI_EVENT_LLP_RESET,          /* ended: RST */
    RI_EVENT_LLP_LOST,           /* ended: timed out, unreachable, FIN inside an FPDU */
    RI_EVENT_TERMINATE_RECEIVED, /* ended: value in terminate_code */
    RI_EVENT_LOCAL_ERROR,        /* ended: a local work request failed, its completion tells */
    /* ended by an error in what the peer sent; terminate_code is what we answered */
    RI_EVENT_INTEGRITY,        /* MPA: CRC, marker, FPDU size */
    RI_EVENT_REMOTE_OPERATION, /* DDP or RDMAP syntax, version, QN, MSN, MO */
    RI_EVENT_BAD_OPCODE,
    RI_EVENT_NO_RECEIVE, /* Send without a receive buffer */
    /* Protection error of an incoming RDMA Write; of an incoming RDMA Read Request or atomic.
     * With terminate_code 0x1000 or 0x0000, "local", the request was right and the memory here
     * is gone. */
    RI_EVENT_WRITE_ACCESS,
    RI_EVENT_READ_ACCESS,
    RI_EVENT_RECV_ACCESS,       /* local protection error while placing into a receive */
    RI_EVENT_RECV_LENGTH,       /* message longer than the receive */
    RI_EVENT_INVALIDATE_ACCESS, /* Send with Invalidate refused */
    RI_EVENT_RESPONSE_ERROR,    /* Read or atomic response that does not fit */
    /* not the end of a connection */
    RI_EVENT_QP_FATAL = 64,
    RI_EVENT_QP_RQ_LIMIT_REACHED,
    RI_EVENT_QP_SRQ_ERROR,
    RI_EVENT_SRQ_LIMIT_REACHED,
    RI_EVENT_SRQ_FATAL,
    RI_EVENT_CQ_OVERFLOW, /* source: CQ; each affected QP ends on its own: RI_EVENT_QP_OVERFLOW */
    RI_EVENT_QP_OVERFLOW, /* ended: its CQ was full */
    RI_EVENT_CQ_ERROR,
    RI_EVENT_PORT_UP, /* source: RNIC; port */
    RI_EVENT_PORT_DOWN,
    RI_EVENT_RNIC_FATAL,
    /* {device-events} source: RNIC; port. What query_port tells of GIDs, or of `addresses`, has
     * changed; connections that use what is gone end on their own. */
    RI_EVENT_GID_CHANGE,
    RI_EVENT_ADDRESS_CHANGE,
    /* source: RNIC, once, and no RI_EVENT_RNIC_FATAL beside it: the device was taken out, or its
     * driver was unbound. As after a fatal error only destroy and close still work; it may be found
     * again by enumerate later. */
    RI_EVENT_DEVICE_GONE,
    /* source: QP. By numbers: a first message has come in RTR (InfiniBand 11.6.3, communication
     * established). The state does not change. May be missing. */
    RI_EVENT_COMMUNICATION_ESTABLISHED,
    /* source: QP. SQD: all requests that were begun have ended (InfiniBand 11.6.3). */
    RI_EVENT_SEND_QUEUE_DRAINED,
};

struct ri_event {
    uint32_t size;
    enum ri_event_type type;
    uint16_t terminate_code; /* 0xLECC sent or received, 0 none */
    /* {explained} The completion of a request or receive reports the error, too. */
    bool explained;
    uint8_t reserved0;
    uint32_t port;
    /* For the log; may be NULL. Lent for the upcall. Behind a semicolon: what the user can do. */
    const char *detail;
    uint64_t reserved[2];
};

/* ------------------------------------------------------------------------------------------------
 * 7. Connection verbs, set A (for providers with a connection manager of their own)
 */
struct ri_connect_param {
    uint32_t size;
    const struct sockaddr *source; /* NULL: any; port 0: any */
    const struct sockaddr *destination;
    uint64_t service_id; /* InfiniBand, host order; 0: derived from the destination port */
    uint64_t deadline;   /* RI_NO_DEADLINE: the provider's own */
    const void *private_data;
    uint16_t private_data_length;
    uint16_t ird, ord;
    bool negotiate_depths; /* exchange IRD and ORD */
    bool three_way;        /* report the peer's accept and wait for `confirm` */
    /* InfiniBand, encoded as in its CM REQ; used only if `tuned` is set. */
    uint8_t retry_count, rnr_retry_count, max_cm_retries;
    uint8_t local_ack_timeout, local_cm_timeout, remote_cm_timeout;
    /* The consumer gave those six values. A provider uses those that it can set. */
    bool tuned;
    /* What the consumer gave without `tuned`: the two retry counts; local_ack_timeout. */
    bool retries_given, ack_timeout_given;
    /* InfiniBand's IPv6 header on the way there; the peer answers with the same. flow_label 0: the
     * provider's own. */
    uint8_t traffic_class;
    uint32_t flow_label;
    /* "external-qp": the QP's number, what it is (enum ri_qp_type; 0: RI_QP_RC), and whether it has
     * an SRQ. */
    uint32_t qpn;
    uint8_t qp_type;
    bool srq;
    bool flow_control; /* end-to-end flow control, as the messages say it */
    /* {outlives-qp} As InfiniBand's consumers expect: the connection does not end with its QP, nor
     * the QP with an established connection. What ends the QP is told by completions and qp_event,
     * DISCONNECTED follows a disconnect of this side or the peer alone, and then the consumer moves
     * the QP to ERROR. A provider that cannot do so ends both. */
    bool outlives_qp;
    uint8_t reserved0[4];
    uint64_t reserved[4];
};

/* {connection-numbers} What moves a QP to RTR and RTS for this connection: values for qp_modify, as
 * "numbers-needed" wants them. */
struct ri_connection_numbers {
    uint32_t size;
    uint32_t destination_qpn; /* the peer's */
    /* 24 bits. The provider chooses receive_psn, and the peer hears of it by connect or accept. */
    uint32_t receive_psn, send_psn;
    uint32_t path_mtu; /* octets */
    uint8_t timeout, retry_count, rnr_retry;
    bool srq; /* the peer's QP has one */
    struct ri_ah_attr path;
    uint64_t reserved[2];
};

struct ri_listen_param {
    uint32_t size;
    const struct sockaddr *address; /* wildcard allowed; port 0: the provider picks one */
    uint64_t service_id;            /* InfiniBand, host order; 0: derived from the address's port */
    uint32_t port;
    uint32_t backlog; /* undecided requests kept at most */
    bool datagram;    /* service requests instead of connections */
    /* As of sockets: the IPv6 wildcard is not IPv4's (IPV6_V6ONLY); others may have the port, too,
     * who say so (SO_REUSEADDR), as long as one of them listens. */
    bool family_only, reuse_address;
    uint8_t reserved0[5];
    uint64_t reserved[4];
};

/* A peer's request. Lent for the upcall. */
struct ri_connect_request {
    uint32_t size;
    struct sockaddr_storage local, peer;
    uint32_t port;
    const void *private_data;
    uint16_t private_data_length;
    uint16_t ird, ord; /* the requester's own values */
    bool depths_valid;
    bool datagram;   /* a service request: answer with service_reply */
    uint8_t qp_type; /* enum ri_qp_type of the peer's QP; 0: RI_QP_RC, or `datagram` */
    /* RI_FEATURE_EXTERNAL_QP: those of the connection, if it is accepted. Else NULL. */
    const struct ri_connection_numbers *numbers;
    uint64_t reserved[3];
};

enum ri_connection_event_type {
    RI_CONNECTION_RESOLVED = 1, /* address and path are known */
    RI_CONNECTION_ACCEPTED,     /* three-way: the peer accepted; `confirm` or `reject` next */
    RI_CONNECTION_ESTABLISHED,
    RI_CONNECTION_REJECTED, /* by the peer's consumer */
    RI_CONNECTION_FAILED,   /* by anything else; reason tells */
    RI_CONNECTION_DISCONNECTED,
    RI_CONNECTION_SERVICE_REPLY,
    /* {time-wait} The last event, behind DISCONNECTED: packets of the connection may no more be on
     * their way (InfiniBand 12.9.8.4), and an external QP's number may be used again. May be
     * missing. */
    RI_CONNECTION_TIME_WAIT_EXIT,
};

enum ri_connection_reason {
    RI_REASON_OTHER = 0,
    RI_REASON_TIMEOUT,
    RI_REASON_UNREACHABLE,
    RI_REASON_REFUSED, /* nobody listens there */
    RI_REASON_STALE,
    RI_REASON_READ_DEPTH, /* IRD or ORD not acceptable */
    RI_REASON_RESOURCES,
    RI_REASON_PARAMETERS, /* revision, CRC, markers, ready-to-receive message */
    RI_REASON_PROTOCOL,   /* the peer does not speak MPA */
    RI_REASON_POLICY,
};

struct ri_connection_event {
    uint32_t size;
    enum ri_connection_event_type type;
    enum ri_connection_reason reason;
    const void *private_data;
    uint16_t private_data_length;
    uint16_t ird, ord; /* what the connection ended up with */
    bool depths_valid;
    /* REJECTED, and FAILED by the peer's word: the reason of its REJ as it travelled (InfiniBand
     * 12.6.7.2). 0: none came, or the transport has no such numbers. */
    uint16_t reject_code;
    uint32_t service_status;          /* service reply */
    uint32_t remote_qpn, remote_qkey; /* service reply */
    struct sockaddr_storage local, peer;
    const struct ri_ah_attr *path; /* service reply: to the peer; NULL unknown; lent */
    /* ACCEPTED of an external QP: lent. Else NULL. */
    const struct ri_connection_numbers *numbers;
    uint64_t reserved[2];
};

/* Status of a service reply; values of InfiniBand's SIDR REP. */
enum ri_service_status {
    RI_SERVICE_VALID = 0, /* QPN and Q_Key are there */
    RI_SERVICE_NOT_SUPPORTED = 1,
    RI_SERVICE_REJECTED = 2,
    RI_SERVICE_NO_QP = 3,
    RI_SERVICE_REDIRECTED = 4,
};

struct ri_service_reply {
    uint32_t size;
    /* enum ri_service_status; one that cannot be sent is sent as REJECTED. */
    uint32_t status;
    /* RI_SERVICE_VALID: the QP whose number is sent; NULL with RI_FEATURE_EXTERNAL_QP: `qpn` is.
     * Else NULL. */
    struct ri_qp *qp;
    uint32_t qkey; /* RI_SERVICE_VALID: its key; see ri_rnic_attr.service_qkey */
    const void *private_data;
    uint16_t private_data_length;
    uint8_t reserved0[2];
    uint32_t qpn;
    uint64_t reserved[3];
};

/* ------------------------------------------------------------------------------------------------
 * 8. Host services: what a provider may call. Handed down at open, valid until close returned.
 *    {host-calls} All of them may be called from any thread unless marked; none may be called with
 *    a lock held that an operation of the provider takes, save those marked [leaf].
 */
enum ri_log_level { RI_LOG_ERROR, RI_LOG_WARNING, RI_LOG_INFO, RI_LOG_DEBUG };

enum ri_policy_direction { RI_POLICY_CONNECT, RI_POLICY_LISTEN, RI_POLICY_REQUEST };

struct ri_policy_question {
    uint32_t size;
    enum ri_policy_direction direction;
    const struct sockaddr *local; /* either may be NULL when unknown */
    const struct sockaddr *peer;
    uint64_t reserved[2];
};

/* {ready} Readiness of a watched descriptor; events are EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP |
 * EPOLLRDHUP. Called inside a run of the lane. May call watch, rewatch, unwatch (also its own),
 * timers, upcalls. */
typedef void (*ri_ready_fn)(void *arg, uint32_t events);

struct ri_watch; /* the host's */

/* {timer} A timer lives inside the provider's object. `expired` is called inside a run of the lane,
 * once. */
struct ri_timer {
    void (*expired)(struct ri_timer *timer);
    uint64_t deadline; /* CLOCK_MONOTONIC nanoseconds */
    /* The host's; zero before first use. */
    uint64_t host_deadline;
    void *host_private[3];
};

enum ri_direction { RI_TRANSMIT, RI_RECEIVE };

/* Events of a captured connection other than octets. */
enum ri_capture_mark {
    /* Nothing else of the connection is recorded until RELEASE: no answer before its question. */
    RI_CAPTURE_HOLD = -1,
    RI_CAPTURE_RELEASE = -2, /* by the same thread */
    RI_CAPTURE_FIN = -3,     /* the direction has ended; RI_TRANSMIT: between HOLD and RELEASE */
    RI_CAPTURE_RST = -4,     /* the same, by a reset */
    RI_CAPTURE_CLOSE = -5,   /* the last call with this token; not between HOLD and RELEASE */
};

/* How a provider reads an option. */
enum ri_option_kind {
    RI_OPTION_BOOL,   /* of type bool */
    RI_OPTION_NUMBER, /* of type int, size or time */
    RI_OPTION_WORD,   /* of type enum */
    RI_OPTION_TEXT,   /* of any other type */
};

union ri_option_value {
    bool truth;
    uint64_t number;  /* in the option's unit */
    uint32_t word;    /* place in the type's list, from 0: of "enum: emss|max" max is 1 */
    const char *text; /* lives until close */
};

struct ri_host {
    uint32_t size;
    uint16_t abi_major, abi_minor;
    void *context; /* the host's own; pass the ri_host pointer back to every call */

    /* {option} Value of an option of this interface: the configured one, else its default; always
     * in its range. `name` is in the provider's table (struct ri_option) or is the host's own;
     * `kind` is that of its type. Anything else is an error of the provider:
     * RI_ERR_INVALID_ARGUMENT. The host logs it and leaves *value unchanged. Called by
     * ri_option_bool and the others below. [leaf] */
    enum ri_status (*option)(const struct ri_host *host, const char *name, enum ri_option_kind kind,
                             union ri_option_value *value);

    /* {log} One line per cause; not on the data path. [leaf] */
    void (*log)(const struct ri_host *host, enum ri_log_level level, const char *format,
                va_list args);

    /* {pin} Pin or unpin pages for DMA other than those of regions: the host pins regions itself,
     * before mr_register, if the provider has RI_FEATURE_DMA without RI_FEATURE_DMA_PINS.
     * Overlapping ranges nest. Providers without that feature do not call it. RI_ERR_NO_RESOURCES:
     * over RLIMIT_MEMLOCK or the quota. May block. */
    enum ri_status (*pin)(const struct ri_host *host, void *addr, uint64_t length, bool writable);
    void (*unpin)(const struct ri_host *host, void *addr, uint64_t length);

    /* {policy} Is this allowed? RI_OK or RI_ERR_PERMISSION. Never blocks. */
    enum ri_status (*policy)(const struct ri_host *host, const struct ri_policy_question *question);

    /* {watch} Put a descriptor into the lane's epoll set, level-triggered. lane_context:
     * ri_lane.context. `ready` may run in another thread before watch has returned. After
     * unwatch returned, `ready` is not running (unless unwatch was called from it) and never
     * will. unwatch waits for it, so the caller holds no lock that `ready` takes. Call unwatch
     * before the descriptor is closed. watch and rewatch: [leaf] */
    enum ri_status (*watch)(const struct ri_host *host, void *lane_context, int fd, uint32_t events,
                            ri_ready_fn ready, void *arg, struct ri_watch **watch);
    enum ri_status (*rewatch)(const struct ri_host *host, struct ri_watch *watch, uint32_t events);
    void (*unwatch)(const struct ri_host *host, struct ri_watch *watch);

    /* Set (or move) and cancel. After cancel returned `expired` is not running (unless called from
     * it). */
    void (*timer_set)(const struct ri_host *host, void *lane_context, struct ri_timer *timer);
    void (*timer_cancel)(const struct ri_host *host, void *lane_context, struct ri_timer *timer);

    /* {wake} Have the thread that sleeps for this lane run it again. For providers with threads of
     * their own. [leaf] */
    void (*wake)(const struct ri_host *host, void *lane_context);

    /*
     * {capture} A copy of the octets of a connection, for capture files. NULL when off: test before
     * the call. Sent octets are passed between RI_CAPTURE_HOLD, before the system call, and
     * RI_CAPTURE_RELEASE, by one thread; received octets after the system call. iov_count below 0
     * is a mark of enum ri_capture_mark, iov NULL then. Never blocks on a disk. Token 0: the
     * octets are one whole packet from its IP header on, of a device whose packets belong to no
     * connection of the host's; without marks.
     */
    void (*capture)(const struct ri_host *host, uint64_t token, enum ri_direction direction,
                    const struct iovec *iov, int iov_count);

    /*
     * {upcall} Upcalls. They may come from progress, post, poll (completions that waited for room
     * in a CQ), qp_modify, srq_modify, the end of a region or window, watch callbacks and timers.
     * The provider holds no lock that the upper side could want. {upcall-call} They may post work
     * and arm. They may not destroy the object that they are about, nor the CQs and the SRQ of its
     * QP. {upcall-destroy} A destroy call waits for upcalls about its object that run in other
     * threads, so none arrives after it returned.
     */
    void (*cq_event)(const struct ri_host *host,
                     void *cq_context); /* the CQ was armed and fired; disarmed now */
    void (*qp_event)(const struct ri_host *host, void *qp_context, const struct ri_event *event);
    void (*cq_error)(const struct ri_host *host, void *cq_context, const struct ri_event *event);
    void (*srq_event)(const struct ri_host *host, void *srq_context, const struct ri_event *event);
    void (*rnic_event)(const struct ri_host *host, void *rnic_context,
                       const struct ri_event *event);
    /* {request} Set A. The connection of a request has no context yet: the host stores one through
     * *connection_context. NULL: the host has no memory for it and keeps nothing of it; the
     * provider refuses the request and frees the connection. */
    void (*connection_request)(const struct ri_host *host, void *listener_context,
                               struct ri_connection *connection,
                               const struct ri_connect_request *request, void **connection_context);
    void (*connection_event)(const struct ri_host *host, void *connection_context,
                             const struct ri_connection_event *event);
    void *reserved[8];
};

/* ri_host.option by type. *value is unchanged unless RI_OK. */
static inline enum ri_status ri_option_bool(const struct ri_host *host, const char *name,
                                            bool *value)
{
    union ri_option_value got;
    enum ri_status status = host->option(host, name, RI_OPTION_BOOL, &got);

    if (status == RI_OK)
        *value = got.truth;
    return status;
}

static inline enum ri_status ri_option_number(const struct ri_host *host, const char *name,
                                              uint64_t *value)
{
    union ri_option_value got;
    enum ri_status status = host->option(host, name, RI_OPTION_NUMBER, &got);

    if (status == RI_OK)
        *value = got.number;
    return status;
}

static inline enum ri_status ri_option_word(const struct ri_host *host, const char *name,
                                            uint32_t *value)
{
    union ri_option_value got;
    enum ri_status status = host->option(host, name, RI_OPTION_WORD, &got);

    if (status == RI_OK)
        *value = got.word;
    return status;
}

static inline enum ri_status ri_option_text(const struct ri_host *host, const char *name,
                                            const char **value)
{
    union ri_option_value got;
    enum ri_status status = host->option(host, name, RI_OPTION_TEXT, &got);

    if (status == RI_OK)
        *value = got.text;
    return status;
}

/* ------------------------------------------------------------------------------------------------
 * 9. Operation tables
 */

enum ri_device_flags {
    /* {on-request} A program that takes all devices does not get it: one that names it, or asks for
     * its kind, does. */
    RI_DEVICE_ON_REQUEST = 1u << 0,
};

/* One device that `enumerate` found, usable or not; or, without a name, why there is none. Strings
 * are lent for the call of `found`. A name PROVIDER:DEVICE is also found by its second part in a
 * configuration; open takes both. */
struct ri_device {
    uint32_t size;
    const char
        *name; /* what open takes; NULL: there is no device at all, `reason` and `advice` say why */
    enum ri_transport transport;
    bool usable;
    const char *reason; /* why not; of a usable one: what may keep a program off it, or NULL */
    const char *advice; /* what the user can do */
    uint32_t flags;     /* enum ri_device_flags */
    uint32_t reserved0;
    uint64_t reserved[1];
};
typedef void (*ri_found_fn)(void *arg, const struct ri_device *device);

/* The provider below a filter. A filter is a provider that is opened over another one: its `open`
 * calls that of `privileged` with a host table of its own, these tables, `device`, `lower`, and the
 * context that it got. It answers the verbs by those of the provider below, and passes upcalls to
 * its own host. Its file is vf_NAME.so, and option filter of an interface names it. Lives until
 * close returned. */
struct ri_lower {
    uint32_t size;
    const struct ri_privileged_ops *privileged; /* completed tables */
    const struct ri_user_ops *user;
    const char *device;           /* for its open */
    const struct ri_lower *lower; /* if it is a filter, too; else NULL */
    const char *provider;         /* name of the undermost one, for messages; NULL: not told */
    uint64_t reserved[1];
};

struct ri_open {
    uint32_t size;
    const struct ri_host *host;
    const struct ri_privileged_ops *privileged; /* completed tables: store these in every object */
    const struct ri_user_ops *user;
    /* A name from enumerate; NULL: the provider's default. Of a filter: what stands behind its name
     * and a colon in option filter, or NULL. */
    const char *device;
    void *context;
    const struct ri_lower *lower; /* for a filter; else NULL */
    uint64_t reserved[4];
};

enum ri_arm {
    RI_ARM_NEXT = 0,          /* any completion */
    RI_ARM_SOLICITED = 1,     /* solicited receive, or any completion in error */
    RI_ARM_NOTIFY_MARKED = 2, /* RI_WC_NOTIFY, solicited, or in error (feature bit) */
    RI_ARM_NTH = 3,           /* when `count` completions are in the CQ (feature bit) */
};

/* The privileged half (kVP): called by kal only. Control operations; may allocate. */
struct ri_privileged_ops {
    uint32_t size;
    uint16_t abi_major, abi_minor;

    /* {enumerate} Report every device through `found`, also those that cannot be used, with the
     * reason. RI_OK also when there is none; RI_ERR_NO_RESOURCES when memory or descriptors are
     * short. Of the host only `option` and `log` may be used. [kal | serial(provider) | may
     * block] */
    enum ri_status (*enumerate)(const struct ri_host *host, ri_found_fn found, void *arg);

    /* {open} Open an RNIC. RI_ERR_INVALID_ARGUMENT: no such device; PERMISSION; NO_RESOURCES;
     * DEVICE. [kal | any | may block] */
    enum ri_status (*open)(const struct ri_open *open, struct ri_rnic **rnic);

    /* {close} Close. All objects but lanes must be gone, else RI_ERR_BUSY. RI_ERR_AGAIN:
     * connections of destroyed QPs are still closing in order; run the lane and call again, or set
     * `force` to reset them. [kal | serial(rnic) | no] */
    enum ri_status (*close)(struct ri_rnic *rnic, bool force);

    enum ri_status (*query)(struct ri_rnic *rnic, struct ri_rnic_attr *attr); /* [kal | any | no] */
    enum ri_status (*query_port)(struct ri_rnic *rnic,
                                 struct ri_port_attr *attr); /* [kal | any | may block] */

    /* {lane-open} Lane `index` (0 .. lanes-1), opened once before its first use, gone with close. A
     * second open of the same index is the caller's error. Its context serves watches and timers
     * until close returned RI_OK. [kal | serial(rnic) | no] */
    enum ri_status (*lane_open)(struct ri_rnic *rnic, uint32_t index, void *context,
                                struct ri_lane **lane);

    /* {pd} RDMAC 9.2.2. destroy: RI_ERR_BUSY while QPs, regions, windows, SRQs use it. [kal | any |
     * no] */
    enum ri_status (*pd_create)(struct ri_rnic *rnic, void *context, struct ri_pd **pd);
    enum ri_status (*pd_destroy)(struct ri_pd *pd);

    /* {cq} RDMAC 9.2.3. The depth given is written to attr->depth when it is more than asked.
     * RI_ERR_LIMIT, NO_RESOURCES. resize: BUSY below the content. destroy: BUSY while QPs use it;
     * completions still in it are dropped. [kal | any | no] */
    enum ri_status (*cq_create)(struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq);
    enum ri_status (*cq_resize)(struct ri_cq *cq, uint32_t *depth);
    enum ri_status (*cq_destroy)(struct ri_cq *cq);

    /*
     * {qp-create} RDMAC 9.2.5. Values in attr are minimum requests and are overwritten by what was
     * given.
     *
     * {qp-modify} qp_modify. Attributes (mask) are changed before the state. The status reports a
     * refusal of either; attributes that were changed before a refused state stay changed.
     * NOT_SUPPORTED: the mask has a bit that the provider does not know, or the feature bit of the
     * change is clear.
     *
     * {qp-transitions} States, by transitions of RDMAC 6.2, else INVALID_STATE:
     *
     *   RTS         from IDLE, with RI_QPM_HANDOVER (set B). Set A: NOT_SUPPORTED, the connection
     *               verbs do it.
     *   CLOSING     from RTS, set B: orderly close. Segments that are already cut are sent (a
     *               message may end early), then FIN; input is drained to the peer's FIN, bounded
     *               by option close_timeout. RI_EVENT_LLP_CLOSED follows; the QP is in ERROR then.
     *               If own Reads are unanswered, or the peer sends more meanwhile, it is a bad
     *               close: RST and RI_EVENT_LLP_RESET. Set A: NOT_SUPPORTED, `disconnect` does it.
     *   TERMINATE   from RTS, set B: Terminate 0x0000, then close; RI_EVENT_LOCAL_ERROR. Set A:
     *               NOT_SUPPORTED.
     *   ERROR       from every state: abortive close. Set B: RST; from RTS RI_EVENT_LLP_RESET, from
     *               CLOSING RI_EVENT_LLP_CLOSED (the close was under way), from IDLE, TERMINATE and
     *               ERROR no further event. Set A: no qp_event; the connection's event reports the
     *               end. RI_OK also if the QP is in ERROR already.
     *   IDLE        from ERROR, or from IDLE: outstanding requests are flushed. Completions that
     *               were made stay in the CQ. Unsignalled requests that succeeded and that no
     *               completion covers leave their slots.
     *
     * {numbers} By numbers (RI_FEATURE_QP_NUMBERS): an RC or UC QP goes from IDLE to INIT, RTR and
     * RTS by qp_modify, and nothing is said to the peer: its consumer does the same there. These
     * transitions (InfiniBand 10.3.1), else INVALID_STATE:
     *
     *   INIT        from IDLE or INIT
     *   RTR         from INIT
     *   RTS         from RTR; from RTS and SQE, and, with RI_FEATURE_SQD, from SQD
     *   SQD         from RTS; from SQD. RI_EVENT_SEND_QUEUE_DRAINED follows, in any case.
     *   SQE         by itself, UC alone
     *   ERROR       from every state; what is outstanding flushes, no event follows
     *   IDLE        from every state of a QP that left IDLE by INIT. The number stays. Requests and
     *               completions that were not polled are dropped, as by qp_destroy.
     *
     * {numbers-needed} A transition needs the attributes on the left, and may have those on the
     * right; a mask with less or more: INVALID_ARGUMENT, and nothing has changed. UC has none of
     * RNR_TIMER, TIMEOUT, RETRY_COUNT, RNR_RETRY, IRD, ORD.
     *
     *   to INIT     PORT, FLAGS; from INIT none                    PORT, FLAGS
     *   to RTR      PATH, PATH_MTU, DESTINATION_QPN, RECEIVE_PSN,  FLAGS
     *               IRD, RNR_TIMER
     *   RTR to RTS  SEND_PSN, TIMEOUT, RETRY_COUNT, RNR_RETRY,     FLAGS, RNR_TIMER
     *               ORD
     *   else to RTS                                                FLAGS, RNR_TIMER
     *
     * Without STATE: what the state's transition to itself has. {numbers-posts} Receives can be
     * posted in every state, send requests from RTS on; in IDLE, INIT and RTR INVALID_STATE.
     * {numbers-end} The end, by a request that failed or by the peer's error, takes the QP to ERROR
     * and is reported by one qp_event of the ended group. Nobody hears of a peer that is gone until
     * a request of its own fails. An INIT QP can be connected by the verbs of set A, too.
     *
     * {qp-no-wait} Each call returns when the transition is decided. It waits for no peer, and
     * events may come before it returns.
     *
     * {qp-ud} A UD QP goes to RTS without a handover, and has the states IDLE, RTS and ERROR only.
     * Its first error that is not a flush takes it to ERROR; a receive that was too short need not.
     * The event is RI_EVENT_LOCAL_ERROR where a completion reports the cause, else
     * RI_EVENT_QP_FATAL. RI_QPM_QKEY: in every state. PERMISSION: a Q_Key whose upper bit is set
     * is for privileged consumers.
     *
     * {qp-destroy} destroy: any state, does not wait for the peer: an open connection goes on
     * closing in order without the QP (see close). After it returned no completion of the QP is
     * polled and no upcall about it comes. [kal | any (destroy: serial(qp)) | no]
     */
    enum ri_status (*qp_create)(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp);
    enum ri_status (*qp_modify)(struct ri_qp *qp, const struct ri_qp_modify *modify);
    enum ri_status (*qp_query)(struct ri_qp *qp, struct ri_qp_info *info);
    enum ri_status (*qp_destroy)(struct ri_qp *qp);

    /* {srq} RDMAC 9.2.6. max_wr counts requests posted and not yet polled. modify: mask of enum
     * ri_srq_modify_mask; max_wr: BUSY below what is there; limit: arms one
     * RI_EVENT_SRQ_LIMIT_REACHED, told when a QP takes a request and leaves fewer; 0 disarms. query
     * tells 0 after the event. Elements are judged by the SRQ's PD. destroy: BUSY while QPs use it;
     * requests still posted are dropped. A QP that ends leaves what it has not taken. [kal | any |
     * no] */
    enum ri_status (*srq_create)(struct ri_pd *pd, struct ri_srq_attr *attr, struct ri_srq **srq);
    enum ri_status (*srq_modify)(struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr);
    enum ri_status (*srq_query)(struct ri_srq *srq, struct ri_srq_attr *attr);
    enum ri_status (*srq_destroy)(struct ri_srq *srq);

    /*
     * {mr} RDMAC 9.3. Remote write and atomic need local write, remote read needs local read, else
     * INVALID_ARGUMENT. ADDRESS, ACCESS, LIMIT, NO_RESOURCES. {mr-reregister} reregister changes
     * access (and PD when not NULL); the keys change. BUSY while windows are bound. {mr-keep-keys}
     * With RI_ACCESS_KEEP_KEYS (RI_FEATURE_KEEP_KEYS; ibv_rereg_mr) the STag stays, and accesses
     * that both the old and the new rights allow do not fail meanwhile. Afterwards none under
     * rights that are gone touches the memory. *keys: as after mr_register. INVALID_ARGUMENT: with
     * a PD, or the address of the first octet changes. BUSY: a window is bound, and local rights or
     * RI_ACCESS_BIND would go. INVALID_STATE: the region was invalidated. {mr-deregister}
     * deregister: BUSY while windows are bound; afterwards no access of the peer or of a local
     * request touches the memory. [kal | any | may block (pinning)]
     */
    enum ri_status (*mr_register)(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                  struct ri_mr_keys *keys, struct ri_mr **mr);
    enum ri_status (*mr_reregister)(struct ri_mr *mr, struct ri_pd *pd,
                                    const struct ri_mr_attr *attr, struct ri_mr_keys *keys);
    enum ri_status (*mr_deregister)(struct ri_mr *mr);

    /* {mw} RDMAC 9.4. narrow: bound to one QP; else usable over the PD. *stag is no key yet: a bind
     * makes it (*stag & ~0xff) | (new_key & 0xff), of which the caller knows when it posts. A
     * narrow window must be invalidated before it is bound again, and is when its QP is destroyed;
     * a wide one may be bound anew, and no peer may invalidate it; its local invalidate uses up the
     * next key. free: in any state; requests still queued that name it fail. [kal | any | no] */
    enum ri_status (*mw_allocate)(struct ri_pd *pd, bool narrow, void *context, uint32_t *stag,
                                  struct ri_mw **mw);
    enum ri_status (*mw_free)(struct ri_mw *mw);

    /* {ah} Address handles. create, modify: UNREACHABLE: source_gid is not the port's, or no way
     * there is known; INVALID_ARGUMENT, LIMIT, NO_RESOURCES. modify: the ri_ah stays the same;
     * counts for requests posted later. The caller sees to it that no post that uses the handle
     * runs beside modify and destroy, and that none is outstanding at destroy. [kal | any | may
     * block] */
    enum ri_status (*ah_create)(struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **ah);
    enum ri_status (*ah_modify)(struct ri_ah *ah, const struct ri_ah_attr *attr);
    enum ri_status (*ah_destroy)(struct ri_ah *ah);

    /*
     * {set-a} Connection verbs, set A. All are asynchronous: an error return means that nothing was
     * started and no event follows; RI_OK is followed by exactly one connection_event of the
     * fitting kind (except disconnect before establishment, which ends silently). A request that
     * came by connection_request is one connection: accept it or reject it, and destroy it in any
     * case. qp is an IDLE or INIT QP of the same RNIC, or NULL as "external-qp" says, and belongs
     * to the connection from RI_OK until one of the two is destroyed. A provider without IPv6
     * answers UNREACHABLE to an address of that family, also to listen at ::, and the host asks for
     * the IPv4 wildcard next. Errors: INVALID_ARGUMENT, INVALID_STATE, LIMIT (private data,
     * depths), ADDRESS_IN_USE, UNREACHABLE, PERMISSION, NO_RESOURCES. [kal | any | no]
     *
     * {external-qp} RI_FEATURE_EXTERNAL_QP: qp NULL, and the QP that param->qpn names is the
     * consumer's, who moves it by qp_modify with the numbers that he is told; the provider only
     * exchanges messages, and does not ask whose number it is. Without the feature qp is never
     * NULL. Active side: ACCEPTED follows connect, with `numbers`, whether three_way is set or not;
     * confirm sends the third leg, and ESTABLISHED follows. Passive side: the request has
     * `numbers`; ESTABLISHED follows accept when the third leg has come, or a confirm, by which the
     * consumer reports that its QP has heard the peer. disconnect tells the peer, and one
     * DISCONNECTED follows at both sides; that QP's own end is told to nobody. {passive-confirm}
     * With the feature a consumer may confirm what it has accepted with a QP, too; INVALID_STATE:
     * it is established already, or not accepted.
     */
    enum ri_status (*connection_create)(struct ri_rnic *rnic, void *context,
                                        struct ri_connection **connection);
    enum ri_status (*connection_destroy)(struct ri_connection *connection);
    enum ri_status (*resolve)(struct ri_connection *connection,
                              const struct ri_connect_param *param);
    enum ri_status (*listen)(struct ri_rnic *rnic, const struct ri_listen_param *param,
                             void *context, struct sockaddr_storage *bound,
                             struct ri_listener **listener);
    enum ri_status (*listen_destroy)(
        struct ri_listener *listener); /* undecided requests stay valid */
    enum ri_status (*connect)(struct ri_connection *connection, struct ri_qp *qp,
                              const struct ri_connect_param *param);
    enum ri_status (*accept)(struct ri_connection *connection, struct ri_qp *qp,
                             const struct ri_connect_param *param);
    enum ri_status (*confirm)(struct ri_connection *connection,
                              const struct ri_connect_param *param);
    enum ri_status (*reject)(struct ri_connection *connection, const void *private_data,
                             uint16_t private_data_length);
    enum ri_status (*disconnect)(struct ri_connection *connection, const void *private_data,
                                 uint16_t private_data_length);
    /*
     * {service} Datagram service (RI_FEATURE_UD and RI_FEATURE_CONNECTION_SET_A). request: source,
     * destination, service_id, deadline and private data count; once per connection; SERVICE_REPLY
     * or FAILED follows. reply: the answer to a connection_request with `datagram`, instead of
     * accept and reject; no event follows, and the reply reaches the peer although the caller
     * destroys the connection at once. INVALID_ARGUMENT: a qkey that cannot be told. A listener
     * hears connections or datagrams; for a service_id that is not of its kind listen answers
     * NOT_SUPPORTED.
     */
    enum ri_status (*service_request)(struct ri_connection *connection,
                                      const struct ri_connect_param *param);
    enum ri_status (*service_reply)(struct ri_connection *connection,
                                    const struct ri_service_reply *reply);

    /* {counters} Counters of an RNIC or QP: pairs (static name, value). *count in: room, out: how
     * many exist. [kal | any | no] */
    enum ri_status (*rnic_counters)(struct ri_rnic *rnic, const char **names, uint64_t *values,
                                    size_t *count);
    enum ri_status (*qp_counters)(struct ri_qp *qp, const char **names, uint64_t *values,
                                  size_t *count);

    /*
     * {local} Set B, RI_FEATURE_LOCAL: before a hand-over, at two ends that are on one host. The
     * host finds them and makes sure who they are; the memory is the provider's. The end that
     * accepts makes it, and gets a descriptor of it, which the host sends to the other end and
     * closes; the other end takes it. Then both have it or, where a call fails, neither uses it and
     * the connection stays on its stream. `socket` is the end of the connected Unix socket that
     * becomes local_fd: it tells the peer's process, with which a provider may share memory for
     * several connections. A descriptor may tell the place of one of them by its position, so it is
     * sent as it is.
     *
     * local_make: NO_RESOURCES: memory, descriptors or mappings are short. local_take: `fd` stays
     * the caller's; INVALID_ARGUMENT: it is not what a provider of this version makes;
     * NO_RESOURCES. *why, on failure: for the log, a static string. local_drop: of memory that was
     * not handed over; it may call unwatch, so the caller holds no lock that its handlers take.
     * [kal | any | no]
     */
    enum ri_status (*local_make)(struct ri_rnic *rnic, int socket, struct ri_local **local, int *fd,
                                 const char **why);
    enum ri_status (*local_take)(struct ri_rnic *rnic, int socket, int fd, struct ri_local **local,
                                 const char **why);
    void (*local_drop)(struct ri_rnic *rnic, struct ri_local *local);

    /* {gid-table} RI_FEATURE_QP_NUMBERS: the GID table of a port. *count in: room in `gids`, out:
     * the table's places, may exceed the room. The place of a GID does not change while it is
     * there; one that goes leaves an empty place (RI_GID_NONE), and RI_EVENT_GID_CHANGE is
     * reported. INVALID_ARGUMENT: no such port. [kal | any | may block] */
    enum ri_status (*query_gids)(struct ri_rnic *rnic, uint32_t port, struct ri_gid *gids,
                                 uint32_t *count);

    /*
     * {multicast} RI_FEATURE_MULTICAST (InfiniBand 10.5): the UD QP gets a copy of each datagram to
     * the group, as long as it is in RTS and the Q_Key is its own; `lid` is the group's on
     * InfiniBand, and not looked at on Ethernet. Over RoCE the GID is an IP group, IPv4 as
     * ::ffff:224.0.0.0/100, which the device joins. Datagrams go to a group by an address handle
     * with its GID and the QPN FFFFFF; no QP needs to be attached for that.
     *
     * attach: INVALID_ARGUMENT: the QP is not RI_QP_UD, or the GID is none of a group; LIMIT:
     * max_multicast_groups, max_multicast_qps; UNREACHABLE: no address of the port can join it;
     * NO_RESOURCES. The same pair twice is one attachment. In every state of the QP. detach:
     * INVALID_ARGUMENT: it is not attached. Afterwards no copy of a datagram is begun.
     * {multicast-destroy} qp_destroy: BUSY while the QP is attached. [kal | any | may block]
     */
    enum ri_status (*multicast_attach)(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid);
    enum ri_status (*multicast_detach)(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid);
};

/* The user half (uVP): called by ual directly. Never blocks, never allocates, takes no global lock.
 */
struct ri_user_ops {
    uint32_t size;
    uint16_t abi_major, abi_minor;

    /*
     * {post} Post a list. Allowed in every QP state but IDLE, INIT and RTR for send requests
     * (post_recv: every state); in TERMINATE, CLOSING and ERROR requests complete flushed, in SQE
     * send requests, and in SQD they wait. {post-bad} On error *bad names the first request that
     * was not posted. INVALID_ARGUMENT (opcode, too many elements, bad flags), INVALID_STATE,
     * QUEUE_FULL, LIMIT (length). {post-protection} Local protection is checked when the request
     * executes and shows in its completion. {post-slot} A slot is free again when the completion
     * that covers it was polled. [ual | any | no]
     */
    enum ri_status (*post_send)(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
    enum ri_status (*post_recv)(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad);
    enum ri_status (*post_srq_recv)(struct ri_srq *srq, struct ri_recv_wr *wr,
                                    struct ri_recv_wr **bad);

    /* {poll} Take up to `count` completions, oldest first; returns how many (0 none). Looks at the
     * ring only: runs nothing. count 0, wc NULL: the consumer looks while another thread runs the
     * lane; what is held back for its next look may leave. [ual | any | no] */
    uint32_t (*poll)(struct ri_cq *cq, uint32_t count, struct ri_wc *wc);

    /* {arm} Ask for one cq_event. A completion that is already in the CQ does not fire it, except
     * for RI_ARM_NTH: the caller polls again after arming. Arming again replaces. [ual | any |
     * no] */
    enum ri_status (*arm)(struct ri_cq *cq, enum ri_arm kind, uint32_t count);

    /* {peek} Completions in the CQ, and how many of them are notify-marked, solicited or in error.
     * [ual | any | no] */
    enum ri_status (*cq_peek)(struct ri_cq *cq, uint32_t *total, uint32_t *notify);

    /*
     * {progress} One non-blocking pass over the lane: do what posts, readiness and timers have left
     * to do, what feeds first_cq (may be NULL) first; return once first_cq has a completion or
     * `budget` pieces of work (messages placed or completed) are done. Returns the pieces done.
     * *next_deadline: when the provider wants to run next even if no descriptor becomes ready
     * (RI_NO_DEADLINE none).
     *
     * {readiness} May it rely on readiness? Yes, within bounds. In a run the host first calls
     * `ready` of descriptors, then `expired` of timers, then this. It does not look at its
     * descriptors in every run: consumers that poll make up to 64 runs between two looks. A
     * descriptor that stays readable is reported in every look (level-triggered), and before the
     * lane sleeps there is always one. So a provider that only serves what was reported is right;
     * one that wants latency reads its busy descriptors here unasked. It may not count on `ready`
     * having been called since it read a descriptor empty. [ual | run | no]
     */
    uint32_t (*progress)(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                         uint64_t *next_deadline);

    /* {lane-arm} Before sleeping in epoll_wait: true when every connection is watched and nothing
     * is left that a run could do now; false: run again first. After true the host sleeps until a
     * watched descriptor is ready, a timer or next_deadline is due, or ri_host.wake is called. [ual
     * | run | no] */
    bool (*lane_arm)(struct ri_lane *lane);
};

/* ------------------------------------------------------------------------------------------------
 * 10. The descriptor: the one symbol that a provider exports
 */

/*
 * {options} Self-describing option of an interface section, printed by `itinfo --config`. The host
 * checks type and range before it opens the interface, and refuses a provider whose own defaults do
 * not pass.
 *
 * The host has options of its own, which every interface has (ital.conf(5): crc, connect_timeout,
 * backlog, netdev and others). A provider reads them as it reads its own, and does not declare
 * them. It may give one another default: RI_OPTION_DEFAULT("connect_timeout", "10s"). A table that
 * declares one is refused, and so is one that names an option twice, or provider, device or
 * fallback, by which a section chooses what it is an interface of.
 */
struct ri_option {
    const char *name;
    /* "bool", "int", "size", "time", "enum: a|b|c", "path", "string", "list". Numbers are never
     * negative. A range stands behind the type, of an int, a size or a time in the option's unit:
     * "int: 1..64", without an end "time: 0..". Of text and of each name of a list it counts
     * octets. The names of a list are separated by blanks or commas; a provider gets them separated
     * by one blank each. */
    const char *type;
    const char *value; /* default */
    const char *unit;  /* "octets", "ms", ... or "" */
    const char *text;  /* one line */
};

/* Entry of a provider's table: another default of one of the host's options. */
#define RI_OPTION_DEFAULT(option, otherwise)    \
    {                                           \
        (option), NULL, (otherwise), NULL, NULL \
    }

enum ri_provider_flags {
    RI_PROVIDER_FILTER = 1u << 0, /* it is opened over another one only (struct ri_lower) */
};

struct ri_provider {
    uint32_t size;
    uint16_t abi_major, abi_minor;
    const char *name;        /* "softrdma": what `provider =` in the configuration takes */
    const char *description; /* one line for people */
    const char *version;
    const struct ri_privileged_ops *privileged;
    const struct ri_user_ops *user;
    const struct ri_option *options; /* option_count entries */
    uint32_t option_count;
    uint32_t flags; /* OR of enum ri_provider_flags */
    void *reserved[4];
};

#define RI_PROVIDER_SYMBOL "rnicpi_provider_v1"

#define RI_PROVIDER_EXPORT __attribute__((visibility("default"), used))

/*
 * {export} Declare the provider: RI_PROVIDER(vp_softrdma) = { .size = sizeof(struct ri_provider),
 * ... }; `module` is the module's file name without suffix. In an ordinary shared object the symbol
 * is rnicpi_provider_v1. Compiled with RI_PREOPEN defined (linked into a program with -dlpreopen,
 * where several providers share one name space) it is <module>_LTX_rnicpi_provider_v1, the name
 * that libltdl looks for.
 */
#ifdef RI_PREOPEN
#define RI_PROVIDER(module)                                          \
    extern const struct ri_provider module##_LTX_rnicpi_provider_v1; \
    RI_PROVIDER_EXPORT const struct ri_provider module##_LTX_rnicpi_provider_v1
#else
#define RI_PROVIDER(module)                             \
    extern const struct ri_provider rnicpi_provider_v1; \
    RI_PROVIDER_EXPORT const struct ri_provider rnicpi_provider_v1
#endif

#ifdef __cplusplus
}
#endif

#endif /* RNICPI_H */
