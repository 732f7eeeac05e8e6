/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of two processes share a segment: its slots, who may have them, when it goes. */
#include "local_bed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SLOT (2 * (size_t)LOCAL_REQUESTS + 2 * (size_t)LOCAL_ANSWERS)
#define MANY (2 * LOCAL_SLOTS + 1)

static struct testbed bed;
static struct ri_local *both[MANY][2];
static int fds[MANY];

static void setup(void)
{
    local_open(&bed, NULL);
}

static void teardown(void)
{
    testbed_close(&bed);
}

static void drop(struct ri_local *local)
{
    bed.fake.privileged.local_drop(bed.fake.rnic, local);
}

static void open_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        fds[i] = local_segment(&bed, both[i]);
}

static void close_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        close(fds[i]);
        drop(both[i][i & 1]);
        drop(both[i][!(i & 1)]);
    }
}

/* Mappings of segments in this process. */
static uint32_t mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    uint32_t count = 0;
    char line[512];

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "/memfd:ital-local") != NULL;
    fclose(maps);
    return count;
}

static uint64_t pages_of(int fd)
{
    struct stat about;

    ck_assert_int_eq(fstat(fd, &about), 0);
    return (uint64_t)about.st_blocks * 512 / 4096;
}

/* As many as it has slots, each with memory of its own; then the next one. */
START_TEST(connections_share_a_segment)
{
    struct tc_fds before = tc_fds();

    open_many(MANY);
    for (uint32_t i = 0; i < MANY; i++)
        for (int end = 0; end < 2; end++) {
            ck_assert((both[i][end]->segment == both[0][end]->segment) == (i < LOCAL_SLOTS));
            memset(local_requests(both[i][end], (unsigned int)end), (int)i + 1, LOCAL_REQUESTS);
            memset(local_answers(both[i][end], (unsigned int)end), (int)i + 101, LOCAL_ANSWERS);
            atomic_store(&local_page(both[i][end], (unsigned int)end)->number, i);
        }
    ck_assert_uint_eq(mapped(), 2 * 3);
    for (uint32_t i = 0; i < MANY; i++)
        for (int end = 0; end < 2; end++) { /* as the other one sees it */
            ck_assert_uint_eq(local_requests(both[i][!end], (unsigned int)end)[0], i + 1);
            ck_assert_uint_eq(local_requests(both[i][!end], (unsigned int)end)[LOCAL_REQUESTS - 1],
                              i + 1);
            ck_assert_uint_eq(local_answers(both[i][!end], (unsigned int)end)[0], i + 101);
            ck_assert_uint_eq(atomic_load(&local_page(both[i][!end], (unsigned int)end)->number),
                              i);
        }
    close_many(MANY);
    ck_assert_uint_eq(mapped(), 0);
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

/* Not before, by whichever end; then it is empty, and takes no memory. */
START_TEST(a_slot_is_given_away_when_both_have_left)
{
    struct ri_local *again[2], *third[2];
    uint64_t pages;
    uint32_t slot;

    open_many(2);
    pages = pages_of(fds[0]);
    slot = both[1][0]->slot;
    memset(both[1][0]->rings, 0xff, SLOT);
    memset(both[1][0]->pages, 0xff, 2 * sizeof(*both[1][0]->pages));
    drop(both[1][_i]);
    close(local_segment(&bed, again));
    ck_assert_uint_ne(again[0]->slot, slot);
    ck_assert_uint_eq(local_requests(both[1][!_i], 0)[0], 0xff);
    drop(both[1][!_i]);
    ck_assert_uint_le(pages_of(fds[0]), pages);
    close(local_segment(&bed, third));
    ck_assert_uint_eq(third[0]->slot, slot);
    for (size_t i = 0; i < SLOT; i++)
        ck_assert_uint_eq(third[1]->rings[i], 0);
    ck_assert_uint_eq(atomic_load(&local_page(third[1], 0)->ended), 0);
    for (int i = 0; i < 2; i++) {
        drop(again[i]);
        drop(third[i]);
        drop(both[0][i]);
        close(fds[i]);
    }
    ck_assert_uint_eq(mapped(), 0);
}
END_TEST

static enum ri_status make(int socket, struct ri_local **local, int *fd)
{
    const char *why;

    return bed.fake.privileged.local_make(bed.fake.rnic, socket, local, fd, &why);
}

static enum ri_status take(int socket, int fd, struct ri_local **local)
{
    const char *why = NULL;
    enum ri_status status = bed.fake.privileged.local_take(bed.fake.rnic, socket, fd, local, &why);

    ck_assert(status == RI_OK || why);
    return status;
}

/* Its slot may belong to a later connection by then. */
START_TEST(an_offer_that_was_withdrawn_is_not_taken)
{
    struct ri_local *first, *second, *taken;
    int bells[2], offers[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells), 0);
    open_many(1); /* the segment stays */
    OK(make(bells[0], &first, &offers[0]));
    drop(first);
    ck_assert_int_eq(take(bells[1], offers[0], &taken), RI_ERR_INVALID_ARGUMENT);
    OK(make(bells[0], &second, &offers[1]));
    ck_assert_int_eq(take(bells[1], offers[0], &taken), RI_ERR_INVALID_ARGUMENT);
    OK(take(bells[1], offers[1], &taken));
    ck_assert_int_eq(take(bells[1], offers[1], &first), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(second->slot, taken->slot);
    drop(second);
    drop(taken);
    for (int i = 0; i < 2; i++) {
        close(offers[i]);
        close(bells[i]);
    }
    close_many(1);
    ck_assert_uint_eq(mapped(), 0);
}
END_TEST

/* Whatever a peer writes into the words of the slots: this end gives none away twice, and goes on
 * in a new segment. */
START_TEST(words_of_slots_may_hold_anything)
{
    static const uint64_t values[] = {
        0, 1, 2, 3, 4, 7, 8, 1ull << 43, UINT64_MAX, UINT64_MAX - 7
    };
    struct ri_local *more[2];
    uint32_t at = LOCAL_SLOTS;

    open_many(3);
    for (uint32_t i = 0; i < LOCAL_SLOTS; i++)
        ck_assert_int_eq(pwrite(fds[0], &values[_i], 8, LOCAL_WORDS + 8 * (off_t)i), 8);
    close(local_segment(&bed, more));
    for (uint32_t i = 0; i < 3; i++)
        at = more[0]->segment == both[i][0]->segment && more[0]->slot == both[i][0]->slot ? i : at;
    ck_assert_uint_eq(at, LOCAL_SLOTS);
    drop(more[0]);
    drop(more[1]);
    close_many(3);
    ck_assert_uint_eq(mapped(), 0);
}
END_TEST

/* A place that is none. */
START_TEST(a_descriptor_at_any_position_is_refused)
{
    static const off_t positions[] = { 1,     LOCAL_SLOTS - 1, LOCAL_SLOTS,
                                       12345, (off_t)1 << 46,  (off_t)(UINT64_MAX / 4) };
    struct ri_local *first, *taken;
    int bells[2], offer;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells), 0);
    OK(make(bells[0], &first, &offer));
    for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++)
        if (lseek(offer, positions[i], SEEK_SET) == positions[i])
            ck_assert_int_eq(take(bells[1], offer, &taken), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(mapped(), 1);
    drop(first);
    close(offer);
    close(bells[0]);
    close(bells[1]);
}
END_TEST

