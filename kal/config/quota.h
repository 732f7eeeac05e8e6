/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of account, and the option of section [quota] that limits each. */
#ifndef ITAL_KAL_QUOTA_H
#define ITAL_KAL_QUOTA_H

#include "rnicpi.h"

enum kal_account_kind {
    KAL_ACCOUNT_RNIC,
    KAL_ACCOUNT_PD,
    KAL_ACCOUNT_CQ,
    KAL_ACCOUNT_QP,
    KAL_ACCOUNT_SRQ,
    KAL_ACCOUNT_MR,
    KAL_ACCOUNT_MW,
    KAL_ACCOUNT_AH,
    /* Connections being set up or undecided; an established one counts as its QP */
    KAL_ACCOUNT_CONNECTION,
    KAL_ACCOUNT_LISTENER,
    /* Octets in whole pages; each page counts once */
    KAL_ACCOUNT_PINNED,
    KAL_ACCOUNT_KINDS
};

/* For log lines, in the words of ital-policy(5): "endpoints". Static. */
const char *kal_account_text(enum kal_account_kind kind);
/* Its option: name "max_qp"; value 0 means no limit. Strings are static. */
struct ri_option kal_quota_option(enum kal_account_kind kind);

#endif
