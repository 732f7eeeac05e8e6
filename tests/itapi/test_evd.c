/* SPDX-License-Identifier: BSD-3-Clause */
/* Event dispatchers: creation, attributes, software events, descriptors,
 * dequeuing. Waiting: test_wait. */
#include "opened.h"

#include <fcntl.h>
#include <poll.h>

static it_status_t create(const struct node *own, unsigned int stream, unsigned int flags,
                          size_t size, size_t threshold, it_evd_handle_t aevd, it_evd_handle_t *evd,
                          int *fd)
{
    return it_evd_create(own->ia, (it_event_type_t)stream, (it_evd_flags_t)flags, size, threshold,
                         aevd, evd, fd);
}

static it_evd_handle_t software(const struct node *own, size_t size)
{
    it_evd_handle_t evd;

    ok(create(own, IT_SOFTWARE_EVENT_STREAM, 0, size, 0, NULL, &evd, NULL));
    return evd;
}

START_TEST(streams_and_attributes)
{
    static const it_event_type_t streams[] = {
        IT_DTO_EVENT_STREAM,         IT_CM_REQ_EVENT_STREAM,   IT_CM_MSG_EVENT_STREAM,
        IT_ASYNC_UNAFF_EVENT_STREAM, IT_SOFTWARE_EVENT_STREAM,
    };

    node_open(&node, IFACE);
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        it_evd_handle_t evd;
        it_evd_param_t params;
        it_event_t event;
        int fd = -77;

        ok(create(&node, streams[i], IT_EVD_OVERFLOW_DEFAULT, 10, 1, NULL, &evd, &fd));
        ck_assert_int_eq(fd, -77); /* without the flag it is not touched */
        ok(it_evd_query(evd, IT_EVD_PARAM_ALL, &params));
        ck_assert_ptr_eq(params.ia, node.ia);
        ck_assert_int_eq(params.event_number, streams[i]);
        ck_assert_int_eq(params.evd_flag, IT_EVD_OVERFLOW_DEFAULT);
        ck_assert_uint_ge(params.sevd_queue_size, 10);
        ck_assert_uint_eq(params.sevd_threshold, 1);
        ck_assert_ptr_null(params.aevd);
        ck_assert_int_eq(params.fd, -1);
        ck_assert_int_eq(params.evd_enabled, IT_TRUE);
        ck_assert_int_eq(params.evd_overflowed, IT_FALSE);
        ck_assert_int_eq(params.evd_callback, IT_FALSE);
        ck_assert_int_eq(params.evd_bound,
                         streams[i] == IT_ASYNC_UNAFF_EVENT_STREAM ? IT_TRUE : IT_FALSE);
        is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
        ok(it_evd_free(evd));
        is(IT_ERR_INVALID_EVD, it_evd_free(evd));
    }
}
END_TEST

