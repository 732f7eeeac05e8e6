/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a provider's descriptor and of its tables. */
#include "rnicpi_tables.h"
#include "rnicpi_util.h"

/* A descriptor of minor 0 has at least this much. */
#define DESCRIPTOR_MIN offsetof(struct ri_provider, reserved)

static_assert(PRIVILEGED_HEAD % SLOT == 0 && USER_HEAD % SLOT == 0, "slots are aligned");
static_assert((sizeof(struct ri_privileged_ops) - PRIVILEGED_HEAD) % SLOT == 0,
              "a table is its head and slots");
static_assert((sizeof(struct ri_user_ops) - USER_HEAD) % SLOT == 0,
              "a table is its head and slots");

static const char *refuse_table(uint32_t size, uint16_t major, size_t head)
{
    if (size < head)
        return "an operation table is smaller than its head";
    if (size % SLOT)
        return "the size of an operation table is no multiple of a pointer's";
    if (major != RI_ABI_MAJOR)
        return "an operation table has another ABI major";
    return NULL;
}

/* A member is read only after the size that covers it. */
static const char *refuse(const struct ri_provider *provider)
{
    const char *why;

    if (!provider)
        return "there is no descriptor";
    if (provider->size < offsetof(struct ri_provider, name))
        return "the descriptor is smaller than its head";
    if (provider->abi_major != RI_ABI_MAJOR)
        return "the descriptor has another ABI major";
    if (provider->size < DESCRIPTOR_MIN || provider->size % SLOT)
        return "the descriptor's size is impossible";
    if (!provider->name || !provider->name[0])
        return "the provider has no name";
    if (!provider->privileged || !provider->user)
        return "an operation table is missing";
    if (provider->option_count && !provider->options)
        return "the option table is missing";
    why = refuse_table(provider->privileged->size, provider->privileged->abi_major,
                       PRIVILEGED_HEAD);
    return why ? why : refuse_table(provider->user->size, provider->user->abi_major, USER_HEAD);
}

enum ri_status ri_provider_check(const struct ri_provider *provider, const char **reason)
{
    const char *why = refuse(provider);

    if (!why)
        return RI_OK;
    *reason = why;
    return RI_ERR_NOT_SUPPORTED;
}

/* ---- operations ---- */

#define ALWAYS 0

#define PRIVILEGED(operation, features)                                              \
    {                                                                                \
#operation, offsetof(struct ri_privileged_ops, operation), false, (features) \
    }
#define USER(operation, features)                                             \
    {                                                                         \
#operation, offsetof(struct ri_user_ops, operation), true, (features) \
    }

#define SERVICE (RI_FEATURE_UD | RI_FEATURE_CONNECTION_SET_A)

/* Operations that a provider needs with any of the features; without features: always. Those of
 * SERVICE: with both. */
static const struct {
    const char *name;
    size_t at;
    bool user;
    uint64_t features;
} needed[] = {
    PRIVILEGED(enumerate, ALWAYS),
    PRIVILEGED(open, ALWAYS),
    PRIVILEGED(close, ALWAYS),
    PRIVILEGED(query, ALWAYS),
    PRIVILEGED(query_port, ALWAYS),
    PRIVILEGED(lane_open, ALWAYS),
    PRIVILEGED(pd_create, ALWAYS),
    PRIVILEGED(pd_destroy, ALWAYS),
    PRIVILEGED(cq_create, ALWAYS),
    PRIVILEGED(cq_destroy, ALWAYS),
    PRIVILEGED(cq_resize, RI_FEATURE_CQ_RESIZE),
    PRIVILEGED(qp_create, ALWAYS),
    PRIVILEGED(qp_modify, ALWAYS),
    PRIVILEGED(qp_query, ALWAYS),
    PRIVILEGED(qp_destroy, ALWAYS),
    PRIVILEGED(srq_create, RI_FEATURE_SRQ),
    PRIVILEGED(srq_modify, RI_FEATURE_SRQ),
    PRIVILEGED(srq_query, RI_FEATURE_SRQ),
    PRIVILEGED(srq_destroy, RI_FEATURE_SRQ),
    PRIVILEGED(mr_register, ALWAYS),
    PRIVILEGED(mr_deregister, ALWAYS),
    PRIVILEGED(mw_allocate, RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE),
    PRIVILEGED(mw_free, RI_FEATURE_MW_NARROW | RI_FEATURE_MW_WIDE),
    PRIVILEGED(ah_create, RI_FEATURE_UD),
    PRIVILEGED(ah_modify, RI_FEATURE_UD),
    PRIVILEGED(ah_destroy, RI_FEATURE_UD),
    PRIVILEGED(connection_create, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(connection_destroy, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(resolve, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(listen, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(listen_destroy, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(connect, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(accept, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(confirm, RI_FEATURE_THREE_WAY | RI_FEATURE_EXTERNAL_QP),
    PRIVILEGED(reject, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(disconnect, RI_FEATURE_CONNECTION_SET_A),
    PRIVILEGED(service_request, SERVICE),
    PRIVILEGED(service_reply, SERVICE),
    PRIVILEGED(local_make, RI_FEATURE_LOCAL),
    PRIVILEGED(local_take, RI_FEATURE_LOCAL),
    PRIVILEGED(local_drop, RI_FEATURE_LOCAL),
    PRIVILEGED(query_gids, RI_FEATURE_QP_NUMBERS),
    PRIVILEGED(multicast_attach, RI_FEATURE_MULTICAST),
    PRIVILEGED(multicast_detach, RI_FEATURE_MULTICAST),
    USER(post_send, ALWAYS),
    USER(post_recv, ALWAYS),
    USER(post_srq_recv, RI_FEATURE_SRQ),
    USER(poll, ALWAYS),
    USER(arm, ALWAYS),
    USER(cq_peek, RI_FEATURE_CQ_PEEK),
    USER(progress, ALWAYS),
    USER(lane_arm, ALWAYS),
};

static bool has(const void *table, uint32_t size, size_t at)
{
    static void (*const absent)(void);

    return at + SLOT <= size && memcmp((const char *)table + at, &absent, SLOT) != 0;
}

static bool is_needed(uint64_t with, uint64_t features)
{
    if (with == SERVICE)
        return (features & SERVICE) == SERVICE;
    return !with || features & with;
}

const char *ri_missing_operation(const struct ri_privileged_ops *privileged,
                                 const struct ri_user_ops *user, uint64_t features)
{
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        const void *table = needed[i].user ? (const void *)user : privileged;
        uint32_t size = needed[i].user ? user->size : privileged->size;

        if (!is_needed(needed[i].features, features))
            continue;
        if (!has(table, size, needed[i].at))
            return needed[i].name;
    }
    return NULL;
}
