/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Own Writes, Reads and atomics that this end executes by itself in the peer's memory, while they
 * are posted: the peer's threads do nothing for it, and may sleep, compute or be stopped.
 *
 * WHEN. All that was published before is executed, so nothing of this direction is under way; and
 * all is as it should be: the peer lets it, the STag is valid there, the memory here is usable, the
 * system copies all octets. Otherwise the request is published like any other, and the peer finds
 * out what is wrong with it. So no error is told here.
 *
 * THE CLAIM. `claim` in the own page is odd from before the peer's gate and directory are read
 * until behind the last octet. The peer closes its gate, or withdraws an entry, before it looks for
 * claims: one of the two sees the other. So it knows when nobody is in its memory any more
 * (local_await_peer). Long requests go in pieces, each with a claim of its own.
 *
 * WHOSE MEMORY. Before an access the peer is looked at: its process has not ended (its number may
 * be another's), and the Unix socket is open (it may execute another program). A look holds for
 * LOOK_HOLDS, which neither takes; what happens between the look and the access is in SECURITY.md.
 * A mapping needs no look: it leads to the peer's file and nowhere else.
 */
#include "mapped.h"
#include "memory.h"
#include "parts.h"

#include "wire_local.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECE      (1u << 20) /* octets of one claim */
#define LOOK_HOLDS (50 * CLOCK_NS_PER_US)

/* --- may it --- */

static bool is_atomic(const struct wqe *wqe)
{
    return wqe->opcode == RI_WR_ATOMIC_FETCH_ADD || wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP;
}

static bool is_direct(const struct local_qp *qp, const struct wqe *wqe)
{
    switch (wqe->opcode) {
    case RI_WR_RDMA_WRITE: return wqe->length > 0;
    case RI_WR_RDMA_READ: return wqe->length > 0 && qp->core->attr.reads_agreed;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP: return qp->core->attr.reads_agreed;
    default: return false;
    }
}

static void show_way(struct local_qp *qp, enum local_way way)
{
    static const char *const names[] = {
        [LOCAL_WAY_VM] = "vm", [LOCAL_WAY_SELF] = "self", [LOCAL_WAY_MAPPED] = "mapped"
    };

    if (atomic_load_explicit(&qp->way, memory_order_relaxed) != names[way])
        atomic_store_explicit(&qp->way, names[way], memory_order_relaxed);
    atomic_store_explicit(&qp->by_kernel, way == LOCAL_WAY_VM, memory_order_relaxed);
}

/* The first request that could: which way leads to the peer? */
static void find_target(struct local_qp *qp)
{
    struct local_rnic *rnic = local_rnic(qp->core->rnic);

    tx_assert_inside(qp->core);
    if (!atomic_load_explicit(&qp->peer->started, memory_order_acquire))
        return; /* it has not said yet */
    qp->sought = true;
    qp->reach.why = "option local_access is ring, or accesses to memory are watched (option guard, "
                    "a sanitizer)";
    if (!local_is_direct(qp->core->rnic))
        return;
    qp->reach.why = "the system does not tell which process the peer is";
    if (qp->memory->process)
        qp->reach.target = local_target_of(rnic, qp->memory->process, qp->peer, rnic->access,
                                           &qp->reach.why);
    if (qp->reach.target)
        show_way(qp, qp->reach.target->way);
}

void local_forget_target(struct local_qp *qp)
{
    tx_assert_inside(qp->core);
    local_mapped_leave(qp, &qp->reach);
    if (qp->reach.target)
        local_target_put(local_rnic(qp->core->rnic), qp->reach.target);
    qp->reach.target = NULL;
    atomic_store_explicit(&qp->way, NULL, memory_order_relaxed);
    atomic_store_explicit(&qp->by_kernel, false, memory_order_relaxed);
}

bool local_may_execute(struct local_qp *qp, const struct wqe *wqe)
{
    uint32_t given;

    if (!is_direct(qp, wqe) || qp->refused_directly)
        return false;
    if (unlikely(!qp->sought))
        find_target(qp);
    if (!qp->reach.target ||
        (is_atomic(wqe) && qp->reach.target->way == LOCAL_WAY_VM && !qp->reach.target->maps))
        return false;
    given = atomic_load_explicit(&qp->given, memory_order_relaxed);
    return given == atomic_load_explicit(&qp->peer->executed, memory_order_acquire) ||
           given == local_heard(qp);
}

/* --- the peer's memory --- */

/* Where the octets are there. False: it does not let this end in. With a claim. */
static bool find_remote(struct local_qp *qp, const struct wqe *wqe, uint32_t octets,
                        struct directory_memory *found)
{
    static const struct {
        uint32_t gate, access;
    } needs[] = {
        [RI_WR_RDMA_WRITE] = { LOCAL_GATE_WRITE, RI_ACCESS_REMOTE_WRITE },
        [RI_WR_RDMA_READ] = { LOCAL_GATE_READ, RI_ACCESS_REMOTE_READ },
        [RI_WR_ATOMIC_FETCH_ADD] = { LOCAL_GATE_ATOMIC, RI_ACCESS_REMOTE_ATOMIC },
        [RI_WR_ATOMIC_COMPARE_SWAP] = { LOCAL_GATE_ATOMIC, RI_ACCESS_REMOTE_ATOMIC },
    };
    const struct local_page *peer = qp->peer;
    uint32_t gate = atomic_load_explicit(&peer->gate, memory_order_acquire);
    struct directory_scope scope = { atomic_load_explicit(&peer->pd, memory_order_relaxed),
                                     atomic_load_explicit(&peer->qp, memory_order_relaxed) };

    if (!(gate & needs[wqe->opcode].gate))
        return false;
    local_has_found(qp->memory);
    return directory_check(&qp->reach.target->directory, &qp->reach.hint, wqe->rkey, &scope,
                           needs[wqe->opcode].access, wqe->remote_addr + qp->placed_directly,
                           octets, found) == STAG_OK;
}

/* As local_sees_peer(), of late. */
static bool is_alive(struct local_qp *qp)
{
    uint64_t now;

    if (qp->memory->process->self)
        return true;
    now = clock_now();
    if (now - qp->looked_at < LOOK_HOLDS)
        return true;
    if (!local_sees_peer(qp))
        return false;
    qp->looked_at = now;
    return true;
}

/* A page of either side that is not there is the peer's to find. Anything else stays so. */
static void note_refusal(struct local_qp *qp, ssize_t done)
{
    if (done >= 0 || errno == EFAULT)
        return;
    qp->reach.why = "the system refuses it by now";
    local_forget_target(qp);
}

static bool by_kernel(struct local_qp *qp, const struct wqe *wqe, const struct iovec *here,
                      int count, uint64_t address, uint32_t octets)
{
    const bool write = wqe->opcode == RI_WR_RDMA_WRITE;
    const bool ends_write = write && qp->placed_directly + octets == wqe->length;
    struct iovec there[2];
    int parts = local_parts(address, octets, ends_write, LOCAL_STORES_IN_ORDER, there);
    pid_t pid = qp->reach.target->process->pid;
    ssize_t done =
        write ? process_vm_writev(pid, here, (unsigned long)count, there, (unsigned long)parts, 0)
              : process_vm_readv(pid, here, (unsigned long)count, there, (unsigned long)parts, 0);

    note_refusal(qp, done);
    return done == (ssize_t)octets;
}

static bool by_copies(bool write, const struct iovec *here, int count, uint8_t *there)
{
    for (int i = 0; i < count; i++) {
        uint32_t octets = (uint32_t)here[i].iov_len;

        if (write)
            local_store(there, here[i].iov_base, octets);
        else
            local_store(here[i].iov_base, there, octets);
        there += octets;
    }
    return true;
}

/* --- the memory here --- */

static bool find_element(struct local_qp *qp, const struct wqe *wqe, const struct ri_sge *sge,
                         uint64_t offset, uint32_t octets, uint8_t **memory)
{
    struct qp *core = qp->core;

    if (wqe->opcode == RI_WR_RDMA_WRITE)
        return stag_check_hinted(&core->rnic->stags, &qp->payload_hint, sge->lkey, core->pd,
                                 RI_ACCESS_LOCAL_READ, sge->addr + offset, octets,
                                 memory) == STAG_OK;
    /* The sink: a region, or a window that the peer may write to. */
    return stag_check_hinted(&core->rnic->stags, &qp->payload_hint, sge->lkey, core->pd,
                             RI_ACCESS_LOCAL_WRITE, sge->addr + offset, octets,
                             memory) == STAG_OK ||
           qp_check_remote(core, &qp->payload_hint, sge->lkey, RI_ACCESS_REMOTE_WRITE,
                           sge->addr + offset, octets, memory) == STAG_OK;
}

/* The next octets of the request, from `placed_directly` on. Returns how many elements; -1: one is
 * not usable. */
static int find_here(struct local_qp *qp, const struct wqe *wqe, uint32_t octets,
                     struct iovec here[MAX_SGE])
{
    uint64_t offset = qp->placed_directly;
    int count = 0;

    for (uint32_t i = 0; octets; i++) {
        const struct ri_sge *sge = &wqe->sges[i];
        uint32_t part = sge->length > offset ? sge->length - (uint32_t)offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part) {
            if (!find_element(qp, wqe, sge, offset, part, &memory))
                return -1;
            here[count++] = (struct iovec){ memory, part };
        }
        octets -= part;
        offset -= part ? offset : sge->length;
    }
    return count;
}

