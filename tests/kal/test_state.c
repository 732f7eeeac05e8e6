/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that a process shows on its socket: what it says, how long, clients that harm. */
#include "kal_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "formats/monitor.h"
#include "kal/host/host.h"
#include "kal/state/request.h"

#define ASK "{\"version\":1,\"get\":\"all\"}\n"

static int context;
static char name[MONITOR_NAME_MAX];

static void setup(void)
{
    char path[MONITOR_PATH_ROOM];
    int folder;

    fixture_setup();
    fixture_module("vp_test", NULL);
    setenv("ITAL_MONITOR", "yes", 1);
    setenv("XDG_RUNTIME_DIR", fixture_folder(), 1);
    setenv("ITAL_TEST_VP", "", 1);
    folder = monitor_folder(0, true, path);
    if (folder < 0)
        tc_skip("%s cannot be made here: %s", path, strerror(errno));
    close(folder);
    monitor_name(getpid(), name);
}

static struct kal_rnic *open_one(void)
{
    struct kal_rnic *rnic;

    ck_assert_int_eq(kal_rnic_open(kal, "test", &context, &rnic), RI_OK);
    return rnic;
}

static void close_one(struct kal_rnic *rnic)
{
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}

/* -1: nobody serves; ENOENT: and no socket is there. */
static int connect_now(void)
{
    char path[MONITOR_PATH_ROOM];
    int folder = monitor_folder(0, false, path), fd, error;

    ck_assert_int_ge(folder, 0);
    fd = monitor_connect(folder, name);
    error = errno;
    close(folder);
    errno = error;
    return fd;
}

static const char *answer_of(int fd)
{
    static char text[65536];
    uint64_t deadline = tc_deadline(10000);
    size_t length = 0;
    ssize_t got;

    do {
        ck_assert_int_gt(tc_wait_fd(fd, POLLIN, deadline), 0);
        got = recv(fd, text + length, sizeof(text) - 1 - length, 0);
        length += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    text[length] = '\0';
    return text;
}

static const char *ask(const char *request)
{
    const char *text;
    int fd;

    ck_assert_msg(tc_until((fd = connect_now()) >= 0 || errno != EAGAIN, 10000) && fd >= 0, "%s",
                  strerror(errno)); /* others may stand in its queue */
    ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    text = answer_of(fd);
    close(fd);
    return text;
}

static bool says(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Sanitizers have threads of their own, which come when they like. */
static int monitor_threads(void)
{
    DIR *list = opendir("/proc/self/task");
    struct dirent *entry;
    char path[320], comm[32];
    int count = 0;

    ck_assert_ptr_nonnull(list);
    while ((entry = readdir(list))) {
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        count += file && fgets(comm, sizeof(comm), file) && !strcmp(comm, "ital-monitor\n");
        if (file)
            fclose(file);
    }
    closedir(list);
    return count;
}

START_TEST(test_it_is_there_from_the_first_interface_to_the_last)
{
    struct kal_rnic *one, *other;
    struct tc_fds before;

    fixture_get();
    before = tc_fds();
    ck_assert_int_eq(monitor_threads(), 0);
    ck_assert(connect_now() < 0 && errno == ENOENT);
    one = open_one();
    ck_assert(says(ask(ASK), "\"interfaces\":[{\"name\":\"test\",\"provider\":\"test\""));
    ck_assert_int_eq(monitor_threads(), 1);
    other = open_one();
    close_one(one);
    ck_assert(says(ask(ASK), "\"rnic\":{\"held\":1,"));
    close_one(other);
    ck_assert(connect_now() < 0 && errno == ENOENT);
    ck_assert_ptr_null(tc_fds_differ(&before));
    ck_assert(tc_until(monitor_threads() == 0, 10000)); /* a joined one goes a bit later */
    one = open_one();
    ck_assert(says(ask(ASK), "\"rnic\":{\"held\":1,"));
    close_one(one);
}
END_TEST

START_TEST(test_accounts_quotas_and_the_log)
{
    struct kal_rnic *rnic;
    struct ri_pd *pd, *none;
    char part[64];
    const char *text;

    fixture_conf("[quota]\nmax_pd = 1\n");
    fixture_get();
    rnic = open_one();
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &none), ITAL_ERR_QUOTA);
    text = ask(ASK);
    snprintf(part, sizeof(part), "\"process\":{\"pid\":%d,", (int)getpid());
    ck_assert_msg(says(text, "{\"version\":1,") && says(text, part), "%s", text);
    ck_assert_msg(says(text, "\"pd\":{\"held\":1,\"quota\":1}"), "%s", text);
    ck_assert_msg(says(text, "\"cq\":{\"held\":0,\"quota\":0}"), "%s", text);
    ck_assert_msg(says(text, "\"objects\":{\"pd\":1,\"cq\":0,"), "%s", text);
    ck_assert_msg(says(text, "\"refused\":{\"quota\":{\"pd\":1},"), "%s", text);
    ck_assert_msg(says(text, "\"errors\":1,") &&
                      says(text, "\"line\":\"ital: error: test: the quota"),
                  "%s", text);
    text = ask("{\"version\":1,\"get\":\"process\"}\n");
    ck_assert_msg(says(text, "\"errors\":1,") && !says(text, "\"last\""), "%s", text);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    ck_assert(says(ask(ASK), "\"pd\":{\"held\":0,\"quota\":1}"));
    close_one(rnic);
}
END_TEST

