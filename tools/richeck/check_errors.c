/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that fail, connections that end: one error, one end, everything flushed once. */
#include "bed.h"

#include <string.h>
#include <sys/mman.h>

#define TARGET (MEMORY / 2)
#define QUIET  100   /* ms in which a second end would come */
#define LONG   4096u /* octets; a short message may leave inline, without a look at its lkey */

static struct node a, b;

static void begin(void)
{
    bed_open();
    pair(&a, &b, NULL);
}

/* Set A: a cause is told once, before the end that it explains. */
static void cause_is_told_once(struct node *node, const char *which)
{
    EXPECT(!bed.set_a || node->causes <= 1,
           "qp_event tells %s %u causes of one end, the last as event %d", which, node->causes,
           (int)node->type[(node->events - 1) % EVENTS]);
    EXPECT(!bed.set_a || !node->late,
           "qp_event tells %s a cause behind RI_CONNECTION_DISCONNECTED: event %d", which,
           (int)node->type[(node->events - 1) % EVENTS]);
}

/* Both QPs have ended, each by one event, and are in ERROR. */
static void both_end(void)
{
    EXPECT(UNTIL(node_ends(&a) && node_ends(&b), 5000),
           "the end of the connection is not told within 5 s to %s",
           node_ends(&a) ? "the peer" : "the side that caused it");
    UNTIL(false, QUIET);
    EXPECT(node_ends(&a) == 1 && node_ends(&b) == 1,
           "the end of the connection is told %u times here and %u times at the peer",
           node_ends(&a), node_ends(&b));
    cause_is_told_once(&a, "this side");
    cause_is_told_once(&b, "the peer");
    EXPECT(node_state(&a) == RI_QPS_ERROR && node_state(&b) == RI_QPS_ERROR,
           "a QP whose connection has ended is in state %d, its peer in %d", (int)node_state(&a),
           (int)node_state(&b));
}

/* As both_end() after an error of this side, of which the peer hears by connection verbs alone. */
static void this_side_ends(void)
{
    if (!bed.by_numbers) {
        both_end();
        return;
    }
    EXPECT(UNTIL(node_ends(&a), 5000), "the end of the connection is not told within 5 s");
    UNTIL(false, QUIET);
    EXPECT(node_ends(&a) == 1, "the end of the connection is told %u times", node_ends(&a));
    EXPECT(node_state(&a) == RI_QPS_ERROR, "a QP that has ended is in state %d",
           (int)node_state(&a));
}

/* A completion has told the error, and the event says so; RI_EVENT_LOCAL_ERROR means that. */
static void explained(struct node *node)
{
    for (unsigned int i = 0; i < node->events && i < EVENTS; i++)
        EXPECT(node->explained[i] || node->type[i] == RI_EVENT_ESTABLISHED ||
                   node->type[i] == RI_EVENT_LOCAL_ERROR || node->type[i] >= RI_EVENT_QP_FATAL,
               "a completion reports the error, but `explained` of event %d is not set",
               (int)node->type[i]);
}

static void expect_flushed(struct ri_cq *cq, struct node *node, uint64_t from, uint64_t to,
                           uint8_t opcode)
{
    for (uint64_t i = from; i < to; i++)
        expect_wc(cq, node, i, opcode, RI_WC_FLUSHED);
    expect_none(cq, "each request is flushed once");
}

static void post_receives(struct node *node, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        do_recv(node, i, 0, 64);
}

/* ---- ends that this side wants ---- */

/* Nobody is told, and the peer's QP stays as it is. */
static void aborts_by_numbers(void)
{
    post_receives(&a, 8);
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    expect_flushed(a.recv_cq, &a, 0, 8, RI_WC_RECV);
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    UNTIL(false, QUIET);
    EXPECT(!node_ends(&a) && !node_ends(&b), "qp_modify to ERROR is told as an end");
    EXPECT(node_state(&a) == RI_QPS_ERROR && node_state(&b) == RI_QPS_RTS,
           "the QP is in state %d, its peer in %d", (int)node_state(&a), (int)node_state(&b));
}

