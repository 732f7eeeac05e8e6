/* SPDX-License-Identifier: BSD-3-Clause */
/* ital-ask FD FILE: loads one provider, lists its devices, and writes the result to the descriptor
 * FD (answer.h). A crash or hang of the provider affects only this process. The library runs it,
 * not people. */
#include "kal/config/kal_config.h"
#include "load.h"
#include "rnicpi_host.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static int to;
static struct kal_values *values; /* the defaults, which the provider reads as options */

static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    char line[900];

    (void)host;
    vsnprintf(line, sizeof(line), format, args);
    kal_answer_send_log(to, level, line);
}

static void say(const struct ri_host *host, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(const struct ri_host *host, enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    host_log(host, level, format, args);
    va_end(args);
}

static enum ri_status host_option(const struct ri_host *host, const char *name,
                                  enum ri_option_kind kind, union ri_option_value *value)
{
    const char *wrong;
    enum ri_status status = kal_values_read(values, name, kind, value, &wrong);

    if (wrong)
        say(host, RI_LOG_ERROR, "the provider asks for option %s%s", name, wrong);
    return status;
}

/* enumerate may use only these two members of the host (rnicpi.h). */
static const struct ri_host host = {
    .size = sizeof(host),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .option = host_option,
    .log = host_log,
};

/* The process ends with its parent, leaves no core file, and has its own signal mask. */
static void set_up_process(void)
{
    static const struct rlimit none = { 0, 0 };
    sigset_t empty;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    sigemptyset(&empty);
    sigprocmask(SIG_SETMASK, &empty, NULL);
    fcntl(to, F_SETFD, FD_CLOEXEC);
}

static void answer(const char *path)
{
    struct kal_answer *said = calloc(1, sizeof(*said));
    const struct ri_provider *loaded;
    struct ri_privileged_ops ops;
    bool shortage;

    if (!said)
        return;
    loaded = kal_load(path, said, &shortage);
    if (!loaded) {
        kal_answer_send_refusal(to, said);
        return;
    }
    kal_answer_take(said, loaded);
    kal_answer_send_identity(to, said); /* sent at once, because the provider may crash later */
    values = kal_values_of_interface(loaded->options, loaded->option_count);
    if (!values)
        return;
    ri_complete_privileged_ops(&ops, loaded->privileged);
    said->status = ops.enumerate(&host, kal_answer_device, said);
    if (!said->no_memory)
        kal_answer_send_devices(to, said);
}

int main(int argc, char **argv)
{
    if (argc != 3 || (to = atoi(argv[1])) < 3) {
        fprintf(stderr, "Usage: ital-ask FD FILE\n"
                        "The ital library runs this to ask a provider for its devices. 'itinfo "
                        "--why' shows the answers.\n");
        return 2;
    }
    set_up_process();
    answer(argv[2]);
    _exit(0); /* without the provider's destructors */
}
