/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of the wire local: a connection's begin and its attributes.
 */
#include "local.h"
#include "wire_local.h"

#include "base/entropy.h"

#include <stdlib.h>
#include <sys/epoll.h>

#define VISIT_BUDGET 64u

/* --- the RNIC --- */

/* Without a directory peers publish all, and this end executes it. */
static void make_directory(struct rnic *rnic, struct local_rnic *local)
{
    const char *why = NULL;

    local->directory = -1;
    if (!local_is_direct(rnic))
        return;
    if (directory_make(&rnic->stags, local->token, &why))
        local->directory = rnic->stags.directory;
    else
        ri_log(rnic->host, RI_LOG_INFO, "peers of this host do not access memory by themselves: %s",
               why);
}

bool local_open_rnic(struct rnic *rnic, struct local_rnic *local, const struct wire *wire)
{
    if (!entropy_draw(&local->token, sizeof(local->token)))
        return false;
    local->shares_bells = rnic->options.lanes == 1;
    local_processes_open(local);
    rnic_add_wire(rnic, wire, local);
    make_directory(rnic, local);
    return true;
}

void local_close_rnic(struct rnic *rnic)
{
    if (rnic->wires[WIRE_LOCAL])
        local_processes_close(local_rnic(rnic));
}

/* --- lanes --- */

static bool is_of_wire(const struct qp *qp)
{
    return qp_wire(qp) == qp->rnic->wires[WIRE_LOCAL];
}

static void count(struct lane *lane, uint32_t *connections, uint32_t *closing)
{
    spinlock_lock(&lane->lock);
    for (const struct qp *qp = lane->connected; qp; qp = qp->on_lane.connected_next) {
        *connections += is_of_wire(qp);
        *closing += is_of_wire(qp) && qp_state(qp) == RI_QPS_CLOSING;
    }
    spinlock_unlock(&lane->lock);
}

/* --- posts --- */

/* A poll leaves to the pass what places octets. */
static void visit(struct qp *base)
{
    struct local_qp *qp = local_qp(base);

    local_leave_together(qp);
    if (lane_inside(base->lane)) {
        if (!local_end_rest(qp)) {
            local_look(qp, VISIT_BUDGET, false);
            local_stay_awake(qp);
        }
    } else {
        tx_defer_to_lane(base);
    }
    tx_run(base);
    qp_deliver(base);
}

static void send_waiting(struct qp *base)
{
    local_leave_together(local_qp(base));
    tx_run(base);
}

/* Messages wait for it, or there is an SRQ and they may. */
static void receive_posted(struct qp *base)
{
    if (!base->srq || atomic_load(&local_qp(base)->waits))
        tx_defer_to_lane(base);
}

/* --- output --- */

/* Whoever is inside tx and awaits rx has said before that it uses no memory any more: a pass, which
 * may hold that rx, does not wait for it. */
static void leave_tx(struct qp *base, bool in_pass)
{
    if (!in_pass) {
        tx_enter(base);
        tx_leave(base);
        return;
    }
    while (!tx_try_enter(base)) {
        if (atomic_load(&base->tx.stopped))
            return;
        sched_yield();
    }
    tx_leave_work(base);
    tx_defer_to_lane(base); /* what others have posted meanwhile */
}

static void leave(struct qp *base, enum leave what, const struct memory_range *range, bool in_pass)
{
    (void)what, (void)range;
    leave_tx(base, in_pass);
    local_await_peer(local_qp(base));
}

/* --- a connection: begin --- */

/* The peer has started, and needs it no more either. If somebody posts, readiness comes again. */
static void leave_tcp(struct local_qp *qp)
{
    if (!tx_try_enter(qp->core))
        return;
    local_close_tcp(qp);
    tx_leave_work(qp->core);
    tx_defer_to_lane(qp->core); /* what others have posted meanwhile */
}

static void on_tcp(void *arg, uint32_t events)
{
    struct local_qp *qp = arg;

    if (!qp->keeps_tcp && atomic_load(&qp->peer->started)) {
        leave_tcp(qp);
        return;
    }
    atomic_fetch_or(&qp->witnessed, events & EPOLLERR ? WITNESSED_RESET : WITNESSED_FIN);
    local_heat(qp);
}

