/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * it_ia_free while other threads are inside calls on objects of the IA. Each round opens a pair of
 * nodes and connects them. Threads then make random calls on the passive node, another thread
 * connects to it and leaves again from the other node, until after a random time the passive IA is
 * freed. Every call returns; nothing is used after it was freed (sanitizers); waits without a limit
 * end with IT_ERR_ABORT; no call that begins after it_ia_free returned succeeds.
 */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define THREADS 6
#define SIZE    4096u

static struct pair pair;
static struct buffer mine; /* of the passive node; the memory outlives its LMR */
static it_net_addr_t address;
static atomic_bool freed;    /* it_ia_free has returned */
static atomic_bool finished; /* ... and the threads have finished */
static atomic_uint failures;
static char failure[128];

struct caller {
    pthread_t thread;
    struct tc_rng rng;
    unsigned long calls;
};

static void complain(const char *what, it_status_t status)
{
    if (atomic_fetch_add(&failures, 1) == 0)
        snprintf(failure, sizeof(failure), "%s: %s", what, itx_status_name(status));
}

/* Frees of the thread's own objects: freed by the call, or earlier with the IA. */
static it_status_t done_with(it_status_t status)
{
    switch (status) {
    case IT_ERR_INVALID_EP:
    case IT_ERR_INVALID_LMR:
    case IT_ERR_INVALID_RMR:
    case IT_ERR_INVALID_EVD:
    case IT_ERR_INVALID_SRQ:
    case IT_ERR_INVALID_PZ:
    case IT_ERR_INVALID_LISTEN: return IT_SUCCESS;
    default: break;
    }
    if (status != IT_SUCCESS)
        complain("an object cannot be freed", status);
    return status;
}

/* --- the calls; each returns the status of a call with a handle of the node --- */

static it_lmr_triplet_t some(struct caller *caller)
{
    return segment(&mine, tc_below(&caller->rng, SIZE / 2), 1 + tc_below(&caller->rng, SIZE / 2));
}

static it_status_t post(struct caller *caller)
{
    it_lmr_triplet_t local = some(caller);
    it_ep_handle_t ep = pair.b.ep;

    switch (tc_below(&caller->rng, 4)) {
    case 0: return it_post_send(ep, &local, 1, 1, BOTH);
    case 1: return it_post_recv(ep, &local, 1, 2, BOTH);
    case 2: return it_post_rdma_write(ep, &local, 1, 3, BOTH, 0, 0x1234);
    default: return it_post_rdma_read(ep, &local, 1, 4, BOTH, 0, 0x1234);
    }
}

static it_status_t dequeue(struct caller *caller)
{
    it_evd_handle_t evds[] = { pair.b.requests, pair.b.receives, pair.b.connections,
                               pair.b.affiliated };
    it_evd_handle_t evd = evds[tc_below(&caller->rng, 4)];
    it_event_t events[4];
    int count;

    if (tc_below(&caller->rng, 2))
        return it_evd_dequeue_n(evd, 4, events, &count);
    return it_evd_dequeue(evd, events);
}

static it_status_t wait(struct caller *caller)
{
    it_evd_handle_t evds[] = { pair.b.requests, pair.b.receives, pair.b.connections,
                               pair.b.affiliated };
    it_evd_handle_t evd = evds[tc_below(&caller->rng, 4)];
    it_event_t event;

    return it_evd_wait(evd, tc_below(&caller->rng, 200), &event, NULL);
}

/* No event comes there: only the end of the IA ends the wait. */
static it_status_t wait_for_ever(struct caller *caller)
{
    it_event_t event;
    it_status_t status;

    if (tc_below(&caller->rng, 50))
        return dequeue(caller);
    status = it_evd_wait(pair.b.affiliated, IT_TIMEOUT_INFINITE, &event, NULL);
    if (status != IT_SUCCESS && status != IT_ERR_ABORT && status != IT_ERR_INVALID_EVD)
        complain("a wait without a limit", status);
    return status;
}

static it_status_t modify(struct caller *caller)
{
    it_ep_attributes_t attributes;
    it_ep_param_t params;

    if (tc_below(&caller->rng, 2))
        return it_ep_query(pair.b.ep, IT_EP_PARAM_ALL, &params);
    attributes = node_attributes(&pair.a);
    attributes.srv.rc.rdma_read_ord = 1 + tc_below(&caller->rng, 8);
    return it_ep_modify(pair.b.ep, IT_EP_PARAM_MAX_ORD, &attributes);
}

