/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Unix datagram socket of a net, at which other processes of the user pass MADs on.
 *
 * Its name is abstract, of 128 random bits, and stands in the shared table: nobody can have bound
 * it before. The sender looks that the owner lives (slots_life) before it sends. The receiver takes
 * what the kernel says is of its own user (SCM_CREDENTIALS), and no descriptor.
 */
#ifndef ITAL_SOFTROCE_MAILBOX_H
#define ITAL_SOFTROCE_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Draws a name, not of zeros, and binds it. -1: errno. */
int mailbox_open(uint64_t name[static 2]);
bool mailbox_is_bound(const uint64_t name[static 2]);
/* False: nobody is there, or the queue is full; does not block. The sender has a socket for each
 * call: a receiver that does not read keeps others from nothing. */
bool mailbox_send(const uint64_t name[static 2], const void *octets, size_t len);

enum mailbox_result {
    MAILBOX_TAKEN,
    MAILBOX_EMPTY,
    MAILBOX_FORGED, /* dropped: of another user, or longer than the room */
};
/* *len is set on MAILBOX_TAKEN. */
enum mailbox_result mailbox_receive(int fd, void *octets, size_t room, size_t *len);
/* The same of one end of a pair, whose other end only kald has. */
enum mailbox_result mailbox_take(int fd, void *octets, size_t room, size_t *len);

#endif
