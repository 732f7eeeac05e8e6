/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The connection of one QP: the actions of the state table in link_fsm.h. Threads:
 * numbers_private.h.
 *
 * The QP with the larger number initiates. If the numbers are equal (on two hosts), the QP with the
 * larger GID does. Both sides know both values at RTR, so nothing is negotiated. A QP that is its
 * own peer adopts a TCP socket that is connected to itself.
 */
#include "numbers_private.h"
#include "own_socket.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#define RETRY_FIRST    (100 * CLOCK_NS_PER_MS)
#define RETRY_MOST     CLOCK_NS_PER_S
#define PATIENCE_LEAST (5 * CLOCK_NS_PER_S)
#define ACK_TIMEOUT    UINT64_C(4096) /* ns; the unit of ibv_qp_attr.timeout */

/* --- stimuli --- */

/* Under the lock. */
static void set_timer(struct link *link)
{
    uint64_t deadline = min_u64(link->retry_at, link->give_up_at);

    if (link->stimuli)
        deadline = clock_now();
    if (link->stopped || deadline == CLOCK_NEVER)
        return;
    link->timer.deadline = deadline;
    ual_timer_set(link->numbers->context->device, &link->timer);
}

void link_stimulate(struct link *link, enum link_stimulus stimulus)
{
    link->stimuli |= 1u << stimulus;
    set_timer(link);
}

static void stimulate(struct link *link, enum link_stimulus stimulus)
{
    pthread_mutex_lock(&link->numbers->lock);
    link_stimulate(link, stimulus);
    pthread_mutex_unlock(&link->numbers->lock);
}

/* --- packet sequence numbers: there are none here, but programs that exchange wrong ones fail over
 * an adapter --- */

/* Under the lock. */
static void check_psn(struct link *link)
{
    if (link->has_sq_psn && link->has_peer_expects && link->sq_psn != link->peer_expects)
        ual_log(RI_LOG_WARNING,
                "QP 0x%06x: its sq_psn is 0x%06x, but QP 0x%06x expects 0x%06x (its rq_psn); over "
                "InfiniBand nothing would arrive",
                link->number, link->sq_psn, link->peer_qpn, link->peer_expects);
}

void link_note_peer_psn(struct link *link, uint32_t expected)
{
    link->peer_expects = expected;
    link->has_peer_expects = true;
    check_psn(link);
}

/* --- upcalls of a connection --- */

static const char *reason_of(const struct ri_connection_event *event)
{
    struct hello hello;

    if (event->type == RI_CONNECTION_REJECTED)
        return hello_decode(event->private_data, event->private_data_length, &hello)
                   ? hello_reason_text(hello.reason)
                   : "the peer rejects";
    switch (event->reason) {
    case RI_REASON_REFUSED: return "nobody listens there";
    case RI_REASON_TIMEOUT: return "no answer";
    case RI_REASON_UNREACHABLE: return "unreachable";
    default: return "the peer ended the attempt";
    }
}

/* Of a provider that manages connections itself: others report an event of the QP. */
static void end_of_connection(struct link *link)
{
    bool was_open;

    pthread_mutex_lock(&link->numbers->lock);
    was_open = link->state == LINK_OPEN || link->state == LINK_ACCEPTING;
    link_stimulate(link, LINK_CONNECTION_ENDED);
    pthread_mutex_unlock(&link->numbers->lock);
    if (!was_open)
        return;
    vb_qp_failed(link->qp, IBV_WC_RETRY_EXC_ERR);
    vb_qp_enter(link->qp, IBV_QPS_ERR, VB_GATE_OPEN);
}

/* The answer of the peer, to the initiator. Nothing is received before this upcall has returned. */
static void on_event(void *context, const struct ri_connection_event *event)
{
    struct link *link = context;
    struct hello hello;
    bool has_hello = event->type == RI_CONNECTION_ESTABLISHED &&
                     hello_decode(event->private_data, event->private_data_length, &hello);

    if (event->type == RI_CONNECTION_DISCONNECTED) {
        end_of_connection(link);
        return;
    }
    if (has_hello)
        link_agree(link, hello.flags);
    pthread_mutex_lock(&link->numbers->lock);
    if (event->type == RI_CONNECTION_ESTABLISHED) {
        if (has_hello)
            link_note_peer_psn(link, hello.expected_psn);
        link_stimulate(link, LINK_ESTABLISHED);
    } else if (event->type == RI_CONNECTION_REJECTED || event->type == RI_CONNECTION_FAILED) {
        link_log_failure(link, reason_of(event));
        link_stimulate(link, LINK_ATTEMPT_FAILED);
    }
    pthread_mutex_unlock(&link->numbers->lock);
}

