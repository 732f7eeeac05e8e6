/* SPDX-License-Identifier: BSD-3-Clause */
/* The oracle of a test bed: which memory may change, and which requests complete. See testbed.h. */
#include "tests/fuzz/testbed_private.h"

#include <string.h>

#define SMALL 36864u /* of the arena, unless the shape is large */
#define ARENA (6u * 16384u)
#define GAP   128u /* between regions */

static uint8_t arena[ARENA] __attribute__((aligned(4096)));
static uint8_t shadow[ARENA]; /* contents at the last check */

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif

#ifdef ASAN
#include <sanitizer/asan_interface.h>
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc has it, but not its header */
#endif

/* ---- memory ---- */

static const struct {
    uint32_t length, access;
    bool other;
    uint32_t large; /* its length in a large shape; 0: the same */
} shapes[TESTBED_REGIONS] = {
#define LOCAL  (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE)
#define REMOTE (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC)
    [REGION_LOCAL] = { 8192, LOCAL, false, 22528 },
    [REGION_WRITE] = { 4096, LOCAL | RI_ACCESS_REMOTE_WRITE, false, 22528 },
    [REGION_READ] = { 4096, LOCAL | RI_ACCESS_REMOTE_READ, false, 0 },
    [REGION_BOTH] = { 4096, LOCAL | REMOTE, false, 0 },
    [REGION_ZERO] = { 777, LOCAL | REMOTE | RI_ACCESS_ZERO_BASED, false, 0 },
    [REGION_OTHER] = { 4096, LOCAL | REMOTE, true, 0 },
    [REGION_FREED] = { 512, LOCAL | REMOTE, false, 0 },
    [REGION_BIND] = { 1024, LOCAL | RI_ACCESS_BIND, false, 22528 },
    [REGION_LOCAL_READ] = { 600, RI_ACCESS_LOCAL_READ, false, 0 },
};

size_t memory_in_use(void)
{
#ifdef ASAN
    return __sanitizer_get_current_allocated_bytes();
#else
    return 0;
#endif
}

void memory_mark(const struct region *region, bool usable)
{
#ifdef ASAN
    if (usable)
        ASAN_UNPOISON_MEMORY_REGION(region->memory, region->length);
    else
        ASAN_POISON_MEMORY_REGION(region->memory, region->length);
#else
    (void)region, (void)usable;
#endif
}

void memory_fill(struct testbed *w)
{
    const uint32_t used = w->shape.large ? ARENA : SMALL;
    static uint8_t first[ARENA];
    uint32_t at = 256;

#ifdef ASAN
    ASAN_UNPOISON_MEMORY_REGION(arena, sizeof(arena));
#endif
    if (!first[0])
        for (uint32_t i = 0; i < ARENA; i++)
            first[i] = (uint8_t)(0xA5 ^ i ^ i >> 8);
    memcpy(arena, first, used);
    memcpy(shadow, first, used);
#ifdef ASAN
    ASAN_POISON_MEMORY_REGION(arena, sizeof(arena));
#endif
    for (int i = 0; i < TESTBED_REGIONS; i++) {
        struct region *region = &w->regions[i];

        region->memory = arena + at;
        region->length = w->shape.large && shapes[i].large ? shapes[i].large : shapes[i].length;
        region->access = shapes[i].access;
        region->other = shapes[i].other;
        region->base = region->access & RI_ACCESS_ZERO_BASED ? 0 : (uintptr_t)region->memory;
        at += (region->length + GAP + 7) & ~7u;
        FUZZ_CHECK(at < used);
    }
}

/* The place of an element, NULL if it begins in no region of the test bed. Only the octets inside
 * the region may be used. */
static const uint8_t *place_of(const struct testbed *w, const struct ri_sge *sge, uint32_t *length)
{
    for (int i = 0; i < TESTBED_REGIONS; i++) {
        const struct region *region = &w->regions[i];
        uint64_t offset = sge->addr - region->base;

        if (!region->mr || region->keys.lkey != sge->lkey || offset >= region->length)
            continue;
        *length = region->length - (uint32_t)offset;
        if (*length > sge->length)
            *length = sge->length;
        return region->memory + offset;
    }
    *length = 0;
    return NULL;
}

