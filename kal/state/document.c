/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the state of the process. Every name of a member is in itstat(1). */
#include "document.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "formats/count_file.h"
#include "base/json.h"
#include "formats/monitor.h"

#include "kal/cm/manager.h"

#include "traffic.h"

#define COMMAND_MAX 512u /* octets, with the NUL */
#define LOG_LINES   16u

/* ---- the process ----------------------------------------------------------------------------- */

/* The command with its arguments, separated by blanks; as ps shows it. */
static void read_command(char command[COMMAND_MAX])
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, command, COMMAND_MAX - 1);

    if (fd >= 0)
        close(fd);
    if (length < 0)
        length = 0;
    while (length && !command[length - 1])
        length--;
    command[length] = '\0';
    for (ssize_t i = 0; i < length; i++)
        if (!command[i])
            command[i] = ' ';
}

/* When they came into effect tells whether the process has heard of a change. */
static void put_rules(struct json *json, struct kal *kal)
{
    struct kal_rules_seen seen;

    kal_host_rules(kal->host, &seen);
    json_begin(json, "rules", '{');
    json_number(json, "configuration", seen.own);
    if (seen.governed) {
        json_number(json, "host", seen.count);
        json_number(json, "since", seen.since / CLOCK_NS_PER_S);
        json_begin(json, "files", '[');
        for (size_t i = 0; i < seen.file_count; i++)
            json_text(json, NULL, seen.files[i]);
        json_end(json, ']');
    }
    json_end(json, '}');
}

static void put_process(struct json *json, struct kal *kal, uint64_t opened)
{
    char command[COMMAND_MAX];

    read_command(command);
    json_begin(json, "process", '{');
    json_number(json, "pid", (uint64_t)getpid());
    json_number(json, "start", count_process_start(getpid()));
    json_text(json, "program", program_invocation_short_name);
    json_text(json, "command", command);
    json_number(json, "uid", geteuid());
    json_text(json, "ital", PACKAGE_VERSION);
    json_text(json, "configuration", kal->config->source);
    json_number(json, "open_for_s", (clock_wall() - opened) / CLOCK_NS_PER_S);
    json_end(json, '}');
}

/* ---- accounts -------------------------------------------------------------------------------- */

/* A kind's name in the document: its option without "max_". */
static const char *kind_name(enum kal_account_kind kind)
{
    return kal_quota_option(kind).name + strlen("max_");
}

static void put_accounts(struct json *json, const struct kal *kal)
{
    json_begin(json, "accounts", '{');
    for (int i = 0; i < KAL_ACCOUNT_KINDS; i++) {
        enum kal_account_kind kind = (enum kal_account_kind)i;

        json_begin(json, kind_name(kind), '{');
        json_number(json, "held", kal_host_holds(kal->host, kind));
        json_number(json, "quota", kal_host_quota(kal->host, kind));
        json_end(json, '}');
    }
    json_end(json, '}');
}

static void put_pins(struct json *json, const struct kal *kal)
{
    static const enum kal_pin_way ways[] = { KAL_PIN_LOCK, KAL_PIN_HOLD };

    json_begin(json, "pins", '{');
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct kal_pins_seen seen = kal_host_pins(kal->host, ways[i]);

        json_begin(json, kal_pin_way_name(ways[i]), '{');
        json_number(json, "ranges", seen.ranges);
        json_number(json, "octets", seen.octets);
        if (ways[i] == KAL_PIN_HOLD)
            json_number(json, "rings", seen.rings);
        json_end(json, '}');
    }
    json_end(json, '}');
}

/* ---- interfaces ------------------------------------------------------------------------------ */

static void put_address(struct json *json, const union address *address)
{
    char text[NI_MAXHOST];

    if (!getnameinfo(&address->any, sizeof *address, text, sizeof text, NULL, 0, NI_NUMERICHOST))
        json_text(json, NULL, text);
}

