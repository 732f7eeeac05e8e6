/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that kal knows, the check of a value against its type, and value tables. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal_config.h"

#include "base/checked.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct ri_option kal_ital_options[] = {
    { "provider_path", "path", "", "folders, separated by colons",
      "Searched for providers (vp_*.so) before all other places." },
    { "log", "string", "warning:stderr", "LEVEL[:stderr|syslog|FILE]",
      "error, warning, info or debug, and where the lines go; ITAL_LOG overrides." },
    { "spin", "time", "20", "us", "How long a wait polls before it sleeps; 0: it sleeps at once." },
    { "default", "string", "", "interface",
      "The interface that stands first and so is taken where none is named; empty: interface "
      "sections, then providers "
      "in a fixed order. ITAL_INTERFACE overrides." },
    { "ask_timeout", "time", "5000", "ms",
      "How long a list of interfaces waits until all providers have listed their devices." },
    { "default_interfaces", "bool", "yes", "",
      "Every usable device is an interface of its own name also when interface sections exist." },
};
const size_t kal_ital_option_count = sizeof kal_ital_options / sizeof *kal_ital_options;

const struct ri_option kal_policy_options[] = {
    { "rule1", "string", "allow any",
      "ACTION DIRECTION [to|from|on PREFIX] [port N[-M]] [user NAME]",
      "rule1, rule2, ... in the order of the file, the first that matches decides; none: allow. "
      "ACTION: "
      "allow, deny. DIRECTION: connect, listen, request, any." },
};
const size_t kal_policy_option_count = sizeof kal_policy_options / sizeof *kal_policy_options;

const struct ri_option kal_interface_options[] = {
    { "provider", "string", "", "name", "Provider of the interface; needed." },
    { "device", "string", "", "name", "Device of the provider; empty: its default." },
};
const size_t kal_interface_option_count = sizeof kal_interface_options /
                                          sizeof *kal_interface_options;

struct ri_option kal_quota_option(enum kal_account_kind kind)
{
    static const char *const texts[KAL_ACCOUNT_KINDS] = {
        [KAL_ACCOUNT_RNIC] = "Interfaces that the process may have open; 0: no limit.",
        [KAL_ACCOUNT_PD] = "Protection zones that the process may have; 0: no limit.",
        [KAL_ACCOUNT_CQ] = "Completion queues that the process may have; 0: no limit.",
        [KAL_ACCOUNT_QP] = "Queue pairs that the process may have; 0: no limit.",
        [KAL_ACCOUNT_SRQ] = "Shared receive queues that the process may have; 0: no limit.",
        [KAL_ACCOUNT_MR] = "Memory regions that the process may have; 0: no limit.",
        [KAL_ACCOUNT_MW] = "Memory windows that the process may have; 0: no limit.",
        [KAL_ACCOUNT_AH] = "Address handles that the process may have; 0: no limit.",
        [KAL_ACCOUNT_CONNECTION] =
            "Connections that may be in set-up or undecided at once; 0: no limit.",
        [KAL_ACCOUNT_LISTENER] = "Listeners that the process may have; 0: no limit.",
        [KAL_ACCOUNT_PINNED] = "Memory that may be pinned for providers that use DMA; 0: no limit.",
    };

    return (struct ri_option){
        .name = kal_account_option(kind),
        .type = kind == KAL_ACCOUNT_PINNED ? "size" : "int",
        .value = "0",
        .unit = kind == KAL_ACCOUNT_PINNED ? "octets" : "",
        .text = texts[kind],
    };
}

/* ---- one value ---- */

static bool normal_bool(const char *value, char *normal)
{
    static const char *const words[2][4] = { { "no", "off", "false", "0" },
                                             { "yes", "on", "true", "1" } };

    for (int truth = 0; truth < 2; truth++) {
        for (int i = 0; i < 4; i++) {
            if (!strcasecmp(value, words[truth][i])) {
                strcpy(normal, words[truth][0]);
                return true;
            }
        }
    }
    return false;
}

static bool normal_int(const char *value, char *normal)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(value, &end, 10);
    if (end == value || *end || errno)
        return false;
    snprintf(normal, KAL_VALUE_MAX, "%lld", number);
    return true;
}

/* Digits at the start; *rest is what follows them and blanks. */
static bool leading_number(const char *value, uint64_t *number, const char **rest)
{
    char *end;

    if (!isdigit((unsigned char)*value))
        return false;
    errno = 0;
    *number = strtoull(value, &end, 10);
    while (*end == ' ' || *end == '\t')
        end++;
    *rest = end;
    return !errno;
}

