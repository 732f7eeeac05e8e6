/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive: one large read into the lane's ring -> FPDUs -> CRC -> checks in the order of the
 * specification -> place -> deliver. No octet of an FPDU is written to the consumer's memory before
 * its CRC is verified. At the end of a run a partial FPDU moves to the stream's reassembly buffer,
 * and the ring is free again.
 *
 * A failed check fills a `fault`: the Terminate value, the event, and the completion status of the
 * current receive or Read. The first fault ends the connection (RFC 5040 7.1); all octets behind it
 * are dropped.
 */
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/mpa_marker.h"
#include "providers/software/iwarp/codec/terminate.h"
#include "rx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- one FPDU --- */

static void end_by_fault(struct iwarp_qp *qp, const struct mpa_fpdu *fpdu,
                         const struct fault *fault)
{
    const struct terminate_cause cause = { fpdu->ulpdu, fpdu->ulpdu_len, fpdu->ulpdu_len, NULL };
    const struct qp_end end = { .event = fault->event,
                                .terminate_value = fault->value,
                                .heard = true,
                                .wqe = fault->wqe,
                                .status = fault->status,
                                .detail = fault->detail };

    rx_assert_held(qp->stream);
    iwarp_terminate(qp, &end, &cause);
}

static bool dispatch(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    switch (segment->opcode) {
    case RDMAP_WRITE: return rx_on_write(qp, segment, fault);
    case RDMAP_READ_REQ: return rx_on_read_request(qp, segment, fault);
    case RDMAP_READ_RESP: return rx_on_read_response(qp, segment, fault);
    case RDMAP_IMM:
    case RDMAP_IMM_SE: return rx_on_immediate(qp, segment, fault);
    case RDMAP_ATOMIC_REQ: return rx_on_atomic_request(qp, segment, fault);
    case RDMAP_ATOMIC_RESP: return rx_on_atomic_response(qp, segment, fault);
    default: return rx_on_send(qp, segment, fault);
    }
}

/* A Terminate without its L bit ends the stream too: no Terminate answers it (C-142). */
static bool is_terminate(enum rdmap_result result, const struct mpa_fpdu *fpdu,
                         struct rdmap_segment *segment)
{
    const uint8_t *ulpdu = fpdu->ulpdu;

    if (result == RDMAP_OK)
        return segment->opcode == RDMAP_TERMINATE;
    if (result != RDMAP_ERR_L || (ulpdu[1] & RDMAP_CTRL_OP) != RDMAP_TERMINATE)
        return false;
    segment->opcode = RDMAP_TERMINATE;
    segment->payload = ulpdu + DDP_UNTAGGED_LEN;
    segment->payload_len = fpdu->ulpdu_len - DDP_UNTAGGED_LEN;
    return true;
}

static enum ri_event_type event_of(enum rdmap_result result)
{
    switch (result) {
    case RDMAP_ERR_MIN:
    case RDMAP_ERR_HDR_TAGGED:
    case RDMAP_ERR_HDR_UNTAGGED: return RI_EVENT_INTEGRITY;
    case RDMAP_ERR_OPCODE:
    case RDMAP_ERR_T: return RI_EVENT_BAD_OPCODE;
    default: return RI_EVENT_REMOTE_OPERATION;
    }
}

/* Stages 4 to 6: the checks that need no state. */
static bool check_segment(const struct iwarp_qp *qp, const struct mpa_fpdu *fpdu,
                          enum mpa_result framing, struct rdmap_segment *segment,
                          struct fault *fault)
{
    bool fused = atomic_load_explicit(&qp->core.attr.fused, memory_order_relaxed);
    unsigned int features = RDMAP_FEATURE_IMM | RDMAP_FEATURE_ATOMIC |
                            (fused ? RDMAP_FEATURE_FUSED : 0);
    enum rdmap_result result;

    if (framing != MPA_OK)
        return FAULT(mpa_terminate_value(framing), RI_EVENT_INTEGRITY, mpa_result_text(framing));
    result = rdmap_check(fpdu->ulpdu, fpdu->ulpdu_len, features, segment);
    if (is_terminate(result, fpdu, segment))
        return true; /* on any queue: the stream has ended (C-142) */
    if (result == RDMAP_OK)
        result = rdmap_check_queue(segment, features);
    if (result != RDMAP_OK)
        return FAULT(rdmap_terminate_value(result), event_of(result), rdmap_result_text(result));
    return true;
}

