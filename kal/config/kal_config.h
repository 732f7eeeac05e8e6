/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file as data, and the options that it may hold. */
#ifndef ITAL_KAL_KAL_CONFIG_H
#define ITAL_KAL_KAL_CONFIG_H

#include "kal.h"
#include "kal/host/account.h"

/* ---- options.c: option tables, values ---- */

#define KAL_VALUE_MAX 512 /* octets of a value with its NUL */

/* The options of [ital], [quota] and what kal itself knows in [policy] and [interface NAME]. */
extern const struct ri_option kal_ital_options[];
extern const size_t kal_ital_option_count;
extern const struct ri_option kal_policy_options[];
extern const size_t kal_policy_option_count;
extern const struct ri_option kal_interface_options[];
extern const size_t kal_interface_option_count;
struct ri_option kal_quota_option(enum kal_account_kind kind);

/*
 * Check a value against its option's type and write its normal form: "yes" or "no"; a plain decimal
 * number in the option's unit ("64k" of a size: "65536", "10s" of a time in ms: "10000"); an enum's
 * word; other text as it is. False with *allowed a static or option-owned text that says what is
 * allowed.
 */
bool kal_option_normal(const struct ri_option *option, const char *value,
                       char normal[KAL_VALUE_MAX], const char **allowed);

/* Values of the options of one provider: normal form, configured or default. */
struct kal_values;
struct kal_values *kal_values_create(const struct ri_option *options, size_t count);
bool kal_values_set(struct kal_values *values, const char *name,
                    const char *normal); /* false: memory */
const char *kal_values_get(const struct kal_values *values,
                           const char *name); /* NULL: unknown option */
void kal_values_destroy(struct kal_values *values);

/* ---- config.c: the file ---- */

struct kal_setting {
    char *name, *value;
    unsigned line;
    bool warned; /* interfaces.c, under the registry's lock */
    struct kal_setting *next;
};

struct kal_interface_section {
    char *name;
    unsigned line;
    struct kal_setting *settings; /* in the order of the file; provider and device among them */
    struct kal_interface_section *next;
};

struct kal_config {
    char *source;            /* path read; NULL: defaults */
    struct kal_values *ital; /* normal forms of section [ital], environment applied */
    uint64_t quota[KAL_ACCOUNT_KINDS];
    struct kal_setting *rules; /* section [policy], in the order of the file */
    struct kal_interface_section *interfaces;
    const char *env_provider_path; /* ITAL_PROVIDER_PATH or NULL; own copy */
    const char *env_interface;     /* ITAL_INTERFACE or NULL; own copy */
    bool default_warned;           /* interfaces.c, under the registry's lock */
};

/* How the environment is read: getenv-like. secure_getenv outside of tests. */
typedef char *(*kal_getenv_fn)(const char *name);

/* Read the configuration. Everything wrong in the file is logged, with file and line. */
enum kal_status kal_config_load(kal_getenv_fn get, struct kal_config **config);
void kal_config_free(struct kal_config *config);
/* Warn about ITAL_* variables that nobody knows. */
void kal_config_check_environment(char *const *environment);

const struct kal_setting *kal_setting_find(const struct kal_setting *list, const char *name);

#endif