/* --- execution --- */

static bool execute_atomic(const struct wqe *wqe, const struct iovec *here, uint8_t *there)
{
    uint64_t old;

    if ((uintptr_t)there % ATOMIC_OCTETS || here->iov_len != ATOMIC_OCTETS)
        return false;
    old = atomic_on_word((uint64_t *)(void *)there, wqe->opcode, wqe->operand, wqe->compare);
    memcpy(here->iov_base, &old, sizeof(old));
    return true;
}

/* Where this processor gets at the octets. NULL: nowhere. */
static uint8_t *find_mapped(struct local_qp *qp, const struct directory_memory *memory,
                            uint32_t octets)
{
    uint8_t *there;

    if (qp->reach.target->way == LOCAL_WAY_SELF)
        return (uint8_t *)(uintptr_t)memory->address;
    there = qp->reach.target->maps ? local_mapped_at(qp, &qp->reach, memory, octets) : NULL;
    if (there) {
        count_up(&qp->counters.mapped, 1);
        show_way(qp, LOCAL_WAY_MAPPED);
    }
    return there;
}

/* With a claim. */
static bool execute(struct local_qp *qp, const struct wqe *wqe, const struct iovec *here, int count,
                    uint32_t octets)
{
    const bool write = wqe->opcode == RI_WR_RDMA_WRITE;
    struct directory_memory memory;
    uint8_t *there;

    if (!find_remote(qp, wqe, octets, &memory))
        return false;
    there = find_mapped(qp, &memory, octets);
    if (there)
        return is_atomic(wqe) ? execute_atomic(wqe, here, there)
                              : by_copies(write, here, count, there);
    if (is_atomic(wqe) || qp->reach.target->way != LOCAL_WAY_VM || !is_alive(qp))
        return false;
    show_way(qp, LOCAL_WAY_VM);
    return by_kernel(qp, wqe, here, count, memory.address, octets);
}

