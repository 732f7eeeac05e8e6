/* SPDX-License-Identifier: BSD-3-Clause */
/* What requests do, what their completions say, what posts refuse. */
#include "bed.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define TARGET (MEMORY / 2) /* data of the peer goes there */

static struct node a, b;

static void begin(const struct node_want *want)
{
    bed_open();
    pair(&a, &b, want);
}

static uint64_t at_peer(uint32_t offset)
{
    return (uintptr_t)b.memory + offset;
}

static void fill_random(uint8_t *octets, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        octets[i] = (uint8_t)pick();
}

/* ---- the four operations ---- */

static void sends_one(uint32_t length, uint64_t cookie)
{
    const struct send_want want = {
        .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .cookie = cookie, .length = length
    };
    struct ri_wc wc;

    fill_random(a.memory, length);
    memset(b.memory + TARGET, 0, length + 1u);
    do_recv(&b, cookie + 1, TARGET, length + 1);
    do_send(&a, &want);
    expect_wc(a.send_cq, &a, cookie, RI_WC_SEND, RI_WC_SUCCESS);
    wc = expect_wc(b.recv_cq, &b, cookie + 1, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(wc.byte_len == length, "a receive of %u octets has byte_len %u", length, wc.byte_len);
    EXPECT(!memcmp(a.memory, b.memory + TARGET, length), "a Send of %u octets arrives changed",
           length);
    EXPECT(!b.memory[TARGET + length], "a Send of %u octets writes behind its end", length);
}

static const uint32_t sizes[] = { 0, 1, 7, 8, 64, 1000, 1448, 4096, 65535, 65536, 262144 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void sends(void)
{
    begin(NULL);
    for (size_t i = 0; i < SIZES && sizes[i] <= bed.attr.max_send; i++)
        sends_one(sizes[i], i * 100);
}

static void move(uint16_t opcode, uint32_t length, uint64_t cookie)
{
    const struct send_want want = { .opcode = opcode,
                                    .flags = RI_WR_SIGNALED,
                                    .cookie = cookie,
                                    .length = length,
                                    .remote_addr = at_peer(TARGET),
                                    .rkey = b.keys.rkey };
    bool read = opcode == RI_WR_RDMA_READ;
    struct ri_wc wc;

    fill_random(read ? b.memory + TARGET : a.memory, length);
    memset(read ? a.memory : b.memory + TARGET, 0, length + 1u);
    do_send(&a, &want);
    wc = expect_wc(a.send_cq, &a, cookie, read ? RI_WC_RDMA_READ : RI_WC_RDMA_WRITE, RI_WC_SUCCESS);
    EXPECT(wc.byte_len == length, "a completion of %u octets has byte_len %u", length, wc.byte_len);
    EXPECT(UNTIL(!memcmp(a.memory, b.memory + TARGET, length), 5000),
           "an RDMA %s of %u octets does not arrive", read ? "Read" : "Write", length);
    EXPECT(!(read ? a.memory : b.memory + TARGET)[length],
           "an RDMA %s of %u octets writes behind its end", read ? "Read" : "Write", length);
}

static void writes(void)
{
    begin(NULL);
    for (size_t i = 0; i < SIZES && sizes[i] <= bed.attr.max_message; i++)
        move(RI_WR_RDMA_WRITE, sizes[i], i);
}

static void reads(void)
{
    begin(NULL);
    for (size_t i = 0; i < SIZES && sizes[i] <= bed.attr.max_message; i++)
        move(RI_WR_RDMA_READ, sizes[i], i);
}

/* A Send behind a Write: its receive completes when the Write is in place. */
static void send_follows_write(void)
{
    struct send_want want = {
        .opcode = RI_WR_RDMA_WRITE, .length = 100000, .remote_addr = 0, .rkey = 0
    };
    const struct send_want last = { .opcode = RI_WR_SEND, .length = 4 };

    begin(NULL);
    want.rkey = b.keys.rkey;
    want.remote_addr = at_peer(TARGET);
    for (uint64_t i = 0; i < 50; i++) {
        fill_random(a.memory, 100000);
        do_recv(&b, i, 0, 4);
        do_send(&a, &want);
        do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND,
                                         .flags = RI_WR_SIGNALED,
                                         .cookie = i,
                                         .length = last.length });
        expect_wc(b.recv_cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
        EXPECT(!memcmp(a.memory, b.memory + TARGET, 100000),
               "a receive completes before the Write in front of it is in place");
        expect_wc(a.send_cq, &a, i, RI_WC_SEND, RI_WC_SUCCESS);
    }
}

static void adds(void)
{
    struct ri_sge sge;
    struct ri_send_wr wr = { .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = RI_WR_ATOMIC_FETCH_ADD,
                             .flags = RI_WR_SIGNALED,
                             .cookie = 5 };
    struct ri_send_wr *bad;
    uint64_t word = 40;

    bed_open();
    bed_need(RI_FEATURE_ATOMICS, "RI_FEATURE_ATOMICS");
    pair(&a, &b, NULL);
    sge = (struct ri_sge){ (uintptr_t)a.memory, 8, a.keys.lkey };
    memcpy(b.memory + TARGET, &word, 8);
    wr.atomic.remote_addr = at_peer(TARGET);
    wr.atomic.rkey = b.keys.rkey;
    wr.atomic.swap_or_add = 2;
    EXPECT_STATUS(bed.data.post_send(a.qp, &wr, &bad), RI_OK);
    expect_wc(a.send_cq, &a, 5, RI_WC_FETCH_ADD, RI_WC_SUCCESS);
    memcpy(&word, a.memory, 8);
    EXPECT(word == 40, "a Fetch and Add gives %llu instead of 40", (unsigned long long)word);
    wr.opcode = RI_WR_ATOMIC_COMPARE_SWAP;
    wr.atomic.compare = 42;
    wr.atomic.swap_or_add = 99;
    EXPECT_STATUS(bed.data.post_send(a.qp, &wr, &bad), RI_OK);
    expect_wc(a.send_cq, &a, 5, RI_WC_COMPARE_SWAP, RI_WC_SUCCESS);
    memcpy(&word, a.memory, 8);
    EXPECT(word == 42, "a Compare and Swap gives %llu instead of 42", (unsigned long long)word);
    memcpy(&word, b.memory + TARGET, 8);
    EXPECT(word == 99, "the word is %llu after a Compare and Swap to 99", (unsigned long long)word);
}

/* ---- elements, inline data ---- */

static void gathers(void)
{
    struct node_want want = { .sges = UINT32_MAX };
    struct ri_sge from[64], to[64];
    struct ri_send_wr send = { .sg_list = from, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };
    struct ri_recv_wr receive = { .sg_list = to };
    struct ri_send_wr *bad_send;
    struct ri_recv_wr *bad_receive;
    uint32_t sum = 0;

    begin(&want);
    send.num_sge = a.attr.max_send_sge < 64 ? a.attr.max_send_sge : 64;
    receive.num_sge = b.attr.max_recv_sge < 64 ? b.attr.max_recv_sge : 64;
    fill_random(a.memory, 64 * 20);
    for (uint32_t i = 0; i < send.num_sge; sum += from[i++].length)
        from[i] = (struct ri_sge){ (uintptr_t)a.memory + sum, i == 1 ? 0 : 11 + i % 5,
                                   i == 1 ? 0 : a.keys.lkey };
    for (uint32_t i = 0; i < receive.num_sge; i++)
        to[i] = (struct ri_sge){ (uintptr_t)b.memory + 1500ul * i, 1500, b.keys.lkey };
    to[0].length = 5;
    to[receive.num_sge - 1].length = receive.num_sge == 1 ? 1500 : to[receive.num_sge - 1].length;
    EXPECT_STATUS(bed.data.post_recv(b.qp, &receive, &bad_receive), RI_OK);
    EXPECT_STATUS(bed.data.post_send(a.qp, &send, &bad_send), RI_OK);
    EXPECT(expect_wc(b.recv_cq, &b, 0, RI_WC_RECV, RI_WC_SUCCESS).byte_len == sum,
           "byte_len is not the sum of the elements");
    if (receive.num_sge == 1)
        EXPECT(!memcmp(a.memory, b.memory, sum), "a gathered Send arrives changed");
    else
        EXPECT(!memcmp(a.memory, b.memory, 5) &&
                   !memcmp(a.memory + 5, b.memory + 1500, sum - 5 < 1500 ? sum - 5 : 1500),
               "a Send of %u elements arrives changed", send.num_sge);
}

static void copies_inline(void)
{
    struct node_want want = { .inline_octets = 0 };
    struct send_want send = { .opcode = RI_WR_SEND,
                              .flags = RI_WR_SIGNALED | RI_WR_INLINE,
                              .lkey = 0x1badbad };

    bed_open();
    if (!bed.attr.max_inline)
        check_skip("max_inline is 0");
    want.inline_octets = send.length = bed.attr.max_inline < 4096 ? bed.attr.max_inline : 4096;
    pair(&a, &b, &want);
    memset(a.memory, 'i', send.length);
    do_recv(&b, 3, 0, send.length);
    do_send(&a, &send);
    memset(a.memory, 'x', send.length); /* it was copied */
    expect_wc(b.recv_cq, &b, 3, RI_WC_RECV, RI_WC_SUCCESS);
    for (uint32_t i = 0; i < send.length; i++)
        EXPECT(b.memory[i] == 'i', "inline data was read after the post");
    send.length = a.attr.max_inline + 1;
    EXPECT(try_send(&a, &send) != RI_OK, "post_send takes more inline data than max_inline");
}

/* ---- completions ---- */

static void keeps_order(void)
{
    const unsigned int rounds = 64, batch = 16;

    begin(NULL);
    for (uint64_t i = 0; i < rounds * batch; i += batch) {
        for (uint64_t k = i; k < i + batch; k++)
            do_recv(&b, k, (uint32_t)(k % batch) * 8, 8);
        for (uint64_t k = i; k < i + batch; k++) {
            memcpy(a.memory + k % batch * 8, &k, 8);
            do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND,
                                             .flags = RI_WR_SIGNALED,
                                             .cookie = k,
                                             .offset = (uint32_t)(k % batch) * 8,
                                             .length = 8 });
        }
        for (uint64_t k = i; k < i + batch; k++) {
            expect_wc(a.send_cq, &a, k, RI_WC_SEND, RI_WC_SUCCESS);
            expect_wc(b.recv_cq, &b, k, RI_WC_RECV, RI_WC_SUCCESS);
            EXPECT(!memcmp(b.memory + k % batch * 8, &k, 8), "messages arrive out of order");
        }
    }
}

