/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.h - what the processes of one host share: accounts, pins, policy, sharing, monitor.
 *
 * This is where a daemon is cut off. The rest of kal calls the first part and nothing else of this
 * folder. The second part, a table of operations, is what stands behind it: local.c in the process
 * today, the client of a daemon later, a host of their own in the tests. Everything that crosses
 * the table is plain data; answers that come later are calls of the third part, from any thread.
 *
 * "Lane" marks what never blocks: it is decided from what the process has at hand. Accounts are
 * leased: the process takes from a lease, and the host is asked for more before it is used up.
 * Policy is decided from a copy that the host pushes. What is not marked may wait for the host.
 */
#ifndef ITAL_KAL_HOST_H
#define ITAL_KAL_HOST_H

#include <stdatomic.h>

#include "kal/rnic/rnic.h"

struct kal_host;
struct kal_host_ops;

/* ------------------------------------------------------------------------------------------------
 * What the rest of kal calls
 */

/* A host by this table. Everything wrong with the policy rules of the configuration is logged:
 * KAL_ERR_CONFIGURATION. */
enum kal_status kal_host_open(const struct kal_host_ops *ops, const struct kal_config *config,
                              struct kal_host **host);
/* Nothing is held, nothing pinned any more. NULL: nothing. */
void kal_host_close(struct kal_host *host);
/* In a forked child: what only the parent may use is given up. Async-signal-safe, frees nothing. */
void kal_host_fork_child(struct kal_host *host);

/* ---- accounts ---- */

/* Take from the process's lease and record it on the RNIC, or refuse, log that, and change nothing:
 * KAL_ERR_QUOTA. */
enum kal_status kal_rnic_take(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount);
/* Lane. The same, but what the lease does not have is refused without waiting. peer, NULL for none,
 * is whom the log line names. */
enum kal_status kal_rnic_take_now(struct kal_rnic *rnic, enum kal_account_kind kind,
                                  uint64_t amount, const struct sockaddr *peer);
/* Lane. */
void kal_rnic_give(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount);
/* Lane. What the RNIC, and what the process holds. */
uint64_t kal_rnic_holds(const struct kal_rnic *rnic, enum kal_account_kind kind);
uint64_t kal_host_holds(const struct kal_host *host, enum kal_account_kind kind);

/* ---- pins ---- */

/*
 * Pin the pages of [addr, addr + length). Overlapping ranges nest. Logs a refusal with what to do.
 * RI_ERR_NO_RESOURCES: RLIMIT_MEMLOCK, the quota, or memory. RI_ERR_ADDRESS: not mapped.
 * RI_ERR_INVALID_ARGUMENT: empty or wrapping. Nothing changes then.
 */
enum ri_status kal_rnic_pin(struct kal_rnic *rnic, const void *addr, uint64_t length);
/* Undo one kal_rnic_pin of exactly this range. Never fails. */
void kal_rnic_unpin(struct kal_rnic *rnic, const void *addr, uint64_t length);

/* ---- policy ---- */

/* Has any policy of the process had rules? Never taken back. */
extern _Atomic bool kal_host_has_rules;

/* Lane. Logs a refusal once. RI_OK or RI_ERR_PERMISSION. */
enum ri_status kal_rnic_ask_policy(struct kal_rnic *rnic, enum ri_policy_direction direction,
                                   const struct sockaddr *local, const struct sockaddr *peer);
/* By hand on x86: compilers load an atomic before they compare it. */
static inline bool kal_host_may_have_rules(void)
{
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__) && !defined(ITAL_TSAN)
    bool has;

    __asm__ volatile("cmpb $0, %1" : "=@ccne"(has) : "m"(kal_host_has_rules));
    return has;
#else
    return atomic_load_explicit(&kal_host_has_rules, memory_order_relaxed);
#endif
}

/* The same; two instructions where there are no rules. */
static inline enum ri_status kal_rnic_policy(struct kal_rnic *rnic,
                                             enum ri_policy_direction direction,
                                             const struct sockaddr *local,
                                             const struct sockaddr *peer)
{
    return __builtin_expect(kal_host_may_have_rules(), 0)
               ? kal_rnic_ask_policy(rnic, direction, local, peer)
               : RI_OK;
}

