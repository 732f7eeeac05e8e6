/* SPDX-License-Identifier: BSD-3-Clause */
/* A test bed in memory around the provider: lane, objects, connections. Host and lower layer:
 * testbed_host.c; oracle: oracle.c. */
#include "tests/fuzz/testbed_private.h"

#include "base/entropy.h"
#include "iwarp_over.h"

#include <string.h>

#define ROUNDS_MAX 4096u /* passes of the lane until it is idle: more is an endless loop */
#define OCTETS_MAX \
    (8u * 1024u * 1024u) /* of memory that a test bed may use: two QPs with everything */

static struct ri_privileged_ops privileged;
static struct ri_user_ops user;
static struct ri_rnic *rnic; /* open from the first test bed to the end of the program */
static struct ri_lane *lane;

/* ---- the lane ---- */

void testbed_run(struct testbed *w)
{
    for (uint32_t round = 0;; round++) {
        uint64_t deadline;
        bool reported = false;
        uint32_t pieces;

        FUZZ_CHECK(round < ROUNDS_MAX);
        for (uint32_t i = 0; i < w->wire_count; i++)
            reported |= wire_report(&w->wires[i]);
        pieces = user.progress(lane, round & 1 ? w->recv_cq : NULL, 256, &deadline);
        if (!pieces && !reported && user.lane_arm(lane))
            break;
    }
    testbed_look(w);
}

static void deliver(struct testbed *w, struct fuzz_wire *wire, const uint8_t *octets, size_t length,
                    size_t piece)
{
    if (wire->fin || wire->reset || wire->closed || length > TESTBED_INPUT - wire->input_length)
        return;
    if (!piece || length / piece > 256)
        piece = length;
    while (length) {
        size_t part = length < piece ? length : piece;

        memcpy(wire->input + wire->input_length, octets, part);
        wire->input_length += part;
        octets += part;
        length -= part;
        testbed_run(w);
    }
}

void testbed_deliver_late(struct testbed *w, struct fuzz_wire *wire)
{
    size_t length = wire->late_length;

    wire->late_length = 0;
    if (length)
        deliver(w, wire, wire->late_octets, length, 0);
}

bool testbed_is_late(const struct testbed *w)
{
    for (uint32_t i = 0; i < w->wire_count; i++)
        if (w->wires[i].late_length && !w->wires[i].closed)
            return true;
    return false;
}

void testbed_deliver(struct testbed *w, struct fuzz_wire *wire, const uint8_t *octets,
                     size_t length, size_t piece)
{
    size_t late = wire->late < length ? wire->late : length;

    late = late < TESTBED_LATE ? late : TESTBED_LATE;
    testbed_deliver_late(w, wire);
    memcpy(wire->late_octets, octets + length - late, late);
    wire->late_length = late;
    wire->late = 0;
    deliver(w, wire, octets, length - late, piece);
}

void testbed_expire(struct testbed *w)
{
    host_expire();
    testbed_run(w);
}

/* ---- objects ---- */

#define MUST(call) FUZZ_CHECK((call) == RI_OK)

const struct ri_user_ops *testbed_user(void)
{
    return &user;
}

static void open_rnic(void)
{
    struct ri_open open = {
        .size = sizeof(open), .host = &the_host.host, .privileged = &privileged, .user = &user
    };

    host_open();
    ri_complete_privileged_ops(&privileged, rnicpi_provider_v1.privileged);
    ri_complete_user_ops(&user, rnicpi_provider_v1.user);
    MUST(privileged.open(&open, &rnic));
    MUST(privileged.lane_open(rnic, 0, &the_host.events, &lane));
}

/* Clears the record of allocated STags, so that each input gets the same indices and keys. */
static void forget_stags(void)
{
    struct stag_table *table = &container_of(rnic, struct rnic, base)->stags;
    struct stag_entry *first = atomic_load(&table->chunks[0]);

    FUZZ_CHECK(!table->count && table->used < STAG_CHUNK_ENTRIES - 1);
    if (first)
        memset(first, 0, (table->used + 1) * sizeof(*first));
    table->oldest = table->youngest = table->aged = table->reserved = table->used = 0;
    entropy_forget(table->chance);
}

static struct ri_cq *new_cq(uint32_t depth, void *context)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = context };
    struct ri_cq *cq;

    MUST(privileged.cq_create(rnic, &attr, &cq));
    return cq;
}

#define RNR_RETRIES 3u

