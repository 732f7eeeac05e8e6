/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of itcp's server: permitted paths, partial files, mode and time, the checksum. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tc.h"
#include "tools/itcp/itcp.h"

static struct copy_message *entry_of(const char *name, uint64_t size)
{
    struct copy_message *entry = calloc(1, sizeof(*entry));

    ck_assert_ptr_nonnull(entry);
    entry->type = COPY_FILE;
    entry->mode = 06755;
    entry->size = size;
    entry->mtime = 1000000000;
    entry->mtime_ns = 1;
    snprintf(entry->text, sizeof(entry->text), "%s", name);
    return entry;
}

static bool can_open(struct store *store, const char *name, unsigned flags, struct store_file *file,
                     char *why)
{
    struct copy_message *entry = entry_of(name, 5);
    bool good;

    entry->flags = (uint8_t)flags;
    why[0] = '\0';
    good = store_open(store, entry, false, file, why);
    ck_assert_msg(good || strlen(why) > 10, "no reason for '%s'", name);
    free(entry);
    return good;
}

static struct store fresh_store(char folder[4096])
{
    struct store store = { .may_overwrite = true, .umask = 022 };

    snprintf(folder, 4096, "%s/store", tc_tempdir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    store.root = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(store.root, 0);
    return store;
}

START_TEST(nothing_outside_is_reached)
{
    static const char *const names[] = { "/etc/x", "..",     "../x", "a/../../x", ".",  "./x",
                                         "",       "/",      "//",   "a//x",      "a/", "link/x",
                                         "link",   "loop/x", "up/x", "file/x" };
    char folder[4096], why[COPY_PATH], path[4200];
    struct store store = fresh_store(folder);
    struct store_file file;

    ck_assert_int_eq(mkdirat(store.root, "a", 0755), 0);
    ck_assert_int_eq(symlinkat("/", store.root, "link"), 0);
    ck_assert_int_eq(symlinkat("loop", store.root, "loop"), 0);
    ck_assert_int_eq(symlinkat("..", store.root, "up"), 0);
    close(openat(store.root, "file", O_WRONLY | O_CREAT, 0600));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        ck_assert_msg(!can_open(&store, names[i], 0, &file, why), "'%s' was opened", names[i]);
    snprintf(path, sizeof(path), "%s/../x", folder);
    ck_assert_int_ne(access(path, F_OK), 0);

    /* A link as the last name is replaced, not followed. */
    ck_assert_int_eq(symlinkat("victim", store.root, "replace"), 0);
    ck_assert(can_open(&store, "replace", COPY_FLAG_OVERWRITE, &file, why));
    ck_assert(store_write(&file, "12345", 5, 0, why));
    {
        struct copy_message *entry = entry_of("replace", 5);

        ck_assert_msg(store_commit(&file, entry, why), "%s", why);
        free(entry);
    }
    ck_assert_int_ne(faccessat(store.root, "victim", F_OK, 0), 0);
    close(store.root);
}
END_TEST

static unsigned partials(const struct store *store)
{
    DIR *folder = fdopendir(openat(store->root, ".", O_RDONLY | O_DIRECTORY));
    unsigned count = 0;

    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strlen(entry->d_name) > 5 &&
                 !strcmp(entry->d_name + strlen(entry->d_name) - 5, ".part");
    closedir(folder);
    return count;
}

/* Without set-user-ID, and with umask applied. */
START_TEST(mode_and_time_are_given)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct copy_message *entry = entry_of("f", 5);
    struct store_file file;
    struct stat about;

