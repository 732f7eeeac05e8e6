/* SPDX-License-Identifier: BSD-3-Clause
 * What programs of rdma-core behind release 44 call: memory that the library allocates, device
 * memory, pages on demand, time stamps of completions, a port's speed. */
#include "verbs_pair.h"

#include "base/clock.h"
#include "verbs/ibverbs/later.h"

#include <sys/mman.h>

#define LENGTH 8192u

/* a writes its memory to `address` of `mr`. */
static void write_to(const struct ibv_mr *mr, uint64_t address)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_RDMA_WRITE, &sge, 0, LENGTH);

    for (uint32_t i = 0; i < LENGTH; i++)
        a->memory[i] = (uint8_t)(i * 7 + 1);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = mr->rkey;
    pair_do(a, &wr);
    /* The Read behind it returns when the Write is placed. */
    wr = pair_request(a, IBV_WR_RDMA_READ, &sge, LENGTH, LENGTH);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = mr->rkey;
    pair_do(a, &wr);
    ck_assert_mem_eq(a->memory + LENGTH, a->memory, LENGTH);
}

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* --- memory of the library's --- */

START_TEST(ibv_alloc_buf_is_page_aligned_and_registers)
{
    struct ibv_buf *buf = NULL;
    uint8_t *addr = ibv_alloc_buf(pair.pd, LENGTH + 100, &buf);
    struct ibv_mr *mr;

    ck_assert_ptr_nonnull(addr);
    ck_assert_ptr_nonnull(buf);
    ck_assert_uint_eq((uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    mr = ibv_reg_buf_mr(pair.pd, buf, addr + 100, LENGTH, ALL);
    ck_assert_ptr_nonnull(mr);
    write_to(mr, (uintptr_t)addr + 100);
    ck_assert_mem_eq(addr + 100, a->memory, LENGTH);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ibv_free_buf(buf);
}
END_TEST

START_TEST(ibv_alloc_buf_refuses_no_octet_and_too_many)
{
    struct ibv_buf *buf = (struct ibv_buf *)&pair;

    refused(ibv_alloc_buf(pair.pd, 0, &buf), EINVAL);
    refused(ibv_alloc_buf(pair.pd, SIZE_MAX, &buf), EINVAL);
    refused(ibv_alloc_buf(pair.pd, SIZE_MAX / 2, &buf), ENOMEM);
    ck_assert_ptr_eq(buf, (struct ibv_buf *)&pair);
}
END_TEST

START_TEST(ibv_reg_buf_mr_refuses_what_is_outside)
{
    struct ibv_buf *buf;
    uint8_t *addr = ibv_alloc_buf(pair.pd, 5000, &buf);

    ck_assert_ptr_nonnull(addr);
    refused(ibv_reg_buf_mr(pair.pd, buf, addr, 5001, ALL), EINVAL);
    refused(ibv_reg_buf_mr(pair.pd, buf, addr + 4999, 2, ALL), EINVAL);
    refused(ibv_reg_buf_mr(pair.pd, buf, addr - 1, 10, ALL), EINVAL);
    refused(ibv_reg_buf_mr(pair.pd, buf, addr + 1, SIZE_MAX, ALL), EINVAL);
    refused(ibv_reg_buf_mr(pair.pd, NULL, addr, 10, ALL), EINVAL);
    ibv_free_buf(buf);
    ibv_free_buf(NULL);
}
END_TEST

START_TEST(a_buffer_registers_in_the_protection_domain_that_it_is_of)
{
    struct ibv_pd *other = ibv_alloc_pd(pair.pd->context);
    struct ibv_buf *buf;
    uint8_t *addr = ibv_alloc_buf(pair.pd, 5000, &buf);
    struct vb_mr_init_attr attr = { .length = 5000,
                                    .access = ALL,
                                    .comp_mask = VB_MR_INIT_ADDR | VB_MR_INIT_BUF,
                                    .addr = addr,
                                    .buf = buf };

    ck_assert_ptr_nonnull(other);
    ck_assert_ptr_nonnull(addr);
    refused(ibv_reg_buf_mr(other, buf, addr, 5000, ALL), EINVAL);
    refused(ibv_reg_mr_ex(other, (struct ibv_mr_init_attr *)&attr), EINVAL);
    ibv_free_buf(buf);
    ck_assert_int_eq(ibv_dealloc_pd(other), 0);
}
END_TEST

/* No EOPNOTSUPP: the call is there, and this buffer has no such file. */
START_TEST(a_buffer_is_of_no_dma_buf)
{
    struct ibv_buf *buf;

    ck_assert_ptr_nonnull(ibv_alloc_buf(pair.pd, 5000, &buf));
    errno = 0;
    ck_assert_int_eq(ibv_export_buf_dmabuf_fd(buf), -1);
    ck_assert_int_eq(errno, ENODATA);
    ibv_free_buf(buf);
}
END_TEST

static struct ibv_mr *reg_ex(struct vb_mr_init_attr *attr)
{
    return ibv_reg_mr_ex(pair.pd, (struct ibv_mr_init_attr *)attr);
}

START_TEST(ibv_reg_mr_ex_registers_at_another_address)
{
    struct vb_mr_init_attr attr = { .length = LENGTH,
                                    .access = ALL,
                                    .comp_mask = VB_MR_INIT_ADDR | VB_MR_INIT_IOVA,
                                    .iova = 0x10000,
                                    .addr = b->memory };
    struct ibv_mr *mr = reg_ex(&attr);

    ck_assert_ptr_nonnull(mr);
    write_to(mr, 0x10000);
    ck_assert_mem_eq(b->memory, a->memory, LENGTH);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

/* A structure of an earlier release ends before `buf`: without the bit it is not read. */
START_TEST(ibv_reg_mr_ex_refuses_what_it_does_not_have)
{
    struct ibv_buf *buf;
    uint8_t *addr = ibv_alloc_buf(pair.pd, 5000, &buf);
    struct vb_mr_init_attr attr = {
        .length = 5000, .access = ALL, .addr = addr, .buf = (struct ibv_buf *)&pair
    };
    struct ibv_mr *mr;

    ck_assert_ptr_nonnull(addr);
    refused(reg_ex(&attr), EINVAL); /* no address */
    attr.comp_mask = VB_MR_INIT_FD | VB_MR_INIT_FD_OFFSET;
    refused(reg_ex(&attr), EOPNOTSUPP);
    attr.comp_mask = VB_MR_INIT_ADDR | VB_MR_INIT_DMAH;
    refused(reg_ex(&attr), EOPNOTSUPP);
    attr.comp_mask = VB_MR_INIT_ADDR | 1 << 20;
    refused(reg_ex(&attr), EOPNOTSUPP);
    attr.comp_mask = VB_MR_INIT_ADDR;
    mr = reg_ex(&attr);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    attr.comp_mask = VB_MR_INIT_ADDR | VB_MR_INIT_BUF;
    attr.buf = buf;
    mr = reg_ex(&attr);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    attr.length = 5001;
    refused(reg_ex(&attr), EINVAL);
    ibv_free_buf(buf);
}
END_TEST

/* A hint for PCIe: programs go on without. */
START_TEST(ibv_alloc_dmah_is_refused)
{
    uint32_t attr[4] = { 0 };

    refused(ibv_alloc_dmah(pair.context, (struct ibv_dmah_init_attr *)attr), EOPNOTSUPP);
}
END_TEST

/* --- device memory --- */

START_TEST(device_memory_is_copied_and_written_by_a_peer)
{
    struct ibv_alloc_dm_attr attr = { .length = 2 * LENGTH };
    struct ibv_device_attr_ex device = { .comp_mask = 0 };
    static uint8_t octets[LENGTH];
    struct ibv_dm *dm;
    struct ibv_mr *mr;

    ck_assert_int_eq(ibv_query_device_ex(pair.context, NULL, &device), 0);
    ck_assert_uint_ge(device.max_dm_size, attr.length);
    dm = ibv_alloc_dm(pair.context, &attr);
    ck_assert_ptr_nonnull(dm);
    mr = ibv_reg_dm_mr(pair.pd, dm, LENGTH, LENGTH, ALL | IBV_ACCESS_ZERO_BASED);
    ck_assert_ptr_nonnull(mr);
    write_to(mr, 0);
    ck_assert_int_eq(ibv_memcpy_from_dm(octets, dm, LENGTH, LENGTH), 0);
    ck_assert_mem_eq(octets, a->memory, LENGTH);
    memset(octets, 0x5a, sizeof(octets));
    ck_assert_int_eq(ibv_memcpy_to_dm(dm, LENGTH, octets, LENGTH), 0);
    memset(octets, 0, sizeof(octets));
    ck_assert_int_eq(ibv_memcpy_from_dm(octets, dm, LENGTH, LENGTH), 0);
    ck_assert_uint_eq(octets[LENGTH - 1], 0x5a);
    ck_assert_int_eq(ibv_memcpy_to_dm(dm, LENGTH + 1, octets, LENGTH), EINVAL);
    ck_assert_int_eq(ibv_memcpy_from_dm(octets, dm, UINT64_MAX - 3, 4), EINVAL);
    ck_assert_int_eq(ibv_memcpy_from_dm(octets, dm, 2, 4),
                     EINVAL); /* not at a word of four octets */
    ck_assert_int_eq(ibv_memcpy_to_dm(dm, 4, octets, 6), EINVAL);
    refused(ibv_reg_dm_mr(pair.pd, dm, LENGTH, LENGTH + 1, ALL | IBV_ACCESS_ZERO_BASED), EINVAL);
    refused(ibv_reg_dm_mr(pair.pd, dm, 0, LENGTH, ALL), EINVAL);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(ibv_free_dm(dm), 0);
    attr.length = device.max_dm_size + 1;
    refused(ibv_alloc_dm(pair.context, &attr), EINVAL);
}
END_TEST

/* --- pages on demand --- */

START_TEST(pages_on_demand_are_told_registered_and_brought_in)
{
    struct ibv_device_attr_ex device = { .comp_mask = 0 };
    struct ibv_sge sge = { .length = LENGTH };
    unsigned char there = 0;
    uint8_t *pages = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;

    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(ibv_query_device_ex(pair.context, NULL, &device), 0);
    ck_assert_uint_eq(device.odp_caps.general_caps, IBV_ODP_SUPPORT);
    ck_assert_uint_ne(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE, 0);
    mr = ibv_reg_mr(pair.pd, pages, LENGTH, ALL | IBV_ACCESS_ON_DEMAND);
    ck_assert_ptr_nonnull(mr);
    sge.addr = (uintptr_t)pages;
    sge.lkey = mr->lkey;
    ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                   IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
                     0);
#ifdef MADV_POPULATE_WRITE
    ck_assert_int_eq(mincore(pages, 1, &there), 0);
    ck_assert_uint_eq(there & 1, 1);
#endif
    write_to(mr, (uintptr_t)pages);
    ck_assert_mem_eq(pages, a->memory, LENGTH);
    ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
    ck_assert_int_eq(ibv_advise_mr(pair.pd, (enum ibv_advise_mr_advice)99, 0, &sge, 1), EOPNOTSUPP);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(munmap(pages, LENGTH), 0);
    refused(ibv_reg_mr(pair.pd, pages, LENGTH, ALL | IBV_ACCESS_ON_DEMAND), EFAULT);
    refused(ibv_reg_mr(pair.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND), EINVAL);
#ifdef MADV_POPULATE_WRITE
    ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
    ck_assert_int_eq(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
#endif
}
END_TEST

/* --- time stamps, speed --- */

START_TEST(completions_have_time_stamps_of_both_clocks)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = 16,
                                        .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
    struct ibv_poll_cq_attr poll = { .comp_mask = 0 };
    struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
    struct ibv_device_attr_ex device = { .comp_mask = 0 };
    uint64_t before = clock_now(), wall = clock_wall();
    struct ibv_cq_ex *cq = ibv_create_cq_ex(pair.context, &attr);
    struct ibv_qp_attr state = { .qp_state = IBV_QPS_ERR };
    struct ibv_recv_wr wr = { .wr_id = 5 }, *bad;
    struct ibv_qp *qp;

    ck_assert_ptr_nonnull(cq);
    ck_assert_int_eq(ibv_query_device_ex(pair.context, NULL, &device), 0);
    ck_assert_uint_eq(device.hca_core_clock, 1000000); /* kHz: it counts nanoseconds */
    ck_assert(device.completion_timestamp_mask == UINT64_MAX);
    init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
    qp = ibv_create_qp(pair.pd, &init);
    ck_assert_ptr_nonnull(qp);
    /* What is posted to a QP in ERR is flushed. */
    ck_assert_int_eq(ibv_modify_qp(qp, &state, IBV_QP_STATE), 0);
    ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
    ck_assert_int_eq(ibv_start_poll(cq, &poll), 0);
    ck_assert_uint_eq(cq->wr_id, 5);
    ck_assert_uint_ge(ibv_wc_read_completion_ts(cq), before);
    ck_assert_uint_ge(ibv_wc_read_completion_wallclock_ns(cq), wall);
    ck_assert_int_eq(ibv_query_rt_values_ex(pair.context, &values), 0);
    ck_assert_uint_ge((uint64_t)values.raw_clock.tv_nsec, ibv_wc_read_completion_ts(cq));
    ibv_end_poll(cq);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}
END_TEST

START_TEST(ibv_query_port_speed_is_width_times_speed)
{
    struct ibv_port_attr port;
    uint64_t speed = 0;

    ck_assert_int_eq(ibv_query_port(pair.context, 1, &port), 0);
    ck_assert_int_eq(ibv_query_port_speed(pair.context, 1, &speed), 0);
    ck_assert_uint_ge(speed, 25); /* of the slowest lane: 2.5 Gbit/s */
    if (port.active_width == 1 && port.active_speed == 8)
        ck_assert_uint_eq(speed, 100);
    ck_assert_int_eq(ibv_query_port_speed(pair.context, 0, &speed), EINVAL);
    ck_assert_int_eq(ibv_query_port_speed(pair.context, 257, &speed), EINVAL);
}
END_TEST

static Suite *suite_later(void)
{
    Suite *suite = suite_create("verbs: calls behind rdma-core 44");
    TCase *tc = tc_case(suite, "later", pair_set_up, pair_close);

    tc_add_tests(
        tc, ibv_alloc_buf_is_page_aligned_and_registers,
        ibv_alloc_buf_refuses_no_octet_and_too_many, ibv_reg_buf_mr_refuses_what_is_outside,
        a_buffer_registers_in_the_protection_domain_that_it_is_of, a_buffer_is_of_no_dma_buf,
        ibv_reg_mr_ex_registers_at_another_address, ibv_reg_mr_ex_refuses_what_it_does_not_have,
        ibv_alloc_dmah_is_refused, device_memory_is_copied_and_written_by_a_peer,
        pages_on_demand_are_told_registered_and_brought_in,
        completions_have_time_stamps_of_both_clocks, ibv_query_port_speed_is_width_times_speed);
    return suite;
}

int main(void)
{
    return tc_main(suite_later());
}
