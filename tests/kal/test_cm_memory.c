/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager, passive side: memory runs out as a connection is accepted, one allocation
 * after the other, and what else ends a request without an answer. The peer gets a reset, which is
 * no answer of a peer of revision 1; the log says why, once a second; the next peer is served.
 */
#include "cm_passive.h"
#include "tc_allocator.h"

/* ---- accepting ---- */

static bool has_ended(void)
{
    return !peer_quiet(peer);
}

static void (*record)(void *listener_context, struct kal_connection *connection,
                      const struct ri_connect_request *request, void **connection_context);

/* The fixture records it, and uses Check. */
static void on_request(void *listener_context, struct kal_connection *connection,
                       const struct ri_connect_request *request, void **connection_context)
{
    atomic_store(&counts, false);
    record(listener_context, connection, request, connection_context);
}

static void run_counted(void)
{
    atomic_store(&counts, true);
    fake_lane_pass(fake.lane, 1);
    atomic_store(&counts, false);
}

/* The peer asks while that allocation fails: before it is accepted, or `late`, behind that. True:
 * the program has the request. */
static bool ask_without_memory(unsigned which, bool late)
{
    unsigned before = fake.request_count;
    uint64_t end = tc_deadline(10000);

    dial();
    if (!late)
        send_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    atomic_store(&made, 0);
    atomic_store(&fail_at, which);
    while (late && !listener->half_open && !has_ended() && !tc_expired(end))
        run_counted();
    if (late && !has_ended())
        send_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    while (fake.request_count == before && !has_ended() && !tc_expired(end))
        run_counted();
    return fake.request_count > before;
}

static void forget_request(void)
{
    fake_destroy(fake.requests[(fake.request_count - 1) % FAKE_REQUESTS].context);
    hang_up();
}

/* Each allocation of an accept fails once. _i: the Request comes behind it. */
START_TEST(every_allocation_of_an_accept)
{
    unsigned which = 0, resets = 0;

    allocator_needed();
    record = fake_upper_seen.request;
    fake_upper_seen.request = on_request;
    do {
        bool asked = ask_without_memory(++which, _i);

        if (!asked) {
            resets++;
            ck_assert_int_eq(peer_end(peer), 'R');
            hang_up();
            usual();
        }
        forget_request();
        ck_assert_uint_eq(listener->no_memory, resets);
        ck_assert_uint_eq(listener->half_open + listener->undecided, 0);
        ck_assert_uint_eq(kal_rnic_holds(&fake.rnic, KAL_ACCOUNT_CONNECTION), 0);
    } while (atomic_load(&made) >= which && which < 1000);
    fake_upper_seen.request = record;
    ck_assert_uint_lt(which, 1000);
    ck_assert_uint_ge(resets, 3); /* the object, its start-up, its watch */
    ck_assert_uint_ge(fake_log_count("out of memory, connections are reset"), 1);
    ck_assert_uint_le(fake_log_count("out of memory"), resets);
}
END_TEST

static bool no_watch(struct fake_lane *lane, int fd)
{
    (void)lane;
    return fd == listener->fd;
}

/* Many in one second make one line. */
START_TEST(one_line_for_many)
{
    uint64_t began = tc_now_ns();

    fake.lane->may_watch = no_watch;
    for (int i = 0; i < 20; i++) {
        dial();
        ck_assert_int_eq(peer_end(peer), 'R');
        hang_up();
    }
    fake.lane->may_watch = NULL;
    ck_assert_uint_eq(listener->no_memory, 20);
    ck_assert_uint_le(fake_log_count("out of memory"), 1 + (tc_now_ns() - began) / 1000000000u);
    usual();
}
END_TEST

/* ---- the system's memory ---- */

static int refusals;
static struct cm_stream_ops short_ops;

static int accept_short(int fd, int *out, union address *from)
{
    if (refusals) {
        refusals--;
        return refusals ? ENOMEM : ENOBUFS;
    }
    return cm_stream_tcp.accept(fd, out, from);
}

/* accept(2) fails: peers wait in the kernel's queue, and the log says so. */
START_TEST(accept_without_memory_of_the_system)
{
    short_ops = cm_stream_tcp;
    short_ops.accept = accept_short;
    refusals = 2;
    fake.rnic.cm->stream_ops = &short_ops;
    usual();
    ck_assert_int_eq(refusals, 0);
    ck_assert_uint_eq(listener->no_memory, 2);
    ck_assert_uint_ge(fake_log_count("no connection can be accepted now"), 1);
}
END_TEST

/* ---- asked, and nobody answers ---- */

/* It was accepted, and no queue pair was attached in time. */
START_TEST(no_queue_pair_in_time)
{
    struct ri_connect_param param = param_of(NULL, 4, 4);
    struct fake_request *r;

    with((const char *[]){ "request_timeout", "30", NULL });
    r = usual();
    ck_assert_int_eq(kal_accept(r->context->connection, NULL, &param), RI_OK);
    fake_until(r->context->events == 1, 10000);
    ck_assert_int_eq(r->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(peer_end(peer), 'R');
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cm_memory");
    TCase *t = tc_case(suite, "accepting", setup, teardown);

    tcase_add_loop_test(t, every_allocation_of_an_accept, 0, 2);
    tc_add_tests(t, one_line_for_many, accept_without_memory_of_the_system);
    t = tc_case(suite, "unanswered", setup, teardown);
    tcase_add_test(t, no_queue_pair_in_time);
    return tc_main(suite);
}
