/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: listening sockets that the process was started with. */
#include "passed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As SD_LISTEN_FDS_START */
#define FIRST 3
/* More than any service has; a larger number is not from systemd */
#define MOST 4096

struct cm_passed {
    int fd;
    const char *name;
    _Atomic bool used, told;
};

/* Read once, and never freed. A forked child has none: LISTEN_PID is not its own. */
struct table {
    pid_t pid;
    size_t count;
    char *names;
    struct cm_passed sockets[];
};

static _Atomic(struct table *) tables;

/* 0: not set, or no number from 1 to most. */
static long number_of(const char *variable, long most)
{
    const char *text = secure_getenv(variable);
    char *end;
    long number;

    if (!text || *text < '0' || *text > '9')
        return 0;
    number = strtol(text, &end, 10);
    return *end || number > most ? 0 : number;
}

static struct table *read_table(void)
{
    const char *names = secure_getenv("LISTEN_FDNAMES");
    long count = number_of("LISTEN_PID", INT32_MAX) == getpid() ? number_of("LISTEN_FDS", MOST) : 0;
    struct table *table = calloc(1, sizeof(*table) + (size_t)count * sizeof(*table->sockets));
    char *rest;

    if (!table)
        return NULL;
    rest = table->names = strdup(names ? names : "");
    if (!rest) {
        free(table);
        return NULL;
    }
    table->pid = getpid();
    table->count = (size_t)count;
    for (size_t i = 0; i < table->count; i++) {
        const char *name = strsep(&rest, ":");

        table->sockets[i].fd = FIRST + (int)i;
        table->sockets[i].name = name ? name : "";
    }
    return table;
}

/* NULL: no memory. */
static struct table *current(void)
{
    struct table *table = atomic_load(&tables), *none = NULL;

    if (table)
        return table;
    table = read_table();
    if (!table || atomic_compare_exchange_strong(&tables, &none, table))
        return table;
    free(table->names);
    free(table);
    return none;
}

/* How a socket is chosen for an interface. */
enum choice { NOT_FOR_IT, BY_ADDRESS, BY_NAME };

static enum choice choice_of(const struct cm_passed *passed, const struct kal_rnic *rnic)
{
    static const char ours[] = "ital-";

    if (strncmp(passed->name, ours, sizeof(ours) - 1) != 0)
        return BY_ADDRESS;
    return rnic->interface && !strcmp(passed->name + sizeof(ours) - 1, rnic->interface)
               ? BY_NAME
               : NOT_FOR_IT;
}

/* Not of AF_UNSPEC. */
static in_port_t port_of(const union address *address)
{
    return address->any.sa_family == AF_INET6 ? address->six.sin6_port : address->four.sin_port;
}

static bool is_same(const union address *a, const union address *b)
{
    if (a->any.sa_family != b->any.sa_family || port_of(a) != port_of(b))
        return false;
    if (a->any.sa_family == AF_INET)
        return a->four.sin_addr.s_addr == b->four.sin_addr.s_addr;
    return !memcmp(&a->six.sin6_addr, &b->six.sin6_addr, sizeof(a->six.sin6_addr)) &&
           a->six.sin6_scope_id == b->six.sin6_scope_id;
}

/* The first free socket of that choice. exact: on this address, otherwise on its port. */
static struct cm_passed *find(struct table *table, const struct kal_rnic *rnic,
                              const struct cm_stream_ops *ops, const union address *address,
                              enum choice least, bool exact)
{
    union address bound;

    for (struct cm_passed *p = table->sockets; p < table->sockets + table->count; p++) {
        if (choice_of(p, rnic) < least || ops->unlike(p->fd, &bound))
            continue;
        if (!(exact ? is_same(&bound, address) : port_of(&bound) == port_of(address)))
            continue;
        if (!atomic_exchange(&p->used, true))
            return p;
    }
    return NULL;
}

static void report_passed(struct cm_passed *p, const struct kal_rnic *rnic,
                          const struct cm_stream_ops *ops, const union address *address)
{
    char wanted[120], has[120];
    union address bound;
    const char *why = ops->unlike(p->fd, &bound);

    kal_address_text(&address->any, wanted, sizeof(wanted));
    if (why) {
        kal_rnic_log(rnic, RI_LOG_WARNING,
                     "descriptor %d (%s) is not used for a listener on %s: %s; correct the socket "
                     "unit",
                     p->fd, p->name, wanted, why);
        return;
    }
    kal_address_text(&bound.any, has, sizeof(has));
    kal_rnic_log(rnic, RI_LOG_WARNING,
                 "descriptor %d (%s) is not used: it listens on %s, and the program wants %s; "
                 "correct the port in the socket unit or in the program",
                 p->fd, p->name, has, wanted);
}

static void tell(struct table *table, const struct kal_rnic *rnic, const struct cm_stream_ops *ops,
                 const union address *address)
{
    for (struct cm_passed *p = table->sockets; p < table->sockets + table->count; p++)
        if (choice_of(p, rnic) == BY_NAME && !atomic_load(&p->used) &&
            !atomic_exchange(&p->told, true))
            report_passed(p, rnic, ops, address);
}

/* NULL: none was passed. */
static struct table *table_for(const union address *wanted)
{
    struct table *table = port_of(wanted) ? current() : NULL;

    return table && table->count && table->pid == getpid() ? table : NULL;
}

struct cm_passed *cm_passed_take(const struct kal_rnic *rnic, const struct cm_stream_ops *ops,
                                 const struct sockaddr *address)
{
    struct cm_passed *passed;
    union address wanted;
    struct table *table;

    address_set(&wanted, address);
    table = table_for(&wanted);
    if (!table)
        return NULL;
    passed = find(table, rnic, ops, &wanted, BY_ADDRESS, true);
    if (!passed)
        passed = find(table, rnic, ops, &wanted, BY_NAME, false);
    if (!passed)
        tell(table, rnic, ops, &wanted);
    return passed;
}

void cm_passed_report_to_others(const struct kal_rnic *rnic, const struct cm_stream_ops *ops,
                                const struct sockaddr *address)
{
    union address wanted, bound;
    struct table *table;

    address_set(&wanted, address);
    table = table_for(&wanted);
    for (size_t i = 0; table && i < table->count; i++) {
        const struct cm_passed *p = &table->sockets[i];

        if (choice_of(p, rnic) == NOT_FOR_IT && !ops->unlike(p->fd, &bound) &&
            port_of(&bound) == port_of(&wanted))
            kal_rnic_log(rnic, RI_LOG_WARNING,
                         "descriptor %d (%s) has port %u and is for another interface; if it is "
                         "for this one, write FileDescriptorName=ital-%s in the socket unit",
                         p->fd, p->name, ntohs(port_of(&bound)),
                         rnic->interface ? rnic->interface : "INTERFACE");
    }
}

void cm_passed_release(struct cm_passed *passed)
{
    atomic_store(&passed->used, false);
}

int cm_passed_fd(const struct cm_passed *passed)
{
    return passed->fd;
}

const char *cm_passed_name(const struct cm_passed *passed)
{
    return passed->name;
}
