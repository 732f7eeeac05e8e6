/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file. libinih splits names from values. This file reads the lines, so that each
 * message has the right line number. An error stops the reading, with one log line; an unknown name
 * only gives a warning.
 */
#include "kal_config.h"
#include "kal/report/report.h"

#include "base/nearest.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#ifndef ITAL_CONF_FILE
#define ITAL_CONF_FILE "/etc/ital/ital.conf"
#endif

const char *kal_config_file_is;

#define SECTION_MAX 48 /* the length of a section's name that libinih keeps */
/* libinih reports a section only with its first value, so this value is added behind every
 * header. */
#define MARK "\001"

enum section {
    SECTION_NONE,
    SECTION_UNKNOWN,
    SECTION_ITAL,
    SECTION_QUOTA,
    SECTION_POLICY,
    SECTION_INTERFACE
};

struct parser {
    struct kal_config *config;
    const char *path;
    FILE *file;
    char *text; /* allocated by getline */
    size_t room;
    unsigned line;
    bool mark;             /* a header was delivered, and its mark comes next */
    enum ri_status status; /* not RI_OK: stop; the error is logged already */
    enum section section;
    struct kal_interface_section *interface;
};

/* ---- lists ---- */

static void settings_free(struct kal_setting *list)
{
    struct kal_setting *setting, *next;

    LL_FOREACH_SAFE (list, setting, next) {
        free(setting->name);
        free(setting->value);
        free(setting);
    }
}

const struct kal_setting *kal_setting_find(const struct kal_setting *list, const char *name)
{
    for (; list; list = list->next)
        if (!strcmp(list->name, name))
            return list;
    return NULL;
}

/* ---- messages ---- */

static void fail(struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct parser *parser, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kal_log(RI_LOG_ERROR, "%s:%u: %s", parser->path, parser->line, text);
    parser->status = ITAL_ERR_CONFIGURATION;
}

static bool no_memory(struct parser *parser)
{
    kal_log(RI_LOG_ERROR, "%s: out of memory while reading the configuration", parser->path);
    parser->status = RI_ERR_NO_RESOURCES;
    return false;
}

static void warn_unknown(const struct parser *parser, const char *what, const char *name,
                         const char *near)
{
    if (near)
        kal_log(RI_LOG_WARNING, "%s:%u: unknown %s \"%s\" is ignored; did you mean \"%s\"?",
                parser->path, parser->line, what, name, near);
    else
        kal_log(RI_LOG_WARNING, "%s:%u: unknown %s \"%s\" is ignored", parser->path, parser->line,
                what, name);
}

/* ---- reading lines ---- */

/* Finds what libinih would refuse, or silently cut off, because here the line number is known. */
static bool line_is_sound(struct parser *parser, const char *line, size_t length, int room)
{
    const char *close;

    if (length != strlen(line)) {
        fail(parser, "a NUL octet: this is not a text file");
        return false;
    }
    if (!*line || *line == ';' || *line == '#')
        return true;
    if (length + 2 > (size_t)room) {
        fail(parser, "the line is longer than %d octets", room - 2);
        return false;
    }
    if (*line == '[') {
        close = strchr(line, ']');
        if (!close)
            fail(parser, "the section header has no closing bracket");
        else if (close - line - 1 > SECTION_MAX)
            fail(parser, "the section's name is longer than %d octets", SECTION_MAX);
        return close && parser->status == RI_OK;
    }
    if (*line == '=' || *line == ':' || *line == MARK[0] || !line[strcspn(line, "=:")]) {
        fail(parser, "\"%.40s\" is no \"name = value\", no [section] and no comment", line);
        return false;
    }
    return true;
}

/* libinih's reader: returns one line without leading blanks, which would join it to the line
 * before. */
static char *read_line(char *out, int room, void *stream)
{
    struct parser *parser = stream;
    ssize_t got;
    size_t length;
    char *line;

    if (parser->status != RI_OK)
        return NULL;
    if (parser->mark) {
        parser->mark = false;
        return strcpy(out, MARK "=\n");
    }
    got = getline(&parser->text, &parser->room, parser->file);
    if (got < 0) {
        if (ferror(parser->file)) {
            parser->line++;
            fail(parser, "cannot be read: %s", strerror(errno));
        } else if (!feof(parser->file)) {
            no_memory(parser);
        }
        return NULL;
    }
    parser->line++;
    line = parser->text;
    length = (size_t)got;
    if (parser->line == 1 && length >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) {
        line += 3;
        length -= 3;
    }
    while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        line[--length] = '\0';
    while (*line == ' ' || *line == '\t') {
        line++;
        length--;
    }
    if (!line_is_sound(parser, line, length, room))
        return NULL;
    if (*line == ';' || *line == '#')
        length = 0; /* of any length */
    parser->mark = length && *line == '[';
    memcpy(out, line, length);
    out[length] = '\n';
    out[length + 1] = '\0';
    return out;
}

