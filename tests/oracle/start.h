// start.h -- what libtorch_cuda does before the first allocation, done by hand.
#pragma once

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
#include <c10/cuda/PeerToPeerAccess.h>
#define HAVE_P2P_CACHE 1
#endif

// c10_cuda asks libtorch_cuda whether a device has a context and throws when nobody has
// registered an answer (needed as soon as events are recorded).
namespace c10::cuda::_internal
{
void setHasPrimaryContext(bool (*func)(c10::DeviceIndex));
}

// Newer versions ask NVML whether memory can be shared through a fabric before they map the
// first page; with the handle type chosen they do not ask. It has no influence on sizes.
template <class Config> void choose_handle_type()
{
    using namespace c10::cuda::CUDACachingAllocator;
    if constexpr (requires { Config::expandable_segments_handle_type(); })
        Config::set_expandable_segments_handle_type(
            decltype(Config::expandable_segments_handle_type())(1)); // file descriptors
}

inline void start_allocator()
{
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
#ifdef HAVE_P2P_CACHE
    c10::cuda::detail::init_p2p_access_cache(1);
#endif
    choose_handle_type<c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig>();
    c10::cuda::CUDACachingAllocator::init(1);
}
