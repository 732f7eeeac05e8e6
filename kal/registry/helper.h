/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a program as a process that the consumer does not notice, and reads its output. */
#ifndef ITAL_KAL_HELPER_H
#define ITAL_KAL_HELPER_H

#include <stddef.h>

#include "kal.h"

#define KAL_HELPER_ROOM (256u << 10) /* octets of one output */

enum kal_helper_end {
    KAL_HELPER_ENDED,      /* it exited; status: its exit status */
    KAL_HELPER_KILLED,     /* by a signal that this library did not send; status: the signal */
    KAL_HELPER_LATE,       /* killed at the time-out */
    KAL_HELPER_LONG,       /* killed because its output was too long */
    KAL_HELPER_NOT_RUN,    /* a process could not execute the program; status: the errno */
    KAL_HELPER_NO_PROCESS, /* no process could be created; status: the errno */
};

/* One run of PROGRAM FD ARGUMENT, which writes to the descriptor FD. */
struct kal_helper_run {
    const char *argument; /* the caller's */
    enum kal_helper_end end;
    int status;
    const char *output; /* lives until kal_helper_forget */
    size_t length;
};

/*
 * Runs all at once and waits for all, at most timeout_ms. The consumer's wait(-1) and SIGCHLD see
 * none of them, except under QEMU's user emulation. The calling thread is stopped meanwhile, other
 * threads are not. No lock may be held. If no process can be created, each has
 * KAL_HELPER_NO_PROCESS. RI_ERR_NO_RESOURCES: out of memory.
 */
struct kal_helper;
enum ri_status kal_helper_run(const char *program, struct kal_helper_run *runs, size_t count,
                              unsigned timeout_ms, struct kal_helper **memory);
void kal_helper_forget(struct kal_helper *memory);

#endif
