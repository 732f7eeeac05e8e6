/* SPDX-License-Identifier: BSD-3-Clause */
/* All options, as a list and as a configuration file. */
#include "registry.h"
#include "kal/registry/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

static void tell(kal_option_fn fn, void *arg, const char *section, const char *provider,
                 const struct ri_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kal_option option = { .section = section,
                                     .provider = provider,
                                     .option = options[i] };

        fn(&option, arg);
    }
}

/* Lists all options of this provider's interfaces. */
static void list_interface(kal_option_fn fn, void *arg, const char *provider,
                           const struct ri_option *own, size_t count)
{
    struct ri_option option;

    for (size_t i = 0; kal_interface_option(own, count, i, &option); i++)
        tell(fn, arg, "interface", provider, &option, 1);
}

static void list_own(kal_option_fn fn, void *arg)
{
    tell(fn, arg, "ital", NULL, kal_ital_options, kal_ital_option_count);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++) {
        struct ri_option option = kal_quota_option((enum kal_account_kind)kind);

        tell(fn, arg, "quota", NULL, &option, 1);
    }
    tell(fn, arg, "policy", NULL, kal_policy_options, kal_policy_option_count);
    tell(fn, arg, "interface", NULL, kal_section_options, kal_section_option_count);
}

void kal_option_list(struct kal *kal, kal_option_fn fn, void *arg)
{
    struct kal_answer *list = NULL, *answer;
    bool any = false;

    list_own(fn, arg);
    if (kal_ask_all(kal, &list) != RI_OK)
        return;
    LL_FOREACH (list, answer) {
        if (!answer->usable)
            continue;
        any = true;
        list_interface(fn, arg, answer->name, answer->options, answer->option_count);
    }
    if (!any)
        list_interface(fn, arg, NULL, NULL, 0);
    kal_answers_free(list);
}

/* ---- the file ---- */

/* Octets of a line: ital.conf(5). */
#define LINE_MOST 198

struct writer {
    kal_line_fn fn;
    void *arg;
    const char *section; /* section of the last line */
};

static void put(struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct writer *writer, const char *format, ...)
{
    char line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    writer->fn(line, writer->arg);
}

/* In lines that the file may have, broken at blanks. */
static void put_comment(struct writer *writer, const char *text)
{
    const char *lead = "#";

    while (strlen(text) + strlen(lead) + 1 > LINE_MOST) {
        int length = LINE_MOST - (int)strlen(lead) - 1;

        while (length > 1 && text[length] != ' ')
            length--;
        put(writer, "%s %.*s", lead, length, text);
        text += length + 1;
        lead = "#  ";
    }
    put(writer, "%s %s", lead, text);
}

static void write_option(struct writer *writer, const struct ri_option *option, const char *value)
{
    const char *unit = option->unit ? option->unit : "";
    char text[2000];

    snprintf(text, sizeof(text), "%s [%s%s%s]", option->text ? option->text : "", option->type,
             *unit ? "; " : "", unit);
    put_comment(writer, text);
    put(writer, "#%s =%s%s", option->name, *value ? " " : "", value);
}

static void on_plain_option(const struct kal_option *option, void *arg)
{
    struct writer *writer = arg;

    if (!strcmp(option->section, "interface"))
        return;
    if (!writer->section || strcmp(writer->section, option->section)) {
        writer->section = option->section;
        put(writer, "%s", "");
        put(writer, "[%s]", option->section);
    }
    write_option(writer, &option->option, option->option.value ? option->option.value : "");
}

static void write_interface(struct writer *writer, const char *name, const struct ri_option *own,
                            size_t count)
{
    struct ri_option option;

    put(writer, "%s", "");
    put(writer, "#[interface %s]", name);
    for (size_t i = 0; i < kal_section_option_count; i++)
        write_option(writer, &kal_section_options[i],
                     strcmp(kal_section_options[i].name, "provider") ? "" : name);
    for (size_t i = 0; kal_interface_option(own, count, i, &option); i++)
        write_option(writer, &option, option.value ? option.value : "");
}

void kal_config_write(struct kal *kal, kal_line_fn fn, void *arg)
{
    struct writer writer = { .fn = fn, .arg = arg };
    struct kal_answer *list = NULL, *answer;
    bool any = false;

    put(&writer, "# Configuration of ital: see ital.conf(5). Every option with its default; lines "
                 "that begin with # have no effect.");
    list_own(on_plain_option, &writer);
    put(&writer, "%s", "");
    put(&writer, "# An interface is a name for a device of a provider with its options. Devices "
                 "are interfaces of their own name without any section.");
    if (kal_ask_all(kal, &list) != RI_OK)
        return;
    LL_FOREACH (list, answer) {
        if (!answer->usable)
            continue;
        any = true;
        write_interface(&writer, answer->name, answer->options, answer->option_count);
    }
    if (!any)
        write_interface(&writer, "NAME", NULL, 0);
    kal_answers_free(list);
}