/* May a connection of the RNIC have that local address? Not if option netdev leaves it out. */
bool kal_rnic_has_address(const struct kal_rnic *rnic, const struct sockaddr *local);

/* ---- sharing ---- */

/* May a region of that length share the translations of identifier id? False: a region of another
 * length has it, or the host has no room; it is registered for itself then. */
bool kal_rnic_share(struct kal_rnic *rnic, uint32_t id, uint64_t length);
/* Undo one kal_rnic_share that said true. */
void kal_rnic_unshare(struct kal_rnic *rnic, uint32_t id);

/* ---- monitor ---- */

/* Report port up and down by rnic_event from runs of that lane, and say so among the RNIC's
 * features (RI_FEATURE_PORT_EVENTS). Where the provider does it, or the host cannot: nothing.
 * Failure is logged and otherwise harmless. */
void kal_monitor_start(struct kal_rnic *rnic, void *lane_context);
/* Lane contexts still live. Not started: nothing. */
void kal_monitor_stop(struct kal_rnic *rnic);

/* ------------------------------------------------------------------------------------------------
 * What stands behind it. `state` is what open gave; every operation is there.
 */
struct kal_links;

struct kal_host_ops {
    /* Connect to the host. Grants and rules may be given in the call. Logs why not. */
    enum kal_status (*open)(struct kal_host *host, const struct kal_config *config, void **state);
    /* All leases end. Afterwards nothing of the third part is called. */
    void (*close)(void *state);
    /* Async-signal-safe. */
    void (*fork_child)(void *state);

    /*
     * The lease has less than a quarter free (amount 0), or so much less than is needed. With
     * `wait`: ask the host and wait for its answer. Without it, Lane: at most send the question;
     * kal_host_grant follows when the answer comes. True: there may be more now, try again.
     */
    bool (*lease)(void *state, enum kal_account_kind kind, uint64_t amount, bool wait);
    /* Lane. The limit that a log line names; 0: unknown. */
    uint64_t (*quota)(void *state, enum kal_account_kind kind);

    /* The kernel refused to lock memory, `octets` in all, by RLIMIT_MEMLOCK. True: the limit is
     * higher now, try again. */
    bool (*raise_memlock)(void *state, uint64_t octets);

    /* As kal_rnic_share, kal_rnic_unshare, for all processes. */
    bool (*share)(void *state, uint32_t id, uint64_t length);
    void (*unshare)(void *state, uint32_t id);

    /*
     * Network interfaces. links_open gives a descriptor that is readable when one may have changed;
     * it is put into a lane. KAL_ERR_NOT_SUPPORTED: changes cannot be learned here. links_changed,
     * Lane: drain it; did anything change? link_running, Lane: is the network interface up and does
     * it have a carrier? links_close: the descriptor is in no lane any more.
     */
    enum kal_status (*links_open)(void *state, struct kal_links **links, int *fd);
    bool (*links_changed)(struct kal_links *links);
    bool (*link_running)(struct kal_links *links, const char *netdev);
    void (*links_close)(struct kal_links *links);
};

/* In the process: the limits of section [quota], the rules of section [policy]. */
extern const struct kal_host_ops kal_host_local;
/* What the first kal_get opens (kal.c). Tests put another table in its place before. */
extern const struct kal_host_ops *kal_host_backend;

/* ------------------------------------------------------------------------------------------------
 * What the table's owner calls, from any thread, between open and close. They do not block.
 */

/* The lease grows; UINT64_MAX in all: no limit. */
void kal_host_grant(struct kal_host *host, enum kal_account_kind kind, uint64_t amount);
/* Return the free part of the lease, but no more than amount; returns how much that is. Nothing
 * of a lease without limit. */
uint64_t kal_host_return(struct kal_host *host, enum kal_account_kind kind, uint64_t amount);

struct kal_host_rule {
    /* "rule1", "deny connect to 192.0.2.0/24": ital.conf(5), section [policy] */
    const char *name, *text;
    /* A file's path or the like, and its line, for log lines */
    const char *source;
    unsigned line;
};
/*
 * These rules replace those before, for every question from now on. One that cannot be read is
 * logged: KAL_ERR_CONFIGURATION, and the rules before stay. All copies live until the host is
 * closed, because lanes read them without a lock.
 */
enum kal_status kal_host_push_policy(struct kal_host *host, const struct kal_host_rule *rules,
                                     size_t count);

#endif
