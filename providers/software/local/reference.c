/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long Sends by reference: the peer's record says in which of its regions the octets are, and this
 * end copies them from there into its receive. Under rx, in a pass; in pieces.
 *
 * WHAT IS READ. Each part is looked up in the peer's directory, as the target of an own Read is: it
 * lies in a region of the peer that its connection may use. The octets come by a load where they
 * are mapped here or are this process's own, else by the kernel, which checks whether this process
 * may read that one's memory.
 *
 * WHILE IT IS READ. `reference_claim` is odd, so the peer does not release the memory. It may flush
 * the request meanwhile, and its consumer use the memory anew; but it closes its gate before. So
 * the gate is looked at behind each copy: octets that were copied later than that are not taken for
 * the message. Behind a copy by the kernel the process is looked at, too: if it is alive, its
 * number was never given to another one.
 */
#include "execute.h"

#include "memory.h"
#include "wire_local.h"

#include <stdlib.h>
#include <sys/uio.h>

#define PIECE (1u << 20) /* octets of one claim */

struct local_source {
    struct local_reach reach;
    bool sought;
    uint32_t claims;
    uint32_t count;
    struct ring_part parts[MAX_SGE];
};

/* --- a message begins --- */

bool local_begin_reference(struct local_qp *qp, const struct ring_header *header,
                           const uint8_t *octets)
{
    local_assert_rx(qp);
    if (!qp->source)
        qp->source = calloc(1, sizeof(*qp->source));
    if (!qp->source)
        return true; /* its octets are asked for */
    qp->source->count = ring_parts(header, octets, qp->source->parts, MAX_SGE);
    return qp->source->count;
}

struct local_source *local_take_source(struct local_qp *qp)
{
    struct local_source *source = qp->source;

    local_assert_rx(qp);
    qp->source = NULL;
    return source;
}

void local_free_source(struct local_qp *qp, struct local_source *source)
{
    if (!source)
        return;
    local_mapped_leave(qp, &source->reach);
    if (source->reach.target)
        local_target_put(local_rnic(qp->core->rnic), source->reach.target);
    free(source);
}

/* --- where the octets are --- */

/* Elements of both ends, of the same octets. */
struct vectors {
    int here, there;
    bool is_mapped; /* all of `mapped` */
    struct iovec to[MAX_SGE], from[MAX_SGE], mapped[MAX_SGE];
};

static void seek_peer(struct local_qp *qp, struct local_source *source)
{
    struct local_rnic *rnic = local_rnic(qp->core->rnic);

    source->sought = true;
    if (local_is_direct(qp->core->rnic) && qp->memory->process)
        source->reach.target = local_target_of(rnic, qp->memory->process, qp->peer, rnic->access,
                                               &source->reach.why);
}

/* The next octets of the receive. False: an element is not usable. */
static bool find_receive(struct local_qp *qp, uint32_t octets, struct vectors *all)
{
    struct qp *core = qp->core;
    const struct wqe *receive = local_next_receive(core);
    const struct ri_sge *sges = core->srq ? core->srq_sges : receive->sges;
    uint64_t offset = qp->placed;

    all->here = 0;
    for (uint32_t i = 0; i < receive->num_sge && octets; i++) {
        uint32_t part = sges[i].length > offset ? sges[i].length - (uint32_t)offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part) {
            if (stag_check_hinted(&core->rnic->stags, &qp->receive_hint, sges[i].lkey,
                                  core->recv_pd, RI_ACCESS_LOCAL_WRITE, sges[i].addr + offset, part,
                                  &memory) != STAG_OK)
                return false;
            all->to[all->here++] = (struct iovec){ memory, part };
        }
        octets -= part;
        offset -= part ? offset : sges[i].length;
    }
    return !octets;
}

/* With a claim. */
static bool add_part(struct local_qp *qp, const struct ring_part *part, uint64_t offset,
                     uint32_t octets, struct vectors *all)
{
    struct local_reach *reach = &qp->source->reach;
    const struct local_target *target = reach->target;
    struct directory_scope scope = { atomic_load_explicit(&qp->peer->pd, memory_order_relaxed),
                                     atomic_load_explicit(&qp->peer->qp, memory_order_relaxed) };
    struct directory_memory memory;
    uint8_t *here = NULL;

    if (directory_check(&target->directory, &reach->hint, part->stag, &scope, RI_ACCESS_LOCAL_READ,
                        part->addr + offset, octets, &memory) != STAG_OK)
        return false;
    if (target->way == LOCAL_WAY_SELF)
        here = (uint8_t *)(uintptr_t)memory.address;
    else if (target->maps)
        here = local_mapped_at(qp, reach, &memory, octets);
    all->is_mapped = all->is_mapped && here;
    all->mapped[all->there] = (struct iovec){ here, octets };
    all->from[all->there++] = (struct iovec){ (void *)(uintptr_t)memory.address, octets };
    return true;
}

