/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator that fails on request; see shortage.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "shortage.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool armed;
static atomic_uint made;    /* allocations since it was armed */
static atomic_uint fail_at; /* that one ... */
static atomic_bool repeat;  /* ... and each of its multiples */

void shortage_arm(unsigned int which, bool again)
{
    atomic_store(&made, 0);
    atomic_store(&fail_at, which);
    atomic_store(&repeat, again);
    atomic_store(&armed, true);
}

void shortage_disarm(void)
{
    atomic_store(&armed, false);
}

unsigned int shortage_made(void)
{
    return atomic_load(&made);
}

#if defined(__GLIBC__) && !defined(ITAL_SANITIZERS)
#define STANDS_BEFORE __attribute__((visibility("default"))) /* programs hide symbols */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool fails_now(void)
{
    unsigned int number, which = atomic_load(&fail_at);

    if (!atomic_load(&armed))
        return false;
    number = atomic_fetch_add(&made, 1) + 1;
    if (number != which && !(atomic_load(&repeat) && number % which == 0))
        return false;
    errno = ENOMEM;
    return true;
}

STANDS_BEFORE void *malloc(size_t size)
{
    return fails_now() ? NULL : __libc_malloc(size);
}

STANDS_BEFORE void *calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __libc_calloc(count, size);
}

STANDS_BEFORE void *realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __libc_realloc(old, size);
}

void shortage_needed(void)
{
}
#else
void shortage_needed(void)
{
    tc_skip("the allocator is the sanitizer's, or not glibc's");
}
#endif

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
