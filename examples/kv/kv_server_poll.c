/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv_server_poll: the server that waits by poll(2), for programs that have other descriptors, too.
 *
 *     kv_server_poll [PORT]          (default 7474; ends by a signal)
 */
#include "kv_service.h"

#include <poll.h>
#include <stdio.h>

/* Events of one queue before the next one has its turn. */
#define BATCH 64

/* Bounded, because an event that is handled can bring the next one. A queue that is not empty keeps
 * its descriptor readable. */
static void take(it_evd_handle_t queue)
{
    it_event_t event;

    for (int i = 0; i < BATCH && it_evd_dequeue(queue, &event) == IT_SUCCESS; i++)
        kv_handle(&event);
}

int main(int argc, char **argv)
{
    it_evd_handle_t queues[KV_QUEUES];
    struct pollfd set[KV_QUEUES];
    int fds[KV_QUEUES];

    kv_start(kv_open(), argc > 1 ? argv[1] : NULL, IT_EVD_CREATE_FD, NULL, queues, fds);
    for (int i = 0; i < KV_QUEUES; i++)
        set[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    while (poll(set, KV_QUEUES, -1) > 0) {
        for (int i = 0; i < KV_QUEUES; i++)
            if (set[i].revents)
                take(queues[i]);
    }
    perror("kv_server_poll: poll");
    return 1;
}
