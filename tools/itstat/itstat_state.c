/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of processes as tables for people.
 */
#include "itstat.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/common/table.h"
#include "tools/common/tool.h"

#ifdef HAVE_JANSSON

#include "itstat_state.h"

static const json_t *account(const json_t *whole, const char *kind)
{
    return json_object_get(json_object_get(whole, "accounts"), kind);
}

/* Members of "refused". */
static const char *const causes[] = { "quota", "policy", "pins" };
#define CAUSES (sizeof causes / sizeof *causes)

/* Everything that an interface has refused. A process may say anything: sums wrap. */
static uint64_t refused_by(const json_t *refused)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < CAUSES; i++) {
        json_t *counts = json_object_get(refused, causes[i]), *count;
        const char *name;

        json_object_foreach(counts, name, count) sum += (uint64_t)json_integer_value(count);
    }
    return sum;
}

static const char *all_refused(const json_t *whole, char cell[CELL])
{
    const json_t *interface, *listener;
    uint64_t sum = 0;
    size_t i, j;

    json_array_foreach(json_object_get(whole, "interfaces"), i, interface)
    {
        sum += refused_by(json_object_get(interface, "refused"));
        json_array_foreach(json_object_get(interface, "listeners"), j, listener)
        {
            json_t *count, *counts = json_object_get(listener, "refused");
            const char *name;

            json_object_foreach(counts, name, count) sum += (uint64_t)json_integer_value(count);
        }
    }
    snprintf(cell, CELL, "%llu", (unsigned long long)sum);
    return cell;
}

/* ---- all processes --------------------------------------------------------------------------- */

static void list_row(struct table *table, const json_t *whole)
{
    const json_t *process = json_object_get(whole, "process"), *log = json_object_get(whole, "log");
    char cells[10][CELL];

    table_row(table, (const char *[]){
                         number_of(process, "pid", cells[0]),
                         number_of(process, "uid", cells[1]),
                         text_of(process, "program", cells[2]),
                         list_of(json_object_get(whole, "interfaces"), "name", cells[3]),
                         number_of(account(whole, "qp"), "held", cells[4]),
                         number_of(account(whole, "listener"), "held", cells[5]),
                         number_of(account(whole, "mr"), "held", cells[6]),
                         number_of(account(whole, "pinned"), "held", cells[7]),
                         all_refused(whole, cells[8]),
                         number_of(log, "errors", cells[9]),
                     });
}

/* Of all its interfaces together; below 0: not known. */
static double rate_sum(const json_t *whole, const char *name)
{
    const json_t *interface, *rate;
    double sum = -1;
    size_t i;

    json_array_foreach(json_object_get(whole, "interfaces"), i, interface)
    {
        rate = json_object_get(json_object_get(interface, "rates"), name);
        if (rate)
            sum = (sum < 0 ? 0 : sum) + json_real_value(rate);
    }
    return sum;
}

static void rate_row(struct table *table, const json_t *whole)
{
    static const char *const names[] = { "sent_messages", "received_messages", "sent_octets",
                                         "received_octets" };
    const json_t *process = json_object_get(whole, "process");
    char cells[8][CELL];

    for (size_t i = 0; i < 4; i++) {
        double rate = rate_sum(whole, names[i]);

        rate_of(i < 2 || rate < 0 ? rate : rate / 1e6, cells[4 + i]);
    }
    table_row(table, (const char *[]){
                         number_of(process, "pid", cells[0]), text_of(process, "program", cells[1]),
                         list_of(json_object_get(whole, "interfaces"), "name", cells[2]),
                         number_of(account(whole, "qp"), "held", cells[3]), cells[4], cells[5],
                         cells[6], cells[7] });
}

bool state_list(const json_t *all, bool rates)
{
    static const char *const heads[] = { ">PROCESS", ">USER",      "PROGRAM",  "INTERFACES",
                                         ">QPS",     ">LISTENERS", ">REGIONS", ">PINNED",
                                         ">REFUSED", ">ERRORS",    NULL };
    static const char *const rate_heads[] = { ">PROCESS",  "PROGRAM",  "INTERFACES",
                                              ">QPS",      ">SENT/s",  ">RECEIVED/s",
                                              ">OUT MB/s", ">IN MB/s", NULL };
    const json_t *list = json_object_get(all, "processes"), *whole;
    struct table *table;
    size_t i;

    if (!json_array_size(list))
        return true;
    table = table_create(rates ? rate_heads : heads);
    json_array_foreach(list, i, whole)
    {
        if (rates)
            rate_row(table, whole);
        else
            list_row(table, whole);
    }
    return table_print(table);
}

/* ---- one process ----------------------------------------------------------------------------- */

