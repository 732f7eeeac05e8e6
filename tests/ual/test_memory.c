/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues, windows, and regions that work requests link, over a fake kal: life cycle,
 * keys, and the known state of a link after every outcome of the requests. Changes of endpoint
 * attributes.
 */
#include "ual/mechanism/mechanism_private.h"
#include "ia_fixture.h"

#define NARROW_STAG 0xabcd1200u
#define MR_STAG     0x00345600u
#define SIGNALED    RI_WR_SIGNALED

static char memory[4096];

/* Takes the completion at the head, which is of a memory request; returns its object. */
static ual_handle done(enum ri_wc_opcode opcode, enum ri_wc_status status)
{
    struct ual_event event = next_event(dto_evd);

    ck_assert_int_eq(event.wc.opcode, opcode);
    ck_assert_int_eq(event.wc.status, status);
    ck_assert(ual_memory_completion(&event.wc));
    return ual_event_memory(&event);
}

/* --- shared receive queues --- */

START_TEST(srq_life)
{
    struct ri_srq_attr attr = { .max_wr = 50, .limit = 3 };
    struct ual_srq *srq = NULL;

    fails(ual_srq_create(pz, 0, 1, &srq), RI_ERR_INVALID_ARGUMENT);
    fails(ual_srq_create(pz, 1, 0, &srq), RI_ERR_INVALID_ARGUMENT);
    fails(ual_srq_create(pz, 101, 1, &srq), RI_ERR_LIMIT);
    fails(ual_srq_create(pz, 1, 5, &srq), RI_ERR_LIMIT);
    fk_fail(FK_SRQ_CREATE, ITAL_ERR_QUOTA);
    fails(ual_srq_create(pz, 10, 2, &srq), ITAL_ERR_QUOTA);
    ck_assert_ptr_null(srq);
    ok(ual_srq_create(pz, 10, 2, &srq));
    ck_assert_uint_eq(srq->max_sge, 3);
    ck_assert_ptr_eq(ual_lookup(ual_handle_of(srq), UAL_SRQ), srq);
    ok(ual_srq_modify(srq, RI_SRQM_MAX_WR | RI_SRQM_LIMIT, &attr));
    memset(&attr, 0, sizeof(attr));
    ok(ual_srq_query(srq, &attr));
    ck_assert_uint_eq(attr.max_wr, 50);
    ck_assert_uint_eq(attr.limit, 3);
    attr.max_wr = 101;
    fails(ual_srq_modify(srq, RI_SRQM_MAX_WR, &attr), RI_ERR_LIMIT);
    attr.max_wr = 0;
    fails(ual_srq_modify(srq, RI_SRQM_MAX_WR, &attr), RI_ERR_INVALID_ARGUMENT);
    fails(ual_srq_modify(srq, 4, &attr), RI_ERR_INVALID_ARGUMENT);
    ok(ual_srq_modify(srq, RI_SRQM_LIMIT, &attr)); /* max_wr is ignored */
    fk_fail(FK_SRQ_MODIFY, RI_ERR_BUSY);
    fails(ual_srq_modify(srq, RI_SRQM_LIMIT, &attr), RI_ERR_BUSY);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_SRQ_RESIZE;
    attr.max_wr = 20;
    fails(ual_srq_modify(srq, RI_SRQM_MAX_WR, &attr), RI_ERR_NOT_SUPPORTED);
    fk_fail(FK_SRQ_DESTROY, RI_ERR_BUSY);
    fails(ual_srq_free(srq), RI_ERR_BUSY);
    ok(ual_srq_free(srq));
    fk.attr.features &= ~(uint64_t)RI_FEATURE_SRQ;
    fails(ual_srq_create(pz, 10, 2, &srq), RI_ERR_NOT_SUPPORTED);
}
END_TEST

static struct ual_ep *make_srq_ep(struct ual_srq *srq)
{
    struct ual_ep_attr attr = {
        .max_send_wr = 4, .max_send_sge = 1, .srq = srq, .rq_limit = 5, .rq_hard_limit = 6
    };
    struct ual_ep *made = NULL;

    ok(ual_ep_create(pz, dto_evd, dto_evd, connect_evd, &attr, &made));
    return made;
}

