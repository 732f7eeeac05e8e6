/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the passive side share: see cm_passive.h. */
#include "cm_passive.h"

struct kal_listener *listener;
struct sockaddr_storage at;
int peer = -1;
int label, label2;

void setup(void)
{
    fake_setup();
    listener = fake_listen("127.0.0.1", 0, 0, &label, &at);
}

void hang_up(void)
{
    if (peer >= 0)
        close(peer);
    peer = -1;
}

/* Abandons the requests that the test has not decided. */
void teardown(void)
{
    hang_up();
    if (listener)
        kal_listen_destroy(listener);
    listener = NULL;
    for (unsigned i = 0; i < fake.request_count && i < FAKE_REQUESTS; i++)
        if (fake.requests[i].context->connection)
            fake_destroy(fake.requests[i].context);
    fake_teardown();
}

void with(const char *const *options)
{
    kal_listen_destroy(listener);
    fake_reopen(options, 0);
    listener = fake_listen("127.0.0.1", 0, 0, &label, &at);
}

void dial(void)
{
    peer = peer_connect(&at);
    ck_assert_int_ge(peer, 0);
}

void abort_on_close(int fd)
{
    struct linger abort = { .l_onoff = 1 };

    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort)), 0);
}

void send_request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t octets[600];

    peer_send(peer, octets, frame_request(octets, flags, rev, ird, ord, data, strlen(data)));
}

/* The request that the peer's frame leads to. */
struct fake_request *request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                             const char *data)
{
    unsigned before = fake.request_count;

    dial();
    send_request(flags, rev, ird, ord, data);
    fake_until(fake.request_count > before, 10000);
    return &fake.requests[before % FAKE_REQUESTS];
}

struct fake_request *usual(void)
{
    return request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

struct ri_connect_param param_of(const char *data, uint16_t ird, uint16_t ord)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .private_data = data,
        .private_data_length = data ? (uint16_t)strlen(data) : 0,
        .ird = ird,
        .ord = ord,
        .negotiate_depths = true,
    };
}

enum ri_status accept_it(struct fake_request *r, struct fake_qp *qp, const char *data, uint16_t ird,
                         uint16_t ord)
{
    struct ri_connect_param param = param_of(data, ird, ord);

    return kal_accept(r->context->connection, &qp->base, &param);
}

void expect_reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t want[600], got[600];
    size_t n = frame_reply(want, flags, rev, ird, ord, data, strlen(data));

    peer_read(peer, got, n);
    ck_assert_mem_eq(got, want, n);
}

/* Refused before any upcall; nothing of it is left. */
void expect_dropped(const char *line)
{
    char end = peer_end(peer);

    ck_assert(end == 'F' || end == 'R');
    ck_assert_uint_eq(fake.request_count, 0);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1); /* the listener */
    ck_assert_uint_eq(listener->half_open, 0);
    ck_assert_uint_eq(kal_rnic_holds(&fake.rnic, KAL_ACCOUNT_CONNECTION), 0);
    if (line)
        ck_assert_msg(fake_log_count(line) == 1, "%s", fake_log_text());
}