static void claim(struct local_qp *qp)
{
    struct local_page *own = qp->own;

    tx_assert_inside(qp->core);
    atomic_store_explicit(&own->claim, ++qp->claims, memory_order_relaxed);
    contract(qp->claims & 1);
    atomic_thread_fence(memory_order_seq_cst);
}

static void unclaim(struct local_qp *qp)
{
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->claim, ++qp->claims, memory_order_release);
}

static void count_direct(struct local_qp *qp, const struct wqe *wqe)
{
    count_up(&qp->counters.directly, 1);
    count_up(&qp->counters.directly_octets, wqe->length);
    if (wqe_is_answered(wqe))
        return;
    count_up(&qp->core->counters.sent_messages, 1);
    count_up(&qp->core->counters.sent_octets, wqe->length);
}

enum local_direct local_execute_directly(struct local_qp *qp, struct wqe *wqe)
{
    uint64_t left = wqe->length - qp->placed_directly;
    uint32_t octets = left < PIECE ? (uint32_t)left : PIECE;
    struct iovec here[MAX_SGE];
    int count = find_here(qp, wqe, octets, here);
    bool done = count > 0;

    tx_assert_inside(qp->core);
    if (done) {
        claim(qp);
        done = execute(qp, wqe, here, count, octets);
        unclaim(qp);
    }
    if (!done) { /* from its first octet on, by the peer */
        qp->placed_directly = 0;
        qp->refused_directly = true;
        return LOCAL_DIRECT_NOT;
    }
    qp->placed_directly += octets;
    if (qp->placed_directly < wqe->length)
        return LOCAL_DIRECT_PIECE;
    qp->placed_directly = 0;
    count_direct(qp, wqe);
    return LOCAL_DIRECT_DONE;
}

