/* SPDX-License-Identifier: BSD-3-Clause */
/* What rdma_cm adds to the requests of communication management: service IDs, a header. */
#include "tc.h"

#include "mads.h"
#include "providers/software/roce/codec/cma.h"

START_TEST(M020_service_ids)
{
    enum cma_port_space space = CMA_PS_IB;
    uint16_t port = 0;

    ck_assert_uint_eq(cma_service_id(CMA_PS_TCP, 7174), UINT64_C(0x1061C06));
    ck_assert_uint_eq(cma_service_id(CMA_PS_UDP, 7174), UINT64_C(0x1111C06));
    ck_assert(cma_split_service_id(UINT64_C(0x1061C06), &space, &port));
    ck_assert(space == CMA_PS_TCP && port == 7174);
    ck_assert(cma_split_service_id(UINT64_C(0x13FFFFF), &space, &port));
    ck_assert(space == CMA_PS_IB && port == 0xFFFF);
    ck_assert(cma_split_service_id(UINT64_C(0x20000), &space, &port));
    ck_assert(space == CMA_PS_IPOIB && port == 0);
    ck_assert(!cma_split_service_id(UINT64_C(0x1071C06), &space, &port));
    ck_assert(!cma_split_service_id(UINT64_C(0x0100000001061C06), &space, &port));
    ck_assert(space == CMA_PS_IPOIB && port == 0);
}
END_TEST

static bool has_cma_header(uint16_t attribute)
{
    return attribute == CM_REQ || attribute == CM_SIDR_REQ;
}

START_TEST(M021_M022_M024_header_of_rdma_cm_in_every_request)
{
    const struct packet_vectors *all = packet_vectors();
    unsigned seen = 0;

    ck_assert_uint_eq(CMA_REQ_PRIVATE, 56);
    ck_assert_uint_eq(CMA_SIDR_REQ_PRIVATE, 180);
    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        uint8_t out[CMA_HEADER_LEN];
        struct bth_packet packet;
        struct cma_header h;
        struct cm_message m;
        const uint8_t *mad = mad_of(v, &packet);

        if (!mad)
            continue;
        ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), MAD_OK);
        if (!has_cma_header(m.attribute_id))
            continue;
        seen++;
        ck_assert_int_eq(cma_get(m.private_data, m.private_len, &h), CMA_OK);
        ck_assert_uint_eq(h.source_port, packet_need(v, "mad.cm.cma_header.port"));
        ck_assert_uint_eq(gid_is_ipv4(h.source) ? 4 : 6,
                          packet_need(v, "mad.cm.cma_header.ip_version"));
        if (m.attribute_id == CM_REQ) { /* the header agrees with the path */
            uint32_t label = cma_flow_label(h.source_port, (uint16_t)m.req.service_id);

            ck_assert_mem_eq(h.source, m.req.primary.local_gid, GID_LEN);
            ck_assert_mem_eq(h.destination, m.req.primary.remote_gid, GID_LEN);
            ck_assert_uint_eq(label, m.req.primary.flow_label);
        }
        cma_put(out, &h);
        ck_assert_mem_eq(out, m.private_data, CMA_HEADER_LEN);
    }
    ck_assert_uint_ge(seen, 5);
}
END_TEST

START_TEST(M021_M023_header_of_rdma_cm_refused)
{
    uint8_t p[CMA_HEADER_LEN] = { [1] = 0x40 };
    struct cma_header h;

    for (size_t len = 0; len < sizeof(p); len++)
        ck_assert_int_eq(cma_get(p, len, &h), CMA_ERR_SHORT);
    ck_assert_int_eq(cma_get(p, sizeof(p), &h), CMA_OK);
    for (unsigned octet = 0; octet < 256; octet++) {
        p[0] = (uint8_t)octet;
        ck_assert_int_eq(cma_get(p, sizeof(p), &h), octet ? CMA_ERR_VERSION : CMA_OK);
    }
    p[0] = 0;
    for (unsigned octet = 0; octet < 256; octet++) {
        p[1] = (uint8_t)octet;
        ck_assert_int_eq(cma_get(p, sizeof(p), &h),
                         octet >> 4 == 4 || octet >> 4 == 6 ? CMA_OK : CMA_ERR_IP_VERSION);
    }
}
END_TEST

START_TEST(M021_addresses_of_both_families)
{
    struct cma_header h = { .source_port = 44476 }, again;
    uint8_t out[CMA_HEADER_LEN];

    gid_put_ipv4(h.source, (const uint8_t[]){ 10, 7, 0, 1 });
    gid_put_ipv4(h.destination, (const uint8_t[]){ 10, 7, 0, 2 });
    cma_put(out, &h);
    ck_assert_mem_eq(out, "\x00\x40\xad\xbc\0\0\0\0\0\0\0\0\0\0\0\0\x0a\x07\0\x01", 20);
    ck_assert_mem_eq(out + 20, "\0\0\0\0\0\0\0\0\0\0\0\0\x0a\x07\0\x02", 16);
    ck_assert_int_eq(cma_get(out, sizeof(out), &again), CMA_OK);
    ck_assert_mem_eq(&h, &again, sizeof(h));
    h.source[0] = 0xFD;
    h.destination[0] = 0xFD;
    cma_put(out, &h);
    ck_assert_uint_eq(out[1], 0x60);
    ck_assert_int_eq(cma_get(out, sizeof(out), &again), CMA_OK);
    ck_assert_mem_eq(&h, &again, sizeof(h));
    ck_assert_uint_eq(cma_flow_label(44476, 7174), 337354);
    ck_assert_uint_eq(cma_flow_label(0xFFFF, 0xFFFF), 32u * 0xFFFF & 0xFFFFF);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cma");

    tc_add_tests(tc_case(s, "rdma_cm", NULL, NULL), M020_service_ids,
                 M021_M022_M024_header_of_rdma_cm_in_every_request,
                 M021_M023_header_of_rdma_cm_refused, M021_addresses_of_both_families);
    return tc_main(s);
}