START_TEST(creation_errors)
{
    static const struct {
        unsigned int stream, flags;
        size_t size, threshold;
        it_status_t status;
    } rows[] = {
        { 0x00001, 0, 10, 0, IT_ERR_INVALID_EVD_TYPE }, /* an event, but not a stream */
        { 0x03000, 0, 10, 0, IT_ERR_INVALID_EVD_TYPE },
        { 0xffffffffu, 0, 10, 0, IT_ERR_INVALID_EVD_TYPE },
        { IT_DTO_EVENT_STREAM, 0x20, 10, 0, IT_ERR_INVALID_FLAGS },
        { IT_DTO_EVENT_STREAM, IT_EVD_DEQUEUE_NOTIFICATIONS, 10, 0, IT_ERR_INVALID_FLAGS },
        { IT_DTO_EVENT_STREAM, 0, 0, 0, IT_ERR_INVALID_QUEUE_SIZE },
        { IT_SOFTWARE_EVENT_STREAM, 0, 0, 0, IT_ERR_INVALID_QUEUE_SIZE },
        { IT_DTO_EVENT_STREAM, 0, SIZE_MAX, 0, IT_ERR_RESOURCE_QUEUE_SIZE },
        { IT_DTO_EVENT_STREAM, 0, UINT32_MAX, 0, IT_ERR_RESOURCE_QUEUE_SIZE },
        { IT_CM_MSG_EVENT_STREAM, 0, (size_t)1 << 32, 0, IT_ERR_RESOURCE_QUEUE_SIZE },
        { IT_CM_MSG_EVENT_STREAM, 0, UINT32_MAX, 0, IT_ERR_RESOURCE_QUEUE_SIZE },
        { IT_DTO_EVENT_STREAM, 0, 10, 11, IT_ERR_INVALID_THRESHOLD },
        { IT_DTO_EVENT_STREAM, IT_EVD_CREATE_FD, 10, 0, IT_ERR_MISMATCH_FD },
        { IT_ASYNC_AFF_EVENT_STREAM, 0, 10, 0, IT_ERR_ASYNC_AFF_EVD_EXISTS }, /* one exists */
    };
    it_evd_handle_t evd = NULL, one;

    node_open(&node, IFACE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        it_status_t status = create(&node, rows[i].stream, rows[i].flags, rows[i].size,
                                    rows[i].threshold, NULL, &evd, NULL);

        ck_assert_msg(status == rows[i].status, "row %zu: %s, not %s", i, itx_status_name(status),
                      itx_status_name(rows[i].status));
        ck_assert_ptr_null(evd);
    }
    is(IT_ERR_INVALID_AEVD,
       create(&node, IT_DTO_EVENT_STREAM, 0, 10, 0, node.connections, &evd, NULL));
    is(IT_ERR_INVALID_AEVD,
       create(&node, IT_DTO_EVENT_STREAM, 0, 10, 0, (it_evd_handle_t)node.ia, &evd, NULL));
    is(IT_ERR_AEVD_NOT_ALLOWED,
       create(&node, IT_AEVD_NOTIFICATION_EVENT_STREAM, 0, 10, 0, node.connections, &evd, NULL));
    is(IT_ERR_FAULT, create(&node, IT_DTO_EVENT_STREAM, 0, 10, 0, NULL, NULL, NULL));
    ok(create(&node, IT_ASYNC_UNAFF_EVENT_STREAM, 0, 10, 0, NULL, &one, NULL));
    is(IT_ERR_ASYNC_UNAFF_EVD_EXISTS,
       create(&node, IT_ASYNC_UNAFF_EVENT_STREAM, 0, 10, 0, NULL, &evd, NULL));
    ok(it_evd_free(one));
    ok(create(&node, IT_ASYNC_UNAFF_EVENT_STREAM, 0, 10, 0, NULL, &one, NULL));
}
END_TEST

