/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions, windows, shared receive queues, and resizing, on the fake device. */
#include "work.h"

#include "tc.h"

START_TEST(regions)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE,
                               .addr = data,
                               .length = sizeof(data) };
    struct ri_mr_keys keys, again;
    struct ri_mr *mr;

    ck_assert_int_eq(set.host.privileged.mr_register(set.pd, &attr, &keys, &mr), RI_OK);
    ck_assert_uint_eq(keys.rkey, 0);
    ck_assert_uint_ne(keys.lkey, 0);
    ck_assert_int_eq(set.host.privileged.pd_destroy(set.pd), RI_ERR_BUSY);
    attr.access |= RI_ACCESS_REMOTE_READ;
    ck_assert_int_eq(set.host.privileged.mr_reregister(mr, NULL, &attr, &again), RI_OK);
    ck_assert_uint_ne(again.lkey, keys.lkey);
    ck_assert_uint_ne(again.rkey, 0);
    attr.access = RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_WRITE;
    ck_assert_int_eq(set.host.privileged.mr_reregister(mr, NULL, &attr, &again),
                     RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(set.host.privileged.mr_deregister(mr), RI_OK);
    ck_assert_int_eq(rdmacore_access(RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                         RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE |
                                         RI_ACCESS_REMOTE_ATOMIC | RI_ACCESS_BIND,
                                     true),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
}
END_TEST

/* The device gets the address that the consumer chose, also when the region is registered anew. */
START_TEST(regions_with_an_io_addr)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_IO_ADDR,
                               .addr = data,
                               .length = sizeof(data),
                               .io_addr = UINT64_C(0x123456789a) };
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    ck_assert_int_eq(set.host.privileged.mr_register(set.pd, &attr, &keys, &mr), RI_OK);
    ck_assert_uint_eq(fake_iova, attr.io_addr);
    attr.io_addr = UINT64_MAX - sizeof(data) + 2;
    ck_assert_int_eq(set.host.privileged.mr_reregister(mr, NULL, &attr, &keys),
                     RI_ERR_INVALID_ARGUMENT);
    attr.io_addr--;
    ck_assert_int_eq(set.host.privileged.mr_reregister(mr, NULL, &attr, &keys), RI_OK);
    ck_assert_uint_eq(fake_iova, attr.io_addr);
    ck_assert_int_eq(set.host.privileged.mr_deregister(mr), RI_OK);
}
END_TEST

