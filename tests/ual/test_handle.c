/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: a value that is not the handle of a live object is never accepted. */
#include "lane_fake.h"

#include "ual/mechanism/mechanism_private.h"
#include "ual/progress/descriptors.h"

#include <sys/wait.h>

#define SLOTS (1u << UAL_SLOT_BITS)

static uint32_t slot_of(ual_handle handle)
{
    return (uint32_t)(handle >> 4) & (SLOTS - 1);
}

START_TEST(only_the_right_handle_finds)
{
    struct ual_object object = { 0 };
    ual_handle handle;

    ok(ual_handle_take(&object, UAL_EP, NULL));
    handle = object.handle;
    ck_assert_uint_ne(handle, 0);
    ck_assert_ptr_eq(ual_lookup(handle, UAL_EP), &object);
    ck_assert_ptr_eq(ual_lookup_any(handle), &object);
    for (int type = 0; type < 16; type++)
        if (type != UAL_EP)
            ck_assert_ptr_null(ual_lookup(handle, (enum ual_type)type));
    /* One bit changed: another slot, generation or type. */
    for (unsigned int bit = 0; bit < 8 * sizeof(handle); bit++) {
        ual_handle wrong = handle ^ (ual_handle)1 << bit;

        ck_assert_ptr_null(ual_lookup(wrong, UAL_EP));
        ck_assert_ptr_null(ual_lookup(wrong, (enum ual_type)(wrong & 15)));
        ck_assert_ptr_null(ual_lookup_any(wrong));
    }
    ual_handle_drop(&object);
    ck_assert_ptr_null(ual_lookup(handle, UAL_EP));
    ck_assert_int_eq(ual_lookup_failed(), ITAL_ERR_INVALID_HANDLE);
}
END_TEST

START_TEST(null_and_garbage)
{
    struct tc_rng rng = tc_rng(1);

    for (int type = 0; type < 16; type++) {
        ck_assert_ptr_null(ual_lookup(0, (enum ual_type)type));
        ck_assert_ptr_null(ual_lookup(UINTPTR_MAX, (enum ual_type)type));
        ck_assert_ptr_null(ual_lookup((ual_handle)type, (enum ual_type)type)); /* slot 0 */
    }
    for (unsigned long i = 0; i < tc_count(100000); i++)
        ck_assert_ptr_null(ual_lookup_any((ual_handle)tc_rand(&rng)));
}
END_TEST

START_TEST(a_reused_slot_has_a_new_generation)
{
    struct ual_object object = { 0 };
    ual_handle before = 0;
    uint32_t slot = 0;

    for (int i = 0; i < 1000; i++) {
        ok(ual_handle_take(&object, UAL_PD, NULL));
        if (i > 0)
            ck_assert_uint_eq(slot_of(object.handle), slot);
        ck_assert_uint_ne(object.handle, before);
        ck_assert_ptr_null(ual_lookup(before, UAL_PD));
        ck_assert_ptr_eq(ual_lookup(object.handle, UAL_PD), &object);
        before = object.handle;
        slot = slot_of(before);
        ual_handle_drop(&object);
    }
}
END_TEST

START_TEST(context)
{
    struct ual_object object = { 0 };
    uint64_t value = 5;

    ck_assert(!ual_context_get(&object, &value));
    ck_assert_uint_eq(value, 5);
    ual_context_set(&object, 0);
    ck_assert(ual_context_get(&object, &value));
    ck_assert_uint_eq(value, 0);
}
END_TEST