void rx_end_holding(struct iwarp_qp *qp)
{
    rx_assert_held(qp->stream);
    atomic_store_explicit(&qp->core.tx.holding, false, memory_order_release);
    atomic_store(&qp->core.tx.wanted, true);
    rx_choose_path(qp);
}

/* The first valid FPDU allows a responder to send (C-040, C-041). */
static void first_fpdu(struct iwarp_qp *qp)
{
    if (qp->rx.rtr_await)
        qp_record_established(&qp->core);
    qp->rx.rtr_await = false;
    rx_end_holding(qp);
}

enum outcome { TAKEN, WAITS, ENDED };

/* It is taken when the requests before it are fetched. */
static __attribute__((noinline)) enum outcome wait_behind(struct iwarp_qp *qp,
                                                          const struct mpa_fpdu *fpdu,
                                                          enum mpa_result framing)
{
    static const struct fault fault = { .value = TERMINATE_LOCAL,
                                        .event = RI_EVENT_LLP_LOST,
                                        .detail = QP_NO_MEMORY("a message behind RDMA Reads") };

    if (rx_wait_behind(qp, fpdu, framing))
        return WAITS;
    end_by_fault(qp, fpdu, &fault);
    return ENDED;
}

static inline __attribute__((always_inline)) enum outcome on_fpdu(struct iwarp_qp *qp,
                                                                  const struct mpa_fpdu *fpdu,
                                                                  enum mpa_result framing)
{
    struct rdmap_segment segment;
    struct fault fault;

    if (!check_segment(qp, fpdu, framing, &segment, &fault)) {
        end_by_fault(qp, fpdu, &fault);
        return ENDED;
    }
    if (segment.opcode == RDMAP_TERMINATE) {
        rx_on_terminate(qp, &segment);
        return ENDED;
    }
    if (unlikely(qp->rx.unfetched) && rx_is_behind(qp, segment.opcode))
        return wait_behind(qp, fpdu, framing);
    if (!dispatch(qp, &segment, &fault)) {
        if (unlikely(qp->rx.unfetched) && rx_is_refused_behind(qp, segment.opcode, &fault))
            return wait_behind(qp, fpdu, framing);
        end_by_fault(qp, fpdu, &fault);
        return ENDED;
    }
    if (atomic_load_explicit(&qp->core.tx.holding, memory_order_relaxed))
        first_fpdu(qp);
    return TAKEN;
}

/* --- the stream of octets --- */

/* The first FPDU of a stream with markers; removes them. */
static __attribute__((noinline)) enum mpa_result take_marked(struct iwarp_qp *qp, uint8_t *octets,
                                                             size_t length, struct mpa_fpdu *fpdu,
                                                             enum mpa_result *framing)
{
    size_t need;
    enum mpa_result result = mpa_marker_take(octets, length, qp->rx.position, qp->framing.crc, fpdu,
                                             &need, framing);

    if (result == MPA_OK)
        qp->rx.position += fpdu->size;
    return result;
}

/* Takes one FPDU from the front, by the general path. False: there is none, it has to wait, or the
 * stream has ended, and then *size is `length`. */
static __attribute__((noinline)) bool take_one(struct iwarp_qp *qp, uint8_t *octets, size_t length,
                                               size_t *size)
{
    enum mpa_result framing;
    enum outcome outcome;
    struct mpa_fpdu fpdu;
    size_t need;

    *size = 0;
    if (qp->framing.markers_receive) {
        if (take_marked(qp, octets, length, &fpdu, &framing) != MPA_OK)
            return false;
    } else {
        if (mpa_scan(octets, length, &fpdu, &need) != MPA_OK)
            return false;
        framing = mpa_check(&fpdu, qp->framing.crc);
    }
    outcome = on_fpdu(qp, &fpdu, framing);
    *size = outcome == ENDED ? length : fpdu.size;
    return outcome == TAKEN;
}

/* Takes the complete FPDUs from the front. Returns the octets left over (0 if the stream has
 * ended). */
