#pragma once

/// Kokkos' beginning and end, for those who must not include it.
namespace keelson::kokkos {

bool started();   ///< by whomever, and not ended
bool finished();  ///< it cannot be started again

/// With `threads` threads (0: all that this process may use); `gpu`: the number of the GPU, where the default space is
/// one (negative: Kokkos' choice).
void start(int threads, int gpu);
void finish();

}  // namespace keelson::kokkos
