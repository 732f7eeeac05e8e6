/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itinfo: lists Interfaces and their attributes, and the reasons why others cannot be used.
 */
#include "itinfo.h"

#include <getopt.h> /* optind */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/adapter.h"
#include "tools/common/options.h"
#include "tools/common/table.h"
#include "tools/common/tool.h"

struct options {
    bool verbose, why, config, json;
};

#define TO(member) TOOL_TO(struct options, member)

static const struct tool_option rows[] = {
    TOOL_SWITCH('v', "verbose", TO(verbose), 0, "all attributes of each interface"),
    TOOL_SWITCH('w', "why", TO(why), 0,
                "every provider file and interface name that was tried: usable or not, the reason, "
                "and what to do about it"),
    TOOL_SWITCH('c', "config", TO(config), 0,
                "print a complete ital.conf: every option, its default, unit and meaning"),
    TOOL_SWITCH('j', "json", TO(json), 0, "the same as JSON (not with --config)"),
};

static const struct tool_table arguments = {
    .usage = "Usage: itinfo [OPTION]... [INTERFACE]...\n"
             "Shows the interfaces that IT-API programs can use: name, provider, transport, state, "
             "and the\n"
             "spigots (ports) with their addresses.\n",
    .notes = "Exit status: 0 if an interface is usable, 1 if none is, 2 for wrong arguments.\n"
             "Example: itinfo --why\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .operands = "@interface",
};

/* ---- collecting ------------------------------------------------------------------------------ */

static char *copy_text(const char *text, bool *failed)
{
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        *failed = true;
    return copy;
}

static void add_interface(const struct itx_interface_report *report, void *arg)
{
    struct findings *findings = arg;
    struct interface_entry *grown, *entry;

    grown = realloc(findings->interfaces, (findings->interface_count + 1) * sizeof(*grown));
    if (!grown) {
        findings->failed = true;
        return;
    }
    findings->interfaces = grown;
    entry = &grown[findings->interface_count++];
    memset(entry, 0, sizeof(*entry));
    entry->name = copy_text(report->interface, &findings->failed);
    entry->provider = copy_text(report->provider, &findings->failed);
    entry->device = copy_text(report->device, &findings->failed);
    entry->reason = copy_text(report->reason, &findings->failed);
    entry->advice = copy_text(report->advice, &findings->failed);
    entry->usable = report->usable;
}

static void add_provider(const struct itx_provider_report *report, void *arg)
{
    struct findings *findings = arg;
    struct provider_entry *grown, *entry;

    grown = realloc(findings->providers, (findings->provider_count + 1) * sizeof(*grown));
    if (!grown) {
        findings->failed = true;
        return;
    }
    findings->providers = grown;
    entry = &grown[findings->provider_count++];
    memset(entry, 0, sizeof(*entry));
    entry->name = copy_text(report->provider, &findings->failed);
    entry->path = copy_text(report->path, &findings->failed);
    entry->reason = copy_text(report->reason, &findings->failed);
    entry->advice = copy_text(report->advice, &findings->failed);
    entry->usable = report->usable;
    entry->abi_major = report->abi_major;
    entry->abi_minor = report->abi_minor;
}

/* Opens an interface for its attributes. A name that was listed as usable may fail here. */
static void open_entry(struct interface_entry *entry)
{
    it_status_t status;

    if (!entry->usable)
        return;
    status = it_ia_create(entry->name, 2, 1, &entry->ia);
    if (status == IT_SUCCESS)
        status = it_ia_query(entry->ia, &entry->info);
    if (status == IT_SUCCESS)
        return;
    entry->usable = false;
    free(entry->reason);
    if (status == IT_ERR_INVALID_NAME)
        entry->reason = strdup("cannot be opened: " ADAPTER_REFUSED);
    else if (asprintf(&entry->reason, "cannot be opened: %s (%s)", itx_status_text(status),
                      itx_status_name(status)) < 0)
        entry->reason = NULL;
}

