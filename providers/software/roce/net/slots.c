/* SPDX-License-Identifier: BSD-3-Clause */
#include "slots.h"

#include "table.h"

#include "base/compiler.h"
#include "base/entropy.h"
#include "base/sealed.h"
#include "providers/software/roce/codec/bth.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct slots {
    int fd;
    uint32_t count, shift;
    atomic_bool mine[TABLE_SLOTS]; /* a lock does not keep its own process out */
    pid_t pid;
    struct table *table;
};

struct slot_claim {
    uint32_t slot, generation;
    bool is_void; /* given back, and perhaps claimed again */
    /* Numbers in use, by what is above the slot's bits. */
    uint64_t used[];
};

/* How long another process may hold the lock of the services: it is stopped then. */
#define SERVICES_WAIT_MS 1000

#define NUMBERS(slots) ((BTH_MASK24 + 1u) >> (slots)->shift)

static enum ri_status no_table(struct net_why *why)
{
    net_say(why, "no memory for the slots of this user's processes: %s", sealed_shortage(errno));
    return RI_ERR_NO_RESOURCES;
}

static bool map(struct slots *slots)
{
    void *memory = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, slots->fd,
                        0);

    if (memory == MAP_FAILED)
        return false;
    slots->table = memory;
    return true;
}

static struct slots *new_slots(int fd, uint32_t count)
{
    struct slots *slots = calloc(1, sizeof(*slots));

    if (!slots)
        return NULL;
    slots->fd = fd;
    slots->count = count;
    slots->shift = (uint32_t)__builtin_ctz(count);
    slots->pid = getpid();
    if (map(slots))
        return slots;
    free(slots);
    return NULL;
}

enum ri_status slots_make(uint16_t udp_port, uint32_t count, struct slots **slots,
                          struct net_why *why)
{
    int fd = memfd_create("ital-roce-slots", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct slots *made = NULL;

    if (fd < 0)
        return no_table(why);
    if (!ftruncate(fd, sizeof(struct table)) && sealed_fix(fd, 0))
        made = new_slots(fd, count);
    if (!made) {
        no_table(why);
        close(fd);
        return RI_ERR_NO_RESOURCES;
    }
    made->table->count = count;
    made->table->udp_port = udp_port;
    made->table->version = TABLE_VERSION;
    memcpy(made->table->magic, TABLE_MAGIC, sizeof(TABLE_MAGIC));
    *slots = made;
    return RI_OK;
}

enum ri_status slots_take(int fd, uint16_t udp_port, uint32_t count, struct slots **slots,
                          struct net_why *why)
{
    struct slots *made;

    if (!sealed_is(fd, sizeof(struct table)) || count < 8 || count > TABLE_SLOTS ||
        (count & (count - 1))) {
        net_say(why, "another process of this user has slots of another release");
        return RI_ERR_NO_RESOURCES;
    }
    made = new_slots(fd, count);
    if (!made)
        return no_table(why);
    if (memcmp(made->table->magic, TABLE_MAGIC, sizeof(TABLE_MAGIC)) ||
        made->table->version != TABLE_VERSION || made->table->count != count ||
        made->table->udp_port != udp_port) {
        net_say(why, "another process of this user has slots of another release");
        made->fd = -1;
        slots_close(made);
        return RI_ERR_NO_RESOURCES;
    }
    *slots = made;
    return RI_OK;
}

void slots_close(struct slots *slots)
{
    bool own = slots->pid == getpid();

    munmap(slots->table, sizeof(struct table));
    if (slots->fd >= 0 && own)
        close(slots->fd);
    free(slots);
}

static struct flock lock_of(uint32_t n, short type)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = n, .l_len = 1 };
}

/* True: locked now. `error` is set if locks do not work. */
static bool lock_slot(const struct slots *slots, uint32_t n, int *error)
{
    struct flock lock = lock_of(n, F_WRLCK);

    if (!fcntl(slots->fd, F_SETLK, &lock))
        return true;
    if (errno != EAGAIN && errno != EACCES)
        *error = errno;
    return false;
}

/* What its last holder has left there is nobody's from now on. */
static void take(struct slots *slots, struct slot_claim *claim, uint32_t n)
{
    struct table_slot *slot = &slots->table->slot[n];

    claim->generation = atomic_fetch_add(&slot->generation, 1u) + 1u;
    atomic_store(&slot->mailbox[0], 0);
    atomic_store(&slot->mailbox[1], 0);
    atomic_store(&slot->pid, (uint32_t)slots->pid);
    slots->mine[n] = true;
    claim->slot = n;
}

/* A lock does not keep out a second copy of this library in the process, so those that bear this
 * process's number are left for the end: they may also be those of before an exec. */
static bool claim_from(struct slots *slots, struct slot_claim *claim, uint32_t first, bool also_own,
                       int *error)
{
    for (uint32_t i = 0; i < slots->count; i++) {
        uint32_t n = (first + i) & (slots->count - 1u);
        struct table_slot *slot = &slots->table->slot[n];

        if (slots->mine[n] || (!also_own && atomic_load(&slot->pid) == (uint32_t)slots->pid))
            continue;
        if (!lock_slot(slots, n, error))
            continue;
        take(slots, claim, n);
        return true;
    }
    return false;
}

static enum ri_status take_one(struct slots *slots, struct slot_claim *claim, struct net_why *why)
{
    uint32_t first;
    int error = 0;

    if (!entropy_draw(&first, sizeof(first))) {
        net_say(why, "the kernel gives no random octets");
        return RI_ERR_NO_RESOURCES;
    }
    if (claim_from(slots, claim, first, false, &error) ||
        claim_from(slots, claim, first, true, &error))
        return RI_OK;
    if (error) {
        net_say(why, "a slot cannot be locked: %s", strerror(error));
        return RI_ERR_NO_RESOURCES;
    }
    net_say(why,
            "all %u slots of this user are taken: RoCE over UDP is opened so many times already",
            slots->count);
    return RI_ERR_LIMIT;
}

