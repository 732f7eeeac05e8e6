/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itfault: one side of a connection that a fault ends.
 *
 *     itfault -I INTERFACE [options] [HOST:PORT]      without HOST:PORT it listens, for one client
 *
 *   -p PORT     where it listens                    -b          polls; else a thread waits on each
 *   EVD -i          no traffic, only receives           -x          never answers a request, and
 *   ends by SIGTERM -a ACTION   what it does to the connection once traffic flows: kill, free,
 *   disconnect, access, long, flood,
 *               or a command of the shell           -A EVENT=COMMAND   what it does when that comes
 *   -D EVENT    disconnects when that comes, unless the connection has ended
 *   -e EVENT    has to come, "A|B": one of them     -o EVENT    may come
 *   -T MS       time to connect                     -t SECONDS  for all of it (TEST_TIMEOUT_SCALE
 *   times that)
 *
 * EVENT: the name of an event, of a completion status, of a reject reason, or
 * IT_ERR_IA_CATASTROPHE. Any other but connection request, ESTABLISHED and FLUSHED is an error. It
 * ends well when all that has to come came, the connection, if there was one, has ended, every
 * posted request has completed, everything could be freed, and no thread or descriptor is left.
 */
#include "tests/faults/fault.h"

#include "tools/common/tool.h"

#include <dirent.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- what is being done, for whoever finds it hanging ---- */

static _Atomic(const char *) current_step = "opening";
static struct fault *watched;

const char *fault_step(const char *step)
{
    atomic_store(&current_step, step);
    return step;
}

/* Time is up. Only what is safe in a handler; the numbers may be torn. */
static void hangs(int signal)
{
    char text[256];
    int length = snprintf(text, sizeof(text), "itfault: hangs: %s; %u posted, %u completed\n",
                          atomic_load(&current_step), watched->posted, watched->completed);

    (void)signal;
    if (write(STDOUT_FILENO, text, (size_t)length) < 0)
        _exit(4);
    _exit(3);
}

static void watch(struct fault *fault, unsigned int seconds)
{
    const char *scale = getenv("TEST_TIMEOUT_SCALE");
    double factor = scale ? strtod(scale, NULL) : 1;

    watched = fault;
    signal(SIGALRM, hangs);
    alarm((unsigned int)(seconds * (factor > 1 ? factor : 1)));
}

/* ---- events ---- */

static bool is_one_of(const char *alternatives, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = alternatives; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, name, length) && (!at[length] || at[length] == '|'))
            return true;
    }
    return false;
}

static bool is_expected(struct fault *fault, const char *name)
{
    static const char usual[] = "IT_CM_REQ_CONN_REQUEST_EVENT|IT_CM_MSG_CONN_ESTABLISHED_EVENT";
    bool found = is_one_of(usual, name);

    for (unsigned int i = 0; i < NAMES; i++) {
        if (fault->options->awaited[i] && is_one_of(fault->options->awaited[i], name))
            found = fault->seen[i] = true;
        if (fault->options->allowed[i] && is_one_of(fault->options->allowed[i], name))
            found = true;
    }
    return found;
}

static void react(struct fault *fault, const char *name)
{
    const char *reaction = fault->options->reaction;
    size_t length = strlen(name);

    if (fault->options->farewell && !strcmp(fault->options->farewell, name) && !fault->ended)
        it_ep_disconnect(fault->ep, NULL, 0); /* refused where it has just ended, which is told */
    if (!reaction || fault->reacted || strncmp(reaction, name, length) || reaction[length] != '=')
        return;
    fault->reacted = true;
    fault_command(fault, reaction + length + 1);
}

void fault_note(struct fault *fault, const char *name)
{
    bool expected = is_expected(fault, name);

    printf("%s%s\n", name, expected ? "" : ": NOT EXPECTED");
    fflush(stdout);
    fault->unexpected |= !expected;
    react(fault, name);
}

/* Under the lock: what is still missing; NULL: nothing. */
static const char *missing(struct fault *fault)
{
    for (unsigned int i = 0; i < NAMES; i++)
        if (fault->options->awaited[i] && !fault->seen[i])
            return fault->options->awaited[i];
    if (fault->freed)
        return NULL;
    if (!fault->ended)
        return fault->connected ? "the end of the connection" : "a connection";
    return fault->completed != fault->posted ? "completions" : NULL;
}

/* ---- commands ---- */

/* Not by fork, which would count as a second process of the IA's. */
void fault_command(struct fault *fault, const char *command)
{
    char *const arguments[] = { (char *)"sh", (char *)"-c", (char *)(uintptr_t)command, NULL };

    if (fault->command)
        waitpid(fault->command, NULL, 0);
    printf("runs: %s\n", command);
    fflush(stdout);
    if (posix_spawn(&fault->command, "/bin/sh", NULL, NULL, arguments, environ)) {
        tool_error("cannot run the shell");
        fault->unexpected = true;
        fault->command = 0;
    }
}

static bool command_ends(struct fault *fault)
{
    int status;

    if (!fault->command)
        return true;
    fault_step("waiting for the command");
    if (waitpid(fault->command, &status, 0) == fault->command && status == 0)
        return true;
    tool_error("the command fails");
    return false;
}

/* ---- what is left ---- */

static unsigned int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    unsigned int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

struct things {
    unsigned int threads, descriptors;
};

static struct things count_things(void)
{
    return (struct things){ entries("/proc/self/task") - 2, /* . and .. */
                            entries("/proc/self/fd") };
}

/* A thread that was joined may be in the kernel's list for a moment longer. */
static bool nothing_left(struct things before)
{
    uint64_t limit = tool_now() + 5000000000u;
    struct things now;

    do {
        sched_yield();
        now = count_things();
    } while (now.threads > before.threads && tool_now() < limit);
    printf("freed: %+d threads, %+d descriptors\n", (int)(now.threads - before.threads),
           (int)(now.descriptors - before.descriptors));
    return now.threads == before.threads && now.descriptors == before.descriptors;
}

