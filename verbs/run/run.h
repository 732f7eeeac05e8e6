/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run.h - the parts of ital-run: it puts ital's libibverbs and librdmacm in front of a program.
 */
#ifndef ITAL_VERBS_RUN_H
#define ITAL_VERBS_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Prints "ital-run: ...". */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* folder.c: the folder of the private libraries, from the place of this program's own file, so that
 * a tree may be anywhere. False: there is none; tried is where it should be. Both have PATH_MAX
 * octets. */
bool run_folder(char *folder, char *tried);
/* The file that the name stands for, as execvp(3) looks for it. 0, or an error number. */
int run_find(const char *name, char *path);

/* warn.c: says why the libraries will not come in front in that program. Returns how many reasons
 * there were. */
unsigned run_warn(const char *path);

/* check.c: prints what the program and the libraries that it loads import of verbs, and which of it
 * is refused. An exit status: 0 nothing, 1 something is refused or missing, 125 it cannot be
 * told. */
int run_check(const char *path, const char *folder);

#endif
