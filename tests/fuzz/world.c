/* SPDX-License-Identifier: BSD-3-Clause */
/* A world of memory around the provider: host, lower layer, objects. The oracle about work and memory: world_work.c. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "tests/fuzz/world_private.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define TIMERS     32u
#define ROUNDS_MAX 4096u /* of the lane until it rests: more is a lane that never does */
#define OCTETS_MAX \
    (8u * 1024u * 1024u) /* of memory that a world may use: two QPs with everything */

extern const struct ri_provider rnicpi_provider_v1;

static struct ri_privileged_ops privileged;
static struct ri_user_ops user;
static struct ri_rnic *rnic; /* open from the first world to the end of the program */
static struct ri_lane *lane;
static struct world world;
static struct wire wires[WORLD_WIRES];
static struct ri_timer *timers[TIMERS];
static uint32_t timer_count;

/* ---- chance: the same for each input ---- */

static uint64_t chance;

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
    uint8_t *out = buffer;

    (void)flags;
    for (size_t i = 0; i < length; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(chance >> 56);
    }
    return (ssize_t)length;
}

/* Worlds are many and short: what they free is not kept for long. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}

/* ---- host ---- */

static const char *host_option(const struct ri_host *host, const char *name)
{
    (void)host;
    for (uint32_t i = 0; i < rnicpi_provider_v1.option_count; i++)
        if (!strcmp(rnicpi_provider_v1.options[i].name, name))
            return rnicpi_provider_v1.options[i].value;
    return NULL;
}

/* Nobody reads it, but a format that does not fit its arguments shows. */
static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    char line[512];

    (void)host, (void)level;
    vsnprintf(line, sizeof(line), format, args);
}

struct ri_watch {
    struct wire *wire;
};
static struct ri_watch watches[WORLD_WIRES];

static enum ri_status host_watch(const struct ri_host *host, void *context, int fd, uint32_t events,
                                 ri_ready_fn ready, void *arg, struct ri_watch **watch)
{
    struct wire *wire = &wires[fd];

    (void)host, (void)context;
    FUZZ_CHECK(fd >= 0 && fd < (int)WORLD_WIRES && !wire->is_watched && !wire->closed);
    wire->ready = ready;
    wire->arg = arg;
    wire->watched = events;
    wire->is_watched = true;
    watches[fd].wire = wire;
    *watch = &watches[fd];
    return RI_OK;
}

static enum ri_status host_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    (void)host;
    FUZZ_CHECK(watch->wire->is_watched && !watch->wire->closed);
    watch->wire->watched = events;
    return RI_OK;
}

static void host_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    (void)host;
    FUZZ_CHECK(watch->wire->is_watched && !watch->wire->closed);
    watch->wire->is_watched = false;
}

static void host_timer_cancel(const struct ri_host *host, void *context, struct ri_timer *timer)
{
    (void)host, (void)context;
    for (uint32_t i = 0; i < timer_count; i++)
        if (timers[i] == timer)
            timers[i--] = timers[--timer_count];
}

static void host_timer_set(const struct ri_host *host, void *context, struct ri_timer *timer)
{
    host_timer_cancel(host, context, timer);
    FUZZ_CHECK(timer_count < TIMERS);
    timers[timer_count++] = timer;
}

static void host_wake(const struct ri_host *host, void *context)
{
    (void)host, (void)context;
}

static void host_cq_event(const struct ri_host *host, void *context)
{
    (void)host, (void)context;
    world.cq_events++;
}

static void host_cq_error(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context;
    FUZZ_CHECK(event->type == RI_EVENT_CQ_OVERFLOW);
    world.cq_errors++;
}

static void host_srq_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context, (void)event;
    world.srq_events++;
}

