/* SPDX-License-Identifier: BSD-3-Clause */
/* Provider files and interfaces: which are found, which are refused and why, and the messages to
 * the user. */
#include "kal_fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>

/* One row of a list; the strings are valid during the call only. */
struct row {
    char name[64], path[4300], reason[600], advice[600], provider[64], device[64];
    bool usable;
    unsigned minor;
};

struct rows {
    struct row row[32];
    unsigned count;
};

static void put(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "(none)");
}

static void on_provider(const struct kal_provider_info *info, void *arg)
{
    struct rows *rows = arg;
    struct row *row = &rows->row[rows->count++];

    ck_assert_uint_lt(rows->count, 32);
    put(row->name, sizeof(row->name), info->name);
    put(row->path, sizeof(row->path), info->path);
    put(row->reason, sizeof(row->reason), info->reason);
    put(row->advice, sizeof(row->advice), info->advice);
    row->usable = info->usable;
    row->minor = info->abi_minor;
    if (!info->usable) {
        ck_assert_ptr_nonnull(info->reason);
        ck_assert_ptr_nonnull(info->advice);
    }
}

static void on_interface(const struct kal_interface_info *info, void *arg)
{
    struct rows *rows = arg;
    struct row *row = &rows->row[rows->count++];

    ck_assert_uint_lt(rows->count, 32);
    put(row->name, sizeof(row->name), info->name);
    put(row->provider, sizeof(row->provider), info->provider);
    put(row->device, sizeof(row->device), info->device);
    put(row->reason, sizeof(row->reason), info->reason);
    put(row->advice, sizeof(row->advice), info->advice);
    row->usable = info->usable;
    if (!info->usable) {
        ck_assert_ptr_nonnull(info->reason);
        ck_assert_ptr_nonnull(info->advice);
    }
}

static struct rows *providers(struct kal *own)
{
    static struct rows rows;

    memset(&rows, 0, sizeof(rows));
    ck_assert_int_eq(kal_provider_list(own, on_provider, &rows), RI_OK);
    return &rows;
}

static struct rows *interfaces(struct kal *own)
{
    static struct rows rows;

    memset(&rows, 0, sizeof(rows));
    ck_assert_int_eq(kal_interface_list(own, on_interface, &rows), RI_OK);
    return &rows;
}

/* The row of a file in the fixture's folder; other folders of this machine may have providers
 * too. */
static const struct row *of_file(const struct rows *rows, const char *file)
{
    char path[4300];

    snprintf(path, sizeof(path), "%s/%s", fixture_folder(), file);
    for (unsigned i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].path, path))
            return &rows->row[i];
    return NULL;
}

static const struct row *of_name(const struct rows *rows, const char *name)
{
    for (unsigned i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].name, name))
            return &rows->row[i];
    return NULL;
}

/* ---- files ---- */

/* Files are damaged by hand (text, cut) or built damaged. */
static const struct {
    const char *module, *file, *reason, *advice;
    long cut;
} refused[] = {
    { NULL, "vp_text.so", "it is not an ELF file", "remove it", 0 },
    { NULL, "vp_empty.so", "it is not an ELF file", "remove it", -1 },
    { "vp_test", "vp_cut.so", "the file is truncated or damaged", "install the provider again",
      3000 },
    { "vp_test", "vp_head.so", "the file is truncated or damaged", "install the provider again",
      40 },
    { "broken/vp_major2", "vp_major2.so", "it speaks RNICPI 2, this library 1.0", "that fits", 0 },
    { "broken/vp_nosymbol", "vp_nosymbol.so", "it exports no rnicpi_provider_v1", "no provider",
      0 },
    { "broken/vp_undefined", "vp_undefined.so", "ital_test_nobody_defines_this", "ldd", 0 },
    { "broken/vp_noname", "vp_noname.so", "name", "", 0 },
    { "broken/vp_default", "vp_default.so",
      "the default of its option backlog is \"0\": allowed is a whole number, from 1 to 65535",
      "that fits", 0 },
};

