/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's policy: lines, texts, folders, and which rule decides. */
#include "formats/policy.h"
#include "tc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

static bool user_of(const char *name, uint32_t *id)
{
    *id = 1000;
    return !strcmp(name, "u");
}

static bool group_of(const char *name, uint32_t *id)
{
    *id = 50;
    return !strcmp(name, "rdma");
}

static const struct policy_names names = { user_of, group_of };

/* User 1000 is in group 50, nobody else is in any. */
static bool in_group(const void *arg, uint32_t group)
{
    const struct policy_question *question = arg;

    return question->user == 1000 && group == 50;
}

static struct policy read_text(const char *text)
{
    struct policy policy = { NULL, 0, NULL, 0 };
    char why[300] = "";

    ck_assert_msg(policy_read_text(&policy, "f", text, strlen(text), &names, why, sizeof(why)) ==
                      POLICY_OK,
                  "%s", why);
    return policy;
}

static struct policy_place place(const char *text, uint16_t port)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return policy_place_of((struct sockaddr *)&in);
    ck_assert_int_eq(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return policy_place_of((struct sockaddr *)&in6);
}

#define CO POLICY_CONNECT
#define RE POLICY_REQUEST
#define CV POLICY_CONVERT

static const struct {
    const char *text;
    unsigned directions;
    const char *peer;
    uint16_t peer_port, local_port;
    uint32_t user;
    const char *interface;
    unsigned line; /* 0: no rule */
} decisions[] = {
    { "", CO, "10.0.0.5", 1, 1, 0, "main", 0 },
    { "allow any user u\ndeny any", CO, "10.0.0.5", 1, 1, 1000, "main", 1 },
    { "allow any user u\ndeny any", CO, "10.0.0.5", 1, 1, 1001, "main", 2 },
    { "allow any group rdma\n\n# so\n deny\tany\r", CO, "10.0.0.5", 1, 1, 1000, "main", 1 },
    { "allow any group rdma\n\n# so\n deny\tany\r", CO, "10.0.0.5", 1, 1, 7, "main", 4 },
    { "deny any group 51", CO, "10.0.0.5", 1, 1, 1000, "main", 0 },
    { "deny any user u group rdma", CO, "10.0.0.5", 1, 1, 1000, "main", 1 },
    { "deny any interface main", CO, "10.0.0.5", 1, 1, 7, "main", 1 },
    { "deny any interface main", CO, "10.0.0.5", 1, 1, 7, "mainly", 0 },
    { "deny any interface main", CO, "10.0.0.5", 1, 1, 7, NULL, 1 },
    { "allow any interface main\ndeny any", CO, "10.0.0.5", 1, 1, 7, NULL, 2 },
    { "deny connect to 10.0.0.0/29 port 7000-7471", CO, "10.0.0.7", 7471, 1, 7, "m", 1 },
    { "deny connect to 10.0.0.0/29 port 7000-7471", CO, "10.0.0.8", 7471, 1, 7, "m", 0 },
    { "deny connect to 10.0.0.0/29 port 7000-7471", CO, "10.0.0.7", 7472, 1, 7, "m", 0 },
    { "deny connect to 10.0.0.0/29 port 7000-7471", CO, "10.0.0.7", 6999, 1, 7, "m", 0 },
    { "deny connect to 2001:db8::/33", CO, "2001:db8:7fff::1", 1, 1, 7, "m", 1 },
    { "deny connect to 2001:db8::/33", CO, "2001:db8:8000::1", 1, 1, 7, "m", 0 },
    /* a conversion is its own direction, and that of its side */
    { "deny convert", CO, "10.0.0.7", 1, 1, 7, "m", 0 },
    { "deny convert", RE, "10.0.0.7", 1, 1, 7, "m", 0 },
    { "deny convert", CV | CO, "10.0.0.7", 1, 1, 7, "m", 1 },
    { "deny convert port 5", CV | CO, "10.0.0.7", 5, 1, 7, "m", 1 },
    { "deny convert port 5", CV | RE, "10.0.0.7", 5, 1, 7, "m", 0 },
    { "deny convert port 5", CV | RE, "10.0.0.7", 1, 5, 7, "m", 1 },
    { "deny connect", CV | CO, "10.0.0.7", 1, 1, 7, "m", 1 },
    { "deny connect", CV | RE, "10.0.0.7", 1, 1, 7, "m", 0 },
    { "deny request", CV | RE, "10.0.0.7", 1, 1, 7, "m", 1 },
    /* a limit decides nothing */
    { "limit endpoints 0\ndeny any", CO, "10.0.0.7", 1, 1, 7, "m", 2 },
};

