/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of section [quota]. */
#include "quota.h"

static const struct {
    const char *text, *option, *help;
} kinds[KAL_ACCOUNT_KINDS] = {
    [KAL_ACCOUNT_RNIC] = { "open interfaces", "max_rnic",
                           "Interfaces that the process may have open; 0: no limit." },
    [KAL_ACCOUNT_PD] = { "protection zones", "max_pd",
                         "Protection zones that the process may have; 0: no limit." },
    [KAL_ACCOUNT_CQ] = { "completion queues", "max_cq",
                         "Completion queues that the process may have; 0: no limit." },
    [KAL_ACCOUNT_QP] = { "endpoints", "max_qp",
                         "Queue pairs that the process may have; 0: no limit." },
    [KAL_ACCOUNT_SRQ] = { "shared receive queues", "max_srq",
                          "Shared receive queues that the process may have; 0: no limit." },
    [KAL_ACCOUNT_MR] = { "memory regions", "max_mr",
                         "Memory regions that the process may have; 0: no limit." },
    [KAL_ACCOUNT_MW] = { "memory windows", "max_mw",
                         "Memory windows that the process may have; 0: no limit." },
    [KAL_ACCOUNT_AH] = { "address handles", "max_ah",
                         "Address handles that the process may have; 0: no limit." },
    [KAL_ACCOUNT_CONNECTION] = { "connections being set up", "max_connection",
                                 "Connections that may be in set-up or undecided at once; 0: no "
                                 "limit." },
    [KAL_ACCOUNT_LISTENER] = { "listeners", "max_listener",
                               "Listeners that the process may have; 0: no limit." },
    [KAL_ACCOUNT_PINNED] = { "octets of pinned memory", "max_pinned",
                             "Memory that the process may pin (option pin); 0: no limit." },
};

const char *kal_account_text(enum kal_account_kind kind)
{
    return kinds[kind].text;
}

struct ri_option kal_quota_option(enum kal_account_kind kind)
{
    return (struct ri_option){
        .name = kinds[kind].option,
        .type = kind == KAL_ACCOUNT_PINNED ? "size" : "int: 0..",
        .value = "0",
        .unit = kind == KAL_ACCOUNT_PINNED ? "octets" : "",
        .text = kinds[kind].help,
    };
}
