/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of packets for a capture file. Their IP and UDP headers are made again: what the kernel
 * puts is known but for a received identification of IPv4, which is found from the ICRC. Asked for
 * once in a system call where there is no capture.
 */
#ifndef ITAL_SOFTROCE_CAPTURE_H
#define ITAL_SOFTROCE_CAPTURE_H

#include "port.h"
#include "process.h"

static inline bool is_captured(const struct net_port *port)
{
    return port->net->options.captured;
}

/* Around a system call that sends and the calls of capture_sent(): what comes meanwhile is written
 * behind it. Also held over a fork. */
void capture_hold(void);
void capture_release(void);

/* One packet, within hold and release: `count` vectors from the BTH on; the k-th of a message of
 * segments has identification k. */
void capture_sent(const struct net_port *port, const struct net_path *path, uint32_t k,
                  const struct iovec *iov, size_t count);
void capture_received(const struct net_port *port, const struct net_packet *packet);

#endif
