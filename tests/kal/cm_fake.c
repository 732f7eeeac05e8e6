/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the tests of the connection manager; see cm_fake.h. */
#include "cm_fake_private.h"

#include "formats/policy.h"

#include <sys/socket.h>
#include <utlist.h>

struct fake fake;

static char log_path[4200];
static int fds_before;
static struct kal_host_rule rules[2];
static size_t rule_count;

struct fake_qp *qps[FAKE_QPS];
unsigned qp_count;
struct fake_connection *connections[FAKE_CONNECTIONS];
unsigned connection_count;

/* Options whose defaults do not fit the tests. */
static const struct ri_option options[] = {
    RI_OPTION_DEFAULT("request_timeout", "20s"),
    RI_OPTION_DEFAULT("tcp_user_timeout", "0"),
    RI_OPTION_DEFAULT("keepalive_idle", "10"),
    RI_OPTION_DEFAULT("keepalive_interval", "5"),
};
#define OPTIONS (sizeof(options) / sizeof(*options))

static void open_rnic(const char *const *set, uint64_t features)
{
    struct kal_rnic *rnic = &fake.rnic;

    memset(rnic, 0, sizeof(*rnic));
    rnic->kal = &fake.kal;
    rnic->upper = &fake_upper;
    rnic->kal_host = fake.kal.host;
    rnic->provider = &fake.provider;
    rnic->provider_name = "fake";
    rnic->interface = (char *)"fake";
    rnic->options = kal_values_of_interface(options, OPTIONS);
    for (; set && set[0]; set += 2) {
        char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
        struct ri_option option;

        ck_assert(kal_interface_option_find(options, OPTIONS, set[0], &option));
        ck_assert_msg(kal_option_normal(&option, set[1], normal, allowed), "%s: allowed is %s",
                      set[0], allowed);
        ck_assert(kal_values_set(rnic->options, set[0], normal));
    }
    fake_provider_ops(&rnic->ops);
    rnic->host.context = rnic;
    rnic->attr.features = features;
    rnic->attr.max_ird = rnic->attr.max_ord = 128;
    ck_assert_int_eq(kal_cm_open(rnic), RI_OK);
}

/* Closes the RNIC and checks that nothing is left of it. */
static void close_rnic(void)
{
    enum ri_status status = kal_cm_close(&fake.rnic, false);

    if (status == RI_ERR_AGAIN)
        status = kal_cm_close(&fake.rnic, true);
    ck_assert_int_eq(status, RI_OK);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++) {
        ck_assert_uint_eq(kal_rnic_holds(&fake.rnic, (enum kal_account_kind)kind), 0);
        ck_assert_uint_eq(kal_host_holds(fake.kal.host, (enum kal_account_kind)kind), 0);
    }
    kal_cm_free(&fake.rnic);
    kal_values_destroy(fake.rnic.options);
}

void fake_setup(void)
{
    char log[4300];
    const char *why;

    snprintf(log_path, sizeof(log_path), "%s/log", tc_tempdir());
    snprintf(log, sizeof(log), "debug:%s", log_path);
    unlink(log_path);
    kal_log_reset();
    fds_before = tc_fd_count();
    ck_assert_msg(kal_log_configure(log, &why), "%s", log);
    memset(&fake, 0, sizeof(fake));
    pthread_mutex_init(&fake.lock, NULL);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        fake.config.quota[kind] = FAKE_QUOTA;
    rule_count = 0;
    fake.kal.config = &fake.config;
    ck_assert_int_eq(kal_host_open(&kal_host_local, &fake.config, &fake.kal.host), RI_OK);
    fake.kal.upper = &fake_upper;
    fake.provider.name = (char *)"fake";
    fake_upper_seen.request = fake_on_request;
    fake_upper_seen.event = fake_on_event;
    fake.lane = &fake.lanes[0];
    fake.lane2 = &fake.lanes[1];
    fake_lane_open(fake.lane, true);
    fake_lane_open(fake.lane2, true);
    qp_count = connection_count = 0;
    open_rnic(NULL, RI_FEATURE_CONNECTION_SET_B);
}

