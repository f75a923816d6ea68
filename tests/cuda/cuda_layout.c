/* Compiled where there are headers of a CUDA Toolkit: our declarations are theirs. */
#include <cublas_v2.h>
#include <cuda.h>
#include <stddef.h>

#include "cublas.h"

#if CUDA_VERSION < 11010
#error "expected CUDA 11.1 or later: set MR_CUDA_INCLUDE to an empty folder to go without"
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
SAME("clock", (int)MR_CUDA_CLOCK, (int)CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME("processors", (int)MR_CUDA_PROCESSORS, (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME("mode", (int)MR_CUDA_MODE, (int)CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME("prohibited", 2, (int)CU_COMPUTEMODE_PROHIBITED);
SAME("mapping", (int)MR_CUDA_HAS_MAPPING,
     (int)CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
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
SAME("any algorithm", (int)MR_CUBLAS_ANY, (int)CUBLAS_GEMM_DEFAULT);
