/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads a provider file into this process. */
#ifndef ITAL_KAL_LOAD_H
#define ITAL_KAL_LOAD_H

#include "answer.h"

/*
 * Load the file and check its descriptor. NULL: answer is not usable and has the reason; *shortage
 * says that memory or descriptors ran out, which is no verdict about the file. The file stays in
 * the process. One thread at a time.
 */
const struct ri_provider *kal_load(const char *path, struct kal_answer *answer, bool *shortage);
/* The check alone. */
bool kal_load_check(const struct ri_provider *descriptor, struct kal_answer *answer);

/*
 * Modules that are linked into the program (-dlpreopen), through libltdl: fn for each that is a
 * provider. KAL_ERR_NO_RESOURCES: libltdl could not start; the next call tries again. One thread at
 * a time.
 */
enum kal_status kal_load_preopened(void (*fn)(void *arg, const struct ri_provider *descriptor),
                                   void *arg);

/* Where this code lies: the folder of the library, allocated; NULL: not known, or not to be
 * trusted. */
char *kal_library_folder(void);
/* The top of the build tree, where the library is one that is not installed; else NULL.
 * Allocated. */
char *kal_build_tree(const char *library_folder);

/* The program that asks a provider; allocated, NULL: no memory. It need not exist. */
char *kal_asker(void);
/* Tests that link this code into their own program say where it is. */
extern const char *kal_asker_is;

#endif