static const struct ual_conn_upcalls upcalls = { .event = on_event };

/* Upcall. A QP that its peer has left stays in RTS, unless a request was under way (do_end): its
 * next request, or do_bury, takes it to ERR. */
void link_qp_event(struct link *link, const struct ri_event *event)
{
    if (event->type == RI_EVENT_ESTABLISHED) {
        stimulate(link, LINK_ESTABLISHED);
        return;
    }
    pthread_mutex_lock(&link->numbers->lock);
    /* not where the program itself moves the QP to ERR: then all requests are flushed */
    if (!link->stopped && vb_ended_by_peer(event)) {
        vb_qp_failed(link->qp, IBV_WC_RETRY_EXC_ERR);
        snprintf(link->end, sizeof(link->end), "%s",
                 event->detail ? event->detail : "it was closed");
        link->left = true;
        vb_qp_gate(link->qp, VB_GATE_OPEN, VB_GATE_HELD);
    }
    link_stimulate(link, LINK_CONNECTION_ENDED);
    pthread_mutex_unlock(&link->numbers->lock);
}

static void notice_end(struct link *link, const char *what)
{
    bool left;

    pthread_mutex_lock(&link->numbers->lock);
    left = link->left;
    link->left = false;
    if (left)
        link_log_end(link, what);
    pthread_mutex_unlock(&link->numbers->lock);
    if (left)
        vb_qp_end(link->qp);
}

void link_notice_end(struct link *link)
{
    notice_end(link, "a request was posted since: it fails with IBV_WC_RETRY_EXC_ERR");
}

/* --- actions; in the timer, no lock held --- */

static void free_attempt(struct link *link)
{
    if (link->conn)
        ual_conn_free(link->conn);
    link->conn = NULL;
}

static void describe(const struct link *link, struct hello *hello)
{
    *hello = (struct hello){
        .flags = requests_own_flags(link->numbers),
        .own_qpn = link->number,
        .wanted_qpn = link->peer_qpn,
        .expected_psn = link->rq_psn,
    };
    memcpy(hello->own_gid, link->own_gid.raw, sizeof(hello->own_gid));
}

static uint16_t ord_of(const struct link *link)
{
    uint32_t most = ual_device_attr(link->numbers->context->device)->max_ord;

    return most < UINT16_MAX ? (uint16_t)most : UINT16_MAX;
}

static struct ri_connect_param param_of(const struct link *link, uint8_t octets[HELLO_OCTETS])
{
    struct hello hello;

    describe(link, &hello);
    hello_encode(&hello, octets);
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .source = (const struct sockaddr *)&link->source,
        .destination = (const struct sockaddr *)&link->destination,
        .deadline = RI_NO_DEADLINE,
        .private_data = octets,
        .private_data_length = HELLO_OCTETS,
        .ird = link->ird,
        .ord = ord_of(link),
        .negotiate_depths = true,
    };
}

static enum ri_status connect_to_itself(struct link *link)
{
    struct ual_adopt_param param = { .fd = own_socket(&link->source),
                                     .initiator = true,
                                     .ird = link->ird,
                                     .ord = link->ird,
                                     .deadline = RI_NO_DEADLINE };
    enum ri_status status;

    if (param.fd < 0)
        return RI_ERR_NO_RESOURCES;
    link_agree(link, requests_own_flags(link->numbers));
    status = ual_conn_adopt(link->conn, &link->qp->ual, &param);
    close(param.fd);
    return status;
}

static bool is_own_peer(const struct link *link)
{
    return link->peer_qpn == link->number &&
           memcmp(&link->peer_gid, &link->own_gid, sizeof(link->own_gid)) == 0;
}

static void do_connect(struct link *link)
{
    uint8_t octets[HELLO_OCTETS];
    struct ri_connect_param param = param_of(link, octets);
    enum ri_status status;

    free_attempt(link);
    status = ual_conn_create(link->numbers->context->device, &upcalls, link, &link->conn);
    if (status == RI_OK)
        status = is_own_peer(link) ? connect_to_itself(link)
                                   : ual_conn_connect(link->conn, &link->qp->ual, &param);
    if (status == RI_OK)
        return;
    pthread_mutex_lock(&link->numbers->lock);
    link_log_failure(link, ital_status_name(status));
    link_stimulate(link, LINK_ATTEMPT_FAILED);
    pthread_mutex_unlock(&link->numbers->lock);
}