static void aborts(void)
{
    begin();
    if (bed.by_numbers) {
        aborts_by_numbers();
        return;
    }
    post_receives(&a, 8);
    post_receives(&b, 8);
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    both_end();
    expect_flushed(a.recv_cq, &a, 0, 8, RI_WC_RECV);
    expect_flushed(b.recv_cq, &b, 0, 8, RI_WC_RECV);
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    UNTIL(false, QUIET);
    EXPECT(node_ends(&a) == 1, "a QP in ERROR that is modified to ERROR tells another end");
    if (bed.set_a)
        EXPECT(!a.events,
               "qp_event %d comes after qp_modify to ERROR: the connection tells the end",
               (int)a.type[0]);
    else
        EXPECT(a.type[0] == RI_EVENT_LLP_RESET || a.type[1] == RI_EVENT_LLP_RESET,
               "the event after qp_modify to ERROR is %d, not RI_EVENT_LLP_RESET", (int)a.type[0]);
}

static void closes(void)
{
    begin();
    if (bed.by_numbers)
        check_skip("QPs are connected by numbers alone: there is no orderly close");
    /* The passive side may send nothing before it has received something. */
    do_recv(&b, 99, 0, 64);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
    expect_wc(b.recv_cq, &b, 99, RI_WC_RECV, RI_WC_SUCCESS);
    post_receives(&a, 4);
    node_disconnect(&a);
    both_end();
    expect_flushed(a.recv_cq, &a, 0, 4, RI_WC_RECV);
    if (!bed.set_a)
        EXPECT(a.type[0] == RI_EVENT_LLP_CLOSED && b.type[0] == RI_EVENT_LLP_CLOSED,
               "the events of an orderly close are %d and %d, not RI_EVENT_LLP_CLOSED",
               (int)a.type[0], (int)b.type[0]);
}

/* The Reads beyond ORD have not left, and the Sends wait behind them. What a device has answered by
 * itself may have succeeded. */
static void flushes_sends(void)
{
    const struct node_want want = { .ord = 1 };
    struct send_want request = { .opcode = RI_WR_RDMA_READ, .length = MEMORY / 2 };
    bool flushing = false;

    bed_open();
    pair(&a, &b, &want);
    request.remote_addr = (uintptr_t)b.memory;
    request.rkey = b.keys.rkey;
    for (request.cookie = 0; request.cookie < 4; request.cookie++) {
        request.flags = RI_WR_SIGNALED;
        do_send(&a, &request);
    }
    request.opcode = RI_WR_SEND;
    request.length = 8;
    for (; request.cookie < 12; request.cookie++) {
        request.flags = request.cookie % 2 ? RI_WR_SIGNALED : 0;
        do_send(&a, &request);
    }
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    for (uint64_t i = 0; i < 12; i++) {
        struct ri_wc wc = take(a.send_cq, &a, "a request of a QP in ERROR");

        EXPECT(wc.cookie == i, "a completion has cookie %llu; %llu is the next",
               (unsigned long long)wc.cookie, (unsigned long long)i);
        EXPECT(wc.opcode == (i < 4 ? RI_WC_RDMA_READ : RI_WC_SEND), "request %u has opcode %u",
               (unsigned int)i, wc.opcode);
        flushing |= wc.status == RI_WC_FLUSHED;
        EXPECT(wc.status == RI_WC_FLUSHED || (wc.status == RI_WC_SUCCESS && !flushing),
               "request %u completes with %s", (unsigned int)i, wc_status_name(wc.status));
    }
    UNTIL(false, QUIET);
    expect_none(a.send_cq, "each request is flushed once");
}

