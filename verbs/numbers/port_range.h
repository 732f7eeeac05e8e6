/* SPDX-License-Identifier: BSD-3-Clause
 * Option port_range: the TCP ports that QP numbers begin with. */
#ifndef ITAL_VERBS_NUMBERS_PORT_RANGE_H
#define ITAL_VERBS_NUMBERS_PORT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* "LOW-HIGH", both from 1024 on; false: *low and *high are untouched. Pure. */
bool ports_parse_range(const char *text, uint16_t *low, uint16_t *high);

#endif
