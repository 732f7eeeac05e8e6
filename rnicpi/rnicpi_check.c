/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loader does with a provider's tables: is it one of ours, and fill what it does not have. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rnicpi.h"

#include <string.h>

#define SLOT sizeof(void (*)(void))

/* Where the operations begin; what lies before has the same place in every minor. */
#define PRIVILEGED_HEAD offsetof(struct ri_privileged_ops, enumerate)
#define USER_HEAD       offsetof(struct ri_user_ops, post_send)

/* A descriptor of minor 0 has at least this much. */
#define DESCRIPTOR_MIN offsetof(struct ri_provider, reserved)

static_assert(PRIVILEGED_HEAD % SLOT == 0 && USER_HEAD % SLOT == 0, "slots are aligned");
static_assert((sizeof(struct ri_privileged_ops) - PRIVILEGED_HEAD) % SLOT == 0,
              "a table is its head and slots");
static_assert((sizeof(struct ri_user_ops) - USER_HEAD) % SLOT == 0,
              "a table is its head and slots");

const char *ri_status_name(enum ri_status status)
{
    static const char *const names[RI_STATUS_COUNT] = {
        [RI_OK] = "RI_OK",
        [RI_ERR_NOT_SUPPORTED] = "RI_ERR_NOT_SUPPORTED",
        [RI_ERR_INVALID_ARGUMENT] = "RI_ERR_INVALID_ARGUMENT",
        [RI_ERR_INVALID_STATE] = "RI_ERR_INVALID_STATE",
        [RI_ERR_NO_RESOURCES] = "RI_ERR_NO_RESOURCES",
        [RI_ERR_LIMIT] = "RI_ERR_LIMIT",
        [RI_ERR_QUEUE_FULL] = "RI_ERR_QUEUE_FULL",
        [RI_ERR_BUSY] = "RI_ERR_BUSY",
        [RI_ERR_AGAIN] = "RI_ERR_AGAIN",
        [RI_ERR_ADDRESS] = "RI_ERR_ADDRESS",
        [RI_ERR_ACCESS] = "RI_ERR_ACCESS",
        [RI_ERR_PERMISSION] = "RI_ERR_PERMISSION",
        [RI_ERR_ADDRESS_IN_USE] = "RI_ERR_ADDRESS_IN_USE",
        [RI_ERR_UNREACHABLE] = "RI_ERR_UNREACHABLE",
        [RI_ERR_TIMED_OUT] = "RI_ERR_TIMED_OUT",
        [RI_ERR_DEVICE] = "RI_ERR_DEVICE",
    };

    return (unsigned int)status < RI_STATUS_COUNT ? names[status] : "RI_ERR_(unknown)";
}

/* Both tables have `room` octets at most; what is NULL or past in_size stays as it is in out. */
static void complete(void *out, size_t room, const void *in, size_t in_size, size_t head)
{
    static void (*const absent)(void);
    const char *from = in;
    char *to = out;

    for (size_t at = head; at + SLOT <= room && at + SLOT <= in_size; at += SLOT)
        if (memcmp(from + at, &absent, SLOT))
            memcpy(to + at, from + at, SLOT);
}

void ri_complete_privileged_ops(struct ri_privileged_ops *out, const struct ri_privileged_ops *in)
{
    struct ri_privileged_ops table = ri_default_privileged_ops;

    complete(&table, sizeof(table), in, in->size, PRIVILEGED_HEAD);
    *out = table;
}

void ri_complete_user_ops(struct ri_user_ops *out, const struct ri_user_ops *in)
{
    struct ri_user_ops table = ri_default_user_ops;

    complete(&table, sizeof(table), in, in->size, USER_HEAD);
    *out = table;
}

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

/* Nothing is read that the sizes read before do not cover. */
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
