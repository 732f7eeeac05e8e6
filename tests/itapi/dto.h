/* SPDX-License-Identifier: BSD-3-Clause */
/* Data transfer operations of one segment, for the tests whose subject they are. */
#ifndef ITAL_TESTS_ITAPI_DTO_H
#define ITAL_TESTS_ITAPI_DTO_H

#include "fixture.h"

#define SEND    IT_DTO_SEND_CMPL_EVENT
#define RECV    IT_DTO_RC_RECV_CMPL_EVENT
#define WRITE   IT_DTO_RDMA_WRITE_CMPL_EVENT
#define READ    IT_DTO_RDMA_READ_CMPL_EVENT
#define QUIETLY ((it_dto_flags_t)0)

/* From the buffer's beginning. */
void receive(struct node *node, const struct buffer *buffer, size_t length, it_dto_cookie_t cookie);
void send_octets(struct node *node, const struct buffer *buffer, size_t length,
                 it_dto_cookie_t cookie, it_dto_flags_t flags);
/* A random pattern that differs from call to call. */
void scramble(struct buffer *buffer);

#endif
