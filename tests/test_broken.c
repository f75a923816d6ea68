/* Broken recordings: each gives one sentence on standard error and exit code 1, nothing else.
 *
 * broken/expected.txt lists the files and what the sentence about each must contain.  Files
 * that are large once unpacked are made here.  All must be over within SECONDS and 1 GiB of
 * memory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "test.h"

#define SECONDS 60        /* of processor time */
#define KIB_MAX (1 << 20) /* of resident memory: 1 GiB */
#define TEXT 4096         /* longer than any sentence */
#define PARTS 16          /* of a line of expected.txt */

static char scratch[256]; /* folder for output, always empty in between */
static char said_out[300], said_err[300], written[300]; /* files in it */

typedef struct outcome {
    int exit; /* -1 when it was killed, by a crash or for taking too long */
    char out[TEXT], err[TEXT];
} outcome;

static void make_scratch(void)
{
    const char *where = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/broken-XXXXXX", where ? where : ".");
    if (!mkdtemp(scratch)) TEST_FAIL("no folder %s: %s", scratch, strerror(errno));
    snprintf(said_out, sizeof said_out, "%s/stdout", scratch);
    snprintf(said_err, sizeof said_err, "%s/stderr", scratch);
    snprintf(written, sizeof written, "%s/written.csv", scratch);
}

/* The first bytes of a file, which is then gone. */
static void take(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(text, 1, TEXT - 1, file) : 0;
    text[n] = '\0';
    if (file) fclose(file);
    remove(path);
}

static void become(const char *const *words)
{
    const struct rlimit busy = {SECONDS, SECONDS};
    setrlimit(RLIMIT_CPU, &busy); /* these limits outlive exec */
    alarm(10 * SECONDS);          /* for what hangs without being busy */
#ifdef MEMORY_LIMITED             /* sanitizers reserve more addresses than there is memory */
    const struct rlimit twice = {2048L * KIB_MAX, 2048L * KIB_MAX};
    setrlimit(RLIMIT_AS, &twice); /* the machine survives what check_memory will report */
#endif
    const int out = open(said_out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open(said_err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out >= 0 && err >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0)
        execv(MEMREUSE, (char *const *)(uintptr_t)words);
    _exit(127);
}

static outcome run(const char *const *words)
{
    outcome got = {.exit = -1};
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) become(words);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status))
        got.exit = WEXITSTATUS(status);
    take(said_out, got.out);
    take(said_err, got.err);
    return got;
}

/* Memory of the largest child so far; says so once for each that is larger than allowed. */
static void check_memory(const char *file)
{
    static long largest;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    if (usage.ru_maxrss > largest && usage.ru_maxrss > KIB_MAX)
        TEST_FAIL("%s: took %ld MiB, expected at most %d", file, usage.ru_maxrss / 1024,
                  KIB_MAX / 1024);
    if (usage.ru_maxrss > largest) largest = usage.ru_maxrss;
}

/* ---- one sentence ------------------------------------------------------------------------ */

static bool is_sentence(const char *text)
{
    const size_t n = strlen(text);
    if (strncmp(text, "memreuse: ", 10) != 0 || text[n - 1] != '\n') return false;
    for (size_t i = 0; i + 1 < n; i++) /* nothing that moves a terminal's cursor */
        if ((unsigned char)text[i] < ' ' || text[i] == 127) return false;
    return true;
}

static void check_sentence(const char *file, const char *command, const outcome *got,
                           char *const *parts, int n)
{
    if (got->exit != 1)
        TEST_FAIL("%s: %s exits with %d, expected 1\n%s", file, command, got->exit, got->err);
    if (*got->out) TEST_FAIL("%s: %s prints results\n%s", file, command, got->out);
    if (!is_sentence(got->err))
        TEST_FAIL("%s: %s says\n%s\nexpected one line, 'memreuse: ...'", file, command,
                  got->err);
    const char *at = got->err;
    for (int i = 0; i < n; i++) {
        const char *found = strstr(at, parts[i]);
        if (!found)
            TEST_FAIL("%s: %s says\n  %s  expected '%s' in it", file, command, got->err,
                      parts[i]);
        else at = found + strlen(parts[i]);
    }
}

