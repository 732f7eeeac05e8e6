/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run.h - the parts of ital-run, which puts ital's libibverbs and librdmacm before the system's.
 */
#ifndef ITAL_VERBS_RUN_H
#define ITAL_VERBS_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* say.c: prints "ital-run: ...". */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* folder.c: finds the folder of the private libraries relative to this program's own file, so an
 * installation can be moved. False: there is none; tried is where it should be. Both buffers have
 * PATH_MAX octets. */
bool run_folder(char *folder, char *tried);
/* Finds the file of a name as execvp(3) does. Returns 0 or an error number. */
int run_find(const char *name, char *path);

/* preload.c: the libraries of rdma-core that ital's folder has. */
#define RUN_LIBRARIES 8
extern const char *const run_libraries[RUN_LIBRARIES];
/* Sets a variable that is a list of paths: the path comes before what is in it. False: errno says
 * why. */
bool run_put_in_front(const char *variable, const char *path);
/* Preloads a library of the folder. path (PATH_MAX octets): its own. False: it said why, which
 * begins with the reason that it is wanted for. */
bool run_preload(const char *folder, const char *library, const char *reason, char *path);
/* Preloads those libraries that the program, or the interpreter of a script, would find elsewhere
 * by its RPATH. LD_LIBRARY_PATH has the folder already. verbose: it says which. False: it said why
 * it could not. */
bool run_preload_before_rpath(const char *path, const char *folder, bool verbose);

/* warn.c: warns if the libraries cannot come first in that program. Returns the number of
 * reasons. */
unsigned run_warn(const char *path);
/* Is the file a script (#!)? interpreter (PATH_MAX octets): the program that runs it. */
bool run_interpreter(const char *path, char *interpreter);
/* The file (PATH_MAX octets) that the kernel runs: of a script its interpreter, which may be a
 * script, too. False: there is none. */
bool run_executed(const char *path, char *file);

/* filters.c: what --trace, --count and --faults ask for. */
struct run_filters {
    char trace[PATH_MAX]; /* a word of ITAL_FILTER; "": none */
    bool count;
    char faults[PATH_MAX]; /* the script's path; "": none */
};
/* argument: NULL, or [json:][sync:][max=SIZE:][FILE], as of the filter. False: it said why. */
bool run_take_trace(struct run_filters *filters, const char *argument);
bool run_take_faults(struct run_filters *filters, const char *file); /* the same */
/* Puts them in front of those that ITAL_FILTER names: trace, which sees what the program sees,
 * count, faults. False: errno says why. */
bool run_set_filters(const struct run_filters *filters);

/* check.c: prints the verbs symbols that the program and its libraries import and that are refused
 * or missing. Returns an exit status: 0 none, or only such as programs can do without; 1 some are
 * refused or missing; 125 unknown. */
int run_check(const char *path, const char *folder);

/* needs.c: do ital's libraries have each version of symbols that the program, or a library that it
 * loads at its start, needs of them? The environment is that of the program. False: it said what is
 * missing, in one line. True also where that cannot be told: the dynamic linker speaks then. */
bool run_has_versions(const char *path, const char *folder);

/* devices.c: is there a usable interface of that name? False: it said so, with a list. */
bool run_has_interface(const char *folder, const char *name);
/* Makes the folder with the files of devices that programs look at, or finds it; root (PATH_MAX
 * octets) is its path. The environment is that of the program. False: it said why. */
bool run_devices(const char *folder, char *root);

/* mount.c: puts these files at their places, in a mount namespace of this process's own. False: it
 * said why. */
bool run_mount(const char *root);

#endif
