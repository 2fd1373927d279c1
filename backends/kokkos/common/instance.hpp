#pragma once

#include <Kokkos_Core.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/ops/device.hpp"

/// The execution instances of Kokkos that kernels run on. Kokkos' default instance is not used: it belongs to the host
/// program.
namespace keelson::kokkos {

using Space = Kokkos::DefaultExecutionSpace;
inline constexpr bool runs_on_cpu = std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>;

class Instance : public ExecutionInstance {
 public:
  explicit Instance(Space space) : space_(std::move(space)), one_thread_(runs_on_cpu && space_.concurrency() == 1) {}
  ~Instance() override;
  int concurrency() const override { return space_.concurrency(); }
  // For spaces whose calls return when the work is done; other spaces override these functions.
  std::shared_ptr<Event> record() override;
  using ExecutionInstance::wait_for;
  void wait_for(const Event& event) override;
  const Space& space() const { return space_; }
  bool is_one_thread() const { return one_thread_; }  ///< whether work runs in the calling host thread alone
  /// Throws Error if the device refused the last kernel, for devices whose launches report nothing by themselves.
  virtual void check_launch(const char* /*label*/) const {}

 protected:
  Previous enter() override;
  void leave(const Previous& previous) override;

 private:
  Space space_;
  const bool one_thread_;
};

/// The instance of the calling host thread's innermost InstanceScope, else the main instance.
Instance& current_instance();
inline const Space& space() { return current_instance().space(); }

/// Makes `make()` the main instance of this process if there is none. The instance ends before Kokkos does.
void ensure_main_instance(std::shared_ptr<Instance> (*make)());
Instance& main_instance();

/// On a CPU: an instance with so many threads; 0: the number that Kokkos was started with.
std::shared_ptr<Instance> make_instance(int threads);

}  // namespace keelson::kokkos
