/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long kald takes to answer: TAKE of one more each time.
 *
 *     bench/daemon/roundtrip SOCKET [COUNT]     (default 20000)
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "formats/kald_socket.h"

#define COUNT_MOST 1000000ul

static int fail(const char *what)
{
    fprintf(stderr, "roundtrip: %s: %s\n", what, strerror(errno));
    return 1;
}

/* As the library does: sends, then sleeps in poll until there is something. */
static bool ask(int fd, const struct kald_message *question, struct kald_message *answer)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    enum kald_received got = KALD_NOTHING;

    if (!kald_send(fd, question, -1))
        return false;
    while (got == KALD_NOTHING || (got == KALD_GOT && answer->type != question->type)) {
        if (poll(&entry, 1, 10000) <= 0)
            return false;
        got = kald_receive(fd, true, answer, NULL);
    }
    return got == KALD_GOT;
}

static int by_time(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

int main(int count, char **words)
{
    static struct kald_message question = { .type = KALD_HELLO }, answer;
    unsigned long rounds = count > 2 ? strtoul(words[2], NULL, 10) : 20000;
    uint64_t total = 0, began;
    double *times;
    int fd;

    if (count < 2 || count > 3 || !rounds || rounds > COUNT_MOST) {
        fprintf(stderr, "usage: roundtrip SOCKET [COUNT]\n");
        return 2;
    }
    times = calloc(rounds, sizeof(*times));
    fd = kald_connect(words[1], NULL);
    if (!times || fd < 0 || !ask(fd, &question, &answer))
        return fail(words[1]);
    for (unsigned long i = 0; i < rounds; i++) {
        total++;
        question = (struct kald_message){
            .type = KALD_TAKE, .kind = POLICY_PINNED, .total = total, .least = total
        };
        began = clock_now();
        if (!ask(fd, &question, &answer) || answer.total != total)
            return fail("no answer, or a wrong one");
        times[i] = (double)(clock_now() - began) / 1000;
    }
    qsort(times, rounds, sizeof(*times), by_time);
    printf("{\"count\": %lu, \"median_us\": %.2f, \"p99_us\": %.2f, \"most_us\": %.2f}\n", rounds,
           times[rounds / 2], times[rounds - 1 - rounds / 100], times[rounds - 1]);
    free(times);
    close(fd);
    return 0;
}