START_TEST(test_refused)
{
    const struct row *row;
    char path[4300];

    snprintf(path, sizeof(path), "%s/%s", fixture_folder(), refused[_i].file);
    if (refused[_i].module) {
        snprintf(path + strlen(path) - 3, 4, "%s", ""); /* the fixture adds .so */
        fixture_module(refused[_i].module, strrchr(path, '/') + 1);
        strcat(path, ".so");
        if (refused[_i].cut)
            ck_assert_int_eq(truncate(path, refused[_i].cut), 0);
    } else {
        fixture_file(refused[_i].file, "#!/bin/sh\n", refused[_i].cut ? 0 : 10);
    }
    fixture_module("vp_test", NULL); /* a sound file beside it is unaffected */
    fixture_get();
    row = of_file(providers(kal), refused[_i].file);
    ck_assert_ptr_nonnull(row);
    ck_assert(!row->usable);
    ck_assert_msg(strstr(row->reason, refused[_i].reason) != NULL, "%s", row->reason);
    ck_assert_msg(strstr(row->advice, refused[_i].advice) != NULL, "%s", row->advice);
    ck_assert_uint_eq(fixture_log_count(path), 1);
    row = of_file(providers(kal), "vp_test.so");
    ck_assert_msg(row->usable, "%s", row->reason);
    ck_assert_uint_eq(fixture_log_count(path), 1); /* searched once */
}
END_TEST

START_TEST(test_other_machine)
{
    FILE *file;
    char path[4300];
    const struct row *row;

    fixture_module("vp_test", NULL);
    snprintf(path, sizeof(path), "%s/vp_test.so", fixture_folder());
    file = fopen(path, "r+e");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 18, SEEK_SET), 0); /* e_machine */
    fputc(22, file);
    fputc(0, file);
    fclose(file);
    fixture_get();
    row = of_file(providers(kal), "vp_test.so");
    ck_assert_str_eq(row->reason, "it is built for another processor: IBM Z");
}
END_TEST

START_TEST(test_unreadable_file)
{
    char path[4300];

    snprintf(path, sizeof(path), "%s/vp_link.so", fixture_folder());
    ck_assert_int_eq(symlink("/nonexistent", path), 0);
    snprintf(path, sizeof(path), "%s/vp_folder.so", fixture_folder());
    ck_assert_int_eq(mkdir(path, 0700), 0);
    fixture_get();
    ck_assert_ptr_nonnull(strstr(of_file(providers(kal), "vp_link.so")->reason, "cannot be read"));
    ck_assert_ptr_nonnull(
        strstr(of_file(providers(kal), "vp_folder.so")->reason, "not a regular file"));
    rmdir(path);
}
END_TEST

/* _i: 0 a link to the file from another folder, 1 the file under a second name, 2 a link to one
 * that is refused: one file, listed once. 3: a copy is another file of the same provider. */
START_TEST(test_the_same_file_twice)
{
    static const char *const again[] = { "more/vp_test.so", "vp_zzz.so", "more/vp_test.so",
                                         "more/vp_test.so" };
    char path[4300], target[4300], folders[8600];
    const struct rows *rows;

    fixture_folder_made("more");
    snprintf(path, sizeof(path), "%s/%s", fixture_folder(), again[_i]);
    snprintf(target, sizeof(target), "%s/vp_test.so", fixture_folder());
    snprintf(folders, sizeof(folders), "%s:%s/more", fixture_folder(), fixture_folder());
    setenv("ITAL_PROVIDER_PATH", folders, 1);
    if (_i == 2)
        fixture_file("vp_test.so", "#!/bin/sh\n", 10);
    else
        fixture_module("vp_test", NULL);
    if (_i == 3)
        fixture_module("vp_test", "more/vp_test");
    else
        ck_assert_int_eq(_i == 1 ? link(target, path) : symlink(target, path), 0);
    fixture_get();
    rows = providers(kal);
    ck_assert_uint_eq(rows->count, _i == 3 ? 2 : 1);
    if (_i == 3)
        ck_assert_ptr_nonnull(strstr(rows->row[1].advice, "remove one of the two files"));
    ck_assert_uint_eq(fixture_log_count(" is the same file as "), _i != 3);
    ck_assert_uint_eq(fixture_log_count("is not an ELF file"), _i == 2);
}
END_TEST

