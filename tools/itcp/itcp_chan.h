/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: shared by the two kinds of channel.
 */
#ifndef ITAL_TOOLS_ITCP_CHAN_H
#define ITAL_TOOLS_ITCP_CHAN_H

#include "itcp.h"

/*
 * Messages under way in one direction at once: a DATA or CREDIT for each slot, and one other with
 * its answer. Each side posts as many Receives and has as many places for Sends.
 */
#define CHAN_MESSAGES (COPY_SLOTS + 8u)

void chan_tcp_destroy(struct chan *chan);
/* The message, and behind it the payload of a DATA. */
enum conn_result chan_tcp_send(struct chan *chan, const struct copy_message *message,
                               const void *payload, size_t length);
enum conn_result chan_tcp_receive(struct chan *chan, struct copy_message *message,
                                  uint64_t timeout_us);

#endif /* ITAL_TOOLS_ITCP_CHAN_H */
