/* SPDX-License-Identifier: BSD-3-Clause */
/* See pin_hold_fixture.h. */
#include "pin_hold_fixture.h"

#include <liburing.h>

long calls_left = -1;
atomic_int update_error, update_failures;
atomic_uint updates;

/* ---- the calls ---- */

static bool fails(void)
{
    if (calls_left < 0)
        return false;
    if (calls_left > 0) {
        calls_left--;
        return false;
    }
    calls_left = -1;
    return true;
}

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);

int __wrap_io_uring_setup(unsigned entries, struct io_uring_params *params);
int __wrap_io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

int __wrap_io_uring_setup(unsigned entries, struct io_uring_params *params)
{
    return fails() ? -EMFILE : __real_io_uring_setup(entries, params);
}

static bool pins_pages(unsigned opcode, const void *arg)
{
    const struct io_uring_rsrc_update2 *update = arg;

    return opcode == IORING_REGISTER_BUFFERS_UPDATE &&
           ((const struct iovec *)(uintptr_t)update->data)->iov_len;
}

int __wrap_io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count)
{
    if (pins_pages(opcode, arg)) {
        atomic_fetch_add(&updates, 1);
        if (atomic_load(&update_failures) > 0) {
            atomic_fetch_sub(&update_failures, 1);
            return -atomic_load(&update_error);
        }
    }
    /* Emptying a slot cannot fail, as far as the caller can help it */
    if ((opcode != IORING_REGISTER_BUFFERS_UPDATE || pins_pages(opcode, arg)) && fails())
        return -ENOMEM;
    return __real_io_uring_register(fd, opcode, arg, count);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

/* ---- what the tests do ---- */

void hold_setup(void)
{
    pin_setup();
    pin_use(KAL_PIN_HOLD);
    ck_assert_uint_eq(pin_rings(), 1);
    atomic_store(&updates, 0);
}

enum ri_status pin_at(const void *at, size_t length)
{
    return kal_pin(pins, at, length, false, &refusal);
}

void check_nothing_is_pinned(void)
{
    ck_assert_uint_eq(pins->used, 0);
    ck_assert_uint_eq(pins->blocks, 0);
    ck_assert_uint_eq(pins->live, 0);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
    pin_await_held(0);
}

bool why_says(const char *text)
{
    return strstr(refusal.why, text) != NULL;
}
