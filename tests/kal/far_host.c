/* SPDX-License-Identifier: BSD-3-Clause */
/* A host on the far end of a socket; see far_host.h. */
#include "far_host.h"
#include "tc.h"

#include <net/if.h>
#include <sys/socket.h>

enum far_kind {
    FAR_HELLO,
    FAR_LEASE,
    FAR_GRANT,
    FAR_RECALL,
    FAR_RETURN,
    FAR_POLICY,
    FAR_SHARE,
    FAR_UNSHARE,
    FAR_LINKS,
    FAR_ANSWER
};

/* Plain data and, with FAR_LINKS, one descriptor. */
struct message {
    enum far_kind kind;
    enum kal_account_kind account;
    uint64_t amount, length;
    char text[128];
};

struct client {
    struct kal_host *host;
    int fd;
    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    unsigned answers;
    uint64_t answer;
    int descriptor;
    /* A request without waiting is pending */
    bool asked[KAL_ACCOUNT_KINDS];
};

struct kal_links {
    int fd;
    struct {
        char netdev[IFNAMSIZ];
        bool running;
    } known[4];
};

struct far_daemon far;
_Thread_local bool far_in_lane;

static int daemon_fd = -1, link_fd = -1;
static pthread_t daemon_thread;

/* ---- messages ---- */

/* False: the other end is closed, or with MSG_DONTWAIT its queue is full. */
static bool send_message(int fd, const struct message *message, int descriptor, int flags)
{
    struct iovec part = { (void *)message, sizeof(*message) };
    union {
        char octets[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { { 0 } };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t sent;

    if (descriptor >= 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof(control);
        control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), &descriptor, sizeof(descriptor));
    }
    sent = sendmsg(fd, &header, MSG_NOSIGNAL | flags);
    ck_assert(sent == sizeof(*message) || errno == EPIPE || errno == EAGAIN);
    return sent == sizeof(*message);
}

/* False: the other end is closed. */
static bool receive_message(int fd, struct message *message, int *descriptor)
{
    struct iovec part = { message, sizeof(*message) };
    union {
        char octets[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr header = { .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control) };
    ssize_t got;

    do
        got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *descriptor = -1;
    if (got == (ssize_t)sizeof(*message) && CMSG_FIRSTHDR(&header))
        memcpy(descriptor, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(*descriptor));
    return got == (ssize_t)sizeof(*message);
}

/* ---- the daemon ---- */

/* `waits`: a thread waits for this answer. */
static void grant(enum kal_account_kind kind, uint64_t asked, bool waits)
{
    uint64_t room = far.limit[kind] - far.leased[kind],
             amount = asked > FAR_BATCH ? asked : FAR_BATCH;
    struct message message = { .kind = FAR_GRANT, .account = kind, .length = waits };

    if (amount > room)
        amount = asked <= room ? room : 0;
    far.leased[kind] += amount;
    message.amount = amount;
    send_message(daemon_fd, &message, -1, 0);
}

static void answer(uint64_t value, int descriptor)
{
    struct message message = { .kind = FAR_ANSWER, .amount = value };

    send_message(daemon_fd, &message, descriptor, 0);
}

static void open_links(void)
{
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    link_fd = ends[0];
    answer(1, ends[1]);
    close(ends[1]);
}

static void serve(const struct message *message)
{
    switch (message->kind) {
    case FAR_HELLO:
        for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
            grant((enum kal_account_kind)kind, 0, false);
        answer(1, -1);
        break;
    case FAR_LEASE:
        far.questions[message->account]++;
        grant(message->account, message->amount, message->length);
        break;
    case FAR_RETURN: far.leased[message->account] -= message->amount; break;
    case FAR_SHARE:
        far.shared += message->amount != far.taken_id || message->length == far.taken_length;
        answer(message->amount != far.taken_id || message->length == far.taken_length, -1);
        break;
    case FAR_UNSHARE: far.shared--; break;
    case FAR_LINKS: open_links(); break;
    default: far.seen++; break; /* FAR_ANSWER: the client has received it */
    }
    pthread_cond_broadcast(&far.changed);
}

static void *run_daemon(void *arg)
{
    struct message message;
    int none;

    (void)arg;
    while (receive_message(daemon_fd, &message, &none)) {
        pthread_mutex_lock(&far.lock);
        while (far.silent)
            pthread_cond_wait(&far.changed, &far.lock);
        serve(&message);
        pthread_mutex_unlock(&far.lock);
    }
    return NULL;
}

void far_reset(void)
{
    far = (struct far_daemon){ .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER };
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        far.limit[kind] = kind == KAL_ACCOUNT_PINNED ? 1 << 20 : 100;
    far_in_lane = false;
}

void far_silence(bool silent)
{
    pthread_mutex_lock(&far.lock);
    far.silent = silent;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.lock);
}