START_TEST(srq_users)
{
    struct ual_pd *other;
    struct ual_srq *srq, *foreign;
    struct ual_ep_attr attr = { .max_send_wr = 4, .max_send_sge = 1 };
    struct ri_recv_wr wr = { .cookie = 1 };
    struct ual_ep *user = NULL;

    ok(ual_srq_create(pz, 2, 1, &srq));
    user = make_srq_ep(srq);
    ck_assert_ptr_eq(fk.qp->attr.srq, srq->srq);
    ck_assert_uint_eq(fk.qp->attr.rq_limit, 5);
    ck_assert_uint_eq(fk.qp->attr.rq_hard_limit, 6);
    fails(ual_srq_free(srq), RI_ERR_BUSY);
    ok(ual_post_srq_recv(srq, &wr));
    ok(ual_post_srq_recv(srq, &wr));
    fails(ual_post_srq_recv(srq, &wr), RI_ERR_QUEUE_FULL);
    ok(ual_ep_free(user));
    ok(ual_pd_create(ia, &other));
    ok(ual_srq_create(other, 2, 1, &foreign));
    fails(ual_pd_free(other), RI_ERR_BUSY);
    attr.srq = foreign;
    fails(ual_ep_create(pz, dto_evd, dto_evd, connect_evd, &attr, &user), RI_ERR_INVALID_ARGUMENT);
    attr.srq = srq;
    fk_fail(FK_QP_CREATE, RI_ERR_NO_RESOURCES);
    fails(ual_ep_create(pz, dto_evd, dto_evd, connect_evd, &attr, &user), RI_ERR_NO_RESOURCES);
    ok(ual_srq_free(srq)); /* the failed one does not count */
    ok(ual_srq_free(foreign));
    ok(ual_pd_free(other));
}
END_TEST

START_TEST(srq_events)
{
    struct ual_event event;
    struct ual_srq *srq;

    ok(ual_srq_create(pz, 2, 1, &srq));
    fk_srq_event(fk.srq, RI_EVENT_SRQ_LIMIT_REACHED);
    event = next_event(affiliated_evd);
    ck_assert_int_eq(event.async.type, RI_EVENT_SRQ_LIMIT_REACHED);
    ck_assert_uint_eq(event.async.cause, ual_handle_of(srq));
    fk_qp_event(fk.qp, RI_EVENT_QP_RQ_LIMIT_REACHED, 0);
    event = next_event(affiliated_evd);
    ck_assert_int_eq(event.async.type, RI_EVENT_QP_RQ_LIMIT_REACHED);
    ck_assert_uint_eq(event.async.cause, ual_handle_of(ep));
    expect_nothing(connect_evd);
    fk_srq_event(fk.srq, RI_EVENT_SRQ_FATAL);
    fk_drain();
    ok(ual_srq_free(srq)); /* the queued event is discarded with it */
    expect_nothing(affiliated_evd);
}
END_TEST

/* --- windows --- */

static struct ual_mr *mr;
static struct ual_mw *mw;
static struct ual_mw_link part = { .addr = memory + 100,
                                   .length = 200,
                                   .access = RI_ACCESS_REMOTE_READ | RI_ACCESS_ZERO_BASED,
                                   .note = 77 };

static void open_windows(void)
{
    open_ia();
    establish(ep);
    fk.next_stag = MR_STAG;
    ok(ual_mr_create(pz, memory, sizeof(memory), RI_ACCESS_LOCAL_WRITE, 0, 0, &mr));
    fk.next_stag = NARROW_STAG | 0xfe;
    ok(ual_mw_create(pz, true, &mw));
    part.mr = mr;
}

static struct ual_mw_state state_of(struct ual_mw *which)
{
    struct ual_mw_state state;

    ual_mw_query(which, &state);
    return state;
}

static void expect_linked(bool linked)
{
    ck_assert_int_eq(state_of(mw).linked, linked);
}

static void link_quietly(uint32_t *stag)
{
    ok(ual_mw_link(mw, &ep->qp, &part, 1, 0, stag));
}

