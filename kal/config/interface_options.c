/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that every interface has, whatever its provider: those that kal reads. A provider's
 * table may only give one of them another default (RI_OPTION_DEFAULT); all its other options are
 * its own.
 */
#include "kal_config.h"

#include <stdio.h>
#include <string.h>

#define DAY_MS "time: 1..86400000"

const struct ri_option kal_interface_options[] = {
    { "crc", "bool", "yes", "", "Ask for CRC32C on every FPDU; off only if the peer agrees." },
    { "markers", "bool", "no", "",
      "Ask the peer for MPA markers in what it sends; those that a peer asks for are always "
      "sent." },
    { "mpa_revision", "int: 1..2", "2", "", "Highest MPA revision to offer and accept." },
    { "mpa_fallback", "bool", "yes", "",
      "Connect once more with revision 1 when the peer reads a request of revision 2 and then "
      "closes in an orderly way." },
    { "rtr", "enum: write|read|none", "write", "",
      "Ready-to-receive message that the active side offers (revision 2)." },
    { "connect_timeout", DAY_MS, "30000", "ms", "Bound of connection set-up of the active side." },
    { "request_timeout", DAY_MS, "5000", "ms",
      "How long an accepted TCP connection may take to send its MPA request, and then its "
      "ready-to-receive message." },
    { "close_timeout", DAY_MS, "10000", "ms",
      "How long an orderly close waits for the peer before the connection is reset." },
    { "backlog", "int: 1..65535", "128", "",
      "Undecided connection requests of one listener, from which on it accepts no more and the "
      "system's queue (net.core.somaxconn) holds the peers; its EVD's size where that is more." },
    { "half_open", "int: 1..65535", "4096", "",
      "Accepted TCP connections of one listener whose MPA request is incomplete; never more than a "
      "quarter of the limit on open files. Beyond, one that is older than 0.5 s gives way." },
    { "v6only", "enum: auto|yes|no", "auto", "",
      "Whether a listener on [::] refuses IPv4; auto: where this process has an IPv4 listener on "
      "that port." },
    { "share_port", "bool", "no", "",
      "Several processes of one user may listen on one address and port, each with this option "
      "(SO_REUSEPORT); the system spreads the peers over them." },
    { "netdev", "list: 1..15", "", "", "Only these network interfaces; empty: all of them." },
    { "tcp_user_timeout", "time: 0..86400000", "30000", "ms",
      "TCP_USER_TIMEOUT, which also ends connections to peers that live but do not read, and "
      "replaces keepalive_count; 0: not set." },
    /* The bounds of TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT in the kernel. */
    { "keepalive", "bool", "yes", "", "TCP keep-alive, so that a peer that vanished is noticed." },
    { "keepalive_idle", "time: 1..32767", "60", "s", "Silence before the first keep-alive probe." },
    { "keepalive_interval", "time: 1..32767", "10", "s", "Between keep-alive probes." },
    { "keepalive_count", "int: 1..127", "6", "",
      "Unanswered keep-alive probes that end the connection." },
    { "port_range", "string: 0..11", "10000-29999", "",
      "TCP ports, LOW-HIGH, for queue pairs of verbs programs that connect without rdma_cm; one "
      "port for 254 of them." },
    { "filter", "list: 1..480", "", "NAME[:ARGUMENT]",
      "Filters that this interface is opened through, the outermost first: fault:FILE fails calls "
      "and requests as a script says; ITAL_FILTER overrides." },
    { "pin", "enum: auto|none|lock|hold", "auto", "",
      "How the memory of regions is pinned: not at all, locked (no page fault), or held in place "
      "by io_uring; auto: hold, or lock where that is not possible, if the device uses DMA, else "
      "none." },
    { "pin_strict", "enum: auto|yes|no", "auto", "",
      "Refuse a region that cannot be pinned; no: it stays unpinned, with a warning; auto: yes if "
      "the device uses DMA." },
    { "local", "enum: no|auto|only", "auto", "",
      "Whether a connection between two processes of one host and one user leaves TCP, or RoCE's "
      "UDP, for memory that both share; only: a connection that cannot is refused." },
    { "pcap", "path", "", "",
      "Write the traffic of this interface to this pcapng file, %p for the process; an existing "
      "file is replaced." },
};
const size_t kal_interface_option_count = sizeof(kal_interface_options) /
                                          sizeof(*kal_interface_options);