static unsigned long long number_in(const char *text, const char *what)
{
    const char *at = strstr(text, what);

    return at ? strtoull(at + strlen(what), NULL, 10) : 0;
}

/* Which rules a process has, and since when. */
START_TEST(test_the_rules_in_effect)
{
    unsigned long long before = (unsigned long long)time(NULL), since;
    char folder[4096], path[4200], part[4300];
    struct kal_rnic *rnic;
    const char *text;
    FILE *file;

    fixture_conf("[policy]\nrule1 = deny connect to 192.0.2.1\n");
    snprintf(folder, sizeof(folder), "%s/rules.d", tc_tempdir());
    ck_assert(!mkdir(folder, 0755) || errno == EEXIST);
    snprintf(path, sizeof(path), "%s/10.conf", folder);
    kal_policy_folder = folder;
    kal_policy_owner = geteuid();
    fixture_get();
    rnic = open_one();
    text = ask(ASK);
    ck_assert_msg(says(text, "\"rules\":{\"configuration\":1}"), "%s", text);
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs("deny listen port 7\nlimit endpoints 9\n", file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert(tc_until(says(ask(ASK), "\"host\":2,"), 10000));
    text = ask(ASK);
    snprintf(part, sizeof(part), "\"files\":[\"%s\"]}", path);
    ck_assert_msg(says(text, part), "%s", text);
    since = number_in(text, "\"since\":");
    ck_assert_msg(since >= before && since <= (unsigned long long)time(NULL), "%s", text);
    close_one(rnic);
    fixture_put();
    unlink(path);
    rmdir(folder);
}
END_TEST

/* A lock is always possible, so the numbers of the kernel's limit do not matter here. */
START_TEST(test_pins_are_shown)
{
    static char octets[10];
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = octets, .length = 1 };
    struct kal_region *region;
    struct kal_rnic *rnic;
    struct ri_pd *pd;
    const char *text;
    char part[80];

    fixture_conf("[interface test]\nprovider = test\npin = lock\npin_strict = yes\n");
    fixture_get();
    rnic = open_one();
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &region), RI_OK);
    text = ask(ASK);
    snprintf(part, sizeof(part), "\"pins\":{\"lock\":{\"ranges\":1,\"octets\":%ld},",
             sysconf(_SC_PAGESIZE));
    ck_assert_msg(says(text, part), "%s", text);
    ck_assert_msg(says(text, "\"hold\":{\"ranges\":0,\"octets\":0,\"rings\":0}"), "%s", text);
    ck_assert_msg(says(text, "\"pin\":\"lock\",\"pin_strict\":true"), "%s", text);
    attr.addr = (void *)(uintptr_t)4096; /* never mapped */
    ck_assert_int_eq(kal_region_create(rnic, pd, &attr, &region), RI_ERR_ADDRESS);
    text = ask(ASK);
    ck_assert_msg(says(text, "\"pins\":{\"lock\":1}"), "%s", text);
    ck_assert_int_eq(kal_region_destroy(rnic, region), RI_OK);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    ck_assert(says(ask(ASK), "\"lock\":{\"ranges\":0,\"octets\":0}"));
    close_one(rnic);
}
END_TEST