static void agree_as_infiniband(struct ri_qp *qp)
{
    struct ri_qp_modify terms = { .size = sizeof(terms),
                                  .mask = RI_QPM_RNR | RI_QPM_IMMEDIATE,
                                  .rnr_retry = RNR_RETRIES,
                                  .fused_immediate = true };

    MUST(privileged.qp_modify(qp, &terms));
}

bool testbed_create_qp(struct testbed *w, uint32_t which)
{
    struct live_qp *live = &w->qps[which];
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = live,
                               .send_cq = w->send_cq,
                               .recv_cq = w->recv_cq,
                               .srq = w->srq,
                               .lane = lane,
                               .max_send_wr = w->shape.depth,
                               .max_recv_wr = w->shape.depth,
                               .max_send_sge = w->shape.sge,
                               .max_recv_sge = w->shape.sge,
                               .max_read_sge = 1,
                               .max_write_sge = w->shape.sge,
                               .ird = w->attr.max_ird < 8 ? w->attr.max_ird : 8,
                               .ord = w->attr.max_ord < 8 ? w->attr.max_ord : 8,
                               .flags = w->shape.flags };

    if (live->qp)
        return true;
    memset(&live->sends, 0, offsetof(struct work_queue, work[0]));
    live->sends.in = live->sends.out = live->receives.in = live->receives.out = 0;
    live->sends.failed = live->receives.failed = live->started = false;
    live->wire = NULL;
    if (privileged.qp_create(w->pd, &attr, &live->qp) != RI_OK) {
        attr.flags &= RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE;
        MUST(privileged.qp_create(w->pd, &attr, &live->qp));
    }
    if (w->shape.as_infiniband && w->attr.features & RI_FEATURE_RNR)
        agree_as_infiniband(live->qp);
    return true;
}

static void allocate_windows(struct testbed *w)
{
    for (uint32_t i = 0; i < TESTBED_WINDOWS; i++) {
        struct window *window = &w->windows[i];

        if (privileged.mw_allocate(w->pd, i < 2, window, &window->stag, &window->mw) != RI_OK)
            window->mw = NULL;
    }
}

static void create_srq(struct testbed *w)
{
    struct ri_srq_attr attr = { .size = sizeof(attr),
                                .max_wr = w->shape.depth,
                                .max_sge = w->shape.sge,
                                .limit = 1,
                                .context = w };

    if (w->shape.srq && privileged.srq_create(w->pd, &attr, &w->srq) != RI_OK)
        w->srq = NULL;
}

struct testbed *testbed_open(const struct testbed_shape *shape)
{
    struct testbed *w = &the_bed;

    host_begin();
    if (!rnic)
        open_rnic();
    memset(w, 0, sizeof(*w));
    w->memory_before = memory_in_use();
    forget_stags();
    w->wires = the_wires;
    w->shape = *shape;
    w->attr.size = sizeof(w->attr);
    MUST(privileged.query(rnic, &w->attr));
    MUST(privileged.pd_create(rnic, w, &w->pd));
    MUST(privileged.pd_create(rnic, w, &w->other_pd));
    w->send_cq = new_cq(shape->cqe, &w->send_cq);
    w->recv_cq = shape->shared_cq ? w->send_cq : new_cq(shape->cqe, &w->recv_cq);
    create_srq(w);
    memory_fill(w);
    for (int i = 0; i < TESTBED_REGIONS; i++)
        testbed_register(w, (enum testbed_region)i);
    testbed_deregister(w, REGION_FREED);
    allocate_windows(w);
    for (uint32_t i = 0; i < (shape->two ? TESTBED_QPS : 1); i++)
        testbed_create_qp(w, i);
    return w;
}

/* ---- regions ---- */

void testbed_register(struct testbed *w, enum testbed_region which)
{
    struct region *region = &w->regions[which];
    bool late = testbed_is_late(w);
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = region->access,
                               .context = region,
                               .addr = region->memory,
                               .length = region->length };

    for (uint32_t i = 0; late && i < w->wire_count; i++)
        w->wires[i].raw = true; /* what is late may name the new keys */
    if (region->mr) {           /* re-registration: other keys */
        privileged.mr_reregister(region->mr, NULL, &attr, &region->keys);
        return;
    }
    if (privileged.mr_register(region->other ? w->other_pd : w->pd, &attr, &region->keys,
                               &region->mr) != RI_OK) {
        attr.access &= ~(uint32_t)(RI_ACCESS_BIND | RI_ACCESS_REMOTE_ATOMIC);
        MUST(privileged.mr_register(region->other ? w->other_pd : w->pd, &attr, &region->keys,
                                    &region->mr));
    }
    memory_mark(region, !region->other);
}