static void patience_over(struct ri_timer *timer)
{
    struct local_qp *qp = container_of(timer, struct local_qp, patience);

    atomic_store(&qp->patience_over, true);
    tx_defer_to_lane(qp->core);
}

static void close_over(struct ri_timer *timer)
{
    struct local_qp *qp = container_of(timer, struct local_qp, close_timer);

    atomic_store(&qp->close_over, true);
    tx_defer_to_lane(qp->core);
}

static void rest_over(struct ri_timer *timer)
{
    struct local_qp *qp = container_of(timer, struct local_qp, rest_timer);

    atomic_store(&qp->rest_over, true);
    tx_defer_to_lane(qp->core);
}

/* Of an earlier connection nothing is left, but the lock and what names the QP. */
static enum ri_status prepare(struct qp *base, struct ri_local *memory, int tcp)
{
    struct local_qp *qp = local_qp(base);

    if (!qp) {
        qp = calloc(1, sizeof(*qp));
        if (!qp)
            return RI_ERR_NO_RESOURCES;
        qp->core = base;
        spinlock_init(&qp->rx);
        spinlock_init(&qp->keeping);
        atomic_store_explicit(&base->local_part, qp, memory_order_release);
    }
    spinlock_lock(&qp->rx);
    ring_put_open(&qp->put, local_requests(memory, memory->side), LOCAL_REQUESTS);
    ring_take_open(&qp->take, local_requests(memory, !memory->side), LOCAL_REQUESTS);
    qp->put.free_until = 0; /* until it is used (publish.c) */
    qp->own = local_page(memory, memory->side);
    qp->peer = local_page(memory, !memory->side);
    qp->uses = qp->looks = false;
    qp->published = qp->answer_at = qp->answer_placed = qp->placed = qp->fetch_at = 0;
    qp->consumed_seen = 0;
    qp->begun = qp->open = qp->waiting = qp->has_receive = qp->end_waits = false;
    qp->executed = qp->heard_of_page = 0;
    atomic_store(&qp->heard, 0);
    atomic_store(&qp->done, 0);
    atomic_store(&qp->told, 0);
    qp->answered = atomic_load(&base->sq.next);
    atomic_store(&qp->given, 0);
    atomic_store(&qp->fetching, 0);
    atomic_store(&qp->fetched, 0);
    own_forget(&qp->requests);
    qp->refused = (struct refused){ .is_set = false };
    atomic_store(&qp->waits, false);
    atomic_store(&qp->patience_over, false);
    atomic_store(&qp->close_over, false);
    atomic_store(&qp->witnessed, 0);
    qp->resting = false;
    atomic_store(&qp->rest_over, false);
    atomic_store(&qp->awaits_start, false);
    qp->rules = NULL;
    qp->deaf = qp->drained = qp->leaves = false;
    atomic_store(&qp->suspended, false);
    atomic_store(&qp->gone, false);
    atomic_store(&qp->unheard, false);
    qp->patience.expired = patience_over;
    qp->close_timer.expired = close_over;
    qp->rest_timer.expired = rest_over;
    qp->tcp = tcp;
    qp->keeps_tcp = tcp >= 0 &&
                    (!local_rnic(base->rnic)->closes_tcp || !atomic_load(&qp->peer->leaves_tcp));
    atomic_store(&base->sq.sent, qp->answered);
    qp->sought = qp->refused_directly = false;
    atomic_store(&qp->way, NULL);
    atomic_store(&qp->by_kernel, false);
    qp->gathered = 0;
    qp->left_at = lane_polls(base->lane) - 1;
    qp->reach = (struct local_reach){ .why = "no Write or Read was posted yet" };
    atomic_store(&qp->refers, false);
    qp->referred = 0;
    qp->gives_octets = qp->no_references = false;
    qp->claims = 0;
    qp->looked_at = 0;
    qp->placed_directly = 0;
    qp->memory = memory;
    spinlock_unlock(&qp->rx);
    return RI_OK;
}

/* Under rx. */
static void keep_no_memory(struct local_qp *qp)
{
    spinlock_lock(&qp->keeping);
    qp->memory = NULL;
    spinlock_unlock(&qp->keeping);
}

