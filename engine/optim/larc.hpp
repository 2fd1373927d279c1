#pragma once

#include <string>

#include "engine/ops/update.hpp"

namespace keelson {

/// LARC (You, Gitman, Ginsburg 2017): each parameter's gradient is scaled by a local rate, as ops::UpdateParams says. A
/// part of optimizers.
struct Larc {
  ops::LarcMode mode = ops::LarcMode::none;
  float eta = 0.002f;     ///< trust coefficient
  float floor = 0;        ///< the local rate where a norm is 0
  bool relative = false;  ///< clip: the local rate is divided by the learning rate

  void apply_to(ops::UpdateParams& p) const;
  bool needs_norms() const { return mode != ops::LarcMode::none; }  ///< of each parameter and of its gradient
  std::string to_string() const;                                    ///< ", larc clip 0.002"; empty without LARC
};

}  // namespace keelson
