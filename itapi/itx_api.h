/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itx_api.h - the standard and the additions of this library to it, which itx_calls.h declares.
 */
#ifndef ITAL_ITAPI_ITX_API_H
#define ITAL_ITAPI_ITX_API_H

#include <it_api.h>

#include "itx_calls.h"

#endif /* ITAL_ITAPI_ITX_API_H */
