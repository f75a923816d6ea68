/* Compiled where there are headers of a CUDA Toolkit: our declarations are theirs. */
#include <cublas_v2.h>
#include <cuda.h>
#include <stddef.h>

#include "cublas.h"
#include "profiler.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX
#endif

#if CUDA_VERSION < 11040
#error "expected CUDA 11.4 or later: set MR_CUDA_INCLUDE to an empty folder to go without"
#endif

#define SAME(what, a, b) _Static_assert((a) == (b), what)

SAME("properties", sizeof(mr_cuda_property), sizeof(CUmemAllocationProp));
SAME("their location", offsetof(mr_cuda_property, location),
     offsetof(CUmemAllocationProp, location));
SAME("location", sizeof(mr_cuda_location), sizeof(CUmemLocation));
SAME("access", sizeof(mr_cuda_access), sizeof(CUmemAccessDesc));
SAME("flags of an access", offsetof(mr_cuda_access, flags), offsetof(CUmemAccessDesc, flags));
SAME("pointers", sizeof(mr_cuda_pointer), sizeof(CUdeviceptr));
SAME("handles", sizeof(mr_cuda_handle), sizeof(CUmemGenericAllocationHandle));
SAME("devices", sizeof(int), sizeof(CUdevice));
SAME("pinned", (int)MR_CUDA_PINNED, (int)CU_MEM_ALLOCATION_TYPE_PINNED);
SAME("on a device", (int)MR_CUDA_ON_DEVICE, (int)CU_MEM_LOCATION_TYPE_DEVICE);
SAME("both ways", (int)MR_CUDA_READ_WRITE, (int)CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME("streams", (int)MR_CUDA_OF_ITS_OWN, (int)CU_STREAM_NON_BLOCKING);
SAME("events", (int)MR_CUDA_UNTIMED, (int)CU_EVENT_DISABLE_TIMING);
SAME("processors", (int)MR_CUDA_PROCESSORS, (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME("mode", (int)MR_CUDA_MODE, (int)CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME("prohibited", 2, (int)CU_COMPUTEMODE_PROHIBITED);
SAME("mapping", (int)MR_CUDA_HAS_MAPPING,
     (int)CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME("pools of memory", (int)MR_CUDA_HAS_POOLS,
     (int)CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME("properties of pools", sizeof(mr_cuda_pool_property), sizeof(CUmemPoolProps));
SAME("location of pools", offsetof(mr_cuda_pool_property, location),
     offsetof(CUmemPoolProps, location));
SAME("waiting for others' memory", (int)MR_CUDA_POOL_WAITS,
     (int)CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME("what a pool keeps", (int)MR_CUDA_POOL_KEEPS, (int)CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME("most that a pool held", (int)MR_CUDA_POOL_PEAK,
     (int)CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME("no memory", (int)MR_CUDA_NO_MEMORY, (int)CUDA_ERROR_OUT_OF_MEMORY);
SAME("stub", (int)MR_CUDA_STUB, (int)CUDA_ERROR_STUB_LIBRARY);
SAME("busy", (int)MR_CUDA_UNAVAILABLE, (int)CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME("no device", (int)MR_CUDA_NO_DEVICE, (int)CUDA_ERROR_NO_DEVICE);
SAME("no image", (int)MR_CUDA_NO_IMAGE, (int)CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME("new PTX", (int)MR_CUDA_PTX_TOO_NEW, (int)CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME("not ready", (int)MR_CUDA_NOT_READY, (int)CUDA_ERROR_SYSTEM_NOT_READY);
SAME("mismatch", (int)MR_CUDA_MISMATCH, (int)CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME("single", (int)MR_CUBLAS_FLOAT32, (int)CUDA_R_32F);
SAME("double", (int)MR_CUBLAS_FLOAT64, (int)CUDA_R_64F);
SAME("half", (int)MR_CUBLAS_FLOAT16, (int)CUDA_R_16F);
SAME("bfloat16", (int)MR_CUBLAS_BFLOAT16, (int)CUDA_R_16BF);
SAME("sums in single", (int)MR_CUBLAS_IN_FP32, (int)CUBLAS_COMPUTE_32F);
SAME("sums in double", (int)MR_CUBLAS_IN_FP64, (int)CUBLAS_COMPUTE_64F);
SAME("sums in TF32", (int)MR_CUBLAS_IN_TF32, (int)CUBLAS_COMPUTE_32F_FAST_TF32);
SAME("not on this device", (int)MR_CUBLAS_CANNOT, (int)CUBLAS_STATUS_NOT_SUPPORTED);
SAME("any algorithm", (int)MR_CUBLAS_ANY, (int)CUBLAS_GEMM_DEFAULT);

#ifdef HAS_NVTX
SAME("table of callbacks", (int)MR_NVTX_CALLBACKS, (int)NVTX_ETID_CALLBACKS);
SAME("table of versions", (int)MR_NVTX_VERSIONS, (int)NVTX_ETID_VERSIONINFO);
SAME("its version", (int)MR_NVTX_VERSION, NVTX_VERSION);
SAME("the core", (int)MR_NVTX_CORE, (int)NVTX_CB_MODULE_CORE);
SAME("modules", (int)MR_NVTX_MODULES, (int)NVTX_CB_MODULE_SIZE);
SAME("push", (int)MR_NVTX_PUSH, (int)NVTX_CBID_CORE_RangePushA);
SAME("pop", (int)MR_NVTX_POP, (int)NVTX_CBID_CORE_RangePop);
SAME("functions of the core", (int)MR_NVTX_CORE_SIZE, (int)NVTX_CBID_CORE_SIZE);
SAME("callbacks", sizeof(mr_nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME("versions", sizeof(mr_nvtx_versions), sizeof(NvtxExportTableVersionInfo));
SAME("who tells versions", offsetof(mr_nvtx_versions, tell),
     offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
#endif
