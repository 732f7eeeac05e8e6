/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions, windows and address handles, traced. */
#include "trace.h"

#include <netinet/in.h>
#include <string.h>

#define BEGIN(line, object_, kind_, verb) \
    trace_begin(&(line), trace_rnic_of((object_)->rnic), verb, kind_, (object_)->number)

static void keys_of(struct trace_line *line, const struct ri_mr_keys *keys)
{
    trace_hex(line, "lkey", keys->lkey);
    trace_hex(line, "rkey", keys->rkey);
}

enum ri_status trace_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                 struct ri_mr_keys *keys, struct ri_mr **mr)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(pd, pd), PASS_KIND_PD, "mr_register");
    trace_hex(&line, "addr", (uintptr_t)attr->addr);
    trace_number(&line, "octets", attr->length);
    trace_bits(&line, "access", attr->access, words_access);
    if (attr->pages)
        trace_number(&line, "pages", attr->pages);
    if (attr->access & RI_ACCESS_IO_ADDR)
        trace_hex(&line, "io_addr", attr->io_addr);
    status = pass_mr_register(pd, attr, keys, mr);
    if (status == RI_OK) {
        keys_of(&line, keys);
        trace_object(&line, PASS_KIND_MR, PASS_OF(mr, *mr)->number);
    }
    return trace_end(&line, status);
}

enum ri_status trace_mr_reregister(struct ri_mr *mr, struct ri_pd *pd,
                                   const struct ri_mr_attr *attr, struct ri_mr_keys *keys)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(mr, mr), PASS_KIND_MR, "mr_reregister");
    trace_bits(&line, "access", attr->access, words_access);
    if (pd)
        trace_object(&line, PASS_KIND_PD, PASS_OF(pd, pd)->number);
    status = pass_mr_reregister(mr, pd, attr, keys);
    if (status == RI_OK)
        keys_of(&line, keys);
    return trace_end(&line, status);
}

enum ri_status trace_mr_deregister(struct ri_mr *mr)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(mr, mr), PASS_KIND_MR, "mr_deregister");
    return trace_end(&line, pass_mr_deregister(mr));
}

enum ri_status trace_mw_allocate(struct ri_pd *pd, bool narrow, void *context, uint32_t *stag,
                                 struct ri_mw **mw)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(pd, pd), PASS_KIND_PD, "mw_allocate");
    trace_text(&line, "type", narrow ? "narrow" : "wide");
    status = pass_mw_allocate(pd, narrow, context, stag, mw);
    if (status == RI_OK) {
        trace_hex(&line, "stag", *stag);
        trace_object(&line, PASS_KIND_MW, PASS_OF(mw, *mw)->number);
    }
    return trace_end(&line, status);
}

enum ri_status trace_mw_free(struct ri_mw *mw)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(mw, mw), PASS_KIND_MW, "mw_free");
    return trace_end(&line, pass_mw_free(mw));
}

/* ---- address handles ---- */

static void put_gid(struct trace_line *line, const uint8_t octets[16])
{
    struct sockaddr_in6 gid = { .sin6_family = AF_INET6 };

    memcpy(&gid.sin6_addr, octets, sizeof(gid.sin6_addr));
    trace_address(line, "gid", (const struct sockaddr *)&gid);
}

void trace_path(struct trace_line *line, const struct ri_ah_attr *attr)
{
    trace_number(line, "port", attr->port);
    if (attr->destination_lid)
        trace_number(line, "lid", attr->destination_lid);
    if (attr->global)
        put_gid(line, attr->destination_gid);
}

enum ri_status trace_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **ah)
{
    struct trace_line line;
    enum ri_status status;

    BEGIN(line, PASS_OF(pd, pd), PASS_KIND_PD, "ah_create");
    trace_path(&line, attr);
    status = pass_ah_create(pd, attr, ah);
    if (status == RI_OK)
        trace_object(&line, PASS_KIND_AH, PASS_OF(ah, *ah)->number);
    return trace_end(&line, status);
}

enum ri_status trace_ah_modify(struct ri_ah *ah, const struct ri_ah_attr *attr)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(ah, ah), PASS_KIND_AH, "ah_modify");
    trace_path(&line, attr);
    return trace_end(&line, pass_ah_modify(ah, attr));
}

enum ri_status trace_ah_destroy(struct ri_ah *ah)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(ah, ah), PASS_KIND_AH, "ah_destroy");
    return trace_end(&line, pass_ah_destroy(ah));
}

/* ---- groups ---- */

enum ri_status trace_multicast_attach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(qp, qp), PASS_KIND_QP, "multicast_attach");
    put_gid(&line, gid);
    return trace_end(&line, pass_multicast_attach(qp, gid, lid));
}

enum ri_status trace_multicast_detach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
{
    struct trace_line line;

    BEGIN(line, PASS_OF(qp, qp), PASS_KIND_QP, "multicast_detach");
    put_gid(&line, gid);
    return trace_end(&line, pass_multicast_detach(qp, gid, lid));
}