    entry->mode = 06777;
    store.umask = 027;
    ck_assert_msg(store_open(&store, entry, false, &file, why), "%s", why);
    ck_assert_int_eq(faccessat(store.root, "f", F_OK, 0), -1);
    ck_assert_int_eq(fstat(file.file, &about), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0600);
    ck_assert(store_write(&file, "12345", 5, 0, why));
    ck_assert_msg(store_commit(&file, entry, why), "%s", why);
    ck_assert_int_eq(fstatat(store.root, "f", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0750);
    ck_assert_int_eq(about.st_mtim.tv_sec, 1000000000);
    ck_assert_int_eq(about.st_size, 5);
    ck_assert_uint_eq(partials(&store), 0);
    free(entry);
    close(store.root);
}
END_TEST

START_TEST(two_copies_of_one_name)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct copy_message *entry = entry_of("f", 5);
    struct store_file one, two;

    /* Each writes a file of its own; the first to complete gets the name. */
    ck_assert(can_open(&store, "f", 0, &one, why));
    ck_assert(can_open(&store, "f", 0, &two, why));
    ck_assert_uint_eq(partials(&store), 2);
    ck_assert(store_commit(&two, entry, why));
    ck_assert(!store_commit(&one, entry, why));
    ck_assert_ptr_nonnull(strstr(why, "meanwhile"));
    ck_assert_uint_eq(partials(&store), 0);

    /* Its partial file was replaced by another file, which stays. */
    ck_assert(can_open(&store, "f", COPY_FLAG_OVERWRITE, &one, why));
    ck_assert_int_eq(unlinkat(store.root, one.part, 0), 0);
    close(openat(store.root, one.part, O_WRONLY | O_CREAT, 0600));
    ck_assert(!store_commit(&one, entry, why));
    ck_assert_uint_eq(partials(&store), 1);
    free(entry);
    close(store.root);
}
END_TEST

/* Other files with a name like a partial file are no obstacle and stay unchanged. */
START_TEST(partial_files_of_others_stay)
{
    static const char *const names[] = { "f.part", "f.0000000000000000.part", ".part" };
    char folder[4096], why[COPY_PATH], name[256];
    struct store store = fresh_store(folder);
    struct copy_message *entry = entry_of("f", 0);
    struct store_file file;

    for (size_t i = 0; i < 3; i++)
        close(openat(store.root, names[i], O_WRONLY | O_CREAT, 0600));
    ck_assert_int_eq(symlinkat("victim", store.root, "g.part"), 0);
    ck_assert_msg(can_open(&store, "f", COPY_FLAG_OVERWRITE, &file, why), "%s", why);
    ck_assert(store_commit(&file, entry, why));
    ck_assert_msg(can_open(&store, "g", COPY_FLAG_OVERWRITE, &file, why), "%s", why);
    store_abandon(&file);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(faccessat(store.root, names[i], F_OK, 0), 0);
    ck_assert_int_ne(faccessat(store.root, "victim", F_OK, 0), 0);
    ck_assert_uint_eq(partials(&store), 3 - 1 + 1); /* ".part" has no name before it */
    /* The longest possible name has a partial file, too. */
    memset(name, 'n', 255);
    name[255] = '\0';
    ck_assert_msg(can_open(&store, name, 0, &file, why), "%s", why);
    ck_assert_uint_le(strlen(file.part), 255);
    store_abandon(&file);
    free(entry);
    close(store.root);
}
END_TEST

static bool directory(struct store *store, struct store_tree *tree, enum copy_type type,
                      const char *name, char *why)
{
    struct copy_message *entry = entry_of(name, 0);
    bool good;

    entry->mode = 06777;
    good = type == COPY_DIR ? store_make_directory(store, tree, entry, why)
                            : store_finish_directory(store, tree, entry, why);
    free(entry);
    return good;
}

