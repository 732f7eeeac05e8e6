/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_helpers.h"

#include "tc.h"

#include "base/be.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/mad.h"

#include <sched.h>
#include <sys/socket.h>

void net_namespace(void)
{
    if (tc_netns())
        return;
    if (unshare(CLONE_NEWUSER) || !tc_netns())
        tc_skip("no network name space of its own");
}

struct share_key net_test_key(uint32_t n)
{
    struct share_key key = { .scope = 0 };

    if (n)
        gid_put_ipv4(key.gid, (const uint8_t[]){ 127, 0, 0, (uint8_t)n });
    else
        key.gid[GID_LEN - 1] = 1;
    return key;
}

int plain_socket(const struct share_key *key, uint16_t udp_port)
{
    union socket_address address;
    socklen_t len = socket_address_set(&address, key, udp_port);
    int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, &address.any, len), 0);
    return fd;
}

void plain_send(int fd, const struct share_key *to, const void *octets, size_t len)
{
    union socket_address address;
    socklen_t size = socket_address_set(&address, to, GID_UDP_PORT);

    ck_assert_int_eq(sendto(fd, octets, len, 0, &address.any, size), (ssize_t)len);
}

void put_send(uint8_t header[static BTH_LEN], uint32_t qpn, uint32_t psn, uint32_t payload)
{
    bth_put_base(header, BTH_RC | BTH_SEND_ONLY, BTH_M | bth_pad(payload) << 4, qpn, psn);
}

uint32_t put_packet(uint8_t out[static TEST_PACKET_MAX], const struct share_key *from,
                    uint16_t source_port, const struct share_key *to, uint32_t fragment_word,
                    uint32_t qpn, uint32_t psn, uint32_t payload)
{
    uint32_t len = BTH_LEN + payload + bth_pad(payload) + BTH_ICRC_LEN;
    struct icrc_path path;

    memset(out, 0, len);
    put_send(out, qpn, psn, payload);
    for (uint32_t i = 0; i < payload; i++)
        out[BTH_LEN + i] = (uint8_t)(psn + i);
    icrc_path_init(&path, from->gid, to->gid, source_port);
    icrc_put(out + len - BTH_ICRC_LEN, icrc_of_packet(&path, fragment_word, out, len));
    return len;
}

uint32_t put_mad(uint8_t out[static TEST_PACKET_MAX], uint16_t attribute, uint32_t local_id,
                 uint32_t remote_id)
{
    const struct mad_header header = { .base_version = MAD_BASE_VERSION,
                                       .mgmt_class = MAD_CLASS_CM,
                                       .class_version = MAD_CLASS_CM_VERSION,
                                       .method = MAD_METHOD_SEND,
                                       .attribute_id = attribute };
    uint32_t len = BTH_LEN + BTH_DETH_LEN + MAD_LEN + BTH_ICRC_LEN;
    uint8_t *mad = out + BTH_LEN + BTH_DETH_LEN;

    memset(out, 0, len);
    bth_put_base(out, BTH_UD | BTH_SEND_ONLY, BTH_M, BTH_QPN_GSI, 0);
    bth_put_deth(out + BTH_LEN, MAD_Q_KEY, BTH_QPN_GSI);
    mad_put_header(mad, &header);
    be_put32(mad + MAD_HEADER_LEN, local_id);
    be_put32(mad + MAD_HEADER_LEN + 4, remote_id);
    return len;
}
