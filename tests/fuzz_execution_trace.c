/* The reader of execution traces, whatever the bytes. */
#include "fuzz_reader.h"

extern const mr_format mr_format_execution_trace;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    return fuzz_reader(&mr_format_execution_trace, data, n);
}
