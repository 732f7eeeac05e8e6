/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator that fails on request; see shortage.h. */
#include "shortage.h"

#include "tc_allocator.h"

void shortage_needed(void)
{
    allocator_needed();
}

void shortage_arm(unsigned int which, bool again)
{
    allocator_arm(which, again ? ALLOCATOR_MULTIPLES : ALLOCATOR_ONE);
}

void shortage_disarm(void)
{
    allocator_disarm();
}

unsigned int shortage_made(void)
{
    return allocator_made();
}

/* --- calls --- */

#define ALLOCATIONS_MOST 10000u

static it_status_t one_call(const struct shortage_row *row, unsigned int which, bool again)
{
    it_status_t status;

    if (row->before)
        row->before();
    shortage_arm(which, again);
    status = row->call();
    shortage_disarm();
    ck_assert_msg(status == IT_SUCCESS || status == IT_ERR_RESOURCES,
                  "%s: allocation %u%s fails: %s", row->name, which,
                  again ? " and its multiples" : "", itx_status_name(status));
    if (row->after && (status == IT_SUCCESS || row->always))
        row->after();
    return status;
}

void shortage_run(const struct shortage_row *row)
{
    unsigned int refused = 0, which = 0;

    ok(one_call(row, 0, false)); /* no failure: one-time allocations are made here */
    do {
        which++;
        refused += one_call(row, which, true) != IT_SUCCESS;
        refused += one_call(row, which, false) != IT_SUCCESS;
    } while (shortage_made() >= which && which < ALLOCATIONS_MOST);
    ck_assert_msg(which < ALLOCATIONS_MOST, "%s never comes to an end", row->name);
    ck_assert_msg(refused > 0, "%s was never refused", row->name);
    ok(one_call(row, 0, false));
}

void shortage_add(TCase *tc, const TTest *test, const struct shortage_row *rows, int count)
{
    int interfaces = (int)fx_interfaces();

    for (int i = 0; i < interfaces; i++)
        for (int row = 0; row < count; row++)
            if ((fx_features(i) & rows[row].features) == rows[row].features)
                tcase_add_loop_test(tc, test, i * count + row, i * count + row + 1);
}
