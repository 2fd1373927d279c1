#pragma once

#include "backends/kokkos/common/kernel.hpp"

/// Sizes of a core's data caches, for the block sizes of kernels on CPUs. The operating system is asked once.
namespace keelson::kokkos {

Index first_cache_bytes();   ///< 32 KiB if the size is not known
Index second_cache_bytes();  ///< 1 MiB if the size is not known

}  // namespace keelson::kokkos
