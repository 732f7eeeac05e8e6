/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state: asks, puts the answers together, shows them; once or again and again.
 */
#include "itstat.h"

#include <stdio.h>
#include <stdlib.h>

#include "formats/monitor.h"

#include "tools/common/tool.h"

#ifdef HAVE_JANSSON

#include "itstat_state.h"

/* Of JSON: ten thousand endpoints have about 600,000. */
#define VALUES_MOST   4000000u
#define VALUES_OF_ALL 16000000u

/* ---- the document ---------------------------------------------------------------------------- */

/* Number and user are those that the kernel says, not those that the process does. */
static bool set_who(json_t *process, const struct answer *answer)
{
    return !json_object_set_new(process, "pid", json_integer(answer->process)) &&
           !json_object_set_new(process, "uid", json_integer(answer->user));
}

/* How many values a JSON text has, at most. A process of another user may answer anything: a value
 * of three octets takes some hundred when it is parsed. */
static size_t values_of(const char *text, size_t length)
{
    bool quoted = false;
    size_t count = 1;

    for (size_t i = 0; i < length; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
            count++;
    }
    return count;
}

/* NULL: it is not what a process answers, which is said. *left: values that may still be parsed. */
static json_t *parse(const struct answer *answer, size_t *left)
{
    size_t values;
    json_t *whole;

    if (!answer->whole) {
        tool_error("process %d does not answer; it may be stopped", (int)answer->process);
        return NULL;
    }
    values = values_of(answer->text, answer->length);
    if (values > VALUES_MOST || values > *left) {
        tool_error("process %d is left out: its answer has more than %u values, or all of them "
                   "more than %u",
                   (int)answer->process, VALUES_MOST, VALUES_OF_ALL);
        return NULL;
    }
    *left -= values;
    whole = json_loadb(answer->text, answer->length, JSON_REJECT_DUPLICATES, NULL);
    if (json_integer_value(json_object_get(whole, "version")) == MONITOR_VERSION &&
        json_is_object(json_object_get(whole, "process")) &&
        set_who(json_object_get(whole, "process"), answer))
        return whole;
    tool_error("process %d answers what this itstat does not understand; is it of another version "
               "of ital?",
               (int)answer->process);
    json_decref(whole);
    return NULL;
}

/* NULL: no memory. */
static json_t *put_together(const struct answers *answers)
{
    json_t *list = json_array(), *silent = json_array();
    json_t *all = json_pack("{s:i, s:o, s:o}", "version", MONITOR_VERSION, "processes", list,
                            "silent", silent);
    size_t left = VALUES_OF_ALL;

    for (size_t i = 0; all && i < answers->count; i++) {
        json_t *whole = parse(&answers->answer[i], &left);

        if (whole ? json_array_append_new(list, whole)
                  : json_array_append_new(silent, json_integer(answers->answer[i].process))) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}

static bool has(const struct answers *answers, pid_t process)
{
    for (size_t i = 0; i < answers->count; i++)
        if (answers->answer[i].process == process)
            return true;
    return false;
}

/* Names the wanted processes that are not there. */
static bool none_missing(const pid_t *wanted, const struct answers *answers)
{
    bool good = true;

    for (; *wanted; wanted++) {
        if (has(answers, *wanted))
            continue;
        tool_error("process %d shows nothing: it is not there, has no interface open, is another "
                   "user's, or runs with monitor = no",
                   (int)*wanted);
        good = false;
    }
    return good;
}

/* ---- one round ------------------------------------------------------------------------------- */

static bool write_json(const json_t *whole)
{
    if (!whole || json_dumpf(whole, stdout, JSON_COMPACT) || putchar('\n') < 0 || fflush(stdout)) {
        tool_error("the document cannot be written");
        return false;
    }
    return true;
}

/* False: it cannot be shown, which is said; *found: the address has endpoints, or none was given.
 */
static bool show(const struct state_wish *wish, const json_t *all, bool *found)
{
    size_t count = 1;
    bool good;

    if (wish->endpoints && wish->json) {
        json_t *whole = endpoints_json(all, wish->of, &count);

        good = write_json(whole);
        json_decref(whole);
    } else if (wish->endpoints) {
        good = endpoints_table(all, wish->of, &count);
    } else if (wish->json) {
        good = write_json(all);
    } else if (wish->prometheus) {
        good = prometheus(all);
    } else if (wish->wanted[0]) {
        good = state_details(all);
    } else {
        good = state_list(all, wish->interval != 0);
    }
    *found = count != 0;
    return good && !fflush(stdout);
}

struct round {
    json_t *all;
    uint64_t at;
};

/* An exit status; TOOL_OK also where there is nothing, as others may come in the next round. */
static int do_round(const struct state_wish *wish, const struct round *before, struct round *now)
{
    bool any = wish->wanted[0] || wish->endpoints || wish->interval, found, complete;
    struct answers answers;
    double seconds;

    if (!ask_processes(any ? "all" : "process", wish->wanted[0] ? wish->wanted : NULL, &answers))
        return TOOL_FAILED;
    now->at = tool_now();
    now->all = put_together(&answers);
    complete = now->all && !json_array_size(json_object_get(now->all, "silent")) && answers.count;
    seconds = (double)(now->at - before->at) / 1e9;
    if (now->all && before->all &&
        (json_object_set_new(now->all, "seconds", json_real(seconds)) ||
         !add_rates(now->all, before->all, seconds))) {
        json_decref(now->all);
        now->all = NULL;
    }
    if (!now->all) {
        tool_error("out of memory");
        answers_free(&answers);
        return TOOL_FAILED;
    }
    if (!answers.count && !wish->wanted[0])
        tool_error("no process has an interface open");
    complete &= none_missing(wish->wanted, &answers);
    answers_free(&answers);
    if (!show(wish, now->all, &found))
        return TOOL_FAILED;
    if (!found)
        tool_error("no endpoint has that address");
    return complete && found ? TOOL_OK : TOOL_FAILED;
}

int state_main(const struct state_wish *wish)
{
    struct round before = { NULL, 0 }, now = { NULL, 0 };
    uint64_t rounds = 0;
    int result;

    do {
        if (rounds && !wish->json && putchar('\n') < 0)
            break;
        result = do_round(wish, &before, &now);
        json_decref(before.all);
        before = now;
        now.all = NULL;
    } while (wish->interval && before.all && ++rounds != wish->count && tool_pause(wish->interval));
    json_decref(before.all);
    return result;
}

#else

int state_main(const struct state_wish *wish)
{
    (void)wish;
    tool_error("this build shows calls only (itstat calls): it was made without jansson");
    return TOOL_FAILED;
}

#endif
