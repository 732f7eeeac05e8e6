/* SPDX-License-Identifier: BSD-3-Clause */
/* Management datagrams: header, messages of communication management. */
#include "tc.h"

#include "mads.h"

/* Over a copy of its exact size: a read behind its end shows under ASan. */
static enum mad_result parse_copy(const uint8_t *p, size_t len, struct cm_message *message)
{
    uint8_t *copy = malloc(len ? len : 1);
    enum mad_result result;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, p, len);
    result = cm_parse(copy, len, message);
    if (result == MAD_OK) {
        ck_assert_ptr_eq(message->private_data + message->private_len, copy + MAD_LEN);
        message->private_data = p + (message->private_data - copy);
        if (message->attribute_id == CM_REJ)
            message->rej.ari = p + (message->rej.ari - copy);
        if (message->attribute_id == CM_SIDR_REP)
            message->sidr_rep.additional_info = p + (message->sidr_rep.additional_info - copy);
    }
    free(copy);
    return result;
}

/* Where values are expected from: a vector's fields, or the octets behind a MAD
 * header. */
struct source {
    const struct packet_vector *vector; /* NULL: octets */
    const struct layout *layout;
    const uint8_t *body;
};

static uint64_t value_in(const struct source *source, const char *name)
{
    const struct field *f = source->layout->fields;
    uint64_t value = 0;

    while (f->name && strcmp(f->name, name))
        f++;
    ck_assert_msg(f->name != NULL, "no %s", name);
    for (unsigned i = 8 * f->octet + f->bit; i < 8 * f->octet + f->bit + f->bits; i++)
        value = value << 1 | (source->body[i / 8] >> (7 - i % 8) & 1);
    return value;
}

static void same(const struct source *source, const char *name, uint64_t value)
{
    uint64_t want;
    char path[64];

    snprintf(path, sizeof(path), "mad.cm.%s", name);
    want = source->vector ? packet_need(source->vector, path) : value_in(source, name);
    ck_assert_msg(want == value, "%s is %llx, not %llx", name, (unsigned long long)value,
                  (unsigned long long)want);
}

static void same_octets(const struct source *source, const char *name, const uint8_t *octets,
                        size_t len)
{
    const struct field *f = source->layout->fields;
    uint8_t want[MAD_BODY_LEN];
    char path[64];

    snprintf(path, sizeof(path), "mad.cm.%s", name);
    while (f->name && strcmp(f->name, name))
        f++; /* private data: the last */
    if (source->vector)
        ck_assert_msg(packet_octets(source->vector, path, want, len), "no %s", name);
    else
        memcpy(want, source->body + f->octet, len);
    ck_assert_msg(!memcmp(want, octets, len), "%s", name);
}

static void same_alternate(const struct source *v, const struct cm_path *m)
{
    same(v, "alt_local_lid", m->local_lid);
    same(v, "alt_remote_lid", m->remote_lid);
    same_octets(v, "alt_remote_gid", m->remote_gid, GID_LEN);
    same(v, "alt_flow_label", m->flow_label);
    same(v, "alt_packet_rate", m->packet_rate);
    same(v, "alt_traffic_class", m->traffic_class);
    same(v, "alt_hop_limit", m->hop_limit);
    same(v, "alt_sl", m->sl);
    same(v, "alt_subnet_local", m->subnet_local);
    same(v, "alt_local_ack_timeout", m->local_ack_timeout);
}