static size_t parse(struct iwarp_qp *qp, uint8_t *octets, size_t length, uint32_t *fpdus)
{
    rx_assert_held(qp->stream);
    while (length && qp_state(&qp->core) == RI_QPS_RTS) {
        struct rx_taken taken = { octets, 0 };
        size_t size;
        bool more = true;

        if (qp->rx.fast)
            taken = rx_fast(qp, octets, octets + length);
        size = (size_t)(taken.end - octets);
        *fpdus += (uint32_t)taken.fpdus;
        if (!size) {
            more = take_one(qp, octets, length, &size);
            *fpdus += size != 0;
        }
        octets += size;
        length -= size;
        if (!more)
            return length;
    }
    return 0;
}

/* Requests whose outcome is known and that only wait to be retired do not count. */
static bool unfinished_request(struct iwarp_qp *qp, struct wq *wq)
{
    uint32_t posted = atomic_load(&wq->posted), index;
    bool unfinished = false;

    spinlock_lock(&qp_cq(&qp->core, wq)->lock);
    for (index = atomic_load(&wq->done); index != posted && !unfinished; index++)
        unfinished = !atomic_load(&wq_slot(wq, index)->done);
    spinlock_unlock(&qp_cq(&qp->core, wq)->lock);
    return unfinished;
}

static bool work_outstanding(struct iwarp_qp *qp)
{
    return unfinished_request(qp, &qp->core.sq) ||
           atomic_load(&qp->reads.ord_in) - atomic_load(&qp->reads.ord_out) !=
               atomic_load(&qp->reads.ack_asked) ||
           atomic_load(&qp->reads.ird_in) != atomic_load(&qp->reads.ird_out);
}

/* The peer's FIN (C-148, C-149, C-057). */
static void on_end(struct iwarp_qp *qp, struct stream *stream)
{
    static const struct qp_end in_order = { .event = RI_EVENT_LLP_CLOSED, .state = RI_QPS_ERROR };
    static const struct qp_end unheard = {
        .event = RI_EVENT_LLP_CLOSED,
        .state = RI_QPS_ERROR,
        .detail = "the peer closed, and no receive was posted for Sends that came before",
    };
    static const struct qp_end cut = { .event = RI_EVENT_LLP_LOST,
                                       .state = RI_QPS_ERROR,
                                       .detail = "the peer closed inside an FPDU" };
    static const struct qp_end busy = { .event = RI_EVENT_LLP_CLOSED_BUSY,
                                        .terminate_value = TERMINATE_STREAM,
                                        .detail = "the peer closed while work was outstanding" };

    rx_assert_held(stream);
    atomic_store(&stream->input_ended, true);
    if (qp_is_acknowledged(&qp->core))
        rx_acknowledge_read(qp, stream);
    if (stream->stash && stream->stash->first)
        qp_end(&qp->core, &unheard);
    else if (stream->partial.length)
        qp_end(&qp->core, &cut);
    else if (work_outstanding(qp))
        iwarp_terminate(qp, &busy, NULL);
    else
        qp_end(&qp->core, &in_order);
}

static void on_failure(struct iwarp_qp *qp, struct stream *stream, int error)
{
    bool reset = error == ECONNRESET || error == EPIPE;
    const struct qp_end end = {
        .event = reset ? RI_EVENT_LLP_RESET : RI_EVENT_LLP_LOST,
        .state = RI_QPS_ERROR,
        .lost = true,
        .detail = reset             ? "the peer reset the connection"
                  : error == ENOMEM ? QP_NO_MEMORY("an incomplete FPDU")
                                    : "the connection is lost",
    };

    rx_assert_held(stream);
    atomic_store(&stream->input_ended, true);
    qp_end(&qp->core, &end);
}

/* The FIN may answer output that a thread inside tx has written and not marked as done yet: it
 * is checked when no thread is inside. */
static bool just_written(struct iwarp_qp *qp, struct stream *stream)
{
    if (!atomic_load(&qp->core.tx.requests))
        return false;
    lane_mark_ready(stream);
    return true;
}

/* A read returned nothing: no data yet, the end, an error, or an error that the send side found;
 * octets before it have been read. EPIPE at the end of input: a RST behind the FIN, with which the
 * peer answers what it got after that (C-151 at its side); the FIN was the end. True: the stream
 * has ended. */
