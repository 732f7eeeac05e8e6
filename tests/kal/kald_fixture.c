/* SPDX-License-Identifier: BSD-3-Clause */
/* A kald of the build tree, and peers of it. */
#include "kald_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char folder[80], path[100], policy[100], log_path[100];
static pid_t process;

void kald_folder(void)
{
    snprintf(folder, sizeof(folder), "%s", tc_tempdir());
    snprintf(policy, sizeof(policy), "%s/policy.d", folder);
    snprintf(log_path, sizeof(log_path), "%s/kald.log", folder);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    snprintf(path, sizeof(path), "%s/..", folder);
    ck_assert_int_eq(chmod(path, 0711), 0);
    snprintf(path, sizeof(path), "%s/kald.sock", folder);
    ck_assert(!mkdir(policy, 0755) || errno == EEXIST);
}

const char *kald_path(void)
{
    return path;
}

pid_t kald_pid(void)
{
    return process;
}

void kald_policy(const char *name, const char *text)
{
    char file[200], fresh[200];
    FILE *out;

    snprintf(file, sizeof(file), "%s/%s", policy, name);
    if (!text) {
        ck_assert_int_eq(unlink(file), 0);
        return;
    }
    snprintf(fresh, sizeof(fresh), "%s/.%s", policy, name);
    out = fopen(fresh, "we");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_ge(fputs(text, out), 0);
    ck_assert_int_eq(fchmod(fileno(out), 0644), 0);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_int_eq(rename(fresh, file), 0);
}