/* ---- sections and values ---- */

static bool enter_interface(struct parser *parser, const char *name)
{
    struct kal_interface_section *section;

    if (!*name) {
        fail(parser, "[interface] needs a name: [interface NAME]");
        return false;
    }
    parser->section = SECTION_INTERFACE;
    LL_FOREACH (parser->config->interfaces, section) {
        if (!strcmp(section->name, name)) {
            parser->interface = section;
            return true;
        }
    }
    section = calloc(1, sizeof(*section));
    if (!section)
        return no_memory(parser);
    section->file = parser->path;
    section->line = parser->line;
    section->name = strdup(name);
    if (!section->name) {
        free(section);
        return no_memory(parser);
    }
    LL_APPEND(parser->config->interfaces, section);
    parser->interface = section;
    return true;
}

static bool enter_section(struct parser *parser, const char *name)
{
    static const struct {
        const char *name;
        enum section section;
    } plain[] = { { "ital", SECTION_ITAL },
                  { "quota", SECTION_QUOTA },
                  { "policy", SECTION_POLICY } };
    static const char interface[] = "interface";
    size_t word = strcspn(name, " \t");
    struct nearest near = { .word = NULL };
    char first[SECTION_MAX + 1];

    if (word == strlen(interface) && !strncmp(name, interface, word))
        return enter_interface(parser, name + word + strspn(name + word, " \t"));
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
        if (!strcmp(name, plain[i].name)) {
            parser->section = plain[i].section;
            return true;
        }
        nearest_try(&near, name, plain[i].name);
    }
    snprintf(first, sizeof(first), "%.*s", (int)word, name);
    nearest_try(&near, first, interface);
    warn_unknown(parser, "section", name, near.word);
    parser->section = SECTION_UNKNOWN;
    return true;
}

/* A later file may repeat an option; within one file it is an error. */
static void say_again(const struct parser *parser, const struct kal_setting *before)
{
    if (before->file == parser->path)
        kal_log(RI_LOG_WARNING, "%s:%u: \"%s\" was given in line %u already; this line counts",
                parser->path, parser->line, before->name, before->line);
    else
        kal_log(RI_LOG_DEBUG, "%s:%u: \"%s\" replaces what %s:%u says", parser->path, parser->line,
                before->name, before->file, before->line);
}

/* Appends the value, or replaces the value of the same name. */
static bool note(struct parser *parser, struct kal_setting **list, const char *name,
                 const char *value)
{
    struct kal_setting *setting;
    char *copy = strdup(value);

    if (!copy)
        return no_memory(parser);
    LL_FOREACH (*list, setting) {
        if (strcmp(setting->name, name))
            continue;
        say_again(parser, setting);
        free(setting->value);
        setting->value = copy;
        setting->file = parser->path;
        setting->line = parser->line;
        return true;
    }
    setting = calloc(1, sizeof(*setting));
    if (setting)
        setting->name = strdup(name);
    if (!setting || !setting->name) {
        free(setting);
        free(copy);
        return no_memory(parser);
    }
    setting->value = copy;
    setting->file = parser->path;
    setting->line = parser->line;
    LL_APPEND(*list, setting);
    return true;
}

static void refuse(struct parser *parser, const char *name, const char *value, const char *allowed)
{
    fail(parser, "%s = \"%s\": allowed is %s", name, value, allowed);
}

static bool ital_value(struct parser *parser, const char *name, const char *value)
{
    struct nearest near = { .word = NULL };
    char normal[KAL_VALUE_MAX];
    char allowed[KAL_ALLOWED_MAX];
    const char *log_allowed;

    for (size_t i = 0; i < kal_ital_option_count; i++) {
        const struct ri_option *option = &kal_ital_options[i];

        nearest_try(&near, name, option->name);
        if (strcmp(option->name, name))
            continue;
        if (!kal_option_normal(option, value, normal, allowed)) {
            refuse(parser, name, value, allowed);
            return false;
        }
        if (!strcmp(name, "log") && !kal_log_check(normal, &log_allowed)) {
            refuse(parser, name, value, log_allowed);
            return false;
        }
        if (!note(parser, &parser->config->seen, name, value))
            return false;
        return kal_values_set(parser->config->ital, name, normal) || no_memory(parser);
    }
    warn_unknown(parser, "option of [ital]", name, near.word);
    return true;
}