static __attribute__((noinline)) bool on_nothing(struct iwarp_qp *qp, struct stream *stream,
                                                 ssize_t got)
{
    int error = atomic_load(&qp->tx.error);

    if (got < 0 && got != -EAGAIN)
        on_failure(qp, stream, (int)-got);
    else if (error && !(got == 0 && error == EPIPE))
        on_failure(qp, stream, error);
    else if (got == 0 && !just_written(qp, stream))
        on_end(qp, stream);
    else
        return false;
    return true;
}

/* The size in the stream of the FPDU at the front. 0: not known yet. */
static uint32_t whole_fpdu(const struct iwarp_qp *qp, const uint8_t *octets, size_t length)
{
    uint32_t front = qp->framing.markers_receive && !mpa_marker_gap(qp->rx.position)
                         ? MPA_MARKER_LEN
                         : 0;
    uint32_t n;

    if (length < front + MPA_HDR_LEN)
        return 0;
    n = mpa_get_len(octets + front);
    return qp->framing.markers_receive ? mpa_fpdu_len_markers(qp->rx.position, n) : mpa_fpdu_len(n);
}

/*
 * The number of octets to read so that the read ends with an FPDU. Octets of a partial FPDU are
 * copied twice. In a stream of large FPDUs all have one size except at the ends of messages.
 * `begun`: missing octets of the FPDU under way.
 */
static uint32_t whole_fpdus(const struct stream *stream, uint32_t begun, uint32_t most)
{
    if (!stream->read.fpdu_size || begun + stream->read.fpdu_size > most)
        return begun && begun < most ? begun : most;
    return most - (most - begun) % stream->read.fpdu_size;
}

/* The size of a partial FPDU predicts that of the next ones. */
static void note_fpdu_size(struct stream *stream, uint32_t whole)
{
    uint32_t fpdu_size = whole >= READ_FPDU_LEAST ? whole : 0;

    if (stream->read.fpdu_size == fpdu_size)
        return;
    stream->read.fpdu_size = fpdu_size;
    stream->read.next = whole_fpdus(stream, 0, stream->read.most);
}

/* Reads less at once while FPDUs are tiny. This bounds the time of one stream in a pass, so the
 * others have their turn. */
static __attribute__((noinline)) void adjust_read(struct stream *stream, uint32_t fpdus)
{
    if (fpdus > RX_FPDUS && stream->read.most > READ_LEAST)
        stream->read.most /= 2;
    else if (fpdus < RX_FPDUS / 4 && stream->read.most < READ_MOST)
        stream->read.most *= 2;
    stream->read.next = whole_fpdus(stream, 0, stream->read.most);
}

/* What came behind an FPDU that waits is taken after it. */
static __attribute__((noinline)) void keep_behind(struct iwarp_qp *qp, struct stream *stream,
                                                  const uint8_t *octets, size_t length)
{
    if (!partial_keep(stream, octets, length, 0, true))
        on_failure(qp, stream, ENOMEM);
    else if (length)
        atomic_fetch_or(&stream->attention, ATTEND_FRESH);
}

/* Takes the octets in the ring from `at` on; `before` of them come from the reassembly buffer.
 * Returns the number of FPDUs. */
static __attribute__((noinline)) uint32_t take_in(struct iwarp_qp *qp, struct stream *stream,
                                                  size_t before, size_t at, size_t length)
{
    uint8_t *ring = iwarp_lane(stream->lane)->pass.ring;
    uint32_t fpdus = 0;
    size_t left = parse(qp, ring + at, length - at, &fpdus);

    rx_assert_held(stream);
    lane_assert_run(stream->lane);
    if (unlikely(stream->behind != NULL)) {
        keep_behind(qp, stream, ring + length - left, left);
    } else if (before || left) {
        uint32_t whole = left ? whole_fpdu(qp, ring + length - left, left) : 0;

        if (left && rx_direct_begin(qp, stream, ring + length - left, left, whole))
            return fpdus;
        if (left)
            note_fpdu_size(stream, qp->framing.crc || !qp->rx.fast ? whole : 0);
        if (!partial_keep(stream, ring + length - left, left, whole, fpdus || at || !before))
            on_failure(qp, stream, ENOMEM);
        else if (whole && !fpdus && before)
            atomic_fetch_or(&stream->attention, ATTEND_FILL);
    }
    return fpdus;
}