static bool show_interfaces(const json_t *list)
{
    static const char *const heads[] = { "INTERFACE", "PROVIDER", "DEVICE",   "TRANSPORT", ">LANES",
                                         "NETWORK",   ">QPS",     ">REGIONS", "ADDRESSES", NULL };
    struct table *table = table_create(heads);
    char cells[9][CELL];
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const json_t *objects = json_object_get(one, "objects");

        table_row(table, (const char *[]){
                             text_of(one, "name", cells[0]), text_of(one, "provider", cells[1]),
                             text_of(one, "device", cells[2]), text_of(one, "transport", cells[3]),
                             number_of(one, "lanes", cells[4]), text_of(one, "netdevs", cells[5]),
                             number_of(objects, "qp", cells[6]), number_of(objects, "mr", cells[7]),
                             list_of(json_object_get(one, "addresses"), NULL, cells[8]) });
    }
    return table_print(table);
}

static bool show_listeners(const json_t *interfaces)
{
    static const char *const heads[] = { "INTERFACE", "LISTENER", ">HALF-OPEN", ">UNDECIDED",
                                         ">QUEUED",   ">BACKLOG", ">STRANGERS", ">CROWDED",
                                         ">LATE",     ">NO FILE", NULL };
    struct table *table = table_create(heads);
    const json_t *interface, *one;
    char cells[10][CELL];
    size_t i, j;

    json_array_foreach(interfaces, i, interface)
    {
        json_array_foreach(json_object_get(interface, "listeners"), j, one)
        {
            const json_t *refused = json_object_get(one, "refused");

            table_row(
                table,
                (const char *[]){
                    text_of(interface, "name", cells[0]), text_of(one, "address", cells[1]),
                    number_of(one, "half_open", cells[2]), number_of(one, "undecided", cells[3]),
                    number_of(one, "queued", cells[4]), number_of(one, "backlog", cells[5]),
                    number_of(refused, "strangers", cells[6]),
                    number_of(refused, "crowded", cells[7]), number_of(refused, "late", cells[8]),
                    number_of(refused, "no_descriptor", cells[9]) });
        }
    }
    return table_print(table);
}

static bool show_connections(const json_t *interfaces)
{
    static const char *const heads[] = { "INTERFACE", "CONNECTION",    "STATE",
                                         "LOCAL",     "PEER",          ">AGE ms",
                                         "WIRE",      "WHY NOT LOCAL", NULL };
    struct table *table = table_create(heads);
    const json_t *interface, *one;
    char cells[8][CELL];
    size_t i, j;

    json_array_foreach(interfaces, i, interface)
    {
        json_array_foreach(json_object_get(interface, "connections"), j, one)
        {
            bool active = json_is_true(json_object_get(one, "initiator"));

            table_row(table,
                      (const char *[]){
                          text_of(interface, "name", cells[0]), active ? "active" : "passive",
                          text_of(one, "state", cells[2]), text_of(one, "local", cells[3]),
                          text_of(one, "peer", cells[4]), number_of(one, "age_ms", cells[5]),
                          text_of(one, "wire", cells[6]), text_of(one, "local_why", cells[7]) });
        }
    }
    return table_print(table);
}

static bool show_refused(const json_t *interfaces)
{
    static const char *const heads[] = { "INTERFACE", "REFUSED BY", "WHAT", ">TIMES", NULL };
    struct table *table = table_create(heads);
    const json_t *interface;
    char cells[3][CELL];
    const char *what;
    json_t *count;
    size_t i;

    json_array_foreach(interfaces, i, interface)
    {
        for (size_t j = 0; j < CAUSES; j++) {
            json_t *counts = json_object_get(json_object_get(interface, "refused"), causes[j]);

            json_object_foreach(counts, what, count) if (json_integer_value(count))
                table_row(table, (const char *[]){ text_of(interface, "name", cells[0]), causes[j],
                                                   tool_printable(what, cells[1], CELL),
                                                   number_of(counts, what, cells[2]) });
        }
    }
    return table_print(table);
}

static bool has_any(const json_t *interfaces, const char *list)
{
    const json_t *interface;
    size_t i;

    json_array_foreach(interfaces, i, interface) if (json_array_size(json_object_get(
                                                         interface, list))) return true;
    return false;
}

static bool has_refused(const json_t *interfaces)
{
    const json_t *interface;
    size_t i;

    json_array_foreach(interfaces, i, interface) if (refused_by(json_object_get(
                                                         interface, "refused"))) return true;
    return false;
}

/* The tables that have lines, with an empty line behind each. */
static bool show_traffic(const json_t *interfaces)
{
    if (has_any(interfaces, "listeners") && (!show_listeners(interfaces) || putchar('\n') < 0))
        return false;
    if (has_any(interfaces, "connections") && (!show_connections(interfaces) || putchar('\n') < 0))
        return false;
    return !has_refused(interfaces) || (show_refused(interfaces) && putchar('\n') >= 0);
}

