/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Loads the system's rdma-core in a namespace, and wraps its calls.
 *
 * A namespace has a C library of its own, with its own heap, errno and locale. So its objects are
 * freed by its own functions only; each call takes errno there and back; and in each thread its
 * locale is set once, because the C library sets it only for the thread that loads it, and
 * functions such as sscanf read it. The namespace is never unloaded: the kernel's objects of
 * rdma-core outlive a provider.
 */
#include "apart.h"

#include "calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VERBS   "libibverbs.so.1"
#define MANAGER "librdmacm.so.1"

#ifndef RDMACORE_LIBDIR /* where configure found rdma-core */
#define RDMACORE_LIBDIR "/usr/lib"
#endif

/* C: calls that return something; V: that do not. Name in the table, symbol, parameters. */
#define CALLS(C, V)                                                                               \
    C(struct ibv_device **, get_device_list, ibv_get_device_list, (int *count), (count))          \
    V(free_device_list, ibv_free_device_list, (struct ibv_device * *list), (list))                \
    C(struct ibv_context *, open_device, ibv_open_device, (struct ibv_device * device), (device)) \
    C(int, close_device, ibv_close_device, (struct ibv_context * context), (context))             \
    C(struct ibv_pd *, alloc_pd, ibv_alloc_pd, (struct ibv_context * context), (context))         \
    C(int, dealloc_pd, ibv_dealloc_pd, (struct ibv_pd * pd), (pd))                                \
    C(int, dereg_mr, ibv_dereg_mr, (struct ibv_mr * mr), (mr))                                    \
    C(struct ibv_comp_channel *, create_comp_channel, ibv_create_comp_channel,                    \
      (struct ibv_context * context), (context))                                                  \
    C(int, destroy_comp_channel, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel),   \
      (channel))                                                                                  \
    C(struct ibv_cq *, create_cq, ibv_create_cq,                                                  \
      (struct ibv_context * context, int depth, void *cq_context,                                 \
       struct ibv_comp_channel *channel, int vector),                                             \
      (context, depth, cq_context, channel, vector))                                              \
    C(int, resize_cq, ibv_resize_cq, (struct ibv_cq * cq, int depth), (cq, depth))                \
    C(int, destroy_cq, ibv_destroy_cq, (struct ibv_cq * cq), (cq))                                \
    C(int, get_cq_event, ibv_get_cq_event,                                                        \
      (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **cq_context),                \
      (channel, cq, cq_context))                                                                  \
    V(ack_cq_events, ibv_ack_cq_events, (struct ibv_cq * cq, unsigned int count), (cq, count))    \
    C(struct ibv_srq *, create_srq, ibv_create_srq,                                               \
      (struct ibv_pd * pd, struct ibv_srq_init_attr * attr), (pd, attr))                          \
    C(int, modify_srq, ibv_modify_srq,                                                            \
      (struct ibv_srq * srq, struct ibv_srq_attr * attr, int mask), (srq, attr, mask))            \
    C(int, destroy_srq, ibv_destroy_srq, (struct ibv_srq * srq), (srq))                           \
    C(struct ibv_ah *, create_ah, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr * attr), \
      (pd, attr))                                                                                 \
    C(int, destroy_ah, ibv_destroy_ah, (struct ibv_ah * ah), (ah))                                \
    C(struct ibv_qp *, create_qp, ibv_create_qp,                                                  \
      (struct ibv_pd * pd, struct ibv_qp_init_attr * attr), (pd, attr))                           \
    C(int, modify_qp, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask),   \
      (qp, attr, mask))                                                                           \
    C(int, query_qp, ibv_query_qp,                                                                \
      (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask, struct ibv_qp_init_attr *init),   \
      (qp, attr, mask, init))                                                                     \
    C(int, destroy_qp, ibv_destroy_qp, (struct ibv_qp * qp), (qp))                                \
    C(int, attach_mcast, ibv_attach_mcast,                                                        \
      (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))               \
    C(int, detach_mcast, ibv_detach_mcast,                                                        \
      (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))               \
    C(int, get_async_event, ibv_get_async_event,                                                  \
      (struct ibv_context * context, struct ibv_async_event * event), (context, event))           \
    V(ack_async_event, ibv_ack_async_event, (struct ibv_async_event * event), (event))            \
    C(struct rdma_event_channel *, create_event_channel, rdma_create_event_channel, (void), ())   \
    V(destroy_event_channel, rdma_destroy_event_channel, (struct rdma_event_channel * channel),   \
      (channel))                                                                                  \
    C(int, get_cm_event, rdma_get_cm_event,                                                       \
      (struct rdma_event_channel * channel, struct rdma_cm_event * *event), (channel, event))     \
    C(int, ack_cm_event, rdma_ack_cm_event, (struct rdma_cm_event * event), (event))              \
    C(int, create_id, rdma_create_id,                                                             \
      (struct rdma_event_channel * channel, struct rdma_cm_id * *id, void *context,               \
       enum rdma_port_space ps),                                                                  \
      (channel, id, context, ps))                                                                 \
    C(int, destroy_id, rdma_destroy_id, (struct rdma_cm_id * id), (id))                           \
    C(int, bind_addr, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr * address),        \
      (id, address))                                                                              \
    C(int, listen, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog))             \
    C(int, resolve_addr, rdma_resolve_addr,                                                       \
      (struct rdma_cm_id * id, struct sockaddr * source, struct sockaddr * destination,           \
       int timeout_ms),                                                                           \
      (id, source, destination, timeout_ms))                                                      \
    C(int, resolve_route, rdma_resolve_route, (struct rdma_cm_id * id, int timeout_ms),           \
      (id, timeout_ms))                                                                           \
    C(int, init_qp_attr, rdma_init_qp_attr,                                                       \
      (struct rdma_cm_id * id, struct ibv_qp_attr * attr, int *mask), (id, attr, mask))           \
    C(int, connect, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param * param),       \
      (id, param))                                                                                \
    C(int, establish, rdma_establish, (struct rdma_cm_id * id), (id))                             \
    C(int, accept, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param * param),         \
      (id, param))                                                                                \
    C(int, reject, rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t length),       \
      (id, data, length))                                                                         \
    C(int, disconnect, rdma_disconnect, (struct rdma_cm_id * id), (id))                           \
    C(int, notify, rdma_notify, (struct rdma_cm_id * id, enum ibv_event_type event), (id, event)) \
    C(int, set_option, rdma_set_option,                                                           \
      (struct rdma_cm_id * id, int level, int option, void *value, size_t length),                \
      (id, level, option, value, length))

