/* SPDX-License-Identifier: BSD-3-Clause */
/* The node and the pair of a program: see opened.h. */
#include "opened.h"

struct node node;
struct pair pair;

void fx_close(void)
{
    pair_close(&pair);
    node_close(&node);
}
