#pragma once

/// The start and the end of Kokkos, for files that must not include Kokkos.
namespace keelson::kokkos {

bool started();   ///< by any code, and not ended
bool finished();  ///< ended, and cannot be started again

/// With `threads` threads (0: all that this process may use). `gpu`: the number of the GPU, if the default space is a
/// GPU (negative: Kokkos chooses).
void start(int threads, int gpu);
void finish();

}  // namespace keelson::kokkos