static bool show_accounts(json_t *accounts)
{
    static const char *const heads[] = { "ACCOUNT", ">HELD", ">QUOTA", NULL };
    struct table *table = table_create(heads);
    char cells[3][CELL];
    const char *kind;
    json_t *one;

    json_object_foreach(accounts, kind, one)
    {
        json_int_t quota = json_integer_value(json_object_get(one, "quota"));

        table_row(table, (const char *[]){ tool_printable(kind, cells[0], CELL),
                                           number_of(one, "held", cells[1]),
                                           quota ? number_of(one, "quota", cells[2]) : "none" });
    }
    return table_print(table);
}

static bool has_pins(json_t *pins)
{
    const char *way;
    json_t *one;

    json_object_foreach(pins, way,
                        one) if (json_integer_value(json_object_get(one, "ranges"))) return true;
    return false;
}

static bool show_pins(json_t *pins)
{
    static const char *const heads[] = { "PINNED", ">RANGES", ">OCTETS", ">RINGS", NULL };
    struct table *table = table_create(heads);
    char cells[4][CELL];
    const char *way;
    json_t *one;

    json_object_foreach(pins, way, one)
    {
        table_row(table,
                  (const char *[]){
                      tool_printable(way, cells[0], CELL), number_of(one, "ranges", cells[1]),
                      number_of(one, "octets", cells[2]),
                      json_object_get(one, "rings") ? number_of(one, "rings", cells[3]) : "-" });
    }
    return table_print(table);
}

static const char *time_of(const json_t *object, const char *name, char when[32])
{
    time_t seconds = (time_t)json_integer_value(json_object_get(object, name));
    struct tm at;

    if (!localtime_r(&seconds, &at) || !strftime(when, 32, "%F %T", &at))
        snprintf(when, 32, "-");
    return when;
}

static void show_log(const json_t *log)
{
    const json_t *one;
    char cell[CELL], when[32];
    size_t i;

    printf("log to %s: ", text_of(log, "to", cell));
    printf("%s errors, ", number_of(log, "errors", cell));
    printf("%s warnings\n", number_of(log, "warnings", cell));
    json_array_foreach(json_object_get(log, "last"), i, one)
    {
        printf("  %s  ", time_of(one, "time", when));
        printf("%s\n", text_of(one, "line", cell));
    }
}

static void show_rules(const json_t *rules)
{
    const json_t *file;
    char cell[CELL], when[32];
    size_t i;

    if (!rules) /* of an earlier version */
        return;
    printf("rules: %s of the configuration; ", number_of(rules, "configuration", cell));
    if (!json_object_get(rules, "host")) {
        printf("none of the host's policy\n");
        return;
    }
    printf("%s of the host's policy, in effect since %s", number_of(rules, "host", cell),
           time_of(rules, "since", when));
    json_array_foreach(json_object_get(rules, "files"), i, file)
    {
        printf("%s%s", i ? ", " : ": ", tool_printable(json_string_value(file), cell, sizeof cell));
    }
    putchar('\n');
}

static void show_process(const json_t *whole)
{
    const json_t *process = json_object_get(whole, "process");
    char cell[CELL];

    printf("%s, ", text_of(process, "program", cell));
    printf("process %s, ", number_of(process, "pid", cell));
    printf("user %s, ", number_of(process, "uid", cell));
    printf("ital %s, ", text_of(process, "ital", cell));
    printf("first interface opened %s s ago\n", number_of(process, "open_for_s", cell));
    printf("command: %s\n", text_of(process, "command", cell));
    printf("configuration: %s\n", json_is_null(json_object_get(process, "configuration"))
                                      ? "defaults"
                                      : text_of(process, "configuration", cell));
    show_rules(json_object_get(whole, "rules"));
    putchar('\n');
}

static bool show_endpoints(json_t *whole)
{
    json_t *alone = json_pack("{s:[O]}", "processes", whole);
    bool good = alone && has_any(json_object_get(whole, "interfaces"), "endpoints");
    size_t count;

    good = alone && (!good || (endpoints_table(alone, NULL, &count) && putchar('\n') >= 0));
    json_decref(alone);
    return good;
}

static bool show_details(json_t *whole)
{
    const json_t *interfaces = json_object_get(whole, "interfaces");

    show_process(whole);
    if (!show_interfaces(interfaces) || putchar('\n') < 0 || !show_traffic(interfaces) ||
        !show_endpoints(whole))
        return false;
    if (has_any(interfaces, "lane") && (!lanes_table(interfaces) || putchar('\n') < 0))
        return false;
    if (!show_accounts(json_object_get(whole, "accounts")) || putchar('\n') < 0)
        return false;
    if (has_pins(json_object_get(whole, "pins")) &&
        (!show_pins(json_object_get(whole, "pins")) || putchar('\n') < 0))
        return false;
    show_log(json_object_get(whole, "log"));
    return true;
}

bool state_details(const json_t *all)
{
    json_t *whole;
    size_t i;

    json_array_foreach(json_object_get(all, "processes"), i, whole)
    {
        if ((i && putchar('\n') < 0) || !show_details(whole))
            return false;
    }
    return true;
}

#endif
