/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening sockets that the process was started with, as systemd passes them (sd_listen_fds(3)):
 * descriptors from 3 on, LISTEN_FDS of them, with the names LISTEN_FDNAMES. They stay the
 * program's: a listener uses a duplicate. So the socket, and the peers in its queue, outlive the
 * listener and the process. Any thread, no lock.
 */
#ifndef ITAL_KAL_CM_PASSED_H
#define ITAL_KAL_CM_PASSED_H

#include "stream.h"

struct cm_passed;

/*
 * The socket for a listener of the RNIC on that address; it is in use until cm_passed_release.
 * NULL: none. A socket named ital-INTERFACE is for listeners of that interface on its port. One of
 * another name is for listeners on exactly its address and port. If no socket named ital-INTERFACE
 * fits, each one that is not in use is logged, once, with the reason.
 */
struct cm_passed *cm_passed_take(const struct kal_rnic *rnic, const struct cm_stream_ops *ops,
                                 const struct sockaddr *address);
/* The port is in use: logs the sockets that have it and are for other interfaces. */
void cm_passed_report_to_others(const struct kal_rnic *rnic, const struct cm_stream_ops *ops,
                                const struct sockaddr *address);
void cm_passed_release(struct cm_passed *passed);
int cm_passed_fd(const struct cm_passed *passed);
const char *cm_passed_name(const struct cm_passed *passed);

#endif
