/* SPDX-License-Identifier: BSD-3-Clause */
/* See pin_fixture.h. */
#include "pin_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>

#define NOBODY 65534

struct kal_host *host;
struct kal_pins *pins;
struct kal_pin_refusal refusal;
char *area;
size_t page;
uint64_t quota, asked_for;
bool raises;
unsigned asked_times;
bool lock_was_held;

/* ---- a host that leases nothing more, and raises the memlock limit if the test allows it ---- */

/* Whoever waits for the host keeps no other thread from its pins. */
static void look_at_lock(void)
{
    if (pthread_mutex_trylock(&pins->lock))
        lock_was_held = true;
    else
        pthread_mutex_unlock(&pins->lock);
}

static bool no_lease(void *state, enum kal_account_kind kind, uint64_t amount, bool wait)
{
    (void)state;
    (void)kind;
    (void)amount;
    if (wait)
        look_at_lock();
    return false;
}

static uint64_t the_quota(void *state, enum kal_account_kind kind)
{
    (void)state;
    (void)kind;
    return quota;
}

static bool raise_memlock(void *state, uint64_t octets)
{
    struct rlimit limit;

    (void)state;
    asked_for = octets;
    asked_times++;
    look_at_lock();
    if (!raises || getrlimit(RLIMIT_MEMLOCK, &limit))
        return false;
    limit.rlim_cur = octets;
    return !setrlimit(RLIMIT_MEMLOCK, &limit);
}

static const struct kal_host_ops host_ops = { .lease = no_lease,
                                              .quota = the_quota,
                                              .raise_memlock = raise_memlock };

void pin_host_again(uint64_t limit)
{
    bool held = host && pins == &host->held;

    if (host)
        kal_host_destroy(host);
    host = kal_host_create(&host_ops, NULL);
    ck_assert_ptr_nonnull(host);
    quota = limit;
    kal_host_grant(host, KAL_ACCOUNT_PINNED, quota);
    pins = held ? &host->held : &host->locked;
}

void pin_setup(void)
{
    const char *why;

    fixture_setup();
    ck_assert(kal_log_configure(getenv("ITAL_LOG"), &why));
    page = (size_t)sysconf(_SC_PAGESIZE);
    area = mmap(NULL, PIN_PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(area, MAP_FAILED);
    pin_host_again(UINT64_MAX);
    asked_for = 0;
    raises = false;
    asked_times = 0;
    lock_was_held = false;
}

void pin_teardown(void)
{
    kal_host_destroy(host);
    munmap(area, PIN_PAGES * page);
    kal_log_reset();
}

void pin_use(enum kal_pin_way way)
{
    pins = way == KAL_PIN_HOLD ? &host->held : &host->locked;
    if (pin(0, 1) == RI_ERR_PERMISSION)
        tc_skip("pages cannot be %s here: %s", pins->ops->done, refusal.why);
    unpin(0, 1);
}

void pin_as_user(size_t limit)
{
    struct rlimit both = { limit, 4 * limit };

    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &both), 0);
    if (geteuid() == 0 && seteuid(NOBODY)) /* root has no limit */
        tc_skip("this user cannot give up its right to lock memory");
    pin_host_again(UINT64_MAX);
}

void pin_as_root(void)
{
    if (geteuid() == NOBODY)
        ck_assert_int_eq(seteuid(0), 0);
}

enum ri_status pin(size_t first, size_t count)
{
    return kal_pin(pins, area + first * page, count * page, false, &refusal);
}

void unpin(size_t first, size_t count)
{
    kal_unpin(pins, area + first * page, count * page);
}

/* ---- what the kernel reports ---- */

static uint64_t status_octets(const char *name)
{
    uint64_t kib;

    ck_assert_msg(kal_pin_status_number(name, &kib), "no %s in /proc/self/status", name);
    return kib * 1024;
}

uint64_t pin_locked(void)
{
    return status_octets("VmLck");
}

uint64_t pin_held(void)
{
    return status_octets("VmPin");
}

void pin_await_held(uint64_t octets)
{
    ck_assert_msg(tc_until(pin_held() == octets, 5000), "VmPin: %llu, expected: %llu",
                  (unsigned long long)pin_held(), (unsigned long long)octets);
}

unsigned pin_rings(void)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned count = 0;
    char target[64];
    ssize_t length;

    ck_assert_ptr_nonnull(folder);
    while ((entry = readdir(folder))) {
        length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        count += strstr(target, "[io_uring]") != NULL;
    }
    closedir(folder);
    return count;
}

uint64_t pin_frame(const void *address)
{
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t entry = 0;

    if (fd < 0)
        return 0;
    if (pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)address / page * sizeof(entry))) !=
        sizeof(entry))
        entry = 0;
    close(fd);
    return entry >> 63 ? entry & ((UINT64_C(1) << 55) - 1) : 0;
}
