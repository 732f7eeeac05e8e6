/* SPDX-License-Identifier: BSD-3-Clause
 * The statuses of the layers below, converted to ual's. Nothing else converts them. */
#ifndef ITAL_UAL_PROGRESS_STATUS_H
#define ITAL_UAL_PROGRESS_STATUS_H

#include "ual_status.h"

#include "kal.h"

enum ual_status ual_status_of_kal(enum kal_status status);
enum ual_status ual_status_of_ri(enum ri_status status);

#endif
