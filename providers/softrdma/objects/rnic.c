/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The RNIC as the folders below the provider see it: its log.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rnic.h"

#include <stdarg.h>

void softrdma_log(const struct rnic *rnic, enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rnic->host->log(rnic->host, level, format, args);
    va_end(args);
}
