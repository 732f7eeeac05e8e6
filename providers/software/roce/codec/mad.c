/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Management datagrams: header and its checks.
 */
#include "mad.h"

#include "base/be.h"

static const struct {
    const char *requirement, *text;
} results[MAD_RESULTS] = {
    [MAD_OK] = { "", "ok" },
    [MAD_ERR_LENGTH] = { "M-001", "MAD not of 256 octets" },
    [MAD_ERR_BASE_VERSION] = { "M-003", "MAD base version not 1" },
    [MAD_ERR_CLASS] = { "M-001", "class not communication management" },
    [MAD_ERR_CLASS_VERSION] = { "M-003", "class version not 2" },
    [MAD_ERR_METHOD] = { "M-003", "method not Send" },
    [MAD_ERR_ATTRIBUTE] = { "M-003", "unknown message" },
    [MAD_ERR_PATH] = { "M-003", "message about an alternate path" },
    [MAD_ERR_INFORMATION] = { "M-003", "additional information longer than its field" },
    [MAD_ERR_PRIVATE_DATA] = { "M-022", "private data longer than the message has room for" },
};

const char *mad_result_requirement(enum mad_result result)
{
    return (unsigned)result < MAD_RESULTS ? results[result].requirement : "";
}

const char *mad_result_text(enum mad_result result)
{
    return (unsigned)result < MAD_RESULTS ? results[result].text : "unknown result";
}

void mad_put_header(uint8_t out[static MAD_HEADER_LEN], const struct mad_header *header)
{
    out[0] = header->base_version;
    out[1] = header->mgmt_class;
    out[2] = header->class_version;
    out[3] = header->method;
    be_put16(out + 4, header->status);
    be_put16(out + 6, header->class_specific);
    be_put64(out + 8, header->transaction_id);
    be_put16(out + 16, header->attribute_id);
    be_put16(out + 18, 0);
    be_put32(out + 20, header->attribute_modifier);
}

void mad_get_header(const uint8_t in[static MAD_HEADER_LEN], struct mad_header *header)
{
    header->base_version = in[0];
    header->mgmt_class = in[1];
    header->class_version = in[2];
    header->method = in[3];
    header->status = be_get16(in + 4);
    header->class_specific = be_get16(in + 6);
    header->transaction_id = be_get64(in + 8);
    header->attribute_id = be_get16(in + 16);
    header->attribute_modifier = be_get32(in + 20);
}

enum mad_result mad_check(const void *mad, size_t len, struct mad_header *header)
{
    const uint8_t *p = mad;

    if (len != MAD_LEN)
        return MAD_ERR_LENGTH;
    if (p[0] != MAD_BASE_VERSION)
        return MAD_ERR_BASE_VERSION;
    if (p[1] != MAD_CLASS_CM)
        return MAD_ERR_CLASS;
    if (p[2] != MAD_CLASS_CM_VERSION)
        return MAD_ERR_CLASS_VERSION;
    if (p[3] != MAD_METHOD_SEND)
        return MAD_ERR_METHOD;
    mad_get_header(p, header);
    return MAD_OK;
}