static bool quota_value(struct parser *parser, const char *name, const char *value)
{
    struct nearest near = { .word = NULL };
    char normal[KAL_VALUE_MAX];
    char allowed[KAL_ALLOWED_MAX];

    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++) {
        struct ri_option option = kal_quota_option((enum kal_account_kind)kind);

        nearest_try(&near, name, option.name);
        if (strcmp(option.name, name))
            continue;
        if (!kal_option_normal(&option, value, normal, allowed)) {
            refuse(parser, name, value, allowed);
            return false;
        }
        parser->config->quota[kind] = kal_option_typed(&option, normal).number;
        return note(parser, &parser->config->seen, name, value);
    }
    warn_unknown(parser, "option of [quota]", name, near.word);
    return true;
}

static bool policy_value(struct parser *parser, const char *name, const char *value)
{
    const struct kal_setting *before;

    if (strncmp(name, "rule", 4) || !name[4] || name[4 + strspn(name + 4, "0123456789")]) {
        /* An ignored rule could permit what it should deny. */
        fail(parser, "\"%s\": section [policy] holds rule1, rule2, ... only", name);
        return false;
    }
    before = kal_setting_find(parser->config->rules, name);
    if (before) {
        fail(parser, "\"%s\" was given in %s:%u already; give it another number", name,
             before->file, before->line);
        return false;
    }
    return note(parser, &parser->config->rules, name, value);
}

static int on_value(void *arg, const char *section, const char *name, const char *value)
{
    struct parser *parser = arg;

    if (parser->status != RI_OK)
        return 0;
    if (!strcmp(name, MARK))
        return enter_section(parser, section);
    switch (parser->section) {
    case SECTION_NONE:
        fail(parser, "\"%s\" stands before the first section; begin with [ital]", name);
        return 0;
    case SECTION_UNKNOWN: return 1;
    case SECTION_ITAL: return ital_value(parser, name, value);
    case SECTION_QUOTA: return quota_value(parser, name, value);
    case SECTION_POLICY: return policy_value(parser, name, value);
    case SECTION_INTERFACE: return note(parser, &parser->interface->settings, name, value);
    }
    return 0;
}

/* ---- load ---- */

static enum ri_status parse(struct kal_config *config, const char *path, FILE *file)
{
    struct parser parser = { .config = config, .path = path, .file = file };

    /* The result of libinih adds only "out of memory" to what the reader and the handler report. */
    if (ini_parse_stream(read_line, &parser, on_value, &parser) && parser.status == RI_OK)
        no_memory(&parser);
    free(parser.text);
    return parser.status;
}

/* The configuration owns the file from now on. */
static enum ri_status read_file(struct kal_config *config, struct kal_config_file *named,
                                bool needed, const char *advice)
{
    enum ri_status status;
    FILE *file = kal_config_open(named->path, needed, advice, &status);
    char *source;

    named->next = NULL;
    if (!file) {
        kal_config_files_free(named);
        return status;
    }
    LL_APPEND(config->files, named);
    source = config->source ? kal_format("%s, %s", config->source, named->path)
                            : kal_format("%s", named->path);
    status = RI_ERR_NO_RESOURCES;
    if (source) {
        free(config->source);
        config->source = source;
        status = parse(config, named->path, file);
    }
    fclose(file);
    return status;
}

static enum ri_status read_files(struct kal_config *config, const char *path, bool asked)
{
    static const char readable[] = "make it readable or remove it";
    struct kal_config_file *first = calloc(1, sizeof(*first)), *more = NULL, *file, *next;
    enum ri_status status = RI_ERR_NO_RESOURCES;

    if (first)
        first->path = strdup(path);
    if (!first || !first->path) {
        free(first);
        return status;
    }
    status = read_file(config, first, asked, asked ? "correct ITAL_CONF or unset it" : readable);
    if (status == RI_OK)
        status = kal_config_more(path, asked, &more);
    LL_FOREACH_SAFE (more, file, next) {
        if (status != RI_OK) {
            kal_config_files_free(file);
            break;
        }
        status = read_file(config, file, true, readable);
    }
    return status;
}

/* ITAL_LOG overrides the file, so it is in effect while the file is read. */
static bool log_from_environment(const char *text)
{
    const char *allowed;

    if (!text || !*text)
        return false;
    if (kal_log_configure(text, &allowed))
        return true;
    kal_log(RI_LOG_WARNING, "ITAL_LOG = \"%s\" is ignored: allowed is %s", text, allowed);
    return false;
}

