/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping --roce: what was found, for people and as JSON.
 */
#include "itping_roce.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#include "tools/common/tool.h"

#define LINE 480u

static const char *const roce_questions[ROCE_QUESTIONS] = { "REQ", "SIDR_REQ", "DREQ" };

bool roce_reached(const struct roce_found *found)
{
    return found->question != ROCE_QUESTIONS && found->icrc <= ANSWER_IDENTIFIED &&
           !memcmp(found->from, found->way.peer, GID_LEN);
}

/* ---- one line each --------------------------------------------------------------------------- */

static const char *port_line(const struct roce_found *found, char text[static LINE])
{
    char name[RAW_NAME];

    if (found->question != ROCE_QUESTIONS)
        return "open: somebody answers there";
    if (!found->reach_known)
        return "not known";
    switch (found->port.what) {
    case REACH_CLOSED: return "closed: the host itself says that nobody has the port";
    case REACH_REFUSED:
        snprintf(text, LINE, "refused by %s: a firewall", raw_name(found->port.from, name));
        return text;
    case REACH_NO_HOST:
        snprintf(text, LINE, "not reached: %s", strerror(found->port.error));
        return text;
    case REACH_NOT_ASKED:
        snprintf(text, LINE, "not asked, this host refuses: %s", strerror(found->port.error));
        return text;
    default: break;
    }
    if (found->way.local)
        return "somebody has it on this host";
    if (found->other.what == REACH_CLOSED)
        return "open, or dropped by a firewall: silence, where a closed port is told by ICMP";
    return "silence: open, or a firewall drops, or nobody is there";
}

static const char *speech_line(const struct roce_found *found, char text[static LINE])
{
    if (found->why[0])
        snprintf(text, LINE, "not asked: %s", found->why);
    else if (found->question == ROCE_QUESTIONS)
        snprintf(text, LINE, "no answer to %s, %s and %s", roce_questions[0], roce_questions[1],
                 roce_questions[2]);
    else
        snprintf(text, LINE, "connection management: %s for a service that nobody has, %s",
                 roce_questions[found->question], found->answer);
    return text;
}

static const char *address_text(const uint8_t address[static 4], char name[static RAW_NAME])
{
    snprintf(name, RAW_NAME, "%u.%u.%u.%u", address[0], address[1], address[2], address[3]);
    return name;
}

static const char *back_line(const struct roce_found *found, char text[static LINE])
{
    char name[RAW_NAME], other[RAW_NAME];

    if (found->question == ROCE_QUESTIONS)
        return "not known";
    if (found->icrc == ANSWER_WHOLE)
        return "whole";
    if (found->icrc == ANSWER_IDENTIFIED)
        return "whole (the sender counts the identification of IPv4)";
    if (found->icrc == ANSWER_OTHER_PORT) {
        snprintf(text, LINE, "broken: the source port was %u when it was sent", found->sent_from);
        return text;
    }
    if (found->address_translated) {
        snprintf(text, LINE,
                 "broken: when it was sent the source address was %s, or the "
                 "destination address %s",
                 address_text(found->source_if, name), address_text(found->destination_if, other));
        return text;
    }
    return "broken: it is not known by what";
}

static const char *address_line(const struct roce_found *found, char text[static LINE])
{
    char name[RAW_NAME];

    if (found->question == ROCE_QUESTIONS)
        return "not known";
    if (memcmp(found->from, found->way.peer, GID_LEN)) {
        snprintf(text, LINE, "the answer came from %s", raw_name(found->from, name));
        return text;
    }
    return roce_reached(found) ? "the same at both ends, as the ICRCs cover them: no NAT"
                               : "translated on the way: NAT";
}

static const char *mtu_line(const struct roce_found *found, char text[static LINE])
{
    const struct reach_mtu *mtu = &found->mtu;
    bool ipv4 = gid_is_ipv4(found->way.peer);
    int used;

    if (!found->mtu_asked || !mtu->mtu)
        return "not known: the host does not say by ICMP which of its ports are closed";
    used = snprintf(text, LINE, "%u: an IP packet of %u octets arrives whole there", mtu->mtu,
                    reach_packet_len(ipv4, mtu->mtu));
    if (mtu->next && mtu->ip)
        snprintf(text + used, LINE - (size_t)used, "; the way's MTU is %u", mtu->ip);
    else if (mtu->next && mtu->hole)
        snprintf(text + used, LINE - (size_t)used, "; one of %u vanishes without a word",
                 reach_packet_len(ipv4, mtu->next));
    return text;
}

