#pragma once

#include <memory>

#include "engine/ops/device.hpp"

namespace keelson {

/// Brings the execution instances that use the same memory, one after the other, into order on the device. Not
/// thread-safe.
class InstanceOrder {
 public:
  /// Work queued on `instance` from now on comes after all work queued so far on the instance that was here before.
  void take_turn(ExecutionInstance& instance) {
    if (last_.expired() || current_ != &instance) {
      if (const auto before = last_.lock()) instance.wait_for(*before);  // one that has ended left no work behind
      last_ = instance.weak_from_this();
      current_ = &instance;
    }
  }

 private:
  std::weak_ptr<ExecutionInstance> last_;
  const ExecutionInstance* current_ = nullptr;  ///< as last_, for a quick look
};

}  // namespace keelson
