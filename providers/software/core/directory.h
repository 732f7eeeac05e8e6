/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The directory: the first chunks of the STag table, in a memfd that a process may map which may
 * read all memory of this one anyway (it comes by /proc/PID/fd). It reads there what a peer of its
 * connections may reach (the wire local, direct.c), and never writes.
 *
 *   directory_head      DIRECTORY_HEAD octets: sizes, and the permutation of the indices
 *   entries             DIRECTORY_CHUNKS chunks, by place
 *
 * The reader locks nothing. Its claim stands before it reads, and a thread that revokes an entry
 * looks for claims behind that; an entry is filled anew only when nobody has a claim. So what is
 * read there is true until the claim is given up.
 */
#ifndef ITAL_SOFTWARE_DIRECTORY_H
#define ITAL_SOFTWARE_DIRECTORY_H

#include "stag.h"

#include "rnicpi.h"

#define DIRECTORY_CHUNKS 64u
#define DIRECTORY_HEAD   (64u << 10)

struct directory_head {
    char magic[16];
    uint64_t token; /* as its owner names itself to its peers */
    uint32_t entry_octets, entries;
    stag_rounds rounds;
};

/* The table has a directory from now on. Nothing is allocated in it yet. False, and why: it has
 * none. */
bool directory_make(struct stag_table *table, uint64_t token, const char **why);
void directory_unmake(struct stag_table *table);

/* That of a peer, mapped. */
struct directory {
    const struct directory_head *head;
};

/* `fd` stays the caller's. False: it is no directory of this release, or not that of the token. */
bool directory_open(struct directory *directory, int fd, uint64_t token);
void directory_close(struct directory *directory);

/* Who asks: what the peer's connection may use, as the peer names it. */
struct directory_scope {
    uint64_t pd, qp;
};
/* The place of an STag, which stays the same. Most look-ups name the one before. */
struct directory_hint {
    uint32_t stag; /* 0: none */
    uint32_t place;
};
/* What a check has found. */
struct directory_memory {
    uint64_t address; /* of the first octet, in the peer's process */
    struct stag_file file;
};
/* As qp_check_remote(), of the peer's memory. The caller has a claim. What is found may be
 * anything. */
enum stag_result directory_check(const struct directory *directory, struct directory_hint *hint,
                                 uint32_t stag, const struct directory_scope *scope,
                                 uint32_t access, uint64_t to, uint64_t length,
                                 struct directory_memory *found);

#endif