/* Without TCP the initiator closes its socket first, as it has read all, and its port rests. */
static bool closes_first(const struct local_qp *qp, const struct ri_llp_handover *handover)
{
    return !qp->keeps_tcp && handover->initiator;
}

/* What was handed over stays the caller's. */
static void let_go(struct local_qp *qp)
{
    spinlock_lock(&qp->rx);
    keep_no_memory(qp);
    qp->tcp = -1;
    spinlock_unlock(&qp->rx);
    local_cool(qp);
}

/* A readiness that comes at once finds the QP hidden still. */
static enum ri_status watch(struct local_qp *qp, const struct ri_llp_handover *handover)
{
    const struct ri_host *host = qp->core->rnic->host;
    void *lane = qp->core->lane->base.context;
    enum ri_status status = RI_OK;

    qp->tcp_watch = NULL;
    if (!closes_first(qp, handover))
        status = host->watch(host, lane, qp->tcp, EPOLLRDHUP, on_tcp, qp, &qp->tcp_watch);
    if (status != RI_OK)
        return status;
    status = local_bell_join(qp, handover->local_fd, local_heat);
    if (status != RI_OK && qp->tcp_watch)
        host->unwatch(host, qp->tcp_watch);
    return status;
}

static void say_last_message(struct local_qp *qp, const struct ri_llp_handover *handover)
{
    static const struct qp_end lost = { .event = RI_EVENT_LLP_LOST,
                                        .state = RI_QPS_ERROR,
                                        .lost = true,
                                        .detail = "the last message of the start-up was not sent" };

    if (!local_say_last(qp, handover->last_message, handover->last_message_length))
        qp_end(qp->core, &lost);
}

/* Who the peer is, and how it finds the memory of this end: before it can see that this one has
 * started. */
static void introduce(struct local_qp *qp)
{
    struct local_rnic *rnic = local_rnic(qp->core->rnic);

    if (local_is_direct(qp->core->rnic))
        qp->memory->process = local_process_of(rnic, qp->bell_fd, true);
    else
        atomic_store(&qp->own->no_references, 1);
    local_target_tell(rnic, qp->own);
    local_open_gate(qp);
}

/* The peer may have published something already. */
static void show(struct local_qp *qp)
{
    struct lane *lane = qp->core->lane;

    spinlock_lock(&lane->lock);
    qp->hidden = false;
    spinlock_unlock(&lane->lock);
    atomic_store(&qp->own->asleep, LOCAL_COOL);
    atomic_store(&qp->own->started, 1);
    local_wake_peer(qp);
    tx_defer_to_lane(qp->core);
}

static enum ri_status start(struct qp *base, const struct ri_llp_handover *handover)
{
    enum ri_status status;

    tx_assert_inside(base);
    if (handover->refuse_code || handover->bytes_read_length || handover->stream_ops)
        return RI_ERR_INVALID_ARGUMENT;
    status = prepare(base, handover->local, handover->fd);
    if (status != RI_OK)
        return status;
    atomic_store(&local_qp(base)->awaits_start, handover->rtr_await);
    status = watch(local_qp(base), handover);
    if (status != RI_OK) {
        let_go(local_qp(base));
        return status;
    }
    qp_connected(base, &local_wire, handover->ird, handover->ord);
    introduce(local_qp(base));
    say_last_message(local_qp(base), handover);
    show(local_qp(base));
    if (closes_first(local_qp(base), handover))
        local_close_tcp(local_qp(base));
    return RI_OK;
}

enum ri_status local_join(struct qp *base, const struct wire *wire, const struct local_rules *rules,
                          struct ri_local *memory, int bell)
{
    enum ri_status status = prepare(base, memory, -1);
    struct local_qp *qp = local_qp(base);

    tx_assert_inside(base);
    if (status != RI_OK)
        return status;
    qp->rules = rules;
    qp->tcp_watch = NULL;
    atomic_store(&qp->unheard, true);
    status = local_bell_join(qp, bell, local_heat);
    if (status != RI_OK) {
        let_go(qp);
        return status;
    }
    qp_change_wire(base, wire);
    introduce(qp);
    local_tell_retries(qp);
    show(qp);
    return RI_OK;
}

/* --- a connection: end --- */

