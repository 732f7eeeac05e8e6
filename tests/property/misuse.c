/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Illegal calls, and legal ones without effect, during other threads' traffic. Each has one
 * predicted status, whatever the others do, as long as the side is not being freed.
 */
#include "traffic.h"

#define BEYOND_ALL_FLAGS ((it_dto_flags_t)0x40000000)

typedef it_status_t misuse_fn(struct side *side, struct tc_rng *rng);

static it_lmr_triplet_t tile(struct side *side)
{
    return segment(&side->tiles, 0, 16);
}

static it_status_t send_with_unknown_flags(struct side *side, struct tc_rng *rng)
{
    it_lmr_triplet_t one = tile(side);

    (void)rng;
    return it_post_send(side->node.ep, &one, 1, NO_COOKIE, BEYOND_ALL_FLAGS);
}

static it_status_t receive_with_solicited(struct side *side, struct tc_rng *rng)
{
    it_lmr_triplet_t one = segment(&side->receives, 0, 16);

    (void)rng;
    return it_post_recv(side->srq ? (it_handle_t)side->srq : (it_handle_t)side->node.ep, &one, 1,
                        NO_COOKIE, IT_SOLICITED_WAIT_FLAG);
}

static it_status_t write_with_too_many_segments(struct side *side, struct tc_rng *rng)
{
    it_lmr_triplet_t many[IT_EP_PARAM_ALL + 200];

    (void)rng;
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        many[i] = tile(side);
    return it_post_rdma_write(side->node.ep, many, sizeof(many) / sizeof(many[0]), NO_COOKIE, BOTH,
                              address_in(&side->peer->window, 0), side->peer->window.context);
}

static it_status_t write_with_a_wide_context(struct side *side, struct tc_rng *rng)
{
    it_lmr_triplet_t one = tile(side);

    return it_post_rdma_write(side->node.ep, &one, 1, NO_COOKIE, BOTH,
                              address_in(&side->peer->window, 0),
                              (it_rmr_context_t)1 << (33 + tc_below(rng, 30)));
}

static it_status_t send_on_garbage(struct side *side, struct tc_rng *rng)
{
    it_lmr_triplet_t one = tile(side);
    it_ep_handle_t garbage;
    uintptr_t value = (uintptr_t)tc_rand(rng) | 1; /* handles of endpoints are never odd ... */

    memcpy(&garbage, &value, sizeof(garbage));
    if (garbage == side->node.ep)
        return IT_ERR_INVALID_EP;
    return it_post_send(garbage, &one, 1, NO_COOKIE, BOTH);
}

static it_status_t send_on_an_evd(struct side *side, struct tc_rng *rng)
{
    it_lmr_triplet_t one = tile(side);

    (void)rng;
    return it_post_send((it_ep_handle_t)side->node.requests, &one, 1, NO_COOKIE, BOTH);
}

static it_status_t free_a_bound_evd(struct side *side, struct tc_rng *rng)
{
    return it_evd_free(tc_below(rng, 2) ? side->node.receives : side->node.connections);
}

static it_status_t free_a_used_pz(struct side *side, struct tc_rng *rng)
{
    (void)rng;
    return it_pz_free(side->node.pz);
}

static it_status_t free_an_lmr_that_is_a_pz(struct side *side, struct tc_rng *rng)
{
    (void)rng;
    return it_lmr_free((it_lmr_handle_t)side->node.pz);
}

static it_status_t free_an_lmr_twice(struct side *side, struct tc_rng *rng)
{
    struct buffer buffer = buffer_make(&side->node, 1 + tc_below(rng, 5000), EVERYTHING);
    it_lmr_handle_t lmr = buffer.lmr;

    buffer_free(&buffer);
    return it_lmr_free(lmr);
}

static it_status_t register_nothing(struct side *side, struct tc_rng *rng)
{
    it_lmr_handle_t lmr;

    (void)rng;
    return it_lmr_create(side->node.pz, side->window.data, NULL, 0, IT_ADDR_MODE_ABSOLUTE,
                         IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0, &lmr, NULL);
}

static it_status_t connect_again(struct side *side, struct tc_rng *rng)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = 7 };
    it_net_addr_t address = node_address(&side->node, IT_IPV4);
    it_path_t path = path_to(&side->node, &address);

    (void)rng;
    return it_ep_connect(side->node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0);
}

static it_status_t accept_nothing(struct side *side, struct tc_rng *rng)
{
    it_cn_est_identifier_t id;

    memset(&id, (int)(1 + tc_below(rng, 255)), sizeof(id));
    return tc_below(rng, 2) ? it_ep_accept(side->node.ep, id, NULL, 0) : it_reject(id, NULL, 0);
}

static it_status_t query_nothing(struct side *side, struct tc_rng *rng)
{
    it_ep_param_t params;

    (void)rng;
    return it_ep_query(side->node.ep, (it_ep_param_mask_t)0x40000000, &params);
}

static it_status_t evd_of_no_size(struct side *side, struct tc_rng *rng)
{
    it_evd_handle_t evd;

    (void)rng;
    return it_evd_create(side->node.ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, 0, 0, NULL,
                         &evd, NULL);
}

static it_status_t aggregate_in_an_aggregate(struct side *side, struct tc_rng *rng)
{
    it_evd_handle_t evd;

    (void)rng;
    return it_evd_create(side->node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, (it_evd_flags_t)0, 0, 0,
                         side->node.connections, &evd, NULL);
}

