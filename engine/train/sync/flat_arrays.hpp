#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/parameters.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/eltwise.hpp"

namespace keelson {

/// Some arrays of a network as one array, which ranks exchange and add up. A block is plain f32 (size()) in the memory
/// of the parameters' device, with all arrays one after the other. The work is queued on the device's current instance.
class FlatArrays {
 public:
  /// Which arrays.
  struct Content {
    bool values = true;      ///< of trained parameters
    bool statistics = true;  ///< running mean and variance of batch normalizations
    bool moments = true;     ///< the optimizer's state
  };
  /// The arrays must stay where they are, and exist already.
  FlatArrays(Parameters& parameters, const Content& content);

  std::int64_t size() const { return size_; }             ///< floats of a block
  Tensor allocate(const std::string& name) const;         ///< a block of zeros
  void gather(const Tensor& block) const;                 ///< block = the arrays
  void scatter(const Tensor& block) const;                ///< the arrays = block
  void copy(const Tensor& to, const Tensor& from) const;  ///< of blocks
  /// to = the sum of `terms`, of blocks; `to` may be the first of them
  void add(const Tensor& to, const std::vector<Tensor>& terms);
  void scale(const Tensor& block, float factor);  ///< block = factor block

 private:
  Parameters& parameters_;
  std::vector<Tensor> arrays_;
  std::int64_t size_ = 0;
  std::map<std::size_t, std::shared_ptr<ops::Sum>> sums_;  ///< by terms
  std::map<float, std::shared_ptr<ops::Eltwise>> scales_;
};

}  // namespace keelson
