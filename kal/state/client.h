/* SPDX-License-Identifier: BSD-3-Clause */
/* One client that asks for the state of the process: its request, its answer, its time. */
#ifndef ITAL_KAL_STATE_CLIENT_H
#define ITAL_KAL_STATE_CLIENT_H

#include "kal/registry/registry.h"

#include "formats/monitor.h"

/* A client that has not sent its request and read its answer by then is closed. */
#define KAL_STATE_CLIENT_NS (5 * CLOCK_NS_PER_S)

struct kal_state_client {
    int fd; /* -1: none */
    ino_t inode;
    uint64_t deadline;
    size_t got;   /* octets of the request */
    char *answer; /* NULL: the request is not complete */
    size_t length, sent;
    char request[MONITOR_REQUEST_MAX];
};

/* The events that poll is to wait for. */
short kal_state_client_events(const struct kal_state_client *client);
/* Reads or writes what it can without waiting. False: the client is done with. */
bool kal_state_client_go(struct kal_state_client *client, struct kal *kal, uint64_t opened);

#endif
