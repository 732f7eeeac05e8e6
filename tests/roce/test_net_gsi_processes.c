/* SPDX-License-Identifier: BSD-3-Clause */
/* QP 1 of several processes: each waits for the socket that all have, and commands. */
#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/be.h"
#include "base/clock.h"
#include "gsi_end.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/net/pass_message.h"
#include "providers/software/roce/net/process.h"
#include "providers/software/roce/net/table.h"

#define SERVICE    UINT64_C(0x0000000001061C06)
#define OTHER_USER 54321

/* ---- a process ------------------------------------------------------------------------------- */

enum order {
    OPEN,     /* on 127.0.0.number */
    REOPEN,   /* closes all, and OPEN */
    ADD_PORT, /* 127.0.0.number, too */
    LISTEN,   /* at SERVICE + number, of all addresses */
    AWAIT,    /* until `number` MADs have come */
    READ,     /* now, whatever epoll says */
    FLUSH,    /* what other processes had no room for */
    COUNT,
    FORK,      /* a child looks at what it has, closes all, opens anew and listens at
                  SERVICE + number; its status */
    END_CHILD, /* until it has ended */
    SPOIL,     /* writes random octets all over services and routes */
};

struct reply {
    enum ri_status status;
    uint32_t slot, count, unclaimed, passed;
    struct gsi_counters counters;
    char text[128];
};

struct command {
    enum order order;
    uint32_t number;
};

struct process {
    pid_t pid;
    int fd;
};

static struct gsi_end own;
static int epoll = -1, commands;
static uint32_t awaited;
static pid_t child;

static void watch(int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
        _exit(10);
}

static void watch_port(uint32_t i)
{
    watch(net_port_fd(own.port[i], NET_GSI), net_port_events(own.port[i], NET_GSI));
    watch(net_port_fd(own.port[i], NET_DATA), EPOLLIN);
}

static void set_text(struct reply *reply, const char *text)
{
    if (!text)
        return;
    reply->status = RI_ERR_DEVICE;
    snprintf(reply->text, sizeof(reply->text), "%s", text);
}

static void order_open(uint32_t address, struct reply *reply)
{
    set_text(reply, gsi_end_open(&own, address));
    if (reply->status != RI_OK)
        return;
    watch(net_share_fd(own.net), EPOLLIN);
    watch(gsi_fd(own.gsi), EPOLLIN);
    watch_port(0);
}

/* The set does not forget sockets that other processes hold. */
static void order_reopen(uint32_t address, struct reply *reply)
{
    close(epoll);
    gsi_end_close(&own);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(commands, EPOLLIN);
    order_open(address, reply);
}

static void order_add_port(uint32_t address, struct reply *reply)
{
    set_text(reply, gsi_end_add_port(&own, address));
    if (reply->status == RI_OK)
        watch_port(own.ports - 1);
}

static void order_listen(uint32_t number, struct reply *reply)
{
    struct gsi_service service = gsi_any(SERVICE + number);
    uint32_t binding;

    reply->status = gsi_end_listen(&own, &service, &binding);
}

static void sum_up(struct reply *reply)
{
    reply->slot = net_slot(own.net);
    reply->count = own.count;
    for (uint32_t i = 0; i < own.count && i < GSI_END_KEPT; i++) {
        reply->unclaimed += own.got[i].mad.unclaimed;
        reply->passed += own.got[i].mad.passed;
    }
    gsi_count(own.gsi, &reply->counters);
}

static const char *wrong_in_child(int mailbox)
{
    static const uint8_t group[GID_LEN] = { [10] = 0xFF, [11] = 0xFF, 239, 1, 2, 3 };
    struct gsi_service service = gsi_any(SERVICE + 99);
    uint32_t binding, loopback = 1;
    struct net_port *port;
    struct net_why why;

    if (fcntl(mailbox, F_GETFD) >= 0)
        return "the mailbox is open in the child";
    if (gsi_bind(own.gsi, &service, &binding, &why) != RI_ERR_DEVICE)
        return "the child binds by its parent's";
    memset(&why, 0, sizeof(why));
    if (net_multicast_open(own.net, group, &loopback, 1, &port, &why) != RI_ERR_DEVICE ||
        !strstr(why.text, "fork"))
        return "the child joins a group by its parent's, or is not told why not";
    return NULL;
}

