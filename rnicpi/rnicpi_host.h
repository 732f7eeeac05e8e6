/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_host.h - what the loader does with a provider's tables, also for tests. Not installed:
 * providers have no use for it.
 */
#ifndef RNICPI_HOST_H
#define RNICPI_HOST_H

#include "rnicpi.h"
#include "rnicpi_util.h"

/* Answer RI_ERR_NOT_SUPPORTED, 0, or false everywhere (lane_arm: true). */
extern const struct ri_privileged_ops ri_default_privileged_ops;
extern const struct ri_user_ops ri_default_user_ops;

/* Copy a provider's table over the defaults: operations past its size or NULL stay defaults. */
void ri_complete_privileged_ops(struct ri_privileged_ops *out, const struct ri_privileged_ops *in);
void ri_complete_user_ops(struct ri_user_ops *out, const struct ri_user_ops *in);

#endif
