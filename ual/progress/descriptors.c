/* SPDX-License-Identifier: BSD-3-Clause */
#include "descriptors.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define MAX_TRACKED (1 << 20) /* the kernel's default ceiling for descriptors (fs.nr_open) */
#define WORD_BITS   64

static _Atomic uint64_t tracked[MAX_TRACKED / WORD_BITS];
static atomic_int highest = -1;

void ual_fd_track(int fd)
{
    int seen = atomic_load(&highest);

    if (fd < 0 || fd >= MAX_TRACKED)
        return;
    while (seen < fd && !atomic_compare_exchange_weak(&highest, &seen, fd))
        ;
    atomic_fetch_or(&tracked[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS));
}

void ual_fd_forget(int fd)
{
    if (fd >= 0 && fd < MAX_TRACKED)
        atomic_fetch_and(&tracked[fd / WORD_BITS], ~(UINT64_C(1) << (fd % WORD_BITS)));
}

void ual_fd_close_tracked(void)
{
    int last = atomic_load(&highest);

    for (int word = 0; word <= last / WORD_BITS && last >= 0; word++) {
        uint64_t bits = atomic_exchange(&tracked[word], 0);

        while (bits) {
            close(word * WORD_BITS + __builtin_ctzll(bits));
            bits &= bits - 1;
        }
    }
}
