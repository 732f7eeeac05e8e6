/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responder: Reads and atomics, and their duplicates. Of a Read the descriptor is kept, of an
 * atomic the result. The source of a Read is read as its responses are sent, a burst in each turn;
 * nothing behind it is executed meanwhile. A duplicate Read repeats the checks; one at a time is
 * answered, the latest, within a budget of octets that grows with time: so a peer that repeats one
 * small packet gets no more than that. Under rx.
 */
#include "engine.h"

#include "base/minmax.h"

#define BURST       64u /* packets of one turn */
#define REPLAY_RATE 4u  /* nanoseconds for one octet */

/* --- what is kept --- */

static struct rc_saved *save(struct rc_qp *qp, const struct bth_packet *packet, uint32_t packets)
{
    struct rc_responder *rsp = &qp->rsp;
    struct rc_saved *saved = &rsp->saved[rsp->saved_next++ % qp->attr.ird];

    *saved = (struct rc_saved){ .psn = packet->psn,
                                .packets = packets,
                                .rkey = packet->r_key,
                                .length = packet->dma_length,
                                .msn = rsp->msn,
                                .va = packet->va };
    return saved;
}

/* The latest with this PSN; NULL: nothing is kept of it. */
static const struct rc_saved *find_saved(const struct rc_qp *qp, uint32_t psn)
{
    const struct rc_responder *rsp = &qp->rsp;

    for (uint32_t back = 1; back <= qp->attr.ird; back++) {
        const struct rc_saved *saved = &rsp->saved[(rsp->saved_next - back) % qp->attr.ird];

        if (((psn - saved->psn) & BTH_MASK24) < saved->packets)
            return saved;
    }
    return NULL;
}

/* --- Read Responses --- */

static uint8_t response_opcode(const struct rc_reading *reading, bool last)
{
    if (!reading->begun)
        return last ? BTH_READ_RESPONSE_ONLY : BTH_READ_RESPONSE_FIRST;
    return last ? BTH_READ_RESPONSE_LAST : BTH_READ_RESPONSE_MIDDLE;
}

/* Adds the next response; `at` goes on. */
static void add_response(struct rc_qp *qp, struct rc_batch *batch, struct rc_reading *at,
                         uint8_t *memory)
{
    uint32_t octets = min_u32(at->left, qp->attr.mtu), first_iov = batch->iovs;
    bool last = octets == at->left;
    struct bth_packet packet = rc_header(qp, response_opcode(at, last), at->psn);

    packet.syndrome = AETH_ACK_NO_LIMIT;
    packet.msn = at->msn;
    packet.payload_len = octets;
    if (octets)
        batch_add_octets(batch, memory, octets);
    batch_add(batch, &packet, first_iov);
    at->begun = true;
    at->psn = bth_psn_add(at->psn, 1);
    at->va += octets;
    at->left -= octets;
    at->active = !last;
}

static bool source_of(struct rc_qp *qp, const struct rc_reading *reading, uint8_t **memory)
{
    *memory = NULL;
    return !reading->left ||
           qp_check_remote(&qp->core, &qp->rsp.hint, reading->rkey, RI_ACCESS_REMOTE_READ,
                           reading->va, reading->left, memory) == STAG_OK;
}

static void refuse_read(struct rc_qp *qp, uint32_t psn)
{
    rc_refuse(qp, psn, AETH_NAK_REMOTE_ACCESS, NULL, 0, RI_EVENT_READ_ACCESS,
              "RDMA Read or atomic of memory that the peer may not use");
}