START_TEST(window_life)
{
    struct ual_mw *other = NULL;

    fk_fail(FK_MW_CREATE, ITAL_ERR_QUOTA);
    fails(ual_mw_create(pz, true, &other), ITAL_ERR_QUOTA);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_MW_WIDE;
    fails(ual_mw_create(pz, false, &other), RI_ERR_NOT_SUPPORTED);
    fk.attr.features ^= RI_FEATURE_MW_WIDE | RI_FEATURE_MW_NARROW;
    fails(ual_mw_create(pz, true, &other), RI_ERR_NOT_SUPPORTED);
    ck_assert_ptr_null(other);
    ok(ual_mw_create(pz, false, &other));
    ck_assert_ptr_eq(ual_lookup(ual_handle_of(other), UAL_MW), other);
    ck_assert_ptr_eq(ual_mw_pd(other), pz);
    ck_assert(!state_of(other).narrow);
    ck_assert(state_of(mw).narrow);
    expect_linked(false);
    fk_fail(FK_MW_DESTROY, RI_ERR_BUSY);
    fails(ual_mw_free(other), RI_ERR_BUSY);
    ck_assert_ptr_eq(ual_lookup(ual_handle_of(other), UAL_MW), other);
    ok(ual_mw_free(other));
}
END_TEST

/* Each link uses the next key; the index of the STag stays. A link that was not posted uses
 * none. */
START_TEST(window_keys)
{
    struct ual_mw_state state;
    uint32_t stag = 0;

    link_quietly(&stag);
    ck_assert_uint_eq(stag, NARROW_STAG | 0xff);
    ck_assert_int_eq(fk.wr.opcode, RI_WR_BIND_WINDOW);
    ck_assert_uint_eq(fk.wr.bind.new_key, 0xff);
    ck_assert_ptr_eq(fk.wr.bind.mr, mr->region->mr);
    ck_assert_uint_eq(fk.wr.bind.addr, (uintptr_t)memory + 100);
    ck_assert_uint_eq(fk.wr.bind.length, 200);
    ck_assert_uint_eq(fk.wr.bind.access, RI_ACCESS_REMOTE_READ);
    ck_assert_uint_eq(fk.wr.bind.zero_based, 1);
    state = state_of(mw);
    ck_assert(state.linked);
    ck_assert_uint_eq(state.mr, ual_handle_of(mr));
    ck_assert_uint_eq(state.qp, ual_handle_of(ep));
    ck_assert_ptr_eq(state.addr, memory + 100);
    ck_assert_uint_eq(state.length, 200);
    ck_assert_uint_eq(state.note, 77);
    ck_assert_uint_eq(state.stag, stag);
    fk.next_post = RI_ERR_QUEUE_FULL;
    fails(ual_mw_link(mw, &ep->qp, &part, 1, 0, &stag), RI_ERR_QUEUE_FULL);
    ck_assert_uint_eq(stag, NARROW_STAG | 0xff);
    link_quietly(&stag);
    ck_assert_uint_eq(stag, NARROW_STAG);
    ok(ual_mw_unlink(mw, &ep->qp, 2, RI_WR_LOCAL_FENCE));
    ck_assert_int_eq(fk.wr.opcode, RI_WR_LOCAL_INVALIDATE);
    ck_assert_int_eq(fk.wr.flags, RI_WR_LOCAL_FENCE);
    ck_assert_uint_eq(fk.wr.invalidate_stag, NARROW_STAG);
    expect_linked(false);
    link_quietly(&stag);
    ck_assert_uint_eq(stag, NARROW_STAG | 1);
}
END_TEST

START_TEST(window_link_outcomes)
{
    uint32_t stag;

    ok(ual_mw_link(mw, &ep->qp, &part, 1, SIGNALED, &stag));
    ck_assert_uint_eq(done(RI_WC_BIND_WINDOW, RI_WC_SUCCESS), ual_handle_of(mw));
    expect_linked(true);
    ok(ual_mw_unlink(mw, &ep->qp, 1, SIGNALED));
    ck_assert_uint_eq(done(RI_WC_LOCAL_INVALIDATE, RI_WC_SUCCESS), ual_handle_of(mw));
    expect_linked(false);
    fk.next_status = RI_WC_BIND;
    link_quietly(&stag);
    ck_assert_uint_eq(done(RI_WC_BIND_WINDOW, RI_WC_BIND), ual_handle_of(mw));
    expect_linked(false);
    link_quietly(&stag);
    fk.next_status = RI_WC_FLUSHED;
    ok(ual_mw_unlink(mw, &ep->qp, 1, 0));
    expect_linked(false); /* until the outcome is known */
    done(RI_WC_LOCAL_INVALIDATE, RI_WC_FLUSHED);
    expect_linked(true);
}
END_TEST

/* Link and unlink both fail: the window is not linked, whatever the second failure alone would
 * mean. */
