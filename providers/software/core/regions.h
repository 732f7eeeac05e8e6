/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory behind STags: the peer's access to it, windows, regions, and how the last access ends.
 */
#ifndef ITAL_SOFTRDMA_REGIONS_H
#define ITAL_SOFTRDMA_REGIONS_H

#include "qp.h"
#include "base/compiler.h"

/* Check an STag that the peer names: a region or wide window of the QP's PD, or a narrow window
 * bound to the QP. As stag_check_hinted (rx) and stag_enter, inside tx. */
static inline enum stag_result qp_check_remote(struct qp *qp, struct stag_hint *hint, uint32_t stag,
                                               uint32_t access, uint64_t to, uint64_t length,
                                               uint8_t **memory)
{
    enum stag_result result = stag_check_hinted(&qp->rnic->stags, hint, stag, qp->pd, access, to,
                                                length, memory);

    if (unlikely(result == STAG_PD))
        result = stag_check_entry(hint->entry, stag, qp, access, to, length, memory);
    return result;
}
enum stag_result qp_enter_remote(struct qp *qp, struct stag_hint *hint, uint32_t stag,
                                 uint32_t access, uint64_t to, uint64_t length, uint8_t **memory,
                                 struct stag_entry **entry);

/* invalidate.c */
enum invalidate_result {
    INVALIDATE_DONE, /* it is INVALID */
    /* No access finds it any more; invalidate_quiet() comes next. */
    INVALIDATE_REVOKED,
    INVALIDATE_STAG,   /* refused: no such STag (C-119) */
    INVALIDATE_SCOPE,  /* of another PD, or bound to another QP (C-120) */
    INVALIDATE_ACCESS, /* remote: no remote right, or the QP does not allow it (C-121) */
    /* windows are bound to it; remote: STag 0, or several streams may use it (C-122) */
    INVALIDATE_KIND
};
enum invalidate_result invalidate_begin(struct qp *qp, uint32_t stag, bool remote);
/* Nothing uses a REVOKED entry when it returns: it is INVALID. In a pass of the RNIC that places
 * nothing now, not inside tx; one rx held at most. */
void invalidate_quiet(struct rnic *rnic, struct stag_entry *entry);

/* An atomic of the peer on an aligned word: its value before. RI_WR_ATOMIC_FETCH_ADD adds the
 * operand; RI_WR_ATOMIC_COMPARE_SWAP stores it where the word is `compare`. */
static inline uint64_t atomic_on_word(uint64_t *word, uint8_t opcode, uint64_t operand,
                                      uint64_t compare)
{
    if (opcode == RI_WR_ATOMIC_FETCH_ADD)
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}

/* mw.c */
struct mw;
enum bind_result { BIND_DONE, BIND_REVOKED, BIND_REFUSED };
enum bind_result mw_bind(struct qp *qp, const struct wqe *wqe, struct stag_entry **entry);
/* The QP is destroyed: windows bound to it become INVALID. No pass of the lane that knew the QP
 * runs any more. */
void mw_unbind_qp(struct qp *qp);
/* Describe the request as posted. The objects are read only now. */
enum ri_status mw_describe_bind(const struct ri_send_wr *wr, struct wqe *wqe);
enum ri_status core_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                struct ri_mw **out);
enum ri_status core_mw_free(struct ri_mw *base);
/* mr.c */
enum ri_status core_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                struct ri_mr_keys *keys, struct ri_mr **out);
enum ri_status core_mr_reregister(struct ri_mr *base, struct ri_pd *pd,
                                  const struct ri_mr_attr *attr, struct ri_mr_keys *keys);
enum ri_status core_mr_deregister(struct ri_mr *base);
/* Describe the request as posted; memory is checked in its turn. NOT_SUPPORTED: the QP is not
 * privileged, or the pages are not contiguous. Under posting. */
enum ri_status mr_describe_fast_register(const struct qp *qp, const struct ri_send_wr *wr,
                                         struct wqe *wqe);
/* Execute it in its turn. False: refused. */
bool mr_fast_register(struct qp *qp, const struct wqe *wqe);
uint32_t mr_stag(const struct ri_mr *base);
/* When it returns, no access to the memory behind the entry is left, and the entry is free. No
 * lock held. */
void mr_drop_entry(struct rnic *rnic, struct stag_entry *entry);

#endif