START_TEST(the_table_runs_full)
{
    struct ual_object *objects = calloc(SLOTS, sizeof(*objects));
    ual_handle old;

    ck_assert_ptr_nonnull(objects);
    for (uint32_t i = 0; i < SLOTS - 1; i++)
        if (ual_handle_take(&objects[i], UAL_MR, NULL) != RI_OK)
            ck_abort_msg("refused after %u handles", i);
    fails(ual_handle_take(&objects[SLOTS - 1], UAL_MR, NULL), RI_ERR_NO_RESOURCES);
    for (uint32_t i = 0; i < SLOTS - 1; i++)
        if (ual_lookup(objects[i].handle, UAL_MR) != &objects[i])
            ck_abort_msg("handle %u does not find its object", i);
    old = objects[777].handle;
    ual_handle_drop(&objects[777]);
    ok(ual_handle_take(&objects[SLOTS - 1], UAL_MR, NULL));
    ck_assert_uint_eq(slot_of(objects[SLOTS - 1].handle), slot_of(old));
    ck_assert_ptr_null(ual_lookup(old, UAL_MR));
    free(objects);
}
END_TEST

START_TEST(X022_a_forked_child_is_dead)
{
    struct ual_object object = { 0 };
    int status, fds[2];
    pid_t child;

    ok(ual_fork_prepare());
    ok(ual_handle_take(&object, UAL_EVD, NULL));
    ck_assert_int_eq(pipe(fds), 0);
    ual_fd_track(fds[0]);
    child = fork();
    if (child == 0) {
        char octet;

        if (ual_lookup(object.handle, UAL_EVD) || ual_lookup_any(object.handle))
            _exit(1);
        if (ual_lookup_failed() != RI_ERR_DEVICE)
            _exit(2);
        if (read(fds[0], &octet, 1) != -1) /* tracked: closed here */
            _exit(3);
        _exit(write(fds[1], "x", 1) == 1 ? 0 : 4); /* not tracked */
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_ptr_eq(ual_lookup(object.handle, UAL_EVD), &object);
    ck_assert_int_eq(ual_lookup_failed(), ITAL_ERR_INVALID_HANDLE);
    ual_fd_forget(fds[0]);
}
END_TEST

/* --- threads --- */

#define THREADS 4
#define EACH    8

static struct ual_object crowd[THREADS][EACH];
static _Atomic ual_handle published[THREADS][EACH];
static atomic_bool stop;

static void *churn(void *arg)
{
    size_t me = (size_t)arg;
    struct tc_rng rng = tc_rng(me);

    for (unsigned long i = 0; i < tc_count(50000); i++) {
        size_t which = tc_below(&rng, EACH);
        struct ual_object *object = &crowd[me][which];
        ual_handle old = atomic_load(&published[me][which]);

        if (old) {
            ck_assert_ptr_eq(ual_lookup(old, UAL_EP), object);
            atomic_store(&published[me][which], 0);
            ual_handle_drop(object);
            ck_assert_ptr_null(ual_lookup(old, UAL_EP));
        } else {
            ok(ual_handle_take(object, UAL_EP, NULL));
            atomic_store(&published[me][which], object->handle);
        }
    }
    return NULL;
}

/* Whatever happens meanwhile, a lookup finds nothing or a live object. */
static void *look(void *arg)
{
    struct tc_rng rng = tc_rng(100);

    (void)arg;
    while (!atomic_load(&stop)) {
        size_t thread = tc_below(&rng, THREADS), which = tc_below(&rng, EACH);
        char *found = ual_lookup(atomic_load(&published[thread][which]), UAL_EP);

        ck_assert(!found || (found >= (char *)crowd && found < (char *)crowd + sizeof(crowd)));
    }
    return NULL;
}

START_TEST(concurrent_take_drop_lookup)
{
    pthread_t threads[THREADS], looker;

    pthread_create(&looker, NULL, look, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    pthread_join(looker, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handles find living objects only");
    TCase *tc = tc_case(suite, "table", NULL, NULL);

    tcase_set_timeout(tc, 60);
    tc_add_tests(tc, only_the_right_handle_finds, null_and_garbage,
                 a_reused_slot_has_a_new_generation, context, the_table_runs_full,
                 X022_a_forked_child_is_dead, concurrent_take_drop_lookup);
    return tc_main(suite);
}
