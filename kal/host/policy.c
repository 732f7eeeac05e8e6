/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordered allow and deny rules for connections. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { ANY_DIRECTION = -1 };

struct kal_rule {
    char *name;
    bool allow;
    /* enum ri_policy_direction or ANY_DIRECTION */
    int direction;
    /* Of the prefix; AF_UNSPEC: every address */
    int family;
    uint8_t address[16];
    unsigned bits;
    uint16_t port_first, port_last;
    bool any_port, any_user;
    uid_t user;
    struct kal_rule *next;
};

struct kal_policy *kal_policy_create(void)
{
    return calloc(1, sizeof(struct kal_policy));
}

static void rule_free(struct kal_rule *rule)
{
    free(rule->name);
    free(rule);
}

void kal_policy_destroy(struct kal_policy *policy)
{
    struct kal_rule *rule, *next;

    if (!policy)
        return;
    LL_FOREACH_SAFE (policy->rules, rule, next)
        rule_free(rule);
    free(policy);
}

/* ---- reading a rule ---- */

struct words {
    char *state, *current; /* current: NULL at the end */
    char *why;
    size_t why_size;
};

static void next_word(struct words *words)
{
    words->current = strtok_r(NULL, " \t", &words->state);
}

static bool wrong(struct words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool wrong(struct words *words, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(words->why, words->why_size, format, args);
    va_end(args);
    return false;
}

static bool number_of(const char *text, unsigned long limit, unsigned long *out)
{
    unsigned long number;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoul(text, &end, 10);
    if (errno || *end || number > limit)
        return false;
    *out = number;
    return true;
}

static bool parse_prefix(struct words *words, struct kal_rule *rule)
{
    char *text = words->current, *slash;
    unsigned long bits;

    if (!text)
        return wrong(words, "an address is missing behind to, from, on or at");
    if (!strcmp(text, "any"))
        return true;
    slash = strchr(text, '/');
    if (slash)
        *slash++ = '\0';
    rule->family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(rule->family, text, rule->address) != 1)
        return wrong(words, "\"%s\" is no IPv4 or IPv6 address", text);
    bits = rule->family == AF_INET ? 32 : 128;
    if (slash && !number_of(slash, bits, &bits))
        return wrong(words, "\"/%s\": a prefix has 0 to %lu bits", slash, bits);
    rule->bits = (unsigned)bits;
    return true;
}

static bool parse_ports(struct words *words, struct kal_rule *rule)
{
    unsigned long first, last;
    char *dash;

    if (!words->current)
        return wrong(words, "a number is missing behind port");
    dash = strchr(words->current, '-');
    if (dash)
        *dash++ = '\0';
    if (!number_of(words->current, 65535, &first) ||
        !number_of(dash ? dash : words->current, 65535, &last) || first > last)
        return wrong(words, "a port is a number from 0 to 65535 or a range N-M");
    rule->any_port = false;
    rule->port_first = (uint16_t)first;
    rule->port_last = (uint16_t)last;
    return true;
}

static bool parse_user(struct words *words, struct kal_rule *rule)
{
    struct passwd entry, *found = NULL;
    unsigned long number;
    char room[4096];

    if (!words->current)
        return wrong(words, "a name or number is missing behind user");
    rule->any_user = false;
    if (number_of(words->current, UINT32_MAX - 1, &number)) {
        rule->user = (uid_t)number;
        return true;
    }
    if (getpwnam_r(words->current, &entry, room, sizeof room, &found) || !found)
        return wrong(words, "there is no user \"%s\"", words->current);
    rule->user = entry.pw_uid;
    return true;
}

static bool parse_direction(struct words *words, struct kal_rule *rule)
{
    static const struct {
        const char *name;
        int direction;
    } directions[] = { { "connect", RI_POLICY_CONNECT },
                       { "listen", RI_POLICY_LISTEN },
                       { "request", RI_POLICY_REQUEST },
                       { "any", ANY_DIRECTION } };

    for (size_t i = 0; words->current && i < sizeof directions / sizeof *directions; i++) {
        if (!strcmp(words->current, directions[i].name)) {
            rule->direction = directions[i].direction;
            return true;
        }
    }
    return wrong(words, "connect, listen, request or any is expected, not \"%s\"",
                 words->current ? words->current : "");
}

static bool is_preposition(const char *word)
{
    return !strcmp(word, "to") || !strcmp(word, "from") || !strcmp(word, "on") ||
           !strcmp(word, "at");
}

