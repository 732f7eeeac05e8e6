/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of section [policy] of the configuration that programs of this environment read. The
 * library has checked its files; here only those lines are looked for. */
#include "itstat.h"

#include <itx_api.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

/* Without blanks and a comment behind. */
static char *trimmed(char *text)
{
    char *end, *comment = strstr(text, " ;");

    if (comment)
        *comment = '\0';
    while (isspace((unsigned char)*text))
        text++;
    for (end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);)
        *--end = '\0';
    return text;
}

/* "rule1 = deny any". False: it cannot be used. */
static bool add_rule(struct policy *policy, const char *path, char *line)
{
    char *value = strchr(line, '='), source[700], why[200];
    struct policy_rule rule;
    bool empty;

    if (!value)
        return true;
    *value++ = '\0';
    value = trimmed(value);
    snprintf(source, sizeof source, "%.100s in section [policy] of %.500s", trimmed(line), path);
    if (!policy_read_line(value, strlen(value), &policy_system_names, &rule, &empty, why,
                          sizeof why) ||
        empty || !policy_add(policy, source, &rule)) {
        tool_error("%s cannot be used", source);
        return false;
    }
    return true;
}

static bool read_file(struct policy *policy, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[2048], *text;
    bool within = false, good = file != NULL;

    while (good && fgets(line, sizeof line, file)) {
        text = trimmed(line);
        if (*text == '[')
            within = !strcmp(text, "[policy]");
        else if (within && *text && *text != '#' && *text != ';')
            good = add_rule(policy, path, text);
    }
    if (file)
        fclose(file);
    else
        tool_error("%s cannot be read", path);
    return good;
}

bool config_rules(struct policy *policy)
{
    char copy[4096], *state, *path;
    const char *paths = NULL;

    *policy = (struct policy){ NULL, 0, NULL, 0 };
    if (itx_config_source(&paths) != IT_SUCCESS) {
        tool_error("the configuration cannot be used: no program opens an interface with it");
        return false;
    }
    snprintf(copy, sizeof copy, "%s", paths ? paths : "");
    for (path = strtok_r(copy, ",", &state); path; path = strtok_r(NULL, ",", &state))
        if (!read_file(policy, path + strspn(path, " ")))
            return false;
    return true;
}
