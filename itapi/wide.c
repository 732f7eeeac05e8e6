/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The calls of programs that are compiled with ITAPI_WIDE_COOKIE (itx_wide_cookie.h). Each wraps
 * the narrow call: a post puts the cookie into a box, a dequeue takes it out. Their declarations
 * are those of <it_api.h> under other names and types; this file sees the narrow ones.
 */
#include "itapi_private.h"
#include "wide.h"

#include <stddef.h>

static_assert(offsetof(it_all_dto_cmpl_event_t, cookie) == 3 * sizeof(void *),
              "wide_event.c knows the layout of completions");

#define WIDE_CALL(name, ...)                           \
    ITAPI_PUBLIC it_status_t name##_wide(__VA_ARGS__); \
    it_status_t name##_wide(__VA_ARGS__)

/* --- posting --- */

/* The narrow call with the number of a box as `cookie`. */
#define POST(object, queue, quiet, call)                                    \
    do {                                                                    \
        struct wide_post post_;                                             \
        uint64_t cookie;                                                    \
        it_status_t status_;                                                \
        bool busy_;                                                         \
                                                                            \
        if (!wide_begin((object), (queue), &wide, (quiet), &post_, &busy_)) \
            return busy_ ? IT_ERR_TOO_MANY_POSTS : IT_ERR_RESOURCES;        \
        cookie = post_.narrow;                                              \
        status_ = (call);                                                   \
        wide_end(&post_, status_ == IT_SUCCESS);                            \
        return status_;                                                     \
    } while (0)
#define POST_REQUEST(ep, flags, call) POST(ep, WIDE_REQUESTS, !((flags)&IT_COMPLETION_FLAG), call)
#define POST_RECEIVE(object, call)    POST(object, WIDE_RECEIVES, false, call)

WIDE_CALL(it_post_send, it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_post_send(ep_handle, local_segments, num_segments, cookie, dto_flags));
}

WIDE_CALL(it_post_send_and_unlink, it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags,
          it_rmr_context_t rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_post_send_and_unlink(ep_handle, local_segments, num_segments, cookie, dto_flags,
                                         rmr_context));
}

WIDE_CALL(it_post_sendto, it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags,
          const it_dg_remote_ep_addr_t *remote_ep_addr)
{
    POST_REQUEST(
        ep_handle, dto_flags,
        it_post_sendto(ep_handle, local_segments, num_segments, cookie, dto_flags, remote_ep_addr));
}

WIDE_CALL(it_post_recv, it_handle_t handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags)
{
    POST_RECEIVE(handle, it_post_recv(handle, local_segments, num_segments, cookie, dto_flags));
}

WIDE_CALL(it_post_recvfrom, it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags)
{
    POST_RECEIVE(ep_handle,
                 it_post_recvfrom(ep_handle, local_segments, num_segments, cookie, dto_flags));
}

WIDE_CALL(it_post_rdma_write, it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags,
          it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_post_rdma_write(ep_handle, local_segments, num_segments, cookie, dto_flags,
                                    rdma_addr, rmr_context));
}

WIDE_CALL(it_post_rdma_read, it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
          size_t num_segments, struct wide_cookie wide, it_dto_flags_t dto_flags,
          it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_post_rdma_read(ep_handle, local_segments, num_segments, cookie, dto_flags,
                                   rdma_addr, rmr_context));
}

WIDE_CALL(it_post_rdma_read_to_rmr, it_ep_handle_t ep_handle,
          const it_rmr_triplet_t *local_segments, size_t num_segments, struct wide_cookie wide,
          it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_post_rdma_read_to_rmr(ep_handle, local_segments, num_segments, cookie,
                                          dto_flags, rdma_addr, rmr_context));
}

WIDE_CALL(it_post_atomic, it_ep_handle_t ep_handle, it_atomic_op_t op, uint64_t swap_or_add,
          uint64_t compare, const it_lmr_triplet_t *result, struct wide_cookie wide,
          it_dto_flags_t dto_flags, it_rdma_addr_t rdma_addr, it_rmr_context_t rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_post_atomic(ep_handle, op, swap_or_add, compare, result, cookie, dto_flags,
                                rdma_addr, rmr_context));
}

WIDE_CALL(it_lmr_link, it_lmr_handle_t lmr_handle, const void *addr, const it_iobl_t *iobl,
          it_length_t length, it_addr_mode_t addr_mode, it_mem_priv_t privs,
          it_ep_handle_t ep_handle, struct wide_cookie wide, it_dto_flags_t dto_flags,
          it_rmr_context_t *rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_lmr_link(lmr_handle, addr, iobl, length, addr_mode, privs, ep_handle, cookie,
                             dto_flags, rmr_context));
}

WIDE_CALL(it_lmr_unlink, it_lmr_handle_t lmr_handle, it_ep_handle_t ep_handle,
          struct wide_cookie wide, it_dto_flags_t dto_flags)
{
    POST_REQUEST(ep_handle, dto_flags, it_lmr_unlink(lmr_handle, ep_handle, cookie, dto_flags));
}