/* Only a directory that this session made gets mode and time, even if overwriting is allowed. */
START_TEST(directories_of_others_are_left_as_they_are)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct store_tree tree = { 0 };
    struct stat before, about;

    ck_assert_int_eq(mkdirat(store.root, "old", 0710), 0);
    ck_assert_int_eq(fstatat(store.root, "old", &before, 0), 0);
    ck_assert(directory(&store, &tree, COPY_DIR, "old", why));
    ck_assert(directory(&store, &tree, COPY_DIR_END, "old", why));
    ck_assert_int_eq(fstatat(store.root, "old", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode, before.st_mode);
    ck_assert_int_eq(about.st_mtim.tv_sec, before.st_mtim.tv_sec);
    ck_assert(!directory(&store, &tree, COPY_DIR_END, "old", why)); /* not inside it */

    ck_assert(directory(&store, &tree, COPY_DIR, "new", why));
    ck_assert(directory(&store, &tree, COPY_DIR, "new/old", why));
    ck_assert(!directory(&store, &tree, COPY_DIR_END, "new", why)); /* in another one */
    ck_assert(directory(&store, &tree, COPY_DIR_END, "new/old", why));
    ck_assert(directory(&store, &tree, COPY_DIR_END, "new", why));
    ck_assert_int_eq(fstatat(store.root, "new", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0755); /* umask 022 */
    ck_assert_int_eq(about.st_mtim.tv_sec, 1000000000);
    /* Another directory was put in its place. */
    ck_assert(directory(&store, &tree, COPY_DIR, "swapped", why));
    ck_assert_int_eq(renameat(store.root, "old", store.root, "swapped"), 0);
    ck_assert(!directory(&store, &tree, COPY_DIR_END, "swapped", why));
    ck_assert_int_eq(fstatat(store.root, "swapped", &about, 0), 0);
    ck_assert_uint_eq(about.st_mode, before.st_mode);
    close(store.root);
}
END_TEST

START_TEST(overwriting_is_the_servers_choice)
{
    char folder[4096], why[COPY_PATH];
    struct store store = fresh_store(folder);
    struct store_file file;

    close(openat(store.root, "f", O_WRONLY | O_CREAT, 0600));
    ck_assert(!can_open(&store, "f", 0, &file, why));
    ck_assert_ptr_nonnull(strstr(why, "give --overwrite"));
    ck_assert(can_open(&store, "f", COPY_FLAG_OVERWRITE, &file, why));
    store_abandon(&file);
    store.may_overwrite = false;
    ck_assert(!can_open(&store, "f", COPY_FLAG_OVERWRITE, &file, why));
    ck_assert_ptr_nonnull(strstr(why, "not started with --overwrite"));
    close(store.root);
}
END_TEST

START_TEST(the_hasher_knows_the_sum)
{
    /* SHA-256 of a million times 'a' (FIPS 180-2, B.3). */
    static const char expected[] =
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char path[4096], text[2 * COPY_SUM + 1], *data = malloc(1000000);
    uint8_t sum[COPY_SUM];
    struct hasher *hasher;
    int fd;

    ck_assert_ptr_nonnull(data);
    memset(data, 'a', 1000000);
    ck_assert(hash_bytes(data, 1000000, sum));
    ck_assert_str_eq(sum_text(sum, text), expected);
    snprintf(path, sizeof(path), "%s/sum", tc_tempdir());
    fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, data, 1000000), 1000000);
    hasher = hasher_start(fd, 1000000);
    ck_assert_ptr_nonnull(hasher);
    hasher_allow(hasher, 1);
    hasher_allow(hasher, 999999);
    hasher_keep_up(hasher, 999999);
    memset(sum, 0, sizeof(sum));
    ck_assert(hasher_finish(hasher, sum));
    ck_assert_str_eq(sum_text(sum, text), expected);

    /* A file shorter than announced. */
    hasher = hasher_start(fd, 1000001);
    ck_assert(!hasher_finish(hasher, sum));
    ck_assert_int_eq(errno, ENODATA);
    hasher_abort(hasher_start(fd, 1000000));
    hasher_abort(NULL);
    close(fd);
    free(data);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("itcp store");
    TCase *store = tc_case(suite, "store", NULL, NULL);

    tc_add_tests(store, nothing_outside_is_reached, mode_and_time_are_given, two_copies_of_one_name,
                 partial_files_of_others_stay, directories_of_others_are_left_as_they_are,
                 overwriting_is_the_servers_choice, the_hasher_knows_the_sum);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}
