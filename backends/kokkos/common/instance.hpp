#pragma once

#include <Kokkos_Core.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/ops/device.hpp"

/// The execution instances of Kokkos that kernels run on. None is Kokkos' default one: that belongs to the host
/// program.
namespace keelson::kokkos {

using Space = Kokkos::DefaultExecutionSpace;
inline constexpr bool runs_on_cpu = std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>;

class Instance : public ExecutionInstance {
 public:
  explicit Instance(Space space) : space_(std::move(space)) {}
  ~Instance() override;
  int concurrency() const override { return space_.concurrency(); }
  /// For spaces whose work is done when a call returns; others override it.
  void wait_for(ExecutionInstance& other) override;
  const Space& space() const { return space_; }

 protected:
  Previous enter() override;
  void leave(const Previous& previous) override;

 private:
  Space space_;
};

/// The calling host thread's: that of its innermost InstanceScope, else the main one.
Instance& current_instance();
inline const Space& space() { return current_instance().space(); }

/// Makes `make()` the main instance of this process if there is none. It ends before Kokkos does.
void ensure_main_instance(std::shared_ptr<Instance> (*make)());
Instance& main_instance();

/// On a CPU with so many threads; 0: as many as Kokkos was started with.
std::shared_ptr<Instance> make_instance(int threads);

}  // namespace keelson::kokkos
