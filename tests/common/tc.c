/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for test programs: runner, deadlines, waiting, random numbers, temporary folders. What a
 * process holds: tc_process.c. */
#include "tc.h"
#include "tc_crash.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A wait of so many ms or more is a guard: nothing that passes needs it. */
#define GUARD_MS 5000u
/* A machine may be that much slower than a quiet one. */
#define PATIENCE 6.0
/* Of the guards of a test that is known to wait in vain. */
#define IMPATIENCE 0.3

static double scale = 1.0;
static double patience = PATIENCE; /* of guards */
static uint64_t seed;
static char *temp_root;
static pid_t temp_owner;

/* Strings that live until the program ends; each process has its own list. */
struct kept {
    struct kept *next;
    char text[];
};
static struct kept *kept;

static const char *keep(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *keep(const char *format, ...)
{
    struct kept *k;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    k = malloc(sizeof(*k) + (size_t)len + 1);
    if (!k)
        abort();
    va_start(args, format);
    vsnprintf(k->text, (size_t)len + 1, format, args);
    va_end(args);
    k->next = kept;
    kept = k;
    return k->text;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_temp_root(void)
{
    if (temp_root && temp_owner == getpid()) {
        nftw(temp_root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(temp_root);
        temp_root = NULL;
    }
}

/*
 * Runs before main, because Check reads its time-out variables when a test case is created. With
 * these defaults a program that is run by hand behaves as under `make check`.
 */
static void __attribute__((constructor)) tc_init(void)
{
    const char *text = getenv("TEST_TIMEOUT_SCALE");
    char number[32];

    if (text && strtod(text, NULL) >= 1.0)
        scale = strtod(text, NULL);
    snprintf(number, sizeof(number), "%.1f", scale * PATIENCE);
    setenv("CK_TIMEOUT_MULTIPLIER", number, 0);
    text = getenv("TC_PATIENCE");
    if (text && strtod(text, NULL) >= 1.0)
        patience = strtod(text, NULL);
    setenv("CK_DEFAULT_TIMEOUT", "20", 0);
    setenv("ITAL_PROVIDER_PATH", TC_BUILDDIR "/providers/software/.libs", 0);
    setenv("ITAL_CONF", TC_SRCDIR "/tests/common/empty.conf", 0);

    setenv("ITAL_MONITOR", "no", 0);

    text = getenv("ITAL_TEST_SEED");
    if (text && *text)
        seed = strtoull(text, NULL, 0);
    else if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = tc_now_ns();
}

#ifdef ITAL_SANITIZERS
/*
 * A test's process ends while Check still has the suites, by pointers that the leak checker does
 * not always find. Check's allocations are not reported as leaks; all others are.
 */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"), used)) const char *__lsan_default_suppressions(void)
{
    return "leak:emalloc\nleak:erealloc\n";
}
#endif

/* ---- tests that wait in vain ---- */

/* Check tells a test its round, but not its name: each of them gets a function of its own. */
#define IMPATIENT_TESTS 16
static const TTest *impatient[IMPATIENT_TESTS];

static bool matches(const char *expression, const char *name, int round)
{
    regex_t compiled;
    regmatch_t found;
    char full[256];
    bool whole;

    snprintf(full, sizeof(full), round ? "%s[%d]" : "%s", name, round);
    if (regcomp(&compiled, expression, REG_EXTENDED)) {
        fprintf(stderr, "TC_IMPATIENT is no regular expression: %s\n", expression);
        abort();
    }
    whole = !regexec(&compiled, full, 1, &found, 0) && !found.rm_so && !full[found.rm_eo];
    regfree(&compiled);
    return whole;
}

static void run_impatient(size_t place, int round)
{
    const TTest *test = impatient[place];
    double before = patience;

    if (matches(getenv("TC_IMPATIENT"), test->name, round))
        patience = IMPATIENCE;
    test->fn(round);
    patience = before;
}

#define RUN(place)                     \
    static void run_##place(int round) \
    {                                  \
        run_impatient(place, round);   \
    }
/* clang-format off */
RUN(0) RUN(1) RUN(2) RUN(3) RUN(4) RUN(5) RUN(6) RUN(7)
RUN(8) RUN(9) RUN(10) RUN(11) RUN(12) RUN(13) RUN(14) RUN(15)
static void (*const run_place[IMPATIENT_TESTS])(int round) = {
    run_0, run_1, run_2, run_3, run_4, run_5, run_6, run_7,
    run_8, run_9, run_10, run_11, run_12, run_13, run_14, run_15,
};
/* clang-format on */

/* What to run in the test's place; NULL: the test itself. */
static void (*impatient_run(const TTest *test))(int round)
{
    static size_t used;
    const char *expression = getenv("TC_IMPATIENT");
    bool any = false;

    for (int round = 0; expression && !any && round < 64; round++)
        any = matches(expression, test->name, round);
    if (!any)
        return NULL;
    if (used == IMPATIENT_TESTS) {
        fprintf(stderr, "TC_IMPATIENT names more than %d tests\n", IMPATIENT_TESTS);
        abort();
    }
    impatient[used] = test;
    return run_place[used++];
}

/* ---- which tests run ---- */

static void skip_kept_out(int i)
{
    (void)i;
    tc_skip("kept out by TC_KEEP_OUT");
}

static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (strcspn(list, ",") == length && !strncmp(list, name, length))
            return true;
    }
    return false;
}

const TTest *tc_admit(const TTest *test)
{
    static TTest places[64]; /* Check keeps the pointer */
    static size_t used;
    TTest *place = &places[used];
    bool out = is_listed(getenv("TC_KEEP_OUT"), test->name);
    void (*run)(int) = out ? skip_kept_out : impatient_run(test);

    if (!run)
        return test;
    if (used++ == sizeof(places) / sizeof(places[0])) {
        fprintf(stderr, "TC_KEEP_OUT and TC_IMPATIENT name more than %zu tests\n", used - 1);
        abort();
    }
    *place = *test;
    place->fn = run;
    return place;
}

/* ---- time-outs of cases ---- */

/* The parentheses: Check's own functions. */
struct limit {
    struct limit *next;
    TCase *tc;
    const char *name;
    double seconds; /* as it was given, unscaled */
};
static struct limit *limits;

static double number_in(const char *variable)
{
    const char *text = getenv(variable);

    return text ? strtod(text, NULL) : 0;
}

TCase *tc_case_create(const char *name)
{
    struct limit *limit = malloc(sizeof(*limit));

    if (!limit)
        abort();
    *limit = (struct limit){
        .next = limits,
        .tc = (tcase_create)(name),
        .name = name,
        .seconds = number_in("CK_DEFAULT_TIMEOUT"),
    };
    limits = limit;
    return limit->tc;
}

void tc_case_timeout(TCase *tc, double seconds)
{
    (tcase_set_timeout)(tc, seconds);
    for (struct limit *limit = limits; limit; limit = limit->next)
        if (limit->tc == tc)
            limit->seconds = seconds;
}

/* The least one of the cases with that name; 0: there is none. */
static double limit_of(const char *name)
{
    double least = 0;

    for (const struct limit *limit = limits; limit; limit = limit->next)
        if (!strcmp(limit->name, name) && (least <= 0 || limit->seconds < least))
            least = limit->seconds;
    return least * number_in("CK_TIMEOUT_MULTIPLIER");
}

/* A test that passed and took more than a tenth of what it may is told. */
static void print_limit(FILE *out, const char *test_case, const char *duration, const char *full)
{
    double limit = limit_of(test_case), took = strtod(duration, NULL);

    if (took * 10 > limit && limit > 0)
        fprintf(out, "# time-out: %.1f s of %.0f s: %s\n", took, limit, full);
}

TCase *tc_case(Suite *suite, const char *name, SFun setup, SFun teardown)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    suite_add_tcase(suite, tc);
    return tc;
}

