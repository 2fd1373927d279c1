#pragma once

#include "engine/graph/instance_order.hpp"
#include "engine/ops/context.hpp"

namespace keelson {

/// One block of context memory for executors of which only one runs at a time. It grows for the largest; executors
/// notice by the generation and bind anew.
class Arena {
 public:
  explicit Arena(Context& context) : context_(context) {}
  void reserve(std::size_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(block_.get()); }
  std::size_t bytes() const { return bytes_; }
  int generation() const { return generation_; }
  InstanceOrder& order() { return order_; }

 private:
  Context& context_;
  std::shared_ptr<void> block_;
  std::size_t bytes_ = 0;
  int generation_ = 0;
  InstanceOrder order_;
};

}  // namespace keelson