static void check_unbroken(const char *file, const char *command, const outcome *got)
{
    if (got->exit != 0 || *got->err)
        TEST_FAIL("%s: %s exits with %d, expected the unbroken file to be fine\n%s", file,
                  command, got->exit, got->err);
}

static void check_nothing_written(const char *file)
{
    if (remove(written) == 0) TEST_FAIL("%s: a file was written", file);
    if (rmdir(scratch) != 0) TEST_FAIL("%s: something was left in %s", file, scratch);
    mkdir(scratch, 0700);
}

/* `options` is one option and its value, or "". */
static void check_file(const char *file, const char *path, char *options, char *const *parts,
                       int n)
{
    char *value = strchr(options, ' ');
    if (value) *value++ = '\0';
    const char *option = *options ? options : NULL;
    const char *info[] = {"memreuse", "info", path, option, value, NULL};
    const char *convert[] = {"memreuse", "convert", path, "-o", written, option, value, NULL};
    const outcome read = run(info), converted = run(convert);
    if (n == 1 && strcmp(parts[0], "ok") == 0) {
        check_unbroken(file, "info", &read);
        check_unbroken(file, "convert", &converted);
        remove(written);
    } else {
        check_sentence(file, "info", &read, parts, n);
        check_sentence(file, "convert", &converted, parts, n);
    }
    check_nothing_written(file);
    check_memory(file);
}

/* ---- the files of the corpus ------------------------------------------------------------- */

/* Cuts the line at " | " in place. */
static int split(char *line, char **parts)
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *next = line; next && n < PARTS; n++) {
        parts[n] = next;
        next = strstr(next, " |");
        if (!next) continue;
        *next = '\0';
        next += next[2] == ' ' ? 3 : 2;
    }
    return n;
}

TEST(every_broken_file_gets_one_sentence)
{
    FILE *list = fopen(TESTS "/broken/expected.txt", "r");
    char line[TEXT], path[TEXT];
    int files = 0;
    if (!list) {
        TEST_FAIL("%s/broken/expected.txt: %s", TESTS, strerror(errno));
        return;
    }
    make_scratch();
    while (fgets(line, sizeof line, list)) {
        char *parts[PARTS];
        if (*line == '#') continue;
        const int n = split(line, parts);
        snprintf(path, sizeof path, "%s/broken/files/%s", TESTS, parts[0]);
        check_file(parts[0], path, parts[1], parts + 2, n - 2);
        files++;
    }
    fclose(list);
    rmdir(scratch);
    printf("%d files\n", files);
    CHECK(files >= 60);
}

/* ---- files that cannot be read ----------------------------------------------------------- */

static void check_path(const char *path, char *said)
{
    char no_options[] = "", *parts[] = {said};
    check_file(path, path, no_options, parts, 1);
}

TEST(what_is_no_file_is_said_so)
{
    make_scratch();
    check_path(TESTS "/broken", (char[]){"is a folder"});
    check_path(TESTS "/broken/no-such-file.pickle", (char[]){"No such file"});
    check_path(TESTS "/test.h/inside.csv", (char[]){"Not a directory"});
    check_path("/dev/null", (char[]){"empty"});
    rmdir(scratch);
}

TEST(a_file_without_permission_is_said_so)
{
    if (geteuid() == 0) SKIP("root may read everything");
    const char *path = "unreadable.csv";
    close(open(path, O_WRONLY | O_CREAT, 0));
    make_scratch();
    check_path(path, (char[]){"Permission denied"});
    rmdir(scratch);
    remove(path);
}

/* ---- bombs ------------------------------------------------------------------------------- */

#define REPEATED ((size_t)1 << 20)

