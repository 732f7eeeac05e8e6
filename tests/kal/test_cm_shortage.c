/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: the system temporarily has no memory for sends. The program's own send(2)
 * replaces libc's. */
#include "cm_fake.h"

#include <sys/syscall.h>

static unsigned refusals; /* of the next calls */
static int refusal;

ssize_t send(int fd, const void *octets, size_t length, int flags)
{
    if (refusals) {
        refusals--;
        errno = refusal;
        return -1;
    }
    return (ssize_t)syscall(SYS_sendto, fd, octets, length, flags, NULL, 0);
}

static const int errors[] = { ENOBUFS, ENOMEM };

static void shortage(int which)
{
    refusals = 3;
    refusal = errors[which];
}

static struct ri_connect_param param_of(const char *data)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .private_data = data,
        .private_data_length = (uint16_t)strlen(data),
        .ird = 4,
        .ord = 8,
        .negotiate_depths = true,
    };
}

START_TEST(request_is_sent_again)
{
    struct fake_connection *c = fake_connection_new();
    struct ri_connect_param param = param_of("hello");
    struct sockaddr_storage at;
    int server = peer_listen(AF_INET, &at), peer;
    uint8_t octets[29];

    param.destination = (struct sockaddr *)&at;
    shortage(_i);
    ck_assert_int_eq(kal_connect(c->connection, &fake_qp_new()->base, &param), RI_OK);
    peer = peer_accept(server);
    peer_read(peer, octets, sizeof(octets));
    ck_assert_mem_eq(octets, "MPA ID Req Frame", 16);
    ck_assert_uint_eq(refusals, 0);
    ck_assert_uint_eq(c->events, 0);
    close(peer);
    close(server);
    fake_until(c->events == 1, 10000);
}
END_TEST

START_TEST(rejecting_reply_is_sent_again)
{
    struct sockaddr_storage at;
    struct kal_listener *listener = fake_listen("127.0.0.1", 0, 0, &at, &at);
    int peer = peer_connect(&at);
    uint8_t octets[64];

    peer_send(peer, octets, frame_request(octets, F_C | F_S, 2, 4, 4, "hello", 5));
    fake_until(fake.request_count == 1, 10000);
    shortage(_i);
    ck_assert_int_eq(kal_reject(fake.requests[0].context->connection, "no", 2), RI_OK);
    peer_read(peer, octets, 26);
    ck_assert_mem_eq(octets, "MPA ID Rep Frame", 16);
    ck_assert_mem_eq(octets + 24, "no", 2);
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(refusals, 0);
    close(peer);
    fake_destroy(fake.requests[0].context);
    kal_listen_destroy(listener);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cm_shortage");
    TCase *t = tc_case(suite, "sending", fake_setup, fake_teardown);

    tc_add_loops(t, 0, 2, request_is_sent_again, rejecting_reply_is_sent_again);
    return tc_main(suite);
}