void fake_teardown(void)
{
    for (unsigned i = 0; i < connection_count; i++) {
        if (connections[i]->connection)
            kal_connection_destroy(connections[i]->connection);
        free(connections[i]);
    }
    close_rnic();
    for (unsigned i = 0; i < qp_count; i++) {
        if (qps[i]->fd >= 0)
            close(qps[i]->fd);
        if (qps[i]->last.local) {
            close(qps[i]->last.local_fd);
            free(qps[i]->last.local);
        }
        free(qps[i]->last_message);
        free(qps[i]);
    }
    ck_assert_uint_eq(fake.made + fake.taken, fake.dropped + fake.handed);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
    ck_assert_uint_eq(fake_lane_watches(fake.lane2), 0);
    ck_assert_uint_eq(fake_lane_timers(fake.lane), 0);
    ck_assert_uint_eq(fake_lane_timers(fake.lane2), 0);
    fake_lane_close(fake.lane);
    fake_lane_close(fake.lane2);
    kal_host_close(fake.kal.host);
    pthread_mutex_destroy(&fake.lock);
    kal_log_reset();
    ck_assert_int_eq(tc_fd_count(), fds_before);
}

void fake_reopen(const char *const *set, uint64_t features)
{
    close_rnic();
    open_rnic(set, features ? features : RI_FEATURE_CONNECTION_SET_B);
}

void fake_open_beside(struct kal_rnic *beside, uint64_t features)
{
    *beside = fake.rnic;
    beside->cm = NULL;
    beside->host.context = beside;
    beside->attr.features = features;
    ck_assert_int_eq(kal_cm_open(beside), RI_OK);
}

void fake_close_beside(struct kal_rnic *beside)
{
    ck_assert_int_eq(kal_cm_close(beside, false), RI_OK);
    kal_cm_free(beside);
}

void fake_policy(const char *rule)
{
    ck_assert_uint_lt(rule_count, 2);
    rules[rule_count] = (struct kal_host_rule){ rule_count ? "rule2" : "rule1", rule, "the test",
                                                0 };
    rule_count++;
    ck_assert_int_eq(kal_host_push_policy(fake.kal.host, rules, rule_count), RI_OK);
}

void fake_governing(const char *text)
{
    struct policy list = { NULL, 0, NULL, 0 };
    char why[256];

    ck_assert_int_eq(policy_read_text(&list, "10.conf", text, strlen(text), &policy_system_names,
                                      why, sizeof(why)),
                     POLICY_OK);
    ck_assert_int_eq(kal_host_push_governing(fake.kal.host, &list), RI_OK);
}

void fake_quota(enum kal_account_kind kind, uint64_t limit)
{
    uint64_t surplus = FAKE_QUOTA - limit;

    ck_assert_uint_eq(kal_host_return(fake.kal.host, kind, surplus), surplus);
}

const char *fake_log_text(void)
{
    static char text[1 << 16];
    FILE *file = fopen(log_path, "re");
    size_t got = 0;

    if (file) {
        got = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
    }
    text[got] = '\0';
    return text;
}

unsigned fake_log_count(const char *text)
{
    const char *at = fake_log_text();
    unsigned count = 0;

    while ((at = strstr(at, text))) {
        count++;
        at += strcspn(at, "\n");
    }
    return count;
}

struct fake_qp *fake_qp_new(void)
{
    struct fake_qp *qp = calloc(1, sizeof(*qp));

    ck_assert_uint_lt(qp_count, FAKE_QPS);
    qp->fd = -1;
    qps[qp_count++] = qp;
    return qp;
}

struct fake_connection *fake_connection_new(void)
{
    struct fake_connection *c = calloc(1, sizeof(*c));

    ck_assert_int_eq(kal_connection_create(&fake.rnic, fake.lane, c, &c->connection), RI_OK);
    ck_assert_uint_lt(connection_count, FAKE_CONNECTIONS);
    connections[connection_count++] = c;
    return c;
}

void fake_destroy(struct fake_connection *c)
{
    struct kal_connection *connection = c->connection;

    c->connection = NULL;
    kal_connection_destroy(connection);
}

struct kal_listener *fake_listen(const char *address, uint16_t port, uint32_t backlog,
                                 void *context, struct sockaddr_storage *bound)
{
    struct sockaddr_storage where = address_of(address, port);
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (struct sockaddr *)&where,
                                     .backlog = backlog };
    struct kal_listener *listener;
    uint32_t option = fake.rnic.cm->options.backlog;

    if (backlog) /* exactly this number: the option would raise it */
        fake.rnic.cm->options.backlog = backlog;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, context, bound, &listener), RI_OK);
    fake.rnic.cm->options.backlog = option;
    ck_assert_uint_ne(port_of(bound), 0);
    return listener;
}
