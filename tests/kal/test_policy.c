/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy: valid rules, and the decisions of a list of rules. */
#include "kal/host/policy.h"
#include "kal_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static struct sockaddr_storage address(const char *text, int port)
{
    struct sockaddr_storage out = { .ss_family = AF_UNSPEC };
    struct sockaddr_in *in = (struct sockaddr_in *)&out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out;

    if (!text)
        return out;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        out.ss_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
    } else {
        ck_assert_int_eq(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
        out.ss_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
    }
    return out;
}

#define C RI_POLICY_CONNECT
#define L RI_POLICY_LISTEN
#define R RI_POLICY_REQUEST

static const struct {
    const char *rules[3];
    enum ri_policy_direction direction;
    const char *local;
    int local_port;
    const char *peer;
    int peer_port;
    uid_t user;
    const char *decides; /* rule, NULL: none */
    bool allowed;
} table[] = {
    { { NULL }, C, NULL, 0, "10.1.2.3", 80, 0, NULL, true },
    { { "deny any" }, L, "10.1.2.3", 80, NULL, 0, 0, "rule1", false },
    { { "deny connect to 10.0.0.0/8" }, C, NULL, 0, "10.255.0.1", 80, 0, "rule1", false },
    { { "deny connect to 10.0.0.0/8" }, C, NULL, 0, "11.0.0.1", 80, 0, NULL, true },
    { { "deny connect to 10.0.0.0/8" }, L, "10.0.0.1", 80, NULL, 0, 0, NULL, true },
    { { "deny connect to 10.0.0.0/8" }, R, "10.0.0.1", 80, "10.0.0.1", 1, 0, NULL, true },
    { { "deny connect to 10.0.0.0/8" }, C, NULL, 0, "::ffff:10.0.0.1", 80, 0, "rule1", false },
    { { "deny connect to 10.0.0.0/8" }, C, NULL, 0, "a00::1", 80, 0, NULL, true },
    { { "deny connect to 10.0.0.0/8 port 1-1023" },
      C,
      NULL,
      0,
      "10.0.0.1",
      1023,
      0,
      "rule1",
      false },
    { { "deny connect to 10.0.0.0/8 port 1-1023" }, C, NULL, 0, "10.0.0.1", 1024, 0, NULL, true },
    { { "deny connect port 7" }, C, NULL, 0, "10.0.0.1", 7, 0, "rule1", false },
    { { "deny connect port 7" }, C, NULL, 0, "10.0.0.1", 8, 0, NULL, true },
    { { "deny any user 7" }, C, NULL, 0, "10.0.0.1", 8, 7, "rule1", false },
    { { "deny any user 7" }, C, NULL, 0, "10.0.0.1", 8, 8, NULL, true },
    { { "deny any user root" }, C, NULL, 0, "10.0.0.1", 8, 0, "rule1", false },
    { { "allow any to 10.1.0.0/16", "deny any" }, C, NULL, 0, "10.1.9.9", 1, 0, "rule1", true },
    { { "allow any to 10.1.0.0/16", "deny any" }, C, NULL, 0, "10.2.9.9", 1, 0, "rule2", false },
    { { "deny any", "allow any" }, C, NULL, 0, "10.2.9.9", 1, 0, "rule1", false },
    { { "deny request from 192.0.2.7" }, R, "10.0.0.1", 5, "192.0.2.7", 9, 0, "rule1", false },
    { { "deny request from 192.0.2.7" }, R, "10.0.0.1", 5, "192.0.2.6", 9, 0, NULL, true },
    { { "deny request port 5" }, R, "10.0.0.1", 5, "192.0.2.6", 9, 0, "rule1", false },
    { { "deny request port 9" }, R, "10.0.0.1", 5, "192.0.2.6", 9, 0, NULL, true },
    { { "deny listen on 10.0.0.0/9" }, L, "10.127.0.1", 5, NULL, 0, 0, "rule1", false },
    { { "deny listen on 10.0.0.0/9" }, L, "10.128.0.1", 5, NULL, 0, 0, NULL, true },
    { { "deny listen port 0-1023" }, L, "127.0.0.1", 22, NULL, 0, 0, "rule1", false },
    { { "deny any to 2001:db8::/33" }, C, NULL, 0, "2001:db8:7fff::1", 1, 0, "rule1", false },
    { { "deny any to 2001:db8::/33" }, C, NULL, 0, "2001:db8:8000::1", 1, 0, NULL, true },
    { { "deny any to 2001:db8::1" }, C, NULL, 0, "2001:db8::1", 1, 0, "rule1", false },
    { { "deny any to 2001:db8::1" }, C, NULL, 0, "2001:db8::2", 1, 0, NULL, true },
    { { "deny any to 0.0.0.0/0" }, C, NULL, 0, "1.2.3.4", 1, 0, "rule1", false },
    { { "deny any to 0.0.0.0/0" }, C, NULL, 0, "2001:db8::2", 1, 0, NULL, true },
    { { "deny any to any port 1" }, C, NULL, 0, "2001:db8::2", 1, 0, "rule1", false },
    /* a wildcard address includes every address of its family */
    { { "deny listen on 10.0.0.1" }, L, "0.0.0.0", 5, NULL, 0, 0, "rule1", false },
    { { "allow listen on 10.0.0.1", "deny any" }, L, "0.0.0.0", 5, NULL, 0, 0, "rule2", false },
    { { "allow listen on 0.0.0.0/0", "deny any" }, L, "0.0.0.0", 5, NULL, 0, 0, "rule1", true },
    { { "deny listen on 2001:db8::1" }, L, "0.0.0.0", 5, NULL, 0, 0, NULL, true },
    { { "deny listen on 10.0.0.1" }, L, "::1", 5, NULL, 0, 0, NULL, true },
    { { "deny connect to 10.0.0.1" }, C, NULL, 0, "::", 5, 0, NULL, true },
    /* that of IPv6 takes IPv4 peers, too */
    { { "deny listen on 10.0.0.1" }, L, "::", 5, NULL, 0, 0, "rule1", false },
    { { "deny listen on 10.0.0.1 port 6" }, L, "::", 5, NULL, 0, 0, NULL, true },
    { { "allow listen on ::/0", "deny any" }, L, "::", 5, NULL, 0, 0, "rule2", false },
    { { "allow listen on ::/0", "allow listen on 0.0.0.0/0", "deny any" },
      L,
      "::",
      5,
      NULL,
      0,
      0,
      "rule1",
      true },
    /* and so does an unknown address */
    { { "deny connect to 10.0.0.1" }, C, NULL, 0, NULL, 0, 0, "rule1", false },
    { { "allow connect to 10.0.0.1", "deny any" }, C, NULL, 0, NULL, 0, 0, "rule2", false },
    { { "deny connect port 5" }, C, NULL, 0, NULL, 0, 0, "rule1", false },
    { { "allow connect port 5", "deny any" }, C, NULL, 0, NULL, 0, 0, "rule2", false },
};

