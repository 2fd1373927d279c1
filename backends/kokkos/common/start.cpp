#include "backends/kokkos/common/start.hpp"

#include <Kokkos_Core.hpp>

namespace keelson::kokkos {

bool started() { return Kokkos::is_initialized(); }
bool finished() { return Kokkos::is_finalized(); }

void start(int threads, int gpu) {
  Kokkos::InitializationSettings settings;
  if (threads > 0) settings.set_num_threads(threads);
  if (gpu >= 0) settings.set_device_id(gpu);
  settings.set_disable_warnings(true);  // about OMP_PROC_BIND: the caller decides about binding
  Kokkos::initialize(settings);
}

void finish() { Kokkos::finalize(); }

}  // namespace keelson::kokkos
