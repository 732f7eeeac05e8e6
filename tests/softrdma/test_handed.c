/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream that the host hands over with its table, here one that inverts each octet on its way:
 * what lies between two QPs is such octets alone, and both ends are as those of a TCP socket. */
#include "bed.h"

#include "providers/software/iwarp/codec/mpa.h"

#include <sys/socket.h>

#define TEXT "octets that are easily found"

/* --- the stream --- */

struct inverted {
    int fd;
    int closes;
    bool reset, finished;
};
static struct inverted streams[2];
static atomic_bool text_seen; /* on the socket, as it is */

static void look_for_text(const uint8_t *octets, size_t length)
{
    if (memmem(octets, length, TEXT, strlen(TEXT)))
        atomic_store(&text_seen, true);
}

static ssize_t inverted_send(void *arg, const struct iovec *iov, int count)
{
    struct inverted *stream = arg;
    uint8_t octets[4096];
    size_t used = 0;
    ssize_t sent;

    for (int i = 0; i < count && used < sizeof(octets); i++) {
        const uint8_t *from = iov[i].iov_base;

        for (size_t at = 0; at < iov[i].iov_len && used < sizeof(octets); at++)
            octets[used++] = (uint8_t)~from[at];
    }
    look_for_text(octets, used);
    sent = send(stream->fd, octets, used, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

static ssize_t inverted_receive(void *arg, void *octets, size_t room)
{
    struct inverted *stream = arg;
    ssize_t got = recv(stream->fd, octets, room, MSG_DONTWAIT);

    for (ssize_t i = 0; i < got; i++)
        ((uint8_t *)octets)[i] = (uint8_t) ~((uint8_t *)octets)[i];
    return got < 0 ? -errno : got;
}

static uint32_t inverted_segment(void *arg)
{
    (void)arg;
    return 1400;
}

static void inverted_finish(void *arg)
{
    struct inverted *stream = arg;

    stream->finished = true;
    shutdown(stream->fd, SHUT_WR);
}

static void inverted_close(void *arg, bool reset)
{
    struct inverted *stream = arg;
    const struct linger linger = { .l_onoff = 1 };

    stream->closes++;
    stream->reset = reset;
    if (reset)
        setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(stream->fd);
}

static const struct ri_stream_ops inverted = { .size = sizeof(inverted),
                                               .send = inverted_send,
                                               .receive = inverted_receive,
                                               .segment = inverted_segment,
                                               .finish = inverted_finish,
                                               .close = inverted_close };

/* --- --- */

static void set_up(void)
{
    int fds[2];

    testbed_open(&bed, NULL);
    testbed_tcp(fds, 0);
    memset(streams, 0, sizeof(streams));
    atomic_store(&text_seen, false);
    for (int i = 0; i < 2; i++) {
        struct ri_llp_handover handover = {
            .mpa_revision = 2,
            .crc = true,
            .ird = 8,
            .ord = 8,
            .stream_ops = &inverted,
        };

        streams[i].fd = fds[i];
        handover.stream = &streams[i];
        side_open(&bed, &bed.side[i], NULL);
        side_start(&bed.side[i], fds[i], i == 0, &handover);
    }
}

static void one_message(struct side *from, struct side *to)
{
    struct region source = region_new(from, 100000, TESTBED_ALL);
    struct region target = region_new(to, 100000, TESTBED_ALL);

    region_fill(&source);
    memcpy(source.octets + 500, TEXT, strlen(TEXT));
    side_receive(to, 1, region_sge(&target, 0, 100000));
    side_send(from, 2, region_sge(&source, 0, 100000));
    side_expect(to, to->recv_cq, 1, RI_WC_SUCCESS, 100000);
    side_expect(from, from->send_cq, 2, RI_WC_SUCCESS, 100000);
    ck_assert_mem_eq(source.octets, target.octets, 100000);
    memset(target.octets, 0, 100000);
    side_read(to, 3, region_sge(&target, 0, 100000), (uintptr_t)source.octets, source.keys.rkey);
    side_expect(to, to->send_cq, 3, RI_WC_SUCCESS, 100000);
    ck_assert_mem_eq(source.octets, target.octets, 100000);
    region_free(from, &source);
    region_free(to, &target);
}

START_TEST(messages_go_over_the_stream)
{
    one_message(a, b);
    one_message(b, a);
    ck_assert(!atomic_load(&text_seen));
}
END_TEST

START_TEST(an_orderly_close_finishes_both_streams)
{
    one_message(a, b);
    side_modify(a, RI_QPS_CLOSING);
    side_expect_event(b, RI_EVENT_LLP_CLOSED, 0);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert(streams[i].finished && !streams[i].reset);
        ck_assert_int_eq(streams[i].closes, 1);
    }
}
END_TEST

START_TEST(an_abort_resets_the_stream)
{
    one_message(a, b);
    side_modify(a, RI_QPS_ERROR);
    side_expect_event(b, RI_EVENT_LLP_RESET, 0);
    ck_assert(streams[0].reset);
    ck_assert_int_eq(streams[0].closes, 1);
}
END_TEST

/* The descriptor stays the caller's. */
START_TEST(a_table_with_a_hole_is_refused)
{
    struct ri_stream_ops hole = inverted;
    struct ri_llp_handover handover = {
        .size = sizeof(handover),
        .mpa_revision = 2,
        .ird = 8,
        .ord = 8,
        .stream_ops = &hole,
    };
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
        .state = RI_QPS_RTS,
        .handover = &handover,
    };
    struct side other;
    int fds[2];

    if (_i)
        hole.size = offsetof(struct ri_stream_ops, close);
    else
        hole.segment = NULL;
    memset(&other, 0, sizeof(other));
    testbed_tcp(fds, 0);
    handover.fd = fds[0];
    side_open(&bed, &other, NULL);
    ck_assert_int_eq(bed.fake.privileged.qp_modify(other.qp, &modify), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_query(&other).state, RI_QPS_IDLE);
    ck_assert_int_eq(write(fds[0], "x", 1), 1);
    side_close(&other);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma: a stream that is handed over");
    TCase *tc = tc_case(suite, "inverted", set_up, bed_close);

    tc_add_tests(tc, messages_go_over_the_stream, an_orderly_close_finishes_both_streams,
                 an_abort_resets_the_stream);
    tcase_add_loop_test(tc, a_table_with_a_hole_is_refused, 0, 2);
    return tc_main(suite);
}
