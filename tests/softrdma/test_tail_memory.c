/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out as a connection ends, one allocation after the other: with a Terminate, or as the
 * program closes it in order. The peer gets all octets that were built, the answers that were
 * fetched, and the Terminate; or a reset: never an end in order that hides what is missing.
 */
#include "tc_allocator.h"
#include "bed.h"

#include "providers/software/iwarp/wire_iwarp.h"

#include <sys/socket.h>

#define SIZE     200000u
#define LARGE    (4u << 20) /* a Write that is under way until the peer reads */
#define WRITES   32         /* more than the socket takes while the peer does not read */
#define READ     50000u
#define READABLE 8 /* from this octet of the region on; the one before is written */

/* How it ends, and what has not left then: Writes, the answer of a Read. */
static const struct row {
    const char *name;
    enum ri_qp_state state;
    bool unsent, fetched;
} rows[] = {
    { "a Terminate", RI_QPS_TERMINATE, false, false },
    { "a Terminate behind Writes", RI_QPS_TERMINATE, true, false },
    { "a Terminate behind a Write and an answer", RI_QPS_TERMINATE, true, true },
    { "a close behind Writes", RI_QPS_CLOSING, true, false },
    { "a close behind a Write and an answer", RI_QPS_CLOSING, true, true },
};

/* ---- what has not left ---- */

/* The kernel would let them grow beyond what is written here (net.ipv4.tcp_rmem, tcp_wmem). */
static void keep_buffers_small(const struct raw *peer)
{
    const int octets = 65536, fd = qp_of(a)->stream->fd;

    ck_assert_int_eq(setsockopt(peer->fd, SOL_SOCKET, SO_RCVBUF, &octets, sizeof(octets)), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &octets, sizeof(octets)), 0);
}

/* The peer's Write behind its Read is executed only after the source of the Read was fetched. A
 * Write of this side is under way, so the answer waits. */
static void fetch_answer(struct raw *peer, struct region *source)
{
    const struct rdmap_read_req request = { .size = READ,
                                            .src_stag = source->keys.rkey,
                                            .src_to = (uintptr_t)source->octets + READABLE };
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, &request);
    source->octets[0] = 0;
    side_write(a, 1, region_sge(source, 0, LARGE), 0, 0x100);
    testbed_passes(&bed, 3);
    ck_assert(qp_of(a)->tx.message_begun);
    raw_untagged(peer, RDMAP_READ_REQ, true, DDP_QN_READ, 1, 0, payload, sizeof(payload));
    raw_tagged(peer, RDMAP_WRITE, true, source->keys.rkey, (uintptr_t)source->octets, "x", 1);
    ck_assert(fake_host_until(&bed.fake, source->octets[0] == 'x', TESTBED_TIMEOUT));
    ck_assert_uint_eq(qp_of(a)->tx.kept, READ);
}

static void write_much(const struct region *source)
{
    for (int i = 0; i < WRITES; i++)
        side_write(a, (uint64_t)i, region_sge(source, 0, SIZE), 0, 0x100);
}

/* ---- ends ---- */

struct received {
    bool terminated;   /* the last FPDU was a Terminate */
    uint32_t answered; /* octets of answers */
};

static struct received read_to_end(struct raw *peer)
{
    struct received got = { 0 };
    static uint8_t ulpdu[70000];
    uint32_t length;

    while ((length = raw_next(peer, ulpdu, sizeof(ulpdu)))) {
        got.terminated = (ulpdu[1] & RDMAP_CTRL_OP) == RDMAP_TERMINATE;
        if ((ulpdu[1] & RDMAP_CTRL_OP) == RDMAP_READ_RESP)
            got.answered += length - DDP_TAGGED_LEN;
    }
    return got;
}

static enum ri_status end_counted(enum ri_qp_state state, unsigned int nth)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };
    enum ri_status status;

    allocator_arm(nth, ALLOCATOR_ONE);
    status = bed.fake.privileged.qp_modify(a->qp, &modify); /* Check allocates, too */
    allocator_disarm();
    return status;
}

/* What the program is told of a close: it was in order, or it was not. */
static void expect_close_event(struct raw *peer)
{
    raw_close(peer);
    side_expect_event(a, peer->reset ? RI_EVENT_LLP_RESET : RI_EVENT_LLP_CLOSED, 0);
}

/* The connection ends while the allocation `nth` fails. False: there are fewer. */
static bool end_without(unsigned int nth, const struct row *row)
{
    struct received got;
    struct region source;

    testbed_open(&bed, NULL);
    raw_open_speaking(&raw, &bed, a, NULL, &plain);
    keep_buffers_small(&raw);
    source = region_new(a, LARGE, TESTBED_ALL);
    if (row->fetched)
        fetch_answer(&raw, &source);
    else if (row->unsent)
        write_much(&source);
    ck_assert_int_eq(end_counted(row->state, nth), RI_OK);
    got = read_to_end(&raw);
    ck_assert_msg(raw.reset || got.answered == (row->fetched ? READ : 0),
                  "%s: allocation %u fails: an end in order hides octets of an answer", row->name,
                  nth);
    ck_assert_msg(raw.reset || got.terminated == (row->state == RI_QPS_TERMINATE),
                  "%s: allocation %u fails: an end in order without a Terminate", row->name, nth);
    ck_assert_msg(!raw.reset || allocator_made() >= nth, "a reset, though all memory was there");
    if (row->state == RI_QPS_CLOSING)
        expect_close_event(&raw);
    raw_close(&raw);
    side_close(a);
    bed_close();
    return allocator_made() >= nth;
}

START_TEST(an_end_without_memory_is_a_reset)
{
    unsigned int nth = 1;

    allocator_needed();
    while (end_without(nth, &rows[_i]))
        nth++;
    ck_assert_uint_gt(nth, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma: ends without memory");
    TCase *tc = tc_case(suite, "ends", NULL, NULL);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(60000));
    tc_add_rows(tc, an_end_without_memory_is_a_reset, rows);
    return tc_main(suite);
}
