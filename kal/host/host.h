/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.h - what the processes of one host share: accounts, pins, policy, sharing, monitor.
 *
 * This interface allows a daemon. The rest of kal calls only the first part. The second part is a
 * table of operations that the host implements: daemon.c, the client of kald(8); local.c in the
 * process, without it; another host in the tests. Only plain data crosses the table. Answers that
 * come later are calls of the third part, from any thread.
 *
 * "Lane" marks what never blocks: it is decided from state in the process. Accounts are leased: the
 * process takes from a lease, and asks the host for more before it is used up. Policy is decided
 * from a copy that the host pushes. Calls without the mark may wait for the host.
 */
#ifndef ITAL_KAL_HOST_H
#define ITAL_KAL_HOST_H

#include <stdatomic.h>

#include "kal/rnic/rnic.h"
#include "base/compiler.h"

struct kal_host;
struct kal_host_ops;

/* ------------------------------------------------------------------------------------------------
 * What the rest of kal calls
 */

/* Opens a host with this table. Errors in the policy rules of the configuration are logged:
 * ITAL_ERR_CONFIGURATION. */
enum ri_status kal_host_open(const struct kal_host_ops *ops, const struct kal_config *config,
                             struct kal_host **host);
/* Nothing may be taken or pinned any more. NULL: no effect. */
void kal_host_close(struct kal_host *host);
/* Around a fork. In the child: drops what only the parent may use. Async-signal-safe, frees
 * nothing. */
void kal_host_fork_prepare(struct kal_host *host);
void kal_host_fork_parent(struct kal_host *host);
void kal_host_fork_child(struct kal_host *host);

/* ---- accounts ---- */

/* Takes from the process's lease and records it on the RNIC. Or refuses, logs that, and changes
 * nothing: ITAL_ERR_QUOTA. */
enum ri_status kal_rnic_take(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount);
/* Lane. As kal_rnic_take, but refuses without waiting if the lease is used up. peer (NULL: none):
 * named in the log line. */
enum ri_status kal_rnic_take_now(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount,
                                 const struct sockaddr *peer);
/* Lane. */
void kal_rnic_give(struct kal_rnic *rnic, enum kal_account_kind kind, uint64_t amount);
/* Lane. The use of the RNIC, and of the process. */
uint64_t kal_rnic_holds(const struct kal_rnic *rnic, enum kal_account_kind kind);
uint64_t kal_host_holds(const struct kal_host *host, enum kal_account_kind kind);
/* The limit of the process; 0: none, or unknown. Lane. */
uint64_t kal_host_quota(const struct kal_host *host, enum kal_account_kind kind);

/* ---- pins ---- */

/* Sets rnic->pin, by its options and attributes. */
void kal_rnic_choose_pin(struct kal_rnic *rnic);
/*
 * Pins the pages of [addr, addr + length) as rnic->pin wants it; *way: how they are pinned.
 * Overlapping ranges nest. If that is not possible: not strict leaves them unpinned, with a warning
 * in the log. Strict logs the refusal with what to do, and changes nothing. RI_ERR_NO_RESOURCES:
 * RLIMIT_MEMLOCK, the quota, or memory. RI_ERR_ADDRESS: not mapped. RI_ERR_PERMISSION: the system
 * does not allow it at all, or not for this kind of mapping. RI_ERR_INVALID_ARGUMENT: empty or
 * wrapping. May wait for a second; in a lane it does not.
 */
enum ri_status kal_rnic_pin(struct kal_rnic *rnic, const void *addr, uint64_t length,
                            enum kal_pin_way *way);
/* Undoes one kal_rnic_pin of exactly this range and result. Never fails. */
void kal_rnic_unpin(struct kal_rnic *rnic, const void *addr, uint64_t length, enum kal_pin_way way);
/* The same for pages that the provider pins itself; the way is remembered here. */
enum ri_status kal_rnic_pin_own(struct kal_rnic *rnic, const void *addr, uint64_t length);
void kal_rnic_unpin_own(struct kal_rnic *rnic, const void *addr, uint64_t length);

/* What is pinned in one way, in the process: ranges not yet undone, octets of pages, each once, and
 * rings of io_uring. Any thread. */
