/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds, checks and loads providers; maps interface names of the configuration to their devices. */
#ifndef ITAL_KAL_REGISTRY_H
#define ITAL_KAL_REGISTRY_H

#include <pthread.h>

#include "kal.h"

struct kal_config;
struct kal_interface_section;

/* One provider file that was looked at. */
struct kal_provider {
    char *path;                         /* or "(preopened)" */
    char *name, *version, *description; /* NULL: not read */
    uint16_t abi_major, abi_minor;
    bool usable;
    char *reason, *advice; /* when not usable; advice also when usable with a doubt */
    const struct ri_provider *descriptor; /* when usable; resident */
    struct ri_privileged_ops ops;         /* completed */
    struct ri_user_ops user_ops;
    struct kal_provider *next; /* in search order */
};

struct kal_registry {
    pthread_mutex_t lock; /* over the search, and over enumerate (serial by contract) */
    bool searched;
    struct kal_provider *providers; /* fixed once searched */
    char *folders;                  /* those searched, for advice: "A, B and C" */
};

/* One interface. Strings are its own. */
struct kal_interface {
    char *name, *provider_name, *device, *reason, *advice;
    enum ri_transport transport;
    bool usable;
    bool configured_wrong; /* not usable because of a value in the file */
    struct kal_provider *provider;
    struct kal_values *options; /* when the provider is there */
    struct kal_interface *next;
};

void kal_registry_init(struct kal_registry *registry);
void kal_registry_destroy(struct kal_registry *registry);

/* Search and load at the first call; afterwards the list stands. KAL_ERR_NO_RESOURCES. */
enum kal_status kal_registry_search(struct kal *kal);

/* Every interface there is now. The caller frees the list. KAL_ERR_NO_RESOURCES. */
enum kal_status kal_interfaces_build(struct kal *kal, struct kal_interface **list);
void kal_interfaces_free(struct kal_interface *list);
/* Asks a usable provider why it has no device: NULL where it has one, or does not say. The caller frees both. */
enum kal_status kal_provider_absence(struct kal *kal, struct kal_provider *provider, char **reason,
                                     char **advice);

/* The lock is held while a provider's code is loaded or enumerates. */
void kal_registry_lock(struct kal_registry *registry);
void kal_registry_unlock(struct kal_registry *registry);
/* Around a fork: the same, but for the thread that holds it already because a provider's code forks. */
void kal_registry_fork_lock(struct kal_registry *registry);
void kal_registry_fork_unlock(struct kal_registry *registry);

#endif
