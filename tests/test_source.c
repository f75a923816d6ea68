/* The window onto a file: raw, gzip and zstd give the same bytes, damage is one sentence. */
#include "source.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "test.h"

typedef struct bytes {
    unsigned char *at;
    size_t n;
} bytes;

/* Numbers in text, so that they compress but do not repeat. */
static bytes sample(mr_ctx *ctx, size_t n)
{
    bytes out = {MR_NEW_N(ctx, unsigned char, n + 32), 0};
    for (unsigned i = 0; out.n < n; i++)
        out.n += (size_t)sprintf((char *)out.at + out.n, "%u,", i * 2654435761u);
    out.n = n;
    return out;
}

static bytes joined(mr_ctx *ctx, bytes a, bytes b)
{
    bytes out = {MR_NEW_N(ctx, unsigned char, a.n + b.n + 1), a.n + b.n};
    memcpy(out.at, a.at, a.n);
    memcpy(out.at + a.n, b.at, b.n);
    return out;
}

static bytes gzipped(mr_ctx *ctx, bytes in)
{
    z_stream z = {0};
    bytes out = {MR_NEW_N(ctx, unsigned char, in.n + 1024), in.n + 1024};
    deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
    z.next_in = in.at;
    z.avail_in = (uInt)in.n;
    z.next_out = out.at;
    z.avail_out = (uInt)out.n;
    CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.n -= z.avail_out;
    deflateEnd(&z);
    return out;
}

static bytes zstded(mr_ctx *ctx, bytes in)
{
    bytes out = {MR_NEW_N(ctx, unsigned char, ZSTD_compressBound(in.n)), 0};
    out.n = ZSTD_compress(out.at, ZSTD_compressBound(in.n), in.at, in.n, 3);
    return out;
}

/* Reads to the end in steps of odd sizes and compares; returns the status at the end. */
static mr_status drain(mr_source *source, bytes want)
{
    size_t done = 0, have, step = 1;
    for (;; step = step * 7 % 100003 + 1) {
        const unsigned char *at = mr_source_peek(source, step, &have);
        if (have < step) step = have;
        if (!step) break;
        if (done + step > want.n || memcmp(at, want.at + done, step)) {
            TEST_FAIL("other bytes at %zu", done);
            break;
        }
        mr_source_take(source, step);
        done += step;
        if (mr_source_offset(source) != done) TEST_FAIL("offset is not %zu", done);
    }
    const mr_status status = mr_source_status(source);
    if (!status) CHECK_EQ(done, want.n);
    if (!status) CHECK(mr_source_part(source) == 1.0);
    return status;
}

static mr_status drain_memory(mr_ctx *ctx, bytes packed, bytes want)
{
    mr_source *source;
    MR_TRY(mr_source_memory(ctx, "memory", packed.at, packed.n, &source));
    const mr_status status = drain(source, want);
    mr_source_close(source);
    return status;
}

/* The same through a file, whose path it returns for further use. */
static const char *written(mr_ctx *ctx, const char *name, bytes data)
{
    const char *path = mr_printf(ctx, "test_source_%ld_%s", (long)getpid(), name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data.at, 1, data.n, file) == data.n);
    if (file) fclose(file);
    return path;
}

static mr_status drain_file(mr_ctx *ctx, const char *name, bytes packed, bytes want)
{
    const char *path = written(ctx, name, packed);
    mr_source *source;
    mr_status status = mr_source_open(ctx, path, &source);
    if (!status) {
        CHECK_STR(mr_source_name(source), path);
        status = drain(source, want);
        mr_source_close(source);
    }
    remove(path);
    return status;
}

TEST(raw_gzip_and_zstd_give_the_same_bytes)
{
    mr_ctx ctx = {0};
    const bytes text = sample(&ctx, 5000000);
    const bytes packed[] = {text, gzipped(&ctx, text), zstded(&ctx, text)};
    for (size_t i = 0; i < MR_COUNT(packed); i++) {
        CHECK_EQ(drain_memory(&ctx, packed[i], text), MR_OK);
        CHECK_EQ(drain_file(&ctx, "same", packed[i], text), MR_OK);
    }
    mr_ctx_clear(&ctx);
}

TEST(members_of_a_file_are_read_one_after_another)
{
    mr_ctx ctx = {0};
    const bytes a = sample(&ctx, 700001), b = sample(&ctx, 3), all = joined(&ctx, a, b);
    const bytes nothing = {a.at, 0};
    const bytes gzip = joined(&ctx, joined(&ctx, gzipped(&ctx, a), gzipped(&ctx, nothing)),
                              gzipped(&ctx, b));
    CHECK_EQ(drain_file(&ctx, "gzip", gzip, all), MR_OK);
    const bytes zstd = joined(&ctx, zstded(&ctx, a), zstded(&ctx, b));
    CHECK_EQ(drain_file(&ctx, "zstd", zstd, all), MR_OK);
    mr_ctx_clear(&ctx);
}