/* ITAL_MONITOR overrides the file. */
static enum ri_status monitor_from_environment(struct kal_values *ital, const char *text)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
    const struct ri_option *option = kal_ital_options;

    if (!text || !*text)
        return RI_OK;
    while (strcmp(option->name, "monitor"))
        option++;
    if (kal_option_normal(option, text, normal, allowed))
        return kal_values_set(ital, "monitor", normal) ? RI_OK : RI_ERR_NO_RESOURCES;
    kal_log(RI_LOG_WARNING, "ITAL_MONITOR = \"%s\" is ignored: allowed is %s", text, allowed);
    return RI_OK;
}

enum ri_status kal_config_load(kal_getenv_fn get, struct kal_config **config)
{
    struct kal_config *read = calloc(1, sizeof(*read));
    const char *path = get("ITAL_CONF"), *providers = get("ITAL_PROVIDER_PATH");
    const char *log = get("ITAL_LOG"), *interface = get("ITAL_INTERFACE"), *allowed;
    const char *filter = get("ITAL_FILTER");
    bool asked = path && *path, log_set = log_from_environment(log);
    enum ri_status status = RI_ERR_NO_RESOURCES;

    if (!read)
        return status;
    read->ital = kal_values_create(kal_ital_options, kal_ital_option_count);
    if (!read->ital)
        goto free_config;
    if (providers && *providers) {
        read->env_provider_path = strdup(providers);
        if (!read->env_provider_path)
            goto free_config;
    }
    if (interface && *interface) {
        read->env_interface = strdup(interface);
        if (!read->env_interface)
            goto free_config;
    }
    if (filter && *filter) {
        read->env_filter = strdup(filter);
        if (!read->env_filter)
            goto free_config;
    }
    if (!asked)
        path = kal_config_file_is ? kal_config_file_is : ITAL_CONF_FILE;
    status = read_files(read, path, asked);
    if (status == RI_OK)
        status = monitor_from_environment(read->ital, get("ITAL_MONITOR"));
    if (status != RI_OK)
        goto free_config;
    if (log_set) {
        status = kal_values_set(read->ital, "log", log) ? RI_OK : RI_ERR_NO_RESOURCES;
        if (status != RI_OK)
            goto free_config;
    } else if (!kal_log_configure(kal_values_get(read->ital, "log"), &allowed)) {
        kal_log(RI_LOG_WARNING, "%s: log = \"%s\" is ignored: allowed is %s",
                read->source ? read->source : "defaults", kal_values_get(read->ital, "log"),
                allowed);
    }
    *config = read;
    return RI_OK;

free_config:
    kal_config_free(read);
    return status;
}

void kal_config_free(struct kal_config *config)
{
    struct kal_interface_section *section, *next;

    if (!config)
        return;
    LL_FOREACH_SAFE (config->interfaces, section, next) {
        settings_free(section->settings);
        free(section->name);
        free(section);
    }
    settings_free(config->rules);
    settings_free(config->seen);
    kal_values_destroy(config->ital);
    free((char *)config->env_provider_path);
    free((char *)config->env_interface);
    free((char *)config->env_filter);
    kal_config_files_free(config->files);
    free(config->source);
    free(config);
}

void kal_config_check_environment(char *const *environment)
{
    static const char *const known[] = { "ITAL_CONF",          "ITAL_PROVIDER_PATH",
                                         "ITAL_LOG",           "ITAL_INTERFACE",
                                         "ITAL_FILTER",        "ITAL_VERBS_AS",
                                         "ITAL_VERBS_DEVICES", "ITAL_RSOCKETS_CONFIG",
                                         "ITAL_MONITOR" };
    const size_t count = sizeof(known) / sizeof(*known);

    for (; environment && *environment; environment++) {
        struct nearest near = { .word = NULL };
        char name[64];
        size_t i;

        if (strncmp(*environment, "ITAL_", 5) || !strncmp(*environment, "ITAL_TEST_", 10))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*environment, "="), *environment);
        for (i = 0; i < count && strcmp(name, known[i]); i++)
            nearest_try(&near, name, known[i]);
        if (i < count)
            continue;
        if (near.word)
            kal_log(RI_LOG_WARNING, "unknown environment variable %s; did you mean %s?", name,
                    near.word);
        else
            kal_log(RI_LOG_WARNING,
                    "unknown environment variable %s; known are ITAL_CONF, ITAL_PROVIDER_PATH, "
                    "ITAL_LOG, ITAL_INTERFACE, ITAL_FILTER, ITAL_MONITOR and ITAL_VERBS_AS",
                    name);
    }
}
