/* launches -- modules, the kernels in them, and their launches. */
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

enum { ARGUMENTS = 4096 };

struct mr_cuda_function {
    const fake_kernel_entry *kernel;
    int device;
};

enum { FUNCTIONS = 8 };

struct mr_cuda_module {
    int device;
    struct mr_cuda_function functions[FUNCTIONS];
    uint32_t n;
    struct mr_cuda_module *next;
};

static struct mr_cuda_module *modules;

mr_cuda_result cuModuleLoadData(mr_cuda_module **module, const void *image);
mr_cuda_result cuModuleLoadData(mr_cuda_module **module, const void *image)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!image) return fake_wrong("cuModuleLoadData of nothing");
    const mr_cuda_result unread = fake_reads(image);
    if (unread) return unread;
    *module = calloc(1, sizeof **module);
    (*module)->device = fake_device();
    (*module)->next = modules;
    modules = *module;
    fake_hold(1);
    return 0;
}

mr_cuda_result cuModuleUnload(mr_cuda_module *module);
mr_cuda_result cuModuleUnload(mr_cuda_module *module)
{
    FAKE_CALL failed = fake_begin(__func__);
    for (struct mr_cuda_module **m = &modules; *m; m = &(*m)->next) {
        if (*m != module) continue;
        *m = module->next;
        fake_finish_all(); /* what was launched from it */
        free(module);
        fake_hold(-1);
        return failed;
    }
    return fake_wrong("a module is unloaded that nobody has");
}

mr_cuda_result cuModuleGetFunction(mr_cuda_function **function, mr_cuda_module *module,
                                   const char *name);
mr_cuda_result cuModuleGetFunction(mr_cuda_function **function, mr_cuda_module *module,
                                   const char *name)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    const fake_kernel_entry *found = fake_kernel_find(name);
    if (!found || module->n == FUNCTIONS) return FAKE_CUDA_NOT_FOUND;
    *function = &module->functions[module->n++];
    **function = (struct mr_cuda_function){found, module->device};
    return 0;
}

mr_cuda_result cuLaunchKernel(mr_cuda_function *function, unsigned x, unsigned y, unsigned z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z,
                              unsigned shared, mr_cuda_stream *stream, void **arguments,
                              void **extra);
mr_cuda_result cuLaunchKernel(mr_cuda_function *function, unsigned x, unsigned y, unsigned z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z,
                              unsigned shared, mr_cuda_stream *stream, void **arguments,
                              void **extra)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    const unsigned threads = threads_x * threads_y * threads_z;
    if (!x || !y || y > 65535 || !z || !threads || threads > 1024 || shared || extra)
        return fake_wrong("a launch of %u x %u blocks of %u threads", x, y, threads);
    const fake_kernel_entry *kernel = function->kernel;
    if (function->device != fake_device())
        return fake_wrong("a kernel of another device than the current context's");
    if (kernel->bytes > ARGUMENTS) return fake_wrong("%zu bytes of arguments", kernel->bytes);
    char *own = calloc(1, kernel->bytes), *at = own;
    for (size_t i = 0; i < MR_COUNT(kernel->sizes) && kernel->sizes[i]; i++) {
        memcpy(at, arguments[i], kernel->sizes[i]);
        at += (kernel->sizes[i] + 7) / 8 * 8;
    }
    return fake_launch(stream, kernel->run, own);
}

void fake_modules_forget(void)
{
    while (modules) {
        struct mr_cuda_module *m = modules;
        modules = m->next;
        free(m);
    }
}