/* ---- what to do ------------------------------------------------------------------------------ */

static const char *next_of_silence(const struct roce_found *found)
{
    if (found->port.what == REACH_CLOSED)
        return "Start something that speaks RoCEv2 there: a program under 'ital-run --as rocev2', "
               "or the kernel's (rdma link add rxe0 type rxe netdev ...). If it runs, a firewall "
               "of that host refuses: allow UDP port 4791, both ways.";
    if (found->port.what == REACH_REFUSED)
        return "Allow UDP port 4791 there, both ways: RoCE answers to port 4791, whatever port a "
               "packet came from.";
    if (found->port.what == REACH_NO_HOST)
        return "Look for the host by ping, and for the route to it.";
    if (found->port.what == REACH_NOT_ASKED)
        return "Look at this host's firewall and routes: a packet to UDP port 4791 does not leave.";
    if (found->way.local)
        return "The process that has the port on this host (ss -ulnp sport = 4791) does not "
               "answer: it has no connection manager, or it is stopped.";
    return "Watch there: tcpdump -ni any udp port 4791. If packets arrive that nobody answers, "
           "something changes them on the way (NAT: their ICRC is wrong then, and they are dropped "
           "without a word), or the holder of the port has no connection manager. If none "
           "arrives, a firewall drops them: allow UDP port 4791, both ways.";
}

static const char *next_of_answer(const struct roce_found *found)
{
    if (memcmp(found->from, found->way.peer, GID_LEN))
        return "Use the address that the answer came from: queue pairs drop what comes from "
               "another one than they were connected to.";
    if (found->icrc > ANSWER_IDENTIFIED)
        return "Something between translates addresses or ports (NAT, a container's published "
               "port, a load balancer), which RoCE does not survive: give both ends addresses "
               "that each other sees, or use iWARP, which is TCP (ital-run).";
    if (found->reason == CM_REJ_INVALID_GID)
        return "That host does not know itself by this address: use one of its own.";
    if (found->mtu.hole && found->mtu.next)
        return "Larger packets vanish: set the path MTU of RoCE to what arrives (option mtu), or "
               "let ICMP 'fragmentation needed' pass.";
    return "Nothing stands in the way.";
}

