/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: options, begin, loop and end. */
#include "kald.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef HAVE_LIBSYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "base/bad_option.h"
#include "base/clock.h"
#include "base/compiler.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* Descriptors of kald itself, and of one client. */
#define OWN_FILES    (32u + KALD_HELD_MOST)
#define CLIENT_FILES 2u
/* Addresses of RoCE over UDP, and descriptors of one. */
#define ADDRESSES     16u
#define ADDRESS_FILES (KALD_SLOTS + 1u)

static void notify(const char *state)
{
#ifdef HAVE_LIBSYSTEMD
    sd_notify(0, state);
#else
    (void)state;
#endif
}

/* ---- events ---- */

static void reload(struct kald *kald)
{
    uint64_t before = kald->generation;
    char state[80];

    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_now() / CLOCK_NS_PER_US));
    notify(state);
    kald_rules_watch(kald);
    if (kald_rules_read(kald))
        kald_use_policy(kald, kald->generation != before);
    notify("READY=1");
}

static void signals_ready(struct kald_source *source, uint32_t events)
{
    struct kald *kald = container_of(source, struct kald, signals);
    struct signalfd_siginfo info;

    (void)events;
    if (read(source->fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGCHLD)
        kald_children_ended(kald);
    else if (info.ssi_signo == SIGHUP)
        reload(kald);
    else
        kald->stop = true;
}

static void watch_ready(struct kald_source *source, uint32_t events)
{
    struct kald *kald = container_of(source, struct kald, watch);

    (void)events;
    if (kald_rules_changed(kald))
        reload(kald);
}

/* One event at a time: a client that ends leaves no event behind. */
static void serve(struct kald *kald)
{
    struct epoll_event event;

    while (!kald->stop) {
        uint64_t deadline = kald_account_deadline(kald);

        if (epoll_wait(kald->epoll, &event, 1, clock_poll_ms(clock_now(), deadline)) > 0) {
            struct kald_source *source = event.data.ptr;

            source->ready(source, event.events);
        }
        if (clock_now() >= deadline) /* also while one event follows the other */
            kald_account_retry(kald, NULL);
        kald_sweep(kald);
    }
}

/* ---- begin ---- */

/* Only one kald serves at a path. The descriptor of the lock stays open. */
static bool lock_path(const char *path)
{
    char name[sizeof(struct sockaddr_un) + 8];
    int fd;

    snprintf(name, sizeof(name), "%s.lock", path);
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        return true;
    if (fd >= 0 && errno == EWOULDBLOCK)
        kald_say(3, "another kald serves at %s", path);
    else
        kald_say(3, "%s: %s; %s", name, strerror(errno),
                 errno == EACCES && geteuid()
                     ? "an ordinary user's kald serves at a path of its own (--socket PATH)"
                     : "make the folder, or choose another by --socket");
    return false;
}

/* The name stays when kald ends: it tells programs that a kald may come again. */
static bool open_socket(struct kald *kald)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *fresh = address.sun_path;
    bool opened;

    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s.new", kald->path) >=
        (int)sizeof(address.sun_path)) {
        kald_say(3, "%s: the path is too long", kald->path);
        return false;
    }
    if (!lock_path(kald->path))
        return false;
    unlink(fresh);
    kald->listener.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    opened = kald->listener.fd >= 0 && kald_closing_prepare(kald) &&
             !bind(kald->listener.fd, (const struct sockaddr *)&address, sizeof(address)) &&
             !chmod(fresh, 0666) && !listen(kald->listener.fd, SOMAXCONN) &&
             !rename(fresh, kald->path);
    if (!opened)
        kald_say(3, "%s: %s", kald->path, strerror(errno));
    return opened;
}

/* Each client has a descriptor or two; the hard limit bounds their number. Addresses of RoCE get a
 * quarter. Returns how many of these there may be. */
static unsigned fit_files(struct kald *kald)
{
    rlim_t own = OWN_FILES + CLIENT_FILES * KALD_ROOT_CLIENTS;
    struct rlimit limit;
    unsigned addresses;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    addresses = limit.rlim_cur / 4u / ADDRESS_FILES < ADDRESSES
                    ? (unsigned)(limit.rlim_cur / 4u / ADDRESS_FILES)
                    : ADDRESSES;
    if (addresses)
        own += addresses * ADDRESS_FILES + KALD_SLOTS;
    if (limit.rlim_cur < own + CLIENT_FILES * (rlim_t)kald->all_clients)
        kald->all_clients = limit.rlim_cur > own ? (unsigned)((limit.rlim_cur - own) / CLIENT_FILES)
                                                 : 0;
    return addresses;
}