/* What was found in the namespace. */
static struct {
    struct rdmacore_calls calls;
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                             unsigned int access);
    int (*query_gid)(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ibv_gid_entry *entry, uint32_t flags, size_t size);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int *(*error)(void);
    locale_t (*use_locale)(locale_t locale);
} apart;

/* ---- calls ---- */

static _Thread_local bool has_locale;

static void enter(void)
{
    if (!has_locale)
        apart.use_locale(LC_GLOBAL_LOCALE);
    has_locale = true;
    *apart.error() = errno;
}

static void leave(void)
{
    errno = *apart.error();
}

#define WRAP(RESULT, NAME, SYMBOL, PARAMETERS, ARGUMENTS) \
    static RESULT NAME##_apart PARAMETERS                 \
    {                                                     \
        RESULT result;                                    \
                                                          \
        enter();                                          \
        result = apart.calls.NAME ARGUMENTS;              \
        leave();                                          \
        return result;                                    \
    }
#define WRAP_VOID(NAME, SYMBOL, PARAMETERS, ARGUMENTS) \
    static void NAME##_apart PARAMETERS                \
    {                                                  \
        enter();                                       \
        apart.calls.NAME ARGUMENTS;                    \
        leave();                                       \
    }
CALLS(WRAP, WRAP_VOID)

/* What rdma-core's headers define as inline functions: those would call a symbol of the libraries
 * in front where the driver lacks the operation. */

static int query_device_apart(struct ibv_context *context, struct ibv_device_attr_ex *attr)
{
    struct verbs_context *verbs = verbs_get_ctx_op(context, query_device_ex);
    int error = EOPNOTSUPP;

    enter();
    if (verbs)
        error = verbs->query_device_ex(context, NULL, attr, sizeof(*attr));
    if (error == EOPNOTSUPP || error == ENOSYS) {
        memset(attr, 0, sizeof(*attr));
        error = apart.query_device(context, &attr->orig_attr);
    }
    leave();
    return error;
}