START_TEST(test_answer)
{
    static const char *const names[] = { "rule1", "rule2", "rule3" };
    struct sockaddr_storage local = address(table[_i].local, table[_i].local_port);
    struct sockaddr_storage peer = address(table[_i].peer, table[_i].peer_port);
    static const unsigned directions[] = {
        [C] = POLICY_CONNECT, [L] = POLICY_LISTEN, [R] = POLICY_REQUEST
    };
    struct policy_question question = {
        .directions = directions[table[_i].direction],
        .local = policy_place_of(table[_i].local ? (struct sockaddr *)&local : NULL),
        .peer = policy_place_of(table[_i].peer ? (struct sockaddr *)&peer : NULL),
        .user = table[_i].user,
    };
    struct kal_policy *policy = kal_policy_create();
    const char *rule;
    char why[200];

    for (int i = 0; i < 3 && table[_i].rules[i]; i++)
        ck_assert_msg(kal_policy_add(policy, names[i], table[_i].rules[i], why, sizeof(why)) ==
                          RI_OK,
                      "%s", why);
    ck_assert_int_eq(kal_policy_allows(policy, &question, &rule), table[_i].allowed);
    if (table[_i].decides)
        ck_assert_str_eq(rule, table[_i].decides);
    else
        ck_assert_ptr_null(rule);
    kal_policy_destroy(policy);
}
END_TEST