static void same_req(const struct source *v, const struct cm_req *m)
{
    same(v, "local_comm_id", m->local_comm_id);
    same(v, "vendor_id", m->vendor_id);
    same(v, "service_id", m->service_id);
    same(v, "local_ca_guid", m->local_ca_guid);
    same(v, "local_qkey", m->local_q_key);
    same(v, "local_qpn", m->local_qpn);
    same(v, "responder_resources", m->responder_resources);
    same(v, "local_eecn", m->local_eecn);
    same(v, "initiator_depth", m->initiator_depth);
    same(v, "remote_eecn", m->remote_eecn);
    same(v, "remote_cm_response_timeout", m->remote_cm_response_timeout);
    same(v, "transport_type", m->transport_service_type);
    same(v, "flow_control", m->end_to_end_flow_control);
    same(v, "starting_psn", m->starting_psn);
    same(v, "local_cm_response_timeout", m->local_cm_response_timeout);
    same(v, "retry_count", m->retry_count);
    same(v, "p_key", m->p_key);
    same(v, "path_mtu", m->path_mtu);
    same(v, "rdc_exists", m->rdc_exists);
    same(v, "rnr_retry_count", m->rnr_retry_count);
    same(v, "max_cm_retries", m->max_cm_retries);
    same(v, "srq", m->srq);
    same(v, "extended_transport", m->extended_transport_type);
    same(v, "local_lid", m->primary.local_lid);
    same(v, "remote_lid", m->primary.remote_lid);
    same_octets(v, "local_gid", m->primary.local_gid, GID_LEN);
    same_octets(v, "remote_gid", m->primary.remote_gid, GID_LEN);
    same(v, "flow_label", m->primary.flow_label);
    same(v, "packet_rate", m->primary.packet_rate);
    same(v, "traffic_class", m->primary.traffic_class);
    same(v, "hop_limit", m->primary.hop_limit);
    same(v, "sl", m->primary.sl);
    same(v, "subnet_local", m->primary.subnet_local);
    same(v, "local_ack_timeout", m->primary.local_ack_timeout);
    same_octets(v, "alt_local_gid", m->alternate.local_gid, GID_LEN);
    if (!v->vector) /* the vectors do not name the others */
        same_alternate(v, &m->alternate);
}

static void same_rep(const struct source *v, const struct cm_rep *m)
{
    same(v, "local_comm_id", m->local_comm_id);
    same(v, "remote_comm_id", m->remote_comm_id);
    same(v, "local_qkey", m->local_q_key);
    same(v, "local_qpn", m->local_qpn);
    same(v, "vendor_id_h", m->vendor_id >> 16);
    same(v, "vendor_id_m", m->vendor_id >> 8 & 255);
    same(v, "vendor_id_l", m->vendor_id & 255);
    same(v, "local_eecn", m->local_eecn);
    same(v, "starting_psn", m->starting_psn);
    same(v, "responder_resources", m->responder_resources);
    same(v, "initiator_depth", m->initiator_depth);
    same(v, "target_ack_delay", m->target_ack_delay);
    same(v, "failover_accepted", m->failover_accepted);
    same(v, "flow_control", m->end_to_end_flow_control);
    same(v, "rnr_retry_count", m->rnr_retry_count);
    same(v, "srq", m->srq);
    same(v, "local_ca_guid", m->local_ca_guid);
}

static void same_rej(const struct source *v, const struct cm_rej *m)
{
    same(v, "local_comm_id", m->local_comm_id);
    same(v, "remote_comm_id", m->remote_comm_id);
    same(v, "message_rejected", m->message_rejected);
    same(v, "reject_info_length", m->reject_info_length);
    same(v, "reason", m->reason);
    same_octets(v, "ari", m->ari, CM_INFORMATION_LEN);
}

static void same_sidr_rep(const struct source *v, const struct cm_sidr_rep *m)
{
    same(v, "request_id", m->request_id);
    same(v, "status", m->status);
    same(v, "additional_info_length", m->additional_info_length);
    same(v, "vendor_id_h", m->vendor_id >> 8);
    same(v, "vendor_id_l", m->vendor_id & 255);
    same(v, "qpn", m->qpn);
    same(v, "service_id", m->service_id);
    same(v, "q_key", m->q_key);
    same_octets(v, "additional_info", m->additional_info, CM_INFORMATION_LEN);
}