static it_status_t disconnect(struct caller *caller)
{
    switch (tc_below(&caller->rng, 40)) {
    case 0: return it_ep_disconnect(pair.b.ep, NULL, 0);
    case 1: return it_ep_reset(pair.b.ep);
    default: return post(caller);
    }
}

static it_status_t memory(struct caller *caller)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;
    it_lmr_param_t params;
    it_status_t status = it_lmr_create(pair.b.pz, mine.data, NULL, SIZE, IT_ADDR_MODE_ABSOLUTE,
                                       EVERYTHING, IT_LMR_FLAG_NONE, 0, &lmr, &context);

    (void)caller;
    if (status != IT_SUCCESS)
        return status;
    it_lmr_query(lmr, IT_LMR_PARAM_ALL, &params);
    return done_with(it_lmr_free(lmr));
}

static it_status_t window(struct caller *caller)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;
    it_status_t status = it_rmr_create(pair.b.pz, IT_RMR_TYPE_WIDE, &rmr);

    if (status != IT_SUCCESS)
        return status;
    if (it_rmr_link(rmr, mine.lmr, mine.data, SIZE / 2, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE,
                    pair.b.ep, 5, BOTH, &context) == IT_SUCCESS &&
        tc_below(&caller->rng, 2))
        it_rmr_unlink(rmr, pair.b.ep, 6, BOTH);
    return done_with(it_rmr_free(rmr));
}

static it_status_t listen_again(struct caller *caller)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_listen_param_t params;
    it_listen_handle_t listen;
    it_status_t status = it_listen_create(pair.b.ia, 0, pair.b.asked, IT_LISTEN_NO_FLAG, &qualifier,
                                          &listen);

    (void)caller;
    if (status != IT_SUCCESS)
        return status;
    it_listen_query(listen, IT_LISTEN_PARAM_ALL, &params);
    return done_with(it_listen_free(listen));
}

static it_status_t make_ep(it_ep_handle_t *ep)
{
    it_ep_attributes_t attributes = node_attributes(&pair.a);

    return it_ep_rc_create(pair.b.pz, pair.b.requests, pair.b.receives, pair.b.connections,
                           IT_EP_NO_FLAG, &attributes, ep);
}

/* A request of the other node: accepted or rejected. */
static it_status_t decide(struct caller *caller)
{
    it_cn_est_identifier_t asked;
    it_ep_handle_t ep;
    it_event_t event;
    it_status_t status = it_evd_wait(pair.b.asked, 500, &event, NULL);

    if (status != IT_SUCCESS)
        return status;
    asked = event.conn_req.cn_est_id;
    if (tc_below(&caller->rng, 3) == 0)
        return it_reject(asked, NULL, 0);
    status = make_ep(&ep);
    if (status != IT_SUCCESS)
        return status;
    it_ep_accept(ep, asked, NULL, 0);
    if (tc_below(&caller->rng, 2))
        it_ep_disconnect(ep, NULL, 0);
    if (tc_below(&caller->rng, 2))
        it_ep_reset(ep);
    return done_with(it_ep_free(ep));
}

static it_status_t connect_out(struct caller *caller)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    size_t count = 1, total;
    it_path_t path;
    it_ep_handle_t ep;
    it_status_t status = it_get_pathinfo(pair.b.ia, 0, &address, &count, &total, &path);

    if (status != IT_SUCCESS)
        return status;
    qualifier.conn_qual.port = pair.b.qualifier.conn_qual.port; /* of the node itself */
    status = make_ep(&ep);
    if (status != IT_SUCCESS)
        return status;
    it_ep_connect(ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0);
    if (tc_below(&caller->rng, 2))
        it_ep_disconnect(ep, NULL, 0);
    return done_with(it_ep_free(ep));
}

static it_status_t ask(struct caller *caller)
{
    it_handle_type_enum_t type;
    it_context_t context = { .index = 1 };
    struct itx_counter counters[64];
    size_t count = 64;
    it_ia_info_t *info;
    it_status_t status;

    switch (tc_below(&caller->rng, 5)) {
    case 0: return it_get_handle_type((it_handle_t)pair.b.ep, &type);
    case 1: return it_set_consumer_context((it_handle_t)pair.b.ep, context);
    case 2: return it_get_consumer_context((it_handle_t)pair.b.ep, &context);
    case 3: return itx_counters((it_handle_t)pair.b.ep, counters, &count);
    default: break;
    }
    status = it_ia_query(pair.b.ia, &info);
    if (status == IT_SUCCESS)
        it_ia_info_free(info);
    return status;
}

