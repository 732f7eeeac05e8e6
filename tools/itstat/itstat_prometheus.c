/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The document in Prometheus' text format, version 0.0.4: for its agent, or node_exporter's
 * textfile collector.
 */
#include "itstat.h"

#ifdef HAVE_JANSSON

#include "itstat_state.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

struct family {
    const struct counter *counter;
    bool begun;
};

/* A label's value may have every character; three are escaped. What terminals would obey is not
 * shown. */
static void put_text(const char *name, const char *text)
{
    printf("%s=\"", name);
    for (; text && *text; text++) {
        if (*text == '\n')
            fputs("\\n", stdout);
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
    }
    putchar('"');
}

static const char *member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void put_labels(const struct part *part, enum counter_scope scope)
{
    const json_t *process = json_object_get(part->process, "process");

    printf("{pid=\"%lld\",", (long long)json_integer_value(json_object_get(process, "pid")));
    put_text("program", member(process, "program"));
    if (scope != COUNTER_PROCESS) {
        putchar(',');
        put_text("interface", member(part->interface, "name"));
        printf(",open=\"%zu\"", part->nth_interface);
    }
    if (scope == COUNTER_LISTENER) {
        printf(",listener=\"%zu\",", part->nth);
        put_text("address", member(part->object, "address"));
    } else if (scope == COUNTER_ENDPOINT) {
        printf(",qp=\"%lld\",", (long long)json_integer_value(json_object_get(part->object, "qp")));
        put_text("local", member(part->object, "local"));
        putchar(',');
        put_text("peer", member(part->object, "peer"));
    } else if (scope == COUNTER_LANE) {
        printf(",lane=\"%zu\"", part->nth);
    }
    putchar('}');
}

static void put_head(const char *metric, const char *suffix, const char *text, bool rises)
{
    printf("# HELP %s%s %s\n# TYPE %s%s %s\n", metric, suffix, text, metric, suffix,
           rises ? "counter" : "gauge");
}

static bool put_sample(const struct part *part, void *arg)
{
    static const char *const scopes[] = { "process", "interface", "listener", "endpoint", "lane" };
    struct family *family = arg;
    const struct counter *counter = family->counter;
    const json_t *number = counter_of(part->object, counter);
    const char *suffix = counter->rises ? "_total" : "";
    char metric[128];

    if (!number)
        return true;
    snprintf(metric, sizeof metric, "ital_%s_%s", scopes[counter->scope], counter->metric);
    if (!family->begun)
        put_head(metric, suffix, counter->text, counter->rises);
    family->begun = true;
    printf("%s%s", metric, suffix);
    put_labels(part, counter->scope);
    printf(" %lld\n", (long long)json_integer_value(number));
    return !ferror(stdout);
}

static bool put_held(const struct part *part, void *arg)
{
    struct family *family = arg;

    if (!family->begun)
        put_head("ital_endpoint_held", "",
                 "1: it sends nothing until the peer's first message has come.", false);
    family->begun = true;
    printf("ital_endpoint_held");
    put_labels(part, COUNTER_ENDPOINT);
    printf(" %d\n", json_is_string(json_object_get(part->object, "held")));
    return !ferror(stdout);
}

static bool put_local(const struct part *part, void *arg)
{
    const char *wire = member(part->object, "wire");
    struct family *family = arg;

    if (!wire)
        return true;
    if (!family->begun)
        put_head("ital_endpoint_local", "",
                 "1: its connection is carried by memory that both ends share; 0: by TCP.", false);
    family->begun = true;
    printf("ital_endpoint_local");
    put_labels(part, COUNTER_ENDPOINT);
    printf(" %d\n", !strcmp(wire, "local"));
    return !ferror(stdout);
}

static void put_who(const json_t *all)
{
    const json_t *process, *silent;
    size_t i;

    put_head("ital_process_answers", "", "1: the process answers; 0: it does not.", false);
    json_array_foreach(json_object_get(all, "processes"), i, process)
    {
        const json_t *who = json_object_get(process, "process");

        printf("ital_process_answers{pid=\"%lld\",",
               (long long)json_integer_value(json_object_get(who, "pid")));
        put_text("program", member(who, "program"));
        printf(",uid=\"%lld\",", (long long)json_integer_value(json_object_get(who, "uid")));
        put_text("version", member(who, "ital"));
        puts("} 1");
    }
    json_array_foreach(json_object_get(all, "silent"), i, silent)
        printf("ital_process_answers{pid=\"%lld\"} 0\n", (long long)json_integer_value(silent));
}

/* Two endpoints of one number would be one series twice, for which the whole text is refused. No
 * provider gives a number twice; a process may still say so. */
static void drop_twins(json_t *endpoints)
{
    json_t *seen = json_object(), *endpoint;
    char number[24];
    size_t i = 0;

    while ((endpoint = json_array_get(endpoints, i))) {
        snprintf(number, sizeof number, "%lld",
                 (long long)json_integer_value(json_object_get(endpoint, "qp")));
        if (json_object_get(seen, number) || json_object_set_new(seen, number, json_true()))
            json_array_remove(endpoints, i);
        else
            i++;
    }
    json_decref(seen);
}

static bool drop_twins_of(const struct part *part, void *arg)
{
    (void)arg;
    drop_twins(json_object_get(part->interface, "endpoints"));
    return true;
}

bool prometheus(const json_t *all)
{
    struct family held = { .begun = false }, local = { .begun = false };
    bool good = true;

    put_who(all);
    walk_parts(all, COUNTER_INTERFACE, drop_twins_of, NULL);
    for (size_t i = 0; good && i < counter_count; i++) {
        struct family family = { .counter = &counters[i] };

        good = walk_parts(all, counters[i].scope, put_sample, &family);
    }
    good = good && walk_parts(all, COUNTER_ENDPOINT, put_held, &held) &&
           walk_parts(all, COUNTER_ENDPOINT, put_local, &local);
    if (!good || fflush(stdout))
        tool_error("standard output cannot be written");
    return good && !ferror(stdout);
}

#endif
