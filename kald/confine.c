/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: gives up what it does not need. */
#include "kald.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifdef HAVE_LIBCAPNG
#include <cap-ng.h>
#endif
#if defined(HAVE_LIBSECCOMP) && !defined(ITAL_SANITIZERS)
#include <seccomp.h>
#endif

/* Ports below 1024, which are then the client's; the limits of other users' processes. */
static bool drop_capabilities(void)
{
#ifdef HAVE_LIBCAPNG
    static const unsigned needed[] = { CAP_NET_BIND_SERVICE, CAP_CHOWN, CAP_SYS_RESOURCE };
    bool has[sizeof(needed) / sizeof(*needed)];

    if (geteuid())
        return true;
    capng_get_caps_process();
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        has[i] = capng_have_capability(CAPNG_PERMITTED, needed[i]);
    capng_clear(CAPNG_SELECT_CAPS);
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        if (has[i])
            capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, needed[i]);
    if (capng_apply(CAPNG_SELECT_CAPS)) {
        kald_say(3, "capabilities cannot be given up");
        return false;
    }
#endif
    return true;
}

/* Calls that are not in the list fail with EPERM: the look-up of a user's name may try what it
 * does not need. */
static bool filter_calls(void)
{
#if defined(HAVE_LIBSECCOMP) && !defined(ITAL_SANITIZERS)
    static const char *const allowed[] = {
        "accept4",
        "access",
        "bind",
        "brk",
        "clock_gettime",
        "clock_nanosleep",
        "clone",
        "close",
        "connect",
        "dup",
        "epoll_ctl",
        "epoll_pwait",
        "epoll_wait",
        "exit",
        "exit_group",
        "faccessat",
        "faccessat2",
        "fchown",
        "fcntl",
        "fork",
        "fstat",
        "fstatfs",
        "futex",
        "getdents64",
        "getegid",
        "geteuid",
        "getgid",
        "getpid",
        "getrandom",
        "getsockname",
        "getsockopt",
        "gettid",
        "getuid",
        "inotify_add_watch",
        "ioctl",
        "listen",
        "lseek",
        "madvise",
        "memfd_create",
        "mmap",
        "mprotect",
        "mremap",
        "munmap",
        "newfstatat",
        "open",
        "openat",
        "pidfd_open",
        "pipe2",
        "poll",
        "ppoll",
        "pread64",
        "prlimit64",
        "read",
        "readlink",
        "readlinkat",
        "readv",
        "recvfrom",
        "recvmsg",
        "restart_syscall",
        "rseq",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "sendmmsg",
        "sendmsg",
        "sendto",
        "set_robust_list",
        "setsockopt",
        "shutdown",
        "sigreturn",
        "socket",
        "socketpair",
        "stat",
        "statfs",
        "statx",
        "sysinfo",
        "tgkill",
        "uname",
        "wait4",
        "write",
        "writev",
    };
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int error = filter ? 0 : -ENOMEM;

    for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed) && !error; i++) {
        int number = seccomp_syscall_resolve_name(allowed[i]);

        if (number != __NR_SCMP_ERROR)
            error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
        if (error == -EDOM || error == -EFAULT)
            error = 0; /* this machine has no such call */
    }
    if (!error)
        error = seccomp_load(filter);
    seccomp_release(filter);
    if (error) {
        kald_say(3, "the filter of system calls cannot be set: %s", strerror(-error));
        return false;
    }
#endif
    return true;
}

bool kald_confine(void)
{
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && drop_capabilities() && filter_calls();
}