/* What is posted to a QP that is on its way to ERROR. */
static void flushes_while(enum ri_qp_state state)
{
    const struct send_want want = { .opcode = RI_WR_SEND, .cookie = 7, .length = 8 };

    bed_open();
    bed_need(RI_FEATURE_CONNECTION_SET_B, "RI_FEATURE_CONNECTION_SET_B");
    pair(&a, &b, NULL);
    EXPECT_STATUS(node_modify(&a, state), RI_OK);
    EXPECT_STATUS(try_send(&a, &want), RI_OK);
    EXPECT_STATUS(try_recv(&a, 8, 0, 8, 0), RI_OK);
    expect_wc(a.send_cq, &a, 7, RI_WC_SEND, RI_WC_FLUSHED);
    expect_wc(a.recv_cq, &a, 8, RI_WC_RECV, RI_WC_FLUSHED);
    both_end();
    expect_none(a.send_cq, "each request is flushed once");
}

static void flushes_in_closing(void)
{
    flushes_while(RI_QPS_CLOSING);
}

static void flushes_in_terminate(void)
{
    flushes_while(RI_QPS_TERMINATE);
}

static void terminates(void)
{
    bed_open();
    bed_need(RI_FEATURE_CONNECTION_SET_B, "RI_FEATURE_CONNECTION_SET_B");
    pair(&a, &b, NULL);
    EXPECT_STATUS(node_modify(&a, RI_QPS_TERMINATE), RI_OK);
    both_end();
    EXPECT(a.type[0] == RI_EVENT_LOCAL_ERROR,
           "the event after qp_modify to TERMINATE is %d, not RI_EVENT_LOCAL_ERROR",
           (int)a.type[0]);
}

static void destroys(void)
{
    unsigned int before;
    struct ri_wc wc;

    begin();
    post_receives(&a, 8);
    do_recv(&b, 50, 0, 64);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .length = 8 });
    expect_wc(b.recv_cq, &b, 50, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT_STATUS(bed.control.qp_destroy(a.qp), RI_OK);
    before = a.events;
    EXPECT(bed.by_numbers || UNTIL(node_ends(&b), 5000),
           "the peer of a destroyed QP is told no end");
    UNTIL(false, QUIET);
    EXPECT(a.events == before, "an upcall about a QP comes after qp_destroy returned");
    EXPECT(!bed.data.poll(a.send_cq, 1, &wc) && !bed.data.poll(a.recv_cq, 1, &wc),
           "a completion of a QP is polled after qp_destroy returned");
}

/* ---- local errors ---- */

static void local_error(uint32_t lkey, uint32_t offset, uint32_t length)
{
    struct send_want want = { .opcode = RI_WR_SEND,
                              .flags = RI_WR_SIGNALED,
                              .length = length,
                              .offset = offset,
                              .lkey = lkey };

    post_receives(&a, 4);
    post_receives(&b, 4);
    do_send(&a, &want);
    want.lkey = 0;
    want.offset = 0;
    want.length = 8;
    for (want.cookie = 1; want.cookie < 5; want.cookie++)
        if (try_send(&a, &want) != RI_OK)
            check_fail("post_send behind a failing request is refused");
    expect_wc(a.send_cq, &a, 0, RI_WC_SEND, RI_WC_LOCAL_PROTECTION);
    expect_flushed(a.send_cq, &a, 1, 5, RI_WC_SEND);
    this_side_ends();
    expect_flushed(a.recv_cq, &a, 0, 4, RI_WC_RECV);
}

static void wrong_lkey(void)
{
    begin();
    local_error(a.keys.lkey ^ 0x5a5a5a00, 0, LONG);
}

static void wrong_bounds(void)
{
    begin();
    local_error(0, MEMORY - LONG + 4, LONG);
}