const char *roce_next(const struct roce_found *found, char text[static ROCE_NEXT])
{
    if (found->question != ROCE_QUESTIONS)
        snprintf(text, ROCE_NEXT, "%s", next_of_answer(found));
    else if (found->why[0])
        snprintf(
            text, ROCE_NEXT,
            "This end could not ask: %s. With rdma_rxe loaded nobody else gets the port in this "
            "network namespace: try another (unshare -n), or unload it.",
            found->why);
    else
        snprintf(text, ROCE_NEXT, "%s", next_of_silence(found));
    return text;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_times(const struct roce_found *found)
{
    if (!found->answered)
        return;
    printf("  %-12s %.1f / %.1f / %.1f us (least, mean, most), %llu of %llu answered\n",
           "round trip", (double)found->least_ns / 1000,
           (double)found->sum_ns / 1000 / (double)found->answered, (double)found->most_ns / 1000,
           (unsigned long long)found->answered, (unsigned long long)found->asked);
}

bool roce_print(const struct roce_options *options, const struct roce_found *found)
{
    char name[2][RAW_NAME], text[LINE], next[ROCE_NEXT];
    bool answered = found->question != ROCE_QUESTIONS;

    if (!options->quiet) {
        printf("RoCEv2 from %s to %s\n", raw_name(found->way.own, name[0]),
               raw_name(found->way.peer, name[1]));
        printf("  %-12s %s\n", "UDP 4791", port_line(found, text));
        printf("  %-12s %s\n", "answer", speech_line(found, text));
        printf("  %-12s %s\n", "ICRC there",
               answered ? "whole: they have taken a packet of ours" : "not known");
        printf("  %-12s %s\n", "ICRC back", back_line(found, text));
        printf("  %-12s %s\n", "addresses", address_line(found, text));
        printf("  %-12s %s\n", "path MTU", mtu_line(found, text));
        if (answered)
            printf("  %-12s %u, hop limit %u\n", "DSCP back", found->traffic_class >> 2,
                   found->hop_limit);
        print_times(found);
    }
    printf("%s: RoCEv2 %s. %s\n", options->host,
           roce_reached(found)                    ? "reaches it, both ways"
           : answered                             ? "reaches it, and what comes back is of no use"
           : found->why[0] || !found->reach_known ? "was not asked for"
                                                  : "does not answer",
           roce_next(found, next));
    return fflush(stdout) == 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#ifdef HAVE_JANSSON

static const char *const ports[] = {
    [REACH_SILENT] = "silent",   [REACH_CLOSED] = "closed",   [REACH_REFUSED] = "refused",
    [REACH_NO_HOST] = "no host", [REACH_TOO_LONG] = "silent", [REACH_NOT_ASKED] = "not asked",
};
static const char *const icrcs[] = {
    [ANSWER_WHOLE] = "whole",
    [ANSWER_IDENTIFIED] = "whole",
    [ANSWER_OTHER_PORT] = "port translated",
    [ANSWER_DAMAGED] = "broken",
};

static const char *icrc_word(const struct roce_found *found)
{
    return found->address_translated ? "address translated" : icrcs[found->icrc];
}

static json_t *times_json(const struct roce_found *found)
{
    if (!found->answered)
        return json_null();
    return json_pack("{s:f, s:f, s:f}", "least", (double)found->least_ns / 1000, "mean",
                     (double)found->sum_ns / 1000 / (double)found->answered, "most",
                     (double)found->most_ns / 1000);
}

bool roce_print_json(const struct roce_options *options, const struct roce_found *found)
{
    char name[3][RAW_NAME], next[ROCE_NEXT];
    bool answered = found->question != ROCE_QUESTIONS, good;
    json_t *root = json_pack("{s:s, s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:o, s:s}", "host",
                             options->host, "own", raw_name(found->way.own, name[0]), "peer",
                             raw_name(found->way.peer, name[1]), "reached", roce_reached(found),
                             "udp_port",
                             answered             ? "open"
                             : found->reach_known ? ports[found->port.what]
                                                  : "not known",
                             "asked", (json_int_t)found->asked, "answered",
                             (json_int_t)found->answered, "resent", (json_int_t)found->resent,
                             "microseconds", times_json(found), "next", roce_next(found, next));

    if (root && answered) {
        json_object_set_new(root, "question", json_string(roce_questions[found->question]));
        json_object_set_new(root, "answer", json_string(found->answer));
        json_object_set_new(root, "from", json_string(raw_name(found->from, name[2])));
        json_object_set_new(root, "icrc_there", json_string("whole"));
        json_object_set_new(root, "icrc_back", json_string(icrc_word(found)));
        json_object_set_new(root, "identification", json_boolean(found->identified));
        json_object_set_new(root, "dscp", json_integer(found->traffic_class >> 2));
        json_object_set_new(root, "hop_limit", json_integer(found->hop_limit));
    }
    if (root && found->why[0])
        json_object_set_new(root, "why", json_string(found->why));
    if (root && found->mtu.mtu)
        json_object_set_new(root, "mtu", json_integer(found->mtu.mtu));
    if (root && found->mtu.mtu)
        json_object_set_new(root, "mtu_hole", json_boolean(found->mtu.hole));
    good = root && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(root);
    if (!good)
        tool_error("cannot print JSON: out of memory, or the output cannot be written");
    return good;
}

#else

bool roce_print_json(const struct roce_options *options, const struct roce_found *found)
{
    (void)options, (void)found;
    tool_error("--json is not in this build; configure it with jansson (Debian: libjansson-dev)");
    return false;
}

#endif
