/* SPDX-License-Identifier: BSD-3-Clause */
/* itstat policy: reads the host's policy as the library does, and says which rule decides. */
#include "itstat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h> /* optind */
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/nearest.h"
#include "formats/policy.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"

struct arguments {
    const char *folder, *test;
};

#define TO(member) TOOL_TO(struct arguments, member)

static const struct tool_option rows[] = {
    TOOL_ARGUMENT(0, "folder", "FOLDER", TO(folder), "@directory", 0,
                  "of files that are not installed yet; whoever owns them (default: the installed "
                  "ones, in policy.d beside ital.conf)"),
    TOOL_ARGUMENT(0, "test", "QUESTION", TO(test), "connect listen request convert", 0,
                  "connect|listen|request|convert, then any of user=NAME, to=ADDRESS:PORT, "
                  "from=ADDRESS:PORT, on=ADDRESS:PORT (or at=), interface=NAME"),
};

static const struct tool_table table = {
    .usage = "Usage: itstat policy [--folder FOLDER] [--test QUESTION]\n"
             "Reads the host's policy, as every program that uses ital does, and says which rule "
             "decides.\n"
             "For a question the rules of the configuration (section [policy]) are asked, too.\n",
    .notes = "Exit status: 0 if allowed (without a question: if the files can be read), 1 if "
             "denied or the\n"
             "policy cannot be used, 2 for wrong arguments.\n"
             "Example: itstat policy --test 'connect user=u to=10.0.0.5:7471'\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .operands = "?",
    .ends_at_operand = true,
};

/* Of the question's user. */
struct groups {
    gid_t id[1024];
    int count;
};

static bool in_group(const void *arg, uint32_t group)
{
    const struct groups *groups = arg;

    for (int i = 0; i < groups->count; i++)
        if (groups->id[i] == group)
            return true;
    return false;
}

struct asked {
    struct policy_question question;
    struct groups groups;
    bool from;
    char interface[POLICY_WORD];
};

/* -1: read; else an exit status. */
static int read_user(struct asked *asked, const char *name)
{
    const struct passwd *user;
    uint64_t number;

    asked->groups.count = ARRAY_SIZE(asked->groups.id);
    user = tool_parse_number(name, 0, UINT32_MAX - 1, &number) ? getpwuid((uid_t)number)
                                                               : getpwnam(name);
    if (!user)
        return tool_usage("user=%s: this host knows no such user", name);
    asked->question.user = user->pw_uid;
    if (getgrouplist(user->pw_name, user->pw_gid, asked->groups.id, &asked->groups.count) < 0)
        return tool_usage("user=%s: is in more than %zu groups", name,
                          ARRAY_SIZE(asked->groups.id));
    return -1;
}

const char *place_parse(const char *text, struct policy_place *place)
{
    static const char form[] = "write ADDRESS:PORT or [ADDRESS]:PORT, in digits";
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = { .any.sa_family = AF_INET };
    const char *port = strrchr(text, ':');
    char host[64];
    uint64_t number = 0;
    bool bracket = *text == '[', plain = !bracket && port && strchr(text, ':') != port;
    size_t length;

    if (plain || (bracket && port && port[-1] != ']'))
        port = NULL;
    length = port ? (size_t)(port - text) : strlen(text);
    if (port && !tool_parse_number(port + 1, 0, 65535, &number))
        return "a port is a number from 0 to 65535";
    if (bracket && length >= 2 && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (length >= sizeof host)
        return form;
    snprintf(host, sizeof host, "%.*s", (int)length, text);
    host[strcspn(host, "%")] = '\0';
    if (inet_pton(AF_INET, host, &address.four.sin_addr) != 1) {
        address.any.sa_family = port && !*host ? AF_UNSPEC : AF_INET6;
        if (address.any.sa_family == AF_INET6 &&
            inet_pton(AF_INET6, host, &address.six.sin6_addr) != 1)
            return form;
    }
    *place = policy_place_of(&address.any);
    place->port = port ? (int)number : -1;
    return NULL;
}

static int read_place(struct policy_place *place, const char *name, const char *text)
{
    const char *wrong = place_parse(text, place);

    return wrong ? tool_usage("%s=%s: %s", name, text, wrong) : -1;
}

static int read_part(struct asked *asked, char *word)
{
    static const char *const names[] = { "user", "to", "from", "on", "at", "interface" };
    struct nearest near = { .word = NULL };
    char *value = strchr(word, '=');

    if (!value)
        return tool_usage("%s: a part of a question is NAME=VALUE", word);
    *value++ = '\0';
    if (!strcmp(word, "user"))
        return read_user(asked, value);
    if (!strcmp(word, "on") || !strcmp(word, "at"))
        return read_place(&asked->question.local, word, value);
    if (!strcmp(word, "to") || !strcmp(word, "from")) {
        asked->from = !strcmp(word, "from");
        return read_place(&asked->question.peer, word, value);
    }
    if (!strcmp(word, "interface")) {
        snprintf(asked->interface, sizeof asked->interface, "%s", value);
        asked->question.interface = asked->interface;
        return -1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        nearest_try(&near, word, names[i]);
    return tool_usage("%s=: known are user, to, from, on, at and interface%s%s", word,
                      near.word ? "; did you mean " : "", near.word ? near.word : "");
}

static int read_direction(struct asked *asked, const char *word)
{
    static const struct {
        const char *name;
        unsigned direction;
    } known[] = { { "connect", POLICY_CONNECT },
                  { "listen", POLICY_LISTEN },
                  { "request", POLICY_REQUEST },
                  { "convert", POLICY_CONVERT } };
    struct nearest near = { .word = NULL };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        nearest_try(&near, word, known[i].name);
        if (!strcmp(word, known[i].name)) {
            asked->question.directions = known[i].direction;
            return -1;
        }
    }
    return tool_usage("'%s': a question begins with connect, listen, request or convert%s%s", word,
                      near.word ? "; did you mean " : "", near.word ? near.word : "");
}

static int read_question(struct asked *asked, const char *text)
{
    char copy[512], *state, *word;
    int result;

    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return tool_usage("the question is too long");
    asked->question.in_group = in_group;
    asked->question.arg = &asked->groups;
    asked->question.user = geteuid();
    asked->question.local = asked->question.peer = policy_place_of(NULL);
    asked->groups.count = getgroups(ARRAY_SIZE(asked->groups.id) - 1, asked->groups.id);
    if (asked->groups.count < 0)
        asked->groups.count = 0;
    asked->groups.id[asked->groups.count++] = getegid();
    word = strtok_r(copy, " \t", &state);
    result = read_direction(asked, word ? word : "");
    while (result < 0 && (word = strtok_r(NULL, " \t", &state)))
        result = read_part(asked, word);
    if (asked->question.directions == POLICY_CONVERT)
        asked->question.directions |= asked->from ? POLICY_REQUEST : POLICY_CONNECT;
    return result;
}

/* The kernel's own limit, which no rule lifts but by kald(8). */
static void tell_of_kernel(const struct asked *asked)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int first = 1024, port = asked->question.local.port;

    if (file && fscanf(file, "%d", &first) != 1)
        first = 1024;
    if (file)
        fclose(file);
    if (asked->question.directions == POLICY_LISTEN && asked->question.user && port > 0 &&
        port < first)
        printf(
            "the kernel keeps ports below %d for root (net.ipv4.ip_unprivileged_port_start): this "
            "user needs kald(8), and a rule that names the port and the user or a group of his\n",
            first);
}

