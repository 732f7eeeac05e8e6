/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of option values that the parser has accepted, and the typed reading of them. */
#include "kal_config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct kal_values {
    size_t count;
    struct value {
        /* Copies: a list of interfaces outlives the source of its options. */
        char *name, *value, *type;
        uint64_t unit; /* nanoseconds, for a time */
    } at[];
};

/* Stores an option's default unchecked: providers with an invalid table are not loaded. */
static bool put(struct value *at, const struct ri_option *option)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
    const char *value = option->value ? option->value : "";

    if (kal_option_normal(option, value, normal, allowed))
        value = normal;
    at->name = strdup(option->name);
    at->value = strdup(value);
    at->type = strdup(option->type);
    at->unit = kal_option_unit_ns(option);
    return at->name && at->value && at->type;
}

static struct kal_values *room_for(size_t count)
{
    struct kal_values *values = calloc(1, sizeof(*values) + count * sizeof(*values->at));

    if (values)
        values->count = count;
    return values;
}

struct kal_values *kal_values_create(const struct ri_option *options, size_t count)
{
    struct kal_values *values = room_for(count);

    for (size_t i = 0; values && i < count; i++) {
        if (put(&values->at[i], &options[i]))
            continue;
        kal_values_destroy(values);
        return NULL;
    }
    return values;
}

struct kal_values *kal_values_of_interface(const struct ri_option *own, size_t own_count)
{
    struct kal_values *values;
    struct ri_option option;
    size_t count = 0;

    while (kal_interface_option(own, own_count, count, &option))
        count++;
    values = room_for(count);
    for (size_t i = 0; values && kal_interface_option(own, own_count, i, &option); i++) {
        if (put(&values->at[i], &option))
            continue;
        kal_values_destroy(values);
        return NULL;
    }
    return values;
}

struct kal_values *kal_values_copy(const struct kal_values *values)
{
    struct kal_values *copy = room_for(values->count);

    for (size_t i = 0; copy && i < values->count; i++) {
        const struct value *from = &values->at[i];
        struct value *to = &copy->at[i];

        to->name = strdup(from->name);
        to->value = strdup(from->value);
        to->type = strdup(from->type);
        to->unit = from->unit;
        if (to->name && to->value && to->type)
            continue;
        kal_values_destroy(copy);
        return NULL;
    }
    return copy;
}

static struct value *find(const struct kal_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++)
        if (!strcmp(values->at[i].name, name))
            return (struct value *)&values->at[i];
    return NULL;
}

bool kal_values_set(struct kal_values *values, const char *name, const char *normal)
{
    struct value *at = find(values, name);
    char *copy = at ? strdup(normal) : NULL;

    if (!at)
        return true;
    if (!copy)
        return false;
    free(at->value);
    at->value = copy;
    return true;
}

const char *kal_values_get(const struct kal_values *values, const char *name)
{
    const struct value *at = find(values, name);

    return at ? at->value : NULL;
}

/* The error of a provider that reads the option as this kind. NULL: none. */
static const char *mistake(const struct value *at, enum ri_option_kind kind)
{
    static const char *const wrong[] = {
        [RI_OPTION_BOOL] = " as a bool, which it is not",
        [RI_OPTION_NUMBER] = " as a number, which it is not",
        [RI_OPTION_WORD] = " as a word of an enum, which it is not",
        [RI_OPTION_TEXT] = " as text, which it is not",
    };
    struct ri_option option = { .type = at ? at->type : "" };

    if (!at)
        return ", which its table does not declare, nor has every interface";
    return kal_option_kind(&option) == kind ? NULL : wrong[kind];
}

enum ri_status kal_values_read(const struct kal_values *values, const char *name,
                               enum ri_option_kind kind, union ri_option_value *value,
                               const char **wrong)
{
    const struct value *at = find(values, name);

    *wrong = mistake(at, kind);
    if (*wrong)
        return RI_ERR_INVALID_ARGUMENT;
    *value = kal_option_typed(&(struct ri_option){ .type = at->type }, at->value);
    return RI_OK;
}

/* For kal's own options, which always exist. */
static union ri_option_value take(const struct kal_values *values, const char *name,
                                  enum ri_option_kind kind)
{
    union ri_option_value value = { .number = 0 };
    const char *wrong;

    (void)kal_values_read(values, name, kind, &value, &wrong);
    assert(!wrong);
    return value;
}

bool kal_values_bool(const struct kal_values *values, const char *name)
{
    return take(values, name, RI_OPTION_BOOL).truth;
}

uint64_t kal_values_number(const struct kal_values *values, const char *name)
{
    return take(values, name, RI_OPTION_NUMBER).number;
}

uint32_t kal_values_word(const struct kal_values *values, const char *name)
{
    return take(values, name, RI_OPTION_WORD).word;
}

uint64_t kal_values_ns(const struct kal_values *values, const char *name)
{
    const struct value *at = find(values, name);

    assert(at && at->unit);
    return kal_values_number(values, name) * at->unit;
}

void kal_values_destroy(struct kal_values *values)
{
    if (!values)
        return;
    for (size_t i = 0; i < values->count; i++) {
        free(values->at[i].name);
        free(values->at[i].value);
        free(values->at[i].type);
    }
    free(values);
}
