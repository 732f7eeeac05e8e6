/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of kal share. */
#include "kal_fixture.h"
#include "kal/host/host.h"
#include "kal/registry/load.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

struct fake_lane fixture_lane;

static char folder[4096], log_path[4200], conf_path[4200];

struct kal *kal;

static char *slurp(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    char *data = NULL;
    size_t used = 0, room = 0, got;

    ck_assert_msg(file != NULL, "%s", path);
    do {
        if (room - used < 4096)
            data = realloc(data, room = room * 2 + 8192);
        ck_assert_ptr_nonnull(data);
        got = fread(data + used, 1, room - used - 1, file);
        used += got;
    } while (got);
    fclose(file);
    data[used] = '\0';
    *length = used;
    return data;
}

/* Writes a new file in place of the old one, which may be mapped. */
static void spill(const char *path, const void *data, size_t length)
{
    char temporary[8500];
    FILE *file;

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    file = fopen(temporary, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(temporary, path), 0);
}

void fixture_setup(void)
{
    static char asker[4300];
    char log[4300];

    snprintf(asker, sizeof(asker), "%s/kal/ital-ask", tc_builddir());
    kal_asker_is = asker;
    kal_policy_folder = "/nonexistent/policy.d"; /* not the host's own */

    snprintf(folder, sizeof(folder), "%s", tc_tempdir());
    snprintf(log_path, sizeof(log_path), "%s/log", folder);
    snprintf(conf_path, sizeof(conf_path), "%s/conf", folder);
    snprintf(log, sizeof(log), "debug:%s", log_path);
    spill(log_path, "", 0);
    spill(conf_path, "", 0);
    setenv("ITAL_PROVIDER_PATH", folder, 1);
    setenv("ITAL_CONF", conf_path, 1);
    setenv("ITAL_LOG", log, 1);
    unsetenv("ITAL_TEST_VP");
    memset(&fake_upper_seen, 0, sizeof(fake_upper_seen));
    fake_lane_open(&fixture_lane, false);
}

const char *fixture_folder(void)
{
    return folder;
}

const char *fixture_conf_path(void)
{
    return conf_path;
}

const char *fixture_module_path(const char *module)
{
    static char path[4200];
    const char *slash = strrchr(module, '/');

    snprintf(path, sizeof(path), "%s/tests/kal/%.*s.libs/%s.so", tc_builddir(),
             slash ? (int)(slash - module + 1) : 0, module, slash ? slash + 1 : module);
    return path;
}

void fixture_file(const char *name, const void *data, size_t length)
{
    char path[8400];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    spill(path, data, length);
}

void fixture_folder_made(const char *name)
{
    char path[8400];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

void fixture_module(const char *module, const char *name)
{
    const char *slash = strrchr(module, '/');
    char as[256];
    size_t length;
    char *data = slurp(fixture_module_path(module), &length);

    snprintf(as, sizeof(as), "%s.so", name ? name : slash ? slash + 1 : module);
    fixture_file(as, data, length);
    free(data);
}

void fixture_conf(const char *text)
{
    spill(conf_path, text, strlen(text));
}

const char *fixture_log(void)
{
    static char text[65536];
    size_t length;
    char *data = slurp(log_path, &length);

    snprintf(text, sizeof(text), "%s", data);
    free(data);
    return text;
}

unsigned fixture_log_count(const char *text)
{
    const char *line = fixture_log();
    unsigned count = 0;

    while (*line) {
        size_t length = strcspn(line, "\n");

        count += memmem(line, length, text, strlen(text)) != NULL;
        line += length + (line[length] == '\n');
    }
    return count;
}

/* ---- upper and lane ---- */

int fixture_watched_fd(void)
{
    const struct ri_watch *watch = fixture_lane.watches;

    return watch && !watch->next ? watch->fd : -1;
}

void fixture_ready(void)
{
    ck_assert(fake_lane_ready(&fixture_lane, fixture_watched_fd(), EPOLLIN));
}

struct kal *fixture_another(void)
{
    struct kal *another = NULL;

    ck_assert_int_eq(kal_get(&fake_upper, &another), RI_OK);
    return another;
}

void fixture_get(void)
{
    kal = fixture_another();
}

void fixture_put(void)
{
    if (kal)
        kal_put(kal);
    kal = NULL;
}
