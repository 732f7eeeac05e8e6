/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace.h - where the threads of a check's process are, if it hangs or crashes: the call of the
 * provider's, and the return addresses, as MODULE(+OFFSET) for addr2line(1).
 */
#ifndef ITAL_TOOLS_RICHECK_TRACE_H
#define ITAL_TOOLS_RICHECK_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In the check's process, before its check runs: traces go to that descriptor. Signals that
 * somebody else handles already (a sanitizer) stay its. */
void trace_open(int fd);

/* In the parent: asks one thread after the other of a process that hangs. `text` gets a line "in
 * CALL" for each thread and below it a line for each address; what does not fit is left out. */
void trace_ask(pid_t process, int fd, char *text, size_t room);
/* What a process that has crashed left in the pipe. */
void trace_take(int fd, char *text, size_t room);
/* The first call that a trace names; NULL: no thread is in one. `room` octets at `name`. */
const char *trace_call(const char *text, char *name, size_t room);

#endif
