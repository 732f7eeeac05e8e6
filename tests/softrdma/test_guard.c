/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option guard: memory that was unmapped, protected or truncated after its registration ends the
 * connection, not the process. Both sides get an event, and the log names the region. Without
 * faults all messages arrive as without the option.
 */
#include "testbed.h"

#include "providers/software/iwarp/codec/terminate.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define SIZE   (1u << 20)
#define HOLE   (1u << 17) /* the memory is invalid from this offset on, or this page of it */
#define LARGE  300000u    /* crosses the hole, in many segments */
#define SMALL  100u
#define ATOMIC (TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC)

static bool forbidden;

/* The provider's own calls come here, so that they can fail as under a filter of system calls. */
ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long from_count,
                          const struct iovec *to, unsigned long to_count, unsigned long flags)
{
    if (forbidden) {
        errno = EPERM;
        return -1;
    }
    return syscall(SYS_process_vm_writev, pid, from, from_count, to, to_count, flags);
}

static struct testbed bed;
static struct side *const x = &bed.side[0], *const y = &bed.side[1]; /* x posts the requests */
static struct region good[2];
static char logged[512];

/* ---- a region with a hole ---- */

enum how { UNMAPPED, PROTECTED, TRUNCATED, WAYS };

static struct victim {
    struct region region;
    uint32_t page;
    int fd;
} victim;

static void register_at(struct side *side, struct region *region)
{
    const struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = ATOMIC, .addr = region->octets, .length = region->length
    };

    OK(bed.fake.privileged.mr_register(side->pd, &attr, &region->keys, &region->mr));
}

static void victim_new(struct side *side)
{
    victim.page = (uint32_t)sysconf(_SC_PAGESIZE);
    victim.fd = memfd_create("victim", MFD_CLOEXEC);
    ck_assert_int_ge(victim.fd, 0);
    ck_assert_int_eq(ftruncate(victim.fd, SIZE), 0);
    victim.region = (struct region){ .length = SIZE };
    victim.region.octets = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, victim.fd, 0);
    ck_assert(victim.region.octets != MAP_FAILED);
    register_at(side, &victim.region);
}

static void victim_break(enum how how)
{
    uint8_t *at = victim.region.octets + HOLE;

    if (how == UNMAPPED)
        ck_assert_int_eq(munmap(at, victim.page), 0);
    else if (how == PROTECTED)
        ck_assert_int_eq(mprotect(at, victim.page, PROT_NONE), 0);
    else
        ck_assert_int_eq(ftruncate(victim.fd, HOLE), 0);
}

/* The hole still exists: nothing else was mapped there meanwhile, which would hide the fault. */
static void victim_free(enum how how)
{
    if (how == UNMAPPED)
        ck_assert_int_ne(msync(victim.region.octets + HOLE, victim.page, MS_ASYNC), 0);
    OK(bed.fake.privileged.mr_deregister(victim.region.mr));
    munmap(victim.region.octets, HOLE);
    munmap(victim.region.octets + HOLE + victim.page, SIZE - HOLE - victim.page);
    if (how != UNMAPPED)
        munmap(victim.region.octets + HOLE, victim.page);
    close(victim.fd);
}

/* ---- two sides ---- */

static void take_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    (void)host;
    if (level == RI_LOG_ERROR)
        vsnprintf(logged, sizeof(logged), format, args);
}

static void setup(void)
{
    static const char *const options[] = { "guard", "on", NULL };
    const struct shape shape = { .atomics = true };

    logged[0] = 0;
    testbed_open(&bed, options);
    bed.fake.host.log = take_log;
    testbed_connect(&bed, &shape, NULL);
    for (int i = 0; i < 2; i++) {
        good[i] = region_new(&bed.side[i], SIZE, ATOMIC);
        region_fill(&good[i]);
    }
}

static void open_testbed(void)
{
    testbed_open(&bed, NULL);
}

static void close_testbed(void)
{
    testbed_close(&bed);
}

static void teardown(void)
{
    for (int i = 0; i < 2; i++)
        region_free(&bed.side[i], &good[i]);
    testbed_close(&bed);
}

/* ---- operations ---- */

enum op { WRITE_TO, SEND_TO, READ_TO, READ_FROM, SEND_FROM, WRITE_FROM, ATOMIC_ON, OPS };