START_TEST(query_errors)
{
    it_evd_param_t params;

    node_open(&node, IFACE);
    is(IT_ERR_INVALID_MASK, it_evd_query(node.asked, (it_evd_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_evd_query(node.asked, (it_evd_param_mask_t)0x1000, &params));
    is(IT_ERR_FAULT, it_evd_query(node.asked, IT_EVD_PARAM_ALL, NULL));
    memset(&params, 0x11, sizeof(params));
    ok(it_evd_query(node.asked, IT_EVD_PARAM_FD, &params));
    ck_assert_int_eq(params.fd, -1);
    ck_assert_int_eq((int)params.evd_bound, 0x11111111);
}
END_TEST

START_TEST(busy_while_used)
{
    it_evd_param_t params;

    node_open(&node, IFACE);
    node_endpoint(&node);
    node_listen(&node);
    is(IT_ERR_EVD_BUSY, it_evd_free(node.requests));
    is(IT_ERR_EVD_BUSY, it_evd_free(node.receives));
    is(IT_ERR_EVD_BUSY, it_evd_free(node.connections));
    is(IT_ERR_EVD_BUSY, it_evd_free(node.asked));
    ok(it_evd_query(node.requests, IT_EVD_PARAM_BOUND, &params));
    ck_assert_int_eq(params.evd_bound, IT_TRUE);
    ok(it_ep_free(node.ep));
    ok(it_listen_free(node.listen));
    ok(it_evd_free(node.requests));
    ok(it_evd_free(node.receives));
    ok(it_evd_free(node.connections));
    ok(it_evd_free(node.asked));
    ok(it_evd_free(node.affiliated));
}
END_TEST

/* --- software events --- */

START_TEST(software_events_in_order)
{
    it_evd_handle_t evd;
    it_event_t event;
    size_t more = 77;
    char marks[5];

    node_open(&node, IFACE);
    evd = software(&node, 5);
    for (int i = 0; i < 5; i++)
        ok(it_evd_post_se(evd, &marks[i]));
    ok(it_evd_wait(evd, 0, &event, &more));
    ck_assert_int_eq(event.event_number, IT_SOFTWARE_EVENT);
    ck_assert_ptr_eq(event.sw.evd, evd);
    ck_assert_ptr_eq(event.sw.data, &marks[0]);
    ck_assert_uint_eq(more, 4);
    for (int i = 1; i < 5; i++) {
        ok(it_evd_dequeue(evd, &event));
        ck_assert_ptr_eq(event.sw.data, &marks[i]);
    }
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
    ok(it_evd_post_se(evd, NULL));
    ok(it_evd_dequeue(evd, &event));
    ck_assert_ptr_null(event.sw.data);
}
END_TEST

START_TEST(software_queue_full)
{
    it_evd_handle_t evd;
    it_evd_param_t params;
    it_event_t event;

    node_open(&node, IFACE);
    evd = software(&node, 3);
    ok(it_evd_query(evd, IT_EVD_PARAM_ALL, &params));
    for (size_t i = 0; i < params.sevd_queue_size; i++)
        ok(it_evd_post_se(evd, NULL));
    is(IT_ERR_EVD_QUEUE_FULL, it_evd_post_se(evd, NULL));
    ok(it_evd_query(evd, IT_EVD_PARAM_OVERFLOWED, &params));
    ck_assert_int_eq(params.evd_overflowed, IT_FALSE); /* nothing was lost */
    ok(it_evd_dequeue(evd, &event));
    ok(it_evd_post_se(evd, NULL));
    is(IT_ERR_INVALID_SOFT_EVD, it_evd_post_se(node.requests, NULL));
    is(IT_ERR_INVALID_SOFT_EVD, it_evd_post_se(node.connections, NULL));
    is(IT_ERR_INVALID_EVD, it_evd_post_se((it_evd_handle_t)node.pz, NULL));
}
END_TEST

START_TEST(dequeue_n)
{
    it_evd_handle_t evd;
    it_event_t events[4];
    int count = 77;
    char marks[6];

    node_open(&node, IFACE);
    evd = software(&node, 8);
    ok(it_evd_dequeue_n(evd, 4, events, &count));
    ck_assert_int_eq(count, 0);
    for (int i = 0; i < 6; i++)
        ok(it_evd_post_se(evd, &marks[i]));
    ok(it_evd_dequeue_n(evd, 4, events, &count));
    ck_assert_int_eq(count, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(events[i].sw.data, &marks[i]);
    ok(it_evd_dequeue_n(evd, 4, events, &count));
    ck_assert_int_eq(count, 2);
    ck_assert_ptr_eq(events[1].sw.data, &marks[5]);
    ok(it_evd_dequeue_n(evd, 0, NULL, &count));
    ck_assert_int_eq(count, 0);
    is(IT_ERR_RANGE, it_evd_dequeue_n(evd, -1, events, &count));
    is(IT_ERR_FAULT, it_evd_dequeue_n(evd, 1, NULL, &count));
    is(IT_ERR_FAULT, it_evd_dequeue_n(evd, 1, events, NULL));
    is(IT_ERR_INVALID_EVD, it_evd_dequeue_n(NULL, 1, events, &count));
}
END_TEST

START_TEST(dequeue_and_wait_errors)
{
    it_event_t event;

    node_open(&node, IFACE);
    is(IT_ERR_FAULT, it_evd_dequeue(node.requests, NULL));
    is(IT_ERR_FAULT, it_evd_wait(node.requests, 0, NULL, NULL));
    is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(node.requests, 0, &event, NULL));
    is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(node.requests, 1, &event, NULL));
    is(IT_ERR_INVALID_EVD, it_evd_dequeue(NULL, &event));
    is(IT_ERR_INVALID_EVD, it_evd_wait((it_evd_handle_t)node.ia, 0, &event, NULL));
}
END_TEST

/* A dequeue writes the members of the event and nothing after them. */
START_TEST(only_its_bytes_are_written)
{
    it_evd_handle_t evd;
    it_event_t event;
    const unsigned char *bytes = (const unsigned char *)&event;

    node_open(&node, IFACE);
    evd = software(&node, 1);
    ok(it_evd_post_se(evd, NULL));
    memset(&event, 0xa5, sizeof(event));
    ok(it_evd_dequeue(evd, &event));
    for (size_t i = sizeof(event.sw); i < sizeof(event); i++)
        ck_assert_uint_eq(bytes[i], 0xa5);
}
END_TEST

/* --- descriptors --- */

START_TEST(descriptor)
{
    it_evd_handle_t evd;
    it_evd_param_t params;
    it_event_t event;
    int fd = -1, fds = 0;

    node_open(&node, IFACE);
    fds = tc_fd_count();
    ok(create(&node, IT_SOFTWARE_EVENT_STREAM, IT_EVD_CREATE_FD, 4, 0, NULL, &evd, &fd));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ok(it_evd_query(evd, IT_EVD_PARAM_ALL, &params));
    ck_assert_int_eq(params.fd, fd);
    ck_assert_int_eq(params.evd_flag, IT_EVD_CREATE_FD);
    for (int round = 0; round < 100; round++) {
        ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0), 0);
        ok(it_evd_post_se(evd, NULL));
        ck_assert_int_eq(tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)), POLLIN);
        if (round % 2)
            ok(it_evd_post_se(evd, NULL));
        while (it_evd_dequeue(evd, &event) == IT_SUCCESS)
            ;
    }
    ok(it_evd_free(evd));
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    ck_assert_int_eq(tc_fd_count(), fds);
}
END_TEST

