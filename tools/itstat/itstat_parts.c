/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Parts of the document: members as texts, numbers of the table formats/counters_table.h, all
 * objects of a kind.
 */
#include "itstat.h"

#ifdef HAVE_JANSSON

#include "itstat_state.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

const char *text_of(const json_t *object, const char *name, char cell[CELL])
{
    const char *text = json_string_value(json_object_get(object, name));

    return tool_printable(text ? text : "-", cell, CELL);
}

const char *number_of(const json_t *object, const char *name, char cell[CELL])
{
    const json_t *number = json_object_get(object, name);

    snprintf(cell, CELL, json_is_integer(number) ? "%lld" : "-",
             (long long)json_integer_value(number));
    return cell;
}

const char *list_of(const json_t *list, const char *name, char cell[CELL])
{
    char joint[CELL] = "";
    const json_t *entry;
    size_t length = 0, i;

    json_array_foreach(list, i, entry)
    {
        const char *text = json_string_value(name ? json_object_get(entry, name) : entry);

        length += (size_t)snprintf(joint + length, sizeof joint - length, "%s%s", i ? ", " : "",
                                   text ? text : "-");
        if (length >= sizeof joint)
            break;
    }
    return tool_printable(*joint ? joint : "-", cell, CELL);
}

const char *rate_of(double rate, char cell[CELL])
{
    snprintf(cell, CELL, rate < 0 ? "-" : rate < 99.95 ? "%.1f" : "%.0f", rate);
    return cell;
}

const json_t *counter_of(const json_t *object, const struct counter *counter)
{
    const char *at = counter->group, *end;
    char name[64];

    for (; object && *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '.');
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        object = json_object_get(object, name);
    }
    object = json_object_get(object, counter->name);
    return json_is_integer(object) ? object : NULL;
}

/* The objects of an interface. */
static bool walk_list(struct part *part, const char *name, part_fn fn, void *arg)
{
    json_array_foreach(json_object_get(part->interface, name), part->nth, part->object)
    {
        if (json_is_object(part->object) && !fn(part, arg))
            return false;
    }
    return true;
}

static bool walk_process(struct part *part, enum counter_scope scope, part_fn fn, void *arg)
{
    static const char *const lists[COUNTER_SCOPES] = {
        [COUNTER_LISTENER] = "listeners", [COUNTER_ENDPOINT] = "endpoints", [COUNTER_LANE] = "lane"
    };
    json_t *interface;

    if (scope == COUNTER_PROCESS)
        return fn(part, arg);
    json_array_foreach(json_object_get(part->process, "interfaces"), part->nth_interface, interface)
    {
        part->interface = part->object = interface;
        part->nth = 0;
        if (scope == COUNTER_INTERFACE ? !fn(part, arg) : !walk_list(part, lists[scope], fn, arg))
            return false;
    }
    return true;
}

bool walk_parts(const json_t *all, enum counter_scope scope, part_fn fn, void *arg)
{
    json_t *process;
    size_t i;

    json_array_foreach(json_object_get(all, "processes"), i, process)
    {
        struct part part = { .process = process, .object = process };

        if (!walk_process(&part, scope, fn, arg))
            return false;
    }
    return true;
}

#endif