START_TEST(window_both_flushed)
{
    uint32_t stag;

    fk.next_status = RI_WC_FLUSHED;
    link_quietly(&stag);
    fk.next_status = RI_WC_FLUSHED;
    ok(ual_mw_unlink(mw, &ep->qp, 1, 0));
    done(RI_WC_BIND_WINDOW, RI_WC_FLUSHED);
    expect_linked(false);
    done(RI_WC_LOCAL_INVALIDATE, RI_WC_FLUSHED);
    expect_linked(false);
}
END_TEST

/* A refused link leaves the earlier link in place, with all its attributes; the key is not used
 * again. */
START_TEST(window_keeps_its_link)
{
    struct ual_mw_link next = part;
    struct ual_mw_state state;
    uint32_t first, second, third;

    next.addr = memory + 300;
    next.note = 78;
    link_quietly(&first);
    fk.next_status = RI_WC_FLUSHED;
    ok(ual_mw_link(mw, &ep->qp, &next, 1, SIGNALED, &second));
    ck_assert_ptr_eq(state_of(mw).addr, memory + 300); /* as requested */
    ck_assert_uint_eq(done(RI_WC_BIND_WINDOW, RI_WC_FLUSHED), ual_handle_of(mw));
    state = state_of(mw);
    ck_assert(state.linked);
    ck_assert_uint_eq(state.stag, first);
    ck_assert_ptr_eq(state.addr, memory + 100);
    ck_assert_uint_eq(state.note, 77);
    link_quietly(&third);
    ck_assert_uint_ne(third, second);
    ck_assert_uint_ne(third, first);
    ok(ual_mw_unlink(mw, &ep->qp, 1, 0));
    ck_assert_uint_eq(fk.wr.invalidate_stag, third);
}
END_TEST

/* An unlink and the link after it are both flushed. */
START_TEST(window_stays_behind_flushed)
{
    uint32_t first, second;

    for (int i = 0; i < 2; i++) {
        link_quietly(&first);
        if (i == 0)
            fk.next_status = RI_WC_FLUSHED;
        ok(ual_mw_unlink(mw, &ep->qp, 1, SIGNALED));
        fk.next_status = RI_WC_FLUSHED;
        link_quietly(&second);
        done(RI_WC_LOCAL_INVALIDATE, i ? RI_WC_SUCCESS : RI_WC_FLUSHED);
        expect_linked(true); /* as requested */
        done(RI_WC_BIND_WINDOW, RI_WC_FLUSHED);
        expect_linked(i == 0);
        ck_assert_uint_eq(state_of(mw).stag, first);
    }
}
END_TEST

static void invalidated_by_peer(uint32_t stag)
{
    struct ri_wc wc = { .opcode = RI_WC_RECV,
                        .flags = RI_WC_WITH_INVALIDATE,
                        .invalidated_stag = stag };

    fk_complete(fk.qp, &wc);
}

START_TEST(window_unlinked_by_peer)
{
    uint32_t first, second;

    link_quietly(&first);
    invalidated_by_peer(first);
    link_quietly(&second); /* before the completion was taken */
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), ual_handle_of(mw));
    expect_linked(true);
    invalidated_by_peer(second);
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), ual_handle_of(mw));
    expect_linked(false);
    invalidated_by_peer(0x99999900); /* an STag of no object */
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), 0);
    invalidated_by_peer(MR_STAG);
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), ual_handle_of(mr));
    ck_assert(!ual_mr_linked(mr));
    invalidated_by_peer(second);
    ok(ual_mw_free(mw));
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), 0); /* the object is freed */
}
END_TEST

/* The STag of a freed window is given to another window before the old one has left the table. */
START_TEST(window_index_reused)
{
    struct ual_mw *second;

    fk.next_stag = NARROW_STAG | 0x10;
    ok(ual_mw_create(pz, true, &second));
    invalidated_by_peer(NARROW_STAG | 0x10);
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), ual_handle_of(second));
    ok(ual_mw_free(second));
    invalidated_by_peer(NARROW_STAG);
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), ual_handle_of(mw));
}
END_TEST

