/* SPDX-License-Identifier: BSD-3-Clause
 * For abi.tap: a shared object from which every type of rnicpi.h that crosses can be reached. */
#include "rnicpi.h"

RI_PROVIDER_EXPORT const struct ri_provider rnicpi_provider_v1;
RI_PROVIDER_EXPORT const struct ri_open abi_open;
/* Those that members name by number. */
#define NUMBERS(name) RI_PROVIDER_EXPORT const enum ri_##name abi_##name
NUMBERS(access);
NUMBERS(wr_opcode);
NUMBERS(wr_flags);
NUMBERS(wc_opcode);
NUMBERS(wc_status);
NUMBERS(wc_flags);
NUMBERS(qp_flags);
NUMBERS(qp_modify_mask);
NUMBERS(srq_modify_mask);
NUMBERS(event_type);
NUMBERS(rtr);
NUMBERS(service_status);
NUMBERS(capture_mark);
NUMBERS(provider_flags);
