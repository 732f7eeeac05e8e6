/* SPDX-License-Identifier: BSD-3-Clause
 *
 * richeck: grades a verbs provider by the rules of rnicpi.h.
 */
#include "richeck.h"

#include "tools/common/options.h"
#include "tools/common/tool.h"

#include "kal/config/kal_config.h"

#include <fnmatch.h>
#include <getopt.h> /* optind */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CHECKS 256u

struct arguments {
    const char *only, *certificate, *device;
    uint64_t least, seed;
    unsigned int seconds;
    uint32_t given; /* enum given */
    bool json, list, fail_fast, verbose;
};
enum given { LEAST = 1 };

/* In the order of running: a check comes behind those that it needs. */
static const struct table {
    const struct check *checks;
    const char *needs; /* of those that name no other */
} tables[] = {
    { file_checks, NULL },        { open_checks, NULL },          { object_checks, NULL },
    { limit_checks, NULL },       { connect_checks, NULL },       { traffic_checks, "connected" },
    { state_checks, NULL },       { window_checks, "connected" }, { datagram_checks, NULL },
    { numbers_checks, NULL },     { error_checks, "connected" },  { upcall_checks, "connected" },
    { load_checks, "connected" },
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

/* ---- arguments ---- */

static int take_setting(void *into, const char *text)
{
    (void)into;
    if (!strchr(text, '=') || text[0] == '=')
        return tool_usage("'%s' is no NAME=VALUE", text);
    if (subject.set_count == SETTINGS)
        return tool_usage("more than %d options with --set", SETTINGS);
    subject.set[subject.set_count++] = text;
    return -1;
}

#define TO(member) TOOL_TO(struct arguments, member)

static const struct tool_option rows[] = {
    TOOL_SWITCH('j', "json", TO(json), 0, "the report as one JSON object"),
    TOOL_ARGUMENT('c', "certificate", "FILE", TO(certificate), "@file", 0,
                  "write a certificate: hash of the file, versions, counts, results"),
    TOOL_VALUE(TOOL_NUMBER, 's', "seconds", "N", TO(seconds), 0, 3600, NULL, 0,
               "seconds of load (default 30)"),
    TOOL_VALUE(TOOL_NUMBER, 'n', "least", "N", TO(least), 0, MOST_CHECKS, NULL, LEAST,
               "checks that must have been judged for status 0 (default 60)"),
    TOOL_ARGUMENT('o', "only", "PATTERN", TO(only), "@list", 0,
                  "only checks whose name matches the pattern (*, ?, [...]); --least is 1 then"),
    TOOL_SWITCH('f', "fail-fast", TO(fail_fast), 0, "stop at the first check that fails"),
    TOOL_ARGUMENT('d', "device", "NAME", TO(device), NULL, 0,
                  "the device to open (default: the provider's)"),
    TOOL_BY(0, "set", "NAME=VALUE", take_setting, NULL, 0,
            "an option of the interface, as in ital.conf; may be repeated"),
    TOOL_VALUE(TOOL_NUMBER, 0, "seed", "N", TO(seed), 0, UINT64_MAX / 2, NULL, 0,
               "seed of random sizes and data (default 1)"),
    TOOL_SWITCH('l', "list", TO(list), 0, "the checks with their rules; needs no provider"),
    TOOL_SWITCH('v', "verbose", TO(verbose), 0, "what the provider logs, on stderr"),
};

static const struct tool_table table_of_options = {
    .usage = "Usage: richeck [OPTION]... FILE.so | INTERFACE\n"
             "Grades a verbs provider: loads it, makes its calls, and reports for each rule of "
             "rnicpi.h that is\n"
             "checked whether the provider keeps it. Each check runs in a process of its own.\n",
    .notes =
        "FILE.so has a slash or ends in .so; an INTERFACE is a section of ital.conf, or the name "
        "of a\n"
        "provider. A rule is shown by its name in braces, which stands before it in rnicpi.h.\n"
        "Exit status: 0 if nothing failed and enough was judged, 1 if not, 2 if nothing could "
        "run.\n"
        "Example: richeck --seconds 5 ./vp_mine.so\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .given = offsetof(struct arguments, given),
    .operands = "@file @interface",
};

static int parse(int argc, char **argv, struct arguments *arguments)
{
    int code;

    arguments->seconds = subject.seconds;
    arguments->seed = subject.seed;
    code = tool_read_options(&table_of_options, argc, argv, arguments);
    if (code >= 0)
        return code;
    subject.seconds = arguments->seconds;
    subject.seed = arguments->seed;
    subject.device = arguments->device;
    subject.verbose = arguments->verbose;
    if (arguments->only && !(arguments->given & LEAST))
        arguments->least = 1;
    if (arguments->list)
        return argc == optind ? -1 : tool_usage("--list takes no '%s'", argv[optind]);
    if (argc == optind)
        return tool_usage("FILE.so or INTERFACE is missing");
    return argc == optind + 1 ? -1 : tool_usage("'%s' is one argument too many", argv[optind + 1]);
}

/* ---- what is graded ---- */

static bool is_file(const char *name)
{
    size_t length = strlen(name);

    return strchr(name, '/') || (length > 3 && !strcmp(name + length - 3, ".so"));
}

static char *find_module(const char *folders, const char *provider)
{
    char *copy = strdup(folders), *rest = copy, *folder;
    char path[PATH_MAX];

    while (copy && (folder = strsep(&rest, ":"))) {
        snprintf(path, sizeof(path), "%s/vp_%s.so", folder, provider);
        if (*folder && !access(path, R_OK)) {
            free(copy);
            return strdup(path);
        }
    }
    free(copy);
    return NULL;
}

static const struct kal_interface_section *section_of(const struct kal_config *config,
                                                      const char *name)
{
    const struct kal_interface_section *section = config->interfaces;

    while (section && strcmp(section->name, name))
        section = section->next;
    return section;
}

/* The settings of an interface's section. The provider's name. */
static const char *take_section(const struct kal_interface_section *section)
{
    const char *provider = section->name;

    for (const struct kal_setting *at = section->settings; at; at = at->next) {
        if (!strcmp(at->name, "provider"))
            provider = at->value;
        else if (!strcmp(at->name, "device") && !subject.device)
            subject.device = at->value;
        else if (strcmp(at->name, "device") && strcmp(at->name, "fallback") &&
                 subject.set_count < SETTINGS)
            subject.set[subject.set_count++] = kal_format("%s=%s", at->name, at->value);
    }
    return provider;
}

static bool find_subject(const char *name)
{
    /* It stays: its texts are used. */
    static struct kal_config *config;
    const struct kal_interface_section *section;
    const char *provider = name;
    char *path = NULL;

    if (is_file(name)) {
        subject.file = strchr(name, '/') ? name : kal_format("./%s", name);
        return true;
    }
    if (kal_config_load(secure_getenv, &config) != RI_OK)
        return false;
    section = section_of(config, name);
    if (section)
        provider = take_section(section);
    if (config->env_provider_path)
        path = find_module(config->env_provider_path, provider);
    if (!path)
        path = find_module(ITAL_PROVIDER_DIR, provider);
    if (!path)
        tool_error(
            "there is no interface %s, and no file vp_%s.so in the provider folders (%s%s%s)", name,
            provider, config->env_provider_path ? config->env_provider_path : "",
            config->env_provider_path ? ":" : "", ITAL_PROVIDER_DIR);
    subject.file = path;
    return path != NULL;
}

/* ---- the run ---- */

static bool wanted(const struct arguments *arguments, const struct check *check)
{
    return !arguments->only || !fnmatch(arguments->only, check->name, 0);
}

static int list(const struct arguments *arguments)
{
    for (size_t i = 0; i < TABLES; i++)
        for (const struct check *check = tables[i].checks; check->name; check++)
            if (wanted(arguments, check))
                printf("%-20s {%s} %s\n", check->name, check->clause, check->proves);
    return TOOL_OK;
}

/* True: that check failed, or was left out because of one that failed. */
static bool has_failed(const struct report *report, const char *name)
{
    for (size_t i = 0; i < report->count; i++)
        if (!strcmp(report->results[i].check->name, name))
            return report->results[i].verdict == FAILED ||
                   !strncmp(report->results[i].why, "needs ", 6);
    return false;
}

/* False: no process could be made. */
static bool run_one(const struct arguments *arguments, const struct table *table,
                    const struct check *check, struct result *result, struct report *report)
{
    const char *needs = check->needs ? check->needs : table->needs;

    if (needs && has_failed(report, needs))
        check_leave_out(check, needs, result);
    else if (!check_run(check, result))
        return false;
    report->verdicts[result->verdict]++;
    if (!arguments->json)
        report_line(result);
    report->count++;
    if (arguments->fail_fast && result->verdict == FAILED)
        report->stopped = "--fail-fast";
    return true;
}

/* False: no process could be made, or the user stopped it. */
static bool run_all(const struct arguments *arguments, struct result *results,
                    struct report *report)
{
    for (size_t i = 0; i < TABLES && !report->stopped; i++) {
        for (const struct check *check = tables[i].checks; check->name && !report->stopped;
             check++) {
            if (!wanted(arguments, check) || report->count == MOST_CHECKS)
                continue;
            if (atomic_load(&tool_stop) ||
                !run_one(arguments, &tables[i], check, &results[report->count], report))
                return false;
        }
        if (tables[i].checks == file_checks && !report->identity->name[0] && !report->stopped)
            report->stopped = "the host would not load the file, so nothing else can be judged "
                              "(richeck --only 'file-*' says why)";
    }
    return true;
}

static int grade(const struct arguments *arguments)
{
    static struct result results[MOST_CHECKS];
    struct identity identity;
    struct report report = { .identity = &identity, .results = results };

    if (!identify(subject.file, &identity) || !run_all(arguments, results, &report))
        return TOOL_USAGE;
    if (!report.count && !report.stopped) {
        tool_error("no check has a name that matches '%s' (richeck --list)", arguments->only);
        return TOOL_USAGE;
    }
    if (arguments->json)
        report_json(&report);
    else
        report_summary(&report);
    if (arguments->certificate && !report_certificate(&report, arguments->certificate))
        return TOOL_USAGE;
    if (report.verdicts[PASSED] + report.verdicts[FAILED] < arguments->least)
        tool_error("%u checks were judged; %llu are needed (--least)",
                   report.verdicts[PASSED] + report.verdicts[FAILED],
                   (unsigned long long)arguments->least);
    else if (!report.verdicts[FAILED])
        return TOOL_OK;
    return TOOL_FAILED;
}

int main(int argc, char **argv)
{
    struct arguments arguments = { .least = 60 };
    int code;

    tool_init("richeck");
    code = parse(argc, argv, &arguments);
    if (code >= 0)
        return code;
    if (arguments.list)
        return list(&arguments);
    if (!find_subject(argv[optind]))
        return TOOL_USAGE;
    tool_catch_signals();
    return grade(&arguments);
}