/* A region of another PD. */
static void wrong_pd(void)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = RI_ACCESS_LOCAL_READ };
    struct ri_mr_keys keys;
    struct ri_pd *pd;
    struct ri_mr *mr;

    begin();
    attr.addr = a.memory;
    attr.length = MEMORY;
    EXPECT_STATUS(bed.control.pd_create(bed.rnic, NULL, &pd), RI_OK);
    EXPECT_STATUS(register_region(pd, &attr, &keys, &mr), RI_OK);
    local_error(keys.lkey, 0, LONG);
}

static void old_lkey(void)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = RI_ACCESS_LOCAL_READ };
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    begin();
    attr.addr = a.memory;
    attr.length = MEMORY;
    EXPECT_STATUS(register_region(bed.pd, &attr, &keys, &mr), RI_OK);
    EXPECT_STATUS(bed.control.mr_deregister(mr), RI_OK);
    local_error(keys.lkey, 0, LONG);
}

/* ---- errors at the peer ---- */

static void remote_error(uint16_t opcode, uint32_t rkey, uint64_t address, uint32_t length)
{
    static uint8_t before[MEMORY];

    memset(b.memory, 0x77, MEMORY);
    memcpy(before, b.memory, MEMORY);
    do_send(&a, &(struct send_want){ .opcode = opcode,
                                     .flags = RI_WR_SIGNALED,
                                     .cookie = 3,
                                     .length = length,
                                     .remote_addr = address,
                                     .rkey = rkey });
    both_end();
    EXPECT(!memcmp(before, b.memory, MEMORY), "an access that is refused writes memory");
    if (opcode == RI_WR_RDMA_READ) {
        struct ri_wc wc = take(a.send_cq, &a, "a refused Read");

        EXPECT(wc.cookie == 3 && wc.status != RI_WC_SUCCESS && wc.status != RI_WC_FLUSHED,
               "a Read that the peer refuses completes with %s", wc_status_name(wc.status));
        explained(&a);
    }
}

static void wrong_rkey_write(void)
{
    begin();
    remote_error(RI_WR_RDMA_WRITE, b.keys.rkey ^ 0x5a5a5a00, (uintptr_t)b.memory, 64);
}

static void wrong_rkey_read(void)
{
    begin();
    remote_error(RI_WR_RDMA_READ, b.keys.rkey ^ 0x5a5a5a00, (uintptr_t)b.memory, 64);
}

static void beyond_write(void)
{
    begin();
    remote_error(RI_WR_RDMA_WRITE, b.keys.rkey, (uintptr_t)b.memory + MEMORY - 32, 64);
}

static void no_right(uint16_t opcode, uint32_t access)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = access, .length = MEMORY };
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    begin();
    attr.addr = b.memory;
    EXPECT_STATUS(register_region(bed.pd, &attr, &keys, &mr), RI_OK);
    remote_error(opcode, keys.rkey, (uintptr_t)b.memory, 64);
}

static void no_right_write(void)
{
    no_right(RI_WR_RDMA_WRITE,
             RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ);
}

static void no_right_read(void)
{
    no_right(RI_WR_RDMA_READ,
             RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_WRITE);
}

static void after_deregister(void)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = 0, .length = MEMORY };
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    begin();
    attr.access = all_access();
    attr.addr = b.memory;
    EXPECT_STATUS(register_region(bed.pd, &attr, &keys, &mr), RI_OK);
    EXPECT_STATUS(bed.control.mr_deregister(mr), RI_OK);
    remote_error(RI_WR_RDMA_WRITE, keys.rkey, (uintptr_t)b.memory, 64);
}

static void receive_too_short(void)
{
    begin();
    do_recv(&b, 0, 0, 8);
    do_recv(&b, 1, 0, 64);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .length = 64 });
    expect_wc(b.recv_cq, &b, 0, RI_WC_RECV, RI_WC_LOCAL_LENGTH);
    expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_FLUSHED);
    both_end();
    explained(&b);
}

/* ---- each request once ---- */