/* Bound, unbound, bound again with the keys that the consumer counts: loop 0 narrow, 1 wide. */
START_TEST(windows)
{
    bool narrow = _i == 0;
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                         RI_ACCESS_BIND,
                               .addr = data,
                               .length = sizeof(data) };
    struct ri_send_wr wr = { .opcode = RI_WR_BIND_WINDOW, .flags = RI_WR_SIGNALED };
    struct fake_qp *qp = fake_qp(set.qp);
    struct ri_mr_keys keys;
    uint32_t stag, bound;
    struct ri_mr *mr;
    struct ri_mw *mw;
    struct ri_wc wc;

    ck_assert_int_eq(set.host.privileged.mr_register(set.pd, &attr, &keys, &mr), RI_OK);
    ck_assert_int_eq(set.host.privileged.mw_allocate(set.pd, narrow, NULL, &stag, &mw), RI_OK);
    for (uint32_t round = 1; round < 4; round++) {
        uint32_t key = stag +
                       (narrow ? round : 2 * round - 1); /* unbinding a wide one takes a key */

        bound = (stag & ~0xffu) | (key & 0xff);
        wr.opcode = RI_WR_BIND_WINDOW;
        wr.bind.mw = mw;
        wr.bind.mr = mr;
        wr.bind.addr = (uintptr_t)data + 8;
        wr.bind.length = 16;
        wr.bind.access = RI_ACCESS_REMOTE_READ;
        wr.bind.new_key = key;
        ck_assert_int_eq(post(set.qp, &wr), RI_OK);
        ck_assert_uint_eq(container_of(fake_below(mw), struct mw, base)->ibv->rkey, bound);
        if (narrow) {
            const struct ibv_send_wr *sent = &qp->sent[qp->sends - 1];

            ck_assert_int_eq(sent->opcode, IBV_WR_BIND_MW);
            ck_assert_uint_eq(sent->bind_mw.rkey, bound);
            ck_assert_uint_eq(sent->bind_mw.bind_info.length, 16);
            ck_assert_uint_eq(sent->bind_mw.bind_info.mw_access_flags, IBV_ACCESS_REMOTE_READ);
            fake_sent(set.qp, set.cq, qp->sends - 1, IBV_WC_SUCCESS);
        } else {
            struct ibv_wc raw = { .wr_id = qp->bind.wr_id };

            ck_assert_uint_eq(qp->bind.bind_info.length, 16);
            fake_complete(set.cq, &raw);
        }
        wc = next();
        ck_assert_uint_eq(wc.opcode, RI_WC_BIND_WINDOW);
        ck_assert_uint_eq(wc.invalidated_stag, bound);
        wr.opcode = RI_WR_LOCAL_INVALIDATE;
        wr.invalidate_stag = bound;
        ck_assert_int_eq(post(set.qp, &wr), RI_OK);
        if (narrow) {
            ck_assert_int_eq(qp->sent[qp->sends - 1].opcode, IBV_WR_LOCAL_INV);
            ck_assert_uint_eq(qp->sent[qp->sends - 1].invalidate_rkey, bound);
            fake_sent(set.qp, set.cq, qp->sends - 1, IBV_WC_SUCCESS);
        } else {
            struct ibv_wc raw = { .wr_id = qp->bind.wr_id };

            ck_assert_uint_eq(qp->bind.bind_info.length, 0);
            ck_assert_uint_ne(container_of(fake_below(mw), struct mw, base)->ibv->rkey, bound);
            fake_complete(set.cq, &raw);
        }
        wc = next();
        ck_assert_uint_eq(wc.opcode, RI_WC_LOCAL_INVALIDATE);
        ck_assert_uint_eq(wc.invalidated_stag, bound);
    }
    if (narrow) { /* unbound: the device gets no STag of the consumer */
        ck_assert_int_eq(post(set.qp, &wr), RI_OK);
        ck_assert_uint_ne(qp->sent[qp->sends - 1].invalidate_rkey, bound);
        fake_sent(set.qp, set.cq, qp->sends - 1, IBV_WC_MW_BIND_ERR);
        wc = next();
        ck_assert_int_eq(wc.status, RI_WC_BIND);
        ck_assert_uint_eq(wc.invalidated_stag, bound);
    }
    ck_assert_int_eq(set.host.privileged.mw_free(mw), RI_OK);
    ck_assert_int_eq(set.host.privileged.mr_deregister(mr), RI_OK);
}
END_TEST

START_TEST(srq_in_any_order)
{
    struct ri_srq_attr attr = {
        .size = sizeof(attr), .max_wr = 4, .max_sge = 1, .context = &set.srq_record
    };
    struct fake_record record = { .count = 0 };
    struct ri_sge sge = segment(50);
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ibv_wc raw = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = 9 };
    struct ri_srq *srq;
    struct ri_qp *qp;
    struct ri_wc wc;

    ck_assert_int_eq(set.host.privileged.srq_create(set.pd, &attr, &srq), RI_OK);
    qp = fake_make_qp(&set, srq, &record);
    fake_connect_qp(qp);
    for (wr.cookie = 0; wr.cookie < 4; wr.cookie++)
        ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    ck_assert_int_eq(receive(qp, 1, 0), RI_ERR_INVALID_STATE);
    raw.wr_id = fake_srq(srq)->received[2];
    raw.qp_num = fake_qp(qp)->ibv.qp_num;
    fake_complete(set.cq, &raw);
    wc = next();
    ck_assert_ptr_eq(wc.context, &record);
    ck_assert_uint_eq(wc.cookie, 2);
    ck_assert_uint_eq(wc.byte_len, 9);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK); /* its slot is free */
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    /* A completion of a destroyed QP releases its slot and is not reported. */
    raw.wr_id = fake_srq(srq)->received[0];
    fake_complete(set.cq, &raw);
    ck_assert_int_eq(set.host.privileged.srq_destroy(srq), RI_ERR_BUSY);
    ck_assert_int_eq(set.host.privileged.qp_destroy(qp), RI_OK);
    nothing();
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    /* The limit's event. */
    attr.limit = 3;
    ck_assert_int_eq(set.host.privileged.srq_modify(srq, 2, &attr), RI_OK);
    ck_assert_uint_eq(fake_srq(srq)->limit, 3);
    attr.limit = 0;
    ck_assert_int_eq(set.host.privileged.srq_query(srq, &attr), RI_OK);
    ck_assert_uint_eq(attr.limit, 3);
    fake_async(IBV_EVENT_SRQ_LIMIT_REACHED, &fake_srq(srq)->ibv);
    fake_run(&set);
    ck_assert_uint_eq(told(&set.srq_record), 1);
    ck_assert_int_eq(set.srq_record.type[0], RI_EVENT_SRQ_LIMIT_REACHED);
    ck_assert_int_eq(set.host.privileged.srq_query(srq, &attr), RI_OK);
    ck_assert_uint_eq(attr.limit, 0); /* only once */
    ck_assert_int_eq(set.host.privileged.srq_destroy(srq), RI_OK);
}
END_TEST

