/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file as data, and the options that it may hold. */
#ifndef ITAL_KAL_KAL_CONFIG_H
#define ITAL_KAL_KAL_CONFIG_H

#include "kal.h"
#include "quota.h"

#include <stdio.h>

#define KAL_VALUE_MAX   512 /* octets of a value with its NUL */
#define KAL_ALLOWED_MAX 256 /* octets of what is allowed instead, with its NUL */

/* ---- options.c: the options of [ital] and [policy], and which device an interface is ---- */

extern const struct ri_option kal_ital_options[];
extern const size_t kal_ital_option_count;
extern const struct ri_option kal_policy_options[];
extern const size_t kal_policy_option_count;
extern const struct ri_option kal_section_options[];
extern const size_t kal_section_option_count;

/* ---- interface_options.c: the options of an interface, kal's first, then its provider's ---- */

/* kal's own, which every interface has. */
extern const struct ri_option kal_interface_options[];
extern const size_t kal_interface_option_count;

/*
 * Entry `index` of all options of an interface whose provider has the table `own`: a copy that
 * borrows its strings. One of kal's has the default that the provider's table gives it, where it
 * gives one. False: there are no more.
 */
bool kal_interface_option(const struct ri_option *own, size_t count, size_t index,
                          struct ri_option *option);
bool kal_interface_option_find(const struct ri_option *own, size_t count, const char *name,
                               struct ri_option *option); /* false: unknown */

/* Is a provider's table sound: names, types, defaults in their ranges, and kal's options used as
 * kal has them? Else *why says. */
bool kal_provider_options_check(const struct ri_option *own, size_t count, char *why, size_t room);

/* ---- value.c: the one parser ---- */

/*
 * Check a value against its option's type and range, and write its normal form: "yes" or "no"; a
 * plain decimal number in the option's unit ("64k" of a size: "65536", "10s" of a time in ms:
 * "10000"); an enum's word; other text as it is. False: normal is unchanged and `allowed` has the
 * values that are allowed.
 */
bool kal_option_normal(const struct ri_option *option, const char *value,
                       char normal[KAL_VALUE_MAX], char allowed[KAL_ALLOWED_MAX]);

/* How an option is read, and a value of it in normal form as that. */
enum ri_option_kind kal_option_kind(const struct ri_option *option);
union ri_option_value kal_option_typed(const struct ri_option *option, const char *normal);

/* Nanoseconds of the unit of a time; 0: it is no time, or its unit is unknown. */
uint64_t kal_option_unit_ns(const struct ri_option *option);

/* ---- values.c: tables of values ---- */

/* Values in normal form, configured or default; every one in its range. NULL: memory. */
struct kal_values;
struct kal_values *kal_values_create(const struct ri_option *options, size_t count);
/* The same for all options of an interface whose provider has the table `own`. */
struct kal_values *kal_values_of_interface(const struct ri_option *own, size_t own_count);
struct kal_values *kal_values_copy(const struct kal_values *values); /* NULL: memory */
bool kal_values_set(struct kal_values *values, const char *name,
                    const char *normal); /* false: memory */
const char *kal_values_get(const struct kal_values *values,
                           const char *name); /* NULL: unknown option */
void kal_values_destroy(struct kal_values *values);

/* As ri_host.option, for the host of a provider: if the status is not RI_OK *wrong has the
 * provider's mistake, to be read behind "it asks for option NAME". Else NULL. */
enum ri_status kal_values_read(const struct kal_values *values, const char *name,
                               enum ri_option_kind kind, union ri_option_value *value,
                               const char **wrong);

/* For kal's own options only: `name` is in the table and of that kind; of kal_values_ns a time. */
bool kal_values_bool(const struct kal_values *values, const char *name);
uint64_t kal_values_number(const struct kal_values *values, const char *name);
uint32_t kal_values_word(const struct kal_values *values, const char *name);
uint64_t kal_values_ns(const struct kal_values *values, const char *name); /* in nanoseconds */

/* ---- config.c: the files ---- */

struct kal_setting {
    char *name, *value;
    const char *file; /* one of kal_config.files */
    unsigned line;
    bool warned; /* interfaces.c, under the registry's lock */
    struct kal_setting *next;
};

struct kal_interface_section {
    char *name;
    const char *file; /* where it stands first */
    unsigned line;
    /* In the order of the files; those of kal_section_options among them. */
    struct kal_setting *settings;
    struct kal_interface_section *next;
};

/* A path that was read. */
struct kal_config_file {
    char *path;
    struct kal_config_file *next;
};

struct kal_config {
    struct kal_config_file *files; /* in the order of reading; none: defaults */
    char *source;                  /* their paths, each separated by ", "; NULL: defaults */
    struct kal_values *ital;       /* normal forms of section [ital], environment applied */
    uint64_t quota[KAL_ACCOUNT_KINDS];
    struct kal_setting *rules; /* section [policy], in the order of the files */
    struct kal_setting *seen;  /* options that [ital] and [quota] have set, to find repetitions */
    struct kal_interface_section *interfaces;
    const char *env_provider_path; /* ITAL_PROVIDER_PATH or NULL; own copy */
    const char *env_interface;     /* ITAL_INTERFACE or NULL; own copy */
    bool default_warned;           /* interfaces.c, under the registry's lock */
};

/* How the environment is read: getenv-like. secure_getenv outside of tests. */
typedef char *(*kal_getenv_fn)(const char *name);

/* Read the configuration: ital.conf, then conf.d beside it; with ITAL_CONF that file, then the
 * folder of its name and ".d". Everything wrong in a file is logged, with file and line. */
enum kal_status kal_config_load(kal_getenv_fn get, struct kal_config **config);
void kal_config_free(struct kal_config *config);
/* Warn about unknown ITAL_* variables. */
void kal_config_check_environment(char *const *environment);

/* Tests: read where ITAL_CONF names none, instead of the installed one. NULL: the installed one. */
extern const char *kal_config_file_is;

/* ---- format.c ---- */

/* The caller's own. NULL: memory. */
char *kal_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- files.c: which files, and their opening ---- */

/*
 * Open a configuration file. NULL with *status KAL_OK: it does not exist and need not. Else it was
 * logged why, and `advice` what to do.
 */
FILE *kal_config_open(const char *path, bool needed, const char *advice, enum kal_status *status);

/*
 * The files that are read behind the one at `path`, in their order: FOLDER/NAME.conf, sorted by the
 * octets of NAME.conf, those that begin with a dot left out. FOLDER is conf.d beside the file; of
 * one that ITAL_CONF names (`asked`), path.d. No folder: none. Logged, but for want of memory.
 */
enum kal_status kal_config_more(const char *path, bool asked, struct kal_config_file **files);
void kal_config_files_free(struct kal_config_file *files);

const struct kal_setting *kal_setting_find(const struct kal_setting *list, const char *name);

#endif