void tc_add_list(TCase *tc, int begin, int end, const TTest *const *tests)
{
    for (; *tests; tests++)
        tcase_add_loop_test(tc, *tests, begin, end);
}

/* ---- results: Check's XML log (it alone has names, iterations and durations) to TAP ---- */

struct result {
    char verdict[16];
    char name[256];
    char where[256];
    char iteration[16];
    char duration[32];
    char test_case[256];
    char message[4096];
};

/* Copies the text of the first <tag> in [from, end), its entities resolved. */
static void element(const char *from, const char *end, const char *tag, char *to, size_t size)
{
    static const struct {
        const char *entity;
        char c;
    } entities[] = { { "&lt;", '<' },  { "&gt;", '>' },   { "&quot;", '"' }, { "&apos;", '\'' },
                     { "&amp;", '&' }, { "&#xA;", '\n' }, { "&#x9;", '\t' }, { "&#xD;", ' ' } };
    char open[32], close[32];
    const char *p, *stop;
    size_t n = 0;

    snprintf(open, sizeof(open), "<%s>", tag);
    snprintf(close, sizeof(close), "</%s>", tag);
    p = strstr(from, open);
    stop = p ? strstr(p, close) : NULL;
    if (!p || !stop || stop > end) {
        to[0] = '\0';
        return;
    }
    for (p += strlen(open); p < stop && n + 1 < size; n++) {
        size_t step = 1;

        to[n] = *p;
        for (size_t i = 0; *p == '&' && i < sizeof(entities) / sizeof(entities[0]); i++) {
            if (!strncmp(p, entities[i].entity, strlen(entities[i].entity))) {
                to[n] = entities[i].c;
                step = strlen(entities[i].entity);
                break;
            }
        }
        p += step;
    }
    to[n] = '\0';
}

