/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rates: what the numbers that only rise have risen by, from one document to the next.
 */
#include "itstat.h"

#ifdef HAVE_JANSSON

#include "itstat_state.h"

#include <stdio.h>

#define KEY 256u

struct pairing {
    enum counter_scope scope;
    json_t *before; /* objects by key */
    double seconds;
};

static json_int_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* What tells the object from others, also in another document. */
static const char *key_of(const struct part *part, enum counter_scope scope, char key[KEY])
{
    const json_t *process = json_object_get(part->process, "process");
    const char *name = json_string_value(scope == COUNTER_LISTENER
                                             ? json_object_get(part->object, "address")
                                             : json_object_get(part->interface, "name"));

    snprintf(key, KEY, "%lld.%lld/%zu/%lld/%.128s", (long long)number(process, "pid"),
             (long long)number(process, "start"), part->nth_interface,
             scope == COUNTER_ENDPOINT ? (long long)number(part->object, "qp")
                                       : (long long)part->nth,
             name ? name : "");
    return key;
}

static bool keep(const struct part *part, void *arg)
{
    const struct pairing *pairing = arg;
    char key[KEY];

    return !json_object_set(pairing->before, key_of(part, pairing->scope, key), part->object);
}

static bool rate(const struct part *part, void *arg)
{
    const struct pairing *pairing = arg;
    char key[KEY];
    json_t *before = json_object_get(pairing->before, key_of(part, pairing->scope, key)), *rates;

    if (!before)
        return true;
    rates = json_object();
    for (size_t i = 0; i < counter_count; i++) {
        const struct counter *counter = &counters[i];
        const json_t *now, *old;

        if (counter->scope != pairing->scope || !counter->rises)
            continue;
        now = counter_of(part->object, counter);
        old = counter_of(before, counter);
        if (now && old && json_integer_value(now) >= json_integer_value(old) &&
            json_object_set_new(
                rates, counter->metric,
                json_real(((double)json_integer_value(now) - (double)json_integer_value(old)) /
                          pairing->seconds)))
            break;
    }
    return !json_object_set_new(part->object, "rates", rates);
}

bool add_rates(json_t *all, json_t *before, double seconds)
{
    bool good = true;

    for (int scope = 0; good && scope < COUNTER_SCOPES; scope++) {
        struct pairing pairing = { (enum counter_scope)scope, json_object(), seconds };

        good = pairing.before && walk_parts(before, pairing.scope, keep, &pairing) &&
               walk_parts(all, pairing.scope, rate, &pairing);
        json_decref(pairing.before);
    }
    return good;
}

#endif
