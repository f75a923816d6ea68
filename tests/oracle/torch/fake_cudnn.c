/* fake_cudnn.c -- libfakecudnn.so: the real cuDNN, told of a device that is not there.
 *
 * cuDNN chooses the engine of a convolution and says what workspace it needs from the
 * properties of a device. Since release 9.8 it takes them from a description instead of a
 * device, to compile ahead of time ("deviceless"). PyTorch asks it by a handle. Preloaded,
 * these functions come before cuDNN's own: where PyTorch names the handle they name the
 * description, of the device that the fake runtime pretends, and hand the call on. A plan that
 * is to be executed does nothing.
 *
 * What cuDNN has by handle alone is not asked for: batch normalisation takes no workspace and
 * reserves nothing but in its mode for channels that come last, which says "not supported", as
 * recurrent layers do.
 */
#define _GNU_SOURCE
#include "../fakecuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000 };
enum { DEVICE_DESCRIPTOR = 38, TYPE_DESCRIPTOR = 15, TYPE_CHAR = 24 };
enum { /* attributes: where a handle belongs, and where a device may be named instead */
       HEURISTIC_GRAPH = 201,
       HEURISTIC_DEVICE = 204,
       PLAN_HANDLE = 400,
       PLAN_DEVICE = 407,
       GRAPH_HANDLE = 800,
       ENGINE_GRAPH = 1300,
       ENGINE_DEVICE = 1307,
       DEVICE_JSON = 2702,
};

#define ANSWER(name, code)                                                                     \
    FC_PUBLIC int name(void);                                                                  \
    int name(void)                                                                             \
    {                                                                                          \
        return code;                                                                           \
    }

typedef int set_function(void *descriptor, int attribute, int type, int64_t n, const void *at);

/* ---- the real library ------------------------------------------------------------- */

static void *real(const char *name)
{
    void *library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;
    if (function) return function;
    fprintf(stderr, "fake cuDNN: %s was not found in the real one\n", name);
    abort();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static set_function *set;
static void *device; /* its description, null where cuDNN did not take it */

/* Of the attributes of the runtime: as cuDNN itself writes a description of a device. */
static const struct {
    const char *name;
    int attribute;
} members[] = {
    {"regsPerBlock", 12},
    {"multiProcessorCount", 16},
    {"warpSize", 10},
    {"maxSharedMemoryPerBlock", 8},
    {"maxSharedMemoryPerBlockOptin", 97},
    {"reservedSharedMemoryPerBlock", 111},
    {"maxRegistersPerSM", 82},
    {"maxCtasPerSM", 106},
    {"maxThreadsPerBlock", 1},
    {"maxThreadsPerSM", 39},
    {"pciDeviceId", 34},
    {"isTccDriver", 35},
    {"supportCoopLaunch", 95},
    {"smClockRateKHz", 13},
    {"memClockRateKHz", 36},
    {"l2CacheSize", 38},
};

static int describe(char *text, size_t size)
{
    int n =
        snprintf(text, size, "{\"maxGridSize\": [%d, %d, %d], \"maxBlockSize\": [%d, %d, %d], ",
                 fc_attribute(5), fc_attribute(6), fc_attribute(7), fc_attribute(2),
                 fc_attribute(3), fc_attribute(4));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        n += snprintf(text + n, size - (size_t)n, "\"%s\": %d, ", members[i].name,
                      fc_attribute(members[i].attribute));
    n += snprintf(text + n, size - (size_t)n,
                  "\"smCountOrigin\": 0, \"oversizedSharedMemoryPerBlock\": 0, "
                  "\"totalGlobalMem\": %llu, \"cudaDeviceId\": 0, \"deviceVer\": %d, "
                  "\"driverVer\": 13000, \"deviceName\": \"%s\"}",
                  (unsigned long long)fc_total(0),
                  100 * fc_attribute(75) + 10 * fc_attribute(76), fc_model());
    return n + 1;
}

static void make_device(void)
{
    int (*create)(int, void **) = real("cudnnBackendCreateDescriptor");
    int (*finalize)(void *) = real("cudnnBackendFinalize");
    char text[2048];
    const int n = describe(text, sizeof text);
    set = real("cudnnBackendSetAttribute");
    fc_log("cuDNN for %s", text);
    if (create(DEVICE_DESCRIPTOR, &device) || set(device, DEVICE_JSON, TYPE_CHAR, n, text)
        || finalize(device)) {
        fprintf(stderr, "fake cuDNN: the real one does not take %s\n", text);
        device = NULL;
    }
}

/* ---- plans ------------------------------------------------------------------------ */

FC_PUBLIC set_function cudnnBackendSetAttribute;
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *at)
{
    pthread_once(&once, make_device);
    if (!device) return NOT_SUPPORTED;
    if (name == GRAPH_HANDLE) return SUCCESS;
    if (name == PLAN_HANDLE) return set(descriptor, PLAN_DEVICE, TYPE_DESCRIPTOR, 1, &device);
    const int error = set(descriptor, name, type, n, at);
    if (error || (name != HEURISTIC_GRAPH && name != ENGINE_GRAPH)) return error;
    return set(descriptor, name == HEURISTIC_GRAPH ? HEURISTIC_DEVICE : ENGINE_DEVICE,
               TYPE_DESCRIPTOR, 1, &device);
}
ANSWER(cudnnBackendExecute, SUCCESS)

/* ---- handles ---------------------------------------------------------------------- */

typedef struct handle {
    void *stream;
} handle;

