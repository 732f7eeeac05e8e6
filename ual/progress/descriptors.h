/* SPDX-License-Identifier: BSD-3-Clause
 * The descriptors that a forked child has to close: those that lanes, their watches and the
 * descriptors of consumers hold. */
#ifndef ITAL_UAL_DESCRIPTORS_H
#define ITAL_UAL_DESCRIPTORS_H

/* Any thread. A descriptor beyond the kernel's default ceiling is not tracked. */
void ual_fd_track(int fd);
void ual_fd_forget(int fd);
/* In the child of a fork: closes all of them. Async-signal-safe. */
void ual_fd_close_tracked(void);

#endif