/* ---- keys of wide windows on a device that counts them itself ---- */

static struct ri_mr *region;
static struct ri_mw *wide;
static uint32_t first_stag;

static void open_window(bool narrow)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_BIND,
                               .addr = data,
                               .length = sizeof(data) };
    struct ri_mr_keys keys;

    ck_assert_int_eq(set.host.privileged.mr_register(set.pd, &attr, &keys, &region), RI_OK);
    ck_assert_int_eq(set.host.privileged.mw_allocate(set.pd, narrow, NULL, &first_stag, &wide),
                     RI_OK);
}

static void open_wide(void)
{
    open_window(false);
}

static void close_wide(void)
{
    ck_assert_int_eq(set.host.privileged.mw_free(wide), RI_OK);
    ck_assert_int_eq(set.host.privileged.mr_deregister(region), RI_OK);
}

/* The n-th link of the window in the caller's count, which includes lost ones. */
static enum ri_status link_wide(struct ri_qp *qp, uint32_t n)
{
    struct ri_send_wr wr = { .cookie = n,
                             .opcode = RI_WR_BIND_WINDOW,
                             .flags = RI_WR_SIGNALED,
                             .bind = { .mw = wide,
                                       .mr = region,
                                       .addr = (uintptr_t)data,
                                       .length = 16,
                                       .access = RI_ACCESS_REMOTE_READ,
                                       .new_key = first_stag + n } };

    return post(qp, &wr);
}

static void unlink_wide(struct ri_qp *qp, uint32_t n)
{
    struct ri_send_wr wr = { .opcode = RI_WR_LOCAL_INVALIDATE,
                             .flags = RI_WR_SIGNALED,
                             .invalidate_stag = first_stag + n };

    ck_assert_int_eq(post(qp, &wr), RI_OK);
}

/* The n-th bind that the device of that QP got: the key it starts from, and whether it unbinds. */
static const struct ibv_mw_bind *bound_from(struct ri_qp *qp, unsigned int n, uint32_t key)
{
    const struct fake_bind *bound = &fake_qp(qp)->bound[n];

    ck_assert_uint_lt(n, fake_qp(qp)->binds);
    ck_assert_uint_eq(bound->before, first_stag + key);
    return &bound->bind;
}

static void bind_done(const struct ibv_mw_bind *bind, enum ibv_wc_status status)
{
    struct ibv_wc raw = { .wr_id = bind->wr_id, .status = status };

    fake_complete(set.cq, &raw);
}

static struct ri_qp *another_qp(void)
{
    static struct fake_record record;
    struct ri_qp *qp = fake_make_qp(&set, NULL, &record);

    fake_connect_qp(qp);
    return qp;
}

static void end(struct ri_qp *qp)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE,
                                         .state = RI_QPS_ERROR };

    ck_assert_int_eq(set.host.privileged.qp_modify(qp, &modify), RI_OK);
}

/* Links that never reach the device use keys that the device does not count. */
START_TEST(link_after_soft_ones_is_in_step)
{
    struct ri_qp *ended = another_qp();

    open_wide();
    ck_assert_int_eq(link_wide(set.qp, 1), RI_OK);
    bind_done(bound_from(set.qp, 0, 0), IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().byte_len, 0);
    end(ended);
    for (uint32_t n = 2; n < 4; n++) {
        ck_assert_int_eq(link_wide(ended, n), RI_OK);
        flushed(n, RI_WC_BIND_WINDOW);
    }
    ck_assert_uint_eq(fake_qp(ended)->binds, 0);
    ck_assert_int_eq(link_wide(set.qp, 4), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->binds, 4);
    for (unsigned int n = 1; n < 3; n++) { /* unbinding, and without a completion */
        ck_assert_uint_eq(bound_from(set.qp, n, n)->bind_info.length, 0);
        ck_assert_uint_eq(bound_from(set.qp, n, n)->send_flags, 0);
    }
    ck_assert_uint_eq(bound_from(set.qp, 3, 3)->bind_info.length, 16);
    bind_done(bound_from(set.qp, 3, 3), IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().invalidated_stag, first_stag + 4);
    unlink_wide(set.qp, 4);
    ck_assert_uint_eq(bound_from(set.qp, 4, 4)->bind_info.length, 0);
    bind_done(bound_from(set.qp, 4, 4), IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().opcode, RI_WC_LOCAL_INVALIDATE);
    ck_assert_int_eq(set.host.privileged.qp_destroy(ended), RI_OK);
    close_wide();
}
END_TEST

