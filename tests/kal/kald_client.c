/* SPDX-License-Identifier: BSD-3-Clause */
/* See kald_client.h. */
#include "kald_client.h"

#include <signal.h>

struct kal_rnic *rnic;

static int seen; /* the RNIC's context */

void client_setup(void)
{
    char text[300];

    fixture_setup();
    fixture_module("vp_test", NULL);
    kald_folder();
    snprintf(text, sizeof(text), "[ital]\nkald = %s\n", kald_path());
    fixture_conf(text);
    kal = NULL;
}

void open_all(void)
{
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", &seen, &rnic), RI_OK);
}

void close_all(void)
{
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        ck_assert_uint_eq(kal_host_holds(kal->host, (enum kal_account_kind)kind), 0);
    fixture_put();
}

void client_teardown(void)
{
    if (kald_pid()) {
        kill(kald_pid(), SIGCONT);
        kald_stop();
    }
}

enum ri_status take(uint64_t amount)
{
    return kal_rnic_take(rnic, KAL_ACCOUNT_QP, amount);
}

void give(uint64_t amount)
{
    kal_rnic_give(rnic, KAL_ACCOUNT_QP, amount);
}
