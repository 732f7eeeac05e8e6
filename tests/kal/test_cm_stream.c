/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up over a stream that is not TCP: both roles in one process, over kal/cm/stream.h
 * alone. */
#include "cm_fake.h"
#include "pair_stream.h"

#include <sys/socket.h>

static struct kal_listener *listener;
static struct sockaddr_storage at;
static struct fake_connection *c;
static struct fake_qp *qp, *other;

static void setup(void)
{
    fake_setup();
    fake.rnic.cm->stream_ops = &pair_stream;
    fake.rnic.attr.features |= RI_FEATURE_STREAMS;
    listener = fake_listen("127.0.0.1", 0, 4, &listener, &at);
    c = fake_connection_new();
    qp = fake_qp_new();
    other = fake_qp_new();
}

static void teardown(void)
{
    if (listener)
        kal_listen_destroy(listener);
    fake_teardown();
    ck_assert_uint_eq(pair_open(), 0);
}

static struct ri_connect_param param_of(const char *data)
{
    return (struct ri_connect_param){ .size = sizeof(struct ri_connect_param),
                                      .destination = (struct sockaddr *)&at,
                                      .deadline = RI_NO_DEADLINE,
                                      .private_data = data,
                                      .private_data_length = (uint16_t)strlen(data),
                                      .ird = 4,
                                      .ord = 4,
                                      .negotiate_depths = true };
}

static void dial(const char *data)
{
    struct ri_connect_param param = param_of(data);

    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_OK);
}

static void end_all(struct fake_connection *passive)
{
    struct kal_connection *connection = passive->connection;

    passive->connection = NULL;
    kal_connection_destroy(connection);
}

static void end_carried(struct fake_qp *of)
{
    of->last.stream_ops->close(of->last.stream, false);
    of->fd = -1;
}

START_TEST(a_connection_comes_up)
{
    struct ri_connect_param answer = param_of("welcome");
    struct fake_request *r = &fake.requests[0];
    const struct iovec ulpdu = { "ULPDU", 5 };
    char octets[8] = "";

    dial("hello");
    fake_until(fake.request_count == 1, 10000);
    ck_assert_uint_eq(r->request.private_data_length, 5);
    ck_assert_mem_eq(r->private_data, "hello", 5);
    ck_assert_uint_eq(port_of(&r->request.peer), 9);
    ck_assert_int_eq(kal_accept(r->context->connection, &other->base, &answer), RI_OK);
    fake_until(c->events == 1, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(c->last.private_data_length, 7);
    ck_assert_mem_eq(c->private_data, "welcome", 7);
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert_uint_eq(other->hand_overs, 1);
    /* The provider has both ends of the stream, with its table. */
    ck_assert_int_eq(qp->last.stream_ops->send(qp->last.stream, &ulpdu, 1), 5);
    ck_assert_int_eq(other->last.stream_ops->receive(other->last.stream, octets, sizeof(octets)),
                     5);
    ck_assert_str_eq(octets, "ULPDU");
    end_carried(qp);
    end_carried(other);
    end_all(r->context);
}
END_TEST

START_TEST(a_rejection_arrives_with_its_data)
{
    struct fake_request *r = &fake.requests[0];

    dial("hello");
    fake_until(fake.request_count == 1, 10000);
    ck_assert_int_eq(kal_reject(r->context->connection, "no room", 7), RI_OK);
    end_all(r->context);
    fake_until(c->events == 1, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_REJECTED);
    ck_assert_uint_eq(c->last.private_data_length, 7);
    ck_assert_mem_eq(c->private_data, "no room", 7);
}
END_TEST

START_TEST(nobody_listens)
{
    kal_listen_destroy(listener);
    listener = NULL;
    dial("hello");
    fake_until(c->events == 1, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(c->last.reason, RI_REASON_REFUSED);
}
END_TEST

/* The peer reads the Request and ends: S-020 asks for a second stream. */
START_TEST(revision_1_goes_over_a_second_stream)
{
    const struct cm_stream_options none = { .rnic = &fake.rnic };
    uint8_t frame[600], got[600];
    size_t length = frame_request(frame, F_C, 1, 0, 0, "hello", 5);
    union address peer;
    int listening, fd = -1;

    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_int_eq(pair_stream.listen((struct sockaddr *)&at, false, &none, &listening, &at), 0);
    dial("hello");
    ck_assert_int_eq(pair_stream.accept(listening, &fd, &peer), 0);
    fake_until(pair_stream.readable(fd) && c->connection->startup->out_sent == length + 4, 10000);
    ck_assert_int_eq(pair_stream.receive(fd, got, sizeof(got)), (ssize_t)length + 4);
    ck_assert_uint_eq(got[17], 2);
    pair_stream.close(fd);
    fd = -1;
    fake_until(!pair_stream.accept(listening, &fd, &peer), 10000);
    fake_until(pair_stream.readable(fd) && c->connection->startup->out_sent == length, 10000);
    ck_assert_int_eq(pair_stream.receive(fd, got, sizeof(got)), (ssize_t)length);
    ck_assert_mem_eq(got, frame, length);
    pair_stream.close(fd);
    pair_stream.close(listening);
    fake_until(c->events == 1, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
}
END_TEST

START_TEST(a_request_that_leaves_is_withdrawn)
{
    struct ri_connect_param answer = param_of("late");
    struct fake_request *r = &fake.requests[0];

    dial("hello");
    fake_until(fake.request_count == 1, 10000);
    fake_destroy(c);
    ck_assert_int_eq(kal_accept(r->context->connection, &other->base, &answer),
                     RI_ERR_INVALID_STATE);
    end_all(r->context);
}
END_TEST

START_TEST(an_adopted_stream_is_handed_over)
{
    struct kal_convert_param param = { .size = sizeof(param), .initiator = true };
    int both[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    param.fd = both[0];
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_OK);
    fake_until(c->events == 1, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_int_ne(qp->fd, both[0]);
    end_carried(qp);
    close(both[0]);
    close(both[1]);
}
END_TEST

/* It would take what the descriptor carries for a TCP socket's octets. */
START_TEST(a_provider_of_sockets_alone_gets_no_other_stream)
{
    struct ri_connect_param answer = param_of("welcome");
    struct fake_request *r = &fake.requests[0];

    fake.rnic.attr.features &= ~RI_FEATURE_STREAMS;
    dial("hello");
    fake_until(fake.request_count == 1, 10000);
    kal_accept(r->context->connection, &other->base, &answer);
    fake_until(c->events == 1, 10000);
    ck_assert_int_ne(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(qp->hand_overs + other->hand_overs, 0);
    ck_assert_uint_ge(fake_log_count("takes TCP sockets alone"), 1);
    end_all(r->context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cm_stream");
    TCase *tc = tc_case(suite, "stream", setup, teardown);

    tc_add_tests(tc, a_connection_comes_up, a_rejection_arrives_with_its_data, nobody_listens,
                 revision_1_goes_over_a_second_stream, a_request_that_leaves_is_withdrawn,
                 an_adopted_stream_is_handed_over,
                 a_provider_of_sockets_alone_gets_no_other_stream);
    return tc_main(suite);
}