void testbed_deregister(struct testbed *w, enum testbed_region which)
{
    struct region *region = &w->regions[which];

    if (!region->mr || privileged.mr_deregister(region->mr) != RI_OK)
        return; /* windows are bound */
    region->mr = NULL;
    testbed_look(w);
    memory_mark(region, false);
}

/* ---- connections ---- */

/* A segment of a Read Response leaves: it must belong to the peer's oldest Read, and be allowed. */
static void on_response(void *arg, uint32_t stag, uint64_t to, uint32_t length, bool last)
{
    struct fuzz_wire *wire = arg;
    struct wanted *wanted = &wire->wanted[wire->wanted_out % TESTBED_WANTED];

    if (wire->raw)
        return;
    FUZZ_CHECK(wire->wanted_in != wire->wanted_out && wanted->allowed);
    FUZZ_CHECK(length <= wanted->size && stag == wanted->sink_stag && to == wanted->sink_to);
    wanted->sink_to += length;
    wanted->size -= length;
    FUZZ_CHECK(last == !wanted->size);
    wire->wanted_out += last;
}

/* Memory of a Send or Write may not change while it is sent; a peer may change it nevertheless. */
static bool source_changed(void *arg)
{
    struct fuzz_wire *wire = arg;

    testbed_look(wire->bed);
    return wire->source_changed;
}

static void reset_wire(struct testbed *w, struct fuzz_wire *wire, const struct testbed_start *start)
{
    wire->bed = w;
    wire->used = true;
    wire->closed = wire->finished = false;
    wire->input_length = wire->input_taken = 0;
    wire->fin = wire->reset = wire->raw = wire->source_changed = false;
    wire->late = wire->late_length = 0;
    wire->credit = UINT64_MAX;
    wire->send_error = 0;
    wire->emss = w->shape.emss;
    wire->crc = start->crc;
    wire->markers = start->markers_receive;
    wire->position = 0;
    wire->send_msn = wire->request_msn = wire->response_msn = 1;
    wire->send_offset = 0;
    wire->tagged_to = 0;
    wire->send_open = false;
    wire->ended = wire->established = 0;
    wire->wanted_in = wire->wanted_out = 0;
    checker_init(&wire->checker, start->crc, start->markers_transmit, start->preamble_length);
    wire->checker.fused = w->shape.as_infiniband;
    wire->checker.on_response = on_response;
    wire->checker.source_changed = source_changed;
    wire->checker.arg = wire;
}

/* Clears the queues; requests posted in IDLE belong to the new connection. */
static enum ri_status start_on(struct testbed *w, uint32_t which, const struct testbed_start *start)
{
    struct live_qp *live = &w->qps[which];
    struct fuzz_wire *wire = &w->wires[w->wire_count], *before = live->wire;
    const struct ri_llp_handover handover = {
        .size = sizeof(handover),
        .fd = (int)w->wire_count,
        .initiator = start->initiator,
        .mpa_revision = 2,
        .crc = start->crc,
        .markers_transmit = start->markers_transmit,
        .markers_receive = start->markers_receive,
        .rtr_send = start->initiator ? start->rtr : RI_RTR_NONE,
        .rtr_await = !start->initiator && start->rtr_await,
        .refuse_code = start->refuse,
        .ird = start->ird,
        .ord = start->ord,
        .bytes_read = start->read_length ? start->read : NULL,
        .bytes_read_length = start->read_length,
        .last_message = start->preamble_length ? start->preamble : NULL,
        .last_message_length = start->preamble_length,
    };
    enum ri_status status;

    reset_wire(w, wire, start);
    wire->raw = start->read_length != 0;
    live->wire = wire;
    w->wire_count++;
    status = iwarp_over(container_of(live->qp, struct iwarp_qp, core.base), &handover,
                        &testbed_llp);
    if (status != RI_OK) {
        FUZZ_CHECK(!wire_is_watched(wire) && !wire->closed && !wire->checker.octets);
        wire->used = false;
        w->wire_count--;
        live->wire = before;
    }
    return status;
}

enum ri_status testbed_start(struct testbed *w, uint32_t which, const struct testbed_start *start)
{
    struct live_qp *live = &w->qps[which];
    enum ri_status status;