START_TEST(test_monitor_no_shows_nothing)
{
    struct kal_rnic *rnic;
    int threads = tc_thread_count();

    unsetenv("ITAL_MONITOR");
    fixture_conf("[ital]\nmonitor = no\n");
    fixture_get();
    rnic = open_one();
    ck_assert(connect_now() < 0 && errno == ENOENT);
    ck_assert_int_eq(tc_thread_count(), threads);
    close_one(rnic);
    fixture_put();
    setenv("ITAL_MONITOR", "perhaps", 1);
    fixture_get();
    ck_assert_str_eq(kal_config_value(kal, "monitor"), "no");
    ck_assert_uint_eq(
        fixture_log_count("ITAL_MONITOR = \"perhaps\" is ignored: allowed is yes or no"), 1);
}
END_TEST

START_TEST(test_without_a_place_the_interface_opens)
{
    struct kal_rnic *rnic;
    int taken, folder;
    char path[MONITOR_PATH_ROOM];

    folder = monitor_folder(0, false, path);
    taken = monitor_listen(folder, name); /* as a process of that number in another container */
    ck_assert_int_ge(taken, 0);
    fixture_get();
    rnic = open_one();
    ck_assert_uint_eq(fixture_log_count("info: itstat does not see this process: no socket in"), 1);
    close_one(rnic);
    ck_assert_int_eq(unlinkat(folder, name, 0), 0); /* it is still the other's */
    close(taken);
    close(folder);
}
END_TEST

START_TEST(test_requests_that_cannot_be_read)
{
    static const struct {
        const char *request, *error;
    } cases[] = {
        { "\n", "one JSON object" },
        { "GET / HTTP/1.0\r\n", "one JSON object" },
        { "{\"version\":1,\"get\":\"all\"} x\n", "one JSON object" },
        { "{\"version\":1,\"get\":\"\\u0061ll\"}\n", "one JSON object" },
        { "{\"version\":1234567890123456789,\"get\":\"all\"}\n", "one JSON object" },
        { "{\"version\":2,\"get\":\"all\"}\n", "\\u0022version\\u0022 is to be 1" },
        { "{\"get\":\"all\"}\n", "\\u0022version\\u0022 is to be 1" },
        { "{\"version\":1,\"get\":\"everything\"}\n", "\\u0022get\\u0022 is to be" },
        { "{\"version\":1}\n", "\\u0022get\\u0022 is to be" },
    };
    struct kal_rnic *rnic;
    char flood[4096];

    fixture_get();
    rnic = open_one();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *text = ask(cases[i].request);

        ck_assert_msg(says(text, "{\"version\":1,\"error\":") && says(text, cases[i].error),
                      "%s: %s", cases[i].request, text);
    }
    memset(flood, ' ', sizeof(flood) - 1);
    flood[sizeof(flood) - 1] = '\0';
    ck_assert(says(ask(flood), "the request is too long"));
    ck_assert(says(ask(" { \"new\" : 5, \"get\" : \"process\" , \"version\" : 1 } \r\n"),
                   "\"process\":{"));
    close_one(rnic);
}
END_TEST

/* Some are silent, some never read, some end at once: others are answered, and the end waits for
 * none of them. */
START_TEST(test_bad_clients_harm_nobody)
{
    struct kal_rnic *rnic;
    int silent[5];

    fixture_get();
    rnic = open_one();
    for (size_t i = 0; i < 5; i++) {
        silent[i] = connect_now();
        ck_assert_int_ge(silent[i], 0);
        if (i > 2)
            ck_assert_int_eq(send(silent[i], ASK, strlen(ASK) - (i == 3), MSG_NOSIGNAL),
                             (ssize_t)strlen(ASK) - (i == 3));
    }
    for (unsigned i = 0; i < 200; i++) {
        int fd = connect_now();

        if (fd >= 0)
            close(fd);
    }
    ck_assert(says(ask(ASK), "\"process\":{"));
    close_one(rnic);
    ck_assert_str_eq(answer_of(silent[0]), "");
    ck_assert(says(answer_of(silent[4]), "\"process\":{"));
    for (size_t i = 0; i < 5; i++)
        close(silent[i]);
}
END_TEST

