/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs for datagrams share: two nodes with a UD endpoint each, and the address handle
 * from a to b. */
#ifndef ITAL_TESTS_ITAPI_UD_H
#define ITAL_TESTS_ITAPI_UD_H

#include "fixture.h"

#define GRH  40u  /* octets in front of every datagram that is received */
#define SOME 100u /* octets of most messages */

extern struct node a, b;
extern struct buffer here, there; /* memory of a, of b */

bool has_datagrams(const struct node *node);
size_t longest(const struct node *node); /* octets of a datagram */
it_ep_attributes_t ud_attributes(const struct node *node);
it_status_t create_ep(const struct node *node, const it_ep_attributes_t *attributes,
                      it_ep_handle_t *ep);
void open_both(const char *name);
void close_both(void);
it_remote_ep_info_t own_info(it_ep_handle_t ep);
it_ep_state_ud_t state_of(it_ep_handle_t ep);
/* The Path from a node to the other one's address, and a handle for it. */
it_path_t way(const struct node *from, const struct node *to);
it_addr_handle_t handle_for(const struct node *node, const it_path_t *path);
it_dg_remote_ep_addr_t destination(it_addr_handle_t ah, it_remote_ep_info_t info);
it_dg_remote_ep_addr_t towards_b(void);
/* Sends from `here` at a; receives into `there` at an endpoint of b. */
it_status_t send_part(const it_dg_remote_ep_addr_t *to, size_t offset, size_t length,
                      it_dto_cookie_t cookie);
it_status_t receive_at(it_ep_handle_t ep, size_t offset, size_t length, it_dto_cookie_t cookie);
it_all_dto_cmpl_event_t expect_datagram(const struct node *node, it_dto_cookie_t cookie,
                                        size_t octets);

#endif
