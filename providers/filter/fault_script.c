/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads fault scripts; decides what a rule selects. */
#include "fault_script.h"

#include "base/checked.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *name;
    unsigned value;
};

static const struct word actions[] = {
    { "fail", FAULT_FAIL }, { "error", FAULT_ERROR },     { "delay", FAULT_DELAY },
    { "drop", FAULT_DROP }, { "reorder", FAULT_REORDER }, { NULL, 0 },
};

static const struct word statuses[] = {
    { "not_supported", RI_ERR_NOT_SUPPORTED },
    { "invalid_argument", RI_ERR_INVALID_ARGUMENT },
    { "invalid_state", RI_ERR_INVALID_STATE },
    { "no_resources", RI_ERR_NO_RESOURCES },
    { "limit", RI_ERR_LIMIT },
    { "queue_full", RI_ERR_QUEUE_FULL },
    { "busy", RI_ERR_BUSY },
    { "address", RI_ERR_ADDRESS },
    { "access", RI_ERR_ACCESS },
    { "permission", RI_ERR_PERMISSION },
    { "address_in_use", RI_ERR_ADDRESS_IN_USE },
    { "unreachable", RI_ERR_UNREACHABLE },
    { "timed_out", RI_ERR_TIMED_OUT },
    { "device", RI_ERR_DEVICE },
    { NULL, 0 },
};

static const struct word requests[] = {
    { "send", FAULT_SEND },
    { "write", FAULT_WRITE },
    { "read", FAULT_READ },
    { "atomic", FAULT_ATOMIC },
    { "posted", FAULT_POSTED },
    { "receive", FAULT_RECEIVE },
    { NULL, 0 },
};

static const struct word wc_statuses[] = {
    { "local_length", RI_WC_LOCAL_LENGTH },
    { "local_qp", RI_WC_LOCAL_QP },
    { "local_protection", RI_WC_LOCAL_PROTECTION },
    { "bind", RI_WC_BIND },
    { "bad_response", RI_WC_BAD_RESPONSE },
    { "remote_access", RI_WC_REMOTE_ACCESS },
    { "remote_operation", RI_WC_REMOTE_OPERATION },
    { "remote_invalid_request", RI_WC_REMOTE_INVALID_REQUEST },
    { "transport", RI_WC_TRANSPORT },
    { "rnr", RI_WC_RNR },
    { "general", RI_WC_GENERAL },
    { NULL, 0 },
};

/* One script as it is read. */
struct reader {
    struct fault_script *script;
    unsigned line;
    char *rest; /* of the line */
    char *why;
    size_t room;
};

