/* SPDX-License-Identifier: BSD-3-Clause */
/* A capture file and the thread that writes it; whose packets they are is capture.c's. */
#ifndef ITAL_KAL_CAPTURE_FILE_H
#define ITAL_KAL_CAPTURE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture_file;
struct capture_buffer;

/* A new file with its writer; takes the path (malloc'd), also when it fails. 0 or errno. */
int capture_file_new(char *path, const char *interface, struct capture_file **file);
const char *capture_file_path(const struct capture_file *file);
/* No thread records any more. True: all is on the disk when it returns. False: never blocks, the
 * writer ends by itself. */
void capture_file_end(struct capture_file *file, bool may_wait);
/* In the child: the writer is not there, the file is the parent's. Async-signal-safe. */
void capture_file_fork_child(const struct capture_file *file);

/* Any thread: room for one block, to be filled without a lock and then committed; NULL: there is
 * none, and it is counted as missing. */
uint8_t *capture_file_reserve(struct capture_file *file, size_t size,
                              struct capture_buffer **buffer);
void capture_file_filled(struct capture_file *file, struct capture_buffer *buffer);

#endif