static void do_pause(struct link *link)
{
    free_attempt(link);
    pthread_mutex_lock(&link->numbers->lock);
    link->retry_at = clock_after(clock_now(), link->retry_after);
    link->retry_after = min_u64(2 * link->retry_after, RETRY_MOST);
    pthread_mutex_unlock(&link->numbers->lock);
}

/* --- the peer's requests --- */

static struct parked *take_parked(struct link *link)
{
    struct parked *request;

    pthread_mutex_lock(&link->numbers->lock);
    request = link->parked;
    if (request) {
        DL_DELETE(link->parked, request);
        link->parked_count--;
    }
    pthread_mutex_unlock(&link->numbers->lock);
    return request;
}

static bool fits(const struct link *link, const struct hello *hello)
{
    return hello->own_qpn == link->peer_qpn &&
           memcmp(hello->own_gid, link->peer_gid.raw, sizeof(hello->own_gid)) == 0;
}

/* False: the peer has disconnected. */
static bool accept_request(struct link *link, struct parked *request)
{
    uint8_t octets[HELLO_OCTETS];
    struct ri_connect_param param = param_of(link, octets);
    uint32_t expected = request->hello.expected_psn;
    enum ri_status status;

    free_attempt(link);
    link->conn = request->conn;
    link_agree(link, request->hello.flags);
    free(request);
    ual_conn_migrate(link->conn, &upcalls, link);
    status = ual_conn_accept(link->conn, &link->qp->ual, &param);
    if (status != RI_OK) {
        free_attempt(link);
        return false;
    }
    pthread_mutex_lock(&link->numbers->lock);
    link_note_peer_psn(link, expected);
    link_stimulate(link, LINK_ACCEPTED);
    pthread_mutex_unlock(&link->numbers->lock);
    return true;
}

static void do_search(struct link *link)
{
    struct parked *request;

    while ((request = take_parked(link))) {
        if (!fits(link, &request->hello))
            request_refuse(link, request, HELLO_OTHER_PEER);
        else if (accept_request(link, request))
            return;
    }
}

static void do_refuse(struct link *link)
{
    struct parked *request;

    while ((request = take_parked(link)))
        request_refuse(link, request, HELLO_OTHER_PEER);
}

/* --- the connection is there, or will never be --- */

/* The object stays: a provider that manages connections itself ends the connection with it. */
static void do_open(struct link *link)
{
    pthread_mutex_lock(&link->held.lock);
    vb_held_release(&link->held, link->qp);
    vb_qp_gate(link->qp, VB_GATE_HELD, VB_GATE_OPEN);
    pthread_mutex_unlock(&link->held.lock);
}

/* The first held request completes with a retry error, the others are flushed. */
static void do_fail(struct link *link)
{
    free_attempt(link); /* from here on nobody writes `why` */
    link_log_given_up(link);
    vb_qp_failed(link->qp, IBV_WC_RETRY_EXC_ERR);
    pthread_mutex_lock(&link->held.lock);
    vb_qp_enter(link->qp, IBV_QPS_ERR, VB_GATE_OPEN);
    vb_held_release(&link->held, link->qp);
    pthread_mutex_unlock(&link->held.lock);
}

/* A request was under way when the peer ended the connection: it has failed. */
static bool has_failed_requests(const struct link *link)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    return ual_qp_query(&link->qp->ual, &info) == RI_OK && info.state != RI_QPS_RTS &&
           !(info.flags & RI_QP_KEEP_RECEIVES);
}

/* The provider's QP is in ERROR: held requests are posted to it and flush. The QP is in ERR if a
 * request fails of it. Without one a peer that has left is not noticed over an adapter, and an
 * orderly one leaves first without harm. Here the QP goes to ERR after the time for which an
 * adapter would repeat a request. */