/* As over a network: own Reads that are unanswered make it a bad close. */
static bool close_connection(struct qp *base)
{
    static const struct qp_end in_order = { .state = RI_QPS_CLOSING };
    static const struct qp_end reset = { .event = RI_EVENT_LLP_RESET,
                                         .state = RI_QPS_ERROR,
                                         .lost = true,
                                         .by_this_side = true,
                                         .detail = "closed while Reads were unanswered" };
    const struct local_qp *qp = local_qp(base);

    tx_assert_inside(base);
    return qp_end(base,
                  atomic_load(&qp->fetching) == atomic_load(&qp->fetched) ? &in_order : &reset);
}

static bool terminate(struct qp *base, enum qp_cause cause, const struct qp_end *end)
{
    static const uint16_t values[] = {
        [QP_CAUSE_CONSUMER] = 0x0000, [QP_CAUSE_CQ_OVERFLOW] = 0x0207
    };
    struct qp_end whole = *end;

    whole.state = RI_QPS_TERMINATE;
    whole.send_terminate = true;
    whole.terminate_value = values[cause];
    whole.terminate = "";
    return qp_end(base, &whole);
}

static void cut(struct qp *base)
{
    tx_assert_inside(base);
    if (!base->tx.stopped)
        local_stop(base);
    local_close(local_qp(base));
}

static void hide(struct qp *base)
{
    struct local_qp *qp = local_qp(base);
    struct ri_local *memory;

    if (!qp)
        return;
    local_cool(qp);
    memory = local_keep(qp);
    if (!memory)
        return;
    atomic_store(&local_page(memory, memory->side)->gate, 0);
    local_drop(&base->rnic->base, memory);
    local_await_peer(qp);
}

static void release(struct qp *base)
{
    struct local_qp *qp = local_qp(base);
    struct local_source *source;
    struct ri_local *memory;

    tx_assert_inside(base);
    if (!base->tx.stopped)
        local_stop(base);
    local_close(qp);
    local_cool(qp);
    local_forget_target(qp);
    local_await_peer(qp);
    spinlock_lock(&qp->rx);
    source = local_take_source(qp);
    memory = qp->memory;
    keep_no_memory(qp);
    spinlock_unlock(&qp->rx);
    local_free_source(qp, source);
    local_drop(&base->rnic->base, memory);
}

static void qp_free_part(struct qp *base)
{
    free(local_qp(base));
}

/* --- attributes --- */

static bool try_hold(struct qp *base)
{
    return spinlock_try(&local_qp(base)->rx);
}

static void unhold(struct qp *base)
{
    spinlock_unlock(&local_qp(base)->rx);
}

/* Requests take no room of their own. */
static enum ri_status set_depths(struct qp *base, uint32_t ird, uint32_t ord)
{
    (void)base, (void)ird, (void)ord;
    return RI_OK;
}

/* Each request completes when it is executed, in either mode. */
static void set_acknowledged(struct qp *base, bool on)
{
    (void)base, (void)on;
}

/* A message that waits does so by the new rules. */
static void attributes_changed(struct qp *base)
{
    local_open_gate(local_qp(base));
    if (local_qp(base)->rules)
        local_tell_retries(local_qp(base));
    if (atomic_load(&local_qp(base)->waits))
        tx_defer_to_lane(base);
}

static uint32_t answered_request(const struct qp *base)
{
    return local_qp(base)->answered;
}

const struct wire local_wire = {
    .name = "local",
    .slot = WIRE_LOCAL,
    .lane_open = local_lane_open,
    .lane_close = local_lane_close,
    .serve = local_serve,
    .is_idle = local_is_idle,
    .count = count,
    .post_send = local_post_send,
    .leave_together = visit,
    .send_waiting = send_waiting,
    .receive_posted = receive_posted,
    .send = local_publish,
    .stop = local_stop,
    .rest = local_rest,
    .leave = leave,
    .start = start,
    .close = close_connection,
    .terminate = terminate,
    .cut = cut,
    .hide = hide,
    .release = release,
    .qp_free = qp_free_part,
    .try_hold = try_hold,
    .unhold = unhold,
    .set_depths = set_depths,
    .set_acknowledged = set_acknowledged,
    .attributes_changed = attributes_changed,
    .answered_request = answered_request,
    .way = local_way,
    .counter = local_counter,
};
