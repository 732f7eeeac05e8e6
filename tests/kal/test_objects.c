/* SPDX-License-Identifier: BSD-3-Clause */
/* RNICs and objects: life cycle, accounts, quotas, upcalls, pinning, and the state after a
 * provider's refusal. */
#include "kal/host/account.h"
#include "kal_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct kal_rnic *rnic;
static struct ri_pd *pd;
static int context;

static void open_all(const char *conf, const char *words)
{
    fixture_module("vp_test", NULL);
    fixture_conf(conf);
    setenv("ITAL_TEST_VP", words, 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", &context, &rnic), RI_OK);
}

static void close_all(void)
{
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        ck_assert_uint_eq(kal_host_holds(kal->host, (enum kal_account_kind)kind),
                          kind == KAL_ACCOUNT_RNIC);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_RNIC), 0);
    fixture_put();
}

/* The provider's counter; kal's own follow it. */
static uint64_t alive(void)
{
    const char *names[3] = { NULL };
    uint64_t values[3];

    for (size_t room = 0; room <= 3; room++) {
        size_t count = room;

        ck_assert_int_eq(kal_rnic_counters(rnic, names, values, &count), RI_OK);
        ck_assert_uint_eq(count, 3);
        ck_assert(room == 3 || !names[room]);
    }
    ck_assert_str_eq(names[0], "alive");
    ck_assert_str_eq(names[1], "sockets converted");
    ck_assert_str_eq(names[2], "socket conversions failed");
    return values[0];
}

/* ---- every kind alike ---- */

static char memory[64];

static enum ri_status make_pd(void **out)
{
    return kal_pd_create(rnic, NULL, (struct ri_pd **)out);
}

static enum ri_status end_pd(void *any)
{
    return kal_pd_destroy(rnic, any);
}

static enum ri_status make_cq(void **out)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 4, .context = &context };

    return kal_cq_create(rnic, &attr, (struct ri_cq **)out);
}

static enum ri_status end_cq(void *any)
{
    return kal_cq_destroy(rnic, any);
}

static enum ri_status make_qp(void **out)
{
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_RC, .context = &context };

    return kal_qp_create(rnic, pd, &attr, (struct ri_qp **)out);
}

static enum ri_status end_qp(void *any)
{
    return kal_qp_destroy(rnic, any);
}

static enum ri_status make_srq(void **out)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 4, .context = &context };

    return kal_srq_create(rnic, pd, &attr, (struct ri_srq **)out);
}

static enum ri_status end_srq(void *any)
{
    return kal_srq_destroy(rnic, any);
}

static enum ri_status make_mr(void **out)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = memory, .length = sizeof(memory) };

    return kal_region_create(rnic, pd, &attr, (struct kal_region **)out);
}

static enum ri_status end_mr(void *any)
{
    return kal_region_destroy(rnic, any);
}

static enum ri_status make_mw(void **out)
{
    uint32_t stag;

    return kal_mw_create(rnic, pd, true, NULL, &stag, (struct ri_mw **)out);
}

static enum ri_status end_mw(void *any)
{
    return kal_mw_destroy(rnic, any);
}

static enum ri_status make_ah(void **out)
{
    struct ri_ah_attr attr = { .size = sizeof(attr), .context = &context };

    return kal_ah_create(rnic, pd, &attr, (struct ri_ah **)out);
}

static enum ri_status end_ah(void *any)
{
    return kal_ah_destroy(rnic, any);
}