/* Up to `most` packets, in one call of the carrier. False: no more in this turn. */
static bool send_responses(struct rc_qp *qp, uint32_t most)
{
    struct rc_reading *reading = &qp->rsp.reading, at[RC_BATCH + 1];
    struct rc_batch batch;
    uint32_t count = 0, taken;
    uint8_t *memory;

    if (!source_of(qp, reading, &memory)) {
        reading->active = false;
        if (!reading->replay)
            refuse_read(qp, reading->psn);
        return false;
    }
    batch_open(&batch);
    for (at[0] = *reading; at[count].active && count < most; count++) {
        at[count + 1] = at[count];
        add_response(qp, &batch, &at[count + 1], memory);
        if (memory) /* of an empty Read there is none */
            memory += at[count].left - at[count + 1].left;
    }
    taken = rc_transmit(qp, &batch);
    rc_count(&qp->counters.packets_sent, taken);
    if (reading->replay) {
        count_up(&qp->counters.replayed_octets, reading->left - at[taken].left);
        qp->rsp.replay_octets -= min_u64(qp->rsp.replay_octets, (uint64_t)taken * qp->attr.mtu);
    } else if (taken && qp->rsp.owes == RC_OWES_ACK) {
        qp->rsp.owes = RC_OWES_NOTHING; /* */
    }
    *reading = at[taken];
    return taken == count;
}

static void fill_budget(struct rc_qp *qp, uint64_t now)
{
    struct rc_responder *rsp = &qp->rsp;

    rsp->replay_octets = min_u64(rsp->replay_octets + (now - rsp->replay_at) / REPLAY_RATE,
                                 RC_REPLAY_MOST);
    rsp->replay_at = now;
}

/* Packets that the budget allows; 0: the timer goes on. */
static uint32_t replay_allowance(struct rc_qp *qp)
{
    uint64_t now = rc_now(qp), packets;

    fill_budget(qp, now);
    packets = qp->rsp.replay_octets / qp->attr.mtu;
    if (!packets)
        qp->attr.carrier->timer_set(qp, RC_RESPONDER,
                                    now + (uint64_t)BURST * qp->attr.mtu * REPLAY_RATE);
    return (uint32_t)min_u64(packets, RC_BATCH);
}

/* The fresh Read is answered: what was dropped meanwhile is asked for. */
static void after_reading(struct rc_responder *rsp)
{
    if (!rsp->dropped)
        return;
    rsp->dropped = false;
    rsp->nak_sent = true;
    rsp->owes = RC_OWES_NAK;
}

void rc_read_on(struct rc_qp *qp)
{
    struct rc_reading *reading = &qp->rsp.reading;

    spinlock_assert_held(&qp->rx);
    for (uint32_t sent = 0; reading->active; sent += RC_BATCH) {
        uint32_t most = reading->replay ? replay_allowance(qp) : RC_BATCH;

        if (!most)
            return;
        if (sent >= BURST) {
            qp->attr.carrier->timer_set(qp, RC_RESPONDER, rc_now(qp));
            return;
        }
        if (!send_responses(qp, most))
            return;
    }
    if (!reading->replay)
        after_reading(&qp->rsp);
}

void rc_take_read(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    enum bth_result result = bth_check(packet, qp->attr.mtu);
    uint32_t packets = bth_packets(packet->dma_length, qp->attr.mtu);
    const struct rc_reading reading = { .active = true,
                                        .psn = packet->psn,
                                        .left = packet->dma_length,
                                        .rkey = packet->r_key,
                                        .msn = bth_psn_add(rsp->msn, 1),
                                        .va = packet->va };
    uint8_t *memory;

    if (result != BTH_OK) {
        rc_refuse(qp, packet->psn, AETH_NAK_INVALID_REQUEST, NULL, 0, RI_EVENT_REMOTE_OPERATION,
                  bth_result_text(result));
        return;
    }
    if (!source_of(qp, &reading, &memory)) {
        refuse_read(qp, packet->psn);
        return;
    }
    rsp->msn = reading.msn; /* */
    save(qp, packet, packets);
    rc_accept(qp, packets, false);
    rsp->reading = reading; /* of a replay under way the requester asks again */
    rc_read_on(qp);
}

/* --- atomics --- */