START_TEST(the_first_that_matches_decides)
{
    struct policy policy = read_text(decisions[_i].text);
    struct policy_question question = {
        .directions = decisions[_i].directions,
        .peer = place(decisions[_i].peer, decisions[_i].peer_port),
        .local = place("127.0.0.1", decisions[_i].local_port),
        .user = decisions[_i].user,
        .in_group = in_group,
        .arg = &question,
        .interface = decisions[_i].interface,
    };
    const struct policy_rule *rule = policy_decide(policy.rules, policy.count, &question);

    ck_assert_uint_eq(rule ? rule->line : 0, decisions[_i].line);
    if (rule)
        ck_assert_str_eq(rule->source, "f");
    policy_clear(&policy);
}
END_TEST

START_TEST(limits_are_by_user_and_group)
{
    struct policy policy = read_text("limit endpoints 5 user u\nlimit endpoints 7\ndeny any\n"
                                     "limit pinned 2m group rdma\n");
    struct policy_question question = { .user = 1000, .in_group = in_group, .arg = &question };
    const struct policy_rule *rule = policy_limit(policy.rules, policy.count, POLICY_ENDPOINTS,
                                                  &question);

    ck_assert(rule && rule->line == 1 && rule->amount == 5);
    rule = policy_limit(policy.rules, policy.count, POLICY_PINNED, &question);
    ck_assert(rule && rule->line == 4 && rule->amount == 2 << 20);
    ck_assert_ptr_null(policy_limit(policy.rules, policy.count, POLICY_REGIONS, &question));
    question.user = 1;
    rule = policy_limit(policy.rules, policy.count, POLICY_ENDPOINTS, &question);
    ck_assert(rule && rule->line == 2 && rule->amount == 7);
    ck_assert_ptr_null(policy_limit(policy.rules, policy.count, POLICY_PINNED, &question));
    policy_clear(&policy);
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    { "alow any",
      "f:1: a rule begins with allow or deny, or with limit, not \"alow\" (did you mean allow?)" },
    { "deny any\n\ndeny conect", "f:3: connect, listen, convert, request or any is expected, not "
                                 "\"conect\" (did you mean connect?)" },
    { "deny any usr u", "f:1: \"usr\" is not expected there (did you mean user?); known are" },
    { "deny any user v", "f:1: there is no user \"v\"; write" },
    { "deny any user", "f:1: a name or number is missing behind user" },
    { "deny any group wheel", "f:1: there is no group \"wheel\"; write" },
    { "deny any group 1 group 2", "f:1: \"group\" is not expected there" },
    { "deny any interface", "f:1: a name is missing behind interface" },
    { "deny any port 9-8", "f:1: a port is a number from 0 to 65535" },
    { "deny any to 1.2.3.4/33", "f:1: \"/33\": a prefix has 0 to 32 bits" },
    { "deny any to host", "f:1: \"host\" is no IPv4 or IPv6 address; write it in digits" },
    { "limit", "f:1: endpoints, regions or pinned is expected" },
    { "limit endpoint 5", "(did you mean endpoints?)" },
    { "limit endpoints", "f:1: a number is missing behind endpoints" },
    { "limit endpoints 1k", "f:1: a number is missing behind endpoints" },
    { "limit endpoints -1", "f:1: a number is missing behind endpoints" },
    { "limit pinned 99999999999999999999", "f:1: a number is missing behind pinned" },
    { "limit pinned 16777216t", "f:1: a number is missing behind pinned" },
    { "limit regions 5 to 10.0.0.1", "f:1: \"to\" is not expected there; known are user, group" },
    { "deny any \033[2J", "\"?[2J\" is not expected" },
    { "deny any interface "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "f:1: a word has at most 63 octets" },
};