static bool wrong(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool wrong(struct reader *reader, const char *format, ...)
{
    va_list args;
    int length = snprintf(reader->why, reader->room, "%u: ", reader->line);

    va_start(args, format);
    if (length >= 0 && (size_t)length < reader->room)
        vsnprintf(reader->why + length, reader->room - (size_t)length, format, args);
    va_end(args);
    return false;
}

static char *next_word(struct reader *reader)
{
    return strtok_r(NULL, " \t\r\n", &reader->rest);
}

static void list_words(const struct word *words, char *text, size_t room)
{
    size_t length = 0;

    *text = '\0';
    for (; words->name && length < room; words++)
        length += (size_t)snprintf(text + length, room - length, "%s%s", length ? ", " : "",
                                   words->name);
}

/* what: of the line, for the message. */
static bool read_word(struct reader *reader, const char *what, const struct word *words,
                      unsigned *value)
{
    const char *given = next_word(reader);
    char allowed[400];

    for (const struct word *word = words; given && word->name; word++)
        if (!strcmp(word->name, given)) {
            *value = word->value;
            return true;
        }
    list_words(words, allowed, sizeof(allowed));
    return given ? wrong(reader, "%s \"%s\": allowed is %s", what, given, allowed)
                 : wrong(reader, "%s is missing: allowed is %s", what, allowed);
}

static bool read_verb(struct reader *reader, enum pass_verb *verb)
{
    struct word words[PASS_VERBS + 1] = { { NULL, 0 } };
    unsigned value = 0;

    for (unsigned i = 0; i < PASS_VERBS; i++)
        words[i] = (struct word){ pass_verb_names[i], i };
    if (!read_word(reader, "the verb", words, &value))
        return false;
    *verb = (enum pass_verb)value;
    return true;
}

/* A decimal number and the text behind it. */
static bool leading(const char *text, uint64_t *number, const char **rest)
{
    char *end;

    if (!text || !isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    *rest = end;
    return !errno;
}

static bool read_count(struct reader *reader, const char *what, uint64_t *value)
{
    const char *given = next_word(reader), *rest;
    uint64_t number;

    if (!leading(given, &number, &rest) || *rest || !number)
        return wrong(reader, "%s \"%s\": allowed is a number from 1", what, given ? given : "");
    *value = number;
    return true;
}

static bool read_seed(struct reader *reader)
{
    const char *given = next_word(reader), *rest;

    if (!leading(given, &reader->script->seed, &rest) || *rest)
        return wrong(reader, "seed \"%s\": allowed is a number", given ? given : "");
    reader->script->seeded = true;
    return true;
}

static bool read_octets(struct reader *reader, uint64_t *value)
{
    static const char letters[] = "kmg";
    const char *given = next_word(reader), *rest, *letter;
    uint64_t number;
    bool good = leading(given, &number, &rest) && number;

    if (good && *rest) {
        letter = strchr(letters, tolower((unsigned char)*rest));
        good = letter && !rest[1] &&
               checked_mul(number, UINT64_C(1) << (10 * (letter - letters + 1)), &number);
    }
    if (!good)
        return wrong(reader, "octets \"%s\": allowed is a number from 1, with k, m or g behind it",
                     given ? given : "");
    *value = number;
    return true;
}

static bool read_time(struct reader *reader, uint64_t *ns)
{
    static const struct word units[] = {
        { "us", 1000 },
        { "ms", 1000000 },
        { "s", 1000000000 },
        { NULL, 0 },
    };
    const char *given = next_word(reader), *rest;
    uint64_t number;

    if (leading(given, &number, &rest) && number)
        for (const struct word *unit = units; unit->name; unit++)
            if (!strcmp(unit->name, rest) && checked_mul(number, unit->value, ns) &&
                *ns <= UINT64_C(3600000000000))
                return true;
    return wrong(reader, "time \"%s\": allowed is a number with us, ms or s behind it, to 3600s",
                 given ? given : "");
}

/* "0.01" or "1%". */
static bool read_chance(struct reader *reader, uint64_t *chance)
{
    const char *given = next_word(reader);
    char *end = NULL;
    double value = given && (isdigit((unsigned char)*given) || *given == '.') ? strtod(given, &end)
                                                                              : -1;

    if (end && *end == '%') {
        value /= 100;
        end++;
    }
    if (!end || *end || !(value > 0) || value > 1)
        return wrong(reader, "chance \"%s\": allowed is a number above 0, to 1 or to 100%%",
                     given ? given : "");
    *chance = value >= 1 ? FAULT_ALWAYS : (uint64_t)(value * 18446744073709549568.0);
    reader->script->uses_chance = true;
    return true;
}

/* What stands behind the action and its arguments. */
static bool read_selection(struct reader *reader, struct fault_rule *rule)
{
    const char *name;

    while ((name = next_word(reader))) {
        bool good;

        if (!strcmp(name, "at"))
            good = read_count(reader, name, &rule->at);
        else if (!strcmp(name, "from"))
            good = read_count(reader, name, &rule->from);
        else if (!strcmp(name, "every"))
            good = read_count(reader, name, &rule->every);
        else if (!strcmp(name, "times"))
            good = read_count(reader, name, &rule->times);
        else if (!strcmp(name, "chance"))
            good = read_chance(reader, &rule->chance);
        else if (!strcmp(name, "qp") && rule->action != FAULT_FAIL)
            good = read_count(reader, name, &rule->qp);
        else if (!strcmp(name, "after") && rule->action == FAULT_DROP)
            good = read_octets(reader, &rule->octets);
        else
            return wrong(reader, "\"%s\": allowed is at, from, every, times, chance%s%s", name,
                         rule->action == FAULT_FAIL ? "" : ", qp",
                         rule->action == FAULT_DROP ? ", after" : "");
        if (!good)
            return false;
    }
    if (rule->at && (rule->from > 1 || rule->every > 1 || rule->chance != FAULT_ALWAYS))
        return wrong(reader, "at selects one: from, every and chance are not allowed beside it");
    if (rule->octets && (rule->at || rule->from > 1 || rule->every > 1))
        return wrong(reader, "after counts octets: at, from and every are not allowed beside it");
    return true;
}

static bool read_action(struct reader *reader, struct fault_rule *rule)
{
    unsigned value = 0;

    switch (rule->action) {
    case FAULT_FAIL:
        if (!read_verb(reader, &rule->verb) || !read_word(reader, "the status", statuses, &value))
            return false;
        rule->status = (enum ri_status)value;
        return true;
    case FAULT_ERROR:
        if (!read_word(reader, "the request", requests, &rule->requests) ||
            !read_word(reader, "the status", wc_statuses, &value))
            return false;
        rule->wc_status = (uint16_t)value;
        return true;
    case FAULT_DELAY:
        reader->script->delays = true;
        return read_word(reader, "the request", requests, &rule->requests) &&
               read_time(reader, &rule->delay_ns);
    case FAULT_REORDER:
        reader->script->delays = true;
        return read_word(reader, "the request", requests, &rule->requests);
    case FAULT_DROP: break;
    }
    rule->requests = FAULT_POSTED | FAULT_OTHER;
    return true;
}

static bool add_rule(struct reader *reader, const struct fault_rule *rule)
{
    struct fault_script *script = reader->script;
    struct fault_rule *longer = reallocarray(script->rules, script->count + 1, sizeof(*longer));

    if (!longer)
        return wrong(reader, "out of memory");
    script->rules = longer;
    longer[script->count++] = *rule;
    script->fails |= rule->action == FAULT_FAIL;
    return true;
}

static bool read_line(struct reader *reader, char *line)
{
    struct fault_rule rule = {
        .line = reader->line, .from = 1, .every = 1, .chance = FAULT_ALWAYS
    };
    char allowed[100], *name;

    line[strcspn(line, "#")] = '\0';
    name = strtok_r(line, " \t\r\n", &reader->rest);
    if (!name)
        return true;
    if (!strcmp(name, "seed"))
        return read_seed(reader) && (!(name = next_word(reader)) ||
                                     wrong(reader, "\"%s\" stands behind the seed", name));
    for (const struct word *action = actions; action->name; action++) {
        if (strcmp(action->name, name))
            continue;
        rule.action = (enum fault_action)action->value;
        return read_action(reader, &rule) && read_selection(reader, &rule) &&
               add_rule(reader, &rule);
    }
    list_words(actions, allowed, sizeof(allowed));
    return wrong(reader, "\"%s\": allowed is seed, %s", name, allowed);
}

bool fault_script_read(FILE *file, struct fault_script *script, char *why, size_t room)
{
    struct reader reader = { .script = script, .why = why, .room = room };
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    ssize_t length;

    memset(script, 0, sizeof(*script));
    while (good && (errno = 0, length = getline(&line, &size, file)) >= 0) {
        reader.line++;
        good = !memchr(line, 0, (size_t)length) ? read_line(&reader, line)
                                                : wrong(&reader, "it is no text");
    }
    if (good && !feof(file))
        good = wrong(&reader, "cannot be read: %s", strerror(errno));
    if (good && !script->count)
        good = wrong(&reader, "no rule: a script has at least one line with fail, error, delay, "
                              "drop or reorder");
    free(line);
    if (!good)
        fault_script_free(script);
    return good;
}

void fault_script_free(struct fault_script *script)
{
    free(script->rules);
    script->rules = NULL;
    script->count = 0;
}

/* splitmix64 */
static uint64_t mixed(uint64_t number)
{
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

static bool by_chance(const struct fault_script *script, const struct fault_rule *rule,
                      struct fault_count *count, uint64_t stream)
{
    uint64_t start = mixed(script->seed + rule->line) ^ mixed(stream + 1);

    if (rule->chance == FAULT_ALWAYS)
        return true;
    count->random++;
    return mixed(start + count->random * UINT64_C(0x9e3779b97f4a7c15)) < rule->chance;
}

bool fault_rule_hits(const struct fault_script *script, const struct fault_rule *rule,
                     struct fault_count *count, uint64_t stream)
{
    count->seen++;
    if (rule->times && count->done >= rule->times)
        return false;
    if (rule->at ? count->seen != rule->at
                 : count->seen < rule->from || (count->seen - rule->from) % rule->every)
        return false;
    if (!by_chance(script, rule, count, stream))
        return false;
    count->done++;
    return true;
}

const char *fault_wc_name(uint16_t status)
{
    for (const struct word *word = wc_statuses; word->name; word++)
        if (word->value == status)
            return word->name;
    return "?";
}
