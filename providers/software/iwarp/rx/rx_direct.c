/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, long payload straight from the socket to its place: without CRC nothing has to be seen
 * before it is placed. Memory that is in no cache is then written once, not read and copied.
 *
 * Of an FPDU that has begun to arrive, the payload goes to its place, but for the last octets, and
 * the reassembly buffer keeps the header alone. When those octets are there, the header is
 * rewritten to that of the rest: it becomes a segment of the same message, shorter, further on, of
 * the same padding. So all that follows is the general path's: the rest is checked, placed in order
 * (rx_place) and counted.
 *
 * The target is checked before each read, in the same pass: nothing is placed into memory that was
 * released in between (lanes_leave).
 */
#include "checks.h"
#include "providers/software/iwarp/codec/mpa.h"

#include <errno.h>

/* Missing octets of an FPDU for which a read of its own pays. */
#define DIRECT_LEAST (12u << 10)
/* Payload that takes the general path; at most 3 more, so that padding stays the same. */
#define REST_LEAST 16u
/* What is read behind the payload: its rest, and how the next FPDU begins. */
#define BEHIND_OCTETS 512u

#define TAGGED_FRONT   (MPA_HDR_LEN + DDP_TAGGED_LEN)
#define UNTAGGED_FRONT (MPA_HDR_LEN + DDP_UNTAGGED_LEN)

struct target {
    struct rdmap_segment segment; /* opcode, header, length */
    struct outstanding_read *read;
    uint8_t *memory;
    uint32_t front; /* octets before the payload */
};

/* A later segment of a Send into the one element of its receive. */
static bool find_receive(struct iwarp_qp *qp, struct target *target, struct fault *fault)
{
    const struct ddp_hdr *hdr = &target->segment.hdr;
    struct wqe *wqe = wq_slot(&qp->core.rq,
                              atomic_load_explicit(&qp->core.rq.next, memory_order_relaxed));

    if (hdr->qn != DDP_QN_SEND || !qp->rx.message_open || wqe->num_sge != 1 ||
        qp->rx.message_opcode != RDMAP_SEND || !rx_send_in_turn(qp, hdr, true, true) ||
        !rx_send_fits(hdr, target->segment.payload_len, qp->rx.message_received, wqe->length))
        return false;
    if (rx_find_receive(qp, qp->rx.message_sges, hdr->mo, target->segment.payload_len,
                        &target->memory))
        return true;
    return rx_receive_gone(qp, wqe, fault);
}

static bool find_sink(struct iwarp_qp *qp, struct target *target, struct fault *fault)
{
    return rx_check_response(qp, &target->segment, &target->read, &target->memory, fault);
}

/* False: it has none, and the general path may find why; or, for memory that it had, `fault`. */
static bool find_target(struct iwarp_qp *qp, const uint8_t *octets, struct target *target,
                        struct fault *fault)
{
    uint32_t front = be_get32(octets), control = front & 0xFFFF & ~((uint32_t)DDP_CTRL_L << 8);
    bool tagged = control != RDMAP_WORD(0, RDMAP_SEND);

    target->front = tagged ? TAGGED_FRONT : UNTAGGED_FRONT;
    ddp_get_whole(octets + MPA_HDR_LEN, tagged, &target->segment.hdr);
    target->segment.payload_len = (front >> 16) + MPA_HDR_LEN - target->front;
    if (qp->rx.unfetched && control != RDMAP_READ_RESP_WORD)
        return false; /* rx_behind.c */
    switch (control) {
    case RDMAP_WORD(0, RDMAP_SEND): return find_receive(qp, target, fault);
    case RDMAP_WRITE_WORD: return rx_check_write(qp, &target->segment, &target->memory, fault);
    case RDMAP_READ_RESP_WORD: return find_sink(qp, target, fault);
    default: return false;
    }
}

/* Payload that goes straight to its place. */
static uint32_t direct_octets(const struct target *target)
{
    return (target->segment.payload_len - REST_LEAST) & ~3u;
}

bool rx_direct_begin(struct iwarp_qp *qp, struct stream *stream, const uint8_t *octets,
                     size_t length, uint32_t whole)
{
    struct target target;
    struct fault fault;
    uint32_t here;

    if (!qp->rx.fast || qp->framing.crc || length < UNTAGGED_FRONT ||
        whole - length < DIRECT_LEAST || qp_state(&qp->core) != RI_QPS_RTS ||
        !find_target(qp, octets, &target, &fault))
        return false;
    here = (uint32_t)length - target.front;
    if (!partial_keep(stream, octets, target.front, whole, true))
        return false;
    memcpy(target.memory, octets + target.front, here);
    stream->partial.direct = true;
    stream->partial.placed = here;
    return true;
}

/* Counts what is placed as a segment, and makes the header that of the rest. */
static void keep_remainder(struct iwarp_qp *qp, struct stream *stream, const struct target *target)
{
    uint32_t placed = stream->partial.placed, rest = target->segment.payload_len - placed;
    uint8_t *header = stream->partial.octets;

    if (target->front == UNTAGGED_FRONT) {
        qp->rx.message_received += placed;
        be_put32(header + UNTAGGED_FRONT - sizeof(uint32_t), target->segment.hdr.mo + placed);
    } else {
        if (target->read)
            target->read->received += placed;
        else
            qp->rx.write_octets += placed;
        be_put64(header + TAGGED_FRONT - sizeof(uint64_t), target->segment.hdr.to + placed);
    }
    be_put16(header, (uint16_t)(target->front - MPA_HDR_LEN + rest));
    stream->partial.direct = false;
    TRACE3(place, qp->core.qpn, target->memory, placed);
}

/* Octets of the stream: first to `memory`, then to the ring, from `at` on. */
static ssize_t read_two(struct stream *stream, uint8_t *memory, uint32_t octets, uint8_t *at)
{
    if (!stream->llp->receive_two)
        return stream->llp->receive(stream, memory, octets);
    return stream->llp->receive_two(stream, memory, octets, at, BEHIND_OCTETS);
}

ssize_t rx_direct_read(struct iwarp_qp *qp, struct stream *stream, size_t *behind,
                       struct fault *fault)
{
    struct target target = { .read = NULL };
    uint8_t *at = iwarp_lane(stream->lane)->pass.ring;
    uint32_t octets;
    ssize_t got;

    *fault = (struct fault){ .event = RI_EVENT_REMOTE_OPERATION };
    if (!find_target(qp, stream->partial.octets, &target, fault))
        return RX_DIRECT_REFUSED;
    octets = direct_octets(&target) - stream->partial.placed;
    got = read_two(stream, target.memory + stream->partial.placed, octets, at + target.front);
    if (got <= 0)
        return got;
    partial_fed(stream);
    if ((size_t)got < octets) {
        stream->partial.placed += (uint32_t)got;
        return -EAGAIN;
    }
    stream->partial.placed += octets;
    keep_remainder(qp, stream, &target);
    memcpy(at, stream->partial.octets, target.front);
    *behind = (size_t)got - octets;
    return target.front;
}