    if (!live->qp || w->wire_count == TESTBED_WIRES)
        return RI_ERR_LIMIT;
    status = start_on(w, which, start);
    if (status == RI_ERR_NOT_SUPPORTED) { /* a provider without markers */
        struct testbed_start plain = *start;

        plain.markers_transmit = plain.markers_receive = false;
        status = start_on(w, which, &plain);
    }
    if (status != RI_OK)
        return status;
    live->sends.failed = live->receives.failed = false;
    live->started = true;
    testbed_run(w);
    return RI_OK;
}

enum ri_qp_state testbed_state(struct testbed *w, uint32_t which)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    if (!w->qps[which].qp)
        return RI_QPS_IDLE;
    MUST(privileged.qp_query(w->qps[which].qp, &info));
    FUZZ_CHECK(info.terminate_length <= sizeof(info.terminate));
    return info.state;
}

/* After a modify the QP must be in the requested state or on its way there. */
void testbed_modify(struct testbed *w, uint32_t which, enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };
    struct live_qp *live = &w->qps[which];
    enum ri_status status;

    if (!live->qp || state == RI_QPS_RTS)
        return;
    status = privileged.qp_modify(live->qp, &modify);
    if (status == RI_OK && state == RI_QPS_IDLE)
        FUZZ_CHECK(testbed_state(w, which) == RI_QPS_IDLE);
    if (state == RI_QPS_ERROR)
        FUZZ_CHECK(status == RI_OK);
    testbed_run(w);
}

void testbed_destroy_qp(struct testbed *w, uint32_t which)
{
    struct live_qp *live = &w->qps[which];
    struct ri_qp *qp = live->qp;

    if (!qp)
        return;
    live->qp = NULL; /* no more events about it */
    MUST(privileged.qp_destroy(qp));
    work_forget(w, which);
    testbed_run(w);
}

/* ---- the end ---- */

static void end_qp(struct testbed *w, uint32_t which)
{
    struct live_qp *live = &w->qps[which];

    if (!live->qp)
        return;
    testbed_modify(w, which, RI_QPS_ERROR);
    testbed_poll(w, UINT32_MAX);
    testbed_run(w);
    testbed_poll(w, UINT32_MAX);
    FUZZ_CHECK(testbed_state(w, which) == RI_QPS_ERROR);
    if (live->started && live->wire)
        FUZZ_CHECK(live->wire->ended == 1 || live->wire->checker.terminate);
    work_all_done(w, which);
    testbed_destroy_qp(w, which);
}

static void close_windows(struct testbed *w)
{
    for (uint32_t i = 0; i < TESTBED_WINDOWS; i++)
        if (w->windows[i].mw)
            MUST(privileged.mw_free(w->windows[i].mw));
}

/* The timers end all connections that are still closing. */
static void end_wires(struct testbed *w)
{
    uint64_t deadline;

    for (int i = 0; i < 2; i++)
        testbed_expire(w);
    (void)user.progress(lane, NULL, 256, &deadline); /* runs the deferred frees */
    FUZZ_CHECK(!fake_lane_timers(&the_host.events));
    for (uint32_t i = 0; i < w->wire_count; i++)
        FUZZ_CHECK(w->wires[i].closed && !wire_is_watched(&w->wires[i]));
}

static void nothing_left(void)
{
    const char *names[8];
    uint64_t values[8];
    size_t count = 8;

    MUST(privileged.rnic_counters(rnic, names, values, &count));
    for (size_t i = 0; i < count && i < 8; i++)
        FUZZ_CHECK(values[i] == 0);
}

void testbed_close(struct testbed *w)
{
    FUZZ_CHECK(memory_in_use() < w->memory_before + OCTETS_MAX);
    for (uint32_t i = 0; i < TESTBED_QPS; i++)
        end_qp(w, i);
    end_wires(w);
    close_windows(w);
    for (int i = 0; i < TESTBED_REGIONS; i++)
        testbed_deregister(w, (enum testbed_region)i);
    if (w->srq)
        MUST(privileged.srq_destroy(w->srq));
    MUST(privileged.cq_destroy(w->send_cq));
    if (w->recv_cq != w->send_cq)
        MUST(privileged.cq_destroy(w->recv_cq));
    MUST(privileged.pd_destroy(w->pd));
    MUST(privileged.pd_destroy(w->other_pd));
    nothing_left();
}
