/* SPDX-License-Identifier: BSD-3-Clause
 * libionic.so.1: programs that use ionic adapters can be loaded, and find none. */
#include "verbs/refuse.h"

/* clang-format off */
VB_REFUSE_ZERO(ionic_dv_ctx_get_udma_count)
VB_REFUSE_ZERO(ionic_dv_ctx_get_udma_mask)
VB_REFUSE_ZERO(ionic_dv_pd_get_udma_mask)
VB_REFUSE_ERROR(ionic_dv_pd_set_rqcmb)
VB_REFUSE_ERROR(ionic_dv_pd_set_sqcmb)
VB_REFUSE_ERROR(ionic_dv_pd_set_udma_mask)
