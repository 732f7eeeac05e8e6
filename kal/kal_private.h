/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rooms of kal share: the instance, an open RNIC, and what each room offers to the
 * others. */
#ifndef ITAL_KAL_PRIVATE_H
#define ITAL_KAL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "kal.h"
#include "kal/config/kal_config.h"
#include "kal/host/host.h"
#include "kal/registry/registry.h"

/* The process's kal. Fixed between the first kal_get and the last kal_put unless marked. */
struct kal {
    const struct kal_upper *upper;
    unsigned count; /* under the instance mutex of kal.c: kal_get + open RNICs */
    struct kal_config *config;
    struct kal_host *host;        /* own locks */
    struct kal_registry registry; /* own lock */
    pthread_mutex_t rnics_lock;   /* leaf: rnics only */
    struct kal_rnic *rnics;       /* utlist, by next/prev; for fork and for listing */
};

struct kal_cm;      /* cm.c's part of an RNIC */
struct kal_monitor; /* monitor.c's */

/* One open RNIC. Everything but the marked members is fixed at open. */
struct kal_rnic {
    struct kal *kal;
    void *context;                 /* ual's, for rnic_event */
    const struct kal_upper *upper; /* = kal->upper */
    const struct kal_provider *provider;
    struct ri_rnic *ri;
    struct ri_host host; /* host.context points back here; pass &host to a provider */
    struct ri_rnic_attr attr;
    struct ri_privileged_ops ops; /* completed: no slot is NULL */
    struct ri_user_ops user_ops;
    char *interface;              /* its name in the configuration */
    char *device;                 /* NULL: the provider's default */
    struct kal_values *options;   /* every option of the provider, as configured else default */
    struct kal_holdings holdings; /* what is alive on this RNIC */
    struct kal_cm *cm;            /* cm.c's */
    struct kal_capture *capture;  /* capture.c's; NULL: off */
    struct kal_monitor *monitor;  /* monitor.c's, set by the first kal_lane_open */
    struct kal_rnic *prev, *next; /* kal->rnics, under rnics_lock */
};

/* ---- rnic/rnic.c ---- */
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

/* ---- registry/host_services.c ---- */
/* Fill host, options and tables of an RNIC record that is opened or only probed (asking.c). */
void kal_rnic_host_init(struct kal_rnic *rnic);

/* ---- registry/rnic.c ---- */
/* kal_rnic_open and kal_rnic_close but for the count of the instance, which is the caller's. */
enum kal_status kal_registry_open(struct kal *kal, const char *interface, void *context,
                                  struct kal_rnic **rnic);
enum kal_status kal_registry_close(struct kal_rnic *rnic, bool force);

/* ---- report/address.c ---- */
/* Of an address that TCP runs on; 0: of another family. Its text: "host:port", "[host]:port". */
socklen_t kal_address_length(const struct sockaddr *address);
void kal_address_text(const struct sockaddr *address, char *text, size_t size);

/* ---- report/log.c ---- */
void kal_vlog(enum ri_log_level level, const char *prefix, const char *format, va_list args);
/* cause: a string whose address, and no more, stands for the kind of line. */
void kal_vlog_cause(enum ri_log_level level, const char *prefix, const char *cause,
                    const char *format, va_list args);
bool kal_log_wanted(enum ri_log_level level);
/* "level[:stderr|syslog|FILE]". False with *why a static sentence. Takes effect at once. */
bool kal_log_configure(const char *text, const char **why);
bool kal_log_check(const char *text, const char **why); /* the same without effect */
/* Warnings to stderr; closes the file, and ends the thread that writes for the lanes. */
void kal_log_reset(void);
/* No lane is left: the thread ends, what was counted is said, and levels and rates stay. */
void kal_log_settle(void);
/* The log of the child goes to stderr until an instance is made there, and knows nothing of before;
 * async-signal-safe. */
void kal_log_fork_child(void);
/* Who says whether the calling thread is in a run of a lane. Such a thread writes to no descriptor.
 * NULL: none is. */
typedef bool (*kal_inside_fn)(void);
void kal_log_lanes(kal_inside_fn inside);

/* ------------------------------------------------------------------------------------------------
 * What the connection manager (cm*.c) gives to the rest of kal. The calls of kal.h's section
 * "Connections" are the connection manager's too. It counts with kal_rnic_take/give
 * (KAL_ACCOUNT_CONNECTION and KAL_ACCOUNT_LISTENER), which is what kal_rnic_close looks at.
 */

/* At open, after attr is known; sets rnic->cm. */
enum kal_status kal_cm_open(struct kal_rnic *rnic);
/* At close, after it was seen that no object of ual's is left and before the provider is closed.
 * KAL_ERR_AGAIN: work of the manager's own is still under way and `force` is not set. May be
 * repeated. */
enum kal_status kal_cm_close(struct kal_rnic *rnic, bool force);
/* Frees rnic->cm, after the provider was closed (or when the open failed later). NULL cm:
 * nothing. */
void kal_cm_free(struct kal_rnic *rnic);
/* In the child: close descriptors that are in no lane's epoll set. Async-signal-safe, frees
 * nothing. */
void kal_cm_fork_child(struct kal_rnic *rnic);
/* Every qp_event passes here first. True: swallowed (it became a connection_event), false: passed
 * on to ual. */
bool kal_cm_qp_event(struct kal_rnic *rnic, void *qp_context, const struct ri_event *event);
/* Called by kal_qp_destroy before the provider destroys the QP: a connection attached to it forgets
 * it. */
void kal_cm_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp);
/* The set A upcalls of ri_host, for providers with RI_FEATURE_CONNECTION_SET_A. */
void kal_cm_host_request(const struct ri_host *host, void *listener_context,
                         struct ri_connection *connection, const struct ri_connect_request *request,
                         void **connection_context);
void kal_cm_host_event(const struct ri_host *host, void *connection_context,
                       const struct ri_connection_event *event);

#endif