static void do_end(struct link *link)
{
    bool notices;

    free_attempt(link);
    pthread_mutex_lock(&link->held.lock);
    notices = link->held.first;
    vb_held_release(&link->held, link->qp);
    pthread_mutex_unlock(&link->held.lock);
    if (notices)
        link_notice_end(link);
    else if (has_failed_requests(link))
        notice_end(link, "requests were under way: the first fails with IBV_WC_RETRY_EXC_ERR");
    pthread_mutex_lock(&link->numbers->lock);
    link->stimuli &= ~(1u << LINK_OUT_OF_TIME); /* of the time for connecting */
    link->give_up_at = link->left && link->patience != CLOCK_NEVER
                           ? clock_after(clock_now(), link->patience)
                           : CLOCK_NEVER;
    pthread_mutex_unlock(&link->numbers->lock);
}

static void do_bury(struct link *link)
{
    notice_end(link, "nothing was posted since: the receives are flushed");
}

static void (*const actions[LINK_ACTIONS])(struct link *link) = {
    [LINK_DO_SEARCH] = do_search, [LINK_DO_CONNECT] = do_connect, [LINK_DO_PAUSE] = do_pause,
    [LINK_DO_OPEN] = do_open,     [LINK_DO_FAIL] = do_fail,       [LINK_DO_END] = do_end,
    [LINK_DO_BURY] = do_bury,     [LINK_DO_REFUSE] = do_refuse,
};

/* --- the timer --- */

static void note_times(struct link *link, uint64_t now)
{
    if (link->retry_at <= now) {
        link->retry_at = CLOCK_NEVER;
        link->stimuli |= 1u << LINK_PAUSE_OVER;
    }
    if (link->give_up_at <= now) {
        link->give_up_at = CLOCK_NEVER;
        link->stimuli |= 1u << LINK_OUT_OF_TIME;
    }
}

/* Under the lock. False: nothing to do. */
static bool step(struct link *link, enum link_action *action)
{
    struct link_step step;
    unsigned int stimulus;

    note_times(link, clock_now());
    if (link->stopped || !link->stimuli)
        return false;
    stimulus = (unsigned int)__builtin_ctz(link->stimuli);
    link->stimuli &= ~(1u << stimulus);
    step = link_fsm(link->state, (enum link_stimulus)stimulus);
    link->state = step.next;
    *action = step.action;
    return true;
}

static void run(struct ri_timer *timer)
{
    struct link *link = container_of(timer, struct link, timer);
    enum link_action action;

    pthread_mutex_lock(&link->numbers->lock);
    while (step(link, &action)) {
        pthread_mutex_unlock(&link->numbers->lock);
        if (actions[action])
            actions[action](link);
        pthread_mutex_lock(&link->numbers->lock);
    }
    set_timer(link);
    pthread_mutex_unlock(&link->numbers->lock);
}

/* --- the program's calls --- */

/* On return nothing of the link runs, and its attempt is freed. */
static void stop(struct link *link)
{
    pthread_mutex_lock(&link->numbers->lock);
    link->stopped = true;
    pthread_mutex_unlock(&link->numbers->lock);
    ual_timer_cancel(link->numbers->context->device, &link->timer);
    free_attempt(link);
}

/* Under the lock. Resets the link to `state`; parked requests stay. */
static void start(struct link *link, enum link_state state)
{
    link->state = state;
    link->stimuli = link->parked ? 1u << LINK_REQUEST : 0;
    link->retry_at = link->give_up_at = CLOCK_NEVER;
    link->retry_after = RETRY_FIRST;
    link->told = link->stopped = link->left = false;
    link->why = NULL;
    set_timer(link);
}

static bool initiates(const struct link *link)
{
    if (link->number != link->peer_qpn)
        return link->number > link->peer_qpn;
    return memcmp(link->own_gid.raw, link->peer_gid.raw, sizeof(link->own_gid.raw)) >= 0;
}

int link_to_rtr(struct link *link, const struct ibv_qp_attr *attr, int mask)
{
    int error;

    if (attr->dest_qp_num >> 24 || attr->dest_qp_num >> 8 == 0)
        return EINVAL;
    pthread_mutex_lock(&link->numbers->lock);
    error = link_set_peer(link, attr);
    if (!error) {
        link->stimuli &= 1u << LINK_REQUEST; /* others are of an earlier connection */
        link->left = false;
        vb_qp_failed(link->qp, IBV_WC_SUCCESS);
        link->ird = mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic : 0;
        link->rq_psn = attr->rq_psn & 0xffffff;
        link->rnr_timer = mask & IBV_QP_MIN_RNR_TIMER ? attr->min_rnr_timer : 0;
        vb_qp_enter(link->qp, IBV_QPS_RTR, VB_GATE_SHUT);
        link_stimulate(link, initiates(link) ? LINK_CONNECT : LINK_AWAIT);
    }
    pthread_mutex_unlock(&link->numbers->lock);
    return error;
}