static int query_port_apart(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);
    int error = EOPNOTSUPP;

    enter();
    if (verbs)
        error = verbs->query_port(context, port, attr, sizeof(*attr));
    leave();
    return error;
}

static int query_gid_apart(struct ibv_context *context, uint32_t port, uint32_t index,
                           struct ibv_gid_entry *entry)
{
    int error;

    enter();
    error = apart.query_gid(context, port, index, entry, 0, sizeof(*entry));
    leave();
    return error;
}

static struct ibv_mr *reg_mr_iova_apart(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                        int access)
{
    struct ibv_mr *mr;

    enter();
    mr = apart.reg_mr(pd, addr, length, iova, (unsigned int)access);
    leave();
    return mr;
}

static struct ibv_mr *reg_mr_apart(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return reg_mr_iova_apart(pd, addr, length, (uintptr_t)addr, access);
}

static struct ibv_mw *alloc_mw_apart(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct ibv_mw *mw;

    enter();
    mw = ibv_alloc_mw(pd, type);
    leave();
    return mw;
}

static int dealloc_mw_apart(struct ibv_mw *mw)
{
    int error;

    enter();
    error = ibv_dealloc_mw(mw);
    leave();
    return error;
}

#define MEMBER(RESULT, NAME, SYMBOL, PARAMETERS, ARGUMENTS) .NAME = NAME##_apart,
#define MEMBER_VOID(NAME, SYMBOL, PARAMETERS, ARGUMENTS)    .NAME = NAME##_apart,
/* clang-format off */
static struct rdmacore_calls wrapped = {
    CALLS(MEMBER, MEMBER_VOID)
    .query_device = query_device_apart,
    .query_port = query_port_apart,
    .query_gid = query_gid_apart,
    .reg_mr = reg_mr_apart,
    .reg_mr_iova = reg_mr_iova_apart,
    .alloc_mw = alloc_mw_apart,
    .dealloc_mw = dealloc_mw_apart,
};

/* Where the address of each symbol goes. */
#define PLACE(RESULT, NAME, SYMBOL, PARAMETERS, ARGUMENTS) { &apart.calls.NAME, #SYMBOL },
#define PLACE_VOID(NAME, SYMBOL, PARAMETERS, ARGUMENTS)    { &apart.calls.NAME, #SYMBOL },
static const struct {
    void *place;
    const char *symbol;
} places[] = {
    CALLS(PLACE, PLACE_VOID)
    { &apart.reg_mr, "ibv_reg_mr_iova2" },
    { &apart.query_gid, "_ibv_query_gid_ex" },
    { &apart.query_device, "ibv_query_device" },
    { &apart.error, "__errno_location" },
    { &apart.use_locale, "uselocale" },
};
/* clang-format on */

int rdmacore_last_errno(void)
{
    return apart.error ? *apart.error() : errno;
}

/* ---- loading ---- */

/* ital's library exports this to its librdmacm. */
static bool is_itals(void *library)
{
    return dlsym(library, "vb_errno") != NULL;
}

#define SAY(text, ...) snprintf((text), sizeof(text), __VA_ARGS__)

/* Neither knows a second C library: a sanitizer's runtime crashes, valgrind replaces its heap. */
static bool can_load(struct apart_reason *why)
{
    const char *preloaded = getenv("LD_PRELOAD");
    bool valgrind = preloaded && strstr(preloaded, "vgpreload");

    if (!valgrind && !dlsym(RTLD_DEFAULT, "__sanitizer_report_error_summary"))
        return true;
    SAY(why->reason, "no device: under %s the system's libibverbs cannot be loaded beside ital's",
        valgrind ? "valgrind" : "a sanitizer");
    SAY(why->advice, "run the program without it, or over softrdma");
    return false;
}

/* Stores the addresses of all symbols. */
static bool resolve(void *manager, struct apart_reason *why)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        void *symbol = dlsym(manager, places[i].symbol); /* also in what it depends on */

        if (!symbol) {
            SAY(why->reason, "no device: the system's rdma-core has no %s", places[i].symbol);
            SAY(why->advice, "install rdma-core 33 or later");
            apart.error = NULL;
            return false;
        }
        memcpy(places[i].place, &symbol, sizeof(symbol));
    }
    return true;
}

