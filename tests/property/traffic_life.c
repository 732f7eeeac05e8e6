/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic: nodes, connections, how they end, and the checks afterwards. */
#include "traffic.h"

#include <sys/mman.h>

#define CANARY        0xa5
#define LIVES         4u /* connections of a history, at most */
#define LONGEST_QUEUE 1024u

#define said(traffic, condition, format, ...)                                           \
    ck_assert_msg(condition, "seed %llu: " format, (unsigned long long)(traffic)->seed, \
                  ##__VA_ARGS__)

/* --- a side --- */

static it_evd_handle_t completions(struct side *side, struct consumer *consumer)
{
    struct tc_rng *rng = &side->traffic->rng;
    it_evd_handle_t evd;
    bool with_fd;

    *consumer = (struct consumer){ .side = side, .fd = -1 };
    pthread_mutex_init(&consumer->lock, NULL);
    consumer->way = (enum way)tc_below(rng, CONSUMER_WAYS);
    with_fd = consumer->way == BY_DESCRIPTOR || tc_below(rng, 2);
    if (consumer->way == BY_AEVD || consumer->way == BY_NOTIFICATION)
        ok(it_evd_create(side->node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM,
                         consumer->way == BY_AEVD ? (it_evd_flags_t)0
                                                  : IT_EVD_DEQUEUE_NOTIFICATIONS,
                         0, 0, NULL, &consumer->aevd, NULL));
    ok(it_evd_create(side->node.ia, IT_DTO_EVENT_STREAM,
                     with_fd ? IT_EVD_CREATE_FD : (it_evd_flags_t)0, LONGEST_QUEUE,
                     IT_THRESHOLD_DISABLE, consumer->aevd, &evd, with_fd ? &consumer->fd : NULL));
    consumer->evd = evd;
    return evd;
}

static void side_evds(struct side *side)
{
    ok(it_evd_free(side->node.requests));
    ok(it_evd_free(side->node.receives));
    side->node.requests = side->node.receives = completions(side, &side->consumers[0]);
    side->consumer_count = 1;
    if (tc_below(&side->traffic->rng, 2)) {
        side->node.receives = completions(side, &side->consumers[1]);
        side->consumer_count = 2;
    }
}

/* A new queue has no Receives yet. */
static void side_srq(struct side *side)
{
    side->srq = NULL;
    atomic_store(&side->receives_posted, 0);
    atomic_store(&side->receives_done, 0);
    if (side->node.info->srq_support && tc_below(&side->traffic->rng, 2))
        ok(it_srq_create(side->node.pz, 1, RECEIVES, &side->srq));
}

/* Only the octets of the window are registered for the peer; guard octets surround them. */
static void side_window(struct side *side)
{
    side->mapping_length = GUARD + WINDOW + GUARD;
    side->mapping = mmap(NULL, side->mapping_length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(side->mapping, MAP_FAILED);
    memset(side->mapping, CANARY, side->mapping_length);
    side->window = (struct buffer){ .data = side->mapping + GUARD, .length = WINDOW };
    ok(it_lmr_create(side->node.pz, side->window.data, NULL, WINDOW, IT_ADDR_MODE_ABSOLUTE,
                     EVERYTHING, IT_LMR_FLAG_NONE, 0, &side->window.lmr, &side->window.context));
}

static void side_open(struct side *side)
{
    node_open(&side->node, side->traffic->interface);
    side_evds(side);
    side_srq(side);
    side_window(side);
    side->tiles = buffer_make(&side->node, (size_t)TILES * SLOT, IT_PRIV_LOCAL_READ);
    for (size_t value = 0; value < TILES; value++)
        memset(side->tiles.data + value * SLOT, (int)value, SLOT);
    side->receives = buffer_make(&side->node, (size_t)RECEIVES * MESSAGE, IT_PRIV_LOCAL);
}

static void side_close(struct side *side)
{
    it_ia_info_free(side->node.info);
    if (side->node.ia)
        ok(it_ia_free(side->node.ia));
    munmap(side->mapping, side->mapping_length);
    munmap(side->tiles.data, side->tiles.length);
    munmap(side->receives.data, side->receives.length);
    memset(&side->node, 0, sizeof(side->node));
}

static void check_guards(struct side *side)
{
    for (size_t i = 0; i < side->mapping_length; i++) {
        bool inside = i >= GUARD && i < GUARD + WINDOW;

        said(side->traffic, inside || side->mapping[i] == CANARY,
             "octet %zu outside of the window changed to 0x%02x", i, side->mapping[i]);
    }
}

/* --- a connection --- */

static it_ep_handle_t side_endpoint(struct side *side)
{
    it_ep_attributes_t attributes = node_attributes(&side->node);
    it_ep_handle_t ep;

    attributes.max_request_dtos = 16 + tc_below(&side->traffic->rng, 100);
    attributes.srv.rc.rdma_read_ord = 1 + (uint32_t)tc_below(&side->traffic->rng, 8);
    attributes.srv.rc.srq = side->srq;
    attributes.srv.rc.soft_hi_watermark = 0;
    attributes.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    ok(it_ep_rc_create(side->node.pz, side->node.requests, side->node.receives,
                       side->node.connections, side->srq ? IT_EP_SRQ : IT_EP_NO_FLAG, &attributes,
                       &ep));
    return ep;
}

/* The shared queue still has those that the earlier connection did not use. */
static uint64_t receives_left(struct side *side)
{
    if (!side->srq) {
        atomic_store(&side->receives_posted, 0);
        atomic_store(&side->receives_done, 0);
    }
    return atomic_load(&side->receives_posted) - atomic_load(&side->receives_done);
}

static void side_begin(struct side *side)
{
    uint64_t receives = 1 + tc_below(&side->traffic->rng, RECEIVES), left = receives_left(side);

    atomic_store(&side->credits, (int64_t)left);
    side->failed_send = side->failed_receive = false;
    atomic_store(&side->gone, false);
    atomic_store(&side->stop, false);
    if (!side->node.ep)
        side->node.ep = side_endpoint(side);
    for (; left < receives; left++)
        side_post_receive(side);
}

static void connect_sides(struct traffic *traffic)
{
    struct node *a = &traffic->sides[0].node, *b = &traffic->sides[1].node;
    it_net_addr_t address;
    it_path_t path;
    it_conn_qual_t qualifier;
    it_event_t asked;

    node_listen(b);
    address = node_address(b, IT_IPV4);
    path = path_to(a, &address);
    qualifier = towards(&b->qualifier);
    ok(it_ep_connect(a->ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    asked = expect(b->asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(b->ep, asked.conn_req.cn_est_id, NULL, 0));
    expect(a->connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(b->connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ok(it_listen_free(b->listen));
    b->listen = NULL;
}

static void start_threads(struct traffic *traffic)
{
    for (int s = 0; s < 2; s++) {
        struct side *side = &traffic->sides[s];

        for (unsigned i = 0; i < side->consumer_count; i++) {
            struct consumer *consumer = &side->consumers[i];

            consumer->ep = side->node.ep;
            consumer->worker = workers_run(consumer_run, consumer);
        }
        for (unsigned i = 0; i < POSTERS; i++) {
            struct poster *poster = &side->posters[i];

            poster->worker = workers_run(poster_run, poster);
        }
    }
}

static void join_poster(struct poster *poster)
{
    if (poster->worker)
        workers_join(poster->worker);
    poster->worker = NULL;
}

static void join_posters(struct traffic *traffic)
{
    for (int s = 0; s < 2; s++)
        for (unsigned i = 0; i < POSTERS; i++)
            join_poster(&traffic->sides[s].posters[i]);
}

static void join_consumers(struct traffic *traffic)
{
    atomic_store(&traffic->leave, true);
    for (int s = 0; s < 2; s++)
        for (unsigned i = 0; i < traffic->sides[s].consumer_count; i++)
            workers_join(traffic->sides[s].consumers[i].worker);
}

/* --- what must have come --- */

static bool all_requests_completed(struct side *side)
{
    for (unsigned i = 0; i < POSTERS; i++)
        if (!poster_is_settled(&side->posters[i]))
            return false;
    return true;
}

static bool all_messages_arrived(struct side *side)
{
    for (unsigned i = 0; i < POSTERS; i++)
        if (atomic_load(&side->posters[i].received) != side->posters[i].sends)
            return false;
    return true;
}

static void await_requests(struct side *side)
{
    if (!atomic_load(&side->gone))
        said(side->traffic, tc_until(all_requests_completed(side), PATIENCE),
             "not every request of side %td completed", side - side->traffic->sides);
}

static bool all_receives_completed(struct side *side)
{
    return atomic_load(&side->receives_done) == atomic_load(&side->receives_posted);
}

/* Receives of a shared queue that no message took stay there. */
static void await_receives(struct side *side)
{
    if (!atomic_load(&side->gone) && !side->srq)
        said(side->traffic, tc_until(all_receives_completed(side), PATIENCE),
             "%llu of %llu Receives of side %td completed",
             (unsigned long long)atomic_load(&side->receives_done),
             (unsigned long long)atomic_load(&side->receives_posted), side - side->traffic->sides);
}

/* Exactly one event. */
static void await_end(struct side *side)
{
    it_event_t event;

    if (atomic_load(&side->gone))
        return;
    event = next(side->node.connections);
    said(side->traffic,
         event.event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT ||
             event.event_number == IT_CM_MSG_CONN_BROKEN_EVENT,
         "a connection ends with %s", itx_event_name(event.event_number));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(side->node.connections, &event));
    ck_assert_int_eq(node_state(side->node.ep), IT_EP_STATE_NONOPERATIONAL);
}

static void drain_affiliated(struct side *side)
{
    it_event_t event;

    while (!atomic_load(&side->gone) && it_evd_dequeue(side->node.affiliated, &event) == IT_SUCCESS)
        ck_assert_ptr_eq(event.aff_async.cause.ep, side->node.ep);
}

/* --- ends --- */

static void end_in_order(struct traffic *traffic)
{
    join_posters(traffic);
    for (int s = 0; s < 2; s++)
        await_requests(&traffic->sides[s]);
    for (int s = 0; s < 2; s++)
        said(traffic, tc_until(all_messages_arrived(&traffic->sides[s]), PATIENCE),
             "not every message arrived");
    atomic_store(&traffic->stop, true);
    ok(it_ep_disconnect(traffic->sides[traffic->culprit].node.ep, NULL, 0));
}

static void end_in_the_middle(struct traffic *traffic)
{
    struct side *culprit = &traffic->sides[traffic->culprit];
    uint64_t when = tc_below(&traffic->rng, traffic->requests);

    tc_until(atomic_load(&traffic->events) >= when, PATIENCE);
    if (traffic->ending == END_FREE_EP) { /* no other thread may be using it */
        atomic_store(&culprit->stop, true);
        for (unsigned i = 0; i < POSTERS; i++)
            join_poster(&culprit->posters[i]);
    }
    atomic_store(&culprit->gone, traffic->ending != END_DISCONNECT);
    if (traffic->ending == END_DISCONNECT) {
        ok(it_ep_disconnect(culprit->node.ep, NULL, 0));
    } else if (traffic->ending == END_FREE_EP) {
        ok(it_ep_free(culprit->node.ep));
        culprit->node.ep = NULL;
    } else {
        ok(it_ia_free(culprit->node.ia));
        culprit->node.ia = NULL;
    }
}

static void check_the_end(struct traffic *traffic)
{
    for (int s = 0; s < 2; s++)
        await_end(&traffic->sides[s]);
    atomic_store(&traffic->stop, true);
    if (traffic->ending != END_IN_ORDER)
        join_posters(traffic);
    for (int s = 0; s < 2; s++) {
        await_requests(&traffic->sides[s]);
        await_receives(&traffic->sides[s]);
    }
    join_consumers(traffic);
    for (int s = 0; s < 2; s++) {
        struct side *side = &traffic->sides[s];

        for (unsigned i = 0; i < POSTERS; i++) {
            poster_compare_reads(&side->posters[i]);
            poster_compare_area(&side->posters[i], traffic->ending == END_IN_ORDER);
        }
        check_guards(side);
        drain_affiliated(side);
    }
}

/* A Receive that a message had taken from the shared queue completes at the reset at the latest;
 * one of a freed endpoint has no completion. */
static void settle_srq(struct side *side)
{
    if (!side->srq || !side->node.ia)
        return;
    if (side->node.ep) {
        ok(it_ep_reset(side->node.ep));
        side_take_receives(side);
    } else {
        ok(it_srq_free(side->srq));
        side_srq(side);
    }
}

/* Objects of the freed endpoint still exist, or were freed with its adapter. */
static void clean_up(struct traffic *traffic)
{
    for (int s = 0; s < 2; s++) {
        struct side *side = &traffic->sides[s];

        settle_srq(side);
        for (unsigned i = 0; i < POSTERS; i++) {
            if (side->node.ia)
                poster_end(&side->posters[i]);
            else
                munmap(side->posters[i].local.data, side->posters[i].local.length);
        }
        if (!side->node.ia) {
            side_close(side);
            side_open(side);
        } else if (!side->node.ep || tc_below(&traffic->rng, 2)) {
            it_event_t event;

            if (side->node.ep)
                ok(it_ep_free(side->node.ep));
            side->node.ep = NULL;
            while (it_evd_dequeue(side->node.requests, &event) == IT_SUCCESS ||
                   it_evd_dequeue(side->node.receives, &event) == IT_SUCCESS)
                ;
        } else {
            ok(it_ep_reset(side->node.ep));
        }
    }
}

static void life(struct traffic *traffic)
{
    traffic->ending = (enum ending)tc_below(&traffic->rng, ENDINGS);
    traffic->culprit = (unsigned)tc_below(&traffic->rng, 2);
    traffic->requests = 1 + tc_below(&traffic->rng, 400);
    atomic_store(&traffic->stop, false);
    atomic_store(&traffic->leave, false);
    atomic_store(&traffic->events, 0);
    for (int s = 0; s < 2; s++) {
        for (unsigned i = 0; i < POSTERS; i++)
            poster_begin(&traffic->sides[s].posters[i], &traffic->sides[s], i);
        side_begin(&traffic->sides[s]);
    }
    connect_sides(traffic);
    start_threads(traffic);
    if (traffic->ending == END_IN_ORDER)
        end_in_order(traffic);
    else if (traffic->ending < END_BEYOND)
        end_in_the_middle(traffic);
    check_the_end(traffic);
    clean_up(traffic);
}

void traffic_history(const char *interface, uint64_t seed, struct traffic *traffic)
{
    unsigned lives;

    memset(traffic, 0, sizeof(*traffic));
    traffic->interface = interface;
    traffic->seed = seed;
    traffic->rng = tc_rng(seed);
    for (int s = 0; s < 2; s++) {
        traffic->sides[s].traffic = traffic;
        traffic->sides[s].peer = &traffic->sides[1 - s];
        side_open(&traffic->sides[s]);
    }
    lives = 1 + (unsigned)tc_below(&traffic->rng, LIVES);
    while (lives--)
        life(traffic);
    for (int s = 0; s < 2; s++)
        side_close(&traffic->sides[s]);
}
