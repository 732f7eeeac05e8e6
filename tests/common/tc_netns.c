/* SPDX-License-Identifier: BSD-3-Clause */
#include "tc.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool ask(unsigned long what, struct ifreq *request)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && !ioctl(fd, what, request);

    if (fd >= 0)
        close(fd);
    return done;
}

bool tc_netns(void)
{
    struct ifreq request = { .ifr_name = "lo" };

    if (unshare(CLONE_NEWNET))
        return false;
    request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    return ask(SIOCSIFFLAGS, &request);
}

bool tc_label(bool there)
{
    struct ifreq request = { .ifr_name = "lo:1" };
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(TC_LABEL_ADDRESS) };

    if (!there)
        return ask(SIOCSIFFLAGS, &request); /* not IFF_UP: the address goes */
    memcpy(&request.ifr_addr, &address, sizeof(address));
    return ask(SIOCSIFADDR, &request);
}

bool tc_loopback_mtu(int mtu)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_mtu = mtu };

    return ask(SIOCSIFMTU, &request);
}

bool tc_is_member(uint32_t group)
{
    FILE *file = fopen("/proc/net/igmp", "r");
    char line[256], word[16];
    bool found = false;

    ck_assert_ptr_nonnull(file);
    snprintf(word, sizeof(word), "%08X", (unsigned int)htonl(group));
    while (fgets(line, sizeof(line), file))
        found |= strstr(line, word) != NULL;
    fclose(file);
    return found;
}