/* The next octets of the message. False: the peer does not let this end copy them. With a claim. */
static bool find_octets(struct local_qp *qp, uint32_t octets, struct vectors *all)
{
    const struct local_source *source = qp->source;
    uint64_t offset = qp->placed;

    all->there = 0;
    all->is_mapped = true;
    for (uint32_t i = 0; i < source->count && octets; i++) {
        const struct ring_part *part = &source->parts[i];
        uint32_t some = part->length > offset ? part->length - (uint32_t)offset : 0;

        some = some < octets ? some : octets;
        if (some && !add_part(qp, part, offset, some, all))
            return false;
        octets -= some;
        offset -= some ? offset : part->length;
    }
    return !octets;
}

/* --- copies --- */

static bool is_gate_open(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->peer->gate, memory_order_acquire) & LOCAL_GATE_SEND;
}

static void copy(const struct iovec *to, const struct iovec *from, uint32_t octets)
{
    size_t done_to = 0, done_from = 0;

    while (octets) {
        size_t left = to->iov_len - done_to, part = from->iov_len - done_from;

        part = left < part ? left : part;
        memcpy((uint8_t *)to->iov_base + done_to, (const uint8_t *)from->iov_base + done_from,
               part);
        done_to += part;
        done_from += part;
        octets -= (uint32_t)part;
        if (done_to == to->iov_len) {
            to++;
            done_to = 0;
        }
        if (done_from == from->iov_len) {
            from++;
            done_from = 0;
        }
    }
}

/* Octets that were copied; 0: none can be. */
static uint32_t copy_by_kernel(struct local_qp *qp, const struct vectors *all)
{
    const struct local_target *target = qp->source->reach.target;
    ssize_t done;

    if (target->way != LOCAL_WAY_VM)
        return 0;
    done = process_vm_readv(target->process->pid, all->to, (unsigned long)all->here, all->from,
                            (unsigned long)all->there, 0);
    return done > 0 && local_sees_peer(qp) ? (uint32_t)done : 0;
}

/* With a claim. */
static uint32_t copy_octets(struct local_qp *qp, uint32_t octets, struct vectors *all)
{
    if (!is_gate_open(qp))
        return 0;
    local_has_found(qp->memory);
    if (!find_octets(qp, octets, all))
        return 0;
    if (all->is_mapped)
        copy(all->to, all->mapped, octets);
    else
        octets = copy_by_kernel(qp, all);
    atomic_thread_fence(memory_order_acquire);
    return is_gate_open(qp) ? octets : 0;
}

static void claim(struct local_qp *qp, struct local_source *source)
{
    contract(!(source->claims & 1));
    atomic_store_explicit(&qp->own->reference_claim, ++source->claims, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static void unclaim(struct local_qp *qp, struct local_source *source)
{
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->reference_claim, ++source->claims, memory_order_release);
}

enum local_copy local_copy_reference(struct local_qp *qp)
{
    const uint64_t left = qp->message.length - qp->placed;
    const uint32_t octets = left < PIECE ? (uint32_t)left : PIECE;
    struct local_source *source = qp->source;
    struct vectors all;
    uint32_t done;

    local_assert_rx(qp);
    if (!source)
        return LOCAL_COPY_NOT;
    if (!source->sought)
        seek_peer(qp, source);
    if (!source->reach.target)
        return LOCAL_COPY_NOT;
    if (!find_receive(qp, octets, &all))
        return LOCAL_COPY_GONE;
    claim(qp, source);
    done = copy_octets(qp, octets, &all);
    unclaim(qp, source);
    qp->placed += done;
    return !done                              ? LOCAL_COPY_NOT
           : qp->placed == qp->message.length ? LOCAL_COPY_DONE
                                              : LOCAL_COPY_MORE;
}
