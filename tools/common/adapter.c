/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Interfaces and addresses.
 */
#include "tools/common/adapter.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

const char *adapter_transport(it_transport_type_t type)
{
    switch (type) {
    case IT_IB_TRANSPORT: return "InfiniBand";
    case IT_VIA_IP_TRANSPORT: return "VIA/IP";
    case IT_VIA_FC_TRANSPORT: return "VIA/FC";
    case IT_IWARP_TCP_TRANSPORT: return "iWARP/TCP";
    case IT_VENDOR_TRANSPORT: return "vendor";
    default: return "unknown";
    }
}

const char *adapter_wire(it_ia_handle_t ia)
{
    const char *name;

    return itx_wire_name(ia, &name) == IT_SUCCESS ? name : "unknown";
}

#define COUNTERS 128

const char *adapter_wire_of(it_ia_handle_t ia, it_ep_handle_t ep)
{
    static const char *const of_local[] = { "requests executed by the peer",
                                            "requests executed for the peer",
                                            "requests executed directly" };
    struct itx_counter counters[COUNTERS];
    size_t count = COUNTERS;

    if (itx_counters((it_handle_t)ep, counters, &count) != IT_SUCCESS)
        return adapter_wire(ia);
    for (size_t i = 0; i < count && i < COUNTERS; i++)
        for (size_t j = 0; j < sizeof(of_local) / sizeof(*of_local); j++)
            if (counters[i].value && !strcmp(counters[i].name, of_local[j]))
                return "wire local";
    return adapter_wire(ia);
}