/* The manager needs libibverbs, and finds by its soname the one that is there already. */
static bool load_from(const char *folder, struct apart_reason *why)
{
    char path[PATH_MAX];
    Lmid_t space;
    void *verbs, *manager;

    snprintf(path, sizeof(path), "%s/" VERBS, folder);
    verbs = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    if (!verbs) {
        SAY(why->reason, "no device: %s", dlerror());
        return false;
    }
    snprintf(path, sizeof(path), "%s/" MANAGER, folder);
    manager = is_itals(verbs) || dlinfo(verbs, RTLD_DI_LMID, &space)
                  ? NULL
                  : dlmopen(space, path, RTLD_NOW | RTLD_LOCAL);
    if (manager && resolve(manager, why))
        return true;
    if (!manager && !is_itals(verbs))
        SAY(why->reason, "no device: %s", dlerror());
    if (manager)
        dlclose(manager);
    dlclose(verbs);
    return false;
}

static bool is_another(const char *folder, const struct stat *front)
{
    char path[PATH_MAX];
    struct stat found;

    return (size_t)snprintf(path, sizeof(path), "%s/" VERBS, folder) < sizeof(path) &&
           stat(path, &found) == 0 &&
           (found.st_dev != front->st_dev || found.st_ino != front->st_ino);
}

/* The folders in which the dynamic linker looks, without that of ital's libraries. */
static bool load_from_path(void *library, const struct stat *front, struct apart_reason *why)
{
    Dl_serinfo size, *list;
    bool loaded = false;

    if (dlinfo(library, RTLD_DI_SERINFOSIZE, &size))
        return false;
    list = malloc(size.dls_size);
    if (!list)
        return false;
    memcpy(list, &size, sizeof(size));
    if (dlinfo(library, RTLD_DI_SERINFOSIZE, list) == 0 &&
        dlinfo(library, RTLD_DI_SERINFO, list) == 0)
        for (unsigned int i = 0; i < list->dls_cnt && !loaded; i++)
            loaded = is_another(list->dls_serpath[i].dls_name, front) &&
                     load_from(list->dls_serpath[i].dls_name, why);
    free(list);
    return loaded;
}

/* The file of a function, and the file's number. */
static bool file_of(const void *function, Dl_info *info, struct stat *file)
{
    return dladdr(function, info) && info->dli_fname && stat(info->dli_fname, file) == 0;
}

static bool load(void *library, struct apart_reason *why)
{
    struct stat front;
    Dl_info info;

    SAY(why->reason,
        "no device: ital's libibverbs is in front, and the system's was not found behind it");
    SAY(why->advice, "install rdma-core (Debian: libibverbs1 librdmacm1), or name its folder in "
                     "LD_LIBRARY_PATH");
    if (!can_load(why) || !file_of(dlsym(library, "vb_errno"), &info, &front))
        return false;
    return load_from_path(library, &front, why) ||
           (is_another(RDMACORE_LIBDIR, &front) && load_from(RDMACORE_LIBDIR, why));
}

/* This module must stay, as the namespace does: loaded again it would make another one. */
static void stay(void)
{
    Dl_info info;

    if (dladdr(&apart, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static struct apart_reason wanting; /* "": nothing is */

static void decide(void)
{
    void *library = dlopen(VERBS, RTLD_LAZY | RTLD_NOLOAD);

    if (rdmacore == &rdmacore_real && library && is_itals(library)) {
        if (load(library, &wanting)) {
            wanting.reason[0] = 0;
            wrapped.class_folder = rdmacore_real.class_folder;
            wrapped.verbs_folder = rdmacore_real.verbs_folder;
            wrapped.node_folder = rdmacore_real.node_folder;
            wrapped.memlock = rdmacore_real.memlock;
            rdmacore = &wrapped;
        }
        stay();
    }
    if (library)
        dlclose(library);
}

bool rdmacore_ready(struct apart_reason *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, decide);
    *why = wanting;
    return !wanting.reason[0];
}
