/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads a device's options. The host has checked the values against the device's table, so a status
 * other than RI_OK is an error of the caller: a name or a kind that the table does not have. The
 * reader remembers it; what could not be read is 0, false or "". Control verbs alone.
 */
#ifndef ITAL_SOFTWARE_OPTION_READER_H
#define ITAL_SOFTWARE_OPTION_READER_H

#include "rnicpi.h"

struct option_reader {
    const struct ri_host *host;
    enum ri_status status; /* RI_OK before the first option is read */
};

static inline void option_keep(struct option_reader *reader, enum ri_status status)
{
    if (status != RI_OK)
        reader->status = status;
}

static inline bool option_truth(struct option_reader *reader, const char *name)
{
    bool value = false;

    option_keep(reader, ri_option_bool(reader->host, name, &value));
    return value;
}

static inline uint64_t option_number(struct option_reader *reader, const char *name)
{
    uint64_t value = 0;

    option_keep(reader, ri_option_number(reader->host, name, &value));
    return value;
}

/* The place of an enum's word. */
static inline uint32_t option_word(struct option_reader *reader, const char *name)
{
    uint32_t value = 0;

    option_keep(reader, ri_option_word(reader->host, name, &value));
    return value;
}

/* The host's, as long as the RNIC is open. */
static inline const char *option_text(struct option_reader *reader, const char *name)
{
    const char *value = "";

    option_keep(reader, ri_option_text(reader->host, name, &value));
    return value;
}

#endif