static bool denies(const struct policy_rule *rule)
{
    return rule && rule->verdict == POLICY_DENY;
}

/* Of the host's rules and of those of the configuration; NULL: none of them matches. Both have to
 * allow it. True: denied. */
static bool tell_verdict(const struct policy_rule *hosts, const struct policy_rule *own)
{
    bool by_own = denies(own) && !denies(hosts);

    if (by_own)
        printf("denied by %s", own->source);
    else if (hosts)
        printf("%s by %s:%u", denies(hosts) ? "denied" : "allowed", hosts->source, hosts->line);
    else
        printf("allowed: no rule%s matches", own ? " of the host" : "");
    if (by_own && hosts)
        printf("; the host's policy would allow it, by %s:%u", hosts->source, hosts->line);
    else if (by_own)
        printf("; the host's policy would allow it");
    else if (own && !denies(hosts))
        printf("; and by %s", own->source);
    printf("\n");
    return by_own || denies(hosts);
}

static void tell_limits(const struct policy *policy, const struct asked *asked)
{
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        const struct policy_rule *rule = policy_limit(policy->rules, policy->count,
                                                      (enum policy_kind)kind, &asked->question);

        if (rule)
            printf("at most %llu %s in a process, and where kald runs in all processes of the "
                   "user together, by %s:%u\n",
                   (unsigned long long)rule->amount,
                   kind == POLICY_PINNED ? "pinned octets"
                                         : policy_kind_name((enum policy_kind)kind),
                   rule->source, rule->line);
    }
}

/* With a configuration that cannot be used nothing is allowed: that was said, and is no answer. */
static int answer(const struct policy *policy, const struct asked *asked)
{
    struct policy own;
    bool denied;

    if (!config_rules(&own))
        return TOOL_FAILED;
    denied = tell_verdict(policy_decide(policy->rules, policy->count, &asked->question),
                          policy_decide(own.rules, own.count, &asked->question));
    policy_clear(&own);
    tell_of_kernel(asked);
    tell_limits(policy, asked);
    return denied ? TOOL_FAILED : TOOL_OK;
}

int policy_main(int argc, char **argv)
{
    struct arguments given = { NULL, NULL };
    struct asked asked = { .from = false };
    struct policy policy;
    char why[1024];
    int result;

    result = tool_read_options(&table, argc, argv, &given);
    if (result >= 0)
        return result;
    if (argv[optind])
        return tool_usage("%s: is no option; a question stands behind --test", argv[optind]);
    result = given.test ? read_question(&asked, given.test) : -1;
    if (result >= 0)
        return result;
    /* The installed one may be missing, which means no rules; a name that was given is mistyped. */
    if (given.folder && access(given.folder, F_OK)) {
        tool_error("%s: %s", given.folder, strerror(errno));
        return TOOL_FAILED;
    }
    switch (policy_read_folder(&policy, given.folder ? given.folder : policy_folder,
                               given.folder ? POLICY_ANYBODY : 0, why, sizeof why)) {
    case POLICY_WRONG: tool_error("%s", why); return TOOL_FAILED;
    case POLICY_NO_MEMORY: tool_error("out of memory"); return TOOL_FAILED;
    case POLICY_OK: break;
    }
    if (given.test)
        result = answer(&policy, &asked);
    else
        result = printf("%zu rules in %zu files of %s\n", policy.count, policy.source_count,
                        given.folder ? given.folder : policy_folder) < 0
                     ? TOOL_FAILED
                     : TOOL_OK;
    policy_clear(&policy);
    return result;
}