int adapter_error(it_status_t status, const char *format, ...)
{
    char what[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    tool_error("%s: %s (%s)", what, itx_status_text(status), itx_status_name(status));
    return TOOL_FAILED;
}

it_interface_t *adapter_list(size_t *count)
{
    it_interface_t *list;
    size_t room = 0, total = 0;

    *count = 0;
    it_interface_list(NULL, &room, &total);
    list = total ? calloc(total, sizeof(*list)) : NULL;
    if (!list)
        return NULL;
    room = total;
    it_interface_list(list, &room, &total);
    *count = room;
    return list;
}

static it_status_t open_one(const char *name, struct adapter *adapter)
{
    it_status_t status = it_ia_create(name, 2, 1, &adapter->ia);

    if (status != IT_SUCCESS)
        return status;
    status = it_ia_query(adapter->ia, &adapter->info);
    if (status != IT_SUCCESS) {
        it_ia_free(adapter->ia);
        return status;
    }
    snprintf(adapter->name, sizeof(adapter->name), "%s", name);
    return IT_SUCCESS;
}

static bool is_listed(const char *name)
{
    size_t count;
    it_interface_t *list = adapter_list(&count);
    bool found = false;

    for (size_t i = 0; i < count; i++)
        found |= !strcmp(list[i].name, name);
    free(list);
    return found;
}

/* IT-API has one status for a name that is not there and for a configuration that is refused. */
static void explain(const char *name, it_status_t status)
{
    if (status == IT_ERR_INVALID_NAME && is_listed(name)) {
        tool_error("cannot open interface '%s': " ADAPTER_REFUSED, name);
        return;
    }
    adapter_error(status, "cannot open interface '%s'", name);
    if (status == IT_ERR_INVALID_NAME)
        tool_error("'itinfo' lists the interfaces there are, 'itinfo --why' says what keeps others "
                   "out");
}

bool adapter_open(const char *name, struct adapter *adapter)
{
    it_status_t status = IT_ERR_INVALID_NAME;
    it_interface_t *list;
    size_t count;

    memset(adapter, 0, sizeof(*adapter));
    if (name) {
        status = open_one(name, adapter);
        if (status != IT_SUCCESS)
            explain(name, status);
        return status == IT_SUCCESS;
    }
    list = adapter_list(&count);
    for (size_t i = 0; i < count; i++) {
        status = open_one(list[i].name, adapter);
        if (status == IT_SUCCESS)
            break;
        explain(list[i].name, status);
    }
    free(list);
    if (status != IT_SUCCESS)
        tool_error("no usable interface; 'itinfo --why' says what was tried and what to do");
    return status == IT_SUCCESS;
}

void adapter_close(struct adapter *adapter)
{
    if (adapter->info)
        it_ia_info_free(adapter->info);
    if (adapter->ia)
        it_ia_free(adapter->ia);
    memset(adapter, 0, sizeof(*adapter));
}

bool address_parse(const char *text, char host[ADDRESS_HOST], uint16_t *port)
{
    const char *colon = strrchr(text, ':'), *end = text + strlen(text), *start = text;
    uint64_t number;

    if (*text == '[') {
        const char *bracket = strchr(text, ']');

        if (!bracket || (bracket[1] && bracket[1] != ':'))
            return false;
        start = text + 1;
        end = bracket;
        colon = bracket[1] ? bracket + 1 : NULL;
    } else if (colon && strchr(text, ':') == colon) {
        end = colon;
    } else {
        colon = NULL; /* none, or an IPv6 address without brackets */
    }
    if (end == start || end - start >= ADDRESS_HOST)
        return false;
    if (colon) {
        if (!tool_parse_number(colon + 1, 1, 65535, &number))
            return false;
        *port = (uint16_t)number;
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    return true;
}

struct addrinfo *address_resolve(const char *host, uint16_t port)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *list = NULL;
    char service[8];
    int error;

    snprintf(service, sizeof(service), "%u", port);
    error = getaddrinfo(host, service, &hints, &list);
    if (error) {
        tool_error("cannot find host '%s': %s; check the name, or give its address", host,
                   gai_strerror(error));
        return NULL;
    }
    return list;
}

const char *address_text(const struct sockaddr *address, char *buffer)
{
    char host[NI_MAXHOST], service[NI_MAXSERV];
    socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                      : sizeof(struct sockaddr_in);

    if (getnameinfo(address, length, host, sizeof(host), service, sizeof(service),
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(buffer, ADDRESS_TEXT, "?");
    else
        snprintf(buffer, ADDRESS_TEXT, strchr(host, ':') ? "[%.90s]:%.8s" : "%.90s:%.8s", host,
                 service);
    return buffer;
}

const char *address_net_text(const it_net_addr_t *address, char *buffer)
{
    int family = address->addr_type == IT_IPV4 ? AF_INET : AF_INET6;

    if (address->addr_type == IT_VIA_HOSTADDR ||
        !inet_ntop(family, &address->addr, buffer, ADDRESS_TEXT))
        snprintf(buffer, ADDRESS_TEXT, "?");
    return buffer;
}

bool address_parse_number(const char *text, it_net_addr_t *address)
{
    memset(address, 0, sizeof(*address));
    address->addr_type = IT_IPV4;
    if (inet_pton(AF_INET, text, &address->addr.ipv4) == 1)
        return true;
    address->addr_type = IT_IPV6;
    return inet_pton(AF_INET6, text, &address->addr.ipv6) == 1 &&
           !IN6_IS_ADDR_LINKLOCAL(&address->addr.ipv6) &&
           !IN6_IS_ADDR_V4MAPPED(&address->addr.ipv6);
}

bool address_of_spigot(const it_spigot_info_t *spigot, const it_net_addr_t *address)
{
    size_t length = address->addr_type == IT_IPV4 ? sizeof(address->addr.ipv4)
                                                  : sizeof(address->addr.ipv6);

    for (size_t i = 0; i < spigot->num_net_addr; i++)
        if (spigot->net_addr[i].addr_type == address->addr_type &&
            !memcmp(&spigot->net_addr[i].addr, &address->addr, length))
            return true;
    return false;
}

/* A link-local peer is reached through the interface with the scope; the Path has it in laddr. */
static void path_set_scope(it_path_t *path, uint32_t scope)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list))
        return;
    for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        const struct sockaddr_in6 *own = (const struct sockaddr_in6 *)entry->ifa_addr;

        if (own && own->sin6_family == AF_INET6 && own->sin6_scope_id == scope &&
            IN6_IS_ADDR_LINKLOCAL(&own->sin6_addr)) {
            path->remote.iwarp.laddr.ipv6 = own->sin6_addr;
            break;
        }
    }
    freeifaddrs(list);
}

it_status_t address_path(const struct adapter *adapter, const struct sockaddr *address,
                         it_path_t *path)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    it_status_t status = IT_ERR_INVALID_NETADDR;
    it_net_addr_t target;

    memset(&target, 0, sizeof(target));
    if (address->sa_family == AF_INET) {
        target.addr_type = IT_IPV4;
        target.addr.ipv4 = ((const struct sockaddr_in *)address)->sin_addr;
    } else {
        target.addr_type = IT_IPV6;
        target.addr.ipv6 = v6->sin6_addr;
    }
    for (size_t i = 0; i < adapter->info->num_spigots; i++) {
        size_t room = 1, total = 0;

        status = it_get_pathinfo(adapter->ia, adapter->info->spigot_info[i].spigot_id, &target,
                                 &room, &total, path);
        if (status == IT_SUCCESS && room == 0)
            status = IT_ERR_INVALID_NETADDR;
        if (status == IT_SUCCESS)
            break;
    }
    if (status == IT_SUCCESS && address->sa_family == AF_INET6 && v6->sin6_scope_id &&
        IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) &&
        adapter->info->transport_type == IT_IWARP_TCP_TRANSPORT)
        path_set_scope(path, v6->sin6_scope_id);
    return status;
}
