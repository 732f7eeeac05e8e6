/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of option values that the parser has accepted, and the typed reading of them. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal_config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct kal_values {
    size_t count;
    struct value {
        char *name, *value; /* own copies: a list of interfaces outlives what options come from */
        uint64_t unit;      /* of a time: nanoseconds */
    } at[];
};

/* An option's default. What its table says wrongly stays as it is: providers with such a table are not loaded. */
static bool put(struct value *at, const struct ri_option *option)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
    const char *value = option->value ? option->value : "";

    if (kal_option_normal(option, value, normal, allowed))
        value = normal;
    at->name = strdup(option->name);
    at->value = strdup(value);
    at->unit = kal_option_unit_ns(option);
    return at->name && at->value;
}

static struct kal_values *room_for(size_t count)
{
    struct kal_values *values = calloc(1, sizeof *values + count * sizeof *values->at);

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

bool kal_values_bool(const struct kal_values *values, const char *name)
{
    const struct value *at = find(values, name);

    assert(at);
    return !strcmp(at->value, "yes");
}

uint64_t kal_values_number(const struct kal_values *values, const char *name)
{
    const struct value *at = find(values, name);

    assert(at);
    return strtoull(at->value, NULL, 10);
}

uint64_t kal_values_ns(const struct kal_values *values, const char *name)
{
    const struct value *at = find(values, name);

    assert(at && at->unit);
    return strtoull(at->value, NULL, 10) * at->unit;
}

void kal_values_destroy(struct kal_values *values)
{
    if (!values)
        return;
    for (size_t i = 0; i < values->count; i++) {
        free(values->at[i].name);
        free(values->at[i].value);
    }
    free(values);
}
