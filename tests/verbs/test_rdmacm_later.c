/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm's calls behind rdma-core 44: names that are resolved without waiting, and events of the
 * program's own. getaddrinfo is this file's: the library finds it first, and names that end in
 * ".test" are answered when the test says so.
 */
#include "rdmacm_ids.h"

#include "verbs/rdmacm/later.h"

#include <dlfcn.h>
#include <netdb.h>
#include <semaphore.h>

#define EVENT(number) ((enum rdma_cm_event_type)(number))

/* ---- a name server ---- */

static sem_t asked, answer, answered;

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **found)
{
    static __typeof__(&getaddrinfo) real;
    const char *dot = node ? strrchr(node, '.') : NULL;
    int result;

    if (!real)
        real = (__typeof__(real))dlsym(RTLD_NEXT, "getaddrinfo");
    if (!dot || strcmp(dot, ".test") || (hints && hints->ai_flags & AI_NUMERICHOST))
        return real(node, service, hints, found);
    sem_post(&asked);
    sem_wait(&answer);
    result = strcmp(node, "none.test") ? real("127.0.0.1", service, hints, found) : EAI_NONAME;
    sem_post(&answered);
    return result;
}

static void set_up_server(void)
{
    sem_init(&asked, 0, 0);
    sem_init(&answer, 0, 0);
    sem_init(&answered, 0, 0);
    set_up();
}

/* ---- rdma_resolve_addrinfo, rdma_query_addrinfo ---- */

