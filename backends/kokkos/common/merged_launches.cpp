#include "backends/kokkos/common/merged_launches.hpp"

#include "backends/kokkos/common/run_merged.hpp"
#include "engine/base/error.hpp"

namespace keelson::kokkos {

namespace {

thread_local MergedLaunches* active_launches = nullptr;

}  // namespace

MergedLaunches* MergedLaunches::active() { return active_launches; }

void MergedLaunches::run(std::size_t count, const std::function<void(std::size_t)>& piece) {
  static thread_local MergedLaunches launches;  // keeps its memory, since steps do not allocate
  KEELSON_EXPECT(!active_launches);
  active_launches = &launches;
  try {
    for (std::size_t i = 0; i < count; ++i) {
      launches.level_ = 0;
      piece(i);
    }
    active_launches = nullptr;  // what follows is launched
    for (auto& level : launches.levels_)
      for (Kind& kind : level) kind.launches->launch_all();
  } catch (...) {
    active_launches = nullptr;
    launches.forget();
    throw;
  }
  launches.forget();
}

void MergedLaunches::forget() {
  for (auto& level : levels_)
    for (Kind& kind : level) kind.launches->forget();
}

void run_merged(std::size_t count, const std::function<void(std::size_t)>& piece) { MergedLaunches::run(count, piece); }

}  // namespace keelson::kokkos