/* Number of octets from `at` on that a permit covers; 0: none. */
static size_t reach(const uint8_t *at, const uint8_t *memory, size_t length)
{
    return memory && at >= memory && at < memory + length ? (size_t)(memory + length - at) : 0;
}

static size_t best(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Of requests: does a peer's response fill their memory? */
static bool is_answered(const struct work *work)
{
    return work->opcode == RI_WR_RDMA_READ || work->opcode == RI_WR_RDMA_READ_INVALIDATE ||
           work->opcode == RI_WR_ATOMIC_FETCH_ADD || work->opcode == RI_WR_ATOMIC_COMPARE_SWAP;
}

static size_t reach_of_work(const struct testbed *w, const struct work_queue *queue, bool sends,
                            const uint8_t *at)
{
    size_t found = 0;

    for (uint32_t i = queue->out; i != queue->in; i++) {
        const struct work *work = &queue->work[i % TESTBED_WORK];

        if (sends && !is_answered(work))
            continue;
        for (uint32_t k = 0; k < work->num_sge; k++) {
            uint32_t length;
            const uint8_t *place = place_of(w, &work->sges[k], &length);

            found = best(found, reach(at, place, length));
        }
    }
    return found;
}

/* Octets from `at` on that may have changed. */
static size_t permitted(const struct testbed *w, const uint8_t *at)
{
    const struct region *bind = &w->regions[REGION_BIND];
    bool raw = false;
    size_t found = 0;

    for (uint32_t i = 0; i < w->permit_count; i++)
        found = best(found, reach(at, w->permits[i].memory, w->permits[i].length));
    for (uint32_t i = 0; i < TESTBED_QPS; i++) {
        const struct live_qp *live = &w->qps[i];

        found = best(found, reach_of_work(w, &live->sends, true, at));
        found = best(found, reach_of_work(w, &live->receives, false, at));
        raw |= live->wire && live->wire->raw && (w->shape.flags & RI_QP_WRITE_ENABLE);
    }
    found = best(found, reach_of_work(w, &w->shared, false, at));
    for (int i = 0; raw && i < TESTBED_REGIONS; i++) {
        const struct region *region = &w->regions[i];

        if (region->mr && !region->other && (region->access & RI_ACCESS_REMOTE_WRITE))
            found = best(found, reach(at, region->memory, region->length));
    }
    for (uint32_t i = 0; i < TESTBED_WINDOWS; i++)
        if (w->windows[i].writable && bind->mr)
            found = best(found, reach(at, bind->memory, bind->length));
    return found;
}

/* Notes for each QP that octets have changed which it may be sending. */
static void note_change(struct testbed *w, const uint8_t *changed, size_t length)
{
    for (uint32_t i = 0; i < TESTBED_QPS; i++) {
        const struct live_qp *live = &w->qps[i];
        const struct work_queue *sends = &live->sends;

        for (uint32_t k = sends->out; live->wire && k != sends->in; k++) {
            const struct work *work = &sends->work[k % TESTBED_WORK];

            for (uint32_t n = 0; !is_answered(work) && n < work->num_sge; n++) {
                uint32_t octets;
                const uint8_t *place = place_of(w, &work->sges[n], &octets);

                if (place && place < changed + length && changed < place + octets)
                    live->wire->source_changed = true;
            }
        }
    }
}

static void look_at(struct testbed *w, const uint8_t *memory, uint32_t length)
{
    uint8_t *old = shadow + (memory - arena);

    if (!memcmp(memory, old, length))
        return;
    for (uint32_t i = 0; i < length;) {
        size_t far, changed;

        if (memory[i] == old[i]) {
            i++;
            continue;
        }
        far = permitted(w, memory + i);
        FUZZ_CHECK(far != 0); /* nobody may write there */
        far = far < length - i ? far : length - i;
        for (changed = far; memory[i + changed - 1] == old[i + changed - 1]; changed--)
            ;
        note_change(w, memory + i, changed);
        i += (uint32_t)far;
    }
    memcpy(old, memory, length);
}

uint64_t testbed_memory_digest(const struct testbed *w)
{
    uint64_t digest = 0;

    for (int i = 0; i < TESTBED_REGIONS; i++) {
        const struct region *region = &w->regions[i];

        if (!region->mr || region->other)
            continue;
        for (uint32_t k = 0; k < region->length; k += 4)
            digest = checker_crc((uint32_t)digest, region->memory + k,
                                 region->length - k < 4 ? region->length - k : 4) ^
                     digest << 7;
    }
    return digest;
}

void testbed_look(struct testbed *w)
{
    uint32_t end = 0;

    for (int i = 0; i < TESTBED_REGIONS; i++) {
        const struct region *region = &w->regions[i];
#ifdef ASAN /* the gaps are poisoned */
        (void)end;
        if (!region->mr || region->other)
            continue;
#else
        look_at(w, arena + end, (uint32_t)(region->memory - arena) - end);
        end = (uint32_t)(region->memory - arena) + region->length;
#endif
        look_at(w, region->memory, region->length);
    }
}

void testbed_permit(const struct fuzz_wire *wire, const uint8_t *memory, const uint8_t *from,
                    uint32_t length)
{
    struct testbed *w = wire->bed;

    if (w->permit_count < TESTBED_PERMITS)
        w->permits[w->permit_count++] = (struct permit){ wire, memory, from, length };
}

struct ri_sge testbed_sge(const struct testbed *w, uint32_t which, uint32_t offset, uint32_t length)
{
    const struct region *region = &w->regions[which % TESTBED_REGIONS];

    return (struct ri_sge){ region->base + offset, length, region->keys.lkey };
}

/* ---- STags ---- */

uint32_t testbed_stag(const struct testbed *w, uint8_t which, uint8_t variant)
{
    uint32_t stag;

    which %= TESTBED_REGIONS + TESTBED_WINDOWS;
    stag = which < TESTBED_REGIONS ? w->regions[which].keys.rkey
                                   : w->windows[which - TESTBED_REGIONS].stag;
    if (which < TESTBED_REGIONS && !stag) /* no remote right: try the local key */
        stag = w->regions[which].keys.lkey;
    switch (variant % 8) {
    case 1: return stag + 1; /* another key, or another index */
    case 2: return stag ^ 0x80;
    case 3: return stag ^ 0x100;
    case 4: return 0;
    case 5: return UINT32_MAX;
    case 6: return w->fast_stag ? w->fast_stag : stag;
    default: return stag;
    }
}

uint64_t testbed_base(const struct testbed *w, uint8_t which, uint32_t *length)
{
    which %= TESTBED_REGIONS + TESTBED_WINDOWS;
    which = which < TESTBED_REGIONS ? which : REGION_BIND;
    *length = w->regions[which].length;
    return w->regions[which].base;
}

bool testbed_allows(const struct testbed *w, uint32_t stag, uint64_t to, uint64_t length,
                    uint32_t access, uint8_t **memory)
{
    *memory = NULL;
    for (int i = 0; i < TESTBED_REGIONS; i++) {
        const struct region *region = &w->regions[i];

        if (!region->mr || region->keys.lkey != stag)
            continue;
        if (region->other || (region->access & access) != access || to < region->base ||
            to - region->base > region->length || length > region->length - (to - region->base))
            return false;
        *memory = region->memory + (to - region->base);
        return true;
    }
    for (uint32_t i = 0; i < TESTBED_WINDOWS; i++)
        if (w->windows[i].mw && stag && w->windows[i].stag >> 8 == stag >> 8)
            return true; /* windows are bound and unbound while requests are in progress */
    return w->fast_stag && w->fast_stag >> 8 == stag >> 8; /* so is the fast registration */
}

/* ---- work ---- */

static void remember(struct work_queue *queue, uint64_t cookie, uint16_t opcode, bool signaled,
                     const struct ri_sge *sges, uint32_t count)
{
    struct work *work = &queue->work[queue->in++ % TESTBED_WORK];

    *work = (struct work){ .cookie = cookie, .opcode = opcode, .signaled = signaled };
    work->num_sge = count;
    for (uint32_t i = 0; i < count; i++) {
        work->sges[i] = sges[i];
        work->length += sges[i].length;
    }
}

static bool room(const struct work_queue *queue, uint32_t count)
{
    return queue->in - queue->out < TESTBED_WORK && count <= 4;
}

bool testbed_post(struct testbed *w, uint32_t which, struct ri_send_wr *wr)
{
    struct live_qp *live = &w->qps[which];
    struct ri_send_wr *bad = NULL;
    enum ri_status status;

    if (!live->qp || !room(&live->sends, wr->num_sge))
        return false;
    wr->cookie = ++w->next_cookie;
    status = testbed_user()->post_send(live->qp, wr, &bad);
    FUZZ_CHECK(bad == (status == RI_OK ? NULL : wr));
    if (status == RI_OK)
        remember(&live->sends, wr->cookie, wr->opcode, wr->flags & RI_WR_SIGNALED, wr->sg_list,
                 wr->num_sge);
    testbed_run(w);
    return status == RI_OK;
}

void testbed_post_receive(struct testbed *w, uint32_t which, const struct ri_sge *sges,
                          uint32_t count, uint32_t flags)
{
    struct live_qp *live = &w->qps[which];
    struct work_queue *queue = w->srq ? &w->shared : &live->receives;
    struct ri_recv_wr *bad = NULL, wr = {
        .cookie = ++w->next_cookie, .sg_list = sges, .num_sge = count, .flags = flags
    };
    enum ri_status status;

    if ((!live->qp && !w->srq) || !room(queue, count))
        return;
    if (w->srq)
        status = testbed_user()->post_srq_recv(w->srq, &wr, &bad);
    else
        status = testbed_user()->post_recv(live->qp, &wr, &bad);
    FUZZ_CHECK(bad == (status == RI_OK ? NULL : &wr));
    if (status == RI_OK)
        remember(queue, wr.cookie, UINT16_MAX, true, sges, count);
    testbed_run(w);
}

/* ---- completions ---- */

static const int wc_opcodes[] = {
    [RI_WR_SEND] = RI_WC_SEND,
    [RI_WR_SEND_INVALIDATE] = RI_WC_SEND,
    [RI_WR_RDMA_WRITE] = RI_WC_RDMA_WRITE,
    [RI_WR_RDMA_WRITE_IMMEDIATE] = RI_WC_RDMA_WRITE,
    [RI_WR_RDMA_READ] = RI_WC_RDMA_READ,
    [RI_WR_RDMA_READ_INVALIDATE] = RI_WC_RDMA_READ,
    [RI_WR_ATOMIC_FETCH_ADD] = RI_WC_FETCH_ADD,
    [RI_WR_ATOMIC_COMPARE_SWAP] = RI_WC_COMPARE_SWAP,
    [RI_WR_SEND_IMMEDIATE] = RI_WC_SEND,
    [RI_WR_BIND_WINDOW] = RI_WC_BIND_WINDOW,
    [RI_WR_LOCAL_INVALIDATE] = RI_WC_LOCAL_INVALIDATE,
    [RI_WR_FAST_REGISTER] = RI_WC_FAST_REGISTER,
};

static void check_status(struct work_queue *queue, const struct ri_wc *wc)
{
    if (wc->status == RI_WC_SUCCESS || wc->status == RI_WC_FLUSHED)
        return;
    FUZZ_CHECK(!queue->failed); /* one own error for each queue and connection */
    queue->failed = true;
}

static void check_send(struct live_qp *live, const struct ri_wc *wc)
{
    struct work_queue *queue = &live->sends;
    const struct work *work = NULL;

    for (; queue->out != queue->in; queue->out++) {
        work = &queue->work[queue->out % TESTBED_WORK];
        if (work->cookie == wc->cookie)
            break;
        FUZZ_CHECK(!work->signaled); /* skipped: an unsignalled success */
    }
    FUZZ_CHECK(queue->out != queue->in);
    queue->out++;
    FUZZ_CHECK(work->signaled || wc->status != RI_WC_SUCCESS);
    FUZZ_CHECK(wc->opcode == wc_opcodes[work->opcode]);
    if (wc->status != RI_WC_SUCCESS)
        FUZZ_CHECK(!wc->byte_len);
    else if (wc->opcode == RI_WC_SEND || wc->opcode == RI_WC_RDMA_WRITE ||
             wc->opcode == RI_WC_RDMA_READ)
        FUZZ_CHECK(wc->byte_len == work->length || work->opcode == RI_WR_SEND_IMMEDIATE ||
                   work->opcode == RI_WR_RDMA_WRITE_IMMEDIATE);
    check_status(queue, wc);
}

/* Receives of an SRQ complete in any order: the matching one is swapped with the first. */
static void check_receive(struct testbed *w, struct live_qp *live, const struct ri_wc *wc)
{
    struct work_queue *queue = w->srq ? &w->shared : &live->receives;
    struct work *first = &queue->work[queue->out % TESTBED_WORK], found;
    uint32_t at = queue->out;

    while (w->srq && at != queue->in && queue->work[at % TESTBED_WORK].cookie != wc->cookie)
        at++;
    FUZZ_CHECK(at != queue->in && queue->work[at % TESTBED_WORK].cookie == wc->cookie);
    found = queue->work[at % TESTBED_WORK];
    queue->work[at % TESTBED_WORK] = *first;
    queue->out++;
    FUZZ_CHECK(wc->opcode == RI_WC_RECV || wc->opcode == RI_WC_RECV_IMMEDIATE);
    FUZZ_CHECK(wc->byte_len <= found.length || (wc->flags & RI_WC_WITH_IMMEDIATE));
    FUZZ_CHECK(wc->status == RI_WC_SUCCESS || !wc->byte_len);
    if (!w->srq)
        FUZZ_CHECK(!live->receives.failed || wc->status == RI_WC_FLUSHED);
    check_status(&live->receives, wc);
    w->digest = (w->digest ^ wc->cookie ^ (uint64_t)wc->byte_len << 20 ^
                 (uint64_t)wc->status << 52 ^ (uint64_t)wc->flags << 58) *
                0x100000001B3u;
}

void testbed_poll(struct testbed *w, uint32_t count)
{
    struct ri_cq *cqs[2] = { w->send_cq, w->recv_cq };
    struct ri_wc wc[4];
    uint32_t got;

    testbed_look(w); /* while the posted requests are still known */
    for (int i = 0; i < 2; i++) {
        uint32_t left = count;

        while (left && (got = testbed_user()->poll(cqs[i], left < 4 ? left : 4, wc))) {
            FUZZ_CHECK(got <= 4 && got <= left);
            left -= got;
            for (uint32_t k = 0; k < got; k++) {
                struct live_qp *live = wc[k].context;

                FUZZ_CHECK(live >= w->qps && live < w->qps + TESTBED_QPS && live->qp);
                if (wc[k].opcode >= RI_WC_RECV)
                    check_receive(w, live, &wc[k]);
                else
                    check_send(live, &wc[k]);
            }
        }
    }
}

void work_forget(struct testbed *w, uint32_t which)
{
    struct live_qp *live = &w->qps[which];

    testbed_look(w);
    live->sends.out = live->sends.in;
    live->receives.out = live->receives.in;
}

void work_all_done(struct testbed *w, uint32_t which)
{
    const struct live_qp *live = &w->qps[which];

    for (uint32_t i = live->sends.out; i != live->sends.in; i++)
        FUZZ_CHECK(!live->sends.work[i % TESTBED_WORK].signaled);
    FUZZ_CHECK(live->receives.out == live->receives.in);
}
