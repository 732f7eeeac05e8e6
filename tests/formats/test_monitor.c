/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder where processes show their state, its sockets, and the documents that they send. */
#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/json.h"
#include "formats/monitor.h"

static const char *base;
static int folder;

static void setup(void)
{
    base = tc_tempdir();
    folder = monitor_folder_in(base, "ital", true);
    ck_assert_int_ge(folder, 0);
}

static void teardown(void)
{
    close(folder);
}

static bool is_there(const char *name)
{
    struct stat about;

    return !fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW);
}

START_TEST(test_only_a_folder_of_ones_own_is_used)
{
    char path[4200], target[4200];

    snprintf(path, sizeof(path), "%s/ital", base);
    ck_assert_int_eq(chmod(path, 0750), 0);
    ck_assert_int_lt(monitor_folder_in(base, "ital", true), 0);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(chmod(path, 0700), 0);
    snprintf(target, sizeof(target), "%s/link", base);
    ck_assert_int_eq(symlink(path, target), 0);
    ck_assert_int_lt(monitor_folder_in(base, "link", true), 0);
    ck_assert_int_lt(monitor_folder_in(base, "absent", false), 0);
    ck_assert_int_eq(errno, ENOENT);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 1, 1), 0);
        ck_assert_int_lt(monitor_folder_in(base, "ital", true), 0);
        ck_assert_int_eq(errno, EPERM);
    }
}
END_TEST

START_TEST(test_a_folder_is_private_whatever_the_umask)
{
    struct stat about;
    int made;

    umask(0577);
    made = monitor_folder_in(base, "other", true);
    umask(022);
    ck_assert_int_ge(made, 0);
    ck_assert_int_eq(fstat(made, &about), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0700);
    close(made);
}
END_TEST

START_TEST(test_a_socket_is_private_and_answers_its_name)
{
    int listener, client, taken;
    struct stat about;

    umask(0);
    listener = monitor_listen(folder, "7.sock");
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(fstatat(folder, "7.sock", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0600);
    ck_assert(!is_there(".7.sock"));
    client = monitor_connect(folder, "7.sock");
    ck_assert_int_ge(client, 0);
    taken = accept(listener, NULL, NULL);
    ck_assert_int_ge(taken, 0);
    ck_assert_int_lt(monitor_listen(folder, "7.sock"), 0);
    ck_assert_int_eq(errno, EADDRINUSE);
    monitor_sweep(folder, NULL);
    ck_assert(is_there("7.sock"));
    close(taken);
    close(client);
    close(listener);
}
END_TEST

/* More than any kernel's greatest number of a process. */
#define GONE     "4199997.sock"
#define GONE_TOO "4199998.sock"

START_TEST(test_what_nobody_serves_is_swept)
{
    int one = monitor_listen(folder, GONE), other = monitor_listen(folder, GONE_TOO), fd;

    ck_assert_int_ge(one, 0);
    close(one);
    fd = openat(folder, "keep", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_lt(monitor_connect(folder, GONE), 0);
    ck_assert_int_eq(errno, ECONNREFUSED);
    monitor_sweep(folder, GONE);
    ck_assert(is_there(GONE));
    monitor_sweep(folder, NULL);
    ck_assert(!is_there(GONE) && is_there(GONE_TOO) && is_there("keep"));
    close(other);
    other = monitor_listen(folder, GONE_TOO); /* a stale one of the name is in no one's way */
    ck_assert_int_ge(other, 0);
    close(other);
}
END_TEST

/* Of many processes each one that begins would wake all others. */
START_TEST(test_a_process_that_is_there_is_not_woken)
{
    char name[MONITOR_NAME_MAX];
    struct pollfd entry = { .events = POLLIN };

    monitor_name(getpid(), name);
    entry.fd = monitor_listen(folder, name);
    ck_assert_int_ge(entry.fd, 0);
    monitor_sweep(folder, NULL);
    ck_assert_int_eq(poll(&entry, 1, 0), 0);
    ck_assert(is_there(name));
    close(entry.fd);
}
END_TEST

START_TEST(test_names)
{
    char name[MONITOR_NAME_MAX];

    monitor_name(1234, name);
    ck_assert_str_eq(name, "1234.sock");
    ck_assert_int_eq(monitor_process(name), 1234);
    for (const char **wrong =
             (const char *[]){ "", ".sock", "0.sock", "-1.sock", "01.sock", "1.soc", "1.sock2",
                               " 1.sock", "99999999999.sock", NULL };
         *wrong; wrong++)
        ck_assert_int_eq(monitor_process(*wrong), 0);
}
END_TEST

START_TEST(test_a_document)
{
    struct json json;
    size_t length;
    char *text;

    json_start(&json, 1000);
    json_begin(&json, NULL, '{');
    json_number(&json, "n", UINT64_MAX);
    json_begin(&json, "list", '[');
    json_end(&json, ']');
    json_bool(&json, "b", false);
    json_text(&json, "t", "a\"\\\n\x7f\xc3\xa4\xff\xed\xa0\x80\xc3");
    json_text(&json, "none", NULL);
    json_begin(&json, "two", '[');
    json_number(&json, NULL, 1);
    json_number(&json, NULL, 2);
    json_end(&json, ']');
    json_end(&json, '}');
    text = json_finish(&json, &length);
    ck_assert_ptr_nonnull(text);
    ck_assert_mem_eq(text + length - 1, "\n", 1);
    text[length - 1] = '\0';
    ck_assert_str_eq(text, "{\"n\":9223372036854775807,\"list\":[],\"b\":false,"
                           "\"t\":\"a\\u0022\\u005c\\u000a\\u007f\xc3\xa4\\ufffd\\ufffd\\ufffd"
                           "\\ufffd\\ufffd\",\"none\":null,\"two\":[1,2]}");
    free(text);
}
END_TEST

START_TEST(test_a_document_that_is_too_long)
{
    struct json json;
    size_t length;

    json_start(&json, 10000);
    json_begin(&json, NULL, '[');
    for (unsigned i = 0; i < 10000; i++)
        json_number(&json, NULL, i);
    json_end(&json, ']');
    ck_assert_uint_le(json.length, 10000);
    ck_assert_ptr_null(json_finish(&json, &length));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("formats/monitor");

    tc_add_tests(tc_case(suite, "folder", setup, teardown), test_only_a_folder_of_ones_own_is_used,
                 test_a_folder_is_private_whatever_the_umask,
                 test_a_socket_is_private_and_answers_its_name, test_what_nobody_serves_is_swept,
                 test_a_process_that_is_there_is_not_woken, test_names);
    tc_add_tests(tc_case(suite, "json", NULL, NULL), test_a_document,
                 test_a_document_that_is_too_long);
    return tc_main(suite);
}
