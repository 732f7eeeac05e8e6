/* SPDX-License-Identifier: BSD-3-Clause
 * Where processes serve their state, and whose it is: a folder of the user's own with a Unix socket
 * PID.sock of each process. A client sends one line of JSON, {"version":1,"get":"process"}, gets
 * one line of JSON, and the connection ends. */
#ifndef ITAL_FORMATS_MONITOR_H
#define ITAL_FORMATS_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MONITOR_VERSION 1
/* Octets of a request and of an answer, each with its newline */
#define MONITOR_REQUEST_MAX 512u
#define MONITOR_ANSWER_MAX  (64u << 20)
#define MONITOR_NAME_MAX    32u /* octets of a name in the folder, with its NUL */

/*
 * Folder `index` of the effective user: root has /run/ital/monitor; others have ital in
 * XDG_RUNTIME_DIR, then ital-UID in the temporary folder. A process serves in the first that can
 * be used, a reader looks into all. With `make` it is made if it is missing. Returns its
 * descriptor, and its path; -1, with errno: it is not there, or it is not the user's alone
 * (EPERM), or a symbolic link; ENOTSUP: the user has no such folder.
 */
#define MONITOR_FOLDERS   2u
#define MONITOR_PATH_ROOM 512u
int monitor_folder(unsigned index, bool make, char path[MONITOR_PATH_ROOM]);
/* The same below `base`, which exists. */
int monitor_folder_in(const char *base, const char *name, bool make);

/* The folder at that path, of any user, whom *owner names: for root, who sees all. */
int monitor_folder_of(const char *path, uid_t *owner);

void monitor_name(pid_t process, char name[MONITOR_NAME_MAX]);
/* 0: it is no such name. */
pid_t monitor_process(const char *name);

/* A listening, non-blocking socket under that name. A stale one of the name is replaced. -1, with
 * errno; EADDRINUSE: another process serves there. */
int monitor_listen(int folder, const char *name);
/* A connected, non-blocking socket. -1, with errno; ECONNREFUSED: the process is gone. */
int monitor_connect(int folder, const char *name);
/* Removes the socket if no process serves there. */
void monitor_remove_stale(int folder, const char *name);
/* Does so for every name whose process is not there, but for one name (NULL: no exception). */
void monitor_sweep(int folder, const char *except);

#endif