static ssize_t read_on(struct stream *stream)
{
    uint32_t before = stream->partial.length, room = RX_RING_OCTETS - before;
    uint32_t begun = before && stream->read.fpdu_size ? stream->partial.whole - before : 0;
    uint32_t most = stream->read.most < room ? stream->read.most : room;

    return stream->llp->receive(stream, iwarp_lane(stream->lane)->pass.ring + before,
                                whole_fpdus(stream, begun, most));
}

/* --- the stash of Sends that wait for a receive --- */

static bool deliver_entry(struct iwarp_qp *qp, struct stash *stash)
{
    const struct stash_entry *entry = rx_stash_begin(qp, stash);
    const struct mpa_fpdu fpdu = { .ulpdu = entry->ulpdu, .ulpdu_len = entry->length };
    struct rdmap_segment segment;
    struct fault fault;

    rx_assert_held(stash->stream);
    contract(stash->first);
    if (check_segment(qp, &fpdu, MPA_OK, &segment, &fault) && dispatch(qp, &segment, &fault))
        return rx_stash_end(qp, stash);
    end_by_fault(qp, &fpdu, &fault);
    return false;
}

/* Delivers what has a receive now. Returns the number of segments, which is bounded. */
static uint32_t deliver_stash(struct iwarp_qp *qp, struct stream *stream)
{
    struct stash *stash = stream->stash;
    uint32_t tries = 0, count = 0;

    while (stash->first && qp_state(&qp->core) == RI_QPS_RTS && rx_stash_ready(qp)) {
        if (++tries > RX_FPDUS) {
            lane_mark_ready(stream);
            break;
        }
        count += deliver_entry(qp, stash);
    }
    if (count)
        rx_stash_delivered(qp, stream);
    return count;
}

/* --- an FPDU behind Reads --- */

/* True: it is taken, and what came after it is next. Returns to *fpdus the number that was
 * taken. */
static bool go_on_behind(struct iwarp_qp *qp, struct stream *stream, uint32_t *fpdus)
{
    unsigned int attention = atomic_load(&stream->attention);
    struct behind *behind;
    enum outcome outcome;

    *fpdus = 0;
    if (attention & ATTEND_EVICT) {
        partial_end(qp, true);
        return false;
    }
    behind = rx_take_behind(qp, stream);
    if (!behind) {
        on_nothing(qp, stream, attention & ATTEND_BROKEN ? -ECONNRESET : -EAGAIN);
        return false;
    }
    outcome = on_fpdu(qp, &(struct mpa_fpdu){ .ulpdu = behind->ulpdu, .ulpdu_len = behind->length },
                      (enum mpa_result)behind->framing);
    free(behind);
    *fpdus = 1;
    return outcome == TAKEN && qp_state(&qp->core) == RI_QPS_RTS;
}

/* Handles anything unusual before a read. True: continue with the reassembly buffer, and *got
 * octets behind it in the ring; else *got is for on_nothing(). */
static bool receive_specially(struct iwarp_qp *qp, struct stream *stream, ssize_t *got)
{
    unsigned int attention = atomic_load(&stream->attention);

    *got = -EAGAIN;
    if (attention & ATTEND_EVICT) {
        partial_end(qp, true);
        return false;
    }
    if (attention & ATTEND_FRESH) {
        *got = 0;
    } else if (attention & ATTEND_FILL) {
        *got = partial_fill(stream);
        if (*got > 0 && stream->partial.length < stream->partial.whole)
            *got = -EAGAIN;
        if (*got <= 0)
            return false;
        *got = 0;
    } else {
        *got = read_on(stream);
        if (*got <= 0)
            return false;
    }
    atomic_fetch_and(&stream->attention,
                     ~(unsigned int)(ATTEND_FRESH | ATTEND_SILENT | ATTEND_FILL | ATTEND_STALLED));
    return true;
}

/* Goes on with an FPDU whose payload goes straight to its place. Returns as
 * receive_behind_partial(). */