static void put_port(struct json *json, struct kal_rnic *rnic)
{
    struct kal_port_seen seen = kal_rnic_port_seen(rnic);

    if (!seen.known)
        return;
    json_text(json, "netdevs", seen.name);
    json_bool(json, "online", seen.online);
    json_number(json, "mtu", seen.mtu);
    json_begin(json, "addresses", '[');
    for (uint32_t i = 0; i < seen.address_count; i++)
        put_address(json, &seen.addresses[i]);
    json_end(json, ']');
}

static void put_refused(struct json *json, const struct kal_rnic *rnic)
{
    static const char *const directions[] = { [RI_POLICY_CONNECT] = "connect",
                                              [RI_POLICY_LISTEN] = "listen",
                                              [RI_POLICY_REQUEST] = "request" };

    json_begin(json, "refused", '{');
    json_begin(json, "quota", '{');
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++) {
        uint64_t count = atomic_load_explicit(&rnic->refused.quota[kind], memory_order_relaxed);

        if (count)
            json_number(json, kind_name((enum kal_account_kind)kind), count);
    }
    json_end(json, '}');
    json_begin(json, "pins", '{');
    json_number(json, kal_pin_way_name(rnic->pin.way),
                atomic_load_explicit(&rnic->refused.pins, memory_order_relaxed));
    json_end(json, '}');
    json_begin(json, "policy", '{');
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
        json_number(json, directions[i],
                    atomic_load_explicit(&rnic->refused.policy[i], memory_order_relaxed));
    json_end(json, '}');
    json_end(json, '}');
}

/* ---- listeners and connections --------------------------------------------------------------- */

static void put_listener(struct json *json, const struct kal_listener_seen *seen)
{
    json_begin(json, NULL, '{');
    json_bool(json, "changing", !seen->known);
    json_text(json, "address", seen->known ? seen->address : NULL);
    json_number(json, "half_open", seen->half_open);
    json_number(json, "half_open_max", seen->half_open_max);
    json_number(json, "undecided", seen->undecided);
    json_number(json, "queued", seen->queued);
    json_number(json, "backlog", seen->backlog);
    json_bool(json, "paused", seen->paused);
    json_bool(json, "ended", seen->ended);
    json_begin(json, "refused", '{');
    json_number(json, "strangers", seen->strangers);
    json_number(json, "crowded", seen->crowded);
    json_number(json, "late", seen->late);
    json_number(json, "no_descriptor", seen->no_descriptor);
    json_end(json, '}');
    json_end(json, '}');
}

static void put_listeners(struct json *json, struct kal_rnic *rnic)
{
    size_t room = kal_cm_listeners(rnic, NULL, 0), count;
    struct kal_listener_seen *seen = calloc(room + 1, sizeof *seen);

    count = seen ? kal_cm_listeners(rnic, seen, room) : 0;
    json->failed |= !seen;
    json_begin(json, "listeners", '[');
    for (size_t i = 0; i < count && i < room; i++)
        put_listener(json, &seen[i]);
    json_end(json, ']');
    free(seen);
}

static void put_connection(struct json *json, const struct kal_connection_seen *seen)
{
    json_begin(json, NULL, '{');
    json_text(json, "state", seen->state);
    json_bool(json, "initiator", seen->initiator);
    json_bool(json, "converted", seen->converted);
    json_bool(json, "awaits_qp", seen->awaits_qp);
    kal_state_put_end(json, "local", &seen->local);
    kal_state_put_end(json, "peer", &seen->peer);
    json_text(json, "wire", seen->wire);
    json_text(json, "local_why", seen->local_why);
    if (seen->age_ns)
        json_number(json, "age_ms", seen->age_ns / CLOCK_NS_PER_MS);
    json_end(json, '}');
}

static void put_connections(struct json *json, struct kal_rnic *rnic)
{
    size_t room = kal_cm_connections(rnic, NULL, 0), count;
    struct kal_connection_seen *seen = calloc(room + 1, sizeof *seen);

    count = seen ? kal_cm_connections(rnic, seen, room) : 0;
    json->failed |= !seen;
    json_begin(json, "connections", '[');
    for (size_t i = 0; i < count && i < room; i++)
        put_connection(json, &seen[i]);
    json_end(json, ']');
    free(seen);
}