TEST(a_peek_takes_nothing_and_sees_as_much_as_was_asked)
{
    mr_ctx ctx = {0};
    const bytes text = sample(&ctx, 3 * MR_SOURCE_WINDOW);
    const bytes packed = gzipped(&ctx, text);
    mr_source *source;
    size_t have;
    CHECK_EQ(mr_source_memory(&ctx, "m", packed.at, packed.n, &source), MR_OK);
    for (size_t at = 0; at < 2 * MR_SOURCE_WINDOW; at += 99991) {
        const unsigned char *seen = mr_source_peek(source, MR_SOURCE_WINDOW, &have);
        CHECK(have >= MR_SOURCE_WINDOW);
        CHECK(!memcmp(seen, text.at + at, MR_SOURCE_WINDOW));
        CHECK(mr_source_peek(source, 1, &have) == seen);
        mr_source_take(source, 99991);
    }
    mr_source_close(source);
    mr_ctx_clear(&ctx);
}

TEST(a_cut_is_noticed_at_every_byte)
{
    mr_ctx ctx = {0};
    const bytes text = sample(&ctx, 400);
    const bytes gzip = gzipped(&ctx, text), zstd = zstded(&ctx, text);
    for (size_t n = 3; n < gzip.n; n++) {
        CHECK_EQ(drain_memory(&ctx, (bytes){gzip.at, n}, text), MR_EINPUT);
        CHECK_STR(ctx.failure.text, "the gzip data ends too early: the file is cut off");
        CHECK_STR(ctx.failure.where, mr_printf(&ctx, "memory: byte %zu", n));
    }
    for (size_t n = 4; n < zstd.n; n++) {
        CHECK_EQ(drain_memory(&ctx, (bytes){zstd.at, n}, text), MR_EINPUT);
        CHECK_STR(ctx.failure.text, "the zstd data ends too early: the file is cut off");
    }
    mr_ctx_clear(&ctx);
}

TEST(damage_is_noticed)
{
    mr_ctx ctx = {0};
    const bytes text = sample(&ctx, 4000);
    bytes packed = gzipped(&ctx, text);
    packed.at[packed.n - 6] ^= 1; /* the checksum */
    CHECK_EQ(drain_memory(&ctx, packed, text), MR_EINPUT);
    CHECK_STR(ctx.failure.text, "the gzip data is damaged");
    const bytes tail = {(unsigned char[]){"\x1f\x8b\x09"}, 3}; /* a third byte of gzip is 8 */
    for (size_t n = 1; n <= tail.n; n++) {
        packed = joined(&ctx, gzipped(&ctx, text), (bytes){tail.at, n});
        unsigned char *exact = malloc(packed.n); /* so that a sanitizer sees its end */
        if (!exact) abort();
        memcpy(exact, packed.at, packed.n);
        packed.at = exact;
        CHECK_EQ(drain_memory(&ctx, packed, text), MR_EINPUT);
        CHECK_HAS(ctx.failure.text, "not gzip");
        free(exact);
    }
    packed = zstded(&ctx, text);
    packed.at[4] ^= 0xff;
    CHECK_EQ(drain_memory(&ctx, packed, text), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "the zstd data is damaged");
    mr_ctx_clear(&ctx);
}

TEST(a_bomb_is_refused)
{
    mr_ctx ctx = {0};
    const bytes zeros = {MR_NEW_N(&ctx, unsigned char, 200 * MR_MIB), 200 * MR_MIB};
    const bytes packed = zstded(&ctx, zeros);
    CHECK_EQ(drain_memory(&ctx, packed, zeros), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "more than 1200 bytes come out of each");
    mr_ctx_clear(&ctx);
}

TEST(what_cannot_be_opened_says_why)
{
    mr_ctx ctx = {0};
    mr_source *source;
    CHECK_EQ(mr_source_open(&ctx, "no/such/file.csv", &source), MR_EIO);
    CHECK_STR(ctx.failure.where, "no/such/file.csv");
    CHECK_STR(ctx.failure.text, "cannot be opened: No such file or directory");
    CHECK_EQ(mr_source_open(&ctx, TRACES, &source), MR_EIO);
    CHECK_HAS(ctx.failure.text, "is a folder");
    const bytes nothing = {(unsigned char[]){""}, 0};
    CHECK_EQ(drain_file(&ctx, "empty", nothing, nothing), MR_EIO);
    CHECK_HAS(ctx.failure.text, "the file is empty");
    CHECK_EQ(drain_memory(&ctx, gzipped(&ctx, nothing), nothing), MR_EIO);
    CHECK_HAS(ctx.failure.text, "the file is empty");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