static uint32_t receive_direct(struct iwarp_qp *qp, struct stream *stream)
{
    struct fault fault;
    size_t behind;
    ssize_t got = rx_direct_read(qp, stream, &behind, &fault);

    if (got == RX_DIRECT_REFUSED) {
        const struct mpa_fpdu fpdu = { .ulpdu = stream->partial.octets + MPA_HDR_LEN,
                                       .ulpdu_len = mpa_get_len(stream->partial.octets) };

        end_by_fault(qp, &fpdu, &fault);
        return 1;
    }
    if (got == -EAGAIN && (atomic_load(&stream->attention) & ATTEND_STALLED))
        partial_check(qp, stream);
    if (got <= 0)
        return on_nothing(qp, stream, got);
    return take_in(qp, stream, (size_t)got, 0, (size_t)got + behind);
}

/* The general path, if the reassembly buffer has octets or something unusual comes first. Returns
 * the number of FPDUs. */
static uint32_t receive_behind_partial(struct iwarp_qp *qp, struct stream *stream)
{
    size_t before;
    ssize_t got;
    bool more;

    if (stream->partial.direct && !(atomic_load(&stream->attention) & ATTEND_EVICT))
        return receive_direct(qp, stream);
    if (atomic_load_explicit(&stream->attention, memory_order_relaxed)) {
        more = receive_specially(qp, stream, &got);
    } else {
        got = read_on(stream);
        more = got > 0;
    }
    if (!more) {
        if (got == -EAGAIN && (atomic_load(&stream->attention) & ATTEND_STALLED))
            partial_check(qp, stream);
        if (got == 0 && (atomic_load(&stream->attention) & ATTEND_STASH) &&
            !rx_stash_is_over(qp, stream))
            got = -EAGAIN; /* the end waits, too */
        return on_nothing(qp, stream, got);
    }
    before = stream->partial.length;
    if (before)
        memcpy(iwarp_lane(stream->lane)->pass.ring, stream->partial.octets, before);
    return take_in(qp, stream, before, 0, before + (size_t)got);
}

/* The same, but what waits in the stash comes first, and nothing is read while input is held. */
static __attribute__((noinline)) uint32_t receive_behind_stash(struct iwarp_qp *qp,
                                                               struct stream *stream)
{
    unsigned int attention = atomic_load_explicit(&stream->attention, memory_order_relaxed);
    uint32_t fpdus = 0;

    if (unlikely(attention & ATTEND_BEHIND) && !go_on_behind(qp, stream, &fpdus))
        return fpdus;
    if (likely(!(attention & ATTEND_STASH)))
        return fpdus + receive_behind_partial(qp, stream);
    fpdus += deliver_stash(qp, stream);
    if (qp_state(&qp->core) != RI_QPS_RTS)
        return fpdus + 1;
    if (atomic_load(&stream->attention) & ATTEND_HELD)
        rx_stash_hold(qp, stream);
    attention = atomic_load(&stream->attention);
    if (attention & ATTEND_BROKEN)
        return fpdus + on_nothing(qp, stream, -ECONNRESET);
    if ((attention & ATTEND_OVER) && stream->stash->first && rx_stash_is_over(qp, stream))
        return fpdus + on_nothing(qp, stream, 0);
    if (attention & ATTEND_HELD)
        return fpdus + on_nothing(qp, stream, -EAGAIN);
    return fpdus + receive_behind_partial(qp, stream);
}

/* Makes one read and takes its FPDUs. Returns their number, with the bits that rx_fast() adds, or
 * RX_TAKEN_READS if rx_fast() did not take all of them. */
static inline uint64_t receive(struct iwarp_qp *qp, struct stream *stream)
{
    const uint8_t *ring = iwarp_lane(stream->lane)->pass.ring;
    struct rx_taken taken = { ring, RX_TAKEN_READS };
    ssize_t got;

    if (unlikely(stream->partial.length |
                 atomic_load_explicit(&stream->attention, memory_order_relaxed))) {
        taken.fpdus |= receive_behind_stash(qp, stream);
    } else {
        got = stream->llp->receive(stream, iwarp_lane(stream->lane)->pass.ring, stream->read.next);
        if (got <= 0)
            return on_nothing(qp, stream, got) | RX_TAKEN_READS;
        if (likely(qp->rx.fast))
            taken = rx_fast(qp, ring, ring + got);
        if (unlikely(taken.end != ring + got))
            taken.fpdus = (taken.fpdus | RX_TAKEN_READS) +
                          take_in(qp, stream, 0, (size_t)(taken.end - ring), (size_t)got);
    }
    if (unlikely((uint32_t)taken.fpdus > RX_FPDUS) || unlikely(stream->read.most != READ_MOST))
        adjust_read(stream, (uint32_t)taken.fpdus);
    if (unlikely(atomic_load_explicit(&qp->tx.error, memory_order_relaxed)))
        lane_mark_ready(stream); /* on to the end of what can be read */
    return taken.fpdus;
}

