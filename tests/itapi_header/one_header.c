/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program for the implementation with wide cookies: <it_api.h> is its only header, also for that
 * implementation's additions. Compiled, never run, as C and C++.
 */
#define ITAPI_WIDE_COOKIE
#include <it_api.h>

int main(void)
{
    const char *names[] = { itx_version(), itx_status_name(IT_SUCCESS),
                            itx_event_name(IT_DTO_SEND_CMPL_EVENT) };
    it_evd_handle_t evd = (it_evd_handle_t)IT_NULL_HANDLE;
    it_event_t events[4];
    size_t woken = 0;
    int taken = 0;

    if (it_evd_dequeue_n(evd, 4, events, &taken) != IT_SUCCESS ||
        itx_aevd_wait(evd, 0, 4, events, &woken) != IT_SUCCESS)
        return 1;
    return names[0] && names[1] && names[2] && taken == (int)woken &&
                   events[0].dto_cmpl.cookie.mExtend == 0
               ? 0
               : 1;
}