static void be_child(int fd, uint32_t number, int mailbox)
{
    struct reply reply = { .status = RI_OK };

    set_text(&reply, wrong_in_child(mailbox));
    gsi_end_close(&own);
    if (reply.status == RI_OK)
        set_text(&reply, gsi_end_open(&own, 1));
    if (reply.status == RI_OK)
        order_listen(number, &reply);
    send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
    for (;;)
        pause();
}

/* The child asks its parent for the table meanwhile. */
static void await_child(int fd, struct reply *reply)
{
    struct pollfd wait[2] = { { fd, POLLIN, 0 }, { net_share_fd(own.net), POLLIN, 0 } };

    do {
        if (poll(wait, 2, -1) > 0 && wait[1].revents)
            net_serve(own.net);
    } while (!wait[0].revents);
    if (recv(fd, reply, sizeof(*reply), 0) != sizeof(*reply))
        _exit(4);
}

static void order_fork(uint32_t number, struct reply *reply)
{
    int pair[2], mailbox = gsi_fd(own.gsi);

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        _exit(3);
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_child(pair[1], number, mailbox);
    }
    close(pair[1]);
    await_child(pair[0], reply);
    close(pair[0]);
}

static void order_spoil(uint32_t seed)
{
    struct table *table = slots_table(own.net->process->slots);
    struct tc_rng rng = tc_rng(seed);

    for (uint32_t i = 0; i < TABLE_SERVICES; i++) {
        tc_fill(&rng, &table->service[i], sizeof(table->service[i]));
        atomic_store(&table->service[i].id, SERVICE + i % 4);
        atomic_fetch_or(&table->service[i].owner, TABLE_OWNED);
        if (i & 1) /* a generation that may be */
            atomic_fetch_and(&table->service[i].owner, TABLE_OWNED | 0x3FFu);
    }
    for (uint32_t i = 0; i < TABLE_ROUTES; i++)
        atomic_store(&table->route[i], tc_rand(&rng));
}

static void look(int fd)
{
    if (fd == net_share_fd(own.net))
        net_serve(own.net);
    gsi_end_read(&own);
    gsi_end_serve(&own);
    gsi_end_take(&own);
}

/* False: later. */
static bool obey(const struct command *command, struct reply *reply)
{
    switch (command->order) {
    case OPEN: order_open(command->number, reply); break;
    case REOPEN: order_reopen(command->number, reply); break;
    case ADD_PORT: order_add_port(command->number, reply); break;
    case LISTEN: order_listen(command->number, reply); break;
    case AWAIT: awaited = command->number; return false;
    case READ: look(-1); break;
    case FLUSH: gsi_flush(own.gsi); break;
    case COUNT: break;
    case FORK: order_fork(command->number, reply); break;
    case END_CHILD:
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        break;
    case SPOIL: order_spoil(command->number); break;
    }
    return true;
}

static void answer(int fd, struct reply *reply)
{
    if (own.gsi)
        sum_up(reply);
    if (send(fd, reply, sizeof(*reply), MSG_NOSIGNAL) < 0)
        _exit(0);
}

static void take_command(int fd)
{
    struct reply reply = { .status = RI_OK };
    struct command command;

    if (recv(fd, &command, sizeof(command), 0) != sizeof(command))
        _exit(0); /* the test has ended */
    if (obey(&command, &reply))
        answer(fd, &reply);
}

static void run(int fd)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    commands = fd;
    watch(fd, EPOLLIN);
    for (;;) {
        struct reply reply = { .status = RI_OK };
        struct epoll_event event;

        if (awaited && own.count >= awaited) {
            awaited = 0;
            answer(fd, &reply);
        }
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        if (event.data.fd == fd)
            take_command(fd);
        else
            look(event.data.fd);
    }
}

/* ---- to command ------------------------------------------------------------------------------ */

static struct process process[4];

static void start(uint32_t n)
{
    net_namespace();
    for (uint32_t i = 0; i < n; i++) {
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        process[i].pid = fork();
        ck_assert_int_ge(process[i].pid, 0);
        if (!process[i].pid) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(pair[0]);
            run(pair[1]);
        }
        close(pair[1]);
        process[i].fd = pair[0];
    }
}

static void order(uint32_t i, enum order what, uint32_t number)
{
    const struct command command = { what, number };

    ck_assert_int_eq(send(process[i].fd, &command, sizeof(command), MSG_NOSIGNAL), sizeof(command));
}

static struct reply reply_of(uint32_t i)
{
    struct reply reply;