static void push(struct message message)
{
    unsigned before;

    pthread_mutex_lock(&far.lock);
    before = far.seen;
    send_message(daemon_fd, &message, -1, 0);
    while (far.seen == before)
        pthread_cond_wait(&far.changed, &far.lock);
    pthread_mutex_unlock(&far.lock);
}

void far_push_policy(const char *rule)
{
    struct message message = { .kind = FAR_POLICY };

    strncpy(message.text, rule, sizeof(message.text) - 1);
    push(message);
}

void far_recall(enum kal_account_kind kind, uint64_t amount)
{
    push((struct message){ .kind = FAR_RECALL, .account = kind, .amount = amount });
}

void far_await_leased(enum kal_account_kind kind, uint64_t leased)
{
    pthread_mutex_lock(&far.lock);
    while (far.leased[kind] != leased)
        pthread_cond_wait(&far.changed, &far.lock);
    pthread_mutex_unlock(&far.lock);
}

void far_set_link(const char *netdev, bool running)
{
    struct message message = { .kind = FAR_LINKS, .amount = running };

    strncpy(message.text, netdev, sizeof(message.text) - 1);
    send_message(link_fd, &message, -1, 0);
}

/* ---- the client's end ---- */

static void *run_reader(void *arg)
{
    struct client *client = arg;
    struct message message;
    int descriptor;

    while (receive_message(client->fd, &message, &descriptor)) {
        struct kal_host_rule rule = { "rule1", message.text, "the daemon", 0 };

        pthread_mutex_lock(&client->lock);
        switch (message.kind) {
        case FAR_GRANT:
            kal_host_grant(client->host, message.account, message.amount);
            if (message.length) {
                client->answers++;
                client->answer = message.amount;
            } else {
                client->asked[message.account] = false;
            }
            break;
        case FAR_RECALL:
            message.amount = kal_host_return(client->host, message.account, message.amount);
            message.kind = FAR_RETURN;
            send_message(client->fd, &message, -1, 0);
            message.kind = FAR_ANSWER;
            send_message(client->fd, &message, -1, 0);
            break;
        case FAR_POLICY:
            ck_assert_int_eq(kal_host_push_policy(client->host, &rule, *message.text ? 1 : 0),
                             RI_OK);
            message.kind = FAR_ANSWER;
            send_message(client->fd, &message, -1, 0);
            break;
        default:
            client->answers++;
            client->answer = message.amount;
            client->descriptor = descriptor;
            break;
        }
        pthread_cond_broadcast(&client->answered);
        pthread_mutex_unlock(&client->lock);
    }
    return NULL;
}

/* One request at a time: threads of a test take turns. */
static uint64_t ask(struct client *client, const struct message *message)
{
    uint64_t value;
    unsigned before;

    ck_assert_msg(!far_in_lane, "a lane waits for the host");
    pthread_mutex_lock(&client->lock);
    before = client->answers;
    send_message(client->fd, message, -1, 0);
    while (client->answers == before)
        pthread_cond_wait(&client->answered, &client->lock);
    value = client->answer;
    pthread_mutex_unlock(&client->lock);
    return value;
}

static enum ri_status far_open(struct kal_host *host, const struct kal_config *config, void **state)
{
    struct client *client = calloc(1, sizeof(*client));
    int ends[2];

