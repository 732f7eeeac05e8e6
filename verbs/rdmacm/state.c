/* SPDX-License-Identifier: BSD-3-Clause
 * The states of an id, as one table. */
#include "cm.h"

/* Empty entries: a call fails with EINVAL; an upcall is ignored, because its connection has
 * ended. */
static const enum cm_state next[CM_STATES][CM_INPUTS] = {
    [CM_IDLE] = { [CM_DO_BIND] = CM_BOUND,
                  [CM_DO_RESOLVE_ADDRESS] = CM_ADDRESS,
                  [CM_DO_LISTEN] = CM_LISTENING },
    [CM_BOUND] = { [CM_DO_RESOLVE_ADDRESS] = CM_ADDRESS, [CM_DO_LISTEN] = CM_LISTENING },
    [CM_ADDRESS] = { [CM_DO_RESOLVE_ROUTE] = CM_ROUTE },
    [CM_ROUTE] = { [CM_DO_CONNECT] = CM_CONNECTING },
    [CM_CONNECTING] = { [CM_ON_RESPONSE] = CM_RESPONDED,
                        [CM_ON_ESTABLISHED] = CM_CONNECTED,
                        [CM_ON_REFUSED] = CM_FAILED,
                        [CM_ON_END] = CM_FAILED },
    [CM_RESPONDED] = { [CM_DO_ESTABLISH] = CM_ESTABLISHING,
                       [CM_DO_DISCONNECT] = CM_DISCONNECTED,
                       [CM_ON_REFUSED] = CM_DISCONNECTED,
                       [CM_ON_END] = CM_DISCONNECTED },
    [CM_ESTABLISHING] = { [CM_ON_ESTABLISHED] = CM_CONNECTED,
                          [CM_ON_REFUSED] = CM_DISCONNECTED,
                          [CM_ON_END] = CM_DISCONNECTED },
    [CM_REQUESTED] = { [CM_DO_ACCEPT] = CM_ACCEPTING,
                       [CM_DO_REJECT] = CM_FAILED,
                       [CM_ON_REFUSED] = CM_FAILED,
                       [CM_ON_END] = CM_FAILED },
    [CM_ACCEPTING] = { [CM_ON_ESTABLISHED] = CM_CONNECTED,
                       [CM_ON_REFUSED] = CM_FAILED,
                       [CM_ON_END] = CM_FAILED },
    [CM_CONNECTED] = { [CM_DO_DISCONNECT] = CM_CLOSING,
                       [CM_ON_REFUSED] = CM_DISCONNECTED,
                       [CM_ON_END] = CM_DISCONNECTED },
    [CM_CLOSING] = { [CM_DO_DISCONNECT] = CM_CLOSING,
                     [CM_ON_REFUSED] = CM_DISCONNECTED,
                     [CM_ON_END] = CM_DISCONNECTED },
    [CM_DISCONNECTED] = { [CM_DO_DISCONNECT] = CM_DISCONNECTED },
};

bool cm_step(struct cm_id *id, enum cm_input input, enum cm_state *was)
{
    enum cm_state to;

    pthread_mutex_lock(&id->lock);
    to = next[id->state][input];
    if (was)
        *was = id->state;
    if (to != CM_NOWHERE)
        id->state = to;
    pthread_mutex_unlock(&id->lock);
    return to != CM_NOWHERE;
}

void cm_step_back(struct cm_id *id, enum cm_state state)
{
    pthread_mutex_lock(&id->lock);
    id->state = state;
    pthread_mutex_unlock(&id->lock);
}

enum cm_state cm_state(struct cm_id *id)
{
    enum cm_state state;

    pthread_mutex_lock(&id->lock);
    state = id->state;
    pthread_mutex_unlock(&id->lock);
    return state;
}