static void put_interface(struct json *json, struct kal_rnic *rnic, bool all)
{
    json_begin(json, NULL, '{');
    json_text(json, "name", rnic->interface);
    json_text(json, "provider", rnic->provider_name);
    json_text(json, "device", rnic->device);
    json_text(json, "transport",
              rnic->attr.transport == RI_TRANSPORT_IWARP ? "iwarp" : "infiniband");
    json_number(json, "lanes", rnic->attr.lanes);
    json_text(json, "pin", kal_pin_way_name(rnic->pin.way));
    json_bool(json, "pin_strict", rnic->pin.strict);
    put_port(json, rnic);
    json_begin(json, "objects", '{');
    for (int kind = KAL_ACCOUNT_PD; kind < KAL_ACCOUNT_PINNED; kind++)
        json_number(json, kind_name((enum kal_account_kind)kind),
                    kal_rnic_holds(rnic, (enum kal_account_kind)kind));
    json_end(json, '}');
    json_number(json, "registered_octets",
                atomic_load_explicit(&rnic->registered, memory_order_relaxed));
    put_refused(json, rnic);
    put_listeners(json, rnic);
    if (all) {
        put_connections(json, rnic);
        kal_state_put_lanes(json, rnic);
        kal_state_put_counters(json, rnic);
    }
    kal_state_put_traffic(json, rnic, all);
    json_end(json, '}');
}

/* Of a provider's functions these are called: qp_query, qp_counters, rnic_counters. */
static void put_interfaces(struct json *json, struct kal *kal, bool all)
{
    struct kal_rnic *rnic;

    json_begin(json, "interfaces", '[');
    pthread_mutex_lock(&kal->rnics_lock);
    for (rnic = kal->rnics; rnic; rnic = rnic->next)
        put_interface(json, rnic, all);
    pthread_mutex_unlock(&kal->rnics_lock);
    json_end(json, ']');
}

/* ---- the log --------------------------------------------------------------------------------- */

static void put_log(struct json *json, struct kal *kal, bool lines)
{
    struct kal_log_line line[LOG_LINES];
    uint64_t errors, warnings;
    size_t count = kal_log_recent(line, LOG_LINES, &errors, &warnings);

    json_begin(json, "log", '{');
    json_text(json, "to", kal_values_get(kal->config->ital, "log"));
    json_number(json, "errors", errors);
    json_number(json, "warnings", warnings);
    if (lines) {
        json_begin(json, "last", '[');
        for (size_t i = 0; i < count; i++) {
            json_begin(json, NULL, '{');
            json_number(json, "time", line[i].wall / CLOCK_NS_PER_S);
            json_text(json, "line", line[i].text);
            json_end(json, '}');
        }
        json_end(json, ']');
    }
    json_end(json, '}');
}

char *kal_state_document(struct kal *kal, const struct kal_state_request *request, uint64_t opened,
                         size_t *length)
{
    struct json json;

    json_start(&json, MONITOR_ANSWER_MAX);
    json_begin(&json, NULL, '{');
    json_number(&json, "version", MONITOR_VERSION);
    put_process(&json, kal, opened);
    put_rules(&json, kal);
    put_accounts(&json, kal);
    put_pins(&json, kal);
    put_interfaces(&json, kal, request->get == KAL_STATE_ALL);
    put_log(&json, kal, request->get == KAL_STATE_ALL);
    json_end(&json, '}');
    return json_finish(&json, length);
}

char *kal_state_refusal(const char *why, size_t *length)
{
    struct json json;

    json_start(&json, MONITOR_ANSWER_MAX);
    json_begin(&json, NULL, '{');
    json_number(&json, "version", MONITOR_VERSION);
    json_text(&json, "error", why);
    json_end(&json, '}');
    return json_finish(&json, length);
}
