/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What programs do with the headers, compiled (never run) as C11 and C++17 under each binding: the
 * names of all versions, both names of the path union, masks without casts, every itx_ call.
 */
#include <itx_api.h>
#include <it_api.h> /* twice is once */

#ifdef __cplusplus
extern "C" it_status_t it_ia_free(it_ia_handle_t ia_handle); /* must agree with the headers */
extern "C" const char *itx_version(void);
#endif

#ifdef ITAPI_WIDE_COOKIE
static it_dto_cookie_t wide(uint64_t value)
{
    it_dto_cookie_t cookie, from = { 0, 0, 0 };

    from.mFirst = value;
    CookieAssign(&cookie, &from);
    return cookie;
}
#define COOKIE(value) wide(value)
#else
#define COOKIE(value) ((it_dto_cookie_t)(value))
#endif

int consumer(it_pz_handle_t pz, it_ep_handle_t ep, it_evd_handle_t evd, it_rmr_handle_t rmr);

static void line(const char *text, void *arg)
{
    *(const char **)arg = text;
}

static void provider(const struct itx_provider_report *r, void *arg)
{
    *(uint32_t *)arg += r->abi_major + r->abi_minor + (uint32_t)r->usable + (r->provider == NULL) +
                        (r->path == r->reason) + (r->path == r->advice);
}

static void interface_line(const struct itx_interface_report *r, void *arg)
{
    *(int *)arg += r->usable + (r->interface == r->provider) + (r->device == NULL) +
                   (r->reason == r->advice);
}

static it_status_t register_memory(it_pz_handle_t pz, it_ep_handle_t ep, it_rmr_handle_t *rmr,
                                   it_lmr_handle_t *lmr)
{
    static char buffer[64];
    it_mem_priv_t privs = IT_PRIV_LOCAL;
    it_dto_cookie_t cookie = COOKIE(42);
    it_rmr_context_t context = 0;
    it_rmr_param_t param;
    it_status_t status;

#if BINDING == 10
    status = it_lmr_create(pz, buffer, sizeof(buffer), privs, IT_LMR_FLAG_NONE, 0, lmr, &context);
    status = status ? status : it_rmr_create(pz, rmr);
    status = status ? status
                    : it_rmr_bind(*rmr, *lmr, buffer, sizeof(buffer), IT_PRIV_REMOTE_READ, ep,
                                  cookie, IT_COMPLETION_FLAG, &context);
    param.bound = IT_FALSE;
#else
#if BINDING == 20
    status = it_lmr_create(pz, buffer, sizeof(buffer), IT_ADDR_MODE_ABSOLUTE, privs,
                           IT_LMR_FLAG_NONE, 0, lmr, &context);
#else
    status = it_lmr_create(pz, buffer, NULL, sizeof(buffer), IT_ADDR_MODE_ABSOLUTE, privs,
                           IT_LMR_FLAG_NONE, 0, lmr, &context);
#endif
    status = status ? status : it_rmr_create(pz, IT_RMR_TYPE_NARROW, rmr);
    status = status ? status
                    : it_rmr_bind(*rmr, *lmr, buffer, sizeof(buffer), IT_ADDR_MODE_RELATIVE,
                                  IT_PRIV_REMOTE_READ, ep, cookie, IT_COMPLETION_FLAG, &context);
    param.linked = IT_FALSE;
#endif
    (void)param;
    return status ? status : it_rmr_unbind(*rmr, ep, cookie, IT_COMPLETION_FLAG);
}

static int old_names(it_ia_info_t *info, it_lmr_triplet_t *segment)
{
    it_ep_attributes_t attr;

    attr.srv.rc.rdma_read_inflight_incoming = 1;
    attr.srv.rc.rdma_read_inflight_outgoing = 2;
    return (int)it_lmr_sync_rdma_read(segment, 1) + (int)it_lmr_sync_rdma_write(segment, 1) +
           (info->ird_support == IT_TRUE) + (info->ord_support == IT_TRUE) +
           (it_make_rdma_addr(segment->addr.abs) == it_make_rdma_addr_relative(0)) +
           (attr.srv.rc.rdma_read_ird == attr.srv.rc.rdma_read_ord);
}

static int extensions(it_ep_handle_t ep, it_evd_handle_t evd, it_lmr_triplet_t *segment)
{
    const struct itx_option *options;
    struct itx_counter counters[4];
    it_event_t events[2];
    it_rmr_context_t context;
    const char *text = NULL;
    size_t count = 4;
    uint32_t sum = 0;
    int n = 0;

    n += itx_option_list(&options, &count) || options->section || options->name || options->type ||
         options->def || options->unit || options->text;
    n += itx_config_write(line, &text) || itx_config_source(&text);
    n += itx_provider_why(provider, &sum) || itx_interface_why(interface_line, &n);
    n += itx_wire_name(NULL, &text);
    n += itx_hardware(NULL, 0, NULL);
    n += itx_local_wire(NULL, NULL);
    n += itx_memory_create(1, NULL) || itx_memory_free(NULL);
    n += itx_counters(ep, counters, &count) || counters[0].value || counters[0].name;
    n += it_evd_dequeue_n(evd, 2, events, &n) || itx_aevd_wait(evd, 1000, 2, events, &count);
    n += itx_listen_create(NULL, 0, evd, IT_LISTEN_NO_FLAG, NULL, NULL, NULL);
    n += itx_bind_ep_to_device(ep, 1) || itx_init_tracing("name", 0);
    n += itx_get_rmr_context_for_ep(ep, segment->lmr, &context) ||
         itx_ep_accept_with_rmr(ep, 1, segment, &context);
    n += itx_ep_connect_with_rmr(ep, NULL, NULL, NULL, IT_CONNECT_FLAG_TWO_WAY, NULL, 0, segment,
                                 &context);
    text = itx_status_name(IT_ERR_RANGE);
    n += text == itx_status_text(IT_SUCCESS) || text == itx_version();
    n += text == itx_event_name(IT_SOFTWARE_EVENT) || text == itx_reject_name(IT_CN_REJ_OTHER) ||
         text == itx_dto_status_name(IT_DTO_SUCCESS);
    return n;
}

int consumer(it_pz_handle_t pz, it_ep_handle_t ep, it_evd_handle_t evd, it_rmr_handle_t rmr)
{
    static it_ia_info_t info;
    it_dto_flags_t flags = IT_COMPLETION_FLAG | IT_NOTIFY_FLAG;
    it_lmr_triplet_t segment = { NULL, { NULL }, 0 };
    it_path_t path = { 0,
                       IT_TIMEOUT_INFINITE,
                       { { { 0, 0, 0, 0, 0, { { { 0 } } }, { { { 0 } } }, 0, 0, 0, 0, 0, 0 } } } };
    it_conn_qual_t qual;

    qual.type = IT_IANA_PORT;
    qual.conn_qual.port = htons(7471);
    path.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
    path.remote.iwarp.raddr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    flags |= IT_SOLICITED_WAIT_FLAG;
    return (int)register_memory(pz, ep, &rmr, &segment.lmr) + old_names(&info, &segment) +
           extensions(ep, evd, &segment) +
           (int)it_post_send(ep, &segment, 1, COOKIE(it_ntoh64(1)), flags) +
           (int)it_ep_connect(ep, &path, NULL, &qual, IT_CONNECT_FLAG_TWO_WAY, NULL, 0) +
           (evd == IT_NULL_HANDLE);
}