/* One end for each connection, and it is told to be the QP's. */
static void host_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct live_qp *live = context;

    (void)host;
    FUZZ_CHECK(live >= world.qps && live < world.qps + WORLD_QPS && live->qp && live->wire);
    if (event->detail)
        FUZZ_CHECK(strlen(event->detail) < 400);
    if (event->type == RI_EVENT_ESTABLISHED) {
        FUZZ_CHECK(!live->wire->established++ && !live->wire->ended);
    } else if (event->type < RI_EVENT_QP_FATAL || event->type == RI_EVENT_QP_OVERFLOW) {
        FUZZ_CHECK(!live->wire->ended++);
    }
    world.digest = (world.digest ^ (uint64_t)event->type ^ (uint64_t)event->terminate_code << 16) *
                   0x100000001B3u;
}

static const struct ri_host host = {
    .size = sizeof(host),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .option = host_option,
    .log = host_log,
    .watch = host_watch,
    .rewatch = host_rewatch,
    .unwatch = host_unwatch,
    .timer_set = host_timer_set,
    .timer_cancel = host_timer_cancel,
    .wake = host_wake,
    .cq_event = host_cq_event,
    .qp_event = host_qp_event,
    .cq_error = host_cq_error,
    .srq_event = host_srq_event,
};

/* ---- the lower layer ---- */

static struct wire *wire_of(const struct stream *stream)
{
    FUZZ_CHECK(stream->fd >= 0 && stream->fd < (int)WORLD_WIRES && !wires[stream->fd].closed);
    return &wires[stream->fd];
}

static ssize_t wire_send(struct stream *stream, const struct iovec *iov, int count)
{
    struct wire *wire = wire_of(stream);
    uint64_t taken = 0;

    FUZZ_CHECK(count > 0 && count <= (int)TX_IOV);
    if (wire->reset || wire->finished)
        return wire->reset ? -ECONNRESET : -EPIPE;
    if (wire->send_error)
        return -wire->send_error;
    for (int i = 0; i < count && wire->credit; i++) {
        size_t part = iov[i].iov_len < wire->credit ? iov[i].iov_len : (size_t)wire->credit;

        FUZZ_CHECK(iov[i].iov_len);
        judge_octets(&wire->judge, iov[i].iov_base, part);
        wire->credit -= part;
        taken += part;
    }
    return taken ? (ssize_t)taken : -EAGAIN;
}

static ssize_t wire_receive(struct stream *stream, void *buffer, size_t length)
{
    struct wire *wire = wire_of(stream);
    size_t there = wire->input_length - wire->input_taken;

    FUZZ_CHECK(length);
    if (there > length)
        there = length;
    if (!there && wire->reset)
        return -ECONNRESET;
    if (!there)
        return wire->fin ? 0 : -EAGAIN;
    memcpy(buffer, wire->input + wire->input_taken, there);
    wire->input_taken += there;
    if (wire->input_taken == wire->input_length)
        wire->input_taken = wire->input_length = 0;
    return (ssize_t)there;
}

static uint32_t wire_emss(struct stream *stream)
{
    return wire_of(stream)->emss;
}

static void wire_finish(struct stream *stream)
{
    struct wire *wire = wire_of(stream);

    FUZZ_CHECK(!wire->finished);
    if (!wire->send_error && !wire->reset)
        judge_fin(&wire->judge);
    wire->finished = true;
}

static void wire_close(struct stream *stream, bool reset)
{
    struct wire *wire = wire_of(stream);

    (void)reset;
    FUZZ_CHECK(!wire->is_watched);
    wire->closed = true;
}

static const struct llp_ops llp_memory = { .send = wire_send,
                                           .receive = wire_receive,
                                           .emss = wire_emss,
                                           .finish = wire_finish,
                                           .close = wire_close };

/* ---- the lane ---- */

static bool unread(const struct wire *wire)
{
    return wire->input_length != wire->input_taken || wire->fin || wire->reset;
}