static bool normal_size(const char *value, char *normal)
{
    static const char letters[] = "kmgt";
    const char *rest, *letter;
    uint64_t number;

    if (!leading_number(value, &number, &rest))
        return false;
    if (*rest) {
        letter = strchr(letters, tolower((unsigned char)*rest));
        if (!letter || (rest[1] && strcasecmp(rest + 1, "ib")) ||
            !checked_mul(number, UINT64_C(1) << (10 * (letter - letters + 1)), &number))
            return false;
    }
    snprintf(normal, KAL_VALUE_MAX, "%llu", (unsigned long long)number);
    return true;
}

/* Nanoseconds of a unit of time; 0 unknown. */
static uint64_t unit_ns(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        { "ns", 1 },
        { "us", 1000 },
        { "\xc2\xb5s", 1000 },
        { "ms", 1000000 },
        { "s", 1000000000 },
        { "min", UINT64_C(60000000000) },
        { "h", UINT64_C(3600000000000) },
    };

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name))
            return units[i].ns;
    return 0;
}

static bool normal_time(const struct ri_option *option, const char *value, char *normal)
{
    uint64_t number, own = unit_ns(option->unit ? option->unit : ""), given;
    const char *rest;

    if (!leading_number(value, &number, &rest))
        return false;
    if (*rest) {
        given = unit_ns(rest);
        if (!own || !given || !checked_mul(number, given, &number) || number % own)
            return false;
        number /= own;
    }
    snprintf(normal, KAL_VALUE_MAX, "%llu", (unsigned long long)number);
    return true;
}

static bool normal_enum(const char *words, const char *value, char *normal)
{
    size_t length;

    for (const char *word = words + strspn(words, " "); *word;
         word += length + (word[length] == '|')) {
        length = strcspn(word, "|");
        if (length && strlen(value) == length && !strncasecmp(word, value, length)) {
            memcpy(normal, word, length);
            normal[length] = '\0';
            return true;
        }
    }
    return false;
}

bool kal_option_normal(const struct ri_option *option, const char *value,
                       char normal[KAL_VALUE_MAX], const char **allowed)
{
    if (strlen(value) >= KAL_VALUE_MAX) {
        *allowed = "at most 511 octets";
        return false;
    }
    if (!strcmp(option->type, "bool")) {
        *allowed = "yes or no";
        return normal_bool(value, normal);
    }
    if (!strcmp(option->type, "int")) {
        *allowed = "a whole number";
        return normal_int(value, normal);
    }
    if (!strcmp(option->type, "size")) {
        *allowed = "a number of octets, or one followed by k, m, g or t";
        return normal_size(value, normal);
    }
    if (!strcmp(option->type, "time")) {
        *allowed = "a whole number of the option's unit, or one followed by us, ms, s, min or h";
        return normal_time(option, value, normal);
    }
    if (!strncmp(option->type, "enum:", 5)) {
        *allowed = option->type + 5 + strspn(option->type + 5, " ");
        return normal_enum(option->type + 5, value, normal);
    }
    *allowed = "text"; /* path, string, and types of a newer minor */
    strcpy(normal, value);
    return true;
}

/* ---- tables of values ---- */

struct kal_values {
    size_t count;
    struct {
        char *name,
            *value; /* own copies: a list of interfaces outlives what options were taken from */
    } at[];
};

struct kal_values *kal_values_create(const struct ri_option *options, size_t count)
{
    struct kal_values *values = calloc(1, sizeof *values + count * sizeof *values->at);
    char normal[KAL_VALUE_MAX];
    const char *allowed;

    if (!values)
        return NULL;
    values->count = count;
    for (size_t i = 0; i < count; i++) {
        const char *value = options[i].value ? options[i].value : "";

        if (kal_option_normal(&options[i], value, normal, &allowed))
            value = normal;
        values->at[i].name = strdup(options[i].name);
        values->at[i].value = strdup(value);
        if (!values->at[i].name || !values->at[i].value) {
            kal_values_destroy(values);
            return NULL;
        }
    }
    return values;
}

bool kal_values_set(struct kal_values *values, const char *name, const char *normal)
{
    char *copy;

    for (size_t i = 0; i < values->count; i++) {
        if (strcmp(values->at[i].name, name))
            continue;
        copy = strdup(normal);
        if (!copy)
            return false;
        free(values->at[i].value);
        values->at[i].value = copy;
    }
    return true;
}

const char *kal_values_get(const struct kal_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++)
        if (!strcmp(values->at[i].name, name))
            return values->at[i].value;
    return NULL;
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
