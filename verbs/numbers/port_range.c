/* SPDX-License-Identifier: BSD-3-Clause
 * Option port_range. */
#include "port_range.h"

#include <stdlib.h>

#define PORT_LEAST 1024u /* QPs of rdma_cm have the numbers below */

static bool parse_port(const char **text, uint16_t *port)
{
    char *end;
    unsigned long value;

    if (**text < '0' || **text > '9')
        return false;
    value = strtoul(*text, &end, 10);
    if (value < PORT_LEAST || value > UINT16_MAX)
        return false;
    *text = end;
    *port = (uint16_t)value;
    return true;
}

bool ports_parse_range(const char *text, uint16_t *low, uint16_t *high)
{
    uint16_t first, last;

    if (!parse_port(&text, &first) || *text++ != '-' || !parse_port(&text, &last) || *text ||
        last < first)
        return false;
    *low = first;
    *high = last;
    return true;
}