/* A local request of the consumer waits until no placement is under way, as is the case here. */
static __attribute__((noinline)) void make_quiet(struct iwarp_qp *qp)
{
    rx_assert_held(qp->stream);
    lane_assert_run(qp->core.lane);
    if (own_make_quiet(&qp->core, &qp->tx.own))
        atomic_store(&qp->core.tx.wanted, true);
}

/* The work of the pass that is left after rx is unlocked. A consumer that sees the receive of the
 * first message may answer at once: it has been told before that the connection is established. */
static __attribute__((noinline)) void follow_up(struct iwarp_qp *qp, bool received)
{
    qp_assert_unlocked(&qp->core);
    if (received) {
        if (unlikely(atomic_load_explicit(&qp->core.life.pending, memory_order_acquire)))
            qp_report_established(&qp->core);
        qp_retire(&qp->core, &qp->core.rq);
        qp_retire(&qp->core, &qp->core.sq);
    }
    qp_deliver(&qp->core);
}

/* Pushes plain completions of receives, or of Reads. False: follow_up() has to do it. */
static inline bool complete(struct iwarp_qp *qp, uint64_t fpdus)
{
    if (likely(fpdus < RX_TAKEN_READS))
        return likely(qp_retire_received(&qp->core));
    if (fpdus & RX_TAKEN_READS)
        return false;
    return fpdus & RX_TAKEN_ANSWERED || likely(qp_retire_answered(&qp->core));
}

/* For a connection that is not in operation. Under rx. True: its close has ended. */
static __attribute__((noinline)) bool go_on_closing(struct stream *stream)
{
    bool ended = false;

    rx_assert_held(stream);
    if (stream->state == STREAM_CLOSING)
        stream_continue_close(stream, &ended);
    return ended;
}

/* The second part, without rx. */
static __attribute__((noinline)) uint32_t follow_up_closing(struct stream *stream,
                                                            struct iwarp_qp *qp, bool ended)
{
    if (!qp)
        return ended; /* a thread that waits for the close has to run again */
    if (atomic_load_explicit(&stream->want_output, memory_order_relaxed))
        tx_run(&qp->core);
    follow_up(qp, ended);
    return ended;
}

uint32_t rx_run(struct stream *stream)
{
    uint64_t fpdus;
    struct iwarp_qp *qp;

    lane_assert_run(stream->lane);
    if (unlikely(!spinlock_try_blind(&stream->rx))) {
        lane_mark_ready(stream); /* the reason for which it was ready may not be reported again */
        return 0;
    }
    qp = stream->qp;
    if (unlikely(!qp) ||
        unlikely(qp_state(&qp->core) != RI_QPS_RTS)) { /* RTS: the stream is OPEN */
        bool ended = go_on_closing(stream);

        spinlock_unlock(&stream->rx);
        return follow_up_closing(stream, qp, ended);
    }
    if (unlikely(atomic_load_explicit(&qp->tx.own.unquiet, memory_order_relaxed) != NULL))
        make_quiet(qp);
    fpdus = receive(qp, stream);
    spinlock_unlock(&stream->rx);
    if (unlikely(atomic_load_explicit(&stream->want_output, memory_order_relaxed))) {
        tx_run(&qp->core);
        fpdus |= RX_TAKEN_READS; /* its completions are reported */
    }
    if (!complete(qp, fpdus) ||
        unlikely(atomic_load_explicit(&qp->core.tx.wanted, memory_order_relaxed)))
        follow_up(qp, (uint32_t)fpdus);
    return (uint32_t)fpdus;
}
