/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions that a filter adds to a post of one Send: posts through it to a provider that does
 * nothing, less posts to that provider directly. The program is built once for each filter, which
 * FILTER names and ARGUMENT is opened with. Valgrind has no vdso: the two looks at the clock are
 * system calls there, of which a few instructions are counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnicpi_host.h"
#include "rnicpi_util.h"

#include "fake_host.h"
#include "tests/common/callgrind.h"

#define ROUNDS 1000u

#define MUST(what)                                                     \
    do {                                                               \
        enum ri_status must_ = (what);                                 \
        if (must_ != RI_OK) {                                          \
            fprintf(stderr, "%s: %s\n", #what, ri_status_name(must_)); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* ---- the provider below ---- */

static struct ri_privileged_ops below_ops;
static struct ri_user_ops below_user;
static struct ri_rnic below_rnic = { .ops = &below_ops };
static struct ri_pd below_pd = { .ops = &below_ops };
static struct ri_cq below_cq = { .ops = &below_user };
static struct ri_qp below_qp = { .ops = &below_user };
static volatile uint64_t posts;

static enum ri_status below_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    (void)open;
    *rnic = &below_rnic;
    return RI_OK;
}

static enum ri_status below_close(struct ri_rnic *rnic, bool force)
{
    (void)rnic, (void)force;
    return RI_OK;
}

static enum ri_status below_pd_create(struct ri_rnic *rnic, void *context, struct ri_pd **pd)
{
    (void)rnic, (void)context;
    *pd = &below_pd;
    return RI_OK;
}

static enum ri_status below_pd_destroy(struct ri_pd *pd)
{
    (void)pd;
    return RI_OK;
}

static enum ri_status below_cq_create(struct ri_rnic *rnic, struct ri_cq_attr *attr,
                                      struct ri_cq **cq)
{
    (void)rnic, (void)attr;
    *cq = &below_cq;
    return RI_OK;
}

static enum ri_status below_cq_destroy(struct ri_cq *cq)
{
    (void)cq;
    return RI_OK;
}

static enum ri_status below_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
{
    (void)pd, (void)attr;
    *qp = &below_qp;
    return RI_OK;
}

static enum ri_status below_qp_destroy(struct ri_qp *qp)
{
    (void)qp;
    return RI_OK;
}

static enum ri_status below_post_send(struct ri_qp *qp, struct ri_send_wr *wr,
                                      struct ri_send_wr **bad)
{
    (void)qp, (void)wr, (void)bad;
    posts++;
    return RI_OK;
}

static void make_below(void)
{
    static const struct ri_privileged_ops ops = {
        .size = sizeof(ops),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .open = below_open,
        .close = below_close,
        .pd_create = below_pd_create,
        .pd_destroy = below_pd_destroy,
        .cq_create = below_cq_create,
        .cq_destroy = below_cq_destroy,
        .qp_create = below_qp_create,
        .qp_destroy = below_qp_destroy,
    };
    static const struct ri_user_ops user = {
        .size = sizeof(user),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .post_send = below_post_send,
    };

    ri_complete_privileged_ops(&below_ops, &ops);
    ri_complete_user_ops(&below_user, &user);
}

/* ---- the benchmark ---- */

static void post_rounds(struct ri_qp *qp, uint32_t rounds)
{
    struct ri_sge sge = { (uintptr_t)&below_ops, 64, 1 };
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = 0 };

    for (uint32_t i = 0; i < rounds; i++)
        MUST(ri_qp_ops(qp)->post_send(qp, &wr, &bad));
}

static void measure(struct ri_qp *qp)
{
    uint64_t before;

    post_rounds(qp, ROUNDS / 10);
    before = posts;
    CALLGRIND_ZERO_STATS;
    post_rounds(qp, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("through_" FILTER ":1000");
    if (posts != before + ROUNDS) {
        fprintf(stderr, "the filter did not pass each post\n");
        exit(1);
    }
    CALLGRIND_ZERO_STATS;
    post_rounds(&below_qp, ROUNDS);
    CALLGRIND_DUMP_STATS_AT(FILTER "_post/through_" FILTER "/1:1000");
}

int main(void)
{
    static struct ri_privileged_ops ops;
    static struct ri_user_ops user;
    static struct fake_host fake;
    struct ri_lower lower = { .size = sizeof(lower),
                              .privileged = &below_ops,
                              .user = &below_user };
    struct ri_open open = { .size = sizeof(open),
                            .host = &fake.host,
                            .privileged = &ops,
                            .user = &user,
                            .device = ARGUMENT,
                            .lower = &lower };
    struct ri_cq_attr cq_attr = { .size = sizeof(cq_attr), .depth = 64 };
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_RC, .max_send_wr = 64 };
    struct ri_rnic *rnic;
    struct ri_pd *pd;
    struct ri_cq *cq;
    struct ri_qp *qp;

    make_below();
    ri_complete_privileged_ops(&ops, rnicpi_provider_v1.privileged);
    ri_complete_user_ops(&user, rnicpi_provider_v1.user);
    fake_host_init(&fake, &rnicpi_provider_v1, false);
    MUST(ops.open(&open, &rnic));
    MUST(ops.pd_create(rnic, NULL, &pd));
    MUST(ops.cq_create(rnic, &cq_attr, &cq));
    attr.send_cq = attr.recv_cq = cq;
    MUST(ops.qp_create(pd, &attr, &qp));
    measure(qp);
    MUST(ops.qp_destroy(qp));
    MUST(ops.cq_destroy(cq));
    MUST(ops.pd_destroy(pd));
    MUST(ops.close(rnic, true));
    fake_host_free(&fake);
    return 0;
}