/* ---- all of it ---- */

static void poll_for_all(struct fault *fault)
{
    pthread_mutex_lock(&fault->lock);
    while (missing(fault)) {
        bool any = false;

        fault_step(missing(fault));
        for (int i = 0; i < STREAMS; i++)
            any |= fault_take(fault, i);
        if (!any)
            sched_yield();
    }
    pthread_mutex_unlock(&fault->lock);
}

static void wait_for_all(struct fault *fault)
{
    pthread_mutex_lock(&fault->lock);
    while (missing(fault)) {
        fault_step(missing(fault));
        pthread_cond_wait(&fault->changed, &fault->lock);
    }
    pthread_mutex_unlock(&fault->lock);
}

static void wait_for_signal(struct fault *fault)
{
    sigset_t terminate;
    int got;

    fault_step("waiting for SIGTERM");
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    sigwait(&terminate, &got);
    for (int i = 0; i < STREAMS && fault->options->polling; i++)
        while (fault_take(fault, i))
            ;
}

static bool begin(struct fault *fault)
{
    bool good;

    pthread_mutex_lock(&fault->lock); /* posts and events are counted in order */
    good = fault_open(fault) && (fault->options->ignore || fault_prepare(fault)) &&
           (fault->options->polling || fault_wait_in_threads(fault)) &&
           (fault->options->host ? fault_connect(fault) : fault_listen(fault));
    pthread_mutex_unlock(&fault->lock);
    return good;
}

/* Libraries underneath keep what they made at their first use: so
 * once before anything is counted. */
static bool first_use(const struct options *options)
{
    struct adapter adapter;
    it_pz_handle_t pz;

    if (!adapter_open(options->interface, &adapter))
        return false;
    if (it_pz_create(adapter.ia, &pz) == IT_SUCCESS)
        it_pz_free(pz);
    adapter_close(&adapter);
    return true;
}

static int run(const struct options *options, unsigned int seconds)
{
    struct fault fault = { .options = options };
    struct things before;
    sigset_t terminate;
    bool good;

    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    if (options->ignore)
        pthread_sigmask(SIG_BLOCK, &terminate, NULL);
    pthread_mutex_init(&fault.lock, NULL);
    pthread_cond_init(&fault.changed, NULL);
    watch(&fault, seconds);
    if (!first_use(options))
        return TOOL_FAILED;
    before = count_things();
    before.threads = 1; /* those of the first use may be about to go */
    if (!begin(&fault))
        return TOOL_FAILED;
    if (options->ignore)
        wait_for_signal(&fault);
    else if (options->polling)
        poll_for_all(&fault);
    else
        wait_for_all(&fault);
    printf("%u requests, %u completions, %u flushed\n", fault.posted, fault.completed,
           fault.flushed);
    good = fault_close(&fault);
    good &= command_ends(&fault);
    good &= nothing_left(before);
    return good && !fault.unexpected ? TOOL_OK : TOOL_FAILED;
}

/* ---- arguments ---- */

static void add(const char **names, const char *name)
{
    unsigned int i = 0;

    while (i < NAMES - 1 && names[i])
        i++;
    names[i] = name;
}

static void parse_action(struct options *options, const char *text)
{
    static const char *const names[] = {
        [DO_KILL] = "kill",     [DO_FREE] = "free", [DO_DISCONNECT] = "disconnect",
        [DO_ACCESS] = "access", [DO_LONG] = "long", [DO_FLOOD] = "flood"
    };

    options->action = DO_COMMAND;
    options->command = text;
    for (unsigned int i = DO_KILL; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(text, names[i]))
            options->action = (enum action)i;
}

static bool parse(struct options *options, int letter, unsigned int *seconds)
{
    uint64_t number = 0;

    switch (letter) {
    case 'I': options->interface = optarg; return true;
    case 'b': options->polling = true; return true;
    case 'i': options->idle = true; return true;
    case 'x': options->ignore = true; return true;
    case 'a': parse_action(options, optarg); return true;
    case 'A': options->reaction = optarg; return true;
    case 'D': options->farewell = optarg; return true;
    case 'e': add(options->awaited, optarg); return true;
    case 'o': add(options->allowed, optarg); return true;
    case 'p':
        if (!tool_parse_number(optarg, 0, 65535, &number))
            return false;
        options->port = (uint16_t)number;
        return true;
    case 'T':
        if (!tool_parse_number(optarg, 1, 1000000, &number))
            return false;
        options->connect_timeout = number * 1000;
        return true;
    case 't':
        if (!tool_parse_number(optarg, 1, 100000, &number))
            return false;
        *seconds = (unsigned int)number;
        return true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const char usage[] = "-I INTERFACE [-bix] [-p PORT] [-a ACTION] [-A EVENT=COMMAND] [-D "
                                "EVENT] [-e EVENT] [-o EVENT] [-T MS] [-t SECONDS] [HOST:PORT]";
    struct options options = { .connect_timeout = 20000000 };
    char host[ADDRESS_HOST];
    unsigned int seconds = 10;
    int letter;

    tool_init("itfault");
    setvbuf(stdout, NULL, _IOLBF, 0);
    while ((letter = getopt(argc, argv, "I:bixp:a:A:D:e:o:T:t:")) != -1)
        if (!parse(&options, letter, &seconds))
            return tool_usage("%s", usage);
    if (optind + 1 == argc && address_parse(argv[optind], host, &options.port))
        options.host = host;
    else if (optind != argc)
        return tool_usage("%s", usage);
    return run(&options, seconds);
}
