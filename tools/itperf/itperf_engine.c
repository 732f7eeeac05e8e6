/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: the loop that both kinds of test share, and the bandwidth test. A run: itperf_run.c.
 *
 * A thread drives the Endpoints of its group from one EVD. Data requests are counted, not named:
 * every cq_mod-th reports its completion, and the cookie of that one says how many it stands for.
 * Cookie: kind in the lowest byte, Endpoint in the next 24 bits, count in the upper 32.
 */
#include "itperf.h"

#include <poll.h>

#include "tools/common/tool.h"

#define SLICE_US   200000u
#define LOOKS      4096u        /* empty polls between two checks of the stop flags */
#define SILENCE_NS 60000000000u /* a client gives its server up after that time */

enum cookie_kind { COOKIE_RECEIVE, COOKIE_DATA, COOKIE_CONTROL, COOKIE_FIN, COOKIE_CREDIT };

static uint64_t cookie_of(enum cookie_kind kind, uint32_t index, uint32_t count)
{
    return (uint64_t)count << 32 | index << 8 | kind;
}

static uint32_t index_of(const struct perf_worker *worker, const struct perf_ep *ep)
{
    return (uint32_t)(ep - worker->group->eps);
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool perf_lost(struct perf_worker *worker, const char *why)
{
    struct perf_session *session = worker->session;

    /* The first worker that fails reports it; the others end with it. */
    if (!atomic_exchange(&session->failed, true) && !atomic_load(&tool_stop))
        tool_error("data connection with %s lost: %s", worker->group->base.peer,
                   why ? why : conn_why(&worker->group->base));
    return false;
}

bool perf_alive(struct perf_worker *worker, uint64_t *limit)
{
    uint64_t now;

    if (atomic_load_explicit(&tool_stop, memory_order_relaxed) ||
        atomic_load_explicit(&worker->session->failed, memory_order_relaxed))
        return false;
    if (!worker->client)
        return true;
    now = tool_now();
    if (!*limit)
        *limit = now + SILENCE_NS;
    return now < *limit ||
           perf_lost(worker, "nothing came for a minute; is the server stopped or overloaded?");
}

static bool failed_wait(struct perf_worker *worker, it_status_t status)
{
    struct perf_session *session = worker->session;

    atomic_store(&session->failed, true);
    adapter_error(status, "cannot wait for completions");
    return false;
}

/* The next event, by polling, waiting or the descriptor. */
static bool next_event(struct perf_worker *worker, it_event_t *event)
{
    it_evd_handle_t evd = worker->group->base.dto_evd;
    struct pollfd item = { .fd = worker->group->fd, .events = POLLIN };
    uint64_t limit = 0;
    it_status_t status;

    for (unsigned looks = 1;; looks++) {
        if (worker->mode == PERF_EVENT)
            status = it_evd_wait(evd, SLICE_US, event, NULL);
        else
            status = it_evd_dequeue(evd, event);
        if (status == IT_SUCCESS)
            return true;
        if (status != IT_ERR_QUEUE_EMPTY && status != IT_ERR_TIMEOUT_EXPIRED &&
            status != IT_ERR_INTERRUPT)
            return failed_wait(worker, status);
        if (worker->mode == PERF_FD)
            poll(&item, 1, SLICE_US / 1000);
        else if (worker->mode != PERF_EVENT && looks % LOOKS)
            continue;
        if (!perf_alive(worker, &limit))
            return false;
    }
}

/* ---- posting --------------------------------------------------------------------------------- */

static bool post_failed(struct perf_worker *worker, it_status_t status, const char *what)
{
    struct perf_session *session = worker->session;

    if (status == IT_ERR_INVALID_EP_STATE)
        return perf_lost(worker, NULL);
    if (!atomic_exchange(&session->failed, true))
        adapter_error(status, "cannot post a %s", what);
    return false;
}

bool perf_post_control(struct perf_worker *worker, struct perf_ep *ep, enum perf_control control)
{
    it_lmr_triplet_t part = region_part(&worker->group->source, 0,
                                        perf_control_length(worker->run.size, control));
    enum cookie_kind kind = control == PERF_FIN      ? COOKIE_FIN
                            : control == PERF_CREDIT ? COOKIE_CREDIT
                                                     : COOKIE_CONTROL;
    it_status_t status = it_post_send(ep->handle, &part, 1,
                                      cookie_of(kind, index_of(worker, ep), 0),
                                      IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

    if (status != IT_SUCCESS)
        return post_failed(worker, status, "control message");
    worker->control_posted++;
    return true;
}

/* The note of write-send is of the same message: it alone asks for the completion. */
static it_status_t post_noted_write(struct perf_worker *worker, struct perf_ep *ep, uint64_t cookie,
                                    unsigned flags)
{
    struct perf_group *group = worker->group;
    it_lmr_triplet_t part = region_part(&group->source, 0, worker->run.size);
    it_lmr_triplet_t note = region_part(&group->source, 0,
                                        perf_control_length(worker->run.size, PERF_NOTE));
    it_status_t status = it_post_rdma_write(ep->handle, &part, 1, 0, IT_COALESCE_WR_FLAG,
                                            ep->address, ep->context);

    if (status != IT_SUCCESS)
        return status;
    return it_post_send(ep->handle, &note, 1, cookie, (it_dto_flags_t)flags);
}

bool perf_post_data(struct perf_worker *worker, struct perf_ep *ep, bool held)
{
    const struct perf_plan *plan = &worker->session->plan;
    struct perf_group *group = worker->group;
    uint32_t index = index_of(worker, ep), size = worker->run.size;
    it_lmr_triplet_t part = region_part(&group->source, 0, size);
    unsigned flags = held ? IT_COALESCE_WR_FLAG : 0;
    uint64_t cookie = 0;
    it_status_t status;

    /* The last of a list also reports if no further list would find room before. */
    if (ep->since_signal + 1 >= plan->cq_mod ||
        (!held && ep->outstanding + 1 + plan->list > plan->tx_depth)) {
        flags |= IT_COMPLETION_FLAG | IT_NOTIFY_FLAG;
        cookie = cookie_of(COOKIE_DATA, index, ep->since_signal + 1);
    }
    if (plan->op == PERF_SEND) {
        status = it_post_send(ep->handle, &part, 1, cookie, (it_dto_flags_t)flags);
    } else if (plan->write_send) {
        status = post_noted_write(worker, ep, cookie, flags);
    } else if (plan->op == PERF_WRITE) {
        status = it_post_rdma_write(ep->handle, &part, 1, cookie, (it_dto_flags_t)flags,
                                    ep->address, ep->context);
    } else {
        part = region_part(&group->sink, index * group->place, size);
        status = it_post_rdma_read(ep->handle, &part, 1, cookie, (it_dto_flags_t)flags, ep->address,
                                   ep->context);
    }
    if (status != IT_SUCCESS)
        return post_failed(worker, status, perf_op_names[plan->op]);
    ep->since_signal = flags & IT_COMPLETION_FLAG ? 0 : ep->since_signal + 1;
    ep->outstanding++;
    if (plan->kind == PERF_BW && worker->posted++ % worker->chunk == 0)
        worker->chunk_posted[(worker->posted - 1) / worker->chunk % PERF_CHUNKS] = tool_now();
    return true;
}

bool perf_refill(struct perf_worker *worker)
{
    struct perf_ep *ep = worker->answered;

    worker->answered = NULL;
    for (; ep && worker->unfilled; worker->unfilled--)
        if (!perf_post_receive(worker->group, (uint32_t)(ep - worker->group->eps)))
            return false;
    return true;
}

/* Posts what there is room for, in lists; at the end the FIN. */
static bool fill(struct perf_worker *worker, struct perf_ep *ep)
{
    const struct perf_plan *plan = &worker->session->plan;
    bool sends = plan->op == PERF_SEND;

    while (ep->left) {
        uint32_t count = ep->left < plan->list ? (uint32_t)ep->left : plan->list;

        if (plan->tx_depth - ep->outstanding < count)
            return true;
        if (sends && ep->credits < count)
            count = ep->credits;
        if (!count)
            return true;
        for (uint32_t i = 1; i <= count; i++)
            if (!perf_post_data(worker, ep, i < count))
                return false;
        ep->left -= count;
        if (sends)
            ep->credits -= count;
    }
    if (ep->fin_posted)
        return true;
    ep->fin_posted = true;
    return perf_post_control(worker, ep, PERF_FIN);
}

/* ---- acting on events ------------------------------------------------------------------------ */

/* Rates of chunks, for the median: from completion to completion. */
static void mark_piece(struct perf_worker *worker)
{
    uint64_t count = worker->sent - worker->piece_sent, now;

    if (count < worker->piece)
        return;
    now = tool_now();
    histogram_add(&worker->chunks, (now - worker->piece_start) * worker->chunk / count);
    worker->piece_sent = worker->sent;
    worker->piece_start = now;
}

/* Rates of chunks, for the peak: from the posting of the first message to the completion of the
 * last, because completions come in bursts. */
static void mark_sent(struct perf_worker *worker)
{
    uint64_t behind = (worker->chunk_number + 1) * worker->chunk, now;
    double rate;

    if (worker->sent < behind)
        return;
    now = tool_now();
    rate = (double)worker->chunk * 1e9 /
           (double)(now - worker->chunk_posted[worker->chunk_number % PERF_CHUNKS]);
    if (rate > worker->peak)
        worker->peak = rate;
    worker->chunk_number = worker->sent / worker->chunk;
    worker->chunk_start = now;
    atomic_store_explicit(&worker->shown, worker->sent, memory_order_relaxed);
}

static void mark_received(struct perf_worker *worker)
{
    uint64_t now;

    if (worker->received % worker->piece)
        return;
    now = tool_now();
    if (worker->in_start)
        histogram_add(&worker->in_chunks, (now - worker->in_start) * worker->chunk / worker->piece);
    worker->in_start = now;
}

/* The duration is over: no more data is posted. Endpoints without outstanding requests end here. */
static bool stop_posting(struct perf_worker *worker)
{
    worker->stop_at = 0;
    for (uint32_t i = 0; i < worker->group->active; i++)
        worker->group->eps[i].left = 0;
    for (uint32_t i = 0; i < worker->group->active; i++)
        if (!fill(worker, &worker->group->eps[i]))
            return false;
    return true;
}

static bool sent_data(struct perf_worker *worker, struct perf_ep *ep, uint32_t count)
{
    if (count > ep->outstanding)
        count = ep->outstanding;
    ep->outstanding -= count;
    worker->sent += count;
    if (worker->session->plan.kind == PERF_LAT)
        return true;
    mark_piece(worker);
    mark_sent(worker);
    if (worker->stop_at && worker->chunk_start >= worker->stop_at && !stop_posting(worker))
        return false;
    return fill(worker, ep);
}

/* Credits go back in quarters of the Receives, so few are under way at a time. */
static uint32_t credit_step(const struct perf_plan *plan)
{
    return plan->rx_depth < 8 ? 1 : plan->rx_depth / 4;
}

static bool give_credits(struct perf_worker *worker, struct perf_ep *ep)
{
    uint32_t step = credit_step(&worker->session->plan);

    while (ep->owed >= step && ep->crediting < PERF_CREDITS_MOST) {
        if (!perf_post_control(worker, ep, PERF_CREDIT))
            return false;
        ep->owed -= step;
        ep->crediting++;
    }
    return true;
}

/* Of --pair: the server takes the time when it has a message's event in hand (itperf_pair.c). */
static bool pair_arrived(struct perf_worker *worker, struct perf_ep *ep)
{
    uint64_t now = tool_now();

    if (worker->answered)
        return perf_lost(worker, "one message more than expected");
    worker->arrival[0] = worker->arrival[1];
    worker->arrival[1] = now;
    /* New Receives only later: posting one would delay the second message's time. */
    worker->unfilled++;
    ep->arrived = (uint8_t)((ep->arrived + 1) % 3);
    if (ep->arrived != 2)
        worker->answered = ep;
    return true;
}

static bool received_data(struct perf_worker *worker, struct perf_ep *ep)
{
    const struct perf_plan *plan = &worker->session->plan;

    worker->received++;
    if (plan->pair && !worker->client)
        return pair_arrived(worker, ep);
    if (plan->kind == PERF_LAT) {
        if (worker->answered)
            return perf_lost(worker, "two messages arrived, one was expected");
        worker->answered = ep; /* it posts the Receive when it has time */
        worker->unfilled = 1;
        return true;
    }
    mark_received(worker);
    if (!perf_post_receive(worker->group, index_of(worker, ep)))
        return false;
    ep->owed++;
    return give_credits(worker, ep);
}

static bool received(struct perf_worker *worker, struct perf_ep *ep, uint32_t length)
{
    const struct perf_plan *plan = &worker->session->plan;
    uint32_t size = worker->run.size;

    if (plan->op == PERF_SEND ? length == size
                              : plan->write_send && length == perf_control_length(size, PERF_NOTE))
        return received_data(worker, ep);
    if (!perf_post_receive(worker->group, index_of(worker, ep)))
        return false;
    if (length == perf_control_length(size, PERF_CREDIT)) {
        ep->credits += credit_step(plan);
        return worker->sender ? fill(worker, ep) : perf_lost(worker, "an unexpected credit");
    }
    if (length == perf_control_length(size, PERF_FIN)) {
        worker->fins_seen++;
        return perf_post_control(worker, ep, PERF_FINACK);
    }
    if (length == perf_control_length(size, PERF_FINACK)) {
        worker->fins_acked++;
        return true;
    }
    if (length == perf_control_length(size, PERF_NOTE) && plan->target == PERF_NAP) {
        worker->noted = true;
        return true;
    }
    return perf_lost(worker, "a message of unexpected length");
}

static bool act(struct perf_worker *worker, const it_event_t *event)
{
    const it_dto_cmpl_event_t *dto = &event->dto_cmpl;
    uint32_t index = (uint32_t)(dto->cookie >> 8) & 0xffffff;
    struct perf_ep *ep = &worker->group->eps[index];

    if (dto->dto_status == IT_DTO_ERR_FLUSHED)
        return perf_lost(worker, NULL);
    if (dto->dto_status != IT_DTO_SUCCESS)
        return perf_lost(worker, itx_dto_status_name(dto->dto_status));
    switch ((enum cookie_kind)(dto->cookie & 0xff)) {
    case COOKIE_RECEIVE: return received(worker, ep, dto->transferred_length);
    case COOKIE_DATA: return sent_data(worker, ep, (uint32_t)(dto->cookie >> 32));
    case COOKIE_FIN:
        /* Everything before it is complete too. */
        worker->control_posted--;
        ep->since_signal = 0;
        return !ep->outstanding || sent_data(worker, ep, ep->outstanding);
    case COOKIE_CREDIT:
        worker->control_posted--;
        ep->crediting--;
        return give_credits(worker, ep);
    default: worker->control_posted--; return true;
    }
}

bool perf_step(struct perf_worker *worker)
{
    it_event_t event;

    if (next_event(worker, &event) && act(worker, &event))
        return true;
    atomic_store(&worker->session->failed, true);
    return false;
}

bool perf_poll(struct perf_worker *worker)
{
    it_event_t event;
    it_status_t status = it_evd_dequeue(worker->group->base.dto_evd, &event);

    if (status == IT_ERR_QUEUE_EMPTY)
        return true;
    if (status != IT_SUCCESS)
        return failed_wait(worker, status);
    return act(worker, &event);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool is_over(const struct perf_worker *worker)
{
    uint32_t active = worker->group->active;
    bool peer_sends = !worker->client || worker->session->plan.bidirectional;

    return !worker->control_posted && worker->fins_acked == (worker->sender ? active : 0) &&
           worker->fins_seen == (peer_sends ? active : 0);
}

bool perf_finish(struct perf_worker *worker)
{
    for (uint32_t i = 0; worker->sender && i < worker->group->active; i++) {
        struct perf_ep *ep = &worker->group->eps[i];

        if (ep->fin_posted)
            continue;
        ep->fin_posted = true;
        if (!perf_post_control(worker, ep, PERF_FIN))
            return false;
    }
    while (!is_over(worker))
        if (!perf_step(worker))
            return false;
    return true;
}

bool perf_stream(struct perf_worker *worker)
{
    worker->chunk_start = worker->piece_start = worker->start;
    for (uint32_t i = 0; worker->sender && i < worker->group->active; i++)
        if (!fill(worker, &worker->group->eps[i]))
            return false;
    while (!is_over(worker))
        if (!perf_step(worker))
            return false;
    return true;
}
