/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv_server_aevd: the server that waits for an aggregate EVD, which collects its three queues.
 *
 *     kv_server_aevd [PORT]          (default 7474; ends by a signal)
 */
#include "kv_service.h"

#include <stddef.h>

int main(int argc, char **argv)
{
    it_ia_handle_t ia = kv_open();
    it_evd_handle_t aevd, queues[KV_QUEUES];
    it_event_t event;

    /* Without IT_EVD_DEQUEUE_NOTIFICATIONS it gives the events of its members, one by one. */
    kv_check(it_evd_create(ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, (it_evd_flags_t)0, 0,
                           IT_THRESHOLD_DISABLE, NULL, &aevd, NULL),
             "making the aggregate event queue");
    kv_start(ia, argc > 1 ? argv[1] : NULL, (it_evd_flags_t)0, aevd, queues, NULL);
    for (;;) {
        kv_check(it_evd_wait(aevd, IT_TIMEOUT_INFINITE, &event, NULL), "waiting for an event");
        kv_handle(&event);
    }
}
