// SPDX-License-Identifier: BSD-3-Clause
//
// The mask types in C++: combining keeps the type, the value is that of C, and no operator appears
// for types that are no masks. Each line is checked by the compiler; the program says so when run.
#include <it_api.h>
#include <cstdio>
#include <type_traits>

template <typename T, unsigned all> constexpr bool mask(T a, T b)
{
    return std::is_same<decltype(a | b), T>::value && std::is_same<decltype(a & b), T>::value &&
           std::is_same<decltype(~a), T>::value &&
           static_cast<unsigned>(a | b) == (static_cast<unsigned>(a) | static_cast<unsigned>(b)) &&
           static_cast<unsigned>(a & b) == (static_cast<unsigned>(a) & static_cast<unsigned>(b)) &&
           static_cast<unsigned>(~a) == (all & ~static_cast<unsigned>(a));
}

static_assert(mask<it_conn_qual_type_t, 0xf>(IT_IANA_PORT, IT_IANA_LR_PORT), "");
static_assert(mask<it_transport_service_type_t, 0x3>(IT_RC_SERVICE, IT_UD_SERVICE), "");
static_assert(mask<it_iobl_type_t, 0x7>(IT_IOBL_PAGE_LIST, IT_IOBL_VE_PAGE_LIST), "");
static_assert(mask<it_rmr_type_t, 0x3>(IT_RMR_TYPE_NARROW, IT_RMR_TYPE_WIDE), "");
static_assert(mask<it_mem_priv_t, 0x1f>(IT_PRIV_LOCAL, IT_PRIV_ATOMIC), "");
static_assert(mask<it_lmr_flag_t, 0xf>(IT_LMR_FLAG_SHARED, IT_LMR_FLAG_NON_SHAREABLE), "");
static_assert(mask<it_dto_flags_t, 0x7f>(IT_COMPLETION_FLAG, IT_COALESCE_WR_FLAG), "");
static_assert(mask<it_dto_ud_flags_t, 0x1>(IT_UD_IB_GRH_PRESENT, IT_UD_IB_GRH_PRESENT), "");
static_assert(mask<it_evd_flags_t, 0x1f>(IT_EVD_CREATE_FD, IT_EVD_OVERFLOW_AUTO_RESET), "");
static_assert(mask<it_evd_param_mask_t, 0xfff>(IT_EVD_PARAM_FD, IT_EVD_PARAM_CALLBACK), "");
static_assert(mask<it_ep_param_mask_t, 0xfffffff>(IT_EP_PARAM_STATE, IT_EP_PARAM_PRIV_OPS_ENABLE),
              "");
static_assert(mask<it_ep_rc_creation_flags_t, 0x3>(IT_EP_REUSEADDR, IT_EP_SRQ), "");
static_assert(mask<it_cn_est_flags_t, 0x7>(IT_CONNECT_FLAG_TWO_WAY, IT_CONNECT_SUPPRESS_IRD_ORD),
              "");
static_assert(mask<it_sc_flags_t, 0x1>(IT_SC_DEFAULT, IT_SC_NO_REQ_REP), "");
static_assert(mask<it_listen_flags_t, 0x3>(IT_LISTEN_CONN_QUAL_INPUT, IT_LISTEN_SUPPRESS_IRD_ORD),
              "");
static_assert(mask<it_listen_param_mask_t, 0x1f>(IT_LISTEN_PARAM_ALL, IT_LISTEN_PARAM_CONN_QUAL),
              "");
static_assert(mask<it_ah_flags_t, 0x1>(IT_AH_PATH_COMPLETE, IT_AH_PATH_COMPLETE), "");
static_assert(mask<it_addr_param_mask_t, 0xf>(IT_ADDR_PARAM_IA, IT_ADDR_PARAM_PATH), "");
static_assert(mask<it_pz_param_mask_t, 0x3>(IT_PZ_PARAM_ALL, IT_PZ_PARAM_IA), "");
static_assert(mask<it_lmr_param_mask_t, 0x7fff>(IT_LMR_PARAM_ADDR, IT_LMR_PARAM_IOBL_TYPE), "");
static_assert(mask<it_rmr_param_mask_t, 0x7ff>(IT_RMR_PARAM_LINKED, IT_RMR_PARAM_ADDR_MODE), "");
static_assert(mask<it_srq_param_mask_t, 0x3f>(IT_SRQ_PARAM_PZ, IT_SRQ_PARAM_LOW_WATERMARK), "");
static_assert(mask<it_ud_svc_req_param_mask_t, 0xff>(IT_UD_PARAM_REQ_ID,
                                                     IT_UD_PARAM_PRIV_DATA_LENGTH),
              "");

// No mask: the OR stays an int.
static_assert(!std::is_same<decltype(IT_IPV4 | IT_IPV6), it_net_addr_type_t>::value, "");
static_assert(!std::is_same<decltype(IT_ERR_ABORT | IT_ERR_ACCESS), it_status_t>::value, "");

int main()
{
    it_dto_flags_t flags = IT_COMPLETION_FLAG;
    flags |= IT_NOTIFY_FLAG;
    bool ok = flags == (IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);
    flags &= ~IT_COMPLETION_FLAG;
    ok = ok && flags == IT_NOTIFY_FLAG;
    std::puts(ok ? "0 failed" : "operator|= or &= is wrong");
    return ok ? 0 : 1;
}