START_TEST(narrow_is_of_one_endpoint)
{
    struct ual_ep *other = make_ep();
    struct ual_mw *wide;
    uint32_t stag;

    establish(other);
    link_quietly(&stag);
    fails(ual_mw_unlink(mw, &other->qp, 1, 0), RI_ERR_ACCESS);
    expect_linked(true);
    fk.next_stag = 0x111100;
    ok(ual_mw_create(pz, false, &wide));
    ok(ual_mw_link(wide, &ep->qp, &part, 1, 0, &stag));
    ok(ual_mw_unlink(wide, &other->qp, 1, 0));
    ok(ual_mw_link(wide, &ep->qp, &part, 1, 0, &stag));
    ok(ual_ep_free(ep));
    expect_linked(false); /* the link ends with its endpoint */
    ck_assert(state_of(wide).linked);
    ok(ual_mw_unlink(mw, &other->qp, 1, 0));
    ep = other;
}
END_TEST

/* One thread has taken a completion of an endpoint that another thread frees. */
START_TEST(completion_outlives_endpoint)
{
    ual_handle handle = ual_handle_of(ep);
    struct ual_event event;
    uint32_t stag;

    ok(ual_mw_link(mw, &ep->qp, &part, 1, SIGNALED, &stag));
    event = next_event(dto_evd);
    ok(ual_ep_free(ep));
    ep = make_ep();
    ck_assert_uint_ne(handle, ual_handle_of(ep));
    ck_assert_uint_eq((ual_handle)event.wc.context, handle);
    ck_assert_uint_eq(ual_event_memory(&event), ual_handle_of(mw));
    expect_linked(false);
}
END_TEST

