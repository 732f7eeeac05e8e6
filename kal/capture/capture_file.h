/* SPDX-License-Identifier: BSD-3-Clause */
/* A capture file and its writer thread. capture.c makes the packets. */
#ifndef ITAL_KAL_CAPTURE_FILE_H
#define ITAL_KAL_CAPTURE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture_file;
struct capture_buffer;

/* Creates a file with its writer. Takes ownership of the path (malloc'd), even on failure. Returns
 * 0 or errno. */
int capture_file_new(char *path, const char *interface, struct capture_file **file);
const char *capture_file_path(const struct capture_file *file);
/* Ends the file; no thread may record any more. True: on return everything is on the disk. False:
 * does not block, and the writer ends by itself. */
void capture_file_end(struct capture_file *file, bool may_wait);
/* In a forked child: the writer does not exist there, and the file is the parent's.
 * Async-signal-safe. */
void capture_file_fork_child(const struct capture_file *file);

/* Reserves room for one block, which the caller fills without a lock and then commits. NULL: no
 * room; the block is counted as missing. Any thread. */
uint8_t *capture_file_reserve(struct capture_file *file, size_t size,
                              struct capture_buffer **buffer);
void capture_file_filled(struct capture_file *file, struct capture_buffer *buffer);

#endif
