/* SPDX-License-Identifier: BSD-3-Clause */
/* An open RNIC as the folders above see it. */
#ifndef ITAL_KAL_RNIC_H
#define ITAL_KAL_RNIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "kal/config/kal_config.h"
#include "kal/report/report.h"

#include "base/address.h"

struct kal;
struct kal_host;
struct kal_provider;
struct kal_cm;
struct kal_capture;
struct kal_monitor;
struct kal_filters;

#define KAL_PORT_SEEN_ADDRESSES 8u

/* What the provider said last of its first port. */
struct kal_port_seen {
    bool known; /* false: it was not asked yet */
    bool online;
    uint32_t mtu;
    char name[64];
    uint32_t address_count;
    union address addresses[KAL_PORT_SEEN_ADDRESSES];
};

/* How pages are pinned (ital.conf(5), option pin). */
enum kal_pin_way { KAL_PIN_NONE, KAL_PIN_LOCK, KAL_PIN_HOLD };

/* The word of the option: "hold". */
static inline const char *kal_pin_way_name(enum kal_pin_way way)
{
    return way == KAL_PIN_NONE ? "none" : way == KAL_PIN_LOCK ? "lock" : "hold";
}

/* What the interface wants: options pin and pin_strict, and the provider's feature. */
struct kal_pin_wish {
    enum kal_pin_way way;
    bool or_lock; /* lock where the system, or a mapping, does not allow to hold */
    bool strict;  /* refuse what cannot be pinned */
};

/* How often something was refused, by cause. Relaxed; any thread. */
struct kal_refused {
    _Atomic uint64_t quota[KAL_ACCOUNT_KINDS];
    _Atomic uint64_t policy[RI_POLICY_REQUEST + 1]; /* by direction */
    _Atomic uint64_t pins;                          /* refused, or left unpinned */
};

/* Sums of counters of QPs, in the provider's order. */
struct kal_traffic {
    size_t count;
    const char *names[KAL_SEEN_COUNTERS]; /* static */
    uint64_t values[KAL_SEEN_COUNTERS];
};

/* Adds each value to the sum of that name. */
void kal_traffic_add(struct kal_traffic *traffic, size_t count, const char *const *names,
                     const uint64_t *values);

/* Constant after open, except for the marked members. */
struct kal_rnic {
    struct kal *kal;
    /* Shared by the processes of the host */
    struct kal_host *kal_host;
    /* ual's context, for rnic_event */
    void *context;
    /* = kal->upper */
    const struct kal_upper *upper;
    const struct kal_provider *provider;
    const char *provider_name;
    struct ri_rnic *ri;
    /* Its context points to this struct; providers get &host */
    struct ri_host host;
    struct ri_rnic_attr attr;
    /* The provider's, or the outermost filter's. With defaults: no slot is NULL */
    struct ri_privileged_ops ops;
    struct ri_user_ops user_ops;
    /* Name in the configuration; NULL: only probed */
    char *interface;
    /* NULL: the provider's default */
    char *device;
    /* Every option of the interface, configured or default */
    struct kal_values *options;
    /* Live objects of this RNIC; used by kal/host/host.c */
    _Atomic uint64_t holds[KAL_ACCOUNT_KINDS];
    /* Counted by kal/host/host.c */
    struct kal_refused refused;
    struct kal_pin_wish pin;
    /* Used by the connection manager */
    struct kal_cm *cm;
    /* Converted sockets of consumers, and failed conversions; used by cm */
    _Atomic uint64_t conversions, conversions_failed;
    /* The log has an event of a QP that is not there */
    atomic_bool none_reported;
    /* NULL: none */
    struct kal_filters *filters;
    /* NULL: off */
    struct kal_capture *capture;
    /* Set by the first kal_lane_open */
    struct kal_monitor *monitor;
    /* Leaf; guards `port` and `gone` */
    pthread_mutex_t port_lock;
    struct kal_port_seen port;
    /* The counters of QPs that were destroyed while the process shows its state */
    struct kal_traffic gone;
    /* The sums that were shown last; used by the thread of kal/state */
    struct kal_traffic shown;
    /* Octets of its regions */
    _Atomic uint64_t registered;
    /* kal->rnics, and: the provider is being closed. Under rnics_lock */
    struct kal_rnic *prev, *next;
    bool closing;
};

static inline struct kal_rnic *kal_rnic_of_host(const struct ri_host *host)
{
    return host->context;
}

/* Any thread. */
struct kal_traffic kal_rnic_gone(struct kal_rnic *rnic);
/* Any thread; does not ask the provider. */
struct kal_port_seen kal_rnic_port_seen(struct kal_rnic *rnic);

/* What the provider answered to a control verb other than close, as kal passes it on: a status of
 * rnicpi.h that such a verb may answer. RI_ERR_QUEUE_FULL becomes NO_RESOURCES, AGAIN becomes BUSY.
 * Any thread. */
enum ri_status kal_rnic_answer(enum ri_status answer);

/* Logs with "NAME: " of the interface in front. */
void kal_rnic_log(const struct kal_rnic *rnic, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, for a line whose cause is not its own format. */
void kal_rnic_log_cause(const struct kal_rnic *rnic, enum ri_log_level level, const char *cause,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
