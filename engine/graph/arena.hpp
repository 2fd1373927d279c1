#pragma once

#include "engine/graph/instance_order.hpp"
#include "engine/ops/context.hpp"

namespace keelson {

/// One block of device memory that executors share; only one of them runs at a time. The block grows to the size that
/// the largest executor needs. Executors compare the generation with the last one that they have seen, and bind their
/// calls again after the block has moved.
class Arena {
 public:
  /// Without memory at first. The context must outlive the arena.
  explicit Arena(Context& context) : context_(context) {}
  /// Makes the block at least this large. A larger block takes the place of the old one, and the contents are lost.
  /// Throws OutOfMemory if the device has no room.
  void reserve(std::size_t bytes);
  /// Device memory, 64-byte aligned; null before reserve().
  std::byte* data() const { return static_cast<std::byte*>(block_.get()); }
  std::size_t bytes() const { return bytes_; }    ///< size of the block
  int generation() const { return generation_; }  ///< how often the block has been allocated; 0: no block yet
  InstanceOrder& order() { return order_; }       ///< order of the executors' instances that use the block

 private:
  Context& context_;
  std::shared_ptr<void> block_;
  std::size_t bytes_ = 0;
  int generation_ = 0;
  InstanceOrder order_;
};

}  // namespace keelson
