/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of an interface of softrdma. kal's connection manager reads those of connection set-up and end from
 * the same table, by name; this room reads what the provider itself uses.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "provider.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct ri_option softrdma_option_table[SOFTRDMA_OPTIONS] = {
    { "crc", "bool", "on", "", "Ask for CRC32C on every FPDU; off only if the peer agrees." },
    { "markers", "bool", "off", "",
      "Ask the peer for MPA markers in what it sends; those that a peer asks for are always "
      "sent." },
    { "mpa_revision", "int", "2", "", "Highest MPA revision to offer and accept: 1 or 2." },
    { "mpa_fallback", "bool", "on", "",
      "Connect once more with revision 1 when the peer reads a request of revision 2 and then "
      "closes "
      "in an orderly way." },
    { "rtr", "enum: write|read|none", "write", "",
      "Ready-to-receive message that the active side offers (revision 2)." },
    { "connect_timeout", "time", "10000", "ms", "Bound of TCP and MPA set-up of the active side." },
    { "request_timeout", "time", "5000", "ms",
      "How long an accepted TCP connection may take to send its MPA request, and then its "
      "ready-to-receive message." },
    { "backlog", "int", "128", "",
      "Undecided connection requests of one listener, from which on it accepts no more and the "
      "system's queue (net.core.somaxconn) holds the peers; its EVD's size where that is more." },
    { "half_open", "int", "4096", "",
      "Accepted TCP connections of one listener whose MPA request is incomplete; never more than a "
      "quarter of the limit on open files. Beyond, one that is older than 0.5 s gives way." },
    { "v6only", "enum: auto|yes|no", "auto", "",
      "Whether an IPv6 listener refuses IPv4; auto: as the consumer asked." },
    { "pcap", "path", "", "",
      "Write the traffic of this interface to this pcapng file, %p for the process; an existing "
      "file "
      "is replaced." },
    { "netdev", "string", "", "", "Only this network interface; empty: all of them." },
    { "fpdu", "enum: emss|max", "emss", "",
      "Size of FPDUs: none larger than a TCP segment, or as large as the protocol allows." },
    { "hot", "int", "4", "",
      "Busy connections that are read without asking epoll first, 0 to 16." },
    { "lanes", "int", "1", "",
      "Parts of the interface that threads run beside each other, 1 to 64; each endpoint is in one "
      "of them, each has a background thread." },
    { "rtr_repeat", "time", "20", "ms",
      "Silence of the peer after which the active side sends a zero-length Write again; three more "
      "follow while it lasts, each after four times as long; 0: none." },
    { "stall_timeout", "time", "300000", "ms",
      "How long nothing may come of an FPDU that the peer has begun before the connection is "
      "reset; "
      "each octet counts anew. 0: for ever." },
    { "rest_limit", "size", "67108864", "octets",
      "Incomplete FPDUs of all connections together; beyond it the oldest one's connection is "
      "reset." },
    { "close_timeout", "time", "10000", "ms",
      "How long an orderly close waits for the peer before the connection is reset." },
    { "ack_timeout", "time", "30000", "ms",
      "How long a peer may acknowledge nothing while something is sent to it before the connection "
      "is lost, and a sixth more; 0: as the system decides." },
    { "tcp_user_timeout", "time", "0", "ms",
      "TCP_USER_TIMEOUT, which also ends connections to peers that live but do not read, and "
      "replaces keepalive_count; 0: not set." },
    { "keepalive", "bool", "on", "", "TCP keep-alive, so that a peer that vanished is noticed." },
    { "keepalive_idle", "time", "10", "s", "Silence before the first keep-alive probe." },
    { "keepalive_interval", "time", "5", "s", "Between keep-alive probes." },
    { "keepalive_count", "int", "6", "", "Unanswered keep-alive probes that end the connection." },
    { "tcp_congestion", "string", "", "", "TCP congestion control; empty: as the system decides." },
    { "remote_invalidate", "bool", "on", "",
      "Whether a peer may invalidate a region: where its protection zone has one endpoint, and no "
      "RMR is linked to it. Narrow RMRs are not concerned." },
    { "guard", "bool", "off", "",
      "Read and write registered memory by the kernel: where it was unmapped, protected or "
      "truncated "
      "since, the connection ends and not the process. Slower." },
    { "max_ird", "int", "128", "", "Largest inbound RDMA Read queue depth of an endpoint." },
    { "max_ord", "int", "128", "", "Largest outbound RDMA Read queue depth of an endpoint." },
    { "max_qp", "int", "65536", "", "Endpoints of one open interface." },
};

static const char *text_of(const struct rnic *rnic, const char *name)
{
    const char *text = rnic->host->option(rnic->host, name);

    return text ? text : "";
}

static bool read_number(const struct rnic *rnic, const char *name, uint64_t min, uint64_t max,
                        uint64_t *value)
{
    const char *text = text_of(rnic, name);
    uint64_t number;
    char *end;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < min || number > max) {
        softrdma_log(rnic, RI_LOG_ERROR,
                     "option %s is \"%s\": set it to a whole number from %llu to %llu", name, text,
                     (unsigned long long)min, (unsigned long long)max);
        return false;
    }
    *value = number;
    return true;
}