/* The ledger judges what comes (calls.h); what comes late, after all is done, too. */
static void completes_once(void)
{
    struct send_want want = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED, .length = 8 };
    struct ri_wc wc;

    begin();
    post_receives(&b, 16);
    for (want.cookie = 0; want.cookie < 16; want.cookie++)
        do_send(&a, &want);
    for (uint64_t i = 0; i < 16; i++) {
        expect_wc(b.recv_cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
        expect_wc(a.send_cq, &a, i, RI_WC_SEND, RI_WC_SUCCESS);
    }
    for (uint64_t i = 100; i < 108; i++)
        do_recv(&a, i, 0, 8);
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    for (uint64_t i = 100; i < 108; i++)
        expect_wc(a.recv_cq, &a, i, RI_WC_RECV, RI_WC_FLUSHED);
    EXPECT(!UNTIL(bed.data.poll(a.send_cq, 1, &wc) || bed.data.poll(a.recv_cq, 1, &wc) ||
                      bed.data.poll(b.send_cq, 1, &wc) || bed.data.poll(b.recv_cq, 1, &wc),
                  2 * QUIET),
           "{wc-once} a completion with cookie %llu comes of a request that was not posted",
           (unsigned long long)wc.cookie);
}

/* ---- a CQ without room ---- */

static void holds_overflow(void)
{
    struct node_want want = { .cq_depth = 4 };

    bed_open();
    bed_need(RI_FEATURE_CQ_HOLDS_OVERFLOW, "RI_FEATURE_CQ_HOLDS_OVERFLOW");
    node_create(&a, &want);
    post_receives(&a, 16);
    EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    expect_flushed(a.recv_cq, &a, 0, 16, RI_WC_RECV);
}

const struct check error_checks[] = {
    { "end-error", "end-once", "qp_modify to ERROR: one end at each side, receives flushed", aborts,
      0, NULL },
    { "complete-once", "wc-once", "each request completes once, also when all is done",
      completes_once, 15, "send" },
    { "end-close", "end-once", "an orderly close: one end at each side", closes, 15, "send" },
    { "end-sends", "end-flush", "Reads and Sends that have not left are flushed once, in order",
      flushes_sends, 0, NULL },
    { "post-closing", "post", "requests to a QP in CLOSING are flushed", flushes_in_closing, 15,
      NULL },
    { "post-terminate", "post", "requests to a QP in TERMINATE are flushed", flushes_in_terminate,
      15, NULL },
    { "end-terminate", "qp-transitions", "qp_modify to TERMINATE: one end at each side", terminates,
      15, NULL },
    { "end-destroy", "qp-destroy", "after qp_destroy no completion and no upcall", destroys, 15,
      "send" },
    { "local-lkey", "post-protection", "a wrong lkey: one error, the others flushed", wrong_lkey, 0,
      "send" },
    { "local-bounds", "post-protection", "an element beyond its region", wrong_bounds, 0, "send" },
    { "local-pd", "post-protection", "a region of another PD", wrong_pd, 0, "send" },
    { "local-old", "mr-deregister", "the lkey of a region that is gone", old_lkey, 0, "send" },
    { "remote-rkey-write", "stag", "a Write with a wrong rkey ends the connection",
      wrong_rkey_write, 0, NULL },
    { "remote-rkey-read", "wc-status", "a Read with a wrong rkey completes in error",
      wrong_rkey_read, 0, NULL },
    { "remote-bounds", "stag", "a Write beyond the region writes nothing", beyond_write, 0, NULL },
    { "remote-no-write", "mr", "a Write without the right", no_right_write, 0, NULL },
    { "remote-no-read", "mr", "a Read without the right", no_right_read, 0, NULL },
    { "remote-old", "mr-deregister", "a Write to a region that is gone writes nothing",
      after_deregister, 0, NULL },
    { "receive-short", "wc-status", "a receive that is too short", receive_too_short, 0, "send" },
    { "cq-overflow", "features", "completions that do not fit wait, and none is lost",
      holds_overflow, 0, NULL },
    { .name = NULL },
};
