/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: bound, used by the peer, freed. */
#include "bed.h"

#include <string.h>

#define AT    4096u
#define SIZE  64u
#define KEY   0x5au
#define FIRST 11u

static struct node a, b;
static struct ri_mr *mr;
static struct ri_mr_keys keys;

/* A window over SIZE octets of the passive side's memory; its STag after the bind. */
static uint32_t bind_window(struct ri_mw **mw)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = all_access() | RI_ACCESS_BIND,
                               .length = MEMORY };
    struct ri_send_wr wr = { .cookie = FIRST,
                             .opcode = RI_WR_BIND_WINDOW,
                             .flags = RI_WR_SIGNALED },
                      *bad;
    bool narrow;
    uint32_t stag;
    struct ri_wc wc;

    bed_open();
    narrow = bed.attr.features & RI_FEATURE_MW_NARROW;
    if (!narrow)
        bed_need(RI_FEATURE_MW_WIDE, "windows");
    node_create(&a, NULL);
    node_create(&b, &(struct node_want){ .flags = RI_QP_BIND_ENABLE });
    pair_connect(&b, &a); /* the active side may post at once */
    attr.addr = b.memory;
    EXPECT_STATUS(register_region(bed.pd, &attr, &keys, &mr), RI_OK);
    EXPECT_STATUS(bed.control.mw_allocate(bed.pd, narrow, NULL, &stag, mw), RI_OK);
    stag = (stag & ~0xffu) | KEY;
    wr.bind.mw = *mw;
    wr.bind.mr = mr;
    wr.bind.addr = (uintptr_t)b.memory + AT;
    wr.bind.length = SIZE;
    wr.bind.access = RI_ACCESS_REMOTE_WRITE;
    wr.bind.new_key = KEY;
    EXPECT_STATUS(bed.data.post_send(b.qp, &wr, &bad), RI_OK);
    wc = expect_wc(b.send_cq, &b, FIRST, RI_WC_BIND_WINDOW, RI_WC_SUCCESS);
    EXPECT(wc.invalidated_stag == stag, "the completion of a bind has STag 0x%x instead of 0x%x",
           wc.invalidated_stag, stag);
    /* The passive side of an MPA connection may send when it has received something. */
    do_recv(&a, 1, 0, 8);
    do_send(&b, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
    expect_wc(a.recv_cq, &a, 1, RI_WC_RECV, RI_WC_SUCCESS);
    return stag;
}

static void write_through(uint32_t stag, uint32_t offset)
{
    memset(a.memory, 'w', SIZE);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_RDMA_WRITE,
                                     .length = SIZE / 2,
                                     .remote_addr = (uintptr_t)b.memory + AT + offset,
                                     .rkey = stag });
}

static void window_is_written(void)
{
    struct ri_mw *mw;
    uint32_t stag = bind_window(&mw);

    EXPECT_STATUS(bed.control.mr_deregister(mr), RI_ERR_BUSY);
    write_through(stag, 0);
    EXPECT(UNTIL(b.memory[AT + SIZE / 2 - 1] == 'w', 5000),
           "a Write through a window does not arrive");
    EXPECT(!node_ends(&b), "a Write through a window ends the connection");
}

static void window_has_bounds(void)
{
    struct ri_mw *mw;
    uint32_t stag = bind_window(&mw);

    write_through(stag, SIZE - 8);
    EXPECT(UNTIL(node_ends(&a) && node_ends(&b), 5000),
           "a Write beyond a window does not end the connection");
    EXPECT(!b.memory[AT + SIZE], "a Write beyond a window writes memory");
}

static void window_is_freed(void)
{
    struct ri_mw *mw;
    uint32_t stag = bind_window(&mw);

    EXPECT_STATUS(bed.control.mw_free(mw), RI_OK);
    write_through(stag, 0);
    EXPECT(UNTIL(node_ends(&a) && node_ends(&b), 5000),
           "a Write through a window that was freed does not end the connection");
    EXPECT(!b.memory[AT], "a Write through a window that was freed writes memory");
    EXPECT_STATUS(bed.control.mr_deregister(mr), RI_OK);
}

const struct check window_checks[] = {
    { "mw-write", "mw", "a bound window is written by the peer, and keeps its region",
      window_is_written, 0, "send" },
    { "mw-bounds", "mw", "a Write beyond a window writes nothing", window_has_bounds, 0, "send" },
    { "mw-free", "mw", "a window that was freed gives access no longer", window_is_freed, 0,
      "send" },
    { .name = NULL },
};
