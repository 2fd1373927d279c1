#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson {

/// The sum over ranks of a block of floats. The block moves in pieces of a size that the exchange moves fast.
class BlockSum {
 public:
  /// `block`: plain f32, in the memory that `ranks` works on; it must stay where it is. `label` for messages: "the
  /// parameters". Collective.
  BlockSum(Communicator& ranks, const Tensor& block, std::size_t piece_bytes, const std::string& label);
  void start();  ///< returns at once
  void wait();   ///< until block = the sum. At once if nothing was started
 private:
  std::vector<std::unique_ptr<Collective>> pieces_;
};

}  // namespace keelson
