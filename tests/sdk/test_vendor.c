/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider built as vendors do (sdk/examples/device), loaded into the tests' own host: the
 * behaviour of librnicpi inside it. */
#include "tc.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include "fake_host.h"

static struct fake_host fake;
static struct ri_pd *pd;
static struct ri_cq *cq;
static struct ri_qp *qp;
static struct fake_record cq_record, qp_record;
static const struct ri_provider *provider;
static int fds[2];
static char octets[2][64];

static void load(void)
{
    char path[4096];
    void *handle;

    snprintf(path, sizeof(path), "%s/tests/sdk/vendor/vp_mirror.so", tc_builddir());
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    provider = dlsym(handle, RI_PROVIDER_SYMBOL);
    ck_assert_ptr_nonnull(provider);
}

static void setup(void)
{
    struct ri_cq_attr cq_attr = { .size = sizeof(cq_attr), .depth = 2, .context = &cq_record };
    struct ri_qp_attr qp_attr = { .size = sizeof(qp_attr),
                                  .type = RI_QP_RC,
                                  .context = &qp_record };
    struct ri_llp_handover handover = { .size = sizeof(handover) };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &handover };

    load();
    ck_assert_int_eq(fake_host_open_provider(&fake, provider, NULL), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_create(fake.rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(fake.privileged.cq_create(fake.rnic, &cq_attr, &cq), RI_OK);
    qp_attr.send_cq = qp_attr.recv_cq = cq;
    ck_assert_int_eq(fake.privileged.qp_create(pd, &qp_attr, &qp), RI_OK);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    handover.fd = fds[0];
    ck_assert_int_eq(fake.privileged.qp_modify(qp, &modify), RI_OK);
}

static void teardown(void)
{
    ck_assert_int_eq(fake.privileged.cq_destroy(cq), RI_ERR_BUSY);
    ck_assert_int_eq(fake.privileged.qp_destroy(qp), RI_OK);
    ck_assert_int_eq(fake.privileged.cq_destroy(cq), RI_OK);
    ck_assert_int_eq(fake.privileged.pd_destroy(pd), RI_OK);
    fake_host_close(&fake, false);
    fake_host_free(&fake);
    close(fds[1]);
}

static void receive(uint64_t cookie, uint32_t flags)
{
    struct ri_sge sge = { (uintptr_t)octets[1], sizeof(octets[1]), 1 };
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1, .flags = flags };
    struct ri_recv_wr *bad;

    ck_assert_int_eq(fake.user.post_recv(qp, &wr, &bad), RI_OK);
}

static void send_text(uint64_t cookie, const char *text, uint16_t flags)
{
    struct ri_sge sge = { (uintptr_t)octets[0], (uint32_t)strlen(text), 1 };
    struct ri_send_wr wr = {
        .cookie = cookie, .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = flags
    };
    struct ri_send_wr *bad;

    memcpy(octets[0], text, strlen(text));
    ck_assert_int_eq(fake.user.post_send(qp, &wr, &bad), RI_OK);
}

static void expect(uint64_t cookie, enum ri_wc_opcode opcode, enum ri_wc_status status)
{
    struct ri_wc wc;

    ck_assert_uint_eq(fake.user.poll(cq, 1, &wc), 1);
    ck_assert_ptr_eq(wc.context, &qp_record);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.status, status);
}

START_TEST(has_what_its_features_promise)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };
    struct ri_privileged_ops fewer;
    const char *reason;

    ck_assert_int_eq(ri_provider_check(provider, &reason), RI_OK);
    ck_assert_int_eq(fake.privileged.query(fake.rnic, &attr), RI_OK);
    ck_assert_pstr_eq(ri_missing_operation(provider->privileged, provider->user, attr.features),
                      NULL);
    ck_assert_str_eq(
        ri_missing_operation(provider->privileged, provider->user, attr.features | RI_FEATURE_SRQ),
        "srq_create");
    fewer = *provider->privileged;
    fewer.pd_destroy = NULL;
    ck_assert_str_eq(ri_missing_operation(&fewer, provider->user, attr.features), "pd_destroy");
    fewer = *provider->privileged;
    fewer.size = offsetof(struct ri_privileged_ops, mr_deregister); /* an older minor's */
    ck_assert_str_eq(ri_missing_operation(&fewer, provider->user, attr.features), "mr_deregister");
}
END_TEST

START_TEST(message_comes_back)
{
    ck_assert_int_eq(fake.user.arm(cq, RI_ARM_SOLICITED, 0), RI_OK);
    receive(1, 0);
    receive(2, 0);
    send_text(3, "plain", 0);
    ck_assert_uint_eq(atomic_load(&cq_record.count), 0);
    expect(1, RI_WC_RECV, RI_WC_SUCCESS); /* the Send was unsignalled */
    ck_assert_mem_eq(octets[1], "plain", 5);
    send_text(4, "asked", RI_WR_SIGNALED | RI_WR_SOLICITED);
    ck_assert_uint_eq(atomic_load(&cq_record.count), 1);
    expect(4, RI_WC_SEND, RI_WC_SUCCESS);
    expect(2, RI_WC_RECV, RI_WC_SUCCESS);
}
END_TEST

/* Its CQ has 2 places. */
START_TEST(overflow_is_held_back)
{
    for (uint64_t i = 0; i < 3; i++) {
        receive(10 + i, 0);
        send_text(20 + i, "x", RI_WR_SIGNALED);
    }
    ck_assert_uint_eq(atomic_load(&cq_record.cq_errors), 1);
    for (int i = 0, sends = 0, receives = 0; i < 6; i++) {
        struct ri_wc wc;

        ck_assert_uint_eq(fake.user.poll(cq, 1, &wc), 1);
        if (wc.opcode == RI_WC_SEND)
            ck_assert_uint_eq(wc.cookie, 20 + (uint64_t)sends++);
        else
            ck_assert_uint_eq(wc.cookie, 10 + (uint64_t)receives++);
    }
    ck_assert_uint_eq(fake.user.poll(cq, 1, &(struct ri_wc){ .cookie = 0 }), 0);
}
END_TEST

/* `ready` finds the end with the QP's lock held; the descriptor leaves the set in the next pass. */
START_TEST(end_of_the_stream)
{
    receive(1, 0);
    shutdown(fds[1], SHUT_WR);
    ck_assert(fake_host_until(
        &fake, atomic_load(&qp_record.count) && !fake_lane_watches(&fake.events), 20000));
    ck_assert_int_eq(qp_record.type[0], RI_EVENT_LLP_CLOSED);
    expect(1, RI_WC_RECV, RI_WC_FLUSHED);
    ck_assert_int_eq(send(fds[1], "x", 1, MSG_NOSIGNAL), -1); /* it was closed, too */
    ck_assert_int_eq(errno, EPIPE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vendor");
    TCase *tc = tc_case(suite, "vendor", setup, teardown);

    tc_add_tests(tc, has_what_its_features_promise, message_comes_back, overflow_is_held_back,
                 end_of_the_stream);
    return tc_main(suite);
}