    ck_assert_int_eq(tc_wait_fd(process[i].fd, POLLIN, tc_deadline(10000)) & POLLIN, POLLIN);
    ck_assert_int_eq(recv(process[i].fd, &reply, sizeof(reply), 0), sizeof(reply));
    return reply;
}

static struct reply tell(uint32_t i, enum order what, uint32_t number)
{
    order(i, what, number);
    return reply_of(i);
}

static void must(uint32_t i, enum order what, uint32_t number)
{
    struct reply reply = tell(i, what, number);

    ck_assert_msg(reply.status == RI_OK, "%d %s", reply.status, reply.text);
}

static void start_open(uint32_t n)
{
    start(n);
    for (uint32_t i = 0; i < n; i++)
        must(i, OPEN, 1);
}

static void kill_process(uint32_t i)
{
    ck_assert_int_eq(kill(process[i].pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(process[i].pid, NULL, 0), process[i].pid);
    close(process[i].fd);
}

static void stop(uint32_t i)
{
    int status;

    ck_assert_int_eq(kill(process[i].pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(process[i].pid, &status, WUNTRACED), process[i].pid);
    ck_assert(WIFSTOPPED(status));
}

/* MADs of a stranger, each of another communication ID. */
static void send_mads(uint32_t address, uint16_t attribute, uint32_t first_id, uint32_t remote_id,
                      uint64_t service, uint32_t count)
{
    struct share_key key = net_test_key(address);
    uint8_t octets[TEST_PACKET_MAX];
    int fd = plain_socket(&key, 5000);
    struct icrc_path path;

    icrc_path_init(&path, key.gid, key.gid, 5000);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = put_mad(octets, attribute, first_id + i, remote_id);

        if (service)
            be_put64(octets + BTH_LEN + BTH_DETH_LEN + MAD_HEADER_LEN + 8, service);
        icrc_put(octets + len - 4, icrc_of_packet(&path, ICRC_DF, octets, len));
        plain_send(fd, &key, octets, len);
    }
    close(fd);
}

static void send_requests(uint32_t address, uint32_t service, uint32_t first_id, uint32_t count)
{
    send_mads(address, CM_REQ, first_id, 0, SERVICE + service, count);
}

/* ---- who wakes ------------------------------------------------------------------------------- */

/* A process that was woken has run, and sleeps again. */
static void await_sleep(uint32_t i)
{
    char path[64], line[512];
    uint64_t limit = tc_deadline(10000);

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process[i].pid);
    for (;;) {
        FILE *file = fopen(path, "r");
        const char *state;

        ck_assert_ptr_nonnull(file);
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
        fclose(file);
        state = strrchr(line, ')');
        ck_assert_ptr_nonnull(state);
        if (state[2] == 'S')
            return;
        ck_assert_uint_lt(clock_now(), limit);
        sched_yield();
    }
}

/* How often it has gone to sleep. */
static unsigned long sleeps(uint32_t i)
{
    char path[64], line[256];
    unsigned long count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)process[i].pid);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
            break;
    fclose(file);
    return count;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Each request comes once, to the process that listens, whichever is awake. */
START_TEST(each_request_comes_to_its_process_once)
{
    const uint32_t n = 3, each = 20;
    uint32_t unclaimed = 0;

    start_open(n);
    for (uint32_t i = 0; i < n; i++)
        must(i, LISTEN, i);
    for (uint32_t i = 0; i < n; i++)
        order(i, AWAIT, each);
    for (uint32_t k = 0; k < each; k += 5)
        for (uint32_t i = 0; i < n; i++)
            send_requests(1, i, 0x1000 * (i + 1) + k, 5);
    for (uint32_t i = 0; i < n; i++) {
        struct reply reply = reply_of(i);

        ck_assert_uint_eq(reply.count, each);
        unclaimed += reply.unclaimed;
    }
    ck_assert_uint_eq(unclaimed, 0);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(tell(i, COUNT, 0).count, each);
}
END_TEST

START_TEST(a_service_is_taken_by_one_process_and_free_at_its_death)
{
    start_open(2);
    must(0, LISTEN, 0);
    ck_assert_int_eq(tell(1, LISTEN, 0).status, RI_ERR_ADDRESS_IN_USE);
    kill_process(0);
    /* Before anybody has it, it is nobody's */
    order(1, AWAIT, 1);
    send_requests(1, 0, 0x1000, 1);
    ck_assert_uint_eq(reply_of(1).unclaimed, 1);
    must(1, LISTEN, 0);
    order(1, AWAIT, 2);
    send_requests(1, 0, 0x1001, 1);
    ck_assert_uint_eq(reply_of(1).unclaimed, 1);
}
END_TEST