static it_status_t others(struct caller *caller)
{
    it_evd_handle_t evd;
    it_srq_handle_t srq;
    it_pz_handle_t pz;
    it_status_t status;

    switch (tc_below(&caller->rng, 3)) {
    case 0:
        status = it_evd_create(pair.b.ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)0, 8,
                               IT_THRESHOLD_DISABLE, NULL, &evd, NULL);
        return status == IT_SUCCESS ? done_with(it_evd_free(evd)) : status;
    case 1:
        status = it_srq_create(pair.b.pz, 1, 8, &srq);
        return status == IT_SUCCESS ? done_with(it_srq_free(srq)) : status;
    default:
        status = it_pz_create(pair.b.ia, &pz);
        return status == IT_SUCCESS ? done_with(it_pz_free(pz)) : status;
    }
}

static const struct {
    const char *name;
    it_status_t (*make)(struct caller *caller);
} calls[] = {
    { "post", post },
    { "dequeue", dequeue },
    { "wait", wait },
    { "modify", modify },
    { "disconnect", disconnect },
    { "memory", memory },
    { "window", window },
    { "listen", listen_again },
    { "decide", decide },
    { "connect", connect_out },
    { "ask", ask },
    { "others", others },
    { "wait for ever", wait_for_ever },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* Makes calls until the IA is freed, and then each call once more. */
static void *make_calls(void *arg)
{
    struct caller *caller = arg;

    while (!atomic_load(&freed)) {
        calls[tc_below(&caller->rng, CALLS)].make(caller);
        caller->calls++;
    }
    for (size_t i = 0; i < CALLS; i++) {
        it_status_t status = calls[i].make(caller);

        if (status == IT_SUCCESS)
            complain(calls[i].name, status);
    }
    return NULL;
}

/* The other node: connects, and leaves in a random way. */
static void *knock(void *arg)
{
    struct caller *caller = arg;
    it_path_t path = path_to(&pair.a, &address);
    it_conn_qual_t qualifier = towards(&pair.b.qualifier);

    while (!atomic_load(&finished)) {
        it_ep_attributes_t attributes = node_attributes(&pair.a);
        it_ep_handle_t ep = node_make_ep(&pair.a, &attributes);
        it_event_t event;

        ok(it_ep_connect(ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
        if (tc_below(&caller->rng, 2))
            it_evd_wait(pair.a.connections, tc_below(&caller->rng, 1000), &event, NULL);
        ok(it_ep_free(ep));
        caller->calls++;
    }
    return NULL;
}

static void one_round(const char *name, uint64_t salt)
{
    struct caller callers[THREADS], peer = { .rng = tc_rng(salt) };
    struct tc_rng own = tc_rng(salt + THREADS + 1);
    uint64_t until;

    pair_connected(&pair, name);
    address = node_address(&pair.b, pair_family(&pair));
    mine = buffer_make(&pair.b, SIZE, EVERYTHING);
    atomic_store(&freed, false);
    atomic_store(&finished, false);
    for (unsigned int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){ .rng = tc_rng(salt + 1 + i) };
        ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, make_calls, &callers[i]), 0);
    }
    ck_assert_int_eq(pthread_create(&peer.thread, NULL, knock, &peer), 0);
    until = tc_now_ns() + tc_below(&own, 3000000);
    while (tc_now_ns() < until)
        sched_yield();
    ok(it_ia_free(pair.b.ia));
    atomic_store(&freed, true);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    atomic_store(&finished, true);
    pthread_join(peer.thread, NULL);
    is(IT_ERR_INVALID_IA, it_ia_free(pair.b.ia));
    it_ia_info_free(pair.b.info);
    node_close(&pair.a);
    munmap(mine.data, mine.length);
    ck_assert_msg(atomic_load(&failures) == 0, "%u times, first: %s", atomic_load(&failures),
                  failure);
}

START_TEST(calls_of_other_threads_end_when_the_IA_is_freed)
{
    unsigned long rounds = tc_count(40);

    for (unsigned long round = 0; round < rounds; round++)
        one_round(IFACE, round * 100);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("free_ia");
    TCase *tc = tc_case(suite, "calls", NULL, NULL);

    tcase_set_timeout(tc, 120);
    add_each(tc, calls_of_other_threads_end_when_the_IA_is_freed);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}