/* A thread that sleeps in poll on the descriptor is woken by a completion. */
START_TEST(descriptor_of_completions)
{
    it_evd_handle_t evd;
    it_ep_attributes_t attributes;
    struct buffer there, here;
    it_lmr_triplet_t whole;
    int fd;

    pair_open(&pair, IFACE);
    ok(it_ep_free(pair.b.ep));
    ok(create(&pair.b, IT_DTO_EVENT_STREAM, IT_EVD_CREATE_FD, 64, 0, NULL, &evd, &fd));
    attributes = node_attributes(&pair.b);
    ok(it_ep_rc_create(pair.b.pz, evd, evd, pair.b.connections, IT_EP_NO_FLAG, &attributes,
                       &pair.b.ep));
    there = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    pair_connect(&pair, pair_family(&pair));
    for (uint64_t round = 0; round < 50; round++) {
        whole = segment(&there, 0, 4096);
        ok(it_post_recv(pair.b.ep, &whole, 1, round, BOTH));
        expect_lowered(evd, fd);
        whole = segment(&here, 0, 64);
        ok(it_post_send(pair.a.ep, &whole, 1, round, BOTH));
        ck_assert_int_eq(tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)), POLLIN);
        ck_assert_uint_eq(dequeued(evd).dto_cmpl.cookie, round);
        expect_done(pair.a.requests, IT_DTO_SEND_CMPL_EVENT, round, IT_DTO_SUCCESS);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_evd");
    TCase *tc = tc_case(suite, "evd", NULL, fx_close);

    add_each(tc, streams_and_attributes, creation_errors, query_errors, busy_while_used,
             software_events_in_order, software_queue_full, dequeue_n, dequeue_and_wait_errors,
             only_its_bytes_are_written, descriptor, descriptor_of_completions);
    return tc_main(suite);
}