static size_t pack_gzip(const void *data, size_t n, unsigned char *out, size_t room)
{
    z_stream z = {.next_in = (z_const Bytef *)(uintptr_t)data,
                  .avail_in = (uInt)n,
                  .next_out = out,
                  .avail_out = (uInt)room};
    const int with_gzip_header = 16 + MAX_WBITS, usual_memory = 8;
    if (deflateInit2(&z, 9, Z_DEFLATED, with_gzip_header, usual_memory, Z_DEFAULT_STRATEGY)
        != Z_OK)
        return 0;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return room - z.avail_out;
}

static size_t pack_zstd(const void *data, size_t n, unsigned char *out, size_t room)
{
    return ZSTD_compress(out, room, data, n, 3);
}

typedef size_t packer(const void *data, size_t n, unsigned char *out, size_t room);

/* `begin`, then `mib` MiB of `unit` again and again: members of a gzip file follow each other
 * as if they were one, so only one of them has to be made.  zstd knows the same. */
static bool write_bomb(int mib, packer *pack, const char *begin, size_t begins,
                       const char *unit, size_t units)
{
    static unsigned char packed[1 << 17];
    FILE *file = fopen("bomb", "wb");
    char *block = malloc(REPEATED);
    if (!file || !block) return false;
    for (size_t i = 0; i < REPEATED; i++) block[i] = unit[i % units];
    fwrite(packed, 1, pack(begin, begins, packed, sizeof packed), file);
    const size_t n = pack(block, REPEATED / units * units, packed, sizeof packed);
    for (int i = 0; i < mib; i++) fwrite(packed, 1, n, file);
    free(block);
    return fclose(file) == 0;
}

#define BOMB(mib, pack, begin, unit, ...)                                                      \
    do {                                                                                       \
        char *parts[] = {__VA_ARGS__}, no_options[] = "";                                      \
        CHECK(write_bomb(mib, pack, begin, sizeof(begin) - 1, unit, sizeof(unit) - 1));        \
        check_file("bomb of " #unit " behind " #begin, "bomb", no_options, parts,              \
                   (int)(sizeof parts / sizeof *parts));                                       \
        remove("bomb");                                                                        \
    } while (0)

#define SEGMENTS "\x80\x04}(\x8c\x08segments" /* a pickle up to the list of segments */

TEST(a_bomb_of_zeros_is_no_recording)
{
    make_scratch();
    BOMB(1000, pack_gzip, "", "\0", "expected");
    BOMB(1000, pack_zstd, "", "\0", "expected");
    BOMB(1000, pack_zstd, "memreuse,1\n", "#,nothing\n", "more than", "bytes");
    rmdir(scratch);
}

TEST(a_text_of_a_thousand_million_letters_is_refused)
{
    make_scratch();
    BOMB(1000, pack_gzip, "memreuse,1\nnote,", "a", ":2:", "1 MiB");
    BOMB(1000, pack_gzip, "memreuse,1\nnote,\"", "line\n", ":2:6:", "1 MiB");
    BOMB(1000, pack_gzip, "id,lower,upper,size\n", "9", ":2:", "1 MiB");
    BOMB(1000, pack_gzip, "{\"INSTRUCTION\":\"", "A", ":1:");
    BOMB(1000, pack_gzip, SEGMENTS "S'", "a", ": byte");
    BOMB(1000, pack_gzip, SEGMENTS "L", "9", ": byte");
    BOMB(1000, pack_gzip, SEGMENTS "X\xff\xff\xff\xff", "a", ": byte");
    rmdir(scratch);
}

/* Enough to exceed the memory allowed at the 8 bytes that a value takes. */
#define GROWS 150

TEST(a_pickle_that_grows_without_end_is_refused)
{
    make_scratch();
    BOMB(GROWS, pack_gzip, SEGMENTS, "N", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS, "(", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS, "]", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS, "](", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS, "}N", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS "N", "2", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS "]", "\x94", ": byte");
    BOMB(GROWS, pack_gzip, SEGMENTS "]", "\x85", "expected");
    rmdir(scratch);
}

TEST_MAIN()
