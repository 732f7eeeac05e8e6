/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: reads its options of an interface, once. */
#include "cm.h"

#include "base/clock.h"

void cm_read_options(const struct kal_rnic *rnic, struct cm_options *options)
{
    /* In the order of the words of the option's type. */
    static const uint8_t rtr[] = { MPA_STARTUP_RTR_WRITE | MPA_STARTUP_RTR_READ,
                                   MPA_STARTUP_RTR_READ, 0 };
    static const enum cm_v6only v6only[] = { CM_V6ONLY_AUTO, CM_V6ONLY_YES, CM_V6ONLY_NO };
    static const enum cm_local local[] = { CM_LOCAL_NO, CM_LOCAL_AUTO, CM_LOCAL_ONLY };
    const struct kal_values *values = rnic->options;
    struct cm_options *o = options;

    o->mpa_revision = (uint8_t)kal_values_number(values, "mpa_revision");
    o->mpa_fallback = kal_values_bool(values, "mpa_fallback");
    o->crc = kal_values_bool(values, "crc");
    o->markers = kal_values_bool(values, "markers");
    o->rtr = rtr[kal_values_word(values, "rtr")];
    o->v6only = v6only[kal_values_word(values, "v6only")];
    o->backlog = (uint32_t)kal_values_number(values, "backlog");
    o->half_open = (uint32_t)kal_values_number(values, "half_open");
    o->connect_timeout = kal_values_ns(values, "connect_timeout");
    o->request_timeout = kal_values_ns(values, "request_timeout");
    o->close_timeout = kal_values_ns(values, "close_timeout");
    o->local = local[kal_values_word(values, "local")];
    o->local_wait = CLOCK_NS_PER_S;
    o->stream.rnic = rnic;
    o->stream.user_timeout = (uint32_t)kal_values_number(values, "tcp_user_timeout");
    o->stream.share_port = kal_values_bool(values, "share_port");
    o->stream.silence = (int)(o->request_timeout / CLOCK_NS_PER_S) + 1;
    o->stream.keepalive = kal_values_bool(values, "keepalive");
    o->stream.keepalive_idle = (int)kal_values_number(values, "keepalive_idle");
    o->stream.keepalive_interval = (int)kal_values_number(values, "keepalive_interval");
    o->stream.keepalive_count = (int)kal_values_number(values, "keepalive_count");
}
