/* SPDX-License-Identifier: BSD-3-Clause */
/* Network interfaces and routes, as the kernel reports them. No other file of kal asks the
 * kernel. */
#ifndef ITAL_KAL_NETLINK_H
#define ITAL_KAL_NETLINK_H

#include "kal.h"

struct kal_links;

/* As the operations of struct kal_host_ops, by rtnetlink. RI_ERR_NOT_SUPPORTED without libmnl. */
enum ri_status kal_links_open(struct kal_links **links, int *fd);
bool kal_links_changed(struct kal_links *links);
bool kal_link_running(struct kal_links *links, const char *netdev);
bool kal_links_addresses(struct kal_links *links, const char *netdevs, uint64_t *sum);
void kal_links_close(struct kal_links *links);

/* True: a network interface has that name. */
bool kal_netdev_exists(const char *name);
/* True: one of them has the address. netdevs: a list of names (base/names.h). */
bool kal_netdevs_have(const char *netdevs, const struct sockaddr *address);
/* The source address of a TCP connection to destination (AF_INET or AF_INET6); its port is 0.
 * RI_ERR_UNREACHABLE, RI_ERR_NO_RESOURCES. */
enum ri_status kal_source_address(const struct sockaddr *destination,
                                  struct sockaddr_storage *source);
/* True: the same host address; ports are not compared. */
bool kal_same_address(const struct sockaddr *a, const struct sockaddr *b);

#endif