static void stays_silent(void)
{
    begin(NULL);
    for (uint64_t i = 0; i < 3; i++) {
        do_recv(&b, i, 0, 8);
        do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .cookie = i, .length = 8 });
    }
    for (uint64_t i = 0; i < 3; i++)
        expect_wc(b.recv_cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
    expect_none(a.send_cq, "the requests were not signalled");
}

static void flags_arrive(void)
{
    struct ri_wc wc;

    begin(NULL);
    EXPECT_STATUS(try_recv(&b, 1, 0, 8, RI_WR_NOTIFY), RI_OK);
    EXPECT_STATUS(try_recv(&b, 2, 0, 8, 0), RI_OK);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND,
                                     .flags = RI_WR_SIGNALED | RI_WR_NOTIFY,
                                     .cookie = 1,
                                     .length = 8 });
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND,
                                     .flags = RI_WR_SIGNALED | RI_WR_SOLICITED,
                                     .cookie = 2,
                                     .length = 8 });
    wc = expect_wc(a.send_cq, &a, 1, RI_WC_SEND, RI_WC_SUCCESS);
    EXPECT(wc.flags & RI_WC_NOTIFY, "a request with RI_WR_NOTIFY completes without RI_WC_NOTIFY");
    wc = expect_wc(a.send_cq, &a, 2, RI_WC_SEND, RI_WC_SUCCESS);
    EXPECT(!(wc.flags & RI_WC_NOTIFY), "a request without RI_WR_NOTIFY has RI_WC_NOTIFY");
    wc = expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT((wc.flags & RI_WC_NOTIFY) && !(wc.flags & RI_WC_SOLICITED),
           "a receive with RI_WR_NOTIFY, of an unsolicited Send, has flags 0x%x", wc.flags);
    wc = expect_wc(b.recv_cq, &b, 2, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(!(wc.flags & RI_WC_NOTIFY) && (wc.flags & RI_WC_SOLICITED),
           "a receive of a solicited Send has flags 0x%x", wc.flags);
}