static struct slot_claim *new_claim(const struct slots *slots, struct net_why *why)
{
    struct slot_claim *made = calloc(1,
                                     sizeof(*made) + NUMBERS(slots) / 64u * sizeof(made->used[0]));

    if (!made)
        net_say(why, "no memory");
    return made;
}

enum ri_status slots_claim(struct slots *slots, struct slot_claim **claim, struct net_why *why)
{
    struct slot_claim *made = new_claim(slots, why);
    enum ri_status status;

    if (!made)
        return RI_ERR_NO_RESOURCES;
    status = take_one(slots, made, why);
    if (status == RI_OK)
        *claim = made;
    else
        free(made);
    return status;
}

enum ri_status slots_claim_at(struct slots *slots, uint32_t slot, uint32_t last,
                              struct slot_claim **claim, struct net_why *why)
{
    struct slot_claim *made = new_claim(slots, why);
    int error = EBUSY;

    if (!made)
        return RI_ERR_NO_RESOURCES;
    if (slots->mine[slot] || !lock_slot(slots, slot, &error)) {
        net_say(why, "slot %u cannot be locked: %s", slot, strerror(error));
        free(made);
        return RI_ERR_NO_RESOURCES;
    }
    take(slots, made, slot);
    atomic_store(&slots->table->slot[slot].last, last);
    *claim = made;
    return RI_OK;
}

static void give_back(struct slots *slots, const struct slot_claim *claim)
{
    struct flock lock = lock_of(claim->slot, F_UNLCK);

    slots->mine[claim->slot] = false;
    if (slots->pid == getpid()) {
        atomic_store(&slots->table->slot[claim->slot].pid, 0);
        fcntl(slots->fd, F_SETLK, &lock);
    }
}

void slots_unclaim(struct slots *slots, struct slot_claim *claim)
{
    if (!claim->is_void)
        give_back(slots, claim);
    free(claim);
}

void slots_void(struct slots *slots, struct slot_claim *claim)
{
    give_back(slots, claim);
    claim->is_void = true;
}

const int *slots_fd(const struct slots *slots)
{
    return &slots->fd;
}

uint32_t slots_count(const struct slots *slots)
{
    return slots->count;
}

uint32_t slots_mine(const struct slot_claim *claim)
{
    return claim->slot;
}

struct table *slots_table(const struct slots *slots)
{
    return slots->table;
}

uint32_t slots_generation(const struct slot_claim *claim)
{
    return claim->generation;
}

bool slots_are_inherited(const struct slots *slots)
{
    return slots->pid != getpid();
}

/* ---- lives ----------------------------------------------------------------------------------- */

enum slot_life slots_life(const struct slots *slots, uint32_t slot, uint32_t generation)
{
    struct flock lock = lock_of(slot, F_WRLCK);

    if (slot >= slots->count || atomic_load(&slots->table->slot[slot].generation) != generation)
        return SLOT_DEAD;
    if (atomic_load(&slots->mine[slot]) ||
        (!fcntl(slots->fd, F_GETLK, &lock) && lock.l_type != F_UNLCK))
        return SLOT_LIVES;
    return atomic_load(&slots->table->slot[slot].pid) == (uint32_t)slots->pid ? SLOT_OWN_PROCESS
                                                                              : SLOT_DEAD;
}

bool slots_lock_services(const struct slots *slots, pid_t *holder)
{
    struct flock lock;

    for (int i = 0; i < SERVICES_WAIT_MS; i++) {
        lock = lock_of(TABLE_SLOTS, F_WRLCK);
        if (!fcntl(slots->fd, F_SETLK, &lock))
            return true;
        poll(NULL, 0, 1);
    }
    lock = lock_of(TABLE_SLOTS, F_WRLCK);
    *holder = fcntl(slots->fd, F_GETLK, &lock) || lock.l_type == F_UNLCK ? 0 : lock.l_pid;
    return false;
}

void slots_unlock_services(const struct slots *slots)
{
    struct flock lock = lock_of(TABLE_SLOTS, F_UNLCK);

    fcntl(slots->fd, F_SETLK, &lock);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool is_used(const struct slot_claim *claim, uint32_t number)
{
    return claim->used[number / 64u] >> number % 64u & 1u;
}

/* Number 0 has QP 0 and QP 1, the last one that of multicast. */
static bool is_number(const struct slots *slots, uint32_t number)
{
    return number && number < NUMBERS(slots) - 1u;
}

uint32_t slots_qpn_take(struct slots *slots, struct slot_claim *claim)
{
    _Atomic uint32_t *last = &slots->table->slot[claim->slot].last;
    uint32_t number = (atomic_load(last) & BTH_MASK24) >> slots->shift;

    if (!number && !entropy_draw(&number, sizeof(number)))
        return 0;
    for (uint32_t i = 0; i < NUMBERS(slots); i++) {
        number = (number + 1u) & (NUMBERS(slots) - 1u);
        if (is_number(slots, number) && !is_used(claim, number)) {
            uint32_t qpn = number << slots->shift | claim->slot;

            claim->used[number / 64u] |= UINT64_C(1) << number % 64u;
            atomic_store(last, qpn);
            return qpn;
        }
    }
    return 0;
}

void slots_qpn_release(struct slots *slots, struct slot_claim *claim, uint32_t qpn)
{
    uint32_t number = qpn >> slots->shift;

    contract((qpn & (slots->count - 1u)) == claim->slot && is_number(slots, number) &&
             is_used(claim, number));
    claim->used[number / 64u] &= ~(UINT64_C(1) << number % 64u);
}
