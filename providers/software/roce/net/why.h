/* SPDX-License-Identifier: BSD-3-Clause */
/* A sentence for the log: what failed, and what the user can do. */
#ifndef ITAL_SOFTROCE_WHY_H
#define ITAL_SOFTROCE_WHY_H

#include <stdio.h>

struct net_why {
    char text[256];
};

#define net_say(why, ...) ((void)snprintf((why)->text, sizeof((why)->text), __VA_ARGS__))

#endif
