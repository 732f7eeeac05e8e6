/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection in Full Operation, stateful. The input is five octets of settings and then a program
 * of small steps: segments of the peer, whole or in parts, valid or faulty in some way; posts,
 * polls and modifies of the consumer; events of the socket and the clock. CRC, markers, numbers and
 * STags are generated when the step runs, so that the fuzzer reaches deep states. testbed.h lists
 * the invariants.
 */
#include "tests/fuzz/peer.h"

#include <errno.h>
#include <string.h>

#define STEPS_MAX 200

struct play {
    struct testbed *bed;
    struct reader *reader;
    uint32_t which; /* QP */
    size_t piece;
    struct ri_mr *fast; /* region without memory */
    uint32_t fast_name; /* its STag with key 0 */
};

static const uint8_t preamble[] = "MPA ID Rep Frame of any sort";
static uint8_t fast_pages[2][4096] __attribute__((aligned(4096)));

/* ---- settings ---- */

static struct testbed_start settings(const uint8_t *s)
{
    return (struct testbed_start){
        .initiator = s[0] & 1,
        .crc = !(s[0] & 2),
        .markers_transmit = s[0] & 4,
        .markers_receive = s[0] & 8,
        .rtr_await = s[0] & 16,
        .rtr = (uint8_t)((s[1] & 3) == 3 ? RI_RTR_READ : s[1] & 3),
        .ird = s[3] & 15 ? (s[3] & 15u) - 1 : 8,
        .ord = s[3] >> 4 ? (s[3] >> 4) - 1u : 8,
        .preamble = preamble,
        .preamble_length = s[1] & 0x80 ? sizeof(preamble) : 0,
    };
}

static struct testbed_shape shape(const uint8_t *s)
{
    static const uint32_t emss[] = { 1448, 536, 128, 65535 };
    static const uint32_t cqe[] = { 64, 4, 1, 200 };

    return (struct testbed_shape){
        .srq = s[0] & 32,
        .two = s[0] & 64,
        .shared_cq = s[0] & 128,
        .emss = emss[s[1] >> 2 & 3],
        .cqe = cqe[s[1] >> 4 & 3],
        .depth = s[1] & 64 ? 4 : 32,
        .sge = 4,
        .flags = ~(uint32_t)s[2] & (RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE | RI_QP_ATOMIC_ENABLE |
                                    RI_QP_BIND_ENABLE | RI_QP_INVALIDATE_ENABLE | RI_QP_PRIVILEGED),
        .as_infiniband = s[2] & 128,
        .large = s[4] & 16,
    };
}

/* ---- the consumer ---- */

/* Region of an element; 0x10: another key; 0x20: may extend beyond the end. */
static struct ri_sge element(struct play *play)
{
    uint8_t which = read8(play->reader), offset = read8(play->reader);
    uint32_t length = peer_length(read8(play->reader)), size;
    struct ri_sge sge;

    testbed_base(play->bed, (which & 0xF) % TESTBED_REGIONS, &size);
    if (!(which & 0x20) && length > size)
        length = size;
    sge = testbed_sge(play->bed, which & 0xF, 0, length);
    if (which & 0x20)
        sge.addr += offset;
    else
        sge.addr += length < size ? 4u * offset % (size - length + 1) : 0;
    if (which & 0x10)
        sge.lkey ^= 0x40;
    return sge;
}

static uint32_t elements(struct play *play, uint8_t count, struct ri_sge sges[4])
{
    for (uint8_t i = 0; i < count; i++)
        sges[i] = element(play);
    return count;
}

static void post_receive(struct play *play)
{
    uint8_t how = read8(play->reader);
    struct ri_sge sges[4];
    uint32_t count = elements(play, how & 3, sges);

    testbed_post_receive(play->bed, play->which, sges, count, how & 0x80 ? RI_WR_NOTIFY : 0);
}