struct kal_pins_seen {
    uint64_t ranges, octets;
    uint32_t rings;
};
struct kal_pins_seen kal_host_pins(const struct kal_host *host, enum kal_pin_way way);

/* ---- policy ---- */

/* Set when any policy of the process has had rules; never reset. */
extern _Atomic bool kal_host_has_rules;

/* Lane. Asks the host's policy, then the rules of the configuration: both must allow. Logs a
 * refusal once. RI_OK or RI_ERR_PERMISSION. */
enum ri_status kal_rnic_ask_policy(struct kal_rnic *rnic, enum ri_policy_direction direction,
                                   const struct sockaddr *local, const struct sockaddr *peer);
/* The same for a connected socket that becomes a connection: as a connect (initiator) or a request,
 * and as a conversion. */
enum ri_status kal_rnic_ask_convert(struct kal_rnic *rnic, bool initiator,
                                    const struct sockaddr *local, const struct sockaddr *peer);
/* In assembly on x86: compilers load an atomic before they compare it. */
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

/* As kal_rnic_ask_policy; two instructions if there are no rules. */
static inline enum ri_status kal_rnic_policy(struct kal_rnic *rnic,
                                             enum ri_policy_direction direction,
                                             const struct sockaddr *local,
                                             const struct sockaddr *peer)
{
    return unlikely(kal_host_may_have_rules()) ? kal_rnic_ask_policy(rnic, direction, local, peer)
                                               : RI_OK;
}

/* True: a connection of the RNIC may have that local address. Option netdev restricts it. */
bool kal_rnic_has_address(const struct kal_rnic *rnic, const struct sockaddr *local);

/* The rules that are in effect in this process. */
struct kal_rules_seen {
    /* Of section [policy] of the configuration */
    size_t own;
    /* False: the host has had no rules yet, and the rest is zero */
    bool governed;
    uint64_t since; /* clock_wall() when they came into effect */
    size_t count, file_count;
    const char *const *files; /* the host's; valid while the host is */
};
/* Any thread. */
void kal_host_rules(struct kal_host *host, struct kal_rules_seen *seen);

/* As rules_watch and rules_changed. */
int kal_host_rules_watch(struct kal_host *host);
void kal_host_rules_changed(struct kal_host *host);

/* The process may not bind that port: may the host? 0: *fd is the listening socket, the caller's.
 * Otherwise an errno value; EACCES: it may not, either. Not in a lane. */
int kal_rnic_listen(struct kal_rnic *rnic, const struct sockaddr *address, bool v6only,
                    bool share_port, int *fd);

/* ---- sharing ---- */

/* True: a region of that length may share the translations of identifier id. False: a region of
 * another length has it, or the host has no room; then the region is registered alone. */
bool kal_rnic_share(struct kal_rnic *rnic, uint32_t id, uint64_t length);
/* Undoes one kal_rnic_share that returned true. */
void kal_rnic_unshare(struct kal_rnic *rnic, uint32_t id);

/* ---- monitor ---- */

/* Reports port up and down, and RI_EVENT_ADDRESS_CHANGE, by rnic_event from runs of that lane, and
 * sets the RNIC's feature RI_FEATURE_PORT_EVENTS if a port names a network interface. No effect if
 * the provider reports them itself, or the host cannot. Failure is logged and otherwise
 * harmless. */
void kal_monitor_start(struct kal_rnic *rnic, void *lane_context);
/* Lane contexts must be live. No effect if not started. */
void kal_monitor_stop(struct kal_rnic *rnic);

/* ------------------------------------------------------------------------------------------------
 * The operations of a host. `state` is the result of open. Every operation must be set.
 */
struct kal_links;

struct kal_host_ops {
    /* Connects to the host. May grant leases and push rules in the call. Logs the reason of a
     * failure. */
    enum ri_status (*open)(struct kal_host *host, const struct kal_config *config, void **state);
    /* All leases end. No call of the third part follows. */
    void (*close)(void *state);
    /* Async-signal-safe. */
    void (*fork_child)(void *state);

