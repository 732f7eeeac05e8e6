/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code of IT-API for each status, from IT-API's calls down: the sources of itapi are linked
 * over the fake kal, which answers each.
 */
#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include "fake_kal.h"
#include "tc.h"

static const struct {
    int status; /* enum ri_status */
    it_status_t code;
} codes[] = {
    { RI_OK, IT_SUCCESS },
    { RI_ERR_NOT_SUPPORTED, IT_ERR_OP_NOT_SUPPORTED },
    { RI_ERR_INVALID_ARGUMENT, IT_ERR_ABORT },
    { RI_ERR_INVALID_STATE, IT_ERR_INVALID_EP_STATE },
    { RI_ERR_NO_RESOURCES, IT_ERR_RESOURCES },
    { RI_ERR_LIMIT, IT_ERR_RESOURCES },
    { RI_ERR_QUEUE_FULL, IT_ERR_TOO_MANY_POSTS },
    { RI_ERR_BUSY, IT_ERR_EP_BUSY },
    { RI_ERR_AGAIN, IT_ERR_EP_BUSY },
    { RI_ERR_ADDRESS, IT_ERR_ADDRESS },
    { RI_ERR_ACCESS, IT_ERR_ACCESS },
    { RI_ERR_PERMISSION, IT_ERR_NO_PERMISSION },
    { RI_ERR_ADDRESS_IN_USE, IT_ERR_CONN_QUAL_BUSY },
    { RI_ERR_UNREACHABLE, IT_ERR_INVALID_SOURCE_PATH },
    { RI_ERR_TIMED_OUT, IT_ERR_TIMEOUT_EXPIRED },
    { RI_ERR_DEVICE, IT_ERR_IA_CATASTROPHE },
    { ITAL_ERR_QUOTA, IT_ERR_RESOURCES },
    { ITAL_ERR_NO_INTERFACE, IT_ERR_INVALID_NAME },
    { ITAL_ERR_CONFIGURATION, IT_ERR_INVALID_NAME },
    { ITAL_ERR_INVALID_HANDLE, IT_ERR_INVALID_HANDLE },
    { ITAL_ERR_EMPTY, IT_ERR_QUEUE_EMPTY },
    { ITAL_ERR_INTERRUPTED, IT_ERR_INTERRUPT },
    { ITAL_ERR_ABORTED, IT_ERR_ABORT },
    { ITAL_ERR_WAITER_LIMIT, IT_ERR_WAITER_LIMIT },
    { ITAL_ERR_EXISTS, IT_ERR_CALLBACK_EXISTS },
    /* none */
    { RI_STATUS_COUNT, IT_ERR_ABORT },
    { ITAL_STATUS_FIRST - 1, IT_ERR_ABORT },
    { ITAL_STATUS_COUNT, IT_ERR_ABORT },
    { -1, IT_ERR_ABORT },
};

#define CODES (sizeof(codes) / sizeof(*codes))

static it_ia_handle_t ia;

static void open_fake(void)
{
    fk_reset();
    ck_assert_int_eq(it_ia_create("fake0", 2, 1, &ia), IT_SUCCESS);
}

static void close_fake(void)
{
    ck_assert_int_eq(it_ia_free(ia), IT_SUCCESS);
}

START_TEST(each_status_has_its_code)
{
    it_pz_handle_t pz;
    it_status_t code;

    fk_fail(FK_PD_CREATE, (enum ri_status)codes[_i].status);
    code = it_pz_create(ia, &pz);
    ck_assert_msg(code == codes[_i].code, "%d (%s) gives %s, not %s", codes[_i].status,
                  ital_status_name((enum ri_status)codes[_i].status), itx_status_name(code),
                  itx_status_name(codes[_i].code));
}
END_TEST

START_TEST(no_status_is_missing_here)
{
    for (int status = 0, listed; status < ITAL_STATUS_COUNT; status++) {
        if (!ital_status_exists((enum ri_status)status))
            continue;
        listed = 0;
        for (size_t i = 0; i < CODES; i++)
            listed += codes[i].status == status;
        ck_assert_msg(listed == 1, "%s", ital_status_name((enum ri_status)status));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codes of statuses");
    TCase *tc = tc_case(suite, "over the fake kal", open_fake, close_fake);

    tcase_add_loop_test(tc, each_status_has_its_code, 0, CODES);
    tcase_add_test(tc, no_status_is_missing_here);
    return tc_main(suite);
}
