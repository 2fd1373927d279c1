#pragma once

#include <cstddef>
#include <functional>

namespace keelson::kokkos {

/// Device::run_together() for kernels of Kokkos: runs piece(0), ... piece(count - 1), and launches kernels of one type
/// together. This header needs no header of Kokkos.
void run_merged(std::size_t count, const std::function<void(std::size_t)>& piece);

}  // namespace keelson::kokkos