static void print_comment(FILE *out, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");

        fprintf(out, "#   %.*s\n", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

/* Prints one result; returns true unless the test failed. crashes: NULL if there was none. */
static bool print_result(FILE *out, unsigned number, const char *suite, const struct result *r,
                         FILE *crashes)
{
    const char *skip = strstr(r->message, "TC-SKIP: "), *signalled;
    char full[800];

    if (!strcmp(r->iteration, "0"))
        snprintf(full, sizeof(full), "%s: %s: %s", suite, r->test_case, r->name);
    else
        snprintf(full, sizeof(full), "%s: %s: %s[%s]", suite, r->test_case, r->name, r->iteration);
    if (strtod(r->duration, NULL) > 0)
        fprintf(out, "# time %s %s\n", r->duration, full);
    if (!strcmp(r->verdict, "success")) {
        print_limit(out, r->test_case, r->duration, full);
        fprintf(out, "ok %u - %s\n", number, full);
        return true;
    }
    if (!strcmp(r->verdict, "failure") && skip) {
        skip += strlen("TC-SKIP: ");
        fprintf(out, "ok %u - %s # SKIP %.*s\n", number, full, (int)strcspn(skip, "\n"), skip);
        return true;
    }
    fprintf(out, "not ok %u - %s\n#   %s at %s\n", number, full, r->verdict, r->where);
    print_comment(out, r->message);
    if (crashes && (signalled = strstr(r->message, "Received signal ")))
        tc_crash_print(crashes, atoi(signalled + strlen("Received signal ")), out);
    return false;
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t len = 0, n;

    if (!f)
        return NULL;
    do {
        char *more = realloc(text, len + 65536 + 1);

        if (!more)
            abort();
        text = more;
        n = fread(text + len, 1, 65536, f);
        len += n;
    } while (n);
    text[len] = '\0';
    fclose(f);
    return text;
}

static int report(FILE *out, const char *xml, FILE *crashes)
{
    static struct result r;
    char suite[256] = "";
    unsigned number = 0, failed = 0;
    const char *p = xml;

    while ((p = strchr(p, '<'))) {
        const char *end;

        if (!strncmp(p, "<title>", 7))
            element(p, p + strlen(p), "title", suite, sizeof(suite));
        end = strncmp(p, "<test result=\"", 14) ? NULL : strstr(p, "</test>");
        if (!end) {
            p++;
            continue;
        }
        snprintf(r.verdict, sizeof(r.verdict), "%.*s", (int)strcspn(p + 14, "\""), p + 14);
        element(p, end, "id", r.name, sizeof(r.name));
        element(p, end, "fn", r.where, sizeof(r.where));
        element(p, end, "iteration", r.iteration, sizeof(r.iteration));
        element(p, end, "duration", r.duration, sizeof(r.duration));
        element(p, end, "description", r.test_case, sizeof(r.test_case));
        element(p, end, "message", r.message, sizeof(r.message));
        if (!print_result(out, ++number, suite, &r, crashes))
            failed++;
        p = end;
    }
    if (number == 0) {
        fprintf(out, "1..1\nnot ok 1 - no test ran\n");
        return 1;
    }
    fprintf(out, "1..%u\n", number);
    return failed ? 1 : 0;
}

int tc_run(Suite **suites)
{
    SRunner *runner = srunner_create(NULL);
    char *xml_path, *xml;
    int status, out_fd;
    FILE *out, *crashes;

    /* The tests' own output must not appear between the TAP lines. */
    fflush(stdout);
    out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || !(out = fdopen(out_fd, "w"))) {
        perror("tc_run: standard output");
        return 99;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    temp_owner = getpid();
    if (asprintf(&temp_root, "%s/ital-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp") <
            0 ||
        !mkdtemp(temp_root) || asprintf(&xml_path, "%s/result.xml", temp_root) < 0) {
        perror("tc_run: temporary folder");
        return 99;
    }
    atexit(remove_temp_root);
    tc_crash_begin(temp_root);

    fprintf(out, "# seed: ITAL_TEST_SEED=0x%" PRIx64 " repeats this run\n", seed);
    fflush(out);
    for (Suite **s = suites; *s; s++)
        srunner_add_suite(runner, *s);
    srunner_set_xml(runner, xml_path);
    srunner_run_all(runner, CK_SILENT);
    srunner_free(runner);

    xml = read_all(xml_path);
    crashes = tc_crash_records();
    status = report(out, xml ? xml : "", crashes);
    if (crashes)
        fclose(crashes);
    fclose(out);
    free(xml);
    free(xml_path);
    remove_temp_root();
    return status;
}

/* ---- time ---- */

uint64_t tc_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

unsigned tc_timeout_ms(unsigned ms)
{
    return (unsigned)(ms * scale * (ms < GUARD_MS ? 1 : patience));
}

uint64_t tc_deadline(unsigned ms)
{
    return tc_now_ns() + (uint64_t)tc_timeout_ms(ms) * 1000000u;
}

bool tc_expired(uint64_t deadline)
{
    return tc_now_ns() >= deadline;
}

int tc_remaining_ms(uint64_t deadline)
{
    uint64_t now = tc_now_ns();

    return now >= deadline ? 0 : (int)((deadline - now + 999999u) / 1000000u);
}

struct timespec tc_timespec(uint64_t deadline)
{
    return (struct timespec){ .tv_sec = (time_t)(deadline / 1000000000u),
                              .tv_nsec = (long)(deadline % 1000000000u) };
}

int tc_wait_fd(int fd, short events, uint64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = events };
    int n;

    do {
        n = poll(&p, 1, tc_remaining_ms(deadline));
    } while (n < 0 && errno == EINTR);
    return n > 0 ? p.revents : n;
}

int tc_tcp_pair(int family, int fds[2])
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } addr = { .sa.sa_family = (sa_family_t)family };
    socklen_t len = family == AF_INET6 ? sizeof(addr.in6) : sizeof(addr.in);
    int listener, out = -1, in = -1, one = 1, saved;

    if (family == AF_INET6)
        addr.in6.sin6_addr = in6addr_loopback;
    else
        addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -1;
    if (bind(listener, &addr.sa, len) || listen(listener, 1) ||
        getsockname(listener, &addr.sa, &len))
        goto close_all;
    out = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (out < 0 || connect(out, &addr.sa, len))
        goto close_all;
    in = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (in < 0)
        goto close_all;
    setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    close(listener);
    fds[0] = out;
    fds[1] = in;
    return 0;