START_TEST(what_is_wrong_is_named)
{
    struct policy policy = { NULL, 0, NULL, 0 };
    char why[300] = "";

    ck_assert_int_eq(policy_read_text(&policy, "f", wrong[_i].text, strlen(wrong[_i].text), &names,
                                      why, sizeof(why)),
                     POLICY_WRONG);
    ck_assert_msg(strstr(why, wrong[_i].why) != NULL, "%s", why);
    policy_clear(&policy);
}
END_TEST

/* ---- folders ---- */

static char folder[4096];

static void make(const char *name, const char *text)
{
    char path[4200];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, 0644), 0);
}

static enum policy_result read_it(struct policy *policy, uint32_t owner, char why[600])
{
    return policy_read_folder(policy, folder, owner, why, 600);
}

static void setup(void)
{
    snprintf(folder, sizeof(folder), "%s", tc_tempdir());
    ck_assert_int_eq(chmod(folder, 0755), 0);
}

START_TEST(files_are_read_in_the_order_of_their_names)
{
    struct policy policy;
    char why[600];

    make("20.conf", "deny any\n");
    make("10.conf", "allow any user 0\nlimit regions 3");
    make("15.conf~", "nonsense");
    make(".hidden.conf", "nonsense");
    ck_assert_int_eq(read_it(&policy, geteuid(), why), POLICY_OK);
    ck_assert_uint_eq(policy.count, 3);
    ck_assert_ptr_nonnull(strstr(policy.rules[0].source, "/10.conf"));
    ck_assert_uint_eq(policy.rules[1].line, 2);
    ck_assert_ptr_nonnull(strstr(policy.rules[2].source, "/20.conf"));
    policy_clear(&policy);
    strcat(folder, "/none");
    ck_assert_int_eq(read_it(&policy, geteuid(), why), POLICY_OK);
    ck_assert_uint_eq(policy.count, 0);
}
END_TEST

/* A file that others may write is not a policy of root's, nor is it taken for none. */
START_TEST(who_may_write_is_looked_at)
{
    struct policy policy;
    char why[600], path[4200];

    make("10.conf", "deny any\n");
    ck_assert_int_eq(read_it(&policy, geteuid() + 1, why), POLICY_WRONG);
    ck_assert_ptr_nonnull(strstr(why, "is not believed"));
    ck_assert_ptr_nonnull(strstr(why, "kald -p FOLDER")); /* it is an ordinary user's */
    snprintf(path, sizeof(path), "%s/10.conf", folder);
    for (mode_t mode = 0020; mode; mode = mode == 0020 ? 0002 : 0) {
        ck_assert_int_eq(chmod(path, 0644 | mode), 0);
        ck_assert_int_eq(read_it(&policy, geteuid(), why), POLICY_WRONG);
        ck_assert_ptr_nonnull(strstr(why, "/10.conf: is not believed"));
        ck_assert_ptr_nonnull(strstr(why, geteuid() ? "kald -p FOLDER" : "chmod go-w"));
        ck_assert_int_eq(read_it(&policy, POLICY_ANYBODY, why), POLICY_OK);
        policy_clear(&policy);
    }
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(read_it(&policy, geteuid(), why), POLICY_WRONG);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    make("11.conf", "deny al\n");
    ck_assert_int_eq(read_it(&policy, geteuid(), why), POLICY_WRONG);
    ck_assert_ptr_nonnull(strstr(why, "/11.conf:1: "));
    ck_assert_uint_eq(policy.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy_rules");
    TCase *tc = tc_case(suite, "rules", setup, NULL);

    tc_add_rows(tc, the_first_that_matches_decides, decisions);
    tc_add_rows(tc, what_is_wrong_is_named, wrong);
    tc_add_tests(tc, limits_are_by_user_and_group, files_are_read_in_the_order_of_their_names,
                 who_may_write_is_looked_at);
    return tc_main(suite);
}
