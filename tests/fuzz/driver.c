/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: over every file of its corpus and over mutations of each,
 * the same ones on every machine, as a TAP test a file. Inputs lie in blocks of their exact size,
 * so that a sanitizer sees any read beyond. A property that does not hold, or an input that takes
 * too long, ends the program with the input on stderr.
 *
 * fuzz_NAME [FILE...]: those files as they are, or tests/fuzz/corpus/NAME with mutations.
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include <gmv/base/alloc.h>

#define DRIVER_INPUTS_MAX 50000 /* of all files together, about */
#define DRIVER_SHARE_MIN  150   /* of each file, at least */
#define DRIVER_FILES_MAX  2000
#define DRIVER_SIZE_MAX   ((size_t)1 << 20)
#define DRIVER_GROWTH_MAX 64  /* bytes that a mutation may add */
#define DRIVER_SECONDS    120 /* for one input, however busy the machine is */
#define DRIVER_SHOWN_MAX  4096

/* What the signal handler shows. */
static const uint8_t *driver_input;
static size_t driver_input_nbytes;
static const char *driver_file = "";

typedef struct driver_random {
    uint64_t state;
} driver_random;

/* xorshift64*: a few lines, good enough, and equal everywhere. */
static uint64_t driver_next(driver_random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(2685821657736338717);
}

static size_t driver_below(driver_random *random, size_t limit)
{
    return limit == 0 ? 0 : (size_t)(driver_next(random) >> 16) % limit;
}

static void driver_write(const char *text, size_t length)
{
    ssize_t ignored = write(STDERR_FILENO, text, length);
    (void)ignored;
}

/* Async-signal-safe: the file and the input in hexadecimal. */
static void driver_show_input(void)
{
    static const char digits[] = "0123456789abcdef";
    driver_write("\n# input made from ", 19);
    driver_write(driver_file, strlen(driver_file));
    driver_write(":\n# ", 4);
    for (size_t i = 0; i < driver_input_nbytes && i < DRIVER_SHOWN_MAX; i++) {
        const char pair[2] = {digits[driver_input[i] >> 4], digits[driver_input[i] & 15]};
        driver_write(pair, sizeof pair);
    }
    driver_write("\n", 1);
}

static void driver_on_signal(int number)
{
    if (number == SIGALRM)
        driver_write("\n# an input takes too long", 26);
    driver_show_input();
    (void)signal(number == SIGALRM ? SIGABRT : number, SIG_DFL);
    (void)raise(number == SIGALRM ? SIGABRT : number);
}

/* Where a sanitizer is linked in, it tells us before it ends the program. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void driver_watch(void)
{
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(driver_show_input);
    } else {
        (void)signal(SIGSEGV, driver_on_signal);
        (void)signal(SIGBUS, driver_on_signal);
        (void)signal(SIGFPE, driver_on_signal);
    }
    (void)signal(SIGABRT, driver_on_signal);
    (void)signal(SIGALRM, driver_on_signal);
}

static void driver_run(const uint8_t *bytes, size_t nbytes)
{
    uint8_t *exact = NULL;
    if (nbytes > 0) {
        exact = (uint8_t *)malloc(nbytes);
        FUZZ_REQUIRE(exact != NULL);
        memcpy(exact, bytes, nbytes);
    }
    driver_input = exact;
    driver_input_nbytes = nbytes;
    (void)alarm(DRIVER_SECONDS);
    (void)LLVMFuzzerTestOneInput(exact, nbytes);
    driver_input_nbytes = 0;
    free(exact);
}

/* ---- mutations ---- */

static size_t driver_flip_bit(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    if (nbytes > 0)
        bytes[driver_below(random, nbytes)] ^= (uint8_t)(1u << driver_below(random, 8));
    return nbytes;
}

static size_t driver_set_byte(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '"', '[', '{', '-', '0', ' '};
    if (nbytes > 0)
        bytes[driver_below(random, nbytes)] = values[driver_below(random, sizeof values)];
    return nbytes;
}

/* A number at the edge of something, 4 or 8 bytes wide, at any place. */
static size_t driver_set_number(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    static const int64_t values[] = {-1,        -2,        0,         1,         2,
                                     63,        64,        INT32_MAX, INT32_MIN, UINT32_MAX,
                                     INT64_MAX, INT64_MIN, 1 << 30,   100000,    -64};
    int64_t value = values[driver_below(random, sizeof values / sizeof values[0])];
    size_t width = driver_below(random, 2) == 0 ? 4 : 8;
    if (nbytes < width)
        return nbytes;
    size_t at = driver_below(random, nbytes - width + 1);
    if (driver_below(random, 4) != 0)
        at &= ~(size_t)3;
    for (size_t i = 0; i < width; i++)
        bytes[at + i] = (uint8_t)((uint64_t)value >> 8 * i);
    return nbytes;
}

static size_t driver_cut(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    (void)bytes;
    return driver_below(random, nbytes + 1);
}

static size_t driver_remove(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    size_t at = driver_below(random, nbytes);
    size_t n = driver_below(random, nbytes - at + 1);
    memmove(bytes + at, bytes + at + n, nbytes - at - n);
    return nbytes - n;
}

/* Doubles a piece in its place. */
static size_t driver_repeat(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    size_t at = driver_below(random, nbytes);
    size_t n = driver_below(random, nbytes - at + 1);
    if (n > DRIVER_GROWTH_MAX)
        n = DRIVER_GROWTH_MAX;
    memmove(bytes + at + n, bytes + at, nbytes - at);
    return nbytes + n;
}