/* What a dead process has left is not its successor's in the slot. */
START_TEST(a_slot_begins_without_services)
{
    uint32_t slot;

    start_open(3);
    must(0, LISTEN, 0);
    order(0, AWAIT, 1);
    send_requests(1, 0, 0x1000, 1);
    slot = reply_of(0).slot;
    kill_process(0);
    while (tell(2, COUNT, 0).slot != slot)
        must(2, REOPEN, 1);
    /* Its service, and where the request went */
    must(1, LISTEN, 0);
    order(1, AWAIT, 1);
    send_requests(1, 0, 0x1000, 1);
    ck_assert_uint_eq(reply_of(1).unclaimed, 0);
}
END_TEST

/* Who lives answers for who has been killed, and passes on what is for others. */
START_TEST(M035_a_DREQ_for_a_process_that_was_killed_comes_to_one_that_lives)
{
    uint32_t dead, other;

    start_open(3);
    dead = tell(0, COUNT, 0).slot;
    other = tell(2, COUNT, 0).slot;
    kill_process(0);
    stop(2);
    order(1, AWAIT, 1);
    send_mads(1, CM_DREQ, 0x1000, 0x5500 + dead, 0, 1);
    ck_assert_uint_eq(reply_of(1).unclaimed, 1);
    send_mads(1, CM_DREQ, 0x1001, 0x5500 + other, 0, 1);
    must(1, READ, 0);
    kill(process[2].pid, SIGCONT);
    ck_assert_uint_eq(tell(2, AWAIT, 1).passed, 1);
    ck_assert_uint_eq(tell(1, COUNT, 0).count, 1);
}
END_TEST

/* Not all that hold the socket. */
START_TEST(one_process_wakes_for_a_request)
{
    const uint32_t n = 4, rounds = 20;
    unsigned long before = 0, after = 0;

    start_open(n);
    must(0, LISTEN, 0);
    for (uint32_t i = 0; i < n; i++)
        await_sleep(i);
    for (uint32_t i = 1; i < n; i++)
        before += sleeps(i);
    for (uint32_t k = 0; k < rounds; k++) {
        send_requests(1, 0, 0x1000 + k, 1);
        for (uint32_t i = 0; i < n; i++)
            await_sleep(i);
    }
    for (uint32_t i = 1; i < n; i++)
        after += sleeps(i);
    ck_assert_uint_le(after - before, rounds);
    ck_assert_uint_eq(tell(0, COUNT, 0).count, rounds);
}
END_TEST

/* One that is stopped while it waits, or does not wait, takes no wake-up away from the others. */
START_TEST(a_stopped_process_takes_no_wake_up)
{
    start_open(3);
    must(2, LISTEN, 0);
    for (uint32_t k = 0; k < 2; k++) {
        await_sleep(k);
        stop(k);
        order(2, AWAIT, k + 1);
        send_requests(1, 0, 0x1000 + k, 1);
        reply_of(2);
    }
}
END_TEST

/* What is passed on to a process that does not read is bounded; others get theirs. */
START_TEST(a_stopped_process_costs_its_own_requests_only)
{
    struct reply reply;

    start_open(3);
    for (uint32_t i = 0; i < 3; i++)
        must(i, LISTEN, i);
    stop(0);
    for (uint32_t i = 0; i < 40; i++) {
        /* So few that the socket's buffer takes them */
        send_requests(1, 0, 0x1000 + 16 * i, 16);
        order(1, AWAIT, i + 1);
        send_requests(1, 1, 0x8000 + i, 1);
        reply_of(1);
    }
    order(2, AWAIT, 1);
    send_requests(1, 2, 0x9000, 1);
    reply_of(2);
    kill(process[0].pid, SIGCONT);
    reply = tell(0, AWAIT, 1);
    ck_assert_uint_le(reply.count, 256);
    ck_assert_uint_eq(reply.count, reply.counters.passed_in);
    /* It is passed on again when it reads again */
    stop(1);
    stop(2);
    order(0, AWAIT, reply.count + 1);
    send_requests(1, 0, 0xA000, 1);
    reply_of(0);
}
END_TEST