/* The kernel names the process that has made the pair of sockets. Returns this process's end. */
static int socket_of_child(pid_t *child)
{
    int way[2], fd = -1;
    char octet = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { &octet, 1 };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way), 0);
    tc_await_quiet_for_fork();
    *child = fork();
    ck_assert_int_ge(*child, 0);
    if (!*child) {
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        int pair[2];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
            _exit(1);
        *part = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                  .cmsg_level = SOL_SOCKET,
                                  .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(part), &pair[0], sizeof(int));
        if (sendmsg(way[1], &message, 0) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(recvmsg(way[0], &message, MSG_CMSG_CLOEXEC), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    close(way[0]);
    close(way[1]);
    return fd;
}

/* Nor with a process that has ended, though its segment is there still. */
START_TEST(no_segment_is_shared_with_another_process)
{
    struct ri_local *of_child[2], *own, *other;
    int bells[2], offer, first, second;
    pid_t children[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells), 0);
    first = socket_of_child(&children[0]);
    second = socket_of_child(&children[1]);
    OK(make(first, &of_child[0], &offer));
    close(offer);
    OK(make(first, &of_child[1], &offer));
    close(offer);
    ck_assert_ptr_eq(of_child[0]->segment, of_child[1]->segment);
    OK(make(second, &other, &offer));
    close(offer);
    OK(make(bells[0], &own, &offer));
    close(offer);
    ck_assert(other->segment != of_child[0]->segment && own->segment != of_child[0]->segment &&
              own->segment != other->segment);
    drop(other);
    kill(children[0], SIGKILL);
    ck_assert_int_eq(waitpid(children[0], NULL, 0), children[0]);
    OK(make(first, &other, &offer)); /* of one connection */
    close(offer);
    ck_assert_ptr_ne(other->segment, of_child[0]->segment);
    drop(other);
    kill(children[1], SIGKILL);
    ck_assert_int_eq(waitpid(children[1], NULL, 0), children[1]);
    drop(own);
    drop(of_child[0]);
    drop(of_child[1]);
    ck_assert_uint_eq(mapped(), 0);
    close(first);
    close(second);
    close(bells[0]);
    close(bells[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_segment");
    TCase *tc = tc_case(suite, "segment", setup, teardown);

    tc_add_tests(tc, connections_share_a_segment);
    tcase_add_loop_test(tc, a_slot_is_given_away_when_both_have_left, 0, 2);
    tc_add_tests(tc, an_offer_that_was_withdrawn_is_not_taken);
    tcase_add_loop_test(tc, words_of_slots_may_hold_anything, 0, 10);
    tc_add_tests(tc, a_descriptor_at_any_position_is_refused,
                 no_segment_is_shared_with_another_process);
    return tc_main(suite);
}