static bool serves(void)
{
    int fd = kald_connect(path, NULL);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static uid_t run_as = (uid_t)-1;
static char copy[200]; /* of the program, for that user */

/* That user may not be able to enter the build folder. */
static void copy_program(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    ssize_t got;

    ck_assert(in >= 0 && out >= 0);
    do
        got = sendfile(out, in, NULL, 1 << 20);
    while (got > 0);
    ck_assert_int_eq(got, 0);
    ck_assert_int_eq(fchmod(out, 0755), 0);
    close(in);
    close(out);
}

void kald_start_as(uid_t user)
{
    char text[200], program[4200];
    uid_t me = geteuid();

    ck_assert_int_eq(seteuid(0), 0);
    snprintf(text, sizeof(text), "%s/1.conf", policy);
    ck_assert_int_eq(chown(folder, user, (gid_t)-1), 0);
    ck_assert_int_eq(chown(policy, user, (gid_t)-1), 0);
    ck_assert_int_eq(chown(text, user, (gid_t)-1), 0);
    snprintf(program, sizeof(program), "%s/kald/kald", tc_builddir());
    snprintf(copy, sizeof(copy), "%s/kald", folder);
    copy_program(program, copy);
    ck_assert_int_eq(seteuid(me), 0);
    run_as = user;
    kald_start(NULL);
    run_as = (uid_t)-1;
}

#define PEERPIDFD 77 /* SO_PEERPIDFD, Linux 6.5 */
#define NETWORK   71 /* SO_NETNS_COOKIE, Linux 5.14 */
#define REFUSAL   83 /* SO_PASSRIGHTS, Linux 6.16 */

static enum kald_lacks lacks;

void kald_lacks(enum kald_lacks what)
{
    lacks = what;
}

/* getsockopt(2) for SO_PEERPIDFD fails as before Linux 6.5, or that for SO_NETNS_COOKIE as before
 * 5.14; pidfd_open(2) as before 5.3; setsockopt(2) for SO_PASSRIGHTS as before 6.16. kald inherits
 * the filter. */
static bool lack(void)
{
    const size_t option = offsetof(struct seccomp_data, args[2]) +
                          (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K,
                 lacks == KALD_LACKS_PIDFDS ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_ALLOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                 lacks == KALD_LACKS_REFUSAL ? SYS_setsockopt : SYS_getsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, option),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                 lacks == KALD_LACKS_REFUSAL    ? REFUSAL
                 : lacks == KALD_LACKS_NETWORKS ? NETWORK
                                                : PEERPIDFD,
                 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

    return lacks == KALD_LACKS_NOTHING || (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
                                           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

void kald_start(const char *clients)
{
    char program[4200];
    int log;

    snprintf(program, sizeof(program), "%s/kald/kald", tc_builddir());
    if (run_as != (uid_t)-1)
        strcpy(program, copy);
    process = fork();
    ck_assert_int_ge(process, 0);
    if (!process) {
        log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        dup2(log, 2);
        if (run_as != (uid_t)-1 && (seteuid(0) || setresuid(run_as, run_as, run_as)))
            _exit(126);
        if (!lack())
            _exit(125);
        unsetenv("JOURNAL_STREAM");
        execl(program, program, "--socket", path, "--policy", policy, clients ? "--clients" : NULL,
              clients, NULL);
        _exit(127);
    }
    ck_assert_msg(tc_until(serves() || waitpid(process, NULL, WNOHANG) != 0, 10000) && serves(),
                  "kald does not serve; %s has its lines", log_path);
}

static void end(int signal)
{
    int status;

    ck_assert_int_eq(kill(process, signal), 0);
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    if (signal == SIGTERM)
        ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "kald ended with %x", status);
    process = 0;
}

void kald_stop(void)
{
    end(SIGTERM);
}

void kald_kill(void)
{
    end(SIGKILL);
}

int kald_fds(void)
{
    char name[40];
    int count = 0;
    DIR *dir;

    snprintf(name, sizeof(name), "/proc/%d/fd", process);
    dir = opendir(name);
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

unsigned kald_lines(const char *text)
{
    FILE *file = fopen(log_path, "re");
    unsigned count = 0;
    char line[2000];

    while (file && fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* ---- peers ---- */

int kald_peer(uid_t user)
{
    int fd;

    if (user != (uid_t)-1)
        ck_assert_int_eq(seteuid(user), 0);
    fd = kald_connect(path, NULL);
    if (user != (uid_t)-1)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

void kald_ask(int fd, const struct kald_message *message)
{
    struct pollfd entry = { .fd = fd, .events = POLLOUT };

    while (!kald_send(fd, message, -1)) {
        ck_assert_msg(errno == EAGAIN, "%s", strerror(errno));
        ck_assert_int_gt(poll(&entry, 1, (int)tc_timeout_ms(10000)), 0);
    }
}

static enum kald_received next(int fd, struct kald_message *message, int *passed)
{
    enum kald_received got;

    do {
        ck_assert_msg(tc_wait_fd(fd, POLLIN, tc_deadline(10000)) > 0, "kald is silent");
        got = kald_receive(fd, true, message, passed);
    } while (got == KALD_NOTHING);
    return got;
}

void kald_expect(int fd, enum kald_type type, bool answer, struct kald_message *message,
                 int *passed)
{
    ck_assert_int_eq(next(fd, message, passed), KALD_GOT);
    ck_assert_int_eq(message->type, type);
    ck_assert_int_eq(message->answer, answer);
}

void kald_expect_end(int fd)
{
    struct kald_message message;

    while (next(fd, &message, NULL) == KALD_GOT)
        ;
    close(fd);
}

int kald_greeted(uid_t user, uint64_t endpoints)
{
    struct kald_message message = { .type = KALD_HELLO, .id = 1 };
    int fd = kald_peer(user);

    message.counts[POLICY_ENDPOINTS].total = endpoints;
    kald_ask(fd, &message);
    kald_expect(fd, KALD_HELLO, true, &message, NULL);
    kald_expect(fd, KALD_POLICY, false, &message, NULL);
    return fd;
}

uint64_t kald_take_up(int fd, uint64_t total, uint64_t least, uint32_t flags,
                      enum kald_status *status)
{
    struct kald_message message = { .type = KALD_TAKE,
                                    .id = 7,
                                    .kind = POLICY_ENDPOINTS,
                                    .flags = flags,
                                    .total = total,
                                    .least = least };

    kald_ask(fd, &message);
    kald_expect(fd, KALD_TAKE, true, &message, NULL);
    ck_assert_uint_eq(message.id, 7);
    if (status)
        *status = message.status;
    return message.total;
}

void kald_release(int fd, uint64_t total)
{
    struct kald_message message = { .type = KALD_GIVE, .id = 8, .total = total };

    kald_ask(fd, &message);
}

uint64_t kald_total(enum policy_kind kind, unsigned *clients)
{
    struct kald_message message = { .type = KALD_HELLO, .id = 1, .flags = KALD_OBSERVER };
    int fd = kald_peer((uid_t)-1);
    uint64_t total = 0;

    kald_ask(fd, &message);
    kald_expect(fd, KALD_HELLO, true, &message, NULL);
    message = (struct kald_message){ .type = KALD_STATS, .id = 2 };
    do {
        kald_ask(fd, &(struct kald_message){ .type = KALD_STATS, .cursor = message.cursor });
        kald_expect(fd, KALD_STATS, true, &message, NULL);
        for (uint32_t i = 0; i < message.count; i++)
            total += message.entries[i].counts[kind].total;
    } while (message.cursor);
    if (clients)
        *clients = message.clients;
    close(fd);
    return total;
}

uint64_t kald_soft_limit(pid_t whose)
{
    struct rlimit limit;

    ck_assert_int_eq(prlimit(whose, RLIMIT_MEMLOCK, NULL, &limit), 0);
    return limit.rlim_cur;
}

void kald_lower_limit(void)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (limit.rlim_max < 1 << 21)
        tc_skip("the hard limit of locked memory is below 2 MiB");
    limit.rlim_cur = KALD_LOW_LIMIT;
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

enum kald_status kald_take_pinned(int fd, uint64_t total, uint32_t flags)
{
    struct kald_message message = { .type = KALD_TAKE,
                                    .kind = POLICY_PINNED,
                                    .total = total,
                                    .least = total,
                                    .flags = flags | KALD_ALONE };

    kald_ask(fd, &message);
    kald_expect(fd, KALD_TAKE, true, &message, NULL);
    return message.status;
}

/* A kald that a test has left is this process's child. */
static void teardown(void)
{
    if (kald_pid())
        kald_stop();
}

TCase *kald_case(Suite *suite, const char *name)
{
    return tc_case(suite, name, kald_folder, teardown);
}

void kald_needs_root(void)
{
    if (geteuid())
        tc_skip("needs root: other users' ids");
}

void kald_privileged_ports(void)
{
    int fd = open(tc_srcdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0); /* open until the test's process ends */
}
