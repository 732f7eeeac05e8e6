/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of names, separated by one blank: the normal form of options of type list. */
#ifndef ITAL_BASE_NAMES_H
#define ITAL_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The next name of the list at *at, *length octets, not ended by a NUL; *at moves behind it.
 * NULL: there is none. */
static inline const char *names_next(const char **at, size_t *length)
{
    const char *name = *at + strspn(*at, " ");

    *length = strcspn(name, " ");
    *at = name + *length;
    return *length ? name : NULL;
}

static inline bool names_have_octets(const char *list, const char *name, size_t wanted)
{
    size_t length;
    const char *one;

    while ((one = names_next(&list, &length)))
        if (length == wanted && !memcmp(one, name, length))
            return true;
    return false;
}

static inline bool names_have(const char *list, const char *name)
{
    return names_have_octets(list, name, strlen(name));
}

/* Where a network interface is meant, and getifaddrs(3) named it: an address may have a label, the
 * interface's name with a colon and more behind it (ip-address(8)). */
static inline bool names_have_netdev(const char *list, const char *ifa_name)
{
    return names_have_octets(list, ifa_name, strcspn(ifa_name, ":"));
}

#endif