close_all:
    saved = errno;
    if (out >= 0)
        close(out);
    close(listener);
    errno = saved;
    return -1;
}

/* ---- random numbers (splitmix64) ---- */

uint64_t tc_seed(void)
{
    return seed;
}

struct tc_rng tc_rng(uint64_t salt)
{
    struct tc_rng rng = { .state = seed ^ (salt * 0x9e3779b97f4a7c15u) };

    tc_rand(&rng);
    return rng;
}

uint64_t tc_rand(struct tc_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t tc_below(struct tc_rng *rng, uint64_t n)
{
    return tc_rand(rng) % n;
}

void tc_fill(struct tc_rng *rng, void *buf, size_t len)
{
    unsigned char *p = buf;

    while (len) {
        uint64_t word = tc_rand(rng);
        size_t n = len < sizeof(word) ? len : sizeof(word);

        memcpy(p, &word, n);
        p += n;
        len -= n;
    }
}

bool tc_long(void)
{
    return getenv("TC_LONG") != NULL;
}

unsigned long tc_count(unsigned long n)
{
    if (tc_long())
        return n * 10;
    if (getenv("TC_SHORT"))
        return n < 10 ? 1 : n / 10;
    return n;
}

/* ---- paths ---- */

const char *tc_tempdir(void)
{
    char *path = (char *)keep("%s/XXXXXX", temp_root ? temp_root : "/tmp");

    ck_assert_msg(temp_root != NULL, "tc_tempdir works inside tc_main only");
    ck_assert_msg(mkdtemp(path) != NULL, "mkdtemp %s: %s", path, strerror(errno));
    return path;
}

const char *tc_provider_path(void)
{
    return getenv("ITAL_PROVIDER_PATH");
}

const char *tc_data(const char *name)
{
    return keep("%s/tests/data/%s", TC_SRCDIR, name);
}

const char *tc_srcdir(void)
{
    return TC_SRCDIR;
}

const char *tc_builddir(void)
{
    return TC_BUILDDIR;
}
