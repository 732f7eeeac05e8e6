/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cost of the policy call where no rules are loaded: one function makes the call, a second one is
 * the same without it. Run it by `make bench-cost`; without callgrind it runs its rounds and counts
 * nothing.
 */
#include <stdio.h>

#include "kal/host/host.h"
#include "tests/common/callgrind.h"

#define ROUNDS 1000

static struct kal_rnic rnic;

static volatile int connects;

static void connect_to(void)
{
    connects++;
}

static void (*volatile go_on)(void) = connect_to;

/* Like the callers in the connection manager, this function makes other calls too. */
static __attribute__((noinline)) int asks(void)
{
    go_on();
    if (kal_rnic_policy(&rnic, RI_POLICY_CONNECT, NULL, NULL) != RI_OK)
        return -1;
    go_on();
    return 0;
}

static __attribute__((noinline)) int asks_not(void)
{
    go_on();
    go_on();
    return 0;
}

int main(void)
{
    int result = 0;

    CALLGRIND_ZERO_STATS;
    for (int i = 0; i < ROUNDS; i++)
        result += asks();
    CALLGRIND_DUMP_STATS_AT("policy_asked:1000");
    CALLGRIND_ZERO_STATS;
    for (int i = 0; i < ROUNDS; i++)
        result += asks_not();
    CALLGRIND_DUMP_STATS_AT("policy_site/policy_asked/1:1000");
    CALLGRIND_ZERO_STATS;
    printf("%d connects, %d refused\n", connects, -result);
    return 0;
}
