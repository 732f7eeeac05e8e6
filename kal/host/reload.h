/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices that root may have changed the host's policy: inotify over its folder and the nearest
 * folder above that exists. */
#ifndef ITAL_KAL_RELOAD_H
#define ITAL_KAL_RELOAD_H

#include <stdbool.h>

struct kal_watched {
    int wd;
    unsigned mask;
    unsigned long long inode;
};

struct kal_reload {
    /* -1: nothing is watched */
    int fd;
    unsigned count;
    struct kal_watched watched[2];
};

/* Begins to watch, without an error if that cannot be. The folder must be there: a user has but few
 * inotify instances (fs.inotify.max_user_instances), which ital takes none of where root has said
 * nothing. One thread uses it at a time. */
void kal_reload_begin(struct kal_reload *reload, const char *folder);
/* Takes what was noticed, and watches what is there now. True: the folder is to be read again. The
 * program may have closed the descriptor, or it is another file's: fd is -1 then. */
bool kal_reload_noticed(struct kal_reload *reload, const char *folder);
/* Async-signal-safe. */
void kal_reload_end(struct kal_reload *reload);

#endif
