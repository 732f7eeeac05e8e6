/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of kal share. */
#include "kal_fixture.h"
#include "kal/registry/load.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture_seen fixture_seen;

static char folder[4096], log_path[4200], conf_path[4200];

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

/* A new file in its place: the old one may be mapped. */
static void spill(const char *path, const void *data, size_t length)
{
    char temporary[8500];
    FILE *file;

    snprintf(temporary, sizeof temporary, "%s.new", path);
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

    snprintf(asker, sizeof asker, "%s/kal/ital-ask", tc_builddir());
    kal_asker_is = asker;

    snprintf(folder, sizeof folder, "%s", tc_tempdir());
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(conf_path, sizeof conf_path, "%s/conf", folder);
    snprintf(log, sizeof log, "debug:%s", log_path);
    spill(log_path, "", 0);
    spill(conf_path, "", 0);
    setenv("ITAL_PROVIDER_PATH", folder, 1);
    setenv("ITAL_CONF", conf_path, 1);
    setenv("ITAL_LOG", log, 1);
    unsetenv("ITAL_TEST_VP");
    memset(&fixture_seen, 0, sizeof fixture_seen);
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

    snprintf(path, sizeof path, "%s/tests/kal/%.*s.libs/%s.so", tc_builddir(),
             slash ? (int)(slash - module + 1) : 0, module, slash ? slash + 1 : module);
    return path;
}

void fixture_file(const char *name, const void *data, size_t length)
{
    char path[8400];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    spill(path, data, length);
}

void fixture_folder_made(const char *name)
{
    char path[8400];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

void fixture_module(const char *module, const char *name)
{
    const char *slash = strrchr(module, '/');
    char as[256];
    size_t length;
    char *data = slurp(fixture_module_path(module), &length);

    snprintf(as, sizeof as, "%s.so", name ? name : slash ? slash + 1 : module);
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

    snprintf(text, sizeof text, "%s", data);
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

/* ---- the upper ---- */

static enum ri_status upper_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                                  void *arg, struct ri_watch **watch)
{
    (void)lane_context;
    fixture_seen.watched_fd = fd;
    fixture_seen.watched_events = events;
    fixture_seen.ready = ready;
    fixture_seen.ready_arg = arg;
    fixture_seen.watches++;
    *watch = (struct ri_watch *)&fixture_seen;
    return RI_OK;
}

static enum ri_status upper_rewatch(struct ri_watch *watch, uint32_t events)
{
    (void)watch;
    fixture_seen.watched_events = events;
    return RI_OK;
}

static void upper_unwatch(struct ri_watch *watch)
{
    ck_assert_ptr_eq(watch, &fixture_seen);
    fixture_seen.unwatches++;
}

static void upper_timer(void *lane_context, struct ri_timer *timer)
{
    (void)lane_context;
    (void)timer;
}

static void upper_wake(void *lane_context)
{
    (void)lane_context;
}

static void upper_cq_event(void *context)
{
    fixture_seen.cq = context;
    fixture_seen.cq_count++;
}

static void upper_cq_error(void *context, const struct ri_event *event)
{
    (void)event;
    fixture_seen.cq_error = context;
    fixture_seen.cq_error_count++;
}

static void upper_qp_event(void *context, const struct ri_event *event)
{
    (void)event;
    fixture_seen.qp = context;
    fixture_seen.qp_count++;
}

static void upper_srq_event(void *context, const struct ri_event *event)
{
    (void)event;
    fixture_seen.srq = context;
    fixture_seen.srq_count++;
}

static void upper_rnic_event(void *context, const struct ri_event *event)
{
    fixture_seen.rnic = context;
    fixture_seen.rnic_count++;
    fixture_seen.rnic_type = event->type;
    fixture_seen.rnic_port = event->port;
}

static void upper_request(void *listener_context, struct kal_connection *connection,
                          const struct ri_connect_request *request, void **connection_context)
{
    (void)listener_context;
    (void)connection;
    (void)request;
    (void)connection_context;
    ck_abort_msg("no connection is expected here");
}

static void upper_connection_event(void *context, const struct ri_connection_event *event)
{
    (void)context;
    (void)event;
    ck_abort_msg("no connection is expected here");
}

const struct kal_upper fixture_upper = {
    .watch = upper_watch,
    .rewatch = upper_rewatch,
    .unwatch = upper_unwatch,
    .timer_set = upper_timer,
    .timer_cancel = upper_timer,
    .wake = upper_wake,
    .cq_event = upper_cq_event,
    .cq_error = upper_cq_error,
    .qp_event = upper_qp_event,
    .srq_event = upper_srq_event,
    .rnic_event = upper_rnic_event,
    .connection_request = upper_request,
    .connection_event = upper_connection_event,
};

struct kal *fixture_get(void)
{
    struct kal *kal = NULL;

    ck_assert_int_eq(kal_get(&fixture_upper, &kal), KAL_OK);
    return kal;
}
