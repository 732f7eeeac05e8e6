/* SPDX-License-Identifier: BSD-3-Clause */
/* Options for a test's host: see host_options.h. */
#include "host_options.h"

#include "fake_lane.h"

#include "kal/config/kal_config.h"

#include <stdio.h>
#include <stdlib.h>

struct host_options {
    const struct ri_provider *provider;
    struct kal_values *values;
};

static bool find(const struct host_options *options, const char *name, struct ri_option *option)
{
    return kal_interface_option_find(options->provider->options, options->provider->option_count,
                                     name, option);
}

struct host_options *host_options_create(const struct ri_provider *provider)
{
    struct host_options *options = calloc(1, sizeof(*options));

    FAKE_CHECK(options != NULL);
    options->provider = provider;
    options->values = kal_values_of_interface(provider->options, provider->option_count);
    FAKE_CHECK(options->values != NULL);
    return options;
}

void host_options_destroy(struct host_options *options)
{
    if (!options)
        return;
    kal_values_destroy(options->values);
    free(options);
}

const char *host_options_type(const struct host_options *options, const char *name)
{
    struct ri_option option;

    return find(options, name, &option) ? option.type : NULL;
}

bool host_options_set(struct host_options *options, const char *name, const char *value, char *why,
                      size_t room)
{
    char normal[KAL_VALUE_MAX], allowed[KAL_ALLOWED_MAX];
    struct ri_option option;

    if (!find(options, name, &option))
        fprintf(stderr, "there is no option %s\n", name);
    FAKE_CHECK(find(options, name, &option));
    if (!kal_option_normal(&option, value, normal, allowed)) {
        snprintf(why, room, "%s = \"%s\": allowed is %s", name, value, allowed);
        return false;
    }
    FAKE_CHECK(kal_values_set(options->values, name, normal));
    return true;
}

enum ri_status host_options_read(const struct host_options *options, const char *name,
                                 enum ri_option_kind kind, union ri_option_value *value,
                                 const char **wrong)
{
    return kal_values_read(options->values, name, kind, value, wrong);
}