/* Whose memory has the hole, how that side ends, and the Terminate. */
static const struct {
    const char *name;
    int owner;
    enum ri_event_type event;
    uint16_t value;
} ops[] = {
    [WRITE_TO] = { "Write, placed", 1, RI_EVENT_WRITE_ACCESS, TERMINATE_DDP_LOCAL },
    [SEND_TO] = { "Send, placed", 1, RI_EVENT_RECV_ACCESS, TERMINATE_LOCAL },
    [READ_TO] = { "Read Response, placed", 0, RI_EVENT_RESPONSE_ERROR, TERMINATE_DDP_LOCAL },
    [READ_FROM] = { "Read, source", 1, RI_EVENT_READ_ACCESS, TERMINATE_LOCAL },
    [SEND_FROM] = { "Send, source", 0, RI_EVENT_LOCAL_ERROR, TERMINATE_LOCAL },
    [WRITE_FROM] = { "Write, source", 0, RI_EVENT_LOCAL_ERROR, TERMINATE_LOCAL },
    [ATOMIC_ON] = { "atomic", 1, RI_EVENT_READ_ACCESS, TERMINATE_LOCAL },
};

/* x posts request 1 from or to `mine`, to or from `theirs`, at the same offset. y's receive is
 * 2. */
static void begin(enum op op, const struct region *mine, const struct region *theirs, uint32_t at,
                  uint32_t length)
{
    struct ri_sge sge = region_sge(mine, at, length);
    uint64_t remote = (uintptr_t)theirs->octets + at;
    struct ri_send_wr *bad,
        wr = { .cookie = 1,
               .opcode = RI_WR_ATOMIC_FETCH_ADD,
               .flags = RI_WR_SIGNALED,
               .sg_list = &sge,
               .num_sge = 1,
               .atomic = { .remote_addr = remote, .rkey = theirs->keys.rkey, .swap_or_add = 1 } };

    switch (op) {
    case WRITE_TO:
    case WRITE_FROM: side_write(x, 1, sge, remote, theirs->keys.rkey); break;
    case READ_TO:
    case READ_FROM: side_read(x, 1, sge, remote, theirs->keys.rkey); break;
    case ATOMIC_ON:
        sge.length = 8;
        OK(bed.fake.user.post_send(x->qp, &wr, &bad));
        break;
    default: side_receive(y, 2, region_sge(theirs, at, length)); side_send(x, 1, sge);
    }
}

static void expect_told(enum op op)
{
    struct side *owner = &bed.side[ops[op].owner], *peer = &bed.side[!ops[op].owner];
    char name[16];

    side_expect_event(owner, ops[op].event, ops[op].value);
    side_expect_event(peer, RI_EVENT_TERMINATE_RECEIVED, ops[op].value);
    snprintf(name, sizeof(name), "0x%08x", victim.region.keys.lkey);
    ck_assert_msg(strstr(logged, name) && strstr(logged, "any more"), "logged: \"%s\"", logged);
}

/* x's request fails; if x's own memory is gone, with a local error. */
static void expect_failed(enum op op)
{
    struct ri_wc wc = side_next(x, x->send_cq);

    ck_assert_uint_eq(wc.cookie, 1);
    if (op != WRITE_TO && op != SEND_TO) /* these may have left whole before */
        ck_assert_uint_ne(wc.status, RI_WC_SUCCESS);
    if (ops[op].owner == 0)
        ck_assert_uint_eq(wc.status, RI_WC_LOCAL_PROTECTION);
    if (op == SEND_TO)
        side_expect(y, y->recv_cq, 2, RI_WC_LOCAL_PROTECTION, 0);
}

START_TEST(X009_memory_that_is_gone)
{
    const enum op op = _i / WAYS / 2;
    const enum how how = _i / 2 % WAYS;
    const bool large = _i % 2;
    const int owner = ops[op].owner;
    const struct region *mine, *theirs;

    victim_new(&bed.side[owner]);
    mine = owner == 0 ? &victim.region : &good[0];
    theirs = owner == 1 ? &victim.region : &good[1];
    begin(op, mine, theirs, 0, LARGE); /* so far the memory is valid */
    side_expect(x, x->send_cq, 1, RI_WC_SUCCESS, op == ATOMIC_ON ? 8 : LARGE);
    if (op == SEND_TO || op == SEND_FROM)
        side_expect(y, y->recv_cq, 2, RI_WC_SUCCESS, LARGE);
    ck_assert_uint_eq(logged[0], 0);
    victim_break(how);
    begin(op, mine, theirs, large && op != ATOMIC_ON ? 0 : HOLE, large ? LARGE : SMALL);
    expect_failed(op);
    expect_told(op);
    victim_free(how);
}
END_TEST

