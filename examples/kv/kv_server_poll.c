/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv_server_poll: the server that waits by poll(2), for programs that have other descriptors, too.
 *
 *     kv_server_poll [PORT]          (default 7474; ends by a signal)
 */
#include "kv_service.h"

#include <poll.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    it_evd_handle_t queues[KV_QUEUES];
    struct pollfd set[KV_QUEUES];
    int fds[KV_QUEUES];
    it_event_t event;

    kv_start(kv_open(), argc > 1 ? argv[1] : NULL, IT_EVD_CREATE_FD, NULL, queues, fds);
    for (int i = 0; i < KV_QUEUES; i++)
        set[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    while (poll(set, KV_QUEUES, -1) > 0) {
        /* Dequeue until the queue is empty: only then the descriptor is ready for poll again. */
        for (int i = 0; i < KV_QUEUES; i++)
            while (set[i].revents && it_evd_dequeue(queues[i], &event) == IT_SUCCESS)
                kv_handle(&event);
    }
    perror("kv_server_poll: poll");
    return 1;
}
