/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the files of itapi: handles to ual objects, status translation, guards. */
#ifndef ITAL_ITAPI_PRIVATE_H
#define ITAL_ITAPI_PRIVATE_H

#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include "ual_policy.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/minmax.h"
#include "base/sanitizer.h"

#include <pthread.h>

/* Segments of one work request; endpoints are given at most that many. */
#define SEGMENTS_MAX 64u

/* The object behind a handle of the given kind, or NULL. */
#define LOOKUP(type, kind, handle) ((type *)ual_lookup((ual_handle)(handle), UAL_##kind))

/* A lookup failed: the call's own status, or IT_ERR_IA_CATASTROPHE in a forked child. */
it_status_t itapi_bad_handle(it_status_t invalid);

/* The same for a call on an RC EP: a UD EP has a status of its own. */
it_status_t itapi_bad_ep(const void *handle);

/* The status for one of ual's, where the call has none of its own. */
it_status_t itapi_status(enum ri_status status);

/* Cancellation is off inside calls that may block or take mutexes; data calls use no cancellation
 * point. */
static inline int cancel_disable(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    sanitizer_ignore_begin();
    return before;
}
static inline void cancel_restore(int *before)
{
    sanitizer_ignore_end();
    pthread_setcancelstate(*before, NULL);
}
#define CANCEL_OFF() \
    int cancel_before __attribute__((unused, cleanup(cancel_restore))) = cancel_disable()

/* Begins every call that takes handles, before the first look-up: the objects stay until the call
 * returns. Not in calls that wait for other threads (it_evd_wait, it_ia_free), and not twice. */
static inline int call_begin(void)
{
    ual_call_begin();
    return 0;
}
static inline void call_end(const int *call)
{
    (void)call;
    ual_call_end();
}
#define CALL() int call __attribute__((unused, cleanup(call_end))) = call_begin()

/* Query masks: one known bit at least and no other. */
static inline bool mask_ok(unsigned int mask, unsigned int known)
{
    return mask != 0 && (mask & ~known) == 0;
}
static inline bool mask_has(unsigned int mask, unsigned int bit)
{
    return (mask & (1u | bit)) != 0; /* bit 0 of every query mask is ..._PARAM_ALL */
}

/* evd_modify.c: how an EVD of that stream is to handle overflows, as ual's flags (may be NULL).
 * IT_ERR_INVALID_FLAGS. */
it_status_t itapi_evd_overflow_flags(enum ual_stream stream, unsigned int flags, uint32_t *ual);

/* address.c */
/* A Path as socket addresses; ports in network order, 0 any. *has_source: the Path or local_port
 * names one. */
it_status_t itapi_path_addresses(const it_path_t *path, uint16_t local_port, uint16_t remote_port,
                                 struct sockaddr_storage *source, bool *has_source,
                                 struct sockaddr_storage *destination);
bool itapi_net_addr_of(const struct sockaddr_storage *address, it_net_addr_t *net_addr);
void itapi_path_of(struct ual_device *ia, const struct sockaddr_storage *local,
                   const struct sockaddr_storage *peer, it_path_t *path);
size_t itapi_spigot_of(struct ual_device *ia, const struct sockaddr_storage *local);
uint16_t itapi_port_of(const struct sockaddr_storage *address); /* network order */

/* For calls with one status for a Path that cannot be used, whichever end is wrong: address
 * handles, service requests. */
static inline it_status_t itapi_path_status(it_status_t status)
{
    return status == IT_ERR_INVALID_NETADDR ? IT_ERR_INVALID_SOURCE_PATH : status;
}

/*
 * ib_path.c: Paths of InfiniBand. They come in two forms, told apart by their first octets: with IP
 * addresses (u.iwarp), for RoCE and for connections, and as path records (u.ib).
 */
