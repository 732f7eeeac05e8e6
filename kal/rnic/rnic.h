/* SPDX-License-Identifier: BSD-3-Clause */
/* An open RNIC as the folders above see it. */
#ifndef ITAL_KAL_RNIC_H
#define ITAL_KAL_RNIC_H

#include <stdatomic.h>

#include "kal/config/kal_config.h"
#include "kal/report/report.h"

struct kal;
struct kal_host;
struct kal_provider;
struct kal_cm;
struct kal_capture;
struct kal_monitor;

/* Everything but the marked members is fixed at open. */
struct kal_rnic {
    struct kal *kal;
    /* What processes of the host share */
    struct kal_host *kal_host;
    /* ual's, for rnic_event */
    void *context;
    /* = kal->upper */
    const struct kal_upper *upper;
    const struct kal_provider *provider;
    const char *provider_name;
    struct ri_rnic *ri;
    /* Its context points back here; pass &host to a provider */
    struct ri_host host;
    struct ri_rnic_attr attr;
    /* Completed: no slot is NULL */
    struct ri_privileged_ops ops;
    struct ri_user_ops user_ops;
    /* Its name in the configuration; NULL: only probed */
    char *interface;
    /* NULL: the provider's default */
    char *device;
    /* Every option of the interface, as configured else default */
    struct kal_values *options;
    /* Live objects of this RNIC; kal/host/host.c's */
    _Atomic uint64_t holds[KAL_ACCOUNT_KINDS];
    /* The connection manager's */
    struct kal_cm *cm;
    /* Sockets of consumers that became connections, and those that did not; cm's */
    _Atomic uint64_t conversions, conversions_failed;
    /* NULL: off */
    struct kal_capture *capture;
    /* Set by the first kal_lane_open */
    struct kal_monitor *monitor;
    /* kal->rnics, under rnics_lock */
    struct kal_rnic *prev, *next;
};

static inline struct kal_rnic *kal_rnic_of_host(const struct ri_host *host)
{
    return host->context;
}

/* Log with "NAME: " of the interface in front. */
void kal_rnic_log(const struct kal_rnic *rnic, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a line whose cause is another format than the one that makes it. */
void kal_rnic_log_cause(const struct kal_rnic *rnic, enum ri_log_level level, const char *cause,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