static bool wanted(const char *name, char *const *names)
{
    if (!*names)
        return true;
    for (; *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

/* Collects the interfaces called names (all if empty), and the providers. */
static bool collect(struct findings *findings, char *const *names)
{
    size_t kept = 0;
    it_status_t status = itx_interface_why(add_interface, findings);

    if (status == IT_SUCCESS)
        status = itx_provider_why(add_provider, findings);
    if (status != IT_SUCCESS || findings->failed) {
        tool_error("cannot ask for interfaces: %s",
                   status == IT_SUCCESS || status == IT_ERR_RESOURCES
                       ? "out of memory"
                       : "the configuration cannot be used; the line above says why");
        return false;
    }
    if (itx_config_source(&findings->config) != IT_SUCCESS)
        findings->config = NULL;
    for (size_t i = 0; i < findings->interface_count; i++) {
        struct interface_entry *entry = &findings->interfaces[i];

        if (!wanted(entry->name, names)) {
            free_interface(entry);
            continue;
        }
        open_entry(entry);
        findings->usable += entry->usable;
        findings->interfaces[kept++] = *entry;
    }
    findings->interface_count = kept;
    return true;
}

void free_interface(struct interface_entry *entry)
{
    if (entry->info)
        it_ia_info_free(entry->info);
    if (entry->ia)
        it_ia_free(entry->ia);
    free(entry->name);
    free(entry->provider);
    free(entry->device);
    free(entry->reason);
    free(entry->advice);
}

static void release(struct findings *findings)
{
    for (size_t i = 0; i < findings->interface_count; i++)
        free_interface(&findings->interfaces[i]);
    for (size_t i = 0; i < findings->provider_count; i++) {
        free(findings->providers[i].name);
        free(findings->providers[i].path);
        free(findings->providers[i].reason);
        free(findings->providers[i].advice);
    }
    free(findings->interfaces);
    free(findings->providers);
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static bool print_interfaces(const struct findings *findings)
{
    static const char *const heads[] = { "INTERFACE", "PROVIDER", "TRANSPORT", "STATE",
                                         ">SPIGOTS",  "LOCAL",    NULL };
    struct table *table = table_create(heads);
    struct itx_local_attr local;

    for (size_t i = 0; i < findings->interface_count; i++) {
        const struct interface_entry *entry = &findings->interfaces[i];
        char spigots[24] = "-";

        if (entry->info)
            snprintf(spigots, sizeof(spigots), "%zu", entry->info->num_spigots);
        table_row(table, (const char *[]){
                             entry->name, or_dash(entry->provider),
                             entry->info ? adapter_wire(entry->ia) : "-", interface_state(entry),
                             spigots, local_attr_of(entry, &local) ? local_text(&local) : "-" });
    }
    return table_print(table);
}

/* One line per address; the first of a spigot also shows the spigot. */
static void add_spigot(struct table *table, const char *interface, const it_spigot_info_t *spigot)
{
    char id[24], address[ADDRESS_TEXT] = "-";

    snprintf(id, sizeof(id), "%zu", spigot->spigot_id);
    for (size_t i = 0; i == 0 || i < spigot->num_net_addr; i++) {
        if (spigot->num_net_addr)
            address_net_text(&spigot->net_addr[i], address);
        table_row(table, (const char *[]){ i ? "" : interface, i ? "" : id,
                                           i                       ? ""
                                           : spigot->spigot_online ? "online"
                                                                   : "offline",
                                           address });
    }
}

static bool print_spigots(const struct findings *findings)
{
    static const char *const heads[] = { "INTERFACE", ">SPIGOT", "STATE", "ADDRESS", NULL };
    struct table *table;

    if (!findings->usable)
        return true;
    table = table_create(heads);
    for (size_t i = 0; i < findings->interface_count; i++) {
        const struct interface_entry *entry = &findings->interfaces[i];

        for (size_t j = 0; entry->info && j < entry->info->num_spigots; j++)
            add_spigot(table, entry->name, &entry->info->spigot_info[j]);
    }
    putchar('\n');
    return table_print(table);
}

static bool print_attributes(const struct findings *findings)
{
    static const char *const heads[] = { "ATTRIBUTE", "VALUE", NULL };
    bool good = true;

    for (size_t i = 0; i < findings->interface_count; i++) {
        const struct interface_entry *entry = &findings->interfaces[i];
        struct attribute attributes[ATTRIBUTES_MAX];
        struct table *table;
        size_t count;

        if (!entry->info)
            continue;
        count = attributes_of(entry->ia, entry->info, attributes);
        printf("\n%s:\n", entry->name);
        table = table_create(heads);
        for (size_t j = 0; j < count; j++)
            table_row(table, (const char *[]){ attributes[j].name, attributes[j].text });
        good = table_print(table) && good;
    }
    return good;
}

static void print_reason(const char *reason, const char *advice)
{
    if (reason && *reason)
        printf("    %s\n", reason);
    if (advice && *advice)
        printf("    what to do: %s\n", advice);
}

static void print_wires(const struct interface_entry *entry)
{
    struct itx_local_attr local;

    if (!local_attr_of(entry, &local))
        return;
    printf("    wires: %s%s; option local is %s", adapter_wire(entry->ia),
           local.available ? ", local" : "", local.option);
    if (local.why)
        printf("\n    no connection is local: %s", local.why);
    putchar('\n');
}

static void print_obstacles(void)
{
    struct obstacles all;

    local_obstacles(&all);
    printf("\nThe wire local (option local), between processes of this host:\n  ");
    local_print_reach();
    for (size_t i = 0; i < all.count; i++) {
        printf("  %s\n", all.at[i].what);
        print_reason(NULL, all.at[i].advice);
    }
    if (!all.count)
        printf("  nothing of this host stands in its way\n");
}

static void print_why(const struct findings *findings)
{
    printf("Configuration: %s\n\nProviders, in the order of the search:\n",
           findings->config ? findings->config : "no file; defaults are in force");
    for (size_t i = 0; i < findings->provider_count; i++) {
        const struct provider_entry *entry = &findings->providers[i];

        printf("  %s: %s", entry->path, entry->usable ? "usable" : "not usable");
        if (entry->name)
            printf(", provider %s", entry->name);
        if (entry->abi_major || entry->abi_minor)
            printf(", RNICPI %u.%u", entry->abi_major, entry->abi_minor);
        putchar('\n');
        print_reason(entry->reason, entry->advice);
    }
    if (!findings->provider_count)
        printf("  none was found\n"
               "    what to do: install ital, or name the folder that holds vp_*.so, by "
               "ITAL_PROVIDER_PATH or by provider_path\n"
               "        in section [ital]; in a build tree that is providers/software/.libs\n");
    printf("\nInterfaces:\n");
    for (size_t i = 0; i < findings->interface_count; i++) {
        const struct interface_entry *entry = &findings->interfaces[i];

        printf("  %s: %s (provider %s, device %s)\n", entry->name,
               entry->usable ? "usable" : "not usable", or_dash(entry->provider),
               or_dash(entry->device));
        print_reason(entry->reason, entry->advice);
        print_wires(entry);
    }
    if (!findings->interface_count)
        printf("  none\n");
    print_obstacles();
}

/* Prints to stderr why no interface is usable. */
static void explain_nothing(const struct findings *findings, char *const *names)
{
    bool asked = *names != NULL;

    for (; *names; names++) {
        bool known = false;

        for (size_t i = 0; i < findings->interface_count; i++)
            known = known || !strcmp(findings->interfaces[i].name, *names);
        if (!known)
            tool_error("there is no interface '%s'; 'itinfo' without arguments lists all", *names);
    }
    for (size_t i = 0; i < findings->interface_count; i++) {
        const struct interface_entry *entry = &findings->interfaces[i];

        if (!entry->usable)
            tool_error("interface '%s' is not usable: %s%s%s", entry->name, or_dash(entry->reason),
                       entry->advice && *entry->advice ? "; " : "",
                       entry->advice ? entry->advice : "");
    }
    if (findings->usable || asked)
        return;
    for (size_t i = 0; i < findings->provider_count; i++) {
        const struct provider_entry *entry = &findings->providers[i];

        if (!entry->usable)
            tool_error("provider %s is not usable: %s", entry->path, or_dash(entry->reason));
    }
    tool_error("no interface is usable; 'itinfo --why' shows everything that was tried");
}

static bool print_text(const struct findings *findings, const struct options *options)
{
    bool good = true;

    if (options->why) {
        print_why(findings);
        return true;
    }
    if (findings->interface_count)
        good = print_interfaces(findings);
    good = print_spigots(findings) && good;
    if (options->verbose)
        good = print_attributes(findings) && good;
    return good;
}

/* ---- main ------------------------------------------------------------------------------------ */

static void print_line(const char *line, void *arg)
{
    (void)arg;
    puts(line);
}

static int print_config(void)
{
    it_status_t status = itx_config_write(print_line, NULL);

    if (status != IT_SUCCESS)
        return adapter_error(status, "cannot print the configuration");
    return TOOL_OK;
}

static int run(const struct options *options, char *const *names)
{
    struct findings findings;
    bool good, all_known = true;

    memset(&findings, 0, sizeof(findings));
    good = collect(&findings, names);
    if (good) {
        good = options->json ? print_json(&findings, options->verbose || options->why)
                             : print_text(&findings, options);
        for (char *const *name = names; *name; name++) {
            bool known = false;

            for (size_t i = 0; i < findings.interface_count; i++)
                known = known || (findings.interfaces[i].usable &&
                                  !strcmp(findings.interfaces[i].name, *name));
            all_known = all_known && known;
        }
        fflush(stdout);
        if (!options->json && !options->why)
            explain_nothing(&findings, names);
    }
    good = good && findings.usable && all_known;
    release(&findings);
    return good ? TOOL_OK : TOOL_FAILED;
}

int main(int argc, char **argv)
{
    struct options options = { 0 };
    int result;

    tool_init("itinfo");
    result = tool_read_options(&arguments, argc, argv, &options);
    if (result >= 0)
        return result;
    if (options.config && (options.json || options.why || optind < argc))
        return tool_usage("--config stands alone");
    result = options.config ? print_config() : run(&options, argv + optind);
    if (fflush(stdout) || ferror(stdout)) {
        tool_error("cannot write the output");
        return TOOL_FAILED;
    }
    return result;
}
