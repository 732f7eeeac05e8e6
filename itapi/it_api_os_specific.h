/* SPDX-License-Identifier: BSD-3-Clause
 *
 * it_api_os_specific.h - what <it_api.h> takes from the operating system and the compiler.
 *
 * Included by <it_api.h>; programs do not include it themselves.
 */
#ifndef _IT_API_OS_SPECIFIC_H_
#define _IT_API_OS_SPECIFIC_H_

#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h> /* struct in_addr, struct in6_addr */

/* Marks what the library exports; keeps the declarations visible under -fvisibility=hidden. */
#if defined(__GNUC__)
#define ITAPI_PUBLIC __attribute__((__visibility__("default")))
#else
#define ITAPI_PUBLIC
#endif

/*
 * Choices that the standard's header leaves to the consumer and this library does not offer. Each
 * would change the meaning of a call behind the back of a library that was compiled without it.
 */
#ifdef ITAPI_IANA_PORT_HOST_BYTE_ORDER
#error "ITAPI_IANA_PORT_HOST_BYTE_ORDER is not offered: ports are in network order, use htons()"
#endif
#ifdef ITAPI_SERVICE_ID_HOST_BYTE_ORDER
#error "ITAPI_SERVICE_ID_HOST_BYTE_ORDER is not offered: service IDs are in network order"
#endif
#ifdef IT_32BIT
#error "IT_32BIT is not offered: the library is built with a 64-bit it_length_t"
#endif

/* "No address": the address argument of a registration whose memory is given in another form. */
#define IT_NO_ADDR NULL

/* Size in bytes of an Interface name, the terminating NUL included. */
#define IT_INTERFACE_NAME_SIZE 128

/*
 * Segments per work request that a program may size its arrays for. What an Endpoint really takes
 * was asked for at its creation and is told by it_ep_query(); it can be more or less.
 */
#define IT_MAX_SEND_SEGMENTS       10
#define IT_MAX_RECV_SEGMENTS       10
#define IT_MAX_RDMA_READ_SEGMENTS  10
#define IT_MAX_RDMA_WRITE_SEGMENTS 10

/* Customary read depths; no call depends on them. The second name is spelt as it is elsewhere. */
#define IT_RDMA_INITIATOR_DEPTH    32
#define IT_RDMA_RESPONDER_RESOUCES 16

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Host to network order, 64 bits, and back. Pure functions; any thread, also in signal handlers.
 * Meant for addresses and RMR Contexts that two consumers tell each other: both are host-order
 * integers at this interface, and the peer may be of the other endianness.
 */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline uint64_t it_hton64(uint64_t hostint)
{
    return __builtin_bswap64(hostint);
}
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static inline uint64_t it_hton64(uint64_t hostint)
{
    return hostint;
}
#else
#error "the compiler does not tell the byte order of the target (__BYTE_ORDER__)"
#endif

static inline uint64_t it_ntoh64(uint64_t netint)
{
    return it_hton64(netint);
}

#ifdef __cplusplus
}
#endif

#endif /* _IT_API_OS_SPECIFIC_H_ */