/* More silent clients than there is room for: they lose their places after a while. */
START_TEST(test_silent_clients_are_closed)
{
    struct kal_rnic *rnic;
    int silent[8];

    fixture_get();
    rnic = open_one();
    for (size_t i = 0; i < 8; i++) {
        silent[i] = connect_now();
        ck_assert_int_ge(silent[i], 0);
    }
    ck_assert(says(ask(ASK), "\"process\":{"));
    for (size_t i = 0; i < 8; i++) {
        ck_assert_str_eq(answer_of(silent[i]), "");
        close(silent[i]);
    }
    close_one(rnic);
}
END_TEST

static bool holds_a_listener(void)
{
    for (int fd = 0; fd < 256; fd++) {
        int listens = 0, domain = 0;
        socklen_t length = sizeof(listens);

        if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) && listens &&
            !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) && domain == AF_UNIX)
            return true;
    }
    return false;
}

/* With destructors, which may not remove the parent's socket. A sanitizer's own can wait for ever
 * in a child of several threads. */
static void leave_child(int status)
{
#ifdef ITAL_SANITIZERS
    _exit(status);
#else
    exit(status);
#endif
}

START_TEST(test_a_child_holds_nothing_of_it)
{
    struct kal_rnic *rnic;
    int status;
    pid_t child;

    fixture_get();
    rnic = open_one();
    ck_assert(holds_a_listener());
    kal_fork_prepare();
    child = fork();
    if (!child) {
        kal_fork_child();
        leave_child(holds_a_listener());
    }
    kal_fork_parent();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert(says(ask(ASK), "\"process\":{"));
    close_one(rnic);
}
END_TEST

/* A daemon closes all descriptors, and opens others. */
START_TEST(test_a_program_that_closes_its_descriptors)
{
    struct kal_rnic *rnic;
    struct tc_fds before;
    int own[64];

    for (int asked = 0; asked < 2; asked++) {
        fixture_get();
        before = tc_fds();
        rnic = open_one();
        for (int fd = 3; fd < 256; fd++) {
            int listens = 0;
            socklen_t length = sizeof(listens);

            if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) && listens)
                close(fd);
        }
        for (unsigned i = 0; i < 64; i++)
            own[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (asked) {
            int fd = connect_now();

            if (fd >= 0) {
                ck_assert_str_eq(answer_of(fd), "");
                close(fd);
            }
        }
        close_one(rnic);
        for (unsigned i = 0; i < 64; i++)
            ck_assert_int_eq(close(own[i]), 0);
        ck_assert_ptr_null(tc_fds_differ(&before));
        fixture_put();
    }
}
END_TEST

START_TEST(test_a_program_that_ends_leaves_no_socket)
{
    char child_name[MONITOR_NAME_MAX], path[MONITOR_PATH_ROOM];
    int folder, status;
    pid_t child = fork();

    if (!child) {
        monitor_name(getpid(), name);
        fixture_get();
        open_one();
        exit(!says(ask(ASK), "\"process\":{"));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    monitor_name(child, child_name);
    folder = monitor_folder(0, false, path);
    ck_assert(faccessat(folder, child_name, F_OK, 0) && errno == ENOENT);
    close(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kal/state");

    tc_add_tests(tc_case(suite, "state", setup, fixture_put),
                 test_it_is_there_from_the_first_interface_to_the_last,
                 test_accounts_quotas_and_the_log, test_the_rules_in_effect, test_pins_are_shown,
                 test_monitor_no_shows_nothing, test_without_a_place_the_interface_opens,
                 test_requests_that_cannot_be_read, test_bad_clients_harm_nobody,
                 test_silent_clients_are_closed, test_a_child_holds_nothing_of_it,
                 test_a_program_that_closes_its_descriptors,
                 test_a_program_that_ends_leaves_no_socket);
    return tc_main(suite);
}