START_TEST(test_other_files_are_not_looked_at)
{
    fixture_file("libfoo.so", "x", 1);
    fixture_file("vp_.so", "x", 1);
    fixture_file("vp_test.so.1", "x", 1);
    fixture_get();
    ck_assert_uint_eq(providers(kal)->count, 0);
}
END_TEST

/* Absent operations return an error; operations that both versions have work. */
static void try_windows(struct kal *own, const char *interface, enum ri_status expected)
{
    struct kal_rnic *rnic;
    struct ri_pd *pd;
    struct ri_mw *mw;
    uint32_t stag = 0;

    ck_assert_int_eq(kal_rnic_open(own, interface, NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_pd_create(rnic, NULL, &pd), RI_OK);
    ck_assert_int_eq(kal_mw_create(rnic, pd, false, NULL, &stag, &mw), expected);
    if (expected == RI_OK)
        ck_assert_int_eq(kal_mw_destroy(rnic, mw), RI_OK);
    ck_assert_uint_eq(kal_host_holds(own->host, KAL_ACCOUNT_MW), 0);
    ck_assert_int_eq(kal_pd_destroy(rnic, pd), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}

START_TEST(test_other_minors)
{
    fixture_module("broken/vp_oldminor", NULL);
    fixture_module("broken/vp_newminor", NULL);
    fixture_get();
    ck_assert(of_name(providers(kal), "oldminor")->usable);
    ck_assert(of_name(providers(kal), "newminor")->usable);
    ck_assert_uint_eq(of_name(providers(kal), "newminor")->minor, 99);
    try_windows(kal, "oldminor", RI_ERR_NOT_SUPPORTED);
    try_windows(kal, "newminor", RI_OK);
}
END_TEST

START_TEST(test_absent_operations_answer)
{
    struct kal_rnic *rnic;
    struct ri_lane *lane;
    struct ri_cq *cq;
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 1 };
    uint64_t deadline;
    struct ri_wc wc;

    fixture_module("vp_test", NULL); /* has no user operation at all, and no qp_query */
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_lane_open(rnic, 0, NULL, &lane), RI_OK);
    ck_assert_int_eq(kal_lane_open(rnic, 1, NULL, &lane), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(lane->ops->progress(lane, NULL, 1, &deadline), 0);
    ck_assert(lane->ops->lane_arm(lane));
    ck_assert_int_eq(kal_cq_create(rnic, &attr, &cq), RI_OK);
    ck_assert_uint_eq(cq->ops->poll(cq, 1, &wc), 0);
    ck_assert_int_eq(cq->ops->arm(cq, RI_ARM_NEXT, 0), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(rnic->ops.qp_query(NULL, NULL), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_cq_destroy(rnic, cq), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

START_TEST(test_foreign_exports_are_told)
{
    const struct row *row;

    fixture_module("broken/vp_foreign", NULL);
    fixture_get();
    row = of_file(providers(kal), "vp_foreign.so");
    ck_assert(row->usable);
    ck_assert_msg(strstr(row->advice, "1 other symbol (foreign_symbol)") != NULL, "%s",
                  row->advice);
    ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "foreign_symbol"));
}
END_TEST

/* ---- folders ---- */

START_TEST(test_first_of_a_name_wins)
{
    char conf[4400], path[4300];
    const struct row *row;

    fixture_module("vp_test", "vp_b");
    snprintf(path, sizeof(path), "%s/first", fixture_folder());
    ck_assert_int_eq(mkdir(path, 0700), 0);
    fixture_module("vp_test", "first/vp_z");
    snprintf(conf, sizeof(conf), "[ital]\nprovider_path = %s\n", path);
    fixture_conf(conf);
    fixture_get();
    ck_assert(of_file(providers(kal), "first/vp_z.so")->usable);
    row = of_file(providers(kal), "vp_b.so");
    ck_assert(!row->usable);
    ck_assert_ptr_nonnull(strstr(row->reason, "provider \"test\" was found in "));
    ck_assert_ptr_nonnull(strstr(row->reason, "first/vp_z.so before"));
}
END_TEST

START_TEST(test_missing_folder)
{
    const struct row *row;
    char list[9000];

    snprintf(list, sizeof(list), "%s/none:%s", fixture_folder(), fixture_folder());
    setenv("ITAL_PROVIDER_PATH", list, 1);
    fixture_module("vp_test", NULL);
    fixture_get();
    row = of_file(providers(kal), "none");
    ck_assert_ptr_nonnull(row);
    ck_assert_str_eq(row->advice, "correct ITAL_PROVIDER_PATH");
    ck_assert(of_file(providers(kal), "vp_test.so")->usable);
}
END_TEST

/* ---- interfaces ---- */

START_TEST(test_devices_are_interfaces)
{
    const struct row *row;

    setenv("ITAL_TEST_VP", "two", 1);
    fixture_module("vp_test", NULL);
    fixture_get();
    row = of_name(interfaces(kal), "test");
    ck_assert(row->usable);
    ck_assert_str_eq(row->provider, "test");
    ck_assert_str_eq(row->device, "test");
    ck_assert_ptr_nonnull(of_name(interfaces(kal), "test-second"));
    setenv("ITAL_TEST_VP", "unusable", 1); /* devices come and go */
    row = of_name(interfaces(kal), "test");
    ck_assert(!row->usable);
    ck_assert_str_eq(row->reason, "its cable is out");
    ck_assert_str_eq(row->advice, "plug it in");
    setenv("ITAL_TEST_VP", "nodevice", 1);
    ck_assert_ptr_null(of_name(interfaces(kal), "test"));
}
END_TEST

static const struct {
    const char *conf, *words, *name, *reason, *advice; /* reason NULL: usable */
    enum ri_status open;
} sections[] = {
    { "[interface a]\nprovider = test\n", "", "a", NULL, NULL, RI_OK },
    { "[interface a]\nprovider = test\ndevice = test\n", "", "a", NULL, NULL, RI_OK },
    { "[interface a]\nprovider = test\ndevice = test-second\n", "two", "a", NULL, NULL, RI_OK },
    { "[interface a]\nprovider = test\n", "", "test", NULL, NULL, RI_OK },
    { "[interface a]\nprovider = test\ndevice = tset\n", "", "a", "has no device \"tset\"",
      "correct device", ITAL_ERR_NO_INTERFACE },
    { "[interface a]\nprovider = test\n", "nodevice", "a", "has no device",
      "what the provider needs", ITAL_ERR_NO_INTERFACE },
    { "[interface a]\nprovider = test\n", "enumfail", "a", "cannot list its devices", "",
      ITAL_ERR_NO_INTERFACE },
    { "[interface a]\nprovider = test\n", "unusable", "a", "its cable is out", "plug it in",
      ITAL_ERR_NO_INTERFACE },
    { "[interface a]\nprovider = tets\n", "", "a", "no provider \"tets\"; did you mean \"test\"?",
      "correct provider of [interface a]", ITAL_ERR_NO_INTERFACE },
    { "[interface a]\nprovider = quantum\n", "", "a", "no provider \"quantum\"",
      "install vp_quantum.so; searched were", ITAL_ERR_NO_INTERFACE },
    { "[interface a]\nprovider = spoilt\n", "", "a",
      "vp_spoilt.so is not used: it is not an ELF file", "remove it", ITAL_ERR_NO_INTERFACE },
    { "[interface a]\ncrc = no\n", "", "a", ":1: [interface a] names no provider",
      "provider = NAME", ITAL_ERR_CONFIGURATION },
    { "[interface a]\nprovider = test\ndepth = deep\n", "", "a",
      ":3: depth = \"deep\": allowed is a whole number", "correct the value",
      ITAL_ERR_CONFIGURATION },
    { "[interface a]\nprovider = test\nmode = slow\n", "", "a", "allowed is fast|safe", "",
      ITAL_ERR_CONFIGURATION },
};

START_TEST(test_section)
{
    const struct row *row;
    struct kal_rnic *rnic = NULL;

    fixture_module("vp_test", NULL);
    fixture_file("vp_spoilt.so", "x", 1);
    fixture_conf(sections[_i].conf);
    setenv("ITAL_TEST_VP", sections[_i].words, 1);
    fixture_get();
    row = of_name(interfaces(kal), sections[_i].name);
    ck_assert_ptr_nonnull(row);
    ck_assert_int_eq(row->usable, sections[_i].reason == NULL);
    if (sections[_i].reason) {
        ck_assert_msg(strstr(row->reason, sections[_i].reason) != NULL, "%s", row->reason);
        ck_assert_msg(strstr(row->advice, sections[_i].advice) != NULL, "%s", row->advice);
    }
    ck_assert_int_eq(kal_rnic_open(kal, sections[_i].name, NULL, &rnic), sections[_i].open);
    if (rnic)
        ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    else
        ck_assert_uint_eq(fixture_log_count("ital: error: interface a is not usable: "), 1);
}
END_TEST

/* A provider that is short of memory while it lists its devices: the name is not wrong, and is
 * found later. */
START_TEST(shortage_while_devices_are_listed)
{
    struct kal_rnic *rnic = NULL;

    fixture_module("vp_test", NULL);
    fixture_conf("[interface a]\nprovider = test\n");
    fixture_get();
    ck_assert_ptr_nonnull(of_name(interfaces(kal), "a"));
    setenv("ITAL_TEST_VP", "enumshort", 1);
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_ERR_NO_RESOURCES);
    setenv("ITAL_TEST_VP", "", 1);
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

START_TEST(test_options_of_an_interface)
{
    uint32_t word = 5;
    struct kal_rnic *rnic;

    fixture_module("vp_test", NULL);
    fixture_conf("[interface a]\nprovider = test\nclose_timeout = 3s\nmode = FAST\nbufer = 5\n"
                 "deviec = x\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_OK);
    ck_assert_str_eq(kal_rnic_option(rnic, "close_timeout"), "3000");
    ck_assert_str_eq(kal_rnic_option(rnic, "mode"), "fast");
    ck_assert_str_eq(kal_rnic_option(rnic, "buffer"), "65536");
    ck_assert_int_eq(ri_option_word(&rnic->host, "mode", &word), RI_OK);
    ck_assert_uint_eq(word, 0);
    ck_assert_ptr_null(kal_rnic_option(rnic, NULL));
    ck_assert_str_eq(kal_rnic_provider(rnic), "test");
    ck_assert_uint_eq(
        fixture_log_count(":5: unknown option \"bufer\" of provider test is ignored; did you mean "
                          "\"buffer\"?"),
        1);
    ck_assert_uint_eq(fixture_log_count("did you mean \"device\"?"), 1);
    interfaces(kal);
    ck_assert_uint_eq(fixture_log_count("did you mean"), 2); /* reported once */
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

START_TEST(test_default_interfaces)
{
    setenv("ITAL_TEST_VP", "two", 1);
    fixture_module("vp_test", NULL);
    fixture_conf("[ital]\ndefault_interfaces = no\n[interface a]\nprovider = test\n");
    fixture_get();
    ck_assert_uint_eq(interfaces(kal)->count, 1);
    fixture_put();
    fixture_conf("[interface test]\nprovider = test\nmode = fast\n");
    fixture_get();
    ck_assert_uint_ge(interfaces(kal)->count, 2);
    ck_assert_str_eq(of_name(interfaces(kal), "test")->device, "(none)"); /* the section, once */
    ck_assert_ptr_null(of_name(interfaces(kal), "test/test"));
    fixture_put();
    fixture_conf("[interface test-second]\nprovider = nobody\n");
    fixture_get();
    ck_assert(!of_name(interfaces(kal), "test-second")->usable);
    ck_assert(of_name(interfaces(kal), "test/test-second")->usable);
}
END_TEST

/* A program may name a provider's file: that opens its default device, under no other name. */
START_TEST(test_a_file_names_its_default_device)
{
    struct kal_rnic *rnic;

    setenv("ITAL_TEST_VP", "two", 1);
    fixture_module("vp_test", NULL);
    fixture_get();
    ck_assert_ptr_null(of_name(interfaces(kal), "vp_test"));
    ck_assert_int_eq(kal_rnic_open(kal, "vp_test", NULL, &rnic), RI_OK);
    ck_assert_str_eq(kal_rnic_provider(rnic), "test");
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    ck_assert_int_eq(kal_rnic_open(kal, "vp_", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    ck_assert_int_eq(kal_rnic_open(kal, "vp_nobody", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    ck_assert_int_eq(kal_rnic_open(kal, "vp_vp_test", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    setenv("ITAL_TEST_VP", "unusable", 1);
    ck_assert_int_eq(kal_rnic_open(kal, "vp_test", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    ck_assert_uint_eq(fixture_log_count("interface vp_test is not usable: its cable is out"), 1);
    fixture_put();
    setenv("ITAL_TEST_VP", "", 1);
    fixture_conf("[ital]\ndefault_interfaces = no\n[interface a]\nprovider = test\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "vp_test", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    fixture_put();
    fixture_conf("[interface vp_test]\nprovider = test\nmode = safe\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "vp_test", NULL, &rnic), RI_OK);
    ck_assert_str_eq(kal_rnic_option(rnic, "mode"), "safe"); /* a section of that name sets it */
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

START_TEST(test_unknown_interface)
{
    struct kal_rnic *rnic = NULL;

    fixture_module("vp_test", NULL);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "tset", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    ck_assert_uint_eq(fixture_log_count("there is no interface \"tset\"; did you mean \"test\"?"),
                      1);
    ck_assert_int_eq(kal_rnic_open(kal, "quantum", NULL, &rnic), ITAL_ERR_NO_INTERFACE);
    ck_assert_uint_eq(fixture_log_count("there is no interface \"quantum\"; itinfo lists"), 1);
    ck_assert_int_eq(kal_rnic_open(kal, "", NULL, &rnic), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_rnic_open(kal, NULL, NULL, &rnic), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(rnic);
}
END_TEST

/* ---- many at once ---- */

static void *lister(void *arg)
{
    struct rows *rows = arg;
    struct kal *own = fixture_another();

    ck_assert_int_eq(kal_interface_list(own, on_interface, rows), RI_OK);
    kal_put(own);
    return NULL;
}

START_TEST(test_first_search_from_many_threads)
{
    static struct rows rows[8];
    pthread_t threads[8];

    fixture_module("vp_test", NULL);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, lister, &rows[i]), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_ptr_nonnull(of_name(&rows[i], "test"));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry");
    TCase *tc = tc_case(suite, "files", fixture_setup, fixture_put);

    tc_add_rows(tc, test_refused, refused);
    tc_add_tests(tc, test_other_machine, test_unreadable_file);
    tcase_add_loop_test(tc, test_the_same_file_twice, 0, 4);
    tc_add_tests(tc, test_other_files_are_not_looked_at, test_other_minors,
                 test_absent_operations_answer, test_foreign_exports_are_told,
                 test_first_of_a_name_wins, test_missing_folder);

    tc = tc_case(suite, "interfaces", fixture_setup, fixture_put);
    tcase_add_test(tc, test_devices_are_interfaces);
    tc_add_rows(tc, test_section, sections);
    tc_add_tests(tc, shortage_while_devices_are_listed, test_options_of_an_interface,
                 test_default_interfaces, test_a_file_names_its_default_device,
                 test_unknown_interface, test_first_search_from_many_threads);
    return tc_main(suite);
}
