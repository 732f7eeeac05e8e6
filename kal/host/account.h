/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts of what a process (later: a user) holds, and the limits on them. Lock-free, any thread. */
#ifndef ITAL_KAL_ACCOUNT_H
#define ITAL_KAL_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum kal_account_kind {
    KAL_ACCOUNT_RNIC,
    KAL_ACCOUNT_PD,
    KAL_ACCOUNT_CQ,
    KAL_ACCOUNT_QP,
    KAL_ACCOUNT_SRQ,
    KAL_ACCOUNT_MR,
    KAL_ACCOUNT_MW,
    KAL_ACCOUNT_AH,
    KAL_ACCOUNT_CONNECTION, /* being set up or undecided; established ones are their QP */
    KAL_ACCOUNT_LISTENER,
    KAL_ACCOUNT_PINNED, /* octets, whole pages, each page once */
    KAL_ACCOUNT_KINDS
};

struct kal_account {
    _Atomic uint64_t used[KAL_ACCOUNT_KINDS];
    uint64_t limit[KAL_ACCOUNT_KINDS]; /* 0: none. Fixed before the first take */
};

/* Add amount, or change nothing and return false when that would pass the limit. */
bool kal_account_take(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
void kal_account_give(struct kal_account *account, enum kal_account_kind kind, uint64_t amount);
uint64_t kal_account_used(const struct kal_account *account, enum kal_account_kind kind);

/* "queue pairs"; and the option of section [quota]: "max_qp". */
const char *kal_account_text(enum kal_account_kind kind);
const char *kal_account_option(enum kal_account_kind kind);

#endif