/* As epoll would, level-triggered. */
static bool report(struct wire *wire)
{
    uint32_t events = 0;

    if (!wire->used || !wire->is_watched)
        return false;
    if (unread(wire))
        events |= EPOLLIN | (wire->fin || wire->reset ? EPOLLRDHUP : 0u);
    if (wire->credit || wire->send_error || wire->reset)
        events |= EPOLLOUT;
    events &= wire->watched;
    if (wire->reset)
        events |= EPOLLERR | EPOLLHUP;
    if (events)
        wire->ready(wire->arg, events);
    return events;
}

void world_run(struct world *w)
{
    for (uint32_t round = 0;; round++) {
        uint64_t deadline;
        bool reported = false;
        uint32_t pieces;

        FUZZ_CHECK(round < ROUNDS_MAX);
        for (uint32_t i = 0; i < w->wire_count; i++)
            reported |= report(&w->wires[i]);
        pieces = user.progress(lane, round & 1 ? w->recv_cq : NULL, 256, &deadline);
        if (!pieces && !reported && user.lane_arm(lane))
            break;
    }
    world_look(w);
}

void world_deliver(struct world *w, struct wire *wire, const uint8_t *octets, size_t length,
                   size_t piece)
{
    if (wire->fin || wire->reset || wire->closed || length > WORLD_INPUT - wire->input_length)
        return;
    if (!piece || length / piece > 256)
        piece = length;
    while (length) {
        size_t part = length < piece ? length : piece;

        memcpy(wire->input + wire->input_length, octets, part);
        wire->input_length += part;
        octets += part;
        length -= part;
        world_run(w);
    }
}

/* Each that is set now, once; the deadline is made to have passed. */
void world_expire(struct world *w)
{
    struct ri_timer *now[TIMERS];
    uint32_t count = timer_count;

    memcpy(now, timers, sizeof(now));
    for (uint32_t i = 0; i < count; i++) {
        bool set = false;

        for (uint32_t k = 0; k < timer_count; k++)
            set |= timers[k] == now[i];
        if (!set)
            continue;
        host_timer_cancel(&host, NULL, now[i]);
        now[i]->deadline = 0;
        now[i]->expired(now[i]);
    }
    world_run(w);
}

/* ---- objects ---- */

#define MUST(call) FUZZ_CHECK((call) == RI_OK)

const struct ri_user_ops *world_user(void)
{
    return &user;
}

static void open_rnic(void)
{
    struct ri_open open = {
        .size = sizeof(open), .host = &host, .privileged = &privileged, .user = &user
    };

    ri_complete_privileged_ops(&privileged, rnicpi_provider_v1.privileged);
    ri_complete_user_ops(&user, rnicpi_provider_v1.user);
    MUST(privileged.open(&open, &rnic));
    MUST(privileged.lane_open(rnic, 0, NULL, &lane));
}

/* The same places and keys for each input: what was handed out before is forgotten. */
static void forget_stags(void)
{
    struct stag_table *table = &container_of(rnic, struct rnic, base)->stags;
    struct stag_entry *first = atomic_load(&table->chunks[0]);

    FUZZ_CHECK(!table->count && table->used < STAG_CHUNK_ENTRIES - 1);
    if (first)
        memset(first, 0, (table->used + 1) * sizeof(*first));
    table->first_free = table->used = 0;
}

static struct ri_cq *new_cq(uint32_t depth, void *context)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = context };
    struct ri_cq *cq;

    MUST(privileged.cq_create(rnic, &attr, &cq));
    return cq;
}

bool world_create_qp(struct world *w, uint32_t which)
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
    return true;
}

static void allocate_windows(struct world *w)
{
    for (uint32_t i = 0; i < WORLD_WINDOWS; i++) {
        struct window *window = &w->windows[i];

        if (privileged.mw_allocate(w->pd, i < 2, window, &window->stag, &window->mw) != RI_OK)
            window->mw = NULL;
    }
}

static void create_srq(struct world *w)
{
    struct ri_srq_attr attr = { .size = sizeof(attr),
                                .max_wr = w->shape.depth,
                                .max_sge = w->shape.sge,
                                .low_watermark = 1,
                                .context = w };

    if (w->shape.srq && privileged.srq_create(w->pd, &attr, &w->srq) != RI_OK)
        w->srq = NULL;
}

