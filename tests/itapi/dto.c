/* SPDX-License-Identifier: BSD-3-Clause */
/* See dto.h. */
#include "dto.h"

void receive(struct node *node, const struct buffer *buffer, size_t length, it_dto_cookie_t cookie)
{
    it_lmr_triplet_t one = segment(buffer, 0, length);

    ok(it_post_recv(node->ep, &one, 1, cookie, BOTH));
}

void send_octets(struct node *node, const struct buffer *buffer, size_t length,
                 it_dto_cookie_t cookie, it_dto_flags_t flags)
{
    it_lmr_triplet_t one = segment(buffer, 0, length);

    ok(it_post_send(node->ep, &one, 1, cookie, flags));
}

void scramble(struct buffer *buffer)
{
    static struct tc_rng rng;

    if (!rng.state)
        rng = tc_rng(42);
    tc_fill(&rng, buffer->data, buffer->length);
}