static bool read_u32(const struct rnic *rnic, const char *name, uint32_t min, uint32_t max,
                     uint32_t *value)
{
    uint64_t number;

    if (!read_number(rnic, name, min, max, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool read_bool(const struct rnic *rnic, const char *name, bool *value)
{
    static const char *const words[2][4] = { { "no", "off", "false", "0" },
                                             { "yes", "on", "true", "1" } };
    const char *text = text_of(rnic, name);

    for (int truth = 0; truth < 2; truth++) {
        for (int i = 0; i < 4; i++) {
            if (!strcasecmp(text, words[truth][i])) {
                *value = truth;
                return true;
            }
        }
    }
    softrdma_log(rnic, RI_LOG_ERROR, "option %s is \"%s\": set it to yes or no", name, text);
    return false;
}

static bool read_word(const struct rnic *rnic, const char *name, char *out, size_t room)
{
    const char *text = text_of(rnic, name);

    if (strlen(text) >= room) {
        softrdma_log(rnic, RI_LOG_ERROR, "option %s is \"%s\": a name there has at most %zu octets",
                     name, text, room - 1);
        return false;
    }
    strcpy(out, text);
    return true;
}

static bool read_fpdu(const struct rnic *rnic, bool *max)
{
    const char *text = text_of(rnic, "fpdu");

    *max = !strcasecmp(text, "max");
    if (*max || !strcasecmp(text, "emss"))
        return true;
    softrdma_log(rnic, RI_LOG_ERROR, "option fpdu is \"%s\": set it to emss or max", text);
    return false;
}

static bool read_keepalive(const struct rnic *rnic, struct softrdma_options *options)
{
    bool keepalive;

    /* The kernel's own bounds of TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT. */
    if (!read_bool(rnic, "keepalive", &keepalive) ||
        !read_u32(rnic, "keepalive_idle", 1, 32767, &options->keepalive_idle_s) ||
        !read_u32(rnic, "keepalive_interval", 1, 32767, &options->keepalive_interval_s) ||
        !read_u32(rnic, "keepalive_count", 1, 127, &options->keepalive_count))
        return false;
    if (!keepalive)
        options->keepalive_idle_s = 0;
    return true;
}

enum ri_status softrdma_read_options(struct rnic *rnic)
{
    const uint32_t day_ms = 86400u * 1000u;
    struct softrdma_options *options = &rnic->options;
    struct ri_rnic_attr *attr = &rnic->attr;
    uint64_t close_ms, request_ms, repeat_ms, stall_ms, ack_ms;

    if (!read_fpdu(rnic, &options->fpdu_max) ||
        !read_bool(rnic, "remote_invalidate", &options->remote_invalidate) ||
        !read_bool(rnic, "guard", &options->guard) ||
        !read_u32(rnic, "hot", 0, HOT_MAX, &options->hot) ||
        !read_u32(rnic, "lanes", 1, LANES_MOST, &options->lanes) ||
        !read_number(rnic, "close_timeout", 1, day_ms, &close_ms) ||
        !read_number(rnic, "request_timeout", 1, day_ms, &request_ms) ||
        !read_number(rnic, "rtr_repeat", 0, day_ms, &repeat_ms) ||
        !read_number(rnic, "stall_timeout", 0, day_ms, &stall_ms) ||
        !read_number(rnic, "rest_limit", 1u << 17, 1ull << 40, &options->rest_limit) ||
        !read_number(rnic, "ack_timeout", 0, day_ms, &ack_ms) ||
        !read_u32(rnic, "tcp_user_timeout", 0, day_ms, &options->tcp_user_timeout_ms) ||
        !read_keepalive(rnic, options) ||
        !read_word(rnic, "tcp_congestion", options->congestion, sizeof(options->congestion)) ||
        !read_word(rnic, "netdev", options->netdev, sizeof(options->netdev)) ||
        !read_u32(rnic, "max_ird", 0, 16383, &attr->max_ird) ||
        !read_u32(rnic, "max_ord", 0, 16383, &attr->max_ord) ||
        !read_u32(rnic, "max_qp", 1, 1u << 24, &attr->max_qp))
        return RI_ERR_INVALID_ARGUMENT;
    attr->lanes = options->lanes;
    options->close_timeout_ns = close_ms * CLOCK_NS_PER_MS;
    options->rtr_timeout_ns = request_ms * CLOCK_NS_PER_MS;
    options->rtr_repeat_ns = repeat_ms * CLOCK_NS_PER_MS;
    options->stall_timeout_ns = stall_ms * CLOCK_NS_PER_MS;
    options->ack_timeout_ns = ack_ms * CLOCK_NS_PER_MS;
    if (options->netdev[0] && !if_nametoindex(options->netdev))
        softrdma_log(rnic, RI_LOG_WARNING,
                     "there is no network interface %s now (option netdev): the port is off line",
                     options->netdev);
    return RI_OK;
}
