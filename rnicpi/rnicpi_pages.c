/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pages: see rnicpi_pages.h. The kernel reports one mapping after the other (PROCMAP_QUERY, Linux
 * 6.11). An older kernel gives the text of all mappings. Without /proc each page is tried, which
 * populates it. The file is opened for each check: it names the memory of the process that opened
 * it, and the child of a fork would see its parent's.
 */
#include "rnicpi_pages.h"
#include "rnicpi_util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

struct pages {
    /* The first octet that is not checked yet; the last one. */
    uint64_t at, last;
    bool read, write;
    /* Of the first mapping; NULL: nobody asks. */
    struct ri_pages_file *file;
};

/* Check a mapping; they come in ascending order. RI_ERR_AGAIN: it passes, the next one is
 * needed. */
static enum ri_status check_pages(struct pages *pages, uint64_t start, uint64_t end, bool readable,
                                  bool writable)
{
    if (end <= pages->at)
        return RI_ERR_AGAIN;
    if (start > pages->at)
        return RI_ERR_ADDRESS;
    if ((pages->write && !writable) || (pages->read && !readable && !writable))
        return RI_ERR_ACCESS; /* every processor can read a writable page */
    pages->at = end;
    return end > pages->last ? RI_OK : RI_ERR_AGAIN;
}

/* --- one mapping after the other --- */

/* As in <linux/fs.h> since 6.11. */
struct mapping_query {
    uint64_t size, flags, addr;
    uint64_t start, end, is, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define MAPPING_QUERY    _IOWR('f', 17, struct mapping_query)
#define MAPPING_READABLE 1u
#define MAPPING_WRITABLE 2u
#define MAPPING_SHARED   8u

/* What the pages of a mapping are of. */
struct mapping {
    uint64_t start, end, offset, inode, device;
    bool shared;
};

/* False: the whole range is not in it, or nobody else can have the file. */
static bool is_of_file(const struct pages *pages, const struct mapping *mapping)
{
    return pages->file && mapping->shared && mapping->inode && mapping->start <= pages->at &&
           mapping->end > pages->last;
}

static void note_file(struct pages *pages, const struct mapping *mapping, const char *name)
{
    *pages->file = (struct ri_pages_file){ .inode = mapping->inode,
                                           .device = mapping->device,
                                           .offset = mapping->offset +
                                                     (pages->at - mapping->start) };
    memcpy(pages->file->name, name, strnlen(name, sizeof(pages->file->name) - 1));
}

/* Once more, with the name, which may be long. */
static void query_file(int fd, struct pages *pages, const struct mapping_query *found)
{
    const struct mapping mapping = { found->start,
                                     found->end,
                                     found->offset,
                                     found->inode,
                                     makedev(found->major, found->minor),
                                     found->is & MAPPING_SHARED };
    char name[4096];
    struct mapping_query query = {
        .size = sizeof(query), .addr = pages->at, .name_size = sizeof(name), .name = (uintptr_t)name
    };

    if (is_of_file(pages, &mapping) && !ioctl(fd, MAPPING_QUERY, &query) &&
        query.inode == found->inode && query.name_size)
        note_file(pages, &mapping, name);
}

/* RI_ERR_NOT_SUPPORTED: the kernel does not have it. */
static enum ri_status query_mappings(int fd, struct pages *pages)
{
    enum ri_status status;

    do {
        struct mapping_query query = { .size = sizeof(query), .addr = pages->at };

        if (ioctl(fd, MAPPING_QUERY, &query))
            return errno == ENOENT ? RI_ERR_ADDRESS : RI_ERR_NOT_SUPPORTED;
        query_file(fd, pages, &query);
        status = check_pages(pages, query.start, query.end, query.is & MAPPING_READABLE,
                             query.is & MAPPING_WRITABLE);
    } while (status == RI_ERR_AGAIN);
    return status;
}

/* --- the text of all mappings --- */

static enum ri_status judge_line(struct pages *pages, const char *line)
{
    unsigned long long start, end, offset, inode;
    unsigned int major, minor;
    char rights[5];
    int name = 0;
    struct mapping mapping;

    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, rights, &offset, &major,
               &minor, &inode, &name) < 7)
        return RI_ERR_NOT_SUPPORTED;
    mapping =
        (struct mapping){ start, end, offset, inode, makedev(major, minor), rights[3] == 's' };
    if (is_of_file(pages, &mapping))
        note_file(pages, &mapping, line + name);
    return check_pages(pages, start, end, rights[0] == 'r', rights[1] == 'w');
}

/* RI_ERR_NOT_SUPPORTED: it cannot be read. */
static enum ri_status read_mappings(int fd, struct pages *pages)
{
    char text[8192];
    size_t used = 0;
    ssize_t got;

    while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
        char *line = text, *next;

        used += (size_t)got;
        text[used] = 0;
        while ((next = strchr(line, '\n'))) {
            enum ri_status status;

            *next = 0;
            status = judge_line(pages, line);

            if (status != RI_ERR_AGAIN)
                return status;
            line = next + 1;
        }
        used -= (size_t)(line - text); /* of an incomplete line */
        memmove(text, line, used);
    }
    return got < 0 ? RI_ERR_NOT_SUPPORTED : RI_ERR_ADDRESS;
}

/* --- page by page --- */

/* The kernel reads an octet. */
static bool page_is_readable(uint64_t page)
{
    uint8_t octet;
    const struct iovec to = { &octet, 1 }, from = { (void *)(uintptr_t)page, 1 };

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* The kernel tries it with an atomic OR of 0 to the word: no concurrent change is lost, and no
 * fault ends the process. */
bool ri_pages_try_word(void *word)
{
    int nobody = 0;

    return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, NULL, word,
                   FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

static bool page_is_writable(uint64_t page)
{
    return ri_pages_try_word((void *)(uintptr_t)page);
}

static enum ri_status try_pages(const struct pages *pages)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = pages->at & ~(size - 1), last = pages->last & ~(size - 1);

    /* MS_ASYNC starts nothing that would not happen anyway; it fails if a page of the range is
     * not mapped. */
    if (msync((void *)(uintptr_t)first, (size_t)(last - first + size), MS_ASYNC))
        return RI_ERR_ADDRESS;
    for (uint64_t page = first; page <= last; page += size)
        if ((pages->write && !page_is_writable(page)) ||
            (pages->read && !page_is_readable(page) && !page_is_writable(page)))
            return RI_ERR_ACCESS;
    return RI_OK;
}

enum ri_status ri_pages_check_file(const void *addr, uint64_t length, bool read, bool write,
                                   struct ri_pages_file *file)
{
    struct pages pages = { (uintptr_t)addr, (uintptr_t)addr + (length - 1), read, write, file };
    enum ri_status status = RI_ERR_NOT_SUPPORTED;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (file)
        file->inode = 0;
    if (fd >= 0) {
        status = query_mappings(fd, &pages);
        if (status == RI_ERR_NOT_SUPPORTED)
            status = read_mappings(fd, &pages);
        close(fd);
    }
    return status == RI_ERR_NOT_SUPPORTED ? try_pages(&pages) : status;
}

enum ri_status ri_pages_check(const void *addr, uint64_t length, bool read, bool write)
{
    return ri_pages_check_file(addr, length, read, write, NULL);
}

enum ri_status ri_check_memory(const void *addr, uint64_t length, bool writable)
{
    if (!length)
        return RI_OK;
    return (uintptr_t)addr + length < (uintptr_t)addr
               ? RI_ERR_ADDRESS
               : ri_pages_check(addr, length, true, writable);
}
