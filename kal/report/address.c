/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as text. */
#include "report.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

socklen_t kal_address_length(const struct sockaddr *address)
{
    if (!address)
        return 0;
    if (address->sa_family == AF_INET)
        return sizeof(struct sockaddr_in);
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

void kal_address_text(const struct sockaddr *address, char *text, size_t size)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getnameinfo(address, kal_address_length(address), host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(text, size, "(unknown address)");
    else
        snprintf(text, size, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