/* Work requests need a connected endpoint, or one in the error state. */
START_TEST(window_states)
{
    struct ual_ep *idle = make_ep();
    uint32_t stag = 5;

    fails(ual_mw_link(mw, &idle->qp, &part, 1, 0, &stag), RI_ERR_INVALID_STATE);
    fails(ual_mw_unlink(mw, &idle->qp, 1, 0), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(stag, 5);
    expect_linked(false);
    ok(ual_ep_free(idle));
    fk_end(fk.connection->qp, RI_EVENT_LLP_RESET);
    expect(connect_evd, UAL_BROKEN);
    ok(ual_mw_link(mw, &ep->qp, &part, 1, SIGNALED, &stag));
    done(RI_WC_BIND_WINDOW, RI_WC_FLUSHED);
    expect_linked(false);
}
END_TEST

START_TEST(sink_of_a_read)
{
    struct ri_sge sge = { .lkey = NARROW_STAG | 0xff };
    struct ri_send_wr wr = {
        .opcode = RI_WR_RDMA_READ_INVALIDATE, .sg_list = &sge, .num_sge = 1, .flags = SIGNALED
    };
    uint32_t stag;

    link_quietly(&stag);
    ok(ual_mw_post_read(mw, &ep->qp, &wr));
    expect_linked(true); /* until it is done */
    ck_assert_uint_eq(done(RI_WC_RDMA_READ, RI_WC_SUCCESS), ual_handle_of(mw));
    expect_linked(false);
    link_quietly(&stag);
    ck_assert_uint_eq(stag, NARROW_STAG);
    sge.lkey = NARROW_STAG;
    wr.flags = 0; /* success is not signalled, failure is */
    fk.next_status = RI_WC_REMOTE_ACCESS;
    ok(ual_mw_post_read(mw, &ep->qp, &wr));
    expect_linked(false);
    ck_assert_uint_eq(done(RI_WC_RDMA_READ, RI_WC_REMOTE_ACCESS), ual_handle_of(mw));
    expect_linked(true);
    fk.next_post = RI_ERR_QUEUE_FULL;
    fails(ual_mw_post_read(mw, &ep->qp, &wr), RI_ERR_QUEUE_FULL);
    expect_linked(true);
    ok(ual_mw_post_read(mw, &ep->qp, &wr));
    expect_linked(false);
    ck_assert(ual_mr_linked(mr));
    sge.lkey = MR_STAG;
    ok(ual_mr_post_read(mr, &ep->qp, &wr));
    ck_assert(!ual_mr_linked(mr));
}
END_TEST

/* --- regions by work request --- */

START_TEST(regions_by_request)
{
    uint64_t pages[17] = { (uintptr_t)memory };
    struct ual_mr_link link = { .addr = memory,
                                .length = 64,
                                .access = RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_WRITE,
                                .pages = pages,
                                .num_pages = 1,
                                .page_size = 4096,
                                .first_offset = 16 };
    struct ual_mr *empty = NULL;

    fails(ual_mr_create_unlinked(pz, 0, 0, 0, &empty), RI_ERR_INVALID_ARGUMENT);
    fails(ual_mr_create_unlinked(pz, 17, 0, 0, &empty), RI_ERR_LIMIT);
    fk.next_stag = 0x00777707;
    ok(ual_mr_create_unlinked(pz, 2, 9, 0, &empty));
    ck_assert_ptr_null(fk.region.addr);
    ck_assert_uint_eq(fk.region.pages, 2);
    ck_assert(!ual_mr_linked(empty));
    link.num_pages = 3;
    fails(ual_mr_link(empty, &ep->qp, &link, 1, 0), RI_ERR_LIMIT);
    link.num_pages = 1;
    ok(ual_mr_link(empty, &ep->qp, &link, 1, SIGNALED));
    ck_assert_int_eq(fk.wr.opcode, RI_WR_FAST_REGISTER);
    ck_assert_uint_eq(fk.wr.fast_register.new_key, 8);
    ck_assert_uint_eq(fk.wr.fast_register.io_addr, (uintptr_t)memory);
    ck_assert_uint_eq(fk.wr.fast_register.first_offset, 16);
    ck_assert_uint_eq(empty->lkey, 0x00777708);
    ck_assert_uint_eq(empty->rkey, 0x00777708);
    ck_assert_uint_eq(empty->length, 64);
    ck_assert_uint_eq(done(RI_WC_FAST_REGISTER, RI_WC_SUCCESS), ual_handle_of(empty));
    ck_assert(ual_mr_linked(empty));
    fails(ual_mr_link(empty, &ep->qp, &link, 1, 0), RI_ERR_BUSY);
    ok(ual_mr_unlink(empty, &ep->qp, 1, SIGNALED));
    ck_assert_uint_eq(fk.wr.invalidate_stag, 0x00777708);
    ck_assert_uint_eq(done(RI_WC_LOCAL_INVALIDATE, RI_WC_SUCCESS), ual_handle_of(empty));
    ck_assert(!ual_mr_linked(empty));
    link.access |= RI_ACCESS_ZERO_BASED;
    fk.next_status = RI_WC_MM_OPERATION;
    ok(ual_mr_link(empty, &ep->qp, &link, 1, 0));
    ck_assert_uint_eq(fk.wr.fast_register.io_addr, 0);
    ck_assert_uint_eq(done(RI_WC_FAST_REGISTER, RI_WC_MM_OPERATION), ual_handle_of(empty));
    ck_assert(!ual_mr_linked(empty));
    fk.attr.features &= ~(uint64_t)RI_FEATURE_FAST_REGISTER;
    fails(ual_mr_create_unlinked(pz, 2, 9, 0, &empty), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* New keys by modify: they replace the old ones, and the region is linked again. */
START_TEST(modified_region)
{
    invalidated_by_peer(MR_STAG);
    done(RI_WC_RECV, RI_WC_SUCCESS);
    ck_assert(!ual_mr_linked(mr));
    ok(ual_mr_modify(mr, NULL, RI_ACCESS_LOCAL_READ));
    ck_assert(ual_mr_linked(mr));
    invalidated_by_peer(MR_STAG);
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), 0);
    invalidated_by_peer(mr->lkey);
    ck_assert_uint_eq(done(RI_WC_RECV, RI_WC_SUCCESS), ual_handle_of(mr));
}
END_TEST

/* --- attributes of endpoints --- */

START_TEST(modified_endpoint)
{
    struct ual_ep_attr attr = { .ord = 9,
                                .ird = 8,
                                .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE,
                                .max_payload = 50,
                                .rq_limit = 7 };

    ok(ual_ep_modify(ep, UAL_EP_ORD | UAL_EP_FLAGS, &attr, RI_QP_READ_ENABLE | RI_QP_BIND_ENABLE));
    ck_assert_uint_eq(fk.modify.mask, RI_QPM_ORD | RI_QPM_FLAGS);
    ck_assert_uint_eq(fk.modify.ord, 9);
    ck_assert_uint_eq(fk.modify.flags, RI_QP_READ_ENABLE);
    ck_assert_uint_eq(ep->attr.ord, 9);
    ck_assert_uint_eq(ep->attr.ird, 3); /* the original value */
    ck_assert_uint_eq(ep->attr.flags, RI_QP_READ_ENABLE);
    ck_assert_uint_eq(ep->attr.max_payload, 1000);
    fk.modify.mask = 0;
    ok(ual_ep_modify(ep, UAL_EP_PAYLOAD, &attr, 0));
    ck_assert_uint_eq(fk.modify.mask, 0); /* not the provider's */
    ck_assert_uint_eq(ep->attr.max_payload, 50);
    ok(ual_ep_modify(ep, UAL_EP_RQ_LIMIT, &attr, 0));
    ck_assert_uint_eq(fk.modify.rq_limit, 7);
    attr.rq_hard_limit = 11;
    ok(ual_ep_modify(ep, UAL_EP_RQ_HARD_LIMIT, &attr, 0));
    ck_assert_uint_eq(fk.modify.rq_limit, 7);
    ck_assert_uint_eq(fk.modify.rq_hard_limit, 11);
    fk_fail(FK_QP_ATTRIBUTES, RI_ERR_BUSY);
    attr.ird = 1;
    fails(ual_ep_modify(ep, UAL_EP_IRD | UAL_EP_PAYLOAD, &attr, 0), RI_ERR_BUSY);
    ck_assert_uint_eq(ep->attr.ird, 3);
    fails(ual_ep_modify(ep, UAL_EP_SEND_WR, &attr, 0), RI_ERR_NOT_SUPPORTED);
    fk.attr.features |= RI_FEATURE_QP_RESIZE;
    attr.max_send_wr = 99;
    ok(ual_ep_modify(ep, UAL_EP_SEND_WR, &attr, 0));
    ck_assert_uint_eq(ep->attr.max_send_wr, 99);
    attr.max_payload = fk.attr.max_send + 1;
    fails(ual_ep_modify(ep, UAL_EP_PAYLOAD, &attr, 0), RI_ERR_LIMIT);
}
END_TEST

/* Features say which changes a connected QP allows, but ORD may always go below the agreed value (3
 * in the fake kal). */
START_TEST(modified_when_connected)
{
    static const struct {
        uint32_t bit;
        uint64_t feature;
    } rows[] = { { UAL_EP_IRD, RI_FEATURE_IRD_MODIFY },
                 { UAL_EP_FLAGS, RI_FEATURE_ACCESS_MODIFY } };
    struct ual_ep_attr attr = { .ord = 3, .ird = 2, .flags = 1 };

    ok(connect_to(ep, false));
    fails(ual_ep_modify(ep, UAL_EP_ORD, &attr, 0), RI_ERR_INVALID_STATE);
    fk_establish(fk.connection);
    expect(connect_evd, UAL_ESTABLISHED);
    for (int i = 0; i < 2; i++) {
        fails(ual_ep_modify(ep, rows[i].bit, &attr, 1), RI_ERR_INVALID_STATE);
        fk.attr.features |= rows[i].feature;
        ok(ual_ep_modify(ep, rows[i].bit, &attr, 1));
    }
    ok(ual_ep_modify(ep, UAL_EP_ORD, &attr, 0));
    attr.ord = 4;
    fails(ual_ep_modify(ep, UAL_EP_ORD, &attr, 0), RI_ERR_INVALID_STATE);
    fk.attr.features |= RI_FEATURE_ORD_RAISE;
    ok(ual_ep_modify(ep, UAL_EP_ORD, &attr, 0));
    fails(ual_ep_modify(ep, UAL_EP_PAYLOAD, &attr, 0), RI_ERR_INVALID_STATE);
    ok(ual_ep_modify(ep, UAL_EP_RQ_LIMIT, &attr, 0));
    fk_end(fk.qp, RI_EVENT_LLP_RESET);
    expect(connect_evd, UAL_BROKEN);
    fails(ual_ep_modify(ep, UAL_EP_ORD, &attr, 0), RI_ERR_INVALID_STATE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ual_memory");
    TCase *srqs = tc_case(suite, "srq", open_ia, close_ia),
          *windows = tc_case(suite, "windows", open_windows, close_ia);
    TCase *attributes = tc_case(suite, "attributes", open_ia, close_ia);

    tc_add_tests(srqs, srq_life, srq_users, srq_events);
    tc_add_tests(windows, window_life, window_keys, window_link_outcomes, window_both_flushed,
                 window_keeps_its_link, window_stays_behind_flushed, window_unlinked_by_peer,
                 window_index_reused, narrow_is_of_one_endpoint, completion_outlives_endpoint,
                 window_states, sink_of_a_read, regions_by_request, modified_region);
    tc_add_tests(attributes, modified_endpoint, modified_when_connected);
    return tc_main(suite);
}
