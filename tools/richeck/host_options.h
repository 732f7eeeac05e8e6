/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options for a test's host: the provider's table joined with that of every interface, parsed and
 * checked by kal/config, so that no test repeats a default. Programs that use it link
 * kal/libkal.la.
 */
#ifndef ITAL_TESTS_HOST_OPTIONS_H
#define ITAL_TESTS_HOST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "rnicpi.h"

struct host_options;

/* All options have their defaults. The provider must outlive it. */
struct host_options *host_options_create(const struct ri_provider *provider);
void host_options_destroy(struct host_options *options);

/* Type of an option, as itinfo --config prints it; NULL: no such option. */
const char *host_options_type(const struct host_options *options, const char *name);

/* Sets an option as a line of an interface section does. False: the value is not allowed, and `why`
 * (room octets) gives the reason. Ends the test if there is no such option. */
bool host_options_set(struct host_options *options, const char *name, const char *value, char *why,
                      size_t room);

/* As ri_host.option. *wrong: NULL, or the provider's error, phrased to follow the option's name. */
enum ri_status host_options_read(const struct host_options *options, const char *name,
                                 enum ri_option_kind kind, union ri_option_value *value,
                                 const char **wrong);

#endif
