/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared object and its descriptor; nothing is opened. */
#include "bed.h"

#include "kal/config/kal_config.h"
#include "kal/registry/kal_elf.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static struct kal_elf_summary read_elf(void)
{
    static const char *const wrong[] = {
        [KAL_ELF_NOT_ELF] = "is no ELF file",
        [KAL_ELF_CLASS] = "has another word size than this process",
        [KAL_ELF_BYTE_ORDER] = "has another byte order than this machine",
        [KAL_ELF_TYPE] = "is no shared object",
        [KAL_ELF_BROKEN] = "is truncated, or its tables point outside of it",
    };
    struct kal_elf_summary summary = { .machine = 0 };
    enum kal_elf_result result;
    struct stat stat;
    void *data;
    int fd = open(subject.file, O_RDONLY | O_CLOEXEC);

    EXPECT(fd >= 0 && !fstat(fd, &stat), "cannot be read: %s", strerror(errno));
    EXPECT(stat.st_size, "is empty");
    data = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    EXPECT(data != MAP_FAILED, "cannot be read: %s", strerror(errno));
    result = kal_elf_read(data, (size_t)stat.st_size, &summary);
    EXPECT(result != KAL_ELF_MACHINE, "is for %s", kal_elf_machine_name(summary.machine));
    EXPECT(result == KAL_ELF_OK, "%s", wrong[result]);
    return summary;
}

static void is_shared_object(void)
{
    read_elf();
}

static void exports_symbol(void)
{
    struct kal_elf_summary summary = read_elf();

    EXPECT(summary.majors, "exports no rnicpi_provider_v*: declare it with RI_PROVIDER()");
    for (unsigned int i = 0; i < summary.majors; i++)
        if (summary.major[i] == RI_ABI_MAJOR)
            return;
    check_fail("is for ABI major %u; this is for %u", summary.major[0], RI_ABI_MAJOR);
}

static void exports_nothing_else(void)
{
    struct kal_elf_summary summary = read_elf();

    EXPECT(!summary.foreign, "exports %s%s: compile with -fvisibility=hidden, which rnicpi.pc has",
           summary.foreign_name, summary.foreign > 1 ? " and others" : "");
}

static void resolves(void)
{
    EXPECT(dlopen(subject.file, RTLD_NOW | RTLD_LOCAL), "%s", dlerror());
}

static const struct ri_provider *descriptor(void)
{
    void *module = dlopen(subject.file, RTLD_NOW | RTLD_LOCAL);

    if (!module)
        check_skip("cannot be loaded");
    EXPECT(dlsym(module, RI_PROVIDER_SYMBOL), "has no symbol %s", RI_PROVIDER_SYMBOL);
    return dlsym(module, RI_PROVIDER_SYMBOL);
}

static void passes_the_loader(void)
{
    const char *reason = "";

    EXPECT(ri_provider_check(descriptor(), &reason) == RI_OK, "%s", reason);
}

/* A table of this minor has this size; an older one may end before, a newer one go on behind. */
static void check_table(const char *which, uint32_t size, int minor, size_t known)
{
    const int ours = RI_ABI_MINOR;

    EXPECT(minor != ours || size == known,
           "the %s table has ABI minor %d and %u octets; that minor has %zu", which, minor, size,
           known);
    EXPECT(minor < ours || size >= known,
           "the %s table has ABI minor %d, newer than %d, and only %u octets", which, minor, ours,
           size);
    EXPECT(minor > ours || size <= known,
           "the %s table has ABI minor %d, older than %d, and %u octets", which, minor, ours, size);
}

static void sizes_fit_versions(void)
{
    const struct ri_provider *provider = descriptor();
    const char *reason = "";

    if (ri_provider_check(provider, &reason) != RI_OK)
        check_skip("%s", reason);
    check_table("privileged", provider->privileged->size, provider->privileged->abi_minor,
                sizeof(struct ri_privileged_ops));
    check_table("user", provider->user->size, provider->user->abi_minor,
                sizeof(struct ri_user_ops));
    EXPECT(provider->abi_minor >= provider->privileged->abi_minor &&
               provider->abi_minor >= provider->user->abi_minor,
           "the descriptor has an older minor than a table");
}

static void options_are_valid(void)
{
    const struct ri_provider *provider = descriptor();
    char why[800];

    EXPECT(kal_provider_options_check(provider->options, provider->option_count, why, sizeof(why)),
           "%s", why);
    for (uint32_t i = 0; i < provider->option_count; i++)
        EXPECT(!provider->options[i].type || provider->options[i].text,
               "option %s has no text for people", provider->options[i].name);
}

const struct check file_checks[] = {
    { "file-elf", "export", "the file is a shared object for this machine", is_shared_object, 0,
      NULL },
    { "file-symbol", "export", "it exports the descriptor of this ABI major", exports_symbol, 0,
      NULL },
    { "file-exports", "export", "it exports nothing else", exports_nothing_else, 0, NULL },
    { "file-load", "export", "it loads, and each symbol is resolved", resolves, 0, NULL },
    { "file-descriptor", "abi-version", "its descriptor passes the loader's checks",
      passes_the_loader, 0, NULL },
    { "file-tables", "abi-size", "the size of each table is that of its version",
      sizes_fit_versions, 0, NULL },
    { "file-options", "options", "its options have valid types, defaults and texts",
      options_are_valid, 0, NULL },
    { .name = NULL },
};
