/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf without a connection: messages of the control channel, limits of the server, options.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tc.h"
#include "tools/common/plain_tcp.h"
#include "tools/itperf/itperf.h"

static struct perf_plan a_plan(void)
{
    return (struct perf_plan){ .op = PERF_WRITE,
                               .kind = PERF_LAT,
                               .mode = PERF_EVENT,
                               .target = PERF_FD,
                               .size_least = 2,
                               .size_max = 4096,
                               .sizes = 3,
                               .iterations = 1ull << 33,
                               .threads = 2,
                               .endpoints = 7,
                               .active = 5,
                               .tx_depth = 16,
                               .rx_depth = 12,
                               .list = 4,
                               .cq_mod = 8,
                               .reads = 3,
                               .write_send = true };
}

START_TEST(perf_messages_survive_the_way)
{
    struct perf_message message, back;
    uint8_t data[PERF_MESSAGE];

    memset(&message, 0, sizeof(message));
    message.type = PERF_PARAMS;
    message.u.plan = a_plan();
    perf_put_message(data, &message);
    ck_assert(perf_get_message(data, sizeof(data), &back));
    ck_assert_int_eq(back.type, PERF_PARAMS);
    ck_assert_uint_eq(back.u.plan.iterations, 1ull << 33);
    ck_assert_uint_eq(back.u.plan.active, 5);
    ck_assert(back.u.plan.write_send && !back.u.plan.bidirectional && !back.u.plan.pure_memory);
    ck_assert_int_eq(back.u.plan.target, PERF_FD);

    memset(&message, 0, sizeof(message));
    message.type = PERF_RESULT;
    message.u.result.good = true;
    message.u.result.tally.rate = 1.5e7;
    message.u.result.tally.user_ns = UINT64_MAX;
    perf_put_message(data, &message);
    ck_assert(perf_get_message(data, sizeof(data), &back));
    ck_assert_double_eq(back.u.result.tally.rate, 1.5e7);
    ck_assert_uint_eq(back.u.result.tally.user_ns, UINT64_MAX);
    message.u.result.tally.rate = -1;
    perf_put_message(data, &message);
    ck_assert(!perf_get_message(data, sizeof(data), &back));
}
END_TEST

/* However a message is damaged, it is refused or its plan can be executed. */
START_TEST(spoilt_plans_do_no_harm)
{
    struct perf_message message = { .type = PERF_PARAMS }, back;
    struct tc_rng rng = tc_rng(2);
    uint8_t data[PERF_MESSAGE];
    unsigned refused = 0;

    for (unsigned turn = 0; turn < 20000; turn++) {
        message.u.plan = a_plan();
        perf_put_message(data, &message);
        data[8 + tc_below(&rng, 80)] = (uint8_t)tc_below(&rng, 256);
        if (!perf_get_message(data, sizeof(data), &back)) {
            refused++;
            continue;
        }
        ck_assert(back.u.plan.op >= PERF_SEND && back.u.plan.op <= PERF_READ);
        ck_assert(back.u.plan.kind == PERF_LAT || back.u.plan.kind == PERF_BW);
        ck_assert_uint_ge(back.u.plan.threads, 1);
        ck_assert_uint_le(back.u.plan.threads, back.u.plan.active);
        ck_assert_uint_le(back.u.plan.active, back.u.plan.endpoints);
        ck_assert_uint_le(back.u.plan.endpoints, PERF_ENDPOINTS_MAX);
        ck_assert_uint_le(back.u.plan.size_least, back.u.plan.size_max);
        ck_assert_uint_le(back.u.plan.size_max, PERF_SIZE_MAX);
        ck_assert_uint_le(back.u.plan.cq_mod, back.u.plan.tx_depth);
        ck_assert_uint_le(back.u.plan.list, back.u.plan.tx_depth);
    }
    ck_assert_uint_gt(refused, 5000);
}
END_TEST

