/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the tests of the mechanism: an open device over the fake kal with a PD. */
#ifndef ITAL_TESTS_DEVICE_FIXTURE_H
#define ITAL_TESTS_DEVICE_FIXTURE_H

#include "tests/ual/fake_kal.h"
#include "tc_status.h"

#include "ual_mechanism.h"

#include <arpa/inet.h>
#include <poll.h>

static struct ual_device *device;
static struct ual_pd *pd;

/* --- events of the device --- */

static struct {
    atomic_uint count;
    enum ri_event_type type;
    const struct ual_object *about;
    ual_handle forgotten;
} told;

static inline void told_async(void *context, const struct ri_event *event,
                              const struct ual_object *about)
{
    (void)context;
    told.type = event->type;
    told.about = about;
    atomic_fetch_add(&told.count, 1);
}

static inline void told_forget(void *context, ual_handle handle)
{
    (void)context;
    told.forgotten = handle;
}

static const struct ual_device_upcalls device_upcalls = { .async = told_async,
                                                          .forget = told_forget };

/* --- life --- */

/* The test sets fk.attr before. */
static inline void open_device(void)
{
    ok(ual_device_open("fake0", &device_upcalls, &told, &device));
    ok(ual_pd_create(device, &pd));
}

static inline void setup(void)
{
    fk_reset();
    open_device();
}

static inline void close_one(struct ual_device *which)
{
    ck_assert(ual_device_claim(which));
    ual_device_drain(which);
    ok(ual_device_close(which));
}

/* The test has freed the objects that the device has no list of; checks that nothing is left in
 * kal. */
static inline void teardown(void)
{
    close_one(device);
    ck_assert_uint_eq(fk.violations, 0);
    ck_assert_uint_eq(fk.kals, 0);
    ck_assert_uint_eq(fk.rnics, 0);
    ck_assert_uint_eq(fk.pds + fk.cqs + fk.qps + fk.regions + fk.mws + fk.srqs + fk.ahs, 0);
    ck_assert_uint_eq(fk.connections + fk.listeners, 0);
}

/* --- objects --- */

static inline struct ual_cq *make_cq_of(struct ual_device *of, struct ual_channel *channel,
                                        void *context)
{
    struct ual_cq_attr attr = { .depth = 16, .channel = channel, .context = context };
    struct ual_cq *cq = NULL;

    ok(ual_cq_create(of, &attr, &cq));
    return cq;
}

static inline struct ual_cq *make_cq(struct ual_channel *channel, void *context)
{
    return make_cq_of(device, channel, context);
}

static inline struct ual_qp_attr qp_attr(struct ual_cq *cq)
{
    return (struct ual_qp_attr){
        .type = RI_QP_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .max_send_wr = 8,
        .max_recv_wr = 8,
        .max_send_sge = 2,
        .max_recv_sge = 2,
        .ird = 3,
        .ord = 4,
    };
}

static inline struct ual_qp *make_qp(struct ual_cq *cq, ual_qp_event_fn event, void *context)
{
    struct ual_qp_attr attr = qp_attr(cq);
    struct ual_qp *qp = NULL;

    ok(ual_qp_create(pd, &attr, event, context, &qp));
    return qp;
}

static inline void post_receive(struct ual_qp *qp, uint64_t cookie)
{
    struct ri_recv_wr wr = { .cookie = cookie }, *bad;

    ok(ual_qp_post_recv(qp, &wr, &bad));
}

/* An armed CQ that fires. */
static inline void fire(struct ual_cq *cq)
{
    ual_cq_arm(cq, RI_ARM_NEXT);
    fk_cq_complete(cq->cq, &(struct ri_wc){ .cookie = 1 });
}

static inline struct sockaddr_in address(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

/* --- channels --- */

static inline struct ual_channel *make_channel(struct ual_device *of)
{
    struct ual_channel *channel = NULL;

    ok(ual_channel_create(of, UAL_CHANNEL_FD, &channel));
    ck_assert_int_ge(ual_channel_fd(channel), 0);
    return channel;
}

static inline bool readable(const struct ual_channel *channel)
{
    struct pollfd asked = { .fd = ual_channel_fd(channel), .events = POLLIN };

    ck_assert_int_ge(poll(&asked, 1, 0), 0);
    return asked.revents == POLLIN;
}

static inline struct ual_channel_event next_event(struct ual_channel *channel,
                                                  enum ual_item_kind kind)
{
    struct ual_channel_event event;

    ok(ual_channel_get(channel, tc_timeout_ms(10000) * 1000ull, &event));
    ck_assert_int_eq(event.kind, kind);
    return event;
}

static inline void expect_cq(struct ual_channel *channel, const struct ual_cq *cq)
{
    struct ual_channel_event event = next_event(channel, UAL_ITEM_CQ);

    ck_assert_ptr_eq(event.cq, cq);
    ck_assert_ptr_eq(event.context, cq->context);
}

static inline void expect_posted(struct ual_channel *channel, const struct ual_channel_item *item)
{
    struct ual_channel_event event = next_event(channel, UAL_ITEM_POSTED);

    ck_assert_ptr_eq(event.item, item);
    ck_assert_ptr_eq(event.context, item->context);
}

static inline void expect_nothing(struct ual_channel *channel)
{
    struct ual_channel_event event;

    if (ual_channel_fd(channel) >= 0)
        ck_assert(!readable(channel));
    fails(ual_channel_get(channel, 0, &event), ITAL_ERR_EMPTY);
}

#endif
