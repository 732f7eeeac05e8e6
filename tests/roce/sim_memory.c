/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and posts of the simulated link: see sim.h. */
#include "sim.h"

#include <sys/mman.h>

#define OK(call) FAKE_CHECK((call) == RI_OK)

struct sim_region sim_region(struct sim *sim, uint32_t side, uint64_t length, uint32_t access)
{
    struct sim_region region = { .length = length };
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = access, .length = length };

    region.octets = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FAKE_CHECK(region.octets != MAP_FAILED);
    attr.addr = region.octets;
    OK(sim->fake.privileged.mr_register(sim->end[side].pd, &attr, &region.keys, &region.mr));
    return region;
}

void sim_region_free(struct sim *sim, struct sim_region *region)
{
    if (region->mr)
        OK(sim->fake.privileged.mr_deregister(region->mr));
    munmap(region->octets, region->length);
    region->mr = NULL;
}

struct ri_sge sim_sge(const struct sim_region *region, uint64_t offset, uint32_t length)
{
    return (struct ri_sge){ (uintptr_t)region->octets + offset, length, region->keys.lkey };
}

enum ri_status sim_post(struct sim *sim, uint32_t side, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;

    return sim->fake.user.post_send(sim->end[side].qp, wr, &bad);
}

enum ri_status sim_post_recv(struct sim *sim, uint32_t side, uint64_t cookie, struct ri_sge sge)
{
    struct ri_recv_wr *bad = NULL, wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 };

    return sim->fake.user.post_recv(sim->end[side].qp, &wr, &bad);
}

bool sim_poll(struct sim *sim, struct ri_cq *cq, struct ri_wc *wc)
{
    return sim->fake.user.poll(cq, 1, wc) == 1;
}