START_TEST(the_queue_of_a_process_is_bounded)
{
    struct gsi_counters counters;
    uint32_t passed;

    start_open(2);
    must(0, LISTEN, 0);
    stop(0);
    for (uint32_t i = 0; i < 40; i++) {
        /* So few that the socket's buffer takes them */
        send_requests(1, 0, 0x1000 + 16 * i, 16);
        must(1, READ, 0);
    }
    /* Those that wait for room are given up */
    for (uint32_t i = 0; i < 50; i++)
        must(1, FLUSH, 0);
    counters = tell(1, COUNT, 0).counters;
    passed = (uint32_t)counters.passed_on;
    ck_assert_uint_ge(passed, 1);
    ck_assert_uint_le(passed, 256);
    ck_assert_uint_eq(counters.not_passed + passed, 640);
    kill(process[0].pid, SIGCONT);
    ck_assert_uint_eq(tell(0, AWAIT, passed).counters.passed_in, passed);
}
END_TEST

/* More than a mailbox takes, at once: nothing is lost as long as the process reads. */
START_TEST(a_burst_is_passed_on_to_who_reads)
{
    const uint32_t burst = 400;
    struct reply reply;

    start_open(2);
    must(0, LISTEN, 0);
    stop(0);
    for (uint32_t i = 0; i < burst; i += 16) {
        send_requests(1, 0, 0x1000 + i, 16);
        must(1, READ, 0);
    }
    kill(process[0].pid, SIGCONT);
    for (uint32_t i = 0; i < 20; i++) {
        must(0, READ, 0);
        must(1, FLUSH, 0);
    }
    reply = tell(0, AWAIT, burst);
    ck_assert_uint_eq(reply.counters.passed_in, burst);
    ck_assert_uint_eq(tell(1, COUNT, 0).counters.not_passed, 0);
}
END_TEST

/* ---- forged messages ------------------------------------------------------------------------- */

/* The name of the one mailbox that there is, from the kernel's list. */
static socklen_t find_mailbox(struct sockaddr_un *address)
{
    static const char prefix[] = "@ital-roce-gsi-";
    FILE *list = fopen("/proc/self/net/unix", "r");
    socklen_t size = 0;
    char line[512];

    ck_assert_ptr_nonnull(list);
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    while (fgets(line, sizeof(line), list)) {
        char *name = strstr(line, prefix);

        if (!name)
            continue;
        name[strcspn(name, "\n")] = 0;
        memcpy(address->sun_path + 1, name + 1, strlen(name + 1));
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    }
    fclose(list);
    ck_assert_uint_gt(size, 0);
    return size;
}

/* One REQ as if another process had read it. */
static size_t put_passed(uint8_t out[static PASS_MAX])
{
    uint8_t octets[MAD_LEN];
    struct gsi_mad mad = { .octets = octets, .attribute_id = CM_REQ };

    gsi_put_mad(octets, CM_REQ, 0x1234, 0, SERVICE);
    memcpy(mad.source, net_test_key(1).gid, GID_LEN);
    memcpy(mad.destination, net_test_key(1).gid, GID_LEN);
    pass_put_head(out, 1);
    pass_put(out + PASS_HEAD_LEN, &mad);
    return PASS_LEN(1);
}