/* The time for which InfiniBand would retry. */
static uint64_t patience_of(const struct ibv_qp_attr *attr, int mask)
{
    uint64_t patience = 0;

    if ((mask & IBV_QP_TIMEOUT) && !attr->timeout)
        return CLOCK_NEVER;
    if (mask & IBV_QP_TIMEOUT)
        patience = (ACK_TIMEOUT << (attr->timeout & 31)) *
                   (mask & IBV_QP_RETRY_CNT ? attr->retry_cnt + 1u : 1u);
    return patience > PATIENCE_LEAST ? patience : PATIENCE_LEAST;
}

int link_to_rts(struct link *link, const struct ibv_qp_attr *attr, int mask)
{
    enum vb_gate gate;
    uint8_t agreed;

    pthread_mutex_lock(&link->held.lock);
    pthread_mutex_lock(&link->numbers->lock);
    if (mask & IBV_QP_SQ_PSN) {
        link->sq_psn = attr->sq_psn & 0xffffff;
        link->has_sq_psn = true;
        check_psn(link);
    }
    if (!link->is_rts)
        link->patience = patience_of(attr, mask);
    link->is_rts = true;
    if (mask & IBV_QP_RNR_RETRY)
        link->rnr_retry = attr->rnr_retry;
    agreed = link->agreed;
    gate = link->held.passes && !link->left ? VB_GATE_OPEN : VB_GATE_HELD;
    vb_qp_enter(link->qp, IBV_QPS_RTS, gate); /* an upcall may close the gate from here on */
    pthread_mutex_unlock(&link->numbers->lock);
    pthread_mutex_unlock(&link->held.lock);
    if (agreed & HELLO_RNR)
        link_apply_terms(link);
    return 0;
}

void link_start_clock(struct link *link)
{
    pthread_mutex_lock(&link->numbers->lock);
    if (link->give_up_at == CLOCK_NEVER && link->patience != CLOCK_NEVER) {
        link->give_up_at = clock_after(clock_now(), link->patience);
        set_timer(link);
    }
    pthread_mutex_unlock(&link->numbers->lock);
}

/* Held requests flush. libibverbs calls vb_qp_enter next, which changes nothing more. */
void link_to_err(struct link *link)
{
    stop(link);
    vb_qp_abort(link->qp);
    pthread_mutex_lock(&link->held.lock);
    vb_held_release(&link->held, link->qp);
    pthread_mutex_unlock(&link->held.lock);
    pthread_mutex_lock(&link->numbers->lock);
    start(link, LINK_FAILED);
    pthread_mutex_unlock(&link->numbers->lock);
}

void link_reset(struct link *link)
{
    stop(link);
    vb_qp_failed(link->qp, IBV_WC_SUCCESS);
    pthread_mutex_lock(&link->held.lock);
    vb_held_drop(&link->held);
    pthread_mutex_unlock(&link->held.lock);
    pthread_mutex_lock(&link->numbers->lock);
    link->is_rts = link->has_sq_psn = link->has_peer_expects = false;
    link->agreed = 0;
    link->rnr_retry = LINK_RNR_FOREVER;
    start(link, LINK_IDLE);
    pthread_mutex_unlock(&link->numbers->lock);
}

/* --- life --- */

struct link *link_create(struct numbers *numbers, struct vb_qp *qp)
{
    struct link *link = calloc(1, sizeof(*link));

    if (!link)
        return NULL;
    link->numbers = numbers;
    link->qp = qp;
    link->timer.expired = run;
    link->patience = PATIENCE_LEAST;
    link->rnr_retry = LINK_RNR_FOREVER;
    vb_held_open(&link->held);
    link->held.fuses = vb_can_fuse(numbers->context);
    start(link, LINK_IDLE);
    return link;
}

/* The link cannot be found by its number any more. */
void link_free(struct link *link)
{
    struct parked *request;

    stop(link);
    while ((request = take_parked(link)))
        request_drop(request);
    vb_held_close(&link->held);
    free(link);
}
