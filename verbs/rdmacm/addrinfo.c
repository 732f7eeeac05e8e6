/* SPDX-License-Identifier: BSD-3-Clause
 * rdma_getaddrinfo: resolves names with the system's resolver. */
#include "cm.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static int copy_address(struct sockaddr **to, socklen_t *length, const struct sockaddr *from,
                        socklen_t from_length)
{
    if (!from || !from_length)
        return 0;
    *to = malloc(from_length);
    if (!*to)
        return EAI_MEMORY;
    memcpy(*to, from, from_length);
    sanitizer_defined(*to, from_length);
    *length = from_length;
    return 0;
}

static int resolve_name(struct rdma_addrinfo *made, const char *node, const char *service)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP }, *found;
    bool passive = made->ai_flags & RAI_PASSIVE;
    char **name = passive ? &made->ai_src_canonname : &made->ai_dst_canonname;
    int error;

    if (made->ai_flags & RAI_FAMILY)
        hints.ai_family = made->ai_family;
    hints.ai_flags = (passive ? AI_PASSIVE : 0) | (node ? AI_CANONNAME : 0) |
                     (made->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
    error = getaddrinfo(node, service, &hints, &found);
    if (error)
        return error;
    made->ai_family = found->ai_family;
    error = passive ? copy_address(&made->ai_src_addr, &made->ai_src_len, found->ai_addr,
                                   found->ai_addrlen)
                    : copy_address(&made->ai_dst_addr, &made->ai_dst_len, found->ai_addr,
                                   found->ai_addrlen);
    if (!error && found->ai_canonname) {
        *name = strdup(found->ai_canonname);
        error = *name ? 0 : EAI_MEMORY;
    }
    freeaddrinfo(found);
    return error;
}

/* Copies the addresses that the program gave in its hints. */
static int copy_hints(struct rdma_addrinfo *made, const struct rdma_addrinfo *hints)
{
    int error;

    made->ai_flags = hints->ai_flags;
    made->ai_family = hints->ai_family;
    made->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type : IBV_QPT_RC;
    made->ai_port_space = hints->ai_port_space             ? hints->ai_port_space
                          : made->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP
                                                           : RDMA_PS_TCP;
    error = made->ai_src_addr ? 0
                              : copy_address(&made->ai_src_addr, &made->ai_src_len,
                                             hints->ai_src_addr, hints->ai_src_len);
    if (!error && !made->ai_dst_addr)
        error = copy_address(&made->ai_dst_addr, &made->ai_dst_len, hints->ai_dst_addr,
                             hints->ai_dst_len);
    return error;
}

static int fill(struct rdma_addrinfo *made, const char *node, const char *service,
                const struct rdma_addrinfo *hints)
{
    int error;

    made->ai_qp_type = IBV_QPT_RC;
    made->ai_port_space = RDMA_PS_TCP;
    if (hints) {
        made->ai_flags = hints->ai_flags;
        made->ai_family = hints->ai_family;
    }
    if (node || service) {
        error = resolve_name(made, node, service);
        if (error)
            return error;
    }
    if (hints) {
        int family = made->ai_family;

        error = copy_hints(made, hints);
        if (error)
            return error;
        if (family)
            made->ai_family = family;
    }
    if (!made->ai_family && (made->ai_src_addr || made->ai_dst_addr))
        made->ai_family = (made->ai_src_addr ? made->ai_src_addr : made->ai_dst_addr)->sa_family;
    return 0;
}

VB_PUBLIC int rdma_getaddrinfo(const char *node, const char *service,
                               const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
    VB_CALL;
    SANITIZER_OUTPUT(res);
    struct rdma_addrinfo *made;
    int error;

    if ((!node && !service && !hints) || !res)
        return rcm_fail(EINVAL);
    made = calloc(1, sizeof(*made));
    if (!made)
        return EAI_MEMORY;
    error = fill(made, node, service, hints);
    if (error) {
        rdma_freeaddrinfo(made);
        return error;
    }
    *res = made;
    return 0;
}

VB_PUBLIC void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    struct rdma_addrinfo *next;

    for (; res; res = next) {
        next = res->ai_next;
        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res->ai_route);
        free(res->ai_connect);
        free(res);
    }
}
