/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages of received datagrams and of the error queue. Pure functions over octets. */
#ifndef ITAL_SOFTROCE_CONTROL_H
#define ITAL_SOFTROCE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_ROOM 128u /* octets that all of them take together */

/* What is absent is 0. */
struct control {
    uint32_t segment;  /* UDP_GRO: octets of each packet but the last */
    uint32_t overflow; /* SO_RXQ_OVFL: datagrams that the socket has dropped so far */
    bool has_overflow;
    uint8_t traffic_class;
    uint8_t hop_limit;
};
void control_read(const void *control, size_t len, struct control *out);

struct control_error {
    int error;
    bool local; /* of the own IP layer, not of an ICMP message */
    uint32_t info;
};
/* False: no error stands there. */
bool control_read_error(const void *control, size_t len, struct control_error *out);

#endif
