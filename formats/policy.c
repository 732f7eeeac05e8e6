/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a host's policy: which one decides. */
#include "formats/policy.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct policy_place policy_place_of(const struct sockaddr *address)
{
    static const uint8_t zero[16];
    struct policy_place place = { .family = AF_UNSPEC, .port = -1 };

    if (address && address->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, address, sizeof(in));
        place.family = AF_INET;
        place.port = ntohs(in.sin_port);
        memcpy(place.address, &in.sin_addr, 4);
    } else if (address && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, address, sizeof(in6));
        place.port = ntohs(in6.sin6_port);
        place.family = IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? AF_INET : AF_INET6;
        memcpy(place.address, (uint8_t *)&in6.sin6_addr + (place.family == AF_INET ? 12 : 0),
               place.family == AF_INET ? 4 : 16);
    }
    place.wildcard = place.family != AF_UNSPEC && !memcmp(place.address, zero, sizeof(zero));
    return place;
}

bool policy_place_takes_ipv4(const struct policy_place *place, struct policy_place *four)
{
    if (place->family != AF_INET6 || !place->wildcard || place->v6only)
        return false;
    *four = (struct policy_place){ .family = AF_INET, .wildcard = true, .port = place->port };
    return true;
}

static bool prefix_matches(const struct policy_rule *rule, const struct policy_place *place)
{
    unsigned whole = rule->bits / 8, rest = rule->bits % 8;

    if (rule->family == AF_UNSPEC)
        return true;
    if (place->family == AF_UNSPEC)
        return rule->verdict == POLICY_DENY;
    if (place->family != rule->family)
        return false;
    if (place->wildcard && rule->bits)
        return rule->verdict == POLICY_DENY;
    if (memcmp(place->address, rule->address, whole))
        return false;
    return !rest || ((place->address[whole] ^ rule->address[whole]) >> (8 - rest)) == 0;
}

static bool port_matches(const struct policy_rule *rule, int port)
{
    if (rule->any_port)
        return true;
    if (port < 0)
        return rule->verdict == POLICY_DENY;
    return port >= rule->port_first && port <= rule->port_last;
}

static bool who_matches(const struct policy_rule *rule, const struct policy_question *question)
{
    return (rule->any_user || rule->user == question->user) &&
           (rule->any_group || question->in_group(question->arg, rule->group));
}

static bool interface_matches(const struct policy_rule *rule, const char *interface)
{
    if (!*rule->interface)
        return true;
    return interface ? !strcmp(rule->interface, interface) : rule->verdict == POLICY_DENY;
}

static const struct policy_rule *first_match(const struct policy_rule *rule, size_t count,
                                             const struct policy_question *question,
                                             const struct policy_place *where, int port)
{
    for (; count--; rule++)
        if (rule->verdict != POLICY_LIMIT && (rule->directions & question->directions) &&
            interface_matches(rule, question->interface) && port_matches(rule, port) &&
            prefix_matches(rule, where) && who_matches(rule, question))
            return rule;
    return NULL;
}

const struct policy_rule *policy_decide(const struct policy_rule *rules, size_t count,
                                        const struct policy_question *question)
{
    bool listens = question->directions & POLICY_LISTEN;
    bool connects = question->directions & POLICY_CONNECT;
    const struct policy_place *where = listens ? &question->local : &question->peer;
    int port = connects ? question->peer.port : question->local.port;
    const struct policy_rule *rule = first_match(rules, count, question, where, port), *other;
    struct policy_place four;

    if (!listens || (rule && rule->verdict == POLICY_DENY) ||
        !policy_place_takes_ipv4(where, &four))
        return rule;
    other = first_match(rules, count, question, &four, port);
    return other && other->verdict == POLICY_DENY ? other : rule;
}

const struct policy_rule *policy_limit(const struct policy_rule *rules, size_t count,
                                       enum policy_kind kind,
                                       const struct policy_question *question)
{
    for (const struct policy_rule *rule = rules; count--; rule++)
        if (rule->verdict == POLICY_LIMIT && rule->kind == kind && who_matches(rule, question))
            return rule;
    return NULL;
}

/* ---- lists ---- */

void policy_clear(struct policy *policy)
{
    for (size_t i = 0; i < policy->source_count; i++)
        free(policy->sources[i]);
    free(policy->sources);
    free(policy->rules);
    *policy = (struct policy){ NULL, 0, NULL, 0 };
}

/* The list's own name of the file; NULL: no memory. */
static const char *add_source(struct policy *policy, const char *source)
{
    char **grown = realloc(policy->sources, (policy->source_count + 1) * sizeof(*grown));
    char *name;

    if (!grown)
        return NULL;
    policy->sources = grown;
    name = strdup(source);
    if (name)
        grown[policy->source_count++] = name;
    return name;
}

static bool add_rule(struct policy *policy, const struct policy_rule *rule)
{
    size_t count = policy->count;
    struct policy_rule *grown;

    if (!(count & (count - 1))) { /* the room is the next power of two */
        grown = realloc(policy->rules, (count ? 2 * count : 1) * sizeof(*grown));
        if (!grown)
            return false;
        policy->rules = grown;
    }
    policy->rules[policy->count++] = *rule;
    return true;
}

bool policy_add(struct policy *policy, const char *source, const struct policy_rule *rule)
{
    struct policy_rule copy = *rule;

    copy.source = add_source(policy, source);
    copy.line = 0;
    return copy.source && add_rule(policy, &copy);
}

enum policy_result policy_read_text(struct policy *policy, const char *source, const char *text,
                                    size_t length, const struct policy_names *names, char *why,
                                    size_t why_size)
{
    const char *name = add_source(policy, source), *end = text + length;
    char reason[200];
    bool empty;

    if (!name)
        return POLICY_NO_MEMORY;
    for (unsigned line = 1; text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        struct policy_rule rule;

        if (!stop)
            stop = end;
        if (!policy_read_line(text, (size_t)(stop - text), names, &rule, &empty, reason,
                              sizeof(reason))) {
            snprintf(why, why_size, "%s:%u: %s", source, line, reason);
            return POLICY_WRONG;
        }
        rule.source = name;
        rule.line = line;
        if (!empty && !add_rule(policy, &rule))
            return POLICY_NO_MEMORY;
        text = stop < end ? stop + 1 : end;
    }
    return POLICY_OK;
}