/* --- several short Writes by one system call --- */

#define TOGETHER    64u
#define SHORT_WRITE 1024u /* octets of one at most */

struct together {
    uint32_t writes;
    size_t parts; /* of `there` */
    struct iovec here[TOGETHER], there[2 * TOGETHER];
};

static bool is_short_write(const struct wqe *wqe)
{
    return wqe->opcode == RI_WR_RDMA_WRITE && wqe->num_sge == 1 && wqe->length - 1 < SHORT_WRITE &&
           !(wqe->flags & (RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE));
}

/* One part behind another, within a page, is one with it: see local_parts(). */
static bool extends(const struct iovec *last, const struct iovec *part)
{
    const uintptr_t page = 4096, begin = (uintptr_t)last->iov_base;
    const uintptr_t end = begin + last->iov_len;

    return LOCAL_STORES_IN_ORDER && end == (uintptr_t)part->iov_base &&
           begin / page == (end + part->iov_len - 1) / page;
}

static void add_part(struct together *all, const struct iovec *part)
{
    struct iovec *last = all->parts ? &all->there[all->parts - 1] : NULL;

    if (last && extends(last, part))
        last->iov_len += part->iov_len;
    else
        all->there[all->parts++] = *part;
}

/* False: it is not to be among them. With a claim. */
static bool add_write(struct local_qp *qp, const struct wqe *wqe, struct together *all)
{
    const uint32_t octets = (uint32_t)wqe->length;
    struct directory_memory memory;
    struct iovec parts[2];
    uint8_t *here;
    int count;

    if (!is_short_write(wqe) || !find_element(qp, wqe, &wqe->sges[0], 0, octets, &here) ||
        !find_remote(qp, wqe, octets, &memory) ||
        (qp->reach.target->maps && local_mapped_at(qp, &qp->reach, &memory, octets)))
        return false;
    count = local_parts(memory.address, octets, true, LOCAL_STORES_IN_ORDER, parts);
    for (int i = 0; i < count; i++)
        add_part(all, &parts[i]);
    all->here[all->writes++] = (struct iovec){ here, octets };
    return true;
}

/* How many of them are placed: the kernel takes one behind the other. */
static uint32_t write_together(struct local_qp *qp, const struct together *all)
{
    ssize_t left = process_vm_writev(qp->reach.target->process->pid, all->here, all->writes,
                                     all->there, all->parts, 0);
    uint32_t placed = 0;

    note_refusal(qp, left);
    while (placed < all->writes && left >= (ssize_t)all->here[placed].iov_len)
        left -= (ssize_t)all->here[placed++].iov_len;
    return placed;
}

