/* SPDX-License-Identifier: BSD-3-Clause */
/* The Unix socket between kald(8) and its clients: SOCK_SEQPACKET, one datagram one message. No
 * call waits. */
#ifndef ITAL_FORMATS_KALD_SOCKET_H
#define ITAL_FORMATS_KALD_SOCKET_H

#include "formats/kald_message.h"

#include <sys/types.h>

/*
 * A connected socket; *is_roots (NULL: not wanted): root's kald is there. Only that and the
 * process's own user's is believed: EPERM. -1, with errno; EAGAIN: its queue is full. ENOENT: no
 * kald has ever been there.
 */
int kald_connect(const char *path, bool *is_roots);

/* fd -1: none. False, with errno; EAGAIN: the other end does not read. */
bool kald_send(int socket, const struct kald_message *message, int fd);
/* The same of a message that kald_encode has written. */
bool kald_send_octets(int socket, const uint8_t *octets, size_t length, int fd);

enum kald_received {
    KALD_GOT,
    KALD_NOTHING, /* there is none now */
    KALD_ENDED,   /* the other end has closed */
    KALD_WRONG    /* it was truncated, or no message: the other end is not to be believed */
};
/*
 * *fd: the descriptor that came with it, which the caller closes; -1: none. If fd is NULL no
 * descriptor is taken, and those that come are closed.
 */
enum kald_received kald_receive(int socket, bool from_kald, struct kald_message *message, int *fd);

#endif
