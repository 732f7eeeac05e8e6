/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of roce/net: what other threads and children see of them. */
#include "tc.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net_helpers.h"
#include "providers/software/roce/net/capture.h"

static struct net *net;
static struct net_port *port;
static struct net_tx *tx;
static struct net_path path;
static int captures[2], has_forked[2];

/* Until there is a child; where a fork waits for this, a while. */
static void capture_for_long(void *context, bool outbound, const struct iovec *iov, int count)
{
    (void)context;
    (void)iov;
    (void)count;
    if (!outbound)
        return;
    ck_assert_int_eq(write(captures[1], "", 1), 1);
    tc_wait_fd(has_forked[0], POLLIN, tc_deadline(200));
}

static void setup(void)
{
    const struct net_options options = { .slots = 8, .captured = capture_for_long };
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    struct share_key key = net_test_key(1);
    struct net_why why;

    net_namespace();
    ck_assert(!pipe(captures) && !pipe(has_forked));
    ck_assert_int_eq(net_open(&options, &net, &why), RI_OK);
    ck_assert_int_eq(net_port_open(net, key.gid, 0, &port, &why), RI_OK);
    tx = net_tx_new(port, 1);
    ck_assert_ptr_nonnull(tx);
    memcpy(to.gid, key.gid, GID_LEN);
    ck_assert_int_eq(net_path_init(&path, port, &to), RI_OK);
}

static void teardown(void)
{
    net_tx_free(tx);
    net_port_close(port);
    net_close(net);
}

static void *send_one(void *arg)
{
    uint8_t header[BTH_LEN];
    struct net_stop stop;

    (void)arg;
    put_send(header, 77, 0, 0);
    ck_assert(net_tx_add(tx, &path, header, sizeof(header), NULL, 0, 0));
    ck_assert(net_tx_flush(tx, &stop));
    return NULL;
}

START_TEST(a_child_is_not_kept_by_what_another_thread_captures)
{
    pthread_t thread;
    int status;
    pid_t child;
    char octet;

    ck_assert_int_eq(pthread_create(&thread, NULL, send_one, NULL), 0);
    ck_assert_int_eq(read(captures[0], &octet, 1), 1);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        alarm(10);
        capture_hold(); /* as an RNIC of its own would */
        capture_release();
        raise(SIGKILL); /* at an exit ThreadSanitizer misses the thread that the parent has */
    }
    ck_assert_int_eq(write(has_forked[1], "", 1), 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("capture");
    TCase *forks = tc_case(suite, "forks", setup, teardown);

    tc_add_tests(forks, a_child_is_not_kept_by_what_another_thread_captures);
    return tc_main(suite);
}