/* ---- no fault ---- */

static const uint32_t lengths[] = { 0, 1, 7, 8, 9, 255, 256, 257, 4096, 70001, LARGE, 900000 };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* All lengths, at odd addresses; the memory around the target does not change. */
START_TEST(all_arrives)
{
    const enum op op = _i;
    const uint32_t at = 4093;

    for (uint32_t i = 0; i < LENGTHS; i++) {
        uint32_t length = lengths[i];
        bool read = op == READ_TO;
        const uint8_t *from = good[read].octets + at, *to = good[!read].octets + at;

        memset(good[!read].octets, 0x5a, SIZE);
        begin(op, &good[0], &good[1], at, length);
        side_expect(x, x->send_cq, 1, RI_WC_SUCCESS, length);
        if (op == SEND_TO)
            side_expect(y, y->recv_cq, 2, RI_WC_SUCCESS, length);
        ck_assert(fake_host_until(&bed.fake, !memcmp(from, to, length), TESTBED_TIMEOUT));
        ck_assert_uint_eq(to[-1], 0x5a);
        ck_assert_uint_eq(to[length], 0x5a);
    }
    ck_assert_uint_eq(logged[0], 0);
}
END_TEST

/* From several elements into several, in many messages that leave together. */
START_TEST(many_gathered)
{
    struct ri_sge from[4], to[3];

    for (uint32_t i = 0; i < 4; i++)
        from[i] = region_sge(&good[0], i * 30000 + i, 3000 + i * 7);
    for (uint32_t i = 0; i < 3; i++)
        to[i] = region_sge(&good[1], i * 30000, 5000);
    for (uint32_t i = 0; i < 40; i++) {
        OK(side_post_receive(y, i, to, 3));
        OK(side_post(x, RI_WR_SEND, i, RI_WR_SIGNALED | RI_WR_COALESCE, from, 4, 0, 0));
    }
    memset(good[1].octets, 0, SIZE);
    for (uint32_t i = 0; i < 40; i++) {
        side_expect(x, x->send_cq, i, RI_WC_SUCCESS, 12042);
        side_expect(y, y->recv_cq, i, RI_WC_SUCCESS, 12042);
    }
    ck_assert_mem_eq(good[1].octets, good[0].octets, 3000);
    ck_assert_mem_eq(good[1].octets + 3000, good[0].octets + 30001, 2000);
    ck_assert_mem_eq(good[1].octets + 30000, good[0].octets + 32001, 1007);
}
END_TEST

START_TEST(atomics_are_executed)
{
    uint64_t value = 41, found;

    memcpy(good[1].octets + 64, &value, sizeof(value));
    begin(ATOMIC_ON, &good[0], &good[1], 64, 8);
    side_expect(x, x->send_cq, 1, RI_WC_SUCCESS, 8);
    memcpy(&found, good[0].octets + 64, sizeof(found));
    ck_assert_uint_eq(found, 41);
    memcpy(&found, good[1].octets + 64, sizeof(found));
    ck_assert_uint_eq(found, 42);
}
END_TEST

/* An interface that cannot guard its memory is not opened with the option on. */
START_TEST(refused_where_it_cannot_work)
{
    static const char *const on[] = { "guard", "on", NULL };
    static const char *const off[] = { "guard", "off", NULL };

    forbidden = true;
    testbed_close(&bed);
    memset(&bed, 0, sizeof(bed));
    ck_assert_int_eq(fake_host_open(&bed.fake, on), RI_ERR_NOT_SUPPORTED);
    ck_assert_uint_eq(bed.fake.logged[RI_LOG_ERROR], 1);
    fake_host_free(&bed.fake);
    testbed_open(&bed, off);
    forbidden = false;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("guard");
    TCase *tc = tc_case(suite, "faults", setup, teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, X009_memory_that_is_gone, 0, OPS * WAYS * 2);
    tc = tc_case(suite, "no faults", setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, all_arrives, WRITE_TO, READ_TO + 1);
    tc_add_tests(tc, many_gathered, atomics_are_executed);
    tc = tc_case(suite, "no guard", open_testbed, close_testbed);
    tcase_add_test(tc, refused_where_it_cannot_work);
    return tc_main(suite);
}