static void same_ids(const struct source *v, uint32_t local, uint32_t remote)
{
    same(v, "local_comm_id", local);
    same(v, "remote_comm_id", remote);
}

static void same_message(const struct source *v, const struct cm_message *m)
{
    switch (m->attribute_id) {
    case CM_REQ: same_req(v, &m->req); break;
    case CM_REP: same_rep(v, &m->rep); break;
    case CM_REJ: same_rej(v, &m->rej); break;
    case CM_MRA:
        same_ids(v, m->mra.local_comm_id, m->mra.remote_comm_id);
        same(v, "message_mraed", m->mra.message_mraed);
        same(v, "service_timeout", m->mra.service_timeout);
        break;
    case CM_RTU: same_ids(v, m->rtu.local_comm_id, m->rtu.remote_comm_id); break;
    case CM_DREP: same_ids(v, m->drep.local_comm_id, m->drep.remote_comm_id); break;
    case CM_DREQ:
        same_ids(v, m->dreq.local_comm_id, m->dreq.remote_comm_id);
        same(v, "remote_qpn", m->dreq.remote_qpn);
        break;
    case CM_SIDR_REQ:
        same(v, "request_id", m->sidr_req.request_id);
        same(v, "p_key", m->sidr_req.p_key);
        same(v, "service_id", m->sidr_req.service_id);
        break;
    case CM_SIDR_REP: same_sidr_rep(v, &m->sidr_rep); break;
    default: ck_abort_msg("attribute %x", m->attribute_id);
    }
    same_octets(v, "private_data", m->private_data, m->private_len);
}

START_TEST(M001_M010_M020_M022_every_vector_parses)
{
    const struct packet_vectors *all = packet_vectors();
    unsigned seen[LAYOUTS] = { 0 };

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        struct bth_packet packet;
        struct source source = { .vector = v };
        struct cm_message m;
        const uint8_t *mad = mad_of(v, &packet);

        if (!mad)
            continue;
        ck_assert_int_eq(parse_copy(mad, MAD_LEN, &m), MAD_OK);
        source.layout = layout_of(m.attribute_id);
        ck_assert_str_eq(source.layout->name, packet_text(v, "mad.attribute"));
        ck_assert_uint_eq(m.transaction_id, packet_need(v, "mad.transaction_id"));
        ck_assert_uint_eq(m.attribute_modifier, packet_need(v, "mad.attribute_modifier"));
        same_message(&source, &m);
        seen[m.attribute_id - 0x10]++;
    }
    for (int i = 0; i < LAYOUTS; i++)
        ck_assert_msg(!seen[i] == (layouts[i].attribute == CM_MRA), "%s", layouts[i].name);
}
END_TEST

START_TEST(M001_every_vector_encodes_to_its_octets)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        struct bth_packet packet;
        struct cm_message m;
        uint8_t out[MAD_LEN];
        const uint8_t *mad = mad_of(&all->packets[i], &packet);

        if (!mad)
            continue;
        ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), MAD_OK);
        ck_assert_int_eq(cm_put(out, &m), MAD_OK);
        ck_assert_mem_eq(out, mad, MAD_LEN);
    }
}
END_TEST

START_TEST(M001_M003_vectors_cut_at_every_length)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        uint8_t longer[MAD_LEN + 1] = { 0 };
        struct bth_packet packet;
        struct cm_message m;
        const uint8_t *mad = mad_of(&all->packets[i], &packet);

        if (!mad)
            continue;
        for (size_t len = 0; len < MAD_LEN; len++)
            ck_assert_int_eq(parse_copy(mad, len, &m), MAD_ERR_LENGTH);
        memcpy(longer, mad, MAD_LEN);
        ck_assert_int_eq(cm_parse(longer, MAD_LEN + 1, &m), MAD_ERR_LENGTH);
        ck_assert_int_eq(cm_parse(longer, SIZE_MAX, &m), MAD_ERR_LENGTH);
    }
}
END_TEST