    /*
     * The lease has less than a quarter free (amount 0), or lacks `amount`. With `wait`: asks the
     * host and waits for its answer. Without it, Lane: at most sends the question; kal_host_grant
     * follows with the answer. True: there may be more now, try again.
     */
    bool (*lease)(void *state, enum kal_account_kind kind, uint64_t amount, bool wait);
    /* Lane. The limit that a log line shows; 0: unknown. */
    uint64_t (*quota)(void *state, enum kal_account_kind kind);

    /* The kernel refused to lock memory, `octets` in total, by RLIMIT_MEMLOCK. True: the limit is
     * higher now, try again. */
    bool (*raise_memlock)(void *state, uint64_t octets);

    /* As kal_rnic_listen. */
    int (*listen)(void *state, const struct sockaddr *address, bool v6only, bool share_port,
                  int *fd);

    /* As kal_rnic_share, kal_rnic_unshare, for all processes. */
    bool (*share)(void *state, uint32_t id, uint64_t length);
    void (*unshare)(void *state, uint32_t id);

    /*
     * Network interfaces. links_open returns a descriptor that is readable when one may have
     * changed; the caller adds it to a lane. RI_ERR_NOT_SUPPORTED: changes cannot be detected.
     * links_changed, Lane: drains it; true if something changed. links_running, Lane: true if the
     * network interface is up and has a carrier. links_addresses, Lane: a sum over the IP addresses
     * of the network interfaces (NULL: of all); other addresses have another one. False: they
     * cannot be read now. links_close: the descriptor must be in no lane any more.
     */
    enum ri_status (*links_open)(void *state, struct kal_links **links, int *fd);
    bool (*links_changed)(struct kal_links *links);
    bool (*link_running)(struct kal_links *links, const char *netdev);
    bool (*links_addresses)(struct kal_links *links, const char *netdevs, uint64_t *sum);
    void (*links_close)(struct kal_links *links);

    /*
     * The rules of root. NULL: the host pushes by itself when they change. rules_watch: a
     * descriptor that is readable when they may have changed; -1: there is none. rules_changed
     * reads and pushes them, and logs what is wrong with them; may block, one thread at a time.
     */
    int (*rules_watch)(void *state);
    void (*rules_changed)(void *state);
};

/* The host in the process: the limits of section [quota], the rules of section [policy]. */
extern const struct kal_host_ops kal_host_local;
/* The same with kald(8), option kald; as kal_host_local while there is none. */
extern const struct kal_host_ops kal_host_daemon;
/* The table that the first kal_get opens (kal.c). Tests replace it before. */
extern const struct kal_host_ops *kal_host_backend;

/* ------------------------------------------------------------------------------------------------
 * Calls of the host, from any thread, between open and close. They do not block.
 */

/* The lease grows. UINT64_MAX: no limit. */
void kal_host_grant(struct kal_host *host, enum kal_account_kind kind, uint64_t amount);
/* Returns at most amount of the free part of the lease; the result is how much. A lease without
 * limit returns nothing. */
uint64_t kal_host_return(struct kal_host *host, enum kal_account_kind kind, uint64_t amount);

struct kal_host_rule {
    /* "rule1", "deny connect to 192.0.2.0/24": ital.conf(5), section [policy] */
    const char *name, *text;
    /* A file's path or similar, and its line, for log lines */
    const char *source;
    unsigned line;
};
/*
 * These rules replace the earlier ones for all later questions. A rule that cannot be parsed is
 * logged: ITAL_ERR_CONFIGURATION, and the earlier rules remain. All copies live until the host is
 * closed, because lanes read them without a lock.
 */
enum ri_status kal_host_push_policy(struct kal_host *host, const struct kal_host_rule *rules,
                                    size_t count);

/*
 * The host's policy, ital-policy(5): root's rules, which stand before those of the configuration.
 * They replace the earlier ones for all later questions. Takes over the list and empties it, also
 * on RI_ERR_NO_RESOURCES, when the earlier rules remain. Copies live as long as those above.
 */
struct policy;
enum ri_status kal_host_push_governing(struct kal_host *host, struct policy *list);

/* Where the rules of kal_host_local are: NULL, policy_folder; and whose the files must be: root.
 * Tests set them. They are no part of the library's interface, so no user of one can. */
extern const char *kal_policy_folder;
extern uint32_t kal_policy_owner;

#endif
