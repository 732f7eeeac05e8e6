/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration as data, and the options that it may have. */
#ifndef ITAL_KAL_KAL_CONFIG_H
#define ITAL_KAL_KAL_CONFIG_H

#include "kal.h"
#include "quota.h"

#include <stdio.h>

#define KAL_VALUE_MAX   512 /* octets of a value with its NUL */
#define KAL_ALLOWED_MAX 256 /* octets of the text of allowed values, with its NUL */

/* ---- options.c: the options of [ital] and [policy], and those that name an interface's device
 * ---- */

extern const struct ri_option kal_ital_options[];
extern const size_t kal_ital_option_count;
extern const struct ri_option kal_policy_options[];
extern const size_t kal_policy_option_count;
extern const struct ri_option kal_section_options[];
extern const size_t kal_section_option_count;

/* ---- interface_options.c: the options of an interface, kal's first, then its provider's ---- */

/* Options of kal, which every interface has. */
extern const struct ri_option kal_interface_options[];
extern const size_t kal_interface_option_count;

/*
 * Entry `index` of all options of an interface whose provider has the table `own`: a copy that
 * borrows its strings. For an option of kal it has the default of the provider's table, if there is
 * one. False: there are no more.
 */
bool kal_interface_option(const struct ri_option *own, size_t count, size_t index,
                          struct ri_option *option);
bool kal_interface_option_find(const struct ri_option *own, size_t count, const char *name,
                               struct ri_option *option); /* false: unknown */

/* Checks a provider's table: names, types, defaults within their ranges, and correct use of kal's
 * options. False: *why has the reason. */
bool kal_provider_options_check(const struct ri_option *own, size_t count, char *why, size_t room);

/* ---- value.c: the parser of values ---- */

/*
 * Checks a value against its option's type and range, and writes its normal form: "yes" or "no"; a
 * plain decimal number in the option's unit ("64k" of a size: "65536", "10s" of a time in ms:
 * "10000"); an enum's word; other text unchanged. False: normal is unchanged and `allowed`
 * describes the allowed values.
 */
bool kal_option_normal(const struct ri_option *option, const char *value,
                       char normal[KAL_VALUE_MAX], char allowed[KAL_ALLOWED_MAX]);

/* The kind with which an option is read, and the conversion of a normal value to it. */
enum ri_option_kind kal_option_kind(const struct ri_option *option);
union ri_option_value kal_option_typed(const struct ri_option *option, const char *normal);

/* Nanoseconds of the unit of a time option. 0: no time, or an unknown unit. */
uint64_t kal_option_unit_ns(const struct ri_option *option);

/* ---- values.c: tables of values ---- */

/* Values in normal form, configured or default, all within their ranges. NULL: no memory. */
struct kal_values;
struct kal_values *kal_values_create(const struct ri_option *options, size_t count);
/* The values of all options of an interface whose provider has the table `own`. */
struct kal_values *kal_values_of_interface(const struct ri_option *own, size_t own_count);
struct kal_values *kal_values_copy(const struct kal_values *values); /* NULL: no memory */
bool kal_values_set(struct kal_values *values, const char *name,
                    const char *normal); /* false: no memory */
const char *kal_values_get(const struct kal_values *values,
                           const char *name); /* NULL: unknown option */
void kal_values_destroy(struct kal_values *values);

/* As ri_host.option, for a provider's host. If the status is not RI_OK, *wrong has the provider's
 * error, to follow "it asks for option NAME". Otherwise *wrong is NULL. */
enum ri_status kal_values_read(const struct kal_values *values, const char *name,
                               enum ri_option_kind kind, union ri_option_value *value,
                               const char **wrong);

/* For kal's own options only: `name` must be in the table and of that kind; for kal_values_ns a
 * time. */
bool kal_values_bool(const struct kal_values *values, const char *name);
uint64_t kal_values_number(const struct kal_values *values, const char *name);
uint32_t kal_values_word(const struct kal_values *values, const char *name);
uint64_t kal_values_ns(const struct kal_values *values, const char *name); /* in nanoseconds */

/* ---- config.c: the files ---- */

struct kal_setting {
    char *name, *value;
    const char *file; /* one of kal_config.files */
    unsigned line;
    bool warned; /* used by interfaces.c, under the registry's lock */
    struct kal_setting *next;
};

struct kal_interface_section {
    char *name;
    const char *file; /* the file in which it comes first */
    unsigned line;
    /* In the order of the files; includes those of kal_section_options. */
    struct kal_setting *settings;
    struct kal_interface_section *next;
};

/* A file that was read. */
struct kal_config_file {
    char *path;
    struct kal_config_file *next;
};

struct kal_config {
    struct kal_config_file *files; /* in the order of reading; none: only defaults */
    char *source;                  /* their paths, each separated by ", "; NULL: defaults */
    /* normal forms of section [ital]; environment variables included */
    struct kal_values *ital;
    uint64_t quota[KAL_ACCOUNT_KINDS];
    struct kal_setting *rules; /* section [policy], in the order of the files */
    struct kal_setting *seen;  /* options that [ital] and [quota] have set, to detect repetitions */
    struct kal_interface_section *interfaces;
    const char *env_provider_path; /* ITAL_PROVIDER_PATH or NULL; own copy */
    const char *env_interface;     /* ITAL_INTERFACE or NULL; own copy */
    const char *env_filter;        /* ITAL_FILTER or NULL; own copy */
    bool default_warned;           /* used by interfaces.c, under the registry's lock */
};

/* Reads an environment variable, as getenv(3). secure_getenv except in tests. */
typedef char *(*kal_getenv_fn)(const char *name);

/* Reads the configuration: ital.conf, then conf.d beside it; with ITAL_CONF that file, then the
 * folder with its name and ".d". Errors are logged with file and line. */
enum ri_status kal_config_load(kal_getenv_fn get, struct kal_config **config);
void kal_config_free(struct kal_config *config);
/* Warns about unknown ITAL_* variables. */
void kal_config_check_environment(char *const *environment);

/* For tests: the file to read when ITAL_CONF is not set. NULL: the installed one. */
extern const char *kal_config_file_is;

/* ---- format.c ---- */

/* Allocated; the caller frees it. NULL: no memory. */
char *kal_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- files.c: finds and opens the files ---- */

/*
 * Opens a configuration file. NULL with *status RI_OK: it does not exist and is not needed.
 * Otherwise NULL, and the reason and `advice` were logged.
 */
FILE *kal_config_open(const char *path, bool needed, const char *advice, enum ri_status *status);

/*
 * The files that are read after the one at `path`, in order: FOLDER/NAME.conf, sorted by the octets
 * of NAME.conf, without those that begin with a dot. FOLDER is conf.d beside the file; for a file
 * named by ITAL_CONF (`asked`) it is path.d. Without the folder: none. Logs errors, except lack of
 * memory.
 */
enum ri_status kal_config_more(const char *path, bool asked, struct kal_config_file **files);
void kal_config_files_free(struct kal_config_file *files);

const struct kal_setting *kal_setting_find(const struct kal_setting *list, const char *name);

#endif