static const struct {
    enum kal_account_kind kind;
    const char *quota, *fail;
    enum ri_status (*make)(void **out);
    enum ri_status (*end)(void *any);
} kinds[] = {
    { KAL_ACCOUNT_PD, "[quota]\nmax_pd = 3\n", "pdfail", make_pd, end_pd },
    { KAL_ACCOUNT_CQ, "[quota]\nmax_cq = 2\n", "cqfail", make_cq, end_cq },
    { KAL_ACCOUNT_QP, "[quota]\nmax_qp = 2\n", "qpfail", make_qp, end_qp },
    { KAL_ACCOUNT_SRQ, "[quota]\nmax_srq = 2\n", "srqfail", make_srq, end_srq },
    { KAL_ACCOUNT_MR, "[quota]\nmax_mr = 2\n", "mrfail", make_mr, end_mr },
    { KAL_ACCOUNT_MW, "[quota]\nmax_mw = 2\n", "mwfail", make_mw, end_mw },
    { KAL_ACCOUNT_AH, "[quota]\nmax_ah = 2\n", "ahfail", make_ah, end_ah },
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

START_TEST(x037_quota)
{
    void *first, *second, *none = &context;
    char option[32];

    open_all(kinds[_i].quota, "");
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kinds[_i].make(&first), RI_OK);
    ck_assert_int_eq(kinds[_i].make(&second), RI_OK);
    ck_assert_int_eq(kinds[_i].make(&none), ITAL_ERR_QUOTA);
    ck_assert_ptr_eq(none, &context);
    ck_assert_uint_eq(alive(), 3);
    snprintf(option, sizeof(option), "raise %s in", kal_quota_option(kinds[_i].kind).name);
    ck_assert_uint_eq(fixture_log_count(option), 1);
    ck_assert_int_eq(kinds[_i].end(first), RI_OK); /* what was released can be leased again */
    ck_assert_int_eq(kinds[_i].make(&first), RI_OK);
    ck_assert_int_eq(kinds[_i].make(&none), ITAL_ERR_QUOTA);
    ck_assert_int_eq(kinds[_i].end(first), RI_OK);
    ck_assert_int_eq(kinds[_i].end(second), RI_OK);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    close_all();
}
END_TEST

START_TEST(test_refusal_of_the_provider_leaves_nothing)
{
    void *none = &context;

    open_all("", "");
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    setenv("ITAL_TEST_VP", kinds[_i].fail, 1);
    ck_assert_int_eq(kinds[_i].make(&none), RI_ERR_LIMIT);
    ck_assert_ptr_eq(none, &context);
    ck_assert_uint_eq(alive(), 1);
    ck_assert_uint_eq(kal_host_holds(kal->host, kinds[_i].kind), kinds[_i].kind == KAL_ACCOUNT_PD);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    close_all();
}
END_TEST

START_TEST(test_busy_object_stays)
{
    void *object;

    open_all("", "");
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kinds[_i].make(&object), RI_OK);
    setenv("ITAL_TEST_VP", "busy", 1);
    ck_assert_int_eq(kinds[_i].end(object), RI_ERR_BUSY);
    ck_assert_uint_eq(kal_host_holds(kal->host, kinds[_i].kind),
                      1 + (kinds[_i].kind == KAL_ACCOUNT_PD));
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_ERR_BUSY);
    ck_assert_int_eq(kal_rnic_close(rnic, true), RI_ERR_BUSY); /* ual must destroy the objects */
    setenv("ITAL_TEST_VP", "", 1);
    ck_assert_int_eq(kinds[_i].end(object), RI_OK);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    close_all();
}
END_TEST

/* ---- RNICs ---- */

START_TEST(test_quota_of_rnics)
{
    struct kal_rnic *second = NULL;

    open_all("[quota]\nmax_rnic = 1\n", "");
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &second), ITAL_ERR_QUOTA);
    ck_assert_ptr_null(second);
    close_all();
}
END_TEST

START_TEST(test_each_open_is_independent)
{
    struct kal_rnic *second;
    struct ri_pd *other;

    open_all("", "");
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &second), RI_OK);
    ck_assert_ptr_ne(second, rnic);
    ck_assert_int_eq(kal_pd_create(second, NULL, &other), RI_OK);
    ck_assert_uint_eq(alive(), 0);
    fixture_put(); /* the open RNICs keep it */
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    ck_assert_int_eq(kal_rnic_close(second, false), RI_ERR_BUSY);
    ck_assert_int_eq(kal_pd_destroy(second, other), RI_OK);
    ck_assert_int_eq(kal_rnic_close(second, false), RI_OK);
    ck_assert(!kal_log_wanted(RI_LOG_DEBUG)); /* kal is gone, its log with it */
}
END_TEST

static const struct {
    const char *words, *message;
    enum ri_status status;
} flaws[] = {
    { "openfail", "provider test cannot open test: RI_ERR_PERMISSION", RI_ERR_PERMISSION },
    { "queryfail", "attributes that cannot be used: RI_ERR_DEVICE", RI_ERR_DEVICE },
    { "nosets", "there is no set of connection verbs", ITAL_ERR_NO_INTERFACE },
    { "nolanes", "there is no port or no lane", ITAL_ERR_NO_INTERFACE },
    { "portsmany", "there are more than 255 ports", ITAL_ERR_NO_INTERFACE },
    { "nodepth", "queues or regions are of size 0", ITAL_ERR_NO_INTERFACE },
};