static void expect_loopback(struct rdma_cm_id *id, uint16_t port)
{
    struct rdma_addrinfo *info = NULL;
    const struct sockaddr_in *address;

    ck_assert_int_eq(rdma_query_addrinfo(id, &info), 0);
    ck_assert_ptr_nonnull(info);
    ck_assert_uint_eq(info->ai_dst_len, sizeof(*address));
    address = (const struct sockaddr_in *)(const void *)info->ai_dst_addr;
    ck_assert_uint_eq(ntohl(address->sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_uint_eq(ntohs(address->sin_port), port);
    ck_assert_int_eq(info->ai_port_space, RDMA_PS_TCP);
    rdma_freeaddrinfo(info);
}

START_TEST(a_numeric_address_is_resolved_at_once_and_given_once)
{
    struct rdma_addrinfo *info = NULL;
    struct rdma_cm_event *event;

    fails(rdma_query_addrinfo(client, &info), ENOENT);
    ck_assert_int_eq(rdma_resolve_addrinfo(client, "127.0.0.1", "7471", NULL), 0);
    event = take(channels[1], EVENT(RCM_EVENT_ADDRINFO_RESOLVED));
    ck_assert_ptr_eq(event->id, client);
    ck_assert_int_eq(event->status, 0);
    rdma_ack_cm_event(event);
    fails(rdma_resolve_addrinfo(client, "127.0.0.1", "7471", NULL), EBUSY);
    expect_loopback(client, 7471);
    fails(rdma_query_addrinfo(client, &info), ENOENT);
    ck_assert_ptr_null(info);

    ck_assert_int_eq(rdma_resolve_addrinfo(client, "127.0.0.1", "7472", NULL), 0);
    expect(channels[1], EVENT(RCM_EVENT_ADDRINFO_RESOLVED));
    expect_loopback(client, 7472);
    expect_nothing(channels[1]);
}
END_TEST

/* The arguments are the caller's again, before the server has answered. */
START_TEST(a_name_does_not_make_its_caller_wait)
{
    struct rdma_addrinfo hints = { .ai_flags = RAI_FAMILY, .ai_family = AF_INET }, *info;
    char name[] = "some.test", service[] = "7471";

    ck_assert_int_eq(rdma_resolve_addrinfo(client, name, service, &hints), 0);
    memset(name, 'x', sizeof(name) - 1);
    memset(service, 'x', sizeof(service) - 1);
    memset(&hints, 0xff, sizeof(hints));
    sem_wait(&asked);
    expect_nothing(channels[1]);
    fails(rdma_query_addrinfo(client, &info), ENOENT);
    fails(rdma_resolve_addrinfo(client, "127.0.0.1", NULL, NULL), EBUSY);
    sem_post(&answer);
    expect(channels[1], EVENT(RCM_EVENT_ADDRINFO_RESOLVED));
    expect_loopback(client, 7471);
}
END_TEST

START_TEST(a_name_that_nobody_knows_is_an_event_with_an_error)
{
    struct rdma_addrinfo *info;
    struct rdma_cm_event *event;

    sem_post(&answer);
    ck_assert_int_eq(rdma_resolve_addrinfo(client, "none.test", "7471", NULL), 0);
    event = take(channels[1], EVENT(RCM_EVENT_ADDRINFO_ERROR));
    ck_assert_int_eq(event->status, -ENOENT);
    rdma_ack_cm_event(event);
    fails(rdma_query_addrinfo(client, &info), ENOENT);
    ck_assert_int_eq(rdma_resolve_addrinfo(client, "127.0.0.1", "7471", NULL), 0);
    expect(channels[1], EVENT(RCM_EVENT_ADDRINFO_RESOLVED));
    expect_loopback(client, 7471);
}
END_TEST

/* The answer comes after the id has gone, with the results of another id unasked for. */
START_TEST(an_id_is_destroyed_without_waiting_for_the_server)
{
    struct rdma_cm_id *id = new_id(channels[1], NULL);

    ck_assert_int_eq(rdma_resolve_addrinfo(id, "some.test", "7471", NULL), 0);
    sem_wait(&asked);
    ck_assert_int_eq(rdma_destroy_id(id), 0);
    sem_post(&answer);
    sem_wait(&answered);
    id = new_id(channels[1], NULL);
    ck_assert_int_eq(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), 0);
    expect(channels[1], EVENT(RCM_EVENT_ADDRINFO_RESOLVED));
    expect_nothing(channels[1]);
    ck_assert_int_eq(rdma_destroy_id(id), 0); /* with the result, which nobody has queried */
}
END_TEST

START_TEST(a_synchronous_id_waits_for_its_result)
{
    struct rdma_cm_id *id;

    sem_post(&answer);
    ck_assert_int_eq(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(rdma_resolve_addrinfo(id, "some.test", "7471", NULL), 0);
    ck_assert_int_eq((int)id->event->event, RCM_EVENT_ADDRINFO_RESOLVED);
    expect_loopback(id, 7471);
    sem_post(&answer);
    fails(rdma_resolve_addrinfo(id, "none.test", "7471", NULL), ENOENT);
    rdma_destroy_id(id);
}
END_TEST

START_TEST(what_cannot_be_resolved_is_refused)
{
    struct rdma_addrinfo hints = { .ai_flags = RCM_RAI_SA };

    fails(rdma_resolve_addrinfo(client, NULL, "7471", &hints), EOPNOTSUPP);
    hints.ai_flags |= RCM_RAI_DNS;
    fails(rdma_resolve_addrinfo(client, NULL, "7471", &hints), EOPNOTSUPP);
    fails(rdma_resolve_addrinfo(client, NULL, NULL, NULL), EINVAL);
    fails(rdma_resolve_addrinfo(NULL, "127.0.0.1", NULL, NULL), EINVAL);
    fails(rdma_query_addrinfo(client, NULL), EINVAL);
    expect_nothing(channels[1]);
    hints.ai_flags = RCM_RAI_DNS;
    ck_assert_int_eq(rdma_resolve_addrinfo(client, "127.0.0.1", "7471", &hints), 0);
    expect(channels[1], EVENT(RCM_EVENT_ADDRINFO_RESOLVED));
}
END_TEST

/* ---- rdma_write_cm_event ---- */

static uint64_t arg_of(const struct rdma_cm_event *event)
{
    uint64_t arg;

    memcpy(&arg, &event->param, sizeof(arg));
    return arg;
}

START_TEST(an_event_of_the_program_comes_with_status_and_argument)
{
    struct rdma_cm_event *event;

    ck_assert_int_eq(rdma_write_cm_event(client, EVENT(RCM_EVENT_USER), -7, 0x123456789abcdef0), 0);
    ck_assert_int_eq(rdma_write_cm_event(client, EVENT(RCM_EVENT_USER), 8, 1), 0);
    event = take(channels[1], EVENT(RCM_EVENT_USER));
    ck_assert_ptr_eq(event->id, client);
    ck_assert_int_eq(event->status, -7);
    ck_assert_uint_eq(arg_of(event), 0x123456789abcdef0);
    rdma_ack_cm_event(event);
    /* the second one goes with its id to another channel */
    ck_assert_int_eq(rdma_migrate_id(client, channels[0]), 0);
    expect_nothing(channels[1]);
    event = take(channels[0], EVENT(RCM_EVENT_USER));
    ck_assert_int_eq(event->status, 8);
    ck_assert_uint_eq(arg_of(event), 1);
    rdma_ack_cm_event(event);
    /* the third is dropped with its id */
    ck_assert_int_eq(rdma_write_cm_event(client, EVENT(RCM_EVENT_USER), 0, 0), 0);
    rdma_destroy_id(client);
    client = NULL;
    expect_nothing(channels[0]);
}
END_TEST

START_TEST(only_an_event_of_the_program_can_be_written)
{
    for (int event = 0; event < 32; event++)
        if (event != RCM_EVENT_USER)
            fails(rdma_write_cm_event(client, EVENT(event), 0, 0), EINVAL);
    fails(rdma_write_cm_event(NULL, EVENT(RCM_EVENT_USER), 0, 0), EINVAL);
    expect_nothing(channels[1]);
}
END_TEST

START_TEST(later_events_have_names)
{
    ck_assert_str_eq(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
    ck_assert_str_eq(rdma_event_str(EVENT(RCM_EVENT_ADDRINFO_RESOLVED)),
                     "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
    ck_assert_str_eq(rdma_event_str(EVENT(RCM_EVENT_ADDRINFO_ERROR)),
                     "RDMA_CM_EVENT_ADDRINFO_ERROR");
    ck_assert_str_eq(rdma_event_str(EVENT(RCM_EVENT_USER)), "RDMA_CM_EVENT_USER");
    ck_assert_str_eq(rdma_event_str(EVENT(99)), "UNKNOWN EVENT");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("librdmacm behind release 44");
    TCase *tc = tc_case(suite, "later", set_up_server, tear_down);

    tc_add_tests(
        tc, a_numeric_address_is_resolved_at_once_and_given_once,
        a_name_does_not_make_its_caller_wait, a_name_that_nobody_knows_is_an_event_with_an_error,
        an_id_is_destroyed_without_waiting_for_the_server, a_synchronous_id_waits_for_its_result,
        what_cannot_be_resolved_is_refused, an_event_of_the_program_comes_with_status_and_argument,
        only_an_event_of_the_program_can_be_written, later_events_have_names);
    return tc_main(suite);
}