START_TEST(test_ipv6_only)
{
    struct sockaddr_storage local = address("::", 5);
    struct policy_question question = { .directions = POLICY_LISTEN,
                                        .local = policy_place_of((struct sockaddr *)&local),
                                        .peer = policy_place_of(NULL) };
    struct kal_policy *policy = kal_policy_create();
    const char *rule;
    char why[200];

    ck_assert_int_eq(kal_policy_add(policy, "rule1", "deny listen on 10.0.0.1", why, sizeof(why)),
                     RI_OK);
    ck_assert(!kal_policy_allows(policy, &question, &rule));
    question.local.v6only = true;
    ck_assert(kal_policy_allows(policy, &question, &rule));
    kal_policy_destroy(policy);
}
END_TEST

static const struct {
    const char *text, *why;
} wrong[] = {
    { "", "allow or deny" },
    { "permit any", "allow or deny" },
    { "deny", "connect, listen, convert, request or any" },
    { "deny everything", "connect, listen, convert, request or any" },
    { "deny connect 10.0.0.1", "not expected" },
    { "deny connect to", "address is missing" },
    { "deny connect to nowhere", "no IPv4 or IPv6 address" },
    { "deny connect to 10.0.0.1/33", "0 to 32 bits" },
    { "deny connect to 10.0.0.1/", "0 to 32 bits" },
    { "deny connect to 10.0.0.1/-1", "0 to 32 bits" },
    { "deny connect to ::1/129", "0 to 128 bits" },
    { "deny connect to ::1 to ::2", "not expected" },
    { "deny connect port", "number is missing" },
    { "deny connect port 65536", "0 to 65535" },
    { "deny connect port 9-8", "0 to 65535" },
    { "deny connect port a", "0 to 65535" },
    { "deny connect port 1-", "0 to 65535" },
    { "deny connect port 1 port 2", "not expected" },
    { "deny any user", "name or number is missing" },
    { "deny any user no-such-user-here", "no user" },
    { "deny any user 1 user 2", "not expected" },
    { "limit regions 3", "section [quota]" },
    { "deny any group no-such-group-here", "no group" },
};

START_TEST(test_wrong_rule)
{
    struct kal_policy *policy = kal_policy_create();
    struct policy_question question = { .directions = POLICY_ANY };
    const char *rule;
    char why[200] = "";

    ck_assert_int_eq(kal_policy_add(policy, "rule1", wrong[_i].text, why, sizeof(why)),
                     ITAL_ERR_CONFIGURATION);
    ck_assert_msg(strstr(why, wrong[_i].why) != NULL, "%s", why);
    ck_assert(kal_policy_allows(policy, &question, &rule));
    kal_policy_destroy(policy);
}
END_TEST

/* Through the configuration, an RNIC and the host table that a provider sees. */
START_TEST(test_provider_asks)
{
    struct sockaddr_storage peer = address("192.0.2.1", 80);
    struct ri_policy_question question = { .size = sizeof(question),
                                           .direction = RI_POLICY_CONNECT,
                                           .peer = (struct sockaddr *)&peer };
    struct kal_rnic *rnic;

    fixture_module("vp_test", NULL);
    fixture_conf("[policy]\nrule5 = deny connect to 192.0.2.0/24\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(rnic->host.policy(&rnic->host, &question), RI_ERR_PERMISSION);
    ck_assert_uint_eq(
        fixture_log_count("test: connecting to 192.0.2.1:80 is denied by rule5 in section "), 1);
    question.direction = RI_POLICY_LISTEN;
    ck_assert_int_eq(rnic->host.policy(&rnic->host, &question), RI_OK);
    question.direction = (enum ri_policy_direction)77;
    ck_assert_int_eq(rnic->host.policy(&rnic->host, &question), RI_ERR_PERMISSION);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tc = tc_case(suite, "policy", fixture_setup, fixture_put);

    tc_add_rows(tc, test_answer, table);
    tcase_add_test(tc, test_ipv6_only);
    tc_add_rows(tc, test_wrong_rule, wrong);
    tcase_add_test(tc, test_provider_asks);
    return tc_main(suite);
}