static bool open_sources(struct kald *kald)
{
    socklen_t length = sizeof(kald->network);
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGCHLD,
           SIG_DFL); /* whoever started it may have ignored it, and children would not be told of */
    signal(SIGPIPE, SIG_IGN);
    kald->epoll = epoll_create1(EPOLL_CLOEXEC);
    kald->spare = fcntl(kald->epoll, F_DUPFD_CLOEXEC, 0);
    kald->signals = (struct kald_source){ signals_ready, signalfd(-1, &signals, SFD_CLOEXEC) };
    kald->watch = (struct kald_source){ watch_ready, inotify_init1(IN_CLOEXEC | IN_NONBLOCK) };
    kald->listener = (struct kald_source){ kald_accept, -1 };
    if (!open_socket(kald))
        return false;
    if (getsockopt(kald->listener.fd, SOL_SOCKET, SO_NETNS_COOKIE, &kald->network, &length))
        kald->network = 0;
    if (kald->epoll >= 0 && kald->signals.fd >= 0 && kald->watch.fd >= 0 &&
        kald_watch(kald, &kald->listener, EPOLLIN) && kald_watch(kald, &kald->signals, EPOLLIN) &&
        kald_watch(kald, &kald->watch, EPOLLIN))
        return true;
    kald_say(3, "%s", strerror(errno));
    return false;
}

/* ---- options ---- */

static void print_help(void)
{
    printf(
        "usage: kald [--socket PATH] [--policy FOLDER] [--clients N]\n"
        "       kald --status [--socket PATH]\n"
        "Serves the processes of this host that use ital: quotas of each user over all\n"
        "processes, the policy, ports below 1024, RoCE over UDP of several users.\n\n"
        "  -s, --socket PATH     the socket (" KALD_SOCKET ")\n"
        "  -p, --policy FOLDER   the policy's files (%s)\n"
        "  -c, --clients N       processes that one user may have (1024)\n"
        "      --status          prints what each process holds: of the own user, or of all for\n"
        "                        root\n"
        "  -h, --help            this text\n"
        "  -V, --version         the version\n",
        policy_folder);
}

static int wrong(void)
{
    fprintf(stderr, "kald --help has the options\n");
    return 2;
}

#define SHORTS ":s:p:c:hV"
enum { OF_STATUS = BAD_OPTION_LONG };

/* result: '?' or ':' of getopt_long. */
static int wrong_option(int result, const struct option *options, char **words)
{
    char text[BAD_OPTION_TEXT];

    bad_option(text, result, SHORTS, options, words);
    fprintf(stderr, "kald: %s\n", text);
    return wrong();
}

static int wrong_word(const struct option *options, const char *word)
{
    const char *near = bad_option_near(options, word);

    fprintf(stderr, "kald: unexpected \"%s\"%s%s%s\n", word, near ? "; did you mean --" : "",
            near ? near : "", near ? "?" : "");
    return wrong();
}

/* -1: begin. Otherwise the exit status. */
static int read_options(struct kald *kald, int count, char **words)
{
    static const struct option options[] = {
        { "socket", required_argument, NULL, 's' },
        { "policy", required_argument, NULL, 'p' },
        { "clients", required_argument, NULL, 'c' },
        { "status", no_argument, NULL, OF_STATUS },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    bool status = false;
    char *end;
    int letter;

    while ((letter = getopt_long(count, words, SHORTS, options, NULL)) != -1) {
        switch (letter) {
        case 's': kald->path = optarg; break;
        case 'p': kald->folder = optarg; break;
        case 'c':
            kald->user_clients = (unsigned)strtoul(optarg, &end, 10);
            if (*end || *optarg < '0' || *optarg > '9' || !kald->user_clients ||
                strlen(optarg) > 6) {
                fprintf(stderr, "kald: --clients takes a number from 1 to 999999, not \"%s\"\n",
                        optarg);
                return wrong();
            }
            break;
        case OF_STATUS: status = true; break;
        case 'h': print_help(); return 0;
        case 'V': printf("kald %s\n", PACKAGE_VERSION); return 0;
        default: return wrong_option(letter, options, words);
        }
    }
    if (optind < count)
        return wrong_word(options, words[optind]);
    return status ? kald_print_status(kald->path) : -1;
}

/* The folders above the policy's are watched by their names. False: it was said why not. */
static bool make_absolute(const char **folder)
{
    char *here, *whole = NULL;

    if (**folder == '/')
        return true;
    here = getcwd(NULL, 0);
    if (!here || asprintf(&whole, "%s/%s", here, *folder) < 0)
        whole = NULL;
    free(here);
    if (!whole) {
        kald_say(3, "%s: %s", *folder, strerror(errno));
        return false;
    }
    *folder = whole;
    return true;
}

int main(int count, char **words)
{
    static struct kald kald = {
        .path = KALD_SOCKET, .user_clients = 1024, .all_clients = 8192, .policy_fd = -1
    };
    int status;

    kald.folder = policy_folder;
    kald.owner = geteuid();
    status = read_options(&kald, count, words);
    if (status >= 0)
        return status;
    if (!make_absolute(&kald.folder))
        return 1;
    if (getenv("JOURNAL_STREAM"))
        kald_number_lines();
    if (!kald_roce_begin(&kald, fit_files(&kald))) {
        kald_say(3, "no memory");
        return 1;
    }
    if (!open_sources(&kald) || !kald_confine())
        return 1;
    kald_rules_watch(&kald);
    if (!kald_rules_read(&kald))
        return 1;
    notify("READY=1");
    kald_say(6, "serves at %s", kald.path);
    serve(&kald);
    notify("STOPPING=1");
    return 0;
}
