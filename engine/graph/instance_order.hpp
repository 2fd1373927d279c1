#pragma once

#include <memory>

#include "engine/ops/device.hpp"

namespace keelson {

/// Orders the work of execution instances that use the same memory one after the other. Not thread-safe.
class InstanceOrder {
 public:
  /// Work that is queued on `instance` from now on runs after all work that was queued on the instance of the previous
  /// call. Does not block the host.
  void take_turn(ExecutionInstance& instance) {
    if (last_.expired() || current_ != &instance) {
      if (const auto before = last_.lock())
        instance.wait_for(*before);  // an instance that no longer exists has left no work
      last_ = instance.weak_from_this();
      current_ = &instance;
    }
  }

 private:
  std::weak_ptr<ExecutionInstance> last_;
  const ExecutionInstance* current_ = nullptr;  ///< the instance of last_, for a fast comparison
};

}  // namespace keelson
