/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening an Interface by name, and the address of a server: the part of IT-API with which every
 * tool begins.
 */
#ifndef ITAL_TOOLS_ADAPTER_H
#define ITAL_TOOLS_ADAPTER_H

#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>
#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

struct adapter {
    it_ia_handle_t ia;
    it_ia_info_t *info;
    char name[IT_INTERFACE_NAME_SIZE];
};

/* For an Interface that is listed, and whose opening answers IT_ERR_INVALID_NAME. */
#define ADAPTER_REFUSED                                                              \
    "it is there, and cannot be used as it is configured; the log names the option " \
    "and what to write (by default in lines 'ital: error' on standard error)"

/*
 * name NULL: the first Interface of the configuration that can be opened. false: the reason is
 * printed. adapter_close may block while connections end in order.
 */
bool adapter_open(const char *name, struct adapter *adapter);
void adapter_close(struct adapter *adapter);

/* All Interfaces, allocated; NULL with *count 0 when there is none or no memory. */
it_interface_t *adapter_list(size_t *count);

/* The type by whose rules an Interface works, as "iWARP/TCP"; static. */
const char *adapter_transport(it_transport_type_t type);
/* What an open Interface carries; valid until it is freed. */
const char *adapter_wire(it_ia_handle_t ia);
/* What has carried the requests of an Endpoint so far: "wire local" where at least one was executed
 * in memory that two processes of this host share. Else as adapter_wire(). */
const char *adapter_wire_of(it_ia_handle_t ia, it_ep_handle_t ep);

/* "tool: cannot WHAT: text of status (NAME)"; returns TOOL_FAILED. */
int adapter_error(it_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Parses HOST, HOST:PORT, [V6]:PORT, V6, V6%scope. false: malformed; nothing printed. */
#define ADDRESS_HOST 256
bool address_parse(const char *text, char host[ADDRESS_HOST], uint16_t *port);
/* Resolves the name. NULL: the reason is printed. Free with freeaddrinfo. */
struct addrinfo *address_resolve(const char *host, uint16_t port);
/* "192.0.2.1:7471", "[fe80::1%eth0]:7471"; buffer of at least ADDRESS_TEXT bytes. */
#define ADDRESS_TEXT 128
const char *address_text(const struct sockaddr *address, char *buffer);
const char *address_net_text(const it_net_addr_t *address, char *buffer);
/* A numeric address. false: not numeric, or link-local; nothing printed. */
bool address_parse_number(const char *text, it_net_addr_t *address);
bool address_of_spigot(const it_spigot_info_t *spigot, const it_net_addr_t *address);
/* The adapter's Path to an address. IT_ERR_INVALID_NETADDR: none of its Spigots reaches it. */
it_status_t address_path(const struct adapter *adapter, const struct sockaddr *address,
                         it_path_t *path);

#endif /* ITAL_TOOLS_ADAPTER_H */
