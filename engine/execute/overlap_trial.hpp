#pragma once

#include <limits>
#include <memory>
#include <string>

#include "engine/ops/device.hpp"

namespace keelson {

/// The same work of a step captured twice: on one execution instance and on two. Both ways compute the same bits. Some
/// steps launch one of the two in turn and measure its time; then the faster one is kept.
class OverlapTrial {
 public:
  /// `name`: of the work, for messages.
  OverlapTrial(std::string name, std::unique_ptr<CapturedGraph> one, std::unique_ptr<CapturedGraph> two)
      : name_(std::move(name)), one_{std::move(one)}, two_{std::move(two)} {}
  /// Does the work and waits for it. After some launches returns the faster graph, which is used from then on; else
  /// null.
  std::unique_ptr<CapturedGraph> launch(Device& device);

 private:
  struct Candidate {
    std::unique_ptr<CapturedGraph> graph;
    double seconds = std::numeric_limits<double>::infinity();  ///< the least so far
  };

  std::string name_;
  Candidate one_, two_;
  int launches_ = 0;
};

}  // namespace keelson
