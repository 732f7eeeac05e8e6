// SPDX-License-Identifier: BSD-3-Clause
//
// The headers inside the program's own extern "C", as it was written around a header that had none:
// the operators of mask types are C++ all the same. WIDE: with cookies of 24 bytes. C++98 too.
extern "C" {
#include <it_api.h>
#include <itx_api.h>
}
#include <cstdio>

extern "C" it_status_t it_ia_free(it_ia_handle_t ia_handle); // must agree with the header

#ifdef ITAPI_WIDE_COOKIE
static bool cookies()
{
    it_Bit192_t mine = { 1, 2, 3 };
    it_dto_cookie_t cookie = { 0, 0, 0 };
    it_dto_cmpl_event_t done;

    CookieAssign(&cookie, &mine);
    done.cookie = *(it_dto_cookie_t *)&mine;
    return cookie.mExtend == 3 && done.cookie.mSecond == 2 && sizeof(it_Bit128_t) == 16;
}
#else
static bool cookies()
{
    it_dto_cookie_t cookie = 7;

    return cookie + 1 == 8;
}
#endif

int main()
{
    it_dto_flags_t flags = IT_COMPLETION_FLAG | IT_NOTIFY_FLAG;
    it_mem_priv_t privileges = IT_PRIV_LOCAL;
    bool ok;

    privileges |= IT_PRIV_REMOTE_READ;
    flags &= ~IT_NOTIFY_FLAG;
    ok = flags == IT_COMPLETION_FLAG && (privileges & IT_PRIV_REMOTE) == IT_PRIV_REMOTE_READ;
    ok = ok && cookies();
    std::puts(ok ? "0 failed" : "wrong values");
    return ok ? 0 : 1;
}
