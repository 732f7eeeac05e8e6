/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts, PDs, regions and device memory that are imported within a process: they are the same
 * objects, each structure ends by itself, and what was destroyed by one is dead for the others. A
 * context of another process is refused, with the reason.
 */
#include "log_lines.h"
#include "verbs_pair.h"

#include <fcntl.h>
#include <sys/wait.h>

#define LENGTH 300u
#define ALL    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void set_up(void)
{
    pair_open(false, false);
}

static struct ibv_context *import(const struct ibv_context *context)
{
    struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));

    ck_assert_ptr_nonnull(imported);
    ck_assert_ptr_ne(imported, context);
    ck_assert_int_eq(imported->num_comp_vectors, context->num_comp_vectors);
    return imported;
}

/* --- objects --- */

/* The queue pair of one side is of the imported context, over an imported PD; the data moves from
 * and to imported regions. */
START_TEST(imported_objects_carry_traffic)
{
    struct ibv_context *imported = import(pair.context);
    struct ibv_pd *pd = ibv_import_pd(imported, pair.pd->handle);
    struct ibv_mr *mr = ibv_import_mr(pd, a->mr->handle), *own = a->mr;
    struct ibv_cq *cq = ibv_create_cq(imported, 16, NULL, NULL, 0), *usual = a->cq;
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
    };
    struct ibv_send_wr wr;
    struct ibv_sge sge;

    ck_assert(pd && mr && cq);
    ck_assert_ptr_eq(mr->context, imported);
    ck_assert_ptr_eq(mr->pd, pd);
    ck_assert_ptr_null(mr->addr);
    ck_assert_uint_eq(mr->lkey, own->lkey);
    ck_assert_uint_eq(mr->rkey, own->rkey);
    ck_assert_uint_eq(mr->length, own->length);
    ck_assert_int_eq(ibv_destroy_qp(a->qp), 0);
    a->qp = ibv_create_qp(pd, &init);
    ck_assert_ptr_nonnull(a->qp);
    a->cq = cq;
    a->mr = mr;
    pair_connect();
    for (uint32_t i = 0; i < LENGTH; i++)
        a->memory[i] = (uint8_t)(3 * i + 1);
    wr = pair_request(a, IBV_WR_RDMA_WRITE, &sge, 0, LENGTH);
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = b->mr->rkey;
    pair_do(a, &wr);
    wr = pair_request(a, IBV_WR_RDMA_READ, &sge, LENGTH, LENGTH);
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = b->mr->rkey;
    pair_do(a, &wr);
    ck_assert_mem_eq(a->memory + LENGTH, a->memory, LENGTH);
    ck_assert_int_eq(ibv_destroy_qp(a->qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(cq), 0);
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    ck_assert_int_eq(ibv_close_device(imported), 0);
    init.send_cq = init.recv_cq = a->cq = usual;
    a->mr = own;
    a->qp = ibv_create_qp(pair.pd, &init);
    ck_assert_ptr_nonnull(a->qp);
}
END_TEST

START_TEST(an_unimported_object_stays)
{
    struct ibv_pd *pd = ibv_import_pd(pair.context, pair.pd->handle);
    struct ibv_mr *mr = ibv_import_mr(pd, a->mr->handle);

    ck_assert(pd && mr);
    ibv_unimport_mr(mr);
    mr = ibv_import_mr(pd, a->mr->handle);
    ck_assert_ptr_nonnull(mr);
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    pd = ibv_import_pd(pair.context, pair.pd->handle);
    ck_assert_ptr_nonnull(pd);
    ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY); /* it has regions */
    ibv_unimport_pd(pd);
}
END_TEST

