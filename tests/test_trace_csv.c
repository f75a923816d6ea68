/* Our format: what is written of recordings is read again, field by field. */
#include "format.h"
#include "round_trip.h"

#include <dirent.h>

static void round_trips_of(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) SKIP("no recordings");
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        mr_ctx ctx = {0};
        mr_trace trace;
        const mr_read_options options = {.ends_inclusive =
                                             strstr(entry->d_name, "iree") != NULL};
        const char *path = mr_printf(&ctx, "%s/%s", folder, entry->d_name);
        const bool good =
            !strstr(entry->d_name, "simrd-") && !strstr(entry->d_name, "not-recorded");
        const mr_status status = mr_recording_read(&ctx, path, &options, &trace);
        if (status && good) TEST_FAIL("%s: %s", ctx.failure.where, ctx.failure.text);
        if (!status) round_trip(&ctx, entry->d_name, &trace);
        mr_ctx_clear(&ctx);
    }
    closedir(dir);
}

TEST(traces_written_by_hand_survive_a_round_trip)
{
    round_trips_of(TRACES "/tiny");
}

TEST(simrd_logs_survive_a_round_trip)
{
    round_trips_of(SHARED "/recordings/dtr-logs");
}

TEST(lifetimes_survive_a_round_trip)
{
    round_trips_of(SHARED "/recordings/lifetimes");
}

TEST(snapshots_survive_a_round_trip)
{
    round_trips_of(SHARED "/recordings/pytorch-snapshots");
}

TEST(compressed_files_hold_the_same)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    CHECK_EQ(mr_recording_read(&ctx, TRACES "/tiny/mlp.csv", NULL, &trace), MR_OK);
    const char *plain = written(&ctx, &trace, "");
    CHECK_STR(written(&ctx, &trace, ".gz"), plain);
    CHECK_STR(written(&ctx, &trace, ".zst"), plain);
    mr_ctx_clear(&ctx);
}

/* ---- random traces ----------------------------------------------------------------------- */

TEST_MAIN()