START_TEST(memory_of_a_plan_is_counted)
{
    struct perf_plan plan = { .op = PERF_WRITE,
                              .kind = PERF_BW,
                              .size_max = 1 << 20,
                              .threads = 1,
                              .endpoints = 100,
                              .active = 100,
                              .tx_depth = 1,
                              .rx_depth = 1 };
    struct perf_limits limits = { .memory = 1u << 30, .threads = 4, .polling = 2 };
    char text[PERF_TEXT];
    uint64_t before;

    ck_assert_uint_ge(perf_server_memory(&plan), 100u << 20); /* a target for each */
    ck_assert_uint_le(perf_server_memory(&plan), 120u << 20);
    ck_assert(perf_limits_grant(&limits, &plan, text, sizeof(text)));
    plan.op = PERF_READ; /* all from one source */
    ck_assert_uint_le(perf_server_memory(&plan), 20u << 20);
    before = perf_server_memory(&plan);
    plan.kind = PERF_LAT;
    ck_assert_uint_ge(perf_server_memory(&plan), before + (100u << 20));
    plan.endpoints = plan.active = 2000;
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-memory"));
    /* Larger than any peer can request: computed without overflow. */
    plan = (struct perf_plan){ .op = PERF_SEND,
                               .kind = PERF_BW,
                               .size_max = UINT32_MAX - 63,
                               .threads = UINT32_MAX,
                               .endpoints = UINT32_MAX,
                               .tx_depth = UINT32_MAX / 4,
                               .rx_depth = UINT32_MAX / 4 };
    ck_assert_uint_eq(perf_server_memory(&plan), UINT64_MAX);
    plan = (struct perf_plan){ .op = PERF_SEND,
                               .kind = PERF_LAT,
                               .target = PERF_BUSY,
                               .threads = 3,
                               .endpoints = 3,
                               .active = 3,
                               .tx_depth = 1,
                               .rx_depth = 1 };
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-polling"));
    plan.target = PERF_EVENT;
    ck_assert(perf_limits_grant(&limits, &plan, text, sizeof(text)));
    plan.op = PERF_WRITE; /* Writes have no event: they are polled for, whatever is requested */
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-polling"));
    ck_assert_ptr_nonnull(strstr(text, "--write-send"));
    plan.write_send = true;
    ck_assert(perf_limits_grant(&limits, &plan, text, sizeof(text)));
    plan.threads = 5;
    ck_assert(!perf_limits_grant(&limits, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "--max-threads"));
}
END_TEST

static int ends[2];
static atomic_int mover;

static void *move_busily(void *writes)
{
    static uint8_t octets[1 << 20];

    atomic_store(&mover, (int)syscall(SYS_gettid));
    if (writes)
        ck_assert_int_eq(plain_write(ends[0], octets, sizeof(octets), true, 600000000), -1);
    else
        ck_assert_int_eq(plain_read(ends[0], octets, 1, true, 600000000), 0);
    return NULL;
}

/* Polling without sleep ends after a second if the peer moves nothing, whatever the peer does. */
START_TEST(nobody_spins_for_a_silent_peer)
{
    pthread_t thread;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    atomic_store(&mover, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, move_busily, _i ? &ends : NULL), 0);
    ck_assert(tc_until(tc_asleep(atomic_load(&mover)), 20000));
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
}
END_TEST

START_TEST(both_sides_are_compared)
{
    struct perf_options own = { .server = true };
    struct perf_plan plan = a_plan();
    char text[PERF_TEXT], tiny[16];

    ck_assert(perf_options_agree(&own, &plan, text, sizeof(text)));
    ck_assert_str_eq(text, "");
    own.plan = plan;
    own.size[0] = 4096, own.size[1] = 2, own.size[2] = 64;
    own.given = ~0u;
    ck_assert(perf_options_agree(&own, &plan, text, sizeof(text)));
    plan.tx_depth++;
    plan.kind = PERF_BW;
    ck_assert(!perf_options_agree(&own, &plan, text, sizeof(text)));
    ck_assert_str_eq(text, "lat there, bw here; -t 16 there, 17 here");
    ck_assert(!perf_options_agree(&own, &plan, tiny, sizeof(tiny)));
    ck_assert_uint_lt(strlen(tiny), sizeof(tiny));
    plan = a_plan();
    plan.size_max++;
    ck_assert(!perf_options_agree(&own, &plan, text, sizeof(text)));
    ck_assert_ptr_nonnull(strstr(text, "2 to 4096 there"));
}
END_TEST

/* The length of a control message must differ from that of data. */
START_TEST(control_lengths_are_not_data)
{
    for (uint32_t size = 1; size < 40; size++) {
        for (int control = PERF_CREDIT; control <= PERF_NOTE; control++) {
            uint32_t length = perf_control_length(size, (enum perf_control)control);

            ck_assert_uint_ne(length, size);
            ck_assert_uint_le(length, PERF_CONTROL_MAX);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("itperf");
    TCase *parts = tc_case(suite, "parts", NULL, NULL);

    tc_add_tests(parts, perf_messages_survive_the_way, spoilt_plans_do_no_harm,
                 memory_of_a_plan_is_counted, both_sides_are_compared,
                 control_lengths_are_not_data);
    tcase_add_loop_test(parts, nobody_spins_for_a_silent_peer, 0, 2);
    return tc_main(suite);
}
