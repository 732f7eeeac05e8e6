/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints of all processes, those of an address alone; lanes of one process.
 */
#include "itstat.h"

#ifdef HAVE_JANSSON

#include "itstat_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/common/table.h"
#include "tools/common/tool.h"

struct wanted {
    const struct policy_place *of; /* NULL: all */
    struct table *table;
    json_t *list;
    size_t count;
    bool rates;
};

/* What is not given in `of` matches everything. */
static bool is_at(const json_t *object, const char *member, const struct policy_place *of)
{
    const char *text = json_string_value(json_object_get(object, member));
    struct policy_place place;

    if (!text || place_parse(text, &place))
        return false;
    if (of->family != AF_UNSPEC && (place.family != of->family ||
                                    memcmp(place.address, of->address, sizeof place.address) != 0))
        return false;
    return of->port < 0 || place.port == of->port;
}

static bool matches(const struct wanted *wanted, const json_t *object)
{
    return !wanted->of || is_at(object, "local", wanted->of) || is_at(object, "peer", wanted->of);
}

/* Messages: how many, or how many a second once there is a rate. */
static const char *messages(const json_t *object, const char *name, bool rates, char cell[CELL])
{
    const json_t *rate = json_object_get(json_object_get(object, "rates"), name);

    if (!rates)
        return number_of(json_object_get(object, "counters"), name, cell);
    return rate_of(rate ? json_real_value(rate) : -1, cell);
}

static bool table_one(const struct part *part, void *arg)
{
    struct wanted *wanted = arg;
    const json_t *process = json_object_get(part->process, "process");
    const json_t *depths = json_object_get(part->object, "depths");
    char cells[16][CELL];

    if (!matches(wanted, part->object))
        return true;
    wanted->count++;
    table_row(wanted->table,
              (const char *[]){
                  number_of(process, "pid", cells[0]), text_of(process, "program", cells[1]),
                  text_of(part->interface, "name", cells[2]),
                  number_of(part->object, "qp", cells[3]), text_of(part->object, "state", cells[4]),
                  text_of(part->object, "local", cells[5]), text_of(part->object, "peer", cells[6]),
                  text_of(part->object, "wire", cells[7]), text_of(part->object, "way", cells[8]),
                  number_of(depths, "send", cells[9]), number_of(depths, "receive", cells[10]),
                  number_of(part->object, "lane", cells[11]),
                  messages(part->object, "sent_messages", wanted->rates, cells[12]),
                  messages(part->object, "received_messages", wanted->rates, cells[13]),
                  text_of(part->object, "held", cells[14]),
                  text_of(part->object, "local_why", cells[15]) });
    return true;
}

static bool has_rates(const struct part *part, void *arg)
{
    bool *has = arg;

    *has |= json_object_get(part->object, "rates") != NULL;
    return !*has;
}

bool endpoints_table(const json_t *all, const struct policy_place *of, size_t *count)
{
    static const char *const totals[] = { ">PROCESS", "PROGRAM",   "INTERFACE", ">QP",
                                          "STATE",    "LOCAL",     "PEER",      "WIRE",
                                          "WAY",      ">SENDS",    ">RECVS",    ">LANE",
                                          ">SENT",    ">RECEIVED", "HELD",      "WHY NOT LOCAL",
                                          NULL };
    static const char *const rates[] = { ">PROCESS", "PROGRAM",     "INTERFACE", ">QP",
                                         "STATE",    "LOCAL",       "PEER",      "WIRE",
                                         "WAY",      ">SENDS",      ">RECVS",    ">LANE",
                                         ">SENT/s",  ">RECEIVED/s", "HELD",      "WHY NOT LOCAL",
                                         NULL };
    struct wanted wanted = { .of = of };

    walk_parts(all, COUNTER_ENDPOINT, has_rates, &wanted.rates);
    wanted.table = table_create(wanted.rates ? rates : totals);
    walk_parts(all, COUNTER_ENDPOINT, table_one, &wanted);
    *count = wanted.count;
    return table_print(wanted.table);
}

static bool json_one(const struct part *part, void *arg)
{
    struct wanted *wanted = arg;
    json_t *process = json_object_get(part->process, "process"), *one;

    if (!matches(wanted, part->object))
        return true;
    wanted->count++;
    one = json_pack("{s:O, s:O, s:O}", "pid", json_object_get(process, "pid"), "program",
                    json_object_get(process, "program"), "interface",
                    json_object_get(part->interface, "name"));
    return one && !json_object_update(one, part->object) &&
           !json_array_append_new(wanted->list, one);
}

json_t *endpoints_json(const json_t *all, const struct policy_place *of, size_t *count)
{
    struct wanted wanted = { .of = of, .list = json_array() };
    json_t *whole = NULL;

    if (wanted.list && walk_parts(all, COUNTER_ENDPOINT, json_one, &wanted))
        whole = json_pack("{s:O, s:O, s:O}", "version", json_object_get(all, "version"),
                          "endpoints", wanted.list, "silent", json_object_get(all, "silent"));
    json_decref(wanted.list);
    *count = wanted.count;
    return whole;
}

bool lanes_table(const json_t *interfaces)
{
    static const char *const heads[] = { "INTERFACE", ">LANE",  ">QPS",   ">DESCRIPTORS",
                                         ">WAITERS",  ">POLLS", "RUN BY", NULL };
    struct table *table = table_create(heads);
    const json_t *interface, *one;
    char cells[7][CELL];
    size_t i, j;

    json_array_foreach(interfaces, i, interface)
    {
        json_array_foreach(json_object_get(interface, "lane"), j, one)
        {
            table_row(table, (const char *[]){ text_of(interface, "name", cells[0]),
                                               number_of(one, "index", cells[1]),
                                               number_of(one, "queue_pairs", cells[2]),
                                               number_of(one, "descriptors", cells[3]),
                                               number_of(one, "waiters", cells[4]),
                                               number_of(one, "polls", cells[5]),
                                               text_of(one, "run_by", cells[6]) });
        }
    }
    return table_print(table);
}

#endif
