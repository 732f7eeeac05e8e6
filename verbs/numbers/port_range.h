/* SPDX-License-Identifier: BSD-3-Clause
 * Option port_range: the TCP ports from which QP numbers are made. */
#ifndef ITAL_VERBS_NUMBERS_PORT_RANGE_H
#define ITAL_VERBS_NUMBERS_PORT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Parses "LOW-HIGH", both at least 1024. False: *low and *high are unchanged. Pure. */
bool ports_parse_range(const char *text, uint16_t *low, uint16_t *high);

#endif