static bool parse_rule(struct words *words, struct kal_rule *rule)
{
    bool sound;

    if (!words->current || (strcmp(words->current, "allow") && strcmp(words->current, "deny")))
        return wrong(words, "a rule begins with allow or deny, not \"%s\"",
                     words->current ? words->current : "");
    rule->allow = !strcmp(words->current, "allow");
    next_word(words);
    if (!parse_direction(words, rule))
        return false;
    rule->any_port = rule->any_user = true;
    for (next_word(words); words->current; next_word(words)) {
        if (is_preposition(words->current) && rule->family == AF_UNSPEC) {
            next_word(words);
            sound = parse_prefix(words, rule);
        } else if (!strcmp(words->current, "port") && rule->any_port) {
            next_word(words);
            sound = parse_ports(words, rule);
        } else if (!strcmp(words->current, "user") && rule->any_user) {
            next_word(words);
            sound = parse_user(words, rule);
        } else {
            sound = wrong(words, "\"%s\" is not expected there; known are to, from, on, port, user",
                          words->current);
        }
        if (!sound)
            return false;
    }
    return true;
}

enum kal_status kal_policy_add(struct kal_policy *policy, const char *name, const char *text,
                               char *why, size_t why_size)
{
    struct words words = { .why = why, .why_size = why_size };
    struct kal_rule *rule = calloc(1, sizeof *rule);
    char *copy = strdup(text);
    enum kal_status status = KAL_ERR_NO_RESOURCES;

    if (rule)
        rule->name = strdup(name);
    if (rule && rule->name && copy) {
        words.current = strtok_r(copy, " \t", &words.state);
        status = parse_rule(&words, rule) ? KAL_OK : KAL_ERR_CONFIGURATION;
    }
    free(copy);
    if (status == KAL_OK)
        LL_APPEND(policy->rules, rule);
    else if (rule)
        rule_free(rule);
    return status;
}

/* ---- questions ---- */

/* One side of a question; IPv4 mapped in IPv6 counts as IPv4. */
struct place {
    int family; /* AF_UNSPEC: unknown */
    bool wildcard;
    uint8_t address[16];
    int port; /* -1: unknown */
};

static struct place place_of(const struct sockaddr *address)
{
    static const uint8_t zero[16];
    struct place place = { .family = AF_UNSPEC, .port = -1 };

    if (address && address->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, address, sizeof in);
        place.family = AF_INET;
        place.port = ntohs(in.sin_port);
        memcpy(place.address, &in.sin_addr, 4);
    } else if (address && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, address, sizeof in6);
        place.port = ntohs(in6.sin6_port);
        place.family = IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? AF_INET : AF_INET6;
        memcpy(place.address, (uint8_t *)&in6.sin6_addr + (place.family == AF_INET ? 12 : 0),
               place.family == AF_INET ? 4 : 16);
    }
    place.wildcard = place.family != AF_UNSPEC && !memcmp(place.address, zero, sizeof zero);
    return place;
}

static bool prefix_matches(const struct kal_rule *rule, const struct place *place)
{
    unsigned whole = rule->bits / 8, rest = rule->bits % 8;

    if (rule->family == AF_UNSPEC)
        return true;
    if (place->family == AF_UNSPEC)
        return !rule->allow;
    if (place->family != rule->family)
        return false;
    if (place->wildcard && rule->bits)
        return !rule->allow;
    if (memcmp(place->address, rule->address, whole))
        return false;
    return !rest || ((place->address[whole] ^ rule->address[whole]) >> (8 - rest)) == 0;
}

bool kal_policy_allows(const struct kal_policy *policy, const struct ri_policy_question *question,
                       uid_t user, const char **rule_name)
{
    struct place local = place_of(question->local), peer = place_of(question->peer);
    const struct place *where = question->direction == RI_POLICY_LISTEN ? &local : &peer;
    int port = question->direction == RI_POLICY_CONNECT ? peer.port : local.port;
    const struct kal_rule *rule;

    *rule_name = NULL;
    LL_FOREACH (policy->rules, rule) {
        if (rule->direction != ANY_DIRECTION && rule->direction != (int)question->direction)
            continue;
        if (!rule->any_user && rule->user != user)
            continue;
        if (!rule->any_port &&
            (port < 0 ? rule->allow : port < rule->port_first || port > rule->port_last))
            continue;
        if (!prefix_matches(rule, where))
            continue;
        *rule_name = rule->name;
        return rule->allow;
    }
    return true;
}