struct world *world_open(const struct world_shape *shape)
{
    struct world *w = &world;

    chance = 1;
    if (!rnic)
        open_rnic();
    memset(w, 0, sizeof(*w));
    w->memory_before = memory_in_use();
    forget_stags();
    w->wires = wires;
    w->shape = *shape;
    w->attr.size = sizeof(w->attr);
    MUST(privileged.query(rnic, &w->attr));
    MUST(privileged.pd_create(rnic, w, &w->pd));
    MUST(privileged.pd_create(rnic, w, &w->other_pd));
    w->send_cq = new_cq(shape->cqe, &w->send_cq);
    w->recv_cq = shape->shared_cq ? w->send_cq : new_cq(shape->cqe, &w->recv_cq);
    create_srq(w);
    memory_fill(w);
    for (int i = 0; i < WORLD_REGIONS; i++)
        world_register(w, (enum world_region)i);
    world_deregister(w, REGION_FREED);
    allocate_windows(w);
    for (uint32_t i = 0; i < (shape->two ? WORLD_QPS : 1); i++)
        world_create_qp(w, i);
    return w;
}

/* ---- regions ---- */

void world_register(struct world *w, enum world_region which)
{
    struct region *region = &w->regions[which];
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = region->access,
                               .context = region,
                               .addr = region->memory,
                               .length = region->length };

    if (region->mr) { /* anew: other keys */
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

void world_deregister(struct world *w, enum world_region which)
{
    struct region *region = &w->regions[which];

    if (!region->mr || privileged.mr_deregister(region->mr) != RI_OK)
        return; /* windows are bound */
    region->mr = NULL;
    world_look(w);
    memory_mark(region, false);
}

/* ---- connections ---- */

/* A segment of a Read Response leaves: of the oldest Read that the peer asked for, and only if it may. */
static void on_response(void *arg, uint32_t stag, uint64_t to, uint32_t length, bool last)
{
    struct wire *wire = arg;
    struct wanted *wanted = &wire->wanted[wire->wanted_out % WORLD_WANTED];

    if (wire->raw)
        return;
    FUZZ_CHECK(wire->wanted_in != wire->wanted_out && wanted->allowed);
    FUZZ_CHECK(length <= wanted->size && stag == wanted->sink_stag && to == wanted->sink_to);
    wanted->sink_to += length;
    wanted->size -= length;
    FUZZ_CHECK(last == !wanted->size);
    wire->wanted_out += last;
}

static void reset_wire(struct world *w, struct wire *wire, const struct world_start *start)
{
    wire->world = w;
    wire->used = true;
    wire->closed = wire->finished = false;
    wire->input_length = wire->input_taken = 0;
    wire->fin = wire->reset = wire->is_watched = wire->raw = false;
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
    judge_init(&wire->judge, start->crc, start->markers_transmit, start->lead_length);
    wire->judge.on_response = on_response;
    wire->judge.arg = wire;
}

/* Queues begin anew; what was posted in IDLE belongs to the new connection. */
static enum ri_status start_on(struct world *w, uint32_t which, const struct world_start *start)
{
    struct live_qp *live = &w->qps[which];
    struct wire *wire = &w->wires[w->wire_count], *before = live->wire;
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
        .last_message = start->lead_length ? start->lead : NULL,
        .last_message_length = start->lead_length,
    };
    enum ri_status status;

    reset_wire(w, wire, start);
    wire->raw = start->read_length != 0;
    live->wire = wire;
    w->wire_count++;
    status = qp_start(container_of(live->qp, struct qp, base), &handover, &llp_memory);
    if (status != RI_OK) {
        FUZZ_CHECK(!wire->is_watched && !wire->closed && !wire->judge.octets);
        wire->used = false;
        w->wire_count--;
        live->wire = before;
    }
    return status;
}

enum ri_status world_start(struct world *w, uint32_t which, const struct world_start *start)
{
    struct live_qp *live = &w->qps[which];
    enum ri_status status;

