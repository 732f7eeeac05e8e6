/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records which call returned which error, in which test, over which interface: each call of the
 * tests passes here. If ITAL_TEST_SEEN names a folder, the program writes a file of its own name
 * there, from which errors.py makes docs/errors.md.
 *
 * A line is: interface, call, status, function, padded with blanks. The file is mapped, so it has
 * the records of forked and of killed children too, and no descriptor stays open.
 */
#ifndef ITAL_TESTS_ITAPI_SEEN_H
#define ITAL_TESTS_ITAPI_SEEN_H

#include "base/compiler.h"

#include <stdatomic.h>

/* A call site. */
struct fx_site {
    const char *call;
    atomic_ullong noted[2]; /* statuses that this process has recorded, a bit each */
};

/* That interface is under test from now on. */
void fx_seen_over(const char *interface);
/* Records an error, once for each call site and process. Returns the status. */
it_status_t fx_seen_error(struct fx_site *site, const char *function, it_status_t status);

static inline it_status_t fx_seen(struct fx_site *site, const char *function, it_status_t status)
{
    return likely(status == IT_SUCCESS) ? status : fx_seen_error(site, function, status);
}
#define FX_SITE(name)                                   \
    ({                                                  \
        static struct fx_site site_ = { #name, { 0 } }; \
        &site_;                                         \
    })
#define FX_SEEN(name, ...) fx_seen(FX_SITE(name), __func__, name(__VA_ARGS__))

/* The calls of tests/data/call_errors.txt. errors.py reads the sources without these macros;
 * programs with wide cookies have names of their own. */
#if !defined(FX_UNSEEN) && !defined(ITAPI_WIDE_COOKIE)
#define it_ia_create(...)             FX_SEEN(it_ia_create, __VA_ARGS__)
#define it_ia_free(...)               FX_SEEN(it_ia_free, __VA_ARGS__)
#define it_ia_query(...)              FX_SEEN(it_ia_query, __VA_ARGS__)
#define it_get_handle_type(...)       FX_SEEN(it_get_handle_type, __VA_ARGS__)
#define it_get_consumer_context(...)  FX_SEEN(it_get_consumer_context, __VA_ARGS__)
#define it_set_consumer_context(...)  FX_SEEN(it_set_consumer_context, __VA_ARGS__)
#define it_pz_create(...)             FX_SEEN(it_pz_create, __VA_ARGS__)
#define it_pz_free(...)               FX_SEEN(it_pz_free, __VA_ARGS__)
#define it_pz_query(...)              FX_SEEN(it_pz_query, __VA_ARGS__)
#define it_lmr_create10(...)          FX_SEEN(it_lmr_create10, __VA_ARGS__)
#define it_lmr_create20(...)          FX_SEEN(it_lmr_create20, __VA_ARGS__)
#define it_lmr_create21(...)          FX_SEEN(it_lmr_create21, __VA_ARGS__)
#define it_lmr_create_unlinked(...)   FX_SEEN(it_lmr_create_unlinked, __VA_ARGS__)
#define it_lmr_free(...)              FX_SEEN(it_lmr_free, __VA_ARGS__)
#define it_lmr_link(...)              FX_SEEN(it_lmr_link, __VA_ARGS__)
#define it_lmr_unlink(...)            FX_SEEN(it_lmr_unlink, __VA_ARGS__)
#define it_lmr_modify(...)            FX_SEEN(it_lmr_modify, __VA_ARGS__)
#define it_lmr_query(...)             FX_SEEN(it_lmr_query, __VA_ARGS__)
#define it_lmr_flush_to_mem(...)      FX_SEEN(it_lmr_flush_to_mem, __VA_ARGS__)
#define it_lmr_refresh_from_mem(...)  FX_SEEN(it_lmr_refresh_from_mem, __VA_ARGS__)
#define it_rmr_create10(...)          FX_SEEN(it_rmr_create10, __VA_ARGS__)
#define it_rmr_create20(...)          FX_SEEN(it_rmr_create20, __VA_ARGS__)
#define it_rmr_free(...)              FX_SEEN(it_rmr_free, __VA_ARGS__)
#define it_rmr_bind10(...)            FX_SEEN(it_rmr_bind10, __VA_ARGS__)
#define it_rmr_link(...)              FX_SEEN(it_rmr_link, __VA_ARGS__)
#define it_rmr_unlink(...)            FX_SEEN(it_rmr_unlink, __VA_ARGS__)
#define it_rmr_query(...)             FX_SEEN(it_rmr_query, __VA_ARGS__)
#define it_mem_map(...)               FX_SEEN(it_mem_map, __VA_ARGS__)
#define it_mem_unmap(...)             FX_SEEN(it_mem_unmap, __VA_ARGS__)
#define it_evd_create(...)            FX_SEEN(it_evd_create, __VA_ARGS__)
#define it_evd_free(...)              FX_SEEN(it_evd_free, __VA_ARGS__)
#define it_evd_query(...)             FX_SEEN(it_evd_query, __VA_ARGS__)
#define it_evd_modify(...)            FX_SEEN(it_evd_modify, __VA_ARGS__)
#define it_evd_dequeue(...)           FX_SEEN(it_evd_dequeue, __VA_ARGS__)
#define it_evd_dequeue_n(...)         FX_SEEN(it_evd_dequeue_n, __VA_ARGS__)
#define it_evd_wait(...)              FX_SEEN(it_evd_wait, __VA_ARGS__)
#define it_evd_post_se(...)           FX_SEEN(it_evd_post_se, __VA_ARGS__)
#define it_evd_callback_attach(...)   FX_SEEN(it_evd_callback_attach, __VA_ARGS__)
#define it_evd_callback_detach(...)   FX_SEEN(it_evd_callback_detach, __VA_ARGS__)
#define it_ep_rc_create(...)          FX_SEEN(it_ep_rc_create, __VA_ARGS__)
#define it_ep_ud_create(...)          FX_SEEN(it_ep_ud_create, __VA_ARGS__)
#define it_ep_free(...)               FX_SEEN(it_ep_free, __VA_ARGS__)
#define it_ep_query(...)              FX_SEEN(it_ep_query, __VA_ARGS__)
#define it_ep_modify(...)             FX_SEEN(it_ep_modify, __VA_ARGS__)
#define it_ep_reset(...)              FX_SEEN(it_ep_reset, __VA_ARGS__)
#define it_ep_connect(...)            FX_SEEN(it_ep_connect, __VA_ARGS__)
#define it_ep_accept(...)             FX_SEEN(it_ep_accept, __VA_ARGS__)
#define it_ep_disconnect(...)         FX_SEEN(it_ep_disconnect, __VA_ARGS__)
#define it_listen_create(...)         FX_SEEN(it_listen_create, __VA_ARGS__)
#define it_listen_free(...)           FX_SEEN(it_listen_free, __VA_ARGS__)
#define it_listen_query(...)          FX_SEEN(it_listen_query, __VA_ARGS__)
#define it_reject(...)                FX_SEEN(it_reject, __VA_ARGS__)
#define it_handoff(...)               FX_SEEN(it_handoff, __VA_ARGS__)
#define it_socket_convert(...)        FX_SEEN(it_socket_convert, __VA_ARGS__)
#define it_srq_create(...)            FX_SEEN(it_srq_create, __VA_ARGS__)
#define it_srq_free(...)              FX_SEEN(it_srq_free, __VA_ARGS__)
#define it_srq_modify(...)            FX_SEEN(it_srq_modify, __VA_ARGS__)
#define it_srq_query(...)             FX_SEEN(it_srq_query, __VA_ARGS__)
#define it_post_send(...)             FX_SEEN(it_post_send, __VA_ARGS__)
#define it_post_send_and_unlink(...)  FX_SEEN(it_post_send_and_unlink, __VA_ARGS__)
#define it_post_sendto(...)           FX_SEEN(it_post_sendto, __VA_ARGS__)
#define it_post_recv(...)             FX_SEEN(it_post_recv, __VA_ARGS__)
#define it_post_recvfrom(...)         FX_SEEN(it_post_recvfrom, __VA_ARGS__)
#define it_post_rdma_write(...)       FX_SEEN(it_post_rdma_write, __VA_ARGS__)
#define it_post_rdma_read(...)        FX_SEEN(it_post_rdma_read, __VA_ARGS__)
#define it_post_rdma_read_to_rmr(...) FX_SEEN(it_post_rdma_read_to_rmr, __VA_ARGS__)
#define it_post_atomic(...)           FX_SEEN(it_post_atomic, __VA_ARGS__)
#define it_address_handle_create(...) FX_SEEN(it_address_handle_create, __VA_ARGS__)
#define it_address_handle_free(...)   FX_SEEN(it_address_handle_free, __VA_ARGS__)
#define it_address_handle_modify(...) FX_SEEN(it_address_handle_modify, __VA_ARGS__)
#define it_address_handle_query(...)  FX_SEEN(it_address_handle_query, __VA_ARGS__)
#define it_convert_net_addr(...)      FX_SEEN(it_convert_net_addr, __VA_ARGS__)
#define it_get_pathinfo(...)          FX_SEEN(it_get_pathinfo, __VA_ARGS__)
#define it_ud_service_request_handle_create(...) \
    FX_SEEN(it_ud_service_request_handle_create, __VA_ARGS__)
#define it_ud_service_request_handle_free(...) \
    FX_SEEN(it_ud_service_request_handle_free, __VA_ARGS__)
#define it_ud_service_request_handle_query(...) \
    FX_SEEN(it_ud_service_request_handle_query, __VA_ARGS__)
#define it_ud_service_request(...)      FX_SEEN(it_ud_service_request, __VA_ARGS__)
#define it_ud_service_reply(...)        FX_SEEN(it_ud_service_reply, __VA_ARGS__)
#define itx_ep_accept_with_rmr(...)     FX_SEEN(itx_ep_accept_with_rmr, __VA_ARGS__)
#define itx_ep_connect_with_rmr(...)    FX_SEEN(itx_ep_connect_with_rmr, __VA_ARGS__)
#define itx_get_rmr_context_for_ep(...) FX_SEEN(itx_get_rmr_context_for_ep, __VA_ARGS__)
#define itx_bind_ep_to_device(...)      FX_SEEN(itx_bind_ep_to_device, __VA_ARGS__)
#define itx_aevd_wait(...)              FX_SEEN(itx_aevd_wait, __VA_ARGS__)
#endif

#endif
