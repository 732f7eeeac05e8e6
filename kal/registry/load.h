/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads a provider file into this process. */
#ifndef ITAL_KAL_LOAD_H
#define ITAL_KAL_LOAD_H

#include "answer.h"

/*
 * Loads the file and checks its descriptor. NULL: answer is not usable and has the reason.
 * *shortage: memory or descriptors ran out, so the file may be good. The file stays in the process.
 * One thread at a time.
 */
const struct ri_provider *kal_load(const char *path, struct kal_answer *answer, bool *shortage);
/* The check without the loading. */
bool kal_load_check(const struct ri_provider *descriptor, struct kal_answer *answer);

/*
 * Modules that are linked into the program (-dlpreopen), found by libltdl: calls fn for each that
 * is a provider. RI_ERR_NO_RESOURCES: libltdl could not start; the next call tries again. One
 * thread at a time.
 */
enum ri_status kal_load_preopened(void (*fn)(void *arg, const struct ri_provider *descriptor),
                                  void *arg);

/* The folder of the library with this code, allocated. NULL: unknown, or not to be trusted. */
char *kal_library_folder(void);
/* The top of the build tree if the library is not an installed one, allocated; else NULL. */
char *kal_build_tree(const char *library_folder);

/* The path of the program that asks a provider, allocated. NULL: no memory. The file may not
 * exist. */
char *kal_asker(void);
/* For tests that link this code into their own program: that path. */
extern const char *kal_asker_is;

#endif