static void fill_bind(struct play *play, struct ri_send_wr *wr)
{
    struct testbed *w = play->bed;
    uint8_t which = read8(play->reader) % TESTBED_WINDOWS, how = read8(play->reader);
    struct region *region = &w->regions[how & 0x80 ? REGION_BOTH : REGION_BIND];

    wr->bind.mw = w->windows[which].mw;
    wr->bind.mr = region->mr;
    wr->bind.addr = region->base + read8(play->reader);
    wr->bind.length = peer_length(read8(play->reader));
    wr->bind.access = (how & 1 ? RI_ACCESS_REMOTE_READ : 0u) |
                      (how & 2 ? RI_ACCESS_REMOTE_WRITE : 0u) |
                      (how & 4 ? RI_ACCESS_REMOTE_ATOMIC : 0u);
    wr->bind.new_key = how >> 4 & 3;
    wr->bind.zero_based = how & 8;
}

static void fill_fast_register(struct play *play, struct ri_send_wr *wr)
{
    static uint64_t pages[2];
    uint8_t how = read8(play->reader);

    pages[0] = (uintptr_t)fast_pages[0];
    pages[1] = (uintptr_t)fast_pages[1];
    wr->fast_register.mr = play->fast;
    wr->fast_register.pages = pages;
    wr->fast_register.num_pages = how & 3;
    wr->fast_register.page_size = how & 4 ? 4096 : sizeof(fast_pages);
    wr->fast_register.length = 32u * read8(play->reader);
    wr->fast_register.first_offset = how & 8 ? 100 : 0;
    wr->fast_register.io_addr = how & 16 ? 0 : (uintptr_t)fast_pages;
    wr->fast_register.access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                               (how & 32 ? RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE : 0u);
    wr->fast_register.new_key = how >> 6;
}

static void bound(struct testbed *w, const struct ri_send_wr *wr)
{
    for (uint32_t i = 0; i < TESTBED_WINDOWS; i++) {
        if (w->windows[i].mw != wr->bind.mw)
            continue;
        w->windows[i].stag = (w->windows[i].stag & ~0xFFu) | (wr->bind.new_key & 0xFF);
        w->windows[i].writable |= wr->bind.access &
                                  (RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC);
    }
}

static void fill_rdma(struct play *play, struct ri_send_wr *wr)
{
    wr->rdma.remote_addr = read16(play->reader);
    wr->rdma.rkey = 0x77000000u | read8(play->reader);
}

static void fill_atomic(struct play *play, struct ri_send_wr *wr, struct ri_sge *sges)
{
    wr->atomic.remote_addr = read16(play->reader);
    wr->atomic.swap_or_add = read8(play->reader);
    wr->atomic.compare = read8(play->reader);
    wr->atomic.rkey = 0x77000000u;
    if (wr->num_sge && !(wr->flags & RI_WR_NOTIFY))
        sges[0].length = 8;
}

static void post_send(struct play *play)
{
    struct testbed *w = play->bed;
    uint8_t what = read8(play->reader), flags = read8(play->reader), inv;
    struct ri_sge sges[4];
    struct ri_send_wr wr = { .sg_list = sges,
                             .opcode = (what & 0xF) % (RI_WR_FAST_REGISTER + 2),
                             .flags = (uint16_t)(flags ^ RI_WR_SIGNALED),
                             .immediate = what };

    if (wr.opcode <= RI_WR_SEND_IMMEDIATE)
        wr.num_sge = elements(play, what >> 4 & 3, sges);
    switch (wr.opcode) {
    case RI_WR_RDMA_WRITE:
    case RI_WR_RDMA_WRITE_IMMEDIATE:
    case RI_WR_RDMA_READ:
    case RI_WR_RDMA_READ_INVALIDATE: fill_rdma(play, &wr); break;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP: fill_atomic(play, &wr, sges); break;
    case RI_WR_BIND_WINDOW: fill_bind(play, &wr); break;
    case RI_WR_FAST_REGISTER: fill_fast_register(play, &wr); break;
    default: break;
    }
    if (wr.opcode == RI_WR_SEND_INVALIDATE || wr.opcode == RI_WR_LOCAL_INVALIDATE) {
        inv = read8(play->reader);
        wr.invalidate_stag = testbed_stag(w, inv & 0xF, inv >> 4);
    }
    if ((wr.opcode == RI_WR_BIND_WINDOW && (!wr.bind.mw || !wr.bind.mr)) ||
        (wr.opcode == RI_WR_FAST_REGISTER && !play->fast))
        return;
    if (!testbed_post(w, play->which, &wr))
        return;
    if (wr.opcode == RI_WR_BIND_WINDOW)
        bound(w, &wr);
    if (wr.opcode == RI_WR_FAST_REGISTER)
        w->fast_stag = play->fast_name | (wr.fast_register.new_key & 0xFF);
}

