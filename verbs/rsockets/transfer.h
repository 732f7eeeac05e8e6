/* SPDX-License-Identifier: BSD-3-Clause
 * A place in a program's list of buffers. */
#ifndef ITAL_VERBS_RSOCKETS_TRANSFER_H
#define ITAL_VERBS_RSOCKETS_TRANSFER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

struct rs_cursor {
    const struct iovec *iov;
    size_t count, at; /* at: octets of the first one that are done */
    size_t left;
};

/* False: the lengths exceed SSIZE_MAX. */
static inline bool rs_cursor_init(struct rs_cursor *cursor, const struct iovec *iov, size_t count)
{
    *cursor = (struct rs_cursor){ .iov = iov, .count = count };
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(cursor->left, iov[i].iov_len, &cursor->left) ||
            cursor->left > SSIZE_MAX)
            return false;
    return true;
}

/* Copies between the program's buffers and `octets`; length at most cursor->left. */
static inline void rs_cursor_copy(struct rs_cursor *cursor, uint8_t *octets, size_t length,
                                  bool to_program)
{
    cursor->left -= length;
    while (length) {
        uint8_t *place = (uint8_t *)cursor->iov->iov_base + cursor->at;
        size_t part = cursor->iov->iov_len - cursor->at;

        if (part > length)
            part = length;
        if (part && to_program)
            memcpy(place, octets, part);
        else if (part)
            memcpy(octets, place, part);
        octets += part;
        length -= part;
        cursor->at += part;
        if (cursor->at == cursor->iov->iov_len) {
            cursor->iov++;
            cursor->at = 0;
        }
    }
}

#endif
