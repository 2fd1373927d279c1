#pragma once

#include "backends/kokkos/common/kernel.hpp"

/// Sizes of a core's data caches, by which kernels for CPUs cut their work. The machine is asked once.
namespace keelson::kokkos {

Index first_cache_bytes();   ///< 32 KiB where the machine does not tell
Index second_cache_bytes();  ///< 1 MiB where the machine does not tell

}  // namespace keelson::kokkos