/* States; with the high bit set: depths, sizes and enables. */
static void modify(struct play *play)
{
    static const enum ri_qp_state states[] = { RI_QPS_CLOSING, RI_QPS_TERMINATE, RI_QPS_ERROR,
                                               RI_QPS_IDLE };
    struct live_qp *live = &play->bed->qps[play->which];
    uint8_t how = read8(play->reader);
    struct ri_qp_modify change = { .size = sizeof(change),
                                   .mask = how & 0x7E,
                                   .ird = how & 7,
                                   .ord = how & 15,
                                   .flags = play->bed->shape.flags,
                                   .max_send_wr = how & 31,
                                   .max_recv_wr = how & 31,
                                   .rq_limit = how & 3 };

    if (!(how & 0x80))
        testbed_modify(play->bed, play->which, states[how & 3]);
    else if (live->qp)
        core_qp_modify(live->qp, &change);
}

static void restart(struct play *play)
{
    struct testbed *w = play->bed;
    struct testbed_start start;
    uint8_t s[4];

    for (int i = 0; i < 4; i++)
        s[i] = read8(play->reader);
    start = settings(s);
    if (s[2] & 0x80) {
        start.refuse = 0x2006;
        start.preamble_length = 0;
    }
    testbed_poll(w, UINT32_MAX);
    if (s[2] & 0x40) {
        testbed_modify(w, play->which, RI_QPS_ERROR);
        testbed_poll(w, UINT32_MAX);
        testbed_modify(w, play->which, RI_QPS_IDLE);
        testbed_poll(w, UINT32_MAX);
    }
    testbed_start(w, play->which, &start);
}

static void ask_srq(struct play *play, uint8_t how)
{
    struct testbed *w = play->bed;
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = how & 31, .limit = how & 3 };

    if (!w->srq)
        return;
    w->pd->ops->srq_modify(w->srq, how >> 5 & 3, &attr);
    FUZZ_CHECK(w->pd->ops->srq_query(w->srq, &attr) == RI_OK);
    testbed_run(w);
}

static void ask(struct play *play)
{
    struct live_qp *live = &play->bed->qps[play->which];
    uint64_t values[8];
    const char *names[8];
    uint32_t total, notable;
    size_t count = 8;
    uint8_t how = read8(play->reader);
    struct ri_cq *cq = how & 0x80 ? play->bed->send_cq : play->bed->recv_cq;

    if (how & 0x40)
        ask_srq(play, read8(play->reader));
    cq->ops->arm(cq, (enum ri_arm)(how & 3), how >> 2 & 7);
    FUZZ_CHECK(cq->ops->cq_peek(cq, &total, &notable) == RI_OK && notable <= total);
    if (live->qp)
        core_qp_counters(live->qp, names, values, &count);
}

/* ---- the peer, the socket ---- */

static void raw(struct play *play, struct fuzz_wire *wire)
{
    uint8_t octets[256];
    size_t length = read8(play->reader);

    for (size_t i = 0; i < length; i++)
        octets[i] = read8(play->reader);
    if (!length)
        return;
    wire->raw = true; /* the oracle cannot follow the stream any more */
    testbed_deliver(play->bed, wire, octets, length, play->piece);
}

static void end_input(struct play *play, struct fuzz_wire *wire)
{
    uint8_t how = read8(play->reader);

    if (how & 1)
        wire->reset = true;
    else
        wire->fin = true;
    testbed_run(play->bed);
}

static void socket_room(struct play *play, struct fuzz_wire *wire)
{
    uint8_t how = read8(play->reader);

    wire->credit = how == 0xFF ? UINT64_MAX : how >= 0x80 ? wire->credit + how : how;
    testbed_run(play->bed);
}

static void socket_error(struct play *play, struct fuzz_wire *wire)
{
    static const int errors[] = { EPIPE, ECONNRESET, ETIMEDOUT, ENOBUFS };

    wire->send_error = errors[read8(play->reader) & 3];
    testbed_run(play->bed);
}

