/* fake_nvml.c -- libnvidia-ml.so.1 of a machine whose devices belong to no fabric.
 *
 * Before it maps its first expandable page, PyTorch asks for the state of the fabric and does
 * not expect that the library is missing. Where it asks for a list of processes, for the text
 * of an error, it is told that there is none.
 */
#include "../fakecuda.h"

enum { OK = 0, NOT_SUPPORTED = 3 };

#define ANSWER(name, code)                                                                     \
    FC_PUBLIC int name(void);                                                                  \
    int name(void)                                                                             \
    {                                                                                          \
        return code;                                                                           \
    }

ANSWER(nvmlInit_v2, OK)
ANSWER(nvmlShutdown, OK)
ANSWER(nvmlDeviceGetGpuFabricInfoV, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetComputeRunningProcesses, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetNvLinkRemoteDeviceType, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetNvLinkRemotePciInfo_v2, NOT_SUPPORTED)

FC_PUBLIC int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, const void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, const void **device)
{
    (void)bus;
    *device = (const void *)1;
    return OK;
}
FC_PUBLIC int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return OK;
}