static it_status_t member_of_an_sevd(struct side *side, struct tc_rng *rng)
{
    it_evd_param_t params = { .aevd = side->node.connections };

    return it_evd_modify(tc_below(rng, 2) ? side->node.receives : side->node.affiliated,
                         IT_EVD_PARAM_AEVD_HANDLE, &params);
}

static it_status_t second_affiliated(struct side *side, struct tc_rng *rng)
{
    it_evd_handle_t evd;

    (void)rng;
    return it_evd_create(side->node.ia, IT_ASYNC_AFF_EVENT_STREAM, (it_evd_flags_t)0, 1, 0, NULL,
                         &evd, NULL);
}

static it_status_t software_event_for_completions(struct side *side, struct tc_rng *rng)
{
    (void)rng;
    return it_evd_post_se(side->node.requests, side);
}

static it_status_t unknown_interface(struct side *side, struct tc_rng *rng)
{
    it_ia_handle_t ia;

    (void)side;
    (void)rng;
    return it_ia_create("no interface has this name", 2, 1, &ia);
}

static it_status_t fill_a_software_evd(struct side *side, struct tc_rng *rng)
{
    size_t size = 1 + tc_below(rng, 5), posted = 0;
    it_evd_handle_t evd;
    it_status_t status;
    it_event_t event;

    ok(it_evd_create(side->node.ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, size, 0, NULL,
                     &evd, NULL));
    while ((status = it_evd_post_se(evd, &evd + posted)) == IT_SUCCESS)
        posted++;
    ck_assert_uint_ge(posted, size);
    for (size_t i = 0; i < posted; i++) {
        ok(it_evd_dequeue(evd, &event));
        ck_assert_ptr_eq(event.sw.data, &evd + i);
    }
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
    ok(it_evd_free(evd));
    return status;
}

static it_status_t zone_that_is_gone(struct side *side, struct tc_rng *rng)
{
    it_pz_handle_t pz;
    it_rmr_handle_t rmr;

    (void)rng;
    ok(it_pz_create(side->node.ia, &pz));
    ok(it_pz_free(pz));
    return it_rmr_create20(pz, IT_RMR_TYPE_DEFAULT, &rmr);
}

static it_status_t query_all(struct side *side, struct tc_rng *rng)
{
    it_ia_info_t *info;
    it_ep_param_t params;
    it_evd_param_t evd;

    (void)rng;
    ok(it_ia_query(side->node.ia, &info));
    it_ia_info_free(info);
    ok(it_evd_query(side->node.requests, IT_EVD_PARAM_ALL, &evd));
    return it_ep_query(side->node.ep, IT_EP_PARAM_ALL, &params);
}

static const struct {
    const char *name;
    misuse_fn *call;
    it_status_t answer;
} misuses[] = {
#define MISUSE(name, answer) \
    {                        \
#name, name, answer  \
    }
    MISUSE(send_with_unknown_flags, IT_ERR_INVALID_DTO_FLAGS),
    MISUSE(receive_with_solicited, IT_ERR_INVALID_DTO_FLAGS),
    MISUSE(write_with_too_many_segments, IT_ERR_INVALID_NUM_SEGMENTS),
    MISUSE(write_with_a_wide_context, IT_ERR_INVALID_RMR),
    MISUSE(send_on_garbage, IT_ERR_INVALID_EP),
    MISUSE(send_on_an_evd, IT_ERR_INVALID_EP),
    MISUSE(free_a_bound_evd, IT_ERR_EVD_BUSY),
    MISUSE(free_a_used_pz, IT_ERR_PZ_BUSY),
    MISUSE(free_an_lmr_that_is_a_pz, IT_ERR_INVALID_LMR),
    MISUSE(free_an_lmr_twice, IT_ERR_INVALID_LMR),
    MISUSE(register_nothing, IT_ERR_INVALID_LENGTH),
    MISUSE(connect_again, IT_ERR_INVALID_EP_STATE),
    MISUSE(accept_nothing, IT_ERR_INVALID_CN_EST_ID),
    MISUSE(query_nothing, IT_ERR_INVALID_MASK),
    MISUSE(evd_of_no_size, IT_ERR_INVALID_QUEUE_SIZE),
    MISUSE(aggregate_in_an_aggregate, IT_ERR_AEVD_NOT_ALLOWED),
    MISUSE(member_of_an_sevd, IT_ERR_INVALID_AEVD),
    MISUSE(second_affiliated, IT_ERR_ASYNC_AFF_EVD_EXISTS),
    MISUSE(software_event_for_completions, IT_ERR_INVALID_SOFT_EVD),
    MISUSE(unknown_interface, IT_ERR_INVALID_NAME),
    MISUSE(fill_a_software_evd, IT_ERR_EVD_QUEUE_FULL),
    MISUSE(zone_that_is_gone, IT_ERR_INVALID_PZ),
    MISUSE(query_all, IT_SUCCESS),
};
#define MISUSES (sizeof(misuses) / sizeof(misuses[0]))

void misuse(struct traffic *traffic, struct tc_rng *rng)
{
    struct side *side = &traffic->sides[tc_below(rng, 2)];
    size_t which = tc_below(rng, MISUSES);
    it_status_t status;

    if (traffic->ending == END_FREE_EP || traffic->ending == END_FREE_IA)
        return; /* the handles may be freed, and reused, during the call */
    status = misuses[which].call(side, rng);
    atomic_fetch_add_explicit(&traffic->misused, 1, memory_order_relaxed);
    ck_assert_msg(status == misuses[which].answer, "seed %llu: %s gives %s",
                  (unsigned long long)traffic->seed, misuses[which].name, itx_status_name(status));
}
