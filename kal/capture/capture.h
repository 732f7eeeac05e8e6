/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture (option pcap): the octets of connections, as they enter and leave the socket, into a
 * pcapng file. All calls but open and close are for any thread, never block on the disk, and take
 * NULL for a connection that is not captured.
 */
#ifndef ITAL_KAL_CAPTURE_H
#define ITAL_KAL_CAPTURE_H

#include "kal.h"
#include "rnicpi.h"

struct kal_rnic;
struct kal_capture;     /* one file */
struct kal_capture_end; /* one end of a connection; its address is the token of ri_host.capture */

/* Reads option pcap and sets rnic->capture and rnic->host.capture; an empty option leaves both
 * NULL. Logs errors. */
enum ri_status kal_capture_open(struct kal_rnic *rnic);
/* On return all records are in the file, except those of connections that moved to another
 * interface and continue. */
void kal_capture_close(struct kal_rnic *rnic);
/* In a forked child: forgets the files, which are the parent's. Async-signal-safe. */
void kal_capture_fork_child(void);
void kal_capture_fork_prepare(void);
void kal_capture_fork_parent(void);

/* Begins the record of a TCP connection. NULL: capture is off, or no memory (logged). */
struct kal_capture_end *kal_capture_begin(struct kal_rnic *rnic,
                                          const struct sockaddr_storage *local,
                                          const struct sockaddr_storage *peer, bool initiator);
/* As ri_host.capture; `count` may be a mark of enum ri_capture_mark. */
void kal_capture(struct kal_capture_end *end, enum ri_direction direction, const struct iovec *iov,
                 int count);
static inline void kal_capture_octets(struct kal_capture_end *end, enum ri_direction direction,
                                      const void *octets, size_t length)
{
    const struct iovec iov = { (void *)(uintptr_t)octets, length };

    if (end)
        kal_capture(end, direction, &iov, 1);
}
static inline void kal_capture_mark(struct kal_capture_end *end, enum ri_direction direction,
                                    enum ri_capture_mark mark)
{
    if (end)
        kal_capture(end, direction, NULL, mark);
}

#endif
