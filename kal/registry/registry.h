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
struct kal_state;

/* A provider file that was found. Constant after the search, except for the marked members. */
struct kal_provider {
    char *path;   /* or "(preopened)" */
    char *stem;   /* NAME of vp_NAME.so or vf_NAME.so, which its provider should have; else "" */
    dev_t device; /* identify the file whatever its path; inode 0: none */
    ino_t inode;
    uint16_t abi_major, abi_minor; /* of a refused file; 0: not read */
    bool usable;                   /* so far as the bytes show */
    char *reason, *advice;         /* if not usable; advice also if usable with a warning */
    /* Set when the file is loaded, then constant; under the lock. */
    char *name;
    const struct ri_provider *descriptor; /* never unloaded */
    struct ri_privileged_ops ops;         /* with defaults for missing operations */
    struct ri_user_ops user_ops;
    bool told; /* the reason why it is not usable was logged; under the lock */
    /* time when a helper was killed because it did not answer, 0: never; under the lock */
    uint64_t late;
    struct kal_provider *next; /* in search order */
};

/* A folder that was searched. */
struct kal_folder {
    dev_t device;
    ino_t inode;
    struct kal_folder *next;
};

struct kal_registry {
    /* Held over search, loading, and enumerate (serial by contract); not while helpers are asked */
    pthread_mutex_t lock;
    bool searched;
    struct kal_provider *providers; /* constant after the search */
    struct kal_provider *filters;   /* files vf_NAME.so; constant after the search */
    struct kal_folder *seen;
    char *folders; /* the searched folders, for advice: "A, B and C" */
};

/* An interface. It owns its strings. */
struct kal_interface {
    char *name, *provider_name, *device, *reason, *advice;
    enum ri_transport transport;
    bool usable;
    bool configured_wrong;         /* not usable because of a value in the configuration */
    bool on_request;               /* RI_DEVICE_ON_REQUEST, and no section describes it */
    bool asked_for_by_kind;        /* RI_DEVICE_ON_REQUEST */
    bool has_stand_in;             /* usable because another interface replaces it */
    char *fallback;                /* names of possible replacements (base/names.h); NULL: none */
    struct kal_provider *provider; /* loaded if kal_interface_choose found it; else perhaps not */
    struct kal_values *options;    /* set if the provider is known */
    struct kal_interface *next;
};

/* The process's kal. Constant between the first kal_get and the last kal_put, except for the marked
 * members. */
struct kal {
    const struct kal_upper *upper;
    /* Number of kal_get and open RNICs; under the instance lock of kal.c */
    unsigned count;
    struct kal_config *config;
    /* Has its own locks */
    struct kal_host *host;
    struct kal_registry registry;
    /* NULL: the process shows nothing. Has its own locks */
    struct kal_state *state;
    /* Leaf; guards rnics only */
    pthread_mutex_t rnics_lock;
    /* utlist, by next/prev; for fork and for lists */
    struct kal_rnic *rnics;
};

void kal_registry_init(struct kal_registry *registry);
void kal_registry_destroy(struct kal_registry *registry);

/* The first call searches; afterwards the list does not change. A file that is found by several
 * paths is in it once. No file is loaded. RI_ERR_NO_RESOURCES: nothing is kept, and the next call
 * searches again. */
enum ri_status kal_registry_search(struct kal *kal);

/* Loads the file, if not done yet. If that fails provider->descriptor stays NULL and the answer has
 * the reason; for lack of memory or descriptors RI_ERR_NO_RESOURCES. The lock is held. */
enum ri_status kal_provider_load(struct kal_provider *provider, struct kal_answer *answer);

/* ---- asking.c ---- */
/* The answers of all provider files, in search order, including unusable ones. Helper processes ask
 * them, for at most option ask_timeout; no lock may be held. The caller frees the list.
 * RI_ERR_NO_RESOURCES. */
enum ri_status kal_ask_all(struct kal *kal, struct kal_answer **answers);
/* The answers of the files that may be the provider of that name. The first that can be loaded is
 * loaded into this process and asked here. Answers with the reasons of others come before it.
 * Empty: there is no such file. */
enum ri_status kal_ask_named(struct kal *kal, const char *name, struct kal_answer **answers);
/* Asks one file, in this process. RI_ERR_NO_RESOURCES also if the provider says so. */
enum ri_status kal_ask_here(struct kal *kal, struct kal_provider *provider,
                            struct kal_answer **answer);

/* ---- interface_list.c: lists of interfaces ---- */
struct kal_interface *kal_interface_find(struct kal_interface *list, const char *name);
void kal_interface_free(struct kal_interface *interface);
void kal_interfaces_free(struct kal_interface *list);

/* ---- fallback.c: interfaces that replace others ---- */
/* Finds the interface of a name: *other, valid until the next call. NULL: there is none. */
typedef enum ri_status (*kal_fallback_find_fn)(void *arg, const char *name,
                                               struct kal_interface **other);
/* If the interface is not usable, replaces it by the first usable one of its fallback. log: reports
 * the choice, and why others were not taken. RI_ERR_NO_RESOURCES, or a status of find: the
 * interface is unchanged. */
enum ri_status kal_fallback_stand_in(struct kal_interface *interface, kal_fallback_find_fn find,
                                     void *arg, bool log);
/* The same for each interface of a complete list, without log lines. */
enum ri_status kal_fallback_apply(struct kal_interface *list);
/* Orders the list: the default first, then option fallback of [ital]. Logs names that cannot be
 * used, once. The registry's lock is held. */
void kal_fallback_order(struct kal_config *config, struct kal_interface **list);

/* ---- interfaces.c ---- */
/* Builds the list of all present interfaces, the default one first; helpers ask the providers. The
 * caller frees the list. RI_ERR_NO_RESOURCES. */
enum ri_status kal_interfaces_build(struct kal *kal, struct kal_interface **list);
/* Finds the interface of that name, or its replacement, which is logged. Loads its provider, and no
 * other if the name identifies it. *list has the interface; if there is none of that name, it may
 * have others. The caller frees the list. RI_ERR_NO_RESOURCES. */
enum ri_status kal_interface_choose(struct kal *kal, const char *name, struct kal_interface **list);

/* Held while a provider's code is loaded or enumerates. */
void kal_registry_lock(struct kal_registry *registry);
void kal_registry_unlock(struct kal_registry *registry);
/* Around a fork: as above, except in a thread that holds the lock already because a provider's code
 * forks. */
void kal_registry_fork_lock(struct kal_registry *registry);
void kal_registry_fork_unlock(struct kal_registry *registry);

/* ---- registry/host_services.c ---- */
/* Fills host, options and tables of an RNIC record, to open it or only to probe it (asking.c). */
void kal_rnic_host_init(struct kal_rnic *rnic);

/* ---- registry/filter.c ---- */
/*
 * Puts the filters of option filter in front of the RNIC's provider. `open` describes how the
 * provider is opened, and afterwards how the outermost filter is; the RNIC's tables become that
 * filter's. Without filters nothing changes. Errors are logged. ITAL_ERR_CONFIGURATION,
 * RI_ERR_NO_RESOURCES.
 */
enum ri_status kal_filters_take(struct kal_rnic *rnic, struct ri_open *open);
void kal_filters_free(struct kal_rnic *rnic);

/* ---- registry/rnic.c ---- */
/* kal_rnic_open and kal_rnic_close without the count of the instance, which the caller changes. */
enum ri_status kal_registry_open(struct kal *kal, const char *interface, void *context,
                                 struct kal_rnic **rnic);
enum ri_status kal_registry_close(struct kal_rnic *rnic, bool force);

#endif
