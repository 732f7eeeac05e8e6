/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile_bed.h"

struct testbed bed;
struct hand hand;
struct region open_region, closed_region;
struct side *const a = &bed.side[0];

void hostile_setup(void)
{
    local_open(&bed, NULL);
}

void hostile_teardown(void)
{
    hand_close(&hand);
    testbed_close(&bed);
}

/* Each octet of a region that the peer may not reach. */
static void fill(struct region *region)
{
    memset(region->octets, 0xC3, region->length);
}

void hostile_open(const struct shape *shape)
{
    side_open(&bed, a, shape);
    open_region = region_new(a, ROOM, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    closed_region = region_new(a, ROOM, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE);
    fill(&open_region);
    fill(&closed_region);
    hand_open(&hand, a, NULL);
    testbed_passes(&bed, 2);
}

void hostile_close(void)
{
    hand_close(&hand);
    side_close(a);
}

bool is_untouched(const struct region *region, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        if (region->octets[i] != 0xC3)
            return false;
    return true;
}

void expect_all_flushed(struct ri_cq *cq, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        side_expect(a, cq, first + i, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, cq));
}

void expect_ended(void)
{
    ck_assert_msg(fake_host_until(&bed.fake, side_query(a).state == RI_QPS_ERROR, TESTBED_TIMEOUT),
                  "state %d", side_query(a).state);
}

uint64_t hostile_addr(const struct region *region, int64_t offset)
{
    return (uint64_t)((int64_t)(uintptr_t)region->octets + offset);
}