    if (!live->qp || w->wire_count == WORLD_WIRES)
        return RI_ERR_LIMIT;
    status = start_on(w, which, start);
    if (status == RI_ERR_NOT_SUPPORTED) { /* a provider without markers */
        struct world_start plain = *start;

        plain.markers_transmit = plain.markers_receive = false;
        status = start_on(w, which, &plain);
    }
    if (status != RI_OK)
        return status;
    live->sends.failed = live->receives.failed = false;
    live->started = true;
    world_run(w);
    return RI_OK;
}

enum ri_qp_state world_state(struct world *w, uint32_t which)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    if (!w->qps[which].qp)
        return RI_QPS_IDLE;
    MUST(privileged.qp_query(w->qps[which].qp, &info));
    FUZZ_CHECK(info.terminate_length <= sizeof(info.terminate));
    return info.state;
}

/* A modify must leave the QP in the state that was asked for, or on its way from there. */
void world_modify(struct world *w, uint32_t which, enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };
    struct live_qp *live = &w->qps[which];
    enum ri_status status;

    if (!live->qp || state == RI_QPS_RTS)
        return;
    status = privileged.qp_modify(live->qp, &modify);
    if (status == RI_OK && state == RI_QPS_IDLE)
        FUZZ_CHECK(world_state(w, which) == RI_QPS_IDLE);
    if (state == RI_QPS_ERROR)
        FUZZ_CHECK(status == RI_OK);
    world_run(w);
}

void world_destroy_qp(struct world *w, uint32_t which)
{
    struct live_qp *live = &w->qps[which];
    struct ri_qp *qp = live->qp;

    if (!qp)
        return;
    live->qp = NULL; /* nothing more is told about it */
    MUST(privileged.qp_destroy(qp));
    work_forget(w, which);
    world_run(w);
}

/* ---- the end ---- */

static void end_qp(struct world *w, uint32_t which)
{
    struct live_qp *live = &w->qps[which];

    if (!live->qp)
        return;
    world_modify(w, which, RI_QPS_ERROR);
    world_poll(w, UINT32_MAX);
    world_run(w);
    world_poll(w, UINT32_MAX);
    FUZZ_CHECK(world_state(w, which) == RI_QPS_ERROR);
    if (live->started && live->wire)
        FUZZ_CHECK(live->wire->ended == 1 || live->wire->judge.terminate);
    work_all_done(w, which);
    world_destroy_qp(w, which);
}

static void close_windows(struct world *w)
{
    for (uint32_t i = 0; i < WORLD_WINDOWS; i++)
        if (w->windows[i].mw)
            MUST(privileged.mw_free(w->windows[i].mw));
}

/* Everything that is still closing is let go by its timer. */
static void end_wires(struct world *w)
{
    uint64_t deadline;

    for (int i = 0; i < 2; i++)
        world_expire(w);
    (void)user.progress(lane, NULL, 256, &deadline); /* empties the graveyard */
    FUZZ_CHECK(!timer_count);
    for (uint32_t i = 0; i < w->wire_count; i++)
        FUZZ_CHECK(w->wires[i].closed && !w->wires[i].is_watched);
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

void world_close(struct world *w)
{
    FUZZ_CHECK(memory_in_use() < w->memory_before + OCTETS_MAX);
    for (uint32_t i = 0; i < WORLD_QPS; i++)
        end_qp(w, i);
    end_wires(w);
    close_windows(w);
    for (int i = 0; i < WORLD_REGIONS; i++)
        world_deregister(w, (enum world_region)i);
    if (w->srq)
        MUST(privileged.srq_destroy(w->srq));
    MUST(privileged.cq_destroy(w->send_cq));
    if (w->recv_cq != w->send_cq)
        MUST(privileged.cq_destroy(w->recv_cq));
    MUST(privileged.pd_destroy(w->pd));
    MUST(privileged.pd_destroy(w->other_pd));
    nothing_left();
}
