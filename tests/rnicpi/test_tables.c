/* SPDX-License-Identifier: BSD-3-Clause */
/* Provider tables: missing entries become defaults, invalid ones are refused; versions in both
 * directions. */
#include "tc.h"

#include "rnicpi_host.h"
#include "rnicpi_status.h"

#define SLOT sizeof(void (*)(void))

/* ---- the tests' provider ---- */

static enum ri_status own_query(struct ri_rnic *rnic, struct ri_rnic_attr *attr)
{
    (void)rnic;
    (void)attr;
    return RI_ERR_BUSY;
}

static enum ri_status own_qp_counters(struct ri_qp *qp, const char **names, uint64_t *values,
                                      size_t *count)
{
    (void)qp;
    (void)names;
    (void)values;
    (void)count;
    return RI_ERR_DEVICE;
}

static uint32_t own_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    (void)cq;
    (void)wc;
    return count;
}

static bool own_lane_arm(struct ri_lane *lane)
{
    (void)lane;
    return false;
}

static const struct ri_privileged_ops own_privileged = {
    .size = sizeof(own_privileged),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .query = own_query,
    .qp_counters = own_qp_counters,
};

static const struct ri_user_ops own_user = {
    .size = sizeof(own_user),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .poll = own_poll,
    .lane_arm = own_lane_arm,
};

static struct ri_provider own_provider(void)
{
    return (struct ri_provider){
        .size = sizeof(struct ri_provider),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .name = "own",
        .description = "of the tests",
        .version = "1",
        .privileged = &own_privileged,
        .user = &own_user,
    };
}

/* ---- defaults ---- */

/* Every slot of the default tables is filled: a NULL would be called. */
START_TEST(defaults_fill_every_slot)
{
    static void (*const absent)(void);
    const char *at = (const char *)&ri_default_privileged_ops;

    for (size_t i = offsetof(struct ri_privileged_ops, enumerate);
         i < sizeof(ri_default_privileged_ops); i += SLOT)
        ck_assert_msg(memcmp(at + i, &absent, SLOT) != 0, "privileged slot at %zu", i);
    at = (const char *)&ri_default_user_ops;
    for (size_t i = offsetof(struct ri_user_ops, post_send); i < sizeof(ri_default_user_ops);
         i += SLOT)
        ck_assert_msg(memcmp(at + i, &absent, SLOT) != 0, "user slot at %zu", i);
    ck_assert_uint_eq(ri_default_privileged_ops.size, sizeof(struct ri_privileged_ops));
    ck_assert_uint_eq(ri_default_user_ops.size, sizeof(struct ri_user_ops));
    ck_assert_uint_eq(ri_default_privileged_ops.abi_major, RI_ABI_MAJOR);
    ck_assert_uint_eq(ri_default_user_ops.abi_major, RI_ABI_MAJOR);
}
END_TEST

