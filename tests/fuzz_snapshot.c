/* The reader of memory snapshots, whatever the bytes. */
#include "fuzz_reader.h"

extern const mr_format mr_format_snapshot;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    return fuzz_reader(&mr_format_snapshot, data, n);
}