/* A header and a body of random octets; lengths of additional information are
 * right. */
static void random_mad(struct tc_rng *rng, const struct layout *layout, uint8_t mad[MAD_LEN])
{
    static const uint8_t front[4] = { 1, 7, 2, 3 };

    tc_fill(rng, mad, MAD_LEN);
    memcpy(mad, front, sizeof(front));
    mad[16] = 0;
    mad[17] = (uint8_t)layout->attribute;
    if (layout->attribute == CM_REJ)
        mad[24 + 9] = 72 << 1;
    if (layout->attribute == CM_SIDR_REP)
        mad[24 + 5] = 72;
}

/* Bits of the header that no field has: status, class specific field, reserved.
 */
static bool header_ignored(unsigned octet)
{
    return (octet >= 4 && octet < 8) || octet == 18 || octet == 19;
}

/* What encoding gives back of a MAD: all fields, zeros in the place of what is
 * reserved. */
static void clear_reserved(const struct layout *layout, uint8_t mad[MAD_LEN])
{
    for (unsigned octet = 0; octet < MAD_HEADER_LEN; octet++) {
        if (header_ignored(octet))
            mad[octet] = 0;
    }
    for (unsigned bit = 0; bit < 8 * MAD_BODY_LEN; bit++) {
        if (!field_of(layout, bit))
            mad[MAD_HEADER_LEN + bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    }
}

START_TEST(M001_M003_M010_fields_lie_where_the_specification_has_them)
{
    const struct layout *layout = &layouts[_i];
    struct tc_rng rng = tc_rng(1);

    ck_assert_uint_eq(cm_private_max(layout->attribute), layout->private_octets);
    ck_assert_uint_eq(end_of(layout)->octet + layout->private_octets, MAD_BODY_LEN);
    for (unsigned long i = 0; i < tc_count(200); i++) {
        uint8_t mad[MAD_LEN], out[MAD_LEN];
        struct source source = { NULL, layout, mad + MAD_HEADER_LEN };
        struct cm_message m;

        random_mad(&rng, layout, mad);
        ck_assert_int_eq(parse_copy(mad, MAD_LEN, &m), MAD_OK);
        same_message(&source, &m);
        ck_assert_int_eq(cm_put(out, &m), MAD_OK);
        clear_reserved(layout, mad);
        ck_assert_mem_eq(out, mad, MAD_LEN);
    }
}
END_TEST

/* A bit is refused, changes the field that it lies in and no other, or is
 * reserved. */
START_TEST(M003_every_bit_counts_or_is_reserved)
{
    const struct layout *layout = &layouts[_i];
    struct tc_rng rng = tc_rng(2);
    uint8_t mad[MAD_LEN], before[MAD_LEN], after[MAD_LEN];
    struct cm_message m, flipped;

    random_mad(&rng, layout, mad);
    ck_assert_int_eq(parse_copy(mad, MAD_LEN, &m), MAD_OK);
    ck_assert_int_eq(cm_put(before, &m), MAD_OK);
    for (unsigned bit = 0; bit < 8 * MAD_LEN; bit++) {
        uint8_t mask = (uint8_t)(0x80u >> bit % 8);
        bool in_header = bit < 8 * MAD_HEADER_LEN;
        enum mad_result result;

        mad[bit / 8] ^= mask;
        result = parse_copy(mad, MAD_LEN, &flipped);
        if (bit / 8 < 4 || (result == MAD_OK && flipped.attribute_id != m.attribute_id)) {
            ck_assert(bit / 8 < 4 ? result != MAD_OK : bit / 8 == 16 || bit / 8 == 17);
        } else if (result != MAD_OK) {
            ck_assert(bit / 8 == 16 || bit / 8 == 17 || result == MAD_ERR_INFORMATION);
        } else if (in_header ? header_ignored(bit / 8)
                             : !field_of(layout, bit - 8 * MAD_HEADER_LEN)) {
            ck_assert_int_eq(cm_put(after, &flipped), MAD_OK);
            ck_assert_mem_eq(after, before, MAD_LEN);
        } else {
            ck_assert_int_eq(cm_put(after, &flipped), MAD_OK);
            /* A shorter length leaves the end of the additional information out. */
            if (flipped.attribute_id != CM_REJ && flipped.attribute_id != CM_SIDR_REP) {
                after[bit / 8] ^= mask;
                ck_assert_mem_eq(after, before, MAD_LEN);
            } else {
                ck_assert(memcmp(after, before, MAD_LEN));
            }
        }
        mad[bit / 8] ^= mask;
    }
}
END_TEST

START_TEST(M001_M003_refusals_and_their_order)
{
    struct tc_rng rng = tc_rng(3);
    uint8_t mad[MAD_LEN];
    struct cm_message m, untouched;

    random_mad(&rng, &layouts[0], mad);
    memset(&m, 0x5A, sizeof(m));
    untouched = m;
    for (unsigned attribute = 0; attribute <= 0xFFFF; attribute++) {
        enum mad_result want = attribute == CM_LAP || attribute == CM_APR ? MAD_ERR_PATH
                               : layout_of((uint16_t)attribute)           ? MAD_OK
                                                                          : MAD_ERR_ATTRIBUTE;

        if (want == MAD_OK)
            continue;
        mad[16] = (uint8_t)(attribute >> 8);
        mad[17] = (uint8_t)attribute;
        ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), want);
        ck_assert_uint_eq(cm_private_max((uint16_t)attribute), 0);
    }
    mad[3] = 0x83;
    ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), MAD_ERR_METHOD);
    mad[2] = 1;
    ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), MAD_ERR_CLASS_VERSION);
    mad[1] = 3; /* subnet administration */
    ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), MAD_ERR_CLASS);
    mad[0] = 2;
    ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), MAD_ERR_BASE_VERSION);
    ck_assert_mem_eq(&m, &untouched, sizeof(m));
}
END_TEST

