/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A link that loses: packets between the devices of two network namespaces, a share of which is
 * dropped in each direction.
 *
 *   lossy NAMESPACE NAMESPACE PERCENT [MTU]     such as /run/netns/a /run/netns/b 0.1
 *
 * Makes a device "lossy0" in each (TUN, the MTU is 1500 if not given), prints "ready", and forwards
 * until it is ended by a signal: then it prints how many packets it has forwarded and dropped. The
 * caller gives the devices their addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKETS_AT_ONCE 64

static volatile sig_atomic_t over;
static unsigned long long forwarded, dropped;

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "lossy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void end(int number)
{
    (void)number;
    over = 1;
}

static void set_mtu(int mtu)
{
    struct ifreq request = { .ifr_name = "lossy0", .ifr_mtu = mtu };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFMTU, &request))
        die("the MTU");
    close(fd);
}

static int device_in(const char *namespace, int mtu)
{
    struct ifreq request = { .ifr_name = "lossy0", .ifr_flags = IFF_TUN | IFF_NO_PI };
    int space = open(namespace, O_RDONLY | O_CLOEXEC), fd;

    if (space < 0 || setns(space, CLONE_NEWNET))
        die(namespace);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
        die("/dev/net/tun");
    set_mtu(mtu);
    close(space);
    return fd;
}

/* Some of what has come. `threshold` of 2^32 packets are dropped, by xorshift of 64 bits. */
static void forward(int from, int to, uint64_t threshold)
{
    static uint64_t random = UINT64_C(0x9E3779B97F4A7C15);
    static char packet[65536];

    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        ssize_t length = read(from, packet, sizeof(packet));

        if (length <= 0)
            return;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (random >> 32 < threshold || write(to, packet, (size_t)length) != length)
            dropped++;
        else
            forwarded++;
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = end };
    struct pollfd side[2] = { { .events = POLLIN }, { .events = POLLIN } };
    double percent = argc > 3 ? atof(argv[3]) : -1;

    if (argc < 4 || argc > 5 || percent < 0 || percent > 100) {
        fprintf(stderr, "usage: lossy NAMESPACE NAMESPACE PERCENT [MTU]\n");
        return 2;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    for (int i = 0; i < 2; i++)
        side[i].fd = device_in(argv[1 + i], argc > 4 ? atoi(argv[4]) : 1500);
    puts("ready");
    fflush(stdout);
    while (!over) {
        if (poll(side, 2, -1) < 0 && errno != EINTR)
            die("poll");
        for (int i = 0; i < 2 && !over; i++)
            if (side[i].revents)
                forward(side[i].fd, side[!i].fd, (uint64_t)(percent / 100 * 4294967296.0));
    }
    printf("%llu forwarded, %llu dropped\n", forwarded, dropped);
    return 0;
}