static const struct ri_option *find(const struct ri_option *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(options[i].name, name))
            return &options[i];
    return NULL;
}

static const struct ri_option *find_ours(const char *name)
{
    return find(kal_interface_options, kal_interface_option_count, name);
}

bool kal_interface_option(const struct ri_option *own, size_t count, size_t index,
                          struct ri_option *option)
{
    const struct ri_option *theirs;

    if (index < kal_interface_option_count) {
        *option = kal_interface_options[index];
        theirs = find(own, count, option->name);
        if (theirs)
            option->value = theirs->value;
        return true;
    }
    index -= kal_interface_option_count;
    for (size_t i = 0; i < count; i++) {
        if (find_ours(own[i].name) || index--)
            continue;
        *option = own[i];
        return true;
    }
    return false;
}

bool kal_interface_option_find(const struct ri_option *own, size_t count, const char *name,
                               struct ri_option *option)
{
    for (size_t i = 0; kal_interface_option(own, count, i, option); i++)
        if (!strcmp(option->name, name))
            return true;
    return false;
}

static const char *text_of(const char *text)
{
    return text ? text : "";
}

/* kal's own tables have the same form, and may have entries that a provider's may not. */
static bool is_own_table(const struct ri_option *table)
{
    return table == kal_interface_options || table == kal_ital_options;
}

/* The options of the section itself, which are taken before the provider's. */
static bool is_of_the_section(const char *name)
{
    return find(kal_section_options, kal_section_option_count, name) != NULL;
}

/* Checks that the entry differs from all options that a section may have. False: why has the
 * conflict. */
static bool is_one_option(const struct ri_option *own, size_t index, char *why, size_t room)
{
    const char *name = own[index].name;

    if (find(own, index, name)) {
        snprintf(why, room, "option %s stands in its option table twice", name);
        return false;
    }
    if (!is_own_table(own) && is_of_the_section(name)) {
        snprintf(why, room,
                 "it declares option %s, by which a section chooses provider and device; it needs "
                 "another name",
                 name);
        return false;
    }
    return true;
}

/* Completes the entry: with its own type, or with that of the kal option whose default it changes.
 * False: it is neither; why has the reason. */
static bool whole_option(const struct ri_option *entry, size_t index, struct ri_option *option,
                         char *why, size_t room)
{
    const struct ri_option *ours = entry->name ? find_ours(entry->name) : NULL;
    bool only_default = !*text_of(entry->type);

    *option = *entry;
    if (!entry->name) {
        snprintf(why, room, "entry %zu of its option table has no name", index);
        return false;
    }
    if (only_default && !ours) {
        snprintf(why, room,
                 "its option %s has no type, and gives no other default to one of every interface",
                 entry->name);
        return false;
    }
    if (!only_default && ours && entry != ours) {
        snprintf(why, room,
                 "it declares option %s, which every interface has; it may only give it another "
                 "default (RI_OPTION_DEFAULT)",
                 entry->name);
        return false;
    }
    if (ours) {
        *option = *ours;
        option->value = entry->value;
    }
    return true;
}

bool kal_provider_options_check(const struct ri_option *own, size_t count, char *why, size_t room)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
    struct ri_option option;

    for (size_t i = 0; i < count; i++) {
        if (!whole_option(&own[i], i, &option, why, room) || !is_one_option(own, i, why, room))
            return false;
        if (kal_option_normal(&option, text_of(option.value), normal, allowed))
            continue;
        snprintf(why, room, "the default of its option %s is \"%s\": allowed is %s", option.name,
                 text_of(option.value), allowed);
        return false;
    }
    return true;
}