START_TEST(M003_length_of_additional_information)
{
    struct tc_rng rng = tc_rng(4);
    uint8_t mad[MAD_LEN];
    struct cm_message m;

    random_mad(&rng, layout_of(CM_REJ), mad);
    for (unsigned n = 0; n < 128; n++) {
        mad[24 + 9] = (uint8_t)(n << 1);
        ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), n > 72 ? MAD_ERR_INFORMATION : MAD_OK);
    }
    random_mad(&rng, layout_of(CM_SIDR_REP), mad);
    for (unsigned n = 0; n < 256; n++) {
        mad[24 + 5] = (uint8_t)n;
        ck_assert_int_eq(cm_parse(mad, MAD_LEN, &m), n > 72 ? MAD_ERR_INFORMATION : MAD_OK);
    }
}
END_TEST

START_TEST(M022_encode_refuses_what_has_no_room)
{
    static const uint8_t data[256] = { 0 };
    uint8_t out[MAD_LEN], untouched[MAD_LEN];

    memset(out, 0xA5, sizeof(out));
    memcpy(untouched, out, sizeof(out));
    for (int i = 0; i < LAYOUTS; i++) {
        struct cm_message m = { .attribute_id = layouts[i].attribute, .private_data = data };

        m.private_len = layouts[i].private_octets + 1;
        ck_assert_int_eq(cm_put(out, &m), MAD_ERR_PRIVATE_DATA);
        m.private_len = UINT32_MAX;
        ck_assert_int_eq(cm_put(out, &m), MAD_ERR_PRIVATE_DATA);
    }
    for (uint16_t attribute = 0; attribute < 64; attribute++) {
        struct cm_message m = { .attribute_id = attribute };

        if (!layout_of(attribute))
            ck_assert_int_eq(cm_put(out, &m), attribute == CM_LAP || attribute == CM_APR
                                                  ? MAD_ERR_PATH
                                                  : MAD_ERR_ATTRIBUTE);
    }
    struct cm_message rej = { .attribute_id = CM_REJ };
    struct cm_message rep = { .attribute_id = CM_SIDR_REP };

    rej.rej.ari = rep.sidr_rep.additional_info = data;
    rej.rej.reject_info_length = rep.sidr_rep.additional_info_length = 73;
    ck_assert_int_eq(cm_put(out, &rej), MAD_ERR_INFORMATION);
    ck_assert_int_eq(cm_put(out, &rep), MAD_ERR_INFORMATION);
    ck_assert_mem_eq(out, untouched, sizeof(out));
}
END_TEST

