#include <Kokkos_Core.hpp>

#include "backends/registry.hpp"

namespace keelson::backends {

Runtime::Runtime(int threads) {
  if (threads < 0) refuse("{} threads; give at least 1, or 0 for all that this process may use", threads);
  if (Kokkos::is_initialized()) return;
  if (Kokkos::is_finalized())
    fail("Kokkos was finalized before and cannot be started again; keep one Runtime for the whole program");
  Kokkos::InitializationSettings settings;
  if (threads > 0) settings.set_num_threads(threads);
  settings.set_disable_warnings(true);  // about OMP_PROC_BIND: binding is the caller's decision
  Kokkos::initialize(settings);
  owns_ = true;
}

Runtime::~Runtime() {
  if (owns_ && Kokkos::is_initialized()) Kokkos::finalize();
}

}  // namespace keelson::backends