START_TEST(test_flawed_provider)
{
    fixture_module("vp_test", NULL);
    setenv("ITAL_TEST_VP", flaws[_i].words, 1);
    fixture_get();
    rnic = NULL;
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), flaws[_i].status);
    ck_assert_ptr_null(rnic);
    ck_assert_uint_eq(fixture_log_count(flaws[_i].message), 1);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_RNIC), 0);
}
END_TEST

START_TEST(test_close_again_and_force)
{
    open_all("", "closeagain");
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_ERR_AGAIN);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, true), RI_OK);
}
END_TEST

START_TEST(test_instance_is_counted)
{
    struct kal_upper other = fake_upper;
    struct kal *first = fixture_another(), *second = fixture_another(), *third = NULL;

    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(kal_get(&other, &third), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_get(NULL, &third), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(third);
    kal_put(first);
    ck_assert_str_eq(kal_config_value(second, "spin"), "20");
    kal_put(second);
    kal_put(NULL);
    ck_assert_int_eq(kal_get(&other, &third), RI_OK); /* a new instance */
    kal_put(third);
}
END_TEST

/* ---- upcalls carry ual's contexts ---- */

START_TEST(test_upcalls)
{
    struct ri_cq_attr cq_attr = { .size = sizeof(cq_attr), .depth = 1, .context = (void *)1 };
    struct ri_qp_attr qp_attr = { .size = sizeof(qp_attr), .type = RI_QP_RC, .context = (void *)2 };
    struct ri_srq_attr srq_attr = { .size = sizeof(srq_attr), .max_wr = 1, .context = (void *)3 };
    struct ri_qp_modify modify = { .size = sizeof(modify) };
    struct ri_srq *srq;
    struct ri_cq *cq;
    struct ri_qp *qp;

    open_all("", "");
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kal_cq_create(rnic, &cq_attr, &cq), RI_OK);
    ck_assert_int_eq(kal_qp_create(rnic, pd, &qp_attr, &qp), RI_OK);
    ck_assert_int_eq(kal_srq_create(rnic, pd, &srq_attr, &srq), RI_OK);
    ck_assert_ptr_eq(qp->context, (void *)2);
    ck_assert_int_eq(kal_cq_resize(rnic, cq, &(uint32_t){ 5 }), RI_OK);
    ck_assert_uint_eq(fake_upper_seen.cq_count + fake_upper_seen.cq_error_count, 2);
    ck_assert_ptr_eq(fake_upper_seen.cq, (void *)1);
    ck_assert_ptr_eq(fake_upper_seen.cq_error, (void *)1);
    ck_assert_int_eq(kal_qp_modify(rnic, qp, &modify), RI_OK);
    ck_assert_uint_eq(fake_upper_seen.qp_count, 1);
    ck_assert_ptr_eq(fake_upper_seen.qp, (void *)2);
    ck_assert_uint_eq(fake_upper_seen.rnic_count, 1);
    ck_assert_ptr_eq(fake_upper_seen.rnic, &context);
    ck_assert_int_eq(kal_srq_modify(rnic, srq, 1, &srq_attr), RI_OK);
    ck_assert_ptr_eq(fake_upper_seen.srq, (void *)3);
    ck_assert_int_eq(kal_srq_destroy(rnic, srq), RI_OK);
    ck_assert_int_eq(kal_qp_destroy(rnic, qp), RI_OK);
    ck_assert_int_eq(kal_cq_destroy(rnic, cq), RI_OK);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    close_all();
}
END_TEST

/* ---- regions ---- */

START_TEST(test_region_modify_keeps_keys_on_failure)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = memory, .length = sizeof(memory) };
    struct kal_region *region;

    open_all("", "");
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &region), RI_OK);
    ck_assert_uint_eq(region->keys.lkey, 0x1200);
    setenv("ITAL_TEST_VP", "mrfail", 1);
    ck_assert_int_eq(kal_region_modify(rnic, region, NULL, &attr), RI_ERR_ACCESS);
    ck_assert_uint_eq(region->keys.lkey, 0x1200);
    setenv("ITAL_TEST_VP", "", 1);
    ck_assert_int_eq(kal_region_modify(rnic, region, NULL, &attr), RI_OK);
    ck_assert_uint_eq(region->keys.lkey, 0x1300);
    ck_assert_uint_eq(region->keys.rkey, 0x1201);
    ck_assert_int_eq(kal_region_destroy(rnic, region), RI_OK);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    close_all();
}
END_TEST

