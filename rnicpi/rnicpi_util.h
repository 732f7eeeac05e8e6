/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_util.h - small things that every provider needs (librnicpi.a). Any thread; nothing here
 * blocks but ri_check_memory, and nothing allocates.
 */
#ifndef RNICPI_UTIL_H
#define RNICPI_UTIL_H

#include <netinet/in.h>
#include <string.h>

#include "rnicpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name of a status ("RI_ERR_BUSY"); a static string, also for values out of range. */
const char *ri_status_name(enum ri_status status);

/* A line through the host's log, printf's way. */
void ri_log(const struct ri_host *host, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The clock of all deadlines: CLOCK_MONOTONIC nanoseconds. */
uint64_t ri_now(void);

/* Does the descriptor pass the checks that the host makes before it calls anything? RI_OK, or
 * RI_ERR_NOT_SUPPORTED with *reason a static sentence. */
enum ri_status ri_provider_check(const struct ri_provider *provider, const char **reason);

/*
 * The first operation that a provider with these features must have and does not have: it is past
 * the end of its table, or NULL. Returns NULL if none is missing. features: ri_rnic_attr.features.
 * For a provider's own tests: the host loads such a provider all the same, and calls of an absent
 * operation answer RI_ERR_NOT_SUPPORTED.
 */
const char *ri_missing_operation(const struct ri_privileged_ops *privileged,
                                 const struct ri_user_ops *user, uint64_t features);

/*
 * Is all of the range mapped, and readable, and writable if that is asked for? RI_OK, ADDRESS (not
 * mapped), or ACCESS. For mr_register of a provider that copies by the CPU; for one with
 * RI_FEATURE_DMA the host pins, and finds it. Asks the kernel for the mappings, and where there is
 * no /proc page by page: not for the data path. It populates no page where /proc is.
 */
enum ri_status ri_check_memory(const void *addr, uint64_t length, bool writable);

/* {mr} Has each remote right the local one that it needs? Remote Writes and atomics: local writing;
 * remote Reads: local reading. */
static inline bool ri_access_has_local(uint32_t access)
{
    bool writes = access & (RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC);

    return (!writes || (access & RI_ACCESS_LOCAL_WRITE)) &&
           (!(access & RI_ACCESS_REMOTE_READ) || (access & RI_ACCESS_LOCAL_READ));
}

/*
 * Copy *from into *to, as far as there is room: the first member of *to is its size in octets and
 * stays. For query operations, because the host may be older or newer. False: *to is too small to
 * have a size, and is unchanged.
 */
static inline bool ri_sized_copy(void *to, const void *from, uint32_t from_size)
{
    uint32_t size;

    memcpy(&size, to, sizeof(size));
    if (size < sizeof(size))
        return false;
    memcpy(to, from, size < from_size ? size : from_size);
    memcpy(to, &size, sizeof(size));
    return true;
}

/* An address of IPv4 or IPv6. The rest of *to stays. */
static inline void ri_address_copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
    memcpy(to, from,
           from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

/* The port of an address of IPv4 or IPv6, in host order. */
static inline uint16_t ri_address_port(const struct sockaddr *address)
{
    return ntohs(address->sa_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)address)->sin_port);
}

static inline void ri_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
}

#ifdef __cplusplus
}
#endif

#endif
