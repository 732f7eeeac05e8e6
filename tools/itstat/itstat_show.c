/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counts as tables for people, and as JSON.
 */
#include "itstat.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#include "tools/common/table.h"
#include "tools/common/tool.h"

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_row(struct table *table, const struct verb *verb, double seconds)
{
    char calls[24], errors[24], rate[32], mean[32] = "-", half[32] = "-", most[32] = "-",
                                          all[32] = "-";

    snprintf(calls, sizeof calls, "%llu", (unsigned long long)verb->calls);
    snprintf(errors, sizeof errors, "%llu", (unsigned long long)verb->errors);
    snprintf(rate, sizeof rate, "%.1f", seconds > 0 ? (double)verb->calls / seconds : 0);
    if (verb->ns) {
        snprintf(mean, sizeof mean, "%.2f", (double)verb->ns / (double)verb->calls / 1e3);
        snprintf(half, sizeof half, "%.2f", (double)verb_quantile(verb, 0.5) / 1e3);
        snprintf(most, sizeof most, "%.2f", (double)verb_quantile(verb, 0.99) / 1e3);
        snprintf(all, sizeof all, "%.2f", (double)verb_quantile(verb, 1) / 1e3);
    }
    table_row(table, (const char *[]){ verb->name, calls, errors, rate, mean, half, most, all });
}

static bool show_view(const struct view *view, const struct view *before)
{
    static const char *const heads[] = { "VERB", ">CALLS", ">ERRORS", ">PER SECOND", ">MEAN us",
                                         ">P50", ">P99",   ">MAX",    NULL };
    double seconds = view_seconds(view, before);
    struct table *table = table_create(heads);
    char program[260], device[260];

    printf("%s, process %lld, device %s, %s %.1f s%s\n",
           tool_printable(view->program, program, sizeof program), (long long)view->process,
           tool_printable(view->device, device, sizeof device), before ? "the last" : "since",
           seconds, view->runs ? "" : "; it has ended without closing");
    for (size_t i = 0; i < view->count; i++) {
        struct verb verb = verb_since(view, i, before);

        if (verb.calls)
            add_row(table, &verb, seconds);
    }
    return table_print(table);
}

bool show_tables(const struct views *now, const struct views *before)
{
    bool good = true;

    for (size_t i = 0; i < now->count && good; i++) {
        if (i)
            putchar('\n');
        good = show_view(&now->view[i], view_find(before, &now->view[i]));
    }
    return good;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#ifdef HAVE_JANSSON

static json_t *verb_json(const struct verb *verb, double seconds)
{
    json_t *object = json_object();

    json_object_set_new(object, "calls", json_integer((json_int_t)verb->calls));
    json_object_set_new(object, "errors", json_integer((json_int_t)verb->errors));
    json_object_set_new(object, "per_second",
                        json_real(seconds > 0 ? (double)verb->calls / seconds : 0));
    if (!verb->ns)
        return object;
    json_object_set_new(object, "mean_us", json_real((double)verb->ns / (double)verb->calls / 1e3));
    json_object_set_new(object, "p50_us", json_real((double)verb_quantile(verb, 0.5) / 1e3));
    json_object_set_new(object, "p90_us", json_real((double)verb_quantile(verb, 0.9) / 1e3));
    json_object_set_new(object, "p99_us", json_real((double)verb_quantile(verb, 0.99) / 1e3));
    json_object_set_new(object, "max_us", json_real((double)verb_quantile(verb, 1) / 1e3));
    return object;
}

static json_t *view_json(const struct view *view, const struct view *before)
{
    json_t *object = json_object(), *verbs = json_object(), *text;
    double seconds = view_seconds(view, before);
    char plain[260];

    json_object_set_new(object, "process", json_integer((json_int_t)view->process));
    text = json_string(tool_printable(view->program, plain, sizeof plain));
    json_object_set_new(object, "program", text);
    text = json_string(tool_printable(view->device, plain, sizeof plain));
    json_object_set_new(object, "device", text);
    json_object_set_new(object, "running", json_boolean(view->runs));
    json_object_set_new(object, "seconds", json_real(seconds));
    for (size_t i = 0; i < view->count; i++) {
        struct verb verb = verb_since(view, i, before);

        if (verb.calls)
            json_object_set_new(verbs, verb.name, verb_json(&verb, seconds));
    }
    json_object_set_new(object, "verbs", verbs);
    return object;
}

bool show_json(const struct views *now, const struct views *before)
{
    json_t *list = json_array(), *whole = json_pack("{s:o}", "interfaces", list);
    bool good;

    for (size_t i = 0; i < now->count; i++)
        json_array_append_new(list, view_json(&now->view[i], view_find(before, &now->view[i])));
    good = whole && !json_dumpf(whole, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(whole);
    if (!good)
        tool_error("out of memory");
    return good;
}

#else

bool show_json(const struct views *now, const struct views *before)
{
    (void)now, (void)before;
    tool_error("--json is not in this build: it was made without jansson");
    return false;
}

#endif
