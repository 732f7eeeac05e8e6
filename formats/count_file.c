/* SPDX-License-Identifier: BSD-3-Clause */
/* Where files of counts are, and whose they are. */
#include "count_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void count_folder_of(uint32_t user, char *path, size_t room)
{
    snprintf(path, room, "/dev/shm/ital-%u", (unsigned)user);
}

void count_folder(char *path, size_t room)
{
    count_folder_of(geteuid(), path, room);
}

uint64_t count_process_start(pid_t process)
{
    char path[40], text[1024], *at;
    unsigned long long start = 0;
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = fopen(path, "re");
    if (!file)
        return 0;
    length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    at = strrchr(text, ')'); /* the name may have blanks; the state is field 3, the start 22 */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoull(at, NULL, 10);
    return start;
}
