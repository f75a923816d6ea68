/* images -- code for devices, in the forms that a driver loads: a file with several images, or the
 * text of one.
 *
 * Machine code runs on devices of its own generation, as old or newer, and is read by drivers of
 * the compiler's major release or newer; text runs on every newer device, and is read by drivers
 * that know its version.
 */
#include <stdio.h>
#include <string.h>

#include "fake_cuda.h"

enum { TEXT = 1, MACHINE_CODE = 2 };
enum { ABI_PLACE = 8, NEW_ABI = 8, NEW_RELEASE = 13000 };

#define FILE_OF_IMAGES 0xba55ed50u

typedef struct file {
    uint32_t magic;
    uint16_t version, header;
    uint64_t bytes; /* behind the header */
} file;

typedef struct entry {
    uint16_t kind, version;
    uint32_t header;
    uint64_t bytes; /* behind its header */
    uint32_t packed, options;
    uint16_t minor, major; /* of text */
    uint32_t arch;
} entry;

static bool text_is_known(unsigned major, unsigned minor)
{
    const unsigned release = (unsigned)fake_cuda_settings()->version;
    const unsigned newest = release / 1000 - 4;
    return major < newest || (major == newest && minor <= release % 1000 / 10);
}

static mr_cuda_result reads_text(const char *text)
{
    unsigned major, minor, arch;
    const char *version = strstr(text, "\n.version "), *target = strstr(text, "\n.target sm_");
    if (!version || !target || sscanf(version, "\n.version %u.%u", &major, &minor) != 2
        || sscanf(target, "\n.target sm_%u", &arch) != 1)
        return MR_CUDA_BAD_IMAGE;
    if (!text_is_known(major, minor)) return MR_CUDA_PTX_TOO_NEW;
    return arch <= fake_cuda_settings()->arch ? 0 : MR_CUDA_NO_IMAGE;
}

static mr_cuda_result reads_entry(const entry *e, const unsigned char *payload)
{
    const uint64_t arch = fake_cuda_settings()->arch;
    if (e->kind == TEXT) {
        if (e->arch > arch) return MR_CUDA_NO_IMAGE;
        return text_is_known(e->major, e->minor) ? 0 : MR_CUDA_PTX_TOO_NEW;
    }
    if (e->kind != MACHINE_CODE || e->arch / 10 != arch / 10 || e->arch > arch)
        return MR_CUDA_NO_IMAGE;
    const bool new = payload[ABI_PLACE] >= NEW_ABI;
    return new && fake_cuda_settings()->version < NEW_RELEASE ? MR_CUDA_BAD_IMAGE : 0;
}

static mr_cuda_result reads_file(const unsigned char *image)
{
    mr_cuda_result result = MR_CUDA_NO_IMAGE;
    file f;
    memcpy(&f, image, sizeof f);
    for (uint64_t at = 0; at < f.bytes;) {
        entry e;
        memcpy(&e, image + f.header + at, sizeof e);
        if (e.header < sizeof e || e.packed) return MR_CUDA_BAD_IMAGE;
        const mr_cuda_result one = reads_entry(&e, image + f.header + at + e.header);
        if (!one) return 0;
        if (one != MR_CUDA_NO_IMAGE) result = one;
        at += e.header + e.bytes;
    }
    return result;
}

/* What tests give in place of an image begins with "of". */
mr_cuda_result fake_reads(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == FILE_OF_IMAGES) return reads_file(image);
    return strncmp(image, "of", 2) == 0 ? 0 : reads_text(image);
}
