/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: what an error number of a socket means, and what the user can do. */
#include "cm.h"

#include "base/compiler.h"

#include <errno.h>

static const struct cm_error table[] = {
    { ECONNREFUSED, RI_ERR_INVALID_ARGUMENT, RI_REASON_REFUSED,
      "nobody listens there; start the server, or correct address and port", NULL },
    { ETIMEDOUT, RI_ERR_TIMED_OUT, RI_REASON_TIMEOUT,
      "check that the host is up and no firewall drops the port", NULL },
    { ENETUNREACH, RI_ERR_UNREACHABLE, RI_REASON_UNREACHABLE,
      "check the address and the routes of this host", NULL },
    { EHOSTUNREACH, RI_ERR_UNREACHABLE, RI_REASON_UNREACHABLE,
      "check the address and that the host is up", NULL },
    { ENETDOWN, RI_ERR_UNREACHABLE, RI_REASON_UNREACHABLE, "bring the network interface up", NULL },
    { EADDRNOTAVAIL, RI_ERR_UNREACHABLE, RI_REASON_UNREACHABLE,
      "check the source address and that local ports are free", "use an address of this host" },
    { EAFNOSUPPORT, RI_ERR_UNREACHABLE, RI_REASON_OTHER, "this host has no such address family",
      NULL },
    { ENODEV, RI_ERR_UNREACHABLE, RI_REASON_OTHER, "the scope of the address names no interface",
      NULL },
    { EINVAL, RI_ERR_INVALID_ARGUMENT, RI_REASON_OTHER,
      "a link-local address needs its scope (%interface)", NULL },
    { EADDRINUSE, RI_ERR_ADDRESS_IN_USE, RI_REASON_OTHER, "choose another source port, or none",
      "choose another port, or end the program that listens there" },
    { EBADF, RI_ERR_INVALID_ARGUMENT, RI_REASON_OTHER,
      "leave the descriptors of the service manager open", NULL },
    { ECONNRESET, RI_ERR_INVALID_ARGUMENT, RI_REASON_OTHER, "look at the peer's log", NULL },
    { EPIPE, RI_ERR_INVALID_ARGUMENT, RI_REASON_OTHER, "look at the peer's log", NULL },
    { EPERM, RI_ERR_PERMISSION, RI_REASON_POLICY, "a firewall rule of this host refuses", NULL },
    { EACCES, RI_ERR_PERMISSION, RI_REASON_POLICY, "a rule of this host refuses",
      "choose a port above 1023, or ask root to allow it (kald(8))" },
    { ENOMEM, RI_ERR_NO_RESOURCES, RI_REASON_RESOURCES, "free memory", NULL },
    { ENOBUFS, RI_ERR_NO_RESOURCES, RI_REASON_RESOURCES, "free memory", NULL },
    { EMFILE, RI_ERR_NO_RESOURCES, RI_REASON_RESOURCES, "raise the limit on open files (ulimit -n)",
      NULL },
    { ENFILE, RI_ERR_NO_RESOURCES, RI_REASON_RESOURCES,
      "raise the system's limit on open files (fs.file-max)", NULL },
};

struct cm_error cm_error_of(int error)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (table[i].error == error)
            return table[i];
    return (struct cm_error){ 0, RI_ERR_INVALID_ARGUMENT, RI_REASON_OTHER,
                              "look at the peer's log and the network", "free memory" };
}