uint32_t local_execute_together(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;
    const uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);
    const uint32_t posted = atomic_load_explicit(&sq->posted, memory_order_acquire);
    struct together all;
    uint32_t placed = 0;

    tx_assert_inside(qp->core);
    all.writes = 0; /* the vectors are not filled before they are used */
    all.parts = 0;
    if (posted - next < 2 || qp->placed_directly || qp->reach.target->way != LOCAL_WAY_VM)
        return 0;
    claim(qp);
    while (all.writes < TOGETHER && next + all.writes != posted &&
           add_write(qp, wq_slot(sq, next + all.writes), &all))
        ;
    if (all.writes > 1 && is_alive(qp))
        placed = write_together(qp, &all);
    unclaim(qp);
    for (uint32_t i = 0; i < placed; i++)
        count_direct(qp, wq_slot(sq, next + i));
    return placed;
}

/* --- the peer in this end's memory --- */

bool local_shows_memory(const struct local_qp *qp)
{
    return local_rnic(qp->core->rnic)->directory >= 0 && qp->memory->process;
}

void local_open_gate(struct local_qp *qp)
{
    const struct qp *core = qp->core;
    const bool reads = core->attr.ird > 0;

    tx_assert_inside(core);
    if (!local_shows_memory(qp) || qp_state(core) != RI_QPS_RTS ||
        (qp->rules && !qp->rules->is_ready(core)))
        return;
    atomic_store_explicit(&qp->own->pd, (uintptr_t)core->pd, memory_order_relaxed);
    atomic_store_explicit(&qp->own->qp, (uintptr_t)core, memory_order_relaxed);
    atomic_store_explicit(
        &qp->own->gate,
        (qp_allows(core, RI_QP_WRITE_ENABLE) ? LOCAL_GATE_WRITE : 0u) |
            (reads && qp_allows(core, RI_QP_READ_ENABLE) ? LOCAL_GATE_READ : 0u) |
            (reads && qp_allows(core, RI_QP_ATOMIC_ENABLE) ? LOCAL_GATE_ATOMIC : 0u) |
            LOCAL_GATE_SEND,
        memory_order_release);
}

void local_close_gate(struct local_qp *qp)
{
    atomic_store(&qp->own->gate, 0);
}

struct ri_local *local_keep(struct local_qp *qp)
{
    struct ri_local *memory;

    spinlock_lock(&qp->keeping);
    memory = qp->memory;
    if (memory)
        atomic_fetch_add(&memory->users, 1);
    spinlock_unlock(&qp->keeping);
    return memory;
}

#define WAIT_UNSAID (100 * CLOCK_NS_PER_MS)

/* The wait goes on: the peer may be stopped, and would write when it continues. */
static void tell_of_wait(struct local_qp *qp, const struct local_process *process)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_RESET,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .by_this_side = true,
                                       .detail = "the peer holds memory that is released here" };

    ri_log(qp->core->rnic->host, RI_LOG_WARNING,
           "process %d, a peer on this host, is in the middle of an access to memory that is being "
           "released here: it is waited for (is it stopped?)",
           (int)process->pid);
    qp_end(qp->core, &end);
    tx_defer_to_lane(qp->core);
}

static void await_claim(struct local_qp *qp, const struct ri_local *memory,
                        const atomic_uint *claim)
{
    const uint64_t begun = clock_now(), unsaid = clock_after(begun, WAIT_UNSAID);
    const uint32_t found = atomic_load(claim);
    bool said = false;

    if (!(found & 1))
        return;
    for (uint32_t rounds = 1; atomic_load(claim) == found; rounds++) {
        sched_yield();
        if (rounds % 64)
            continue;
        if (local_process_is_over(memory->process))
            return;
        if (!said && clock_now() >= unsaid) {
            said = true;
            tell_of_wait(qp, memory->process);
        }
    }
}

void local_await_peer(struct local_qp *qp)
{
    struct ri_local *memory = local_keep(qp);

    if (!memory)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (memory->process) {
        const struct local_page *peer = local_page(memory, !memory->side);

        await_claim(qp, memory, &peer->claim);
        await_claim(qp, memory, &peer->reference_claim);
    }
    local_has_found(memory);
    local_drop(&qp->core->rnic->base, memory);
}
