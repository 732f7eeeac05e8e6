/* SPDX-License-Identifier: BSD-3-Clause */
/* A management datagram: parsed messages encode to the same, with zeros in what is reserved. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/cma.h"

static void read_cma_header(const struct cm_message *message)
{
    uint8_t octets[CMA_HEADER_LEN];
    struct cma_header header, again;
    enum cma_port_space space;
    uint16_t port;

    if (cma_get(message->private_data, message->private_len, &header) != CMA_OK)
        return;
    cma_put(octets, &header);
    FUZZ_CHECK(cma_get(octets, sizeof(octets), &again) == CMA_OK);
    /* Families that differ become one: the source's. */
    if (gid_is_ipv4(header.source) == gid_is_ipv4(header.destination))
        FUZZ_CHECK(!memcmp(&header, &again, sizeof(header)));
    if (message->attribute_id == CM_REQ &&
        cma_split_service_id(message->req.service_id, &space, &port))
        FUZZ_CHECK(cma_service_id(space, port) == message->req.service_id);
}

/* The private data end with the MAD. */
static void check_pointers(const uint8_t *data, const struct cm_message *message)
{
    FUZZ_CHECK(message->private_len == cm_private_max(message->attribute_id));
    FUZZ_CHECK(message->private_data + message->private_len == data + MAD_LEN);
    if (message->attribute_id == CM_REJ)
        FUZZ_CHECK(message->rej.ari + CM_INFORMATION_LEN == message->private_data &&
                   message->rej.reject_info_length <= CM_INFORMATION_LEN);
    if (message->attribute_id == CM_SIDR_REP)
        FUZZ_CHECK(message->sidr_rep.additional_info + CM_INFORMATION_LEN ==
                       message->private_data &&
                   message->sidr_rep.additional_info_length <= CM_INFORMATION_LEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t first[MAD_LEN], second[MAD_LEN];
    struct cm_message message, again;
    enum mad_result result = cm_parse(data, size, &message);

    FUZZ_CHECK(*mad_result_text(result));
    if (result != MAD_OK) {
        FUZZ_CHECK(*mad_result_requirement(result));
        return 0;
    }
    FUZZ_CHECK(size == MAD_LEN);
    check_pointers(data, &message);
    FUZZ_CHECK(cm_put(first, &message) == MAD_OK);
    FUZZ_CHECK(
        !memcmp(first + MAD_LEN - message.private_len, message.private_data, message.private_len));
    FUZZ_CHECK(cm_parse(first, MAD_LEN, &again) == MAD_OK);
    FUZZ_CHECK(cm_put(second, &again) == MAD_OK);
    FUZZ_CHECK(!memcmp(first, second, MAD_LEN));
    for (size_t i = 0; i < MAD_LEN; i++) /* nothing is set that was not there */
        FUZZ_CHECK(!(first[i] & ~data[i]));
    if (message.attribute_id == CM_REQ || message.attribute_id == CM_SIDR_REQ)
        read_cma_header(&message);
    return 0;
}
