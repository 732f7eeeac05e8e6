/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A link that loses: packets between the devices of two network namespaces, a share of which is
 * dropped in each direction.
 *
 *   lossy NAMESPACE NAMESPACE PERCENT [MTU [REORDER [DOUBLE [DELAY]]]]
 *
 * such as /run/netns/a /run/netns/b 0.1. Makes a device "lossy0" in each (TUN, the MTU is 1500 if
 * not given), prints "ready", and forwards until it is ended by a signal: then it prints how many
 * packets it has forwarded and dropped. REORDER % of the packets come behind the next one of their
 * direction, or a millisecond later; DOUBLE % come twice; each read waits DELAY microseconds. The
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

struct link {
    uint64_t loss, reorder, twice; /* of 2^32 */
    useconds_t delay;
};

struct side {
    char held[65536]; /* comes behind the next one */
    ssize_t held_length;
};

/* True for `threshold` of 2^32 calls; xorshift of 64 bits. */
static int happens(uint64_t threshold)
{
    static uint64_t random = UINT64_C(0x9E3779B97F4A7C15);

    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random >> 32 < threshold;
}

static void put(int to, const char *packet, ssize_t length)
{
    if (write(to, packet, (size_t)length) != length)
        dropped++;
    else
        forwarded++;
}

static void let_go(struct side *side, int to)
{
    if (side->held_length)
        put(to, side->held, side->held_length);
    side->held_length = 0;
}

/* Some of what has come. */
static void forward(int from, int to, const struct link *link, struct side *side)
{
    static char packet[65536];

    if (link->delay)
        usleep(link->delay);
    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        ssize_t length = read(from, packet, sizeof(packet));

        if (length <= 0)
            return;
        if (happens(link->loss)) {
            dropped++;
        } else if (link->reorder && !side->held_length && happens(link->reorder)) {
            memcpy(side->held, packet, (size_t)length);
            side->held_length = length;
        } else {
            put(to, packet, length);
            if (link->twice && happens(link->twice))
                put(to, packet, length);
            let_go(side, to);
        }
    }
}

_Noreturn static void usage(void)
{
    fprintf(stderr, "usage: lossy NAMESPACE NAMESPACE PERCENT [MTU [REORDER [DOUBLE [DELAY]]]]\n");
    exit(2);
}

static uint64_t share(int argc, char **argv, int at)
{
    double percent = argc > at ? atof(argv[at]) : 0;

    if (percent < 0 || percent > 100)
        usage();
    return (uint64_t)(percent / 100 * 4294967296.0);
}

/* Until a signal comes. What is held goes after a millisecond without others. */
static void run(struct pollfd side[2], const struct link *link)
{
    static struct side sides[2];

    while (!over) {
        int held = sides[0].held_length || sides[1].held_length;
        int ready = poll(side, 2, held ? 1 : -1);

        if (ready < 0 && errno != EINTR)
            die("poll");
        for (int i = 0; i < 2 && !over; i++) {
            if (!ready)
                let_go(&sides[i], side[!i].fd);
            else if (ready > 0 && side[i].revents)
                forward(side[i].fd, side[!i].fd, link, &sides[i]);
        }
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = end };
    struct pollfd side[2] = { { .events = POLLIN }, { .events = POLLIN } };
    struct link link = { .loss = share(argc, argv, 3),
                         .reorder = share(argc, argv, 5),
                         .twice = share(argc, argv, 6),
                         .delay = argc > 7 ? (useconds_t)atoi(argv[7]) : 0 };

    if (argc < 4 || argc > 8)
        usage();
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    for (int i = 0; i < 2; i++)
        side[i].fd = device_in(argv[1 + i], argc > 4 ? atoi(argv[4]) : 1500);
    puts("ready");
    fflush(stdout);
    run(side, &link);
    printf("%llu forwarded, %llu dropped\n", forwarded, dropped);
    return 0;
}
