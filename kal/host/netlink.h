/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel says of network interfaces and routes. No other file of kal asks it. */
#ifndef ITAL_KAL_NETLINK_H
#define ITAL_KAL_NETLINK_H

#include "kal.h"

struct kal_links;

/* As the operations of struct kal_host_ops, by rtnetlink. KAL_ERR_NOT_SUPPORTED without libmnl. */
enum kal_status kal_links_open(struct kal_links **links, int *fd);
bool kal_links_changed(struct kal_links *links);
bool kal_link_running(struct kal_links *links, const char *netdev);
void kal_links_close(struct kal_links *links);

/* Is there a network interface of that name? */
bool kal_netdev_exists(const char *name);
/* Does one of them have the address? A list of names (base/names.h). */
bool kal_netdevs_have(const char *netdevs, const struct sockaddr *address);
/* Source address of a TCP connection to destination, of family AF_INET or AF_INET6; port 0.
 * KAL_ERR_UNREACHABLE, KAL_ERR_NO_RESOURCES. */
enum kal_status kal_source_address(const struct sockaddr *destination,
                                   struct sockaddr_storage *source);
/* The same host address; ports are not compared. */
bool kal_same_address(const struct sockaddr *a, const struct sockaddr *b);

#endif
