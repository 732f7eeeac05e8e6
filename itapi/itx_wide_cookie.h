/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itx_wide_cookie.h - cookies of 24 bytes, for programs written for a header that had such.
 *
 * Included by <it_api.h> where ITAPI_WIDE_COOKIE is defined; programs do not include it themselves.
 * it_dto_cookie_t is then it_Bit192_t, completions carry it, and the calls below are others of the
 * library, which keep the cookie until the completion is dequeued. Each source file chooses for
 * itself, on one condition: requests with a wide cookie are dequeued with wide events.
 *
 *   - A narrow cookie that is dequeued wide is in mFirst; the other two members are 0.
 *   - A wide cookie that is dequeued narrow is replaced by a number of the library's, and is lost.
 *   - Completions of an EP that was freed are not returned: their cookies were freed with it.
 *   - A post may answer IT_ERR_TOO_MANY_POSTS although the queue has room, where completions were
 *     taken and another thread has not returned from the call that took them.
 */
#ifndef ITAL_ITAPI_ITX_WIDE_COOKIE_H
#define ITAL_ITAPI_ITX_WIDE_COOKIE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct it_Bit128_t {
    uint64_t mFirst;
    uint64_t mSecond;
} it_Bit128_t;

typedef struct it_Bit192_t {
    uint64_t mFirst;
    uint64_t mSecond;
    uint64_t mExtend;
} it_Bit192_t;

static inline void CookieAssign(it_Bit192_t *out, const it_Bit192_t *in)
{
    *out = *in;
}

/* The calls that take a cookie, and those that deliver events. */
#define it_post_send             it_post_send_wide
#define it_post_send_and_unlink  it_post_send_and_unlink_wide
#define it_post_sendto           it_post_sendto_wide
#define it_post_recv             it_post_recv_wide
#define it_post_recvfrom         it_post_recvfrom_wide
#define it_post_rdma_write       it_post_rdma_write_wide
#define it_post_rdma_read        it_post_rdma_read_wide
#define it_post_rdma_read_to_rmr it_post_rdma_read_to_rmr_wide
#define it_post_atomic           it_post_atomic_wide
#define it_lmr_link              it_lmr_link_wide
#define it_lmr_unlink            it_lmr_unlink_wide
#define it_rmr_link              it_rmr_link_wide
#define it_rmr_bind10            it_rmr_bind10_wide
#define it_rmr_unlink            it_rmr_unlink_wide
#define it_evd_dequeue           it_evd_dequeue_wide
#define it_evd_dequeue_n         it_evd_dequeue_n_wide
#define it_evd_wait              it_evd_wait_wide
#define itx_aevd_wait            itx_aevd_wait_wide

#ifdef __cplusplus
}
#endif

#endif /* ITAL_ITAPI_ITX_WIDE_COOKIE_H */
