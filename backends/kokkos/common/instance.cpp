#include "backends/kokkos/common/instance.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <vector>

#include "engine/base/error.hpp"

namespace keelson::kokkos {

namespace {

thread_local Instance* current = nullptr;

std::shared_ptr<Instance>& main_owner() {
  static std::shared_ptr<Instance> owner;
  return owner;
}

/// The number of threads of oneDNN, and of parallel regions without num_threads. OpenMP keeps it per host thread.
int openmp_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 0;
#endif
}

void set_openmp_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  if (threads > 0 && omp_get_max_threads() != threads) omp_set_num_threads(threads);
#endif
}

template <class S>
S make_space([[maybe_unused]] int threads) {
  if constexpr (runs_on_cpu && std::is_constructible_v<S, int>)  // OpenMP
    return S(threads);
  else
    return Kokkos::Experimental::partition_space(S(), std::vector<int>{1}).front();
}

struct SpaceEvent : Event {
  explicit SpaceEvent(Space s) : space(std::move(s)) {}
  const Space space;
};

}  // namespace

Instance::~Instance() {
  try {
    space_.fence("keelson::instance::end");
  } catch (const std::exception&) {
    // ignore a fault of the device here: reading the results reports it, too
  }
}

std::shared_ptr<Event> Instance::record() { return std::make_shared<SpaceEvent>(space_); }
void Instance::wait_for(const Event& event) { static_cast<const SpaceEvent&>(event).space.fence("keelson::wait_for"); }

Instance::Previous Instance::enter() {
  const Previous previous{current, openmp_threads()};
  current = this;
  if constexpr (runs_on_cpu) set_openmp_threads(concurrency());
  return previous;
}

void Instance::leave(const Previous& previous) {
  current = static_cast<Instance*>(previous.instance);
  set_openmp_threads(previous.threads);
}

Instance& main_instance() {
  KEELSON_EXPECT(main_owner());
  return *main_owner();
}

Instance& current_instance() { return current ? *current : main_instance(); }

void ensure_main_instance(std::shared_ptr<Instance> (*make)()) {
  if (main_owner()) return;
  main_owner() = make();
  Kokkos::push_finalize_hook([] { main_owner().reset(); });
}

std::shared_ptr<Instance> make_instance(int threads) {
  const int all = Space().concurrency();
  const int most = runs_on_cpu ? all : 0;
  if (threads < 0 || threads > most)
    refuse("an execution instance of {} threads: {}", threads,
           runs_on_cpu ? fmt::format("give 1 to {}, the number that Kokkos was started with, or 0 for all", all)
                       : std::string("this device has no threads to choose; give 0"));
  return std::make_shared<Instance>(make_space<Space>(threads > 0 ? threads : all));
}

}  // namespace keelson::kokkos
