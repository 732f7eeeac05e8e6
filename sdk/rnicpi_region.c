/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions by key, and copies through them: see rnicpi_region.h. */
#include "rnicpi_region.h"
#include "rnicpi_util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum ri_status ri_regions_open(struct ri_regions *regions, uint32_t most)
{
    struct ri_region **places;
    uint32_t slots = 2; /* place 0 alone could not have a key whose upper bits are 0 */

    if (!most || most > UINT32_C(1) << 23)
        return RI_ERR_INVALID_ARGUMENT;
    while (slots < most)
        slots <<= 1;
    places = calloc(slots, sizeof(struct ri_region *));
    if (!places)
        return RI_ERR_NO_RESOURCES;
    *regions = (struct ri_regions){ .places = places, .mask = slots - 1, .most = most };
    return RI_OK;
}

void ri_regions_close(struct ri_regions *regions)
{
    free(regions->places);
    regions->places = NULL;
}

enum ri_status ri_region_check(const struct ri_mr_attr *attr, uint64_t max_length)
{
    const uint32_t known = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
                           RI_ACCESS_REMOTE_WRITE;
    uint32_t access = attr->access;
    uint64_t from = (uintptr_t)attr->addr;

    if (!attr->length || from + attr->length < from || !ri_access_has_local(access))
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->length > max_length)
        return RI_ERR_LIMIT;
    return (access & ~known) || !attr->addr || attr->shared ? RI_ERR_NOT_SUPPORTED : RI_OK;
}

static uint32_t place_of(const struct ri_regions *regions, uint32_t key)
{
    return key >> 8 & regions->mask;
}

/* From a random place on: the first one that is free. */
enum ri_status ri_region_add(struct ri_regions *regions, struct ri_region *region)
{
    uint32_t random, place, key;

    if (regions->count == regions->most)
        return RI_ERR_LIMIT;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return RI_ERR_NO_RESOURCES;
    if (!(random >> 8 & ~regions->mask))
        random |= UINT32_C(0x80000000); /* the upper bits are never 0, whatever the place */
    place = place_of(regions, random);
    while (regions->places[place])
        place = (place + 1) & regions->mask;
    key = (random & ~(regions->mask << 8)) | place << 8;
    region->key = key;
    regions->places[place] = region;
    regions->count++;
    return RI_OK;
}

void ri_region_remove(struct ri_regions *regions, const struct ri_region *region)
{
    regions->places[place_of(regions, region->key)] = NULL;
    regions->count--;
}

uint8_t *ri_region_at(const struct ri_regions *regions, const void *domain, uint32_t key,
                      uint64_t address, uint64_t length, uint32_t access)
{
    const struct ri_region *region = regions->places[place_of(regions, key)];
    uint64_t offset;

    if (!region || region->key != key || region->domain != domain ||
        (region->access & access) != access || address < region->addr)
        return NULL;
    offset = address - region->addr;
    if (offset > region->length || length > region->length - offset)
        return NULL;
    return (uint8_t *)(uintptr_t)address;
}

bool ri_sges_are_good(const struct ri_regions *regions, const void *domain,
                      const struct ri_sge *sges, uint32_t count, uint32_t access)
{
    for (uint32_t i = 0; i < count; i++)
        if (sges[i].length &&
            !ri_region_at(regions, domain, sges[i].lkey, sges[i].addr, sges[i].length, access))
            return false;
    return true;
}

bool ri_sges_copy(const struct ri_regions *regions, const void *domain, const struct ri_sge *sges,
                  uint32_t count, uint64_t offset, uint64_t length, uint8_t *octets,
                  uint32_t access)
{
    for (uint32_t i = 0; i < count && length; i++) {
        uint64_t part = sges[i].length;
        uint8_t *at;

        if (offset >= part) {
            offset -= part;
            continue;
        }
        at = ri_region_at(regions, domain, sges[i].lkey, sges[i].addr, part, access);
        if (!at)
            return false;
        part = part - offset < length ? part - offset : length;
        if (access == RI_ACCESS_LOCAL_READ)
            memcpy(octets, at + offset, part);
        else
            memcpy(at + offset, octets, part);
        octets += part;
        length -= part;
        offset = 0;
    }
    return true;
}
