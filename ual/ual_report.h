/* SPDX-License-Identifier: BSD-3-Clause
 * Reports about the installation: interfaces, providers, options. Part of ual_mechanism.h. Strings
 * are lent for the call of fn. */
#ifndef ITAL_UAL_REPORT_H
#define ITAL_UAL_REPORT_H

#include "ual_handle.h"

#include "rnicpi.h"

struct ual_interface {
    const char *name, *provider, *device;
    enum ri_transport transport;
    bool usable;
    bool on_request;        /* shown to programs that name it, or ask for its kind, alone */
    bool asked_for_by_kind; /* of that kind; also one that the configuration names */
    const char *reason, *advice;
};
struct ual_provider {
    const char *name, *path, *reason, *advice, *version, *description;
    bool usable;
    uint16_t abi_major, abi_minor;
};
struct ual_option {
    const char *section, *provider, *name, *type, *value, *unit, *text;
};
/* From here on the process keeps its configuration and what it found out about providers, which
 * otherwise go with the last device and are read, and warned about, again with the next. Another
 * status than RI_OK: there is nothing usable, and the log says why; another call of this kind
 * would say it again. */
UAL_PUBLIC enum ri_status ual_keep(void);
UAL_PUBLIC enum ri_status ual_interface_list(void (*fn)(const struct ual_interface *, void *),
                                             void *arg);
UAL_PUBLIC enum ri_status ual_provider_list(void (*fn)(const struct ual_provider *, void *),
                                            void *arg);
UAL_PUBLIC enum ri_status ual_option_list(void (*fn)(const struct ual_option *, void *), void *arg);
UAL_PUBLIC enum ri_status ual_config_write(void (*fn)(const char *line, void *), void *arg);
/* Path of the configuration file that was read; "" for built-in defaults. Truncated to size. */
UAL_PUBLIC enum ri_status ual_config_source(char *path, size_t size);

/* A line in the log, in which a front end says what its own interface cannot tell. Not for [data]
 * calls. Lines of one `format` have a rate, as those of all floors. */
UAL_PUBLIC void ual_log(enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
