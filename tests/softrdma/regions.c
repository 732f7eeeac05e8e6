/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of a test bed, which side_close frees if the test has not: see testbed.h. */
#include "testbed.h"

#include <sys/mman.h>

#include "base/shared_memory.h"

struct kept {
    struct kept *next;
    struct side *side;
    struct region region;
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept_regions;
static enum ri_status (*deregister)(struct ri_mr *mr); /* the provider's */

static void keep(struct kept *kept)
{
    pthread_mutex_lock(&kept_lock);
    kept->next = kept_regions;
    kept_regions = kept;
    pthread_mutex_unlock(&kept_lock);
}

/* The next one of a side, or that of an MR, or the one at `octets`. NULL: none. It is the caller's.
 */
static struct kept *take_kept(const struct side *side, const struct ri_mr *mr,
                              const uint8_t *octets)
{
    struct kept *kept;

    pthread_mutex_lock(&kept_lock);
    for (struct kept **at = &kept_regions; (kept = *at) != NULL; at = &kept->next) {
        if (kept->side == side || (mr && kept->region.mr == mr) || kept->region.octets == octets) {
            *at = kept->next;
            break;
        }
    }
    pthread_mutex_unlock(&kept_lock);
    return kept;
}

/* In the place of the provider's: what a test deregisters itself is not deregistered again. */
static enum ri_status deregister_once(struct ri_mr *mr)
{
    struct kept *kept = take_kept(NULL, mr, NULL);
    enum ri_status status = deregister(mr);

    if (kept && status == RI_OK)
        kept->region.mr = NULL;
    if (kept)
        keep(kept);
    return status;
}

void regions_free(struct side *side)
{
    struct kept *kept;

    while ((kept = take_kept(side, NULL, NULL)) != NULL) {
        region_free(side, &kept->region);
        free(kept);
    }
}

void regions_watch(struct testbed *bed)
{
    deregister = bed->fake.privileged.mr_deregister;
    bed->fake.privileged.mr_deregister = deregister_once;
}

static bool shares(const struct testbed *bed)
{
    const char *access = getenv("ITAL_TEST_LOCAL_ACCESS");

    return bed->shares || (access && !strcmp(access, "mapped"));
}

struct region region_new(struct side *side, uint64_t length, uint32_t access)
{
    struct region region = { .length = length, .is_shared = shares(side->bed) };
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = access, .length = length };
    struct kept *kept;

    region.octets = region.is_shared ? shared_memory_new(length)
                                     : mmap(NULL, length, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(region.octets && region.octets != MAP_FAILED);
    attr.addr = region.octets;
    OK(side->bed->fake.privileged.mr_register(side->pd, &attr, &region.keys, &region.mr));
    kept = malloc(sizeof(*kept));
    *kept = (struct kept){ .side = side, .region = region };
    keep(kept);
    return region;
}

void region_free(struct side *side, struct region *region)
{
    free(take_kept(NULL, NULL, region->octets));
    if (region->mr)
        OK(side->bed->fake.privileged.mr_deregister(region->mr));
    if (region->is_shared)
        shared_memory_free(region->octets);
    else
        munmap(region->octets, region->length);
    region->mr = NULL;
}

void region_fill(struct region *region)
{
    for (uint64_t i = 0; i < region->length; i++)
        region->octets[i] = (uint8_t)(i * 7 + (i >> 8));
}

struct ri_sge region_sge(const struct region *region, uint64_t offset, uint32_t length)
{
    return (struct ri_sge){ (uintptr_t)region->octets + offset, length, region->keys.lkey };
}