static inline bool itapi_is_infiniband(const struct ual_device *ia)
{
    return ual_device_attr(ia)->transport == RI_TRANSPORT_INFINIBAND;
}
/* itapi_path_addresses of a Path of either form. */
it_status_t itapi_path_ends(const struct ual_device *ia, const it_path_t *path, uint16_t local_port,
                            uint16_t remote_port, struct sockaddr_storage *source, bool *has_source,
                            struct sockaddr_storage *destination);
/* The address attributes for datagrams along a Path. complete: nothing is looked up. */
it_status_t itapi_way_of(struct ual_device *ia, const it_path_t *path, bool complete,
                         struct ri_ah_attr *way);
void itapi_path_of_way(const struct ri_ah_attr *way, it_path_t *path);
/* ... to the sender of a datagram. [data] */
void itapi_path_to_sender(const struct ri_wc *wc, size_t spigot, it_path_t *path);
/* A Path to a GID from a port; false: none is known. */
it_status_t itapi_path_to_gid(struct ual_device *ia, size_t spigot, const it_ib_gid_t *gid,
                              it_path_t *path, bool *found);
/* RoCE: GIDs are IP addresses. */
it_ib_gid_t itapi_gid_of(const struct sockaddr_storage *address);

/* connect.c: connection qualifiers. Ports in network order, 0 any. */
struct itapi_service {
    uint16_t local_port, remote_port;
    uint64_t service_id; /* host order; 0: by port */
};
bool itapi_read_qualifier(const struct ual_device *ia, const it_conn_qual_t *qualifier,
                          bool listening, struct itapi_service *service);
/* The qualifier with which a listen point was created. */
it_conn_qual_t itapi_conn_qual_of(ual_handle listen, const struct sockaddr_storage *local,
                                  const struct sockaddr_storage *peer);
uint64_t itapi_timeout_of(const it_path_t *path);
/* Is it the service ID of a port (network order, not 0)? */
bool itapi_port_of_service(uint64_t service_id, uint16_t *port);

/* post.c: the status of a post. [data] */
it_status_t itapi_post_status(enum ri_status status);

/* callback.c: detaches the EVD's callback, and returns when it runs no more, except in this thread.
 * none: the status where there is none. With IT_SUCCESS: returns EVD_BUSY, and does nothing, if the
 * EVD cannot be freed. Not in a CALL. */
it_status_t itapi_end_callback(it_evd_handle_t evd_handle, it_status_t none);

/* event.c */
void itapi_translate(const struct ual_event *from, it_event_t *to);

/* lmr.c: the memory of a work request, in the provider's terms. pz: the only one allowed, NULL any;
 * access: what the LMRs must grant (enum ri_access). Fills sges[0 .. count - 1] and the sum of the
 * lengths, < 2^32. [data] */
it_status_t itapi_segments_many(const it_lmr_triplet_t *segments, size_t count, size_t limit,
                                const struct ual_pd *pz, uint32_t access, struct ri_sge *sges,
                                uint64_t *total);
