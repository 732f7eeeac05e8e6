/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue pair at work: see work.h. */
#include "work.h"

#include "tc.h"

struct fake_set set;
char data[256];

void work_setup(void)
{
    fake_open(&set, true);
}

void work_teardown(void)
{
    fake_close(&set);
}

struct ri_sge segment(uint32_t octets)
{
    return (struct ri_sge){ .addr = (uintptr_t)data, .length = octets, .lkey = 0x55 };
}

enum ri_status post(struct ri_qp *qp, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;
    enum ri_status status = set.host.user.post_send(qp, wr, &bad);

    ck_assert(status == RI_OK || bad == wr);
    return status;
}

void send_to(struct ri_qp *qp, uint64_t cookie, uint16_t flags)
{
    struct ri_sge sge = segment(100);
    struct ri_send_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1, .flags = flags };

    ck_assert_int_eq(post(qp, &wr), RI_OK);
}

enum ri_status receive(struct ri_qp *qp, uint64_t cookie, uint32_t flags)
{
    struct ri_sge sge = segment(200);
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1, .flags = flags };
    struct ri_recv_wr *bad;

    return set.host.user.post_recv(qp, &wr, &bad);
}

struct ri_wc next(void)
{
    struct ri_wc wc;

    memset(&wc, 0xee, sizeof(wc));
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 1);
    return wc;
}

void nothing(void)
{
    struct ri_wc wc;

    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 0);
}

void flushed(uint64_t cookie, uint8_t opcode)
{
    struct ri_wc wc = next();

    ck_assert_int_eq(wc.status, RI_WC_FLUSHED);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.byte_len, 0);
}

unsigned int told(const struct fake_record *record)
{
    return atomic_load(&record->count);
}
