/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocated formatted text. */
#include "kal_config.h"

char *kal_format(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return text;
}