    (void)config;
    ck_assert_ptr_nonnull(client);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    client->fd = ends[0];
    daemon_fd = ends[1];
    client->host = host;
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->answered, NULL);
    ck_assert_int_eq(pthread_create(&daemon_thread, NULL, run_daemon, NULL), 0);
    ck_assert_int_eq(pthread_create(&client->reader, NULL, run_reader, client), 0);
    pthread_mutex_lock(&client->lock);
    send_message(client->fd, &(struct message){ .kind = FAR_HELLO }, -1, 0);
    while (!client->answers)
        pthread_cond_wait(&client->answered, &client->lock);
    pthread_mutex_unlock(&client->lock);
    *state = client;
    return RI_OK;
}

static void far_close(void *state)
{
    struct client *client = state;

    shutdown(client->fd, SHUT_RDWR);
    pthread_join(client->reader, NULL);
    pthread_join(daemon_thread, NULL);
    close(client->fd);
    close(daemon_fd);
    if (link_fd >= 0)
        close(link_fd);
    daemon_fd = link_fd = -1;
    pthread_cond_destroy(&client->answered);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

static void far_fork_child(void *state)
{
    struct client *client = state;

    close(client->fd);
}

static bool far_lease(void *state, enum kal_account_kind kind, uint64_t amount, bool wait)
{
    struct client *client = state;
    struct message message = {
        .kind = FAR_LEASE, .account = kind, .amount = amount, .length = wait
    };

    if (wait)
        return ask(client, &message) > 0;
    pthread_mutex_lock(&client->lock);
    if (!client->asked[kind])
        client->asked[kind] = send_message(client->fd, &message, -1, MSG_DONTWAIT);
    pthread_mutex_unlock(&client->lock);
    return false;
}

static uint64_t far_quota(void *state, enum kal_account_kind kind)
{
    (void)state;
    return far.limit[kind];
}

static bool far_raise_memlock(void *state, uint64_t octets)
{
    (void)state;
    (void)octets;
    return false;
}

static int far_listen(void *state, const struct sockaddr *address, bool v6only, bool share_port,
                      int *fd)
{
    (void)state;
    (void)address;
    (void)v6only;
    (void)share_port;
    (void)fd;
    return EACCES;
}

static bool far_share(void *state, uint32_t id, uint64_t length)
{
    return ask(state, &(struct message){ .kind = FAR_SHARE, .amount = id, .length = length });
}

static void far_unshare(void *state, uint32_t id)
{
    struct client *client = state;

    send_message(client->fd, &(struct message){ .kind = FAR_UNSHARE, .amount = id }, -1, 0);
}

static enum ri_status far_links_open(void *state, struct kal_links **links, int *fd)
{
    struct client *client = state;
    struct kal_links *made = calloc(1, sizeof(*made));

    ck_assert_ptr_nonnull(made);
    ck_assert_uint_eq(ask(client, &(struct message){ .kind = FAR_LINKS }), 1);
    made->fd = *fd = client->descriptor;
    *links = made;
    return RI_OK;
}

static bool far_links_changed(struct kal_links *links)
{
    struct message message;
    bool any = false;

    while (recv(links->fd, &message, sizeof(message), MSG_DONTWAIT) == sizeof(message)) {
        for (size_t i = 0; i < 4; i++) {
            if (*links->known[i].netdev && strcmp(links->known[i].netdev, message.text))
                continue;
            memcpy(links->known[i].netdev, message.text, IFNAMSIZ);
            links->known[i].running = message.amount;
            break;
        }
        any = true;
    }
    return any;
}

static bool far_link_running(struct kal_links *links, const char *netdev)
{
    for (size_t i = 0; i < 4; i++)
        if (!strcmp(links->known[i].netdev, netdev))
            return links->known[i].running;
    return true;
}

static bool far_links_addresses(struct kal_links *links, const char *netdevs, uint64_t *sum)
{
    (void)links;
    (void)netdevs;
    *sum = 0; /* this host never tells of them */
    return true;
}

static void far_links_close(struct kal_links *links)
{
    close(links->fd);
    free(links);
}

const struct kal_host_ops far_host = {
    .open = far_open,
    .close = far_close,
    .fork_child = far_fork_child,
    .lease = far_lease,
    .quota = far_quota,
    .raise_memlock = far_raise_memlock,
    .listen = far_listen,
    .share = far_share,
    .unshare = far_unshare,
    .links_open = far_links_open,
    .links_changed = far_links_changed,
    .link_running = far_link_running,
    .links_addresses = far_links_addresses,
    .links_close = far_links_close,
};