/* ---- pins ---- */

static size_t page;
static char *area; /* two pages, of which the second is read-only where the test says so */

static void open_to_pin(const char *conf, const char *words)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    area = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(area, MAP_FAILED);
    open_all(conf, words);
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
}

static void close_pinned(void)
{
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    munmap(area, 2 * page);
    close_all();
}

static enum ri_status make_region(struct kal_region **region)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = area, .length = 2 * page };

    return kal_region_create(rnic, pd, &attr, region);
}

/* A region has these octets pinned, in that way, and nothing after its end. */
static void expect_pinned(uint64_t locked, uint64_t held)
{
    struct kal_region *region;

    ck_assert_int_eq(make_region(&region), RI_OK);
    ck_assert_uint_eq(kal_host_pins(kal->host, KAL_PIN_LOCK).octets, locked);
    ck_assert_uint_eq(kal_host_pins(kal->host, KAL_PIN_HOLD).octets, held);
    ck_assert_uint_eq(kal_host_pins(kal->host, KAL_PIN_HOLD).ranges, held > 0);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), locked + held);
    ck_assert_int_eq(kal_region_destroy(rnic, region), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 0);
}

static void skip_without_hold(void)
{
    struct kal_pin_wish wish = { KAL_PIN_HOLD, false, true };
    enum kal_pin_way way;

    rnic->pin = wish;
    if (kal_rnic_pin(rnic, area, page, &way) == RI_ERR_PERMISSION)
        tc_skip("pages cannot be held here: %s", fixture_log());
    kal_rnic_unpin(rnic, area, page, way);
    kal_rnic_choose_pin(rnic);
}

START_TEST(test_regions_are_pinned_for_dma_only)
{
    struct kal_region *region = NULL;
    struct ri_mr_attr attr = { .size = sizeof(attr) };

    open_to_pin("[quota]\nmax_pinned = 64k\n", _i ? "dma" : "");
    attr.addr = area;
    attr.length = 2 * page;
    ck_assert_int_eq(make_region(&region), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), _i ? 2 * page : 0);
    ck_assert_int_eq(kal_region_destroy(rnic, region), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 0);
    setenv("ITAL_TEST_VP", "mrfail", 1);
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &region), RI_ERR_LIMIT);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 0);
    setenv("ITAL_TEST_VP", "", 1);
    attr.length = 65 * page;
    if (_i) {
        ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &region), RI_ERR_NO_RESOURCES);
        ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_MR), 0);
        ck_assert_uint_eq(fixture_log_count("test: 266240 octets at "), 1);
        ck_assert_uint_eq(fixture_log_count("raise max_pinned in section [quota]"), 1);
    }
    ck_assert_int_eq(rnic->host.pin(&rnic->host, area, 1, true), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), _i ? page : 0);
    rnic->host.unpin(&rnic->host, area, 1);
    rnic->host.unpin(&rnic->host, area, 1);
    ck_assert_uint_eq(fixture_log_count("that it has not pinned"), 1);
    close_pinned();
}
END_TEST

/* Option pin stands over the provider's wish. */
START_TEST(test_the_interface_says_how_to_pin)
{
    static const struct {
        const char *conf, *words;
        bool locks, holds;
    } cases[] = {
        { "", "", false, false },
        { "pin = none\n", "dma", false, false },
        { "pin = lock\n", "", true, false },
        { "pin = lock\n", "dma", true, false },
        { "pin = hold\n", "", false, true },
        { "pin = auto\n", "dma", false, true },
        { "pin = auto\n", "devicepins", false, false },
        { "pin = lock\n", "devicepins", true, false },
    };
    char conf[100];

    snprintf(conf, sizeof(conf), "[interface test]\nprovider = test\n%s", cases[_i].conf);
    open_to_pin(conf, cases[_i].words);
    if (cases[_i].holds)
        skip_without_hold();
    expect_pinned(cases[_i].locks * 2 * page, cases[_i].holds * 2 * page);
    ck_assert_uint_eq(atomic_load(&rnic->refused.pins), 0);
    close_pinned();
}
END_TEST

