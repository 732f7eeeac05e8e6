/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the active side share: see cm_active.h. */
#include "cm_active.h"

int server = -1, peer = -1;
struct sockaddr_storage at;
struct fake_connection *c;
struct fake_qp *qp;

void setup(void)
{
    fake_setup();
    server = peer_listen(AF_INET, &at);
    c = fake_connection_new();
    qp = fake_qp_new();
}

void hang_up(void)
{
    if (peer >= 0)
        close(peer);
    peer = -1;
}

void teardown(void)
{
    hang_up();
    close(server);
    fake_teardown();
}

struct ri_connect_param param_of(const char *data, uint16_t ird, uint16_t ord)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .destination = (struct sockaddr *)&at,
        .deadline = RI_NO_DEADLINE,
        .private_data = data,
        .private_data_length = data ? (uint16_t)strlen(data) : 0,
        .ird = ird,
        .ord = ord,
        .negotiate_depths = true,
    };
}

enum ri_status start(const char *data, uint16_t ird, uint16_t ord)
{
    struct ri_connect_param param = param_of(data, ird, ord);

    return kal_connect(c->connection, &qp->base, &param);
}

/* A new RNIC with these options. */
void with(const char *const *options)
{
    fake_destroy(c);
    fake_reopen(options, 0);
    c = fake_connection_new();
}

void expect_request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t want[600], got[600];
    size_t n = frame_request(want, flags, rev, ird, ord, data, strlen(data));

    peer = peer_accept(server);
    peer_read(peer, got, n);
    ck_assert_mem_eq(got, want, n);
    ck_assert(peer_quiet(peer)); /* S-010: nothing more before the Reply */
}

void reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t octets[600];

    peer_send(peer, octets, frame_reply(octets, flags, rev, ird, ord, data, strlen(data)));
}

/* Request "hello" with IRD 4, ORD 8, everything default. */
void ask(void)
{
    ck_assert_int_eq(start("hello", 4, 8), RI_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

void expect_failure(enum ri_connection_reason reason)
{
    fake_until(c->events, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(c->last.reason, reason);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(c->events, 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
    ck_assert_uint_eq(fake_log_count("connection to ") - fake_log_count("trying revision 1") -
                          fake_log_count("trying again"),
                      1);
}

void expect_established(void)
{
    fake_until(c->events, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert_uint_eq(qp->events_before, 0);
    ck_assert(qp->last.initiator);
    ck_assert(!qp->last.rtr_await);
    ck_assert_uint_eq(qp->last.refuse_code, 0);
    ck_assert_uint_eq(qp->last.last_message_length, 0);
}
