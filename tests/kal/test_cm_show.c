/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: the copies for those who watch the process. They may be made at any moment:
 * of what is being created, and while the lane changes it. */
#include "cm_passive.h"

#include <pthread.h>

#define ROOM 64

START_TEST(numbers_of_a_listener)
{
    struct kal_listener_seen seen[2] = { { .known = false } };
    struct fake_request *r = usual();
    int undecided = peer;

    dial();
    fake_until(listener->half_open == 1, 10000);
    ck_assert_uint_eq(kal_cm_listeners(&fake.rnic, seen, 1), 1);
    ck_assert(seen[0].known && !seen[1].known);
    ck_assert_str_eq(seen[0].address, listener->name);
    ck_assert_uint_eq(seen[0].half_open, 1);
    ck_assert_uint_eq(seen[0].undecided, 1);
    ck_assert_uint_eq(kal_cm_listeners(&fake.rnic, NULL, 0), 1);
    fake_destroy(r->context);
    ck_assert_uint_eq(kal_cm_listeners(&fake.rnic, seen, 2), 1);
    ck_assert_uint_eq(seen[0].undecided, 0);
    close(undecided);
}
END_TEST

START_TEST(states_of_connections)
{
    struct kal_connection_seen seen[2];
    struct sockaddr_storage own;
    socklen_t length = sizeof(own);

    dial();
    ck_assert_int_eq(getsockname(peer, (struct sockaddr *)&own, &length), 0);
    fake_until(listener->half_open == 1, 10000);
    ck_assert_uint_eq(kal_cm_connections(&fake.rnic, seen, 2), 1);
    ck_assert_str_eq(seen[0].state, "half-open");
    ck_assert_uint_gt(seen[0].age_ns, 0);
    ck_assert_mem_eq(&seen[0].peer, &own, sizeof(struct sockaddr_in));
    ck_assert(!seen[0].initiator);
    send_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    fake_until(fake.request_count == 1, 10000);
    ck_assert_uint_eq(kal_cm_connections(&fake.rnic, seen, 2), 1);
    ck_assert_str_eq(seen[0].state, "undecided");
}
END_TEST

/* ---- at any moment ---- */

static struct cm_stream_ops hooked;

static int listen_and_show(const struct sockaddr *address, bool v6only,
                           const struct cm_stream_options *options, int *fd,
                           struct sockaddr_storage *bound)
{
    struct kal_listener_seen seen[2];

    ck_assert_uint_eq(kal_cm_listeners(&fake.rnic, seen, 2), 2);
    ck_assert(seen[0].known);
    ck_assert(!seen[1].known); /* it has no address yet */
    return cm_stream_tcp.listen(address, v6only, options, fd, bound);
}

START_TEST(listener_that_is_being_created)
{
    struct kal_listener_seen seen[2];
    struct kal_listener *second;
    struct sockaddr_storage bound;

    hooked = cm_stream_tcp;
    hooked.listen = listen_and_show;
    fake.rnic.cm->stream_ops = &hooked;
    second = fake_listen("127.0.0.1", 0, 0, &label2, &bound);
    ck_assert_uint_eq(kal_cm_listeners(&fake.rnic, seen, 2), 2);
    ck_assert(seen[1].known);
    ck_assert_str_eq(seen[1].address, second->name);
    kal_listen_destroy(second);
}
END_TEST

static atomic_bool ends;
static atomic_uint walks;

static void *watch(void *unused)
{
    struct kal_connection_seen connections[ROOM];
    struct kal_listener_seen listeners[ROOM];

    while (!atomic_load(&ends)) {
        size_t count = kal_cm_listeners(&fake.rnic, listeners, ROOM);

        for (size_t i = 0; i < count && i < ROOM; i++)
            ck_assert(!listeners[i].known || listeners[i].address[0]);
        count = kal_cm_connections(&fake.rnic, connections, ROOM);
        for (size_t i = 0; i < count && i < ROOM; i++)
            ck_assert_uint_lt(connections[i].age_ns, UINT64_C(3600) * 1000000000);
        atomic_fetch_add(&walks, 1);
    }
    return unused;
}

START_TEST(while_they_come_and_go)
{
    pthread_t watcher;

    ck_assert_int_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (unsigned i = 0; i < 30 || atomic_load(&walks) < 100; i++) {
        struct sockaddr_storage bound;
        struct kal_listener *second = fake_listen("127.0.0.1", 0, 0, &label2, &bound);

        dial();
        fake_until(listener->half_open == 1, 10000);
        hang_up();
        fake_until(!listener->half_open, 10000);
        kal_listen_destroy(second);
    }
    atomic_store(&ends, true);
    pthread_join(watcher, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection manager, what is seen");
    TCase *t = tc_case(s, "seen", setup, teardown);

    tc_add_tests(t, numbers_of_a_listener, states_of_connections, listener_that_is_being_created,
                 while_they_come_and_go);
    return tc_main(s);
}