FC_PUBLIC int cudnnCreate(handle **out);
int cudnnCreate(handle **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? SUCCESS : BAD_PARAM;
}
FC_PUBLIC int cudnnDestroy(handle *h);
int cudnnDestroy(handle *h)
{
    free(h);
    return SUCCESS;
}
FC_PUBLIC int cudnnSetStream(handle *h, void *stream);
int cudnnSetStream(handle *h, void *stream)
{
    h->stream = stream;
    return SUCCESS;
}
FC_PUBLIC int cudnnGetStream(handle *h, void **stream);
int cudnnGetStream(handle *h, void **stream)
{
    *stream = h->stream;
    return SUCCESS;
}

/* ---- batch normalisation ----------------------------------------------------------- */

/* The persistent mode alone, for channels that come last, has what the others do without. */
static int nothing(int mode, size_t *bytes)
{
    enum { PERSISTENT = 2 };
    *bytes = 0;
    return mode == PERSISTENT ? NOT_SUPPORTED : SUCCESS;
}
FC_PUBLIC int
cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle *h, int mode, int ops, void *x,
                                                         void *z, void *y, void *statistics,
                                                         void *activation, size_t *bytes);
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle *h, int mode, int ops,
                                                             void *x, void *z, void *y,
                                                             void *statistics, void *activation,
                                                             size_t *bytes)
{
    (void)h, (void)ops, (void)x, (void)z, (void)y, (void)statistics, (void)activation;
    return nothing(mode, bytes);
}
FC_PUBLIC int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    handle *h, int mode, int ops, void *x, void *y, void *dy, void *dz, void *dx,
    void *statistics, void *activation, size_t *bytes);
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(handle *h, int mode, int ops, void *x,
                                                      void *y, void *dy, void *dz, void *dx,
                                                      void *statistics, void *activation,
                                                      size_t *bytes)
{
    (void)h, (void)ops, (void)x, (void)y, (void)dy, (void)dz, (void)dx, (void)statistics;
    (void)activation;
    return nothing(mode, bytes);
}
FC_PUBLIC int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle *h, int mode, int ops,
                                                                   void *activation, void *x,
                                                                   size_t *bytes);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle *h, int mode, int ops,
                                                         void *activation, void *x,
                                                         size_t *bytes)
{
    (void)h, (void)ops, (void)activation, (void)x;
    return nothing(mode, bytes);
}
ANSWER(cudnnBatchNormalizationForwardTrainingEx, SUCCESS)
ANSWER(cudnnBatchNormalizationForwardInference, SUCCESS)
ANSWER(cudnnBatchNormalizationBackwardEx, SUCCESS)

/* ---- not here: the rest of what PyTorch calls with a handle ------------------------- */
ANSWER(cudnnCTCLoss, NOT_SUPPORTED)
ANSWER(cudnnCTCLoss_v8, NOT_SUPPORTED)
ANSWER(cudnnConvolutionBackwardData, NOT_SUPPORTED)
ANSWER(cudnnConvolutionBackwardFilter, NOT_SUPPORTED)
ANSWER(cudnnConvolutionBiasActivationForward, NOT_SUPPORTED)
ANSWER(cudnnConvolutionForward, NOT_SUPPORTED)
ANSWER(cudnnDropoutGetStatesSize, NOT_SUPPORTED)
ANSWER(cudnnFindConvolutionBackwardDataAlgorithmEx, NOT_SUPPORTED)
ANSWER(cudnnFindConvolutionBackwardFilterAlgorithmEx, NOT_SUPPORTED)
ANSWER(cudnnFindConvolutionForwardAlgorithmEx, NOT_SUPPORTED)
ANSWER(cudnnGetCTCLossWorkspaceSize, NOT_SUPPORTED)
ANSWER(cudnnGetCTCLossWorkspaceSize_v8, NOT_SUPPORTED)
ANSWER(cudnnGetConvolutionBackwardDataAlgorithm_v7, NOT_SUPPORTED)
ANSWER(cudnnGetConvolutionBackwardDataWorkspaceSize, NOT_SUPPORTED)
ANSWER(cudnnGetConvolutionBackwardFilterAlgorithm_v7, NOT_SUPPORTED)
ANSWER(cudnnGetConvolutionBackwardFilterWorkspaceSize, NOT_SUPPORTED)
ANSWER(cudnnGetConvolutionForwardAlgorithm_v7, NOT_SUPPORTED)
ANSWER(cudnnGetConvolutionForwardWorkspaceSize, NOT_SUPPORTED)
ANSWER(cudnnGetRNNTempSpaceSizes, NOT_SUPPORTED)
ANSWER(cudnnGetRNNWeightParams, NOT_SUPPORTED)
ANSWER(cudnnGetRNNWeightSpaceSize, NOT_SUPPORTED)
ANSWER(cudnnPoolingForward, NOT_SUPPORTED)
ANSWER(cudnnRNNBackwardData_v8, NOT_SUPPORTED)
ANSWER(cudnnRNNBackwardWeights_v8, NOT_SUPPORTED)
ANSWER(cudnnRNNForward, NOT_SUPPORTED)
ANSWER(cudnnRestoreDropoutDescriptor, NOT_SUPPORTED)
ANSWER(cudnnSetDropoutDescriptor, NOT_SUPPORTED)
ANSWER(cudnnSpatialTfGridGeneratorBackward, NOT_SUPPORTED)
ANSWER(cudnnSpatialTfGridGeneratorForward, NOT_SUPPORTED)
ANSWER(cudnnSpatialTfSamplerBackward, NOT_SUPPORTED)
ANSWER(cudnnSpatialTfSamplerForward, NOT_SUPPORTED)