WIDE_CALL(it_rmr_link, it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle, void *addr,
          it_length_t length, it_addr_mode_t addr_mode, it_mem_priv_t privs,
          it_ep_handle_t ep_handle, struct wide_cookie wide, it_dto_flags_t dto_flags,
          it_rmr_context_t *rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_rmr_link(rmr_handle, lmr_handle, addr, length, addr_mode, privs, ep_handle,
                             cookie, dto_flags, rmr_context));
}

WIDE_CALL(it_rmr_bind10, it_rmr_handle_t rmr_handle, it_lmr_handle_t lmr_handle, void *addr,
          it_length_t length, it_mem_priv_t privs, it_ep_handle_t ep_handle,
          struct wide_cookie wide, it_dto_flags_t dto_flags, it_rmr_context_t *rmr_context)
{
    POST_REQUEST(ep_handle, dto_flags,
                 it_rmr_bind10(rmr_handle, lmr_handle, addr, length, privs, ep_handle, cookie,
                               dto_flags, rmr_context));
}

WIDE_CALL(it_rmr_unlink, it_rmr_handle_t rmr_handle, it_ep_handle_t ep_handle,
          struct wide_cookie wide, it_dto_flags_t dto_flags)
{
    POST_REQUEST(ep_handle, dto_flags, it_rmr_unlink(rmr_handle, ep_handle, cookie, dto_flags));
}

/* --- events --- */

/* False: its EP was freed, and the cookie with it. */
static bool widen(const it_event_t *narrow, void *wide)
{
    const it_dto_cmpl_event_t *done = &narrow->dto_cmpl;
    struct wide_cookie cookie;

    if ((narrow->event_number & IT_EVENT_STREAM_MASK) != IT_DTO_EVENT_STREAM) {
        wide_event_put(narrow, NULL, wide);
        return true;
    }
    if (!wide_take(done->cookie, done->ep, done->dto_status == IT_DTO_SUCCESS, &cookie))
        return false;
    wide_event_put(narrow, &cookie, wide);
    return true;
}

static it_status_t dequeue(it_evd_handle_t evd_handle, void *event)
{
    it_event_t narrow;
    it_status_t status;

    do {
        status = it_evd_dequeue(evd_handle, event ? &narrow : NULL);
    } while (status == IT_SUCCESS && !widen(&narrow, event));
    return status;
}

WIDE_CALL(it_evd_dequeue, it_evd_handle_t evd_handle, void *event)
{
    return dequeue(evd_handle, event);
}

WIDE_CALL(it_evd_dequeue_n, it_evd_handle_t evd_handle, int deque_count, void *events,
          int *dequed_count)
{
    it_status_t status;
    int count = 0;

    if (deque_count <= 0 || !events || !dequed_count) /* for its errors */
        return it_evd_dequeue_n(evd_handle, deque_count, events, dequed_count);
    do {
        status = dequeue(evd_handle, wide_event_at(events, (size_t)count));
        count += status == IT_SUCCESS;
    } while (status == IT_SUCCESS && count < deque_count);
    if (count == 0 && status != IT_SUCCESS && status != IT_ERR_QUEUE_EMPTY)
        return status;
    *dequed_count = count;
    return IT_SUCCESS;
}

/* The time-out begins anew after an event of a freed EP. */
WIDE_CALL(it_evd_wait, it_evd_handle_t evd_handle, uint64_t timeout, void *event, size_t *nmore)
{
    it_event_t narrow;
    it_status_t status;

    do {
        status = it_evd_wait(evd_handle, timeout, event ? &narrow : NULL, nmore);
    } while (status == IT_SUCCESS && !widen(&narrow, event));
    return status;
}

#define TAKEN_AT_ONCE 8u

/* One pass of the narrow call; events of freed EPs are not counted. */
static it_status_t wait_members(it_evd_handle_t aevd, uint64_t timeout, size_t most, void *events,
                                size_t *count, size_t *narrow_count)
{
    it_event_t narrow[TAKEN_AT_ONCE];
    it_status_t status = itx_aevd_wait(aevd, timeout, most < TAKEN_AT_ONCE ? most : TAKEN_AT_ONCE,
                                       narrow, narrow_count);

    for (size_t i = 0; status == IT_SUCCESS && i < *narrow_count; i++)
        *count += widen(&narrow[i], wide_event_at(events, *count));
    return status;
}

WIDE_CALL(itx_aevd_wait, it_evd_handle_t evd_handle, uint64_t timeout, size_t max_event_count,
          void *events, size_t *events_count)
{
    size_t count = 0, narrow = 0;
    it_status_t status;

    if (!max_event_count || !events || !events_count) /* for its errors */
        return itx_aevd_wait(evd_handle, timeout, max_event_count, events, events_count);
    do { /* waits for the first event, then takes those that are queued */
        status = wait_members(evd_handle, count ? 0 : timeout, max_event_count - count, events,
                              &count, &narrow);
    } while (status == IT_SUCCESS && narrow && count < max_event_count);
    if (status != IT_SUCCESS && !count)
        return status;
    *events_count = count;
    return IT_SUCCESS;
}
