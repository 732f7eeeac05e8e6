/* SPDX-License-Identifier: BSD-3-Clause */
/* Records which call returned which error; see seen.h. */
#define FX_UNSEEN
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LINE  128 /* octets, with the end of line */
#define LINES 4096

static char (*lines)[LINE];  /* the file */
static atomic_uint *used;    /* shared with all children of this process */
static atomic_bool *written; /* the lines that other threads may read */
static const char *over = "-";

static void *shared(int fd, size_t length)
{
    void *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE,
                        fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    return mapped == MAP_FAILED ? NULL : mapped;
}

/* libtool runs an uninstalled program under the name lt-NAME. */
static const char *own_name(void)
{
    const char *name = program_invocation_short_name;

    return strncmp(name, "lt-", 3) ? name : name + 3;
}

static void __attribute__((constructor)) open_record(void)
{
    const char *folder = getenv("ITAL_TEST_SEEN");
    char path[4096];
    int fd;

    if (!folder || !*folder)
        return;
    mkdir(folder, 0777);
    snprintf(path, sizeof(path), "%s/%s", folder, own_name());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, (off_t)LINES * LINE))
        abort(); /* a record was requested and cannot be made */
    lines = shared(fd, (size_t)LINES * LINE);
    used = shared(-1, sizeof(*used));
    written = shared(-1, LINES * sizeof(*written));
    close(fd);
    if (!lines || !used || !written)
        abort();
}

void fx_seen_over(const char *interface)
{
    over = interface;
}

static bool known(const char *line)
{
    unsigned count = atomic_load(used);

    for (unsigned i = 0; i < count && i < LINES; i++)
        if (atomic_load(&written[i]) && !memcmp(lines[i], line, LINE))
            return true;
    return false;
}

static void note(const char *call, const char *function, const char *status)
{
    char line[LINE];
    unsigned slot;
    int length = snprintf(line, sizeof(line), "%s %s %s %s", over, call, status, function);

    if (length < 0 || length >= LINE)
        length = LINE - 1; /* a long function name is cut */
    memset(line + length, ' ', (size_t)(LINE - length));
    line[LINE - 1] = '\n';
    if (known(line))
        return;
    slot = atomic_fetch_add(used, 1);
    if (slot >= LINES)
        return;
    memcpy(lines[slot], line, LINE);
    atomic_store(&written[slot], true);
}

it_status_t fx_seen_error(struct fx_site *site, const char *function, it_status_t status)
{
    unsigned number = (unsigned)status % 128;
    unsigned long long bit = 1ull << number % 64;
    int before = errno;

    if (!lines || atomic_load_explicit(&site->noted[number / 64], memory_order_relaxed) & bit)
        return status;
    atomic_fetch_or(&site->noted[number / 64], bit);
    note(site->call, function, itx_status_name(status));
    errno = before;
    return status;
}