/* The end of what the peer sends next comes with what it sends after it, or now. */
static void lateness(struct play *play, struct fuzz_wire *wire)
{
    wire->late = 97u * read8(play->reader);
    if (!wire->late)
        peer_send_late(play->bed, wire);
}

static void step_of_wire(struct play *play, uint8_t step, struct fuzz_wire *wire)
{
    if (step == 14 && play->bed->shape.large) {
        lateness(play, wire);
        return;
    }
    switch (step) {
    case 8:
    case 9: peer_answer(play->bed, wire, play->reader, play->piece); break;
    case 10: raw(play, wire); break;
    case 11: end_input(play, wire); break;
    case 12: socket_room(play, wire); break;
    case 13: socket_error(play, wire); break;
    default: peer_segment(play->bed, wire, play->reader, play->piece); break;
    }
}

static void step_of_consumer(struct play *play, uint8_t step)
{
    struct testbed *w = play->bed;

    switch (step) {
    case 16:
    case 17: post_receive(play); break;
    case 18:
    case 19:
    case 20: post_send(play); break;
    case 21: testbed_poll(w, read8(play->reader)); break;
    case 22: testbed_poll(w, UINT32_MAX); break;
    case 23: modify(play); break;
    case 24: restart(play); break;
    case 25: ask(play); break;
    case 26:
        testbed_deregister(w, (enum testbed_region)(read8(play->reader) % TESTBED_REGIONS));
        break;
    case 27:
        testbed_register(w, (enum testbed_region)(read8(play->reader) % TESTBED_REGIONS));
        break;
    case 28: play->which = read8(play->reader) % TESTBED_QPS; break;
    case 29: play->piece = read8(play->reader); break;
    case 30: testbed_expire(w); break;
    default:
        if (w->qps[play->which].qp)
            testbed_destroy_qp(w, play->which);
        else
            testbed_create_qp(w, play->which);
    }
}

static void run(struct play *play)
{
    for (int i = 0; i < STEPS_MAX && play->reader->left; i++) {
        uint8_t step = read8(play->reader) & 31;
        struct live_qp *live = &play->bed->qps[play->which];

        if (step >= 16)
            step_of_consumer(play, step);
        else if (live->wire)
            step_of_wire(play, step, live->wire);
    }
}

/* ---- the whole ---- */

static void first_receives(struct testbed *w, uint8_t how)
{
    for (uint32_t i = 0; i < (how & 7u); i++) {
        struct ri_sge sge = testbed_sge(w, REGION_LOCAL, 1024 + 300 * i, how & 8 ? 300 : 64);

        if (w->shape.large)
            sge = testbed_sge(w, REGION_LOCAL, 200 * i, 21000);
        testbed_post_receive(w, 0, &sge, 1, 0);
    }
}

static void open_fast(struct play *play)
{
    const struct ri_mr_attr attr = { .size = sizeof(attr),
                                     .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                               RI_ACCESS_REMOTE_WRITE,
                                     .length = sizeof(fast_pages),
                                     .pages = 2 };
    struct ri_pd *pd = play->bed->pd;
    struct ri_mr_keys keys;

    if (play->bed->attr.features & RI_FEATURE_FAST_REGISTER)
        FUZZ_CHECK(pd->ops->mr_register(pd, &attr, &keys, &play->fast) == RI_OK);
    play->fast_name = play->fast ? keys.lkey & ~UINT32_C(0xFF) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = { data + 5, size - 5 };
    struct play play = { .reader = &reader };
    struct testbed_start start;
    struct testbed_shape form;

    if (size < 5)
        return 0;
    peer_begin();
    form = shape(data);
    start = settings(data);
    play.bed = testbed_open(&form);
    open_fast(&play);
    first_receives(play.bed, data[4]);
    testbed_start(play.bed, 0, &start);
    if (form.two)
        testbed_start(play.bed, 1, &start);
    run(&play);
    if (play.fast) {
        testbed_modify(play.bed, 0, RI_QPS_ERROR);
        testbed_modify(play.bed, 1, RI_QPS_ERROR);
        FUZZ_CHECK(play.fast->ops->mr_deregister(play.fast) == RI_OK);
    }
    testbed_close(play.bed);
    return 0;
}