static inline it_status_t itapi_segment(const it_lmr_triplet_t *from, const struct ual_pd *pz,
                                        uint32_t access, struct ri_sge *sge)
{
    const struct ual_mr *mr = LOOKUP(struct ual_mr, MR, from->lmr);
    uint64_t start, base;

    if (unlikely(!mr))
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (unlikely(pz && mr->pd != pz))
        return IT_ERR_INVALID_LMR;
    if (unlikely(mr->access & RI_ACCESS_ZERO_BASED)) {
        start = from->addr.rel;
        base = 0;
    } else {
        start = (uintptr_t)from->addr.abs;
        base = (uintptr_t)mr->addr;
    }
    if (unlikely(!checked_inside(start, from->length, base, mr->length)))
        return IT_ERR_RANGE;
    if (unlikely((mr->access & access) != access))
        return IT_ERR_ACCESS;
    sge->addr = start;
    sge->length = (uint32_t)from->length;
    sge->lkey = mr->lkey;
    return IT_SUCCESS;
}
/* Most requests have one segment. */
static inline it_status_t itapi_segments(const it_lmr_triplet_t *segments, size_t count,
                                         size_t limit, const struct ual_pd *pz, uint32_t access,
                                         struct ri_sge *sges, uint64_t *total)
{
    if (unlikely(count != 1 || !limit || !segments || !segments->length ||
                 segments->length > UINT32_MAX))
        return itapi_segments_many(segments, count, limit, pz, access, sges, total);
    *total = segments->length;
    return itapi_segment(segments, pz, access, sges);
}
/* Privileges: are they consistent, and which access rights are they on an adapter? */
#define PRIVS_REMOTE (IT_PRIV_REMOTE | IT_PRIV_ATOMIC)
it_status_t itapi_check_privs(unsigned int privs);
uint32_t itapi_access_of(const struct ual_device *ia, unsigned int privs, uint32_t keep);
it_status_t itapi_check_addr_mode(const struct ri_rnic_attr *attr, it_addr_mode_t mode);
/* ual_mr.flags: the flags and the privileges, both as given. */
uint32_t itapi_lmr_remembered(unsigned int flags, unsigned int privs);
#define LMR_FLAGS_MASK 0xffffu
it_status_t itapi_check_lmr_flags(unsigned int flags);

/* ep.c: the SEVDs of an EP that is being created. amount: the number asked for, at least one;
 * beyond: the status if that exceeds the limit. */
it_status_t itapi_check_dto_evds(const struct ual_device *ia, it_evd_handle_t request_handle,
                                 it_evd_handle_t recv_handle, struct ual_evd **request,
                                 struct ual_evd **receive);
it_status_t itapi_amount(size_t asked, uint32_t limit, it_status_t beyond, uint32_t *given);
/* Requests and segments of either kind of EP. */
it_status_t itapi_take_sizes(const struct ri_rnic_attr *rnic, const it_ep_attributes_t *asked,
                             struct ual_ep_attr *attr);
/* ep_ud.c: it_ep_query and it_ep_modify of UD EPs, arguments checked but for the mask's members */
void itapi_query_ud(const struct ual_ep *ep, unsigned int mask, it_ep_param_t *params);
it_status_t itapi_modify_ud(struct ual_ep *ep, unsigned int mask, const it_ep_attributes_t *asked);

/* ep.c: the marks of an EP with an S-RQ */
it_status_t itapi_take_watermarks(const it_rc_only_attributes_t *rc, struct ual_ep_attr *attr);

/* ia.c: limits of private data, and the check that all calls with private data share. */
size_t itapi_private_data_limit(uint32_t octets);
it_status_t itapi_check_private_data(const void *data, size_t length, uint32_t limit);

static inline bool has_feature(const struct ual_device *ia, uint64_t bits)
{
    return ual_device_attr(ia)->features & bits;
}
/* The features that it_lmr_create_unlinked and it_lmr_link need; below, those of
 * it_rmr_create10. */
#define FEATURES_LINK \
    (RI_FEATURE_FAST_REGISTER | RI_FEATURE_LOCAL_INVALIDATE | RI_FEATURE_PRIVILEGED_QP)
/* I/O addresses are those of the process, so only where the CPU moves the octets. */
static inline bool itapi_takes_iobl(const struct ri_rnic_attr *attr)
{
    return (attr->features & FEATURES_LINK) == FEATURES_LINK && !(attr->features & RI_FEATURE_DMA);
}
/* iobl.c. INVALID_IOBL: the list cannot be used; INVALID_LENGTH: it is shorter than `length`. */
it_status_t itapi_check_iobl(const it_iobl_t *iobl, uint64_t length);
/* The list as one contiguous range. INVALID_IOBL: its elements are not contiguous;
 * INVALID_LENGTH: it is shorter than `length`. */
it_status_t itapi_run_of_list(const it_iobl_t *iobl, uint64_t length, void **memory);
#define FEATURES_RMR (RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE)

#endif
