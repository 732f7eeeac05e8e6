/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without a fuzzer, as part of the ordinary suite: over its corpus, which make
 * unpacks into the build folder, and over every octet string of the wire vectors, each whole, cut
 * off at every length, and with random octets changed. A failing input ends the program, which
 * writes the input to the standard error first.
 *
 * usage: replay_NAME [FILE...]   with files: those only
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h> /* not getrandom(): the test bed's is deterministic */
#include <unistd.h>

#include "tests/common/vectors.h"

#define INPUT_MAX  4096u
#define PREFIX_MAX 9u /* most settings octets of a target in front of the peer's octets */

/* Targets with live objects are slow: REPLAY_FRONT is the length of their settings, and they run
 * fewer variants. */
#ifdef REPLAY_FRONT
#define LIGHT 1
static const size_t fronts[] = { REPLAY_FRONT };
#else
#define LIGHT 0
static const size_t fronts[] = { 1, PREFIX_MAX };
#endif

static unsigned long runs;
static uint8_t *current; /* for the signal handler: the current input */
static size_t current_len;
static uint64_t state;

static uint64_t rnd(void)
{
    state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Only async-signal-safe calls here. */
static void on_crash(int sig)
{
    static const char digits[] = "0123456789abcdef";
    char hex[2];

    for (size_t i = 0; i < current_len; i++) {
        hex[0] = digits[current[i] >> 4];
        hex[1] = digits[current[i] & 15];
        if (write(STDERR_FILENO, hex, 2) != 2)
            break;
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Exact allocation, so that a read past the end shows under ASan. */
static void run(const uint8_t *p, size_t n)
{
    current = malloc(n ? n : 1);
    if (!current)
        abort();
    if (n)
        memcpy(current, p, n);
    current_len = n;
    (void)LLVMFuzzerTestOneInput(current, n);
    current_len = 0;
    free(current);
    runs++;
}

static void run_variants(const uint8_t *p, size_t n)
{
    uint8_t copy[INPUT_MAX];

    if (n > sizeof(copy))
        n = sizeof(copy);
    for (size_t cut = 0; !LIGHT && cut <= n; cut += 1 + cut / 64)
        run(p, cut);
    for (int i = 0; n && i < (LIGHT ? 2 : 40); i++) {
        memcpy(copy, p, n);
        for (uint64_t k = 1 + rnd() % 3; k; k--)
            copy[rnd() % n] = (uint8_t)rnd();
        run(copy, n);
    }
}

/* The targets have settings of different lengths: each vector runs with several prefixes. */
static void run_vector(const struct vec_bytes *b)
{
    uint8_t with[PREFIX_MAX + INPUT_MAX];
    size_t n = b->len < INPUT_MAX ? b->len : INPUT_MAX;

    if (!b->len)
        return;
    for (size_t i = 0; i < sizeof(fronts) / sizeof(fronts[0]); i++) {
        for (int round = 0; round < (LIGHT ? 1 : 4); round++) {
            for (size_t k = 0; k < fronts[i]; k++)
                with[k] = (uint8_t)(k == 0 ? round | (rnd() & ~3u) : rnd());
            memcpy(with + fronts[i], b->p, n);
            run(with, fronts[i] + n);
        }
        run_variants(with, fronts[i] + n);
    }
}

static void run_vectors(const struct vectors *v)
{
    for (size_t i = 0; i < v->n_frames; i++) {
        run_vector(&v->frames[i].bytes);
        run_vector(&v->frames[i].ulpdu);
        if (v->frames[i].kind == VEC_FPDU && v->frames[i].ulpdu.len > 18)
            run_vector(
                &(struct vec_bytes){ v->frames[i].ulpdu.p + 18, v->frames[i].ulpdu.len - 18 });
    }
    for (size_t i = 0; i < v->n_negatives; i++) {
        for (size_t k = 0; k < v->negatives[i].n; k++) {
            run_vector(&v->negatives[i].fpdus[k]);
            run_vector(&v->negatives[i].ulpdus[k]);
        }
    }
    for (size_t i = 0; i < v->n_startups; i++)
        run_vector(&v->startups[i].bytes);
}

static bool run_file(const char *path)
{
    static uint8_t buf[1 << 16];
    FILE *f = fopen(path, "re");
    size_t n;

    if (!f)
        return false;
    n = fread(buf, 1, sizeof(buf), f);
    fclose(f);
    run(buf, n);
    run_variants(buf, n);
    return true;
}

static unsigned run_corpus(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    unsigned n = 0;
    char path[4096 + 258];

    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            n += run_file(path);
    }
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    const char *top = getenv("TC_TOP_SRCDIR"), *build = getenv("TC_TOP_BUILDDIR");
    const char *given = getenv("ITAL_TEST_SEED"), *why = "";
    const struct vectors *v;
    char path[4096];
    unsigned files;

    if (given)
        state = strtoull(given, NULL, 0);
    else if (getentropy(&state, sizeof(state)))
        return 2;
    printf("# seed: ITAL_TEST_SEED=0x%" PRIx64 " repeats this run\n", state);
    fflush(stdout);
    signal(SIGABRT, on_crash);
    for (int i = 1; i < argc; i++) {
        if (!run_file(argv[i]))
            return fprintf(stderr, "%s cannot be read\n", argv[i]), 2;
    }
    if (argc > 1)
        return 0;

    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s", build ? build : TC_BUILDDIR, TARGET);
    files = run_corpus(path);
    printf("%sok 1 - %s: corpus of %u files\n", files ? "" : "not ", TARGET, files);
    snprintf(path, sizeof(path), "%s/tests/data/vectors.json", top ? top : TC_SRCDIR);
    v = vectors_load(path, &why);
    if (v)
        run_vectors(v);
    printf("ok 2 - %s: vectors, %lu runs%s%s\n1..2\n", TARGET, runs, v ? "" : " # SKIP ", why);
    return files ? 0 : 1;
}
