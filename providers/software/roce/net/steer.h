/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of an address's sockets takes a datagram: a program of classic BPF for
 * SO_ATTACH_REUSEPORT_CBPF, and the same as a function.
 *
 *   destination QPN other than 1          the slot in its low bits
 *   QP 1: MRA REJ REP RTU DREP
 *         LAP APR, with a remote ID       the slot in the low bits of the remote communication ID
 *         SIDR_REP, with a request ID     the slot in the low bits of the request ID
 *         all else                        the GSI socket: index `slots`
 *
 * A DREQ comes to the GSI socket although it has a remote ID: the process of its slot may have
 * ended, and another one has to answer it (M-035).
 *
 * An octet that the datagram does not have makes the kernel take index 0.
 */
#ifndef ITAL_SOFTROCE_STEER_H
#define ITAL_SOFTROCE_STEER_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#define STEER_PROGRAM_MAX 24u

/* Writes the program for `slots`, a power of two of at most 128. Returns its instructions. */
uint32_t steer_program(struct sock_filter out[static STEER_PROGRAM_MAX], uint32_t slots);

/* The index that the program picks for a datagram of `len` octets, from the BTH on. */
uint32_t steer_pick(const void *datagram, size_t len, uint32_t slots);

/*
 * The program of SO_ATTACH_FILTER with which a socket takes the datagrams of its slot alone, in
 * whatever order the sockets of the address stand: those, no others, that steer_pick() gives the
 * slot, but for datagrams that lack an octet of the choice. With SO_LOCK_FILTER whoever gets the
 * socket cannot take it away. It sees the UDP header in front.
 */
uint32_t steer_filter(struct sock_filter out[static STEER_PROGRAM_MAX], uint32_t slots,
                      uint32_t slot);

#endif
