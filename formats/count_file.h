/* SPDX-License-Identifier: BSD-3-Clause
 * The file in which a process counts calls while others read: mapped, of fixed size, each number
 * written by atomic additions. The folder is the user's own; names in it are PROCESS.NUMBER. */
#ifndef ITAL_FORMATS_COUNT_FILE_H
#define ITAL_FORMATS_COUNT_FILE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define COUNT_FILE_MAGIC   UINT64_C(0x31544e554f435449) /* "ITCOUNT1" as octets */
#define COUNT_FILE_BUCKETS 64u
#define COUNT_FILE_ENTRIES 256u /* at most */

/* One kind of call. How many there were is the sum of its buckets. */
struct count_entry {
    char name[24];
    _Atomic uint64_t errors;
    _Atomic uint64_t ns; /* all calls together; 0: only their number is known */
    _Atomic uint64_t bucket[COUNT_FILE_BUCKETS];
};

/* Constant but for the entries. */
struct count_file {
    _Atomic uint64_t magic; /* last, with release; a reader that loads it with acquire sees all */
    uint32_t head_size, entry_size; /* octets */
    uint32_t entries, buckets;
    int64_t process;
    uint64_t process_start; /* count_process_start */
    uint64_t began;         /* clock_now(); the clock is the host's */
    char program[64], device[64];
    struct count_entry entry[];
};

/* Two buckets for each power of two, so a bound is off by half at most. */
static inline unsigned count_bucket(uint64_t ns)
{
    unsigned log;

    if (ns < 2)
        return (unsigned)ns;
    log = 63u - (unsigned)__builtin_clzll(ns);
    return log > 31 ? COUNT_FILE_BUCKETS - 1 : 2 * log + (unsigned)((ns >> (log - 1)) & 1);
}

/* The least number of ns that belongs to the bucket behind it. */
static inline uint64_t count_bucket_end(unsigned bucket)
{
    unsigned log = bucket / 2;

    return bucket < 2 ? bucket + 1 : (UINT64_C(3) + (bucket & 1)) << (log - 1);
}

/* The folder that is used where none is named, of this user; of another one. */
void count_folder(char *path, size_t room);
void count_folder_of(uint32_t user, char *path, size_t room);
/* When a process began, in the kernel's ticks; 0: there is none. With its number it tells processes
 * apart for ever. */
uint64_t count_process_start(pid_t process);

#endif