/* What cannot be held, is refused, stays unpinned, or is locked. */
START_TEST(test_what_cannot_be_held)
{
    static const struct {
        const char *conf, *words, *line;
        enum ri_status status;
        bool locks;
    } cases[] = {
        { "pin = hold\n", "", "stay unpinned: ", RI_OK, false },
        { "pin = hold\npin_strict = yes\n", "", "cannot be pinned: ", RI_ERR_PERMISSION, false },
        { "pin = hold\n", "dma", "cannot be pinned: ", RI_ERR_PERMISSION, false },
        { "pin = hold\npin_strict = no\n", "dma", "stay unpinned: ", RI_OK, false },
        { "", "dma", "are locked in place of held", RI_OK, true },
    };
    struct kal_region *region;
    char conf[100];

    snprintf(conf, sizeof(conf), "[interface test]\nprovider = test\n%s", cases[_i].conf);
    open_to_pin(conf, cases[_i].words);
    ck_assert_int_eq(mprotect(area + page, page, PROT_READ), 0);
    if (cases[_i].status == RI_OK) {
        expect_pinned(cases[_i].locks * 2 * page, 0);
    } else {
        ck_assert_int_eq(make_region(&region), cases[_i].status);
        ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_MR), 0);
    }
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 0);
    ck_assert_uint_eq(fixture_log_count(cases[_i].line), 1);
    ck_assert_uint_eq(atomic_load(&rnic->refused.pins), !cases[_i].locks);
    close_pinned();
}
END_TEST

/* Pages that are locked because they cannot be held are charged once, however many regions have
 * them. */
START_TEST(test_what_is_locked_in_place_of_held_nests)
{
    struct kal_region *first, *second;
    char conf[100];

    snprintf(conf, sizeof(conf), "[quota]\nmax_pinned = %ld\n", 2 * sysconf(_SC_PAGESIZE));
    open_to_pin(conf, "dma");
    ck_assert_int_eq(mprotect(area + page, page, PROT_READ), 0);
    ck_assert_int_eq(make_region(&first), RI_OK);
    ck_assert_uint_eq(kal_host_pins(kal->host, KAL_PIN_LOCK).octets, 2 * page);
    ck_assert_int_eq(make_region(&second), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 2 * page);
    ck_assert_int_eq(kal_region_destroy(rnic, first), RI_OK);
    ck_assert_uint_eq(kal_host_pins(kal->host, KAL_PIN_LOCK).octets, 2 * page);
    ck_assert_int_eq(kal_region_destroy(rnic, second), RI_OK);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 0);
    close_pinned();
}
END_TEST

