/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs for datagrams share; see ud.h. */
#include "ud.h"

#define RECV IT_DTO_UD_RECV_CMPL_EVENT

struct node a, b;
struct buffer here, there;

bool has_datagrams(const struct node *node)
{
    return node->info->supported_service_types & IT_UD_SERVICE;
}

size_t longest(const struct node *node)
{
    return node->info->spigot_info[0].max_ud_send_len;
}

it_ep_attributes_t ud_attributes(const struct node *node)
{
    it_ep_attributes_t attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.max_dto_payload_size = longest(node);
    attributes.max_request_dtos = 16;
    attributes.max_recv_dtos = 16;
    attributes.max_send_segments = 3;
    attributes.max_recv_segments = 3;
    return attributes; /* key 0: the adapter's choice */
}

it_status_t create_ep(const struct node *node, const it_ep_attributes_t *attributes,
                      it_ep_handle_t *ep)
{
    return it_ep_ud_create(node->pz, node->requests, node->receives, attributes,
                           node->info->spigot_info[0].spigot_id, ep);
}

static void open_node(struct node *node, const char *name)
{
    it_ep_attributes_t attributes;

    node_open(node, name);
    ck_assert(has_datagrams(node));
    attributes = ud_attributes(node);
    ok(create_ep(node, &attributes, &node->ep));
}

void open_both(const char *name)
{
    open_node(&a, name);
    open_node(&b, name);
    here = buffer_make(&a, 8192, IT_PRIV_LOCAL);
    there = buffer_make(&b, 16384, IT_PRIV_LOCAL);
}

void close_both(void)
{
    node_close(&a);
    node_close(&b);
}

it_remote_ep_info_t own_info(it_ep_handle_t ep)
{
    it_ep_param_t params;

    ok(it_ep_query(ep, (it_ep_param_mask_t)(IT_EP_PARAM_EP_ID | IT_EP_PARAM_EP_KEY), &params));
    return params.attr.srv.ud.ep_info;
}

it_ep_state_ud_t state_of(it_ep_handle_t ep)
{
    it_ep_param_t params;

    ok(it_ep_query(ep, IT_EP_PARAM_STATE, &params));
    return params.ep_state.ud;
}

it_path_t way(const struct node *from, const struct node *to)
{
    it_net_addr_t address = node_address(to, IT_IPV4);

    return path_to(from, &address);
}

it_addr_handle_t handle_for(const struct node *node, const it_path_t *path)
{
    it_addr_handle_t ah;

    ok(it_address_handle_create(node->pz, path, (it_ah_flags_t)0, &ah));
    return ah;
}

it_dg_remote_ep_addr_t destination(it_addr_handle_t ah, it_remote_ep_info_t info)
{
    it_dg_remote_ep_addr_t to = { .type = IT_DG_TYPE_IB_UD };

    to.addr.ud.addr = ah;
    to.addr.ud.ep_info = info;
    return to;
}

it_dg_remote_ep_addr_t towards_b(void)
{
    it_path_t path = way(&a, &b);

    return destination(handle_for(&a, &path), own_info(b.ep));
}

it_status_t send_part(const it_dg_remote_ep_addr_t *to, size_t offset, size_t length,
                      it_dto_cookie_t cookie)
{
    it_lmr_triplet_t from = segment(&here, offset, length);

    return it_post_sendto(a.ep, &from, 1, cookie, BOTH, to);
}

it_status_t receive_at(it_ep_handle_t ep, size_t offset, size_t length, it_dto_cookie_t cookie)
{
    it_lmr_triplet_t to = segment(&there, offset, length);

    return it_post_recvfrom(ep, &to, 1, cookie, BOTH);
}

it_all_dto_cmpl_event_t expect_datagram(const struct node *node, it_dto_cookie_t cookie,
                                        size_t octets)
{
    it_all_dto_cmpl_event_t done = expect(node->receives, RECV).all_dto_cmpl;

    ck_assert_str_eq(itx_dto_status_name(done.dto_status), "IT_DTO_SUCCESS");
    ck_assert_uint_eq(done.cookie, cookie);
    ck_assert_ptr_eq(done.ep, node->ep);
    ck_assert_uint_eq(done.transferred_length, GRH + octets);
    return done;
}