START_TEST(defaults_answer_not_supported)
{
    struct ri_send_wr send = { 0 }, *bad_send = NULL;
    struct ri_recv_wr receive = { 0 }, *bad_receive = NULL;
    uint64_t deadline = 0;

    ck_assert_int_eq(ri_default_privileged_ops.close(NULL, true), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(ri_default_privileged_ops.mw_free(NULL), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(ri_default_privileged_ops.service_reply(NULL, NULL), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(ri_default_user_ops.post_send(NULL, &send, &bad_send), RI_ERR_NOT_SUPPORTED);
    ck_assert_ptr_eq(bad_send, &send);
    ck_assert_int_eq(ri_default_user_ops.post_recv(NULL, &receive, &bad_receive),
                     RI_ERR_NOT_SUPPORTED);
    ck_assert_ptr_eq(bad_receive, &receive);
    bad_receive = NULL;
    ck_assert_int_eq(ri_default_user_ops.post_srq_recv(NULL, &receive, &bad_receive),
                     RI_ERR_NOT_SUPPORTED);
    ck_assert_ptr_eq(bad_receive, &receive);
    ck_assert_int_eq(ri_default_user_ops.arm(NULL, RI_ARM_NEXT, 0), RI_ERR_NOT_SUPPORTED);
    ck_assert_uint_eq(ri_default_user_ops.poll(NULL, 1, NULL), 0);
    ck_assert_uint_eq(ri_default_user_ops.progress(NULL, NULL, 1, &deadline), 0);
    ck_assert(deadline == RI_NO_DEADLINE);
    ck_assert(ri_default_user_ops.lane_arm(NULL));
}
END_TEST

/* ---- layout ---- */

/* Structures without a size field may never change within a major version; LP64. */
START_TEST(frozen_layout)
{
    static const struct {
        const char *name;
        size_t is, expected;
    } places[] = {
        { "ri_sge", sizeof(struct ri_sge), 16 },
        { "ri_sge.length", offsetof(struct ri_sge, length), 8 },
        { "ri_sge.lkey", offsetof(struct ri_sge, lkey), 12 },
        { "ri_send_wr", sizeof(struct ri_send_wr), 128 },
        { "ri_send_wr.opcode", offsetof(struct ri_send_wr, opcode), 28 },
        { "ri_send_wr.invalidate_stag", offsetof(struct ri_send_wr, invalidate_stag), 36 },
        { "ri_send_wr.rdma", offsetof(struct ri_send_wr, rdma), 40 },
        { "ri_send_wr.reserved", offsetof(struct ri_send_wr, reserved), 112 },
        { "ri_recv_wr", sizeof(struct ri_recv_wr), 40 },
        { "ri_recv_wr.flags", offsetof(struct ri_recv_wr, flags), 28 },
        { "ri_wc", sizeof(struct ri_wc), 64 },
        { "ri_wc.status", offsetof(struct ri_wc, status), 20 },
        { "ri_wc.immediate", offsetof(struct ri_wc, immediate), 24 },
        { "ri_wc.source_gid", offsetof(struct ri_wc, source_gid), 48 },
        { "ri_mr_attr", sizeof(struct ri_mr_attr), 80 },
        { "ri_mr_attr.io_addr", offsetof(struct ri_mr_attr, io_addr), 48 },
        { "ri_rnic_attr.features", offsetof(struct ri_rnic_attr, features), 8 },
    };

    if (sizeof(void *) != 8)
        tc_skip("pointers are not of 8 octets");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        ck_assert_msg(places[i].is == places[i].expected, "%s: %zu, not %zu", places[i].name,
                      places[i].is, places[i].expected);
}
END_TEST

/* ---- completion of tables ---- */

START_TEST(null_slots_stay_defaults)
{
    struct ri_privileged_ops privileged;
    struct ri_user_ops user;

    memset(&privileged, 0x5a, sizeof(privileged));
    memset(&user, 0x5a, sizeof(user));
    ri_complete_privileged_ops(&privileged, &own_privileged);
    ri_complete_user_ops(&user, &own_user);
    ck_assert_uint_eq(privileged.size, sizeof(privileged));
    ck_assert_uint_eq(user.size, sizeof(user));
    ck_assert(privileged.query == own_query);
    ck_assert(privileged.qp_counters == own_qp_counters);
    ck_assert(privileged.open == ri_default_privileged_ops.open);
    ck_assert(privileged.rnic_counters == ri_default_privileged_ops.rnic_counters);
    ck_assert(user.poll == own_poll);
    ck_assert(user.lane_arm == own_lane_arm);
    ck_assert(user.post_send == ri_default_user_ops.post_send);
}
END_TEST

/* An older minor: the table ends early. Its last octet is the last of the allocation, so a reader
 * past it shows under the sanitizer and valgrind. */
START_TEST(older_minor_short_table)
{
    const uint32_t size = offsetof(struct ri_user_ops, arm); /* poll is its last operation */
    /* not one operation */
    const uint32_t head_size = offsetof(struct ri_privileged_ops, enumerate);
    void *older = malloc(size), *head = malloc(head_size);
    struct ri_privileged_ops privileged;
    struct ri_user_ops user;

    ck_assert_ptr_nonnull(older);
    ck_assert_ptr_nonnull(head);
    memcpy(older, &own_user, size);
    memcpy(older, &size, sizeof(size));
    ri_complete_user_ops(&user, older);
    ck_assert(user.poll == own_poll);
    ck_assert(user.lane_arm == ri_default_user_ops.lane_arm);
    ck_assert_uint_eq(user.size, sizeof(user));

    memcpy(head, &own_privileged, head_size);
    memcpy(head, &head_size, sizeof(head_size));
    ri_complete_privileged_ops(&privileged, head);
    ck_assert_mem_eq(&privileged, &ri_default_privileged_ops, sizeof(privileged));
    free(older);
    free(head);
}
END_TEST

/* A newer minor: more slots than this header knows. */
START_TEST(newer_minor_long_table)
{
    struct {
        struct ri_user_ops table;
        void *unknown[4];
    } newer = { .table = own_user, .unknown = { &newer, &newer, &newer, &newer } };
    struct {
        struct ri_user_ops table;
        uint64_t fence;
    } out = { .fence = 0x1234567890abcdef };
    struct ri_provider provider = own_provider();
    const char *reason = NULL;

    newer.table.size = sizeof(newer);
    newer.table.abi_minor = RI_ABI_MINOR + 1;
    ri_complete_user_ops(&out.table, &newer.table);
    ck_assert(out.table.poll == own_poll);
    ck_assert(out.fence == 0x1234567890abcdef);
    ck_assert_uint_eq(out.table.size, sizeof(out.table));

    provider.abi_minor = RI_ABI_MINOR + 1;
    provider.user = &newer.table;
    ck_assert_int_eq(ri_provider_check(&provider, &reason), RI_OK);
    ck_assert_ptr_null(reason);
}
END_TEST

/* ---- the descriptor ---- */

static void refused(const struct ri_provider *provider, const char *what)
{
    const char *reason = NULL;

    ck_assert_msg(ri_provider_check(provider, &reason) == RI_ERR_NOT_SUPPORTED, "accepted: %s",
                  what);
    ck_assert_msg(reason && reason[0], "no reason: %s", what);
}

START_TEST(good_descriptor)
{
    struct ri_provider provider = own_provider();
    const char *reason = NULL;

    ck_assert_int_eq(ri_provider_check(&provider, &reason), RI_OK);
    ck_assert_ptr_null(reason);
    provider.size += 8 * SLOT; /* a newer minor */
    ck_assert_int_eq(ri_provider_check(&provider, &reason), RI_OK);
}
END_TEST

START_TEST(wrong_major_is_refused)
{
    struct ri_privileged_ops privileged = own_privileged;
    struct ri_user_ops user = own_user;
    struct ri_provider provider = own_provider();

    provider.abi_major = RI_ABI_MAJOR + 1;
    refused(&provider, "descriptor of the next major");
    provider.abi_major = RI_ABI_MAJOR - 1;
    refused(&provider, "descriptor of the major before");
    provider = own_provider();
    privileged.abi_major++;
    provider.privileged = &privileged;
    refused(&provider, "privileged table of another major");
    provider = own_provider();
    user.abi_major++;
    provider.user = &user;
    refused(&provider, "user table of another major");
}
END_TEST

START_TEST(bad_sizes_are_refused)
{
    struct ri_privileged_ops privileged = own_privileged;
    struct ri_user_ops user = own_user;
    struct ri_provider provider = own_provider();
    uint32_t only_size = sizeof(only_size);

    refused(NULL, "nothing");
    refused((const struct ri_provider *)(const void *)&only_size, "a size alone");
    provider.size = offsetof(struct ri_provider, user);
    refused(&provider, "descriptor ends before the tables");
    provider.size = sizeof(provider) + 1;
    refused(&provider, "descriptor of an odd size");
    provider = own_provider();
    provider.privileged = &privileged;
    privileged.size = 0;
    refused(&provider, "privileged table of no size");
    privileged.size = sizeof(privileged) - 1;
    refused(&provider, "privileged table of an odd size");
    privileged.size = sizeof(privileged);
    provider.user = &user;
    user.size = offsetof(struct ri_user_ops, post_send) - 1;
    refused(&provider, "user table under its head");
    user.size = sizeof(user) + SLOT / 2;
    refused(&provider, "user table with half a slot");
}
END_TEST

START_TEST(missing_parts_are_refused)
{
    struct ri_provider provider = own_provider();

    provider.name = NULL;
    refused(&provider, "no name");
    provider.name = "";
    refused(&provider, "empty name");
    provider = own_provider();
    provider.privileged = NULL;
    refused(&provider, "no privileged table");
    provider = own_provider();
    provider.user = NULL;
    refused(&provider, "no user table");
    provider = own_provider();
    provider.option_count = 1;
    refused(&provider, "options counted and not there");
}
END_TEST

static const enum ri_status no_status[] = {
    (enum ri_status)RI_STATUS_COUNT,
    (enum ri_status)(ITAL_STATUS_FIRST - 1),
    (enum ri_status)ITAL_STATUS_COUNT,
    (enum ri_status)1000,
    (enum ri_status) - 1,
};

START_TEST(status_names)
{
    ck_assert_str_eq(ri_status_name(RI_OK), "RI_OK");
    ck_assert_str_eq(ri_status_name(RI_ERR_BUSY), "RI_ERR_BUSY");
    ck_assert_str_eq(ri_status_name(RI_ERR_DEVICE), "RI_ERR_DEVICE");
    for (int i = 0; i < RI_STATUS_COUNT; i++) {
        ck_assert_ptr_nonnull(ri_status_name((enum ri_status)i));
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(ri_status_name((enum ri_status)i), ri_status_name((enum ri_status)j));
    }
    ck_assert_ptr_nonnull(ri_status_name((enum ri_status)RI_STATUS_COUNT));
    ck_assert_ptr_nonnull(ri_status_name((enum ri_status) - 1));
}
END_TEST

START_TEST(names_of_further_statuses)
{
    ck_assert_str_eq(ital_status_name(RI_OK), "RI_OK");
    ck_assert_str_eq(ital_status_name(RI_ERR_DEVICE), "RI_ERR_DEVICE");
    ck_assert_str_eq(ital_status_name(ITAL_ERR_QUOTA), "ITAL_ERR_QUOTA");
    ck_assert_str_eq(ital_status_name(ITAL_ERR_EXISTS), "ITAL_ERR_EXISTS");
    for (int i = ITAL_STATUS_FIRST; i < ITAL_STATUS_COUNT; i++) {
        ck_assert(ital_status_exists((enum ri_status)i));
        ck_assert_ptr_nonnull(ital_status_name((enum ri_status)i));
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(ital_status_name((enum ri_status)i),
                             ital_status_name((enum ri_status)j));
    }
    for (size_t i = 0; i < sizeof(no_status) / sizeof(*no_status); i++) {
        ck_assert(!ital_status_exists(no_status[i]));
        ck_assert_str_eq(ital_status_name(no_status[i]), "RI_ERR_(unknown)");
    }
}
END_TEST

START_TEST(provider_answers_statuses_of_its_header)
{
    for (int i = 0; i < RI_STATUS_COUNT; i++)
        ck_assert_int_eq(ital_status_of_provider((enum ri_status)i), i);
    for (int i = ITAL_STATUS_FIRST; i < ITAL_STATUS_COUNT; i++)
        ck_assert_int_eq(ital_status_of_provider((enum ri_status)i), RI_ERR_DEVICE);
    for (size_t i = 0; i < sizeof(no_status) / sizeof(*no_status); i++)
        ck_assert_int_eq(ital_status_of_provider(no_status[i]), RI_ERR_DEVICE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rnicpi tables");
    TCase *tc = tc_case(suite, "defaults", NULL, NULL);

    tc_add_tests(tc, defaults_fill_every_slot, frozen_layout, defaults_answer_not_supported,
                 status_names, names_of_further_statuses, provider_answers_statuses_of_its_header,
                 names_of_further_statuses, provider_answers_statuses_of_its_header);
    tc = tc_case(suite, "completion", NULL, NULL);
    tc_add_tests(tc, null_slots_stay_defaults, older_minor_short_table, newer_minor_long_table);
    tc = tc_case(suite, "descriptor", NULL, NULL);
    tc_add_tests(tc, good_descriptor, wrong_major_is_refused, bad_sizes_are_refused,
                 missing_parts_are_refused);
    return tc_main(suite);
}