static size_t driver_swap(uint8_t *bytes, size_t nbytes, driver_random *random)
{
    if (nbytes == 0)
        return 0;
    size_t a = driver_below(random, nbytes);
    size_t b = driver_below(random, nbytes);
    uint8_t kept = bytes[a];
    bytes[a] = bytes[b];
    bytes[b] = kept;
    return nbytes;
}

typedef size_t (*driver_mutation)(uint8_t *bytes, size_t nbytes, driver_random *random);

static const driver_mutation driver_mutations[] = {
    driver_flip_bit, driver_flip_bit, driver_set_byte, driver_set_number, driver_set_number,
    driver_cut,      driver_remove,   driver_repeat,   driver_swap,
};

#define DRIVER_MUTATIONS (sizeof driver_mutations / sizeof driver_mutations[0])
#define DRIVER_STACK_MAX 3 /* mutations on top of each other */

/* ---- files ---- */

/* Truncations at up to a quarter of the share, then stacked mutations. Returns how many. */
static size_t driver_mutate(const uint8_t *bytes, size_t nbytes, size_t share, uint64_t seed)
{
    static uint8_t work[DRIVER_SIZE_MAX + DRIVER_STACK_MAX * DRIVER_GROWTH_MAX];
    driver_random random = {seed | 1};
    size_t step = nbytes / (share / 4) + 1;
    size_t n = 0;
    for (size_t length = 0; length < nbytes; length += step, n++)
        driver_run(bytes, length);
    for (; n < share; n++) {
        size_t length = nbytes;
        if (nbytes > 0)
            memcpy(work, bytes, nbytes);
        size_t stack = 1 + driver_below(&random, DRIVER_STACK_MAX);
        for (size_t i = 0; i < stack; i++)
            length =
                driver_mutations[driver_below(&random, DRIVER_MUTATIONS)](work, length, &random);
        driver_run(work, length);
    }
    return n;
}

/* False if it cannot be read or is too large. */
static bool driver_read(const char *path, uint8_t *out_bytes, size_t *out_nbytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    *out_nbytes = fread(out_bytes, 1, DRIVER_SIZE_MAX, file);
    bool good = ferror(file) == 0 && fgetc(file) == EOF;
    return fclose(file) == 0 && good;
}

static uint64_t driver_seed(const uint8_t *bytes, size_t nbytes)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* One TAP test: the file as it is, and `share` mutations of it. */
static bool driver_test_file(const char *path, const char *name, size_t number, size_t share)
{
    static uint8_t bytes[DRIVER_SIZE_MAX];
    size_t nbytes = 0;
    driver_file = name;
    if (!driver_read(path, bytes, &nbytes)) {
        printf("not ok %zu - %s cannot be read\n", number, path);
        return false;
    }
    /* What the first run leaves behind may be kept on purpose; the others must add nothing. */
    driver_run(bytes, nbytes);
    int64_t live = gmv_alloc_live();
    size_t n = share == 0 ? 0 : driver_mutate(bytes, nbytes, share, driver_seed(bytes, nbytes));
    bool leaked = gmv_alloc_live() != live;
    printf("%s %zu - %s and %zu mutations%s\n", leaked ? "not ok" : "ok", number, name, n,
           leaked ? " leave blocks behind" : "");
    (void)fflush(stdout);
    return !leaked;
}

static int driver_compare(const void *a, const void *b)
{
    const char *const *left = (const char *const *)a;
    const char *const *right = (const char *const *)b;
    return strcmp(*left, *right);
}

/* The names of the folder's files in order. Each is freed by the caller. */
static size_t driver_list(const char *folder, char *out_names[DRIVER_FILES_MAX])
{
    DIR *stream = opendir(folder);
    size_t n = 0;
    if (stream == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL && n < DRIVER_FILES_MAX;)
        if (entry->d_name[0] != '.' && (out_names[n] = strdup(entry->d_name)) != NULL)
            n++;
    (void)closedir(stream);
    qsort(out_names, n, sizeof out_names[0], driver_compare);
    return n;
}

static int driver_run_corpus(const char *target)
{
    static char *names[DRIVER_FILES_MAX];
    const char *source = getenv("GMV_SRCDIR");
    char folder[2048];
    (void)snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", source ? source : ".", target);
    size_t n = driver_list(folder, names);
    size_t share = n == 0 ? 0 : DRIVER_INPUTS_MAX / n;
    bool good = n > 0;
    if (share < DRIVER_SHARE_MIN)
        share = DRIVER_SHARE_MIN;
    if (n == 0)
        printf("not ok 1 - %s holds no inputs\n", folder);
    for (size_t i = 0; i < n; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        good &= driver_test_file(path, names[i], i + 1, share);
        free(names[i]);
    }
    printf("1..%zu\n", n == 0 ? 1 : n);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* "/build/tests/fuzz/fuzz_slice" is the target "slice"; libtool may put "lt-" in front. */
static const char *driver_target(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    const char *prefix = strstr(name, "fuzz_");
    return prefix != NULL ? prefix + strlen("fuzz_") : name;
}

int main(int argc, char **argv)
{
    driver_watch();
    gmv_alloc_watch(1);
    if (argc < 2)
        return driver_run_corpus(driver_target(argv[0]));
    bool good = true;
    for (int i = 1; i < argc; i++)
        good &= driver_test_file(argv[i], argv[i], (size_t)i, 0);
    printf("1..%d\n", argc - 1);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