static void send_as(uid_t user, const struct sockaddr_un *to, socklen_t size, const uint8_t *octets,
                    size_t len)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (user && setuid(user))
            _exit(2);
        _exit(sendto(fd, octets, len, 0, (const struct sockaddr *)to, size) == (ssize_t)len ? 0
                                                                                            : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

START_TEST(another_user_passes_nothing_on)
{
    struct sockaddr_un address;
    uint8_t octets[PASS_MAX];
    struct reply reply;
    socklen_t size;

    if (geteuid())
        tc_skip("needs root, for another user");
    start_open(1);
    size = find_mailbox(&address);
    send_as(OTHER_USER, &address, size, octets, put_passed(octets));
    order(0, AWAIT, 1);
    send_as(0, &address, size, octets, put_passed(octets));
    reply = reply_of(0);
    ck_assert_uint_eq(reply.count, 1);
    ck_assert_uint_eq(reply.counters.forged, 1);
    ck_assert_uint_eq(reply.passed, 1);
}
END_TEST

/* Of the same user, and not understood: lengths, each octet of the head; an answer, which is never
 * passed on. */
START_TEST(what_is_not_understood_is_dropped)
{
    struct sockaddr_un address;
    uint8_t octets[PASS_MAX + 1], right[PASS_MAX];
    struct reply reply;
    socklen_t size;
    size_t len = put_passed(right);
    uint64_t forged = 0;
    int fd;

    start_open(1);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size = find_mailbox(&address);
    for (size_t i = 0; i < 10 + 4 + 3; i++) {
        size_t octets_len = len;

        memset(octets, 0, sizeof(octets));
        memcpy(octets, right, len);
        if (i < 10)
            octets[i] ^= 0x21;
        else if (i < 14)
            octets_len = (const size_t[]){ 0, PASS_HEAD_LEN, len - 1, sizeof(octets) }[i - 10];
        else if (i == 14)
            octets[PASS_HEAD_LEN + 48] = 9; /* no MAD */
        else if (i == 15)
            be_put16(octets + PASS_HEAD_LEN + 48 + 16, CM_REP);
        else
            be_put16(octets + PASS_HEAD_LEN + 48 + 16, CM_REQ - 1);
        ck_assert_int_eq(sendto(fd, octets, octets_len, 0, (struct sockaddr *)&address, size),
                         (ssize_t)octets_len);
        forged++;
        order(0, AWAIT, (uint32_t)i + 1);
        ck_assert_int_eq(sendto(fd, right, len, 0, (struct sockaddr *)&address, size),
                         (ssize_t)len);
        reply = reply_of(0);
        ck_assert_uint_eq(reply.count, i + 1);
        ck_assert_uint_eq(reply.counters.forged, forged);
    }
    close(fd);
}
END_TEST

/* A process of the same user writes anything into what all share. */
START_TEST(a_spoiled_table_harms_nobody)
{
    start_open(2);
    for (uint32_t i = 0; i < 50; i++) {
        tell(0, SPOIL, i);
        send_requests(1, i % 4, 0x1000 * i, 8);
        for (uint32_t k = 0; k < 2; k++)
            must(k, READ, 0);
        tell(1, LISTEN, i % 4);
    }
}
END_TEST

/* ---- fork, addresses ------------------------------------------------------------------------- */

START_TEST(a_forked_child_leaves_its_parents_services_alone)
{
    struct reply reply;

    start_open(2);
    must(0, LISTEN, 0);
    reply = tell(0, FORK, 1);
    ck_assert_msg(reply.status == RI_OK, "%s", reply.text);
    ck_assert_int_eq(tell(1, LISTEN, 0).status, RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(tell(1, LISTEN, 1).status, RI_ERR_ADDRESS_IN_USE);
    must(0, END_CHILD, 0);
    must(1, LISTEN, 1);
    order(0, AWAIT, 1);
    send_requests(1, 0, 0x1000, 1);
    ck_assert_uint_eq(reply_of(0).unclaimed, 0);
}
END_TEST

START_TEST(a_request_to_an_address_that_another_process_has_open)
{
    struct reply reply;

    start_open(2);
    must(1, ADD_PORT, 2);
    must(0, LISTEN, 0);
    order(0, AWAIT, 1);
    send_requests(2, 0, 0x1000, 1);
    reply = reply_of(0);
    ck_assert_uint_eq(reply.passed, 1);
    must(0, ADD_PORT, 2);
    kill_process(1);
    order(0, AWAIT, 2);
    send_requests(2, 0, 0x1001, 1);
    reply = reply_of(0);
    ck_assert_uint_eq(reply.passed, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gsi processes");
    TCase *own_case = tc_case(suite, "processes", NULL, NULL);
    TCase *hostile = tc_case(suite, "hostile", NULL, NULL);

    tc_add_tests(
        own_case, each_request_comes_to_its_process_once,
        a_service_is_taken_by_one_process_and_free_at_its_death, a_slot_begins_without_services,
        M035_a_DREQ_for_a_process_that_was_killed_comes_to_one_that_lives,
        one_process_wakes_for_a_request, a_stopped_process_takes_no_wake_up,
        a_stopped_process_costs_its_own_requests_only, the_queue_of_a_process_is_bounded,
        a_burst_is_passed_on_to_who_reads, a_forked_child_leaves_its_parents_services_alone,
        a_request_to_an_address_that_another_process_has_open);
    tc_add_tests(hostile, another_user_passes_nothing_on, what_is_not_understood_is_dropped,
                 a_spoiled_table_harms_nobody);
    return tc_main(suite);
}
