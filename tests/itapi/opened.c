/* SPDX-License-Identifier: BSD-3-Clause */
/* The node and the pair of a program: see opened.h. */
#include "opened.h"

struct node node;
struct pair pair;

void fx_close(void)
{
    struct node *const all[] = { &pair.a, &pair.b, &node };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]->ia)
            node_close(all[i]);
}