/* For requests that reached the device and failed, all keys are taken back, once. */
START_TEST(link_after_flushed_ones_is_in_step)
{
    struct ri_qp *ended = another_qp();

    open_wide();
    ck_assert_int_eq(link_wide(ended, 2),
                     RI_OK); /* 1 was lost: there is one to nothing before it */
    ck_assert_int_eq(link_wide(ended, 3), RI_OK);
    unlink_wide(ended, 3);
    ck_assert_uint_eq(fake_qp(ended)->binds, 4);
    for (unsigned int n = 0; n < 4; n++)
        bind_done(bound_from(ended, n, n), n ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(next().status, RI_WC_LOCAL_PROTECTION); /* what the one before it had */
    flushed(3, RI_WC_BIND_WINDOW);
    flushed(0, RI_WC_LOCAL_INVALIDATE);
    nothing();
    ck_assert_int_eq(link_wide(set.qp, 5), RI_OK); /* 4 is the unlink's */
    ck_assert_uint_eq(fake_qp(set.qp)->binds, 5);
    for (unsigned int n = 0; n < 5; n++)
        ck_assert_uint_eq(bound_from(set.qp, n, n)->bind_info.length, n < 4 ? 0 : 16);
    bind_done(bound_from(set.qp, 4, 4), IBV_WC_SUCCESS);
    ck_assert_int_eq(next().status, RI_WC_SUCCESS);
    ck_assert_int_eq(set.host.privileged.qp_destroy(ended), RI_OK);
    close_wide();
}
END_TEST

/* Requests that the device never reported, and a link for which its queue had no room. */
START_TEST(link_after_a_sweep_and_a_full_queue)
{
    struct ri_qp *ended = another_qp();

    open_wide();
    ck_assert_int_eq(link_wide(ended, 1), RI_OK);
    end(ended);
    fake_host_expire_timers(&set.host);
    fake_run(&set);
    flushed(1, RI_WC_BIND_WINDOW);
    bind_done(bound_from(ended, 0, 0), IBV_WC_WR_FLUSH_ERR); /* too late to count */
    nothing();
    fake_fail_posts(ENOMEM);
    ck_assert_int_eq(link_wide(set.qp, 2), RI_ERR_QUEUE_FULL);
    fake_fail_posts(0);
    ck_assert_int_eq(link_wide(set.qp, 2), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->binds, 2);
    ck_assert_uint_eq(bound_from(set.qp, 0, 0)->bind_info.length, 0);
    bind_done(bound_from(set.qp, 1, 1), IBV_WC_SUCCESS);
    ck_assert_uint_eq(next().cookie, 2);
    ck_assert_int_eq(set.host.privileged.qp_destroy(ended), RI_OK);
    close_wide();
}
END_TEST

/* Links that are in the queue although the kernel was not notified: they complete once, and have
 * used their keys. */
START_TEST(link_queued_though_the_kernel_was_not_told)
{
    open_wide();
    fake_fail_posts(-1);
    ck_assert_int_eq(link_wide(set.qp, 2), RI_OK); /* one to nothing before it */
    unlink_wide(set.qp, 2);
    fake_fail_posts(0);
    ck_assert_int_eq(link_wide(set.qp, 4), RI_OK);
    ck_assert_uint_eq(fake_qp(set.qp)->binds, 4);
    for (unsigned int n = 0; n < 4; n++)
        bind_done(bound_from(set.qp, n, n), IBV_WC_WR_FLUSH_ERR);
    flushed(2, RI_WC_BIND_WINDOW);
    flushed(0, RI_WC_LOCAL_INVALIDATE);
    flushed(4, RI_WC_BIND_WINDOW);
    nothing();
    close_wide();
}
END_TEST

/* The same for a narrow window, and for an invalidate. */
START_TEST(narrow_link_queued_though_the_kernel_was_not_told)
{
    struct fake_qp *qp = fake_qp(set.qp);

    open_window(true);
    fake_fail_posts(-1);
    ck_assert_int_eq(link_wide(set.qp, 1), RI_OK);
    unlink_wide(set.qp, 1);
    fake_fail_posts(0);
    ck_assert_uint_eq(qp->sends, 2);
    ck_assert_uint_eq(qp->sent[1].invalidate_rkey, first_stag + 1); /* it was taken for bound */
    for (unsigned int n = 0; n < 2; n++)
        fake_sent(set.qp, set.cq, n, IBV_WC_WR_FLUSH_ERR);
    flushed(1, RI_WC_BIND_WINDOW);
    flushed(0, RI_WC_LOCAL_INVALIDATE);
    nothing();
    close_wide();
}
END_TEST

/* ---- sizes ---- */

START_TEST(cq_is_resized)
{
    uint32_t depth = 50;

    ck_assert_int_eq(set.host.privileged.cq_resize(set.cq, &depth), RI_OK);
    ck_assert_uint_eq(depth, 64); /* the device's value */
    depth = 0;
    ck_assert_int_eq(set.host.privileged.cq_resize(set.cq, &depth), RI_ERR_INVALID_ARGUMENT);
    depth = 1001;
    ck_assert_int_eq(set.host.privileged.cq_resize(set.cq, &depth), RI_ERR_LIMIT);
    for (uint64_t n = 0; n < 3; n++) {
        send_to(set.qp, n, RI_WR_SIGNALED);
        fake_sent(set.qp, set.cq, (unsigned int)n, IBV_WC_SUCCESS);
    }
    depth = 2;
    ck_assert_int_eq(set.host.privileged.cq_resize(set.cq, &depth), RI_ERR_BUSY);
    fake_fail_call(1, ENOMEM);
    depth = 4;
    ck_assert_int_eq(set.host.privileged.cq_resize(set.cq, &depth), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(depth, 4);
    for (uint64_t n = 0; n < 3; n++)
        ck_assert_uint_eq(next().cookie, n);
}
END_TEST

static enum ri_status resize_srq(struct ri_srq *srq, uint32_t max_wr)
{
    const struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = max_wr };

    return set.host.privileged.srq_modify(srq, 1, &attr);
}

/* Slots that the device uses do not move. */
START_TEST(srq_is_resized)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 2, .max_sge = 1 };
    struct fake_record record = { .count = 0 };
    struct ri_sge sge = segment(50);
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ibv_wc raw = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = 9 };
    struct ri_srq *srq;
    struct ri_qp *qp;

    ck_assert_int_eq(set.host.privileged.srq_create(set.pd, &attr, &srq), RI_OK);
    qp = fake_make_qp(&set, srq, &record);
    fake_connect_qp(qp);
    for (wr.cookie = 0; wr.cookie < 2; wr.cookie++)
        ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    ck_assert_int_eq(resize_srq(srq, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(resize_srq(srq, 129), RI_ERR_LIMIT);
    ck_assert_int_eq(resize_srq(srq, 1), RI_ERR_BUSY);
    fake_fail_call(1, ENOMEM);
    ck_assert_int_eq(resize_srq(srq, 4), RI_ERR_NO_RESOURCES);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    ck_assert_int_eq(resize_srq(srq, 4), RI_OK);
    ck_assert_uint_eq(fake_srq(srq)->max_wr, 4);
    for (; wr.cookie < 4; wr.cookie++)
        ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    raw.qp_num = fake_qp(qp)->ibv.qp_num;
    for (unsigned int n = 4; n-- > 0;) {
        raw.wr_id = fake_srq(srq)->received[n];
        fake_complete(set.cq, &raw);
        ck_assert_uint_eq(next().cookie, n);
    }
    ck_assert_int_eq(resize_srq(srq, 1), RI_OK);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_OK);
    ck_assert_int_eq(set.host.user.post_srq_recv(srq, &wr, &bad), RI_ERR_QUEUE_FULL);
    ck_assert_int_eq(set.host.privileged.srq_query(srq, &attr), RI_OK);
    ck_assert_uint_eq(attr.max_wr, 1);
    ck_assert_int_eq(set.host.privileged.qp_destroy(qp), RI_OK);
    ck_assert_int_eq(set.host.privileged.srq_destroy(srq), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_memory");
    TCase *memory = tc_case(suite, "memory", work_setup, work_teardown),
          *keys = tc_case(suite, "keys", work_setup, work_teardown);
    TCase *sizes = tc_case(suite, "sizes", work_setup, work_teardown);

    tc_add_tests(memory, regions, regions_with_an_io_addr);
    tcase_add_loop_test(memory, windows, 0, 2);
    tcase_add_test(memory, srq_in_any_order);
    tc_add_tests(keys, link_after_soft_ones_is_in_step, link_after_flushed_ones_is_in_step,
                 link_after_a_sweep_and_a_full_queue, link_queued_though_the_kernel_was_not_told,
                 narrow_link_queued_though_the_kernel_was_not_told);
    tc_add_tests(sizes, cq_is_resized, srq_is_resized);
    return tc_main(suite);
}