/* ---- what posts refuse ---- */

static void list_stops(void)
{
    struct ri_sge sge;
    struct ri_send_wr wr[4], *bad = NULL;

    begin(NULL);
    sge = (struct ri_sge){ (uintptr_t)a.memory, 8, a.keys.lkey };
    for (int i = 0; i < 4; i++) {
        wr[i] = (struct ri_send_wr){ .next = i < 3 ? &wr[i + 1] : NULL,
                                     .cookie = (uint64_t)i,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .opcode = RI_WR_SEND,
                                     .flags = RI_WR_SIGNALED };
        do_recv(&b, (uint64_t)i, 0, 8);
    }
    wr[2].opcode = 999;
    EXPECT(bed.data.post_send(a.qp, wr, &bad) != RI_OK, "post_send takes opcode 999");
    EXPECT(bad == &wr[2], "*bad is not the first request that was not posted");
    for (uint64_t i = 0; i < 2; i++) {
        expect_wc(a.send_cq, &a, i, RI_WC_SEND, RI_WC_SUCCESS);
        expect_wc(b.recv_cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
    }
    UNTIL(false, 50);
    expect_none(a.send_cq, "nothing of the refused request and later ones was to be posted");
    expect_none(b.recv_cq, "nothing of the refused request and later ones was to be posted");
}

static void refuses_elements(void)
{
    struct ri_sge sges[300];
    struct ri_send_wr send = { .sg_list = sges, .opcode = RI_WR_SEND }, *bad_send = NULL;
    struct ri_recv_wr receive = { .sg_list = sges }, *bad_receive = NULL;

    begin(NULL);
    for (int i = 0; i < 300; i++)
        sges[i] = (struct ri_sge){ (uintptr_t)a.memory, 1, a.keys.lkey };
    if (a.attr.max_send_sge >= 300 || a.attr.max_recv_sge >= 300)
        check_skip("a request may have 300 elements");
    send.num_sge = a.attr.max_send_sge + 1;
    receive.num_sge = a.attr.max_recv_sge + 1;
    EXPECT_STATUS(bed.data.post_send(a.qp, &send, &bad_send), RI_ERR_INVALID_ARGUMENT);
    EXPECT(bad_send == &send, "*bad is not the request");
    EXPECT_STATUS(bed.data.post_recv(a.qp, &receive, &bad_receive), RI_ERR_INVALID_ARGUMENT);
    EXPECT(bad_receive == &receive, "*bad is not the request");
}

static void refuses_length(void)
{
    struct send_want want = { .opcode = RI_WR_SEND };

    begin(NULL);
    if (bed.attr.max_send >= UINT32_MAX)
        check_skip("max_send is beyond every element");
    want.length = (uint32_t)bed.attr.max_send + 1;
    EXPECT_STATUS(try_send(&a, &want), RI_ERR_LIMIT);
}

static void refuses_messages(void)
{
    struct send_want want = { .opcode = RI_WR_RDMA_WRITE };

    begin(NULL);
    if (bed.attr.max_message >= UINT32_MAX)
        check_skip("max_message is beyond every element");
    want.length = (uint32_t)bed.attr.max_message + 1;
    want.remote_addr = at_peer(TARGET);
    want.rkey = b.keys.rkey;
    EXPECT_STATUS(try_send(&a, &want), RI_ERR_LIMIT);
    want.opcode = RI_WR_RDMA_READ;
    EXPECT_STATUS(try_send(&a, &want), RI_ERR_LIMIT);
}

static void receives_fill(void)
{
    uint32_t count = 0;
    enum ri_status status;

    begin(NULL);
    while ((status = try_recv(&b, count, 0, 8, 0)) == RI_OK && count < 1000000)
        count++;
    EXPECT(status == RI_ERR_QUEUE_FULL, "a full receive queue answers %s", ri_status_name(status));
    EXPECT(count >= b.attr.max_recv_wr, "the receive queue takes %u requests; max_recv_wr is %u",
           count, b.attr.max_recv_wr);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
    expect_wc(b.recv_cq, &b, 0, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT_STATUS(try_recv(&b, count, 0, 8, 0), RI_OK); /* its slot is free again */
    EXPECT_STATUS(try_recv(&b, count, 0, 8, 0), RI_ERR_QUEUE_FULL);
}

/* Unsignalled requests keep their slots until a completion behind them was polled. */
static void sends_free_slots(void)
{
    struct send_want want = { .opcode = RI_WR_RDMA_WRITE, .length = 8 };
    uint32_t posted = 0;
    enum ri_status status;

    begin(NULL);
    want.remote_addr = at_peer(TARGET);
    want.rkey = b.keys.rkey;
    while ((status = try_send(&a, &want)) == RI_OK && posted < 1000000)
        posted++;
    EXPECT(status == RI_ERR_QUEUE_FULL,
           "a send queue of unsignalled requests answers %s after %u requests",
           ri_status_name(status), posted);
    EXPECT(posted >= a.attr.max_send_wr, "the send queue takes %u requests; max_send_wr is %u",
           posted, a.attr.max_send_wr);
}

static void signalled_free_slots(void)
{
    struct send_want want = { .opcode = RI_WR_RDMA_WRITE, .length = 8 };

    begin(NULL);
    want.remote_addr = at_peer(TARGET);
    want.rkey = b.keys.rkey;
    for (unsigned int round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < a.attr.max_send_wr; i++) {
            want.cookie = i;
            want.flags = i + 1 == a.attr.max_send_wr ? RI_WR_SIGNALED : 0;
            do_send(&a, &want);
        }
        expect_wc(a.send_cq, &a, a.attr.max_send_wr - 1, RI_WC_RDMA_WRITE, RI_WC_SUCCESS);
    }
}

/* ---- ORD and IRD ---- */

static void holds_back_reads(void)
{
    const struct node_want want = { .ird = 1, .ord = 1 };
    struct send_want read = { .opcode = RI_WR_RDMA_READ, .flags = RI_WR_SIGNALED, .length = 5000 };

    begin(&want);
    read.remote_addr = at_peer(TARGET);
    read.rkey = b.keys.rkey;
    for (read.cookie = 0; read.cookie < 16; read.cookie++)
        do_send(&a, &read);
    for (uint64_t i = 0; i < 16; i++)
        expect_wc(a.send_cq, &a, i, RI_WC_RDMA_READ, RI_WC_SUCCESS);
    EXPECT(!node_ends(&a) && !node_ends(&b), "Reads beyond ORD end the connection");
}

static void refuses_reads(void)
{
    const struct node_want want = { .ord = NO_DEPTH };
    struct send_want read = { .opcode = RI_WR_RDMA_READ, .flags = RI_WR_SIGNALED, .length = 8 };
    enum ri_status status;

    begin(&want);
    read.remote_addr = at_peer(TARGET);
    read.rkey = b.keys.rkey;
    status = try_send(&a, &read);
    EXPECT(status == RI_OK, "post_send of a Read with ORD 0 answers %s", ri_status_name(status));
    expect_wc(a.send_cq, &a, 0, RI_WC_RDMA_READ, RI_WC_LOCAL_QP);
}

/* `a` has leave for four Reads at once, `b` for fewer. Its socket takes so little that no answer is
 * gone when the next request is there. */
static void overtax(uint32_t ird, enum ri_event_type cause, const char *name)
{
    const struct node_want asks = { .ord = 4 }, answers = { .ird = ird };
    struct send_want read = { .opcode = RI_WR_RDMA_READ,
                              .flags = RI_WR_SIGNALED,
                              .length = MEMORY / 2 };
    int fds[2], small = 4096;

    bed_open();
    bed_need(RI_FEATURE_CONNECTION_SET_B, "RI_FEATURE_CONNECTION_SET_B");
    node_create(&a, &asks);
    node_create(&b, &answers);
    if (a.attr.ord < 2)
        check_skip("max_ord is 1");
    tcp_pair(fds);
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    EXPECT_STATUS(hand_over(&b, fds[1], false), RI_OK);
    EXPECT_STATUS(hand_over(&a, fds[0], true), RI_OK);
    read.remote_addr = at_peer(TARGET);
    read.rkey = b.keys.rkey;
    for (read.cookie = 0; read.cookie < a.attr.ord; read.cookie++)
        do_send(&a, &read);
    EXPECT(UNTIL(node_ends(&a) && node_ends(&b), 5000),
           "%u Reads at once to a peer with IRD %u do not end the connection", a.attr.ord,
           b.attr.ird);
    EXPECT(b.type[0] == cause, "the event of the peer with IRD %u is %d, not %s", b.attr.ird,
           (int)b.type[0], name);
}

static void ends_beyond_ird(void)
{
    overtax(1, RI_EVENT_REMOTE_OPERATION, "RI_EVENT_REMOTE_OPERATION");
}

static void ends_without_ird(void)
{
    overtax(NO_DEPTH, RI_EVENT_READ_ACCESS, "RI_EVENT_READ_ACCESS");
}

/* ---- SRQ ---- */

static void shares_receives(void)
{
    atomic_uint limits = 0;
    struct ri_srq_attr attr = {
        .size = sizeof(attr), .max_wr = 16, .max_sge = 1, .limit = 2, .context = &limits
    };
    struct node_want want = { .depth = 0 };
    struct ri_sge sge;
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    bed_open();
    bed_need(RI_FEATURE_SRQ, "RI_FEATURE_SRQ");
    EXPECT_STATUS(bed.control.srq_create(bed.pd, &attr, &want.srq), RI_OK);
    node_create(&a, NULL);
    node_create(&b, &want);
    pair_connect(&a, &b);
    sge = (struct ri_sge){ (uintptr_t)b.memory, 64, b.keys.lkey };
    for (wr.cookie = 0; wr.cookie < 4; wr.cookie++)
        EXPECT_STATUS(bed.data.post_srq_recv(want.srq, &wr, &bad), RI_OK);
    for (uint64_t i = 0; i < 4; i++) {
        do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
        expect_wc(b.recv_cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
    }
    EXPECT(UNTIL(limits, 1000),
           "no RI_EVENT_SRQ_LIMIT_REACHED though fewer than the limit are left");
    UNTIL(false, 20);
    EXPECT(limits == 1, "RI_EVENT_SRQ_LIMIT_REACHED comes %u times", limits);
}

/* ---- a passive target ---- */

#define PINGS 200

static int compare(const void *x, const void *y)
{
    const uint64_t *p = x, *q = y;

    return *p < *q ? -1 : *p > *q;
}

static void target_is_soon(void)
{
    struct send_want want = { .opcode = RI_WR_RDMA_WRITE, .length = 8 };
    uint64_t times[PINGS];

    begin(NULL);
    want.remote_addr = at_peer(TARGET);
    want.rkey = b.keys.rkey;
    for (uint64_t i = 0; i < PINGS; i++) {
        uint64_t value = i + 1, start = clock_now();

        memcpy(a.memory, &value, 8);
        want.flags = RI_WR_SIGNALED;
        do_send(&a, &want);
        EXPECT(UNTIL(!memcmp(b.memory + TARGET, &value, 8), 5000), "a Write does not arrive");
        times[i] = clock_now() - start;
        take(a.send_cq, &a, "a Write");
    }
    qsort(times, PINGS, sizeof(times[0]), compare);
    EXPECT(times[PINGS / 2] < bed_deadline(1) - clock_now(),
           "a Write of 8 octets takes %llu us (median) to a target that makes no calls; a "
           "provider's lane has to run when octets arrive, and TCP needs TCP_NODELAY",
           (unsigned long long)times[PINGS / 2] / 1000);
    check_note("median %llu us", (unsigned long long)times[PINGS / 2] / 1000);
}

const struct check traffic_checks[] = {
    { "send", "wc", "Sends of many sizes arrive, and completions say so", sends, 0, NULL },
    { "write", "wc", "RDMA Writes of many sizes arrive", writes, 0, NULL },
    { "read", "wc", "RDMA Reads of many sizes fetch", reads, 0, NULL },
    { "write-send", "post", "a Send follows the Write before it", send_follows_write, 0, "send" },
    { "atomics", "atomic", "Fetch and Add, Compare and Swap", adds, 0, NULL },
    { "elements", "sge", "requests gather and scatter; an empty element needs no lkey", gathers, 0,
      "send" },
    { "inline", "post-list", "inline data is copied by the post", copies_inline, 0, "send" },
    { "order", "poll", "messages and completions keep their order", keeps_order, 0, "send" },
    { "unsignalled", "signaled", "an unsignalled success makes no completion", stays_silent, 0,
      "send" },
    { "flags", "wc", "NOTIFY and SOLICITED arrive in completions", flags_arrive, 0, "send" },
    { "post-bad", "post-bad", "a refused request stops the list, and is named", list_stops, 0,
      "send" },
    { "post-elements", "post-bad", "too many elements are refused", refuses_elements, 0, NULL },
    { "post-length", "post-bad", "a Send beyond max_send is refused", refuses_length, 0, NULL },
    { "post-message", "post-bad", "a Write or Read beyond max_message is refused", refuses_messages,
      0, NULL },
    { "queue-receive", "post-slot", "a full receive queue refuses; a polled one has room",
      receives_fill, 0, "send" },
    { "queue-send", "post-slot", "unsignalled requests keep their slots", sends_free_slots, 0,
      "send" },
    { "queue-again", "post-slot", "a polled completion frees the slots that it covers",
      signalled_free_slots, 0, "send" },
    { "ord", "depths", "Reads beyond ORD wait", holds_back_reads, 0, NULL },
    { "ord-zero", "depths", "a Read with ORD 0 completes in error", refuses_reads, 0, NULL },
    { "ird", "depths", "more Reads at once than IRD end the connection", ends_beyond_ird, 0, NULL },
    { "ird-zero", "depths", "a Read to a peer with IRD 0 ends the connection", ends_without_ird, 0,
      NULL },
    { "srq-traffic", "srq", "receives of an SRQ are taken in order; its limit is told once",
      shares_receives, 0, "send" },
    { "target-latency", "progress", "a target that makes no calls is reached within a millisecond",
      target_is_soon, 0, NULL },
    { .name = NULL },
};
