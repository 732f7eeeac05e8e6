/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_region.h - memory regions of a provider whose CPU copies, or whose device asks for its
 * translations (librnicpi.a): a table by key, the checks of mr_register, and copies between octets
 * and the scatter elements of a request. rnicpi_mem.h has whole operations that use it.
 *
 * Locks: the caller has one lock for all calls with one table but ri_regions_open and _close, which
 * nothing may run beside. A region that was removed under the lock is reached by nobody afterwards
 * (see {mr-deregister} in rnicpi.h) if data is copied under the same lock.
 */
#ifndef RNICPI_REGION_H
#define RNICPI_REGION_H

#include "rnicpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Embed it as the first member, or use it as it is. The caller fills in all but `key`. */
struct ri_region {
    struct ri_mr base;
    void *domain;          /* whose keys: the PD; compared, not looked into */
    uint64_t addr, length; /* octets, from `addr` on */
    uint32_t access;       /* OR of enum ri_access */
    uint32_t key;          /* STag; set by ri_region_add */
};

/* The library's own. */
struct ri_regions {
    struct ri_region **places;
    uint32_t mask, most, count; /* places - 1; regions at most; regions that are there */
};

/* An empty table for at most `most` regions, 1 .. 2^23. RI_ERR_INVALID_ARGUMENT,
 * RI_ERR_NO_RESOURCES. close: frees the table, not its regions. */
enum ri_status ri_regions_open(struct ri_regions *regions, uint32_t most);
void ri_regions_close(struct ri_regions *regions);

/* The checks of mr_register that need no look at the memory: rights that need others, a range that
 * wraps (INVALID_ARGUMENT), more than `max_length` octets (LIMIT), what this table has not
 * (NOT_SUPPORTED): rights other than local and remote read and write, unlinked and shared
 * regions. */
enum ri_status ri_region_check(const struct ri_mr_attr *attr, uint64_t max_length);

/*
 * Put the region into the table and give it a key. Place and key are random, so which keys exist
 * cannot be guessed, and a freed place comes back late {stag-random}; the upper 24 bits are unique
 * and never 0 {stag-unique}. RI_ERR_LIMIT: as many as `most` are there. RI_ERR_NO_RESOURCES: the
 * system has no entropy. The region is the caller's and stays where it is until it is removed.
 */
enum ri_status ri_region_add(struct ri_regions *regions, struct ri_region *region);
void ri_region_remove(struct ri_regions *regions, const struct ri_region *region);

/* What mr_register tells of a region that was added: rkey 0 if no remote right was asked for. */
static inline struct ri_mr_keys ri_region_keys(const struct ri_region *region)
{
    bool remote = region->access & (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE);

    return (struct ri_mr_keys){ .lkey = region->key, .rkey = remote ? region->key : 0 };
}

/* The memory that a key gives access to: all of `length` octets from `address` on are inside the
 * region, it is of that domain, and has all rights of `access`. NULL: one of these is not so. */
uint8_t *ri_region_at(const struct ri_regions *regions, const void *domain, uint32_t key,
                      uint64_t address, uint64_t length, uint32_t access);

/* May all elements be used so? Elements without octets are not looked at {sge}. */
bool ri_sges_are_good(const struct ri_regions *regions, const void *domain,
                      const struct ri_sge *sges, uint32_t count, uint32_t access);

/*
 * Copy `length` octets between `octets` and the elements, beginning with octet `offset` of all that
 * they hold. `access` says the direction: RI_ACCESS_LOCAL_READ out of the elements,
 * RI_ACCESS_LOCAL_WRITE into them. False: an element that is reached may not be used so; what
 * stands before it was copied. The elements hold offset + length octets or more, else what does not
 * fit is left out.
 */
bool ri_sges_copy(const struct ri_regions *regions, const void *domain, const struct ri_sge *sges,
                  uint32_t count, uint64_t offset, uint64_t length, uint8_t *octets,
                  uint32_t access);

#ifdef __cplusplus
}
#endif

#endif