static void answer_atomic(struct rc_qp *qp, const struct rc_saved *saved)
{
    struct bth_packet packet = rc_header(qp, BTH_ATOMIC_ACKNOWLEDGE, saved->psn);
    struct rc_batch batch;

    packet.syndrome = AETH_ACK_NO_LIMIT;
    packet.msn = saved->msn;
    packet.original = saved->original;
    batch_open(&batch);
    batch_add(&batch, &packet, 0);
    rc_count(&qp->counters.packets_sent, rc_transmit(qp, &batch));
}

/* The word; NULL: refused. */
static uint64_t *find_word(struct rc_qp *qp, const struct bth_packet *packet)
{
    uint8_t *memory;
    bool found;

    if (bth_check(packet, qp->attr.mtu) != BTH_OK)
        goto misaligned;
    found = qp_check_remote(&qp->core, &qp->rsp.hint, packet->r_key, RI_ACCESS_REMOTE_ATOMIC,
                            packet->va, ATOMIC_OCTETS, &memory) == STAG_OK;
    if (found && (uintptr_t)memory % ATOMIC_OCTETS)
        goto misaligned;
    if (found &&
        (likely(!qp->core.rnic->options.guard) || guard_word(&qp->core, packet->r_key, memory)))
        return (uint64_t *)(void *)memory;
    refuse_read(qp, packet->psn);
    return NULL;

misaligned:
    rc_refuse(qp, packet->psn, AETH_NAK_INVALID_REQUEST, NULL, 0, RI_EVENT_REMOTE_OPERATION,
              bth_result_text(BTH_ERR_ADDRESS));
    return NULL;
}

void rc_take_atomic(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    uint64_t *word = find_word(qp, packet);
    bool swap = packet->opcode == BTH_COMPARE_SWAP;
    struct rc_saved *saved;

    if (!word)
        return;
    rsp->msn = bth_psn_add(rsp->msn, 1);
    saved = save(qp, packet, 1);
    saved->atomic = true;
    saved->original = atomic_on_word(word,
                                     swap ? RI_WR_ATOMIC_COMPARE_SWAP : RI_WR_ATOMIC_FETCH_ADD,
                                     packet->swap_add, packet->compare);
    rc_accept(qp, 1, false);
    if (rsp->owes == RC_OWES_ACK)
        rsp->owes = RC_OWES_NOTHING;
    answer_atomic(qp, saved);
}

/* --- duplicates --- */

/* From the middle of what is kept, or from its beginning. Nothing beyond it is read. */
static void replay(struct rc_qp *qp, const struct bth_packet *packet, const struct rc_saved *saved)
{
    uint64_t skip = (uint64_t)((packet->psn - saved->psn) & BTH_MASK24) * qp->attr.mtu;

    if (packet->r_key != saved->rkey || packet->va != saved->va + skip ||
        packet->dma_length > saved->length - skip)
        return;
    qp->rsp.reading = (struct rc_reading){ .active = true,
                                           .replay = true,
                                           .psn = packet->psn,
                                           .left = packet->dma_length,
                                           .rkey = saved->rkey,
                                           .msn = saved->msn,
                                           .va = packet->va };
    rc_read_on(qp);
}

/* While a fresh Read is answered the requester has to wait for that. */
static bool may_replay(const struct rc_qp *qp)
{
    const struct rc_reading *reading = &qp->rsp.reading;

    return qp->attr.ird && !(reading->active && !reading->replay);
}

void rc_take_duplicate_answered(struct rc_qp *qp, const struct bth_packet *packet)
{
    const struct rc_saved *saved = may_replay(qp) ? find_saved(qp, packet->psn) : NULL;

    if (!saved || saved->atomic != (packet->op->kind == BTH_KIND_ATOMIC))
        return;
    if (saved->atomic)
        answer_atomic(qp, saved); /* */
    else
        replay(qp, packet, saved);
}
