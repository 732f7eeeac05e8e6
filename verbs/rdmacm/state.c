/* SPDX-License-Identifier: BSD-3-Clause
 * The states of an id, as one table. */
#include "cm.h"

/* Empty entries: a call fails with EINVAL; an upcall is ignored, because its connection has
 * ended. */
static const enum rcm_state next[RCM_STATES][RCM_INPUTS] = {
    [RCM_IDLE] = { [RCM_DO_BIND] = RCM_BOUND,
                   [RCM_DO_RESOLVE_ADDRESS] = RCM_ADDRESS,
                   [RCM_DO_LISTEN] = RCM_LISTENING },
    [RCM_BOUND] = { [RCM_DO_RESOLVE_ADDRESS] = RCM_ADDRESS, [RCM_DO_LISTEN] = RCM_LISTENING },
    [RCM_ADDRESS] = { [RCM_DO_RESOLVE_ROUTE] = RCM_ROUTE },
    [RCM_ROUTE] = { [RCM_DO_CONNECT] = RCM_CONNECTING },
    [RCM_CONNECTING] = { [RCM_ON_RESPONSE] = RCM_RESPONDED,
                         [RCM_ON_ESTABLISHED] = RCM_CONNECTED,
                         [RCM_ON_REFUSED] = RCM_FAILED,
                         [RCM_ON_END] = RCM_FAILED },
    [RCM_RESPONDED] = { [RCM_DO_ESTABLISH] = RCM_ESTABLISHING,
                        [RCM_DO_DISCONNECT] = RCM_DISCONNECTED,
                        [RCM_ON_REFUSED] = RCM_DISCONNECTED,
                        [RCM_ON_END] = RCM_DISCONNECTED },
    [RCM_ESTABLISHING] = { [RCM_ON_ESTABLISHED] = RCM_CONNECTED,
                           [RCM_ON_REFUSED] = RCM_DISCONNECTED,
                           [RCM_ON_END] = RCM_DISCONNECTED },
    [RCM_REQUESTED] = { [RCM_DO_ACCEPT] = RCM_ACCEPTING,
                        [RCM_DO_REJECT] = RCM_FAILED,
                        [RCM_ON_REFUSED] = RCM_FAILED,
                        [RCM_ON_END] = RCM_FAILED },
    [RCM_ACCEPTING] = { [RCM_ON_ESTABLISHED] = RCM_CONNECTED,
                        [RCM_ON_REFUSED] = RCM_FAILED,
                        [RCM_ON_END] = RCM_FAILED },
    [RCM_CONNECTED] = { [RCM_DO_DISCONNECT] = RCM_CLOSING,
                        [RCM_ON_REFUSED] = RCM_DISCONNECTED,
                        [RCM_ON_END] = RCM_DISCONNECTED },
    [RCM_CLOSING] = { [RCM_DO_DISCONNECT] = RCM_CLOSING,
                      [RCM_ON_REFUSED] = RCM_DISCONNECTED,
                      [RCM_ON_END] = RCM_DISCONNECTED },
    [RCM_DISCONNECTED] = { [RCM_DO_DISCONNECT] = RCM_DISCONNECTED },
};

bool rcm_step(struct rcm_id *id, enum rcm_input input, enum rcm_state *was)
{
    enum rcm_state to;

    pthread_mutex_lock(&id->lock);
    to = next[id->state][input];
    if (was)
        *was = id->state;
    if (to != RCM_NOWHERE)
        id->state = to;
    pthread_mutex_unlock(&id->lock);
    return to != RCM_NOWHERE;
}

void rcm_step_back(struct rcm_id *id, enum rcm_state state)
{
    pthread_mutex_lock(&id->lock);
    id->state = state;
    pthread_mutex_unlock(&id->lock);
}

enum rcm_state rcm_state(struct rcm_id *id)
{
    enum rcm_state state;

    pthread_mutex_lock(&id->lock);
    state = id->state;
    pthread_mutex_unlock(&id->lock);
    return state;
}