/* Any structure of an object may destroy it; the others can then be unimported only. */
START_TEST(a_destroyed_object_is_dead_for_the_others)
{
    struct ibv_pd *pd = ibv_alloc_pd(pair.context), *second, *third;
    struct ibv_mr *mr, *imported;
    uint32_t mr_handle, pd_handle;

    ck_assert_ptr_nonnull(pd);
    pd_handle = pd->handle;
    mr = ibv_reg_mr(pd, a->memory, LENGTH, ALL);
    ck_assert_ptr_nonnull(mr);
    mr_handle = mr->handle;
    imported = ibv_import_mr(pd, mr_handle);
    ck_assert_ptr_nonnull(imported);
    ck_assert_int_eq(ibv_dereg_mr(imported), 0);
    ck_assert_int_eq(ibv_dereg_mr(mr), EINVAL);
    ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    refused(ibv_import_mr(pd, mr_handle), EINVAL);
    ibv_unimport_mr(mr);

    second = ibv_import_pd(pair.context, pd_handle);
    third = ibv_import_pd(pair.context, pd_handle);
    ck_assert(second && third);
    ck_assert_int_eq(ibv_dealloc_pd(second), 0);
    ck_assert_int_eq(ibv_dealloc_pd(pd), EINVAL);
    refused(ibv_import_pd(pair.context, pd_handle), EINVAL);
    ibv_unimport_pd(pd);
    ibv_unimport_pd(third);
}
END_TEST

/* A region over other memory is another object: the import of the earlier one is dead, and no
 * import frees the new one. */
START_TEST(a_region_with_other_memory_is_another_one)
{
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, a->memory, LENGTH, ALL), *imported, *again;

    ck_assert_ptr_nonnull(mr);
    imported = ibv_import_mr(pair.pd, mr->handle);
    ck_assert_ptr_nonnull(imported);
    ck_assert_int_eq(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->memory, 2 * LENGTH, 0), 0);
    ck_assert_int_eq(ibv_dereg_mr(imported), EINVAL);
    again = ibv_import_mr(pair.pd, mr->handle);
    ck_assert_ptr_nonnull(again);
    ck_assert_uint_eq(again->length, 2 * LENGTH);
    ibv_unimport_mr(again);
    ibv_unimport_mr(imported);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

START_TEST(imported_device_memory_is_the_same)
{
    struct ibv_context *imported = import(pair.context);
    struct ibv_alloc_dm_attr attr = { .length = 64 };
    struct ibv_dm *dm = ibv_alloc_dm(pair.context, &attr), *second;
    uint32_t word = 0x12345678, read = 0, handle;

    ck_assert_ptr_nonnull(dm);
    handle = dm->handle;
    second = ibv_import_dm(imported, handle);
    ck_assert_ptr_nonnull(second);
    ck_assert_int_eq(ibv_memcpy_to_dm(second, 4, &word, 4), 0);
    ck_assert_int_eq(ibv_memcpy_from_dm(&read, dm, 4, 4), 0);
    ck_assert_uint_eq(read, word);
    ck_assert_int_eq(ibv_free_dm(dm), 0);
    ck_assert_int_eq(ibv_free_dm(second), EINVAL);
    refused(ibv_import_dm(imported, handle), EINVAL);
    ibv_unimport_dm(second);
    ck_assert_int_eq(ibv_close_device(imported), 0);
}
END_TEST

START_TEST(handles_that_are_not_there_are_refused)
{
    struct ibv_context *other = pair_open_context();
    struct ibv_pd *stranger = ibv_alloc_pd(other), *pd = ibv_alloc_pd(pair.context);

    ck_assert(stranger && pd);
    refused(ibv_import_pd(pair.context, UINT32_MAX), EINVAL);
    refused(ibv_import_mr(pair.pd, UINT32_MAX), EINVAL);
    refused(ibv_import_dm(pair.context, UINT32_MAX), EINVAL);
    refused(ibv_import_pd(other, pair.pd->handle), EINVAL); /* of another context */
    refused(ibv_import_mr(pd, a->mr->handle), EINVAL);      /* of another PD */
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    ck_assert_int_eq(ibv_dealloc_pd(stranger), 0);
    ck_assert_int_eq(ibv_close_device(other), 0);
}
END_TEST

/* --- contexts --- */

