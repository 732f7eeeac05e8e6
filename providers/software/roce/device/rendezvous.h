/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous of two QPs of this host (option local): states and rules are in rendezvous.c, what
 * comes of it in local_wire.c.
 */
#ifndef ITAL_SOFTROCE_RENDEZVOUS_H
#define ITAL_SOFTROCE_RENDEZVOUS_H

#include "device.h"

/* --- local_wire.c: the wire local of this device --- */

/* The RNIC has it. False: the kernel gives no random numbers. */
bool roce_local_open(struct roce_rnic *device);
/* The QP goes on by it, or ends. Takes both. */
void roce_go_local(struct roce_qp *qp, struct ri_local *memory, int bell);
/* It goes on by UDP; or ends, if option local is only, for this reason, a constant. */
void roce_go_udp(struct roce_qp *qp, const char *why);

#endif
