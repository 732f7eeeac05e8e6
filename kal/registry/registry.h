/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds, checks and loads providers; maps interface names of the configuration to their devices. */
#ifndef ITAL_KAL_REGISTRY_H
#define ITAL_KAL_REGISTRY_H

#include <pthread.h>
#include <sys/types.h>

#include "kal/host/host.h"
#include "kal/rnic/rnic.h"

struct kal_answer;
struct kal_config;
struct kal_interface_section;

/* One provider file that was found. Fixed once searched, except for the marked members. */
struct kal_provider {
    char *path;   /* or "(preopened)" */
    char *stem;   /* NAME of vp_NAME.so: what its provider should be called; else "" */
    dev_t device; /* of the file, whatever its path; inode 0: none */
    ino_t inode;
    uint16_t abi_major, abi_minor; /* of a refused file; 0: not read */
    bool usable;                   /* by what its octets say */
    char *reason, *advice;         /* when not usable; advice also when usable with a doubt */
    /* Set when it was loaded, and not changed afterwards; under the lock. */
    char *name;
    const struct ri_provider *descriptor; /* resident */
    struct ri_privileged_ops ops;         /* completed */
    struct ri_user_ops user_ops;
    bool told;     /* the reason why it cannot be used was logged; under the lock, too */
    uint64_t late; /* when a helper was ended for its silence, 0: never; under the lock */
    struct kal_provider *next; /* in search order */
};

/* A folder that was searched. */
struct kal_folder {
    dev_t device;
    ino_t inode;
    struct kal_folder *next;
};

struct kal_registry {
    /* Over search, loading, and enumerate (serial by contract); not while helpers are asked */
    pthread_mutex_t lock;
    bool searched;
    struct kal_provider *providers; /* fixed once searched */
    struct kal_folder *seen;
    char *folders; /* those searched, for advice: "A, B and C" */
};

/* One interface. Strings are its own. */
struct kal_interface {
    char *name, *provider_name, *device, *reason, *advice;
    enum ri_transport transport;
    bool usable;
    bool configured_wrong;         /* not usable because of a value in the file */
    bool has_stand_in;             /* usable because another interface stands in for it */
    char *fallback;                /* names of those that may (base/names.h); NULL: none */
    struct kal_provider *provider; /* loaded in what kal_interface_choose finds; else perhaps not */
    struct kal_values *options;    /* when the provider is there */
    struct kal_interface *next;
};

/* The process's kal. Fixed between the first kal_get and the last kal_put unless marked. */
struct kal {
    const struct kal_upper *upper;
    /* kal_get and open RNICs; under the instance mutex of kal.c */
    unsigned count;
    struct kal_config *config;
    /* Own locks */
    struct kal_host *host;
    struct kal_registry registry;
    /* Leaf: rnics only */
    pthread_mutex_t rnics_lock;
    /* utlist, by next/prev; for fork and for listing */
    struct kal_rnic *rnics;
};

void kal_registry_init(struct kal_registry *registry);
void kal_registry_destroy(struct kal_registry *registry);

/* Search at the first call; afterwards the list stands. A file that is found under several paths is
 * in it once. No file is loaded. KAL_ERR_NO_RESOURCES:
 * nothing is kept, the next call searches again. */
enum kal_status kal_registry_search(struct kal *kal);

/* Load the file, if that has not been done. Where it cannot be, provider->descriptor stays NULL and
 * the answer has the reason, or, for want of memory or descriptors, KAL_ERR_NO_RESOURCES. The lock
 * is held. */
enum kal_status kal_provider_load(struct kal_provider *provider, struct kal_answer *answer);

/* ---- asking.c ---- */
/* What every provider file says of itself, in search order, also of those that cannot be used.
 * Files are asked in helper processes, for option ask_timeout at most; no lock may be held. The
 * caller frees the list. KAL_ERR_NO_RESOURCES. */
enum kal_status kal_ask_all(struct kal *kal, struct kal_answer **answers);
/* The same of the files that may hold the provider of that name: the first that can be loaded is,
 * into this process, and is asked here. Reasons of others come before it. Empty: there is no such
 * file. */
enum kal_status kal_ask_named(struct kal *kal, const char *name, struct kal_answer **answers);
/* One file, here. */
enum kal_status kal_ask_here(struct kal *kal, struct kal_provider *provider,
                             struct kal_answer **answer);

/* ---- interface_list.c: lists of interfaces ---- */
struct kal_interface *kal_interface_find(struct kal_interface *list, const char *name);
void kal_interface_free(struct kal_interface *interface);
void kal_interfaces_free(struct kal_interface *list);

/* ---- fallback.c: interfaces that stand in for others ---- */
/* Find the interface of a name: *other, valid until the next call; NULL: there is none. */
typedef enum kal_status (*kal_fallback_find_fn)(void *arg, const char *name,
                                                struct kal_interface **other);
/* If the interface is not usable, the first usable one of its fallback stands in for it. log:
 * report the choice, and why others were not taken. KAL_ERR_NO_RESOURCES, or what find returns:
 * the interface is unchanged. */
enum kal_status kal_fallback_stand_in(struct kal_interface *interface, kal_fallback_find_fn find,
                                      void *arg, bool log);
/* The same for each of a list of all, without a word. */
enum kal_status kal_fallback_apply(struct kal_interface *list);
/* The order of the list: the default first, then option fallback of [ital]. Names that cannot be
 * used are logged once. The registry's lock is held. */
void kal_fallback_order(struct kal_config *config, struct kal_interface **list);

/* ---- interfaces.c ---- */
/* Every interface there is now, the default one first; providers are asked by helpers. The caller
 * frees the list. KAL_ERR_NO_RESOURCES. */
enum kal_status kal_interfaces_build(struct kal *kal, struct kal_interface **list);
/* The interface of that name, or what stands in for it, which is logged; its provider, and if it
 * can be told from the name no other, is loaded. *list has it, or, if it has none of that name,
 * others. The caller frees the list. KAL_ERR_NO_RESOURCES. */
enum kal_status kal_interface_choose(struct kal *kal, const char *name,
                                     struct kal_interface **list);

/* The lock is held while a provider's code is loaded or enumerates. */
void kal_registry_lock(struct kal_registry *registry);
void kal_registry_unlock(struct kal_registry *registry);
/* Around a fork: the same, but for the thread that holds it already because a provider's code
 * forks. */
void kal_registry_fork_lock(struct kal_registry *registry);
void kal_registry_fork_unlock(struct kal_registry *registry);

/* ---- registry/host_services.c ---- */
/* Fill host, options and tables of an RNIC record that is opened or only probed (asking.c). */
void kal_rnic_host_init(struct kal_rnic *rnic);

/* ---- registry/rnic.c ---- */
/* kal_rnic_open and kal_rnic_close but for the count of the instance, which is the caller's. */
enum kal_status kal_registry_open(struct kal *kal, const char *interface, void *context,
                                  struct kal_rnic **rnic);
enum kal_status kal_registry_close(struct kal_rnic *rnic, bool force);

#endif