/* What fits in no way is refused, and not locked for want of room to hold it. */
START_TEST(test_a_limit_is_no_reason_to_lock)
{
    struct kal_region *region;
    char conf[100];

    snprintf(conf, sizeof(conf), "[quota]\nmax_pinned = %ld\n", sysconf(_SC_PAGESIZE));
    open_to_pin(conf, "dma");
    ck_assert_int_eq(make_region(&region), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(fixture_log_count("are locked in place of held"), 0);
    ck_assert_uint_eq(fixture_log_count("raise max_pinned in section [quota]"), 1);
    ck_assert_uint_eq(kal_host_holds(kal->host, KAL_ACCOUNT_PINNED), 0);
    close_pinned();
}
END_TEST

/* ---- fork ---- */

START_TEST(test_child_forgets)
{
    struct kal *own = NULL;
    int status;
    pid_t child;

    open_all("", "");
    tc_await_quiet_for_fork();
    kal_fork_prepare(); /* what the atfork handlers do */
    child = fork();
    if (child)
        kal_fork_parent();
    ck_assert_int_ge(child, 0);
    if (!child) {
        int before = tc_fd_count(), log_closed;

        kal_fork_child();
        log_closed = tc_fd_count() == before - 1;
        if (!log_closed || kal_get(&fake_upper, &own) != RI_OK || own == kal)
            _exit(1);
        if (kal_rnic_open(own, "test", NULL, &rnic) != RI_OK)
            _exit(2);
        kal_put(own);
        _exit(kal_rnic_close(rnic, false) == RI_OK ? 0 : 3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK); /* the parent is unaffected */
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    close_all();
}
END_TEST

/* ---- accounts from many threads ---- */

static struct kal_account shared_account;

static void *taker(void *arg)
{
    unsigned long *got = arg;

    for (int i = 0; i < 10000; i++)
        *got += kal_account_take(&shared_account, KAL_ACCOUNT_QP, 1);
    return NULL;
}

START_TEST(x037_account_is_exact)
{
    unsigned long got[4] = { 0 };
    pthread_t threads[4];

    kal_account_grant(&shared_account, KAL_ACCOUNT_QP, 25000);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, taker, &got[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(got[0] + got[1] + got[2] + got[3], 25000);
    ck_assert_uint_eq(kal_account_used(&shared_account, KAL_ACCOUNT_QP), 25000);
    ck_assert(!kal_account_take(&shared_account, KAL_ACCOUNT_QP, UINT64_MAX));
    kal_account_give(&shared_account, KAL_ACCOUNT_QP, 25000);
    ck_assert_uint_eq(kal_account_used(&shared_account, KAL_ACCOUNT_QP), 0);
}
END_TEST

/* ---- statuses ---- */

static enum ri_status answered; /* by each operation below */

#define ANSWERS(operation, ...)                           \
    static enum ri_status answer_##operation(__VA_ARGS__) \
    {                                                     \
        return answered;                                  \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
ANSWERS(query_port, struct ri_rnic *ri, struct ri_port_attr *attr)
ANSWERS(rnic_counters, struct ri_rnic *ri, const char **names, uint64_t *values, size_t *count)
ANSWERS(lane_open, struct ri_rnic *ri, uint32_t index, void *of, struct ri_lane **lane)
ANSWERS(pd_create, struct ri_rnic *ri, void *of, struct ri_pd **made)
ANSWERS(pd_destroy, struct ri_pd *gone)
ANSWERS(cq_resize, struct ri_cq *cq, uint32_t *depth)
ANSWERS(qp_modify, struct ri_qp *qp, const struct ri_qp_modify *modify)
ANSWERS(qp_query, struct ri_qp *qp, struct ri_qp_info *info)
ANSWERS(qp_counters, struct ri_qp *qp, const char **names, uint64_t *values, size_t *count)
ANSWERS(srq_modify, struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr)
ANSWERS(srq_query, struct ri_srq *srq, struct ri_srq_attr *attr)
ANSWERS(mr_register, struct ri_pd *of, const struct ri_mr_attr *attr, struct ri_mr_keys *keys,
        struct ri_mr **mr)
ANSWERS(mr_reregister, struct ri_mr *mr, struct ri_pd *of, const struct ri_mr_attr *attr,
        struct ri_mr_keys *keys)
ANSWERS(ah_modify, struct ri_ah *ah, const struct ri_ah_attr *attr)
ANSWERS(multicast_attach, struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
ANSWERS(multicast_detach, struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
#pragma GCC diagnostic pop

/* kal forgets the RNIC, unless it is to call again: it is closed in spite of the answer. */
static enum ri_status (*own_close)(struct ri_rnic *ri, bool force);

static enum ri_status answer_close(struct ri_rnic *ri, bool force)
{
    if (answered != RI_ERR_AGAIN)
        ck_assert_int_eq(own_close(ri, force), RI_OK);
    return answered;
}

static void each_control_verb_gives(enum ri_status status)
{
    struct ri_mr_attr mr = { .size = sizeof(mr), .length = 1 };
    struct kal_region region = { 0 }, *made_region;
    struct ri_port_attr port = { .size = sizeof(port) };
    const char *names[3];
    uint64_t values[3];
    size_t count = 3;
    struct ri_lane *lane;
    struct ri_pd *made;
    uint32_t depth = 1;

    ck_assert_int_eq(kal_rnic_port(rnic, &port), status);
    ck_assert_int_eq(kal_rnic_counters(rnic, names, values, &count), status);
    ck_assert_int_eq(kal_lane_open(rnic, 0, NULL, &lane), status);
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &made), status);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), status);
    ck_assert_int_eq(kal_cq_resize(rnic, NULL, &depth), status);
    ck_assert_int_eq(kal_qp_modify(rnic, NULL, NULL), status);
    ck_assert_int_eq(kal_qp_query(rnic, NULL, NULL), status);
    ck_assert_int_eq(kal_qp_counters(rnic, NULL, names, values, &count), status);
    ck_assert_int_eq(kal_srq_modify(rnic, NULL, 0, NULL), status);
    ck_assert_int_eq(kal_srq_query(rnic, NULL, NULL), status);
    ck_assert_int_eq(kal_region_create(rnic, pd, &mr, &made_region), status);
    ck_assert_int_eq(kal_region_modify(rnic, &region, pd, &mr), status);
    ck_assert_int_eq(kal_ah_modify(rnic, NULL, NULL), status);
    ck_assert_int_eq(kal_multicast_attach(rnic, NULL, port.gid, 0), status);
    ck_assert_int_eq(kal_multicast_detach(rnic, NULL, port.gid, 0), status);
}

static const struct {
    int provider;
    enum ri_status verb, close;
} answers[] = {
    { RI_ERR_ACCESS, RI_ERR_ACCESS, RI_ERR_ACCESS },
    { RI_ERR_DEVICE, RI_ERR_DEVICE, RI_ERR_DEVICE },
    { RI_ERR_QUEUE_FULL, RI_ERR_NO_RESOURCES, RI_ERR_QUEUE_FULL },
    { RI_ERR_AGAIN, RI_ERR_BUSY, RI_ERR_AGAIN },
    { RI_STATUS_COUNT, RI_ERR_DEVICE, RI_ERR_DEVICE }, /* of a newer minor version */
    { ITAL_ERR_QUOTA, RI_ERR_DEVICE, RI_ERR_DEVICE },  /* no provider's */
    { ITAL_ERR_INVALID_HANDLE, RI_ERR_DEVICE, RI_ERR_DEVICE },
    { 1000, RI_ERR_DEVICE, RI_ERR_DEVICE },
    { -1, RI_ERR_DEVICE, RI_ERR_DEVICE },
};
#define ANSWERS_COUNT (sizeof(answers) / sizeof(*answers))

START_TEST(test_answers_are_statuses_of_the_interface)
{
    enum ri_status closed;

    open_all("", "");
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    struct ri_privileged_ops *ops = &rnic->ops, own = *ops;

    ops->query_port = answer_query_port;
    ops->rnic_counters = answer_rnic_counters;
    ops->lane_open = answer_lane_open;
    ops->pd_create = answer_pd_create;
    ops->pd_destroy = answer_pd_destroy;
    ops->cq_resize = answer_cq_resize;
    ops->qp_modify = answer_qp_modify;
    ops->qp_query = answer_qp_query;
    ops->qp_counters = answer_qp_counters;
    ops->srq_modify = answer_srq_modify;
    ops->srq_query = answer_srq_query;
    ops->mr_register = answer_mr_register;
    ops->mr_reregister = answer_mr_reregister;
    ops->ah_modify = answer_ah_modify;
    ops->multicast_attach = answer_multicast_attach;
    ops->multicast_detach = answer_multicast_detach;
    answered = (enum ri_status)answers[_i].provider;
    each_control_verb_gives(answers[_i].verb);
    rnic->ops = own;
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    own_close = own.close;
    rnic->ops.close = answer_close;
    closed = kal_rnic_close(rnic, false);
    if (closed == RI_ERR_AGAIN) { /* anything else counts as closed */
        ck_assert_int_eq(answers[_i].close, RI_ERR_AGAIN);
        rnic->ops = own;
        ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    } else {
        ck_assert_int_eq(closed, RI_OK);
        ck_assert_uint_eq(fixture_log_count(ital_status_name(answers[_i].close)), 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("objects");
    TCase *tc = tc_case(suite, "objects", fixture_setup, fixture_put);

    tc_add_loops(tc, 0, KINDS, x037_quota, test_refusal_of_the_provider_leaves_nothing,
                 test_busy_object_stays);
    tc_add_tests(tc, test_upcalls, test_region_modify_keeps_keys_on_failure);
    tcase_add_loop_test(tc, test_regions_are_pinned_for_dma_only, 0, 2);
    tcase_add_loop_test(tc, test_the_interface_says_how_to_pin, 0, 8);
    tcase_add_loop_test(tc, test_what_cannot_be_held, 0, 5);
    tc_add_tests(tc, test_what_is_locked_in_place_of_held_nests, test_a_limit_is_no_reason_to_lock,
                 x037_account_is_exact);
    tcase_add_loop_test(tc, test_answers_are_statuses_of_the_interface, 0, ANSWERS_COUNT);

    tc = tc_case(suite, "rnic", fixture_setup, fixture_put);
    tc_add_tests(tc, test_quota_of_rnics, test_each_open_is_independent);
    tc_add_rows(tc, test_flawed_provider, flaws);
    tc_add_tests(tc, test_close_again_and_force, test_instance_is_counted, test_child_forgets);
    return tc_main(suite);
}
