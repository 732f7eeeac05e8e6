/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The peer's Reads and atomics: checked, and their octets stored in the answers of this end. Under
 * rx, in a pass.
 */
#include "execute.h"

#include "memory.h"

static const struct refusal read_disabled = { RI_EVENT_READ_ACCESS, 0x1201, RI_WC_REMOTE_ACCESS, 0,
                                              "RDMA Read is not enabled here" };
static const struct refusal read_gone = { RI_EVENT_READ_ACCESS, 0x0000, RI_WC_REMOTE_ACCESS, 0,
                                          "memory of an RDMA Read is gone" };
static const struct refusal too_many = { RI_EVENT_REMOTE_OPERATION, 0x1203, RI_WC_REMOTE_OPERATION,
                                         0, "more RDMA Reads and atomics than IRD" };
static const struct refusal no_atomics = { RI_EVENT_BAD_OPCODE, 0x0206, RI_WC_REMOTE_OPERATION, 0,
                                           "atomics are not enabled here" };
static const struct refusal not_aligned = { RI_EVENT_REMOTE_OPERATION, 0x0207,
                                            RI_WC_REMOTE_INVALID_REQUEST, 0,
                                            "target of an atomic is not aligned" };

/* Of the STag that a Read or an atomic names. */
static const uint16_t read_codes[] = { [STAG_INVALID] = 0x0100,
                                       [STAG_PD] = 0x0103,
                                       [STAG_ACCESS] = 0x0102,
                                       [STAG_WRAP] = 0x0104,
                                       [STAG_BOUNDS] = 0x0101 };

/* --- RDMA Read, atomics --- */

/* Octets that the answers have room for. What the peer says is believed as far as it can be
 * true. */
uint32_t local_answer_room(const struct local_qp *qp)
{
    uint64_t taken = atomic_load_explicit(&qp->peer->taken, memory_order_acquire);
    uint64_t untaken = qp->fetch_at - taken;

    return untaken <= LOCAL_ANSWERS ? LOCAL_ANSWERS - (uint32_t)untaken : 0;
}

/* Two parts at most: the ring's end is between them. */
static bool answer(struct local_qp *qp, const uint8_t *from, uint32_t octets)
{
    uint8_t *ring = local_answers(qp->memory, qp->memory->side);

    while (octets) {
        uint32_t offset = (uint32_t)(qp->fetch_at & (LOCAL_ANSWERS - 1));
        uint32_t part = LOCAL_ANSWERS - offset < octets ? LOCAL_ANSWERS - offset : octets;

        if (!local_fetch(qp, qp->message.rkey, ring + offset, from, part, USE_REMOTE_READ))
            return false;
        qp->fetch_at += part;
        from += part;
        octets -= part;
    }
    return true;
}

static enum outcome fetch_some(struct local_qp *qp, uint32_t octets)
{
    enum stag_result result;
    uint8_t *memory;

    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_READ,
                             qp->message.remote_addr + qp->placed, octets, &memory);
    if (result != STAG_OK)
        return local_refuse_stag(qp, RI_EVENT_READ_ACCESS, read_codes[result],
                                 "RDMA Read with an invalid STag, or beyond what it allows");
    if (!answer(qp, memory, octets))
        return local_refuse(qp, &read_gone);
    qp->placed += octets;
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->answered, qp->fetch_at, memory_order_release);
    return OUTCOME_DONE;
}

enum outcome local_check_read(struct local_qp *qp)
{
    enum stag_result result;
    uint8_t *memory;

    if (!qp_allows(qp->core, RI_QP_READ_ENABLE) || !qp->core->attr.ird)
        return local_refuse_disabled(qp, &read_disabled);
    if (!qp->message.length)
        return OUTCOME_DONE;
    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_READ,
                             qp->message.remote_addr, qp->message.length, &memory);
    return result == STAG_OK
               ? OUTCOME_DONE
               : local_refuse_stag(qp, RI_EVENT_READ_ACCESS, read_codes[result],
                                   "RDMA Read with an invalid STag, or beyond what it allows");
}

static enum outcome fetch_read(struct local_qp *qp)
{
    while (qp->placed < qp->message.length) {
        uint64_t left = qp->message.length - qp->placed;
        uint32_t room = local_answer_room(qp), octets = left < room ? (uint32_t)left : room;
        enum outcome outcome;

        if (!octets)
            return OUTCOME_WAIT;
        outcome = fetch_some(qp, octets);
        if (outcome != OUTCOME_DONE)
            return outcome;
    }
    return OUTCOME_DONE;
}

/* The word is the consumer's: a sanitizer is told, and with option guard the kernel asked. */
static bool atomic_on(struct local_qp *qp, uint8_t *word, uint64_t *old)
{
    const bool guarded = qp->core->rnic->options.guard;

    if (guarded && !guard_word(qp->core, qp->message.rkey, word))
        return false;
    *old = atomic_on_word((uint64_t *)(void *)word, qp->message.opcode, qp->message.operand,
                          qp->message.compare);
    if (guarded)
        sanitizer_behind(qp->core, word, ATOMIC_OCTETS, USE_REMOTE_WRITE);
    return true;
}

static void answer_word(struct local_qp *qp, uint64_t word)
{
    uint8_t *ring = local_answers(qp->memory, qp->memory->side);

    for (uint32_t i = 0; i < sizeof(word); i++)
        ring[(qp->fetch_at + i) & (LOCAL_ANSWERS - 1)] = ((uint8_t *)&word)[i];
    qp->fetch_at += sizeof(word);
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->answered, qp->fetch_at, memory_order_release);
}

static enum outcome execute_atomic(struct local_qp *qp)
{
    enum stag_result result;
    uint64_t old;
    uint8_t *word;

    if (!qp_allows(qp->core, RI_QP_ATOMIC_ENABLE))
        return local_refuse_disabled(qp, &no_atomics);
    if (local_answer_room(qp) < sizeof(old))
        return OUTCOME_WAIT;
    if (!qp->core->attr.ird)
        return local_refuse_disabled(qp, &read_disabled);
    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_ATOMIC,
                             qp->message.remote_addr, ATOMIC_OCTETS, &word);
    if (result != STAG_OK)
        return local_refuse_stag(qp, RI_EVENT_READ_ACCESS, read_codes[result],
                                 "atomic with an invalid STag, or beyond what it allows");
    if ((uintptr_t)word % ATOMIC_OCTETS)
        return local_refuse(qp, &not_aligned);
    if (!atomic_on(qp, word, &old))
        return local_refuse(qp, &read_gone);
    answer_word(qp, old);
    return OUTCOME_DONE;
}

enum outcome local_execute_answered(struct local_qp *qp)
{
    if (qp->core->attr.ird && qp->message.fetching > qp->core->attr.ird)
        return local_refuse(qp, &too_many);
    return qp->message.opcode == RI_WR_RDMA_READ || qp->message.opcode == RI_WR_RDMA_READ_INVALIDATE
               ? fetch_read(qp)
               : execute_atomic(qp);
}