/* The context that was opened may be closed before the imported ones. */
START_TEST(an_imported_context_outlives_the_opened_one)
{
    struct ibv_context *opened = pair_open_context(), *first = import(opened),
                       *second = import(first);
    int duplicate = dup(opened->cmd_fd);
    struct ibv_pd *pd;
    struct ibv_cq *cq;

    ck_assert_int_ge(duplicate, 0);
    ck_assert_int_eq(ibv_close_device(opened), 0);
    ck_assert_int_eq(ibv_close_device(first), 0);
    pd = ibv_alloc_pd(second);
    cq = ibv_create_cq(second, 4, NULL, NULL, 0);
    ck_assert(pd && cq);
    ck_assert_int_eq(ibv_destroy_cq(cq), 0);
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    ck_assert_int_eq(ibv_close_device(second), 0);
    log_capture();
    refused(ibv_import_device(duplicate), EINVAL);
    log_await("is closed");
    ck_assert_int_eq(close(duplicate), 0);
}
END_TEST

/* Closing an imported context closes the descriptor that was given. */
START_TEST(a_closed_import_takes_its_descriptor_along)
{
    int given = dup(pair.context->cmd_fd);
    struct ibv_context *imported = ibv_import_device(given);

    ck_assert_ptr_nonnull(imported);
    ck_assert_int_eq(imported->cmd_fd, given);
    ck_assert_int_ne(imported->async_fd, pair.context->async_fd);
    ck_assert_int_eq(ibv_close_device(imported), 0);
    errno = 0;
    ck_assert_int_eq(fcntl(given, F_GETFD), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_ge(fcntl(pair.context->cmd_fd, F_GETFD), 0);
}
END_TEST

START_TEST(other_descriptors_are_refused)
{
    int null = open("/dev/null", O_RDONLY);

    ck_assert_int_ge(null, 0);
    log_capture();
    refused(ibv_import_device(-1), EBADF);
    refused(ibv_import_device(null), EINVAL);
    log_await("is not cmd_fd of a context");
    refused(ibv_import_device(pair.context->async_fd), EINVAL);
    ck_assert_int_eq(close(null), 0);
}
END_TEST

/* The child has the descriptor, and what was opened is its parent's. The log says so once. */
START_TEST(a_context_of_another_process_is_refused_with_the_reason)
{
    char said[64];
    int status;
    pid_t child;

    snprintf(said, sizeof(said), "is of process %ld", (long)getpid());
    log_capture();
    child = fork();
    if (child == 0) {
        errno = 0;
        for (int i = 0; i < 2; i++)
            if (ibv_import_device(pair.context->cmd_fd) || errno != EOPNOTSUPP)
                _exit(1);
        _exit(0);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_null(strstr(strstr(log_await(said), said) + 1, said));
}
END_TEST

/* Each context of the device hears of an address. */
static void expect_gid_change(struct ibv_context *context)
{
    struct ibv_async_event event = pair_async_event(context);

    ck_assert_int_eq(event.event_type, IBV_EVENT_GID_CHANGE);
    ibv_ack_async_event(&event);
}

START_TEST(an_event_of_the_device_is_told_to_each_context)
{
    struct ibv_context *opened, *imported;

    if (!tc_netns())
        tc_skip("a network name space cannot be made here");
#ifndef HAVE_LIBMNL
    tc_skip("built without libmnl");
#endif
    opened = pair_open_context();
    imported = import(opened);
    ck_assert(tc_label(true));
    expect_gid_change(imported);
    expect_gid_change(opened);
    ck_assert_int_eq(ibv_close_device(imported), 0);
    ck_assert(tc_label(false));
    expect_gid_change(opened);
    ck_assert_int_eq(ibv_close_device(opened), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libibverbs: imports");
    TCase *tc = tc_case(suite, "imports", set_up, pair_close);

    tc_add_tests(
        tc, imported_objects_carry_traffic, an_unimported_object_stays,
        a_destroyed_object_is_dead_for_the_others, a_region_with_other_memory_is_another_one,
        imported_device_memory_is_the_same, handles_that_are_not_there_are_refused,
        an_imported_context_outlives_the_opened_one, a_closed_import_takes_its_descriptor_along,
        other_descriptors_are_refused, a_context_of_another_process_is_refused_with_the_reason);
    tcase_add_test(tc_case(suite, "events", NULL, NULL),
                   an_event_of_the_device_is_told_to_each_context);
    return tc_main(suite);
}
