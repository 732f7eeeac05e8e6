/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of this folder share. */
#ifndef ITAL_KAL_HOST_PRIVATE_H
#define ITAL_KAL_HOST_PRIVATE_H

#include "account.h"
#include "host.h"
#include "pin.h"
#include "policy.h"

struct kal_host {
    const struct kal_host_ops *ops;
    void *state;
    struct kal_account account;
    /* By way */
    struct kal_pins locked, held;
    /* Leaf; guards the list of what providers pin themselves */
    pthread_mutex_t own_pins_lock;
    struct kal_own_pin *own_pins;
    /* The newest; older ones are linked behind it. NULL: none was pushed, everything is allowed */
    _Atomic(struct kal_policy *) policy;
    /* The same of the host's own rules */
    _Atomic(struct kal_policy *) governing;
};

/* Without the table's open: for kal_host_open, and tests of single files. NULL: no memory. */
struct kal_host *kal_host_create(const struct kal_host_ops *ops, void *state);
void kal_host_destroy(struct kal_host *host);

/* Takes from the lease and asks the host for more. With `wait` it waits for the host's answer.
 * False: *rule is the rule of the host's policy that refuses, or NULL: the host does. */
bool kal_host_take(struct kal_host *host, enum kal_account_kind kind, uint64_t amount, bool wait,
                   const struct policy_rule **rule);

/* ---- rnic_pin.c ---- */
/* Providers that have not undone their pins do it no more. */
void kal_own_pins_forget(struct kal_host *host);

/* ---- local.c, for a host that does some of it by itself ---- */
/* kal_host_local without its leases. */
enum ri_status kal_local_open(struct kal_host *host, const struct kal_config *config, void **state);
/* Of its state: another one reads the rules, so what was noticed is forgotten. */
void kal_local_rules_drain(void *state);
/* The whole quota of the process. */
void kal_local_grant(struct kal_host *host, const struct kal_config *config,
                     enum kal_account_kind kind);

/* ---- governing.c; Lane ---- */
/* The kind has a limit in the host's policy, so a daemon may keep its account. */
bool kal_is_leased(enum kal_account_kind kind);
/* Puts the copy in front of the earlier ones. */
void kal_host_publish(_Atomic(struct kal_policy *) *newest, struct kal_policy *policy);
/* For questions: the process has that group, effective or further. */
bool kal_host_in_group(const void *arg, uint32_t group);
enum kal_refusal {
    /* The limit of a rule: for the process; for all processes of the user */
    KAL_REFUSAL_LIMIT,
    KAL_REFUSAL_USER_LIMIT,
    /* The quota of the process */
    KAL_REFUSAL_QUOTA,
    /* None of these: what was refused has become free meanwhile, or the host has not answered */
    KAL_REFUSAL_NOW
};
/* Why kal_host_take has refused; *rule is what it has set, and is set for a limit of the user.
 * Other threads may have taken or given meanwhile. */
enum kal_refusal kal_host_refusal(const struct kal_host *host, enum kal_account_kind kind,
                                  uint64_t amount, const struct policy_rule **rule);
/* The rule of the host's policy whose limit `amount` more of the kind would pass; NULL: none. */
const struct policy_rule *kal_host_limit_refuses(const struct kal_host *host,
                                                 enum kal_account_kind kind, uint64_t amount);

#endif