START_TEST(M022_short_private_data_and_zeros_behind)
{
    static const uint8_t data[3] = { 1, 2, 3 };

    for (int i = 0; i < LAYOUTS; i++) {
        struct cm_message m = { .attribute_id = layouts[i].attribute, .private_data = data };
        struct cm_message again;
        uint8_t out[MAD_LEN];

        memset(out, 0xA5, sizeof(out));
        m.private_len = sizeof(data);
        ck_assert_int_eq(cm_put(out, &m), MAD_OK);
        ck_assert_int_eq(cm_parse(out, MAD_LEN, &again), MAD_OK);
        ck_assert_uint_eq(again.private_len, layouts[i].private_octets);
        for (uint32_t k = 0; k < again.private_len; k++)
            ck_assert_uint_eq(again.private_data[k], k < 3 ? data[k] : 0);
    }
}
END_TEST

START_TEST(M031_M040_time_out_codes)
{
    ck_assert_uint_eq(cm_timeout_ns(0), 4096);
    ck_assert_uint_eq(cm_timeout_ns(20), UINT64_C(4294967296));
    ck_assert_uint_eq(cm_timeout_ns(31), UINT64_C(4096) << 31);
    ck_assert_uint_eq(cm_timeout_ns(32), 4096);

    ck_assert_uint_eq(cm_ack_timeout(18, 15), 19);
    ck_assert_uint_eq(cm_ack_timeout(18, 18), 20);
    ck_assert_uint_eq(cm_ack_timeout(18, 19), 20);
    ck_assert_uint_eq(cm_ack_timeout(18, 20), 21);
    ck_assert_uint_eq(cm_ack_timeout(18, 25), 25);
    ck_assert_uint_eq(cm_ack_timeout(31, 31), 31);
    ck_assert_uint_eq(cm_ack_timeout(0, 0), 2);
}
END_TEST

START_TEST(results_have_names)
{
    for (int result = 0; result < MAD_RESULTS; result++) {
        const char *requirement = mad_result_requirement(result);

        ck_assert(*mad_result_text(result));
        ck_assert_int_eq(!*requirement, result == MAD_OK);
        if (result != MAD_OK)
            ck_assert_msg(strlen(requirement) == 5 && requirement[0] == 'M', "%d", result);
    }
    ck_assert_str_eq(mad_result_text(MAD_RESULTS), "unknown result");
    ck_assert_str_eq(mad_result_requirement(MAD_RESULTS), "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mad");
    TCase *t = tc_case(s, "messages", NULL, NULL);

    tc_add_tests(tc_case(s, "vectors", NULL, NULL), M001_M010_M020_M022_every_vector_parses,
                 M001_every_vector_encodes_to_its_octets, M001_M003_vectors_cut_at_every_length);
    tcase_add_loop_test(t, M001_M003_M010_fields_lie_where_the_specification_has_them, 0, LAYOUTS);
    tcase_add_loop_test(t, M003_every_bit_counts_or_is_reserved, 0, LAYOUTS);
    tc_add_tests(t, M001_M003_refusals_and_their_order, M003_length_of_additional_information,
                 M022_encode_refuses_what_has_no_room, M022_short_private_data_and_zeros_behind,
                 M031_M040_time_out_codes, results_have_names);
    return tc_main(s);
}
